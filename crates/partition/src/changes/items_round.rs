//! A part of a span's items in one view of the engine: the first copy of a follower.
//!
//! A chunk ends between two hashes, so that it cuts no logical partition and the part that it
//! covers is a span again: `(span, upto)` is a position in the log, and rounds follow from there.
//! Expired items that are still stored are among the items, as readers of the log meet them.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use shardlake_model::{Error, Result};
use shardlake_routing::{Epk, KeyRange};
use shardlake_storage::{Row, Scan, ScanOptions};

use super::round::RoundView;
use crate::core::Core;
use crate::keys::{self, HEADER, ITEMS};

/// Items of a span, up to a number, in one view.
pub struct ItemsRound {
    view: RoundView,
    items_max: usize,
    /// In a mutex that is never locked, so that the round can be shared.
    scan: Mutex<Scan>,
    rows: VecDeque<Row>,
    taken: usize,
    /// The hash of the last item that was taken.
    last: Option<Epk>,
    /// Where the chunk ends, once that is known.
    end: Option<Epk>,
    is_reading: bool,
}

/// A stored item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ItemRow {
    /// Item key without partition and space, as in [`crate::LogChange::key`].
    pub key: Bytes,
    /// As `shardlake_document::Record` decodes it.
    pub record: Bytes,
}

impl std::fmt::Debug for ItemsRound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ItemsRound")
            .field("view", &self.view)
            .field("taken", &self.taken)
            .finish_non_exhaustive()
    }
}

impl ItemsRound {
    pub(crate) async fn begin(core: &Arc<Core>, span: &KeyRange, items_max: usize) -> Result<ItemsRound> {
        let view = RoundView::new(core, span).await?;
        let (start, end) = keys::epk_range_in(core.uid, ITEMS, &view.span);
        let scan = view.view.scan(start..end, ScanOptions::SWEEP);
        Ok(ItemsRound {
            view,
            items_max: items_max.max(1),
            scan: Mutex::new(scan),
            rows: VecDeque::new(),
            taken: 0,
            last: None,
            end: None,
            is_reading: false,
        })
    }

    /// Begins anew with the first item, in the same view.
    pub fn begin_again(&mut self) {
        let (start, end) = keys::epk_range_in(self.view.core.uid, ITEMS, &self.view.span);
        self.scan = Mutex::new(self.view.view.scan(start..end, ScanOptions::SWEEP));
        self.rows.clear();
        (self.taken, self.last, self.end, self.is_reading) = (0, None, None, false);
    }

    pub fn view(&self) -> &RoundView {
        &self.view
    }

    /// LSN of the last commit in the view: rounds of [`ItemsRound::covered`] begin behind it.
    pub fn upto(&self) -> u64 {
        self.view.upto()
    }

    /// See [`RoundView::durable`].
    pub async fn durable(&self) -> Result<()> {
        self.view.durable().await
    }

    /// The next items in the order of their keys; `None` at the end of the chunk. After an error, or
    /// a call that was dropped, the round has to be begun again.
    pub async fn next_page(&mut self) -> Result<Option<Vec<ItemRow>>> {
        if std::mem::replace(&mut self.is_reading, true) {
            return Err(Error::internal("a round goes on behind a page that was dropped"));
        }
        self.view.core.check_open()?;
        let page = self.read_page().await?;
        self.is_reading = false;
        Ok(page)
    }

    fn scan(&mut self) -> &mut Scan {
        self.scan.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    async fn read_page(&mut self) -> Result<Option<Vec<ItemRow>>> {
        if self.end.is_some() {
            return Ok(None);
        }
        if self.rows.is_empty() {
            match self.scan().next_chunk().await.map_err(crate::storage_error)? {
                Some(rows) => self.rows = rows.into(),
                None => {
                    self.end = Some(self.view.span.max.clone());
                    return Ok(None);
                }
            }
        }
        let mut page = Vec::with_capacity(self.rows.len());
        while let Some((key, record)) = self.rows.pop_front() {
            let key = Bytes::copy_from_slice(&key[HEADER..]);
            let epk = keys::parse_item_key(&key).ok_or_else(crate::malformed_key)?.0.epk;
            if self.taken >= self.items_max
                && let Some(cut) = self.last.as_ref().and_then(|last| cut_between(last, &epk))
            {
                self.end = Some(cut);
                break;
            }
            debug_assert!(
                self.last.as_ref().is_none_or(|last| *last <= epk),
                "items come in the order of hashes"
            );
            (self.last, self.taken) = (Some(epk), self.taken + 1);
            page.push(ItemRow { key, record });
        }
        Ok((!page.is_empty()).then_some(page))
    }

    /// The part of the span that the chunk has every item of. Only after its last page.
    pub fn covered(&self) -> Option<KeyRange> {
        self.end.clone().map(|max| KeyRange { min: self.view.span.min.clone(), max })
    }

    /// The part of the span that is left for the next chunk; `None` where there is none.
    pub fn rest(&self) -> Option<KeyRange> {
        let rest = KeyRange { min: self.end.clone()?, max: self.view.span.max.clone() };
        (!rest.is_empty()).then_some(rest)
    }
}

/// A bound above one hash and not above the next one. Trailing zero bytes have no meaning in a bound.
fn cut_between(last: &Epk, next: &Epk) -> Option<Epk> {
    let mut bound = next.clone();
    while bound.0.last() == Some(&0) {
        bound.0.pop();
    }
    (*last < bound).then_some(bound)
}
