//! Statistics of a data file, gathered while it is written.

use std::cmp::Ordering;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{Array, RecordBatch};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, Schema};
use serde_json::{Map, Value};

use crate::log::FileStats;

/// Scalar columns of the root level that have statistics, besides those that always have them.
const OTHER_COLUMNS: usize = 32;
/// Longer texts are left out of the bounds.
const TEXT_CHARACTERS: usize = 32;
const ALWAYS: [&str; 2] = ["_ts", "_lsn"];

#[derive(Debug)]
pub struct StatsBuilder {
    rows: u64,
    columns: Vec<ColumnStats>,
}

#[derive(Debug)]
struct ColumnStats {
    path: Vec<String>,
    nulls: u64,
    bounds: Option<(Scalar, Scalar)>,
    /// A value has no place in an order (not-a-number) or in JSON.
    is_unbounded: bool,
}

#[derive(Debug, Clone, PartialEq)]
enum Scalar {
    Long(i64),
    Double(f64),
    Text(String),
}

impl StatsBuilder {
    /// For the columns of the table, with the paths of its keys.
    pub fn new(table: &Schema, keys: &[Vec<String>]) -> StatsBuilder {
        let mut paths: Vec<Vec<String>> = ALWAYS.iter().map(|name| vec![(*name).to_owned()]).collect();
        paths.extend(keys.iter().filter(|path| is_scalar(table, path)).cloned());
        let roots = table.fields().iter().filter(|field| !field.data_type().is_nested());
        let roots = roots.map(|field| vec![field.name().clone()]).filter(|path| path != &["_rest"]);
        let others: Vec<_> = roots.filter(|path| !paths.contains(path)).take(OTHER_COLUMNS).collect();
        paths.extend(others);
        let columns =
            paths.into_iter().map(|path| ColumnStats { path, nulls: 0, bounds: None, is_unbounded: false });
        StatsBuilder { rows: 0, columns: columns.collect() }
    }

    pub fn add(&mut self, batch: &RecordBatch) {
        self.rows += batch.num_rows() as u64;
        for column in &mut self.columns {
            column.add(batch);
        }
    }

    pub fn finish(self) -> FileStats {
        let mut stats = FileStats { num_records: self.rows, tight_bounds: true, ..FileStats::default() };
        for column in self.columns {
            put(&mut stats.null_count, &column.path, Value::from(column.nulls));
            let bounds = column.bounds.filter(|_| !column.is_unbounded);
            let (min, max) = bounds.map_or((None, None), |(min, max)| (min.json(), max.json()));
            min.into_iter().for_each(|min| put(&mut stats.min_values, &column.path, min));
            max.into_iter().for_each(|max| put(&mut stats.max_values, &column.path, max));
        }
        stats
    }
}

fn is_scalar(table: &Schema, path: &[String]) -> bool {
    let Some((first, rest)) = path.split_first() else { return false };
    let mut found = table.field_with_name(first).ok().map(|field| field.data_type());
    for name in rest {
        found = match found {
            Some(DataType::Struct(fields)) => {
                fields.iter().find(|field| field.name() == name).map(|field| field.data_type())
            }
            _ => None,
        };
    }
    found.is_some_and(|data_type| !data_type.is_nested())
}

fn put(into: &mut Map<String, Value>, path: &[String], value: Value) {
    match path {
        [] => {}
        [name] => {
            into.insert(name.clone(), value);
        }
        [name, rest @ ..] => {
            let inner = into.entry(name.clone()).or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(inner) = inner {
                put(inner, rest, value);
            }
        }
    }
}

impl ColumnStats {
    fn add(&mut self, batch: &RecordBatch) {
        let rows = batch.num_rows();
        let Some((first, rest)) = self.path.split_first() else { return };
        let mut found = batch.column_by_name(first);
        let mut nulls = found.and_then(|column| column.nulls().cloned());
        for name in rest {
            let outer = found.and_then(|column| column.as_struct_opt());
            found = outer.and_then(|outer| outer.column_by_name(name));
            nulls = NullBuffer::union(nulls.as_ref(), found.and_then(|column| column.nulls()));
        }
        let Some(column) = found else {
            self.nulls += rows as u64;
            return;
        };
        self.nulls += nulls.as_ref().map_or(0, NullBuffer::null_count) as u64;
        let valid = (0..rows).filter(|row| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(*row)));
        if let Some(longs) = column.as_primitive_opt::<Int64Type>() {
            let bounds = valid.fold(None, |bounds, row| widen(bounds, longs.value(row), |a, b| a.cmp(b)));
            self.join(bounds.map(|(min, max)| (Scalar::Long(min), Scalar::Long(max))));
        } else if let Some(doubles) = column.as_primitive_opt::<Float64Type>() {
            let mut is_unbounded = false;
            let bounds = valid.fold(None, |bounds, row| {
                let value = doubles.value(row);
                is_unbounded |= !value.is_finite();
                widen(bounds, value, f64::total_cmp)
            });
            self.is_unbounded |= is_unbounded;
            self.join(bounds.map(|(min, max)| (Scalar::Double(min), Scalar::Double(max))));
        } else if let Some(texts) = column.as_string_opt::<i32>() {
            let bounds = valid.fold(None, |bounds, row| widen(bounds, texts.value(row), |a, b| a.cmp(b)));
            self.join(bounds.map(|(min, max)| (Scalar::Text(min.to_owned()), Scalar::Text(max.to_owned()))));
        }
    }

    fn join(&mut self, bounds: Option<(Scalar, Scalar)>) {
        let Some((min, max)) = bounds else { return };
        self.bounds = Some(match self.bounds.take() {
            None => (min, max),
            Some((least, greatest)) => (
                if min.order(&least) == Ordering::Less { min } else { least },
                if max.order(&greatest) == Ordering::Greater { max } else { greatest },
            ),
        });
    }
}

fn widen<T: Copy>(bounds: Option<(T, T)>, value: T, order: impl Fn(&T, &T) -> Ordering) -> Option<(T, T)> {
    Some(match bounds {
        None => (value, value),
        Some((min, max)) => (
            if order(&value, &min) == Ordering::Less { value } else { min },
            if order(&value, &max) == Ordering::Greater { value } else { max },
        ),
    })
}

impl Scalar {
    fn order(&self, other: &Scalar) -> Ordering {
        match (self, other) {
            (Scalar::Long(a), Scalar::Long(b)) => a.cmp(b),
            (Scalar::Double(a), Scalar::Double(b)) => a.total_cmp(b),
            (Scalar::Text(a), Scalar::Text(b)) => a.cmp(b),
            _ => Ordering::Equal,
        }
    }

    fn json(self) -> Option<Value> {
        match self {
            Scalar::Long(value) => Some(Value::from(value)),
            Scalar::Double(value) => Some(Value::from(value)),
            Scalar::Text(value) => (value.chars().count() <= TEXT_CHARACTERS).then_some(Value::String(value)),
        }
    }
}
