//! The MongoDB wire protocol: messages, sessions, cursors and commands over the account.
