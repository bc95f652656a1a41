//! The postings of one item: a walk over its body.
//!
//! All terms lie in one buffer, each known by its path hash and its place, so that an item costs two allocations and most
//! comparisons of the sort are of one integer.

use shardlake_document::{
    ItemView, RawDocument, RawValue, TypeTag, Value, encode_index_value, encode_index_value_raw,
};
use shardlake_model::PathState;

use crate::layout::IndexLayout;
use crate::path_hash::{ROOT_HASH, hash_of_elements, hash_of_member};

/// The terms of an item under one layout, distinct and sorted: path hash and index value each.
#[derive(Debug, Clone, Default)]
pub struct ItemTerms {
    bytes: Vec<u8>,
    spans: Vec<Span>,
}

/// Where a term lies in the buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    path_hash: u64,
    start: u32,
    end: u32,
}

const HASH: usize = 8;

impl ItemTerms {
    pub fn of(item: &ItemView<'_>, layout: &IndexLayout) -> ItemTerms {
        let mut terms = ItemTerms::walked(item.body, layout);
        terms.push_rest(item, layout);
        terms.sort();
        terms
    }

    /// Those that follow from the body alone.
    pub fn of_body(body: RawDocument<'_>, layout: &IndexLayout) -> ItemTerms {
        let mut terms = ItemTerms::walked(body, layout);
        terms.sort();
        terms
    }

    /// All terms of an item whose body has these.
    pub fn completed(mut self, item: &ItemView<'_>, layout: &IndexLayout) -> ItemTerms {
        self.push_rest(item, layout);
        // All but the last few are in order, which this sort makes use of.
        let bytes = &self.bytes;
        self.spans.sort_by(|left, right| left.order(right, bytes));
        self.deduplicate();
        self
    }

    fn walked(body: RawDocument<'_>, layout: &IndexLayout) -> ItemTerms {
        let terms = ItemTerms { bytes: Vec::with_capacity(768), spans: Vec::with_capacity(40) };
        let mut walk = Walk { terms, layout, filters: !layout.paths.indexes_everything() };
        walk.item(body);
        #[cfg(feature = "testing")]
        crate::witness::note(walk.terms.len());
        walk.terms
    }

    /// Those that depend on more than one place of the body, or on the version.
    fn push_rest(&mut self, item: &ItemView<'_>, layout: &IndexLayout) {
        let terms = self;
        let seconds = item.envelope.timestamp_seconds as i64;
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

    /// Calls `visit` with (true, term) for every term that `new` lacks and (false, term) for every one that it adds.
    pub fn difference(&self, new: &ItemTerms, visit: &mut dyn FnMut(bool, &[u8])) {
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

    /// Whether the item has anything but undefined under a path.
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

    /// An item's size bounds its terms far below what 32 bits count: each takes at most some ten times its value's bytes.
    fn close(&mut self, path_hash: u64, start: usize) {
        self.spans.push(Span { path_hash, start: start as u32, end: self.bytes.len() as u32 });
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
}

impl Walk<'_> {
    fn item(&mut self, body: RawDocument<'_>) {
        let root = self.layout.paths.root();
        for (name, value) in body.iter() {
            // A computed property hides the stored one.
            if self.layout.computed.names().any(|computed| computed == name) {
                continue;
            }
            let hash = hash_of_member(ROOT_HASH, name);
            let state = self.member(root, name);
            // `id` is indexed whatever the policy says.
            if name == "id" && !self.layout.paths.covers(state) {
                self.terms.push(hash, value);
            }
            self.value(value, hash, state);
        }
    }

    fn value(&mut self, value: RawValue<'_>, hash: u64, state: PathState) {
        if let RawValue::NonJson(value) = value {
            return self.value(RawValue::Object(value.shown().raw()), hash, state);
        }
        if self.filters {
            if self.layout.paths.covers_nothing_below(state) {
                return;
            }
            if self.layout.paths.covers(state) {
                self.terms.push(hash, value);
            }
        } else {
            self.terms.push(hash, value);
        }
        match value {
            RawValue::Object(document) => {
                for (name, value) in document.iter() {
                    self.value(value, hash_of_member(hash, name), self.member(state, name));
                }
            }
            RawValue::Array(array) => {
                let hash = hash_of_elements(hash);
                let state = if self.filters { self.layout.paths.elements(state) } else { state };
                for element in array.iter() {
                    self.value(element, hash, state);
                }
            }
            _ => {}
        }
    }

    fn member(&self, state: PathState, name: &str) -> PathState {
        if self.filters { self.layout.paths.member(state, name) } else { state }
    }
}

#[cfg(test)]
mod tests;
