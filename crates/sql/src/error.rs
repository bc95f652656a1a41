//! What can be wrong with a query, with the reference's codes, texts and places.

/// A place in the query text, in UTF-16 code units as the reference counts; the end is exclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Location {
    pub start: usize,
    pub end: usize,
}

impl Location {
    /// From byte offsets. Walks over the whole text, so it is for errors only.
    pub(crate) fn in_text(text: &str, start: usize, end: usize) -> Location {
        let units = |text: &str| text.chars().map(char::len_utf16).sum::<usize>();
        let before = units(&text[..start]);
        Location { start: before, end: before + units(&text[start..end]) }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SqlError {
    #[error("Syntax error, incorrect syntax near '{near}'.")]
    Syntax { near: String, location: Location },
    #[error("Identifier '{name}' could not be resolved.")]
    UnresolvedIdentifier { name: String, location: Location },
    #[error("'{name}' is not a recognized built-in function name.")]
    UnknownFunction { name: String, location: Location },
    #[error("The {name} function requires {expected} argument(s).")]
    ArgumentCount { name: String, expected: String, location: Location },
    #[error("the query parameter '{name}' has no value")]
    MissingParameter { name: String },
    #[error("the query text has {size_bytes} bytes, more than the limit of {size_bytes_max}")]
    TooLong { size_bytes: usize, size_bytes_max: usize },
    #[error("the query has more than {joins_max} JOINs in one FROM, which is the limit")]
    TooManyJoins { joins_max: usize },
    #[error("the query is nested deeper than {nesting_max} levels")]
    TooDeep { nesting_max: usize },
    /// A part of the language that this server does not have yet.
    #[error("{feature} is not supported")]
    Unsupported { feature: String },
}

impl SqlError {
    /// The reference's code, where it has one.
    pub fn code(&self) -> Option<&'static str> {
        match self {
            SqlError::Syntax { .. } => Some("SC1001"),
            SqlError::UnresolvedIdentifier { .. } => Some("SC2001"),
            SqlError::UnknownFunction { .. } => Some("SC2005"),
            SqlError::ArgumentCount { .. } => Some("SC2050"),
            SqlError::MissingParameter { .. }
            | SqlError::TooLong { .. }
            | SqlError::TooDeep { .. }
            | SqlError::TooManyJoins { .. }
            | SqlError::Unsupported { .. } => None,
        }
    }

    pub fn location(&self) -> Option<Location> {
        match self {
            SqlError::Syntax { location, .. }
            | SqlError::UnresolvedIdentifier { location, .. }
            | SqlError::UnknownFunction { location, .. }
            | SqlError::ArgumentCount { location, .. } => Some(*location),
            SqlError::MissingParameter { .. }
            | SqlError::TooLong { .. }
            | SqlError::TooDeep { .. }
            | SqlError::TooManyJoins { .. }
            | SqlError::Unsupported { .. } => None,
        }
    }

    pub(crate) fn unsupported(feature: impl Into<String>) -> SqlError {
        SqlError::Unsupported { feature: feature.into() }
    }
}

impl From<SqlError> for shardlake_model::Error {
    fn from(error: SqlError) -> Self {
        match error {
            SqlError::Unsupported { .. } => shardlake_model::Error::unsupported(error.to_string()),
            _ => shardlake_model::Error::bad_request(error.to_string()),
        }
    }
}
