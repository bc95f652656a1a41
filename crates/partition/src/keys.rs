//! Where things lie in a shard's ordered keyspace.
//!
//! ```text
//! partition u32 | space u8 | …
//!   I  items       epk | partition key | id            → record
//!   L  change log  lsn u64                             → log entry
//!   O  ordinals    ordinal u64                         → item key without its header
//!   N  creation    epk | partition key | ordinal u64   → id; without all of them: every item has its row (feed/created/)
//!   S  sizes       epk | partition key                 → items u64 | JSON bytes u64 of the logical partition (sizes/)
//!   X  postings    index id u16 | path hash u64 | index value | ordinal u64 → nothing (index/keys.rs)
//!   C  counters    index id u16 | path hash u64       → items u64 (index/keys.rs)
//!   M  markers     index id u16                        → how far a generation is built (index/keys.rs)
//!   V  versions    item key without its header | lsn u64 → record of the version that was written then and has ended
//!   F  log marks   nothing                             → how much of the past the log still has (log/marks.rs)
//!   R  relocation  nothing                             → how far it is, while the partition is the target of one
//!   E  expiry      due seconds u64 | item key without its header → nothing; without both: the queue is whole (expire/due_items.rs)
//!   U  unique keys policy index u8 | epk | partition key | values… → id of the holder
//!   P  progress    function u32 | span of its source    → LSNs up to which its writes here are durable (functions/progress.rs)
//! ```
//! The last partition number belongs to no partition: the rows under it are the shard's
//! (statements.rs). Numbers are big-endian, so that byte order is the order wanted. The epk and
//! strings are escaped (`00` → `00 FF`) and end in `00 01`, which keeps their order and makes no
//! key a prefix of another. Partition 0 is the catalog's.

use shardlake_collation::Collation;
use shardlake_document::{BsonKind, ItemId, RawValue, encode_ordered_raw, hash_text, hash_text_by};
pub use shardlake_model::PartitionUid;
use shardlake_model::{KeyComponent, PartitionKey, Result};
use shardlake_routing::{Epk, KeyRange};
use shardlake_storage::{ScanOptions, Snapshot};
use xxhash_rust::xxh3::xxh3_128;

use crate::statements::NO_PARTITION;
use shardlake_routing::LogicalKey;

pub(crate) const ITEMS: u8 = b'I';
pub(crate) const CHANGE_LOG: u8 = b'L';
pub(crate) const UNIQUE_KEYS: u8 = b'U';
pub(crate) const ORDINALS: u8 = b'O';
pub(crate) const SIZES: u8 = b'S';
/// The items of each logical partition in the order of their creation.
pub(crate) const CREATED: u8 = b'N';
/// When items run out that have a time to live of their own.
pub(crate) const EXPIRY: u8 = b'E';

/// The index: postings, counters of paths, and how far a generation is built.
pub(crate) const POSTINGS: u8 = b'X';
pub(crate) const COUNTERS: u8 = b'C';
pub(crate) const MARKERS: u8 = b'M';

/// Versions of items that have ended, where the container keeps them.
pub(crate) const VERSIONS: u8 = b'V';

/// Whether a key is only ever read as one of a range: postings, the change log, the order of creation, and rows of no partition. An engine that knows so needs no filter over them.
pub fn is_scanned(key: &[u8]) -> bool {
    let (uid, rest) = key.split_at(key.len().min(HEADER - 1));
    let is_ranged =
        uid != CATALOG && rest.first().is_some_and(|space| [POSTINGS, CHANGE_LOG, CREATED].contains(space));
    is_ranged || uid == NO_PARTITION.0.to_be_bytes()
}

/// How far functions on the change feed have come.
pub(crate) const PROGRESS: u8 = b'P';

const CATALOG: [u8; HEADER - 1] = [0; HEADER - 1];
const RELOCATION: u8 = b'R';
const LOG_MARKS: u8 = b'F';

/// Bytes before the part of a key that does not name the partition.
pub(crate) const HEADER: usize = 5;

pub(crate) fn header(uid: PartitionUid, space: u8, capacity: usize) -> Vec<u8> {
    let mut key = Vec::with_capacity(HEADER + capacity);
    key.extend_from_slice(&uid.0.to_be_bytes());
    key.push(space);
    key
}

pub(crate) fn item_key(uid: PartitionUid, logical: &LogicalKey, id: &str) -> Vec<u8> {
    let mut key = header(uid, ITEMS, 48 + id.len());
    push_logical(&mut key, logical);
    key.extend_from_slice(id.as_bytes());
    key
}

/// Every item of a logical partition starts with this.
pub(crate) fn logical_prefix(uid: PartitionUid, logical: &LogicalKey) -> Vec<u8> {
    logical_prefix_in(uid, ITEMS, logical)
}

/// Prefix of a logical partition in a space whose keys lead with the partition key.
pub(crate) fn logical_prefix_in(uid: PartitionUid, space: u8, logical: &LogicalKey) -> Vec<u8> {
    let mut key = header(uid, space, 48);
    push_logical(&mut key, logical);
    key
}

/// Where the size of a logical partition lies.
pub(crate) fn size_key(uid: PartitionUid, logical: &LogicalKey) -> Vec<u8> {
    logical_prefix_in(uid, SIZES, logical)
}

pub(crate) fn log_key(uid: PartitionUid, lsn: u64) -> Vec<u8> {
    let mut key = header(uid, CHANGE_LOG, 8);
    key.extend_from_slice(&lsn.to_be_bytes());
    key
}

pub(crate) fn ordinal_key(uid: PartitionUid, ordinal: u64) -> Vec<u8> {
    let mut key = header(uid, ORDINALS, 8);
    key.extend_from_slice(&ordinal.to_be_bytes());
    key
}

/// Where an item stands in the order of creation. `logical` is the part of its key that names the logical partition.
pub(crate) fn created_key(uid: PartitionUid, logical: &[u8], ordinal: u64) -> Vec<u8> {
    let mut key = header(uid, CREATED, logical.len() + 8);
    key.extend_from_slice(logical);
    key.extend_from_slice(&ordinal.to_be_bytes());
    key
}

/// Key of the mark that every item has its place in the order of creation.
pub(crate) fn created_mark_key(uid: PartitionUid) -> Vec<u8> {
    header(uid, CREATED, 0)
}

/// The logical part and the ordinal of such a key without its header.
pub(crate) fn parse_created_key(key: &[u8]) -> Option<(&[u8], u64)> {
    let (logical, ordinal) = key.split_last_chunk()?;
    Some((logical, u64::from_be_bytes(*ordinal)))
}

pub(crate) fn log_marks_key(uid: PartitionUid) -> Vec<u8> {
    header(uid, LOG_MARKS, 0)
}

/// Where the version of an item that was written by a commit lies once it has ended.
pub(crate) fn version_key(uid: PartitionUid, item: &[u8], lsn: u64) -> Vec<u8> {
    let mut key = header(uid, VERSIONS, item.len() + 8);
    key.extend_from_slice(item);
    key.extend_from_slice(&lsn.to_be_bytes());
    key
}

/// Where the end of an item with a time to live of its own is queued.
pub(crate) fn expiry_key(uid: PartitionUid, due_seconds: u64, item: &[u8]) -> Vec<u8> {
    let mut key = header(uid, EXPIRY, 8 + item.len());
    key.extend_from_slice(&due_seconds.to_be_bytes());
    key.extend_from_slice(item);
    key
}

/// When an item runs out, and its key without header, from such a key without its header.
pub(crate) fn parse_expiry_key(key: &[u8]) -> Option<(u64, &[u8])> {
    let (due, item) = key.split_first_chunk()?;
    Some((u64::from_be_bytes(*due), item))
}

/// Key of the mark that every item with a time to live of its own is in the queue.
pub(crate) fn expiry_mark_key(uid: PartitionUid) -> Vec<u8> {
    header(uid, EXPIRY, 0)
}

pub(crate) fn relocation_key(uid: PartitionUid) -> Vec<u8> {
    header(uid, RELOCATION, 0)
}

/// The least item key, without header, that lies above a range; `None` when nothing does.
pub(crate) fn item_key_bound(range: &KeyRange) -> Option<Vec<u8>> {
    let mut bound = Vec::new();
    (!range.is_unbounded_above()).then(|| {
        push_escaped(&mut bound, &range.max.0);
        bound
    })
}

/// The least item key, without header, that lies in a range.
pub(crate) fn item_key_bound_below(range: &KeyRange) -> Vec<u8> {
    let mut bound = Vec::new();
    push_escaped(&mut bound, &range.min.0);
    bound
}

/// The least item key after one given without its header.
pub(crate) fn after_item(uid: PartitionUid, item: &[u8]) -> Vec<u8> {
    let mut key = header(uid, ITEMS, item.len() + 1);
    key.extend_from_slice(item);
    key.push(0);
    key
}

/// The partition that a key belongs to.
pub(crate) fn uid_of(key: &[u8]) -> PartitionUid {
    PartitionUid(key.first_chunk().map_or(0, |uid| u32::from_be_bytes(*uid)))
}

/// Whether a row is read through the row cache: items, and the rows that name them by their
/// ordinals.
pub(crate) fn is_read_hot(key: &[u8]) -> bool {
    matches!(key.get(HEADER - 1), Some(&ITEMS | &ORDINALS))
}

/// Length of the common prefix of keys that are scanned together: partition and space, and for
/// postings generation and path.
pub(crate) fn family_length(key: &[u8]) -> usize {
    if key.get(HEADER - 1) == Some(&POSTINGS) { HEADER + size_of::<u16>() + size_of::<u64>() } else { HEADER }
}

/// Whether an open transaction that has written a row keeps it from other writers.
pub(crate) fn is_claimed(key: &[u8]) -> bool {
    matches!(key.get(HEADER - 1), Some(&ITEMS | &UNIQUE_KEYS))
}

/// Whether a key is that of a unique value.
pub(crate) fn is_unique_key(key: &[u8]) -> bool {
    key.get(HEADER - 1) == Some(&UNIQUE_KEYS)
}

/// Whether a key is that of an ordinal.
pub(crate) fn is_ordinal(key: &[u8]) -> bool {
    key.get(HEADER - 1) == Some(&ORDINALS)
}

/// The ordinal in such a key.
pub(crate) fn ordinal_of(key: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(key.get(HEADER..)?.try_into().ok()?))
}

/// Whether a key is that of an item.
pub(crate) fn is_item(key: &[u8]) -> bool {
    key.get(HEADER - 1) == Some(&ITEMS)
}

/// A key of a space from the part behind its header.
pub(crate) fn with_header(uid: PartitionUid, space: u8, rest: &[u8]) -> Vec<u8> {
    let mut key = header(uid, space, rest.len());
    key.extend_from_slice(rest);
    key
}

/// The LSN in a change-log key.
pub(crate) fn log_lsn(key: &[u8]) -> Result<u64> {
    let bytes = key.get(HEADER..).and_then(|rest| rest.try_into().ok()).ok_or_else(crate::malformed_key)?;
    Ok(u64::from_be_bytes(bytes))
}

/// The last commit that a snapshot shows of a partition; 0 where there was none.
pub(crate) async fn last_log_lsn(snapshot: &Snapshot, uid: PartitionUid) -> Result<u64> {
    let (start, end) = space_range(uid, CHANGE_LOG);
    let mut scan =
        snapshot.scan(start..end, ScanOptions { reverse: true, limit: Some(1), ..ScanOptions::default() });
    let last = scan.next_chunk().await.map_err(crate::storage_error)?.into_iter().flatten().next();
    last.map_or(Ok(0), |(key, _)| log_lsn(&key))
}

/// The least key greater than every key with this prefix.
pub(crate) fn after_prefix(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < 0xFF {
            end.push(last + 1);
            return end;
        }
    }
    unreachable!("a prefix starts with a partition number, which is not all ones")
}

/// The values of one unique key in one logical partition. Long ones are there by their hash: an item's values may be longer than
/// any key.
pub(crate) fn unique_key(
    uid: PartitionUid,
    slot: UniqueSlot,
    logical: &LogicalKey,
    (values, collation): (&[Option<RawValue>], &Collation),
) -> Vec<u8> {
    let mut key = header(uid, UNIQUE_KEYS, 64);
    match slot {
        UniqueSlot::Place(place) => {
            assert!(place < HASHED_SLOT, "a container has fewer unique keys by place");
            key.push(place);
        }
        UniqueSlot::Hash(hash) => {
            key.push(HASHED_SLOT);
            key.extend_from_slice(&hash.to_be_bytes());
        }
    }
    push_logical(&mut key, logical);
    let owner_end = key.len();
    for value in values {
        push_unique_value(*value, matches!(slot, UniqueSlot::Hash(_)).then_some(collation), &mut key);
    }
    if key.len() - owner_end > UNIQUE_VALUES_BYTES_MAX {
        let hash = xxh3_128(&key[owner_end..]);
        key.truncate(owner_end);
        key.push(HASHED);
        key.extend_from_slice(&hash.to_be_bytes());
    }
    key
}

/// Which unique key of its container a row is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UniqueSlot {
    /// Its place in a policy that never changes.
    Place(u8),
    /// A hash of its paths, where unique keys come and go.
    Hash(u32),
}

/// The part behind the slot in the key of a unique value, without its header: the logical partition
/// and the values.
pub(crate) fn after_unique_slot(rest: &[u8]) -> Option<(u32, &[u8])> {
    let (first, after) = rest.split_first()?;
    if *first != HASHED_SLOT {
        return Some((u32::from(*first), after));
    }
    let (hash, after) = after.split_first_chunk()?;
    Some((u32::from_be_bytes(*hash), after))
}

/// Begins the slots that are hashes; a container has fewer unique keys by place.
const HASHED_SLOT: u8 = 0x80;

/// Missing values, and arrays and objects, which have no order, count as null. In collections of
/// documents they count as themselves, undefined counts as null, and strings within them are
/// compared by a collation. Values that JSON lacks are distinguished by their text as an identity,
/// or by a hash.
fn push_unique_value(value: Option<RawValue<'_>>, of_documents: Option<&Collation>, key: &mut Vec<u8>) {
    let by_collation = |value: RawValue<'_>| {
        of_documents.map(|collation| hash_text_by(value, &|text| collation.sort_key(text)))
    };
    let text = match value {
        Some(value @ RawValue::NonJson(other)) => {
            let is_regex = of_documents.is_some() && other.kind() == Some(BsonKind::Regex);
            ItemId::of_value(value).map(ItemId::into_string).or_else(|| is_regex.then(|| hash_text(value)))
        }
        Some(value @ (RawValue::Object(_) | RawValue::Array(_))) => by_collation(value),
        None => None,
        Some(scalar) => {
            return encode_ordered_raw(scalar, key).expect("scalars have an ordered encoding");
        }
    };
    // Numbers of different types are equal by value.
    let number = text.as_deref().and_then(|text| text.strip_prefix("$num:"));
    let number = number.and_then(|digits| {
        let whole = digits.parse().map(RawValue::Int).ok();
        whole.or_else(|| digits.parse().ok().filter(|number: &f64| number.is_finite()).map(RawValue::Double))
    });
    match (number, text) {
        (Some(number), _) => encode_ordered_raw(number, key).expect("numbers have an ordered encoding"),
        (None, Some(text)) => {
            key.push(TYPED_VALUE);
            key.extend_from_slice(text.as_bytes());
            key.push(0);
        }
        (None, None) => encode_ordered_raw(RawValue::Null, key).expect("null has an ordered encoding"),
    }
}

/// Begins no encoding of a value.
const TYPED_VALUE: u8 = 0xFE;

/// Longer values of a unique key are hashed.
const UNIQUE_VALUES_BYTES_MAX: usize = 2048;
/// Begins no encoding of a value.
const HASHED: u8 = 0xFF;

/// First and last-exclusive key of a whole space of a partition.
pub(crate) fn space_range(uid: PartitionUid, space: u8) -> (Vec<u8>, Vec<u8>) {
    (header(uid, space, 0), header(uid, space + 1, 0))
}

/// First and last-exclusive key of everything a partition stores.
pub fn partition_range(uid: PartitionUid) -> (Vec<u8>, Vec<u8>) {
    (uid.0.to_be_bytes().to_vec(), (uid.0 + 1).to_be_bytes().to_vec())
}

/// First and last-exclusive key of an epk range in a space whose keys lead with the epk.
pub(crate) fn epk_range_in(uid: PartitionUid, space: u8, range: &KeyRange) -> (Vec<u8>, Vec<u8>) {
    let mut start = header(uid, space, 20);
    push_escaped(&mut start, &range.min.0);
    let end = if range.is_unbounded_above() {
        header(uid, space + 1, 0)
    } else {
        let mut end = header(uid, space, 20);
        push_escaped(&mut end, &range.max.0);
        end
    };
    (start, end)
}

fn push_logical(key: &mut Vec<u8>, logical: &LogicalKey) {
    push_terminated(key, &logical.epk.0);
    key.push(logical.partition_key.0.len() as u8);
    for component in &logical.partition_key.0 {
        push_component(key, component);
    }
}

fn push_component(key: &mut Vec<u8>, component: &KeyComponent) {
    match component {
        KeyComponent::Undefined => key.push(0),
        KeyComponent::Null => key.push(1),
        KeyComponent::Bool(false) => key.push(2),
        KeyComponent::Bool(true) => key.push(3),
        KeyComponent::Number(number) => {
            key.push(5);
            key.extend_from_slice(&number.to_bits().to_be_bytes());
        }
        KeyComponent::String(text) => {
            key.push(8);
            push_terminated(key, text.as_bytes());
        }
    }
}

fn push_escaped(key: &mut Vec<u8>, bytes: &[u8]) {
    for byte in bytes {
        key.push(*byte);
        if *byte == 0 {
            key.push(0xFF);
        }
    }
}

fn push_terminated(key: &mut Vec<u8>, bytes: &[u8]) {
    push_escaped(key, bytes);
    key.extend_from_slice(&[0, 1]);
}

/// Policy index and logical partition of a unique key without its header.
pub(crate) fn parse_unique_key(key: &[u8]) -> Option<(u32, LogicalKey)> {
    let (slot, mut rest) = after_unique_slot(key)?;
    Some((slot, read_logical(&mut rest)?))
}

/// The parts of an item key without its header; `None` when it is malformed.
pub(crate) fn parse_item_key(key: &[u8]) -> Option<(LogicalKey, &str)> {
    let mut rest = key;
    let logical = read_logical(&mut rest)?;
    Some((logical, std::str::from_utf8(rest).ok()?))
}

/// The logical partition of a size's key without its header; `None` when it is malformed.
pub(crate) fn parse_size_key(key: &[u8]) -> Option<LogicalKey> {
    let mut rest = key;
    let logical = read_logical(&mut rest)?;
    rest.is_empty().then_some(logical)
}

/// The part of an item key without its header that names the logical partition.
pub(crate) fn logical_part(item: &[u8]) -> Option<&[u8]> {
    let mut rest = skip_terminated(item)?;
    let (count, after) = rest.split_first()?;
    rest = after;
    for _ in 0..*count {
        let (tag, after) = rest.split_first()?;
        rest = match tag {
            0..=3 => after,
            5 => after.get(8..)?,
            8 => skip_terminated(after)?,
            _ => return None,
        };
    }
    Some(&item[..item.len() - rest.len()])
}

/// The part behind a text and its terminator.
fn skip_terminated(bytes: &[u8]) -> Option<&[u8]> {
    let mut rest = bytes;
    loop {
        let zero = rest.iter().position(|byte| *byte == 0)?;
        let (escape, after) = rest[zero + 1..].split_first()?;
        match escape {
            0xFF => rest = after,
            1 => return Some(after),
            _ => return None,
        }
    }
}

fn read_logical(rest: &mut &[u8]) -> Option<LogicalKey> {
    let epk = Epk::from(read_terminated(rest)?);
    let (count, after) = rest.split_first()?;
    *rest = after;
    let mut components = Vec::with_capacity(usize::from(*count));
    for _ in 0..*count {
        components.push(read_component(rest)?);
    }
    Some(LogicalKey { epk, partition_key: PartitionKey(components) })
}

fn read_component(rest: &mut &[u8]) -> Option<KeyComponent> {
    let (tag, after) = rest.split_first()?;
    *rest = after;
    Some(match tag {
        0 => KeyComponent::Undefined,
        1 => KeyComponent::Null,
        2 => KeyComponent::Bool(false),
        3 => KeyComponent::Bool(true),
        5 => {
            let (bits, after) = rest.split_at_checked(8)?;
            *rest = after;
            KeyComponent::Number(f64::from_bits(u64::from_be_bytes(bits.try_into().ok()?)))
        }
        8 => KeyComponent::String(String::from_utf8(read_terminated(rest)?).ok()?),
        _ => return None,
    })
}

fn read_terminated(rest: &mut &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    loop {
        match rest {
            [0, 0xFF, after @ ..] => {
                bytes.push(0);
                *rest = after;
            }
            [0, 1, after @ ..] => {
                *rest = after;
                return Some(bytes);
            }
            [0, ..] | [] => return None,
            [byte, after @ ..] => {
                bytes.push(*byte);
                *rest = after;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::index_prefix;
    use proptest::prelude::*;

    #[test]
    fn storage_tells_postings_from_other_rows() {
        let uid = PartitionUid(7);
        let posting = [index_prefix(uid, 3, 9), b"value".to_vec(), 1_u64.to_be_bytes().to_vec()].concat();
        assert_eq!(shardlake_storage::posting_path_bytes(&posting), Some(family_length(&posting)));
        let logical = LogicalKey { epk: Epk::from(vec![b'X'; 20]), partition_key: PartitionKey(Vec::new()) };
        for other in [item_key(uid, &logical, "id"), log_key(uid, 1), ordinal_key(uid, 1)] {
            assert_eq!(shardlake_storage::posting_path_bytes(&other), None);
        }
    }

    fn component() -> impl Strategy<Value = KeyComponent> {
        prop_oneof![
            Just(KeyComponent::Undefined),
            Just(KeyComponent::Null),
            any::<bool>().prop_map(KeyComponent::Bool),
            (-1e9f64..1e9).prop_map(KeyComponent::Number),
            ".{0,12}".prop_map(KeyComponent::String),
        ]
    }

    proptest! {
        #[test]
        fn item_keys_survive_and_keep_epk_order(
            epks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..6), 2),
            components in prop::collection::vec(component(), 1..4),
            id in ".{1,20}",
        ) {
            let key_of = |epk: &Vec<u8>| {
                let logical = LogicalKey { epk: Epk::from(epk.clone()), partition_key: PartitionKey(components.clone()) };
                item_key(PartitionUid(7), &logical, &id)
            };
            let keys: Vec<_> = epks.iter().map(key_of).collect();
            prop_assert_eq!(epks[0].cmp(&epks[1]), keys[0].cmp(&keys[1]));
            let (logical, parsed_id) = parse_item_key(&keys[0][HEADER..]).expect("well-formed");
            prop_assert_eq!(&logical.epk.0[..], &epks[0][..]);
            prop_assert_eq!(logical.partition_key.0, components);
            prop_assert_eq!(parsed_id, &id);
            let part = logical_part(&keys[0][HEADER..]).expect("well-formed");
            prop_assert_eq!(part.len() + id.len() + HEADER, keys[0].len());
        }

        #[test]
        fn malformed_keys_are_refused_not_fatal(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            prop_assert!(parse_item_key(&bytes).is_none() || logical_part(&bytes).is_some());
        }
    }
}
