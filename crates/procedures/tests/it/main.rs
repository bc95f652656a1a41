//! Stored procedures and triggers through an account in memory: results, isolation, turns.

mod scripts;
mod scripts_fairness;
mod scripts_isolation;
mod scripts_procedures;
mod scripts_triggers;

use shardlake_account_fixture as support;
