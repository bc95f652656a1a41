//! A page of rows: the outcome of each item, the rows and the state for the next page.

use super::kept::KeptRows;
use super::rows::Rows;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    More,
    /// The page is full. The current item was processed partly or not at all: the next page starts with it.
    PageFull,
    /// No further item can change the result.
    Complete,
}

#[derive(Debug)]
pub struct PageOutput {
    pub rows: Rows,
    /// The state for the next page; `None` when the items alone determine where to resume.
    pub state: Option<Vec<u8>>,
    /// The next page must be fed everything again, from the first item.
    pub rescan: bool,
    /// `Execution::calls_made` at the end.
    pub calls_made: u64,
    /// Rows that were collected and skipped for `OFFSET`.
    pub skipped: u64,
    /// Rows for the next page, valid until an item or the definition changes.
    pub kept: Option<KeptRows>,
}
