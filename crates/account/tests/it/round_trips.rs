//! How often operations wait for a store whose every read takes long: once for many items, not once for each.

use crate::support::json_door::JsonDoor;
use std::sync::Arc;

use shardlake_account::{ContainerHandle, FeedScope, QueryReply, QueryRequest};
use shardlake_storage::{Shard, ShardOptions};

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
        engine.round_trips(fixture.account.query(&fixture.ctx(), container, request)).await;
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
    assert!(round_trips <= 12, "{round_trips} round trips");
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
