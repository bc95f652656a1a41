//! Resources of a page for reading, its place in the order of its access, and its work so far.

use std::fmt::Debug;
use std::hash::Hasher;
use std::sync::Arc;

use bytes::Bytes;
use rustc_hash::FxHasher;
use shardlake_index::IndexLayout;
use shardlake_model::{Error, ErrorKind, Result};
use shardlake_sql::OrderAccess;
use shardlake_storage::{CachedView, ScanOptions, Snapshot};

use super::position::{AccessPosition, KeyPosition, OrderedPosition, Place};
use super::request::QueryPageRequest;
use super::work::QueryStatistics;
use super::yield_budget::YieldBudget;
use crate::changes::reader;
use crate::core::Core;
use crate::feed::{FeedFilter, matches_filter, range_in};
use crate::interactive::TransactionView;
use crate::keys;
use crate::operation::CommandContext;
use crate::shape::ContainerSchema;

/// For a range that is read to its end.
pub(super) const TO_THE_END: ScanOptions = ScanOptions { fills_cache: true, ..ScanOptions::SWEEP };

/// Resources for reading, and the work so far.
pub(super) struct Reader<'a> {
    pub core: &'a Core,
    pub shape: &'a Arc<ContainerSchema>,
    pub layout: Option<Arc<IndexLayout>>,
    pub snapshot: Snapshot,
    /// The same, with rows that are read again in front of it.
    pub hot: CachedView,
    /// First and last-exclusive key of the items in scope, some of which the filter may leave out.
    pub scope: (Vec<u8>, Vec<u8>),
    pub now_seconds: u64,
    pub request: QueryPageRequest<'a>,
    pub statistics: QueryStatistics,
    pub turn: YieldBudget,
    /// Every item in scope meets the filter, by the definition of the scope.
    pub has_all_in_scope: bool,
}

impl<'a> Reader<'a> {
    /// A reader over the durable state.
    pub fn open(
        core: &'a Core,
        shape: &'a Arc<ContainerSchema>,
        command: &CommandContext,
        request: QueryPageRequest<'a>,
    ) -> Result<Reader<'a>> {
        let hot = request.within.map_or_else(|| core.shard().cached_view(), |within| within.hot().clone());
        core.check_open()?;
        // A generation that is being dropped is not whole in this snapshot.
        let is_whole = |layout: &Arc<IndexLayout>| {
            core.has_index(layout.id) && request.within.is_none_or(TransactionView::has_index)
        };
        let layout = shape.serving.clone().filter(is_whole);
        Ok(Reader {
            core,
            shape,
            layout,
            snapshot: hot.view().clone(),
            hot,
            scope: range_in(core.uid, keys::ITEMS, request.filter),
            now_seconds: command.now.seconds(),
            request,
            statistics: QueryStatistics::default(),
            turn: YieldBudget::default(),
            has_all_in_scope: false,
        })
    }
}

impl Reader<'_> {
    pub fn check_interrupted(&self) -> Result<()> {
        if (self.request.is_interrupted)() {
            return Err(Error::new(
                ErrorKind::Timeout,
                "the query did not finish in the time of its request: narrow its filter or read it in pages",
            ));
        }
        Ok(())
    }

    /// Whether rows may be kept for the next page: only commits change the rows, not time, functions or a transaction.
    pub fn keeps_rows(&self) -> bool {
        let request = &self.request;
        let is_shared = request.collects.is_none() && request.own().is_none() && request.within.is_none();
        let is_timeless = request.query.is_lasting() && self.shape.default_ttl.is_none();
        is_shared && is_timeless && request.query.user_functions().is_empty()
    }

    /// Whether every item of the partition is in scope.
    pub fn covers_partition(&self) -> bool {
        match self.request.filter {
            FeedFilter::Range(range) => range.contains_range(&self.core.epk_range),
            FeedFilter::Logical(_) | FeedFilter::Prefix(..) => false,
        }
    }

    /// Whether an item is, by its key.
    pub fn is_in_scope(&self, key: &[u8]) -> Result<bool> {
        let (start, end) = &self.scope;
        Ok(&start[..] <= key && key < &end[..] && matches_filter(self.request.filter, key)?)
    }

    /// How many items the partition holds in this snapshot.
    pub async fn items_total(&self) -> Result<u64> {
        let last = reader::last_entry(&self.snapshot, self.core.uid).await?;
        Ok(last.map_or(0, |(_, entry)| entry.counters.items))
    }

    /// Called after so many rows: yields to other tasks when the time slice is over.
    pub async fn give_way(&mut self, rows: usize) {
        if self.turn.is_over(rows as u64, self.request.work.meter().steps()) {
            tokio::task::yield_now().await;
        }
    }
}

/// Notes the statistics at the end, also of a page that failed.
impl Drop for Reader<'_> {
    fn drop(&mut self) {
        self.request.work.note(&self.statistics);
    }
}

/// How feeding ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    Exhausted,
    /// The page is full, or its time is spent.
    Cut,
    /// Nothing can change the result any more.
    Complete,
}

/// The last key dealt with.
pub(super) enum Last {
    /// An item key without its header.
    Item(Bytes),
    /// A key, and the item's ordinal: its place in the order of creation.
    Created(Bytes, u64),
    /// The part of a posting's key behind its path.
    Posting { branch: usize, range: usize, key: Bytes, in_group: bool, ordered: bool },
    /// An ordinal, of an item without the property that orders.
    OrderedItem(u64),
}

impl Last {
    pub fn position(self, reader: &Reader<'_>, choice: Option<u8>) -> AccessPosition {
        let in_order = |at: OrderedPosition| {
            let order = reader.request.access.order.as_ref().expect("a walk in an order has one");
            AccessPosition::Ordered { plan: fingerprint_of_order(reader, order), at }
        };
        match self {
            Last::Item(key) => AccessPosition::Scan(KeyPosition::of(&key)),
            Last::Created(key, ordinal) => {
                let logical = keys::logical_part(&key).expect("a stored key is well-formed");
                AccessPosition::Created([logical, &ordinal.to_be_bytes()].concat())
            }
            Last::OrderedItem(ordinal) => in_order(OrderedPosition::Undefined(ordinal)),
            Last::Posting { branch, range, key, in_group, ordered } => {
                let after = KeyPosition::of(&key);
                debug_assert!(branch.max(range) <= usize::from(u16::MAX), "a position has room for them");
                let place = Place { branch: branch as u16, range: range as u16, after, in_group };
                if ordered {
                    return in_order(OrderedPosition::Postings(place));
                }
                let (plan, choices) = (fingerprint(reader), choice.into_iter().collect());
                AccessPosition::Spans { plan, choices, place }
            }
        }
    }
}

/// Fingerprint of the filter plan: positions among its entries are valid for the same plan.
pub(super) fn fingerprint(reader: &Reader<'_>) -> u32 {
    hash_in(reader, &reader.request.access.filter)
}

/// Fingerprint of an order: index, direction, and the values that the filter fixes before the order begins. The rest of the filter has
/// no part in it.
pub(super) fn fingerprint_of_order(reader: &Reader<'_>, order: &OrderAccess) -> u32 {
    hash_in(reader, &(&order.index, order.reverse, &order.behind))
}

fn hash_in(reader: &Reader<'_>, meaning: &dyn Debug) -> u32 {
    let mut hasher = FxHasher::default();
    if let Some(layout) = &reader.layout {
        hasher.write_u16(layout.id);
    }
    hasher.write(format!("{meaning:?}").as_bytes());
    (hasher.finish() >> 32) as u32
}
