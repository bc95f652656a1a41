//! Query requests and replies.

use std::sync::Arc;
use std::time::Duration;

use shardlake_document::Value;
use shardlake_items::{FeedScope, OpenTransaction};
use shardlake_model::ReplyMeta;
use shardlake_partition::QueryStatistics;
use shardlake_sql::{Advice, BuiltQuery, IndexUtilization, PageLimits, ResumeFilter, Rows};

use crate::figures::QueryFigures;
use crate::query_token::QueryToken;

/// A query as a client sends it.
#[derive(Debug, Clone)]
pub struct QueryRequest<'a> {
    pub text: &'a str,
    /// Names with their `@`.
    pub parameters: &'a [(String, Value)],
    pub scope: FeedScope,
    /// The client's wish: absent for the default, -1 for the server's choice.
    pub max_items: Option<i64>,
    pub continuation: Option<&'a str>,
    /// The position of a merging client in the order of the query; with a token, the later of the two
    /// positions counts.
    pub resume_filter: Option<Arc<ResumeFilter>>,
    /// If false, a query must name its partition.
    pub allows_cross_partition: bool,
    /// The server merges the partitions' answers.
    pub fans_out: bool,
    pub wants: QueryWants,
}

/// A query that a front end has built of values.
#[derive(Debug, Clone)]
pub struct ItemsRequest<'a> {
    pub built: &'a BuiltQuery,
    pub scope: FeedScope,
    /// The client's limit on the page, as for queries.
    pub max_items: Option<i64>,
    pub continuation: Option<&'a str>,
    /// The order of the items does not matter, if the query states none.
    pub in_any_order: bool,
    /// The transaction that reads.
    pub within: Option<&'a OpenTransaction>,
}

/// A client's wishes besides the rows, or for their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueryWants {
    pub explanation: bool,
    pub utilization: bool,
    pub advice: bool,
    /// The work and the time of each range.
    pub figures: bool,
    /// Without ORDER BY, rows may come in any order.
    pub any_order: bool,
}

#[derive(Debug)]
pub struct QueryReply {
    pub rows: Rows,
    pub continuation: Option<String>,
    pub meta: ReplyMeta,
    /// Every range that was read, with its LSN.
    pub ranges: Vec<(u32, u64)>,
    pub statistics: QueryStatistics,
    /// From the text to a query that can run.
    pub preparation: Duration,
    /// Part of the preparation: finding the partitions and the access to their items.
    pub planning: Duration,
    pub execution: Duration,
    /// How the items were reached, in words.
    pub explanation: Option<String>,
    pub utilization: Option<IndexUtilization>,
    pub advice: Option<Vec<Advice>>,
    pub figures: Option<QueryFigures>,
}

/// The requested page.
pub struct PageOfQuery {
    pub limits: PageLimits,
    pub token: Option<QueryToken>,
    pub query_hash: u64,
    /// The range that the request names.
    pub range_id: Option<u32>,
}
