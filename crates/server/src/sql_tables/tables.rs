//! The account's tables for a query.

use std::path::PathBuf;

use shardlake_analytics::{Analytics, TableReport, TableState};
use shardlake_analytics_sql::{ListedTable, Refusal};

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

/// Why a container that is not among the tables of a query has none.
pub(super) fn unlisted(analytics: &Analytics, database: &str, container: &str) -> Option<Refusal> {
    let name = format!("{database}/{container}");
    Some(match analytics.has_store(database, container)? {
        true => {
            Refusal::NotReady(format!("AnalyticsNotReady: the table of '{name}' was begun just now: retry"))
        }
        false => Refusal::NotEnabled(format!(
            "AnalyticsNotEnabled: the container '{name}' has no analytical store: set its analyticalStorageTtl"
        )),
    })
}
