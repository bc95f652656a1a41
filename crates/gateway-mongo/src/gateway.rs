//! The gateway: a server opens one, and hands every connection to it.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use shardlake_account::Account;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Notify, watch};

use crate::access::Key;
use crate::call::{Connection, Ends};
use crate::command_metrics::{CommandMetrics, CommandReport};
use crate::connection_loop::Loop;
use crate::deployment::{Deployment, MongoSettings};
use crate::table;

/// Interval at which idle transactions are ended. Other transactions may wait for them.
const TRANSACTION_PERIOD: Duration = Duration::from_secs(1);
/// Sessions and cursors are expired at every such period. Each is also checked when it is used.
const EXPIRY_TURNS: u32 = 30;

/// Interval at which stored answers are deleted that no client may ask for any more.
const FORGET_PERIOD: Duration = Duration::from_secs(300);

/// Serves the protocol over an account. Cloning is cheap and shares everything.
#[derive(Clone)]
pub struct MongoGateway(Arc<Inner>);

struct Inner {
    deployment: Arc<Deployment>,
}

impl MongoGateway {
    /// Needs a runtime, for the tasks that end idle sessions, cursors and transactions.
    pub fn new(account: Account, settings: MongoSettings) -> MongoGateway {
        let commands = CommandMetrics::new(table::names());
        let deployment = Deployment::new(account, settings, (commands, |name| table::find(name).is_some()));
        let deployment = Arc::new(deployment);
        tokio::spawn(expire(Arc::downgrade(&deployment)));
        tokio::spawn(forget(Arc::downgrade(&deployment)));
        MongoGateway(Arc::new(Inner { deployment }))
    }

    /// Accepts these keys in place of all earlier ones, for logins from then on.
    pub fn set_keys(&self, keys: Vec<Key>) {
        self.0.deployment.users.set_keys(keys);
    }

    /// A place for a connection that has just been accepted.
    pub fn place(&self) -> Place {
        Place::new(&self.0.deployment)
    }

    /// Serves a connection to its end, as [`MongoGateway::serve_at`] does.
    pub async fn serve<T>(
        &self,
        io: T,
        ends: (SocketAddr, SocketAddr),
        stopping: watch::Receiver<bool>,
    ) -> io::Result<()>
    where
        T: AsyncRead + AsyncWrite + Unpin + Send,
    {
        self.serve_at(self.place(), io, ends, stopping).await
    }

    /// Serves a connection to its end. When `stopping` becomes true it ends with the command that is being carried out.
    pub async fn serve_at<T>(
        &self,
        place: Place,
        io: T,
        (client, server): (SocketAddr, SocketAddr),
        stopping: watch::Receiver<bool>,
    ) -> io::Result<()>
    where
        T: AsyncRead + AsyncWrite + Unpin + Send,
    {
        let deployment = &self.0.deployment;
        let numbers = (place.number, deployment.account.router().random().guid());
        let ends = Ends { client, server };
        let connection = Arc::new(Connection::new(numbers, ends, place.ended.clone()));
        Loop::new(deployment, connection, io, stopping).run().await
    }

    /// Bytes of messages, answers and cursors that are counted.
    pub fn message_bytes(&self) -> u64 {
        self.0.deployment.memory.held_bytes()
    }

    /// Commands since the start.
    pub fn commands(&self) -> Vec<CommandReport> {
        self.0.deployment.commands.reports()
    }

    /// Connections that are open.
    pub fn connections(&self) -> usize {
        self.0.deployment.counters.connections.load(Ordering::Relaxed)
    }
}

/// Registration of an open connection.
pub struct Place {
    deployment: Arc<Deployment>,
    number: i32,
    ended: Arc<Notify>,
}

impl Place {
    fn new(deployment: &Arc<Deployment>) -> Place {
        deployment.counters.connections.fetch_add(1, Ordering::Relaxed);
        deployment.counters.connections_made.fetch_add(1, Ordering::Relaxed);
        let (number, ended) = (deployment.next_connection(), Arc::new(Notify::new()));
        if deployment.settings.requires_authentication {
            deployment.unauthenticated.enter(number, ended.clone());
        }
        Place { deployment: deployment.clone(), number, ended }
    }

    /// Waits until the place is needed for another connection. A connection that is being served waits for this itself.
    pub async fn ended(&self) {
        self.ended.notified().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.deployment.cursors.kill_of_connection(self.number);
        self.deployment.unauthenticated.leave(self.number);
        self.deployment.counters.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Ends idle sessions, cursors and transactions until the gateway is dropped.
async fn expire(deployment: Weak<Deployment>) {
    let mut period = tokio::time::interval(TRANSACTION_PERIOD);
    for turn in 0u32.. {
        period.tick().await;
        let Some(deployment) = deployment.upgrade() else { return };
        deployment.sessions.expire_transactions();
        if turn.is_multiple_of(EXPIRY_TURNS) {
            deployment.expire();
        }
    }
}

/// Deletes old answers until the gateway is dropped. A task of its own, because a store may be slow.
async fn forget(deployment: Weak<Deployment>) {
    let mut period = tokio::time::interval(FORGET_PERIOD);
    loop {
        period.tick().await;
        let Some(deployment) = deployment.upgrade() else { return };
        deployment.forget_answers().await;
    }
}
