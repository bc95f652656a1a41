//! A schema as Arrow types.

use std::sync::Arc;

use arrow_schema::{
    DataType, Field as ArrowField, FieldRef, Fields as ArrowFields, Schema, SchemaRef, TimeUnit,
};

use super::column_type::{ColumnType, Fields, Members, Scalar};
use super::table_schema::TableSchema;

/// The name of a list's element in Arrow and Parquet.
pub const ELEMENT: &str = "element";

impl TableSchema {
    /// All columns in their order: `_rid`, `_ts`, `id`, `_etag`, properties, `_lsn`, `_rest`.
    pub fn arrow(&self) -> SchemaRef {
        let field = |name: &str, data_type| Arc::new(ArrowField::new(name, data_type, true));
        let mut fields: Vec<FieldRef> = vec![
            field("_rid", DataType::Utf8),
            field("_ts", DataType::Int64),
            field("id", DataType::Utf8),
            field("_etag", DataType::Utf8),
        ];
        fields.extend(of_fields(&self.fields).iter().cloned());
        fields.push(field("_lsn", DataType::Int64));
        fields.push(field("_rest", DataType::Utf8));
        Arc::new(Schema::new(fields))
    }
}

/// The Arrow type of a column.
pub fn arrow_type(column_type: &ColumnType) -> DataType {
    match column_type {
        ColumnType::Scalar(scalar) => scalar.arrow(),
        ColumnType::Object(fields) => DataType::Struct(of_fields(fields)),
        ColumnType::List(element) => {
            let element = element.as_ref().expect("a complete schema has no list without an element type");
            DataType::List(Arc::new(ArrowField::new(ELEMENT, arrow_type(element), true)))
        }
        ColumnType::Value(members) => DataType::Struct(of_members(members)),
    }
}

impl Scalar {
    pub fn arrow(self) -> DataType {
        match self {
            Scalar::String => DataType::Utf8,
            Scalar::Boolean => DataType::Boolean,
            Scalar::Integer => DataType::Int32,
            Scalar::Long => DataType::Int64,
            Scalar::Double => DataType::Float64,
            Scalar::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            Scalar::Binary => DataType::Binary,
        }
    }
}

fn of_fields(fields: &Fields) -> ArrowFields {
    fields.iter().map(|field| ArrowField::new(&field.column, arrow_type(&field.column_type), true)).collect()
}

fn of_members(members: &Members) -> ArrowFields {
    members.iter().map(|(member, inner)| ArrowField::new(member.name(), arrow_type(inner), true)).collect()
}
