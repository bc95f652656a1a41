//! The part of the source that one pass compares.
//!
//! A part ends at four bytes of hash, as many as a stamp has, so that the part of each row is known by its stamp alone.

use shardlake_change_log::{LogPart, LogPosition};
use shardlake_routing::{Epk, KeyRange};

/// Bytes of a hash that a stamp has.
pub(super) const PREFIX: usize = 4;

/// A part of the source's hash space, and the LSNs up to which it was read.
pub(super) struct ReadSpan {
    pub span: KeyRange,
    pub parts: Vec<LogPart>,
}

impl ReadSpan {
    /// Nothing yet, at the start of a span.
    pub fn begin(span: &KeyRange) -> ReadSpan {
        ReadSpan { span: KeyRange { min: span.min.clone(), max: span.min.clone() }, parts: Vec::new() }
    }

    /// Sets the end. Parts that were read beyond are cut.
    pub fn end(&mut self, max: Epk) {
        for part in &mut self.parts {
            if part.span.max > max {
                part.span.max = max.clone();
            }
        }
        self.parts.retain(|part| !part.span.is_empty());
        self.span.max = max;
        assert!(self.span.max > self.span.min, "each pass goes on");
    }

    /// The position that the index must have before it is compared.
    pub fn position(&self) -> LogPosition {
        LogPosition::new(self.parts.clone())
    }

    /// The part of the source that is left.
    pub fn rest(&self) -> Option<KeyRange> {
        let rest = KeyRange { min: self.span.max.clone(), max: KeyRange::full().max };
        (rest.min < rest.max).then_some(rest)
    }

    /// Whether a row of this part of the hash space is of the pass.
    pub fn has(&self, source: [u8; PREFIX]) -> bool {
        prefix_of(&self.span.min) <= source && (source < prefix_of(&self.span.max) || self.is_last())
    }

    fn is_last(&self) -> bool {
        self.span.max == KeyRange::full().max
    }

    /// The least LSN up to which a part of the hash space was read.
    pub fn after(&self, source: [u8; PREFIX]) -> Option<u64> {
        let of = |part: &&LogPart| {
            // The last hash of a part may begin with the same bytes as its bound.
            prefix_of(&part.span.min) <= source && source <= prefix_of(&part.span.max)
        };
        self.parts.iter().filter(of).map(|part| part.after).min()
    }
}

pub(super) fn prefix_of(bound: &Epk) -> [u8; PREFIX] {
    let mut prefix = [0; PREFIX];
    prefix.iter_mut().zip(&bound.0).for_each(|(to, byte)| *to = *byte);
    prefix
}

/// The least bound with the same first bytes.
pub(super) fn cut(bound: &Epk) -> Epk {
    trimmed(prefix_of(bound).to_vec())
}

/// The hashes that begin with some bytes.
pub(super) fn span_of(bytes: &[u8]) -> KeyRange {
    let mut next = bytes.to_vec();
    while next.last() == Some(&0xFF) {
        next.pop();
    }
    let max = match next.last_mut() {
        Some(last) => {
            *last += 1;
            Epk(next)
        }
        None => KeyRange::full().max,
    };
    KeyRange { min: trimmed(bytes.to_vec()), max: max.min(KeyRange::full().max) }
}

/// Trailing zero bytes have no meaning in a bound.
fn trimmed(mut bytes: Vec<u8>) -> Epk {
    while bytes.last() == Some(&0) {
        bytes.pop();
    }
    Epk(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(min: &[u8], max: &[u8], after: u64) -> LogPart {
        LogPart { span: KeyRange { min: Epk(min.to_vec()), max: Epk(max.to_vec()) }, after }
    }

    #[test]
    fn a_part_is_known_by_the_first_bytes_of_a_hash() {
        let mut read = ReadSpan::begin(&KeyRange { min: Epk(vec![0x10]), max: KeyRange::full().max });
        read.parts = vec![part(&[0x10], &[0x20, 1, 2, 3, 4], 7), part(&[0x20, 1, 2, 3, 4], &[0x40], 5)];
        read.end(Epk(vec![0x30]));
        assert_eq!(read.position().parts().last().expect("two").span.max, Epk(vec![0x30]));
        assert_eq!(read.rest().expect("more").min, Epk(vec![0x30]));
        for (source, is_in, after) in [
            ([0x0F, 0xFF, 0xFF, 0xFF], false, None),
            ([0x10, 0, 0, 0], true, Some(7)),
            // Its hashes are of both parts.
            ([0x20, 1, 2, 3], true, Some(5)),
            ([0x2F, 0xFF, 0xFF, 0xFF], true, Some(5)),
            ([0x30, 0, 0, 0], false, Some(5)),
        ] {
            assert_eq!((read.has(source), read.after(source)), (is_in, after), "{source:?}");
        }
    }

    #[test]
    fn the_last_part_has_all_hashes_that_follow() {
        let mut read = ReadSpan::begin(&KeyRange { min: Epk(vec![0x10]), max: KeyRange::full().max });
        read.parts = vec![part(&[0x10], &[0xFF], 7)];
        read.end(KeyRange::full().max);
        assert!(read.rest().is_none() && read.has([0xFF; PREFIX]));
    }

    #[test]
    fn hashes_that_begin_with_bytes_are_a_span() {
        for (bytes, min, max) in [
            (&[1, 0, 0, 0][..], &[1][..], &[1, 0, 0, 1][..]),
            (&[0, 0, 0, 0], &[], &[0, 0, 0, 1]),
            (&[1, 2, 0xFF, 0xFF], &[1, 2, 0xFF, 0xFF], &[1, 3]),
            (&[0xFF, 0xFF, 0xFF, 0xFF], &[0xFF, 0xFF, 0xFF, 0xFF], &[0xFF]),
        ] {
            let span = span_of(bytes);
            assert_eq!((&span.min.0[..], &span.max.0[..]), (min, max), "{bytes:?}");
        }
    }
}
