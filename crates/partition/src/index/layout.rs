//! An indexing policy compiled for one generation of the index.

use shardlake_document::{ItemView, Value};
use shardlake_model::{
    IndexPath, IndexPathSegment, IndexingPolicy, PathKind, PathMatcher, Result, SortOrder,
};

use super::keys;
use shardlake_sql::CompositeSchema;

/// What one generation of a container's index holds.
#[derive(Debug)]
pub struct IndexLayout {
    pub id: u16,
    pub paths: PathMatcher,
    /// Paths that the policy names itself, without array elements: an item that lacks one gets an undefined term.
    pub(crate) explicit: Vec<ExplicitPath>,
    pub composites: Vec<CompositeLayout>,
}

#[derive(Debug)]
pub(crate) struct ExplicitPath {
    pub names: Vec<String>,
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
    pub(crate) inverted: bool,
}

impl IndexLayout {
    /// `None` when the policy indexes nothing.
    pub fn new(id: u16, policy: &IndexingPolicy) -> Result<Option<IndexLayout>> {
        let paths = policy.matcher();
        if !paths.indexes_anything() {
            return Ok(None);
        }
        let mut explicit = Vec::new();
        for included in &policy.included_paths {
            let path = IndexPath::parse(&included.path)?;
            if let Some(names) = names_of(&path.segments).filter(|names| !names.is_empty())
                && (path.kind == PathKind::Scalar || path.kind == PathKind::Subtree)
            {
                explicit.push(ExplicitPath { names, hash: keys::path_hash(&path.segments) });
            }
        }
        let composites =
            policy.composite_indexes.iter().map(|members| compile(members)).collect::<Result<_>>()?;
        Ok(Some(IndexLayout { id, paths, explicit, composites }))
    }

    /// What queries may make of it.
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
        let hash = keys::path_hash(path);
        self.explicit.iter().any(|explicit| explicit.hash == hash)
    }

    pub fn composite_hash(&self, number: usize) -> u64 {
        self.composites[number].hash
    }

    /// Computed properties that this index holds.
    pub fn computed_names(&self) -> Vec<String> {
        Vec::new()
    }

    /// The value of a computed property that this index holds.
    pub fn computed_value(&self, _name: &str, _item: &ItemView<'_>) -> Option<Value> {
        None
    }

    /// Calls `visit` with the value that an item has in a composite index.
    pub fn for_each_composite_value(&self, number: usize, item: &ItemView<'_>, visit: &mut dyn FnMut(&[u8])) {
        let mut value = Vec::new();
        self.composites[number].push_value(item, &mut value);
        visit(&value);
    }
}

impl CompositeLayout {
    /// Appends the index values of the members, each inverted where its order asks for it.
    pub(crate) fn push_value(&self, item: &ItemView<'_>, out: &mut Vec<u8>) {
        for member in &self.members {
            let start = out.len();
            match item.body.get_path(&member.names) {
                Some(value) => shardlake_document::encode_index_value_raw(value, out),
                None if member.names == ["_ts"] => {
                    let seconds = item.envelope.timestamp_seconds as i64;
                    shardlake_document::encode_index_value(&Value::Int(seconds), out)
                }
                None => shardlake_document::encode_index_value(&Value::Undefined, out),
            };
            if member.inverted {
                out[start..].iter_mut().for_each(|byte| *byte = !*byte);
            }
        }
    }
}

fn compile(members: &[shardlake_model::CompositePath]) -> Result<CompositeLayout> {
    let first = members.first().map(|member| member.order);
    let mut compiled = Vec::with_capacity(members.len());
    let mut hashed = Vec::with_capacity(members.len());
    for member in members {
        let path = IndexPath::parse(&format!("{}/?", member.path))?;
        let names = names_of(&path.segments)
            .ok_or_else(|| shardlake_model::Error::unsupported("an array element in a composite index"))?;
        let inverted = Some(member.order) != first;
        hashed.push((path.segments, inverted));
        compiled.push(CompositeMember { names, descending: member.order == SortOrder::Descending, inverted });
    }
    Ok(CompositeLayout { hash: keys::composite_hash(&hashed), members: compiled })
}

/// The names of a path without array elements.
fn names_of(segments: &[IndexPathSegment]) -> Option<Vec<String>> {
    let name = |segment: &IndexPathSegment| match segment {
        IndexPathSegment::Name(name) => Some(name.clone()),
        _ => None,
    };
    segments.iter().map(name).collect()
}
