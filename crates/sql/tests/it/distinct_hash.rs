//! The DISTINCT hash of values against another implementation's, and against the service's.

use shardlake_document::{ParseLimits, Value};
use shardlake_sql::distinct_hash;
use shardlake_testkit::{own_vectors, shared_directory};

fn shown_hash(value: &Value) -> String {
    let bytes = distinct_hash(value).to_be_bytes();
    bytes.iter().map(|byte| format!("{byte:02X}")).collect::<Vec<_>>().join("-")
}

#[test]
fn hashes_are_those_of_another_implementation() {
    for vector in own_vectors("distinct_hashes") {
        let text = vector["value"].as_str().expect("a value as text");
        let value = Value::from_json(text.as_bytes(), &ParseLimits::default()).expect("JSON");
        assert_eq!(shown_hash(&value), vector["hash"], "{text}");
    }
}

#[test]
fn hashes_are_those_of_the_service() {
    let Some(directory) = shared_directory("conformance", "hashes_are_those_of_the_service") else { return };
    let text = std::fs::read(directory.join("distinct_hash.json")).expect("the file is there");
    let cases =
        Value::from_json(&text, &ParseLimits { size_max_bytes: text.len(), ..ParseLimits::default() });
    let Value::Array(cases) = cases.expect("JSON") else { panic!("a list of cases") };
    let (mut compared, mut other_types) = (0, 0);
    for case in &cases {
        let (Some(input), Some(expected)) =
            (text_at(case, "Input", "CosmosElement"), text_at(case, "Output", "Hash"))
        else {
            continue;
        };
        // Number types, GUIDs and binaries that no JSON has are written with a letter in front.
        let Ok(value) = Value::from_json(input.as_bytes(), &ParseLimits::default()) else {
            other_types += 1;
            continue;
        };
        assert_eq!(shown_hash(&value), expected, "{input}");
        compared += 1;
    }
    assert!(
        compared >= 20,
        "only {compared} of {} cases were compared, {other_types} have types of their own",
        cases.len()
    );
}

fn text_at(case: &Value, part: &str, name: &str) -> Option<String> {
    let member = |value: &Value, name: &str| match value {
        Value::Object(members) => {
            members.iter().find(|(found, _)| found == name).map(|(_, value)| value.clone())
        }
        _ => None,
    };
    match member(&member(case, part)?, name)? {
        Value::String(text) => Some(text),
        _ => None,
    }
}
