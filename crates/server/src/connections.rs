//! The shared parts of all connections, and of one: limits, the account's front, and the watch over time.

use std::sync::Arc;
use std::time::Duration;

use shardlake_gateway_nosql::Scheme;
use shardlake_stdx::Clock;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use crate::config::ConnectionLimits;
use crate::failed_openings::FailedOpenings;
use crate::front::{Front, Origin};
use crate::watched_io::{Activity, Protocol};

/// How often a connection is checked: seldom enough to cost nothing, and twice in the time that answers have while memory is short.
const WATCH_PERIOD_MIN: Duration = Duration::from_millis(100);
const WATCH_PERIOD_MAX: Duration = Duration::from_millis(2500);

/// The shared parts of all connections.
pub struct Connections {
    pub front: Arc<Front>,
    pub tls: TlsAcceptor,
    pub limits: ConnectionLimits,
    pub clock: Clock,
    pub failed_openings: FailedOpenings,
    /// True once the server is stopping.
    pub stopping: watch::Sender<bool>,
}

impl Connections {
    pub fn new(front: Arc<Front>, tls: TlsAcceptor, limits: ConnectionLimits, clock: Clock) -> Connections {
        let failed_openings = FailedOpenings::new(clock.clone());
        Connections { front, tls, limits, clock, failed_openings, stopping: watch::Sender::new(false) }
    }

    pub fn requests(&self, scheme: Scheme, protocol: Protocol) -> Requests {
        Requests {
            front: self.front.clone(),
            origin: Arc::new(Origin { scheme, space: self.front.space.connection() }),
            activity: Activity::new(self.clock.clone(), protocol),
        }
    }

    /// Until the server stops or the connection has wasted its time.
    pub async fn watch(&self, activity: &Activity) -> Next {
        let mut stopping = self.stopping.subscribe();
        let limits = &self.limits;
        // Limits are kept to within a quarter.
        let shortest = limits.header_max.min(limits.idle_max).min(limits.request_max);
        let period = (shortest / 4).clamp(WATCH_PERIOD_MIN, WATCH_PERIOD_MAX);
        loop {
            let tick = tokio::time::timeout(period, stopping.wait_for(|stopping| *stopping)).await;
            if tick.is_ok() {
                return Next::Stop;
            }
            let (ended, stalled) = activity.end_stalled(self.front.space.patience(limits.request_max));
            self.front.metrics.answers_abandoned.inc_by(ended as u64);
            if let Some(overdue) = stalled.or_else(|| activity.overdue(limits.header_max, limits.idle_max)) {
                tracing::debug!(?overdue, "connection closed");
                self.front.metrics.connections_overdue.inc();
                return Next::Close;
            }
        }
    }
}

/// The shared parts of a connection's requests.
#[derive(Clone)]
pub struct Requests {
    pub front: Arc<Front>,
    pub origin: Arc<Origin>,
    pub activity: Arc<Activity>,
}

pub enum Next {
    /// Finish the request in flight, then close.
    Stop,
    /// Close at once.
    Close,
}
