//! Storage form of the records, and loading them all.
//!
//! They are stored under partition 0 of shard 0, one record per resource, each `crc32 u32 | JSON`:
//!
//! ```text
//! 0u32 | 'D' | database rid u32             → Database
//! 0u32 | 'C' | database u32 | container u32 → ContainerRecord
//! 0u32 | 'J' | database u32 | container u32 | number u64 → Script: a stored procedure, trigger or user-defined function
//! 0u32 | 'O' | offer rid u32                → Offer
//! 0u32 | 'U' | database u32 | user u32      → User
//! 0u32 | 'P' | database u32 | user u32 | permission u64 → Permission
//! 0u32 | 'L' | login u32                    → Login
//! 0u32 | 'X' | partition uid u32            → DroppedMark: its data is still to be deleted
//! 0u32 | 'N'                                → Numbers: the next numbers to hand out, and the catalog's version
//! 0u32 | 'F' | projection u32               → ProjectionRecord: a rule
//! 0u32 | 'K' | number of the copy u32       → Checkpoint: how far it has come
//! 0u32 | 'H' | database u32 | container u32 | kind u32 | number u32 → LogHold: how far back the log is kept for a follower
//! 0u32 | 'A' | database u32 | container u32 → AnalyticalRecord: its analytical store
//! 0u32 | 'Y' | database u32 | container u32 → SecondaryIndexRecord: the index that the container is
//! 0u32 | 'G' | function u32                 → FunctionRecord: code over changes
//! 0u32 | 'E' | version u64 | database u32 | container u32 → EndedContainer
//! 0u32 | 'S'                                → which shard of which account this is; the only record that other shards
//!                                             have, too (account/membership.rs)
//! 0u32 | 'T'                                → the stamp of the last group of commits, where the log is kept (storage/src/history);
//!                                             no record: storage writes it, on every shard
//! ```
//!
//! A key is made of the record and compared with the one it was found under, so that no record passes for another.

use serde::Serialize;
use serde::de::DeserializeOwned;
use shardlake_model::{
    ContainerRid, Database, DatabaseRid, Login, Offer, OfferRid, PartitionUid, Permission, PermissionRid,
    Script, User, UserRid,
};
use shardlake_storage::{ScanOptions, Shard, View};

use crate::{
    AnalyticalRecord, CatalogError, Checkpoint, ContainerRecord, Definitions, DroppedMark, EndedContainer,
    FunctionRecord, Holder, LogHold, ProjectionRecord, SecondaryIndexRecord,
};

const DATABASE: u8 = b'D';
const CONTAINER: u8 = b'C';
const SCRIPT: u8 = b'J';
const OFFER: u8 = b'O';
const USER: u8 = b'U';
const PERMISSION: u8 = b'P';
const LOGIN: u8 = b'L';
const DROPPED: u8 = b'X';
const NUMBERS: u8 = b'N';
const PROJECTION: u8 = b'F';
const CHECKPOINT: u8 = b'K';
const ANALYTICAL: u8 = b'A';
const SECONDARY_INDEX: u8 = b'Y';
const FUNCTION: u8 = b'G';
const ENDED: u8 = b'E';
const LOG_HOLD: u8 = b'H';
pub const MEMBERSHIP: u8 = b'S';
const STAMP: u8 = b'T';

/// Where each shard has the stamp of its log.
pub fn stamp_key() -> Vec<u8> {
    key(STAMP, &[])
}

/// The key of a record: its kind and its numbers.
pub fn key(kind: u8, numbers: &[u32]) -> Vec<u8> {
    let mut key = vec![0, 0, 0, 0, kind];
    numbers.iter().for_each(|number| key.extend_from_slice(&number.to_be_bytes()));
    key
}

fn with_u64(mut key: Vec<u8>, number: u64) -> Vec<u8> {
    key.extend_from_slice(&number.to_be_bytes());
    key
}

pub(crate) fn database_key(rid: DatabaseRid) -> Vec<u8> {
    key(DATABASE, &[rid.0])
}

pub(crate) fn container_key(rid: ContainerRid) -> Vec<u8> {
    key(CONTAINER, &[rid.database.0, rid.number])
}

pub(crate) fn script_key((container, number): (ContainerRid, u64)) -> Vec<u8> {
    with_u64(key(SCRIPT, &[container.database.0, container.number]), number)
}

pub(crate) fn offer_key(rid: OfferRid) -> Vec<u8> {
    key(OFFER, &[rid.0])
}

pub(crate) fn user_key(rid: UserRid) -> Vec<u8> {
    key(USER, &[rid.database.0, rid.number])
}

pub(crate) fn permission_key(rid: PermissionRid) -> Vec<u8> {
    with_u64(key(PERMISSION, &[rid.user.database.0, rid.user.number]), rid.number)
}

pub(crate) fn login_key(number: u32) -> Vec<u8> {
    key(LOGIN, &[number])
}

pub(crate) fn dropped_key(uid: PartitionUid) -> Vec<u8> {
    key(DROPPED, &[uid.0])
}

pub(crate) fn projection_key(number: u32) -> Vec<u8> {
    key(PROJECTION, &[number])
}

pub(crate) fn checkpoint_key(number: u32) -> Vec<u8> {
    key(CHECKPOINT, &[number])
}

pub(crate) fn analytical_key(rid: ContainerRid) -> Vec<u8> {
    key(ANALYTICAL, &[rid.database.0, rid.number])
}

pub(crate) fn secondary_index_key(rid: ContainerRid) -> Vec<u8> {
    key(SECONDARY_INDEX, &[rid.database.0, rid.number])
}

pub(crate) fn function_key(number: u32) -> Vec<u8> {
    key(FUNCTION, &[number])
}

pub(crate) fn ended_key((version, rid): (u64, ContainerRid)) -> Vec<u8> {
    let mut key = with_u64(key(ENDED, &[]), version);
    key.extend_from_slice(&rid.database.0.to_be_bytes());
    key.extend_from_slice(&rid.number.to_be_bytes());
    key
}

pub(crate) fn log_hold_key((container, holder): (ContainerRid, Holder)) -> Vec<u8> {
    let [kind, number] = holder.numbers();
    key(LOG_HOLD, &[container.database.0, container.number, kind, number])
}

pub(crate) fn numbers_key() -> Vec<u8> {
    key(NUMBERS, &[])
}

pub fn encode<T: Serialize>(record: &T) -> Vec<u8> {
    let json = serde_json::to_vec(record).expect("catalog records are plain data");
    let mut bytes = crc32fast::hash(&json).to_le_bytes().to_vec();
    bytes.extend_from_slice(&json);
    bytes
}

pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, CatalogError> {
    let corrupt = |what: &str| CatalogError::corrupt(format!("a record {what}"));
    let (checksum, json) =
        bytes.split_first_chunk::<4>().ok_or_else(|| corrupt("is shorter than its checksum"))?;
    if crc32fast::hash(json) != u32::from_le_bytes(*checksum) {
        return Err(corrupt("does not match its checksum"));
    }
    serde_json::from_slice(json).map_err(|error| corrupt(&format!("is malformed: {error}")))
}

/// Reads every record. Whether they fit together is for [`crate::broken`].
pub async fn load(shard: &Shard) -> Result<Definitions, CatalogError> {
    load_view(&shard.view()).await
}

/// Loads the definitions of one point in time.
pub async fn load_view(view: &View) -> Result<Definitions, CatalogError> {
    let mut definitions = Definitions::default();
    let catalog = 0u32.to_be_bytes().to_vec()..1u32.to_be_bytes().to_vec();
    let mut scan = view.scan(catalog, ScanOptions::default());
    while let Some(chunk) = scan.next_chunk().await? {
        for (key, value) in chunk {
            add(&mut definitions, &key, &value)?;
        }
    }
    Ok(definitions)
}

fn add(definitions: &mut Definitions, key: &[u8], value: &[u8]) -> Result<(), CatalogError> {
    let own_key = match key.get(4) {
        Some(&DATABASE) => {
            let database: Database = decode(value)?;
            let rid = database.rid;
            definitions.databases.put(rid, database);
            database_key(rid)
        }
        Some(&CONTAINER) => {
            let record: ContainerRecord = decode(value)?;
            let rid = record.container.rid;
            definitions.containers.put(rid, record);
            container_key(rid)
        }
        Some(&SCRIPT) => {
            let script: Script = decode(value)?;
            let owner = parse_container(key).ok_or_else(|| {
                CatalogError::corrupt(format!("the key of script '{}' is malformed", script.id))
            })?;
            let key = (owner, script.number);
            definitions.scripts.put(key, script);
            script_key(key)
        }
        Some(&OFFER) => {
            let offer: Offer = decode(value)?;
            let rid = offer.rid;
            definitions.offers.put(rid, offer);
            offer_key(rid)
        }
        Some(&USER) => {
            let user: User = decode(value)?;
            let rid = user.rid;
            definitions.users.put(rid, user);
            user_key(rid)
        }
        Some(&PERMISSION) => {
            let permission: Permission = decode(value)?;
            let rid = permission.rid;
            definitions.permissions.put(rid, permission);
            permission_key(rid)
        }
        Some(&LOGIN) => {
            let login: Login = decode(value)?;
            let number = login.number;
            definitions.logins.put(number, login);
            login_key(number)
        }
        Some(&PROJECTION) => {
            let record: ProjectionRecord = decode(value)?;
            let number = record.number;
            definitions.projections.put(number, record);
            projection_key(number)
        }
        Some(&CHECKPOINT) => {
            let number = number_of(key, "checkpoint")?;
            definitions.checkpoints.put(number, decode::<Checkpoint>(value)?);
            checkpoint_key(number)
        }
        Some(&DROPPED) => {
            let uid = PartitionUid(number_of(key, "dropped mark")?);
            definitions.dropped.put(uid, decode::<DroppedMark>(value)?);
            dropped_key(uid)
        }
        Some(&ANALYTICAL) => add_analytical(definitions, key, value)?,
        Some(&SECONDARY_INDEX) => add_secondary_index(definitions, key, value)?,
        Some(&FUNCTION) => add_function(definitions, value)?,
        Some(&ENDED) => add_ended(definitions, value)?,
        Some(&LOG_HOLD) => add_log_hold(definitions, value)?,
        Some(&NUMBERS) => {
            definitions.numbers = decode(value)?;
            numbers_key()
        }
        Some(&MEMBERSHIP) => self::key(MEMBERSHIP, &[]),
        Some(&STAMP) => stamp_key(),
        other => return Err(CatalogError::corrupt(format!("there is a record of unknown kind {other:?}"))),
    };
    if own_key != key {
        return Err(CatalogError::corrupt(format!("a record lies under the key {key:?} of another")));
    }
    Ok(())
}

fn add_analytical(definitions: &mut Definitions, key: &[u8], value: &[u8]) -> Result<Vec<u8>, CatalogError> {
    let owner = parse_container(key)
        .ok_or_else(|| CatalogError::corrupt("the key of an analytical store is malformed"))?;
    definitions.analytical.put(owner, decode::<AnalyticalRecord>(value)?);
    Ok(analytical_key(owner))
}

fn add_secondary_index(
    definitions: &mut Definitions,
    key: &[u8],
    value: &[u8],
) -> Result<Vec<u8>, CatalogError> {
    let container = parse_container(key)
        .ok_or_else(|| CatalogError::corrupt("the key of a global secondary index is malformed"))?;
    definitions.secondary_indexes.put(container, decode::<SecondaryIndexRecord>(value)?);
    Ok(secondary_index_key(container))
}

fn add_function(definitions: &mut Definitions, value: &[u8]) -> Result<Vec<u8>, CatalogError> {
    let record: FunctionRecord = decode(value)?;
    let number = record.number;
    definitions.functions.put(number, record);
    Ok(function_key(number))
}

fn add_log_hold(definitions: &mut Definitions, value: &[u8]) -> Result<Vec<u8>, CatalogError> {
    let hold: LogHold = decode(value)?;
    let key = (hold.container, hold.holder);
    definitions.log_holds.put(key, hold);
    Ok(log_hold_key(key))
}

fn add_ended(definitions: &mut Definitions, value: &[u8]) -> Result<Vec<u8>, CatalogError> {
    let ended: EndedContainer = decode(value)?;
    let key = (ended.version, ended.rid);
    definitions.ended.put(key, ended);
    Ok(ended_key(key))
}

/// The container that a key names, of a script, an analytical store or an index.
fn parse_container(key: &[u8]) -> Option<ContainerRid> {
    let (database, rest) = key.get(5..)?.split_first_chunk()?;
    let (number, _) = rest.split_first_chunk()?;
    let database = DatabaseRid(u32::from_be_bytes(*database));
    Some(ContainerRid { database, number: u32::from_be_bytes(*number) })
}

/// The number in a key that has one.
fn number_of(key: &[u8], of: &str) -> Result<u32, CatalogError> {
    let number = key.get(5..9).and_then(|bytes| bytes.try_into().ok()).map(u32::from_be_bytes);
    number.ok_or_else(|| CatalogError::corrupt(format!("the key of a {of} is malformed")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Numbers, Placed, RangeRecord};

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
        assert_eq!(parse_container(&script_key((container, 0x00ff_0000_0000_0001))), Some(container));
        assert_eq!(parse_container(&container_key(container)[..9]), None);
    }

    #[test]
    fn record_under_the_key_of_another_is_refused() {
        let user = |number| UserRid { database: DatabaseRid(1), number };
        let record = User { id: "u".into(), rid: user(1), etag: [0; 16], timestamp: 0 };
        let mut definitions = Definitions::default();
        add(&mut definitions, &user_key(user(1)), &encode(&record)).expect("its own key");
        assert!(add(&mut definitions, &user_key(user(2)), &encode(&record)).is_err());
        assert!(add(&mut definitions, &with_u64(user_key(user(1)), 0), &encode(&record)).is_err());
        assert!(add(&mut definitions, &key(b'?', &[1]), &encode(&record)).is_err());
    }

    #[test]
    fn holds_of_followers_read_back_under_keys_of_their_own() {
        let container = ContainerRid { database: DatabaseRid(1), number: 2 };
        let holders = [
            Holder::Projection(7),
            Holder::Copy(7),
            Holder::Analytics(7),
            Holder::Rekey(7),
            Holder::Region(7),
            Holder::Region(8),
        ];
        let keys: std::collections::BTreeSet<_> =
            holders.iter().map(|holder| log_hold_key((container, *holder))).collect();
        assert_eq!(keys.len(), holders.len(), "each has one");
        let mut definitions = Definitions::default();
        for holder in holders {
            let place = crate::PlaceRecord { min: "".into(), max: "FF".into(), after: 42 };
            let hold = LogHold::new(container, holder, vec![place], 1_700_000_000_000);
            add(&mut definitions, &log_hold_key((container, holder)), &encode(&hold)).expect("its own key");
            assert_eq!(**definitions.log_holds.get(&(container, holder)).expect("there"), hold);
            assert!(
                add(&mut definitions, &log_hold_key((container, Holder::Copy(9))), &encode(&hold)).is_err()
            );
        }
        let stored = r#"{"container":{"database":1,"number":2},"holder":{"Analytics":3},"position":[],"moved_ms":5,"bound":{"entries":6,"age_ms":7},"state":"Lost"}"#;
        let hold: LogHold = serde_json::from_str(stored).expect("the stored form stays");
        assert_eq!((hold.holder, hold.state), (Holder::Analytics(3), crate::HoldState::Lost));
        assert!(hold.holder.needs_expired() && !Holder::Projection(3).needs_expired());
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
