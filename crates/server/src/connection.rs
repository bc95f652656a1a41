//! One connection: plain or TLS, HTTP/1.1 or HTTP/2, until either side ends it.
//!
//! The first byte decides: 0x16 opens a TLS handshake, anything else is HTTP. On TLS the client names the protocol (ALPN); on
//! a plain connection HTTP/2 opens with `PRI `, which no method of ours begins with. The bytes are looked at without being taken.
//!
//! Limits: the first bytes and the handshake have the header time; `watched_io.rs` notes progress, and a timer closes
//! what is idle or trickles its headers. On shutdown a connection finishes the request in flight and closes.

use std::convert::Infallible;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http::header::CONNECTION;
use http::{HeaderValue, Request, Version};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use shardlake_gateway_nosql::Scheme;
use shardlake_stdx::Clock;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use crate::config::ConnectionLimits;
use crate::counted_body::CountedBody;
use crate::front::{Front, Reply};
use crate::watched_io::{Activity, Protocol, WatchedIo};

const TLS_HANDSHAKE: u8 = 0x16;
const HTTP2_OPENING: &[u8] = b"PRI ";
/// HTTP/2 clients send their opening in one piece; this often, this far apart, is looked for the rest of a part of it.
const PART_LOOKS_MAX: usize = 50;
const PART_LOOKS_APART: Duration = Duration::from_millis(10);
/// Requests that one HTTP/2 connection may have in flight.
const STREAMS_MAX: u32 = 256;
const STREAM_WINDOW_BYTES: u32 = 1 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 4 << 20;

/// What all connections share.
pub struct Connections {
    pub front: Arc<Front>,
    pub tls: TlsAcceptor,
    pub limits: ConnectionLimits,
    pub clock: Clock,
    /// True once the server is stopping.
    pub stopping: watch::Receiver<bool>,
}

impl Connections {
    /// Serves a connection to its end. Nobody is interested in why it ended but the log at its lowest level.
    pub async fn serve(&self, stream: TcpStream) {
        if let Err(error) = self.try_serve(stream).await {
            tracing::trace!(%error, "connection ended");
        }
    }

    async fn try_serve(&self, stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let deadline = self.limits.header_max;
        let opening = tokio::time::timeout(deadline, self.opening(&stream)).await??;
        match opening {
            Opening::Nothing => Ok(()),
            Opening::Http1 => self.serve_http1(stream, Scheme::Http).await,
            Opening::Http2 => self.serve_http2(stream, Scheme::Http).await,
            Opening::Tls => {
                let stream = tokio::time::timeout(deadline, self.tls.accept(stream)).await??;
                if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
                    self.serve_http2(stream, Scheme::Https).await
                } else {
                    self.serve_http1(stream, Scheme::Https).await
                }
            }
        }
    }

    /// Waits for the first bytes; a connection without any is closed when the server stops.
    async fn opening(&self, stream: &TcpStream) -> io::Result<Opening> {
        let mut stopping = self.stopping.clone();
        tokio::select! {
            opening = peek_opening(stream) => opening,
            _ = stopping.wait_for(|stopping| *stopping) => Ok(Opening::Nothing),
        }
    }

    async fn serve_http1<T>(&self, stream: T, scheme: Scheme) -> io::Result<()>
    where
        T: AsyncRead + AsyncWrite + Unpin + Send,
    {
        let activity = Activity::new(self.clock.clone(), Protocol::Http1);
        let io = TokioIo::new(WatchedIo::new(stream, activity.clone()));
        let service = service_fn(|request| self.answer(request, scheme, &activity));
        let connection = http1::Builder::new()
            .max_buf_size(self.limits.header_size_bytes_max)
            // A read may go beyond the buffer's limit and end the headers there.
            .max_header_size(self.limits.header_size_bytes_max)
            // Our own timer does this without one timer per request.
            .header_read_timeout(None)
            .serve_connection(io, service);
        let mut connection = pin!(connection);
        tokio::select! {
            ended = connection.as_mut() => return ended.map_err(io::Error::other),
            next = self.watch(&activity) => match next {
                Next::Stop => connection.as_mut().graceful_shutdown(),
                Next::Close => return Ok(()),
            }
        }
        connection.await.map_err(io::Error::other)
    }

    async fn serve_http2<T>(&self, stream: T, scheme: Scheme) -> io::Result<()>
    where
        T: AsyncRead + AsyncWrite + Unpin + Send,
    {
        let activity = Activity::new(self.clock.clone(), Protocol::Http2);
        let io = TokioIo::new(WatchedIo::new(stream, activity.clone()));
        let front = self.front.clone();
        let of_requests = activity.clone();
        // Streams are tasks of their own, so they own what they need.
        let service = service_fn(move |request: Request<Incoming>| {
            let (front, in_flight) = (front.clone(), of_requests.begin_request());
            async move {
                let _in_flight = in_flight;
                Ok::<Reply, Infallible>(front.answer(request, scheme).await)
            }
        });
        let connection = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .max_header_list_size(u32::try_from(self.limits.header_size_bytes_max).unwrap_or(u32::MAX))
            .max_concurrent_streams(STREAMS_MAX)
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .serve_connection(io, service);
        let mut connection = pin!(connection);
        tokio::select! {
            ended = connection.as_mut() => return ended.map_err(io::Error::other),
            next = self.watch(&activity) => match next {
                Next::Stop => connection.as_mut().graceful_shutdown(),
                Next::Close => return Ok(()),
            }
        }
        connection.await.map_err(io::Error::other)
    }

    async fn answer(
        &self,
        request: Request<Incoming>,
        scheme: Scheme,
        activity: &Arc<Activity>,
    ) -> Result<Reply, Infallible> {
        let _in_flight = activity.begin_request();
        debug_assert_ne!(request.version(), Version::HTTP_2, "each protocol has its own service");
        let (head, body) = request.into_parts();
        let (body, left) = CountedBody::new(body);
        let mut reply = self.front.answer(Request::from_parts(head, body), scheme).await;
        if left.is_in_the_way() {
            reply.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        Ok(reply)
    }

    /// Until the server stops or the connection has wasted its time.
    async fn watch(&self, activity: &Activity) -> Next {
        let mut stopping = self.stopping.clone();
        let limits = &self.limits;
        // Limits are kept to within a quarter.
        let period = (limits.header_max.min(limits.idle_max) / 4).max(Duration::from_millis(100));
        loop {
            let tick = tokio::time::timeout(period, stopping.wait_for(|stopping| *stopping)).await;
            if tick.is_ok() {
                return Next::Stop;
            }
            if let Some(overdue) = activity.overdue(limits.header_max, limits.idle_max) {
                tracing::debug!(?overdue, "connection closed");
                self.front.metrics.connections_overdue.inc();
                return Next::Close;
            }
        }
    }
}

enum Next {
    /// Finish the request in flight, then close.
    Stop,
    /// Close at once.
    Close,
}

enum Opening {
    /// The client closed, or never spoke before the server stopped.
    Nothing,
    Tls,
    Http1,
    Http2,
}

async fn peek_opening(stream: &TcpStream) -> io::Result<Opening> {
    let mut bytes = [0; HTTP2_OPENING.len()];
    for _ in 0..PART_LOOKS_MAX {
        let seen = stream.peek(&mut bytes).await?;
        match &bytes[..seen] {
            [] => return Ok(Opening::Nothing),
            [TLS_HANDSHAKE, ..] => return Ok(Opening::Tls),
            opening if opening == HTTP2_OPENING => return Ok(Opening::Http2),
            // Part of it: the rest must come before anything can be told. Peeking does not wait for more, so time must pass.
            part if HTTP2_OPENING.starts_with(part) => tokio::time::sleep(PART_LOOKS_APART).await,
            _ => break,
        }
    }
    // Also a client that broke off: peeking does not see the end behind what was sent.
    Ok(Opening::Http1)
}
