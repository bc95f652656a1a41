//! Frames from strangers: cut, lengthened, repeated, any bytes at all.

use bytes::Bytes;
use http::HeaderValue;
use proptest::prelude::*;
use shardlake_gateway_direct::{
    BadFrame, Context, RequestHead, Token, Tokens, Value, answer_head, frame_length, request_head, translate,
};

fn written(tokens: &[Token<'_>]) -> Vec<u8> {
    let tokens: Tokens<'_> = tokens.iter().copied().collect();
    let head = RequestHead { resource: 3, operation: 3, activity_id: [1; 16], tokens };
    let mut out = Vec::new();
    head.write(&mut out);
    out
}

fn point_read() -> Vec<u8> {
    written(&[
        Token { id: 0x01, value: Value::String(b"type%3dmaster") },
        Token { id: 0x02, value: Value::Byte(0) },
        Token { id: 0x13, value: Value::String(b"/apps/x") },
        Token { id: 0x15, value: Value::String("a b/ü%20".as_bytes()) },
        Token { id: 0x16, value: Value::String(b"c") },
        Token { id: 0x17, value: Value::String(b"..") },
        Token { id: 0x2b, value: Value::String("[\"ü😀\"]".as_bytes()) },
        Token { id: 0x4d, value: Value::ULong(7) },
    ])
}

fn translated(frame: Vec<u8>) -> Result<shardlake_gateway_direct::DirectRequest, String> {
    let frame = Bytes::from(frame);
    let head = request_head(&frame).map_err(|bad| bad.to_string())?;
    let text = HeaderValue::from_static("x");
    translate(&head, &frame, (&text, &text)).map_err(|refusal| refusal.0)
}

#[test]
fn lengths_that_no_frame_has_end_the_connection() {
    for (length, fits) in
        [(0, false), (23, false), (24, true), (1000, true), (1001, false), (u32::MAX, false)]
    {
        let read = frame_length(&u32::to_le_bytes(length), 1000);
        match fits {
            true => assert_eq!(read, Ok(Some(length as usize))),
            false => assert_eq!(read, Err(BadFrame::Length(length))),
        }
    }
    assert_eq!(frame_length(&[0xff; 3], 1000), Ok(None));
}

#[test]
fn a_frame_cut_anywhere_is_none() {
    let frame = point_read();
    request_head(&frame).expect("a whole frame");
    for end in 0..frame.len() {
        let cut = request_head(&frame[..end]);
        // Between two tokens it is a shorter frame.
        if let Ok(head) = cut {
            assert!(head.number().is_err() || end == frame.len(), "{end}");
        }
    }
}

#[test]
fn a_token_comes_once() {
    for id in [0x4d, 0x13f, 0x140, 0xffff] {
        let token = Token { id, value: Value::ULong(7) };
        assert!(request_head(&written(&[token])).is_ok());
        assert_eq!(request_head(&written(&[token, token])), Err(BadFrame::RepeatedToken(id)));
    }
    let many: Vec<_> = (0..301).map(|id| Token { id, value: Value::Byte(0) }).collect();
    assert!(request_head(&written(&many[..300])).is_ok());
    assert_eq!(request_head(&written(&many)), Err(BadFrame::TooManyTokens));
}

#[test]
fn an_unknown_type_or_a_token_beyond_the_frame_is_an_error() {
    let mut frame = written(&[]);
    frame.extend_from_slice(&[0x4d, 0, 0x0f, 1]);
    assert_eq!(request_head(&frame), Err(BadFrame::UnknownType { id: 0x4d, kind: 0x0f }));
    let mut frame = written(&[]);
    frame.extend_from_slice(&[0x17, 0, 0x0c, 0xff, 0xff, 0xff, 0xff, b'a']);
    assert_eq!(request_head(&frame), Err(BadFrame::CutToken));
}

#[test]
fn names_are_plain_and_keys_are_escaped() {
    let request = translated(point_read()).expect("a request");
    assert_eq!(request.uri.path(), "/dbs/a%20b%2F%C3%BC%2520/colls/c/docs/..");
    assert_eq!(request.headers["x-ms-documentdb-partitionkey"], "[\"\\u00fc\\ud83d\\ude00\"]");
}

#[test]
fn what_would_change_the_outcome_is_refused_by_name() {
    let with = |token| {
        let frame = point_read();
        let mut head = request_head(&frame).expect("a frame");
        head.tokens = head.tokens.iter().copied().chain([token]).collect();
        let mut out = Vec::new();
        head.write(&mut out);
        translated(out)
    };
    for (token, word) in [
        (Token { id: 0x0e, value: Value::String(b"t") }, "PreTriggerExclude"),
        (Token { id: 0x5e, value: Value::Byte(2) }, "EnumerationDirection"),
        (Token { id: 0x73, value: Value::Byte(1) }, "batches"),
        (Token { id: 0xfb, value: Value::Guid([1; 16]) }, "distributed transaction"),
        (Token { id: 0x10, value: Value::Byte(9) }, "0x0010"),
        (Token { id: 0x05, value: Value::String(b"0:1\r\n#2") }, "0x0005"),
    ] {
        let refusal = with(token).expect_err("a refusal");
        assert!(refusal.contains(word), "{refusal}");
    }
    for token in [
        Token { id: 0x5e, value: Value::Byte(1) },
        Token { id: 0x8c, value: Value::Byte(0) },
        Token { id: 0x22, value: Value::String(b"a key of the account") },
        Token { id: 0x7000, value: Value::Double(1.5) },
    ] {
        let request = with(token).expect("a request");
        assert_eq!(request.headers.len(), translated(point_read()).expect("a request").headers.len());
    }
}

#[test]
fn kinds_that_are_not_served_are_refused_with_their_numbers() {
    let frame = point_read();
    let mut head = request_head(&frame).expect("a frame");
    for (resource, operation) in [(0x0f, 3), (3, 0x77), (0, 0)] {
        (head.resource, head.operation) = (resource, operation);
        let mut out = Vec::new();
        head.write(&mut out);
        let refusal = translated(out).expect_err("a refusal");
        assert!(refusal.contains("gateway mode") && refusal.contains(&operation.to_string()), "{refusal}");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_a_frame_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(head) = request_head(&bytes) {
            let mut again = bytes[..4].to_vec();
            let mut out = Vec::new();
            head.write(&mut out);
            again.extend_from_slice(&out[4..]);
            prop_assert_eq!(&again, &bytes);
            let _refused_or_not = Context::of(&head);
        }
        let _read_or_not = answer_head(&bytes);
        let _translated_or_not = translated(bytes);
    }

    #[test]
    fn a_changed_byte_never_does_more_than_refuse(at in 0..400_usize, byte in any::<u8>()) {
        let mut frame = point_read();
        let place = at % frame.len();
        frame[place] = byte;
        if let Ok(request) = translated(frame) {
            prop_assert!(request.uri.path().starts_with("/dbs"));
        }
    }
}
