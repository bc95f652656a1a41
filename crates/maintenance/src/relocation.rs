//! Split, merge and move: the plan of a relocation, its record in the catalog, and its visible state.
//!
//! A relocation is in the container's record from before its first byte is copied until its routing is published, in
//! one durable change with the marks that have the sources' data dropped. So a stop at any time leaves either the old
//! ranges with a relocation to continue, or the new ones. `relocation_run.rs` does the work.
//!
//! Children of a split and the child of a merge get ids above all earlier ids, and list their ancestors, the
//! oldest first. A moved range keeps its id: clients see no change.

use std::fmt;
use std::sync::Arc;

use shardlake_catalog::{ContainerRecord, Definitions, RangeRecord, RelocationRecord};
use shardlake_model::{ContainerRid, Error, ErrorKind, Result};
use shardlake_routing::{Epk, KeyRange, midpoint, place};
use tokio::task::JoinHandle;

use shardlake_router::{
    ContainerEntry, LiveCatalog, RelocationKind, RelocationReport, RelocationStep, bounds_of, uninterrupted,
    was_deleted,
};

use crate::Upkeep;
use shardlake_router::ContainerHandle;

/// Where a range is cut.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum SplitAt {
    /// Where the load halves when one side of the middle is much hotter than the other, else in the middle.
    #[default]
    Best,
    Middle,
    /// Where the bytes halve.
    Size,
    /// Where the request units of the last minutes halve.
    Load,
    /// A bound in hexadecimal, inside the range.
    Epk(String),
}

/// Asked at the end of each step; `false` stops the work where it is, as if the process had died.
type StepTest = dyn Fn(RelocationStep) -> bool + Send + Sync;

/// For tests: hooks at the steps of relocations.
#[derive(Clone, Default)]
pub struct RelocationHooks {
    pub goes_on: Option<Arc<StepTest>>,
    pub bug: Option<shardlake_partition::SeededBug>,
}

impl fmt::Debug for RelocationHooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "relocation hooks, bug {:?}", self.bug)
    }
}

/// A relocation that has begun. It continues even if no caller waits.
#[derive(Debug)]
pub struct RelocationTicket {
    /// The ranges that will be there when it is done.
    pub ranges: Vec<u32>,
    task: JoinHandle<Result<RelocationReport>>,
}

impl RelocationTicket {
    pub async fn finished(self) -> Result<RelocationReport> {
        self.task.await.map_err(|error| Error::internal(format!("a relocation's task failed: {error}")))?
    }
}

impl Upkeep {
    /// Cuts a range in two.
    pub async fn split(
        &self,
        container: &ContainerHandle,
        range_id: u32,
        at: SplitAt,
    ) -> Result<RelocationTicket> {
        let at = self.split_bound(&container.entry, range_id, at).await?;
        self.begin(container, move |upkeep, (live, entry), draft| {
            let source = range_of(entry, range_id)?;
            let whole = bounds_of(source)?;
            if !(whole.min < at && at < whole.max) {
                return Err(Error::bad_request(format!(
                    "the bound '{}' does not lie inside range {range_id}, which is '{}' to '{}'",
                    at.to_hex(),
                    source.min,
                    source.max
                )));
            }
            let next_id = next_range_id(entry);
            let mut parents = source.parents.clone();
            parents.push(source.range_id);
            let other_shard = place(&upkeep.router().shard_loads(live)).unwrap_or(0) as u16;
            let low = KeyRange { min: whole.min.clone(), max: at.clone() };
            let high = KeyRange { min: at.clone(), max: whole.max };
            let targets = [(low, source.shard), (high, other_shard)].into_iter().enumerate();
            let targets = targets
                .map(|(place, (range, shard))| {
                    let range = new_range(draft, next_id + place as u32, &range, shard, parents.clone());
                    RangeRecord { throughput: source.throughput.map(|share| share / 2), ..range }
                })
                .collect();
            Ok(RelocationRecord { kind: RelocationKind::Split, sources: vec![range_id], targets })
        })
        .await
    }

    /// Joins neighbouring ranges.
    pub async fn merge(&self, container: &ContainerHandle, range_ids: &[u32]) -> Result<RelocationTicket> {
        let range_ids = range_ids.to_vec();
        self.begin(container, move |upkeep, (_, entry), draft| {
            let mut sources: Vec<&RangeRecord> =
                range_ids.iter().map(|id| range_of(entry, *id)).collect::<Result<_>>()?;
            let mut bounds = Vec::new();
            for source in &sources {
                bounds.push((bounds_of(source)?, source.range_id));
            }
            bounds.sort_by(|left, right| left.0.min.cmp(&right.0.min));
            if bounds.len() < 2 || bounds.windows(2).any(|pair| pair[0].0.max != pair[1].0.min) {
                return Err(Error::bad_request(
                    "a merge names two or more ranges, each of them once, that follow one another in the hash space",
                ));
            }
            upkeep.check_merge(entry, &bounds.iter().map(|(_, id)| *id).collect::<Vec<_>>())?;
            sources.sort_by_key(|source| bounds.iter().position(|(_, id)| *id == source.range_id));
            let mut parents: Vec<u32> =
                sources.iter().flat_map(|source| source.parents.iter().copied()).collect();
            parents.extend(sources.iter().map(|source| source.range_id));
            parents.sort_unstable();
            parents.dedup();
            let range = KeyRange { min: bounds[0].0.min.clone(), max: bounds[bounds.len() - 1].0.max.clone() };
            assert!(!range.is_empty(), "joined ranges have a hash space");
            let target = new_range(draft, next_range_id(entry), &range, sources[0].shard, parents);
            let shares: Option<Vec<u64>> = sources.iter().map(|source| source.throughput).collect();
            let target = RangeRecord { throughput: shares.map(|shares| shares.iter().sum()), ..target };
            let sources = bounds.iter().map(|(_, id)| *id).collect();
            Ok(RelocationRecord { kind: RelocationKind::Merge, sources, targets: vec![target] })
        })
        .await
    }

    /// Has a range stored on another shard.
    pub async fn move_partition(
        &self,
        container: &ContainerHandle,
        range_id: u32,
        shard: u16,
    ) -> Result<RelocationTicket> {
        self.begin(container, move |upkeep, (_, entry), draft| {
            let source = range_of(entry, range_id)?;
            let count = upkeep.0.router.stores().count();
            if shard >= count {
                return Err(Error::bad_request(format!(
                    "there is no shard {shard}: this server has {count}, counted from 0"
                )));
            }
            if source.shard == shard {
                return Err(Error::bad_request(format!("range {range_id} is on shard {shard} already")));
            }
            let target = RangeRecord { uid: draft.new_partition(), shard, ..source.clone() };
            Ok(RelocationRecord {
                kind: RelocationKind::Move,
                sources: vec![range_id],
                targets: vec![target],
            })
        })
        .await
    }

    /// Aborts the relocation of a container and drops its copies. Returns whether there was one.
    pub async fn abort_relocation(&self, container: &ContainerHandle) -> Result<bool> {
        let entry = self.router().current_entry(&container.entry)?;
        if entry.record.relocation.is_none() {
            return Ok(false);
        }
        entry.motion.state().progress.abort();
        // The end of the relocation releases the lock.
        let _turn = entry.motion.topology.lock().await;
        Ok(self.router().current_entry(&entry)?.record.relocation.is_none())
    }

    /// Records a relocation and has it begin.
    async fn begin(
        &self,
        container: &ContainerHandle,
        plan: impl FnOnce(&Upkeep, (&LiveCatalog, &ContainerEntry), &mut Definitions) -> Result<RelocationRecord>
        + Send
        + 'static,
    ) -> Result<RelocationTicket> {
        let (upkeep, rid) = (self.clone(), container.entry.record.container.rid);
        let begun = async move {
            let planner = upkeep.clone();
            let change = move |live: &LiveCatalog, draft: &mut Definitions| {
                planner.record_relocation(rid, live, draft, plan)
            };
            let (ranges, live) = upkeep.router().change(change).await?;
            let entry = live.container_of_rid(rid).ok_or_else(was_deleted)?;
            Ok(RelocationTicket { ranges, task: upkeep.relocate_in_background(entry) })
        };
        uninterrupted(begun).await
    }

    /// Returns the ids of the ranges that will exist when the relocation is done.
    fn record_relocation(
        &self,
        rid: ContainerRid,
        live: &LiveCatalog,
        draft: &mut Definitions,
        plan: impl FnOnce(&Upkeep, (&LiveCatalog, &ContainerEntry), &mut Definitions) -> Result<RelocationRecord>,
    ) -> Result<Vec<u32>> {
        if self.router().is_closing() {
            return Err(Error::new(ErrorKind::Unavailable, "the server is stopping"));
        }
        let old = live.container_of_rid(rid).ok_or_else(was_deleted)?;
        let relocation = plan(self, (live, old), draft)?;
        if let Some(running) = &old.record.relocation {
            return Err(Error::new(
                ErrorKind::InProgress,
                format!(
                    "a {} of ranges {:?} is in progress: wait for its end, or abort it",
                    running.kind.name(),
                    running.sources
                ),
            ));
        }
        old.motion.state().progress = Arc::default();
        let ranges = relocation.targets.iter().map(|target| target.range_id).collect();
        let record = ContainerRecord { relocation: Some(relocation), ..ContainerRecord::clone(&old.record) };
        draft.containers.put(rid, record);
        Ok(ranges)
    }

    async fn split_bound(&self, entry: &ContainerEntry, range_id: u32, at: SplitAt) -> Result<Epk> {
        let entry = self.router().current_entry(entry)?;
        let range = bounds_of(range_of(&entry, range_id)?)?;
        let definition = &entry.record.container.definition.partition_key;
        let middle = midpoint(definition, &range);
        let bound = match at {
            SplitAt::Epk(text) => {
                let range = KeyRange::from_hex(&text, "FF").map_err(|error| {
                    Error::bad_request(format!("the bound of the split is invalid: {error}"))
                })?;
                Some(range.min)
            }
            SplitAt::Middle => middle,
            at => self.best_bound(&entry, range_id, &at).await?.or(middle),
        };
        bound.ok_or_else(|| {
            Error::bad_request(format!("range {range_id} cannot be split: no bound lies inside it"))
        })
    }

    /// Refuses a merge whose child would have to be split again.
    fn check_merge(&self, entry: &ContainerEntry, range_ids: &[u32]) -> Result<()> {
        let partitions = entry.map.iter().filter(|partition| range_ids.contains(&partition.range_id()));
        let size_bytes: u64 = partitions.map(|partition| partition.size_bytes()).sum();
        let max = self.router().limits().physical_partition_size_bytes_max;
        if size_bytes > max {
            return Err(Error::bad_request(format!(
                "the ranges hold {size_bytes} bytes together, more than the {max} of one partition"
            )));
        }
        Ok(())
    }
}

pub(crate) fn range_of(entry: &ContainerEntry, range_id: u32) -> Result<&RangeRecord> {
    entry.record.ranges.iter().find(|range| range.range_id == range_id).ok_or_else(|| {
        Error::new(
            ErrorKind::PartitionGone,
            format!(
                "partition key range {range_id} does not exist (any more): refresh the partition key ranges"
            ),
        )
    })
}

/// The newest range is always there, so ids only go up.
fn next_range_id(entry: &ContainerEntry) -> u32 {
    entry.record.ranges.iter().map(|range| range.range_id + 1).max().unwrap_or(0)
}

/// Without a share of the throughput that was given to it by name.
fn new_range(
    draft: &mut Definitions,
    range_id: u32,
    range: &KeyRange,
    shard: u16,
    parents: Vec<u32>,
) -> RangeRecord {
    let (min, max) = range.to_hex();
    let uid = draft.new_partition();
    RangeRecord { uid, range_id, min, max, rid_prefix: range_id, parents, shard, throughput: None }
}

/// The container that a relocation concerns.
pub(crate) type Subject = ContainerRid;
