//! Differences between an index and its definition, as they are reported.

use shardlake_document::{partition_key_text, write_json, write_json_string};
use shardlake_partition::{LogicalKey, StoredItem};

use crate::at_work::IndexAtWork;
use crate::verification::{Difference, DifferenceKind};

pub(super) fn note(at: &IndexAtWork<'_>, difference: Difference) {
    tracing::warn!(index = at.entry.number, ?difference, "a row of an index is not that of its definition");
    at.entry.change_verification(|report| report.note(difference));
}

pub(super) fn difference(
    kind: DifferenceKind,
    item: String,
    (key, row): (&LogicalKey, &str),
    (expected, found): (Option<String>, Option<String>),
) -> Difference {
    let key = partition_key_text(&key.partition_key);
    Difference { kind, item, key, row: row.to_owned(), expected, found }
}

/// A row that should have another id.
pub(super) fn wrong_name(key: &LogicalKey, id: &str, wanted: &str, found: String) -> Difference {
    let expected = Some(json_text(wanted));
    difference(DifferenceKind::WrongName, String::new(), (key, id), (expected, Some(found)))
}

pub(super) fn item_of(row: &StoredItem) -> String {
    match row.body().get("_id") {
        Some(shardlake_document::RawValue::String(id)) => id.to_string(),
        _ => String::new(),
    }
}

fn json_text(text: &str) -> String {
    let mut out = Vec::new();
    write_json_string(text, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

/// A row as JSON, without system properties.
pub(super) fn text_of(row: &StoredItem) -> String {
    let mut text = Vec::new();
    write_json(row.body(), &mut text);
    String::from_utf8_lossy(&text).into_owned()
}
