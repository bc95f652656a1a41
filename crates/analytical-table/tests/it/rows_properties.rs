//! Laws for random documents in random rounds: row and `_rest` together are the document, no number changes its
//! value, a file gives back its batch, the schema's text gives back the schema.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use shardlake_analytical_table::schema::{SchemaLimits, SchemaMode};
use shardlake_document::{Body, Value, with_non_json};

use crate::rounds::{Rounds, json};

/// Names that meet often, in several spellings, with odd characters.
fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => prop::sample::select(vec!["a", "b", "c", "d"]).prop_map(str::to_owned),
        3 => prop::sample::select(vec![
            "A", "B", "é", "É", "id", "ID", "_lsn", "_Rest", "First Name", "x,y", "_x0020_", "_x002c_", ",", "~", "/",
            "~1", "a/b", "0", "1", "", "element", "num", "NULL", "object", "$oid", "nul\0", "İ", "ß", "ẞ",
        ])
        .prop_map(str::to_owned),
        1 => "\\PC{0,12}",
        1 => Just("long".repeat(70)),
    ]
}

fn number() -> impl Strategy<Value = Value> {
    const EXACT: i64 = 1 << 53;
    prop_oneof![
        4 => (-3..4i64).prop_map(Value::Int),
        2 => prop::sample::select(vec![
            EXACT - 1, EXACT, EXACT + 1, EXACT + 2, -EXACT, -EXACT - 1, i64::MAX, i64::MIN, i64::MAX - 1,
            i64::from(i32::MAX), i64::from(i32::MAX) + 1,
        ])
        .prop_map(Value::Int),
        1 => any::<i64>().prop_map(Value::Int),
        3 => prop::sample::select(vec![
            0.0, -0.0, 1.0, 6.0, 0.5, -2.25, 9007199254740992.0, 9007199254740994.0, -9007199254740992.0, 1e18,
            9223372036854775808.0, -9223372036854775808.0, 1e300, f64::MIN_POSITIVE, 5e-324, f64::MAX,
        ])
        .prop_map(Value::Double),
        1 => any::<f64>().prop_filter_map("finite", |value| value.is_finite().then_some(Value::Double(value))),
    ]
}

/// Objects that stand for values that JSON lacks.
fn beyond_json() -> impl Strategy<Value = Value> {
    prop::sample::select(vec![
        r#"{"$oid":"0123456789abcdef01234567"}"#,
        r#"{"$numberDecimal":"1.10"}"#,
        r#"{"$numberDecimal":"NaN"}"#,
        r#"{"$numberDouble":"NaN"}"#,
        r#"{"$numberDouble":"-Infinity"}"#,
        r#"{"$date":"2026-11-22T01:02:03.004Z"}"#,
        r#"{"$date":{"$numberLong":"-1"}}"#,
        r#"{"$date":{"$numberLong":"9223372036854775807"}}"#,
        r#"{"$binary":{"base64":"AAEC","subType":"00"}}"#,
        r#"{"$binary":{"base64":"AAECAwQFBgcICQoLDA0ODw==","subType":"04"}}"#,
        r#"{"$timestamp":{"t":1,"i":2}}"#,
        r#"{"$regularExpression":{"pattern":"a.*","options":"im"}}"#,
        r#"{"$code":"f()"}"#,
        r#"{"$code":"f()","$scope":{"a":1}}"#,
        r#"{"$symbol":"s"}"#,
        r#"{"$minKey":1}"#,
        r#"{"$maxKey":1}"#,
        r#"{"$undefined":true}"#,
    ])
    .prop_map(json)
}

fn value() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        3 => Just(Value::Null),
        1 => any::<bool>().prop_map(Value::Bool),
        4 => number(),
        2 => prop::sample::select(vec!["", "s", "12", "\u{0}\"\\\n", "über"]).prop_map(Value::from),
        1 => "\\PC{0,8}".prop_map(Value::String),
        1 => beyond_json(),
    ];
    scalar.prop_recursive(5, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::vec((name(), inner), 0..5).prop_map(object),
        ]
    })
}

/// Names are unique in an object.
fn object(members: Vec<(String, Value)>) -> Value {
    let mut unique: Vec<(String, Value)> = Vec::new();
    for (name, value) in members {
        if unique.iter().all(|(known, _)| *known != name) {
            unique.push((name, value));
        }
    }
    Value::Object(unique)
}

fn document() -> impl Strategy<Value = Body> {
    let members = prop::collection::vec((name(), value()), 0..6);
    (members, prop::option::of("[a-z]{1,4}")).prop_map(|(mut members, id)| {
        if let Some(id) = id {
            members.insert(0, ("id".to_owned(), Value::String(id)));
        }
        with_non_json(object(members).to_body().unwrap())
    })
}

fn mode() -> impl Strategy<Value = SchemaMode> {
    prop::sample::select(vec![
        SchemaMode::WellDefined,
        SchemaMode::FullFidelity { is_mongo: false },
        SchemaMode::FullFidelity { is_mongo: true },
    ])
}

fn limits() -> impl Strategy<Value = SchemaLimits> {
    prop_oneof![
        3 => Just(SchemaLimits::default()),
        1 => (1..12usize, 1..9usize, 1..20usize)
            .prop_map(|(properties, levels, name_bytes)| SchemaLimits { properties, levels, name_bytes }),
    ]
}

fn exclude() -> impl Strategy<Value = Vec<String>> {
    let path = prop::sample::select(vec!["/a", "/A/b", "/b/c/d", "/c/[]/a", "/b/a", "/a~1b"]);
    prop_oneof![
        3 => Just(Vec::new()),
        1 => prop::collection::vec(path.prop_map(str::to_owned), 1..3),
    ]
}

/// `PROPTEST_CASES=10000` runs as many cases.
#[test]
fn row_and_rest_are_the_document() {
    let rounds = prop::collection::vec(prop::collection::vec(document(), 0..6), 1..5);
    let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::default() });
    let outcome = runner.run(&(mode(), limits(), exclude(), rounds), |(mode, limits, exclude, rounds)| {
        let mut table = Rounds::new(mode, limits, &exclude);
        for documents in rounds {
            table.round(documents);
        }
        table.check().map_err(TestCaseError::fail)
    });
    assert!(outcome.is_ok(), "{}", outcome.unwrap_err());
}
