//! A query at work: what its pages and partitions share.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use shardlake_model::RequestContext;
use shardlake_partition::{CommandContext, OwnItems, TransactionView};
use shardlake_router::ContainerEntry;
use shardlake_sql::{AccessPlan, PreparedQuery, ResumeFilter};

use crate::Queries;
use crate::query_key::QueryKey;

/// What stays the same for all pages and partitions of one request.
pub struct Running<'a> {
    pub queries: &'a Queries,
    pub ctx: &'a RequestContext,
    pub entry: &'a Arc<ContainerEntry>,
    pub prepared: PreparedQuery,
    /// Where a client that merges goes on.
    pub resume_filter: Option<Arc<ResumeFilter>>,
    pub access: Arc<AccessPlan>,
    /// What the request or the text says of the partition key.
    pub key: QueryKey,
    pub command: CommandContext,
    /// Of its text and parameters.
    pub text_hash: u64,
    /// The query without its literals.
    pub template: Arc<str>,
    /// When the page is to be cut where it is.
    pub page_end: Duration,
    /// What the transaction that asks has written.
    pub own: Option<Arc<OwnItems>>,
    /// What the transaction sees that asks, where it reads one moment.
    pub within: Option<TransactionView>,
    /// What its functions computed beyond what its pages cost, in hundredths of a request unit.
    pub surcharge_centi: AtomicU64,
    /// Figures are asked for: pages tell how long they take.
    pub is_timed: bool,
}
