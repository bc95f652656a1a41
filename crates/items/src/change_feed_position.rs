//! Position of a reader of the change feed: an LSN for every part of the hash space that it reads.
//!
//! As text, which clients keep as an etag:
//!
//! ```text
//! 42                     everything up to LSN 42, wherever the reader looks
//! 1;:42;3F:17;5A:12      from the hash "" on up to 42, from 3F on up to 17, …; the next page begins with part 1
//! ```
//! LSNs continue in the partitions that replace a partition, so a position holds across splits, merges and
//! moves: it names parts of the hash space, never partitions. Parts that it does not name are read from their
//! beginning: repeats are allowed, gaps are not.

use shardlake_model::{Error, Result};
use shardlake_routing::{Epk, KeyRange};

/// More parts than a position may have.
const PARTS_MAX: usize = 4096;
/// Longer than any hash of a key.
const EPK_BYTES_MAX: usize = 255;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FeedPosition {
    /// In the order of the hash space: where each part begins, and the last LSN seen there.
    starts: Vec<(Epk, u64)>,
    /// The part that the next page begins with, so that no part waits without end for a busy one.
    pub next: usize,
}

/// A part of the hash space and the last LSN seen there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedPart {
    pub span: KeyRange,
    pub after: u64,
}

impl FeedPosition {
    /// The same LSN everywhere.
    pub fn at(lsn: u64) -> FeedPosition {
        FeedPosition { starts: vec![(Epk::default(), lsn)], next: 0 }
    }

    /// The position after reading `parts`, which follow one another in the hash space.
    pub fn of_parts(parts: &[FeedPart], next: usize) -> FeedPosition {
        debug_assert!(
            parts.is_sorted_by(|left, right| left.span.min <= right.span.min),
            "the parts of a position follow one another"
        );
        let mut starts: Vec<(Epk, u64)> = Vec::with_capacity(parts.len());
        let mut places = Vec::with_capacity(parts.len());
        for part in parts {
            if starts.last().is_none_or(|(_, after)| *after != part.after) {
                starts.push((part.span.min.clone(), part.after));
            }
            places.push(starts.len() - 1);
        }
        FeedPosition { next: places.get(next).copied().unwrap_or(0), starts }
    }

    pub(crate) fn starts(&self) -> &[(Epk, u64)] {
        &self.starts
    }

    /// The starts are in the order of the hash space.
    pub(crate) fn of_starts(starts: Vec<(Epk, u64)>) -> FeedPosition {
        FeedPosition { starts, next: 0 }
    }

    /// Cuts a span where the position changes within it.
    pub fn parts_of(&self, span: &KeyRange) -> Vec<FeedPart> {
        let mut parts = Vec::new();
        let mut part = FeedPart { span: span.clone(), after: 0 };
        for (start, after) in &self.starts {
            if *start <= part.span.min {
                part.after = *after;
            } else if part.span.contains(start) {
                let rest = KeyRange { min: start.clone(), max: part.span.max.clone() };
                part.span.max = start.clone();
                parts.push(std::mem::replace(&mut part, FeedPart { span: rest, after: *after }));
            }
        }
        parts.push(part);
        parts
    }

    pub fn encode(&self) -> String {
        match &self.starts[..] {
            [] => "0".to_owned(),
            [(_, lsn)] => lsn.to_string(),
            starts => {
                let mut text = self.next.to_string();
                for (start, lsn) in starts {
                    text.push_str(&format!(";{}:{lsn}", start.to_hex()));
                }
                text
            }
        }
    }

    pub fn decode(text: &str) -> Result<FeedPosition> {
        parse(text).ok_or_else(|| {
            let shown: String = text.chars().take(80).collect();
            Error::bad_request(format!(
                "the change feed etag '{shown}' is invalid: send back what an earlier page gave as its etag"
            ))
        })
    }
}

fn parse(text: &str) -> Option<FeedPosition> {
    let Some((next, parts)) = text.split_once(';') else { return number(text).map(FeedPosition::at) };
    let mut starts: Vec<(Epk, u64)> = Vec::new();
    for part in parts.split(';') {
        let (start, lsn) = part.split_once(':')?;
        let start = Epk::from_hex(start).filter(|start| start.0.len() <= EPK_BYTES_MAX)?;
        if starts.len() == PARTS_MAX || starts.last().is_some_and(|(last, _)| *last >= start) {
            return None;
        }
        starts.push((start, number(lsn)?));
    }
    // A single part is written as its LSN alone.
    if starts.len() < 2 {
        return None;
    }
    let next = usize::try_from(number(next)?).ok()?;
    Some(FeedPosition { starts, next })
}

fn number(text: &str) -> Option<u64> {
    let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_plain.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn part(min: &str, max: &str, after: u64) -> FeedPart {
        FeedPart { span: KeyRange::from_hex(min, max).expect("valid"), after }
    }

    #[test]
    fn one_part_is_a_number_and_several_are_a_list() {
        let one = FeedPosition::of_parts(&[part("", "FF", 42)], 0);
        assert_eq!(one.encode(), "42");
        let parts = [part("", "3F", 42), part("3F", "5A", 17), part("5A", "FF", 17)];
        let several = FeedPosition::of_parts(&parts, 2);
        assert_eq!(several.encode(), "1;:42;3F:17");
        assert_eq!(FeedPosition::decode("1;:42;3F:17").expect("its own"), several);
    }

    #[test]
    fn a_position_holds_in_any_cut_of_the_hash_space() {
        let position = FeedPosition::decode("0;:42;3F:17;5A:12").expect("valid");
        assert_eq!(
            position.parts_of(&KeyRange::full()),
            [part("", "3F", 42), part("3F", "5A", 17), part("5A", "FF", 12)]
        );
        assert_eq!(position.parts_of(&part("10", "20", 0).span), [part("10", "20", 42)]);
        assert_eq!(position.parts_of(&part("3F", "50", 0).span), [part("3F", "50", 17)]);
        assert_eq!(
            position.parts_of(&part("50", "60", 0).span),
            [part("50", "5A", 17), part("5A", "60", 12)]
        );
        // Parts that it does not name are read from their beginning.
        let high = FeedPosition::decode("0;3F:17;5A:12").expect("valid");
        assert_eq!(high.parts_of(&part("30", "50", 0).span), [part("30", "3F", 0), part("3F", "50", 17)]);
        assert_eq!(FeedPosition::at(9).parts_of(&part("30", "50", 0).span), [part("30", "50", 9)]);
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "x",
            "-1",
            "+1",
            "1;",
            "1;3F",
            "0;3F:1;3F:2",
            "0;5A:1;3F:2",
            "0;zz:1",
            "99999999999999999999",
        ] {
            assert!(FeedPosition::decode(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn positions_survive(starts in prop::collection::btree_map(prop::collection::vec(any::<u8>(), 0..8), any::<u64>(), 2..9), next in 0usize..9) {
            let starts: Vec<_> = starts.into_iter().map(|(start, lsn)| (Epk(start), lsn)).collect();
            let position = FeedPosition { starts, next };
            prop_assert_eq!(FeedPosition::decode(&position.encode()).expect("its own"), position);
        }

        #[test]
        fn any_text_is_a_position_or_refused(text in "[0-9A-F;:]{0,40}") {
            let _ = FeedPosition::decode(&text);
        }
    }
}
