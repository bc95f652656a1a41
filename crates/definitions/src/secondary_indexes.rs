//! Containers that are global secondary indexes: rules of their creation and replacement; their state.
//!
//! An index is a container with a [`SecondaryIndexRecord`]. The source's etag changes with the list of its indexes, in
//! the same change of the catalog, and so does the running state of the source's partitions.

use std::sync::Arc;

use shardlake_catalog::{ContainerRecord, Definitions, SecondaryIndexRecord, SecondaryIndexState};
use shardlake_model::{
    ConflictResolutionPolicy, Container, ContainerDefinition, ContainerRid, Error, ErrorKind, ExpiredRows,
    INDEX_CHAIN_MAX, INDEXES_OF_SOURCE_MAX, INDEXES_OF_SOURCE_MAX_STRICT, IndexSettings, KeyPath, Result,
    SecondaryIndexDefinition, Throughput,
};
use shardlake_partition::ROW_NAME;
use shardlake_router::{ContainerEntry, DatabaseEntry, LiveCatalog, NOT_ON_VIEWS};
use shardlake_sql::{ComputedProperties, Derivation, DeriveSource, Dialect, GeometryKind, derive};
use shardlake_stdx::{Random, Timestamp};

/// A container's place among indexes, for its document.
#[derive(Debug, Clone, Default)]
pub struct SecondaryIndexView {
    /// Set if the container is an index.
    pub own: Option<Arc<SecondaryIndexRecord>>,
    /// Indexes that clients may query in the container's place.
    pub indexes: Vec<IndexOfSource>,
}

/// An index as its source lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexOfSource {
    pub id: String,
    pub rid: ContainerRid,
    /// Paths of the source whose old values move rows of the index.
    pub moving_paths: Vec<String>,
}

/// The record of a new index, checked against its source.
pub(crate) fn new_index_record(
    dialect: Dialect,
    draft: &mut Definitions,
    owner: &DatabaseEntry,
    (definition, index): (&ContainerDefinition, &SecondaryIndexDefinition),
    now: Timestamp,
) -> Result<SecondaryIndexRecord> {
    let source = source_of(owner, index)?;
    check_room(draft, source, dialect)?;
    check_settings(&index.shardlake)?;
    check_policies(definition)?;
    let derivation = derive(&index.definition, &source_form(source), dialect)?;
    check_key(definition, &derivation)?;
    check_outputs(&index.shardlake, &derivation)?;
    check_groups(source, &derivation)?;
    check_settings_of_groups(&index.shardlake, &derivation)?;
    assert!(draft.containers.contains(&source.record.container.rid), "an index has a source");
    Ok(SecondaryIndexRecord {
        number: draft.new_copy_number(),
        source: source.record.container.rid,
        source_id: source.record.container.definition.id.clone(),
        definition: index.definition.clone(),
        settings: index.shardlake.clone(),
        state: SecondaryIndexState::default(),
        generation: 1,
        created: now.seconds(),
    })
}

/// The reference's indexes have autoscale throughput only.
pub(crate) fn check_throughput(dialect: Dialect, throughput: Option<Throughput>) -> Result<()> {
    match (dialect, throughput) {
        (Dialect::Strict, Some(Throughput::Manual(_))) => Err(Error::bad_request(
            "a global secondary index has autoscale throughput in the strict dialect: request autoscale throughput, or none",
        )),
        _ => Ok(()),
    }
}

impl SecondaryIndexView {
    pub(crate) fn of(live: &LiveCatalog, container: &ContainerEntry) -> SecondaryIndexView {
        let rid = container.record.container.rid;
        let mut indexes: Vec<(u32, IndexOfSource)> = Vec::new();
        for (rid, record) in live.definitions.secondary_indexes_of(rid) {
            let Some(entry) = live.container_of_rid(rid) else { continue };
            if let Some(moving_paths) = listed_paths(container, entry, record) {
                let id = entry.record.container.definition.id.clone();
                indexes.push((record.number, IndexOfSource { id, rid, moving_paths }));
            }
        }
        indexes.sort_by_key(|(number, _)| *number);
        SecondaryIndexView {
            own: live.definitions.secondary_indexes.get(&rid).cloned(),
            indexes: indexes.into_iter().map(|(_, index)| index).collect(),
        }
    }
}

/// Finds the source by its name, and compares its rid.
fn source_of<'o>(
    owner: &'o DatabaseEntry,
    index: &SecondaryIndexDefinition,
) -> Result<&'o Arc<ContainerEntry>> {
    let name = &index.source_collection_id;
    let source = owner.containers.get(name).ok_or_else(|| {
        Error::bad_request(format!(
            "the source of the index, container '{name}', does not exist in the database '{}': create it first",
            owner.database.id
        ))
    })?;
    if let Some(rid) = &index.source_collection_rid
        && rid != source.rid_text()
    {
        return Err(Error::bad_request(format!(
            "the source '{name}' was created anew meanwhile: its rid is '{}', not '{rid}'; read it again",
            source.rid_text()
        )));
    }
    if source.record.container.is_collection {
        return Err(Error::unsupported(format!(
            "the source '{name}' was created over the MongoDB API: indexes over collections are not supported yet; nothing was done"
        )));
    }
    Ok(source)
}

/// Compiled policies of a source that rows depend on.
fn source_form(source: &ContainerEntry) -> DeriveSource<'_> {
    DeriveSource { computed: Some(&source.shape.computed), geometry: source.shape.geometry }
}

fn check_room(draft: &Definitions, source: &ContainerEntry, dialect: Dialect) -> Result<()> {
    let rid = source.record.container.rid;
    let name = &source.record.container.definition.id;
    let depth = draft.secondary_index_depth(rid);
    if depth > 0 && dialect == Dialect::Strict {
        return Err(Error::bad_request(format!(
            "'{name}' is a global secondary index: it has no indexes of its own in the strict dialect"
        )));
    }
    if depth >= INDEX_CHAIN_MAX {
        return Err(Error::bad_request(format!(
            "'{name}' ends a chain of {INDEX_CHAIN_MAX} indexes, which is the limit: use an earlier source"
        )));
    }
    let most = match dialect {
        Dialect::Strict => INDEXES_OF_SOURCE_MAX_STRICT,
        Dialect::Shardlake => INDEXES_OF_SOURCE_MAX,
    };
    match draft.secondary_indexes_of(rid).count() < most {
        true => Ok(()),
        false => Err(Error::bad_request(format!(
            "the source '{name}' has {most} indexes, which is the limit: delete one first"
        ))),
    }
}

/// Refuses a setting that nothing follows yet.
fn check_settings(settings: &IndexSettings) -> Result<()> {
    match settings.dead_letters == IndexSettings::default().dead_letters {
        true => Ok(()),
        false => Err(Error::unsupported(
            "the setting 'shardlake.deadLetters' of a global secondary index is not supported yet: leave it out; nothing was done",
        )),
    }
}

/// Refuses settings about the row of one item: a group has several.
pub(crate) fn check_settings_of_groups(settings: &IndexSettings, derivation: &Derivation) -> Result<()> {
    let setting = match settings {
        IndexSettings { unique: true, .. } => "'unique'",
        IndexSettings { expired: ExpiredRows::Keep, .. } => "'expired' with the value 'keep'",
        _ => return Ok(()),
    };
    match derivation.is_grouped() {
        false => Ok(()),
        true => Err(Error::bad_request(format!(
            "an index with GROUP BY takes no setting {setting}: a group is made of several items; leave it out"
        ))),
    }
}

/// The compiled definition of an index that is there.
pub(crate) fn derivation_of(source: &ContainerEntry, record: &SecondaryIndexRecord) -> Result<Derivation> {
    Ok(derive(&record.definition, &source_form(source), Dialect::Shardlake)?)
}

/// Refuses an output that has the name of a row's own name.
fn check_outputs(settings: &IndexSettings, derivation: &Derivation) -> Result<()> {
    let has_name =
        derivation.outputs().is_some_and(|outputs| outputs.iter().any(|output| output == ROW_NAME));
    match settings.unique && has_name {
        false => Ok(()),
        true => Err(Error::bad_request(format!(
            "the output '{ROW_NAME}' would hide the row's name, which a unique index has there: give it another name with AS"
        ))),
    }
}

/// Refuses policies that decide about writes of clients, of which an index has none.
pub(crate) fn check_policies(definition: &ContainerDefinition) -> Result<()> {
    let refused = |member: &str| {
        Err(Error::bad_request(format!(
            "a global secondary index takes no '{member}': its items follow its source; leave it out"
        )))
    };
    if definition.default_ttl.is_some() {
        return refused("defaultTtl");
    }
    if !definition.unique_key_policy.unique_keys.is_empty() {
        return refused("uniqueKeyPolicy");
    }
    match definition.conflict_resolution_policy == ConflictResolutionPolicy::default() {
        true => Ok(()),
        false => refused("conflictResolutionPolicy"),
    }
}

/// Rows without a value at the key have the undefined key. A path at which no row has one is a mistake.
fn check_key(definition: &ContainerDefinition, derivation: &Derivation) -> Result<()> {
    for path in &definition.partition_key.paths {
        let parsed = KeyPath::parse(path).map_err(|error| Error::bad_request(error.to_string()))?;
        if derivation.is_aggregate(&parsed.0) {
            return Err(Error::bad_request(format!(
                "the partition key path '{path}' of the index is an aggregate, which changes with the items of its group: use an output that is a key of GROUP BY, or a constant such as 'all' AS board"
            )));
        }
        if !derivation.may_have(&parsed.0) {
            return Err(Error::bad_request(format!(
                "no row of the index has the partition key path '{path}': select the property, or use another key"
            )));
        }
    }
    Ok(())
}

/// Groups are kept where each lies in one logical partition of the source.
fn check_groups(source: &ContainerEntry, derivation: &Derivation) -> Result<()> {
    let paths: Vec<&[String]> = source.shape.key_paths.iter().map(|path| path.0.as_slice()).collect();
    if !derivation.is_grouped() || derivation.groups_have(&paths) {
        return Ok(());
    }
    Err(Error::unsupported(format!(
        "GROUP BY without the partition key of the source, {}, is not supported yet: create an index of '{}' with a key of GROUP BY as its partition key, and this index over that index; nothing was done",
        source.record.container.definition.partition_key.paths.join(", "),
        source.record.container.definition.id
    )))
}

/// Paths of the source whose values make up the index's key; `None` where the index may not stand in for the source.
fn listed_paths(
    source: &ContainerEntry,
    index: &ContainerEntry,
    record: &SecondaryIndexRecord,
) -> Option<Vec<String>> {
    let derivation = derive(&record.definition, &source_form(source), Dialect::Shardlake).ok()?;
    if !derivation.replaces_source() || record.settings.expired == ExpiredRows::Keep {
        return None;
    }
    let paths = index.shape.key_paths.iter().filter_map(|path| derivation.source_path(&path.0));
    Some(paths.filter(|path| path != &["id"]).map(|path| format!("/{}", path.join("/"))).collect())
}

/// Gives a source another etag, since the list of its indexes has changed.
pub(crate) fn touch_source(draft: &mut Definitions, source: ContainerRid, random: &Random) {
    let Some(record) = draft.containers.get(&source).cloned() else { return };
    let container = Container { etag: random.guid().0, ..record.container.clone() };
    draft.containers.put(source, ContainerRecord { container, ..ContainerRecord::clone(&record) });
}

/// Refuses to delete a source before its indexes.
pub(crate) fn check_has_no_indexes(draft: &Definitions, container: &Container) -> Result<()> {
    let mut indexes: Vec<String> = draft
        .secondary_indexes_of(container.rid)
        .filter_map(|(rid, _)| draft.containers.get(&rid))
        .map(|record| format!("'{}'", record.container.definition.id))
        .collect();
    if indexes.is_empty() {
        return Ok(());
    }
    indexes.sort();
    Err(Error::bad_request(format!(
        "'{}' is the source of global secondary indexes: delete {} first",
        container.definition.id,
        indexes.join(", ")
    )))
}

/// Refuses to rename or overwrite an index or a source: records of indexes have the source's name.
pub(crate) fn check_is_apart(draft: &Definitions, container: &Container) -> Result<()> {
    check_has_no_indexes(draft, container)?;
    check_is_no_index(draft, container)
}

/// Refuses to redefine an index over a protocol that does not show indexes.
pub(crate) fn check_is_no_index(draft: &Definitions, container: &Container) -> Result<()> {
    match draft.secondary_indexes.get(&container.rid) {
        None => Ok(()),
        Some(index) => Err(Error::new(
            ErrorKind::Forbidden,
            format!(
                "'{}' is a global secondary index of '{}': its definition cannot be changed",
                container.definition.id, index.source_id
            ),
        )
        .with_code(NOT_ON_VIEWS, Vec::new())),
    }
}

/// Checks the definition that replaces that of an index or of a source. `sent` is the index member of the request;
/// without it the index stays as it is.
pub(crate) fn check_replace(
    draft: &Definitions,
    container: &Container,
    new: &ContainerDefinition,
    sent: Option<&SecondaryIndexDefinition>,
) -> Result<()> {
    match (draft.secondary_indexes.get(&container.rid), sent) {
        (None, Some(_)) => {
            return Err(Error::bad_request(format!(
                "'{}' is no global secondary index, and a replace does not make it one: create another container",
                container.definition.id
            )));
        }
        (Some(record), sent) => {
            check_policies(new)?;
            if sent.is_some_and(|sent| !is_same(record, sent)) {
                return Err(Error::bad_request(format!(
                    "the source and the definition of the global secondary index '{}' cannot be changed by a replace: send them as they are, or leave them out",
                    container.definition.id
                )));
            }
        }
        (None, None) => {}
    }
    check_rows_stay(draft, container, new)
}

fn is_same(record: &SecondaryIndexRecord, sent: &SecondaryIndexDefinition) -> bool {
    record.source_id == sent.source_collection_id
        && record.definition == sent.definition
        && sent.source_collection_rid.as_ref().is_none_or(|rid| *rid == record.source.to_string())
        && (sent.shardlake.is_default() || sent.shardlake == record.settings)
}

/// Refuses policies of a source under which an index would have other rows than it has.
fn check_rows_stay(draft: &Definitions, container: &Container, new: &ContainerDefinition) -> Result<()> {
    let old = &container.definition;
    if old.computed_properties == new.computed_properties && old.geospatial_config == new.geospatial_config {
        return Ok(());
    }
    for (rid, record) in draft.secondary_indexes_of(container.rid) {
        if rows_under(old, record) != rows_under(new, record) {
            let name = draft.containers.get(&rid).map(|record| record.container.definition.id.clone());
            return Err(Error::bad_request(format!(
                "the computed properties or the geospatialConfig of '{}' cannot be changed: the global secondary index '{}' uses them; delete it first",
                old.id,
                name.unwrap_or_default()
            )));
        }
    }
    Ok(())
}

fn rows_under(definition: &ContainerDefinition, record: &SecondaryIndexRecord) -> Option<Derivation> {
    let computed = shardlake_partition::computed_definitions(definition);
    let computed = ComputedProperties::compile(&computed).ok()?;
    let geometry = match definition.geospatial_config.kind.as_str() {
        "Geometry" => GeometryKind::Geometry,
        _ => GeometryKind::Geography,
    };
    let source = DeriveSource { computed: Some(&computed), geometry };
    derive(&record.definition, &source, Dialect::Shardlake).ok()
}

#[cfg(test)]
mod tests {
    use shardlake_model::PartitionKeyDefinition;

    use super::*;

    #[test]
    fn settings_that_nothing_follows_are_refused_by_name() {
        assert!(check_settings(&IndexSettings::default()).is_ok());
        let settings = IndexSettings { dead_letters: "other".into(), ..IndexSettings::default() };
        let error = check_settings(&settings).expect_err("another container");
        assert!(error.message().contains("deadLetters"), "{error}");
        let of = |text: &str| derive(text, &DeriveSource::default(), Dialect::Shardlake).expect("valid");
        let unique = IndexSettings { unique: true, ..IndexSettings::default() };
        assert!(check_outputs(&unique, &of("SELECT c.a, c._row FROM c")).is_err());
        assert!(check_outputs(&unique, &of("SELECT * FROM c")).is_ok());
        assert!(check_outputs(&IndexSettings::default(), &of("SELECT c._row FROM c")).is_ok());
    }

    #[test]
    fn policies_of_writes_are_refused_by_name() {
        let mut definition = ContainerDefinition::new("i", PartitionKeyDefinition::hash("/a"));
        assert!(check_policies(&definition).is_ok());
        definition.default_ttl = Some(-1);
        assert!(check_policies(&definition).expect_err("a time to live").message().contains("defaultTtl"));
    }

    #[test]
    fn aggregates_are_no_keys() {
        let text = "SELECT c.a, 'all' AS board, { n: COUNT(1) } AS x FROM c GROUP BY c.a";
        let derivation = derive(text, &DeriveSource::default(), Dialect::Shardlake).expect("valid");
        for (path, words) in [
            ("/a", None),
            ("/board", None),
            ("/id", None),
            ("/x/n", Some("is an aggregate")),
            ("/_id", Some("no row of the index")),
            ("/_state", Some("no row of the index")),
        ] {
            let definition = ContainerDefinition::new("i", PartitionKeyDefinition::hash(path));
            let refused = check_key(&definition, &derivation).err().map(|error| error.to_string());
            assert_eq!(refused.is_some(), words.is_some(), "{path}");
            assert!(words.is_none_or(|words| refused.is_some_and(|refused| refused.contains(words))));
        }
    }

    #[test]
    fn keys_that_no_row_has_are_refused() {
        let derivation =
            derive("SELECT c.a FROM c", &DeriveSource::default(), Dialect::Shardlake).expect("valid");
        for (path, is_accepted) in
            [("/a", true), ("/a/b", true), ("/id", true), ("/_id", true), ("/b", false)]
        {
            let definition = ContainerDefinition::new("i", PartitionKeyDefinition::hash(path));
            assert_eq!(check_key(&definition, &derivation).is_ok(), is_accepted, "{path}");
        }
    }
}
