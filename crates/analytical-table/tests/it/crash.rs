//! Crashes: at every operation of the store the power fails or the operation does. Afterwards the
//! table opens with the rows of a commit, the work can be done again, and retained versions are
//! readable.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use shardlake_analytical_table::error::TableError;
use shardlake_analytical_table::store::{Fault, Faults, FaultyStore, LocalStore, MemoryStore, TableStore};
use shardlake_analytical_table::table::{
    CompactionKind, ExportFormat, ExportOptions, Location, Table, TableOptions,
};

use crate::fixture::{self, Change, Fixture, Item, options, rows_of, whole};
use crate::object_store::in_objects;

const FAULTS: [Fault; 4] = [Fault::FailBefore, Fault::FailAfter, Fault::CutBefore, Fault::CutAfter];

/// Files of a table under test.
#[derive(Debug, Clone, Copy)]
enum Disk {
    Memory,
    Local,
    Objects,
}

struct Case {
    store: FaultyStore,
    keys: FaultyStore,
    memory: [MemoryStore; 2],
    /// Deleted with the case.
    _folder: Option<tempfile::TempDir>,
    table: Fixture,
    /// Rows of each version so far.
    versions: BTreeMap<u64, BTreeMap<String, Value>>,
}

impl Case {
    fn create(disk: Disk) -> Case {
        let memory = [MemoryStore::new(), MemoryStore::new()];
        memory.iter().for_each(|store| store.set_time(fixture::START * 1_000));
        let folder = matches!(disk, Disk::Local).then(|| tempfile::tempdir().unwrap());
        let inner = |at: usize, name: &str| -> Arc<dyn TableStore> {
            match (&folder, disk) {
                (Some(folder), _) => Arc::new(LocalStore::open(&folder.path().join(name)).unwrap()),
                (None, Disk::Objects) => Arc::new(in_objects().below(name)),
                (None, _) => Arc::new(memory[at].clone()),
            }
        };
        let (store, keys) = (FaultyStore::new(inner(0, "table")), FaultyStore::new(inner(1, "keys")));
        let folders = fixture::folders(Arc::new(store.clone()), Arc::new(keys.clone()), 1);
        let options = TableOptions { checkpoint_every: 2, ..options() };
        let table = Fixture::create(folders, Location::Serving, 1, options);
        Case { store, keys, memory, _folder: folder, table, versions: BTreeMap::new() }
    }

    fn with_rounds(disk: Disk) -> Case {
        let mut case = Case::create(disk);
        case.round(&longs(0..12));
        case.round(&longs(8..20));
        case.round(&[Change::Delete(2), Change::Delete(15)]);
        case
    }

    fn round(&mut self, changes: &[Change]) {
        let version = self.table.round(changes).unwrap();
        self.versions.insert(version, rows_of(self.table.table.read()));
    }

    fn faults(&self, is_keys: bool) -> &Faults {
        if is_keys { self.keys.faults() } else { self.store.faults() }
    }

    fn end_faults(&self) {
        for (store, memory) in [&self.store, &self.keys].into_iter().zip(&self.memory) {
            if store.faults().restart() {
                memory.cut_power();
            }
        }
    }

    fn restart(&mut self) {
        self.end_faults();
        self.table.reopen();
    }

    /// The items of the open version, which its position shows.
    fn settle(&mut self, before: &BTreeMap<u64, Item>, after: &Fixture) {
        let lsn = self.table.table.places()[0].lsn;
        let rows = rows_of(self.table.table.read());
        let items = if lsn == after.lsn && rows == fixture::expected(&after.items) {
            &after.items
        } else {
            assert_eq!(lsn, self.table.lsn, "the position is that of a commit");
            before
        };
        (self.table.items, self.table.lsn) = (items.clone(), lsn);
        self.table.check();
    }

    fn check_history(&self) {
        let now = self.table.seconds * 1_000;
        for (number, _) in self.table.table.history(now).unwrap() {
            let version = self.table.table.version_at(number).unwrap();
            let rows = rows_of(self.table.table.read_version(&version));
            if let Some(expected) = self.versions.get(&number) {
                assert!(rows == *expected, "version {number} has its rows");
            }
        }
    }
}

fn longs(range: std::ops::Range<u64>) -> Vec<Change> {
    range.map(|ordinal| put(ordinal, json!(ordinal))).collect()
}

fn put(ordinal: u64, n: Value) -> Change {
    Change::Put(ordinal, json!({"id": format!("i{ordinal}"), "pk": "k", "n": n}))
}

/// Runs a step with each fault at each operation. The step must have its whole effect or none.
fn at_every_operation(setup: fn(Disk) -> Case, step: fn(&mut Case) -> Result<(), TableError>) -> u64 {
    let disks = [Disk::Memory, Disk::Local, Disk::Objects];
    let runs = disks.map(|disk| at_every_operation_on(disk, setup, step));
    assert_eq!(runs, [runs[0]; 3], "the same operations on all");
    runs[0]
}

fn at_every_operation_on(
    disk: Disk,
    setup: fn(Disk) -> Case,
    step: fn(&mut Case) -> Result<(), TableError>,
) -> u64 {
    let mut whole = setup(disk);
    let begun = [false, true].map(|is_keys| whole.faults(is_keys).operations());
    step(&mut whole).unwrap();
    whole.table.check();
    let mut runs = 0;
    for is_keys in [false, true] {
        let operations = whole.faults(is_keys).operations() - begun[usize::from(is_keys)];
        for (number, fault) in (0..operations).flat_map(|number| FAULTS.map(|fault| (number, fault))) {
            let mut case = setup(disk);
            let before = case.table.items.clone();
            case.faults(is_keys).fail_at(number, fault);
            let result = step(&mut case);
            let is_cut = matches!(fault, Fault::CutBefore | Fault::CutAfter);
            if is_cut || matches!(result, Err(TableError::Unsure)) {
                (case.table.items, case.table.lsn) = match result {
                    Ok(()) => (case.table.items.clone(), case.table.lsn),
                    Err(_) => (before.clone(), case.table.lsn),
                };
                case.restart();
                case.settle(&before, &whole.table);
            }
            if result.is_ok() {
                assert_eq!(case.table.items, whole.table.items, "a success is one: {number} {fault:?}");
            } else if case.table.items != whole.table.items || before == whole.table.items {
                case.end_faults();
                step(&mut case).unwrap_or_else(|error| panic!("{number} {fault:?}: {error}"));
            }
            assert_eq!(case.table.items, whole.table.items);
            case.restart();
            case.table.check();
            case.check_history();
            runs += 1;
        }
    }
    runs
}

#[test]
fn of_a_round() {
    let runs = at_every_operation(Case::with_rounds, |case| {
        let mut changes = longs(10..30);
        changes.extend([Change::Delete(0), Change::Delete(11)]);
        case.table.round(&changes).map(|_| ())
    });
    // Data file, vectors, commit, checkpoint and its hint; the key file.
    assert_eq!(runs, (5 + 1) * 4);
}

#[test]
fn of_a_widening() {
    let runs = at_every_operation(Case::with_rounds, |case| {
        case.table.round(&[put(3, json!(0.5)), Change::Delete(4)]).map(|_| ())
    });
    assert!(runs > 24, "{runs}");
}

/// Values move from `_rest` to their column: the documents are the same before and after.
#[test]
fn of_a_background_widening() {
    let mut runs = 0;
    for (number, fault) in (0..5).flat_map(|number| FAULTS.map(|fault| (number, fault))) {
        let mut case = Case::create(Disk::Memory);
        case.table.options.sizes.widen_bytes = 1;
        case.table.reopen();
        case.round(&longs(0..12));
        case.round(&[put(12, json!(0.5)), Change::Delete(3)]);
        let documents = documents(&case.table.table);
        let job = case.table.table.plan_widening(0).unwrap().unwrap();
        case.store.faults().fail_at(number, fault);
        let committed = job.run().and_then(|widened| case.table.table.commit_widening(&widened, 0)).is_ok();
        case.restart();
        let has_widened = case.table.table.schema().delta().contains("double");
        assert!(has_widened || !committed, "a success is one: {number} {fault:?}");
        assert_eq!(self::documents(&case.table.table), documents, "{number} {fault:?}");
        case.check_history();
        case.round(&[Change::Delete(12), Change::Delete(5)]);
        runs += u64::from(!committed);
    }
    // Two files with four faults each, and the commit, which is recognised after one of them.
    assert_eq!(runs, 11);
}

fn documents(table: &Table) -> Vec<String> {
    let target = MemoryStore::new();
    table.export(table.version(), &target, &ExportOptions::new(ExportFormat::JsonLines)).unwrap();
    let text = target.read("part-00000.jsonl").unwrap();
    let mut lines: Vec<String> = std::str::from_utf8(&text).unwrap().lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn of_a_compaction() {
    let runs = at_every_operation(Case::with_rounds, |case| {
        let Some(job) = case.table.table.plan_compaction(&[whole()], CompactionKind::Full, 0) else {
            return Ok(());
        };
        let compacted = job.run()?;
        let committed = case.table.table.commit_compaction(&compacted, case.table.seconds * 1_000)?;
        assert!(committed.is_some());
        Ok(())
    });
    assert_eq!(runs, (4 + 1) * 4);
}

#[test]
fn of_retention() {
    let runs = at_every_operation(Case::with_rounds, |case| {
        let seconds = fixture::START + 2;
        case.table.table.remove_older(seconds, case.table.seconds * 1_000)?;
        case.table.items.retain(|_, item| item.seconds >= seconds);
        Ok(())
    });
    assert!(runs >= 4, "{runs}");
}

#[test]
fn of_a_vacuum() {
    let setup = |disk| {
        let mut case = Case::with_rounds(disk);
        // Long after the local files were written, whenever the test runs.
        case.table.seconds = 4_102_444_800;
        case.memory.iter().for_each(|store| store.set_time(case.table.seconds * 1_000));
        case.round(&longs(0..2));
        case.round(&longs(30..32));
        case
    };
    let runs = at_every_operation(setup, |case| {
        let done = case.table.table.vacuum(None, case.table.seconds * 1_000)?;
        assert!(done.files + done.log_files + done.key_files < 20);
        Ok(())
    });
    assert!(runs >= 12, "{runs}");
}

#[test]
fn of_a_swap() {
    let setup = |disk| {
        let case = Case::with_rounds(disk);
        let mut built =
            Fixture::create(case.table.folders.clone(), Location::Building(2), 2, case.table.options.clone());
        built.lsn = case.table.lsn;
        built.round(&longs(100..110)).unwrap();
        built.round(&[Change::Delete(105)]).unwrap();
        case
    };
    let runs = at_every_operation(setup, |case| {
        let folders = case.table.folders.clone();
        let built = Table::open(&folders, Location::Building(2), case.table.options.clone())?.unwrap();
        let items = model_of(&built);
        let commit = shardlake_analytical_table::table::Commit {
            places: built.places().to_vec(),
            state: "following".to_owned(),
            time: case.table.seconds * 1_000,
        };
        let lsn = built.places()[0].lsn;
        case.table.table = built.swap(&folders, &commit)?;
        (case.table.items, case.table.lsn) = (items, lsn);
        Ok(())
    });
    assert_eq!(runs, 12, "the commit, and a checkpoint with its hint");
}

/// The items of the built generation: its rows as the model has them.
fn model_of(built: &Table) -> BTreeMap<u64, Item> {
    let rows = rows_of(built.read());
    let items = rows.values().map(|row| {
        let ordinal: u64 = row["id"].as_str().unwrap()[1..].parse().unwrap();
        let mut document = row.clone();
        for name in ["_rid", "_ts", "_etag", "_lsn"] {
            document.as_object_mut().unwrap().remove(name);
        }
        let seconds = row["_ts"].as_i64().unwrap();
        (ordinal, Item { lsn: row["_lsn"].as_u64().unwrap(), seconds, document })
    });
    items.collect()
}

#[test]
fn of_the_first_swap() {
    for (number, fault) in (0..2).flat_map(|number| FAULTS.map(|fault| (number, fault))) {
        let store = FaultyStore::new(Arc::new(MemoryStore::new()));
        let folders = fixture::folders(Arc::new(store.clone()), Arc::new(MemoryStore::new()), 1);
        let mut built = Fixture::create(folders.clone(), Location::Building(1), 1, options());
        built.round(&longs(0..10)).unwrap();
        let commit = built.commit_at(built.lsn);
        store.faults().fail_at(number, fault);
        let swapped = built.table.swap(&folders, &commit);
        store.faults().restart();
        let serving = Table::open(&folders, Location::Serving, options()).unwrap();
        assert!(swapped.is_err() || serving.is_some());
        let serving = serving.unwrap_or_else(|| {
            let built = Table::open(&folders, Location::Building(1), options()).unwrap().unwrap();
            built.swap(&folders, &commit).unwrap()
        });
        assert_eq!(rows_of(serving.read()), fixture::expected(&built.items), "{number} {fault:?}");
    }
}
