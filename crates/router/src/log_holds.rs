//! Holds of followers on the logs of containers. Compaction and the removal of expired items wait for them.
//!
//! ```text
//! hold_log ── catalog ── every partition gets the lowest held LSN of its range, before the change shows
//! move_hold ─ memory ── store_moved_holds, each ten seconds: one batch for all holds ── as above
//! ```
//! Partitions follow the stored holds, so that a restart finds the same log. A new partition of a split,
//! merge or move gets its holds before it serves: positions are spans of the hash space.
//!
//! A holder that moves its hold must have made durable, before, all that it has read up to there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use shardlake_catalog::{Change, HoldState, Holder, LogHold, PlaceRecord};
use shardlake_model::{ContainerRid, Result};
use shardlake_partition::HeldLsns;
use shardlake_routing::KeyRange;

use crate::Serving;
use crate::live_catalog::LiveCatalog;

/// Followers get so long after a start to move, before the age of a hold counts.
const TIME_TO_START: Duration = Duration::from_secs(600);

type HoldKey = (ContainerRid, Holder);

/// Positions of holds that have moved since the last batch.
#[derive(Debug, Default)]
pub(crate) struct MovedHolds(Mutex<BTreeMap<HoldKey, Vec<PlaceRecord>>>);

impl MovedHolds {
    fn guard(&self) -> std::sync::MutexGuard<'_, BTreeMap<HoldKey, Vec<PlaceRecord>>> {
        // Each change of the map is one call.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps the log of a container for a follower from a position on. It is kept when this returns.
/// A hold that was lost is held anew.
pub(crate) async fn hold_log(
    serving: &Serving,
    container: ContainerRid,
    holder: Holder,
    position: Vec<PlaceRecord>,
) -> Result<()> {
    serving.0.moved_holds.guard().remove(&(container, holder));
    let now_ms = serving.clock().now().milliseconds();
    let plan = move |live: &LiveCatalog, draft: &mut shardlake_catalog::Definitions| {
        if live.container_of_rid(container).is_none() {
            return Err(crate::refusals::was_deleted());
        }
        draft.put_log_hold(LogHold::new(container, holder, position, now_ms));
        Ok(())
    };
    serving.change(plan).await.map(drop)
}

/// Moves a hold, with the next batch. Returns its state; `None` where it does not exist.
pub(crate) fn move_hold(
    serving: &Serving,
    container: ContainerRid,
    holder: Holder,
    position: Vec<PlaceRecord>,
) -> Option<HoldState> {
    let state = hold_state(serving, container, holder)?;
    if state == HoldState::Held {
        serving.0.moved_holds.guard().insert((container, holder), position);
    }
    Some(state)
}

/// From now on the log is not kept for a follower.
pub(crate) async fn release_hold(serving: &Serving, container: ContainerRid, holder: Holder) -> Result<()> {
    serving.0.moved_holds.guard().remove(&(container, holder));
    let plan = move |_: &LiveCatalog, draft: &mut shardlake_catalog::Definitions| {
        draft.log_holds.remove(&(container, holder));
        Ok(())
    };
    serving.change(plan).await.map(drop)
}

/// Whether the log is kept for a follower; `None` where it never was.
pub(crate) fn hold_state(serving: &Serving, container: ContainerRid, holder: Holder) -> Option<HoldState> {
    let live = serving.catalog().load();
    live.definitions.log_holds.get(&(container, holder)).map(|hold| hold.state)
}

/// Stores the holds that have moved, and gives up those whose followers are too slow. Returns the
/// holds that were given up.
pub(crate) async fn store_moved_holds(serving: &Serving) -> Result<Vec<(ContainerRid, Holder)>> {
    let moved = serving.0.moved_holds.guard().clone();
    let lost = slow_holds(serving, &moved).await?;
    if moved.is_empty() && lost.is_empty() {
        return Ok(lost);
    }
    let (now_ms, stored, given_up) = (serving.clock().now().milliseconds(), moved.clone(), lost.clone());
    let plan = move |_: &LiveCatalog, draft: &mut shardlake_catalog::Definitions| {
        for (key, position) in moved {
            let Some(hold) = draft.log_holds.get(&key).filter(|hold| hold.is_held()) else { continue };
            let hold = LogHold { position, moved_ms: now_ms, ..LogHold::clone(hold) };
            draft.put_log_hold(hold);
        }
        for key in given_up {
            let Some(hold) = draft.log_holds.get(&key) else { continue };
            let hold = LogHold { state: HoldState::Lost, ..LogHold::clone(hold) };
            draft.put_log_hold(hold);
        }
        Ok(())
    };
    serving.change(plan).await?;
    // A caller that goes away before this leaves them for the next batch.
    serving.0.moved_holds.guard().retain(|key, position| stored.get(key) != Some(position));
    Ok(lost)
}

/// Holds beyond their bounds.
async fn slow_holds(serving: &Serving, moved: &BTreeMap<HoldKey, Vec<PlaceRecord>>) -> Result<Vec<HoldKey>> {
    let live = serving.catalog().load_full();
    let mut slow = Vec::new();
    for (key, hold) in live.definitions.log_holds.iter().filter(|(_, hold)| hold.is_held()) {
        let position = moved.get(key).unwrap_or(&hold.position);
        if is_slow(serving, &live, hold, position, moved.contains_key(key)).await? {
            slow.push(*key);
        }
    }
    Ok(slow)
}

async fn is_slow(
    serving: &Serving,
    live: &LiveCatalog,
    hold: &LogHold,
    position: &[PlaceRecord],
    has_moved: bool,
) -> Result<bool> {
    let Some(entry) = live.container_of_rid(hold.container) else { return Ok(false) };
    let (now_ms, age_ms) = (serving.clock().now().milliseconds(), hold.bound.age_ms);
    let is_old = !has_moved
        && now_ms.saturating_sub(hold.moved_ms) > age_ms
        && serving.clock().elapsed() >= TIME_TO_START;
    let parts = parts_of(position);
    for partition in entry.map.iter() {
        let Some(after) = lowest(&parts, partition.epk_range()) else { continue };
        if partition.durable_lsn().saturating_sub(after) > hold.bound.entries {
            return Ok(true);
        }
        // A follower without anything to read does not move, and is not slow.
        if is_old
            && let Some(time) = partition.hosted().partition().log_time_above(after).await?
            && now_ms.saturating_sub(time.milliseconds()) > age_ms
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Gives partitions the holds of their containers, before a changed catalog is shown.
pub(crate) fn follow_holds_of(catalog: &LiveCatalog, change: &Change) {
    let of_containers = change.containers.iter().map(|changed| changed.key);
    let of_holds = change.log_holds.iter().map(|changed| changed.key.0);
    let concerned: BTreeSet<ContainerRid> = of_containers.chain(of_holds).collect();
    for rid in concerned {
        let Some(entry) = catalog.container_of_rid(rid) else { continue };
        let holds: Vec<_> = catalog.definitions.log_holds_of(rid).filter(|hold| hold.is_held()).collect();
        assert!(holds.iter().all(|hold| hold.container == rid), "the holds of one container");
        let all: Parts = holds.iter().flat_map(|hold| parts_of(&hold.position)).collect();
        let with_expired = holds.iter().filter(|hold| hold.holder.needs_expired());
        let with_expired: Parts = with_expired.flat_map(|hold| parts_of(&hold.position)).collect();
        for partition in entry.map.iter() {
            partition.hosted().partition().hold_log(HeldLsns {
                entries: lowest(&all, partition.epk_range()),
                expired: lowest(&with_expired, partition.epk_range()),
            });
        }
    }
}

/// Spans with the LSNs that they are read up to.
type Parts = Vec<(KeyRange, u64)>;

/// The catalog's predicates refuse a position that cannot be read.
fn parts_of(position: &[PlaceRecord]) -> Parts {
    position.iter().filter_map(|place| Some((place.span().ok()?, place.after))).collect()
}

/// The lowest LSN of the parts that lie in a range.
fn lowest(parts: &[(KeyRange, u64)], range: &KeyRange) -> Option<u64> {
    parts.iter().filter(|(span, _)| span.overlaps(range)).map(|(_, after)| *after).min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use shardlake_routing::Epk;

    fn span(min: u8, max: u8) -> KeyRange {
        let bound = |byte: u8| Epk(if byte == 0 { Vec::new() } else { vec![byte] });
        KeyRange { min: bound(min), max: bound(max) }
    }

    #[test]
    fn partition_is_held_at_the_lowest_part_in_its_range() {
        let places = [(0, 0x20, 9), (0x20, 0x40, 4), (0x40, 0xFF, 7)];
        let position: Vec<PlaceRecord> =
            places.iter().map(|(min, max, after)| PlaceRecord::new(&span(*min, *max), *after)).collect();
        let position = parts_of(&position);
        assert_eq!(lowest(&position, &span(0, 0xFF)), Some(4), "after a merge");
        assert_eq!(lowest(&position, &span(0, 0x20)), Some(9));
        assert_eq!(lowest(&position, &span(0, 0x10)), Some(9), "after a split");
        assert_eq!(lowest(&position, &span(0x30, 0x50)), Some(4));
        assert_eq!(lowest(&position[..1], &span(0x20, 0xFF)), None, "no part speaks of it");
        assert_eq!(lowest(&[], &span(0, 0xFF)), None);
    }
}
