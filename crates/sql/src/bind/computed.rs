//! Computed properties: named expressions over an item that queries use like stored properties (engine.md §7).

use std::convert::Infallible;

use shardlake_document::{ItemView, Value};

use crate::bound::{BoundQuery, Expression};
use crate::evaluate::evaluate;
use crate::evaluate::scope::Scope;
use crate::value::context::{EvaluationContext, FunctionContext};
use crate::value::meter::Meter;

/// The computed properties of a container, in the order of its definition.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ComputedProperties {
    pub(super) list: Vec<ComputedProperty>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct ComputedProperty {
    pub name: String,
    /// Over the item in slot 0.
    pub expression: Expression,
}

impl ComputedProperties {
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.list.iter().map(|property| property.name.as_str())
    }

    pub fn len(&self) -> usize {
        self.list.len()
    }

    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Over the item in slot 0.
    pub(crate) fn expression(&self, index: usize) -> Option<&Expression> {
        self.list.get(index).map(|property| &property.expression)
    }

    /// The property's value for an item; also undefined if the value grows too large or its evaluation takes
    /// too long.
    pub fn evaluate(&self, index: usize, item: &ItemView<'_>) -> Value {
        let Some(expression) = self.expression(index) else { return Value::Undefined };
        let functions = FunctionContext::default();
        let meter = Meter::default();
        let context = EvaluationContext::new(&functions, &|| false, &meter);
        meter.begin_item();
        let scope = Scope::of_item(&context, item);
        evaluate(expression, &scope).map_or(Value::Undefined, |datum| datum.into_value())
    }

    /// Replaces properties of items by the expressions. A whole item does not show them.
    pub(super) fn substitute(&self, query: &mut BoundQuery) {
        if self.is_empty() {
            return;
        }
        let done: Result<(), Infallible> = query.for_each_expression(&mut |expression| {
            self.substitute_in(expression);
            Ok(())
        });
        let Ok(()) = done;
    }

    fn substitute_in(&self, expression: &mut Expression) {
        if let Expression::Property { of, name } = expression
            && **of == Expression::Variable(0)
        {
            if let Some(property) = self.list.iter().find(|property| property.name == *name) {
                *expression = property.expression.clone();
            }
            return;
        }
        if let Expression::Subquery { query, .. } = expression {
            return self.substitute(query);
        }
        let done: Result<(), Infallible> = expression.for_each_child(|child| {
            self.substitute_in(child);
            Ok(())
        });
        let Ok(()) = done;
    }
}
