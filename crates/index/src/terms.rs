//! The postings of one item: a walk over its body, which can also count its charge.
//!
//! Each term is a row of the commit that writes the item. To keep commits short, a layout has a
//! maximum of exact terms. An item with more has one *summary term* for each of its large arrays,
//! in the place of all terms below that array:
//!
//! ```text
//! {"id":"1","tags":["a","b"],"n":[1,2,…,300000]}
//! /id, /tags, /tags/[], /tags/[], /n    one term per value, as in any item
//! summary of /n/[]                      in the place of 300,000 terms
//! ```
//! A condition on array elements also meets the items with a summary of the outermost array on its
//! path, and decides by their values. Properties outside of arrays keep their terms: orders, counts
//! and composites know every item.
//!
//! All terms are in one buffer, each known by its path hash and its place, so that an item costs two
//! allocations and most comparisons of the sort are of one integer.

use rustc_hash::FxHashSet;
use shardlake_document::{
    ItemView, RawDocument, RawValue, TypeTag, Value, encode_index_value, encode_index_value_raw,
};
use shardlake_model::{PathMatcher, PathState};

use crate::charged::{Charged, ChargedState, TermSet};
use crate::layout::IndexLayout;
use crate::path_hash::{ROOT_HASH, hash_of_elements, hash_of_member, hash_of_summary};

/// Distinct terms that an array keeps exact. The second bound holds if the first leaves the item with
/// too many terms.
const ARRAY_TERMS_MAX: [usize; 2] = [256, 1];

/// The term of a [`summary_hash`](crate::summary_hash): the value is null.
pub fn summary_term(summary_hash: u64) -> [u8; 9] {
    let mut term = [TypeTag::Null as u8; 9];
    term[..HASH].copy_from_slice(&summary_hash.to_be_bytes());
    term
}

/// The terms of an item under one layout, distinct and sorted: path hash and index value each.
#[derive(Debug, Clone, Default)]
pub struct ItemTerms {
    bytes: Vec<u8>,
    spans: Vec<Span>,
    /// The number of terms without summaries.
    found: usize,
}

/// The place of a term in the buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    path_hash: u64,
    start: u32,
    end: u32,
}

const HASH: usize = 8;
const _: () = assert!(HASH == size_of::<u64>(), "a term begins with the hash of its path");

impl ItemTerms {
    pub fn of(item: &ItemView<'_>, layout: &IndexLayout) -> ItemTerms {
        let (mut terms, _) = ItemTerms::of_body(item.body, layout, None);
        terms.push_rest(item, layout);
        terms.sort();
        debug_assert!(terms.iter().is_sorted(), "terms are compared in their order");
        terms
    }

    /// The terms that follow from the body alone, and those that the policy of `paths` charges for.
    pub fn of_body(
        body: RawDocument<'_>,
        layout: &IndexLayout,
        paths: Option<&PathMatcher>,
    ) -> (ItemTerms, TermSet) {
        let charged = paths.and_then(Charged::by);
        let (mut terms, charged) = ItemTerms::walked(body, layout, (None, charged));
        terms.sort();
        let found = terms.len();
        for array_terms_max in ARRAY_TERMS_MAX {
            if layout.exact_terms_max.is_some_and(|max| terms.len() > max) {
                (terms, _) = ItemTerms::walked(body, layout, (Some(array_terms_max), None));
                terms.sort();
            }
        }
        assert!(terms.len() <= found, "summaries never add terms");
        (ItemTerms { found, ..terms }, charged)
    }

    /// The terms that do not follow from the body alone, disjoint from those of `of_body`.
    pub fn of_rest(item: &ItemView<'_>, layout: &IndexLayout) -> ItemTerms {
        let mut terms = ItemTerms::default();
        terms.push_rest(item, layout);
        terms.sort();
        debug_assert!(terms.iter().is_sorted_by(|left, right| left < right), "each term is written once");
        terms
    }

    fn walked<'l>(
        body: RawDocument<'_>,
        layout: &'l IndexLayout,
        (array_terms_max, charged): (Option<usize>, Option<Charged<'l>>),
    ) -> (ItemTerms, TermSet) {
        let terms = ItemTerms { bytes: Vec::with_capacity(768), spans: Vec::with_capacity(40), found: 0 };
        let filters = !layout.paths.indexes_everything();
        let mut walk = Walk { terms, layout, filters, array_terms_max, charged };
        walk.item(body);
        #[cfg(feature = "testing")]
        crate::witness::note(walk.terms.len());
        (walk.terms, walk.charged.map(Charged::finish).unwrap_or_default())
    }

    /// The terms that depend on more than one place of the body, or on the version.
    fn push_rest(&mut self, item: &ItemView<'_>, layout: &IndexLayout) {
        let terms = self;
        let seconds = item.envelope.timestamp_seconds() as i64;
        terms.push(hash_of_member(ROOT_HASH, "_ts"), RawValue::Int(seconds));
        for explicit in &layout.explicit {
            if item.body.get_path(&explicit.names).is_none() {
                terms.push_value(explicit.hash, &Value::Undefined);
            }
        }
        for path in &layout.indexed_computed {
            terms.push_value(path.hash, &layout.computed.evaluate(path.number, item));
        }
        for composite in &layout.composites {
            let start = terms.open(composite.hash);
            composite.push_value(item, &layout.computed, &mut terms.bytes);
            terms.close(composite.hash, start);
        }
    }

    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// The number of terms that the body would have without summaries.
    pub fn found(&self) -> usize {
        self.found
    }

    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.spans.iter().map(|span| &self.bytes[span.start as usize..span.end as usize])
    }

    pub fn contains(&self, term: &[u8]) -> bool {
        self.spans
            .binary_search_by(|span| self.bytes[span.start as usize..span.end as usize].cmp(term))
            .is_ok()
    }

    /// Calls `visit` with (true, term) for every term that `new` lacks and (false, term) for every term that
    /// it adds.
    pub fn difference(&self, new: &ItemTerms, visit: &mut dyn FnMut(bool, &[u8])) {
        debug_assert!(self.iter().is_sorted() && new.iter().is_sorted(), "terms are compared in their order");
        let (mut old, mut new) = (self.iter().peekable(), new.iter().peekable());
        loop {
            match (old.peek(), new.peek()) {
                (Some(left), Some(right)) if left == right => {
                    old.next();
                    new.next();
                }
                (Some(left), right) if right.is_none_or(|right| left < right) => {
                    visit(true, left);
                    old.next();
                }
                (_, Some(right)) => {
                    visit(false, right);
                    new.next();
                }
                _ => return,
            }
        }
    }

    /// Whether the item has a defined value under a path.
    pub fn has_value_under(&self, path_hash: u64) -> bool {
        let first = self.spans.partition_point(|span| span.path_hash < path_hash);
        let mut spans = self.spans[first..].iter().take_while(|span| span.path_hash == path_hash);
        spans.any(|span| self.bytes[span.start as usize + HASH] != TypeTag::Undefined as u8)
    }

    fn push(&mut self, path_hash: u64, value: RawValue<'_>) {
        let start = self.open(path_hash);
        encode_index_value_raw(value, &mut self.bytes);
        self.close(path_hash, start);
    }

    fn push_value(&mut self, path_hash: u64, value: &Value) {
        let start = self.open(path_hash);
        encode_index_value(value, &mut self.bytes);
        self.close(path_hash, start);
    }

    fn open(&mut self, path_hash: u64) -> usize {
        self.bytes.extend_from_slice(&path_hash.to_be_bytes());
        self.bytes.len() - HASH
    }

    /// An item's size limits the bytes of its terms far below 32 bits: each term needs at most about ten
    /// times its value's bytes.
    fn close(&mut self, path_hash: u64, start: usize) {
        assert!(self.bytes.len() <= u32::MAX as usize, "the terms of one item fit 32-bit offsets");
        debug_assert!(start + HASH <= self.bytes.len(), "a term has the hash of its path");
        self.spans.push(Span { path_hash, start: start as u32, end: self.bytes.len() as u32 });
    }

    /// Replaces the terms below an array, which begin at `first`, by a summary if they are too many.
    fn summarise_from(&mut self, first: usize, elements: u64, max: usize) {
        let (bytes, mut distinct) = (&self.bytes, FxHashSet::default());
        let term = |span: &Span| &bytes[span.start as usize..span.end as usize];
        if !self.spans[first..].iter().any(|span| distinct.insert(term(span)) && distinct.len() > max) {
            return;
        }
        debug_assert!(
            self.spans[first..].windows(2).all(|pair| pair[0].end == pair[1].start),
            "the terms of an array lie one after another, so that they are cut off as one"
        );
        let start = self.spans[first].start as usize;
        self.spans.truncate(first);
        self.bytes.truncate(start);
        let (hash, start) = (hash_of_summary(elements), self.bytes.len());
        self.bytes.extend_from_slice(&summary_term(hash));
        self.close(hash, start);
    }

    fn sort(&mut self) {
        let bytes = &self.bytes;
        self.spans.sort_unstable_by(|left, right| left.order(right, bytes));
        self.deduplicate();
    }

    fn deduplicate(&mut self) {
        let bytes = &self.bytes;
        self.spans.dedup_by(|later, kept| later.order(kept, bytes).is_eq());
    }
}

impl Span {
    fn order(&self, other: &Span, bytes: &[u8]) -> std::cmp::Ordering {
        let value = |span: &Span| &bytes[span.start as usize + HASH..span.end as usize];
        self.path_hash.cmp(&other.path_hash).then_with(|| value(self).cmp(value(other)))
    }
}

struct Walk<'l> {
    terms: ItemTerms,
    layout: &'l IndexLayout,
    /// Whether the policy leaves anything out.
    filters: bool,
    /// Distinct terms that an outermost array keeps exact. `None` keeps all, also within an array.
    array_terms_max: Option<usize>,
    /// `None` if the charge is not needed.
    charged: Option<Charged<'l>>,
}

/// The positions in the policies of the layout and of the charge.
#[derive(Clone, Copy)]
struct States {
    layout: PathState,
    charged: ChargedState,
}

impl Walk<'_> {
    fn item(&mut self, body: RawDocument<'_>) {
        let layout = self.layout.paths.root();
        let charged = self.charged.as_ref().map_or(ChargedState::outside_arrays(layout), Charged::root);
        let root = States { layout, charged };
        for (name, value) in body.iter() {
            let hash = hash_of_member(ROOT_HASH, name);
            let states = self.member(root, name);
            // A computed property hides the stored one.
            if self.layout.computed.names().any(|computed| computed == name) {
                if let Some(charged) = &mut self.charged {
                    charged.value(value, hash, states.charged);
                }
                continue;
            }
            // `id` is indexed even if the policy leaves it out.
            if name == "id" && !self.layout.paths.covers(states.layout) {
                self.terms.push(hash, value);
            }
            self.value(value, hash, states);
        }
    }

    fn value(&mut self, value: RawValue<'_>, hash: u64, states: States) {
        if let RawValue::NonJson(value) = value {
            return self.value(RawValue::Object(value.shown().raw()), hash, states);
        }
        if !self.filters || self.layout.paths.covers(states.layout) {
            self.terms.push(hash, value);
        } else if self.layout.paths.covers_nothing_below(states.layout)
            && self.charged.as_ref().is_none_or(|charged| charged.covers_nothing_below(states.charged))
        {
            return;
        }
        match value {
            RawValue::Object(document) => {
                for (name, value) in document.iter() {
                    self.value(value, hash_of_member(hash, name), self.member(states, name));
                }
            }
            RawValue::Array(array) => {
                let hash = hash_of_elements(hash);
                let states = self.elements(states);
                let (first, max) = (self.terms.len(), self.array_terms_max.take());
                for element in array.iter() {
                    self.value(element, hash, states);
                }
                if let Some(max) = max {
                    self.terms.summarise_from(first, hash, max);
                    self.array_terms_max = Some(max);
                }
            }
            scalar => {
                if let Some(charged) = &mut self.charged {
                    charged.scalar(scalar, hash, states.charged);
                }
            }
        }
    }

    fn member(&self, states: States, name: &str) -> States {
        let layout = match self.filters {
            true => self.layout.paths.member(states.layout, name),
            false => states.layout,
        };
        let charged =
            self.charged.as_ref().map_or(states.charged, |charged| charged.member(states.charged, name));
        States { layout, charged }
    }

    fn elements(&self, states: States) -> States {
        let layout = match self.filters {
            true => self.layout.paths.elements(states.layout),
            false => states.layout,
        };
        let charged =
            self.charged.as_ref().map_or(states.charged, |charged| charged.elements(states.charged));
        States { layout, charged }
    }
}

#[cfg(test)]
mod tests;
