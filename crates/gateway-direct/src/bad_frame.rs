//! Protocol errors.

use thiserror::Error;

/// Why bytes are no frame. The number of the request is unknown then, so the connection ends without an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum BadFrame {
    #[error("the length {0} is none of a frame")]
    Length(u32),
    #[error("a token ends behind its frame")]
    CutToken,
    #[error("the token {id:#06x} has the unknown type {kind:#04x}")]
    UnknownType { id: u16, kind: u8 },
    #[error("the token {0:#06x} comes twice")]
    RepeatedToken(u16),
    #[error("there are too many tokens")]
    TooManyTokens,
    #[error("the token {0:#06x} is missing or of another type")]
    Token(u16),
    #[error("the first frame is no context, or another one is")]
    Context,
}
