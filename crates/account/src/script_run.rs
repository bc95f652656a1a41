//! Runs stored procedures: one transaction of a logical partition, from the first call of the script to its end.

use shardlake_model::{Error, ReplyMeta, RequestContext, Result, Script};

use crate::{Account, ContainerHandle, KeyInput};

/// What a stored procedure that ended well came to.
#[derive(Debug, Clone)]
pub struct ProcedureReply {
    /// JSON text, where the script has set a body.
    pub body: Option<String>,
    /// What `console.log` printed, if it was to be kept.
    pub log: String,
    pub meta: ReplyMeta,
}

impl Account {
    /// Runs a stored procedure on the logical partition that `key` names. `arguments` is the text of a JSON array. Errors
    /// are `BadRequest` for what the script throws and `Forbidden` past its limits; nothing is written then.
    pub async fn execute_procedure(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        key: Option<KeyInput<'_>>,
        script: &Script,
        arguments: &str,
        logs: bool,
    ) -> Result<ProcedureReply> {
        let _ = (ctx, container, key, arguments, logs);
        Err(Error::unsupported(format!("stored procedures are not supported yet: '{}'", script.id)))
    }
}
