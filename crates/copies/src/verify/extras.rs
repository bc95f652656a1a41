//! Rows of groups that have begun after the views of a part: each is looked at where the items of its group are now.

use std::collections::BTreeMap;

use shardlake_change_log::{LogPart, LogPosition};
use shardlake_model::{Error, Result};
use shardlake_partition::{CopyBatch, ItemRow, LogicalKey, RowStamp, StoredItem, item_of_position};
use shardlake_routing::KeyRange;
use shardlake_storage::PacedWork;

use super::differences::{difference, text_of};
use super::looks::{Found, LOOKS_MAX, Suspects};
use super::span::{PREFIX, span_of};
use crate::Copies;
use crate::at_work::IndexAtWork;
use crate::groups::{StoredRow, stored_rows};
use crate::verification::DifferenceKind;

/// Items of one view.
const CHUNK_ITEMS: usize = 64_000;

/// A row that no group of the first views has.
#[derive(Debug, Clone)]
pub(super) struct Extra {
    pub key: LogicalKey,
    pub id: String,
    pub stamp: RowStamp,
}

/// Decides on rows with stamps above the first views.
pub(super) async fn look_at_extras(
    copies: &Copies,
    at: &IndexAtWork<'_>,
    extras: Vec<Extra>,
    found: &mut Found,
    work: &mut PacedWork,
) -> Result<()> {
    let mut by_source: BTreeMap<[u8; PREFIX], Vec<Extra>> = BTreeMap::new();
    extras.into_iter().for_each(|extra| by_source.entry(extra.stamp.source).or_default().push(extra));
    for (source, mut extras) in by_source {
        for _ in 0..LOOKS_MAX {
            if !extras.is_empty() {
                extras = look(copies, at, (source, extras), found, work).await?;
            }
        }
        found.undecided += extras.len() as u64;
    }
    Ok(())
}

/// Looks once at the rows with one part of a stamp. Returns those that have changed meanwhile.
async fn look(
    copies: &Copies,
    at: &IndexAtWork<'_>,
    (source, extras): ([u8; PREFIX], Vec<Extra>),
    found: &mut Found,
    work: &mut PacedWork,
) -> Result<Vec<Extra>> {
    let span = span_of(&source);
    let homes = Homes::read(at, &span, &extras, work).await?;
    let (mut suspects, mut homeless) = (Suspects::default(), Vec::new());
    for extra in extras {
        match homes.of_group.get(&extra.id) {
            Some(home) => suspects.add(home, (extra.id, extra.key)),
            None => homeless.push(extra),
        }
    }
    suspects.look(copies, at, found).await?;
    if homeless.is_empty() {
        return Ok(homeless);
    }
    // A row of a group without items is gone once the index has passed the view.
    let upto = homes.parts.iter().map(|part| part.after).min().unwrap_or(0);
    copies.reach(&copies.entry_of(at.entry.index)?, LogPosition::new(homes.parts)).await?;
    at.check_same()?;
    let mut again = Vec::new();
    for extras in homeless.chunks(CopyBatch::ROWS_MAX) {
        let names = extras.iter().map(|extra| (extra.key.clone(), extra.id.clone())).collect();
        let rows = stored_rows(at, names).await?;
        for extra in extras {
            let Some(StoredRow { stamp, item }) = rows.get(&extra.id) else { continue };
            // No row that was read before the view is true at a later LSN.
            if *stamp != extra.stamp && stamp.lsn > upto {
                again.push(Extra { stamp: *stamp, ..extra.clone() });
                continue;
            }
            let sides = (None, Some(text_of(item)));
            found.add(|| difference(DifferenceKind::TooMany, String::new(), (&extra.key, &extra.id), sides));
        }
        work.pause().await;
    }
    Ok(again)
}

/// Logical partitions of the source with the items of groups.
struct Homes {
    of_group: BTreeMap<String, LogicalKey>,
    parts: Vec<LogPart>,
}

impl Homes {
    async fn read(
        at: &IndexAtWork<'_>,
        span: &KeyRange,
        extras: &[Extra],
        work: &mut PacedWork,
    ) -> Result<Homes> {
        let wanted: BTreeMap<&str, ()> = extras.iter().map(|extra| (extra.id.as_str(), ())).collect();
        let (mut homes, mut rest) = (Homes { of_group: BTreeMap::new(), parts: Vec::new() }, span.clone());
        let mut routing = at.serving.routing_of(at.source.clone());
        while rest.min < rest.max {
            let partition =
                routing.entry.map.overlapping(&rest).find(|one| one.epk_range().contains(&rest.min));
            let partition = partition
                .cloned()
                .ok_or_else(|| Error::internal("a part of the hash space that no range has"))?;
            let read = async {
                let mut round = partition.hosted().partition().items_round(&rest, CHUNK_ITEMS).await?;
                while let Some(items) = round.next_page().await? {
                    items.iter().try_for_each(|item| homes.add(at, item, &wanted))?;
                    work.pause().await;
                    at.check_same()?;
                }
                let span = round.covered().expect("the chunk is read to its end");
                Ok(LogPart { span, after: round.upto() })
            };
            let read = read.await;
            if routing.has_moved(&read).await? {
                continue;
            }
            let part = read?;
            rest.min = part.span.max.clone();
            homes.parts.push(part);
        }
        Ok(homes)
    }

    fn add(&mut self, at: &IndexAtWork<'_>, item: &ItemRow, wanted: &BTreeMap<&str, ()>) -> Result<()> {
        let (logical, _) = item_of_position(&item.key)?;
        let item = StoredItem::decode(item.record.clone(), at.schema())?;
        for one in at.rows.contributions_of(&item.view(), &logical.partition_key).contributions {
            if wanted.contains_key(one.contribution.id.as_str()) {
                self.of_group.entry(one.contribution.id).or_insert_with(|| logical.clone());
            }
        }
        Ok(())
    }
}
