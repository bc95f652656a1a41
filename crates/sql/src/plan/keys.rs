//! Analysis of the partition keys that items matching a query's `WHERE` can have.
//!
//! For each condition the analysis asks with which keys it can be exactly `true`, or exactly `false`, and
//! answers with a superset ([`KeySet`]). It knows equality and conditions that reduce to it (`IN`,
//! `ARRAY_CONTAINS` of a constant, `LIKE` without wildcards, the key itself as a condition, type checks with
//! few values), and combines them by AND, OR and NOT. A condition that cannot have the wanted value by its
//! types (`types.rs`) leaves no key. Any other condition leaves all keys, which is always correct. Constants
//! are folded already, so a condition without any property is a literal here.

use shardlake_document::Value;
use shardlake_model::{KeyComponent, KeyKind, KeyPath, PartitionKeyDefinition};

use super::info::KeyFilter;
use super::key_set::KeySet;
use super::types::Types;
use crate::bound::{BoundQuery, BoundSource, Expression, Slot};
use crate::functions::Function;
use crate::syntax::ast::{BinaryOperator, UnaryOperator};
use crate::value::like;

/// An invalid definition, which no container has, gives no filter.
pub(super) fn key_filter(query: &BoundQuery, definition: &PartitionKeyDefinition) -> KeyFilter {
    if !query.reads_items() {
        return KeyFilter::Nothing;
    }
    let paths: Result<Vec<KeyPath>, _> = definition.paths.iter().map(|path| KeyPath::parse(path)).collect();
    match paths {
        Ok(paths) if !paths.is_empty() => {
            keys_of_rows(query, &paths).into_filter(definition.kind == KeyKind::MultiHash)
        }
        _ => KeyFilter::All,
    }
}

/// The keys of items that contribute rows. An aggregate without groups has a row without any item, whose
/// value every partition knows.
fn keys_of_rows(query: &BoundQuery, paths: &[KeyPath]) -> KeySet {
    let (mut keys, sources) = match query.sources.split_first() {
        Some((BoundSource::Subquery { query: inner, .. }, rest)) => (keys_of_rows(inner, paths), rest),
        _ => (KeySet::all(paths.len()), &query.sources[..]),
    };
    let analysis = Analysis { paths, places: places_of(sources) };
    if let Some(filter) = &query.filter {
        keys = keys.intersect(analysis.keys_where(filter, true));
    }
    keys
}

/// The variables that name a place of the item, with the property names that lead to it.
fn places_of(sources: &[BoundSource]) -> Vec<(Slot, Vec<String>)> {
    let mut places: Vec<(Slot, Vec<String>)> = Vec::new();
    for source in sources {
        match source {
            BoundSource::Item => places.push((0, Vec::new())),
            BoundSource::Value { slot, of } => {
                if let Some(names) = names_to(of, &places) {
                    places.push((*slot, names.into_iter().map(str::to_owned).collect()));
                }
            }
            BoundSource::Elements { .. } | BoundSource::Subquery { .. } => {}
        }
    }
    places
}

/// The property names from the item to the value that the expression reads, if the expression is only a path
/// from the item.
fn names_to<'e>(expression: &'e Expression, places: &'e [(Slot, Vec<String>)]) -> Option<Vec<&'e str>> {
    match expression {
        Expression::Variable(slot) => {
            let (_, names) = places.iter().find(|(place, _)| place == slot)?;
            Some(names.iter().map(String::as_str).collect())
        }
        Expression::Property { of, name } => {
            let mut names = names_to(of, places)?;
            names.push(name);
            Some(names)
        }
        Expression::Index { of, key } => {
            let Expression::Literal(Value::String(name)) = key.as_ref() else { return None };
            let mut names = names_to(of, places)?;
            names.push(name);
            Some(names)
        }
        _ => None,
    }
}

struct Analysis<'p> {
    paths: &'p [KeyPath],
    places: Vec<(Slot, Vec<String>)>,
}

impl Analysis<'_> {
    /// The keys with which the condition can be exactly `wanted`.
    fn keys_where(&self, condition: &Expression, wanted: bool) -> KeySet {
        if self.component_of(condition).is_some() {
            return self.keys_equal(condition, &[Value::Bool(wanted)]);
        }
        if !Types::of(condition).meets(Types::BOOL) {
            return KeySet::nothing();
        }
        match condition {
            Expression::Literal(value) if *value == Value::Bool(wanted) => self.all(),
            Expression::Literal(_) => KeySet::nothing(),
            Expression::Unary { operator: UnaryOperator::Not, operand } => self.keys_where(operand, !wanted),
            Expression::And(parts) if wanted => self.every(parts, wanted),
            Expression::Or(parts) if !wanted => self.every(parts, wanted),
            Expression::And(parts) | Expression::Or(parts) | Expression::Coalesce(parts) => {
                self.any(parts.iter(), wanted)
            }
            Expression::Conditional { then, otherwise, .. } => {
                self.any([then.as_ref(), otherwise.as_ref()].into_iter(), wanted)
            }
            Expression::Binary { operator: BinaryOperator::Equal, left, right } if wanted => {
                self.keys_of_equality(left, right)
            }
            Expression::Binary { operator: BinaryOperator::NotEqual, left, right } if !wanted => {
                self.keys_of_equality(left, right)
            }
            Expression::In { value, list, .. } if wanted => self.keys_in(value, list),
            Expression::Like { value, pattern, escape, .. } if wanted => {
                self.keys_like(value, pattern, *escape)
            }
            Expression::Between { value, low, high } if wanted && !is_ordered(value, low, high) => {
                KeySet::nothing()
            }
            Expression::Call { function, arguments, .. } => self.keys_of_call(*function, arguments, wanted),
            _ => self.all(),
        }
    }

    fn all(&self) -> KeySet {
        KeySet::all(self.paths.len())
    }

    fn every(&self, parts: &[Expression], wanted: bool) -> KeySet {
        parts.iter().fold(self.all(), |keys, part| keys.intersect(self.keys_where(part, wanted)))
    }

    fn any<'e>(&self, parts: impl Iterator<Item = &'e Expression>, wanted: bool) -> KeySet {
        KeySet::union_of(parts.map(|part| self.keys_where(part, wanted)))
    }

    fn keys_of_equality(&self, left: &Expression, right: &Expression) -> KeySet {
        if !Types::of(left).can_equal(Types::of(right)) {
            return KeySet::nothing();
        }
        match (constant(left), constant(right)) {
            (None, Some(value)) => self.keys_equal(left, &[value]),
            (Some(value), None) => self.keys_equal(right, &[value]),
            _ => self.all(),
        }
    }

    fn keys_in(&self, value: &Expression, list: &[Expression]) -> KeySet {
        let constants: Option<Vec<Value>> = list.iter().map(constant).collect();
        match constants {
            Some(constants) => self.keys_equal(value, &constants),
            None => KeySet::union_of(list.iter().map(|member| self.keys_of_equality(value, member))),
        }
    }

    fn keys_like(&self, value: &Expression, pattern: &Expression, escape: Option<char>) -> KeySet {
        let Expression::Literal(Value::String(pattern)) = pattern else { return self.all() };
        match like::without_wildcards(pattern, escape) {
            Some(text) => self.keys_equal(value, &[Value::String(text)]),
            None => self.all(),
        }
    }

    fn keys_of_call(&self, function: Function, arguments: &[Expression], wanted: bool) -> KeySet {
        match (function, arguments, wanted) {
            (Function::IsNull, [value], true) => self.keys_equal(value, &[Value::Null]),
            (Function::IsBool, [value], true) => {
                self.keys_equal(value, &[Value::Bool(false), Value::Bool(true)])
            }
            (Function::ArrayContains, [array, value, ..], true) => match constant(array) {
                Some(Value::Array(elements)) => self.keys_equal(value, &elements),
                _ => self.all(),
            },
            _ => self.all(),
        }
    }

    /// The keys with which the expression can equal one of the values.
    fn keys_equal(&self, expression: &Expression, values: &[Value]) -> KeySet {
        if let Some(at) = self.component_of(expression) {
            return KeySet::of(self.paths.len(), at, values.iter().filter_map(component));
        }
        match (expression, values) {
            (Expression::Call { function: Function::Abs, arguments, .. }, values) if arguments.len() == 1 => {
                let inverse: Vec<Value> = values.iter().flat_map(inverse_of_absolute).collect();
                self.keys_equal(&arguments[0], &inverse)
            }
            (condition, [Value::Bool(wanted)]) => self.keys_where(condition, *wanted),
            _ => self.all(),
        }
    }

    /// Which component of the key the expression reads.
    fn component_of(&self, expression: &Expression) -> Option<usize> {
        if !matches!(
            expression,
            Expression::Property { .. } | Expression::Index { .. } | Expression::Variable(_)
        ) {
            return None;
        }
        let names = names_to(expression, &self.places)?;
        self.paths.iter().position(|path| path.0 == names)
    }
}

/// Whether a value can be between two others.
fn is_ordered(value: &Expression, low: &Expression, high: &Expression) -> bool {
    let value = Types::of(value);
    value.can_be_ordered_with(Types::of(low)) && value.can_be_ordered_with(Types::of(high))
}

fn constant(expression: &Expression) -> Option<Value> {
    match expression {
        Expression::Literal(value) => Some(value.clone()),
        // The contents of an array or object do not matter: see `component`.
        Expression::Array(elements) => elements.iter().map(constant).collect::<Option<_>>().map(Value::Array),
        Expression::Object(members) => members
            .iter()
            .map(|(name, value)| Some((name.clone(), constant(value)?)))
            .collect::<Option<_>>()
            .map(Value::Object),
        _ => None,
    }
}

/// The key component of items whose key value equals the value; `None` when no value does.
fn component(value: &Value) -> Option<KeyComponent> {
    Some(match value {
        Value::Undefined | Value::Array(_) | Value::Object(_) => KeyComponent::Undefined,
        Value::Null => KeyComponent::Null,
        Value::Bool(value) => KeyComponent::Bool(*value),
        Value::Int(number) => KeyComponent::Number(*number as f64),
        // Adding zero turns -0 into 0, which equals it; -0 is never a key.
        Value::Double(number) if number.is_finite() => KeyComponent::Number(number + 0.0),
        Value::Double(_) => return None,
        Value::String(text) => KeyComponent::String(text.clone()),
    })
}

/// The numbers whose absolute value is the given one.
fn inverse_of_absolute(value: &Value) -> Vec<Value> {
    let number = match value {
        Value::Int(number) => *number as f64,
        Value::Double(number) => *number,
        _ => return Vec::new(),
    };
    if number > 0.0 {
        vec![Value::Double(-number), Value::Double(number)]
    } else if number == 0.0 {
        vec![Value::Double(0.0)]
    } else {
        Vec::new()
    }
}

#[cfg(test)]
mod tests;
