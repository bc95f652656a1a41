//! Writes tables and their expected rows, for `tests-sdk/analytics/readers.py`.

#[path = "../tests/it/fixture.rs"]
mod fixture;

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use fixture::{Change, Fixture, options};
use serde_json::{Value, json};
use shardlake_analytical_table::store::LocalStore;
use shardlake_analytical_table::table::{Location, Sizes, TableOptions};

fn main() {
    let root = std::env::args().nth(1).expect("the folder to write to");
    let root = Path::new(&root);
    basic(root);
}

fn create(root: &Path, name: &str, options: TableOptions) -> Fixture {
    let store = LocalStore::open(&root.join(name)).unwrap();
    let keys = LocalStore::open(&root.join("keys").join(name)).unwrap();
    let folders = fixture::folders(Arc::new(store), Arc::new(keys), 1);
    Fixture::create(folders, Location::Serving, 1, options)
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
    json!({"id": format!("i{ordinal}"), "pk": format!("k{}", ordinal % 7), "n": ordinal, "note": note})
}

fn puts(range: std::ops::Range<u64>, note: &str) -> Vec<Change> {
    range.map(|ordinal| Change::Put(ordinal, order(ordinal, note))).collect()
}

/// Several files and row groups with vectors.
fn basic(root: &Path) {
    let sizes = Sizes { file_rows: 2_000, row_group_rows: 500, ..Sizes::default() };
    let mut table = create(root, "basic", TableOptions { sizes, ..options() });
    table.round(&puts(0..5_000, "first")).unwrap();
    table.round(&puts(4_000..7_000, "second")).unwrap();
    table.round(&(0..3_000).step_by(3).map(Change::Delete).collect::<Vec<_>>()).unwrap();
    expect(root, "basic", &table);
}
