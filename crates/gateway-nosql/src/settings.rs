//! Settings of a gateway, and the schemes that it is reached over.

use std::sync::Arc;
use std::time::Duration;

use shardlake_admin::{Analytics, Installation, SqlService};
use shardlake_signature::AccountKey;

/// How a gateway behaves.
#[derive(Clone)]
pub struct GatewaySettings {
    /// Any of them signs a request; a read-only one signs reads.
    pub keys: Vec<AccountKey>,
    /// How far a request's date may be from the clock, either way.
    pub clock_skew_max: Duration,
    /// `id` of the account document. Clients treat the exact name `localhost` specially: they ignore the endpoints listed.
    pub account_id: String,
    /// The only region; clients remember its name, so it must not change.
    pub region: String,
    /// Bodies above this are refused unread; must leave room for a bulk request.
    pub body_size_bytes_max: usize,
    /// Time for a body to arrive, and for the operation after it.
    pub request_timeout: Duration,
    /// Requests that take at least as long get a line in the log; `None`: none does.
    pub slow_request: Option<Duration>,
    /// Queries over several partitions are merged here, whether their requests ask for it or not.
    pub merges_queries: bool,
    /// The account document is read without a signature, as probes of emulators do.
    pub is_account_public: bool,
    /// Name, version and limits of the program, for operators.
    pub installation: Option<Arc<Installation>>,
    /// Tables of columns that follow containers, for operators.
    pub analytics: Option<Analytics>,
    /// SQL over these tables, where the build has it.
    pub sql: Option<Arc<dyn SqlService>>,
}

impl Default for GatewaySettings {
    fn default() -> Self {
        GatewaySettings {
            keys: Vec::new(),
            clock_skew_max: Duration::from_secs(15 * 60),
            account_id: "localhost".into(),
            region: "Local".into(),
            body_size_bytes_max: 4 * 1024 * 1024,
            request_timeout: Duration::from_secs(60),
            slow_request: None,
            merges_queries: false,
            is_account_public: false,
            installation: None,
            analytics: None,
            sql: None,
        }
    }
}

/// The scheme of the connection that a request came in on; endpoints are advertised in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    Http,
    Https,
}

impl Scheme {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
        }
    }

    /// The port of an address without one.
    pub(crate) fn default_port(self) -> u16 {
        match self {
            Scheme::Http => 80,
            Scheme::Https => 443,
        }
    }
}
