//! Spans of the key space, and positions in the change log.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Range of the key space in one layout: `min` inside, `max` outside. Bounds are texts whose order is
/// that of the keys; an empty `max` has no keys behind it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Span {
    pub min: String,
    pub max: String,
    #[serde(default, skip_serializing_if = "is_first")]
    pub layout: u16,
}

fn is_first(layout: &u16) -> bool {
    *layout == 0
}

impl Span {
    pub fn new(min: &str, max: &str) -> Span {
        Span { min: min.to_owned(), max: max.to_owned(), layout: 0 }
    }

    /// Whether rows of one can lie in the other. Spans of two layouts cannot be compared.
    pub fn may_overlap(&self, other: &Span) -> bool {
        let ends_before = |a: &Span, b: &Span| !a.max.is_empty() && a.max <= b.min;
        self.layout != other.layout || (!ends_before(self, other) && !ends_before(other, self))
    }

    pub fn contains(&self, other: &Span) -> bool {
        let reaches = self.max.is_empty() || (!other.max.is_empty() && other.max <= self.max);
        self.layout == other.layout && self.min <= other.min && reaches
    }

    pub fn parse(text: &str) -> Option<Span> {
        let (bounds, layout) = text.split_once('@').unwrap_or((text, "0"));
        let (min, max) = bounds.split_once('-')?;
        Some(Span { min: min.to_owned(), max: max.to_owned(), layout: layout.parse().ok()? })
    }
}

/// `min-max`, with `@layout` where that is not 0.
impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.min, self.max)?;
        if self.layout == 0 { Ok(()) } else { write!(f, "@{}", self.layout) }
    }
}

/// Least and greatest LSN of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LsnRange {
    pub least: u64,
    pub greatest: u64,
}

impl LsnRange {
    pub const EMPTY: LsnRange = LsnRange { least: u64::MAX, greatest: 0 };

    pub fn contains(self, lsn: u64) -> bool {
        self.least <= lsn && lsn <= self.greatest
    }

    pub fn with(self, lsn: u64) -> LsnRange {
        LsnRange { least: self.least.min(lsn), greatest: self.greatest.max(lsn) }
    }

    pub fn join(self, other: LsnRange) -> LsnRange {
        LsnRange { least: self.least.min(other.least), greatest: self.greatest.max(other.greatest) }
    }

    pub fn parse(text: &str) -> Option<LsnRange> {
        let (least, greatest) = text.split_once('-')?;
        Some(LsnRange { least: least.parse().ok()?, greatest: greatest.parse().ok()? })
    }
}

impl fmt::Display for LsnRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.least, self.greatest)
    }
}

/// Position of one span: everything up to `lsn` is in the table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Place {
    #[serde(flatten)]
    pub span: Span,
    pub lsn: u64,
    /// When the change log was read, in milliseconds since 1970.
    pub read_at: i64,
}
