//! Bars of the storage and the load of tenants and partitions.

use std::fmt::Write;

use shardlake_account::ContainerReport;

use super::super::bars::bar;
use super::tenants::TENANTS;
use super::traffic::{Loaded, Served};
use crate::operate::{bytes, thousands};

/// Bytes stored by each tenant, against the maximum of a logical partition.
pub fn storage_of_tenants(loaded: &[Loaded], item_bytes: u64, max: u64) -> String {
    let mut out = String::new();
    for (tenant, loaded) in TENANTS.iter().zip(loaded) {
        let size = loaded.stored * item_bytes;
        let refused = match loaded.refused {
            0 => String::new(),
            refused => format!("  and {} items refused", thousands(refused)),
        };
        let _infallible =
            writeln!(out, "  {} {} {:>9}{refused}", tenant.name, bar(size as f64, max as f64), bytes(size));
    }
    out
}

/// Bytes stored by each partition, against the largest.
pub fn storage_of_partitions(report: &ContainerReport) -> String {
    let largest = report.partitions.iter().map(|partition| partition.size_bytes).max().unwrap_or(0);
    let mut out = String::new();
    for partition in &report.partitions {
        let keys: Vec<&str> = partition.largest.iter().take(3).map(|key| key.key.as_str()).collect();
        let _infallible = writeln!(
            out,
            "  {:>2} {} {:>9}  {}",
            partition.range.id,
            bar(partition.size_bytes as f64, largest as f64),
            bytes(partition.size_bytes),
            keys.join(" "),
        );
    }
    out
}

/// RU/s served by each partition, against its budget.
pub fn load_of_partitions(report: &ContainerReport) -> String {
    let mut out = String::new();
    for partition in &report.partitions {
        let totals = &partition.heat.totals;
        let used = totals.ru / f64::from(partition.heat.window_seconds.max(1));
        let budget = partition.budget.map_or(0.0, |budget| budget.rate_centi as f64 / 100.0);
        let hottest = partition.heat.recent.keys.first();
        let hottest =
            hottest.map_or(String::new(), |key| format!("  {} {:.0} %", key.key, key.share * 100.0));
        let _infallible = writeln!(
            out,
            "  {:>2} {} {:>6} of {:>5} RU/s, {:>4.1} % refused{hottest}",
            partition.range.id,
            bar(used, budget),
            thousands(used.round() as u64),
            thousands(budget as u64),
            totals.throttled_share * 100.0,
        );
    }
    out
}

/// RU/s requested and served of each tenant.
pub fn tenants(served: &[Served], seconds: f64) -> String {
    let wanted = |served: &Served| (served.served_ru + served.refused_ru) / seconds;
    let most = served.iter().map(wanted).fold(0.0, f64::max);
    let mut out = String::new();
    for (tenant, served) in TENANTS.iter().zip(served) {
        let _infallible = writeln!(
            out,
            "  {} {} wanted {:>5} RU/s, got {:>5}, {:>4.1} % of {} requests answered 429",
            tenant.name,
            bar(wanted(served), most),
            thousands(wanted(served).round() as u64),
            thousands((served.served_ru / seconds).round() as u64),
            served.refused_share() * 100.0,
            thousands(served.served + served.refused),
        );
    }
    out
}
