//! Operators whose arguments have names.

use super::operands::At;
use super::operator::NamedFunction;
use super::tree::{Expression, Tree};
use crate::error::{Result, error, fail};
use crate::value::{Document, Value};
use std::sync::Arc;

/// Names of arguments, and the codes of errors in them.
pub(super) struct Signature {
    pub operator: &'static str,
    pub names: &'static [&'static str],
    /// How many of the names are required, with the code for each that is missing.
    pub required: &'static [i32],
    pub not_an_object: i32,
    pub unknown: i32,
}

impl Signature {
    /// The arguments in the order of the names.
    pub fn parse(&self, operand: &Value, at: &At<'_>) -> Result<Vec<Option<Expression>>> {
        let document = self.document(operand)?;
        let parse = |name: &&str| document.get(name).map(|value| at.parse(value)).transpose();
        self.names.iter().map(parse).collect()
    }

    /// The document of arguments, with the names checked.
    pub fn document(&self, operand: &Value) -> Result<Arc<Document>> {
        let Value::Document(document) = operand else {
            let (operator, kind) = (self.operator, operand.type_name());
            fail!(self.not_an_object, "{operator} only supports an object as its argument, not {kind}");
        };
        for (name, _) in document.iter() {
            if !self.names.contains(&&**name) {
                fail!(self.unknown, "Unrecognized argument to {}: {name}", self.operator);
            }
        }
        for (name, code) in self.names.iter().zip(self.required) {
            let missing = || error!(*code, "{} requires '{name}' to be specified", self.operator);
            document.get(name).ok_or_else(missing)?;
        }
        Ok(document.clone())
    }

    pub fn call(&self, operand: &Value, at: &At<'_>, function: NamedFunction) -> Result<Option<Expression>> {
        let arguments = self.parse(operand, at)?;
        Ok(Some(Expression::new(Tree::Named(function, arguments)).folded()))
    }
}

/// The value of an argument, missing where it was not given.
pub(super) fn value_of(argument: &Option<Value>) -> &Value {
    argument.as_ref().unwrap_or(&Value::Missing)
}

/// Whether an argument was given and turned out null or missing.
pub(super) fn is_given_null(argument: &Option<Value>) -> bool {
    argument.as_ref().is_some_and(Value::is_nullish)
}
