//! Any bytes as a token that a client sends back: no panic, and a token that was read survives being sent again.
//!
//! The fuzz targets of `fuzz/fuzz_targets` and the tests of `any_tokens.rs` run these functions. Each returns whether the bytes
//! were a token.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use shardlake_items::{FeedPosition, VersionPosition, position_of_token};
use shardlake_model::SessionToken;
use shardlake_partition::{item_of_position, position_of_state, state_of_position};
use shardlake_queries::QueryToken;
use shardlake_routing::KeyRange;

const CONTAINER: u32 = 7;
const QUERY: u64 = 1;

/// With the checksum that the server looks for: clients can compute it.
pub fn sealed(content: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode([content, &crc32fast::hash(content).to_be_bytes()].concat())
}

/// The part after the version, container and query.
pub fn query_token(input: &[u8]) -> bool {
    let Some((version, rest)) = input.split_first() else { return false };
    let version = [5, 5, 5, 4, 3, *version][usize::from(version % 6)];
    let head = [&[version][..], &CONTAINER.to_be_bytes(), &QUERY.to_be_bytes()].concat();
    let Ok(token) = QueryToken::decode(&sealed(&[&head, rest].concat()), CONTAINER, [QUERY; 2]) else {
        return false;
    };
    assert!(!token.span().is_empty());
    let text = token.encode().expect("a token that was read fits into one");
    assert!(text.len() < 1024);
    assert_eq!(QueryToken::decode(&text, CONTAINER, [QUERY; 2]).expect("its own"), token);
    let _ = (
        token.check_range(1, &[0]),
        QueryToken::decode(&text, CONTAINER, [QUERY + 1; 2]).expect_err("another query"),
    );
    true
}

pub fn query_position(input: &[u8]) -> bool {
    let Ok(state) = state_of_position(Some(input)) else { return false };
    if let Some(state) = state {
        let again = state_of_position(Some(&position_of_state(&state))).expect("its own");
        assert_eq!(again.as_deref(), Some(&state[..]));
    }
    true
}

/// The part after the version and container.
pub fn feed_token(input: &[u8]) -> bool {
    let text = sealed(&[&[1][..], &CONTAINER.to_be_bytes(), input].concat());
    let Ok(position) = position_of_token(CONTAINER, &text) else { return false };
    assert_eq!(position, input);
    item_of_position(&position).expect("an item's key");
    position_of_token(CONTAINER + 1, &text).expect_err("another container's");
    true
}

pub fn change_feed_etag(input: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(input) else { return false };
    let Ok(position) = FeedPosition::decode(text) else { return false };
    let parts = position.parts_of(&KeyRange::full());
    assert!(parts.windows(2).all(|pair| pair[0].span.max == pair[1].span.min));
    let again = FeedPosition::decode(&position.encode()).expect("its own");
    assert_eq!(again.parts_of(&KeyRange::full()), parts);
    true
}

pub fn version_position(input: &[u8]) -> bool {
    let mut rest = input;
    let Some(position) = VersionPosition::decode(&mut rest) else { return false };
    let mut bytes = Vec::new();
    position.encode(&mut bytes);
    assert_eq!(VersionPosition::decode(&mut &bytes[..]), Some(position));
    true
}

pub fn session_token(input: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(input) else { return false };
    let Some(token) = SessionToken::parse(text) else { return false };
    token.entries.iter().for_each(|entry| {
        let newest = token.entry_of(entry.range_id).expect("it is there");
        assert!((newest.version, newest.lsn) >= (entry.version, entry.lsn));
    });
    true
}
