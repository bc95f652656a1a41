//! Execution of a query over items that are fed to it one by one, up to one page of rows.
//!
//! | file | what it does |
//! |---|---|
//! | `mod.rs` | what callers use: feeding, pages, the state between them |
//! | `rows.rs` | rows as JSON text |
//! | `state.rs` | what a page hands to the next one |
//! | `collect.rs` | the rows that must be seen whole before the first goes out: sorted, distinct, grouped |
//! | `distinct_hash.rs` | the hash by which distinct values and groups are known |
//!
//! Where rows can go out as they come, a page ends as soon as it is full, in the middle of an item if need be: the state counts
//! the rows of that item that are out already. Everything else reads its whole input again for every page and keeps only what
//! can still be on it, in an order that does not change from page to page: of the sort keys, or of the hashes.
//!
//! Nothing here knows where the items come from.

mod collect;
mod distinct_hash;
mod rows;
mod state;

use std::ops::ControlFlow::{Break, Continue};

use shardlake_document::ItemView;

use crate::bound::BoundQuery;
use crate::error::SqlError;
use crate::evaluate::rows::{Step, for_each_row, for_each_unfiltered_row};
use crate::evaluate::scope::{EvaluationContext, Scope};
use crate::functions::FunctionContext;
use crate::prepared::PreparedQuery;
use collect::Collector;
pub use distinct_hash::{DistinctHash, distinct_hash};
pub use rows::Rows;
use rows::{Pushed, is_row};
use state::State;

/// Where a page ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageLimits {
    pub rows: usize,
    pub size_bytes: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    More,
    /// The page is full. The item at hand was not dealt with, or only partly: the next page starts with it.
    PageFull,
    /// Nothing that could be fed can change the result any more.
    Complete,
}

#[derive(Debug)]
pub struct PageOutput {
    pub rows: Rows,
    /// What the next page needs to know; `None` when the items alone tell where to go on.
    pub state: Option<Vec<u8>>,
    /// The next page must be fed everything again, from the first item.
    pub rescan: bool,
}

/// A test of time that may be asked from any thread.
pub type Interrupt<'q> = &'q (dyn Fn() -> bool + Send + Sync);

/// A query at work on one page.
pub struct Execution<'q> {
    query: &'q BoundQuery,
    functions: FunctionContext,
    interrupt: Interrupt<'q>,
    limits: PageLimits,
    rows: Rows,
    state: State,
    collector: Option<Collector<'q>>,
}

impl<'q> Execution<'q> {
    /// `ordered`: items arrive in the order of `ORDER BY`. `state` is [`PageOutput::state`] of the page before.
    pub fn start(
        query: &'q PreparedQuery,
        limits: PageLimits,
        ordered: bool,
        state: Option<&[u8]>,
        interrupt: Interrupt<'q>,
    ) -> Result<Self, SqlError> {
        let functions = query.function_context();
        let query = query.bound();
        if query.reads_a_whole_result() {
            return Err(SqlError::unsupported(
                "a subquery in FROM with groups or DISTINCT over the whole container",
            ));
        }
        let state = match state {
            Some(bytes) => State::decode(bytes)?,
            None => State::first(query),
        };
        let sorts = !query.order_by.is_empty() && !ordered;
        let collects = query.grouping.is_some() || query.distinct || sorts;
        let collector = collects.then(|| Collector::new(query, limits, &state));
        Ok(Execution { query, functions, interrupt, limits, rows: Rows::default(), state, collector })
    }

    /// Whether rows go out as items come, so that a page may be cut anywhere.
    pub fn streams(&self) -> bool {
        self.collector.is_none()
    }

    /// Feeds one item; `filtered` when `WHERE` is known to hold for it, whatever the rows that joins make of it.
    pub fn push(&mut self, item: &ItemView<'_>, filtered: bool) -> Result<Flow, SqlError> {
        if self.state.left == Some(0) {
            return Ok(Flow::Complete);
        }
        let context = EvaluationContext::new(&self.functions, self.interrupt);
        let scope = Scope::of_item(&context, item);
        let Some(collector) = &mut self.collector else {
            return stream(self.query, self.limits, (&mut self.rows, &mut self.state), &scope, filtered);
        };
        let mut row_in_item = 0;
        for_each(self.query, &scope, filtered, &mut |row| {
            collector.add(row, item.envelope.ordinal, row_in_item)?;
            row_in_item += 1;
            Ok(Continue(()))
        })?;
        Ok(Flow::More)
    }

    /// Counts items that are known to match; only for a query whose result depends on nothing else.
    pub fn push_count(&mut self, items: u64) {
        if let Some(collector) = &mut self.collector {
            collector.add_count(items);
        }
    }

    /// `exhausted`: everything that there is has been fed. Without it, a query that collects has no page yet, so that must
    /// not happen.
    pub fn finish(self, exhausted: bool) -> Result<PageOutput, SqlError> {
        let Some(collector) = self.collector else {
            let is_over = exhausted || self.state.left == Some(0);
            let state = (!is_over && self.state != State::first(self.query)).then(|| self.state.encode());
            return Ok(PageOutput { rows: self.rows, state, rescan: false });
        };
        assert!(exhausted || self.state.left == Some(0), "what is collected is only whole at the end");
        collector.finish(self.state, &self.functions, self.interrupt)
    }
}

fn for_each(
    query: &BoundQuery,
    scope: &Scope<'_>,
    filtered: bool,
    visit: &mut dyn FnMut(&Scope<'_>) -> Step,
) -> Result<(), SqlError> {
    let _ = match filtered {
        true => for_each_unfiltered_row(query, scope, visit)?,
        false => for_each_row(query, scope, visit)?,
    };
    Ok(())
}

/// The rows of one item go out one by one.
fn stream(
    query: &BoundQuery,
    limits: PageLimits,
    (rows, state): (&mut Rows, &mut State),
    scope: &Scope<'_>,
    filtered: bool,
) -> Result<Flow, SqlError> {
    // What an earlier page has dealt with.
    let done = std::mem::take(&mut state.rows_of_item);
    let mut seen = 0;
    let mut flow = Flow::More;
    for_each(query, scope, filtered, &mut |row| {
        seen += 1;
        if seen <= done {
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
        state.rows_of_item = seen;
    }
    Ok(flow)
}
