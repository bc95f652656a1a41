//! Queries over one physical partition: chooses the access to the items, feeds them to the
//! executor, and returns the position to continue from.
//!
//! | file | content |
//! |---|---|
//! | `mod.rs` | a page of a query from end to end |
//! | `choose.rs` | which access to take: scan, index spans, or index order |
//! | `options.rs`, `rules.rs` | the options of a filter, and the rules that choose one: for `choose.rs` and for predictions |
//! | `scan.rs` | items in the order of creation, or in key order |
//! | `kept_items.rs` | the values of items that stay in memory, side by side for conditions |
//! | `spans.rs` | items named by ranges of the index |
//! | `ordered.rs` | items in the order of an index, those without the property included |
//! | `feed.rs` | items to the executor, those whose functions are called many at a time |
//! | `scope.rs` | which items are in scope, and how many |
//! | `outlook.rs` | the sort keys of the items that come next, for a merge of partitions |
//! | `nearest.rs` | items of a small scope in the order of an index that mostly holds others |
//! | `count.rs` | answers that need no item |
//! | `ahead.rs` | the items that entries name, read many at a time |
//! | `lookup.rs` | records for queries; conditions decided by an item's own values |
//! | `work.rs` | the work of a page so far, for its charge |
//! | `yield_budget.rs` | yielding to other tasks |
//! | `position.rs` | the bytes that a page hands to the next one |
//!
//! Every page reads one snapshot, taken when everything in it is durable. No rows are materialised
//! except those that the executor keeps for one page, one bounded set of ordinals to intersect
//! with, and groups of strings too long for the index. A page ends when it is full, when its time
//! is spent, or when the partition is exhausted.

mod ahead;
mod choose;
mod count;
mod feed;
mod kept_items;
pub(crate) mod lookup;
mod nearest;
pub(crate) mod options;
mod ordered;
mod outlook;
mod position;
pub(crate) mod rules;
mod scan;
mod scope;
mod spans;
mod start;
mod work;
mod yield_budget;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use shardlake_index::IndexLayout;
use shardlake_model::{Error, ErrorKind, Result};
use shardlake_sql::{
    AccessPlan, Execution, Flow, KeptRows, PageLimits as RowLimits, PageOutput, PreparedQuery, ResumeFilter,
    Rows, UserFunctions,
};
use shardlake_stdx::Clock;
use shardlake_storage::{CachedView, ScanOptions, Snapshot};

use crate::feed::FeedFilter;
use crate::interactive::{OwnItems, TransactionView};
use crate::keys;
use crate::operation::CommandContext;
use crate::partition::Partition;
use crate::shape::ContainerSchema;
use choose::Access;
use feed::Feed;
pub use outlook::Outlook;
use position::{AccessPosition, KeyPosition, OrderedPosition, Place, Position};
pub use position::{position_of_state, state_of_position};
pub(crate) use spans::summary_of;
pub use work::PageWork;
use yield_budget::YieldBudget;

/// A test of time that a query may ask from any thread.
pub type TimeTest<'a> = &'a (dyn Fn() -> bool + Send + Sync);

/// Maker of a container's user-defined functions. Calls block, so pages that make them must run on
/// the blocking pool.
pub type MakeFunctions<'a> = &'a (dyn Fn() -> Result<Box<dyn UserFunctions>> + Send + Sync);

/// Pages that are collected ahead by a page that has to read all rows, and their rows.
const AHEAD_PAGES: usize = 20;
const AHEAD_ROWS_MAX: usize = 20_000;
/// For a range that is read to its end.
const TO_THE_END: ScanOptions = ScanOptions { fills_cache: true, ..ScanOptions::SWEEP };

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
    pub access: &'static str,
    /// A path whose items should be counted from now on: index and path hash.
    pub wants_counter: Option<(u16, u64)>,
    /// Set by the caller that runs the page, where it was requested.
    pub elapsed: Duration,
    /// The part of it for evaluation; zero where it was not requested.
    pub evaluation: Duration,
}

/// Work of a page; charges and metrics are computed from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueryStatistics {
    pub postings_read: u64,
    /// Entries met in the order of an index that are of items out of scope, and items that were put in its order instead of
    /// being met in it.
    pub entries_passed: u64,
    /// Items loaded because the index named them.
    pub items_loaded: u64,
    pub items_loaded_bytes: u64,
    /// Items read in key order.
    pub items_scanned: u64,
    pub items_scanned_bytes: u64,
    pub rows: u64,
    pub rows_bytes: u64,
    /// Rows that were sorted rather than read in order.
    pub rows_sorted: u64,
    /// Calls of user-defined functions that rows needed.
    pub function_calls: u64,
    /// Steps of evaluation, and of preparing the query.
    pub steps: u64,
}

impl QueryStatistics {
    pub fn add(&mut self, page: &QueryStatistics) {
        self.postings_read += page.postings_read;
        self.entries_passed += page.entries_passed;
        self.items_loaded += page.items_loaded;
        self.items_loaded_bytes += page.items_loaded_bytes;
        self.items_scanned += page.items_scanned;
        self.items_scanned_bytes += page.items_scanned_bytes;
        self.rows += page.rows;
        self.rows_bytes += page.rows_bytes;
        self.rows_sorted += page.rows_sorted;
        self.function_calls += page.function_calls;
        self.steps += page.steps;
    }
}

impl<'a> QueryPageRequest<'a> {
    /// Whether rows may be kept for the next page: only commits change the rows, not time, functions or a transaction.
    fn keeps_rows(&self, reader: &Reader<'_>) -> bool {
        let is_shared = self.collects.is_none() && self.own().is_none() && self.within.is_none();
        let is_timeless = self.query.is_lasting() && reader.shape.default_ttl.is_none();
        is_shared && is_timeless && self.query.user_functions().is_empty()
    }

    /// The writes that are laid over the stored items, if any.
    fn own(&self) -> Option<&'a OwnItems> {
        self.within.map(TransactionView::own).or(self.own).filter(|own| !own.is_empty())
    }
}

/// How feeding ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    Exhausted,
    /// The page is full, or its time is spent.
    Cut,
    /// Nothing can change the result any more.
    Complete,
}

impl Partition {
    /// One page of a query's rows. The caller plans `request.access` for the index that `shape` serves.
    #[tracing::instrument(name = "query", level = "debug", skip_all, fields(partition = self.uid.0))]
    pub async fn query_page(
        &self,
        shape: &Arc<ContainerSchema>,
        command: &CommandContext,
        request: QueryPageRequest<'_>,
    ) -> Result<QueryPage> {
        let position = request.resume.map(Position::decode).transpose()?;
        let reader = self.reader(shape, command, request)?;
        request.work.note(&reader.statistics);
        run(reader, position).await
    }

    /// A reader over the durable state.
    fn reader<'a>(
        &'a self,
        shape: &'a Arc<ContainerSchema>,
        command: &CommandContext,
        request: QueryPageRequest<'a>,
    ) -> Result<Reader<'a>> {
        let hot = request.within.map_or_else(|| self.shard().cached_view(), |within| within.hot().clone());
        self.check_open()?;
        // A generation that is being dropped is not whole in this snapshot.
        let is_whole = |layout: &Arc<IndexLayout>| {
            self.has_index(layout.id) && request.within.is_none_or(TransactionView::has_index)
        };
        let layout = shape.serving.clone().filter(is_whole);
        Ok(Reader {
            partition: self,
            shape,
            layout,
            snapshot: hot.view().clone(),
            hot,
            scope: scope::range_in(self.uid, keys::ITEMS, request.filter),
            now_seconds: command.now.seconds(),
            request,
            statistics: QueryStatistics::default(),
            turn: YieldBudget::default(),
            has_all_in_scope: false,
        })
    }
}

async fn run(mut reader: Reader<'_>, position: Option<Position>) -> Result<QueryPage> {
    let request = reader.request;
    let (resume, state) = match position {
        Some(Position { access, state }) => (access, state),
        None => (AccessPosition::Start, None),
    };
    if state.is_none()
        && request.own().is_none()
        && request.within.is_none()
        && let Some(page) = count::answer(&mut reader, &resume).await?
    {
        return Ok(page);
    }
    let sorts = request.collects.is_none() && state.as_deref().is_some_and(Execution::has_sorted);
    if let (Some(kept), Some(state), true) = (request.kept, &state, request.keeps_rows(&reader))
        && let Some(page) = of_kept(&mut reader, kept, state)?
    {
        return Ok(page);
    }
    let chosen = choose::choose(&mut reader, &resume, sorts).await?;
    let ordered = matches!(chosen.access, Access::Ordered(_));
    let stops_early = request.collects.is_some() && request.query.may_stop_early(ordered);
    let execution = execution_of(&reader, ordered, state.as_deref())?;
    let is_repeated = (state.is_some() && !execution.streams()) || stops_early;
    let mut feed = Feed::new(execution, request.is_interrupted, request.clock);
    let words = chosen.access.words();
    let mut ended = match chosen.access {
        _ if !request.query.reads_items() => match feed.execution.push_nothing(request.is_interrupted)? {
            Flow::More => Ended::Exhausted,
            Flow::PageFull => Ended::Cut,
            Flow::Complete => Ended::Complete,
        },
        Access::Nothing => Ended::Exhausted,
        Access::Scan(scan) => scan::run(&mut reader, &mut feed, scan).await?,
        Access::Spans(spans) => Box::pin(spans::run(&mut reader, &mut feed, spans)).await?,
        Access::Ordered(ordered) => Box::pin(ordered::run(&mut reader, &mut feed, ordered)).await?,
    };
    if ended == Ended::Exhausted {
        ended = feed.flush(&mut reader)?.unwrap_or(ended);
    }
    reader.statistics.function_calls = feed.execution.calls_made();
    reader.statistics.steps = request.work.meter().steps();
    let sorts = !feed.execution.streams() && request.query.is_ordered();
    if request.collects.is_some() {
        return Ok(QueryPage {
            rows: Rows::default(),
            next: None,
            statistics: reader.statistics,
            collected: Some(feed.execution.not_calling()),
            is_repeated,
            stands_for_index: chosen.stands_for_index,
            kept: None,
            stops_early,
            access: words,
            wants_counter: chosen.wants_counter,
            elapsed: Duration::ZERO,
            evaluation: feed.evaluation,
        });
    }
    let output = feed.execution.finish(ended == Ended::Exhausted, request.is_interrupted)?;
    let next = next_position(&reader, ended, &output, (feed.last, resume), chosen.choice);
    reader.statistics.function_calls = output.calls_made;
    reader.statistics.steps = request.work.meter().steps();
    reader.statistics.rows = output.rows.len() as u64;
    reader.statistics.rows_bytes = output.rows.size_bytes() as u64;
    reader.statistics.rows_sorted = if sorts { reader.statistics.rows } else { 0 };
    Ok(QueryPage {
        rows: output.rows,
        next: next.map(|position| position.encode()),
        statistics: reader.statistics,
        collected: None,
        is_repeated,
        stands_for_index: chosen.stands_for_index,
        kept: output.kept.filter(|_| request.keeps_rows(&reader)),
        stops_early,
        access: words,
        wants_counter: chosen.wants_counter,
        elapsed: Duration::ZERO,
        evaluation: feed.evaluation,
    })
}

/// The page of rows that were collected before; `None` where they are too few for it.
fn of_kept(reader: &mut Reader<'_>, kept: &KeptRows, state: &[u8]) -> Result<Option<QueryPage>> {
    let request = reader.request;
    let execution = Execution::of_kept(request.query, request.limits, state, kept)?;
    let Some(execution) = execution else { return Ok(None) };
    let meter = request.work.meter();
    let output = execution.metered(meter.clone()).finish(true, request.is_interrupted)?;
    reader.statistics.steps = meter.steps();
    reader.statistics.rows = output.rows.len() as u64;
    reader.statistics.rows_bytes = output.rows.size_bytes() as u64;
    reader.statistics.rows_sorted = if request.query.is_ordered() { reader.statistics.rows } else { 0 };
    let next = output.state.map(|state| position_of_state(&state));
    Ok(Some(QueryPage {
        rows: output.rows,
        next,
        statistics: reader.statistics,
        collected: None,
        is_repeated: true,
        stands_for_index: false,
        kept: output.kept,
        stops_early: false,
        access: "rows that an earlier page has collected",
        wants_counter: None,
        elapsed: Duration::ZERO,
        evaluation: Duration::ZERO,
    }))
}

fn execution_of(reader: &Reader<'_>, ordered: bool, state: Option<&[u8]>) -> Result<Execution> {
    let request = reader.request;
    let QueryPageRequest { query, limits, .. } = request;
    let execution = match request.collects {
        Some(_) if query.may_stop_early(ordered) => Execution::collecting(query, limits, ordered, state)?,
        Some(rows) => Execution::collecting(query, RowLimits { rows, ..limits }, ordered, state)?,
        None => Execution::start(query, limits, ordered, state)?,
    };
    let execution = execution.metered(request.work.meter().clone()).behind(request.resume_filter.cloned());
    // A client that asks for a second page usually asks for more.
    let ahead = if state.is_some() && request.keeps_rows(reader) { AHEAD_PAGES } else { 0 };
    let execution = execution.looking_ahead(limits.rows.saturating_mul(ahead).min(AHEAD_ROWS_MAX));
    if query.user_functions().is_empty() { Ok(execution) } else { calling(execution, request) }
}

fn calling(execution: Execution, request: QueryPageRequest<'_>) -> Result<Execution> {
    let refused = || Error::unsupported("user-defined functions are not supported in this query");
    let functions = request.functions.ok_or_else(refused)?;
    Ok(execution.calling(functions()?))
}

fn next_position(
    reader: &Reader<'_>,
    ended: Ended,
    output: &PageOutput,
    (last, resume): (Option<Last>, AccessPosition),
    choice: Option<u8>,
) -> Option<Position> {
    let state = output.state.clone();
    if output.rescan {
        return Some(Position { access: AccessPosition::Start, state });
    }
    match ended {
        Ended::Exhausted | Ended::Complete => None,
        Ended::Cut => {
            let access = last.map_or(resume, |last| last.position(reader, choice));
            Some(Position { access, state })
        }
    }
}

/// Resources for reading, and the work so far.
struct Reader<'a> {
    partition: &'a Partition,
    shape: &'a Arc<ContainerSchema>,
    layout: Option<Arc<IndexLayout>>,
    snapshot: Snapshot,
    /// The same, with rows that are read again in front of it.
    hot: CachedView,
    /// First and last-exclusive key of the items in scope, some of which the filter may leave out.
    scope: (Vec<u8>, Vec<u8>),
    now_seconds: u64,
    request: QueryPageRequest<'a>,
    statistics: QueryStatistics,
    turn: YieldBudget,
    /// Every item in scope meets the filter, by the definition of the scope.
    has_all_in_scope: bool,
}

/// The last key dealt with.
enum Last {
    /// An item key without its header.
    Item(Bytes),
    /// A key, and the item's ordinal: its place in the order of creation.
    Created(Bytes, u64),
    /// The part of a posting's key behind its path.
    Posting { branch: usize, range: usize, key: Bytes, in_group: bool, ordered: bool },
    /// An ordinal, of an item without the property that orders.
    OrderedItem(u64),
}

impl Last {
    fn position(self, reader: &Reader<'_>, choice: Option<u8>) -> AccessPosition {
        let in_order = |at: OrderedPosition| {
            let order = reader.request.access.order.as_ref().expect("a walk in an order has one");
            AccessPosition::Ordered { plan: choose::fingerprint_of_order(reader, order), at }
        };
        match self {
            Last::Item(key) => AccessPosition::Scan(KeyPosition::of(&key)),
            Last::Created(key, ordinal) => {
                let logical = keys::logical_part(&key).expect("a stored key is well-formed");
                AccessPosition::Created([logical, &ordinal.to_be_bytes()].concat())
            }
            Last::OrderedItem(ordinal) => in_order(OrderedPosition::Undefined(ordinal)),
            Last::Posting { branch, range, key, in_group, ordered } => {
                let after = KeyPosition::of(&key);
                let place = Place { branch: branch as u16, range: range as u16, after, in_group };
                if ordered {
                    return in_order(OrderedPosition::Postings(place));
                }
                let (plan, choices) = (choose::fingerprint(reader), choice.into_iter().collect());
                AccessPosition::Spans { plan, choices, place }
            }
        }
    }
}

/// Notes the statistics at the end, also of a page that failed.
impl Drop for Reader<'_> {
    fn drop(&mut self) {
        self.request.work.note(&self.statistics);
    }
}

impl Reader<'_> {
    fn check_interrupted(&self) -> Result<()> {
        if (self.request.is_interrupted)() {
            return Err(Error::new(
                ErrorKind::Timeout,
                "the query did not finish in the time of its request: narrow its filter or read it in pages",
            ));
        }
        Ok(())
    }

    /// Between two reads: ends the page if its time is spent. `examined` is the last key looked at.
    fn pause(&mut self, feed: &mut Feed<'_>, examined: Option<Last>) -> Result<Option<Ended>> {
        self.check_interrupted()?;
        self.request.work.note(&self.statistics);
        if !feed.execution.streams() || !(self.request.is_page_time_spent)() {
            return Ok(None);
        }
        if let Some(ended) = feed.flush(self)? {
            return Ok(Some(ended));
        }
        feed.last = examined.or(feed.last.take());
        Ok(Some(Ended::Cut))
    }
}
