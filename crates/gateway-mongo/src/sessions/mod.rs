//! Logical sessions, and the results of their retryable writes.

mod registry;
mod statements;

pub use registry::{Session, SessionKey, SessionLimits, Sessions, TIMEOUT_MINUTES};
pub use statements::RetryableWrite;
