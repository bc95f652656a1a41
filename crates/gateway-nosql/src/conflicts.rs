//! The conflict feed of a container. Conflicts arise between write regions; there is one, so the feed is empty for good.

use shardlake_account::{ContainerHandle, FeedScope};
use shardlake_model::{Error, ErrorKind, Result};

use crate::call::Call;
use crate::errors::Failure;
use crate::feed::scope;
use crate::headers::flag;
use crate::reply::Reply;
use crate::resource_document::feed;

/// For a query as well: nothing can be selected from nothing.
pub(crate) fn list(call: &Call<'_>) -> Result<Reply, Failure> {
    in_container(call, |container| {
        check_scope(call)?;
        Ok(feed(container.rid_text(), "Conflicts", &[]))
    })
}

/// A query names a partition key or a range, or is marked as crossing partitions.
fn check_scope(call: &Call<'_>) -> Result<()> {
    let headers = call.headers;
    let crosses = flag("x-ms-documentdb-query-enablecrosspartition", headers.enable_cross_partition)?;
    if headers.asks_query()? && !crosses && scope(headers)? == FeedScope::All {
        return Err(Error::bad_request(
            "Cross partition query is required but disabled. Please set x-ms-documentdb-query-enablecrosspartition to true, or specify x-ms-documentdb-partitionkey.",
        ));
    }
    Ok(())
}

/// Reading or deleting one.
pub(crate) fn missing(call: &Call<'_>) -> Result<Reply, Failure> {
    let missing = || Error::new(ErrorKind::NotFound, "an account with one write region has no conflicts");
    in_container(call, |_| Err(missing()))
}

fn in_container(
    call: &Call<'_>,
    answer: impl FnOnce(&ContainerHandle) -> Result<Reply>,
) -> Result<Reply, Failure> {
    let container = call.container_for_items()?;
    let mut outcome =
        container.check_intended_rid(call.headers.intended_rid).and_then(|()| answer(&container));
    call.place(&mut outcome, &container);
    outcome.map_err(|error| Failure::within(error, &container))
}
