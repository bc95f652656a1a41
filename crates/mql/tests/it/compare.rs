//! Comparison of replies with the expectations of cases: types exactly, the order of members not.

use crate::tagged::{Special, special};
use shardlake_mql::{Document, Value};

const GOSSIP: &[&str] = &["$clusterTime", "operationTime", "electionId", "opTime"];

pub fn same(wanted: &Value, found: &Value) -> bool {
    if let Some(Special::Near(near, tolerance)) = special(wanted) {
        return number(found).is_some_and(|found| {
            found == near || (found.is_nan() && near.is_nan()) || (found - near).abs() <= tolerance
        });
    }
    match (wanted, found) {
        (Value::Document(wanted), Value::Document(found)) => {
            wanted.len() == found.len()
                && wanted.iter().all(|(name, value)| found.get(name).is_some_and(|found| same(value, found)))
        }
        (Value::Array(wanted), Value::Array(found)) => {
            wanted.len() == found.len()
                && wanted.iter().zip(found.iter()).all(|(wanted, found)| same(wanted, found))
        }
        (Value::Double(wanted), Value::Double(found)) => {
            (wanted.is_nan() && found.is_nan())
                || (wanted == found && wanted.is_sign_negative() == found.is_sign_negative())
        }
        (Value::CodeWithScope(wanted), Value::CodeWithScope(found)) => {
            wanted.0 == found.0 && same(&Value::document(wanted.1.clone()), &Value::document(found.1.clone()))
        }
        _ => shardlake_mql::identical(wanted, found),
    }
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Date(millis) => Some(*millis as f64),
        Value::Timestamp(seconds, increment) => {
            Some(f64::from(*seconds) * 4_294_967_296.0 + f64::from(*increment))
        }
        other => other.to_f64(),
    }
}

/// The value at a path of a reply.
pub fn walk(value: &Value, path: &str) -> Option<Value> {
    let mut value = value.clone();
    for part in path.split('.').filter(|part| !part.is_empty()) {
        value = match &value {
            Value::Document(document) => document.get(part)?.clone(),
            Value::Array(items) => items.get(part.parse::<usize>().ok()?)?.clone(),
            _ => return None,
        };
    }
    Some(value)
}

pub fn error_code(reply: &Document) -> Option<(Value, String)> {
    let message =
        |document: &Document| document.get("errmsg").map_or_else(String::new, |text| text.to_string());
    if let Some(Value::Array(faults)) = reply.get("writeErrors")
        && let Some(Value::Document(first)) = faults.first()
    {
        return Some((first.get("code")?.clone(), message(first)));
    }
    if is_ok(reply) {
        return None;
    }
    Some((reply.get("code")?.clone(), message(reply)))
}

pub fn is_ok(reply: &Document) -> bool {
    matches!(reply.get("ok"), Some(Value::Double(ok)) if *ok == 1.0)
}

/// The reason why a reply fails a check: the kind of failure, and words.
pub fn fault(check: &Document, reply: &Document) -> Option<(&'static str, String)> {
    if let Some(wanted) = check.get("error") {
        return match error_code(reply) {
            None => Some(("no_error", format!("wanted error {wanted}"))),
            Some((code, words)) if !same(wanted, &code) => {
                Some(("other_error", format!("wanted error {wanted}, got {code}: {words}")))
            }
            _ => None,
        };
    }
    if !is_ok(reply) {
        let (code, words) = error_code(reply).unwrap_or((Value::Null, String::new()));
        return Some(("error", format!("{code}: {words}")));
    }
    if check.has("no_error") {
        return None;
    }
    let raw = check.get("raw").is_some_and(Value::is_true);
    let result = if raw {
        Value::document(without_gossip(reply))
    } else {
        match walk(&Value::document(reply.clone()), "cursor.firstBatch") {
            Some(result) => result,
            None => return Some(("shape", "the reply has no cursor.firstBatch".into())),
        }
    };
    if let Some(wanted) = check.get("properties") {
        return properties_fault(wanted, &result, raw);
    }
    compare_result(check, result)
}

fn without_gossip(document: &Document) -> Document {
    let kept = document.iter().filter(|(name, _)| !GOSSIP.contains(&&***name));
    kept.map(|(name, value)| (name.clone(), value.clone())).collect()
}

fn compare_result(check: &Document, mut result: Value) -> Option<(&'static str, String)> {
    let mut expected = check.value("equals");
    if let Some(partial) = check.get("partial") {
        expected = partial.clone();
        result = only(&expected, &result);
    }
    if let Value::Document(document) = &expected
        && special(&expected).is_none()
    {
        expected = Value::document(without_gossip(document));
    }
    if let Some(Value::Array(fields)) = check.get("any_order_in") {
        let fields: Vec<&str> = fields.iter().filter_map(Value::as_str).collect();
        (expected, result) = (sort_fields(&expected, &fields), sort_fields(&result, &fields));
    }
    if check.get("any_order").is_some_and(Value::is_true) {
        (expected, result) = (sorted(&expected), sorted(&result));
    }
    if same(&expected, &result) {
        return None;
    }
    Some(("mismatch", format!("wanted {expected:.2000}\n  got    {result:.2000}")))
}

/// The parts of `actual` that `expected` names.
fn only(expected: &Value, actual: &Value) -> Value {
    match (expected, actual) {
        (Value::Document(expected), Value::Document(actual)) => {
            let named = expected
                .iter()
                .filter_map(|(name, item)| actual.get(name).map(|found| (name.clone(), only(item, found))));
            Value::document(named.collect())
        }
        (Value::Array(expected), Value::Array(actual)) => {
            Value::array(expected.iter().zip(actual.iter()).map(|(left, right)| only(left, right)).collect())
        }
        _ => actual.clone(),
    }
}

fn sorted(value: &Value) -> Value {
    let Value::Array(items) = value else { return value.clone() };
    let mut items = items.to_vec();
    items.sort_by_cached_key(sort_key);
    Value::array(items)
}

fn sort_key(value: &Value) -> String {
    match value {
        Value::Document(document) => {
            let mut parts: Vec<String> =
                document.iter().map(|(name, item)| format!("{name}={}", sort_key(item))).collect();
            parts.sort();
            format!("object {}", parts.join(","))
        }
        Value::Array(items) => format!("array {:?}", items.iter().map(sort_key).collect::<Vec<_>>()),
        other => format!("{} {other}", other.type_name()),
    }
}

fn sort_fields(value: &Value, fields: &[&str]) -> Value {
    match value {
        Value::Array(items) => Value::array(items.iter().map(|item| sort_fields(item, fields)).collect()),
        Value::Document(document) => {
            let sort = |(name, item): (&shardlake_mql::Str, &Value)| {
                let item = if fields.contains(&&**name) { sorted(item) } else { item.clone() };
                (name.clone(), item)
            };
            Value::document(document.iter().map(sort).collect())
        }
        other => other.clone(),
    }
}

fn properties_fault(wanted: &Value, result: &Value, raw: bool) -> Option<(&'static str, String)> {
    let documents = match result {
        Value::Array(items) if !raw => items.to_vec(),
        other => vec![other.clone()],
    };
    if documents.is_empty() {
        return Some(("shape", "no document".into()));
    }
    let rules: Vec<Value> = match wanted {
        Value::Array(items) => items.to_vec(),
        other => vec![other.clone(); documents.len()],
    };
    if rules.len() != documents.len() {
        return Some(("shape", format!("wanted {} documents, got {}", rules.len(), documents.len())));
    }
    for (document, paths) in documents.iter().zip(&rules) {
        for (path, rules) in paths.as_document()?.iter() {
            let value = walk(document, path);
            for rule in rules.as_array()?.iter() {
                let parts = rule.as_array()?;
                let name = parts[0].as_str()?;
                if !holds(name, &parts[1..], value.as_ref()) {
                    return Some(("mismatch", format!("{path} fails {rule}: {value:?}")));
                }
            }
        }
    }
    None
}

fn holds(name: &str, arguments: &[Value], value: Option<&Value>) -> bool {
    let Some(value) = value else { return matches!(name, "NotExists" | "NotContains" | "Ne") };
    let argument = arguments.first().unwrap_or(&Value::Null);
    let items = value.as_array();
    let has_member = |items: &[Value]| {
        let (Some(name), Some(wanted)) = (argument.as_str(), arguments.get(1)) else { return false };
        items
            .iter()
            .filter_map(Value::as_document)
            .any(|item| item.get(name).is_some_and(|found| same(wanted, found)))
    };
    let order = number(value).zip(number(argument));
    let length = items.map(|items| items.len() as i64).zip(argument.to_i64_exact());
    match name {
        "NotExists" => false,
        "Exists" => true,
        "IsType" => Some(value.type_name()) == argument.as_str(),
        "Eq" => same(argument, value),
        "Ne" => !same(argument, value),
        "OrderedKeys" => value.as_document().is_some_and(|document| {
            let names = document.iter().map(|(name, _)| Value::String(name.clone())).collect();
            same(argument, &Value::array(names))
        }),
        "Len" => length.is_some_and(|(found, wanted)| found == wanted),
        "LenGt" => length.is_some_and(|(found, wanted)| found > wanted),
        "LenLte" => length.is_some_and(|(found, wanted)| found <= wanted),
        "Contains" => items.is_some_and(|items| has_member(items)),
        "NotContains" => items.is_some_and(|items| !has_member(items)),
        "HasKey" => {
            value.as_document().zip(argument.as_str()).is_some_and(|(document, name)| document.has(name))
        }
        "ContainsElement" => items.is_some_and(|items| items.iter().any(|item| same(argument, item))),
        "Gt" => order.is_some_and(|(found, wanted)| found > wanted),
        "Gte" => order.is_some_and(|(found, wanted)| found >= wanted),
        "Lte" => order.is_some_and(|(found, wanted)| found <= wanted),
        "NonEmptyStr" => value.as_str().is_some_and(|text| !text.is_empty()),
        "ByteLen" => {
            matches!(value, Value::Binary(_, bytes) if Some(bytes.len() as i64) == argument.to_i64_exact())
        }
        _ => false,
    }
}
