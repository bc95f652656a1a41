//! Types of columns as the query engine reads them: texts and bytes of root columns as views, which share the memory of decoded pages.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef};

/// The columns of a table, in its order.
pub(super) fn read_schema(table: &Schema) -> SchemaRef {
    let fields = table.fields().iter().map(|field| {
        let data_type = match field.data_type() {
            DataType::Utf8 => DataType::Utf8View,
            DataType::Binary => DataType::BinaryView,
            other => other.clone(),
        };
        Arc::new(Field::new(field.name(), data_type, true))
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}
