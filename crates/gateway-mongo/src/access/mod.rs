//! Who may use the server, and how they prove who they are.

mod conversation;
mod mechanism;
mod scram;
mod users;

use std::sync::Arc;

pub use conversation::{Conversation, Step};
pub use mechanism::Mechanism;
pub use users::{Key, Users};

/// What somebody who has proved an identity may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    Full,
    /// Reads alone.
    ReadOnly,
}

impl Access {
    /// The role of the reference that is most like it.
    pub fn role(self) -> &'static str {
        match self {
            Access::Full => "root",
            Access::ReadOnly => "readAnyDatabase",
        }
    }
}

/// Somebody who has proved an identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    pub name: String,
    /// Where the client said that the user is.
    pub database: String,
    pub access: Access,
}

impl Principal {
    /// Tells users apart.
    pub fn key(&self) -> Arc<str> {
        format!("{}.{}", self.database, self.name).into()
    }
}
