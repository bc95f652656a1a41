//! Rounds: rows appear and leave, and the table opens as it was.

use std::sync::Arc;

use serde_json::json;
use shardlake_analytical_table::error::TableError;
use shardlake_analytical_table::log::{Place, Reason, Span};
use shardlake_analytical_table::store::{LocalStore, MemoryStore, TableStore};
use shardlake_analytical_table::table::{Commit, Ended, Location, Sizes, Table, TableOptions};

use crate::fixture::{self, Change, Fixture, Item, options};

fn memory() -> Fixture {
    on(Arc::new(MemoryStore::new()), options())
}

fn on(store: Arc<dyn TableStore>, options: TableOptions) -> Fixture {
    let folders = fixture::folders(store, Arc::new(MemoryStore::new()), 1);
    Fixture::create(folders, Location::Serving, 1, options)
}

fn puts(range: std::ops::Range<u64>, note: &str) -> Vec<Change> {
    let document = |ordinal: u64| json!({"id": format!("i{ordinal}"), "pk": format!("k{}", ordinal % 7), "n": ordinal, "note": note});
    range.map(|ordinal| Change::Put(ordinal, document(ordinal))).collect()
}

#[test]
fn rows_are_added_replaced_and_deleted() {
    let mut table = memory();
    table.round(&puts(0..100, "first")).unwrap();
    table.check();
    let mut changes = puts(50..120, "second");
    changes.extend([Change::Delete(3), Change::Delete(60), Change::Delete(119)]);
    assert_eq!(table.round(&changes).unwrap(), 2);
    table.check();
    table.reopen();
    table.check();
    let status = table.table.status();
    assert_eq!((status.version, status.rows, status.deleted_rows), (2, 117, 51));
    assert_eq!(status.places[0].lsn, table.lsn);
}

#[test]
fn a_local_table_is_private_and_opens_again() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("shop/customer");
    let mut table = on(Arc::new(LocalStore::open(&root).unwrap()), options());
    table.round(&puts(0..10, "first")).unwrap();
    table.round(&puts(5..15, "second")).unwrap();
    table.reopen();
    table.check();
    let log = root.join("_delta_log");
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&root), mode(&log)), (0o700, 0o700));
    let mut names: Vec<_> =
        std::fs::read_dir(&log).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, [0, 1, 2].map(|number| format!("{number:020}.json").into()) as [std::ffi::OsString; 3]);
    names.iter().for_each(|name| assert_eq!(mode(&log.join(name)), 0o600));
}

#[test]
fn checkpoints_replace_older_commits() {
    let store = MemoryStore::new();
    let mut table = on(Arc::new(store.clone()), TableOptions { checkpoint_every: 4, ..options() });
    for round in 0..10u64 {
        table.round(&puts(round * 3..round * 3 + 9, &format!("round {round}"))).unwrap();
    }
    let whole = table.table.version().clone();
    table.reopen();
    assert!(*table.table.version() == whole, "the log has the state that was in memory");
    for number in 0..8 {
        store.delete(&format!("_delta_log/{number:020}.json")).unwrap();
    }
    table.reopen();
    assert!(*table.table.version() == whole, "the checkpoint has the state of the commits");
    table.check();
    assert_eq!(table.table.version_at(7), Err(TableError::VersionGone { version: 7 }));
    assert_eq!(table.table.version_at(9).unwrap().number, 9);
    let history: Vec<u64> =
        table.table.history(table.seconds * 1_000).unwrap().into_iter().map(|(number, _)| number).collect();
    assert_eq!(history, [8, 9, 10]);
}

#[test]
fn a_version_without_a_row_is_a_broken_invariant() {
    let mut table = memory();
    table.round(&puts(0..10, "first")).unwrap();
    let former = table.items[&4].clone();
    table.round(&[Change::Delete(4)]).unwrap();
    table.items.insert(4, former.clone());
    let refused = table.round(&[Change::Delete(4)]);
    assert_eq!(refused, Err(TableError::RowNotFound { ordinal: 4, lsn: former.lsn }));
    table.items.remove(&4);
    table.reopen();
    table.check();
}

#[test]
fn one_of_two_writers_loses_for_good() {
    let mut table = memory();
    table.round(&puts(0..10, "first")).unwrap();
    let mut other = Fixture {
        table: open(&table),
        items: table.items.clone(),
        folders: table.folders.clone(),
        options: table.options.clone(),
        ..memory()
    };
    (other.lsn, other.seconds) = (table.lsn, table.seconds);
    other.round(&puts(10..20, "other")).unwrap();
    let lost = TableError::AnotherWriter { version: 2 };
    assert_eq!(table.round(&puts(20..30, "late")), Err(lost.clone()));
    assert_eq!(table.round(&puts(20..30, "late")), Err(lost));
    other.check();
}

fn open(table: &Fixture) -> Table {
    Table::open(&table.folders, table.location, table.options.clone()).unwrap().unwrap()
}

#[test]
fn a_version_of_another_program_is_noticed() {
    let store = MemoryStore::new();
    let mut table = on(Arc::new(store.clone()), options());
    table.round(&puts(0..10, "first")).unwrap();
    let foreign = br#"{"commitInfo":{"timestamp":1,"operation":"WRITE"}}"#;
    store.overwrite("_delta_log/00000000000000000002.json", foreign);
    let another = TableError::AnotherWriter { version: 2 };
    assert_eq!(table.round(&puts(10..20, "second")), Err(another.clone()));
    let opened = Table::open(&table.folders, table.location, table.options.clone());
    assert_eq!(opened.unwrap_err(), another);
}

#[test]
fn key_files_are_rebuilt() {
    let keys = MemoryStore::new();
    let folders = fixture::folders(Arc::new(MemoryStore::new()), Arc::new(keys.clone()), 1);
    let mut table = Fixture::create(folders, Location::Serving, 1, options());
    for round in 0..4 {
        table.round(&puts(round * 10..round * 10 + 10, "first")).unwrap();
    }
    let files = keys.list("").unwrap();
    assert_eq!(files.len(), 4);
    keys.delete(&files[0].path).unwrap();
    keys.overwrite(&files[1].path, b"");
    let mut bytes = keys.read(&files[2].path).unwrap().to_vec();
    bytes[5] ^= 1;
    keys.overwrite(&files[2].path, &bytes);
    table.reopen();
    table.round(&puts(0..40, "second")).unwrap();
    table.check();
}

#[test]
fn files_end_at_their_sizes_and_hold_one_span() {
    let sizes = Sizes { file_rows: 5_000, row_group_rows: 1_000, ..Sizes::default() };
    let mut table = on(Arc::new(MemoryStore::new()), TableOptions { sizes, ..options() });
    table.round(&puts(0..12_000, "first")).unwrap();
    let rows: Vec<u64> = table.table.version().files.values().map(|file| file.rows()).collect();
    assert_eq!((rows.len(), rows.iter().sum::<u64>()), (2, 12_000));
    table.round(&(0..6_000).step_by(2).map(Change::Delete).collect::<Vec<_>>()).unwrap();
    table.check();
}

/// Rows of a partition that was divided are found from its successors, and rows of a former layout
/// from everywhere.
#[test]
fn rows_are_found_across_splits_and_layouts() {
    let mut table = memory();
    table.round(&puts(0..20, "whole")).unwrap();
    let mut lsn = table.lsn;
    let halves = [("", "80", 0), ("80", "FF", 1)];
    table.table.begin(Span::new("", "80"), 0).unwrap();
    for (min, max, remainder) in halves {
        table.table.switch(Span::new(min, max)).unwrap();
        let mut items = Vec::new();
        for ordinal in (0..20).filter(|ordinal| ordinal % 2 == remainder) {
            lsn += 1;
            table.table.end_version(Ended { ordinal, lsn: table.items[&ordinal].lsn });
            let item = Item { lsn, seconds: table.seconds, document: json!({"id": "x", "half": min}) };
            table.items.insert(ordinal, item.clone());
            items.push((ordinal, item));
        }
        fixture::append(&mut table.table, &items).unwrap();
    }
    table.table.prepare(&|_| false).unwrap();
    let places = halves.map(|(min, max, _)| Place { span: Span::new(min, max), lsn, read_at: 1 });
    let commit = Commit { places: places.to_vec(), ..table.commit_at(lsn) };
    table.table.commit(&commit, Reason::Round).unwrap();
    table.check();
    let spans: Vec<Span> = table.table.version().files.values().map(|file| file.span.clone()).collect();
    assert_eq!(spans.len(), 2, "a file for each half: {spans:?}");
    assert!(spans.contains(&Span::new("", "80")) && spans.contains(&Span::new("80", "FF")));
    table.reopen();
    assert_eq!(table.table.places(), places);

    // A version of one half is not looked for in the other.
    table.table.begin(Span::new("80", "FF"), 0).unwrap();
    let ended = Ended { ordinal: 2, lsn: table.items[&2].lsn };
    table.table.end_version(ended);
    assert!(matches!(table.table.prepare(&|_| false), Err(TableError::RowNotFound { ordinal: 2, .. })));
    table.table.begin(Span { layout: 1, ..Span::new("80", "FF") }, 0).unwrap();
    table.table.end_version(ended);
    table.table.prepare(&|_| false).unwrap();
    table.table.commit(&commit, Reason::Round).unwrap();
    table.items.remove(&2);
    table.check();
}

/// A round may be prepared, lost, and done again; its first files are no part of the table.
#[test]
fn an_abandoned_round_leaves_no_row() {
    let mut table = memory();
    table.round(&puts(0..10, "first")).unwrap();
    table.table.begin(fixture::whole(), 0).unwrap();
    let item = Item { lsn: 99, seconds: 1, document: json!({"id": "x", "new column": 1}) };
    fixture::append(&mut table.table, &[(77, item)]).unwrap();
    table.table.end_version(Ended { ordinal: 1, lsn: table.items[&1].lsn });
    table.table.prepare(&|_| false).unwrap();
    table.table.abandon();
    table.check();
    assert!(!table.table.schema().delta().contains("new"), "the columns are those of the last commit");
    table.round(&puts(5..15, "second")).unwrap();
    table.check();
}

#[test]
fn times_of_versions_never_decrease() {
    let mut table = memory();
    table.round(&puts(0..2, "first")).unwrap();
    let time = table.table.version().time;
    let earlier = Commit { time: time - 5_000, ..table.commit_at(table.lsn) };
    table.table.commit_state(&earlier).unwrap();
    assert_eq!(table.table.version().time, time);
}

#[test]
fn another_retention_is_in_the_next_commit() {
    let mut table = memory();
    table.options.retention_hours = 48;
    table.reopen();
    assert_eq!(table.table.version().metadata.retention_hours, 24);
    table.round(&puts(0..2, "first")).unwrap();
    table.reopen();
    assert_eq!(table.table.version().metadata.retention_hours, 48);
}

#[test]
#[should_panic(expected = "the position of a span never goes back")]
fn a_position_does_not_go_back() {
    let mut table = memory();
    table.round(&puts(0..2, "first")).unwrap();
    table.lsn = 0;
    table.items.clear();
    let _ = table.round(&puts(2..3, "second"));
}
