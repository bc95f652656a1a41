//! Which answers are equal, by the rules of the shared data (`compare.py`, `expressions.py`).

use std::collections::BTreeSet;

use serde_json::{Value as Json, json};
use shardlake_sql::SqlError;

use super::replay::Answer;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    Same,
    /// The same rows, from more partitions than the native planner asks.
    Wider,
    Differs,
    /// A part of the language that this server does not have yet.
    Unsupported,
    /// Over a container that this server does not make.
    NotCreatable,
}

pub struct Difference {
    pub field: String,
    pub native: String,
    pub here: String,
}

pub struct Outcome {
    pub class: Class,
    pub differences: Vec<Difference>,
    /// Whether the first code is the same; `None` where the native planner plans the query.
    pub code_agrees: Option<bool>,
}

/// The members of a plan, with their values where a plan does not name them.
fn members() -> [(&'static str, Json); 14] {
    [
        ("distinctType", json!("None")),
        ("top", Json::Null),
        ("offset", Json::Null),
        ("limit", Json::Null),
        ("orderBy", json!([])),
        ("orderByExpressions", json!([])),
        ("groupByExpressions", json!([])),
        ("groupByAliases", json!([])),
        ("aggregates", json!([])),
        ("groupByAliasToAggregateType", json!({})),
        ("hasSelectValue", json!(false)),
        ("hasNonStreamingOrderBy", json!(false)),
        ("dCountInfo", Json::Null),
        ("rewrittenQuery", json!("")),
    ]
}

pub fn judge(vector: &Json, answer: &Answer) -> Outcome {
    let error = vector["native"].get("error").map(|error| in_code_units(&error["errors"][0], vector));
    let error = error.as_ref();
    let definition = &vector["partitionKey"];
    let paths = definition["paths"].as_array().unwrap().len();
    let mut code_agrees = error.map(|_| false);
    let mut differences = Vec::new();
    let class = match (error, answer) {
        _ if definition["kind"] == "Range" || (definition["kind"] == "Hash" && paths > 1) => {
            return Outcome { class: Class::NotCreatable, differences, code_agrees: None };
        }
        (_, Answer::Refused(error @ SqlError::Unsupported { .. })) => {
            differences.push(difference("unsupported", &vector["native"], &json!(error.to_string())));
            Class::Unsupported
        }
        (Some(native), Answer::Refused(error)) => {
            let here = first_error(error);
            for (at, field) in ["error.code", "error.start", "error.end", "error.message"].iter().enumerate()
            {
                if native[at] != here[at] {
                    differences.push(difference(field, native, &here));
                }
            }
            code_agrees = Some(native[0] == here[0]);
            if differences.is_empty() { Class::Same } else { Class::Differs }
        }
        (Some(native), Answer::Plan { .. }) => {
            differences.push(difference("accepted", native, &Json::Null));
            Class::Differs
        }
        (None, Answer::Refused(error)) => {
            differences.push(difference("refused", &Json::Null, &first_error(error)));
            Class::Differs
        }
        (None, Answer::Plan { info, keys }) => {
            compare_plans(&vector["native"]["plan"], info, keys.as_deref(), &mut differences)
        }
    };
    Outcome { class, differences, code_agrees }
}

/// An error with its places in UTF-16 code units; the recorded planner, on Linux, counts code points.
fn in_code_units(error: &Json, vector: &Json) -> Json {
    let text = vector["query"].as_str().unwrap();
    let mut error = error.clone();
    for at in 1..3 {
        if let Some(points) = error[at].as_u64() {
            let units: usize = text.chars().take(points as usize).map(char::len_utf16).sum();
            error[at] = json!(units);
        }
    }
    error
}

fn difference(field: &str, native: &Json, here: &Json) -> Difference {
    Difference { field: field.to_owned(), native: native.to_string(), here: here.to_string() }
}

/// Code, start, end and message, as a client reads the body.
fn first_error(error: &SqlError) -> Json {
    let body = shardlake_model::Error::from(error.clone()).message().to_owned();
    let Ok(body) = serde_json::from_str::<Json>(&body) else { return json!([null, null, null, body]) };
    match body.get("Errors") {
        Some(texts) => json!([null, null, null, texts[0]]),
        None => {
            let first = &body["errors"][0];
            json!([first["code"], first["location"]["start"], first["location"]["end"], first["message"]])
        }
    }
}

fn compare_plans(
    native: &Json,
    here: &Json,
    keys: Option<&[Vec<Json>]>,
    differences: &mut Vec<Difference>,
) -> Class {
    for (name, default) in members() {
        let (wanted, found) = (native.get(name).unwrap_or(&default), &here[name]);
        let is_same = match name {
            "rewrittenQuery" => sense(wanted) == sense(found),
            "hasSelectValue" | "hasNonStreamingOrderBy" => truth(wanted) == truth(found),
            "groupByAliasToAggregateType" | "dCountInfo" => without_blanks(wanted) == without_blanks(found),
            _ => wanted == found,
        };
        if !is_same {
            differences.push(difference(name, wanted, found));
        }
    }
    if let Some(hybrid) = native.get("hybridSearchQueryInfo") {
        differences.push(difference("hybridSearchQueryInfo", hybrid, &Json::Null));
    }
    let keys_native = native_keys(native);
    let is_empty = keys_native.as_ref().is_some_and(BTreeSet::is_empty);
    let keys_here = keys.map(|keys| keys.iter().map(|key| shown(key)).collect::<BTreeSet<_>>());
    let mut is_wider = false;
    if keys_native != keys_here && native.get("ranges") != Some(&Json::Null) {
        // A prefix covers the keys that begin with it.
        let covers = |key: &String| {
            keys_here.as_ref().is_none_or(|here| here.iter().any(|it| key.starts_with(it.as_str())))
        };
        is_wider = keys_native.as_ref().is_some_and(|keys| keys.iter().all(covers));
        let field = if is_wider { "ranges.wider" } else { "ranges.narrower" };
        let native = json!(keys_native.map(|keys| keys.into_iter().collect::<Vec<_>>()));
        differences.push(difference(field, &native, &json!(keys)));
    }
    match differences.len() {
        0 => Class::Same,
        1 if is_wider => Class::Wider,
        _ if is_empty && sense(&native["rewrittenQuery"]).is_empty() => Class::Wider,
        _ => Class::Differs,
    }
}

/// `None` for all keys.
fn native_keys(native: &Json) -> Option<BTreeSet<String>> {
    let ranges = native.get("ranges")?.as_array()?;
    let is_whole = |range: &Json| range[0] == "" && range[1] == "FF";
    if ranges.iter().any(is_whole) {
        return None;
    }
    if *ranges == [json!(["", "", true, true])] {
        return Some(BTreeSet::new());
    }
    let keys = native["keys"].as_array().unwrap();
    let keys = keys.iter().map(|range| {
        assert_eq!(range[0], range[1], "a range of keys");
        shown(range[0].as_array().unwrap())
    });
    Some(keys.collect())
}

/// Numbers compare by their values.
fn shown(key: &[Json]) -> String {
    let component = |component: &Json| match component.as_f64() {
        Some(number) => format!("{number:?};"),
        None => format!("{component};"),
    };
    key.iter().map(component).collect()
}

fn truth(json: &Json) -> bool {
    json.as_bool().unwrap_or_else(|| json.as_u64() == Some(1))
}

/// Clients read an empty text as they read null.
fn without_blanks(json: &Json) -> Json {
    let Some(members) = json.as_object() else { return json.clone() };
    let member = |(name, value): (&String, &Json)| {
        (name.clone(), if value == "" { Json::Null } else { value.clone() })
    };
    members.iter().map(member).collect::<serde_json::Map<String, Json>>().into()
}

/// A rewritten query by its tokens: without layout, case of function names and notation of numbers.
fn sense(query: &Json) -> Vec<String> {
    let query: Vec<char> = query.as_str().unwrap_or_default().chars().collect();
    let (mut tokens, mut at) = (Vec::<String>::new(), 0);
    while let Some(&first) = query.get(at) {
        let start = at;
        at += 1;
        let is_word = |character: char| character.is_alphanumeric() || character == '_';
        if first == '"' {
            while at < query.len() && query[at] != '"' {
                at += 1 + usize::from(query[at] == '\\');
            }
            at = (at + 1).min(query.len());
        } else if first.is_ascii_digit() {
            while at < query.len() && (is_word(query[at]) || query[at] == '.') {
                at += 1;
            }
            if matches!(query[at - 1], 'e' | 'E') && query.get(at).is_some_and(|sign| "+-".contains(*sign)) {
                at += 1;
                while at < query.len() && query[at].is_ascii_digit() {
                    at += 1;
                }
            }
        } else if is_word(first) || first == '@' {
            while at < query.len() && (is_word(query[at]) || query[at] == '@') {
                at += 1;
            }
        } else if first.is_whitespace() {
            continue;
        }
        let token: String = query[start..at].iter().collect();
        if token == "("
            && let Some(name) = tokens.last_mut()
        {
            *name = name.to_uppercase();
        }
        tokens.push(match token.parse::<f64>() {
            Ok(number) if first.is_ascii_digit() => format!("{number:?}"),
            _ => token,
        });
    }
    tokens
}

/// Numbers to twelve digits, those of spatial functions to six.
pub fn is_same_value(vector: &Json, found: &Result<Option<Json>, String>) -> bool {
    let (native, Ok(found)) = (&vector["native"], found) else { return false };
    if vector["undefined"] == true {
        return found.is_none();
    }
    let Some(found) = found else { return false };
    match (native.as_f64(), found.as_f64()) {
        (Some(native_number), Some(number)) => {
            let is_spatial = vector["expr"].as_str().unwrap().starts_with("ST_");
            let tolerance = if is_spatial { 1e-6 } else { 1e-12 };
            let size = native_number.abs().max(number.abs());
            native_number == number || (native_number - number).abs() <= tolerance * size
        }
        _ => native == found,
    }
}

/// Dates with an offset from UTC: the service's recorded answer is undefined.
pub fn is_answered_otherwise_by_the_service(expression: &str) -> bool {
    let times = expression.match_indices('T').map(|(at, _)| &expression[at + 1..]);
    times.into_iter().any(|time| {
        let time: String =
            time.chars().take_while(|it| it.is_ascii_digit() || ":.+-".contains(*it)).collect();
        time.starts_with(|it: char| it.is_ascii_digit()) && time.contains(['+', '-'])
    })
}
