//! The pool's side of one order that runs in the server's runtime: sends it, answers the calls of the data, reads how it ended.
//!
//! The watchdog is here: a worker that neither asks nor ends within the script's time and a grace is killed, by dropping its lease.
//! Calls that the worker took for done are carried out without an answer. Where one of them fails, the run is *misjudged*: it is of no use, and
//! nothing of it may be kept.
//!
//! Time that the store takes is not the script's. What a worker that tells no more has used is what was waited for it.

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

/// Answers go out when so many bytes of them are ready.
const FLUSH_BYTES: usize = 64 << 10;
/// A run that is given up after it kept its worker for longer than this was stopped, whoever stopped it.
const OFFENCE_MIN: Duration = Duration::from_secs(1);

pub(crate) struct Conversation {
    line: Line,
    time: Duration,
    watch: Watch,
    /// What the script had printed that then failed.
    pub(crate) log: String,
    /// A call failed that the script took for done, or the worker is gone and did not tell which calls those were.
    pub(crate) is_misjudged: bool,
    foresees: bool,
    /// Dropped last: that kills a worker which is in the middle of something.
    lease: Leased,
}

/// What was waited for the worker.
struct Watch {
    turn: Turn,
    /// The time that there was at the beginning.
    whole: Duration,
    left: Duration,
    /// Since when it is waited for.
    since: Option<Duration>,
    /// The worker has said what it used.
    is_told: bool,
}

enum Broken {
    Late,
    Stream(io::Error),
}

impl Conversation {
    /// Begins with the worker's word that it is there, where it is a new one.
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

    /// The next report that is no call of the data; those are answered.
    pub(crate) async fn outcome(&mut self, store: &mut dyn Store) -> Result<Report> {
        loop {
            match self.receive().await? {
                Report::Foreseen(requests) => self.carry_out(requests, store).await,
                // The worker waits in the middle of what is given up.
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

    /// Of the run that is ordered, answers may be foreseen.
    pub(crate) fn foresees(&mut self, foresees: bool) {
        self.foresees = foresees;
    }

    /// Without an answer. Behind one that fails nothing is carried out any more.
    async fn carry_out(&mut self, requests: Vec<StoreRequest>, store: &mut dyn Store) {
        for request in requests {
            if !self.foresees || !StoreReply::is_as_foreseen(&store.call(request).await) {
                self.is_misjudged = true;
                return;
            }
        }
    }

    /// The next report of an order that has no data to call.
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

    /// What the end of the stream means.
    async fn broken(&mut self, error: io::Error) -> Error {
        if matches!(error.kind(), io::ErrorKind::InvalidData) {
            return lost().with_source(error);
        }
        let ending = self.lease.ending().await;
        self.is_misjudged |= self.foresees && matches!(ending, Ending::Failed);
        ending.error()
    }

    /// After the report that ends the order, with what that says.
    pub(crate) fn end(mut self, used: Used) {
        self.watch.tell(used.processor);
        self.watch.turn.ended();
        // A worker that said more than it was asked for is not asked again.
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

    /// Waits for the worker, out of its time.
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
