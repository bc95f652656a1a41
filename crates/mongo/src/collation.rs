//! The collation that is kept with a collection, an index or a view.

use shardlake_mql::{Collation, Document, Value, collation_of};

use crate::failure::{Failure, Result};

/// The collation that is kept with a collection, an index or a view; the simple one where none is.
pub(crate) fn kept_collation(kept: &Document) -> Result<Collation> {
    let Some(collation) = kept.get("collation").and_then(Value::as_document) else {
        return Ok(Collation::simple());
    };
    collation_of(collation)
        .map_err(|unsupported| Failure::new(303, format!("a collation is not supported: {}", unsupported.0)))
}
