//! Runs stored procedures: one transaction of a logical partition, from the first call of the script to its end.
//!
//! Order of events: the partition's budget lets the script in → the logical partition is the script's → it runs → one commit,
//! or nothing → what it cost is settled. Where the partition turns out to have moved, nothing was written, and everything is
//! done again on the one that has the logical partition now.

use std::sync::Arc;
use std::time::Duration;

use shardlake_model::{Error, ErrorKind, ReplyMeta, RequestContext, Result, Script};
use shardlake_partition::{LogicalKey, Partition};
use shardlake_script::{Completion, Invocation, Role, ScriptLimits, Turn};

use crate::container_handle::ContainerEntry;
use crate::items::check_session;
use crate::keys::{key_of_read, partition_of};
use crate::script_run_store::ScriptStore;
use crate::serving::{Cost, OperationKind, Touched};
use crate::{Account, ContainerHandle, KeyInput};

/// What a stored procedure that ended well came to.
#[derive(Debug, Clone)]
pub struct ProcedureReply {
    /// JSON text, where the script has set a body.
    pub body: Option<String>,
    /// What `console.log` printed, if it was to be kept.
    pub log: String,
    pub meta: ReplyMeta,
}

impl Account {
    /// Runs a stored procedure on the logical partition that `key` names. `arguments` is the text of a JSON array. Errors
    /// are `BadRequest` for what the script throws and `Forbidden` past its limits; nothing is written then.
    pub async fn execute_procedure(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        key: Option<KeyInput<'_>>,
        script: &Script,
        arguments: &str,
        logs: bool,
    ) -> Result<ProcedureReply> {
        let logical = key_of_read(container, key)?;
        let role = Role::Procedure { arguments };
        let mut routing = self.routing(container);
        loop {
            let partition = routing.owner(&logical);
            let touched = Touched::Logical(&logical);
            let permit = self.admit(ctx, &routing.entry, partition, OperationKind::Write, touched)?;
            let outcome = self.procedure_once(ctx, &routing.entry, &logical, script, &role, logs).await;
            permit.settle_outcome(&outcome, |(_, cost)| *cost);
            if !routing.has_moved(&outcome).await? {
                return outcome.map(|(reply, _)| reply);
            }
        }
    }

    async fn procedure_once(
        &self,
        ctx: &RequestContext,
        entry: &Arc<ContainerEntry>,
        logical: &LogicalKey,
        script: &Script,
        role: &Role<'_>,
        logs: bool,
    ) -> Result<(ProcedureReply, Cost)> {
        let partition = partition_of(entry, logical);
        let mut run = self.begin_run(ctx, entry, partition, logical).await?;
        let completion = run.script(script, role.clone(), logs).await;
        let (completion, cost, meta) = run.finish(completion).await?;
        Ok((ProcedureReply { body: completion.response_body, log: completion.log, meta }, cost))
    }

    pub(crate) async fn begin_run<'a>(
        &'a self,
        ctx: &RequestContext,
        entry: &'a Arc<ContainerEntry>,
        partition: &Arc<Partition>,
        logical: &LogicalKey,
    ) -> Result<ScriptRun<'a>> {
        check_session(ctx, entry, partition)?;
        let begin = || partition.begin(&entry.shape, self.command(ctx, 0), logical, self.clock());
        let mut transaction = begin().await?;
        let turn = match self.0.scripts.try_turn() {
            Some(turn) => turn,
            None => {
                // Others may write to the logical partition while all workers are busy elsewhere.
                drop(transaction);
                let turn = self.script_turn(ctx).await?;
                transaction = begin().await?;
                turn
            }
        };
        let limits = ScriptLimits::default();
        let store = ScriptStore::new(self, entry, transaction, ctx, limits.time);
        Ok(ScriptRun { store, turn, limits, runs: 0, deadline: ctx.deadline })
    }

    /// Waits for a worker, no longer than the request may.
    async fn script_turn(&self, ctx: &RequestContext) -> Result<Turn> {
        let left = ctx.deadline.saturating_sub(self.clock().elapsed());
        tokio::time::timeout(left, self.0.scripts.turn()).await.unwrap_or_else(|_| {
            Err(Error::new(
                ErrorKind::Timeout,
                "other scripts kept all workers busy for as long as the request could wait: nothing was done, retry",
            ))
        })
    }
}

/// A transaction, and the scripts that work in it.
pub(crate) struct ScriptRun<'a> {
    pub store: ScriptStore<'a>,
    /// Of all its scripts.
    turn: Turn,
    limits: ScriptLimits,
    runs: u64,
    /// The request's.
    deadline: Duration,
}

impl ScriptRun<'_> {
    /// Runs one script. After an error the transaction is to be given up.
    pub async fn script(&mut self, script: &Script, role: Role<'_>, logs: bool) -> Result<Completion> {
        let (account, entry) = (self.store.account, self.store.entry);
        self.runs += 1;
        let left = self.deadline.saturating_sub(account.clock().elapsed());
        let invocation = Invocation {
            name: &script.id,
            source: &script.body,
            role,
            self_link: entry.self_link(),
            alt_link: entry.alt_link(),
            logs,
            limits: ScriptLimits { time: self.limits.time.min(left), ..self.limits },
        };
        let run = account.0.scripts.run_in(&self.turn, invocation, &mut self.store);
        let outcome = tokio::time::timeout(left, run).await;
        let outcome = outcome.unwrap_or_else(|_| {
            Err(Error::new(
                ErrorKind::Timeout,
                format!("the script '{}' did not end within the time of its request", script.id),
            ))
        });
        match self.store.take_fatal() {
            Some(fatal) => Err(fatal),
            None => outcome,
        }
    }

    fn cost(&self) -> Cost {
        let store = &self.store;
        let of_runs = store.entry.shape.charges.script_run().0 * self.runs;
        Cost {
            charge_centi: of_runs + store.spent_centi,
            size_bytes: store.size_bytes,
            creates: store.creates,
        }
    }

    /// Commits, or gives everything up, by how the work in the transaction ended.
    pub async fn finish<T>(self, outcome: Result<T>) -> Result<(T, Cost, ReplyMeta)> {
        let cost = self.cost();
        // What comes now needs no worker.
        drop(self.turn);
        let transaction = self.store.transaction;
        let partition = transaction.partition().clone();
        let with_charge = |mut error: Error| {
            *error.meta_mut() = partition.meta(cost.charge_centi, 0);
            error
        };
        match outcome {
            Ok(value) => {
                let meta = transaction.commit().await.map_err(with_charge)?;
                Ok((value, cost, ReplyMeta { charge_centi: cost.charge_centi, ..meta }))
            }
            Err(error) => {
                transaction.end().await?;
                Err(with_charge(error))
            }
        }
    }
}
