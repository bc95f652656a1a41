//! Items by scanning: in the order of creation where the order shows, else in key order (epk, partition key, id).

use std::collections::VecDeque;

use shardlake_document::Record;
use shardlake_model::{Error, Result};
use shardlake_storage::{Chunk, KeptRows, Row, Scan, ScanOptions};
use xxhash_rust::xxh3::xxh3_128;

use super::ahead::Ahead;
use super::feed::Feed;
use super::kept_items::KeptItems;
use super::position::KeyPosition;
use super::reader::{Ended, Last, Reader, TO_THE_END};
use crate::feed::created::{
    CreatedRows, HELD_LEAST, HELD_MAX, Next, Piece, ROWS_PER_NAMED, RowOrder, Source,
};
use crate::feed::{FeedFilter, matches_filter};
use crate::keys::HEADER;
use crate::open_transactions::MergedScan;

/// Where a scan begins, and so in which order it goes.
pub(super) enum ScanFrom {
    Start,
    /// In the order of the keys.
    Key(KeyPosition),
    /// In the order of creation.
    Created(Option<Vec<u8>>),
}

/// A scan that is to run: perhaps already begun.
pub(super) struct ItemScan {
    pub from: ScanFrom,
    /// The first rows and the rest of a scan from the start.
    pub begun: Option<(VecDeque<Chunk>, Scan)>,
}

/// Start of a resumed scan, and the key up to which rows must still be skipped.
pub(super) struct Resumed {
    pub start: Vec<u8>,
    skip_to: Option<(Vec<u8>, u128)>,
}

impl Resumed {
    /// `common` is the prefix of all keys of the scan before the position's part.
    pub fn after(common: &[u8], position: &KeyPosition) -> Resumed {
        match position {
            KeyPosition::Key(key) => {
                let mut start = [common, key].concat();
                start.push(0);
                Resumed { start, skip_to: None }
            }
            KeyPosition::Cut { start, hash } => {
                let start = [common, start].concat();
                Resumed { skip_to: Some((start.clone(), *hash)), start }
            }
        }
    }

    pub fn from(start: Vec<u8>) -> Resumed {
        Resumed { start, skip_to: None }
    }

    /// Keeps to the range that is asked for: a position may be of a range that was cut since, or made up.
    pub fn not_before(self, start: Vec<u8>) -> Resumed {
        Resumed { start: self.start.max(start), ..self }
    }

    /// Whether the key at hand is at or before the position. `common` is the length of the common part.
    pub fn skips(&mut self, key: &[u8], common: usize) -> Result<bool> {
        let Some((prefix, hash)) = &self.skip_to else { return Ok(false) };
        if !key.starts_with(prefix) {
            return Err(lost_place());
        }
        if xxh3_128(&key[common..]) == *hash {
            self.skip_to = None;
        }
        Ok(true)
    }

    /// At the end of the scan: the position must have been met.
    pub fn check_found(&self) -> Result<()> {
        if self.skip_to.is_some() { Err(lost_place()) } else { Ok(()) }
    }
}

pub(super) fn lost_place() -> Error {
    Error::bad_request(
        "Invalid Continuation Token: the item with a very long key or value at which the last page ended is gone; start the query again",
    )
}

pub(super) async fn run(reader: &mut Reader<'_>, feed: &mut Feed<'_>, scan: ItemScan) -> Result<Ended> {
    let start = reader.scope.0.clone();
    let common = start[..HEADER].to_vec();
    let resumed = match scan.from {
        ScanFrom::Created(after) => return run_created(reader, feed, after, scan.begun).await,
        ScanFrom::Key(position) => Resumed::after(&common, &position).not_before(start),
        ScanFrom::Start => Resumed::from(start),
    };
    run_by_key(reader, feed, resumed, scan.begun).await
}

/// The rest of the scope in the order of the keys.
pub(super) async fn run_by_key(
    reader: &mut Reader<'_>,
    feed: &mut Feed<'_>,
    mut resumed: Resumed,
    begun: Option<(VecDeque<Chunk>, Scan)>,
) -> Result<Ended> {
    let end = reader.scope.1.clone();
    let (mut begun, mut rows) = match begun {
        Some((begun, scan)) => (begun, MergedScan::from(scan)),
        None if resumed.start >= end => return Ok(Ended::Exhausted),
        None => {
            let reads_all = feed.execution.room() == usize::MAX;
            let options = if reads_all { TO_THE_END } else { ScanOptions::default() };
            let rows = reader.hot.scan(resumed.start.clone()..end.clone(), options);
            (VecDeque::new(), MergedScan::new(rows, reader.request.own(), &resumed.start, &end))
        }
    };
    loop {
        let chunk = match begun.pop_front() {
            None => rows.next_rows_in_place().await?,
            begun => begun,
        };
        let Some(items) = chunk else { break };
        if let Some(ended) = offer_all(reader, feed, &mut resumed, &items)? {
            return Ok(ended);
        }
        let examined = items.rows().last().map(|(key, _)| Last::Item(key.slice(HEADER..)));
        if let Some(ended) = feed.pause(reader, examined)? {
            return Ok(ended);
        }
        reader.give_way(items.rows().len()).await;
    }
    resumed.check_found()?;
    Ok(Ended::Exhausted)
}

/// Offers all items of a chunk. `Some` ends the feeding.
fn offer_all(
    reader: &mut Reader<'_>,
    feed: &mut Feed<'_>,
    resumed: &mut Resumed,
    items: &Chunk,
) -> Result<Option<Ended>> {
    if let Chunk::Kept(kept) = items
        && items.was_checked()
        && resumed.skip_to.is_none()
        && let Some(of_items) = KeptItems::of(kept)
    {
        let numbers = numbers(kept, of_items.order(), feed.execution.streams());
        if let Some(ended) = offer_kept(reader, feed, kept, numbers.iter().copied(), by_key)? {
            return Ok(ended);
        }
        let rows = numbers.iter().map(|number| of_items.row(kept.all(), *number));
        return Ok(offer_rows(reader, feed, rows, true, (|_: &Row| Ok(false), by_key))?.0);
    }
    let skips = |(key, _): &Row| resumed.skips(key, HEADER);
    let (ended, checked) =
        offer_rows(reader, feed, items.rows().iter(), items.was_checked(), (skips, by_key))?;
    if checked == items.rows().len() {
        items.note_checked();
    }
    Ok(ended)
}

/// The numbers of the rows of a chunk: in the order of their keys where that matters, else as they lie in memory.
fn numbers(kept: &KeptRows, order: &RowOrder, in_key_order: bool) -> Vec<usize> {
    let is_all = kept.places().len() == kept.all().len();
    match order {
        RowOrder::Places(places) if in_key_order || !is_all => {
            let mut numbers = vec![0; places.len()];
            places.iter().enumerate().for_each(|(number, place)| numbers[*place as usize] = number);
            numbers[kept.places()].to_vec()
        }
        _ => kept.places().collect(),
    }
}

/// Behind an item in the order of the keys.
fn by_key((key, _): &Row) -> Result<Last> {
    Ok(Last::Item(key.slice(HEADER..)))
}

/// Offers items one after the other, and returns how many records were found whole. `skips` decides
/// which were dealt with before, `last` gives the place of the scan behind an item.
pub(super) fn offer_rows<'r>(
    reader: &mut Reader<'_>,
    feed: &mut Feed<'_>,
    rows: impl Iterator<Item = &'r Row>,
    were_checked: bool,
    (mut skips, last): (impl FnMut(&Row) -> Result<bool>, fn(&Row) -> Result<Last>),
) -> Result<(Option<Ended>, usize)> {
    let mut checked = 0;
    // The last item that was dealt with. Its key is taken once for all rows.
    let mut dealt = None;
    let mut ended = None;
    for row in rows {
        let (key, value) = row;
        if skips(row)? || !matches_filter(reader.request.filter, key)? {
            continue;
        }
        let before = reader.statistics;
        // Read in place: a reference to its bytes costs more than the look at it.
        let record = if were_checked { Record::decode_again(value) } else { Record::decode(value) };
        let record = record.map_err(crate::corrupt)?;
        checked += 1;
        reader.statistics.items_scanned += 1;
        reader.statistics.items_scanned_bytes += u64::from(record.envelope.json_size_bytes);
        let Some(item) = reader.live_view(&record) else { continue };
        if feed.gathers() {
            let last = last(row)?;
            ended = feed.offer(reader, &item, false, before, || last)?;
        } else {
            ended = feed.offer_at_once(reader, &item, None, before)?;
            if ended.is_none() {
                dealt = Some(row);
            }
        }
        if ended.is_some() {
            break;
        }
    }
    if let Some(row) = dealt {
        feed.last = Some(last(row)?);
    }
    Ok((ended, checked))
}

/// Offers cached items by their extracted values, where these show which items the filter leaves
/// out. All rows were checked; `numbers` are among all rows. `None` where each item has to be
/// looked at.
pub(super) fn offer_kept(
    reader: &mut Reader<'_>,
    feed: &mut Feed<'_>,
    kept: &KeptRows,
    numbers: impl Iterator<Item = usize>,
    last: fn(&Row) -> Result<Last>,
) -> Result<Option<Option<Ended>>> {
    if !matches!(reader.request.filter, FeedFilter::Range(_) | FeedFilter::Logical(_)) {
        return Ok(None);
    }
    let Some(names) = feed.tested_properties() else { return Ok(None) };
    let Some(items) = KeptItems::of(kept) else { return Ok(None) };
    let Some((heads, columns)) = items.values(names, kept.all()) else { return Ok(None) };
    let mut dealt = None;
    let mut ended = None;
    for number in numbers {
        let row = items.row(kept.all(), number);
        let head = &heads[number];
        let before = reader.statistics;
        reader.statistics.items_scanned += 1;
        reader.statistics.items_scanned_bytes += u64::from(head.json_size_bytes);
        if head.is_expired(reader.shape, reader.now_seconds) {
            continue;
        }
        let body_bytes = head.body_bytes as usize;
        let tested = feed.execution.test(&columns, number, body_bytes);
        ended = match tested {
            Some(tested) if !tested.holds() => feed.leave_out(body_bytes, tested)?,
            _ => {
                let record = Record::decode_again(&row.1).map_err(crate::corrupt)?;
                let Some(item) = reader.live_view(&record) else { continue };
                feed.offer_at_once(reader, &item, tested, before)?
            }
        };
        if ended.is_some() {
            break;
        }
        dealt = Some(row);
    }
    if let Some(row) = dealt {
        feed.last = Some(last(row)?);
    }
    Ok(Some(ended))
}

/// All items in scope in the order of creation, for a scan without a sort.
async fn run_created(
    reader: &mut Reader<'_>,
    feed: &mut Feed<'_>,
    after: Option<Vec<u8>>,
    begun: Option<(VecDeque<Chunk>, Scan)>,
) -> Result<Ended> {
    let source = Source { uid: reader.core.uid, hot: reader.hot.clone(), own: reader.request.own() };
    let scope = reader.scope.clone();
    let mut rows = match after {
        Some(position) => CreatedRows::after(source, scope, &position, known)?,
        None => {
            let begun = begun.map(|(begun, scan)| (begun, MergedScan::from(scan)));
            CreatedRows::new(source, scope, begun, known)
        }
    };
    let makes_rows = reader.has_all_in_scope && feed.execution.streams();
    let mut ahead = Ahead::default();
    loop {
        let held_max = match makes_rows {
            true => feed.execution.room().saturating_mul(ROWS_PER_NAMED).clamp(HELD_LEAST, HELD_MAX),
            false => HELD_MAX,
        };
        let walked = if rows.walks() { ahead.next(reader, feed, makes_rows) } else { 0 };
        let piece = match rows.next(held_max, walked).await? {
            Next::Piece(piece) => piece,
            Next::End => return Ok(Ended::Exhausted),
            // Where pages before this one were in order, the rest is, too.
            Next::Large(prefix) if makes_rows || rows.begins_within() == Some(&prefix) => {
                rows.walk(prefix)?;
                continue;
            }
            // Most items might be read for nothing, each by itself: the order is given up for the rest.
            Next::Large(prefix) => {
                return Box::pin(run_by_key(reader, feed, Resumed::from(prefix), None)).await;
            }
        };
        if let Some(ended) = offer_piece(reader, feed, &piece)? {
            return Ok(ended);
        }
        let examined = piece.last().map(by_creation).transpose()?;
        if let Some(ended) = feed.pause(reader, examined)? {
            return Ok(ended);
        }
        reader.give_way(piece.len()).await;
    }
}

fn offer_piece(reader: &mut Reader<'_>, feed: &mut Feed<'_>, piece: &Piece) -> Result<Option<Ended>> {
    let skips_none = |_: &Row| Ok(false);
    let ordered = match piece {
        Piece::Chunk(ordered) => ordered,
        Piece::Rows(rows) => {
            return Ok(offer_rows(reader, feed, rows.iter(), false, (skips_none, by_creation))?.0);
        }
    };
    if let Some(kept) = ordered.kept() {
        let numbers = (0..ordered.places.len()).map(|number| ordered.number(number));
        if let Some(ended) = offer_kept(reader, feed, kept, numbers, by_creation)? {
            return Ok(ended);
        }
    }
    let chunk = &ordered.chunk;
    let (ended, checked) =
        offer_rows(reader, feed, ordered.rows(), chunk.was_checked(), (skips_none, by_creation))?;
    if checked == chunk.rows().len() {
        chunk.note_checked();
    }
    Ok(ended)
}

/// Behind an item in the order of creation.
fn by_creation((key, record): &Row) -> Result<Last> {
    Ok(Last::Created(key.slice(HEADER..), Record::ordinal_in(record).map_err(crate::corrupt)?))
}

/// The known order of the rows of a cached range.
fn known(kept: &KeptRows) -> Option<RowOrder> {
    KeptItems::of(kept).map(|items| items.order().clone())
}
