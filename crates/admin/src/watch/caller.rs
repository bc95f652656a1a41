//! `GET caller`: the rights of the key or the token that a request carries.

use serde_json::json;
use shardlake_signature::Access;

use crate::pieces::written;
use crate::{OperatorCall, OperatorReply};

/// The caller, as the gateway has authenticated it.
#[derive(Debug, Clone)]
pub enum CallerAccess {
    Key(Access),
    Token(TokenAccess),
}

/// Scope of a resource token.
#[derive(Debug, Clone)]
pub struct TokenAccess {
    /// `Read` or `All`, as the permission was written.
    pub mode: String,
    /// The link of a container or of a resource in it.
    pub resource: String,
    /// A JSON array, where the permission is limited to a partition key.
    pub partition_key: Option<String>,
    /// Unix seconds.
    pub expiry: u64,
}

pub(crate) fn caller(call: &OperatorCall<'_>) -> OperatorReply {
    let told = match call.caller {
        CallerAccess::Key(Access::Full) => json!({ "access": "full" }),
        CallerAccess::Key(Access::ReadOnly) => json!({ "access": "readOnly" }),
        CallerAccess::Token(token) => {
            // The text was checked to be JSON when the permission was made.
            let key = token.partition_key.as_deref().map(serde_json::from_str::<serde_json::Value>);
            json!({
                "access": "token",
                "mode": token.mode,
                "resource": token.resource,
                "resourcePartitionKey": key.and_then(Result::ok),
                "expiresAt": token.expiry * 1000,
            })
        }
    };
    crate::ok(written(&told))
}
