//! Queries over the whole result of another query: `SELECT … FROM (SELECT DISTINCT …) AS r WHERE …`.
//!
//! Items are fed to the innermost query, which collects. When all of them have been read, its rows are fed to
//! the query around it, and so on outwards; the outermost one makes the page. Rows are fed in the order of
//! their hashes. This order is the same for every page, so that a page can continue in the middle.

use shardlake_document::Value;

use super::around::Around;
use super::collect::Collector;
use super::{Execution, Flow, PageOutput, Rows, distinct_hash, parse_row};
use crate::error::SqlError;
use crate::value::meter::{Interrupt, READ_BYTES_PER_STEP};

impl Execution {
    /// Ends the page. `exhausted`: all input has been fed. A query that collects must not end without it, as
    /// it has no page yet.
    pub fn finish(mut self, exhausted: bool, interrupt: Interrupt<'_>) -> Result<PageOutput, SqlError> {
        let around = std::mem::take(&mut self.around);
        let mut output = self.finish_own(exhausted, interrupt)?;
        for Around { query, limits, state } in around {
            if output.state.is_some() {
                return Err(SqlError::TooManyGroups);
            }
            let collects = query.grouping.is_some() || query.distinct;
            let collector = collects.then(|| Collector::new(&query, limits, &state));
            self = Execution { query, limits, state, collector, ordered: false, ..self };
            output = self.finish_over(&output.rows, interrupt)?;
        }
        Ok(output)
    }

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
        debug_assert!(order.is_sorted_by(|(one, _), (next, _)| one < next), "rows have different numbers");
        Ok(order)
    }
}

fn steps_to_parse(row: &[u8]) -> u64 {
    1 + row.len() as u64 / READ_BYTES_PER_STEP
}
