//! Operators of updates: the change that each makes to one value.

use super::change::{Change, Changed};
use super::push::{ArrayChange, parse_array_change};
use super::target::{Target, value_at};
use crate::decimal::Decimal;
use crate::error::{BAD_VALUE, PATH_NOT_VIABLE, Result, TYPE_MISMATCH, fail};
use crate::expression::{Env, Scope, add_numbers};
use crate::order;
use crate::value::{Document, Value};
use shardlake_collation::Collation;

/// One operator with its operand.
#[derive(Debug)]
pub(super) enum Modifier {
    Set(Value),
    SetOnInsert(Value),
    Unset,
    Add(Value),
    Multiply(Value),
    Extreme {
        value: Value,
        greatest: bool,
        collation: Collation,
    },
    CurrentDate {
        timestamp: bool,
    },
    /// At the destination of `$rename`.
    Rename {
        from: Target,
        to: Target,
    },
    Bits(Vec<(BitOperation, Value)>),
    Array(ArrayChange),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum BitOperation {
    And,
    Or,
    Xor,
}

const NAMES: &[&str] = &[
    "$set",
    "$setOnInsert",
    "$unset",
    "$inc",
    "$mul",
    "$min",
    "$max",
    "$currentDate",
    "$rename",
    "$bit",
    "$push",
    "$addToSet",
    "$pull",
    "$pullAll",
    "$pop",
];

impl Modifier {
    pub fn is_known(name: &str) -> bool {
        NAMES.contains(&name)
    }

    pub fn parse(name: &str, target: &Target, value: &Value, scope: &Scope) -> Result<Modifier> {
        Ok(match name {
            "$set" => Modifier::Set(value.clone()),
            "$setOnInsert" => Modifier::SetOnInsert(value.clone()),
            "$unset" => Modifier::Unset,
            "$inc" | "$mul" => {
                if !value.is_number() {
                    let verb = if name == "$inc" { "increment" } else { "multiply" };
                    fail!(
                        TYPE_MISMATCH,
                        "Cannot {verb} with non-numeric argument: {{{}: {value}}}",
                        target.text
                    );
                }
                if name == "$inc" { Modifier::Add(value.clone()) } else { Modifier::Multiply(value.clone()) }
            }
            "$min" | "$max" => Modifier::Extreme {
                value: value.clone(),
                greatest: name == "$max",
                collation: scope.collation().clone(),
            },
            "$currentDate" => parse_current_date(value)?,
            "$bit" => Modifier::Bits(parse_bits(value)?),
            _ => Modifier::Array(parse_array_change(name, &target.text, value, scope)?),
        })
    }

    /// The change to the value at the end of the path. `path` names it in messages.
    pub fn change(&self, old: &Value, path: &str, of: Changed<'_>, env: &mut Env) -> Result<Change> {
        match self {
            Modifier::SetOnInsert(_) if !of.inserts => Ok(Change::None),
            Modifier::Unset => Ok(Change::Remove),
            Modifier::Rename { from, to } => renamed(from, to, of.document),
            Modifier::Array(change) => change.apply(old, path, env),
            _ => self.scalar(old, path, env),
        }
    }

    /// Whether the operator is `$pull`, `$pullAll` or `$pop`.
    pub fn takes_elements(&self) -> bool {
        matches!(self, Modifier::Array(change) if !change.creates())
    }

    fn scalar(&self, old: &Value, path: &str, env: &mut Env) -> Result<Change> {
        Ok(match self {
            Modifier::Set(value) | Modifier::SetOnInsert(value) => Change::Set(value.clone()),
            Modifier::Add(by) => computed(old, add(old, by, path)?),
            Modifier::Multiply(by) => computed(old, multiply(old, by, path)?),
            Modifier::Extreme { value, greatest, collation } => {
                let found = order::compare_by(collation, value, old);
                let better = old.is_missing() || if *greatest { found.is_gt() } else { found.is_lt() };
                if better { Change::Set(value.clone()) } else { Change::None }
            }
            Modifier::CurrentDate { timestamp: false } => Change::Set(Value::Date(env.now())),
            Modifier::CurrentDate { timestamp: true } => {
                let (seconds, increment) = env.next_timestamp();
                Change::Set(Value::Timestamp(seconds, increment))
            }
            Modifier::Bits(operations) => Change::Set(apply_bits(old, operations, path)?),
            _ => Change::None,
        })
    }
}

/// A computed number takes the place of another one of its type only where the two differ as numbers: `-0.0` stays
/// where `0.0` is added, and `1.0` where a decimal is multiplied by `1.00`.
fn computed(old: &Value, new: Value) -> Change {
    let is_same = old.type_number() == new.type_number() && order::equal(old, &new) && !new.is_nan();
    if is_same { Change::None } else { Change::Set(new) }
}

/// The change of the destination of `$rename`. The source is unset in its own place.
fn renamed(from: &Target, to: &Target, old: &Document) -> Result<Change> {
    let found = match value_at(old, &from.parts) {
        Ok(Some(found)) => found,
        Ok(None) => return Ok(Change::None),
        Err(Value::Array(_)) => {
            fail!(BAD_VALUE, "The source field cannot be an array element, '{}' is in an array", from.text)
        }
        Err(scalar) => fail!(PATH_NOT_VIABLE, "cannot use the path '{}' to traverse {scalar}", from.text),
    };
    if let Err(Value::Array(_)) = value_at(old, &to.parts) {
        fail!(BAD_VALUE, "The destination field cannot be an array element, '{}' is in an array", to.text);
    }
    if to.text == "_id" && old.has("_id") {
        fail!(66, "Performing an update on the path '_id' would modify the immutable field '_id'");
    }
    Ok(Change::Set(found.clone()))
}

fn numeric<'a>(old: &'a Value, path: &str, verb: &str) -> Result<&'a Value> {
    if old.is_number() {
        return Ok(old);
    }
    fail!(
        TYPE_MISMATCH,
        "Cannot apply {verb} to a value of non-numeric type. The field '{path}' has type {}",
        old.type_name()
    )
}

fn add(old: &Value, by: &Value, path: &str) -> Result<Value> {
    if old.is_missing() {
        return Ok(by.clone());
    }
    let old = numeric(old, path, "$inc")?;
    let sum = add_numbers(old, by);
    overflow(old, by, sum, path)
}

/// Integers that do not fit 64 bits are an error here.
fn overflow(old: &Value, by: &Value, result: Value, path: &str) -> Result<Value> {
    let integer = |value: &Value| matches!(value, Value::Int(_) | Value::Long(_));
    if integer(old) && integer(by) && !integer(&result) {
        fail!(
            BAD_VALUE,
            "Failed to apply the operation to current value of '{path}': the result does not fit int64"
        );
    }
    Ok(result)
}

fn multiply(old: &Value, by: &Value, path: &str) -> Result<Value> {
    let zero = Value::Int(0);
    let old = if old.is_missing() { &zero } else { numeric(old, path, "$mul")? };
    let product = match (old, by) {
        (Value::Decimal(_), _) | (_, Value::Decimal(_)) => {
            let (left, right) = (old.to_decimal(), by.to_decimal());
            Value::Decimal(left.unwrap_or(Decimal::NAN).multiply(right.unwrap_or(Decimal::NAN)))
        }
        (Value::Double(_), _) | (_, Value::Double(_)) => {
            Value::Double(old.to_f64().unwrap_or(0.0) * by.to_f64().unwrap_or(0.0))
        }
        _ => {
            let product =
                i128::from(old.to_i64_exact().unwrap_or(0)) * i128::from(by.to_i64_exact().unwrap_or(0));
            let narrow = matches!((old, by), (Value::Int(_), Value::Int(_)));
            match (i32::try_from(product), i64::try_from(product)) {
                (Ok(product), _) if narrow => Value::Int(product),
                (_, Ok(product)) => Value::Long(product),
                _ => Value::Null,
            }
        }
    };
    overflow(old, by, product, path)
}

fn parse_current_date(value: &Value) -> Result<Modifier> {
    match value {
        Value::Bool(_) => Ok(Modifier::CurrentDate { timestamp: false }),
        Value::Document(document) => {
            if let Some((name, _)) = document.iter().find(|(name, _)| ***name != *"$type") {
                fail!(BAD_VALUE, "Unrecognized $currentDate option: {name}");
            }
            match document.get("$type").and_then(Value::as_str) {
                Some("date") => Ok(Modifier::CurrentDate { timestamp: false }),
                Some("timestamp") => Ok(Modifier::CurrentDate { timestamp: true }),
                _ => fail!(
                    BAD_VALUE,
                    "The '$type' string field is required to be 'date' or 'timestamp': {{$currentDate: {{field : {{$type: 'date'}}}}}}"
                ),
            }
        }
        other => fail!(
            BAD_VALUE,
            "{} is not valid type for $currentDate. Please use a boolean ('true') or a $type expression ({{$type: 'timestamp/date'}}).",
            other.type_name()
        ),
    }
}

/// The destination of `$rename`.
pub(super) fn rename_destination(from: &Target, value: &Value) -> Result<Target> {
    let Value::String(to) = value else {
        fail!(BAD_VALUE, "The 'to' field for $rename must be a string: {}: {value}", from.text);
    };
    let to = Target::parse(to)?;
    if !from.is_plain() || !to.is_plain() {
        fail!(BAD_VALUE, "The source and destination fields for $rename may not be dynamic: {}", from.text);
    }
    if from.text == to.text {
        fail!(
            BAD_VALUE,
            "The source and target field for $rename must differ: {}: \"{}\"",
            from.text,
            to.text
        );
    }
    if from.conflicts(&to) {
        fail!(
            BAD_VALUE,
            "The source and target field for $rename must not be on the same path: {}: \"{}\"",
            from.text,
            to.text
        );
    }
    Ok(to)
}

fn parse_bits(value: &Value) -> Result<Vec<(BitOperation, Value)>> {
    let Value::Document(document) = value else {
        fail!(
            BAD_VALUE,
            "The $bit modifier is not compatible with a {}. You must pass in an embedded document: {{$bit: {{field: {{and/or/xor: #}}}}",
            value.type_name()
        );
    };
    if document.is_empty() {
        fail!(
            BAD_VALUE,
            "You must pass in at least one bitwise operation. The format is: {{$bit: {{field: {{and/or/xor: #}}}}"
        );
    }
    let operation = |(name, operand): (&crate::value::Str, &Value)| {
        let operation = match &**name {
            "and" => BitOperation::And,
            "or" => BitOperation::Or,
            "xor" => BitOperation::Xor,
            other => fail!(
                BAD_VALUE,
                "The $bit modifier only supports 'and', 'or', and 'xor', not '{other}' which is an unknown operator"
            ),
        };
        if !matches!(operand, Value::Int(_) | Value::Long(_)) {
            fail!(
                BAD_VALUE,
                "The $bit modifier field must be an Integer(32/64 bit); a '{}' is not supported here",
                operand.type_name()
            );
        }
        Ok((operation, operand.clone()))
    };
    document.iter().map(operation).collect()
}

fn apply_bits(old: &Value, operations: &[(BitOperation, Value)], path: &str) -> Result<Value> {
    let mut value = match old {
        Value::Missing => Value::Int(0),
        Value::Int(_) | Value::Long(_) => old.clone(),
        other => fail!(
            BAD_VALUE,
            "Cannot apply $bit to a value of non-integral type. The field '{path}' has type {}",
            other.type_name()
        ),
    };
    for (operation, operand) in operations {
        let (left, right) = (value.to_i64_exact().unwrap_or(0), operand.to_i64_exact().unwrap_or(0));
        let result = match operation {
            BitOperation::And => left & right,
            BitOperation::Or => left | right,
            BitOperation::Xor => left ^ right,
        };
        let narrow = matches!((&value, operand), (Value::Int(_), Value::Int(_)));
        value = if narrow { Value::Int(result as i32) } else { Value::Long(result) };
    }
    Ok(value)
}
