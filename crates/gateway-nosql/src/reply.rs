//! Replies of operations, and their HTTP headers.
//!
//! A handler fills in a [`Reply`], plain data; [`Renderer`] alone turns replies and failures into responses. Headers that never change
//! are kept in a map that every response starts from as a copy, so that only those which depend on the request are hashed and written.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_LOCATION, CONTENT_TYPE, ETAG, TRAILER};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use shardlake_account::ContainerHandle;
use shardlake_model::ReplyMeta;
use shardlake_stdx::{Guid, Timestamp};

use crate::answer_body::{AnswerBody, ERROR_TRAILER, Streamed, Text};
use crate::errors::{self, Failure};
use crate::header_names::{
    ACTIVITY_ID, ALT_CONTENT_PATH, CONTENT_PATH, CONTINUATION, GLOBAL_COMMITTED_LSN, ITEM_COUNT,
    ITEM_LOCAL_LSN, ITEM_LSN, LOCAL_LSN, LSN, QUORUM_ACKED_LOCAL_LSN, QUORUM_ACKED_LSN, RANGE_ID,
    REQUEST_CHARGE, REQUEST_DURATION, RETRY_AFTER, SESSION_TOKEN, SUBSTATUS, TRANSPORT_REQUEST_ID,
};
use crate::header_text::{Echo, push_alt_content_path, push_charge, push_location, push_milliseconds};
use crate::item_headers::ItemHeaders;
use crate::session;

/// Reply of an operation.
#[derive(Default)]
pub(crate) struct Reply {
    pub status: StatusCode,
    pub meta: ReplyMeta,
    pub etag: Option<Guid>,
    /// The container that was read or written, on item operations.
    pub container: Option<ContainerHandle>,
    pub item_count: Option<usize>,
    pub continuation: Option<String>,
    /// Rare headers.
    pub extra: Vec<(HeaderName, HeaderValue)>,
    /// JSON text or Cosmos binary JSON; `None` for replies without a body.
    pub body: Option<Text>,
    /// The body is a part of a file.
    pub is_bytes: bool,
    /// A body that is made while it is sent, in place of `body`.
    pub streamed: Option<Streamed>,
}

impl Reply {
    pub fn json(status: StatusCode, charge_centi: u64, body: impl Into<Text>) -> Reply {
        let meta = ReplyMeta { charge_centi, ..ReplyMeta::default() };
        Reply { status, meta, body: Some(body.into()), ..Reply::default() }
    }

    pub fn empty(status: StatusCode, charge_centi: u64) -> Reply {
        let meta = ReplyMeta { charge_centi, ..ReplyMeta::default() };
        Reply { status, meta, ..Reply::default() }
    }

    /// A body that is made while it is sent.
    pub fn streamed(
        status: StatusCode,
        media_type: Option<HeaderValue>,
        streamed: Streamed,
        mut extra: Vec<(HeaderName, HeaderValue)>,
    ) -> Reply {
        extra.extend(media_type.map(|media_type| (CONTENT_TYPE, media_type)));
        if streamed.takes_trailers {
            extra.push((TRAILER, HeaderValue::from_static(ERROR_TRAILER)));
        }
        Reply { status, extra, streamed: Some(streamed), ..Reply::default() }
    }

    /// Marks the body as bytes that are neither JSON text nor Cosmos binary JSON.
    pub fn of_bytes(mut self) -> Reply {
        self.is_bytes = true;
        self
    }

    /// Adds the link and the resource id of the parent resource.
    pub fn with_owner(mut self, link: &str, rid: &str) -> Reply {
        self.extra.push((ALT_CONTENT_PATH.clone(), written(|out| push_alt_content_path(out, link))));
        self.extra.push((CONTENT_PATH.clone(), ascii(rid.as_bytes())));
        self
    }

    pub fn with_etag(mut self, etag: [u8; 16]) -> Reply {
        self.etag = Some(Guid(etag));
        self
    }

    pub fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Reply {
        self.extra.push((name, value));
        self
    }
}

/// Turns replies into responses.
pub(crate) struct Renderer {
    constant: HeaderMap,
    item: ItemHeaders,
    requests: AtomicU64,
}

/// Capacity for every header of an item response.
const HEADERS_MAX: usize = 48;

const VERSION: &str = concat!("version=shardlake-", env!("CARGO_PKG_VERSION"));

impl Renderer {
    pub fn new(now: Timestamp) -> Renderer {
        let mut constant = HeaderMap::with_capacity(HEADERS_MAX);
        let mut set =
            |name, value| constant.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        set("x-ms-schemaversion", "1.19");
        set("x-ms-serviceversion", VERSION);
        set("x-ms-gatewayversion", VERSION);
        // One copy of the data: it is its own write quorum and its only replica, and there are no further read regions.
        set("x-ms-current-write-quorum", "1");
        set("x-ms-current-replica-set-size", "1");
        set("x-ms-xp-role", "1");
        set("x-ms-number-of-read-regions", "0");
        let started = std::time::UNIX_EPOCH + Duration::from_millis(now.milliseconds());
        let started = HeaderValue::try_from(httpdate::fmt_http_date(started)).expect("a date is ASCII");
        constant.insert(HeaderName::from_static("x-ms-last-state-change-utc"), started);
        let item = ItemHeaders::new(&constant, HEADERS_MAX);
        Renderer { constant, item, requests: AtomicU64::new(1) }
    }

    pub fn render(&self, outcome: Result<Reply, Failure>, echo: Echo<'_>) -> Response<AnswerBody> {
        match outcome {
            Ok(reply) => self.reply(reply, echo),
            Err(failure) => self.failure(&failure, echo),
        }
    }

    fn reply(&self, reply: Reply, echo: Echo<'_>) -> Response<AnswerBody> {
        let mut headers = match (&reply.container, reply.etag) {
            (Some(container), Some(etag)) if reply.meta.range_id.is_some() && reply.body.is_some() => {
                self.item.render(&reply.meta, container, etag, echo, self.next_request_id())
            }
            (container, etag) => {
                let mut headers = self.common(&reply.meta, container.as_ref(), echo);
                if let Some(etag) = etag {
                    headers.insert(ETAG, quoted(etag));
                }
                headers
            }
        };
        if let Some(count) = reply.item_count {
            headers.insert(&ITEM_COUNT, HeaderValue::from(count));
        }
        if let Some(continuation) = reply.continuation {
            set_text(&mut headers, &CONTINUATION, continuation);
        }
        headers.extend(reply.extra);
        let mut response = assemble(reply.status, headers, reply.body);
        if let Some(streamed) = reply.streamed {
            *response.body_mut() = AnswerBody::streaming(streamed);
        }
        if reply.is_bytes {
            let media_type = HeaderValue::from_static("application/octet-stream");
            response.headers_mut().insert(CONTENT_TYPE, media_type);
        }
        response
    }

    fn failure(&self, failure: &Failure, echo: Echo<'_>) -> Response<AnswerBody> {
        let error = &failure.error;
        let shape = errors::shape(error.kind());
        if shape.status == StatusCode::INTERNAL_SERVER_ERROR {
            tracing::error!(activity_id = %echo.activity_id, error = ?error, uri = echo.request_uri, "request failed");
        }
        let mut headers = self.common(error.meta(), failure.container.as_ref(), echo);
        let substatus = error.substatus().unwrap_or(shape.substatus);
        if substatus != 0 {
            headers.insert(&SUBSTATUS, HeaderValue::from(substatus));
        }
        if let Some(milliseconds) = error.retry_after_ms() {
            headers.insert(&RETRY_AFTER, HeaderValue::from(milliseconds));
            if shape.status == StatusCode::SERVICE_UNAVAILABLE {
                headers.insert(http::header::RETRY_AFTER, HeaderValue::from(milliseconds.div_ceil(1000)));
            }
        }
        let body = errors::body(error, echo.activity_id, echo.request_uri);
        assemble(shape.status, headers, Some(body.into()))
    }

    fn common(&self, meta: &ReplyMeta, container: Option<&ContainerHandle>, echo: Echo<'_>) -> HeaderMap {
        let mut headers = self.constant.clone();
        headers.reserve(HEADERS_MAX / 2);
        headers.insert(&REQUEST_CHARGE, written(|out| push_charge(out, meta.charge_centi)));
        headers.insert(&ACTIVITY_ID, ascii(&echo.activity_id.to_ascii()));
        headers.insert(&TRANSPORT_REQUEST_ID, HeaderValue::from(self.next_request_id()));
        headers.insert(&REQUEST_DURATION, written(|out| push_milliseconds(out, echo.duration)));
        headers.insert(CONTENT_LOCATION, written(|out| push_location(out, echo)));
        // With a position only: the Python SDK drops its ranges at a container's answer that names none of them.
        if let Some(container) = container.filter(|_| meta.range_id.is_some()) {
            headers.insert(&CONTENT_PATH, ascii(container.rid_text().as_bytes()));
            headers
                .insert(&ALT_CONTENT_PATH, written(|out| push_alt_content_path(out, container.alt_link())));
        }
        if let Some(range_id) = meta.range_id {
            set_positions(&mut headers, range_id, meta);
        }
        headers
    }

    fn next_request_id(&self) -> u64 {
        self.requests.fetch_add(1, Ordering::Relaxed)
    }
}

/// Where the partition and the item stand.
fn set_positions(headers: &mut HeaderMap, range_id: u32, meta: &ReplyMeta) {
    headers.insert(&RANGE_ID, HeaderValue::from(range_id));
    headers.insert(
        &SESSION_TOKEN,
        written(|out| session::push_token(out, range_id, meta.session_version, meta.lsn)),
    );
    let lsn = HeaderValue::from(meta.lsn);
    for name in [&LSN, &LOCAL_LSN, &QUORUM_ACKED_LSN, &QUORUM_ACKED_LOCAL_LSN, &GLOBAL_COMMITTED_LSN] {
        headers.insert(name, lsn.clone());
    }
    if meta.item_lsn > 0 {
        let item_lsn = HeaderValue::from(meta.item_lsn);
        headers.insert(&ITEM_LSN, item_lsn.clone());
        headers.insert(&ITEM_LOCAL_LSN, item_lsn);
    }
}

fn assemble(status: StatusCode, mut headers: HeaderMap, body: Option<Text>) -> Response<AnswerBody> {
    if let Some(body) = &body {
        let media_type = if body.is_binary() { "application/octet-stream" } else { "application/json" };
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    }
    let mut response = Response::new(AnswerBody::from(body.unwrap_or_default()));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

fn written(write: impl FnOnce(&mut Vec<u8>)) -> HeaderValue {
    let mut text = Vec::with_capacity(64);
    write(&mut text);
    HeaderValue::from_maybe_shared(Bytes::from(text)).expect("what is written here is visible ASCII")
}

fn quoted(etag: Guid) -> HeaderValue {
    let mut text = [b'"'; 38];
    text[1..37].copy_from_slice(&etag.to_ascii());
    ascii(&text)
}

fn ascii(bytes: &[u8]) -> HeaderValue {
    HeaderValue::from_bytes(bytes).expect("visible ASCII is a header value")
}

fn set_text(headers: &mut HeaderMap, name: &'static HeaderName, text: String) {
    let value = HeaderValue::from_maybe_shared(Bytes::from(text)).expect("tokens are visible ASCII");
    headers.insert(name, value);
}

#[cfg(test)]
mod tests {
    use super::*;

    const ECHO: Echo<'_> = Echo {
        activity_id: Guid([0xab; 16]),
        scheme: "https",
        host: "localhost:8081",
        request_uri: "/dbs",
        duration: Duration::from_micros(1_250),
    };

    fn renderer() -> Renderer {
        Renderer::new(Timestamp(1_493_254_272_000))
    }

    fn header<'r>(response: &'r Response<AnswerBody>, name: &str) -> Option<&'r str> {
        response.headers().get(name).map(|value| value.to_str().expect("ASCII"))
    }

    #[test]
    fn charges_are_the_shortest_decimals() {
        for (centi, text) in
            [(100, "1"), (571, "5.71"), (1050, "10.5"), (0, "0"), (7, "0.07"), (62_500, "625")]
        {
            assert_eq!(written(|out| push_charge(out, centi)), text);
        }
    }

    #[test]
    fn an_item_reply_carries_every_position() {
        let meta =
            ReplyMeta { charge_centi: 571, lsn: 42, item_lsn: 40, range_id: Some(3), session_version: 5 };
        let reply = Reply {
            status: StatusCode::CREATED,
            meta,
            body: Some(b"{}".to_vec().into()),
            ..Reply::default()
        };
        let response = renderer().render(Ok(reply.with_etag([0x11; 16])), ECHO);
        for (name, value) in [
            ("x-ms-request-charge", "5.71"),
            ("x-ms-session-token", "3:5#42"),
            ("x-ms-documentdb-partitionkeyrangeid", "3"),
            ("lsn", "42"),
            ("x-ms-cosmos-llsn", "42"),
            ("x-ms-quorum-acked-lsn", "42"),
            ("x-ms-cosmos-quorum-acked-llsn", "42"),
            ("x-ms-global-committed-lsn", "42"),
            ("x-ms-item-lsn", "40"),
            ("x-ms-cosmos-item-llsn", "40"),
            ("etag", "\"11111111-1111-1111-1111-111111111111\""),
            ("x-ms-activity-id", "abababab-abab-abab-abab-abababababab"),
            ("x-ms-request-duration-ms", "1.25"),
            ("x-ms-transport-request-id", "1"),
            ("x-ms-number-of-read-regions", "0"),
            ("x-ms-current-write-quorum", "1"),
            ("x-ms-current-replica-set-size", "1"),
            ("x-ms-xp-role", "1"),
            ("x-ms-schemaversion", "1.19"),
            ("x-ms-last-state-change-utc", "Thu, 27 Apr 2017 00:51:12 GMT"),
            ("content-type", "application/json"),
            ("content-location", "https://localhost:8081/dbs"),
        ] {
            assert_eq!(header(&response, name), Some(value), "{name}");
        }
        assert!(header(&response, "x-ms-serviceversion").expect("present").starts_with("version="));
        assert!(header(&response, "x-ms-gatewayversion").expect("present").starts_with("version="));
    }

    #[test]
    fn metadata_replies_carry_no_position_and_empty_ones_no_content_type() {
        let response = renderer().render(Ok(Reply::empty(StatusCode::NO_CONTENT, 495)), ECHO);
        assert_eq!(response.status(), StatusCode::NO_CONTENT);
        for name in ["lsn", "x-ms-session-token", "etag", "content-type"] {
            assert_eq!(header(&response, name), None, "{name}");
        }
        assert_eq!(header(&response, "x-ms-request-charge"), Some("4.95"));
    }

    #[test]
    fn failures_carry_substatus_retry_time_and_position() {
        use shardlake_model::{Error, ErrorKind};
        let meta =
            ReplyMeta { charge_centi: 100, lsn: 9, item_lsn: 0, range_id: Some(0), session_version: 5 };
        let error =
            Error::new(ErrorKind::TooManyRequests, "slow down").with_meta(meta).with_retry_after_ms(12);
        let response = renderer().render(Err(error.into()), ECHO);
        assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
        for (name, value) in [
            ("x-ms-substatus", "3200"),
            ("x-ms-retry-after-ms", "12"),
            ("lsn", "9"),
            ("x-ms-session-token", "0:5#9"),
        ] {
            assert_eq!(header(&response, name), Some(value), "{name}");
        }
        assert_eq!(header(&response, "x-ms-item-lsn"), None);
    }

    #[test]
    fn addresses_that_cannot_be_in_a_header_are_left_out() {
        for (host, path, location) in
            [("a", "/x", "https://a/x"), ("a b", "/x", ""), ("a", "/\u{7f}", ""), ("a", "/x\ny", "")]
        {
            let echo = Echo { host, request_uri: path, ..ECHO };
            assert_eq!(written(|out| push_location(out, echo)), location);
        }
    }

    #[test]
    fn names_beyond_ascii_are_encoded_as_clients_encode_them() {
        let encoded = |link| written(|out| push_alt_content_path(out, link));
        assert_eq!(encoded("dbs/a/colls/b-1_2.x~"), "dbs/a/colls/b-1_2.x~");
        assert_eq!(encoded("dbs/\u{20ac} 1/colls/b"), "dbs/%E2%82%AC%201/colls/b");
    }
}
