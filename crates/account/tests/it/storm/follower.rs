//! A reader of the change log that continues from range to range, by its span of the hash space: it must meet
//! every commit of every item, once and in order, in whichever range the item was when it was written.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use shardlake_account::{ChangeKind, ChangePage, KeyRange};
use shardlake_model::{ErrorKind, ReplyMeta, Result};

use super::world::World;

/// Small, so that a follower often stops in the middle.
const ENTRIES_MAX: usize = 7;

type Name = (String, String);

/// The commits that clients report, and the keys of their items in the log.
#[derive(Debug, Default)]
pub struct Acknowledged {
    /// Item, LSN and range.
    commits: Mutex<Vec<(Name, u64, Option<u32>)>>,
    /// Keys of items in the log, from a time without other writers.
    names: Mutex<HashMap<Vec<u8>, Name>>,
}

impl Acknowledged {
    pub fn note(&self, logical: &str, id: &str, meta: &ReplyMeta) {
        let name = (logical.to_owned(), id.to_owned());
        self.commits.lock().expect("no holder panics").push((name, meta.item_lsn, meta.range_id));
    }

    /// Learns the log's key of an item that has just been written.
    pub async fn learn(&self, world: &World, logical: &str, id: &str, meta: &ReplyMeta) {
        let range_id = meta.range_id.expect("writes name their range");
        let before = meta.item_lsn - 1;
        let page =
            world.account.items().changes(&world.container(), range_id, &KeyRange::full(), before, 1).await;
        let (_, entry) = page.expect("the log").entries.pop().expect("the commit is there");
        let name = (logical.to_owned(), id.to_owned());
        let key = entry.operations[0].key.clone();
        self.names.lock().expect("no holder panics").insert(key, name);
    }
}

/// Part of the hash space, and the last LSN read of it.
#[derive(Debug, Clone)]
struct Place {
    span: KeyRange,
    after: u64,
}

/// Whether the log may contain commits whose result no client got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unacknowledged {
    Wrong,
    Allowed,
}

#[derive(Debug, Default)]
struct Follower {
    /// The LSNs of each item's changes, in the order of the log.
    changes: BTreeMap<Vec<u8>, Vec<u64>>,
}

/// Follows the log from its start until the storm has ended and nothing is left to read, and then compares.
pub async fn run_follower(world: Arc<World>) {
    let mut follower = Follower::default();
    let mut places = vec![Place { span: KeyRange::full(), after: 0 }];
    let allowed = match world.weather.crashes {
        true => Unacknowledged::Allowed,
        false => Unacknowledged::Wrong,
    };
    loop {
        // Whatever was committed before this was asked is read in the round.
        let is_last_round = world.is_over() && world.clients_running() == 0;
        let mut next = Vec::new();
        for place in places {
            match follow(&world, &mut follower, place).await {
                Ok(places) => next.extend(places),
                Err(error) if world.weather.crashes && error.kind() == ErrorKind::Unavailable => return,
                Err(error) => return world.problem(format!("change log: {error} ({:?})", error.kind())),
            }
        }
        places = next;
        if is_last_round {
            break;
        }
        tokio::task::yield_now().await;
    }
    if let Some(problem) = follower.compare(&world.notebooks.acknowledged, allowed) {
        world.problem(format!("change log: {problem}"));
    }
}

/// Reads a place to its end, and returns where to continue.
async fn follow(world: &World, follower: &mut Follower, place: Place) -> Result<Vec<Place>> {
    let mut open = vec![place];
    let mut done = Vec::new();
    while let Some(Place { span, after }) = open.pop() {
        let container = world.container();
        let ranges = container.partition_key_ranges();
        let bounds = |min: &str, max: &str| KeyRange::from_hex(min, max).expect("ranges have bounds");
        let mut parts = ranges
            .iter()
            .map(|range| (range.id, bounds(&range.min_inclusive, &range.max_exclusive).intersection(&span)))
            .filter(|(_, part)| !part.is_empty());
        let (range_id, part) = parts.next().expect("every hash has a range");
        let rest: Vec<KeyRange> = parts.map(|(_, part)| part).collect();
        if !rest.is_empty() {
            open.extend([part].into_iter().chain(rest).map(|span| Place { span, after }));
            continue;
        }
        match world.account.items().changes(&container, range_id, &span, after, ENTRIES_MAX).await {
            Ok(page) => {
                let place = Place { span, after: page.last_lsn };
                if let Some(problem) = follower.take(&page) {
                    world.problem(format!("change log: {problem}"));
                }
                if page.is_last { done.push(place) } else { open.push(place) }
            }
            Err(error) if error.kind() == ErrorKind::PartitionGone => open.push(Place { span, after }),
            Err(error) => return Err(error),
        }
        tokio::task::yield_now().await;
    }
    Ok(done)
}

impl Follower {
    fn take(&mut self, page: &ChangePage) -> Option<String> {
        let mut problem = None;
        for (lsn, entry) in &page.entries {
            for operation in &entry.operations {
                let known = self.changes.entry(operation.key.clone()).or_default();
                let last = known.last().copied().unwrap_or(0);
                let follows = match operation.kind {
                    ChangeKind::Create => operation.previous_lsn == 0,
                    _ => operation.previous_lsn == last,
                };
                if *lsn <= last || !follows {
                    let name = operation.key.escape_ascii();
                    let previous = operation.previous_lsn;
                    problem = Some(format!("{name}: LSN {lsn} upon {previous} came after {last}"));
                }
                known.push(*lsn);
            }
        }
        problem
    }

    /// Whether the log has all acknowledged commits, and no other commits that matter.
    fn compare(&self, acknowledged: &Acknowledged, others: Unacknowledged) -> Option<String> {
        let mut expected: BTreeMap<Name, Vec<u64>> = BTreeMap::new();
        let commits = acknowledged.commits.lock().expect("no holder panics");
        for (name, lsn, _) in commits.iter() {
            expected.entry(name.clone()).or_default().push(*lsn);
        }
        expected.values_mut().for_each(|lsns| lsns.sort_unstable());
        for (key, name) in acknowledged.names.lock().expect("no holder panics").iter() {
            let found = self.changes.get(key).cloned().unwrap_or_default();
            let wanted = expected.remove(name).unwrap_or_default();
            let is_wrong = match others {
                Unacknowledged::Wrong => found != wanted,
                Unacknowledged::Allowed => wanted.iter().any(|lsn| !found.contains(lsn)),
            };
            if is_wrong {
                let missing: Vec<_> = wanted.iter().filter(|lsn| !found.contains(lsn)).collect();
                let invented: Vec<_> = found.iter().filter(|lsn| !wanted.contains(lsn)).collect();
                let of_item = commits.iter().filter(|commit| commit.0 == *name);
                let places: Vec<_> = of_item.map(|(_, lsn, range)| (lsn, range)).collect();
                return Some(format!(
                    "{name:?}: missing {missing:?}, not acknowledged {invented:?} of LSNs and ranges {places:?}"
                ));
            }
        }
        expected.keys().next().map(|name| format!("{name:?} has no key"))
    }
}
