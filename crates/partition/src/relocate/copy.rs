//! Copies one snapshot of each source, space by space in the order of the keys, into the targets'
//! shards past their logs. Where there are several sources, their rows are merged by key.
//!
//! Bounded memory: a chunk of rows per source and target, and one bit per item where there are two targets.

use std::sync::atomic::Ordering;

use bytes::{Bytes, BytesMut};
use shardlake_model::Result;
use shardlake_storage::{Batch, BulkLoad, Row, Scan, ScanOptions, Snapshot};

use super::ordinals::OrdinalSet;
use super::{Relocation, SeededBug, TargetState};
use crate::cpu_pool::HEAVY_BYTES;
use crate::item::StoredItem;
use crate::keys::{
    self, CHANGE_LOG, CREATED, EXPIRY, HEADER, ITEMS, ORDINALS, POSTINGS, SIZES, UNIQUE_KEYS, VERSIONS,
};
use crate::log::entry::{Counters, LogEntry};

/// Rows collected for a target before they are handed to its load.
const CHUNK_ROWS: usize = 512;
/// Their bytes, whichever comes first: a few items may be large.
const CHUNK_BYTES: usize = 1024 * 1024;

/// Rows read between two looks at whether to rest; fewer where they are large.
const PIECE_ROWS: u32 = 512;

/// The copied spaces, in the order of the keys: items before postings, since they decide where
/// those go. Counters are counted anew when a query asks for them.
const SPACES: [u8; 9] =
    [EXPIRY, ITEMS, CHANGE_LOG, CREATED, ORDINALS, SIZES, UNIQUE_KEYS, VERSIONS, POSTINGS];

/// The rows of one source's space, a chunk ahead.
struct Cursor {
    scan: Scan,
    rows: std::vec::IntoIter<Row>,
    head: Option<Row>,
}

impl Cursor {
    /// The next row; [`Cursor::fill`] must be called first where this returns `false`.
    fn advance(&mut self) -> bool {
        self.head = self.rows.next();
        self.head.is_some()
    }

    /// Reads on when all rows are used up. There may be none.
    async fn fill(&mut self) -> Result<()> {
        if let Some(rows) = self.scan.next_chunk().await.map_err(crate::storage_error)? {
            self.rows = rows.into_iter();
        }
        self.head = self.rows.next();
        Ok(())
    }

    fn rest(&self) -> Option<&[u8]> {
        self.head.as_ref().map(|(key, _)| &key[HEADER..])
    }
}

/// A target's load and the rows on their way to it.
struct Loading {
    load: BulkLoad,
    rows: Vec<Row>,
    size_bytes: usize,
}

impl Loading {
    /// Adds a row, and returns whether it is time to hand the rows over.
    fn add(&mut self, row: Row) -> bool {
        self.size_bytes += row.0.len() + row.1.len();
        self.rows.push(row);
        self.rows.len() >= CHUNK_ROWS || self.size_bytes >= CHUNK_BYTES
    }

    async fn hand_over(&mut self) -> Result<()> {
        self.size_bytes = 0;
        let rows = std::mem::replace(&mut self.rows, Vec::with_capacity(CHUNK_ROWS));
        self.load.push(rows).await.map_err(crate::storage_error)
    }

    async fn finish(mut self) -> Result<()> {
        if !self.rows.is_empty() {
            self.load.push(self.rows).await.map_err(crate::storage_error)?;
        }
        self.load.finish().await.map(drop).map_err(crate::storage_error)
    }
}

/// State that the copy collects on its way.
struct Copied {
    states: Vec<TargetState>,
    /// The items of the second of two targets.
    second: OrdinalSet,
}

impl Relocation {
    /// The targets' key ranges hold nothing yet.
    pub async fn copy(&mut self) -> Result<()> {
        let mut snapshots = Vec::with_capacity(self.sources.len());
        let mut positions = Vec::with_capacity(self.sources.len());
        for source in &self.sources {
            // It shows nothing that may still fail in the source, so nothing of that kind reaches a target.
            let snapshot = source.shard().snapshot();
            positions.push(keys::last_log_lsn(&snapshot, source.uid).await?);
            snapshots.push(snapshot);
        }
        let items = self.sources.iter().map(|source| source.items()).sum();
        self.progress.items.store(items, Ordering::Relaxed);
        self.progress.items_copied.store(0, Ordering::Relaxed);
        let generations: Vec<u16> = self.maintained.layouts.iter().map(|layout| layout.id).collect();
        let state = |_| TargetState {
            counters: Counters::default(),
            positions: positions.clone(),
            generations: generations.clone(),
        };
        let mut copied =
            Copied { states: (0..self.targets.len()).map(state).collect(), second: OrdinalSet::default() };
        let mut loads: Vec<Loading> = Vec::with_capacity(self.targets.len());
        for target in &self.targets {
            let load = target.shard.bulk_load();
            loads.push(Loading { load, rows: Vec::with_capacity(CHUNK_ROWS), size_bytes: 0 });
        }
        let mut outcome = self.copy_spaces(&snapshots, &mut loads, &mut copied).await;
        // Every load ends before the copy returns, also after a failure: the caller drops the targets next, and a load that is
        // still at work would fill a target again after that.
        for load in loads {
            outcome = outcome.and(load.finish().await);
        }
        outcome?;
        for (target, state) in self.targets.iter_mut().zip(copied.states) {
            let mut batch = Batch::new();
            batch.put(keys::relocation_key(target.uid()), state.encode());
            batch.put(keys::created_mark_key(target.uid()), Bytes::new());
            target.shard.commit_in_background(batch).await.map_err(crate::storage_error)?;
            target.state = state;
        }
        Ok(())
    }

    async fn copy_spaces(
        &self,
        snapshots: &[Snapshot],
        loads: &mut [Loading],
        copied: &mut Copied,
    ) -> Result<()> {
        let mut work = self.paced_work().on_its_own_thread();
        for space in SPACES {
            let mut cursors = Vec::with_capacity(self.sources.len());
            for (source, snapshot) in self.sources.iter().zip(snapshots) {
                let (start, end) = keys::space_range(source.uid, space);
                let scan = snapshot.scan(start..end, ScanOptions::SWEEP);
                let mut cursor = Cursor { scan, rows: Vec::new().into_iter(), head: None };
                cursor.fill().await?;
                cursors.push(cursor);
            }
            let (mut steps, mut read_bytes) = (0u32, 0);
            while let Some(least) = least(&cursors) {
                let (key, value) = cursors[least].head.take().expect("the least has a head");
                // Rows come by hundreds of thousands a second: nothing is awaited for one.
                if !cursors[least].advance() {
                    cursors[least].fill().await?;
                }
                let size_bytes = value.len();
                match space {
                    CHANGE_LOG => {
                        let mut entry = LogEntry::decode(&value)?;
                        for cursor in &mut cursors {
                            if cursor.rest() == Some(&key[HEADER..]) {
                                let (_, value) = cursor.head.take().expect("it has that key");
                                entry.join(LogEntry::decode(&value)?);
                                if !cursor.advance() {
                                    cursor.fill().await?;
                                }
                            }
                        }
                        for (place, load) in loads.iter_mut().enumerate() {
                            let part = entry.part(|key| self.target_of(key) == place);
                            let row = || (self.renumbered(key.clone(), place), Bytes::from(part.encode()));
                            if !part.operations.is_empty() && load.add(row()) {
                                load.hand_over().await?;
                            }
                        }
                    }
                    _ => {
                        if let Some(place) = self.place_of(space, &key, &value, copied)? {
                            let is_full = loads[place].add((self.renumbered(key, place), value));
                            if is_full {
                                loads[place].hand_over().await?;
                            }
                        }
                    }
                }
                steps += 1;
                read_bytes += size_bytes;
                if steps.is_multiple_of(PIECE_ROWS) || read_bytes > HEAVY_BYTES {
                    read_bytes = 0;
                    self.progress.check()?;
                    work.pause().await;
                }
            }
        }
        Ok(())
    }

    /// Which target a row goes to; none for a row that is not carried over.
    fn place_of(&self, space: u8, key: &[u8], value: &Bytes, copied: &mut Copied) -> Result<Option<usize>> {
        let rest = &key[HEADER..];
        let place = match space {
            ITEMS => {
                let item = StoredItem::decode(value.clone(), &self.shape)?;
                let place = self.target_of(rest);
                let counters = &mut copied.states[place].counters;
                counters.items += 1;
                counters.size_bytes += item.json_size_bytes() as u64;
                if place == 1 {
                    copied.second.insert(item.envelope().ordinal);
                }
                self.progress.items_copied.fetch_add(1, Ordering::Relaxed);
                place
            }
            // The mark that the queue is whole is for the end of the relocation.
            EXPIRY => match keys::parse_expiry_key(rest) {
                Some((_, item)) => self.target_of(item),
                None => return Ok(None),
            },
            ORDINALS => self.target_of(value),
            // The targets have marks of their own.
            CREATED if rest.is_empty() => return Ok(None),
            CREATED => self.target_of(rest),
            SIZES | VERSIONS => self.target_of(rest),
            UNIQUE_KEYS => self.target_of(keys::after_unique_slot(rest).ok_or_else(crate::malformed_key)?.1),
            _ => {
                let (index_id, rest) = rest.split_first_chunk().ok_or_else(crate::malformed_key)?;
                let index_id = u16::from_be_bytes(*index_id);
                if self.maintained.layouts.iter().all(|layout| layout.id != index_id) {
                    return Ok(None);
                }
                let ordinal = rest.last_chunk().ok_or_else(crate::malformed_key)?;
                let is_second = copied.second.contains(u64::from_be_bytes(*ordinal));
                usize::from(is_second && !self.has_bug(SeededBug::MisroutedPostings))
            }
        };
        Ok(Some(place))
    }

    /// In place, where the key has no other owner.
    fn renumbered(&self, key: Bytes, place: usize) -> Bytes {
        let mut key = BytesMut::from(key);
        key[..4].copy_from_slice(&self.targets[place].uid().0.to_be_bytes());
        key.freeze()
    }
}

/// The cursor with the least key.
fn least(cursors: &[Cursor]) -> Option<usize> {
    if let [cursor] = cursors {
        return cursor.head.is_some().then_some(0);
    }
    let heads = cursors.iter().enumerate().filter_map(|(place, cursor)| Some((cursor.rest()?, place)));
    heads.min().map(|(_, place)| place)
}
