//! Transactions that are open in a partition: the logical partitions and the rows that they hold.

use std::sync::Arc;

use super::claims::Claims;
use super::locks::Gates;

#[derive(Debug, Default)]
pub(crate) struct Transactions {
    /// Logical partitions that transactions hold.
    pub gates: Arc<Gates>,
    /// Rows that open transactions have written.
    pub claims: Arc<Claims>,
}

impl Transactions {
    /// Whether no writer has to look at gates and claims. Asked under the sequencer, it holds until
    /// that is released: a transaction takes the sequencer after its gate and for its claims.
    pub fn are_none(&self) -> bool {
        self.gates.are_none() && self.claims.are_none()
    }
}
