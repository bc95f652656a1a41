//! Global secondary indexes through an account in memory.

mod groups;
mod indexes;
mod store;

use shardlake_account_fixture as support;
