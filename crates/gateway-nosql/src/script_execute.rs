//! Running a stored procedure: POST to its link (wire.md §15).
//!
//! The body lists the arguments as `Function.prototype.apply` takes them: a JSON array, an object with a length, or nothing. The
//! procedure sets the reply's body, an empty string by default. Its log is returned in a header, percent-encoded, if the
//! request asks for it.

use http::{HeaderValue, StatusCode};
use percent_encoding::utf8_percent_encode;
use serde_json::value::RawValue;
use shardlake_account::ContainerHandle;
use shardlake_document::{ParseLimits, check_numbers};
use shardlake_model::{Error, ErrorKind, Result, ScriptKind};

use crate::call::Call;
use crate::header_names::SCRIPT_LOG;
use crate::header_text::PATH_ENCODED;
use crate::headers::flag;
use crate::items::required_key;
use crate::reply::Reply;
use crate::session;

/// Bytes of the log header at most: clients give up on responses with more than 16 KB of headers.
const LOG_HEADER_BYTES_MAX: usize = 8 * 1024;
/// Ends a log that was longer.
const LOG_CUT: &str = "...%20%28cut%20off%29";

pub(crate) async fn execute(call: &Call<'_>, container: &ContainerHandle) -> Result<Reply> {
    let script = container.script(ScriptKind::Procedure, call.path.script())?;
    let logs = flag("x-ms-documentdb-script-enable-logging", call.headers.script_logging)?;
    let arguments = arguments(&call.body, call.account.router().limits().item_size_bytes_max)?;
    check_numbers(arguments.as_bytes(), &ParseLimits::of_items(call.account.router().limits())).map_err(
        |error| Error::bad_request(format!("the arguments of a stored procedure are not valid: {error}")),
    )?;
    let session = session::wanted(call.headers.session_token, call.context.consistency)?;
    let context = shardlake_model::RequestContext { session, ..call.context.clone() };
    let key = required_key(call)?;
    let reply = call
        .account
        .procedures()
        .execute_procedure(&context, container, Some(&key), &script, arguments, logs)
        .await?;
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

/// The text of the list of arguments.
fn arguments(body: &[u8], size_bytes_max: usize) -> Result<&str> {
    if body.len() > size_bytes_max {
        let message = format!("a stored procedure takes at most {size_bytes_max} bytes of arguments");
        return Err(Error::new(ErrorKind::TooLarge, message));
    }
    let text = std::str::from_utf8(body)
        .map_err(|_| Error::bad_request("the arguments of a stored procedure must be UTF-8 text"))?;
    if matches!(text.trim(), "" | "null") {
        return Ok("[]");
    }
    let refused = |why: &dyn std::fmt::Display| {
        Error::bad_request(format!(
            "the arguments of a stored procedure must be a JSON array, in the order of its parameters: {why}"
        ))
    };
    let list = serde_json::from_str::<&RawValue>(text).map_err(|error| refused(&error))?;
    if !list.get().starts_with(['[', '{']) {
        return Err(refused(&"the body is neither an array nor an object"));
    }
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
    fn arguments_are_a_list_or_nothing() {
        let arguments = |body: &[u8]| arguments(body, 100_000).map(str::to_owned);
        for (body, text) in [("", "[]"), (" null ", "[]"), ("[]", "[]")] {
            assert_eq!(arguments(body.as_bytes()).expect(body), text);
        }
        for body in [r#"[1,{"a":[]}]"#, r#" {"0":1,"length":1}"#] {
            assert_eq!(arguments(body.as_bytes()).expect(body), body);
        }
        for body in ["1", "true", "[1", "[1] 2", "\"x\"", "undefined", "[x:4]"] {
            assert!(arguments(body.as_bytes()).expect_err(body).message().contains("JSON array"));
        }
        let deep = "[".repeat(100_000);
        assert_eq!(arguments(deep.as_bytes()).expect_err("no end").kind(), ErrorKind::BadRequest);
        assert!(arguments(b"[\"\xff\"]").is_err());
        let long = format!("[{}]", " ".repeat(100_000));
        assert_eq!(arguments(long.as_bytes()).expect_err("too long").kind(), ErrorKind::TooLarge);
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
