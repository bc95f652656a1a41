//! The load of a container in the terms of the diagnosis.

use shardlake_capacity::budget::BudgetReport;
use shardlake_capacity::diagnosis::{
    CollectionName, ContainerLoad, Finding, KeyLoad, Leader, PartitionLoad, SecondLoad, diagnose,
};
use shardlake_heat::{HeatKind, HeatReport, Point, Series};
use shardlake_model::Limits;

use crate::reports::RangeReport;

/// Findings, the worst first; see [`diagnose`].
pub(crate) fn diagnosis_of(
    ranges: &[RangeReport],
    of_database: Option<&BudgetReport>,
    limits: &Limits,
    collection: Option<CollectionName>,
) -> Vec<Finding> {
    // The throughput that a database's containers share is the limit, not the sum of their partitions' budgets.
    let total = match of_database {
        Some(shared) => Some(shared.rate_centi as f64 / 100.0),
        None => ranges.iter().map(budget).sum(),
    };
    diagnose(&ContainerLoad {
        partitions: ranges.iter().map(partition).collect(),
        throughput: total,
        partition_throughput_max: limits.partition_throughput_max as f64,
        partition_size_bytes_max: limits.physical_partition_size_bytes_max,
        logical_size_bytes_max: limits.logical_partition_size_bytes_max,
        collection,
    })
}

fn budget(range: &RangeReport) -> Option<f64> {
    range.budget.map(|budget| budget.rate_centi as f64 / 100.0)
}

/// The completed seconds of a series.
fn seconds(series: &Series) -> Vec<SecondLoad> {
    let points = series.points.iter().filter(|point| point.seconds_ago > 0);
    let second = |point: &Point| SecondLoad {
        seconds_ago: point.seconds_ago,
        ru: point.totals.ru,
        operations: point.totals.operations,
        throttled: point.totals.throttled,
    };
    points.map(second).collect()
}

fn partition(range: &RangeReport) -> PartitionLoad {
    let HeatReport { totals, recent, .. } = &range.heat;
    PartitionLoad {
        range_id: range.range.id,
        budget: budget(range),
        window_seconds: f64::from(range.heat.window_seconds),
        busy_seconds: f64::from(range.heat.busy_seconds),
        busiest_second_ru: totals.busiest_second_ru,
        seconds: range.heat.series.first().map(seconds).unwrap_or_default(),
        ru: totals.ru,
        operations: totals.operations,
        throttled: totals.throttled,
        scan_ru: range.heat.ru_of(&[HeatKind::FanOut, HeatKind::Feed]),
        write_ru: range.heat.ru_of(&[HeatKind::Create, HeatKind::Write]),
        templates: recent.templates.iter().map(|hot| (hot.template.clone(), hot.share)).collect(),
        keys: recent.keys.iter().map(|hot| KeyLoad { key: hot.key.clone(), share: hot.share }).collect(),
        keys_touched: recent.keys_touched.count,
        leaders: recent
            .leaders
            .iter()
            .map(|leader| Leader {
                key: leader.key.clone(),
                seconds_ago: leader.seconds_ago.into(),
                ru: leader.ru,
            })
            .collect(),
        load_median: recent.load_median.as_ref().map(|median| (median.epk.clone(), median.share_below)),
        size_bytes: range.size_bytes,
        largest_key: range.largest.first().map(|largest| (largest.key.clone(), largest.size.size_bytes)),
    }
}
