//! Writes of single items with the triggers that the request names: one transaction of the item's logical partition.
//!
//! Order of events: the pre-trigger runs and may replace the request's body → the write → the post-trigger
//! runs and sees the response → one commit. A failure of any of them rolls everything back. Triggers run only
//! on request.

use std::sync::Arc;

use shardlake_document::{Body, write_json};
use shardlake_model::{
    Error, ErrorKind, RequestContext, Result, Script, ScriptKind, TriggerOperation, TriggerType,
};
use shardlake_partition::{ItemReply, LogicalKey, Operation, prepare};
use shardlake_script::Role;

use crate::ScriptRuns;
use crate::script_run::{ScriptRun, has_lost_worker};
use crate::script_run_store::json_of;
use shardlake_document::ItemName;
use shardlake_host::{Cost, OperationKind, Permit, Touched};
use shardlake_items::item_of_json_in;
use shardlake_items::no_such_item;
use shardlake_items::{ItemWrite, Triggers, WriteCommand, WriteReply};
use shardlake_router::ContainerEntry;
use shardlake_router::ContainerHandle;
use shardlake_router::{key_of_read, key_of_write, mismatch, partition_of};

/// A write of a request with triggers.
struct TriggeredWrite<'a> {
    operation: TriggerOperation,
    container: &'a ContainerHandle,
    command: WriteCommand,
    /// The body as scripts see it.
    text: Option<String>,
}

impl ScriptRuns {
    /// Creates, upserts, replaces or deletes one item, in one transaction with the triggers that the request names.
    pub async fn write(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        command: WriteCommand,
        triggers: &Triggers<'_>,
    ) -> Result<WriteReply> {
        let entry = &container.entry;
        let operation = operation_of(&command.write)?;
        let pre = trigger(entry, triggers.pre, TriggerType::Pre, operation)?;
        let post = trigger(entry, triggers.post, TriggerType::Post, operation)?;
        let text = match (command.write.body(), &triggers.text) {
            (Some(_), Some(text)) => Some(text.to_string()),
            (Some(body), None) => Some(rendered(body)),
            (None, _) => None,
        };
        let write = TriggeredWrite { operation, container, command, text };
        let logical = write.logical().await?;
        let mut routing = self.router().routing(container);
        loop {
            let partition = routing.owner(&logical);
            let touched = Touched::Logical(&logical);
            let mut permit = partition.hosted().admit(ctx, OperationKind::Write, touched)?;
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
    /// The logical partition of the request, from the body before any trigger.
    async fn logical(&self) -> Result<LogicalKey> {
        match (&self.command.key, self.command.write.body()) {
            (None, Some(body)) => {
                let item = prepare(body.clone(), &self.container.entry.shape).await?;
                key_of_write(self.container, None, &item)
            }
            (key, _) => key_of_read(self.container, key.as_ref()),
        }
    }

    async fn run_once(
        &self,
        runs: &ScriptRuns,
        ctx: &RequestContext,
        entry: &Arc<ContainerEntry>,
        (logical, pre, post): (&LogicalKey, Option<&Script>, Option<&Script>),
        permit: &mut Permit<'_>,
    ) -> Result<(WriteReply, Cost)> {
        let first = pre.or(post).map_or(0, |script| script.number);
        let place = (partition_of(entry, logical), logical);
        let mut run = runs.begin_run(ctx, entry, place, first, permit).await?;
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
    ) -> Result<WriteReply> {
        let operation = self.operation;
        let mut request_body = match &self.command.write {
            ItemWrite::Delete { item, .. } => self.deleted(run, item).await?,
            _ => self.text.clone(),
        };
        if let Some(pre) = pre {
            let role = Role::PreTrigger { operation, request_body: request_body.as_deref() };
            let completion = run.script(pre, role, false).await?;
            if self.text.is_some() {
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
        Ok(WriteReply { reply, body })
    }

    /// The item that a delete names, which its triggers see as the request's body; reading it is not charged.
    async fn deleted(&self, run: &mut ScriptRun<'_>, item: &ItemName) -> Result<Option<String>> {
        let id = match self.resolved(run, item).await {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            id => id?,
        };
        run.store.version_of(id).await?.as_ref().map(json_of).transpose()
    }

    /// The post-trigger may have written the item again: the reply shows the last version.
    async fn follow(&self, run: &mut ScriptRun<'_>, reply: &mut ItemReply) -> Result<()> {
        let Some(written) = &reply.item else { return Ok(()) };
        if let Some(last) = run.store.last_version(written).await? {
            reply.item = Some(last);
        }
        Ok(())
    }

    /// The write itself, with the body as the pre-trigger left it.
    async fn planned(&self, run: &ScriptRun<'_>, text: Option<&str>) -> Result<Operation> {
        let shape = &run.store.entry.shape;
        let item = match (self.command.write.body(), text) {
            (Some(body), Some(text)) => {
                let is_as_sent = self.text.as_deref() == Some(text);
                let body = match is_as_sent {
                    true => body.clone(),
                    false => item_of_json_in(text.as_bytes(), &shape.limits, shape.is_collection)?,
                };
                let item = prepare(body, shape).await?;
                let key = key_of_write(self.container, self.command.key.as_ref(), &item)?;
                if !key.partition_key.same(&run.store.transaction.logical().partition_key) {
                    return Err(mismatch());
                }
                Some(item)
            }
            _ => None,
        };
        Ok(match (&self.command.write, item) {
            (ItemWrite::Create { .. }, Some(item)) => Operation::Create { item },
            (ItemWrite::Upsert { preconditions, .. }, Some(item)) => {
                Operation::Upsert { item, preconditions: preconditions.clone() }
            }
            (ItemWrite::Replace { item: name, preconditions, .. }, Some(item)) => {
                let id = self.resolved(run, name).await?;
                Operation::Replace { id, item, preconditions: preconditions.clone() }
            }
            (ItemWrite::Delete { item: name, preconditions }, None) => {
                let id = self.resolved(run, name).await?;
                Operation::Delete { id, preconditions: preconditions.clone() }
            }
            _ => return Err(Error::internal("a write with triggers has lost its body")),
        })
    }

    async fn resolved(&self, run: &ScriptRun<'_>, item: &ItemName) -> Result<String> {
        match item {
            ItemName::Id(id) => Ok(id.as_str().to_owned()),
            ItemName::Ordinal(ordinal) => {
                run.store.transaction.id_of_ordinal(*ordinal).await?.ok_or_else(no_such_item)
            }
        }
    }
}

/// The operation of a write that triggers can run at.
fn operation_of(write: &ItemWrite) -> Result<TriggerOperation> {
    Ok(match write {
        ItemWrite::Create { .. } => TriggerOperation::Create,
        ItemWrite::Upsert { .. } => TriggerOperation::Upsert,
        ItemWrite::Replace { .. } => TriggerOperation::Replace,
        ItemWrite::Delete { .. } => TriggerOperation::Delete,
        ItemWrite::Patch { .. } => {
            return Err(Error::unsupported("triggers do not run at patches: nothing was done"));
        }
        ItemWrite::Change { .. } => {
            return Err(Error::unsupported("triggers do not run at changes of documents: nothing was done"));
        }
    })
}

fn rendered(body: &Body) -> String {
    let mut text = Vec::with_capacity(body.as_bytes().len());
    write_json(body.raw(), &mut text);
    String::from_utf8(text).expect("JSON text is UTF-8")
}

/// The one trigger that a request may name for each type.
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
            "Trigger '{name}' was defined with operation type '{:?}', and therefore is invalid for '{operation:?}'",
            definition.operation
        )));
    }
    Ok(Some(script.clone()))
}

/// Whether a trigger for `defined` may run at a request's operation. An upsert is not an update, for it may
/// create.
fn runs_at(defined: TriggerOperation, operation: TriggerOperation) -> bool {
    use TriggerOperation::{All, Replace, Update};
    defined == All || defined == operation || (defined == Update && operation == Replace)
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
        assert_eq!(of(Update), [Replace]);
        assert_eq!(of(Upsert), [Upsert]);
    }
}
