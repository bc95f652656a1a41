//! `$map`, `$filter`, `$reduce`, `$zip`: operators that go through arrays.

use super::bound::{Room, check_count};
use super::env::Env;
use super::operands::At;
use super::scope::{Scope, check_variable_name};
use super::tree::{Evaluate, Expression, no_more_than_object};
use crate::error::{Result, error, fail};
use crate::value::{Document, Value};

pub(super) fn parse(name: &str, operand: &Value, at: &At<'_>) -> Result<Option<Expression>> {
    let parsed = match name {
        "$map" => parse_map(operand, at)?,
        "$filter" => parse_filter(operand, at)?,
        "$reduce" => parse_reduce(operand, at)?,
        "$zip" => parse_zip(operand, at)?,
        _ => return Ok(None),
    };
    Ok(Some(parsed))
}

fn known_names(document: &Document, names: &[&str], operator: &str, code: i32) -> Result<()> {
    match document.iter().find(|(name, _)| !names.contains(&&***name)) {
        Some((name, _)) => fail!(code, "Unrecognized parameter to {operator}: {name}"),
        None => Ok(()),
    }
}

fn required<'a>(document: &'a Document, name: &str, operator: &str, code: i32) -> Result<&'a Value> {
    document.get(name).ok_or_else(|| error!(code, "Missing '{name}' parameter to {operator}"))
}

/// Binds the variable that `as` names, or `this`.
fn bind_element(document: &Document, scope: &mut Scope) -> Result<usize> {
    let name = match document.get("as") {
        None => "this",
        Some(Value::String(name)) => name,
        Some(other) => fail!(9, "expected a string for 'as', found {}", other.type_name()),
    };
    check_variable_name(name)?;
    Ok(scope.bind(name))
}

struct Map {
    input: Expression,
    element: usize,
    index: Option<usize>,
    inside: Expression,
}

fn bind_index(document: &Document, scope: &mut Scope) -> Result<Option<usize>> {
    match document.get("arrayIndexAs") {
        None => Ok(None),
        Some(Value::String(name)) => {
            check_variable_name(name)?;
            Ok(Some(scope.bind(name)))
        }
        Some(other) => fail!(9375801, "expected a string for 'arrayIndexAs', found {}", other.type_name()),
    }
}

fn parse_map(operand: &Value, at: &At<'_>) -> Result<Expression> {
    let document = no_more_than_object(operand, "$map", 16878)?;
    known_names(&document, &["input", "as", "in", "arrayIndexAs"], "$map", 16879)?;
    let input = at.parse(required(&document, "input", "$map", 16880)?)?;
    let inside = required(&document, "in", "$map", 16882)?;
    let mut scope = at.scope.clone();
    let element = bind_element(&document, &mut scope)?;
    let index = bind_index(&document, &mut scope)?;
    let inside = at.parse_in(inside, &scope)?;
    Ok(Expression::special(Map { input, element, index, inside }))
}

impl Evaluate for Map {
    fn evaluate(&self, env: &mut Env) -> Result<Value> {
        let items = match self.input.evaluate(env)? {
            value if value.is_nullish() => return Ok(Value::Null),
            Value::Array(items) => items,
            other => fail!(16883, "input to $map must be an array not {}", other.type_name()),
        };
        let before = env.get(self.element).clone();
        let (mut results, mut room) = (Vec::with_capacity(items.len()), Room::new());
        for (at, item) in items.iter().enumerate() {
            env.repeat()?;
            env.set(self.element, item.clone());
            if let Some(index) = self.index {
                env.set(index, Value::Long(at as i64));
            }
            let result = self.inside.evaluate(env)?.or_null();
            room.take(&result)?;
            results.push(result);
        }
        env.set(self.element, before);
        Ok(Value::array(results))
    }

    fn is_foldable(&self) -> bool {
        false
    }

    fn operands(&self) -> Vec<&Expression> {
        vec![&self.input, &self.inside]
    }
}

struct Filter {
    input: Expression,
    element: usize,
    index: Option<usize>,
    condition: Expression,
    limit: Option<Expression>,
}

fn parse_filter(operand: &Value, at: &At<'_>) -> Result<Expression> {
    let document = no_more_than_object(operand, "$filter", 28646)?;
    known_names(&document, &["input", "as", "cond", "limit", "arrayIndexAs"], "$filter", 28647)?;
    let input = required(&document, "input", "$filter", 28648)?;
    let condition = required(&document, "cond", "$filter", 28650)?;
    let input = at.parse(input)?;
    let mut scope = at.scope.clone();
    let element = bind_element(&document, &mut scope)?;
    let index = bind_index(&document, &mut scope)?;
    let condition = at.parse_in(condition, &scope)?;
    let limit = document.get("limit").map(|limit| at.parse(limit)).transpose()?;
    Ok(Expression::special(Filter { input, element, index, condition, limit }))
}

impl Filter {
    fn limit(&self, env: &mut Env) -> Result<usize> {
        let Some(limit) = &self.limit else { return Ok(usize::MAX) };
        let value = limit.evaluate(env)?;
        if value.is_nullish() {
            return Ok(usize::MAX);
        }
        let Some(limit) = value.to_i32_exact() else {
            fail!(327391, "$filter: limit must be represented as a 32-bit integral value: {value}");
        };
        if limit < 1 {
            fail!(327392, "$filter: limit must be greater than 0: {limit}");
        }
        Ok(limit as usize)
    }
}

impl Evaluate for Filter {
    fn evaluate(&self, env: &mut Env) -> Result<Value> {
        let items = match self.input.evaluate(env)? {
            value if value.is_nullish() => return Ok(Value::Null),
            Value::Array(items) => items,
            other => fail!(28651, "input to $filter must be an array not {}", other.type_name()),
        };
        let limit = self.limit(env)?;
        let before = env.get(self.element).clone();
        let mut results = Vec::new();
        for (at, item) in items.iter().enumerate() {
            env.repeat()?;
            env.set(self.element, item.clone());
            if let Some(index) = self.index {
                env.set(index, Value::Long(at as i64));
            }
            if self.condition.evaluate(env)?.is_true() {
                results.push(item.clone());
                if results.len() >= limit {
                    break;
                }
            }
        }
        env.set(self.element, before);
        Ok(Value::array(results))
    }

    fn is_foldable(&self) -> bool {
        false
    }

    fn operands(&self) -> Vec<&Expression> {
        [&self.input, &self.condition].into_iter().chain(&self.limit).collect()
    }
}

struct Reduce {
    input: Expression,
    initial: Expression,
    inside: Expression,
    this: usize,
    value: usize,
    index: Option<usize>,
}

fn parse_reduce(operand: &Value, at: &At<'_>) -> Result<Expression> {
    let document = no_more_than_object(operand, "$reduce", 40075)?;
    known_names(
        &document,
        &["input", "initialValue", "in", "as", "valueAs", "arrayIndexAs"],
        "$reduce",
        40076,
    )?;
    let input = at.parse(required(&document, "input", "$reduce", 40077)?)?;
    let initial = at.parse(required(&document, "initialValue", "$reduce", 40078)?)?;
    let inside = required(&document, "in", "$reduce", 40079)?;
    let mut scope = at.scope.clone();
    let this = bind_element(&document, &mut scope)?;
    let value = scope.bind(document.get("valueAs").and_then(Value::as_str).unwrap_or("value"));
    let index = bind_index(&document, &mut scope)?;
    let inside = at.parse_in(inside, &scope)?;
    Ok(Expression::special(Reduce { input, initial, inside, this, value, index }))
}

impl Evaluate for Reduce {
    fn evaluate(&self, env: &mut Env) -> Result<Value> {
        let items = match self.input.evaluate(env)? {
            value if value.is_nullish() => return Ok(Value::Null),
            Value::Array(items) => items,
            other => fail!(40080, "$reduce requires that 'input' be an array, found: {}", other.type_name()),
        };
        let mut result = self.initial.evaluate(env)?;
        let before = (env.get(self.this).clone(), env.get(self.value).clone());
        for (at, item) in items.iter().enumerate() {
            env.repeat()?;
            env.set(self.this, item.clone());
            env.set(self.value, result);
            if let Some(index) = self.index {
                env.set(index, Value::Long(at as i64));
            }
            result = self.inside.evaluate(env)?;
        }
        env.set(self.this, before.0);
        env.set(self.value, before.1);
        Ok(result)
    }

    fn is_foldable(&self) -> bool {
        false
    }

    fn operands(&self) -> Vec<&Expression> {
        vec![&self.input, &self.initial, &self.inside]
    }
}

struct Zip {
    inputs: Vec<Expression>,
    defaults: Vec<Expression>,
    longest: bool,
}

fn parse_zip(operand: &Value, at: &At<'_>) -> Result<Expression> {
    let Value::Document(document) = operand else {
        fail!(34460, "$zip only supports an object as an argument, found {}", operand.type_name());
    };
    let mut zip = Zip { inputs: Vec::new(), defaults: Vec::new(), longest: false };
    for (name, value) in document.iter() {
        match (&**name, value) {
            ("inputs", Value::Array(items)) => {
                zip.inputs = items.iter().map(|item| at.parse(item)).collect::<Result<_>>()?;
            }
            ("inputs", other) => {
                fail!(34461, "inputs must be an array of expressions, found {}", other.type_name())
            }
            ("defaults", Value::Array(items)) => {
                zip.defaults = items.iter().map(|item| at.parse(item)).collect::<Result<_>>()?;
            }
            ("defaults", other) => {
                fail!(34462, "defaults must be an array of expressions, found {}", other.type_name())
            }
            ("useLongestLength", Value::Bool(longest)) => zip.longest = *longest,
            ("useLongestLength", other) => {
                fail!(34463, "useLongestLength must be a bool, found {}", other.type_name())
            }
            (other, _) => fail!(34464, "$zip found an unknown argument: {other}"),
        }
    }
    if zip.inputs.is_empty() {
        fail!(34465, "$zip requires at least one input array");
    }
    if !zip.defaults.is_empty() && !zip.longest {
        fail!(34466, "cannot specify defaults unless useLongestLength is true");
    }
    if !zip.defaults.is_empty() && zip.defaults.len() != zip.inputs.len() {
        fail!(34467, "defaults and inputs must have the same length");
    }
    Ok(Expression::special(zip))
}

impl Evaluate for Zip {
    fn evaluate(&self, env: &mut Env) -> Result<Value> {
        let mut inputs = Vec::with_capacity(self.inputs.len());
        for input in &self.inputs {
            match input.evaluate(env)? {
                value if value.is_nullish() => return Ok(Value::Null),
                Value::Array(items) => inputs.push(items),
                other => fail!(34468, "$zip found a non-array expression in input: {}", other.type_name()),
            }
        }
        let defaults: Result<Vec<Value>> =
            self.defaults.iter().map(|part| part.evaluate(env).map(Value::or_null)).collect();
        let defaults = defaults?;
        let lengths = inputs.iter().map(|items| items.len());
        let length = if self.longest { lengths.max() } else { lengths.min() }.unwrap_or(0);
        check_count(length.saturating_mul(inputs.len() + 1))?;
        let row = |at: usize| {
            let cell = |(column, items): (usize, &std::sync::Arc<Vec<Value>>)| {
                items.get(at).or_else(|| defaults.get(column)).cloned().unwrap_or(Value::Null)
            };
            Value::array(inputs.iter().enumerate().map(cell).collect())
        };
        Ok(Value::array((0..length).map(row).collect()))
    }

    fn operands(&self) -> Vec<&Expression> {
        self.inputs.iter().chain(&self.defaults).collect()
    }
}
