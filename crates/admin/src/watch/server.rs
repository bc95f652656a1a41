//! `GET server`: the running server, its limits and features, and its amounts of data.
//!
//! A client uses only the features that `features` names, so that a newer client works with an older server.

use serde_json::{Value, json};
use shardlake_account::{Account, CapacityMode};
use shardlake_model::{ConsistencyLevel, Result};

use super::Installation;
use crate::pieces::written;
use crate::{OperatorCall, OperatorReply};

/// Features that this server offers below its own paths; a name is never reused.
const FEATURES: &[&str] = &[
    "server",
    "caller",
    "pulse",
    "query",
    "heat",
    "key",
    "actions",
    "parts",
    "log",
    "scriptsRun",
    "schema",
    "indexingPreview",
    "keys",
    "lastBackup",
    "analytics",
];
const DAY_MS: u64 = 24 * 60 * 60 * 1000;

pub(crate) async fn server(call: &OperatorCall<'_>) -> Result<OperatorReply> {
    let (account, now) = (call.account, call.context.now);
    let told = call.installation;
    // The size of the files waits for a journal that is being synced.
    let shards = account.shard_states().await?;
    let statistics = account.counts();
    let disk_bytes: u64 = shards.iter().map(|shard| shard.disk_bytes).sum();
    // Of several disks, the one that will be full first.
    let disk_free_bytes = shards.iter().filter_map(|shard| shard.disk_free_bytes).min();
    let shards: Vec<Value> = shards
        .iter()
        .map(|shard| {
            json!({
                "number": shard.number,
                "partitions": shard.partitions,
                "sizeBytes": shard.size_bytes,
                "diskBytes": shard.disk_bytes,
                "isWritable": shard.is_writable,
            })
        })
        .collect();
    let days_left = |installation: &Installation| {
        installation.certificate_ends.map(|end| end.0.saturating_sub(now.0) / DAY_MS)
    };
    Ok(crate::ok(written(&json!({
        "version": told.map(|installation| installation.version),
        "build": told.map(|installation| &installation.build),
        "startedAt": told.map(|installation| installation.started_at.milliseconds()),
        "now": now.milliseconds(),
        "label": told.and_then(|installation| installation.label.as_ref()),
        "durability": told.map(|installation| installation.durability),
        "consistency": consistency(account.router().consistency()),
        "capacityMode": match account.router().capacity_mode() {
            CapacityMode::Provisioned => "provisioned",
            CapacityMode::Serverless => "serverless",
        },
        "throughputEnforced": told.map(|installation| installation.enforces_throughput),
        "limitsScale": told.map(|installation| &installation.limits_scale),
        "limits": limits(account, told),
        "features": FEATURES,
        "certificateDaysLeft": told.and_then(days_left),
        "dataDir": told.and_then(|installation| installation.data_dir.as_ref()),
        "lastBackup": account.backups().last().borrow().done.as_ref().map(|done| {
            json!({ "name": done.name.as_ref().unwrap_or(&done.id), "endedAt": done.ended.milliseconds() })
        }),
        "shards": shards,
        "disk": { "usedBytes": disk_bytes, "freeBytes": disk_free_bytes },
        "counts": {
            "databases": statistics.databases,
            "containers": statistics.containers,
            "partitions": statistics.partitions,
            "items": statistics.items,
            "sizeBytes": statistics.size_bytes,
            "diskBytes": disk_bytes,
        },
    }))))
}

fn limits(account: &Account, told: Option<&Installation>) -> Value {
    let limits = account.router().limits();
    json!({
        "itemSizeBytesMax": limits.item_size_bytes_max,
        "itemIdBytesMax": limits.item_id_bytes_max,
        "nestingMax": limits.nesting_max,
        "pageItemsMax": limits.page_items_max,
        "pageSizeBytesMax": limits.page_size_bytes_max,
        "batchOperationsMax": limits.batch_operations_max,
        "bulkOperationsMax": limits.bulk_operations_max,
        "patchOperationsMax": limits.patch_operations_max,
        "bodySizeBytesMax": told.map(|installation| installation.body_size_bytes_max),
        "queryTextBytesMax": shardlake_model::LanguageLimits::PUBLISHED.text_length_max,
        "queryParametersMax": limits.query_parameters_max,
        "resourcesMax": limits.resources_max,
        "throughputMin": limits.throughput_min,
        "throughputMax": limits.throughput_max,
        "partitionThroughputMax": limits.partition_throughput_max,
        "throughputPerPartition": limits.throughput_per_partition,
        "partitionSizeBytesMax": limits.physical_partition_size_bytes_max,
        "logicalPartitionSizeBytesMax": limits.logical_partition_size_bytes_max,
    })
}

fn consistency(level: ConsistencyLevel) -> &'static str {
    level.name()
}
