//! A container as operations hold it: its definition, its partitions, and texts that every reply needs.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use shardlake_capacity::budget::{ContainerBudget, fractions_of};
use shardlake_catalog::{ContainerRecord, RangeRecord};
use shardlake_document::ItemName;
use shardlake_host::HostedContainer;
use shardlake_index::path_hash;
use shardlake_model::{
    Container, ContainerScripts, Database, Error, ErrorKind, IndexPathSegment, PartitionKeyRange, ReplyMeta,
    Result, Rid,
};
use shardlake_partition::ContainerSchema;
use shardlake_routing::PartitionMap;

use crate::generations::BuildProgress;
use crate::handle::PartitionHandle;
use crate::history::{ContainerHistory, PastRelocation};
use crate::motion::{Motion, RelocationReport, RelocationStatus, RelocationStep};

/// MongoDB's code for a change of a view.
pub const NOT_ON_VIEWS: i32 = 166;

/// Record of a container, with the state that runs for it.
#[derive(Clone)]
pub struct ContainerEntry {
    pub database: Arc<Database>,
    pub record: Arc<ContainerRecord>,
    pub scripts: Arc<ContainerScripts>,
    pub shape: Arc<ContainerSchema>,
    /// The same for the owner of the partitions.
    pub(crate) owner: Arc<HostedContainer>,
    /// In the order of the record's ranges.
    pub map: PartitionMap<PartitionHandle>,
    pub progress: Arc<BuildProgress>,
    /// Lives as long as the container, through all its entries.
    pub budget: Arc<ContainerBudget>,
    /// Lives as long as the container, through all its entries.
    pub motion: Arc<Motion>,
    /// Lives as long as the container, through all its entries.
    pub history: Arc<ContainerHistory>,
    /// Name of the source, if the container is a global secondary index: clients write there.
    source: Option<Arc<str>>,
    rid_text: String,
    self_link: String,
    alt_link: String,
}

impl ContainerEntry {
    /// State that runs for an earlier entry of the container is kept.
    pub fn new(
        database: Arc<Database>,
        record: Arc<ContainerRecord>,
        owner: Arc<HostedContainer>,
        map: PartitionMap<PartitionHandle>,
        source: Option<Arc<str>>,
        old: Option<&ContainerEntry>,
    ) -> Self {
        let rid = record.container.rid;
        let ids = map.iter().map(|partition| partition.range_id());
        assert!(
            record.ranges.iter().map(|range| range.range_id).eq(ids),
            "the ranges of a record and its partitions are in the same order"
        );
        debug_assert_eq!(map.generation(), record.generation, "a map is of its record's generation");
        let same_index = old.filter(|old| old.record.index == record.index);
        ContainerEntry {
            rid_text: rid.to_string(),
            self_link: format!("dbs/{}/colls/{rid}/", rid.database),
            alt_link: format!("dbs/{}/colls/{}", database.id, record.container.definition.id),
            database,
            record,
            source,
            scripts: old.map(|old| old.scripts.clone()).unwrap_or_default(),
            shape: owner.schema.clone(),
            budget: owner.budget.clone(),
            owner,
            map,
            progress: same_index.map(|old| old.progress.clone()).unwrap_or_default(),
            motion: old.map(|old| old.motion.clone()).unwrap_or_default(),
            history: old.map(|old| old.history.clone()).unwrap_or_default(),
        }
    }

    /// This entry with other scripts.
    pub fn with_scripts(&self, scripts: ContainerScripts) -> Self {
        ContainerEntry { scripts: Arc::new(scripts), ..self.clone() }
    }

    pub fn rid_text(&self) -> &str {
        &self.rid_text
    }

    /// Name of the source, if the container is a global secondary index.
    pub fn source(&self) -> Option<&str> {
        self.source.as_deref()
    }

    /// Refuses writes of clients to a global secondary index, whose items follow its source.
    pub fn check_takes_writes(&self) -> Result<()> {
        let Some(source) = &self.source else { return Ok(()) };
        let index = &self.record.container.definition.id;
        let message = format!("'{index}' is a global secondary index of '{source}': write there");
        Err(Error::new(ErrorKind::Forbidden, message).with_code(NOT_ON_VIEWS, Vec::new()))
    }

    /// The time of the last commit that was queued in any of its partitions; zero without any.
    pub fn last_queued_ms(&self) -> u64 {
        self.map.iter().map(|partition| partition.last_queued_ms()).max().unwrap_or(0)
    }

    /// `dbs/{rid}/colls/{rid}/`.
    pub fn self_link(&self) -> &str {
        &self.self_link
    }

    /// `dbs/{name}/colls/{name}`.
    pub fn alt_link(&self) -> &str {
        &self.alt_link
    }
}

impl ContainerEntry {
    pub fn usage(&self) -> ContainerUsage {
        ContainerUsage {
            items: self.map.iter().map(|partition| partition.items()).sum(),
            size_bytes: self.map.iter().map(|partition| partition.size_bytes()).sum(),
        }
    }

    /// How much of the indexing policy the index follows, in percent.
    pub fn index_progress(&self) -> u64 {
        if self.record.index.building.is_none() {
            return 100;
        }
        let items: u64 = self.map.iter().map(|partition| partition.items()).sum();
        let done = self.progress.items_done.load(Ordering::Relaxed);
        (done * 100).checked_div(items).unwrap_or(0).min(99)
    }
}

impl fmt::Debug for ContainerEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "container '{}'", self.alt_link)
    }
}

/// Cheap to clone; stays valid, though perhaps outdated, for as long as it is held.
#[derive(Debug, Clone)]
pub struct ContainerHandle {
    pub entry: Arc<ContainerEntry>,
    /// The container was named by its rid, and so are items in it.
    pub by_rid: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContainerUsage {
    pub items: u64,
    pub size_bytes: u64,
}

impl ContainerUsage {
    /// The limits of a container's storage in the reference's form, with sizes in kilobytes.
    pub const QUOTA_TEXT: &str =
        "documentSize=10240;documentsSize=10485760;documentsCount=-1;collectionSize=10485760;";

    /// The use of the storage in the same form.
    pub fn text(&self) -> String {
        let kilobytes = self.size_bytes.div_ceil(1024);
        format!(
            "documentSize=0;documentsSize={kilobytes};documentsCount={};collectionSize={kilobytes};",
            self.items
        )
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RangeStatistics {
    pub range_id: u32,
    pub items: u64,
    pub size_bytes: u64,
}

impl ContainerHandle {
    /// Relocations that have ended, the oldest first.
    pub fn past_relocations(&self) -> Vec<PastRelocation> {
        self.entry.history.past().relocations.iter().cloned().collect()
    }

    pub fn database(&self) -> &Database {
        &self.entry.database
    }

    /// The item that a segment of a path names: by its id, or by its resource id where the container was named by its own.
    pub fn item_name(&self, segment: &str) -> ItemName {
        if self.by_rid
            && let Some(Rid::Item(rid)) = Rid::parse(segment)
            && rid.container == self.entry.record.container.rid
        {
            return ItemName::Ordinal(rid.ordinal);
        }
        ItemName::from(segment)
    }

    /// With its definition normalised.
    pub fn container(&self) -> &Container {
        &self.entry.record.container
    }

    pub fn rid_text(&self) -> &str {
        self.entry.rid_text()
    }

    /// `dbs/{rid}/colls/{rid}/`.
    pub fn self_link(&self) -> &str {
        &self.entry.self_link
    }

    /// `dbs/{name}/colls/{name}`.
    pub fn alt_link(&self) -> &str {
        &self.entry.alt_link
    }

    /// How much of the indexing policy the index follows, in percent: below 100 while a changed policy is being applied.
    pub fn index_progress(&self) -> u64 {
        self.entry.index_progress()
    }

    /// Has the items with a value at a path counted from now on, which spares queries that order by it a search for the
    /// items without.
    pub async fn count_path(&self, names: &[&str]) -> Result<()> {
        let Some(layout) = &self.entry.shape.serving else { return Ok(()) };
        let path: Vec<_> = names.iter().map(|name| IndexPathSegment::Name((*name).to_owned())).collect();
        for partition in self.entry.map.iter() {
            partition.hosted().partition().count_path(layout.id, path_hash(&path)).await?;
        }
        Ok(())
    }

    /// Session tokens carry it, so that tokens of an earlier container with the same name are recognised.
    pub fn session_version(&self) -> i64 {
        self.entry.record.session_version
    }

    pub fn routing_generation(&self) -> u64 {
        self.entry.record.generation
    }

    pub fn partition_key_ranges(&self) -> Vec<PartitionKeyRange> {
        let by_hand: Vec<_> = self.entry.record.ranges.iter().map(|record| record.throughput).collect();
        let ranges = self.entry.record.ranges.iter().zip(self.entry.map.iter());
        ranges
            .zip(fractions_of(&by_hand))
            .map(|((record, partition), throughput_fraction)| PartitionKeyRange {
                throughput_fraction,
                id: record.range_id,
                min_inclusive: record.min.clone(),
                max_exclusive: record.max.clone(),
                rid_prefix: record.rid_prefix,
                parents: record.parents.clone(),
                lsn: partition.durable_lsn(),
            })
            .collect()
    }

    /// In the order of their bounds.
    pub fn range_ids(&self) -> impl Iterator<Item = u32> {
        self.entry.map.iter().map(|partition| partition.range_id())
    }

    /// The position of a range's partition; `None` where the container does not have such a range (any more).
    pub fn position_of_range(&self, range_id: u32) -> Option<ReplyMeta> {
        let partition = self.entry.map.iter().find(|partition| partition.range_id() == range_id)?;
        Some(partition.meta(0, 0))
    }

    /// Refuses a request meant for an earlier container of the same name.
    pub fn check_intended_rid(&self, rid: Option<&str>) -> Result<()> {
        match rid {
            Some(rid) if rid != self.rid_text() => Err(Error::new(
                ErrorKind::StaleContainer,
                format!(
                    "the request names container rid '{rid}', but '{}' has rid '{}': refresh the container and retry",
                    self.alt_link(),
                    self.rid_text()
                ),
            )),
            _ => Ok(()),
        }
    }

    pub fn usage(&self) -> ContainerUsage {
        self.entry.usage()
    }

    pub fn range_statistics(&self) -> Vec<RangeStatistics> {
        let statistics = |partition: &PartitionHandle| RangeStatistics {
            range_id: partition.range_id(),
            items: partition.items(),
            size_bytes: partition.size_bytes(),
        };
        self.entry.map.iter().map(statistics).collect()
    }
}

impl ContainerHandle {
    /// The relocation that is in progress.
    pub fn relocation(&self) -> Option<RelocationStatus> {
        let state = self.entry.motion.state();
        let record = self.entry.record.relocation.as_ref().or(state.running.as_ref())?;
        let target =
            |target: &RangeRecord| (target.range_id, target.min.clone(), target.max.clone(), target.shard);
        Some(RelocationStatus {
            kind: record.kind,
            sources: record.sources.clone(),
            targets: record.targets.iter().map(target).collect(),
            step: state.step.unwrap_or(RelocationStep::Planned),
            items: state.progress.items.load(Ordering::Relaxed),
            items_copied: state.progress.items_copied.load(Ordering::Relaxed),
            lag: state.progress.lag.load(Ordering::Relaxed),
        })
    }

    /// How the last relocation of this process ended: its report, or why it was given up.
    pub fn last_relocation(&self) -> Option<Result<RelocationReport, String>> {
        self.entry.motion.state().last.clone()
    }
}
