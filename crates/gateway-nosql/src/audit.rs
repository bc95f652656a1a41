//! The audit log: one line for each request that asks to change a definition, a user, a permission or a projection, or that
//! moves partitions or copies the account. A line has the caller, the resource and the outcome, and no content.

use std::sync::LazyLock;

use percent_encoding::percent_decode_str;
use serde_json::Value;
use shardlake_account::Account;
use shardlake_admin::OperatorReply;
use shardlake_model::{Error, Result};
use shardlake_stdx::Guid;

use crate::auth::Caller;
use crate::errors::{self, Failure};
use crate::operation_name::OperationName;
use crate::reply::Reply;

/// A request to be logged when it ends. A request whose client left, or whose time ran out, may have had its effect: its outcome is
/// `unknown`.
pub(crate) struct Audited {
    operation: OperationName,
    caller: String,
    resource: String,
    activity_id: Guid,
    outcome: &'static str,
    status: Option<u16>,
    error: Option<String>,
}

/// Of a resource or an error in a line: ids that are refused may be of any length.
const TEXT_BYTES_MAX: usize = 1024;

/// By operation: each request asks.
static WANTED: LazyLock<Vec<bool>> =
    LazyLock::new(|| OperationName::ALL.iter().map(|name| Audited::changes_a_definition(*name)).collect());

impl Audited {
    pub fn is_wanted(operation: OperationName) -> bool {
        WANTED[operation as usize]
    }

    fn changes_a_definition(operation: OperationName) -> bool {
        let name = operation.as_str();
        let changes =
            ["Create", "Upsert", "Replace", "Delete", "Put", "Pause", "Resume", "Replay", "Rollback"];
        let is_of_items = matches!(
            operation,
            OperationName::CreateItem
                | OperationName::UpsertItem
                | OperationName::ReplaceItem
                | OperationName::DeleteItem
                | OperationName::DeleteConflict
        );
        let is_admin = matches!(
            operation,
            OperationName::AdminSplit
                | OperationName::AdminMerge
                | OperationName::AdminMove
                | OperationName::AdminAbortRelocation
                | OperationName::AdminThroughput
                | OperationName::BeginBackup
                | OperationName::EndBackup
                | OperationName::RotateKey
        );
        is_admin || !is_of_items && changes.iter().any(|change| name.starts_with(change))
    }

    pub fn new(operation: OperationName, caller: String, resource: String, activity_id: Guid) -> Audited {
        Audited { operation, caller, resource, activity_id, outcome: "unknown", status: None, error: None }
    }

    pub fn log(self, outcome: &Result<Reply, Failure>) {
        match outcome {
            Ok(reply) => self.end(reply.status.as_u16(), None),
            Err(failure) => self.end_with(&failure.error),
        }
    }

    pub fn log_admin(self, outcome: std::result::Result<&OperatorReply, &Error>) {
        match outcome {
            Ok(OperatorReply { failure: Some((error, _)), .. }) | Err(error) => self.end_with(error),
            Ok(reply) => self.end(reply.status.as_u16(), None),
        }
    }

    fn end_with(self, error: &Error) {
        self.end(errors::shape(error.kind()).status.as_u16(), Some(error.message()));
    }

    /// Writes the line, by being dropped.
    fn end(mut self, status: u16, error: Option<&str>) {
        self.outcome = if error.is_none() { "done" } else { "refused" };
        self.status = Some(status);
        self.error = error.map(shown);
    }
}

impl Drop for Audited {
    fn drop(&mut self) {
        let resource = shown(&self.resource);
        tracing::info!(
            target: "audit",
            api = "nosql",
            caller = self.caller,
            operation = self.operation.as_str(),
            resource,
            outcome = self.outcome,
            status = self.status,
            error = self.error,
            activity_id = %self.activity_id,
            "{} {resource}",
            self.operation.as_str(),
        );
    }
}

/// A text in a line: cut, and escaped, so that a name cannot begin a line of its own.
fn shown(text: &str) -> String {
    text[..text.floor_char_boundary(TEXT_BYTES_MAX)].escape_debug().to_string()
}

/// `key_name` finds the name of the key that signed the request.
pub(crate) fn caller_of(caller: &Caller, key_name: impl FnOnce() -> String) -> String {
    match caller {
        Caller::Key(_) => key_name(),
        Caller::Token(grant) => format!("resource token of permission '{}'", grant.permission.definition.id),
    }
}

/// The path of the resource that changes, decoded. A resource that is created is named in the body alone, and so is the owner
/// of an offer.
pub(crate) fn resource_of(account: &Account, operation: OperationName, path: &str, body: &[u8]) -> String {
    let resource = decoded(path);
    let name = operation.as_str();
    let member = |member: &str| {
        let body: Option<Value> = serde_json::from_slice(body).ok();
        body.and_then(|body| Some(body.get(member)?.as_str()?.to_owned()))
    };
    if name.starts_with("Create") || name.starts_with("Upsert") {
        return match member("id") {
            Some(id) => format!("{resource}/{id}"),
            None => resource,
        };
    }
    if operation == OperationName::ReplaceOffer
        && let Some(owner) = member("resource")
    {
        let segments: Vec<&str> = owner.trim_matches('/').split('/').collect();
        let owner = match segments[..] {
            ["dbs", database, "colls", container] => {
                let container = account.router().container(database, container);
                container.map_or_else(|_| owner.clone(), |container| container.alt_link().to_owned())
            }
            ["dbs", database] => {
                let database = account.router().database(database);
                database.map_or_else(|_| owner.clone(), |database| format!("dbs/{}", database.id))
            }
            _ => owner,
        };
        return format!("{resource} of {owner}");
    }
    resource
}

pub(crate) fn decoded(path: &str) -> String {
    percent_decode_str(path.trim_matches('/')).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_are_audited_and_items_are_not() {
        let wanted = |name: &str| {
            let operation = OperationName::ALL.iter().find(|operation| operation.as_str() == name);
            Audited::is_wanted(*operation.expect("an operation"))
        };
        for name in [
            "CreateDatabase",
            "ReplaceContainer",
            "DeleteTrigger",
            "UpsertPermission",
            "ReplaceOffer",
            "DeletePartitionKey",
            "AdminMove",
            "PutProjection",
            "DeleteFunction",
            "RollbackFunction",
            "EndBackup",
            "RotateKey",
        ] {
            assert!(wanted(name), "{name}");
        }
        for name in
            ["CreateItem", "DeleteItem", "Batch", "QueryItems", "ReadPermission", "AdminHeat", "Other"]
        {
            assert!(!wanted(name), "{name}");
        }
    }
}
