//! Why a resource is not found, or not changed.

use shardlake_catalog::CatalogError;
use shardlake_model::{Error, ErrorKind, Preconditions, Result};
use shardlake_partition::storage_error;
use shardlake_stdx::Guid;

pub fn not_found(kind: &str, segment: &str) -> Error {
    Error::new(
        ErrorKind::NotFound,
        format!("Entity with the specified id does not exist in the system. There is no {kind} '{segment}'"),
    )
}

pub fn owner_not_found(kind: &str, segment: &str) -> Error {
    Error::new(
        ErrorKind::OwnerNotFound,
        format!("Owner resource does not exist. There is no {kind} '{segment}'"),
    )
}

pub fn conflict(kind: &str, id: &str) -> Error {
    Error::new(
        ErrorKind::Conflict,
        format!("Entity with the specified id already exists in the system. There is a {kind} '{id}'"),
    )
}

pub fn check_preconditions(etag: [u8; 16], preconditions: &Preconditions) -> Result<()> {
    match &preconditions.if_match {
        Some(condition) if !condition.matches(&Guid(etag)) => Err(Error::new(
            ErrorKind::PreconditionFailed,
            "Operation cannot be performed because one of the specified precondition is not met",
        )),
        _ => Ok(()),
    }
}

pub fn was_deleted() -> Error {
    Error::new(ErrorKind::OwnerNotFound, "the container was deleted")
}

pub fn catalog_error(error: CatalogError) -> Error {
    let kind = match error {
        CatalogError::Storage(error) => return storage_error(error),
        CatalogError::Corrupt(_) => ErrorKind::Corrupt,
        CatalogError::Refused(_) => ErrorKind::Internal,
        CatalogError::InDoubt | CatalogError::Closed => ErrorKind::Unavailable,
    };
    Error::new(kind, error.to_string()).with_source(error)
}
