//! Queries over the whole result of another query: `SELECT … FROM (SELECT DISTINCT …) AS r WHERE …`.
//!
//! Items are fed to the innermost query, which collects. When all of them have been read, its rows are fed to
//! the query around it, and so on outwards; the outermost one makes the page. Rows are fed in the order of
//! their hashes. This order is the same for every page, so that a page can continue in the middle.

use std::sync::Arc;

use super::collect::Collector;
use super::limits::MEMORY_BYTES_MAX;
use super::state::State;
use super::{Execution, Fed, Flow, Interrupt, PageLimits, PageOutput, Rows, distinct_hash, parse_row};
use crate::bound::{BoundQuery, Slot};
use crate::error::SqlError;
use crate::evaluate::READ_BYTES_PER_STEP;
use shardlake_document::Value;

/// Limits of a query inside another one.
const WHOLE: PageLimits = PageLimits { rows: usize::MAX, size_bytes: MEMORY_BYTES_MAX };

/// Query around another one, whose rows are its input.
pub(super) struct Around {
    query: Arc<BoundQuery>,
    limits: PageLimits,
    state: State,
}

/// The query that reads items, and those around it from the inside out.
pub(super) struct Inside {
    pub query: Arc<BoundQuery>,
    pub limits: PageLimits,
    pub state: State,
    pub around: Vec<Around>,
}

pub(super) fn inside(query: Arc<BoundQuery>, limits: PageLimits, state: State) -> Inside {
    let mut inside = Inside { query, limits, state, around: vec![] };
    while let Some((inner, ..)) = inside.query.whole_result() {
        let (query, state) = (Arc::new(inner.clone()), State::first(inner));
        let Inside { query: outer, limits, state: of_outer, mut around } = inside;
        around.insert(0, Around { query: outer, limits, state: of_outer });
        inside = Inside { query, limits: WHOLE, state, around };
    }
    inside
}

/// The page of the outermost query.
pub(super) fn finish(
    mut execution: Execution,
    exhausted: bool,
    interrupt: Interrupt<'_>,
) -> Result<PageOutput, SqlError> {
    let around = std::mem::take(&mut execution.around);
    let mut output = execution.finish_own(exhausted, interrupt)?;
    for Around { query, limits, state } in around {
        if output.state.is_some() {
            return Err(SqlError::TooManyGroups);
        }
        let collects = query.grouping.is_some() || query.distinct;
        let collector = collects.then(|| Collector::new(&query, limits, &state));
        execution = Execution { query, limits, state, collector, ordered: false, ..execution };
        output = execution.finish_over(&output.rows, interrupt)?;
    }
    Ok(output)
}

impl Execution {
    /// Runs over the rows of the query in its first source.
    fn finish_over(&mut self, rows: &Rows, interrupt: Interrupt<'_>) -> Result<PageOutput, SqlError> {
        let query = self.query.clone();
        let Some((_, slot, iterates)) = query.whole_result() else { return Err(SqlError::UnmergeableRow) };
        let (from, _) = self.state.rows_of_item;
        let mut flow = Flow::More;
        'rows: for (ordinal, place) in self.in_order(rows, interrupt)? {
            let text = rows.get(place).ok_or(SqlError::UnmergeableRow)?;
            self.meter.begin_item();
            self.meter.step(steps_to_parse(text), interrupt)?;
            let values = match (iterates, parse_row(text)?) {
                (false, value) => vec![value],
                (true, Value::Array(elements)) => elements,
                (true, _) => vec![],
            };
            for (value, ordinal) in values.iter().zip(ordinal..) {
                if ordinal < from {
                    continue;
                }
                flow = self.feed_row(slot, value, ordinal, interrupt)?;
                if flow != Flow::More {
                    break 'rows;
                }
            }
        }
        let output = self.finish_own(flow != Flow::PageFull, interrupt)?;
        Ok(PageOutput { rescan: output.state.is_some(), ..output })
    }

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

    /// The places of rows in the order of their hashes, each with a number that identifies the row on the
    /// next page, too. The numbers of an array's elements are between two row numbers. Equal rows have
    /// different numbers.
    fn in_order(&self, rows: &Rows, interrupt: Interrupt<'_>) -> Result<Vec<(u64, usize)>, SqlError> {
        /// Bits for the elements of a row.
        const ELEMENTS: u32 = 24;
        let mut order = Vec::with_capacity(rows.len());
        for (place, row) in rows.iter().enumerate() {
            self.meter.step(steps_to_parse(row), interrupt)?;
            let hash = distinct_hash(&parse_row(row)?) as u64;
            order.push(((hash >> 1 & (u64::MAX << ELEMENTS)).max(1 << ELEMENTS), place));
        }
        order.sort_unstable();
        let mut last = 0;
        for (number, _) in &mut order {
            if *number <= last {
                *number = last + (1 << ELEMENTS);
            }
            last = *number;
        }
        Ok(order)
    }
}

fn steps_to_parse(row: &[u8]) -> u64 {
    1 + row.len() as u64 / READ_BYTES_PER_STEP
}
