//! Operations on items: reads, writes, feeds, queries and scripts, delegated to the crates that implement them.

use std::sync::Arc;

use shardlake_document::{ItemName, Value};
use shardlake_items::{
    BulkOnError, ChangeFeedPage, ChangeFeedRequest, FeedPage, FeedScope, KeyedOperation, PolicyPreview,
    ReadCommand, Schema, Triggers, WriteCommand, WriteReply,
};
use shardlake_model::{IndexingPolicy, PartitionKey, ReplyMeta, RequestContext, Result, Script};
use shardlake_partition::{BatchReply, ChangePage, ChangeSink, ItemReply, Permit};
use shardlake_procedures::{ProcedureReply, ScriptTrial, TrialReply};
use shardlake_queries::{ItemsRequest, PlanReply, QueryPreview, QueryReply, QueryRequest};
use shardlake_router::ContainerHandle;
use shardlake_routing::KeyRange;
use shardlake_script::Confined;
use shardlake_sql::SupportedFeatures;

use crate::Account;

impl Account {
    /// Creates, upserts, replaces, patches or deletes one item, in one transaction with the triggers that the request names.
    pub async fn write(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        command: WriteCommand,
        triggers: Option<&Triggers<'_>>,
    ) -> Result<WriteReply> {
        self.0.script_runs.write(ctx, container, command, triggers).await
    }

    pub async fn read(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        command: ReadCommand,
    ) -> Result<ItemReply> {
        self.0.script_runs.read(ctx, container, command).await
    }

    /// The id of an item in the logical partition of a key.
    pub async fn item_id(
        &self,
        container: &ContainerHandle,
        key: Option<&PartitionKey>,
        item: ItemName,
    ) -> Result<String> {
        self.0.script_runs.item_id(container, key, item).await
    }

    /// Executes operations on one logical partition as one transaction. An operation may come as the front end's refusal of it,
    /// which fails the batch like the engine's would. `Err` is for a request that is wrong as a whole.
    pub async fn batch(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        key: &PartitionKey,
        operations: Vec<Result<KeyedOperation>>,
    ) -> Result<BatchReply> {
        self.0.script_runs.batch(ctx, container, key, operations).await
    }

    /// Executes operations independently, each with its own key, and answers in their order.
    pub async fn bulk(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        range_id: Option<u32>,
        operations: Vec<Result<KeyedOperation>>,
        on_error: BulkOnError,
    ) -> Result<Vec<Result<ItemReply>>> {
        self.0.script_runs.bulk(ctx, container, range_id, operations, on_error).await
    }

    /// `max_items` is the client's wish: absent for the default, -1 for the server's choice.
    pub async fn read_feed(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        scope: FeedScope,
        max_items: Option<i64>,
        continuation: Option<&str>,
    ) -> Result<FeedPage> {
        self.0.script_runs.read_feed(ctx, container, scope, max_items, continuation).await
    }

    /// Schema of a sample of a container's items.
    pub async fn schema(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        count: usize,
    ) -> Result<Arc<Schema>> {
        self.0.script_runs.schema(ctx, container, count).await
    }

    /// Cost of the items of a sample under another indexing policy.
    pub async fn preview_policy(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        policy: IndexingPolicy,
        count: usize,
    ) -> Result<PolicyPreview> {
        self.0.script_runs.preview_policy(ctx, container, policy, count).await
    }

    /// Access and cost of queries under another indexing policy, each with its parameters.
    pub async fn preview_queries(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        policy: IndexingPolicy,
        queries: &[(String, Vec<(String, Value)>)],
        count: usize,
    ) -> Result<Vec<QueryPreview>> {
        self.0.script_runs.preview_queries(ctx, container, policy, queries, count).await
    }

    /// The change log of a range, or of the part of it in a span, above an LSN. Positions in a
    /// range remain valid in the ranges that replace it, for the same span.
    pub async fn changes(
        &self,
        container: &ContainerHandle,
        range_id: u32,
        span: &KeyRange,
        after: u64,
        entries_max: usize,
    ) -> Result<ChangePage> {
        self.0.script_runs.changes(container, range_id, span, after, entries_max).await
    }

    /// Deletes every item of a logical partition. Done when it returns; other requests may see it half done.
    pub async fn delete_partition_key(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        key: &PartitionKey,
    ) -> Result<ReplyMeta> {
        self.0.script_runs.delete_partition_key(ctx, container, key).await
    }

    /// With the changes as JSON.
    pub async fn change_feed(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        request: &ChangeFeedRequest<'_>,
    ) -> Result<ChangeFeedPage> {
        self.0.script_runs.change_feed(ctx, container, request).await
    }

    /// With the changes as a sink of the front end's keeps them.
    pub async fn changes_in<C: ChangeSink + Default>(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        request: &ChangeFeedRequest<'_>,
    ) -> Result<ChangeFeedPage<C>> {
        self.0.script_runs.changes_in(ctx, container, request).await
    }

    /// For use before the account is closed: a request that waits for a change gets an empty answer
    /// within a second, and no later request waits.
    pub fn stop_waiting(&self) {
        self.0.script_runs.stop_waiting()
    }

    pub async fn query(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        request: QueryRequest<'_>,
    ) -> Result<QueryReply> {
        self.0.script_runs.query(ctx, container, request).await
    }

    /// The plan of a query, which is neither run nor charged.
    pub fn explain(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        request: &QueryRequest<'_>,
    ) -> Result<QueryReply> {
        self.0.script_runs.explain(ctx, container, request)
    }

    /// The bodies of items that a built query finds, as BSON, merged if they come from several partitions.
    pub async fn find_items(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        request: ItemsRequest<'_>,
    ) -> Result<QueryReply> {
        self.0.script_runs.find_items(ctx, container, request).await
    }

    /// The plan for a client that merges the query itself.
    pub fn query_plan(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        text: &str,
        parameters: &[(String, Value)],
        supported: &SupportedFeatures,
    ) -> Result<PlanReply> {
        self.0.script_runs.query_plan(ctx, container, text, parameters, supported)
    }

    /// How often a query was bound to a container, which its text, parameters and container need once.
    pub fn queries_bound(&self) -> u64 {
        self.0.script_runs.queries_bound()
    }

    /// Runs a stored procedure on the logical partition that `key` names. `arguments` is the text of a JSON array.
    /// Errors are `BadRequest` for an exception of the script and `Forbidden` past its limits; nothing is written then.
    pub async fn execute_procedure(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        key: Option<&PartitionKey>,
        script: &Script,
        arguments: &str,
        logs: bool,
    ) -> Result<ProcedureReply> {
        self.0.script_runs.execute_procedure(ctx, container, key, script, arguments, logs).await
    }

    /// Runs a script that need not be stored; its writes are discarded unless the trial keeps them.
    pub async fn try_script(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        trial: &ScriptTrial<'_>,
    ) -> Result<TrialReply> {
        self.0.script_runs.try_script(ctx, container, trial).await
    }

    /// Calls a function that need not be stored, with arguments that are JSON texts.
    pub async fn try_function(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        source: &str,
        arguments: &[String],
    ) -> Result<TrialReply> {
        self.0.script_runs.try_function(ctx, container, source, arguments).await
    }

    /// The kernel's confinement of script workers; none before the first worker was started.
    pub fn script_confinement(&self) -> Option<Confined> {
        self.0.script_runs.script_confinement()
    }

    /// Memory for a request with bodies of this total size, until it is dropped; `None` where they are small. A front
    /// end reserves it before it reads the bodies, and keeps it until they are written.
    pub async fn room_for(&self, ctx: &RequestContext, size_bytes: usize) -> Result<Option<Permit>> {
        self.0.script_runs.room_for(ctx, size_bytes).await
    }
}
