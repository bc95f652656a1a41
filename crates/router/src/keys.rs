//! Resolves a partition key, of the request or of the item's body, to its logical partition and to the physical partition that
//! stores it.

use std::borrow::Cow;

use shardlake_document::RawValue;
use shardlake_model::{
    Error, ErrorKind, KeyComponent, KeyKind, PartitionKey, PartitionKeyDefinition, ReplyMeta, Result,
};
use shardlake_partition::{LogicalKey, PreparedBody, extract_partition_key};
use shardlake_routing::{effective_partition_key, prefix_range};

use crate::container_handle::{ContainerEntry, ContainerHandle};
use crate::handle::PartitionHandle;

/// A partition key that may be a prefix of a hierarchical one. Keys of one component may be empty: containers that were migrated
/// from unpartitioned ones hold items without a key.
pub fn checked_key<'k>(entry: &ContainerEntry, key: &'k PartitionKey) -> Result<Cow<'k, PartitionKey>> {
    let (actual, expected) = (key.0.len(), entry.shape.key_paths.len());
    let may_be_empty = entry.record.container.definition.partition_key.kind != KeyKind::MultiHash;
    if actual == 0 && may_be_empty {
        return Ok(Cow::Owned(PartitionKey(vec![KeyComponent::Undefined; expected])));
    }
    if actual == 0 || actual > expected {
        return Err(key_misfit(&format!(
            "it has {actual} components, but the container's partition key has {expected}"
        )));
    }
    check_size(entry, key)?;
    Ok(Cow::Borrowed(key))
}

/// A key that the container cannot have.
pub fn key_misfit(why: &dyn std::fmt::Display) -> Error {
    Error::bad_request(format!(
        "Partition key provided either doesn't correspond to definition in the collection or doesn't match partition key field values specified in the document: {why}"
    ))
}

fn check_size(entry: &ContainerEntry, key: &PartitionKey) -> Result<()> {
    let limits = &entry.shape.limits;
    let max = match entry.record.container.definition.partition_key.version() {
        1 => limits.partition_key_bytes_max_v1,
        _ => limits.partition_key_bytes_max,
    };
    let length = |component: &KeyComponent| match component {
        KeyComponent::String(text) => text.len(),
        _ => 0,
    };
    if key.0.iter().map(length).sum::<usize>() > max {
        return Err(Error::bad_request(format!("the partition key value is longer than {max} bytes")));
    }
    Ok(())
}

fn is_full(entry: &ContainerEntry, key: &PartitionKey) -> bool {
    key.0.len() == entry.shape.key_paths.len()
}

/// The logical partition that a read or delete addresses.
pub fn key_of_read(container: &ContainerHandle, key: Option<&PartitionKey>) -> Result<LogicalKey> {
    own_key_of_read(container, key.cloned())
}

/// As [`key_of_read`], without a copy.
pub fn own_key_of_read(container: &ContainerHandle, key: Option<PartitionKey>) -> Result<LogicalKey> {
    let entry = &container.entry;
    let key =
        key.ok_or_else(|| Error::bad_request("PartitionKey value must be supplied for this operation"))?;
    let completed = match checked_key(entry, &key)? {
        Cow::Owned(completed) => Some(completed),
        Cow::Borrowed(_) => None,
    };
    let key = completed.unwrap_or(key);
    if !is_full(entry, &key) {
        return Err(Error::new(
            ErrorKind::PartitionKeyMismatch,
            format!(
                "Partition key provided either doesn't correspond to definition in the collection or doesn't match partition key field values specified in the document: this operation needs all {} components, not {}",
                entry.shape.key_paths.len(),
                key.0.len()
            ),
        ));
    }
    Ok(logical(entry, key))
}

/// The logical partition that a body belongs to, which the request, if it names one, must name too.
pub fn key_of_write(
    container: &ContainerHandle,
    named: Option<&PartitionKey>,
    item: &PreparedBody,
) -> Result<LogicalKey> {
    let entry = &container.entry;
    let in_body = body_key(entry, item)?;
    if let Some(named) = named
        && !checked_key(entry, named)?.same(&in_body)
    {
        return Err(mismatch());
    }
    Ok(logical(entry, in_body))
}

/// A body that belongs to another logical partition than the request names.
pub fn mismatch() -> Error {
    Error::new(
        ErrorKind::PartitionKeyMismatch,
        "PartitionKey extracted from document doesn't match the one specified in the header",
    )
}

/// The key that a client's body carries.
pub fn body_key(entry: &ContainerEntry, item: &PreparedBody) -> Result<PartitionKey> {
    let paths = &entry.shape.key_paths;
    for path in paths.iter().filter(|path| !path.is_id()) {
        let as_key = match item.body.raw().get_path(&path.0) {
            Some(RawValue::Int(number)) => KeyComponent::integer(number),
            Some(RawValue::Double(number)) => KeyComponent::double(number),
            _ => continue,
        };
        as_key.map_err(|error| {
            Error::bad_request(format!("the partition key value at '/{}' is {error}", path.0.join("/")))
        })?;
    }
    let key = extract_partition_key(item.body.raw(), paths);
    check_size(entry, &key)?;
    Ok(key)
}

pub fn logical(entry: &ContainerEntry, partition_key: PartitionKey) -> LogicalKey {
    debug_assert!(is_full(entry, &partition_key), "the place of an item depends on all levels of its key");
    logical_of(&entry.record.container.definition.partition_key, partition_key)
}

/// The logical partition of a key with all its levels.
pub(crate) fn logical_of(definition: &PartitionKeyDefinition, partition_key: PartitionKey) -> LogicalKey {
    let epk = effective_partition_key(definition, &partition_key);
    LogicalKey { epk, partition_key }
}

pub fn partition_of<'a>(entry: &'a ContainerEntry, logical: &LogicalKey) -> &'a PartitionHandle {
    entry.map.lookup(&logical.epk)
}

impl ContainerHandle {
    /// Whether a partition key, or a prefix of one, lies within another key or prefix.
    pub fn key_is_within(&self, key: &PartitionKey, bound: &PartitionKey) -> Result<bool> {
        let (key, bound) = (checked_key(&self.entry, key)?, checked_key(&self.entry, bound)?);
        Ok(key.0.len() >= bound.0.len() && bound.0.iter().zip(&key.0).all(|(a, b)| a.same(b)))
    }

    /// The position of a key's partition; `None` for a prefix of a key, which may lie in several partitions.
    pub fn position_of_key(&self, key: &PartitionKey) -> Result<Option<ReplyMeta>> {
        let entry = &self.entry;
        let key = checked_key(entry, key)?;
        if !is_full(entry, &key) {
            return Ok(None);
        }
        let epk = effective_partition_key(&entry.record.container.definition.partition_key, &key);
        Ok(Some(entry.map.lookup(&epk).meta(0, 0)))
    }

    /// The physical partitions of the keys with a prefix, with their storage shards.
    pub fn partitions_of(&self, prefix: &PartitionKey) -> Vec<(u32, u16)> {
        let record = &self.entry.record;
        let span = prefix_range(&record.container.definition.partition_key, prefix);
        let partitions = self.entry.map.overlapping(&span).map(|partition| partition.range_id());
        let shard =
            |id: u32| record.ranges.iter().find(|range| range.range_id == id).map(|range| range.shard);
        partitions.filter_map(|id| Some((id, shard(id)?))).collect()
    }

    /// Whether the client named the container by its rid. The names of resources in it are then rids, too.
    pub fn is_by_rid(&self) -> bool {
        self.by_rid
    }
}
