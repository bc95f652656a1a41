//! Metrics of projections, made anew whenever somebody asks, so that what is gone is not shown.

use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use shardlake_account::{ProjectionReport, ProjectionState};

use crate::metrics::PREFIX;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    projection: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabels {
    projection: String,
    state: &'static str,
}

/// The page's part about projections.
pub fn write(page: &mut String, reports: &[ProjectionReport]) {
    let gauge = Family::<Labels, Gauge>::default;
    let (lag, behind) = (gauge(), gauge());
    let counter = Family::<Labels, Counter>::default;
    let (changes, applied, letters) = (counter(), counter(), counter());
    let state = Family::<StateLabels, Gauge>::default();
    for report in reports {
        let labels = Labels { projection: report.rule.id.clone() };
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        lag.get_or_create(&labels).set(number(report.lag.changes));
        behind.get_or_create(&labels).set(number(report.lag.seconds));
        changes.get_or_create(&labels).inc_by(report.counts.changes);
        applied.get_or_create(&labels).inc_by(report.counts.applied);
        letters.get_or_create(&labels).inc_by(report.counts.dead_letters);
        let words = String::new;
        let states = [
            ProjectionState::Running,
            ProjectionState::Waiting(words()),
            ProjectionState::Paused,
            ProjectionState::Failed(words()),
        ];
        for known in states {
            let labels = StateLabels { projection: report.rule.id.clone(), state: known.name() };
            state.get_or_create(&labels).set(i64::from(known.name() == report.state.name()));
        }
    }
    let mut to = Registry::with_prefix(PREFIX);
    to.register("projection_lag", "Commits that a projection has yet to look at", lag);
    let help = "How long ago the first of them was";
    to.register_with_unit("projection_lag", help, Unit::Seconds, behind);
    to.register("projection_changes", "Changed items that a projection looked at", changes);
    to.register("projection_applied", "Items whose copies a projection corrected", applied);
    to.register("projection_dead_letters", "Items whose copies a projection could not correct", letters);
    to.register("projection_state", "1 for the state that a projection is in", state);
    text::encode_registry(page, &to).expect("writing to a string cannot fail");
}
