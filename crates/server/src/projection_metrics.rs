//! Metrics of projections.

use shardlake_account::{ProjectionReport, ProjectionState};

use crate::exposition::Page;
use crate::metric_table as table;

pub fn write(page: &mut Page, reports: &[ProjectionReport]) {
    for report in reports {
        let projection = &*report.rule.id;
        page.family(&table::PROJECTION_LAG).push([projection], report.lag.changes);
        page.family(&table::PROJECTION_LAG_SECONDS).push([projection], report.lag.seconds);
        page.family(&table::PROJECTION_CHANGES).push([projection], report.counts.changes);
        page.family(&table::PROJECTION_APPLIED).push([projection], report.counts.applied);
        page.family(&table::PROJECTION_DEAD_LETTERS).push([projection], report.counts.dead_letters);
        let words = String::new;
        let states = [
            ProjectionState::Running,
            ProjectionState::Waiting(words()),
            ProjectionState::Paused,
            ProjectionState::Failed(words()),
        ];
        for known in states {
            let is_so = known.name() == report.state.name();
            page.family(&table::PROJECTION_STATE).push([projection, known.name()], is_so);
        }
    }
}
