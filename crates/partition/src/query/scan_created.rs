//! Items in the order of creation: what comes without a sort.

use std::collections::VecDeque;

use shardlake_document::Record;
use shardlake_model::Result;
use shardlake_storage::{Chunk, KeptRows, Row, Scan};
use xxhash_rust::xxh3::xxh3_128;

use super::ahead::Ahead;
use super::kept_items::KeptItems;
use super::position::KeyPosition;
use super::scan::{Resumed, lost_place, offer_kept, offer_rows, run_by_key};
use super::{Ended, Feed, Last, Reader};
use crate::created::{
    self, CreatedRows, HELD_LEAST, HELD_MAX, Next, OrderedChunk, Piece, ROWS_PER_NAMED, RowOrder, Source,
};
use crate::interactive::MergedScan;
use crate::keys::HEADER;

pub(super) async fn run(
    reader: &mut Reader<'_>,
    feed: &mut Feed<'_>,
    after: Option<KeyPosition>,
    begun: Option<(VecDeque<Chunk>, Scan)>,
) -> Result<Ended> {
    let source = Source { uid: reader.partition.uid, hot: reader.hot.clone(), own: reader.request.own() };
    let scope = reader.scope.clone();
    let mut skip_to = None;
    let mut rows = match after {
        None => {
            let begun = begun.map(|(begun, scan)| (begun, MergedScan::from(scan)));
            CreatedRows::new(source, scope, begun, known)
        }
        Some(KeyPosition::Key(position)) => CreatedRows::after(source, scope, &position, known)?,
        Some(KeyPosition::Cut { start, hash }) => {
            skip_to = Some(hash);
            // It may end with a part of an ordinal, which no key of an item has.
            let start = [&scope.0[..HEADER], &start[..start.len().saturating_sub(8)]].concat();
            CreatedRows::new(source, (start.clamp(scope.0, scope.1.clone()), scope.1), None, known)
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
            Next::End => break,
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
        if let Some(ended) = offer(reader, feed, &mut skip_to, &piece)? {
            return Ok(ended);
        }
        let examined = piece.last().map(by_creation).transpose()?;
        if let Some(ended) = reader.pause(feed, examined)? {
            return Ok(ended);
        }
        reader.give_way(piece.len()).await;
    }
    if skip_to.is_some() { Err(lost_place()) } else { Ok(Ended::Exhausted) }
}

fn offer(
    reader: &mut Reader<'_>,
    feed: &mut Feed<'_>,
    skip_to: &mut Option<u128>,
    piece: &Piece,
) -> Result<Option<Ended>> {
    let ordered = match piece {
        Piece::Chunk(ordered) => ordered,
        Piece::Rows(rows) => {
            let skips = |row: &Row| skips(skip_to, row);
            return Ok(offer_rows(reader, feed, rows.iter(), false, (skips, by_creation))?.0);
        }
    };
    let OrderedChunk { chunk, places, .. } = ordered;
    if let Chunk::Kept(kept) = chunk
        && chunk.was_checked()
        && skip_to.is_none()
    {
        let numbers = (0..places.len()).map(|number| ordered.number(number));
        if let Some(ended) = offer_kept(reader, feed, kept, numbers, by_creation)? {
            return Ok(ended);
        }
    }
    let skips = |row: &Row| skips(skip_to, row);
    let (ended, checked) =
        offer_rows(reader, feed, ordered.rows(), chunk.was_checked(), (skips, by_creation))?;
    if checked == chunk.rows().len() {
        chunk.note_checked();
    }
    Ok(ended)
}

/// Behind an item in the order of creation.
fn by_creation((key, record): &Row) -> Result<Last> {
    Ok(Last::Created(key.slice(HEADER..), Record::ordinal_in(record).map_err(crate::corrupt)?))
}

/// Whether an item is at or before the position.
fn skips(skip_to: &mut Option<u128>, (key, record): &Row) -> Result<bool> {
    let Some(hash) = *skip_to else { return Ok(false) };
    let ordinal = Record::ordinal_in(record).map_err(crate::corrupt)?;
    if xxh3_128(&created::position_of(key, ordinal)?) == hash {
        *skip_to = None;
    }
    Ok(true)
}

/// What was found of the order of rows that stay in memory.
fn known(kept: &KeptRows) -> Option<RowOrder> {
    KeptItems::of(kept).map(|items| items.order().clone())
}
