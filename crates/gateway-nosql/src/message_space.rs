//! Memory for messages on their way: bodies of requests that arrive, and answers that clients have not taken yet.
//!
//! Both are bounded for the process and for each connection, an eighth of the process's part, so that a few clients that
//! read nothing do not stop the others:
//!
//! ```text
//! MessageSpace (process) ─┬─ answers: 1/2 ─ ConnectionSpace: 1/8 of it ─ AnswerHold: one answer
//!                         └─ bodies:  1/2 ─ ConnectionSpace: 1/8 of it ─ BodyHold: one body
//! ```
//!
//! A request takes bytes before it does its work: every authorized request as many as a small answer costs, and an operation that
//! may answer with a page as many as the largest page, when it is about to make it ([`AnswerSpace`]). When the answer is
//! made the bytes are corrected to its size, and they are given back while the answer is sent ([`AnswerHold`]). An answer of one item
//! may turn out larger than the bytes taken for it; it is counted then, and the next request waits.
//!
//! A request waits for memory of its connection first, then for the process's. After too long a wait, or where too many requests wait
//! already, it is refused with 503 and nothing was done.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use shardlake_model::{AnswerSpace, Error, ErrorKind, Result, SpaceFuture};

use crate::byte_space::{ByteSpace, Lane, Waiting};

/// Memory of an answer beyond its body: headers, a stream, a task. Measured: 7,500 unread answers of 200 bytes took 18 KB each.
const ANSWER_BASE_BYTES: u64 = 16 << 10;
/// Memory of a page beyond its rows: the envelope, and a comma for each row.
const PAGE_ENVELOPE_BYTES: u64 = 64 << 10;
/// Bodies up to this size wait for no memory: buffers of the connection are as large.
const BODY_BYTES_UNCOUNTED: u64 = 16 << 10;
/// A connection has memory for a page and an item, however small the process's part is.
const CONNECTION_BYTES_MIN: u64 = 8 << 20;
/// Requests that wait for memory at a time; each costs some 20 KB itself.
const WAITING_MAX: usize = 4096;
/// Time that a request waits for memory: twice [`PATIENCE_WHILE_SHORT`].
const WAIT_MAX: Duration = Duration::from_secs(10);
/// How long an answer may lie untouched while memory is short.
const PATIENCE_WHILE_SHORT: Duration = Duration::from_secs(5);
const RETRY_AFTER_MS: u64 = 1000;

/// The memory of all connections.
#[derive(Debug)]
pub struct MessageSpace {
    answers: ByteSpace,
    bodies: ByteSpace,
    bytes_max: u64,
    page_bytes: u64,
    waiting: AtomicUsize,
}

impl MessageSpace {
    /// `bytes_max` bounds bodies and answers together; `page_size_bytes_max` bounds the rows of a page.
    pub fn new(bytes_max: u64, page_size_bytes_max: usize) -> Arc<MessageSpace> {
        Arc::new(MessageSpace {
            answers: ByteSpace::new(bytes_max / 2),
            bodies: ByteSpace::new(bytes_max / 2),
            bytes_max,
            page_bytes: page_size_bytes_max as u64 + PAGE_ENVELOPE_BYTES,
            waiting: AtomicUsize::new(0),
        })
    }

    pub fn connection(self: &Arc<Self>) -> Arc<ConnectionSpace> {
        let bytes_max = (self.bytes_max / 2 / 8).max(CONNECTION_BYTES_MIN);
        Arc::new(ConnectionSpace {
            process: self.clone(),
            answers: ByteSpace::new(bytes_max),
            bodies: ByteSpace::new(bytes_max),
        })
    }

    /// Bytes of answers that clients have not read, and bytes that requests in progress have taken for theirs.
    pub fn answer_bytes(&self) -> u64 {
        self.answers.held()
    }

    /// Bytes of requests that arrive or are in progress.
    pub fn body_bytes(&self) -> u64 {
        self.bodies.held()
    }

    /// Requests that wait for memory.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// How long a client may leave an answer untouched: less while other requests wait for memory.
    pub fn patience(&self, ordinary: Duration) -> Duration {
        if self.answers.is_short() { ordinary.min(PATIENCE_WHILE_SHORT) } else { ordinary }
    }
}

/// The part of one connection.
#[derive(Debug)]
pub struct ConnectionSpace {
    process: Arc<MessageSpace>,
    answers: ByteSpace,
    bodies: ByteSpace,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Answer,
    Body,
}

impl ConnectionSpace {
    /// Whether a request of this connection should be refused at once, without a body: the process has no memory left for answers,
    /// and this connection holds some of it.
    pub fn is_exhausted(&self) -> bool {
        self.process.answers.held() >= self.process.bytes_max / 2 && self.answers.held() > 0
    }

    /// Whether bodies have to wait for memory, or soon will.
    pub(crate) fn is_short_for_bodies(&self) -> bool {
        self.process.bodies.is_short()
    }

    fn spaces(&self, kind: Kind) -> [&ByteSpace; 2] {
        match kind {
            Kind::Answer => [&self.answers, &self.process.answers],
            Kind::Body => [&self.bodies, &self.process.bodies],
        }
    }

    fn try_take(&self, kind: Kind, bytes: u64, lane: Lane) -> bool {
        let [own, all] = self.spaces(kind);
        if !own.try_take(bytes, lane) {
            return false;
        }
        let has_room = all.try_take(bytes, lane);
        if !has_room {
            own.give_back(bytes);
        }
        has_room
    }

    /// Before those that wait.
    fn try_take_first(&self, kind: Kind, bytes: u64, lane: Lane) -> bool {
        let [own, all] = self.spaces(kind);
        if !own.try_take_first(bytes, lane) {
            return false;
        }
        let has_room = all.try_take_first(bytes, lane);
        if !has_room {
            own.give_back(bytes);
        }
        has_room
    }

    async fn take(&self, kind: Kind, bytes: u64, lane: Lane, time: Duration) -> Result<()> {
        if self.try_take(kind, bytes, lane) {
            return Ok(());
        }
        // Boxed: every request's future is as large as the largest future that it may wait for.
        Box::pin(self.wait_to_take(kind, bytes, lane, time)).await
    }

    async fn wait_to_take(&self, kind: Kind, bytes: u64, lane: Lane, time: Duration) -> Result<()> {
        if self.process.waiting() >= WAITING_MAX {
            return Err(no_room("too many requests wait for memory"));
        }
        let _waiting = Waiting::enter(&self.process.waiting);
        let [own, all] = self.spaces(kind);
        let take = async {
            own.take(bytes, lane).await;
            let taken = Taken(own, bytes);
            all.take(bytes, lane).await;
            std::mem::forget(taken);
        };
        tokio::time::timeout(time.min(WAIT_MAX), take).await.map_err(|_| match kind {
            Kind::Answer => no_room("answers that clients have not taken fill the memory for answers"),
            Kind::Body => no_room("bodies of other requests fill the memory for them"),
        })
    }

    fn add(&self, kind: Kind, bytes: u64) {
        self.spaces(kind).iter().for_each(|space| space.add(bytes));
    }

    fn give_back(&self, kind: Kind, bytes: u64) {
        self.spaces(kind).iter().for_each(|space| space.give_back(bytes));
    }

    /// Takes memory for a body of this length, or of the greatest length where it is not known.
    pub(crate) async fn take_body(self: &Arc<Self>, bytes: u64, time: Duration) -> Result<Option<BodyHold>> {
        if bytes <= BODY_BYTES_UNCOUNTED {
            return Ok(None);
        }
        self.take(Kind::Body, bytes, Lane::Item, time).await?;
        Ok(Some(BodyHold { connection: self.clone(), bytes }))
    }

    /// The hold of an answer to a request that was not admitted: it is counted even beyond the maximum.
    pub fn hold(self: &Arc<Self>) -> Arc<AnswerHold> {
        Arc::new(AnswerHold { connection: self.clone(), bytes: AtomicU64::new(0) })
    }
}

/// Gives bytes back when the request that took them is dropped before it has all.
struct Taken<'a>(&'a ByteSpace, u64);

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.0.give_back(self.1);
    }
}

fn no_room(why: &str) -> Error {
    Error::new(ErrorKind::Unavailable, format!("{why}: nothing was done, retry"))
        .with_retry_after_ms(RETRY_AFTER_MS)
}

/// A request's body in memory.
#[derive(Debug)]
pub(crate) struct BodyHold {
    connection: Arc<ConnectionSpace>,
    bytes: u64,
}

impl Drop for BodyHold {
    fn drop(&mut self) {
        self.connection.give_back(Kind::Body, self.bytes);
    }
}

/// The memory of the answer to one request, from its admission until the client has read the answer or has disconnected.
#[derive(Debug)]
pub struct AnswerHold {
    connection: Arc<ConnectionSpace>,
    bytes: AtomicU64,
}

impl AnswerHold {
    /// Waits until there is memory for a small answer.
    pub(crate) async fn enter(connection: &Arc<ConnectionSpace>, time: Duration) -> Result<Arc<AnswerHold>> {
        connection.take(Kind::Answer, ANSWER_BASE_BYTES, Lane::Item, time).await?;
        let bytes = AtomicU64::new(ANSWER_BASE_BYTES);
        Ok(Arc::new(AnswerHold { connection: connection.clone(), bytes }))
    }

    /// The answer is made: it holds its own size from here on.
    pub fn settle(&self, body_bytes: u64) {
        let bytes = body_bytes + ANSWER_BASE_BYTES;
        let before = self.bytes.swap(bytes, Ordering::AcqRel);
        if bytes > before {
            self.connection.add(Kind::Answer, bytes - before);
        } else {
            self.connection.give_back(Kind::Answer, before - bytes);
        }
    }

    /// So much more of an answer that is made while it is sent.
    pub fn made(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::AcqRel);
        self.connection.add(Kind::Answer, bytes);
    }

    /// The client has taken so much of it.
    pub fn sent(&self, bytes: u64) {
        self.bytes.fetch_sub(bytes, Ordering::AcqRel);
        self.connection.give_back(Kind::Answer, bytes);
    }

    fn page_bytes(&self) -> u64 {
        self.connection.process.page_bytes
    }

    fn page_lane(&self) -> Lane {
        let is_first = self.connection.answers.held() < self.page_bytes();
        if is_first { Lane::FirstPage } else { Lane::Page }
    }

    fn is_page_taken(&self) -> bool {
        self.bytes.load(Ordering::Acquire) > ANSWER_BASE_BYTES
    }

    /// Notes that the page's bytes are taken. Parts of a query take them concurrently: the second gives its bytes back.
    fn note_page(&self) {
        let (base, all) = (ANSWER_BASE_BYTES, ANSWER_BASE_BYTES + self.page_bytes());
        if self.bytes.compare_exchange(base, all, Ordering::AcqRel, Ordering::Acquire).is_err() {
            self.connection.give_back(Kind::Answer, self.page_bytes());
        }
    }
}

impl AnswerSpace for AnswerHold {
    fn take(&self, time: Duration) -> SpaceFuture<'_> {
        Box::pin(async move {
            if !self.is_page_taken() {
                self.connection.take(Kind::Answer, self.page_bytes(), self.page_lane(), time).await?;
                self.note_page();
            }
            Ok(())
        })
    }

    fn wait(&self, time: Duration) -> SpaceFuture<'_> {
        Box::pin(async move {
            if !self.is_page_taken() {
                self.connection.take(Kind::Answer, self.page_bytes(), self.page_lane(), time).await?;
                self.connection.give_back(Kind::Answer, self.page_bytes());
            }
            Ok(())
        })
    }

    fn try_take(&self) -> bool {
        if self.is_page_taken() {
            return true;
        }
        let has_room = self.connection.try_take_first(Kind::Answer, self.page_bytes(), self.page_lane());
        if has_room {
            self.note_page();
        }
        has_room
    }

    fn give_back(&self) {
        let bytes = self.bytes.swap(ANSWER_BASE_BYTES, Ordering::AcqRel);
        self.connection.give_back(Kind::Answer, bytes - ANSWER_BASE_BYTES);
    }
}

impl Drop for AnswerHold {
    fn drop(&mut self) {
        self.connection.give_back(Kind::Answer, *self.bytes.get_mut());
    }
}

#[cfg(test)]
mod tests {
    use futures::poll;

    use super::*;

    const LONG: Duration = Duration::from_secs(3600);
    const MEGABYTE: u64 = 1 << 20;

    /// Memory for three pages of 4 MB, and one for each connection.
    fn small() -> Arc<MessageSpace> {
        MessageSpace::new(32 * MEGABYTE, 4 << 20)
    }

    async fn request(connection: &Arc<ConnectionSpace>) -> Arc<AnswerHold> {
        AnswerHold::enter(connection, LONG).await.expect("room for an item")
    }

    #[tokio::test]
    async fn a_page_waits_until_the_one_before_it_was_taken() {
        let process = small();
        let connection = process.connection();
        let (first, second) = (request(&connection).await, request(&connection).await);
        first.take(LONG).await.expect("room");
        let mut waits = second.take(LONG);
        assert!(poll!(waits.as_mut()).is_pending());
        assert_eq!(process.waiting(), 1);
        first.settle(4 * MEGABYTE);
        assert!(poll!(waits.as_mut()).is_pending());
        first.sent(3 * MEGABYTE);
        assert!(poll!(waits.as_mut()).is_ready());
        assert_eq!(process.waiting(), 0);
        drop(waits);
        drop((first, second));
        assert_eq!((process.answer_bytes(), connection.answers.held()), (0, 0));
    }

    #[tokio::test]
    async fn a_page_that_turns_out_small_leaves_its_room_to_others() {
        let process = small();
        let connection = process.connection();
        let (first, second) = (request(&connection).await, request(&connection).await);
        first.take(LONG).await.expect("room");
        first.settle(100);
        second.take(LONG).await.expect("room");
        second.give_back();
        assert_eq!(process.answer_bytes(), 2 * ANSWER_BASE_BYTES + 100);
    }

    #[tokio::test]
    async fn clients_that_take_nothing_leave_room_for_the_page_of_another() {
        let process = small();
        let mut held = Vec::new();
        for _ in 0..2 {
            let connection = process.connection();
            for _ in 0..10 {
                let hold = request(&connection).await;
                let _no_room_for_most = hold.take(Duration::ZERO).await;
                held.push(hold);
            }
        }
        let other = request(&process.connection()).await;
        other.take(Duration::ZERO).await.expect("room for a first page");
        assert!(process.answer_bytes() <= 16 * MEGABYTE);
        assert_eq!(process.patience(LONG), PATIENCE_WHILE_SHORT);
        drop((held, other));
        assert_eq!(process.patience(LONG), LONG);
    }

    #[tokio::test]
    async fn a_request_that_waits_too_long_is_told_to_retry_and_leaves_nothing_behind() {
        let process = small();
        let connection = process.connection();
        let (first, second) = (request(&connection).await, request(&connection).await);
        first.take(LONG).await.expect("room");
        let held = process.answer_bytes();
        let error = second.take(Duration::from_millis(1)).await.expect_err("no room");
        assert_eq!((error.kind(), error.retry_after_ms()), (ErrorKind::Unavailable, Some(RETRY_AFTER_MS)));
        assert_eq!((process.answer_bytes(), process.waiting()), (held, 0));
        assert!(!second.try_take());
        assert_eq!(process.answer_bytes(), held);
    }

    #[tokio::test]
    async fn whoever_waits_for_room_takes_none_of_it() {
        let process = small();
        let hold = request(&process.connection()).await;
        hold.wait(LONG).await.expect("room");
        assert_eq!(process.answer_bytes(), ANSWER_BASE_BYTES);
        assert!(hold.try_take());
        assert!(hold.try_take(), "it has it already");
        hold.wait(LONG).await.expect("it has it already");
        hold.give_back();
        hold.give_back();
        assert_eq!(process.answer_bytes(), ANSWER_BASE_BYTES);
    }

    #[tokio::test]
    async fn large_bodies_are_counted_and_small_ones_are_not() {
        let process = small();
        let connection = process.connection();
        assert!(connection.take_body(BODY_BYTES_UNCOUNTED, LONG).await.expect("room").is_none());
        let hold = connection.take_body(6 * MEGABYTE, LONG).await.expect("room");
        assert_eq!(process.body_bytes(), 6 * MEGABYTE);
        let refused = connection.take_body(6 * MEGABYTE, Duration::from_millis(1)).await;
        assert_eq!(refused.expect_err("no room").kind(), ErrorKind::Unavailable);
        drop(hold);
        assert_eq!(process.body_bytes(), 0);
    }
}
