//! The merge that SDKs make of a query plan and the rows of its rewritten query (wire.md §9), for tests only:
//! tests compare it with the server's own merge (`execute/collect.rs`).
//!
//! | file | contents |
//! |---|---|
//! | `mod.rs` | the API: which sources to read, how, and pages with the state between them |
//! | `source.rs`, `state.rs` | where sources and pages resume |
//! | `ordered.rs`, `boundary.rs` | `ORDER BY` |
//! | `collect.rs`, `partial.rs` | groups, aggregates, `DISTINCT` |
//! | `groups.rs` | groups in the order of their sort keys |
//! | `limits.rs` | how much a merge may hold |
//! | `output.rs` | `OFFSET`, `LIMIT`, `TOP`, the page |
//!
//! A source answers a text with rows in pages: a partition, or a part of one. Sources are numbered in the
//! order of their ranges, and a merge that resumes must find as many as before. For each page a caller makes
//! a [`Merger`], reads the sources in [`Merger::needs`], each from its [`Merger::opening`], feeds their
//! answers until no source is needed, and takes the page:
//!
//! ```text
//! while merger.needs() is not empty: for each source: read a chunk of opening(source), then feed(source, rows, next)
//! merger.take_page()
//! ```
//!
//! Nothing here knows partitions. Memory is bounded: a merge that exceeds it fails with an error.

mod boundary;
mod collect;
mod groups;
mod limits;
mod ordered;
mod output;
mod partial;
mod source;
mod state;

use collect::Collect;
use groups::{OrderedGroups, merges_groups};
use limits::MEMORY_BYTES_MAX;
use ordered::Ordered;
use output::Output;
use source::Source;
use state::{Resume, State};

use crate::error::SqlError;
use crate::execute::{PageLimits, Rows};
use crate::plan::{DistinctKind, QueryInfo, RESUME_FILTER};

/// Limit of the numbering in a state.
const SOURCES_MAX: usize = u16::MAX as usize;
const CHUNK_ROWS_MIN: usize = 16;

/// The merge of one page.
pub struct Merger<'q> {
    info: &'q QueryInfo,
    text: &'q str,
    sources: Vec<Source>,
    output: Output,
    kind: Kind<'q>,
}

enum Kind<'q> {
    /// One source after the other, from this one on.
    Drain(usize),
    Ordered(Ordered<'q>),
    Collect(Collect<'q>),
    OrderedGroups(OrderedGroups<'q>),
}

/// How to read a source for one page of the merge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opening {
    pub text: String,
    /// The source's continuation of an earlier page with the same text; `None` for its start.
    pub position: Option<Vec<u8>>,
}

#[derive(Debug)]
pub struct MergedPage {
    pub rows: Rows,
    /// The state for the next page; `None` after the last page.
    pub state: Option<Vec<u8>>,
}

impl<'q> Merger<'q> {
    /// `text` is the query's own, for plans that do not rewrite it; `state` is [`MergedPage::state`] of the page before.
    pub fn new(
        info: &'q QueryInfo,
        text: &'q str,
        sources: usize,
        limits: PageLimits,
        state: Option<&[u8]>,
    ) -> Result<Self, SqlError> {
        if info.has_non_streaming_order_by {
            return Err(SqlError::unsupported("the merge of rows that partitions cannot order"));
        }
        if sources > SOURCES_MAX {
            return Err(SqlError::TooManyGroups);
        }
        let state = state.map(State::decode).transpose()?;
        if state.as_ref().is_some_and(|state| !state.fits(sources)) {
            return Err(SqlError::InvalidState);
        }
        let output = Output::new(info, limits, state.as_ref());
        let resume = state.map(|state| state.resume);
        let mut set_up: Vec<Source> = (0..sources).map(|_| Source::default()).collect();
        let kind = if merges_groups(info) && !info.order_by.is_empty() {
            Kind::OrderedGroups(OrderedGroups::new(info, resume)?)
        } else if info.distinct_count.is_some() || merges_groups(info) {
            Kind::Collect(Collect::new(info, &output, resume)?)
        } else if !info.order_by.is_empty() {
            let ordered = Ordered::new(info, sources, resume)?;
            set_up = (0..sources).map(|index| ordered.source(index)).collect();
            Kind::Ordered(ordered)
        } else if info.distinct != DistinctKind::None {
            Kind::Collect(Collect::new(info, &output, resume)?)
        } else {
            Kind::Drain(resume_drain(&mut set_up, resume)?)
        };
        Ok(Merger { info, text, sources: set_up, output, kind })
    }

    /// How to read a source, from its first chunk on.
    pub fn opening(&self, source: usize) -> Opening {
        let text = self.info.rewritten_query.as_deref().unwrap_or(self.text);
        let text = match &self.kind {
            Kind::Ordered(ordered) => {
                text.replace(RESUME_FILTER, &format!("({})", ordered.condition(source)))
            }
            Kind::OrderedGroups(_) => text.replace(RESUME_FILTER, "(true)"),
            Kind::Drain(_) | Kind::Collect(_) => text.to_owned(),
        };
        Opening { text, position: self.sources[source].position().map(<[u8]>::to_vec) }
    }

    /// The sources whose next chunk is needed for any further row. They may be fed in any order; when there
    /// are none, the page can be taken.
    pub fn needs(&self) -> Vec<usize> {
        if self.output.is_done() {
            return vec![];
        }
        match &self.kind {
            Kind::Drain(current) => (*current < self.sources.len()).then_some(*current).into_iter().collect(),
            Kind::Collect(collect) if collect.is_satisfied(&self.output) => vec![],
            Kind::Ordered(_) | Kind::Collect(_) | Kind::OrderedGroups(_) => {
                let needed = self.sources.iter().enumerate().filter(|(_, source)| source.needs_rows());
                needed.map(|(index, _)| index).collect()
            }
        }
    }

    /// A suitable size for the next chunk of a source.
    pub fn chunk_limits(&self) -> PageLimits {
        let limits = self.output.limits;
        let wanted = match self.output.left {
            Some(left) => self.output.skip.saturating_add(left.min(limits.rows as u64)),
            None => self.output.skip.saturating_add(limits.rows as u64),
        };
        let wanted = usize::try_from(wanted).unwrap_or(usize::MAX).max(1);
        let sources = self.sources.len().max(1);
        let rows = match &self.kind {
            Kind::Drain(_) => wanted,
            // Sources rarely have equal shares, and reading a little more is cheaper than asking again.
            Kind::Ordered(_) => (wanted / sources * 2).max(CHUNK_ROWS_MIN).min(wanted),
            Kind::Collect(_) | Kind::OrderedGroups(_) => limits.rows.max(1000),
        };
        let size_bytes = (MEMORY_BYTES_MAX / 2 / sources).clamp(1, limits.size_bytes.max(1));
        PageLimits { rows, size_bytes }
    }

    /// The next rows of a needed source. `next` is the source's continuation; `None` at its end.
    pub fn feed(&mut self, source: usize, rows: &Rows, next: Option<Vec<u8>>) -> Result<(), SqlError> {
        match &mut self.kind {
            Kind::Collect(collect) => {
                self.sources[source].skip_to(next);
                collect.feed(source, rows)
            }
            Kind::OrderedGroups(groups) => {
                self.sources[source].skip_to(next);
                groups.feed(rows)
            }
            Kind::Drain(current) => {
                self.sources[source].feed(rows, next);
                drain(current, &mut self.sources, &mut self.output);
                Ok(())
            }
            Kind::Ordered(ordered) => {
                self.sources[source].feed(rows, next);
                if self.sources.iter().map(Source::size_bytes).sum::<usize>() > MEMORY_BYTES_MAX {
                    return Err(SqlError::TooManyGroups);
                }
                ordered.advance(&mut self.sources, &mut self.output)
            }
        }
    }

    /// Whether a page may be taken early, with the rows merged so far.
    pub fn streams(&self) -> bool {
        !matches!(self.kind, Kind::Collect(_) | Kind::OrderedGroups(_))
    }

    /// The page, once no source is needed; for a merge that streams, at any time.
    pub fn take_page(mut self) -> Result<MergedPage, SqlError> {
        assert!(self.streams() || self.needs().is_empty(), "what is collected is only whole at the end");
        let is_over = self.output.is_complete()
            || match &self.kind {
                Kind::Drain(current) => *current >= self.sources.len(),
                Kind::Ordered(_) | Kind::Collect(_) | Kind::OrderedGroups(_) => {
                    self.sources.iter().all(Source::is_over)
                }
            };
        let resume = match self.kind {
            Kind::Collect(collect) => match self.output.is_complete() {
                true => None,
                false => collect.finish(&mut self.output)?,
            },
            Kind::OrderedGroups(groups) => groups.finish(&mut self.output)?,
            _ if is_over => None,
            Kind::Drain(current) => self
                .sources
                .get(current)
                .map(|source| Resume::Drain { source: current as u16, cursor: source.cursor() }),
            Kind::Ordered(ordered) => Some(ordered.resume(&self.sources)),
        };
        let Output { rows, skip, left, limits, .. } = self.output;
        assert!(rows.len() <= limits.rows, "a merged page has no more rows than its limit");
        let sources = self.sources.len() as u16;
        let state = resume.map(|resume| State { sources, skip, left, resume }.encode());
        Ok(MergedPage { rows, state })
    }
}

/// The source that comes next.
fn resume_drain(sources: &mut [Source], resume: Option<Resume>) -> Result<usize, SqlError> {
    match resume {
        None => Ok(0),
        Some(Resume::Drain { source, cursor }) => {
            let source = usize::from(source);
            sources[source] = Source::at(cursor);
            Ok(source)
        }
        Some(_) => Err(SqlError::InvalidState),
    }
}

fn drain(current: &mut usize, sources: &mut [Source], output: &mut Output) {
    while let Some(source) = sources.get_mut(*current) {
        while let Some(row) = source.row() {
            if output.is_complete() || !output.offer(row) {
                return;
            }
            source.consume();
        }
        if !source.exhausted {
            return;
        }
        *current += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::state::{Cursor, OrderedAt};
    use super::*;
    use crate::execute::state::ResumeKey;
    use crate::plan::SortDirection;
    use shardlake_document::Value;
    use std::slice::from_ref;

    const LIMITS: PageLimits = PageLimits { rows: 10, size_bytes: 1000 };

    fn ordered_by(keys: &[SortDirection]) -> QueryInfo {
        let names = ["c.rank", "c.name"];
        QueryInfo {
            order_by: keys.to_vec(),
            order_by_expressions: names[..keys.len()].iter().map(|&name| name.into()).collect(),
            rewritten_query: Some(format!("… WHERE {RESUME_FILTER} …")),
            ..QueryInfo::default()
        }
    }

    fn state(keys: &[ResumeKey], source: u16, sources: u16) -> Vec<u8> {
        let at = OrderedAt::Source { source, cursor: Cursor::default() };
        let resume = Resume::Ordered { keys: keys.to_vec(), at };
        State { sources, skip: 0, left: None, resume }.encode()
    }

    #[test]
    fn sources_go_on_behind_the_last_row_or_at_it() {
        let info = ordered_by(&[SortDirection::Ascending, SortDirection::Descending]);
        let keys =
            [ResumeKey::Whole(Value::Int(5).into()), ResumeKey::Whole(Value::String("mid".into()).into())];
        let state = state(&keys, 1, 3);
        let merger = Merger::new(&info, "", 3, LIMITS, Some(&state)).expect("a state of its own");
        let rank = "c.rank > 5 OR IS_STRING(c.rank) OR IS_ARRAY(c.rank) OR IS_OBJECT(c.rank)";
        let others = "NOT IS_DEFINED(c.name) OR IS_NULL(c.name) OR IS_BOOL(c.name) OR IS_NUMBER(c.name)";
        let condition = |operator| {
            format!("… WHERE (({rank}) OR (c.rank = 5 AND (c.name {operator} \"mid\" OR {others}))) …")
        };
        assert_eq!(merger.opening(0).text, condition("<"));
        assert_eq!(merger.opening(1).text, condition("<="));
        assert_eq!(merger.opening(2).text, condition("<="));
    }

    #[test]
    fn states_of_other_merges_are_refused() {
        let info = ordered_by(&[SortDirection::Ascending]);
        let key = ResumeKey::Whole(Value::Null.into());
        let refused = |bytes: &[u8], sources| Merger::new(&info, "", sources, LIMITS, Some(bytes)).err();
        assert_eq!(refused(&state(from_ref(&key), 1, 2), 2), None);
        for (bytes, sources) in [
            (state(&[key.clone(), key.clone()], 1, 2), 2),
            (state(from_ref(&key), 2, 2), 2),
            (state(from_ref(&key), 1, 2), 3),
            (vec![], 2),
        ] {
            assert_eq!(refused(&bytes, sources), Some(SqlError::InvalidState));
        }
    }
}
