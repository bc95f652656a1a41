//! Scan over cached ranges, with the engine for the gaps between them (`range_cache.rs`).

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use crate::engine::EngineScan;
use crate::range_cache::{Found, RangeCache, Seer, Stretch};
use crate::rows::KeptRows;
use crate::scan::is_last_chunk;
use crate::{Answer, Row, ScanOptions, StorageError, View};

pub(crate) struct CachedScan {
    view: View,
    ranges: Arc<RangeCache>,
    seer: Seer,
    family: Box<[u8]>,
    /// The part of the range that was not returned yet.
    left: Range<Bytes>,
    options: ScanOptions,
    gap: Option<Gap>,
    /// Given with the next chunk: kept for when a future of ours is dropped, and the chunk asked for again.
    ready: Vec<Row>,
    ready_bytes: usize,
}

/// A part of the range that is read from the engine.
struct Gap {
    scan: Box<dyn EngineScan>,
    /// Where it ends, or begins for a scan that goes backwards.
    bound: Bytes,
    /// Its rows are to be kept.
    is_wanted: bool,
    /// How many rows the chunk was asked for that has not come yet.
    asked: Option<usize>,
}

impl Gap {
    /// Requests a chunk, or polls the request under way again.
    fn ask(&mut self, rows_max: usize) -> Answer<'_, Vec<Row>> {
        let asked = *self.asked.get_or_insert(rows_max.max(1));
        self.scan.next_chunk(asked)
    }
}

impl CachedScan {
    pub fn new(
        view: View,
        ranges: Arc<RangeCache>,
        (seer, family): (Seer, Box<[u8]>),
        range: Range<Vec<u8>>,
        options: ScanOptions,
    ) -> CachedScan {
        ranges.note_scan(&family);
        CachedScan {
            view,
            ranges,
            seer,
            family,
            left: Bytes::from(range.start)..Bytes::from(range.end),
            options,
            gap: None,
            ready: Vec::new(),
            ready_bytes: 0,
        }
    }

    fn is_over(&self) -> bool {
        self.left.start >= self.left.end
    }

    fn is_ready(&self, rows_max: usize) -> bool {
        self.is_over() || self.ready.len() >= rows_max || self.ready_bytes >= ScanOptions::CHUNK_BYTES
    }

    fn give(&mut self, rows_max: usize) -> Vec<Row> {
        let more = self.ready.split_off(rows_max.min(self.ready.len()));
        self.ready_bytes = more.iter().map(size_bytes).sum();
        std::mem::replace(&mut self.ready, more)
    }

    /// Passes over all cached stretches, or begins to read a gap. `pass` gets the rows of a stretch
    /// that are in the range, and returns how many of them it took and whether it has enough.
    fn walk(&mut self, mut pass: impl FnMut(&mut Self, &Stretch, Range<usize>) -> (usize, bool)) {
        while self.gap.is_none() && !self.is_over() {
            let stretch = match self.ranges.find(&self.family, &self.left, self.options.reverse, self.seer) {
                Found::Stretch(stretch) => stretch,
                Found::Gap(bound) => return self.open_gap(bound),
            };
            let places = stretch.places(&self.left);
            let (taken, is_enough) = pass(self, &stretch, places.clone());
            self.move_past(&stretch, &places, taken);
            if is_enough {
                return;
            }
        }
    }

    /// Behind so many rows of a stretch, or behind all of it.
    fn move_past(&mut self, stretch: &Stretch, places: &Range<usize>, taken: usize) {
        assert!(taken <= places.len(), "a scan takes no more rows than a cached range has");
        let is_all = taken == places.len();
        if self.options.reverse {
            self.left.end = match taken {
                _ if is_all => stretch.from.clone().max(self.left.start.clone()),
                0 => return,
                _ => stretch.rows[places.end - taken].0.clone(),
            };
        } else {
            self.left.start = match taken {
                _ if is_all => stretch.to.clone().min(self.left.end.clone()),
                0 => return,
                _ => after(&stretch.rows[places.start + taken - 1].0),
            };
        }
    }

    fn open_gap(&mut self, bound: Bytes) {
        let (start, end) = if self.options.reverse {
            (bound.to_vec(), self.left.end.to_vec())
        } else {
            (self.left.start.to_vec(), bound.to_vec())
        };
        let place = if self.options.reverse { &end } else { &start };
        let is_wanted = self.ranges.was_seen(place);
        let scan = self.view.engine_scan(start..end, self.options);
        self.gap = Some(Gap { scan, bound, is_wanted, asked: None });
    }

    /// Handles rows that the engine read of a gap.
    fn take_chunk(&mut self, rows: &[Row]) {
        let Some(gap) = &mut self.gap else { return };
        let asked = gap.asked.take().unwrap_or(usize::MAX);
        let is_last = rows.is_empty() || is_last_chunk(rows, asked);
        let reached = match rows.last() {
            Some((key, _)) if !is_last && self.options.reverse => key.clone(),
            Some((key, _)) if !is_last => after(key),
            _ => gap.bound.clone(),
        };
        let range = if self.options.reverse {
            reached.clone()..std::mem::replace(&mut self.left.end, reached)
        } else {
            std::mem::replace(&mut self.left.start, reached.clone())..reached
        };
        if gap.is_wanted {
            if self.options.reverse {
                let rows: Vec<Row> = rows.iter().rev().cloned().collect();
                self.ranges.keep(&self.family, range, &rows, self.seer);
            } else {
                self.ranges.keep(&self.family, range, rows, self.seer);
            }
        }
        if is_last {
            self.gap = None;
        }
    }

    fn add(&mut self, rows: Vec<Row>) {
        self.take_chunk(&rows);
        self.ready_bytes += rows.iter().map(size_bytes).sum::<usize>();
        debug_assert!(
            self.ready.last().zip(rows.first()).is_none_or(|((last, _), (first, _))| {
                if self.options.reverse { last > first } else { last < first }
            }),
            "a scan returns rows in the order of their keys"
        );
        if self.ready.is_empty() {
            self.ready = rows;
        } else {
            self.ready.extend(rows);
        }
    }

    fn collect_kept(&mut self, rows_max: usize) {
        self.walk(|this, stretch, places| {
            let taken = this.copy_rows(stretch, places, rows_max);
            (taken, this.is_ready(rows_max))
        });
    }

    fn copy_rows(&mut self, stretch: &Stretch, places: Range<usize>, rows_max: usize) -> usize {
        let wanted = places.len().min(rows_max.saturating_sub(self.ready.len()));
        self.ready.reserve(wanted);
        for taken in 0..wanted {
            if self.ready_bytes >= ScanOptions::CHUNK_BYTES {
                return taken;
            }
            let place = if self.options.reverse { places.end - 1 - taken } else { places.start + taken };
            let row = &stretch.rows[place];
            self.ready_bytes += size_bytes(row);
            self.ready.push(row.clone());
        }
        wanted
    }

    /// Returns a chunk of an engine that answers later.
    async fn chunk_later(&mut self, rows_max: usize) -> Result<Vec<Row>, StorageError> {
        while !self.is_ready(rows_max) {
            self.collect_kept(rows_max);
            if self.is_ready(rows_max) {
                break;
            }
            let missing = rows_max - self.ready.len();
            if let Some(gap) = &mut self.gap {
                let rows = gap.ask(missing).await?;
                self.add(rows);
            }
        }
        Ok(self.give(rows_max))
    }

    async fn count_later(&mut self, rows_max: usize) -> Result<usize, StorageError> {
        let mut count = self.count_ready();
        while count == 0 && !self.is_over() {
            count = self.count_kept(rows_max);
            if let Some(gap) = &mut self.gap
                && count == 0
            {
                if gap.is_wanted {
                    let rows = gap.ask(rows_max).await?;
                    self.take_chunk(&rows);
                    count = rows.len();
                } else {
                    count = gap.scan.count_chunk(rows_max).await?;
                    self.pass_counted(count);
                }
            }
        }
        Ok(count)
    }

    /// Counts the rows that were read and not returned, and removes them.
    fn count_ready(&mut self) -> usize {
        self.ready_bytes = 0;
        std::mem::take(&mut self.ready).len()
    }

    fn count_kept(&mut self, rows_max: usize) -> usize {
        let mut count = 0;
        self.walk(|_, _, places| {
            let taken = places.len().min(rows_max - count);
            count += taken;
            (taken, count == rows_max)
        });
        assert!(count <= rows_max, "a scan counts no more rows than it was asked for");
        count
    }

    /// Where the engine has counted up to is not known before the end of the gap.
    fn pass_counted(&mut self, count: usize) {
        if count == 0
            && let Some(gap) = self.gap.take()
        {
            if self.options.reverse {
                self.left.end = gap.bound;
            } else {
                self.left.start = gap.bound;
            }
        }
    }
}

impl EngineScan for CachedScan {
    fn next_kept(&mut self, rows_max: usize) -> Option<KeptRows> {
        // Rows read ahead of a stretch come first, and backwards the rows would have to be
        // reversed.
        if !self.ready.is_empty() || self.gap.is_some() || self.options.reverse {
            return None;
        }
        while !self.is_over() {
            let Found::Stretch(stretch) = self.ranges.find(&self.family, &self.left, false, self.seer) else {
                return None;
            };
            let places = stretch.places(&self.left);
            let taken = places.len().min(rows_max);
            self.move_past(&stretch, &places, taken);
            if taken > 0 {
                let places = places.start..places.start + taken;
                return Some(KeptRows { rows: stretch.rows.clone(), places });
            }
        }
        None
    }

    fn next_chunk(&mut self, rows_max: usize) -> Answer<'_, Vec<Row>> {
        self.collect_kept(rows_max);
        if !self.is_ready(rows_max) && !self.view.reads_at_once() {
            return Answer::later(self.chunk_later(rows_max));
        }
        while !self.is_ready(rows_max) {
            self.collect_kept(rows_max);
            if self.is_ready(rows_max) {
                break;
            }
            let missing = rows_max - self.ready.len();
            let Some(gap) = &mut self.gap else { continue };
            let Answer::Now(rows) = gap.ask(missing) else {
                // Asked for again, which an engine is prepared for that mostly answers at once.
                return Answer::later(self.chunk_later(rows_max));
            };
            match rows {
                Ok(rows) => self.add(rows),
                Err(error) => return Answer::Now(Err(error)),
            }
        }
        Answer::Now(Ok(self.give(rows_max)))
    }

    fn count_chunk(&mut self, rows_max: usize) -> Answer<'_, usize> {
        let mut count = self.count_ready();
        if count == 0 {
            count = self.count_kept(rows_max);
        }
        if count == 0 && !self.is_over() && !self.view.reads_at_once() {
            return Answer::later(self.count_later(rows_max));
        }
        while count == 0 && !self.is_over() {
            count = self.count_kept(rows_max);
            let Some(gap) = &mut self.gap else { continue };
            if count > 0 {
                continue;
            }
            let is_wanted = gap.is_wanted;
            let counted = if is_wanted {
                let Answer::Now(rows) = gap.ask(rows_max) else {
                    return Answer::later(self.count_later(rows_max));
                };
                rows.map(|rows| {
                    self.take_chunk(&rows);
                    rows.len()
                })
            } else {
                let Answer::Now(counted) = gap.scan.count_chunk(rows_max) else {
                    return Answer::later(self.count_later(rows_max));
                };
                counted.inspect(|count| self.pass_counted(*count))
            };
            match counted {
                Ok(counted) => count = counted,
                Err(error) => return Answer::Now(Err(error)),
            }
        }
        Answer::Now(Ok(count))
    }
}

fn size_bytes((key, value): &Row) -> usize {
    key.len() + value.len()
}

/// The first key behind this one.
fn after(key: &[u8]) -> Bytes {
    let mut after = Vec::with_capacity(key.len() + 1);
    after.extend_from_slice(key);
    after.push(0);
    Bytes::from(after)
}
