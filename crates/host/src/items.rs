//! Commands on the items of one logical partition.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use shardlake_model::{Preconditions, ReplyMeta, RequestContext, Result};
use shardlake_mql::TimeTest;
use shardlake_partition::{
    BatchReply, ContainerSchema, ItemReply, LogicalKey, Operation, Outcome, PartitionWrite,
};

use crate::admission::{Cost, OperationKind, Touched};
use crate::command::Command;
use crate::hosted::Hosted;
use crate::travel::{Travels, WriteForm, travels_as_itself};

travels_as_itself!(ReadItem, FindOrdinal, CheckSession, DeleteKey);

/// A point read.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ReadItem {
    pub key: LogicalKey,
    pub id: String,
    pub preconditions: Preconditions,
}

impl Command for ReadItem {
    type Reply = ItemReply;

    async fn run(&self, at: &Hosted, ctx: &RequestContext) -> Result<ItemReply> {
        at.check_session(ctx)?;
        let permit = at.admit(ctx, OperationKind::Read, Touched::Logical(&self.key))?;
        let ReadItem { key, id, preconditions } = self;
        let outcome = at.partition().read(at.schema(), &at.reading(ctx), key, id, preconditions).await;
        permit.settle_outcome(&outcome, cost_of_item);
        outcome
    }
}

/// A write of one item. Shared, since a heavy one is planned on another thread.
#[derive(Debug, Clone)]
pub struct WriteItem(pub Arc<PartitionWrite>);

impl Travels for WriteItem {
    type Form = WriteForm;

    fn form(&self) -> WriteForm {
        self.0.form()
    }

    fn of_form(form: WriteForm, schema: &Arc<ContainerSchema>) -> Result<WriteItem> {
        Travels::of_form(form, schema).map(WriteItem)
    }
}

impl Command for WriteItem {
    type Reply = ItemReply;

    async fn run(&self, at: &Hosted, ctx: &RequestContext) -> Result<ItemReply> {
        let permit = at.admit(ctx, OperationKind::Write, Touched::Logical(&self.0.key))?;
        let outcome = at.partition().write(at.schema(), &self.0).await;
        permit.settle_outcome(&outcome, cost_of_item);
        outcome
    }

    fn arrive(&mut self, at: &Hosted, ctx: &RequestContext) {
        arrive(&mut self.0, at, ctx);
    }
}

/// Operations on one logical partition as one transaction.
#[derive(Debug, Clone)]
pub struct WriteBatch(pub Arc<PartitionWrite>);

impl Travels for WriteBatch {
    type Form = WriteForm;

    fn form(&self) -> WriteForm {
        self.0.form()
    }

    fn of_form(form: WriteForm, schema: &Arc<ContainerSchema>) -> Result<WriteBatch> {
        Travels::of_form(form, schema).map(WriteBatch)
    }
}

impl Command for WriteBatch {
    type Reply = BatchReply;

    async fn run(&self, at: &Hosted, ctx: &RequestContext) -> Result<BatchReply> {
        let permit = at.admit(ctx, OperationKind::Write, Touched::Logical(&self.0.key))?;
        let outcome = at.partition().execute(at.schema(), &self.0).await;
        permit.settle_outcome(&outcome, cost_of_batch);
        outcome
    }

    fn arrive(&mut self, at: &Hosted, ctx: &RequestContext) {
        arrive(&mut self.0, at, ctx);
    }
}

/// The id of the item with an ordinal, if there is one in the logical partition.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FindOrdinal {
    pub key: LogicalKey,
    pub ordinal: u64,
}

impl Command for FindOrdinal {
    type Reply = Option<String>;

    async fn run(&self, at: &Hosted, _: &RequestContext) -> Result<Option<String>> {
        at.partition().id_of_ordinal(&self.key, self.ordinal).await
    }
}

/// Refuses to read behind the session's position.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct CheckSession;

impl Command for CheckSession {
    type Reply = ();

    async fn run(&self, at: &Hosted, ctx: &RequestContext) -> Result<()> {
        at.check_session(ctx)
    }
}

/// Deletes every item of a logical partition.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DeleteKey(pub LogicalKey);

impl Command for DeleteKey {
    type Reply = ReplyMeta;

    async fn run(&self, at: &Hosted, ctx: &RequestContext) -> Result<ReplyMeta> {
        let permit = at.admit(ctx, OperationKind::Write, Touched::Logical(&self.0))?;
        let outcome = at.partition().delete_logical_partition(at.schema(), &at.reading(ctx), &self.0).await;
        let cost = |(_, meta): &(u64, ReplyMeta)| Cost { charge_centi: meta.charge_centi, ..Cost::default() };
        permit.settle_outcome(&outcome, cost);
        outcome.map(|(_, meta)| meta)
    }
}

/// The cost of an operation on one item.
pub fn cost_of_item(reply: &ItemReply) -> Cost {
    let size_bytes = reply.item.as_ref().map_or(0, |item| item.json_size_bytes() as u64);
    Cost { charge_centi: reply.meta.charge_centi, size_bytes, creates: reply.outcome == Outcome::Created }
}

fn cost_of_batch(reply: &BatchReply) -> Cost {
    let replies = || reply.outcome.iter().flatten();
    let sizes = replies().filter_map(|reply| reply.item.as_ref()).map(|item| item.json_size_bytes() as u64);
    Cost {
        charge_centi: reply.meta.charge_centi,
        size_bytes: sizes.sum(),
        creates: replies().any(|reply| reply.outcome == Outcome::Created),
    }
}

fn arrive(write: &mut Arc<PartitionWrite>, at: &Hosted, ctx: &RequestContext) {
    for operation in &mut Arc::make_mut(write).operations {
        if let Operation::Change { change, .. } = operation {
            let (clock, deadline) = (at.clock().clone(), ctx.deadline);
            let env = &mut Arc::make_mut(change).env;
            env.set_time(TimeTest::new(move || clock.elapsed() > deadline));
            env.set_latest_timestamp(at.latest_timestamp());
        }
    }
}
