//! Delete every item of one logical partition.
//!
//! The reference answers at once and deletes in the background; here the items are deleted when the reply arrives, so no
//! pending header is sent.

use http::StatusCode;
use shardlake_account::ContainerHandle;
use shardlake_model::{Error, Result};

use crate::call::Call;
use crate::items::key;
use crate::reply::Reply;

pub(crate) async fn execute(call: &Call<'_>, container: &ContainerHandle) -> Result<Reply> {
    let key = key(call)?.ok_or_else(|| {
        Error::bad_request(
            "deleting a logical partition needs its key in header 'x-ms-documentdb-partitionkey'",
        )
    })?;
    let meta = call.account.items().delete_partition_key(&call.context, container, &key).await?;
    Ok(Reply { status: StatusCode::OK, meta, container: Some(container.clone()), ..Reply::default() })
}
