//! An indexing policy compiled for one generation of the index.

use shardlake_document::{
    ItemProperty, ItemView, Value, decode_index_value, encode_index_value, encode_index_value_raw,
    index_value_length, is_system_property,
};
use shardlake_model::{
    IndexPath, IndexPathSegment, IndexingPolicy, PathKind, PathMatcher, Result, SortOrder,
};
use shardlake_sql::{CompositeSchema, ComputedProperties, SortValue};

use crate::path_hash::{composite_hash, path_hash};

/// The contents of one generation of a container's index.
#[derive(Debug)]
pub struct IndexLayout {
    pub id: u16,
    /// Terms of an item's body beyond which its large arrays have one summary term each. `None`:
    /// every value has its term.
    pub(crate) exact_terms_max: Option<usize>,
    pub paths: PathMatcher,
    /// Paths that the policy names itself, without array elements: an item that lacks one gets an undefined term.
    pub(crate) explicit: Vec<ExplicitPath>,
    pub composites: Vec<CompositeLayout>,
    /// They hide the stored properties of the same names, indexed or not.
    pub computed: ComputedProperties,
    /// The computed properties that the policy names itself: only these are indexed.
    pub(crate) indexed_computed: Vec<ComputedPath>,
}

#[derive(Debug)]
pub(crate) struct ExplicitPath {
    pub names: Vec<String>,
    pub hash: u64,
}

#[derive(Debug)]
pub(crate) struct ComputedPath {
    /// The position in [`IndexLayout::computed`].
    pub number: usize,
    pub hash: u64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct CompositeLayout {
    pub members: Vec<CompositeMember>,
    pub(crate) hash: u64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct CompositeMember {
    pub names: Vec<String>,
    pub descending: bool,
    /// Its bytes are inverted, because its order differs from the first member's.
    pub inverted: bool,
    /// The computed property, if it is one.
    computed: Option<usize>,
}

impl IndexLayout {
    /// `None` when the policy indexes nothing.
    pub fn new(
        id: u16,
        policy: &IndexingPolicy,
        computed: ComputedProperties,
    ) -> Result<Option<IndexLayout>> {
        let paths = policy.matcher();
        if !paths.indexes_anything() {
            return Ok(None);
        }
        let (mut explicit, mut indexed_computed) = (Vec::new(), Vec::new());
        for included in &policy.included_paths {
            let path = IndexPath::parse(&included.path)?;
            let Some(names) = names_of(&path.segments).filter(|names| !names.is_empty()) else { continue };
            let hash = path_hash(&path.segments);
            let is_known = explicit.iter().any(|other: &ExplicitPath| other.hash == hash);
            match (number_of(&computed, &names), &path.kind) {
                (Some(number), _) => indexed_computed.push(ComputedPath { number, hash }),
                // The system's properties are never missing.
                (None, PathKind::Scalar | PathKind::Subtree)
                    if !is_known && !is_system_property(&names[0]) =>
                {
                    explicit.push(ExplicitPath { names, hash })
                }
                _ => {}
            }
        }
        let composites = policy.composite_indexes.iter();
        let composites = composites.map(|members| compile(members, &computed));
        let composites = composites.filter_map(Result::transpose).collect::<Result<_>>()?;
        let exact_terms_max = None;
        Ok(Some(IndexLayout { id, exact_terms_max, paths, explicit, composites, computed, indexed_computed }))
    }

    /// Sets the number of terms beyond which an item's large arrays are summarised; it stays the same for the
    /// whole life of a generation.
    pub fn with_exact_terms_max(self, exact_terms_max: Option<usize>) -> IndexLayout {
        IndexLayout { exact_terms_max, ..self }
    }

    /// Whether items may have summaries.
    pub fn summarises(&self) -> bool {
        self.exact_terms_max.is_some()
    }

    /// Whether an item with a record of this size can have summaries. A term needs at least a byte of the
    /// record.
    pub fn may_summarise(&self, size_bytes: usize) -> bool {
        self.exact_terms_max.is_some_and(|max| size_bytes > max)
    }

    /// The composite indexes in the form for query planning.
    pub fn composite_schemas(&self) -> Vec<CompositeSchema> {
        let schema = |composite: &CompositeLayout| CompositeSchema {
            members: composite
                .members
                .iter()
                .map(|member| (member.names.clone(), member.descending))
                .collect(),
        };
        self.composites.iter().map(schema).collect()
    }

    /// Whether items without the path have an undefined term under it.
    pub fn writes_undefined(&self, path: &[IndexPathSegment]) -> bool {
        let hash = path_hash(path);
        self.explicit.iter().any(|explicit| explicit.hash == hash)
            || self.indexed_computed.iter().any(|computed| computed.hash == hash)
    }

    pub fn composite_hash(&self, number: usize) -> u64 {
        self.composites[number].hash
    }

    /// Computed properties that this index holds.
    pub fn computed_names(&self) -> Vec<String> {
        let number = |name: &str| self.computed.names().position(|other| other == name);
        let is_indexed =
            |name: &&str| self.indexed_computed.iter().any(|path| Some(path.number) == number(name));
        self.computed.names().filter(is_indexed).map(str::to_owned).collect()
    }

    /// Stored paths that have an entry for every item, undefined where an item lacks them.
    pub fn explicit_names(&self) -> Vec<Vec<String>> {
        self.explicit.iter().map(|explicit| explicit.names.clone()).collect()
    }

    /// The value of a computed property that this index holds.
    pub fn computed_value(&self, name: &str, item: &ItemView<'_>) -> Option<Value> {
        let number = self.computed.names().position(|other| other == name)?;
        let is_indexed = self.indexed_computed.iter().any(|path| path.number == number);
        is_indexed.then(|| self.computed.evaluate(number, item))
    }

    /// Calls `visit` with the value that an item has in a composite index.
    pub fn for_each_composite_value(&self, number: usize, item: &ItemView<'_>, visit: &mut dyn FnMut(&[u8])) {
        let mut value = Vec::new();
        self.composites[number].push_value(item, &self.computed, &mut value);
        visit(&value);
    }
}

impl CompositeLayout {
    /// Appends the index values of the members, inverted where their order requires it.
    pub(crate) fn push_value(&self, item: &ItemView<'_>, computed: &ComputedProperties, out: &mut Vec<u8>) {
        for member in &self.members {
            let start = out.len();
            member.push_value(item, computed, out);
            if member.inverted {
                out[start..].iter_mut().for_each(|byte| *byte = !*byte);
            }
        }
    }
}

impl CompositeLayout {
    /// The end of the first string of which an entry holds only the start: entries that are equal up to there
    /// may be out of order.
    pub fn end_of_cut(&self, entry: &[u8]) -> Option<usize> {
        let mut at = 0;
        for member in &self.members {
            let invert = |byte: &u8| if member.inverted { !byte } else { *byte };
            let rest: Vec<u8> = entry.get(at..)?.iter().map(invert).collect();
            let length = index_value_length(&rest)?;
            at += length;
            assert!(at <= entry.len(), "a composite's members lie within its entry");
            if is_cut(&rest[..length]) {
                return Some(at);
            }
        }
        None
    }

    /// The values by which an item is ordered like an entry with uncut values, with true for inverted ones.
    pub fn sort_values(&self, item: &ItemView<'_>, computed: &ComputedProperties) -> Vec<(SortValue, bool)> {
        let value = |member: &CompositeMember| (member.value(item, computed).into(), member.inverted);
        self.members.iter().map(value).collect()
    }
}

/// Whether an index value holds only a part of the value: the start of a long string, the type of an array or object.
pub fn is_cut(value: &[u8]) -> bool {
    index_value_length(value) == Some(value.len()) && decode_index_value(value).is_none()
}

impl CompositeMember {
    fn value(&self, item: &ItemView<'_>, computed: &ComputedProperties) -> Value {
        if let Some(number) = self.computed {
            return computed.evaluate(number, item);
        }
        let property = match &self.names[..] {
            [name] => item.get(name),
            names => item.body.get_path(names).map(ItemProperty::Stored),
        };
        match property {
            Some(ItemProperty::Stored(value)) => Value::from_raw(value),
            Some(ItemProperty::System(value)) => value,
            None => Value::Undefined,
        }
    }

    fn push_value(&self, item: &ItemView<'_>, computed: &ComputedProperties, out: &mut Vec<u8>) {
        if let Some(number) = self.computed {
            encode_index_value(&computed.evaluate(number, item), out);
            return;
        }
        let property = match &self.names[..] {
            [name] => item.get(name),
            names => item.body.get_path(names).map(ItemProperty::Stored),
        };
        match property {
            Some(ItemProperty::Stored(value)) => encode_index_value_raw(value, out),
            Some(ItemProperty::System(value)) => encode_index_value(&value, out),
            None => encode_index_value(&Value::Undefined, out),
        };
    }
}

fn number_of(computed: &ComputedProperties, names: &[String]) -> Option<usize> {
    let [name] = names else { return None };
    computed.names().position(|other| other == name)
}

/// `None` for one over array elements: nothing can be ordered by it, so it would never be read.
fn compile(
    members: &[shardlake_model::CompositePath],
    computed: &ComputedProperties,
) -> Result<Option<CompositeLayout>> {
    let first = members.first().map(|member| member.order);
    let mut compiled = Vec::with_capacity(members.len());
    let mut hashed = Vec::with_capacity(members.len());
    for member in members {
        let path = IndexPath::parse(&format!("{}/?", member.path.trim_end_matches("/?")))?;
        let Some(names) = names_of(&path.segments).filter(|names| !names.is_empty()) else {
            return Ok(None);
        };
        let inverted = Some(member.order) != first;
        hashed.push((path.segments, inverted));
        let descending = member.order == SortOrder::Descending;
        compiled.push(CompositeMember { computed: number_of(computed, &names), names, descending, inverted });
    }
    assert_eq!(hashed.len(), compiled.len(), "each member of a composite index is part of its hash");
    Ok(Some(CompositeLayout { hash: composite_hash(&hashed), members: compiled }))
}

/// The names of a path without array elements.
fn names_of(segments: &[IndexPathSegment]) -> Option<Vec<String>> {
    let name = |segment: &IndexPathSegment| match segment {
        IndexPathSegment::Name(name) => Some(name.clone()),
        _ => None,
    };
    segments.iter().map(name).collect()
}
