//! A round: the changes of the log since the table's position, as rows and ended rows, in one commit.
//!
//! Each partition is read in one view: after the commit the rows of its span are exactly the items of the view, so that no
//! reader sees a part of a transaction.
//!
//! | operation | condition | effect |
//! |---|---|---|
//! | create, replace | the version is the live one of the view | a row |
//! | create, replace | it is not | nothing: a later operation stands for it |
//! | replace, delete | the former version is in the table | its row ends |
//! | expire | the former version is in the table | nothing: the row stays as history |
//! | expire | it is not | a row from the version that was kept, as history |

use shardlake_analytical_table::log::{Place, Reason};
use shardlake_analytical_table::table::{Commit, Ended, Table};
use shardlake_partition::{ChangeKind, Image, Images, LogChange, Round, RoundError};

use super::places::{self, span_of};
use super::rests::Rests;
use super::rows::Rows;
use super::step::{Step, StepError};
use super::tracked::Tracked;
use crate::AnalyticsOptions;

/// Operations after which a round is committed before it goes on with the next partition.
const OPERATIONS_MAX: u64 = 200_000;

/// Result of a round.
pub struct Outcome {
    /// No partition had more when it was read.
    pub is_level: bool,
}

pub async fn step(follower: &Tracked, step: &Step<'_>, table: &mut Table) -> Result<Outcome, StepError> {
    let now = step.now_ms();
    let parts = places::in_partitions(step.entry, table.places())?;
    if parts.iter().any(|(partition, _, place)| partition.durable_lsn() < place.lsn) {
        return Err(apart(RoundError::Ahead { last: 0 }));
    }
    let is_behind = |lsn: u64, durable: u64| durable > lsn;
    if !parts.iter().any(|(partition, _, place)| is_behind(place.lsn, partition.durable_lsn())) {
        return Ok(Outcome { is_level: true });
    }
    let oldest = parts.iter().map(|(_, _, place)| place.read_at).min().unwrap_or(now);
    let mut applied = Applied {
        options: step.options,
        rows: Rows::of(follower.rid),
        rests: step.rests(oldest),
        operations: 0,
        lost_history: 0,
    };
    let (mut places, mut views, mut is_level) = (Vec::with_capacity(parts.len()), Vec::new(), true);
    let mut is_begun = false;
    for (partition, range, place) in parts {
        if !is_behind(place.lsn, partition.durable_lsn()) {
            places.push(places::read(place, now));
            continue;
        }
        if applied.operations >= OPERATIONS_MAX {
            is_level = false;
            places.push(place);
            continue;
        }
        let span = span_of(&range);
        match is_begun {
            false => table.begin(span.clone(), now)?,
            true => {
                applied.rows.flush(table)?;
                table.switch(span.clone())?;
            }
        }
        is_begun = true;
        let round = partition.hosted().partition().log_round(&range, place.lsn).await.map_err(apart)?;
        let mut round = round.with(Images::Latest);
        applied.rests.note_view();
        applied.take(table, &mut round).await?;
        places.push(Place { span, lsn: round.upto(), ..places::read(place, now) });
        views.push(round);
    }
    applied.rows.flush(table)?;
    if applied.operations == 0 {
        // The commits were of other spans, or changed no item: the next commit moves the position.
        table.abandon();
        return Ok(Outcome { is_level });
    }
    let retained = table.version().info.state.ends_with(RETAINED);
    table.prepare(&|_| retained)?;
    for view in &views {
        view.durable().await?;
    }
    follower.note_overflow(table);
    let state = table.version().info.state.clone();
    #[cfg(feature = "testing")]
    if step.options.hooks.has(crate::testing::SeededBug::PositionBeforeRows) {
        table.commit_state(&Commit { places: places.clone(), state: state.clone(), time: now })?;
    }
    table.commit(&Commit { places, state, time: now }, Reason::Round)?;
    follower.move_hold(step.router, table.places())?;
    follower.count_commit("round");
    let mut live = follower.status.live();
    live.counts.copied_items += applied.rows.count;
    live.counts.lost_history += applied.lost_history;
    Ok(Outcome { is_level })
}

/// Ends the state of a table from which a time to live has taken rows: a version that ends may have none.
pub const RETAINED: &str = " retained";

fn apart(error: RoundError) -> StepError {
    match error {
        RoundError::Hole { .. } => StepError::Hole,
        RoundError::Ahead { .. } => {
            StepError::Apart("the table is ahead of the container, which was restored")
        }
        RoundError::Failed(error) => StepError::Account(error),
    }
}

/// Whether a test has the end of a version forgotten.
#[cfg(feature = "testing")]
fn is_forgotten(options: &AnalyticsOptions, kind: ChangeKind) -> bool {
    use crate::testing::SeededBug;
    match kind {
        ChangeKind::Replace => options.hooks.has(SeededBug::SkippedVector),
        ChangeKind::Delete => options.hooks.has(SeededBug::LostDelete),
        _ => false,
    }
}

#[cfg(not(feature = "testing"))]
fn is_forgotten(_: &AnalyticsOptions, _: ChangeKind) -> bool {
    false
}

struct Applied<'s> {
    options: &'s AnalyticsOptions,
    rows: Rows,
    rests: Rests,
    operations: u64,
    lost_history: u64,
}

impl Applied<'_> {
    async fn take(&mut self, table: &mut Table, round: &mut Round) -> Result<(), StepError> {
        let after = round.after();
        while let Some(page) = round.next_page().await? {
            for change in page.changes {
                self.operations += 1;
                self.apply(table, after, change)?;
            }
            self.rests.pause().await;
        }
        Ok(())
    }

    fn apply(&mut self, table: &mut Table, after: u64, change: LogChange) -> Result<(), StepError> {
        assert!(change.lsn > after, "a round has the changes after its position");
        let is_copied = change.previous_lsn > 0 && change.previous_lsn <= after;
        match change.kind {
            ChangeKind::Create | ChangeKind::Replace | ChangeKind::Delete => {
                if is_copied && !is_forgotten(self.options, change.kind) {
                    let ordinal = change.ended_ordinal.unwrap_or(change.ordinal);
                    table.end_version(Ended { ordinal, lsn: change.previous_lsn });
                }
                if let Image::Record(record) = change.new {
                    self.rows.push(table, record)?;
                }
            }
            ChangeKind::Expire if is_copied => {}
            ChangeKind::Expire => match change.old {
                Image::Record(record) => self.rows.push(table, record)?,
                _ => self.lost_history += 1,
            },
        }
        Ok(())
    }
}
