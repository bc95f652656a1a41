//! The table of checks by clients, `docs/clients.md`, from `tests-sdk/checks.toml` and the comments in the suites.
//!
//! A test names the checks that it shows in a comment above it, `check: NAME, NAME`. Every check is shown by a test of each
//! client, or has a reason why not. The test below holds the table to both; with `UPDATE=1` it writes the table.

use crate::{Outcome, project};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

/// Column, directory below `tests-sdk`, and the name in `checks.toml`.
const CLIENTS: [(&str, &str, &str); 6] = [
    ("JavaScript", "js/test", "javascript"),
    ("Python", "python/own", "python"),
    ("Rust", "rust/tests", "rust"),
    ("Java", "java/sdk", "java"),
    ("Spring", "java/spring", "spring"),
    ("Go", "go", "go"),
];

const KINDS_OF_SOURCE: [&str; 5] = ["mjs", "py", "rs", "java", "go"];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// Each check with its meaning, in the order of the table.
    checks: Vec<(String, String)>,
    absent: Vec<Absent>,
}

impl File {
    fn lists(&self, check: &str) -> bool {
        self.checks.iter().any(|(name, _)| name == check)
    }
}

/// Checks that no test of a client shows.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Absent {
    client: String,
    reason: String,
    checks: Vec<String>,
}

/// The page as it should be, or the first contradiction between the list and the suites.
pub fn page() -> Outcome<String> {
    let suites = project::root().join("tests-sdk");
    let file: File = toml::from_str(&std::fs::read_to_string(suites.join("checks.toml"))?)?;
    let mut columns = Vec::new();
    for (_, directory, client) in CLIENTS {
        let shown = shown_in(&suites.join(directory))?;
        if let Some(unknown) = shown.iter().find(|check| !file.lists(check)) {
            return Err(format!("{directory} shows '{unknown}', which checks.toml does not list").into());
        }
        columns.push((client, shown));
    }
    contradiction(&file)?;
    let mut page = HEAD.to_owned();
    let names: Vec<&str> = CLIENTS.iter().map(|(column, ..)| *column).collect();
    writeln!(page, "| check | {} |\n|---|{}", names.join(" | "), "---|".repeat(names.len()))?;
    for (check, meaning) in &file.checks {
        let cells: Outcome<Vec<String>> =
            columns.iter().map(|(client, shown)| cell(&file, client, check, shown)).collect();
        writeln!(page, "| {meaning} (`{check}`) | {} |", cells?.join(" | "))?;
    }
    Ok(page)
}

const HEAD: &str = "# Checks by client

Each client's suite runs against a live server with `cargo xtask test`. \"yes\" names a test that shows the check; other cells have the \
reason why there is none. The list is `tests-sdk/checks.toml`; this page is written from it and from the comments above the tests.
Column Python is our own suite; the suite `python` also runs tests of the SDK itself, which its cells name.

";

/// A name that `absent` misspells, or a client that does not exist.
fn contradiction(file: &File) -> Outcome {
    for absent in &file.absent {
        if CLIENTS.iter().all(|(.., client)| *client != absent.client) {
            return Err(format!("there is no client '{}'", absent.client).into());
        }
        if let Some(unknown) = absent.checks.iter().find(|check| !file.lists(check)) {
            return Err(format!("absent of {}: there is no check '{unknown}'", absent.client).into());
        }
    }
    Ok(())
}

fn cell(file: &File, client: &str, check: &str, shown: &BTreeSet<String>) -> Outcome<String> {
    let reasons: Vec<&str> = file
        .absent
        .iter()
        .filter(|absent| absent.client == client && absent.checks.iter().any(|name| name == check))
        .map(|absent| absent.reason.as_str())
        .collect();
    match (shown.contains(check), reasons.as_slice()) {
        (true, []) => Ok("yes".to_owned()),
        (false, [reason]) => Ok(format!("no: {reason}")),
        (true, _) => Err(format!("{client} shows '{check}' and has a reason why not").into()),
        (false, []) => Err(format!("{client} neither shows '{check}' nor has a reason why not").into()),
        (false, _) => Err(format!("{client} has several reasons for '{check}'").into()),
    }
}

/// The checks that the sources below a directory name.
fn shown_in(directory: &Path) -> Outcome<BTreeSet<String>> {
    let mut shown = BTreeSet::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            shown.extend(shown_in(&path)?);
        } else if path.extension().is_some_and(|kind| KINDS_OF_SOURCE.iter().any(|known| kind == *known)) {
            shown.extend(std::fs::read_to_string(&path)?.lines().flat_map(named_in));
        }
    }
    Ok(shown)
}

fn named_in(line: &str) -> Vec<String> {
    let line = line.trim_start();
    let comment = line.strip_prefix("// ").or_else(|| line.strip_prefix("# "));
    let names = comment.and_then(|comment| comment.strip_prefix("check: "));
    names.map(|names| names.split(", ").map(str::to_owned).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_checks_is_that_of_the_suites() {
        let wanted = page().expect("the list and the suites agree");
        let path = project::root().join("docs/clients.md");
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(&path, &wanted).expect("the page can be written");
        }
        let found = std::fs::read_to_string(&path).expect("docs/clients.md");
        assert!(found == wanted, "docs/clients.md is out of date: run this test with UPDATE=1");
    }

    #[test]
    fn names_are_read_from_comments() {
        assert_eq!(named_in("    // check: a, b-c"), ["a", "b-c"]);
        assert_eq!(named_in("# check: d"), ["d"]);
        assert!(named_in("let text = \"// check: e\";").is_empty());
    }

    #[test]
    fn no_cell_is_empty_and_none_is_filled_twice() {
        let text = "checks = [[\"a\", \"A\"], [\"b\", \"B\"]]\n[[absent]]\nclient = \"go\"\nreason = \"none\"\nchecks = [\"b\"]\n";
        let file: File = toml::from_str(text).expect("well-formed");
        let shown = BTreeSet::from(["a".to_owned()]);
        assert_eq!(cell(&file, "go", "a", &shown).expect("shown"), "yes");
        assert_eq!(cell(&file, "go", "b", &shown).expect("a reason"), "no: none");
        assert!(cell(&file, "java", "b", &shown).is_err(), "neither");
        assert!(cell(&file, "go", "b", &BTreeSet::from(["b".to_owned()])).is_err(), "both");
    }
}
