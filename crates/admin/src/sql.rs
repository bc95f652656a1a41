//! SQL over analytical tables: requests taken apart, for the service that runs them.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, StatusCode};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use shardlake_model::{Error, ErrorKind, Result, SessionToken};

use crate::pieces::written;
use crate::{OperatorCall, OperatorReply};

/// Text of a statement, and parameters of one.
const STATEMENT_BYTES_MAX: usize = 512 << 10;
const PARAMETERS_MAX: usize = 1_000;
/// Session tokens of one request: more than an account has tables.
const SESSIONS_MAX: usize = 1_000;
const SECONDS: Duration = Duration::from_secs(60);
/// The longest time that a query may ask for.
pub const SQL_SECONDS_MAX: u64 = 600;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SqlTarget {
    Statement,
    Queries,
    Query(String),
}

impl SqlTarget {
    /// The target that the path segments after `analytics` name.
    pub fn of(segments: &[&str], decode: impl Fn(&str) -> Result<String>) -> Result<Option<SqlTarget>> {
        Ok(match segments {
            ["sql"] => Some(SqlTarget::Statement),
            ["queries"] => Some(SqlTarget::Queries),
            ["queries", id] if !id.is_empty() => Some(SqlTarget::Query(decode(id)?)),
            _ => None,
        })
    }
}

/// The form of an answer, by the header `accept`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SqlFormat {
    Json,
    JsonLines,
    Csv,
    ArrowStream,
}

/// The versions that a statement reads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum SqlAsOf {
    #[default]
    Newest,
    /// By `database/container`.
    Versions(BTreeMap<String, u64>),
    /// Milliseconds since 1970.
    Time(i64),
}

/// The writes that the tables of a statement must have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum SqlAtLeast {
    /// Any: the newest version is read as it is.
    #[default]
    Any,
    /// Everything that was acknowledged before the request.
    Now,
    /// Everything that a session has seen, by `(database, container)`. Other tables are read as they are.
    Sessions(BTreeMap<(String, String), SessionToken>),
}

/// A statement to run.
#[derive(Debug, Clone, PartialEq)]
pub struct SqlRequest {
    pub id: String,
    pub statement: String,
    pub parameters: Map<String, Value>,
    pub database: Option<String>,
    pub as_of: SqlAsOf,
    pub at_least: SqlAtLeast,
    pub format: SqlFormat,
    pub bigints_as_text: bool,
    pub time: Duration,
    /// Milliseconds since 1970.
    pub now: i64,
}

/// The beginning of an answer, and its source.
pub struct SqlAnswer {
    pub media_type: String,
    /// Versions of the tables by `database/container`, as JSON.
    pub versions: String,
    pub source: AnswerSource,
}

/// A statement that was refused or failed, with further members of the error's body.
#[derive(Debug)]
pub struct SqlRefusal {
    pub error: Error,
    pub members: Value,
}

pub type SqlFuture<'f> = Pin<Box<dyn Future<Output = Result<SqlAnswer, SqlRefusal>> + Send + 'f>>;

/// Runs statements. Builds without it answer 501.
pub trait SqlService: fmt::Debug + Send + Sync {
    fn run(&self, request: SqlRequest) -> SqlFuture<'_>;

    /// Queries that wait or run, as JSON.
    fn queries(&self) -> Value;

    /// Ends a query; false where none has this id.
    fn cancel(&self, id: &str) -> bool;
}

/// A piece of an answer that is made while it is sent.
#[derive(Debug, PartialEq, Eq)]
pub enum AnswerPiece {
    Data(Bytes),
    /// The answer ends without its end, with the reason.
    Failed(String),
}

/// An answer that is made while it is sent. Dropping it ends its making.
pub trait PieceSource: fmt::Debug + Send {
    fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Option<AnswerPiece>>;
}

pub type AnswerSource = Box<dyn PieceSource>;

/// The body of a request.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Sent {
    query: String,
    #[serde(default)]
    parameters: Map<String, Value>,
    database: Option<String>,
    as_of: Option<SentAsOf>,
    at_least: Option<Value>,
    timeout_seconds: Option<u64>,
    bigints: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SentAsOf {
    version: Option<BTreeMap<String, u64>>,
    time: Option<String>,
}

pub(crate) async fn serve(call: &OperatorCall<'_>, target: &SqlTarget) -> Result<OperatorReply> {
    call.address.only_parameter("")?;
    let service = match call.sql {
        Some(service) => service,
        None => return Err(not_in_build(call).await),
    };
    match (target, call.method.as_str()) {
        (SqlTarget::Statement, "POST") => run(call, service).await,
        (SqlTarget::Queries, "GET") => Ok(crate::ok(written(&json!({ "queries": service.queries() })))),
        (SqlTarget::Query(id), "DELETE") => match service.cancel(id) {
            true => Ok(OperatorReply::empty(StatusCode::NO_CONTENT)),
            false => Err(Error::new(ErrorKind::NotFound, format!("no query '{id}' waits or runs"))),
        },
        _ => Err(crate::wrong_method(call)),
    }
}

/// The refusal of a build without SQL.
async fn not_in_build(call: &OperatorCall<'_>) -> Error {
    let reports = match call.analytics {
        Some(analytics) => analytics.reports().await,
        None => Vec::new(),
    };
    let place = reports.into_iter().find_map(|report| report.location);
    let place = place.unwrap_or_else(|| "ROOT/database/container".into());
    Error::unsupported(format!(
        "SQL over the analytical store is not in this build (feature analytics-sql): use the full build, or read the Delta table at {place} with DuckDB, Polars or Spark"
    ))
}

async fn run(call: &OperatorCall<'_>, service: &dyn SqlService) -> Result<OperatorReply> {
    let request = request(call)?;
    let id = header(&request.id);
    let mut reply = match service.run(request).await {
        Ok(answer) => {
            let mut reply = OperatorReply::empty(StatusCode::OK);
            reply.media_type = Some(header(&answer.media_type));
            reply.headers.push((HeaderName::from_static("x-shardlake-snapshot"), header(&answer.versions)));
            reply.source = Some(answer.source);
            reply
        }
        Err(refusal) => OperatorReply::failed(refusal.error, 0, refusal.members),
    };
    reply.headers.push((HeaderName::from_static("x-shardlake-query-id"), id));
    Ok(reply)
}

fn header(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).unwrap_or_else(|_| HeaderValue::from_static(""))
}

fn request(call: &OperatorCall<'_>) -> Result<SqlRequest> {
    let sent: Sent = serde_json::from_slice(&call.body)
        .map_err(|error| Error::bad_request(format!("the request body is no query: {error}")))?;
    if sent.query.len() > STATEMENT_BYTES_MAX {
        return Err(Error::bad_request(format!(
            "the statement has {} bytes: {STATEMENT_BYTES_MAX} are allowed",
            sent.query.len()
        )));
    }
    if sent.parameters.len() > PARAMETERS_MAX {
        return Err(Error::bad_request(format!(
            "the query has {} parameters: {PARAMETERS_MAX} are allowed",
            sent.parameters.len()
        )));
    }
    let seconds = sent.timeout_seconds.unwrap_or(SECONDS.as_secs());
    if !(1..=SQL_SECONDS_MAX).contains(&seconds) {
        return Err(Error::bad_request(format!("\"timeoutSeconds\" is from 1 to {SQL_SECONDS_MAX}")));
    }
    let at_least = sent.at_least.as_ref().map(at_least).transpose()?.unwrap_or_default();
    let bigints_as_text = match sent.bigints.as_deref() {
        None | Some("number") => false,
        Some("string") => true,
        Some(other) => {
            return Err(Error::bad_request(format!(
                "\"bigints\" is \"number\" or \"string\", not '{other}'"
            )));
        }
    };
    let as_of = sent.as_of.map(as_of).transpose()?.unwrap_or_default();
    if at_least != SqlAtLeast::Any && as_of != SqlAsOf::Newest {
        return Err(Error::bad_request("\"atLeast\" asks for the newest versions: leave \"asOf\" out"));
    }
    assert!(
        at_least == SqlAtLeast::Any || as_of == SqlAsOf::Newest,
        "only the newest versions are waited for"
    );
    Ok(SqlRequest {
        id: call.context.activity_id.to_string(),
        statement: sent.query,
        parameters: sent.parameters,
        database: sent.database,
        as_of,
        at_least,
        format: format_of(call.accept)?,
        bigints_as_text,
        time: Duration::from_secs(seconds),
        now: call.context.now.milliseconds() as i64,
    })
}

fn at_least(sent: &Value) -> Result<SqlAtLeast> {
    match sent {
        Value::Null => Ok(SqlAtLeast::Any),
        Value::String(text) if text == "now" => Ok(SqlAtLeast::Now),
        Value::Object(tokens) if tokens.len() <= SESSIONS_MAX => tokens
            .iter()
            .map(|(name, token)| session(name, token))
            .collect::<Result<_>>()
            .map(SqlAtLeast::Sessions),
        Value::Object(tokens) => Err(Error::bad_request(format!(
            "\"atLeast\" has {} session tokens: {SESSIONS_MAX} are allowed",
            tokens.len()
        ))),
        other => Err(Error::bad_request(format!(
            "\"atLeast\" is \"now\", or an object of session tokens such as {{\"shop/customer\": \"0:1#42\"}}, not {other}"
        ))),
    }
}

/// A container with the token that its replies carried in `x-ms-session-token`.
fn session(name: &str, token: &Value) -> Result<((String, String), SessionToken)> {
    let Some((database, container)) = name.split_once('/') else {
        return Err(Error::bad_request(format!(
            "\"atLeast\" names containers as \"database/container\", not '{name}'"
        )));
    };
    let parsed = token.as_str().and_then(SessionToken::parse).filter(|token| !token.entries.is_empty());
    let parsed = parsed.ok_or_else(|| {
        Error::bad_request(format!(
            "the session token of '{name}' in \"atLeast\" is not valid: send the text of the header x-ms-session-token, not {token}"
        ))
    })?;
    Ok(((database.to_owned(), container.to_owned()), parsed))
}

fn as_of(sent: SentAsOf) -> Result<SqlAsOf> {
    match (sent.version, sent.time) {
        (Some(versions), None) => Ok(SqlAsOf::Versions(versions)),
        (None, Some(time)) => chrono::DateTime::parse_from_rfc3339(&time)
            .map(|time| SqlAsOf::Time(time.timestamp_millis()))
            .map_err(|_| {
                Error::bad_request(format!(
                    "\"asOf\".\"time\" is a time such as 2026-11-30T08:15:00Z, not '{time}'"
                ))
            }),
        _ => Err(Error::bad_request("\"asOf\" has either \"version\" or \"time\"")),
    }
}

/// The first form of the header that is known; JSON where there is none.
fn format_of(accept: Option<&str>) -> Result<SqlFormat> {
    let Some(accept) = accept.map(str::trim).filter(|accept| !accept.is_empty()) else {
        return Ok(SqlFormat::Json);
    };
    let mut kinds = accept.split(',').map(|kind| kind.split(';').next().unwrap_or_default().trim());
    let known = kinds.find_map(|kind| match kind.to_ascii_lowercase().as_str() {
        "application/json" | "*/*" | "application/*" => Some(SqlFormat::Json),
        "application/x-ndjson" | "application/jsonl" => Some(SqlFormat::JsonLines),
        "text/csv" => Some(SqlFormat::Csv),
        "application/vnd.apache.arrow.stream" => Some(SqlFormat::ArrowStream),
        _ => None,
    });
    known.ok_or_else(|| {
        Error::bad_request(
            "no form of the header accept is known: use application/json, application/x-ndjson, text/csv or application/vnd.apache.arrow.stream",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_is_the_first_known_one() {
        for (accept, format) in [
            (None, SqlFormat::Json),
            (Some(""), SqlFormat::Json),
            (Some("*/*"), SqlFormat::Json),
            (Some("text/html, Text/CSV;q=0.5"), SqlFormat::Csv),
            (Some("application/x-ndjson"), SqlFormat::JsonLines),
            (Some("application/vnd.apache.arrow.stream"), SqlFormat::ArrowStream),
        ] {
            assert_eq!(format_of(accept).unwrap(), format, "{accept:?}");
        }
        assert!(format_of(Some("text/html")).is_err());
    }

    #[test]
    fn everything_so_far_or_everything_that_sessions_have_seen() {
        assert_eq!(at_least(&json!("now")).unwrap(), SqlAtLeast::Now);
        assert_eq!(at_least(&Value::Null).unwrap(), SqlAtLeast::Any);
        let SqlAtLeast::Sessions(sessions) = at_least(&json!({ "d/c": "0:7#42,1:7#3" })).unwrap() else {
            panic!("tokens");
        };
        let token = &sessions[&("d".to_owned(), "c".to_owned())];
        assert_eq!(token.entry_of(1).map(|entry| entry.lsn), Some(3));
        for wrong in [
            json!("soon"),
            json!(7),
            json!(["now"]),
            json!({ "c": "0:7#42" }),
            json!({ "d/c": "" }),
            json!({ "d/c": "nonsense" }),
            json!({ "d/c": 42 }),
        ] {
            assert!(at_least(&wrong).unwrap_err().message().contains("atLeast"), "{wrong}");
        }
    }

    #[test]
    fn versions_or_a_time() {
        let of = |text: &str| as_of(serde_json::from_str(text).unwrap());
        let versions = BTreeMap::from([("shop/customer".to_owned(), 812)]);
        assert_eq!(of(r#"{"version":{"shop/customer":812}}"#).unwrap(), SqlAsOf::Versions(versions));
        assert_eq!(of(r#"{"time":"1970-01-01T00:00:01Z"}"#).unwrap(), SqlAsOf::Time(1_000));
        for wrong in ["{}", r#"{"time":"yesterday"}"#, r#"{"time":"x","version":{}}"#] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }
}
