//! When items run out, and a partition's record of that.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};
use shardlake_document::Envelope;

const NEVER: u64 = u64::MAX;

/// When an item runs out that has a time to live of its own, in seconds; `None` where it has none, or lives for ever.
pub(crate) fn own_end(item: &Envelope) -> Option<u64> {
    let seconds = item.ttl_seconds.filter(|seconds| *seconds != -1)?;
    Some(item.timestamp_seconds().saturating_add(seconds.max(0) as u64))
}

/// The earliest times, in seconds, at which some items may expire. A bound: it may be too early,
/// never too late.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Due {
    /// When the first item with a time to live of its own runs out.
    pub own: u64,
    /// When the oldest item without one was written.
    pub oldest: u64,
}

impl Due {
    /// For no items.
    pub(crate) const NEVER: Due = Due { own: NEVER, oldest: NEVER };
    pub(crate) const UNKNOWN: Due = Due { own: 0, oldest: 0 };

    pub(crate) fn note(&mut self, item: &Envelope) {
        match item.ttl_seconds {
            None => self.oldest = self.oldest.min(item.timestamp_seconds()),
            Some(-1) => {}
            Some(_) => self.own = self.own.min(own_end(item).unwrap_or(NEVER)),
        }
    }

    pub(crate) fn min(self, other: Due) -> Due {
        Due { own: self.own.min(other.own), oldest: self.oldest.min(other.oldest) }
    }

    /// Under a container's default; `None` when nothing can run out.
    pub(crate) fn at(self, default_ttl: Option<i64>) -> Option<u64> {
        let by_default = match default_ttl? {
            -1 => NEVER,
            _ if self.oldest == NEVER => NEVER,
            seconds => self.oldest.saturating_add(seconds.max(0) as u64),
        };
        Some(self.own.min(by_default)).filter(|due| *due != NEVER)
    }
}

/// A partition's record of its items' ends.
#[derive(Debug)]
pub(crate) struct Expiry {
    /// From the last sweep.
    pub swept: AtomicDue,
    /// From the writes since it began.
    pub written: AtomicDue,
    /// From the items that the last sweep left for followers of the log, …
    held: AtomicDue,
    /// … which were so far.
    held_at: AtomicU64,
    /// Sweeps begun; under the sequencer.
    pub sweeps: AtomicU64,
    pub purged: AtomicU64,
    /// The end of every item that has a time of its own is in the queue.
    pub is_queued: bool,
    /// In the log up to here no item is left that uses the container's default.
    pub log_done: AtomicU64,
}

#[derive(Debug)]
pub(crate) struct AtomicDue {
    own: AtomicU64,
    oldest: AtomicU64,
}

impl AtomicDue {
    fn new(due: Due) -> AtomicDue {
        AtomicDue { own: AtomicU64::new(due.own), oldest: AtomicU64::new(due.oldest) }
    }

    pub fn get(&self) -> Due {
        Due { own: self.own.load(Ordering::Acquire), oldest: self.oldest.load(Ordering::Acquire) }
    }

    pub fn set(&self, due: Due) {
        self.own.store(due.own, Ordering::Release);
        self.oldest.store(due.oldest, Ordering::Release);
    }

    fn note(&self, due: Due) {
        self.own.fetch_min(due.own, Ordering::AcqRel);
        self.oldest.fetch_min(due.oldest, Ordering::AcqRel);
    }
}

impl Expiry {
    pub fn of_partition(is_empty: bool, is_queued: bool) -> Expiry {
        let known = if is_empty { Due::NEVER } else { Due::UNKNOWN };
        let (swept, written) = (AtomicDue::new(known), AtomicDue::new(Due::NEVER));
        let zero = || AtomicU64::new(0);
        let (held, held_at) = (AtomicDue::new(Due::NEVER), zero());
        Expiry { swept, written, held, held_at, sweeps: zero(), purged: zero(), is_queued, log_done: zero() }
    }

    /// Items removed since the partition was opened because their time had run out.
    pub fn purged(&self) -> u64 {
        self.purged.load(Ordering::Relaxed)
    }

    /// Notes the expiry of a commit's items; under the sequencer.
    pub fn note(&self, due: Due) {
        if due != Due::NEVER {
            self.written.note(due);
        }
    }

    pub fn due(&self) -> Due {
        self.swept.get().min(self.written.get())
    }

    /// With the items that followers held, once these are further or have ended.
    pub fn due_under(&self, hold: Option<u64>) -> Due {
        match hold == Some(self.held_at.load(Ordering::Acquire)) {
            true => self.due(),
            false => self.due().min(self.held.get()),
        }
    }

    /// Everything known, for a sweep that begins: it finds again the items that are held.
    pub fn begin(&self) -> Due {
        let known = self.due().min(self.held.get());
        self.held.set(Due::NEVER);
        known
    }

    /// Notes items that stay because followers are only so far.
    pub fn note_held(&self, due: Due, upto: Option<u64>) {
        let Some(upto) = upto.filter(|_| due != Due::NEVER) else { return };
        let is_first = self.held.get() == Due::NEVER;
        self.held.note(due);
        // Where the followers have moved meanwhile, the next sweep looks again.
        let at = if is_first || self.held_at.load(Ordering::Acquire) == upto { upto } else { NEVER };
        self.held_at.store(at, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(timestamp_seconds: u64, ttl_seconds: Option<i32>) -> Envelope {
        Envelope {
            lsn: 1,
            time: shardlake_stdx::HybridTime::from_seconds(timestamp_seconds),
            region: 0,
            etag: shardlake_stdx::Guid([0; 16]),
            ordinal: 1,
            ttl_seconds,
            json_size_bytes: 100,
            is_altered: false,
        }
    }

    #[test]
    fn an_items_own_time_counts_before_the_default() {
        assert_eq!(own_end(&item(100, Some(5))), Some(105));
        assert_eq!(own_end(&item(100, Some(-1))), None, "it lives for ever");
        assert_eq!(own_end(&item(100, None)), None);
        assert_eq!(own_end(&item(u64::MAX, Some(5))), Some(((1 << 48) - 1) / 1000 + 5));
        let mut due = Due::NEVER;
        [item(100, Some(50)), item(90, None), item(120, Some(7)), item(80, Some(-1))]
            .iter()
            .for_each(|item| due.note(item));
        assert_eq!(due, Due { own: 127, oldest: 90 });
        assert_eq!(due.at(None), None, "time to live is off");
        assert_eq!(due.at(Some(-1)), Some(127), "only items with a time of their own");
        assert_eq!(due.at(Some(10)), Some(100));
        assert_eq!(due.at(Some(1000)), Some(127));
        assert_eq!(Due::NEVER.at(Some(1)), None);
        assert_eq!(Due::UNKNOWN.at(Some(1)), Some(0), "a first sweep has to look");
        assert_eq!(due.min(Due { own: 200, oldest: 3 }), Due { own: 127, oldest: 3 });
    }

    #[test]
    fn a_record_holds_the_findings_of_a_sweep_and_the_writes_since() {
        let empty = Expiry::of_partition(true, true);
        assert_eq!((empty.due(), empty.is_queued, empty.purged()), (Due::NEVER, true, 0));
        let expiry = Expiry::of_partition(false, false);
        assert_eq!(expiry.due(), Due::UNKNOWN);
        expiry.swept.set(Due { own: 50, oldest: 70 });
        expiry.note(Due::NEVER);
        assert_eq!(expiry.due(), Due { own: 50, oldest: 70 });
        expiry.note(Due { own: 60, oldest: 65 });
        assert_eq!(expiry.due(), Due { own: 50, oldest: 65 });
        expiry.swept.set(Due::NEVER);
        assert_eq!(expiry.due(), Due { own: 60, oldest: 65 }, "writes that the sweep did not see");
    }
}
