//! Query plans for SDKs (wire.md §10).

use http::{HeaderValue, StatusCode};
use serde_json::{Map, Value, json};
use shardlake_account::sql::{AggregateFunction, DistinctKind, QueryInfo, SortDirection, SupportedFeatures};
use shardlake_account::{ContainerHandle, PlanRange, PlanReply};
use shardlake_model::{Error, Result};

use crate::call::Call;
use crate::header_names::SUBSTATUS;
use crate::query_body::QueryBody;
use crate::reply::Reply;

/// A plan costs nothing in the reference; every reply has a charge.
const CHARGE_CENTI: u64 = 100;

pub(crate) fn read(call: &Call<'_>, container: &ContainerHandle) -> Result<Reply> {
    let body = QueryBody::read_whole(call)?;
    let supported =
        call.headers.supported_features.map_or_else(SupportedFeatures::all, SupportedFeatures::parse);
    let reply = call.account.queries().query_plan(
        &call.context,
        container,
        &body.text,
        &body.parameters,
        &supported,
    )?;
    if call.headers.partition_key.is_none() {
        reply.plan.check_merge()?;
    }
    let text = plan_json(&reply).to_string();
    Ok(Reply {
        container: Some(container.clone()),
        ..Reply::json(StatusCode::OK, CHARGE_CENTI, text.into_bytes())
    })
}

/// The answer to a query that the client has to merge, with the plan for it.
pub(crate) fn refusal(
    call: &Call<'_>,
    container: &ContainerHandle,
    body: &QueryBody,
    error: &Error,
) -> Result<Reply> {
    let features = SupportedFeatures::of_refused_queries();
    let reply = call.account.queries().query_plan(
        &call.context,
        container,
        &body.text,
        &body.parameters,
        &features,
    )?;
    reply.plan.check_merge()?;
    let reply = merge_yourself(error.message(), &plan_json(&reply).to_string());
    Ok(Reply { container: Some(container.clone()), ..reply })
}

/// A refusal that clients understand as a request to merge by themselves.
fn merge_yourself(message: &str, plan: &str) -> Reply {
    let body = serde_json::json!({
        "code": "BadRequest",
        "message": message,
        "additionalErrorInfo": plan,
    });
    Reply::json(StatusCode::BAD_REQUEST, 100, body.to_string().into_bytes())
        .with_header(SUBSTATUS.clone(), HeaderValue::from_static("1004"))
}

fn plan_json(reply: &PlanReply) -> Value {
    let ranges: Vec<Value> = if reply.ranges.is_empty() {
        vec![range_json("", "", true)]
    } else {
        reply.ranges.iter().map(span_json).collect()
    };
    json!({
        "partitionedQueryExecutionInfoVersion": 2,
        "queryInfo": info_json(&reply.plan.info),
        "queryRanges": ranges,
    })
}

fn span_json(range: &PlanRange) -> Value {
    match range {
        PlanRange::Point(epk) => range_json(&epk.to_hex(), &epk.to_hex(), true),
        PlanRange::Span(span) => {
            let (min, max) = span.to_hex();
            range_json(&min, &max, false)
        }
    }
}

fn range_json(min: &str, max: &str, includes_max: bool) -> Value {
    json!({ "min": min, "max": max, "isMinInclusive": true, "isMaxInclusive": includes_max })
}

fn info_json(info: &QueryInfo) -> Value {
    let aggregate = |function: &AggregateFunction| Value::from(aggregate_name(*function));
    let by_alias: Map<String, Value> = info
        .group_by_alias_to_aggregate
        .iter()
        .map(|(alias, function)| (alias.clone(), function.as_ref().map_or(Value::Null, aggregate)))
        .collect();
    let order = |direction: &SortDirection| match direction {
        SortDirection::Ascending => "Ascending",
        SortDirection::Descending => "Descending",
    };
    let distinct_count = info.distinct_count.as_ref().map(|count| json!({ "dCountAlias": count.alias }));
    json!({
        "distinctType": match info.distinct {
            DistinctKind::None => "None",
            DistinctKind::Ordered => "Ordered",
            DistinctKind::Unordered => "Unordered",
        },
        "top": info.top,
        "offset": info.offset,
        "limit": info.limit,
        "orderBy": info.order_by.iter().map(order).collect::<Vec<_>>(),
        "orderByExpressions": info.order_by_expressions,
        "groupByExpressions": info.group_by_expressions,
        "groupByAliases": info.group_by_aliases,
        "aggregates": info.aggregates.iter().map(aggregate).collect::<Vec<_>>(),
        "groupByAliasToAggregateType": by_alias,
        "rewrittenQuery": info.rewritten_query.as_deref().unwrap_or_default(),
        "hasSelectValue": info.has_select_value,
        "dCountInfo": distinct_count,
        "hasNonStreamingOrderBy": info.has_non_streaming_order_by,
    })
}

fn aggregate_name(function: AggregateFunction) -> &'static str {
    match function {
        AggregateFunction::Average => "Average",
        AggregateFunction::Count => "Count",
        AggregateFunction::CountIf => "CountIf",
        AggregateFunction::MakeList => "MakeList",
        AggregateFunction::MakeSet => "MakeSet",
        AggregateFunction::Max => "Max",
        AggregateFunction::Min => "Min",
        AggregateFunction::Sum => "Sum",
    }
}
