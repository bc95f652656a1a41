//! A running query: the state shared by its pages and partitions.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use shardlake_model::RequestContext;
use shardlake_partition::{CommandContext, OwnItems, TransactionView};
use shardlake_router::ContainerEntry;
use shardlake_sql::{AccessPlan, PreparedQuery, ResumeFilter};

use crate::Queries;
use crate::query_cache::KnownQuery;
use crate::query_key::QueryKey;

/// The state shared by all pages and partitions of one request.
pub struct Running<'a> {
    pub queries: &'a Queries,
    pub ctx: &'a RequestContext,
    pub entry: &'a Arc<ContainerEntry>,
    pub known: Arc<KnownQuery>,
    pub prepared: PreparedQuery,
    /// The position of a client that merges.
    pub resume_filter: Option<Arc<ResumeFilter>>,
    pub access: Arc<AccessPlan>,
    /// The conditions of the request or the text on the partition key.
    pub key: QueryKey,
    pub command: CommandContext,
    /// Hash of the query's text and parameters.
    pub text_hash: u64,
    /// The query without its literals.
    pub template: Arc<str>,
    /// The time after which the page is cut.
    pub page_end: Duration,
    /// The writes of the transaction that the query runs in.
    pub own: Option<Arc<OwnItems>>,
    /// The view of the transaction that the query runs in, if it reads one point in time.
    pub within: Option<TransactionView>,
    /// The processor charge of its functions beyond the charges of its pages, in hundredths of a request
    /// unit.
    pub surcharge_centi: AtomicU64,
    /// Figures are requested: pages report their times.
    pub is_timed: bool,
}
