//! Any bytes as a frame of Direct mode: no panic; a frame that is read is written again alike, and stands for a request or a refusal.
#![no_main]

use bytes::Bytes;
use http::HeaderValue;
use libfuzzer_sys::fuzz_target;
use shardlake_gateway_direct::{Context, frame_length, request_head, translate};

fuzz_target!(|bytes: &[u8]| {
    let Ok(Some(length)) = frame_length(bytes, 64 << 10) else { return };
    let Some(frame) = bytes.get(..length) else { return };
    let Ok(head) = request_head(frame) else { return };
    let mut written = Vec::new();
    head.write(&mut written);
    assert_eq!(written, frame);
    let _ = Context::of(&head);
    let (_, _) = (head.number(), head.has_body());
    let shared = Bytes::copy_from_slice(frame);
    let head = request_head(&shared).expect("the same bytes");
    let text = HeaderValue::from_static("2020-07-15");
    if let Ok(request) = translate(&head, &shared, (&text, &text)) {
        assert!(request.uri.path().starts_with("/dbs"));
    }
});
