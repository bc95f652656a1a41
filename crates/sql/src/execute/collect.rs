//! Collectors for rows that must all be read before the first is returned: sorted, distinct, grouped.
//!
//! Entries are in the order in which they will be returned. Only entries that can be on this page, or be
//! skipped for `OFFSET` before it, are kept. Sorted rows are ordered by their keys, then by ordinal and row
//! within the item. Distinct rows and groups are ordered by their sort keys, if there are any, and by hash.
//! Without sort keys, and if all of them fit the first page, they are returned in the order in which they
//! appeared instead.

use std::collections::{BTreeMap, HashMap};

use super::distinct_hash::{DistinctHash, distinct_hash};
use super::groups::Groups;
use super::kept::{Entry, EntryKey, KEPT_BYTES_MAX, KeptRows, alike, resume_after};
use super::limits::{MEMORY_BYTES_MAX, PageLimits};
use super::page::PageOutput;
use super::rows::{Rows, evaluate_all, evaluate_projection, write_row};
use super::sort_value::sort_keys;
use super::state::{Resume, ResumeKey, State};
use crate::bound::{BoundQuery, Projection};
use crate::error::SqlError;
use crate::evaluate::scope::Scope;
use crate::value::context::EvaluationContext;
use crate::value::meter::COPIED_BYTES_PER_STEP;
use serde::{Deserialize, Serialize};

/// Limit on rows kept at a time to skip for `OFFSET`, beyond the page.
const SKIPPED_AT_ONCE: u64 = 50_000;

#[derive(Serialize, Deserialize)]
pub(super) struct Collector {
    limits: PageLimits,
    /// Limit on useful entries.
    entries_max: usize,
    /// Keeps all entries: equal rows can have different sort keys, so that any of them may have been returned
    /// before.
    keeps_all: bool,
    /// Some entries are kept only to be skipped, before those of the page.
    passes_over: bool,
    /// This page can hold everything that is left.
    is_last_page: bool,
    resume: Resume,
    /// Rows with the previous page's cut keys that were already returned and must be skipped.
    already_out: u32,
    kind: Kind,
    /// Number of entries to collect for later pages.
    ahead: usize,
    /// Whether entries were dropped: there is more than this page.
    overflowed: bool,
    size_bytes: usize,
    appeared: u64,
}

#[derive(Serialize, Deserialize)]
enum Kind {
    /// No entry from `smallest_lost` on is kept: it belongs to a later page.
    Rows {
        entries: BTreeMap<EntryKey, Entry>,
        by_hash: Option<HashMap<DistinctHash, Option<EntryKey>>>,
        smallest_lost: Option<EntryKey>,
    },
    Groups(Groups),
    /// Rows that an earlier page has collected. They do not leave the process.
    #[serde(skip)]
    Kept(KeptRows),
}

impl Collector {
    pub fn new(query: &BoundQuery, limits: PageLimits, state: &State) -> Self {
        let wanted = state.skip.min(SKIPPED_AT_ONCE).saturating_add(limits.rows as u64);
        let wanted = wanted.min(state.skip.saturating_add(state.left.unwrap_or(u64::MAX)));
        let already_out = match &state.resume {
            Resume::Sorted { done, keys, .. } if keys.iter().any(ResumeKey::is_cut) => *done,
            _ => 0,
        };
        let keeps_all = query.distinct && query.grouping.is_none() && !is_ordered_by_its_rows(query);
        let wanted = if keeps_all { u64::MAX } else { wanted };
        let entries_max = usize::try_from(wanted).unwrap_or(usize::MAX).saturating_add(already_out as usize);
        let kind = match &query.grouping {
            Some(_) => Kind::Groups(Groups::new(entries_max, query.distinct)),
            None => Kind::Rows {
                entries: BTreeMap::new(),
                by_hash: query.distinct.then(HashMap::new),
                smallest_lost: None,
            },
        };
        Collector {
            limits,
            entries_max,
            keeps_all,
            passes_over: state.skip > 0 || already_out > 0,
            is_last_page: state
                .left
                .is_some_and(|left| state.skip.saturating_add(left) <= limits.rows as u64),
            resume: state.resume.clone(),
            already_out,
            kind,
            ahead: 0,
            overflowed: false,
            size_bytes: 0,
            appeared: 0,
        }
    }

    /// Collector with the rows of an earlier page, which needs no further input.
    pub fn of_kept(query: &BoundQuery, limits: PageLimits, state: &State, kept: KeptRows) -> Self {
        Collector { kind: Kind::Kept(kept), ..Collector::new(query, limits, state) }
    }

    /// Collects this many rows more than the page needs, within `TOP`, `LIMIT` and the memory bound.
    pub fn look_ahead(&mut self, rows: usize, state: &State) {
        let left = usize::try_from(state.left.unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
        self.ahead = rows.min(left.saturating_sub(self.limits.rows));
        self.entries_max = self.entries_max.saturating_add(self.ahead);
        if let Kind::Groups(groups) = &mut self.kind {
            groups.look_ahead(self.ahead);
        }
    }

    /// Evaluates the expressions that [`Collector::add`] would, for the calls in them.
    pub fn evaluate(&self, query: &BoundQuery, row: &Scope<'_>) -> Result<(), SqlError> {
        let Some(grouping) = &query.grouping else {
            let key = EntryKey { keys: sort_keys(&query.order_by, row)?, tie: u128::MAX };
            let is_elsewhere = !query.distinct && (key.is_up_to(&self.resume) || self.is_behind_page(&key));
            return if is_elsewhere { Ok(()) } else { evaluate_projection(&query.projection, row) };
        };
        let keys = grouping.keys.iter();
        let arguments = grouping.aggregates.iter().map(|aggregate| &aggregate.argument);
        evaluate_all(keys.chain(arguments), row)
    }

    /// Adds a row of an item.
    pub fn add(
        &mut self,
        query: &BoundQuery,
        row: &Scope<'_>,
        ordinal: u64,
        row_in_item: u64,
    ) -> Result<(), SqlError> {
        debug_assert_eq!(
            query.grouping.is_some(),
            matches!(self.kind, Kind::Groups(_)),
            "rows are collected in groups exactly where the query has groups"
        );
        match (&query.grouping, &mut self.kind) {
            (Some(grouping), Kind::Groups(groups)) => groups.add(query, grouping, row, &self.resume),
            _ => self.add_row(query, row, u128::from(ordinal) << 64 | u128::from(row_in_item)),
        }
    }

    /// Counts rows of which only the number is needed.
    pub fn add_count(&mut self, query: &BoundQuery, rows: u64) {
        if let (Some(grouping), Kind::Groups(groups)) = (&query.grouping, &mut self.kind) {
            groups.add_count(grouping, rows);
        }
    }

    fn add_row(&mut self, query: &BoundQuery, row: &Scope<'_>, place: u128) -> Result<(), SqlError> {
        let keys = sort_keys(&query.order_by, row)?;
        // The order of a backward walk over an index: the last item first, but the rows of each item from its
        // first on.
        let walks_back = query.order_by.first().is_some_and(|key| key.descending);
        let tie = if walks_back { place ^ (u128::from(u64::MAX) << 64) } else { place };
        let mut key = EntryKey { keys, tie };
        if !query.distinct && (key.is_up_to(&self.resume) || self.is_beyond(&key)) {
            return Ok(());
        }
        let mut text = Vec::new();
        if !write_row(&query.projection, row, &mut text)? {
            return Ok(());
        }
        row.step(self.steps_to_place() + text.len() as u64 / COPIED_BYTES_PER_STEP)?;
        if query.distinct {
            let value = crate::evaluate::rows::project(&query.projection, row)?;
            row.step(value.copy_steps())?;
            let hash = distinct_hash(&value.to_value());
            key.tie = hash;
            let is_out = key.is_up_to(&self.resume);
            if !self.is_new(hash, &key, is_out) || is_out || self.is_beyond(&key) {
                return Ok(());
            }
        }
        self.keep(key, text)
    }

    /// Whether no row like this one is kept or was returned before it; notes it, and drops a later one like
    /// it.
    fn is_new(&mut self, hash: DistinctHash, key: &EntryKey, is_out: bool) -> bool {
        let Kind::Rows { entries, by_hash: Some(by_hash), .. } = &mut self.kind else { return true };
        match by_hash.get(&hash) {
            Some(None) => return false,
            Some(Some(kept)) if kept <= key => return false,
            Some(Some(kept)) => {
                if let Some(entry) = entries.remove(kept) {
                    self.size_bytes -= entry.text.len();
                }
            }
            None => {}
        }
        // Without sort keys, a returned row is known by its hash alone.
        if !(is_out && key.keys.is_empty()) {
            by_hash.insert(hash, (!is_out).then(|| key.clone()));
        }
        true
    }

    /// Whether enough rows before this one are kept that it cannot be on this page.
    fn is_beyond(&mut self, key: &EntryKey) -> bool {
        let is_beyond = self.is_behind_page(key);
        let Kind::Rows { smallest_lost, .. } = &mut self.kind else { return false };
        if is_beyond {
            if smallest_lost.as_ref().is_none_or(|lost| key < lost) {
                *smallest_lost = Some(key.clone());
            }
            self.overflowed = true;
        }
        is_beyond
    }

    /// [`Collector::is_beyond`] without noting it.
    fn is_behind_page(&self, key: &EntryKey) -> bool {
        let Kind::Rows { entries, smallest_lost, .. } = &self.kind else { return false };
        let is_full = entries.len() >= self.entries_max;
        smallest_lost.as_ref().is_some_and(|lost| key >= lost)
            || (is_full && entries.last_key_value().is_none_or(|(last, _)| key > last))
    }

    /// Whether no further row can belong to this page. `ordered`: rows come in the order of `ORDER BY`.
    pub fn has_enough(&self, query: &BoundQuery, ordered: bool) -> bool {
        let Kind::Rows { entries, by_hash: None, .. } = &self.kind else { return false };
        let any_will_do = query.order_by.is_empty() && self.is_last_page;
        (any_will_do || (ordered && !query.order_by.is_empty())) && entries.len() >= self.entries_max
    }

    /// The number of rows that may be added before there is enough.
    pub fn room(&self, query: &BoundQuery, ordered: bool) -> usize {
        let Kind::Rows { entries, by_hash: None, .. } = &self.kind else { return usize::MAX };
        let may_stop = if query.order_by.is_empty() { self.is_last_page } else { ordered };
        if may_stop { self.entries_max.saturating_sub(entries.len()) } else { usize::MAX }
    }

    /// Steps to find the place of one more entry: the number of comparisons.
    fn steps_to_place(&self) -> u64 {
        let entries = self.len();
        1 + u64::from(entries.checked_ilog2().unwrap_or(0))
    }

    /// Steps for another collector to absorb all entries.
    pub fn steps_to_absorb(&self) -> u64 {
        self.len() as u64 * self.steps_to_place()
    }

    fn len(&self) -> usize {
        match &self.kind {
            Kind::Rows { entries, .. } => entries.len(),
            Kind::Groups(groups) => groups.len(),
            Kind::Kept(kept) => kept.entries.len() - kept.from,
        }
    }

    /// Notes that there may be more than was collected.
    pub fn stop_early(&mut self) {
        self.overflowed = true;
        let Kind::Rows { entries, smallest_lost, .. } = &mut self.kind else { return };
        if let Some((last, _)) = entries.last_key_value() {
            *smallest_lost = Some(EntryKey { keys: last.keys.clone(), tie: last.tie.saturating_add(1) });
        }
    }

    /// Merges the entries that were collected from other items.
    pub fn absorb(&mut self, query: &BoundQuery, other: Collector) -> Result<(), SqlError> {
        self.overflowed |= other.overflowed;
        match other.kind {
            Kind::Rows { entries, by_hash, smallest_lost } => {
                if let Some(lost) = smallest_lost {
                    self.lose_from(lost);
                }
                // All collectors know the rows of earlier pages.
                for (hash, kept) in by_hash.into_iter().flatten() {
                    if kept.is_none() {
                        self.note_out(hash);
                    }
                }
                for (key, entry) in entries {
                    let is_new = !query.distinct || self.is_new(key.tie, &key, false);
                    if is_new && !self.is_beyond(&key) {
                        self.keep(key, entry.text)?;
                    }
                }
            }
            Kind::Groups(other) => {
                if let Kind::Groups(groups) = &mut self.kind {
                    groups.absorb(other)?;
                }
            }
            // Pages of kept rows are not merged.
            Kind::Kept(_) => return Err(SqlError::UnmergeableRow),
        }
        Ok(())
    }

    /// Notes that a row like this one was returned, so that none of them is kept.
    fn note_out(&mut self, hash: DistinctHash) {
        let Kind::Rows { entries, by_hash: Some(by_hash), .. } = &mut self.kind else { return };
        if let Some(Some(kept)) = by_hash.insert(hash, None)
            && let Some(entry) = entries.remove(&kept)
        {
            self.size_bytes -= entry.text.len();
        }
    }

    fn lose_from(&mut self, lost: EntryKey) {
        let Kind::Rows { entries, by_hash, smallest_lost } = &mut self.kind else { return };
        for (key, entry) in entries.split_off(&lost) {
            self.size_bytes -= entry.text.len();
            if let Some(by_hash) = by_hash {
                by_hash.remove(&key.tie);
            }
        }
        if smallest_lost.as_ref().is_none_or(|own| lost < *own) {
            *smallest_lost = Some(lost);
        }
    }

    fn keep(&mut self, key: EntryKey, text: Vec<u8>) -> Result<(), SqlError> {
        let Kind::Rows { entries, by_hash, smallest_lost } = &mut self.kind else { return Ok(()) };
        self.size_bytes += text.len();
        self.appeared += 1;
        let replaced = entries.insert(key, Entry { text, appeared: self.appeared });
        debug_assert!(replaced.is_none(), "each collected row has its own place");
        if self.keeps_all && self.size_bytes > MEMORY_BYTES_MAX {
            return Err(SqlError::TooManyGroups);
        }
        let has_more_room = self.passes_over || self.keeps_all;
        let ahead_bytes = if self.ahead > 0 { KEPT_BYTES_MAX } else { 0 };
        let more_bytes = if has_more_room { MEMORY_BYTES_MAX } else { ahead_bytes };
        let room = self.limits.size_bytes.saturating_add(more_bytes);
        while entries.len() > self.entries_max || (self.size_bytes > room && entries.len() > 1) {
            let Some((key, entry)) = entries.pop_last() else { break };
            self.size_bytes -= entry.text.len();
            // The dropped entry is read again for a later page.
            if let Some(by_hash) = by_hash {
                by_hash.remove(&key.tie);
            }
            *smallest_lost = Some(key);
            self.overflowed = true;
        }
        assert!(entries.len() <= self.entries_max, "a page collects no more rows than it can use");
        debug_assert!(!entries.is_empty() || self.size_bytes == 0, "the bytes of each row are counted");
        debug_assert!(
            smallest_lost.as_ref().zip(entries.last_key_value()).is_none_or(|(lost, (last, _))| last < lost),
            "kept rows are before all rows that were dropped"
        );
        if by_hash.as_ref().is_some_and(|by_hash| by_hash.len() > MEMORY_BYTES_MAX / 64) {
            return Err(SqlError::TooManyGroups);
        }
        Ok(())
    }

    /// The page, and the state for the next one.
    pub fn finish(
        mut self,
        query: &BoundQuery,
        mut state: State,
        context: &EvaluationContext<'_>,
    ) -> Result<PageOutput, SqlError> {
        let calls_made = || context.calls().map_or(0, |calls| calls.borrow().used());
        let to_skip = state.skip;
        let groups_lost = match &self.kind {
            Kind::Groups(groups) => groups.smallest_lost().filter(|lost| lost.keys.is_empty()),
            Kind::Rows { .. } | Kind::Kept(_) => None,
        };
        let groups_lost = groups_lost.map(|lost| lost.tie);
        let (mut kept, to_pass) = self.take_entries(query, context)?;
        if query.order_by.is_empty() && self.fits(&kept, &state) {
            kept.in_order_of_appearance();
        }
        let mut rows = Rows::default();
        let mut last: Option<&EntryKey> = None;
        let mut done_alike = self.already_out;
        let (mut passed, mut is_cut, mut out) = (0, false, kept.from);
        for (key, entry) in &kept.entries[kept.from..] {
            context.step(1)?;
            if passed < to_pass && self.is_like_resume(key) {
                (passed, out) = (passed + 1, out + 1);
                last.get_or_insert(key);
                continue;
            }
            if state.left == Some(0) {
                break;
            }
            let is_row = !entry.text.is_empty();
            if is_row && state.skip > 0 {
                state.skip -= 1;
            } else if rows.len() >= self.limits.rows
                || (rows.size_bytes() + entry.text.len() > self.limits.size_bytes && !rows.is_empty())
            {
                self.overflowed = true;
                is_cut = true;
                break;
            } else if is_row {
                rows.push_text(&entry.text);
                state.left = state.left.map(|left| left - 1);
            }
            done_alike = match last {
                Some(last) if alike(last, key) => done_alike + 1,
                _ if last.is_none() && self.is_like_resume(key) => done_alike + 1,
                _ => 1,
            };
            (last, out) = (Some(key), out + 1);
        }
        assert!(rows.len() <= self.limits.rows, "a page has no more rows than its limit");
        assert!(state.skip <= to_skip, "rows are skipped once");
        let is_over = !self.overflowed || state.left == Some(0);
        if is_over {
            let skipped = to_skip - state.skip;
            let calls_made = calls_made();
            return Ok(PageOutput { rows, state: None, rescan: false, calls_made, skipped, kept: None });
        }
        match (last, groups_lost) {
            // Groups without a result count as processed.
            (_, Some(lost)) if !is_cut => state.resume = Resume::Hash(lost.saturating_sub(1)),
            (Some(last), _) => state.resume = resume_after(last, done_alike),
            (None, _) => {}
        }
        let skipped = to_skip - state.skip;
        let state = Some(state.encode());
        let kept = if is_cut { kept.behind(out) } else { None };
        Ok(PageOutput { rows, state, rescan: true, calls_made: calls_made(), skipped, kept })
    }

    /// All entries in the order of the results, and how many of the first an earlier page returned.
    fn take_entries(
        &mut self,
        query: &BoundQuery,
        context: &EvaluationContext<'_>,
    ) -> Result<(KeptRows, usize), SqlError> {
        let mut to_pass = self.already_out as usize;
        let mut kept = match std::mem::replace(&mut self.kind, Kind::Groups(Groups::new(0, false))) {
            Kind::Rows { entries, .. } => KeptRows::new(entries.into_iter().collect()),
            Kind::Groups(groups) => {
                self.overflowed |= groups.smallest_lost().is_some();
                let grouping = query.grouping.as_ref().ok_or(SqlError::UnmergeableRow)?;
                KeptRows::new(groups.into_rows(query, grouping, &self.resume, context)?)
            }
            Kind::Kept(kept) => {
                (to_pass, self.overflowed) = (0, kept.is_cut);
                kept
            }
        };
        kept.is_cut = self.overflowed;
        Ok((kept, to_pass))
    }

    /// Whether all rows fit the first page.
    fn fits(&self, kept: &KeptRows, state: &State) -> bool {
        !self.overflowed
            && self.resume == Resume::Start
            && kept.entries.len() as u64 <= state.skip + self.limits.rows as u64
            && kept.entries.iter().map(|(_, entry)| entry.text.len()).sum::<usize>() <= self.limits.size_bytes
    }

    /// Whether the row's keys equal those of the last row of the previous page, as far as the state keeps
    /// them.
    fn is_like_resume(&self, key: &EntryKey) -> bool {
        let Resume::Sorted { keys, .. } = &self.resume else { return false };
        keys.iter().any(ResumeKey::is_cut)
            && key.keys.iter().zip(keys).all(|((value, _), resume)| resume.compare(value).is_eq())
    }
}

/// Whether the sort keys are parts of the row, so that equal rows have equal ones.
fn is_ordered_by_its_rows(query: &BoundQuery) -> bool {
    query.order_by.iter().all(|key| match &query.projection {
        Projection::All(_) | Projection::Bodies(_) => true,
        Projection::Value(value) => *value == key.expression,
        Projection::Object(members) => members.iter().any(|(_, member)| *member == key.expression),
    })
}
