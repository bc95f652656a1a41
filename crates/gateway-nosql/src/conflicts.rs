//! The conflict feed of a container. Conflicts arise between write regions; there is one, so the feed is empty for good.

use shardlake_model::{Error, ErrorKind};

use crate::errors::Failure;
use crate::gateway::Call;
use crate::reply::Reply;
use crate::resource_document::feed;

/// For a query as well: nothing can be selected from nothing.
pub(crate) fn list(call: &Call<'_>) -> Result<Reply, Failure> {
    let container = call.container_for_items()?;
    container.check_intended_rid(call.headers.intended_rid)?;
    Ok(feed(container.rid_text(), "Conflicts", &[]))
}

/// Reading or deleting one.
pub(crate) fn missing(call: &Call<'_>) -> Failure {
    let owner = call.container_for_items();
    match owner.and_then(|container| container.check_intended_rid(call.headers.intended_rid)) {
        Ok(()) => Error::new(ErrorKind::NotFound, "an account with one write region has no conflicts").into(),
        Err(error) => error.into(),
    }
}
