//! The task of a function. It holds the account weakly between two batches, so that dropping the account ends it.
//! Obstacles are waited out, longer each time, and reported.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use shardlake_catalog::{FunctionDefinition, FunctionOnError, FunctionRecord};
use shardlake_change_log::{Followed, LogFollower, LogPosition, Needs, NextRound, changed};
use shardlake_model::{Error, ErrorKind, Result};
use shardlake_partition::RoundError;

use crate::at_work::FunctionAtWork;
use crate::attempt::{Attempt, attempt, failing, is_condition};
use crate::batch::{Batch, Given, next_batch};
use crate::commits::Progress;
use crate::entries::FunctionEntry;
use crate::letters::{self, Letter};
use crate::saver::hold;
use crate::trouble::{Then, Trouble, backoff};
use crate::{Functions, FunctionsState};

/// A commit whose writer was cancelled wakes no waiter: the task polls for such commits now and then.
const WAIT_SLICE: Duration = Duration::from_secs(1);
/// Interval to check whether it is still paused, in case it missed its wake.
const PAUSED_LOOK: Duration = Duration::from_secs(5);
/// Pause after a commit that a round does not show yet.
const NOTHING_WAIT: Duration = Duration::from_millis(20);
const RETRY_FIRST: Duration = Duration::from_millis(100);
const RETRY_MAX: Duration = Duration::from_secs(30);
/// A budget that is spent is asked again within this time.
const BUDGET_WAIT: std::ops::RangeInclusive<u64> = 10..=1000;

/// Starts the tasks of all functions, now and whenever the catalog gets one.
pub(crate) fn start(functions: &Functions) {
    let state = Arc::downgrade(&functions.0);
    let mut versions = functions.0.router.catalog_version().subscribe();
    functions.entries();
    tokio::spawn(async move {
        while versions.changed().await.is_ok() {
            let Some(state) = state.upgrade() else { return };
            Functions(state).entries();
        }
    });
}

pub(crate) fn start_one(functions: &Functions, entry: &Arc<FunctionEntry>) {
    let (state, entry) = (Arc::downgrade(&functions.0), entry.clone());
    let runner = Runner {
        known: None,
        work: None,
        troubles: BTreeMap::new(),
        is_over_holes: false,
        has_worked: false,
        ready_at: Duration::ZERO,
        retry: RETRY_FIRST,
    };
    tokio::spawn(run(state, entry, runner));
}

async fn run(state: Weak<FunctionsState>, entry: Arc<FunctionEntry>, mut runner: Runner) {
    loop {
        let next = {
            let Some(state) = state.upgrade() else { return };
            runner.turn(&Functions(state), &entry).await
        };
        match next {
            Next::Again => tokio::task::yield_now().await,
            Next::Wait(time) => {
                let _woken_early = tokio::time::timeout(time, entry.wake.notified()).await;
            }
            Next::WaitForChange(followed) => {
                tokio::select! {
                    () = entry.wake.notified() => {}
                    () = tokio::time::sleep(WAIT_SLICE) => {}
                    () = changed(&followed) => {}
                }
            }
            Next::End => return,
        }
    }
}

enum Next {
    Again,
    Wait(Duration),
    /// Partitions, each with an LSN to wait past; at least one.
    WaitForChange(Vec<Followed>),
    End,
}

/// The position, and the progress of the targets when it was opened.
struct Work {
    follower: LogFollower,
    progress: Progress,
}

struct Runner {
    /// The definition that the other members are of.
    known: Option<FunctionDefinition>,
    /// Dropped after each failure: some targets may have the writes of the batch that failed.
    work: Option<Work>,
    /// By the lower bound of the part of the source.
    troubles: BTreeMap<Vec<u8>, Trouble>,
    /// The log had a hole: deletions may be missing until the function is level.
    is_over_holes: bool,
    /// A batch was done since a part with trouble was passed over.
    has_worked: bool,
    /// The next batch waits until then, for the function's own bound on request units.
    ready_at: Duration,
    /// How long the next obstacle is waited out.
    retry: Duration,
}

impl Runner {
    async fn turn(&mut self, functions: &Functions, entry: &Arc<FunctionEntry>) -> Next {
        let live = functions.router().live_catalog();
        let Some(record) = live.definitions.functions.get(&entry.number) else { return Next::End };
        if functions.router().is_closing() {
            return Next::End;
        }
        if record.is_paused || functions.gone(record).is_some() {
            return Next::Wait(PAUSED_LOOK);
        }
        if self.known.as_ref() != Some(&record.definition) {
            // Mended code is tried at once, and other containers have other progress.
            self.known = Some(record.definition.clone());
            (self.work, self.ready_at) = (None, Duration::ZERO);
            self.troubles.clear();
        }
        let now = functions.router().clock().elapsed();
        if let Some(wait) = self.ready_at.checked_sub(now).filter(|wait| !wait.is_zero()) {
            return Next::Wait(wait.min(WAIT_SLICE));
        }
        let outcome = self.step(functions, entry, record).await;
        outcome.unwrap_or_else(|error| self.put_off(functions, entry, &error))
    }

    async fn step(
        &mut self,
        functions: &Functions,
        entry: &FunctionEntry,
        record: &FunctionRecord,
    ) -> Result<Next> {
        let at = FunctionAtWork::new(functions, entry, record)?;
        let work = match &mut self.work {
            Some(work) => work,
            none => {
                let needs = if self.is_over_holes || !record.definition.deletes {
                    Needs::LastVersions
                } else {
                    Needs::EveryChange
                };
                none.insert(open(&at, needs, &self.troubles).await?)
            }
        };
        let part = match work.follower.next_round(at.serving()).await {
            Ok(NextRound::Round(part)) => *part,
            Ok(NextRound::Nothing) => return Ok(Next::Again),
            Ok(NextRound::End) => return Ok(self.rest(&at)),
            Err(RoundError::Failed(error)) => return Err(error),
            Err(RoundError::Hole { compacted_to }) => {
                entry.status.live().holes += 1;
                tracing::warn!(
                    function = record.definition.id,
                    compacted_to,
                    "the change log lacks changes that the function has not seen: it may miss deletions"
                );
                (self.work, self.is_over_holes) = (None, true);
                return Ok(Next::Again);
            }
            Err(RoundError::Ahead { last }) => {
                return Err(Error::new(
                    ErrorKind::Conflict,
                    format!(
                        "the source's log ends at LSN {last}, before the function's position: replay the function"
                    ),
                ));
            }
        };
        let (name, after) = (part.span.min.0.clone(), part.round.after());
        let trouble = self.troubles.get(&name);
        let wait = trouble.and_then(|trouble| trouble.not_before.checked_sub(at.serving().clock().elapsed()));
        if let Some(wait) = wait.filter(|wait| !wait.is_zero()) {
            let others_worked = std::mem::take(&mut self.has_worked);
            return Ok(if others_worked { Next::Again } else { Next::Wait(wait.min(WAIT_SLICE)) });
        }
        let limits = [work.progress.limit(&part.span, after), trouble.and_then(Trouble::limit)];
        let limit = limits.into_iter().flatten().min();
        let Some(batch) = next_batch(&at, part, limit).await? else { return Ok(Next::Again) };
        if batch.changes.is_empty() {
            self.done(&at, &batch);
            return Ok(Next::Again);
        }
        let next = self.work_on(&at, &batch).await?;
        self.retry = RETRY_FIRST;
        Ok(next)
    }

    async fn work_on(&mut self, at: &FunctionAtWork<'_>, batch: &Batch) -> Result<Next> {
        let Some(Work { progress, .. }) = &self.work else { return Ok(Next::Again) };
        let trouble = self.troubles.get(&batch.span.min.0);
        let number = 1 + trouble.map_or(0, |trouble| trouble.attempts);
        let changes: Vec<&Given> = batch.changes.iter().collect();
        let tried = attempt(at, progress, (batch, &changes), number).await?;
        self.pay(at, tried.charge_centi());
        match tried {
            Attempt::Done { .. } => {
                self.done(at, batch);
                at.entry.status.live().waits = None;
                Ok(Next::Again)
            }
            Attempt::Failed { error, .. } => self.failed(at, batch, &error).await,
        }
    }

    async fn failed(&mut self, at: &FunctionAtWork<'_>, batch: &Batch, error: &Error) -> Result<Next> {
        let definition = &at.record.definition;
        at.entry.status.note_error(error.message().to_owned(), at.serving().clock().now());
        let random = at.serving().random();
        let trouble = self.troubles.entry(batch.span.min.0.clone()).or_default();
        let then = trouble.failed(batch, is_condition(error), &definition.retry, random);
        let wait = match then {
            Then::Again | Then::Halved => None,
            Then::Wait(wait) => Some(wait),
            Then::Sift | Then::GiveUp => match definition.on_error {
                FunctionOnError::DeadLetter => {
                    self.give_up(at, batch, error, then == Then::Sift).await?;
                    return Ok(Next::Again);
                }
                FunctionOnError::Pause => {
                    let reason =
                        format!("a change failed, after {} attempts: {}", trouble.attempts, error.message());
                    at.functions.pause_for(at.record.number, reason).await?;
                    // A resumed function tries anew.
                    self.troubles.clear();
                    None
                }
                FunctionOnError::Retry => Some(backoff(&definition.retry, trouble.attempts, random)),
            },
        };
        // Some targets may have the batch's writes.
        self.work = None;
        if let Some(wait) = wait {
            let now = at.serving().clock().elapsed();
            if let Some(trouble) = self.troubles.get_mut(&batch.span.min.0) {
                trouble.not_before = now + wait;
            }
            at.entry.status.live().waits = Some(error.message().to_owned());
        }
        Ok(Next::Again)
    }

    /// Stores dead letters for the changes that fail, and works on the others of their commit.
    async fn give_up(
        &mut self,
        at: &FunctionAtWork<'_>,
        batch: &Batch,
        error: &Error,
        sifts: bool,
    ) -> Result<()> {
        let attempts = at.record.definition.retry.attempts;
        let all: Vec<&Given> = batch.changes.iter().collect();
        let bad: Vec<(&Given, String)> = match sifts {
            false => all.iter().map(|change| (*change, error.message().to_owned())).collect(),
            true => {
                let found = failing(at, &all, attempts).await?;
                found.into_iter().map(|(change, error)| (change, error.message().to_owned())).collect()
            }
        };
        for (change, reason) in &bad {
            letters::send(at, Letter { change, reason, attempts }).await?;
        }
        let good: Vec<&Given> = all
            .iter()
            .copied()
            .filter(|change| !bad.iter().any(|(other, _)| std::ptr::eq(*other, *change)))
            .collect();
        if !good.is_empty() {
            let progress = Progress::read(at).await?;
            let tried = attempt(at, &progress, (batch, &good), attempts).await?;
            self.pay(at, tried.charge_centi());
            if let Attempt::Failed { error, .. } = tried {
                // Each succeeds alone, or none could be blamed: the commit fails as a whole.
                for change in good {
                    letters::send(at, Letter { change, reason: error.message(), attempts }).await?;
                }
            }
        }
        self.done(at, batch);
        at.entry.status.live().waits = None;
        // Some targets may have the batch's writes.
        self.work = None;
        Ok(())
    }

    /// The batch is done, or given up.
    fn done(&mut self, at: &FunctionAtWork<'_>, batch: &Batch) {
        let Some(work) = &mut self.work else { return };
        work.follower.done(&batch.span, batch.upto);
        let name = &batch.span.min.0;
        if self.troubles.get_mut(name).is_some_and(|trouble| trouble.done(batch.upto)) {
            self.troubles.remove(name);
        }
        self.has_worked = true;
        at.entry.status.live().checkpoint.source = work.follower.position().records();
    }

    /// Keeps the function's own bound on request units.
    fn pay(&mut self, at: &FunctionAtWork<'_>, charge_centi: u64) {
        at.entry.status.live().charge_centi += charge_centi;
        let Some(rate) = at.record.definition.request_units_per_second else { return };
        let now = at.serving().clock().elapsed();
        let time = Duration::from_micros(charge_centi.saturating_mul(10_000) / u64::from(rate));
        self.ready_at = self.ready_at.max(now) + time;
    }

    /// All parts are read to their ends.
    fn rest(&mut self, at: &FunctionAtWork<'_>) -> Next {
        at.entry.status.live().waits = None;
        if std::mem::take(&mut self.is_over_holes) {
            self.work = None;
            return Next::Again;
        }
        let Some(work) = &mut self.work else { return Next::Again };
        work.follower.look_again(at.serving());
        at.entry.status.live().checkpoint.source = work.follower.position().records();
        let followed = work.follower.followed(at.serving());
        if followed.is_empty() { Next::Wait(NOTHING_WAIT) } else { Next::WaitForChange(followed) }
    }

    fn put_off(&mut self, functions: &Functions, entry: &FunctionEntry, error: &Error) -> Next {
        let serving = functions.router();
        if serving.is_closing() {
            return Next::End;
        }
        let message = error.message().to_owned();
        let is_budget = error.kind() == ErrorKind::TooManyRequests;
        if entry.status.live().waits.replace(message.clone()).is_none() && !is_budget {
            tracing::info!(function = entry.number, %error, "a function waits");
        }
        entry.status.note_error(message, serving.clock().now());
        // Some targets may have the batch's writes.
        self.work = None;
        if is_budget {
            let wait = error.retry_after_ms().unwrap_or(*BUDGET_WAIT.end());
            return Next::Wait(Duration::from_millis(wait.clamp(*BUDGET_WAIT.start(), *BUDGET_WAIT.end())));
        }
        let wait = self.retry;
        self.retry = (wait * 2).min(RETRY_MAX);
        Next::Wait(wait)
    }
}

/// Opens the position. Parts with trouble come last, so that they keep no other waiting.
async fn open(at: &FunctionAtWork<'_>, needs: Needs, troubles: &BTreeMap<Vec<u8>, Trouble>) -> Result<Work> {
    let checkpoint = at.entry.status.live().checkpoint.clone();
    hold(at.functions, at.entry, &checkpoint).await?;
    let progress = Progress::read(at).await?;
    let position = progress.divided(&LogPosition::of_records(&checkpoint.source)?);
    let mut parts = position.parts().to_vec();
    parts.sort_by_key(|part| troubles.contains_key(&part.span.min.0));
    let follower = LogFollower::open(at.record.source, LogPosition::new(parts), needs);
    Ok(Work { follower, progress })
}
