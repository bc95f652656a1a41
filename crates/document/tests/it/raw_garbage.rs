//! The scanner and the writer on bytes that are not BSON: no panic, no endless walk, and `validate` lets none through.
#![allow(clippy::unwrap_used)] // a test may fail by panicking

use crate::support::{documents, parse, render};
use proptest::prelude::*;
use shardlake_document::{RawDocument, RawValue, Value, decode_ordered, json_size, write_binary, write_json};

/// Touches everything that can be reached.
fn walk(document: RawDocument<'_>) {
    let mut out = Vec::new();
    write_json(document, &mut out);
    json_size(document);
    write_binary(RawValue::Object(document), &mut out);
    document.len();
    document.get("a");
    document.get_path(&["a", "b"]);
    Value::from_document(document);
    for (name, value) in document.iter() {
        document.get(name);
        if let RawValue::Array(array) = value {
            array.get(1);
            array.len();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn random_bytes_are_safe(bytes in prop::collection::vec(prop_oneof![any::<u8>(), prop::sample::select(vec![0u8, 1, 2, 3, 4, 5, 8, 10, 15, 16, 18])], 0..120)) {
        walk(RawDocument::assume_valid(&bytes));
        let _ = decode_ordered(&bytes);
        if let Ok(document) = RawDocument::validate(&bytes) {
            prop_assert_eq!(document.len(), document.iter().count());
        }
    }

    #[test]
    fn damaged_documents_are_safe_and_what_validates_prints_as_json(
        json in documents(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = parse(&json.to_string()).into_bytes().to_vec();
        RawDocument::validate(&bytes[..cut.index(bytes.len())]).expect_err("a part is no document");
        for (place, byte) in damage {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        walk(RawDocument::assume_valid(&bytes));
        if let Ok(document) = RawDocument::validate(&bytes) {
            let mut out = Vec::new();
            write_json(document, &mut out);
            prop_assert!(serde_json::from_slice::<serde_json::Value>(&out).is_ok());
        }
    }
}

#[test]
fn a_name_with_a_zero_is_not_shown_in_an_array() {
    let mut bytes = parse(r#"{"a":{"x\u0000y":[1],"z":2}}"#).into_bytes().to_vec();
    assert_eq!(bytes[4], 3, "an object");
    bytes[4] = 4;
    let document = RawDocument::validate(&bytes).expect("arrays name their elements, too");
    let mut out = Vec::new();
    write_json(document, &mut out);
    assert_eq!(String::from_utf8(out).unwrap(), r#"{"a":[[1],2]}"#);
    assert_eq!(json_size(document), r#"{"a":[[1],2]}"#.len());
}

#[test]
fn deep_garbage_neither_overflows_the_stack_nor_validates() {
    let mut bytes = Vec::new();
    for _ in 0..200_000 {
        bytes.extend_from_slice(&[0xFF, 0xFF, 0xFF, 0x7F, 3, b'a', 0]);
    }
    walk(RawDocument::assume_valid(&bytes));
    let mut nested = vec![5, 0, 0, 0, 0];
    for _ in 0..10_000 {
        let mut outer = ((nested.len() + 8) as i32).to_le_bytes().to_vec();
        outer.extend_from_slice(&[3, b'a', 0]);
        outer.extend_from_slice(&nested);
        outer.push(0);
        nested = outer;
    }
    walk(RawDocument::assume_valid(&nested));
    assert!(RawDocument::validate(&nested).is_err());
}

#[test]
fn a_wrapper_inside_a_wrapper_is_refused() {
    let body = parse(r#"{"\u0000":1}"#);
    assert_eq!(render(&body), r#"{"\u0000":1}"#);
    let mut bytes = body.into_bytes().to_vec();
    let place = bytes.iter().rposition(|byte| *byte == 0x10).unwrap();
    bytes[place] = 0x0F;
    assert!(RawDocument::validate(&bytes).is_err());
    walk(RawDocument::assume_valid(&bytes));
}
