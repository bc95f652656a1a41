//! `POST query`: a query with its plan and its figures as data, for an analysis of its cost.
//!
//! | file | contents |
//! |---|---|
//! | `body.rs` | the request: text, parameters, scope, page, and whether it is run at all |
//! | `plan.rs` | the steps of the query as boxes with figures |
//! | `answer.rs` | the answer, with its rows last and as the engine wrote them |
//! | `advice.rs` | descriptions of the query advisor's rules |
//!
//! A query that names no partition is answered from all of them, merged here. It costs as much as
//! the same query through any other API. A client that disconnects ends the query: its request is
//! dropped together with the pages that are being read.

mod advice;
mod answer;
mod body;
mod plan;

use http::StatusCode;
use shardlake_account::{ContainerHandle, QueryRequest, QueryWants};
use shardlake_model::Result;

use crate::{OperatorCall, OperatorReply};
pub(crate) use answer::indexes;
pub(crate) use body::Parameter;

use body::{Mode, QueryBody};

pub(crate) async fn query(call: &OperatorCall<'_>, container: &ContainerHandle) -> Result<OperatorReply> {
    let body = QueryBody::read(&call.body, call.account.router().limits())?;
    let wants =
        QueryWants { explanation: false, utilization: true, advice: true, figures: true, any_order: false };
    let request = QueryRequest {
        text: &body.query,
        parameters: &body.parameters,
        scope: body.scope,
        max_items: body.max_items,
        continuation: body.continuation.as_deref().filter(|token| !token.is_empty()),
        resume_filter: None,
        allows_cross_partition: true,
        fans_out: true,
        wants,
    };
    let reply = match body.mode {
        Mode::Run => call.account.queries().query(&call.context, container, request).await?,
        Mode::Plan => call.account.queries().explain(&call.context, container, &request)?,
    };
    let charge_centi = reply.meta.charge_centi;
    let body = Some(answer::written(reply));
    Ok(OperatorReply { charge_centi, body, ..OperatorReply::empty(StatusCode::OK) })
}
