//! The data calls of a script: the methods of its `collection`, as messages.

use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};

/// The transaction that an invocation works in.
pub trait Store: Send {
    /// The invocation has its worker: its time begins.
    fn begin(&mut self) {}

    fn call<'a>(&'a mut self, request: StoreRequest) -> BoxFuture<'a, StoreReply>;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum StoreOperation {
    ReadDocument,
    ReadDocuments,
    QueryDocuments,
    CreateDocument,
    UpsertDocument,
    ReplaceDocument,
    DeleteDocument,
}

impl StoreReply {
    /// The reply to a successful write whose body is not used.
    pub(crate) fn foreseen() -> StoreReply {
        StoreReply { outcome: Ok(StoreAnswer::default()), accepts_more: true }
    }

    /// Whether the reply equals the foreseen one, as far as a script can see.
    pub(crate) fn is_as_foreseen(&self) -> bool {
        self.outcome.is_ok() && self.accepts_more
    }
}

impl StoreOperation {
    /// Whether the answer is a page of documents or rows.
    pub(crate) fn answers_page(self) -> bool {
        matches!(self, StoreOperation::ReadDocuments | StoreOperation::QueryDocuments)
    }
}

/// One call of a collection's method.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreRequest {
    pub operation: StoreOperation,
    /// The link of a document or of the collection, by rid or by name, as the script gave it.
    pub link: String,
    /// JSON text of the document, or of a query: a string, or an object with `query` and `parameters`.
    pub body: Option<String>,
    /// `etag` of the method's options.
    pub if_match: Option<String>,
    pub if_none_match: Option<String>,
    pub page_size: Option<i64>,
    pub continuation: Option<String>,
    /// The document must contain its id.
    pub disables_id_generation: bool,
    /// Whether the script can look at the body of the answer; otherwise it is not sent.
    pub wants_body: bool,
}

impl StoreRequest {
    /// Whether its answer is known in advance, provided that it succeeds.
    pub(crate) fn is_foreseeable(&self) -> bool {
        use StoreOperation::*;
        let writes =
            matches!(self.operation, CreateDocument | UpsertDocument | ReplaceDocument | DeleteDocument);
        writes && !self.wants_body
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreReply {
    pub outcome: Result<StoreAnswer, StoreFailure>,
    /// False once the invocation has spent its request units: further calls are not accepted.
    pub accepts_more: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreAnswer {
    /// JSON text: a document, or an array of documents or rows; `None` after a delete.
    pub body: Option<String>,
    pub continuation: Option<String>,
    /// The read document has the etag of `if_none_match`.
    pub not_modified: bool,
}

/// The error that callbacks get as `{number, body}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreFailure {
    /// One of the error codes of engine.md §6.
    pub number: u16,
    pub message: String,
}
