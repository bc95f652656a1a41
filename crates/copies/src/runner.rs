//! The task of an index. It holds the account weakly between two steps, so that dropping the account ends
//! it. Obstacles are waited out, longer each time, and reported.

use std::sync::{Arc, Weak};
use std::time::Duration;

use shardlake_catalog::{IndexPhase, SecondaryIndexRecord};
use shardlake_change_log::{Followed, LogFollower, LogPosition, Needs, changed};
use shardlake_model::{Error, ErrorKind, Result};
use shardlake_router::IndexRows;

use crate::at_work::IndexAtWork;
use crate::build::{begin, build_chunk};
use crate::duplicates::duplicates_of;
use crate::entries::IndexEntry;
use crate::follow::{Progress, follow};
use crate::groups::{self, Settled};
use crate::parts::gaps;
use crate::rests;
use crate::saver::{hold, save};
use crate::sweep::sweep;
use crate::{Copies, CopiesState};

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

/// Starts the tasks of all indexes, now and whenever the catalog gets one.
pub(crate) fn start(copies: &Copies) {
    let state = Arc::downgrade(&copies.0);
    let mut versions = copies.0.router.catalog_version().subscribe();
    copies.entries();
    tokio::spawn(async move {
        while versions.changed().await.is_ok() {
            let Some(state) = state.upgrade() else { return };
            Copies(state).entries();
        }
    });
}

pub(crate) fn start_one(copies: &Copies, entry: &Arc<IndexEntry>) {
    let (state, entry) = (Arc::downgrade(&copies.0), entry.clone());
    let runner = Runner {
        compiled: None,
        follower: None,
        settled: Settled::default(),
        is_fresh: false,
        retry: RETRY_FIRST,
    };
    tokio::spawn(run(state, entry, runner));
}

async fn run(state: Weak<CopiesState>, entry: Arc<IndexEntry>, mut runner: Runner) {
    loop {
        let next = {
            let Some(state) = state.upgrade() else { return };
            runner.turn(&Copies(state), &entry).await
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
                    () = changed(&followed) => {
                        let _woken_early = tokio::time::timeout(rests::COLLECT, entry.wake.notified()).await;
                    }
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

struct Runner {
    /// With the number of the schema that it was compiled for.
    compiled: Option<(u64, IndexRows)>,
    follower: Option<LogFollower>,
    settled: Settled,
    /// The build began in this process, and no chunk of it was interrupted.
    is_fresh: bool,
    /// How long the next obstacle is waited out.
    retry: Duration,
}

impl Runner {
    async fn turn(&mut self, copies: &Copies, entry: &Arc<IndexEntry>) -> Next {
        let live = copies.router().live_catalog();
        let record = live.definitions.secondary_indexes.get(&entry.index);
        let Some(record) = record.filter(|record| record.number == entry.number) else { return Next::End };
        if copies.router().is_closing() {
            return Next::End;
        }
        if record.state.is_paused || record.state.phase == IndexPhase::Failed {
            return Next::Wait(PAUSED_LOOK);
        }
        let outcome = self.step(copies, entry, record).await;
        outcome.unwrap_or_else(|error| self.put_off(copies, entry, &error))
    }

    async fn step(
        &mut self,
        copies: &Copies,
        entry: &Arc<IndexEntry>,
        record: &SecondaryIndexRecord,
    ) -> Result<Next> {
        if entry.status.live().generation != record.generation {
            entry.status.live().begin(record.generation);
            (self.follower, self.is_fresh) = (None, false);
        }
        let serving = copies.router();
        let source = serving.entry_of_rid(record.source)?;
        if self.compiled.as_ref().is_none_or(|(schema, _)| *schema != source.shape.number) {
            let definitions = &serving.live_catalog().definitions;
            let rows = IndexRows::of_index(definitions, entry.index, record, &source.shape);
            match rows {
                Ok(rows) => self.compiled = Some((source.shape.number, rows)),
                Err(error) => {
                    let reason = error.message().to_owned();
                    copies.edit(entry.index, move |record| fail(record, reason)).await?;
                    return Ok(Next::Again);
                }
            }
        }
        let (_, rows) = self.compiled.as_ref().expect("it was just compiled");
        let at = IndexAtWork { serving, entry, record, source, rows };
        let next = match record.state.phase {
            IndexPhase::Initializing => {
                self.is_fresh = begin_build(copies, &at).await?;
                Next::Again
            }
            IndexPhase::BuildingAfterCreate | IndexPhase::BuildingAfterRestore => {
                let is_begun = !entry.status.live().checkpoint.target.is_empty();
                match is_begun {
                    false => {
                        self.is_fresh = begin_build(copies, &at).await?;
                        Next::Again
                    }
                    true => {
                        // Until the chunk is whole.
                        let is_fresh = std::mem::replace(&mut self.is_fresh, false);
                        match build_chunk(&at, is_fresh).await? {
                            true => self.is_fresh = is_fresh,
                            false => finish_build(copies, &at).await?,
                        }
                        Next::Again
                    }
                }
            }
            IndexPhase::Active => follow_on((&mut self.follower, &mut self.settled), copies, &at).await?,
            IndexPhase::Failed => Next::Wait(PAUSED_LOOK),
        };
        self.retry = RETRY_FIRST;
        entry.status.live().waits = None;
        Ok(next)
    }

    fn put_off(&mut self, copies: &Copies, entry: &IndexEntry, error: &Error) -> Next {
        let serving = copies.router();
        if serving.is_closing() {
            return Next::End;
        }
        let words = error.message().to_owned();
        let is_budget = error.kind() == ErrorKind::TooManyRequests;
        if entry.status.live().waits.replace(words.clone()).is_none() && !is_budget {
            tracing::info!(index = entry.number, %error, "an index waits");
        }
        entry.status.note_error(words, serving.clock().now());
        // Its round is begun again, from the last page that was done.
        let position = self.follower.take().map(|follower| follower.position().records());
        if let Some(position) = position {
            entry.status.live().checkpoint.source = position;
        }
        if is_budget {
            let wait = error.retry_after_ms().unwrap_or(*BUDGET_WAIT.end());
            return Next::Wait(Duration::from_millis(wait.clamp(*BUDGET_WAIT.start(), *BUDGET_WAIT.end())));
        }
        let wait = self.retry;
        self.retry = (wait * 2).min(RETRY_MAX);
        Next::Wait(wait)
    }
}

/// Stores where the build begins, and keeps the log from there. It is stored before the first row is
/// written.
async fn begin_build(copies: &Copies, at: &IndexAtWork<'_>) -> Result<bool> {
    let begun = begin(at).await?;
    at.entry.status.live().checkpoint.target = begun;
    let checkpoint = at.entry.status.live().checkpoint.clone();
    hold(copies, at.entry, &checkpoint).await?;
    save(copies).await?;
    copies
        .edit(at.entry.index, |record| {
            if record.state.phase == IndexPhase::Initializing {
                record.state.phase = IndexPhase::BuildingAfterCreate;
            }
        })
        .await?;
    Ok(true)
}

async fn finish_build(copies: &Copies, at: &IndexAtWork<'_>) -> Result<()> {
    if at.record.generation > 1 {
        sweep(at).await?;
    }
    at.entry.status.live().checkpoint.target.clear();
    save(copies).await?;
    let (generation, (refused, list)) = (at.record.generation, at.entry.status.live().stored_refusals());
    copies
        .edit(at.entry.index, move |record| {
            if record.generation == generation {
                (record.state.phase, record.state.failed_rows) = (IndexPhase::Active, refused);
                record.state.refused = list;
            }
        })
        .await
}

async fn follow_on(
    (follower, settled): (&mut Option<LogFollower>, &mut Settled),
    copies: &Copies,
    at: &IndexAtWork<'_>,
) -> Result<Next> {
    let follower = match follower {
        Some(follower) => follower,
        none => {
            let checkpoint = at.entry.status.live().checkpoint.clone();
            hold(copies, at.entry, &checkpoint).await?;
            // A position with gaps is of no whole build.
            if !gaps(&checkpoint.source)?.is_empty() {
                copies.begin_anew(at.entry.index).await?;
                return Ok(Next::Again);
            }
            let position = LogPosition::of_records(&checkpoint.source)?;
            *settled = Settled::default();
            none.insert(LogFollower::open(at.record.source, position, Needs::EveryChange))
        }
    };
    let is_counted = !at.record.settings.unique || at.entry.status.live().duplicates.is_some();
    if !is_counted {
        // Nothing else writes to the index meanwhile.
        let duplicates = duplicates_of(at.serving, at.entry.index).await?;
        at.entry.status.live().duplicates = Some(duplicates.count);
    }
    let begun = at.serving.clock().elapsed();
    let progress = match at.rows.is_grouped() {
        true => groups::follow(at, follower, settled).await?,
        false => follow(at, follower).await?,
    };
    at.note_position(follower);
    if at.entry.status.live().refused() != at.record.state.failed_rows {
        let (refused, list) = at.entry.status.live().stored_refusals();
        let note = move |record: &mut SecondaryIndexRecord| {
            (record.state.failed_rows, record.state.refused) = (refused, list);
        };
        copies.edit(at.entry.index, note).await?;
    }
    Ok(match progress {
        Progress::Worked { upto, is_all } => match rests::after(at.serving, begun, (upto, is_all)) {
            Duration::ZERO => Next::Again,
            rest => Next::Wait(rest),
        },
        Progress::Looked => Next::Again,
        Progress::Idle => {
            let followed = follower.followed(at.serving);
            match followed.is_empty() {
                true => Next::Wait(NOTHING_WAIT),
                false => Next::WaitForChange(followed),
            }
        }
        Progress::Hole => {
            tracing::warn!(
                index = at.entry.number,
                "the change log lacks changes that the index has not seen: it is built anew"
            );
            copies.begin_anew(at.entry.index).await?;
            Next::Again
        }
    })
}

fn fail(record: &mut SecondaryIndexRecord, reason: String) {
    record.state.phase = IndexPhase::Failed;
    record.state.reason = Some(reason);
}
