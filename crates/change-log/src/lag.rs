//! Lag of a follower, and whether it has reached a position.

use std::collections::BTreeMap;

use shardlake_catalog::PlaceRecord;
use shardlake_model::{ContainerRid, ErrorKind, Result};
use shardlake_partition::RoundError;
use shardlake_router::{ContainerEntry, PartitionHandle, Serving};
use shardlake_routing::KeyRange;

use crate::position::{LogPart, LogPosition, parts};

/// Operations looked at to find the first that matters.
const LAG_LOOK: usize = 100;

/// Commits that are not read yet, and for how long the oldest of them has been there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lag {
    pub changes: u64,
    pub seconds: u64,
}

/// Lag of some places. Unreadable places count nothing: the projection's state reports the error.
pub async fn lag(serving: &Serving, rid: ContainerRid, places: &[PlaceRecord]) -> Lag {
    let Ok(entry) = serving.entry_of_rid(rid) else { return Lag::default() };
    let mut behind: BTreeMap<u32, u64> = BTreeMap::new();
    let mut oldest_ms = None;
    for place in places {
        let Ok(span) = place.span() else { continue };
        for (partition, part) in parts(&entry, &span) {
            let round = partition.hosted().partition().log_round_over_holes(&part, place.after).await;
            let Ok(round) = round else { continue };
            let mut round = round.in_pages_of(LAG_LOOK);
            let Ok(Some(page)) = round.next_page().await else { continue };
            let first = page.changes.first().map(|change| change.time.milliseconds());
            if first.is_none() && page.upto == round.upto() {
                continue;
            }
            let commits = partition.durable_lsn().saturating_sub(place.after);
            let known = behind.entry(partition.range_id()).or_default();
            *known = commits.max(*known);
            oldest_ms = first.into_iter().chain(oldest_ms).min();
        }
    }
    let now_ms = serving.clock().now().milliseconds();
    Lag {
        changes: behind.values().sum(),
        seconds: oldest_ms.map_or(0, |oldest| now_ms.saturating_sub(oldest) / 1000),
    }
}

/// Time of the oldest change that a position lacks, in milliseconds since the Unix epoch; `None` where it lacks none. Parts that are
/// read up to the last commit of their partition cost no look at the log.
pub async fn oldest_missing_ms(entry: &ContainerEntry, position: &LogPosition) -> Result<Option<u64>> {
    let mut oldest_ms: Option<u64> = None;
    for part in position.parts() {
        for (partition, span) in parts(entry, &part.span) {
            if partition.durable_lsn() <= part.after {
                continue;
            }
            let round = partition.hosted().partition().log_round_over_holes(&span, part.after).await;
            let mut round = match round {
                Ok(round) => round.in_pages_of(LAG_LOOK),
                // Its successors have the same change.
                Err(RoundError::Failed(error)) if error.kind() != ErrorKind::PartitionGone => {
                    return Err(error);
                }
                Err(_) => continue,
            };
            loop {
                let page = match round.next_page().await {
                    Ok(Some(page)) => page,
                    Err(error) if error.kind() != ErrorKind::PartitionGone => return Err(error),
                    Ok(None) | Err(_) => break,
                };
                if let Some(first) = page.changes.first() {
                    let first_ms = first.time.milliseconds();
                    oldest_ms = Some(oldest_ms.map_or(first_ms, |oldest| oldest.min(first_ms)));
                    break;
                }
            }
        }
    }
    Ok(oldest_ms)
}

/// Whether every part of `wanted` is read up to its LSN. Looks at no log, so it may be false where only commits without changes are
/// missing.
pub fn has_reached_lsns(position: &LogPosition, wanted: &LogPosition) -> bool {
    let is_read = |wanted: &LogPart| {
        let parts = covering(position, &wanted.span);
        parts.is_some_and(|parts| parts.iter().all(|part| part.after >= wanted.after))
    };
    wanted.parts().iter().filter(|part| part.after > 0).all(is_read)
}

/// Whether a follower at `position` has every change up to `wanted`. Commits that changed no item of a part may be missing in it. A part
/// that the position lacks was never read.
pub async fn has_reached(
    entry: &ContainerEntry,
    position: &LogPosition,
    wanted: &LogPosition,
) -> Result<bool> {
    for part in wanted.parts().iter().filter(|part| part.after > 0) {
        if !has_part(entry, position, part).await? {
            return Ok(false);
        }
    }
    Ok(true)
}

async fn has_part(entry: &ContainerEntry, position: &LogPosition, wanted: &LogPart) -> Result<bool> {
    let Some(parts) = covering(position, &wanted.span) else { return Ok(false) };
    for part in parts.iter().filter(|part| part.after < wanted.after) {
        if lacks(entry, part, wanted.after).await? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The parts of a position inside a span, in order; `None` where they leave a gap.
fn covering(position: &LogPosition, span: &KeyRange) -> Option<Vec<LogPart>> {
    let inside = position.parts().iter().filter(|part| part.span.overlaps(span));
    let inside = inside.map(|part| LogPart { span: part.span.intersection(span), after: part.after });
    let mut inside: Vec<LogPart> = inside.collect();
    inside.sort_by(|a, b| a.span.min.cmp(&b.span.min));
    let mut covered_to = &span.min;
    for part in &inside {
        assert!(span.contains_range(&part.span), "a part is cut to the span");
        if part.span.min > *covered_to {
            return None;
        }
        covered_to = &part.span.max;
    }
    (*covered_to == span.max).then_some(inside)
}

/// Whether the log of the part has a change that it has not read, up to an LSN.
async fn lacks(entry: &ContainerEntry, part: &LogPart, upto: u64) -> Result<bool> {
    for (partition, span) in parts(entry, &part.span) {
        match first_change(&partition, &span, part.after, upto).await {
            Ok(Some(lsn)) if lsn <= upto => return Ok(true),
            Ok(_) => {}
            // Split, merged or moved just now: the next look sees its successors.
            Err(RoundError::Failed(error)) if error.kind() != ErrorKind::PartitionGone => return Err(error),
            Err(_) => return Ok(true),
        }
    }
    Ok(false)
}

/// The first change behind `after`, looked for up to an LSN.
async fn first_change(
    partition: &PartitionHandle,
    span: &KeyRange,
    after: u64,
    upto: u64,
) -> Result<Option<u64>, RoundError> {
    let round = partition.hosted().partition().log_round(span, after).await?;
    let mut round = round.in_pages_of(LAG_LOOK);
    while let Some(page) = round.next_page().await? {
        let first = page.changes.first().map(|change| change.lsn);
        if first.is_some() || page.upto >= upto {
            return Ok(first);
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_with_a_gap_covers_nothing() {
        let span = |min: &str, max: &str| KeyRange::from_hex(min, max).expect("bounds");
        let part = |min: &str, max: &str, after: u64| LogPart { span: span(min, max), after };
        let position = LogPosition::new(vec![part("20", "30", 7), part("", "20", 9), part("40", "FF", 5)]);
        let inside = covering(&position, &span("10", "28")).expect("two parts cover it");
        assert_eq!(inside, [part("10", "20", 9), part("20", "28", 7)]);
        assert_eq!(covering(&position, &span("40", "FF")), Some(vec![part("40", "FF", 5)]));
        for (min, max) in [("10", "40"), ("30", "50"), ("28", "38"), ("30", "40"), ("", "FF")] {
            assert_eq!(covering(&position, &span(min, max)), None, "{min} to {max}");
        }
    }
}
