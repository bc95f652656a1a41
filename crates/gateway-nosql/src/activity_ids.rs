//! Activity ids of requests.

use std::sync::atomic::{AtomicU64, Ordering};

use http::request::Parts;
use shardlake_stdx::Guid;

/// Ids for requests that bring none: a random base with a counter in it, since asking the operating system for
/// randomness would cost as much as reading an item, and these ids only have to be unique.
pub(crate) struct ActivityIds {
    base: Guid,
    made: AtomicU64,
}

impl ActivityIds {
    pub fn new(base: Guid) -> ActivityIds {
        ActivityIds { base, made: AtomicU64::new(0) }
    }

    /// The client's own id of the request where it is one, else a new one.
    pub fn of(&self, parts: &Parts) -> Guid {
        let sent = parts.headers.get("x-ms-activity-id").and_then(|value| value.to_str().ok());
        sent.and_then(Guid::parse).unwrap_or_else(|| self.next())
    }

    fn next(&self) -> Guid {
        let number = self.made.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        let mut id = self.base;
        // The last six bytes carry no version or variant bits; 48 bits of requests outlive any process.
        for (byte, count) in id.0[10..].iter_mut().zip(&number[2..]) {
            *byte ^= count;
        }
        id
    }
}
