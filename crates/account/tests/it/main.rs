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
mod heavy_items;
mod index;
mod log_holds;
mod mistakes;
mod panics;
mod relocation;
mod round_trips;
mod shards;
mod sizes;
mod storm;
mod support;
mod ttl;
mod ttl_queue;
mod unique_keys;
mod users;
