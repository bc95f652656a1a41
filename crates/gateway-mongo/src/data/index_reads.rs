//! Reads of global secondary indexes whose definitions ask for all earlier writes of the source.

use shardlake_account::collections::{Failure, Found};

use crate::call::Call;
use crate::errors::Result;

/// Commands that wait. A collection that a pipeline reads further on is read as it is.
const READS: [&str; 4] = ["find", "count", "distinct", "aggregate"];

/// Waits until the index that a command reads has the writes that its definition asks for.
pub async fn wait(call: &Call) -> Result<()> {
    let account = &call.deployment.account;
    if !READS.contains(&call.name)
        || account.router().catalog().load().definitions.secondary_indexes.is_empty()
    {
        return Ok(());
    }
    // The command itself reports a name that is none.
    let Ok(namespace) = call.namespace() else { return Ok(()) };
    if let Ok(Found::Collection(found)) = call.collections().find_name(&namespace) {
        account.wait_for_index(&call.context, &found.handle, None).await.map_err(Failure::from)?;
    }
    Ok(())
}
