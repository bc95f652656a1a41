//! A column of a batch from `long` to `double`, for the rewriting of files after a widening.

use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Float64Array, ListArray, RecordBatch, StructArray};
use arrow_schema::{DataType, Field, Schema};

use crate::schema::{ColumnPath, double_of_long};

/// The batch with one more `double` column. A batch without the column, or with `double` already, is returned
/// as it is. Panics at an integer that no double equals: statistics must have shown that there is none.
pub fn with_doubles(batch: &RecordBatch, path: &ColumnPath) -> RecordBatch {
    let root = StructArray::from(batch.clone());
    let root: ArrayRef = Arc::new(root);
    let widened = widened(&root, &path.names);
    let root = widened.as_struct();
    let schema = Schema::new_with_metadata(root.fields().clone(), batch.schema().metadata().clone());
    RecordBatch::try_new(Arc::new(schema), root.columns().to_vec()).expect("only one type changed")
}

fn widened(array: &ArrayRef, names: &[String]) -> ArrayRef {
    let Some((first, rest)) = names.split_first() else { return doubles(array) };
    match array.data_type() {
        DataType::Struct(fields) => {
            let columns = array.as_struct();
            let column = |(field, column): (&Arc<Field>, &ArrayRef)| {
                if field.name() != first {
                    return (field.clone(), column.clone());
                }
                let column = widened(column, rest);
                let field = Field::clone(field).with_data_type(column.data_type().clone());
                (Arc::new(field), column)
            };
            let (fields, arrays): (Vec<_>, Vec<_>) = fields.iter().zip(columns.columns()).map(column).unzip();
            Arc::new(StructArray::new(fields.into(), arrays, array.nulls().cloned()))
        }
        DataType::List(field) => {
            let list = array.as_list::<i32>();
            let values = widened(list.values(), rest);
            let field = Field::clone(field).with_data_type(values.data_type().clone());
            Arc::new(ListArray::new(Arc::new(field), list.offsets().clone(), values, list.nulls().cloned()))
        }
        _ => array.clone(),
    }
}

fn doubles(array: &ArrayRef) -> ArrayRef {
    let Some(longs) = array.as_primitive_opt::<Int64Type>() else { return array.clone() };
    let double = |long| double_of_long(long).expect("statistics show that every value is within ±2^53");
    Arc::new(longs.iter().map(|long| long.map(double)).collect::<Float64Array>())
}
