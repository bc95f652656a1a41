//! Documents to schemas, with the errors of each keyword.

use super::schema::{Additional, Dependency, Items, Schema};
use crate::error::{FAILED_TO_PARSE, Result, TYPE_MISMATCH, error, fail};
use crate::pattern::Pattern;
use crate::value::{Document, Str, Value};
use crate::value_type;
use std::sync::Arc;

pub(super) fn parse(value: &Value) -> Result<Schema> {
    let Value::Document(document) = value else { fail!(TYPE_MISMATCH, "$jsonSchema must be an object") };
    parse_schema(document, 0)
}

/// Levels of schemas.
const DEPTH_MAX: usize = 100;

fn mismatch<T>(keyword: &str, wanted: &str) -> Result<T> {
    fail!(TYPE_MISMATCH, "$jsonSchema keyword '{keyword}' must be {wanted}")
}

fn wrong<T>(keyword: &str, words: &str) -> Result<T> {
    fail!(FAILED_TO_PARSE, "$jsonSchema keyword '{keyword}' {words}")
}

fn parse_schema(document: &Document, depth: usize) -> Result<Schema> {
    if depth > DEPTH_MAX {
        fail!(FAILED_TO_PARSE, "$jsonSchema may be nested {DEPTH_MAX} levels deep");
    }
    let mut schema = Schema::default();
    for (keyword, value) in document.iter() {
        parse_keyword(&mut schema, keyword, value, document, depth + 1)?;
    }
    Ok(schema)
}

fn parse_keyword(
    schema: &mut Schema,
    keyword: &str,
    value: &Value,
    all: &Document,
    depth: usize,
) -> Result<()> {
    match keyword {
        "type" | "bsonType" => {
            if all.has("type") && all.has("bsonType") {
                fail!(FAILED_TO_PARSE, "Cannot specify both $jsonSchema keywords 'type' and 'bsonType'");
            }
            schema.types = Some(parse_types(keyword, value)?);
        }
        "title" | "description" => {
            if value.as_str().is_none() {
                return mismatch(keyword, "a string");
            }
        }
        "minimum" => schema.minimum = Some((number(keyword, value)?, flag(all, "exclusiveMinimum")?)),
        "maximum" => schema.maximum = Some((number(keyword, value)?, flag(all, "exclusiveMaximum")?)),
        "exclusiveMinimum" | "exclusiveMaximum" => {
            flag(all, keyword)?;
            let other = if keyword == "exclusiveMinimum" { "minimum" } else { "maximum" };
            if !all.has(other) {
                return wrong(keyword, &format!("needs '{other}'"));
            }
        }
        "multipleOf" => {
            let factor = number(keyword, value)?;
            if !crate::order::compare(&factor, &Value::Int(0)).is_gt() {
                return wrong(keyword, "must have a positive value");
            }
            schema.multiple_of = Some(factor);
        }
        "minLength" => schema.length.0 = Some(count(keyword, value)?),
        "maxLength" => schema.length.1 = Some(count(keyword, value)?),
        "minItems" => schema.item_count.0 = Some(count(keyword, value)?),
        "maxItems" => schema.item_count.1 = Some(count(keyword, value)?),
        "minProperties" => schema.member_count.0 = Some(count(keyword, value)?),
        "maxProperties" => schema.member_count.1 = Some(count(keyword, value)?),
        "pattern" => match value {
            Value::String(text) => schema.pattern = Some(pattern(text)?),
            _ => return mismatch(keyword, "a string"),
        },
        "uniqueItems" => match value {
            Value::Bool(unique) => schema.unique = *unique,
            _ => return mismatch(keyword, "a boolean"),
        },
        "enum" => schema.allowed = Some(parse_enum(value)?),
        "required" => schema.required = names(keyword, value)?,
        _ => return parse_nested(schema, keyword, value, depth),
    }
    Ok(())
}

fn parse_nested(schema: &mut Schema, keyword: &str, value: &Value, depth: usize) -> Result<()> {
    match keyword {
        "properties" => schema.properties = members(keyword, value, depth)?,
        "patternProperties" => {
            for (text, inner) in members(keyword, value, depth)? {
                schema.pattern_properties.push((pattern(&text)?, inner));
            }
        }
        "additionalProperties" => schema.additional_properties = additional(keyword, value, depth)?,
        "additionalItems" => schema.additional_items = additional(keyword, value, depth)?,
        "items" => {
            schema.items = match value {
                Value::Document(inner) => Items::Each(Box::new(parse_schema(inner, depth)?)),
                Value::Array(items) => Items::ByPlace(schemas_of(keyword, items, depth)?),
                _ => return mismatch(keyword, "an array or an object"),
            };
        }
        "dependencies" => {
            let Value::Document(document) = value else { return mismatch(keyword, "an object") };
            for (name, dependency) in document.iter() {
                let parsed = match dependency {
                    Value::Document(inner) => Dependency::Schema(Box::new(parse_schema(inner, depth)?)),
                    other => Dependency::Names(names(keyword, other)?),
                };
                schema.dependencies.push((name.clone(), parsed));
            }
        }
        "allOf" => schema.all_of = list(keyword, value, depth)?,
        "anyOf" => schema.any_of = Some(list(keyword, value, depth)?),
        "oneOf" => schema.one_of = Some(list(keyword, value, depth)?),
        "not" => match value {
            Value::Document(inner) => schema.not = Some(Box::new(parse_schema(inner, depth)?)),
            _ => return mismatch(keyword, "an object"),
        },
        "$ref" | "$schema" | "default" | "definitions" | "format" | "id" => {
            fail!(FAILED_TO_PARSE, "$jsonSchema keyword '{keyword}' is not currently supported")
        }
        other => fail!(FAILED_TO_PARSE, "Unknown $jsonSchema keyword: {other}"),
    }
    Ok(())
}

fn number(keyword: &str, value: &Value) -> Result<Value> {
    if value.is_number() { Ok(value.clone()) } else { mismatch(keyword, "a number") }
}

fn flag(all: &Document, keyword: &str) -> Result<bool> {
    match all.get(keyword) {
        None => Ok(false),
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(_) => mismatch(keyword, "a boolean"),
    }
}

fn count(keyword: &str, value: &Value) -> Result<u64> {
    match value.to_i64_exact().and_then(|count| u64::try_from(count).ok()) {
        Some(count) => Ok(count),
        None => wrong(keyword, &format!("must be a non-negative integer: {value}")),
    }
}

fn pattern(text: &str) -> Result<Arc<Pattern>> {
    Pattern::compile(text, "")
        .map(Arc::new)
        .map_err(|words| error!(51091, "Regular expression is invalid: {words}"))
}

fn parse_enum(value: &Value) -> Result<Vec<Value>> {
    let Value::Array(items) = value else { return mismatch("enum", "an array") };
    if items.is_empty() {
        return wrong("enum", "cannot be an empty array");
    }
    let mut keys: Vec<crate::order::Key> = items.iter().cloned().map(crate::order::Key).collect();
    keys.sort();
    if keys.windows(2).any(|pair| pair[0] == pair[1]) {
        return wrong("enum", "array cannot contain duplicate values");
    }
    Ok(items.to_vec())
}

fn names(keyword: &str, value: &Value) -> Result<Vec<Str>> {
    let Value::Array(items) = value else { return mismatch(keyword, "an array") };
    if items.is_empty() {
        return wrong(keyword, "cannot be an empty array");
    }
    let mut names: Vec<Str> = Vec::with_capacity(items.len());
    for item in items.iter() {
        let Value::String(name) = item else { return mismatch(keyword, "an array of strings") };
        if names.contains(name) {
            return wrong(keyword, "array cannot contain duplicate values");
        }
        names.push(name.clone());
    }
    Ok(names)
}

fn members(keyword: &str, value: &Value, depth: usize) -> Result<Vec<(Str, Schema)>> {
    let Value::Document(document) = value else { return mismatch(keyword, "an object") };
    let member = |(name, value): (&Str, &Value)| match value {
        Value::Document(inner) => Ok((name.clone(), parse_schema(inner, depth)?)),
        _ => mismatch(keyword, "an object of objects"),
    };
    document.iter().map(member).collect()
}

fn additional(keyword: &str, value: &Value, depth: usize) -> Result<Additional> {
    Ok(match value {
        Value::Bool(true) => Additional::Any,
        Value::Bool(false) => Additional::None,
        Value::Document(inner) => Additional::Each(Box::new(parse_schema(inner, depth)?)),
        _ => return mismatch(keyword, "an object or a boolean"),
    })
}

fn schemas_of(keyword: &str, items: &[Value], depth: usize) -> Result<Vec<Schema>> {
    let schema = |item: &Value| match item {
        Value::Document(inner) => parse_schema(inner, depth),
        _ => mismatch(keyword, "an array of objects"),
    };
    items.iter().map(schema).collect()
}

fn list(keyword: &str, value: &Value, depth: usize) -> Result<Vec<Schema>> {
    let Value::Array(items) = value else { return mismatch(keyword, "an array") };
    if items.is_empty() {
        fail!(2, "$jsonSchema keyword '{keyword}' must be a non-empty array");
    }
    schemas_of(keyword, items, depth)
}

fn parse_types(keyword: &str, value: &Value) -> Result<(Vec<i32>, bool)> {
    let items = match value {
        Value::Array(items) if items.is_empty() => return wrong(keyword, "must name at least one type"),
        Value::Array(items) => items.to_vec(),
        Value::String(_) => vec![value.clone()],
        _ => return mismatch(keyword, "a string or an array of strings"),
    };
    let (mut types, mut numbers, mut seen) = (Vec::new(), false, Vec::new());
    for item in items {
        let Value::String(name) = &item else { return mismatch(keyword, "an array of strings") };
        if seen.contains(name) {
            return wrong(keyword, "has duplicate value");
        }
        seen.push(name.clone());
        match (&**name, keyword) {
            ("number", _) => numbers = true,
            ("integer", _) => {
                fail!(FAILED_TO_PARSE, "$jsonSchema type 'integer' is not currently supported.")
            }
            ("boolean", "type") => types.push(8),
            ("string" | "object" | "array" | "null", "type") | (_, "bsonType") => {
                match value_type::number_of(name) {
                    Some(number) => types.push(number),
                    None => fail!(2, "Unknown type name alias: {name}"),
                }
            }
            _ => fail!(2, "Unknown type name alias: {name}"),
        }
    }
    Ok((types, numbers))
}
