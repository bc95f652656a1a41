//! Formats of bodies: JSON text, and Cosmos binary JSON where a client asks for it.
//!
//! | the client takes | items | pages, results of batches |
//! |---|---|---|
//! | nothing in particular, or `JsonText` | text | text |
//! | `JsonText,CosmosBinary` | binary | text, which saves a conversion |
//! | `CosmosBinary` | binary | binary |
//! | `HybridRow` alone | 501 | 501 |
//! | a list with anything else in it | 400 | 400 |
//!
//! Batches that are sent in HybridRow are answered in HybridRow, and their items are text but for clients that take `CosmosBinary` alone.
//!
//! Only successful answers are binary: errors are text for every client. The first byte of a request's body
//! shows its format.

use std::borrow::Cow;

use shardlake_document::{NESTING_CEILING, ParseLimits, binary_of_json, is_binary, json_of_binary};
use shardlake_model::{Error, Result};

use crate::call::Call;
use crate::headers::RequestHeaders;
use crate::reply::Reply;

/// The formats of the service.
const FORMATS: [&str; 3] = ["JsonText", "CosmosBinary", "HybridRow"];

/// How an answer is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnswerFormat {
    Text,
    /// Items are binary, everything else is text.
    BinaryItems,
    Binary,
}

impl AnswerFormat {
    pub fn of(headers: &RequestHeaders<'_>) -> Result<AnswerFormat> {
        let Some(list) = headers.content_format.or(headers.supported_formats) else {
            return Ok(AnswerFormat::Text);
        };
        if list.is_empty() {
            return Ok(AnswerFormat::Text);
        }
        let mut has = [false; FORMATS.len()];
        for format in list.split(',').map(str::trim) {
            let known = FORMATS.iter().position(|name| format.eq_ignore_ascii_case(name));
            has[known.ok_or_else(|| unknown_format(list))?] = true;
        }
        let [has_text, has_binary, _] = has;
        match (has_text, has_binary) {
            (true, false) => Ok(AnswerFormat::Text),
            (true, true) => Ok(AnswerFormat::BinaryItems),
            (false, true) => Ok(AnswerFormat::Binary),
            (false, false) => Err(Error::unsupported(format!(
                "the client takes answers as '{list}' alone, which is not supported: nothing was done; \
                 ask for 'JsonText' or 'CosmosBinary'"
            ))),
        }
    }

    /// Format of the items in HybridRow results: text where the client accepts it.
    pub fn of_rows(headers: &RequestHeaders<'_>) -> AnswerFormat {
        match AnswerFormat::of(headers) {
            Ok(AnswerFormat::Binary) => AnswerFormat::Binary,
            Ok(AnswerFormat::Text | AnswerFormat::BinaryItems) | Err(_) => AnswerFormat::Text,
        }
    }

    pub fn has_binary_items(self) -> bool {
        self != AnswerFormat::Text
    }
}

fn unknown_format(list: &str) -> Error {
    Error::bad_request(format!(
        "the serialization formats '{list}' are invalid: list 'JsonText', 'CosmosBinary' and 'HybridRow', separated by commas"
    ))
}

/// A reply in the format that the client asked for. Single items have been written in it already,
/// unless a trigger has set another body.
pub(crate) fn in_format(reply: Reply, format: AnswerFormat) -> Result<Reply> {
    match reply.body {
        Some(text)
            if format == AnswerFormat::Binary
                && reply.status.is_success()
                && !reply.is_bytes
                && !text.is_binary() =>
        {
            let body = binary_of_json(&text.into_vec())
                .map_err(|error| Error::internal(format!("an answer is no JSON text: {error}")))?;
            Ok(Reply { body: Some(body.into()), ..reply })
        }
        _ => Ok(reply),
    }
}

/// A reply whose item lacks `_self` and `_attachments`. The properties of the server stand behind all others.
pub(crate) fn without_links(reply: Reply) -> Result<Reply> {
    let Some(item) = reply.body else { return Ok(reply) };
    let is_binary = item.is_binary();
    let mut text = text_of(&item.into_vec(), usize::MAX)?.into_owned();
    for (from, to) in
        [(&b",\"_self\":\""[..], &b",\"_etag\":"[..]), (&b",\"_attachments\":\""[..], &b",\"_ts\":"[..])]
    {
        let (start, end) = (last_place(&text, from), last_place(&text, to));
        if let (Some(start), Some(end)) = (start, end)
            && start < end
        {
            text.drain(start..end);
        }
    }
    let body = match is_binary {
        true => binary_of_json(&text)
            .map_err(|error| Error::internal(format!("an item is no JSON text: {error}")))?,
        false => text,
    };
    Ok(Reply { body: Some(body.into()), ..reply })
}

fn last_place(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).rposition(|window| window == part)
}

impl Call<'_> {
    /// The body of a request as text, where it is more than one item.
    pub fn text(&self) -> Result<Cow<'_, [u8]>> {
        text_of(&self.body, self.settings.body_size_bytes_max)
    }
}

/// A body as text, whose form may be binary.
pub(crate) fn text_of(body: &[u8], size_max_bytes: usize) -> Result<Cow<'_, [u8]>> {
    if !is_binary(body) {
        return Ok(Cow::Borrowed(body));
    }
    let limits = ParseLimits { size_max_bytes, nesting_max: NESTING_CEILING, ..ParseLimits::default() };
    let text = json_of_binary(body, &limits)
        .map_err(|error| Error::bad_request(format!("the request body is not valid: {error}")))?;
    Ok(Cow::Owned(text))
}

#[cfg(test)]
mod tests {
    use shardlake_model::ErrorKind;

    use super::*;

    #[test]
    fn links_are_left_out_of_text_and_of_binary_json() {
        let item = br#"{"id":"a","o":{"_self":"x","_etag":"y"},"_rid":"r","_self":"dbs/r/","_etag":"\"e\"","_attachments":"attachments/","_ts":5}"#;
        let left = br#"{"id":"a","o":{"_self":"x","_etag":"y"},"_rid":"r","_etag":"\"e\"","_ts":5}"#;
        let of = |body: Vec<u8>| {
            let reply = Reply::json(http::StatusCode::OK, 0, body);
            without_links(reply).expect("an item").body.expect("a body").into_vec()
        };
        assert_eq!(of(item.to_vec()), left);
        let binary = of(binary_of_json(item).expect("JSON"));
        assert_eq!(text_of(&binary, 1 << 20).expect("binary JSON").into_owned(), left);
        assert_eq!(of(b"{}".to_vec()), b"{}", "another body");
        assert_eq!(without_links(Reply::empty(http::StatusCode::OK, 0)).expect("empty").body, None);
    }

    #[test]
    fn clients_get_the_format_that_they_ask_for() {
        let of = |supported_formats, content_format| {
            AnswerFormat::of(&RequestHeaders { supported_formats, content_format, ..Default::default() })
        };
        for (list, format) in [
            ("", AnswerFormat::Text),
            ("JsonText", AnswerFormat::Text),
            ("jsontext, hybridrow", AnswerFormat::Text),
            ("CosmosBinary", AnswerFormat::Binary),
            ("HybridRow,cosmosbinary", AnswerFormat::Binary),
            ("JsonText, CosmosBinary", AnswerFormat::BinaryItems),
        ] {
            assert_eq!(of(Some(list), None).expect("supported"), format, "{list}");
            assert_eq!(of(Some("JsonText"), Some(list)).expect("supported"), format, "{list}");
        }
        assert_eq!(of(None, None).expect("supported"), AnswerFormat::Text);
        let of_rows = |list| {
            AnswerFormat::of_rows(&RequestHeaders { supported_formats: Some(list), ..Default::default() })
        };
        assert_eq!(["HybridRow", "JsonText,CosmosBinary"].map(of_rows), [AnswerFormat::Text; 2]);
        assert_eq!(of_rows("CosmosBinary"), AnswerFormat::Binary);
        for list in ["x", ", ,", ",,", "JsonText CosmosBinary", "Json Text", "Json,Text", "JsonText, "] {
            for error in [of(Some(list), None), of(None, Some(list))] {
                assert_eq!(error.expect_err(list).kind(), ErrorKind::BadRequest, "{list}");
            }
        }
        let error = of(Some("HybridRow"), None).expect_err("not supported");
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.message().contains("HybridRow"), "{error}");
    }
}
