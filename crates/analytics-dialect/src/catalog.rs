//! Tables that a statement may name, as plain data.

/// Tables and the default database of a statement.
#[derive(Debug, Clone, Copy, Default)]
pub struct Settings<'a> {
    /// Database of tables that are named without one.
    pub database: Option<&'a str>,
    pub tables: &'a [Table],
}

/// An analytical table. Without columns its columns count as unknown, and nothing about them is checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    pub database: String,
    pub container: String,
    pub columns: Vec<Column>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    pub name: String,
    pub kind: Kind,
}

impl Column {
    pub fn new(name: &str, kind: Kind) -> Column {
        Column { name: name.to_owned(), kind }
    }
}

/// Type of a column or of an expression, as far as the translation depends on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    Boolean,
    /// Integers of 64 bits.
    Long,
    /// Numbers that are not integers.
    Double,
    Text,
    Struct(Vec<Column>),
    List(Box<Kind>),
    /// Another type, or an unknown one.
    Other,
}

/// Name of a table that a statement reads.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct TableName {
    pub database: String,
    pub container: String,
}

/// The name of the column for a property: characters that break quoting, or that Spark refuses, are written `_xHHHH_`.
pub fn column_of_property(property: &str) -> String {
    let mut out = String::with_capacity(property.len());
    for c in property.chars() {
        match c {
            ' ' | ',' | ':' | ';' | '{' | '}' | '(' | ')' | '=' | '\t' | '\n' | '\r' | '`' | '"' => {
                out.push_str(&format!("_x{:04X}_", u32::from(c)));
            }
            c => out.push(c),
        }
    }
    out
}
