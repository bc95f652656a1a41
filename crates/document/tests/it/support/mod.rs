//! Generators of JSON values and texts, shared by the property tests.
#![allow(dead_code, clippy::unwrap_used)] // each test file uses its own part, and may fail by panicking

use proptest::prelude::*;
use serde_json::{Map, Number, Value as Json};
use shardlake_document::{Body, ParseLimits, parse_document, write_json};

pub fn parse(text: &str) -> Body {
    parse_document(text.as_bytes(), &ParseLimits::default()).unwrap_or_else(|error| panic!("{error}: {text}"))
}

pub fn render(body: &Body) -> String {
    let mut out = Vec::new();
    write_json(body.raw(), &mut out);
    String::from_utf8(out).unwrap()
}

pub fn names() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a-z]{0,9}",
        1 => prop::collection::vec(any::<char>(), 0..4).prop_map(|characters| characters.into_iter().collect()),
        1 => prop::sample::select(vec!["", "\0", "a\0", "a\0b", "a␀b", "_ts", "_rid", "_lsn", "a\"b", "\\"])
            .prop_map(String::from),
    ]
}

pub fn texts() -> impl Strategy<Value = String> {
    prop_oneof![
        2 => "[ -~]{0,40}",
        1 => prop::collection::vec(any::<char>(), 0..24).prop_map(|characters| characters.into_iter().collect()),
        1 => prop::sample::select(vec!["\0", "\u{FFFF}", "\u{E000}", "😀", "\u{7F}\u{80}", "\r\n\t\u{8}\u{C}\u{1F}"])
            .prop_map(String::from),
    ]
}

pub fn integers() -> impl Strategy<Value = i64> {
    let edges = vec![
        0,
        1,
        -1,
        i64::MAX,
        i64::MIN,
        i64::MAX - 1,
        1 << 53,
        (1 << 53) + 1,
        -(1 << 53) - 1,
        1 << 31,
        -(1 << 31),
    ];
    prop_oneof![any::<i64>(), -1000i64..1000, prop::sample::select(edges)]
}

pub fn doubles() -> impl Strategy<Value = f64> {
    let edges = vec![
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.1,
        1e16,
        1e300,
        f64::MIN_POSITIVE,
        5e-324,
        f64::MAX,
        f64::MIN,
        9.007199254740992e15,
        9_223_372_036_854_775_808.0,
    ];
    prop_oneof![
        any::<f64>().prop_filter("finite", |value| value.is_finite()),
        prop::sample::select(edges),
        (-100_000i32..100_000).prop_map(|value| f64::from(value) / 100.0),
    ]
}

pub fn scalars() -> impl Strategy<Value = Json> {
    prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::Bool),
        integers().prop_map(Json::from),
        doubles().prop_map(|value| Json::Number(Number::from_f64(value).unwrap())),
        texts().prop_map(Json::String),
    ]
}

pub fn values() -> impl Strategy<Value = Json> {
    scalars().prop_recursive(5, 60, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Json::Array),
            prop::collection::vec((names(), inner), 0..8).prop_map(object),
        ]
    })
}

pub fn documents() -> impl Strategy<Value = Json> {
    prop::collection::vec((names(), values()), 0..40).prop_map(object)
}

fn object(members: Vec<(String, Json)>) -> Json {
    Json::Object(members.into_iter().collect::<Map<_, _>>())
}

/// The stored form of a JSON text: no system properties on top, integers beyond `i64` as doubles.
pub fn expected(mut json: Json) -> Json {
    if let Json::Object(members) = &mut json {
        members.retain(|name, _| !shardlake_document::is_system_property(name));
    }
    normalise(json)
}

/// The text of a JSON value as documents print it: whole numbers below 10^21 as their digits.
pub fn printed(json: &Json) -> String {
    let list = |parts: Vec<String>| parts.join(",");
    match json {
        Json::Number(number) if number.is_f64() => match number.as_f64().unwrap() {
            zero if zero == 0.0 && zero.is_sign_negative() => "-0".to_owned(),
            whole if whole.fract() == 0.0 && whole.abs() < 1e21 => format!("{}", whole as i128),
            _ => number.to_string(),
        },
        Json::Array(elements) => format!("[{}]", list(elements.iter().map(printed).collect())),
        Json::Object(members) => {
            let member =
                |(name, value): (&String, &Json)| format!("{}:{}", Json::from(name.as_str()), printed(value));
            format!("{{{}}}", list(members.iter().map(member).collect()))
        }
        other => other.to_string(),
    }
}

fn normalise(json: Json) -> Json {
    match json {
        Json::Number(number) if number.is_u64() && !number.is_i64() => {
            Json::Number(Number::from_f64(number.as_f64().unwrap()).unwrap())
        }
        Json::Array(elements) => Json::Array(elements.into_iter().map(normalise).collect()),
        Json::Object(members) => {
            Json::Object(members.into_iter().map(|(name, value)| (name, normalise(value))).collect())
        }
        other => other,
    }
}
