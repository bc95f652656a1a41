//! Ingestions beside writers: what is newest, what a snapshot sees, and what a crash leaves.
//!
//! The writers' lock stands for the journal's lock of fjall, and a list of all writes for its journal.

use crate::{
    at_the_disk, get_tmp_folder, AbstractTree, AnyTree, Config, Guard, KvSeparationOptions, SeqNo,
    SequenceNumberCounter,
};
use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, BTreeSet},
    path::Path,
    rc::Rc,
    sync::{Arc, Mutex, MutexGuard},
};

type State = BTreeMap<Vec<u8>, Vec<u8>>;

struct Write {
    seqno: SeqNo,
    key: Vec<u8>,
    /// `None` is a deletion.
    value: Option<Vec<u8>>,
}

struct Writers {
    tree: AnyTree,
    seqno: SequenceNumberCounter,
    visible: SequenceNumberCounter,
    lock: Mutex<()>,
    journal: RefCell<Vec<Write>>,
    folder: tempfile::TempDir,
}

/// Gives the lock back, and then does what a test wants to happen at that moment.
struct Held<'a> {
    guard: Option<MutexGuard<'a, ()>>,
    then: Option<&'a dyn Fn()>,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        drop(self.guard.take());

        if let Some(then) = self.then {
            then();
        }
    }
}

fn open(
    folder: &Path,
    blobs: bool,
) -> crate::Result<(AnyTree, SequenceNumberCounter, SequenceNumberCounter)> {
    let (seqno, visible) = (
        SequenceNumberCounter::default(),
        SequenceNumberCounter::default(),
    );

    let separation = blobs.then(|| KvSeparationOptions::default().separation_threshold(1));
    let tree = Config::new(folder, seqno.clone(), visible.clone())
        .with_kv_separation(separation)
        .open()?;

    Ok((tree, seqno, visible))
}

impl Writers {
    fn new(blobs: bool) -> crate::Result<Self> {
        let folder = get_tmp_folder();
        let (tree, seqno, visible) = open(folder.path(), blobs)?;

        Ok(Self {
            tree,
            seqno,
            visible,
            lock: Mutex::default(),
            journal: RefCell::default(),
            folder,
        })
    }

    fn write_or_delete(&self, key: &str, value: Option<&str>) {
        let _held = self.lock.lock().expect("not poisoned");
        let seqno = self.seqno.next();

        self.journal.borrow_mut().push(Write {
            seqno,
            key: key.into(),
            value: value.map(Into::into),
        });

        let _sizes = match value {
            Some(value) => self.tree.insert(key, value, seqno),
            None => self.tree.remove(key, seqno),
        };

        self.visible.fetch_max(seqno + 1);
    }

    fn write(&self, key: &str, value: &str) {
        self.write_or_delete(key, Some(value));
    }

    fn delete(&self, key: &str) {
        self.write_or_delete(key, None);
    }

    fn seal(&self) {
        let _held = self.lock.lock().expect("not poisoned");
        self.tree.rotate_memtable();
    }

    /// `during` happens once the memtable is sealed, `unpublished` once the tables are in the list.
    fn load(
        &self,
        rows: &[(&str, &str)],
        during: impl Fn(),
        unpublished: impl Fn(),
    ) -> crate::Result<()> {
        let mut ingestion = self.tree.ingestion()?;

        for (key, value) in rows {
            ingestion.write(*key, *value)?;
        }

        let calls = Cell::new(0);

        ingestion.finish_beside_writers(|| {
            calls.set(calls.get() + 1);

            if calls.get() == 2 {
                unpublished();
            }

            Ok::<_, crate::Error>(Held {
                guard: Some(self.lock.try_lock().expect("nobody else writes")),
                then: (calls.get() == 1).then_some(&during),
            })
        })?;

        assert_eq!(2, calls.get(), "writers are held twice");
        Ok(())
    }

    fn snapshot(&self) -> SeqNo {
        self.visible.get()
    }

    /// What a reader sees, which is the same by single reads and by a scan.
    fn state(&self, snapshot: SeqNo) -> State {
        state(&self.tree, snapshot)
    }

    fn value(&self, key: &str) -> String {
        let value = self.tree.get(key, SeqNo::MAX).expect("it can be read");
        value.map_or_else(String::new, |value| {
            String::from_utf8(value.to_vec()).expect("it is text")
        })
    }

    /// Nobody holds what readers and writers take.
    fn assert_nobody_waits(&self, place: &str) {
        let AnyTree::Standard(tree) = &self.tree else {
            unreachable!()
        };

        assert!(
            tree.version_history.try_write().is_ok(),
            "{place}: readers and writers wait for the disk",
        );
        assert!(self.lock.try_lock().is_ok(), "{place}: writers are held");
    }

    /// What recovery rests on: no write is missing in the tables up to their highest number.
    fn assert_tables_are_complete(&self) {
        let AnyTree::Standard(tree) = &self.tree else {
            return;
        };

        let super_version = tree
            .version_history
            .read()
            .expect("not poisoned")
            .latest_version();

        let persisted = tree.get_highest_persisted_seqno();
        let sealed = super_version.sealed_memtables.iter();

        for memtable in sealed.chain([&super_version.active_memtable]) {
            for item in memtable.iter() {
                assert!(
                    Some(item.key.seqno) > persisted,
                    "{item:?} is in a memtable alone, the tables reach up to {persisted:?}",
                );
            }
        }
    }
}

fn state(tree: &AnyTree, snapshot: SeqNo) -> State {
    let scanned = tree
        .iter(snapshot, None)
        .map(|row| row.into_inner().expect("it can be read"))
        .map(|(key, value)| (key.to_vec(), value.to_vec()))
        .collect::<State>();

    for (key, value) in &scanned {
        let read = tree.get(key, snapshot).expect("it can be read");
        assert_eq!(
            Some(&**value),
            read.as_deref(),
            "a read differs from a scan"
        );
    }

    scanned
}

fn texts<const N: usize>(rows: [(&str, &str); N]) -> State {
    rows.into_iter()
        .map(|(key, value)| (key.into(), value.into()))
        .collect()
}

const LOADED: [(&str, &str); 4] = [
    ("a", "loaded"),
    ("b", "loaded"),
    ("c", "loaded"),
    ("d", "loaded"),
];

#[test]
fn key_written_before_during_and_after_a_load_reads_newest() -> crate::Result<()> {
    for blobs in [false, true] {
        let w = Writers::new(blobs)?;

        w.write("a", "before");
        w.write("b", "before");
        w.seal();
        w.write("c", "before");
        w.write("z", "before");

        w.load(
            &LOADED,
            || {
                w.write("b", "during");
                w.delete("d");
                w.assert_tables_are_complete();
            },
            || w.assert_tables_are_complete(),
        )?;

        w.write("c", "after");

        let expected = texts([
            ("a", "loaded"),
            ("b", "during"),
            ("c", "after"),
            ("z", "before"),
        ]);

        assert_eq!(expected, w.state(SeqNo::MAX));
        assert_eq!(expected, w.state(w.snapshot()));
        w.assert_tables_are_complete();

        w.tree.flush_active_memtable(0)?;
        assert_eq!(expected, w.state(SeqNo::MAX));
        w.assert_tables_are_complete();

        w.tree.major_compact(u64::MAX, 0)?;
        assert_eq!(expected, w.state(SeqNo::MAX));

        let (reopened, ..) = open(w.folder.path(), blobs)?;
        assert_eq!(expected, state(&reopened, SeqNo::MAX));
    }

    Ok(())
}

#[test]
fn memtable_sealed_during_a_load_stays_above_its_tables() -> crate::Result<()> {
    let w = Writers::new(false)?;
    w.write("a", "before");

    w.load(
        &LOADED,
        || {
            w.write("a", "during");
            w.seal();
            w.write("b", "during");
        },
        || {
            assert_eq!(1, w.tree.sealed_memtable_count(), "it is sorted by nobody");
            w.assert_tables_are_complete();
        },
    )?;

    assert_eq!("during", w.value("a"));
    assert_eq!("during", w.value("b"));

    let lock = w.tree.get_flush_lock();
    w.tree.flush(&lock, 0)?;
    drop(lock);

    w.assert_tables_are_complete();
    assert_eq!("during", w.value("a"));
    assert_eq!("during", w.value("b"));
    assert_eq!("loaded", w.value("c"));

    Ok(())
}

#[test]
fn snapshot_sees_all_of_a_load_or_nothing() -> crate::Result<()> {
    for blobs in [false, true] {
        let w = Writers::new(blobs)?;
        w.write("a", "before");
        w.write("z", "before");

        let seen = RefCell::new(vec![]);
        let look = || {
            let snapshot = w.snapshot();
            seen.borrow_mut().push((snapshot, w.state(snapshot)));
        };

        look();

        w.load(
            &LOADED,
            || {
                look();
                // So that snapshots are above the number that the tables have.
                w.write("z", "during");
                look();
            },
            look,
        )?;

        let seen = seen.into_inner();
        let before = texts([("a", "before"), ("z", "before")]);
        let during = texts([("a", "before"), ("z", "during")]);
        assert_eq!(
            [&before, &before, &during, &during],
            [&seen[0].1, &seen[1].1, &seen[2].1, &seen[3].1],
        );

        for (snapshot, first_seen) in seen {
            assert_eq!(first_seen, w.state(snapshot), "snapshot {snapshot} moved");
        }

        let mut after = texts(LOADED);
        after.insert("z".into(), "during".into());
        assert_eq!(after, w.state(w.snapshot()), "its end shows a load");
    }

    Ok(())
}

#[test]
fn load_into_an_empty_tree_and_without_a_memtable_shows() -> crate::Result<()> {
    let w = Writers::new(false)?;
    w.load(&LOADED, || {}, || {})?;
    assert_eq!(texts(LOADED), w.state(w.snapshot()));

    w.load(&[("a", "again")], || {}, || {})?;
    assert_eq!("again", w.value("a"));
    assert_eq!(LOADED.len(), w.state(w.snapshot()).len());

    // No rows are no load.
    let tables = w.tree.table_count();
    w.tree.ingestion()?.finish()?;
    assert_eq!(tables, w.tree.table_count());

    Ok(())
}

/// All that changes a tree's tables, on tables of each kind.
fn all_changes(w: &Writers) -> crate::Result<()> {
    w.write("a", "before");
    w.load(&LOADED, || w.write("b", "during"), || {})?;
    w.tree.flush_active_memtable(0)?;

    // Moves to the last level, as their neighbours do not overlap.
    w.load(&[("x", "moved")], || {}, || {})?;
    w.tree
        .compact(Arc::new(crate::compaction::PullDown(0, 6)), w.snapshot())?;

    w.write("c", "after");
    w.tree.flush_active_memtable(w.snapshot())?;
    w.tree.major_compact(u64::MAX, w.snapshot())?;

    w.write("c", "last");
    w.tree.flush_active_memtable(w.snapshot())?;
    w.tree.drop_range("x".."y")?;
    w.tree.retire_versions(w.snapshot())
}

#[test]
fn nobody_waits_for_the_disk() -> crate::Result<()> {
    let w = Rc::new(Writers::new(false)?);
    let places = Rc::new(RefCell::new(BTreeSet::new()));

    let look = {
        let (w, places) = (w.clone(), places.clone());
        move |place| {
            w.assert_nobody_waits(place);
            places.borrow_mut().insert(place);
        }
    };

    at_the_disk::looking(look, || {
        all_changes(&w)?;
        w.tree.clear()
    })?;

    // A check that looks at nothing finds nothing.
    let expected = [
        "a list is stored and not the current one",
        "a list is the current one and not shown",
        "a list is to be stored",
        "a table is to be deleted",
        "files of old lists are to be deleted",
        "tables are to be completed",
    ];
    assert_eq!(
        expected,
        *places.borrow().iter().copied().collect::<Vec<_>>()
    );

    Ok(())
}

#[test]
fn writes_and_sealed_memtables_stay_while_a_list_is_stored() -> crate::Result<()> {
    let w = Rc::new(Writers::new(false)?);
    let count = Rc::new(Cell::new(0));

    let look = {
        let (w, count) = (w.clone(), count.clone());
        move |place: &str| {
            w.assert_nobody_waits(place);

            // Written at each place; every other one is in a memtable that is sealed there.
            count.set(count.get() + 1);
            w.write(&format!("n{:04}", count.get()), place);
            if count.get() % 2 == 0 {
                w.seal();
            }
        }
    };

    at_the_disk::looking(look, || all_changes(&w))?;

    assert!(count.get() > 20, "{}", count.get());
    w.assert_tables_are_complete();

    let state = w.state(SeqNo::MAX);
    for number in 1..=count.get() {
        let key = format!("n{number:04}");
        assert!(state.contains_key(key.as_bytes()), "{key} is lost");
    }
    assert_eq!(state, w.state(w.snapshot()));

    Ok(())
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("it can be made");

    for entry in std::fs::read_dir(from).expect("it can be listed") {
        let entry = entry.expect("it can be listed");
        let target = to.join(entry.file_name());

        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).expect("it can be copied");
        }
    }
}

/// What the journal holds at a crash, and with or without the load of number `loaded`.
fn newest(journal: &[(SeqNo, Vec<u8>, Option<Vec<u8>>)], loaded: Option<SeqNo>) -> State {
    let mut writes = journal.to_vec();

    if let Some(seqno) = loaded {
        writes.extend(
            LOADED
                .iter()
                .map(|(key, value)| (seqno, Vec::from(*key), Some(Vec::from(*value)))),
        );
    }

    writes.sort_by_key(|(seqno, ..)| *seqno);

    let mut state = State::new();
    for (_, key, value) in writes {
        match value {
            Some(value) => state.insert(key, value),
            None => state.remove(&key),
        };
    }
    state
}

#[test]
fn crash_anywhere_in_a_load_loses_no_write_and_tears_no_load() -> crate::Result<()> {
    let w = Rc::new(Writers::new(false)?);
    let images = Rc::new(RefCell::new(vec![]));

    let crash = {
        let (w, images) = (w.clone(), images.clone());
        move |place: &'static str| {
            let image = get_tmp_folder();
            copy(w.folder.path(), image.path());

            let journal = w
                .journal
                .borrow()
                .iter()
                .map(|write| (write.seqno, write.key.clone(), write.value.clone()))
                .collect::<Vec<_>>();

            images.borrow_mut().push((place, image, journal));
        }
    };

    w.write("a", "before");
    w.seal();
    w.write("b", "before");
    w.delete("q");

    let loaded = Cell::new(0);

    at_the_disk::looking(
        {
            let (w, mut crash) = (w.clone(), crash.clone());
            let count = Cell::new(0);
            move |place| {
                w.assert_nobody_waits(place);

                // So that there is something to lose, in each memtable that there may be.
                count.set(count.get() + 1);
                w.write("a", &format!("at {}", count.get()));
                w.write(&format!("n{}", count.get()), place);
                if count.get() == 3 {
                    w.seal();
                }
                crash(place);
            }
        },
        || {
            w.load(
                &LOADED,
                || {
                    loaded.set(w.seqno.get() - 1);
                    w.write("b", "during");
                    crash.clone()("the memtable is sealed");
                },
                || crash.clone()("it is not published"),
            )
        },
    )?;

    crash.clone()("the end");

    let mut with_load = 0;
    let images = images.take();

    for (place, image, journal) in &images {
        let (tree, ..) = open(image.path(), false)?;
        let persisted = tree.get_highest_persisted_seqno();

        // As fjall recovers.
        for (seqno, key, value) in journal {
            if persisted.is_some_and(|persisted| *seqno <= persisted) {
                continue;
            }

            let _sizes = match value {
                Some(value) => tree.insert(key.as_slice(), value.as_slice(), *seqno),
                None => tree.remove(key.as_slice(), *seqno),
            };
        }

        let recovered = state(&tree, SeqNo::MAX);
        let (without, with) = (newest(journal, None), newest(journal, Some(loaded.get())));

        if recovered == with {
            with_load += 1;
        } else {
            assert_eq!(without, recovered, "after a crash where {place}");
            assert_eq!(0, with_load, "a load was undone where {place}");
        }
    }

    // The last ones: its list is the current one, it is not published, the end.
    assert_eq!((3, 12), (with_load, images.len()));

    Ok(())
}

#[test]
fn loads_beside_writers_flushes_and_compactions() -> crate::Result<()> {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

    const KEYS: usize = 16;
    const LOADS: usize = 30;
    const WRITES_MAX: usize = 3_000;

    let folder = get_tmp_folder();
    let (tree, seqno, visible) = open(folder.path(), false)?;
    let lock = Mutex::new(());
    let newest = Mutex::new(BTreeMap::<String, String>::new());
    let is_over = AtomicBool::new(false);
    let (writes, reads) = (AtomicUsize::new(0), AtomicUsize::new(0));

    let write = |number: usize| {
        let _held = lock.lock().expect("not poisoned");
        let this = seqno.next();

        // Two keys at once, which no reader may see apart.
        for half in ["left", "right"] {
            let (key, value) = (format!("{half}{:03}", number % KEYS), number.to_string());
            let _sizes = tree.insert(key.as_str(), value.as_str(), this);
            newest.lock().expect("not poisoned").insert(key, value);
        }

        visible.fetch_max(this + 1);
        writes.fetch_add(1, SeqCst);
    };

    let load_all = |tree: &AnyTree| -> crate::Result<()> {
        for done in 0..LOADS {
            let value = done.to_string();
            let mut ingestion = tree.ingestion()?;

            for number in 0..KEYS {
                ingestion.write(format!("load{number:03}").as_str(), value.as_str())?;
            }

            ingestion.finish_beside_writers(|| {
                Ok::<_, crate::Error>(lock.lock().expect("not poisoned"))
            })?;

            let loaded = tree.get("load000", SeqNo::MAX)?;
            assert_eq!(Some(value.as_bytes()), loaded.as_deref());
        }
        Ok(())
    };

    std::thread::scope(|scope| -> crate::Result<()> {
        scope.spawn(|| {
            for number in 0..WRITES_MAX {
                if is_over.load(SeqCst) {
                    return;
                }
                write(number);

                if number % 50 == 49 {
                    let _held = lock.lock().expect("not poisoned");
                    tree.rotate_memtable();
                }
            }
        });

        scope.spawn(|| {
            while !is_over.load(SeqCst) {
                {
                    let flush_lock = tree.get_flush_lock();
                    tree.flush(&flush_lock, 0).expect("it can be flushed");
                }

                let strategy = Arc::new(crate::compaction::Leveled::default());
                tree.compact(strategy, 0).expect("it can be compacted");
            }
        });

        scope.spawn(|| {
            loop {
                let snapshot = {
                    // As fjall's committers open them: between two writes.
                    let _held = lock.lock().expect("not poisoned");
                    visible.get()
                };
                let first = state(&tree, snapshot);

                for number in 0..KEYS {
                    let half = |half| first.get(format!("{half}{number:03}").as_bytes());
                    assert_eq!(half("left"), half("right"), "a write is torn");
                }

                let loads = first.iter().filter(|(key, _)| key.starts_with(b"load"));
                let loads = loads.map(|(_, value)| value).collect::<Vec<_>>();
                assert!(
                    loads.is_empty() || loads.len() == KEYS,
                    "{} rows of a load",
                    loads.len(),
                );
                assert!(
                    loads.iter().all(|load| load == &loads[0]),
                    "a load is torn: {loads:?}",
                );

                assert!(first == state(&tree, snapshot), "a snapshot moved");
                reads.fetch_add(1, SeqCst);

                if is_over.load(SeqCst) {
                    return;
                }
            }
        });

        // Its end ends the other threads, also where one of them fails.
        let last = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| load_all(&tree)));
        is_over.store(true, SeqCst);

        last.expect("loads do not panic")?;

        let last = (LOADS - 1).to_string();
        let mut expected = newest.lock().expect("not poisoned");
        for number in 0..KEYS {
            expected.insert(format!("load{number:03}"), last.clone());
        }
        Ok(())
    })?;

    assert!(writes.load(SeqCst) >= 100 && reads.load(SeqCst) > 0);

    let expected = newest
        .into_inner()
        .expect("not poisoned")
        .into_iter()
        .map(|(key, value)| (key.into_bytes(), value.into_bytes()))
        .collect::<State>();

    assert_eq!(expected, state(&tree, SeqNo::MAX));
    assert_eq!(expected, state(&tree, visible.get()));

    tree.flush_active_memtable(0)?;
    assert_eq!(expected, state(&tree, SeqNo::MAX));

    tree.major_compact(u64::MAX, visible.get())?;
    assert_eq!(expected, state(&tree, SeqNo::MAX));

    drop(tree);
    let (reopened, ..) = open(folder.path(), false)?;
    assert_eq!(expected, state(&reopened, SeqNo::MAX));

    Ok(())
}

/// Numbers of tables by level.
fn levels(w: &Writers) -> Vec<usize> {
    let version = w.tree.current_version();
    version.iter_levels().map(|level| level.table_count()).collect()
}

#[test]
fn loaded_tables_lie_in_the_last_level_where_nobody_has_their_keys() -> crate::Result<()> {
    let w = Writers::new(false)?;

    w.write("a", "1");
    w.write("c", "1");
    w.load(&[("d", "loaded"), ("f", "loaded")], || w.write("e", "beside"), || {})?;
    assert_eq!([1, 0, 0, 0, 0, 0, 1], *levels(&w), "behind what was written");

    // Others have one of its keys, or might have.
    w.load(&[("a", "loaded"), ("b", "loaded")], || {}, || {})?;
    w.load(&[("ee", "between")], || {}, || {})?;
    let sorted_meanwhile = 1;
    assert_eq!([3 + sorted_meanwhile, 0, 0, 0, 0, 0, 1], *levels(&w));

    for (key, value) in [("a", "loaded"), ("b", "loaded"), ("c", "1"), ("d", "loaded")] {
        assert_eq!(value, w.value(key), "{key}");
    }
    for (key, value) in [("e", "beside"), ("ee", "between"), ("f", "loaded")] {
        assert_eq!(value, w.value(key), "{key}");
    }
    w.assert_tables_are_complete();

    // What is loaded between the tables of the last level becomes a part of its run.
    w.load(&[("x", "1"), ("z", "1")], || {}, || {})?;
    w.load(&[("g", "2"), ("h", "2")], || {}, || {})?;
    assert_eq!(3, levels(&w)[6]);
    let version = w.tree.current_version();
    assert_eq!(1, version.level(6).expect("it is there").run_count());
    assert_eq!(
        w.state(w.snapshot()).into_keys().collect::<Vec<_>>(),
        ["a", "b", "c", "d", "e", "ee", "f", "g", "h", "x", "z"].map(Vec::from),
    );

    let (tree, ..) = open(w.folder.path(), false)?;
    assert_eq!("2", String::from_utf8_lossy(&tree.get("g", SeqNo::MAX)?.expect("there")));
    Ok(())
}

#[test]
fn loaded_tables_keep_away_from_what_a_merge_may_write() -> crate::Result<()> {
    let w = Writers::new(false)?;

    // Two tables, and one place between them for what a merge makes of both.
    w.load(&[("a", "1"), ("c", "1")], || {}, || {})?;
    w.load(&[("x", "1"), ("z", "1")], || {}, || {})?;
    assert_eq!(2, levels(&w)[6]);

    let AnyTree::Standard(tree) = &w.tree else { unreachable!() };
    let merged: Vec<_> = w.tree.current_version().iter_tables().map(|table| table.id()).collect();
    tree.lock_table_list().hidden_set_mut().hide(merged.iter().copied());
    w.load(&[("m", "2"), ("n", "2")], || {}, || {})?;
    assert_eq!([1, 2], [levels(&w)[0], levels(&w)[6]]);
    w.load(&[("zz", "2")], || {}, || {})?;
    assert_eq!([1, 3], [levels(&w)[0], levels(&w)[6]], "behind the merge is room");

    tree.lock_table_list().hidden_set_mut().show(merged);
    w.load(&[("o", "2")], || {}, || {})?;
    assert_eq!([1, 4], [levels(&w)[0], levels(&w)[6]]);
    Ok(())
}
