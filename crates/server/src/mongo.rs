//! The MongoDB API's listeners, and the first bytes of a connection, which separate TLS from plain messages.
//!
//! The port is bound with the others, so that a port in use is reported at once; connections are accepted when the account is open.
//!
//! A message begins with its length, least significant byte first, so its first byte alone may be that of a TLS handshake:
//!
//! ```text
//! byte      0     1     2       3 4      5                6 7 8    9
//! TLS       0x16  3     0..=4   length   1: ClientHello   length   3
//! message   length ───────────────────   request id ───────────    0: a request responds to nothing
//! ```

use std::io;
use std::sync::Arc;

use shardlake_account::Account;
use shardlake_gateway_mongo::{Access, Key, MongoGateway, MongoSettings};
use shardlake_signature::AccountKey;
use tokio::net::TcpStream;

use crate::config::{Config, MongoConfig};
use crate::connection::{PART_LOOKS_APART, TLS_HANDSHAKE};
use crate::connections::Connections;
use crate::keys::AccountKeys;
use crate::listener::{self, Bound};

/// Bytes that separate TLS from messages. Both protocols' clients send more before they wait for an answer.
const OPENING_BYTES: usize = 10;
const TLS_MAJOR_VERSION: u8 = 3;
const TLS_MINOR_VERSION_MAX: u8 = 4;
const CLIENT_HELLO: u8 = 1;

/// Binds the listeners. A default listener is left out where another program has its port.
pub fn bind(config: &MongoConfig) -> Result<Vec<Bound>, String> {
    match listener::bind("--mongo-listen", &config.listen) {
        Err(reason) if config.is_optional => {
            tracing::info!(reason, "MongoDB's drivers are not served");
            Ok(Vec::new())
        }
        bound => bound,
    }
}

/// Account keys as passwords of the account's user.
pub fn keys_of(keys: &[AccountKey]) -> Vec<Key> {
    let key = |key: &AccountKey| Key {
        text: key.key.trim().to_owned(),
        access: match key.access {
            shardlake_signature::Access::Full => Access::Full,
            shardlake_signature::Access::ReadOnly => Access::ReadOnly,
        },
    };
    keys.iter().map(key).collect()
}

/// A gateway for as many connections as the MongoDB API may have.
pub fn gateway(
    account: &Account,
    config: &Config,
    keys: &AccountKeys,
    connections_max: usize,
) -> MongoGateway {
    let settings = MongoSettings {
        keys: keys_of(&keys.accepted()),
        // The well-known key is no secret, and only this machine can reach a server that takes it.
        requires_authentication: !keys.accept_the_well_known(),
        has_test_commands: config.mongo.has_test_commands,
        connections_max,
        request_timeout: config.limits.request_max,
        message_max: config.limits.request_max,
        unauthenticated_message_max: config.limits.header_max,
        message_bytes_max: config.limits.message_bytes_max,
        version: env!("CARGO_PKG_VERSION"),
        arguments: std::env::args_os().map(|argument| argument.to_string_lossy().into_owned()).collect(),
        ..MongoSettings::default()
    };
    MongoGateway::new(account.clone(), settings)
}

/// State that all connections of MongoDB's protocol share.
pub struct MongoConnections {
    pub gateway: MongoGateway,
    pub connections: Arc<Connections>,
}

impl MongoConnections {
    /// Serves a connection to its end. The reason why it ended is logged at trace level only.
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
        let place = self.gateway.place();
        let opening = tokio::select! {
            opening = tokio::time::timeout(shared.limits.header_max, opening(&stream)) => opening??,
            () = place.ended() => Opening::Nothing,
            _ = stopping.wait_for(|stopping| *stopping) => Opening::Nothing,
        };
        let stopping = shared.stopping.subscribe();
        match opening {
            Opening::Nothing => Ok(()),
            Opening::Tls => {
                let accepting = tokio::time::timeout(shared.limits.header_max, shared.tls.accept(stream));
                let stream = tokio::select! {
                    accepted = accepting => accepted??,
                    () = place.ended() => return Ok(()),
                };
                self.gateway.serve_at(place, stream, ends, stopping).await
            }
            Opening::Message => self.gateway.serve_at(place, stream, ends, stopping).await,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Opening {
    /// The client closed, another connection needs the place, or the server stops.
    Nothing,
    Tls,
    Message,
}

/// Looks at the first bytes without taking them.
async fn opening(stream: &TcpStream) -> io::Result<Opening> {
    let mut bytes = [0; OPENING_BYTES];
    loop {
        match stream.peek(&mut bytes).await? {
            0 => return Ok(Opening::Nothing),
            seen => match opening_of(&bytes[..seen]) {
                Some(opening) => return Ok(opening),
                // Peeking does not wait for more than is there, so time must pass.
                None => tokio::time::sleep(PART_LOOKS_APART).await,
            },
        }
    }
}

/// `None` where bytes that are still to come decide.
fn opening_of(seen: &[u8]) -> Option<Opening> {
    let is_of_tls = |(place, byte): (usize, &u8)| match place {
        0 => *byte == TLS_HANDSHAKE,
        1 | 9 => *byte == TLS_MAJOR_VERSION,
        2 => *byte <= TLS_MINOR_VERSION_MAX,
        5 => *byte == CLIENT_HELLO,
        _ => true,
    };
    match seen.iter().enumerate().all(is_of_tls) {
        false => Some(Opening::Message),
        true if seen.len() >= OPENING_BYTES => Some(Opening::Tls),
        true => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first bytes of a message of this length.
    fn message(length: u32, request_id: u32) -> Vec<u8> {
        [length, request_id, 0, 2013].map(u32::to_le_bytes).concat()
    }

    #[test]
    fn no_length_of_a_message_opens_tls() {
        for length in 16..=48_000_000u32 {
            // Only these look like TLS at first; a handful of others stand for the rest.
            if length % 0x100 == 0x16 || length < 0x400 {
                for request_id in [0, 1, 0x100, 0x1FF, 0x0303_0103, u32::MAX] {
                    let bytes = message(length, request_id);
                    let opening = opening_of(&bytes[..OPENING_BYTES]);
                    assert_eq!(opening, Some(Opening::Message), "{length} {request_id:#x}");
                }
            }
        }
    }

    #[test]
    fn client_hellos_open_tls_and_parts_of_them_wait_for_the_rest() {
        for record_version in 0..=4 {
            let hello = [0x16, 3, record_version, 2, 0, 1, 0, 1, 252, 3, 3];
            for length in 1..OPENING_BYTES {
                assert_eq!(opening_of(&hello[..length]), None, "{length} bytes");
            }
            assert_eq!(opening_of(&hello[..OPENING_BYTES]), Some(Opening::Tls));
        }
        assert_eq!(opening_of(&[0x17]), Some(Opening::Message));
    }
}
