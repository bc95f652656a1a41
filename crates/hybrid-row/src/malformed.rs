//! Reasons why bytes are no HybridRow batch.

/// The reason why bytes are refused. The client has to send other bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    #[error("the bytes end within a row")]
    TooShort,
    #[error("a row does not begin with version 0x81")]
    WrongVersion,
    #[error("a row has the schema {0:#x}, where another one has to stand")]
    WrongSchema(u32),
    #[error("the segment row is not one of a batch")]
    WrongSegment,
    #[error("the checksum of a row does not match its bytes")]
    WrongChecksum,
    #[error("a row has presence bits of fields that its schema does not have")]
    UnknownPresence,
    #[error("a length is no valid number")]
    WrongLength,
    #[error("the text of the field '{0}' is not UTF-8")]
    NotUtf8(&'static str),
    #[error("the field number {0} is unknown")]
    UnknownField(u32),
    #[error("the type code {0} is not one of those that batches use")]
    UnknownType(u8),
    #[error("the field '{0}' is missing")]
    Missing(&'static str),
    #[error("the field '{0}' is there twice")]
    Twice(&'static str),
    #[error("the field '{0}' has a value of another type")]
    WrongType(&'static str),
    #[error("the operation type {0} is unknown")]
    UnknownOperation(i32),
    #[error("the resource type {0} is not that of items")]
    UnknownResource(i32),
}
