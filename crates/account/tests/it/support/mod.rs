//! Fixture of the account, and helpers of the tests of this crate alone.

pub mod cancellation;
pub mod everything;
pub mod oracle;
pub mod slow;

pub use shardlake_account_fixture::*;
