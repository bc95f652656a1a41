//! The change feed (wire.md §12): a read of the items feed with the header `A-IM`.
//!
//! `If-None-Match` names the start of a page (`*` for now, else the etag of the page before). `If-Modified-Since`, which clients
//! send with every page, leaves out older changes. A page with nothing in it is 304 without a body, and every answer has an
//! etag. `x-shardlake-feed-wait-ms` lets an empty page wait for the next change, and `x-shardlake-feed-previous` shows the
//! version before every change.

use std::time::Duration;

use chrono::DateTime;
use http::header::ETAG;
use http::{HeaderValue, StatusCode};
use shardlake_account::{
    ChangeFeedMode, ChangeFeedPage, ChangeFeedRequest, ContainerHandle, FEED_WAIT_MAX, FeedStart,
    JsonChanges, JsonChangesWithMetadata,
};
use shardlake_model::{Error, PreviousImages, Result};
use shardlake_stdx::Timestamp;

use crate::answer_body::Text;
use crate::call::Call;
use crate::feed::scope;
use crate::headers::{RequestHeaders, flag};
use crate::items::reading;
use crate::reply::Reply;

pub(crate) async fn read(call: &Call<'_>, container: &ContainerHandle) -> Result<Reply> {
    let headers = call.headers;
    let request = ChangeFeedRequest {
        scope: scope(headers)?,
        mode: mode(headers)?,
        images: images(headers, container)?,
        start: start(headers),
        since: since(headers),
        max_items: headers.max_items()?,
        wait: wait(headers)?,
    };
    let page = page(call, container, &request).await?;
    if !request.wait.is_zero() {
        // A token may have ended while its holder waited.
        call.check_caller_again()?;
    }
    Ok(respond(page, container))
}

/// Changes have metadata in both modes for clients that name the newer form of changes.
async fn page(
    call: &Call<'_>,
    container: &ContainerHandle,
    request: &ChangeFeedRequest<'_>,
) -> Result<ChangeFeedPage> {
    let reading = reading(call)?;
    if call.headers.feed_wire_format.is_none_or(str::is_empty) {
        return call.account.items().change_feed(&reading, container, request).await;
    }
    let page =
        call.account.items().changes_in::<JsonChangesWithMetadata>(&reading, container, request).await?;
    let ChangeFeedPage {
        changes: JsonChangesWithMetadata(JsonChanges(changes)),
        count,
        etag,
        is_last,
        meta,
        ranges,
    } = page;
    Ok(ChangeFeedPage { changes, count, etag, is_last, meta, ranges })
}

fn mode(headers: &RequestHeaders<'_>) -> Result<ChangeFeedMode> {
    let Some(name) = headers.a_im else { return Ok(ChangeFeedMode::default()) };
    if name.eq_ignore_ascii_case("Incremental Feed") {
        return Ok(ChangeFeedMode::LatestVersion);
    }
    if name.eq_ignore_ascii_case("Full-Fidelity Feed") {
        return Ok(ChangeFeedMode::AllVersionsAndDeletes);
    }
    Err(Error::bad_request(format!(
        "the value '{name}' of header 'A-IM' is unknown: use 'Incremental feed' or 'Full-Fidelity Feed'"
    )))
}

/// The container's policy, unless the request asks for all of them.
fn images(headers: &RequestHeaders<'_>, container: &ContainerHandle) -> Result<PreviousImages> {
    let asks = flag("x-shardlake-feed-previous", headers.feed_previous)?;
    Ok(if asks { PreviousImages::ALL } else { container.container().definition.previous_images() })
}

fn start<'h>(headers: &RequestHeaders<'h>) -> FeedStart<'h> {
    match headers.if_none_match {
        None | Some("") => FeedStart::Beginning,
        Some("*") => FeedStart::Now,
        Some(etag) => FeedStart::After(unquoted(etag)),
    }
}

fn unquoted(etag: &str) -> &str {
    let strong = etag.strip_prefix("W/").unwrap_or(etag);
    strong.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(strong)
}

/// Accepts the dates of HTTP, dates of mail with any zone (the Go SDK sends `UTC`) and ISO 8601 (.NET). Other texts are ignored, as by
/// the reference.
fn since(headers: &RequestHeaders<'_>) -> Option<Timestamp> {
    let text = headers.if_modified_since?.trim();
    if let Ok(date) = httpdate::parse_http_date(text) {
        let since_epoch = date.duration_since(std::time::UNIX_EPOCH).unwrap_or(Duration::ZERO);
        return Some(Timestamp(since_epoch.as_millis() as u64));
    }
    // RFC 2822 knows `GMT` and no `UTC`.
    let renamed = text.strip_suffix("UTC").map(|date| format!("{date}GMT"));
    let text = renamed.as_deref().unwrap_or(text);
    let moment = DateTime::parse_from_rfc2822(text).or_else(|_| DateTime::parse_from_rfc3339(text)).ok()?;
    Some(Timestamp(u64::try_from(moment.timestamp_millis()).unwrap_or(0)))
}

fn wait(headers: &RequestHeaders<'_>) -> Result<Duration> {
    let Some(text) = headers.feed_wait else { return Ok(Duration::ZERO) };
    let wait = text.parse().map(Duration::from_millis).ok().filter(|wait| *wait <= FEED_WAIT_MAX);
    wait.ok_or_else(|| {
        Error::bad_request(format!(
            "the value '{text}' of header 'x-shardlake-feed-wait-ms' is invalid: use 0 to {} milliseconds",
            FEED_WAIT_MAX.as_millis()
        ))
    })
}

fn respond(page: ChangeFeedPage, container: &ContainerHandle) -> Reply {
    let etag = HeaderValue::try_from(format!("\"{}\"", page.etag)).expect("an etag is ASCII");
    // Time ran out among changes that are not asked for: there is more, which 304 would deny.
    let is_unmodified = page.count == 0 && page.is_last;
    let head = format!("{{\"_rid\":\"{}\",\"Documents\":[", container.rid_text()).into_bytes();
    let end = format!("],\"_count\":{}}}", page.count).into_bytes();
    let body = (!is_unmodified).then(|| Text::of_pieces([head, page.changes, end]));
    let reply = Reply {
        status: if is_unmodified { StatusCode::NOT_MODIFIED } else { StatusCode::OK },
        meta: page.meta,
        container: Some(container.clone()),
        item_count: Some(page.count),
        body,
        ..Reply::default()
    };
    reply.with_header(ETAG, etag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_follows_the_headers() {
        let start_of = |value| start(&RequestHeaders { if_none_match: value, ..RequestHeaders::default() });
        assert_eq!(start_of(None), FeedStart::Beginning);
        assert_eq!(start_of(Some("*")), FeedStart::Now);
        for text in ["\"42\"", "42", "W/\"42\""] {
            assert_eq!(start_of(Some(text)), FeedStart::After("42"), "{text}");
        }
        let since_of =
            |value| since(&RequestHeaders { if_modified_since: Some(value), ..RequestHeaders::default() });
        for text in [
            "Tue, 14 Nov 2023 22:13:20 GMT",
            "Tuesday, 14-Nov-23 22:13:20 GMT",
            "Tue Nov 14 22:13:20 2023",
            "Tue, 14 Nov 2023 22:13:20 UTC",
            "Tue, 14 Nov 2023 23:13:20 +0100",
            "2023-11-14T22:13:20Z",
            "2023-11-14T23:13:20.000+01:00",
        ] {
            assert_eq!(since_of(text), Some(Timestamp(1_700_000_000_000)), "{text}");
        }
        for text in ["", "yesterday", "1700000000"] {
            assert_eq!(since_of(text), None, "{text}");
        }
    }

    #[test]
    fn waiting_is_bounded() {
        let wait_of = |value| wait(&RequestHeaders { feed_wait: Some(value), ..RequestHeaders::default() });
        assert_eq!(wait_of("1500").expect("valid"), Duration::from_millis(1500));
        for text in ["", "-1", "61000", "soon"] {
            assert!(wait_of(text).is_err(), "{text}");
        }
    }
}
