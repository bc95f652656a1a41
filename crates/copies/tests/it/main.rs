//! Global secondary indexes through an account in memory.

mod groups;
mod indexes;
mod reads;
mod settings;
mod store;
mod verify;
mod verify_groups;
mod verify_more_groups;

use shardlake_account_fixture as support;
