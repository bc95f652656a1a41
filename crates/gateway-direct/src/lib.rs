//! Direct mode: the frames that the .NET and Java clients send by default, as requests and answers of the REST protocol.
//!
//! | file | contents |
//! |---|---|
//! | `token.rs` | typed values, the parts of a frame |
//! | `frame.rs` | heads of frames: length, kinds or status, activity id |
//! | `bad_frame.rs` | protocol errors |
//! | `context.rs` | the exchange that opens a connection |
//! | `kinds.rs` | resource types and operation types, and the methods that they stand for |
//! | `path.rs` | names and resource ids of a frame as a path |
//! | `request.rs`, `request_tokens.rs` | from a frame to a request of the REST protocol |
//! | `response.rs`, `response_tokens.rs` | from an answer of the REST protocol to a frame |
//!
//! The protocol is called RNTBD. It has no public specification: layout and numbers are those of the clients' published sources
//! (`azure-cosmos-dotnet-v3`, `RntbdConstants`; `azure-sdk-for-java`, `rntbd`), checked against recorded frames of both clients.
//!
//! Nothing here owns a socket, a thread or a clock. Lengths come from strangers: no memory is taken by an announced length, and a
//! frame that cannot be right is an error before anything is done.

mod bad_frame;
mod context;
mod frame;
mod kinds;
mod path;
mod request;
mod request_tokens;
mod response;
mod response_tokens;
mod token;

pub use bad_frame::BadFrame;
pub use context::{Context, ContextAnswer};
pub use frame::{AnswerHead, FRAME_BYTES_MIN, RequestHead, answer_head, frame_length, request_head};
pub use kinds::{OperationType, ResourceType};
pub use request::{DirectRequest, Refusal, translate};
pub use response::{Answer, refused, rendered};
pub use token::{Token, Tokens, Value};
