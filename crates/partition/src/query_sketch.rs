//! Prediction of a query's work under an index that need not exist, from a sample of items: the raw figures of a charge.
//!
//! Each partition is looked at by itself, as the engine does: the terms that its sampled items would have under the index stand
//! for its entries, and the rules of `query/rules.rs` choose an access from facts about them. Counts are scaled from the
//! sample to the partition before the rules look at them. A partition of which nothing was sampled is taken to look like the
//! whole sample. Figures are those that a page of the partition would report, with all rows in one page:
//!
//! ```text
//! sample 0 ── items 0 1 2 3 4 5 6 7 ── terms of each ── entries that a leaf's ranges hold
//!             └ partition 0 ┘└─ 1 ─┘      (per policy)    └ facts ── rules ── way ── figures of the page
//! ```
//!
//! Not followed: items whose time to live has run out, cut strings, and how an ordered page of one large logical partition
//! alternates between the index and the partition.

use std::sync::Arc;

use shardlake_document::decode_index_value;
use shardlake_index::{IndexLayout, ItemTerms, path_hash, summary_term};
use shardlake_model::Result;
use shardlake_routing::LogicalKey;
use shardlake_routing::{KeyRange, effective_partition_key};
use shardlake_sql::{
    AccessPlan, Execution, IndexFilter, IndexRef, Interrupt, Leaf, LookupClass, Meter, OrderAccess,
    PageLimits, PreparedQuery, ValueRange,
};
use shardlake_storage::ScanOptions;

use crate::feed::FeedFilter;
use crate::item::StoredItem;
use crate::partition_key::extract_partition_key;
use crate::query::lookup::is_many_valued;
use crate::query::options::{Choice, choices, is_of_key, rank};
use crate::query::rules::{Fact, Facts, OTHERS_MAX, PROBES, Smallest, Step, Way};
use crate::query::{QueryStatistics, summary_of};
use crate::shape::ContainerSchema;

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

/// Items of a container, with their partition keys.
#[derive(Debug)]
pub struct SampledItems {
    items: Vec<StoredItem>,
    keys: Vec<LogicalKey>,
}

/// The terms that sampled items would have under the index of a shape.
#[derive(Debug)]
pub struct SampledIndex {
    sample: Arc<SampledItems>,
    shape: Arc<ContainerSchema>,
    terms: Vec<ItemTerms>,
}

/// One partition that a query asks.
#[derive(Debug, Clone)]
pub struct SketchedPart {
    /// Range of the partition.
    pub range: KeyRange,
    pub items: u64,
    /// Its items that can match.
    pub filter: FeedFilter,
}

/// Rows of the sample, and the page of each part.
#[derive(Debug)]
pub struct QuerySketch {
    pub rows: u64,
    /// The rows do not become more with the items: groups, distinct values, aggregates.
    pub is_whole: bool,
    pub pages: Vec<PageSketch>,
}

/// Figures that a page of one partition would report, as [`crate::QueryPage`] does.
#[derive(Debug, Clone, Copy)]
pub struct PageSketch {
    pub way: QueryWay,
    /// Without rows.
    pub statistics: QueryStatistics,
    pub is_repeated: bool,
    pub stands_for_index: bool,
    /// Rows are sorted rather than read in order.
    pub sorts: bool,
}

impl SampledItems {
    pub fn new(items: Vec<StoredItem>, shape: &ContainerSchema) -> SampledItems {
        let key = |item: &StoredItem| {
            let partition_key = extract_partition_key(item.body(), &shape.key_paths);
            LogicalKey { epk: effective_partition_key(&shape.key_definition, &partition_key), partition_key }
        };
        SampledItems { keys: items.iter().map(key).collect(), items }
    }

    pub fn len(&self) -> usize {
        self.items.len()
    }

    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}

impl SampledIndex {
    pub fn new(sample: &Arc<SampledItems>, shape: &Arc<ContainerSchema>) -> SampledIndex {
        let terms = |layout: &Arc<IndexLayout>| {
            sample.items.iter().map(|item| ItemTerms::of(&item.view(), layout)).collect()
        };
        let terms = shape.serving.as_ref().map(terms).unwrap_or_default();
        SampledIndex { sample: sample.clone(), shape: shape.clone(), terms }
    }

    pub fn sample(&self) -> &SampledItems {
        &self.sample
    }

    pub fn shape(&self) -> &Arc<ContainerSchema> {
        &self.shape
    }

    /// `access` was planned for the shape. `merges`: the parts' rows are merged before they go out.
    pub fn sketch(
        &self,
        query: &PreparedQuery,
        access: &AccessPlan,
        (parts, merges): (&[SketchedPart], bool),
        interrupt: Interrupt<'_>,
    ) -> Result<QuerySketch> {
        let (rows, steps) = self.rows_of(query, interrupt)?;
        let page = |part: &SketchedPart| {
            let seen = Seen::of(self, query, access, part, interrupt);
            let page = seen.page(merges)?;
            // Items that an index names are looked at less closely, and their reading pays for it.
            let scanned = page.statistics.items_scanned as f64;
            let steps = steps as f64 * scanned / self.sample.len().max(1) as f64;
            Ok(PageSketch { statistics: QueryStatistics { steps: steps as u64, ..page.statistics }, ..page })
        };
        let pages = parts.iter().map(page).collect::<Result<_>>()?;
        Ok(QuerySketch { rows, is_whole: !query.may_stop_early(true), pages })
    }

    /// Rows of the sample, and steps of evaluation.
    fn rows_of(&self, query: &PreparedQuery, interrupt: Interrupt<'_>) -> Result<(u64, u64)> {
        let unlimited = PageLimits { rows: usize::MAX, size_bytes: usize::MAX };
        let meter = Arc::new(Meter::default());
        let mut execution = Execution::start(query, unlimited, false, None)?.metered(meter.clone());
        for item in &self.sample.items {
            execution.push(&item.view(), false, interrupt)?;
        }
        Ok((execution.finish(true, interrupt)?.rows.len() as u64, meter.steps()))
    }
}

/// The sampled items of one partition, as the engine would find them in it.
struct Seen<'s> {
    index: &'s SampledIndex,
    layout: Option<&'s IndexLayout>,
    query: &'s PreparedQuery,
    access: &'s AccessPlan,
    part: &'s SketchedPart,
    /// In the sample.
    places: Vec<usize>,
    /// How many items of the partition one of these stands for.
    times: f64,
    interrupt: Interrupt<'s>,
}

impl<'s> Seen<'s> {
    fn of(
        index: &'s SampledIndex,
        query: &'s PreparedQuery,
        access: &'s AccessPlan,
        part: &'s SketchedPart,
        interrupt: Interrupt<'s>,
    ) -> Seen<'s> {
        let keys = &index.sample.keys;
        let own = (0..keys.len()).filter(|place| part.range.contains(&keys[*place].epk));
        let mut places: Vec<usize> = own.collect();
        if places.is_empty() {
            places = (0..keys.len()).collect();
        }
        let times = part.items as f64 / places.len().max(1) as f64;
        let layout = index.shape.serving.as_deref();
        Seen { index, layout, query, access, part, places, times, interrupt }
    }

    fn page(&self, merges: bool) -> Result<PageSketch> {
        if let Some(statistics) = self.counted()? {
            return Ok(self.sketch(QueryWay::Entries, statistics, true));
        }
        let key_paths = &self.index.shape.key_paths;
        let is_logical = matches!(self.part.filter, FeedFilter::Logical(_));
        let options = match self.layout {
            Some(_) => choices(&self.access.filter, &|leaf| is_logical && is_of_key(leaf, key_paths)),
            None => Some(vec![]),
        };
        let Some(options) = options.filter(|_| !self.is_nowhere()) else {
            return Ok(self.sketch(QueryWay::Nothing, QueryStatistics::default(), false));
        };
        let order = self.access.order.as_ref().filter(|_| self.layout.is_some());
        let is_served_in_order = order.is_some() && self.access.precise && self.query.may_stop_early(true);
        let stands_for_index = !options.is_empty() || is_served_in_order;
        let (way, statistics) = match (self.way(&options, order)?, order) {
            (Way::Order, Some(order)) => (QueryWay::Order, self.in_order(order)?),
            (Way::Scan | Way::Order, _) => (QueryWay::Scan, self.scanned()),
            (Way::Option { option, is_narrowed }, _) => {
                (QueryWay::Entries, self.named(&options, option, is_narrowed)?)
            }
        };
        let page = self.sketch(way, statistics, stands_for_index);
        let is_repeated = merges && self.query.may_stop_early(way == QueryWay::Order);
        Ok(PageSketch { is_repeated, sorts: page.sorts && !merges, ..page })
    }

    fn sketch(&self, way: QueryWay, statistics: QueryStatistics, stands_for_index: bool) -> PageSketch {
        let sorts = self.query.is_ordered() && way != QueryWay::Order;
        PageSketch { way, statistics, is_repeated: false, stands_for_index, sorts }
    }

    fn scaled(&self, count: u64) -> u64 {
        (count as f64 * self.times).round() as u64
    }

    fn is_nowhere(&self) -> bool {
        matches!(&self.part.filter, FeedFilter::Range(range) if range.is_empty())
    }

    fn is_whole(&self) -> bool {
        matches!(&self.part.filter, FeedFilter::Range(range) if range.contains_range(&self.part.range))
    }

    fn is_in_scope(&self, place: usize) -> bool {
        let key = &self.index.sample.keys[place];
        match &self.part.filter {
            // A partition without sampled items is represented by other items.
            FeedFilter::Range(_) if self.is_whole() => true,
            FeedFilter::Range(range) | FeedFilter::Prefix(range, _) => range.contains(&key.epk),
            FeedFilter::Logical(logical) => logical.epk == key.epk,
        }
    }

    fn scope(&self) -> impl Iterator<Item = usize> {
        self.places.iter().copied().filter(|place| self.is_in_scope(*place))
    }

    fn item(&self, place: usize) -> &StoredItem {
        &self.index.sample.items[place]
    }

    /// The answer of `query/count.rs`, if it has one.
    fn counted(&self) -> Result<Option<QueryStatistics>> {
        let may_count = self.query.counts_items() && self.access.precise;
        if !may_count || self.index.shape.default_ttl.is_some() {
            return Ok(None);
        }
        let postings = match &self.access.filter {
            IndexFilter::Everything if self.is_whole() => 0,
            IndexFilter::Everything => {
                let mut keys: Vec<_> = self.scope().map(|place| &self.index.sample.keys[place].epk).collect();
                keys.sort_unstable();
                keys.dedup();
                keys.len() as u64
            }
            IndexFilter::Leaf(leaf) if self.is_whole() && leaf.precise && !is_many_valued(leaf) => {
                match (self.layout, &leaf.index) {
                    (Some(_), IndexRef::Path(_)) => self.scaled(self.entries(&[leaf], &mut |_, _| Ok(()))?),
                    _ => return Ok(None),
                }
            }
            _ => return Ok(None),
        };
        Ok(Some(QueryStatistics { postings_read: postings, ..QueryStatistics::default() }))
    }

    fn way(&self, options: &[Choice<'_>], order: Option<&OrderAccess>) -> Result<Way> {
        let mut facts = Facts {
            has_options: !options.is_empty(),
            has_order: order.is_some(),
            is_logical: matches!(self.part.filter, FeedFilter::Logical(_)),
            is_part: !self.is_whole(),
            may_stop_early: self.query.may_stop_early(true),
            items: self.part.items,
            ..Facts::default()
        };
        loop {
            match facts.step() {
                Step::Take(way) => return Ok(way),
                Step::Ask(Fact::FitsChunk) => facts.fits_chunk = Some(self.fits_chunk()),
                Step::Ask(Fact::Smallest) => facts.smallest = Some(self.smallest(options)?),
                Step::Ask(Fact::ScopeHasAtMost(count)) => {
                    facts.is_scope_named = Some(self.scaled(self.scope().count() as u64) <= count);
                }
                Step::Ask(Fact::IsDense(option)) => facts.is_dense = Some(self.is_dense(&options[option])?),
            }
        }
    }

    fn fits_chunk(&self) -> bool {
        let (mut count, mut bytes) = (0, 0);
        for place in self.scope() {
            count += 1;
            bytes += self.item(place).json_size_bytes() as u64;
        }
        self.scaled(count) <= ScanOptions::CHUNK_ROWS as u64
            && self.scaled(bytes) < ScanOptions::CHUNK_BYTES as u64
    }

    fn smallest(&self, options: &[Choice<'_>]) -> Result<Smallest> {
        let mut smallest = Smallest { option: 0, postings: None };
        for (option, choice) in options.iter().enumerate() {
            let postings = self.scaled(self.entries(&choice.leaves, &mut |_, _| Ok(()))?) as usize;
            let least = smallest.postings.unwrap_or(PROBES[PROBES.len() - 1]);
            if postings < least {
                smallest = Smallest { option, postings: Some(postings) };
            }
        }
        Ok(smallest)
    }

    /// The engine judges by the ordinals of the first entries, which lie as close as all of them do,
    /// and not by summaries.
    fn is_dense(&self, choice: &Choice<'_>) -> Result<bool> {
        let [leaf] = choice.leaves[..] else { return Ok(false) };
        if leaf.class != LookupClass::Seek || leaf.ranges.len() != 1 {
            return Ok(false);
        }
        let mut own = 0;
        self.entries(&[leaf], &mut |_, entry| {
            own += u64::from(entry.value.is_some());
            Ok(())
        })?;
        Ok(3 * own > self.places.len() as u64)
    }

    fn scanned(&self) -> QueryStatistics {
        let (mut count, mut bytes) = (0, 0);
        for place in self.scope() {
            count += 1;
            bytes += self.item(place).json_size_bytes() as u64;
        }
        QueryStatistics {
            items_scanned: self.scaled(count),
            items_scanned_bytes: self.scaled(bytes),
            ..QueryStatistics::default()
        }
    }

    /// Items that the entries of an option lead to, each as often as an entry that passes names it.
    fn named(&self, options: &[Choice<'_>], taken: usize, is_narrowed: bool) -> Result<QueryStatistics> {
        let narrowing = if is_narrowed { self.others(taken)? } else { Narrowing::default() };
        let (meter, mut loaded, mut bytes) = (Meter::default(), 0, 0);
        let postings = self.entries(&options[taken].leaves, &mut |place, entry| {
            let is_other = narrowing.kept.as_ref().is_some_and(|kept| !kept[place]);
            if !is_other && self.is_in_scope(place) && self.passes(entry, &meter)? {
                loaded += 1;
                bytes += self.item(place).json_size_bytes() as u64;
            }
            Ok(())
        })?;
        Ok(QueryStatistics {
            postings_read: self.scaled(postings + narrowing.postings),
            items_loaded: self.scaled(loaded),
            items_loaded_bytes: self.scaled(bytes),
            ..QueryStatistics::default()
        })
    }

    /// The second option of `query/choose.rs`, and the entries that were read for it.
    fn others(&self, taken: usize) -> Result<Narrowing> {
        let IndexFilter::And(parts) = &self.access.filter else { return Ok(Narrowing::default()) };
        let is_logical = matches!(self.part.filter, FeedFilter::Logical(_));
        let names_scope = |leaf: &Leaf| is_logical && is_of_key(leaf, &self.index.shape.key_paths);
        let mut all: Vec<Choice<'_>> =
            parts.iter().flat_map(|part| choices(part, &names_scope).unwrap_or_default()).collect();
        all.sort_by_key(rank);
        let mut narrowing = Narrowing::default();
        let meter = Meter::default();
        for (option, choice) in all.iter().enumerate() {
            if option == taken || choice.leaves.iter().any(|leaf| leaf.class > LookupClass::PreciseScan) {
                continue;
            }
            let mut kept = vec![false; self.index.sample.len()];
            let postings = self.entries(&choice.leaves, &mut |place, entry| {
                kept[place] |= self.passes(entry, &meter)?;
                Ok(())
            })?;
            narrowing.postings += postings.min((OTHERS_MAX as f64 / self.times) as u64 + 1);
            if self.scaled(postings) <= OTHERS_MAX as u64 {
                narrowing.kept = Some(kept);
                return Ok(narrowing);
            }
        }
        Ok(narrowing)
    }

    /// Everything that the order's part of the index holds, and the items that have no entry in it.
    fn in_order(&self, order: &OrderAccess) -> Result<QueryStatistics> {
        let prefix = self.prefix_of(&order.index);
        let whole = ValueRange { start: vec![], end: vec![0xFF; 3] };
        let range = order.range.as_ref().unwrap_or(&whole);
        let mut done = QueryStatistics::default();
        let (mut passed, mut scope) = (0, 0);
        for place in self.places.iter().copied() {
            let (is_in_scope, size) = (self.is_in_scope(place), self.item(place).json_size_bytes() as u64);
            scope += u64::from(is_in_scope);
            let terms = self.index.terms[place].iter().filter_map(|term| term.strip_prefix(&prefix[..]));
            let (all, within) = terms
                .fold((0, 0), |(all, within), value| (all + 1, within + u64::from(is_within(range, value))));
            match is_in_scope {
                false => passed += within,
                true if within > 0 => {
                    done.postings_read += within;
                    done.items_loaded += within;
                    done.items_loaded_bytes += within * size;
                }
                true if all == 0 && order.includes_undefined => {
                    done.items_scanned += 1;
                    done.items_scanned_bytes += size;
                }
                true => {}
            }
        }
        // The walk continues in the scope itself when it has passed as many entries as that has items.
        done.entries_passed = passed.min(scope);
        Ok(QueryStatistics {
            postings_read: self.scaled(done.postings_read),
            entries_passed: self.scaled(done.entries_passed),
            items_loaded: self.scaled(done.items_loaded),
            items_loaded_bytes: self.scaled(done.items_loaded_bytes),
            items_scanned: self.scaled(done.items_scanned),
            items_scanned_bytes: self.scaled(done.items_scanned_bytes),
            ..done
        })
    }

    fn prefix_of(&self, index: &IndexRef) -> [u8; HASH] {
        match (index, self.layout) {
            (IndexRef::Path(path), _) => path_hash(path),
            (IndexRef::Composite(number), Some(layout)) => layout.composite_hash(*number),
            (IndexRef::Composite(_), None) => 0,
        }
        .to_be_bytes()
    }

    /// Visits each entry in the ranges of the leaves and each of their summaries; how many there are.
    fn entries(
        &self,
        leaves: &[&Leaf],
        visit: &mut dyn FnMut(usize, Entry<'_>) -> Result<()>,
    ) -> Result<u64> {
        let mut count = 0;
        for leaf in leaves {
            let prefix = self.prefix_of(&leaf.index);
            let summary = summary_of(leaf).map(summary_term);
            for place in self.places.iter().copied() {
                let terms = &self.index.terms[place];
                if summary.is_some_and(|summary| terms.contains(&summary)) {
                    count += 1;
                    visit(place, Entry { leaf, value: None })?;
                }
                for value in terms.iter().filter_map(|term| term.strip_prefix(&prefix[..])) {
                    if leaf.ranges.iter().any(|range| is_within(range, value)) {
                        count += 1;
                        visit(place, Entry { leaf, value: Some(value) })?;
                    }
                }
            }
        }
        Ok(count)
    }

    /// Whether the item of an entry comes into question. The values of one with a summary decide later.
    fn passes(&self, entry: Entry<'_>, meter: &Meter) -> Result<bool> {
        let value = entry.value.and_then(decode_index_value);
        let (Some(test), Some(value)) = (&entry.leaf.test, value) else { return Ok(true) };
        Ok(test.matches(&value, meter, self.interrupt)?)
    }
}

/// An entry of the index that a leaf names.
#[derive(Clone, Copy)]
struct Entry<'e> {
    leaf: &'e Leaf,
    /// `None` for the summary of an array.
    value: Option<&'e [u8]>,
}

/// A second option: which items of the sample it names, and how many entries were read for that.
#[derive(Default)]
struct Narrowing {
    kept: Option<Vec<bool>>,
    postings: u64,
}

fn is_within(range: &ValueRange, value: &[u8]) -> bool {
    range.start.as_slice() <= value && value < range.end.as_slice()
}
