//! Refusals of the server, taken apart: message, places in the query, hints, and the time to wait.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::{Response, StatusCode};
use serde_json::Value;
use shardlake_gateway_nosql::own_words;

/// Characters that are shown of an answer that is no error of the protocol.
const FOREIGN_CHARACTERS: usize = 500;

/// A place in the text of a query, in UTF-16 code units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    pub start: usize,
    pub end: usize,
}

/// One mistake of a query, or the whole of another refusal.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Mistake {
    pub message: String,
    pub position: Option<Position>,
    pub hint: Option<String>,
}

/// The reason why a request has no good answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// `None` where no answer came.
    pub status: Option<StatusCode>,
    pub mistakes: Vec<Mistake>,
    /// Set for throttled requests.
    pub retry_after: Option<Duration>,
    /// The whole time for an answer has passed: a repeated request would only wait as long again.
    is_late: bool,
}

impl Failure {
    pub fn of_connection(message: String) -> Failure {
        let mistakes = vec![Mistake { message, ..Mistake::default() }];
        Failure { status: None, mistakes, retry_after: None, is_late: false }
    }

    pub fn of_late_answer(message: String) -> Failure {
        Failure { is_late: true, ..Failure::of_connection(message) }
    }

    pub fn of_answer(answer: &Response<Bytes>) -> Failure {
        let status = answer.status();
        let header =
            |name: &str| answer.headers().get(name).and_then(|value| value.to_str().ok()?.parse().ok());
        let retry_after = (status == StatusCode::TOO_MANY_REQUESTS)
            .then(|| Duration::from_millis(header("x-ms-retry-after-ms").unwrap_or(100)));
        let mut mistakes = mistakes(answer.body());
        // A read-only key is refused with the same status, and then the server's message has the reason.
        let is_read_only = mistakes.iter().any(|mistake| mistake.message.contains("read-only"));
        if status == StatusCode::UNAUTHORIZED && !is_read_only {
            let message = "the server does not accept the key: give --key or --key-file".to_owned();
            mistakes = vec![Mistake { message, ..Mistake::default() }];
        }
        Failure { status: Some(status), mistakes, retry_after, is_late: false }
    }

    /// Whether the same request may succeed a little later: no answer came, or the server cannot serve at present.
    pub fn is_passing(&self) -> bool {
        !self.is_late && self.status.is_none_or(|status| status == StatusCode::SERVICE_UNAVAILABLE)
    }

    pub fn is_not_found(&self) -> bool {
        self.status == Some(StatusCode::NOT_FOUND)
    }

    pub fn is_conflict(&self) -> bool {
        self.status == Some(StatusCode::CONFLICT)
    }
}

/// All messages and hints in one line.
impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = self.mistakes.iter().map(|mistake| match &mistake.hint {
            Some(hint) => format!("{} ({hint})", mistake.message),
            None => mistake.message.clone(),
        });
        let parts: Vec<String> = parts.filter(|part| !part.is_empty()).collect();
        match (parts.is_empty(), self.status) {
            (true, Some(status)) => write!(formatter, "the server answered {status}"),
            _ => write!(formatter, "{}", parts.join("; ")),
        }
    }
}

impl From<Failure> for String {
    fn from(failure: Failure) -> String {
        failure.to_string()
    }
}

/// The message of an error nests a second JSON text, whose entries are sentences or objects.
fn mistakes(body: &[u8]) -> Vec<Mistake> {
    let plain = |text: &str| vec![Mistake { message: own_sentence(text), ..Mistake::default() }];
    let Ok(outer) = serde_json::from_slice::<Value>(body) else {
        let text = String::from_utf8_lossy(body);
        return plain(&text.chars().take(FOREIGN_CHARACTERS).collect::<String>());
    };
    let message = outer["message"].as_str().unwrap_or_default();
    let inner = message.strip_prefix("Message: ").unwrap_or(message);
    let inner = inner.split("\r\nActivityId:").next().unwrap_or(inner);
    let Ok(nested) = serde_json::from_str::<Value>(inner) else { return plain(inner) };
    let entries = [&nested["errors"], &nested["Errors"]].into_iter().find_map(Value::as_array);
    let entries = entries.into_iter().flatten().map(|entry| match entry.as_str() {
        Some(sentence) => Mistake { message: own_sentence(sentence), ..Mistake::default() },
        None => mistake(entry),
    });
    let entries: Vec<Mistake> = entries.collect();
    if entries.is_empty() { plain(inner) } else { entries }
}

fn mistake(entry: &Value) -> Mistake {
    let place = |name: &str| entry["location"][name].as_u64().map(|at| at as usize);
    let message = entry["message"].as_str().unwrap_or_default();
    let code = entry["code"].as_str().unwrap_or_default();
    Mistake {
        message: if code.is_empty() { message.to_owned() } else { format!("{code}: {message}") },
        position: place("start")
            .map(|start| Position { start, end: place("end").unwrap_or(start).max(start) }),
        hint: entry["hint"].as_str().map(str::to_owned),
    }
}

/// Without the sentences that SDKs search for, in one line.
pub fn own_sentence(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match own_words(&line) {
        "" => line,
        own => own.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(status: u16, body: &str) -> Failure {
        let answer = Response::builder().status(status).header("x-ms-retry-after-ms", "7");
        Failure::of_answer(&answer.body(Bytes::copy_from_slice(body.as_bytes())).expect("valid"))
    }

    #[test]
    fn mistakes_in_queries_have_places_and_hints() {
        let nested = r#"{"errors":[{"severity":"Error","location":{"start":7,"end":9},"code":"SC2001","message":"Identifier 'x' could not be resolved.","hint":"write c.x"}]}"#;
        let body = serde_json::json!({ "code": "BadRequest", "message": format!("Message: {nested}\r\nActivityId: 1") });
        let failure = answered(400, &body.to_string());
        assert_eq!(failure.mistakes[0].position, Some(Position { start: 7, end: 9 }));
        assert_eq!(failure.to_string(), "SC2001: Identifier 'x' could not be resolved. (write c.x)");
        assert_eq!(failure.retry_after, None);
    }

    #[test]
    fn other_refusals_are_their_sentence() {
        let sentence = r#"{"Errors":["there is no shard 9"]}"#;
        let body = serde_json::json!({ "message": format!("Message: {sentence}\r\nActivityId: 1") });
        assert_eq!(answered(400, &body.to_string()).to_string(), "there is no shard 9");
        assert_eq!(answered(429, "{}").retry_after, Some(Duration::from_millis(7)));
        assert_eq!(answered(502, "<html>").to_string(), "<html>");
        assert_eq!(answered(500, "").to_string(), "the server answered 500 Internal Server Error");
        assert!(answered(401, "{}").to_string().contains("--key"));
        assert!(Failure::of_connection("reset".into()).is_passing() && answered(503, "").is_passing());
        assert!(!Failure::of_late_answer("late".into()).is_passing());
    }
}
