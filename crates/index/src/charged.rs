//! The index terms of an item, counted for its charge: one per distinct (indexed path, scalar value).
//!
//! Only hashes are kept; two terms that collide in 64 bits would be counted as one, which no user can notice.

use std::hash::Hasher;

use rustc_hash::FxHasher;
use shardlake_document::{RawDocument, RawValue};
use shardlake_model::{PathMatcher, PathState};

use crate::path_hash::{ROOT_HASH, hash_of_elements, hash_of_member};

/// Sorted, distinct hashes of an item's terms, without the system terms.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TermSet(Vec<u64>);

/// Terms that every indexed item has besides its own: `id` and `_ts`.
pub const SYSTEM_TERMS: u64 = 2;

impl TermSet {
    pub fn of(document: RawDocument<'_>, paths: &PathMatcher) -> TermSet {
        let Some(mut charged) = Charged::by(paths) else { return TermSet::default() };
        charged.object(document, ROOT_HASH, paths.root());
        #[cfg(feature = "testing")]
        crate::witness::note(charged.terms.len());
        charged.finish()
    }

    pub fn len(&self) -> u64 {
        self.0.len() as u64
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many terms `new` lacks and how many it adds.
    pub fn difference(&self, new: &TermSet) -> (u64, u64) {
        let (mut removed, mut added) = (0, 0);
        let (mut old, mut new) = (self.0.as_slice(), new.0.as_slice());
        while let ([a, old_rest @ ..], [b, new_rest @ ..]) = (old, new) {
            match a.cmp(b) {
                std::cmp::Ordering::Less => (removed, old) = (removed + 1, old_rest),
                std::cmp::Ordering::Greater => (added, new) = (added + 1, new_rest),
                std::cmp::Ordering::Equal => (old, new) = (old_rest, new_rest),
            }
        }
        (removed + old.len() as u64, added + new.len() as u64)
    }
}

/// The terms of a body in the making.
pub(crate) struct Charged<'p> {
    terms: Vec<u64>,
    paths: &'p PathMatcher,
    /// Whether the policy leaves anything out.
    filters: bool,
}

impl<'p> Charged<'p> {
    /// `None` where the policy charges for nothing.
    pub fn by(paths: &'p PathMatcher) -> Option<Charged<'p>> {
        let filters = !paths.indexes_everything();
        paths.indexes_anything().then(|| Charged { terms: Vec::with_capacity(32), paths, filters })
    }

    pub fn finish(mut self) -> TermSet {
        self.terms.sort_unstable();
        self.terms.dedup();
        TermSet(self.terms)
    }

    pub fn root(&self) -> PathState {
        self.paths.root()
    }

    pub fn member(&self, state: PathState, name: &str) -> PathState {
        if self.filters { self.paths.member(state, name) } else { state }
    }

    pub fn elements(&self, state: PathState) -> PathState {
        if self.filters { self.paths.elements(state) } else { state }
    }

    pub fn covers_nothing_below(&self, state: PathState) -> bool {
        self.filters && self.paths.covers_nothing_below(state)
    }

    pub fn scalar(&mut self, value: RawValue<'_>, path_hash: u64, state: PathState) {
        if !self.filters || self.paths.covers(state) {
            self.terms.push(scalar_hash(value, path_hash));
        }
    }

    fn object(&mut self, document: RawDocument<'_>, path_hash: u64, state: PathState) {
        for (name, value) in document.iter() {
            let state = self.member(state, name);
            self.value(value, hash_of_member(path_hash, name), state);
        }
    }

    /// All of a value.
    pub fn value(&mut self, value: RawValue<'_>, path_hash: u64, state: PathState) {
        match value {
            RawValue::Object(document) => self.object(document, path_hash, state),
            RawValue::NonJson(value) => self.object(value.shown().raw(), path_hash, state),
            RawValue::Array(array) => {
                // Elements share one path: a term says that some element has the value.
                let (path_hash, state) = (hash_of_elements(path_hash), self.elements(state));
                for element in array.iter() {
                    self.value(element, path_hash, state);
                }
            }
            scalar => self.scalar(scalar, path_hash, state),
        }
    }
}

fn scalar_hash(value: RawValue<'_>, path_hash: u64) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write_u64(path_hash);
    match value {
        RawValue::Null => hasher.write_u8(1),
        RawValue::Bool(value) => hasher.write_u8(2 + u8::from(value)),
        // 1 and 1.0 are the same value to the index.
        RawValue::Int(number) if number.unsigned_abs() <= 1 << 53 => {
            hasher.write_u8(5);
            hasher.write_u64((number as f64).to_bits());
        }
        RawValue::Int(number) => {
            hasher.write_u8(6);
            hasher.write_i64(number);
        }
        RawValue::Double(number) => {
            hasher.write_u8(5);
            hasher.write_u64(number.to_bits());
        }
        RawValue::String(text) => {
            hasher.write_u8(8);
            hasher.write(text.as_bytes());
        }
        RawValue::Array(_) | RawValue::Object(_) | RawValue::NonJson(_) => {
            unreachable!("containers are walked, not hashed")
        }
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use shardlake_document::{ParseLimits, parse_document};
    use shardlake_model::{IndexingPolicy, Limits};

    fn terms(json: &str, policy: &str) -> TermSet {
        let policy: IndexingPolicy = serde_json::from_str(policy).expect("a policy");
        let matcher = policy.normalise(&Limits::default()).expect("valid").matcher();
        let body = parse_document(json.as_bytes(), &ParseLimits::default()).expect("valid");
        TermSet::of(body.raw(), &matcher)
    }

    #[test]
    fn leaves_are_counted_once_per_path_and_value() {
        assert_eq!(terms(r#"{"id":"1","name":"x"}"#, "{}").len(), 2);
        assert_eq!(terms(r#"{"tags":["a","b","a"],"o":{"p":1,"q":null}}"#, "{}").len(), 4);
        assert_eq!(terms(r#"{"a":1,"b":1}"#, "{}").len(), 2);
        assert_eq!(terms(r#"{"a":[],"b":{}}"#, "{}").len(), 0);
    }

    #[test]
    fn excluded_paths_and_mode_none_cost_no_terms() {
        let policy = r#"{"includedPaths":[{"path":"/*"}],"excludedPaths":[{"path":"/big/*"}]}"#;
        assert_eq!(terms(r#"{"id":"1","big":{"a":1,"b":[1,2,3]}}"#, policy).len(), 1);
        assert_eq!(terms(r#"{"id":"1"}"#, r#"{"indexingMode":"none","automatic":false}"#).len(), 0);
    }

    #[test]
    fn a_replace_counts_what_changed() {
        let old = terms(r#"{"id":"1","a":1,"b":2,"c":1}"#, "{}");
        let new = terms(r#"{"id":"1","a":1,"b":3,"d":1,"e":1}"#, "{}");
        assert_eq!(old.difference(&new), (2, 3));
        assert_eq!(old.difference(&old), (0, 0));
    }
}
