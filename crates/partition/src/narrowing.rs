//! Whether a unique key of a collection is about an item ([`Narrowing`]).

use std::cmp::Ordering;

use shardlake_collation::Collation;
use shardlake_document::{BsonKind, RawDocument, RawValue, compare_raw};
use shardlake_model::{ItemRule, KeyPath, Narrowing, RuleScalar, ValueKind, ValueTest};

/// Whether a unique key over these paths is about an item.
pub(crate) fn is_about(
    (narrowing, collation): (&Narrowing, &Collation),
    item: RawDocument<'_>,
    paths: &[KeyPath],
) -> bool {
    let judge = Judge { item, collation };
    match narrowing {
        Narrowing::Sparse => paths.iter().any(|path| judge.passes(&path.0, &ValueTest::Exists)),
        Narrowing::Where(rule) => judge.holds(rule),
        Narrowing::Collated { narrowing, .. } => {
            narrowing.as_deref().is_none_or(|narrowing| is_about((narrowing, collation), item, paths))
        }
    }
}

/// One item, and the collation that compares its strings.
struct Judge<'i> {
    item: RawDocument<'i>,
    collation: &'i Collation,
}

impl Judge<'_> {
    fn holds(&self, rule: &ItemRule) -> bool {
        match rule {
            ItemRule::All(rules) => rules.iter().all(|rule| self.holds(rule)),
            ItemRule::Any(rules) => rules.iter().any(|rule| self.holds(rule)),
            ItemRule::At { path, test } => self.passes(path, test),
        }
    }

    fn passes(&self, path: &[String], test: &ValueTest) -> bool {
        let mut found = Vec::new();
        reach(RawValue::Object(self.item), path, &mut found);
        let of_nothing = matches!(test, ValueTest::Null) && found.is_empty();
        of_nothing || found.iter().any(|value| value_passes(*value, test, self.collation))
    }
}

/// The values at a path, those of arrays with their elements; nothing where there is nothing.
fn reach<'d>(value: RawValue<'d>, path: &[String], found: &mut Vec<RawValue<'d>>) {
    match (value, path.split_first()) {
        (RawValue::Array(array), None) => {
            found.push(value);
            found.extend(array.iter());
        }
        (value, None) => found.push(value),
        (RawValue::Object(document), Some((name, rest))) => {
            if let Some(value) = document.get(name) {
                reach(value, rest, found);
            }
        }
        (RawValue::Array(array), Some(_)) => {
            let documents = array.iter().filter(|element| matches!(element, RawValue::Object(_)));
            documents.for_each(|element| reach(element, path, found));
        }
        _ => {}
    }
}

fn value_passes(value: RawValue<'_>, test: &ValueTest, collation: &Collation) -> bool {
    let compared = |operand: &RuleScalar, wanted: &[Ordering]| {
        compare_scalar(value, operand, collation).is_some_and(|order| wanted.contains(&order))
    };
    match test {
        ValueTest::Exists => true,
        ValueTest::Null => matches!(value, RawValue::Null),
        ValueTest::Equal(operand) => compared(operand, &[Ordering::Equal]),
        ValueTest::Greater(operand) => compared(operand, &[Ordering::Greater]),
        ValueTest::AtLeast(operand) => compared(operand, &[Ordering::Greater, Ordering::Equal]),
        ValueTest::Less(operand) => compared(operand, &[Ordering::Less]),
        ValueTest::AtMost(operand) => compared(operand, &[Ordering::Less, Ordering::Equal]),
        ValueTest::Kind(kind) => match kind {
            ValueKind::Null => matches!(value, RawValue::Null),
            ValueKind::Bool => matches!(value, RawValue::Bool(_)),
            ValueKind::Number => is_number(value),
            ValueKind::String => matches!(value, RawValue::String(_)),
            ValueKind::Array => matches!(value, RawValue::Array(_)),
            ValueKind::Document => matches!(value, RawValue::Object(_)),
            ValueKind::Double => matches!(value, RawValue::Double(_)) || is_of(value, BsonKind::Double),
            ValueKind::Decimal => is_of(value, BsonKind::Decimal128),
            ValueKind::Binary => is_of(value, BsonKind::Binary),
            ValueKind::ObjectId => is_of(value, BsonKind::ObjectId),
            ValueKind::Date => is_of(value, BsonKind::Date),
            ValueKind::Timestamp => is_of(value, BsonKind::Timestamp),
            ValueKind::Regex => is_of(value, BsonKind::Regex),
            ValueKind::MinKey => is_of(value, BsonKind::MinKey),
            ValueKind::MaxKey => is_of(value, BsonKind::MaxKey),
        },
    }
}

fn is_of(value: RawValue<'_>, kind: BsonKind) -> bool {
    matches!(value, RawValue::NonJson(other) if other.kind() == Some(kind))
}

/// `None` for values of different kinds, and for values that are no number.
fn compare_scalar(value: RawValue<'_>, operand: &RuleScalar, collation: &Collation) -> Option<Ordering> {
    match operand {
        RuleScalar::Bool(operand) => match value {
            RawValue::Bool(value) => Some(value.cmp(operand)),
            _ => None,
        },
        RuleScalar::String(operand) => match value {
            RawValue::String(value) => Some(collation.compare(value, operand)),
            _ => None,
        },
        RuleScalar::Int(operand) => Some(compare_raw(number(value)?, RawValue::Int(*operand))),
        RuleScalar::Double(operand) => Some(compare_raw(number(value)?, RawValue::Double(*operand))),
    }
}

/// A number; of a decimal the nearest double.
fn number(value: RawValue<'_>) -> Option<RawValue<'_>> {
    match value {
        RawValue::Int(_) | RawValue::Double(_) => Some(value),
        RawValue::NonJson(other) => other.number().map(RawValue::Double),
        _ => None,
    }
    .filter(|number| !matches!(number, RawValue::Double(double) if double.is_nan()))
}

fn is_number(value: RawValue<'_>) -> bool {
    match value {
        RawValue::Int(_) | RawValue::Double(_) => true,
        RawValue::NonJson(other) => other.number().is_some(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use shardlake_document::{ParseLimits, parse_item};

    use super::*;

    fn at(path: &str, test: ValueTest) -> Narrowing {
        Narrowing::Where(ItemRule::At { path: path.split('.').map(str::to_owned).collect(), test })
    }

    fn is_about_json(narrowing: &Narrowing, json: &str) -> bool {
        let body = parse_item(json.as_bytes(), &ParseLimits::default()).expect("JSON");
        let paths = [KeyPath::parse("/a").expect("a path"), KeyPath::parse("/b/c").expect("a path")];
        is_about((narrowing, &Collation::simple()), body.raw(), &paths)
    }

    #[test]
    fn a_sparse_key_is_about_items_that_have_one_of_its_paths() {
        for (json, expected) in [
            (r#"{"a":null}"#, true),
            (r#"{"b":{"c":1}}"#, true),
            (r#"{"b":[{"x":1},{"c":1}]}"#, true),
            (r#"{"a":[]}"#, true),
            (r#"{"b":{"x":1}}"#, false),
            (r#"{"b":[{"x":1}]}"#, false),
            (r#"{}"#, false),
        ] {
            assert_eq!(is_about_json(&Narrowing::Sparse, json), expected, "{json}");
        }
    }

    #[test]
    fn rules_compare_values_of_one_kind() {
        use RuleScalar::{Bool, Double, Int, String};
        for (test, json, expected) in [
            (ValueTest::Equal(Int(3)), r#"{"a":3.0}"#, true),
            (ValueTest::Equal(Int(3)), r#"{"a":[1,3]}"#, true),
            (ValueTest::Equal(Int(3)), r#"{"a":"3"}"#, false),
            (ValueTest::Equal(Bool(true)), r#"{"a":true}"#, true),
            (ValueTest::Equal(Bool(true)), r#"{"a":1}"#, false),
            (ValueTest::Greater(Double(2.5)), r#"{"a":3}"#, true),
            (ValueTest::Greater(Double(2.5)), r#"{"a":2.5}"#, false),
            (ValueTest::AtLeast(Double(2.5)), r#"{"a":2.5}"#, true),
            (ValueTest::Less(String("m".into())), r#"{"a":"b"}"#, true),
            (ValueTest::Less(String("m".into())), r#"{"a":1}"#, false),
            (ValueTest::AtMost(Int(1)), r#"{}"#, false),
            (ValueTest::Null, r#"{}"#, true),
            (ValueTest::Null, r#"{"a":null}"#, true),
            (ValueTest::Null, r#"{"a":0}"#, false),
            (ValueTest::Kind(ValueKind::String), r#"{"a":"x"}"#, true),
            (ValueTest::Kind(ValueKind::Array), r#"{"a":[]}"#, true),
            (ValueTest::Kind(ValueKind::Number), r#"{"a":"x"}"#, false),
        ] {
            assert_eq!(is_about_json(&at("a", test.clone()), json), expected, "{test:?} of {json}");
        }
    }

    #[test]
    fn rules_join() {
        let [one, two] = [("a", 1), ("b.c", 2)].map(|(path, number)| ItemRule::At {
            path: path.split('.').map(str::to_owned).collect(),
            test: ValueTest::Equal(RuleScalar::Int(number)),
        });
        let all = Narrowing::Where(ItemRule::All(vec![one.clone(), two.clone()]));
        let any = Narrowing::Where(ItemRule::Any(vec![one, two]));
        for (json, is_all, is_any) in [
            (r#"{"a":1,"b":{"c":2}}"#, true, true),
            (r#"{"b":{"c":2}}"#, false, true),
            (r#"{"a":2}"#, false, false),
        ] {
            assert_eq!((is_about_json(&all, json), is_about_json(&any, json)), (is_all, is_any), "{json}");
        }
    }
}
