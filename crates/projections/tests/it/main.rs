//! Projections of containers through an account in memory.

mod projections;

use shardlake_account_fixture as support;
