//! Batches of one file, or of several files, with the same columns.
//!
//! Each batch leaves out columns that are NULL in its own rows. A file has the union of the columns of its
//! batches, in the schema's order.

use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::{Array, ArrayRef, ListArray, RecordBatch, StructArray, new_null_array};
use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef};

use crate::schema::TableSchema;

/// The columns that at least one of the batches has. Panics at a column that the schema has with another type:
/// batches from before a widening are widened first.
pub fn common_columns<'b>(
    schema: &TableSchema,
    batches: impl Iterator<Item = &'b Schema> + Clone,
) -> SchemaRef {
    let all = schema.arrow();
    let parts: Vec<&Fields> = batches.map(|batch| batch.fields()).collect();
    Arc::new(Schema::new(common_fields(all.fields(), &parts)))
}

/// The batch with all columns of [`common_columns`], those that it lacks as NULLs.
pub fn with_columns(batch: &RecordBatch, columns: &SchemaRef) -> RecordBatch {
    let arrays = columns.fields().iter().map(|field| match batch.column_by_name(field.name()) {
        Some(array) => expanded(array, field.data_type()),
        None => new_null_array(field.data_type(), batch.num_rows()),
    });
    RecordBatch::try_new(columns.clone(), arrays.collect()).expect("columns of one length, as expanded")
}

fn common_fields(all: &Fields, parts: &[&Fields]) -> Vec<Field> {
    let mut common = Vec::new();
    for field in all {
        let types: Vec<&DataType> = parts
            .iter()
            .filter_map(|part| part.iter().find(|part| part.name() == field.name()))
            .map(|part| part.data_type())
            .collect();
        if !types.is_empty() {
            common.push(Field::new(field.name(), common_type(field.data_type(), &types), true));
        }
    }
    common
}

fn common_type(whole: &DataType, parts: &[&DataType]) -> DataType {
    match whole {
        DataType::Struct(all) => {
            let fields: Vec<&Fields> = parts
                .iter()
                .map(|part| match part {
                    DataType::Struct(fields) => fields,
                    other => panic!("a struct column is {other}"),
                })
                .collect();
            DataType::Struct(common_fields(all, &fields).into())
        }
        DataType::List(element) => {
            let elements: Vec<&DataType> = parts
                .iter()
                .map(|part| match part {
                    DataType::List(element) => element.data_type(),
                    other => panic!("a list column is {other}"),
                })
                .collect();
            let common = common_type(element.data_type(), &elements);
            DataType::List(Arc::new(Field::new(element.name(), common, true)))
        }
        whole => {
            assert!(parts.iter().all(|part| *part == whole), "a column of {whole} has one type");
            whole.clone()
        }
    }
}

fn expanded(array: &ArrayRef, whole: &DataType) -> ArrayRef {
    match whole {
        DataType::Struct(fields) => {
            let part = array.as_struct();
            let columns = fields.iter().map(|field| match part.column_by_name(field.name()) {
                Some(column) => expanded(column, field.data_type()),
                None => new_null_array(field.data_type(), part.len()),
            });
            Arc::new(StructArray::new(fields.clone(), columns.collect(), part.nulls().cloned()))
        }
        DataType::List(element) => {
            let list = array.as_list::<i32>();
            let values = expanded(list.values(), element.data_type());
            Arc::new(ListArray::new(element.clone(), list.offsets().clone(), values, list.nulls().cloned()))
        }
        _ => array.clone(),
    }
}
