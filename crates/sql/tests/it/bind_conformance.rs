//! The recorded verdicts of the reference about queries that parse: which it refuses, and how.
#![allow(clippy::unwrap_used)] // helpers of tests are tests

use serde_json::Value as Json;
use shardlake_sql::{
    ComputedProperties, Execution, GeometryKind, PreparedQuery, QueryEnvironment, SqlError, parse_query,
};
use shardlake_stdx::Timestamp;
use shardlake_testkit::shared_directory;

use crate::support::UNLIMITED;

fn prepare(text: &str) -> Result<PreparedQuery, SqlError> {
    let environment = QueryEnvironment {
        computed: &ComputedProperties::default(),
        geometry: GeometryKind::Geography,
        now: Timestamp(0),
        random_seed: 0,
        scripts: None,
    };
    PreparedQuery::prepare(&parse_query(text)?, &[], &environment)
}

/// Cases that end otherwise with us, by a part of their text.
const DIFFERENT: &[(&str, &str)] = &[
    (
        "ORDER BY root[\"FamilyId\"] ASC, root[\"FamilyId\"] ASC",
        "no composite index has a path twice: refused by planning",
    ),
    ("ORDER BY FullTextContains", "full-text functions are refused by name first"),
];
/// The baselines of this test show refused queries without the service's message.
const WITHOUT_VERDICTS: &str = "LinqGeneralBaselineTests.TestSkipTake";

/// The reference's error body inside a recorded message.
fn recorded_body(message: &str) -> Option<Json> {
    let start = message.find("{\"errors\"").or_else(|| message.find("{\"Errors\""))?;
    let mut values = serde_json::Deserializer::from_str(&message[start..]).into_iter();
    Some(values.next()?.unwrap())
}

/// The baselines show queries over several lines; they were sent on one.
fn as_sent(text: &str) -> String {
    text.lines().map(str::trim_start).collect()
}

#[test]
fn what_the_sdk_makes_of_linq_is_judged_as_recorded() {
    let test = "what_the_sdk_makes_of_linq_is_judged_as_recorded";
    let Some(directory) = shared_directory("conformance", test) else { return };
    let cases: Json =
        serde_json::from_str(&std::fs::read_to_string(directory.join("linq_sql.json")).unwrap()).unwrap();
    let mut wrong = Vec::new();
    for case in cases.as_array().unwrap() {
        let Some(text) = case["Output"]["SqlQuery"].as_str().filter(|text| !text.is_empty()) else {
            continue;
        };
        let message = case["Output"]["ErrorMessage"].as_str().unwrap_or_default();
        let text = as_sent(text);
        if DIFFERENT.iter().any(|(part, _)| text.contains(part)) || case["file"] == WITHOUT_VERDICTS {
            continue;
        }
        // Some orders have a plan, but no execution.
        let executed = |query| Execution::start(&query, UNLIMITED, false, None).map(drop);
        let found = prepare(&text).and_then(executed);
        let as_recorded = match (&found, recorded_body(message)) {
            (Err(SqlError::Unsupported { .. }), _) => true,
            (Ok(_), None) => message != "Status Code: BadRequest",
            (Err(_), None) => message == "Status Code: BadRequest",
            (Err(error), Some(body)) => body == serde_json::from_str::<Json>(&error.to_json()).unwrap(),
            (Ok(_), Some(_)) => false,
        };
        if !as_recorded {
            let found = found.err().map(|error| error.to_json());
            wrong.push(format!("{text}\n  recorded {message}\n  found    {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} cases:\n{}", wrong.len(), wrong.join("\n"));
}
