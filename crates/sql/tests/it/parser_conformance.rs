//! The recorded texts of the reference: accepted texts, refused texts, and their printed form.
//!
//! The parser baselines come from the .NET SDK's own parser, which is looser than the service's grammar in a few places and
//! stricter in others; where the two differ, the service's decides, and the case stands in a table here with its reason.
#![allow(clippy::unwrap_used)] // helpers of tests are tests

use std::path::Path;

use serde_json::Value as Json;
use shardlake_sql::parse_query;
use shardlake_testkit::shared_directory;

/// Parser baselines that end otherwise with us.
const DIFFERENT: &[(&str, &str)] = &[
    ("ORDER BY RANK FullTextScore(c.text, [\"keyword\"]), ", RANK_TAKES_ONE_CALL),
    ("ORDER BY RANK FullTextScore(c.text, [\"keyword\"]) ASC, FullText", RANK_TAKES_ONE_CALL),
    ("LIKE \"a!%\" \"!\"", "the service's grammar takes a quoted alias without AS"),
    ("'\\bBackspace'", SDK_KEEPS_ESCAPES),
    ("'\\u1234'", SDK_KEEPS_ESCAPES),
];
const RANK_TAKES_ONE_CALL: &str =
    "the service's grammar takes one call behind RANK; several are given to RRF";
const SDK_KEEPS_ESCAPES: &str =
    "the SDK's parser resolves no escapes but quotes and slashes, and prints the others as text";

#[test]
fn parser_baselines_parse_and_print_as_recorded() {
    let test = "parser_baselines_parse_and_print_as_recorded";
    let Some(directory) = shared_directory("conformance", test) else { return };
    let mut wrong = Vec::new();
    for case in cases(&directory, "sql_parser.json") {
        let text = case["Input"]["Query"].as_str().unwrap();
        if DIFFERENT.iter().any(|(part, _)| text.contains(part)) {
            continue;
        }
        let found = parse_query(text).map(|query| query.to_canonical_text());
        match (case["Output"]["ParsedQuery"].as_str(), found) {
            (Some(expected), Ok(found)) if expected == found => {}
            (None, Err(_)) => {}
            (expected, found) => wrong.push(format!("{text}\n  expected {expected:?}\n  found    {found:?}")),
        }
    }
    assert!(wrong.is_empty(), "{} cases:\n{}", wrong.len(), wrong.join("\n"));
}

/// The table above is accurate: each of its cases exists and still ends differently.
#[test]
fn the_listed_differences_are_differences() {
    let Some(directory) = shared_directory("conformance", "the_listed_differences_are_differences") else {
        return;
    };
    let cases = cases(&directory, "sql_parser.json");
    for (part, reason) in DIFFERENT {
        let mut matching =
            cases.iter().filter(|case| case["Input"]["Query"].as_str().unwrap().contains(part)).peekable();
        assert!(matching.peek().is_some(), "no case has {part} ({reason})");
        for case in matching {
            let found = parse_query(case["Input"]["Query"].as_str().unwrap());
            let found = found.map(|query| query.to_canonical_text()).ok();
            assert_ne!(found.as_deref(), case["Output"]["ParsedQuery"].as_str(), "{part} ({reason})");
        }
    }
}

#[test]
fn what_the_sdk_makes_of_linq_parses() {
    let test = "what_the_sdk_makes_of_linq_parses";
    let Some(directory) = shared_directory("conformance", test) else { return };
    let mut wrong = Vec::new();
    for case in cases(&directory, "linq_sql.json") {
        let Some(text) = case["Output"]["SqlQuery"].as_str().filter(|text| !text.is_empty()) else {
            continue;
        };
        let message = case["Output"]["ErrorMessage"].as_str().unwrap_or_default();
        // Queries that the service refuses in these baselines are refused after parsing.
        assert!(!message.contains("SC100"), "a syntax error: {text}");
        if let Err(error) = parse_query(text) {
            wrong.push(format!("{text}\n  {}", error.to_json()));
        }
    }
    assert!(wrong.is_empty(), "{} cases:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn planned_queries_parse_and_rewritten_ones_print_as_they_were() {
    let test = "planned_queries_parse_and_rewritten_ones_print_as_they_were";
    let Some(directory) = shared_directory("conformance", test) else { return };
    for case in cases(&directory, "query_plans.json") {
        let text = case["Input"]["Query"].as_str().unwrap();
        let exception = case["Output"]["Exception"].as_str().unwrap_or_default();
        if exception.contains("\"SC100") {
            let body = parse_query(text).expect_err(text).to_json();
            assert!(exception.contains(&body), "{text}: {body} is not {exception}");
            continue;
        }
        parse_query(text).unwrap_or_else(|error| panic!("{text}: {}", error.to_json()));
        let mut rewritten = Vec::new();
        strings_of(&case["Output"], &["RewrittenQuery", "GlobalStatisticsQuery"], &mut rewritten);
        for text in rewritten {
            // Clients put a filter or numbers for these before they send the text.
            let sent = fill_placeholders(text);
            let query = parse_query(&sent).unwrap_or_else(|error| panic!("{sent}: {}", error.to_json()));
            assert_eq!(query.to_service_text(), sent.replace("(true)", "true"), "{text}");
        }
    }
}

fn fill_placeholders(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once("{documentdb-") {
        let (name, behind) = behind.split_once('}').unwrap();
        out.push_str(before);
        out.push_str(match name {
            "formattableorderbyquery-filter" => "true",
            name if name.contains("hitcountsarray") => "[3, 4]",
            _ => "12",
        });
        rest = behind;
    }
    out + rest
}

fn strings_of<'j>(json: &'j Json, names: &[&str], out: &mut Vec<&'j str>) {
    match json {
        Json::Object(members) => {
            for (name, value) in members {
                match value.as_str() {
                    Some(text) if names.contains(&name.as_str()) && !text.is_empty() => out.push(text),
                    _ => strings_of(value, names, out),
                }
            }
        }
        Json::Array(elements) => elements.iter().for_each(|element| strings_of(element, names, out)),
        _ => {}
    }
}

fn cases(directory: &Path, file: &str) -> Vec<Json> {
    let text = std::fs::read_to_string(directory.join(file)).unwrap();
    serde_json::from_str(&text).unwrap()
}
