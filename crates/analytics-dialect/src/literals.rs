//! Literals, names of functions, and the types of their results.

use sqlparser::ast::{DateTimeField, Expr, Function, Interval, UnaryOperator, Value};

use crate::catalog::Kind;
use crate::types::string;

/// Functions whose result is a text.
const TEXTS: &[&str] = &[
    "btrim",
    "chr",
    "concat",
    "concat_ws",
    "initcap",
    "left",
    "lower",
    "lpad",
    "ltrim",
    "repeat",
    "replace",
    "reverse",
    "right",
    "rpad",
    "rtrim",
    "string_agg",
    "substr",
    "substring",
    "to_char",
    "trim",
    "upper",
];

pub(crate) fn name_of(function: &Function) -> Option<String> {
    match function.name.0.as_slice() {
        [part] => part
            .as_ident()
            .filter(|ident| ident.quote_style.is_none())
            .map(|ident| ident.value.to_ascii_uppercase()),
        _ => None,
    }
}

pub(crate) fn kind_of(function: &Function) -> Kind {
    match name_of(function).map(|name| name.to_ascii_lowercase()) {
        Some(name) if TEXTS.contains(&name.as_str()) => Kind::Text,
        Some(name) if ["character_length", "strpos", "count", "octet_length"].contains(&name.as_str()) => {
            Kind::Long
        }
        _ => Kind::Other,
    }
}

pub(crate) fn text_of(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => Some(text),
            _ => None,
        },
        _ => None,
    }
}

/// A whole number that is written out.
pub(crate) fn integer_of(expr: &Expr) -> Option<i64> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::Number(text, _) => text.parse().ok(),
            _ => None,
        },
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => integer_of(expr).and_then(i64::checked_neg),
        Expr::Nested(expr) => integer_of(expr),
        _ => None,
    }
}

pub(crate) fn interval(count: i64, unit: &str) -> Expr {
    Expr::Interval(Interval {
        value: Box::new(string(format!("{count} {unit}"))),
        leading_field: None::<DateTimeField>,
        leading_precision: None,
        last_field: None,
        fractional_seconds_precision: None,
    })
}
