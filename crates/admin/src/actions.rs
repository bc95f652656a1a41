//! Actions of an operator: the bodies of those requests, and the calls that they become.
//!
//! Bodies name every member they know; an unknown one is an error, so that a misspelt request does nothing.

use std::collections::BTreeMap;

use http::StatusCode;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use shardlake_account::{ContainerHandle, RelocationTicket, SplitAt};
use shardlake_model::{Error, Result};

use crate::address::Action;
use crate::address::range_id;
use crate::document::{container as container_document, ids};
use crate::pieces::written;
use crate::window::Window;
use crate::{OperatorCall, OperatorReply};

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Split {
    /// `best`, `load`, `size`, `middle`, or a bound in hexadecimal.
    at: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Merge {
    ids: Vec<RangeId>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Move {
    shard: u16,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Shares {
    /// RU/s by id of the range; the others keep their shares. Empty: equal shares again.
    shares: BTreeMap<String, u64>,
    /// The sum becomes the throughput of the container; otherwise it must equal it.
    #[serde(default)]
    resize: bool,
}

/// As the feed of ranges has it, or as a number.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum RangeId {
    Text(String),
    Number(u32),
}

impl RangeId {
    fn number(&self) -> Result<u32> {
        match self {
            RangeId::Text(text) => range_id(text),
            RangeId::Number(number) => Ok(*number),
        }
    }
}

pub(crate) async fn act(
    call: &OperatorCall<'_>,
    container: &ContainerHandle,
    what: Action,
) -> Result<OperatorReply> {
    let account = call.account;
    match what {
        Action::Partitions
        | Action::Heat
        | Action::Key
        | Action::Query
        | Action::RunScript
        | Action::Schema
        | Action::PreviewPolicy
        | Action::Analytics(_) => Err(crate::wrong_method(call)),
        Action::Split { range_id } => {
            let split: Split = parse_or_default(&call.body)?;
            Ok(begun(
                "split",
                container,
                &account.maintenance().split(container, range_id, split_at(split.at)).await?,
            ))
        }
        Action::Merge => {
            let merge: Merge = parse(&call.body)?;
            let range_ids = merge.ids.iter().map(RangeId::number).collect::<Result<Vec<_>>>()?;
            Ok(begun("merge", container, &account.maintenance().merge(container, &range_ids).await?))
        }
        Action::Move { range_id } => {
            let body: Move = parse(&call.body)?;
            Ok(begun(
                "move",
                container,
                &account.maintenance().move_partition(container, range_id, body.shard).await?,
            ))
        }
        Action::AbortRelocation => {
            let aborted = account.maintenance().abort_relocation(container).await?;
            Ok(crate::ok(written(&json!({ "aborted": aborted }))))
        }
        Action::Throughput => divide(call, container).await,
    }
}

/// The work continues in the background; the report of the container shows its progress.
fn begun(kind: &str, container: &ContainerHandle, ticket: &RelocationTicket) -> OperatorReply {
    // When it is done, the container's generation is above this one.
    let generation = container.routing_generation();
    let body = written(&json!({ "kind": kind, "targets": ids(&ticket.ranges), "generation": generation }));
    OperatorReply::json(StatusCode::ACCEPTED, body)
}

fn split_at(text: Option<String>) -> SplitAt {
    match text.as_deref() {
        None | Some("best") => SplitAt::Best,
        Some("load") => SplitAt::Load,
        Some("size") => SplitAt::Size,
        Some("middle") => SplitAt::Middle,
        Some(bound) => SplitAt::Epk(bound.to_owned()),
    }
}

async fn divide(call: &OperatorCall<'_>, container: &ContainerHandle) -> Result<OperatorReply> {
    let body: Shares = parse(&call.body)?;
    let share = |(id, share): (&String, &u64)| Ok((range_id(id)?, *share));
    let shares = body.shares.iter().map(share).collect::<Result<Vec<_>>>()?;
    let account = call.account;
    let changed = match body.resize {
        true => account.router().redistribute_and_resize(&call.context, container, &shares).await?,
        false => account.router().redistribute(&call.context, container, &shares).await?,
    };
    let window = Window::default();
    let report = account.maintenance().container_report(&changed, window.length).await?;
    Ok(crate::ok(written(&container_document(&report, &window, (account, &call.moments())))))
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T> {
    serde_json::from_slice(body)
        .map_err(|error| Error::bad_request(format!("the request body is not what this path takes: {error}")))
}

fn parse_or_default<T: DeserializeOwned + Default>(body: &[u8]) -> Result<T> {
    if body.is_empty() { Ok(T::default()) } else { parse(body) }
}
