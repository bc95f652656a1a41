//! Lag of a follower.

use std::collections::BTreeMap;

use shardlake_catalog::PlaceRecord;
use shardlake_model::ContainerRid;
use shardlake_router::Serving;

use crate::position::parts;

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
