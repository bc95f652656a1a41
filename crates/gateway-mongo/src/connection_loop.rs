//! One connection from its first message to its end: read, answer, write, in the order in which messages came.
//!
//! A client may send the next message before it has the answer to the last one; it waits in the connection's buffer. The loop ends when
//! the client disconnects, breaks the protocol or stays idle for too long, or when the server stops. A running command is answered first.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::watch;
use tokio::time::{Instant, Sleep};

use crate::call::Connection;
use crate::deployment::Deployment;
use crate::dispatch::{self, Answered, Asked};
use crate::memory::{BATCH_BYTES_MIN, FACTOR, Hold, SMALL_BYTES};
use crate::offload;
use crate::wire::{
    self, Answer, AnswerAs, Compressor, Fault, HEADER_SIZE_BYTES, Header, Incoming, MESSAGE_SIZE_BYTES_MAX,
};

/// Most commands fit in it with their headers.
const BUFFER_SIZE_BYTES: usize = 8 << 10;
/// Limit of a message from a client that has yet to authenticate. Such messages are not counted: the number of connections bounds them.
const UNAUTHENTICATED_SIZE_BYTES_MAX: usize = 16 << 10;

pub struct Loop<'s, T> {
    pub deployment: &'s Arc<Deployment>,
    pub connection: Arc<Connection>,
    pub io: BufReader<T>,
    /// Resolves when the server stops. All messages share this future and `ended`, so that no message has to set up a wait of its own.
    stopped: BoxFuture<'static, ()>,
    /// Looks now and then whether the connection has been idle for too long.
    alarm: Pin<Box<Sleep>>,
    /// The place is needed for another connection.
    ended: BoxFuture<'static, ()>,
    /// As of the last command.
    is_authenticated: bool,
    last_reply: i32,
}

/// Idle time of a connection, and its limit.
struct Idle {
    since: Instant,
    max: Duration,
}

impl Idle {
    fn ends_at(&self) -> Instant {
        self.since + self.max
    }
}

enum Next {
    GoOn,
    End,
}

/// Envelope of an answer.
struct Way {
    response_to: i32,
    answer_as: AnswerAs,
    compressor: Option<Compressor>,
}

impl<'s, T: AsyncRead + AsyncWrite + Unpin + Send> Loop<'s, T> {
    pub fn new(
        deployment: &'s Arc<Deployment>,
        connection: Arc<Connection>,
        io: T,
        mut stopping: watch::Receiver<bool>,
    ) -> Loop<'s, T> {
        let io = BufReader::with_capacity(BUFFER_SIZE_BYTES, io);
        // A dropped sender counts as a stop, too.
        let stopped = Box::pin(async move { drop(stopping.wait_for(|stopping| *stopping).await) });
        let alarm = Box::pin(tokio::time::sleep(deployment.settings.idle_max));
        let place = connection.ended.clone();
        let ended = Box::pin(async move { place.notified().await });
        let is_authenticated = connection.is_authenticated(deployment);
        Loop { deployment, connection, io, stopped, alarm, ended, is_authenticated, last_reply: 0 }
    }

    pub async fn run(mut self) -> io::Result<()> {
        while let Some(header) = self.header().await? {
            match self.message(header).await? {
                Next::GoOn => {}
                Next::End => break,
            }
            self.is_authenticated = self.connection.is_authenticated(self.deployment);
        }
        self.io.shutdown().await
    }

    /// The header of the next message; `None` where the connection is to end.
    async fn header(&mut self) -> io::Result<Option<Header>> {
        let mut bytes = [0; HEADER_SIZE_BYTES];
        let idle = Idle { since: Instant::now(), max: self.idle_max() };
        if self.alarm.deadline() > idle.ends_at() {
            self.alarm.as_mut().reset(idle.ends_at());
        }
        loop {
            tokio::select! {
                biased;
                () = &mut self.stopped => return Ok(None),
                read = self.io.read(&mut bytes[..1]) => match read? {
                    0 => return Ok(None),
                    _ => break,
                },
                () = &mut self.ended, if !self.is_authenticated => {
                    tracing::debug!(connection = self.connection.id, "closed: another connection needs its place");
                    return Ok(None);
                }
                () = &mut self.alarm => match idle.ends_at() {
                    end if end <= Instant::now() => {
                        tracing::debug!(connection = self.connection.id, "closed: idle for too long");
                        return Ok(None);
                    }
                    end => self.alarm.as_mut().reset(end),
                },
            }
        }
        let deadline = self.deadline();
        self.read_until(deadline, &mut bytes[1..]).await?;
        let header = Header::parse(&bytes);
        if header.is_none() {
            self.note(&Fault::close("a message has an impossible length"));
        }
        Ok(header)
    }

    /// Fills a buffer, mostly from bytes that have already arrived.
    async fn read_until(&mut self, deadline: Instant, out: &mut [u8]) -> io::Result<()> {
        if let Some(here) = self.io.buffer().get(..out.len()) {
            out.copy_from_slice(here);
            Pin::new(&mut self.io).consume(out.len());
            return Ok(());
        }
        tokio::time::timeout_at(deadline, self.io.read_exact(out)).await?.map(|_| ())
    }

    /// Deadline of a message or an answer that begins now.
    fn deadline(&self) -> Instant {
        Instant::now()
            + match self.is_authenticated {
                true => self.deployment.settings.message_max,
                false => self.deployment.settings.unauthenticated_message_max,
            }
    }

    fn idle_max(&self) -> Duration {
        let settings = &self.deployment.settings;
        match self.is_authenticated {
            true => settings.idle_max,
            // No reply was sent yet.
            false if self.last_reply == 0 => settings.unauthenticated_message_max,
            false => settings.unauthenticated_idle_max,
        }
    }

    async fn message(&mut self, header: Header) -> io::Result<Next> {
        let deadline = self.deadline();
        if !self.is_authenticated {
            self.deployment.unauthenticated.heard(self.connection.id);
        }
        let (incoming, hold) = match self.incoming(&header, deadline).await? {
            Ok(incoming) => incoming,
            Err(fault) => return self.refuse(&header, fault).await,
        };
        let Incoming { body, answer_as, compressor } = incoming;
        let way = Way { response_to: header.request_id, answer_as, compressor };
        let (mut batch, mut batch_bytes_max) = (Hold::default(), BATCH_BYTES_MIN);
        let memory = &self.deployment.memory;
        if self.is_authenticated && dispatch::has_batch(&body) {
            let Some(taken) = memory.answers.take_for_batch(self.deadline()).await else {
                self.note(&Fault::close("there is no memory for an answer"));
                return Ok(Next::End);
            };
            (batch, batch_bytes_max) = taken;
        }
        let answered = self.answer(Asked { body, batch_bytes_max }).await;
        drop(hold);
        if answered.closes_connection {
            return Ok(Next::End);
        }
        let bytes = answered.document.len();
        if self.is_authenticated && !memory.answers.settle(&mut batch, bytes, self.deadline()).await {
            self.note(&Fault::close("there is no memory for an answer"));
            return Ok(Next::End);
        }
        self.send(answered, way).await?;
        Ok(Next::GoOn)
    }

    /// Executes a command. A read ends when its client closes the connection.
    async fn answer(&mut self, asked: Asked) -> Answered {
        let mut answering = match dispatch::is_evaluated(self.deployment, &asked.body) {
            true => offload::answer(self.deployment, &self.connection, asked),
            // Boxed, so that the future of a connection that waits for its client is small.
            false => dispatch::answer(self.deployment, &self.connection, asked).boxed(),
        };
        tokio::select! {
            biased;
            answered = &mut answering => return answered,
            () = gone(&mut self.io) => {}
        }
        self.connection.note_gone();
        self.deployment.operations.end_reads_of(self.connection.id);
        answering.await
    }

    /// Reads and unpacks a message within the memory budget.
    async fn incoming(
        &mut self,
        header: &Header,
        deadline: Instant,
    ) -> io::Result<Result<(Incoming, Hold), Fault>> {
        let no_memory = || Fault::close("there is no memory for a message");
        let size_bytes_max = self.size_bytes_max();
        let too_long = || Fault::close("a message is too long for a client that has not authenticated");
        if header.length > size_bytes_max {
            return Ok(Err(too_long()));
        }
        let mut hold = Hold::default();
        let Some(payload) = self.payload(header, &mut hold, deadline).await? else {
            return Ok(Err(no_memory()));
        };
        let counters = &self.deployment.counters;
        counters.bytes_in.fetch_add(header.length as u64, Ordering::Relaxed);
        counters.requests.fetch_add(1, Ordering::Relaxed);
        let unpacked = match wire::unpacked_size_bytes(header, &payload) {
            Ok(bytes) if bytes > size_bytes_max => return Ok(Err(too_long())),
            Ok(bytes) => bytes.max(payload.len()),
            Err(fault) => return Ok(Err(fault)),
        };
        let whole = if unpacked <= SMALL_BYTES { 0 } else { FACTOR * unpacked };
        if !self.deployment.memory.messages.grow(&mut hold, whole, deadline).await {
            return Ok(Err(no_memory()));
        }
        Ok(wire::decode(header, &payload).map(|incoming| (incoming, hold)))
    }

    /// Reads a message in steps that at most double it. `None` if the memory budget had no room in time.
    async fn payload(
        &mut self,
        header: &Header,
        hold: &mut Hold,
        deadline: Instant,
    ) -> io::Result<Option<Vec<u8>>> {
        let whole = header.payload_size_bytes();
        let mut payload = Vec::new();
        while payload.len() < whole {
            let arrived = payload.len();
            let next = whole.min(SMALL_BYTES.max(2 * arrived));
            if next > SMALL_BYTES && !self.deployment.memory.messages.grow(hold, next, deadline).await {
                return Ok(None);
            }
            payload.reserve_exact(next - arrived);
            payload.resize(next, 0);
            self.read_until(deadline, &mut payload[arrived..]).await?;
        }
        Ok(Some(payload))
    }

    fn size_bytes_max(&self) -> usize {
        match self.is_authenticated {
            true => MESSAGE_SIZE_BYTES_MAX,
            false => UNAUTHENTICATED_SIZE_BYTES_MAX,
        }
    }

    async fn refuse(&mut self, header: &Header, fault: Fault) -> io::Result<Next> {
        self.note(&fault);
        let (error, answer_as, next) = match fault {
            Fault::Close(_) => return Ok(Next::End),
            Fault::RefuseAndClose(error) => (error, AnswerAs::Message, Next::End),
            Fault::Refuse { error, answer_as } => (error, answer_as, Next::GoOn),
        };
        let way = Way { response_to: header.request_id, answer_as, compressor: None };
        self.send(dispatch::failed("", &error), way).await?;
        Ok(next)
    }

    async fn send(&mut self, answered: Answered, way: Way) -> io::Result<()> {
        if way.answer_as == AnswerAs::Nothing {
            return Ok(());
        }
        self.last_reply = self.last_reply.wrapping_add(1);
        let is_plain = dispatch::is_never_compressed(answered.name);
        let message = wire::encode(&Answer {
            document: &answered.document,
            is_refused: answered.name.is_empty(),
            id: self.last_reply,
            response_to: way.response_to,
            answer_as: way.answer_as,
            compressor: way.compressor.filter(|_| !is_plain),
        });
        drop(answered);
        self.deployment.counters.bytes_out.fetch_add(message.len() as u64, Ordering::Relaxed);
        let deadline = self.deadline();
        let writing = async {
            self.io.write_all(&message).await?;
            self.io.flush().await
        };
        tokio::time::timeout_at(deadline, writing).await?
    }

    fn note(&self, fault: &Fault) {
        tracing::debug!(connection = self.connection.id, %fault, "a message is refused");
    }
}

/// Waits until the client has closed its side. A client that has sent more data is still connected.
async fn gone<T: AsyncRead + Unpin>(io: &mut BufReader<T>) {
    if io.buffer().is_empty() && matches!(io.fill_buf().await, Ok([]) | Err(_)) {
        return;
    }
    std::future::pending().await
}
