//! Commands that need no documents: greetings, what the server says of itself, sessions, cursors.

mod cursors;
mod diagnostic;
mod handshake;
mod parameters;
mod sessions;
mod status;

pub use cursors::CURSORS;
pub use diagnostic::DIAGNOSTIC;
pub use handshake::HANDSHAKE;
pub use sessions::SESSIONS;
