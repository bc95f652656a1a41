//! Queries in one partition and over several, which the SDK merges.

use crate::support::{Fixture, Outcome, rows, status};
use azure_data_cosmos::clients::ContainerClient;
use azure_data_cosmos::options::{MaxItemCountHint, QueryOptions};
use azure_data_cosmos::{FeedScope, Query};
use futures::{StreamExt, TryStreamExt};
use serde_json::{Value, json};
use std::num::NonZeroU32;

const COUNT: i64 = 60;

/// Sixty orders of twelve customers over four partitions.
async fn filled(fixture: &Fixture) -> Outcome<ContainerClient> {
    let orders = fixture.spread().await?;
    for n in 0..COUNT {
        let (id, customer) = (format!("o-{n}"), format!("c-{}", n % 12));
        let item = json!({ "id": id, "customer": customer, "n": n, "half": n as f64 / 2.0, "kind": n % 3 });
        orders.create_item(customer, &id, &item, None).await?;
    }
    Ok(orders)
}

fn numbers(rows: &[Value]) -> Vec<i64> {
    rows.iter().map(|row| row.as_i64().expect("a number")).collect()
}

// check: queries
#[tokio::test]
async fn parameters_scopes_and_projections() -> Outcome {
    let fixture = Fixture::new().await?;
    let orders = filled(&fixture).await?;
    let query = Query::from("SELECT VALUE c.n FROM c WHERE c.n >= @from").with_parameter("@from", 24)?;
    let mut found = numbers(&rows(&orders, query.clone(), FeedScope::full_container()).await?);
    found.sort();
    assert_eq!(found, (24..COUNT).collect::<Vec<_>>());
    let mut found = numbers(&rows(&orders, query, FeedScope::partition("c-3")).await?);
    found.sort();
    assert_eq!(found, [27, 39, 51]);
    let projected =
        rows(&orders, "SELECT c.id, { h: c.half } AS o FROM c WHERE c.n = 7", FeedScope::full_container())
            .await?;
    assert_eq!(projected, [json!({ "id": "o-7", "o": { "h": 3.5 } })]);
    assert_eq!(
        rows(&orders, "SELECT * FROM c WHERE c.n < 0", FeedScope::full_container()).await?,
        [] as [Value; 0]
    );
    fixture.drop_database().await
}

// check: order-by, aggregates, top-offset-limit
#[tokio::test]
async fn orders_aggregates_and_limits_are_merged() -> Outcome {
    let fixture = Fixture::new().await?;
    let orders = filled(&fixture).await?;
    let all = FeedScope::full_container;
    let found = rows(&orders, "SELECT VALUE c.n FROM c ORDER BY c.n DESC", all()).await?;
    assert_eq!(numbers(&found), (0..COUNT).rev().collect::<Vec<_>>());
    let found =
        rows(&orders, "SELECT TOP 4 VALUE c.n FROM c WHERE c.kind = 1 ORDER BY c.half", all()).await?;
    assert_eq!(numbers(&found), [1, 4, 7, 10]);
    let found = rows(&orders, "SELECT VALUE c.n FROM c ORDER BY c.n OFFSET 10 LIMIT 3", all()).await?;
    assert_eq!(numbers(&found), [10, 11, 12]);
    let mut kinds = numbers(&rows(&orders, "SELECT DISTINCT TOP 10 VALUE c.kind FROM c", all()).await?);
    kinds.sort();
    assert_eq!(kinds, [0, 1, 2]);
    fixture.drop_database().await
}

// check: query-pages
#[tokio::test]
async fn pages_go_on_where_a_token_says() -> Outcome {
    let fixture = Fixture::new().await?;
    let orders = filled(&fixture).await?;
    let limit = MaxItemCountHint::Limit(NonZeroU32::new(7).expect("not zero"));
    for text in ["SELECT VALUE c.n FROM c", "SELECT VALUE c.n FROM c ORDER BY c.n"] {
        let (mut token, mut seen, mut pages) = (None, Vec::new(), 0);
        loop {
            let mut options = QueryOptions::default().with_max_item_count(limit);
            if let Some(token) = token.take() {
                options = options.with_continuation_token(token);
            }
            let query = orders.query_items::<Value>(text, FeedScope::full_container(), Some(options)).await?;
            let mut query = query.into_pages();
            let Some(page) = query.next().await else { break };
            seen.extend(numbers(page?.items()));
            pages += 1;
            if seen.len() as i64 >= COUNT {
                break;
            }
            token = Some(query.to_continuation_token()?);
        }
        assert!(pages >= COUNT / 7, "{text}: {pages} pages");
        if !text.contains("ORDER") {
            seen.sort();
        }
        assert_eq!(seen, (0..COUNT).collect::<Vec<_>>(), "{text}");
    }
    fixture.drop_database().await
}

// check: query-metrics, query-errors
#[tokio::test]
async fn metrics_come_on_request_and_mistakes_are_400() -> Outcome {
    let fixture = Fixture::new().await?;
    let orders = filled(&fixture).await?;
    let options = QueryOptions::default().with_populate_index_metrics(true).with_populate_query_metrics(true);
    let query = orders.query_items::<Value>(
        "SELECT * FROM c WHERE c.n = 1",
        FeedScope::partition("c-1"),
        Some(options),
    );
    let page = query.await?.into_pages().next().await.expect("a page")?;
    assert!(
        page.query_metrics().is_some_and(|text| text.contains("outputDocumentCount=1")),
        "{:?}",
        page.query_metrics()
    );
    assert!(page.index_metrics().is_some());
    assert!(page.headers().request_charge().is_some());
    let wrong =
        match orders.query_items::<Value>("SELECT FROM WHERE", FeedScope::partition("c-1"), None).await {
            Ok(rows) => rows.try_collect::<Vec<_>>().await,
            Err(error) => Err(error),
        };
    assert_eq!(status(wrong), 400);
    fixture.drop_database().await
}

// check: feed-ranges
#[tokio::test]
async fn feed_ranges_divide_a_container() -> Outcome {
    let fixture = Fixture::new().await?;
    let orders = filled(&fixture).await?;
    let ranges = orders.read_feed_ranges(None).await?;
    assert_eq!(ranges.len(), 4);
    let mut seen = Vec::new();
    for range in &ranges {
        let found = rows(&orders, "SELECT VALUE c.n FROM c", FeedScope::range(range.clone())).await?;
        seen.extend(numbers(&found));
    }
    seen.sort();
    assert_eq!(seen, (0..COUNT).collect::<Vec<_>>());
    for customer in ["c-0", "c-5", "c-11"] {
        let own = orders.feed_range_from_partition_key(customer, None).await?;
        assert_eq!(own.len(), 1, "the SDK gives the range of the partition that the key is in");
        let found = rows(&orders, "SELECT VALUE c.customer FROM c", FeedScope::range(own[0].clone())).await?;
        assert_eq!(found.iter().filter(|other| *other == customer).count(), 5);
    }
    fixture.drop_database().await
}
