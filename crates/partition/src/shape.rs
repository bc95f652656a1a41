//! What a partition must know of its container: compiled policies, shared by all partitions and replaced as a whole.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use shardlake_charge::ChargeTable;
use shardlake_document::RawDocument;
use shardlake_index::IndexLayout;
use shardlake_model::{
    Container, ContainerDefinition, Error, KeyPath, Limits, PartitionKeyDefinition, PathMatcher, Result,
};
use shardlake_sql::{CompositeSchema, ComputedProperties, GeometryKind, IndexSchema};

use crate::keys::{self, PartitionUid};
use crate::operation::LogicalKey;

#[derive(Debug)]
pub struct ContainerShape {
    /// `dbs/{rid}/colls/{rid}/docs/`, the start of every item's `_self`.
    pub items_link: String,
    pub rid: shardlake_model::ContainerRid,
    pub key_definition: PartitionKeyDefinition,
    pub key_paths: Vec<KeyPath>,
    pub unique_keys: Vec<Vec<KeyPath>>,
    pub indexed_paths: PathMatcher,
    pub computed: ComputedProperties,
    /// The generation of the index that queries read.
    pub serving: Option<Arc<IndexLayout>>,
    /// What planning needs to know of `serving` and of the policy.
    schema: Schema,
    /// The generation being filled, which writes keep up to date too.
    pub building: Option<Arc<IndexLayout>>,
    pub geometry: GeometryKind,
    /// `None`: time to live is off, whatever an item says.
    pub default_ttl: Option<i64>,
    /// How long versions that have ended are kept; `None`: not at all.
    pub retention: Option<Duration>,
    pub limits: Arc<Limits>,
    pub charges: ChargeTable,
}

impl ContainerShape {
    /// `container` must have been normalised.
    pub fn new(
        container: &Container,
        (serving, building): (Option<Arc<IndexLayout>>, Option<Arc<IndexLayout>>),
        limits: Arc<Limits>,
        charges: ChargeTable,
    ) -> Result<ContainerShape> {
        let definition = &container.definition;
        let parse =
            |path: &String| KeyPath::parse(path).map_err(|error| Error::bad_request(error.to_string()));
        let unique_keys = &definition.unique_key_policy.unique_keys;
        Ok(ContainerShape {
            items_link: format!("dbs/{}/colls/{}/docs/", container.rid.database, container.rid),
            rid: container.rid,
            key_definition: definition.partition_key.clone(),
            key_paths: definition.partition_key.paths.iter().map(parse).collect::<Result<_>>()?,
            unique_keys: unique_keys
                .iter()
                .map(|key| key.paths.iter().map(parse).collect::<Result<_>>())
                .collect::<Result<_>>()?,
            indexed_paths: definition.indexing_policy.matcher(),
            schema: Schema::new(serving.as_deref(), building.as_deref()),
            computed: computed_properties(&computed_definitions(definition)),
            serving,
            building,
            geometry: match definition.geospatial_config.kind.as_str() {
                "Geometry" => GeometryKind::Geometry,
                _ => GeometryKind::Geography,
            },
            default_ttl: definition.default_ttl,
            retention: retention_of(definition),
            limits,
            charges,
        })
    }

    /// What queries are planned with.
    pub fn index_schema(&self) -> IndexSchema<'_> {
        IndexSchema {
            paths: self.serving.as_ref().map(|layout| &layout.paths),
            composites: &self.schema.composites,
            explicit: &self.schema.explicit,
            computed: &self.schema.computed,
            policy_paths: &self.indexed_paths,
            policy_composites: &self.schema.policy_composites,
        }
    }

    /// The generations that writes keep up to date.
    pub fn maintained(&self) -> Vec<Arc<IndexLayout>> {
        self.serving.iter().chain(&self.building).cloned().collect()
    }

    /// Where the holders of an item's unique values lie, in the order of the policy.
    pub(crate) fn unique_keys_of<'k>(
        &'k self,
        uid: PartitionUid,
        logical: &'k LogicalKey,
        item: RawDocument<'k>,
    ) -> impl Iterator<Item = Bytes> + 'k {
        self.unique_keys.iter().enumerate().map(move |(index, paths)| {
            let values: Vec<_> = paths.iter().map(|path| item.get_path(&path.0)).collect();
            Bytes::from(keys::unique_key(uid, index as u8, logical, &values))
        })
    }

    /// Whether an item written at `timestamp_seconds` with its own `ttl` has run out by `now_seconds`.
    pub fn is_expired(&self, timestamp_seconds: u64, ttl: Option<i32>, now_seconds: u64) -> bool {
        let Some(default_ttl) = self.default_ttl else { return false };
        match ttl.map_or(default_ttl, i64::from) {
            -1 => false,
            seconds => timestamp_seconds.saturating_add(seconds.max(0) as u64) <= now_seconds,
        }
    }
}

/// What a container's change feed policy comes to.
pub fn retention_of(definition: &ContainerDefinition) -> Option<Duration> {
    let minutes = definition.change_feed_policy.as_ref().map_or(0, |policy| policy.retention_duration);
    (minutes > 0).then(|| Duration::from_secs(minutes.unsigned_abs().saturating_mul(60)))
}

#[derive(Debug, Default)]
struct Schema {
    composites: Vec<CompositeSchema>,
    policy_composites: Vec<CompositeSchema>,
    explicit: Vec<Vec<String>>,
    computed: Vec<String>,
}

impl Schema {
    fn new(serving: Option<&IndexLayout>, building: Option<&IndexLayout>) -> Schema {
        let composites =
            |layout: Option<&IndexLayout>| layout.map(IndexLayout::composite_schemas).unwrap_or_default();
        Schema {
            composites: composites(serving),
            policy_composites: composites(building.or(serving)),
            explicit: serving.map(IndexLayout::explicit_names).unwrap_or_default(),
            computed: serving.map(IndexLayout::computed_names).unwrap_or_default(),
        }
    }
}

/// Names and queries of a container's computed properties.
pub fn computed_definitions(definition: &ContainerDefinition) -> Vec<(String, String)> {
    let properties = definition.computed_properties.iter().flatten();
    properties.map(|property| (property.name.clone(), property.query.clone())).collect()
}

/// Compiles what a stored definition says. One from before definitions were compiled may not be valid: then there are no
/// computed properties, rather than no container.
pub fn computed_properties(list: &[(String, String)]) -> ComputedProperties {
    ComputedProperties::compile(list).unwrap_or_else(|error| {
        tracing::warn!(%error, "a container's computed properties are invalid: replace its definition");
        ComputedProperties::default()
    })
}

/// Refuses a definition whose computed properties do not compile.
pub fn validate_computed_properties(definition: &ContainerDefinition) -> Result<()> {
    ComputedProperties::compile(&computed_definitions(definition)).map(drop).map_err(Error::from)
}
