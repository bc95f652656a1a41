//! Front-end concerns stay in front ends: no header names of the REST protocol, no links of its error texts
//! and no JSON library below the crates of that protocol. The lists of present exceptions can only shrink.

use crate::tidy::{expect_no_findings, files, read};

/// Crates of a protocol, and those around them.
const DOORS: &[&str] = &[
    "crates/gateway-direct/",
    "crates/gateway-nosql/",
    "crates/admin/",
    "crates/server/",
    "crates/signature/",
    "crates/testkit/",
    "crates/account-fixture/",
];

/// Files that name a word of the REST protocol, which no other file below the front ends does.
const WORDS: &[(&str, &str)] = &[
    // Scripts get the same texts as clients, and nothing yet distinguishes the partition's errors for a gateway.
    ("crates/partition/src/answers.rs", "aka.ms"),
];

/// Files that use the JSON library, and why.
const JSON_LIBRARY: &[&str] = &[
    // The lease record must be readable by people, and by other versions.
    "crates/lease/src/register.rs",
    // Stored definitions are JSON; the rules of projections and the filters of functions are parts of them, and dead letters are items that people read.
    "crates/catalog/src/function.rs",
    "crates/catalog/src/projection.rs",
    "crates/catalog/src/stored.rs",
    "crates/functions/src/filter.rs",
    "crates/functions/src/letters.rs",
    "crates/projections/src/dead_letters.rs",
    "crates/projections/src/rule.rs",
    // A permission holds its partition key as the text that its client wrote.
    "crates/definitions/src/permissions.rs",
    // The shortest text of a double; partition keys as clients write them.
    "crates/document/src/json_out.rs",
    "crates/document/src/key_text.rs",
    // The log of a Delta table, its statistics and its schema are JSON.
    "crates/analytical-table/src/delta/actions.rs",
    "crates/analytical-table/src/delta/convert.rs",
    "crates/analytical-table/src/delta/mod.rs",
    "crates/analytical-table/src/log/mod.rs",
    "crates/analytical-table/src/schema/delta_json.rs",
    "crates/analytical-table/src/table/stats.rs",
    // The names of tables, for people.
    "crates/analytics/src/follower/names_file.rs",
    "crates/analytics-sql/src/pool/query.rs",
    "crates/analytics-sql/src/protocol.rs",
    "crates/analytics-sql/src/reply/json.rs",
    "crates/analytics-sql/src/reply/mod.rs",
    "crates/analytics-sql/src/table/bounds.rs",
    "crates/analytics-sql/src/worker/run.rs",
    "crates/analytics-sql/src/worker/values.rs",
];

/// Production code below the front ends.
fn engine_files() -> impl Iterator<Item = (String, String)> {
    let is_engine = |path: &String| {
        path.starts_with("crates/")
            && path.contains("/src/")
            && !path.ends_with("tests.rs")
            && !DOORS.iter().any(|door| path.starts_with(door))
    };
    let without_tests = |text: String| text.split("#[cfg(test)]").next().unwrap_or_default().to_owned();
    files(".rs").into_iter().filter(is_engine).map(move |path| (path.clone(), without_tests(read(&path))))
}

#[test]
fn no_word_of_the_rest_protocol_is_below_the_doors() {
    let mut findings = Vec::new();
    for (path, text) in engine_files() {
        for word in ["x-ms-", "aka.ms"] {
            match (text.contains(word), WORDS.contains(&(path.as_str(), word))) {
                (true, false) => findings.push(format!("{path}: '{word}'")),
                (false, true) => findings.push(format!("{path}: '{word}' is gone, take it off the list")),
                _ => {}
            }
        }
    }
    expect_no_findings("words of the REST protocol in the engine", &findings);
}

#[test]
fn no_json_library_is_below_the_doors() {
    let mut findings = Vec::new();
    for (path, text) in engine_files() {
        match (text.contains("serde_json"), JSON_LIBRARY.contains(&path.as_str())) {
            (true, false) => findings.push(path),
            (false, true) => findings.push(format!("{path}: take it off the list")),
            _ => {}
        }
    }
    expect_no_findings("files of the engine that use the JSON library", &findings);
}
