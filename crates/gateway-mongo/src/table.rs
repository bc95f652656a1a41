//! The table of commands: the rows of every module, by each spelling.

use std::collections::HashMap;
use std::sync::LazyLock;

use shardlake_mql::{Document, Value};

use crate::call::{Call, Command, command};
use crate::errors::Result;
use crate::reply::Reply;
use crate::{commands, data};

static OWN: &[Command] = &[command!("listCommands", list_commands)];

/// By each spelling: the place of the row, and the row.
static TABLE: LazyLock<HashMap<&'static str, (usize, &'static Command)>> = LazyLock::new(|| {
    let spellings = |(place, row): (usize, &'static Command)| {
        row.aliases.iter().chain([&row.name]).map(move |name| (*name, (place, row)))
    };
    rows().enumerate().flat_map(spellings).collect()
});

/// All rows. The commands on data have a table of their own.
fn rows() -> impl Iterator<Item = &'static Command> {
    let rooms = [
        OWN,
        commands::HANDSHAKE,
        commands::AUTHENTICATION,
        commands::DIAGNOSTIC,
        commands::OPERATIONS,
        commands::SESSIONS,
        commands::TRANSACTIONS,
        commands::USERS,
        commands::CURSORS,
        commands::REQUEST_STATISTICS,
        commands::FAIL_POINTS,
    ];
    rooms.into_iter().chain([data::commands()]).flatten()
}

pub fn find(name: &str) -> Option<&'static Command> {
    placed(name).map(|(_, row)| row)
}

/// A row and its place, which is that of its name in [`names`].
pub fn placed(name: &str) -> Option<(usize, &'static Command)> {
    TABLE.get(name).copied()
}

/// The names of all commands, without older spellings.
pub fn names() -> impl Iterator<Item = &'static str> {
    rows().map(|row| row.name)
}

/// `listCommands`. Other fields of the command are ignored, as in the reference.
async fn list_commands(_call: &Call) -> Result<Reply> {
    let mut rows: Vec<&Command> = rows().collect();
    rows.sort_unstable_by_key(|row| row.name);
    let mut listed = Document::new();
    for row in rows {
        listed.push(row.name, describe(row).into());
    }
    Ok(Document::one("commands", listed).into())
}

fn describe(row: &Command) -> Document {
    let api: Vec<Value> = if row.rules.is_stable { vec![Value::string("1")] } else { Vec::new() };
    let mut described = Document::new();
    described.push("help", Value::string(""));
    described.push("requiresAuth", Value::Bool(row.rules.needs_user));
    described.push("secondaryOk", Value::Bool(!row.rules.is_write));
    described.push("adminOnly", Value::Bool(row.rules.is_admin_only));
    described.push("apiVersions", Value::array(api));
    described.push("deprecatedApiVersions", Value::array(Vec::new()));
    described
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_spelling_stands_for_two_commands() {
        let spellings: usize = rows().map(|row| 1 + row.aliases.len()).sum();
        assert_eq!(TABLE.len(), spellings);
        for (place, name) in names().enumerate() {
            assert_eq!(placed(name).map(|(found, _)| found), Some(place), "{name}");
        }
    }
}
