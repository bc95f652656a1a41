//! Lists of constants, hashed once for a query: `c.x IN (1, 2, …)`, `ARRAY_CONTAINS(@list, c.x)`.
//!
//! A value is in the set exactly when `=` is true of it and one of the constants: undefined and NaN are equal to nothing, numbers are
//! equal by value whether they are integers or doubles, arrays and objects by structure.

use std::collections::HashSet;

use shardlake_document::Value;

use crate::value::aggregate::identity;
use crate::value::datum::Datum;

/// Shorter lists are searched linearly, which is as fast and needs no set.
const CONSTANTS_MIN: usize = 16;

#[derive(Debug)]
pub(crate) struct ConstantSet {
    /// Texts, the most frequent kind, are looked up without a copy.
    texts: HashSet<Box<str>>,
    /// [`identity`] of all others.
    others: HashSet<Vec<u8>>,
    has_compounds: bool,
}

impl ConstantSet {
    /// `None` where a list is short.
    pub fn of<'v>(constants: impl ExactSizeIterator<Item = &'v Value>) -> Option<ConstantSet> {
        if constants.len() < CONSTANTS_MIN {
            return None;
        }
        let mut set = ConstantSet { texts: HashSet::new(), others: HashSet::new(), has_compounds: false };
        for constant in constants {
            match constant {
                Value::Undefined => {}
                Value::Double(number) if number.is_nan() => {}
                Value::String(text) => {
                    set.texts.insert(text.as_str().into());
                }
                other => {
                    set.has_compounds |= Datum::from_tree(other).is_compound();
                    set.others.insert(identity(other));
                }
            }
        }
        Some(set)
    }

    /// Whether the value equals one of the constants.
    pub fn contains(&self, value: &Datum<'_>) -> bool {
        match value {
            Datum::Undefined => false,
            Datum::Number(number) if number.as_f64().is_nan() => false,
            Datum::String(text) => self.texts.contains(&**text),
            compound if compound.is_compound() && !self.has_compounds => false,
            other => self.others.contains(&identity(&other.to_value())),
        }
    }

    /// Extra steps to look a value up, besides evaluating it.
    pub fn steps(&self, value: &Datum<'_>) -> u64 {
        if value.is_compound() && !self.has_compounds { 1 } else { 2 + value.read_steps() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn scalars() -> impl Strategy<Value = Value> {
        let integers = [0, 1, -1, 9_007_199_254_740_992, 9_007_199_254_740_993, i64::MAX, i64::MIN];
        let doubles = [
            0.0,
            -0.0,
            1.0,
            0.5,
            9_007_199_254_740_992.0,
            9.223_372_036_854_776e18,
            -9.223_372_036_854_776e18,
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
        ];
        let texts = ["", "a", "A", "1", "\u{0}", "é", "\u{FFFF}", "😀", "true"];
        prop_oneof![
            Just(Value::Undefined),
            Just(Value::Null),
            any::<bool>().prop_map(Value::Bool),
            prop::sample::select(integers.to_vec()).prop_map(Value::Int),
            prop::sample::select(doubles.to_vec()).prop_map(Value::Double),
            prop::sample::select(texts.to_vec()).prop_map(|text| Value::String(text.into())),
        ]
    }

    /// Names may come in any order, members may be undefined.
    fn values() -> impl Strategy<Value = Value> {
        scalars().prop_recursive(2, 8, 3, |inner| {
            let members = prop::collection::btree_map("[ab]", inner.clone(), 0..3);
            let members = (members, any::<bool>()).prop_map(|(members, is_reversed)| {
                let mut members: Vec<(String, Value)> = members.into_iter().collect();
                if is_reversed {
                    members.reverse();
                }
                Value::Object(members)
            });
            prop_oneof![prop::collection::vec(inner, 0..3).prop_map(Value::Array), members]
        })
    }

    proptest! {
        #[test]
        fn hashed_list_has_what_a_walk_over_it_finds(
            constants in prop::collection::vec(values(), CONSTANTS_MIN..40),
            wanted in prop::collection::vec(values(), 1..40),
        ) {
            let set = ConstantSet::of(constants.iter()).expect("the list is long enough");
            for wanted in wanted.iter().chain(&constants) {
                let datum = Datum::from_tree(wanted);
                let is_equal = |constant: &Value| datum.equals(&Datum::from_tree(constant)) == Some(true);
                prop_assert_eq!(set.contains(&datum), constants.iter().any(is_equal), "{:?}", wanted);
            }
        }
    }
}
