//! The read feed of a container: every item in scope, page by page.
//!
//! The scope is one logical partition or a prefix of one, a partition key range, an interval of effective partition keys, or the
//! whole container. The change feed shares the path and not this file.

use http::StatusCode;
use shardlake_account::{ContainerHandle, FeedPage, FeedScope, HEAVY_BYTES, offload};
use shardlake_model::{Error, Result};

use crate::answer_body::PageText;
use crate::call::Call;
use crate::headers::RequestHeaders;
use crate::items::reading;
use crate::reply::Reply;
use crate::request_key::key_of_text;
use crate::unsupported;

pub(crate) async fn read(call: &Call<'_>, container: &ContainerHandle) -> Result<Reply> {
    let headers = call.headers;
    let page = call
        .account
        .items()
        .read_feed(&reading(call)?, container, scope(headers)?, headers.max_items()?, headers.continuation)
        .await?;
    let size: usize = page.items.iter().map(|item| item.json_size_bytes()).sum();
    if size <= HEAVY_BYTES {
        return Ok(respond(page, container));
    }
    let container = container.clone();
    offload(move || respond(page, &container)).await
}

pub(crate) fn scope(headers: &RequestHeaders<'_>) -> Result<FeedScope> {
    if let Some(key) = headers.partition_key {
        return Ok(FeedScope::Key(key_of_text(key)?));
    }
    let range_id = headers.range_id()?;
    let epk = match (headers.read_key_type, headers.start_epk, headers.end_epk) {
        (Some(kind), ..) if kind.eq_ignore_ascii_case("EffectivePartitionKey") => {
            return Err(unsupported::point_read_key());
        }
        (Some(kind), ..) if !kind.eq_ignore_ascii_case("EffectivePartitionKeyRange") => {
            return Err(Error::bad_request(format!(
                "the value '{kind}' of header 'x-ms-read-key-type' is unknown"
            )));
        }
        (_, Some(start), Some(end)) => Some((start.to_owned(), end.to_owned())),
        (None, None, None) => None,
        // The whole range that another header names.
        (Some(_), None, None) if range_id.is_some() => None,
        _ => {
            return Err(Error::bad_request(
                "an effective partition key range needs both headers, 'x-ms-start-epk' and 'x-ms-end-epk'",
            ));
        }
    };
    Ok(match (range_id, epk) {
        (None, None) => FeedScope::All,
        (range_id, epk) => FeedScope::Range { range_id, epk },
    })
}

fn respond(page: FeedPage, container: &ContainerHandle) -> Reply {
    let count = page.items.len();
    let size: usize = page.items.iter().map(|item| item.json_size_bytes() + 1).sum();
    let mut text = PageText::of_container(container.rid_text(), size);
    // The memory of each item is freed as soon as it is written.
    for item in page.items {
        text.row(|out| item.write_json(out));
    }
    Reply {
        status: StatusCode::OK,
        meta: page.meta,
        container: Some(container.clone()),
        item_count: Some(count),
        continuation: page.continuation,
        body: Some(text.finish()),
        ..Reply::default()
    }
}

#[cfg(test)]
mod tests {
    use shardlake_model::ErrorKind;

    use super::*;

    #[test]
    fn the_scope_follows_the_headers() {
        let none = RequestHeaders::default;
        assert!(matches!(scope(&none()).expect("all"), FeedScope::All));
        let key = RequestHeaders { partition_key: Some(r#"["a"]"#), ..none() };
        assert!(
            matches!(scope(&key).expect("key"), FeedScope::Key(key) if key == key_of_text(r#"["a"]"#).expect("a key"))
        );
        let range = RequestHeaders { range_id: Some("2"), ..none() };
        assert!(matches!(scope(&range).expect("range"), FeedScope::Range { range_id: Some(2), epk: None }));
        let window = RequestHeaders {
            read_key_type: Some("EffectivePartitionKeyRange"),
            start_epk: Some(""),
            end_epk: Some("1F"),
            ..range
        };
        assert!(
            matches!(scope(&window).expect("window"), FeedScope::Range { range_id: Some(2), epk: Some((start, end)) } if start.is_empty() && end == "1F")
        );
    }

    #[test]
    fn half_a_window_is_refused_rather_than_read_as_everything() {
        let half = RequestHeaders { start_epk: Some("05"), ..RequestHeaders::default() };
        assert_eq!(scope(&half).expect_err("refused").kind(), ErrorKind::BadRequest);
        let window =
            RequestHeaders { read_key_type: Some("EffectivePartitionKeyRange"), ..RequestHeaders::default() };
        assert_eq!(scope(&window).expect_err("refused").kind(), ErrorKind::BadRequest);
        let range = RequestHeaders { range_id: Some("2"), ..window };
        assert!(matches!(
            scope(&range).expect("the range"),
            FeedScope::Range { range_id: Some(2), epk: None }
        ));
        let point =
            RequestHeaders { read_key_type: Some("EffectivePartitionKey"), ..RequestHeaders::default() };
        assert_eq!(scope(&point).expect_err("refused").kind(), ErrorKind::Unsupported);
        let odd = RequestHeaders { read_key_type: Some("Guess"), ..RequestHeaders::default() };
        assert_eq!(scope(&odd).expect_err("refused").kind(), ErrorKind::BadRequest);
    }
}
