//! Metrics of copies: global secondary indexes, and functions over changes.

use shardlake_account::{FunctionReport, FunctionState, IndexReport, SecondaryIndexState};

use crate::exposition::Page;
use crate::metric_table as table;

pub fn write(page: &mut Page, reports: &[IndexReport]) {
    for report in reports {
        let name = format!("{}/{}", report.database, report.container);
        let labels = ["index", name.as_str()];
        page.family(&table::COPY_LAG).push(labels, report.lag.changes);
        page.family(&table::COPY_LAG_SECONDS).push(labels, report.lag.seconds);
        page.family(&table::COPY_ROWS).push(labels, report.rows);
        page.family(&table::COPY_ROWS_WRITTEN).push(labels, report.written);
        page.family(&table::COPY_ROWS_DELETED).push(labels, report.deleted);
        page.family(&table::COPY_REFUSED).push(labels, report.refused);
        if let Some(duplicates) = report.duplicates {
            page.family(&table::COPY_DUPLICATES).push(labels, duplicates);
        }
        for known in SecondaryIndexState::STATUSES {
            page.family(&table::COPY_STATE).push(["index", &name, known], known == report.state);
        }
    }
}

pub fn write_functions(page: &mut Page, reports: &[FunctionReport]) {
    for report in reports {
        let name = report.record.definition.id.as_str();
        let labels = ["function", name];
        page.family(&table::COPY_LAG).push(labels, report.lag.changes);
        page.family(&table::COPY_LAG_SECONDS).push(labels, report.lag.seconds);
        page.family(&table::COPY_ROWS_WRITTEN).push(labels, report.counts.applied);
        page.family(&table::COPY_CHANGES).push(labels, report.counts.changes);
        page.family(&table::COPY_DEAD_LETTERS).push(labels, report.counts.dead_letters);
        let done = report.runs.saturating_sub(report.failed_runs);
        for (outcome, count) in [("done", done), ("failed", report.failed_runs)] {
            page.family(&table::COPY_RUNS).push(["function", name, outcome], count);
        }
        for known in FunctionState::NAMES {
            page.family(&table::COPY_STATE).push(["function", name, known], known == report.state.name());
        }
    }
}
