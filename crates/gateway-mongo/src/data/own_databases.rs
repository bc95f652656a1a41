//! Databases that the server generates.

use shardlake_account::collections::Namespace;
use shardlake_mql::Value;

use super::{admin_database, config_database};
use crate::call::Call;
use crate::errors::Result;

/// The documents of a collection that the server generates; `None` for every other one.
pub fn own_documents(call: &Call, namespace: &Namespace) -> Result<Option<Vec<Value>>> {
    match admin_database::documents(call, namespace)? {
        Some(documents) => Ok(Some(documents)),
        None => config_database::documents(call, namespace),
    }
}
