//! Every item against its row, and every row against its item.
//!
//! Items are read in one view of each partition; then the table follows at least that far. Items that changed in between are
//! not compared: the log names them.

use std::collections::BTreeMap;
use std::hash::Hasher;

use rustc_hash::{FxHashSet, FxHasher};
use shardlake_analytical_table::rows::{normal_form, normal_form_of};
use shardlake_analytical_table::table::Table;
use shardlake_document::{Record, Value};
use shardlake_model::{Error, ErrorKind, ItemRid};
use shardlake_partition::{Images, Round};

use super::history::{self, has_run_out};
use super::round;
use super::step::{Step, StepError};
use super::tracked::Tracked;
use crate::report::OrderReport;

/// Items compared in one pass over the container and the table; each takes some 50 bytes.
const PASS_ITEMS: u64 = 2_000_000;
/// Rows past the analytical time to live may be there or not for so long, in seconds.
const RETENTION_SLACK: u64 = 180;
/// Differences that the report names.
const NAMED_MAX: usize = 5;

#[derive(Default)]
struct Compared {
    items: u64,
    rows: u64,
    history: u64,
    differences: u64,
    named: Vec<String>,
}

impl Compared {
    fn differs(&mut self, text: impl FnOnce() -> String) {
        self.differences += 1;
        if self.named.len() < NAMED_MAX {
            self.named.push(text());
        }
    }

    fn outcome(&self) -> String {
        let counts = format!("{} items, {} rows, {} of them history", self.items, self.rows, self.history);
        match self.differences {
            0 => format!("{counts}: no difference"),
            differences => format!("{counts}: {differences} differences, such as {}", self.named.join("; ")),
        }
    }
}

/// Carries an order out.
pub async fn step(
    follower: &Tracked,
    step: &Step<'_>,
    table: &mut Table,
    number: u64,
) -> Result<(), StepError> {
    let items: u64 = step.entry.map.iter().map(|partition| partition.items()).sum();
    let passes = items.max(table.status().rows) / PASS_ITEMS + 1;
    let mut compared = Compared::default();
    for pass in 0..passes {
        compare(follower, step, table, (pass, passes), &mut compared).await?;
    }
    let time = step.router.clock().now().seconds();
    let (outcome, is_right) = (compared.outcome(), compared.differences == 0);
    if !is_right {
        tracing::warn!(container = %follower.rid, outcome, "an analytical table differs from its container");
    }
    follower.status.live().orders.finish(OrderReport { number, order: "verify", outcome, is_right, time });
    Ok(())
}

/// The items whose ordinals belong to a pass.
async fn compare(
    follower: &Tracked,
    step: &Step<'_>,
    table: &mut Table,
    (pass, passes): (u64, u64),
    compared: &mut Compared,
) -> Result<(), StepError> {
    let is_of_pass = |ordinal: u64| ordinal % passes == pass;
    // By ordinal and LSN.
    let mut items: BTreeMap<(u64, u64), (u64, u64)> = BTreeMap::new();
    let mut read_to = Vec::new();
    let mut rests = step.rests(step.now_ms());
    for partition in step.entry.map.iter() {
        let range = partition.epk_range().clone();
        let mut view = partition.hosted().partition().items_round(&range, usize::MAX).await?;
        rests.note_view();
        while let Some(page) = view.next_page().await? {
            for item in page {
                let record = Record::decode(&item.record).map_err(|error| {
                    Error::new(ErrorKind::Corrupt, format!("a stored item is damaged: {error}"))
                })?;
                let envelope = record.envelope;
                if is_of_pass(envelope.ordinal) {
                    let content =
                        hash_of(&normal_form_of(table.schema(), record.body), &envelope.etag.to_string());
                    items.insert((envelope.ordinal, envelope.lsn), (envelope.timestamp_seconds(), content));
                }
            }
            rests.pause().await;
        }
        read_to.push((partition.clone(), range, view.upto()));
    }
    while !round::step(follower, step, table).await?.is_level {}
    let mut changed: FxHashSet<u64> = FxHashSet::default();
    for (partition, range, upto) in read_to {
        let log = partition.hosted().partition().log_round(&range, upto).await.map_err(Error::from)?;
        note_changed(&mut changed, log.with(Images::None)).await?;
    }
    compared.items += items.len() as u64;
    let container = &step.entry.record.container;
    let now = step.router.clock().now().seconds();
    let ttl = container.definition.analytical_storage_ttl.filter(|ttl| *ttl > 0).map(|ttl| ttl as u64);
    let is_retained_away = |timestamp: u64| {
        ttl.is_some_and(|ttl| timestamp.saturating_add(ttl) <= now.saturating_add(RETENTION_SLACK))
    };
    for live in table.read() {
        let live = live?;
        rests.note_view(); // files are read, and no view
        rests.pause().await;
        let documents = history::documents_of(table, &live)?;
        for row in 0..live.batch.num_rows() {
            let name = history::name_of(&live, row)?;
            if !is_of_pass(name.ordinal) {
                continue;
            }
            compared.rows += 1;
            if changed.contains(&name.ordinal) {
                items.remove(&(name.ordinal, name.lsn));
                continue;
            }
            let document = history::document_of(&documents, &live, row)?;
            match items.remove(&(name.ordinal, name.lsn)) {
                Some((timestamp, content)) => {
                    let same = normal_form(table.schema().mode(), document);
                    let etag = name.etag.trim_matches('"');
                    if content != hash_of(&same, etag) || timestamp != name.timestamp {
                        compared.differs(|| format!("the row of {} differs from its item", name.rid));
                    }
                }
                None if has_run_out(container, &document, name.timestamp, now) => compared.history += 1,
                None if is_retained_away(name.timestamp) => {}
                None => {
                    compared.differs(|| format!("{} at LSN {} has a row and no item", name.rid, name.lsn))
                }
            }
        }
    }
    for ((ordinal, lsn), (timestamp, _)) in items {
        if !changed.contains(&ordinal) && !is_retained_away(timestamp) {
            let rid = ItemRid { container: container.rid, ordinal }.text();
            compared.differs(|| format!("{rid} at LSN {lsn} has no row"));
        }
    }
    Ok(())
}

async fn note_changed(changed: &mut FxHashSet<u64>, mut log: Round) -> Result<(), StepError> {
    while let Some(page) = log.next_page().await? {
        for change in page.changes {
            changed.insert(change.ordinal);
            changed.extend(change.ended_ordinal);
        }
    }
    Ok(())
}

fn hash_of(document: &Value, etag: &str) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write(format!("{document:?}").as_bytes());
    hasher.write(etag.as_bytes());
    hasher.finish()
}
