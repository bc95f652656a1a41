//! Position in the log of a container: parts of the hash space, each read up to an LSN.
//!
//! LSNs remain valid in the partitions that replace another, for the same span, so a position holds across
//! splits, merges and moves: it names parts of the hash space, never partitions.

use shardlake_catalog::PlaceRecord;
use shardlake_model::{Error, ErrorKind, Result};
use shardlake_router::{ContainerEntry, PartitionHandle};
use shardlake_routing::KeyRange;

/// A part of the hash space that is read up to an LSN.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogPart {
    pub span: KeyRange,
    pub after: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LogPosition {
    pub(crate) parts: Vec<LogPart>,
}

impl LogPosition {
    pub fn new(parts: Vec<LogPart>) -> LogPosition {
        LogPosition { parts }
    }

    /// Before the first change that the log still has.
    pub fn beginning() -> LogPosition {
        LogPosition { parts: vec![LogPart { span: KeyRange::full(), after: 0 }] }
    }

    /// Before the next change.
    pub fn now(container: &ContainerEntry) -> LogPosition {
        let partitions = container.map.iter();
        let part = |partition: &PartitionHandle| LogPart {
            span: partition.epk_range().clone(),
            after: partition.durable_lsn(),
        };
        LogPosition { parts: partitions.map(part).collect() }
    }

    /// As the catalog stores it.
    pub fn of_records(records: &[PlaceRecord]) -> Result<LogPosition> {
        let part = |record: &PlaceRecord| {
            let span = record.span().map_err(|error| {
                Error::new(ErrorKind::Corrupt, format!("a stored position is malformed: {error}"))
            })?;
            Ok(LogPart { span, after: record.after })
        };
        Ok(LogPosition { parts: records.iter().map(part).collect::<Result<_>>()? })
    }

    pub fn records(&self) -> Vec<PlaceRecord> {
        self.parts.iter().map(|part| PlaceRecord::new(&part.span, part.after)).collect()
    }

    pub fn parts(&self) -> &[LogPart] {
        &self.parts
    }

    /// Replaces a part by those that it has in several partitions.
    pub(crate) fn divide(&mut self, number: usize, spans: Vec<KeyRange>) {
        assert!(!spans.is_empty(), "a part lies in one partition at least");
        let after = self.parts[number].after;
        debug_assert!(
            spans.iter().all(|span| self.parts[number].span.contains_range(span)),
            "the parts of a part lie in it"
        );
        self.parts.splice(number..=number, spans.into_iter().map(|span| LogPart { span, after }));
    }

    /// The part of a span is read up to an LSN. Parts never go back.
    pub(crate) fn advance(&mut self, span: &KeyRange, upto: u64) {
        let part = self.parts.iter_mut().find(|part| part.span == *span);
        let part = part.expect("a part stays until its round is done");
        assert!(upto >= part.after, "a follower never goes back");
        part.after = upto;
    }

    /// Joins neighbours in one partition that are level.
    pub(crate) fn join(&mut self, entry: &ContainerEntry) {
        self.parts.sort_by(|a, b| a.span.min.cmp(&b.span.min));
        let mut joined: Vec<LogPart> = Vec::with_capacity(self.parts.len());
        for part in self.parts.drain(..) {
            let previous = joined.last_mut().filter(|previous| {
                let is_next = previous.after == part.after && previous.span.max == part.span.min;
                let is_in_one = |partition: &PartitionHandle| {
                    partition.epk_range().contains_range(&previous.span)
                        && partition.epk_range().contains_range(&part.span)
                };
                is_next && entry.map.iter().any(is_in_one)
            });
            match previous {
                Some(previous) => previous.span.max = part.span.max,
                None => joined.push(part),
            }
        }
        self.parts = joined;
    }
}

/// The partitions that a span has now, each with its part of the span.
pub(crate) fn parts(entry: &ContainerEntry, span: &KeyRange) -> Vec<(PartitionHandle, KeyRange)> {
    let partitions = entry.map.overlapping(span);
    partitions.map(|partition| (partition.clone(), partition.epk_range().intersection(span))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use shardlake_routing::Epk;

    fn span(min: u8, max: u8) -> KeyRange {
        let bound = |byte: u8| Epk(if byte == 0 { Vec::new() } else { vec![byte] });
        KeyRange { min: bound(min), max: bound(max) }
    }

    #[test]
    fn positions_survive_their_stored_form_and_parts_divide() {
        let mut position = LogPosition::beginning();
        position.divide(0, vec![span(0, 0x20), span(0x20, 0xFF)]);
        position.advance(&span(0x20, 0xFF), 7);
        let after: Vec<u64> = position.parts().iter().map(|part| part.after).collect();
        assert_eq!(after, [0, 7]);
        assert_eq!(LogPosition::of_records(&position.records()).expect("its own"), position);
        let malformed = PlaceRecord { min: "x".into(), max: "FF".into(), after: 0 };
        assert_eq!(LogPosition::of_records(&[malformed]).expect_err("no number").kind(), ErrorKind::Corrupt);
    }

    fn after(position: &LogPosition) -> Vec<u64> {
        position.parts().iter().map(|part| part.after).collect()
    }

    #[test]
    fn parts_read_together_advance_in_any_order() {
        let spans = [span(0, 0x20), span(0x20, 0x40), span(0x40, 0xFF)];
        let part = |span: &KeyRange| LogPart { span: span.clone(), after: 1 };
        let mut position = LogPosition::new(spans.iter().map(part).collect());
        for (span, upto) in [(&spans[2], 8), (&spans[0], 4), (&spans[2], 9)] {
            position.advance(span, upto);
        }
        assert_eq!(after(&position), [4, 1, 9]);
    }

    #[test]
    fn a_part_advances_alone_and_hands_its_place_on_when_it_is_divided() {
        let parts = [(0, 0x20, 3), (0x20, 0x40, 5), (0x40, 0xFF, 0)];
        let part = |(min, max, after)| LogPart { span: span(min, max), after };
        let mut position = LogPosition::new(parts.map(part).to_vec());
        position.advance(&span(0x20, 0x40), 9);
        assert_eq!(after(&position), [3, 9, 0]);
        position.advance(&span(0x20, 0x40), 9);
        position.divide(1, vec![span(0x20, 0x28), span(0x28, 0x30), span(0x30, 0x40)]);
        assert_eq!(after(&position), [3, 9, 9, 9, 0], "each goes on where the whole was");
        position.advance(&span(0x28, 0x30), 12);
        assert_eq!(after(&position), [3, 9, 12, 9, 0]);
        let spans: Vec<_> = position.parts().iter().map(|part| part.span.clone()).collect();
        let ends: Vec<_> =
            spans.iter().map(|span| &span.max).zip(spans[1..].iter().map(|span| &span.min)).collect();
        assert!(ends.iter().all(|(max, min)| max == min), "no part of the hash space is lost");
    }

    #[test]
    #[should_panic(expected = "the parts of a part lie in it")]
    fn a_part_is_divided_within_its_bounds() {
        let mut position = LogPosition { parts: vec![LogPart { span: span(0x20, 0x40), after: 9 }] };
        position.divide(0, vec![span(0x20, 0x30), span(0x30, 0x50)]);
    }

    #[test]
    #[should_panic(expected = "a follower never goes back")]
    fn part_that_would_go_back_is_a_mistake() {
        let mut position = LogPosition { parts: vec![LogPart { span: span(0, 0xFF), after: 9 }] };
        position.advance(&span(0, 0xFF), 8);
    }
}
