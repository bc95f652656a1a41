//! Every function with arguments of every type: none may panic, and stored values count like those of a query.

use proptest::prelude::*;
use shardlake_document::Value;
use shardlake_stdx::Timestamp;

use super::{Function, find, prepare, table};
use crate::error::Location;
use crate::value::context::{EvaluationContext, FunctionContext, GeometryKind};
use crate::value::datum::Datum;
use crate::value::meter::Meter;

fn texts() -> impl Strategy<Value = String> {
    let special = [
        "",
        "a",
        "Straße 😀ß",
        "😀😀😀",
        "2024-02-29T23:59:59.9999999Z",
        "0001-01-01",
        "9999-12-31 23:59:59",
        "yyyy MMM dddd fffffff 'q' \\x",
        "mm",
        "ns",
        "year",
        "dd",
        "[1,{\"a\":null}]",
        "(a|b)+?[^c]*",
        "(((a{9}){9}){9}){9}",
        "\u{1F1E6}\u{0301}x",
        "is",
        "Point",
    ];
    prop_oneof![prop::sample::select(special.to_vec()).prop_map(String::from), any::<String>()]
}

fn numbers() -> impl Strategy<Value = Value> {
    let integers = [0, 1, -1, 2, 63, 64, 10_000, i64::MAX, i64::MIN, 864_000_000_000];
    let doubles =
        [-0.0, 0.5, 1e-320, 1e308, -1e308, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 9.3e18, 0.01];
    prop_oneof![
        prop::sample::select(integers.to_vec()).prop_map(Value::Int),
        prop::sample::select(doubles.to_vec()).prop_map(Value::Double),
        (-20..20_i64).prop_map(Value::Int),
        any::<i64>().prop_map(Value::Int),
        any::<f64>().prop_map(Value::Double),
    ]
}

fn shapes() -> impl Strategy<Value = Value> {
    let names = ["Point", "LineString", "Polygon", "MultiPoint", "MultiPolygon", "MultiLineString"];
    let position = prop::collection::vec(numbers(), 0..4).prop_map(Value::Array);
    let coordinates =
        position.prop_recursive(3, 30, 5, |inner| prop::collection::vec(inner, 0..6).prop_map(Value::Array));
    (prop::sample::select(names.to_vec()), coordinates).prop_map(|(name, coordinates)| {
        let name = Value::String(name.into());
        Value::Object(vec![("type".into(), name), ("coordinates".into(), coordinates)])
    })
}

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Undefined),
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        numbers(),
        texts().prop_map(Value::String),
        shapes(),
    ];
    leaf.prop_recursive(2, 12, 4, |inner| {
        let defined = inner.prop_map(|value| if value.is_undefined() { Value::Null } else { value });
        prop_oneof![
            prop::collection::vec(defined.clone(), 0..5).prop_map(Value::Array),
            prop::collection::btree_map("[a-c]", defined, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn contexts() -> impl Strategy<Value = FunctionContext> {
    let time = prop_oneof![Just(0), Just(u64::MAX), Just(253_402_300_799_999), any::<u64>()];
    (time, any::<bool>(), any::<u64>()).prop_map(|(now, is_plane, random)| FunctionContext {
        now: Timestamp(now),
        geometry: if is_plane { GeometryKind::Geometry } else { GeometryKind::Geography },
        random: random.into(),
        has_told_time: false.into(),
    })
}

/// As JSON, so that NaN equals itself.
fn printed(result: &Result<Datum<'_>, crate::error::SqlError>) -> String {
    format!("{:?}", result.as_ref().map(Datum::to_value))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn no_function_panics(values in prop::collection::vec(values(), 4), context in contexts()) {
        let arguments: Vec<Datum<'_>> = values.iter().map(Datum::from_tree).collect();
        let owned: Vec<Datum<'static>> = values.iter().map(|value| Datum::from(value.clone())).collect();
        let meter = Meter::default();
        let context = EvaluationContext::new(&context, &|| false, &meter);
        for function in Function::all() {
            let (fewest, most) = function.argument_counts();
            for count in fewest..=most.min(4) {
                let result = function.apply(&arguments[..count], &context);
                if function.is_pure() {
                    let again = function.apply(&owned[..count], &context);
                    prop_assert_eq!(printed(&result), printed(&again), "{:?}", function);
                    let constants: Vec<Option<&Value>> = values[..count].iter().map(Some).collect();
                    if let Some(prepared) = prepare(function, &constants) {
                        let again = function.apply_prepared(&prepared, &arguments[..count], &context);
                        prop_assert_eq!(printed(&result), printed(&again), "{:?}", function);
                    }
                }
            }
        }
    }
}

#[test]
fn names_are_found_in_every_spelling_and_belong_to_one_function() {
    let nowhere = || Location { start: 0, end: 0 };
    for function in Function::all() {
        let (fewest, most) = function.argument_counts();
        let name = function.name();
        for spelling in [name.to_string(), name.to_lowercase(), name.replace('_', "")] {
            assert_eq!(find(&spelling, fewest, nowhere), Ok(function), "{spelling}");
        }
        assert_eq!(Function::all().filter(|other| other.is_called(name)).count(), 1, "{name}");
        assert!(most == table::MANY || find(name, most + 1, nowhere).is_err(), "{name}");
        assert!(fewest == 0 || find(name, fewest - 1, nowhere).is_err(), "{name}");
    }
}
