//! Collection from a running server.

use http::Method;
use serde_json::{Value, json};
use shardlake_admin::OperatorRequest;

use super::log_lines;
use super::parts::Parts;
use crate::operate::Client;

/// Log lines that are asked for: all that a server keeps.
const LOG_LINES: u32 = 2_000;
/// Containers whose partitions are described.
const CONTAINERS_MAX: usize = 200;
/// Parts of a container's report without values of partition keys.
const PARTS: &str = "parts=ranges,load,budget,findings,relocations";
/// Members of the description of a server.
const OF_SERVER: [&str; 19] = [
    "version",
    "build",
    "startedAt",
    "now",
    "durability",
    "consistency",
    "capacityMode",
    "throughputEnforced",
    "limitsScale",
    "limits",
    "features",
    "certificateDaysLeft",
    "dataDir",
    "lastBackup",
    "shards",
    "disk",
    "counts",
    "label",
    "isLeased",
];
const OF_CONTAINER: [&str; 10] = [
    "database",
    "container",
    "rid",
    "generation",
    "partitionKey",
    "items",
    "sizeBytes",
    "throughput",
    "partitionSizeBytesMax",
    "logicalPartitionSizeBytesMax",
];
const OF_PARTITION: [&str; 11] = [
    "id",
    "parents",
    "minInclusive",
    "maxExclusive",
    "shard",
    "items",
    "sizeBytes",
    "lsn",
    "budget",
    "throughputFraction",
    "load",
];
const OF_FINDING: [&str; 5] = ["kind", "partition", "windowSeconds", "since", "until"];
const OF_RELOCATION: [&str; 12] = [
    "kind",
    "sources",
    "targets",
    "step",
    "items",
    "itemsCopied",
    "lag",
    "outcome",
    "durationMs",
    "pauseMs",
    "start",
    "end",
];

/// Fails only where no server answers.
pub async fn collect(parts: &mut Parts, client: &Client) -> Result<(), String> {
    let unreachable = |error: String| {
        format!("{error}; --data-dir DIR collects what a stopped server left in its data directory")
    };
    let (is_ready, readiness) = client.probe("/readyz").await.map_err(unreachable)?;
    let server = client.send(&OperatorRequest::of_server()).await;
    let server = server.map(|server| {
        json!({ "endpoint": client.endpoint(), "ready": is_ready, "readiness": readiness, "server": only(&server, &OF_SERVER) })
    });
    parts.add_document("status.json", "health, version, data directory, disk, last backup, counts", server);

    let diagnostics = client.send(&OperatorRequest::of_diagnostics()).await;
    let member = |name: &str| diagnostics.as_ref().map(|found| found[name].clone()).map_err(Clone::clone);
    parts.add_document("settings.json", "every setting with its value and its place", member("settings"));
    parts.add_document("formats.json", "versions of formats", member("formats"));
    parts.add_document("process.json", "processors, memory, limits of the process", member("process"));
    let definitions = diagnostics.as_ref().map_err(Clone::clone).map(
        |found| json!({ "databases": found["databases"], "containersLeftOut": found["containersLeftOut"] }),
    );
    parts.add_document("definitions.json", "databases and containers with their policies", definitions);
    parts.add_document(
        "partitions.json",
        "partitions: ranges, sizes, load, budgets, findings",
        partitions(client).await,
    );
    parts.add_metrics(
        client.probe("/metrics").await.and_then(
            |(is_good, text)| {
                if is_good { Ok(text + "\n") } else { Err(text) }
            },
        ),
    );
    let log = client.send(&OperatorRequest::of_log(LOG_LINES)).await;
    let lines =
        log.map(|log| log["lines"].as_array().into_iter().flatten().map(log_lines::of_ring).collect());
    parts.add_lines("log.jsonl", "latest lines of the log, without values of clients", lines);
    Ok(())
}

async fn partitions(client: &Client) -> Result<Value, String> {
    let all = client.send(&OperatorRequest::of_account()).await?;
    let containers = all["containers"].as_array().cloned().unwrap_or_default();
    let mut reports = Vec::new();
    for container in containers.iter().take(CONTAINERS_MAX) {
        let names = ["database", "container"].map(|name| container[name].as_str().unwrap_or_default());
        let request = OperatorRequest::of_container(Method::GET, (names[0], names[1]), "partitions");
        // A container may have been deleted since.
        if let Ok(report) = client.send(&request.with_query(Some(PARTS.to_owned()))).await {
            reports.push(of_container(&report));
        }
    }
    let left_out = containers.len().saturating_sub(CONTAINERS_MAX);
    Ok(json!({ "containers": reports, "containersLeftOut": left_out }))
}

fn of_container(report: &Value) -> Value {
    let mut shown = only(report, &OF_CONTAINER);
    shown["partitions"] = each(&report["partitions"], &OF_PARTITION);
    shown["findings"] = each(&report["findings"], &OF_FINDING);
    shown["relocations"] = each(&report["relocations"], &OF_RELOCATION);
    shown["relocation"] = only(&report["relocation"], &OF_RELOCATION);
    shown
}

fn each(list: &Value, members: &[&str]) -> Value {
    list.as_array().into_iter().flatten().map(|one| only(one, members)).collect()
}

/// The known members of an object.
fn only(whole: &Value, members: &[&str]) -> Value {
    let known = members.iter().filter_map(|name| Some(((*name).to_owned(), whole.get(name)?.clone())));
    Value::Object(known.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_that_may_hold_values_of_clients_are_left_out() {
        let report = json!({
            "database": "d", "container": "c", "partitions": [{ "id": "0", "hottestKeys": ["secret"], "next": "secret" }],
            "findings": [{ "kind": "hotKey", "summary": "secret", "evidence": ["secret"] }],
            "relocation": { "kind": "split", "step": "copy" }, "relocations": [{ "outcome": "given up", "reason": "secret" }],
        });
        let shown = of_container(&report);
        assert!(!shown.to_string().contains("secret"), "{shown}");
        assert_eq!(
            (&shown["partitions"][0]["id"], &shown["relocation"]["step"]),
            (&json!("0"), &json!("copy"))
        );
        assert_eq!(
            (&shown["findings"][0]["kind"], &shown["relocations"][0]["outcome"]),
            (&json!("hotKey"), &json!("given up"))
        );
    }
}
