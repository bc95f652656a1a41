//! Indexes of a collection as the one indexing policy of its container (spec mongo.md §17).

use shardlake_model::{
    ContainerDefinition, ExcludedPath, IncludedPath, IndexingMode, IndexingPolicy, Narrowing, UniqueKey,
};
use shardlake_mql::write::stored_path;
use shardlake_mql::{Document, Value};

use crate::collated::{indexed_path, is_property};
use crate::failure::{Failure, Result};
use crate::meta::Meta;
use crate::meta::flag;
use crate::narrowing::{collated, narrowing_of};

/// Parts of a path, each of which may lie in an array. For a longer path everything below the first part is indexed.
const PARTS_MAX: usize = 5;

/// The policy that serves the indexes and the shard key.
pub(crate) fn policy_of(meta: &Meta, definition: &ContainerDefinition) -> IndexingPolicy {
    let properties = definition.computed_properties.iter().flatten().map(|property| property.name.as_str());
    let collated = properties.filter(|name| is_property(name)).map(indexed_path);
    let mut paths: Vec<String> = Vec::new();
    let mut is_everything = false;
    let keys = definition.partition_key.paths.iter().filter(|path| !path.ends_with("_partitionKey"));
    for path in keys {
        let parts: Vec<String> = path.trim_start_matches('/').split('/').map(str::to_owned).collect();
        add(&parts, &mut paths);
    }
    for index in &meta.indexes {
        let Some(Value::Document(key)) = index.get("key") else { continue };
        for (name, _) in key.iter() {
            if name.split('.').any(|part| part == "$**") || name.contains(['"', '\\']) {
                is_everything = true;
            } else {
                add(&stored_path(name), &mut paths);
            }
        }
    }
    if is_everything {
        let mut everything = IndexingPolicy::default();
        everything.included_paths.extend(collated.map(|path| IncludedPath { path }));
        return everything;
    }
    paths.extend(collated);
    paths.sort_unstable();
    paths.dedup();
    IndexingPolicy {
        included_paths: paths.into_iter().map(|path| IncludedPath { path }).collect(),
        excluded_paths: vec![ExcludedPath { path: "/*".to_owned() }],
        ..IndexingPolicy::default()
    }
}

/// Adds the paths that a policy lacks. A policy that indexes nothing, or everything below the root, stays as it is.
pub(crate) fn add_paths(policy: &mut IndexingPolicy, wanted: IndexingPolicy) {
    let has_root = policy.included_paths.iter().any(|path| path.path == "/*");
    if has_root || policy.indexing_mode != IndexingMode::Consistent {
        return;
    }
    for path in wanted.included_paths {
        if !policy.included_paths.contains(&path) {
            policy.included_paths.push(path);
        }
    }
}

/// Adds the path, all paths below it through arrays, and its parents: a filter asks whether a parent is an array.
fn add(parts: &[String], paths: &mut Vec<String>) {
    let quoted = |part: &String| format!("\"{part}\"");
    if parts.len() > PARTS_MAX {
        paths.push(format!("/{}/*", quoted(&parts[0])));
        return;
    }
    for length in 1..parts.len() {
        let on_the_way: Vec<String> = parts[..length].iter().map(quoted).collect();
        paths.push(format!("/{}/?", on_the_way.join("/")));
    }
    for arrays in 0..1u32 << (parts.len() - 1) {
        let mut path = String::new();
        for (at, part) in parts.iter().enumerate() {
            path.push('/');
            path.push_str(&quoted(part));
            if at + 1 < parts.len() && arrays & 1 << at != 0 {
                path.push_str("/[]");
            }
        }
        path.push_str("/*");
        paths.push(path);
    }
}

/// The unique keys that indexes ask for, and which documents each is about.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Uniqueness {
    pub keys: Vec<UniqueKey>,
    pub narrowings: Vec<Option<Narrowing>>,
}

pub(crate) fn uniqueness_of(meta: &Meta) -> Result<Uniqueness> {
    let mut unique = Uniqueness::default();
    // Identities are compared by their bytes, unless the collection has a collation.
    if let Some(narrowing) = collated(&meta.collation, None) {
        unique.keys.push(unique_key_of(&Document::one("_id", Value::Int(1))));
        unique.narrowings.push(Some(narrowing));
    }
    for index in meta.indexes.iter().filter(|index| is_enforced(index)) {
        let Some(key) = index.get("key").and_then(Value::as_document) else { continue };
        let key = unique_key_of(key);
        let narrowing = narrowing_of(index)?;
        match unique.keys.iter().position(|known| *known == key) {
            Some(place) if unique.narrowings[place] == narrowing => {}
            Some(_) => {
                let words = "two unique indexes over the same fields that differ in 'collation', 'sparse' or 'partialFilterExpression' are not supported";
                return Err(Failure::new(303, words));
            }
            None => {
                unique.keys.push(key);
                unique.narrowings.push(narrowing);
            }
        }
    }
    Ok(unique)
}

/// The paths of an index's key. A name is quoted if it contains separators of paths.
pub(crate) fn unique_key_of(key: &Document) -> UniqueKey {
    let quoted = |part: &String| match part.contains(['/', '"', '\'']) {
        true => format!("/\"{}\"", part.replace('"', "\\\"")),
        false => format!("/{part}"),
    };
    let path = |name: &str| stored_path(name).iter().map(quoted).collect::<String>();
    UniqueKey { paths: key.iter().map(|(name, _)| path(name)).collect() }
}

/// Whether two documents may not have the same values: those of unique indexes, and of indexes that are to become unique.
pub(crate) fn is_enforced(index: &Document) -> bool {
    flag(index, "unique") || flag(index, "prepareUnique")
}

/// The container's time to live, from a TTL index on the time of the last write.
pub(crate) fn default_ttl_of(meta: &Meta) -> Option<i64> {
    meta.indexes.iter().find_map(|index| {
        let key = index.get("key")?.as_document()?;
        let is_time = key.len() == 1 && key.has("_ts");
        index.get("expireAfterSeconds").filter(|_| is_time)?.to_i64_exact()
    })
}
