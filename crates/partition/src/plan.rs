//! Effect of an operation on an item, computed from the existing item: pure, so that it can be
//! tested without storage.

use std::sync::Arc;

use shardlake_document::{
    Envelope, PatchOperation, RawValue, Value, apply_patch, with_non_json, write_value,
};
use shardlake_model::{Error, ErrorKind, Preconditions, Result};
use shardlake_stdx::Guid;

use crate::cpu_pool::HEAVY_BYTES;
use crate::item::{StoredItem, rendered_size};
use crate::operation::{CommandContext, ItemReply, MembersText, Outcome, PreparedBody};
use crate::origin::Origin;
use crate::shape::ContainerSchema;

pub(crate) const NOT_FOUND: &str = "Entity with the specified id does not exist in the system. More info: https://aka.ms/cosmosdb-tsg-not-found";
pub(crate) const CONFLICT: &str = "Entity with the specified id already exists in the system. More info: https://aka.ms/cosmosdb-tsg-conflict";
pub(crate) const PRECONDITION: &str = "Operation cannot be performed because one of the specified precondition is not met. More info: https://aka.ms/CosmosDB/sql/errors/precondition-failed";

pub(crate) fn not_found() -> Error {
    Error::new(ErrorKind::NotFound, NOT_FOUND)
}

pub(crate) fn conflict() -> Error {
    Error::new(ErrorKind::Conflict, CONFLICT)
}

/// The state a new version gets from the command and the partition rather than from its body.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stamp {
    pub lsn: u64,
    pub timestamp_seconds: u64,
    pub etag: Guid,
    pub ordinal: u64,
}

/// Refuses a write whose condition on the existing item does not hold.
pub(crate) fn check_write(existing: &StoredItem, preconditions: &Preconditions) -> Result<()> {
    let etag = existing.etag();
    let matches = preconditions.if_match.as_ref().is_none_or(|condition| condition.matches(&etag));
    let excluded = preconditions.if_none_match.as_ref().is_some_and(|condition| condition.matches(&etag));
    if matches && !excluded { Ok(()) } else { Err(Error::new(ErrorKind::PreconditionFailed, PRECONDITION)) }
}

/// Whether a read may be answered with "not modified".
pub(crate) fn is_unmodified(existing: &StoredItem, preconditions: &Preconditions) -> bool {
    preconditions.if_none_match.as_ref().is_some_and(|condition| condition.matches(&existing.etag()))
}

/// The answer to a read of an existing item; the caller sets `lsn` of its meta.
pub(crate) fn read_reply(
    origin: Origin,
    shape: &ContainerSchema,
    command: &CommandContext,
    item: StoredItem,
    preconditions: &Preconditions,
) -> Result<ItemReply> {
    if is_unmodified(&item, preconditions) {
        let meta = origin.meta(shape.charges.not_modified().0, item.lsn());
        return Ok(ItemReply::of(Outcome::NotModified, Some(item), meta));
    }
    if let Some(condition) = &preconditions.if_match
        && !condition.matches(&item.etag())
    {
        let meta = origin.meta(shape.charges.not_found().0, item.lsn());
        return Err(Error::new(ErrorKind::PreconditionFailed, PRECONDITION).with_meta(meta));
    }
    let charge = shape.charges.read(item.json_size_bytes(), command.consistency);
    let meta = origin.meta(charge.0, item.lsn());
    Ok(ItemReply::of(Outcome::Read, Some(item), meta))
}

/// The new version of an item with a given body.
pub(crate) fn new_version(item: &PreparedBody, stamp: Stamp, shape: &Arc<ContainerSchema>) -> StoredItem {
    let json_size_bytes = rendered_size(item.members.size_bytes, shape, stamp.timestamp_seconds);
    let envelope = Envelope {
        lsn: stamp.lsn,
        timestamp_seconds: stamp.timestamp_seconds,
        etag: stamp.etag,
        ordinal: stamp.ordinal,
        ttl_seconds: item.ttl_seconds,
        json_size_bytes: json_size_bytes as u32,
        is_altered: item.is_altered,
    };
    StoredItem::new(envelope, item.body.raw(), shape).with(item.members.text.clone(), item.terms.clone())
}

/// The body after a patch, checked like a body that a client sends.
pub(crate) fn patched_body(
    existing: &StoredItem,
    id: &str,
    operations: &[PatchOperation],
    shape: &ContainerSchema,
) -> Result<PreparedBody> {
    let body =
        apply_patch(existing.body(), operations).map_err(|error| Error::bad_request(error.to_string()))?;
    // The values of a patch are JSON, like an item that is sent whole.
    let body = if shape.is_collection { with_non_json(body) } else { body };
    let members = MembersText::of(body.raw(), shape);
    check_size(members.size_bytes, shape)?;
    let ttl_seconds = ttl_of(body.raw().get("ttl"))?;
    let item = PreparedBody::new(id.to_owned(), body, members, ttl_seconds, shape)?;
    Ok(PreparedBody { is_altered: true, ..item })
}

/// Whether the values of a patch are too large for a thread that answers requests.
pub(crate) fn is_heavy_patch(operation: &PatchOperation) -> bool {
    match operation {
        PatchOperation::Add { value, .. }
        | PatchOperation::Set { value, .. }
        | PatchOperation::Replace { value, .. } => size_of(value) > HEAVY_BYTES,
        PatchOperation::Remove { .. } | PatchOperation::Increment { .. } | PatchOperation::Move { .. } => {
            false
        }
    }
}

/// About the bytes that a value takes.
fn size_of(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(elements) => elements.iter().map(|element| 4 + size_of(element)).sum(),
        Value::Object(members) => members.iter().map(|(name, value)| 4 + name.len() + size_of(value)).sum(),
        _ => 8,
    }
}

pub(crate) fn check_size(members: usize, shape: &ContainerSchema) -> Result<()> {
    if members + 2 > shape.limits.item_size_bytes_max {
        return Err(Error::new(
            ErrorKind::TooLarge,
            format!(
                "Request size is too large: an item takes at most {} bytes of JSON",
                shape.limits.item_size_bytes_max
            ),
        ));
    }
    Ok(())
}

/// The documents of a collection come as BSON, so the size of the BSON counts, also over the other
/// API.
pub(crate) fn check_collection_size(body_bytes: usize, shape: &ContainerSchema) -> Result<()> {
    let max = shape.limits.collection_item_size_bytes_max;
    if body_bytes > max {
        let message = format!("a document takes at most {max} bytes of BSON in storage");
        return Err(Error::new(ErrorKind::TooLarge, message));
    }
    Ok(())
}

/// An item's own time to live: absent, -1, or a positive 32-bit number of seconds.
pub(crate) fn ttl_of(value: Option<RawValue<'_>>) -> Result<Option<i32>> {
    let Some(value) = value else { return Ok(None) };
    let seconds = match value {
        RawValue::Int(seconds) => Some(seconds),
        RawValue::Double(seconds) if seconds.fract() == 0.0 && seconds.abs() < 1e15 => Some(seconds as i64),
        _ => None,
    };
    match seconds {
        Some(-1) => Ok(Some(-1)),
        Some(seconds @ 1..=2_147_483_647) => Ok(Some(seconds as i32)),
        _ => Err(Error::bad_request(format!(
            "The input ttl '{}' is invalid. Ensure to provide a nonzero positive integer less than or equal to '2147483647', or '-1' which means never expire.",
            shown(value)
        ))),
    }
}

/// A value in a sentence: JSON text, cut off where it is long.
fn shown(value: RawValue<'_>) -> String {
    const CHARACTERS_MAX: usize = 64;
    let mut json = Vec::new();
    match value {
        RawValue::Array(_) => json.extend_from_slice(b"[...]"),
        RawValue::Object(_) => json.extend_from_slice(b"{...}"),
        value => write_value(value, &mut json),
    }
    String::from_utf8_lossy(&json).chars().take(CHARACTERS_MAX).collect()
}
