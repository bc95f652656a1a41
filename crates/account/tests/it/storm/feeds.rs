//! Readers of the change feed, which keep a copy of the container through splits, merges, moves,
//! compaction and power cuts. In the end the copy equals the container, byte for byte, and where
//! all versions are returned, every item's history is complete and in order.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use shardlake_account::{ChangeFeedMode, ChangeFeedRequest, FeedScope, FeedStart};
use shardlake_model::{Error, ErrorKind};

use super::world::World;
use crate::support::json;

/// Retention of history in a storm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Past {
    /// The default, without readers of the change feed.
    Usual,
    /// All versions are kept and returned.
    Kept,
    /// It is compacted as soon as possible, all the time.
    Compacted,
}

/// The changes that a reader has received. They outlive a power cut: only durable changes were returned.
#[derive(Debug, Default)]
pub struct Copies {
    latest: Mutex<Copy>,
    versions: Mutex<Copy>,
}

type Name = (String, String);

#[derive(Debug, Default)]
struct Copy {
    etag: Option<String>,
    items: BTreeMap<Name, Told>,
    changes: u64,
}

/// The last word on an item.
#[derive(Debug, Clone, PartialEq)]
struct Told {
    lsn: u64,
    item: Option<Value>,
}

pub async fn run_feed_readers(world: Arc<World>) {
    match world.weather.past {
        Past::Usual => {}
        Past::Kept => {
            tokio::join!(
                follow(&world, ChangeFeedMode::LatestVersion),
                follow(&world, ChangeFeedMode::AllVersionsAndDeletes),
            );
        }
        Past::Compacted => {
            tokio::join!(follow(&world, ChangeFeedMode::LatestVersion), compact(&world));
        }
    }
}

async fn compact(world: &World) {
    while !world.is_over() {
        if let Err(error) = world.account.maintenance().compact_change_logs().await
            && !matches!(error.kind(), ErrorKind::PartitionGone)
            && !is_cut(world, &error)
        {
            return world.problem(format!("compaction: {error}"));
        }
        tokio::task::yield_now().await;
    }
}

fn is_cut(world: &World, error: &Error) -> bool {
    world.weather.crashes && error.kind() == ErrorKind::Unavailable
}

async fn follow(world: &World, mode: ChangeFeedMode) {
    let random = world.random("feed", mode as u32);
    let copies = world.notebooks.copies.clone();
    let place = match mode {
        ChangeFeedMode::LatestVersion => &copies.latest,
        ChangeFeedMode::AllVersionsAndDeletes => &copies.versions,
    };
    loop {
        // Whatever was committed before this was asked is read before the end.
        let is_last_round = world.is_over() && world.clients_running() == 0;
        let etag = place.lock().expect("no holder panics").etag.clone();
        let start = match (&etag, mode) {
            (Some(etag), _) => FeedStart::After(etag),
            (None, ChangeFeedMode::LatestVersion) => FeedStart::Beginning,
            // Nothing was written yet.
            (None, ChangeFeedMode::AllVersionsAndDeletes) => FeedStart::After("0"),
        };
        let max_items = Some([1, 2, 5, 30, -1][random.below(5) as usize]);
        let request = ChangeFeedRequest { mode, start, max_items, ..ChangeFeedRequest::default() };
        let page = match world.account.items().change_feed(&world.ctx(), &world.container(), &request).await {
            Ok(page) => page,
            Err(error) if is_cut(world, &error) => return,
            Err(error) => return world.problem(format!("change feed: {error} ({:?})", error.kind())),
        };
        let text = [b"[", &page.changes[..], b"]"].concat();
        let changes: Vec<Value> = serde_json::from_slice(&text).expect("changes are JSON");
        if changes.len() != page.count {
            return world.problem(format!(
                "change feed: {} changes counted as {}",
                changes.len(),
                page.count
            ));
        }
        let is_end = page.count == 0 && page.is_last;
        if let Some(problem) = place.lock().expect("no holder panics").take(mode, changes, page.etag) {
            return world.problem(format!("change feed, {mode:?}: {problem}"));
        }
        if is_last_round && is_end {
            break;
        }
        tokio::task::yield_now().await;
    }
    compare(world, mode, place).await;
}

fn name_of(item: &Value) -> Name {
    let text = |name: &str| item[name].as_str().expect("text").to_owned();
    (text("pk"), text("id"))
}

impl Copy {
    fn take(&mut self, mode: ChangeFeedMode, changes: Vec<Value>, etag: String) -> Option<String> {
        self.etag = Some(etag);
        changes.into_iter().find_map(|change| match mode {
            ChangeFeedMode::LatestVersion => self.take_latest(change),
            ChangeFeedMode::AllVersionsAndDeletes => self.take_version(&change),
        })
    }

    fn take_latest(&mut self, mut item: Value) -> Option<String> {
        let lsn = item.as_object_mut()?.remove("_lsn").and_then(|lsn| lsn.as_u64()).expect("a number");
        let name = name_of(&item);
        self.changes += 1;
        let before = self.items.insert(name.clone(), Told { lsn, item: Some(item) });
        let is_later = before.as_ref().is_none_or(|before| before.lsn < lsn);
        (!is_later).then(|| format!("{name:?} of LSN {lsn} came after {before:?}"))
    }

    fn take_version(&mut self, change: &Value) -> Option<String> {
        let (metadata, current, previous) = (&change["metadata"], &change["current"], &change["previous"]);
        let lsn = metadata["lsn"].as_u64().expect("a number");
        let kind = metadata["operationType"].as_str().expect("text");
        let name = match kind {
            "delete" => {
                let text = |value: &Value| value.as_str().expect("text").to_owned();
                (text(&metadata["partitionKey"]["pk"]), text(&metadata["id"]))
            }
            _ => name_of(current),
        };
        self.changes += 1;
        let before = self.items.remove(&name).unwrap_or(Told { lsn: 0, item: None });
        let follows = match kind {
            "create" => before.item.is_none() && previous.is_null(),
            _ => before.item.as_ref() == Some(previous) && metadata["previousImageLSN"] == before.lsn,
        };
        let item = (kind != "delete").then(|| current.clone());
        self.items.insert(name.clone(), Told { lsn, item });
        let is_right = follows && lsn > before.lsn;
        (!is_right).then(|| format!("{name:?}: {change} came after {before:?}"))
    }
}

/// Against the final content, when all writers have ended.
async fn compare(world: &World, mode: ChangeFeedMode, place: &Mutex<Copy>) {
    if world.weather.is_cut.load(std::sync::atomic::Ordering::Acquire) {
        return;
    }
    let (mut there, mut token) = (BTreeMap::new(), None);
    loop {
        let page = world
            .account
            .items()
            .read_feed(&world.ctx(), &world.container(), FeedScope::All, None, token.as_deref())
            .await;
        let page = match page {
            Ok(page) => page,
            Err(error) if is_cut(world, &error) => return,
            Err(error) => return world.problem(format!("feed: {error}")),
        };
        for item in page.items.iter().map(json) {
            there.insert(name_of(&item), item);
        }
        token = page.continuation;
        if token.is_none() {
            break;
        }
    }
    let copy = place.lock().expect("no holder panics");
    for (name, item) in &there {
        let told = copy.items.get(name).and_then(|told| told.item.as_ref());
        if told != Some(item) {
            return world
                .problem(format!("change feed, {mode:?}: {name:?} is {item}, but was told as {told:?}"));
        }
    }
    let is_gone = |(name, told): &(&Name, &Told)| told.item.is_some() && !there.contains_key(*name);
    if mode == ChangeFeedMode::AllVersionsAndDeletes
        && let Some((name, _)) = copy.items.iter().find(is_gone)
    {
        world.problem(format!("change feed, {mode:?}: nobody told that {name:?} was deleted"));
    }
    println!("{mode:?}: {} changes told of {} items", copy.changes, copy.items.len());
}
