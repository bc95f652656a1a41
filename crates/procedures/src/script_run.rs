//! Runs stored procedures: one transaction of a logical partition, from the first call of the script to its end.
//!
//! Order of events: the partition's budget admits the script → the script gets the logical partition and a
//! worker, and the budget is checked once more → it runs → one commit, or nothing → its cost is settled.
//!
//! Three outcomes write nothing and are repeated: on the partition that has the logical partition now, if the
//! partition has moved; once more, if the worker was killed from outside; without foresight, if a foreseen
//! answer was wrong.

use std::sync::Arc;
use std::time::Duration;

use shardlake_model::{Error, ErrorKind, PartitionKey, ReplyMeta, RequestContext, Result, Script};
use shardlake_partition::LogicalKey;
use shardlake_script::{
    Completion, Invocation, Meter, Role, ScriptKey, ScriptLimits, Turn, is_misjudged, is_worker_lost,
};

use crate::ScriptRuns;
use crate::script_run_store::ScriptStore;
use shardlake_host::{Cost, OperationKind, Permit, Touched};
use shardlake_queries::ProcessorTab;
use shardlake_router::ContainerEntry;
use shardlake_router::ContainerHandle;
use shardlake_router::ContainerUsage;
use shardlake_router::PartitionHandle;
use shardlake_router::{key_of_read, partition_of};
use shardlake_router::{try_take_space, wait_for_space};

/// The result of a successful stored procedure.
#[derive(Debug, Clone)]
pub struct ProcedureReply {
    /// JSON text, where the script has set a body.
    pub body: Option<String>,
    /// The output of `console.log`, if it was to be kept.
    pub log: String,
    pub meta: ReplyMeta,
}

/// The script to run, and how.
struct Work<'a> {
    script: &'a Script,
    role: &'a Role<'a>,
    logs: bool,
    foresees: bool,
}

impl ScriptRuns {
    /// Runs a stored procedure on the logical partition that `key` names. `arguments` is the JSON of a list, as
    /// for [`Role::Procedure`]. Errors are `BadRequest` for errors of the script and `Forbidden` past its
    /// limits; nothing is written then.
    pub async fn execute_procedure(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        key: Option<&PartitionKey>,
        script: &Script,
        arguments: &str,
        logs: bool,
    ) -> Result<ProcedureReply> {
        let logical = key_of_read(container, key)?;
        let role = Role::Procedure { arguments };
        let mut routing = self.router().routing(container);
        loop {
            let partition = routing.owner(&logical);
            let touched = Touched::Logical(&logical);
            let mut permit = partition.hosted().admit(ctx, OperationKind::Write, touched)?;
            let key_of_script = (container.entry.record.container.rid, script.number);
            let foresees = self.0.foresight.may_foresee(key_of_script);
            let mut work = Work { script, role: &role, logs, foresees };
            let mut outcome = self.procedure_once(ctx, &routing.entry, &logical, &work, &mut permit).await;
            let was_misjudged = outcome.as_ref().is_err_and(is_misjudged);
            if was_misjudged {
                self.0.foresight.note_misjudged(key_of_script);
            }
            if was_misjudged || has_lost_worker(&outcome) {
                work.foresees = false;
                outcome = self.procedure_once(ctx, &routing.entry, &logical, &work, &mut permit).await;
            }
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
        work: &Work<'_>,
        permit: &mut Permit<'_>,
    ) -> Result<(ProcedureReply, Cost)> {
        let partition = partition_of(entry, logical);
        let place = (partition, logical);
        let mut run = self.begin_run(ctx, entry, place, work.script.number, permit).await?;
        run.foresees = work.foresees;
        let completion = run.script(work.script, work.role.clone(), work.logs).await;
        let (completion, cost, meta) = run.finish(completion).await?;
        Ok((ProcedureReply { body: completion.response_body, log: completion.log, meta }, cost))
    }

    /// `script` is the number of the run's first script, which determines the turn.
    pub async fn begin_run<'a>(
        &'a self,
        ctx: &RequestContext,
        entry: &'a Arc<ContainerEntry>,
        (partition, logical): (&PartitionHandle, &LogicalKey),
        script: u64,
        permit: &mut Permit<'_>,
    ) -> Result<ScriptRun<'a>> {
        partition.hosted().check_session(ctx)?;
        let key = ScriptKey { container: entry.record.container.rid, script };
        let tab = ProcessorTab::open(self.router(), ctx, entry, partition);
        let begin = || {
            partition.hosted().partition().begin(
                &entry.shape,
                self.items().command(ctx, 0),
                logical,
                self.router().clock(),
            )
        };
        let mut transaction = begin().await?;
        let space = ctx.answer_space.as_ref();
        let turn = self.0.scripts.try_turn(key, tab.meter());
        let turn = match turn.filter(|_| try_take_space(space)) {
            Some(turn) => turn,
            None => {
                // Other writers may use the logical partition while all workers are busy.
                drop(transaction);
                let turn = self.script_turn(ctx, key, tab.meter()).await?;
                transaction = begin().await?;
                turn
            }
        };
        partition.hosted().admit_again(ctx, permit)?;
        let is_asked = transaction.logical().partition_key.same(&logical.partition_key);
        debug_assert!(is_asked, "a run has the logical partition of its request");
        let limits = ScriptLimits::default();
        let store = ScriptStore::new(self, entry, transaction, ctx, limits.time);
        Ok(ScriptRun {
            store,
            turn,
            tab,
            limits,
            runs: 0,
            foresees: false,
            deadline: ctx.deadline,
            failed_log: String::new(),
        })
    }

    /// Waits for a worker, within the time of the request.
    async fn script_turn(&self, ctx: &RequestContext, key: ScriptKey, meter: Meter) -> Result<Turn> {
        let left = || ctx.deadline.saturating_sub(self.router().clock().elapsed());
        let space = ctx.answer_space.as_ref();
        loop {
            wait_for_space(space, left()).await?;
            let turn = self.0.scripts.turn(key, meter.clone());
            let turn = tokio::time::timeout(left(), turn).await.unwrap_or_else(|_| {
                Err(Error::new(
                    ErrorKind::Timeout,
                    "other scripts kept all workers busy for as long as the request could wait: nothing was done, retry",
                ))
            })?;
            if try_take_space(space) {
                return Ok(turn);
            }
        }
    }
}

/// Whether a worker was killed from outside. Its work may be repeated: its transaction was aborted.
pub fn has_lost_worker<T>(outcome: &Result<T>) -> bool {
    outcome.as_ref().is_err_and(is_worker_lost)
}

/// A transaction, and its scripts.
pub struct ScriptRun<'a> {
    pub store: ScriptStore<'a>,
    /// The turn of all its scripts.
    turn: Turn,
    /// Dropped after the turn, which adds the processor time of an aborted run.
    tab: ProcessorTab,
    limits: ScriptLimits,
    runs: u64,
    /// Answers may be foreseen: the caller handles misjudged runs.
    foresees: bool,
    /// The deadline of the request.
    deadline: Duration,
    /// The output of the last script, if it failed.
    pub failed_log: String,
}

impl ScriptRun<'_> {
    /// Runs one script. After an error the transaction must be aborted.
    pub async fn script(&mut self, script: &Script, role: Role<'_>, logs: bool) -> Result<Completion> {
        let (runs, entry) = (self.store.runs, self.store.entry);
        self.runs += 1;
        let left = self.deadline.saturating_sub(runs.router().clock().elapsed());
        let usage = entry.usage().text();
        let invocation = Invocation {
            name: &script.id,
            source: &script.body,
            role,
            self_link: entry.self_link(),
            alt_link: entry.alt_link(),
            usage: &usage,
            quota: ContainerUsage::QUOTA_TEXT,
            logs,
            foresees: self.foresees,
            limits: ScriptLimits { time: self.limits.time.min(left), ..self.limits },
        };
        let log = &mut self.failed_log;
        let run = runs.0.scripts.run_logged(&self.turn, invocation, &mut self.store, log);
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

    /// Aborts the transaction and returns the run's cost.
    pub async fn give_up(self) -> Result<Cost> {
        let cost = self.cost();
        drop(self.turn);
        self.store.transaction.end().await?;
        self.tab.paid();
        Ok(cost)
    }

    fn cost(&self) -> Cost {
        let store = &self.store;
        let charge_centi = store.entry.shape.charges.script_run().0 * self.runs + store.spent_centi;
        Cost {
            charge_centi: charge_centi + self.tab.surcharge_centi(charge_centi),
            size_bytes: store.size_bytes,
            creates: store.creates,
        }
    }

    /// Commits or aborts, depending on the outcome of the work.
    pub async fn finish<T>(self, outcome: Result<T>) -> Result<(T, Cost, ReplyMeta)> {
        let cost = self.cost();
        // The commit needs no worker.
        drop(self.turn);
        let transaction = self.store.transaction;
        let partition = transaction.partition().clone();
        let with_charge = |mut error: Error| {
            *error.meta_mut() = partition.meta(cost.charge_centi, 0);
            error
        };
        match outcome {
            Ok(value) => {
                let committed = transaction.commit().await.map_err(with_charge);
                self.tab.paid();
                let meta = committed?;
                Ok((value, cost, ReplyMeta { charge_centi: cost.charge_centi, ..meta }))
            }
            Err(error) => {
                transaction.end().await?;
                self.tab.paid();
                Err(with_charge(error))
            }
        }
    }
}
