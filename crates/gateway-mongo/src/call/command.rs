//! A row of the table of commands.

use futures::future::BoxFuture;

use super::Call;
use crate::errors::Result;
use crate::reply::Reply;

/// Runs a command. The dispatcher returns its error to the client unchanged.
pub type Handler = for<'c> fn(&'c Call) -> BoxFuture<'c, Result<Reply>>;

/// A command: its names, its rules, and its handler.
///
/// A command reads, needs a user where the server asks for one, may not run in a transaction and is not part of the stable interface, unless the
/// methods below change that.
#[derive(Clone, Copy)]
pub struct Command {
    pub name: &'static str,
    /// Older spellings.
    pub aliases: &'static [&'static str],
    pub rules: Rules,
    pub handler: Handler,
}

#[derive(Debug, Clone, Copy)]
#[allow(clippy::struct_excessive_bools)] // columns of a table
pub struct Rules {
    pub needs_user: bool,
    /// Not with a read-only key.
    pub is_write: bool,
    pub is_admin_only: bool,
    pub in_transaction: bool,
    /// Commits or aborts one.
    pub ends_transaction: bool,
    /// With `txnNumber`, where no statement is for many documents.
    pub is_retryable: bool,
    pub is_stable: bool,
    /// Takes read concerns other than `local`.
    pub has_read_concern: bool,
    /// Takes the read concern `snapshot` outside of transactions, too.
    pub has_snapshot: bool,
    pub has_write_concern: bool,
    /// Is there only where a server is started for tests.
    pub is_for_tests: bool,
    /// Its answer may be a batch of many megabytes.
    pub has_batch: bool,
}

impl Command {
    pub const fn new(name: &'static str, handler: Handler) -> Command {
        let rules = Rules {
            needs_user: true,
            is_write: false,
            is_admin_only: false,
            in_transaction: false,
            ends_transaction: false,
            is_retryable: false,
            is_stable: false,
            has_read_concern: false,
            has_snapshot: false,
            has_write_concern: false,
            is_for_tests: false,
            has_batch: false,
        };
        Command { name, aliases: &[], rules, handler }
    }

    pub const fn alias(mut self, aliases: &'static [&'static str]) -> Command {
        self.aliases = aliases;
        self
    }

    /// Before authentication, too.
    pub const fn open(mut self) -> Command {
        self.rules.needs_user = false;
        self
    }

    /// Changes something, and takes a write concern.
    pub const fn write(mut self) -> Command {
        self.rules.is_write = true;
        self.rules.has_write_concern = true;
        self
    }

    /// Reads documents, and takes a read concern.
    pub const fn read(mut self) -> Command {
        self.rules.has_read_concern = true;
        self
    }

    pub const fn snapshot(mut self) -> Command {
        self.rules.has_snapshot = true;
        self
    }

    pub const fn admin_only(mut self) -> Command {
        self.rules.is_admin_only = true;
        self
    }

    pub const fn in_transaction(mut self) -> Command {
        self.rules.in_transaction = true;
        self
    }

    pub const fn ends_transaction(mut self) -> Command {
        self.rules.ends_transaction = true;
        self
    }

    pub const fn retryable(mut self) -> Command {
        self.rules.is_retryable = true;
        self
    }

    pub const fn stable(mut self) -> Command {
        self.rules.is_stable = true;
        self
    }

    pub const fn for_tests(mut self) -> Command {
        self.rules.is_for_tests = true;
        self
    }

    pub const fn with_batch(mut self) -> Command {
        self.rules.has_batch = true;
        self
    }
}

/// A row: `command!("ping", ping)` for `async fn ping(call: &Call) -> Result<Reply>`.
macro_rules! command {
    ($name:expr, $handler:path) => {
        $crate::call::Command::new($name, |call| Box::pin($handler(call)))
    };
}

pub(crate) use command;
