//! The orders that a shard's compactor makes: drops of segments, and SlateDB's own merges.
//!
//! All orders are its own. They are numbered by their time, and one with an earlier time than a stored one ends the database: an
//! order for a drop from elsewhere, stored while the compactor prepared a merge, would do that.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use slatedb::VersionedManifest;
use slatedb::compactor::{
    CompactionScheduler, CompactionSchedulerSupplier, CompactionSpec, CompactionStatus, CompactorStateView,
    SizeTieredCompactionSchedulerSupplier, SourceId,
};
use slatedb::config::CompactorOptions;

/// All listed tables of the segment.
pub(super) fn tables(manifest: &VersionedManifest, segment: &[u8]) -> Vec<SourceId> {
    let Some(found) = manifest.segment(segment) else { return Vec::new() };
    let new = found.l0().iter().map(|table| SourceId::SstView(table.id));
    new.chain(found.compacted().iter().map(|run| SourceId::SortedRun(run.id))).collect()
}

/// Segments of one shard that its compactor is to drop.
#[derive(Clone, Default)]
pub(super) struct Drops(Arc<Mutex<BTreeSet<Bytes>>>);

impl Drops {
    /// The segment is named until the result is dropped.
    pub fn name(&self, segment: Bytes) -> Named<'_> {
        self.segments().insert(segment.clone());
        Named { drops: self, segment }
    }

    fn segments(&self) -> MutexGuard<'_, BTreeSet<Bytes>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) struct Named<'a> {
    drops: &'a Drops,
    segment: Bytes,
}

impl Drop for Named<'_> {
    fn drop(&mut self) {
        self.drops.segments().remove(&self.segment);
    }
}

impl CompactionSchedulerSupplier for Drops {
    fn compaction_scheduler(&self, options: &CompactorOptions) -> Box<dyn CompactionScheduler + Send + Sync> {
        let merges = SizeTieredCompactionSchedulerSupplier.compaction_scheduler(options);
        Box::new(DropsAndMerges { drops: self.clone(), merges })
    }
}

/// SlateDB's own merges, and drops before them.
struct DropsAndMerges {
    drops: Drops,
    merges: Box<dyn CompactionScheduler + Send + Sync>,
}

impl CompactionScheduler for DropsAndMerges {
    fn propose(&self, state: &CompactorStateView) -> Vec<CompactionSpec> {
        let segments = self.drops.segments().clone();
        let mut orders: Vec<CompactionSpec> =
            segments.iter().filter_map(|segment| drain(state, segment)).collect();
        let merges = self.merges.propose(state);
        orders.extend(merges.into_iter().filter(|merge| !segments.contains(merge.segment())));
        orders
    }

    fn validate(&self, state: &CompactorStateView, order: &CompactionSpec) -> Result<(), slatedb::Error> {
        self.merges.validate(state, order)
    }
}

/// The order for a segment; `None` while another one for it is not at its end.
fn drain(state: &CompactorStateView, segment: &Bytes) -> Option<CompactionSpec> {
    let ended = [CompactionStatus::Completed, CompactionStatus::Failed];
    let mut orders = state.compactions().into_iter().flat_map(|orders| orders.recent_compactions());
    if orders.any(|order| order.spec().segment() == segment && !ended.contains(&order.status())) {
        return None;
    }
    let tables = tables(state.manifest(), segment);
    (!tables.is_empty()).then(|| CompactionSpec::drain_segment(segment.clone(), tables))
}
