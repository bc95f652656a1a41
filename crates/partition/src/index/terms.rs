//! The postings of one item: a walk over its body.

use shardlake_document::{ItemView, RawDocument, RawValue, TypeTag, encode_index_value_raw};
use shardlake_model::IndexPathSegment;

use super::keys::{ROOT_HASH, hash_of_elements, hash_of_member};
use super::layout::IndexLayout;

/// The terms of an item under one layout, distinct and sorted: path hash and index value each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ItemTerms {
    bytes: Vec<u8>,
    /// Where each term lies in `bytes`.
    spans: Vec<(u32, u32)>,
}

impl ItemTerms {
    pub fn of(item: &ItemView<'_>, layout: &IndexLayout) -> ItemTerms {
        let mut walk = Walk {
            terms: ItemTerms { bytes: Vec::with_capacity(512), spans: Vec::with_capacity(32) },
            filter: (!layout.paths.indexes_everything()).then_some(layout),
            path: Vec::new(),
        };
        walk.object(item.body, ROOT_HASH);
        let mut terms = walk.terms;
        terms.push(hash_of_member(ROOT_HASH, "_ts"), RawValue::Int(item.envelope.timestamp_seconds as i64));
        for explicit in &layout.explicit {
            if item.body.get_path(&explicit.names).is_none() && explicit.names != ["_ts"] {
                terms.push_undefined(explicit.hash);
            }
        }
        for composite in &layout.composites {
            let start = terms.bytes.len();
            terms.bytes.extend_from_slice(&composite.hash.to_be_bytes());
            composite.push_value(item, &mut terms.bytes);
            terms.close(start);
        }
        terms.sort();
        terms
    }

    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.spans.iter().map(|(start, end)| &self.bytes[*start as usize..*end as usize])
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
        let prefix = path_hash.to_be_bytes();
        self.iter().any(|term| term.starts_with(&prefix) && term[8] != TypeTag::Undefined as u8)
    }

    fn push(&mut self, path_hash: u64, value: RawValue<'_>) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&path_hash.to_be_bytes());
        encode_index_value_raw(value, &mut self.bytes);
        self.close(start);
    }

    fn push_undefined(&mut self, path_hash: u64) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&path_hash.to_be_bytes());
        shardlake_document::encode_index_value(&shardlake_document::Value::Undefined, &mut self.bytes);
        self.close(start);
    }

    fn close(&mut self, start: usize) {
        self.spans.push((start as u32, self.bytes.len() as u32));
    }

    fn sort(&mut self) {
        let bytes = &self.bytes;
        let term = |span: &(u32, u32)| &bytes[span.0 as usize..span.1 as usize];
        self.spans.sort_unstable_by(|left, right| term(left).cmp(term(right)));
        self.spans.dedup_by(|later, kept| term(later) == term(kept));
    }
}

struct Walk<'l> {
    terms: ItemTerms,
    /// `None` when every path is indexed: then no path is built at all.
    filter: Option<&'l IndexLayout>,
    path: Vec<IndexPathSegment>,
}

impl Walk<'_> {
    fn object(&mut self, document: RawDocument<'_>, hash: u64) {
        for (name, value) in document.iter() {
            if self.filter.is_some() {
                self.path.push(IndexPathSegment::Name(name.to_owned()));
            }
            self.value(value, hash_of_member(hash, name));
            self.path.pop();
        }
    }

    fn value(&mut self, value: RawValue<'_>, hash: u64) {
        if self.filter.is_none_or(|layout| layout.paths.is_indexed(&self.path) || self.is_system_path()) {
            self.terms.push(hash, value);
        }
        match value {
            RawValue::Object(document) => self.object(document, hash),
            RawValue::Array(array) => {
                let hash = hash_of_elements(hash);
                for element in array.iter() {
                    if self.filter.is_some() {
                        self.path.push(IndexPathSegment::AnyElement);
                    }
                    self.value(element, hash);
                    self.path.pop();
                }
            }
            _ => {}
        }
    }

    /// `id` is indexed whatever the policy says.
    fn is_system_path(&self) -> bool {
        matches!(&self.path[..], [IndexPathSegment::Name(name)] if name == "id")
    }
}
