//! Background work on shards, in pieces: measures foreground latency and rests as the pacer
//! decides.
//!
//! The latency of a client's write is measured from admission to settlement, so that it includes
//! every wait of the client: for the partition, the disk and the processors. Requests that write
//! nothing are only noted as present: their presence makes pieces small.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use shardlake_stdx::{Clock, thread_processor_time};

use crate::background_pace::BackgroundPace;

/// Rests shorter than this are added up: no timer is finer.
const REST_LEAST_US: i64 = 1000;
/// The most by which later rests are shortened after a timer was late.
const CREDIT_US_MAX: i64 = 2000;
/// Rows of one piece of work where clients are there: their writes wait for it.
const ROWS_BESIDE_CLIENTS: usize = 128;
/// Rows of one piece of work while no client waits.
const ROWS_ALONE: usize = 1024;
/// Threads that one piece of work occupies: one hands rows over, another writes them in about the
/// same time.
const THREADS_OF_A_WORK: u32 = 2;
/// Longest rest on a thread of its own, in times of the work, where the work names no other: one
/// eighth of the time, not one thirty-second.
const OWN_RESTS_MAX: u32 = 7;

/// Foreground latency of the clients of one shard.
#[derive(Debug, Default)]
pub(crate) struct Foreground {
    pacer: Mutex<BackgroundPace>,
    /// How much background work is continuing.
    at_work: AtomicUsize,
    /// A client has asked for something since background work looked last.
    is_seen: AtomicBool,
}

impl Foreground {
    fn pacer(&self) -> MutexGuard<'_, BackgroundPace> {
        // The pacer holds only numbers, and a panic leaves none of them wrong.
        self.pacer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A client's write has taken so long.
    pub fn note(&self, latency: Duration) {
        let is_busy = self.at_work.load(Ordering::Relaxed) > 0;
        self.pacer().note(Clock::System.elapsed(), latency, is_busy);
    }

    /// A client asks for something.
    pub fn note_client(&self) {
        // Written only where it changes: all requests share it.
        if !self.is_seen.load(Ordering::Relaxed) {
            self.is_seen.store(true, Ordering::Relaxed);
        }
    }

    pub fn has_clients(&self) -> bool {
        let now = Clock::System.elapsed();
        !self.current(now).is_alone(now)
    }

    /// The pacer, with the clients that came since it was looked at.
    fn current(&self, now: Duration) -> MutexGuard<'_, BackgroundPace> {
        let mut pacer = self.pacer();
        if self.is_seen.swap(false, Ordering::Relaxed) {
            pacer.note_client(now);
        }
        pacer
    }

    fn begin(&self) {
        // A client that was seen before may have left long ago.
        self.is_seen.store(false, Ordering::Relaxed);
        if self.at_work.fetch_add(1, Ordering::Relaxed) == 0 {
            self.pacer().begin(Clock::System.elapsed());
        }
    }
}

/// One background work on one or more shards. It is at work from when this is made until it is dropped, but for its rests.
#[derive(Debug)]
pub struct PacedWork {
    shards: Vec<Arc<Foreground>>,
    /// By which its share is divided.
    patience: u32,
    /// When the piece that is at work began.
    since: Duration,
    /// Processor time of this thread at `since`, where processor time is the measure of work.
    processor_since: Option<Duration>,
    /// Longest rest of such a work, in times of a piece.
    rests_max: u32,
    /// Microseconds of rest that are due for pieces done; less than none where the last rest took longer than it should.
    owed_us: i64,
}

impl PacedWork {
    pub(crate) fn begin(mut shards: Vec<Arc<Foreground>>, patience: u32) -> PacedWork {
        shards.sort_by_key(|shard| Arc::as_ptr(shard) as usize);
        shards.dedup_by(|one, other| Arc::ptr_eq(one, other));
        shards.iter().for_each(|shard| shard.begin());
        let since = Clock::System.elapsed();
        PacedWork { shards, patience, since, processor_since: None, rests_max: OWN_RESTS_MAX, owed_us: 0 }
    }

    /// On a thread of its own and of low priority, time without a processor is no work that clients
    /// could feel. Resting for that time as well would stop the work where clients use all
    /// processors. For the same reason a rest is at most [`OWN_RESTS_MAX`] times as long as the
    /// work.
    pub fn on_its_own_thread(mut self) -> PacedWork {
        self.processor_since = thread_processor_time();
        self
    }

    /// The same, for work that may fall behind: it rests at most so many times as long as it works.
    pub fn resting_at_most(mut self, times: u32) -> PacedWork {
        self.rests_max = times;
        self
    }

    fn worked(&self, now: Duration) -> Duration {
        let worked = now.saturating_sub(self.since);
        let had =
            thread_processor_time().zip(self.processor_since).map(|(now, since)| now.saturating_sub(since));
        had.map_or(worked, |had| worked.min(had * THREADS_OF_A_WORK))
    }

    fn goes_on(&mut self) {
        self.since = Clock::System.elapsed();
        self.processor_since = self.processor_since.and_then(|_| thread_processor_time());
    }

    /// How many rows the next piece should write at most.
    pub fn rows(&self) -> usize {
        let now = Clock::System.elapsed();
        let is_alone = self.shards.iter().all(|shard| shard.current(now).is_alone(now));
        if is_alone { ROWS_ALONE } else { ROWS_BESIDE_CLIENTS }
    }

    /// The rest after a piece: as long as the clients of the busiest shard need.
    fn rest_after(&self, now: Duration, worked: Duration) -> Duration {
        let rest = |shard: &Arc<Foreground>| shard.current(now).rest_after(now, worked, self.patience);
        let rest = self.shards.iter().map(rest).max().unwrap_or_default();
        match self.processor_since {
            Some(_) => rest.min(worked * self.rests_max),
            None => rest,
        }
    }

    /// Called between two pieces: rests.
    pub async fn pause(&mut self) {
        let now = Clock::System.elapsed();
        let rest = self.rest_after(now, self.worked(now));
        self.owed_us += rest.as_micros() as i64;
        if self.owed_us >= REST_LEAST_US {
            let before = Clock::System.elapsed();
            tokio::time::sleep(Duration::from_micros(self.owed_us.unsigned_abs())).await;
            let rested = Clock::System.elapsed().saturating_sub(before);
            self.owed_us = (self.owed_us - rested.as_micros() as i64).max(-CREDIT_US_MAX);
        } else {
            tokio::task::yield_now().await;
        }
        self.goes_on();
    }
}

impl PacedWork {
    /// Rests for a reason of its own.
    pub async fn wait(&mut self, time: Duration) {
        tokio::time::sleep(time).await;
        self.goes_on();
    }
}

impl Drop for PacedWork {
    fn drop(&mut self) {
        for shard in &self.shards {
            shard.at_work.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_for_a_processor_is_no_work() {
        let in_parallel = PacedWork::begin(Vec::new(), 1);
        let alone = PacedWork::begin(Vec::new(), 1).on_its_own_thread();
        let hour = Duration::from_secs(3600);
        assert!(in_parallel.worked(in_parallel.since + hour) >= hour);
        // As if the scheduler had not run this thread since then.
        if thread_processor_time().is_some() {
            assert!(alone.worked(alone.since + hour) < hour / 2);
        }
        assert_eq!(alone.worked(alone.since), Duration::ZERO);
    }

    #[test]
    fn work_that_may_fall_behind_rests_less() {
        let shard = Arc::new(Foreground::default());
        let work =
            |times| PacedWork::begin(vec![shard.clone()], 1).on_its_own_thread().resting_at_most(times);
        let (usual, slow) = (Duration::from_micros(300), Duration::from_millis(50));
        let piece = Duration::from_millis(10);
        // Later than the clock that the work begins at.
        let mut now = Duration::from_secs(1_000_000_000);
        let patient = work(9);
        for _ in 0..1000 {
            now += Duration::from_millis(25);
            shard.pacer().note(now, usual, false);
            shard.pacer().note(now, slow, true);
            patient.rest_after(now, piece);
        }
        if patient.processor_since.is_some() {
            assert_eq!(patient.rest_after(now, piece), piece * 9, "clients feel each piece");
            assert_eq!(work(3).rest_after(now, piece), piece * 3);
            assert_eq!(work(1).rest_after(now, piece), piece);
        }
    }
}
