//! The operator's interface: physical partitions and projections, seen and acted upon, as JSON under `/_shardlake/v1/`.
//!
//! | method and path below `/_shardlake/v1/` | what |
//! |---|---|
//! | `GET partitions` | every container in short |
//! | `GET dbs/{db}/colls/{coll}/partitions` | a container's partitions: ranges, sizes, load, budgets, what comes next |
//! | `POST dbs/{db}/colls/{coll}/partitions/{id}/split` | cut a partition in two |
//! | `POST dbs/{db}/colls/{coll}/partitions/merge` | join neighbours |
//! | `POST dbs/{db}/colls/{coll}/partitions/{id}/move` | store a partition on another shard |
//! | `POST dbs/{db}/colls/{coll}/relocation/abort` | give up a split, merge or move |
//! | `PUT dbs/{db}/colls/{coll}/throughput` | divide the throughput by hand |
//! | `GET projections`, `GET projections/{id}` | rules that keep copies true, and how far they are |
//! | `PUT projections/{id}`, `DELETE projections/{id}` | create or replace one; delete it |
//! | `POST backups`, `GET backups/{id}/shards/{shard}/files/{file}/{offset}`, `DELETE backups/{id}` | keep a state, read it, drop it |
//! | `POST projections/{id}/pause`, `POST projections/{id}/resume` | stop one for a while |
//!
//! | file | what it does |
//! |---|---|
//! | `address.rs` | the paths, and what is signed for them |
//! | `document.rs`, `window.rs` | reports as JSON; how far back they go |
//! | `client.rs` | what a client sends |
//! | `actions.rs` | the bodies of requests about partitions, and what is done for them |
//! | `projections.rs`, `backups.rs` | the same for projections, and for states that are copied to a backup |
//!
//! It is not part of the protocol that the SDKs speak. Requests are signed with the account's keys; a read-only key may look
//! and not touch. The door that received the request checks the signature, reads the body, and gives replies and errors
//! the form that all its answers have.

mod actions;
mod address;
mod backups;
mod client;
mod document;
mod projections;
mod window;

use bytes::Bytes;
use http::{Method, StatusCode};
use shardlake_account::Account;
use shardlake_model::{Error, ErrorKind, RequestContext, Result};
use shardlake_signature::Access;

pub use address::Address;
pub use client::OperatorRequest;

use address::{Action, Target};
use window::Window;

/// An operator's request that has passed the door.
pub struct OperatorCall<'r> {
    pub account: &'r Account,
    pub method: &'r Method,
    pub address: &'r Address<'r>,
    pub context: RequestContext,
    pub body: Bytes,
}

/// What the request comes to. Nothing here draws on anybody's request units.
#[derive(Debug)]
pub struct OperatorReply {
    pub status: StatusCode,
    /// JSON text, where there is any.
    pub body: Option<Vec<u8>>,
    /// The body is a part of a file.
    pub is_bytes: bool,
}

impl OperatorReply {
    fn json(status: StatusCode, body: Vec<u8>) -> OperatorReply {
        OperatorReply { status, body: Some(body), is_bytes: false }
    }
}

/// A read-only key may look, but not at everything that is stored.
pub fn allow(access: Access, method: &Method, address: &Address<'_>) -> Result<()> {
    let is_backup = matches!(address.target, Target::Backups(_));
    if access == Access::Full || (method == Method::GET && !is_backup) {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Forbidden,
        "the request is signed with a read-only key, which may look at partitions, and not change them or copy everything",
    ))
}

pub async fn serve(call: &OperatorCall<'_>) -> Result<OperatorReply> {
    match (&call.address.target, call.method.as_str()) {
        (Target::AllContainers, "GET") => {
            call.address.only_parameter("")?;
            Ok(ok(document::all_containers(call.account)))
        }
        (Target::Backups(target), _) => backups::serve(call, target).await,
        (Target::Projections(target), _) => projections::serve(call, target).await,
        (Target::InContainer { database, container, what }, method) => {
            let container = call.account.container(database, container)?;
            match (*what, method) {
                (Action::Partitions, "GET") => {
                    let window = Window::of(call.address.only_parameter("window")?)?;
                    let report = call.account.container_report(&container, window.length).await?;
                    Ok(ok(document::container(&report, &window, call.account)))
                }
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

fn ok(body: Vec<u8>) -> OperatorReply {
    OperatorReply::json(StatusCode::OK, body)
}

fn wrong_method(call: &OperatorCall<'_>) -> Error {
    Error::new(ErrorKind::MethodNotAllowed, format!("the method {} is not defined on this path", call.method))
}
