//! Transactions that are open in a partition: the logical partitions and the rows that they hold, and the
//! items that they have written.
//!
//! | file | content |
//! |---|---|
//! | `gates.rs` | the gates of logical partitions |
//! | `claims.rs` | the rows that transactions of clients have written |
//! | `own_items.rs` | the writes of a transaction, laid over the engine's state |

mod claims;
mod gates;
mod own_items;

use std::sync::Arc;

pub(crate) use claims::{Claimed, Claims};
pub(crate) use gates::{Gates, Place};
pub(crate) use own_items::MergedScan;
pub use own_items::OwnItems;

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
