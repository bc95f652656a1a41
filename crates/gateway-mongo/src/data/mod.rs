//! Commands on documents, collections, databases and indexes: what needs the engine.

use crate::call::Command;

/// Their rows of the table of commands.
pub fn commands() -> &'static [Command] {
    &[]
}
