//! State that all connections share: the account, the settings, the open sessions and cursors, and the counters.

use std::sync::atomic::{AtomicI32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use shardlake_account::Account;

use crate::access::{Key, Users};
use crate::command_metrics::CommandMetrics;
use crate::cursors::{CursorLimits, Cursors};
use crate::expressions::Places;
use crate::fail_points::FailPoints;
use crate::latencies::Latencies;
use crate::memory::Memory;
use crate::operations::Operations;
use crate::sessions::{Past, SessionLimits, Sessions, TIMEOUT_MINUTES, TransactionLimits};
use crate::shares::Shares;
use crate::unauthenticated::Unauthenticated;

/// Settings of the gateway.
#[derive(Debug, Clone)]
pub struct MongoSettings {
    /// The name of the user that every key of the account stands for.
    pub account_name: String,
    pub keys: Vec<Key>,
    /// Clients must prove who they are.
    pub requires_authentication: bool,
    /// Commands that only tests need, such as fail points.
    pub has_test_commands: bool,
    /// Maximum of open connections, which the server enforces itself. One user may hold half of those that other users leave, and clients
    /// that have not authenticated may hold half.
    pub connections_max: usize,
    /// Time for a command.
    pub request_timeout: Duration,
    /// A connection that sends nothing for so long is closed.
    pub idle_max: Duration,
    /// The same for a client that has yet to authenticate. It is longer than the interval of a driver's monitoring connection, which never
    /// authenticates.
    pub unauthenticated_idle_max: Duration,
    /// Time for the first message of such a client, and for the rest of any message that has begun.
    pub unauthenticated_message_max: Duration,
    /// Time for the rest of a message whose beginning is there, and for a client to take an answer.
    pub message_max: Duration,
    /// Memory budget for messages, answers and open cursors of all connections together.
    pub message_bytes_max: u64,
    /// The version of this program.
    pub version: &'static str,
    /// Command line of the server, for `getCmdLineOpts`.
    pub arguments: Vec<String>,
    pub sessions: SessionLimits,
    pub transactions: TransactionLimits,
    pub cursors: CursorLimits,
}

impl Default for MongoSettings {
    fn default() -> Self {
        MongoSettings {
            account_name: "localhost".into(),
            keys: Vec::new(),
            requires_authentication: false,
            has_test_commands: false,
            connections_max: 10_000,
            request_timeout: Duration::from_secs(60),
            idle_max: Duration::from_secs(1800),
            unauthenticated_idle_max: Duration::from_secs(120),
            unauthenticated_message_max: Duration::from_secs(20),
            message_max: Duration::from_secs(60),
            message_bytes_max: 512 << 20,
            version: env!("CARGO_PKG_VERSION"),
            arguments: Vec::new(),
            sessions: SessionLimits::default(),
            transactions: TransactionLimits::default(),
            cursors: CursorLimits::default(),
        }
    }
}

pub struct Deployment {
    pub account: Account,
    pub settings: MongoSettings,
    pub memory: Memory,
    pub places: Places,
    pub sessions: Sessions,
    pub cursors: Cursors,
    pub users: Users,
    pub fail_points: FailPoints,
    pub operations: Operations,
    /// Connections whose clients have authenticated.
    pub authenticated: Shares,
    pub unauthenticated: Unauthenticated,
    pub counters: Counters,
    pub latencies: Latencies,
    pub commands: CommandMetrics,
    /// Whether there is a command of this name. A function, because the commands must not depend on the table.
    pub knows_command: fn(&str) -> bool,
    /// When the gateway was opened, in terms of the account's clock.
    pub started: Duration,
    last_connection: AtomicI32,
}

/// Totals since the start.
#[derive(Debug, Default)]
pub struct Counters {
    pub connections: AtomicUsize,
    pub connections_made: AtomicU64,
    pub requests: AtomicU64,
    pub failures: AtomicU64,
    pub bytes_in: AtomicU64,
    pub bytes_out: AtomicU64,
    pub operations: OperationCounters,
}

/// Commands by kind, as `serverStatus` reports them.
#[derive(Debug, Default)]
pub struct OperationCounters {
    pub insert: AtomicU64,
    pub query: AtomicU64,
    pub update: AtomicU64,
    pub delete: AtomicU64,
    pub getmore: AtomicU64,
    pub command: AtomicU64,
}

impl OperationCounters {
    pub fn count(&self, command: &str) {
        let counter = match command {
            "insert" => &self.insert,
            "find" => &self.query,
            "update" => &self.update,
            "delete" => &self.delete,
            "getMore" => &self.getmore,
            _ => &self.command,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

impl Deployment {
    pub fn new(
        account: Account,
        settings: MongoSettings,
        (commands, knows_command): (CommandMetrics, fn(&str) -> bool),
    ) -> Deployment {
        let (clock, random) = (account.router().clock().clone(), account.router().random().clone());
        let memory = Memory::new(settings.message_bytes_max);
        Deployment {
            sessions: Sessions::new(clock.clone(), random.clone(), settings.sessions, settings.transactions),
            cursors: Cursors::new(clock.clone(), random, settings.cursors, memory.cursors.clone()),
            memory,
            places: Places::default(),
            users: Users::new(&settings.account_name, &settings.keys),
            fail_points: FailPoints::default(),
            operations: Operations::default(),
            authenticated: Shares::new(settings.connections_max),
            unauthenticated: Unauthenticated::new(settings.connections_max.div_ceil(2)),
            counters: Counters::default(),
            latencies: Latencies::default(),
            commands,
            knows_command,
            started: clock.elapsed(),
            last_connection: AtomicI32::new(0),
            account,
            settings,
        }
    }

    /// Source from which sessions learn of their writes before the server was started.
    pub fn past(&self) -> Past<'_> {
        let clock = self.account.router().clock();
        let runs_for = clock.elapsed().saturating_sub(self.started);
        Past {
            collections: self.account.collections(),
            now: clock.now(),
            is_recent: runs_for < Duration::from_secs(60 * TIMEOUT_MINUTES as u64),
        }
    }

    /// Deletes stored answers of retryable writes that no client may repeat any more. Called periodically.
    pub async fn forget_answers(&self) {
        match self.account.collections().forget_answers(self.account.router().clock().now()).await {
            Ok(0) => {}
            Ok(rows) => tracing::debug!(rows, "answers of old writes were deleted"),
            // The next call tries again.
            Err(failure) => {
                tracing::warn!(reason = failure.message, "answers of old writes were not deleted")
            }
        }
    }

    /// A number for a connection. Numbers start again after 2^31.
    pub fn next_connection(&self) -> i32 {
        self.last_connection.fetch_add(1, Ordering::Relaxed).wrapping_add(1) & i32::MAX
    }

    /// Ends sessions and cursors that were idle for too long, and the cursors of ended sessions. Called periodically.
    pub fn expire(&self) {
        let ended = self.sessions.expire();
        if !ended.is_empty() {
            self.cursors.kill_of_sessions(|owner| {
                ended.iter().any(|key| Some(key.id) == owner.session && key.user == owner.user)
            });
        }
        self.cursors.expire();
    }
}
