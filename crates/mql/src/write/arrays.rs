//! Arrays that an index of a collection refuses: two of them side by side (171), and positions that are also names
//! (16746). Checked before a document is stored and when an index is made. Writes through the REST protocol are
//! checked by unique indexes alone.

use std::sync::Arc;

use shardlake_document::{Misfit, RawDocument, misfit_of};
use shardlake_model::KeyPath;

use super::names::stored_path;
use crate::collation::kept_collation;
use crate::error::{Error, Result, error};
use crate::expression::{Env, Scope};
use crate::filter::Filter;
use crate::value::{Document, Value};

const PARALLEL_ARRAYS: i32 = 171;
const AMBIGUOUS_NAME: i32 = 16746;
/// An array in a plain field of an index that also has a wildcard.
const ARRAY_BESIDE_WILDCARD: i32 = 7_246_301;

/// The indexes that arrays can violate.
#[derive(Debug)]
pub struct ArrayRules(Vec<ArrayRule>);

#[derive(Debug)]
struct ArrayRule {
    /// The index's key.
    key: Arc<Document>,
    /// Stored paths of the key; none for an index with a wildcard.
    paths: Vec<KeyPath>,
    /// Specification of an index over a part of the documents.
    partial: Option<Document>,
}

impl ArrayRules {
    pub fn of(indexes: &[Document]) -> ArrayRules {
        ArrayRules(indexes.iter().filter_map(ArrayRule::of).collect())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Refuses a document that an index cannot take because of its arrays.
    pub fn check(&self, document: &Document, body: RawDocument<'_>) -> Result<()> {
        self.0.iter().try_for_each(|rule| rule.check(document, body))
    }
}

impl ArrayRule {
    fn of(index: &Document) -> Option<ArrayRule> {
        let key = index.get("key").and_then(Value::as_document).filter(|key| may_misfit(key))?;
        let has_wildcard = key.iter().any(|(path, _)| is_wildcard(path));
        let paths = key.iter().map(|(path, _)| KeyPath(stored_path(path)));
        let partial = index.get("partialFilterExpression").and_then(Value::as_document);
        Some(ArrayRule {
            key: key.clone(),
            paths: if has_wildcard { Vec::new() } else { paths.collect() },
            partial: partial.map(|_| index.clone()),
        })
    }

    fn check(&self, document: &Document, body: RawDocument<'_>) -> Result<()> {
        let Some(error) = self.misfit(document, body) else { return Ok(()) };
        let rows = self.partial.as_ref().map(|index| (index, index.value("partialFilterExpression")));
        if let Some((index, Value::Document(rows))) = rows {
            let is_in = Filter::parse(&rows, &Scope::with_collation(kept_collation(index)?))?
                .matches(document, &mut Env::new(0, 0))?;
            if !is_in {
                return Ok(());
            }
        }
        Err(error)
    }

    /// An array next to a wildcard; arrays next to each other, or positions that are also names.
    fn misfit(&self, document: &Document, body: RawDocument<'_>) -> Option<Error> {
        if let Some(path) = paths_beside_wildcard(&self.key).find(|path| has_array(document, path)) {
            return Some(error!(
                ARRAY_BESIDE_WILDCARD,
                "an index with a wildcard and other fields takes no array in '{path}'"
            ));
        }
        let path = |place: usize| self.key.iter().nth(place).map_or("", |(path, _)| path);
        Some(match misfit_of(&self.paths, body)? {
            Misfit::Parallel(one, other) => {
                error!(PARALLEL_ARRAYS, "cannot index parallel arrays [{}] [{}]", path(other), path(one))
            }
            Misfit::Ambiguous(field) => error!(
                AMBIGUOUS_NAME,
                "Ambiguous field name found in array (do not use numeric field names in embedded elements in an array), field: '{}'",
                path(field)
            ),
        })
    }
}

fn is_wildcard(path: &str) -> bool {
    path.contains("$**")
}

/// The plain paths of an index that also has a wildcard: arrays may lie in the fields of the wildcard alone.
fn paths_beside_wildcard(key: &Document) -> impl Iterator<Item = &str> {
    let has_wildcard = key.iter().any(|(path, _)| is_wildcard(path));
    key.iter().map(|(path, _)| &**path).filter(move |path| has_wildcard && !is_wildcard(path))
}

/// Whether an array lies at a path or on the way to it.
fn has_array(document: &Document, path: &str) -> bool {
    let (name, rest) = path.split_once('.').map_or((path, None), |(name, rest)| (name, Some(rest)));
    match (document.get(name), rest) {
        (Some(Value::Array(_)), _) => true,
        (Some(Value::Document(inner)), Some(rest)) => has_array(inner, rest),
        _ => false,
    }
}

/// Whether arrays can violate an index at all: over one plain path they never do.
fn may_misfit(key: &Document) -> bool {
    if paths_beside_wildcard(key).next().is_some() {
        return true;
    }
    let is_ordered = key.iter().all(|(path, kind)| kind.is_number() && !path.contains("$**"));
    let is_position = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    is_ordered && (key.len() > 1 || key.iter().any(|(path, _)| path.split('.').any(is_position)))
}
