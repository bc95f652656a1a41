//! Execution of a query over items that are fed to it one by one, up to one page of rows.
//!
//! | file | contents |
//! |---|---|
//! | `mod.rs` | the API: feeding items, pages, the state between them |
//! | `rows.rs` | rows as JSON text |
//! | `gather.rs` | calls of user-defined functions, made before the items are processed |
//! | `state.rs` | the state that a page hands to the next one |
//! | `sort_value.rs` | the order of sort keys |
//! | `resume_filter.rs` | the position, by sort keys, at which a merging client resumes |
//! | `collect.rs`, `groups.rs` | sorted, distinct and grouped rows, which must all be read before the first is returned |
//! | `page.rs`, `limits.rs` | the page that an execution makes; where it ends |
//! | `kept.rs` | entries that are kept for the next page |
//! | `whole.rs`, `around.rs` | queries over the whole result of another query: ending a page; the queries around |
//! | `distinct_hash.rs` | the hash of distinct values and groups |
//!
//! Where rows can be returned in input order, a page ends as soon as it is full, even in the middle of an
//! item: the state counts the rows of that item that were already returned. Other queries read their whole
//! input again for every page and keep only the rows that can still be on it. These rows have an order that
//! does not change from page to page: of the sort keys, or of the hashes.
//!
//! Nothing here knows where the items come from.

mod around;
mod collect;
mod distinct_hash;
mod gather;
mod groups;
mod kept;
mod limits;
mod page;
mod resume_filter;
mod rows;
mod sort_value;
pub(crate) mod state;
mod whole;

use std::cell::RefCell;
use std::fmt;
use std::ops::ControlFlow::{Break, Continue};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use shardlake_document::{ItemView, Value};

use crate::bound::{BoundQuery, Slot};
use crate::error::SqlError;
use crate::evaluate::rows::{Step, for_each_row, for_each_row_behind_first, for_each_unfiltered_row};
use crate::evaluate::scope::Scope;
use crate::prepared::PreparedQuery;
use crate::value::column::ScalarColumn;
use crate::value::context::{EvaluationContext, FunctionContext};
use crate::value::datum::Datum;
use crate::value::meter::{Interrupt, Meter, READ_BYTES_PER_STEP};
use crate::value::plain_filter::{PlainFilter, Tested};
use crate::value::user_functions::{Calls, UserFunctions};
use around::{Around, Inside};
use collect::Collector;
pub use distinct_hash::{DistinctHash, distinct_hash};
pub use kept::KeptRows;
pub use limits::PageLimits;
pub use page::{Flow, PageOutput};
pub use resume_filter::{Alike, ResumeFilter};
pub use rows::Rows;
pub(crate) use rows::parse_row;
use rows::{Pushed, is_row};
pub use sort_value::{SortValue, compare_sort_keys};
use state::{Resume, State};

/// Steps to reach an item, besides those for reading it.
const STEPS_OF_ITEM: u64 = 40;
/// The slot of the first source, where that is the item.
const SLOT_OF_ITEM: Slot = 0;
/// Steps of the loops over the sources before the filter, for a query with the item as its only source.
const STEPS_TO_FILTER: u64 = 2;

/// [`Execution::resumes_at`] of a page that begins with a state.
pub fn resumes_at(state: Option<&[u8]>) -> Result<Option<(Value, bool)>, SqlError> {
    Ok(state.map(State::decode).transpose()?.and_then(|state| state.resumes_at()))
}

/// The execution of one page of a query.
pub struct Execution {
    query: Arc<BoundQuery>,
    functions: FunctionContext,
    limits: PageLimits,
    /// Items arrive in the order of `ORDER BY`.
    ordered: bool,
    rows: Rows,
    state: State,
    collector: Option<Collector>,
    calls: Option<RefCell<Calls>>,
    resume_filter: Option<Arc<ResumeFilter>>,
    meter: Arc<Meter>,
    /// Queries over the whole result of this one, from the inside out.
    around: Vec<Around>,
}

/// The rows of an execution, to be merged elsewhere.
#[derive(Serialize, Deserialize)]
pub struct Collected {
    ordered: bool,
    rows: Rows,
    state: State,
    collector: Option<Collector>,
}

impl fmt::Debug for Execution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an execution with {} rows", self.rows.len())
    }
}

impl Execution {
    /// `ordered`: items arrive in the order of `ORDER BY`. `state` is [`PageOutput::state`] of the page before.
    pub fn start(
        query: &PreparedQuery,
        limits: PageLimits,
        ordered: bool,
        state: Option<&[u8]>,
    ) -> Result<Self, SqlError> {
        let mut execution = Execution::collecting(query, limits, ordered, state)?;
        let query = &execution.query;
        let sorts = !query.order_by.is_empty() && !ordered;
        if query.grouping.is_none() && !query.distinct && !sorts && execution.around.is_empty() {
            execution.collector = None;
        }
        Ok(execution)
    }

    /// Collects this many rows more than the page needs, for [`PageOutput::kept`]. No effect on an execution that streams.
    pub fn looking_ahead(mut self, rows: usize) -> Self {
        let is_last = self.around.is_empty();
        if let Some(collector) = self.collector.as_mut().filter(|_| is_last && !self.ordered) {
            collector.look_ahead(rows, &self.state);
        }
        self
    }

    /// Execution of the next page from kept rows; `None` if they do not fill the page.
    pub fn of_kept(
        query: &PreparedQuery,
        limits: PageLimits,
        state: &[u8],
        kept: &KeptRows,
    ) -> Result<Option<Self>, SqlError> {
        let execution = Execution::collecting(query, limits, false, Some(state))?;
        let is_whole = kept.have_page(limits) && execution.state.skip == 0 && execution.around.is_empty();
        let collector = is_whole
            .then(|| Some(Collector::of_kept(&execution.query, limits, &execution.state, kept.clone())));
        Ok(collector.map(|collector| Execution { collector, ..execution }))
    }

    /// One of several executions of a query over different items, which are merged before the page is made:
    /// none of them returns rows by itself.
    pub fn collecting(
        query: &PreparedQuery,
        limits: PageLimits,
        ordered: bool,
        state: Option<&[u8]>,
    ) -> Result<Self, SqlError> {
        let functions = query.function_context();
        query.check_order()?;
        let query = query.shared();
        let state = match state {
            Some(bytes) => State::decode(bytes)?,
            None => State::first(&query),
        };
        let Inside { query, limits, state, around } = around::inside(query, limits, state);
        let collector = Some(Collector::new(&query, limits, &state));
        let rows = Rows::default();
        let meter = Arc::default();
        Ok(Execution {
            query,
            functions,
            limits,
            ordered,
            rows,
            state,
            collector,
            calls: None,
            resume_filter: None,
            meter,
            around,
        })
    }

    /// An execution that only merges the collected rows of others.
    pub fn merging(
        query: &PreparedQuery,
        limits: PageLimits,
        state: Option<Vec<u8>>,
    ) -> Result<Self, SqlError> {
        Execution::collecting(query, limits, false, state.as_deref())
    }

    /// Counts its work in this meter.
    pub fn metered(self, meter: Arc<Meter>) -> Self {
        Execution { meter, ..self }
    }

    /// Leaves out the rows before a position. The filter must have been checked for the query.
    pub fn behind(self, resume_filter: Option<Arc<ResumeFilter>>) -> Self {
        Execution { resume_filter, ..self }
    }

    /// Sets the user-defined functions.
    pub fn calling(self, functions: Box<dyn UserFunctions>) -> Self {
        Execution { calls: Some(RefCell::new(Calls::new(functions))), ..self }
    }

    /// The rows that it has collected so far.
    pub fn into_collected(self) -> Collected {
        Collected { ordered: self.ordered, rows: self.rows, state: self.state, collector: self.collector }
    }

    /// An execution of the query that has collected these rows.
    pub fn of_collected(
        query: &PreparedQuery,
        limits: PageLimits,
        collected: Collected,
    ) -> Result<Self, SqlError> {
        let Collected { ordered, rows, state, collector } = collected;
        let execution = Execution::collecting(query, limits, ordered, None)?;
        Ok(Execution { rows, state, collector, ..execution })
    }

    /// Without user-defined functions, to be merged: an execution that waits for others must not hold a
    /// script worker.
    pub fn not_calling(self) -> Self {
        Execution { calls: None, ..self }
    }

    /// How many calls of user-defined functions rows have needed so far.
    pub fn calls_made(&self) -> u64 {
        self.calls.as_ref().map_or(0, |calls| calls.borrow().used())
    }

    /// The first sort key up to which rows were returned: a value, or with true the start of a string.
    pub fn resumes_at(&self) -> Option<(Value, bool)> {
        self.state.resumes_at()
    }

    /// Whether the page that left this state sorted its rows. Only a page that sorts can resume from it.
    pub fn has_sorted(state: &[u8]) -> bool {
        State::decode(state).is_ok_and(|state| matches!(state.resume, Resume::Sorted { .. }))
    }

    /// How many rows the page may still skip or return.
    pub fn rows_wanted(&self) -> u64 {
        let page = (self.limits.rows - self.rows.len().min(self.limits.rows)) as u64;
        self.state.skip.saturating_add(page.min(self.state.left.unwrap_or(u64::MAX)))
    }

    /// How many rows the page may still return; `None` while rows before them must be skipped.
    pub fn rows_to_come(&self) -> Option<usize> {
        let wanted = usize::try_from(self.rows_wanted()).unwrap_or(usize::MAX);
        (self.state.skip == 0).then_some(wanted)
    }

    /// How many more rows are enough to find out that the page is full or final; `usize::MAX` if only the
    /// last item shows it.
    pub fn room(&self) -> usize {
        let Some(collector) = &self.collector else {
            let page = (self.limits.rows - self.rows.len().min(self.limits.rows)) as u64 + 1;
            let rows = self.state.skip.saturating_add(page.min(self.state.left.unwrap_or(u64::MAX)));
            return usize::try_from(rows).unwrap_or(usize::MAX);
        };
        collector.room(&self.query, self.ordered)
    }

    /// Whether an item has rows, before it is fed. True where only a user-defined function could decide.
    pub fn may_have_rows(&self, item: &ItemView<'_>, interrupt: Interrupt<'_>) -> Result<bool, SqlError> {
        if self.calls.is_some() {
            return Ok(true);
        }
        let context = EvaluationContext::new(&self.functions, interrupt, &self.meter);
        let scope = Scope::of_item(&context, item);
        let mut has_rows = false;
        for_each(&self.query, &scope, false, &mut |_| {
            has_rows = true;
            Ok(Break(()))
        })?;
        Ok(has_rows)
    }

    /// Merges the collected rows of another execution of the same query and page.
    pub fn absorb(&mut self, other: Execution) -> Result<(), SqlError> {
        let is_same_query = Arc::ptr_eq(&self.query, &other.query) || self.query == other.query;
        assert!(is_same_query && self.state == other.state, "executions of one query and page are merged");
        if let Some(collector) = &other.collector {
            self.meter.add(collector.steps_to_absorb());
        }
        match (&mut self.collector, other.collector) {
            (Some(collector), Some(other)) => collector.absorb(&self.query, other),
            _ => Ok(()),
        }
    }

    /// Whether rows are returned in input order, so that a page may be cut anywhere.
    pub fn streams(&self) -> bool {
        self.collector.is_none()
    }

    /// Feeds one item; `filtered` when `WHERE` is known to hold for it, for all its joined rows.
    pub fn push(
        &mut self,
        item: &ItemView<'_>,
        filtered: bool,
        interrupt: Interrupt<'_>,
    ) -> Result<Flow, SqlError> {
        self.feed(Some(item), filtered, interrupt)
    }

    /// Feeds a value instead of an item. Its number identifies the value on the next page.
    pub fn push_value(
        &mut self,
        value: &Value,
        number: u64,
        interrupt: Interrupt<'_>,
    ) -> Result<Flow, SqlError> {
        self.meter.begin_item();
        self.meter.step(STEPS_OF_ITEM, interrupt)?;
        self.feed_row(SLOT_OF_ITEM, value, number, interrupt)
    }

    /// Feeds a query that reads no items.
    pub fn push_nothing(&mut self, interrupt: Interrupt<'_>) -> Result<Flow, SqlError> {
        self.feed(None, false, interrupt)
    }

    /// The filter, if it can be evaluated before an item is fed.
    fn test_of_item(&self) -> Option<&PlainFilter> {
        if self.calls.is_some() { None } else { self.query.test_of_item() }
    }

    /// The properties that [`Execution::test`] needs, if it can decide anything.
    pub fn tested_properties(&self) -> Option<&[Box<str>]> {
        self.test_of_item().map(PlainFilter::names)
    }

    /// Whether `WHERE` holds for an item, by its values of [`Execution::tested_properties`] and by the size
    /// of its body; `None` where only the item decides.
    pub fn test(&self, columns: &[Arc<ScalarColumn>], place: usize, body_bytes: usize) -> Option<Tested> {
        self.test_of_item()?.holds_in(columns, place, body_bytes)
    }

    /// [`Execution::push`] for an item that was tested.
    pub fn push_tested(
        &mut self,
        item: &ItemView<'_>,
        tested: Tested,
        interrupt: Interrupt<'_>,
    ) -> Result<Flow, SqlError> {
        match self.begin_item(item.body.as_bytes().len(), Some(tested), interrupt)? {
            Some(flow) => Ok(flow),
            None => self.feed_rows(Fed::Item(item), true, interrupt),
        }
    }

    /// For an item for which `WHERE` does not hold: only the size of its body is needed.
    pub fn push_left_out(
        &mut self,
        body_bytes: usize,
        tested: Tested,
        interrupt: Interrupt<'_>,
    ) -> Result<Flow, SqlError> {
        assert!(!tested.holds, "who has rows is fed");
        Ok(self.begin_item(body_bytes, Some(tested), interrupt)?.unwrap_or(Flow::More))
    }

    fn feed(
        &mut self,
        item: Option<&ItemView<'_>>,
        filtered: bool,
        interrupt: Interrupt<'_>,
    ) -> Result<Flow, SqlError> {
        let Some(item) = item else {
            if self.state.left == Some(0) {
                return Ok(Flow::Complete);
            }
            self.meter.begin_item();
            return self.feed_rows(Fed::Nothing, filtered, interrupt);
        };
        let test = if filtered { None } else { self.test_of_item() };
        let tested = test.and_then(|test| test.holds(item));
        match self.begin_item(item.body.as_bytes().len(), tested, interrupt)? {
            Some(flow) => Ok(flow),
            None => self.feed_rows(Fed::Item(item), filtered || tested.is_some(), interrupt),
        }
    }

    /// Counts the steps of an item before its rows are made; the outcome, if it has no rows.
    #[inline]
    fn begin_item(
        &mut self,
        body_bytes: usize,
        tested: Option<Tested>,
        interrupt: Interrupt<'_>,
    ) -> Result<Option<Flow>, SqlError> {
        if self.state.left == Some(0) {
            return Ok(Some(Flow::Complete));
        }
        self.meter.begin_item();
        let mut steps = STEPS_OF_ITEM + body_bytes as u64 / (2 * READ_BYTES_PER_STEP);
        let is_left_out = tested.is_some_and(|tested| !tested.holds);
        steps += tested.map_or(0, |tested| tested.steps);
        if is_left_out {
            steps += STEPS_TO_FILTER;
        }
        self.meter.step(steps, interrupt)?;
        Ok(is_left_out.then(|| self.pass_over()))
    }

    /// Decides how to continue after an item without rows.
    fn pass_over(&mut self) -> Flow {
        match &mut self.collector {
            Some(collector) => enough_or_more(collector, &self.query, self.ordered),
            None => {
                // Only the first item of a page can have rows that were already returned.
                self.state.rows_of_item = (0, 0);
                Flow::More
            }
        }
    }

    /// Feeds a row of the first source.
    pub(super) fn feed_row(
        &mut self,
        slot: Slot,
        value: &Value,
        ordinal: u64,
        interrupt: Interrupt<'_>,
    ) -> Result<Flow, SqlError> {
        if self.state.left == Some(0) {
            return Ok(Flow::Complete);
        }
        self.feed_rows(Fed::Row { slot, value, ordinal }, false, interrupt)
    }

    fn feed_rows(
        &mut self,
        fed: Fed<'_>,
        filtered: bool,
        interrupt: Interrupt<'_>,
    ) -> Result<Flow, SqlError> {
        let context =
            EvaluationContext::new(&self.functions, interrupt, &self.meter).with_calls(self.calls.as_ref());
        let nothing = Scope::new(&context);
        let (scope, ordinal) = match fed {
            Fed::Item(item) => (Scope::of_item(&context, item), item.envelope.ordinal),
            Fed::Nothing => (Scope::new(&context), 0),
            Fed::Row { slot, value, ordinal } => (nothing.with(slot, Datum::from_tree(value)), ordinal),
        };
        let query = &*self.query;
        if let Some(calls) = &self.calls {
            calls.borrow_mut().begin(ordinal);
        }
        let resume_filter = self.resume_filter.as_deref();
        let Some(collector) = &mut self.collector else {
            let page = (&mut self.rows, &mut self.state);
            let fed = Streamed { scope: &scope, ordinal, filtered, resume_filter };
            let flow = stream(query, self.limits, page, fed)?;
            if let (Flow::PageFull, Some(calls)) = (flow, &self.calls) {
                calls.borrow_mut().take_back();
            }
            return Ok(flow);
        };
        let mut row_in_item = 0;
        for_each(query, &scope, filtered, &mut |row| {
            let is_behind = is_behind(resume_filter, query, row, ordinal)?;
            if !is_behind {
                collector.add(query, row, ordinal, row_in_item)?;
            }
            row_in_item += 1;
            Ok(Continue(()))
        })?;
        Ok(enough_or_more(collector, query, self.ordered))
    }

    /// Counts matching items; only for a query whose result depends only on their number.
    pub fn push_count(&mut self, items: u64) {
        debug_assert!(self.collector.is_some(), "counts are added to a page that collects");
        if let Some(collector) = &mut self.collector {
            collector.add_count(&self.query, items);
        }
    }

    /// Ends the page of the query that reads items.
    fn finish_own(&mut self, exhausted: bool, interrupt: Interrupt<'_>) -> Result<PageOutput, SqlError> {
        let Some(collector) = self.collector.take() else {
            let is_over = exhausted || self.state.left == Some(0);
            let state = (!is_over && self.state != State::first(&self.query)).then(|| self.state.encode());
            let calls_made = self.calls.as_ref().map_or(0, |calls| calls.borrow().used());
            let rows = std::mem::take(&mut self.rows);
            return Ok(PageOutput { rows, state, rescan: false, calls_made, skipped: 0, kept: None });
        };
        assert!(
            exhausted || self.state.left == Some(0) || collector.has_enough(&self.query, self.ordered),
            "what is collected is only whole at the end"
        );
        let context =
            EvaluationContext::new(&self.functions, interrupt, &self.meter).with_calls(self.calls.as_ref());
        collector.finish(&self.query, self.state.clone(), &context)
    }
}

/// Input of one step: the source of new rows.
#[derive(Clone, Copy)]
enum Fed<'f> {
    Item(&'f ItemView<'f>),
    /// The single input of a query that reads no items.
    Nothing,
    /// A row of the first source's query, as the value of its slot.
    Row {
        slot: Slot,
        value: &'f Value,
        ordinal: u64,
    },
}

#[inline]
fn enough_or_more(collector: &mut Collector, query: &BoundQuery, ordered: bool) -> Flow {
    if !collector.has_enough(query, ordered) {
        return Flow::More;
    }
    collector.stop_early();
    Flow::Complete
}

fn for_each(
    query: &BoundQuery,
    scope: &Scope<'_>,
    filtered: bool,
    visit: &mut dyn FnMut(&Scope<'_>) -> Step,
) -> Result<(), SqlError> {
    let _ = match filtered {
        true => for_each_unfiltered_row(query, scope, visit)?,
        false if query.reads_a_whole_result() => for_each_row_behind_first(query, scope, visit)?,
        false => for_each_row(query, scope, visit)?,
    };
    Ok(())
}

#[inline]
fn is_behind(
    resume_filter: Option<&ResumeFilter>,
    query: &BoundQuery,
    row: &Scope<'_>,
    ordinal: u64,
) -> Result<bool, SqlError> {
    resume_filter.map_or(Ok(false), |filter| filter.is_behind(query, row, ordinal))
}

/// An item whose rows are returned one by one.
struct Streamed<'s> {
    scope: &'s Scope<'s>,
    ordinal: u64,
    filtered: bool,
    resume_filter: Option<&'s ResumeFilter>,
}

fn stream(
    query: &BoundQuery,
    limits: PageLimits,
    (rows, state): (&mut Rows, &mut State),
    Streamed { scope, ordinal, filtered, resume_filter }: Streamed<'_>,
) -> Result<Flow, SqlError> {
    // Rows that an earlier page returned, if the item still exists.
    let (item, rows_of_item) = std::mem::take(&mut state.rows_of_item);
    let done = if item == ordinal { rows_of_item } else { 0 };
    let mut seen = 0;
    let mut flow = Flow::More;
    for_each(query, scope, filtered, &mut |row| {
        seen += 1;
        if seen <= done || is_behind(resume_filter, query, row, ordinal)? {
            return Ok(Continue(()));
        }
        if state.skip > 0 {
            state.skip -= u64::from(is_row(&query.projection, row)?);
            return Ok(Continue(()));
        }
        match rows.push(&query.projection, row, limits)? {
            Pushed::NoRow => return Ok(Continue(())),
            Pushed::Row => state.left = state.left.map(|left| left - 1),
            Pushed::NoRoom => {
                seen -= 1;
                flow = Flow::PageFull;
            }
        }
        if state.left == Some(0) {
            flow = Flow::Complete;
        }
        Ok(if flow == Flow::More { Continue(()) } else { Break(()) })
    })?;
    if flow == Flow::PageFull {
        state.rows_of_item = (ordinal, seen);
    }
    assert!(rows.len() <= limits.rows, "a page has no more rows than its limit");
    Ok(flow)
}
