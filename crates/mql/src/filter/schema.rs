//! `$jsonSchema`: draft 4 with `bsonType`. A keyword applies only to values of its type.

use crate::error::{Result, error};
use crate::order;
use crate::pattern::Pattern;
use crate::value::{Document, Str, Value};
use std::sync::Arc;

/// Rules for a value, keyword by keyword.
#[derive(Debug, Default)]
pub(super) struct Schema {
    /// Numbers of types; whether all numbers are accepted as well.
    pub types: Option<(Vec<i32>, bool)>,
    pub allowed: Option<Vec<Value>>,
    pub minimum: Option<(Value, bool)>,
    pub maximum: Option<(Value, bool)>,
    pub multiple_of: Option<Value>,
    pub length: (Option<u64>, Option<u64>),
    pub pattern: Option<Arc<Pattern>>,
    pub items: Items,
    pub additional_items: Additional,
    pub item_count: (Option<u64>, Option<u64>),
    pub unique: bool,
    pub required: Vec<Str>,
    pub properties: Vec<(Str, Schema)>,
    pub pattern_properties: Vec<(Arc<Pattern>, Schema)>,
    pub additional_properties: Additional,
    pub member_count: (Option<u64>, Option<u64>),
    pub dependencies: Vec<(Str, Dependency)>,
    pub all_of: Vec<Schema>,
    pub any_of: Option<Vec<Schema>>,
    pub one_of: Option<Vec<Schema>>,
    pub not: Option<Box<Schema>>,
}

#[derive(Debug, Default)]
pub(super) enum Items {
    #[default]
    Any,
    Each(Box<Schema>),
    ByPlace(Vec<Schema>),
}

#[derive(Debug, Default)]
pub(super) enum Additional {
    #[default]
    Any,
    None,
    Each(Box<Schema>),
}

#[derive(Debug)]
pub(super) enum Dependency {
    Names(Vec<Str>),
    Schema(Box<Schema>),
}

fn within(count: usize, (least, most): (Option<u64>, Option<u64>)) -> bool {
    least.is_none_or(|least| count as u64 >= least) && most.is_none_or(|most| count as u64 <= most)
}

fn all(schemas: &[Schema], value: &Value) -> Result<usize> {
    let mut accepted = 0;
    for schema in schemas {
        accepted += usize::from(schema.accepts(value)?);
    }
    Ok(accepted)
}

impl Additional {
    fn accepts(&self, value: &Value) -> Result<bool> {
        match self {
            Additional::Any => Ok(true),
            Additional::None => Ok(false),
            Additional::Each(schema) => schema.accepts(value),
        }
    }
}

impl Schema {
    pub fn accepts_document(&self, document: &Document) -> Result<bool> {
        self.accepts(&Value::document(document.clone()))
    }

    /// Whether a value meets all keywords.
    pub fn accepts(&self, value: &Value) -> Result<bool> {
        if let Some((types, numbers)) = &self.types
            && !(types.contains(&value.type_number()) || (*numbers && value.is_number()))
        {
            return Ok(false);
        }
        if let Some(allowed) = &self.allowed
            && !allowed.iter().any(|allowed| same_value(allowed, value))
        {
            return Ok(false);
        }
        let own = match value {
            Value::String(text) => self.accepts_text(text)?,
            Value::Array(items) => self.accepts_items(items)?,
            Value::Document(document) => self.accepts_members(document, value)?,
            value if value.is_number() => self.accepts_number(value),
            _ => true,
        };
        Ok(own && self.accepts_combined(value)?)
    }

    fn accepts_combined(&self, value: &Value) -> Result<bool> {
        if all(&self.all_of, value)? < self.all_of.len() {
            return Ok(false);
        }
        if let Some(any_of) = &self.any_of
            && all(any_of, value)? == 0
        {
            return Ok(false);
        }
        if let Some(one_of) = &self.one_of
            && all(one_of, value)? != 1
        {
            return Ok(false);
        }
        match &self.not {
            Some(not) => Ok(!not.accepts(value)?),
            None => Ok(true),
        }
    }

    fn accepts_number(&self, value: &Value) -> bool {
        // NaN is neither below nor above a bound; only a bound that is NaN admits it.
        let comparable = |bound: &Value| value.is_nan() == bound.is_nan();
        let above = self.minimum.as_ref().is_none_or(|(least, exclusive)| {
            let order = order::compare(value, least);
            comparable(least) && (order.is_gt() || (order.is_eq() && !exclusive))
        });
        let below = self.maximum.as_ref().is_none_or(|(most, exclusive)| {
            let order = order::compare(value, most);
            comparable(most) && (order.is_lt() || (order.is_eq() && !exclusive))
        });
        let multiple =
            self.multiple_of.as_ref().is_none_or(|factor| match (value.to_decimal(), factor.to_decimal()) {
                (Some(value), Some(factor)) => value.remainder(factor).is_zero(),
                _ => false,
            });
        above && below && multiple
    }

    fn accepts_text(&self, text: &str) -> Result<bool> {
        if !within(text.chars().count(), self.length) {
            return Ok(false);
        }
        match &self.pattern {
            Some(pattern) => matches(pattern, text),
            None => Ok(true),
        }
    }

    fn accepts_items(&self, items: &[Value]) -> Result<bool> {
        if !within(items.len(), self.item_count) {
            return Ok(false);
        }
        if self.unique {
            let mut sorted: Vec<&Value> = items.iter().collect();
            sorted.sort_by(|left, right| order::compare(left, right));
            if sorted.windows(2).any(|pair| order::equal(pair[0], pair[1])) {
                return Ok(false);
            }
        }
        for (at, item) in items.iter().enumerate() {
            let accepted = match &self.items {
                Items::Any => true,
                Items::Each(schema) => schema.accepts(item)?,
                Items::ByPlace(schemas) => match schemas.get(at) {
                    Some(schema) => schema.accepts(item)?,
                    None => self.additional_items.accepts(item)?,
                },
            };
            if !accepted {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn accepts_members(&self, document: &Document, whole: &Value) -> Result<bool> {
        if !within(document.len(), self.member_count) || !self.required.iter().all(|name| document.has(name))
        {
            return Ok(false);
        }
        for (name, member) in document.iter() {
            if !self.accepts_member(name, member)? {
                return Ok(false);
            }
        }
        for (name, dependency) in &self.dependencies {
            if !document.has(name) {
                continue;
            }
            let met = match dependency {
                Dependency::Names(names) => names.iter().all(|name| document.has(name)),
                Dependency::Schema(schema) => schema.accepts(whole)?,
            };
            if !met {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn accepts_member(&self, name: &Str, member: &Value) -> Result<bool> {
        let mut named = false;
        if let Some((_, schema)) = self.properties.iter().find(|(known, _)| known == name) {
            named = true;
            if !schema.accepts(member)? {
                return Ok(false);
            }
        }
        for (pattern, schema) in &self.pattern_properties {
            if matches(pattern, name)? {
                named = true;
                if !schema.accepts(member)? {
                    return Ok(false);
                }
            }
        }
        if named { Ok(true) } else { self.additional_properties.accepts(member) }
    }
}

fn matches(pattern: &Pattern, text: &str) -> Result<bool> {
    pattern.is_match(text).map_err(|words| error!(51091, "Regular expression is invalid: {words}"))
}

/// Equality of schemas: the order of members does not count.
fn same_value(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Document(left), Value::Document(right)) => {
            left.len() == right.len()
                && left
                    .iter()
                    .all(|(name, value)| right.get(name).is_some_and(|other| same_value(value, other)))
        }
        _ => order::equal(left, right),
    }
}
