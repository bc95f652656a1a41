//! Updates: one pure step from a document to its next version (spec §14).
//!
//! | file | purpose |
//! |---|---|
//! | `parse.rs` | documents and pipelines to updates |
//! | `target.rs` | paths with positional parts |
//! | `tree.rs` | the tree of all paths of an update, and its walk over a document |
//! | `modifier.rs`, `change.rs` | the change that an operator makes to one value |
//! | `push.rs` | `$push`, `$addToSet`, `$pull`, `$pullAll`, `$pop` |
//! | `upsert.rs` | the document that an upsert starts from |

mod change;
mod modifier;
mod parse;
mod push;
mod target;
mod tree;
mod upsert;

use crate::error::{Result, fail};
use crate::expression::{Env, Scope};
use crate::filter::Matched;
use crate::order;
use crate::pipeline::{Collections, Context, Pipeline};
use crate::value::{Document, Str, Value};
use parse::UpdateKind;
use tree::Walk;

pub use upsert::upsert_base;

/// A document may have so many bytes after an update.
const SIZE_MAX: usize = 16 * 1024 * 1024;

/// A parsed update.
#[derive(Debug)]
pub struct Update(UpdateKind);

/// The next version of a document.
#[derive(Debug)]
pub struct Updated {
    pub document: Document,
    /// Whether it differs from the one before.
    pub modified: bool,
}

struct NoCollections;

impl Collections for NoCollections {
    fn documents(&self, _: Option<&str>, _: &str) -> Result<Vec<Value>> {
        Ok(Vec::new())
    }
}

impl Update {
    /// Parses a document of operators, a replacement, or a pipeline.
    pub fn parse(update: &Value, array_filters: &[Value], scope: &Scope) -> Result<Update> {
        parse::parse(update, array_filters, scope).map(Update)
    }

    pub fn is_replacement(&self) -> bool {
        matches!(self.0, UpdateKind::Replacement(_))
    }

    pub fn is_pipeline(&self) -> bool {
        matches!(self.0, UpdateKind::Pipeline(_))
    }

    /// Applies the update. `matched` holds the element of the positional `$`; `inserts` is true for the document of an
    /// upsert.
    pub fn apply(&self, old: &Document, matched: Matched, inserts: bool, env: &mut Env) -> Result<Updated> {
        let document = match &self.0 {
            UpdateKind::Operators(fields, filters) => {
                Walk { old, filters, matched, inserts, env }.document(fields)?
            }
            UpdateKind::Replacement(replacement) => {
                let mut document = replacement.clone();
                if let (None, Some(id)) = (document.get("_id"), old.get("_id")) {
                    document.push_front("_id", id.clone());
                }
                document
            }
            UpdateKind::Pipeline(pipeline) => apply_pipeline(pipeline, old, env)?,
        };
        let document = id_first(document);
        check_id(old, &document, inserts)?;
        if document.size() > SIZE_MAX {
            fail!(10334, "the document would be larger than {SIZE_MAX} bytes");
        }
        // A replacement without an identity differs from every document, as MongoDB compares them.
        let modified = match &self.0 {
            UpdateKind::Replacement(replacement) => !order::identical_documents(old, replacement),
            _ => !order::identical_documents(old, &document),
        };
        Ok(Updated { document, modified })
    }
}

fn into_document(value: Value) -> Document {
    match value {
        Value::Document(document) => std::sync::Arc::unwrap_or_clone(document),
        _ => Document::new(),
    }
}

fn apply_pipeline(pipeline: &Pipeline, old: &Document, env: &mut Env) -> Result<Document> {
    let mut context = Context {
        env: env.clone(),
        collections: &NoCollections,
        indexes: Vec::new(),
        memory_bytes_max: usize::MAX,
    };
    let input = std::iter::once(Ok(Value::document(old.clone())));
    let result = pipeline.run(input, &mut context)?.pop();
    let mut document = into_document(result.unwrap_or_default());
    // A pipeline that drops the identity gets it back.
    if let (None, Some(id)) = (document.get("_id"), old.get("_id")) {
        document.push_front("_id", id.clone());
    }
    Ok(document)
}

/// The identity stands first.
fn id_first(mut document: Document) -> Document {
    let is_first = document.first().is_none_or(|(name, _)| &**name == "_id");
    if !is_first && let Some(id) = document.remove("_id") {
        document.push_front(Str::from("_id"), id);
    }
    document
}

fn check_id(old: &Document, new: &Document, inserts: bool) -> Result<()> {
    match (old.get("_id"), new.get("_id")) {
        (Some(before), Some(after)) if order::equal(before, after) => Ok(()),
        (Some(_), _) => {
            fail!(66, "Performing an update on the path '_id' would modify the immutable field '_id'")
        }
        (None, Some(_)) if !inserts && !old.is_empty() => {
            fail!(66, "Performing an update on the path '_id' would modify the immutable field '_id'")
        }
        _ => Ok(()),
    }
}
