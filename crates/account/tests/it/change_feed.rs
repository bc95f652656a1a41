//! The change feed beneath the wire: compaction of the log, starts by time, and the history after
//! restarts and relocations.

use crate::support::json_door::{JsonDoor, KeyInput};
use std::collections::BTreeMap;
use std::time::Duration;

use crate::support::{Fixture, memory_shards, none};
use serde_json::Value;
use shardlake_account::{
    ChangeFeedMode, ChangeFeedPage, ChangeFeedRequest, ContainerHandle, FeedStart, Shards, SplitAt, verify,
};
use shardlake_model::{
    ChangeFeedPolicy, ContainerDefinition, Error, ErrorKind, PartitionKeyDefinition, Result,
};
use shardlake_stdx::Timestamp;

/// Entries that compaction keeps, plus the number that it waits for.
const SLACK: u64 = 2 * 1024 + 4096;

fn definition(minutes: i64) -> ContainerDefinition {
    let mut definition = ContainerDefinition::new("c", PartitionKeyDefinition::hash("/pk"));
    definition.change_feed_policy = Some(ChangeFeedPolicy { retention_duration: minutes });
    definition
}

async fn put(fixture: &Fixture, container: &ContainerHandle, number: u64, value: u64) {
    let pk = format!("k{}", number % 7);
    let body = format!(r#"{{"id":"{number}","pk":"{pk}","v":{value}}}"#);
    let key = format!("[\"{pk}\"]");
    let (ctx, any) = (fixture.ctx(), none());
    let upsert = fixture.account.upsert_item(&ctx, container, Some(KeyInput(&key)), body.as_bytes(), &any);
    upsert.await.expect("written");
}

async fn delete(fixture: &Fixture, container: &ContainerHandle, number: u64) {
    let (key, id) = (format!("[\"k{}\"]", number % 7), number.to_string());
    let (ctx, any) = (fixture.ctx(), none());
    let delete = fixture.account.delete_item(&ctx, container, Some(KeyInput(&key)), &id, &any);
    delete.await.expect("deleted");
}

fn parsed(page: &ChangeFeedPage) -> Vec<Value> {
    let text = [b"[", &page.changes[..], b"]"].concat();
    serde_json::from_slice(&text).expect("JSON")
}

/// Everything from a start to the end, with the etag there.
async fn read(fixture: &Fixture, request: &ChangeFeedRequest<'_>) -> Result<(Vec<Value>, String)> {
    let container = fixture.account.router().container("db", "c")?;
    let (mut all, mut etag) = (Vec::new(), None::<String>);
    loop {
        let start = etag.as_deref().map_or(request.start, FeedStart::After);
        let request = ChangeFeedRequest { start, ..request.clone() };
        let page = fixture.account.items().change_feed(&fixture.ctx(), &container, &request).await?;
        all.extend(parsed(&page));
        etag = Some(page.etag);
        if page.is_last && page.count == 0 {
            return Ok((all, etag.unwrap_or_default()));
        }
    }
}

fn latest(start: FeedStart<'_>) -> ChangeFeedRequest<'_> {
    ChangeFeedRequest { start, max_items: Some(100), ..ChangeFeedRequest::default() }
}

fn versions(start: FeedStart<'_>) -> ChangeFeedRequest<'_> {
    ChangeFeedRequest { mode: ChangeFeedMode::AllVersionsAndDeletes, ..latest(start) }
}

/// The last value of each item that a reader was given.
fn rebuilt(changes: &[Value]) -> BTreeMap<u64, u64> {
    let item = |change: &Value| {
        let id = change["id"].as_str().expect("text").parse().expect("a number");
        (id, change["v"].as_u64().expect("a number"))
    };
    changes.iter().map(item).collect()
}

async fn log_entries(shards: &Shards) -> u64 {
    let report = verify(shards).await.expect("readable");
    assert_eq!(report.problem_count(), 0, "{report:?}");
    report.partitions.iter().map(|partition| partition.report.log_entries).sum()
}

#[tokio::test]
async fn the_log_is_bounded_by_the_items_and_tells_them_all() {
    let shards = memory_shards(1).await;
    let fixture = Fixture::over(&shards).await;
    let container = fixture.container_with(definition(0), 400).await;
    let mut expected = BTreeMap::new();
    let mut step = async |from: u64, to: u64| {
        for number in from..to {
            put(&fixture, &container, number % 300, number).await;
            expected.insert(number % 300, number);
            if number % 50 == 49 {
                delete(&fixture, &container, number % 300).await;
                expected.remove(&(number % 300));
            }
        }
        expected.clone()
    };
    step(0, 5_000).await;
    let middle = read(&fixture, &latest(FeedStart::Now)).await.expect("a page").1;
    let expected = step(5_000, 12_000).await;
    fixture.account.maintenance().compact_change_logs().await.expect("compacted");
    let entries = log_entries(&shards).await;
    assert!(entries < 300 + SLACK, "{entries} entries");
    let (all, _) = read(&fixture, &latest(FeedStart::Beginning)).await.expect("pages");
    assert_eq!((rebuilt(&all), all.len()), (expected.clone(), expected.len()));
    // An old position is as good as ever.
    let (rest, _) = read(&fixture, &latest(FeedStart::After(&middle))).await.expect("pages");
    assert_eq!(rebuilt(&rest), expected);
    assert_eq!(fixture.account.maintenance().compact_change_logs().await.expect("nothing to do"), 0);
    // A restart finds the same, and continues.
    let again = Fixture::over(&shards).await;
    let (all, _) = read(&again, &latest(FeedStart::Beginning)).await.expect("pages");
    assert_eq!(rebuilt(&all), expected);
}

#[tokio::test]
async fn what_outlives_its_followers_is_gone_over_again() {
    let shards = memory_shards(1).await;
    let fixture = Fixture::over(&shards).await;
    let container = fixture.container_with(definition(0), 400).await;
    for number in 0..9_000 {
        put(&fixture, &container, number, 0).await;
    }
    fixture.account.maintenance().compact_change_logs().await.expect("compacted");
    // They were the latest versions when they were checked.
    assert!(log_entries(&shards).await >= 9_000);
    for number in 0..8_900 {
        delete(&fixture, &container, number).await;
    }
    fixture.account.maintenance().compact_change_logs().await.expect("compacted");
    let entries = log_entries(&shards).await;
    assert!(entries < 100 + SLACK, "{entries} entries");
    let (all, _) = read(&fixture, &latest(FeedStart::Beginning)).await.expect("pages");
    assert_eq!(all.len(), 100);
}

#[tokio::test]
async fn versions_are_kept_for_their_time_and_no_longer() {
    let shards = memory_shards(1).await;
    let fixture = Fixture::over(&shards).await;
    let container = fixture.container_with(definition(10), 400).await;
    let (_, start) = read(&fixture, &versions(FeedStart::Now)).await.expect("a page");
    for value in 0..40 {
        for number in 0..50 {
            put(&fixture, &container, number, value).await;
        }
        fixture.clock.advance(Duration::from_secs(30));
    }
    let (_, end) = read(&fixture, &versions(FeedStart::Now)).await.expect("a page");
    let too_old = |error: Error| assert!(error.message().contains("for 10 minutes"), "{error}");
    too_old(read(&fixture, &versions(FeedStart::After(&start))).await.expect_err("20 minutes old"));
    // The last ten minutes of 40 rounds of half a minute.
    let kept = (21 * 50).to_string();
    let told = read(&fixture, &versions(FeedStart::After(&kept))).await.expect("pages").0;
    assert_eq!(told.len(), 19 * 50);
    fixture.account.maintenance().compact_change_logs().await.expect("compacted");
    let entries = log_entries(&shards).await;
    assert!(entries <= 20 * 50 + 1, "{entries} entries");
    assert_eq!(read(&fixture, &versions(FeedStart::After(&kept))).await.expect("pages").0, told);
    too_old(read(&fixture, &versions(FeedStart::After(&start))).await.expect_err("gone"));
    fixture.clock.advance(Duration::from_secs(3600));
    fixture.account.maintenance().compact_change_logs().await.expect("compacted");
    let entries = log_entries(&shards).await;
    assert!(entries <= 51, "{entries} entries");
    assert_eq!(
        read(&fixture, &versions(FeedStart::After(&end))).await.expect("still there").0,
        Vec::<Value>::new()
    );
    let (all, _) = read(&fixture, &latest(FeedStart::Beginning)).await.expect("pages");
    assert_eq!(rebuilt(&all), (0..50).map(|number| (number, 39)).collect());
}

#[tokio::test]
async fn a_time_is_found_without_reading_what_is_before() {
    let shards = memory_shards(1).await;
    let fixture = Fixture::over(&shards).await;
    let container = fixture.container_with(definition(0), 400).await;
    let since = |seconds: u64| ChangeFeedRequest {
        since: Some(Timestamp((1_700_000_000 + seconds) * 1000)),
        ..latest(FeedStart::Beginning)
    };
    for number in 0..300 {
        put(&fixture, &container, number, number).await;
        fixture.clock.advance(Duration::from_secs(1));
    }
    let ids = async |seconds| {
        let (all, _) = read(&fixture, &since(seconds)).await.expect("pages");
        let ids: Vec<u64> = rebuilt(&all).into_keys().collect();
        assert_eq!(all.len(), ids.len());
        ids
    };
    for seconds in [0, 1, 150, 299, 300, 1000] {
        assert_eq!(ids(seconds).await, (seconds..300).collect::<Vec<_>>(), "{seconds}");
    }
    // Where logs were joined, their times are not in order.
    let split = fixture.account.maintenance().split(&container, 0, SplitAt::Middle).await.expect("begins");
    split.finished().await.expect("ends");
    let container = fixture.account.router().container("db", "c").expect("there");
    let merge = fixture.account.maintenance().merge(&container, &[1, 2]).await.expect("begins");
    merge.finished().await.expect("ends");
    for number in 300..310 {
        put(&fixture, &container, number, number).await;
        fixture.clock.advance(Duration::from_secs(1));
    }
    for seconds in [0, 150, 299, 305, 1000] {
        assert_eq!(ids(seconds).await, (seconds..310).collect::<Vec<_>>(), "{seconds}");
    }
    assert_eq!(log_entries(&shards).await, 311);
}

#[tokio::test]
async fn the_past_of_each_part_survives_a_merge() {
    let shards = memory_shards(1).await;
    let fixture = Fixture::over(&shards).await;
    let container = fixture.container_with(definition(10), 400).await;
    let split = fixture.account.maintenance().split(&container, 0, SplitAt::Middle).await.expect("begins");
    split.finished().await.expect("ends");
    let container = fixture.account.router().container("db", "c").expect("there");
    let (_, start) = read(&fixture, &versions(FeedStart::Now)).await.expect("a page");
    for value in 0..5 {
        for number in 0..20 {
            put(&fixture, &container, number, value).await;
        }
    }
    let (before, _) = read(&fixture, &versions(FeedStart::After(&start))).await.expect("pages");
    assert_eq!(before.len(), 100);
    let merge = fixture.account.maintenance().merge(&container, &[1, 2]).await.expect("begins");
    for number in 0..20 {
        put(&fixture, &container, number, 5).await;
    }
    merge.finished().await.expect("ends");
    let (after, _) = read(&fixture, &versions(FeedStart::After(&start))).await.expect("pages");
    assert_eq!(after.len(), 120);
    for number in 0..20 {
        let id = number.to_string();
        let of_item = after.iter().filter(|change| change["current"]["id"] == id.as_str());
        let told: Vec<_> = of_item.map(|change| change["current"]["v"].as_u64().expect("a number")).collect();
        assert_eq!(told, [0, 1, 2, 3, 4, 5], "{id}");
    }
    let refused = read(&fixture, &versions(FeedStart::Beginning)).await.expect_err("not from the beginning");
    assert_eq!(refused.kind(), ErrorKind::BadRequest);
    log_entries(&shards).await;
}
