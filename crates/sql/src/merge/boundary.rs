//! The boundary at which a source of an ordered merge resumes: a condition over the sort keys, in the query
//! language, that replaces the rewritten query's placeholder. SDKs resume the same way.
//!
//! The condition lists the values that sort after the boundary: values of the key's own type by comparison,
//! other types by name. A cut key stands for all strings with its beginning, so such a boundary includes
//! them.

use shardlake_document::Value;

use crate::execute::SortValue;
use crate::execute::state::ResumeKey;
use crate::plan::SortDirection;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Boundary<'k> {
    /// The first sort keys, up to and including the first cut key.
    pub keys: &'k [ResumeKey],
    /// Rows with equal keys are wanted too.
    pub inclusive: bool,
}

/// Type tests in ascending order of the types.
const TYPES: [&str; 7] =
    ["NOT IS_DEFINED", "IS_NULL", "IS_BOOL", "IS_NUMBER", "IS_STRING", "IS_ARRAY", "IS_OBJECT"];

/// The condition; `expressions` are the sort keys as the query spells them.
pub(super) fn condition(boundary: &Boundary<'_>, expressions: &[String], order: &[SortDirection]) -> String {
    let mut alternatives = Vec::new();
    let mut equal = Vec::new();
    let keys = boundary.keys.iter().zip(expressions).zip(order);
    for (index, ((key, expression), direction)) in keys.enumerate() {
        let is_last = index + 1 == boundary.keys.len();
        let behind = behind(key, expression, *direction, is_last && boundary.inclusive);
        match (behind, equal.is_empty()) {
            (Behind::All, true) => return "true".into(),
            (Behind::All, false) => alternatives.push(equal.join(" AND ")),
            (Behind::Some(some), true) => alternatives.push(some),
            (Behind::Some(some), false) => alternatives.push(format!("{} AND ({some})", equal.join(" AND "))),
            (Behind::None, _) => {}
        }
        equal.push(equals(key, expression));
    }
    match alternatives.is_empty() {
        true => "false".into(),
        false => format!("({})", alternatives.join(") OR (")),
    }
}

enum Behind {
    All,
    Some(String),
    None,
}

fn behind(key: &ResumeKey, expression: &str, direction: SortDirection, inclusive: bool) -> Behind {
    let rank = rank(key);
    let ascending = direction == SortDirection::Ascending;
    let others = if ascending { rank + 1..TYPES.len() } else { 0..rank };
    if inclusive && others.len() + 1 == TYPES.len() {
        return Behind::All;
    }
    let mut tests: Vec<String> = same_type(key, expression, ascending, inclusive).into_iter().collect();
    if others == (1..TYPES.len()) {
        tests.push(format!("IS_DEFINED({expression})"));
    } else {
        tests.extend(others.map(|other| format!("{}({expression})", TYPES[other])));
    }
    if tests.is_empty() { Behind::None } else { Behind::Some(tests.join(" OR ")) }
}

/// The values of the key's type that sort after the key.
fn same_type(key: &ResumeKey, expression: &str, ascending: bool, inclusive: bool) -> Option<String> {
    let literal = match key {
        ResumeKey::StartOf(start) => {
            let literal = literal(&Value::String(start.clone()));
            return Some(match ascending {
                true => format!("{expression} >= {literal}"),
                false => format!("{expression} < {literal} OR STARTSWITH({expression}, {literal})"),
            });
        }
        ResumeKey::Whole(SortValue::Scalar(
            value @ (Value::Bool(_) | Value::Int(_) | Value::Double(_) | Value::String(_)),
        )) => literal(value),
        ResumeKey::Whole(_) => return inclusive.then(|| equals(key, expression)),
    };
    let operator = match (ascending, inclusive) {
        (true, true) => ">=",
        (true, false) => ">",
        (false, true) => "<=",
        (false, false) => "<",
    };
    Some(format!("{expression} {operator} {literal}"))
}

fn equals(key: &ResumeKey, expression: &str) -> String {
    match key {
        ResumeKey::StartOf(start) => {
            format!("STARTSWITH({expression}, {})", literal(&Value::String(start.clone())))
        }
        ResumeKey::Whole(SortValue::Scalar(
            value @ (Value::Bool(_) | Value::Int(_) | Value::Double(_) | Value::String(_)),
        )) => format!("{expression} = {}", literal(value)),
        ResumeKey::Whole(_) => format!("{}({expression})", TYPES[rank(key)]),
    }
}

fn rank(key: &ResumeKey) -> usize {
    match key.to_value().0 {
        Value::Undefined => 0,
        Value::Null => 1,
        Value::Bool(_) => 2,
        Value::Int(_) | Value::Double(_) => 3,
        Value::String(_) => 4,
        Value::Array(_) => 5,
        Value::Object(_) => 6,
    }
}

/// The literal of a value: JSON's spelling is also the language's. Tokens may hold numbers that JSON lacks,
/// which no value equals.
fn literal(value: &Value) -> String {
    value.to_json().unwrap_or_else(|_| "undefined".into())
}
