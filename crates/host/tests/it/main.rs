//! Budgets and heat of partitions through an account in memory.

mod heat;
mod throughput;

use shardlake_account_fixture as support;
