//! Writes of single items with the triggers that the request names: one transaction of the item's logical partition.

use shardlake_model::{Error, Preconditions, RequestContext, Result};
use shardlake_partition::ItemReply;

use crate::{Account, ContainerHandle, KeyInput};

/// The triggers that a request names, by id. Without any, the operation is an ordinary one.
#[derive(Debug, Clone, Copy, Default)]
pub struct Triggers<'a> {
    pub pre: &'a [String],
    pub post: &'a [String],
}

/// What a write with triggers came to.
#[derive(Debug, Clone)]
pub struct TriggeredReply {
    pub reply: ItemReply,
    /// JSON text, where the post-trigger has set another body for the response.
    pub body: Option<String>,
}

impl Triggers<'_> {
    pub fn is_empty(&self) -> bool {
        self.pre.is_empty() && self.post.is_empty()
    }
}

impl Account {
    pub async fn create_item_with_triggers(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        key: Option<KeyInput<'_>>,
        json: &[u8],
        triggers: Triggers<'_>,
    ) -> Result<TriggeredReply> {
        if triggers.is_empty() {
            let reply = self.create_item(ctx, container, key, json).await?;
            return Ok(TriggeredReply { reply, body: None });
        }
        Err(unsupported())
    }

    pub async fn upsert_item_with_triggers(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        key: Option<KeyInput<'_>>,
        json: &[u8],
        preconditions: &Preconditions,
        triggers: Triggers<'_>,
    ) -> Result<TriggeredReply> {
        if triggers.is_empty() {
            let reply = self.upsert_item(ctx, container, key, json, preconditions).await?;
            return Ok(TriggeredReply { reply, body: None });
        }
        Err(unsupported())
    }

    #[expect(clippy::too_many_arguments, reason = "a replace and its triggers")]
    pub async fn replace_item_with_triggers(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        key: Option<KeyInput<'_>>,
        id: &str,
        json: &[u8],
        preconditions: &Preconditions,
        triggers: Triggers<'_>,
    ) -> Result<TriggeredReply> {
        if triggers.is_empty() {
            let reply = self.replace_item(ctx, container, key, id, json, preconditions).await?;
            return Ok(TriggeredReply { reply, body: None });
        }
        Err(unsupported())
    }

    pub async fn delete_item_with_triggers(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        key: Option<KeyInput<'_>>,
        id: &str,
        preconditions: &Preconditions,
        triggers: Triggers<'_>,
    ) -> Result<TriggeredReply> {
        if triggers.is_empty() {
            let reply = self.delete_item(ctx, container, key, id, preconditions).await?;
            return Ok(TriggeredReply { reply, body: None });
        }
        Err(unsupported())
    }
}

fn unsupported() -> Error {
    Error::unsupported("triggers are not supported yet")
}
