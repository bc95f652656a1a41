//! Errors of statements of the language: MongoDB's code, its name and a message of ours.

use std::fmt;

/// A result whose error goes to the client.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error with MongoDB's code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    code: i32,
    message: String,
}

impl Error {
    pub fn new(code: i32, message: impl Into<String>) -> Error {
        Error { code, message: message.into() }
    }

    /// The error as the cause of another one.
    pub fn caused(self, words: &str) -> Error {
        Error { message: format!("{words} :: caused by :: {}", self.message), ..self }
    }

    pub fn code(&self) -> i32 {
        self.code
    }

    pub fn message(&self) -> &str {
        &self.message
    }

    /// The name of the code; codes that belong to one place in MongoDB have a name made of the number.
    pub fn code_name(&self) -> String {
        let known = NAMES.iter().find(|(code, _)| *code == self.code);
        known.map_or_else(|| format!("Location{}", self.code), |(_, name)| (*name).to_owned())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} ({})", self.message, self.code_name())
    }
}

impl std::error::Error for Error {}

/// An error with a code and a text like `format!`.
macro_rules! error {
    ($code:expr, $($words:tt)+) => {
        $crate::error::Error::new($code, format!($($words)+))
    };
}

/// Leaves the function with such an error.
macro_rules! fail {
    ($code:expr, $($words:tt)+) => {
        return Err($crate::error::Error::new($code, format!($($words)+)))
    };
}

pub(crate) use {error, fail};

pub const BAD_VALUE: i32 = 2;
pub const OVERFLOW: i32 = 15;
pub(crate) const PATH_NOT_VIABLE: i32 = 28;
pub const FAILED_TO_PARSE: i32 = 9;
pub const TYPE_MISMATCH: i32 = 14;
pub const CONVERSION_FAILURE: i32 = 241;
pub const MAX_TIME_EXPIRED: i32 = 50;
pub const MEMORY_LIMIT: i32 = 292;
pub const NOT_SUPPORTED: i32 = 303;

/// Codes that have a name of their own, as far as the language answers them (spec §7).
const NAMES: &[(i32, &str)] = &[
    (1, "InternalError"),
    (2, "BadValue"),
    (4, "NoSuchKey"),
    (5, "GraphContainsCycle"),
    (8, "UnknownError"),
    (9, "FailedToParse"),
    (14, "TypeMismatch"),
    (15, "Overflow"),
    (16, "InvalidLength"),
    (20, "IllegalOperation"),
    (22, "InvalidBSON"),
    (28, "PathNotViable"),
    (40, "ConflictingUpdateOperators"),
    (47, "NoMatchingDocument"),
    (50, "MaxTimeMSExpired"),
    (52, "DollarPrefixedFieldName"),
    (53, "InvalidIdField"),
    (54, "NotSingleValueField"),
    (56, "EmptyFieldName"),
    (66, "ImmutableField"),
    (72, "InvalidOptions"),
    (73, "InvalidNamespace"),
    (96, "OperationFailed"),
    (115, "CommandNotSupported"),
    (121, "DocumentValidationFailure"),
    (146, "ExceededMemoryLimit"),
    (168, "InvalidPipelineOperator"),
    (232, "MaxSubPipelineDepthExceeded"),
    (238, "NotImplemented"),
    (241, "ConversionFailure"),
    (291, "NoQueryExecutionPlans"),
    (292, "QueryExceededMemoryLimitNoDiskUseAllowed"),
    (10334, "BSONObjectTooLarge"),
    (11000, "DuplicateKey"),
    (17276, "Location17276"),
];
