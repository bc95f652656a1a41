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

/// Whether arrays can violate an index at all: over one plain path they never do.
fn may_misfit(key: &Document) -> bool {
    let is_ordered = key.iter().all(|(path, kind)| kind.is_number() && !path.contains("$**"));
    let is_position = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    is_ordered && (key.len() > 1 || key.iter().any(|(path, _)| path.split('.').any(is_position)))
}

fn check_one(index: &Document, document: &Document, body: RawDocument<'_>) -> Result<()> {
    let Some(key) = index.get("key").and_then(Value::as_document).filter(|key| may_misfit(key)) else {
        return Ok(());
    };
    let paths: Vec<KeyPath> = key.iter().map(|(path, _)| KeyPath(stored_path(path))).collect();
    let Some(misfit) = misfit_of(&paths, body) else { return Ok(()) };
    if let Some(rows) = index.get("partialFilterExpression").and_then(Value::as_document) {
        let is_in = Filter::parse(rows, &Scope::with_collation(kept_collation(index)?))?
            .matches(document, &mut shardlake_mql::Env::new(0, 0))?;
        if !is_in {
            return Ok(());
        }
    }
    let path = |place: usize| key.iter().nth(place).map_or("", |(path, _)| path);
    Err(match misfit {
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
