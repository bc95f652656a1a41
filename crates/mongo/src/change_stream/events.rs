//! Changes of items as events of a change stream.
//!
//! | the engine's change | the event |
//! |---|---|
//! | a new item | `insert` |
//! | another version, which a client sent whole | `replace` |
//! | another version, from an update or a patch | `update` |
//! | a deletion, or the end of a time to live | `delete` |
//! | another version with the same content | none |

use shardlake_items::VersionChange;
use shardlake_mql::write::document_of;
use shardlake_mql::write::identity_value;
use shardlake_mql::{Document, Value};

use super::difference::Difference;
use super::{BeforeChange, FullDocument, StreamOptions};
use crate::collections::{Collection, Namespace};
use crate::failure::{Failure, Result};

const NO_MATCHING_DOCUMENT: i32 = 47;
/// An increment holds the milliseconds above so many bits of the LSN.
const LSN_BITS: u32 = 22;
const LSN_MASK: u64 = (1 << LSN_BITS) - 1;
const _: () = assert!(999 << LSN_BITS <= u32::MAX as u64, "a millisecond and an LSN fit an increment");

/// The time of a commit as drivers know times: seconds, and an increment that grows within one.
pub fn cluster_time(time_ms: u64, lsn: u64) -> (u32, u32) {
    let seconds = u32::try_from(time_ms / 1000).unwrap_or(u32::MAX);
    (seconds, (((time_ms % 1000) as u32) << LSN_BITS) | (lsn & LSN_MASK) as u32)
}

/// The cluster time now, not before that of any reported event.
pub fn cluster_time_now(time_ms: u64) -> (u32, u32) {
    cluster_time(time_ms, LSN_MASK)
}

/// The cluster time before every commit of this or a later millisecond, for a client that has seen all earlier ones.
pub fn operation_time(time_ms: u64) -> (u32, u32) {
    cluster_time(time_ms, 0)
}

/// The first millisecond that a cluster time names.
pub fn milliseconds_of(seconds: u32, increment: u32) -> u64 {
    u64::from(seconds) * 1000 + u64::from(increment >> LSN_BITS).min(999)
}

/// An event without its lookup of the current document.
pub(super) struct Event {
    pub document: Document,
    /// The document's key, if the event is to show the current document.
    pub lookup: Option<(shardlake_model::PartitionKey, String)>,
}

/// `None` where nothing of the document changed.
pub(super) fn event_of(
    change: &VersionChange,
    (collection, namespace): (&Collection, &Namespace),
    options: &StreamOptions,
) -> Result<Option<Event>> {
    let read = |item: &Option<shardlake_partition::StoredItem>| {
        item.as_ref().map(|item| document_of(item.body().as_bytes())).transpose()
    };
    if let (Some(current), Some(previous)) = (&change.current, &change.previous)
        && current.body().as_bytes() == previous.body().as_bytes()
    {
        return Ok(None);
    }
    let (current, previous) = (read(&change.current)?, read(&change.previous)?);
    let is_altered = change.current.as_ref().is_some_and(|item| item.envelope().is_altered);
    let name = match (&current, &previous) {
        (Some(_), None) => "insert",
        (Some(_), Some(_)) if is_altered => "update",
        (Some(_), Some(_)) => "replace",
        (None, _) => "delete",
    };
    let mut event = begun(name, change.timestamp_ms, change.lsn);
    let mut lookup = None;
    if let Some(current) = &current {
        match (name, options.full_document) {
            ("insert" | "replace", _) => event.push("fullDocument", Value::document(current.clone())),
            (_, FullDocument::Default) => {}
            (_, FullDocument::UpdateLookup) => {
                lookup = Some((change.partition_key.clone(), change.id.clone()));
            }
            (_, mode) => {
                let image = keeps_images(collection).then_some(current);
                let image = shown_image(image, mode == FullDocument::Required, "post-image")?;
                event.push("fullDocument", image);
            }
        }
    }
    event.push("ns", Value::document(namespace_document(namespace)));
    let key_of = current.as_ref().or(previous.as_ref());
    let key = match key_of {
        Some(document) => collection.shard_key().document_key(document),
        None => Document::one("_id", identity_value(&change.id)),
    };
    event.push("documentKey", Value::document(key));
    if let (Some(old), Some(new), "update") = (&previous, &current, name) {
        let description = Difference::of(old, new).description();
        event.push("updateDescription", Value::document(description));
    }
    if options.before != BeforeChange::Off && name != "insert" {
        let image = previous.as_ref().filter(|_| keeps_images(collection));
        let image = shown_image(image, options.before == BeforeChange::Required, "pre-image")?;
        event.push("fullDocumentBeforeChange", image);
    }
    Ok(Some(Event { document: event, lookup }))
}

fn keeps_images(collection: &Collection) -> bool {
    let images = collection.meta.options.get("changeStreamPreAndPostImages").and_then(Value::as_document);
    images.is_some_and(|images| crate::meta::flag(images, "enabled"))
}

fn shown_image(image: Option<&Document>, is_required: bool, name: &str) -> Result<Value> {
    match image {
        Some(image) => Ok(Value::document(image.clone())),
        None if is_required => Err(Failure::new(
            NO_MATCHING_DOCUMENT,
            format!(
                "Change stream was configured to require a {name} for all update, delete and replace events, but the {name} was not found for an event: the collection keeps them with changeStreamPreAndPostImages: {{enabled: true}}"
            ),
        )),
        None => Ok(Value::Null),
    }
}

/// An event about a collection or a database as a whole.
pub(super) fn catalog_event(name: &str, time_ms: u64, namespace: Option<&Namespace>) -> Document {
    let mut event = begun(name, time_ms, 0);
    if let Some(namespace) = namespace {
        event.push("ns", Value::document(namespace_document(namespace)));
    }
    event
}

pub(super) fn namespace_document(namespace: &Namespace) -> Document {
    let mut document = Document::one("db", &*namespace.database);
    if !namespace.collection.is_empty() {
        document.push("coll", Value::String(namespace.collection.clone()));
    }
    document
}

fn begun(name: &str, time_ms: u64, lsn: u64) -> Document {
    let mut event = Document::one("operationType", name);
    let (seconds, increment) = cluster_time(time_ms, lsn);
    event.push("clusterTime", Value::Timestamp(seconds, increment));
    event.push("wallTime", Value::Date(time_ms as i64));
    event
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_commits_grow_and_name_their_millisecond() {
        let times = [(999, 5), (1000, 1), (1000, 2), (1001, 3), (1999, 4_000_000), (2000, 4_000_001)];
        let told: Vec<(u32, u32)> = times.iter().map(|(ms, lsn)| cluster_time(*ms, *lsn)).collect();
        assert!(told.is_sorted_by(|left, right| left < right), "{told:?}");
        for ((ms, _), (seconds, increment)) in times.into_iter().zip(told) {
            assert_eq!(milliseconds_of(seconds, increment), ms);
            assert!(cluster_time_now(ms) >= (seconds, increment));
            assert!(operation_time(ms) < (seconds, increment));
            assert_eq!(operation_time(ms), cluster_time(milliseconds_of(seconds, increment), 0));
        }
    }
}
