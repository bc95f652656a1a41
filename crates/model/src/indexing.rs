//! Indexing policies: their JSON form, defaults and rules, and which paths of an item they cover (engine.md §5).
//!
//! The reference's old per-path `indexes` member is accepted and dropped, as it does itself.

use serde::{Deserialize, Serialize};

use crate::index_path::IndexPath;
use crate::path_matcher::PathMatcher;
use crate::{Error, Limits, Result};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
pub enum IndexingMode {
    #[default]
    #[serde(rename = "consistent", alias = "Consistent")]
    Consistent,
    #[serde(rename = "none", alias = "None")]
    None,
    #[serde(rename = "lazy", alias = "Lazy")]
    Lazy,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IndexingPolicy {
    #[serde(default)]
    pub indexing_mode: IndexingMode,
    #[serde(default = "yes")]
    pub automatic: bool,
    #[serde(default)]
    pub included_paths: Vec<IncludedPath>,
    #[serde(default)]
    pub excluded_paths: Vec<ExcludedPath>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub composite_indexes: Vec<Vec<CompositePath>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spatial_indexes: Vec<SpatialIndex>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vector_indexes: Vec<VectorIndex>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub full_text_indexes: Vec<FullTextIndex>,
}

fn yes() -> bool {
    true
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IncludedPath {
    pub path: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExcludedPath {
    pub path: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
pub enum SortOrder {
    #[default]
    #[serde(rename = "ascending", alias = "Ascending")]
    Ascending,
    #[serde(rename = "descending", alias = "Descending")]
    Descending,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompositePath {
    pub path: String,
    #[serde(default)]
    pub order: SortOrder,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SpatialIndex {
    pub path: String,
    #[serde(default)]
    pub types: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bounding_box: Option<BoundingBox>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BoundingBox {
    pub xmin: f64,
    pub ymin: f64,
    pub xmax: f64,
    pub ymax: f64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VectorIndex {
    pub path: String,
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quantization_byte_size: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub indexing_search_list_size: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vector_index_shard_key: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quantizer_type: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FullTextIndex {
    /// Empty where it is missing, which is refused.
    #[serde(default)]
    pub path: String,
}

const ROOT: &str = "/*";
const ETAG: &str = "/\"_etag\"/?";

impl Default for IndexingPolicy {
    fn default() -> Self {
        IndexingPolicy {
            indexing_mode: IndexingMode::Consistent,
            automatic: true,
            included_paths: vec![IncludedPath { path: ROOT.into() }],
            excluded_paths: vec![ExcludedPath { path: ETAG.into() }],
            composite_indexes: vec![],
            spatial_indexes: vec![],
            vector_indexes: vec![],
            full_text_indexes: vec![],
        }
    }
}

impl IndexingPolicy {
    /// Fills in the service's defaults and refuses policies that the service refuses.
    pub fn normalise(mut self, limits: &Limits) -> Result<IndexingPolicy> {
        if self.indexing_mode == IndexingMode::None {
            if !self.included_paths.is_empty() || self.excluded_paths.iter().any(|path| path.path != ETAG) {
                return Err(Error::bad_request(
                    "indexing mode 'none' takes no included or excluded paths: remove them or use 'consistent'",
                ));
            }
            // The default of an omitted member must not make the smallest legal policy illegal.
            self.automatic = false;
            return Ok(self);
        }
        // Every item is indexed as it is written. The service ignores the member too, and answers `true`.
        self.automatic = true;
        for path in &mut self.included_paths {
            path.path = normal_path(&path.path)?;
        }
        for path in &mut self.excluded_paths {
            path.path = normal_path(&path.path)?;
        }
        let root_excluded = self.excluded_paths.iter().any(|path| path.path == ROOT);
        if self.included_paths.is_empty() && !root_excluded {
            self.included_paths.push(IncludedPath { path: ROOT.into() });
        }
        if !self.excluded_paths.iter().any(|path| path.path == ETAG) {
            self.excluded_paths.push(ExcludedPath { path: ETAG.into() });
        }
        self.validate(limits)?;
        Ok(self)
    }

    fn validate(&self, limits: &Limits) -> Result<()> {
        let included = || self.included_paths.iter().map(|path| path.path.as_str());
        let excluded = || self.excluded_paths.iter().map(|path| path.path.as_str());
        if included().count() > limits.index_paths_max || excluded().count() > limits.index_paths_max {
            return Err(Error::bad_request(format!(
                "an indexing policy takes at most {} included and {} excluded paths",
                limits.index_paths_max, limits.index_paths_max
            )));
        }
        match included().chain(excluded()).filter(|path| *path == ROOT).count() {
            0 => {
                return Err(Error::bad_request(
                    "the special mandatory indexing path '/*' is in neither the included nor the excluded paths: add it to one",
                ));
            }
            1 => {}
            _ => return Err(Error::bad_request("the indexing path '/*' is listed more than once")),
        }
        let mut seen = std::collections::HashSet::new();
        for path in included().chain(excluded()) {
            if !seen.insert(path) {
                return Err(Error::bad_request(format!(
                    "the indexing path '{path}' is listed more than once"
                )));
            }
        }
        self.validate_composites(limits)?;
        const SPATIAL: [&str; 6] =
            ["Point", "LineString", "Polygon", "MultiPolygon", "MultiPoint", "MultiLineString"];
        for spatial in &self.spatial_indexes {
            if spatial.types.is_empty() {
                return Err(Error::bad_request(format!(
                    "spatial index '{}' has no types: name at least one of {}",
                    spatial.path,
                    SPATIAL.join(", ")
                )));
            }
            if let Some(kind) = spatial.types.iter().find(|kind| !SPATIAL.contains(&kind.as_str())) {
                return Err(Error::bad_request(format!(
                    "spatial index '{}' names the unknown type '{kind}'",
                    spatial.path
                )));
            }
        }
        Ok(())
    }

    fn validate_composites(&self, limits: &Limits) -> Result<()> {
        if self.composite_indexes.len() > limits.composite_indexes_max {
            return Err(Error::bad_request(format!(
                "an indexing policy takes at most {} composite indexes",
                limits.composite_indexes_max
            )));
        }
        for composite in &self.composite_indexes {
            if composite.len() < 2 || composite.len() > limits.composite_paths_max {
                return Err(Error::bad_request(format!(
                    "a composite index takes 2 to {} paths, not {}",
                    limits.composite_paths_max,
                    composite.len()
                )));
            }
            for member in composite {
                IndexPath::parse(&format!("{}/?", member.path.trim_end_matches("/?")))?;
            }
        }
        Ok(())
    }

    /// Compiled form of the included and excluded paths.
    pub fn matcher(&self) -> PathMatcher {
        let parse = |path: &str| IndexPath::parse(path).expect("a stored policy was validated");
        PathMatcher::new(
            self.included_paths.iter().map(|included| parse(&included.path)),
            self.excluded_paths.iter().map(|excluded| parse(&excluded.path)),
            self.indexing_mode != IndexingMode::None,
        )
    }
}

/// `/` is an old spelling of `/*`; anything else must parse and is kept as the user wrote it.
fn normal_path(path: &str) -> Result<String> {
    if path == "/" {
        return Ok(ROOT.into());
    }
    IndexPath::parse(path)?;
    Ok(path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::IndexPathSegment;

    fn policy(json: &str) -> Result<IndexingPolicy> {
        serde_json::from_str::<IndexingPolicy>(json).expect("well-formed").normalise(&Limits::default())
    }

    fn name(text: &str) -> IndexPathSegment {
        IndexPathSegment::Name(text.into())
    }

    #[test]
    fn partial_policies_become_the_default() {
        for json in [
            "{}",
            r#"{"indexingMode":"consistent","automatic":true}"#,
            r#"{"includedPaths":[{"path":"/*"}]}"#,
            r#"{"includedPaths":[{"path":"/","indexes":[{"kind":"Hash","dataType":"String"}]}]}"#,
        ] {
            assert_eq!(policy(json).expect("valid"), IndexingPolicy::default(), "{json}");
        }
    }

    #[test]
    fn none_takes_no_paths() {
        assert!(
            policy(r#"{"indexingMode":"none","automatic":false}"#).expect("valid").included_paths.is_empty()
        );
        assert!(policy(r#"{"indexingMode":"none","includedPaths":[{"path":"/*"}]}"#).is_err());
    }

    #[test]
    fn rules_of_the_reference_are_enforced() {
        for json in [
            r#"{"includedPaths":[{"path":"/a/?"}]}"#,
            r#"{"includedPaths":[{"path":"/*"}],"excludedPaths":[{"path":"/*"}]}"#,
            r#"{"includedPaths":[{"path":"/*"},{"path":"/a/?"}],"excludedPaths":[{"path":"/a/?"}]}"#,
            r#"{"includedPaths":[{"path":"a"}]}"#,
            r#"{"compositeIndexes":[[{"path":"/a"}]]}"#,
            r#"{"spatialIndexes":[{"path":"/a/*","types":["Circle"]}]}"#,
            r#"{"spatialIndexes":[{"path":"/a/*"}]}"#,
            r#"{"spatialIndexes":[{"path":"/a/*","types":[]}]}"#,
        ] {
            assert!(policy(json).is_err(), "{json}");
        }
    }

    #[test]
    fn the_more_precise_path_wins() {
        let matcher = policy(
            r#"{"includedPaths":[{"path":"/*"},{"path":"/a/b/?"},{"path":"/tags/[]/name/?"}],
                "excludedPaths":[{"path":"/a/*"},{"path":"/tags/*"}]}"#,
        )
        .expect("valid")
        .matcher();
        assert!(matcher.is_indexed(&[name("x")]));
        assert!(!matcher.is_indexed(&[name("a"), name("c")]));
        assert!(matcher.is_indexed(&[name("a"), name("b")]));
        assert!(!matcher.is_indexed(&[name("a"), name("b"), name("c")]));
        assert!(matcher.is_indexed(&[name("tags"), IndexPathSegment::Element(3), name("name")]));
        assert!(!matcher.is_indexed(&[name("tags"), IndexPathSegment::Element(3), name("size")]));
        assert!(matcher.is_indexed(&[name("tags"), IndexPathSegment::AnyElement, name("name")]));
        assert!(matcher.is_indexed(&[]));
        assert!(!matcher.indexes_everything());
        let tags = matcher.member(matcher.root(), "tags");
        assert!(!matcher.covers_nothing_below(tags));
        assert!(matcher.covers_nothing_below(matcher.member(tags, "other")));
        assert!(IndexingPolicy::default().matcher().indexes_everything());
    }

    #[test]
    fn positions_of_elements_are_covered_as_a_whole() {
        let matcher = policy(
            r#"{"includedPaths":[{"path":"/a/[1]/?"},{"path":"/b/*"}],
                "excludedPaths":[{"path":"/*"},{"path":"/b/[0]/*"}]}"#,
        )
        .expect("valid")
        .matcher();
        for position in [IndexPathSegment::AnyElement, IndexPathSegment::Element(0)] {
            assert!(matcher.is_indexed(&[name("a"), position.clone()]));
            assert!(matcher.is_indexed(&[name("b"), position]));
        }
        assert!(!matcher.is_indexed(&[name("a")]));
    }
}
