//! A login over a front end's own protocol, with credentials and rights that the front end keeps.
//!
//! Users of a database ([`crate::User`]) are unrelated: they cannot log in.

use serde::{Deserialize, Serialize};

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Login {
    /// Random, so that a connection of a removed login never passes for a new login of the same name.
    pub number: u32,
    /// The database of the name, according to the front end; it need not exist.
    pub database: String,
    pub name: String,
    /// The front end's text: credentials and rights. It is secret.
    pub kept: String,
}

impl std::fmt::Debug for Login {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "login '{}' of '{}'", self.name, self.database)
    }
}
