//! The change feed: the latest version from the beginning and on from a token, and all versions and
//! deletes.

use crate::support::{Fixture, Outcome};
use azure_data_cosmos::FeedScope;
use azure_data_cosmos::clients::ContainerClient;
use azure_data_cosmos::feed::ContinuationToken;
use azure_data_cosmos::models::{ChangeFeedOperationType, ChangeFeedPolicy, ContainerProperties};
use azure_data_cosmos::options::{ChangeFeedMode, ChangeFeedOptions, ChangeFeedStartFrom};
use futures::StreamExt;
use serde_json::{Value, json};
use std::time::Duration;

/// Reads until a page has nothing, and gives what came and where to continue.
async fn drain(
    container: &ContainerClient,
    scope: FeedScope,
    start: ChangeFeedStartFrom,
    options: ChangeFeedOptions,
) -> Outcome<(Vec<(Option<ChangeFeedOperationType>, Value)>, ContinuationToken)> {
    let mut pages = container.query_change_feed::<Value>(scope, start, Some(options)).await?;
    let (mut changes, mut empty) = (Vec::new(), 0);
    // One empty page may be that of one range alone.
    while empty < 8 {
        let Some(page) = pages.next().await else { break };
        let page = page?;
        empty = if page.items().is_empty() { empty + 1 } else { 0 };
        let seen = |change: &azure_data_cosmos::models::ChangeFeedItem<Value>| {
            let item = change.current().or(change.previous()).cloned();
            let id = change.metadata().and_then(|metadata| metadata.id().map(|id| json!({ "id": id })));
            (change.operation_type(), item.filter(|item| item.get("id").is_some()).or(id).unwrap_or_default())
        };
        changes.extend(page.items().iter().map(seen));
    }
    Ok((changes, pages.to_continuation_token()?))
}

fn ids(changes: &[(Option<ChangeFeedOperationType>, Value)]) -> Vec<String> {
    let mut ids: Vec<String> =
        changes.iter().map(|(_, item)| item["id"].as_str().expect("an id").to_owned()).collect();
    ids.sort();
    ids
}

// check: change-feed
#[tokio::test]
async fn the_latest_versions_come_from_the_beginning_and_on_from_a_token() -> Outcome {
    let fixture = Fixture::new().await?;
    let orders = fixture.spread().await?;
    let mut expected = Vec::new();
    for n in 0..20 {
        let (id, customer) = (format!("o-{n:02}"), format!("c-{}", n % 5));
        orders
            .create_item(customer.clone(), &id, &json!({ "id": id, "customer": customer, "n": n }), None)
            .await?;
        expected.push(id);
    }
    let all = FeedScope::full_container;
    let (changes, token) =
        drain(&orders, all(), ChangeFeedStartFrom::Beginning, ChangeFeedOptions::default()).await?;
    assert_eq!(ids(&changes), expected);
    let changed = json!({ "id": "o-07", "customer": "c-2", "n": 100 });
    orders.replace_item("c-2", "o-07", &changed, None).await?;
    orders.delete_item("c-3", "o-08", None).await?;
    let onwards = ChangeFeedOptions::default().with_continuation_token(token);
    let (changes, _) = drain(&orders, all(), ChangeFeedStartFrom::Beginning, onwards).await?;
    assert_eq!(ids(&changes), ["o-07"]);
    assert_eq!(changes[0].1["n"], 100);
    let scope = FeedScope::partition("c-4");
    let (changes, _) =
        drain(&orders, scope, ChangeFeedStartFrom::Beginning, ChangeFeedOptions::default()).await?;
    assert_eq!(ids(&changes), ["o-04", "o-09", "o-14", "o-19"]);
    fixture.drop_database().await
}

// check: change-feed-all-versions
#[tokio::test]
async fn all_versions_and_deletes_come_where_they_are_kept() -> Outcome {
    let fixture = Fixture::new().await?;
    let policy = ChangeFeedPolicy::default().with_retention_duration(Duration::from_secs(600));
    let properties = ContainerProperties::new("orders", "/customer".into()).with_change_feed_policy(policy);
    let orders = fixture.container(properties).await?;
    let all_versions = || ChangeFeedOptions::default().with_mode(ChangeFeedMode::AllVersionsAndDeletes);
    let all = FeedScope::full_container;
    let (before, token) = drain(&orders, all(), ChangeFeedStartFrom::Now, all_versions()).await?;
    assert!(before.is_empty());
    let item = |n: i64| json!({ "id": "a", "customer": "c", "n": n });
    orders.create_item("c", "a", &item(1), None).await?;
    orders.replace_item("c", "a", &item(2), None).await?;
    orders.delete_item("c", "a", None).await?;
    let onwards = all_versions().with_continuation_token(token);
    let (changes, _) = drain(&orders, all(), ChangeFeedStartFrom::Now, onwards).await?;
    let kinds: Vec<_> = changes.iter().map(|(kind, _)| *kind).collect();
    use ChangeFeedOperationType::{Create, Delete, Replace};
    assert_eq!(kinds, [Some(Create), Some(Replace), Some(Delete)]);
    assert_eq!((&changes[0].1["n"], &changes[1].1["n"]), (&json!(1), &json!(2)));
    fixture.drop_database().await
}
