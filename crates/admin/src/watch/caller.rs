//! `GET caller`: what the key or the token is good for that a request brings.

use serde_json::json;
use shardlake_signature::Access;

use crate::pieces::written;
use crate::{OperatorCall, OperatorReply};

/// Who asks, as the door has found out.
#[derive(Debug, Clone)]
pub enum CallerAccess {
    Key(Access),
    Token(TokenAccess),
}

/// What a resource token reaches.
#[derive(Debug, Clone)]
pub struct TokenAccess {
    /// `Read` or `All`, as the permission was written.
    pub mode: String,
    /// The link of a container or of something in it.
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
            // It was JSON when the permission was made.
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
