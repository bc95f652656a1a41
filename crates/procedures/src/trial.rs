//! Trial of a script that is not stored, or not in this form: it runs as usual, and its writes are discarded
//! unless they are to be kept.
//!
//! A failure of the script is an outcome of the trial like any other, reported with the script's output so
//! far. Errors mean that the trial could not take place: no such key, no request units, no worker. A trigger
//! after a write needs that write: it is the first step of the trial's transaction, and it is discarded with
//! the rest. Functions are tried in `function_trial.rs`.

use shardlake_host::{Cost, OperationKind, Touched};
use shardlake_model::{
    Error, ErrorKind, PartitionKey, Preconditions, RequestContext, Result, Script, ScriptKind,
    TriggerOperation,
};
use shardlake_partition::Operation;
use shardlake_router::{ContainerHandle, key_of_read};
use shardlake_script::{Completion, Role};

use crate::ScriptRuns;
use crate::script_run::ScriptRun;
use crate::script_run_store::{ScriptedWrite, json_of};

/// The name in errors of a script without a name.
const NAME: &str = "trial";

#[derive(Debug, Clone)]
pub struct ScriptTrial<'a> {
    pub role: TrialRole<'a>,
    /// The text of one JavaScript function.
    pub source: &'a str,
    pub key: Option<&'a PartitionKey>,
    /// Whether its writes are kept.
    pub commits: bool,
}

/// Bodies are JSON text.
#[derive(Debug, Clone)]
pub enum TrialRole<'a> {
    /// `arguments` is a JSON array.
    Procedure { arguments: &'a str },
    /// Before a write with this body; the result is the body as the trigger changed it.
    PreTrigger { operation: TriggerOperation, request_body: Option<&'a str> },
    /// After that write; the result is the response's body as the trigger changed it.
    PostTrigger { operation: TriggerOperation, write: TrialWrite<'a> },
}

/// The write that a trigger follows.
#[derive(Debug, Clone, Copy)]
pub enum TrialWrite<'a> {
    /// The body of a create, a replace or an upsert.
    Body(&'a str),
    /// The id of an item that is deleted.
    Id(&'a str),
}

#[derive(Debug)]
pub struct TrialReply {
    /// JSON text: the response's body, or the request's after a pre-trigger; or the script's failure.
    pub outcome: Result<Option<String>>,
    pub log: String,
    /// At most a thousand writes.
    pub writes: Vec<ScriptedWrite>,
    pub committed: bool,
    pub charge_centi: u64,
}

impl ScriptRuns {
    pub async fn try_script(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        trial: &ScriptTrial<'_>,
    ) -> Result<TrialReply> {
        let logical = key_of_read(container, trial.key)?;
        let script = Script {
            kind: ScriptKind::Procedure,
            id: NAME.into(),
            number: 0,
            etag: [0; 16],
            timestamp: 0,
            body: trial.source.to_owned(),
            trigger: None,
            spelling: None,
        };
        let mut routing = self.router().routing(container);
        loop {
            let partition = routing.owner(&logical).clone();
            let touched = Touched::Logical(&logical);
            let entry = routing.entry.clone();
            let mut permit = partition.hosted().admit(ctx, OperationKind::Write, touched)?;
            let outcome = async {
                let mut run =
                    self.begin_run(ctx, &entry, (&partition, &logical), script.number, &mut permit).await?;
                run.store.writes = Some(Vec::new());
                let completed = trial.run(&mut run, &script).await;
                trial.ended(run, completed).await
            };
            let outcome = outcome.await;
            permit.settle_outcome(&outcome, |(_, cost)| *cost);
            if !routing.has_moved(&outcome).await? {
                return outcome.map(|(reply, _)| reply);
            }
        }
    }
}

impl ScriptTrial<'_> {
    async fn run(&self, run: &mut ScriptRun<'_>, script: &Script) -> Result<Completion> {
        let role = match self.role {
            TrialRole::Procedure { arguments } => Role::Procedure { arguments },
            TrialRole::PreTrigger { operation, request_body } => Role::PreTrigger { operation, request_body },
            TrialRole::PostTrigger { operation, ref write } => {
                return run_after(run, script, operation, *write).await;
            }
        };
        run.script(script, role, true).await
    }

    /// Commits or aborts, depending on the purpose of the trial and the script's outcome.
    async fn ended(
        &self,
        mut run: ScriptRun<'_>,
        completed: Result<Completion>,
    ) -> Result<(TrialReply, Cost)> {
        let writes = run.store.writes.take().unwrap_or_default();
        let failed_log = std::mem::take(&mut run.failed_log);
        let is_of_the_script = |error: &Error| {
            matches!(error.kind(), ErrorKind::BadRequest | ErrorKind::Forbidden | ErrorKind::TooLarge)
        };
        let (outcome, log, committed, cost) = match completed {
            Ok(completion) if self.commits => {
                let (completion, cost, _) = run.finish(Ok(completion)).await?;
                let log = completion.log.clone();
                (Ok(self.result_of(completion)), log, true, cost)
            }
            Ok(completion) => {
                let log = completion.log.clone();
                (Ok(self.result_of(completion)), log, false, run.give_up().await?)
            }
            Err(error) if is_of_the_script(&error) => (Err(error), failed_log, false, run.give_up().await?),
            Err(error) => return run.finish(Err(error)).await.map(|(never, ..)| never),
        };
        let charge_centi = cost.charge_centi;
        Ok((TrialReply { outcome, log, writes, committed, charge_centi }, cost))
    }

    fn result_of(&self, completion: Completion) -> Option<String> {
        match self.role {
            TrialRole::Procedure { .. } | TrialRole::PostTrigger { .. } => completion.response_body,
            TrialRole::PreTrigger { .. } => completion.request_body,
        }
    }
}

/// The write first, then the trigger, which sees the answer of the write.
async fn run_after(
    run: &mut ScriptRun<'_>,
    script: &Script,
    operation: TriggerOperation,
    write: TrialWrite<'_>,
) -> Result<Completion> {
    let planned = planned(run, operation, write).await?;
    let request_body = match write {
        TrialWrite::Body(text) => Some(text.to_owned()),
        TrialWrite::Id(id) => run.store.version_of(id.to_owned()).await?.as_ref().map(json_of).transpose()?,
    };
    let reply = run.store.execute(&planned).await?;
    let response_body = reply.item.as_ref().map(json_of).transpose()?;
    let (request_body, response_body) = (request_body.as_deref(), response_body.as_deref());
    run.script(script, Role::PostTrigger { operation, request_body, response_body }, true).await
}

/// The write as a step of the trial's transaction.
async fn planned(
    run: &ScriptRun<'_>,
    operation: TriggerOperation,
    write: TrialWrite<'_>,
) -> Result<Operation> {
    let preconditions = Preconditions::default();
    let text = match (operation, write) {
        (TriggerOperation::Delete, TrialWrite::Id(id)) => {
            return Ok(Operation::Delete { id: id.to_owned(), preconditions });
        }
        (_, TrialWrite::Body(text)) if operation != TriggerOperation::Delete => text,
        _ => return Err(Error::bad_request("a delete names the id of an item, other writes have a body")),
    };
    let item = run.store.prepared(text).await?;
    match operation {
        TriggerOperation::Create => Ok(Operation::Create { item }),
        TriggerOperation::Upsert => Ok(Operation::Upsert { item, preconditions }),
        TriggerOperation::Replace => Ok(Operation::Replace { id: item.id.clone(), item, preconditions }),
        other => {
            Err(Error::bad_request(format!("a trigger is tried at one write, and {other:?} is not one")))
        }
    }
}
