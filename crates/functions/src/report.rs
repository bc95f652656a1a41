//! Reports of functions for operators.

use shardlake_catalog::{FunctionRecord, PlaceRecord, ProjectionCounts};
use shardlake_change_log::{Lag, lag};
use shardlake_stdx::Timestamp;

use crate::Functions;
use crate::entries::FunctionEntry;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FunctionState {
    Active,
    /// An obstacle; the function tries again by itself.
    Waiting(String),
    /// By an operator, or by the server for a reason.
    Paused(Option<String>),
    /// It will not continue by itself.
    Failed(String),
}

impl FunctionState {
    /// Every name of a state.
    pub const NAMES: [&str; 4] = ["Active", "Waiting", "Paused", "Failed"];

    pub fn name(&self) -> &'static str {
        match self {
            FunctionState::Active => "Active",
            FunctionState::Waiting(_) => "Waiting",
            FunctionState::Paused(_) => "Paused",
            FunctionState::Failed(_) => "Failed",
        }
    }

    pub fn reason(&self) -> Option<&str> {
        match self {
            FunctionState::Active => None,
            FunctionState::Waiting(reason) | FunctionState::Failed(reason) => Some(reason),
            FunctionState::Paused(reason) => reason.as_deref(),
        }
    }
}

/// A function as an operator sees it.
#[derive(Debug, Clone)]
pub struct FunctionReport {
    pub record: FunctionRecord,
    pub state: FunctionState,
    /// Some of the changes may be none that it is given.
    pub lag: Lag,
    pub counts: ProjectionCounts,
    /// Since the start of the server.
    pub runs: u64,
    pub failed_runs: u64,
    pub holes: u64,
    /// Hundredths of request units, since the start of the server.
    pub charge_centi: u64,
    pub last_error: Option<(String, Timestamp)>,
    /// Parts of the source's hash space, and the last LSN whose changes it had.
    pub places: Vec<PlaceRecord>,
}

impl FunctionReport {
    /// Parts of the source's hash space, in hexadecimal, and the last LSN whose changes it had.
    pub fn places(&self) -> Vec<(String, String, u64)> {
        self.places.iter().map(|place| (place.min.clone(), place.max.clone(), place.after)).collect()
    }
}

impl Functions {
    pub(crate) async fn report(&self, entry: &FunctionEntry) -> Option<FunctionReport> {
        let record = self.router().live_catalog().definitions.functions.get(&entry.number)?.clone();
        let (mut report, waits) = {
            let live = entry.status.live();
            let report = FunctionReport {
                record: FunctionRecord::clone(&record),
                state: FunctionState::Active,
                lag: Lag::default(),
                counts: live.checkpoint.counts,
                runs: live.runs,
                failed_runs: live.failed_runs,
                holes: live.holes,
                charge_centi: live.charge_centi,
                last_error: live.last_error.clone(),
                places: live.checkpoint.source.clone(),
            };
            (report, live.waits.clone())
        };
        report.state = match (self.gone(&record), record.is_paused, waits) {
            (Some(reason), ..) => FunctionState::Failed(reason),
            (None, true, _) => FunctionState::Paused(record.pause_reason.clone()),
            (None, false, Some(reason)) => FunctionState::Waiting(reason),
            (None, false, None) => FunctionState::Active,
        };
        report.lag = lag(self.router(), record.source, &report.places).await;
        Some(report)
    }
}
