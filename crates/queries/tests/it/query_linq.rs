//! Queries that the .NET SDK writes, with the results that its tests recorded from the service.
//!
//! The records do not hold the documents, but most contain enough to recreate them: the results of
//! the array functions and of `TestFirstOrDefault` show whole items of a regular series. The tests
//! of serializers list the written documents, and show rows only after the client has read them
//! into its own types, so that only their number can be compared.
#![allow(clippy::unwrap_used)] // a test may fail by panicking

use crate::support::queries::{Tolerance, parse, shown};
use crate::support::recorded::{Containers, list};
use shardlake_account::Value;
use shardlake_testkit::shared_directory;

const AS_MULTISET: Tolerance = Tolerance { relative: 1e-12, in_order: false };

struct Case {
    group: String,
    text: String,
    output: Value,
}

impl Case {
    fn member(&self, name: &str) -> Option<Value> {
        Some(parse(self.output.get(name)?.as_str()?.as_bytes()))
    }

    fn rows(&self, name: &str) -> Vec<Value> {
        match self.member(name) {
            Some(Value::Array(rows)) => rows,
            Some(row) => vec![row],
            None => panic!("{}: no {name}", self.text),
        }
    }
}

/// The cases of a group of tests with a record under this name.
fn cases(test: &str, group: &str, recorded: &str) -> Option<Vec<Case>> {
    let directory = shared_directory("conformance", test)?;
    let all = list(&directory.join("linq_sql.json"));
    let text_of = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    let case = |case: &Value| Case {
        group: text_of(case.get("file")),
        text: text_of(case.get("Output").and_then(|output| output.get("SqlQuery"))),
        output: case.get("Output").cloned().unwrap_or_default(),
    };
    let mut cases: Vec<Case> = all.iter().map(case).collect();
    cases.retain(|case| {
        case.group.contains(group) && !case.text.is_empty() && case.output.get(recorded).is_some()
    });
    Some(cases)
}

fn integers(range: std::ops::RangeInclusive<i64>) -> String {
    let numbers: Vec<String> = range.map(|number| number.to_string()).collect();
    format!("[{}]", numbers.join(","))
}

/// Fails with every difference, or if too few cases were compared.
fn conclude(compared: usize, least: usize, failures: &[String]) {
    assert!(failures.is_empty(), "{} of {compared}:\n{}", failures.len(), failures.join("\n"));
    assert!(compared >= least, "only {compared} cases");
}

async fn compare(containers: &Containers, cases: &[Case], recorded: &str) -> Vec<String> {
    let mut failures = Vec::new();
    for case in cases {
        let expected = case.rows(recorded);
        let problems = Box::pin(containers.differences(&case.text, &expected, AS_MULTISET)).await;
        if !problems.is_empty() {
            failures.push(format!(
                "{}\nexpected {}\n  {}",
                case.text,
                shown(&expected),
                problems.join("\n  ")
            ));
        }
    }
    failures
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn array_functions_give_the_recorded_rows() {
    let name = "array_functions_give_the_recorded_rows";
    let Some(cases) = cases(name, "TestArrayContains", "Results") else { return };
    let item = |number: i64| {
        let zero = "00000000-0000-0000-0000-000000000000";
        let (array, enumerable) = (integers(0..=number), integers(-5..=number - 1));
        parse(format!(
            r#"{{"id":"0000000{number}-0000-0000-0000-000000000000","Pk":"Test","IntField":0,"GuidField":"{zero}","ArrayField":{array},"EnumerableField":{enumerable}}}"#
        ).as_bytes())
    };
    let items: Vec<Value> = (0..10).map(item).collect();
    let containers = Containers::new("/id", &items).await;
    let failures = Box::pin(compare(&containers, &cases, "Results")).await;
    conclude(cases.len(), 15, &failures);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn first_rows_are_the_recorded_ones() {
    let name = "first_rows_are_the_recorded_ones";
    let Some(cases) = cases(name, "TestFirstOrDefault", "SerializedResults") else { return };
    let item = |number: i64| {
        let multiples: Vec<String> = (1..=4).map(|factor| (number * factor).to_string()).collect();
        parse(
            format!(
                r#"{{"id":"{number}","Number":{},"Pk":"Test","Flag":{},"Multiples":[{}]}}"#,
                number * 1000,
                number % 2 == 0,
                multiples.join(",")
            )
            .as_bytes(),
        )
    };
    let items: Vec<Value> = (0..10).map(item).collect();
    // One logical partition with its items in the order of their ids.
    let containers = Containers::new("/Pk", &items).await;
    let mut failures = Vec::new();
    for case in &cases {
        let expected = case.rows("SerializedResults");
        let rows = containers.fixture.answer(&containers.one, &case.text, 100).await.unwrap().rows;
        let first = rows.first().map(without_system_properties).into_iter().collect::<Vec<_>>();
        if first != expected {
            failures.push(format!("{}\nexpected {}\nfound {}", case.text, shown(&expected), shown(&first)));
        }
    }
    conclude(cases.len(), 4, &failures);
}

fn without_system_properties(row: &Value) -> Value {
    match row {
        Value::Object(members) => {
            let own = members.iter().filter(|(name, _)| !name.starts_with('_'));
            Value::Object(own.cloned().collect())
        }
        other => other.clone(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn serializers_find_the_recorded_number_of_rows() {
    let name = "serializers_find_the_recorded_number_of_rows";
    let Some(cases) = cases(name, "TestMemberInitializer", "InputData") else { return };
    let mut failures = Vec::new();
    for case in &cases {
        let texts = case.rows("InputData");
        let items: Vec<Value> = texts.iter().map(|text| parse(text.as_str().unwrap().as_bytes())).collect();
        let containers = Containers::new("/id", &items).await;
        let expected = case.rows("Results").len();
        for container in [&containers.one, &containers.five] {
            let answer = containers.fixture.answer(container, &case.text, 2).await;
            match answer {
                Ok(answer) if answer.rows.len() == expected => {}
                Ok(answer) => {
                    failures.push(format!("{}\n{expected} rows, found {}", case.text, shown(&answer.rows)))
                }
                Err(error) => failures.push(format!("{}\n{error}", case.text)),
            }
        }
    }
    conclude(cases.len(), 40, &failures);
}
