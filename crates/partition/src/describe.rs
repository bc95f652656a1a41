//! Descriptions of stored rows, for tests that show the rows of a commit.

use shardlake_document::{RawDocument, Record, decode_ordered, write_members};
use shardlake_model::{KeyComponent, PartitionUid};
use shardlake_routing::LogicalKey;

use crate::functions;
use crate::index::{BuildMarker, decode_counter, parse_posting};
use crate::keys::{
    self, CHANGE_LOG, COUNTERS, CREATED, EXPIRY, HEADER, ITEMS, MARKERS, ORDINALS, POSTINGS, PROGRESS, SIZES,
    UNIQUE_KEYS, VERSIONS, parse_item_key, parse_size_key, parse_unique_key,
};
use crate::log::entries::logged;
use crate::log::entry::ChangeKind;
use crate::sizes::LogicalSize;

/// The partition that a row belongs to; `None` for a key that no partition wrote.
pub fn owner_of_row(key: &[u8]) -> Option<PartitionUid> {
    key.first_chunk().map(|uid| PartitionUid(u32::from_be_bytes(*uid)))
}

/// Describes a row; without its value where it is deleted. `path_name` knows some paths of the
/// index by their hash.
pub fn describe_row(key: &[u8], value: Option<&[u8]>, path_name: &dyn Fn(u64) -> Option<String>) -> String {
    described(key, value, path_name)
        .unwrap_or_else(|| format!("space {:?}: {} bytes", char::from(key[4]), key.len()))
}

fn described(key: &[u8], value: Option<&[u8]>, path_name: &dyn Fn(u64) -> Option<String>) -> Option<String> {
    let (space, rest) = (*key.get(HEADER - 1)?, key.get(HEADER..)?);
    if space == PROGRESS {
        return functions::described(key, value);
    }
    let name = |hash: u64| path_name(hash).unwrap_or_else(|| format!("path {hash:016x}"));
    let what = match space {
        ITEMS => format!("item {}", item_name(rest)?),
        VERSIONS => {
            let (item, lsn) = rest.split_last_chunk()?;
            format!("version {} of LSN {}", item_name(item)?, u64::from_be_bytes(*lsn))
        }
        ORDINALS => format!("ordinal {}", ordinal(u64::from_be_bytes(rest.try_into().ok()?))),
        CREATED if rest.is_empty() => "every item is in the order of creation".to_owned(),
        CREATED => {
            let (logical, of) = keys::parse_created_key(rest)?;
            format!("creation of {} in {}", ordinal(of), key_name(&parse_size_key(logical)?))
        }
        EXPIRY => match keys::parse_expiry_key(rest) {
            Some((_, item)) => format!("end of {}", item_name(item)?),
            None => "ends are queued".to_owned(),
        },
        SIZES => format!("size of {}", key_name(&parse_size_key(rest)?)),
        CHANGE_LOG => format!("log entry {}", keys::log_lsn(key).ok()?),
        UNIQUE_KEYS => {
            let (index, logical) = parse_unique_key(rest)?;
            format!("unique key {index} in {}", key_name(&logical))
        }
        POSTINGS => {
            let (generation, term, of) = parse_posting(key)?;
            let (hash, term) = term.split_first_chunk()?;
            let path = name(u64::from_be_bytes(*hash));
            format!("posting {generation}: {path} = {} of {}", index_value(term), ordinal(of))
        }
        COUNTERS => {
            let (generation, hash) = rest.split_first_chunk()?;
            let hash = name(u64::from_be_bytes(hash.try_into().ok()?));
            format!("counter {}: {hash}", u16::from_be_bytes(*generation))
        }
        MARKERS => format!("build marker {}", u16::from_be_bytes(rest.try_into().ok()?)),
        _ => return None,
    };
    let Some(value) = value else { return Some(what) };
    let content = match space {
        ITEMS | VERSIONS => record_words(value)?,
        ORDINALS => item_name(value)?,
        CREATED if !rest.is_empty() => format!("{:?}", String::from_utf8_lossy(value)),
        SIZES => {
            let size = LogicalSize::decode(value).ok()?;
            format!("{} items, {} bytes", size.items, size.size_bytes)
        }
        CHANGE_LOG => entry_words(key, value)?,
        UNIQUE_KEYS => format!("held by {:?}", String::from_utf8_lossy(value)),
        COUNTERS => format!("{} items", decode_counter(value).ok()?),
        MARKERS => format!("{} items", BuildMarker::decode(value).ok()?.items),
        _ => return Some(what),
    };
    Some(format!("{what}: {content}"))
}

fn record_words(value: &[u8]) -> Option<String> {
    let record = Record::decode(value).ok()?;
    let envelope = record.envelope;
    let ttl = envelope.ttl_seconds.map_or_else(String::new, |ttl| format!(", ttl {ttl}"));
    let (lsn, of, size) = (envelope.lsn, ordinal(envelope.ordinal), envelope.json_size_bytes);
    Some(format!("LSN {lsn}, {of}, {size} bytes{ttl}, {{{}}}", members(record.body)))
}

fn entry_words(key: &[u8], value: &[u8]) -> Option<String> {
    let (_, entry) = logged(key, value).ok()?;
    let counters = entry.counters;
    let mut words = format!(
        "{} items, {} bytes, next ordinal {}",
        counters.items, counters.size_bytes, counters.next_ordinal
    );
    for operation in &entry.operations {
        let kind = match operation.kind {
            ChangeKind::Create => "create",
            ChangeKind::Replace => "replace",
            ChangeKind::Delete => "delete",
            ChangeKind::Expire => "expire",
        };
        let (of, item) = (ordinal(operation.ordinal), item_name(&operation.key)?);
        let ended = operation.ended_ordinal.map(|ended| format!(" of {}", ordinal(ended)));
        let ended = ended.unwrap_or_default();
        words.push_str(&format!("; {kind} {item} ({of}, after LSN {}{ended})", operation.previous_lsn));
    }
    Some(words)
}

/// Counted from the first one of the partition.
fn ordinal(ordinal: u64) -> String {
    format!("#{}", ordinal & ((1 << 40) - 1))
}

fn members(body: RawDocument<'_>) -> String {
    let mut text = Vec::new();
    write_members(body, &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

fn item_name(key: &[u8]) -> Option<String> {
    let (logical, id) = parse_item_key(key)?;
    Some(format!("{}/{id:?}", key_name(&logical)))
}

fn key_name(logical: &LogicalKey) -> String {
    let component = |component: &KeyComponent| match component {
        KeyComponent::Undefined => "undefined".to_owned(),
        KeyComponent::Null => "null".to_owned(),
        KeyComponent::Bool(value) => value.to_string(),
        KeyComponent::Number(number) => number.to_string(),
        KeyComponent::String(text) => format!("{text:?}"),
    };
    let components: Vec<String> = logical.partition_key.0.iter().map(component).collect();
    format!("[{}]", components.join(","))
}

/// A value where it is one, else its bytes: those of a composite index are several, some in reverse.
fn index_value(term: &[u8]) -> String {
    match decode_ordered(term) {
        Ok((value, [])) => format!("{value:?}"),
        _ => term.iter().map(|byte| format!("{byte:02x}")).collect(),
    }
}
