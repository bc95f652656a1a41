//! The second look at rows that differ: only an item that has not changed since the view proves a difference.
//!
//! The order of reads decides. The row is read first, its item afterwards: where the item is still of the same version, the row had to
//! be there. An item whose time to live has ended counts as changed.

use std::collections::BTreeSet;

use shardlake_document::write_json;
use shardlake_model::{ContainerRid, Error, ErrorKind, ExpiredRows, Preconditions, RequestContext, Result};
use shardlake_partition::{
    CommandContext, ItemRow, LogicalKey, Rank, RowStamp, StoredItem, duplicate_id, item_of_position,
    key_name, renamed,
};
use shardlake_router::{KeyedRow, Serving, partition_of};
use shardlake_routing::KeyRange;

use super::differences::{difference, item_of, note, text_of};
use super::pass::{Extra, Pass, name_of};
use crate::at_work::IndexAtWork;
use crate::verification::DifferenceKind;

/// Items of one view.
const CHUNK_ITEMS: usize = 64_000;

/// A row that no item of the view had, and its item.
struct ExtraRow<'p> {
    extra: &'p Extra,
    item: String,
    text: String,
}

/// Looks again at the suspects of a pass, and reports differences.
pub(super) async fn confirm(at: &IndexAtWork<'_>, pass: &Pass) -> Result<()> {
    let mut extras = Vec::new();
    for extra in &pass.extras {
        extras.extend(still_there(at, extra).await?);
    }
    let keeps = at.record.settings.expired == ExpiredRows::Keep;
    let mut items = BTreeSet::new();
    if !pass.suspects.is_empty() || keeps && !extras.is_empty() {
        let wanted: BTreeSet<_> =
            extras.iter().map(|row| (row.extra.stamp.source, row.item.clone())).collect();
        items = look_again(at, pass, &wanted).await?;
    }
    for ExtraRow { extra, item, text } in extras {
        // A row may be kept after its item has expired, and as long as there is no other item of its name.
        if keeps && !items.contains(&(extra.stamp.source, item.clone())) {
            continue;
        }
        note(at, difference(DifferenceKind::TooMany, item, (&extra.key, &extra.id), (None, Some(text))));
    }
    at.entry.change_verification(|report| report.differences += pass.uncounted);
    Ok(())
}

async fn still_there<'p>(at: &IndexAtWork<'_>, extra: &'p Extra) -> Result<Option<ExtraRow<'p>>> {
    let row = stored_row(at, &extra.key, &extra.id).await?;
    let row = row.filter(|row| RowStamp::of_etag(row.etag()) == extra.stamp);
    Ok(row.map(|row| ExtraRow { extra, item: item_of(&row), text: text_of(&row) }))
}

/// Reads the items of the pass again. Returns those that are wanted and exist.
async fn look_again(at: &IndexAtWork<'_>, pass: &Pass, wanted: &SourceNames) -> Result<SourceNames> {
    let (mut rest, mut there) = (pass.read.span.clone(), BTreeSet::new());
    let mut routing = at.serving.routing_of(at.source.clone());
    while rest.min < rest.max {
        let partition = {
            let mut found = routing.entry.map.overlapping(&rest);
            found.find(|partition| partition.epk_range().contains(&rest.min)).cloned()
        };
        let partition =
            partition.ok_or_else(|| Error::internal("a part of the hash space that no range has"))?;
        let read = async {
            let partition = partition.hosted().partition();
            let mut round = partition.items_round(&rest, CHUNK_ITEMS).await?;
            while let Some(items) = round.next_page().await? {
                for item in &items {
                    look_at(at, pass, item, (wanted, &mut there)).await?;
                }
                at.check_same()?;
            }
            Ok(round.covered().expect("the chunk is read to its end").max)
        };
        let read = read.await;
        if routing.has_moved(&read).await? {
            continue;
        }
        rest = KeyRange { min: read?, max: rest.max };
    }
    Ok(there)
}

/// Items of the source by the hash of their logical partition, and id.
type SourceNames = BTreeSet<([u8; 4], String)>;

async fn look_at(
    at: &IndexAtWork<'_>,
    pass: &Pass,
    ItemRow { key, record }: &ItemRow,
    (wanted, there): (&SourceNames, &mut SourceNames),
) -> Result<()> {
    let (logical, id) = item_of_position(key)?;
    let name = (RowStamp::source_of(&logical), id);
    if wanted.contains(&name) {
        there.insert(name.clone());
    }
    let item = StoredItem::decode(record.clone(), at.schema())?;
    for row in at.rows.rows_of(&item.view(), &logical.partition_key).rows {
        let suspected = pass.suspects.get(&name_of(&row.key, &row.row.id));
        if suspected == Some(&item.lsn()) {
            compare(at, &logical, &name.1, item.lsn(), &row).await?;
        }
    }
    Ok(())
}

/// Compares one row with the row that its item has.
async fn compare(
    at: &IndexAtWork<'_>,
    logical: &LogicalKey,
    id: &str,
    lsn: u64,
    row: &KeyedRow,
) -> Result<()> {
    let found = stored_row(at, &row.key, &row.row.id).await?;
    if found.as_ref().is_some_and(|found| is_same(found, row, at.rows.is_unique())) {
        return Ok(());
    }
    if at.entry.status.live().is_refused(&IndexAtWork::row_name(&row.row.id)) {
        return Ok(());
    }
    let item = stored(at.serving, at.record.source, logical, id).await?;
    if item.is_none_or(|item| item.lsn() != lsn) {
        return Ok(());
    }
    let mut expected = Vec::new();
    write_json(row.row.body.raw(), &mut expected);
    let expected = String::from_utf8_lossy(&expected).into_owned();
    let kind = match found {
        None => DifferenceKind::Missing,
        Some(_) => DifferenceKind::Other,
    };
    let found = found.as_ref().map(text_of);
    note(at, difference(kind, id.to_owned(), (&row.key, &row.row.id), (Some(expected), found)));
    Ok(())
}

fn is_same(found: &StoredItem, row: &KeyedRow, is_unique: bool) -> bool {
    let expected = row.row.body.as_bytes();
    match is_unique {
        false => found.body().as_bytes() == expected,
        true => renamed(found.body(), &row.row.id).is_ok_and(|body| body.as_bytes() == expected),
    }
}

/// A row of the index as it is stored now, by its own name.
async fn stored_row(at: &IndexAtWork<'_>, key: &LogicalKey, row: &str) -> Result<Option<StoredItem>> {
    let index = at.entry.index;
    let Some(name) = key_name(&key.partition_key).filter(|_| at.rows.is_unique()) else {
        return stored(at.serving, index, key, row).await;
    };
    // Twice: between two reads the name may pass on.
    for _ in 0..2 {
        for id in [name.clone(), duplicate_id(&name, row)] {
            let found = stored(at.serving, index, key, &id).await?;
            let is_it = |found: &StoredItem| Rank::of(found.body()).is_some_and(|rank| rank.row == row);
            if found.as_ref().is_some_and(is_it) {
                return Ok(found);
            }
        }
    }
    Ok(None)
}

/// An item as it is stored now, at no charge.
pub(crate) async fn stored(
    serving: &Serving,
    container: ContainerRid,
    key: &LogicalKey,
    id: &str,
) -> Result<Option<StoredItem>> {
    let context: RequestContext = serving.own_context();
    let context = CommandContext::of(&context, serving.clock());
    let mut routing = serving.routing_of(serving.entry_of_rid(container)?);
    loop {
        let shape = routing.entry.shape.clone();
        let partition = partition_of(&routing.entry, key).clone();
        let partition = partition.hosted().partition();
        let read = partition.read(&shape, &context, key, id, &Preconditions::default()).await;
        if routing.has_moved(&read).await? {
            continue;
        }
        return match read {
            Ok(reply) => Ok(reply.item),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        };
    }
}
