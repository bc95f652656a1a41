//! `GET diagnostics`: settings, formats, process limits and definitions, for reports of problems.
//!
//! The answer holds no keys and no items, but the names of everything, so that only a read-write key may ask for it.

use serde_json::{Value, json};
use shardlake_account::Account;
use shardlake_model::{Error, ErrorKind, Result};

use crate::pieces::written;
use crate::{OperatorCall, OperatorReply};

/// Definitions in one answer.
const CONTAINERS_MAX: usize = 1_000;

pub(crate) fn diagnostics(call: &OperatorCall<'_>) -> Result<OperatorReply> {
    call.address.only_parameter("")?;
    let installation = call.installation.ok_or_else(|| {
        Error::new(ErrorKind::NotFound, "this server has no description of its installation")
    })?;
    let Value::Object(mut answer) = installation.diagnostics.clone() else {
        return Err(Error::new(ErrorKind::Internal, "the diagnostics of the installation are no object"));
    };
    let (definitions, left_out) = definitions(call.account);
    answer.insert("databases".to_owned(), definitions);
    answer.insert("containersLeftOut".to_owned(), json!(left_out));
    Ok(crate::ok(written(&answer)))
}

/// The first containers by database, and the number of the others.
fn definitions(account: &Account) -> (Value, usize) {
    let (mut listed, mut left_out) = (0, 0);
    let databases = account.router().databases().into_iter().map(|database| {
        // The database may have been deleted since.
        let containers = account.router().containers(&database.id).unwrap_or_default();
        let shown = containers.len().min(CONTAINERS_MAX - listed);
        listed += shown;
        left_out += containers.len() - shown;
        let shown = containers.iter().take(shown).map(|container| {
            let container = container.container();
            json!({ "definition": container.definition, "isCollection": container.is_collection })
        });
        json!({ "id": database.id, "containers": shown.collect::<Vec<_>>() })
    });
    let databases: Vec<Value> = databases.collect();
    (Value::Array(databases), left_out)
}
