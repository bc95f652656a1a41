//! Any bytes as JSON text: no panic, and the same verdict as `serde_json` except where ours is stricter on purpose.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::Value as Json;
use shardlake_document::{DocumentError, ParseLimits, RawDocument, json_size, parse_document, write_json};

fuzz_target!(|text: &[u8]| {
    let theirs = serde_json::from_slice::<Json>(text);
    match parse_document(text, &ParseLimits::default()) {
        Ok(body) => {
            RawDocument::validate(body.as_bytes()).expect("what we write is valid");
            let mut out = Vec::new();
            write_json(body.raw(), &mut out);
            assert_eq!(out.len(), json_size(body.raw()));
            let again =
                parse_document(&out, &ParseLimits { size_max_bytes: usize::MAX, ..Default::default() });
            assert_eq!(again.expect("what we print is valid").as_bytes(), body.as_bytes());
            // serde_json stops at 127 levels, we at 128.
            match theirs {
                Ok(Json::Object(mut members)) => {
                    members.retain(|name, _| !shardlake_document::is_system_property(name));
                    let ours: Json = serde_json::from_slice(&out).expect("what we print is valid");
                    assert_eq!(doubles(ours), doubles(Json::Object(members)));
                }
                Ok(_) => panic!("accepted what is no object"),
                Err(error) => {
                    assert!(error.to_string().contains("recursion limit"), "only we accept it: {error}")
                }
            }
        }
        Err(
            DocumentError::DuplicateProperty { .. }
            | DocumentError::TooDeep { .. }
            | DocumentError::TooLarge { .. },
        ) => {}
        Err(DocumentError::NotAnObject) => assert!(theirs.map_or(true, |json| !json.is_object())),
        Err(error) => assert!(theirs.is_err(), "only we refuse it: {error}"),
    }
});

/// Integers beyond `i64` are doubles to us.
fn doubles(json: Json) -> Json {
    match json {
        Json::Number(number) if number.is_u64() && !number.is_i64() => Json::from(number.as_f64()),
        Json::Array(elements) => elements.into_iter().map(doubles).collect(),
        Json::Object(members) => members.into_iter().map(|(name, value)| (name, doubles(value))).collect(),
        other => other,
    }
}
