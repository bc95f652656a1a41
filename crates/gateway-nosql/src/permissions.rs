//! Permissions of a user: create, upsert, list, query, read, replace, delete (wire.md §16).
//!
//! Every document carries a resource token made for it at that time, valid for as long as the request asks. Only the
//! holder of a read-write key is admitted (`access.rs`): a token that writes must not be had for a key that reads.

use http::StatusCode;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use shardlake_account::METADATA_WRITE_CHARGE_CENTI;
use shardlake_model::{Error, Permission, PermissionDefinition, PermissionMode, Result};

use crate::call::Call;
use crate::errors::Failure;
use crate::reply::Reply;
use crate::resource_document::{document, etag_text, members, page, read as read_reply, required_id};
use crate::{metadata_query, unsupported};

const EXPIRY_HEADER: &str = "x-ms-documentdb-expiry-seconds";

#[derive(Serialize)]
struct PermissionDocument<'p> {
    id: &'p str,
    #[serde(rename = "permissionMode")]
    mode: &'p str,
    resource: &'p str,
    #[serde(rename = "resourcePartitionKey", skip_serializing_if = "Option::is_none")]
    partition_key: Option<&'p RawValue>,
    #[serde(rename = "_rid")]
    rid: String,
    #[serde(rename = "_self")]
    self_link: String,
    #[serde(rename = "_etag")]
    etag: String,
    #[serde(rename = "_ts")]
    timestamp: u64,
    #[serde(rename = "_token")]
    token: String,
}

pub(crate) async fn create(call: &Call<'_>) -> Result<Reply, Failure> {
    let (seconds, definition) = (seconds(call)?, definition(&call.body)?);
    let (database, user) = (call.path.database(), call.path.user());
    let permission =
        call.account.definitions().create_permission(&call.context, database, user, definition).await?;
    Ok(written(StatusCode::CREATED, call, &permission, seconds)?)
}

pub(crate) async fn upsert(call: &Call<'_>) -> Result<Reply, Failure> {
    let (seconds, definition) = (seconds(call)?, definition(&call.body)?);
    let (database, user) = (call.path.database(), call.path.user());
    let preconditions = call.headers.preconditions();
    let upserted = call.account.definitions().upsert_permission(
        &call.context,
        database,
        user,
        definition,
        &preconditions,
    );
    let (permission, created) = upserted.await?;
    let status = if created { StatusCode::CREATED } else { StatusCode::OK };
    Ok(written(status, call, &permission, seconds)?)
}

pub(crate) fn list(call: &Call<'_>) -> Result<Reply, Failure> {
    let (rid, rows) = rows(call)?;
    Ok(page(call, &rid, "Permissions", rows)?)
}

pub(crate) fn query(call: &Call<'_>) -> Result<Reply, Failure> {
    let (rid, rows) = rows(call)?;
    Ok(metadata_query::answer(call, &rid, "Permissions", rows)?)
}

pub(crate) fn read(call: &Call<'_>) -> Result<Reply, Failure> {
    let (database, user, permission) = path(call);
    let permission = call.account.definitions().permission(database, user, permission)?;
    let document = render(call, &permission, seconds(call)?)?;
    Ok(read_reply(document, permission.etag, &call.headers.preconditions()))
}

pub(crate) async fn replace(call: &Call<'_>) -> Result<Reply, Failure> {
    let (seconds, definition) = (seconds(call)?, definition(&call.body)?);
    let preconditions = call.headers.preconditions();
    let replaced =
        call.account.definitions().replace_permission(&call.context, path(call), definition, &preconditions);
    Ok(written(StatusCode::OK, call, &*replaced.await?, seconds)?)
}

pub(crate) async fn delete(call: &Call<'_>) -> Result<Reply, Failure> {
    call.account
        .definitions()
        .delete_permission(&call.context, path(call), &call.headers.preconditions())
        .await?;
    Ok(Reply::empty(StatusCode::NO_CONTENT, METADATA_WRITE_CHARGE_CENTI))
}

fn path<'c>(call: &'c Call<'_>) -> (&'c str, &'c str, &'c str) {
    (call.path.database(), call.path.user(), call.path.permission())
}

/// How long the tokens of the reply are good for.
fn seconds(call: &Call<'_>) -> Result<u64> {
    let limits = call.account.router().limits();
    let (min, max) = (limits.resource_token_seconds_min, limits.resource_token_seconds_max);
    let Some(text) = call.headers.expiry_seconds else { return Ok(limits.resource_token_seconds_default) };
    text.parse().ok().filter(|seconds| (min..=max).contains(seconds)).ok_or_else(|| {
        Error::bad_request(format!(
            "the value '{text}' of header '{EXPIRY_HEADER}' is invalid: use a number of seconds from {min} to {max}"
        ))
    })
}

fn definition(body: &[u8]) -> Result<PermissionDefinition> {
    let members = members(body)?;
    let is_known = |name: &str| matches!(name, "id" | "permissionMode" | "resource" | "resourcePartitionKey");
    if let Some(name) = members.keys().find(|name| !is_known(name)) {
        return Err(unsupported::permission_member(name));
    }
    let mode_text = required_text(&members, "permissionMode")?;
    let mode = PermissionMode::parse(mode_text).ok_or_else(|| {
        Error::bad_request(format!("the permissionMode '{mode_text}' is unknown: use 'Read' or 'All'"))
    })?;
    Ok(PermissionDefinition {
        id: required_id(&members)?.to_owned(),
        mode,
        mode_text: mode_text.to_owned(),
        resource: required_text(&members, "resource")?.trim_matches('/').to_owned(),
        partition_key: members.get("resourcePartitionKey").map(partition_key).transpose()?,
    })
}

/// An array of values; clients may write a single text without one.
fn partition_key(value: &Value) -> Result<String> {
    match value {
        Value::Array(_) => Ok(value.to_string()),
        Value::String(_) => Ok(Value::Array(vec![value.clone()]).to_string()),
        _ => Err(Error::bad_request("the property 'resourcePartitionKey' must be an array of values")),
    }
}

fn required_text<'m>(members: &'m Map<String, Value>, name: &str) -> Result<&'m str> {
    let value = members.get(name).ok_or_else(|| {
        Error::bad_request(format!(
            "The input content is invalid because the required properties - '{name}; ' - are missing"
        ))
    })?;
    value.as_str().ok_or_else(|| Error::bad_request(format!("the property '{name}' must be a string")))
}

fn rows(call: &Call<'_>) -> Result<(String, Vec<Vec<u8>>)> {
    let seconds = seconds(call)?;
    let (user, permissions) =
        call.account.definitions().permissions(call.path.database(), call.path.user())?;
    let rows = permissions.iter().map(|permission| render(call, permission, seconds));
    Ok((user.to_string(), rows.collect::<Result<_>>()?))
}

fn written(status: StatusCode, call: &Call<'_>, permission: &Permission, seconds: u64) -> Result<Reply> {
    let document = render(call, permission, seconds)?;
    Ok(Reply::json(status, METADATA_WRITE_CHARGE_CENTI, document).with_etag(permission.etag))
}

fn render(call: &Call<'_>, permission: &Permission, seconds: u64) -> Result<Vec<u8>> {
    let (definition, user) = (&permission.definition, permission.rid.user);
    let rid = permission.rid.to_string();
    let partition_key = definition.partition_key.as_deref().map(serde_json::from_str).transpose();
    Ok(document(&PermissionDocument {
        id: &definition.id,
        mode: &definition.mode_text,
        resource: &definition.resource,
        partition_key: partition_key.expect("what is stored was an array when it was written"),
        self_link: format!("dbs/{}/users/{user}/permissions/{rid}/", user.database),
        rid,
        etag: etag_text(permission.etag),
        timestamp: permission.timestamp,
        token: call.keyring.load().resource_token(call.account, permission, seconds)?,
    }))
}

#[cfg(test)]
mod tests {
    use shardlake_model::ErrorKind;

    use super::*;

    #[test]
    fn definitions_keep_the_clients_letters() {
        let body = br#"{"id":"p","permissionMode":"all","resource":"/dbs/d/colls/c/","resourcePartitionKey":["a",1],"_token":"x"}"#;
        let definition = definition(body).expect("valid");
        assert_eq!((definition.mode, &*definition.mode_text), (PermissionMode::All, "all"));
        assert_eq!(definition.resource, "dbs/d/colls/c");
        assert_eq!(definition.partition_key.as_deref(), Some(r#"["a",1]"#));
        let body = br#"{"id":"p","permissionMode":"Read","resource":"r","resourcePartitionKey":"a\"b"}"#;
        let one = super::definition(body).expect("valid").partition_key;
        assert_eq!(one.as_deref(), Some(r#"["a\"b"]"#));
    }

    #[test]
    fn what_is_missing_or_unknown_is_named() {
        for (body, kind, word) in [
            (r#"{"id":"p","permissionMode":"Read"}"#, ErrorKind::BadRequest, "resource"),
            (r#"{"id":"p","resource":"r"}"#, ErrorKind::BadRequest, "permissionMode"),
            (r#"{"permissionMode":"Read","resource":"r"}"#, ErrorKind::BadRequest, "id"),
            (r#"{"id":"p","permissionMode":"none","resource":"r"}"#, ErrorKind::BadRequest, "none"),
            (r#"{"id":"p","permissionMode":"Read","resource":7}"#, ErrorKind::BadRequest, "resource"),
            (
                r#"{"id":"p","permissionMode":"Read","resource":"r","resourcePartitionKey":7}"#,
                ErrorKind::BadRequest,
                "resourcePartitionKey",
            ),
            (r#"{"id":"p","permissionMode":"Read","resource":"r","x":7}"#, ErrorKind::Unsupported, "'x'"),
        ] {
            let error = definition(body.as_bytes()).expect_err(body);
            assert_eq!(error.kind(), kind, "{body}");
            assert!(error.message().contains(word), "{error}");
        }
    }
}
