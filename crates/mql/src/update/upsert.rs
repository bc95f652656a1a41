//! The document that an upsert starts from: the equalities of its filter.

use crate::error::{Result, fail};
use crate::filter::is_operator_document;
use crate::value::{Document, Str, Value};

/// Collects the equalities of a filter into a document.
pub fn upsert_base(filter: &Document) -> Result<Document> {
    let mut found: Vec<(Str, Value)> = Vec::new();
    collect(filter, &mut found)?;
    let mut base = Document::new();
    for (at, (path, value)) in found.iter().enumerate() {
        for (other, _) in &found[..at] {
            let nested = path == other
                || path.strip_prefix(&**other).is_some_and(|rest| rest.starts_with('.'))
                || other.strip_prefix(&**path).is_some_and(|rest| rest.starts_with('.'));
            if nested {
                fail!(54, "cannot infer query fields to set, path '{path}' is matched twice");
            }
        }
        let parts: Vec<Str> = path.split('.').map(Str::from).collect();
        put(&mut base, &parts, value);
    }
    Ok(base)
}

fn put(document: &mut Document, parts: &[Str], value: &Value) {
    match parts {
        [] => {}
        [name] => document.set(name, value.clone()),
        [name, rest @ ..] => {
            let mut inner = match document.get(name) {
                Some(Value::Document(inner)) => (**inner).clone(),
                _ => Document::new(),
            };
            put(&mut inner, rest, value);
            document.set(name, Value::document(inner));
        }
    }
}

fn collect(filter: &Document, found: &mut Vec<(Str, Value)>) -> Result<()> {
    for (name, value) in filter.iter() {
        match (&**name, value) {
            ("$and", Value::Array(clauses)) => {
                for clause in clauses.iter().filter_map(Value::as_document) {
                    collect(clause, found)?;
                }
            }
            // An alternative with one branch is no alternative.
            ("$or", Value::Array(clauses)) if clauses.len() == 1 => {
                if let Some(clause) = clauses[0].as_document() {
                    collect(clause, found)?;
                }
            }
            (name, _) if name.starts_with('$') => {}
            (_, Value::Regex(_)) => {}
            (_, Value::Document(operators)) if is_operator_document(operators) => {
                found.extend(equality(operators).map(|value| (name.clone(), value)));
            }
            (_, value) => found.push((name.clone(), value.clone())),
        }
    }
    Ok(())
}

fn equality(operators: &Document) -> Option<Value> {
    if let Some(value) = operators.get("$eq") {
        return Some(value.clone());
    }
    for name in ["$in", "$all"] {
        if let Some(Value::Array(items)) = operators.get(name)
            && let [only] = &items[..]
        {
            let plain = match only {
                Value::Regex(_) => false,
                Value::Document(document) => !is_operator_document(document),
                _ => true,
            };
            return plain.then(|| only.clone());
        }
    }
    None
}
