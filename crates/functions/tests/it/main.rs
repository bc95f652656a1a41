//! Functions through an account in memory.

mod definitions;
mod exactly_once;
mod failures;
mod orders;
mod runs;
mod shop;

use shardlake_account_fixture as support;
