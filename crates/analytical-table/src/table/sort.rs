//! Order of rows in compacted files.

use std::cmp::Ordering;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_buffer::NullBuffer;

/// The key columns of each batch.
pub struct SortKeys {
    batches: Vec<Vec<KeyColumn>>,
    lengths: Vec<usize>,
}

struct KeyColumn {
    values: Option<ArrayRef>,
    nulls: Option<NullBuffer>,
}

impl SortKeys {
    /// By these columns, then by `_ts`.
    pub fn new(batches: &[RecordBatch], paths: &[Vec<String>]) -> SortKeys {
        let by_time = [vec!["_ts".to_owned()]];
        let paths: Vec<&Vec<String>> = paths.iter().chain(&by_time).collect();
        let keys = |batch: &RecordBatch| paths.iter().map(|path| KeyColumn::of(batch, path)).collect();
        SortKeys {
            batches: batches.iter().map(keys).collect(),
            lengths: batches.iter().map(RecordBatch::num_rows).collect(),
        }
    }

    /// Batch and row of every row, in order; equal rows keep theirs.
    pub fn order(&self) -> Vec<(usize, usize)> {
        let rows = self.lengths.iter().enumerate();
        let mut order: Vec<(usize, usize)> =
            rows.flat_map(|(batch, length)| (0..*length).map(move |row| (batch, row))).collect();
        order.sort_by(|a, b| self.compare(*a, *b));
        order
    }

    fn compare(&self, (left, left_row): (usize, usize), (right, right_row): (usize, usize)) -> Ordering {
        let columns = self.batches[left].iter().zip(&self.batches[right]);
        let mut unequal = columns.map(|(a, b)| a.compare(left_row, b, right_row));
        unequal.find(|order| *order != Ordering::Equal).unwrap_or(Ordering::Equal)
    }
}

impl KeyColumn {
    fn of(batch: &RecordBatch, path: &[String]) -> KeyColumn {
        let none = KeyColumn { values: None, nulls: None };
        let Some((first, rest)) = path.split_first() else { return none };
        let mut values = batch.column_by_name(first);
        let mut nulls = values.and_then(|column| column.nulls().cloned());
        for name in rest {
            values = values.and_then(|column| column.as_struct_opt()?.column_by_name(name));
            nulls = NullBuffer::union(nulls.as_ref(), values.and_then(|column| column.nulls()));
        }
        values.map_or(none, |values| KeyColumn { values: Some(values.clone()), nulls })
    }

    fn valid(&self, row: usize) -> Option<&ArrayRef> {
        let is_valid = self.nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
        self.values.as_ref().filter(|_| is_valid)
    }

    /// NULL comes first. Columns of one table have one type.
    fn compare(&self, row: usize, other: &KeyColumn, other_row: usize) -> Ordering {
        let (a, b) = match (self.valid(row), other.valid(other_row)) {
            (Some(a), Some(b)) => (a, b),
            (a, b) => return a.is_some().cmp(&b.is_some()),
        };
        if let (Some(a), Some(b)) = (a.as_string_opt::<i32>(), b.as_string_opt::<i32>()) {
            a.value(row).cmp(b.value(other_row))
        } else if let (Some(a), Some(b)) =
            (a.as_primitive_opt::<Int64Type>(), b.as_primitive_opt::<Int64Type>())
        {
            a.value(row).cmp(&b.value(other_row))
        } else if let (Some(a), Some(b)) =
            (a.as_primitive_opt::<Float64Type>(), b.as_primitive_opt::<Float64Type>())
        {
            a.value(row).total_cmp(&b.value(other_row))
        } else if let (Some(a), Some(b)) = (a.as_boolean_opt(), b.as_boolean_opt()) {
            a.value(row).cmp(&b.value(other_row))
        } else {
            Ordering::Equal
        }
    }
}
