//! Archived log of a shard: every commit since some time, each with its time, to restore the state
//! of any point in time.
//!
//! | file | content |
//! |---|---|
//! | `mod.rs` | the stamp that each group of commits gets |
//! | `journals.rs` | keeps the journals of a local shard next to it, as links |
//! | `groups.rs` | content of an archived log: groups of writes, in their order |
//! | `tail.rs` | reads the journals of a shard that is in use, as far as they go |
//!
//! `restore_point.rs` starts and stops archiving, `replay.rs` brings a shard to a point in time
//! with it, `wal_copy.rs` a copy up to its original.
//!
//! The log is the one that the engine writes anyway: fjall's journals, or the write-ahead objects of SlateDB. Each group that is written
//! has one row more, the *stamp*, always under the same key:
//!
//! ```text
//! number u64 | time u64, milliseconds | run u64 | before u64          big-endian
//! ```
//!
//! Numbers have no gaps. `run` is random for each time that the shard is opened. `before` is the
//! run that wrote the stamp before; only the first stamp of a run has it, all others have 0. So a
//! log continues a state exactly where the numbers and the runs match. A log with a hole, or the
//! log of a copy of the account that diverged, fits nowhere.
//!
//! A stamp is made when the group is written, before the group is acknowledged, and never has an
//! earlier time than any stamp of the process before it. So the groups up to a time T hold
//! everything that was acknowledged before T, nothing that was sent after it, and no effect without
//! its cause, on whichever shards these lie.

mod groups;
mod journals;
mod tail;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use shardlake_stdx::{Clock, Random, Timestamp};

pub(crate) use groups::{Group, of_journal};
pub(crate) use journals::{KeptJournals, copy_links, forget, kept_journals};
pub use tail::JournalTail;

use crate::{Batch, StorageError};

const STAMP_BYTES: usize = 32;

/// Where a group stands in the log of its shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    pub number: u64,
    /// When it was written.
    pub time: Timestamp,
    pub run: u64,
    /// For the first stamp of a run: the run of the stamp that it follows, where there was one.
    /// Otherwise 0.
    pub before: u64,
}

impl Stamp {
    pub(crate) fn encode(&self) -> Vec<u8> {
        [self.number, self.time.0, self.run, self.before]
            .iter()
            .flat_map(|field| field.to_be_bytes())
            .collect()
    }

    pub fn decode(bytes: &[u8]) -> Result<Stamp, StorageError> {
        let fields: Option<&[u8; STAMP_BYTES]> = bytes.try_into().ok();
        let fields = fields.ok_or_else(|| StorageError::Corrupt {
            what: format!("a stamp of the log has {} bytes", bytes.len()).into(),
        })?;
        let field = |at: usize| {
            let mut number = [0; 8];
            number.copy_from_slice(&fields[at..at + 8]);
            u64::from_be_bytes(number)
        };
        Ok(Stamp { number: field(0), time: Timestamp(field(8)), run: field(16), before: field(24) })
    }

    /// Whether no group lies between the two.
    pub(crate) fn follows(&self, before: &Stamp) -> bool {
        let is_next_run = self.before != 0 && self.before == before.run;
        self.number == before.number + 1 && (self.run == before.run || is_next_run)
    }
}

/// How the log of a shard is kept. Shards of one account share `times`.
#[derive(Debug, Clone)]
pub struct HistoryOptions {
    /// Key of the stamp.
    pub key: Vec<u8>,
    /// Older log than this is deleted.
    pub window: Duration,
    pub clock: Clock,
    pub random: Random,
    /// The latest time of any stamp.
    pub times: Arc<AtomicU64>,
}

/// Stamps the groups of a shard. Used by the task that writes them, one after the other.
pub(crate) struct History {
    key: Bytes,
    clock: Clock,
    times: Arc<AtomicU64>,
    run: u64,
    before: u64,
    /// The number of the run's first stamp.
    first: u64,
    number: AtomicU64,
}

impl History {
    pub fn after(last: Option<Stamp>, options: &HistoryOptions) -> History {
        options.times.fetch_max(last.map_or(0, |last| last.time.0), Ordering::AcqRel);
        History {
            key: options.key.clone().into(),
            clock: options.clock.clone(),
            times: options.times.clone(),
            // 0 is never a run.
            run: options.random.u64().max(1),
            before: last.map_or(0, |last| last.run),
            first: last.map_or(0, |last| last.number) + 1,
            number: AtomicU64::new(last.map_or(0, |last| last.number)),
        }
    }

    /// The row that is written with the next group.
    pub fn stamp(&self) -> Batch {
        let now = self.clock.now().0;
        let time = self.times.fetch_max(now, Ordering::AcqRel).max(now);
        let number = self.number.fetch_add(1, Ordering::AcqRel) + 1;
        let before = if number == self.first { self.before } else { 0 };
        let stamp = Stamp { number, time: Timestamp(time), run: self.run, before };
        let mut batch = Batch::new();
        batch.put(self.key.clone(), stamp.encode());
        batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(clock: &Clock) -> HistoryOptions {
        HistoryOptions {
            key: b"t".to_vec(),
            window: Duration::from_hours(1),
            clock: clock.clone(),
            random: Random::seeded(7),
            times: Arc::default(),
        }
    }

    fn next(history: &History) -> Stamp {
        let ops = history.stamp().into_ops();
        let [crate::Op::Put { value, .. }] = &ops[..] else { panic!("one row") };
        Stamp::decode(value).expect("decodes")
    }

    #[test]
    fn stamps_follow_one_another_also_over_a_restart_and_no_other_way() {
        let clock = Clock::manual(Timestamp(1000));
        let options = options(&clock);
        let first_run = History::after(None, &options);
        let (one, two) = (next(&first_run), next(&first_run));
        assert!(two.follows(&one) && !one.follows(&two) && !two.follows(&two));
        let (run, other) = (History::after(Some(two), &options), History::after(Some(two), &options));
        let (three, third) = (next(&run), next(&other));
        assert!(three.follows(&two) && third.follows(&two));
        let four = next(&run);
        assert!(four.follows(&three) && !four.follows(&third), "two copies went their own ways");
        // Both went on from `two`; later groups of one do not follow groups of the other.
        let longer = Stamp { number: 3, ..two };
        assert!(!four.follows(&longer), "only the first of a run follows another run");
        assert!(!next(&History::after(None, &options)).follows(&Stamp { number: 0, ..four }));
    }

    #[test]
    fn times_never_go_back_on_any_shard() {
        let clock = Clock::manual(Timestamp(1000));
        let options = options(&clock);
        let far = Stamp { number: 9, time: Timestamp(5000), run: 3, before: 0 };
        let (late, early) = (History::after(Some(far), &options), History::after(None, &options));
        assert_eq!((next(&early).time, next(&late).time), (Timestamp(5000), Timestamp(5000)));
        clock.advance(Duration::from_secs(9));
        assert_eq!((next(&late).time, next(&early).time), (Timestamp(10_000), Timestamp(10_000)));
    }
}
