//! The catalog: which databases, containers, ranges and offers there are.
//!
//! Stored under partition 0 of shard 0, one record per resource, each `crc32 u32 | JSON`:
//!
//! ```text
//! 0u32 | 'D' | database rid u32             → Database
//! 0u32 | 'C' | database u32 | container u32 → ContainerRecord
//! 0u32 | 'J' | database u32 | container u32 | number u64 → Script: a stored procedure, trigger or user-defined function
//! 0u32 | 'O' | offer rid u32                → Offer
//! 0u32 | 'U' | database u32 | user u32      → User
//! 0u32 | 'P' | database u32 | user u32 | permission u64 → Permission
//! 0u32 | 'X' | partition uid u32            → DroppedMark: its data is still to be deleted
//! 0u32 | 'N'                                → Numbers: the next numbers to hand out
//! 0u32 | 'F' | projection u32               → ProjectionRecord: a rule (projections/)
//! 0u32 | 'K' | projection u32               → Checkpoint: how far it has come
//! 0u32 | 'S'                                → see `membership.rs`; the only record here that other shards have, too
//! ```
//! A change is one batch, durable before it shows. Dropping a container writes `X` marks in the same batch, so that a
//! crash cannot leak its data: opening the account resumes the deletion.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use shardlake_model::{
    Container, ContainerRid, ContainerScripts, Database, DatabaseRid, Error, ErrorKind, Offer, OfferRid,
    Permission, PermissionRid, Result, Script, User, UserRid,
};
use shardlake_partition::{PartitionIdentity, PartitionUid};
use shardlake_routing::EpkRange;
use shardlake_storage::{Batch, ScanOptions, Shard};

use crate::container_handle::ContainerEntry;
use crate::index_build::IndexRecord;
use crate::projections::{Checkpoint, ProjectionEntry, ProjectionRecord};
use crate::relocation::RelocationRecord;
use crate::users::{UserEntry, Users};

const DATABASE: u8 = b'D';
const CONTAINER: u8 = b'C';
const SCRIPT: u8 = b'J';
const OFFER: u8 = b'O';
const USER: u8 = b'U';
const PERMISSION: u8 = b'P';
const DROPPED: u8 = b'X';
const NUMBERS: u8 = b'N';
const PROJECTION: u8 = b'F';
const CHECKPOINT: u8 = b'K';
pub(crate) const MEMBERSHIP: u8 = b'S';

/// A container with the physical partitions that hold it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ContainerRecord {
    pub container: Container,
    pub ranges: Vec<RangeRecord>,
    /// Goes up whenever the ranges change; the etag of the range feed.
    pub generation: u64,
    /// Milliseconds since the Unix epoch at creation: session tokens carry it, so that a token of an earlier container
    /// of the same name is recognised and ignored.
    pub session_version: i64,
    /// Empty in records from before there was an index.
    #[serde(default)]
    pub index: IndexRecord,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relocation: Option<RelocationRecord>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RangeRecord {
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

    pub fn identity(&self, session_version: i64) -> Result<PartitionIdentity> {
        let epk_range = EpkRange::from_hex(&self.min, &self.max).map_err(|error| {
            Error::new(ErrorKind::Corrupt, format!("a stored range is malformed: {error}"))
        })?;
        Ok(PartitionIdentity {
            uid: PartitionUid(self.uid),
            range_id: self.range_id,
            epk_range,
            rid_prefix: self.rid_prefix,
            // A range's prefix is its id.
            inherited_prefixes: self.parents.clone(),
            session_version,
        })
    }
}

/// A partition and the shard that holds its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Placed {
    pub shard: u16,
    pub uid: PartitionUid,
}

/// Says where the data to be deleted lies; marks from before there were several shards are a bare `"dropped"`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum DroppedMark {
    On { shard: u16 },
    OnShardZero(String),
}

impl DroppedMark {
    fn shard(&self) -> u16 {
        match self {
            DroppedMark::On { shard } => *shard,
            DroppedMark::OnShardZero(_) => 0,
        }
    }
}

/// The next numbers to hand out.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Numbers {
    pub partition: u32,
    pub offer: u32,
    /// 0 in records from before there were any.
    #[serde(default)]
    pub projection: u32,
}

impl Default for Numbers {
    fn default() -> Self {
        // Partition 0 is the catalog itself. Offer texts start away from "AAAA", which looks like padding in logs.
        Numbers { partition: 1, offer: 0x01_0001, projection: 0 }
    }
}

/// What the catalog's shard holds, as records.
#[derive(Debug, Default)]
pub(crate) struct StoredCatalog {
    pub databases: Vec<Database>,
    pub containers: Vec<ContainerRecord>,
    pub scripts: FxHashMap<ContainerRid, ContainerScripts>,
    pub offers: Vec<Offer>,
    pub users: Vec<User>,
    pub permissions: Vec<Permission>,
    pub dropped: Vec<Placed>,
    pub projections: Vec<ProjectionRecord>,
    pub checkpoints: BTreeMap<u32, Checkpoint>,
    pub numbers: Numbers,
}

/// The catalog in memory. Cloned and changed by writers, shared by readers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Catalog {
    pub databases: FxHashMap<String, DatabaseEntry>,
    pub offers: BTreeMap<OfferRid, Arc<Offer>>,
    /// By id.
    pub projections: BTreeMap<String, Arc<ProjectionEntry>>,
    pub numbers: Numbers,
}

#[derive(Debug, Clone)]
pub(crate) struct DatabaseEntry {
    pub database: Arc<Database>,
    pub containers: FxHashMap<String, Arc<ContainerEntry>>,
    pub users: Arc<Users>,
}

impl Catalog {
    /// Finds by name, then by rid.
    pub fn database(&self, segment: &str) -> Option<&DatabaseEntry> {
        if let Some(entry) = self.databases.get(segment) {
            return Some(entry);
        }
        let rid = DatabaseRid::parse(segment)?;
        self.databases.values().find(|entry| entry.database.rid == rid)
    }

    pub fn resource_count(&self) -> usize {
        self.databases.values().map(|entry| 1 + entry.containers.len()).sum()
    }

    pub fn offer_of(&self, resource_rid: &str) -> Option<&Arc<Offer>> {
        self.offers.values().find(|offer| offer.resource_rid == resource_rid)
    }

    /// Databases in a stable order: by creation time, then name.
    pub fn databases_in_order(&self) -> Vec<&DatabaseEntry> {
        let mut entries: Vec<_> = self.databases.values().collect();
        entries.sort_by(|a, b| {
            (a.database.timestamp, &a.database.id).cmp(&(b.database.timestamp, &b.database.id))
        });
        entries
    }
}

impl DatabaseEntry {
    pub fn new(database: Arc<Database>) -> Self {
        DatabaseEntry { database, containers: FxHashMap::default(), users: Arc::default() }
    }

    /// Finds by name, then by rid; tells which.
    pub fn container(&self, segment: &str) -> Option<(&Arc<ContainerEntry>, bool)> {
        if let Some(entry) = self.containers.get(segment) {
            return Some((entry, false));
        }
        let rid = ContainerRid::parse(segment)?;
        self.containers.values().find(|entry| entry.container.rid == rid).map(|entry| (entry, true))
    }

    pub fn containers_in_order(&self) -> Vec<&Arc<ContainerEntry>> {
        let mut entries: Vec<_> = self.containers.values().collect();
        entries.sort_by(|a, b| {
            let key =
                |entry: &ContainerEntry| (entry.container.timestamp, entry.container.definition.id.clone());
            key(a).cmp(&key(b))
        });
        entries
    }
}

pub(crate) fn key(kind: u8, numbers: &[u32]) -> Vec<u8> {
    let mut key = vec![0, 0, 0, 0, kind];
    numbers.iter().for_each(|number| key.extend_from_slice(&number.to_be_bytes()));
    key
}

fn user_key(rid: UserRid) -> Vec<u8> {
    key(USER, &[rid.database.0, rid.number])
}

fn permission_key(rid: PermissionRid) -> Vec<u8> {
    let mut key = key(PERMISSION, &[rid.user.database.0, rid.user.number]);
    key.extend_from_slice(&rid.number.to_be_bytes());
    key
}

fn script_key(container: ContainerRid, number: u64) -> Vec<u8> {
    let mut key = key(SCRIPT, &[container.database.0, container.number]);
    key.extend_from_slice(&number.to_be_bytes());
    key
}

/// The container of the script that is stored under a key, and the script's number.
fn parse_script_key(key: &[u8]) -> Option<(ContainerRid, u64)> {
    let (database, rest) = key.get(5..)?.split_first_chunk()?;
    let (container, rest) = rest.split_first_chunk()?;
    let number = u64::from_be_bytes(rest.try_into().ok()?);
    let database = DatabaseRid(u32::from_be_bytes(*database));
    Some((ContainerRid { database, number: u32::from_be_bytes(*container) }, number))
}

pub(crate) fn encode<T: Serialize>(record: &T) -> Vec<u8> {
    let json = serde_json::to_vec(record).expect("catalog records are plain data");
    let mut bytes = crc32fast::hash(&json).to_le_bytes().to_vec();
    bytes.extend_from_slice(&json);
    bytes
}

pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    let corrupt = |what: &str| Error::new(ErrorKind::Corrupt, format!("a catalog record {what}"));
    let (checksum, json) =
        bytes.split_first_chunk::<4>().ok_or_else(|| corrupt("is shorter than its checksum"))?;
    if crc32fast::hash(json) != u32::from_le_bytes(*checksum) {
        return Err(corrupt("does not match its checksum"));
    }
    serde_json::from_slice(json).map_err(|error| corrupt("is malformed").with_source(error))
}

/// One durable change of the catalog.
#[derive(Default)]
pub(crate) struct CatalogBatch(Batch);

impl CatalogBatch {
    pub fn new() -> Self {
        CatalogBatch(Batch::new())
    }

    pub fn put_database(&mut self, database: &Database) {
        self.0.put(key(DATABASE, &[database.rid.0]), encode(database));
    }

    pub fn delete_database(&mut self, rid: DatabaseRid) {
        self.0.delete(key(DATABASE, &[rid.0]));
    }

    pub fn put_container(&mut self, record: &ContainerRecord) {
        let rid = record.container.rid;
        self.0.put(key(CONTAINER, &[rid.database.0, rid.number]), encode(record));
    }

    /// With its scripts; also marks its partitions for deletion.
    pub fn delete_container(&mut self, entry: &ContainerEntry) {
        let rid = entry.container.rid;
        entry.scripts.0.values().for_each(|script| self.delete_script(rid, script));
        self.0.delete(key(CONTAINER, &[rid.database.0, rid.number]));
        let targets = entry.relocation.iter().flat_map(|relocation| &relocation.targets);
        entry.ranges.iter().chain(targets).for_each(|range| self.drop_range(range.placed()));
    }

    /// Marks a partition's data for deletion.
    pub fn drop_range(&mut self, placed: Placed) {
        self.0.put(key(DROPPED, &[placed.uid.0]), encode(&DroppedMark::On { shard: placed.shard }));
    }

    pub fn put_script(&mut self, container: ContainerRid, script: &Script) {
        self.0.put(script_key(container, script.number), encode(script));
    }

    pub fn delete_script(&mut self, container: ContainerRid, script: &Script) {
        self.0.delete(script_key(container, script.number));
    }

    pub fn put_offer(&mut self, offer: &Offer) {
        self.0.put(key(OFFER, &[offer.rid.0]), encode(offer));
    }

    pub fn delete_offer(&mut self, rid: OfferRid) {
        self.0.delete(key(OFFER, &[rid.0]));
    }

    pub fn put_user(&mut self, user: &User) {
        self.0.put(user_key(user.rid), encode(user));
    }

    /// With all its permissions.
    pub fn delete_user(&mut self, entry: &UserEntry) {
        self.0.delete(user_key(entry.user.rid));
        entry.permissions.values().for_each(|permission| self.delete_permission(permission.rid));
    }

    pub fn put_permission(&mut self, permission: &Permission) {
        self.0.put(permission_key(permission.rid), encode(permission));
    }

    pub fn delete_permission(&mut self, rid: PermissionRid) {
        self.0.delete(permission_key(rid));
    }

    pub fn put_projection(&mut self, record: &ProjectionRecord) {
        self.0.put(key(PROJECTION, &[record.number]), encode(record));
    }

    pub fn put_checkpoint(&mut self, number: u32, checkpoint: &Checkpoint) {
        self.0.put(key(CHECKPOINT, &[number]), encode(checkpoint));
    }

    pub fn delete_projection(&mut self, number: u32) {
        self.0.delete(key(PROJECTION, &[number]));
        self.0.delete(key(CHECKPOINT, &[number]));
    }

    pub fn put_numbers(&mut self, numbers: Numbers) {
        self.0.put(key(NUMBERS, &[]), encode(&numbers));
    }

    pub fn forget_dropped(&mut self, uid: PartitionUid) {
        self.0.delete(key(DROPPED, &[uid.0]));
    }

    pub async fn commit(self, shard: &Shard) -> Result<()> {
        let commit = shard.commit(self.0).map_err(shardlake_partition::storage_error)?;
        commit.await.map_err(shardlake_partition::storage_error)
    }
}

/// Reads every record.
pub(crate) async fn load(shard: &Shard) -> Result<StoredCatalog> {
    let mut stored = StoredCatalog::default();
    let snapshot = shard.snapshot();
    let mut scan =
        snapshot.scan(0u32.to_be_bytes().to_vec()..1u32.to_be_bytes().to_vec(), ScanOptions::default());
    while let Some(chunk) = scan.next_chunk().await.map_err(shardlake_partition::storage_error)? {
        for (key, value) in chunk {
            match key.get(4) {
                Some(&DATABASE) => stored.databases.push(decode(&value)?),
                Some(&CONTAINER) => stored.containers.push(decode(&value)?),
                Some(&SCRIPT) => add_script(&mut stored.scripts, &key, decode(&value)?)?,
                Some(&OFFER) => stored.offers.push(decode(&value)?),
                Some(&USER) => stored.users.push(decode(&value)?),
                Some(&PERMISSION) => stored.permissions.push(decode(&value)?),
                Some(&MEMBERSHIP) => {}
                Some(&PROJECTION) => stored.projections.push(decode(&value)?),
                Some(&CHECKPOINT) => {
                    let number = number_of(&key, "checkpoint")?;
                    stored.checkpoints.insert(number, decode(&value)?);
                }
                Some(&NUMBERS) => stored.numbers = decode(&value)?,
                Some(&DROPPED) => {
                    let uid = number_of(&key, "dropped mark")?;
                    let shard = decode::<DroppedMark>(&value)?.shard();
                    stored.dropped.push(Placed { shard, uid: PartitionUid(uid) });
                }
                other => {
                    return Err(Error::new(
                        ErrorKind::Corrupt,
                        format!("unknown catalog record kind {other:?}"),
                    ));
                }
            }
        }
    }
    Ok(stored)
}

fn add_script(
    scripts: &mut FxHashMap<ContainerRid, ContainerScripts>,
    key: &[u8],
    script: Script,
) -> Result<()> {
    let malformed =
        || Error::new(ErrorKind::Corrupt, format!("the record of script '{}' is malformed", script.id));
    let (container, number) = parse_script_key(key).ok_or_else(malformed)?;
    if number != script.number {
        return Err(malformed());
    }
    let of_container = &mut scripts.entry(container).or_default().0;
    match of_container.insert((script.kind, script.id.clone()), Arc::new(script)) {
        Some(twin) => {
            Err(Error::new(ErrorKind::Corrupt, format!("there are two scripts '{}' of one kind", twin.id)))
        }
        None => Ok(()),
    }
}

/// The number in a key that has one.
fn number_of(key: &[u8], of: &str) -> Result<u32> {
    let number = key.get(5..9).and_then(|bytes| bytes.try_into().ok()).map(u32::from_be_bytes);
    number.ok_or_else(|| Error::new(ErrorKind::Corrupt, format!("the key of a {of} is malformed")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_records_are_detected() {
        let bytes = encode(&Numbers::default());
        assert!(decode::<Numbers>(&bytes).is_ok());
        for at in 0..bytes.len() {
            let mut broken = bytes.clone();
            broken[at] ^= 1;
            assert!(decode::<Numbers>(&broken).is_err(), "byte {at}");
        }
    }

    #[test]
    fn keys_of_scripts_read_back() {
        let container = ContainerRid { database: DatabaseRid(0x0102_0304), number: 7 };
        let key = script_key(container, 0x00ff_0000_0000_0001);
        assert_eq!(parse_script_key(&key), Some((container, 0x00ff_0000_0000_0001)));
        for size in 0..key.len() {
            assert_eq!(parse_script_key(&key[..size]), None, "{size}");
        }
    }

    #[test]
    fn records_from_before_there_were_several_shards_mean_the_first() {
        let mark = decode::<DroppedMark>(&encode(&"dropped")).expect("an old mark");
        assert_eq!(mark.shard(), 0);
        let mark = decode::<DroppedMark>(&encode(&DroppedMark::On { shard: 7 })).expect("a mark");
        assert_eq!(mark.shard(), 7);
        let range = r#"{"uid":4,"range_id":0,"min":"","max":"FF","rid_prefix":0,"parents":[]}"#;
        let range: RangeRecord = serde_json::from_str(range).expect("an old range");
        assert_eq!(range.placed(), Placed { shard: 0, uid: PartitionUid(4) });
    }
}
