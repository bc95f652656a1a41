//! Databases: create, list, query, read, delete.

use http::StatusCode;
use serde::Serialize;
use shardlake_account::{METADATA_READ_CHARGE_CENTI, METADATA_WRITE_CHARGE_CENTI};
use shardlake_model::Database;

use crate::call::Call;
use crate::errors::Failure;
use crate::reply::Reply;
use crate::resource_document::{document, etag_text, members, page, read as read_reply, required_id};
use crate::{metadata_query, throughput, unsupported};

#[derive(Serialize)]
struct DatabaseDocument<'d> {
    id: &'d str,
    #[serde(rename = "_rid")]
    rid: String,
    #[serde(rename = "_self")]
    self_link: String,
    #[serde(rename = "_etag")]
    etag: String,
    #[serde(rename = "_colls")]
    containers: &'static str,
    #[serde(rename = "_users")]
    users: &'static str,
    #[serde(rename = "_ts")]
    timestamp: u64,
}

pub(crate) async fn create(call: &Call<'_>) -> Result<Reply, Failure> {
    let members = members(&call.body)?;
    let id = required_id(&members)?;
    if let Some(name) = members.keys().find(|name| *name != "id") {
        return Err(unsupported::database_member(name).into());
    }
    let throughput = throughput::of_headers(call.headers)?;
    let database = call.account.definitions().create_database(&call.context, id, throughput).await?;
    let reply = Reply::json(StatusCode::CREATED, METADATA_WRITE_CHARGE_CENTI, render(&database));
    Ok(reply.with_etag(database.etag))
}

pub(crate) fn list(call: &Call<'_>) -> Result<Reply, Failure> {
    Ok(page(call, "", "Databases", rows(call))?)
}

pub(crate) fn query(call: &Call<'_>) -> Result<Reply, Failure> {
    Ok(metadata_query::answer(call, "", "Databases", rows(call))?)
}

pub(crate) fn read(call: &Call<'_>) -> Result<Reply, Failure> {
    let database = call.account.router().database(call.path.database())?;
    Ok(read_reply(render(&database), database.etag, &call.headers.preconditions()))
}

/// A barrier. The catalog has no positions: databases are there as soon as they are acknowledged.
pub(crate) fn head() -> Reply {
    Reply::empty(StatusCode::OK, METADATA_READ_CHARGE_CENTI)
}

pub(crate) async fn delete(call: &Call<'_>) -> Result<Reply, Failure> {
    let preconditions = call.headers.preconditions();
    call.account.definitions().delete_database(&call.context, call.path.database(), &preconditions).await?;
    Ok(Reply::empty(StatusCode::NO_CONTENT, METADATA_WRITE_CHARGE_CENTI))
}

fn rows(call: &Call<'_>) -> Vec<Vec<u8>> {
    call.account.router().databases().iter().map(|database| render(database)).collect()
}

fn render(database: &Database) -> Vec<u8> {
    let rid = database.rid.to_string();
    document(&DatabaseDocument {
        id: &database.id,
        self_link: format!("dbs/{rid}/"),
        rid,
        etag: etag_text(database.etag),
        containers: "colls/",
        users: "users/",
        timestamp: database.timestamp,
    })
}
