//! The gateway over an account in memory, spoken to as a client would: signed requests in, responses out, no socket.
//!
//! `harness.rs` signs with code of its own, not with the gateway's. Each other module covers one family of operations.

mod access;
mod access_adversary;
mod access_keys;
mod all_versions;
mod answer_space;
mod batch;
mod binary;
mod change_feed;
mod counts;
mod definitions;
mod dotnet;
mod expiry;
mod explained;
mod feeds;
mod former_ranges;
mod golden;
mod harness;
mod heat_map;
mod hybrid_row;
mod ids;
mod index_metrics;
mod items;
mod limits;
mod metadata;
mod named_regressions;
mod numbers;
mod operator;
mod ordered_groups;
mod patch;
mod projections;
mod queries;
mod refusals;
mod request_headers;
mod response_headers;
mod resume_filter;
mod schema;
mod script_runs;
mod scripts;
mod throughput;
mod udfs;
mod users;
mod watch;
