//! `min` and `max` of a find: bounds of the keys of the index that its hint names.

use std::cmp::Ordering;

use shardlake_mql::kept_collation;
use shardlake_mql::{Collation, Document, SIMPLE, SortPattern, Str, Value, compare_by};

use crate::collections::Collection;
use crate::failure::{Failure, Result};
use crate::shown::reach;

const NOT_COMPATIBLE: i32 = 51174;
const WRONG_ORDER: i32 = 51175;
const NOT_IMPLEMENTED: i32 = 238;

/// Keys from a least one on, and before another one, in the order of the index.
#[derive(Debug, Clone)]
pub struct KeyBounds {
    fields: Vec<Field>,
    least: Option<Vec<Value>>,
    beyond: Option<Vec<Value>>,
    key: Document,
}

#[derive(Debug, Clone)]
struct Field {
    path: Vec<Str>,
    is_descending: bool,
}

impl KeyBounds {
    /// The bounds that a find gives; `None` if both are empty.
    pub fn of(
        collection: &Collection,
        hint: &Value,
        min: &Document,
        max: &Document,
    ) -> Result<Option<KeyBounds>> {
        if min.is_empty() && max.is_empty() {
            return Ok(None);
        }
        let not_compatible =
            || Failure::new(NOT_COMPATIBLE, "The index chosen is not compatible with min/max");
        let index = collection.hinted(hint)?.ok_or_else(not_compatible)?;
        if !kept_collation(&index)?.is_simple() {
            let words = "find with min or max is not supported where the index has a collation";
            return Err(Failure::new(NOT_IMPLEMENTED, words));
        }
        let key = index.get("key").and_then(Value::as_document).cloned().unwrap_or_default();
        let is_plain = |(path, kind): (&Str, &Value)| kind.is_number() && !path.ends_with("$**");
        let has_names = |bound: &Document| {
            bound.is_empty()
                || (bound.len() == key.len()
                    && bound.iter().zip(key.iter()).all(|((one, _), (other, _))| one == other))
        };
        if !key.iter().all(is_plain) || !has_names(min) || !has_names(max) {
            return Err(not_compatible());
        }
        let field = |(path, direction): (&Str, &Value)| Field {
            path: path.split('.').map(Str::from).collect(),
            is_descending: direction.to_f64().is_some_and(|direction| direction < 0.0),
        };
        let values = |bound: &Document| bound.iter().map(|(_, value)| value.clone()).collect::<Vec<_>>();
        let given = |bound: &Document| (!bound.is_empty()).then(|| values(bound));
        let fields = key.iter().map(field).collect();
        let bounds = KeyBounds { fields, least: given(min), beyond: given(max), key: Document::clone(&key) };
        if let (Some(least), Some(beyond)) = (&bounds.least, &bounds.beyond)
            && bounds.compare(least, beyond).is_ge()
        {
            let words = "The value provided for min() does not come before the value provided for max()";
            return Err(Failure::new(WRONG_ORDER, words));
        }
        Ok(Some(bounds))
    }

    /// The order of the index, in which documents come without a sort.
    pub fn order(&self) -> Result<SortPattern> {
        Ok(SortPattern::parse(&self.key, &Collation::simple())?)
    }

    fn compare(&self, left: &[Value], right: &[Value]) -> Ordering {
        debug_assert!(
            left.len() <= self.fields.len() && right.len() <= self.fields.len(),
            "a key of an index has no more values than the index has fields"
        );
        let parts = self.fields.iter().zip(left.iter().zip(right));
        let orders = parts.map(|(field, (left, right))| {
            let order = compare_by(&SIMPLE, left, right);
            if field.is_descending { order.reverse() } else { order }
        });
        orders.into_iter().find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    }

    fn has(&self, key: &[Value]) -> bool {
        self.least.as_ref().is_none_or(|least| self.compare(key, least).is_ge())
            && self.beyond.as_ref().is_none_or(|beyond| self.compare(key, beyond).is_lt())
    }

    /// Whether a key of the document is within the bounds. An array has a key for each of its elements.
    pub(crate) fn has_key_of(&self, document: &Value) -> Result<bool> {
        let (mut key, mut spread) = (Vec::with_capacity(self.fields.len()), None);
        for (at, field) in self.fields.iter().enumerate() {
            let mut values = Vec::new();
            reach(document, &field.path, &mut values);
            match &values[..] {
                [] => key.push(Value::Null),
                [one] => key.push(one.clone()),
                _ if spread.is_some() => {
                    let words = "find with min or max is not supported where two fields of the index lie in one array";
                    return Err(Failure::new(NOT_IMPLEMENTED, words));
                }
                [first, ..] => {
                    key.push(first.clone());
                    spread = Some((at, values));
                }
            }
        }
        let Some((at, values)) = spread else { return Ok(self.has(&key)) };
        Ok(values.into_iter().any(|value| {
            key[at] = value;
            self.has(&key)
        }))
    }
}
