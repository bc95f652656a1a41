//! The operator's interface: reports of and actions on physical partitions and projections, as JSON
//! under `/_shardlake/v1/`.
//!
//! | method and path below `/_shardlake/v1/` | result |
//! |---|---|
//! | `GET partitions` | every container in short |
//! | `GET dbs/{db}/colls/{coll}/partitions` | a container's partitions: ranges, sizes, load, budgets, next step |
//! | `GET server`, `GET caller`, `GET pulse`, `GET log` | the server: its configuration, the caller's rights, its load, its log |
//! | `GET diagnostics` | settings, formats, process limits and definitions, for reports of problems |
//! | `GET dbs/{db}/colls/{coll}/heat`, `GET …/key` | heat over time and the hash space; one logical partition |
//! | `POST dbs/{db}/colls/{coll}/query` | a query with its plan and figures, as data |
//! | `POST dbs/{db}/colls/{coll}/scripts/run` | a trial run of a script |
//! | `GET dbs/{db}/colls/{coll}/schema`, `POST …/indexing/preview` | the shape of the items, and their cost under another policy |
//! | `POST dbs/{db}/colls/{coll}/partitions/{id}/split` | split a partition |
//! | `POST dbs/{db}/colls/{coll}/partitions/merge` | merge neighbours |
//! | `POST dbs/{db}/colls/{coll}/partitions/{id}/move` | store a partition on another shard |
//! | `POST dbs/{db}/colls/{coll}/relocation/abort` | abort a split, merge or move |
//! | `PUT dbs/{db}/colls/{coll}/throughput` | divide the throughput by hand |
//! | `GET projections`, `GET projections/{id}` | rules that keep copies true, and their progress |
//! | `PUT projections/{id}`, `DELETE projections/{id}` | create or replace one; delete it |
//! | `GET copies`, `GET copies/index/{db}/{coll}` | global secondary indexes, and their progress |
//! | `POST copies/index/{db}/{coll}/{pause, resume, rebuild}` | orders to one |
//! | `PATCH copies/index/{db}/{coll}`, `GET copies/index/{db}/{coll}/duplicates` | change settings of one; rows beyond the first of their key |
//! | `POST copies/index/{db}/{coll}/verify`, `GET` of the same | compare one with its source; the report |
//! | `POST backups`, `GET backups/{id}/shards/{shard}/files/{file}/{offset}`, `DELETE backups/{id}` | keep a state, read it, drop it |
//! | `GET analytics`, `GET dbs/{db}/colls/{coll}/analytics` | tables of columns that follow containers |
//! | `PUT dbs/{db}/colls/{coll}/analytics`, `POST …/analytics/{pause, resume, rebuild, compact, verify}` | settings of one; orders |
//! | `POST analytics/sql`, `GET analytics/queries`, `DELETE analytics/queries/{id}` | SQL over these tables; queries that run |
//! | `GET keys`, `POST keys/{name}/rotate` | the account's keys by their fingerprints; a new one in place of one |
//! | `POST projections/{id}/pause`, `POST projections/{id}/resume` | stop one for a while |
//!
//! | file | contents |
//! |---|---|
//! | `address.rs`, `parameters.rs` | the paths, and the text signed for them; parameters of the query string |
//! | `document.rs`, `parts.rs`, `window.rs`, `moments.rs` | reports as JSON, whole or in part; how far back they go; times of day |
//! | `watch/` | the server as a whole |
//! | `heat.rs`, `key.rs`, `query/`, `scripts.rs` | heat, one key, queries with their figures, trial runs of scripts |
//! | `schema.rs` | the shape of items; previews of indexing policies |
//! | `pieces.rs` | the text of an answer, in pieces |
//! | `client.rs` | requests of a client |
//! | `actions.rs` | the bodies of requests about partitions, and their execution |
//! | `analytics.rs` | requests about analytical stores |
//! | `sql.rs` | SQL over analytical tables |
//! | `copy_settings.rs` | settings of global secondary indexes |
//! | `copy_verification.rs` | comparisons of global secondary indexes |
//! | `projections.rs`, `copies.rs`, `backups.rs` | requests about projections, about global secondary indexes, and about states that are copied to a backup |
//!
//! The operator's interface is not part of the protocol of the SDKs. Requests are signed with the
//! account's keys; a read-only key may read and query, but not change anything. Only queries and
//! scripts draw on request units. The gateway that received the request checks the signature, reads
//! the body, and gives replies and errors the form of all its answers.

mod account_keys;
mod actions;
mod address;
mod analytics;
mod backups;
mod client;
mod copies;
mod copy_settings;
mod copy_verification;
mod document;
mod functions;
mod heat;
mod key;
mod moments;
mod operation;
mod parameters;
mod parts;
mod pieces;
mod projections;
mod query;
mod schema;
mod scripts;
mod sql;
mod watch;
mod window;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, StatusCode};
use serde_json::Value;
use shardlake_account::Account;
use shardlake_model::{Error, ErrorKind, RequestContext, Result};
use shardlake_signature::Access;

pub use account_keys::{KeyName, KeyStore, NamedKey};
pub use address::{Address, PREFIX};
pub use client::OperatorRequest;
pub use operation::AdminOperation;
pub use shardlake_analytics::Analytics;
pub use sql::{
    AnswerPiece, AnswerSource, PieceSource, SQL_SECONDS_MAX, SqlAnswer, SqlAsOf, SqlAtLeast, SqlFormat,
    SqlFuture, SqlRefusal, SqlRequest, SqlService,
};
pub use watch::{
    CallerAccess, Installation, LogLine, LogRing, ProcessGauges, ProcessRings, RequestCounts, TokenAccess,
};

use address::{Action, Target};
use moments::Moments;
use parts::Parts;
use sql::SqlTarget;
use window::Window;

/// An operator's request after the gateway has authenticated it.
pub struct OperatorCall<'r> {
    pub account: &'r Account,
    /// The program's description of itself.
    pub installation: Option<&'r Installation>,
    /// `None` where the program keeps no analytical stores.
    pub analytics: Option<&'r Analytics>,
    /// `None` where the build has no SQL over them.
    pub sql: Option<&'r dyn SqlService>,
    /// The header `accept`.
    pub accept: Option<&'r str>,
    pub caller: &'r CallerAccess,
    pub method: &'r Method,
    pub address: &'r Address<'r>,
    pub context: RequestContext,
    pub body: Bytes,
}

impl OperatorCall<'_> {
    fn moments(&self) -> Moments {
        Moments::new(self.context.now, self.account.router().clock().elapsed())
    }
}

/// Outcome of a request.
#[derive(Debug)]
pub struct OperatorReply {
    pub status: StatusCode,
    /// In hundredths of a request unit; only queries and scripts cost any.
    pub charge_centi: u64,
    /// The error and further members of its body, where the answer is an error.
    pub failure: Option<(Error, Value)>,
    /// JSON text, where there is any, in pieces that can be sent and given up one by one.
    pub body: Option<Vec<Vec<u8>>>,
    /// The body is a part of a file.
    pub is_bytes: bool,
    /// A body that is made while it is sent, in place of `body`.
    pub source: Option<AnswerSource>,
    /// The media type of `source`.
    pub media_type: Option<HeaderValue>,
    pub headers: Vec<(HeaderName, HeaderValue)>,
}

impl OperatorReply {
    fn empty(status: StatusCode) -> OperatorReply {
        OperatorReply {
            status,
            charge_centi: 0,
            failure: None,
            body: None,
            is_bytes: false,
            source: None,
            media_type: None,
            headers: Vec::new(),
        }
    }

    /// The gateway finds the status for the error.
    fn failed(error: Error, charge_centi: u64, members: Value) -> OperatorReply {
        let failure = Some((error, members));
        OperatorReply { charge_centi, failure, ..OperatorReply::empty(StatusCode::BAD_REQUEST) }
    }

    fn json(status: StatusCode, body: Vec<Vec<u8>>) -> OperatorReply {
        OperatorReply { body: Some(body), ..OperatorReply::empty(status) }
    }
}

/// A read-only key may look and query, but not at everything that is stored or logged. Tokens come this far only where they may.
pub fn allow(caller: &CallerAccess, method: &Method, address: &Address<'_>) -> Result<()> {
    let of_full_keys =
        matches!(address.target, Target::Backups(_) | Target::Log | Target::Diagnostics | Target::Keys(_));
    let only_reads = match &address.target {
        Target::InContainer { what: Action::Query | Action::PreviewPolicy, .. } => method == Method::POST,
        Target::Sql(SqlTarget::Statement) => method == Method::POST,
        // A client ends its own queries, by an id that it alone got.
        Target::Sql(SqlTarget::Query(_)) => method == Method::DELETE,
        _ => method == Method::GET,
    };
    match caller {
        CallerAccess::Key(Access::Full) | CallerAccess::Token(_) => Ok(()),
        CallerAccess::Key(Access::ReadOnly) if only_reads && !of_full_keys => Ok(()),
        CallerAccess::Key(Access::ReadOnly) => Err(Error::new(
            ErrorKind::Forbidden,
            "the request is signed with a read-only key, which may look at partitions, and not change them, copy everything, read the log or see the keys",
        )),
    }
}

pub async fn serve(call: &OperatorCall<'_>) -> Result<OperatorReply> {
    if may_be_large(&call.address.target) {
        room_for_page(call).await?;
    }
    match (&call.address.target, call.method.as_str()) {
        (Target::AllContainers, "GET") => {
            call.address.only_parameter("")?;
            Ok(ok(pieces::written(&document::AllContainers { containers: call.account })))
        }
        (Target::Server, "GET") => {
            call.address.only_parameter("")?;
            watch::server(call).await
        }
        (Target::Caller, "GET") => {
            call.address.only_parameter("")?;
            Ok(watch::caller(call))
        }
        (Target::Pulse, "GET") => watch::pulse(call),
        (Target::Log, "GET") => watch::log(call),
        (Target::Diagnostics, "GET") => watch::diagnostics(call),
        (Target::Keys(target), _) => account_keys::serve(call, *target),
        (Target::Backups(target), _) => backups::serve(call, target).await,
        (Target::Analytics, "GET") => analytics::all(call).await,
        (Target::Sql(target), _) => sql::serve(call, target).await,
        (Target::Projections(target), _) => projections::serve(call, target).await,
        (Target::Copies(target), _) => copies::serve(call, target).await,
        (Target::InContainer { database, container, what }, method) => {
            let container = call.account.router().container(database, container)?;
            match (*what, method) {
                (Action::Partitions, "GET") => {
                    let parameters = call.address.parameters(&["window", "parts"])?;
                    let window = Window::of(parameters.get("window"))?;
                    let parts = parameters.get("parts").map(Parts::of).transpose()?;
                    let report =
                        call.account.maintenance().container_report(&container, window.length).await?;
                    let moments = call.moments();
                    let whole = document::container(&report, &window, (call.account, &moments));
                    Ok(ok(match parts {
                        None => pieces::written(&whole),
                        Some(parts) => parts.cut(&whole, &report, &moments),
                    }))
                }
                (Action::Heat, "GET") => heat::heat(call, &container),
                (Action::Key, "GET") => key::key(call, &container).await,
                (Action::Query, "POST") => {
                    call.address.only_parameter("")?;
                    query::query(call, &container).await
                }
                (Action::Schema, "GET") => schema::schema(call, &container).await,
                (Action::PreviewPolicy, "POST") => {
                    call.address.only_parameter("")?;
                    schema::preview(call, &container).await
                }
                (Action::RunScript, "POST") => {
                    call.address.only_parameter("")?;
                    scripts::run(call, &container).await
                }
                (Action::Analytics(action), _) => analytics::serve(call, &container, action).await,
                (Action::Split { .. }, "POST")
                | (Action::Merge, "POST")
                | (Action::Move { .. }, "POST")
                | (Action::AbortRelocation, "POST")
                | (Action::Throughput, "PUT") => {
                    call.address.only_parameter("")?;
                    actions::act(call, &container, *what).await
                }
                _ => Err(wrong_method(call)),
            }
        }
        _ => Err(wrong_method(call)),
    }
}

/// Whether the answer grows with the amount of data. Queries reserve memory for their rows by themselves.
fn may_be_large(target: &Target) -> bool {
    match target {
        Target::AllContainers | Target::Pulse | Target::Log | Target::Diagnostics => true,
        Target::InContainer { what, .. } => matches!(what, Action::Heat | Action::Partitions),
        _ => false,
    }
}

/// Waits until the memory budget has space for an answer as large as a page, before the answer is made.
async fn room_for_page(call: &OperatorCall<'_>) -> Result<()> {
    let Some(space) = &call.context.answer_space else { return Ok(()) };
    space.take(call.context.deadline.saturating_sub(call.account.router().clock().elapsed())).await
}

fn ok(body: Vec<Vec<u8>>) -> OperatorReply {
    OperatorReply::json(StatusCode::OK, body)
}

fn wrong_method(call: &OperatorCall<'_>) -> Error {
    Error::new(ErrorKind::MethodNotAllowed, format!("the method {} is not defined on this path", call.method))
}
