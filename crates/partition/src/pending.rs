//! Writes that were queued but are not yet visible in the engine, so that the next writer plans on top of them.
//!
//! The sequencer hands commits to the shard in order and does not wait for them; without this
//! overlay two writers of one group would both see the state before the group. Entries leave once
//! the shard has applied their commit, and no plan still uses values that were fetched before that.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use rustc_hash::FxHashMap;
use shardlake_storage::Seq;

#[derive(Debug, Default)]
pub(crate) struct Pending {
    latest: FxHashMap<Bytes, (Seq, Option<Bytes>)>,
    queued: VecDeque<(Seq, Vec<Bytes>)>,
    /// Readers that may lack the commits behind a place in the shard's order.
    readers: Vec<(Seq, Weak<()>)>,
}

/// While it lasts, the overlay forgets nothing that was queued behind a certain commit.
#[derive(Debug)]
pub(crate) struct Kept {
    #[expect(dead_code, reason = "the overlay looks whether it is still there")]
    token: Arc<()>,
}

impl Pending {
    /// The newest queued state of a key: `None` when nothing is queued, `Some(None)` when a delete is.
    pub fn get(&self, key: &[u8]) -> Option<Option<Bytes>> {
        self.latest.get(key).map(|(_, value)| value.clone())
    }

    pub fn add(&mut self, seq: Seq, writes: impl IntoIterator<Item = (Bytes, Option<Bytes>)>) {
        let writes = writes.into_iter();
        let mut keys = Vec::with_capacity(writes.size_hint().0);
        for (key, value) in writes {
            keys.push(key.clone());
            self.latest.insert(key, (seq, value));
        }
        assert!(self.queued.back().is_none_or(|(last, _)| *last < seq), "commits are queued in order");
        self.queued.push_back((seq, keys));
    }

    /// Called before reading a state of the engine that shows this commit, and perhaps later ones.
    pub fn keep_behind(&mut self, shown: Seq) -> Kept {
        let token = Arc::new(());
        self.readers.push((shown, Arc::downgrade(&token)));
        Kept { token }
    }

    /// Removes the writes that the engine shows, unless a plan has read the engine before.
    pub fn forget_applied(&mut self, applied: Seq) {
        let mut shown = applied;
        if !self.readers.is_empty() {
            self.readers.retain(|(_, reader)| reader.strong_count() > 0);
            shown = self.readers.iter().map(|(seq, _)| *seq).fold(applied, Seq::min);
        }
        while self.queued.front().is_some_and(|(seq, _)| *seq <= shown) {
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

    fn write(text: &'static str) -> [(Bytes, Option<Bytes>); 1] {
        [(Bytes::from_static(b"k"), Some(Bytes::from_static(text.as_bytes())))]
    }

    #[test]
    fn the_newest_write_shows_until_it_is_applied() {
        let mut pending = Pending::default();
        pending.add(1, write("one"));
        pending.add(3, write("two"));
        pending.add(4, [(Bytes::from_static(b"gone"), None)]);
        pending.forget_applied(2);
        assert_eq!(pending.get(b"k"), Some(Some(Bytes::from_static(b"two"))));
        assert_eq!(pending.get(b"gone"), Some(None));
        pending.forget_applied(4);
        assert_eq!(pending.get(b"k"), None);
        assert_eq!(pending.last_seq(), None);
    }

    #[test]
    fn what_a_reader_may_lack_stays_until_it_has_gone() {
        let mut pending = Pending::default();
        pending.add(1, write("one"));
        let early = pending.keep_behind(0);
        pending.add(2, write("two"));
        let late = pending.keep_behind(2);
        pending.forget_applied(2);
        assert_eq!(pending.last_seq(), Some(2), "the early one has seen neither");
        drop(early);
        pending.forget_applied(2);
        assert_eq!(pending.get(b"k"), None, "the late one has seen both");
        pending.add(3, write("three"));
        pending.forget_applied(3);
        assert_eq!(pending.get(b"k"), Some(Some(Bytes::from_static(b"three"))));
        drop(late);
        pending.forget_applied(3);
        assert_eq!(pending.last_seq(), None);
        assert!(pending.readers.is_empty());
    }
}
