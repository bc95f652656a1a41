//! Settings of a global secondary index, changed while it is there.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use shardlake_account::IndexSettingsChange;
use shardlake_model::{Error, Result};

use crate::OperatorCall;

pub(crate) async fn change(call: &OperatorCall<'_>, database: &str, container: &str) -> Result<()> {
    let change = change_of(&call.body)?;
    call.account.definitions().set_index(database, container, change).await
}

fn change_of(body: &[u8]) -> Result<IndexSettingsChange> {
    let members: Map<String, Value> = serde_json::from_slice(body).map_err(|error| {
        Error::bad_request(format!("the body is no JSON object with settings such as \"reads\": {error}"))
    })?;
    let mut change = IndexSettingsChange::default();
    for (name, value) in members {
        match name.as_str() {
            "reads" => change.reads = Some(value_of(&name, value, "\"eventual\" or \"caughtUp\"")?),
            "expired" => change.expired = Some(value_of(&name, value, "\"delete\" or \"keep\"")?),
            "charge" => change.charge = Some(value_of(&name, value, "\"containers\" or \"none\"")?),
            "unique" => {
                return Err(Error::bad_request(
                    "the setting 'unique' cannot be changed, since the ids of all rows depend on it: create another index",
                ));
            }
            "deadLetters" => {
                return Err(Error::unsupported(
                    "the setting 'deadLetters' is not supported yet: leave it out; nothing was done",
                ));
            }
            other => {
                return Err(Error::bad_request(format!(
                    "an index has no setting '{other}': use reads, expired or charge"
                )));
            }
        }
    }
    Ok(change)
}

fn value_of<T: DeserializeOwned>(name: &str, value: Value, values: &str) -> Result<T> {
    serde_json::from_value(value.clone())
        .map_err(|_| Error::bad_request(format!("the setting '{name}' cannot be {value}: use {values}")))
}

#[cfg(test)]
mod tests {
    use shardlake_model::{ErrorKind, ExpiredRows, IndexCharge, IndexReads};

    use super::*;

    #[test]
    fn settings_that_can_change_are_read_and_others_refused_by_name() {
        let body = br#"{"reads":"caughtUp","expired":"keep","charge":"none"}"#;
        let expected = IndexSettingsChange {
            reads: Some(IndexReads::CaughtUp),
            expired: Some(ExpiredRows::Keep),
            charge: Some(IndexCharge::None),
        };
        assert_eq!(change_of(body).expect("valid"), expected);
        assert_eq!(change_of(b"{}").expect("valid"), IndexSettingsChange::default());
        for (body, name) in [
            (r#"{"reads":"now"}"#, "caughtUp"),
            (r#"{"expired":true}"#, "keep"),
            (r#"{"charge":null}"#, "containers"),
            (r#"{"unique":true}"#, "unique"),
            (r#"{"deadLetters":"other"}"#, "deadLetters"),
            (r#"{"definition":"SELECT"}"#, "definition"),
            ("[]", "reads"),
        ] {
            let error = change_of(body.as_bytes()).expect_err(body);
            assert!(error.message().contains(name), "{body}: {error}");
            let kind = if name == "deadLetters" { ErrorKind::Unsupported } else { ErrorKind::BadRequest };
            assert_eq!(error.kind(), kind, "{body}");
        }
    }
}
