//! The index terms of an item, counted for its charge: one per distinct (indexed path, scalar value).
//!
//! Terms below arrays are charged up to [`ELEMENT_TERMS_CHARGED_MAX`]: for an item with more, the index holds
//! summaries of its arrays (`terms.rs`), and further values cause no more work. Terms outside of arrays are
//! never summarised, and each is charged.
//!
//! Only hashes are kept; two terms that collide in 63 bits would be counted as one, an error too rare to
//! notice.

use std::hash::Hasher;

use rustc_hash::FxHasher;
use shardlake_document::{RawDocument, RawValue};
use shardlake_model::{PathMatcher, PathState};

use crate::path_hash::{ROOT_HASH, hash_of_elements, hash_of_member};

/// Sorted, distinct hashes of an item's terms, without the system terms. The lowest bit of a hash records
/// whether the term is below an array.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TermSet(Vec<u64>);

/// Terms that every indexed item has besides its own: `id` and `_ts`.
pub const SYSTEM_TERMS: u64 = 2;

/// Terms below arrays that one version of an item is charged for.
pub(crate) const ELEMENT_TERMS_CHARGED_MAX: u64 = 8192;

const OF_ELEMENT: u64 = 1;

/// Terms outside of arrays and below them.
#[derive(Default)]
struct Counted {
    outside: u64,
    below: u64,
}

impl Counted {
    fn add(&mut self, terms: &[u64]) {
        let below = terms.iter().filter(|term| *term & OF_ELEMENT == OF_ELEMENT).count();
        self.below += below as u64;
        self.outside += (terms.len() - below) as u64;
    }

    fn charged(&self) -> u64 {
        self.outside + self.below.min(ELEMENT_TERMS_CHARGED_MAX)
    }
}

impl TermSet {
    pub fn of(document: RawDocument<'_>, paths: &PathMatcher) -> TermSet {
        let Some(mut charged) = Charged::by(paths) else { return TermSet::default() };
        let root = charged.root();
        charged.object(document, ROOT_HASH, root);
        #[cfg(feature = "testing")]
        crate::witness::note(charged.terms.len());
        charged.finish()
    }

    /// The number of charged terms.
    pub fn charged(&self) -> u64 {
        let mut counted = Counted::default();
        counted.add(&self.0);
        counted.charged()
    }

    /// The number of terms, charged or not.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The number of terms charged for a replace: those that `new` lacks, and those that it adds.
    pub fn difference(&self, new: &TermSet) -> (u64, u64) {
        debug_assert!(self.0.is_sorted() && new.0.is_sorted(), "sets of terms are compared in their order");
        let (mut removed, mut added) = (Counted::default(), Counted::default());
        let (mut old, mut new) = (self.0.as_slice(), new.0.as_slice());
        while let ([a, old_rest @ ..], [b, new_rest @ ..]) = (old, new) {
            match a.cmp(b) {
                std::cmp::Ordering::Less => {
                    removed.add(&old[..1]);
                    old = old_rest;
                }
                std::cmp::Ordering::Greater => {
                    added.add(&new[..1]);
                    new = new_rest;
                }
                std::cmp::Ordering::Equal => (old, new) = (old_rest, new_rest),
            }
        }
        removed.add(old);
        added.add(new);
        (removed.charged(), added.charged())
    }
}

/// The position in the charge's policy, and whether it is below an array.
#[derive(Clone, Copy)]
pub(crate) struct ChargedState {
    path: PathState,
    is_element: bool,
}

impl ChargedState {
    pub fn outside_arrays(path: PathState) -> ChargedState {
        ChargedState { path, is_element: false }
    }
}

/// The terms of a body under construction.
pub(crate) struct Charged<'p> {
    terms: Vec<u64>,
    paths: &'p PathMatcher,
    /// Whether the policy leaves anything out.
    filters: bool,
}

impl<'p> Charged<'p> {
    /// `None` if the policy charges for nothing.
    pub fn by(paths: &'p PathMatcher) -> Option<Charged<'p>> {
        let filters = !paths.indexes_everything();
        paths.indexes_anything().then(|| Charged { terms: Vec::with_capacity(32), paths, filters })
    }

    pub fn finish(mut self) -> TermSet {
        self.terms.sort_unstable();
        self.terms.dedup();
        TermSet(self.terms)
    }

    pub fn root(&self) -> ChargedState {
        ChargedState::outside_arrays(self.paths.root())
    }

    pub fn member(&self, state: ChargedState, name: &str) -> ChargedState {
        let path = if self.filters { self.paths.member(state.path, name) } else { state.path };
        ChargedState { path, ..state }
    }

    pub fn elements(&self, state: ChargedState) -> ChargedState {
        let path = if self.filters { self.paths.elements(state.path) } else { state.path };
        ChargedState { path, is_element: true }
    }

    pub fn covers_nothing_below(&self, state: ChargedState) -> bool {
        self.filters && self.paths.covers_nothing_below(state.path)
    }

    pub fn scalar(&mut self, value: RawValue<'_>, path_hash: u64, state: ChargedState) {
        if !self.filters || self.paths.covers(state.path) {
            let hash = scalar_hash(value, path_hash) & !OF_ELEMENT;
            self.terms.push(if state.is_element { hash | OF_ELEMENT } else { hash });
        }
    }

    fn object(&mut self, document: RawDocument<'_>, path_hash: u64, state: ChargedState) {
        for (name, value) in document.iter() {
            let state = self.member(state, name);
            self.value(value, hash_of_member(path_hash, name), state);
        }
    }

    /// Adds all terms of a value.
    pub fn value(&mut self, value: RawValue<'_>, path_hash: u64, state: ChargedState) {
        match value {
            RawValue::Object(document) => self.object(document, path_hash, state),
            RawValue::NonJson(value) => self.object(value.shown().raw(), path_hash, state),
            RawValue::Array(array) => {
                // Elements share one path: a term means that some element has the value.
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
        assert_eq!(terms(r#"{"id":"1","name":"x"}"#, "{}").charged(), 2);
        assert_eq!(terms(r#"{"tags":["a","b","a"],"o":{"p":1,"q":null}}"#, "{}").charged(), 4);
        assert_eq!(terms(r#"{"a":1,"b":1}"#, "{}").charged(), 2);
        assert_eq!(terms(r#"{"a":[],"b":{}}"#, "{}").charged(), 0);
    }

    #[test]
    fn excluded_paths_and_mode_none_cost_no_terms() {
        let policy = r#"{"includedPaths":[{"path":"/*"}],"excludedPaths":[{"path":"/big/*"}]}"#;
        assert_eq!(terms(r#"{"id":"1","big":{"a":1,"b":[1,2,3]}}"#, policy).charged(), 1);
        assert_eq!(terms(r#"{"id":"1"}"#, r#"{"indexingMode":"none","automatic":false}"#).charged(), 0);
    }

    #[test]
    fn terms_below_arrays_are_charged_up_to_a_maximum_and_others_each() {
        let most = ELEMENT_TERMS_CHARGED_MAX;
        let numbers = |range: std::ops::Range<u64>| {
            range.map(|number| number.to_string()).collect::<Vec<_>>().join(",")
        };
        let of_list = |range| terms(&format!(r#"{{"id":"1","list":[{}]}}"#, numbers(range)), "{}");
        let (small, large, other) = (of_list(0..100), of_list(0..9000), of_list(9000..18_000));
        assert_eq!([small.charged(), large.charged(), other.charged()], [101, most + 1, most + 1]);
        assert_eq!(large.len(), 9001);
        assert_eq!(small.difference(&large), (0, most));
        assert_eq!(large.difference(&other), (most, most));
        let members: Vec<String> = (0..9000).map(|number| format!("\"p{number}\":{{\"q\":0}}")).collect();
        assert_eq!(terms(&format!("{{{}}}", members.join(",")), "{}").charged(), 9000);
    }

    #[test]
    fn a_replace_counts_what_changed() {
        let old = terms(r#"{"id":"1","a":1,"b":2,"c":1}"#, "{}");
        let new = terms(r#"{"id":"1","a":1,"b":3,"d":1,"e":1}"#, "{}");
        assert_eq!(old.difference(&new), (2, 3));
        assert_eq!(old.difference(&old), (0, 0));
    }
}
