//! Session tokens as text (wire.md §13): `{range}:{version}#{lsn}`, one per range, joined by commas.
//!
//! The version is the container's: it tells a container from an earlier one of the same name, whose tokens clients may
//! still hold. No regions are listed; clients take the higher LSN of two tokens, which is all that one region needs.

use shardlake_model::{ConsistencyLevel, Error, Result, SessionToken};

use crate::reply::push_number;

pub(crate) fn push_token(out: &mut Vec<u8>, range_id: u32, version: i64, lsn: u64) {
    push_number(out, u64::from(range_id));
    out.push(b':');
    push_number(out, version.unsigned_abs());
    out.push(b'#');
    push_number(out, lsn);
}

/// The token of a reply that read several ranges.
pub(crate) fn joined(version: i64, ranges: &[(u32, u64)]) -> String {
    let mut text = Vec::with_capacity(ranges.len() * 16);
    for (range_id, lsn) in ranges {
        if !text.is_empty() {
            text.push(b',');
        }
        push_token(&mut text, *range_id, version, *lsn);
    }
    String::from_utf8(text).expect("digits and punctuation are ASCII")
}

/// The position a read has to have reached: only session consistency waits for one.
pub(crate) fn wanted(header: Option<&str>, consistency: ConsistencyLevel) -> Result<Option<SessionToken>> {
    match header {
        Some(text) if consistency == ConsistencyLevel::Session && !text.is_empty() => {
            SessionToken::parse(text)
                .map(Some)
                .ok_or_else(|| Error::bad_request(format!("The session token '{text}' is invalid.")))
        }
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_can_be_read() {
        let token = joined(5, &[(0, 42), (7, 3)]);
        assert_eq!(token, "0:5#42,7:5#3");
        let parsed = wanted(Some(&token), ConsistencyLevel::Session).expect("valid").expect("present");
        assert_eq!(parsed.entry_of(7).map(|entry| (entry.version, entry.lsn)), Some((5, 3)));
    }

    #[test]
    fn only_session_reads_look_at_tokens() {
        assert!(wanted(Some("nonsense"), ConsistencyLevel::Session).is_err());
        assert_eq!(wanted(Some("nonsense"), ConsistencyLevel::Eventual).expect("ignored"), None);
        assert_eq!(wanted(None, ConsistencyLevel::Session).expect("none"), None);
    }
}
