//! Comparison of an index with its source: the order, and its report as JSON.

use serde_json::{Value, json};
use shardlake_account::{Difference, DifferenceKind, IndexVerification, Repair, VerifyState};
use shardlake_model::{Error, ErrorKind, Result};

use crate::pieces::written;
use crate::{OperatorCall, OperatorReply};

pub(crate) async fn serve(
    call: &OperatorCall<'_>,
    (database, container): (&str, &str),
) -> Result<OperatorReply> {
    let repair = match call.address.only_parameter("repair")? {
        None | Some("false") => Repair::No,
        Some("true") => Repair::Rebuild,
        Some(other) => {
            return Err(Error::bad_request(format!(
                "the parameter repair has the value '{other}': use true or false"
            )));
        }
    };
    let copies = call.account.copies();
    let report = match call.method.as_str() {
        "POST" => copies.verify(database, container, repair).await?,
        "GET" => copies.verification(database, container)?.ok_or_else(|| {
            Error::new(
                ErrorKind::NotFound,
                format!("the index '{database}/{container}' was not verified since the start of the server: POST to this path begins it"),
            )
        })?,
        _ => return Err(crate::wrong_method(call)),
    };
    Ok(crate::ok(written(&document(&report))))
}

fn document(report: &IndexVerification) -> Value {
    let (state, reason) = match &report.state {
        VerifyState::Running => ("running", None),
        VerifyState::Done => ("done", None),
        VerifyState::Failed(reason) => ("failed", Some(reason)),
    };
    json!({
        "state": state,
        "reason": reason,
        "percent": report.percent(),
        "began": report.began.seconds(),
        "ended": report.ended.map(|ended| ended.seconds()),
        "counts": { "items": report.items, "rows": report.rows, "differences": report.differences },
        "differences": report.listed.iter().map(difference).collect::<Vec<_>>(),
        "repairedByGeneration": report.repaired_by,
    })
}

fn difference(difference: &Difference) -> Value {
    let kind = match difference.kind {
        DifferenceKind::Missing => "missing",
        DifferenceKind::Other => "other",
        DifferenceKind::TooMany => "tooMany",
        DifferenceKind::WrongName => "wrongName",
    };
    let json_of = |text: &Option<String>| -> Value {
        text.as_deref().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    };
    json!({
        "kind": kind,
        "item": difference.item,
        "partitionKey": serde_json::from_str::<Value>(&difference.key).unwrap_or_default(),
        "row": difference.row,
        "expected": json_of(&difference.expected),
        "found": json_of(&difference.found),
    })
}
