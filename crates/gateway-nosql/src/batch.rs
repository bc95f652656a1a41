//! Batches of operations in one request: transactional (all or nothing, one logical partition) and bulk (each on its own).
//!
//! | file | contents |
//! |---|---|
//! | `sent.rs` | one operation as the client sent it, in either format |
//! | `request.rs` | the operations of a body, checked as a whole and one by one |
//! | `answer.rs` | the results, in the format of the request |
//!
//! Both take a JSON array or HybridRow, and answer in the same format with results in the order of the operations. The status is
//! 207 as soon as one operation failed by its own fault. In a transaction the failed operation keeps
//! its status and all others are 424. A body that is no item fails its operation alone. A request
//! that the server refuses, as where the store does not answer, has the refusal as its status:
//! clients do not retry, and most do not throw, on 207.

mod answer;
mod request;
mod sent;

use shardlake_account::{
    BatchReply, BodyPermit, BulkOnError, ContainerHandle, HEAVY_BYTES, ItemReply, KeyedOperation, offload,
};
use shardlake_hybrid_row::is_hybrid_row;
use shardlake_model::{Error, ReplyMeta, Result};

use crate::call::Call;
use crate::formats::{AnswerFormat, text_of};
use crate::headers::flag;
use crate::items;
use crate::reply::Reply;

use answer::{ResultFormat, Results};
use request::parse;
use sent::{Parsed, Reading};

/// The operations of a request, and which results carry their item.
struct Asked {
    operations: Vec<Result<KeyedOperation>>,
    wants: Vec<bool>,
    /// For the bodies, until they are written.
    _room: Option<BodyPermit>,
}

impl Asked {
    async fn read(call: &Call<'_>, container: &ContainerHandle, atomic: bool) -> Result<Asked> {
        let limits = call.account.router().limits();
        let is_collection = container.entry.shape.is_collection;
        let size_bytes_max = call.settings.body_size_bytes_max;
        let room = call.account.router().room_for(&call.context, call.body.len()).await?;
        let parsed = match call.body.len() > HEAVY_BYTES {
            false => {
                let name_of = |id: &str| container.item_name(id);
                let reading = Reading { limits, size_bytes_max, is_collection, name_of: &name_of };
                parse(&call.text()?, atomic, reading)?
            }
            true => {
                let (body, limits) = (call.body.clone(), limits.clone());
                let container = container.clone();
                offload(move || {
                    let text = text_of(&body, size_bytes_max)?;
                    let name_of = |id: &str| container.item_name(id);
                    let reading =
                        Reading { limits: &limits, size_bytes_max, is_collection, name_of: &name_of };
                    parse(&text, atomic, reading)
                })
                .await??
            }
        };
        let content = call.headers.wants_content()?;
        let is_read = |entry: &Parsed| entry.operation.as_ref().is_ok_and(|keyed| keyed.operation.is_read());
        let wants = parsed.iter().map(|entry| (content && entry.content) || is_read(entry)).collect();
        let operations = parsed.into_iter().map(|entry| entry.operation).collect();
        Ok(Asked { operations, wants, _room: room })
    }
}

impl ResultFormat {
    fn of(call: &Call<'_>) -> ResultFormat {
        match is_hybrid_row(&call.body) {
            false => ResultFormat::Json,
            true => {
                let has_binary_items = AnswerFormat::of_rows(call.headers) == AnswerFormat::Binary;
                ResultFormat::HybridRow { has_binary_items }
            }
        }
    }
}

pub(crate) async fn execute_atomic(call: &Call<'_>, container: &ContainerHandle) -> Result<Reply> {
    let Asked { operations, wants, _room } = Asked::read(call, container, true).await?;
    let key = items::key(call)?.ok_or_else(|| {
        Error::bad_request(
            "a transactional batch needs its partition key in header 'x-ms-documentdb-partitionkey'",
        )
    })?;
    let reply = call.account.items().batch(&items::reading(call)?, container, &key, operations).await?;
    let size_bytes = reply.outcome.iter().flatten().map(size_of).sum();
    let results = Results::new(ResultFormat::of(call));
    let container = container.clone();
    rendered(size_bytes, move || respond_atomic(results, &reply, &wants, &container)).await
}

pub(crate) async fn execute_bulk(call: &Call<'_>, container: &ContainerHandle) -> Result<Reply> {
    let Asked { operations, wants, _room } = Asked::read(call, container, false).await?;
    call.scope()?.map_or(Ok(()), |scope| scope.check_bulk(container, &operations))?;
    let continues = flag("x-ms-cosmos-batch-continue-on-error", call.headers.batch_continue_on_error)?;
    let on_error = if continues { BulkOnError::Continue } else { BulkOnError::Stop };
    let range_id = call.headers.range_id()?;
    let replies =
        call.account.items().bulk(&items::reading(call)?, container, range_id, operations, on_error).await?;
    let size_bytes = replies.iter().flatten().map(size_of).sum();
    let results = Results::new(ResultFormat::of(call));
    let container = container.clone();
    rendered(size_bytes, move || respond_bulk(results, &replies, &wants, &container)).await
}

fn size_of(reply: &ItemReply) -> usize {
    reply.item.as_ref().map_or(0, |item| item.json_size_bytes())
}

/// Renders a reply, on the blocking pool where it is long.
async fn rendered(size_bytes: usize, render: impl FnOnce() -> Reply + Send + 'static) -> Result<Reply> {
    if size_bytes > HEAVY_BYTES { offload(render).await } else { Ok(render()) }
}

fn respond_atomic(
    mut results: Results,
    reply: &BatchReply,
    wants: &[bool],
    container: &ContainerHandle,
) -> Reply {
    match &reply.outcome {
        Ok(replies) => {
            assert_eq!(replies.len(), wants.len(), "each operation of a batch has its reply");
            for (item, content) in replies.iter().zip(wants) {
                results.success(item, *content);
            }
        }
        Err(failure) => {
            assert!(failure.index < wants.len(), "the failed operation is one of the batch");
            for index in 0..wants.len() {
                let charge_centi = failure.charge_centi(index);
                if index == failure.index {
                    results.failure(&failure.error, charge_centi);
                } else {
                    results.failed_dependency(charge_centi);
                }
            }
        }
    }
    results.finish(reply.meta, container)
}

fn respond_bulk(
    mut results: Results,
    replies: &[Result<ItemReply>],
    wants: &[bool],
    container: &ContainerHandle,
) -> Reply {
    let mut total = ReplyMeta::default();
    assert_eq!(replies.len(), wants.len(), "each operation of a batch has its reply");
    for (reply, content) in replies.iter().zip(wants) {
        let meta = match reply {
            Ok(item) => {
                results.success(item, *content);
                &item.meta
            }
            Err(error) => {
                results.failure(error, error.meta().charge_centi);
                error.meta()
            }
        };
        total.charge_centi += meta.charge_centi;
        // Positions of different ranges do not fit into one header: the last one touched speaks for itself.
        if meta.range_id.is_some() {
            let lsn = if total.range_id == meta.range_id { total.lsn.max(meta.lsn) } else { meta.lsn };
            total = ReplyMeta { charge_centi: total.charge_centi, item_lsn: 0, lsn, ..*meta };
        }
    }
    results.finish(total, container)
}
