//! Session tokens as text (wire.md §13): `{range}:{version}#{lsn}`. Clients join those of several ranges by commas.
//!
//! A reply has one position, also where several ranges were read: SDKs parse one, and fail at two. It is that of the first range
//! that was read, or of the range that the request named.
//!
//! The version is the container's: it distinguishes a container from an earlier one of the same name, whose tokens clients may
//! still hold. No regions are listed; clients take the higher LSN of two tokens, which is all that one region needs.

use shardlake_model::{ConsistencyLevel, Error, Result, SessionToken};

use crate::header_text::push_number;

pub(crate) fn push_token(out: &mut Vec<u8>, range_id: u32, version: i64, lsn: u64) {
    debug_assert_ne!(version, 0, "a position without its container's version is refused when it comes back");
    push_number(out, u64::from(range_id));
    out.push(b':');
    push_number(out, version.unsigned_abs());
    out.push(b'#');
    push_number(out, lsn);
}

/// The position that a read has to have reached. Only session consistency waits for one; writes do not wait, and refuse a text
/// that is no token as reads do.
pub(crate) fn wanted(header: Option<&str>, consistency: ConsistencyLevel) -> Result<Option<SessionToken>> {
    match header {
        Some(text) if consistency == ConsistencyLevel::Session && !text.is_empty() => {
            SessionToken::parse(text)
                .map(Some)
                .ok_or_else(|| Error::bad_request(format!("The session token provided '{text}' is invalid.")))
        }
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_can_be_read() {
        let mut token = Vec::new();
        push_token(&mut token, 7, 5, 3);
        let token = String::from_utf8(token).expect("digits and punctuation are ASCII");
        assert_eq!(token, "7:5#3");
        // Clients join the tokens that they keep.
        let joined = format!("0:5#42,{token}");
        let parsed = wanted(Some(&joined), ConsistencyLevel::Session).expect("valid").expect("present");
        assert_eq!(parsed.entry_of(7).map(|entry| (entry.version, entry.lsn)), Some((5, 3)));
    }

    #[test]
    fn only_session_reads_look_at_tokens() {
        assert!(wanted(Some("nonsense"), ConsistencyLevel::Session).is_err());
        assert_eq!(wanted(Some("nonsense"), ConsistencyLevel::Eventual).expect("ignored"), None);
        assert_eq!(wanted(None, ConsistencyLevel::Session).expect("none"), None);
    }
}
