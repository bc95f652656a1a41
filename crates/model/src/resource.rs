//! Databases and containers, and the policies a container is created with (wire.md §7).
//!
//! Users write a [`ContainerDefinition`], and the catalog stores it after [`ContainerDefinition::normalise`],
//! which fills in the service's defaults and refuses definitions that the service refuses.

use serde::{Deserialize, Serialize};

use crate::full_text_policy::{FullTextPolicy, validate_full_text};
use crate::vector_policy::{
    VectorEmbeddingPolicy, validate_vector_indexes_replace, validate_vectors, validate_vectors_replace,
};
use crate::{
    Bounds, ContainerRid, DatabaseRid, Error, IndexingMode, IndexingPolicy, KeyPath, Limits, Narrowing,
    PartitionKeyDefinition, PreviousImageRetentionPolicy, PreviousImages, Result,
};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Database {
    pub id: String,
    pub rid: DatabaseRid,
    pub etag: [u8; 16],
    /// Unix seconds.
    pub timestamp: u64,
    /// A front end's private text, kept with the database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Container {
    pub rid: ContainerRid,
    pub etag: [u8; 16],
    pub timestamp: u64,
    pub definition: ContainerDefinition,
    /// A front end's private text, kept with the container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<String>,
    /// Made as a collection of documents: every element of an array counts for a unique key, and unique keys come and go.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_collection: bool,
    /// The items of the unique key at the same position; all, if absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub narrowings: Vec<Option<Narrowing>>,
    /// How much each logical partition keeps; `None` for everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bounds: Option<Bounds>,
}

/// A physical partition as clients see it.
#[derive(Debug, Clone, PartialEq)]
pub struct PartitionKeyRange {
    pub id: u32,
    /// Upper-case hexadecimal, `""` lowest.
    pub min_inclusive: String,
    /// Upper-case hexadecimal, `"FF"` highest.
    pub max_exclusive: String,
    pub rid_prefix: u32,
    /// Ids of the ranges it came from, oldest first.
    pub parents: Vec<u32>,
    pub lsn: u64,
    /// Its part of the container's throughput.
    pub throughput_fraction: f64,
}

/// Seconds of the longest time to live of rows in the analytical store.
const ANALYTICAL_TTL_MAX: i64 = i32::MAX as i64;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerDefinition {
    pub id: String,
    #[serde(default)]
    pub indexing_policy: IndexingPolicy,
    pub partition_key: PartitionKeyDefinition,
    #[serde(default)]
    pub unique_key_policy: UniqueKeyPolicy,
    #[serde(default)]
    pub conflict_resolution_policy: ConflictResolutionPolicy,
    #[serde(default)]
    pub geospatial_config: GeospatialConfig,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_ttl: Option<i64>,
    /// Seconds for which a row of the analytical store stays after its item's last write; -1: as long as the item; 0: no such store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub analytical_storage_ttl: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub computed_properties: Option<Vec<ComputedProperty>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change_feed_policy: Option<ChangeFeedPolicy>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_image_retention_policy: Option<PreviousImageRetentionPolicy>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vector_embedding_policy: Option<VectorEmbeddingPolicy>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full_text_policy: Option<FullTextPolicy>,
    /// Sent by clients of the preview of global secondary indexes; without effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_materialized_views: Option<bool>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "camelCase")]
pub struct UniqueKeyPolicy {
    #[serde(default)]
    pub unique_keys: Vec<UniqueKey>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UniqueKey {
    pub paths: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConflictResolutionPolicy {
    #[serde(default = "last_writer_wins")]
    pub mode: String,
    #[serde(default = "timestamp_path")]
    pub conflict_resolution_path: String,
    #[serde(default)]
    pub conflict_resolution_procedure: String,
}

fn last_writer_wins() -> String {
    "LastWriterWins".into()
}

fn timestamp_path() -> String {
    "/_ts".into()
}

impl Default for ConflictResolutionPolicy {
    fn default() -> Self {
        ConflictResolutionPolicy {
            mode: last_writer_wins(),
            conflict_resolution_path: timestamp_path(),
            conflict_resolution_procedure: String::new(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GeospatialConfig {
    #[serde(rename = "type")]
    pub kind: String,
}

impl Default for GeospatialConfig {
    fn default() -> Self {
        GeospatialConfig { kind: "Geography".into() }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComputedProperty {
    pub name: String,
    pub query: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChangeFeedPolicy {
    /// Minutes for which all versions and deletes are kept.
    pub retention_duration: i64,
}

impl ContainerDefinition {
    pub fn new(id: &str, partition_key: PartitionKeyDefinition) -> Self {
        ContainerDefinition {
            id: id.to_owned(),
            indexing_policy: IndexingPolicy::default(),
            partition_key,
            unique_key_policy: UniqueKeyPolicy::default(),
            conflict_resolution_policy: ConflictResolutionPolicy::default(),
            geospatial_config: GeospatialConfig::default(),
            default_ttl: None,
            analytical_storage_ttl: None,
            computed_properties: None,
            change_feed_policy: None,
            previous_image_retention_policy: None,
            vector_embedding_policy: None,
            full_text_policy: None,
            allow_materialized_views: None,
        }
    }

    /// Fills in defaults and checks every rule that does not need another resource.
    pub fn normalise(mut self, limits: &Limits) -> Result<ContainerDefinition> {
        validate_resource_id(&self.id, limits)?;
        self.partition_key
            .validate(limits.partition_key_paths_max)
            .map_err(|error| Error::bad_request(error.to_string()))?;
        self.indexing_policy = self.indexing_policy.normalise(limits)?;
        self.validate_unique_keys(limits)?;
        self.validate_conflict_resolution()?;
        self.validate_ttl()?;
        self.validate_computed_properties(limits)?;
        let indexes = &self.indexing_policy;
        validate_vectors(self.vector_embedding_policy.as_ref(), &indexes.vector_indexes)?;
        validate_full_text(self.full_text_policy.as_ref(), &indexes.full_text_indexes)?;
        if !matches!(self.geospatial_config.kind.as_str(), "Geography" | "Geometry") {
            return Err(Error::bad_request(format!(
                "geospatialConfig type '{}' is invalid: use 'Geography' or 'Geometry'",
                self.geospatial_config.kind
            )));
        }
        let max = limits.change_feed_retention_minutes_max;
        if self
            .change_feed_policy
            .as_ref()
            .is_some_and(|policy| !(0..=max).contains(&policy.retention_duration))
        {
            return Err(Error::bad_request(format!(
                "changeFeedPolicy retentionDuration is a number of minutes from 0 (off) to {max}"
            )));
        }
        if let Some(policy) = &self.previous_image_retention_policy {
            policy.validate()?;
        }
        let again = self.indexing_policy.clone().normalise(limits);
        assert!(again.is_ok_and(|again| again == self.indexing_policy), "normalising twice changes nothing");
        Ok(self)
    }

    /// The changes that show the previous version to clients by default.
    pub fn previous_images(&self) -> PreviousImages {
        let policy = self.previous_image_retention_policy.as_ref();
        policy.map_or(PreviousImages::OF_DELETES, PreviousImageRetentionPolicy::images)
    }

    /// Checks that a replace changes only mutable parts.
    pub fn validate_replace(&self, new: &ContainerDefinition) -> Result<()> {
        let immutable = |what: &str| {
            Err(Error::bad_request(format!(
                "{what} of container '{}' cannot be changed by a replace: send it as it is",
                self.id
            )))
        };
        if self.id != new.id {
            return immutable("id");
        }
        if !self.partition_key.same(&new.partition_key) {
            return immutable("partitionKey");
        }
        if self.unique_key_policy != new.unique_key_policy {
            return immutable("uniqueKeyPolicy");
        }
        if self.conflict_resolution_policy.mode != new.conflict_resolution_policy.mode {
            return immutable("conflictResolutionPolicy mode");
        }
        validate_vector_indexes_replace(
            &self.indexing_policy.vector_indexes,
            &new.indexing_policy.vector_indexes,
        )?;
        validate_vectors_replace(self.vector_embedding_policy.as_ref(), new.vector_embedding_policy.as_ref())
    }

    fn validate_unique_keys(&self, limits: &Limits) -> Result<()> {
        let keys = &self.unique_key_policy.unique_keys;
        let paths: usize = keys.iter().map(|key| key.paths.len()).sum();
        if keys.len() > limits.unique_keys_max || paths > limits.unique_key_paths_max {
            return Err(Error::bad_request(format!(
                "a container takes at most {} unique keys with {} paths in all",
                limits.unique_keys_max, limits.unique_key_paths_max
            )));
        }
        for key in keys {
            if key.paths.is_empty() {
                return Err(Error::bad_request("a unique key names no path"));
            }
            for path in &key.paths {
                let parsed = KeyPath::parse(path).map_err(|_| {
                    Error::bad_request(format!(
                        "the unique key path '{path}' is invalid: use '/name' or '/a/b'"
                    ))
                })?;
                if parsed.0.len() == 1 && parsed.0[0].starts_with('_') {
                    return Err(Error::bad_request(format!(
                        "the unique key path '{path}' names a system property"
                    )));
                }
            }
        }
        for (index, key) in keys.iter().enumerate() {
            if keys[..index].contains(key) {
                return Err(Error::bad_request("the same unique key is listed twice"));
            }
        }
        Ok(())
    }

    /// With one write region there are no conflicts, so the last writer wins under any policy.
    fn validate_conflict_resolution(&self) -> Result<()> {
        let policy = &self.conflict_resolution_policy;
        let refused = |what: &str| {
            Err(Error::unsupported(format!(
                "conflictResolutionPolicy {what} is not supported: no region conflicts with another here, and nothing would call a procedure; leave it out; nothing was done"
            )))
        };
        match policy.mode.as_str() {
            "LastWriterWins" | "lastWriterWins" if policy.conflict_resolution_procedure.is_empty() => Ok(()),
            "LastWriterWins" | "lastWriterWins" => refused("procedure"),
            "Custom" | "custom" => refused("mode 'Custom'"),
            other => Err(Error::bad_request(format!(
                "conflictResolutionPolicy mode '{other}' is invalid: use 'LastWriterWins'"
            ))),
        }
    }

    fn validate_ttl(&self) -> Result<()> {
        validate_ttl("defaultTtl", self.default_ttl)?;
        if self.default_ttl.is_some() && self.indexing_policy.indexing_mode == IndexingMode::None {
            return Err(Error::bad_request(
                "a time to live needs an index: leave out 'defaultTtl', or use the indexing mode 'consistent', with all paths excluded if need be",
            ));
        }
        match self.analytical_storage_ttl {
            None | Some(-1..=ANALYTICAL_TTL_MAX) => Ok(()),
            Some(other) => Err(Error::bad_request(format!(
                "analyticalStorageTtl is {other}: use -1 (rows stay as long as their items), a number of seconds from 1 to {ANALYTICAL_TTL_MAX}, or 0 (no analytical store)"
            ))),
        }
    }

    /// Whether the container has an analytical store.
    pub fn is_analytical(&self) -> bool {
        self.analytical_storage_ttl.is_some_and(|seconds| seconds != 0)
    }

    fn validate_computed_properties(&self, limits: &Limits) -> Result<()> {
        const INVALID: &str = "One of the specified inputs is invalid";
        const SYSTEM: [&str; 8] = ["id", "_rid", "_self", "_etag", "_ts", "_attachments", "ttl", "_lsn"];
        let properties = self.computed_properties.as_deref().unwrap_or_default();
        if properties.len() > limits.computed_properties_max {
            return Err(Error::bad_request(format!(
                "{INVALID}: a container takes at most {} computed properties",
                limits.computed_properties_max
            )));
        }
        for (index, property) in properties.iter().enumerate() {
            let name = property.name.as_str();
            if name.is_empty() || SYSTEM.contains(&name) || name.contains('/') {
                return Err(Error::bad_request(format!("{INVALID}: computed property name '{name}'")));
            }
            if properties[..index].iter().any(|other| other.name == name) {
                return Err(Error::bad_request(format!(
                    "{INVALID}: computed property '{name}' is defined twice"
                )));
            }
            let words: Vec<&str> = property.query.split_whitespace().take(2).collect();
            if words.len() < 2
                || !words[0].eq_ignore_ascii_case("select")
                || !words[1].eq_ignore_ascii_case("value")
            {
                return Err(Error::bad_request(format!(
                    "{INVALID}: the query of computed property '{name}' must be 'SELECT VALUE <expression> FROM c'"
                )));
            }
        }
        Ok(())
    }
}

/// -1 or positive, within 32 bits.
fn validate_ttl(name: &str, ttl: Option<i64>) -> Result<()> {
    match ttl {
        None | Some(-1) | Some(1..=2_147_483_647) => Ok(()),
        Some(other) => Err(Error::bad_request(format!(
            "{name} {other} is invalid: use -1 or a number of seconds from 1 to 2147483647"
        ))),
    }
}

/// Names of databases and containers: 1 to 255 bytes, without `/ \ ? #`, not ending in a space.
pub fn validate_resource_id(id: &str, limits: &Limits) -> Result<()> {
    if id.is_empty() || id.len() > limits.resource_id_bytes_max {
        return Err(Error::bad_request(format!(
            "Ensure to provide a unique non-empty string less than '{}' characters.",
            limits.resource_id_bytes_max
        )));
    }
    if id.contains(['/', '\\', '?', '#']) || id.ends_with(' ') {
        return Err(Error::bad_request(format!(
            "the id '{id}' contains one of '/', '\\', '?', '#' or ends in a space: choose another"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(members: &str) -> Result<ContainerDefinition> {
        let json =
            format!(r#"{{"id":"c","partitionKey":{{"paths":["/pk"],"kind":"Hash","version":2}}{members}}}"#);
        serde_json::from_str::<ContainerDefinition>(&json).expect("well-formed").normalise(&Limits::default())
    }

    #[test]
    fn defaults_are_the_services() {
        let text = serde_json::to_string(&definition("").expect("valid")).expect("serialisable");
        assert!(text.contains(r#""indexingMode":"consistent""#), "{text}");
        assert!(text.contains(r#""excludedPaths":[{"path":"/\"_etag\"/?"}]"#), "{text}");
        assert!(text.contains(r#""conflictResolutionPath":"/_ts""#), "{text}");
        assert!(!text.contains("defaultTtl"), "{text}");
    }

    #[test]
    fn policies_the_service_refuses_are_refused() {
        for members in [
            r#","defaultTtl":0"#,
            r#","defaultTtl":-10"#,
            r#","geospatialConfig":{"type":"Flat"}"#,
            r#","uniqueKeyPolicy":{"uniqueKeys":[{"paths":[]}]}"#,
            r#","uniqueKeyPolicy":{"uniqueKeys":[{"paths":["a"]}]}"#,
            r#","computedProperties":[{"name":"id","query":"SELECT VALUE 1 FROM c"}]"#,
            r#","computedProperties":[{"name":"x","query":"SELECT c.x FROM c"}]"#,
            r#","indexingPolicy":{"vectorIndexes":[{"path":"/v","type":"flat"}]}"#,
        ] {
            assert!(definition(members).is_err(), "{members}");
        }
    }

    #[test]
    fn a_replace_may_change_policies_but_not_identity() {
        let old = definition("").expect("valid");
        assert!(old.validate_replace(&definition(r#","defaultTtl":60"#).expect("valid")).is_ok());
        let mut renamed = old.clone();
        renamed.id = "d".into();
        assert!(old.validate_replace(&renamed).is_err());
        let mut rekeyed = old.clone();
        rekeyed.partition_key = PartitionKeyDefinition::hash("/other");
        assert!(old.validate_replace(&rekeyed).is_err());
    }
}
