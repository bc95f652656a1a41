//! Requests of a client of the operator's interface: a path and its signature. Sending them is up to the caller.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{HeaderValue, Method, Request};
use http_body_util::Full;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use shardlake_model::{Error, Result};
use shardlake_stdx::Timestamp;

use crate::address::{PREFIX, signed_payload};

/// Names in paths, and the token in its header, as `encodeURIComponent` writes them.
const COMPONENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// A request before it is signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperatorRequest {
    pub method: Method,
    /// With the slash in front.
    pub path: String,
    /// Without the question mark.
    pub query: Option<String>,
    pub body: Option<String>,
}

impl OperatorRequest {
    /// All containers in short.
    pub fn of_account() -> OperatorRequest {
        OperatorRequest { method: Method::GET, path: format!("{PREFIX}partitions"), query: None, body: None }
    }

    /// Every analytical store.
    pub fn of_analytics() -> OperatorRequest {
        OperatorRequest { method: Method::GET, path: format!("{PREFIX}analytics"), query: None, body: None }
    }

    /// A query over analytical tables, with its text and parameters as JSON.
    pub fn of_analytics_sql(body: String) -> OperatorRequest {
        let path = format!("{PREFIX}analytics/sql");
        OperatorRequest { method: Method::POST, path, query: None, body: Some(body) }
    }

    /// The end of a running query over analytical tables.
    pub fn of_analytics_query(id: &str) -> OperatorRequest {
        let id = utf8_percent_encode(id, COMPONENT);
        let path = format!("{PREFIX}analytics/queries/{id}");
        OperatorRequest { method: Method::DELETE, path, query: None, body: None }
    }

    /// A request for all projections, or for one of them with an optional action, such as `["names", "pause"]`.
    pub fn of_projections(method: Method, segments: &[&str]) -> OperatorRequest {
        OperatorRequest::below("projections", method, segments)
    }

    /// A request for all copies, or for one of them with an optional action, such as `["index", "shop", "byEmail", "pause"]`.
    pub fn of_copies(method: Method, segments: &[&str]) -> OperatorRequest {
        OperatorRequest::below("copies", method, segments)
    }

    fn below(resource: &str, method: Method, segments: &[&str]) -> OperatorRequest {
        let mut path = format!("{PREFIX}{resource}");
        for segment in segments {
            path.push('/');
            path.extend(utf8_percent_encode(segment, COMPONENT));
        }
        OperatorRequest { method, path, query: None, body: None }
    }

    /// The server as a whole.
    pub fn of_server() -> OperatorRequest {
        OperatorRequest { method: Method::GET, path: format!("{PREFIX}server"), query: None, body: None }
    }

    /// The latest lines of the log, at most `limit`.
    pub fn of_log(limit: u32) -> OperatorRequest {
        let query = Some(format!("limit={limit}"));
        OperatorRequest { method: Method::GET, path: format!("{PREFIX}log"), query, body: None }
    }

    /// Settings, formats, process limits and definitions.
    pub fn of_diagnostics() -> OperatorRequest {
        OperatorRequest { method: Method::GET, path: format!("{PREFIX}diagnostics"), query: None, body: None }
    }

    /// The load of the last `seconds` seconds, second by second.
    pub fn of_pulse(seconds: u32) -> OperatorRequest {
        let query = Some(format!("window={seconds}s"));
        OperatorRequest { method: Method::GET, path: format!("{PREFIX}pulse"), query, body: None }
    }

    /// The account's keys; `rest` is empty, or as `/secondary/rotate`.
    pub fn of_keys(method: Method, rest: &str) -> OperatorRequest {
        OperatorRequest { method, path: format!("{PREFIX}keys{rest}"), query: None, body: None }
    }

    /// A request for the states that are kept for backups; `rest` is the path after `backups`, such as `/{id}`.
    pub fn of_backups(method: Method, rest: &str) -> OperatorRequest {
        OperatorRequest { method, path: format!("{PREFIX}backups{rest}"), query: None, body: None }
    }

    /// `rest` is the path after the container, such as `partitions/3/split`.
    pub fn of_container(method: Method, (database, container): (&str, &str), rest: &str) -> OperatorRequest {
        let [database, container] = [database, container].map(|name| utf8_percent_encode(name, COMPONENT));
        let path = format!("{PREFIX}dbs/{database}/colls/{container}/{rest}");
        OperatorRequest { method, path, query: None, body: None }
    }

    #[must_use]
    pub fn with_body(self, body: String) -> OperatorRequest {
        OperatorRequest { body: Some(body), ..self }
    }

    #[must_use]
    pub fn with_query(self, query: Option<String>) -> OperatorRequest {
        OperatorRequest { query, ..self }
    }

    /// Signed with an account key for a point in time; `host` is the name and port of the server.
    pub fn signed(&self, host: &str, key: &str, now: Timestamp) -> Result<Request<Full<Bytes>>> {
        let since_epoch = std::time::Duration::from_millis(now.milliseconds());
        let date = httpdate::fmt_http_date(std::time::UNIX_EPOCH + since_epoch);
        let payload = signed_payload(&self.path, &self.method, (&date, ""));
        let signature = STANDARD.encode(shardlake_signature::sign(key, &payload)?);
        let token = format!("type=master&ver=1.0&sig={signature}");
        let token = utf8_percent_encode(&token, COMPONENT).to_string();
        let target = match &self.query {
            Some(query) => format!("{}?{query}", self.path),
            None => self.path.clone(),
        };
        let body = Full::new(Bytes::from(self.body.clone().unwrap_or_default()));
        Request::builder()
            .method(self.method.clone())
            .uri(target)
            .header(HOST, host)
            .header("x-ms-date", date)
            .header(AUTHORIZATION, token)
            .header(CONTENT_TYPE, HeaderValue::from_static("application/json"))
            .body(body)
            .map_err(|error| Error::bad_request(format!("the request cannot be sent: {error}")))
    }
}
