//! State of an index in memory, and its report.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use shardlake_catalog::{Checkpoint, PlaceRecord, RefusedRecord, SecondaryIndexRecord};
use shardlake_change_log::{Lag, LogPosition};
use shardlake_model::IndexSettings;
use shardlake_stdx::Timestamp;

/// Refused items that are listed; others are counted.
pub const REFUSALS_LISTED: usize = 1000;

/// Refusals that the catalog keeps for the time after a restart.
const REFUSALS_STORED: usize = 100;
const REFUSALS_STORED_BYTES: usize = 64 << 10;
/// The names of rows among refusals begin with it; those of items are their keys.
pub(crate) const ROW_NAME: &[u8] = b"row ";

/// Shared by the task, the saver and all readers.
#[derive(Debug)]
pub(crate) struct Status(Mutex<Live>);

#[derive(Debug, Default)]
pub(crate) struct Live {
    pub generation: u16,
    /// Progress, ahead of the stored progress. `source` has the parts that are built, each read up to an
    /// LSN; `target` has the LSNs of the source where the build began.
    pub checkpoint: Checkpoint,
    pub saved: Checkpoint,
    /// The position of its rounds, ready to be compared; `None` before the first.
    pub followed: Option<Arc<LogPosition>>,
    /// Rises with each step of the position.
    pub steps: u64,
    /// Time of the oldest change that it lacked after so many steps.
    pub lacked: Option<(u64, u64)>,
    pub items_built: u64,
    pub written: u64,
    pub deleted: u64,
    /// An obstacle: the task tries again.
    pub waits: Option<String>,
    pub last_error: Option<(String, Timestamp)>,
    /// Rows of a unique index beyond the first of their key; `None` until they are counted.
    pub duplicates: Option<u64>,
    refusals: BTreeMap<Bytes, Refusal>,
    /// Refused items beyond the listed ones, as far as they are known.
    unlisted: u64,
}

/// An item of the source that has a row which cannot be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The item's partition key in the source, as JSON text.
    pub key: String,
    pub id: String,
    pub reason: String,
}

impl Status {
    /// Of items that were refused before a restart the stored ones are listed, and the others counted: a rebuild lists them.
    pub fn new(record: &SecondaryIndexRecord, checkpoint: Checkpoint) -> Status {
        let stored = record.state.refused.iter().filter_map(known_refusal);
        let refusals: BTreeMap<Bytes, Refusal> = stored.collect();
        let unlisted = record.state.failed_rows.saturating_sub(refusals.len() as u64);
        let (generation, saved) = (record.generation, checkpoint.clone());
        Status(Mutex::new(Live { generation, checkpoint, saved, refusals, unlisted, ..Live::default() }))
    }

    pub fn live(&self) -> MutexGuard<'_, Live> {
        self.0.lock().expect("nothing panics under this lock")
    }

    pub fn note_error(&self, words: String, now: Timestamp) {
        self.live().last_error = Some((words, now));
    }

    pub fn report(
        &self,
        record: &SecondaryIndexRecord,
        (database, container): (String, String),
        rows: u64,
    ) -> IndexReport {
        let live = self.live();
        IndexReport {
            database,
            container,
            source: record.source_id.clone(),
            definition: record.definition.clone(),
            number: record.number,
            generation: record.generation,
            state: record.state.status(),
            reason: live.waits.clone().or_else(|| record.state.reason.clone()),
            percent: None,
            lag: Lag::default(),
            places: live.checkpoint.source.clone(),
            rows,
            items_built: live.items_built,
            written: live.written,
            deleted: live.deleted,
            duplicates: live.duplicates.filter(|_| record.settings.unique),
            settings: record.settings.clone(),
            refused: live.refused(),
            refusals: live.refusals.values().cloned().collect(),
            last_error: live.last_error.clone(),
        }
    }
}

/// A refusal that the catalog has.
fn known_refusal(stored: &RefusedRecord) -> Option<(Bytes, Refusal)> {
    let RefusedRecord { name, key, id, reason } = stored;
    let byte = |place: usize| u8::from_str_radix(name.get(place..place + 2)?, 16).ok();
    let name: Option<Vec<u8>> = (0..name.len()).step_by(2).map(byte).collect();
    Some((name?.into(), Refusal { key: key.clone(), id: id.clone(), reason: reason.clone() }))
}

impl Live {
    /// Number of refusals, and the first of them in the form of the catalog.
    pub fn stored_refusals(&self) -> (u64, Vec<RefusedRecord>) {
        let (mut list, mut size_bytes) = (Vec::new(), 0);
        for (name, Refusal { key, id, reason }) in self.refusals.iter().take(REFUSALS_STORED) {
            let name: String = name.iter().map(|byte| format!("{byte:02x}")).collect();
            size_bytes += name.len() + key.len() + id.len() + reason.len();
            if size_bytes > REFUSALS_STORED_BYTES {
                break;
            }
            list.push(RefusedRecord { name, key: key.clone(), id: id.clone(), reason: reason.clone() });
        }
        (self.refused(), list)
    }

    /// Another generation begins from nothing.
    pub fn begin(&mut self, generation: u16) {
        *self = Live { generation, last_error: self.last_error.take(), ..Live::default() };
    }

    pub fn refused(&self) -> u64 {
        self.refusals.len() as u64 + self.unlisted
    }

    /// Whether an item or a row is among the listed refusals.
    pub fn is_refused(&self, name: &Bytes) -> bool {
        self.refusals.contains_key(name)
    }

    /// Whether a row may be missing because it cannot be written.
    pub fn has_refused_rows(&self) -> bool {
        let first = self.refusals.range(Bytes::from_static(ROW_NAME)..).next();
        self.unlisted > 0 || first.is_some_and(|(name, _)| name.starts_with(ROW_NAME))
    }

    /// Replaces the refusal of an item; `None`: all its rows can be written.
    pub fn note_item(&mut self, item: Bytes, refusal: Option<Refusal>) {
        match refusal {
            None => drop(self.refusals.remove(&item)),
            Some(refusal) => {
                let has_room = self.refusals.len() < REFUSALS_LISTED || self.refusals.contains_key(&item);
                match has_room {
                    true => drop(self.refusals.insert(item, refusal)),
                    false => self.unlisted += 1,
                }
            }
        }
    }
}

/// An index as an operator sees it.
#[derive(Debug, Clone)]
pub struct IndexReport {
    pub database: String,
    pub container: String,
    pub source: String,
    pub definition: String,
    pub number: u32,
    pub generation: u16,
    /// The wire's `status`.
    pub state: &'static str,
    /// Why it waits or has failed.
    pub reason: Option<String>,
    /// Of the source's items, while it is built.
    pub percent: Option<u8>,
    pub lag: Lag,
    /// Parts of the source's hash space, and the last LSN whose rows are written.
    pub places: Vec<PlaceRecord>,
    pub rows: u64,
    pub items_built: u64,
    /// Rows written and deleted since the start of the server.
    pub written: u64,
    pub deleted: u64,
    /// Rows beyond the first of their key, of a unique index, once they are counted.
    pub duplicates: Option<u64>,
    pub settings: IndexSettings,
    /// Items that have rows which cannot be written.
    pub refused: u64,
    /// At most [`REFUSALS_LISTED`] of them.
    pub refusals: Vec<Refusal>,
    pub last_error: Option<(String, Timestamp)>,
}

impl IndexReport {
    /// Parts of the source's hash space, in hexadecimal, and the last LSN whose rows are written.
    pub fn places(&self) -> Vec<(String, String, u64)> {
        self.places.iter().map(|place| (place.min.clone(), place.max.clone(), place.after)).collect()
    }
}

pub(crate) fn percent(built: u64, items: u64) -> u8 {
    // Items may be deleted and created meanwhile; the end of a build is a change of state.
    let percent = built.saturating_mul(100).checked_div(items).unwrap_or(99);
    u8::try_from(percent.min(99)).expect("at most 99")
}
