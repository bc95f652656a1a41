//! A query plan in our own types; the gateway serializes it.

use shardlake_model::PartitionKey;

use crate::value::aggregate::AggregateFunction;

#[derive(Debug, Clone, PartialEq)]
pub struct QueryPlan {
    pub info: QueryInfo,
    pub keys: KeyFilter,
    /// It is over the whole result of another query, which is spread over many partitions, and no stage of
    /// `info` merges it.
    pub reads_a_whole_result: bool,
    /// It has a row even if it reads no item: an aggregate without groups, or no `FROM`.
    pub has_row_of_nothing: bool,
}

/// The stages of the client's merge, and the text for the partitions below it. The default is a query without any stage.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct QueryInfo {
    pub distinct: DistinctKind,
    pub top: Option<u64>,
    pub offset: Option<u64>,
    pub limit: Option<u64>,
    pub order_by: Vec<SortDirection>,
    pub order_by_expressions: Vec<String>,
    pub group_by_expressions: Vec<String>,
    /// The members of the payload in the order of the query; empty for `SELECT VALUE` and for ungrouped projections.
    pub group_by_aliases: Vec<String>,
    /// The aggregates of `SELECT VALUE aggregate`; those of other projections are in
    /// [`Self::group_by_alias_to_aggregate`].
    pub aggregates: Vec<AggregateFunction>,
    /// `None` for members that are the same for all rows of a group.
    pub group_by_alias_to_aggregate: Vec<(String, Option<AggregateFunction>)>,
    /// `None` when partitions get the original text.
    pub rewritten_query: Option<String>,
    pub has_select_value: bool,
    pub distinct_count: Option<DistinctCount>,
    /// The partitions cannot promise the order of their rows; the client must buffer them all.
    pub has_non_streaming_order_by: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DistinctKind {
    #[default]
    None,
    /// Equal rows follow one another, because the rows are ordered by themselves.
    Ordered,
    Unordered,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SortDirection {
    Ascending,
    Descending,
}

/// The query counts the distinct rows of a subquery; the client counts the rows of the rewritten query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DistinctCount {
    /// The member that holds the count; `None` for `SELECT VALUE`: the count itself.
    pub alias: Option<String>,
}

/// The partition keys that matching items can have.
#[derive(Debug, Clone, PartialEq)]
pub enum KeyFilter {
    All,
    /// No item can match, or the query reads no items at all.
    Nothing,
    /// In no particular order, each once. A key with fewer components than the definition includes all keys
    /// that begin with it.
    Keys(Vec<PartitionKey>),
}
