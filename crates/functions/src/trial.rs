//! Trials: a run on the last changes of the source, whose writes are shown and discarded.

use std::time::Duration;

use shardlake_model::{Error, ErrorKind, Result};
use shardlake_partition::Images;
use shardlake_script::changes::FunctionWriteOrder;

use crate::at_work::FunctionAtWork;
use crate::batch::{Given, given};
use crate::reads::FunctionAsked;
use crate::run::{Ran, RunWants, run};
use crate::writes::planned;
use crate::{Functions, no_such};

/// Changes of one trial.
pub const TRIAL_CHANGES_MAX: u32 = 1000;
/// Commits of one partition that are looked at for them.
const COMMITS_MAX: u64 = 50_000;

/// A trial of a function.
#[derive(Debug)]
pub struct FunctionTrial {
    /// The changes that the function was given, as JSON texts.
    pub changes: Vec<String>,
    /// The function's failure, or a refusal of one of its writes.
    pub failure: Option<Error>,
    pub writes: Vec<FunctionWriteOrder>,
    /// Places of changes that it gave up, and the reasons.
    pub letters: Vec<(u32, String)>,
    pub reads: Vec<FunctionAsked>,
    pub log: Vec<String>,
    pub charge_centi: u64,
    pub time: Duration,
}

impl Functions {
    /// Runs a function, or another code in its place, on the last changes that it would be given. Writes nothing.
    pub async fn try_last(&self, id: &str, code: Option<&str>, last: u32) -> Result<FunctionTrial> {
        if !(1..=TRIAL_CHANGES_MAX).contains(&last) {
            return Err(Error::bad_request(format!("'last' is 1 to {TRIAL_CHANGES_MAX}, not {last}")));
        }
        let live = self.router().live_catalog();
        let record = live.definitions.function(id).ok_or_else(|| no_such(id))?;
        if let Some(reason) = self.gone(record) {
            return Err(Error::new(ErrorKind::Conflict, reason));
        }
        let entry = self.entries().into_iter().find(|entry| entry.number == record.number);
        let entry = entry.ok_or_else(|| no_such(id))?;
        let code = code.unwrap_or(&record.definition.code);
        let checked = self.0.scripts.check(record.source, code).await;
        checked.map_err(|error| Error::new(error.kind(), format!("'code': {}", error.message())))?;
        let at = FunctionAtWork::new(self, &entry, record)?;
        let changes = last_changes(&at, last as usize).await?;
        let began = self.router().clock().elapsed();
        let ran = run(&at, &changes, RunWants { attempt: 1, code, keeps_reads: true }).await?;
        let time = self.router().clock().elapsed().saturating_sub(began);
        trial_of(&at, changes, ran, time).await
    }
}

async fn trial_of(
    at: &FunctionAtWork<'_>,
    changes: Vec<Given>,
    ran: Ran,
    time: Duration,
) -> Result<FunctionTrial> {
    let Ran { outcome, charge_centi, reads } = ran;
    let changes = changes.into_iter().map(|given| given.text).collect();
    let (outcome, mut failure) = match outcome {
        Ok(outcome) => (outcome, None),
        Err(error) => (Default::default(), Some(error)),
    };
    let writes = outcome.writes;
    if let Err(error) = planned(at, writes.clone()).await {
        failure = Some(error);
    }
    let (letters, log) = (outcome.letters, outcome.log);
    Ok(FunctionTrial { changes, failure, writes, letters, reads, log, charge_centi, time })
}

/// The last changes that the function would be given, over all partitions in the order of their times.
async fn last_changes(at: &FunctionAtWork<'_>, last: usize) -> Result<Vec<Given>> {
    let mut all: Vec<(u64, Given)> = Vec::new();
    for partition in at.source.map.iter() {
        let mut commits = last as u64;
        loop {
            let after = partition.durable_lsn().saturating_sub(commits);
            let round =
                partition.hosted().partition().log_round_over_holes(partition.epk_range(), after).await?;
            let mut round = round.with(Images::Latest);
            let mut found = Vec::new();
            while let Some(page) = round.next_page().await? {
                for change in &page.changes {
                    found.extend(given(at, change)?.map(|given| (change.time.milliseconds(), given)));
                }
            }
            if found.len() >= last || after == 0 || commits >= COMMITS_MAX {
                let surplus = found.len().saturating_sub(last);
                all.extend(found.drain(surplus..));
                break;
            }
            commits *= 4;
        }
    }
    all.sort_by_key(|(time, given)| (*time, given.lsn));
    let surplus = all.len().saturating_sub(last);
    Ok(all.drain(surplus..).map(|(_, given)| given).collect())
}
