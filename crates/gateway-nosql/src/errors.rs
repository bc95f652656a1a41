//! Error kinds as clients see them: the (status, sub-status, code) triple of each kind, and the error body.
//!
//! The body is a JSON object with `code` and `message` for every status from 400 up, because clients read both without
//! looking. The message nests a second JSON text, as the reference's does; clients and their tests search it for the sentences
//! that [`Shape::sentence`] puts first. Texts that a test searches for but that belong to one rule come from the code that
//! enforces the rule.

use std::borrow::Cow;

use http::StatusCode;
use shardlake_account::ContainerHandle;
use shardlake_model::{Error, ErrorKind};
use shardlake_stdx::Guid;

/// An error on its way out, with the container it concerns: clients take session tokens from some errors.
pub(crate) struct Failure {
    pub error: Error,
    pub container: Option<ContainerHandle>,
}

impl Failure {
    pub fn within(error: Error, container: &ContainerHandle) -> Self {
        Failure { error, container: Some(container.clone()) }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure { error, container: None }
    }
}

/// How an error kind looks on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    pub status: StatusCode,
    /// 0 stands for no sub-status header.
    pub substatus: u32,
    pub code: &'static str,
    /// The reference's own sentence, before ours.
    pub sentence: &'static str,
}

/// The only place where kinds become numbers.
pub(crate) fn shape(kind: ErrorKind) -> Shape {
    let (status, substatus, code, sentence) = match kind {
        ErrorKind::BadRequest => (StatusCode::BAD_REQUEST, 0, "BadRequest", ""),
        ErrorKind::PartitionKeyMismatch => (
            StatusCode::BAD_REQUEST,
            1001,
            "BadRequest",
            "PartitionKey extracted from document doesn't match the one specified in the header. Partition key provided either doesn't correspond to definition in the collection or doesn't match partition key field values specified in the document.",
        ),
        ErrorKind::StaleContainer => (StatusCode::BAD_REQUEST, 1024, "BadRequest", ""),
        ErrorKind::CrossPartitionQuery => (StatusCode::BAD_REQUEST, 1004, "BadRequest", ""),
        ErrorKind::Unauthorized => (StatusCode::UNAUTHORIZED, 0, "Unauthorized", ""),
        ErrorKind::Forbidden => (StatusCode::FORBIDDEN, 0, "Forbidden", ""),
        ErrorKind::LogicalPartitionFull => (StatusCode::FORBIDDEN, 1014, "Forbidden", ""),
        ErrorKind::AccountFull => (StatusCode::BAD_REQUEST, 0, "BadRequest", ""),
        ErrorKind::PartitionFull => (StatusCode::FORBIDDEN, 0, "Forbidden", ""),
        ErrorKind::NotFound => (
            StatusCode::NOT_FOUND,
            0,
            "NotFound",
            "Entity with the specified id does not exist in the system.",
        ),
        ErrorKind::OwnerNotFound => {
            (StatusCode::NOT_FOUND, 1003, "NotFound", "Owner resource does not exist.")
        }
        ErrorKind::SessionNotAvailable => (
            StatusCode::NOT_FOUND,
            1002,
            "NotFound",
            "The read session is not available for the input session token.",
        ),
        ErrorKind::MethodNotAllowed => (StatusCode::METHOD_NOT_ALLOWED, 0, "MethodNotAllowed", ""),
        ErrorKind::Timeout => (StatusCode::REQUEST_TIMEOUT, 0, "RequestTimeout", ""),
        ErrorKind::Conflict => (
            StatusCode::CONFLICT,
            0,
            "Conflict",
            "Entity with the specified id already exists in the system.",
        ),
        ErrorKind::InProgress => (StatusCode::CONFLICT, 0, "Conflict", ""),
        ErrorKind::PartitionGone => {
            (StatusCode::GONE, 1002, "Gone", "The requested resource is no longer available.")
        }
        ErrorKind::PreconditionFailed => (
            StatusCode::PRECONDITION_FAILED,
            0,
            "PreconditionFailed",
            "Operation cannot be performed because one of the specified precondition is not met.",
        ),
        ErrorKind::TooLarge => {
            (StatusCode::PAYLOAD_TOO_LARGE, 0, "RequestEntityTooLarge", "Request size is too large.")
        }
        ErrorKind::FailedDependency => (StatusCode::FAILED_DEPENDENCY, 0, "FailedDependency", ""),
        ErrorKind::TooManyRequests => {
            (StatusCode::TOO_MANY_REQUESTS, 3200, "TooManyRequests", "Request rate is large.")
        }
        ErrorKind::Unsupported => (StatusCode::NOT_IMPLEMENTED, 0, "NotImplemented", ""),
        ErrorKind::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, 0, "ServiceUnavailable", ""),
        ErrorKind::Corrupt | ErrorKind::Internal => {
            (StatusCode::INTERNAL_SERVER_ERROR, 0, "InternalServerError", "")
        }
    };
    Shape { status, substatus, code, sentence }
}

/// Names from paths are repeated up to here.
const NAME_BYTES_MAX: usize = 256;
/// More than the 4,000 characters of an error of a script.
const SENTENCE_BYTES_MAX: usize = 16 << 10;

/// The reference's sentence, then ours.
pub(crate) fn sentence(error: &Error) -> String {
    bounded(error.kind(), joined(error))
}

fn joined(error: &Error) -> String {
    let standard = shape(error.kind()).sentence;
    let own = error.message();
    if standard.is_empty() || own.contains(standard) {
        own.to_owned()
    } else if own.is_empty() {
        standard.to_owned()
    } else {
        format!("{standard} {own}")
    }
}

/// Errors quote the request; long texts are cut, so that no request makes a response that is longer than itself.
fn bounded(kind: ErrorKind, sentence: String) -> String {
    let is_of_a_path =
        matches!(kind, ErrorKind::NotFound | ErrorKind::OwnerNotFound | ErrorKind::MethodNotAllowed);
    match sentence.len() {
        0..=NAME_BYTES_MAX => sentence,
        _ if is_of_a_path => {
            let words: Vec<Cow<'_, str>> =
                sentence.split(' ').map(|word| cut(word, NAME_BYTES_MAX)).collect();
            cut(&words.join(" "), SENTENCE_BYTES_MAX).into_owned()
        }
        _ => cut(&sentence, SENTENCE_BYTES_MAX).into_owned(),
    }
}

/// At most so many bytes, and an ellipsis for the others.
fn cut(text: &str, bytes_max: usize) -> Cow<'_, str> {
    if text.len() <= bytes_max {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("{}…", &text[..text.floor_char_boundary(bytes_max)]))
}

/// The part of an error message after the reference's sentence, for people who do not speak the protocol.
pub fn own_words(sentence: &str) -> &str {
    let kinds = [
        ErrorKind::NotFound,
        ErrorKind::OwnerNotFound,
        ErrorKind::Conflict,
        ErrorKind::PartitionGone,
        ErrorKind::PreconditionFailed,
        ErrorKind::TooLarge,
        ErrorKind::TooManyRequests,
    ];
    let own = kinds.iter().find_map(|kind| sentence.strip_prefix(shape(*kind).sentence));
    own.unwrap_or(sentence).trim_start()
}

/// The JSON body of an error response.
pub(crate) fn body(error: &Error, activity_id: Guid, request_uri: &str) -> Vec<u8> {
    let own = joined(error);
    // Errors of queries come as the list that clients take apart.
    let is_list = ["{\"errors\":[", "{\"Errors\":["].iter().any(|start| own.starts_with(start));
    let own = if is_list { own } else { bounded(error.kind(), own) };
    let request_uri = cut(request_uri, NAME_BYTES_MAX);
    let errors = if is_list { own } else { format!("{{\"Errors\":[{}]}}", json_string(&own)) };
    let message = format!("Message: {errors}\r\nActivityId: {activity_id}, Request URI: {request_uri}");
    let code = shape(error.kind()).code;
    format!("{{\"code\":\"{code}\",\"message\":{}}}", json_string(&message)).into_bytes()
}

fn json_string(text: &str) -> String {
    serde_json::to_string(text).expect("text always has a JSON form")
}

/// Every kind, and its documented status, substatus and code.
#[cfg(test)]
pub(crate) const NUMBERS: [(ErrorKind, u16, u32, &str); 25] = {
    use ErrorKind::*;
    [
        (BadRequest, 400, 0, "BadRequest"),
        (PartitionKeyMismatch, 400, 1001, "BadRequest"),
        (StaleContainer, 400, 1024, "BadRequest"),
        (CrossPartitionQuery, 400, 1004, "BadRequest"),
        (Unauthorized, 401, 0, "Unauthorized"),
        (Forbidden, 403, 0, "Forbidden"),
        (LogicalPartitionFull, 403, 1014, "Forbidden"),
        (PartitionFull, 403, 0, "Forbidden"),
        (AccountFull, 400, 0, "BadRequest"),
        (NotFound, 404, 0, "NotFound"),
        (OwnerNotFound, 404, 1003, "NotFound"),
        (SessionNotAvailable, 404, 1002, "NotFound"),
        (MethodNotAllowed, 405, 0, "MethodNotAllowed"),
        (Timeout, 408, 0, "RequestTimeout"),
        (Conflict, 409, 0, "Conflict"),
        (InProgress, 409, 0, "Conflict"),
        (PartitionGone, 410, 1002, "Gone"),
        (PreconditionFailed, 412, 0, "PreconditionFailed"),
        (TooLarge, 413, 0, "RequestEntityTooLarge"),
        (FailedDependency, 424, 0, "FailedDependency"),
        (TooManyRequests, 429, 3200, "TooManyRequests"),
        (Unsupported, 501, 0, "NotImplemented"),
        (Unavailable, 503, 0, "ServiceUnavailable"),
        (Corrupt, 500, 0, "InternalServerError"),
        (Internal, 500, 0, "InternalServerError"),
    ]
};

#[cfg(test)]
mod tests {
    use super::*;

    const ACTIVITY: Guid = Guid([7; 16]);

    #[test]
    fn long_names_are_cut_and_what_scripts_say_is_not() {
        let said = |kind, message: &str| {
            String::from_utf8(body(&Error::new(kind, message), ACTIVITY, &"ü/".repeat(10_000))).expect("JSON")
        };
        let long = "ü".repeat(20_000);
        let missing = said(ErrorKind::NotFound, &format!("there is no item '{long}' in 'c'"));
        assert!(missing.len() < 1_500 && missing.contains("ü… in 'c'"), "{missing}");
        assert!(said(ErrorKind::BadRequest, &long).len() < 20_000);
        let script = "word ".repeat(3_000);
        assert!(said(ErrorKind::BadRequest, &script).contains(&script));
    }

    #[test]
    fn the_body_is_json_with_code_and_message_whatever_the_text() {
        let error = Error::new(ErrorKind::NotFound, "no item 'a\"b\\c\n' in \u{1F600}");
        let body: serde_json::Value =
            serde_json::from_slice(&body(&error, ACTIVITY, "/dbs/\"x\"")).expect("valid JSON");
        assert_eq!(body["code"], "NotFound");
        let message = body["message"].as_str().expect("text");
        assert!(
            message.contains("Entity with the specified id does not exist in the system. no item"),
            "{message}"
        );
        assert!(
            message.contains(&format!("\r\nActivityId: {ACTIVITY}, Request URI: /dbs/\"x\"")),
            "{message}"
        );
        let inner =
            message.strip_prefix("Message: ").expect("prefix").split("\r\n").next().expect("one line");
        let inner: serde_json::Value = serde_json::from_str(inner).expect("the nested text is JSON too");
        assert!(inner["Errors"][0].as_str().expect("text").ends_with('\u{1F600}'));
    }

    #[test]
    fn every_kind_has_the_documented_numbers() {
        for (kind, status, substatus, code) in NUMBERS {
            let shape = shape(kind);
            assert_eq!(
                (shape.status.as_u16(), shape.substatus, shape.code),
                (status, substatus, code),
                "{kind:?}"
            );
        }
    }
}
