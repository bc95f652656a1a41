//! Commands that the end of a process has interrupted: a start finishes or undoes them, before any client is served.

use crate::capped::trim_all;
use crate::collections::Collections;
use crate::failure::Result;

/// Deletes temporary collections, and brings capped collections within bounds that were changed.
pub async fn finish_interrupted(collections: &Collections) -> Result<()> {
    let deleted = collections.drop_temporaries().await;
    trim_all(collections).await?;
    deleted
}
