//! The façade as a front end that speaks JSON calls it: bodies and keys as text. Most tests read better so.

use shardlake_account::{
    Account, BatchReply, Body, BodyPermit, BulkOnError, ContainerHandle, FeedScope, HEAVY_BYTES,
    ItemOperation, ItemRead, ItemReply, ItemWrite, KeyedOperation, PatchOperation, ProcedureReply,
    ReadCommand, WriteCommand, WriteReply, item_of_json, key_misfit, offload,
};
use shardlake_document::parse_partition_key;
use shardlake_model::{
    Error, Limits, PartitionKey, Preconditions, ReplyMeta, RequestContext, Result, Script,
};

/// The text of a partition key: a JSON array such as `["a"]`, `[null]` or `[{}]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyInput<'a>(pub &'a str);

impl KeyInput<'_> {
    fn parsed(self) -> Result<PartitionKey> {
        parse_partition_key(self.0).map_err(|error| key_misfit(&error))
    }
}

pub fn key_scope(text: impl AsRef<str>) -> FeedScope {
    FeedScope::Key(KeyInput(text.as_ref()).parsed().expect("a key"))
}

/// With its condition as text.
#[derive(Debug, Clone)]
pub struct Patch {
    pub operations: Vec<PatchOperation>,
    pub condition: Option<String>,
}

impl Patch {
    fn parsed(self) -> Result<shardlake_account::Patch> {
        let condition = self.condition.as_deref().map(shardlake_sql::parse_condition).transpose();
        let condition = condition.map_err(|error| Error::bad_request(error.to_string()))?;
        Ok(shardlake_account::Patch { operations: self.operations, condition })
    }
}

#[derive(Debug, Clone, Copy, Default)]
pub struct Triggers<'a> {
    pub pre: &'a [String],
    pub post: &'a [String],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchKind {
    Create,
    Upsert,
    Replace,
    Read,
    Delete,
    Patch,
}

#[derive(Debug, Clone)]
pub struct BatchOperation {
    pub kind: BatchKind,
    pub id: Option<String>,
    /// JSON text of the item, for creates, upserts and replaces.
    pub body: Option<Vec<u8>>,
    pub patch: Option<Patch>,
    /// JSON array text; bulk operations carry their own key.
    pub partition_key: Option<String>,
    pub preconditions: Preconditions,
}

impl BatchOperation {
    fn parsed(self, container: &ContainerHandle, limits: &Limits) -> Result<KeyedOperation> {
        let BatchOperation { kind, id, body, patch, partition_key, preconditions } = self;
        let key = partition_key.as_deref().map(|text| KeyInput(text).parsed()).transpose()?;
        let item = container.item_name(id.as_deref().unwrap_or_default());
        let body = || item_of_json(body.as_deref().expect("a body"), limits);
        let operation = ItemOperation::Write(match kind {
            BatchKind::Create => ItemWrite::Create { body: body()? },
            BatchKind::Upsert => ItemWrite::Upsert { body: body()?, preconditions },
            BatchKind::Replace => ItemWrite::Replace { item, body: body()?, preconditions },
            BatchKind::Delete => ItemWrite::Delete { item, preconditions },
            BatchKind::Patch => {
                ItemWrite::Patch { item, patch: patch.expect("a patch").parsed()?, preconditions }
            }
            BatchKind::Read => {
                let operation = ItemOperation::Read(ItemRead { item, preconditions });
                return Ok(KeyedOperation { key, operation, content: true });
            }
        });
        Ok(KeyedOperation { key, operation, content: true })
    }
}

async fn sent(account: &Account, ctx: &RequestContext, json: &[u8]) -> Result<(Body, Option<BodyPermit>)> {
    let room = account.router().room_for(ctx, json.len()).await?;
    let limits = account.router().limits().clone();
    let body = match json.len() > HEAVY_BYTES {
        false => item_of_json(json, &limits)?,
        true => {
            let json = json.to_vec();
            offload(move || item_of_json(&json, &limits)).await??
        }
    };
    Ok((body, room))
}

async fn operations_of(
    account: &Account,
    ctx: &RequestContext,
    container: &ContainerHandle,
    operations: Vec<BatchOperation>,
) -> Result<(Vec<Result<KeyedOperation>>, Option<BodyPermit>)> {
    let size = operations.iter().filter_map(|operation| operation.body.as_ref()).map(Vec::len).sum();
    let room = account.router().room_for(ctx, size).await?;
    let (container, limits) = (container.clone(), account.router().limits().clone());
    let parse = move || operations.into_iter().map(|one| one.parsed(&container, &limits)).collect();
    Ok((if size > HEAVY_BYTES { offload(parse).await? } else { parse() }, room))
}

type Key<'a> = Option<KeyInput<'a>>;

fn parsed(key: Key<'_>) -> Result<Option<PartitionKey>> {
    key.map(KeyInput::parsed).transpose()
}

pub trait JsonDoor {
    fn create_item<'a>(
        &'a self,
        ctx: &'a RequestContext,
        container: &'a ContainerHandle,
        key: Key<'a>,
        json: &'a [u8],
    ) -> impl Future<Output = Result<ItemReply>> + Send + 'a;

    fn upsert_item<'a>(
        &'a self,
        ctx: &'a RequestContext,
        container: &'a ContainerHandle,
        key: Key<'a>,
        json: &'a [u8],
        preconditions: &'a Preconditions,
    ) -> impl Future<Output = Result<ItemReply>> + Send + 'a;

    fn replace_item<'a>(
        &'a self,
        ctx: &'a RequestContext,
        container: &'a ContainerHandle,
        key: Key<'a>,
        id: &'a str,
        json: &'a [u8],
        preconditions: &'a Preconditions,
    ) -> impl Future<Output = Result<ItemReply>> + Send + 'a;

    fn read_item<'a>(
        &'a self,
        ctx: &'a RequestContext,
        container: &'a ContainerHandle,
        key: Key<'a>,
        id: &'a str,
        preconditions: &'a Preconditions,
    ) -> impl Future<Output = Result<ItemReply>> + Send + 'a;

    fn delete_item<'a>(
        &'a self,
        ctx: &'a RequestContext,
        container: &'a ContainerHandle,
        key: Key<'a>,
        id: &'a str,
        preconditions: &'a Preconditions,
    ) -> impl Future<Output = Result<ItemReply>> + Send + 'a;

    fn patch_item<'a>(
        &'a self,
        ctx: &'a RequestContext,
        container: &'a ContainerHandle,
        key: Key<'a>,
        id: &'a str,
        patch: Patch,
        preconditions: &'a Preconditions,
    ) -> impl Future<Output = Result<ItemReply>> + Send + 'a;

    fn create_item_with_triggers<'a>(
        &'a self,
        ctx: &'a RequestContext,
        container: &'a ContainerHandle,
        key: Key<'a>,
        json: &'a [u8],
        triggers: Triggers<'a>,
    ) -> impl Future<Output = Result<WriteReply>> + Send + 'a;

    fn upsert_item_with_triggers<'a>(
        &'a self,
        ctx: &'a RequestContext,
        container: &'a ContainerHandle,
        key: Key<'a>,
        json: &'a [u8],
        preconditions: &'a Preconditions,
        triggers: Triggers<'a>,
    ) -> impl Future<Output = Result<WriteReply>> + Send + 'a;

    #[expect(clippy::too_many_arguments, reason = "a replace and its triggers")]
    fn replace_item_with_triggers<'a>(
        &'a self,
        ctx: &'a RequestContext,
        container: &'a ContainerHandle,
        key: Key<'a>,
        id: &'a str,
        json: &'a [u8],
        preconditions: &'a Preconditions,
        triggers: Triggers<'a>,
    ) -> impl Future<Output = Result<WriteReply>> + Send + 'a;

    fn delete_item_with_triggers<'a>(
        &'a self,
        ctx: &'a RequestContext,
        container: &'a ContainerHandle,
        key: Key<'a>,
        id: &'a str,
        preconditions: &'a Preconditions,
        triggers: Triggers<'a>,
    ) -> impl Future<Output = Result<WriteReply>> + Send + 'a;

    fn json_batch<'a>(
        &'a self,
        ctx: &'a RequestContext,
        container: &'a ContainerHandle,
        key: KeyInput<'a>,
        operations: Vec<BatchOperation>,
    ) -> impl Future<Output = Result<BatchReply>> + Send + 'a;

    fn json_bulk<'a>(
        &'a self,
        ctx: &'a RequestContext,
        container: &'a ContainerHandle,
        range_id: Option<u32>,
        operations: Vec<BatchOperation>,
        on_error: BulkOnError,
    ) -> impl Future<Output = Result<Vec<Result<ItemReply>>>> + Send + 'a;

    fn json_procedure<'a>(
        &'a self,
        ctx: &'a RequestContext,
        container: &'a ContainerHandle,
        key: Key<'a>,
        script: &'a Script,
        arguments: &'a str,
        logs: bool,
    ) -> impl Future<Output = Result<ProcedureReply>> + Send + 'a;

    fn json_key_delete<'a>(
        &'a self,
        ctx: &'a RequestContext,
        container: &'a ContainerHandle,
        key: KeyInput<'a>,
    ) -> impl Future<Output = Result<ReplyMeta>> + Send + 'a;

    fn json_item_id<'a>(
        &'a self,
        container: &'a ContainerHandle,
        key: Key<'a>,
        segment: &'a str,
    ) -> impl Future<Output = Result<String>> + Send + 'a;
}

/// A write as text, on its way to the façade.
struct Sent<'a> {
    account: &'a Account,
    ctx: &'a RequestContext,
    container: &'a ContainerHandle,
    key: Key<'a>,
    triggers: Triggers<'a>,
}

impl<'a> Sent<'a> {
    fn new(
        account: &'a Account,
        ctx: &'a RequestContext,
        container: &'a ContainerHandle,
        key: Key<'a>,
    ) -> Sent<'a> {
        Sent { account, ctx, container, key, triggers: Triggers::default() }
    }

    fn with(self, triggers: Triggers<'a>) -> Sent<'a> {
        Sent { triggers, ..self }
    }

    async fn body(&self, json: &[u8]) -> Result<(Body, Option<BodyPermit>)> {
        sent(self.account, self.ctx, json).await
    }

    async fn write(&self, write: ItemWrite, json: Option<&[u8]>) -> Result<WriteReply> {
        let command = WriteCommand::of(parsed(self.key)?, write);
        let text = json.map(|json| std::str::from_utf8(json).expect("text").into());
        let Triggers { pre, post } = self.triggers;
        let triggers = shardlake_account::Triggers { pre, post, text };
        let triggers = (!pre.is_empty() || !post.is_empty()).then_some(&triggers);
        match triggers {
            Some(triggers) => {
                self.account.procedures().write(self.ctx, self.container, command, triggers).await
            }
            None => {
                let reply = self.account.items().write_item(self.ctx, self.container, command).await?;
                Ok(WriteReply { reply, body: None })
            }
        }
    }

    async fn create(self, json: &[u8]) -> Result<WriteReply> {
        let (body, _room) = self.body(json).await?;
        self.write(ItemWrite::Create { body }, Some(json)).await
    }

    async fn upsert(self, json: &[u8], preconditions: &Preconditions) -> Result<WriteReply> {
        let (body, _room) = self.body(json).await?;
        self.write(ItemWrite::Upsert { body, preconditions: preconditions.clone() }, Some(json)).await
    }

    async fn replace(self, id: &str, json: &[u8], preconditions: &Preconditions) -> Result<WriteReply> {
        let (body, _room) = self.body(json).await?;
        let item = self.container.item_name(id);
        let write = ItemWrite::Replace { item, body, preconditions: preconditions.clone() };
        self.write(write, Some(json)).await
    }

    async fn delete(self, id: &str, preconditions: &Preconditions) -> Result<WriteReply> {
        let item = self.container.item_name(id);
        self.write(ItemWrite::Delete { item, preconditions: preconditions.clone() }, None).await
    }
}

impl JsonDoor for Account {
    async fn create_item<'a>(
        &'a self,
        ctx: &'a RequestContext,
        container: &'a ContainerHandle,
        key: Key<'a>,
        json: &'a [u8],
    ) -> Result<ItemReply> {
        Ok(Sent::new(self, ctx, container, key).create(json).await?.reply)
    }

    async fn upsert_item<'a>(
        &'a self,
        ctx: &'a RequestContext,
        container: &'a ContainerHandle,
        key: Key<'a>,
        json: &'a [u8],
        preconditions: &'a Preconditions,
    ) -> Result<ItemReply> {
        Ok(Sent::new(self, ctx, container, key).upsert(json, preconditions).await?.reply)
    }

    async fn replace_item<'a>(
        &'a self,
        ctx: &'a RequestContext,
        container: &'a ContainerHandle,
        key: Key<'a>,
        id: &'a str,
        json: &'a [u8],
        preconditions: &'a Preconditions,
    ) -> Result<ItemReply> {
        Ok(Sent::new(self, ctx, container, key).replace(id, json, preconditions).await?.reply)
    }

    async fn read_item<'a>(
        &'a self,
        ctx: &'a RequestContext,
        container: &'a ContainerHandle,
        key: Key<'a>,
        id: &'a str,
        preconditions: &'a Preconditions,
    ) -> Result<ItemReply> {
        let read = ItemRead { item: container.item_name(id), preconditions: preconditions.clone() };
        self.items().read(ctx, container, ReadCommand { key: parsed(key)?, read }).await
    }

    async fn delete_item<'a>(
        &'a self,
        ctx: &'a RequestContext,
        container: &'a ContainerHandle,
        key: Key<'a>,
        id: &'a str,
        preconditions: &'a Preconditions,
    ) -> Result<ItemReply> {
        Ok(Sent::new(self, ctx, container, key).delete(id, preconditions).await?.reply)
    }

    async fn patch_item<'a>(
        &'a self,
        ctx: &'a RequestContext,
        container: &'a ContainerHandle,
        key: Key<'a>,
        id: &'a str,
        patch: Patch,
        preconditions: &'a Preconditions,
    ) -> Result<ItemReply> {
        let (item, preconditions) = (container.item_name(id), preconditions.clone());
        let write = ItemWrite::Patch { item, patch: patch.parsed()?, preconditions };
        Ok(Sent::new(self, ctx, container, key).write(write, None).await?.reply)
    }

    async fn create_item_with_triggers<'a>(
        &'a self,
        ctx: &'a RequestContext,
        container: &'a ContainerHandle,
        key: Key<'a>,
        json: &'a [u8],
        triggers: Triggers<'a>,
    ) -> Result<WriteReply> {
        Sent::new(self, ctx, container, key).with(triggers).create(json).await
    }

    async fn upsert_item_with_triggers<'a>(
        &'a self,
        ctx: &'a RequestContext,
        container: &'a ContainerHandle,
        key: Key<'a>,
        json: &'a [u8],
        preconditions: &'a Preconditions,
        triggers: Triggers<'a>,
    ) -> Result<WriteReply> {
        Sent::new(self, ctx, container, key).with(triggers).upsert(json, preconditions).await
    }

    async fn replace_item_with_triggers<'a>(
        &'a self,
        ctx: &'a RequestContext,
        container: &'a ContainerHandle,
        key: Key<'a>,
        id: &'a str,
        json: &'a [u8],
        preconditions: &'a Preconditions,
        triggers: Triggers<'a>,
    ) -> Result<WriteReply> {
        Sent::new(self, ctx, container, key).with(triggers).replace(id, json, preconditions).await
    }

    async fn delete_item_with_triggers<'a>(
        &'a self,
        ctx: &'a RequestContext,
        container: &'a ContainerHandle,
        key: Key<'a>,
        id: &'a str,
        preconditions: &'a Preconditions,
        triggers: Triggers<'a>,
    ) -> Result<WriteReply> {
        Sent::new(self, ctx, container, key).with(triggers).delete(id, preconditions).await
    }

    async fn json_batch<'a>(
        &'a self,
        ctx: &'a RequestContext,
        container: &'a ContainerHandle,
        key: KeyInput<'a>,
        operations: Vec<BatchOperation>,
    ) -> Result<BatchReply> {
        let (operations, _room) = operations_of(self, ctx, container, operations).await?;
        self.items().batch(ctx, container, &key.parsed()?, operations).await
    }

    async fn json_bulk<'a>(
        &'a self,
        ctx: &'a RequestContext,
        container: &'a ContainerHandle,
        range_id: Option<u32>,
        operations: Vec<BatchOperation>,
        on_error: BulkOnError,
    ) -> Result<Vec<Result<ItemReply>>> {
        let (operations, _room) = operations_of(self, ctx, container, operations).await?;
        self.items().bulk(ctx, container, range_id, operations, on_error).await
    }

    async fn json_procedure<'a>(
        &'a self,
        ctx: &'a RequestContext,
        container: &'a ContainerHandle,
        key: Key<'a>,
        script: &'a Script,
        arguments: &'a str,
        logs: bool,
    ) -> Result<ProcedureReply> {
        self.procedures()
            .execute_procedure(ctx, container, parsed(key)?.as_ref(), script, arguments, logs)
            .await
    }

    async fn json_key_delete<'a>(
        &'a self,
        ctx: &'a RequestContext,
        container: &'a ContainerHandle,
        key: KeyInput<'a>,
    ) -> Result<ReplyMeta> {
        self.items().delete_partition_key(ctx, container, &key.parsed()?).await
    }

    async fn json_item_id<'a>(
        &'a self,
        container: &'a ContainerHandle,
        key: Key<'a>,
        segment: &'a str,
    ) -> Result<String> {
        self.items().item_id(container, parsed(key)?.as_ref(), container.item_name(segment)).await
    }
}
