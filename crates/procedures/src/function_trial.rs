//! Trial of a user-defined function: one call with given arguments, which reads and writes nothing.
//!
//! It uses a turn and a worker like the calls of a query. The first partition's budget pays for it, because a
//! function belongs to no partition key: the price of one run of a script, or of its processor time if that
//! is higher.

use std::sync::Arc;

use shardlake_host::{Cost, OperationKind, Touched};
use shardlake_model::{Error, ErrorKind, RequestContext, Result};
use shardlake_queries::ProcessorTab;
use shardlake_router::{ContainerEntry, ContainerHandle, PartitionHandle};
use shardlake_script::{ScriptKey, ScriptLimits, Turn, is_worker_lost};

use crate::ScriptRuns;
use crate::trial::TrialReply;

/// The name of the function in errors.
const NAME: &str = "trial";

/// The outcome of one call: its result as JSON text, `None` for undefined.
type Called = Result<Option<String>>;

impl ScriptRuns {
    /// `arguments` are JSON texts, in the order of the function's parameters.
    pub async fn try_function(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        source: &str,
        arguments: &[String],
    ) -> Result<TrialReply> {
        let mut routing = self.router().routing(container);
        loop {
            let entry = routing.entry.clone();
            let partition = entry.map.iter().next().expect("partitions cover the hash space").clone();
            let mut outcome = self.function_once(ctx, (&entry, &partition), source, arguments).await;
            if matches!(&outcome, Ok(TrialReply { outcome: Err(error), .. }) if is_worker_lost(error)) {
                outcome = self.function_once(ctx, (&entry, &partition), source, arguments).await;
            }
            if !routing.has_moved(&outcome).await? {
                return outcome;
            }
        }
    }

    async fn function_once(
        &self,
        ctx: &RequestContext,
        (entry, partition): (&Arc<ContainerEntry>, &PartitionHandle),
        source: &str,
        arguments: &[String],
    ) -> Result<TrialReply> {
        let touched = Touched::Span(partition.epk_range());
        let mut permit = partition.hosted().admit(ctx, OperationKind::Query, touched)?;
        let tab = ProcessorTab::open(self.router(), ctx, entry, partition);
        let left = ctx.deadline.saturating_sub(self.router().clock().elapsed());
        let key = ScriptKey { container: entry.record.container.rid, script: 0 };
        let turn = self.0.scripts.function_turn(key, tab.meter());
        let turn = tokio::time::timeout(left, turn).await.map_err(|_| no_turn())??;
        partition.hosted().admit_again(ctx, &mut permit)?;
        let outcome = self.called(ctx, turn, source, arguments).await?;
        let charge_centi = entry.shape.charges.script_run().0;
        let charge_centi = charge_centi + tab.surcharge_centi(charge_centi);
        tab.paid();
        permit.settle(Cost { charge_centi, ..Cost::default() });
        Ok(TrialReply { outcome, log: String::new(), writes: Vec::new(), committed: false, charge_centi })
    }

    /// Calls block, so they run on the blocking pool.
    async fn called(
        &self,
        ctx: &RequestContext,
        turn: Turn,
        source: &str,
        arguments: &[String],
    ) -> Result<Called> {
        let limits = ScriptLimits::default();
        let left = ctx.deadline.saturating_sub(self.router().clock().elapsed());
        let limits = ScriptLimits { time: limits.time.min(left), ..limits };
        let (scripts, source) = (self.0.scripts.clone(), source.to_owned());
        let row: Vec<Option<String>> = arguments.iter().cloned().map(Some).collect();
        let call = move || -> Called {
            let mut functions = scripts.functions(&turn, &[(NAME, &source)], limits)?;
            let mut results = functions.call(NAME, &[row], limits.time)?;
            Ok(results.pop().flatten())
        };
        let called = tokio::task::spawn_blocking(call).await;
        called.map_err(|error| Error::internal(format!("the thread of a function failed: {error}")))
    }
}

fn no_turn() -> Error {
    let words =
        "other scripts kept all workers busy for as long as the request could wait: nothing was done, retry";
    Error::new(ErrorKind::Timeout, words)
}
