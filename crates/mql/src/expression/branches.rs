//! `$and`, `$or`, `$cond`, `$ifNull`, `$switch`, `$let`: operators that evaluate only the operands that they need.

use super::env::Env;
use super::operands::{At, list_of};
use super::scope::check_variable_name;
use super::tree::{Evaluate, Expression, no_more_than_object};
use crate::error::{Result, error, fail};
use crate::value::Value;

pub(super) fn parse(name: &str, operand: &Value, at: &At<'_>) -> Result<Option<Expression>> {
    let parsed = match name {
        "$and" => Expression::special(Joined { all: true, parts: parse_list(operand, at)? }),
        "$or" => Expression::special(Joined { all: false, parts: parse_list(operand, at)? }),
        "$ifNull" => {
            let parts = parse_list(operand, at)?;
            if parts.len() < 2 {
                fail!(1257300, "$ifNull needs at least two arguments, had: {}", parts.len());
            }
            Expression::special(FirstValue { parts })
        }
        "$cond" => parse_cond(operand, at)?,
        "$switch" => parse_switch(operand, at)?,
        "$let" => parse_let(operand, at)?,
        "$rand" => parse_rand(operand)?,
        _ => return Ok(None),
    };
    Ok(Some(parsed))
}

/// A number from 0 up to 1, another one for each document.
struct Random;

impl Evaluate for Random {
    fn evaluate(&self, env: &mut Env) -> Result<Value> {
        Ok(Value::Double(env.random()))
    }

    fn is_foldable(&self) -> bool {
        false
    }

    fn operands(&self) -> Vec<&Expression> {
        Vec::new()
    }
}

fn parse_rand(operand: &Value) -> Result<Expression> {
    match operand {
        Value::Document(document) if document.is_empty() => Ok(Expression::special(Random)),
        Value::Array(items) if items.is_empty() => Ok(Expression::special(Random)),
        Value::Document(_) | Value::Array(_) => fail!(3040501, "$rand does not currently accept arguments"),
        _ => fail!(10065, "invalid parameter: expected an object ($rand)"),
    }
}

fn parse_list(operand: &Value, at: &At<'_>) -> Result<Vec<Expression>> {
    list_of(operand).iter().map(|part| at.parse(part)).collect()
}

struct Joined {
    all: bool,
    parts: Vec<Expression>,
}

impl Evaluate for Joined {
    fn evaluate(&self, env: &mut Env) -> Result<Value> {
        for part in &self.parts {
            if part.evaluate(env)?.is_true() != self.all {
                return Ok(Value::Bool(!self.all));
            }
        }
        Ok(Value::Bool(self.all))
    }

    fn operands(&self) -> Vec<&Expression> {
        self.parts.iter().collect()
    }
}

struct FirstValue {
    parts: Vec<Expression>,
}

impl Evaluate for FirstValue {
    fn evaluate(&self, env: &mut Env) -> Result<Value> {
        let (last, others) = self.parts.split_last().ok_or_else(|| error!(1257300, "$ifNull is empty"))?;
        for part in others {
            let value = part.evaluate(env)?;
            if !value.is_nullish() {
                return Ok(value);
            }
        }
        last.evaluate(env)
    }

    fn operands(&self) -> Vec<&Expression> {
        self.parts.iter().collect()
    }
}

struct Choice {
    branches: Vec<(Expression, Expression)>,
    default: Option<Expression>,
}

impl Evaluate for Choice {
    fn evaluate(&self, env: &mut Env) -> Result<Value> {
        for (condition, then) in &self.branches {
            if condition.evaluate(env)?.is_true() {
                return then.evaluate(env);
            }
        }
        match &self.default {
            Some(default) => default.evaluate(env),
            None => fail!(
                40066,
                "$switch could not find a matching branch for an input, and no default was specified"
            ),
        }
    }

    fn operands(&self) -> Vec<&Expression> {
        self.branches.iter().flat_map(|(case, then)| [case, then]).chain(&self.default).collect()
    }
}

fn parse_cond(operand: &Value, at: &At<'_>) -> Result<Expression> {
    let Value::Document(document) = operand else {
        let [condition, then, otherwise] = list_of(operand) else {
            let passed = list_of(operand).len();
            fail!(16020, "Expression $cond takes exactly 3 arguments. {passed} were passed in.");
        };
        let branches = vec![(at.parse(condition)?, at.parse(then)?)];
        return Ok(Expression::special(Choice { branches, default: Some(at.parse(otherwise)?) }));
    };
    for (name, _) in document.iter() {
        if !matches!(&**name, "if" | "then" | "else") {
            fail!(17083, "Unrecognized parameter to $cond: {name}");
        }
    }
    let part = |name: &str, code: i32| match document.get(name) {
        Some(part) => at.parse(part),
        None => fail!(code, "Missing '{name}' parameter to $cond"),
    };
    let branches = vec![(part("if", 17080)?, part("then", 17081)?)];
    Ok(Expression::special(Choice { branches, default: Some(part("else", 17082)?) }))
}

fn parse_switch(operand: &Value, at: &At<'_>) -> Result<Expression> {
    let document = no_more_than_object(operand, "$switch", 40060)?;
    let (mut branches, mut default) = (Vec::new(), None);
    for (name, part) in document.iter() {
        match (&**name, part) {
            ("branches", Value::Array(items)) => {
                for item in items.iter() {
                    branches.push(parse_branch(item, at)?);
                }
            }
            ("branches", other) => {
                fail!(40061, "$switch expected an array for 'branches', found: {}", other.type_name())
            }
            ("default", part) => default = Some(at.parse(part)?),
            (other, _) => fail!(40067, "$switch found an unknown argument: {other}"),
        }
    }
    if branches.is_empty() {
        fail!(40068, "$switch requires at least one branch.");
    }
    Ok(Expression::special(Choice { branches, default }))
}

fn parse_branch(item: &Value, at: &At<'_>) -> Result<(Expression, Expression)> {
    let Value::Document(branch) = item else {
        fail!(40062, "$switch expected each branch to be an object, found: {}", item.type_name());
    };
    for (name, _) in branch.iter() {
        if !matches!(&**name, "case" | "then") {
            fail!(40063, "$switch found an unknown argument to a branch: {name}");
        }
    }
    let part = |name: &str, code: i32| match branch.get(name) {
        Some(part) => at.parse(part),
        None => fail!(code, "$switch requires each branch have a '{name}' expression"),
    };
    Ok((part("case", 40064)?, part("then", 40065)?))
}

struct Let {
    variables: Vec<(usize, Expression)>,
    inside: Expression,
}

impl Evaluate for Let {
    fn evaluate(&self, env: &mut Env) -> Result<Value> {
        let values: Result<Vec<Value>> =
            self.variables.iter().map(|(_, expression)| expression.evaluate(env)).collect();
        let values = values?;
        let mut before = Vec::with_capacity(values.len());
        for ((slot, _), value) in self.variables.iter().zip(values) {
            before.push(env.replace(*slot, value));
        }
        let result = self.inside.evaluate(env);
        for ((slot, _), value) in self.variables.iter().zip(before) {
            env.set(*slot, value);
        }
        result
    }

    fn operands(&self) -> Vec<&Expression> {
        self.variables.iter().map(|(_, value)| value).chain([&self.inside]).collect()
    }
}

fn parse_let(operand: &Value, at: &At<'_>) -> Result<Expression> {
    let document = no_more_than_object(operand, "$let", 16874)?;
    for (name, _) in document.iter() {
        if !matches!(&**name, "vars" | "in") {
            fail!(16875, "Unrecognized parameter to $let: {name}");
        }
    }
    let vars = document.get("vars").ok_or_else(|| error!(16876, "Missing 'vars' parameter to $let"))?;
    let inside = document.get("in").ok_or_else(|| error!(16877, "Missing 'in' parameter to $let"))?;
    let vars = match vars {
        Value::Document(vars) => vars,
        // An array is read as an object whose names are the places of its items.
        Value::Array(items) if !items.is_empty() => {
            fail!(9, "'0' starts with an invalid character for a user variable name")
        }
        _ => fail!(10065, "invalid parameter: expected an object (vars)"),
    };
    let mut scope = at.scope.clone();
    let mut variables = Vec::with_capacity(vars.len());
    for (name, value) in vars.iter() {
        check_variable_name(name)?;
        let value = at.parse(value)?;
        variables.push((scope.bind(name), value));
    }
    let inside = at.parse_in(inside, &scope)?;
    Ok(Expression::special(Let { variables, inside }))
}
