//! JSON text in and out, against `serde_json` and the `bson` crate as independent readers.
#![allow(clippy::unwrap_used)] // a test may fail by panicking

use crate::support::{documents, expected, parse, printed, render, values};
use bson::Bson;
use proptest::prelude::*;
use serde_json::Value as Json;
use shardlake_document::compare_raw;
use shardlake_document::{
    DocumentError, ParseLimits, RawDocument, RawValue, Value, check_numbers, json_size, parse_document,
};
use shardlake_model::Numbers;

fn refuse(text: &str) -> DocumentError {
    parse_document(text.as_bytes(), &ParseLimits::default()).expect_err(text)
}

/// `text` is refused by both readers, or accepted by both with the same content.
fn agree_on(text: &[u8]) {
    let theirs = serde_json::from_slice::<Json>(text);
    match (parse_document(text, &ParseLimits::default()), theirs) {
        (Ok(ours), theirs) => {
            let theirs = theirs.unwrap_or_else(|error| panic!("only we accept it, they say {error}"));
            assert_eq!(render(&ours), printed(&expected(theirs)));
            RawDocument::validate(ours.as_bytes()).unwrap();
        }
        (Err(DocumentError::NotAnObject), Ok(theirs)) => assert!(!theirs.is_object()),
        (Err(DocumentError::TooDeep { .. }), _) => {}
        (Err(_), Err(_)) => {}
        (Err(error), Ok(_)) => panic!("only we refuse it: {error}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn text_to_bson_to_text_keeps_everything(json in documents(), pretty: bool) {
        let text = if pretty { serde_json::to_string_pretty(&json).unwrap() } else { json.to_string() };
        let body = parse(&text);
        let rendered = render(&body);
        prop_assert_eq!(&rendered, &printed(&expected(json)));
        prop_assert_eq!(json_size(body.raw()), rendered.len());
        let again = parse(&rendered);
        prop_assert_eq!(render(&again), rendered);
        prop_assert!(compare_raw(RawValue::Object(again.raw()), RawValue::Object(body.raw())).is_eq());
        prop_assert!(RawDocument::validate(body.as_bytes()).is_ok());
    }

    #[test]
    fn the_bson_crate_reads_the_same_members(json in documents()) {
        let body = parse(&json.to_string());
        let theirs = bson::Document::from_reader(body.as_bytes()).expect("valid BSON");
        prop_assert!(reads_same(RawValue::Object(body.raw()), &Bson::Document(theirs)));
    }

    #[test]
    fn values_and_bodies_convert_both_ways(json in documents(), lone in values()) {
        let body = parse(&json.to_string());
        let value = Value::from_document(body.raw());
        let again = value.to_body().unwrap();
        prop_assert_eq!(again.as_bytes(), body.as_bytes());
        prop_assert_eq!(value.to_json().unwrap(), render(&body));
        let lone_text = lone.to_string();
        let parsed = Value::from_json(lone_text.as_bytes(), &ParseLimits::default()).unwrap();
        prop_assert_eq!(parsed.to_json().unwrap(), printed(&lone));
    }

    #[test]
    fn damaged_texts_are_judged_like_serde_json(
        json in documents(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), prop::sample::select(b"{}[]\",:\\u0123456789eE+-. \n\x01\x80\xC3tfna".to_vec()), 0..3u8), 1..4),
    ) {
        let mut text = json.to_string().into_bytes();
        for (place, byte, action) in edits {
            if text.is_empty() { break }
            let place = place.index(text.len());
            match action {
                0 => text[place] = byte,
                1 => text.insert(place, byte),
                _ => { text.remove(place); }
            }
        }
        agree_on(&text);
    }

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        agree_on(&bytes);
    }

    #[test]
    fn random_json_characters_are_judged_like_serde_json(text in r#"\{[{}\[\]",:\\u0-9eE+.a \-]{0,30}\}"#) {
        agree_on(text.as_bytes());
    }
}

/// A name with U+0000 has a form of its own in BSON, which may hide a like-named member from a reader by name.
fn reads_same(ours: RawValue<'_>, theirs: &Bson) -> bool {
    match (ours, theirs) {
        (RawValue::Null, Bson::Null) => true,
        (RawValue::Bool(ours), Bson::Boolean(theirs)) => ours == *theirs,
        (RawValue::Int(ours), Bson::Int32(theirs)) => ours == i64::from(*theirs),
        (RawValue::Int(ours), Bson::Int64(theirs)) => ours == *theirs && i32::try_from(ours).is_err(),
        (RawValue::Double(ours), Bson::Double(theirs)) => ours.to_bits() == theirs.to_bits(),
        (RawValue::String(ours), Bson::String(theirs)) => ours == theirs,
        (RawValue::Array(ours), Bson::Array(theirs)) => {
            ours.len() == theirs.len()
                && ours.iter().zip(theirs).all(|(ours, theirs)| reads_same(ours, theirs))
        }
        (RawValue::Object(ours), Bson::Document(theirs)) => {
            ours.iter().filter(|(name, _)| !name.contains('\0')).all(|(name, value)| match theirs.get(name) {
                Some(Bson::JavaScriptCodeWithScope(_)) => true,
                Some(theirs) => reads_same(value, theirs),
                None => false,
            })
        }
        _ => false,
    }
}

#[test]
fn numbers_keep_their_type_and_their_digits() {
    for (text, printed) in [
        ("0", "0"),
        ("-0", "-0"),
        ("-0.0", "-0"),
        ("1", "1"),
        ("1.0", "1"),
        ("1E2", "100"),
        ("-25e-1", "-2.5"),
        ("1e20", "100000000000000000000"),
        ("1e21", "1e+21"),
        ("9223372036854775807", "9223372036854775807"),
        ("-9223372036854775808", "-9223372036854775808"),
        ("9223372036854775808", "9223372036854775808"),
        ("-9223372036854775809", "-9223372036854775808"),
        ("18446744073709551615", "18446744073709551616"),
        ("2147483648", "2147483648"),
        ("0.1", "0.1"),
        ("1e-400", "0"),
        ("5e-324", "5e-324"),
        ("1.7976931348623157e308", "1.7976931348623157e+308"),
        ("123456789012345678901234567890", "1.2345678901234568e+29"),
    ] {
        let body = parse(&format!("{{\"n\":{text}}}"));
        assert_eq!(render(&body), format!("{{\"n\":{printed}}}"), "{text}");
        assert_eq!(render(&parse(&render(&body))), render(&body));
    }
    assert!(matches!(refuse(r#"{"n":1e400}"#), DocumentError::NumberOutOfRange { offset: 5 }));
    assert!(matches!(
        refuse(&format!("{{\"n\":-{}}}", "9".repeat(400))),
        DocumentError::NumberOutOfRange { .. }
    ));
}

/// Where numbers are kept, an integer beyond 64 bits is accepted if it is the value of a double or its shortest text.
#[test]
fn integers_that_would_be_read_back_as_others_are_refused_with_their_path() {
    let exact = ParseLimits { numbers: Numbers::Exact, ..ParseLimits::default() };
    let refusal = |text: &str| match parse_document(text.as_bytes(), &exact) {
        Err(DocumentError::NumberNotKept { path, number }) => Some((path, number)),
        Ok(_) => None,
        Err(other) => panic!("{text}: {other}"),
    };
    for text in [
        "9223372036854775807",
        "-9223372036854775808",
        "9223372036854775808",
        "18446744073709551616",
        "18446744073709552000",
        "-12345678901234567168",
        "-12345678901234567000",
        "100000000000000000000000",
        "1e22",
        "12345678901234567890.5",
        "-0",
    ] {
        assert_eq!(refusal(&format!("{{\"n\":{text}}}")), None, "{text}");
    }
    let exact_value = format!("{:.0}", f64::MAX);
    assert_eq!(refusal(&format!("{{\"n\":{exact_value}}}")), None);
    for (text, path) in [
        ("{\"n\":#}", "/n"),
        ("{\"a\":1,\"n\":[0,[{\"b\":{},\"c\":[1,#]}]]}", "/n/1/0/c/1"),
        ("{\"a\":{\"x\":1,\"y\":2},\"a\\u0000b\":{\"\":#}}", "/a\0b/"),
        ("{\"_ts\":1,\"in\":{\"_ts\":#}}", "/in/_ts"),
    ] {
        for number in ["9223372036854775809", "-9223372036854775809", "18446744073709551615"] {
            let found = refusal(&text.replace('#', number));
            assert_eq!(found, Some((path.to_owned(), number.to_owned())), "{text}");
        }
    }
    assert_eq!(refusal("{\"_ts\":[18446744073709551615]}"), None, "a system property is not kept at all");
    let lone = Value::from_json(b"18446744073709551615", &exact);
    let expected = DocumentError::NumberNotKept { path: String::new(), number: u64::MAX.to_string() };
    assert_eq!(lone, Err(expected));
    for (text, is_kept) in
        [("[1,2e400]", true), ("[1,", true), ("[18446744073709551615", false), ("[0]", true)]
    {
        assert_eq!(check_numbers(text.as_bytes(), &exact).is_ok(), is_kept, "{text}");
    }
}

#[test]
fn malformed_texts_are_refused_with_their_place() {
    for (text, offset) in [
        ("", 0),
        ("   ", 3),
        ("{", 1),
        ("{\"a\"", 4),
        ("{\"a\":", 5),
        ("{\"a\":1", 6),
        ("{\"a\":1,}", 7),
        ("{,}", 1),
        ("{\"a\" 1}", 5),
        ("{\"a\":[1,]}", 8),
        ("{\"a\":[1}", 7),
        ("{\"a\":01}", 5),
        ("{\"a\":1.}", 7),
        ("{\"a\":.5}", 5),
        ("{\"a\":+1}", 5),
        ("{\"a\":1e}", 7),
        ("{\"a\":-}", 6),
        ("{\"a\":NaN}", 5),
        ("{\"a\":tru}", 5),
        ("{\"a\":'x'}", 5),
        ("{a:1}", 1),
        ("{\"a\":\"\n\"}", 6),
        ("{\"a\":\"\\x\"}", 7),
        ("{\"a\":\"\\u12g4\"}", 10),
        ("{} x", 3),
        ("{}{}", 2),
        ("{}\0", 2),
        ("{/**/}", 1),
    ] {
        let error = refuse(text);
        assert!(
            matches!(error, DocumentError::Syntax { offset: at, .. } if at == offset),
            "{text}: {error:?}"
        );
    }
    for text in ["[]", "1", "null", "\"x\"", "\u{FEFF}{}"] {
        assert_eq!(refuse(text), DocumentError::NotAnObject);
    }
}

#[test]
fn half_surrogates_are_refused_and_pairs_are_joined() {
    assert_eq!(render(&parse(r#"{"a":"\ud83d\ude00"}"#)), r#"{"a":"😀"}"#);
    for text in [
        r#"{"a":"\ud83d"}"#,
        r#"{"a":"\ude00"}"#,
        r#"{"a":"\ud83dx"}"#,
        r#"{"a":"\ud83d\ud83d"}"#,
        r#"{"\udc00":1}"#,
    ] {
        assert!(matches!(refuse(text), DocumentError::LoneSurrogate { .. }), "{text}");
    }
}

#[test]
fn invalid_utf8_is_refused_wherever_it_stands() {
    let text = br#"{"name":["text",{"x":1}]}"#;
    for place in 0..=text.len() {
        for bad in [&b"\x80"[..], b"\xC0\x80", b"\xED\xA0\x80", b"\xF5\x80\x80\x80", b"\xFF", b"\xE2\x82"] {
            let mut damaged = text.to_vec();
            damaged.splice(place..place, bad.iter().copied());
            let error = parse_document(&damaged, &ParseLimits::default()).unwrap_err();
            assert_eq!(error, DocumentError::InvalidUtf8 { offset: place });
        }
    }
}

#[test]
fn of_members_of_one_name_the_last_counts_in_small_and_large_objects() {
    for count in [1usize, 5, 24, 25, 1000] {
        let members: Vec<String> = (1..count).map(|index| format!("\"member {index}\":{index}")).collect();
        let rest = members.iter().map(|member| format!(",{member}")).collect::<String>();
        let twice =
            format!("{{\"in\":{{\"member 0\":{{\"deep\":[1]}}{rest},\"member 0\":[9]}},\"after\":1}}");
        let once = format!("{{\"in\":{{\"member 0\":[9]{rest}}},\"after\":1}}");
        let body = parse(&twice);
        assert_eq!(render(&body), once, "{count}");
        assert_eq!(body.as_bytes(), parse(&once).as_bytes());
    }
    for (text, kept) in [
        (r#"{"a":1,"\u0061":2}"#, r#"{"a":2}"#),
        (r#"{"":1,"":2,"":3}"#, r#"{"":3}"#),
        (r#"{"a":1,"\u0000":1,"b":2,"\u0000":[2],"a":{}}"#, r#"{"a":{},"\u0000":[2],"b":2}"#),
    ] {
        assert_eq!(render(&parse(text)), kept, "{text}");
        RawDocument::validate(parse(text).as_bytes()).unwrap();
    }
    // The same name on other levels is not a duplicate, nor are names that differ only after eight bytes or
    // in zeros.
    parse(
        r#"{"a":{"a":{"a":[{"a":1},{"a":2}]}},"longer name 1":1,"longer name 2":2,"a\u0000":3,"a\u0000\u0000":4}"#,
    );
}

#[test]
fn nesting_is_limited_to_128_levels_and_stays_cheap_far_beyond() {
    let nested = |levels: usize| format!("{}1{}", "{\"a\":".repeat(levels), "}".repeat(levels));
    let arrays = |levels: usize| format!("{{\"a\":{}{}}}", "[".repeat(levels), "]".repeat(levels));
    assert_eq!(render(&parse(&nested(128))), nested(128));
    assert_eq!(render(&parse(&arrays(127))), arrays(127));
    assert!(matches!(refuse(&nested(129)), DocumentError::TooDeep { nesting_max: 128, .. }));
    assert!(matches!(refuse(&arrays(128)), DocumentError::TooDeep { .. }));
    for hostile in ["{\"a\":".repeat(300_000), "{\"a\":".to_string() + &"[".repeat(1_000_000)] {
        assert!(matches!(refuse(&hostile), DocumentError::TooDeep { .. }));
    }
    let generous = ParseLimits { nesting_max: usize::MAX, ..ParseLimits::default() };
    let error = parse_document(nested(1000).as_bytes(), &generous).unwrap_err();
    assert!(matches!(error, DocumentError::TooDeep { nesting_max: 256, .. }));
}

#[test]
fn size_is_limited() {
    let text = format!("{{\"a\":\"{}\"}}", "x".repeat(2 * 1024 * 1024 - 8));
    assert_eq!(text.len(), 2 * 1024 * 1024);
    parse(&text);
    assert!(matches!(refuse(&(text + " ")), DocumentError::TooLarge { size_bytes: 2_097_153, .. }));
}

#[test]
fn system_properties_are_dropped_at_top_level_only() {
    let body = parse(
        r#"{"_rid":"x","id":"1","_ts":{"deep":[{"_ts":1}]},"in":{"_etag":"kept"},"_self":[],"_lsn":5,"_attachments":0,"_etag":1}"#,
    );
    assert_eq!(render(&body), r#"{"id":"1","in":{"_etag":"kept"},"_lsn":5}"#);
    let value = Value::Object(vec![
        ("_ts".into(), Value::Int(1)),
        ("b".into(), Value::Undefined),
        ("c".into(), Value::Array(vec![Value::Undefined, Value::Null])),
    ]);
    assert_eq!(render(&value.to_body().unwrap()), r#"{"c":[null]}"#);
}

#[test]
fn values_that_have_no_json_form_are_refused() {
    let document = |value| Value::Object(vec![("a".into(), value)]);
    assert_eq!(document(Value::Double(f64::NAN)).to_body(), Err(DocumentError::NotFinite));
    assert_eq!(document(Value::Double(f64::INFINITY)).to_json(), Err(DocumentError::NotFinite));
    assert_eq!(Value::Int(1).to_body(), Err(DocumentError::NotAnObject));
    let deep = (0..1000).fold(Value::Null, |inner, _| Value::Array(vec![inner]));
    assert!(matches!(document(deep).to_body(), Err(DocumentError::TooDeep { .. })));
}

#[test]
fn member_order_is_kept_and_values_are_typed() {
    let body = parse(r#" { "z" : 1 , "a" : [ ] , "m" : { } } "#);
    let names: Vec<_> = body.raw().iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["z", "a", "m"]);
    assert!(matches!(body.raw().get("m"), Some(RawValue::Object(inner)) if inner.is_empty()));
}
