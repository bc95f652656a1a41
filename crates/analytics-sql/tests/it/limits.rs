//! Limits of queries: each has its error, and leaves no worker and no file behind.

use std::time::Duration;

use serde_json::json;
use shardlake_analytics_sql::{
    Failure, FailureKind, Format, Limits, Piece, Pool, Query, QueryState, Refusal,
};

use crate::support::{LIMITS, Shop, answered, driven, pool_with, query, rows, settled};

/// Runs for hours.
const ENDLESS: &str = "SELECT count(*) FROM generate_series(1, 1000000) a JOIN generate_series(1, 1000000) b ON a.value <> b.value";

fn shop() -> Shop {
    Shop::new((0..100).map(|at| json!({ "id": format!("i{at}"), "pk": "p", "n": at })))
}

fn has_worker(pool: &Pool) -> bool {
    pool.running().iter().any(|query| query.state == QueryState::Runs)
}

fn limited(shop: &Shop, limits: Limits) -> Pool {
    pool_with(shop.folder.path(), limits, 1, 1)
}

#[test]
fn a_query_past_its_time_is_ended_and_the_next_one_works() {
    let shop = shop();
    let slow = Query { time: Duration::from_millis(1_500), ..shop.query(ENDLESS) };
    let failure = shop.failure(slow);
    assert_eq!(failure.kind, FailureKind::TimedOut, "{failure:?}");
    assert!(failure.message.contains("timeoutSeconds"), "{failure:?}");
    assert_eq!(shop.rows("SELECT count(*) FROM c"), json!([[100]]));
    settled(shop.folder.path(), 2);
}

#[test]
fn a_query_that_is_cancelled_or_whose_client_leaves_ends() {
    let shop = shop();
    let pool = limited(&shop, LIMITS);
    shop.runtime.block_on(async {
        let slow = query(ENDLESS, &shop.tables);
        let id = slow.id.clone();
        let ran = pool.run(slow);
        let mut ran = std::pin::pin!(ran);
        driven(ran.as_mut(), "the query runs", || has_worker(&pool)).await;
        assert_eq!(
            pool.running()[0].template,
            "SELECT count(*) FROM generate_series(?, ?) a JOIN generate_series(?, ?) b ON a.value <> b.value"
        );
        assert!(!pool.cancel("another"));
        assert!(pool.cancel(&id));
        assert_eq!(ran.await.unwrap_err().kind, FailureKind::Cancelled);
        assert!(pool.running().is_empty());
        // A client that leaves before its answer begins.
        let mut left = Box::pin(pool.run(query(ENDLESS, &shop.tables)));
        driven(left.as_mut(), "the query waits or runs", || !pool.running().is_empty()).await;
        drop(left);
        // Its worker is the only one: the next query has to get one.
        let answer = answered(&pool, query("SELECT 1", &shop.tables)).await.unwrap();
        assert_eq!(answer["rows"], json!([[1]]));
        // A client that leaves in the middle of its answer.
        let mut answer =
            pool.run(query("SELECT * FROM generate_series(1, 900000)", &shop.tables)).await.unwrap();
        assert!(matches!(answer.next().await, Some(Piece::Data(_))));
        drop(answer);
        assert_eq!(answered(&pool, query("SELECT 2", &shop.tables)).await.unwrap()["rows"], json!([[2]]));
        assert_eq!(pool.figures().outcomes()[4], 3, "cancelled");
    });
    settled(shop.folder.path(), 2);
}

#[test]
fn more_queries_than_may_wait_are_refused() {
    let shop = shop();
    let pool = limited(&shop, LIMITS);
    shop.runtime.block_on(async {
        let mut first = Box::pin(pool.run(query(ENDLESS, &shop.tables)));
        driven(first.as_mut(), "the query runs", || has_worker(&pool)).await;
        let mut second = Box::pin(pool.run(query("SELECT 1", &shop.tables)));
        assert!(futures::poll!(second.as_mut()).is_pending());
        let third = pool.run(query("SELECT 1", &shop.tables)).await.unwrap_err();
        assert_eq!(third.kind, FailureKind::Busy, "{third:?}");
        drop(first);
        second.await.unwrap();
    });
}

#[test]
fn memory_and_spill_files_are_bounded() {
    let shop = shop();
    let counting = "SELECT count(*) FROM (SELECT value % 3000000 AS k, count(*) FROM generate_series(1, 3000000) GROUP BY 1)";
    let spilling = limited(&shop, Limits { memory_bytes: 64 << 20, spill_bytes: 8 << 30, ..LIMITS });
    let spilled = shop.runtime.block_on(answered(&spilling, query(counting, &shop.tables))).unwrap();
    assert_eq!(spilled["rows"], json!([[3_000_000]]));
    assert!(spilled["statistics"]["spilledBytes"].as_u64() > Some(1 << 20), "{spilled}");
    assert!(spilled["statistics"]["memoryBytes"].as_u64() <= Some(64 << 20), "{spilled}");
    settled(shop.folder.path(), 2);
    let without_disk = limited(&shop, Limits { memory_bytes: 64 << 20, spill_bytes: 1 << 20, ..LIMITS });
    let failure = shop.runtime.block_on(answered(&without_disk, query(counting, &shop.tables))).unwrap_err();
    assert_eq!(failure.kind, FailureKind::NeedsTooMuch, "{failure:?}");
    assert!(failure.message.contains("--analytics-sql-"), "{failure:?}");
    let grouping = "SELECT array_length(array_agg(value)) FROM generate_series(1, 20000000)";
    let small = limited(&shop, Limits { memory_bytes: 32 << 20, ..LIMITS });
    let failure = shop.runtime.block_on(answered(&small, query(grouping, &shop.tables))).unwrap_err();
    assert_eq!(failure.kind, FailureKind::NeedsTooMuch, "{failure:?}");
    assert!(failure.message.contains("--analytics-sql-memory"), "{failure:?}");
}

#[test]
fn answers_in_texts_are_bounded_and_arrow_is_not() {
    let shop = shop();
    let pool = limited(&shop, Limits { rows: 50, ..LIMITS });
    for format in [Format::Json, Format::JsonLines, Format::Csv] {
        let all = Query { format, ..query("SELECT * FROM c", &shop.tables) };
        let failure = shop.runtime.block_on(crate::support::text_of(&pool, all)).unwrap_err();
        assert_eq!(failure.kind, FailureKind::TooLarge, "{failure:?}");
        assert!(failure.message.contains("LIMIT"), "{failure:?}");
    }
    let arrow = Query { format: Format::ArrowStream, ..query("SELECT * FROM c", &shop.tables) };
    let (_, statistics) =
        shop.runtime.block_on(async { crate::support::read(pool.run(arrow).await.unwrap()).await }).unwrap();
    assert_eq!(statistics.rows, 100);
    assert_eq!(
        rows(&pool, &shop.runtime, query("SELECT * FROM c LIMIT 50", &shop.tables)).as_array().unwrap().len(),
        50
    );
}

#[test]
fn an_answer_waits_for_its_tables() {
    let shop = shop();
    let mut waiting = shop.query("SELECT count(*) FROM c");
    let (named, names) = std::sync::mpsc::sync_channel(1);
    let now = shop.tables.clone();
    waiting.tables[0].refusal = Some(Refusal::NotReady("not yet".into()));
    waiting.waits = Some(Box::new(move |tables| {
        Box::pin(async move {
            named.send(tables).unwrap();
            Ok(now)
        })
    }));
    assert_eq!(rows(&shop.pool, &shop.runtime, waiting), json!([[100]]));
    assert_eq!(names.recv().unwrap(), [("shop".to_owned(), "c".to_owned())]);
    let mut failing = shop.query("SELECT count(*) FROM c");
    let refused = Failure::new(FailureKind::NotReady, "not yet");
    let expected = refused.clone();
    failing.waits = Some(Box::new(move |_| Box::pin(async move { Err(refused) })));
    assert_eq!(shop.failure(failing), expected);
    assert_eq!(shop.rows("SELECT 1"), json!([[1]]));
}
