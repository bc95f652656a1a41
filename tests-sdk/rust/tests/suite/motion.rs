//! Queries whose partition splits between two pages: each row comes once.

use crate::support::{Encoding, Fixture, Outcome};
use azure_data_cosmos::FeedScope;
use azure_data_cosmos::models::{ContainerProperties, ThroughputProperties};
use azure_data_cosmos::options::{CreateContainerOptions, MaxItemCountHint, QueryOptions};
use futures::StreamExt;
use serde_json::{Value, json};
use std::num::NonZeroU32;

const COUNT: i64 = 50;
const PAGE: u32 = 10;
/// Turns a hang into a failure.
const LOOKS_MAX: usize = 20_000;

/// How the pages behind the split are asked for.
#[derive(Debug, Clone, Copy)]
enum GoingOn {
    SamePages,
    Token,
}

// check: split-by-throughput
#[tokio::test]
async fn each_row_comes_once_when_a_partition_splits_between_pages() -> Outcome {
    let everywhere = FeedScope::full_container;
    let queries = [
        ("SELECT VALUE c.n FROM c", everywhere(), COUNT),
        ("SELECT VALUE c.n FROM c WHERE c.n >= 5", everywhere(), COUNT - 5),
        ("SELECT VALUE c.n FROM c ORDER BY c.n", everywhere(), COUNT),
        ("SELECT VALUE c.n FROM c ORDER BY c.n DESC", everywhere(), COUNT),
        ("SELECT VALUE c.n FROM c WHERE c.customer = 'c-0'", FeedScope::partition("c-0"), COUNT / 2),
        ("SELECT VALUE c.n FROM c ORDER BY c.n", FeedScope::partition("c-0"), COUNT / 2),
    ];
    let with = |going_on| queries.iter().map(move |query| (query, going_on));
    // Together, since each waits for its split.
    let runs = with(GoingOn::SamePages).chain(with(GoingOn::Token));
    let runs = runs.map(async |((text, scope, expected), going_on)| {
        let seen = seen_through_a_split(text, scope.clone(), going_on).await?;
        let mut sorted = seen.clone();
        sorted.sort();
        sorted.dedup();
        let counts = (seen.len() as i64, sorted.len() as i64);
        assert_eq!(counts, (*expected, *expected), "{text} {going_on:?}: {seen:?}");
        if text.ends_with("ORDER BY c.n") {
            assert_eq!(seen, sorted, "{text} {going_on:?}");
        }
        Outcome::Ok(())
    });
    futures::future::try_join_all(runs).await?;
    Ok(())
}

/// Half of the items are of one customer.
async fn seen_through_a_split(text: &str, scope: FeedScope, going_on: GoingOn) -> Outcome<Vec<i64>> {
    let fixture = Fixture::new().await?;
    let options = CreateContainerOptions::default().with_throughput(ThroughputProperties::manual(400));
    fixture
        .database
        .create_container(ContainerProperties::new("orders", "/customer".into()), Some(options))
        .await?;
    let orders = fixture.database.container_client("orders", None).await?;
    for n in 0..COUNT {
        let (id, customer) = (format!("o-{n}"), format!("c-{}", if n % 2 == 0 { 0 } else { n }));
        orders
            .create_item(customer.clone(), &id, &json!({ "id": id, "customer": customer, "n": n }), None)
            .await?;
    }
    let page_of = || {
        QueryOptions::default()
            .with_max_item_count(MaxItemCountHint::Limit(NonZeroU32::new(PAGE).expect("not zero")))
    };
    let numbers =
        |items: &[Value]| items.iter().map(|item| item.as_i64().expect("a number")).collect::<Vec<_>>();
    let mut pages = orders.query_items::<Value>(text, scope.clone(), Some(page_of())).await?.into_pages();
    let mut seen = numbers(pages.next().await.expect("a first page")?.items());
    assert_eq!(seen.len(), PAGE as usize);
    let token = pages.to_continuation_token();
    split(&fixture).await?;
    if let GoingOn::Token = going_on {
        let options = page_of().with_continuation_token(token?);
        pages = orders.query_items::<Value>(text, scope, Some(options)).await?.into_pages();
    }
    while let Some(page) = pages.next().await {
        seen.extend(numbers(page?.items()));
    }
    fixture.drop_database().await?;
    Ok(seen)
}

/// Another client orders it and waits for it, so that the first client learns of it by its pages.
async fn split(fixture: &Fixture) -> Outcome {
    let seen = fixture.seen_with(Encoding::Default).await?.container_client("orders", None).await?;
    let before = seen.read_feed_ranges(None).await?.len();
    seen.begin_replace_throughput(ThroughputProperties::manual(24_000), None).await?.await?;
    for _ in 0..LOOKS_MAX {
        let fresh = fixture.seen_with(Encoding::Default).await?.container_client("orders", None).await?;
        if fresh.read_feed_ranges(None).await?.len() > before {
            return Ok(());
        }
    }
    Err("the partition was never split".into())
}
