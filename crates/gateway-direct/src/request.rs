//! From a frame to a request of the REST protocol.
//!
//! In HTTP, method and four headers together name the operation; in a frame the operation type does, and no token repeats it. All else is names, which become the path, and tokens, which become headers by the table of `request_tokens.rs`. Texts stay in the
//! frame's own memory.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, IF_MATCH, IF_NONE_MATCH};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};

use crate::frame::RequestHead;
use crate::kinds::{OperationType, ResourceType};
use crate::path;
use crate::request_tokens::{
    CONSISTENCY_LEVEL, CONTAINER_RID, DIRECTION_FORWARD, ENUMERATION_DIRECTION, Form, KEY_TYPE_BYTES, MATCH,
    READ_CONSISTENCY_STRATEGY, READ_FEED_KEY_TYPE, REFUSED, REPLICA_PATH, row_of,
};
use crate::token::{Token, Value};

/// A request that a frame stands for; its body comes behind the frame.
#[derive(Debug)]
pub struct DirectRequest {
    pub method: Method,
    pub uri: Uri,
    pub headers: HeaderMap,
    /// Path of the address that the frame was sent to.
    pub replica_path: String,
    /// Resource id of the container that the names are believed to mean.
    pub container_rid: Option<String>,
}

/// Why a frame asks for nothing that can be done. It is answered with 400.
#[derive(Debug, PartialEq, Eq)]
pub struct Refusal(pub String);

const ACTIVITY_ID: HeaderName = HeaderName::from_static("x-ms-activity-id");
const VERSION: HeaderName = HeaderName::from_static("x-ms-version");
const IS_QUERY: HeaderName = HeaderName::from_static("x-ms-documentdb-isquery");
const IS_UPSERT: HeaderName = HeaderName::from_static("x-ms-documentdb-is-upsert");
const IS_BATCH: HeaderName = HeaderName::from_static("x-ms-cosmos-is-batch-request");
const IS_QUERY_PLAN: HeaderName = HeaderName::from_static("x-ms-cosmos-is-query-plan-request");
const START_HASH: HeaderName = HeaderName::from_static("x-ms-start-epk");
const END_HASH: HeaderName = HeaderName::from_static("x-ms-end-epk");
const TRUE: HeaderValue = HeaderValue::from_static("True");
/// A frame has about twenty tokens.
const HEADERS_CAPACITY: usize = 28;
const BATCH_TOKENS: std::ops::RangeInclusive<u16> = 0x73..=0x75;

/// The request that a frame stands for. `frame` are the bytes that `head` was read from, `version` and `user_agent` those of the
/// connection's context.
pub fn translate(
    head: &RequestHead<'_>,
    frame: &Bytes,
    (version, user_agent): (&HeaderValue, &HeaderValue),
) -> Result<DirectRequest, Refusal> {
    let kinds = ResourceType::of(head.resource).zip(OperationType::of(head.operation));
    let Some((resource, operation)) = kinds else {
        return Err(Refusal(format!(
            "operation type {} on resource type {} is not supported in Direct mode: use gateway mode",
            head.operation, head.resource
        )));
    };
    let path = path::path(resource, operation, &head.tokens).ok_or_else(|| {
        Refusal(format!("{operation:?} of {resource:?} needs names, or a resource id of its kind"))
    })?;
    let uri = Uri::try_from(path).map_err(|_| Refusal("the names are too long for a path".into()))?;
    let mut headers = HeaderMap::with_capacity(HEADERS_CAPACITY);
    headers.insert(ACTIVITY_ID, activity_id(head.activity_id));
    headers.insert(VERSION, version.clone());
    headers.insert(http::header::USER_AGENT, user_agent.clone());
    operation_headers(&mut headers, operation);
    let scope = Scope {
        frame,
        resource,
        operation,
        has_strategy: head.tokens.get(READ_CONSISTENCY_STRATEGY).is_some(),
        has_hash_bytes: head.tokens.get(READ_FEED_KEY_TYPE) == Some(Value::Byte(KEY_TYPE_BYTES)),
    };
    let (mut replica_path, mut container_rid) = (String::new(), None);
    for token in head.tokens.iter() {
        match token.id {
            REPLICA_PATH => replica_path = text(token)?.to_owned(),
            CONTAINER_RID => container_rid = Some(text(token)?.to_owned()),
            _ => scope.add(&mut headers, token)?,
        }
    }
    fill_bounds(&mut headers);
    Ok(DirectRequest { method: operation.method(), uri, headers, replica_path, container_rid })
}

/// A feed between hashes has two bounds. Where one is open, HTTP has an empty header and a frame has no token.
fn fill_bounds(headers: &mut HeaderMap) {
    if headers.contains_key(START_HASH) != headers.contains_key(END_HASH) {
        headers.entry(START_HASH).or_insert(HeaderValue::from_static(""));
        headers.entry(END_HASH).or_insert(HeaderValue::from_static("FF"));
    }
}

/// The headers that stand for an operation type.
fn operation_headers(headers: &mut HeaderMap, operation: OperationType) {
    match operation {
        OperationType::Query | OperationType::QueryPlan => {
            headers.insert(IS_QUERY, TRUE);
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/query+json"));
            if operation == OperationType::QueryPlan {
                headers.insert(IS_QUERY_PLAN, TRUE);
            }
        }
        OperationType::Patch => {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json_patch+json"));
        }
        OperationType::Upsert => {
            headers.insert(IS_UPSERT, TRUE);
        }
        OperationType::Batch => {
            headers.insert(IS_BATCH, TRUE);
        }
        _ => {}
    }
}

/// The frame's parts on which the meaning of a token depends.
struct Scope<'f> {
    frame: &'f Bytes,
    resource: ResourceType,
    operation: OperationType,
    has_strategy: bool,
    has_hash_bytes: bool,
}

impl Scope<'_> {
    fn add(&self, headers: &mut HeaderMap, token: &Token<'_>) -> Result<(), Refusal> {
        if token.id == MATCH {
            let is_read = matches!(self.operation, OperationType::Read | OperationType::ReadFeed);
            let header = if is_read { IF_NONE_MATCH } else { IF_MATCH };
            headers.insert(header, self.shared(token)?);
            return Ok(());
        }
        let Some(row) = row_of(token.id) else { return refuse(token) };
        if self.is_left_out(token.id) {
            return Ok(());
        }
        if BATCH_TOKENS.contains(&token.id) && self.operation != OperationType::Batch {
            return Err(Refusal(format!("the token {:#06x} belongs to batches", token.id)));
        }
        headers.insert(row.header.clone(), self.written(token, &row.form)?);
        Ok(())
    }

    /// Clients send Strong with each request for metadata, at every level of the account; Java names BoundedStaleness with each
    /// strategy. There is one copy of the data, so that every read has the last write.
    fn is_left_out(&self, id: u16) -> bool {
        id == CONSISTENCY_LEVEL && (self.resource.is_metadata() || self.has_strategy)
    }

    fn written(&self, token: &Token<'_>, form: &Form) -> Result<HeaderValue, Refusal> {
        let number = || token.value.as_integer().ok_or_else(|| wrong(token));
        let written = |text: String| HeaderValue::try_from(text).map_err(|_| wrong(token));
        match form {
            Form::Text => self.shared(token),
            Form::Json => {
                let text = text(token)?;
                if text.is_ascii() { self.shared(token) } else { written(escaped(text)) }
            }
            Form::Number => Ok(HeaderValue::from(number()?)),
            Form::PageSize if token.value == Value::ULong(u32::MAX) => Ok(HeaderValue::from_static("-1")),
            Form::PageSize => Ok(HeaderValue::from(number()?)),
            Form::Flag => match number()? {
                0 => Ok(HeaderValue::from_static("False")),
                1 => Ok(TRUE),
                _ => Err(wrong(token)),
            },
            Form::Guid => match token.value {
                Value::Guid(bytes) => Ok(activity_id(bytes)),
                _ => Err(wrong(token)),
            },
            Form::Word(words) => {
                let number = number()?;
                let word = words.iter().find(|(stands_for, _)| i64::from(*stands_for) == number);
                word.map(|(_, word)| HeaderValue::from_static(word)).ok_or_else(|| wrong(token))
            }
            Form::Words(words) => {
                let number = number()?;
                let named = words.iter().filter(|(bit, _)| number & i64::from(*bit) != 0);
                written(named.map(|(_, word)| *word).collect::<Vec<_>>().join(","))
            }
            Form::Hash if self.has_hash_bytes => {
                let bytes = token.value.as_bytes().ok_or_else(|| wrong(token))?;
                written(bytes.iter().map(|byte| format!("{byte:02X}")).collect())
            }
            Form::Hash => self.shared(token),
        }
    }

    /// A text without a copy of it.
    fn shared(&self, token: &Token<'_>) -> Result<HeaderValue, Refusal> {
        let text = text(token)?;
        HeaderValue::from_maybe_shared(self.frame.slice_ref(text.as_bytes())).map_err(|_| wrong(token))
    }
}

/// Whether a token that stands for no header may be passed over.
fn refuse(token: &Token<'_>) -> Result<(), Refusal> {
    let asks_nothing = token.value.as_integer() == Some(0);
    if token.id == ENUMERATION_DIRECTION && token.value.as_integer() != Some(DIRECTION_FORWARD) {
        return Err(Refusal("a feed in the other direction (EnumerationDirection) is not supported".into()));
    }
    match REFUSED.iter().find(|(id, _)| *id == token.id) {
        Some((_, feature)) if !asks_nothing => Err(Refusal(format!("not supported: {feature}"))),
        _ => Ok(()),
    }
}

fn text<'f>(token: &Token<'f>) -> Result<&'f str, Refusal> {
    let bytes = token.value.as_bytes().ok_or_else(|| wrong(token))?;
    std::str::from_utf8(bytes).map_err(|_| wrong(token))
}

fn wrong(token: &Token<'_>) -> Refusal {
    Refusal(format!("the token {:#06x} of the frame has a value that it cannot have", token.id))
}

/// JSON with an escape for each character that is not ASCII.
fn escaped(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len() * 2);
    for character in json.chars() {
        if character.is_ascii() {
            escaped.push(character);
            continue;
        }
        let mut units = [0; 2];
        for unit in character.encode_utf16(&mut units) {
            escaped.push_str(&format!("\\u{unit:04x}"));
        }
    }
    debug_assert!(escaped.is_ascii(), "a header holds ASCII alone");
    escaped
}

/// As clients write it, from how it is laid out: the first three groups are little-endian.
fn activity_id(bytes: [u8; 16]) -> HeaderValue {
    const ORDER: [usize; 16] = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15];
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = [b'-'; 36];
    let mut place = 0;
    for (count, from) in ORDER.into_iter().enumerate() {
        if matches!(count, 4 | 6 | 8 | 10) {
            place += 1;
        }
        text[place] = DIGITS[usize::from(bytes[from] >> 4)];
        text[place + 1] = DIGITS[usize::from(bytes[from] & 15)];
        place += 2;
    }
    debug_assert_eq!(place, text.len(), "every digit has its place");
    HeaderValue::from_bytes(&text).expect("digits and dashes")
}
