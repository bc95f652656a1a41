//! Gives names their meaning: identifiers become the row, parameters become their values.

use std::collections::HashMap;

use shardlake_document::Value;

use crate::error::{Location, SqlError};
use crate::expression::Expression;

/// Every identifier must be the alias, or one of the numeric constants. `text` is the query's, for the error's place.
pub(crate) fn resolve_identifiers(
    expression: &mut Expression,
    alias: &str,
    text: &str,
) -> Result<(), SqlError> {
    if let Expression::Identifier { name, start } = expression {
        *expression = match name.as_str() {
            name if name == alias => Expression::Variable(0),
            "NaN" => Expression::Literal(Value::Double(f64::NAN)),
            "Infinity" => Expression::Literal(Value::Double(f64::INFINITY)),
            _ => {
                let location = Location::in_text(text, *start, *start + name.len());
                return Err(SqlError::UnresolvedIdentifier { name: name.clone(), location });
            }
        };
        return Ok(());
    }
    expression.for_each_child(|child| resolve_identifiers(child, alias, text))
}

/// Replaces every parameter by its value; one without a value is an error. The last of two values for one name counts.
pub(crate) fn bind_parameters(
    expression: &mut Expression,
    parameters: &[(String, Value)],
) -> Result<(), SqlError> {
    let by_name = parameters.iter().map(|(name, value)| (name.as_str(), value)).collect();
    bind(expression, &by_name)
}

fn bind(expression: &mut Expression, by_name: &HashMap<&str, &Value>) -> Result<(), SqlError> {
    if let Expression::Parameter(name) = expression {
        let value = by_name.get(name.as_str());
        let value = value.ok_or_else(|| SqlError::MissingParameter { name: name.clone() })?;
        *expression = Expression::Literal((*value).clone());
        return Ok(());
    }
    expression.for_each_child(|child| bind(child, by_name))
}
