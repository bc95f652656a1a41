//! The account's tables for a query, and waiting until they are new enough for it.

use std::path::PathBuf;
use std::time::Duration;

use shardlake_analytics::{Analytics, TableReport, TableState};
use shardlake_analytics_sql::{Failure, ListedTable, Refusal};

/// Between two looks at the tables that a query waits for.
const LOOKS_APART: Duration = Duration::from_millis(50);

pub(super) async fn listed(analytics: &Analytics) -> Vec<ListedTable> {
    analytics.reports().await.iter().map(of_report).collect()
}

fn of_report(report: &TableReport) -> ListedTable {
    let name = format!("{}/{}", report.database, report.container);
    let refusal = match &report.state {
        TableState::Building { percent } => Some(Refusal::NotReady(format!(
            "AnalyticsNotReady: the first copy of '{name}' is under way ({percent} %): retry"
        ))),
        TableState::Closed => Some(Refusal::NotEnabled(format!(
            "AnalyticsNotEnabled: the analytical store of '{name}' is closed: set its analyticalStorageTtl again"
        ))),
        _ => report.location.as_ref().filter(|location| location.contains("://")).map(|location| {
            Refusal::OutOfReach(format!(
                "SQL at the server reads tables in directories, and '{name}' lies in '{location}': read it there with DuckDB, Polars or \
                 Spark, or name a directory with --analytics-root"
            ))
        }),
    };
    let warning = match &report.state {
        TableState::Following | TableState::Building { .. } | TableState::Closed => None,
        state => Some(match state.reason() {
            Some(reason) => format!("{}: {reason}", state.name()),
            None => state.name().to_owned(),
        }),
    };
    ListedTable {
        database: report.database.clone(),
        container: report.container.clone(),
        folder: report.location.as_ref().map(PathBuf::from),
        ttl: report.ttl,
        refusal,
        warning,
    }
}

/// Waits until the tables have everything that was acknowledged before this second, and lists them. The query's time ends the wait.
pub(super) async fn wait_for(
    analytics: Analytics,
    names: Vec<(String, String)>,
    second: u64,
) -> Result<Vec<ListedTable>, Failure> {
    loop {
        let reports = analytics.reports().await;
        let is_behind = |name: &(String, String)| {
            let report =
                reports.iter().find(|report| report.database == name.0 && report.container == name.1);
            // A table that is deleted meanwhile is not found by the statement either.
            report.is_some_and(|report| {
                let is_building = matches!(report.state, TableState::Building { .. });
                let is_complete = report.complete_to.is_some_and(|complete| complete > second);
                is_building || (report.lag.changes > 0 && !is_complete)
            })
        };
        if !names.iter().any(is_behind) {
            return Ok(reports.iter().map(of_report).collect());
        }
        tokio::time::sleep(LOOKS_APART).await;
    }
}
