//! The server around the engine: configuration, listeners, TLS, keys, operator routes, metrics, seeds and the demo.
//!
//! | file | responsibility |
//! |---|---|
//! | `cli.rs`, `usage.rs` | the commands; errors of wrong command lines |
//! | `settings.rs`, `layers.rs`, `config.rs`, `analytics_config.rs`, `byte_size.rs`, `time_text.rs` | what can be set, from where, and what it comes to |
//! | `serve.rs`, `start_watch.rs`, `home.rs`, `shards.rs` | a server from start to end; the steps of a start; where its data lies; what the data directory holds |
//! | `store/` | an account in an object store, which one server at a time has |
//! | `descriptors.rs` | how many open files storage and connections may have |
//! | `listener.rs`, `connections.rs`, `connection.rs`, `watched_io.rs`, `counted_body.rs` | sockets, protocols, time limits of connections |
//! | `failed_openings.rs` | why clients could not connect, in the log |
//! | `direct.rs`, `direct/` | connections in Direct mode: frames, their bodies, their answers |
//! | `sent_body.rs`, `stream_tasks.rs` | answers until they are sent; ending a single stream |
//! | `front.rs`, `answers.rs`, `host_check.rs`, `welcome.rs` | operator routes, names that are answered, panics and timeouts |
//! | `explorer/` | the explorer's pages: files, headers, caching |
//! | `metric_table.rs`, `exposition.rs` | every metric by name, type and meaning; the text format |
//! | `metrics.rs`, `metrics_page.rs`, `request_metrics.rs`, `container_counters.rs`, `partition_metrics.rs`, `projection_metrics.rs`, `copy_metrics.rs`, `analytics.rs`, `analytics_metrics.rs`, `sql_tables/`, `script_metrics.rs`, `storage_metrics.rs`, `store_metrics.rs`, `process_metrics.rs`, `backup_metrics.rs` | counting, and the page that shows it |
//! | `store_url.rs`, `tables_place.rs` | URLs of places in object stores; folders of analytical tables there |
//! | `tls.rs`, `keys.rs`, `private_file.rs` | certificates and account keys in the data directory |
//! | `ready.rs`, `logging.rs`, `json_lines.rs`, `log_fields.rs`, `log_capture.rs` | the log: levels, formats, typed fields, the latest lines in memory |
//! | `heat_file.rs` | the heat of containers over restarts |
//! | `sampler.rs` | connections, processor and memory, second by second |
//! | `seed/`, `demo/` | data to begin with |
//! | `data/`, `sql_shell/`, `transfer/` | the client of commands for items; the commands `sql`, `import` and `export` |
//! | `operate/`, `copies_command.rs`, `copies_functions.rs`, `copies_settings.rs`, `copies_verification.rs` | the commands of operators, which ask a running server |
//! | `backup/`, `restore_mark.rs` | backups on local disks; a data directory that is not restored to its end |
//! | `number_text.rs` | numbers and sizes as texts, texts without control characters |
//! | `progress.rs` | the progress of long commands on standard error |
//! | `status.rs`, `top/` | the commands `status` and `top` |
//! | `support_bundle/`, `diagnostics.rs` | the file for a report of a problem; settings, formats and limits in it |
//! | `verify.rs` | checks a stopped server's data |
//! | `version.rs`, `shell.rs` | origin of the build; shell completions and manual pages |
//!
//! The only crate that reads the environment, opens sockets and knows the data directory's layout. It knows no protocol:
//! requests go to the gateway as they are.

mod account_file;
mod analytics;
mod analytics_config;
mod analytics_metrics;
mod answers;
mod backup;
mod backup_metrics;
mod byte_size;
pub mod cli;
mod config;
mod config_command;
mod connection;
mod connections;
mod container_counters;
mod copies_command;
mod copies_functions;
mod copies_settings;
mod copies_verification;
mod copy_metrics;
mod counted_body;
mod data;
mod demo;
mod descriptors;
mod diagnostics;
mod direct;
mod emulator;
mod explorer;
mod exposition;
mod failed_openings;
mod front;
mod heat_file;
mod history;
mod home;
mod host_check;
mod json_lines;
mod key_store;
mod keys;
mod layers;
mod listener;
mod log_capture;
mod log_fields;
mod logging;
mod memory;
mod metric_table;
mod metrics;
mod metrics_page;
mod migrate;
mod mongo;
mod moved_mark;
mod number_text;
mod operate;
mod partition_metrics;
mod private_file;
mod process_metrics;
mod progress;
mod projection_metrics;
mod ready;
mod request_metrics;
mod restore_mark;
mod sampler;
mod script_metrics;
pub mod script_worker;
mod seed;
mod sent_body;
mod serve;
mod settings;
#[cfg(test)]
mod settings_page_tests;
mod shards;
mod shell;
mod sql_shell;
#[cfg(feature = "analytics-sql")]
pub mod sql_tables;
mod start_checks;
mod start_watch;
mod status;
mod storage_metrics;
mod store;
mod store_metrics;
mod store_url;
mod stored_json;
mod stream_tasks;
mod support_bundle;
mod tables_place;
mod time_text;
mod tls;
mod top;
mod tracing_export;
mod transfer;
mod usage;
mod verify;
mod version;
mod watched_io;
mod welcome;
