//! When items run out: pure.

use shardlake_document::Envelope;

const NEVER: u64 = u64::MAX;

/// When an item runs out that has a time to live of its own, in seconds; `None` where it has none, or lives for ever.
pub(crate) fn own_end(item: &Envelope) -> Option<u64> {
    let seconds = item.ttl_seconds.filter(|seconds| *seconds != -1)?;
    Some(item.timestamp_seconds.saturating_add(seconds.max(0) as u64))
}

/// The earliest times, in seconds, at which some items may expire. A bound: it may be too early,
/// never too late.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Due {
    /// When the first item with a time to live of its own runs out.
    pub own: u64,
    /// When the oldest item without one was written.
    pub oldest: u64,
}

impl Due {
    /// For no items.
    pub const NEVER: Due = Due { own: NEVER, oldest: NEVER };
    pub const UNKNOWN: Due = Due { own: 0, oldest: 0 };

    pub fn note(&mut self, item: &Envelope) {
        match item.ttl_seconds {
            None => self.oldest = self.oldest.min(item.timestamp_seconds),
            Some(-1) => {}
            Some(_) => self.own = self.own.min(own_end(item).unwrap_or(NEVER)),
        }
    }

    pub fn min(self, other: Due) -> Due {
        Due { own: self.own.min(other.own), oldest: self.oldest.min(other.oldest) }
    }

    /// Under a container's default; `None` when nothing can run out.
    pub fn at(self, default_ttl: Option<i64>) -> Option<u64> {
        let by_default = match default_ttl? {
            -1 => NEVER,
            _ if self.oldest == NEVER => NEVER,
            seconds => self.oldest.saturating_add(seconds.max(0) as u64),
        };
        Some(self.own.min(by_default)).filter(|due| *due != NEVER)
    }
}
