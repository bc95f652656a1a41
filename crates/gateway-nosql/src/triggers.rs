//! Triggers as requests name them: in two headers, by id, on writes of single items (wire.md §15).
//!
//! Triggers never run by themselves. A request that names some for an operation that cannot run them is refused, because
//! its author relies on them.

use std::borrow::Cow;

use shardlake_account::Triggers;
use shardlake_document::{ParseLimits, is_binary, json_of_binary};
use shardlake_model::{Error, Limits, Result};

use crate::headers::RequestHeaders;

/// The ids that a request names.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct TriggerNames {
    pre: Vec<String>,
    post: Vec<String>,
}

impl TriggerNames {
    pub fn of(headers: &RequestHeaders<'_>) -> TriggerNames {
        let ids = |list: Option<&str>| {
            let ids = list.unwrap_or_default().split(',').map(str::trim);
            ids.filter(|id| !id.is_empty()).map(str::to_owned).collect()
        };
        TriggerNames { pre: ids(headers.pre_triggers), post: ids(headers.post_triggers) }
    }

    /// The triggers with the item as its client wrote it, for scripts; `None` where the request names no triggers.
    pub fn as_triggers<'t>(&'t self, sent: &'t [u8], limits: &Limits) -> Result<Option<Triggers<'t>>> {
        if self.pre.is_empty() && self.post.is_empty() {
            return Ok(None);
        }
        let text = if sent.is_empty() { None } else { Some(text(sent, limits)?) };
        Ok(Some(Triggers { pre: &self.pre, post: &self.post, text }))
    }
}

fn text<'s>(sent: &'s [u8], limits: &Limits) -> Result<Cow<'s, str>> {
    let invalid =
        |why: &dyn std::fmt::Display| Error::bad_request(format!("The input content is invalid: {why}"));
    if is_binary(sent) {
        let text = json_of_binary(sent, &ParseLimits::of_items(limits)).map_err(|error| invalid(&error))?;
        return Ok(Cow::Owned(String::from_utf8(text).expect("JSON text is UTF-8")));
    }
    std::str::from_utf8(sent).map(Cow::Borrowed).map_err(|_| invalid(&"it is not UTF-8 text"))
}

/// For operations that run none: everything but creating, upserting, replacing and deleting one item.
pub(crate) fn refuse(headers: &RequestHeaders<'_>) -> Result<()> {
    let names = TriggerNames::of(headers);
    match names.pre.iter().chain(&names.post).next() {
        Some(name) => Err(Error::unsupported(format!(
            "triggers run on create, upsert, replace and delete of one item only, and the request names '{name}': nothing was done"
        ))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_separated_by_commas() {
        let headers = RequestHeaders {
            pre_triggers: Some("a, b c ,,"),
            post_triggers: Some("d"),
            ..RequestHeaders::default()
        };
        let names = TriggerNames::of(&headers);
        assert_eq!(
            (names.pre.as_slice(), names.post.as_slice()),
            (&["a".into(), "b c".into()][..], &["d".into()][..])
        );
        assert!(refuse(&headers).expect_err("refused").message().contains("'a'"));
        let none = RequestHeaders { pre_triggers: Some(" ,"), ..RequestHeaders::default() };
        refuse(&none).expect("no names");
        assert!(TriggerNames::of(&none).as_triggers(b"{}", &Limits::default()).expect("none").is_none());
    }
}
