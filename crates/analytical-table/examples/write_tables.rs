//! Writes tables and their expected rows, for `tests-sdk/analytics/readers.py`.
#![allow(clippy::unwrap_used)] // a part of the tests

#[path = "../tests/it/fixture.rs"]
pub mod fixture;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fixture::{Change, Fixture, options, whole};
use serde_json::{Map, Value, json};
use shardlake_analytical_table::schema::SchemaMode;
use shardlake_analytical_table::store::LocalStore;
use shardlake_analytical_table::table::{
    CompactionKind, Location, Sizes, Table, TableFolders, TableOptions, TableReader,
};
use shardlake_stdx::Random;

fn main() {
    let root = PathBuf::from(std::env::args().nth(1).expect("the folder to write to"));
    if std::env::args().nth(2).is_some_and(|word| word == "check") {
        return check(&root);
    }
    let seeds = std::env::args().nth(2).map_or(4, |seeds| seeds.parse().expect("the number of seeds"));
    write(&root, seeds);
}

/// Writes one table of each kind, and as many random ones as there are seeds.
pub fn write(root: &Path, seeds: u64) {
    vectors(root);
    nested_growth(root);
    checkpoints(root);
    generations(root);
    compacted(root);
    widened(root);
    odd_names(root);
    wide(root);
    purged(root);
    fidelity(root, "fidelity", false);
    fidelity(root, "fidelity_mongo", true);
    for seed in 0..seeds {
        random(root, seed);
    }
}

/// Compares the tables with their expected rows, after other programs had them.
fn check(root: &Path) {
    for entry in std::fs::read_dir(root).unwrap() {
        let path = entry.unwrap().path();
        let Some(name) = path.to_str().unwrap().strip_suffix(".jsonl") else { continue };
        let name = name.rsplit('/').next().unwrap();
        let table = TableReader::open(folders(root, name).store).unwrap().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let expected = lines.map(|row| (row["_rid"].as_str().unwrap().to_owned(), row));
        assert!(fixture::rows_of(table.read()) == expected.collect(), "{name} has its rows");
        table.verify_files().unwrap();
    }
}

fn folders(root: &Path, name: &str) -> TableFolders {
    let store = LocalStore::open(&root.join(name)).unwrap();
    let keys = LocalStore::open(&root.join("keys").join(name)).unwrap();
    fixture::folders(Arc::new(store), Arc::new(keys), 1)
}

fn create(root: &Path, name: &str, options: TableOptions) -> Fixture {
    Fixture::create(folders(root, name), Location::Serving, 1, options)
}

/// Writes the expected rows next to the table's folder.
fn expect(root: &Path, name: &str, table: &Fixture) {
    table.check();
    let mut file = std::fs::File::create(root.join(format!("{name}.jsonl"))).unwrap();
    for row in fixture::expected(&table.items).values() {
        writeln!(file, "{row}").unwrap();
    }
}

fn order(ordinal: u64, note: &str) -> Value {
    let lines: Vec<Value> =
        (0..ordinal % 4).map(|line| json!({"sku": format!("s{line}"), "qty": line})).collect();
    json!({
        "id": format!("i{ordinal}"),
        "pk": format!("k{}", ordinal % 7),
        "n": ordinal,
        "note": note,
        "is_open": ordinal.is_multiple_of(3),
        "price": ordinal as f64 / 8.0 + 0.0625,
        "lines": lines,
    })
}

fn puts(range: std::ops::Range<u64>, note: &str) -> Vec<Change> {
    range.map(|ordinal| Change::Put(ordinal, order(ordinal, note))).collect()
}

fn deletes(ordinals: impl Iterator<Item = u64>) -> Vec<Change> {
    ordinals.map(Change::Delete).collect()
}

/// Several files and row groups with vectors.
fn vectors(root: &Path) {
    let sizes = Sizes { file_rows: 2_000, row_group_rows: 500, ..Sizes::default() };
    let mut table = create(root, "vectors", TableOptions { sizes, ..options() });
    table.round(&puts(0..5_000, "first")).unwrap();
    table.round(&puts(4_000..7_000, "second")).unwrap();
    table.round(&deletes((0..3_000).step_by(3))).unwrap();
    expect(root, "vectors", &table);
}

/// New members of objects and of objects in lists, with older files that lack them.
fn nested_growth(root: &Path) {
    let mut table = create(root, "nested", options());
    let put = |ordinal: u64, value: Value| {
        let mut document = json!({"id": format!("i{ordinal}"), "pk": "k"});
        document.as_object_mut().unwrap().extend(value.as_object().unwrap().clone());
        Change::Put(ordinal, document)
    };
    table.round(&[put(0, json!({"a": {"b": 1}}))]).unwrap();
    table.round(&[put(1, json!({"a": {"b": 2, "c": {"d": "x"}}}))]).unwrap();
    table.round(&[put(2, json!({"a": {"c": {"e": [1, 2, 3]}}, "l": [{"q": 1}]}))]).unwrap();
    table.round(&[put(3, json!({"l": [{"q": 2, "r": [[1], [2, 3]]}, {"r": [[]]}, null]}))]).unwrap();
    table.round(&[put(4, json!({"a": null, "l": null})), put(5, json!({"t": ["x", null, "y"]}))]).unwrap();
    table.round(&[put(1, json!({"a": {"f": true}})), Change::Delete(0)]).unwrap();
    let deep = (0..28).fold(json!(1), |inner, level| json!({format!("m{level}"): inner}));
    table.round(&[put(6, json!({"deep": deep}))]).unwrap();
    expect(root, "nested", &table);
}

/// Commits before and after checkpoints, with vectors in the checkpoint.
fn checkpoints(root: &Path) {
    let mut table = create(root, "checkpoints", TableOptions { checkpoint_every: 8, ..options() });
    for round in 0..20 {
        table.round(&puts(round * 20..round * 20 + 40, &format!("round {round}"))).unwrap();
    }
    table.seconds += 30 * 3_600;
    table.round(&deletes((0..100).step_by(7))).unwrap();
    table.round(&deletes((1..100).step_by(7))).unwrap();
    for round in 0..8 {
        table.round(&puts(round..round + 1, "late")).unwrap();
    }
    table.table.vacuum(None, table.seconds * 1_000).unwrap();
    expect(root, "checkpoints", &table);
}

/// A first copy, a rebuild with other columns, and rounds afterwards.
fn generations(root: &Path) {
    let place = folders(root, "generations");
    let mut first = Fixture::create(place.clone(), Location::Building(1), 1, options());
    first.round(&puts(0..500, "first")).unwrap();
    swap(&mut first, &place);
    first.round(&deletes((0..500).step_by(9))).unwrap();
    let mut second = Fixture::create(place.clone(), Location::Building(2), 2, options());
    let renamed = |ordinal: u64| {
        Change::Put(ordinal, json!({"id": format!("i{ordinal}"), "pk": "k", "n": "now a text", "m": ordinal}))
    };
    second.round(&(0..300).map(renamed).collect::<Vec<_>>()).unwrap();
    second.round(&deletes((0..300).step_by(5))).unwrap();
    swap(&mut second, &place);
    second.round(&(250..320).map(renamed).collect::<Vec<_>>()).unwrap();
    expect(root, "generations", &second);
}

fn swap(table: &mut Fixture, folders: &TableFolders) {
    let commit = table.commit_at(table.lsn);
    let built = Table::open(folders, table.location, table.options.clone()).unwrap().unwrap();
    table.table = built.swap(folders, &commit).unwrap();
    table.location = Location::Serving;
}

fn compact(table: &mut Fixture, kind: CompactionKind) {
    while let Some(job) = table.table.plan_compaction(&[whole()], kind, table.seconds * 1_000) {
        let compacted = job.run().unwrap();
        table.table.commit_compaction(&compacted, table.seconds * 1_000).unwrap();
    }
}

fn compacted(root: &Path) {
    let sizes = Sizes { row_group_rows: 300, ..Sizes::default() };
    let mut table = create(root, "compacted", TableOptions { sizes, ..options() });
    for round in 0..18 {
        table.round(&puts(round * 50..round * 50 + 80, &format!("round {round}"))).unwrap();
    }
    compact(&mut table, CompactionKind::Due);
    table.round(&deletes((0..900).step_by(11))).unwrap();
    table.round(&puts(100..150, "late")).unwrap();
    expect(root, "compacted", &table);
}

/// Members for each type met. The expected rows are those of our own reader.
fn fidelity(root: &Path, name: &str, is_mongo: bool) {
    let mode = SchemaMode::FullFidelity { is_mongo };
    let mut table = create(root, name, TableOptions { mode, ..options() });
    let values = [
        json!(3),
        json!("4"),
        json!(null),
        json!(true),
        json!({"streetNo": 15850, "name": null}),
        json!(["a", 12, null, [1.5], {"b": "c"}]),
        json!(9_007_199_254_740_993_i64),
        json!(0.5),
        json!({}),
        json!([]),
    ];
    for (ordinal, value) in (0..).zip(&values) {
        let item = json!({"id": format!("i{ordinal}"), "pk": "k", "v": value});
        table.round(&[Change::Put(ordinal, item)]).unwrap();
    }
    table
        .round(&[Change::Delete(1), Change::Put(2, json!({"id": "i2", "pk": 7, "v": {"streetNo": "x"}}))])
        .unwrap();
    compact(&mut table, CompactionKind::Full);
    table.round(&[Change::Delete(4)]).unwrap();
    let rows = fixture::rows_of(table.table.read());
    assert_eq!(rows.len(), 8);
    let mut file = std::fs::File::create(root.join(format!("{name}.jsonl"))).unwrap();
    rows.values().for_each(|row| writeln!(file, "{row}").unwrap());
}

/// Integer columns that became double, with vectors of rewritten files.
fn widened(root: &Path) {
    let mut table = create(root, "widened", options());
    let put = |ordinal: u64, n: Value| {
        Change::Put(ordinal, json!({"id": format!("i{ordinal}"), "pk": "k", "n": n, "l": [{"q": n}]}))
    };
    table.round(&(0..200).map(|ordinal| put(ordinal, json!(ordinal))).collect::<Vec<_>>()).unwrap();
    table.round(&deletes((0..200).step_by(6))).unwrap();
    table.round(&[put(1, json!(0.5)), put(300, json!(-1)), Change::Delete(2)]).unwrap();
    table.round(&[put(3, json!(1e300))]).unwrap();
    expect(root, "widened", &table);
}

fn odd_names(root: &Path) {
    let mut table = create(root, "odd_names", options());
    let names = [
        "First Name, Last",
        "a.b",
        "a",
        "x`y\"z",
        "ümläut",
        "日本",
        "_x0020_",
        "per cent%",
        "semi;colon",
        "{braces}",
        "tab\there",
        "line\nbreak",
        "=",
        "select",
        "1",
        "-",
        "a/b",
        "a~b",
        "'quote'",
        "$ref",
        "back\\slash",
    ];
    for round in 0..3u64 {
        let mut document = Map::new();
        document.insert("id".to_owned(), json!(format!("i{round}")));
        document.insert("pk".to_owned(), json!("k"));
        for (number, name) in names.iter().enumerate().skip(round as usize) {
            document.insert((*name).to_owned(), json!(number as u64 + round));
            if number % 4 == 0 {
                document.insert(format!("in {name}"), json!({*name: {*name: round}}));
            }
        }
        table.round(&[Change::Put(round, Value::Object(document))]).unwrap();
    }
    table.round(&deletes(0..1)).unwrap();
    expect(root, "odd_names", &table);
}

/// 1,000 columns, of which each file has a few.
fn wide(root: &Path) {
    let mut table = create(root, "wide", options());
    for round in 0..20u64 {
        let mut document = Map::new();
        document.insert("id".to_owned(), json!(format!("i{round}")));
        document.extend((0..50).map(|at| (format!("c{}", round * 50 + at), json!(at))));
        let row = Change::Put(round, Value::Object(document));
        table.round(&[row]).unwrap();
    }
    table.round(&deletes((0..20).step_by(5))).unwrap();
    assert!(table.table.schema().property_count() >= 1_000);
    expect(root, "wide", &table);
}

/// A table without vectors, for readers that know none.
fn purged(root: &Path) {
    let mut table = create(root, "purged", options());
    table.round(&puts(0..300, "first")).unwrap();
    table.round(&deletes((0..300).step_by(2))).unwrap();
    compact(&mut table, CompactionKind::Purge);
    assert_eq!(table.table.status().deleted_rows, 0);
    expect(root, "purged", &table);
}

/// Random writes and deletions between all kinds of maintenance.
fn random(root: &Path, seed: u64) {
    let name = format!("random{seed:03}");
    let random = Random::seeded(seed);
    let sizes =
        Sizes { file_rows: 300, row_group_rows: 64, small_files: 4, deleted_rows: 50, ..Sizes::default() };
    let mut table = create(root, &name, TableOptions { sizes, checkpoint_every: 5, ..options() });
    for round in 0..12u64 {
        let changes = (0..random.below(400)).map(|_| {
            let ordinal = random.below(800);
            let is_known = table.items.contains_key(&ordinal);
            match random.below(4) {
                0 if is_known => Change::Delete(ordinal),
                _ => Change::Put(ordinal, random_item(&random, ordinal, round)),
            }
        });
        let mut changes: Vec<Change> = changes.collect();
        // One change of an item in a round, so that deletions meet what is there.
        let mut seen = std::collections::BTreeSet::new();
        changes.retain(|change| {
            seen.insert(match change {
                Change::Put(ordinal, _) | Change::Delete(ordinal) => *ordinal,
            })
        });
        table.round(&changes).unwrap();
        match random.below(6) {
            0 => compact(&mut table, CompactionKind::Due),
            1 => compact(&mut table, CompactionKind::Full),
            2 => table.reopen(),
            3 => {
                let seconds = table.seconds - 8;
                table.table.remove_older(seconds, table.seconds * 1_000).unwrap();
                table.items.retain(|_, item| item.seconds >= seconds);
            }
            4 => {
                table.seconds += 40 * 3_600;
                table.table.vacuum(None, table.seconds * 1_000).unwrap();
            }
            _ => {}
        }
    }
    expect(root, &name, &table);
}

/// An item with more members in later rounds. Numbers of the member `n` are doubles from round 6 on.
fn random_item(random: &Random, ordinal: u64, round: u64) -> Value {
    let n = if round < 6 { json!(random.below(1_000)) } else { json!(random.below(1_000) as f64 / 8.0) };
    let mut item = json!({"id": format!("i{ordinal}"), "pk": format!("k{}", ordinal % 5), "n": n});
    let members = item.as_object_mut().unwrap();
    for member in 0..random.below(round + 2) {
        let value = match (member + round) % 5 {
            0 => json!("x".repeat(random.below(60) as usize)),
            1 => json!({"deep": {"er": random.below(9), "list": [random.below(9)]}}),
            2 => json!([{"a": random.below(9)}, null, {"b": "text"}]),
            3 => json!(random.below(2) == 0),
            _ => Value::Null,
        };
        members.insert(format!("m{}of{}", member, (member + round) % 5), value);
    }
    item
}
