//! Functions through an account in memory.

mod definitions;
mod runs;
mod shop;

use shardlake_account_fixture as support;
