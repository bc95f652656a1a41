//! `GET key`: where the items of a partition key are, how many there are, and how much of the load is theirs.

use serde_json::{Value, json};
use shardlake_account::{ContainerHandle, KeyReport};
use shardlake_model::{Error, Result};

use crate::pieces::written;
use crate::{OperatorCall, OperatorReply};

pub(crate) async fn key(call: &OperatorCall<'_>, container: &ContainerHandle) -> Result<OperatorReply> {
    let parameters = call.address.parameters(&["key"])?;
    let text = parameters.get("key").ok_or_else(|| {
        Error::bad_request(
            "the parameter 'key' is missing: the partition key as a JSON array, as in [\"ada\"]",
        )
    })?;
    let key = shardlake_account::parse_partition_key(text)
        .map_err(|error| Error::bad_request(format!("the key '{text}' is invalid: {error}")))?;
    let report = call.account.maintenance().key_report(container, &key).await?;
    Ok(crate::ok(written(&document(
        &report,
        call.account.router().limits().logical_partition_size_bytes_max,
    ))))
}

fn document(report: &KeyReport, size_bytes_max: u64) -> Value {
    let load = report.load.as_ref().map(|load| {
        json!({
            "ru": load.ru,
            "errorRu": load.error_ru,
            "share": load.share,
            "windowSeconds": load.window_seconds,
        })
    });
    let key: Value = serde_json::from_str(&report.key).unwrap_or_else(|_| Value::from(report.key.as_str()));
    json!({
        "key": key,
        "epk": report.epk,
        "partition": report.range_id.to_string(),
        "shard": report.shard,
        "items": report.size.items,
        "sizeBytes": report.size.size_bytes,
        "sizeBytesMax": size_bytes_max,
        "load": load,
    })
}
