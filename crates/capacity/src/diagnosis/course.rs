//! Since when a finding about load holds, and when it ended.
//!
//! A second is pressed by the same thresholds as a window. Pressed seconds with less than [`RECENT_SECONDS`] between them are one
//! spell; the last spell is the finding's time:
//!
//! ```text
//! seconds ago   60 … 40  39  38 … 25  24  23 … 1
//! pressed            x   x   x     x                     since 40 s ago, until 24 s ago: cured
//! ```
//!
//! A spell that reaches into the last [`RECENT_SECONDS`] has no end yet. A finding that has ended is reported for
//! [`CURED_SECONDS`] more, so that an operator sees the effect of a remedy, and has no actions.

use super::{ContainerLoad, Finding, FindingKind, PartitionLoad};

/// A finding that has not held for so long has ended.
pub const RECENT_SECONDS: u32 = 10;
/// How long a finding that has ended is still reported.
pub const CURED_SECONDS: u32 = 60;

/// One second of a partition with traffic.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SecondLoad {
    /// When it began.
    pub seconds_ago: u32,
    pub ru: f64,
    pub operations: u64,
    pub throttled: u64,
}

/// When a finding began and ended, in seconds ago.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Spell {
    /// `None` where the finding is about sizes, or began before the seconds that are known.
    pub since: Option<u32>,
    /// `None` while it holds.
    pub until: Option<u32>,
}

/// Dates findings, without those that have ended long ago.
pub(super) fn dated(container: &ContainerLoad, findings: Vec<Finding>) -> Vec<Finding> {
    let dated = |finding: Finding| {
        let spell = spell_of(container, &finding);
        let is_shown = spell.until.is_none_or(|until| until <= CURED_SECONDS);
        is_shown.then_some(Finding { spell, ..finding })
    };
    findings.into_iter().filter_map(dated).collect()
}

fn spell_of(container: &ContainerLoad, finding: &Finding) -> Spell {
    if matches!(finding.kind, FindingKind::StorageSkew | FindingKind::NothingWrong) {
        return Spell::default();
    }
    let is_about = |partition: &&PartitionLoad| match finding.range_id {
        Some(range_id) => partition.range_id == range_id,
        None => container.is_pressed(partition),
    };
    let pressed = container.partitions.iter().filter(is_about).flat_map(|partition| {
        partition.seconds.iter().filter(move |second| is_pressed(container, partition, second))
    });
    let mut pressed: Vec<u32> = pressed.map(|second| second.seconds_ago).collect();
    pressed.sort_unstable();
    let Some(last) = pressed.first().copied() else { return Spell::default() };
    let gap = |pair: &[u32]| pair[1] - pair[0] > RECENT_SECONDS;
    let first = pressed.windows(2).find(|pair| gap(pair)).map_or(pressed[pressed.len() - 1], |pair| pair[0]);
    // The second has ended one later.
    let until = last.saturating_sub(1);
    assert!(until <= first, "a spell ends after it began");
    Spell { since: Some(first), until: (until >= RECENT_SECONDS).then_some(until) }
}

fn is_pressed(container: &ContainerLoad, partition: &PartitionLoad, second: &SecondLoad) -> bool {
    let of_second = PartitionLoad {
        budget: partition.budget,
        window_seconds: 1.0,
        ru: second.ru,
        operations: second.operations,
        throttled: second.throttled,
        ..PartitionLoad::default()
    };
    container.is_short_of_room(&of_second)
}
