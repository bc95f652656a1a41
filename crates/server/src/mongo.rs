//! The door for MongoDB's drivers: its listeners, and the first byte of a connection, which tells TLS from plain messages.
//!
//! The port is bound with the others, so that one that is taken is told of at once; connections are accepted when the account is open.

use std::io;
use std::sync::Arc;

use shardlake_account::Account;
use shardlake_gateway_mongo::{Access, Key, MongoGateway, MongoSettings};
use shardlake_signature::AccountKey;
use tokio::net::TcpStream;

use crate::config::{Config, MongoConfig};
use crate::connection::{Connections, TLS_HANDSHAKE};
use crate::keys::AccountKeys;
use crate::listener::{self, Bound};

/// Binds the listeners. One that nobody asked for is left out where another program has its port.
pub fn bind(config: &MongoConfig) -> Result<Vec<Bound>, String> {
    match listener::bind("--mongo-listen", &config.listen) {
        Err(reason) if config.is_optional => {
            tracing::info!(reason, "MongoDB's drivers are not served");
            Ok(Vec::new())
        }
        bound => bound,
    }
}

pub fn gateway(account: &Account, config: &Config, keys: &AccountKeys) -> MongoGateway {
    let key = |key: &AccountKey| Key {
        text: key.key.trim().to_owned(),
        access: match key.access {
            shardlake_signature::Access::Full => Access::Full,
            shardlake_signature::Access::ReadOnly => Access::ReadOnly,
        },
    };
    let settings = MongoSettings {
        keys: keys.keys.iter().map(key).collect(),
        // The well-known key is no secret, and only this machine can reach a server that takes it.
        requires_authentication: !keys.accept_the_well_known(),
        has_test_commands: config.mongo.has_test_commands,
        connections_max: config.limits.connections_max,
        request_timeout: config.limits.request_max,
        message_max: config.limits.request_max,
        message_bytes_max: config.limits.message_bytes_max,
        version: env!("CARGO_PKG_VERSION"),
        arguments: std::env::args_os().map(|argument| argument.to_string_lossy().into_owned()).collect(),
        ..MongoSettings::default()
    };
    MongoGateway::new(account.clone(), settings)
}

/// What the connections of this door share.
pub struct MongoConnections {
    pub gateway: MongoGateway,
    pub connections: Arc<Connections>,
}

impl MongoConnections {
    /// Serves a connection to its end. Nobody is interested in why it ended but the log at its lowest level.
    pub async fn serve(&self, stream: TcpStream) {
        if let Err(error) = self.try_serve(stream).await {
            tracing::trace!(%error, "connection ended");
        }
    }

    async fn try_serve(&self, stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let ends = (stream.peer_addr()?, stream.local_addr()?);
        let shared = &self.connections;
        let mut stopping = shared.stopping.subscribe();
        let mut first = [0];
        let opening = tokio::select! {
            seen = tokio::time::timeout(shared.limits.idle_max, stream.peek(&mut first)) => seen??,
            _ = stopping.wait_for(|stopping| *stopping) => 0,
        };
        let stopping = shared.stopping.subscribe();
        match first {
            _ if opening == 0 => Ok(()),
            [TLS_HANDSHAKE] => {
                let accepting = shared.tls.accept(stream);
                let stream = tokio::time::timeout(shared.limits.header_max, accepting).await??;
                self.gateway.serve(stream, ends, stopping).await
            }
            _ => self.gateway.serve(stream, ends, stopping).await,
        }
    }
}
