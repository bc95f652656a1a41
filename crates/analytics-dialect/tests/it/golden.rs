//! Translations as data: `golden.txt` has a statement for each case, and behind `=>` its translation or behind `!!` its refusal.
//!
//! `UPDATE=1` writes the file anew; the difference is reviewed like code.

use std::fmt::Write as _;
use std::path::Path;

use shardlake_analytics_dialect::{Settings, parse};

use crate::tables::tables;

const CASES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/golden.txt");
const CASES_MIN: usize = 100;

/// The outcome of a statement in one line.
fn outcome(statement: &str) -> String {
    let tables = tables();
    let settings = Settings { database: Some("shop"), tables: &tables };
    match parse(statement, &settings) {
        Ok(parsed) => {
            let mut out = format!("=> {}", parsed.statement);
            if !parsed.parameters.is_empty() {
                let _infallible = write!(out, "  -- ${}", parsed.parameters.join(", $"));
            }
            out
        }
        Err(error) => format!("!! {error}"),
    }
}

#[test]
fn statements_are_translated_as_before() {
    let text = std::fs::read_to_string(Path::new(CASES)).expect("the cases");
    let mut seen = 0;
    let mut written = String::new();
    let mut statement = String::new();
    for line in text.lines() {
        match line {
            line if line.starts_with("#") || line.is_empty() => written.push_str(line),
            line if line.starts_with("=> ") || line.starts_with("!! ") => {
                seen += 1;
                written.push_str(&outcome(std::mem::take(&mut statement).trim_end()));
            }
            line => {
                statement.push_str(line);
                statement.push('\n');
                written.push_str(line);
            }
        }
        written.push('\n');
    }
    assert!(seen >= CASES_MIN, "{seen} cases");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(CASES, &written).expect("the cases are written");
    } else {
        let difference = text.lines().zip(written.lines()).find(|(before, now)| before != now);
        assert_eq!(difference, None, "golden.txt differs: run with UPDATE=1 and review");
    }
}

/// The planner's own parser, which may run in another process, reads a translation as it is written. A second translation changes nothing.
#[test]
fn translations_are_statements_of_the_planner() {
    use sqlparser::dialect::GenericDialect;
    use sqlparser::parser::Parser;
    let text = std::fs::read_to_string(Path::new(CASES)).expect("the cases");
    let translations = text
        .lines()
        .filter_map(|line| line.strip_prefix("=> "))
        .map(|line| line.split("  -- $").next().unwrap_or(line));
    let mut seen = 0;
    for translation in translations {
        let read =
            Parser::parse_sql(&GenericDialect {}, translation).map(|statements| statements[0].to_string());
        assert_eq!(read.as_deref(), Ok(translation));
        let again = outcome(translation);
        assert_eq!(again.split("  -- $").next(), Some(format!("=> {translation}").as_str()));
        seen += 1;
    }
    assert!(seen > CASES_MIN / 2, "{seen} translations");
}
