//! A request for a page of a query, and the page.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use shardlake_model::Result;
use shardlake_sql::{
    AccessPlan, Execution, KeptRows, PageLimits as RowLimits, PreparedQuery, ResumeFilter, Rows,
    UserFunctions,
};
use shardlake_stdx::Clock;

use super::work::{PageWork, QueryStatistics};
use crate::feed::FeedFilter;
use crate::interactive::TransactionView;
use crate::open_transactions::OwnItems;

/// A test of time that a query may ask from any thread.
pub type TimeTest<'a> = &'a (dyn Fn() -> bool + Send + Sync);

/// Maker of a container's user-defined functions. Calls block, so pages that make them must run on
/// the blocking pool.
pub type MakeFunctions<'a> = &'a (dyn Fn() -> Result<Box<dyn UserFunctions>> + Send + Sync);

#[derive(Clone, Copy)]
pub struct QueryPageRequest<'a> {
    pub query: &'a PreparedQuery,
    pub access: &'a AccessPlan,
    pub filter: &'a FeedFilter,
    /// The uncommitted writes of a transaction. The first page decides whether a query that goes by
    /// the index sees them.
    pub own: Option<&'a OwnItems>,
    /// The transaction that asks, where it reads one point in time: its own writes are laid over
    /// that state.
    pub within: Option<&'a TransactionView>,
    /// [`QueryPage::next`] of the page before.
    pub resume: Option<&'a [u8]>,
    /// Where a client that merges continues; checked for the query.
    pub resume_filter: Option<&'a Arc<ResumeFilter>>,
    pub limits: RowLimits,
    /// The execution is handed out as it is, to be merged with those of other partitions. It holds
    /// as many rows as `limits` allows where the index brings them in order, and this many where
    /// all items have to be read for any of them.
    pub collects: Option<usize>,
    /// [`QueryPage::kept`] of the page before, where nothing has changed since.
    pub kept: Option<&'a KeptRows>,
    /// The executor of user-defined functions, made when a query calls some.
    pub functions: Option<MakeFunctions<'a>>,
    /// True once the page has used its time: it is cut where it is, if the query can continue from there.
    pub is_page_time_spent: TimeTest<'a>,
    /// True once the request has run out of time.
    pub is_interrupted: TimeTest<'a>,
    /// The record of the page's work.
    pub work: &'a PageWork,
    /// The clock for timing evaluation, where it is to be timed.
    pub clock: Option<&'a Clock>,
}

#[derive(Debug)]
pub struct QueryPage {
    pub rows: Rows,
    /// `None` when the partition has no more rows.
    pub next: Option<Vec<u8>>,
    pub statistics: QueryStatistics,
    /// With [`QueryPageRequest::collects`].
    pub collected: Option<Execution>,
    /// The items read depend on how the result is cut into pages: reading them is not charged.
    pub is_repeated: bool,
    /// The items were scanned in the place of an index that would have named fewer.
    pub stands_for_index: bool,
    /// Rows for the next page, valid until the partition or the definition changes.
    pub kept: Option<KeptRows>,
    /// Only as many rows were collected as one round of the merge can need: the items read depend
    /// on the rounds.
    pub stops_early: bool,
    /// Description of the access taken.
    pub access: Cow<'static, str>,
    /// A path whose items should be counted from now on: index and path hash.
    pub wants_counter: Option<(u16, u64)>,
    /// Set by the caller that runs the page, where it was requested.
    pub elapsed: Duration,
    /// The part of it for evaluation; zero where it was not requested.
    pub evaluation: Duration,
}

impl<'a> QueryPageRequest<'a> {
    /// The writes that are laid over the stored items, if any.
    pub(super) fn own(&self) -> Option<&'a OwnItems> {
        self.within.map(TransactionView::own).or(self.own).filter(|own| !own.is_empty())
    }
}
