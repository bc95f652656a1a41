//! Records of containers: their definition, their ranges, and the place of each range's data.

use serde::{Deserialize, Serialize};
use shardlake_model::{Container, ContainerRid, IndexingPolicy, PartitionUid};
use shardlake_routing::{KeyRange, RangeError};

/// A container with the physical partitions that hold it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ContainerRecord {
    pub container: Container,
    /// In the order of the hash space, which they cover without gaps.
    pub ranges: Vec<RangeRecord>,
    /// Increases whenever the ranges change; the etag of the range feed.
    pub generation: u64,
    /// Milliseconds since the Unix epoch at creation: session tokens carry it, so that a token of an earlier container
    /// of the same name is recognised and ignored.
    pub session_version: i64,
    /// Empty in records from before indexes existed.
    #[serde(default)]
    pub index: IndexRecord,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relocation: Option<RelocationRecord>,
    /// Ranges that splits and merges have ended, oldest first, the newest [`FORMER_RANGES_MAX`] of them.
    /// Queries that began in one continue under its id. Empty in records from before they were kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub former: Vec<FormerRange>,
}

/// Enough for a container that grows from one partition to its most.
pub const FORMER_RANGES_MAX: usize = 512;

impl ContainerRecord {
    pub fn range(&self, range_id: u32) -> Option<&RangeRecord> {
        self.ranges.iter().find(|range| range.range_id == range_id)
    }

    /// The bounds of an ended range; `None` for a live range and for a range that is no longer on record.
    pub fn former_bounds(&self, range_id: u32) -> Option<KeyRange> {
        let former = self.former.iter().find(|former| former.range_id == range_id)?;
        KeyRange::from_hex(&former.min, &former.max).ok()
    }

    /// Its ranges, and those that a relocation is filling.
    pub fn all_ranges(&self) -> impl Iterator<Item = &RangeRecord> {
        self.ranges.iter().chain(self.relocation.iter().flat_map(|relocation| &relocation.targets))
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RangeRecord {
    pub uid: u32,
    pub range_id: u32,
    /// Hexadecimal bounds.
    pub min: String,
    pub max: String,
    pub rid_prefix: u32,
    pub parents: Vec<u32>,
    /// The shard that holds it; 0 in records from before there were several.
    #[serde(default)]
    pub shard: u16,
    /// RU/s set by hand; `None` for an even share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput: Option<u64>,
}

impl RangeRecord {
    pub fn placed(&self) -> Placed {
        Placed { shard: self.shard, uid: PartitionUid(self.uid) }
    }

    pub fn bounds(&self) -> Result<KeyRange, RangeError> {
        KeyRange::from_hex(&self.min, &self.max)
    }
}

/// A range that a split or a merge has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FormerRange {
    pub range_id: u32,
    /// Hexadecimal bounds.
    pub min: String,
    pub max: String,
}

/// A partition and the shard that holds its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placed {
    pub shard: u16,
    pub uid: PartitionUid,
}

/// A partition's data is still to be deleted; marks from before there were several shards are a bare `"dropped"`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum DroppedMark {
    On { shard: u16 },
    OnShardZero(String),
}

impl DroppedMark {
    pub fn shard(&self) -> u16 {
        match self {
            DroppedMark::On { shard } => *shard,
            DroppedMark::OnShardZero(_) => 0,
        }
    }
}

/// The next numbers to hand out, and how many changes there were.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Numbers {
    pub partition: u32,
    pub offer: u32,
    /// 0 in records from before there were any.
    #[serde(default)]
    pub projection: u32,
    /// Increases by one with every change; 0 in records from before it was counted.
    #[serde(default)]
    pub version: u64,
    /// How far the list of ended containers was truncated; zeros in records from before the list existed.
    #[serde(default)]
    pub ended_forgotten: EndedForgotten,
}

impl Default for Numbers {
    fn default() -> Self {
        // Partition 0 is the catalog itself. Offer texts start away from "AAAA", which looks like padding in logs.
        Numbers {
            partition: 1,
            offer: 0x01_0001,
            projection: 0,
            version: 0,
            ended_forgotten: EndedForgotten::default(),
        }
    }
}

/// The generations of one container's index.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct IndexRecord {
    pub serving: Option<IndexGeneration>,
    pub building: Option<IndexGeneration>,
    /// The last id given to a generation. An id is never given twice, since an abandoned generation may have left data.
    #[serde(default)]
    pub last_id: u16,
}

impl IndexRecord {
    /// Ids of all maintained generations.
    pub fn ids(&self) -> Vec<u16> {
        self.serving.iter().chain(&self.building).map(|generation| generation.id).collect()
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct IndexGeneration {
    pub id: u16,
    /// Earlier versions have the name `policy`. They refuse records without it, and so do not read an
    /// index with summaries, of which they know nothing.
    #[serde(rename = "summarised_policy", alias = "policy")]
    pub policy: IndexingPolicy,
    /// Names and queries.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub computed_properties: Vec<(String, String)>,
    /// Terms of an item beyond which its large arrays are summarised. `None` for a generation of an
    /// earlier version, in which every value has its term.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exact_terms_max: Option<usize>,
}

impl IndexGeneration {
    /// Whether both have the same policies, in whichever form.
    pub fn follows(&self, other: &IndexGeneration) -> bool {
        (&self.policy, &self.computed_properties) == (&other.policy, &other.computed_properties)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RelocationKind {
    Split,
    Merge,
    Move,
}

impl RelocationKind {
    pub fn name(self) -> &'static str {
        match self {
            RelocationKind::Split => "split",
            RelocationKind::Merge => "merge",
            RelocationKind::Move => "move",
        }
    }
}

/// A relocation from before its first byte is copied until its targets take over.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RelocationRecord {
    pub kind: RelocationKind,
    /// Range ids, in the order of the hash space.
    pub sources: Vec<u32>,
    pub targets: Vec<RangeRecord>,
}

/// A container that has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndedContainer {
    pub rid: ContainerRid,
    /// The names of the container and its database.
    pub database: String,
    pub name: String,
    /// Time of its creation, in milliseconds since the Unix epoch.
    pub created_ms: u64,
    /// The time of its last commit; zero without any.
    pub last_ms: u64,
    /// Later than the times of all commits before.
    pub ended_ms: u64,
    /// The first version of the catalog without it.
    pub version: u64,
}

/// Up to where the list of ended containers was forgotten.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndedForgotten {
    pub version: u64,
    pub ended_ms: u64,
}
