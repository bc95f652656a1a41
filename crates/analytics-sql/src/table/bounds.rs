//! Bounds of columns in the log: the statistics of each file, for pruning and for plans.
//!
//! The bounds of a file with a deletion vector may be those of deleted rows. They bound the live rows all the same, so files are pruned
//! by them; a plan must not take them for values.

use std::sync::Arc;

use arrow_schema::{DataType, Schema, SchemaRef};
use datafusion::common::pruning::PrunableStatistics;
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, ScalarValue, Statistics};
use serde_json::{Map, Value};
use shardlake_analytical_table::log::DataFile;

/// Bounds by which files are skipped.
pub(super) fn prunable(files: &[&DataFile], schema: &SchemaRef) -> PrunableStatistics {
    let of_file = |file: &&DataFile| {
        let columns = schema.fields().iter().map(|field| {
            let bound = |bounds: &Map<String, Value>| {
                let bound = bounds.get(field.name()).and_then(|bound| scalar(bound, field.data_type()));
                bound.map_or(Precision::Absent, Precision::Exact)
            };
            let nulls = file.stats.null_count.get(field.name()).and_then(Value::as_u64);
            ColumnStatistics {
                min_value: bound(&file.stats.min_values),
                max_value: bound(&file.stats.max_values),
                null_count: nulls.map_or(Precision::Absent, |nulls| Precision::Exact(nulls as usize)),
                ..ColumnStatistics::new_unknown()
            }
        });
        Arc::new(Statistics {
            num_rows: Precision::Exact(file.rows() as usize),
            total_byte_size: Precision::Absent,
            column_statistics: columns.collect(),
        })
    };
    PrunableStatistics::new(files.iter().map(of_file).collect(), schema.clone())
}

/// Statistics of these files together, for plans: the number of live rows is exact, bounds are estimates.
pub(super) fn of_plan(files: &[&DataFile], schema: &Schema) -> Statistics {
    let columns = schema.fields().iter().map(|field| {
        let bound = |of: fn(&DataFile) -> &Map<String, Value>, is_better: fn(std::cmp::Ordering) -> bool| {
            let mut best: Option<ScalarValue> = None;
            for file in files {
                // A file without the bound has any values, or none.
                let Some(bound) = of(file).get(field.name()) else { continue };
                let Some(bound) = scalar(bound, field.data_type()) else { return Precision::Absent };
                let order = best.as_ref().and_then(|best| bound.partial_cmp(best));
                if best.is_none() || order.is_some_and(is_better) {
                    best = Some(bound);
                }
            }
            best.map_or(Precision::Absent, Precision::Inexact)
        };
        ColumnStatistics {
            min_value: bound(|file| &file.stats.min_values, std::cmp::Ordering::is_lt),
            max_value: bound(|file| &file.stats.max_values, std::cmp::Ordering::is_gt),
            ..ColumnStatistics::new_unknown()
        }
    });
    let rows: u64 = files.iter().map(|file| file.live_rows()).sum();
    let memory: u64 = files.iter().map(|file| file.memory).sum();
    Statistics {
        num_rows: Precision::Exact(rows as usize),
        total_byte_size: Precision::Inexact(memory as usize),
        column_statistics: columns.collect(),
    }
}

/// A bound in JSON as a value of the column's type. A bound of another kind is none.
fn scalar(bound: &Value, data_type: &DataType) -> Option<ScalarValue> {
    Some(match data_type {
        DataType::Utf8 => ScalarValue::Utf8(Some(bound.as_str()?.to_owned())),
        DataType::Utf8View => ScalarValue::Utf8View(Some(bound.as_str()?.to_owned())),
        DataType::Int64 => ScalarValue::Int64(Some(bound.as_i64()?)),
        // Both zeros are equal in SQL and apart in the order of bounds.
        DataType::Float64 => ScalarValue::Float64(Some(bound.as_f64().filter(|bound| *bound != 0.0)?)),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_have_the_type_of_their_column() {
        let text = Value::from("a");
        assert_eq!(scalar(&text, &DataType::Utf8View), Some(ScalarValue::Utf8View(Some("a".into()))));
        assert_eq!(scalar(&text, &DataType::Int64), None);
        assert_eq!(scalar(&Value::from(7), &DataType::Float64), Some(ScalarValue::Float64(Some(7.0))));
        assert_eq!(scalar(&Value::from(0.0), &DataType::Float64), None);
        assert_eq!(scalar(&Value::from(true), &DataType::Boolean), None);
    }
}
