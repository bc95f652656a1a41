//! What a query would find and touch in a few items, under an index that need not exist: the raw figures of a prediction.
//!
//! The items are a sample; whoever asks scales the figures to the container. The way through the index is chosen by the rules of
//! `query/choose.rs` (the option with the fewest postings, a second one that narrows it), applied to the terms that
//! the items would have. What depends on probes of a real index (a scan because an index names most of the items) is not
//! followed: such a scan costs no more than the index would, so that the prediction holds.

use shardlake_document::decode_index_value;
use shardlake_index::{IndexLayout, ItemTerms, path_hash};
use shardlake_model::Result;
use shardlake_sql::{
    AccessPlan, Execution, IndexFilter, IndexRef, Interrupt, Leaf, LookupClass, Meter, OrderAccess,
    PageLimits, PreparedQuery, ValueRange,
};

use crate::item::StoredItem;
use crate::shape::ContainerShape;

/// With at most this many postings a filter beats an ordered access, as in `query/choose.rs`.
const SORTED_MAX: f64 = 512.0;
/// With at most this many postings nothing narrows an option.
const ALONE_MAX: f64 = 32.0;
/// Options of an AND that are looked at.
const OPTIONS_MAX: usize = 8;
/// Bytes of a term's path.
const HASH: usize = 8;

/// How a query reaches its items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueryWay {
    /// No item can match.
    Nothing,
    Scan,
    /// Entries of the index that its condition names.
    Entries,
    /// Entries of the index in the order of `ORDER BY`.
    Order,
}

/// Figures of the sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct QuerySketch {
    pub way: QueryWay,
    pub rows: u64,
    /// The rows do not become more with the items: groups, distinct values, aggregates.
    pub is_whole: bool,
    /// Items that would be loaded, and their bytes.
    pub items: u64,
    pub item_bytes: u64,
    pub postings: u64,
    /// Rows are sorted rather than read in order.
    pub sorts: bool,
}

/// `times` is how many items of the container one of `items` stands for. `access` was planned for `shape`.
pub fn query_sketch(
    (items, times): (&[StoredItem], f64),
    shape: &ContainerShape,
    query: &PreparedQuery,
    access: &AccessPlan,
    interrupt: Interrupt<'_>,
) -> Result<QuerySketch> {
    let rows = rows_of(items, query, interrupt)?;
    let layout = shape.serving.as_deref();
    let seen = layout.map(|layout| Seen::of(items, layout, interrupt));
    let reach = seen.as_ref().map_or(Reach::All, |_| Reach::of(&access.filter));
    let order = access.order.as_ref().filter(|_| seen.is_some());
    let taken = seen.as_ref().and_then(|seen| reach.cheapest(seen, times)).transpose()?;
    let few = |found: &Found| found.postings as f64 * times <= SORTED_MAX;
    let ordered = order.filter(|_| !taken.as_ref().is_some_and(few));
    let counts = query.counts_items() && access.precise;
    let sketch = QuerySketch {
        way: QueryWay::Scan,
        rows,
        is_whole: !query.may_stop_early(true),
        items: items.len() as u64,
        item_bytes: bytes_of(items, |_| true),
        postings: 0,
        sorts: query.is_ordered(),
    };
    Ok(match (reach, ordered, taken, &seen) {
        (Reach::Nothing, ..) => QuerySketch { way: QueryWay::Nothing, items: 0, item_bytes: 0, ..sketch },
        (_, Some(order), _, Some(seen)) => {
            let found = seen.in_order(order)?;
            QuerySketch { way: QueryWay::Order, sorts: false, ..found.told(items, sketch) }
        }
        (_, None, Some(found), _) => {
            let told = QuerySketch { way: QueryWay::Entries, ..found.told(items, sketch) };
            if counts { QuerySketch { items: 0, item_bytes: 0, ..told } } else { told }
        }
        _ if counts => QuerySketch { items: 0, item_bytes: 0, ..sketch },
        _ => sketch,
    })
}

fn rows_of(items: &[StoredItem], query: &PreparedQuery, interrupt: Interrupt<'_>) -> Result<u64> {
    let unlimited = PageLimits { rows: usize::MAX, size_bytes: usize::MAX };
    let mut execution = Execution::start(query, unlimited, false, None)?;
    for item in items {
        execution.push(&item.view(), false, interrupt)?;
    }
    Ok(execution.finish(true, interrupt)?.rows.len() as u64)
}

fn bytes_of(items: &[StoredItem], is_met: impl Fn(usize) -> bool) -> u64 {
    let sizes = items.iter().enumerate().filter(|(place, _)| is_met(*place));
    sizes.map(|(_, item)| item.json_size_bytes() as u64).sum()
}

/// Lists of leaves of which each list covers the filter.
enum Reach<'p> {
    Nothing,
    /// The index does not narrow it.
    All,
    Options(Vec<Vec<&'p Leaf>>),
}

impl<'p> Reach<'p> {
    fn of(filter: &'p IndexFilter) -> Reach<'p> {
        match filter {
            IndexFilter::Nothing => Reach::Nothing,
            IndexFilter::Everything => Reach::All,
            IndexFilter::Leaf(leaf) if leaf.ranges.is_empty() => Reach::Nothing,
            IndexFilter::Leaf(leaf) => Reach::Options(vec![vec![leaf]]),
            IndexFilter::And(parts) => Reach::of_all(parts),
            IndexFilter::Or(parts) => Reach::of_any(parts),
        }
    }

    fn of_all(parts: &'p [IndexFilter]) -> Reach<'p> {
        let mut all = Vec::new();
        for part in parts {
            match Reach::of(part) {
                Reach::Nothing => return Reach::Nothing,
                Reach::All => {}
                Reach::Options(options) => all.extend(options),
            }
        }
        all.sort_by_key(|leaves| rank(leaves));
        all.truncate(OPTIONS_MAX);
        if all.is_empty() { Reach::All } else { Reach::Options(all) }
    }

    fn of_any(parts: &'p [IndexFilter]) -> Reach<'p> {
        let mut whole = Vec::new();
        for part in parts {
            match Reach::of(part) {
                Reach::Nothing => {}
                Reach::All => return Reach::All,
                Reach::Options(options) => {
                    whole.extend(options.into_iter().min_by_key(|leaves| rank(leaves)).into_iter().flatten())
                }
            }
        }
        if whole.is_empty() { Reach::Nothing } else { Reach::Options(vec![whole]) }
    }

    /// The option with the fewest postings, narrowed by the one with the next fewest.
    fn cheapest(&self, seen: &Seen<'_>, times: f64) -> Option<Result<Found>> {
        let Reach::Options(options) = self else { return None };
        let found: Result<Vec<Found>> = options.iter().map(|leaves| seen.under(leaves)).collect();
        let mut found = match found {
            Ok(found) => found,
            Err(error) => return Some(Err(error)),
        };
        found.sort_by_key(|one| one.postings);
        let mut found = found.into_iter();
        let taken = found.next()?;
        Some(Ok(match found.next() {
            Some(other) if taken.postings as f64 * times > ALONE_MAX => taken.and(&other),
            _ => taken,
        }))
    }
}

/// Fewer and cheaper lookups first.
fn rank(leaves: &[&Leaf]) -> (LookupClass, usize) {
    let worst = leaves.iter().map(|leaf| leaf.class).max();
    (worst.unwrap_or(LookupClass::Seek), leaves.len())
}

/// Postings of a choice, and which items of the sample they lead to.
struct Found {
    postings: u64,
    met: Vec<bool>,
}

impl Found {
    fn and(self, other: &Found) -> Found {
        let met = self.met.iter().zip(&other.met).map(|(one, other)| *one && *other).collect();
        // An index names its entries whether or not another one rules them out.
        Found { postings: self.postings + other.postings, met }
    }

    fn told(&self, items: &[StoredItem], sketch: QuerySketch) -> QuerySketch {
        QuerySketch {
            items: self.met.iter().filter(|met| **met).count() as u64,
            item_bytes: bytes_of(items, |place| self.met[place]),
            postings: self.postings,
            ..sketch
        }
    }
}

/// The terms that the items of the sample have under a layout.
struct Seen<'a> {
    terms: Vec<ItemTerms>,
    layout: &'a IndexLayout,
    interrupt: Interrupt<'a>,
}

impl<'a> Seen<'a> {
    fn of(items: &[StoredItem], layout: &'a IndexLayout, interrupt: Interrupt<'a>) -> Seen<'a> {
        let terms = items.iter().map(|item| ItemTerms::of(&item.view(), layout)).collect();
        Seen { terms, layout, interrupt }
    }

    fn prefix_of(&self, index: &IndexRef) -> [u8; HASH] {
        match index {
            IndexRef::Path(path) => path_hash(path),
            IndexRef::Composite(number) => self.layout.composite_hash(*number),
        }
        .to_be_bytes()
    }

    fn under(&self, leaves: &[&Leaf]) -> Result<Found> {
        let mut found = Found { postings: 0, met: vec![false; self.terms.len()] };
        let meter = Meter::default();
        for leaf in leaves {
            let prefix = self.prefix_of(&leaf.index);
            for (terms, met) in self.terms.iter().zip(&mut found.met) {
                for value in terms.iter().filter_map(|term| term.strip_prefix(&prefix[..])) {
                    if leaf.ranges.iter().any(|range| is_within(range, value)) {
                        found.postings += 1;
                        *met |= self.passes(leaf, value, &meter)?;
                    }
                }
            }
        }
        Ok(found)
    }

    fn passes(&self, leaf: &Leaf, value: &[u8], meter: &Meter) -> Result<bool> {
        let (Some(test), Some(value)) = (&leaf.test, decode_index_value(value)) else { return Ok(true) };
        Ok(test.matches(&value, meter, self.interrupt)?)
    }

    /// Everything that the order's part of the index holds.
    fn in_order(&self, order: &OrderAccess) -> Result<Found> {
        let prefix = self.prefix_of(&order.index);
        let mut found = Found { postings: 0, met: vec![order.includes_undefined; self.terms.len()] };
        for (terms, met) in self.terms.iter().zip(&mut found.met) {
            for value in terms.iter().filter_map(|term| term.strip_prefix(&prefix[..])) {
                if order.range.as_ref().is_none_or(|range| is_within(range, value)) {
                    found.postings += 1;
                    *met = true;
                }
            }
        }
        Ok(found)
    }
}

fn is_within(range: &ValueRange, value: &[u8]) -> bool {
    range.start.as_slice() <= value && value < range.end.as_slice()
}
