//! A connection's bytes, watched: has a request begun, does the client still send, must the close be patient?
//!
//! The HTTP library would need a timer per request to time headers and idleness. Here the transport notes when things happen,
//! and one slow timer per connection (`connection.rs`) looks at the notes.
//!
//! A request is in flight until its answer has been sent. An answer of which a client reads nothing for too long is ended: on
//! HTTP/2 its stream alone, else the connection.
//!
//! A server that closes a socket with unread bytes makes the kernel reset it, and the client loses the answer that was sent
//! before, a 413 for example. So a close first ends the sending side, then reads the incoming bytes for a short time.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use shardlake_gateway_nosql::AnswerHold;
use shardlake_stdx::Clock;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use crate::stream_tasks::StreamEnd;

/// A client that sends nothing for this long is not in the middle of a request.
const LINGER_QUIET_MAX: Duration = Duration::from_millis(250);
/// Longest time for which the rest of a refused body is read. A client that cannot send its whole body never reads the answer, and
/// retries.
const LINGER_MAX: Duration = Duration::from_secs(30);
const NEVER: u64 = 0;

/// State of a connection. Shared by its transport, its requests and its timer.
#[derive(Debug)]
pub struct Activity {
    clock: Clock,
    protocol: Protocol,
    in_flight: AtomicU32,
    /// Milliseconds of [`Clock::elapsed`] at which the connection last became idle.
    idle_since: AtomicU64,
    /// When the first byte after that came, or [`NEVER`].
    headers_since: AtomicU64,
    /// Answers that are being sent: one on HTTP/1.1, one of each stream on HTTP/2.
    answers: Mutex<Vec<Weak<Answering>>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// Between requests nothing comes but the next request.
    Http1,
    /// Settings, pings and windows come at any time, so bytes do not mean that a request has begun.
    Http2,
    /// Frames time themselves (`direct/frames.rs`).
    Direct,
}

impl Activity {
    pub fn new(clock: Clock, protocol: Protocol) -> Arc<Activity> {
        let now = milliseconds(&clock);
        Arc::new(Activity {
            clock,
            protocol,
            in_flight: AtomicU32::new(0),
            idle_since: AtomicU64::new(now),
            headers_since: AtomicU64::new(NEVER),
            answers: Mutex::default(),
        })
    }

    fn answers(&self) -> std::sync::MutexGuard<'_, Vec<Weak<Answering>>> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the answers of which the client has read nothing for `patience`, and returns their number. Where a stream does not end, since
    /// part of its answer is stuck in the library, or cannot be ended alone, the connection is overdue.
    pub fn end_stalled(&self, patience: Duration) -> (usize, Option<Overdue>) {
        let now = milliseconds(&self.clock);
        // Not under the lock: the last reference to an answer takes it off the list.
        let answers: Vec<Arc<Answering>> = self.answers().iter().filter_map(Weak::upgrade).collect();
        let (mut ended, mut overdue) = (0, None);
        for answer in answers {
            let stalled = Duration::from_millis(now.saturating_sub(answer.since.load(Ordering::Relaxed)));
            match &answer.stream {
                _ if stalled < patience || answer.waits.load(Ordering::Relaxed) => {}
                Some(stream) if stalled < patience * 2 => ended += usize::from(stream.end()),
                _ => {
                    ended += 1;
                    overdue = Some(Overdue::Answer);
                }
            }
        }
        (ended, overdue)
    }

    /// A request's headers are complete; until the guard is dropped the connection is busy.
    pub fn begin_request(self: &Arc<Self>) -> InFlight {
        self.headers_since.store(NEVER, Ordering::Relaxed);
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        InFlight(self.clone())
    }

    fn note_read(&self) {
        if self.protocol == Protocol::Http1
            && self.in_flight.load(Ordering::Relaxed) == 0
            && self.headers_since.load(Ordering::Relaxed) == NEVER
        {
            self.headers_since.store(milliseconds(&self.clock), Ordering::Relaxed);
        }
    }

    /// The reason to close a connection that has done nothing useful for too long.
    pub fn overdue(&self, header_max: Duration, idle_max: Duration) -> Option<Overdue> {
        if self.in_flight.load(Ordering::Relaxed) > 0 {
            return None;
        }
        let now = milliseconds(&self.clock);
        let since = |then: u64| Duration::from_millis(now.saturating_sub(then));
        match self.headers_since.load(Ordering::Relaxed) {
            NEVER if since(self.idle_since.load(Ordering::Relaxed)) >= idle_max => Some(Overdue::Idle),
            NEVER => None,
            begun if since(begun) >= header_max => Some(Overdue::Headers),
            _ => None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overdue {
    /// No request for too long.
    Idle,
    /// A request has begun, but its headers do not end.
    Headers,
    /// The client reads nothing of an answer.
    Answer,
}

/// A request being served.
#[derive(Debug)]
pub struct InFlight(Arc<Activity>);

impl InFlight {
    /// The answer is made, and is being sent from here on.
    pub fn answering(self, hold: Arc<AnswerHold>) -> Arc<Answering> {
        let activity = self.0.clone();
        let since = AtomicU64::new(milliseconds(&activity.clock));
        let answering = Arc::new(Answering {
            in_flight: self,
            since,
            stream: StreamEnd::current(),
            hold,
            waits: AtomicBool::new(false),
        });
        activity.answers().push(Arc::downgrade(&answering));
        answering
    }
}

/// A request whose answer is being sent.
#[derive(Debug)]
pub struct Answering {
    in_flight: InFlight,
    /// When the client last took something of it.
    since: AtomicU64,
    stream: Option<StreamEnd>,
    hold: Arc<AnswerHold>,
    /// More of the answer is being made: the client has read everything.
    waits: AtomicBool,
}

impl Answering {
    /// Notes whether the answer waits for its making and not for its client.
    pub fn note_waiting(&self, waits: bool) {
        if self.waits.swap(waits, Ordering::Relaxed) && !waits {
            self.since.store(milliseconds(&self.in_flight.0.clock), Ordering::Relaxed);
        }
    }

    /// Notes the number of bytes made while the answer is sent.
    pub fn note_made(&self, bytes: usize) {
        self.hold.made(bytes as u64);
    }

    /// Notes the number of bytes written to the connection.
    pub fn note_sent(&self, bytes: usize) {
        self.hold.sent(bytes as u64);
        self.since.store(milliseconds(&self.in_flight.0.clock), Ordering::Relaxed);
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        let mut answers = self.in_flight.0.answers();
        if let Some(place) = answers.iter().position(|answer| std::ptr::eq(answer.as_ptr(), self)) {
            answers.swap_remove(place);
        }
        debug_assert!(
            !answers.iter().any(|answer| std::ptr::eq(answer.as_ptr(), self)),
            "an answer is on the list once"
        );
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.idle_since.store(milliseconds(&self.0.clock), Ordering::Relaxed);
        // The end of an unread body may still arrive; it is not the start of a request.
        self.0.headers_since.store(NEVER, Ordering::Relaxed);
        let before = self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
        debug_assert!(before > 0, "each request in flight is counted");
    }
}

fn milliseconds(clock: &Clock) -> u64 {
    // Never equal to `NEVER`, at any time of the clock.
    clock.elapsed().as_millis() as u64 + 1
}

/// A transport that records its reads and writes in an [`Activity`], and closes patiently.
#[derive(Debug)]
pub struct WatchedIo<T> {
    inner: T,
    activity: Arc<Activity>,
    client_has_ended: bool,
    linger: Option<Linger>,
}

#[derive(Debug)]
struct Linger {
    until: Pin<Box<Sleep>>,
    ends: Instant,
}

impl<T> WatchedIo<T> {
    pub fn new(inner: T, activity: Arc<Activity>) -> Self {
        WatchedIo { inner, activity, client_has_ended: false, linger: None }
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncRead for WatchedIo<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let outcome = ready!(Pin::new(&mut self.inner).poll_read(context, buffer));
        match outcome {
            Ok(()) if buffer.filled().len() > before => self.activity.note_read(),
            Ok(()) | Err(_) => self.client_has_ended = true,
        }
        Poll::Ready(outcome)
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> WatchedIo<T> {
    /// Reads and forgets until the client has ended or paused, or has sent for too long.
    fn poll_linger(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let linger = self.linger.get_or_insert_with(|| Linger {
            until: Box::pin(tokio::time::sleep(LINGER_QUIET_MAX)),
            ends: Instant::now() + LINGER_MAX,
        });
        let mut scratch = [0; 4096];
        loop {
            let mut buffer = ReadBuf::new(&mut scratch);
            match Pin::new(&mut self.inner).poll_read(context, &mut buffer) {
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {
                    let now = Instant::now();
                    if now >= linger.ends {
                        return Poll::Ready(());
                    }
                    linger.until.as_mut().reset(now + LINGER_QUIET_MAX);
                }
                Poll::Ready(_) => return Poll::Ready(()),
                Poll::Pending => return linger.until.as_mut().poll(context),
            }
        }
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncWrite for WatchedIo<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(context, buffers)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.linger.is_none() {
            ready!(Pin::new(&mut self.inner).poll_shutdown(context))?;
        }
        if !self.client_has_ended {
            ready!(self.poll_linger(context));
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use shardlake_gateway_nosql::MessageSpace;
    use shardlake_stdx::Timestamp;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    const HEADER_MAX: Duration = Duration::from_secs(10);
    const IDLE_MAX: Duration = Duration::from_secs(60);

    fn hold() -> Arc<AnswerHold> {
        MessageSpace::new(32 << 20, 4 << 20).connection().hold()
    }

    #[test]
    fn frames_between_http2_requests_begin_no_request() {
        let clock = Clock::manual(Timestamp(5));
        let activity = Activity::new(clock.clone(), Protocol::Http2);
        activity.note_read();
        clock.advance(Duration::from_secs(59));
        assert_eq!(activity.overdue(HEADER_MAX, IDLE_MAX), None);
        clock.advance(Duration::from_secs(1));
        assert_eq!(activity.overdue(HEADER_MAX, IDLE_MAX), Some(Overdue::Idle));
    }

    #[test]
    fn a_connection_is_overdue_when_idle_or_slow_but_never_while_busy() {
        let clock = Clock::manual(Timestamp(5));
        let activity = Activity::new(clock.clone(), Protocol::Http1);
        clock.advance(Duration::from_secs(59));
        assert_eq!(activity.overdue(HEADER_MAX, IDLE_MAX), None);
        activity.note_read();
        clock.advance(Duration::from_secs(9));
        activity.note_read();
        assert_eq!(activity.overdue(HEADER_MAX, IDLE_MAX), None);
        clock.advance(Duration::from_secs(1));
        assert_eq!(activity.overdue(HEADER_MAX, IDLE_MAX), Some(Overdue::Headers));

        let request = activity.begin_request();
        clock.advance(Duration::from_secs(1000));
        activity.note_read();
        assert_eq!(activity.overdue(HEADER_MAX, IDLE_MAX), None);
        drop(request);
        assert_eq!(activity.overdue(HEADER_MAX, IDLE_MAX), None);
        clock.advance(Duration::from_secs(60));
        assert_eq!(activity.overdue(HEADER_MAX, IDLE_MAX), Some(Overdue::Idle));
    }

    #[test]
    fn a_request_is_in_flight_until_its_answer_was_taken() {
        let clock = Clock::manual(Timestamp(5));
        let activity = Activity::new(clock.clone(), Protocol::Http1);
        let answer = activity.begin_request().answering(hold());
        clock.advance(IDLE_MAX * 2);
        assert_eq!(activity.overdue(HEADER_MAX, IDLE_MAX), None);
        drop(answer);
        assert_eq!(activity.overdue(HEADER_MAX, IDLE_MAX), None, "it is idle from here on");
        clock.advance(IDLE_MAX);
        assert_eq!(activity.overdue(HEADER_MAX, IDLE_MAX), Some(Overdue::Idle));
    }

    #[test]
    fn an_answer_is_stalled_when_nothing_of_it_is_taken_for_too_long() {
        const PATIENCE: Duration = Duration::from_secs(10);
        let clock = Clock::manual(Timestamp(5));
        let activity = Activity::new(clock.clone(), Protocol::Http1);
        let at_work = activity.begin_request();
        let answer = activity.begin_request().answering(hold());
        clock.advance(PATIENCE - Duration::from_millis(1));
        assert_eq!(activity.end_stalled(PATIENCE), (0, None));
        answer.note_sent(0);
        clock.advance(PATIENCE - Duration::from_millis(1));
        assert_eq!(activity.end_stalled(PATIENCE), (0, None), "the client takes it slowly");
        clock.advance(Duration::from_millis(1));
        assert_eq!(activity.end_stalled(PATIENCE), (1, Some(Overdue::Answer)));
        drop(answer);
        assert_eq!(activity.end_stalled(PATIENCE), (0, None), "a request at work is no stalled answer");
        drop(at_work);
    }

    const ANSWER: &[u8] = b"HTTP/1.1 413 Payload Too Large\r\n\r\n";

    /// A client, and the server's end of its connection, which answers at once and closes.
    fn refused() -> (tokio::io::DuplexStream, tokio::task::JoinHandle<()>) {
        let (client, server) = tokio::io::duplex(64 << 10);
        let activity = Activity::new(Clock::manual(Timestamp(5)), Protocol::Http1);
        let server = tokio::spawn(async move {
            let mut io = WatchedIo::new(server, activity);
            io.write_all(ANSWER).await.expect("room for the answer");
            io.shutdown().await.expect("a close");
        });
        (client, server)
    }

    /// However large the body is: a client that cannot send its whole body never reads the answer.
    #[tokio::test(start_paused = true)]
    async fn the_whole_of_a_refused_body_is_read_and_its_client_has_the_answer() {
        let (mut client, server) = refused();
        let chunk = vec![b'x'; 256 << 10];
        for _ in 0..160 {
            client.write_all(&chunk).await.expect("40 MiB are read");
        }
        client.shutdown().await.expect("the end of the body");
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).await.expect("the answer");
        assert_eq!(answer, ANSWER);
        server.await.expect("the close ends with the body");
    }

    /// A byte now and then keeps no connection open for longer than the bound. The clock stands still but for the steps.
    #[tokio::test(start_paused = true)]
    async fn a_refused_body_that_trickles_is_cut_at_the_bound() {
        let (mut client, server) = refused();
        let step = LINGER_QUIET_MAX / 2;
        let bytes_max = LINGER_MAX.as_millis() / step.as_millis() + 2;
        let mut sent = 0;
        while client.write_all(b"x").await.is_ok() {
            sent += 1;
            assert!(sent <= bytes_max, "more than {bytes_max} bytes");
            tokio::time::advance(step).await;
        }
        server.await.expect("a close");
        assert!(sent + 4 >= bytes_max, "{sent} of {bytes_max} bytes");
    }

    #[tokio::test(start_paused = true)]
    async fn a_refused_body_that_pauses_is_cut_at_once() {
        let (mut client, server) = refused();
        client.write_all(b"x").await.expect("read");
        let closed = tokio::time::timeout(LINGER_QUIET_MAX * 2, server).await;
        closed.expect("cut before the bound").expect("a close");
    }
}
