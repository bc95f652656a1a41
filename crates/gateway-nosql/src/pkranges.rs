//! The partition key ranges of a container, and the protocol by which clients keep up with them (wire.md §7.6).
//!
//! The etag is the container, its routing generation and the ranges that are being split, as their `status` shows. A client
//! that names the current etag gets 304 and stops asking; any other gets the full set, which is a correct answer to every
//! question about changes. A loop that never saw 304 would never end.

use http::header::ETAG;
use http::{HeaderValue, StatusCode};
use serde::Serialize;
use shardlake_account::{ContainerHandle, METADATA_READ_CHARGE_CENTI};
use shardlake_model::PartitionKeyRange;

use crate::call::Call;
use crate::errors::Failure;
use crate::reply::Reply;
use crate::resource_document::{document, feed};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RangeDocument<'r> {
    #[serde(rename = "_rid")]
    rid: String,
    id: String,
    #[serde(rename = "_etag")]
    etag: &'r str,
    min_inclusive: &'r str,
    max_exclusive: &'r str,
    rid_prefix: u32,
    #[serde(rename = "_self")]
    self_link: String,
    throughput_fraction: f64,
    status: &'static str,
    parents: Vec<String>,
    #[serde(rename = "ownedArchivalPKRangeIds")]
    archived: [&'static str; 0],
    #[serde(rename = "_ts")]
    timestamp: u64,
    #[serde(rename = "_lsn")]
    lsn: u64,
}

pub(crate) async fn list(call: &Call<'_>) -> Result<Reply, Failure> {
    let container = call.container_for_items()?;
    container.check_intended_rid(call.headers.intended_rid)?;
    let splitting = call.account.maintenance().ranges_being_split(&container).await?;
    let etag = etag(&container, &splitting);
    let known = call.headers.if_none_match.is_some_and(|sent| same_etag(sent, &etag));
    let reply = if known {
        Reply::empty(StatusCode::NOT_MODIFIED, METADATA_READ_CHARGE_CENTI)
    } else {
        let ranges = container.partition_key_ranges();
        let status =
            |range: &PartitionKeyRange| if splitting.contains(&range.id) { "splitting" } else { "online" };
        let row = |range| render(range, &container, &etag, status(range));
        let rows: Vec<Vec<u8>> = ranges.iter().map(row).collect();
        feed(container.rid_text(), "PartitionKeyRanges", &rows)
    };
    Ok(reply.with_header(ETAG, HeaderValue::try_from(etag).expect("resource ids and digits are ASCII")))
}

fn etag(container: &ContainerHandle, splitting: &[u32]) -> String {
    let splitting: String = splitting.iter().map(|id| format!("-{id}")).collect();
    format!("\"{}:{}{splitting}\"", container.rid_text(), container.routing_generation())
}

/// Clients return the etag as it came, or without its quotes.
fn same_etag(sent: &str, etag: &str) -> bool {
    sent.trim().trim_matches('"') == etag.trim_matches('"')
}

fn render(range: &PartitionKeyRange, handle: &ContainerHandle, etag: &str, status: &'static str) -> Vec<u8> {
    let container = handle.container();
    let rid = container.rid.range(u64::from(range.id));
    document(&RangeDocument {
        self_link: format!("{}pkranges/{rid}/", handle.self_link()),
        rid,
        id: range.id.to_string(),
        etag,
        min_inclusive: &range.min_inclusive,
        max_exclusive: &range.max_exclusive,
        rid_prefix: range.rid_prefix,
        throughput_fraction: range.throughput_fraction,
        status,
        parents: range.parents.iter().map(u32::to_string).collect(),
        archived: [],
        timestamp: container.timestamp,
        lsn: range.lsn,
    })
}

#[cfg(test)]
mod tests {
    use super::same_etag;

    #[test]
    fn etags_compare_with_and_without_quotes() {
        assert!(same_etag("\"a:1\"", "\"a:1\"") && same_etag("a:1", "\"a:1\""));
        assert!(!same_etag("\"a:2\"", "\"a:1\"") && !same_etag("*", "\"a:1\""));
    }
}
