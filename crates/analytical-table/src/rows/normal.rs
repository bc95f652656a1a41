//! The normal form of documents: equal for a document and for the document that its row gives back.
//!
//! Members are sorted by the lower case of their names, which replaces the name. A number that an integer of
//! 64 bits equals is that integer. In well-defined mode null members are left out. Values that JSON lacks are
//! in their JSON form.

use std::cmp::Ordering;

use shardlake_document::{RawDocument, RawValue, Value, compare};

use crate::schema::{SchemaMode, TableSchema, lower_case};

/// The normal form of an item's body, without the properties that its table never has.
pub fn normal_form_of(schema: &TableSchema, body: RawDocument<'_>) -> Value {
    let document = match schema.exclusions().some() {
        Some(exclude) => exclude.without(RawValue::Object(body)),
        None => Value::from_document(body),
    };
    normal_form(schema.mode(), document)
}

/// The normal form of a value.
pub fn normal_form(mode: SchemaMode, value: Value) -> Value {
    match value {
        Value::Double(number) => normal_number(number),
        Value::Array(elements) => {
            Value::Array(elements.into_iter().map(|element| normal_form(mode, element)).collect())
        }
        Value::Object(members) => {
            let is_kept = |value: &Value| mode.is_full_fidelity() || *value != Value::Null;
            let kept = members.into_iter().filter(|(_, value)| is_kept(value));
            let mut members: Vec<(String, Value)> = kept
                .map(|(name, value)| (lower_case(&name).into_owned(), normal_form(mode, value)))
                .collect();
            members.sort_by(|(left, one), (right, other)| left.cmp(right).then_with(|| by_value(one, other)));
            Value::Object(members)
        }
        value => value,
    }
}

fn normal_number(number: f64) -> Value {
    let is_negative_zero = number == 0.0 && number.is_sign_negative();
    let is_whole = number.fract() == 0.0 && (-TWO_POW_63..TWO_POW_63).contains(&number);
    if is_whole && !is_negative_zero { Value::Int(number as i64) } else { Value::Double(number) }
}

const TWO_POW_63: f64 = 9_223_372_036_854_775_808.0;

/// An order of values of one name in several spellings.
fn by_value(one: &Value, other: &Value) -> Ordering {
    compare(one, other).then_with(|| format!("{one:?}").cmp(&format!("{other:?}")))
}
