//! Number of times that operations wait for a store with slow reads: once for many items, not once for each.

use std::sync::Arc;
use std::time::Duration;

use shardlake_account::{
    Account, AccountOptions, ChangeFeedMode, ChangeFeedRequest, ContainerHandle, FeedScope, FeedStart,
    QueryReply, QueryRequest,
};
use shardlake_model::{ChangeFeedPolicy, ContainerDefinition, PartitionKeyDefinition};
use shardlake_stdx::Timestamp;
use shardlake_storage::{Shard, ShardOptions};

use crate::support::json_door::{JsonDoor, KeyInput};
use crate::support::queries::request;
use crate::support::slow::SlowEngine;
use crate::support::{Fixture, none};

const ITEMS: usize = 1200;

/// A container in one partition, with items of eight groups and ten keys.
async fn filled() -> (Fixture, ContainerHandle, SlowEngine) {
    let engine = SlowEngine::default();
    let shard = Shard::with_engine(Arc::new(engine.clone()), &ShardOptions::memory()).expect("opens");
    let fixture = Fixture::over(shard).await;
    let container = fixture.container(400).await;
    for number in 0..ITEMS {
        let body = format!(
            r#"{{"id":"{number}","pk":"{}","group":{},"rank":{},"big":{}}}"#,
            number % 10,
            number % 8,
            (number * 7919) % ITEMS,
            number >= 600,
        );
        fixture
            .account
            .upsert_item(&fixture.ctx(), &container, None, body.as_bytes(), &none())
            .await
            .expect("stored");
    }
    (fixture, container, engine)
}

/// A page of a query, and how often it waited.
async fn page(
    (fixture, container, engine): &(Fixture, ContainerHandle, SlowEngine),
    text: &str,
    continuation: Option<&str>,
) -> (QueryReply, usize) {
    let request =
        QueryRequest { scope: range(container), fans_out: false, ..request(text, 100, continuation) };
    let (reply, round_trips) =
        Box::pin(engine.round_trips(fixture.account.queries().query(&fixture.ctx(), container, request)))
            .await;
    (reply.expect("answered"), round_trips)
}

/// The only range.
fn range(container: &ContainerHandle) -> FeedScope {
    FeedScope::Range { range_id: Some(container.partition_key_ranges()[0].id), epk: None }
}

#[tokio::test]
async fn a_page_of_rows_that_the_index_names_takes_four_round_trips() {
    let all = filled().await;
    let text = "SELECT * FROM c WHERE c[\"group\"] = 3";
    let (reply, round_trips) = page(&all, text, None).await;
    assert_eq!((reply.rows.len(), reply.statistics.items_loaded), (100, 100));
    assert!(round_trips <= 4, "{round_trips} round trips");
    let (rest, round_trips) = page(&all, text, reply.continuation.as_deref()).await;
    assert_eq!((rest.rows.len(), rest.continuation), (50, None));
    assert!(round_trips <= 4, "{round_trips} round trips");
}

#[tokio::test]
async fn a_page_whose_rows_the_index_cannot_prove_takes_few_round_trips() {
    let all = filled().await;
    let (reply, round_trips) = page(&all, "SELECT * FROM c WHERE c[\"group\"] = 3 AND c.big", None).await;
    assert_eq!(reply.rows.len(), 75);
    assert!(round_trips <= 16, "{round_trips} round trips");
}

#[tokio::test]
async fn top_100_in_the_order_of_an_index_takes_ten_round_trips() {
    let all = filled().await;
    for direction in ["ASC", "DESC"] {
        let text = format!("SELECT TOP 100 VALUE c.rank FROM c ORDER BY c.rank {direction}");
        // The first query has the items counted that have the property.
        let (first, _) = page(&all, &text, None).await;
        assert_eq!(first.rows.len(), 100);
        crate::support::eventually("a count of the items with the property", async || {
            page(&all, &text, None).await.1 <= 10
        })
        .await;
    }
}

#[tokio::test]
async fn a_feed_from_a_time_takes_few_round_trips() {
    let all = filled().await;
    let (fixture, container, engine) = &all;
    let since = fixture.clock.now();
    fixture.clock.advance(Duration::from_secs(60));
    for number in 0..50 {
        let body = format!(r#"{{"id":"late {number}","pk":"late"}}"#);
        fixture
            .account
            .upsert_item(&fixture.ctx(), container, None, body.as_bytes(), &none())
            .await
            .expect("stored");
    }
    let since = Timestamp(since.0 + 30_000);
    let request =
        ChangeFeedRequest { since: Some(since), max_items: Some(100), ..ChangeFeedRequest::default() };
    let ctx = fixture.ctx();
    let feed = fixture.account.items().change_feed(&ctx, container, &request);
    let (page, round_trips) = engine.round_trips(feed).await;
    assert_eq!(page.expect("a page").count, 50);
    assert!(round_trips <= 20, "{round_trips} round trips");
}

/// Every item is replaced and every second one deleted in the end.
#[tokio::test]
async fn a_page_of_all_versions_takes_few_round_trips() {
    let engine = SlowEngine::default();
    let shard = Shard::with_engine(Arc::new(engine.clone()), &ShardOptions::memory()).expect("opens");
    let fixture = Fixture::over(shard).await;
    let mut definition = ContainerDefinition::new("c", PartitionKeyDefinition::hash("/pk"));
    definition.change_feed_policy = Some(ChangeFeedPolicy { retention_duration: 10 });
    let container = fixture.container_with(definition, 400).await;
    let account = &fixture.account;
    let versions = |start| ChangeFeedRequest {
        mode: ChangeFeedMode::AllVersionsAndDeletes,
        start,
        max_items: Some(100),
        ..ChangeFeedRequest::default()
    };
    let now = account
        .items()
        .change_feed(&fixture.ctx(), &container, &versions(FeedStart::Now))
        .await
        .expect("a page");
    for round in 0..2 {
        for number in 0..40 {
            let body = format!(r#"{{"id":"{number}","pk":"a","round":{round}}}"#);
            account
                .upsert_item(&fixture.ctx(), &container, None, body.as_bytes(), &none())
                .await
                .expect("stored");
        }
    }
    for number in (0..40).step_by(2) {
        let (key, id) = (Some(KeyInput(r#"["a"]"#)), number.to_string());
        account.delete_item(&fixture.ctx(), &container, key, &id, &none()).await.expect("deleted");
    }
    let (ctx, request) = (fixture.ctx(), versions(FeedStart::After(&now.etag)));
    let feed = account.items().change_feed(&ctx, &container, &request);
    let (page, round_trips) = engine.round_trips(feed).await;
    assert_eq!(page.expect("a page").count, 100);
    assert!(round_trips <= 8, "{round_trips} round trips");
}

#[tokio::test]
async fn many_partitions_open_in_as_many_round_trips_as_few() {
    let mut taken = Vec::new();
    for throughput in [400, 60_000] {
        let engine = SlowEngine::default();
        let shard = Shard::with_engine(Arc::new(engine.clone()), &ShardOptions::memory()).expect("opens");
        let fixture = Fixture::over(shard.clone()).await;
        let container = fixture.container(throughput).await;
        for number in 0..100 {
            let body = format!(r#"{{"id":"{number}","pk":"{number}"}}"#);
            fixture
                .account
                .create_item(&fixture.ctx(), &container, None, body.as_bytes())
                .await
                .expect("created");
        }
        drop((container, fixture));
        let opening = Account::open(shard, AccountOptions::default());
        let (account, round_trips) = engine.round_trips(opening).await;
        let partitions = account
            .expect("opens")
            .router()
            .container("db", "c")
            .expect("there")
            .partition_key_ranges()
            .len();
        taken.push((partitions, round_trips));
    }
    let [(1, one), (many, all)] = taken[..] else { panic!("{taken:?}") };
    assert!(many >= 6 && all <= one + 4, "{taken:?}");
}
