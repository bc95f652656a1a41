//! Writes that were queued but are not yet visible in the engine, so that the next writer plans on top of them.
//!
//! The sequencer hands commits to the shard in order and does not wait for them; without this overlay two writers of one
//! group would both see the state before the group. Entries leave once the shard has applied their commit.

use std::collections::VecDeque;

use bytes::Bytes;
use rustc_hash::FxHashMap;
use shardlake_storage::Seq;

#[derive(Debug, Default)]
pub(crate) struct Pending {
    latest: FxHashMap<Bytes, (Seq, Option<Bytes>)>,
    queued: VecDeque<(Seq, Vec<Bytes>)>,
}

impl Pending {
    /// The newest queued state of a key: `None` when nothing is queued, `Some(None)` when a delete is.
    pub fn get(&self, key: &[u8]) -> Option<Option<Bytes>> {
        self.latest.get(key).map(|(_, value)| value.clone())
    }

    pub fn add(&mut self, seq: Seq, writes: impl Iterator<Item = (Bytes, Option<Bytes>)>) {
        let mut keys = Vec::new();
        for (key, value) in writes {
            keys.push(key.clone());
            self.latest.insert(key, (seq, value));
        }
        assert!(self.queued.back().is_none_or(|(last, _)| *last < seq), "commits are queued in order");
        self.queued.push_back((seq, keys));
    }

    /// Forgets what the engine shows by now.
    pub fn forget_applied(&mut self, applied: Seq) {
        while self.queued.front().is_some_and(|(seq, _)| *seq <= applied) {
            let (seq, keys) = self.queued.pop_front().expect("just seen");
            for key in keys {
                // A later queued write of the same key stays.
                if self.latest.get(&key).is_some_and(|(latest, _)| *latest == seq) {
                    self.latest.remove(&key);
                }
            }
        }
    }

    /// The last commit queued and perhaps not applied.
    pub fn last_seq(&self) -> Option<Seq> {
        self.queued.back().map(|(seq, _)| *seq)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_write_shows_until_it_is_applied() {
        let mut pending = Pending::default();
        let write = |text: &'static str| {
            vec![(Bytes::from_static(b"k"), Some(Bytes::from_static(text.as_bytes())))].into_iter()
        };
        pending.add(1, write("one"));
        pending.add(3, write("two"));
        pending.add(4, vec![(Bytes::from_static(b"gone"), None)].into_iter());
        pending.forget_applied(2);
        assert_eq!(pending.get(b"k"), Some(Some(Bytes::from_static(b"two"))));
        assert_eq!(pending.get(b"gone"), Some(None));
        pending.forget_applied(4);
        assert_eq!(pending.get(b"k"), None);
        assert_eq!(pending.last_seq(), None);
    }
}
