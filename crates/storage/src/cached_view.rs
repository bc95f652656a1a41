//! A view with the rows that are read again and again in front of it (`row_cache.rs`).
//!
//! A row that is kept stands for the view's own if it was read from the same state or an earlier one, and nothing has written its
//! key since, the view's commits included. Then the view has the same row. Rows from later views are not used: they may have
//! been written behind this one.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use crate::cached_scan::CachedScan;
use crate::range_cache::{RangeCache, Seer};
use crate::row_cache::RowCache;
use crate::{Answer, Lookup, Scan, ScanOptions, Shard, StorageError, Value, View};

#[derive(Clone)]
pub struct CachedView {
    view: View,
    /// Counted before the view was got.
    loads: u64,
    hot: Arc<RowCache>,
    ranges: Arc<RangeCache>,
}

impl Shard {
    /// Everything that is acknowledged now, with the rows in front of it that are read again and again.
    pub fn cached_view(&self) -> CachedView {
        let hot = self.hot_rows().clone();
        let loads = hot.loads();
        CachedView { view: self.view(), loads, hot, ranges: self.hot_ranges().clone() }
    }
}

impl CachedView {
    pub fn view(&self) -> &View {
        &self.view
    }

    /// [`View::scan`], of a range that may well be asked for again.
    pub fn scan(&self, range: Range<Vec<u8>>, options: ScanOptions) -> Scan {
        let seer = Seer { seq: self.view.seq(), loads: self.loads };
        match self.ranges.family(&range) {
            Some(family) if options.fills_cache && !range.is_empty() => {
                let scan =
                    CachedScan::new(self.view.clone(), self.ranges.clone(), (seer, family), range, options);
                let rows_left = options.limit.unwrap_or(usize::MAX);
                let scan = (rows_left > 0).then(|| Box::new(scan) as _);
                Scan::new(scan, rows_left, options.read_ahead_bytes > 0)
            }
            _ => self.view.scan(range, options),
        }
    }

    /// [`View::get_many`], of rows that may well be asked for again.
    pub fn get_many(&self, keys: Vec<Bytes>) -> Lookup<Vec<Option<Value>>> {
        let values: Vec<_> = keys.iter().map(|key| self.kept(key)).collect();
        let is_unknown = values.iter().map(Option::is_none);
        let unknown: Vec<Bytes> = keys
            .into_iter()
            .zip(is_unknown)
            .filter_map(|(key, is_unknown)| is_unknown.then_some(key))
            .collect();
        if unknown.is_empty() {
            return Answer::Now(Ok(values));
        }
        match self.view.get_many(unknown.clone()) {
            Answer::Now(found) => Answer::Now(found.map(|found| self.fill(values, &unknown, found))),
            Answer::Later(found) => {
                let this = self.clone();
                Answer::later(async move {
                    let found: Result<_, StorageError> = found.await;
                    Ok(this.fill(values, &unknown, found?))
                })
            }
        }
    }

    fn kept(&self, key: &[u8]) -> Option<Value> {
        self.hot.get_of_view(key, self.view.seq(), self.loads)
    }

    /// Puts the engine's values in the gaps, and caches them.
    fn fill(
        &self,
        mut values: Vec<Option<Value>>,
        unknown: &[Bytes],
        found: Vec<Option<Value>>,
    ) -> Vec<Option<Value>> {
        let gaps = values.iter_mut().filter(|value| value.is_none());
        for ((gap, key), found) in gaps.zip(unknown).zip(found) {
            if let Some(value) = &found {
                self.hot.keep(key, value, self.view.seq(), self.loads);
            }
            *gap = found;
        }
        values
    }
}
