//! A row's id and members.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use shardlake_document::{ItemView, Value, identity_of, partition_key_text};
use shardlake_model::PartitionKey;

use super::types::{DerivedRow, RowError};

/// Bytes of the hash that names an item's rows.
const HASH_BYTES: usize = 16;
/// Member with the id of the source's item.
const SOURCE_ID: &str = "_id";
/// Name of an output `_id`, whose own name is taken.
const OTHER_SOURCE_ID: &str = "$_id";

/// Rows with the results of a definition for an item. `is_numbered`: an item may have several.
pub(super) fn rows_of(
    item: &ItemView<'_>,
    key: &PartitionKey,
    results: Vec<Value>,
    is_numbered: bool,
) -> Result<Vec<DerivedRow>, RowError> {
    // Texts stand for the ids of other kinds that the MongoDB API writes.
    let source_id = identity_of(item.body).ok_or(RowError::NoId)?;
    let hash = hash_of(key, &source_id);
    assert!(is_numbered || results.len() == 1, "an item without arrays has one row");
    let row = |(number, result): (usize, Value)| {
        let id = if is_numbered { format!("{hash}.{number}") } else { hash.clone() };
        let Value::Object(outputs) = result else { unreachable!("definitions have objects as rows") };
        let body = Value::Object(members(&id, &source_id, outputs)).to_body().map_err(RowError::Document)?;
        Ok(DerivedRow { number: number as u32, id, body })
    };
    results.into_iter().enumerate().map(row).collect()
}

/// The same for an item that is deleted and created again, and in every copy of its account.
fn hash_of(key: &PartitionKey, source_id: &str) -> String {
    // The text of a key ends with its last bracket, so no two pairs have the same bytes.
    let hash = Sha256::new().chain_update(partition_key_text(key)).chain_update(source_id).finalize();
    URL_SAFE_NO_PAD.encode(&hash[..HASH_BYTES])
}

/// `id` and `_id` first. Outputs of these names give way, and so does an output `$_id` to the output `_id`.
fn members(id: &str, source_id: &str, outputs: Vec<(String, Value)>) -> Vec<(String, Value)> {
    let text = |text: &str| Value::String(text.to_owned());
    let mut members = vec![("id".to_owned(), text(id)), (SOURCE_ID.to_owned(), text(source_id))];
    let has_other = outputs.iter().any(|(name, _)| name == SOURCE_ID);
    for (name, value) in outputs {
        match name.as_str() {
            "id" => {}
            OTHER_SOURCE_ID if has_other => {}
            SOURCE_ID => members.push((OTHER_SOURCE_ID.to_owned(), value)),
            _ => members.push((name, value)),
        }
    }
    members
}
