//! Merges that must read all rows of all sources before the first is returned: groups, aggregates, distinct
//! rows.
//!
//! Groups and distinct rows are known by their hashes. If all of them fit one page, they are returned in the
//! order in which they appeared, source by source. Otherwise they are returned in the order of their hashes,
//! and every page reads everything again and keeps the smallest hashes after the last one returned.

use std::collections::{BTreeMap, HashSet};

use shardlake_document::Value;

use super::groups::{Group, group_hash, merges_groups, payload};
use super::limits::MEMORY_BYTES_MAX;
use super::output::{Output, row_text};
use super::state::Resume;
use crate::envelope::parse;
use crate::error::SqlError;
use crate::execute::{DistinctHash, Rows, distinct_hash};
use crate::plan::{DistinctKind, QueryInfo};

/// Limit on rows kept at a time to skip for `OFFSET`, beyond the page.
const SKIPPED_AT_ONCE: u64 = 50_000;
/// Approximate memory of an entry besides its contents.
const ENTRY_BYTES: usize = 96;

pub(super) struct Collect<'q> {
    info: &'q QueryInfo,
    kind: Kind,
    behind: Option<DistinctHash>,
    /// Hashes from this one on have been dropped, because they cannot be on this page.
    lost: Option<DistinctHash>,
    entries_max: usize,
    size_bytes: usize,
    rows_fed: u64,
}

enum Kind {
    Rows(BTreeMap<DistinctHash, (Appeared, Vec<u8>)>),
    Groups(BTreeMap<DistinctHash, (Appeared, Group)>),
    /// Only the number of distinct rows is returned.
    Count(HashSet<DistinctHash>),
}

/// Source and row.
type Appeared = (usize, u64);

impl<'q> Collect<'q> {
    pub fn new(info: &'q QueryInfo, output: &Output, resume: Option<Resume>) -> Result<Self, SqlError> {
        let behind = match resume {
            None => None,
            Some(Resume::Hashes(hash)) => Some(hash),
            Some(_) => return Err(SqlError::InvalidState),
        };
        let kind = if info.distinct_count.is_some() {
            Kind::Count(HashSet::new())
        } else if merges_groups(info) {
            Kind::Groups(BTreeMap::new())
        } else {
            Kind::Rows(BTreeMap::new())
        };
        let wanted = output.skip.min(SKIPPED_AT_ONCE).saturating_add(output.limits.rows as u64);
        let wanted = wanted.min(output.skip.saturating_add(output.left.unwrap_or(u64::MAX))).max(1);
        // Equal rows of different groups are known only when all groups are known.
        let keeps_all = info.distinct != DistinctKind::None && matches!(kind, Kind::Groups(_));
        let entries_max = if keeps_all { usize::MAX } else { usize::try_from(wanted).unwrap_or(usize::MAX) };
        Ok(Collect { info, kind, behind, lost: None, entries_max, size_bytes: 0, rows_fed: 0 })
    }

    pub fn feed(&mut self, source: usize, rows: &Rows) -> Result<(), SqlError> {
        for row in rows.iter() {
            self.rows_fed += 1;
            let appeared = (source, self.rows_fed);
            match &mut self.kind {
                Kind::Count(seen) => {
                    if seen.insert(distinct_hash(&parse(row)?)) {
                        self.size_bytes += ENTRY_BYTES / 2;
                    }
                    if self.size_bytes > MEMORY_BYTES_MAX {
                        return Err(SqlError::TooManyGroups);
                    }
                }
                Kind::Rows(_) => self.add_row(row, appeared)?,
                Kind::Groups(_) => self.add_to_group(row, appeared)?,
            }
        }
        Ok(())
    }

    /// Whether a hash cannot be on this page.
    fn is_elsewhere(&self, hash: DistinctHash) -> bool {
        self.behind.is_some_and(|behind| hash <= behind) || self.lost.is_some_and(|lost| hash >= lost)
    }

    fn add_row(&mut self, row: &[u8], appeared: Appeared) -> Result<(), SqlError> {
        let hash = distinct_hash(&parse(row)?);
        if self.is_elsewhere(hash) {
            return Ok(());
        }
        let Kind::Rows(entries) = &mut self.kind else { return Ok(()) };
        let entry = entries.entry(hash).or_insert_with(|| {
            self.size_bytes += row.len() + ENTRY_BYTES;
            (appeared, row.to_vec())
        });
        entry.0 = entry.0.min(appeared);
        while entries.len() > self.entries_max || (self.size_bytes > MEMORY_BYTES_MAX && entries.len() > 1) {
            let Some((lost, (_, row))) = entries.pop_last() else { break };
            self.size_bytes -= row.len() + ENTRY_BYTES;
            self.lost = Some(lost);
        }
        assert!(entries.len() <= self.entries_max, "a merge collects no more rows than it can use");
        debug_assert!(
            self.lost.zip(entries.last_key_value()).is_none_or(|(lost, (last, _))| *last < lost),
            "kept rows are before all rows that were dropped"
        );
        Ok(())
    }

    fn add_to_group(&mut self, row: &[u8], appeared: Appeared) -> Result<(), SqlError> {
        let info = self.info;
        let hash = match info.group_by_expressions.is_empty() {
            true => 0,
            false => group_hash(row)?,
        };
        // With distinct rows, earlier pages are known by the hash of the row.
        if info.distinct == DistinctKind::None && self.is_elsewhere(hash) {
            return Ok(());
        }
        let Kind::Groups(groups) = &mut self.kind else { return Ok(()) };
        let payload = payload(info, row)?;
        let mut size = 0;
        let (first, group) = groups.entry(hash).or_insert_with(|| {
            size += ENTRY_BYTES;
            (appeared, Group::new(info))
        });
        *first = (*first).min(appeared);
        let before = group.size();
        group.add(info, &payload)?;
        self.size_bytes = (self.size_bytes + size + group.size()).saturating_sub(before);
        while groups.len() > self.entries_max || self.size_bytes > MEMORY_BYTES_MAX {
            if info.distinct != DistinctKind::None || groups.len() <= 1 {
                return Err(SqlError::TooManyGroups);
            }
            let Some((lost, (_, group))) = groups.pop_last() else { break };
            self.size_bytes = self.size_bytes.saturating_sub(group.size() + ENTRY_BYTES);
            self.lost = Some(lost);
        }
        Ok(())
    }

    /// Whether there are enough distinct rows for the whole result, so that the rest need not be read.
    pub fn is_satisfied(&self, output: &Output) -> bool {
        let (Kind::Rows(entries), Some(left), None) = (&self.kind, output.left, self.behind) else {
            return false;
        };
        let has_all = entries.len() as u64 >= output.skip.saturating_add(left);
        let text = || entries.values().map(|(_, row)| row.len()).sum::<usize>();
        has_all && left <= output.limits.rows as u64 && text() <= output.limits.size_bytes
    }

    /// Fills the page; returns the place where the next one resumes.
    pub fn finish(self, output: &mut Output) -> Result<Option<Resume>, SqlError> {
        let (behind, lost, info) = (self.behind, self.lost, self.info);
        let mut rows: Vec<(DistinctHash, Appeared, Vec<u8>)> = match self.kind {
            Kind::Count(seen) => {
                output.offer(&count_text(info, seen.len())?);
                return Ok(None);
            }
            Kind::Rows(entries) => {
                entries.into_iter().map(|(hash, (appeared, row))| (hash, appeared, row)).collect()
            }
            Kind::Groups(groups) => rows_of_groups(info, groups, behind)?,
        };
        let text: usize = rows.iter().map(|(_, _, row)| row.len()).sum();
        let fits = behind.is_none()
            && lost.is_none()
            && rows.len() as u64 <= output.skip.saturating_add(output.limits.rows as u64)
            && text <= output.limits.size_bytes;
        if fits {
            rows.sort_by_key(|(_, appeared, _)| *appeared);
        }
        let mut last = None;
        for (hash, _, row) in rows {
            if output.is_complete() {
                return Ok(None);
            }
            if !output.offer(&row) {
                break;
            }
            last = Some(hash);
        }
        Ok(match lost {
            _ if output.is_complete() => None,
            // Groups without a result count as processed.
            Some(lost) if !output.has_refused => Some(Resume::Hashes(lost.saturating_sub(1))),
            None if !output.has_refused => None,
            _ => last.or(behind).map(Resume::Hashes),
        })
    }
}

/// The number of distinct rows, as the query wants it.
fn count_text(info: &QueryInfo, count: usize) -> Result<Vec<u8>, SqlError> {
    let count = Value::Int(count as i64);
    match info.distinct_count.as_ref().and_then(|count| count.alias.clone()) {
        Some(alias) => row_text(&Value::Object(vec![(alias, count)])),
        None => row_text(&count),
    }
}

/// Groups as rows, each once if rows are distinct, in the order of their hashes.
fn rows_of_groups(
    info: &QueryInfo,
    mut groups: BTreeMap<DistinctHash, (Appeared, Group)>,
    behind: Option<DistinctHash>,
) -> Result<Vec<(DistinctHash, Appeared, Vec<u8>)>, SqlError> {
    if info.group_by_expressions.is_empty() && groups.is_empty() && behind.is_none() {
        groups.insert(0, ((0, 0), Group::new(info)));
    }
    let is_distinct = info.distinct != DistinctKind::None;
    let mut rows: BTreeMap<DistinctHash, (Appeared, Vec<u8>)> = BTreeMap::new();
    for (hash, (appeared, group)) in groups {
        let row = group.finish(info);
        if row.is_undefined() {
            continue;
        }
        let hash = if is_distinct { distinct_hash(&row) } else { hash };
        if is_distinct && behind.is_some_and(|behind| hash <= behind) {
            continue;
        }
        let text = row_text(&row)?;
        let entry = rows.entry(hash).or_insert((appeared, text));
        entry.0 = entry.0.min(appeared);
    }
    Ok(rows.into_iter().map(|(hash, (appeared, text))| (hash, appeared, text)).collect())
}
