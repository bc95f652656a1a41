//! Logical sessions, the results of their retryable writes, and their transactions.

mod registry;
mod statements;
mod transactions;

pub use registry::{Session, SessionKey, SessionLimits, Sessions, TIMEOUT_MINUTES};
pub use statements::{Past, RetryableWrite};
pub use transactions::{Ending, TransactionLimits, TransactionTurn};
