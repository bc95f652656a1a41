//! Writes of a transaction, and the earlier writes of the steps of an open one.

use bytes::Bytes;
use rustc_hash::FxHashMap;

use crate::log::entry::Counters;
use crate::sizes::SizeChange;

/// Keys and their newest values, `None` for a deletion; each key once.
#[derive(Debug, Clone, Default)]
pub(crate) struct Writes {
    list: Vec<(Bytes, Option<Bytes>)>,
    /// Where each key is, once there are many: nearly all transactions have a handful.
    places: FxHashMap<Bytes, usize>,
}

const FEW: usize = 12;

impl Writes {
    pub fn get(&self, key: &[u8]) -> Option<&Option<Bytes>> {
        self.place(key).map(|place| &self.list[place].1)
    }

    fn place(&self, key: &[u8]) -> Option<usize> {
        match self.list.len() <= FEW {
            true => self.list.iter().position(|(known, _)| known == key),
            false => self.places.get(key).copied(),
        }
    }

    pub fn put(&mut self, key: impl Into<Bytes>, value: Option<Bytes>) {
        let key = key.into();
        if let Some(place) = self.place(&key) {
            self.list[place].1 = value;
            return;
        }
        if self.list.len() == FEW {
            self.places = self.list.iter().map(|(key, _)| key.clone()).zip(0..).collect();
        }
        if self.list.len() >= FEW {
            self.places.insert(key.clone(), self.list.len());
        }
        self.list.push((key, value));
        debug_assert!(
            self.list.len() <= FEW || self.places.len() == self.list.len(),
            "many rows have a place each"
        );
    }

    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = &(Bytes, Option<Bytes>)> {
        self.list.iter()
    }

    pub fn into_list(self) -> Vec<(Bytes, Option<Bytes>)> {
        self.list
    }

    /// Forgets some, for tests.
    #[cfg(feature = "testing")]
    pub fn retain(&mut self, keep: impl Fn(&Bytes, &Option<Bytes>) -> bool) {
        let kept = std::mem::take(self).list.into_iter().filter(|(key, value)| keep(key, value));
        kept.for_each(|(key, value)| self.put(key, value));
    }
}

/// Writes of the steps of a transaction so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Base {
    writes: Writes,
    /// Change of the whole partition.
    change: SizeChange,
    /// Changes of logical partitions, by the keys of their sizes.
    changes: FxHashMap<Bytes, SizeChange>,
    size_bytes: usize,
}

impl Base {
    pub fn get(&self, key: &[u8]) -> Option<&Option<Bytes>> {
        self.writes.get(key)
    }

    /// The totals of a partition including the writes so far.
    pub fn on(&self, counters: Counters) -> Counters {
        Counters {
            items: counters.items.wrapping_add_signed(self.change.items),
            size_bytes: counters.size_bytes.wrapping_add_signed(self.change.size_bytes),
            next_ordinal: counters.next_ordinal,
        }
    }

    /// By how much a logical partition has grown, by where its size lies.
    pub fn change_of(&self, size_key: &[u8]) -> SizeChange {
        self.changes.get(size_key).copied().unwrap_or_default()
    }

    pub fn add(&mut self, step: Step) {
        self.change.add(step.change);
        if let Some(key) = step.sized {
            self.changes.entry(key).or_default().add(step.change);
        }
        for (key, value) in step.writes {
            self.size_bytes += key.len() + value.as_ref().map_or(0, Bytes::len);
            self.writes.put(key, value);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// Bytes written by all steps, including rows that a later step has written again.
    pub fn size_bytes(&self) -> usize {
        self.size_bytes
    }
}

/// One step of a transaction that continues.
pub(crate) struct Step {
    pub writes: Vec<(Bytes, Option<Bytes>)>,
    pub change: SizeChange,
    /// Where the size of the logical partition lies that it changed.
    pub sized: Option<Bytes>,
    /// The first ordinal that it left.
    pub next_ordinal: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_and_many_keys_have_their_newest_value() {
        let key = |number: usize| Bytes::from(format!("key {number}"));
        for count in [1, FEW - 1, FEW, FEW + 1, 5 * FEW] {
            let mut writes = Writes::default();
            for round in 0..2 {
                for number in 0..count {
                    writes.put(key(number), (number % 3 > 0).then(|| Bytes::from(format!("{round}"))));
                }
            }
            assert_eq!(writes.iter().count(), count, "each key once");
            for number in 0..count {
                let value = (number % 3 > 0).then(|| Bytes::from_static(b"1"));
                assert_eq!(writes.get(&key(number)), Some(&value), "{number} of {count}");
            }
            assert_eq!(writes.get(b"another"), None);
        }
    }

    #[test]
    fn steps_add_up_in_their_base() {
        let key = |text: &'static str| Bytes::from_static(text.as_bytes());
        let step = |writes: Vec<(Bytes, Option<Bytes>)>, items, size_bytes, sized| Step {
            writes,
            change: SizeChange { items, size_bytes },
            sized: Some(key(sized)),
            next_ordinal: 0,
        };
        let mut base = Base::default();
        assert!(base.is_empty());
        base.add(step(vec![(key("a"), Some(key("one"))), (key("b"), Some(key("b")))], 2, 300, "S1"));
        base.add(step(vec![(key("a"), None)], -1, -100, "S1"));
        base.add(step(vec![(key("c"), Some(key("c")))], 1, 50, "S2"));
        assert_eq!(base.get(b"a"), Some(&None), "the newest step counts");
        assert_eq!(base.get(b"b"), Some(&Some(key("b"))));
        assert_eq!(base.get(b"x"), None);
        assert_eq!(base.change_of(b"S1"), SizeChange { items: 1, size_bytes: 200 });
        assert_eq!(base.change_of(b"S2"), SizeChange { items: 1, size_bytes: 50 });
        assert_eq!(base.change_of(b"S3"), SizeChange::default());
        let counters = Counters { items: 10, size_bytes: 1000, next_ordinal: 4 };
        let with_steps = Counters { items: 12, size_bytes: 1250, next_ordinal: 4 };
        assert_eq!(base.on(counters), with_steps, "ordinals are taken from the sequencer at once");
        assert_eq!(base.size_bytes(), 4 + 2 + 1 + 2, "a row that is written again counts again");
    }
}
