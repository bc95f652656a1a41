//! What the program tells of itself: how it was started, and what it counts and keeps besides the engine.

use std::sync::Arc;

use shardlake_stdx::Timestamp;

use super::{LogRing, ProcessRings};

#[derive(Debug, Clone)]
pub struct Installation {
    pub version: &'static str,
    /// Kind and target of the build, for reports of problems.
    pub build: String,
    /// What the explorer calls it.
    pub label: Option<String>,
    pub durability: &'static str,
    pub started_at: Timestamp,
    pub enforces_throughput: bool,
    /// As it was set, such as `1/1000`.
    pub limits_scale: String,
    pub body_size_bytes_max: usize,
    /// Of the certificate that the server made; one from outside is not looked into.
    pub certificate_ends: Option<Timestamp>,
    pub process: Arc<ProcessRings>,
    pub log: Arc<LogRing>,
}
