//! The pages in `docs/compatibility`: every row names its status and a test, and the index is derived from the rows.
//!
//! `UPDATE=1 cargo test -p shardlake-testkit --test it compatibility::` writes the index.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::tidy::{expect_no_findings, files, read, root};

const INDEX: &str = "docs/compatibility/README.md";
/// In the order of the index.
const PAGES: [&str; 3] = ["nosql", "mongodb", "server"];
const STATUSES: [&str; 3] = ["supported", "partial", "refused"];

#[test]
fn every_compatibility_row_names_a_test_that_exists() {
    let tests = TestNames::collect();
    let findings: Vec<String> = rows_of_pages().into_iter().filter_map(|row| row.finding(&tests)).collect();
    expect_no_findings("rows of docs/compatibility without a test", &findings);
}

#[test]
fn every_compatibility_row_is_supported_partial_or_refused() {
    let rows = rows_of_pages();
    let findings: Vec<String> =
        rows.into_iter().filter(|row| row.status == Some(None)).map(|row| row.text).collect();
    expect_no_findings("rows whose status is none of supported, partial, refused", &findings);
}

#[test]
fn the_index_of_compatibility_is_derived_from_the_rows() {
    let index = index();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(root().join(INDEX), &index).unwrap();
    }
    assert!(
        read(INDEX) == index,
        "UPDATE=1 cargo test -p shardlake-testkit --test it compatibility:: writes {INDEX}"
    );
}

fn page(name: &str) -> String {
    read(&format!("docs/compatibility/{name}.md"))
}

fn rows_of_pages() -> Vec<Row> {
    PAGES.iter().flat_map(|name| compatibility_rows(&page(name))).collect()
}

/// Counts by section, then every refused and partial feature.
fn index() -> String {
    let mut text = "# Compatibility\n\nWritten by a test from the rows of the pages; each row there names the test that proves it.\n\n\
                    | page | supported | partial | refused |\n|---|---:|---:|---:|\n"
        .to_owned();
    let mut lists = String::new();
    for name in PAGES {
        for section in page(name).split("\n## ").skip(1) {
            let title = section.lines().next().unwrap_or_default();
            let rows: Vec<Row> = compatibility_rows(section);
            let of = |status: &'static str| rows.iter().filter(move |row| row.status == Some(Some(status)));
            if STATUSES.iter().all(|status| of(status).next().is_none()) {
                continue;
            }
            let anchor: String = title
                .to_lowercase()
                .replace(' ', "-")
                .chars()
                .filter(|c| c.is_alphanumeric() || *c == '-')
                .collect();
            let counts = STATUSES.map(|status| of(status).count().to_string()).join(" | ");
            let _ = writeln!(text, "| [{title}]({name}.md#{anchor}) | {counts} |");
            for status in ["refused", "partial"] {
                for row in of(status) {
                    let _ = writeln!(lists, "| {title} | {} | {status} |", row.feature);
                }
            }
        }
    }
    text + "\n## Refused and partial\n\n| section | feature | status |\n|---|---|---|\n" + &lists
}

/// A row of a table that has a column "Test": `Test` names what proves the row, in backticks.
struct Row {
    text: String,
    feature: String,
    /// `None` without a column of that name, `Some(None)` where its cell begins with no status.
    status: Option<Option<&'static str>>,
    names: Vec<String>,
    claims_nothing: bool,
}

impl Row {
    fn finding(self, tests: &TestNames) -> Option<String> {
        if self.names.is_empty() {
            return (!self.claims_nothing).then(|| format!("no test named: {}", self.text));
        }
        let unknown: Vec<&String> = self.names.iter().filter(|name| !tests.contains(name)).collect();
        (!unknown.is_empty()).then(|| format!("{unknown:?} not found: {}", self.text))
    }
}

fn compatibility_rows(text: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut test_column = None;
    let mut status_column = None;
    for line in text.lines().map(str::trim) {
        if !line.starts_with('|') {
            test_column = None;
            continue;
        }
        let escaped = line.trim_matches('|').replace("\\|", "\u{1}");
        let cells: Vec<&str> = escaped.split('|').map(str::trim).collect();
        let Some(column) = test_column else {
            let is_test = |cell: &&str| matches!(cell.to_lowercase().as_str(), "test" | "tests");
            test_column = Some(cells.iter().position(is_test).unwrap_or(usize::MAX));
            status_column = cells.iter().position(|cell| *cell == "status");
            continue;
        };
        let separator = cells.iter().all(|cell| cell.chars().all(|letter| "-: ".contains(letter)));
        if column == usize::MAX || separator {
            continue;
        }
        let cell = cells.get(column).copied().unwrap_or_default();
        rows.push(Row {
            text: line.to_owned(),
            feature: cells.first().copied().unwrap_or_default().replace('\u{1}', "\\|"),
            status: status_column.map(|column| {
                let cell = cells.get(column).copied().unwrap_or_default();
                STATUSES.into_iter().find(|status| cell.starts_with(status))
            }),
            names: cell.split('`').skip(1).step_by(2).map(str::to_owned).collect(),
            claims_nothing: cells.iter().any(|cell| matches!(*cell, "no" | "not yet" | "planned")),
        });
    }
    rows
}

/// Everything in the tree that can be named as a test: files, Rust and Python functions, titles of JavaScript tests.
struct TestNames {
    paths: BTreeSet<String>,
    functions: BTreeSet<String>,
    scripts: String,
}

impl TestNames {
    fn collect() -> TestNames {
        let mut functions = BTreeSet::new();
        for path in files(".rs").into_iter().chain(files(".py")) {
            for line in read(&path).lines() {
                let line = line.trim_start().trim_start_matches("async ");
                let name = line.strip_prefix("fn ").or_else(|| line.strip_prefix("def "));
                functions.extend(name.and_then(|rest| rest.split('(').next()).map(str::to_owned));
            }
        }
        let scripts = files(".js").iter().chain(&files(".mjs")).map(|path| read(path)).collect();
        TestNames { paths: files("").into_iter().collect(), functions, scripts }
    }

    /// `path`, `path::function`, `path::module::function`, `function`, the stem of a test file, or a JavaScript title.
    fn contains(&self, name: &str) -> bool {
        let (file, function) = match name.split_once("::") {
            Some((file, rest)) => (Some(file), rest.rsplit("::").next()),
            None if self.functions.contains(name) || self.has_title(name) => return true,
            None => (Some(name), None),
        };
        let file_known = file.is_none_or(|file| self.has_file(file));
        file_known
            && function.is_none_or(|function| self.functions.contains(function) || self.has_title(function))
    }

    fn has_file(&self, name: &str) -> bool {
        let in_a_directory = format!("{name}/");
        let stems =
            [format!("/{name}"), format!("/{name}.rs"), format!("/{name}.py"), format!("/{name}.mjs")];
        self.paths.contains(name)
            || self.paths.iter().any(|path| {
                path.starts_with(&in_a_directory) || stems.iter().any(|stem| path.ends_with(stem.as_str()))
            })
    }

    fn has_title(&self, name: &str) -> bool {
        let quotes = ["'", "\"", "`"];
        quotes.iter().any(|quote| self.scripts.contains(&format!("test({quote}{name}{quote}")))
    }
}

#[test]
fn rows_without_their_test_are_found() {
    let rows = compatibility_rows(
        "| What | Test |\n|---|---|\n| a | `no_such_test_anywhere` |\n| b | |\n\n| no | column |\n|--|--|\n| c | d |",
    );
    let tests = TestNames::collect();
    assert_eq!(rows.into_iter().filter_map(|row| row.finding(&tests)).count(), 2);
    assert!(tests.contains("compatibility::rows_without_their_test_are_found"));
    assert!(
        tests.contains("crates/testkit/tests/it/compatibility.rs")
            && tests.contains("compatibility")
            && !tests.contains("compatibility::absent")
    );
}
