//! Projections as JSON: the list, their progress, and the actions of an operator.
//!
//! A rule is sent and shown as it is written down (docs/projections.md). Its id is in the path; a
//! body that names an id must name the same.

use http::StatusCode;
use serde_json::{Value, json};
use shardlake_account::{ProjectionPut, ProjectionReport, ProjectionRule};
use shardlake_model::{Error, Result};

use crate::pieces::written;
use crate::{OperatorCall, OperatorReply};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ProjectionTarget {
    All,
    One(String),
    Pause(String),
    Resume(String),
}

impl ProjectionTarget {
    /// The target that the path segments after `projections` address.
    pub fn of(segments: &[&str], decode: impl Fn(&str) -> Result<String>) -> Result<Option<Self>> {
        Ok(match segments {
            [] => Some(ProjectionTarget::All),
            [id] if !id.is_empty() => Some(ProjectionTarget::One(decode(id)?)),
            [id, "pause"] => Some(ProjectionTarget::Pause(decode(id)?)),
            [id, "resume"] => Some(ProjectionTarget::Resume(decode(id)?)),
            _ => None,
        })
    }
}

pub(crate) async fn serve(call: &OperatorCall<'_>, target: &ProjectionTarget) -> Result<OperatorReply> {
    call.address.only_parameter("")?;
    let account = call.account;
    match (target, call.method.as_str()) {
        (ProjectionTarget::All, "GET") => {
            let all: Vec<Value> = account.projections().projections().await.iter().map(document).collect();
            Ok(crate::ok(written(&json!({ "projections": all }))))
        }
        (ProjectionTarget::One(id), "GET") => show(call, id, StatusCode::OK).await,
        (ProjectionTarget::One(id), "PUT") => {
            let status =
                match account.projections().put_projection(&call.context, rule(id, &call.body)?).await? {
                    ProjectionPut::Created => StatusCode::CREATED,
                    ProjectionPut::Replaced | ProjectionPut::Unchanged => StatusCode::OK,
                };
            show(call, id, status).await
        }
        (ProjectionTarget::One(id), "DELETE") => {
            account.projections().delete_projection(id).await?;
            Ok(OperatorReply::empty(StatusCode::NO_CONTENT))
        }
        (ProjectionTarget::Pause(id), "POST") => {
            account.projections().pause_projection(id).await?;
            show(call, id, StatusCode::OK).await
        }
        (ProjectionTarget::Resume(id), "POST") => {
            account.projections().resume_projection(id).await?;
            show(call, id, StatusCode::OK).await
        }
        _ => Err(crate::wrong_method(call)),
    }
}

async fn show(call: &OperatorCall<'_>, id: &str, status: StatusCode) -> Result<OperatorReply> {
    let report = call.account.projections().projection(id).await?;
    Ok(OperatorReply::json(status, written(&document(&report))))
}

fn rule(id: &str, body: &[u8]) -> Result<ProjectionRule> {
    let invalid = |error: &dyn std::fmt::Display| {
        Error::bad_request(format!("the request body is no rule of a projection: {error}"))
    };
    let mut rule: Value = serde_json::from_slice(body).map_err(|error| invalid(&error))?;
    let members = rule.as_object_mut().ok_or_else(|| invalid(&"it is no object"))?;
    let named = members.entry("id").or_insert_with(|| id.into());
    if named.as_str() != Some(id) {
        return Err(Error::bad_request(format!(
            "the rule names the projection {named}, and the path '{id}'"
        )));
    }
    serde_json::from_value(rule).map_err(|error| invalid(&error))
}

fn document(report: &ProjectionReport) -> Value {
    let place = |(min, max, lsn): &(String, String, u64)| json!({ "minInclusive": min, "maxExclusive": max, "lsn": lsn });
    let error = report.last_error.as_ref();
    json!({
        "id": report.rule.id,
        "state": report.state.name(),
        "reason": report.state.reason(),
        "lag": { "changes": report.lag.changes, "seconds": report.lag.seconds },
        "counts": report.counts,
        "lastError": error.map(|(words, at)| json!({ "message": words, "time": at.seconds() })),
        "created": report.created,
        "rule": report.rule,
        "places": report.places.iter().map(place).collect::<Vec<_>>(),
    })
}
