//! The members of container documents for global secondary indexes: two names of one definition, and the list of a
//! source's indexes.

use http::HeaderValue;
use serde::Serialize;
use serde_json::{Map, Value};
use shardlake_account::{Account, IndexOfSource, SecondaryIndexRecord, SecondaryIndexView};
use shardlake_model::{Error, IndexSettings, Result, SecondaryIndexDefinition};

use crate::header_names::COPY_STATE;
use crate::reply::Reply;
use crate::router::Path;
use crate::unsupported;

/// The present name and the name of the preview, with the same value: clients read one or the other.
const NAMES: [&str; 2] = ["globalSecondaryIndexDefinition", "materializedViewDefinition"];
/// Members of a definition that the server owns; clients send them back.
const OWN_MEMBERS: [&str; 2] = ["status", "containerType"];
const MEMBERS: [&str; 4] = ["sourceCollectionId", "sourceCollectionRid", "definition", "shardlake"];
/// The list of a source's indexes, which the server owns.
const LIST: &str = "materializedViews";
const CONTAINER_TYPE: &str = "GlobalSecondaryIndex";

/// Takes the definition of an index out of the members of a container.
pub(crate) fn taken(members: &mut Map<String, Value>) -> Result<Option<SecondaryIndexDefinition>> {
    members.remove(LIST);
    let mut found: Option<SecondaryIndexDefinition> = None;
    for name in NAMES {
        let Some(value) = members.remove(name) else { continue };
        let read = definition_of(name, value)?;
        if found.as_ref().is_some_and(|found| *found != read) {
            return Err(Error::bad_request(format!(
                "'{}' and '{}' are two names of one definition, and differ: send one of them",
                NAMES[0], NAMES[1]
            )));
        }
        found = Some(read);
    }
    Ok(found)
}

fn definition_of(name: &str, value: Value) -> Result<SecondaryIndexDefinition> {
    let Value::Object(mut members) = value else {
        return Err(Error::bad_request(format!(
            "'{name}' must be an object with 'sourceCollectionId' and 'definition'"
        )));
    };
    members.retain(|member, value| !OWN_MEMBERS.contains(&member.as_str()) && !value.is_null());
    if let Some(unknown) = members.keys().find(|member| !MEMBERS.contains(&member.as_str())) {
        return Err(unsupported::container_member(&format!("{name}.{unknown}")));
    }
    serde_json::from_value(Value::Object(members)).map_err(|error| {
        Error::bad_request(format!(
            "One of the specified inputs is invalid: '{name}' cannot be read: {error}"
        ))
    })
}

/// Notes in answers of an index that may lack rows of items written long ago.
pub(crate) fn with_copy_state(reply: Reply, account: &Account, path: &Path<'_>) -> Reply {
    let live = account.router().live_catalog();
    if live.definitions.secondary_indexes.is_empty() {
        return reply;
    }
    let entry = live.database(path.database()).and_then(|owner| owner.container(path.container()));
    let record =
        entry.and_then(|(entry, _)| live.definitions.secondary_indexes.get(&entry.record.container.rid));
    match record {
        Some(record) if record.state.is_incomplete() => {
            reply.with_header(COPY_STATE.clone(), HeaderValue::from_static(record.state.status()))
        }
        _ => reply,
    }
}

/// An index as answers show it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct IndexDocument {
    source_collection_id: String,
    source_collection_rid: String,
    definition: String,
    #[serde(skip_serializing_if = "IndexSettings::is_default")]
    shardlake: IndexSettings,
    container_type: &'static str,
    status: &'static str,
}

impl IndexDocument {
    fn of(record: &SecondaryIndexRecord) -> IndexDocument {
        IndexDocument {
            source_collection_id: record.source_id.clone(),
            source_collection_rid: record.source.to_string(),
            definition: record.definition.clone(),
            shardlake: record.settings.clone(),
            container_type: CONTAINER_TYPE,
            status: record.state.status(),
        }
    }
}

/// The members of one container's document.
#[derive(Serialize)]
pub(crate) struct IndexMembers {
    #[serde(rename = "globalSecondaryIndexDefinition", skip_serializing_if = "Option::is_none")]
    definition: Option<IndexDocument>,
    #[serde(rename = "materializedViewDefinition", skip_serializing_if = "Option::is_none")]
    former_name: Option<IndexDocument>,
    /// Absent without any: some clients take an empty list for that of a source.
    #[serde(rename = "materializedViews", skip_serializing_if = "Vec::is_empty")]
    indexes: Vec<ListedIndex>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ListedIndex {
    id: String,
    #[serde(rename = "_rid")]
    rid: String,
    container_type: &'static str,
    required_paths_in_previous_image: Vec<String>,
}

impl IndexMembers {
    pub(crate) fn of(view: SecondaryIndexView) -> IndexMembers {
        let document = || view.own.as_deref().map(IndexDocument::of);
        let listed = |index: IndexOfSource| ListedIndex {
            id: index.id,
            rid: index.rid.to_string(),
            container_type: CONTAINER_TYPE,
            required_paths_in_previous_image: index.moving_paths,
        };
        IndexMembers {
            definition: document(),
            former_name: document(),
            indexes: view.indexes.into_iter().map(listed).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use shardlake_model::ErrorKind;

    use super::*;

    fn taken_of(members: Value) -> Result<Option<SecondaryIndexDefinition>> {
        let Value::Object(mut members) = members else { panic!("members") };
        let taken = taken(&mut members);
        assert!(taken.is_err() || members.keys().all(|name| name == "id"), "{members:?}");
        taken
    }

    #[test]
    fn both_names_mean_one_definition() {
        let one = json!({ "sourceCollectionId": "a", "definition": "SELECT c.b FROM c" });
        let shown = json!({ "sourceCollectionId": "a", "sourceCollectionRid": null,
            "definition": "SELECT c.b FROM c", "status": "Active", "containerType": "GlobalSecondaryIndex" });
        let expected = taken_of(json!({ NAMES[0]: one })).expect("valid");
        assert!(expected.is_some());
        for members in [
            json!({ "id": "x", NAMES[1]: one }),
            json!({ NAMES[0]: one, NAMES[1]: shown, "materializedViews": [] }),
        ] {
            assert_eq!(taken_of(members).expect("valid"), expected);
        }
        assert_eq!(
            taken_of(json!({ "id": "x", "materializedViews": [{ "id": "y" }] })).expect("valid"),
            None
        );
        let other = json!({ "sourceCollectionId": "a", "definition": "SELECT c.c FROM c" });
        let error = taken_of(json!({ NAMES[0]: one, NAMES[1]: other })).expect_err("two definitions");
        assert_eq!(error.kind(), ErrorKind::BadRequest);
    }

    #[test]
    fn unknown_members_are_refused_by_name() {
        for member in ["apiSpecificDefinition", "throughputBucketForBuild", "other"] {
            let definition = json!({ "sourceCollectionId": "a", "definition": "b", member: {} });
            let error = taken_of(json!({ NAMES[0]: definition })).expect_err(member);
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            assert!(error.message().contains(member), "{error}");
        }
        for value in [json!("text"), json!({ "definition": "b" }), json!({ "sourceCollectionId": 1 })] {
            let error = taken_of(json!({ NAMES[1]: value })).expect_err("no definition");
            assert_eq!(error.kind(), ErrorKind::BadRequest);
            assert!(error.message().contains(NAMES[1]), "{error}");
        }
    }
}
