//! The figures of one second: the process, the sums of the account, and the busiest containers with their partitions.

use http::Method;
use serde_json::{Value, json};
use shardlake_admin::OperatorRequest;

use crate::operate::Client;

/// Seconds of the pulse that are asked for: the last whole one is shown.
const PULSE_SECONDS: u32 = 5;
const KEYS_MAX: usize = 3;
const PARTS: &str = "ranges,rates,budget,keys";

/// Asks the server. Rates are means over `window` seconds, or since the start of the server.
pub async fn take(client: &Client, window: u32, containers_max: usize) -> Result<Value, String> {
    let all = client.send(&OperatorRequest::of_account()).await?;
    let pulse = client.send(&OperatorRequest::of_pulse(PULSE_SECONDS)).await?;
    let all = all["containers"].as_array().cloned().unwrap_or_default();
    let names = busiest(&all, &pulse, containers_max);
    let mut containers = Vec::with_capacity(names.len());
    for (database, name) in &names {
        let request = OperatorRequest::of_container(Method::GET, (database, name), "partitions");
        let request = request.with_query(Some(format!("window={window}s&parts={PARTS}")));
        // A container may have been deleted since.
        if let Ok(report) = client.send(&request).await {
            containers.push(container(&report));
        }
    }
    let load = |container: &Value| container["ruPerSecond"].as_f64().unwrap_or_default();
    containers.sort_by(|left, right| load(right).total_cmp(&load(left)));
    let sum = |name: &str| containers.iter().filter_map(|container| container[name].as_f64()).sum::<f64>();
    Ok(json!({
        "endpoint": client.endpoint(),
        "windowSeconds": window,
        "operationsPerSecond": sum("operationsPerSecond"),
        "ruPerSecond": sum("ruPerSecond"),
        "throttledPerSecond": sum("throttledPerSecond"),
        "process": process(&pulse),
        "containersNotShown": all.len().saturating_sub(containers.len()),
        "containers": containers,
    }))
}

/// The busiest containers of the pulse, then the largest of the others.
fn busiest(all: &[Value], pulse: &Value, containers_max: usize) -> Vec<(String, String)> {
    let name = |container: &Value| {
        let text = |member: &str| container[member].as_str().unwrap_or_default().to_owned();
        (text("database"), text("container"))
    };
    let mut names: Vec<_> = pulse["containers"].as_array().into_iter().flatten().map(name).collect();
    let mut others: Vec<&Value> = all.iter().collect();
    others.sort_by_key(|container| std::cmp::Reverse(container["sizeBytes"].as_u64()));
    for other in others.into_iter().map(name) {
        if names.len() >= containers_max {
            break;
        }
        if !names.contains(&other) {
            names.push(other);
        }
    }
    names.truncate(containers_max);
    names
}

fn container(report: &Value) -> Value {
    let partitions: Vec<Value> =
        report["partitions"].as_array().into_iter().flatten().map(partition).collect();
    let sum = |name: &str| partitions.iter().filter_map(|partition| partition[name].as_f64()).sum::<f64>();
    // A partition without a budget may spend any amount.
    let has_budget = partitions.iter().all(|partition| partition["budgetRuPerSecond"].is_number());
    json!({
        "database": report["database"],
        "container": report["container"],
        "operationsPerSecond": sum("operationsPerSecond"),
        "ruPerSecond": sum("ruPerSecond"),
        "budgetRuPerSecond": has_budget.then(|| sum("budgetRuPerSecond")),
        "throttledPerSecond": sum("throttledPerSecond"),
        "items": report["items"],
        "sizeBytes": report["sizeBytes"],
        "relocation": report["relocation"]["kind"],
        "partitions": partitions,
    })
}

fn partition(report: &Value) -> Value {
    let load = &report["load"];
    let seconds = load["windowSeconds"].as_f64().unwrap_or(1.0).max(1.0);
    let keys = report["hottestKeys"].as_array().into_iter().flatten().take(KEYS_MAX);
    let keys = keys.map(|key| json!({ "key": key["key"], "share": key["share"] }));
    json!({
        "id": report["id"],
        "shard": report["shard"],
        "operationsPerSecond": load["operationsPerSecond"],
        "ruPerSecond": load["ruPerSecond"],
        "budgetRuPerSecond": report["budget"]["ruPerSecond"],
        "throttledPerSecond": load["throttled"].as_f64().unwrap_or_default() / seconds,
        "items": report["items"],
        "sizeBytes": report["sizeBytes"],
        "hottestKeys": keys.collect::<Vec<_>>(),
    })
}

/// The last second that the server has measured.
fn process(pulse: &Value) -> Value {
    let last = |name: &str| -> Value {
        let figures = pulse[name].as_array().into_iter().flatten();
        figures.rev().find(|figure| !figure.is_null()).cloned().unwrap_or_default()
    };
    let names = [
        "connections",
        "directConnections",
        "cpuCores",
        "memoryBytes",
        "diskBytes",
        "failed",
        "latencyP50Ms",
        "latencyP99Ms",
    ];
    Value::Object(names.iter().map(|name| ((*name).to_owned(), last(name))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_containers_come_before_large_ones() {
        let named = |name: &str, size: u64| json!({ "database": "d", "container": name, "sizeBytes": size });
        let all = [named("small", 1), named("large", 9), named("busy", 2)];
        let pulse = json!({ "containers": [named("busy", 0)] });
        let names =
            |count| busiest(&all, &pulse, count).into_iter().map(|(_, name)| name).collect::<Vec<_>>();
        assert_eq!(names(2), ["busy", "large"]);
        assert_eq!(names(9), ["busy", "large", "small"]);
    }

    #[test]
    fn rates_of_partitions_are_added_up() {
        let part = |id: &str, budget: Value| {
            json!({ "id": id, "load": { "windowSeconds": 5, "operationsPerSecond": 2.0, "ruPerSecond": 10.0, "throttled": 10 },
                    "budget": budget, "hottestKeys": [{ "key": "[\"A\"]", "share": 0.5, "ru": 9.0 }] })
        };
        let budget = json!({ "ruPerSecond": 200.0 });
        let shown = container(&json!({ "partitions": [part("1", budget.clone()), part("2", budget)] }));
        assert_eq!((&shown["ruPerSecond"], &shown["budgetRuPerSecond"]), (&json!(20.0), &json!(400.0)));
        assert_eq!((&shown["throttledPerSecond"], &shown["operationsPerSecond"]), (&json!(4.0), &json!(4.0)));
        assert_eq!(shown["partitions"][0]["hottestKeys"], json!([{ "key": "[\"A\"]", "share": 0.5 }]));
        let unlimited = container(&json!({ "partitions": [part("1", Value::Null)] }));
        assert_eq!(unlimited["budgetRuPerSecond"], Value::Null);
    }

    #[test]
    fn the_last_measured_second_is_shown() {
        let shown = process(&json!({ "connections": [1, 2, null], "cpuCores": [] }));
        assert_eq!((&shown["connections"], &shown["cpuCores"]), (&json!(2), &Value::Null));
    }
}
