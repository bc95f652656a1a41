//! Checks tables of expressions and their values.
#![allow(clippy::unwrap_used)] // a test may fail by panicking

use shardlake_document::{Body, ParseLimits, parse_document};
use shardlake_sql::parse_condition;

fn holds(condition: &str, item: &Body) -> bool {
    let condition = parse_condition(&format!("FROM c WHERE {condition}"))
        .unwrap_or_else(|error| panic!("{condition}: {error}"));
    condition.matches(item.raw()).unwrap_or_else(|error| panic!("{condition:?}: {error}"))
}

/// Every line is an expression, ` => ` and its value: an expression itself, `undefined`, or `~` and a number that it must
/// equal to twelve digits. Lines that begin with `#` and empty ones are skipped. `c` is `item`.
pub fn check_table(table: &str, item: &str) {
    let item = parse_document(item.as_bytes(), &ParseLimits::default()).unwrap();
    let mut wrong = Vec::new();
    for line in table.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (expression, expected) = line.split_once(" => ").unwrap_or_else(|| panic!("no value: {line}"));
        let is_right = match expected.trim() {
            "undefined" => holds(&format!("NOT IS_DEFINED({expression})"), &item),
            "NaN" => holds(&format!("IS_NUMBER({expression}) AND NOT (({expression}) > 0) ?? true"), &item),
            expected => match expected.strip_prefix('~') {
                Some(number) => {
                    let number: f64 = number.trim().parse().unwrap();
                    let tolerance = number.abs() * 1e-12 + 1e-300;
                    let (low, high) = (number - tolerance, number + tolerance);
                    holds(&format!("({expression}) >= {low:e} AND ({expression}) <= {high:e}"), &item)
                }
                None => holds(&format!("({expression}) = ({expected})"), &item),
            },
        };
        if !is_right {
            wrong.push(line);
        }
    }
    assert!(wrong.is_empty(), "not so:\n{}", wrong.join("\n"));
}
