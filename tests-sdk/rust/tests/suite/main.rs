//! What applications do with the official Rust SDK, as it is released: its defaults, which send and
//! take items in Cosmos binary JSON, against a running server.
//!
//! `SHARDLAKE_HTTP`, `SHARDLAKE_HTTPS` and `SHARDLAKE_KEY` name the server, and `SSL_CERT_FILE` its
//! authority's certificate.

mod batches;
mod change_feeds;
mod containers;
mod items;
mod keys;
mod motion;
mod queries;
mod support;
