//! `COUNT` from the index alone, from the sizes of logical partitions, or from the partition's own total.
//!
//! Only when nothing has to be looked at in the items: there is no condition beyond the scope, or it is exactly one leaf's, each
//! item has one value under its path, and the whole partition is in scope; and nothing can have outlived its time.

use std::time::Duration;

use shardlake_model::Result;
use shardlake_sql::{Execution, IndexFilter, IndexRef, Leaf, Rows};

use super::lookup::is_many_valued;
use super::position::AccessPosition;
use super::postings::{Posting, STEPS_OF_SCAN};
use super::reader::{Reader, TO_THE_END};
use super::request::QueryPage;
use super::scope::ScopeItems;

pub(super) async fn answer(reader: &mut Reader<'_>, resume: &AccessPosition) -> Result<Option<QueryPage>> {
    let request = reader.request;
    let may_count = *resume == AccessPosition::Start
        && request.query.counts_items()
        && request.access.precise
        && reader.shape.default_ttl.is_none();
    if !may_count {
        return Ok(None);
    }
    let whole = reader.covers_partition();
    let (items, access) = match &request.access.filter {
        IndexFilter::Everything if whole => (reader.items_total().await?, "the partition's own total"),
        IndexFilter::Everything => (count_scope(reader).await?, "sizes of the logical partitions"),
        IndexFilter::Leaf(leaf)
            if whole && leaf.precise && !is_many_valued(leaf) && reader.layout.is_some() =>
        {
            let Some(items) = count_postings(reader, leaf).await? else { return Ok(None) };
            (items, "count of index entries")
        }
        _ => return Ok(None),
    };
    let mut execution =
        Execution::start(request.query, request.limits, false, None)?.metered(request.work.meter().clone());
    execution.push_count(items);
    reader.statistics.steps = request.work.meter().steps();
    if request.collects.is_some() {
        return Ok(Some(QueryPage {
            rows: Rows::default(),
            next: None,
            statistics: reader.statistics,
            collected: Some(execution),
            is_repeated: false,
            stands_for_index: true,
            kept: None,
            stops_early: false,
            access: access.into(),
            wants_counter: None,
            elapsed: Duration::ZERO,
            evaluation: Duration::ZERO,
        }));
    }
    let output = execution.finish(true, request.is_interrupted)?;
    reader.statistics.steps = request.work.meter().steps();
    reader.statistics.rows = output.rows.len() as u64;
    reader.statistics.rows_bytes = output.rows.size_bytes() as u64;
    Ok(Some(QueryPage {
        rows: output.rows,
        next: None,
        statistics: reader.statistics,
        collected: None,
        is_repeated: false,
        stands_for_index: true,
        kept: None,
        stops_early: false,
        access: access.into(),
        wants_counter: None,
        elapsed: Duration::ZERO,
        evaluation: Duration::ZERO,
    }))
}

/// Items in scope. The sizes are the index of their partition keys, and are counted as its entries.
async fn count_scope(reader: &mut Reader<'_>) -> Result<u64> {
    let mut scope = ScopeItems::of(reader);
    let items = scope.all(reader).await?;
    reader.statistics.postings_read += scope.keys;
    Ok(items)
}

/// `None` when the index entries do not suffice.
async fn count_postings(reader: &mut Reader<'_>, leaf: &Leaf) -> Result<Option<u64>> {
    if !matches!(leaf.index, IndexRef::Path(_)) {
        return Ok(None);
    }
    let prefix = reader.prefix_of(&leaf.index)?;
    let mut items = 0;
    for range in &leaf.ranges {
        let (start, end) = ([&prefix[..], &range.start].concat(), [&prefix[..], &range.end].concat());
        reader.request.work.meter().add(STEPS_OF_SCAN);
        let mut scan = reader.hot.scan(start..end, TO_THE_END);
        let Some(test) = &leaf.test else {
            while let Some(count) = scan.count_chunk().await.map_err(crate::storage_error)? {
                reader.statistics.postings_read += count as u64;
                items += count as u64;
                reader.check_interrupted()?;
                reader.give_way(count).await;
            }
            continue;
        };
        while let Some(rows) = scan.next_chunk().await.map_err(crate::storage_error)? {
            let count = rows.len();
            reader.statistics.postings_read += count as u64;
            for (key, _) in rows {
                let posting = Posting::parse(&key, prefix.len())?;
                let Some(value) = shardlake_document::decode_index_value(posting.value()) else {
                    return Ok(None);
                };
                items += u64::from(test.matches(
                    &value,
                    reader.request.work.meter(),
                    reader.request.is_interrupted,
                )?);
            }
            reader.check_interrupted()?;
            reader.give_way(count).await;
        }
    }
    Ok(Some(items))
}
