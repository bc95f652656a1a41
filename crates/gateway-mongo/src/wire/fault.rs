//! Faults of a message, and whether its connection can continue.

use std::fmt;

use crate::errors::CommandError;

#[derive(Debug)]
pub enum Fault {
    /// The frame is invalid, or of an unsupported kind: the connection ends.
    Close(String),
    /// The client gets the error, then the connection ends.
    RefuseAndClose(CommandError),
    /// The client gets the error. The next message begins at the end that the header gives.
    Refuse { error: CommandError, answer_as: AnswerAs },
}

/// Kind of message for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerAs {
    Message,
    /// OP_REPLY, for the first message of old clients.
    Reply,
    /// The client wants no answer.
    Nothing,
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Close(reason) => out.write_str(reason),
            Fault::RefuseAndClose(error) | Fault::Refuse { error, .. } => error.fmt(out),
        }
    }
}

impl Fault {
    pub fn close(reason: impl Into<String>) -> Fault {
        Fault::Close(reason.into())
    }
}
