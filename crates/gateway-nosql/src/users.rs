//! Users of a database: create, upsert, list, query, read, replace, delete (wire.md §16).

use http::StatusCode;
use serde::Serialize;
use shardlake_account::METADATA_WRITE_CHARGE_CENTI;
use shardlake_model::{Result, User};

use crate::call::Call;
use crate::errors::Failure;
use crate::reply::Reply;
use crate::resource_document::{document, etag_text, members, page, read as read_reply, required_id};
use crate::{metadata_query, unsupported};

#[derive(Serialize)]
struct UserDocument<'u> {
    id: &'u str,
    #[serde(rename = "_rid")]
    rid: String,
    #[serde(rename = "_self")]
    self_link: String,
    #[serde(rename = "_etag")]
    etag: String,
    #[serde(rename = "_permissions")]
    permissions: &'static str,
    #[serde(rename = "_ts")]
    timestamp: u64,
}

pub(crate) async fn create(call: &Call<'_>) -> Result<Reply, Failure> {
    let user =
        call.account.definitions().create_user(&call.context, call.path.database(), &id(&call.body)?).await?;
    Ok(written(StatusCode::CREATED, &user))
}

pub(crate) async fn upsert(call: &Call<'_>) -> Result<Reply, Failure> {
    let (id, preconditions) = (id(&call.body)?, call.headers.preconditions());
    let written_user =
        call.account.definitions().upsert_user(&call.context, call.path.database(), &id, &preconditions);
    let (user, created) = written_user.await?;
    Ok(written(if created { StatusCode::CREATED } else { StatusCode::OK }, &user))
}

pub(crate) fn list(call: &Call<'_>) -> Result<Reply, Failure> {
    let (rid, rows) = rows(call)?;
    Ok(page(call, &rid, "Users", rows)?)
}

pub(crate) fn query(call: &Call<'_>) -> Result<Reply, Failure> {
    let (rid, rows) = rows(call)?;
    Ok(metadata_query::answer(call, &rid, "Users", rows)?)
}

pub(crate) fn read(call: &Call<'_>) -> Result<Reply, Failure> {
    let user = call.account.definitions().user(call.path.database(), call.path.user())?;
    Ok(read_reply(render(&user), user.etag, &call.headers.preconditions()))
}

pub(crate) async fn replace(call: &Call<'_>) -> Result<Reply, Failure> {
    let (database, user) = (call.path.database(), call.path.user());
    let (id, preconditions) = (id(&call.body)?, call.headers.preconditions());
    let user =
        call.account.definitions().replace_user(&call.context, database, user, &id, &preconditions).await?;
    Ok(written(StatusCode::OK, &user))
}

pub(crate) async fn delete(call: &Call<'_>) -> Result<Reply, Failure> {
    let (database, user) = (call.path.database(), call.path.user());
    call.account
        .definitions()
        .delete_user(&call.context, database, user, &call.headers.preconditions())
        .await?;
    Ok(Reply::empty(StatusCode::NO_CONTENT, METADATA_WRITE_CHARGE_CENTI))
}

/// All that a client writes of a user.
fn id(body: &[u8]) -> Result<String> {
    let members = members(body)?;
    if let Some(name) = members.keys().find(|name| *name != "id") {
        return Err(unsupported::user_member(name));
    }
    required_id(&members).map(str::to_owned)
}

fn rows(call: &Call<'_>) -> Result<(String, Vec<Vec<u8>>)> {
    let (database, users) = call.account.definitions().users(call.path.database())?;
    Ok((database.to_string(), users.iter().map(|user| render(user)).collect()))
}

fn written(status: StatusCode, user: &User) -> Reply {
    Reply::json(status, METADATA_WRITE_CHARGE_CENTI, render(user)).with_etag(user.etag)
}

fn render(user: &User) -> Vec<u8> {
    let rid = user.rid.to_string();
    document(&UserDocument {
        id: &user.id,
        self_link: format!("dbs/{}/users/{rid}/", user.rid.database),
        rid,
        etag: etag_text(user.etag),
        permissions: "permissions/",
        timestamp: user.timestamp,
    })
}
