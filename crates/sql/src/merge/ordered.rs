//! Rows in the order of their sort keys, taken from sources that each have them in that order; of equal keys the first source's
//! come first.
//!
//! A page resumes by the keys of its last row, not by places in the sources, so that its state does not grow
//! with their number. The sources before the last row's source resume behind its keys, and the sources after
//! it resume at the keys. The last row's source skips the returned rows with these keys. While rows have the
//! keys at which the page began, the source's own position is kept as well, so that long runs of equal keys
//! are not read over and over.
//!
//! | rows | resume |
//! |---|---|
//! | as they are | as above; with a key too long for the state, all at its start, skipping the merged rows already returned; with an array or object, the same at all of its type |
//! | distinct, ordered by themselves | all behind the row, or as above with a key that is too long, an array or an object |
//! | distinct, ordered otherwise | all from the start, skipping the distinct rows already returned |

use std::cmp::Ordering;
use std::collections::HashSet;

use super::boundary::{Boundary, condition};
use super::limits::MEMORY_BYTES_MAX;
use super::output::Output;
use super::source::Source;
use super::state::{Cursor, OrderedAt, Resume, State};
use crate::envelope::{member, order_by_items, parse};
use crate::error::SqlError;
use crate::execute::state::{ResumeKey, resume_keys};
use crate::execute::{DistinctHash, SortValue, distinct_hash};
use crate::plan::{DistinctKind, QueryInfo, SortDirection};

/// Approximate memory of a known hash.
const HASH_BYTES: usize = 48;

pub(super) struct Ordered<'q> {
    info: &'q QueryInfo,
    /// The keys at which the page began.
    keys: Vec<ResumeKey>,
    at: OrderedAt,
    heads: Vec<Option<Head>>,
    /// Merged rows to skip because an earlier page returned them.
    to_pass: u64,
    /// Distinct rows met: all, or those that can still come again.
    seen: HashSet<DistinctHash>,
    last: Option<Last>,
}

/// The next row of a source.
struct Head {
    keys: Vec<SortValue>,
}

/// The last processed row.
struct Last {
    keys: Vec<SortValue>,
    source: usize,
    /// Rows of this source with these keys.
    of_source: u64,
    /// Merged rows that resume at the same place.
    alike: u64,
}

impl<'q> Ordered<'q> {
    pub fn new(info: &'q QueryInfo, sources: usize, resume: Option<Resume>) -> Result<Self, SqlError> {
        let (keys, at) = match resume {
            None => (vec![], OrderedAt::Keys { done: 0 }),
            Some(Resume::Ordered { keys, at }) if keys.len() <= info.order_by.len() => (keys, at),
            Some(_) => return Err(SqlError::InvalidState),
        };
        let to_pass = if let OrderedAt::Keys { done } = at { done } else { 0 };
        let heads = (0..sources).map(|_| None).collect();
        Ok(Ordered { info, keys, at, heads, to_pass, seen: HashSet::new(), last: None })
    }

    /// The setup of the source on this page.
    pub fn source(&self, index: usize) -> Source {
        match &self.at {
            OrderedAt::Source { source, cursor } if usize::from(*source) == index => {
                Source::at(cursor.clone())
            }
            _ => Source::default(),
        }
    }

    /// The condition for the wanted rows of a source.
    pub fn condition(&self, index: usize) -> String {
        let inclusive = match &self.at {
            OrderedAt::Source { source, .. } => index >= usize::from(*source),
            OrderedAt::Keys { .. } => true,
            OrderedAt::BehindKeys => false,
        };
        if self.keys.is_empty() {
            return "true".into();
        }
        let boundary = Boundary { keys: &self.keys, inclusive };
        condition(&boundary, &self.info.order_by_expressions, &self.info.order_by)
    }

    pub fn advance(&mut self, sources: &mut [Source], output: &mut Output) -> Result<(), SqlError> {
        assert_eq!(self.heads.len(), sources.len(), "each source has its next row");
        while !output.is_done() && self.fill_heads(sources)? {
            let Some(first) = self.first() else { break };
            if !self.take(first, &sources[first], output)? {
                break;
            }
            sources[first].consume();
        }
        Ok(())
    }

    /// False when a source has to be fed first.
    fn fill_heads(&mut self, sources: &[Source]) -> Result<bool, SqlError> {
        if sources.iter().any(Source::needs_rows) {
            return Ok(false);
        }
        for (head, source) in self.heads.iter_mut().zip(sources) {
            if let (None, Some(row)) = (&head, source.row()) {
                let keys = order_by_items(row)?;
                if keys.len() != self.info.order_by.len() {
                    return Err(SqlError::UnmergeableRow);
                }
                *head = Some(Head { keys: keys.into_iter().map(SortValue::from).collect() });
            }
        }
        Ok(true)
    }

    /// The source whose row comes next.
    fn first(&self) -> Option<usize> {
        let mut first: Option<(usize, &Head)> = None;
        for (index, head) in self.heads.iter().enumerate() {
            let Some(head) = head else { continue };
            if first.is_none_or(|(_, first)| self.order(&head.keys, &first.keys).is_lt()) {
                first = Some((index, head));
            }
        }
        first.map(|(index, _)| index)
    }

    fn order(&self, left: &[SortValue], right: &[SortValue]) -> Ordering {
        for ((left, right), direction) in left.iter().zip(right).zip(&self.info.order_by) {
            let order = left.cmp(right);
            if order.is_ne() {
                return if *direction == SortDirection::Descending { order.reverse() } else { order };
            }
        }
        Ordering::Equal
    }

    /// Processes a source's row; false if it does not fit.
    fn take(&mut self, index: usize, source: &Source, output: &mut Output) -> Result<bool, SqlError> {
        let Some(head) = self.heads[index].take() else { return Ok(true) };
        let row = source.row().ok_or(SqlError::UnmergeableRow)?;
        let payload = member(row, "payload")?.ok_or(SqlError::UnmergeableRow)?;
        let is_row = self.is_new(payload, &head)?;
        if is_row && self.to_pass > 0 {
            self.to_pass -= 1;
        } else if is_row && !output.offer(payload) {
            self.heads[index] = Some(head);
            return Ok(false);
        }
        self.note(index, head, is_row);
        Ok(true)
    }

    /// Whether no row like this one came before it.
    fn is_new(&mut self, payload: &[u8], head: &Head) -> Result<bool, SqlError> {
        match self.info.distinct {
            DistinctKind::None => return Ok(true),
            DistinctKind::Ordered => {
                let last = self.last.as_ref();
                if last.is_some_and(|last| last.keys[0] != head.keys[0]) {
                    self.seen.clear();
                }
            }
            DistinctKind::Unordered => {}
        }
        if self.seen.len() > MEMORY_BYTES_MAX / HASH_BYTES {
            return Err(SqlError::TooManyGroups);
        }
        Ok(self.seen.insert(distinct_hash(&parse(payload)?)))
    }

    fn note(&mut self, source: usize, head: Head, is_row: bool) {
        let (mut of_source, mut alike) = (1, u64::from(is_row));
        if let Some(last) = &self.last {
            if last.source == source && self.order(&last.keys, &head.keys).is_eq() {
                of_source += last.of_source;
            }
            if self.goes_on_alike(&last.keys, &head.keys) {
                alike += last.alike;
            }
        }
        self.last = Some(Last { keys: head.keys, source, of_source, alike });
    }

    /// How many of the sort keys determine where to resume.
    fn keys_used(&self) -> usize {
        match self.info.distinct {
            DistinctKind::None => self.info.order_by.len(),
            DistinctKind::Ordered => 1,
            DistinctKind::Unordered => 0,
        }
    }

    fn goes_on_alike(&self, left: &[SortValue], right: &[SortValue]) -> bool {
        let used = self.keys_used();
        assert!(used <= left.len() && left.len() == right.len(), "rows of one query have the same sort keys");
        let (keys, _) = places(&left[..used]);
        keys.iter().zip(right).all(|(key, value)| key.compare(&by_type(value)).is_eq())
    }

    /// The place where the next page resumes.
    pub fn resume(&self, sources: &[Source]) -> Resume {
        let Some(last) = &self.last else {
            return Resume::Ordered { keys: self.keys.clone(), at: self.at.clone() };
        };
        let used = self.keys_used();
        let (keys, is_exact) = places(&last.keys[..used]);
        let at = match self.info.distinct {
            DistinctKind::None if is_exact => {
                if self.began_at(last) {
                    let at = OrderedAt::Source {
                        source: last.source as u16,
                        cursor: sources[last.source].cursor(),
                    };
                    return Resume::Ordered { keys: self.keys.clone(), at };
                }
                let cursor = Cursor { position: None, done: last.of_source };
                OrderedAt::Source { source: last.source as u16, cursor }
            }
            DistinctKind::Ordered if is_exact => OrderedAt::BehindKeys,
            _ => OrderedAt::Keys { done: last.alike },
        };
        Resume::Ordered { keys, at }
    }

    /// Whether the last row's source began this page at the keys of that row, so that all its rows have these
    /// keys.
    fn began_at(&self, last: &Last) -> bool {
        let inclusive = match &self.at {
            OrderedAt::Source { source, .. } => last.source >= usize::from(*source),
            OrderedAt::Keys { .. } | OrderedAt::BehindKeys => false,
        };
        inclusive
            && self.keys.len() == last.keys.len()
            && self.keys.iter().zip(&last.keys).all(|(key, value)| key.compare(value).is_eq())
    }
}

/// The place at which to resume after a row, and whether the place is exact. Conditions cannot distinguish
/// arrays, nor objects: after such a key no further key counts, as after a cut key.
fn places(keys: &[SortValue]) -> (Vec<ResumeKey>, bool) {
    let bytes_max = State::key_bytes_max(keys.len());
    let end = keys.iter().position(|key| matches!(key, SortValue::Array(_) | SortValue::Object(_)));
    let known: Vec<SortValue> = keys[..end.map_or(keys.len(), |end| end + 1)].iter().map(by_type).collect();
    let places = resume_keys(known.iter(), bytes_max);
    let is_exact = end.is_none() && !places.last().is_some_and(ResumeKey::is_cut);
    (places, is_exact)
}

fn by_type(value: &SortValue) -> SortValue {
    match value {
        SortValue::Array(_) => SortValue::Array(0),
        SortValue::Object(_) => SortValue::Object(0),
        SortValue::Scalar(_) => value.clone(),
    }
}
