//! Authentication and authorization.
//!
//! | file | contents |
//! |---|---|
//! | `scram.rs`, `mechanism.rs`, `conversation.rs` | proofs of a password, message by message |
//! | `users.rs` | the account, and the users in the catalog |
//! | `logins.rs` | the catalog's record of a user |
//! | `system_users.rs` | the same record as a document of the reference's `admin.system.users` |
//! | `roles.rs` | the built-in roles |
//! | `privileges.rs` | privileges that a command requires |

mod conversation;
mod logins;
mod mechanism;
mod privileges;
mod roles;
mod scram;
mod system_users;
mod users;

use std::sync::Arc;

pub use conversation::{Conversation, Step};
pub use logins::{Kept, Proof};
pub use mechanism::Mechanism;
pub use privileges::{Privilege, wanted};
pub use roles::{Rights, Role};
pub use system_users::SystemUser;
pub use users::{Key, Users};

/// Access granted by a key of the account.
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

/// Kind of identity that a client has proved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Identity {
    /// A key of the account.
    Account(Access),
    /// The password of a user made by `createUser`, by its number in the catalog. The catalog holds its current roles.
    User(u32),
}

/// An authenticated user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    pub name: String,
    /// The authentication database that the client named.
    pub database: String,
    pub identity: Identity,
}

impl Principal {
    /// Unique key of the user.
    pub fn key(&self) -> Arc<str> {
        format!("{}.{}", self.database, self.name).into()
    }

    pub fn is_read_only(&self) -> bool {
        self.identity == Identity::Account(Access::ReadOnly)
    }
}
