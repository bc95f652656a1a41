//! Cosmos binary JSON in and out, against the JSON text of the same values.
#![allow(clippy::unwrap_used)] // a test may fail by panicking

use crate::support::{documents, expected, parse, printed, render, values};
use proptest::prelude::*;
use serde_json::Value as Json;
use shardlake_document::{
    DocumentError, ParseLimits, RawDocument, RawValue, binary_of_json, json_of_binary, parse_binary_document,
    parse_document, write_binary,
};
use shardlake_testkit::shared_directory;

/// A value in each form, as bytes and as text.
const VECTORS: &[(&str, &str)] = &[
    ("80 D0", "null"),
    ("80 D1", "false"),
    ("80 D2", "true"),
    ("80 00", "0"),
    ("80 1F", "31"),
    ("80 C8 FF", "255"),
    ("80 C9 00 80", "-32768"),
    ("80 CA FF FF FF 7F", "2147483647"),
    ("80 CB 01 00 00 00 00 00 20 00", "9007199254740993"),
    ("80 C7 FF FF FF FF FF FF FF 7F", "9223372036854775807"),
    ("80 CC 00 00 00 00 00 00 F0 3F", "1.0"),
    ("80 CC 00 00 00 00 00 00 00 80", "-0.0"),
    ("80 CD 00 00 20 C0", "-2.5"),
    ("80 CE 9A 99 99 99 99 99 B9 3F", "0.1"),
    ("80 D7 80", "128"),
    ("80 D8 80", "-128"),
    ("80 D9 FF 7F", "32767"),
    ("80 DA 00 00 00 80", "-2147483648"),
    ("80 DB FF FF FF FF FF FF FF FF", "-1"),
    ("80 DC FF FF FF FF", "4294967295"),
    ("80 20", "\"$s\""),
    ("80 26", "\"_self\""),
    ("80 28", "\"attachments/\""),
    ("80 2C", "\"id\""),
    ("80 36", "\"Name\""),
    ("80 3F", "\"_id\""),
    ("80 80", "\"\""),
    ("80 83 E2 82 AC", "\"\u{20ac}\""),
    ("80 C0 02 22 5C", r#""\"\\""#),
    ("80 C1 01 00 00", r#""\u0000""#),
    ("80 C2 03 00 00 00 61 62 63", "\"abc\""),
    // An etag in the form that a live account has sent.
    (
        "80 77 00 00 84 21 00 00 20 00 00 00 A6 F7 9A A8 00 00",
        r#""\"00004812-0000-0200-0000-6a7fa98a0000\"""#,
    ),
    ("80 75 10 32 54 76 98 BA DC FE 10 32 54 76 98 BA DC FE", "\"01234567-89ab-cdef-0123-456789abcdef\""),
    ("80 76 10 32 54 76 98 BA DC FE 10 32 54 76 98 BA DC FE", "\"01234567-89AB-CDEF-0123-456789ABCDEF\""),
    ("80 D3 33 22 11 00 55 44 77 66 88 99 AA BB CC DD EE FF", "\"00112233-4455-6677-8899-aabbccddeeff\""),
    ("80 71 00 00", "\"\""),
    ("80 71 01 00 4D 61 6E", "\"TWFu\""),
    ("80 71 01 01 4D 61", "\"TWE=\""),
    ("80 71 01 02 4D", "\"TQ==\""),
    ("80 71 01 FE 4D 61", "\"TWE\""),
    ("80 72 01 00 FD 4D", "\"TQ\""),
    ("80 73 01 00 FB FF BF", "\"-_-_\""),
    ("80 74 01 00 00 FB FF BF", "\"-_-_\""),
    ("80 DD 02 FB FF", "\"+/8=\""),
    ("80 DE 00 00", "\"\""),
    ("80 DF 01 00 00 00 4D", "\"TQ==\""),
    ("80 78 00", "\"\""),
    ("80 78 03 21 0F", "\"12f\""),
    ("80 79 02 FA", "\"AF\""),
    ("80 7A 03 B1 0C", "\"0:-\""),
    ("80 7B 03 41 10 02", "\"ABC\""),
    ("80 7C 02 61 C0 03", "\"a\u{7f}\""),
    ("80 7D 02 20 C0 0F", "\" _\""),
    ("80 7E 03 61 F1 18", "\"abc\""),
    ("80 7F 01 00 7F", "\"\u{7f}\""),
    ("80 E0", "[]"),
    ("80 E1 E1 E0", "[[[]]]"),
    ("80 E2 00", "[]"),
    ("80 E3 02 00 01 02", "[1,2]"),
    ("80 E4 02 00 00 00 01 02", "[1,2]"),
    ("80 E5 02 02 01 02", "[1,2]"),
    ("80 E6 02 00 02 00 01 02", "[1,2]"),
    ("80 E7 02 00 00 00 02 00 00 00 01 02", "[1,2]"),
    ("80 E8", "{}"),
    ("80 E9 81 61 E9 2C E8", r#"{"a":{"id":{}}}"#),
    ("80 EA 05 81 61 01 2C 02", r#"{"a":1,"id":2}"#),
    ("80 EB 03 00 81 61 01", r#"{"a":1}"#),
    ("80 EC 03 00 00 00 81 61 01", r#"{"a":1}"#),
    ("80 ED 03 01 81 61 01", r#"{"a":1}"#),
    ("80 EE 03 00 01 00 81 61 01", r#"{"a":1}"#),
    ("80 EF 03 00 00 00 01 00 00 00 81 61 01", r#"{"a":1}"#),
    ("80 E2 05 82 68 69 C3 03", r#"["hi","hi"]"#),
    ("80 E2 06 82 68 69 C4 03 00", r#"["hi","hi"]"#),
    ("80 E2 07 82 68 69 C5 03 00 00", r#"["hi","hi"]"#),
    ("80 E2 08 82 68 69 C6 03 00 00 00", r#"["hi","hi"]"#),
    ("80 E2 04 E1 2C C3 04", r#"[["id"],"id"]"#),
    ("80 EA 06 81 61 01 C3 03 01", r#"{"a":1,"a":1}"#),
    ("80 F0 D8 03 FF 00 01", "[-1,0,1]"),
    ("80 F1 DB 01 00 02 00 00 00 00 00 00 00", "[2]"),
    ("80 F0 CE 01 00 00 00 00 00 00 F0 3F", "[1.0]"),
    ("80 F2 F0 D7 02 02 01 02 03 04", "[[1,2],[3,4]]"),
    ("80 F3 F1 D7 01 00 02 00 01 02", "[[1],[2]]"),
    ("80 F2 F0 D7 00 02", "[[],[]]"),
];

fn bytes(hex: &str) -> Vec<u8> {
    hex.split(' ').map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
}

fn text_of(binary: &[u8]) -> Result<String, DocumentError> {
    json_of_binary(binary, &ParseLimits::default()).map(|text| String::from_utf8(text).unwrap())
}

fn refuse(hex: &str) -> DocumentError {
    json_of_binary(&bytes(hex), &ParseLimits::default()).expect_err(hex)
}

fn item(binary: &[u8]) -> Result<Vec<u8>, DocumentError> {
    parse_binary_document(binary, &ParseLimits::default()).map(|body| body.as_bytes().to_vec())
}

#[test]
fn each_form_of_a_value_is_read() {
    for (hex, text) in VECTORS {
        match text_of(&bytes(hex)) {
            Ok(found) => {
                let canonical = parse(&format!("{{\"v\":{text}}}"));
                assert_eq!(format!("{{\"v\":{found}}}"), render(&canonical), "{hex}");
            }
            Err(error) => panic!("{hex}: {error}"),
        }
    }
}

/// Three vectors are of an earlier reading of GUID strings, with the high half of each byte first.
/// The published encoder and a live account put the low half first, as in all other packed strings.
#[test]
fn the_published_vectors_are_read() {
    let Some(directory) = shared_directory("conformance", "document: binary vectors") else { return };
    let vectors = std::fs::read_to_string(directory.join("merge/binary_json_vectors.json")).unwrap();
    let vectors: Vec<Json> = serde_json::from_str(&vectors).unwrap();
    assert!(vectors.len() >= 60);
    for vector in vectors {
        let name = vector["name"].as_str().unwrap();
        let found: Json =
            serde_json::from_str(&text_of(&bytes(vector["binary"].as_str().unwrap())).expect(name)).unwrap();
        match name {
            "guid_string_lower" => assert_eq!(found, "00102030-4050-6070-8090-a0b0c0d0e0f0"),
            "guid_string_upper" => assert_eq!(found, "00102030-4050-6070-8090-A0B0C0D0E0F0"),
            "guid_string_quoted" => assert_eq!(found, "\"00102030-4050-6070-8090-a0b0c0d0e0f0\""),
            _ => assert_eq!(found, expected(vector["json"].clone()), "{name}"),
        }
    }
}

#[test]
fn what_is_not_supported_is_refused_by_name() {
    for (hex, word) in [
        ("80 40", "dictionary"),
        ("80 67 01", "dictionary"),
        ("80 CF 00 3C", "half precision"),
        ("80 D4", "value is expected"),
        ("80 68", "value is expected"),
        ("80 FF", "value is expected"),
        ("80 F0 C8 01 01", "type of an array's numbers"),
        ("80 F0 CF 01 01", "type of an array's numbers"),
        ("80 F2 F1 D7 01 01 01", "array of numbers"),
        ("80 E9 00 01", "property name"),
        ("80 E9 C3 01 01", "earlier string"),
        ("80 E2 04 82 68 69 C3", "too early"),
        ("80 E2 04 80 C3 04 00", "earlier string"),
        ("80 C3 00", "earlier string"),
        ("80 C3 01", "earlier string"),
        ("80 E2 05 00 C3 03 C3 03", "earlier string"),
        ("80 E2 06 80 C3 03 C3 04 00", "earlier string"),
        // A string that begins before the reference and ends after it.
        ("80 E2 06 82 78 06 C3 04 61", "earlier string"),
        ("80 85 61", "too early"),
        ("80 C1 01", "too early"),
        ("80 CB 00", "too early"),
        ("80", "too early"),
        ("80 D0 D0", "behind the end"),
        ("80 E2 05 00", "longer than the document"),
        ("80 E4 FF FF FF FF 00", "longer than the document"),
        ("80 E2 01 C9 01 00", "beyond"),
        ("80 E2 02 E2 02 00 00", "beyond"),
        ("80 E5 02 03 01 02", "as many values"),
        ("80 E5 00 01", "as many values"),
        ("80 ED 03 02 81 61 01", "as many values"),
        ("80 78 01 1F", "unused half"),
        ("80 7B 01 7F 01", "ASCII"),
        ("80 71 01 03 00 00", "padding"),
        ("80 71 00 01", "padding"),
        ("80 71 00 FE", "padding"),
        ("7B 7D", "does not begin"),
    ] {
        let error = refuse(hex);
        assert!(matches!(error, DocumentError::InvalidBinary { .. }), "{hex}: {error:?}");
        assert!(error.to_string().contains(word), "{hex}: {error}");
        assert!(!error.is_corruption());
    }
    for hex in ["80 81 FF", "80 82 C3 28", "80 83 ED A0 80", "80 E9 81 80 01"] {
        assert!(matches!(refuse(hex), DocumentError::InvalidUtf8 { .. }), "{hex}");
    }
    for hex in ["80 CC 00 00 00 00 00 00 F0 7F", "80 CD 00 00 C0 7F", "80 F0 CD 01 00 00 80 FF"] {
        assert!(matches!(refuse(hex), DocumentError::NumberOutOfRange { .. }), "{hex}");
    }
    assert_eq!(item(&bytes("80 E0")), Err(DocumentError::NotAnObject));
    assert_eq!(item(&bytes("80 D0")), Err(DocumentError::NotAnObject));
}

#[test]
fn items_lose_their_system_properties_and_of_one_name_the_last_member_counts() {
    // {"_rid": "id", "id": "a", "_ts": [{"_ts": 1}], "in": {"_etag": 1}}
    let found = item(&bytes("80 EA 14 25 2C 2C 81 61 27 E1 E9 27 01 82 69 6E E9 24 01 21 22 23 24"));
    let text =
        r#"{"_rid":"id","id":"a","_ts":[{"_ts":1}],"in":{"_etag":1},"$t":"$v","_attachments":"_etag"}"#;
    assert_eq!(found, Ok(parse(text).as_bytes().to_vec()));
    // {"a": 1, "a": 2}, and a system property twice.
    assert_eq!(item(&bytes("80 EA 06 81 61 01 81 61 02")), Ok(parse(r#"{"a":2}"#).as_bytes().to_vec()));
    assert_eq!(item(&bytes("80 EA 04 27 01 27 01")), Ok(parse("{}").as_bytes().to_vec()));
}

#[test]
fn nesting_is_limited_as_in_text() {
    let nested = |levels: usize| [&[0x80][..], &vec![0xE1; levels - 1], &[0xE0]].concat();
    assert_eq!(text_of(&nested(128)).unwrap().len(), 256);
    for levels in [129, 1_000_000] {
        let error = text_of(&nested(levels)).unwrap_err();
        assert!(matches!(error, DocumentError::TooDeep { nesting_max: 128, .. }), "{error}");
    }
    // Arrays of arrays of numbers are two levels more.
    let numbers = |levels: usize| [&[0x80][..], &vec![0xE1; levels], &bytes("F2 F0 D7 01 01 05")].concat();
    assert!(text_of(&numbers(126)).is_ok());
    assert!(matches!(text_of(&numbers(127)), Err(DocumentError::TooDeep { .. })));
}

/// Each would be far more text than the limit, from a few kilobytes.
#[test]
fn no_form_stands_for_more_text_than_the_limit() {
    let limits = ParseLimits { size_max_bytes: 64 * 1024, ..ParseLimits::default() };
    let array_of = |values: Vec<u8>| {
        [&[0x80, 0xE4][..], &u32::try_from(values.len()).unwrap().to_le_bytes(), &values].concat()
    };
    let long_string = [&[0xC1, 0x10, 0x27][..], &[b'x'; 10_000]].concat();
    let references = [&long_string[..], &[0xC3, 6].repeat(20_000)].concat();
    let bombs = [
        ("references", array_of(references)),
        ("empty arrays of numbers", bytes("80 F3 F1 D7 00 00 FF FF")),
        ("many such", array_of(bytes("F3 F1 D7 00 00 FF FF").repeat(1000))),
        ("small numbers", array_of(vec![0; 50_000])),
        ("packed strings", array_of([&[0x7F, 0xFF, 0xFF][..], &vec![0; 57_344]].concat())),
        ("names", array_of([0xE9, 0x3E, 0].repeat(5_000))),
        ("dictionary", array_of([0x3E].repeat(5_000))),
    ];
    for (name, bomb) in bombs {
        let error = json_of_binary(&bomb, &limits).expect_err(name);
        let DocumentError::TooLarge { size_bytes, size_bytes_max } = error else { panic!("{name}: {error}") };
        assert_eq!(size_bytes_max, 64 * 1024);
        assert!(size_bytes <= 128 * 1024, "{name}: stopped after {size_bytes} bytes of text");
    }
}

/// The limit of an item counts its text, whatever form it comes in.
#[test]
fn an_item_of_the_limit_is_taken_in_both_forms_and_one_byte_more_in_none() {
    for (length, fits) in [(100_000 - 8, true), (100_000 - 7, false)] {
        let limits = ParseLimits { size_max_bytes: 100_000, ..ParseLimits::default() };
        let text = format!("{{\"a\":\"{}\"}}", "x".repeat(length));
        let binary = binary_of_json(text.as_bytes()).unwrap();
        assert_eq!(parse_document(text.as_bytes(), &limits).is_ok(), fits);
        assert_eq!(parse_binary_document(&binary, &limits).is_ok(), fits);
    }
}

#[test]
fn what_is_written_is_short() {
    for (text, hex) in [
        (r#"{"id":"a"}"#, "80 EA 03 2C 81 61"),
        ("[0,31,32,255,256,-1]", "80 E2 0C 00 1F C8 20 C8 FF C9 00 01 C9 FF FF"),
        ("[2147483648]", "80 E2 09 CB 00 00 00 80 00 00 00 00"),
        ("[[],{},null,true,false]", "80 E2 05 E0 E8 D0 D2 D1"),
        ("1.0", "80 01"),
        ("-0.0", "80 CC 00 00 00 00 00 00 00 80"),
        ("1.5", "80 CC 00 00 00 00 00 00 F8 3F"),
    ] {
        assert_eq!(binary_of_json(text.as_bytes()).unwrap(), bytes(hex), "{text}");
    }
}

/// Writes values in forms that this crate does not write itself, chosen by a run of numbers.
struct Encoder<'c> {
    out: Vec<u8>,
    choices: std::iter::Cycle<std::slice::Iter<'c, u8>>,
    /// Strings of the document so far, and where they stand.
    strings: Vec<(String, usize)>,
}

impl Encoder<'_> {
    fn choose(&mut self, count: u8) -> u8 {
        self.choices.next().unwrap() % count
    }

    fn one_of(&mut self, this: u8, that: u8) {
        let marker = if self.choose(2) == 0 { this } else { that };
        self.out.push(marker);
    }

    fn value(&mut self, value: &Json) {
        match value {
            Json::Null => self.out.push(0xD0),
            Json::Bool(value) => self.out.push(if *value { 0xD2 } else { 0xD1 }),
            Json::Number(number) => self.number(number),
            Json::String(text) => self.string(text),
            Json::Array(values) => {
                self.container(0xE0, values.len(), |this| values.iter().for_each(|value| this.value(value)));
            }
            Json::Object(members) => self.container(0xE8, members.len(), |this| {
                for (name, value) in members {
                    this.string(name);
                    this.value(value);
                }
            }),
        }
    }

    fn number(&mut self, number: &serde_json::Number) {
        let Some(value) = number.as_i64() else {
            self.one_of(0xCC, 0xCE);
            self.out.extend(number.as_f64().unwrap().to_le_bytes());
            return;
        };
        match self.choose(4) {
            0 if (0..32).contains(&value) => self.out.push(value as u8),
            1 if i32::try_from(value).is_ok() => {
                self.one_of(0xCA, 0xDA);
                self.out.extend((value as i32).to_le_bytes());
            }
            2 if value >= 0 => {
                self.out.push(0xC7);
                self.out.extend(value.to_le_bytes());
            }
            _ => {
                self.one_of(0xCB, 0xDB);
                self.out.extend(value.to_le_bytes());
            }
        }
    }

    fn string(&mut self, text: &str) {
        let earlier = self.strings.iter().find(|(earlier, _)| earlier == text).map(|(_, at)| *at);
        if let Some(at) = earlier
            && self.choose(2) == 0
        {
            self.out.push(0xC6);
            self.out.extend(u32::try_from(at).unwrap().to_le_bytes());
            return;
        }
        self.strings.push((text.to_owned(), self.out.len()));
        let length = text.len();
        match self.choose(4) {
            0 if text.is_ascii() && length < 256 => {
                self.out.extend([0x7E, length as u8]);
                let mut bits: Vec<bool> =
                    text.bytes().flat_map(|byte| (0..7).map(move |bit| byte >> bit & 1 == 1)).collect();
                bits.resize(bits.len().next_multiple_of(8), false);
                let byte = |bits: &[bool]| bits.iter().rev().fold(0, |byte, bit| byte << 1 | u8::from(*bit));
                self.out.extend(bits.chunks(8).map(byte));
            }
            1 if length < 64 => {
                self.out.push(0x80 + length as u8);
                self.out.extend(text.as_bytes());
            }
            2 if length < 256 => {
                self.out.extend([0xC0, length as u8]);
                self.out.extend(text.as_bytes());
            }
            _ => {
                self.out.push(0xC2);
                self.out.extend(u32::try_from(length).unwrap().to_le_bytes());
                self.out.extend(text.as_bytes());
            }
        }
    }

    fn container(&mut self, empty: u8, count: usize, write: impl FnOnce(&mut Self)) {
        match (count, self.choose(3)) {
            (0, 0) => self.out.push(empty),
            (1, 0) => {
                self.out.push(empty + 1);
                write(self);
            }
            (_, choice) => {
                let with_count = choice == 1;
                self.out.push(empty + if with_count { 7 } else { 4 });
                let length_at = self.out.len();
                self.out.extend([0; 4]);
                if with_count {
                    self.out.extend(u32::try_from(count).unwrap().to_le_bytes());
                }
                let start = self.out.len();
                write(self);
                let length = u32::try_from(self.out.len() - start).unwrap();
                self.out[length_at..length_at + 4].copy_from_slice(&length.to_le_bytes());
            }
        }
    }
}

fn encode(value: &Json, choices: &[u8]) -> Vec<u8> {
    let mut encoder = Encoder { out: vec![0x80], choices: choices.iter().cycle(), strings: Vec::new() };
    encoder.value(value);
    encoder.out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn text_and_binary_forms_of_an_item_become_the_same_bytes(
        json in documents(),
        choices in prop::collection::vec(any::<u8>(), 1..40),
    ) {
        let body = parse(&json.to_string());
        let foreign = encode(&json, &choices);
        prop_assert_eq!(&item(&foreign).unwrap(), body.as_bytes());
        let mut own = Vec::new();
        write_binary(RawValue::Object(body.raw()), &mut own);
        let again = parse_binary_document(&own, &ParseLimits::default()).unwrap();
        prop_assert_eq!(render(&again), render(&body));
        let text = String::from_utf8(json_of_binary(&own, &ParseLimits::default()).unwrap()).unwrap();
        prop_assert_eq!(&text, &render(&body));
        prop_assert_eq!(text_of(&binary_of_json(text.as_bytes()).unwrap()).unwrap(), text);
    }

    #[test]
    fn lone_values_convert_both_ways(json in values(), choices in prop::collection::vec(any::<u8>(), 1..40)) {
        let (text, printed) = (json.to_string(), printed(&json));
        prop_assert_eq!(text_of(&binary_of_json(text.as_bytes()).unwrap()).unwrap(), printed.clone());
        prop_assert_eq!(text_of(&encode(&json, &choices)).unwrap(), printed);
    }

    #[test]
    fn any_bytes_are_refused_or_read_within_the_limit(
        bytes in prop::collection::vec(prop_oneof![any::<u8>(), 0xC0..=0xF3u8, 0..8u8], 0..160),
    ) {
        survives(&[&[0x80][..], &bytes].concat());
    }

    #[test]
    fn damaged_documents_are_refused_or_read_within_the_limit(
        json in documents(),
        choices in prop::collection::vec(any::<u8>(), 1..40),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = encode(&json, &choices);
        survives(&bytes[..cut.index(bytes.len())]);
        for (place, byte) in damage {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        survives(&bytes);
    }
}

/// Reads bytes: no panic, no more text than allowed, and the result is a valid document.
fn survives(bytes: &[u8]) {
    let limits = ParseLimits { size_max_bytes: 4096, nesting_max: 20, ..ParseLimits::default() };
    if let Ok(body) = parse_binary_document(bytes, &limits) {
        RawDocument::validate(body.as_bytes()).unwrap();
        assert!(body.as_bytes().len() <= 16 * 4096, "{} bytes", body.as_bytes().len());
        let mut again = Vec::new();
        write_binary(RawValue::Object(body.raw()), &mut again);
        let again =
            parse_binary_document(&again, &ParseLimits { size_max_bytes: 1 << 20, ..limits }).unwrap();
        assert_eq!(render(&again), render(&body));
    }
    let _ = json_of_binary(bytes, &limits);
}
