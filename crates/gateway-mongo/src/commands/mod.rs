//! Commands that need no documents: handshake, server status, sessions, cursors.

mod authentication;
mod cursors;
mod diagnostic;
mod fail_points;
mod handshake;
mod operations;
mod parameters;
mod request_statistics;
mod sessions;
mod status;
mod transactions;
mod users;
mod users_info;
mod version;

pub use authentication::AUTHENTICATION;
pub use cursors::CURSORS;
pub use diagnostic::DIAGNOSTIC;
pub use fail_points::FAIL_POINTS;
pub use handshake::HANDSHAKE;
pub use operations::{OPERATIONS, describe_operation};
pub use request_statistics::REQUEST_STATISTICS;
pub use sessions::SESSIONS;
pub use transactions::TRANSACTIONS;
pub use users::USERS;
pub use version::{release_text, version_text};
