//! The one way to change a definition.
//!
//! [`Serving::change`] takes a plan that edits a draft. The stored changes, the visible catalog and the
//! follow-up work all derive from the difference between the draft and the definitions in force:
//!
//! ```text
//! lock → plan edits the draft → difference, predicates → derive what runs → commit → show → consequences
//! ```
//!
//! All of it runs on a task of its own. A client that disconnects does not interrupt the change: it takes
//! place as a whole, with its consequences, or not at all.
//!
//! *Lock order*: the topology of a container (relocations, index builds), its alignment, the sequencers of
//! its partitions, then the catalog's lock. Nothing waits for a busy sequencer while it holds the catalog's
//! lock, so a container with blocked writers does not block definition changes of other containers.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use shardlake_catalog::{Change, Definitions, Placed, RangeRecord, Urgency};
use shardlake_model::{ContainerRid, Error, Result};
use shardlake_partition::{End, Partition, storage_error};
use shardlake_stdx::Timestamp;

use tokio::sync::watch;

use crate::Serving;
use crate::container_handle::ContainerEntry;
use crate::live_catalog::LiveCatalog;
use crate::log_holds;
use crate::refusals::catalog_error;

impl Serving {
    /// Makes one change, and returns the plan's result and the catalog that shows the change. The plan sees
    /// the definitions in force and edits a copy; if it fails, nothing changes. The change is durable,
    /// visible and followed up when this returns.
    pub async fn change<T: Send + 'static>(
        &self,
        plan: impl FnOnce(&LiveCatalog, &mut Definitions) -> Result<T> + Send + 'static,
    ) -> Result<(T, Arc<LiveCatalog>)> {
        self.change_and(Urgency::Ordinary, plan, || ()).await
    }

    /// As [`Self::change`], with a callback that runs after the change is durable and before it is visible.
    pub async fn change_and<T: Send + 'static>(
        &self,
        urgency: Urgency,
        plan: impl FnOnce(&LiveCatalog, &mut Definitions) -> Result<T> + Send + 'static,
        before_it_shows: impl FnOnce() + Send + 'static,
    ) -> Result<(T, Arc<LiveCatalog>)> {
        let serving = self.clone();
        uninterrupted(async move { serving.make_change(urgency, plan, before_it_shows).await }).await
    }

    async fn make_change<T>(
        &self,
        urgency: Urgency,
        plan: impl FnOnce(&LiveCatalog, &mut Definitions) -> Result<T>,
        before_it_shows: impl FnOnce() + Send + 'static,
    ) -> Result<(T, Arc<LiveCatalog>)> {
        let turn = self.0.catalog_writer.lock(urgency).await.map_err(catalog_error)?;
        let before = self.0.catalog.load_full();
        let mut draft = Definitions::clone(turn.definitions());
        let told = plan(&before, &mut draft)?;
        let last_ms =
            |rid: ContainerRid| before.container_of_rid(rid).map_or(0, |entry| entry.last_queued_ms());
        let ended_ms = || self.times().between(Timestamp::default()).milliseconds();
        draft.note_ended(turn.definitions(), ended_ms, last_ms);
        let change = turn.plan(draft).map_err(catalog_error)?;
        if change.is_empty() {
            return Ok((told, before));
        }
        let after = Arc::new(self.derived(&before, &change).await?);
        let (serving, shown, difference) = (self.clone(), after.clone(), change.clone());
        let publish = move || {
            serving.follow_throughput_of(&shown, &difference);
            log_holds::follow_holds_of(&shown, &difference);
            before_it_shows();
            serving.show(shown);
        };
        turn.commit(change.clone(), publish).await.map_err(catalog_error)?;
        self.follow(&change, &before).await;
        Ok((told, after))
    }

    /// Puts a catalog in force, and wakes the tasks that wait for it.
    pub fn show(&self, catalog: Arc<LiveCatalog>) {
        let version = catalog.definitions.numbers.version;
        self.0.catalog.store(catalog);
        self.0.catalog_version.send_replace(version);
    }

    /// The versions of the catalog from now on.
    pub fn catalog_versions(&self) -> watch::Receiver<u64> {
        self.0.catalog_version.subscribe()
    }

    /// Waits until a container's index follows its policy, or the container is deleted.
    pub async fn wait_for_index(&self, rid: ContainerRid) {
        let mut versions = self.0.catalog_version.subscribe();
        loop {
            versions.borrow_and_update();
            match self.entry_of_rid(rid) {
                Ok(entry) if entry.record.index.building.is_some() => {}
                _ => return,
            }
            if versions.changed().await.is_err() {
                return;
            }
        }
    }

    /// Follow-up work of a change that is in force. None of it can fail the change.
    async fn follow(&self, change: &Change, before: &LiveCatalog) {
        let mut dropped: Vec<Placed> = added_marks(change);
        for removed in change.containers.iter().filter(|changed| changed.new.is_none()) {
            let Some(entry) = before.container_of_rid(removed.key) else { continue };
            // A write in progress has completed or is refused before the data is deleted.
            entry.motion.state().progress.abort();
            for partition in entry.map.iter() {
                partition.hosted().partition().close(End::Deleted).await;
            }
            let targets = self.drop_targets_in_background(entry);
            dropped.retain(|placed| !targets.contains(placed));
        }
        self.drop_partitions_in_background(dropped);
        if !change.offers.is_empty() {
            self.0.offers_changed.notify_one();
        }
    }

    /// Deletes the copies that a relocation of a deleted container has made, after the relocation has ended.
    fn drop_targets_in_background(&self, entry: &ContainerEntry) -> Vec<Placed> {
        let Some(relocation) = &entry.record.relocation else { return Vec::new() };
        let targets: Vec<Placed> = relocation.targets.iter().map(RangeRecord::placed).collect();
        let (serving, motion, dropped) = (self.clone(), entry.motion.clone(), targets.clone());
        tokio::spawn(async move {
            let _turn = motion.topology.lock().await;
            serving.drop_partitions_in_background(dropped);
        });
        targets
    }

    /// Changes the policies that a container's partitions follow. Until the change is in force, partitions remove
    /// nothing that the current definition keeps, nor anything that the new one would keep for `retention`. Afterwards
    /// every partition follows the definition in force, whether or not the change succeeded.
    pub async fn redefine(
        &self,
        rid: ContainerRid,
        retention: Option<Duration>,
        plan: impl FnOnce(&LiveCatalog, &mut Definitions) -> Result<()> + Send + 'static,
    ) -> Result<Arc<ContainerEntry>> {
        let serving = self.clone();
        uninterrupted(async move {
            let motion = serving.entry_of_rid(rid)?.motion.clone();
            let _order = motion.alignment.lock().await;
            let old = serving.entry_of_rid(rid)?;
            for partition in old.map.iter() {
                partition.hosted().partition().follow_ttl(None).await;
                partition.hosted().partition().keep_versions(retention.max(old.shape.retention)).await;
            }
            let outcome = serving.change(plan).await;
            serving.align(rid).await;
            outcome?;
            let new = serving.entry_of_rid(rid)?;
            if !new.shape.has_unique_keys_of(&old.shape) || new.shape.bounds != old.shape.bounds {
                for partition in new.map.iter() {
                    partition.hosted().partition().follow_unique_keys(&new.shape).await;
                }
            }
            Ok(new)
        })
        .await
    }

    /// Brings a container's partitions in line with its record. Call with its alignment held: of two changes the later one
    /// counts.
    async fn align(&self, rid: ContainerRid) {
        let Ok(entry) = self.entry_of_rid(rid) else { return };
        for partition in entry.map.iter() {
            partition.hosted().partition().follow_ttl(entry.shape.default_ttl).await;
            partition.hosted().partition().keep_versions(entry.shape.retention).await;
            if let Err(error) = align_index(partition.hosted().partition(), &entry).await {
                // The partition refuses writes permanently, so no write misses the index; the next start opens it anew.
                tracing::warn!(container = %rid, partition = partition.uid().0, %error, "a partition does not follow the indexing policy");
            }
        }
    }

    /// Deletes the data of dropped partitions, then their marks, separately on each shard. The
    /// marks survive a crash; the work is repeatable.
    pub fn drop_partitions_in_background(&self, dropped: Vec<Placed>) {
        let mut by_shard: std::collections::BTreeMap<u16, Vec<Placed>> = std::collections::BTreeMap::new();
        for placed in dropped {
            by_shard.entry(placed.shard).or_default().push(placed);
        }
        for dropped in by_shard.into_values() {
            let serving = self.clone();
            tokio::spawn(async move {
                for placed in dropped {
                    let Err(error) = serving.patiently(|| serving.drop_partition(placed)).await else {
                        continue;
                    };
                    // The mark stays, so the next start tries again.
                    if serving.is_closing() {
                        return;
                    }
                    let (partition, shard) = (placed.uid.0, placed.shard);
                    tracing::warn!(partition, shard, %error, "deleting a dropped partition stopped");
                    if !serving.is_writable() {
                        return;
                    }
                }
            });
        }
    }

    async fn drop_partition(&self, placed: Placed) -> Result<()> {
        let (start, end) = shardlake_partition::partition_range(placed.uid);
        let shard = self.0.shards.get(placed.shard)?;
        shard.drop_prefix(start, end).await.map_err(storage_error)?;
        if placed.shard != 0 {
            // The mark is in another shard's journal: if its removal reached the disk first, a crash could
            // restore data that is never deleted.
            shard.wait_durable(shard.applied()).await.map_err(storage_error)?;
        }
        self.change(move |_, draft| {
            draft.dropped.remove(&placed.uid);
            Ok(())
        })
        .await?;
        Ok(())
    }
}

async fn align_index(partition: &Partition, entry: &ContainerEntry) -> Result<()> {
    if let Some(serving) = &entry.record.index.serving {
        // Queries that still see an older entry must not read an index that is about to be dropped.
        partition.retire_indexes_below(serving.id);
    }
    partition.maintain_indexes(entry.shape.maintained()).await
}

pub fn added_marks(change: &Change) -> Vec<Placed> {
    let added = change.dropped.iter().filter(|changed| changed.old.is_none());
    added
        .filter_map(|changed| {
            let shard = changed.new.as_ref()?.shard();
            Some(Placed { shard, uid: changed.key })
        })
        .collect()
}

/// Runs on a task of its own, to its end, whatever becomes of the caller.
pub async fn uninterrupted<T: Send + 'static>(
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    let task = tokio::spawn(work);
    task.await
        .map_err(|error| Error::internal("a change of a definition was cut short").with_source(error))?
}
