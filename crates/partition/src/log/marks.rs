//! Record of a partition about its change log besides the entries: how much of the past is still in
//! it.
//!
//! The marks lie in one row, which is written with the commits and the steps of compaction that
//! change them. They are kept by span of the hash space, because a partition that was made of
//! several has the history that each of them still had.
//!
//! ```text
//! version u8 | swept to u64 | left u64 | holes to u64 | joined to u64 | spans u32
//!   then per span: start length u32 | start | compacted to u64 | versions from u64
//! crc32 u32 of everything before
//! ```

use shardlake_model::{Error, ErrorKind, Result};
use shardlake_stdx::codec::{Reader, Writer};

const VERSION: u8 = 1;
/// The bytes of a span that begins with the hash space.
const SPAN_BYTES_MIN: usize = 20;
/// Versions are not kept.
pub(crate) const NOT_KEPT: u64 = u64::MAX;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LogMarks {
    /// Entries up to here have been compacted once, …
    pub swept_to: u64,
    /// … and so many operations were left in them.
    pub left: u64,
    /// LSNs up to here may have no entry.
    pub holes_to: u64,
    /// Entries up to here are those of several logs, each in the order of its times.
    pub joined_to: u64,
    /// In the order of the hash space; the first begins with it.
    spans: Vec<SpanMark>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct SpanMark {
    /// A bound of item keys without header.
    start: Vec<u8>,
    past: Past,
}

/// The retained history of a part of the hash space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Past {
    /// Operations up to here may be deleted, where they are not the last ones on a live item.
    pub compacted_to: u64,
    /// Every version that ended above here is there.
    pub versions_from: u64,
}

impl Past {
    fn all() -> Past {
        Past { compacted_to: 0, versions_from: NOT_KEPT }
    }

    fn least(self, other: Past) -> Past {
        Past {
            compacted_to: self.compacted_to.max(other.compacted_to),
            versions_from: self.versions_from.max(other.versions_from),
        }
    }
}

impl Default for LogMarks {
    fn default() -> Self {
        let spans = vec![SpanMark { start: Vec::new(), past: Past::all() }];
        LogMarks { swept_to: 0, left: 0, holes_to: 0, joined_to: 0, spans }
    }
}

impl LogMarks {
    /// The history that all keys from `start` on and below `end` have.
    pub fn past_of(&self, start: &[u8], end: Option<&[u8]>) -> Past {
        let first = self.spans.partition_point(|span| &span.start[..] <= start).saturating_sub(1);
        let inside = self.spans[first..]
            .iter()
            .take_while(|span| end.is_none_or(|end| &span.start[..] < end) || &span.start[..] <= start);
        inside.map(|span| span.past).reduce(Past::least).unwrap_or_else(Past::all)
    }

    /// An entry was compacted that has an operation on this item.
    pub fn note_compacted(&mut self, key: &[u8], lsn: u64) {
        let place = self.spans.partition_point(|span| &span.start[..] <= key).saturating_sub(1);
        debug_assert!(self.spans[place].start[..] <= *key, "the first span begins with the hash space");
        let past = &mut self.spans[place].past;
        past.compacted_to = past.compacted_to.max(lsn);
    }

    pub fn keeps_versions(&self) -> bool {
        self.spans.iter().all(|span| span.past.versions_from != NOT_KEPT)
    }

    /// From now on: versions that end above `lsn` are kept, or none are.
    pub fn keep_versions_from(&mut self, lsn: Option<u64>) {
        self.spans.iter_mut().for_each(|span| span.past.versions_from = lsn.unwrap_or(NOT_KEPT));
        self.unite();
    }

    /// Marks of a partition that is made of others: the first's from its start on, and so on. Its
    /// own commits come above `last`.
    pub fn of_sources(sources: &[(Vec<u8>, &LogMarks)], last: u64) -> LogMarks {
        assert!(!sources.is_empty(), "a partition is made of others, or has default marks");
        debug_assert!(
            sources.is_sorted_by(|one, next| one.0 < next.0),
            "sources come in the order of the hash"
        );
        let joined_to = match sources {
            [(_, only)] => only.joined_to,
            _ => last,
        };
        let mut spans: Vec<SpanMark> = Vec::new();
        for (place, (start, marks)) in sources.iter().enumerate() {
            let end = sources.get(place + 1).map(|(start, _)| start);
            let past = marks.past_of(start, Some(start));
            spans.push(SpanMark { start: if place == 0 { Vec::new() } else { start.clone() }, past });
            let inside = |span: &&SpanMark| span.start > *start && end.is_none_or(|end| span.start < *end);
            spans.extend(marks.spans.iter().filter(inside).cloned());
        }
        let mut marks = LogMarks { swept_to: 0, left: 0, holes_to: last, joined_to, spans };
        marks.unite();
        marks
    }

    fn unite(&mut self) {
        self.spans.dedup_by(|later, kept| later.past == kept.past);
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer::default();
        out.byte(VERSION).le(self.swept_to).le(self.left).le(self.holes_to).le(self.joined_to);
        out.le(self.spans.len() as u32);
        for SpanMark { start, past } in &self.spans {
            out.le(start.len() as u32).bytes(start).le(past.compacted_to).le(past.versions_from);
        }
        let checksum = crc32fast::hash(out.written());
        out.le(checksum);
        out.into_bytes()
    }

    pub fn decode(bytes: &[u8]) -> Result<LogMarks> {
        parse(bytes).ok_or_else(|| Error::new(ErrorKind::Corrupt, "the marks of a change log are damaged"))
    }
}

fn parse(bytes: &[u8]) -> Option<LogMarks> {
    let (content, checksum) = bytes.split_last_chunk::<4>()?;
    if crc32fast::hash(content) != u32::from_le_bytes(*checksum) {
        return None;
    }
    let mut reader = Reader::new(content.strip_prefix(&[VERSION])?);
    let (swept_to, left, holes_to, joined_to) = (reader.le()?, reader.le()?, reader.le()?, reader.le()?);
    let count = reader.le::<u32>()? as usize;
    let spans = reader.list(count, SPAN_BYTES_MIN, |reader| {
        let length = reader.le::<u32>()? as usize;
        let start = reader.take(length)?.to_vec();
        let past = Past { compacted_to: reader.le()?, versions_from: reader.le()? };
        Some(SpanMark { start, past })
    })?;
    let is_ordered = spans.is_sorted_by(|left, right| left.start < right.start);
    let begins = spans.first().is_some_and(|span| span.start.is_empty());
    let marks = LogMarks { swept_to, left, holes_to, joined_to, spans };
    (reader.is_empty() && is_ordered && begins).then_some(marks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn past(compacted_to: u64, versions_from: u64) -> Past {
        Past { compacted_to, versions_from }
    }

    fn marks(compacted_to: u64, versions_from: u64) -> LogMarks {
        let spans = vec![SpanMark { start: Vec::new(), past: past(compacted_to, versions_from) }];
        LogMarks { spans, ..LogMarks::default() }
    }

    #[test]
    fn a_joined_partition_knows_what_each_of_its_parts_knew() {
        let (low, high) = (marks(90, 5), marks(10, 7));
        let mut joined = LogMarks::of_sources(&[(vec![], &low), (b"m".to_vec(), &high)], 120);
        assert_eq!((joined.holes_to, joined.joined_to, joined.swept_to), (120, 120, 0));
        assert_eq!(joined.past_of(b"", Some(b"m")), past(90, 5));
        assert_eq!(joined.past_of(b"m", None), past(10, 7));
        assert_eq!(joined.past_of(b"x", None), past(10, 7));
        assert_eq!(joined.past_of(b"a", Some(b"b")), past(90, 5));
        assert_eq!(joined.past_of(b"", None), past(90, 7));
        joined.note_compacted(b"m1", 95);
        joined.note_compacted(b"a", 40);
        assert_eq!(joined.past_of(b"", Some(b"m")), past(90, 5));
        assert_eq!(joined.past_of(b"m", None), past(95, 7));
        assert_eq!(LogMarks::decode(&joined.encode()).expect("its own"), joined);
        // Half of it, and the other half.
        let half = LogMarks::of_sources(&[(b"g".to_vec(), &joined)], 130);
        assert_eq!((half.past_of(b"g", Some(b"m")), half.past_of(b"m", None)), (past(90, 5), past(95, 7)));
        let upper = LogMarks::of_sources(&[(b"m".to_vec(), &joined)], 130);
        assert_eq!((upper.past_of(b"", None), upper.joined_to), (past(95, 7), 120));
        joined.keep_versions_from(None);
        assert!(!joined.keeps_versions());
        joined.keep_versions_from(Some(130));
        assert_eq!(joined.past_of(b"", None), past(95, 130));
    }

    #[test]
    fn any_flipped_byte_is_noticed() {
        let bytes =
            LogMarks::of_sources(&[(vec![], &marks(1, 2)), (b"m".to_vec(), &marks(3, 4))], 9).encode();
        for at in 0..bytes.len() {
            let mut broken = bytes.clone();
            broken[at] ^= 0x10;
            assert!(LogMarks::decode(&broken).is_err(), "byte {at}");
            assert!(LogMarks::decode(&bytes[..at]).is_err(), "cut at {at}");
        }
    }

    #[test]
    fn the_stored_bytes_stay_the_same() {
        let marks = LogMarks::of_sources(&[(vec![], &marks(1, 2)), (b"m".to_vec(), &marks(3, 4))], 9);
        let hex: String = marks.encode().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(
            hex,
            "01000000000000000000000000000000000900000000000000090000000000000002000000000000000100000000000000\
             0200000000000000010000006d03000000000000000400000000000000456e332f"
        );
    }

    /// The pasts of every place of a small hash space, by brute force.
    type Places = Vec<Past>;

    fn all_places(marks: &LogMarks) -> Places {
        (0..=u8::MAX).map(|place| marks.past_of(&[place], Some(&[place]))).collect()
    }

    proptest! {
        #[test]
        fn cut_and_joined_marks_know_the_past_of_every_place(
            cuts in prop::collection::btree_set(1..u8::MAX, 0..5),
            noted in prop::collection::vec((any::<u8>(), 1..100u64), 0..30),
            kept_from in prop::option::of(1..50u64),
            range in (any::<u8>(), any::<u8>()),
        ) {
            // Marks of several partitions, each with a past of its own, and those of all of them.
            let starts: Vec<u8> = std::iter::once(0).chain(cuts).collect();
            let parts: Vec<LogMarks> =
                starts.iter().map(|start| marks(u64::from(*start), 5 + u64::from(*start))).collect();
            let sources: Vec<(Vec<u8>, &LogMarks)> =
                starts.iter().map(|start| vec![*start]).zip(&parts).collect();
            let mut joined = LogMarks::of_sources(&sources, 300);
            let mut places: Places = (0..=u8::MAX).map(|place| {
                let owner = starts.iter().rposition(|start| *start <= place).expect("the first is 0");
                past(u64::from(starts[owner]), 5 + u64::from(starts[owner]))
            }).collect();
            prop_assert_eq!(&all_places(&joined), &places);
            prop_assert_eq!(joined.joined_to, if parts.len() > 1 { 300 } else { 0 });
            // A noted entry moves the past of the whole span that its item is in, and of no other.
            for (key, lsn) in noted {
                let owner = starts.iter().rposition(|start| *start <= key).expect("the first is 0");
                let end = starts.get(owner + 1).map_or(256, |end| usize::from(*end));
                joined.note_compacted(&[key], lsn);
                for place in &mut places[usize::from(starts[owner])..end] {
                    place.compacted_to = place.compacted_to.max(lsn);
                }
            }
            if let Some(lsn) = kept_from {
                joined.keep_versions_from(Some(lsn));
                places.iter_mut().for_each(|place| place.versions_from = lsn);
            }
            let stored = LogMarks::decode(&joined.encode()).expect("its own");
            let found = all_places(&stored);
            for (place, (found, least)) in found.iter().zip(&places).enumerate() {
                prop_assert!(found.compacted_to >= least.compacted_to, "place {}", place);
                prop_assert_eq!(found.versions_from, least.versions_from);
            }
            let (low, high) = (range.0.min(range.1), range.0.max(range.1));
            let whole = found[usize::from(low)..usize::from(high).max(usize::from(low) + 1)]
                .iter().copied().reduce(Past::least).expect("one place at least");
            prop_assert_eq!(stored.past_of(&[low], Some(&[high])), whole);
        }
    }
}
