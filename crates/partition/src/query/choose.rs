//! Which access to take.
//!
//! A filter offers options (`options.rs`). Bounded probes of the index find the one with the fewest
//! postings, and the rules of `rules.rs` choose one. A later page uses the access of the first one,
//! which its position names; a page that sorted its rows is followed by pages that sort them.

use std::collections::VecDeque;

use futures::future::{FutureExt, try_join_all};
use rustc_hash::FxHashSet;
use shardlake_model::{Error, Result};
use shardlake_sql::{IndexFilter, Leaf, LookupClass, OrderAccess};
use shardlake_storage::{Chunk, Scan, ScanOptions};

use super::ahead::Ahead;
use super::options::{Choice, choices, is_of_key, rank};
use super::ordered::Ordered;
use super::position::{AccessPosition, OrderedPosition};
use super::postings::{Posting, Range, STEPS_OF_SCAN};
use super::reader::{Reader, fingerprint, fingerprint_of_order};
use super::rules::{Fact, Facts, OTHERS_MAX, PROBES, Smallest, Step, Way};
use super::scan::{ItemScan, ScanFrom};
use super::scope::ScopeItems;
use super::spans::{Begun, Spans};
use crate::feed::FeedFilter;

/// Ranges probed at a time in a slow store.
const PROBES_AT_ONCE: usize = 64;

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

/// Known number of postings in a range.
#[derive(Debug, Clone, Copy, Default)]
struct Probe {
    postings: usize,
    /// There are no more.
    is_all: bool,
}

/// `sorts`: the page before has sorted its rows.
pub(super) async fn choose<'p>(
    reader: &mut Reader<'p>,
    resume: &AccessPosition,
    sorts: bool,
) -> Result<Chosen<'p>> {
    let (access, query) = (reader.request.access, reader.request.query);
    let all = choices(&access.filter, &names_scope(reader));
    reader.has_all_in_scope = access.precise && all.as_ref().is_some_and(Vec::is_empty);
    let choices = if reader.layout.is_some() { all } else { Some(vec![]) };
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
        AccessPosition::Scan(after) => Ok(scan(ScanFrom::Key(after.clone()))),
        AccessPosition::Created(after) => Ok(scan(ScanFrom::Created(Some(after.clone())))),
        AccessPosition::Spans { plan, choices: taken, place } => {
            if *plan != fingerprint(reader) {
                return Err(changed());
            }
            let taken = taken.first().copied().unwrap_or_default();
            let choice = choices.into_iter().nth(usize::from(taken)).ok_or_else(changed)?;
            let spans = Spans { after: Some(place.clone()), ..spans_of(reader, choice) };
            Ok(Chosen { choice: Some(taken), ..Access::Spans(spans).into() })
        }
        AccessPosition::Ordered { plan, at } => {
            let order = order.filter(|order| *plan == fingerprint_of_order(reader, order));
            ordered(reader, order.ok_or_else(changed)?, Some(at.clone())).await
        }
    }
}

fn changed() -> Error {
    Error::bad_request(
        "Invalid Continuation Token: the container's index has changed since the token was made, or the filter selects another one; start the query again",
    )
}

fn scan<'p>(from: ScanFrom) -> Chosen<'p> {
    Access::Scan(ItemScan { from, begun: None }).into()
}

/// Where a scan of the first page begins.
fn start_of(reader: &Reader<'_>) -> ScanFrom {
    match reader.request.query.comes_in_the_order_of_items() {
        true => ScanFrom::Created(None),
        false => ScanFrom::Start,
    }
}

async fn first<'p>(
    reader: &mut Reader<'p>,
    choices: Vec<Choice<'p>>,
    order: Option<&'p OrderAccess>,
) -> Result<Chosen<'p>> {
    // The index has no entries for a transaction's uncommitted writes.
    if reader.request.own().is_some() {
        return Ok(scan(start_of(reader)));
    }
    let mut facts = Facts {
        has_options: !choices.is_empty(),
        has_order: order.is_some(),
        is_logical: matches!(reader.request.filter, FeedFilter::Logical(_)),
        is_part: !reader.covers_partition(),
        may_stop_early: reader.request.query.may_stop_early(true),
        items: reader.core.items(),
        ..Facts::default()
    };
    // The rows of a small scope, or the first postings of the only option, which are read anyway where they are taken.
    let (mut small, mut begun) = (None, None);
    let way = loop {
        match facts.step() {
            Step::Take(way) => break way,
            Step::Ask(Fact::FitsChunk) => {
                small = small_scope(reader).await?;
                facts.fits_chunk = Some(small.is_some());
            }
            Step::Ask(Fact::Smallest) => {
                facts.smallest = Some(smallest(reader, &choices, &mut begun).await?);
            }
            Step::Ask(Fact::ScopeHasAtMost(count)) => {
                facts.is_scope_named = Some(ScopeItems::of(reader).are_at_most(reader, count).await?);
            }
            Step::Ask(Fact::IsDense(option)) => {
                facts.is_dense = Some(is_dense(reader, &choices[option], &mut begun).await?);
            }
        }
    };
    match (way, order) {
        (Way::Order, Some(order)) => ordered(reader, order, None).await,
        (Way::Scan | Way::Order, _) => {
            Ok(Access::Scan(ItemScan { from: start_of(reader), begun: small }).into())
        }
        (Way::Option { option, is_narrowed }, _) => {
            let others = if is_narrowed { others(reader, option).await? } else { None };
            let mut chosen = take(reader, choices, option, begun);
            if let Access::Spans(spans) = &mut chosen.access {
                spans.others = others;
            }
            Ok(chosen)
        }
    }
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

/// Whether a leaf only names the scope: within one logical partition, a condition on the partition
/// key alone narrows nothing.
fn names_scope<'r>(reader: &'r Reader<'_>) -> impl Fn(&Leaf) -> bool + use<'r> {
    let is_logical = matches!(reader.request.filter, FeedFilter::Logical(_));
    let key_paths = &reader.shape.key_paths;
    move |leaf| is_logical && is_of_key(leaf, key_paths)
}

/// The option with the fewest postings and how many it has, within the last probe.
async fn smallest(
    reader: &mut Reader<'_>,
    choices: &[Choice<'_>],
    begun: &mut Option<Begun>,
) -> Result<Smallest> {
    let mut probes: Vec<Vec<Probe>> = choices
        .iter()
        .map(|choice| vec![Probe::default(); choice.ranges(|leaf| reader.has_summaries(leaf)).count()])
        .collect();
    if let ([choice], [probes]) = (choices, &mut probes[..])
        && let ([leaf], Some(probe)) = (&choice.leaves[..], probes.first_mut())
        && leaf.ranges.len() == 1
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
        if let Some((option, count)) = least {
            return Ok(Smallest { option, postings: Some(count) });
        }
    }
    // Sorted by rank already, except a single OR.
    Ok(Smallest { option: 0, postings: None })
}

/// Reads the first postings of an option of one range.
async fn begin(reader: &Reader<'_>, choice: &Choice<'_>, begun: &mut Option<Begun>) -> Result<Probe> {
    let Some((leaf, place)) = choice.ranges(|leaf| reader.has_summaries(leaf)).next() else {
        return Ok(Probe::default());
    };
    reader.check_interrupted()?;
    let mut scan = scan_of(reader, leaf, place, None)?;
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

fn scan_of(reader: &Reader<'_>, leaf: &Leaf, place: usize, limit: Option<usize>) -> Result<Scan> {
    let range = Range::of(reader, leaf, (0, place))?;
    let Range { start, end, .. } = range.ok_or_else(|| Error::internal("a leaf has no such range"))?;
    Ok(reader.hot.scan(start..end, ScanOptions { limit, ..ScanOptions::default() }))
}

/// Counts the ranges that are not counted yet, of all options at once.
async fn probe_all(
    reader: &Reader<'_>,
    choices: &[Choice<'_>],
    probes: &mut [Vec<Probe>],
    limit: usize,
) -> Result<()> {
    let ranges = choices
        .iter()
        .flat_map(|choice| choice.ranges(|leaf| reader.has_summaries(leaf)))
        .zip(probes.iter_mut().flatten());
    let mut unknown: Vec<_> = ranges.filter(|(_, probe)| !probe.is_all && probe.postings < limit).collect();
    for together in unknown.chunks_mut(PROBES_AT_ONCE) {
        let mut counting = Vec::with_capacity(together.len());
        for ((leaf, place), _) in &*together {
            counting.push(count_range(reader, leaf, *place, limit).boxed());
        }
        let counted = try_join_all(counting).await?;
        together.iter_mut().zip(counted).for_each(|((_, probe), counted)| **probe = counted);
    }
    Ok(())
}

async fn count_range(reader: &Reader<'_>, leaf: &Leaf, place: usize, limit: usize) -> Result<Probe> {
    let mut scan = scan_of(reader, leaf, place, Some(limit))?;
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
    for ((leaf, place), probe) in choice.ranges(|leaf| reader.has_summaries(leaf)).zip(probes) {
        reader.check_interrupted()?;
        reader.request.work.meter().add(STEPS_OF_SCAN);
        let wanted = limit - count;
        if !probe.is_all && probe.postings < wanted {
            *probe = count_range(reader, leaf, place, wanted).await?;
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
    // With fewer postings, summaries are most of the option, and do not show how close its own postings lie.
    let Some(begun) = begun.as_ref().map(|begun| &begun.rows).filter(|rows| rows.len() >= PROBES[1]) else {
        return Ok(false);
    };
    let (Some((first, _)), Some((last, _))) = (begun.first(), begun.last()) else { return Ok(false) };
    let (first, last) = (Posting::parse(first, common)?.ordinal, Posting::parse(last, common)?.ordinal);
    Ok(last - first < 3 * begun.len() as u64)
}

/// The ordinals of the part of an AND with the fewest postings besides the one taken, when they are few enough to keep.
async fn others(reader: &mut Reader<'_>, taken: usize) -> Result<Option<FxHashSet<u64>>> {
    let IndexFilter::And(parts) = &reader.request.access.filter else { return Ok(None) };
    let mut all = Vec::new();
    for part in parts {
        all.extend(choices(part, &names_scope(reader)).unwrap_or_default());
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
    for (branch, leaf) in choice.leaves.iter().enumerate() {
        for number in 0..=leaf.ranges.len() {
            let Some(range) = Range::of(reader, leaf, (branch, number))? else { continue };
            let Range { prefix, start, end, is_summary, .. } = range;
            reader.request.work.meter().add(STEPS_OF_SCAN);
            let mut scan = reader.hot.scan(start..end, ScanOptions::default());
            while let Some(rows) = scan.next_chunk().await.map_err(crate::storage_error)? {
                let count = rows.len();
                reader.statistics.postings_read += count as u64;
                for (key, _) in rows {
                    let posting = Posting::parse(&key, prefix.len())?;
                    let meter = reader.request.work.meter();
                    if is_summary || reader.passes_test(leaf, posting.value(), meter)? {
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

/// The rows of the scope, if one chunk could hold them all, and the scan that is at its end.
/// Whether they are cached does not matter: the charge depends on the access.
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
