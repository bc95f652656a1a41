//! Any bytes as an answer of Direct mode: no panic, and an answer that is read is written again alike.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shardlake_gateway_direct::{answer_head, frame_length};

fuzz_target!(|bytes: &[u8]| {
    let Ok(Some(length)) = frame_length(bytes, 64 << 10) else { return };
    let Some(frame) = bytes.get(..length) else { return };
    let Ok(head) = answer_head(frame) else { return };
    let mut written = Vec::new();
    head.write(&mut written);
    assert_eq!(written, frame);
    let _ = head.has_body();
});
