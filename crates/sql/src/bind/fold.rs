//! Constant folding: an expression with only constants becomes its value; others lose the parts that
//! constants decide.

use shardlake_document::Value;

use super::binder::Binder;
use crate::bound::Expression;
use crate::evaluate::evaluate;
use crate::evaluate::scope::Scope;
use crate::value::context::EvaluationContext;

/// Limit on the steps of all constants of a query together: some tens of milliseconds.
const FOLDING_STEPS_MAX: u64 = 2_000_000;

impl Binder<'_> {
    /// One level; the parts are folded already.
    pub(super) fn fold(&self, expression: Expression) -> Expression {
        if !self.folds {
            return expression;
        }
        if is_constant(&expression) {
            let is_enough = || self.meter.steps() > FOLDING_STEPS_MAX;
            let context = EvaluationContext::new(self.functions, &is_enough, self.meter);
            // An expression that fails here, because it grows too large or takes too long, is left to fail
            // when a row needs it.
            let value = evaluate(&expression, &Scope::new(&context)).map(|datum| datum.into_value());
            return value.map_or(expression, Expression::Literal);
        }
        match expression {
            Expression::And(parts) => logical(parts, false),
            Expression::Or(parts) => logical(parts, true),
            Expression::Conditional { condition, then, otherwise } => match *condition {
                Expression::Literal(Value::Bool(true)) => *then,
                Expression::Literal(_) => *otherwise,
                _ => Expression::Conditional { condition, then, otherwise },
            },
            Expression::Coalesce(parts) => coalesce(parts),
            other => other,
        }
    }
}

/// True when it has parts, all of them are literals, and the value is always the same.
fn is_constant(expression: &Expression) -> bool {
    match expression {
        Expression::Literal(_)
        | Expression::Variable(_)
        | Expression::GroupKey(_)
        | Expression::Aggregate(_)
        | Expression::Subquery { .. }
        | Expression::Let { .. }
        | Expression::UserDefined { .. }
        | Expression::DocumentId(_) => false,
        Expression::Call { function, .. } if !function.is_pure() => false,
        other => other.children().iter().all(|child| matches!(child, Expression::Literal(_))),
    }
}

/// A dominant constant decides alone; the other parts do not matter.
fn logical(parts: Vec<Expression>, dominant: bool) -> Expression {
    let decides =
        |part: &Expression| matches!(part, Expression::Literal(Value::Bool(value)) if *value == dominant);
    if parts.iter().any(decides) {
        return Expression::Literal(Value::Bool(dominant));
    }
    if dominant { Expression::Or(parts) } else { Expression::And(parts) }
}

/// Parts after the first defined constant do not matter, nor do undefined constants.
fn coalesce(mut parts: Vec<Expression>) -> Expression {
    parts.retain(|part| !matches!(part, Expression::Literal(Value::Undefined)));
    if let Some(place) = parts.iter().position(|part| matches!(part, Expression::Literal(_))) {
        parts.truncate(place + 1);
    }
    if parts.len() == 1 { parts.remove(0) } else { Expression::Coalesce(parts) }
}
