//! Queries over items (wire.md §9, §11).
//!
//! The envelope is that of a feed. A query over several partitions whose answers must be merged is answered with 400/1004 and
//! its plan, which makes clients merge themselves.

use std::fmt::Write as _;

use http::{HeaderValue, StatusCode};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use shardlake_account::{ContainerHandle, QueryReply, QueryRequest};
use shardlake_model::{Error, ErrorKind, Result};

use crate::gateway::Call;
use crate::headers::flag;
use crate::items::reading;
use crate::query_body::QueryBody;
use crate::reply::{EXPLANATION, QUERY_METRICS, Reply, SUBSTATUS};
use crate::{feed, query_plan, session};

pub(crate) async fn execute(call: &Call<'_>, container: &ContainerHandle) -> Result<Reply> {
    let headers = call.headers;
    let body = QueryBody::read(call)?;
    let context = reading(call)?;
    let request = QueryRequest {
        text: &body.text,
        parameters: &body.parameters,
        scope: feed::scope(headers)?,
        max_items: headers.max_items()?,
        continuation: headers.continuation.filter(|token| !token.is_empty()),
        allows_cross_partition: flag(
            "x-ms-documentdb-query-enablecrosspartition",
            headers.enable_cross_partition,
        )?,
        fans_out: flag("x-shardlake-fan-out", headers.fan_out)?,
        explains: flag("x-shardlake-explain", headers.explain)?,
    };
    let started = call.account.clock().elapsed();
    let reply = match call.account.query(&context, container, request).await {
        Ok(reply) => reply,
        Err(error) if error.kind() == ErrorKind::CrossPartitionQuery => {
            return query_plan::refusal(call, container, &body, &error);
        }
        Err(error) => return Err(error),
    };
    let milliseconds = (call.account.clock().elapsed() - started).as_secs_f64() * 1000.0;
    let mut response = respond(&reply, container);
    add_diagnostics(call, &reply, milliseconds, &mut response)?;
    response.continuation = reply.continuation;
    Ok(response)
}

fn respond(reply: &QueryReply, container: &ContainerHandle) -> Reply {
    let mut body = Vec::with_capacity(reply.rows.size_bytes() + reply.rows.len() + 64);
    body.extend_from_slice(b"{\"_rid\":\"");
    body.extend_from_slice(container.rid_text().as_bytes());
    body.extend_from_slice(b"\",\"Documents\":[");
    for (index, row) in reply.rows.iter().enumerate() {
        if index > 0 {
            body.push(b',');
        }
        body.extend_from_slice(row);
    }
    body.extend_from_slice(format!("],\"_count\":{}}}", reply.rows.len()).as_bytes());
    Reply {
        status: StatusCode::OK,
        meta: reply.meta,
        container: Some(container.clone()),
        session_token: (!reply.ranges.is_empty())
            .then(|| session::joined(reply.meta.session_version, &reply.ranges)),
        item_count: Some(reply.rows.len()),
        body: Some(body),
        ..Reply::default()
    }
}

/// The headers that a request has to ask for.
fn add_diagnostics(
    call: &Call<'_>,
    reply: &QueryReply,
    milliseconds: f64,
    response: &mut Reply,
) -> Result<()> {
    let headers = call.headers;
    let mut add = |name: &http::HeaderName, text: String| {
        let value = HeaderValue::try_from(text).map_err(|_| Error::internal("a header is not ASCII"))?;
        response.extra.push((name.clone(), value));
        Ok::<(), Error>(())
    };
    if flag("x-ms-documentdb-populatequerymetrics", headers.populate_query_metrics)? {
        add(&QUERY_METRICS, metrics(reply, milliseconds))?;
    }
    if flag("x-shardlake-explain", headers.explain)? {
        add(&EXPLANATION, utf8_percent_encode(&reply.explanation, NON_ALPHANUMERIC).to_string())?;
    }
    Ok(())
}

/// Every key that clients look for, in the reference's order.
fn metrics(reply: &QueryReply, milliseconds: f64) -> String {
    let statistics = &reply.statistics;
    let items = statistics.items_loaded + statistics.items_scanned;
    let bytes = statistics.items_loaded_bytes + statistics.items_scanned_bytes;
    let utilization = match items {
        0 => 0.0,
        items => (statistics.rows as f64 / items as f64).min(1.0),
    };
    let mut text = String::with_capacity(512);
    for (name, value) in [
        ("totalExecutionTimeInMs", milliseconds),
        ("queryCompileTimeInMs", 0.0),
        ("queryLogicalPlanBuildTimeInMs", 0.0),
        ("queryPhysicalPlanBuildTimeInMs", 0.0),
        ("queryOptimizationTimeInMs", 0.0),
        ("VMExecutionTimeInMs", milliseconds),
        ("indexLookupTimeInMs", 0.0),
    ] {
        write!(text, "{name}={value:.2};").expect("a string takes all text");
    }
    text.push_str("instructionCount=0;documentLoadTimeInMs=0.00;systemFunctionExecuteTimeInMs=0.00;userFunctionExecuteTimeInMs=0.00;");
    write!(
        text,
        "retrievedDocumentCount={items};retrievedDocumentSize={bytes};outputDocumentCount={};outputDocumentSize={};writeOutputTimeInMs=0.00;indexUtilizationRatio={utilization:.2}",
        statistics.rows, statistics.rows_bytes
    )
    .expect("a string takes all text");
    text
}

/// A refusal that clients understand as a request to merge by themselves.
pub(crate) fn merge_yourself(message: &str, plan: &str) -> Reply {
    let body = serde_json::json!({
        "code": "BadRequest",
        "message": message,
        "additionalErrorInfo": plan,
    });
    Reply::json(StatusCode::BAD_REQUEST, 100, body.to_string().into_bytes())
        .with_header(SUBSTATUS.clone(), HeaderValue::from_static("1004"))
}
