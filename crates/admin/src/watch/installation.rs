//! The program's description of itself: how it was started, and its counters and logs outside the engine.

use std::sync::Arc;

use shardlake_stdx::Timestamp;

use crate::account_keys::KeyStore;

use super::{LogRing, ProcessRings};

#[derive(Debug, Clone)]
pub struct Installation {
    pub version: &'static str,
    /// Kind and target of the build, for reports of problems.
    pub build: String,
    /// The explorer's name for it.
    pub label: Option<String>,
    pub durability: &'static str,
    pub started_at: Timestamp,
    pub enforces_throughput: bool,
    /// As configured, such as `1/1000`.
    pub limits_scale: String,
    pub body_size_bytes_max: usize,
    /// Expiry of the certificate that the server made; a certificate from outside is not inspected.
    pub certificate_ends: Option<Timestamp>,
    /// Storage directory of the server; `None` where it stores nothing.
    pub data_dir: Option<String>,
    /// `None` where keys cannot be seen or changed.
    pub keys: Option<Arc<dyn KeyStore>>,
    pub process: Arc<ProcessRings>,
    pub log: Arc<LogRing>,
    /// Settings, formats and process limits, as a JSON object. It holds no secret.
    pub diagnostics: serde_json::Value,
}
