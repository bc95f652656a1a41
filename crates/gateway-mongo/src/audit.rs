//! The audit log: one line for each command that asks to change a definition, an index or a user, for each pipeline that is
//! written by `$out` or `$merge`, and for each collection that a write creates. A line has the user, the namespace and the
//! outcome, and no content.

use shardlake_account::collections::{CreationLog, Namespace};
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
        let database = body.get("$db").and_then(Value::as_str).unwrap_or_default();
        if let Some((command, resource)) = written_by(command, body, database) {
            let (caller, resource) = (caller_of(connection), shown(&resource));
            return Some(Audited { command, caller, resource, connection: connection.id });
        }
        AUDITED.binary_search(&command).ok()?;
        let caller = caller_of(connection);
        let resource = match body.first().and_then(|(_, first)| first.as_str()) {
            // Commands on databases have a number there.
            None => database.to_owned(),
            Some(whole) if matches!(command, "renameCollection" | "shardCollection" | "enableSharding") => {
                whole.to_owned()
            }
            Some(name) => format!("{database}.{name}"),
        };
        Some(Audited { command, caller, resource: shown(&resource), connection: connection.id })
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

fn caller_of(connection: &Connection) -> String {
    match connection.principal() {
        Some(principal) => format!("user {}", principal.key()),
        None => format!("client {} without a user", connection.ends.client.ip()),
    }
}

/// A name in a line: cut, and escaped, so that it cannot begin a line of its own.
fn shown(name: &str) -> String {
    name[..name.floor_char_boundary(TEXT_BYTES_MAX)].escape_debug().to_string()
}

/// The last stage of a pipeline that writes its results, and the collection that it names.
fn written_by(command: &str, body: &Document, database: &str) -> Option<(&'static str, String)> {
    let stages = body.get("pipeline").filter(|_| command == "aggregate")?.as_array()?;
    let (name, stage) = stages.last()?.as_document()?.first()?;
    let (name, target) = match &**name {
        "$out" => ("$out", Some(stage)),
        "$merge" => ("$merge", stage.as_document().map_or(Some(stage), |stage| stage.get("into"))),
        _ => return None,
    };
    // A malformed stage is refused: its line names the database.
    let text =
        |document: &Document, member: &str| document.get(member).and_then(Value::as_str).map(str::to_owned);
    let target = target.map(|target| match (target.as_str(), target.as_document()) {
        (Some(collection), _) => format!("{database}.{collection}"),
        (_, Some(target)) => {
            let other = text(target, "db").unwrap_or_else(|| database.to_owned());
            format!("{other}.{}", text(target, "coll").unwrap_or_default())
        }
        _ => database.to_owned(),
    });
    Some((name, target.unwrap_or_else(|| database.to_owned())))
}

/// Logs the collections that the writes of a connection create.
impl CreationLog for Connection {
    fn note(&self, created: &Namespace) {
        let resource = shown(&created.to_string());
        let created = Audited { command: "create", caller: caller_of(self), resource, connection: self.id };
        created.log(None);
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
