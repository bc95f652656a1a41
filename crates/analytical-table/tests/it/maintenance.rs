//! Widening, retention, compaction, vacuum and generations.

use std::sync::Arc;

use serde_json::{Value, json};
use shardlake_analytical_table::error::TableError;
use shardlake_analytical_table::log::{Reason, Span};
use shardlake_analytical_table::store::{MemoryStore, TableStore};
use shardlake_analytical_table::table::{CompactionKind, Location, Sizes, Table, TableOptions};

use crate::fixture::{self, Change, Fixture, options, rows_of, whole};

struct Tested {
    store: MemoryStore,
    table: Fixture,
}

fn tested(options: TableOptions) -> Tested {
    let store = MemoryStore::new();
    store.set_time(fixture::START * 1_000);
    let keys = MemoryStore::new();
    keys.set_time(fixture::START * 1_000);
    let folders = fixture::folders(Arc::new(store.clone()), Arc::new(keys), 1);
    Tested { store, table: Fixture::create(folders, Location::Serving, 1, options) }
}

fn put(ordinal: u64, n: Value) -> Change {
    let document =
        json!({"id": format!("i{ordinal}"), "pk": format!("k{}", ordinal % 5), "n": n, "l": [{"q": n}]});
    Change::Put(ordinal, document)
}

fn longs(range: std::ops::Range<u64>) -> Vec<Change> {
    range.map(|ordinal| put(ordinal, json!(ordinal))).collect()
}

#[test]
fn a_long_column_becomes_double_with_its_files() {
    let Tested { mut table, .. } = tested(options());
    table.round(&longs(0..20)).unwrap();
    table.round(&longs(20..30)).unwrap();
    table.round(&[Change::Delete(3), Change::Delete(25)]).unwrap();
    let before = table.table.version().clone();
    assert_eq!(table.table.status().pending_widenings, Vec::<String>::new());
    table.round(&[put(30, json!(0.5)), Change::Delete(4)]).unwrap();
    table.check();
    assert!(table.table.version().metadata.schema.contains("double"));
    let kept = before.files.keys().filter(|path| table.table.version().files.contains_key(*path));
    assert_eq!(kept.count(), 0, "each file has the type of the table");
    table.reopen();
    table.check();
    table.round(&[put(2, json!(1.25)), Change::Delete(30)]).unwrap();
    table.check();
    let earlier = table.table.version_at(before.number).unwrap();
    assert_eq!(rows_of(table.table.read_version(&earlier)).len(), 28);
}

#[test]
fn a_column_widens_within_one_round() {
    let sizes = Sizes { file_rows: 4_096, ..Sizes::default() };
    let Tested { mut table, .. } = tested(TableOptions { sizes, ..options() });
    let mut changes = longs(0..10_000);
    changes.push(put(10_000, json!(0.5)));
    table.round(&changes).unwrap();
    table.check();
}

#[test]
fn integers_beyond_doubles_keep_their_column() {
    let Tested { mut table, .. } = tested(options());
    let large = 9_007_199_254_740_993_i64;
    table.round(&[put(0, json!(large))]).unwrap();
    table.round(&[put(1, json!(0.5))]).unwrap();
    let rows = rows_of(table.table.read());
    assert_eq!(rows[&fixture::rid(0)]["n"], json!(large));
    let rest: Value = serde_json::from_str(rows[&fixture::rid(1)]["_rest"].as_str().unwrap()).unwrap();
    assert_eq!(rest, json!({"/n": 0.5, "/l/0/q": 0.5}));
}

#[test]
fn large_files_are_widened_in_the_background() {
    let sizes = Sizes { widen_bytes: 10, ..Sizes::default() };
    let Tested { mut table, .. } = tested(TableOptions { sizes, ..options() });
    table.round(&longs(0..20)).unwrap();
    table.round(&longs(20..25)).unwrap();
    table.round(&[put(25, json!(0.5)), Change::Delete(3)]).unwrap();
    assert_eq!(table.table.status().pending_widenings, ["l.element.q", "n"]);
    assert!(rows_of(table.table.read())[&fixture::rid(25)]["_rest"].is_string());
    let job = table.table.plan_widening(0).unwrap().unwrap();
    let widened = job.run().unwrap();
    // A round meanwhile deletes a row of a rewritten file, and adds none that has the column.
    table.round(&[Change::Delete(4), Change::Put(30, json!({"id": "x", "pk": "k"}))]).unwrap();
    table.table.commit_widening(&widened, table.seconds * 1_000).unwrap().unwrap();
    table.check();
    assert_eq!(table.table.version().info.reason, Reason::Widening);
    assert_eq!(table.table.status().pending_widenings, Vec::<String>::new());
    table.reopen();
    table.round(&[put(25, json!(2)), put(26, json!(0.25)), Change::Delete(20)]).unwrap();
    table.check();
}

#[test]
fn a_background_widening_is_planned_anew_or_refused() {
    let sizes = Sizes { widen_bytes: 10, ..Sizes::default() };
    let Tested { mut table, .. } = tested(TableOptions { sizes, ..options() });
    table.round(&longs(0..20)).unwrap();
    table.round(&[put(25, json!(0.5))]).unwrap();
    let widened = table.table.plan_widening(0).unwrap().unwrap().run().unwrap();
    table.round(&longs(30..40)).unwrap();
    assert_eq!(table.table.commit_widening(&widened, 0), Ok(None), "much was written meanwhile");
    table.round(&[put(50, json!(i64::MAX))]).unwrap();
    let widened = table.table.plan_widening(0).unwrap().unwrap().run().unwrap();
    assert_eq!(table.table.commit_widening(&widened, 0), Ok(None), "no double equals that integer");
    assert!(table.table.plan_widening(0).unwrap().is_none(), "for good");
    assert_eq!(rows_of(table.table.read())[&fixture::rid(50)]["n"], json!(i64::MAX));
}

#[test]
fn retention_removes_files_and_rows() {
    let Tested { mut table, .. } = tested(options());
    table.round(&longs(0..10)).unwrap();
    table.round(&longs(10..20)).unwrap();
    let second = table.seconds;
    table.round(&longs(20..30)).unwrap();
    let job = table.table.plan_compaction(&[whole()], CompactionKind::Full, 0).unwrap();
    let compacted = job.run().unwrap();
    table.table.commit_compaction(&compacted, table.seconds * 1_000).unwrap().unwrap();
    table.round(&longs(30..40)).unwrap();
    let version = table.table.version().number;
    assert_eq!(table.table.remove_older(fixture::START, 0), Ok(0));
    assert_eq!(table.table.version().number, version, "nothing to remove is no commit");
    assert_eq!(table.table.remove_older(second, table.seconds * 1_000), Ok(10));
    table.items.retain(|_, item| item.seconds >= second);
    table.check();
    assert_eq!(table.table.status().files, 2);
    assert_eq!(table.table.version().info.reason, Reason::Retention);
    assert_eq!(table.table.remove_older(table.seconds, table.seconds * 1_000), Ok(20));
    table.items.retain(|_, item| item.seconds >= table.seconds);
    table.check();
    assert_eq!(table.table.status().files, 1, "a file without live rows leaves the table");
    let lost = fixture::rid(15);
    assert!(!rows_of(table.table.read()).contains_key(&lost));
}

#[test]
fn rows_that_retention_removed_can_be_explained() {
    let Tested { mut table, .. } = tested(options());
    table.round(&longs(0..10)).unwrap();
    table.table.remove_older(table.seconds + 1, table.seconds * 1_000).unwrap();
    table.table.begin(whole(), 0).unwrap();
    let ended = shardlake_analytical_table::table::Ended { ordinal: 3, lsn: 4 };
    table.table.end_version(ended);
    assert_eq!(table.table.prepare(&|_| false), Err(TableError::RowNotFound { ordinal: 3, lsn: 4 }));
    table.table.prepare(&|found| found == ended).unwrap();
    table.table.commit(&table.commit_at(20), Reason::Round).unwrap();
    assert_eq!(table.table.status().rows, 0);
}

#[test]
fn compaction_sorts_and_carries_later_deletions() {
    let Tested { mut table, .. } = tested(options());
    for round in 0..16 {
        table.round(&longs(round * 10..round * 10 + 10)).unwrap();
    }
    table.round(&[Change::Delete(5), Change::Delete(77)]).unwrap();
    let job = table.table.plan_compaction(&[whole()], CompactionKind::Due, 0).unwrap();
    assert_eq!(job.inputs().len(), 16);
    let worker = std::thread::spawn(move || job.run());
    let compacted = worker.join().unwrap().unwrap();
    table.round(&[Change::Delete(6), Change::Delete(78), put(79, json!(7)), put(200, json!(1))]).unwrap();
    table.table.commit_compaction(&compacted, table.seconds * 1_000).unwrap().unwrap();
    table.check();
    let status = table.table.status();
    assert_eq!((status.files, status.deleted_rows), (2, 3));
    assert_eq!(status.places[0].lsn, table.lsn, "compaction keeps the position");
    let batches = table.table.read().map(|live| live.unwrap().batch);
    let batch = batches.max_by_key(|batch| batch.num_rows()).unwrap();
    let keys: Vec<String> = (0..batch.num_rows()).map(|row| sort_key(&batch, row)).collect();
    assert_eq!(keys.len(), 155);
    assert!(keys.is_sorted(), "by partition key and time: {keys:?}");
    table.reopen();
    table.round(&longs(0..160)).unwrap();
    table.check();
}

fn sort_key(batch: &arrow_array::RecordBatch, row: usize) -> String {
    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;
    let pk = batch.column_by_name("pk").unwrap().as_string::<i32>().value(row);
    let time = batch.column_by_name("_ts").unwrap().as_primitive::<Int64Type>().value(row);
    format!("{pk} {time}")
}

#[test]
fn compaction_stops_at_ranges_and_when_little_is_gained() {
    let Tested { mut table, .. } = tested(options());
    for round in 0..15 {
        table.round(&longs(round * 10..round * 10 + 10)).unwrap();
    }
    let plan = |table: &Fixture, ranges: &[Span]| table.table.plan_compaction(ranges, CompactionKind::Due, 0);
    assert!(plan(&table, &[whole()]).is_none(), "15 small files are few");
    table.table.begin(Span::new("FF", ""), 0).unwrap();
    let item = fixture::Item { lsn: 1, seconds: table.seconds, document: json!({"id": "x"}) };
    fixture::append(&mut table.table, &[(999, item.clone())]).unwrap();
    table.table.prepare(&|_| false).unwrap();
    table.table.commit(&table.commit_at(table.lsn), Reason::Round).unwrap();
    table.items.insert(999, item);
    assert!(plan(&table, &[whole(), Span::new("FF", "")]).is_none(), "never across ranges");
    assert_eq!(plan(&table, &[Span::new("", "")]).unwrap().inputs().len(), 16);
}

/// Files that are small on disk and large in memory are joined as far as memory allows.
#[test]
fn compaction_is_bounded_by_memory() {
    let Tested { mut table, .. } = tested(options());
    for round in 0..16 {
        table.round(&longs(round * 10..round * 10 + 10)).unwrap();
    }
    let memory = table.table.version().files.values().map(|file| file.memory).max().unwrap();
    table.options.sizes = Sizes { compacted_memory: memory * 4, ..Sizes::default() };
    table.reopen();
    let mut jobs = 0;
    while let Some(job) = table.table.plan_compaction(&[whole()], CompactionKind::Full, 0) {
        assert!((2..=4).contains(&job.inputs().len()), "{}", job.inputs().len());
        let compacted = job.run().unwrap();
        table.table.commit_compaction(&compacted, table.seconds * 1_000).unwrap().unwrap();
        jobs += 1;
    }
    assert!(jobs <= 12, "{jobs} jobs for 16 files");
    table.check();
}

#[test]
fn worn_files_are_compacted_and_purge_leaves_no_vector() {
    let sizes = Sizes { deleted_rows: 100, ..Sizes::default() };
    let Tested { mut table, .. } = tested(TableOptions { sizes, ..options() });
    table.round(&longs(0..200)).unwrap();
    table.round(&longs(200..250)).unwrap();
    table.round(&(0..40).map(Change::Delete).collect::<Vec<_>>()).unwrap();
    let plan = |table: &Fixture, kind| table.table.plan_compaction(&[whole()], kind, 0);
    assert!(plan(&table, CompactionKind::Due).is_none(), "a fifth is deleted");
    table.round(&[Change::Delete(40), Change::Delete(200)]).unwrap();
    let compacted = plan(&table, CompactionKind::Due).unwrap().run().unwrap();
    table.table.commit_compaction(&compacted, 0).unwrap().unwrap();
    assert_eq!(table.table.status().deleted_rows, 1);
    while let Some(job) = plan(&table, CompactionKind::Purge) {
        let compacted = job.run().unwrap();
        table.table.commit_compaction(&compacted, 0).unwrap().unwrap();
    }
    assert_eq!(table.table.status().deleted_rows, 0);
    assert!(table.table.version().files.values().all(|file| file.vector.is_none()));
    table.check();
}

#[test]
fn a_compaction_of_files_that_left_is_planned_anew() {
    let Tested { mut table, .. } = tested(options());
    table.round(&longs(0..10)).unwrap();
    table.round(&longs(10..20)).unwrap();
    let job = table.table.plan_compaction(&[whole()], CompactionKind::Full, 0).unwrap();
    let compacted = job.run().unwrap();
    table.round(&(0..10).map(Change::Delete).collect::<Vec<_>>()).unwrap();
    assert_eq!(table.table.commit_compaction(&compacted, 0), Ok(None));
    table.check();
}

#[test]
fn a_damaged_file_is_not_compacted() {
    let Tested { mut table, store } = tested(options());
    table.round(&longs(0..10)).unwrap();
    table.round(&longs(10..20)).unwrap();
    let path = table.table.version().files.keys().next().unwrap().clone();
    let mut bytes = store.read(&path).unwrap().to_vec();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    store.overwrite(&path, &bytes);
    let job = table.table.plan_compaction(&[whole()], CompactionKind::Full, 0).unwrap();
    let refused = job.run().map(|_| ());
    assert_eq!(refused, Err(TableError::damaged(&path, "the checksum of the file is wrong")));
}

#[test]
fn vacuum_keeps_the_retained_versions() {
    let Tested { mut table, store } = tested(TableOptions { checkpoint_every: 2, ..options() });
    table.round(&longs(0..10)).unwrap();
    table.round(&longs(0..10)).unwrap();
    table.round(&(0..5).map(Change::Delete).collect::<Vec<_>>()).unwrap();
    store.overwrite("g1/part-of-a-lost-round.parquet", b"");
    store.overwrite("g1/.part.tmp", b"");
    let files = store.list("").unwrap();
    let hour = 3_600;
    table.seconds += 23 * hour;
    let time = |table: &Fixture| table.seconds * 1_000;
    store.set_time(time(&table));
    let now = time(&table);
    assert_eq!(table.table.vacuum(None, now).unwrap(), Default::default());
    assert_eq!(store.list("").unwrap(), files, "all is younger than the retention");
    table.seconds += 2 * hour;
    store.set_time(time(&table));
    // The second file leaves the table now, long after it was written.
    let mut changes = longs(0..1);
    changes.extend((5..10).map(Change::Delete));
    table.round(&changes).unwrap();
    let before = table.table.version().number;
    let now = time(&table);
    let done = table.table.vacuum(None, now).unwrap();
    // The file of the first round, and two that no log names.
    assert_eq!(done.files, 3);
    assert!(done.log_files > 0 && done.key_files == 1, "{done:?}");
    table.check();
    table.reopen();
    table.check();
    let earlier = table.table.version_at(before - 1).unwrap();
    assert_eq!(rows_of(table.table.read_version(&earlier)).len(), 5);
    assert!(table.table.history(table.seconds * 1_000).unwrap()[0].0 < before);
}

#[test]
fn a_generation_appears_in_one_commit() {
    let Tested { store, .. } = tested(options());
    let store = {
        drop(store);
        MemoryStore::new()
    };
    let folders = fixture::folders(Arc::new(store.clone()), Arc::new(MemoryStore::new()), 1);
    let mut first = Fixture::create(folders.clone(), Location::Building(1), 1, options());
    first.round(&longs(0..20)).unwrap();
    first.round(&[Change::Delete(3), put(30, json!(0.5))]).unwrap();
    first.reopen();
    assert!(Table::open(&folders, Location::Serving, options()).unwrap().is_none());
    let commit = first.commit_at(first.lsn);
    first.table = first.table.swap(&folders, &commit).unwrap();
    first.location = Location::Serving;
    first.check();
    assert_eq!((first.table.version().number, first.table.status().generation), (0, 1));
    first.round(&longs(0..5)).unwrap();
    first.check();

    let mut second = Fixture::create(folders.clone(), Location::Building(2), 2, options());
    second.round(&longs(100..110)).unwrap();
    second.round(&[Change::Delete(105)]).unwrap();
    first.reopen();
    first.check();
    let former = first.table.version().clone();
    let commit = second.commit_at(second.lsn);
    second.table = second.table.swap(&folders, &commit).unwrap();
    second.location = Location::Serving;
    second.check();
    let now = second.table.version();
    assert_eq!((now.number, now.info.generation, now.info.reason), (2, 2, Reason::Swap));
    assert_eq!(now.metadata.id, former.metadata.id, "it is the same table");
    assert!(now.files.keys().all(|path| path.starts_with("g2/part-")));
    let earlier = second.table.version_at(1).unwrap();
    assert_eq!(rows_of(second.table.read_version(&earlier)), fixture::expected(&first.items));
    second.round(&longs(100..103)).unwrap();
    second.check();
    let lost = first.round(&longs(0..1));
    assert_eq!(lost, Err(TableError::AnotherWriter { version: 2 }));
}
