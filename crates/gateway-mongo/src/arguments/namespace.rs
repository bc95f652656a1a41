//! Names of databases and collections.

use shardlake_mql::Value;

use crate::errors::{Result, code, error, fail};

const DATABASE_SIZE_BYTES_MAX: usize = 63;
pub const NAMESPACE_SIZE_BYTES_MAX: usize = 255;

/// Whether a database may have this name.
pub fn check_database(name: &str) -> Result<()> {
    let is_bad = |character: char| "/\\. \"$*<>:|?\0".contains(character);
    // A virtual database that drivers and tools name.
    if name == "$external" {
        return Ok(());
    }
    if name.is_empty() || name.len() > DATABASE_SIZE_BYTES_MAX || name.contains(is_bad) {
        fail!(code::INVALID_NAMESPACE, "Invalid database name: '{name}'");
    }
    Ok(())
}

/// Whether a command may name a collection like this. Rules for new names are stricter.
pub fn check_collection(database: &str, name: &str) -> Result<()> {
    let is_bad = |character: char| character == '\0';
    if name.is_empty() || name.starts_with('.') || name.contains(is_bad) {
        fail!(code::INVALID_NAMESPACE, "Invalid collection name: '{name}'");
    }
    if database.len() + 1 + name.len() > NAMESPACE_SIZE_BYTES_MAX {
        fail!(
            code::INVALID_NAMESPACE,
            "Fully qualified namespace is too long: {} bytes, at most {NAMESPACE_SIZE_BYTES_MAX}",
            database.len() + 1 + name.len()
        );
    }
    Ok(())
}

/// The collection that a command's first field names; error 73 for another type or an invalid name.
pub fn collection<'b>(database: &str, value: &'b Value) -> Result<&'b str> {
    let Some(name) = value.as_str() else {
        return Err(error!(
            code::INVALID_NAMESPACE,
            "collection name has invalid type {}",
            value.type_name()
        ));
    };
    check_collection(database, name)?;
    Ok(name)
}
