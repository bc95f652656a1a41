//! The account through its façade, over engines in memory, on disk and with faults.
//!
//! One program for all files, because each program would link the storage engine, the query language and the
//! script host again. `support` opens accounts; `storm` moves partitions under many clients.

mod after_failure;
mod any_token;
mod any_tokens;
mod backups;
mod bson_door;
mod cancellation;
mod change_feed;
mod crash;
mod crash_async;
mod creation;
mod equivalence;
mod feeds_and_batches;
mod forged_tokens;
mod heat;
mod heavy_items;
mod index;
mod items;
mod kept_rows;
mod keyed_order;
mod log_holds;
mod mistakes;
mod order_tokens;
mod panics;
mod projections;
mod query_bad_input;
mod query_binding;
mod query_grammar;
mod query_kept;
mod query_linq;
mod query_properties;
mod query_samples;
mod query_work;
mod relocation;
mod round_trips;
mod scripts;
mod scripts_fairness;
mod scripts_isolation;
mod scripts_procedures;
mod scripts_triggers;
mod shards;
mod sizes;
mod storm;
mod support;
mod throughput;
mod ttl;
mod ttl_queue;
mod udf;
mod unique_keys;
mod users;
mod whole_results;
