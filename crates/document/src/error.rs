//! Errors of documents: in the client's JSON text, in a value without a JSON form, or in stored bytes.

/// Why a text, a value or a stored record is not a document. Offsets count bytes of the client's text from 0.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DocumentError {
    #[error("the JSON text has {size_bytes} bytes, more than the limit of {size_bytes_max}")]
    TooLarge { size_bytes: usize, size_bytes_max: usize },
    /// `offset` is 0 without a text.
    #[error("the document is nested deeper than {nesting_max} levels")]
    TooDeep { nesting_max: usize, offset: usize },
    #[error("the text is not valid UTF-8 at byte {offset}")]
    InvalidUtf8 { offset: usize },
    #[error("invalid JSON at byte {offset}: {what}")]
    Syntax { offset: usize, what: &'static str },
    #[error("invalid Cosmos binary JSON at byte {offset}: {what}")]
    InvalidBinary { offset: usize, what: &'static str },
    #[error("number out of range at byte {offset}")]
    NumberOutOfRange { offset: usize },
    /// `path` is the path of the number in the document; empty if the number is the whole document.
    #[error(
        "the number {number} at '{path}' is an integer that neither 64 bits nor a double hold: send it as a string"
    )]
    NumberNotKept { path: String, number: String },
    #[error("the escape at byte {offset} is half of a surrogate pair and stands for no character")]
    LoneSurrogate { offset: usize },
    #[error("the property name '{name}' occurs twice in one object")]
    DuplicateProperty { name: String },
    #[error("the property name '{name}' is the server's at the top level of an item")]
    ReservedProperty { name: String },
    #[error("a document must be a JSON object")]
    NotAnObject,
    #[error("a number that is not finite has no JSON form")]
    NotFinite,
    #[error("an array or object has no ordered encoding")]
    NotScalar,
    /// Bytes that were never written by this crate, or were damaged later.
    #[error("corrupt document body: {what}")]
    CorruptBody { what: &'static str },
    #[error("corrupt record: {what}")]
    CorruptRecord { what: &'static str },
    #[error("corrupt ordered key: {what}")]
    CorruptKey { what: &'static str },
    /// Written by a later release.
    #[error("unsupported record format version {version}: use the version of the program that wrote it")]
    UnsupportedRecordVersion { version: u8 },
}

impl DocumentError {
    /// True when stored bytes are damaged, false when a caller supplied something unusable.
    pub fn is_corruption(&self) -> bool {
        match self {
            DocumentError::CorruptBody { .. }
            | DocumentError::CorruptRecord { .. }
            | DocumentError::CorruptKey { .. }
            | DocumentError::UnsupportedRecordVersion { .. } => true,
            DocumentError::TooLarge { .. }
            | DocumentError::TooDeep { .. }
            | DocumentError::InvalidUtf8 { .. }
            | DocumentError::Syntax { .. }
            | DocumentError::InvalidBinary { .. }
            | DocumentError::NumberOutOfRange { .. }
            | DocumentError::NumberNotKept { .. }
            | DocumentError::LoneSurrogate { .. }
            | DocumentError::DuplicateProperty { .. }
            | DocumentError::ReservedProperty { .. }
            | DocumentError::NotAnObject
            | DocumentError::NotFinite
            | DocumentError::NotScalar => false,
        }
    }
}
