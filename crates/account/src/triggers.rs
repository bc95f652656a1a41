//! Writes of single items with the triggers that the request names: one transaction of the item's logical partition.
//!
//! Order of events: the pre-trigger runs and may replace the request's body → the write → the post-trigger runs and sees the
//! response → one commit. Whatever of it fails takes everything back. Triggers never run unasked.

use std::borrow::Cow;
use std::sync::Arc;

use shardlake_document::{DocumentError, ParseLimits, check_numbers, is_binary, json_of_binary};
use shardlake_model::{
    Error, ErrorKind, Limits, Preconditions, RequestContext, Result, Rid, Script, ScriptKind,
    TriggerOperation, TriggerType,
};
use shardlake_partition::{ItemReply, LogicalKey, Operation, prepare};
use shardlake_script::Role;

use crate::script_run::{ScriptRun, has_lost_worker};
use crate::script_run_store::json_of;
use crate::{Account, ContainerHandle, KeyInput};
use shardlake_serving::ContainerEntry;
use shardlake_serving::{Cost, OperationKind, Permit, Touched};
use shardlake_serving::{key_of_read, key_of_write, partition_of};

/// The triggers that a request names, by id. Without any, the operation is an ordinary one.
#[derive(Debug, Clone, Copy, Default)]
pub struct Triggers<'a> {
    pub pre: &'a [String],
    pub post: &'a [String],
}

/// What a write with triggers came to.
#[derive(Debug, Clone)]
pub struct TriggeredReply {
    pub reply: ItemReply,
    /// JSON text, where the post-trigger has set another body for the response.
    pub body: Option<String>,
}

impl Triggers<'_> {
    pub fn is_empty(&self) -> bool {
        self.pre.is_empty() && self.post.is_empty()
    }
}

/// A write as the request asks for it.
struct TriggeredWrite<'a> {
    operation: TriggerOperation,
    container: &'a ContainerHandle,
    key: Option<KeyInput<'a>>,
    /// Of a replace or delete.
    id: Option<&'a str>,
    /// Of all but a delete.
    json: Option<&'a str>,
    preconditions: &'a Preconditions,
    triggers: Triggers<'a>,
}

impl Account {
    pub async fn create_item_with_triggers(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        key: Option<KeyInput<'_>>,
        json: &[u8],
        triggers: Triggers<'_>,
    ) -> Result<TriggeredReply> {
        if triggers.is_empty() {
            return plain(self.create_item(ctx, container, key, json).await);
        }
        let text = text(json, self.limits())?;
        let (json, preconditions) = (Some(&*text), &Preconditions::default());
        let operation = TriggerOperation::Create;
        let write = TriggeredWrite { operation, container, key, id: None, json, preconditions, triggers };
        // Boxed, so that writes without triggers do not carry its state.
        Box::pin(self.write_with_triggers(ctx, write)).await
    }

    pub async fn upsert_item_with_triggers(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        key: Option<KeyInput<'_>>,
        json: &[u8],
        preconditions: &Preconditions,
        triggers: Triggers<'_>,
    ) -> Result<TriggeredReply> {
        if triggers.is_empty() {
            return plain(self.upsert_item(ctx, container, key, json, preconditions).await);
        }
        let operation = TriggerOperation::Upsert;
        let text = text(json, self.limits())?;
        let json = Some(&*text);
        let write = TriggeredWrite { operation, container, key, id: None, json, preconditions, triggers };
        Box::pin(self.write_with_triggers(ctx, write)).await
    }

    #[expect(clippy::too_many_arguments, reason = "a replace and its triggers")]
    pub async fn replace_item_with_triggers(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        key: Option<KeyInput<'_>>,
        id: &str,
        json: &[u8],
        preconditions: &Preconditions,
        triggers: Triggers<'_>,
    ) -> Result<TriggeredReply> {
        if triggers.is_empty() {
            return plain(self.replace_item(ctx, container, key, id, json, preconditions).await);
        }
        let operation = TriggerOperation::Replace;
        let text = text(json, self.limits())?;
        let (id, json) = (Some(id), Some(&*text));
        let write = TriggeredWrite { operation, container, key, id, json, preconditions, triggers };
        Box::pin(self.write_with_triggers(ctx, write)).await
    }

    pub async fn delete_item_with_triggers(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        key: Option<KeyInput<'_>>,
        id: &str,
        preconditions: &Preconditions,
        triggers: Triggers<'_>,
    ) -> Result<TriggeredReply> {
        if triggers.is_empty() {
            return plain(self.delete_item(ctx, container, key, id, preconditions).await);
        }
        let operation = TriggerOperation::Delete;
        let id = Some(id);
        let write = TriggeredWrite { operation, container, key, id, json: None, preconditions, triggers };
        Box::pin(self.write_with_triggers(ctx, write)).await
    }

    async fn write_with_triggers(
        &self,
        ctx: &RequestContext,
        write: TriggeredWrite<'_>,
    ) -> Result<TriggeredReply> {
        let entry = &write.container.entry;
        let pre = trigger(entry, write.triggers.pre, TriggerType::Pre, write.operation)?;
        let post = trigger(entry, write.triggers.post, TriggerType::Post, write.operation)?;
        let _room = self.room_for(ctx, write.json.map_or(0, str::len)).await?;
        let logical = write.logical().await?;
        let mut routing = self.routing(write.container);
        loop {
            let partition = routing.owner(&logical);
            let touched = Touched::Logical(&logical);
            let mut permit = self.admit(ctx, &routing.entry, partition, OperationKind::Write, touched)?;
            let scripts = (&logical, pre.as_deref(), post.as_deref());
            let mut outcome = write.run_once(self, ctx, &routing.entry, scripts, &mut permit).await;
            if has_lost_worker(&outcome) {
                outcome = write.run_once(self, ctx, &routing.entry, scripts, &mut permit).await;
            }
            permit.settle_outcome(&outcome, |(_, cost)| *cost);
            if !routing.has_moved(&outcome).await? {
                return outcome.map(|(reply, _)| reply);
            }
        }
    }
}

impl TriggeredWrite<'_> {
    /// The logical partition that the request is about, whatever a trigger makes of its body.
    async fn logical(&self) -> Result<LogicalKey> {
        match (self.key, self.json) {
            (None, Some(json)) => {
                let item = prepare(json.as_bytes(), &self.container.entry.shape).await?;
                key_of_write(self.container, None, &item)
            }
            (key, _) => key_of_read(self.container, key),
        }
    }

    async fn run_once(
        &self,
        account: &Account,
        ctx: &RequestContext,
        entry: &Arc<ContainerEntry>,
        (logical, pre, post): (&LogicalKey, Option<&Script>, Option<&Script>),
        permit: &mut Permit<'_>,
    ) -> Result<(TriggeredReply, Cost)> {
        let mut run = account.begin_run(ctx, entry, partition_of(entry, logical), logical, permit).await?;
        let outcome = self.run(&mut run, pre, post).await;
        let (mut triggered, cost, meta) = run.finish(outcome).await?;
        triggered.reply.meta = meta;
        Ok((triggered, cost))
    }

    async fn run(
        &self,
        run: &mut ScriptRun<'_>,
        pre: Option<&Script>,
        post: Option<&Script>,
    ) -> Result<TriggeredReply> {
        let operation = self.operation;
        let mut request_body = self.json.map(str::to_owned);
        if let Some(pre) = pre {
            let role = Role::PreTrigger { operation, request_body: request_body.as_deref() };
            let completion = run.script(pre, role, false).await?;
            if self.json.is_some() {
                request_body = completion.request_body.or(request_body);
            }
        }
        let mut reply = run.store.execute(&self.planned(run, request_body.as_deref()).await?).await?;
        let mut body = None;
        if let Some(post) = post {
            let response_body = reply.item.as_ref().map(json_of).transpose()?;
            let role = Role::PostTrigger {
                operation,
                request_body: request_body.as_deref(),
                response_body: response_body.as_deref(),
            };
            body = run
                .script(post, role, false)
                .await?
                .response_body
                .filter(|set| Some(set) != response_body.as_ref());
            self.follow(run, &mut reply).await?;
        }
        Ok(TriggeredReply { reply, body })
    }

    /// The post-trigger may have written the item again: the reply is of what is kept.
    async fn follow(&self, run: &mut ScriptRun<'_>, reply: &mut ItemReply) -> Result<()> {
        let Some(written) = &reply.item else { return Ok(()) };
        if let Some(last) = run.store.last_version(written).await? {
            reply.item = Some(last);
        }
        Ok(())
    }

    /// The write itself, with the body as the pre-trigger left it.
    async fn planned(&self, run: &ScriptRun<'_>, json: Option<&str>) -> Result<Operation> {
        let preconditions = self.preconditions.clone();
        let item = match json {
            Some(json) => {
                let item = prepare(json.as_bytes(), &run.store.entry.shape).await?;
                let key = key_of_write(self.container, self.key, &item)?;
                if !key.partition_key.same(&run.store.transaction.logical().partition_key) {
                    return Err(Error::new(
                        ErrorKind::PartitionKeyMismatch,
                        "PartitionKey extracted from document doesn't match the one specified in the header",
                    ));
                }
                Some(item)
            }
            None => None,
        };
        let id = match self.id {
            Some(segment) => self.resolved(run, segment).await?,
            None => String::new(),
        };
        Ok(match (self.operation, item) {
            (TriggerOperation::Create, Some(item)) => Operation::Create { item },
            (TriggerOperation::Replace, Some(item)) => Operation::Replace { id, item, preconditions },
            (_, Some(item)) => Operation::Upsert { item, preconditions },
            (_, None) => Operation::Delete { id, preconditions },
        })
    }

    /// The id that a path segment names: an id, or a rid where the container was named by rid too.
    async fn resolved(&self, run: &ScriptRun<'_>, segment: &str) -> Result<String> {
        match Rid::parse(segment) {
            Some(Rid::Item(rid))
                if self.container.by_rid && rid.container == run.store.entry.record.container.rid =>
            {
                let id = run.store.transaction.id_of_ordinal(rid.ordinal).await?;
                id.ok_or_else(|| {
                    Error::new(
                        ErrorKind::NotFound,
                        "Entity with the specified id does not exist in the system.",
                    )
                })
            }
            _ => Ok(segment.to_owned()),
        }
    }
}

/// The one trigger that a request may name for one moment.
fn trigger(
    entry: &ContainerEntry,
    names: &[String],
    moment: TriggerType,
    operation: TriggerOperation,
) -> Result<Option<Arc<Script>>> {
    let words = match moment {
        TriggerType::Pre => "pre",
        TriggerType::Post => "post",
    };
    let name = match names {
        [] => return Ok(None),
        [name] => name,
        several => {
            return Err(Error::bad_request(format!(
                "the request names {} {words}-triggers: it may name one",
                several.len()
            )));
        }
    };
    let found = entry.scripts.get(ScriptKind::Trigger, name);
    let definition = found.and_then(|script| script.trigger);
    let (Some(script), Some(definition)) = (found, definition) else {
        return Err(Error::bad_request(format!("the container has no trigger '{name}'")));
    };
    if definition.trigger_type != moment {
        return Err(Error::bad_request(format!("the trigger '{name}' is not a {words}-trigger")));
    }
    if !runs_at(definition.operation, operation) {
        return Err(Error::bad_request(format!(
            "the trigger '{name}' is for the operation {:?}, not for {operation:?}",
            definition.operation
        )));
    }
    Ok(Some(script.clone()))
}

/// Whether a trigger for `defined` may run at a request's operation.
fn runs_at(defined: TriggerOperation, operation: TriggerOperation) -> bool {
    use TriggerOperation::{All, Replace, Update, Upsert};
    defined == All || defined == operation || (defined == Update && matches!(operation, Replace | Upsert))
}

/// The item that a client sent, as scripts read it. JavaScript rounds numbers, so that one which is to be refused must be
/// found before.
fn text<'s>(sent: &'s [u8], limits: &Limits) -> Result<Cow<'s, str>> {
    let limits = ParseLimits::of_items(limits);
    let invalid = |error: DocumentError| Error::bad_request(format!("The input content is invalid: {error}"));
    if is_binary(sent) {
        let text = json_of_binary(sent, &limits).map_err(invalid)?;
        return Ok(Cow::Owned(String::from_utf8(text).expect("JSON text is UTF-8")));
    }
    check_numbers(sent, &limits).map_err(invalid)?;
    let text = std::str::from_utf8(sent);
    text.map(Cow::Borrowed)
        .map_err(|_| Error::bad_request("The input content is invalid: it is not UTF-8 text"))
}

fn plain(outcome: Result<ItemReply>) -> Result<TriggeredReply> {
    outcome.map(|reply| TriggeredReply { reply, body: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn triggers_run_at_the_operations_they_are_for() {
        use TriggerOperation::{All, Create, Delete, Replace, Update, Upsert};
        let requests = [Create, Replace, Upsert, Delete];
        let of =
            |defined| requests.into_iter().filter(|request| runs_at(defined, *request)).collect::<Vec<_>>();
        assert_eq!(of(All), requests);
        assert_eq!(of(Create), [Create]);
        assert_eq!(of(Replace), [Replace]);
        assert_eq!(of(Delete), [Delete]);
        assert_eq!(of(Update), [Replace, Upsert]);
        assert_eq!(of(Upsert), [Upsert]);
    }
}
