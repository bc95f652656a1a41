//! Commands, their latencies and their outcomes since the start, for the page of metrics. One set of counters per command of
//! the table, and one for commands that do not exist, so that clients cannot add any.

use std::borrow::Cow;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use shardlake_stdx::{DurationCounts, DurationHistogram};

use crate::errors::{code_at, code_place, codes};

/// Stands for commands that do not exist.
const OTHER: &str = "other";

#[derive(Debug)]
pub struct CommandMetrics(Vec<OfCommand>);

#[derive(Debug)]
struct OfCommand {
    name: &'static str,
    latency: DurationHistogram,
    done: AtomicU64,
    /// By the place of the code among the known ones, and last the codes without a name. Most commands never fail.
    failed: OnceLock<Box<[AtomicU64]>>,
    charge_centi: AtomicU64,
}

/// A command that was asked for at least once.
#[derive(Debug, Clone, PartialEq)]
pub struct CommandReport {
    pub name: &'static str,
    pub latency: DurationCounts,
    /// Name of the error code, or `OK`, and how many ended with it.
    pub outcomes: Vec<(Cow<'static, str>, u64)>,
    /// In hundredths of a request unit.
    pub charge_centi: u64,
}

impl CommandMetrics {
    pub fn new(names: impl IntoIterator<Item = &'static str>) -> CommandMetrics {
        CommandMetrics(names.into_iter().chain([OTHER]).map(OfCommand::new).collect())
    }

    /// `number` is the command's place in the table; `None`: there is no such command.
    pub fn note(&self, number: Option<usize>, code: Option<i32>, took: Duration) {
        let Some(command) = self.of(number) else { return };
        command.latency.observe(took);
        let Some(code) = code else {
            command.done.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let failed = command.failed.get_or_init(|| (0..=codes()).map(|_| AtomicU64::new(0)).collect());
        failed[code_place(code).unwrap_or_else(codes)].fetch_add(1, Ordering::Relaxed);
    }

    pub fn note_charge(&self, number: Option<usize>, centi: u64) {
        if let Some(command) = self.of(number) {
            command.charge_centi.fetch_add(centi, Ordering::Relaxed);
        }
    }

    fn of(&self, number: Option<usize>) -> Option<&OfCommand> {
        number.and_then(|number| self.0.get(number)).or(self.0.last())
    }

    /// Commands that were asked for, in the order of the table.
    pub fn reports(&self) -> Vec<CommandReport> {
        self.0.iter().filter_map(OfCommand::report).collect()
    }
}

impl OfCommand {
    fn new(name: &'static str) -> OfCommand {
        OfCommand {
            name,
            latency: DurationHistogram::default(),
            done: AtomicU64::new(0),
            failed: OnceLock::new(),
            charge_centi: AtomicU64::new(0),
        }
    }

    fn report(&self) -> Option<CommandReport> {
        let latency = self.latency.counts();
        if latency.count == 0 {
            return None;
        }
        let mut outcomes = vec![(Cow::Borrowed("OK"), self.done.load(Ordering::Relaxed))];
        let failed = self.failed.get().into_iter().flat_map(|failed| failed.iter().enumerate());
        outcomes.extend(failed.filter_map(|(place, count)| {
            let count = count.load(Ordering::Relaxed);
            let name = code_at(place).unwrap_or(OTHER);
            (count > 0).then_some((Cow::Borrowed(name), count))
        }));
        let charge_centi = self.charge_centi.load(Ordering::Relaxed);
        Some(CommandReport { name: self.name, latency, outcomes, charge_centi })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::errors::code;

    #[test]
    fn unknown_commands_and_codes_share_one_name_each() {
        let metrics = CommandMetrics::new(["find", "insert"]);
        metrics.note(Some(1), None, Duration::from_micros(70));
        metrics.note(Some(1), Some(code::DUPLICATE_KEY), Duration::from_micros(70));
        metrics.note(Some(1), Some(424_242), Duration::from_micros(70));
        metrics.note(None, Some(code::COMMAND_NOT_FOUND), Duration::ZERO);
        metrics.note(Some(77), Some(code::COMMAND_NOT_FOUND), Duration::ZERO);
        metrics.note_charge(Some(1), 571);
        let reports = metrics.reports();
        let names: Vec<&str> = reports.iter().map(|report| report.name).collect();
        assert_eq!(names, ["insert", "other"]);
        let outcomes = |report: &CommandReport| {
            let all = report.outcomes.iter().map(|(name, count)| format!("{name} {count}"));
            all.collect::<Vec<String>>()
        };
        assert_eq!(outcomes(&reports[0]), ["OK 1", "DuplicateKey 1", "other 1"]);
        assert_eq!(outcomes(&reports[1]), ["OK 0", "CommandNotFound 2"]);
        assert_eq!((reports[0].latency.count, reports[0].charge_centi), (3, 571));
    }
}
