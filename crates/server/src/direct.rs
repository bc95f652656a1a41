//! A connection in Direct mode: frames in, answers out in any order.
//!
//! The first frame introduces the client. Each later frame is a request with its own signature, and passes through `front.rs` to the
//! gateway, as HTTP requests do. An answer that is ready at the first poll is written at once; other requests continue in tasks, so
//! that a slow query holds up nothing behind it.
//!
//! An answer is written by itself, so that no TLS record has bytes of two answers: the Java client's decoder overwrites the first one
//! with the second. A frame that cannot be right ends the connection, since the number of its request is unknown.
//!
//! At a stop, requests in flight are finished, and new ones are refused with 410, at which clients look for another address and repeat
//! them. The connection closes when none has come for a short time: a client cannot know whether a write was done that it sent into
//! a closing connection.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::BytesMut;
use futures::poll;
use http::{HeaderValue, Request, StatusCode};
use http_body_util::BodyExt;
use shardlake_gateway_direct::{
    Answer, Context, ContextAnswer, DirectRequest, Refusal, rendered, request_head, translate,
};
use shardlake_gateway_nosql::{Routing, Scheme};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::sync::{Mutex, watch};
use tokio::task::JoinSet;

use crate::answers::{Reply, failure, gone};
use crate::config::ConnectionLimits;
use crate::connections::{Connections, Next, Requests};
use crate::request_metrics::Transport;
use crate::watched_io::{InFlight, Protocol, WatchedIo};

mod frame_body;
mod frames;
mod rewound;

use frame_body::FrameBody;
use frames::{Frames, bad};
pub use rewound::{OPENING_BYTES, Rewound, is_opening};

/// Requests that a connection may have in flight; clients have 30. At the limit no frame is read.
const IN_FLIGHT_MAX: usize = 256;
/// Answers that may wait until those before them are sent. At the limit the client reads too slowly, and no frame is read.
const UNSENT_MAX: usize = 8;
const CONTEXT_BYTES_MAX: usize = 4 << 10;
/// An answer up to here is one write, and one TLS record.
const ONE_WRITE_BYTES_MAX: usize = 16 << 10;
/// While the server stops, a connection on which no frame came for so long is closed.
const QUIET_AT_STOP: Duration = Duration::from_millis(500);
/// Time after which a client that keeps sending is closed, behind the answer that it has then.
const STOP_MAX: Duration = Duration::from_secs(5);

/// The shared parts of a connection's requests.
struct Session<T> {
    requests: Requests,
    /// The sending half; each answer is written whole before the next one.
    out: Mutex<WriteHalf<WatchedIo<T>>>,
    /// Answers that are made and not sent.
    unsent: AtomicUsize,
    /// Version of the REST protocol and name of the client, from its context.
    version: HeaderValue,
    user_agent: HeaderValue,
}

impl Connections {
    /// Serves a connection that begins with the first bytes of a context.
    pub async fn serve_direct<T>(&self, stream: T, first: BytesMut) -> io::Result<()>
    where
        T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let requests = self.requests(Scheme::Https, Protocol::Direct);
        let activity = requests.activity.clone();
        let (read, mut out) = tokio::io::split(WatchedIo::new(stream, activity.clone()));
        let mut frames = Frames::new(read, first, &self.limits);
        let Some(context) = frames.context(CONTEXT_BYTES_MAX).await? else { return Ok(()) };
        out.write_all(&context.answer(welcome(&self.limits))).await?;
        out.flush().await?;
        if !context.is_understood() {
            self.failed_openings.log_protocol(context.protocol);
            return out.shutdown().await;
        }
        let session = Session::new(requests, out, &context);
        let metrics = &self.front.metrics;
        metrics.direct_connections.inc();
        let ended = self.serve_frames(session, frames).await;
        metrics.direct_connections.dec();
        ended
    }

    async fn serve_frames<T>(
        &self,
        session: Arc<Session<T>>,
        frames: Frames<ReadHalf<WatchedIo<T>>>,
    ) -> io::Result<()>
    where
        T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        // Dropping the tasks ends the work for a client that has disconnected.
        let mut tasks = JoinSet::new();
        let stopping = self.stopping.subscribe();
        {
            let mut reading = pin!(read_frames(&session, frames, stopping, &mut tasks));
            tokio::select! {
                ended = reading.as_mut() => ended?,
                next = self.watch(&session.requests.activity) => match next {
                    Next::Close => return Ok(()),
                    Next::Stop => {
                        if let Ok(ended) = tokio::time::timeout(STOP_MAX, reading).await {
                            ended?;
                        }
                    }
                }
            }
        }
        while tasks.join_next().await.is_some() {}
        session.out.lock().await.shutdown().await
    }
}

/// Reads frames and begins their work, until the client has ended, sends a bad frame, or the server stops.
async fn read_frames<T>(
    session: &Arc<Session<T>>,
    mut frames: Frames<ReadHalf<WatchedIo<T>>>,
    mut stopping: watch::Receiver<bool>,
    tasks: &mut JoinSet<()>,
) -> io::Result<()>
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    loop {
        while tasks.try_join_next().is_some() {}
        // An unsent answer is in a task, so that a task ends when the answer was sent.
        if tasks.len() >= IN_FLIGHT_MAX || session.unsent.load(Ordering::Relaxed) >= UNSENT_MAX {
            tasks.join_next().await;
            continue;
        }
        let is_stopping = *stopping.borrow_and_update();
        let frame = if is_stopping {
            match tokio::time::timeout(QUIET_AT_STOP, frames.next()).await {
                Ok(frame) => frame?,
                Err(_) if tasks.is_empty() => return Ok(()),
                Err(_) => continue,
            }
        } else {
            tokio::select! {
                frame = frames.next() => frame?,
                _ = stopping.changed() => continue,
            }
        };
        let Some(frame) = frame else {
            // The client has ended, and takes no answers.
            tasks.abort_all();
            return Ok(());
        };
        let head = request_head(&frame).map_err(bad)?;
        if Context::is_head(&head) {
            return Err(bad(shardlake_gateway_direct::BadFrame::Context));
        }
        let answer = Answer { activity_id: head.activity_id, number: head.number().map_err(bad)? };
        let has_body = head.has_body().map_err(bad)?;
        let asked = match is_stopping {
            true => Asked::Stopping,
            false => Asked::of(translate(&head, &frame, (&session.version, &session.user_agent))),
        };
        let in_flight = session.requests.activity.begin_request();
        let (body, rest) = frames.body(has_body).await?;
        let mut work = Box::pin(session.clone().answer(asked, body, answer, in_flight));
        if poll!(work.as_mut()).is_pending() {
            tasks.spawn(work);
        }
        if let Some(rest) = rest
            && !frames.send_body(rest).await?
        {
            // Its answer is on the way, and the rest of the body is too large to be skipped.
            return Ok(());
        }
    }
}

/// The request of a frame.
enum Asked {
    Request(Box<DirectRequest>),
    Refused(Refusal),
    /// Too late to be begun.
    Stopping,
}

impl Asked {
    fn of(translated: Result<DirectRequest, Refusal>) -> Asked {
        translated.map_or_else(Asked::Refused, |request| Asked::Request(Box::new(request)))
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin + Send + 'static> Session<T> {
    fn new(requests: Requests, out: WriteHalf<WatchedIo<T>>, context: &Context) -> Arc<Session<T>> {
        let header = |text: &str| HeaderValue::from_str(text).unwrap_or(HeaderValue::from_static(""));
        Arc::new(Session {
            requests,
            out: Mutex::new(out),
            unsent: AtomicUsize::new(0),
            version: header(&context.client_version),
            user_agent: header(&context.user_agent),
        })
    }

    /// Does the work of a frame and sends the answer.
    async fn answer(self: Arc<Self>, asked: Asked, body: FrameBody, answer: Answer, in_flight: InFlight) {
        let reply = match asked {
            Asked::Request(request) => self.reply(*request, body).await,
            Asked::Refused(Refusal(message)) => {
                drop(body);
                failure(StatusCode::BAD_REQUEST, "BadRequest", &message)
            }
            Asked::Stopping => {
                drop(body);
                gone("the server stops: nothing was done")
            }
        };
        self.unsent.fetch_add(1, Ordering::Relaxed);
        if let Err(error) = self.send(answer, reply, in_flight).await {
            tracing::trace!(%error, "an answer was not sent");
        }
        self.unsent.fetch_sub(1, Ordering::Relaxed);
    }

    async fn reply(&self, asked: DirectRequest, body: FrameBody) -> Reply {
        let DirectRequest { method, uri, headers, replica_path, container_rid } = asked;
        let is_broken_off = body.is_broken_off();
        let mut request = Request::new(body);
        (*request.method_mut(), *request.uri_mut(), *request.headers_mut()) = (method, uri, headers);
        let Requests { front, origin, .. } = &self.requests;
        if origin.space.is_exhausted() {
            return front.exhausted(&request, Transport::Direct);
        }
        let routing = Routing { replica_path: &replica_path, container_rid: container_rid.as_deref() };
        let reply = front.answer_frame(request, origin, routing).await;
        if is_broken_off.load(Ordering::Relaxed) {
            // The client did not end, or it would take no answer: the server stops.
            return gone("the server stopped before the body had come: nothing was done");
        }
        reply
    }

    /// Writes an answer behind those that are being written. Only then does its time begin in which the client has to take it.
    async fn send(&self, answer: Answer, reply: Reply, in_flight: InFlight) -> io::Result<()> {
        let (parts, mut body) = reply.into_parts();
        let body_bytes = body.left_bytes() as usize;
        let mut frame = rendered(answer, parts.status, &parts.headers, body_bytes);
        let hold = body.take_hold().unwrap_or_else(|| {
            let hold = self.requests.origin.space.hold();
            hold.settle(body.left_bytes());
            hold
        });
        let mut out = self.out.lock().await;
        let answering = in_flight.answering(hold);
        let is_small = frame.len() + body_bytes <= ONE_WRITE_BYTES_MAX;
        while let Some(Ok(piece)) = body.frame().await {
            let Ok(piece) = piece.into_data() else { continue };
            if is_small {
                frame.extend_from_slice(&piece);
            } else {
                out.write_all(&std::mem::take(&mut frame)).await?;
                out.write_all(&piece).await?;
                answering.note_sent(piece.len());
            }
        }
        out.write_all(&frame).await?;
        out.flush().await?;
        if is_small {
            answering.note_sent(body_bytes);
        }
        Ok(())
    }
}

fn welcome(limits: &ConnectionLimits) -> ContextAnswer<'static> {
    let seconds = |time: Duration| u32::try_from(time.as_secs()).unwrap_or(u32::MAX);
    ContextAnswer {
        server_version: env!("CARGO_PKG_VERSION"),
        idle_seconds: seconds(limits.idle_max),
        unauthenticated_seconds: seconds(limits.header_max),
    }
}
