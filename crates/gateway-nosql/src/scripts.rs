//! Stored procedures, triggers and user-defined functions as resources: create, list, query, read, replace, delete.
//!
//! The three kinds differ in their feed's name; triggers also have the time of their run. Running a procedure is in
//! `script_execute.rs`.

use http::StatusCode;
use serde::Serialize;
use serde_json::{Map, Value};
use shardlake_account::{ContainerHandle, METADATA_WRITE_CHARGE_CENTI, ScriptWrite};
use shardlake_model::{
    Error, Result, Script, ScriptDefinition, ScriptKind, TriggerDefinition, TriggerOperation,
    TriggerSpelling, TriggerType,
};

use crate::call::Call;
use crate::reply::Reply;
use crate::resource_document::{document, etag_text, members, page, read as read_reply, required_id};
use crate::{metadata_query, unsupported};

#[derive(Serialize)]
struct ScriptDocument<'s> {
    id: &'s str,
    body: &'s str,
    #[serde(rename = "triggerType", skip_serializing_if = "Option::is_none")]
    trigger_type: Option<&'s str>,
    #[serde(rename = "triggerOperation", skip_serializing_if = "Option::is_none")]
    trigger_operation: Option<&'s str>,
    #[serde(rename = "_rid")]
    rid: &'s str,
    #[serde(rename = "_self")]
    self_link: String,
    #[serde(rename = "_etag")]
    etag: String,
    #[serde(rename = "_ts")]
    timestamp: u64,
}

/// The last segment of a feed's path and the member of its body, per kind.
fn names(kind: ScriptKind) -> (&'static str, &'static str) {
    match kind {
        ScriptKind::Procedure => ("sprocs", "StoredProcedures"),
        ScriptKind::Trigger => ("triggers", "Triggers"),
        ScriptKind::Function => ("udfs", "UserDefinedFunctions"),
    }
}

pub(crate) async fn create(call: &Call<'_>, container: &ContainerHandle, kind: ScriptKind) -> Result<Reply> {
    let definition = definition(&call.body, kind)?;
    let script = call.account.definitions().create_script(&call.context, container, definition).await?;
    Ok(written(StatusCode::CREATED, container, &script))
}

pub(crate) async fn upsert(call: &Call<'_>, container: &ContainerHandle, kind: ScriptKind) -> Result<Reply> {
    let definition = definition(&call.body, kind)?;
    let preconditions = call.headers.preconditions();
    let written_script = call
        .account
        .definitions()
        .upsert_script(&call.context, container, definition, &preconditions)
        .await?;
    let (script, write) = written_script;
    let status = match write {
        ScriptWrite::Created => StatusCode::CREATED,
        ScriptWrite::Replaced => StatusCode::OK,
    };
    Ok(written(status, container, &script))
}

pub(crate) fn list(call: &Call<'_>, container: &ContainerHandle, kind: ScriptKind) -> Result<Reply> {
    page(call, container.rid_text(), names(kind).1, rows(container, kind))
}

pub(crate) fn query(call: &Call<'_>, container: &ContainerHandle, kind: ScriptKind) -> Result<Reply> {
    metadata_query::answer(call, container.rid_text(), names(kind).1, rows(container, kind))
}

pub(crate) fn read(call: &Call<'_>, container: &ContainerHandle, kind: ScriptKind) -> Result<Reply> {
    let script = container.script(kind, call.path.script())?;
    Ok(read_reply(render(container, &script), script.etag, &call.headers.preconditions()))
}

pub(crate) async fn replace(call: &Call<'_>, container: &ContainerHandle, kind: ScriptKind) -> Result<Reply> {
    let definition = definition(&call.body, kind)?;
    let preconditions = call.headers.preconditions();
    let segment = call.path.script();
    let script = call
        .account
        .definitions()
        .replace_script(&call.context, container, segment, definition, &preconditions)
        .await?;
    Ok(written(StatusCode::OK, container, &script))
}

pub(crate) async fn delete(call: &Call<'_>, container: &ContainerHandle, kind: ScriptKind) -> Result<Reply> {
    let preconditions = call.headers.preconditions();
    call.account.definitions().delete_script(container, kind, call.path.script(), &preconditions).await?;
    Ok(Reply::empty(StatusCode::NO_CONTENT, METADATA_WRITE_CHARGE_CENTI))
}

fn definition(body: &[u8], kind: ScriptKind) -> Result<ScriptDefinition> {
    let members = members(body)?;
    let is_known = |name: &str| {
        matches!(name, "id" | "body")
            || (kind == ScriptKind::Trigger && matches!(name, "triggerType" | "triggerOperation"))
    };
    if let Some(name) = members.keys().find(|name| !is_known(name)) {
        return Err(unsupported::script_member(kind.name(), name));
    }
    let id = required_id(&members)?.to_owned();
    let body = required_text(&members, "body")?.to_owned();
    let (trigger, spelling) = match kind {
        ScriptKind::Trigger => {
            trigger(&members).map(|(trigger, spelling)| (Some(trigger), Some(spelling)))?
        }
        ScriptKind::Procedure | ScriptKind::Function => (None, None),
    };
    Ok(ScriptDefinition { kind, id, body, trigger, spelling })
}

fn trigger(members: &Map<String, Value>) -> Result<(TriggerDefinition, TriggerSpelling)> {
    let type_text = required_text(members, "triggerType")?;
    let operation_text = required_text(members, "triggerOperation")?;
    let trigger_type = TriggerType::parse(type_text).ok_or_else(|| {
        Error::bad_request(format!(
            "One of the specified inputs is invalid: the triggerType '{type_text}' is unknown: use 'Pre' or 'Post'"
        ))
    })?;
    let operation = TriggerOperation::parse(operation_text).ok_or_else(|| {
        Error::bad_request(format!(
            "One of the specified inputs is invalid: the triggerOperation '{operation_text}' is unknown: use 'All', 'Create', 'Replace', 'Delete', 'Update' or 'Upsert'"
        ))
    })?;
    let spelling =
        TriggerSpelling { trigger_type: type_text.to_owned(), operation: operation_text.to_owned() };
    Ok((TriggerDefinition { trigger_type, operation }, spelling))
}

fn required_text<'m>(members: &'m Map<String, Value>, name: &str) -> Result<&'m str> {
    let value = members.get(name).ok_or_else(|| {
        Error::bad_request(format!(
            "The input content is invalid because the required properties - '{name}; ' - are missing"
        ))
    })?;
    value.as_str().ok_or_else(|| Error::bad_request(format!("the property '{name}' must be a string")))
}

fn written(status: StatusCode, container: &ContainerHandle, script: &Script) -> Reply {
    Reply::json(status, METADATA_WRITE_CHARGE_CENTI, render(container, script)).with_etag(script.etag)
}

fn rows(container: &ContainerHandle, kind: ScriptKind) -> Vec<Vec<u8>> {
    container.scripts(kind).iter().map(|script| render(container, script)).collect()
}

fn render(container: &ContainerHandle, script: &Script) -> Vec<u8> {
    let rid = container.script_rid(script).to_string();
    let spelling = script.spelling.as_ref();
    document(&ScriptDocument {
        id: &script.id,
        body: &script.body,
        trigger_type: spelling.map(|spelling| spelling.trigger_type.as_str()),
        trigger_operation: spelling.map(|spelling| spelling.operation.as_str()),
        self_link: format!("{}{}/{rid}/", container.self_link(), names(script.kind).0),
        rid: &rid,
        etag: etag_text(script.etag),
        timestamp: script.timestamp,
    })
}

#[cfg(test)]
mod tests {
    use shardlake_model::ErrorKind;

    use super::*;

    #[test]
    fn definitions_are_read_with_what_their_kind_needs() {
        let procedure =
            definition(br#"{"id":"p","body":"function () {}","_rid":"x"}"#, ScriptKind::Procedure);
        assert_eq!(procedure.expect("valid").trigger, None);
        let text = br#"{"id":"t","body":"b","triggerType":"pre","triggerOperation":"UPDATE"}"#;
        let read = definition(text, ScriptKind::Trigger).expect("valid");
        let expected =
            TriggerDefinition { trigger_type: TriggerType::Pre, operation: TriggerOperation::Update };
        assert_eq!(read.trigger, Some(expected));
        assert_eq!(read.spelling.expect("a spelling").operation, "UPDATE");
    }

    #[test]
    fn wrong_definitions_are_refused_in_words() {
        use ScriptKind::{Function, Procedure, Trigger};
        for (kind, text, word, error_kind) in [
            (Procedure, r#"{"body":"b"}"#, "'id; '", ErrorKind::BadRequest),
            (Procedure, r#"{"id":"p"}"#, "'body; '", ErrorKind::BadRequest),
            (Function, r#"{"id":"p","body":1}"#, "'body' must be a string", ErrorKind::BadRequest),
            (Function, r#"{"id":1,"body":"b"}"#, "'id' must be a string", ErrorKind::BadRequest),
            (Function, "[]", "JSON object", ErrorKind::BadRequest),
            (
                Function,
                r#"{"id":"p","body":"b","triggerType":"Pre"}"#,
                "'triggerType'",
                ErrorKind::Unsupported,
            ),
            (
                Trigger,
                r#"{"id":"t","body":"b","triggerOperation":"All"}"#,
                "'triggerType; '",
                ErrorKind::BadRequest,
            ),
            (
                Trigger,
                r#"{"id":"t","body":"b","triggerType":"Pre"}"#,
                "'triggerOperation; '",
                ErrorKind::BadRequest,
            ),
            (
                Trigger,
                r#"{"id":"t","body":"b","triggerType":"Mid","triggerOperation":"All"}"#,
                "'Mid'",
                ErrorKind::BadRequest,
            ),
            (
                Trigger,
                r#"{"id":"t","body":"b","triggerType":"Pre","triggerOperation":"Read"}"#,
                "'Read'",
                ErrorKind::BadRequest,
            ),
        ] {
            let error = definition(text.as_bytes(), kind).expect_err(text);
            assert_eq!(error.kind(), error_kind, "{text}");
            assert!(error.message().contains(word), "{text}: {error}");
        }
    }
}
