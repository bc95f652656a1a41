//! Which access to take.
//!
//! A filter offers *options*: lists of leaves that together cover it. An AND has the options of all its parts, an OR one
//! made of the best of each part. Bounded probes of the index find the option with the fewest postings; an index that names
//! a large part of the items loses to a scan. One logical partition is scanned when it fits one chunk, whatever the index has
//! to offer. A later page takes the access of the first one, which its position names; one that sorted its rows is followed by
//! one that sorts them.

use std::collections::VecDeque;
use std::hash::Hasher;

use futures::future::{FutureExt, try_join_all};
use rustc_hash::{FxHashSet, FxHasher};
use shardlake_model::{Error, IndexPathSegment, Result};
use shardlake_sql::{IndexFilter, IndexRef, Leaf, LookupClass, OrderAccess, ValueRange};
use shardlake_storage::{Chunk, Scan, ScanOptions};

use super::Reader;
use super::ahead::Ahead;
use super::ordered::Ordered;
use super::position::{AccessPosition, KeyPosition, OrderedPosition};
use super::scan::ItemScan;
use super::scope::ScopeItems;
use super::spans::{Begun, Posting, STEPS_OF_SCAN, Spans};
use crate::feed::FeedFilter;

/// Options looked at; a filter with more has as many good ones among the first.
const OPTIONS_MAX: usize = 8;
/// Postings that each option is probed for, round by round, until one is exhausted.
const PROBES: [usize; 3] = [32, 256, 2048];
/// With at most this many postings a filter beats an ordered access: what it names is sorted.
const SORTED_MAX: usize = 512;
/// Ranges probed at a time in a slow store.
const PROBES_AT_ONCE: usize = 64;
/// Ordinals of a second condition kept in memory.
const OTHERS_MAX: usize = 65_536;

pub(super) enum Access<'p> {
    Nothing,
    Scan(ItemScan),
    Spans(Spans<'p>),
    Ordered(Ordered<'p>),
}

impl Access<'_> {
    pub fn words(&self) -> &'static str {
        match self {
            Access::Nothing => "nothing, no item can match",
            Access::Scan(_) => "scan of the items",
            Access::Spans(spans) if spans.others.is_some() => "index entries, intersected",
            Access::Spans(_) => "index entries",
            Access::Ordered(_) => "index entries in the order of ORDER BY",
        }
    }
}

pub(super) struct Chosen<'p> {
    pub access: Access<'p>,
    /// The option taken, for the position.
    pub choice: Option<u8>,
    pub wants_counter: Option<(u16, u64)>,
    /// An index could have been used, or was, so that items which are scanned cost nothing of their own.
    pub stands_for_index: bool,
}

impl<'p> From<Access<'p>> for Chosen<'p> {
    fn from(access: Access<'p>) -> Self {
        Chosen { access, choice: None, wants_counter: None, stands_for_index: false }
    }
}

/// Leaves that together cover the filter.
struct Choice<'p> {
    leaves: Vec<&'p Leaf>,
    /// They say exactly what the filter says.
    exact: bool,
}

impl<'p> Choice<'p> {
    fn ranges(&self) -> impl Iterator<Item = (&'p Leaf, &'p ValueRange)> {
        self.leaves.iter().flat_map(|leaf| leaf.ranges.iter().map(|range| (*leaf, range)))
    }
}

/// What is known of the number of postings in a range.
#[derive(Debug, Clone, Copy, Default)]
struct Probe {
    postings: usize,
    /// There are no more.
    is_all: bool,
}

/// Changes with everything that gives places in the index their meaning.
pub(super) fn fingerprint(reader: &Reader<'_>) -> u32 {
    let mut hasher = FxHasher::default();
    if let Some(layout) = &reader.layout {
        hasher.write_u16(layout.id);
    }
    hasher.write(format!("{:?} {:?}", reader.request.access.filter, reader.request.access.order).as_bytes());
    (hasher.finish() >> 32) as u32
}

/// `sorts`: the page before has sorted its rows.
pub(super) async fn choose<'p>(
    reader: &mut Reader<'p>,
    resume: &AccessPosition,
    sorts: bool,
) -> Result<Chosen<'p>> {
    let (access, query) = (reader.request.access, reader.request.query);
    let choices = if reader.layout.is_some() { choices(&access.filter, reader) } else { Some(vec![]) };
    let choices = choices.filter(|_| reader.scope.0 < reader.scope.1);
    let Some(choices) = choices else { return Ok(Access::Nothing.into()) };
    let order = access.order.as_ref().filter(|_| reader.layout.is_some());
    let is_served_in_order = order.is_some() && access.precise && query.may_stop_early(true);
    let stands_for_index = !choices.is_empty() || is_served_in_order;
    let order = order.filter(|_| !sorts);
    let chosen = at(reader, resume, choices, order).await?;
    Ok(Chosen { stands_for_index, ..chosen })
}

async fn at<'p>(
    reader: &mut Reader<'p>,
    resume: &AccessPosition,
    choices: Vec<Choice<'p>>,
    order: Option<&'p OrderAccess>,
) -> Result<Chosen<'p>> {
    match resume {
        AccessPosition::Start => first(reader, choices, order).await,
        AccessPosition::Scan(after) => Ok(scan(Some(after.clone()))),
        AccessPosition::Spans { plan, choices: taken, place } => {
            check_plan(reader, *plan)?;
            let taken = taken.first().copied().unwrap_or_default();
            let choice = choices.into_iter().nth(usize::from(taken)).ok_or_else(changed)?;
            let spans = Spans { after: Some(place.clone()), ..spans_of(reader, choice) };
            Ok(Chosen { choice: Some(taken), ..Access::Spans(spans).into() })
        }
        AccessPosition::Ordered { plan, at } => {
            check_plan(reader, *plan)?;
            ordered(reader, order.ok_or_else(changed)?, Some(at.clone())).await
        }
    }
}

fn check_plan(reader: &Reader<'_>, plan: u32) -> Result<()> {
    if plan == fingerprint(reader) { Ok(()) } else { Err(changed()) }
}

fn changed() -> Error {
    Error::bad_request(
        "Invalid Continuation Token: the container's index has changed since the token was made; start the query again",
    )
}

fn scan<'p>(after: Option<KeyPosition>) -> Chosen<'p> {
    Access::Scan(ItemScan { after, begun: None }).into()
}

async fn first<'p>(
    reader: &mut Reader<'p>,
    choices: Vec<Choice<'p>>,
    order: Option<&'p OrderAccess>,
) -> Result<Chosen<'p>> {
    // The index does not know what a transaction has not committed.
    if (choices.is_empty() && order.is_none()) || reader.request.own().is_some() {
        return Ok(scan(None));
    }
    let is_logical = matches!(reader.request.filter, FeedFilter::Logical(_));
    let is_part = !reader.covers_partition();
    if (is_logical || (is_part && order.is_some()))
        && let Some(begun) = small_scope(reader).await?
    {
        return Ok(Access::Scan(ItemScan { after: None, begun: Some(begun) }).into());
    }
    // The first postings of the only option, which are read anyway where it is taken.
    let mut begun = None;
    let best = smallest(reader, &choices, &mut begun).await?;
    if let Some(order) = order {
        return match best {
            Some((index, count)) if count.is_some_and(|count| count <= SORTED_MAX) => {
                Ok(take(reader, choices, index, begun))
            }
            // Every item is needed: those of the scope lie together.
            _ if is_part && !reader.request.query.may_stop_early(true) => Ok(scan(None)),
            _ => ordered(reader, order, None).await,
        };
    }
    let Some((index, count)) = best else { return Ok(scan(None)) };
    let items = reader.partition.items();
    let names_many = match count {
        Some(count) if is_part && ScopeItems::of(reader).are_at_most(reader, count as u64).await? => true,
        Some(count) => count as u64 > items / 3,
        None if is_logical => true,
        None => {
            items <= 4 * PROBES[PROBES.len() - 1] as u64
                || is_dense(reader, &choices[index], &mut begun).await?
        }
    };
    if names_many && !is_tiny(count) {
        return Ok(scan(None));
    }
    let others = match count {
        Some(count) if count <= PROBES[0] => None,
        _ => others(reader, index).await?,
    };
    let mut chosen = take(reader, choices, index, begun);
    if let Access::Spans(spans) = &mut chosen.access {
        spans.others = others;
    }
    Ok(chosen)
}

fn is_tiny(count: Option<usize>) -> bool {
    count.is_some_and(|count| count <= PROBES[0])
}

fn take<'p>(reader: &Reader<'p>, choices: Vec<Choice<'p>>, index: usize, begun: Option<Begun>) -> Chosen<'p> {
    let choice = choices.into_iter().nth(index).expect("the index is one of the choices");
    let spans = Spans { begun, ..spans_of(reader, choice) };
    Chosen { choice: Some(index as u8), ..Access::Spans(spans).into() }
}

fn spans_of<'p>(reader: &Reader<'p>, choice: Choice<'p>) -> Spans<'p> {
    let exact = choice.exact && reader.request.access.precise;
    Spans { branches: choice.leaves, after: None, exact, others: None, begun: None, ahead: Ahead::default() }
}

async fn ordered<'p>(
    reader: &mut Reader<'p>,
    order: &'p OrderAccess,
    at: Option<OrderedPosition>,
) -> Result<Chosen<'p>> {
    let (ordered, wants_counter) = Ordered::open(reader, order, at).await?;
    Ok(Chosen { wants_counter, ..Access::Ordered(ordered).into() })
}

/// The options of a filter; `None` when it is never true, none when it needs a scan.
fn choices<'p>(filter: &'p IndexFilter, reader: &Reader<'_>) -> Option<Vec<Choice<'p>>> {
    match filter {
        IndexFilter::Nothing => None,
        IndexFilter::Everything => Some(vec![]),
        IndexFilter::Leaf(leaf) if leaf.ranges.is_empty() => None,
        IndexFilter::Leaf(leaf) if names_the_scope(leaf, reader) => Some(vec![]),
        IndexFilter::Leaf(leaf) => Some(vec![Choice { leaves: vec![leaf], exact: leaf.precise }]),
        IndexFilter::And(parts) => {
            let mut all = Vec::new();
            for part in parts {
                let exact_alone = parts.len() == 1;
                all.extend(
                    choices(part, reader)?
                        .into_iter()
                        .map(|choice| Choice { exact: choice.exact && exact_alone, ..choice }),
                );
            }
            all.sort_by_key(rank);
            all.truncate(OPTIONS_MAX);
            Some(all)
        }
        IndexFilter::Or(parts) => {
            let mut whole = Choice { leaves: vec![], exact: true };
            let mut any = false;
            for part in parts {
                let Some(options) = choices(part, reader) else { continue };
                any = true;
                let Some(best) = options.into_iter().min_by_key(rank) else { return Some(vec![]) };
                whole.exact &= best.exact;
                whole.leaves.extend(best.leaves);
            }
            any.then(|| vec![whole])
        }
    }
}

/// Within one logical partition, a condition on the partition key alone says nothing more.
fn names_the_scope(leaf: &Leaf, reader: &Reader<'_>) -> bool {
    let IndexRef::Path(path) = &leaf.index else { return false };
    let is = |key: &shardlake_model::KeyPath| {
        key.0.len() == path.len()
            && key.0.iter().zip(path).all(|(name, segment)| *segment == IndexPathSegment::Name(name.clone()))
    };
    matches!(reader.request.filter, FeedFilter::Logical(_)) && reader.shape.key_paths.iter().any(is)
}

/// Fewer and cheaper lookups first.
fn rank(choice: &Choice<'_>) -> (LookupClass, usize) {
    let worst = choice.leaves.iter().map(|leaf| leaf.class).max();
    (worst.unwrap_or(LookupClass::Seek), choice.leaves.len())
}

/// The option with the fewest postings and how many it has, as far as probes tell: `None` beyond the last probe.
async fn smallest(
    reader: &mut Reader<'_>,
    choices: &[Choice<'_>],
    begun: &mut Option<Begun>,
) -> Result<Option<(usize, Option<usize>)>> {
    let mut probes: Vec<Vec<Probe>> =
        choices.iter().map(|choice| vec![Probe::default(); choice.ranges().count()]).collect();
    if let ([choice], [probes]) = (choices, &mut probes[..])
        && let [probe] = &mut probes[..]
    {
        *probe = begin(reader, choice, begun).await?;
    }
    for (round, limit) in PROBES.into_iter().enumerate() {
        if !reader.snapshot.reads_at_once() {
            // The first two rounds are one trip to a slow store.
            probe_all(reader, choices, &mut probes, limit.max(PROBES[1.max(round)])).await?;
        }
        let mut least: Option<(usize, usize)> = None;
        for (index, (choice, probes)) in choices.iter().zip(&mut probes).enumerate() {
            let count = count_postings(reader, choice, probes, limit).await?;
            if count < limit && least.is_none_or(|(_, smallest)| count < smallest) {
                least = Some((index, count));
            }
        }
        if let Some((index, count)) = least {
            return Ok(Some((index, Some(count))));
        }
    }
    // Sorted by rank already, except a single OR.
    Ok((!choices.is_empty()).then_some((0, None)))
}

/// Reads the first postings of an option of one range.
async fn begin(reader: &Reader<'_>, choice: &Choice<'_>, begun: &mut Option<Begun>) -> Result<Probe> {
    let Some((leaf, range)) = choice.ranges().next() else { return Ok(Probe::default()) };
    reader.check_interrupted()?;
    let mut scan = scan_of(reader, leaf, range, None)?;
    let (mut first, mut is_all) = (Vec::new(), false);
    while first.len() < PROBES[1] && !is_all {
        match scan.next_chunk().await.map_err(crate::storage_error)? {
            Some(rows) if first.is_empty() => first = rows,
            Some(rows) => first.extend(rows),
            None => is_all = true,
        }
    }
    let probe = Probe { postings: first.len(), is_all };
    *begun = Some(Begun { rows: first, scan });
    Ok(probe)
}

fn scan_of(reader: &Reader<'_>, leaf: &Leaf, range: &ValueRange, limit: Option<usize>) -> Result<Scan> {
    let prefix = reader.prefix_of(&leaf.index)?;
    let (start, end) = ([&prefix[..], &range.start].concat(), [&prefix[..], &range.end].concat());
    Ok(reader.hot.scan(start..end, ScanOptions { limit, ..ScanOptions::default() }))
}

/// Counts what is not known yet, of all options at once.
async fn probe_all(
    reader: &Reader<'_>,
    choices: &[Choice<'_>],
    probes: &mut [Vec<Probe>],
    limit: usize,
) -> Result<()> {
    let ranges = choices.iter().flat_map(Choice::ranges).zip(probes.iter_mut().flatten());
    let mut unknown: Vec<_> = ranges.filter(|(_, probe)| !probe.is_all && probe.postings < limit).collect();
    for together in unknown.chunks_mut(PROBES_AT_ONCE) {
        let mut counting = Vec::with_capacity(together.len());
        for ((leaf, range), _) in &*together {
            counting.push(count_range(reader, leaf, range, limit).boxed());
        }
        let counted = try_join_all(counting).await?;
        together.iter_mut().zip(counted).for_each(|((_, probe), counted)| **probe = counted);
    }
    Ok(())
}

async fn count_range(reader: &Reader<'_>, leaf: &Leaf, range: &ValueRange, limit: usize) -> Result<Probe> {
    let mut scan = scan_of(reader, leaf, range, Some(limit))?;
    let mut postings = 0;
    while let Some(more) = scan.count_chunk().await.map_err(crate::storage_error)? {
        postings += more;
    }
    Ok(Probe { postings, is_all: postings < limit })
}

async fn count_postings(
    reader: &mut Reader<'_>,
    choice: &Choice<'_>,
    probes: &mut [Probe],
    limit: usize,
) -> Result<usize> {
    let mut count = 0;
    for ((leaf, range), probe) in choice.ranges().zip(probes) {
        reader.check_interrupted()?;
        reader.request.work.meter().add(STEPS_OF_SCAN);
        let wanted = limit - count;
        if !probe.is_all && probe.postings < wanted {
            *probe = count_range(reader, leaf, range, wanted).await?;
        }
        count += probe.postings.min(wanted);
        if count >= limit {
            break;
        }
    }
    Ok(count)
}

/// Whether the first postings of one equality lie so close that it names a third of the items or more.
async fn is_dense(reader: &mut Reader<'_>, choice: &Choice<'_>, begun: &mut Option<Begun>) -> Result<bool> {
    let [leaf] = choice.leaves[..] else { return Ok(false) };
    if leaf.class != LookupClass::Seek || leaf.ranges.len() != 1 {
        return Ok(false);
    }
    if begun.is_none() {
        begin(reader, choice, begun).await?;
    }
    let common = reader.prefix_of(&leaf.index)?.len();
    let begun = begun.as_ref().map_or(&[][..], |begun| &begun.rows);
    let (Some((first, _)), Some((last, _))) = (begun.first(), begun.last()) else { return Ok(false) };
    let (first, last) = (Posting::parse(first, common)?.ordinal, Posting::parse(last, common)?.ordinal);
    Ok(last - first < 3 * begun.len() as u64)
}

/// The ordinals of the part of an AND with the fewest postings besides the one taken, when they are few enough to keep.
async fn others(reader: &mut Reader<'_>, taken: usize) -> Result<Option<FxHashSet<u64>>> {
    let IndexFilter::And(parts) = &reader.request.access.filter else { return Ok(None) };
    let mut all = Vec::new();
    for part in parts {
        all.extend(choices(part, reader).unwrap_or_default());
    }
    all.sort_by_key(rank);
    for (index, choice) in all.iter().enumerate() {
        if index == taken || choice.leaves.iter().any(|leaf| leaf.class > LookupClass::PreciseScan) {
            continue;
        }
        if let Some(ordinals) = ordinals(reader, choice).await? {
            return Ok(Some(ordinals));
        }
    }
    Ok(None)
}

async fn ordinals(reader: &mut Reader<'_>, choice: &Choice<'_>) -> Result<Option<FxHashSet<u64>>> {
    let mut found = FxHashSet::default();
    for leaf in &choice.leaves {
        let prefix = reader.prefix_of(&leaf.index)?;
        for range in &leaf.ranges {
            let (start, end) = ([&prefix[..], &range.start].concat(), [&prefix[..], &range.end].concat());
            reader.request.work.meter().add(STEPS_OF_SCAN);
            let mut scan = reader.hot.scan(start..end, ScanOptions::default());
            while let Some(rows) = scan.next_chunk().await.map_err(crate::storage_error)? {
                let count = rows.len();
                reader.statistics.postings_read += count as u64;
                for (key, _) in rows {
                    let posting = Posting::parse(&key, prefix.len())?;
                    if reader.passes_test(leaf, posting.value(), reader.request.work.meter())? {
                        found.insert(posting.ordinal);
                    }
                }
                if found.len() > OTHERS_MAX {
                    return Ok(None);
                }
                reader.check_interrupted()?;
                reader.give_way(count).await;
            }
        }
    }
    Ok(Some(found))
}

/// The rows of the scope, if one chunk could hold them all, and the scan that is at its end. Whether they are in memory has no part
/// in that: a charge goes by the access.
async fn small_scope(reader: &mut Reader<'_>) -> Result<Option<(VecDeque<Chunk>, Scan)>> {
    let (start, end) = reader.scope.clone();
    let mut scan = reader.hot.scan(start..end, ScanOptions::default());
    let (mut chunks, mut rows, mut bytes) = (VecDeque::new(), 0, 0);
    while let Some(chunk) = scan.next_rows_in_place().await.map_err(crate::storage_error)? {
        for (key, value) in chunk.rows() {
            if rows == ScanOptions::CHUNK_ROWS || bytes >= ScanOptions::CHUNK_BYTES {
                return Ok(None);
            }
            rows += 1;
            bytes += key.len() + value.len();
        }
        chunks.push_back(chunk);
    }
    Ok(Some((chunks, scan)))
}
