//! Running a stored procedure: POST to its link (wire.md §15).
//!
//! The body is a JSON array of arguments, or nothing. The reply's body is what the procedure set, an empty string if it set none;
//! what it logged comes in a header, percent-encoded, if the request asks for it.

use http::{HeaderValue, StatusCode};
use percent_encoding::utf8_percent_encode;
use serde_json::value::RawValue;
use shardlake_account::ContainerHandle;
use shardlake_document::{ParseLimits, check_numbers};
use shardlake_model::{Error, Result, ScriptKind};

use crate::call::Call;
use crate::headers::flag;
use crate::items::required_key;
use crate::reply::{PATH_ENCODED, Reply, SCRIPT_LOG};
use crate::session;

/// Bytes of the log header at most: clients give up on responses with more than 16 KB of headers.
const LOG_HEADER_BYTES_MAX: usize = 8 * 1024;
/// Ends a log that was longer.
const LOG_CUT: &str = "...%20%28cut%20off%29";

pub(crate) async fn execute(call: &Call<'_>, container: &ContainerHandle) -> Result<Reply> {
    let script = container.script(ScriptKind::Procedure, call.path.script())?;
    let logs = flag("x-ms-documentdb-script-enable-logging", call.headers.script_logging)?;
    let arguments = arguments(&call.body)?;
    check_numbers(arguments.as_bytes(), &ParseLimits::of_items(call.account.limits())).map_err(|error| {
        Error::bad_request(format!("the arguments of a stored procedure are not valid: {error}"))
    })?;
    let session = session::wanted(call.headers.session_token, call.context.consistency)?;
    let context = shardlake_model::RequestContext { session, ..call.context.clone() };
    let key = required_key(call)?;
    let reply =
        call.account.execute_procedure(&context, container, Some(&key), &script, arguments, logs).await?;
    let mut response = Reply {
        status: StatusCode::OK,
        meta: reply.meta,
        container: Some(container.clone()),
        body: Some(reply.body.unwrap_or_else(|| "\"\"".to_owned()).into()),
        ..Reply::default()
    };
    if logs && !reply.log.is_empty() {
        response.extra.push((SCRIPT_LOG.clone(), log_header(&reply.log)));
    }
    Ok(response)
}

/// The text of the array of arguments.
fn arguments(body: &[u8]) -> Result<&str> {
    let text = std::str::from_utf8(body)
        .map_err(|_| Error::bad_request("the arguments of a stored procedure must be UTF-8 text"))?;
    if matches!(text.trim(), "" | "null") {
        return Ok("[]");
    }
    serde_json::from_str::<Vec<&RawValue>>(text).map_err(|error| {
        Error::bad_request(format!(
            "the arguments of a stored procedure must be a JSON array, in the order of its parameters: {error}"
        ))
    })?;
    Ok(text)
}

fn log_header(log: &str) -> HeaderValue {
    let mut encoded = String::with_capacity(log.len().min(LOG_HEADER_BYTES_MAX));
    for character in log.chars() {
        let before = encoded.len();
        let mut buffer = [0; 4];
        encoded.extend(utf8_percent_encode(character.encode_utf8(&mut buffer), PATH_ENCODED));
        if encoded.len() + LOG_CUT.len() > LOG_HEADER_BYTES_MAX {
            encoded.truncate(before);
            encoded.push_str(LOG_CUT);
            break;
        }
    }
    HeaderValue::try_from(encoded).expect("percent-encoded text is visible ASCII")
}

#[cfg(test)]
mod tests {
    use percent_encoding::percent_decode_str;

    use super::*;

    #[test]
    fn arguments_are_an_array_or_nothing() {
        for (body, text) in
            [("", "[]"), (" null ", "[]"), ("[]", "[]"), (r#"[1,{"a":[]}]"#, r#"[1,{"a":[]}]"#)]
        {
            assert_eq!(arguments(body.as_bytes()).expect(body), text);
        }
        for body in ["1", r#"{"a":1}"#, "[1", "[1] 2", "\"x\""] {
            assert!(arguments(body.as_bytes()).expect_err(body).message().contains("JSON array"));
        }
        let deep = "[".repeat(100_000);
        assert!(arguments(deep.as_bytes()).is_err());
        assert!(arguments(b"[\"\xff\"]").is_err());
    }

    #[test]
    fn logs_are_encoded_as_clients_expect_and_bounded() {
        assert_eq!(log_header("The value of x is 1."), "The%20value%20of%20x%20is%201.");
        assert_eq!(log_header("a\r\nb\u{20ac}"), "a%0D%0Ab%E2%82%AC");
        let long = log_header(&"\u{20ac}\n".repeat(10_000));
        let text = long.to_str().expect("ASCII");
        assert!(text.len() <= LOG_HEADER_BYTES_MAX && text.ends_with(LOG_CUT));
        let decoded = percent_decode_str(text).decode_utf8().expect("whole characters");
        assert!(decoded.ends_with("(cut off)"));
    }
}
