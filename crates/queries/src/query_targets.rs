//! Targets of a query: its scope, or the partition keys that its text leaves, as parts of partitions in the
//! order of the hash space.
//!
//! One part gives the whole answer, and the parts' rows follow one another if they need no merge. A query
//! that needs a merge is refused with [`ErrorKind::CrossPartitionQuery`], because clients merge with a query
//! plan, unless the caller asks for the server's merge. A request that names a prefix of a key, or a span of
//! the hash space, is always merged by the server.

use std::sync::Arc;

use shardlake_model::{Error, ErrorKind, KeyKind, PartitionKey, Result};
use shardlake_partition::FeedFilter;
use shardlake_routing::{Epk, KeyRange, effective_partition_key, prefix_range};
use shardlake_sql::{DistinctKind, KeyFilter, QueryPlan};

use crate::query_token::QueryToken;
use crate::request::QueryRequest;
use shardlake_host::span_of_point;
use shardlake_items::{FeedScope, resolve};
use shardlake_router::logical;
use shardlake_router::{ContainerEntry, PartitionHandle};

#[derive(Debug)]
pub struct Targets {
    /// In the order of the hash space.
    pub parts: Vec<Part>,
    /// Their answers are merged by the server.
    pub merges: bool,
}

/// A partition, and the part of it that is in scope.
#[derive(Debug, Clone)]
pub struct Part {
    pub partition: PartitionHandle,
    pub filter: FeedFilter,
    /// The part's span of the hash space.
    pub span: KeyRange,
}

/// A plan with the parts of the hash space that the query can match, in order.
#[derive(Debug, Clone)]
pub struct PlanReply {
    pub plan: QueryPlan,
    pub ranges: Vec<PlanRange>,
}

/// A part of the hash space that a query can match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlanRange {
    /// The hash of one partition key.
    Point(Epk),
    Span(KeyRange),
}

impl Part {
    pub fn new(partition: &PartitionHandle, filter: FeedFilter) -> Part {
        let span = match &filter {
            FeedFilter::Range(range) | FeedFilter::Prefix(range, _) => {
                range.intersection(partition.epk_range())
            }
            FeedFilter::Logical(logical) => span_of_point(&logical.epk),
        };
        Part { partition: partition.clone(), filter, span }
    }

    /// The pieces of this part that a token distinguishes, without those already read: ranges may have been
    /// joined since the token was made, and its positions hold within the earlier ranges.
    pub fn cut_by(&self, token: &QueryToken) -> Vec<Part> {
        let (FeedFilter::Range(_) | FeedFilter::Prefix(..)) = &self.filter else { return vec![self.clone()] };
        let is_inside = |bound: &&Epk| self.span.min < **bound && !self.span.is_below(bound);
        let bounds = token.pieces.iter().flat_map(|piece| [&piece.span.min, &piece.span.max]);
        let mut bounds: Vec<Epk> =
            bounds.filter(|bound| bound.0.first() != Some(&0xFF)).filter(is_inside).cloned().collect();
        bounds.push(self.span.max.clone());
        bounds.sort();
        bounds.dedup();
        let mut parts = Vec::with_capacity(bounds.len());
        let mut min = self.span.min.clone();
        for max in bounds {
            let span = KeyRange { min, max: max.clone() };
            if !token.is_behind(&span) {
                parts.push(self.within(span));
            }
            min = max;
        }
        debug_assert!(
            parts.windows(2).all(|pair| pair[0].span.max <= pair[1].span.min),
            "the parts that a token cuts are disjoint and ascending"
        );
        debug_assert!(
            parts.iter().all(|part| self.span.contains_range(&part.span)),
            "a token never widens the part that it cuts"
        );
        parts
    }

    /// Leaves out everything above a bound; returns whether anything is left.
    pub fn end_at(&mut self, end: &Epk) -> bool {
        let below = KeyRange { min: Epk::default(), max: end.clone() };
        if !below.is_unbounded_above()
            && self.span.overlaps(&KeyRange { min: end.clone(), max: Epk(vec![0xFF]) })
        {
            *self = self.within(self.span.intersection(&below));
        }
        !self.span.is_empty()
    }

    fn within(&self, span: KeyRange) -> Part {
        let filter = match &self.filter {
            FeedFilter::Range(_) => FeedFilter::Range(span.clone()),
            FeedFilter::Prefix(_, components) => FeedFilter::Prefix(span.clone(), components.clone()),
            FeedFilter::Logical(logical) => FeedFilter::Logical(logical.clone()),
        };
        Part { partition: self.partition.clone(), filter, span }
    }

    pub fn is_one_logical_partition(&self) -> bool {
        matches!(self.filter, FeedFilter::Logical(_))
    }
}

/// `plan` is called only if the text decides.
pub fn targets(
    entry: &ContainerEntry,
    request: &QueryRequest<'_>,
    plan: impl FnOnce() -> Result<Arc<QueryPlan>>,
) -> Result<Targets> {
    if request.scope != FeedScope::All {
        let (filter, partitions) = resolve(entry, &request.scope)?;
        let mut parts: Vec<Part> =
            partitions.iter().map(|partition| Part::new(partition, filter.clone())).collect();
        // These scopes cannot become several parts between two pages; a position of one kind of merge means
        // nothing to the other.
        let names_range = matches!(&request.scope, FeedScope::Range { range_id: Some(_), .. });
        if names_range || matches!(filter, FeedFilter::Logical(_)) {
            return Ok(Targets { parts, merges: false });
        }
        let plan = plan()?;
        if plan.keys == KeyFilter::Nothing {
            // Any partition answers for all of them.
            parts.truncate(1);
            return Ok(Targets { merges: false, parts });
        }
        return Ok(Targets { merges: !is_plain(&plan), parts });
    }
    let plan = plan()?;
    let parts = parts_of_keys(entry, &plan.keys);
    let targets_one_key = matches!(&plan.keys, KeyFilter::Keys(keys) if is_one_full(entry, keys));
    if targets_one_key || plan.keys == KeyFilter::Nothing {
        // The reference leaves named aggregates to clients even here, and the Python SDK's tests expect the
        // error.
        let has_named_aggregates =
            plan.info.group_by_alias_to_aggregate.iter().any(|(_, aggregate)| aggregate.is_some());
        let leaves = has_named_aggregates && request.allows_cross_partition && !request.fans_out;
        return if leaves { Err(client_must_merge()) } else { Ok(Targets { parts, merges: false }) };
    }
    if !request.allows_cross_partition {
        return Err(Error::new(
            ErrorKind::CrossPartitionQuery,
            "the query covers several logical partitions, which its request does not allow",
        ));
    }
    // A request for the whole container cannot know that it has one partition at the moment.
    let needs_merge = !is_plain(&plan) && (parts.len() > 1 || plan.keys == KeyFilter::All);
    if needs_merge && !request.fans_out {
        return Err(client_must_merge());
    }
    // Also for a single part: there may be several on the next page.
    Ok(Targets { merges: request.fans_out && !is_plain(&plan), parts })
}

fn parts_of_keys(entry: &ContainerEntry, keys: &KeyFilter) -> Vec<Part> {
    match keys {
        KeyFilter::Keys(keys) if is_one_full(entry, keys) => {
            let logical = logical(entry, keys[0].clone());
            vec![Part::new(entry.map.lookup(&logical.epk), FeedFilter::Logical(logical))]
        }
        // Any partition can answer for all of them, without reading its items.
        KeyFilter::Nothing => {
            entry.map.iter().take(1).map(|first| Part::new(first, FeedFilter::Range(nowhere()))).collect()
        }
        KeyFilter::Keys(_) | KeyFilter::All => {
            let spans = spans_of(entry, keys);
            let part = |partition| Some(Part::new(partition, FeedFilter::Range(hull(&spans, partition)?)));
            entry.map.iter().filter_map(part).collect()
        }
    }
}

/// The span that holds no hash.
pub fn nowhere() -> KeyRange {
    KeyRange { min: Epk::default(), max: Epk::default() }
}

/// The smallest span with all keys that lie in a partition; the query's own condition excludes other keys.
fn hull(spans: &[KeyRange], partition: &PartitionHandle) -> Option<KeyRange> {
    let mut inside = spans.iter().filter(|span| span.overlaps(partition.epk_range()));
    let first = inside.next()?;
    let last = inside.next_back().unwrap_or(first);
    debug_assert!(first.min <= last.min, "spans of keys are in order");
    Some(KeyRange { min: first.min.clone(), max: last.max.clone() })
}

/// Whether the partitions' answers simply follow one another.
fn is_plain(plan: &QueryPlan) -> bool {
    let info = &plan.info;
    let merges = plan.reads_a_whole_result
        || info.distinct != DistinctKind::None
        || info.top.is_some()
        || info.offset.is_some()
        || info.limit.is_some()
        || !info.order_by.is_empty()
        || !info.group_by_expressions.is_empty()
        || !info.aggregates.is_empty()
        || !info.group_by_alias_to_aggregate.is_empty()
        || info.distinct_count.is_some();
    !merges
}

fn client_must_merge() -> Error {
    Error::new(
        ErrorKind::CrossPartitionQuery,
        "The provided cross partition query can not be directly served by the gateway. Cross partition query with TOP/ORDER BY/DISTINCT or aggregate functions is not supported. Use the query plan to merge the partitions' answers, or set x-shardlake-fan-out: true to merge on the server",
    )
}

fn is_one_full(entry: &ContainerEntry, keys: &[PartitionKey]) -> bool {
    matches!(keys, [key] if key.0.len() == entry.shape.key_paths.len())
}

/// Spans that can hold matching items, in order and without overlaps.
fn spans_of(entry: &ContainerEntry, keys: &KeyFilter) -> Vec<KeyRange> {
    let definition = &entry.record.container.definition.partition_key;
    match keys {
        KeyFilter::All => vec![KeyRange::full()],
        KeyFilter::Nothing => vec![],
        KeyFilter::Keys(keys) => {
            let mut spans: Vec<KeyRange> = keys.iter().map(|key| prefix_range(definition, key)).collect();
            spans.sort_by(|left, right| left.min.cmp(&right.min).then(right.max.cmp(&left.max)));
            spans.dedup_by(|later, kept| kept.contains_range(later));
            spans
        }
    }
}

/// The spans of matching items for a client, which distinguishes points from spans.
pub fn plan_ranges(entry: &ContainerEntry, plan: &QueryPlan) -> Vec<PlanRange> {
    let definition = &entry.record.container.definition.partition_key;
    let mut spans = spans_of(entry, &plan.keys);
    if spans.is_empty() && definition.kind == KeyKind::MultiHash && !plan.has_row_of_nothing {
        // The service's answer when no partition has a row.
        spans.push(KeyRange::full());
    }
    let KeyFilter::Keys(keys) = &plan.keys else { return spans.into_iter().map(PlanRange::Span).collect() };
    let full = keys.iter().filter(|key| key.0.len() == entry.shape.key_paths.len());
    let mut points: Vec<Epk> = full.map(|key| effective_partition_key(definition, key)).collect();
    points.sort();
    let range = |span: KeyRange| {
        // The first hash not below the span's start: bounds have lost their trailing zeros.
        let point = points.get(points.partition_point(|epk| *epk < span.min));
        match point.filter(|epk| span_of_point(epk) == span) {
            Some(epk) => PlanRange::Point(epk.clone()),
            None => PlanRange::Span(span),
        }
    };
    spans.into_iter().map(range).collect()
}
