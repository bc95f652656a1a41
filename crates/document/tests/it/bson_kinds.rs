//! Bodies with values of every kind of BSON, against the `bson` crate.
#![allow(clippy::unwrap_used)] // a test may fail by panicking

use crate::support::{names, render};
use bson::{Binary, Bson, DateTime, Decimal128, JavaScriptCodeWithScope, Regex, Timestamp, oid::ObjectId};
use proptest::prelude::*;
use shardlake_document::{
    Body, BsonKind, DocumentError, Envelope, PatchOperation, RawArray, RawDocument, RawValue, Record,
    SYSTEM_PROPERTIES, Value, apply_patch, compare_raw, json_size, parse_document, write_binary,
};
use shardlake_stdx::{Guid, HybridTime};

fn text() -> impl Strategy<Value = String> {
    "[a-z\u{e0}-\u{ff}\"\\\\]{0,6}"
}

fn scalar() -> impl Strategy<Value = Bson> {
    prop_oneof![
        Just(Bson::Null),
        Just(Bson::Undefined),
        Just(Bson::MinKey),
        Just(Bson::MaxKey),
        any::<bool>().prop_map(Bson::Boolean),
        any::<i32>().prop_map(Bson::Int32),
        prop_oneof![-5i64..5, any::<i64>()].prop_map(Bson::Int64),
        any::<f64>().prop_map(Bson::Double),
        text().prop_map(Bson::String),
        text().prop_map(Bson::Symbol),
        text().prop_map(Bson::JavaScriptCode),
        any::<[u8; 12]>().prop_map(|bytes| Bson::ObjectId(ObjectId::from_bytes(bytes))),
        any::<[u8; 16]>().prop_map(|bytes| Bson::Decimal128(Decimal128::from_bytes(bytes))),
        any::<i64>().prop_map(|ms| Bson::DateTime(DateTime::from_millis(ms))),
        any::<(u32, u32)>().prop_map(|(time, increment)| Bson::Timestamp(Timestamp { time, increment })),
        (any::<u8>(), prop::collection::vec(any::<u8>(), 0..9)).prop_map(|(subtype, bytes)| {
            // Subtype 2 has a length of its own inside.
            let subtype = if subtype == 2 { 0 } else { subtype };
            Bson::Binary(Binary { subtype: subtype.into(), bytes })
        }),
        ("[a-z.*^]{0,5}", "[imx]{0,1}").prop_map(|(pattern, options)| {
            Bson::RegularExpression(Regex {
                pattern: pattern.try_into().unwrap(),
                options: options.try_into().unwrap(),
            })
        }),
    ]
}

fn document_of(members: Vec<(String, Bson)>) -> bson::Document {
    members.into_iter().filter(|(name, _)| !name.contains('\0')).collect()
}

fn any_value() -> impl Strategy<Value = Bson> {
    scalar().prop_recursive(4, 40, 6, |inner| {
        let members = prop::collection::vec((names(), inner.clone()), 0..6).prop_map(document_of).boxed();
        prop_oneof![
            2 => prop::collection::vec(inner, 0..6).prop_map(Bson::Array),
            2 => members.clone().prop_map(Bson::Document),
            1 => (text(), members).prop_map(|(code, scope)| {
                Bson::JavaScriptCodeWithScope(JavaScriptCodeWithScope { code, scope })
            }),
        ]
    })
}

fn any_document() -> impl Strategy<Value = bson::Document> {
    let is_reserved = |name: &String| SYSTEM_PROPERTIES.contains(&name.as_str());
    prop::collection::vec(
        (names().prop_filter("the server's", move |name| !is_reserved(name)), any_value()),
        0..20,
    )
    .prop_map(document_of)
}

fn body_of(document: &bson::Document) -> Body {
    Body::from_bson(document.to_vec().unwrap()).unwrap()
}

fn assert_same(document: RawDocument<'_>, theirs: &bson::Document) {
    let ours: Vec<_> = document.elements().collect();
    assert_eq!(ours.len(), theirs.len(), "no member is lost");
    assert_eq!(document.iter().count(), theirs.len());
    for (element, (name, value)) in ours.iter().zip(theirs) {
        assert_eq!(element.name().unwrap(), name);
        assert_eq!(element.kind().unwrap() as u8, value.element_type() as u8);
        assert_same_value(element.value().unwrap(), value);
    }
}

fn assert_same_value(ours: RawValue<'_>, theirs: &Bson) {
    match (ours, theirs) {
        (RawValue::Object(document), Bson::Document(theirs)) => assert_same(document, theirs),
        (RawValue::Array(array), Bson::Array(theirs)) => assert_same_elements(array, theirs),
        (RawValue::Int(number), Bson::Int32(theirs)) => assert_eq!(number, i64::from(*theirs)),
        (RawValue::Int(number), Bson::Int64(theirs)) => assert_eq!(number, *theirs),
        (RawValue::Double(number), Bson::Double(theirs)) => assert_eq!(number.to_bits(), theirs.to_bits()),
        (RawValue::String(text), Bson::String(theirs)) => assert_eq!(text, theirs),
        (RawValue::Bool(value), Bson::Boolean(theirs)) => assert_eq!(value, *theirs),
        (RawValue::Null, Bson::Null) => {}
        (RawValue::NonJson(value), theirs) => {
            assert_eq!(value.kind().unwrap() as u8, theirs.element_type() as u8);
            let mut whole = bson::Document::new();
            whole.insert("a", theirs.clone());
            // Length, type, name and its zero come before the value, the final zero after it.
            let whole = whole.to_vec().unwrap();
            assert_eq!(value.bytes(), &whole[7..whole.len() - 1]);
        }
        (ours, theirs) => panic!("{ours:?} is not {theirs:?}"),
    }
}

fn assert_same_elements(array: RawArray<'_>, theirs: &[Bson]) {
    assert_eq!(array.len(), theirs.len());
    for (ours, theirs) in array.iter().zip(theirs) {
        assert_same_value(ours, theirs);
    }
}

fn envelope() -> Envelope {
    Envelope {
        lsn: 1,
        time: HybridTime::from_seconds(2),
        region: 0,
        etag: Guid([3; 16]),
        ordinal: 4,
        ttl_seconds: None,
        json_size_bytes: 5,
        is_altered: false,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]

    #[test]
    fn every_kind_is_walked_and_kept_byte_for_byte(document in any_document()) {
        let bytes = document.to_vec().unwrap();
        let body = body_of(&document);
        assert_same(body.raw(), &document);
        let record = Record::encode(&envelope(), body.raw());
        prop_assert_eq!(Record::decode(&record).unwrap().body.as_bytes(), &bytes[..]);
    }

    #[test]
    fn what_is_shown_is_json_and_the_same_value_everywhere(document in any_document()) {
        let body = body_of(&document);
        let text = render(&body);
        prop_assert_eq!(json_size(body.raw()), text.len());
        // A document that is sent as this text is, to queries, the same document.
        let sent = parse_document(text.as_bytes(), &Default::default()).unwrap();
        prop_assert!(compare_raw(RawValue::Object(body.raw()), RawValue::Object(sent.raw())).is_eq());
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        write_binary(RawValue::Object(body.raw()), &mut ours);
        write_binary(RawValue::Object(sent.raw()), &mut theirs);
        // Only the width of containers' lengths may differ: it is chosen by their size as BSON.
        let json = |binary: &[u8]| shardlake_document::json_of_binary(binary, &Default::default()).unwrap();
        prop_assert_eq!(json(&ours), json(&theirs));
    }

    #[test]
    fn a_patch_keeps_the_bytes_of_what_it_does_not_touch(document in any_document()) {
        let body = body_of(&document);
        let patched = apply_patch(body.raw(), &[PatchOperation::Set {
            path: vec!["patched by the test".to_owned()],
            value: Value::Bool(true),
        }]).unwrap();
        let mut expected = document;
        expected.insert("patched by the test", true);
        prop_assert_eq!(patched.as_bytes(), &expected.to_vec().unwrap()[..]);
    }

    #[test]
    fn damaged_bodies_are_refused_or_read_to_their_end(
        document in any_document(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut bytes = document.to_vec().unwrap();
        prop_assert!(Body::from_bson(bytes[..bytes.len() - 1].to_vec()).is_err());
        for (place, byte) in damage {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        if let Ok(body) = Body::from_bson(bytes) {
            let text = render(&body);
            prop_assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok(), "{text}");
            prop_assert_eq!(body.raw().len(), body.raw().iter().count());
        }
    }
}

#[test]
fn values_that_json_lacks_are_shown_by_the_rule() {
    let oid = ObjectId::parse_str("65f0c0ffee65f0c0ffee65f0").unwrap();
    let date = |ms| Bson::DateTime(DateTime::from_millis(ms));
    let decimal = |text: &str| Bson::Decimal128(text.parse().unwrap());
    let binary =
        |subtype: u8, bytes: &[u8]| Bson::Binary(Binary { subtype: subtype.into(), bytes: bytes.to_vec() });
    let regex = Regex { pattern: "^a\"b".try_into().unwrap(), options: "im".try_into().unwrap() };
    let code = JavaScriptCodeWithScope { code: "x".to_owned(), scope: bson::doc! { "a": 1i64 } };
    for (value, shown) in [
        (Bson::Int64(5), "5"),
        (Bson::Double(5.0), "5"),
        (Bson::Double(f64::NAN), r#"{"$numberDouble":"NaN"}"#),
        (Bson::Double(f64::NEG_INFINITY), r#"{"$numberDouble":"-Infinity"}"#),
        (Bson::ObjectId(oid), r#"{"$oid":"65f0c0ffee65f0c0ffee65f0"}"#),
        (date(1_700_000_000_000), r#"{"$date":"2023-11-14T22:13:20Z"}"#),
        (date(1_700_000_000_001), r#"{"$date":"2023-11-14T22:13:20.001Z"}"#),
        (date(-1), r#"{"$date":{"$numberLong":"-1"}}"#),
        (date(253_402_300_800_000), r#"{"$date":{"$numberLong":"253402300800000"}}"#),
        (decimal("1.10"), r#"{"$numberDecimal":"1.10"}"#),
        (decimal("1E+3"), r#"{"$numberDecimal":"1E+3"}"#),
        (decimal("-0.00001"), r#"{"$numberDecimal":"-0.00001"}"#),
        (binary(0, &[1, 2, 3]), r#"{"$binary":{"base64":"AQID","subType":"00"}}"#),
        (binary(128, &[]), r#"{"$binary":{"base64":"","subType":"80"}}"#),
        (Bson::Timestamp(Timestamp { time: 1, increment: 2 }), r#"{"$timestamp":{"t":1,"i":2}}"#),
        (Bson::RegularExpression(regex), r#"{"$regularExpression":{"pattern":"^a\"b","options":"im"}}"#),
        (Bson::JavaScriptCodeWithScope(code), r#"{"$code":"x","$scope":{"a":1}}"#),
        (Bson::Symbol("s".to_owned()), r#"{"$symbol":"s"}"#),
        (Bson::MinKey, r#"{"$minKey":1}"#),
        (Bson::Undefined, r#"{"$undefined":true}"#),
    ] {
        let mut document = bson::Document::new();
        document.insert("v", value);
        assert_eq!(render(&body_of(&document)), format!(r#"{{"v":{shown}}}"#));
    }
}

#[test]
fn names_that_no_item_may_have_are_refused() {
    let body = |document: bson::Document| Body::from_bson(document.to_vec().unwrap());
    let reserved = DocumentError::ReservedProperty { name: "_etag".to_owned() };
    assert_eq!(body(bson::doc! { "a": 1, "_etag": 2 }), Err(reserved));
    assert!(body(bson::doc! { "a": { "_etag": 2 } }).is_ok());
    // Two members of one name, which the `bson` crate does not make.
    let twice = [19, 0, 0, 0, 0x10, b'a', 0, 1, 0, 0, 0, 0x10, b'a', 0, 2, 0, 0, 0, 0].to_vec();
    assert_eq!(Body::from_bson(twice), Err(DocumentError::DuplicateProperty { name: "a".to_owned() }));
    // Code with scope in the shape of a name with a zero character, and code with scope that only resembles
    // it.
    let code = |name: &str, code: &str, scope| {
        let mut document = bson::Document::new();
        document.insert(name, JavaScriptCodeWithScope { code: code.to_owned(), scope });
        body(document)
    };
    assert!(code("a␀", "a\0", bson::doc! { "": 1 }).is_err());
    let kept = code("b␀", "a\0", bson::doc! { "": 1 }).unwrap();
    let kinds: Vec<_> = kept.raw().elements().map(|element| element.kind().unwrap()).collect();
    assert_eq!(kinds, [BsonKind::CodeWithScope]);
}

#[test]
fn paths_lead_into_values_that_json_lacks() {
    let oid = ObjectId::parse_str("65f0c0ffee65f0c0ffee65f0").unwrap();
    let body = body_of(&bson::doc! { "a": { "b": oid } });
    let found = body.raw().value_at_path(&["a", "b", "$oid"]);
    assert_eq!(found, Some(Value::from("65f0c0ffee65f0c0ffee65f0")));
    assert_eq!(body.raw().value_at_path(&["a", "b", "c"]), None);
}

#[test]
fn a_name_that_occurs_twice_is_found_in_documents_of_any_size() {
    for members in [1, 2, 23, 24, 25, 26, 60] {
        let names: Vec<String> = (0..members).map(|number| format!("n{number}")).collect();
        let written = |names: &[&str]| {
            let mut bytes = vec![0; 4];
            for name in names {
                bytes.extend([0x0A]);
                bytes.extend(name.bytes().chain([0]));
            }
            bytes.push(0);
            let length = (bytes.len() as i32).to_le_bytes();
            bytes[..4].copy_from_slice(&length);
            Body::from_written_bson(bytes)
        };
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        assert!(written(&names).is_ok(), "{members}");
        for twice in [0, members / 2, members - 1] {
            for place in [0, members / 2, members] {
                let mut names = names.clone();
                names.insert(place, names[twice]);
                let name = format!("n{twice}");
                assert_eq!(written(&names), Err(DocumentError::DuplicateProperty { name }), "{members}");
            }
        }
    }
}
