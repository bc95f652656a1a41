//! Any bytes as Cosmos binary JSON: no panic, no more text than the limit, and what is read is written and read again alike.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shardlake_document::{
    ParseLimits, RawDocument, RawValue, json_of_binary, json_size, parse_binary_document, parse_document,
    write_binary, write_json,
};

fuzz_target!(|bytes: &[u8]| {
    let limits = ParseLimits { size_max_bytes: 1 << 16, ..ParseLimits::default() };
    let _ = json_of_binary(bytes, &limits);
    let Ok(body) = parse_binary_document(bytes, &limits) else { return };
    RawDocument::validate(body.as_bytes()).expect("what we write is valid");
    assert!(body.as_bytes().len() <= 16 << 16, "the output is bounded by the limit of the text");
    let generous = ParseLimits { size_max_bytes: usize::MAX, ..ParseLimits::default() };
    let (mut binary, mut text) = (Vec::new(), Vec::new());
    write_binary(RawValue::Object(body.raw()), &mut binary);
    let again = parse_binary_document(&binary, &generous).expect("what we write is read");
    assert_eq!(again.as_bytes(), body.as_bytes());
    write_json(body.raw(), &mut text);
    assert_eq!(text.len(), json_size(body.raw()));
    let as_text = parse_document(&text, &generous).expect("what we print is valid");
    assert_eq!(as_text.as_bytes(), body.as_bytes());
});
