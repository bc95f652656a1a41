//! A table that the change log does not reach back to, compared with the items: in one commit it follows again.
//!
//! The log has a hole behind the table's position where its hold was given up or released for too long. Each part of the position
//! is read in one view; then items and rows are compared by ordinal and LSN, in passes over parts of the ordinals, so that memory
//! stays bounded.
//!
//! | item | row | effect |
//! |---|---|---|
//! | there | of the same version | none |
//! | there | none | the row is added, unless the analytical time to live has taken it away |
//! | there | of another version | the row ends: the item was replaced |
//! | none | its item has run out, and the rest of the log names no other end | none: the row is history |
//! | none | otherwise | the row ends: the item was deleted |
//!
//! The rest of the log also has items that ran out before they were copied. Versions that are still stored become history; the
//! others are counted as lost. No record of them is left in the hole itself: where items may have run out in it, at least one is
//! counted, so that alarms notice it.

use std::hash::Hasher;

use rustc_hash::{FxHashMap, FxHashSet, FxHasher};
use shardlake_analytical_table::log::{Place, Reason};
use shardlake_analytical_table::table::{Commit, Ended, Table};
use shardlake_document::Record;
use shardlake_model::{Error, ErrorKind};
use shardlake_partition::{ChangeKind, Image, Images, ItemsRound, RoundError};
use shardlake_routing::KeyRange;

use super::history::{self, has_run_out};
use super::places::{self, span_of};
use super::round::RETAINED;
use super::rows::Rows;
use super::step::{Step, StepError};
use super::tracked::Tracked;

/// Items of one pass; each takes some 50 bytes.
const PASS_ITEMS: u64 = 2_000_000;

/// A part of the table's position, with the items of one view.
struct Part {
    place: Place,
    range: KeyRange,
    items: ItemsRound,
}

/// An item of a view.
struct Item {
    lsn: u64,
    etag: u64,
    /// No row has to be added.
    is_done: bool,
}

/// The rest of the log behind the table's position.
#[derive(Default)]
struct Rest {
    /// Ordinals of items that were replaced or deleted.
    ended: FxHashSet<u64>,
    /// Items that ran out and whose last version is not stored any more.
    lost_history: u64,
}

/// Compares the table with the items. The log is held from the views on.
pub async fn step(follower: &Tracked, step: &Step<'_>, table: &mut Table) -> Result<(), StepError> {
    let now = step.now_ms();
    let mut parts = Vec::new();
    for (partition, range, place) in places::in_partitions(step.entry, table.places())? {
        let items = partition.hosted().partition().items_round(&range, usize::MAX).await?;
        if items.upto() < place.lsn {
            return Err(StepError::Apart("the table is ahead of the container, which was restored"));
        }
        parts.push(Part { place, range, items });
    }
    let items: u64 = step.entry.map.iter().map(|partition| partition.items()).sum();
    let passes = items.max(table.status().rows) / PASS_ITEMS + 1;
    let mut rows = Rows::of(follower.rid);
    table.begin(span_of(&KeyRange::full()), now)?;
    let rest = rest_of_log(step, table, &parts, &mut rows).await?;
    let mut ended = 0;
    for pass in 0..passes {
        let is_of_pass = |ordinal: u64| ordinal % passes == pass;
        let mut items =
            items_of(&mut parts, &is_of_pass, &|item, after| is_gone(step, table, item, after)).await?;
        let surplus = compare(step, table, &mut items, &is_of_pass, &rest)?;
        // Ended rows may lie in any part.
        rows.flush(table)?;
        table.switch(span_of(&KeyRange::full()))?;
        ended += surplus.len() as u64;
        surplus.into_iter().for_each(|version| table.end_version(version));
        add_missing(table, &mut parts, &items, &mut rows).await?;
    }
    rows.flush(table)?;
    let is_retained = table.version().info.state.ends_with(RETAINED);
    table.prepare(&|_| is_retained)?;
    let mut position = Vec::with_capacity(parts.len());
    for part in &parts {
        part.items.durable().await?;
        let place = places::read(part.place.clone(), now);
        position.push(Place { span: span_of(&part.range), lsn: part.items.upto(), ..place });
    }
    follower.note_overflow(table);
    let state = table.version().info.state.clone();
    table.commit(&Commit { places: position, state, time: now }, Reason::Reconcile)?;
    follower.move_hold(step.router, table.places())?;
    follower.count_commit("reconcile");
    let mut live = follower.status.live();
    live.counts.copied_items += rows.count;
    live.counts.lost_history += rest.lost_history;
    drop(live);
    let (added, lost_history) = (rows.count, rest.lost_history);
    tracing::info!(container = %follower.rid, added, ended, lost_history, "an analytical table was compared with its container");
    Ok(())
}

/// Ends of items that the log still has, and rows for the items that ran out uncopied.
async fn rest_of_log(
    step: &Step<'_>,
    table: &mut Table,
    parts: &[Part],
    rows: &mut Rows,
) -> Result<Rest, StepError> {
    let (mut rest, mut has_hole) = (Rest::default(), false);
    for part in parts {
        let after = part.place.lsn;
        rows.flush(table)?;
        table.switch(span_of(&part.range))?;
        let partition = step.entry.map.overlapping(&part.range).next();
        let partition =
            partition.ok_or_else(|| Error::internal("a part of the hash space that no range has"))?;
        let partition = partition.hosted().partition();
        if let Err(RoundError::Hole { .. }) = partition.log_round(&part.range, after).await {
            has_hole = true;
        }
        let log = partition.log_round_over_holes(&part.range, after).await;
        let log = log.map_err(|error: RoundError| StepError::Account(error.into()))?;
        let mut log = log.with(Images::Latest);
        while let Some(page) = log.next_page().await? {
            for change in page.changes.into_iter().filter(|change| change.lsn <= part.items.upto()) {
                let is_copied = change.previous_lsn > 0 && change.previous_lsn <= after;
                match (change.kind, change.old) {
                    (ChangeKind::Replace | ChangeKind::Delete, _) if is_copied => {
                        rest.ended.insert(change.ended_ordinal.unwrap_or(change.ordinal));
                    }
                    (ChangeKind::Expire, last) if !is_copied => {
                        // A row of it is of a version before the last one.
                        rest.ended.insert(change.ordinal);
                        match last {
                            Image::Record(record) => rows.push(table, record)?,
                            _ => rest.lost_history += 1,
                        }
                    }
                    _ => {}
                }
            }
        }
    }
    if has_hole && step.entry.record.container.definition.default_ttl.is_some() {
        rest.lost_history = rest.lost_history.max(1);
    }
    Ok(rest)
}

/// Whether the analytical time to live has taken away the row of an item, or would.
fn is_gone(step: &Step<'_>, table: &Table, item: &Record<'_>, after: u64) -> bool {
    let ttl = step.entry.record.container.definition.analytical_storage_ttl.filter(|ttl| *ttl > 0);
    let now = step.router.clock().now().seconds();
    let is_past = ttl.is_some_and(|ttl| item.envelope.timestamp_seconds().saturating_add(ttl as u64) <= now);
    // It was copied once, and such rows do not come back.
    let was_taken = item.envelope.lsn <= after && table.version().info.state.ends_with(RETAINED);
    is_past || was_taken
}

async fn items_of(
    parts: &mut [Part],
    is_of_pass: &(impl Fn(u64) -> bool + Sync),
    is_gone: &(impl Fn(&Record<'_>, u64) -> bool + Sync),
) -> Result<FxHashMap<u64, Item>, StepError> {
    let mut found = FxHashMap::default();
    for part in parts {
        part.items.begin_again();
        while let Some(page) = part.items.next_page().await? {
            for row in page {
                let record = decode(&row.record)?;
                let envelope = record.envelope;
                if is_of_pass(envelope.ordinal) {
                    let etag = hash_of(&envelope.etag.to_string());
                    let is_done = is_gone(&record, part.place.lsn);
                    found.insert(envelope.ordinal, Item { lsn: envelope.lsn, etag, is_done });
                }
            }
        }
    }
    Ok(found)
}

/// Marks the items that have rows, and returns the rows that end.
fn compare(
    step: &Step<'_>,
    table: &Table,
    items: &mut FxHashMap<u64, Item>,
    is_of_pass: &impl Fn(u64) -> bool,
    rest: &Rest,
) -> Result<Vec<Ended>, StepError> {
    let container = &step.entry.record.container;
    let now = step.router.clock().now().seconds();
    let mut surplus = Vec::new();
    for live in table.read() {
        let live = live?;
        let documents = history::documents_of(table, &live)?;
        for row in 0..live.batch.num_rows() {
            let name = history::name_of(&live, row)?;
            if !is_of_pass(name.ordinal) {
                continue;
            }
            let is_right = match items.get_mut(&name.ordinal) {
                Some(item) if item.lsn == name.lsn => {
                    if item.etag != hash_of(name.etag.trim_matches('"')) {
                        return Err(StepError::Apart("its rows are of other writes than the container's"));
                    }
                    item.is_done = true;
                    true
                }
                Some(_) => false,
                None if rest.ended.contains(&name.ordinal) => false,
                None => {
                    let document = history::document_of(&documents, &live, row)?;
                    has_run_out(container, &document, name.timestamp, now)
                }
            };
            if !is_right {
                surplus.push(Ended { ordinal: name.ordinal, lsn: name.lsn });
            }
        }
    }
    Ok(surplus)
}

async fn add_missing(
    table: &mut Table,
    parts: &mut [Part],
    items: &FxHashMap<u64, Item>,
    rows: &mut Rows,
) -> Result<(), StepError> {
    if items.values().all(|item| item.is_done) {
        return Ok(());
    }
    for part in parts {
        rows.flush(table)?;
        table.switch(span_of(&part.range))?;
        part.items.begin_again();
        while let Some(page) = part.items.next_page().await? {
            for row in page {
                let ordinal = decode(&row.record)?.envelope.ordinal;
                if items.get(&ordinal).is_some_and(|item| !item.is_done) {
                    rows.push(table, row.record)?;
                }
            }
        }
    }
    Ok(())
}

fn decode(record: &[u8]) -> Result<Record<'_>, Error> {
    Record::decode(record)
        .map_err(|error| Error::new(ErrorKind::Corrupt, format!("a stored item is damaged: {error}")))
}

fn hash_of(etag: &str) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write(etag.as_bytes());
    hasher.finish()
}
