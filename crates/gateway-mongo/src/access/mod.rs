//! Who may use the server, how they prove who they are, and what they may do.
//!
//! | file | what it does |
//! |---|---|
//! | `scram.rs`, `mechanism.rs`, `conversation.rs` | proofs of a password, message by message |
//! | `users.rs` | who there is: the account, and those whom the catalog keeps |
//! | `logins.rs` | what the catalog keeps of a user |
//! | `system_users.rs` | the same as `admin.system.users` of the reference has it |
//! | `roles.rs` | the built-in roles |
//! | `privileges.rs` | what a command asks of somebody's roles |

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

/// What a key of the account lets its holder do.
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

/// By what somebody has proved an identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Identity {
    /// A key of the account.
    Account(Access),
    /// The password of a user that was made: its number in the catalog, which says what it may do now.
    User(u32),
}

/// Somebody who has proved an identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    pub name: String,
    /// Where the client said that the user is.
    pub database: String,
    pub identity: Identity,
}

impl Principal {
    /// Tells users apart.
    pub fn key(&self) -> Arc<str> {
        format!("{}.{}", self.database, self.name).into()
    }

    pub fn is_read_only(&self) -> bool {
        self.identity == Identity::Account(Access::ReadOnly)
    }
}
