//! Holds on change logs: a follower that is stopped misses nothing, within bounds, through changes of
//! partitions and of the process.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use shardlake_account::{
    Account, AccountOptions, ContainerHandle, KeyRange, ProjectionRule, ProjectionState, Shards, SplitAt,
    verify_shards,
};
use shardlake_catalog::{HoldState, Holder, PlaceRecord};
use shardlake_change_log::{LogFollower, LogPosition, Needs, NextRound, PartRound};
use shardlake_model::{ContainerDefinition, ErrorKind, Limits, PartitionKeyDefinition, RequestContext};
use shardlake_partition::{ChangeKind, Image, Images, RoundError};
use shardlake_stdx::Random;
use shardlake_storage::fault::FaultEngine;
use shardlake_storage::{Durability, Shard, ShardOptions};
use shardlake_testkit::expects_log;

use crate::support::json_door::{JsonDoor, KeyInput};
use crate::support::{Fixture, eventually, json as json_of, memory_shards, none};

const HOLDER: Holder = Holder::Analytics(1);

async fn put(fixture: &Fixture, container: &ContainerHandle, id: u64) {
    let item = json!({ "id": id.to_string(), "pk": format!("p{}", id % 7) }).to_string();
    let account = &fixture.account;
    account.upsert_item(&fixture.ctx(), container, None, item.as_bytes(), &none()).await.expect("written");
}

async fn delete(fixture: &Fixture, container: &ContainerHandle, id: u64) {
    let key = format!("[\"p{}\"]", id % 7);
    let (account, id) = (&fixture.account, id.to_string());
    account
        .delete_item(&fixture.ctx(), container, Some(KeyInput(&key)), &id, &none())
        .await
        .expect("deleted");
}

fn container(account: &Account) -> ContainerHandle {
    account.router().container("db", "c").expect("there")
}

/// Where a follower of everything would be now.
fn end(container: &ContainerHandle) -> Vec<PlaceRecord> {
    let places = container.entry.map.iter();
    places.map(|partition| PlaceRecord::new(partition.epk_range(), partition.durable_lsn())).collect()
}

/// Deletions behind a position, as the partitions of now have them.
async fn deletions(container: &ContainerHandle, position: &[PlaceRecord]) -> Result<usize, RoundError> {
    let mut count = 0;
    for place in position {
        let span = place.span().expect("well-formed");
        for partition in container.entry.map.overlapping(&span) {
            let mut round = partition.hosted().partition().log_round(&span, place.after).await?;
            while let Some(page) = round.next_page().await? {
                count += page.changes.iter().filter(|change| change.kind == ChangeKind::Delete).count();
            }
        }
    }
    Ok(count)
}

#[tokio::test]
async fn projection_that_is_stopped_for_5000_deletes_misses_none() {
    let shards = memory_shards(1).await;
    let fixture = Fixture::over(shards.clone()).await;
    let source = fixture.container(400).await;
    let definition = ContainerDefinition::new("copies", PartitionKeyDefinition::hash("/of"));
    fixture.container_with(definition, 400).await;
    for id in 0..6_000 {
        put(&fixture, &source, id).await;
    }
    let rule = json!({
        "id": "stopped",
        "source": { "database": "db", "container": "c" },
        "target": { "database": "db", "container": "copies" },
        "match": [{ "source": "/id", "target": "/of" }],
        "set": [{ "from": "/name", "to": "/name" }],
        "start": "now",
    });
    let rule: ProjectionRule = serde_json::from_value(rule).expect("well-formed");
    let account = &fixture.account;
    let ctx = RequestContext::internal(account.router().clock(), account.router().random().guid());
    account.projections().put_projection(&ctx, rule).await.expect("created");
    account.projections().pause_projection("stopped").await.expect("paused");
    let position = end(&source);
    for id in 0..5_000 {
        delete(&fixture, &source, id).await;
    }
    account.maintenance().compact_change_logs().await.expect("compacted");
    assert_eq!(deletions(&source, &position).await.expect("no hole"), 5_000);
    // A start finds the hold before anything is compacted.
    drop(fixture);
    let fixture = Fixture::over(shards.clone()).await;
    let (account, source) = (&fixture.account, container(&fixture.account));
    account.maintenance().compact_change_logs().await.expect("compacted");
    assert_eq!(deletions(&source, &position).await.expect("no hole"), 5_000);
    // It goes on, and the log is compacted behind it.
    account.projections().resume_projection("stopped").await.expect("resumed");
    eventually("it has read the log", async || {
        fixture.clock.advance(Duration::from_millis(100));
        account.maintenance().store_log_holds().await.expect("stored");
        let report = account.projections().projection("stopped").await.expect("there");
        let stored = account.router().catalog().load_full();
        let rid = source.entry.record.container.rid;
        let is_at_end = stored.definitions.log_holds_of(rid).all(|hold| hold.position == end(&source));
        report.state == ProjectionState::Running && report.lag.changes == 0 && is_at_end
    })
    .await;
    account.maintenance().compact_change_logs().await.expect("compacted");
    assert!(matches!(deletions(&source, &position).await, Err(RoundError::Hole { .. })));
    // Nothing holds the log of a container whose projection has ended.
    account.projections().delete_projection("stopped").await.expect("deleted");
    assert!(account.router().catalog().load_full().definitions.log_holds.is_empty());
}

#[tokio::test]
async fn holds_are_kept_through_splits_and_merges() {
    let fixture = Fixture::new().await;
    fixture.container(400).await;
    let account = &fixture.account;
    let rid = container(account).entry.record.container.rid;
    for id in 0..400 {
        put(&fixture, &container(account), id).await;
    }
    let position = end(&container(account));
    account.router().hold_log(rid, HOLDER, position.clone()).await.expect("held");
    let mut deleted = 0;
    for step in 0..4 {
        for id in step * 100..(step + 1) * 100 {
            delete(&fixture, &container(account), id).await;
            deleted += 1;
        }
        let handle = container(account);
        let ids: Vec<u32> = handle.partition_key_ranges().iter().map(|range| range.id).collect();
        let ticket = match ids.as_slice() {
            [one] => account.maintenance().split(&handle, *one, SplitAt::Middle).await.expect("begun"),
            several => account.maintenance().merge(&handle, several).await.expect("begun"),
        };
        ticket.finished().await.expect("moved");
        for _ in 0..1_500 {
            put(&fixture, &container(account), 100_000).await;
        }
        account.maintenance().compact_change_logs().await.expect("compacted");
        assert_eq!(deletions(&container(account), &position).await.expect("no hole"), deleted, "step {step}");
    }
    account.router().release_hold(rid, HOLDER).await.expect("released");
    for id in 0..3_000 {
        put(&fixture, &container(account), id % 7).await;
    }
    account.maintenance().compact_change_logs().await.expect("compacted");
    let released = deletions(&container(account), &position).await;
    assert!(matches!(released, Err(RoundError::Hole { .. })), "{released:?}");
}

#[tokio::test]
async fn slow_follower_loses_its_hold_and_the_log_goes_on() {
    let shards = memory_shards(1).await;
    let fixture = Fixture::over(shards.clone()).await;
    let c = fixture.container(400).await;
    let rid = c.entry.record.container.rid;
    for id in 0..10 {
        put(&fixture, &c, id).await;
    }
    let (account, router) = (&fixture.account, fixture.account.router());
    let position = end(&c);
    router.hold_log(rid, HOLDER, position.clone()).await.expect("held");
    // A follower without anything to read does not move, and keeps its hold.
    fixture.clock.advance(Duration::from_secs(48 * 3600));
    account.maintenance().store_log_holds().await.expect("stored");
    assert_eq!(router.hold_state(rid, HOLDER), Some(HoldState::Held));
    for id in 0..3_000 {
        put(&fixture, &c, id % 10).await;
    }
    delete(&fixture, &c, 0).await;
    fixture.clock.advance(Duration::from_secs(23 * 3600));
    account.maintenance().store_log_holds().await.expect("stored");
    assert_eq!(router.hold_state(rid, HOLDER), Some(HoldState::Held));
    fixture.clock.advance(Duration::from_secs(2 * 3600));
    expects_log("a follower is too slow");
    account.maintenance().store_log_holds().await.expect("stored");
    assert_eq!(router.hold_state(rid, HOLDER), Some(HoldState::Lost));
    account.maintenance().compact_change_logs().await.expect("compacted");
    assert!(matches!(deletions(&c, &position).await, Err(RoundError::Hole { .. })));
    assert_eq!(router.move_hold(rid, HOLDER, end(&c)), Some(HoldState::Lost), "a lost hold does not move");
    // It is lost after a restart, too, and may be held anew.
    drop(fixture);
    // The clock of the fixture begins anew.
    expects_log("the last commit is more than an hour ahead of the clock");
    let fixture = Fixture::over(shards).await;
    let (router, c) = (fixture.account.router(), container(&fixture.account));
    assert_eq!(router.hold_state(rid, HOLDER), Some(HoldState::Lost));
    router.hold_log(rid, HOLDER, end(&c)).await.expect("held");
    assert_eq!(router.hold_state(rid, HOLDER), Some(HoldState::Held));
    assert_eq!(deletions(&c, &end(&c)).await.expect("no hole"), 0);
    let gone = shardlake_model::ContainerRid { number: rid.number + 1, ..rid };
    assert_eq!(router.move_hold(gone, HOLDER, Vec::new()), None);
    let refused = router.hold_log(gone, HOLDER, Vec::new()).await.expect_err("no such container");
    assert_eq!(refused.kind(), ErrorKind::OwnerNotFound);
    fixture
        .account
        .definitions()
        .delete_container(&fixture.ctx(), "db", "c", &none())
        .await
        .expect("deleted");
    assert_eq!(fixture.account.router().hold_state(rid, HOLDER), None);
}

#[tokio::test]
async fn holds_survive_a_kill_and_expired_items_wait_for_analytics_alone() {
    let over = |engine: &Arc<FaultEngine>| {
        let options = ShardOptions { durability: Durability::Sync, ..ShardOptions::memory() };
        Shards::from(Shard::with_engine(engine.clone(), &options).expect("opens"))
    };
    let engine = Arc::new(FaultEngine::new());
    let fixture = Fixture::over(over(&engine)).await;
    let mut definition = ContainerDefinition::new("c", PartitionKeyDefinition::hash("/pk"));
    definition.default_ttl = Some(60);
    let c = fixture.container_with(definition, 400).await;
    let rid = c.entry.record.container.rid;
    put(&fixture, &c, 0).await;
    let router = fixture.account.router();
    router.hold_log(rid, HOLDER, end(&c)).await.expect("held");
    router.hold_log(rid, Holder::Copy(1), vec![PlaceRecord::new(&KeyRange::full(), 0)]).await.expect("held");
    for id in 1..4 {
        put(&fixture, &c, id).await;
    }
    // Kept in memory until the next batch: a kill takes the holder back, never forward.
    assert_eq!(router.move_hold(rid, HOLDER, end(&c)), Some(HoldState::Held));
    let survivor = Arc::new(engine.crash(0));
    drop(fixture);
    let fixture = Fixture::over(over(&survivor)).await;
    let (account, c) = (&fixture.account, container(&fixture.account));
    fixture.clock.advance(Duration::from_secs(120));
    assert_eq!(account.maintenance().purge_expired(&c).await.expect("purged"), 1, "only up to the hold");
    // One is written anew: its version of before is kept.
    put(&fixture, &c, 2).await;
    let place = &end(&c)[0];
    let partition = c.entry.map.iter().next().expect("one").hosted().partition();
    let round = partition.log_round(&KeyRange::full(), place.after - 1).await.expect("a round");
    let page = round.with(Images::Latest).next_page().await.expect("readable").expect("a page");
    assert_eq!(page.changes.len(), 2, "{page:?}");
    assert_eq!(page.changes[0].kind, ChangeKind::Expire);
    assert!(matches!(&page.changes[0].old, Image::Record(_)), "{page:?}");
    // The holder has read everything.
    assert_eq!(account.router().move_hold(rid, HOLDER, end(&c)), Some(HoldState::Held));
    account.maintenance().store_log_holds().await.expect("stored");
    assert_eq!(
        account.maintenance().purge_expired(&c).await.expect("purged"),
        2,
        "another holder delays nothing"
    );
    let shards = fixture.account.router().stores().clone();
    drop(fixture);
    let report = verify_shards(&shards, &|_| ()).await.expect("readable");
    assert_eq!(report.problem_count(), 0, "{report:?}");
}

/// A copy that applies every change of a container once, and fails where a change comes twice or is missing.
#[derive(Default)]
struct Copy {
    /// The LSN of each item's version, by its key in the log.
    versions: BTreeMap<Vec<u8>, u64>,
    deleted: u64,
}

impl Copy {
    /// Applies all rounds that there are, and marks them as done.
    async fn follow(&mut self, account: &Account, follower: &mut LogFollower) {
        let router = account.router();
        follower.look_again(router);
        loop {
            let PartRound { span, mut round } = match follower.next_round(router).await.expect("it is held") {
                NextRound::End => return,
                NextRound::Nothing => continue,
                NextRound::Round(round) => *round,
            };
            while let Some(page) = round.next_page().await.expect("nothing moves meanwhile") {
                for change in page.changes {
                    let before = self.versions.get(&change.key[..]).copied().unwrap_or(0);
                    assert_eq!(before, change.previous_lsn, "{change:?}");
                    match change.kind {
                        ChangeKind::Create | ChangeKind::Replace => {
                            self.versions.insert(change.key.to_vec(), change.lsn);
                        }
                        ChangeKind::Delete | ChangeKind::Expire => {
                            self.versions.remove(&change.key[..]);
                            self.deleted += 1;
                        }
                    }
                }
            }
            round.durable().await.expect("in memory");
            follower.done(&span, round.upto());
        }
    }
}

/// The ids of all items.
async fn ids(fixture: &Fixture) -> Vec<String> {
    let (mut found, mut next) = (Vec::new(), None);
    loop {
        let (account, ctx, c) = (&fixture.account, fixture.ctx(), container(&fixture.account));
        let scope = shardlake_account::FeedScope::All;
        let page = account.items().read_feed(&ctx, &c, scope, Some(-1), next.as_deref()).await.expect("read");
        found.extend(page.items.iter().map(|item| json_of(item)["id"].as_str().expect("an id").to_owned()));
        next = page.continuation;
        if next.is_none() {
            found.sort();
            return found;
        }
    }
}

#[tokio::test]
async fn follower_reads_every_change_once_through_splits_merges_and_restarts() {
    let shard = memory_shards(1).await.first().clone();
    let options = || {
        let limits =
            Limits { change_log_entries_kept: 3, change_log_operations_in_vain: 20, ..Limits::default() };
        AccountOptions { limits, ..AccountOptions::default() }
    };
    let random = Random::seeded(7);
    let mut fixture = Fixture::over_with(&shard, options()).await;
    fixture.container(400).await;
    let rid = container(&fixture.account).entry.record.container.rid;
    let mut position = LogPosition::beginning();
    fixture.account.router().hold_log(rid, HOLDER, position.records()).await.expect("held");
    let (mut copy, mut expected) = (Copy::default(), BTreeMap::new());
    let (mut deleted, mut moves, mut restarts) = (0, 0, 0);
    for _ in 0..60 {
        for _ in 0..random.below(40) {
            let id = random.below(25);
            let c = container(&fixture.account);
            if random.below(3) == 0 && expected.remove(&id).is_some() {
                delete(&fixture, &c, id).await;
                deleted += 1;
            } else {
                put(&fixture, &c, id).await;
                expected.insert(id, ());
            }
        }
        let (account, c) = (&fixture.account, container(&fixture.account));
        match random.below(6) {
            0 => {
                let ids: Vec<u32> = c.partition_key_ranges().iter().map(|range| range.id).collect();
                let maintenance = account.maintenance();
                let ticket = match ids.as_slice() {
                    [one] => maintenance.split(&c, *one, SplitAt::Middle).await.expect("begun"),
                    several => maintenance.merge(&c, several).await.expect("begun"),
                };
                ticket.finished().await.expect("moved");
                moves += 1;
            }
            1 => {
                drop(fixture);
                fixture = Fixture::over_with(&shard, options()).await;
                restarts += 1;
            }
            _ => {}
        }
        let account = &fixture.account;
        if random.below(2) == 0 {
            let mut follower = LogFollower::open(rid, position.clone(), Needs::EveryChange);
            copy.follow(account, &mut follower).await;
            position = follower.position().clone();
            assert_eq!(account.router().move_hold(rid, HOLDER, position.records()), Some(HoldState::Held));
        }
        if random.below(3) == 0 {
            account.maintenance().store_log_holds().await.expect("stored");
        }
        account.maintenance().compact_change_logs().await.expect("compacted");
    }
    let mut follower = LogFollower::open(rid, position.clone(), Needs::EveryChange);
    copy.follow(&fixture.account, &mut follower).await;
    assert_eq!((copy.deleted, copy.versions.len()), (deleted, expected.len()));
    let mut known: Vec<String> = expected.keys().map(u64::to_string).collect();
    known.sort();
    assert_eq!(ids(&fixture).await, known);
    assert!(
        moves > 4 && restarts > 4 && deleted > 100,
        "{moves} moves, {restarts} restarts, {deleted} deleted"
    );
    // A commit ends the wait for it.
    put(&fixture, &container(&fixture.account), 0).await;
    follower.wait(fixture.account.router()).await;
}
