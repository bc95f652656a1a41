//! Any bytes as a stored body: reading them never panics, and what passes validation prints as JSON.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shardlake_document::{RawDocument, Record, Value, decode_ordered, encode_ordered, json_size, write_json};

fuzz_target!(|bytes: &[u8]| {
    let document = RawDocument::assume_valid(bytes);
    let mut out = Vec::new();
    write_json(document, &mut out);
    assert_eq!(out.len(), json_size(document));
    let _ =
        (document.len(), document.get("a"), document.get_path(&["a", "b"]), Value::from_document(document));
    let _ = Record::decode(bytes);
    if let Ok((value, rest)) = decode_ordered(bytes) {
        let mut key = Vec::new();
        encode_ordered(&value, &mut key).expect("only scalars are decoded");
        let (again, nothing) = decode_ordered(&key).expect("what we encode decodes");
        assert!(nothing.is_empty() && rest.len() < bytes.len());
        assert!(shardlake_document::compare(&again, &value).is_eq());
    }
    if RawDocument::validate(bytes).is_ok() {
        serde_json::from_slice::<serde::de::IgnoredAny>(&out)
            .map(drop)
            .or_else(deep)
            .expect("a valid body prints as JSON");
    }
});

/// `serde_json` stops at 127 levels, validation at 256.
fn deep(error: serde_json::Error) -> Result<(), serde_json::Error> {
    if error.to_string().contains("recursion limit") { Ok(()) } else { Err(error) }
}
