//! Queries over items (wire.md §9, §11).
//!
//! The envelope is that of a feed. A query over several partitions whose answers must be merged is answered with 400/1004 and
//! its plan, which makes clients merge themselves.

use http::StatusCode;
use shardlake_account::{ContainerHandle, QueryReply, QueryRequest};
use shardlake_model::{Error, ErrorKind, Result};

use crate::answer_body::PageText;
use crate::call::Call;
use crate::headers::flag;
use crate::items::reading;
use crate::query_body::QueryBody;
use crate::query_headers::QueryDiagnostics;
use crate::reply::Reply;
use crate::{feed, life, query_plan};

const CROSS_PARTITION_DISABLED: &str = "Cross partition query is required but disabled. Please set x-ms-documentdb-query-enablecrosspartition to true, specify x-ms-documentdb-partitionkey, or revise your query to avoid this exception.";

pub(crate) async fn execute(call: &Call<'_>, container: &ContainerHandle) -> Result<Reply> {
    let headers = call.headers;
    let body = QueryBody::read(call)?;
    let context = reading(call)?;
    life::check_query(headers, container, context.session.as_ref())?;
    let diagnostics = QueryDiagnostics::asked(headers)?;
    let allows_cross_partition =
        flag("x-ms-documentdb-query-enablecrosspartition", headers.enable_cross_partition)?;
    let request = QueryRequest {
        text: &body.text,
        parameters: &body.parameters,
        scope: feed::scope(headers)?,
        max_items: headers.max_items()?,
        continuation: headers.continuation.filter(|token| !token.is_empty() && !is_of_the_reference(token)),
        resume_filter: body.resume_filter(container)?,
        allows_cross_partition,
        fans_out: match headers.fan_out {
            None => call.settings.merges_queries,
            asked => flag("x-shardlake-fan-out", asked)?,
        },
        wants: diagnostics.wants(),
    };
    let mut reply = match call.account.queries().query(&context, container, request).await {
        Ok(reply) => reply,
        Err(error) if error.kind() == ErrorKind::CrossPartitionQuery && !allows_cross_partition => {
            return Err(Error::bad_request(CROSS_PARTITION_DISABLED).with_meta(*error.meta()));
        }
        Err(error) if error.kind() == ErrorKind::CrossPartitionQuery => {
            return query_plan::refusal(call, container, &body, &error);
        }
        Err(error) => return Err(error),
    };
    let clock = call.account.router().clock();
    let started = clock.elapsed();
    let mut response = respond(&mut reply, container);
    response.extra = diagnostics.headers(&reply, clock.elapsed().saturating_sub(started))?;
    response.continuation = reply.continuation;
    Ok(response)
}

/// Tokens that the reference has made name a resource that cannot be here. It reads its own from elsewhere as none, which the
/// Python SDK's tests rely on.
fn is_of_the_reference(token: &str) -> bool {
    token.starts_with("-RID:~") || token.starts_with("+RID:~")
}

fn respond(reply: &mut QueryReply, container: &ContainerHandle) -> Reply {
    let rows = std::mem::take(&mut reply.rows);
    let item_count = rows.len();
    let mut text = PageText::of_container(container.rid_text(), rows.size_bytes() + rows.len());
    // The memory of each part is freed as soon as it is written.
    for part in rows.into_parts() {
        part.iter().for_each(|row| text.row(|out| out.extend_from_slice(row)));
    }
    Reply {
        status: StatusCode::OK,
        meta: reply.meta,
        container: Some(container.clone()),
        item_count: Some(item_count),
        body: Some(text.finish()),
        ..Reply::default()
    }
}
