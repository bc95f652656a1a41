//! Entries that are sorted late are found as if they had been sorted at once.

use super::families::SORTED;
use super::runs::RUNS_MAX;
use crate::{
    config::KeyKinds, key::InternalKey, memtable::Memtable, merge::Merger, AbstractTree, Config,
    InternalValue, SeqNo, SequenceNumberCounter, Slice, UserValue, ValueType,
};
use std::{
    collections::BTreeMap,
    ops::Bound::{self, Excluded, Included, Unbounded},
};

/// Keys that begin with `x` belong to the family of their first three bytes, and are only ever scanned.
const KINDS: KeyKinds = KeyKinds {
    is_scanned: |key| key.first() == Some(&b'x'),
    family_len: |key| (key.first() == Some(&b'x') && key.len() > 3).then_some(3),
};

/// Numbers that are the same each time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    fn key(&mut self) -> Vec<u8> {
        let head = [&b"xaa"[..], b"xab", b"xb", b"y", b"a", b"xac"][self.below(6) as usize];
        let tail = (0..self.below(12)).map(|_| [0, 1, b'k', 255][self.below(4) as usize]);
        head.iter().copied().chain(tail).collect()
    }

    fn bound(&mut self) -> Bound<InternalKey> {
        let key = self.key();
        let seqno = [0, SeqNo::MAX, self.below(400)][self.below(3) as usize];
        let key = InternalKey::new(key, seqno, ValueType::Value);
        match self.below(5) {
            0 => Unbounded,
            1 | 2 => Included(key),
            _ => Excluded(key),
        }
    }
}

fn entry(key: &[u8], seqno: SeqNo, numbers: &mut Numbers) -> InternalValue {
    let (value, value_type) = match numbers.below(5) {
        0 => (UserValue::empty(), ValueType::Tombstone),
        1 => (Slice::from(b"something"), ValueType::Value),
        _ => (UserValue::empty(), ValueType::Value),
    };
    InternalValue::from_components(key, value, seqno, value_type)
}

type Parts = (InternalKey, UserValue, ValueType);

fn parts(item: InternalValue) -> Parts {
    let value_type = item.key.value_type;
    (item.key, item.value, value_type)
}

#[test]
fn late_order_is_order() {
    for seed in 0..60 {
        let mut numbers = Numbers(seed);
        let memtable = Memtable::of_kinds(0, KINDS);
        let mut model: BTreeMap<InternalKey, UserValue> = BTreeMap::new();
        let writes = 1 + numbers.below(600);

        for seqno in 1..=writes {
            // A batch gives each of its keys once, in order.
            let count = 1 + numbers.below(40);
            let mut keys: Vec<_> = (0..count).map(|_| numbers.key()).collect();
            keys.sort();
            keys.dedup();
            let batch: Vec<_> = keys.iter().map(|key| entry(key, seqno, &mut numbers)).collect();
            for item in &batch {
                model.insert(item.key.clone(), item.value.clone());
            }
            if numbers.below(20) == 0 {
                memtable.insert_run(batch);
            } else {
                memtable.insert_all(batch.into_iter());
            }
            assert_eq!(model.len(), memtable.len());

            if numbers.below(20) == 0 {
                let (lo, hi) = (numbers.bound(), numbers.bound());
                let seqno = 1 + numbers.below(seqno + 1);
                let expected: Vec<Parts> = model
                    .iter()
                    .filter(|(key, _)| match &lo {
                        Included(lo) => *key >= lo,
                        Excluded(lo) => *key > lo,
                        Unbounded => true,
                    })
                    .filter(|(key, _)| match &hi {
                        Included(hi) => *key <= hi,
                        Excluded(hi) => *key < hi,
                        Unbounded => true,
                    })
                    .filter(|(key, _)| key.seqno < seqno)
                    .map(|(key, value)| (key.clone(), value.clone(), key.value_type))
                    .collect();

                // The skip list does not take a range that ends before it begins.
                let is_range = match (&lo, &hi) {
                    (Included(lo) | Excluded(lo), Included(hi) | Excluded(hi)) => lo < hi,
                    _ => true,
                };
                if is_range {
                    let range = (lo, hi);
                    let forth = Merger::new(memtable.sources(range.clone(), seqno));
                    let forth: Vec<_> = forth.map(|item| parts(item.unwrap())).collect();
                    assert_eq!(expected, forth, "{range:?} of {seed}");

                    let back = Merger::new(memtable.sources(range.clone(), seqno)).rev();
                    let mut back: Vec<_> = back.map(|item| parts(item.unwrap())).collect();
                    back.reverse();
                    assert_eq!(expected, back, "{range:?} of {seed}, backwards");

                    // From both ends, one item each.
                    let mut both = Merger::new(memtable.sources(range, seqno));
                    let (mut front, mut end) = (vec![], vec![]);
                    while let Some(item) = both.next() {
                        front.push(parts(item.unwrap()));
                        end.extend(both.next_back().map(|item| parts(item.unwrap())));
                    }
                    end.reverse();
                    front.append(&mut end);
                    assert_eq!(expected, front, "from both ends of {seed}");
                }
            }

            let key = numbers.key();
            let before = 1 + numbers.below(seqno + 1);
            let expected = model
                .range(InternalKey::new(&*key, before - 1, ValueType::Value)..)
                .next()
                .filter(|(found, _)| *found.user_key == *key);
            let found = memtable.get(&key, before);
            assert_eq!(
                expected.map(|(key, value)| (key.clone(), value.clone(), key.value_type)),
                found.map(parts),
            );
        }

        memtable.settle();
        let all: Vec<_> = memtable.iter().map(parts).collect();
        let expected = model.iter().map(|(key, value)| (key.clone(), value.clone(), key.value_type));
        assert_eq!(expected.collect::<Vec<_>>(), all);
        // One of the skip list, one of all families, and one of each large batch.
        assert!(memtable.sources(.., SeqNo::MAX).len() <= 2 + RUNS_MAX);
        assert_eq!(Some(writes), memtable.get_highest_seqno());
    }
}

#[test]
fn many_entries_of_a_family_lie_in_few_runs() {
    let memtable = Memtable::of_kinds(0, KINDS);
    let mut numbers = Numbers(7);
    for seqno in 0..60_000 {
        let key = [&b"xaa"[..], &numbers.below(u64::MAX).to_be_bytes()].concat();
        memtable.insert(InternalValue::from_components(key, b"", seqno, ValueType::Value));
        if seqno % 97 == 0 {
            assert!(memtable.sources(.., SeqNo::MAX).len() <= 1 + 32 + 5);
        }
    }
    let keys: Vec<_> = memtable.iter().map(|item| item.key).collect();
    assert_eq!(60_000, keys.len());
    assert!(keys.is_sorted());
}

#[test]
fn no_write_sorts_for_many_others() {
    let memtable = Memtable::of_kinds(0, KINDS);
    let mut numbers = Numbers(13);
    let mut most = 0;
    for seqno in 0..500 {
        // A hundred items with twenty paths each, as a background job writes them.
        for family in 0..20 {
            let mut keys: Vec<_> = (0..100).map(|_| numbers.below(u64::MAX).to_be_bytes()).collect();
            keys.sort();
            let items = keys.iter().map(|key| {
                let key = [&[b'x', b'a', family], &key[..]].concat();
                InternalValue::from_components(key, b"", seqno, ValueType::Value)
            });
            memtable.insert_all(items);
        }
        most = most.max(SORTED.take());
    }
    assert_eq!(1_000_000, memtable.len());
    // Two thousand were written, and one in sixteen of those who sort also merge.
    assert!(most <= 40_000, "{most} rows were sorted in one write");
}

#[test]
fn keys_that_have_much_in_common_are_sorted() {
    let value = |number: u64| b"a value that many items have, of some length, ".repeat((number % 3) as usize);
    let (memtable, mut numbers) = (Memtable::of_kinds(0, KINDS), Numbers(11));
    let mut expected = Vec::new();
    for seqno in 0..5_000 {
        let number = numbers.below(600);
        // Some end where others go on with zeros, and some come several times.
        let ordinal = &number.to_be_bytes()[..8 - (number % 7) as usize];
        let key = [b"xaa", &*value(number), ordinal].concat();
        expected.push(InternalKey::new(&*key, seqno, ValueType::Value));
        memtable.insert(InternalValue::from_components(key, b"", seqno, ValueType::Value));
    }
    expected.sort();
    let found = || memtable.iter().map(|item| item.key).collect::<Vec<_>>();
    assert_eq!(expected, found());
    memtable.settle();
    assert_eq!(expected, found());
}

#[test]
fn further_families_go_to_the_skip_list() {
    let kinds = KeyKinds {
        family_len: |key| (key.len() > 3).then_some(3),
        ..KeyKinds::default()
    };
    let memtable = Memtable::of_kinds(0, kinds);
    let key = |number: u32| [&number.to_be_bytes()[1..], b"z"].concat();
    for number in 0..9_000 {
        memtable.insert(InternalValue::from_components(key(number), b"", 1, ValueType::Value));
    }
    assert_eq!(9_000, memtable.len());
    assert_eq!(9_000, memtable.iter().count());
    for number in 0..9_000 {
        assert!(memtable.get(&key(number), 2).is_some(), "{number}");
    }
}

#[test]
fn readers_see_what_was_written_before_they_came() {
    let memtable = Memtable::of_kinds(0, KINDS);
    let written = std::sync::atomic::AtomicU64::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..20_000_u64 {
                // Not in order.
                let key = [&b"xaa"[..], &(number ^ 0x5a5).to_be_bytes()].concat();
                let item = InternalValue::from_components(key, b"", number + 1, ValueType::Value);
                memtable.insert(item);
                written.store(number + 1, std::sync::atomic::Ordering::Release);
            }
        });
        for _ in 0..3 {
            scope.spawn(|| loop {
                let before = written.load(std::sync::atomic::Ordering::Acquire);
                let seen = Merger::new(memtable.sources(.., before + 1)).count() as u64;
                assert_eq!(before, seen);
                if before == 20_000 {
                    break;
                }
            });
        }
    });
}

#[test]
fn trees_find_what_is_sorted_late_in_memory_and_in_tables() -> crate::Result<()> {
    let folder = tempfile::tempdir()?;
    let open = || {
        Config::new(
            &folder,
            SequenceNumberCounter::default(),
            SequenceNumberCounter::default(),
        )
        .key_kinds(KINDS)
        .open()
    };
    let key = |number: u64| [&b"xaa"[..], &(number * 7_919 % 10_007).to_be_bytes()].concat();
    let tree = open()?;

    let entries = |numbers: std::ops::Range<u64>, value_type| {
        numbers.map(move |number| {
            InternalValue::from_components(key(number), b"", number + 1, value_type)
        })
    };
    tree.append_entries(entries(0..3_000, ValueType::Value));
    tree.insert("a", "looked up", 3_001);
    tree.flush_active_memtable(0)?;
    tree.append_entries(entries(3_000..5_000, ValueType::Value));
    // Some of those in the table.
    tree.append_entries((0..500).map(|number| {
        InternalValue::from_components(key(number), b"", 6_000 + number, ValueType::Tombstone)
    }));

    let check = |tree: &crate::AnyTree| -> crate::Result<()> {
        assert_eq!(4_500, tree.prefix("xaa", SeqNo::MAX, None).count());
        assert_eq!(4_500, tree.prefix("xaa", SeqNo::MAX, None).rev().count());
        assert_eq!(5_000, tree.prefix("xaa", 5_500, None).count());
        // Filters do not know them: no table may be passed over.
        for number in 0..5_000 {
            let found = tree.get(key(number), SeqNo::MAX)?;
            assert_eq!(number >= 500, found.is_some(), "{number}");
            assert!(tree.get(key(number), 5_500)?.is_some(), "{number}");
        }
        assert_eq!(Some("looked up".into()), tree.get("a", SeqNo::MAX)?);
        Ok(())
    };
    check(&tree)?;
    tree.flush_active_memtable(0)?;
    check(&tree)?;
    drop(tree);
    let tree = open()?;
    check(&tree)?;
    tree.major_compact(u64::MAX, 0)?;
    check(&tree)
}
