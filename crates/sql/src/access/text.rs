//! A condition as index metrics quote it: the item is `ROOT`, every operator has its parentheses.

use shardlake_document::Value;
use shardlake_model::IndexPathSegment;

use super::path::Paths;
use crate::bound::Expression;
use crate::syntax::ast::{BinaryOperator, UnaryOperator};

const TEXT_SIZE_BYTES_MAX: usize = 512;

/// Empty when the condition is long, or has parts that are never quoted.
pub(super) fn filter_text(condition: &Expression, paths: &Paths) -> String {
    let mut text = String::new();
    match write(condition, paths, &mut text) {
        Some(()) => text,
        None => String::new(),
    }
}

/// A part of a text under construction.
enum Part<'e> {
    Text(&'e str),
    Of(&'e Expression),
}

fn write(expression: &Expression, paths: &Paths, out: &mut String) -> Option<()> {
    if let Some(path) = paths.path(expression) {
        write_path(&path, out);
    } else if let Expression::Literal(value) = expression {
        match value {
            Value::Undefined => out.push_str("undefined"),
            value => out.push_str(&value.to_json().ok()?),
        }
    } else {
        write_operation(expression, paths, out)?;
    }
    (out.len() <= TEXT_SIZE_BYTES_MAX).then_some(())
}

fn write_operation(expression: &Expression, paths: &Paths, out: &mut String) -> Option<()> {
    use Part::{Of, Text};
    let name;
    let parts = match expression {
        Expression::Unary { operator: UnaryOperator::Not, operand } => {
            vec![Text("(NOT "), Of(operand), Text(")")]
        }
        Expression::Binary { operator, left, right } => {
            vec![Text("("), Of(left), Text(comparison(*operator)?), Of(right), Text(")")]
        }
        Expression::In { value, list, .. } => {
            let mut parts = vec![Text("("), Of(value), Text(" IN (")];
            push_list(list, &mut parts);
            parts.push(Text("))"));
            parts
        }
        Expression::Between { value, low, high } => {
            vec![Text("("), Of(value), Text(" BETWEEN "), Of(low), Text(" AND "), Of(high), Text(")")]
        }
        Expression::Like { value, pattern, .. } => {
            vec![Text("("), Of(value), Text(" LIKE "), Of(pattern), Text(")")]
        }
        Expression::Call { function, arguments, .. } => {
            name = format!("{}(", function.name());
            let mut parts = vec![Text(&name)];
            push_list(arguments, &mut parts);
            parts.push(Text(")"));
            parts
        }
        _ => return None,
    };
    parts.into_iter().try_for_each(|part| match part {
        Text(text) => {
            out.push_str(text);
            Some(())
        }
        Of(expression) => write(expression, paths, out),
    })
}

fn push_list<'e>(list: &'e [Expression], parts: &mut Vec<Part<'e>>) {
    for (place, element) in list.iter().enumerate() {
        parts.push(Part::Text(if place == 0 { "" } else { ", " }));
        parts.push(Part::Of(element));
    }
}

fn write_path(path: &[IndexPathSegment], out: &mut String) {
    out.push_str("ROOT");
    for segment in path {
        match segment {
            IndexPathSegment::Name(name) => {
                out.push('.');
                out.push_str(name);
            }
            IndexPathSegment::AnyElement => out.push_str("[]"),
            IndexPathSegment::Element(position) => out.push_str(&format!("[{position}]")),
        }
    }
}

fn comparison(operator: BinaryOperator) -> Option<&'static str> {
    Some(match operator {
        BinaryOperator::Equal => " = ",
        BinaryOperator::NotEqual => " != ",
        BinaryOperator::Less => " < ",
        BinaryOperator::LessOrEqual => " <= ",
        BinaryOperator::Greater => " > ",
        BinaryOperator::GreaterOrEqual => " >= ",
        _ => return None,
    })
}
