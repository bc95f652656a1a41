//! Columns that a statement names wrongly, with the names that were probably meant.

use datafusion::common::Column;
use shardlake_stdx::near_miss;

/// The message for a column that no table of the statement has.
pub(super) fn unknown_column(column: &Column, valid: &[Column]) -> String {
    let name = column.name();
    let lower = name.to_lowercase();
    let names = || valid.iter().map(|column| column.name());
    let shown =
        column.relation.as_ref().map_or_else(|| name.to_owned(), |table| format!("{}.{name}", table.table()));
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
