//! `$dateToString`, `$dateFromString`.

use super::arguments::{Signature, is_given_null, value_of};
use super::date_arguments::{millis_of, zone_of};
use super::env::Env;
use super::operands::At;
use super::tree::{Evaluate, Expression};
use crate::error::{CONVERSION_FAILURE, Result, fail};
use crate::time::{self, FormatError, Zone};
use crate::value::Value;

pub(super) fn parse(name: &str, operand: &Value, at: &At<'_>) -> Result<Option<Expression>> {
    match name {
        "$dateToString" => {
            let signature = Signature {
                operator: "$dateToString",
                names: &["date", "format", "timezone", "onNull"],
                required: &[18628],
                not_an_object: 18629,
                unknown: 18534,
            };
            if let Value::Document(document) = operand
                && let Some(Value::String(format)) = document.get("format")
                && !format.starts_with('$')
            {
                check(format)?;
            }
            signature.call(operand, at, |_, values| to_string(values))
        }
        "$dateFromString" => {
            let signature = Signature {
                operator: "$dateFromString",
                names: &["dateString", "format", "timezone", "onError", "onNull"],
                required: &[40542],
                not_an_object: 40540,
                unknown: 40541,
            };
            let arguments = signature.parse(operand, at)?;
            if let Some(Some(Value::String(format))) = arguments[1].as_ref().map(Expression::as_constant)
                && !time::check_format(format, "dGHjLmMSuVYzZbB%")
            {
                fail!(40685, "invalid format for $dateFromString: {format}");
            }
            Ok(Some(Expression::special(FromString { arguments })))
        }
        _ => Ok(None),
    }
}

fn check(format: &str) -> Result<()> {
    if time::check_format(format, "dGHjLmMSwuUVYzZbB%") {
        return Ok(());
    }
    fail!(18536, "Invalid format character in the format string: {format}")
}

fn to_string(values: &[Option<Value>]) -> Result<Value> {
    let date = value_of(&values[0]);
    let format = match &values[1] {
        None => None,
        Some(value) if value.is_nullish() => return Ok(Value::Null),
        Some(Value::String(format)) => Some(format.clone()),
        Some(other) => {
            fail!(18533, "$dateToString requires that 'format' be a string, found: {}", other.type_name())
        }
    };
    if date.is_nullish() {
        return Ok(values[3].clone().unwrap_or(Value::Null));
    }
    let Some(zone) = zone_of(&values[2])? else { return Ok(Value::Null) };
    let Some(millis) = millis_of(date) else {
        fail!(16006, "can't convert from BSON type {} to Date", date.type_name());
    };
    let usual = if values[2].is_some() && !matches!(zone, Zone::Fixed(0)) {
        "%Y-%m-%dT%H:%M:%S.%L"
    } else {
        "%Y-%m-%dT%H:%M:%S.%LZ"
    };
    match time::format_date(millis, format.as_deref().unwrap_or(usual), &zone) {
        Ok(text) => Ok(Value::string(text)),
        Err(FormatError::Format) => fail!(18536, "Invalid format in $dateToString"),
        Err(FormatError::Year) => {
            fail!(
                18537,
                "Could not convert date to string: date component was outside the supported range of 0-9999"
            )
        }
    }
}

/// `onError` and `onNull` are evaluated only when they are needed.
struct FromString {
    arguments: Vec<Option<Expression>>,
}

impl FromString {
    fn value(&self, at: usize, env: &mut Env) -> Result<Option<Value>> {
        self.arguments[at].as_ref().map(|argument| argument.evaluate(env)).transpose()
    }
}

impl Evaluate for FromString {
    fn evaluate(&self, env: &mut Env) -> Result<Value> {
        let text = self.value(0, env)?.unwrap_or_default();
        let format = self.value(1, env)?;
        let zone_argument = self.value(2, env)?;
        if text.is_nullish() {
            return Ok(self.value(4, env)?.unwrap_or(Value::Null));
        }
        if is_given_null(&format) {
            return Ok(Value::Null);
        }
        match parse_date(&text, &format, &zone_argument) {
            Err(error) if error.code() == CONVERSION_FAILURE => match self.value(3, env)? {
                Some(value) => Ok(value),
                None => Err(error),
            },
            result => result,
        }
    }

    fn operands(&self) -> Vec<&Expression> {
        self.arguments.iter().flatten().collect()
    }
}

fn parse_date(text: &Value, format: &Option<Value>, zone: &Option<Value>) -> Result<Value> {
    let format = match format {
        None => None,
        Some(Value::String(format)) => {
            if !time::check_format(format, "dGHjLmMSuVYzZbB%") {
                fail!(18536, "invalid format for $dateFromString: {format}");
            }
            Some(format)
        }
        Some(other) => {
            fail!(40684, "$dateFromString requires that 'format' be a string, found: {}", other.type_name())
        }
    };
    let Some(parsed_zone) = zone_of(zone)? else { return Ok(Value::Null) };
    let Value::String(text) = text else {
        fail!(
            CONVERSION_FAILURE,
            "$dateFromString requires that 'dateString' be a string, found: {}",
            text.type_name()
        );
    };
    let zone = zone.is_some().then_some(&parsed_zone);
    let parsed = match format {
        Some(format) => time::parse_by_format(text, format, zone),
        None => time::parse_text(text, zone),
    };
    match parsed {
        Ok(millis) => Ok(Value::Date(millis)),
        Err(words) => fail!(CONVERSION_FAILURE, "Error parsing date string '{text}'; {words}"),
    }
}
