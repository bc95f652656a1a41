//! Pages of a query whose range was split or merged while it was read.
//!
//! A client goes on by the id of the range that it began in, with the token of the page before. Not every client survives being
//! told in the middle that the range is gone: one asks for ever, another starts again and has items twice (docs/partitions.md).
//! The token says what is left of the range, so the ranges that took its place answer. Without a token the range is gone,
//! which is how clients learn of the new ones.
//!
//! Rows in an order are merged: the successors are read by turns of the order, each from its own position. How many rows a page
//! takes of one is known only when all have been read, so those of which some are left are read again, up to there.

use shardlake_charge::QueryCounters;
use shardlake_model::{Error, Result};
use shardlake_partition::{FeedFilter, QueryPage, QueryStatistics};
use shardlake_routing::EpkRange;
use shardlake_sql::{PageLimits, Rows, SortKeys};

use crate::query_charge::PagePermit;
use crate::query_targets::{Part, Targets};
use crate::query_token::{DONE, Piece, QueryToken};
use crate::request::{PageOfQuery, QueryReply};
use crate::running::Running;
use shardlake_items::FeedScope;
use shardlake_items::check_session;
use shardlake_serving::ContainerEntry;
use shardlake_serving::Cost;

/// What answers for the rest of a range that is gone; `None` if the token is not about one.
pub fn targets(entry: &ContainerEntry, scope: &FeedScope, token: Option<&QueryToken>) -> Option<Targets> {
    let FeedScope::Range { range_id: Some(former), .. } = scope else { return None };
    let first = token?.pieces.first()?;
    let left = EpkRange { min: first.span.min.clone(), max: token?.end().clone() };
    let partitions: Vec<_> = entry.map.overlapping(&left).cloned().collect();
    let is_successor = |id: u32| {
        let range = entry.record.ranges.iter().find(|range| range.range_id == id);
        range.is_some_and(|range| range.parents.contains(former))
    };
    let are_successors = partitions.iter().all(|partition| is_successor(partition.range_id));
    let part = |partition| Part::new(partition, FeedFilter::Range(left.clone()));
    (are_successors && !partitions.is_empty())
        .then(|| Targets { parts: partitions.iter().map(part).collect(), merges: false })
}

/// One successor, as far as it was read for this page.
struct Stream<'p> {
    part: &'p Part,
    permit: PagePermit<'p>,
    start: Option<Vec<u8>>,
    page: QueryPage,
    keys: Vec<SortKeys>,
    /// How many of its rows belong to the page.
    taken: usize,
}

impl Running<'_> {
    /// Fails with `gone` where rows do not tell their sort keys: then clients have to begin again.
    pub async fn merge_in_order(
        &self,
        reply: &mut QueryReply,
        parts: &[Part],
        PageOfQuery { limits, token, query_hash }: PageOfQuery,
        gone: Error,
    ) -> Result<()> {
        let mut done = token.as_ref().map(|token| token.counters).unwrap_or_default();
        let charged = done.charged;
        let mut streams = Vec::with_capacity(parts.len());
        for part in parts {
            // The query was prepared once.
            let steps = if streams.is_empty() { self.prepared.steps() } else { 0 };
            let stream = self.stream(part, token.as_ref(), limits, steps).await?;
            let Some(stream) = stream else { return Err(gone) };
            streams.push(stream);
        }
        take_in_order(&mut streams, limits);
        let mut pieces: Vec<Piece> = token.into_iter().flat_map(|token| token.pieces).collect();
        pieces.retain(|piece| piece.position == DONE);
        let mut rows = Vec::with_capacity(streams.len());
        for stream in streams {
            let (part, Read { permit, mut page, position }) = self.read_to_cut(stream, limits).await?;
            let mut counters = self.counters(&page);
            done = done.plus(counters);
            self.charge(&mut counters);
            let size_bytes = page.statistics.rows_bytes;
            permit.settle(Cost { charge_centi: counters.charged, size_bytes, creates: false });
            rows.push(std::mem::take(&mut page.rows));
            self.note(reply, part, &page);
            pieces.push(Piece { span: part.span.clone(), position });
        }
        self.charge(&mut done);
        self.push_in_order(&mut reply.rows, &rows);
        pieces.sort_by(|left, right| left.span.min.cmp(&right.span.min));
        if pieces.iter().any(|piece| piece.position != DONE) {
            let container = self.entry.record.container.rid.number;
            reply.continuation = Some(QueryToken { container, query_hash, counters: done, pieces }.encode()?);
        }
        self.complete(reply, done.charged - charged);
        Ok(())
    }

    async fn stream<'p>(
        &'p self,
        part: &'p Part,
        token: Option<&QueryToken>,
        limits: PageLimits,
        steps: u64,
    ) -> Result<Option<Stream<'p>>> {
        check_session(self.ctx, self.entry, &part.partition)?;
        let piece = token.and_then(|token| token.piece_of(&part.span));
        let start = piece.map(|piece| piece.position.clone()).filter(|position| !position.is_empty());
        let mut permit = self.permit(part, QueryCounters::default(), steps)?;
        let page = match self.page(part, start.clone(), limits, &mut permit).await {
            Ok(page) => page,
            Err(error) => return Err(permit.failed(error)),
        };
        let keys: Option<Vec<SortKeys>> = page.rows.iter().map(|row| self.prepared.sort_keys(row)).collect();
        Ok(keys.map(|keys| Stream { part, permit, start, page, keys, taken: 0 }))
    }

    /// The rows that were taken, and where the next page goes on.
    async fn read_to_cut<'p>(&self, stream: Stream<'p>, limits: PageLimits) -> Result<(&'p Part, Read<'p>)> {
        let Stream { part, mut permit, start, page, keys, taken } = stream;
        let after = |page: &QueryPage| page.next.clone().unwrap_or_else(|| DONE.to_vec());
        if taken == keys.len() {
            let position = after(&page);
            return Ok((part, Read { permit, page, position }));
        }
        if taken == 0 {
            // The next page does the same again, and counts it.
            let steps = page.statistics.steps;
            let statistics = QueryStatistics { steps, ..QueryStatistics::default() };
            let page = QueryPage { rows: Rows::default(), statistics, ..page };
            return Ok((part, Read { permit, page, position: start.unwrap_or_default() }));
        }
        let limits = PageLimits { rows: taken, ..limits };
        let page = match self.page(part, start, limits, &mut permit).await {
            Ok(page) => page,
            Err(error) => return Err(permit.failed(error)),
        };
        let position = after(&page);
        Ok((part, Read { permit, page, position }))
    }

    fn push_in_order(&self, merged: &mut Rows, sources: &[Rows]) {
        let rows = sources.iter().flat_map(Rows::iter);
        let mut rows: Vec<_> = rows.map(|row| (self.prepared.sort_keys(row), row)).collect();
        rows.sort_by(|(left, _), (right, _)| left.cmp(right));
        rows.iter().for_each(|(_, row)| merged.push_text(row));
    }
}

struct Read<'p> {
    permit: PagePermit<'p>,
    page: QueryPage,
    position: Vec<u8>,
}

/// Counts the rows of each stream that come before whatever is not known yet.
fn take_in_order(streams: &mut [Stream<'_>], limits: PageLimits) {
    let (mut rows, mut size_bytes) = (0, 0);
    while rows < limits.rows && size_bytes < limits.size_bytes {
        if streams.iter().any(|stream| stream.taken == stream.keys.len() && stream.page.next.is_some()) {
            return;
        }
        let heads = streams.iter_mut().filter(|stream| stream.taken < stream.keys.len());
        let first = heads.min_by(|left, right| left.keys[left.taken].cmp(&right.keys[right.taken]));
        let Some(first) = first else { return };
        size_bytes += first.page.rows.get(first.taken).map_or(0, <[u8]>::len);
        first.taken += 1;
        rows += 1;
    }
}
