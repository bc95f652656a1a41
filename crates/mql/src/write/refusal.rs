//! Refusal of a document.

use crate::error::Error;
use crate::value::Document;

/// An error about a document, with the members that its answer has besides code and message, such as `errInfo`.
#[derive(Debug, Clone)]
pub struct Refusal {
    pub error: Error,
    pub details: Document,
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Refusal {
        Refusal { error, details: Document::new() }
    }
}

impl From<Refusal> for shardlake_model::Error {
    fn from(Refusal { error, details }: Refusal) -> shardlake_model::Error {
        let details = if details.is_empty() { Vec::new() } else { details.to_bytes() };
        shardlake_model::Error::bad_request(error.message()).with_code(error.code(), details)
    }
}
