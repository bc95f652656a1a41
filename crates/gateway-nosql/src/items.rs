//! Single item operations: create, upsert, read, replace, patch, delete (wire.md §8).

use http::StatusCode;
use shardlake_account::{
    Body, BodyPermit, ContainerHandle, HEAVY_BYTES, ItemRead, ItemReply, ItemWrite, Outcome, ReadCommand,
    StoredItem, WriteCommand, item_of_json_in, offload,
};
use shardlake_document::RawValue;
use shardlake_model::{Error, ErrorKind, PartitionKey, Preconditions, RequestContext, Result};

use crate::access::Scope;
use crate::answer_body::Text;
use crate::call::Call;
use crate::formats::{AnswerFormat, text_of};
use crate::patch as patch_body;
use crate::reply::Reply;
use crate::request_key::key_of_text;
use crate::session;
use crate::triggers::TriggerNames;
use crate::unsupported;

/// The part of the item in a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Content {
    None,
    Text,
    Binary,
}

impl Content {
    fn of_read(call: &Call<'_>) -> Result<Content> {
        let format = AnswerFormat::of(call.headers)?;
        Ok(if format.has_binary_items() { Content::Binary } else { Content::Text })
    }

    fn of_write(call: &Call<'_>) -> Result<Content> {
        let content = Content::of_read(call)?;
        Ok(if call.headers.wants_content()? { content } else { Content::None })
    }

    fn render(self, item: &StoredItem) -> Option<Text> {
        match self {
            Content::None => None,
            Content::Text => Some(item.json_text().into()),
            Content::Binary => {
                let mut body = Vec::with_capacity(item.json_size_bytes());
                item.view().write_binary(&mut body);
                Some(body.into())
            }
        }
    }
}

pub(crate) async fn create(call: &Call<'_>, container: &ContainerHandle) -> Result<Reply> {
    let content = Content::of_write(call)?;
    let (body, _room) = sent_item(call, container).await?;
    write(call, container, content, key(call)?, ItemWrite::Create { body }).await
}

pub(crate) async fn upsert(call: &Call<'_>, container: &ContainerHandle) -> Result<Reply> {
    let content = Content::of_write(call)?;
    let preconditions = call.headers.preconditions();
    let (body, _room) = sent_item(call, container).await?;
    write(call, container, content, key(call)?, ItemWrite::Upsert { body, preconditions }).await
}

pub(crate) async fn replace(call: &Call<'_>, container: &ContainerHandle) -> Result<Reply> {
    let content = Content::of_write(call)?;
    let preconditions = call.headers.preconditions();
    let sent = sent_item(call, container).await;
    check_replacement(call, container, sent.as_ref().ok().map(|(body, _)| body)).await?;
    let (body, _room) = sent?;
    let item = container.item_name(call.path.item());
    let replacement = ItemWrite::Replace { item, body, preconditions };
    match write(call, container, content, key(call)?, replacement).await {
        Err(error) => Err(missing_or(call, container, error).await),
        reply => reply,
    }
}

/// The service looks for the item before it looks into the body that is to replace it: where there is none, the answer is 404
/// and not the fault of the body.
async fn missing_or(call: &Call<'_>, container: &ContainerHandle, error: Error) -> Error {
    let is_of_body = matches!(error.kind(), ErrorKind::BadRequest | ErrorKind::PartitionKeyMismatch);
    let Ok(Some(key)) = key(call) else { return error };
    // A trigger has faults of its own.
    if !is_of_body || call.headers.names_triggers() {
        return error;
    }
    let read =
        ItemRead { item: container.item_name(call.path.item()), preconditions: Preconditions::default() };
    let found =
        call.account.items().read(&call.context, container, ReadCommand { key: Some(key), read }).await;
    found.err().filter(|missing| missing.kind() == ErrorKind::NotFound).unwrap_or(error)
}

pub(crate) async fn patch(call: &Call<'_>, container: &ContainerHandle) -> Result<Reply> {
    let content = Content::of_write(call)?;
    let preconditions = call.headers.preconditions();
    let limits = call.account.router().limits();
    let patch = match call.body.len() > HEAVY_BYTES {
        false => patch_body::parse(&call.text()?, limits)?,
        true => {
            let (body, limits) = (call.body.clone(), limits.clone());
            let size_bytes_max = call.settings.body_size_bytes_max;
            offload(move || patch_body::parse(&text_of(&body, size_bytes_max)?, &limits)).await??
        }
    };
    let key = Some(required_key(call)?);
    let (item, patch) = (container.item_name(call.path.item()), patch.with_condition()?);
    let command = WriteCommand::of(key, ItemWrite::Patch { item, patch, preconditions });
    let written =
        call.account.items().write_item(&call.context, container, command).await.map_err(of_patch)?;
    respond(written, container, content).await
}

/// The reference has sentences of its own for patches, which programs look for.
fn of_patch(error: Error) -> Error {
    let sentence = match error.kind() {
        ErrorKind::NotFound => "Resource Not Found.",
        ErrorKind::PreconditionFailed => "One of the specified pre-condition is not met.",
        _ => return error,
    };
    Error::new(error.kind(), format!("{sentence} {}", error.message())).with_meta(*error.meta())
}

pub(crate) async fn read(call: &Call<'_>, container: &ContainerHandle) -> Result<Reply> {
    let content = Content::of_read(call)?;
    let context = reading(call)?;
    let preconditions = call.headers.preconditions();
    let read = ItemRead { item: container.item_name(call.path.item()), preconditions };
    let command = ReadCommand { key: Some(required_key(call)?), read };
    let reply = call.account.items().read(&context, container, command).await?;
    let mut reply = respond(reply, container, content).await?;
    reply.item_count = reply.body.is_some().then_some(1);
    Ok(reply)
}

pub(crate) async fn delete(call: &Call<'_>, container: &ContainerHandle) -> Result<Reply> {
    let preconditions = call.headers.preconditions();
    let item = container.item_name(call.path.item());
    let key = Some(required_key(call)?);
    write(call, container, Content::None, key, ItemWrite::Delete { item, preconditions }).await
}

/// Writes with the triggers that the request names.
async fn write(
    call: &Call<'_>,
    container: &ContainerHandle,
    content: Content,
    key: Option<PartitionKey>,
    write: ItemWrite,
) -> Result<Reply> {
    let names = call.headers.names_triggers().then(|| TriggerNames::of(call.headers));
    let limits = call.account.router().limits();
    let triggers = names.as_ref().map(|names| names.as_triggers(&call.body, limits)).transpose()?;
    let command = WriteCommand::of(key, write);
    let Some(triggers) = triggers.flatten() else {
        let reply = call.account.items().write_item(&call.context, container, command).await?;
        return respond(reply, container, content).await;
    };
    let written = call.account.procedures().write(&call.context, container, command, &triggers).await?;
    let mut reply = respond(written.reply, container, content).await?;
    // A post-trigger may have set another body, for replies that carry one.
    if content != Content::None
        && let Some(body) = written.body
    {
        reply.body = Some(body.into());
    }
    Ok(reply)
}

/// A token for one item must not change the item's id. A body that is no item has no id.
async fn check_replacement(call: &Call<'_>, container: &ContainerHandle, body: Option<&Body>) -> Result<()> {
    let Some(scope) = call.scope()?.filter(Scope::is_for_part) else { return Ok(()) };
    let item = container.item_name(call.path.item());
    let id = match container.is_by_rid() {
        true => call.account.items().item_id(container, Some(&required_key(call)?), item).await?,
        false => call.path.item().to_owned(),
    };
    let keeps = body.and_then(|body| body.raw().get("id")).is_some_and(|own| own == RawValue::String(&id));
    scope.check_replacement(keeps)
}

/// The context of a read, which waits for the session's position.
pub(crate) fn reading(call: &Call<'_>) -> Result<RequestContext> {
    let session = session::wanted(call.headers.session_token, call.context.consistency)?;
    Ok(RequestContext { session, ..call.context.clone() })
}

/// The partition key that the request names in its header.
pub(crate) fn key(call: &Call<'_>) -> Result<Option<PartitionKey>> {
    call.headers.partition_key.map(key_of_text).transpose()
}

/// The same for an operation that needs it.
pub(crate) fn required_key(call: &Call<'_>) -> Result<PartitionKey> {
    key(call)?.ok_or_else(|| {
        Error::bad_request("PartitionKey value must be supplied for this operation: the x-ms-documentdb-partitionkey header is missing")
    })
}

/// Status of a successful operation on one item.
pub(crate) fn status(outcome: Outcome) -> StatusCode {
    match outcome {
        Outcome::Created => StatusCode::CREATED,
        Outcome::Replaced | Outcome::Patched | Outcome::Read => StatusCode::OK,
        Outcome::Deleted => StatusCode::NO_CONTENT,
        Outcome::NotModified => StatusCode::NOT_MODIFIED,
    }
}

async fn respond(reply: ItemReply, container: &ContainerHandle, content: Content) -> Result<Reply> {
    let mut body = None;
    if let Some(item) = &reply.item
        && reply.outcome != Outcome::NotModified
        && content != Content::None
    {
        body = match item.is_heavy_to_render() {
            false => content.render(item),
            true => {
                let item = item.clone();
                offload(move || content.render(&item)).await?
            }
        };
    }
    Ok(Reply {
        status: status(reply.outcome),
        etag: reply.item.as_ref().map(|item| item.etag()),
        meta: reply.meta,
        container: Some(container.clone()),
        body,
        ..Reply::default()
    })
}

/// The item that was sent as JSON text or Cosmos binary JSON, and its memory permit until it is written.
async fn sent_item(call: &Call<'_>, container: &ContainerHandle) -> Result<(Body, Option<BodyPermit>)> {
    match call.body.first() {
        None => {
            return Err(Error::bad_request("the request has no body: send the item as a JSON object"));
        }
        Some(0x81) => return Err(unsupported::hybrid_row_item()),
        Some(_) => {}
    }
    let (account, size_bytes) = (call.account, call.body.len());
    let is_collection = container.entry.shape.is_collection;
    if size_bytes <= HEAVY_BYTES {
        return Ok((item_of_json_in(&call.body, account.router().limits(), is_collection)?, None));
    }
    let room = account.router().room_for(&call.context, size_bytes).await?;
    let (sent, limits) = (call.body.clone(), account.router().limits().clone());
    let body = offload(move || item_of_json_in(&sent, &limits, is_collection)).await??;
    Ok((body, room))
}
