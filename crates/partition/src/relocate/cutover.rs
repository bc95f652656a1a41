//! The end of a relocation: fences keep the sources' sequencers, so that no writes are accepted;
//! the targets get the last changes and their first log entry; the caller publishes the routing;
//! the sources answer no more.
//!
//! Writers wait for the end of the fence meanwhile, and find the partition ended, or not, when they get the sequencer. Readers
//! continue.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use shardlake_model::Result;
use shardlake_routing::KeyRange;
use shardlake_stdx::{Clock, HybridTime};
use shardlake_storage::Batch;

use super::catch_up::Pace;
use super::{Relocation, SeededBug, Target};
use crate::core::Core;
use crate::end::End;
use crate::functions;
use crate::keys;
use crate::log::entry::LogEntry;
use crate::log::marks::LogMarks;
use crate::sequencer::{Fence, Sequencer};

/// The targets are complete, and nothing is written anywhere until this goes.
#[derive(Debug)]
#[must_use = "writers wait until it is completed or dropped"]
pub struct Cutover {
    sources: Vec<Arc<Core>>,
    _fences: Vec<Fence>,
}

impl Relocation {
    /// Holds the writers and brings the targets up to the last commit. `None`, and the writers go
    /// on, when that is not done `within` a time: then the caller catches up again, from the
    /// position reached.
    pub async fn cut_over(&mut self, clock: &Clock, within: Duration) -> Result<Option<Cutover>> {
        let deadline = clock.elapsed() + within;
        let mut time = HybridTime::from(clock.now());
        let (mut fences, mut lasts) = (Vec::with_capacity(self.sources.len()), Vec::new());
        let mut ordered: Vec<_> = self.sources.iter().collect();
        // No other code holds two.
        ordered.sort_by_key(|source| source.uid);
        for source in ordered {
            let look = |sequencer: &Sequencer| {
                (sequencer.time, sequencer.counters.next_ordinal, source.last_queued(sequencer))
            };
            let (fence, (last_time, next_ordinal, last)) = source.sequencer.fence(look).await;
            source.check_open()?;
            time = time.max(last_time);
            lasts.push((source.clone(), last));
            // A moved partition continues with the ordinals of its own prefix; others begin.
            for target in &mut self.targets {
                if target.identity.rid_prefix == source.rid_prefix {
                    target.state.counters.next_ordinal = next_ordinal;
                }
            }
            if !self.has_bug(SeededBug::NoFence) {
                fences.push(fence);
            }
        }
        // Their syncs continue at the same time.
        for (source, last) in lasts {
            source.wait_for(last).await?;
        }
        self.progress.check()?;
        if clock.elapsed() > deadline {
            return Ok(None);
        }
        let mut pace = Pace::Held { clock: clock.clone(), deadline };
        if !self.catch_up_round(&mut pace).await? || clock.elapsed() > deadline {
            return Ok(None);
        }
        // From the logs. The sources' own LSNs follow when a writer gets the acknowledgement of its
        // commit, which never happens if its task has ended.
        let positions = self.targets.iter().flat_map(|target| &target.state.positions);
        let last = positions.copied().max().unwrap_or(0);
        for target in &self.targets {
            let lsn = if self.has_bug(SeededBug::LsnRestarts) { 1 } else { last + 1 };
            let first = LogEntry::new(time, target.state.counters, Vec::new());
            let mut batch = Batch::new();
            batch.put(keys::log_key(target.uid(), lsn), first.encode());
            batch.put(keys::log_marks_key(target.uid()), self.marks_of(target, last).encode());
            if self.sources.iter().all(|source| source.expiry.is_queued) {
                batch.put(keys::expiry_mark_key(target.uid()), Bytes::new());
            }
            let sources = self.sources.iter().map(|source| (source.shard(), source.uid));
            let identity = (target.uid(), &target.identity.epk_range);
            functions::carried(sources, identity, &mut batch).await?;
            target.shard.commit_in_background(batch).await.map_err(crate::storage_error)?;
            // Also where commits are acknowledged earlier: the catalog may be on another shard.
            let applied = target.shard.applied();
            target.shard.wait_durable(applied).await.map_err(crate::storage_error)?;
        }
        Ok(Some(Cutover { sources: self.sources.clone(), _fences: fences }))
    }

    /// A target's retained history: with one source, the part of that source's history, else the
    /// history of all of them.
    fn marks_of(&self, target: &Target, last: u64) -> LogMarks {
        let marks: Vec<_> = self.sources.iter().map(|source| source.past.marks()).collect();
        let start = |range: &KeyRange| keys::item_key_bound_below(range);
        let starts: Vec<_> = match &self.sources[..] {
            [_] => vec![start(&target.identity.epk_range)],
            sources => sources.iter().map(|source| start(&source.epk_range)).collect(),
        };
        let parts: Vec<_> = starts.into_iter().zip(marks.iter().map(|marks| &**marks)).collect();
        LogMarks::of_sources(&parts, last)
    }

    /// Deletes the state of the relocation from every target. Reports the first failure.
    pub async fn clean_up(&self) -> Result<()> {
        let mut outcome = Ok(());
        for target in &self.targets {
            let mut batch = Batch::new();
            batch.delete(keys::relocation_key(target.uid()));
            let deleted = target.shard.commit_in_background(batch).await;
            outcome = outcome.and(deleted.map_err(crate::storage_error));
        }
        outcome
    }
}

impl Cutover {
    /// The routing has been published: the sources end here.
    pub fn complete(self) {
        for source in &self.sources {
            source.end_with(End::Moved);
        }
    }

    /// The publication failed, which does not prove that it will not be found after a restart. A
    /// source must not acknowledge any write that the targets would not have then.
    pub fn leave_in_doubt(self) {
        for source in &self.sources {
            source.end_with(End::InDoubt);
        }
    }
}
