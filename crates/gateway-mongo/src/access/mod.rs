//! Who may use the server, and how they prove who they are.

use std::sync::Arc;

/// What somebody who has proved an identity may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    Full,
    /// Reads alone.
    ReadOnly,
}

/// Somebody who has proved an identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    pub name: String,
    /// Where the user was made, or was looked for.
    pub database: String,
    pub access: Access,
}

impl Principal {
    /// Tells users apart.
    pub fn key(&self) -> Arc<str> {
        format!("{}.{}", self.database, self.name).into()
    }
}

/// A proof of identity in progress.
#[derive(Debug)]
pub struct Conversation {}
