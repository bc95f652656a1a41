//! Operations on items, feeds and batches through an account in memory.

mod feeds_and_batches;
mod items;

use shardlake_account_fixture as support;
