//! Arrays that an index of a collection refuses: two of them side by side (171), and positions that are also names
//! (16746). Checked before a document is stored and when an index is made. Writes through the REST protocol are
//! checked by unique indexes alone.

use shardlake_document::RawDocument;
use shardlake_model::KeyPath;
use shardlake_mql::{Document, Filter, Scope, Value};
use shardlake_partition::{Misfit, misfit_of};

use crate::collation::kept_collation;
use crate::collections::{Collection, Collections};
use crate::failure::{Failure, Result};
use crate::meta::Meta;
use crate::names::stored_path;
use crate::reads::Scan;
use crate::request::Request;
use crate::stored::body_of;

const PARALLEL_ARRAYS: i32 = 171;
const AMBIGUOUS_NAME: i32 = 16746;
/// An array in a plain field of an index that also has a wildcard.
const ARRAY_BESIDE_WILDCARD: i32 = 7_246_301;

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

fn check_one(index: &Document, document: &Document, body: RawDocument<'_>) -> Result<()> {
    let Some(key) = index.get("key").and_then(Value::as_document).filter(|key| may_misfit(key)) else {
        return Ok(());
    };
    let failure = if let Some(path) = paths_beside_wildcard(key).find(|path| has_array(document, path)) {
        Failure::new(
            ARRAY_BESIDE_WILDCARD,
            format!("an index with a wildcard and other fields takes no array in '{path}'"),
        )
    } else if key.iter().any(|(path, _)| is_wildcard(path)) {
        return Ok(());
    } else {
        match misfit(key, body) {
            Some(failure) => failure,
            None => return Ok(()),
        }
    };
    if let Some(rows) = index.get("partialFilterExpression").and_then(Value::as_document) {
        let is_in = Filter::parse(rows, &Scope::with_collation(kept_collation(index)?))?
            .matches(document, &mut shardlake_mql::Env::new(0, 0))?;
        if !is_in {
            return Ok(());
        }
    }
    Err(failure)
}

/// Arrays next to each other, or positions that are also names.
fn misfit(key: &Document, body: RawDocument<'_>) -> Option<Failure> {
    let paths: Vec<KeyPath> = key.iter().map(|(path, _)| KeyPath(stored_path(path))).collect();
    let path = |place: usize| key.iter().nth(place).map_or("", |(path, _)| path);
    Some(match misfit_of(&paths, body)? {
        Misfit::Parallel(one, other) => Failure::new(
            PARALLEL_ARRAYS,
            format!("cannot index parallel arrays [{}] [{}]", path(other), path(one)),
        ),
        Misfit::Ambiguous(field) => Failure::new(
            AMBIGUOUS_NAME,
            format!(
                "Ambiguous field name found in array (do not use numeric field names in embedded elements in an array), field: '{}'",
                path(field)
            ),
        ),
    })
}

impl Meta {
    /// Refuses a document that an index cannot take because of its arrays.
    pub(crate) fn check_arrays(&self, document: &Document, body: RawDocument<'_>) -> Result<()> {
        self.indexes.iter().try_for_each(|index| check_one(index, document, body))
    }
}

impl Collections {
    /// Checks all documents of a collection that is to have such indexes.
    pub(crate) async fn check_all_arrays(
        &self,
        request: &Request,
        collection: &Collection,
        wanted: &[Document],
    ) -> Result<()> {
        let keys = wanted.iter().filter_map(|index| index.get("key").and_then(Value::as_document));
        if !keys.into_iter().any(|key| may_misfit(key)) {
            return Ok(());
        }
        let mut scan = Scan::of_all(self, collection.clone());
        while let Some(page) = scan.next(request).await? {
            for document in &page {
                let (body, _) = body_of(document)?;
                wanted.iter().try_for_each(|index| check_one(index, document, body.raw()))?;
            }
        }
        Ok(())
    }
}
