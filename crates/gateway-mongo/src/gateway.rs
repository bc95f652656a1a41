//! The gateway: what a server opens once, and hands every connection to.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use shardlake_account::Account;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;

use crate::call::{Connection, Ends};
use crate::connection_loop::Loop;
use crate::deployment::{Deployment, MongoSettings};
use crate::memory::Memory;
use crate::table;

/// How often transactions that nobody uses are looked for: others may wait for them.
const TRANSACTION_PERIOD: Duration = Duration::from_secs(1);
/// Sessions and cursors are looked for every so many times. Each is looked at when it is used, too.
const EXPIRY_TURNS: u32 = 30;

/// How often stored answers are looked through that nobody may ask for any more.
const FORGET_PERIOD: Duration = Duration::from_secs(300);

/// Serves the protocol over an account. Cloning is cheap and shares everything.
#[derive(Clone)]
pub struct MongoGateway(Arc<Inner>);

struct Inner {
    deployment: Arc<Deployment>,
    memory: Memory,
}

impl MongoGateway {
    /// Needs a runtime, for the tasks that end what nobody uses.
    pub fn new(account: Account, settings: MongoSettings) -> MongoGateway {
        let memory = Memory::new(settings.message_bytes_max);
        let deployment = Arc::new(Deployment::new(account, settings, |name| table::find(name).is_some()));
        tokio::spawn(expire(Arc::downgrade(&deployment)));
        tokio::spawn(forget(Arc::downgrade(&deployment)));
        MongoGateway(Arc::new(Inner { deployment, memory }))
    }

    /// Serves a connection to its end. When `stopping` becomes true it ends with the command that is being carried out.
    pub async fn serve<T>(
        &self,
        io: T,
        (client, server): (SocketAddr, SocketAddr),
        stopping: watch::Receiver<bool>,
    ) -> io::Result<()>
    where
        T: AsyncRead + AsyncWrite + Unpin + Send,
    {
        let deployment = &self.0.deployment;
        let connection = Arc::new(Connection::new(
            (deployment.next_connection(), deployment.account.random().guid()),
            Ends { client, server },
        ));
        let _open = Open::new(deployment);
        Loop::new(deployment, &self.0.memory, connection, io, stopping).run().await
    }

    /// Bytes of messages and answers that are counted.
    pub fn message_bytes(&self) -> u64 {
        self.0.memory.held_bytes()
    }

    /// Connections that are open.
    pub fn connections(&self) -> usize {
        self.0.deployment.counters.connections.load(Ordering::Relaxed)
    }
}

/// Counts a connection as long as it is there.
struct Open<'d>(&'d Deployment);

impl<'d> Open<'d> {
    fn new(deployment: &'d Deployment) -> Open<'d> {
        deployment.counters.connections.fetch_add(1, Ordering::Relaxed);
        deployment.counters.connections_made.fetch_add(1, Ordering::Relaxed);
        Open(deployment)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.counters.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Until the gateway is gone.
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

/// Until the gateway is gone. By itself, because a store may be slow.
async fn forget(deployment: Weak<Deployment>) {
    let mut period = tokio::time::interval(FORGET_PERIOD);
    loop {
        period.tick().await;
        let Some(deployment) = deployment.upgrade() else { return };
        deployment.forget_answers().await;
    }
}
