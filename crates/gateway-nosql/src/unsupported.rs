//! Refusals of unsupported features: every real feature of the reference that this server does not have yet.
//!
//! Refusals come before anything is done, and name the feature.

use shardlake_model::Error;

pub(crate) fn resource(feature: &str) -> Error {
    Error::unsupported(format!("{feature}: not supported by this server yet; nothing was done"))
}

pub(crate) fn hybrid_row_item() -> Error {
    Error::unsupported(
        "items in the HybridRow binary format are not supported: send JSON text or Cosmos binary JSON; nothing was done",
    )
}

pub(crate) fn container_member(name: &str) -> Error {
    Error::unsupported(format!(
        "the container property '{name}' is not supported yet: leave it out; nothing was done"
    ))
}

pub(crate) fn database_member(name: &str) -> Error {
    Error::unsupported(format!(
        "the database property '{name}' is not supported: leave it out; nothing was done"
    ))
}

pub(crate) fn user_member(name: &str) -> Error {
    Error::unsupported(format!("the user property '{name}' is not supported: leave it out; nothing was done"))
}

pub(crate) fn permission_member(name: &str) -> Error {
    Error::unsupported(format!(
        "the permission property '{name}' is not supported: leave it out; nothing was done"
    ))
}

pub(crate) fn script_member(kind: &str, name: &str) -> Error {
    Error::unsupported(format!(
        "the property '{name}' of a {kind} is not supported: leave it out; nothing was done"
    ))
}

pub(crate) fn query_of_changes() -> Error {
    Error::unsupported(
        "a query over the change feed is not supported: read the change feed without a query, or query without header 'A-IM'; nothing was read",
    )
}

pub(crate) fn point_read_key() -> Error {
    Error::unsupported(
        "x-ms-read-key-type 'EffectivePartitionKey' is not supported yet: send the partition key or an effective partition key range; nothing was read",
    )
}
