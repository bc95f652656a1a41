//! The rules of a validator that a document breaks, in the form that MongoDB's shells and frameworks show.
//!
//! ```text
//! details ── operatorName  $jsonSchema ── schemaRulesNotSatisfied: one entry for each keyword
//!                          $and        ── clausesNotSatisfied:     one entry for each clause
//!                          $gt, …      ── specifiedAs, reason, consideredValue
//! ```
//!
//! Each rule is tried by itself on the document: this costs a second look, on refused documents only.

use super::operators::is_operator_document;
use super::schema::Schema;
use super::{Filter, schema_parse};
use crate::expression::{Env, Scope};
use crate::value::{Document, Str, Value};

/// The broken rules of a validator that does not accept a document.
pub fn unmet(validator: &Document, document: &Document, (scope, env): (&Scope, &mut Env)) -> Document {
    let clauses: Vec<Document> =
        validator.iter().map(|(name, value)| Document::one(name, value.clone())).collect();
    match &clauses[..] {
        [clause] => unmet_clause(clause, document, (scope, env)),
        clauses => unmet_clauses("$and", clauses, document, (scope, env)),
    }
}

fn holds(clause: &Document, document: &Document, (scope, env): (&Scope, &mut Env)) -> bool {
    let filter = Filter::parse(clause, scope);
    filter.is_ok_and(|filter| filter.matches(document, env).unwrap_or(false))
}

fn unmet_clauses(
    operator: &str,
    clauses: &[Document],
    document: &Document,
    (scope, env): (&Scope, &mut Env),
) -> Document {
    let mut unmet_ones = Vec::new();
    for (at, clause) in clauses.iter().enumerate() {
        if !holds(clause, document, (scope, env)) {
            let mut entry = Document::one("index", at as i32);
            entry.push("details", Value::document(unmet(clause, document, (scope, env))));
            unmet_ones.push(Value::document(entry));
        }
    }
    let mut details = Document::one("operatorName", operator);
    details.push("clausesNotSatisfied", Value::array(unmet_ones));
    details
}

fn unmet_clause(clause: &Document, document: &Document, (scope, env): (&Scope, &mut Env)) -> Document {
    let Some((name, value)) = clause.first() else { return Document::new() };
    match (&**name, value) {
        ("$jsonSchema", Value::Document(schema)) => {
            let mut details = Document::one("operatorName", "$jsonSchema");
            push_texts(&mut details, schema);
            let rules = unmet_rules(schema, &Value::document(document.clone()));
            details.push("schemaRulesNotSatisfied", Value::array(rules));
            details
        }
        ("$and" | "$or", Value::Array(items)) => {
            let clauses: Vec<Document> =
                items.iter().filter_map(|item| item.as_document().map(|item| (**item).clone())).collect();
            unmet_clauses(name, &clauses, document, (scope, env))
        }
        (operator, _) if operator.starts_with('$') => {
            let mut details = Document::one("operatorName", operator);
            details.push("specifiedAs", Value::document(clause.clone()));
            details.push("reason", Value::string("expression did not match"));
            details
        }
        (path, Value::Document(operators)) if is_operator_document(operators) => {
            let mut parts = operators.iter().map(|(operator, operand)| {
                Document::one(path, Value::document(Document::one(operator, operand.clone())))
            });
            match parts.find(|part| !holds(part, document, (scope, env))) {
                Some(part) => unmet_comparison(path, &part, document),
                None => unmet_comparison(path, clause, document),
            }
        }
        (path, _) => unmet_comparison(path, clause, document),
    }
}

/// A condition on one field.
fn unmet_comparison(path: &str, clause: &Document, document: &Document) -> Document {
    let operator = match clause.get(path) {
        Some(Value::Document(operators)) if is_operator_document(operators) => operators.first(),
        _ => None,
    };
    let mut details = Document::one("operatorName", operator.map_or("$eq", |(name, _)| name));
    details.push("specifiedAs", Value::document(clause.clone()));
    let step = |value: Value, name: &str| match &value {
        Value::Document(inner) => inner.value(name),
        _ => Value::Missing,
    };
    match path.split('.').fold(Value::document(document.clone()), step) {
        Value::Missing => details.push("reason", Value::string("field was missing")),
        value => push_reason(&mut details, operator.map_or("$eq", |(name, _)| name), value),
    }
    details
}

fn push_reason(details: &mut Document, operator: &str, value: Value) {
    let reason = match operator {
        "$eq" | "$ne" | "$gt" | "$gte" | "$lt" | "$lte" | "minimum" | "maximum" => "comparison failed",
        "$in" | "enum" => "value was not found in enum",
        "$type" | "type" | "bsonType" => "type did not match",
        "$regex" | "pattern" => "regular expression did not match",
        "$exists" => "path does exist",
        "multipleOf" => "considered value is not a multiple of the specified value",
        "minLength" | "maxLength" => "specified string length was not satisfied",
        "minItems" | "maxItems" | "$size" => "array did not match specified length",
        "minProperties" | "maxProperties" => "specified number of properties was not satisfied",
        "uniqueItems" => "found a duplicate item",
        _ => "value did not match",
    };
    details.push("reason", Value::string(reason));
    let kind = value.type_name();
    details.push("consideredValue", value);
    if matches!(operator, "$type" | "type" | "bsonType") {
        details.push("consideredType", Value::string(kind));
    }
}

/// Title and description of a schema, for those who read the error.
fn push_texts(details: &mut Document, schema: &Document) {
    for name in ["title", "description"] {
        if let Some(text) = schema.get(name) {
            details.push(name, text.clone());
        }
    }
}

/// A schema of one keyword, with the keyword that belongs to it.
fn rule(schema: &Document, keyword: &Str, value: &Value) -> Option<Schema> {
    let mut alone = Document::one(keyword, value.clone());
    let beside: &[&str] = match &**keyword {
        "minimum" => &["exclusiveMinimum"],
        "maximum" => &["exclusiveMaximum"],
        "items" => &["additionalItems"],
        "additionalProperties" => &["properties", "patternProperties"],
        _ => &[],
    };
    for name in beside {
        if let Some(value) = schema.get(name) {
            alone.push(*name, value.clone());
        }
    }
    schema_parse::parse(&Value::document(alone)).ok()
}

fn unmet_rules(schema: &Document, value: &Value) -> Vec<Value> {
    let mut rules = Vec::new();
    for (keyword, operand) in schema.iter() {
        let is_met = rule(schema, keyword, operand).is_none_or(|rule| rule.accepts(value).unwrap_or(true));
        if !is_met && !matches!(&**keyword, "exclusiveMinimum" | "exclusiveMaximum") {
            rules.extend(unmet_rule(schema, keyword, operand, value).map(Value::document));
        }
    }
    rules
}

fn unmet_rule(schema: &Document, keyword: &Str, operand: &Value, value: &Value) -> Option<Document> {
    let mut details = Document::one("operatorName", Value::string(&**keyword));
    let specified = || Value::document(Document::one(keyword, operand.clone()));
    match (&**keyword, operand, value) {
        ("properties", Value::Document(properties), Value::Document(document)) => {
            details.push("propertiesNotSatisfied", Value::array(unmet_properties(properties, document)));
        }
        ("required", Value::Array(names), Value::Document(document)) => {
            details.push("specifiedAs", specified());
            let is_missing = |name: &&Value| name.as_str().is_some_and(|name| !document.has(name));
            let missing = names.iter().filter(is_missing).cloned().collect();
            details.push("missingProperties", Value::array(missing));
        }
        ("additionalProperties", Value::Bool(false), Value::Document(document)) => {
            // The properties that belong to others are met by the same rule.
            if rule(schema, keyword, operand)?.accepts(value).unwrap_or(true) {
                return None;
            }
            details.push("specifiedAs", specified());
            let known = schema.get("properties").and_then(Value::as_document);
            let is_known = |name: &Str| known.is_some_and(|known| known.has(name));
            let others = document.iter().map(|(name, _)| name).filter(|name| !is_known(name));
            details.push("additionalProperties", Value::array(others.map(Value::string).collect()));
        }
        ("allOf" | "anyOf" | "oneOf", Value::Array(schemas), value) => {
            let unmet = schemas.iter().enumerate().filter_map(|(at, schema)| {
                let rules = unmet_rules(schema.as_document()?, value);
                let mut entry = Document::one("index", at as i32);
                entry.push("details", Value::array(rules.clone()));
                (!rules.is_empty()).then(|| Value::document(entry))
            });
            details.push("schemasNotSatisfied", Value::array(unmet.collect()));
        }
        ("items", Value::Document(inner), Value::Array(items)) => {
            let (at, rules) = items.iter().enumerate().find_map(|(at, item)| {
                let rules = unmet_rules(inner, item);
                (!rules.is_empty()).then_some((at, rules))
            })?;
            details.push("reason", Value::string("At least one item did not match the sub-schema"));
            details.push("itemIndex", Value::Int(at as i32));
            details.push("details", Value::array(rules));
        }
        _ => {
            details.push("specifiedAs", specified());
            push_reason(&mut details, keyword, value.clone());
        }
    }
    Some(details)
}

fn unmet_properties(properties: &Document, document: &Document) -> Vec<Value> {
    let mut unmet = Vec::new();
    for (name, schema) in properties.iter() {
        let (Value::Document(schema), Some(value)) = (schema, document.get(name)) else { continue };
        let rules = unmet_rules(schema, value);
        if !rules.is_empty() {
            let mut entry = Document::one("propertyName", Value::string(&**name));
            push_texts(&mut entry, schema);
            entry.push("details", Value::array(rules));
            unmet.push(Value::document(entry));
        }
    }
    unmet
}
