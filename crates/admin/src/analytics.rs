//! Analytical stores as JSON: the list, their state, settings, and the orders of an operator.

use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};
use shardlake_account::{AnalyticalSettings, ContainerHandle};
use shardlake_analytics::{Analytics, TableReport};
use shardlake_model::{Error, Result};

use crate::pieces::written;
use crate::{OperatorCall, OperatorReply};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnalyticsAction {
    /// Read with GET, replaced with PUT.
    Settings,
    Pause,
    Resume,
    Rebuild,
    Compact,
    Verify,
}

impl AnalyticsAction {
    /// The action that the path segments after `analytics` name.
    pub fn of(segments: &[&str]) -> Option<AnalyticsAction> {
        Some(match segments {
            [] => AnalyticsAction::Settings,
            ["pause"] => AnalyticsAction::Pause,
            ["resume"] => AnalyticsAction::Resume,
            ["rebuild"] => AnalyticsAction::Rebuild,
            ["compact"] => AnalyticsAction::Compact,
            ["verify"] => AnalyticsAction::Verify,
            _ => return None,
        })
    }
}

/// The body of a request that replaces settings.
#[derive(Debug, Deserialize)]
struct NewSettings {
    #[serde(default)]
    rebuild: bool,
    #[serde(flatten)]
    settings: serde_json::Map<String, Value>,
}

pub(crate) async fn all(call: &OperatorCall<'_>) -> Result<OperatorReply> {
    call.address.only_parameter("")?;
    let reports: Vec<Value> = store(call)?.reports().await.iter().map(document).collect();
    Ok(crate::ok(written(&json!({ "tables": reports }))))
}

pub(crate) async fn serve(
    call: &OperatorCall<'_>,
    container: &ContainerHandle,
    action: AnalyticsAction,
) -> Result<OperatorReply> {
    let store = store(call)?;
    let rid = container.container().rid;
    match (action, call.method.as_str()) {
        (AnalyticsAction::Compact, "POST") => {
            let purge =
                call.address.parameters(&["purge"])?.get("purge").is_some_and(|value| value == "true");
            return Ok(accepted(store.compact(rid, purge)?));
        }
        (AnalyticsAction::Verify, "POST") => {
            call.address.only_parameter("")?;
            return Ok(accepted(store.verify(rid)?));
        }
        _ => call.address.only_parameter("")?,
    };
    match (action, call.method.as_str()) {
        (AnalyticsAction::Settings, "GET") => return shown(store, container, StatusCode::OK).await,
        (AnalyticsAction::Settings, "PUT") => {
            let (settings, rebuild) = new_settings(&call.body)?;
            store.set_settings(rid, settings, rebuild).await?;
            return shown(store, container, StatusCode::OK).await;
        }
        (AnalyticsAction::Pause, "POST") => store.pause(rid, true).await?,
        (AnalyticsAction::Resume, "POST") => store.pause(rid, false).await?,
        (AnalyticsAction::Rebuild, "POST") => store.rebuild(rid).await?,
        _ => return Err(crate::wrong_method(call)),
    }
    shown(store, container, StatusCode::ACCEPTED).await
}

fn store<'r>(call: &OperatorCall<'r>) -> Result<&'r Analytics> {
    call.analytics.ok_or_else(|| Error::unsupported("this server keeps no analytical stores"))
}

fn accepted(order: u64) -> OperatorReply {
    OperatorReply::json(StatusCode::ACCEPTED, written(&json!({ "order": order })))
}

async fn shown(store: &Analytics, container: &ContainerHandle, status: StatusCode) -> Result<OperatorReply> {
    let report = store.report(container.container().rid).await?;
    Ok(OperatorReply::json(status, written(&document(&report))))
}

fn new_settings(body: &[u8]) -> Result<(AnalyticalSettings, bool)> {
    let invalid = |error: serde_json::Error| {
        Error::bad_request(format!("the request body is no settings of an analytical store: {error}"))
    };
    let sent: NewSettings = serde_json::from_slice(body).map_err(invalid)?;
    let settings = serde_json::from_value(Value::Object(sent.settings)).map_err(invalid)?;
    Ok((settings, sent.rebuild))
}

fn document(report: &TableReport) -> Value {
    let mut document = serde_json::to_value(report).expect("a report is plain data");
    document["reason"] = json!(report.state.reason());
    document["percent"] = json!(report.state.percent());
    document
}
