//! Logical sessions, the results of their retryable writes, and their transactions.

mod open_transactions;
mod registry;
mod statements;
mod transactions;

pub use open_transactions::TransactionLimits;
pub use registry::{Session, SessionKey, SessionLimits, Sessions, TIMEOUT_MINUTES};
pub use statements::{Past, RetryableWrite};
pub use transactions::{Ending, TransactionTurn};
