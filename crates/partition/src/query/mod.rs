//! Queries over one physical partition: chooses the access to the items, feeds them to the
//! executor, and returns the position to continue from.
//!
//! | file | content |
//! |---|---|
//! | `mod.rs` | a page of a query from end to end |
//! | `request.rs` | a request for a page, and the page |
//! | `reader.rs` | resources of a page for reading, and its place |
//! | `choose.rs` | which access to take: scan, index spans, or index order |
//! | `options.rs`, `rules.rs` | the options of a filter, and the rules that choose one: for `choose.rs` and for predictions |
//! | `scan.rs` | items in the order of creation, or in key order |
//! | `kept_items.rs` | the values of items that stay in memory, side by side for conditions |
//! | `postings.rs` | ranges of the index |
//! | `spans.rs` | items named by ranges of the index |
//! | `ordered.rs` | items in the order of an index, those without the property included |
//! | `walk.rs` | the entries of an index in one direction, and groups that look alike |
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
mod postings;
mod reader;
mod request;
pub(crate) mod rules;
mod scan;
mod scope;
mod spans;
mod start;
mod walk;
mod work;
mod yield_budget;

use std::sync::Arc;
use std::time::Duration;

use shardlake_model::{Error, Result};
use shardlake_sql::{Execution, Flow, KeptRows, PageLimits as RowLimits, PageOutput, Rows};

use crate::operation::CommandContext;
use crate::partition::Partition;
use crate::shape::ContainerSchema;
use choose::Access;
use feed::Feed;
pub use outlook::Outlook;
use position::{AccessPosition, Position};
pub use position::{position_of_state, state_of_position};
pub(crate) use postings::summary_of;
use reader::{Ended, Last, Reader};
pub use request::{MakeFunctions, QueryPage, QueryPageRequest, TimeTest};
pub use work::{PageWork, QueryStatistics};

/// Pages that are collected ahead by a page that has to read all rows, and their rows.
const AHEAD_PAGES: usize = 20;
const AHEAD_ROWS_MAX: usize = 20_000;

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
        let reader = Reader::open(self.core(), shape, command, request)?;
        request.work.note(&reader.statistics);
        run(reader, position).await
    }

    /// Up to so many sort keys of the items that a page of the query would meet. `None` where the
    /// entries do not suffice, and where a slow store would take a round trip for them.
    pub async fn query_outlook(
        &self,
        shape: &Arc<ContainerSchema>,
        command: &CommandContext,
        request: QueryPageRequest<'_>,
        keys_max: usize,
    ) -> Result<Option<Outlook>> {
        outlook::outlook(self.core(), shape, command, request, keys_max).await
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
    if let (Some(kept), Some(state), true) = (request.kept, &state, reader.keeps_rows())
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
            access: words.into(),
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
        kept: output.kept.filter(|_| reader.keeps_rows()),
        stops_early,
        access: words.into(),
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
        access: "rows that an earlier page has collected".into(),
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
    let ahead = if state.is_some() && reader.keeps_rows() { AHEAD_PAGES } else { 0 };
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
