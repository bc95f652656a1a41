//! Listeners: accept connections, count them, and refuse those beyond the maximum.
//!
//! A refused plain connection is answered with 503. A bounded number of tasks does the refusals, so that a flood of
//! connections costs a bounded amount of memory.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::config::ListenAddress;
use crate::metrics::Metrics;

const BACKLOG: u32 = 4096;
const REFUSAL_MAX: Duration = Duration::from_millis(500);
const REFUSAL: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: 1\r\n\
x-content-type-options: nosniff\r\nconnection: close\r\ncontent-length: 71\r\n\r\n\
{\"code\":\"ServiceUnavailable\",\"message\":\"too many connections: retry\"}\r\n";

/// A bound listener and the name clients use for it.
pub struct Bound {
    pub listener: TcpListener,
    /// Host and port as clients should use them.
    pub authority: String,
    /// The bound address.
    pub local: SocketAddr,
}

/// Binds the addresses of a setting; `setting` is its name for errors.
pub fn bind(setting: &str, addresses: &[ListenAddress]) -> Result<Vec<Bound>, String> {
    let mut bound = Vec::new();
    for listen in addresses {
        for address in &listen.addresses {
            let listener = match bind_one(*address) {
                Err(error) if listen.is_optional => {
                    tracing::warn!(%address, %error, "a port of emulator mode is not served");
                    continue;
                }
                bound => bound.map_err(|error| explain(setting, *address, &error))?,
            };
            let local = listener.local_addr().map_err(|error| explain(setting, *address, &error))?;
            let authority = format!("{}:{}", listen.host, local.port());
            bound.push(Bound { listener, authority, local });
        }
    }
    Ok(bound)
}

fn bind_one(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // A restarted server must not wait for the connections of the one before it to be forgotten.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

fn explain(setting: &str, address: SocketAddr, error: &io::Error) -> String {
    let advice = match error.kind() {
        io::ErrorKind::AddrInUse => {
            format!(": another program serves there; choose another with {setting}, or port 0")
        }
        io::ErrorKind::PermissionDenied => {
            format!(": this port is reserved; choose one above 1023 with {setting}")
        }
        io::ErrorKind::AddrNotAvailable => ": this machine does not have that address".to_owned(),
        _ => String::new(),
    };
    format!("the address {address} cannot be served on ({error}){advice}")
}

/// Bounds of the connections of one API's listeners.
#[derive(Clone)]
pub struct Slots {
    /// Permits of all APIs together.
    pub connections: Arc<Semaphore>,
    /// Permits of this API, which leave some connections to the others.
    pub own: Arc<Semaphore>,
    /// Permits for connections that are refused with an answer.
    pub refusals: Arc<Semaphore>,
}

impl Slots {
    fn take(&self) -> Option<(OwnedSemaphorePermit, OwnedSemaphorePermit)> {
        let own = self.own.clone().try_acquire_owned().ok()?;
        let slot = self.connections.clone().try_acquire_owned().ok()?;
        Some((own, slot))
    }
}

/// Connections that one API may have: where the MongoDB API is served, too, each API keeps a quarter of all connections for itself.
pub fn own_max(connections_max: usize, bound_for_mongo: &[Bound]) -> usize {
    match bound_for_mongo {
        [] => connections_max,
        _ => connections_max - connections_max / 4,
    }
}

/// How a connection beyond the maximum is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    Http,
    /// By closing it: the protocol has no message before a request.
    Close,
}

/// Accepts until the task is dropped or aborted, and serves each connection in a task of its own.
pub async fn accept<F, S>(
    listener: TcpListener,
    (slots, refusal): (Slots, Refusal),
    metrics: Arc<Metrics>,
    serve: F,
) where
    F: Fn(TcpStream) -> S,
    S: Future<Output = ()> + Send + 'static,
{
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Out of file descriptors, most likely: they come back when connections end.
                tracing::warn!(%error, "a connection cannot be accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        if let Some(taken) = slots.take() {
            metrics.connections.inc();
            let (served, metrics) = (serve(stream), metrics.clone());
            tokio::spawn(async move {
                served.await;
                metrics.connections.dec();
                drop(taken);
            });
        } else {
            metrics.connections_refused.inc();
            if refusal == Refusal::Close {
                continue;
            }
            if let Ok(refusal) = slots.refusals.clone().try_acquire_owned() {
                tokio::spawn(async move {
                    let _too_slow = tokio::time::timeout(REFUSAL_MAX, refuse(stream)).await;
                    drop(refusal);
                });
            }
        }
    }
}

/// Sends 503 and waits for the client to have read it. A TLS client sees garbage and a close.
async fn refuse(mut stream: TcpStream) -> io::Result<()> {
    stream.write_all(REFUSAL).await?;
    stream.shutdown().await?;
    let mut scratch = [0; 4096];
    while stream.read(&mut scratch).await? > 0 {}
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_refusal_announces_its_own_length() {
        let text = std::str::from_utf8(REFUSAL).expect("ASCII");
        let (head, body) = text.split_once("\r\n\r\n").expect("a head and a body");
        assert!(head.contains(&format!("content-length: {}", body.len())), "{}", body.len());
    }
}
