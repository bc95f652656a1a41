//! The pool's side of one order that runs in the server's runtime: sends the order, answers its data calls,
//! and reads its outcome.
//!
//! The watchdog is here: a worker that neither asks nor ends within the script's time and a grace period is
//! killed, by dropping its lease. Calls that the worker assumed to succeed are carried out without an answer.
//! If one of them fails, the run is *misjudged*: it is useless, and none of its effects may be kept.
//!
//! Time spent in the store does not count as the script's. A worker that ends without reporting its processor
//! time is charged the time spent waiting for it.

use std::io;
use std::time::Duration;

use crate::endings::{Ending, GRACE, START_TIME, lost, misjudged, overran, worker_lost};
use crate::line::Line;
use crate::pool::Leased;
use crate::protocol::{Order, Report, Used};
use crate::store::{Store, StoreReply, StoreRequest};
use crate::turns::Turn;
use shardlake_model::{Error, Result};
use shardlake_stdx::Clock;

/// Buffered answers are sent from this size on.
const FLUSH_BYTES: usize = 64 << 10;
/// A run that is abandoned after it has held its worker for longer than this counts as stopped by force,
/// whatever stopped it.
const OFFENCE_MIN: Duration = Duration::from_secs(1);

pub(crate) struct Conversation {
    line: Line,
    time: Duration,
    watch: Watch,
    /// The output of a script that then failed.
    pub(crate) log: String,
    /// A call failed that the script assumed to succeed, or the worker ended without reporting those calls.
    pub(crate) is_misjudged: bool,
    foresees: bool,
    /// Dropped last: dropping the lease kills a worker that is in the middle of an order.
    lease: Leased,
}

/// The time spent waiting for the worker.
struct Watch {
    turn: Turn,
    /// The limit at the start.
    whole: Duration,
    left: Duration,
    /// The start of the current wait.
    since: Option<Duration>,
    /// The worker has reported its processor time.
    is_told: bool,
}

enum Broken {
    Late,
    Stream(io::Error),
}

impl Conversation {
    /// Begins a conversation; reads the first message of a new worker.
    pub(crate) async fn begin(mut lease: Leased, time: Duration) -> Result<Conversation> {
        let mut conversation = Conversation {
            line: lease.line().map_err(|error| lost().with_source(error))?,
            time,
            watch: Watch::of_start(lease.turn().clone()),
            log: String::new(),
            is_misjudged: false,
            foresees: false,
            lease,
        };
        if conversation.lease.is_new() {
            match conversation.receive_unless_late().await? {
                Some(Report::Confined(confined)) => conversation.lease.greeted(confined),
                Some(_) => return Err(lost()),
                None => return Err(worker_lost("a script worker did not start in time")),
            }
        }
        conversation.watch.begin(time + GRACE);
        Ok(conversation)
    }

    pub(crate) async fn send(&mut self, order: &Order<'_>) -> Result<()> {
        self.line.encoder.order(order);
        self.flush().await
    }

    /// The next report that is not a data call; data calls are answered.
    pub(crate) async fn outcome(&mut self, store: &mut dyn Store) -> Result<Report> {
        loop {
            match self.receive().await? {
                Report::Foreseen(requests) => self.carry_out(requests, store).await,
                // The worker waits in the middle of an abandoned run.
                Report::Store(_) if self.is_misjudged => return Err(misjudged()),
                Report::Store(requests) => {
                    for request in requests {
                        let reply = store.call(request).await;
                        self.line.encoder.order(&Order::Reply(reply));
                        if self.line.encoder.bytes().len() >= FLUSH_BYTES {
                            self.flush().await?;
                        }
                    }
                    self.flush().await?;
                }
                Report::Log(text) => self.log = text,
                ended => return Ok(ended),
            }
        }
    }

    /// Whether answers of the ordered run may be foreseen.
    pub(crate) fn foresees(&mut self, foresees: bool) {
        self.foresees = foresees;
    }

    /// Carries calls out without an answer, up to the first that fails.
    async fn carry_out(&mut self, requests: Vec<StoreRequest>, store: &mut dyn Store) {
        for request in requests {
            if !self.foresees || !StoreReply::is_as_foreseen(&store.call(request).await) {
                self.is_misjudged = true;
                return;
            }
        }
    }

    /// The next report of an order without data calls.
    pub(crate) async fn receive(&mut self) -> Result<Report> {
        match self.receive_unless_late().await? {
            Some(report) => Ok(report),
            None => Err(self.overran()),
        }
    }

    /// None when the worker's time is over.
    async fn receive_unless_late(&mut self) -> Result<Option<Report>> {
        match self.watch.timed(self.line.read()).await {
            Ok(report) => report.map(Some).map_err(|_| lost()),
            Err(Broken::Late) => Ok(None),
            Err(Broken::Stream(error)) => Err(self.broken(error).await),
        }
    }

    async fn flush(&mut self) -> Result<()> {
        match self.watch.timed(self.line.flush()).await {
            Ok(()) => Ok(()),
            Err(Broken::Late) => Err(self.overran()),
            Err(Broken::Stream(error)) => Err(self.broken(error).await),
        }
    }

    fn overran(&mut self) -> Error {
        self.is_misjudged |= self.foresees;
        self.offended();
        overran(self.time)
    }

    /// The script had to be stopped.
    pub(crate) fn offended(&self) {
        self.watch.turn.offended();
    }

    /// The error for an ended stream.
    async fn broken(&mut self, error: io::Error) -> Error {
        if matches!(error.kind(), io::ErrorKind::InvalidData) {
            return lost().with_source(error);
        }
        let ending = self.lease.ending().await;
        self.is_misjudged |= self.foresees && matches!(ending, Ending::Failed);
        ending.error()
    }

    /// Ends the order after its last report, which contains `used`.
    pub(crate) fn end(mut self, used: Used) {
        self.watch.tell(used.processor);
        self.watch.turn.ended();
        // A worker that sent more than it should is not reused.
        if !used.is_spent && self.line.is_quiet() {
            self.lease.give_back(Some(self.line.at_rest()));
        }
    }
}

impl Watch {
    fn of_start(turn: Turn) -> Watch {
        Watch { turn, whole: START_TIME, left: START_TIME, since: None, is_told: true }
    }

    /// The script's time begins.
    fn begin(&mut self, time: Duration) {
        (self.whole, self.left, self.is_told) = (time, time, false);
    }

    /// Waits for the worker, within its remaining time.
    async fn timed<T>(&mut self, work: impl Future<Output = io::Result<T>>) -> Result<T, Broken> {
        self.since = Some(Clock::System.elapsed());
        let outcome = tokio::time::timeout(self.left, work).await;
        self.pause();
        match outcome {
            Ok(done) => done.map_err(Broken::Stream),
            Err(_) => Err(Broken::Late),
        }
    }

    fn pause(&mut self) {
        if let Some(since) = self.since.take() {
            self.left = self.left.saturating_sub(Clock::System.elapsed().saturating_sub(since));
        }
    }

    fn tell(&mut self, processor: Duration) {
        self.turn.meter().add(processor);
        self.is_told = true;
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if self.is_told {
            return;
        }
        self.pause();
        let used = self.whole - self.left;
        self.turn.meter().add(used);
        if used >= OFFENCE_MIN {
            self.turn.offended();
        }
    }
}
