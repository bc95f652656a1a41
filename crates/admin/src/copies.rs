//! Copies as JSON: the list of all, and global secondary indexes: their states and lags, and the actions of an operator.

use serde_json::{Value, json};
use shardlake_account::{DuplicateRow, Duplicates, IndexReport, Refusal};
use shardlake_model::Result;

use crate::functions::{self, FunctionAction};
use crate::pieces::written;
use crate::{OperatorCall, OperatorReply};
use crate::{copy_settings, copy_verification as verify};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CopyTarget {
    All,
    Index { database: String, container: String, action: CopyAction },
    Function { id: String, action: FunctionAction },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CopyAction {
    Show,
    Pause,
    Resume,
    Rebuild,
    Verify,
    Duplicates,
}

impl CopyTarget {
    /// The target that the path segments after `copies` address.
    pub fn of(segments: &[&str], decode: impl Fn(&str) -> Result<String>) -> Result<Option<Self>> {
        let (database, container, action) = match segments {
            [] => return Ok(Some(CopyTarget::All)),
            ["functions", id, action @ ..] if !id.is_empty() => {
                let action = match action {
                    [] => Some(FunctionAction::One),
                    [name] => FunctionAction::NAMED.into_iter().find(|action| action.name() == *name),
                    _ => None,
                };
                let id = decode(id)?;
                return Ok(action.map(|action| CopyTarget::Function { id, action }));
            }
            ["index", database, container] => (database, container, CopyAction::Show),
            ["index", database, container, "pause"] => (database, container, CopyAction::Pause),
            ["index", database, container, "resume"] => (database, container, CopyAction::Resume),
            ["index", database, container, "rebuild"] => (database, container, CopyAction::Rebuild),
            ["index", database, container, "duplicates"] => (database, container, CopyAction::Duplicates),
            ["index", database, container, "verify"] => (database, container, CopyAction::Verify),
            _ => return Ok(None),
        };
        if database.is_empty() || container.is_empty() {
            return Ok(None);
        }
        let (database, container) = (decode(database)?, decode(container)?);
        Ok(Some(CopyTarget::Index { database, container, action }))
    }
}

pub(crate) async fn serve(call: &OperatorCall<'_>, target: &CopyTarget) -> Result<OperatorReply> {
    let copies = call.account.copies();
    if let CopyTarget::Index { database, container, action: CopyAction::Verify } = target {
        return verify::serve(call, (database, container)).await;
    }
    if let CopyTarget::Function { id, action } = target {
        return functions::serve(call, id, *action).await;
    }
    call.address.only_parameter("")?;
    let CopyTarget::Index { database, container, action } = target else {
        if call.method != "GET" {
            return Err(crate::wrong_method(call));
        }
        let mut all: Vec<Value> = copies.indexes().await.iter().map(document).collect();
        let functions = call.account.functions().functions().await;
        all.extend(functions.iter().map(|report| functions::document(report, false)));
        return Ok(crate::ok(written(&json!({ "copies": all }))));
    };
    match (action, call.method.as_str()) {
        (CopyAction::Show, "GET") => {}
        (CopyAction::Show, "PATCH") => copy_settings::change(call, database, container).await?,
        (CopyAction::Duplicates, "GET") => {
            let found = copies.duplicates(database, container).await?;
            return Ok(crate::ok(written(&duplicates(&found))));
        }
        (CopyAction::Pause, "POST") => copies.pause(database, container).await?,
        (CopyAction::Resume, "POST") => copies.resume(database, container).await?,
        (CopyAction::Rebuild, "POST") => copies.rebuild(database, container).await?,
        _ => return Err(crate::wrong_method(call)),
    }
    Ok(crate::ok(written(&document(&copies.index(database, container).await?))))
}

fn duplicates(found: &Duplicates) -> Value {
    let row = |row: &DuplicateRow| {
        let key: Value = serde_json::from_str(&row.key).unwrap_or_default();
        json!({ "partitionKey": key, "id": row.id, "_id": row.item })
    };
    json!({ "count": found.count, "duplicates": found.listed.iter().map(row).collect::<Vec<_>>() })
}

fn document(report: &IndexReport) -> Value {
    let place = |(min, max, lsn): &(String, String, u64)| json!({ "minInclusive": min, "maxExclusive": max, "lsn": lsn });
    let refusal = |Refusal { key, id, reason }: &Refusal| {
        let key: Value = serde_json::from_str(key).unwrap_or_default();
        json!({ "partitionKey": key, "id": id, "reason": reason })
    };
    let error = report.last_error.as_ref();
    assert!(report.refused >= report.refusals.len() as u64, "listed refusals are counted");
    json!({
        "kind": "index",
        "name": format!("{}/{}", report.database, report.container),
        "database": report.database,
        "container": report.container,
        "source": report.source,
        "definition": report.definition,
        "status": report.state,
        "reason": report.reason,
        "percent": report.percent,
        "lag": { "changes": report.lag.changes, "seconds": report.lag.seconds },
        "rows": report.rows,
        "generation": report.generation,
        "counts": {
            "itemsBuilt": report.items_built,
            "rowsWritten": report.written,
            "rowsDeleted": report.deleted,
            "refused": report.refused,
            "duplicates": report.duplicates,
        },
        "settings": report.settings,
        "refused": report.refusals.iter().map(refusal).collect::<Vec<_>>(),
        "lastError": error.map(|(words, at)| json!({ "message": words, "time": at.seconds() })),
        "places": report.places().iter().map(place).collect::<Vec<_>>(),
    })
}
