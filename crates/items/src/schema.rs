//! Schema of items: paths with the types and values that were seen at them, from a sample.
//!
//! A path is written as in indexing policies: `/tags/[]/id`, where `[]` stands for the elements of an array.
//! Shares are of the sampled items: 0.98 of a type means that 98 of 100 items have a value of this type
//! there. Distinct values are counted up to a limit, within the sample only: the count is exact if all items
//! were sampled.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{Hash, Hasher};

use shardlake_document::Value;

pub const SCHEMA_PATHS_MAX: usize = 2_000;
/// Distinct values are counted up to this number.
const DISTINCT_MAX: usize = 1_000;
const EXAMPLES_MAX: usize = 3;
const EXAMPLE_BYTES_MAX: usize = 64;
/// Limit on the elements read of one array.
const ELEMENTS_MAX: usize = 100;

/// Counts of a sample.
#[derive(Debug, Default)]
pub struct SchemaSketch {
    paths: BTreeMap<String, PathSketch>,
    items: u64,
    is_cut: bool,
}

#[derive(Debug, Default)]
struct PathSketch {
    types: BTreeMap<&'static str, u64>,
    distinct: HashSet<u64>,
    examples: Vec<String>,
}

/// The types and values at a path.
#[derive(Debug, Clone, PartialEq)]
pub struct SchemaPath {
    pub path: String,
    /// Shares of the items that have a value of a type here.
    pub types: Vec<(&'static str, f64)>,
    /// An upper bound; counts values that are neither objects nor arrays.
    pub distinct: u64,
    /// All distinct values were counted.
    pub is_counted: bool,
    /// JSON texts, short ones.
    pub examples: Vec<String>,
}

impl SchemaSketch {
    pub fn add(&mut self, item: &Value) {
        self.items += 1;
        // A type counts once per item.
        let mut seen: HashMap<String, HashSet<&'static str>> = HashMap::new();
        if let Value::Object(members) = item {
            for (name, value) in members {
                self.walk(&format!("/{name}"), value, &mut seen);
            }
        }
        for (path, types) in seen {
            let Some(sketch) = self.paths.get_mut(&path) else { continue };
            for name in types {
                *sketch.types.entry(name).or_default() += 1;
            }
        }
    }

    fn walk(&mut self, path: &str, value: &Value, seen: &mut HashMap<String, HashSet<&'static str>>) {
        if !self.paths.contains_key(path) {
            if self.paths.len() >= SCHEMA_PATHS_MAX {
                self.is_cut = true;
                return;
            }
            self.paths.insert(path.to_owned(), PathSketch::default());
        }
        seen.entry(path.to_owned()).or_default().insert(type_of(value));
        match value {
            Value::Object(members) => {
                for (name, value) in members {
                    self.walk(&format!("{path}/{name}"), value, seen);
                }
            }
            Value::Array(elements) => {
                let path = format!("{path}/[]");
                elements.iter().take(ELEMENTS_MAX).for_each(|element| self.walk(&path, element, seen));
            }
            scalar => {
                let (Ok(text), Some(sketch)) = (scalar.to_json(), self.paths.get_mut(path)) else { return };
                sketch.note(text);
            }
        }
    }

    /// In the order of the paths, and whether some were left out.
    pub fn paths(&self) -> (Vec<SchemaPath>, bool) {
        let share = |count: u64| count as f64 / self.items.max(1) as f64;
        let told = |(path, sketch): (&String, &PathSketch)| SchemaPath {
            path: path.clone(),
            types: sketch.types.iter().map(|(name, count)| (*name, share(*count))).collect(),
            distinct: sketch.distinct.len() as u64,
            is_counted: sketch.distinct.len() < DISTINCT_MAX,
            examples: sketch.examples.clone(),
        };
        (self.paths.iter().map(told).collect(), self.is_cut)
    }
}

impl PathSketch {
    fn note(&mut self, text: String) {
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        let is_new = self.distinct.len() < DISTINCT_MAX && self.distinct.insert(hasher.finish());
        if is_new && self.examples.len() < EXAMPLES_MAX && text.len() <= EXAMPLE_BYTES_MAX {
            self.examples.push(text);
        }
    }
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
        Value::Undefined => "undefined",
        _ => "number",
    }
}

#[cfg(test)]
mod tests {
    use shardlake_document::ParseLimits;

    use super::*;

    fn sketch(items: &[&str]) -> SchemaSketch {
        let mut sketch = SchemaSketch::default();
        for text in items {
            sketch.add(&Value::from_json(text.as_bytes(), &ParseLimits::default()).expect("JSON"));
        }
        sketch
    }

    #[test]
    fn types_are_shares_of_items_and_values_are_told_apart() {
        let (paths, is_cut) = sketch(&[
            r#"{"a":1,"tags":[{"id":"x"},{"id":"y"}]}"#,
            r#"{"a":"one","tags":[]}"#,
            r#"{"a":2.5}"#,
            r#"{"a":1}"#,
        ])
        .paths();
        let of = |path: &str| {
            paths.iter().find(|one| one.path == path).unwrap_or_else(|| panic!("{path}")).clone()
        };
        assert!(!is_cut);
        assert_eq!(of("/a").types, [("number", 0.75), ("string", 0.25)]);
        assert_eq!(
            (of("/a").distinct, of("/a").examples),
            (3, vec!["1".into(), "\"one\"".into(), "2.5".into()])
        );
        assert_eq!(of("/tags").types, [("array", 0.5)]);
        assert_eq!(of("/tags/[]/id").types, [("string", 0.25)]);
        assert_eq!(of("/tags/[]/id").distinct, 2);
    }

    #[test]
    fn there_is_a_bound_on_paths_and_on_examples() {
        let members: Vec<String> =
            (0..3_000).map(|number| format!(r#""m{number}":"{}""#, "x".repeat(80))).collect();
        let (paths, is_cut) = sketch(&[&format!("{{{}}}", members.join(","))]).paths();
        assert!(is_cut && paths.len() == SCHEMA_PATHS_MAX);
        assert!(paths.iter().all(|path| path.examples.is_empty()));
    }
}
