//! The page that a merge fills: `OFFSET`, `LIMIT` and `TOP` over the merged rows, and the page's own limits.

use shardlake_document::Value;

use crate::error::SqlError;
use crate::execute::{PageLimits, Rows};
use crate::plan::QueryInfo;

use super::state::State;

pub(super) struct Output {
    pub rows: Rows,
    pub limits: PageLimits,
    /// Rows still to skip for `OFFSET`.
    pub skip: u64,
    /// Rows still to return for `LIMIT` or `TOP`.
    pub left: Option<u64>,
    /// An offered row did not fit.
    pub has_refused: bool,
}

impl Output {
    pub fn new(info: &QueryInfo, limits: PageLimits, state: Option<&State>) -> Output {
        let left = match (info.limit, info.top) {
            (Some(limit), Some(top)) => Some(limit.min(top)),
            (limit, top) => limit.or(top),
        };
        let (skip, left) = state.map_or((info.offset.unwrap_or(0), left), |state| (state.skip, state.left));
        Output { rows: Rows::default(), limits, skip, left, has_refused: false }
    }

    /// No further offered row would be returned.
    pub fn is_complete(&self) -> bool {
        self.left == Some(0)
    }

    /// No more rows are wanted for this page.
    pub fn is_done(&self) -> bool {
        self.has_refused || self.rows.len() >= self.limits.rows.max(1) || self.is_complete()
    }

    /// Adds a row, or skips it; false if it does not fit the page. The first row of a page always fits.
    pub fn offer(&mut self, row: &[u8]) -> bool {
        if self.skip > 0 {
            self.skip -= 1;
            return true;
        }
        let has_room = self.rows.len() < self.limits.rows.max(1)
            && self.rows.size_bytes() + row.len() <= self.limits.size_bytes;
        if !has_room && !self.rows.is_empty() {
            self.has_refused = true;
            return false;
        }
        self.rows.push_text(row);
        assert!(self.rows.len() <= self.limits.rows.max(1), "a merged page has no more rows than its limit");
        self.left = self.left.map(|left| left - 1);
        true
    }
}

/// The text of a row that the merge itself makes.
pub(super) fn row_text(value: &Value) -> Result<Vec<u8>, SqlError> {
    let mut text = Vec::new();
    value.write_json(&mut text).map_err(|_| SqlError::NotFinite)?;
    Ok(text)
}
