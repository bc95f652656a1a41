//! The task of a projection. It holds the account weakly between two steps, so that dropping the account ends it.
//!
//! The task waits out obstacles, longer each time, and reports them; only a deleted container ends
//! the work permanently.

use std::sync::{Arc, Weak};
use std::time::Duration;

use shardlake_catalog::Checkpoint;
use shardlake_change_log::{Followed, changed};
use shardlake_model::{Error, ErrorKind, Result};

use crate::Projections;
use crate::ProjectionsState;
use crate::records::{ProjectionEntry, hold, save};
use crate::status::Status;
use crate::work::{Progress, Work};

/// A commit whose writer was cancelled wakes no waiter: the task polls for such commits now and then.
const WAIT_SLICE: Duration = Duration::from_secs(1);
/// Pause after a change without effect, before the task is notified of the next.
const NOTHING_WAIT: Duration = Duration::from_millis(100);
/// Interval to check whether it is still paused, in case it missed its wake.
const PAUSED_LOOK: Duration = Duration::from_secs(5);
const SAVE_EVERY: Duration = Duration::from_secs(1);
/// Steps after which progress is stored even if no time passes.
const SAVE_EVERY_STEPS: u32 = 1000;
const RETRY_FIRST: Duration = Duration::from_millis(100);
const RETRY_MAX: Duration = Duration::from_secs(30);
/// A budget that is spent is asked again within this time.
const BUDGET_WAIT: std::ops::RangeInclusive<u64> = 10..=1000;

/// Starts the tasks of all projections, now and whenever the catalog gets one.
pub(crate) fn start(projections: &Projections) -> Result<()> {
    let state = Arc::downgrade(&projections.0);
    let mut versions = projections.0.router.catalog_version().subscribe();
    let (_, stored) =
        projections.0.entries.in_line_with(&projections.0.router.catalog().load().definitions)?;
    stored.iter().for_each(|entry| start_one(projections, entry));
    tokio::spawn(async move {
        while versions.changed().await.is_ok() {
            let Some(state) = state.upgrade() else { return };
            Projections(state).projection_entries();
        }
    });
    Ok(())
}

pub(crate) fn start_one(projections: &Projections, entry: &ProjectionEntry) {
    let (state, status) = (Arc::downgrade(&projections.0), entry.status.clone());
    let saved = status.live().checkpoint.clone();
    let runner = Runner {
        number: entry.record.number,
        work: None,
        retry: RETRY_FIRST,
        saved_at: Duration::ZERO,
        saved,
        unsaved: 0,
        heard: false,
    };
    tokio::spawn(run(state, status, runner));
}

async fn run(state: Weak<ProjectionsState>, status: Arc<Status>, mut runner: Runner) {
    loop {
        let next = {
            let Some(state) = state.upgrade() else { return };
            runner.turn(&Projections(state)).await
        };
        match next {
            Next::Again => tokio::task::yield_now().await,
            Next::Wait(time) => {
                let _woken_early = tokio::time::timeout(time, status.wake.notified()).await;
            }
            Next::WaitForChange(followed) => {
                runner.heard = tokio::select! {
                    () = status.wake.notified() => false,
                    () = tokio::time::sleep(WAIT_SLICE) => false,
                    () = changed(&followed) => true,
                };
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

struct Runner {
    number: u32,
    work: Option<Work>,
    /// How long the next trouble is waited out.
    retry: Duration,
    /// In terms of the clock's elapsed time.
    saved_at: Duration,
    saved: Checkpoint,
    /// Steps since progress was stored.
    unsaved: u32,
    /// The last wait ended because of a change, and nothing was done since.
    heard: bool,
}

impl Runner {
    async fn turn(&mut self, projections: &Projections) -> Next {
        let entries = projections.projection_entries();
        let entry = entries.values().find(|entry| entry.record.number == self.number);
        let Some(entry) = entry.filter(|_| !is_over(projections)) else { return Next::End };
        if let Some(words) = gone(projections, entry) {
            tracing::warn!(projection = entry.id(), reason = words, "a projection ended");
            entry.status.note_error(words.clone(), projections.router().clock().now());
            entry.status.live().failed = Some(words);
            return Next::End;
        }
        let outcome = match entry.record.is_paused {
            true => self.store(projections, entry).await.map(|()| Next::Wait(PAUSED_LOOK)),
            false => self.step(projections, entry).await,
        };
        outcome.unwrap_or_else(|error| self.put_off(projections, entry, &error))
    }

    async fn step(&mut self, projections: &Projections, entry: &ProjectionEntry) -> Result<Next> {
        let work = match &mut self.work {
            Some(work) => work,
            none => {
                let checkpoint = entry.status.live().checkpoint.clone();
                hold(projections, &entry.record, &checkpoint).await?;
                none.insert(Work::new(&entry.record, &checkpoint)?)
            }
        };
        let progress = work.step(projections, entry).await?;
        self.retry = RETRY_FIRST;
        let waited = entry.status.live().waits.take();
        if waited.is_some() {
            tracing::info!(projection = entry.id(), "a projection goes on");
        }
        if progress == Progress::Idle {
            self.store(projections, entry).await?;
            return Ok(self.rest(projections));
        }
        self.unsaved += 1;
        self.heard &= progress != Progress::Worked;
        let is_due = projections.router().clock().elapsed().saturating_sub(self.saved_at) >= SAVE_EVERY;
        if is_due || self.unsaved >= SAVE_EVERY_STEPS {
            self.store(projections, entry).await?;
        }
        Ok(Next::Again)
    }

    fn rest(&mut self, projections: &Projections) -> Next {
        let followed = self.work.as_ref().map(|work| work.followed(projections)).unwrap_or_default();
        match std::mem::take(&mut self.heard) || followed.is_empty() {
            true => Next::Wait(NOTHING_WAIT),
            false => Next::WaitForChange(followed),
        }
    }

    /// Stores the progress of the work, if it is ahead of the stored progress.
    async fn store(&mut self, projections: &Projections, entry: &ProjectionEntry) -> Result<()> {
        let Some(work) = &self.work else { return Ok(()) };
        let checkpoint = work.checkpoint(entry);
        if checkpoint != self.saved {
            save(projections, self.number, &checkpoint).await?;
            hold(projections, &entry.record, &checkpoint).await?;
            self.saved = checkpoint;
        }
        (self.saved_at, self.unsaved) = (projections.router().clock().elapsed(), 0);
        Ok(())
    }

    fn put_off(&mut self, projections: &Projections, entry: &ProjectionEntry, error: &Error) -> Next {
        if is_over(projections) {
            return Next::End;
        }
        let words = error.message().to_owned();
        let is_budget = error.kind() == ErrorKind::TooManyRequests;
        if entry.status.live().waits.replace(words.clone()).is_none() && !is_budget {
            tracing::warn!(projection = entry.id(), %error, "a projection waits");
        }
        entry.status.note_error(words, projections.router().clock().now());
        if is_budget {
            let wait = error.retry_after_ms().unwrap_or(*BUDGET_WAIT.end());
            return Next::Wait(Duration::from_millis(wait.clamp(*BUDGET_WAIT.start(), *BUDGET_WAIT.end())));
        }
        let wait = self.retry;
        self.retry = (wait * 2).min(RETRY_MAX);
        Next::Wait(wait)
    }
}

fn is_over(projections: &Projections) -> bool {
    projections.router().is_closing()
}

/// The reason why a projection cannot continue.
fn gone(projections: &Projections, entry: &ProjectionEntry) -> Option<String> {
    let (record, rule) = (&entry.record, &entry.record.rule);
    let ends = [
        ("source", record.source, &rule.source.database, &rule.source.container),
        ("target", record.target, &rule.target.database, &rule.target.container),
    ];
    let gone = ends.into_iter().find(|(_, rid, ..)| projections.router().entry_of_rid(*rid).is_err());
    gone.map(|(role, _, database, container)| {
        format!("the {role} container '{database}/{container}' was deleted; delete the projection, or put it again for a new container")
    })
}
