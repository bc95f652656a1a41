//! The six patch operations: a table of cases, and random patches against a naive model on `serde_json` values.
#![allow(clippy::unwrap_used)] // a test may fail by panicking

use crate::support::{parse, render};
use proptest::prelude::*;
use serde_json::Value as Json;
use shardlake_document::{
    Number, ParseLimits, PatchError, PatchOperation, Value, apply_patch, parse_path, touched_properties,
};

fn json(text: &str) -> Value {
    Value::from_json(text.as_bytes(), &ParseLimits::default()).unwrap()
}

/// `op path [value]`, with `from` in the place of the value for a move.
fn operation(line: &str) -> PatchOperation {
    let mut words = line.splitn(3, ' ');
    let (name, target) = (words.next().unwrap(), words.next().unwrap());
    let (path, argument) = (parse_path(target).unwrap(), words.next().unwrap_or("null"));
    match name {
        "add" => PatchOperation::Add { path, value: json(argument) },
        "set" => PatchOperation::Set { path, value: json(argument) },
        "replace" => PatchOperation::Replace { path, value: json(argument) },
        "remove" => PatchOperation::Remove { path },
        "incr" => PatchOperation::Increment { path, by: json(argument).as_number().unwrap() },
        "move" => PatchOperation::Move { from: parse_path(argument).unwrap(), path },
        _ => panic!("{name}"),
    }
}

fn patch(document: &str, lines: &[&str]) -> Result<String, String> {
    let operations: Vec<_> = lines.iter().map(|line| operation(line)).collect();
    let body = parse(document);
    apply_patch(body.raw(), &operations).map(|body| render(&body)).map_err(|error| error.to_string())
}

#[test]
fn each_operation_does_what_its_table_row_says() {
    let document = r#"{"a":1,"l":[10,20,30],"o":{"x":1.5},"s":"t","big":9223372036854775807}"#;
    for (lines, expected) in [
        (
            &["add /n 5"][..],
            r#"{"a":1,"l":[10,20,30],"o":{"x":1.5},"s":"t","big":9223372036854775807,"n":5}"#,
        ),
        (&["remove /l", "remove /o", "remove /s", "remove /big", "add /a [1]"], r#"{"a":[1]}"#),
        (
            &["remove /o", "remove /s", "remove /big", "add /l/1 15", "add /l/- 99", "add /l/5 100"],
            r#"{"a":1,"l":[10,15,20,30,99,100]}"#,
        ),
        (
            &["remove /o", "remove /s", "remove /big", "set /l/1 15", "set /l/- 99", "set /l/4 100"],
            r#"{"a":1,"l":[10,15,30,99,100]}"#,
        ),
        (
            &["remove /o", "remove /s", "remove /big", "replace /l/2 {}", "remove /l/0"],
            r#"{"a":1,"l":[20,{}]}"#,
        ),
        (
            &[
                "remove /l",
                "remove /s",
                "remove /big",
                "incr /a 2",
                "incr /o/x 1",
                "incr /o/new -3",
                "incr /o/new 0.5",
            ],
            r#"{"a":3,"o":{"x":2.5,"new":-2.5}}"#,
        ),
        (
            &["remove /s", "remove /big", "move /o/moved /l/1", "move /l /a"],
            r#"{"l":1,"o":{"x":1.5,"moved":20}}"#,
        ),
        (&["remove /o", "remove /s", "remove /big", "move /l/0 /l/2"], r#"{"a":1,"l":[30,20]}"#),
        (&["remove /o", "remove /s", "remove /big", "move /l/1 /l/1"], r#"{"a":1,"l":[10,20,30]}"#),
        (
            &[
                "remove /l",
                "remove /s",
                "remove /big",
                "remove /a",
                "add /o/a~1b~0c 1",
                "add /o/ 2",
                "replace /o/a~1b~0c 3",
            ],
            r#"{"o":{"x":1.5,"a/b~c":3,"":2}}"#,
        ),
    ] {
        assert_eq!(patch(document, lines).as_deref(), Ok(expected), "{lines:?}");
    }
}

#[test]
fn refused_operations_name_their_index_and_path() {
    let document = r#"{"a":1,"l":[10],"o":{"x":{"y":1}},"s":"t","big":9223372036854775807,"huge":1.7e308}"#;
    for (lines, expected) in [
        (
            &["add /no/such 1"][..],
            "patch operation 0: parent of '/no/such' does not exist, no path found beyond: 'no'",
        ),
        (&["add /s/x 1"], "patch operation 0: parent of '/s/x' does not exist, no path found beyond: 's'"),
        (&["set /a 1", "replace /no 1"], "patch operation 1: '/no' does not exist"),
        (&["remove /l/1"], "patch operation 0: '/l/1' does not exist"),
        (&["remove /l/-"], "patch operation 0: '/l/-' does not exist"),
        (&["replace /l/- 1"], "patch operation 0: '/l/-' does not exist"),
        (&["add /l/2 1"], "patch operation 0: '/l/2' is no position in an array of 1 elements"),
        (&["set /l/x 1"], "patch operation 0: '/l/x' is no position in an array of 1 elements"),
        (&["set /l/00 1"], "patch operation 0: '/l/00' is no position in an array of 1 elements"),
        (&["incr /s 1"], "patch operation 0: '/s' is not a number"),
        (&["incr /l/1 1"], "patch operation 0: '/l/1' does not exist"),
        (&["incr /big 1"], "patch operation 0: increment of '/big' leaves the range of its number"),
        (&["incr /huge 1.7e308"], "patch operation 0: increment of '/huge' leaves the range of its number"),
        (&["move /o/x/y/z /o/x"], "patch operation 0: '/o/x' cannot move into its own child '/o/x/y/z'"),
        (&["move /b /none"], "patch operation 0: '/none' does not exist"),
        (&["move /none /none"], "patch operation 0: '/none' does not exist"),
    ] {
        assert_eq!(patch(document, lines), Err(expected.to_string()), "{lines:?}");
    }
}

#[test]
fn paths_and_depth_are_checked() {
    assert_eq!(parse_path("/a~1b/~0~01/").unwrap(), ["a/b", "~~1", ""]);
    for bad in ["", "a", "a/b"] {
        assert!(matches!(parse_path(bad), Err(PatchError::Path { .. })), "{bad}");
    }
    for bad in ["/~", "/a~2", "/~~0"] {
        assert!(matches!(parse_path(bad), Err(PatchError::PathEscape { .. })), "{bad}");
    }
    let operations = [operation("move /b/c /a/x"), operation("remove /d")];
    assert_eq!(touched_properties(&operations).collect::<Vec<_>>(), ["b", "a", "d"]);
    let deep = |levels: usize| format!("add /a {}{}", "[".repeat(levels), "]".repeat(levels));
    assert!(patch("{}", &[&deep(127)]).is_ok());
    assert!(patch("{}", &[&deep(128)]).unwrap_err().contains("nested deeper than 128"));
}

/// The model: the same rules, written over paths from the root and without shared helpers.
fn model(document: &mut Json, operation: &PatchOperation) -> Option<()> {
    fn value_json(value: &Value) -> Json {
        serde_json::from_str(&value.to_json().unwrap()).unwrap()
    }
    fn pointer(path: &[String]) -> String {
        path.iter().map(|name| format!("/{}", name.replace('~', "~0").replace('/', "~1"))).collect()
    }
    fn put(document: &mut Json, path: &[String], value: Json, inserts: bool) -> Option<()> {
        let (last, parents) = path.split_last()?;
        match document.pointer_mut(&pointer(parents))? {
            Json::Object(members) => {
                members.insert(last.clone(), value);
            }
            Json::Array(elements) => {
                let index = if last == "-" { elements.len() } else { last.parse().ok()? };
                if index > elements.len() {
                    return None;
                }
                if !inserts && index < elements.len() {
                    elements[index] = value;
                } else {
                    elements.insert(index, value);
                }
            }
            _ => return None,
        }
        Some(())
    }
    fn take(document: &mut Json, path: &[String]) -> Option<Json> {
        let (last, parents) = path.split_last()?;
        match document.pointer_mut(&pointer(parents))? {
            Json::Object(members) => members.shift_remove(last),
            Json::Array(elements) => {
                let index: usize = last.parse().ok()?;
                (index < elements.len()).then(|| elements.remove(index))
            }
            _ => None,
        }
    }
    match operation {
        PatchOperation::Add { path, value } => put(document, path, value_json(value), true),
        PatchOperation::Set { path, value } => put(document, path, value_json(value), false),
        PatchOperation::Replace { path, value } => {
            *document.pointer_mut(&pointer(path))? = value_json(value);
            Some(())
        }
        PatchOperation::Remove { path } => take(document, path).map(drop),
        PatchOperation::Increment { path, by } => {
            let Number::Int(by) = *by else { return None };
            match document.pointer(&pointer(path)).cloned() {
                None => {
                    let (_, parents) = path.split_last()?;
                    document.pointer(&pointer(parents))?.as_object()?;
                    put(document, path, Json::from(by), false)
                }
                Some(old) => {
                    let sum = match old.as_i64() {
                        Some(old) => Json::from(old.checked_add(by)?),
                        None => Json::from(old.as_f64()? + by as f64),
                    };
                    put(document, path, sum, false)
                }
            }
        }
        PatchOperation::Move { from, path } => {
            document.pointer(&pointer(from))?;
            if from == path {
                return Some(());
            }
            if path.starts_with(from) {
                return None;
            }
            let value = take(document, from)?;
            put(document, path, value, false)
        }
    }
}

fn paths() -> impl Strategy<Value = Vec<String>> {
    let segment =
        prop::sample::select(vec!["a", "b", "c", "0", "1", "2", "-", "", "~/"]).prop_map(String::from);
    prop::collection::vec(segment, 1..4)
}

fn small_values() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        (-5i64..5).prop_map(Json::from),
        Just(Json::Null),
        Just(Json::from(0.5)),
        Just(Json::from("s"))
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        let name = prop::sample::select(vec!["a", "b", "c", ""]).prop_map(String::from);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Json::Array),
            prop::collection::vec((name, inner), 0..3)
                .prop_map(|members| Json::Object(members.into_iter().collect())),
        ]
    })
}

fn operations() -> impl Strategy<Value = PatchOperation> {
    let value = small_values().prop_map(|value| json(&value.to_string())).boxed();
    prop_oneof![
        (paths(), value.clone()).prop_map(|(path, value)| PatchOperation::Add { path, value }),
        (paths(), value.clone()).prop_map(|(path, value)| PatchOperation::Set { path, value }),
        (paths(), value).prop_map(|(path, value)| PatchOperation::Replace { path, value }),
        paths().prop_map(|path| PatchOperation::Remove { path }),
        (paths(), -3i64..3).prop_map(|(path, by)| PatchOperation::Increment { path, by: Number::Int(by) }),
        (paths(), paths()).prop_map(|(from, path)| PatchOperation::Move { from, path }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn patches_agree_with_the_model(
        members in prop::collection::vec(small_values(), 3),
        operations in prop::collection::vec(operations(), 1..5),
    ) {
        let document = serde_json::json!({"a": members[0], "b": members[1], "c": members[2]});
        let body = parse(&document.to_string());
        let before = body.as_bytes().to_vec();
        let mut expected = document;
        let succeeded = operations.iter().all(|operation| model(&mut expected, operation).is_some());
        match apply_patch(body.raw(), &operations) {
            Ok(patched) => {
                prop_assert!(succeeded);
                prop_assert_eq!(render(&patched), expected.to_string());
            }
            Err(_) => prop_assert!(!succeeded),
        }
        prop_assert_eq!(body.as_bytes(), &before[..]);
    }
}
