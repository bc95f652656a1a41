//! Objects that represent values of kinds that JSON lacks, back to those values: the inverse of
//! `non_json.rs`.
//!
//! An object counts only in exactly the form that [`NonJson::shown`] writes (names, their order, the texts),
//! so that a value read back as JSON equals the value sent.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::body::Body;
use crate::bson_writer::{BsonWriter, kind};
use crate::raw::{NonJson, RawArray, RawDocument, RawElement, RawValue};

/// Replaces all objects in a body that represent values by these values.
pub fn with_non_json(body: Body) -> Body {
    if !has_candidate(RawValue::Object(body.raw())) {
        return body;
    }
    let mut writer = BsonWriter::with_capacity(body.as_bytes().len());
    let length_at = writer.reserve_length();
    write_members(body.raw(), &mut writer);
    writer.end_document(length_at);
    Body::from_writer(writer.out).expect("a value takes no more bytes than the object that stands for it")
}

/// Whether there is an inner object whose first name begins like those of the forms.
fn has_candidate(value: RawValue<'_>) -> bool {
    let is_candidate = |value: RawValue<'_>| match value {
        RawValue::Object(document) => is_form(document) || has_candidate(value),
        RawValue::Array(_) => has_candidate(value),
        _ => false,
    };
    match value {
        RawValue::Object(document) => document.iter().any(|(_, value)| is_candidate(value)),
        RawValue::Array(array) => array.iter().any(is_candidate),
        _ => false,
    }
}

fn is_form(document: RawDocument<'_>) -> bool {
    document.elements().next().is_some_and(|first| first.name.first() == Some(&b'$'))
}

fn write_members(document: RawDocument<'_>, writer: &mut BsonWriter) {
    for element in document.elements() {
        let slot = writer.member(element.name);
        write_value(&element, slot, writer);
        writer.finish(slot);
    }
}

fn write_elements(array: RawArray<'_>, writer: &mut BsonWriter) {
    for (index, element) in array.elements().enumerate() {
        let slot = writer.element(index);
        write_value(&element, slot, writer);
    }
}

fn write_value(element: &RawElement<'_>, slot: crate::bson_writer::Slot, writer: &mut BsonWriter) {
    match element.value() {
        Some(RawValue::Object(document)) => {
            if let Some((kind, bytes)) = value_of(document) {
                return writer.stored(slot, kind, &bytes);
            }
            let length_at = writer.begin_document(slot, kind::DOCUMENT);
            write_members(document, writer);
            writer.end_document(length_at);
        }
        Some(RawValue::Array(array)) => {
            let length_at = writer.begin_document(slot, kind::ARRAY);
            write_elements(array, writer);
            writer.end_document(length_at);
        }
        _ => writer.stored(slot, element.kind, element.value),
    }
}

/// The kind and the bytes of the value that an object represents.
fn value_of(document: RawDocument<'_>) -> Option<(u8, Vec<u8>)> {
    if !is_form(document) {
        return None;
    }
    let (kind, bytes) = meant(document)?;
    let shown = NonJson { kind, bytes: &bytes }.shown();
    (shown.as_bytes() == document.as_bytes()).then_some((kind, bytes))
}

/// The value of an object in any spelling.
fn meant(document: RawDocument<'_>) -> Option<(u8, Vec<u8>)> {
    let mut members = document.iter();
    let (name, value) = members.next()?;
    Some(match (name, value) {
        ("$numberDouble", RawValue::String(text)) => (kind::DOUBLE, double(text)?.to_le_bytes().into()),
        ("$numberDecimal", RawValue::String(text)) => (kind::DECIMAL128, decimal(text)?.to_le_bytes().into()),
        ("$oid", RawValue::String(text)) => (kind::OBJECT_ID, object_id(text)?),
        ("$date", RawValue::String(text)) => (kind::DATE, date(text)?.to_le_bytes().into()),
        ("$date", RawValue::Object(inner)) => {
            let milliseconds: i64 = text_of(inner, "$numberLong")?.parse().ok()?;
            (kind::DATE, milliseconds.to_le_bytes().into())
        }
        ("$binary", RawValue::Object(inner)) => {
            let content = STANDARD.decode(text_of(inner, "base64")?).ok()?;
            let [subtype] = unhex(text_of(inner, "subType")?)?[..] else { return None };
            let length = i32::try_from(content.len()).ok()?;
            (kind::BINARY, [&length.to_le_bytes()[..], &[subtype], &content].concat())
        }
        ("$timestamp", RawValue::Object(inner)) => {
            let (seconds, place) = (number_of(inner, "t")?, number_of(inner, "i")?);
            let both = u64::from(seconds) << 32 | u64::from(place);
            (kind::TIMESTAMP, both.to_le_bytes().into())
        }
        ("$regularExpression", RawValue::Object(inner)) => {
            let (pattern, options) = (text_of(inner, "pattern")?, text_of(inner, "options")?);
            let is_sorted = options.bytes().is_sorted_by(|left, right| left < right);
            let is_known = options.bytes().all(|option| b"ilmsux".contains(&option));
            if pattern.contains('\0') || !is_sorted || !is_known {
                return None;
            }
            (kind::REGEX, [pattern.as_bytes(), &[0], options.as_bytes(), &[0]].concat())
        }
        ("$code", RawValue::String(code)) => match members.next() {
            None => (kind::CODE, string(code)?),
            Some(("$scope", RawValue::Object(scope))) => (kind::CODE_WITH_SCOPE, with_scope(code, scope)?),
            Some(_) => return None,
        },
        ("$symbol", RawValue::String(symbol)) => (kind::SYMBOL, string(symbol)?),
        ("$dbPointer", RawValue::Object(inner)) => {
            let Some(RawValue::Object(id)) = inner.get("$id") else { return None };
            let id = object_id(text_of(id, "$oid")?)?;
            (kind::DB_POINTER, [string(text_of(inner, "$ref")?)?, id].concat())
        }
        ("$minKey", RawValue::Int(1)) => (kind::MIN_KEY, Vec::new()),
        ("$maxKey", RawValue::Int(1)) => (kind::MAX_KEY, Vec::new()),
        ("$undefined", RawValue::Bool(true)) => (kind::UNDEFINED, Vec::new()),
        _ => return None,
    })
}

fn text_of<'a>(document: RawDocument<'a>, name: &str) -> Option<&'a str> {
    match document.get(name) {
        Some(RawValue::String(text)) => Some(text),
        _ => None,
    }
}

fn number_of(document: RawDocument<'_>, name: &str) -> Option<u32> {
    match document.get(name) {
        Some(RawValue::Int(number)) => u32::try_from(number).ok(),
        _ => None,
    }
}

fn string(text: &str) -> Option<Vec<u8>> {
    let length = i32::try_from(text.len() + 1).ok()?;
    Some([&length.to_le_bytes()[..], text.as_bytes(), &[0]].concat())
}

fn with_scope(code: &str, scope: RawDocument<'_>) -> Option<Vec<u8>> {
    // In this shape it would be a name with U+0000 (`bson_writer.rs`).
    if scope.elements().next().is_some_and(|first| first.name.is_empty()) {
        return None;
    }
    let (code, scope) = (string(code)?, scope.as_bytes());
    let length = i32::try_from(4 + code.len() + scope.len()).ok()?;
    Some([&length.to_le_bytes()[..], &code, scope].concat())
}

fn object_id(text: &str) -> Option<Vec<u8>> {
    unhex(text).filter(|bytes| bytes.len() == 12)
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok()).collect()
}

fn double(text: &str) -> Option<f64> {
    match text {
        "NaN" => Some(f64::NAN),
        "Infinity" => Some(f64::INFINITY),
        "-Infinity" => Some(f64::NEG_INFINITY),
        _ => None,
    }
}

/// The bits of a decimal128 whose text keeps all its digits.
fn decimal(text: &str) -> Option<u128> {
    const BIAS: i32 = 6176;
    let (sign, text) = match text.strip_prefix('-') {
        Some(rest) => (1 << 127, rest),
        None => (0, text),
    };
    match text {
        "NaN" => return Some(sign | 0x1F << 122),
        "Infinity" => return Some(sign | 0x1E << 122),
        _ => {}
    }
    let (digits, exponent) = match text.split_once('E') {
        Some((digits, exponent)) => (digits, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (before, behind) = digits.split_once('.').unwrap_or((digits, ""));
    let digits = format!("{before}{behind}");
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let coefficient: u128 = digits.parse().ok().filter(|coefficient| *coefficient < 10u128.pow(34))?;
    let exponent = exponent.checked_sub(i32::try_from(behind.len()).ok()?)?;
    let biased = exponent.checked_add(BIAS).filter(|biased| (0..=2 * BIAS - 65).contains(biased))?;
    is_number.then_some(sign | u128::from(biased.unsigned_abs()) << 113 | coefficient)
}

/// Milliseconds since 1970 of a time like `2026-11-22T01:02:03.004Z`.
fn date(text: &str) -> Option<i64> {
    let number = |range: std::ops::Range<usize>| text.get(range)?.parse::<i64>().ok();
    let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
    let (hour, minute, second) = (number(11..13)?, number(14..16)?, number(17..19)?);
    let fraction = match text.len() {
        20 => 0,
        24 => number(20..23)?,
        _ => return None,
    };
    if !(1..=12).contains(&month) || [hour, minute, second, fraction].iter().any(|part| *part < 0) {
        return None;
    }
    // Days since 1970 (Howard Hinnant's `days_from_civil`).
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + day - 1;
    let days =
        era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468;
    Some(((days * 24 + hour) * 60 + minute) * 60_000 + second * 1000 + fraction)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{ParseLimits, parse_document};

    fn parsed(json: &str) -> Body {
        parse_document(json.as_bytes(), &ParseLimits::default()).expect("JSON")
    }

    fn body(kind: u8, bytes: &[u8]) -> Body {
        let mut writer = BsonWriter::default();
        let length_at = writer.reserve_length();
        // Such a value has no name with U+0000: its documents come from APIs whose names cannot contain it.
        let names = if kind == kind::CODE_WITH_SCOPE { &["a"][..] } else { &["a", "b\0c"] };
        for name in names {
            let slot = writer.member(name.as_bytes());
            writer.stored(slot, kind, bytes);
            writer.finish(slot);
        }
        let slot = writer.member(b"list");
        let array_at = writer.begin_document(slot, kind::ARRAY);
        let element = writer.element(0);
        writer.stored(element, kind, bytes);
        writer.end_document(array_at);
        writer.end_document(length_at);
        Body::from_writer(writer.out).expect("small")
    }

    /// To JSON, and back.
    fn there_and_back(kind: u8, bytes: &[u8]) {
        let body = body(kind, bytes);
        let mut json = Vec::new();
        crate::write_json(body.raw(), &mut json);
        let back = with_non_json(parsed(std::str::from_utf8(&json).expect("JSON is text")));
        assert_eq!(back.as_bytes(), body.as_bytes(), "{}", String::from_utf8_lossy(&json));
    }

    #[test]
    fn values_of_every_kind_come_back() {
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            there_and_back(kind::DOUBLE, &value.to_le_bytes());
        }
        there_and_back(kind::OBJECT_ID, &[0xAB; 12]);
        there_and_back(kind::BINARY, &[3, 0, 0, 0, 4, 1, 2, 3]);
        there_and_back(kind::TIMESTAMP, &u64::MAX.to_le_bytes());
        there_and_back(kind::REGEX, b"a/b\0im\0");
        there_and_back(kind::CODE, &string("f()").unwrap());
        there_and_back(kind::SYMBOL, &string("").unwrap());
        there_and_back(kind::CODE_WITH_SCOPE, &with_scope("f()", parsed(r#"{"x":1}"#).raw()).unwrap());
        there_and_back(kind::DB_POINTER, &[string("c").unwrap(), vec![7; 12]].concat());
        for kind in [kind::MIN_KEY, kind::MAX_KEY, kind::UNDEFINED] {
            there_and_back(kind, &[]);
        }
        for special in [0x1Fu128 << 122, 0x1E << 122, 0x3E << 122] {
            there_and_back(kind::DECIMAL128, &special.to_le_bytes());
        }
    }

    proptest! {
        #[test]
        fn dates_come_back(milliseconds in prop_oneof![any::<i64>(), 0..253_402_300_800_000i64, -5000..5000i64]) {
            there_and_back(kind::DATE, &milliseconds.to_le_bytes());
        }

        #[test]
        fn decimals_come_back(
            negative in any::<bool>(),
            coefficient in prop_oneof![0..10u128.pow(34), 0..2000u128],
            biased in prop_oneof![0..=12_287u128, 6160..6180u128],
        ) {
            let bits = u128::from(negative) << 127 | biased << 113 | coefficient;
            there_and_back(kind::DECIMAL128, &bits.to_le_bytes());
        }
    }

    #[test]
    fn what_is_not_exactly_a_form_stays_an_object() {
        for json in [
            r#"{"a":{"$oid":"507F1F77BCF86CD799439011"}}"#,
            r#"{"a":{"$oid":"507f1f77bcf86cd79943901"}}"#,
            r#"{"a":{"$oid":"507f1f77bcf86cd799439011","more":1}}"#,
            r#"{"a":{"$date":"2026-02-30T00:00:00Z"}}"#,
            r#"{"a":{"$date":"2026-01-01T00:00:00.000Z"}}"#,
            r#"{"a":{"$date":"2026-01-01T00:00:00+01:00"}}"#,
            r#"{"a":{"$date":1}}"#,
            r#"{"a":{"$date":{"$numberLong":"1"}}}"#,
            r#"{"a":{"$numberDecimal":"01.0"}}"#,
            r#"{"a":{"$numberDecimal":"-NaN"}}"#,
            r#"{"a":{"$numberDecimal":"1E"}}"#,
            r#"{"a":{"$numberDouble":"1.5"}}"#,
            r#"{"a":{"$timestamp":{"i":1,"t":1}}}"#,
            r#"{"a":{"$timestamp":{"t":-1,"i":1}}}"#,
            r#"{"a":{"$regularExpression":{"pattern":"a","options":"mi"}}}"#,
            r#"{"a":{"$regularExpression":{"pattern":"a\u0000","options":""}}}"#,
            r#"{"a":{"$binary":{"base64":"AQI","subType":"00"}}}"#,
            r#"{"a":{"$code":"f","$scope":{"":1}}}"#,
            r#"{"a":{"$minKey":2}}"#,
            r#"{"a":{"$undefined":false}}"#,
            r#"{"a":{"$set":{"b":1}}}"#,
            r#"{"$oid":"507f1f77bcf86cd799439011"}"#,
        ] {
            let body = parsed(json);
            assert_eq!(with_non_json(body.clone()).as_bytes(), body.as_bytes(), "{json}");
        }
    }
}
