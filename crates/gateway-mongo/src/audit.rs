//! The audit log: one line for each command that asks to change a definition, an index or a user. A line has the user, the
//! namespace and the outcome, and no content.

use shardlake_mql::{Document, Value};

use crate::call::Connection;
use crate::errors::code_name;

const AUDITED: &[&str] = &[
    "_mergeAuthzCollections",
    "cloneCollectionAsCapped",
    "collMod",
    "convertToCapped",
    "create",
    "createIndexes",
    "createRole",
    "createUser",
    "customAction",
    "drop",
    "dropAllUsersFromDatabase",
    "dropDatabase",
    "dropIndexes",
    "dropRole",
    "dropUser",
    "enableSharding",
    "grantRolesToUser",
    "renameCollection",
    "revokeRolesFromUser",
    "setParameter",
    "shardCollection",
    "updateRole",
    "updateUser",
];

/// Of a resource in a line: names that are refused may be of any length.
const TEXT_BYTES_MAX: usize = 1024;

/// A command to be logged when it has ended.
pub struct Audited {
    command: &'static str,
    caller: String,
    resource: String,
    connection: i32,
}

impl Audited {
    /// `None` where the command changes no definition.
    pub fn of(command: &'static str, body: &Document, connection: &Connection) -> Option<Audited> {
        AUDITED.binary_search(&command).ok()?;
        let caller = match connection.principal() {
            Some(principal) => format!("user {}", principal.key()),
            None => format!("client {} without a user", connection.ends.client.ip()),
        };
        let database = body.get("$db").and_then(Value::as_str).unwrap_or_default();
        let resource = match body.first().and_then(|(_, first)| first.as_str()) {
            // Commands on databases have a number there.
            None => database.to_owned(),
            Some(whole) if matches!(command, "renameCollection" | "shardCollection" | "enableSharding") => {
                whole.to_owned()
            }
            Some(name) => format!("{database}.{name}"),
        };
        let resource = resource[..resource.floor_char_boundary(TEXT_BYTES_MAX)].escape_debug().to_string();
        Some(Audited { command, caller, resource, connection: connection.id })
    }

    /// `code` is of the error.
    pub fn log(self, code: Option<i32>) {
        tracing::info!(
            target: "audit",
            api = "mongodb",
            caller = self.caller,
            operation = self.command,
            resource = self.resource,
            outcome = if code.is_none() { "done" } else { "refused" },
            code,
            error = code.map(|code| code_name(code).into_owned()),
            connection = self.connection,
            "{} {}",
            self.command,
            self.resource,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn audited_commands_are_found_by_their_names() {
        assert!(AUDITED.is_sorted(), "{AUDITED:?}");
        for name in AUDITED {
            assert!(crate::table::find(name).is_some_and(|row| row.name == *name), "{name}");
        }
    }
}
