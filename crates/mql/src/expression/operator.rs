//! Operators that evaluate all their arguments: their functions, and how many arguments they take.

use super::env::Env;
use crate::error::Result;
use crate::value::Value;
use shardlake_collation::Collation;

/// An operator of evaluated arguments.
#[derive(Clone, Copy)]
pub(super) enum Function {
    Plain(fn(&mut Env, &[Value]) -> Result<Value>),
    /// A function that compares strings.
    Comparing(fn(&Collation, &[Value]) -> Result<Value>),
}

/// An operator whose arguments have names; a missing argument is `None`.
pub(super) type NamedFunction = fn(&mut Env, &[Option<Value>]) -> Result<Value>;

/// An operator with arguments by place: how many it takes at least and at most.
pub(super) struct Operator {
    pub least: usize,
    pub most: usize,
    pub function: Function,
}

pub(super) const MANY: usize = usize::MAX;

pub(super) const fn exactly(
    count: usize,
    function: fn(&mut Env, &[Value]) -> Result<Value>,
) -> Option<Operator> {
    between(count, count, function)
}

pub(super) const fn between(
    least: usize,
    most: usize,
    function: fn(&mut Env, &[Value]) -> Result<Value>,
) -> Option<Operator> {
    Some(Operator { least, most, function: Function::Plain(function) })
}

/// An operator that compares strings.
pub(super) const fn comparing(
    least: usize,
    most: usize,
    function: fn(&Collation, &[Value]) -> Result<Value>,
) -> Option<Operator> {
    Some(Operator { least, most, function: Function::Comparing(function) })
}
