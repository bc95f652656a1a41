//! Exports: the live rows as plain files.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::{Value, json};
use shardlake_analytical_table::store::{MemoryStore, TableStore};
use shardlake_analytical_table::table::{ExportFormat, ExportOptions, Exported, Location};

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

#[test]
fn exports_end_files_at_their_size() {
    let table = table();
    let (target, exported) =
        export(&table, &ExportOptions { file_rows: 20, ..ExportOptions::new(ExportFormat::JsonLines) });
    assert_eq!(exported.rows, 31);
    assert_eq!(target.list("").unwrap().len(), exported.files);
}
