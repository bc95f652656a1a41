//! The parsed form of an expression and its evaluation.

use super::bound::{Room, check_value};
use super::env::Env;
use super::operator::NamedFunction;
use crate::error::{Result, error, fail};
use crate::value::{Document, Str, Value};
use shardlake_collation::Collation;
use std::sync::Arc;

/// A parsed expression.
#[derive(Clone)]
pub struct Expression(pub(super) Arc<Tree>);

pub(super) enum Tree {
    Constant(Value),
    /// The value of a variable, and the path into it.
    Path(usize, Vec<Str>),
    Now,
    ClusterTime,
    Object(Vec<(Str, Expression)>),
    Array(Vec<Expression>),
    Call(fn(&mut Env, &[Value]) -> Result<Value>, Vec<Expression>),
    /// An operator that compares strings.
    Compare(fn(&Collation, &[Value]) -> Result<Value>, Collation, Vec<Expression>),
    Named(NamedFunction, Vec<Option<Expression>>),
    /// Operators that evaluate only some of their operands.
    Special(Box<dyn Evaluate + Send + Sync>),
}

/// An operator that evaluates its arguments by itself.
pub(super) trait Evaluate {
    fn evaluate(&self, env: &mut Env) -> Result<Value>;

    /// Every expression that the operator may evaluate.
    fn operands(&self) -> Vec<&Expression>;

    /// Whether the operator may be evaluated when it is parsed, which no time limit ends: it has one value, and evaluates no operand
    /// more than once.
    fn is_foldable(&self) -> bool {
        true
    }
}

impl std::fmt::Debug for Expression {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &*self.0 {
            Tree::Constant(value) => write!(out, "{value}"),
            Tree::Path(slot, path) => write!(out, "${slot}.{}", path.join(".")),
            _ => out.write_str("expression"),
        }
    }
}

impl Expression {
    pub fn constant(value: Value) -> Expression {
        Expression(Arc::new(Tree::Constant(value)))
    }

    pub(super) fn special(operator: impl Evaluate + Send + Sync + 'static) -> Expression {
        Expression(Arc::new(Tree::Special(Box::new(operator)))).folded()
    }

    pub(super) fn new(tree: Tree) -> Expression {
        Expression(Arc::new(tree))
    }

    /// The value, where the expression is a constant.
    pub fn as_constant(&self) -> Option<&Value> {
        match &*self.0 {
            Tree::Constant(value) => Some(value),
            _ => None,
        }
    }

    /// Whether the expression may read the document. A variable that an operator binds counts by the expression of its value.
    pub(crate) fn reads_document(&self) -> bool {
        match &*self.0 {
            Tree::Path(slot, _) => matches!(*slot, super::env::ROOT | super::env::CURRENT),
            Tree::Object(members) => members.iter().any(|(_, member)| member.reads_document()),
            Tree::Array(items) | Tree::Call(_, items) | Tree::Compare(_, _, items) => {
                items.iter().any(Expression::reads_document)
            }
            Tree::Named(_, items) => items.iter().flatten().any(Expression::reads_document),
            Tree::Special(operator) => operator.operands().into_iter().any(Expression::reads_document),
            Tree::Constant(_) | Tree::Now | Tree::ClusterTime => false,
        }
    }

    pub fn evaluate(&self, env: &mut Env) -> Result<Value> {
        match &*self.0 {
            Tree::Constant(value) => Ok(value.clone()),
            Tree::Path(slot, path) => Ok(path_value(env.get(*slot), path)),
            Tree::Now => Ok(Value::Date(env.now())),
            Tree::ClusterTime => env
                .cluster_time()
                .map(|(seconds, increment)| Value::Timestamp(seconds, increment))
                .ok_or_else(|| error!(10071200, "Builtin variable '$$CLUSTER_TIME' is not available")),
            Tree::Object(members) => {
                let (mut document, mut room) = (Document::with_capacity(members.len()), Room::new());
                for (name, member) in members {
                    let value = member.evaluate(env)?;
                    room.take(&value)?;
                    document.push(name.clone(), value);
                }
                Ok(Value::document(document))
            }
            Tree::Array(items) => {
                let (mut values, mut room) = (Vec::with_capacity(items.len()), Room::new());
                for item in items {
                    let value = item.evaluate(env)?.or_null();
                    room.take(&value)?;
                    values.push(value);
                }
                Ok(Value::array(values))
            }
            Tree::Call(function, arguments) => {
                let values: Result<Vec<Value>> = arguments.iter().map(|item| item.evaluate(env)).collect();
                bounded(function(env, &values?)?)
            }
            Tree::Compare(function, collation, arguments) => {
                let values: Result<Vec<Value>> = arguments.iter().map(|item| item.evaluate(env)).collect();
                bounded(function(collation, &values?)?)
            }
            Tree::Named(function, arguments) => {
                let value =
                    |item: &Option<Expression>| item.as_ref().map(|item| item.evaluate(env)).transpose();
                let values: Result<Vec<Option<Value>>> = arguments.iter().map(value).collect();
                bounded(function(env, &values?)?)
            }
            Tree::Special(operator) => bounded(operator.evaluate(env)?),
        }
    }

    /// Evaluates with a document as root.
    pub fn evaluate_on(&self, env: &mut Env, root: &Value) -> Result<Value> {
        env.set_root(root.clone());
        self.evaluate(env)
    }

    /// Evaluates constant subexpressions at parse time. An error is reported only when a document is evaluated.
    pub(super) fn folded(self) -> Expression {
        let is_constant = |item: &Expression| item.as_constant().is_some();
        let fold = match &*self.0 {
            Tree::Object(members) => members.iter().all(|(_, member)| is_constant(member)),
            Tree::Array(items) | Tree::Call(_, items) | Tree::Compare(_, _, items) => {
                !items.is_empty() && items.iter().all(is_constant)
            }
            Tree::Named(_, items) => items.iter().flatten().all(is_constant),
            Tree::Special(operator) => {
                operator.is_foldable() && operator.operands().into_iter().all(is_constant)
            }
            Tree::Constant(_) | Tree::Path(..) | Tree::Now | Tree::ClusterTime => false,
        };
        if !fold {
            return self;
        }
        match self.evaluate(&mut Env::new(0, 0)) {
            Ok(value) => Expression::constant(value),
            Err(_) => self,
        }
    }
}

fn bounded(value: Value) -> Result<Value> {
    check_value(&value)?;
    Ok(value)
}

/// The value at a path: through an array it collects from each element that is a document.
pub(crate) fn path_value(value: &Value, path: &[Str]) -> Value {
    let Some((name, rest)) = path.split_first() else { return value.clone() };
    match value {
        Value::Document(document) => match document.get(name) {
            Some(member) => path_value(member, rest),
            None => Value::Missing,
        },
        Value::Array(items) => {
            let documents = items.iter().filter(|item| matches!(item, Value::Document(_)));
            let found = documents.map(|item| path_value(item, path)).filter(|found| !found.is_missing());
            Value::array(found.collect())
        }
        _ => Value::Missing,
    }
}

/// The only argument, for operators that take one.
pub(super) fn no_more_than_object(value: &Value, operator: &str, code: i32) -> Result<Arc<Document>> {
    match value {
        Value::Document(document) => Ok(document.clone()),
        other => fail!(code, "{operator} only supports an object as an argument, not {}", other.type_name()),
    }
}
