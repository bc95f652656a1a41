//! One connection: plain or TLS, HTTP/1.1, HTTP/2 or Direct mode, until either side ends it.
//!
//! The first byte decides: 0x16 opens a TLS handshake, anything else is HTTP. On TLS the client names the protocol (ALPN); without a name
//! it is HTTP/1.1 or Direct mode, by its first bytes (`direct.rs`). On a plain connection HTTP/2 opens with `PRI `,
//! which no method of ours begins with. These bytes are looked at without being taken.
//!
//! Limits: the first bytes and the handshake have the header time; `watched_io.rs` notes progress, and a timer closes
//! a connection that is idle, trickles its headers or reads none of its answers. On shutdown a connection finishes the requests
//! in flight, which includes sending their answers, and closes.

use std::convert::Infallible;
use std::io;
use std::pin::pin;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{CONNECTION, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderValue, Request, Response, Version};
use hyper::body::{Body, Incoming};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use shardlake_gateway_nosql::Scheme;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use crate::answers::Reply;
use crate::connections::{Connections, Next, Requests};
use crate::counted_body::CountedBody;
use crate::direct::{self, Rewound};
use crate::front;
use crate::request_metrics::Transport;
use crate::sent_body::SentBody;
use crate::stream_tasks::StreamTasks;
use crate::watched_io::{InFlight, Protocol, WatchedIo};

pub const TLS_HANDSHAKE: u8 = 0x16;
const HTTP2_OPENING: &[u8] = b"PRI ";
/// HTTP/2 clients send their opening in one piece; this often, this far apart, is looked for the rest of a part of it.
const PART_LOOKS_MAX: usize = 50;
pub const PART_LOOKS_APART: Duration = Duration::from_millis(10);
/// Requests that one HTTP/2 connection may have in flight.
const STREAMS_MAX: u32 = 256;
/// HTTP/2 flow-control window of a stream and of a connection. These bytes lie in memory that nothing else bounds, so the window
/// is only as large as one upload needs to be fast over a distance.
const WINDOW_BYTES: u32 = 1 << 20;

impl Connections {
    /// Serves a connection to its end. The reason why it ended is logged at trace level only.
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
                let shaken = tokio::time::timeout(deadline, self.tls.accept(stream)).await?;
                let stream = shaken.inspect_err(|error| self.failed_openings.log_handshake(error))?;
                match stream.get_ref().1.alpn_protocol() {
                    Some(b"h2") => self.serve_http2(stream, Scheme::Https).await,
                    Some(_) => self.serve_http1(Rewound::new(BytesMut::new(), stream), Scheme::Https).await,
                    None => self.serve_unnamed(stream).await,
                }
            }
        }
    }

    /// A TLS client that names no protocol: its first bytes decide. It may be idle before them.
    async fn serve_unnamed(&self, mut stream: TlsStream<TcpStream>) -> io::Result<()> {
        let mut stopping = self.stopping.subscribe();
        let mut first = BytesMut::with_capacity(direct::OPENING_BYTES);
        let read = tokio::select! {
            read = tokio::time::timeout(self.limits.idle_max, stream.read_buf(&mut first)) => read??,
            _ = stopping.wait_for(|stopping| *stopping) => 0,
        };
        if read == 0 {
            return Ok(());
        }
        let opening = async {
            while first.len() < direct::OPENING_BYTES && stream.read_buf(&mut first).await? > 0 {}
            Ok::<_, io::Error>(())
        };
        tokio::time::timeout(self.limits.header_max, opening).await??;
        if direct::is_opening(&first) {
            return self.serve_direct(stream, first).await;
        }
        self.serve_http1(Rewound::new(first, stream), Scheme::Https).await
    }

    /// Waits for the first bytes; a connection without any is closed when the server stops.
    async fn opening(&self, stream: &TcpStream) -> io::Result<Opening> {
        let mut stopping = self.stopping.subscribe();
        tokio::select! {
            opening = peek_opening(stream) => opening,
            _ = stopping.wait_for(|stopping| *stopping) => Ok(Opening::Nothing),
        }
    }

    async fn serve_http1<T>(&self, stream: T, scheme: Scheme) -> io::Result<()>
    where
        T: AsyncRead + AsyncWrite + Unpin + Send,
    {
        let requests = self.requests(scheme, Protocol::Http1);
        let io = TokioIo::new(WatchedIo::new(stream, requests.activity.clone()));
        let service = service_fn(|request| requests.answer_http1(request));
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
            next = self.watch(&requests.activity) => match next {
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
        let requests = self.requests(scheme, Protocol::Http2);
        let activity = requests.activity.clone();
        let io = TokioIo::new(WatchedIo::new(stream, activity.clone()));
        // Each stream is a task and owns its data. The data of the work is boxed, so that it is freed when the answer is made,
        // however long the stream then waits for its client.
        let service = service_fn(move |request: Request<Incoming>| {
            let requests = requests.clone();
            Box::pin(async move { Ok::<_, Infallible>(requests.answer(request).await) })
        });
        let connection = http2::Builder::new(StreamTasks)
            .timer(TokioTimer::new())
            .max_header_list_size(u32::try_from(self.limits.header_size_bytes_max).unwrap_or(u32::MAX))
            .max_concurrent_streams(STREAMS_MAX)
            .initial_stream_window_size(WINDOW_BYTES)
            .initial_connection_window_size(WINDOW_BYTES)
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
}

impl Requests {
    async fn answer_http1(&self, request: Request<Incoming>) -> Result<Response<SentBody>, Infallible> {
        debug_assert_ne!(request.version(), Version::HTTP_2, "each protocol has its own service");
        let (head, body) = request.into_parts();
        let (body, left) = CountedBody::new(body);
        let is_understood = has_known_coding(&head.headers);
        let mut response = if is_understood {
            self.answer(Request::from_parts(head, body)).await
        } else {
            self.sent(self.activity.begin_request(), front::unknown_transfer_coding())
        };
        if left.is_in_the_way() || !is_understood {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        Ok(response)
    }

    async fn answer<B>(&self, request: Request<B>) -> Response<SentBody>
    where
        B: Body<Data = Bytes>,
        B::Error: std::fmt::Display,
    {
        let in_flight = self.activity.begin_request();
        let reply = if self.origin.space.is_exhausted() {
            self.front.exhausted(&request, Transport::Http)
        } else {
            self.front.answer(request, &self.origin).await
        };
        self.sent(in_flight, reply)
    }

    /// The request stays in flight, and its answer counted, until the client has taken it.
    fn sent(&self, in_flight: InFlight, reply: Reply) -> Response<SentBody> {
        reply.map(|mut body| {
            let hold = body.take_hold().unwrap_or_else(|| {
                let hold = self.origin.space.hold();
                hold.settle(body.left_bytes());
                hold
            });
            SentBody::new(body, in_flight.answering(hold))
        })
    }
}

/// Whether the body is as it was sent, chunked at most. The HTTP library looks at the last coding alone.
fn has_known_coding(headers: &HeaderMap) -> bool {
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    let is_chunked = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"chunked");
    codings.next().is_none_or(is_chunked) && codings.next().is_none()
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
            // A part of the opening: wait for the rest. Peeking does not wait for more bytes, so time must pass.
            part if HTTP2_OPENING.starts_with(part) => tokio::time::sleep(PART_LOOKS_APART).await,
            _ => break,
        }
    }
    // Also a client that closed its side: peeking does not report the end behind bytes that are unread.
    Ok(Opening::Http1)
}
