//! Metrics of analytical tables.

use shardlake_analytics::{TableReport, TableState};

use crate::exposition::Page;
use crate::metric_table as table;

pub fn write(page: &mut Page, reports: &[TableReport]) {
    for report in reports {
        let of = [&*report.database, &*report.container];
        let [database, container] = of;
        for state in TableState::NAMES {
            page.family(&table::ANALYTICS_STATE)
                .push([database, container, state], state == report.state.name());
        }
        let (figures, counts) = (&report.figures, &report.counts);
        page.family(&table::ANALYTICS_LAG).push(of, report.lag.changes);
        page.family(&table::ANALYTICS_LAG_SECONDS).push(of, report.lag.seconds);
        if let Some(complete_to) = report.complete_to {
            page.family(&table::ANALYTICS_COMPLETE_TO).push(of, complete_to);
        }
        page.family(&table::ANALYTICS_ROWS).push(of, figures.rows);
        page.family(&table::ANALYTICS_ROWS_DELETED).push(of, figures.rows_deleted);
        page.family(&table::ANALYTICS_FILES).push(of, figures.files);
        page.family(&table::ANALYTICS_SIZE).push(of, figures.size_bytes);
        page.family(&table::ANALYTICS_COLUMNS).push(of, figures.columns.len() as u64);
        for (reason, count) in &counts.commits {
            page.family(&table::ANALYTICS_COMMITS).push([database, container, reason], *count);
        }
        page.family(&table::ANALYTICS_COPIED_ITEMS).push(of, counts.copied_items);
        page.family(&table::ANALYTICS_COMPACTED).push(of, counts.compacted_bytes);
        for (reason, count) in &counts.rest_values {
            page.family(&table::ANALYTICS_REST_VALUES).push([database, container, reason], *count);
        }
        page.family(&table::ANALYTICS_LOST_HISTORY).push(of, counts.lost_history);
        page.family(&table::ANALYTICS_CPU).push(of, counts.cpu_seconds);
    }
}
