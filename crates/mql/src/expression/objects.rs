//! Operators on documents, and sizes of values.

use super::arguments::{Signature, value_of};
use super::env::{CURRENT, Env};
use super::operands::At;
use super::operator::{MANY, Operator, between, exactly};
use super::tree::{Evaluate, Expression};
use crate::error::{Result, error, fail};
use crate::value::{Document, Str, Value};

pub(super) fn operator(name: &str) -> Option<Operator> {
    match name {
        "$mergeObjects" => between(0, MANY, |_, values| merge(values)),
        "$bsonSize" => exactly(1, |_, values| bson_size(&values[0])),
        "$binarySize" => exactly(1, |_, values| binary_size(&values[0])),
        _ => None,
    }
}

pub(super) fn parse(name: &str, operand: &Value, at: &At<'_>) -> Result<Option<Expression>> {
    match name {
        "$getField" => parse_get(operand, at).map(Some),
        "$setField" => parse_set(operand, at).map(Some),
        "$unsetField" => parse_unset(operand, at).map(Some),
        _ => Ok(None),
    }
}

/// Merges documents. A lone array is the list of them.
fn merge(values: &[Value]) -> Result<Value> {
    let mut merged = Document::new();
    let values = match values {
        [Value::Array(items)] => items.as_slice(),
        values => values,
    };
    for value in values {
        merge_into(&mut merged, value)?;
    }
    Ok(Value::document(merged))
}

/// Adds the members of a document to another; later ones replace earlier ones where they stand.
pub(super) fn merge_into(merged: &mut Document, value: &Value) -> Result<()> {
    match value {
        value if value.is_nullish() => Ok(()),
        Value::Document(document) => {
            document.iter().for_each(|(name, member)| merged.set(name, member.clone()));
            Ok(())
        }
        other => fail!(
            40400,
            "$mergeObjects requires object inputs, but input {other} is of type {}",
            other.type_name()
        ),
    }
}

fn bson_size(value: &Value) -> Result<Value> {
    match value {
        value if value.is_nullish() => Ok(Value::Null),
        Value::Document(document) => Ok(Value::Int(document.size() as i32)),
        other => fail!(31393, "$bsonSize requires a document input, found: {}", other.type_name()),
    }
}

fn binary_size(value: &Value) -> Result<Value> {
    match value {
        value if value.is_nullish() => Ok(Value::Null),
        Value::String(text) => Ok(Value::Int(text.len() as i32)),
        Value::Binary(subtype, bytes) => Ok(Value::Int(Value::binary_bytes(*subtype, bytes).len() as i32)),
        other => {
            fail!(51276, "$binarySize requires a string or BinData argument, found: {}", other.type_name())
        }
    }
}

pub(super) fn object_to_array(value: &Value) -> Result<Value> {
    let document = match value {
        value if value.is_nullish() => return Ok(Value::Null),
        Value::Document(document) => document,
        other => fail!(40390, "$objectToArray requires a document input, found: {}", other.type_name()),
    };
    let pair = |(name, member): (&Str, &Value)| {
        let mut pair = Document::one("k", Value::String(name.clone()));
        pair.push("v", member.clone());
        Value::document(pair)
    };
    Ok(Value::array(document.iter().map(pair).collect()))
}

pub(super) fn array_to_object(value: &Value) -> Result<Value> {
    let items = match value {
        value if value.is_nullish() => return Ok(Value::Null),
        Value::Array(items) => items,
        other => fail!(40386, "$arrayToObject requires an array input, found: {}", other.type_name()),
    };
    let in_pairs = match items.first() {
        None => return Ok(Value::document(Document::new())),
        Some(Value::Array(_)) => true,
        Some(Value::Document(_)) => false,
        Some(other) => {
            fail!(40398, "Unrecognised input type format for $arrayToObject: {}", other.type_name())
        }
    };
    let mut object = Document::with_capacity(items.len());
    for item in items.iter() {
        let (name, member) = if in_pairs { member_of_pair(item)? } else { member_of_object(item)? };
        object.set(&name, member);
    }
    Ok(Value::document(object))
}

fn member_of_pair(item: &Value) -> Result<(Str, Value)> {
    let Value::Array(pair) = item else {
        fail!(
            40396,
            "$arrayToObject requires a consistent input format. Expected arrays, found {}",
            item.type_name()
        );
    };
    let [name, member] = &pair[..] else {
        fail!(
            40397,
            "$arrayToObject requires an array of size 2 arrays, found array of size: {}",
            pair.len()
        );
    };
    let Value::String(name) = name else {
        fail!(40395, "$arrayToObject requires the key to be of type string, found {}", name.type_name());
    };
    if name.contains('\0') {
        fail!(4940400, "Key field cannot contain an embedded null byte");
    }
    Ok((name.clone(), member.clone()))
}

fn member_of_object(item: &Value) -> Result<(Str, Value)> {
    let Value::Document(pair) = item else {
        fail!(
            40391,
            "$arrayToObject requires a consistent input format. Expected documents, found {}",
            item.type_name()
        );
    };
    if pair.len() != 2 {
        fail!(
            40392,
            "$arrayToObject requires an object keys of 'k' and 'v'. Found incorrect number of keys: {}",
            pair.len()
        );
    }
    let (Some(name), Some(member)) = (pair.get("k"), pair.get("v")) else {
        fail!(40393, "$arrayToObject requires an object with keys 'k' and 'v'");
    };
    let Value::String(name) = name else {
        fail!(
            40394,
            "$arrayToObject requires an object with keys 'k' and 'v', where 'k' is a string, not {}",
            name.type_name()
        );
    };
    if name.contains('\0') {
        fail!(4940401, "Key field cannot contain an embedded null byte");
    }
    Ok((name.clone(), member.clone()))
}

struct GetField {
    field: Expression,
    input: Expression,
}

impl Evaluate for GetField {
    fn evaluate(&self, env: &mut Env) -> Result<Value> {
        let name = match self.field.evaluate(env)? {
            Value::String(name) => name,
            other => fail!(
                3041704,
                "$getField requires 'field' to evaluate to type String, but got {}",
                other.type_name()
            ),
        };
        Ok(match self.input.evaluate(env)? {
            Value::Document(document) => document.value(&name),
            value if value.is_nullish() && !value.is_missing() => Value::Null,
            _ => Value::Missing,
        })
    }

    fn operands(&self) -> Vec<&Expression> {
        vec![&self.field, &self.input]
    }
}

fn current() -> Expression {
    Expression::new(super::tree::Tree::Path(CURRENT, Vec::new()))
}

fn parse_get(operand: &Value, at: &At<'_>) -> Result<Expression> {
    let named = match operand {
        Value::Document(document) if !document.first().is_some_and(|(name, _)| name.starts_with('$')) => {
            document
        }
        other => {
            let field = at.parse(other)?;
            return Ok(Expression::special(GetField { field: checked_field(field)?, input: current() }));
        }
    };
    for (name, _) in named.iter() {
        if !matches!(&**name, "field" | "input") {
            fail!(3041701, "$getField found an unknown argument: {name}");
        }
    }
    let field =
        named.get("field").ok_or_else(|| error!(3041702, "$getField requires 'field' to be specified"))?;
    let input =
        named.get("input").ok_or_else(|| error!(3041703, "$getField requires 'input' to be specified"))?;
    let field = checked_field(at.parse(field)?)?;
    Ok(Expression::special(GetField { field, input: at.parse(input)? }))
}

fn checked_field(field: Expression) -> Result<Expression> {
    match field.as_constant() {
        Some(Value::String(_)) | None => Ok(field),
        Some(other) => {
            fail!(
                3041704,
                "$getField requires 'field' to evaluate to type String, but got {}",
                other.type_name()
            )
        }
    }
}

struct SetField {
    name: Str,
    input: Expression,
    value: Expression,
}

impl Evaluate for SetField {
    fn evaluate(&self, env: &mut Env) -> Result<Value> {
        let input = self.input.evaluate(env)?;
        let value = self.value.evaluate(env)?;
        match input {
            input if input.is_nullish() => Ok(Value::Null),
            Value::Document(document) => {
                let mut changed = (*document).clone();
                changed.set(&self.name, value);
                Ok(Value::document(changed))
            }
            other => fail!(
                4161105,
                "$setField requires 'input' to evaluate to type Object, but got {}",
                other.type_name()
            ),
        }
    }

    fn operands(&self) -> Vec<&Expression> {
        vec![&self.input, &self.value]
    }
}

fn constant_field(field: &Value, at: &At<'_>) -> Result<Str> {
    if let Value::String(text) = field
        && text.starts_with('$')
    {
        fail!(4161108, "'field' must not be a field path; wrap it in $literal");
    }
    if let Value::Document(document) = field
        && document.first().is_some_and(|(name, _)| !matches!(&**name, "$literal" | "$const"))
    {
        fail!(4161106, "'field' must be a constant string");
    }
    if matches!(field, Value::Array(_)) {
        fail!(4161106, "'field' must be a constant string");
    }
    let parsed = at.parse(field)?;
    match parsed.as_constant() {
        Some(Value::String(name)) if name.contains('\0') => {
            fail!(9534700, "a field name must not contain a null byte")
        }
        Some(Value::String(name)) => Ok(name.clone()),
        Some(other) => fail!(4161107, "'field' must be a constant string, but got {}", other.type_name()),
        None => fail!(4161106, "'field' must be a constant string"),
    }
}

fn parse_set(operand: &Value, at: &At<'_>) -> Result<Expression> {
    let signature = Signature {
        operator: "$setField",
        names: &["field", "value", "input"],
        required: &[4161102, 4161103, 4161109],
        not_an_object: 4161100,
        unknown: 4161101,
    };
    let named = signature.document(operand)?;
    let input = at.parse(&named.value("input"))?;
    let value = at.parse(&named.value("value"))?;
    let name = constant_field(value_of(&named.get("field").cloned()), at)?;
    Ok(Expression::special(SetField { name, input, value }))
}

fn parse_unset(operand: &Value, at: &At<'_>) -> Result<Expression> {
    let signature = Signature {
        operator: "$unsetField",
        names: &["field", "input"],
        required: &[4161102, 4161109],
        not_an_object: 4161100,
        unknown: 4161101,
    };
    let named = signature.document(operand)?;
    let input = at.parse(&named.value("input"))?;
    let name = constant_field(&named.value("field"), at)?;
    Ok(Expression::special(SetField { name, input, value: Expression::constant(Value::Missing) }))
}
