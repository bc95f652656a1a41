//! The operands of an operator while it is parsed.

use super::scope::Scope;
use super::tree::Expression;
use crate::error::Result;
use crate::value::Value;

/// The place of an operator: its variables, its nesting depth, and the parser of expressions, which knows all operators.
pub(super) struct At<'a> {
    pub scope: &'a Scope,
    pub depth: usize,
    pub parser: fn(&Value, &Scope, usize) -> Result<Expression>,
}

impl At<'_> {
    pub fn parse(&self, value: &Value) -> Result<Expression> {
        self.parse_in(value, self.scope)
    }

    pub fn parse_in(&self, value: &Value, scope: &Scope) -> Result<Expression> {
        (self.parser)(value, scope, self.depth)
    }
}

/// The arguments of an operator that takes them by place: an array of them, or the only one.
pub(super) fn list_of(operand: &Value) -> &[Value] {
    match operand {
        Value::Array(items) => items,
        other => std::slice::from_ref(other),
    }
}
