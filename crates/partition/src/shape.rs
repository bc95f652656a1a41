//! Schema of a container for its partitions: compiled policies, shared by all partitions and
//! replaced as a whole.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use shardlake_charge::ChargeTable;
use shardlake_collation::SIMPLE;
use shardlake_document::{Misfit, RawDocument, RawValue, keys_of, misfit_of};
use shardlake_index::IndexLayout;
use shardlake_model::{
    Bounds, Container, ContainerDefinition, Error, KeyPath, Limits, Narrowing, PartitionKey,
    PartitionKeyDefinition, PathMatcher, Result, UniqueKey,
};
use shardlake_routing::Epk;
use shardlake_routing::LogicalKey;
use shardlake_sql::{CompositeSchema, ComputedProperties, GeometryKind, IndexSchema};

use crate::keys::{self, PartitionUid};
use crate::unique_rule::UniqueRule;
use crate::watch::Watch;

/// How many shapes this process has made.
static SHAPES: AtomicU64 = AtomicU64::new(0);

#[derive(Debug)]
pub struct ContainerSchema {
    /// Later ones have higher numbers.
    pub number: u64,
    /// `dbs/{rid}/colls/{rid}/docs/`, the start of every item's `_self`.
    pub items_link: String,
    pub rid: shardlake_model::ContainerRid,
    pub key_definition: PartitionKeyDefinition,
    pub key_paths: Vec<KeyPath>,
    pub unique_keys: Vec<Vec<KeyPath>>,
    /// Which items the unique key of the same place is about; all, where there is nothing.
    pub narrowings: Vec<Option<Narrowing>>,
    /// How much each logical partition keeps: see `oldest/`.
    pub bounds: Option<Bounds>,
    /// The rule of every unique key, by its place.
    unique_rules: Vec<UniqueRule>,
    pub indexed_paths: PathMatcher,
    pub computed: ComputedProperties,
    /// The generation of the index that queries read.
    pub serving: Option<Arc<IndexLayout>>,
    /// Properties of `serving` and of the policy that planning needs.
    schema: Schema,
    /// The generation being filled, which writes keep up to date too.
    pub building: Option<Arc<IndexLayout>>,
    pub geometry: GeometryKind,
    /// `None`: time to live is off, regardless of an item's own.
    pub default_ttl: Option<i64>,
    /// How long versions that have ended are kept; `None`: not at all.
    pub retention: Option<Duration>,
    pub limits: Arc<Limits>,
    pub charges: ChargeTable,
    /// Every element of an array counts for a unique key, and unique keys come and go.
    pub is_collection: bool,
    /// The copies of the container, where it has any.
    pub watch: Option<Arc<dyn Watch>>,
}

/// Identifies a unique key of a collection, independently of its other unique keys.
fn slot_of(paths: &[KeyPath], rule: &UniqueRule) -> u32 {
    let mut text: Vec<String> = paths.iter().map(|path| path.0.join("/")).collect();
    if !rule.form.is_empty() {
        text.push(format!("\n{}", rule.form));
    }
    crc32fast::hash(text.join("\n").as_bytes())
}

/// The keys of the values that an item of a collection has for one unique key.
pub(crate) fn collection_keys(
    uid: PartitionUid,
    logical: &LogicalKey,
    (paths, rule): (&[KeyPath], &UniqueRule),
    item: RawDocument<'_>,
) -> Vec<Bytes> {
    if !rule.is_about(item, paths) {
        return Vec::new();
    }
    let slot = keys::UniqueSlot::Hash(slot_of(paths, rule));
    let (values, _) = keys_of(item, paths);
    let key_of = |values: &Vec<Option<RawValue<'_>>>| {
        if rule.collation.is_simple() {
            return Bytes::from(keys::unique_key(uid, slot, logical, (values, &SIMPLE)));
        }
        let texts = rule.sort_texts(values, paths);
        let collated = values.iter().zip(&texts).map(|(value, text)| match text {
            Some(text) => Some(RawValue::String(text)),
            None => *value,
        });
        let collated: Vec<Option<RawValue<'_>>> = collated.collect();
        Bytes::from(keys::unique_key(uid, slot, logical, (&collated, &rule.collation)))
    };
    let mut own: Vec<Bytes> = values.iter().map(key_of).collect();
    own.sort_unstable();
    own.dedup();
    own
}

/// Bytes that identify the values of an item of a collection for one unique key: equal values of
/// two items of a logical partition have equal bytes.
pub fn unique_values_of(
    key: &UniqueKey,
    narrowing: Option<&Narrowing>,
    item: RawDocument<'_>,
) -> Result<Vec<Bytes>> {
    let paths = parsed_paths(&key.paths)?;
    let nowhere = LogicalKey { epk: Epk::from(Vec::new()), partition_key: PartitionKey(Vec::new()) };
    Ok(collection_keys(PartitionUid(0), &nowhere, (&paths, &UniqueRule::of(narrowing)?), item))
}

fn parsed_paths(paths: &[String]) -> Result<Vec<KeyPath>> {
    let parse = |path: &String| KeyPath::parse(path).map_err(|error| Error::bad_request(error.to_string()));
    paths.iter().map(parse).collect()
}

impl ContainerSchema {
    /// `container` must have been normalised.
    pub fn new(
        container: &Container,
        (serving, building): (Option<Arc<IndexLayout>>, Option<Arc<IndexLayout>>),
        limits: Arc<Limits>,
        charges: ChargeTable,
    ) -> Result<ContainerSchema> {
        let definition = &container.definition;
        let unique_keys = &definition.unique_key_policy.unique_keys;
        let kept = |place: usize| container.narrowings.get(place).and_then(Option::as_ref);
        let unique_rules = (0..unique_keys.len()).map(|place| UniqueRule::of(kept(place)));
        let unique_rules = unique_rules.collect::<Result<Vec<_>>>()?;
        assert_eq!(unique_rules.len(), unique_keys.len(), "each unique key has its rule");
        Ok(ContainerSchema {
            number: SHAPES.fetch_add(1, Ordering::Relaxed),
            items_link: format!("dbs/{}/colls/{}/docs/", container.rid.database, container.rid),
            rid: container.rid,
            key_definition: definition.partition_key.clone(),
            key_paths: parsed_paths(&definition.partition_key.paths)?,
            unique_keys: unique_keys.iter().map(|key| parsed_paths(&key.paths)).collect::<Result<_>>()?,
            narrowings: container.narrowings.clone(),
            bounds: container.bounds,
            unique_rules,
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
            retention: retention_of(definition, &limits),
            limits,
            charges,
            is_collection: container.is_collection,
            watch: None,
        })
    }

    /// With copies that commits record ended rows for.
    pub fn watched_by(self, watch: Option<Arc<dyn Watch>>) -> ContainerSchema {
        ContainerSchema { watch, ..self }
    }

    /// Whether both have the same unique keys, about the same items.
    pub fn has_unique_keys_of(&self, other: &ContainerSchema) -> bool {
        self.unique_keys == other.unique_keys && self.narrowings == other.narrowings
    }

    /// The indexes with which queries are planned.
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

    /// Where the holders of an item's unique values lie, each with the place of its key in the policy.
    pub(crate) fn unique_keys_of(
        &self,
        uid: PartitionUid,
        logical: &LogicalKey,
        item: RawDocument<'_>,
    ) -> Vec<(usize, Bytes)> {
        let mut found = Vec::new();
        for (place, paths) in self.unique_keys.iter().enumerate() {
            if !self.is_collection {
                let values: Vec<_> = paths.iter().map(|path| item.get_path(&path.0)).collect();
                let slot = keys::UniqueSlot::Place(place as u8);
                found.push((place, Bytes::from(keys::unique_key(uid, slot, logical, (&values, &SIMPLE)))));
                continue;
            }
            let own = collection_keys(uid, logical, (paths, &self.unique_rules[place]), item);
            found.extend(own.into_iter().map(|key| (place, key)));
        }
        found
    }

    /// The reason that keeps an item of a collection out of a unique key that covers it, with the
    /// place of the key.
    pub(crate) fn misfit_of(&self, item: RawDocument<'_>) -> Option<(usize, Misfit)> {
        let keys = self.unique_keys.iter().enumerate().filter(|_| self.is_collection);
        keys.filter(|(place, paths)| self.unique_rules[*place].is_about(item, paths))
            .find_map(|(place, paths)| Some((place, misfit_of(paths, item)?)))
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

/// How long a container keeps versions that have ended, by its change feed policy or else by the account.
pub fn retention_of(definition: &ContainerDefinition, limits: &Limits) -> Option<Duration> {
    let Some(policy) = &definition.change_feed_policy else { return limits.versions_kept };
    let minutes = policy.retention_duration;
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

/// Compiles a stored definition. A definition from before definitions were compiled may not be
/// valid: then there are no computed properties, rather than no container.
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
