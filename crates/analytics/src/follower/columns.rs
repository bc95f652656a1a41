//! Columns of a table as people write them.

use shardlake_analytical_table::schema::{ColumnType, TableSchema};

use crate::report::ColumnReport;

/// The columns of properties at the root level, in their order.
pub fn describe(schema: &TableSchema) -> Vec<ColumnReport> {
    let columns = schema.fields().iter().map(|field| ColumnReport {
        name: field.column.clone(),
        kind: text(&field.column_type),
        property: (field.property != field.column).then(|| field.property.clone()),
    });
    columns.collect()
}

fn text(column: &ColumnType) -> String {
    let members = |members: Vec<String>| format!("struct<{}>", members.join(", "));
    match column {
        ColumnType::Scalar(scalar) => scalar.delta().to_owned(),
        ColumnType::Object(fields) => members(
            fields.iter().map(|field| format!("{} {}", field.column, text(&field.column_type))).collect(),
        ),
        ColumnType::List(element) => {
            format!("list<{}>", element.as_deref().map_or_else(|| "null".to_owned(), text))
        }
        ColumnType::Value(value) => {
            members(value.iter().map(|(member, kind)| format!("{} {}", member.name(), text(kind))).collect())
        }
    }
}
