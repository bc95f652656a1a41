//! One attempt at a batch: run, check the writes, commit.

use shardlake_model::{Error, ErrorKind, Result};
use shardlake_script::changes::ChangesOutcome;

use crate::at_work::FunctionAtWork;
use crate::batch::{Batch, Given};
use crate::commits::{Committed, Progress, commit};
use crate::letters::{self, Letter};
use crate::reads::is_passing;
use crate::run::{Ran, RunWants, run};
use crate::writes::planned;

/// The end of an attempt.
#[derive(Debug)]
pub(crate) enum Attempt {
    Done {
        charge_centi: u64,
    },
    /// The function's own failure, or one of its data.
    Failed {
        error: Error,
        charge_centi: u64,
    },
}

impl Attempt {
    pub fn charge_centi(&self) -> u64 {
        match self {
            Attempt::Done { charge_centi } | Attempt::Failed { charge_centi, .. } => *charge_centi,
        }
    }
}

/// Whether another attempt with fresh reads may succeed.
pub(crate) fn is_condition(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Conflict | ErrorKind::PreconditionFailed)
}

/// Works on some changes of a batch, up to its end. Errors pass by themselves.
pub(crate) async fn attempt(
    at: &FunctionAtWork<'_>,
    progress: &Progress,
    (batch, changes): (&Batch, &[&Given]),
    number: u32,
) -> Result<Attempt> {
    let wants = RunWants { attempt: number, code: &at.record.definition.code, keeps_reads: false };
    let Ran { outcome, charge_centi, .. } = run(at, changes.iter().copied(), wants).await?;
    at.entry.status.live().runs += 1;
    let place = (number, batch.upto);
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(error) => {
            at.entry.status.live().failed_runs += 1;
            at.log(place, [format!("error: {}", error.message())]);
            return Ok(Attempt::Failed { error, charge_centi });
        }
    };
    at.log(place, outcome.log.iter().cloned());
    let committed = match write(at, progress, (batch, changes), outcome, number).await {
        Err(error) if is_passing(&error) => return Err(error),
        Err(error) => {
            at.entry.status.live().failed_runs += 1;
            at.log(place, [format!("error: {}", error.message())]);
            return Ok(Attempt::Failed { error, charge_centi });
        }
        Ok(committed) => committed,
    };
    let counts = &mut at.entry.status.live().checkpoint.counts;
    counts.changes += changes.len() as u64;
    counts.applied += committed.writes;
    Ok(Attempt::Done { charge_centi: charge_centi + committed.charge_centi })
}

async fn write(
    at: &FunctionAtWork<'_>,
    progress: &Progress,
    (batch, changes): (&Batch, &[&Given]),
    outcome: ChangesOutcome,
    number: u32,
) -> Result<Committed> {
    let writes = planned(at, outcome.writes).await?;
    for (place, reason) in &outcome.letters {
        let Some(change) = changes.get(*place as usize) else { continue };
        letters::send(at, Letter { change, reason, attempts: number }).await?;
    }
    commit(at, progress, (&batch.span, batch.upto), writes).await
}

/// The changes among several of one commit that fail alone, with their errors: found by runs whose writes are discarded.
pub(crate) async fn failing<'g>(
    at: &FunctionAtWork<'_>,
    changes: &[&'g Given],
    attempts: u32,
) -> Result<Vec<(&'g Given, Error)>> {
    let (mut open, mut found) = (vec![changes], Vec::new());
    while let Some(part) = open.pop() {
        let tries = if part.len() == 1 { attempts } else { 1 };
        let mut failed = None;
        for number in 1..=tries {
            if at.is_interrupted() {
                return Err(Error::new(
                    ErrorKind::Unavailable,
                    "the function was interrupted: it continues later",
                ));
            }
            failed = dry_run(at, part, number).await?;
            if failed.is_none() {
                break;
            }
        }
        match (failed, part) {
            (None, _) | (Some(_), []) => {}
            (Some(error), [change]) => found.push((*change, error)),
            (Some(_), several) => {
                let (first, second) = several.split_at(several.len() / 2);
                open.extend([second, first]);
            }
        }
    }
    Ok(found)
}

/// The function's error for some changes, if there is one. Nothing is written.
async fn dry_run(at: &FunctionAtWork<'_>, changes: &[&Given], number: u32) -> Result<Option<Error>> {
    let wants = RunWants { attempt: number, code: &at.record.definition.code, keeps_reads: false };
    let ran = run(at, changes.iter().copied(), wants).await?;
    at.entry.status.live().runs += 1;
    let planned = match ran.outcome {
        Ok(outcome) => planned(at, outcome.writes).await.map(drop),
        Err(error) => Err(error),
    };
    match planned {
        Err(error) if is_passing(&error) => Err(error),
        planned => Ok(planned.err()),
    }
}
