//! One run of a function over changes: its reads happen now, its writes are returned.

use std::time::Duration;

use shardlake_model::{Error, Result};
use shardlake_script::changes::{ChangesInvocation, ChangesOutcome, FunctionContainer};
use shardlake_script::{ScriptKey, ScriptLimits};

use crate::at_work::FunctionAtWork;
use crate::batch::{Given, array_of};
use crate::reads::{FunctionAsked, Reads};

/// Distinguishes functions from the scripts of their source, which have numbers from 1.
const FUNCTION_KEYS: u64 = 1 << 63;
/// Processor time of a run that costs nothing.
const FREE_MS: u64 = 10;
const CENTI_OF_MS: u64 = 100;

/// The end of a run.
#[derive(Debug)]
pub(crate) struct Ran {
    pub outcome: Result<ChangesOutcome>,
    pub charge_centi: u64,
    /// Reads, for a trial.
    pub reads: Vec<FunctionAsked>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct RunWants<'a> {
    pub attempt: u32,
    pub code: &'a str,
    pub keeps_reads: bool,
}

/// Runs the code. Errors of the outcome are the function's own; other errors pass.
pub(crate) async fn run<'g>(
    at: &FunctionAtWork<'_>,
    changes: impl IntoIterator<Item = &'g Given>,
    wants: RunWants<'_>,
) -> Result<Ran> {
    let record = at.record;
    let containers: Vec<FunctionContainer<'_>> = at
        .access
        .iter()
        .map(|accessed| FunctionContainer {
            name: &accessed.name,
            key_paths: &accessed.key_paths,
            may_write: accessed.may_write,
        })
        .collect();
    let changes = array_of(changes);
    let time = Duration::from_secs(u64::from(record.definition.timeout_seconds));
    let invocation = ChangesInvocation {
        name: &record.definition.id,
        version: record.version,
        attempt: wants.attempt,
        source: wants.code,
        changes: &changes,
        containers: &containers,
        limits: ScriptLimits { time, ..ScriptLimits::default() },
    };
    let key = ScriptKey { container: record.source, script: FUNCTION_KEYS | u64::from(record.number) };
    let mut reads = Reads::new(at);
    reads.kept = wants.keeps_reads.then(Vec::new);
    let outcome = at.functions.0.scripts.run_changes(key, &invocation, &mut reads).await;
    let Reads { spent_centi, fatal, kept, .. } = reads;
    if let Some(fatal) = fatal {
        return Err(fatal);
    }
    let outcome = match outcome {
        Err(error) if is_passing_run(&error) => return Err(error),
        outcome => outcome,
    };
    let processor_ms = outcome.as_ref().map_or(0, |outcome| outcome.processor_ms);
    let charge_centi = spent_centi + processor_ms.saturating_sub(FREE_MS) * CENTI_OF_MS;
    Ok(Ran { outcome, charge_centi, reads: kept.unwrap_or_default() })
}

/// No worker was free, or it was killed from outside.
fn is_passing_run(error: &Error) -> bool {
    shardlake_script::is_worker_lost(error) || crate::reads::is_passing(error)
}
