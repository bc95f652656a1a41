//! Reports as JSON. Members carry their units; ids of ranges are texts, as in the feed of partition key ranges.

use std::time::Duration;

use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use shardlake_account::{
    Account, BudgetReport, CapacityMode, ContainerReport, Finding, LargeKey, RangeReport, RelocationReport,
    RelocationStatus,
};
use shardlake_model::Throughput;

use crate::moments::Moments;
use crate::window::Window;

/// A container and its partitions.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Container<'r> {
    database: &'r str,
    container: &'r str,
    rid: &'r str,
    partition_key: &'r [String],
    generation: u64,
    items: u64,
    size_bytes: u64,
    throughput: Value,
    partition_size_bytes_max: u64,
    logical_partition_size_bytes_max: u64,
    partitions: Vec<Partition<'r>>,
    relocation: Option<Value>,
    last_relocation: Option<Value>,
    findings: Vec<Value>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Partition<'r> {
    id: String,
    parents: Vec<String>,
    min_inclusive: &'r str,
    max_exclusive: &'r str,
    shard: u16,
    items: u64,
    size_bytes: u64,
    lsn: u64,
    throughput_fraction: f64,
    budget: Option<Value>,
    load: Value,
    hottest_keys: Value,
    hottest_queries: Value,
    distinct_keys: Value,
    load_median: Value,
    largest_keys: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    series: Option<Value>,
    next: &'r str,
}

pub(crate) fn container<'r>(
    report: &'r ContainerReport,
    window: &Window,
    (account, moments): (&Account, &Moments),
) -> Container<'r> {
    let limits = account.router().limits();
    let handle = &report.container;
    let usage = handle.usage();
    let definition = &handle.container().definition;
    let last = handle.last_relocation();
    Container {
        database: &handle.database().id,
        container: &definition.id,
        rid: handle.rid_text(),
        partition_key: &definition.partition_key.paths,
        generation: handle.routing_generation(),
        items: usage.items,
        size_bytes: usage.size_bytes,
        throughput: throughput(report, account.router().capacity_mode()),
        partition_size_bytes_max: limits.physical_partition_size_bytes_max,
        logical_partition_size_bytes_max: limits.logical_partition_size_bytes_max,
        partitions: report.partitions.iter().map(|report| partition(report, window)).collect(),
        findings: report.diagnosis.iter().map(|one| finding(one, report, moments)).collect(),
        // The relocation may have ended since the report was made.
        relocation: report.relocation.as_ref().filter(|running| !is_over(running, &last)).map(relocation),
        last_relocation: last.as_ref().map(last_relocation),
    }
}

fn is_over(running: &RelocationStatus, last: &Option<Result<RelocationReport, String>>) -> bool {
    let targets = running.targets.iter().map(|(range_id, ..)| range_id);
    matches!(last, Some(Ok(ended)) if ended.targets.iter().eq(targets))
}

fn partition<'r>(report: &'r RangeReport, window: &Window) -> Partition<'r> {
    let (range, recent) = (&report.range, &report.heat.recent);
    Partition {
        id: range.id.to_string(),
        parents: ids(&range.parents),
        min_inclusive: &range.min_inclusive,
        max_exclusive: &range.max_exclusive,
        shard: report.shard,
        items: report.items,
        size_bytes: report.size_bytes,
        lsn: range.lsn,
        throughput_fraction: range.throughput_fraction,
        budget: report.budget.as_ref().map(budget),
        load: load(report),
        hottest_keys: json!(recent.keys),
        hottest_queries: json!(recent.templates),
        distinct_keys: json!(recent.keys_touched),
        load_median: json!(recent.load_median),
        largest_keys: report.largest.iter().map(large_key).collect(),
        series: window.series(&report.heat.series).map(|series| json!(series)),
        next: &report.next,
    }
}

/// Load of the window; the load of the hottest and the distinct keys is of the last five to ten minutes.
fn load(report: &RangeReport) -> Value {
    let (heat, totals) = (&report.heat, &report.heat.totals);
    let seconds = f64::from(heat.window_seconds.max(1));
    let rate = report.budget.map(|budget| units(budget.rate_centi));
    json!({
        "windowSeconds": heat.window_seconds,
        "ruPerSecond": totals.ru / seconds,
        "operationsPerSecond": totals.operations as f64 / seconds,
        "share": report.load_share,
        "normalizedRu": rate.map(|rate| heat.normalised_ru(rate)),
        "busiestSecondRu": totals.busiest_second_ru,
        "throttled": totals.throttled,
        "throttledShare": totals.throttled_share,
        "bytesPerSecond": totals.bytes as f64 / seconds,
        "latencyMeanMs": totals.latency_mean_ms,
        "latencyMaxMs": totals.latency_max_ms,
        "kinds": heat.kinds,
        "buckets": heat.buckets,
    })
}

/// Without a partition where it is about the container; with `until` where it has ended.
fn finding(finding: &Finding, report: &ContainerReport, moments: &Moments) -> Value {
    let window = report.partitions.iter().map(|partition| partition.heat.window_seconds).max();
    let time = |seconds_ago: u32| {
        let second = report.at.as_secs().saturating_sub(u64::from(seconds_ago));
        moments.of(Duration::from_secs(second))
    };
    json!({
        "kind": finding.kind,
        "partition": finding.range_id.map(|id| id.to_string()),
        "windowSeconds": window.unwrap_or(0),
        "since": finding.spell.since.map(time),
        "until": finding.spell.until.map(time),
        "summary": finding.summary,
        "evidence": finding.evidence,
        "remedy": finding.remedy,
        "actions": finding.actions,
    })
}

fn large_key(key: &LargeKey) -> Value {
    json!({ "key": key.key, "items": key.size.items, "sizeBytes": key.size.size_bytes })
}

fn budget(report: &BudgetReport) -> Value {
    json!({
        "ruPerSecond": units(report.rate_centi),
        "availableRu": report.level_centi as f64 / 100.0,
        "bankRu": units(report.bank_centi),
        "peakRuPerSecond": units(report.peak_centi),
        "refusedOperations": report.refused,
    })
}

fn throughput(report: &ContainerReport, capacity: CapacityMode) -> Value {
    let throughput = &report.throughput;
    let offer = throughput.own.as_ref().or(throughput.shared.as_ref()).map(|offer| offer.throughput);
    let (mode, maximum) = match (capacity, offer) {
        (CapacityMode::Serverless, _) => ("serverless", None),
        (_, None) => ("none", None),
        (_, Some(Throughput::Manual(units))) => ("manual", Some(units)),
        (_, Some(Throughput::Autoscale(autoscale))) => ("autoscale", Some(autoscale.max_throughput)),
    };
    json!({
        "mode": mode,
        "ruPerSecond": maximum,
        "scaledToRuPerSecond": throughput.scaled_to,
        "sharedByDatabase": throughput.shared.is_some(),
        "enforced": report.enforced,
        "databaseBudget": throughput.database.as_ref().map(budget),
    })
}

pub(crate) fn relocation(status: &RelocationStatus) -> Value {
    let target = |(id, min, max, shard): &(u32, String, String, u16)| json!({ "id": id.to_string(), "minInclusive": min, "maxExclusive": max, "shard": shard });
    json!({
        "kind": status.kind.name(),
        "sources": ids(&status.sources),
        "targets": status.targets.iter().map(target).collect::<Vec<_>>(),
        "step": status.step.name(),
        "items": status.items,
        "itemsCopied": status.items_copied,
        "lag": status.lag,
    })
}

/// How the last relocation since the start of the server ended.
fn last_relocation(outcome: &Result<RelocationReport, String>) -> Value {
    match outcome {
        Ok(report) => json!({
            "outcome": "done",
            "kind": report.kind.name(),
            "sources": ids(&report.sources),
            "targets": ids(&report.targets),
            "items": report.items,
            "durationMs": report.duration.as_millis() as u64,
            "pauseMs": report.pause.as_secs_f64() * 1000.0,
            "attempts": report.attempts,
        }),
        Err(reason) => json!({ "outcome": "given up", "reason": reason }),
    }
}

pub(crate) fn ids(ids: &[u32]) -> Vec<String> {
    ids.iter().map(u32::to_string).collect()
}

/// Every container in short, described only when it is written: there may be thousands.
#[derive(Serialize)]
pub(crate) struct AllContainers<'a> {
    #[serde(serialize_with = "in_short")]
    pub containers: &'a Account,
}

fn in_short<S: Serializer>(account: &&Account, serializer: S) -> Result<S::Ok, S::Error> {
    let databases = account.router().databases().into_iter();
    serializer.collect_seq(databases.flat_map(|database| {
        // The database may have been deleted since.
        let containers = account.router().containers(&database.id).unwrap_or_default();
        containers.into_iter().map(move |container| {
            let usage = container.usage();
            json!({
                "database": database.id,
                "container": container.container().definition.id,
                "rid": container.rid_text(),
                "generation": container.routing_generation(),
                "partitions": container.range_statistics().len(),
                "items": usage.items,
                "sizeBytes": usage.size_bytes,
                "relocation": container.relocation().as_ref().map(relocation),
            })
        })
    }))
}

fn units(centi: u64) -> f64 {
    centi as f64 / 100.0
}
