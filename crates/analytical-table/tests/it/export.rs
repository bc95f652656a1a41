//! Exports: the live rows as plain files.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::{Value, json};
use shardlake_analytical_table::schema::SchemaMode;
use shardlake_analytical_table::store::{MemoryStore, TableStore};
use shardlake_analytical_table::table::{
    ExportFormat, ExportOptions, Exported, Location, TableOptions, TableReader,
};

use crate::fixture::{self, Change, Fixture, options};

fn table() -> Fixture {
    let folders = fixture::folders(Arc::new(MemoryStore::new()), Arc::new(MemoryStore::new()), 1);
    let mut table = Fixture::create(folders, Location::Serving, 1, options());
    let put = |ordinal: u64, n: Value| {
        let city = format!("c{}", (ordinal * 7) % 10);
        let document = json!({"id": format!("i{ordinal}"), "pk": "k", "adr": {"city": city}, "n": n});
        Change::Put(ordinal, document)
    };
    table.round(&(0..30).map(|ordinal| put(ordinal, json!(ordinal))).collect::<Vec<_>>()).unwrap();
    table.round(&[put(30, json!("a text")), put(31, Value::Null), Change::Delete(3)]).unwrap();
    table
}

fn export(table: &Fixture, options: &ExportOptions) -> (MemoryStore, Exported) {
    let target = MemoryStore::new();
    let exported = table.table.export(table.table.version(), &target, options).unwrap();
    (target, exported)
}

#[test]
fn parquet_files_have_the_rows_in_order() {
    let table = table();
    let sort_by = vec![vec!["adr".to_owned(), "city".to_owned()]];
    let (target, exported) =
        export(&table, &ExportOptions { sort_by, ..ExportOptions::new(ExportFormat::Parquet) });
    assert_eq!(exported, Exported { files: 1, rows: 31 });
    let bytes = target.read("part-00000.parquet").unwrap();
    let reader = ParquetRecordBatchReaderBuilder::try_new(bytes).unwrap().build().unwrap();
    let batches: Vec<RecordBatch> = reader.map(Result::unwrap).collect();
    let cities = batches.iter().flat_map(|batch| {
        let adr = batch.column_by_name("adr").unwrap().as_struct();
        let cities = adr.column_by_name("city").unwrap().as_string::<i32>();
        cities.iter().map(|city| city.unwrap().to_owned()).collect::<Vec<_>>()
    });
    let cities: Vec<String> = cities.collect();
    assert_eq!(cities.len(), 31);
    assert!(cities.is_sorted(), "{cities:?}");
}

#[test]
fn json_lines_are_the_documents() {
    let table = table();
    let (target, exported) = export(&table, &ExportOptions::new(ExportFormat::JsonLines));
    assert_eq!(exported, Exported { files: 1, rows: 31 });
    let text = target.read("part-00000.jsonl").unwrap();
    let lines = std::str::from_utf8(&text).unwrap().lines();
    let documents: BTreeMap<String, Value> = lines
        .map(|line| serde_json::from_str(line).unwrap())
        .map(|document: Value| (document["id"].as_str().unwrap().to_owned(), document))
        .collect();
    let expected = table.items.values().map(|item| {
        let mut document = item.document.clone();
        document.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        (document["id"].as_str().unwrap().to_owned(), document)
    });
    assert_eq!(documents, expected.collect());
}

/// A reader needs the folder alone, and reads earlier versions.
#[test]
fn a_reader_opens_a_folder() {
    let mut table = table();
    let before = (table.table.version().number, fixture::rows_of(table.table.read()));
    table.round(&[Change::Delete(7)]).unwrap();
    let mut reader = TableReader::open(table.folders.store.clone()).unwrap().unwrap();
    assert!(*reader.version() == *table.table.version());
    assert_eq!(fixture::rows_of(reader.read()), fixture::rows_of(table.table.read()));
    reader.verify_files().unwrap();
    reader.at(before.0).unwrap();
    assert_eq!(fixture::rows_of(reader.read()), before.1);
    let target = MemoryStore::new();
    let exported = reader.export(&target, &ExportOptions::new(ExportFormat::JsonLines)).unwrap();
    assert_eq!(exported.rows, 31);
    assert_eq!(reader.history().unwrap().len(), 4);
    assert!(TableReader::open(Arc::new(MemoryStore::new())).unwrap().is_none());
}

/// The schema's mode is a part of the table.
#[test]
fn a_table_keeps_its_mode() {
    let folders = fixture::folders(Arc::new(MemoryStore::new()), Arc::new(MemoryStore::new()), 1);
    let mode = SchemaMode::FullFidelity { is_mongo: true };
    let mut table =
        Fixture::create(folders.clone(), Location::Serving, 1, TableOptions { mode, ..options() });
    table.round(&[Change::Put(1, json!({"id": "a", "n": 1}))]).unwrap();
    table.options = options();
    table.reopen();
    assert_eq!(table.table.schema().mode(), mode);
    let reader = TableReader::open(folders.store).unwrap().unwrap();
    assert!(*reader.schema() == *table.table.schema());
}

#[test]
fn exports_end_files_at_their_size() {
    let table = table();
    let (target, exported) =
        export(&table, &ExportOptions { file_rows: 20, ..ExportOptions::new(ExportFormat::JsonLines) });
    assert_eq!(exported.rows, 31);
    assert_eq!(target.list("").unwrap().len(), exported.files);
}
