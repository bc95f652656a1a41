//! Items in the order of an index: the entries of a path or of a composite index, forwards or backwards, and before them (or,
//! descending, behind them) the items that lack the property, which have no entry unless the path is included explicitly.
//!
//! An index holds the entries of all items of the partition. Where the scope is a part of it, a
//! partition key most of all, the entries of others are passed over: no more of them than the scope
//! has items. Then the page continues in the scope itself (`nearest.rs`), because a walk that costs
//! as much as the whole scope has no advantage. So no page does more than twice the work of the
//! better way, whichever that is.
//!
//! Items that lack it are found by a scan, which a counter of the path's items often shows to be needless: a partition counts
//! a path from the first query that orders by it. Strings too long for the index have equal entries, and so have arrays and
//! objects; such a group is loaded and sorted by the values themselves.

use std::ops::Range;

use shardlake_index::path_hash;
use shardlake_model::{Error, Result};
use shardlake_sql::{IndexRef, OrderAccess};
use shardlake_storage::ScanOptions;

use super::ahead::Ahead;
use super::feed::Feed;
use super::nearest;
use super::position::OrderedPosition;
use super::reader::{Ended, Last, Reader};
use super::scope::ScopeItems;
use super::start::{Start, narrowed};
use super::walk::{Walk, is_proven, offer_undefined};
use crate::index;
use crate::key_list::KeyList;
use crate::keys::{self, HEADER};

pub(super) struct Ordered<'p> {
    order: &'p OrderAccess,
    /// Items without the property come into question.
    undefined: bool,
    at: Option<OrderedPosition>,
}

impl<'p> Ordered<'p> {
    /// Opens the access. Also returns the path whose items should be counted from now on, if any.
    pub async fn open(
        reader: &mut Reader<'p>,
        order: &'p OrderAccess,
        at: Option<OrderedPosition>,
    ) -> Result<(Ordered<'p>, Option<(u16, u64)>)> {
        let (mut undefined, mut wants_counter) = (false, None);
        let layout =
            reader.layout.clone().ok_or_else(|| Error::internal("an ordered access without an index"))?;
        if let IndexRef::Path(path) = &order.index
            && order.includes_undefined
            && !layout.writes_undefined(path)
        {
            let path_hash = path_hash(path);
            let key = index::counter_key(reader.core.uid, layout.id, path_hash);
            match reader.snapshot.get(&key).await.map_err(crate::storage_error)? {
                Some(count) => undefined = index::decode_counter(&count)? < reader.items_total().await?,
                None => (undefined, wants_counter) = (true, Some((layout.id, path_hash))),
            }
        }
        Ok((Ordered { order, undefined, at }, wants_counter))
    }
}

pub(super) async fn run(reader: &mut Reader<'_>, feed: &mut Feed<'_>, ordered: Ordered<'_>) -> Result<Ended> {
    let Ordered { order, undefined, at } = ordered;
    let state = feed.execution.resumes_at().filter(|_| at.is_none());
    let starts = Start::all(reader.request.resume_filter.map(|filter| &**filter), state);
    let order = &narrowed(reader, order, &starts);
    let (in_undefined, in_postings) = match at {
        None => (None, None),
        // This page's filter excludes items without the property. Forwards, all other items follow the position; backwards, none does.
        Some(OrderedPosition::Undefined(_)) if !order.includes_undefined => match order.reverse {
            true => return Ok(Ended::Exhausted),
            false => (None, None),
        },
        Some(OrderedPosition::Undefined(ordinal)) => (Some(ordinal), None),
        Some(OrderedPosition::Postings(place)) => (None, Some(place)),
    };
    // Forwards, postings come behind the items without the property, backwards before them.
    let is_in_postings = in_postings.is_some() || (order.reverse && in_undefined.is_none());
    let has_postings = is_in_postings || !order.reverse;
    let undefined = in_undefined.is_some() || (undefined && (order.reverse || in_postings.is_none()));
    let undefined = undefined.then(|| match in_undefined {
        None => 0..u64::MAX,
        Some(ordinal) if order.reverse => 0..ordinal,
        Some(ordinal) => ordinal.saturating_add(1)..u64::MAX,
    });
    let to_come = |ordinals| starts.iter().fold(ordinals, |rest, start| start.undefined(order, rest));
    let undefined = undefined.map(to_come).filter(|ordinals| !ordinals.is_empty());
    let prefix = reader.prefix_of(&order.index)?;
    let mut walk = Walk::new(&prefix, bounds(&prefix, order), order.reverse, in_postings)?;
    if !has_postings {
        walk.range = (vec![], vec![]);
    }
    if !reader.covers_partition() {
        return run_in_scope(reader, feed, order, walk, undefined).await;
    }
    if let Some(undefined) = undefined.clone().filter(|_| !order.reverse)
        && let Some(ended) = run_undefined(reader, feed, order, undefined).await?
    {
        return Ok(ended);
    }
    if let Walked::Ended(ended) = run_postings(reader, feed, order, &mut walk, None).await? {
        return Ok(ended);
    }
    if let Some(undefined) = undefined.filter(|_| order.reverse)
        && let Some(ended) = run_undefined(reader, feed, order, undefined).await?
    {
        return Ok(ended);
    }
    Ok(Ended::Exhausted)
}

/// Items of a part of the partition. Only the items themselves show whether some of them lack the
/// property. So where such items come first the whole scope is read, which shows its order as well.
async fn run_in_scope(
    reader: &mut Reader<'_>,
    feed: &mut Feed<'_>,
    order: &OrderAccess,
    mut walk: Walk,
    undefined: Option<Range<u64>>,
) -> Result<Ended> {
    if order.reverse || undefined.is_none() {
        let patience = Patience { entries: 0, scope: ScopeItems::of(reader) };
        match run_postings(reader, feed, order, &mut walk, Some(patience)).await? {
            Walked::Ended(ended) => return Ok(ended),
            Walked::GivenUp => {}
            Walked::Exhausted if undefined.is_none() => return Ok(Ended::Exhausted),
            Walked::Exhausted => walk.range = (vec![], vec![]),
        }
    }
    nearest::run(reader, feed, order, walk, undefined).await
}

/// The items without the property, in the order of their ordinals as the entries of an index would
/// have it: clients that merge use the order to find the rows of equal sort keys that they have
/// already.
async fn run_undefined(
    reader: &mut Reader<'_>,
    feed: &mut Feed<'_>,
    order: &OrderAccess,
    ordinals: Range<u64>,
) -> Result<Option<Ended>> {
    let IndexRef::Path(path) = &order.index else { return Ok(None) };
    let uid = reader.core.uid;
    let (start, end) = (keys::ordinal_key(uid, ordinals.start), keys::ordinal_key(uid, ordinals.end));
    let (header, mut ahead) = (keys::header(uid, keys::ITEMS, 0), Ahead::default());
    let mut scan =
        reader.hot.scan(start..end, ScanOptions { reverse: order.reverse, ..ScanOptions::default() });
    while let Some(chunk) = scan.next_chunk().await.map_err(crate::storage_error)? {
        let mut rows = chunk.into_iter();
        while !rows.as_slice().is_empty() {
            let (mut ordinals, mut item_keys) = (Vec::new(), KeyList::default());
            for (key, item_key) in rows.by_ref().take(ahead.next(reader, feed, false)) {
                ordinals.push(ordinal_of(&key)?);
                item_keys.push(&[&header, &item_key]);
            }
            let records = reader.records_at(item_keys.finish()).await?;
            for (ordinal, record) in ordinals.into_iter().zip(records) {
                if let Some(ended) = offer_undefined(reader, feed, path, (ordinal, record))? {
                    return Ok(Some(ended));
                }
                feed.last = Some(Last::OrderedItem(ordinal));
            }
        }
        if let Some(ended) = feed.pause(reader, None)? {
            return Ok(Some(ended));
        }
        if !scan.is_over() {
            tokio::task::yield_now().await;
        }
    }
    Ok(None)
}

fn ordinal_of(key: &[u8]) -> Result<u64> {
    let bytes = key.get(HEADER..).and_then(|bytes| bytes.try_into().ok());
    bytes.map(u64::from_be_bytes).ok_or_else(crate::malformed_key)
}

/// The range of postings to walk, as keys.
pub(super) fn bounds(prefix: &[u8], order: &OrderAccess) -> (Vec<u8>, Vec<u8>) {
    match &order.range {
        Some(range) => ([prefix, &range.start].concat(), [prefix, &range.end].concat()),
        None => (prefix.to_vec(), keys::after_prefix(prefix)),
    }
}

/// How a walk over entries ended.
enum Walked {
    Ended(Ended),
    Exhausted,
    /// It has met as many entries as the scope has items; the walk knows where to continue.
    GivenUp,
}

/// How many entries a page may meet before reading the scope would have been cheaper.
struct Patience {
    entries: u64,
    scope: ScopeItems,
}

impl Patience {
    /// Whether the scope has fewer items than the page has met entries, one more included.
    async fn ends(&mut self, reader: &Reader<'_>) -> Result<bool> {
        self.entries += 1;
        self.scope.are_at_most(reader, self.entries - 1).await
    }
}

async fn run_postings(
    reader: &mut Reader<'_>,
    feed: &mut Feed<'_>,
    order: &OrderAccess,
    walk: &mut Walk,
    mut patience: Option<Patience>,
) -> Result<Walked> {
    if walk.range.0 >= walk.range.1 {
        return Ok(Walked::Exhausted);
    }
    let options = ScanOptions { reverse: order.reverse, ..ScanOptions::default() };
    let is_sure = is_proven(reader, order) && patience.is_none();
    let mut ahead = Ahead::default();
    let mut scan = reader.hot.scan(walk.range.0.clone()..walk.range.1.clone(), options);
    // Where every entry makes a row, those behind the last row that there is room for are read in vain.
    let rows_max = |feed: &Feed<'_>| if is_sure { feed.execution.room() } else { usize::MAX };
    while let Some(chunk) = scan.next_rows(rows_max(feed)).await.map_err(crate::storage_error)? {
        let mut rows = chunk.into_iter();
        while !rows.as_slice().is_empty() {
            let wanted = ahead.next(reader, feed, is_sure);
            let met = walk.meet(reader, &mut rows, wanted).await?;
            for (posting, record) in met {
                if let Some(patience) = &mut patience
                    && patience.ends(reader).await?
                {
                    walk.give_up_at(reader, &posting);
                    return Ok(Walked::GivenUp);
                }
                if let Some(ended) = walk.take(reader, feed, order, posting, record)? {
                    return Ok(Walked::Ended(ended));
                }
            }
        }
        if walk.is_between_groups()
            && let Some(ended) = feed.pause(reader, None)?
        {
            return Ok(Walked::Ended(ended));
        }
        if !scan.is_over() {
            tokio::task::yield_now().await;
        }
    }
    walk.check_found()?;
    let ended = walk.emit_group(reader, feed, order)?;
    Ok(ended.map_or(Walked::Exhausted, Walked::Ended))
}
