//! Somebody who signs in over a front end's own protocol, with credentials and rights that the front end keeps.
//!
//! Users of a database ([`crate::User`]) are another thing: nobody signs in as one.

use serde::{Deserialize, Serialize};

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Login {
    /// Random, so that a connection of a login that was removed never passes for one of the same name.
    pub number: u32,
    /// Where the front end says that the name is; it need not exist.
    pub database: String,
    pub name: String,
    /// Text of the front end's: what proves the login, and what it may do. It is secret.
    pub kept: String,
}

impl std::fmt::Debug for Login {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "login '{}' of '{}'", self.name, self.database)
    }
}
