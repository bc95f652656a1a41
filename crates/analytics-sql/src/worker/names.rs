//! Tables that a statement names. Names keep their case; a wrong one is answered with the name that was probably meant.

use datafusion::common::{Column, TableReference};
use shardlake_stdx::near_miss;

use crate::protocol::{Failure, FailureKind};
use crate::table::Catalog;

const SCHEMA_OF_ENGINE: &str = "information_schema";

/// The tables, each with its database; the first name that no table has is an error. Functions that give rows have no database.
pub(super) fn resolve(
    references: &[TableReference],
    catalog: &Catalog,
    (database, is_function): (Option<&str>, &dyn Fn(&str) -> bool),
) -> Result<Vec<(String, String)>, Failure> {
    let is_of_engine = |reference: &&TableReference| match reference.schema() {
        Some(schema) => schema == SCHEMA_OF_ENGINE,
        None => is_function(reference.table()),
    };
    let own = references.iter().filter(|reference| !is_of_engine(reference));
    own.map(|reference| resolve_one(reference, catalog, database)).collect()
}

fn resolve_one(
    reference: &TableReference,
    catalog: &Catalog,
    database: Option<&str>,
) -> Result<(String, String), Failure> {
    let name = reference.table();
    let Some(schema) = reference.schema().or(database) else { return Err(without_database(name, catalog)) };
    if catalog.find(schema, name).is_some() {
        return Ok((schema.to_owned(), name.to_owned()));
    }
    let tables = catalog.tables();
    let same_case = |a: &str, b: &str| a.to_lowercase() == b.to_lowercase();
    let meant = tables
        .iter()
        .find(|table| same_case(&table.database, schema) && same_case(&table.container, name));
    if let Some(table) = meant {
        let right = format!("{}.{}", table.database, table.container);
        let message = format!("there is no table '{schema}.{name}': names keep their case, write {right}");
        return Err(Failure::new(FailureKind::Statement, message));
    }
    let of_database: Vec<&str> =
        tables.iter().filter(|table| table.database == schema).map(|table| table.container.as_str()).collect();
    let message = match near_miss(name, of_database.iter().copied()) {
        Some(near) => format!("there is no table '{schema}.{name}': did you mean {schema}.{near}?"),
        None if of_database.is_empty() => format!(
            "no container of the database '{schema}' has an analytical store: create or replace one with analyticalStorageTtl -1"
        ),
        None => format!(
            "there is no table '{schema}.{name}': a container has one when its definition has analyticalStorageTtl; the database has {}",
            of_database.join(", ")
        ),
    };
    let kind = if of_database.is_empty() { FailureKind::NotEnabled } else { FailureKind::Statement };
    Err(Failure::new(kind, message))
}

fn without_database(name: &str, catalog: &Catalog) -> Failure {
    let found = catalog.tables().iter().find(|table| table.container == name);
    let example = found.map_or_else(|| format!("database.{name}"), |table| format!("{}.{name}", table.database));
    Failure::new(
        FailureKind::Statement,
        format!("the table '{name}' has no database: write {example}, or send the member \"database\""),
    )
}

/// The message for a column that no table of the statement has.
pub(super) fn unknown_column(column: &Column, valid: &[Column]) -> String {
    let name = column.name();
    let lower = name.to_lowercase();
    let names = || valid.iter().map(|column| column.name());
    let shown = column.relation.as_ref().map_or_else(|| name.to_owned(), |table| format!("{}.{name}", table.table()));
    if let Some(right) = names().find(|valid| valid.to_lowercase() == lower && *valid != name) {
        return format!("there is no column '{shown}': names keep their case, write {}", quoted(right));
    }
    match near_miss(name, names()) {
        Some(near) => format!("there is no column '{shown}': did you mean {}?", quoted(near)),
        None => format!("there is no column '{shown}': DESCRIBE the table shows its columns"),
    }
}

/// Names with characters other than letters, digits and underscores need quotes.
fn quoted(name: &str) -> String {
    let is_plain = name.chars().all(|character| character.is_ascii_alphanumeric() || character == '_');
    if is_plain { name.to_owned() } else { format!("\"{name}\"") }
}
