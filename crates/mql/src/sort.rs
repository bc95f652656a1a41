//! Sort patterns and the keys that documents have in their order (spec §12.1).

use crate::decimal::Rounding;
use crate::error::{Result, error, fail};
use crate::metadata;
use crate::order;
use crate::path;
use crate::value::{Document, Str, Value};
use shardlake_collation::Collation;
use std::cmp::Ordering;

/// Fields of a pattern at most.
const FIELDS_MAX: usize = 32;

/// One field of a sort pattern.
#[derive(Clone, Debug)]
struct Field {
    path: Vec<Str>,
    descending: bool,
    /// Sorts by metadata of this kind in place of a field.
    meta: Option<Str>,
}

/// A parsed sort pattern.
#[derive(Clone, Debug, Default)]
pub struct SortPattern {
    fields: Vec<Field>,
    is_from_end: bool,
    /// Keys hold sort keys in place of strings.
    collation: Collation,
}

/// The values that a document is sorted by.
#[derive(Clone, Debug)]
pub struct SortKey(Vec<Value>);

impl SortPattern {
    /// Parses the pattern of a `$sort` stage; the errors are those of the stage.
    pub fn parse(pattern: &Document, collation: &Collation) -> Result<SortPattern> {
        let mut fields: Vec<Field> = Vec::new();
        for (name, value) in pattern.iter() {
            // Metadata does not count.
            let is_meta = value.as_document().is_some();
            if !is_meta && fields.iter().filter(|field| field.meta.is_none()).count() == FIELDS_MAX {
                fail!(13103, "too many compound keys in the sort pattern: {FIELDS_MAX} are allowed");
            }
            check_direction(value)?;
            let path = sort_path(name)?;
            if fields.iter().any(|field| field.meta.is_none() && field.path == path) {
                fail!(7472500, "duplicate field in the sort pattern: {name}");
            }
            fields.push(parse_field(path, value)?);
        }
        Ok(SortPattern { fields, is_from_end: false, collation: collation.clone() })
    }

    /// The order of storage from its end, as `{$natural: -1}` asks for it. Documents have no key for it: the caller
    /// reverses the order in which they come.
    pub fn from_end() -> SortPattern {
        SortPattern { is_from_end: true, ..SortPattern::default() }
    }

    pub fn is_from_end(&self) -> bool {
        self.is_from_end
    }

    /// The order of keys of one value, the least first.
    pub fn one_ascending() -> SortPattern {
        let field = Field { path: Vec::new(), descending: false, meta: None };
        SortPattern { fields: vec![field], ..SortPattern::default() }
    }

    pub fn is_empty(&self) -> bool {
        self.fields.is_empty() && !self.is_from_end
    }

    pub fn len(&self) -> usize {
        self.fields.len()
    }

    /// The only field's path, if there is one field and it ascends.
    pub(crate) fn single_ascending(&self) -> Option<&[Str]> {
        match &self.fields[..] {
            [field] if !field.descending => Some(&field.path),
            _ => None,
        }
    }

    /// The key of a document: of an array the least element, or the greatest where the order descends.
    pub fn key(&self, document: &Value) -> Result<SortKey> {
        let mut arrays: Vec<String> = Vec::new();
        let mut keys = Vec::with_capacity(self.fields.len());
        for field in &self.fields {
            if let Some(kind) = &field.meta {
                keys.push(
                    document.as_document().map(|found| found.value(kind)).unwrap_or_default().or_null(),
                );
                continue;
            }
            let mut through = None;
            keys.push(self.collated(field_key(document, field, (&self.collation, &mut through)))?);
            arrays.extend(through);
        }
        // Two arrays side by side have no order; two paths through one array have.
        for (at, left) in arrays.iter().enumerate() {
            for right in &arrays[at + 1..] {
                let nested = left == right
                    || left.strip_prefix(right.as_str()).is_some_and(|rest| rest.starts_with('.'))
                    || right.strip_prefix(left.as_str()).is_some_and(|rest| rest.starts_with('.'));
                if !nested {
                    fail!(2, "cannot sort with keys that are parallel arrays");
                }
            }
        }
        Ok(SortKey(keys))
    }

    /// Sorts elements of an array by their members as they are: an array among them counts as a whole.
    /// Elements with equal keys stay in their order.
    pub(crate) fn sort_elements(&self, elements: Vec<Value>) -> Result<Vec<Value>> {
        let part = |element: &Value, field: &Field| self.collated(member(element, &field.path));
        let key = |element: &Value| {
            let parts: Result<_> = self.fields.iter().map(|field| part(element, field)).collect();
            parts.map(SortKey)
        };
        let keyed: Result<Vec<_>> =
            elements.into_iter().map(|element| Ok((key(&element)?, element))).collect();
        let mut keyed = keyed?;
        keyed.sort_by(|(left, _), (right, _)| self.compare_keys(left, right));
        Ok(keyed.into_iter().map(|(_, element)| element).collect())
    }

    fn collated(&self, value: Value) -> Result<Value> {
        if self.collation.is_simple() { Ok(value) } else { order::collated(&self.collation, &value) }
    }

    /// Bytes that a key holds besides the document that it is of.
    pub fn key_bytes(&self, key: &SortKey) -> usize {
        if self.collation.is_simple() { 0 } else { key.0.iter().map(Value::size).sum() }
    }

    pub fn compare_keys(&self, left: &SortKey, right: &SortKey) -> Ordering {
        debug_assert_eq!(left.0.len(), self.fields.len(), "a sort key has each field of its pattern");
        debug_assert_eq!(right.0.len(), self.fields.len(), "a sort key has each field of its pattern");
        for ((field, left), right) in self.fields.iter().zip(&left.0).zip(&right.0) {
            let order = order::compare(left, right);
            let order = if field.descending { order.reverse() } else { order };
            if order.is_ne() {
                return order;
            }
        }
        Ordering::Equal
    }

    /// Sorts documents by their keys; those with equal keys stay in their order.
    pub(crate) fn sort(&self, keyed: &mut [(SortKey, Value)]) {
        keyed.sort_by(|(left, _), (right, _)| self.compare_keys(left, right));
    }
}

/// The value at a path of documents, and of places in arrays within them; null where there is none.
fn member(element: &Value, path: &[Str]) -> Value {
    let Value::Document(_) = element else { return Value::Null };
    let step = |value: &Value, name: &Str| match value {
        Value::Document(document) => document.value(name),
        Value::Array(items) => {
            path::array_index(name).and_then(|at| items.get(at)).cloned().unwrap_or_default()
        }
        _ => Value::Missing,
    };
    path.iter().fold(element.clone(), |value, name| step(&value, name)).or_null()
}

fn sort_path(name: &str) -> Result<Vec<Str>> {
    if name.is_empty() {
        fail!(40352, "FieldPath cannot be constructed with empty string");
    }
    crate::path::field_path(name)
}

fn check_direction(value: &Value) -> Result<()> {
    if matches!(value, Value::Document(_)) {
        return Ok(());
    }
    if !value.is_number() {
        fail!(15974, "Illegal key in $sort specification: {value}");
    }
    if !matches!(whole_direction(value), Some(1.0 | -1.0)) {
        fail!(15975, "$sort key ordering must be 1 (for ascending) or -1 (for descending)");
    }
    Ok(())
}

/// A fraction of a double is cut off, a decimal is rounded.
fn whole_direction(value: &Value) -> Option<f64> {
    match value {
        Value::Decimal(direction) => Some(direction.to_whole(Rounding::HalfEven).to_f64()),
        value => value.to_f64().map(f64::trunc),
    }
}

fn parse_field(path: Vec<Str>, value: &Value) -> Result<Field> {
    if let Value::Document(meta) = value {
        let Some(("$meta", kind)) = meta.first().map(|(name, kind)| (&**name, kind)) else {
            fail!(17312, "$meta is the only expression supported by $sort right now");
        };
        if meta.len() > 1 {
            fail!(9, "Cannot have additional keys in a $meta sort specification");
        }
        let kind = kind.as_str().ok_or_else(|| error!(31138, "Illegal $meta sort: {meta}"))?;
        if !matches!(kind, "textScore" | "randVal" | "searchScore" | "vectorSearchScore" | "geoNearDistance")
        {
            fail!(31138, "Illegal $meta sort: {meta}");
        }
        metadata::check(value, true)?;
        let name = Str::from(format!("$meta.{kind}"));
        // The greatest comes first, also of distances.
        return Ok(Field { path, descending: true, meta: Some(name) });
    }
    // A fraction is cut off.
    let descending = value.to_f64().is_some_and(|direction| direction < 0.0);
    Ok(Field { path, descending, meta: None })
}

fn field_key(
    document: &Value,
    field: &Field,
    (collation, through): (&Collation, &mut Option<String>),
) -> Value {
    if let [name] = &field.path[..]
        && let Value::Document(document) = document
    {
        // The usual case: a member that is no array.
        match document.get(name) {
            None => return Value::Null,
            Some(Value::Array(_)) => {}
            Some(value) => return value.clone(),
        }
    }
    let mut found = Vec::new();
    path::sort_values(document, &field.path, &mut found, through);
    let order = |left: &&Value, right: &&Value| order::compare_by(collation, left, right);
    let best = if field.descending { found.iter().max_by(order) } else { found.iter().min_by(order) };
    best.cloned().unwrap_or(Value::Null)
}

impl SortKey {
    /// A key of one value.
    pub(crate) fn of(value: Value) -> SortKey {
        SortKey(vec![value])
    }

    pub fn values(&self) -> &[Value] {
        &self.0
    }
}
