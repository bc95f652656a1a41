//! `docs/sql-functions.md`, rendered from the function table.
//!
//! `UPDATE=1 cargo test -p shardlake-sql --lib reference` writes the page; without the variable the test fails when it differs.

use std::fmt::Write as _;
use std::path::PathBuf;

use super::{Function, SPECIAL, UNSUPPORTED, public, table};
use crate::bind::AGGREGATES;

fn word(letter: char) -> &'static str {
    match letter {
        '0' => "null",
        'a' => "array",
        'b' => "boolean",
        'n' => "number",
        'o' => "object",
        's' => "string",
        _ => "any",
    }
}

/// Optional arguments are in brackets; the last type is that of all further arguments.
fn arguments(function: Function) -> String {
    let (kinds, _) = function.kinds();
    let (fewest, most) = function.argument_counts();
    let last = kinds.chars().last().map_or("any", word);
    let kind = |at: usize| kinds.chars().nth(at).map_or(last, word);
    let shown = if most == table::MANY { fewest } else { most };
    let mut words: Vec<String> = (0..shown)
        .map(|at| if at < fewest { kind(at).to_owned() } else { format!("[{}]", kind(at)) })
        .collect();
    if most == table::MANY {
        words.push("…".to_owned());
    }
    words.join(", ")
}

fn page() -> String {
    let mut rows: Vec<(String, String, String)> = public()
        .map(|function| {
            let (_, result) = function.kinds();
            let result = result.chars().next().map_or("any", word);
            (function.name().to_owned(), arguments(function), result.to_owned())
        })
        .chain(SPECIAL.map(|(name, arguments, result)| (name.into(), arguments.into(), result.into())))
        .chain(AGGREGATES.map(|name| (name.to_owned(), "any".to_owned(), "aggregate".to_owned())))
        .collect();
    rows.sort();
    let mut text = "# Functions of the query language\n\nWritten by a test from the function table of the engine. Names may differ in case and \
                    underscores. Optional arguments\nare in brackets, `…` stands for further arguments of the last type. Arguments of another type give \
                    `undefined`.\n\n| function | arguments | result |\n|---|---|---|\n"
        .to_owned();
    for (name, arguments, result) in rows {
        let _ = writeln!(text, "| `{name}` | {arguments} | {result} |");
    }
    text.push_str("\n## Refused\n\nThese functions are refused by name (501); a wrong number of arguments has the service's code.\n\n");
    for (name, ..) in UNSUPPORTED {
        let _ = writeln!(text, "- `{name}`");
    }
    text
}

#[test]
fn the_page_lists_every_function() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/sql-functions.md");
    let page = page();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page,
        "UPDATE=1 cargo test -p shardlake-sql --lib reference writes docs/sql-functions.md"
    );
    for row in [
        "| `CONTAINS` | string, string, [boolean] | boolean |",
        "| `COUNT` | any | aggregate |",
        "| `CONCAT` | string, string, … | string |",
    ] {
        assert!(page.contains(row), "{row}");
    }
    assert!(!page.contains("SORTKEY"));
}
