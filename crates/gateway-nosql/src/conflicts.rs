//! The conflict feed of a container. Conflicts arise between write regions; there is one, so the feed is empty for good.

use shardlake_account::FeedScope;
use shardlake_model::{Error, ErrorKind};

use crate::call::Call;
use crate::errors::Failure;
use crate::feed::scope;
use crate::headers::flag;
use crate::reply::Reply;
use crate::resource_document::feed;

/// For a query as well: nothing can be selected from nothing.
pub(crate) fn list(call: &Call<'_>) -> Result<Reply, Failure> {
    let container = call.container_for_items()?;
    container.check_intended_rid(call.headers.intended_rid)?;
    check_scope(call)?;
    Ok(feed(container.rid_text(), "Conflicts", &[]))
}

/// A query names a partition key or a range, or says that it means all of them.
fn check_scope(call: &Call<'_>) -> Result<(), Failure> {
    let headers = call.headers;
    let crosses = flag("x-ms-documentdb-query-enablecrosspartition", headers.enable_cross_partition)?;
    if headers.asks_query()? && !crosses && scope(headers)? == FeedScope::All {
        return Err(Error::bad_request(
            "Cross partition query is required but disabled. Please set x-ms-documentdb-query-enablecrosspartition to true, or specify x-ms-documentdb-partitionkey.",
        )
        .into());
    }
    Ok(())
}

/// Reading or deleting one.
pub(crate) fn missing(call: &Call<'_>) -> Failure {
    let owner = call.container_for_items();
    match owner.and_then(|container| container.check_intended_rid(call.headers.intended_rid)) {
        Ok(()) => Error::new(ErrorKind::NotFound, "an account with one write region has no conflicts").into(),
        Err(error) => error.into(),
    }
}
