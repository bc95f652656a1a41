//! Columns of batches: which ones a file needs, and batches brought to the columns of a file.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Float64Array, ListArray, RecordBatch, StructArray, new_null_array};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Fields, Schema, SchemaRef};

/// The table's columns that at least one of the batches has; the others are NULL in all rows and
/// stay out of a file.
pub fn present(table: &Schema, batches: &[RecordBatch]) -> SchemaRef {
    let seen: Vec<SchemaRef> = batches.iter().map(RecordBatch::schema).collect();
    let fields: Vec<&Fields> = seen.iter().map(|schema| schema.fields()).collect();
    Arc::new(Schema::new(present_fields(table.fields(), &fields)))
}

fn present_fields(fields: &Fields, seen: &[&Fields]) -> Fields {
    let kept = fields.iter().filter_map(|field| {
        let types: Vec<&DataType> = seen
            .iter()
            .filter_map(|fields| Some(fields.iter().find(|found| found.name() == field.name())?.data_type()))
            .collect();
        (!types.is_empty()).then(|| with_type(field, present_type(field.data_type(), &types)))
    });
    let kept: Fields = kept.collect();
    // A struct without members cannot be stored.
    if kept.is_empty() { fields.iter().take(1).cloned().collect() } else { kept }
}

fn present_type(table: &DataType, seen: &[&DataType]) -> DataType {
    match table {
        DataType::Struct(fields) => {
            let seen = seen.iter().filter_map(|found| match found {
                DataType::Struct(fields) => Some(fields),
                _ => None,
            });
            DataType::Struct(present_fields(fields, &seen.collect::<Vec<_>>()))
        }
        DataType::List(element) => {
            let seen = seen.iter().filter_map(|found| match found {
                DataType::List(element) => Some(element.data_type()),
                _ => None,
            });
            let inner = present_type(element.data_type(), &seen.collect::<Vec<_>>());
            DataType::List(with_type(element, inner))
        }
        other => other.clone(),
    }
}

fn with_type(field: &FieldRef, data_type: DataType) -> FieldRef {
    Arc::new(Field::new(field.name(), data_type, true))
}

/// The batch with exactly these columns: missing ones are NULL, and `long` becomes `double` where
/// the table's column was widened.
pub fn align(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    if batch.schema().fields() == schema.fields() {
        return Ok(batch.clone());
    }
    let columns = schema.fields().iter().map(|field| match batch.column_by_name(field.name()) {
        Some(column) => align_array(column, field.data_type()),
        None => Ok(new_null_array(field.data_type(), batch.num_rows())),
    });
    RecordBatch::try_new(schema.clone(), columns.collect::<Result<_, _>>()?)
}

fn align_array(array: &ArrayRef, target: &DataType) -> Result<ArrayRef, ArrowError> {
    match (array.data_type(), target) {
        (from, to) if from == to => Ok(array.clone()),
        (DataType::Struct(_), DataType::Struct(fields)) => {
            let from = array.as_struct();
            let columns = fields.iter().map(|field| match from.column_by_name(field.name()) {
                Some(column) => align_array(column, field.data_type()),
                None => Ok(new_null_array(field.data_type(), array.len())),
            });
            let columns = columns.collect::<Result<_, _>>()?;
            Ok(Arc::new(StructArray::try_new_with_length(
                fields.clone(),
                columns,
                from.nulls().cloned(),
                array.len(),
            )?))
        }
        (DataType::List(_), DataType::List(element)) => {
            let from = array.as_list::<i32>();
            let values = align_array(from.values(), element.data_type())?;
            let (offsets, nulls) = (from.offsets().clone(), from.nulls().cloned());
            Ok(Arc::new(ListArray::try_new(element.clone(), offsets, values, nulls)?))
        }
        (DataType::Int64, DataType::Float64) => {
            let from = array.as_primitive::<Int64Type>();
            let doubles: Float64Array = from.iter().map(|value| value.map(exact_double)).collect();
            Ok(Arc::new(doubles))
        }
        (from, to) => Err(ArrowError::CastError(format!("a column of {from} is not one of {to}"))),
    }
}

/// Greatest magnitude up to which every integer is a double.
pub const EXACT_DOUBLES: i64 = 1 << 53;

fn exact_double(value: i64) -> f64 {
    assert!(value.unsigned_abs() <= EXACT_DOUBLES.unsigned_abs(), "{value} loses digits as a double");
    value as f64
}
