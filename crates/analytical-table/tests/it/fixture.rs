//! A table under test with a model of its items.
#![allow(dead_code)] // shared by tests and an example, which use different parts

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use serde_json::{Map, Value};
use shardlake_analytical_table::error::TableError;
use shardlake_analytical_table::log::{Place, Reason, Span};
use shardlake_analytical_table::rows::Row;
use shardlake_analytical_table::schema::{SchemaLimits, SchemaMode, column_name};
use shardlake_analytical_table::store::TableStore;
use shardlake_analytical_table::table::{
    Commit, Ended, LiveRows, Location, Sizes, Table, TableFolders, TableOptions,
};
use shardlake_document::{Body, ParseLimits, parse_document};
use shardlake_model::{ContainerRid, DatabaseRid, ItemRid};
use shardlake_stdx::Random;

pub const START: i64 = 1_764_000_000;

#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    pub lsn: u64,
    pub seconds: i64,
    pub document: Value,
}

/// A change of one item, by its ordinal.
#[derive(Debug, Clone)]
pub enum Change {
    Put(u64, Value),
    Delete(u64),
}

pub struct Fixture {
    pub folders: TableFolders,
    pub options: TableOptions,
    pub location: Location,
    pub table: Table,
    /// Items that the last commit shows.
    pub items: BTreeMap<u64, Item>,
    pub lsn: u64,
    pub seconds: i64,
}

pub fn rid(ordinal: u64) -> String {
    let container = ContainerRid { database: DatabaseRid(7), number: 3 };
    ItemRid { container, ordinal }.text()
}

pub fn options() -> TableOptions {
    TableOptions {
        container: "BwAAAIAAAAM=".to_owned(),
        history: "h1".to_owned(),
        writer: "w1".to_owned(),
        secret: b"secret of the table".to_vec(),
        mode: SchemaMode::WellDefined,
        limits: SchemaLimits::default(),
        exclude: Vec::new(),
        stats_keys: vec![vec!["pk".to_owned()]],
        cluster_by: vec![vec!["pk".to_owned()]],
        retention_hours: 24,
        checkpoint_every: 64,
        sizes: Sizes::default(),
    }
}

pub fn folders(store: Arc<dyn TableStore>, keys: Arc<dyn TableStore>, seed: u64) -> TableFolders {
    TableFolders { store, keys, random: Random::seeded(seed) }
}

pub fn whole() -> Span {
    Span::new("", "FF")
}

pub fn body(document: &Value) -> Body {
    let text = serde_json::to_vec(document).unwrap();
    parse_document(&text, &ParseLimits::default()).unwrap()
}

impl Fixture {
    pub fn create(
        folders: TableFolders,
        location: Location,
        generation: u32,
        options: TableOptions,
    ) -> Fixture {
        let commit = Commit { places: Vec::new(), state: "following".to_owned(), time: START * 1_000 };
        let table = Table::create(&folders, location, generation, options.clone(), &commit).unwrap();
        Fixture { folders, options, location, table, items: BTreeMap::new(), lsn: 0, seconds: START }
    }

    pub fn commit_at(&self, lsn: u64) -> Commit {
        let read_at = self.seconds * 1_000;
        let place = Place { span: whole(), lsn, read_at };
        Commit { places: vec![place], state: "following".to_owned(), time: read_at }
    }

    /// One round with these changes. The model changes when it is committed.
    pub fn round(&mut self, changes: &[Change]) -> Result<u64, TableError> {
        self.seconds += 1;
        let committed = self.commit_changes(changes);
        if committed.is_err() {
            self.seconds -= 1;
        }
        committed
    }

    fn commit_changes(&mut self, changes: &[Change]) -> Result<u64, TableError> {
        let (mut items, mut lsn) = (self.items.clone(), self.lsn);
        let (mut puts, mut ended) = (BTreeMap::new(), Vec::new());
        for change in changes {
            lsn += 1;
            let (ordinal, item) = match change {
                Change::Put(ordinal, document) => {
                    (ordinal, Some(Item { lsn, seconds: self.seconds, document: document.clone() }))
                }
                Change::Delete(ordinal) => (ordinal, None),
            };
            let former = match &item {
                Some(item) => items.insert(*ordinal, item.clone()),
                None => items.remove(ordinal),
            };
            if let Some(former) = former.filter(|former| former.lsn <= self.lsn) {
                ended.push(Ended { ordinal: *ordinal, lsn: former.lsn });
            }
            match item {
                Some(item) => puts.insert(*ordinal, item),
                None => puts.remove(ordinal),
            };
        }
        self.table.begin(whole(), self.seconds * 1_000)?;
        ended.into_iter().for_each(|ended| self.table.end_version(ended));
        let mut puts: Vec<(u64, Item)> = puts.into_iter().collect();
        puts.sort_by_key(|(_, item)| item.lsn);
        for chunk in puts.chunks(4_096) {
            append(&mut self.table, chunk)?;
        }
        self.table.prepare(&|_| false)?;
        let commit = self.commit_at(lsn);
        let version = self.table.commit(&commit, Reason::Round)?;
        (self.items, self.lsn) = (items, lsn);
        Ok(version)
    }

    /// Another writer of the same table, with the same model.
    pub fn opened_again(other: &Fixture) -> Fixture {
        let table = Table::open(&other.folders, other.location, other.options.clone()).unwrap().unwrap();
        Fixture {
            folders: other.folders.clone(),
            options: other.options.clone(),
            location: other.location,
            table,
            items: other.items.clone(),
            lsn: other.lsn,
            seconds: other.seconds,
        }
    }

    pub fn reopen(&mut self) {
        let opened = Table::open(&self.folders, self.location, self.options.clone());
        self.table = opened.unwrap().unwrap();
    }

    /// Compares all rows of the newest version with the model.
    pub fn check(&self) {
        let (rows, expected) = (rows_of(self.table.read()), expected(&self.items));
        let rids = rows.keys().chain(expected.keys());
        let wrong = rids.filter(|rid| rows.get(*rid) != expected.get(*rid)).take(3);
        let wrong: Vec<_> = wrong.map(|rid| (rid, rows.get(rid), expected.get(rid))).collect();
        assert!(wrong.is_empty(), "_rid, row, expected row: {wrong:?}");
    }
}

/// Appends items as rows.
pub fn append(table: &mut Table, items: &[(u64, Item)]) -> Result<(), TableError> {
    let bodies: Vec<Body> = items.iter().map(|(_, item)| body(&item.document)).collect();
    let texts: Vec<(String, String)> =
        items.iter().map(|(ordinal, item)| (rid(*ordinal), etag(item.lsn))).collect();
    let rows = items.iter().zip(&bodies).zip(&texts).map(|(((ordinal, item), body), (rid, etag))| Row {
        rid,
        etag,
        timestamp_seconds: item.seconds as u64,
        lsn: item.lsn,
        ordinal: *ordinal,
        body: body.raw(),
    });
    table.append(&rows.collect::<Vec<_>>())
}

fn etag(lsn: u64) -> String {
    format!("\"{lsn:08x}\"")
}

/// Rows by `_rid`, without NULL columns and members.
pub fn rows_of(rows: LiveRows) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    for live in rows {
        let batch = live.unwrap().batch;
        for row in 0..batch.num_rows() {
            let schema = batch.schema();
            let members = schema.fields().iter().zip(batch.columns());
            let members = members.map(|(field, column)| (field.name().clone(), json(column, row)));
            let value = plain(Value::Object(members.collect()));
            let rid = value["_rid"].as_str().unwrap().to_owned();
            assert_eq!(found.insert(rid.clone(), value), None, "one row for {rid}");
        }
    }
    found
}

/// The rows of items whose values all have columns.
pub fn expected(items: &BTreeMap<u64, Item>) -> BTreeMap<String, Value> {
    let rows = items.iter().map(|(ordinal, item)| {
        let mut row = in_columns(&item.document);
        row["_rid"] = Value::from(rid(*ordinal));
        row["_etag"] = Value::from(etag(item.lsn));
        row["_ts"] = Value::from(item.seconds);
        row["_lsn"] = Value::from(item.lsn);
        (rid(*ordinal), plain(row))
    });
    rows.collect()
}

/// The document with the names of columns.
fn in_columns(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let members =
                members.iter().map(|(name, value)| (column_name(name).into_owned(), in_columns(value)));
            Value::Object(members.collect())
        }
        Value::Array(elements) => elements.iter().map(in_columns).collect(),
        scalar => scalar.clone(),
    }
}

/// Without null members and empty objects; whole doubles as integers.
pub fn plain(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let members = members.into_iter().map(|(name, value)| (name, plain(value)));
            let members: Map<String, Value> = members.filter(|(_, value)| !value.is_null()).collect();
            if members.is_empty() { Value::Null } else { Value::Object(members) }
        }
        Value::Array(elements) => elements.into_iter().map(plain).collect(),
        Value::Number(number) => match number.as_f64().filter(|_| number.is_f64()) {
            Some(double) if double.fract() == 0.0 && double.abs() < 1e15 => Value::from(double as i64),
            _ => Value::Number(number),
        },
        other => other,
    }
}

fn json(column: &ArrayRef, row: usize) -> Value {
    if column.is_null(row) {
        return Value::Null;
    }
    match column.data_type() {
        DataType::Utf8 => Value::from(column.as_string::<i32>().value(row)),
        DataType::Int32 => Value::from(column.as_primitive::<Int32Type>().value(row)),
        DataType::Int64 => Value::from(column.as_primitive::<Int64Type>().value(row)),
        DataType::Float64 => Value::from(column.as_primitive::<Float64Type>().value(row)),
        DataType::Boolean => Value::from(column.as_boolean().value(row)),
        DataType::Struct(fields) => {
            let columns = fields.iter().zip(column.as_struct().columns());
            Value::Object(columns.map(|(field, column)| (field.name().clone(), json(column, row))).collect())
        }
        DataType::List(_) => {
            let elements = column.as_list::<i32>().value(row);
            (0..elements.len()).map(|at| json(&elements, at)).collect()
        }
        other => panic!("no column of type {other}"),
    }
}
