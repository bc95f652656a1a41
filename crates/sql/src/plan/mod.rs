//! The query plan that SDKs request before they fan a query out: the merge they must do, the text to send to
//! each partition, and the partition keys that the query can match (engine.md §2, wire.md §10).
//!
//! A plan is a function of the query, its parameters and the partition key definition alone; nothing here
//! knows partitions, hashes or the wire's spelling. The rewritten text equals the service's text exactly,
//! because SDKs substitute placeholders in it.
//!
//! | file | contents |
//! |---|---|
//! | `info.rs` | the plan |
//! | `keys.rs`, `key_set.rs`, `types.rs` | the partition keys that a condition allows |
//! | `rewrite.rs`, `tree.rs` | the client's merge, and the text for partitions |
//! | `features.rs` | features that a client supports, and those that a plan needs |

mod features;
mod info;
mod key_set;
mod keys;
mod rewrite;
mod tree;
mod types;

pub use features::SupportedFeatures;
pub use info::{DistinctCount, DistinctKind, KeyFilter, QueryInfo, QueryPlan, SortDirection};

use shardlake_document::{Number, Value};
use shardlake_model::PartitionKeyDefinition;

use crate::bound::BoundQuery;
use crate::error::SqlError;
use crate::prepared::PreparedQuery;
use crate::syntax::{ParsedQuery, ast};
#[cfg(feature = "testing")]
pub(crate) use rewrite::RESUME_FILTER;
use rewrite::{Counts, Targets};

/// The errors are those of [`PreparedQuery::prepare`], and features that the plan needs and the client lacks.
#[cfg(feature = "testing")]
pub fn plan_query(
    query: &ParsedQuery,
    parameters: &[(String, Value)],
    definition: &PartitionKeyDefinition,
    environment: &crate::prepared::QueryEnvironment<'_>,
    supported: SupportedFeatures,
) -> Result<QueryPlan, SqlError> {
    let prepared = PreparedQuery::prepare(query, parameters, environment)?;
    let plan = plan_prepared(&prepared, query, parameters, definition)?;
    plan.check(supported)?;
    Ok(plan)
}

/// `prepared` is `query` bound with these parameters.
pub fn plan_prepared(
    prepared: &PreparedQuery,
    query: &ParsedQuery,
    parameters: &[(String, Value)],
    definition: &PartitionKeyDefinition,
) -> Result<QueryPlan, SqlError> {
    let keys = keys::key_filter(prepared.bound(), definition);
    let targets = match &keys {
        _ if !prepared.bound().reads_items() => Targets::Anywhere,
        KeyFilter::Keys(found) if matches!(&found[..], [key] if key.0.len() == definition.paths.len()) => {
            Targets::OneKey
        }
        KeyFilter::Nothing => Targets::Nowhere,
        KeyFilter::Keys(_) | KeyFilter::All => Targets::Many,
    };
    if targets != Targets::Anywhere {
        rewrite::check_composition(&query.tree().select.selection)?;
    }
    let info = rewrite::describe(query.tree(), counts(query.tree(), parameters), targets);
    // A client can count distinct rows of items, but not distinct rows of a result that each partition
    // computes alone.
    let is_beyond_clients =
        |inner: &BoundQuery| info.distinct_count.is_none() || inner.reads_a_whole_result();
    let whole = prepared.bound().whole_result().filter(|_| targets == Targets::Many);
    let reads_a_whole_result = whole.is_some_and(|(inner, ..)| is_beyond_clients(inner));
    let is_one_group = |query: &BoundQuery| query.grouping.as_ref().is_some_and(|it| it.keys.is_empty());
    let has_row_of_nothing = !prepared.bound().reads_items()
        || is_one_group(prepared.bound())
        || is_one_group(prepared.bound().innermost());
    Ok(QueryPlan { info, keys, reads_a_whole_result, has_row_of_nothing })
}

impl PreparedQuery {
    /// The partition keys that a matching item can have, by `WHERE` alone.
    pub fn keys(&self, definition: &PartitionKeyDefinition) -> KeyFilter {
        keys::key_filter(self.bound(), definition)
    }
}

impl QueryPlan {
    /// Refuses a plan that no client can merge: each partition would compute the subquery over its own items alone.
    pub fn check_merge(&self) -> Result<(), SqlError> {
        if self.reads_a_whole_result {
            return Err(SqlError::unsupported(
                "a subquery in FROM with groups or DISTINCT over several partitions, which clients do not merge: name its partition key, or set x-shardlake-fan-out: true to merge on the server,",
            ));
        }
        Ok(())
    }

    /// Refuses a plan that needs features which the client lacks.
    pub fn check(&self, supported: SupportedFeatures) -> Result<(), SqlError> {
        let missing = SupportedFeatures::needed_by(&self.info).without(supported);
        if missing.is_empty() { Ok(()) } else { Err(SqlError::MissingClientFeatures { features: missing }) }
    }
}

/// The counts of a query that was bound with these parameters, so that each is a number in range.
fn counts(query: &ast::Query, parameters: &[(String, Value)]) -> Counts {
    let number = |count: &ast::Count| {
        let value = match &count.value {
            ast::CountValue::Number(value) => value,
            // The last of two parameters with one name counts.
            ast::CountValue::Parameter(name) => &parameters.iter().rfind(|(other, _)| other == name)?.1,
        };
        match value.as_number()? {
            Number::Int(number) => u64::try_from(number).ok(),
            Number::Double(number) => Some(number as u64),
        }
    };
    Counts {
        top: query.select.top.as_ref().and_then(number),
        offset: query.offset_limit.as_ref().and_then(|clause| number(&clause.offset)),
        limit: query.offset_limit.as_ref().and_then(|clause| number(&clause.limit)),
    }
}
