//! Tests of the server as a process: its listeners, start and stop, output, and recovery.
//!
//! | file | subject |
//! |---|---|
//! | `transports.rs` | plain HTTP, TLS, HTTP/1.1 and HTTP/2 on one port; certificates |
//! | `lifecycle.rs` | the ready record, probes, metrics, signals, restarts, two servers on one directory |
//! | `config_command.rs` | settings checked and printed without a start |
//! | `status.rs` | one look at a server; its keys rotated; colours |
//! | `settings.rs` | flags, variables and files; which keys are accepted where |
//! | `shards.rs` | data directories with several shards |
//! | `stores.rs` | accounts in an object store: leases and take-overs |
//! | `store_backups.rs` | backups of such accounts, and backups in a store |
//! | `migrate.rs`, `migrate_online.rs` | accounts that are moved between a local disk and a store; while clients write |
//! | `lost_files.rs` | data directories with missing files; `verify` only reads |
//! | `analytics.rs` | analytical tables by the operator's commands, through kills |
//! | `analytics_stores.rs` | such tables in an object store, and below a restored account |
//! | `analytics_sql.rs`, `analytics_light.rs` | SQL over these tables: answers, refusals, limits, killed workers; builds without it |
//! | `analytics_sql_fresh.rs` | answers that must have certain writes |
//! | `analytics_sql_streams.rs` | answers that fail in the middle, and clients that disconnect |
//! | `operate.rs` | the operator's commands |
//! | `backups.rs`, `backup_support.rs` | backups: made while clients write, restored, damaged, interrupted, deleted |
//! | `whole_backups.rs` | backups and logs that are not whole |
//! | `restore_moments.rs` | restores to points in time between two backups |
//! | `store_faults.rs` | stores that are slow, fail or lose answers |
//! | `store_places.rs` | logs in a store of their own, and a cache of the store on a local disk |
//! | `deploy.rs` | the files of `deploy`: compose, Helm |
//! | `data.rs` | seeds and the demo |
//! | `sql_shell.rs`, `sql_terminal.rs` | queries from the command line and from scripts; at a terminal |
//! | `transfers.rs` | items into and out of files |
//! | `hot_tenant.rs` | the demo of a hot tenant |
//! | `hosts.rs` | names and origins that are answered, and rules for a request's head |
//! | `explorer.rs` | the explorer's files, and their headers for browsers |
//! | `newcomer.rs` | a new user's first minutes |
//! | `unread_answers.rs` | clients that take no answers, and slow uploads: memory is bounded |
//! | `open_files.rs` | few descriptors: storage has its part, connections get the rest |
//! | `hostile.rs` | clients that are slow, broken, many or malicious |
//! | `scripts.rs` | workers: confined, killed from outside, held by loops |
//! | `metrics.rs` | metrics by operation and command, alerts and dashboards, JSON log lines, the audit log |
//! | `traces.rs` | slow requests in the log, spans at a collector |
//! | `direct.rs`, `direct_client.rs` | connections in Direct mode, by a client that checks TLS records |
//! | `emulator.rs`, `emulator_support.rs` | emulator mode, by the requests of Aspire and of the Testcontainers modules |
//! | `mongo_connections.rs` | the MongoDB API's port: TLS and plain messages of any length |
//! | `support.rs`, `sql_support.rs`, `command_at_terminal.rs` | helpers of the tests; a pseudo terminal |
#![allow(clippy::unwrap_used, clippy::disallowed_methods)] // tests

#[cfg(feature = "analytics")]
mod analytics;
#[cfg(not(feature = "analytics-sql"))]
mod analytics_light;
#[cfg(feature = "analytics-sql")]
mod analytics_sql;
mod analytics_sql_command;
#[cfg(feature = "analytics-sql")]
mod analytics_sql_fresh;
#[cfg(feature = "analytics-sql")]
mod analytics_sql_streams;
#[cfg(all(feature = "analytics", feature = "object-storage"))]
mod analytics_stores;
mod backup_support;
mod backups;
mod command_at_terminal;
mod config_command;
mod data;
mod deploy;
mod direct;
mod direct_client;
mod emulator;
mod emulator_support;
mod explorer;
mod hostile;
mod hosts;
mod hot_tenant;
mod large_documents;
mod lifecycle;
mod lost_files;
mod metrics;
#[cfg(feature = "object-storage")]
mod migrate;
#[cfg(feature = "object-storage")]
mod migrate_online;
mod mongo_connections;
mod newcomer;
mod open_files;
mod operate;
mod progress;
#[cfg(feature = "object-storage")]
mod restore_moments;
#[cfg(target_os = "linux")]
mod scripts;
mod settings;
mod shards;
mod sql_shell;
#[cfg(feature = "analytics-sql")]
mod sql_support;
mod sql_terminal;
mod status;
#[cfg(feature = "object-storage")]
mod store_backups;
#[cfg(feature = "object-storage")]
mod store_faults;
#[cfg(feature = "object-storage")]
mod store_places;
#[cfg(feature = "object-storage")]
mod stores;
mod support;
mod support_bundle;
mod terminal;
mod top;
mod traces;
mod transfers;
mod transports;
mod unread_answers;
mod whole_backups;
