//! Containers: create, list, query, read, replace, delete.
//!
//! Policies are parsed by the model's own types. A member that this server does not know is refused by name, never
//! dropped: a client that sent a policy must not believe it is in force.

use http::{HeaderValue, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use shardlake_account::{
    ContainerHandle, ContainerUsage, METADATA_READ_CHARGE_CENTI, METADATA_WRITE_CHARGE_CENTI,
};
use shardlake_model::{ContainerDefinition, Error, ReplyMeta, SecondaryIndexDefinition};

use crate::call::Call;
use crate::connection_mode::ConnectionMode;
use crate::errors::Failure;
use crate::header_names::{INDEX_PROGRESS, NOTE, RESOURCE_QUOTA, RESOURCE_USAGE, SHARE_THROUGHPUT};
use crate::headers::flag;
use crate::reply::Reply;
use crate::resource_document::{document, etag_text, members, page, read as read_reply, required_id};
use crate::secondary_index::{self, IndexMembers};
use crate::{known_members, metadata_query, throughput, unsupported};

/// Members of [`ContainerDefinition`].
const MEMBERS: [&str; 14] = [
    "id",
    "indexingPolicy",
    "partitionKey",
    "uniqueKeyPolicy",
    "conflictResolutionPolicy",
    "geospatialConfig",
    "defaultTtl",
    "analyticalStorageTtl",
    "computedProperties",
    "changeFeedPolicy",
    "previousImageRetentionPolicy",
    "vectorEmbeddingPolicy",
    "fullTextPolicy",
    "allowMaterializedViews",
];

#[derive(Serialize)]
struct ContainerDocument<'c> {
    #[serde(flatten)]
    definition: &'c ContainerDefinition,
    #[serde(flatten)]
    indexes: IndexMembers,
    #[serde(rename = "_rid")]
    rid: &'c str,
    #[serde(rename = "_ts")]
    timestamp: u64,
    #[serde(rename = "_self")]
    self_link: &'c str,
    #[serde(rename = "_etag")]
    etag: String,
    #[serde(rename = "_docs")]
    items: &'static str,
    #[serde(rename = "_sprocs")]
    stored_procedures: &'static str,
    #[serde(rename = "_triggers")]
    triggers: &'static str,
    #[serde(rename = "_udfs")]
    functions: &'static str,
    #[serde(rename = "_conflicts")]
    conflicts: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    statistics: Option<Vec<RangeDocument>>,
}

/// One range's share of a container.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RangeDocument {
    id: String,
    #[serde(rename = "sizeInKB")]
    size_kilobytes: u64,
    document_count: u64,
    partition_keys: [&'static str; 0],
}

pub(crate) async fn create(call: &Call<'_>) -> Result<Reply, Failure> {
    let mut members = members(&call.body)?;
    // Old clients write them into the body, with or without the headers.
    let (units, _size) = (members.remove("offerThroughput"), members.remove("offerType"));
    let (definition, index) = definitions_of(members)?;
    let throughput = throughput::of_creation(call.headers, units.as_ref())?;
    let (definitions, context, database) = (call.account.definitions(), &call.context, call.path.database());
    let container = match index {
        Some(index) => {
            definitions.create_secondary_index(context, database, definition, index, throughput).await?
        }
        None => definitions.create_container(context, database, definition, throughput).await?,
    };
    Ok(written(call, StatusCode::CREATED, &container))
}

pub(crate) fn list(call: &Call<'_>) -> Result<Reply, Failure> {
    let (rid, rows) = rows(call)?;
    Ok(page(call, &rid, "DocumentCollections", rows)?)
}

pub(crate) fn query(call: &Call<'_>) -> Result<Reply, Failure> {
    let (rid, rows) = rows(call)?;
    Ok(metadata_query::answer(call, &rid, "DocumentCollections", rows)?)
}

pub(crate) fn read(call: &Call<'_>) -> Result<Reply, Failure> {
    let container = call.container()?;
    container.check_intended_rid(call.headers.intended_rid)?;
    let headers = call.headers;
    let statistics = flag("x-ms-documentdb-populatepartitionstatistics", headers.populate_statistics)?;
    let text = render(call, &container, statistics);
    let reply = read_reply(text, container.container().etag, &headers.preconditions());
    let mut reply = with_share(reply, call, &container);
    if flag("x-ms-documentdb-populatequotainfo", headers.populate_quota)? {
        reply = with_quota(reply, &container);
    }
    Ok(reply)
}

/// A barrier: how far the partition is that the request names.
pub(crate) fn head(call: &Call<'_>) -> Result<Reply, Failure> {
    let container = call.container_for_items()?;
    let ConnectionMode::Direct(routing) = call.mode else {
        return Err(Error::internal("only frames ask for the head of a container").into());
    };
    container.check_intended_rid(call.headers.intended_rid)?;
    let position = call.position(routing, &container);
    let meta = position.map_err(|error| Failure::within(error, &container))?;
    let mut reply = Reply::empty(StatusCode::OK, METADATA_READ_CHARGE_CENTI);
    reply.meta = ReplyMeta { charge_centi: reply.meta.charge_centi, ..meta };
    Ok(reply)
}

pub(crate) async fn replace(call: &Call<'_>) -> Result<Reply, Failure> {
    let (definition, index) = definitions_of(members(&call.body)?)?;
    let (database, container) = (call.path.database(), call.path.container());
    call.account.router().container(database, container)?.check_intended_rid(call.headers.intended_rid)?;
    let preconditions = call.headers.preconditions();
    let replaced = call
        .account
        .definitions()
        .replace_with_index(&call.context, (database, container), definition, index, &preconditions)
        .await?;
    Ok(written(call, StatusCode::OK, &replaced))
}

pub(crate) async fn delete(call: &Call<'_>) -> Result<Reply, Failure> {
    let (database, container) = (call.path.database(), call.path.container());
    call.account.router().container(database, container)?.check_intended_rid(call.headers.intended_rid)?;
    call.account
        .definitions()
        .delete_container(&call.context, database, container, &call.headers.preconditions())
        .await?;
    Ok(Reply::empty(StatusCode::NO_CONTENT, METADATA_WRITE_CHARGE_CENTI))
}

/// The reference's message for a vector policy of another form.
const INVALID_VECTOR_PAYLOAD: &str = "The Vector Embedding Policy has an invalid payload. Validate your syntax is correct by [reading the documentation](https://aka.ms/CosmosVectorSearch).";

/// The reference drops them, too.
const OF_OLD_POLICIES: [&str; 2] =
    ["indexingPolicy.includedPaths.indexes", "indexingPolicy.excludedPaths.indexes"];

/// The definition of a container, and of the index that it is.
fn definitions_of(
    mut members: Map<String, Value>,
) -> Result<(ContainerDefinition, Option<SecondaryIndexDefinition>), Error> {
    let index = secondary_index::taken(&mut members)?;
    Ok((definition_of(members)?, index))
}

fn definition_of(members: Map<String, Value>) -> Result<ContainerDefinition, Error> {
    if let Some(name) = members.keys().find(|name| !MEMBERS.contains(&name.as_str())) {
        return Err(unsupported::container_member(name));
    }
    required_id(&members)?;
    if !members.contains_key("partitionKey") {
        return Err(Error::bad_request(
            "the container must specify partition key definition: send 'partitionKey' with 'paths', 'kind' and 'version'",
        ));
    }
    let mut whole = Value::Object(members);
    known_members::with_declared_case(&mut whole);
    known_members::read(&whole, &OF_OLD_POLICIES).map_err(|error| {
        let culprit = unreadable(&whole);
        if culprit == Some("vectorEmbeddingPolicy") {
            return Error::bad_request(format!("{INVALID_VECTOR_PAYLOAD} {error}"));
        }
        let place = culprit.map_or_else(String::new, |name| format!("'{name}': "));
        Error::bad_request(format!(
            "One of the specified inputs is invalid: the container definition cannot be read: {place}{error}"
        ))
    })?
}

/// The member without which the rest can be read.
fn unreadable(whole: &Value) -> Option<&str> {
    let members = whole.as_object()?;
    let is_culprit = |name: &&String| {
        let mut rest = members.clone();
        rest.remove(name.as_str());
        ContainerDefinition::deserialize(&Value::Object(rest)).is_ok()
    };
    members.keys().find(is_culprit).map(String::as_str)
}

fn written(call: &Call<'_>, status: StatusCode, container: &ContainerHandle) -> Reply {
    let reply = Reply::json(status, METADATA_WRITE_CHARGE_CENTI, render(call, container, false));
    let reply = with_share(reply.with_etag(container.container().etag), call, container);
    match note(&container.container().definition) {
        Some(note) => {
            tracing::info!(container = container.alt_link(), note, "container has a policy without effect");
            reply.with_header(NOTE.clone(), HeaderValue::from_static(note))
        }
        None => reply,
    }
}

/// A warning about policies that are kept and that no query uses.
fn note(definition: &ContainerDefinition) -> Option<&'static str> {
    let vectors = definition.vector_embedding_policy.as_ref();
    if vectors.is_some_and(|policy| !policy.vector_embeddings.is_empty()) {
        return Some("vectorEmbeddingPolicy is stored and has no effect: there is no vector search yet");
    }
    let has_texts = definition.full_text_policy.is_some();
    has_texts.then_some("fullTextPolicy is stored and has no effect: there is no full-text search yet")
}

/// Notes that the container has a share in the throughput of its database.
fn with_share(reply: Reply, call: &Call<'_>, container: &ContainerHandle) -> Reply {
    match call.account.router().throughput_of(container).shared {
        Some(_) => reply.with_header(SHARE_THROUGHPUT.clone(), HeaderValue::from_static("true")),
        None => reply,
    }
}

/// How much the container holds and may hold.
pub(crate) fn with_quota(reply: Reply, container: &ContainerHandle) -> Reply {
    let text = container.usage().text();
    reply
        .with_header(RESOURCE_QUOTA.clone(), HeaderValue::from_static(ContainerUsage::QUOTA_TEXT))
        .with_header(RESOURCE_USAGE.clone(), HeaderValue::try_from(text).expect("digits are ASCII"))
        .with_header(INDEX_PROGRESS.clone(), HeaderValue::from(container.index_progress()))
}

fn rows(call: &Call<'_>) -> Result<(String, Vec<Vec<u8>>), Error> {
    let database = call.account.router().database(call.path.database())?;
    let containers = call.account.router().containers(call.path.database())?;
    Ok((
        database.rid.to_string(),
        containers.iter().map(|container| render(call, container, false)).collect(),
    ))
}

fn render(call: &Call<'_>, handle: &ContainerHandle, statistics: bool) -> Vec<u8> {
    let container = handle.container();
    let ranges = || {
        let range = |range: shardlake_account::RangeStatistics| RangeDocument {
            id: range.range_id.to_string(),
            size_kilobytes: range.size_bytes.div_ceil(1024),
            document_count: range.items,
            partition_keys: [],
        };
        handle.range_statistics().into_iter().map(range).collect()
    };
    document(&ContainerDocument {
        definition: &container.definition,
        indexes: IndexMembers::of(call.account.definitions().secondary_indexes(handle)),
        rid: handle.rid_text(),
        timestamp: container.timestamp,
        self_link: handle.self_link(),
        etag: etag_text(container.etag),
        items: "docs/",
        stored_procedures: "sprocs/",
        triggers: "triggers/",
        functions: "udfs/",
        conflicts: "conflicts/",
        statistics: statistics.then(ranges),
    })
}

#[cfg(test)]
mod tests {
    use shardlake_model::{ErrorKind, PartitionKeyDefinition};

    use super::*;

    fn definition(body: &[u8]) -> Result<ContainerDefinition, Error> {
        definition_of(members(body)?)
    }

    #[test]
    fn the_member_list_is_the_models() {
        let mut full = ContainerDefinition::new("c", PartitionKeyDefinition::hash("/pk"));
        full.default_ttl = Some(1);
        full.analytical_storage_ttl = Some(1);
        full.computed_properties = Some(vec![]);
        full.change_feed_policy = Some(shardlake_model::ChangeFeedPolicy { retention_duration: 1 });
        full.previous_image_retention_policy =
            Some(shardlake_model::PreviousImageRetentionPolicy { mode: None, supported_features: None });
        full.vector_embedding_policy =
            Some(shardlake_model::VectorEmbeddingPolicy { vector_embeddings: vec![] });
        full.full_text_policy = Some(shardlake_model::FullTextPolicy::default());
        full.allow_materialized_views = Some(true);
        let text = serde_json::to_value(&full).expect("serialisable");
        let mut names: Vec<&str> = text.as_object().expect("object").keys().map(String::as_str).collect();
        let mut expected = MEMBERS.to_vec();
        names.sort_unstable();
        expected.sort_unstable();
        assert_eq!(names, expected);
    }

    #[test]
    fn a_definition_may_come_back_with_system_properties_and_nulls() {
        let text = br#"{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash"},"defaultTtl":null,"_rid":"x",
            "_self":"s","_etag":"e","_ts":1,"_docs":"docs/","statistics":[]}"#;
        assert_eq!(definition(text).expect("valid").partition_key.version(), 1);
    }

    #[test]
    fn unknown_members_and_missing_keys_are_refused() {
        for name in ["clientEncryptionPolicy", "other"] {
            let text = format!(r#"{{"id":"c","partitionKey":{{"paths":["/pk"]}},"{name}":{{}}}}"#);
            let error = definition(text.as_bytes()).expect_err(name);
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            assert!(error.message().contains(name), "{error}");
        }
        let error = definition(br#"{"id":"c"}"#).expect_err("no key");
        assert!(error.message().contains("must specify partition key definition"), "{error}");
        let text = br#"{"id":"c","partitionKey":{"paths":["/pk"]},"defaultTtl":"soon"}"#;
        assert_eq!(definition(text).expect_err("text").kind(), ErrorKind::BadRequest);
    }
}
