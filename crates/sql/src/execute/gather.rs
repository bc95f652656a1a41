//! Calls of user-defined functions for the next items, made before the items are processed.
//!
//! Gathering changes only the time that calls need: unused results are thrown away, and calls that were not
//! gathered are made when they are needed.

use std::ops::ControlFlow::Continue;

use shardlake_document::ItemView;

use super::rows::evaluate_projection;
use super::{Execution, for_each};
use crate::bound::Projection;
use crate::error::SqlError;
use crate::evaluate::scope::Scope;
use crate::value::context::EvaluationContext;
use crate::value::meter::Interrupt;
use crate::value::user_functions::gather;

/// Limit on items gathered at a time.
const ITEMS_MAX: usize = 256;

impl Execution {
    /// How many items to gather calls of at a time; 0 when there are none to gather. `seen` items were fed to
    /// this page. Gathering at most as many again at most doubles the cost of a page that turns out to be
    /// full earlier.
    pub fn items_to_gather(&self, seen: usize) -> usize {
        if self.calls.is_none() {
            return 0;
        }
        let wanted = match &self.collector {
            Some(collector) => collector.room(&self.query, self.ordered),
            // Skipped rows mostly call nothing for their projection.
            None if self.state.skip > 0 => usize::try_from(self.state.skip).unwrap_or(usize::MAX),
            None => {
                let left = usize::try_from(self.state.left.unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
                left.min(self.limits.rows.saturating_sub(self.rows.len()))
            }
        };
        wanted.max(seen).clamp(1, ITEMS_MAX)
    }

    /// Makes the calls of the next items in order. Each item comes with whether `WHERE` is known to hold for
    /// it.
    pub fn gather_calls(&mut self, items: &[(ItemView<'_>, bool)], interrupt: Interrupt<'_>) {
        let Some(calls) = &self.calls else { return };
        let context = EvaluationContext::new(&self.functions, interrupt, &self.meter).with_calls(Some(calls));
        let ordinals = items.iter().map(|(item, _)| item.envelope.ordinal);
        let random = self.functions.random.get();
        gather(calls, ordinals, |place| {
            let (item, filtered) = &items[place];
            if item.envelope.ordinal == self.state.rows_of_item.0 && self.state.rows_of_item.1 > 0 {
                // Some of its rows were already returned.
                return Ok(());
            }
            self.meter.begin_item();
            let scope = Scope::of_item(&context, item);
            // The item either fails for good, or awaits a call.
            scope.swap_awaits(false);
            for_each(&self.query, &scope, *filtered, &mut |row| {
                self.evaluate_row(row)?;
                Ok(Continue(()))
            })
        });
        self.functions.random.set(random);
    }

    /// Evaluates the expressions that processing the row would.
    fn evaluate_row(&self, row: &Scope<'_>) -> Result<(), SqlError> {
        match &self.collector {
            Some(collector) => collector.evaluate(&self.query, row),
            None if self.state.skip > 0 && !matches!(self.query.projection, Projection::Value(_)) => Ok(()),
            None => evaluate_projection(&self.query.projection, row),
        }
    }
}
