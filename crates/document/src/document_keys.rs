//! The values that an item of a collection has for an index, by MongoDB's rules.
//!
//! ```text
//! paths a.b, c    item {a: [{b: 1}, {b: 2}, 7], c: 3}     values (1, 3), (2, 3), (nothing, 3)
//! path  a.0       item {a: [[1, 2], 3]}                   value  [1, 2]
//! ```
//!
//! An array on a path is taken apart, one element at a time, for all paths that pass it: so the values of one element stay
//! together. Paths that pass two arrays side by side have no values by these rules ([`Misfit::Parallel`]).

use shardlake_model::KeyPath;

use crate::raw::{RawArray, RawDocument, RawValue};

/// Combinations of elements that one item may have in one unique key.
pub const UNIQUE_COMBINATIONS_MAX: usize = 1000;

/// Stands for an array without elements at the end of a path: one value, unlike every other.
pub const NO_ELEMENTS: &str = "\u{0}[]";

/// Why an item has no place in an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Misfit {
    /// Two paths, by their place in the index, pass different arrays.
    Parallel(usize, usize),
    /// The path has a number that is the position of an element, and a name in an element as well.
    Ambiguous(usize),
}

#[derive(Debug, Clone, Copy)]
enum Field<'d, 'p> {
    Known(Option<RawValue<'d>>),
    /// An array is in the way, or at the end of the path.
    Array(RawArray<'d>, &'p [String]),
}

/// The combinations of values that an item has at some paths, up to one above the limit, and the
/// reason why they do not fit, if any. In that case the combinations up to the misfit are returned
/// as well.
pub fn keys_of<'d>(
    item: RawDocument<'d>,
    paths: &[KeyPath],
) -> (Vec<Vec<Option<RawValue<'d>>>>, Option<Misfit>) {
    let fields = paths.iter().map(|path| follow(RawValue::Object(item), &path.0)).collect();
    let mut keys = Keys { found: Vec::new(), misfit: None };
    keys.expand(fields);
    (keys.found, keys.misfit)
}

/// The reason that keeps an item out of an index over these paths.
pub fn misfit_of(paths: &[KeyPath], item: RawDocument<'_>) -> Option<Misfit> {
    keys_of(item, paths).1
}

/// As far as a path goes without an array.
fn follow<'d, 'p>(mut value: RawValue<'d>, mut path: &'p [String]) -> Field<'d, 'p> {
    loop {
        match (value, path.split_first()) {
            (RawValue::Array(array), _) => return Field::Array(array, path),
            (value, None) => return Field::Known(Some(value)),
            (RawValue::Object(document), Some((name, rest))) => match document.get(name) {
                Some(inner) => (value, path) = (inner, rest),
                None => return Field::Known(None),
            },
            _ => return Field::Known(None),
        }
    }
}

struct Keys<'d> {
    found: Vec<Vec<Option<RawValue<'d>>>>,
    misfit: Option<Misfit>,
}

impl<'d> Keys<'d> {
    fn expand(&mut self, fields: Vec<Field<'d, '_>>) {
        if self.found.len() > UNIQUE_COMBINATIONS_MAX {
            return;
        }
        let arrays = || {
            fields.iter().enumerate().filter_map(|(place, field)| match field {
                Field::Array(array, _) => Some((place, *array)),
                Field::Known(_) => None,
            })
        };
        let Some((first, array)) = arrays().next() else {
            let known = fields.iter().map(|field| match field {
                Field::Known(value) => *value,
                Field::Array(..) => None,
            });
            self.found.push(known.collect());
            return;
        };
        let is_same = |other: RawArray<'_>| std::ptr::eq(other.as_bytes(), array.as_bytes());
        if let Some((other, _)) = arrays().find(|(_, other)| !is_same(*other)) {
            self.misfit.get_or_insert(Misfit::Parallel(first, other));
        }
        if array.is_empty() {
            let taken = fields.iter().map(|field| match field {
                Field::Array(own, rest) if is_same(*own) => {
                    Field::Known(rest.is_empty().then_some(RawValue::String(NO_ELEMENTS)))
                }
                other => *other,
            });
            return self.expand(taken.collect());
        }
        for (place, rest) in fields.iter().enumerate().filter_map(|(place, field)| match field {
            Field::Array(own, rest) if is_same(*own) => Some((place, *rest)),
            _ => None,
        }) {
            if is_ambiguous(array, rest) {
                self.misfit.get_or_insert(Misfit::Ambiguous(place));
            }
        }
        let fields: Vec<(Field<'d, '_>, bool)> = fields
            .iter()
            .map(|field| match field {
                Field::Array(own, rest) if is_same(*own) => match element_at(array, rest) {
                    // The element is the value, also where it is an array.
                    Some((element, [])) => (Field::Known(Some(element)), false),
                    Some((element, rest)) => (follow(element, rest), false),
                    None => (*field, true),
                },
                other => (*other, false),
            })
            .collect();
        if !fields.iter().any(|(_, is_open)| *is_open) {
            return self.expand(fields.into_iter().map(|(field, _)| field).collect());
        }
        for element in array.iter() {
            let taken = fields.iter().map(|(field, is_open)| match field {
                Field::Array(_, rest) if *is_open => of_element(element, rest),
                other => *other,
            });
            self.expand(taken.collect());
        }
    }
}

/// The value of one element of an array at the rest of a path. Arrays in arrays are values, and are
/// not looked into.
fn of_element<'d, 'p>(element: RawValue<'d>, rest: &'p [String]) -> Field<'d, 'p> {
    match element {
        element if rest.is_empty() => Field::Known(Some(element)),
        RawValue::Object(_) => follow(element, rest),
        _ => Field::Known(None),
    }
}

/// The element that a path names by its position, and the rest of the path.
fn element_at<'d, 'p>(array: RawArray<'d>, rest: &'p [String]) -> Option<(RawValue<'d>, &'p [String])> {
    let (name, rest) = rest.split_first()?;
    Some((array.get(position(name)?)?, rest))
}

/// A number as positions are written.
fn position(name: &str) -> Option<usize> {
    let is_plain = name == "0" || !name.starts_with('0');
    (is_plain && name.bytes().all(|byte| byte.is_ascii_digit())).then(|| name.parse().ok())?
}

fn is_ambiguous(array: RawArray<'_>, rest: &[String]) -> bool {
    let Some(name) = rest.first() else { return false };
    element_at(array, rest).is_some()
        && array
            .iter()
            .any(|element| matches!(element, RawValue::Object(object) if object.get(name).is_some()))
}

#[cfg(test)]
mod tests {
    use crate::{ParseLimits, parse_item};

    use super::*;

    fn keys(paths: &[&str], json: &str) -> (Vec<String>, Option<Misfit>) {
        let body = parse_item(json.as_bytes(), &ParseLimits::default()).expect("JSON");
        let path = |path: &&str| KeyPath(path.split('.').map(str::to_owned).collect());
        let paths: Vec<KeyPath> = paths.iter().map(path).collect();
        let (found, misfit) = keys_of(body.raw(), &paths);
        let text = |value: &Option<RawValue<'_>>| match value {
            None => "-".to_owned(),
            Some(RawValue::Int(number)) => number.to_string(),
            Some(RawValue::String(text)) if text.starts_with('\0') => "none".to_owned(),
            Some(RawValue::Array(array)) => format!("[{}]", array.len()),
            Some(RawValue::Object(_)) => "{}".to_owned(),
            other => format!("{other:?}"),
        };
        let key = |key: &Vec<Option<RawValue<'_>>>| key.iter().map(text).collect::<Vec<_>>().join(",");
        (found.iter().map(key).collect(), misfit)
    }

    #[test]
    fn arrays_are_taken_apart_once() {
        for (paths, json, expected) in [
            (&["a"][..], r#"{"a":1}"#, &["1"][..]),
            (&["a"], r#"{}"#, &["-"]),
            (&["a"], r#"{"a":[1,2]}"#, &["1", "2"]),
            (&["a"], r#"{"a":[]}"#, &["none"]),
            (&["a"], r#"{"a":[[1,2],3]}"#, &["[2]", "3"]),
            (&["a.b"], r#"{"a":[]}"#, &["-"]),
            (&["a.b"], r#"{"a":[1,{"b":2},{"c":3},[{"b":4}]]}"#, &["-", "2", "-", "-"]),
            (&["a.b"], r#"{"a":[{"b":[1,2]},{"b":3}]}"#, &["1", "2", "3"]),
            (&["a.b", "c"], r#"{"a":[{"b":1},7],"c":3}"#, &["1,3", "-,3"]),
            (&["a.b", "a.c"], r#"{"a":[{"b":1,"c":2},{"b":3,"c":4}]}"#, &["1,2", "3,4"]),
            (&["a.b", "a.c"], r#"{"a":[{"b":1,"c":[2,3]},{"c":4}]}"#, &["1,2", "1,3", "-,4"]),
        ] {
            let (found, misfit) = keys(paths, json);
            assert_eq!(
                (found, misfit),
                (expected.iter().map(|key| key.to_string()).collect(), None),
                "{json}"
            );
        }
    }

    #[test]
    fn numbers_in_paths_are_positions() {
        for (paths, json, expected) in [
            (&["a.0"][..], r#"{"a":[5,6]}"#, &["5"][..]),
            (&["a.2"], r#"{"a":[5,6]}"#, &["-", "-"]),
            (&["a.0"], r#"{"a":{"0":7}}"#, &["7"]),
            (&["a.0"], r#"{"a":[[1,2],3]}"#, &["[2]"]),
            (&["a.0.b"], r#"{"a":[{"b":[1,2]},{"b":3}]}"#, &["1", "2"]),
            (&["a.1", "a.b"], r#"{"a":[{"b":8},9]}"#, &["9,8", "9,-"]),
            (&["a.00"], r#"{"a":[5]}"#, &["-"]),
            (&["a.0"], r#"{"a":[]}"#, &["-"]),
        ] {
            let (found, misfit) = keys(paths, json);
            assert_eq!(
                (found, misfit),
                (expected.iter().map(|key| key.to_string()).collect(), None),
                "{json}"
            );
        }
        assert_eq!(keys(&["a.0"], r#"{"a":[{"0":1},{"0":2}]}"#).1, Some(Misfit::Ambiguous(0)));
    }

    #[test]
    fn arrays_side_by_side_are_told() {
        let parallel = |json| keys(&["a", "b", "c.d"], json).1;
        assert_eq!(parallel(r#"{"a":[1],"b":2}"#), None);
        assert_eq!(parallel(r#"{"a":[1,2],"b":[3,4]}"#), Some(Misfit::Parallel(0, 1)));
        assert_eq!(parallel(r#"{"b":[1,2],"c":{"d":[]}}"#), Some(Misfit::Parallel(1, 2)));
        let nested = keys(&["a.b", "a.c"], r#"{"a":[{"b":[1],"c":[2]}]}"#).1;
        assert_eq!(nested, Some(Misfit::Parallel(0, 1)));
    }

    #[test]
    fn combinations_are_bounded() {
        let elements: Vec<String> = (0..3000).map(|number| number.to_string()).collect();
        let json = format!(r#"{{"a":[{}]}}"#, elements.join(","));
        assert_eq!(keys(&["a"], &json).0.len(), UNIQUE_COMBINATIONS_MAX + 1);
    }
}
