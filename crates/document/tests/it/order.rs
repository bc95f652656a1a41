//! The order of values: against a model, and the ordered encoding against the order.
#![allow(clippy::unwrap_used)] // a test may fail by panicking

use std::cmp::Ordering;

use crate::support::{doubles, integers, texts, values};
use proptest::prelude::*;
use shardlake_document::{
    DocumentError, ParseLimits, Value, compare, compare_raw, compare_strings, decode_ordered, encode_ordered,
    encode_ordered_raw,
};

fn scalars() -> impl Strategy<Value = Value> {
    let nearby = prop::sample::select(vec![
        Value::Int(i64::MAX),
        Value::Int(i64::MIN),
        Value::Double(9_223_372_036_854_775_808.0),
        Value::Double(-9_223_372_036_854_775_808.0),
        Value::Double(f64::NEG_INFINITY),
        Value::Double(f64::INFINITY),
        Value::Double(f64::NAN),
        Value::Double(1.0),
        Value::Double(-0.0),
        Value::Int(0),
    ]);
    let large = ((53u32..63), -3i64..4, any::<bool>()).prop_map(|(power, offset, negative)| {
        let value = (1i64 << power) + offset;
        Value::Int(if negative { -value } else { value })
    });
    let large_doubles = ((53i32..64), any::<bool>()).prop_map(|(power, negative)| {
        let value = 2f64.powi(power);
        Value::Double(if negative { -value } else { value })
    });
    prop_oneof![
        1 => prop::sample::select(vec![Value::Undefined, Value::Null, Value::Bool(false), Value::Bool(true)]),
        3 => integers().prop_map(Value::Int),
        3 => doubles().prop_map(Value::Double),
        2 => nearby,
        3 => large,
        2 => large_doubles,
        4 => texts().prop_map(Value::String),
        3 => prop::collection::vec(prop::sample::select(vec!['a', '\0', '\u{7F}', '\u{80}', '\u{D7FF}', '\u{E000}', '\u{FFFF}', '😀', '\u{10FFFF}']), 0..4)
            .prop_map(|characters| Value::String(characters.into_iter().collect())),
    ]
}

fn encode(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    encode_ordered(value, &mut out).unwrap();
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn encodings_sort_like_values_and_are_no_prefixes(left in scalars(), right in scalars()) {
        let (left_key, right_key) = (encode(&left), encode(&right));
        let order = compare(&left, &right);
        prop_assert_eq!(left_key.cmp(&right_key), order, "{:?} {:?}", left, right);
        prop_assert_eq!(compare(&right, &left), order.reverse());
        if order.is_ne() {
            prop_assert!(!left_key.starts_with(&right_key) && !right_key.starts_with(&left_key));
        }
    }

    #[test]
    fn a_decoded_value_is_equal_and_encodes_the_same(value in scalars(), after in prop::collection::vec(any::<u8>(), 0..5)) {
        let mut key = encode(&value);
        let length = key.len();
        key.extend_from_slice(&after);
        let (decoded, rest) = decode_ordered(&key).unwrap();
        prop_assert_eq!(compare(&decoded, &value), Ordering::Equal);
        prop_assert_eq!(rest, &after[..]);
        prop_assert_eq!(encode(&decoded), &key[..length]);
    }

    #[test]
    fn strings_sort_by_utf16_code_unit(left in texts(), right in texts()) {
        prop_assert_eq!(compare_strings(&left, &right), left.encode_utf16().cmp(right.encode_utf16()));
    }

    #[test]
    fn raw_values_compare_and_encode_like_trees(left in values(), right in values()) {
        let text = serde_json::json!({"l": left, "r": right}).to_string();
        let body = crate::support::parse(&text);
        let (left, right) = (body.raw().get("l").unwrap(), body.raw().get("r").unwrap());
        let (left_tree, right_tree) = (Value::from_raw(left), Value::from_raw(right));
        prop_assert_eq!(compare_raw(left, right), compare(&left_tree, &right_tree));
        prop_assert_eq!(compare_raw(left, left), Ordering::Equal);
        let (mut raw_key, mut key) = (Vec::new(), Vec::new());
        prop_assert_eq!(encode_ordered_raw(left, &mut raw_key), encode_ordered(&left_tree, &mut key));
        prop_assert_eq!(raw_key, key);
    }

    #[test]
    fn the_order_is_transitive(mut sample in prop::collection::vec(scalars(), 3..12)) {
        sample.sort_by(compare);
        for pair in sample.windows(2) {
            prop_assert!(compare(&pair[0], &pair[1]).is_le());
        }
        prop_assert!(compare(&sample[0], &sample[sample.len() - 1]).is_le());
    }
}

#[test]
fn types_sort_as_the_specification_says() {
    let json = |text: &str| Value::from_json(text.as_bytes(), &ParseLimits::default()).unwrap();
    let mut sorted = vec![Value::Undefined];
    let texts = [
        "null",
        "false",
        "true",
        "-1e300",
        "-1",
        "0",
        "0.5",
        "9007199254740992.0",
        "9007199254740993",
        "\"\"",
        "\"a\"",
        "\"😀\"",
        "\"\\uE000\"",
        "[]",
        "[1]",
        "[1,0]",
        "[2]",
        "{}",
        "{\"a\":1}",
        "{\"b\":0}",
    ];
    sorted.extend(texts.iter().map(|text| json(text)));
    for (index, left) in sorted.iter().enumerate() {
        for (other_index, right) in sorted.iter().enumerate() {
            assert_eq!(compare(left, right), index.cmp(&other_index), "{left:?} {right:?}");
        }
    }
    assert_eq!(compare(&json(r#"{"a":1,"b":[2]}"#), &json(r#"{"b":[2.0],"a":1}"#)), Ordering::Equal);
    assert_eq!(encode_ordered(&json("[]"), &mut Vec::new()), Err(DocumentError::NotScalar));
}
