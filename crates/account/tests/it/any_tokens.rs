//! Tokens that chance has made or damaged: the assertions of the fuzzer (`any_token.rs`), over a fixed number of inputs.

use proptest::prelude::*;

use crate::any_token::{
    change_feed_etag, feed_token, query_position, query_token, session_token, version_position,
};

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    // Small numbers are lengths and kinds, so that more than the first byte is looked at.
    prop::collection::vec(prop_oneof![3 => 0u8..6, 1 => any::<u8>()], 0..80)
}

proptest! {
    #[test]
    fn any_bytes_are_a_token_or_refused(bytes in bytes()) {
        query_token(&bytes);
        query_position(&bytes);
        feed_token(&bytes);
        version_position(&bytes);
    }

    #[test]
    fn any_text_is_a_token_or_refused(etag in "[0-3]{0,2}(;[0-9A-F]{0,4}:[0-9]{0,3}){0,4}", session in "([0-9]{0,2}:-?[0-9]{0,3}#?[0-9#=-]{0,6},?){0,3}") {
        change_feed_etag(etag.as_bytes());
        session_token(session.as_bytes());
    }
}

/// A check that understands nothing would assert nothing.
#[test]
fn each_decoder_is_reached_to_its_end() {
    // No range, nine counters, one piece from "" to FF without a position.
    let token = [&[0, 0][..], &[0; 9], &[1, 0, 1, 0xFF, 0]].concat();
    assert!(query_token(&token));
    assert!(query_position(&[3, 0, 1, 9, 9]));
    assert!(change_feed_etag(b"1;:42;3F:17") && change_feed_etag(b"42"));
    assert!(session_token(b"0:5#42,7:5#3#1=2"));
    assert!(version_position(&[1, 0, 5, 0]));
    let overlapping = [&[0, 0][..], &[0; 9], &[2, 0, 1, 0x20, 0, 1, 0x10, 1, 0xFF, 0]].concat();
    let inverted = [&[0, 0][..], &[0; 9], &[1, 1, 0x20, 1, 0x10, 0]].concat();
    assert!(!query_token(&overlapping) && !query_token(&inverted));
}
