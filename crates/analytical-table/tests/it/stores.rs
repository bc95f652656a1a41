//! Stores: whole files, one winner, nothing half written.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use shardlake_analytical_table::store::{
    Fault, FaultyStore, LocalStore, MemoryStore, StoreErrorKind, TableStore,
};

use crate::object_store::in_objects;

fn on_each(test: impl Fn(&dyn TableStore)) {
    let folder = tempfile::tempdir().unwrap();
    test(&LocalStore::open(&folder.path().join("a/b")).unwrap());
    test(&MemoryStore::new());
    test(&in_objects().below("some~20folder"));
}

fn paths(store: &dyn TableStore, folder: &str) -> Vec<String> {
    store.list(folder).unwrap().into_iter().map(|file| file.path).collect()
}

#[test]
fn files_are_written_read_and_deleted() {
    on_each(|store| {
        assert_eq!(paths(store, ""), Vec::<String>::new());
        assert_eq!(store.read("x/y/z").unwrap_err().kind, StoreErrorKind::NotFound);
        store.write("x/y/z", b"0123456789").unwrap();
        store.write("x/w", b"").unwrap();
        store.write("x/y/z", b"abcdefghij").unwrap();
        assert_eq!(&store.read("x/y/z").unwrap()[..], b"abcdefghij");
        assert_eq!(&store.read_range("x/y/z", 3, 4).unwrap()[..], b"defg");
        assert_eq!(store.read_range("x/y/z", 8, 3).unwrap_err().kind, StoreErrorKind::Failed);
        assert_eq!((store.size("x/y/z").unwrap(), store.size("x/w").unwrap()), (10, 0));
        assert_eq!(paths(store, "x"), ["x/w", "x/y/z"]);
        assert_eq!(paths(store, "x/y"), ["x/y/z"]);
        store.delete("x/y/z").unwrap();
        store.delete("x/y/z").unwrap();
        assert_eq!(paths(store, ""), ["x/w"]);
        assert!(store.size("x/y/z").unwrap_err().is_missing());
    });
}

#[test]
fn a_file_appears_when_it_is_finished() {
    on_each(|store| {
        let mut writer = store.writer("f").unwrap();
        writer.write_all(b"one").unwrap();
        assert!(store.read("f").unwrap_err().is_missing());
        writer.write_all(b"two").unwrap();
        writer.finish().unwrap();
        assert_eq!(&store.read("f").unwrap()[..], b"onetwo");
        let mut lost = store.writer("g").unwrap();
        lost.write_all(b"lost").unwrap();
        drop(lost);
        assert_eq!(paths(store, ""), ["f"], "nothing stays of a file that was not finished");
    });
}

#[test]
fn one_creator_wins() {
    on_each(|store| {
        let winners = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for number in 0..8u8 {
                let winners = &winners;
                scope.spawn(move || match store.create_if_absent("log/1.json", &[number]) {
                    Ok(()) => {
                        assert_eq!(winners.swap(1 + usize::from(number), Ordering::SeqCst), 0);
                    }
                    Err(error) => assert_eq!(error.kind, StoreErrorKind::Exists),
                });
            }
        });
        let winner = winners.load(Ordering::SeqCst) as u8 - 1;
        assert_eq!(store.read("log/1.json").unwrap()[..], [winner]);
        assert_eq!(paths(store, ""), ["log/1.json"], "no temporary file stays");
    });
}

#[test]
#[should_panic(expected = "a path below the store's folder")]
fn paths_do_not_leave_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    let store = LocalStore::open(folder.path()).unwrap();
    let _ = store.read("../secret");
}

#[test]
fn faults_hit_one_operation_and_cuts_all() {
    let memory = MemoryStore::new();
    let store = FaultyStore::new(Arc::new(memory.clone()));
    store.write("a", b"1").unwrap();
    store.faults().fail_at(1, Fault::FailAfter);
    store.write("b", b"1").unwrap();
    assert!(store.write("c", b"1").is_err());
    assert_eq!(&store.read("c").unwrap()[..], b"1");
    store.faults().fail_at(1, Fault::CutBefore);
    store.delete("a").unwrap();
    assert!(store.write("d", b"1").is_err());
    assert!(store.read("b").is_err(), "the power is off");
    assert!(store.faults().restart());
    assert_eq!(paths(&store, ""), ["b", "c"]);
    memory.cut_power();
    assert_eq!(paths(&store, ""), ["a", "b", "c"], "a deletion that was not synced is undone");
    assert_eq!(store.faults().operations(), 5);
}
