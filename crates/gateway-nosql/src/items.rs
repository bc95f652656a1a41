//! Single item operations: create, upsert, read, replace, patch, delete (wire.md §8).

use std::borrow::Cow;

use http::StatusCode;
use serde::Deserialize;
use shardlake_account::{
    ContainerHandle, HEAVY_BYTES, ItemReply, KeyInput, Outcome, StoredItem, TriggeredReply, beside,
};
use shardlake_model::{Error, RequestContext, Result};

use crate::access::Scope;
use crate::call::Call;
use crate::formats::{AnswerFormat, text_of};
use crate::patch as patch_body;
use crate::reply::Reply;
use crate::session;
use crate::triggers::TriggerNames;
use crate::unsupported;

/// What of the item a reply carries.
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

    fn render(self, item: &StoredItem) -> Option<Vec<u8>> {
        let mut body = Vec::with_capacity(item.json_size_bytes());
        match self {
            Content::None => return None,
            Content::Text => item.write_json(&mut body),
            Content::Binary => item.view().write_binary(&mut body),
        }
        Some(body)
    }
}

pub(crate) async fn create(call: &Call<'_>, container: &ContainerHandle) -> Result<Reply> {
    let content = Content::of_write(call)?;
    let triggers = TriggerNames::of(call.headers);
    let (item, triggers) = (sent_item(call)?, triggers.as_triggers());
    let account = call.account;
    let reply =
        account.create_item_with_triggers(&call.context, container, key(call), item, triggers).await?;
    respond_triggered(reply, container, content).await
}

pub(crate) async fn upsert(call: &Call<'_>, container: &ContainerHandle) -> Result<Reply> {
    let content = Content::of_write(call)?;
    let preconditions = call.headers.preconditions();
    let triggers = TriggerNames::of(call.headers);
    let (item, triggers) = (sent_item(call)?, triggers.as_triggers());
    let reply = call
        .account
        .upsert_item_with_triggers(&call.context, container, key(call), item, &preconditions, triggers)
        .await?;
    respond_triggered(reply, container, content).await
}

pub(crate) async fn replace(call: &Call<'_>, container: &ContainerHandle) -> Result<Reply> {
    let content = Content::of_write(call)?;
    let preconditions = call.headers.preconditions();
    let triggers = TriggerNames::of(call.headers);
    let (id, item, triggers) = (call.path.item(), sent_item(call)?, triggers.as_triggers());
    check_replacement(call, container).await?;
    let reply = call
        .account
        .replace_item_with_triggers(&call.context, container, key(call), id, item, &preconditions, triggers)
        .await?;
    respond_triggered(reply, container, content).await
}

pub(crate) async fn patch(call: &Call<'_>, container: &ContainerHandle) -> Result<Reply> {
    let content = Content::of_write(call)?;
    let preconditions = call.headers.preconditions();
    let limits = call.account.limits();
    let patch = match call.body.len() > HEAVY_BYTES {
        false => patch_body::parse(&call.text()?, limits)?,
        true => {
            let (body, limits) = (call.body.clone(), limits.clone());
            let size_bytes_max = call.settings.body_size_bytes_max;
            beside(move || patch_body::parse(&text_of(&body, size_bytes_max)?, &limits)).await??
        }
    };
    let id = call.path.item();
    let reply =
        call.account.patch_item(&call.context, container, key(call), id, patch, &preconditions).await?;
    respond(reply, container, content).await
}

pub(crate) async fn read(call: &Call<'_>, container: &ContainerHandle) -> Result<Reply> {
    let content = Content::of_read(call)?;
    let context = reading(call)?;
    let preconditions = call.headers.preconditions();
    let reply =
        call.account.read_item(&context, container, key(call), call.path.item(), &preconditions).await?;
    let mut reply = respond(reply, container, content).await?;
    reply.item_count = reply.body.is_some().then_some(1);
    Ok(reply)
}

pub(crate) async fn delete(call: &Call<'_>, container: &ContainerHandle) -> Result<Reply> {
    let preconditions = call.headers.preconditions();
    let triggers = TriggerNames::of(call.headers);
    let (id, triggers) = (call.path.item(), triggers.as_triggers());
    let reply = call
        .account
        .delete_item_with_triggers(&call.context, container, key(call), id, &preconditions, triggers)
        .await?;
    respond_triggered(reply, container, Content::None).await
}

/// A token for one item must not leave another behind.
async fn check_replacement(call: &Call<'_>, container: &ContainerHandle) -> Result<()> {
    #[derive(Deserialize)]
    struct Named<'t> {
        #[serde(borrow)]
        id: Cow<'t, str>,
    }
    let Some(scope) = call.scope()?.filter(Scope::is_for_part) else { return Ok(()) };
    let id = match container.is_by_rid() {
        true => Cow::Owned(call.account.item_id(container, key(call), call.path.item()).await?),
        false => Cow::Borrowed(call.path.item()),
    };
    // A text that names several ids is none of the item's, whichever of them counts.
    let (body, id, size_bytes_max) = (call.body.clone(), id.into_owned(), call.settings.body_size_bytes_max);
    let names_it = move || {
        let text = text_of(&body, size_bytes_max)?;
        Ok::<_, Error>(serde_json::from_slice::<Named<'_>>(&text).is_ok_and(|sent| sent.id == id))
    };
    let names_it = if call.body.len() > HEAVY_BYTES { beside(names_it).await? } else { names_it() };
    scope.check_replacement(names_it?)
}

/// The context of a read, which waits for the session's position.
pub(crate) fn reading(call: &Call<'_>) -> Result<RequestContext> {
    let session = session::wanted(call.headers.session_token, call.context.consistency)?;
    Ok(RequestContext { session, ..call.context.clone() })
}

pub(crate) fn key<'r>(call: &Call<'r>) -> Option<KeyInput<'r>> {
    call.headers.partition_key.map(KeyInput)
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

/// A post-trigger may have set another body, for replies that carry one.
async fn respond_triggered(
    triggered: TriggeredReply,
    container: &ContainerHandle,
    content: Content,
) -> Result<Reply> {
    let mut reply = respond(triggered.reply, container, content).await?;
    if content != Content::None
        && let Some(body) = triggered.body
    {
        reply.body = Some(body.into());
    }
    Ok(reply)
}

async fn respond(reply: ItemReply, container: &ContainerHandle, content: Content) -> Result<Reply> {
    let mut body = None;
    if let Some(item) = &reply.item
        && reply.outcome != Outcome::NotModified
        && content != Content::None
    {
        let text = match item.is_heavy_to_render() {
            false => content.render(item),
            true => {
                let item = item.clone();
                beside(move || content.render(&item)).await?
            }
        };
        body = text.map(Into::into);
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

/// The item as it was sent: JSON text or Cosmos binary JSON.
fn sent_item<'c>(call: &'c Call<'_>) -> Result<&'c [u8]> {
    match call.body.first() {
        None => Err(Error::bad_request("the request has no body: send the item as a JSON object")),
        Some(0x81) => Err(unsupported::hybrid_row_item()),
        Some(_) => Ok(&call.body),
    }
}
