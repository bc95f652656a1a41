//! Duplicate key errors, in the form that applications parse (spec mongo.md §7).

use shardlake_model::Error;
use shardlake_mql::write::document_of;
use shardlake_mql::write::stored_path;
use shardlake_mql::{Document, Value};

use crate::collections::Collection;
use crate::failure::Failure;

/// Error 11000 for a conflict that the engine found; `body` is the refused item.
pub(crate) fn duplicate(collection: &Collection, error: &Error, body: Option<&[u8]>) -> Failure {
    let document = body.and_then(|body| document_of(body).ok()).unwrap_or_default();
    duplicate_of(collection, error, &document)
}

pub(crate) fn duplicate_of(collection: &Collection, error: &Error, document: &Document) -> Failure {
    let of_unique_index = || {
        let violated = error.message().split_once("has the same ")?.1;
        collection.meta.indexes.iter().find(|index| {
            let Some(Value::Document(key)) = index.get("key") else { return false };
            let paths = key.iter().map(|(name, _)| format!("/{}", stored_path(name).join("/")));
            paths.collect::<Vec<_>>().join(", ") == violated
        })
    };
    let (name, pattern) = match of_unique_index() {
        Some(index) => {
            let key = index.get("key").and_then(Value::as_document).map(|key| Document::clone(key));
            (index.value("name"), key.unwrap_or_default())
        }
        None => (Value::string("_id_"), Document::one("_id", Value::Int(1))),
    };
    let value_of = |path: &str| {
        let mut value = Value::document(document.clone());
        for part in path.split('.') {
            value = value.as_document().map(|inner| inner.value(part)).unwrap_or_default();
        }
        value.or_null()
    };
    let values: Document = pattern.iter().map(|(path, _)| (path.clone(), value_of(path))).collect();
    let name = name.as_str().unwrap_or("_id_").to_owned();
    let shown = Value::document(values.clone());
    let words = format!(
        "E11000 duplicate key error collection: {} index: {name} dup key: {shown}",
        collection.namespace
    );
    Failure::new(11000, words).with("keyPattern", pattern).with("keyValue", values)
}
