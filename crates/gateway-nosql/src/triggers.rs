//! Triggers as requests name them: in two headers, by id, on writes of single items (wire.md §15).
//!
//! Triggers never run by themselves. A request that names some for an operation that cannot run them is refused, because
//! whoever wrote it relies on them.

use shardlake_account::Triggers;
use shardlake_model::{Error, Result};

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

    pub fn as_triggers(&self) -> Triggers<'_> {
        Triggers { pre: &self.pre, post: &self.post }
    }
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
        assert!(TriggerNames::of(&none).as_triggers().is_empty());
    }
}
