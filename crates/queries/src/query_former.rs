//! Pages of a query whose range has ended by a split or a merge.
//!
//! A client resumes by the id of the range that it began in, with the token of the previous page. Not every
//! client survives a 410 in the middle: one repeats the request without end, another starts again and returns
//! items twice (docs/partitions.md). So these pages are answered, by one rule:
//!
//! ```text
//! asked for             with                        answered by
//! a live range          a token of it or of an      the range, as far as token and window reach
//!                       ancestor
//! a range that ended    a token of that range       the ranges in its place, as far as its bounds, token and window reach,
//!                                                   under the id that was asked
//! a range that ended    no token, a window inside   that range, as above
//!                       one range in its place
//! a range that ended    anything else               410/1002: the client reads the ranges again
//! ```
//!
//! The answer names the requested range, and one session position: the lowest of all ranges that replace it.
//! SDKs parse one position, and drop their maps at a range that they do not know.
//!
//! Rows in an order are merged: the successors are read in turns by the order, each from its own position.
//! The number of rows that a page needs from a range is known only when all have been read. Ranges with
//! unused rows are therefore read again, up to the last used row.

use shardlake_charge::QueryCounters;
use shardlake_model::{Error, Result};
use shardlake_partition::{FeedFilter, QueryPage, QueryStatistics};
use shardlake_routing::KeyRange;
use shardlake_sql::{PageLimits, Rows, SortKeys};

use crate::query_charge::PagePermit;
use crate::query_targets::Part;
use crate::query_token::{DONE, Piece, QueryToken};
use crate::request::{PageOfQuery, QueryReply};
use crate::running::Running;
use shardlake_host::Cost;
use shardlake_items::FeedScope;
use shardlake_items::{find_range, window_of};
use shardlake_router::ContainerEntry;

/// An ended range whose page is answered by its successors.
pub struct Former {
    pub parts: Vec<Part>,
    pub signature: Signature,
    /// The answer where rows in an order do not show their sort keys.
    pub gone: Error,
}

/// The range that a request names, and the lowest LSN of its successors.
#[derive(Debug, Clone, Copy)]
pub struct Signature {
    range_id: u32,
    lsn: u64,
    is_former: bool,
}

/// Whether the request names a range that was split or merged.
pub fn has_ended(entry: &ContainerEntry, scope: &FeedScope) -> bool {
    scope.range_id().is_some_and(|range_id| find_range(entry, range_id).is_err())
}

impl Former {
    /// The ended range of a request for which [`has_ended`] is true.
    pub fn of(entry: &ContainerEntry, scope: &FeedScope, token: Option<&QueryToken>) -> Result<Former> {
        let FeedScope::Range { range_id: Some(range_id), epk } = scope else {
            return Err(Error::internal("a request without a range has none that ended"));
        };
        let gone = find_range(entry, *range_id).err().unwrap_or_else(cut_anew);
        let Some(bounds) = entry.record.former_bounds(*range_id) else { return Err(gone) };
        let mut span = window_of(epk.as_ref())?.intersection(&bounds);
        if let Some(token) = token {
            if token.range_id != Some(*range_id) {
                return Err(gone);
            }
            span = span.intersection(&token.span());
        }
        let part = |partition| Part::new(partition, FeedFilter::Range(span.clone()));
        let mut parts: Vec<Part> = entry.map.overlapping(&span).map(part).collect();
        let is_answered = token.is_some() || (epk.is_some() && parts.len() == 1);
        if parts.is_empty() || !is_answered {
            return Err(gone);
        }
        if let Some(token) = token {
            parts = parts.iter().flat_map(|part| part.cut_by(token)).collect();
        }
        let lsn = lowest_lsn_after(entry, *range_id, &bounds);
        Ok(Former { parts, signature: Signature { range_id: *range_id, lsn, is_former: true }, gone })
    }
}

/// The lowest LSN of all ranges that a session position of this ended range covers: its successors, and the
/// ranges that have it among their ancestors. A range that was merged with it and split off again is one of
/// these, outside its bounds.
fn lowest_lsn_after(entry: &ContainerEntry, range_id: u32, bounds: &KeyRange) -> u64 {
    let heirs = entry.record.ranges.iter().filter(|range| range.parents.contains(&range_id));
    let heirs = heirs.filter_map(|range| find_range(entry, range.range_id).ok());
    let partitions = entry.map.overlapping(bounds).chain(heirs);
    partitions.map(|partition| partition.durable_lsn()).min().unwrap_or(0)
}

impl Signature {
    pub fn of_live(entry: &ContainerEntry, scope: &FeedScope) -> Option<Signature> {
        let partition = find_range(entry, scope.range_id()?).ok()?;
        let (range_id, lsn) = (partition.range_id(), partition.durable_lsn());
        Some(Signature { range_id, lsn, is_former: false })
    }

    /// Makes the answer name the requested range, even if nothing was read.
    pub fn sign(self, reply: &mut Result<QueryReply>) {
        let meta = match reply {
            Ok(reply) if self.is_former || reply.meta.range_id.is_none() => &mut reply.meta,
            Err(error) if self.is_former && error.meta().range_id.is_some() => error.meta_mut(),
            Ok(_) | Err(_) => return,
        };
        (meta.range_id, meta.lsn) = (Some(self.range_id), self.lsn);
    }
}

/// Whether a page reads one part of the hash space, the same as the previous page. A subquery has a different
/// result over a smaller part.
pub fn is_one_whole(parts: &[Part], token: Option<&QueryToken>) -> bool {
    let [part] = parts else { return parts.is_empty() };
    token.is_none_or(|token| matches!(&token.pieces[..], [piece] if piece.span == part.span))
}

/// The refusal of a page whose rows in an order do not show their sort keys.
pub fn cut_anew() -> Error {
    Error::bad_request("the range was cut anew while the query was read: start the query again")
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
    /// Fails with `gone` where rows do not show their sort keys: clients then have to begin again.
    pub async fn merge_in_order(
        &self,
        reply: &mut QueryReply,
        parts: &[Part],
        PageOfQuery { limits, token, query_hash, range_id }: PageOfQuery,
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
        assert!(done.charged >= charged, "a page never lowers the charge of its query");
        self.push_in_order(&mut reply.rows, &rows);
        pieces.sort_by(|left, right| left.span.min.cmp(&right.span.min));
        if pieces.iter().any(|piece| piece.position != DONE) {
            let container = self.entry.record.container.rid.number;
            reply.continuation =
                Some(QueryToken { container, query_hash, range_id, counters: done, pieces }.encode()?);
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
        part.partition.hosted().check_session(self.ctx)?;
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

    /// The used rows, and the place where the next page resumes.
    async fn read_to_cut<'p>(&self, stream: Stream<'p>, limits: PageLimits) -> Result<(&'p Part, Read<'p>)> {
        let Stream { part, mut permit, start, page, keys, taken } = stream;
        let after = |page: &QueryPage| page.next.clone().unwrap_or_else(|| DONE.to_vec());
        if taken == keys.len() {
            let position = after(&page);
            return Ok((part, Read { permit, page, position }));
        }
        if taken == 0 {
            // The next page repeats this work, and counts it.
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
        debug_assert!(page.rows.len() <= taken, "the second read stays within the rows that were taken");
        let position = after(&page);
        Ok((part, Read { permit, page, position }))
    }

    fn push_in_order(&self, merged: &mut Rows, sources: &[Rows]) {
        let rows = sources.iter().flat_map(Rows::iter);
        let mut rows: Vec<_> = rows.map(|row| (self.prepared.sort_keys(row), row)).collect();
        rows.sort_by(|(left, _), (right, _)| left.cmp(right));
        assert_eq!(
            rows.len(),
            sources.iter().map(Rows::len).sum::<usize>(),
            "a merge neither adds nor loses rows"
        );
        rows.iter().for_each(|(_, row)| merged.push_text(row));
    }
}

struct Read<'p> {
    permit: PagePermit<'p>,
    page: QueryPage,
    position: Vec<u8>,
}

/// Counts the rows of each stream that come before the first unknown key.
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
