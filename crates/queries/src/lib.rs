//! Queries: pages, their target partitions, continuation tokens, and charges.
//!
//! | file | contents |
//! |---|---|
//! | `query.rs` | a page of a query, from its text to its rows |
//! | `request.rs`, `running.rs` | requests and replies; the state shared by the pages of one query |
//! | `query_cache.rs` | texts parsed, bound and planned once |
//! | `query_targets.rs`, `query_key.rs` | the target partitions; conditions on the partition key |
//! | `query_form.rs`, `query_task.rs`, `loopback.rs` | the form in which a query travels; a page with all its inputs, here and at another node |
//! | `query_page.rs`, `query_fan_out.rs`, `query_former.rs` | a page of one partition, of several, of partitions that replaced an ended one |
//! | `kept_rows.rs` | rows that a page has collected for the next ones |
//! | `query_shares.rs` | how many rows each of several partitions collects |
//! | `explain.rs`, `figures.rs` | a plan without running it; the work and the charge of each range |
//! | `policy_preview.rs` | access and charges of queries under another indexing policy |
//! | `query_token.rs` | continuation tokens |
//! | `query_functions.rs`, `processor_tab.rs`, `query_charge.rs` | user-defined functions, and charges |
//!
//! [`Queries`] is the API. It is built on [`Items`] and dereferences to it.

mod explain;
mod figures;
mod kept_rows;
mod loopback;
mod policy_preview;
mod processor_tab;
mod query;
mod query_cache;
mod query_charge;
mod query_fan_out;
mod query_form;
mod query_former;
mod query_functions;
mod query_key;
mod query_page;
mod query_shares;
mod query_targets;
mod query_task;
mod query_token;
mod request;
mod running;

use std::sync::Arc;

use kept_rows::KeptRowsCache;
use shardlake_items::Items;
use shardlake_partition::CpuPool;
use shardlake_router::Serving;
use shardlake_script::Scripts;

pub use figures::{QueryFigures, RangeFigures};
pub use policy_preview::{PREVIEW_QUERIES_MAX, QueryPreview, QueryProspect};
pub use processor_tab::ProcessorTab;
pub use query::hash_of;
pub use query_cache::{Asked, KnownQuery, QueryCache};
pub use query_targets::{Part, PlanRange, PlanReply};
pub use query_token::QueryToken;
pub use request::{ItemsRequest, PageOfQuery, QueryReply, QueryRequest, QueryWants};
pub use running::Running;

/// Limit on concurrent heavy queries; others wait, within the time of their request.
const HEAVY_QUERIES_MAX: u32 = 8;

/// Queries over the items of a container. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Queries(Arc<QueriesState>);

#[derive(Debug)]
struct QueriesState {
    router: Serving,
    items: Items,
    cache: QueryCache,
    kept_rows: KeptRowsCache,
    /// For queries that may spend long on one item: they run on their own threads, a few at a time, and not
    /// on the threads that answer requests.
    heavy_queries: CpuPool,
    scripts: Scripts,
}

impl Queries {
    pub fn new(items: Items, scripts: Scripts) -> Queries {
        Queries(Arc::new(QueriesState {
            router: items.router().clone(),
            items,
            cache: QueryCache::default(),
            kept_rows: KeptRowsCache::default(),
            // The number of waiters is limited by the number of requests, and a waiter holds little memory.
            heavy_queries: CpuPool::new(HEAVY_QUERIES_MAX, usize::MAX),
            scripts,
        }))
    }

    pub fn router(&self) -> &Serving {
        &self.0.router
    }

    /// The items that are queried.
    pub fn items(&self) -> &Items {
        &self.0.items
    }
}
