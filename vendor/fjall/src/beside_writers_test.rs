//! Loads beside writers, and what is there when the database is opened again without an orderly end.

use crate::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use lsm_tree::AbstractTree;
use std::{
    cell::Cell,
    collections::BTreeMap,
    path::Path,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
};

const KEYS: usize = 32;

fn open(path: &Path) -> crate::Result<(Database, Keyspace, Keyspace)> {
    let db = Database::builder(path).open()?;
    let one = db.keyspace("one", KeyspaceCreateOptions::default)?;
    let other = db.keyspace("other", KeyspaceCreateOptions::default)?;
    Ok((db, one, other))
}

fn rows(keyspace: &Keyspace) -> BTreeMap<String, String> {
    let text = |slice: crate::Slice| String::from_utf8(slice.to_vec()).expect("it is text");

    keyspace
        .iter()
        .map(|row| row.into_inner().expect("it can be read"))
        .map(|(key, value)| (text(key), text(value)))
        .collect()
}

fn load(keyspace: &Keyspace, value: &str) -> crate::Result<()> {
    let mut ingestion = keyspace.start_ingestion()?;

    for number in 0..KEYS {
        ingestion.write(format!("load{number:03}").as_str(), value)?;
    }

    ingestion.finish()
}

#[test]
fn writers_beside_loads_lose_nothing_when_opened_again() -> crate::Result<()> {
    const LOADS: usize = 10;

    let folder = tempfile::tempdir()?;
    let mut expected = BTreeMap::new();

    for round in 0..3 {
        let (db, one, other) = open(folder.path())?;

        assert_eq!(expected, rows(&one), "at the start of round {round}");
        let is_over = AtomicBool::new(false);
        let writes = AtomicUsize::new(0);

        let written = std::thread::scope(|scope| -> crate::Result<_> {
            let writer = scope.spawn(|| -> crate::Result<_> {
                let mut written = BTreeMap::new();

                for number in 0.. {
                    let (key, value) = (
                        format!("key{:03}", number % KEYS),
                        format!("{round}-{number}"),
                    );

                    let mut batch = db.batch();
                    batch.insert(&one, key.as_str(), value.as_str());
                    batch.insert(&other, key.as_str(), value.as_str());
                    batch.commit()?;

                    written.insert(key, value);
                    writes.fetch_add(1, SeqCst);

                    if number % 40 == 39 {
                        one.rotate_memtable()?;
                    }
                    if is_over.load(SeqCst) {
                        break;
                    }
                }

                Ok(written)
            });

            // Its end ends the writer, also where it fails.
            let loaded = (0..LOADS).try_for_each(|number| load(&one, &format!("{round}-{number}")));
            is_over.store(true, SeqCst);
            loaded?;

            writer.join().expect("the writer does not panic")
        })?;

        expected.extend(written);
        for number in 0..KEYS {
            expected.insert(format!("load{number:03}"), format!("{round}-{}", LOADS - 1));
        }

        assert!(writes.load(SeqCst) > LOADS);
        assert_eq!(expected, rows(&one), "at the end of round {round}");
    }

    let (_db, one, other) = open(folder.path())?;
    assert_eq!(expected, rows(&one));

    // A batch is there in both keyspaces.
    expected.retain(|key, _| key.starts_with("key"));
    assert_eq!(expected, rows(&other));

    Ok(())
}

fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;

    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());

        if entry.path().is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), target)?;
        }
    }

    Ok(())
}

#[test]
fn crash_while_writers_are_held_is_recovered_from_the_journal() -> crate::Result<()> {
    let folder = tempfile::tempdir()?;
    let images = tempfile::tempdir()?;
    let (db, one, _other) = open(folder.path())?;

    for number in 0..KEYS {
        one.insert(format!("load{number:03}"), "before")?;
        one.insert(format!("key{number:03}"), "before")?;
    }

    let mut ingestion = one.tree.ingestion()?;
    for number in 0..KEYS {
        ingestion.write(format!("load{number:03}").as_str(), "loaded")?;
    }

    let calls = Cell::new(0);

    ingestion.finish_beside_writers(|| -> crate::Result<_> {
        calls.set(calls.get() + 1);

        if calls.get() == 2 {
            // Listed, and not published: what was written since is in the journal and a memtable alone.
            one.insert("load000", "during")?;
            one.insert("key000", "during")?;
        }

        let held = db.supervisor.journal.get_writer()?;
        copy(folder.path(), &images.path().join(calls.get().to_string()))?;
        Ok(held)
    })?;

    let expected = |loaded: &str, of_first: Option<&str>| {
        let mut expected = BTreeMap::new();
        for number in 0..KEYS {
            let first = of_first.filter(|_| number == 0);
            expected.insert(
                format!("load{number:03}"),
                first.unwrap_or(loaded).to_owned(),
            );
            expected.insert(
                format!("key{number:03}"),
                first.unwrap_or("before").to_owned(),
            );
        }
        expected
    };

    assert_eq!(2, calls.get());
    assert_eq!(expected("loaded", Some("during")), rows(&one));

    for (image, expected) in [
        ("1", expected("before", None)),
        ("2", expected("loaded", Some("during"))),
    ] {
        let path = images.path().join(image);

        for _ in 0..2 {
            let (db, one, _other) = open(&path)?;
            assert_eq!(expected, rows(&one), "image {image}");

            // The next time, there is less in the journal.
            one.rotate_memtable_and_wait()?;
            db.persist(PersistMode::SyncAll)?;
            assert_eq!(expected, rows(&one), "image {image}, sorted");
        }
    }

    Ok(())
}

#[test]
fn load_that_fails_leaves_a_database_that_goes_on() -> crate::Result<()> {
    let folder = tempfile::tempdir()?;
    let (_db, one, _other) = open(folder.path())?;
    one.insert("key000", "before")?;

    let mut ingestion = one.start_ingestion()?;
    ingestion.write("load000", "loaded")?;

    // The one table that there is.
    for table in std::fs::read_dir(one.path().join("tables"))? {
        std::fs::remove_file(table?.path())?;
    }

    assert!(ingestion.finish().is_err(), "its table is gone");

    one.insert("key001", "after")?;
    one.rotate_memtable_and_wait()?;
    load(&one, "again")?;

    let rows = rows(&one);
    assert_eq!(KEYS + 2, rows.len());
    assert_eq!("again", rows["load000"]);
    assert_eq!("after", rows["key001"]);

    Ok(())
}

/// A worker sorts a memtable only after what it holds is synced in the journal, and lets go of old super versions.
#[test]
fn worker_retires_super_versions_when_it_sorts() -> crate::Result<()> {
    let folder = tempfile::tempdir()?;
    let (_db, one, _other) = open(folder.path())?;

    for round in 0..10 {
        one.insert("key000", round.to_string())?;
        one.rotate_memtable_and_wait()?;
        load(&one, &round.to_string())?;
    }

    one.insert("key000", "last")?;
    one.rotate_memtable_and_wait()?;

    assert!(
        one.tree.version_free_list_len() < 10,
        "{} super versions are kept",
        one.tree.version_free_list_len(),
    );

    Ok(())
}

#[test]
fn a_journal_that_was_ended_goes_when_what_it_holds_is_in_tables() -> crate::Result<()> {
    let folder = tempfile::tempdir()?;
    let (db, one, _) = open(folder.path())?;

    one.insert("a", "before")?;
    let ended = db.begin_journal()?;
    db.retire_journals()?;
    assert!(ended.exists(), "a memtable has what it holds");

    one.insert("b", "after")?;
    one.rotate_memtable_and_wait()?;
    db.retire_journals()?;
    assert!(!ended.exists());

    // One without content, behind which nothing comes.
    one.rotate_memtable_and_wait()?;
    let ended = db.begin_journal()?;
    db.retire_journals()?;
    assert!(!ended.exists());
    drop((db, one));

    let (_db, one, _) = open(folder.path())?;
    let expected = [("a", "before"), ("b", "after")].map(|(key, value)| (key.into(), value.into()));
    assert_eq!(BTreeMap::from(expected), rows(&one));
    Ok(())
}
