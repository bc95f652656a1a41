//! The path of a column, and its widening from `long` to `double`.

use std::fmt;

use super::arrow_types::ELEMENT;
use super::column_type::{ColumnType, Fields, Scalar};
use super::table_schema::TableSchema;

/// Column names from the root on, with [`ELEMENT`] for the step into a list, as Delta writes paths.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ColumnPath {
    pub names: Vec<String>,
}

impl TableSchema {
    /// Makes a `long` column a `double` column. Returns whether the path names a `long` column.
    pub fn widen(&mut self, path: &ColumnPath) -> bool {
        let Some(column_type) = in_fields_mut(&mut self.fields, &path.names) else { return false };
        let is_long = *column_type == ColumnType::Scalar(Scalar::Long);
        if is_long {
            *column_type = ColumnType::Scalar(Scalar::Double);
        }
        is_long
    }

    /// The type at a path of the properties' columns.
    pub fn type_at(&self, path: &ColumnPath) -> Option<&ColumnType> {
        let (first, rest) = path.names.split_first()?;
        let mut column_type = &self.fields.get(self.fields.by_column(first)?).column_type;
        for name in rest {
            column_type = match column_type {
                ColumnType::Object(fields) => &fields.get(fields.by_column(name)?).column_type,
                ColumnType::List(Some(element)) if name == ELEMENT => element,
                _ => return None,
            };
        }
        Some(column_type)
    }

    /// The path of a column in a Parquet file's own schema, which has one more level in each list.
    pub fn parquet_path(&self, path: &ColumnPath) -> Option<Vec<String>> {
        let mut names = Vec::with_capacity(path.names.len() + 1);
        for (index, name) in path.names.iter().enumerate() {
            let parent = ColumnPath { names: path.names[..index].to_vec() };
            if index > 0 && matches!(self.type_at(&parent)?, ColumnType::List(_)) {
                names.push("list".to_owned());
            }
            names.push(name.clone());
        }
        self.type_at(path).map(|_| names)
    }
}

fn in_fields_mut<'t>(fields: &'t mut Fields, names: &[String]) -> Option<&'t mut ColumnType> {
    let (first, rest) = names.split_first()?;
    let index = fields.by_column(first)?;
    in_type_mut(&mut fields.get_mut(index).column_type, rest)
}

fn in_type_mut<'t>(column_type: &'t mut ColumnType, names: &[String]) -> Option<&'t mut ColumnType> {
    let Some((first, rest)) = names.split_first() else { return Some(column_type) };
    match column_type {
        ColumnType::Object(fields) => in_fields_mut(fields, names),
        ColumnType::List(Some(element)) if first == ELEMENT => in_type_mut(element, rest),
        _ => None,
    }
}

impl fmt::Display for ColumnPath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.names.join("."))
    }
}
