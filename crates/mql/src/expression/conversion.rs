//! `$convert` and its short forms.

use super::arguments::{Signature, value_of};
use super::convert_binary::{self, BinaryOptions, unsupported};
use super::dates::iso_text;
use super::env::Env;
use super::operands::{At, list_of};
use super::strings::number_text;
use super::tree::{Evaluate, Expression, Tree};
use crate::decimal::{Decimal, Rounding};
use crate::error::{CONVERSION_FAILURE, Result, error, fail};
use crate::time;
use crate::value::{Value, int_or_long};

/// A type that values are converted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Double,
    String,
    Object,
    Array,
    Binary,
    ObjectId,
    Bool,
    Date,
    Int,
    Long,
    Decimal,
    Other(&'static str),
}

pub(super) fn parse(name: &str, operand: &Value, at: &At<'_>) -> Result<Option<Expression>> {
    let function: fn(&mut Env, &[Value]) -> Result<Value> = match name {
        "$convert" => return parse_convert(operand, at).map(Some),
        "$toString" => |_, values| plain(&values[0], Target::String),
        "$toInt" => |_, values| plain(&values[0], Target::Int),
        "$toLong" => |_, values| plain(&values[0], Target::Long),
        "$toDouble" => |_, values| plain(&values[0], Target::Double),
        "$toDecimal" => |_, values| plain(&values[0], Target::Decimal),
        "$toBool" => |_, values| plain(&values[0], Target::Bool),
        "$toDate" => |_, values| plain(&values[0], Target::Date),
        "$toObjectId" => |_, values| plain(&values[0], Target::ObjectId),
        "$toArray" => |_, values| plain(&values[0], Target::Array),
        "$toObject" => |_, values| plain(&values[0], Target::Object),
        "$toUUID" => |_, values| convert_binary::to_uuid(&values[0]),
        _ => return Ok(None),
    };
    let [argument] = list_of(operand) else {
        fail!(50723, "{name} requires a single argument, got {}", list_of(operand).len());
    };
    let call = Expression::new(Tree::Call(function, vec![at.parse(argument)?]));
    Ok(Some(call.folded()))
}

fn plain(value: &Value, target: Target) -> Result<Value> {
    if value.is_nullish() {
        return Ok(Value::Null);
    }
    let automatic = BinaryOptions { format: Some("auto".into()), ..BinaryOptions::default() };
    convert(value, target, &automatic)
}

struct Convert {
    input: Expression,
    to: Expression,
    subtype: Option<Expression>,
    format: Option<Expression>,
    byte_order: Option<Expression>,
    on_error: Option<Expression>,
    on_null: Option<Expression>,
}

fn parse_convert(operand: &Value, at: &At<'_>) -> Result<Expression> {
    let signature = Signature {
        operator: "$convert",
        names: &["input", "to", "format", "byteOrder", "onError", "onNull", "base"],
        required: &[9, 9],
        not_an_object: 9,
        unknown: 9,
    };
    let named = signature.document(operand)?;
    let optional = |name: &str| named.get(name).map(|value| at.parse(value)).transpose();
    let (to, subtype) = match named.get("to") {
        Some(Value::Document(to)) if to.has("type") => {
            if let Some((other, _)) = to.iter().find(|(name, _)| !matches!(&***name, "type" | "subtype")) {
                fail!(9, "$convert found an unknown argument in 'to': {other}");
            }
            let subtype = to.get("subtype").map(|value| at.parse(value)).transpose()?;
            (at.parse(&to.value("type"))?, subtype)
        }
        to => (at.parse(value_of(&to.cloned()))?, None),
    };
    Ok(Expression::special(Convert {
        input: at.parse(&named.value("input"))?,
        to,
        subtype,
        format: optional("format")?,
        byte_order: optional("byteOrder")?,
        on_error: optional("onError")?,
        on_null: optional("onNull")?,
    }))
}

impl Convert {
    /// The options that this pair of types needs; others are not looked at.
    fn options(&self, env: &mut Env, (input, target): (&Value, Target)) -> Result<BinaryOptions> {
        let from_binary = matches!(input, Value::Binary(..));
        let has_format = match target {
            Target::String => from_binary,
            Target::Binary => matches!(input, Value::String(_)),
            _ => false,
        };
        let has_order = match target {
            Target::Int | Target::Long | Target::Double => from_binary,
            Target::Binary => input.is_number(),
            _ => false,
        };
        let mut options = BinaryOptions::default();
        if let Some(subtype) = &self.subtype {
            let subtype = subtype.evaluate(env)?;
            if target == Target::Binary && !subtype.is_nullish() {
                options.subtype = convert_binary::subtype(&subtype)?;
            }
        }
        if let Some(format) = self.format.as_ref().filter(|_| has_format) {
            options.format = convert_binary::format(&format.evaluate(env)?)?;
        }
        if let Some(order) = self.byte_order.as_ref().filter(|_| has_order) {
            options.big_endian = convert_binary::is_big_endian(&order.evaluate(env)?)?;
        }
        Ok(options)
    }
}

impl Evaluate for Convert {
    fn evaluate(&self, env: &mut Env) -> Result<Value> {
        let to = self.to.evaluate(env)?;
        let input = self.input.evaluate(env)?;
        let on_null = self.on_null.as_ref().map(|value| value.evaluate(env)).transpose()?;
        let on_error = self.on_error.as_ref().map(|value| value.evaluate(env)).transpose()?;
        let target = if to.is_nullish() { None } else { Some(target(&to)?) };
        if input.is_nullish() {
            return Ok(on_null.unwrap_or(Value::Null));
        }
        let Some(target) = target else { return Ok(Value::Null) };
        let options = self.options(env, (&input, target))?;
        match convert(&input, target, &options) {
            Err(error) => match on_error {
                Some(value) if error.code() == CONVERSION_FAILURE => Ok(value),
                _ => Err(error),
            },
            converted => converted,
        }
    }

    fn operands(&self) -> Vec<&Expression> {
        let optional = [&self.subtype, &self.format, &self.byte_order, &self.on_error, &self.on_null];
        [&self.input, &self.to].into_iter().chain(optional.into_iter().flatten()).collect()
    }
}

fn target(to: &Value) -> Result<Target> {
    let name = match to {
        Value::String(name) => crate::value_type::by_name(name),
        value if value.is_number() => {
            let Some(number) = value.to_i32_exact() else {
                fail!(9, "In $convert, numeric 'to' argument is not an integer");
            };
            crate::value_type::by_number(number)
        }
        other => {
            fail!(9, "$convert's 'to' argument must be a string or number, but is {}", other.type_name())
        }
    };
    let Some(name) = name else { fail!(2, "Unknown type name or number: {to}") };
    Ok(match name {
        "double" => Target::Double,
        "string" => Target::String,
        "object" => Target::Object,
        "array" => Target::Array,
        "binData" => Target::Binary,
        "objectId" => Target::ObjectId,
        "bool" => Target::Bool,
        "date" => Target::Date,
        "int" => Target::Int,
        "long" => Target::Long,
        "decimal" => Target::Decimal,
        other => Target::Other(other),
    })
}

fn convert(value: &Value, target: Target, options: &BinaryOptions) -> Result<Value> {
    match target {
        Target::Bool => to_bool(value),
        Target::String => to_text(value, options),
        Target::Double => to_double(value, options),
        Target::Decimal => to_decimal(value),
        Target::Int => match to_integer(value, options, "int")? {
            number if i32::try_from(number).is_ok() => Ok(int_or_long(number)),
            number => {
                fail!(CONVERSION_FAILURE, "Conversion would overflow target type in $convert: {number}")
            }
        },
        Target::Long => to_integer(value, options, "long").map(Value::Long),
        Target::Date => to_date(value),
        Target::ObjectId => to_object_id(value),
        Target::Binary => convert_binary::to_binary(value, options),
        Target::Array if matches!(value, Value::Array(_)) => Ok(value.clone()),
        Target::Object if matches!(value, Value::Document(_)) => Ok(value.clone()),
        Target::Array => unsupported(value, "array"),
        Target::Object => unsupported(value, "object"),
        Target::Other(name) => unsupported(value, name),
    }
}

fn to_bool(value: &Value) -> Result<Value> {
    Ok(Value::Bool(match value {
        value if value.is_number() => value.is_true(),
        Value::Bool(value) => *value,
        _ => true,
    }))
}

fn to_text(value: &Value, options: &BinaryOptions) -> Result<Value> {
    Ok(match value {
        Value::String(_) => value.clone(),
        Value::Bool(value) => Value::string(value.to_string()),
        Value::Int(value) => Value::string(value.to_string()),
        Value::Long(value) => Value::string(value.to_string()),
        Value::Double(value) => Value::string(number_text(*value)),
        Value::Decimal(value) => Value::string(value.to_string()),
        Value::ObjectId(id) => Value::string(convert_binary::hex(id)),
        Value::Date(millis) => Value::string(iso_text(*millis)?),
        Value::Binary(subtype, bytes) => {
            convert_binary::to_text(*subtype, &Value::binary_bytes(*subtype, bytes), options)?
        }
        other => return unsupported(other, "string"),
    })
}

fn failed<T>(text: &str, why: &str) -> Result<T> {
    fail!(CONVERSION_FAILURE, "Failed to parse number '{text}' in $convert with no onError value: {why}")
}

fn to_double(value: &Value, options: &BinaryOptions) -> Result<Value> {
    Ok(Value::Double(match value {
        Value::Bool(value) => f64::from(u8::from(*value)),
        Value::Date(millis) => *millis as f64,
        Value::Decimal(value) => {
            let double = value.to_f64();
            if double.is_infinite() && !value.is_infinite() {
                fail!(CONVERSION_FAILURE, "Conversion would overflow target type in $convert: {value}");
            }
            double
        }
        Value::String(text) => parse_double(text)?,
        Value::Binary(subtype, bytes) => {
            convert_binary::to_double(&Value::binary_bytes(*subtype, bytes), options)?
        }
        value => match value.to_f64() {
            Some(value) => value,
            None => return unsupported(value, "double"),
        },
    }))
}

/// A number as C writes it in hexadecimal: digits, perhaps with a point, and an exponent of two behind a `p`. Digits without an
/// exponent are no number here.
fn parse_hexadecimal(text: &str) -> Option<f64> {
    let body = text.strip_prefix(['-', '+']).unwrap_or(text);
    let body = body.strip_prefix("0x").or_else(|| body.strip_prefix("0X"))?;
    let (digits, exponent) = body.split_once(['p', 'P'])?;
    let exponent = exponent.parse::<i32>().ok()?;
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let count = whole.len() + part.len();
    // More digits than a double keeps would have to be rounded by hand.
    if count == 0 || count > 13 || !whole.bytes().chain(part.bytes()).all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let mantissa = u64::from_str_radix(&format!("{whole}{part}"), 16).ok()?;
    let power = exponent.saturating_sub(4 * i32::try_from(part.len()).ok()?);
    let value = mantissa as f64 * 2f64.powi(power);
    Some(if text.starts_with('-') { -value } else { value })
}

fn parse_double(text: &str) -> Result<f64> {
    if let Some(value) = parse_hexadecimal(text) {
        return Ok(value);
    }
    let body = text.strip_prefix(['-', '+']).unwrap_or(text);
    let spelled = matches!(body.to_ascii_lowercase().as_str(), "inf" | "infinity" | "nan");
    let numeric = body.bytes().all(|byte| byte.is_ascii_digit() || b".eE+-".contains(&byte));
    if !spelled && !numeric {
        return failed(text, "Did not consume whole string.");
    }
    match text.parse::<f64>() {
        Ok(value) if value.is_infinite() && !spelled => failed(text, "Out of range"),
        Ok(0.0) if has_digit_above_zero(body) => failed(text, "Out of range"),
        Ok(value) => Ok(value),
        Err(_) => failed(text, "Did not consume any digits"),
    }
}

/// Whether a number that reads as zero is none: it is too small.
fn has_digit_above_zero(body: &str) -> bool {
    let mantissa = body.split(['e', 'E']).next().unwrap_or_default();
    mantissa.bytes().any(|byte| matches!(byte, b'1'..=b'9'))
}

fn hexadecimal_decimal(text: &str) -> Option<Decimal> {
    Value::Double(parse_hexadecimal(text)?).to_decimal()
}

fn to_decimal(value: &Value) -> Result<Value> {
    Ok(Value::Decimal(match value {
        Value::Bool(value) => Decimal::from_i64(i64::from(*value)),
        Value::Date(millis) => Decimal::from_i64(*millis),
        Value::String(text) => match Decimal::parse_finite(text).or_else(|| hexadecimal_decimal(text)) {
            Some(value) => value,
            None => return failed(text, "Failed to parse string to decimal"),
        },
        value => match value.to_decimal() {
            Some(value) => value,
            None => return unsupported(value, "decimal"),
        },
    }))
}

fn to_integer(value: &Value, options: &BinaryOptions, target: &str) -> Result<i64> {
    let overflow =
        || error!(CONVERSION_FAILURE, "Conversion would overflow target type in $convert: {value}");
    Ok(match value {
        Value::Bool(value) => i64::from(*value),
        Value::Int(value) => i64::from(*value),
        Value::Long(value) => *value,
        Value::Date(millis) if target == "long" => *millis,
        Value::Double(value) => crate::value::double_to_i64(value.trunc()).ok_or_else(overflow)?,
        Value::Decimal(value) => {
            let whole = value.to_whole(Rounding::Down).to_integer();
            whole.and_then(|whole| i64::try_from(whole).ok()).ok_or_else(overflow)?
        }
        Value::String(text) => parse_integer(text)?,
        Value::Binary(subtype, bytes) => {
            convert_binary::to_integer(&Value::binary_bytes(*subtype, bytes), options, target)?
        }
        other => return unsupported(other, target),
    })
}

fn parse_integer(text: &str) -> Result<i64> {
    let body = text.strip_prefix(['-', '+']).unwrap_or(text);
    if body.is_empty() || !body.bytes().all(|byte| byte.is_ascii_digit()) {
        return failed(text, "Did not consume whole string.");
    }
    text.parse().or_else(|_| failed(text, "Overflow"))
}

fn to_date(value: &Value) -> Result<Value> {
    Ok(Value::Date(match value {
        Value::Date(millis) => *millis,
        Value::Long(millis) => *millis,
        Value::Double(_) | Value::Decimal(_) => to_integer(value, &BinaryOptions::default(), "date")?,
        Value::Timestamp(seconds, _) => i64::from(*seconds) * 1000,
        Value::ObjectId([a, b, c, d, ..]) => i64::from(i32::from_be_bytes([*a, *b, *c, *d])) * 1000,
        Value::String(text) => match time::parse_text(text, None) {
            Ok(millis) => millis,
            Err(words) => fail!(CONVERSION_FAILURE, "Error parsing date string '{text}'; {words}"),
        },
        other => return unsupported(other, "date"),
    }))
}

fn to_object_id(value: &Value) -> Result<Value> {
    match value {
        Value::ObjectId(_) => Ok(value.clone()),
        Value::String(text) => match convert_binary::parse_hex(text).map(<[u8; 12]>::try_from) {
            Some(Ok(id)) => Ok(Value::ObjectId(id)),
            _ => fail!(
                CONVERSION_FAILURE,
                "Failed to parse objectId '{text}' in $convert with no onError value"
            ),
        },
        other => unsupported(other, "objectId"),
    }
}
