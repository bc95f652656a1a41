//! `$redact`: shows, prunes or descends into each level of a document.

use std::sync::Arc;

use super::options::Options;
use super::run::{Context, Operator, Stage};
use crate::error::{Result, fail};
use crate::expression::{Env, Expression, Scope, parse as parse_expression};
use crate::value::{Document, Value};

pub(super) struct Redact(Expression);

pub(super) fn parse_redact(options: &Options<'_>, scope: &Scope) -> Result<Redact> {
    Ok(Redact(parse_expression(options.argument(), &scope.with_levels())?))
}

impl Stage for Redact {
    fn start(self: Arc<Self>) -> Box<dyn Operator> {
        Box::new(RedactRun(self))
    }
}

struct RedactRun(Arc<Redact>);

impl Operator for RedactRun {
    fn push(&mut self, document: Value, context: &mut Context<'_>, out: &mut Vec<Value>) -> Result<bool> {
        context.env.set_root(document.clone());
        if let Some(shown) = redact(&self.0.0, &document, &mut context.env)? {
            out.push(shown);
        }
        Ok(true)
    }
}

fn redact(expression: &Expression, level: &Value, env: &mut Env) -> Result<Option<Value>> {
    env.set_current(level.clone());
    match expression.evaluate(env)?.as_str() {
        Some("keep") => Ok(Some(level.clone())),
        Some("prune") => Ok(None),
        Some("descend") => {
            let Value::Document(document) = level else { return Ok(Some(level.clone())) };
            let mut shown = Document::with_capacity(document.len());
            for (name, member) in document.iter() {
                if let Some(member) = inner(expression, member, env)? {
                    shown.push(name.clone(), member);
                }
            }
            Ok(Some(Value::document(shown)))
        }
        _ => fail!(
            17053,
            "$redact's expression should not return anything aside from the variables $$KEEP, $$DESCEND, and $$PRUNE"
        ),
    }
}

fn inner(expression: &Expression, value: &Value, env: &mut Env) -> Result<Option<Value>> {
    match value {
        Value::Document(_) => redact(expression, value, env),
        Value::Array(items) => {
            let mut shown = Vec::with_capacity(items.len());
            for item in items.iter() {
                shown.extend(inner(expression, item, env)?);
            }
            Ok(Some(Value::array(shown)))
        }
        other => Ok(Some(other.clone())),
    }
}
