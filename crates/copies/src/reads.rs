//! Reads of an index that wait until it has writes of its source.
//!
//! ```text
//! asked: now, or a session ── position in the source's log ── the index's rounds have reached it ── read
//! ```
//! The position is taken once. A step of the index's task wakes all reads that wait for it; they hold no lock and no thread. Rows of a
//! position are durable before it is noted (`follow.rs`), so a read that begins afterwards finds them. While the index is built it has
//! no such position, since rows of deleted items may still be there.
//!
//! For an index of an index, `now` goes down the chain: first the source has everything of its own source, then the index has
//! everything of the source as that is then.

use std::sync::Arc;
use std::time::Duration;

use shardlake_catalog::{IndexPhase, SecondaryIndexRecord};
use shardlake_change_log::{AtLeast, LogPosition, has_reached, has_reached_lsns, oldest_missing_ms};
use shardlake_model::{ContainerRid, Error, ErrorKind, INDEX_CHAIN_MAX, Result};

use crate::Copies;
use crate::entries::IndexEntry;

/// The longest wait of a read.
pub const READ_WAIT_MAX: Duration = Duration::from_secs(5);
/// A wake may be missed where only commits without changes are lacking: then this look at the log finds out.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Writes that a read waits for.
#[derive(Debug)]
pub struct Awaited {
    copies: Copies,
    /// Indexes that must have them, the read one first; the last one is the next to wait for.
    chain: Vec<Arc<IndexEntry>>,
    /// The position that the last one has to reach, once it is known.
    wanted: Option<LogPosition>,
    at_least: AtLeast,
}

/// How thorough a look is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    /// Compares numbers.
    Quick,
    /// Reads the log, too: commits that changed nothing are not lacking.
    Thorough,
}

impl Copies {
    /// The writes that a read of an index asks for; `None` where the container is no index.
    pub fn awaited(&self, index: ContainerRid, at_least: AtLeast) -> Result<Option<Awaited>> {
        let live = self.router().live_catalog();
        let mut chain = Vec::new();
        let mut next = index;
        while let Some(record) = live.definitions.secondary_indexes.get(&next) {
            assert!(chain.len() < INDEX_CHAIN_MAX, "chains of indexes are bounded");
            chain.push(self.entry_of(next)?);
            next = record.source;
            // A session's positions are those of the direct source.
            if at_least != AtLeast::Now {
                break;
            }
        }
        if chain.is_empty() {
            return Ok(None);
        }
        Ok(Some(Awaited { copies: self.clone(), chain, wanted: None, at_least }))
    }

    /// Waits until an index has reached a position, for the server's own work: as long as it follows its source.
    pub(crate) async fn reach(&self, entry: &Arc<IndexEntry>, position: LogPosition) -> Result<()> {
        let (copies, chain) = (self.clone(), vec![entry.clone()]);
        let mut awaited = Awaited { copies, chain, wanted: Some(position), at_least: AtLeast::Now };
        awaited.go_on(&|| self.router().is_closing()).await
    }

    pub(crate) fn entry_of(&self, index: ContainerRid) -> Result<Arc<IndexEntry>> {
        if let Some(entry) = self.0.entries.of(index) {
            return Ok(entry);
        }
        // Created a moment ago.
        self.entries();
        self.0.entries.of(index).ok_or_else(|| {
            Error::new(ErrorKind::OwnerNotFound, "the index was deleted meanwhile: nothing was read")
        })
    }

    /// Age of the oldest change of the source that an index lacks, in milliseconds; 0 where it lacks none. `None` where it is not known:
    /// the index is being built, or is none.
    pub async fn lag_ms(&self, index: ContainerRid) -> Result<Option<u64>> {
        let live = self.router().live_catalog();
        let Some(record) = live.definitions.secondary_indexes.get(&index) else { return Ok(None) };
        let entry = self.entry_of(index)?;
        let Some((position, steps)) = position_of(&entry, record)? else { return Ok(None) };
        let known = entry.status.live().lacked.filter(|(after, _)| *after == steps);
        let source = self.router().entry_of_rid(record.source)?;
        let is_level = has_reached_lsns(&position, &LogPosition::now(&source));
        let oldest_ms = match (is_level, known) {
            (true, _) => return Ok(Some(0)),
            (false, Some((_, oldest_ms))) => Some(oldest_ms),
            (false, None) => oldest_missing_ms(&source, &position).await?,
        };
        let Some(oldest_ms) = oldest_ms else { return Ok(Some(0)) };
        entry.status.live().lacked = Some((steps, oldest_ms));
        Ok(Some(self.router().clock().now().milliseconds().saturating_sub(oldest_ms)))
    }
}

/// The position of an index that follows its source, and the number of its steps.
pub(crate) fn position_of(
    entry: &IndexEntry,
    record: &SecondaryIndexRecord,
) -> Result<Option<(Arc<LogPosition>, u64)>> {
    let live = entry.status.live();
    if record.state.phase != IndexPhase::Active || live.generation != record.generation {
        return Ok(None);
    }
    let position = match &live.followed {
        Some(position) => position.clone(),
        // It has not begun since the start of the server, or is paused.
        None => Arc::new(LogPosition::of_records(&live.checkpoint.source)?),
    };
    Ok(Some((position, live.steps)))
}

impl Awaited {
    /// Whether everything is there.
    pub async fn is_there(&mut self) -> Result<bool> {
        self.look(Look::Thorough).await
    }

    /// Waits until everything is there: for `patience`, at most for [`READ_WAIT_MAX`], and until `is_over`.
    pub async fn wait(mut self, patience: Duration, is_over: impl Fn() -> bool) -> Result<()> {
        let patience = patience.min(READ_WAIT_MAX);
        match tokio::time::timeout(patience, self.go_on(&is_over)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(self.too_late(patience)),
        }
    }

    async fn go_on(&mut self, is_over: &impl Fn() -> bool) -> Result<()> {
        let mut look = Look::Quick;
        while let Some(entry) = self.chain.last().cloned() {
            let moved = entry.moved.notified();
            tokio::pin!(moved);
            moved.as_mut().enable();
            if self.look(look).await? {
                return Ok(());
            }
            entry.wake.notify_one();
            if is_over() {
                return Err(Error::new(
                    ErrorKind::Unavailable,
                    "the server is stopping: nothing was read, retry with another one",
                ));
            }
            let is_same = self.chain.last().is_some_and(|last| last.index == entry.index);
            look = match is_same {
                // The source has come so far: now its index is looked at.
                false => Look::Thorough,
                true => match tokio::time::timeout(LOOK_EVERY, moved).await {
                    Ok(()) => Look::Quick,
                    Err(_) => Look::Thorough,
                },
            };
        }
        Ok(())
    }

    /// Goes on along the chain as far as its indexes have come. Returns whether everything is there.
    async fn look(&mut self, look: Look) -> Result<bool> {
        while let Some(entry) = self.chain.last().cloned() {
            if !self.has(&entry, look).await? {
                return Ok(false);
            }
            self.chain.pop();
            self.wanted = None;
        }
        Ok(true)
    }

    async fn has(&mut self, entry: &IndexEntry, look: Look) -> Result<bool> {
        let serving = self.copies.router();
        let live = serving.live_catalog();
        let Some(record) = live.definitions.secondary_indexes.get(&entry.index) else {
            return Err(Error::new(
                ErrorKind::OwnerNotFound,
                "the index was deleted meanwhile: nothing was read",
            ));
        };
        let source = serving.entry_of_rid(record.source)?;
        if self.wanted.is_none() {
            if !self.at_least.is_about(&source) {
                return Err(of_another(&record.source_id));
            }
            let mut routing = serving.routing_of(source.clone());
            self.wanted = Some(loop {
                let position = self.at_least.position(&routing.entry);
                if !routing.has_moved(&position).await? {
                    break position?;
                }
            });
        }
        let wanted = self.wanted.as_ref().expect("it was just set");
        let is_stopped = record.state.is_paused || record.state.phase == IndexPhase::Failed;
        if let Some((position, _)) = position_of(entry, record)? {
            let is_reached = has_reached_lsns(&position, wanted)
                || (look == Look::Thorough || is_stopped) && has_reached(&source, &position, wanted).await?;
            if is_reached {
                return Ok(true);
            }
        }
        match is_stopped {
            true => Err(self.stopped(entry, record)),
            false => Ok(false),
        }
    }

    fn name(&self, index: ContainerRid) -> String {
        let live = self.copies.router().live_catalog();
        let entry = live.container_of_rid(index);
        entry.map_or_else(String::new, |entry| {
            format!("{}/{}", entry.database.id, entry.record.container.definition.id)
        })
    }

    fn stopped(&self, entry: &IndexEntry, record: &SecondaryIndexRecord) -> Error {
        let (name, status) = (self.name(entry.index), record.state.status());
        let reason = record.state.reason.as_ref().map_or_else(String::new, |reason| format!(" ({reason})"));
        let remedy = match record.state.phase {
            IndexPhase::Failed => format!("rebuild it (shardlake copies rebuild {name})"),
            _ => format!("resume it (shardlake copies resume {name})"),
        };
        Error::new(
            ErrorKind::Unavailable,
            format!(
                "the index '{name}' is {status}{reason}, and lacks writes of '{}' that this read asks for: {remedy}, or read without asking for them",
                record.source_id
            ),
        )
    }

    fn too_late(&self, waited: Duration) -> Error {
        let Some(entry) = self.chain.last() else {
            return Error::new(ErrorKind::Timeout, "the index had no time for the read: retry");
        };
        let live = self.copies.router().live_catalog();
        let record = live.definitions.secondary_indexes.get(&entry.index);
        let status = record.map_or("deleted", |record| record.state.status());
        let source = record.map_or("its source", |record| record.source_id.as_str());
        let waits = entry.status.live().waits.clone();
        let waits = waits.map_or_else(String::new, |waits| format!(", and waits itself: {waits}"));
        Error::new(
            ErrorKind::Timeout,
            format!(
                "after {} ms the index '{}' ({status}) lacks writes of '{source}' that this read asks for{waits}: retry, or read without asking for them",
                waited.as_millis(),
                self.name(entry.index)
            ),
        )
    }
}

fn of_another(source: &str) -> Error {
    Error::bad_request(format!(
        "the session token for the read of the index is of another container, or of an earlier '{source}': send the session token of an answer of '{source}', or 'now'"
    ))
}
