//! Removes items whose time to live has run out, in the background, a small commit at a time.
//!
//! Nobody sees such items any more, so there is no hurry: a *sweep* walks the partition's items in key order without any lock
//! and takes the sequencer only to delete a few that it met. What a partition knows of the earliest moment at which an item
//! may run out ([`Due`]) comes from the last sweep and from the writes since, and holds whatever the container's default is;
//! before that moment there is nothing to sweep for. After a start nothing is known, so the first sweep reads everything.
//!
//! Who sweeps, when, and how fast is the account's affair.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use shardlake_document::{Envelope, Record};
use shardlake_model::{ErrorKind, Result};
use shardlake_stdx::Timestamp;
use shardlake_storage::ScanOptions;

use crate::commit::Writer;
use crate::deletion::Deletion;
use crate::keys::{self, HEADER};
use crate::partition::Partition;
use crate::sequencer::Sequencer;
use crate::shape::ContainerShape;

/// Items that one step looks at.
const ITEMS_READ_MAX: usize = 256;
/// Deletions of one commit: writers wait while it is planned.
const ITEMS_DELETED_MAX: usize = 32;

const NEVER: u64 = u64::MAX;

/// The earliest moments, in seconds, that some items allow for. A bound: what they tell may be too early, never too late.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Due {
    /// When the first item with a time to live of its own runs out.
    own: u64,
    /// When the oldest item without one was written.
    oldest: u64,
}

impl Due {
    /// Of no items.
    pub const NEVER: Due = Due { own: NEVER, oldest: NEVER };
    const UNKNOWN: Due = Due { own: 0, oldest: 0 };

    pub fn note(&mut self, item: &Envelope) {
        match item.ttl_seconds {
            None => self.oldest = self.oldest.min(item.timestamp_seconds),
            Some(-1) => {}
            Some(seconds) => {
                let end = item.timestamp_seconds.saturating_add(seconds.max(0) as u64);
                self.own = self.own.min(end);
            }
        }
    }

    fn min(self, other: Due) -> Due {
        Due { own: self.own.min(other.own), oldest: self.oldest.min(other.oldest) }
    }

    /// Under a container's default; `None` when nothing can run out.
    fn at(self, default_ttl: Option<i64>) -> Option<u64> {
        let by_default = match default_ttl? {
            -1 => NEVER,
            _ if self.oldest == NEVER => NEVER,
            seconds => self.oldest.saturating_add(seconds.max(0) as u64),
        };
        Some(self.own.min(by_default)).filter(|due| *due != NEVER)
    }
}

/// What a partition knows of its items' ends.
#[derive(Debug)]
pub(crate) struct Expiry {
    /// From the last sweep.
    swept: AtomicDue,
    /// From the writes since it began.
    written: AtomicDue,
    /// Sweeps begun; under the sequencer.
    sweeps: AtomicU64,
    purged: AtomicU64,
}

#[derive(Debug)]
struct AtomicDue {
    own: AtomicU64,
    oldest: AtomicU64,
}

impl AtomicDue {
    fn new(due: Due) -> AtomicDue {
        AtomicDue { own: AtomicU64::new(due.own), oldest: AtomicU64::new(due.oldest) }
    }

    fn get(&self) -> Due {
        Due { own: self.own.load(Ordering::Acquire), oldest: self.oldest.load(Ordering::Acquire) }
    }

    fn set(&self, due: Due) {
        self.own.store(due.own, Ordering::Release);
        self.oldest.store(due.oldest, Ordering::Release);
    }

    fn note(&self, due: Due) {
        self.own.fetch_min(due.own, Ordering::AcqRel);
        self.oldest.fetch_min(due.oldest, Ordering::AcqRel);
    }
}

impl Expiry {
    pub fn of_partition(is_empty: bool) -> Expiry {
        let known = if is_empty { Due::NEVER } else { Due::UNKNOWN };
        let (swept, written) = (AtomicDue::new(known), AtomicDue::new(Due::NEVER));
        Expiry { swept, written, sweeps: AtomicU64::new(0), purged: AtomicU64::new(0) }
    }

    /// Notes what a commit writes; under the sequencer.
    pub fn note(&self, due: Due) {
        if due != Due::NEVER {
            self.written.note(due);
        }
    }

    fn due(&self) -> Due {
        self.swept.get().min(self.written.get())
    }
}

/// A walk over a partition's items.
#[derive(Debug)]
pub struct Sweep {
    number: u64,
    /// The key that was looked at last.
    last: Option<Bytes>,
    /// Of the items that stay.
    due: Due,
    /// Items that the next step looks at: no more than it may delete, where all of them had to go.
    items_read_max: usize,
}

/// What one step of a sweep did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SweepStep {
    /// Looked at items, and deleted some of them. The charge is what deleting them would cost a client.
    Went { purged: u64, charge_centi: u64 },
    /// The shard has no room for work that can wait.
    Overloaded,
    /// The container's time to live was changed since the sweep's shape was made.
    Superseded,
    /// Every item was looked at.
    Complete,
}

impl Partition {
    /// When, in seconds, the first item may run out under a default; `None` while none can.
    pub fn expiry_due(&self, default_ttl: Option<i64>) -> Option<u64> {
        self.expiry.due().at(default_ttl)
    }

    /// Items removed since the partition was opened because their time had run out.
    pub fn purged(&self) -> u64 {
        self.expiry.purged.load(Ordering::Relaxed)
    }

    /// From now on only who goes by this default removes what has run out. To be called before a changed definition shows.
    pub async fn follow_ttl(&self, default_ttl: Option<i64>) {
        self.sequencer.hold().await.default_ttl = Some(default_ttl);
    }

    /// Only what the last one to begin finds out is kept.
    pub async fn begin_sweep(&self) -> Result<Sweep> {
        let (number, last) = {
            let sequencer = self.sequencer.hold().await;
            self.check_open()?;
            // What was written before this is seen by the sweep, what comes later is noted anew.
            let known = self.expiry.due();
            self.expiry.swept.set(known);
            self.expiry.written.set(Due::NEVER);
            let number = self.expiry.sweeps.fetch_add(1, Ordering::Relaxed) + 1;
            (number, self.last_queued(&sequencer))
        };
        self.wait_for(last).await?;
        Ok(Sweep { number, last: None, due: Due::NEVER, items_read_max: ITEMS_READ_MAX })
    }

    pub async fn sweep_step(
        &self,
        shape: &Arc<ContainerShape>,
        now: Timestamp,
        sweep: &mut Sweep,
    ) -> Result<SweepStep> {
        let (start, end) = keys::space_range(self.uid, keys::ITEMS);
        let start = sweep.last.as_ref().map_or(start, |last| keys::after_item(self.uid, &last[HEADER..]));
        let options = ScanOptions { limit: Some(sweep.items_read_max), ..ScanOptions::default() };
        let mut scan = self.shard().snapshot().scan(start..end, options);
        let Some(rows) = scan.next_chunk().await.map_err(crate::storage_error)? else {
            let _sequencer = self.sequencer.hold().await;
            self.check_open()?;
            if self.expiry.sweeps.load(Ordering::Relaxed) == sweep.number {
                self.expiry.swept.set(sweep.due);
            }
            return Ok(SweepStep::Complete);
        };
        drop(scan);
        let (mut due, mut last) = (sweep.due, None);
        let mut found = Vec::new();
        for (key, value) in rows {
            let envelope = Record::decode(&value).map_err(crate::corrupt)?.envelope;
            last = Some(Bytes::copy_from_slice(&key));
            if shape.is_expired(envelope.timestamp_seconds, envelope.ttl_seconds, now.seconds()) {
                found.push(Bytes::copy_from_slice(&key));
            } else {
                due.note(&envelope);
            }
            if found.len() == ITEMS_DELETED_MAX {
                break;
            }
        }
        sweep.items_read_max = match found.len() == ITEMS_DELETED_MAX {
            true => ITEMS_DELETED_MAX,
            false => (sweep.items_read_max * 2).min(ITEMS_READ_MAX),
        };
        let (step, cut) = match found.is_empty() {
            true => (SweepStep::Went { purged: 0, charge_centi: 0 }, None),
            false => self.purge(shape, now, found).await?,
        };
        if let SweepStep::Went { .. } = step {
            (sweep.due, sweep.last) = (due, cut.or(last));
        }
        Ok(step)
    }

    /// Deletes those of the items that are still there and still expired. Names the last one where there are more than one
    /// commit should delete.
    async fn purge(
        &self,
        shape: &Arc<ContainerShape>,
        now: Timestamp,
        found: Vec<Bytes>,
    ) -> Result<(SweepStep, Option<Bytes>)> {
        // Nobody writes to what a transaction holds; it is for a later sweep.
        let spares = Some(self.gates.clone());
        let deletion = Deletion { found: found.into(), only_expired: true, spares };
        let deleted = match self.delete_found(shape, now, Writer::Holder, &deletion).await {
            Err(error) if error.kind() == ErrorKind::TooManyRequests => {
                return Ok((SweepStep::Overloaded, None));
            }
            deleted => deleted?,
        };
        if deleted.is_superseded {
            return Ok((SweepStep::Superseded, None));
        }
        self.expiry.note(deleted.due);
        self.expiry.purged.fetch_add(deleted.expired, Ordering::Relaxed);
        let went = SweepStep::Went { purged: deleted.expired, charge_centi: deleted.expired_centi };
        Ok((went, deleted.cut.map(|cut| deletion.found[cut - 1].clone())))
    }
}

impl Sequencer {
    /// Whether a shape says what the container says now of what runs out. Nobody else may remove items for good.
    pub fn may_expire(&self, shape: &ContainerShape) -> bool {
        shape.default_ttl.is_some() && self.default_ttl.is_none_or(|current| current == shape.default_ttl)
    }
}
