//! Feeds, batches, bulk and deleting a logical partition, over one and several partitions.

use crate::support::json_door::{BatchKind, BatchOperation, JsonDoor, KeyInput, key_scope};
use std::collections::BTreeSet;
use std::time::Duration;

use crate::support::{Fixture, ended, json, none};
use shardlake_account::{BulkOnError, ChangeFeedRequest, ContainerHandle, FeedScope, FeedStart, Outcome};
use shardlake_model::{ContainerDefinition, ErrorKind, PartitionKeyDefinition, Preconditions};

async fn fill(fixture: &Fixture, container: &ContainerHandle, count: usize) {
    for n in 0..count {
        let body = format!(r#"{{"id":"{n}","pk":"k{}","n":{n}}}"#, n % 7);
        fixture.account.create_item(&fixture.ctx(), container, None, body.as_bytes()).await.expect("created");
    }
}

async fn drain(
    fixture: &Fixture,
    container: &ContainerHandle,
    scope: FeedScope,
    page: Option<i64>,
) -> Vec<String> {
    let mut ids = Vec::new();
    let mut continuation: Option<String> = None;
    loop {
        let ctx = fixture.ctx();
        let feed =
            fixture.account.items().read_feed(&ctx, container, scope.clone(), page, continuation.as_deref());
        let feed = feed.await.expect("a page");
        assert!(page.is_none_or(|page| page < 0 || feed.items.len() <= page as usize));
        ids.extend(feed.items.iter().map(|item| json(item)["id"].as_str().expect("an id").to_owned()));
        continuation = feed.continuation;
        if continuation.is_none() {
            return ids;
        }
    }
}

#[tokio::test]
async fn pages_of_every_size_return_every_item_once_in_one_or_five_partitions() {
    let mut seen: Vec<BTreeSet<String>> = Vec::new();
    for throughput in [400, 30_000] {
        let fixture = Fixture::new().await;
        let c = fixture.container(throughput).await;
        assert_eq!(c.partition_key_ranges().len(), if throughput == 400 { 1 } else { 5 });
        fill(&fixture, &c, 50).await;
        for page in [None, Some(-1), Some(1), Some(7), Some(50), Some(1000)] {
            let ids = drain(&fixture, &c, FeedScope::All, page).await;
            assert_eq!(ids.len(), 50, "page size {page:?}");
            seen.push(ids.into_iter().collect());
        }
        let by_key = drain(&fixture, &c, key_scope(r#"["k3"]"#), Some(3)).await;
        assert_eq!(by_key, ["3", "10", "17", "24", "31", "38", "45"]);
        let mut by_range = Vec::new();
        for range in c.partition_key_ranges() {
            by_range.extend(
                drain(&fixture, &c, FeedScope::Range { range_id: Some(range.id), epk: None }, Some(4)).await,
            );
            let epk = Some((range.min_inclusive.clone(), range.max_exclusive.clone()));
            let same = drain(&fixture, &c, FeedScope::Range { range_id: None, epk }, None).await;
            assert!(same.iter().all(|id| by_range.contains(id)));
        }
        seen.push(by_range.into_iter().collect());
    }
    assert!(seen.windows(2).all(|pair| pair[0] == pair[1]), "every way to read gives the same items");
}

#[tokio::test]
async fn tokens_that_were_tampered_with_are_refused() {
    let fixture = Fixture::new().await;
    let c = fixture.container(400).await;
    fill(&fixture, &c, 5).await;
    let page = fixture
        .account
        .items()
        .read_feed(&fixture.ctx(), &c, FeedScope::All, Some(2), None)
        .await
        .expect("a page");
    let token = page.continuation.expect("more follows");
    assert!(token.len() < 1024);
    let mut broken = token.clone().into_bytes();
    broken[3] ^= 1;
    let broken = String::from_utf8(broken).expect("ASCII");
    for token in ["", "x", "AAAA", &broken, &token[..token.len() - 2]] {
        let error =
            fixture.account.items().read_feed(&fixture.ctx(), &c, FeedScope::All, None, Some(token)).await;
        assert_eq!(error.expect_err(token).kind(), ErrorKind::BadRequest, "{token}");
    }
    let gone = FeedScope::Range { range_id: Some(9), epk: None };
    let error = fixture
        .account
        .items()
        .read_feed(&fixture.ctx(), &c, gone, None, None)
        .await
        .expect_err("no such range");
    assert_eq!(error.kind(), ErrorKind::PartitionGone);
}

#[tokio::test]
async fn prefixes_of_hierarchical_keys_select_exactly_their_items() {
    let fixture = Fixture::new().await;
    let key = PartitionKeyDefinition::multi_hash(&["/tenant", "/user"]);
    let c = fixture.container_with(ContainerDefinition::new("h", key), 12_000).await;
    for (n, (tenant, user)) in [("t1", "u1"), ("t1", "u2"), ("t2", "u1"), ("t1", "u1")].iter().enumerate() {
        let body = format!(r#"{{"id":"{n}","tenant":"{tenant}","user":"{user}"}}"#);
        fixture.account.create_item(&fixture.ctx(), &c, None, body.as_bytes()).await.expect("created");
    }
    let mut t1 = drain(&fixture, &c, key_scope(r#"["t1"]"#), Some(1)).await;
    t1.sort();
    assert_eq!(t1, ["0", "1", "3"]);
    let full = drain(&fixture, &c, key_scope(r#"["t1","u1"]"#), None).await;
    assert_eq!(full, ["0", "3"]);
    let prefix = Some(KeyInput(r#"["t1"]"#));
    let error = fixture
        .account
        .read_item(&fixture.ctx(), &c, prefix, "0", &none())
        .await
        .expect_err("a full key is needed");
    assert_eq!(error.kind(), ErrorKind::PartitionKeyMismatch);
}

fn operation(kind: BatchKind, id: &str, body: Option<&str>) -> BatchOperation {
    BatchOperation {
        kind,
        id: Some(id.into()),
        body: body.map(|body| body.as_bytes().to_vec()),
        patch: None,
        partition_key: None,
        preconditions: Preconditions::default(),
    }
}

#[tokio::test]
async fn a_batch_is_all_or_nothing_and_one_lsn() {
    let fixture = Fixture::new().await;
    let c = fixture.container(400).await;
    let (account, ctx) = (&fixture.account, fixture.ctx());
    let key = KeyInput(r#"["a"]"#);
    let good = vec![
        operation(BatchKind::Create, "1", Some(r#"{"id":"1","pk":"a"}"#)),
        operation(BatchKind::Replace, "1", Some(r#"{"id":"1","pk":"a","v":2}"#)),
        operation(BatchKind::Upsert, "2", Some(r#"{"id":"2","pk":"a"}"#)),
        operation(BatchKind::Read, "1", None),
        operation(BatchKind::Delete, "2", None),
    ];
    let reply = account.json_batch(&ctx, &c, key, good).await.expect("well-formed");
    let replies = reply.outcome.expect("all succeed");
    assert_eq!(reply.meta.lsn, 1);
    assert_eq!(replies[3].outcome, Outcome::Read);
    assert_eq!(json(replies[3].item.as_ref().expect("a body"))["v"], 2, "a batch sees its own writes");

    let bad = vec![
        operation(BatchKind::Create, "3", Some(r#"{"id":"3","pk":"a"}"#)),
        operation(BatchKind::Delete, "missing", None),
        operation(BatchKind::Create, "4", Some(r#"{"id":"4","pk":"a"}"#)),
    ];
    let failure =
        account.json_batch(&ctx, &c, key, bad).await.expect("well-formed").outcome.expect_err("one fails");
    assert_eq!((failure.index, failure.error.kind()), (1, ErrorKind::NotFound));
    account.read_item(&ctx, &c, Some(key), "3", &none()).await.expect_err("rolled back");

    let foreign = vec![operation(BatchKind::Create, "5", Some(r#"{"id":"5","pk":"b"}"#))];
    let failure = account
        .json_batch(&ctx, &c, key, foreign)
        .await
        .expect("well-formed")
        .outcome
        .expect_err("another key");
    assert_eq!(failure.error.kind(), ErrorKind::PartitionKeyMismatch);

    let next = account.create_item(&ctx, &c, Some(key), br#"{"id":"6","pk":"a"}"#).await.expect("created");
    assert_eq!(next.meta.lsn, 2, "failed batches use no LSN");
    account.json_batch(&ctx, &c, key, vec![]).await.expect_err("empty");
    let many = (0..101).map(|n| operation(BatchKind::Read, &n.to_string(), None)).collect();
    account.json_batch(&ctx, &c, key, many).await.expect_err("more than 100");
}

#[tokio::test]
async fn bulk_operations_stand_for_themselves() {
    let fixture = Fixture::new().await;
    let c = fixture.container(30_000).await;
    let operations = || {
        let mut operations: Vec<_> = (0..20)
            .map(|n| {
                let body = format!(r#"{{"id":"{n}","pk":"k{n}"}}"#);
                let mut create = operation(BatchKind::Create, &n.to_string(), Some(&body));
                create.partition_key = Some(format!(r#"["k{n}"]"#));
                create
            })
            .collect();
        operations[5].partition_key = Some(r#"["other"]"#.into());
        operations
    };
    let (account, ctx) = (&fixture.account, fixture.ctx());
    let replies =
        account.json_bulk(&ctx, &c, None, operations(), BulkOnError::Continue).await.expect("well-formed");
    let failed: Vec<usize> = (0..20).filter(|n| replies[*n].is_err()).collect();
    assert_eq!(failed, [5]);
    let replies =
        account.json_bulk(&ctx, &c, None, operations(), BulkOnError::Stop).await.expect("well-formed");
    assert_eq!(replies[0].as_ref().expect_err("exists").kind(), ErrorKind::Conflict);
    assert!(
        replies[1..]
            .iter()
            .all(|reply| reply.as_ref().expect_err("stopped").kind() == ErrorKind::FailedDependency)
    );
}

#[tokio::test]
async fn deleting_a_logical_partition_leaves_the_others() {
    let fixture = Fixture::new().await;
    let c = fixture.container(400).await;
    fill(&fixture, &c, 700).await;
    let (account, ctx) = (&fixture.account, fixture.ctx());
    account.json_key_delete(&ctx, &c, KeyInput(r#"["k3"]"#)).await.expect("deleted");
    assert_eq!(drain(&fixture, &c, key_scope(r#"["k3"]"#), None).await.len(), 0);
    assert_eq!(drain(&fixture, &c, FeedScope::All, None).await.len(), 600);
    assert_eq!(c.usage().items, 600);
    account.json_key_delete(&ctx, &c, KeyInput(r#"["k3"]"#)).await.expect("deleting nothing is fine");
}

#[tokio::test]
async fn deleting_a_logical_partition_ends_though_others_go_on_writing() {
    let fixture = Fixture::new().await;
    let c = fixture.container(400).await;
    fill(&fixture, &c, 3500).await;
    let account = &fixture.account;
    let delete = async {
        let ctx = fixture.ctx();
        account.json_key_delete(&ctx, &c, KeyInput(r#"["k3"]"#)).await.expect("deleted")
    };
    let write = async {
        loop {
            let (ctx, conditions) = (fixture.ctx(), none());
            let written = account.upsert_item(&ctx, &c, None, br#"{"id":"!","pk":"k3"}"#, &conditions);
            written.await.expect("written");
        }
    };
    let deleted_first = async {
        tokio::select! {
            biased;
            _ = delete => {}
            () = write => unreachable!("it goes on"),
        }
    };
    ended("deleting", Box::pin(deleted_first)).await;
    let left = drain(&fixture, &c, key_scope(r#"["k3"]"#), None).await;
    assert!(left.iter().all(|id| id == "!"), "{left:?}");
}

#[tokio::test]
async fn who_waits_for_a_change_is_told_that_the_server_stops() {
    let fixture = Fixture::new().await;
    let c = fixture.container(400).await;
    let (account, ctx) = (&fixture.account, fixture.ctx());
    let wait = Duration::from_secs(60);
    let request = ChangeFeedRequest { start: FeedStart::Now, wait, ..ChangeFeedRequest::default() };
    let waiting = account.items().change_feed(&ctx, &c, &request);
    let stop = async {
        tokio::task::yield_now().await;
        account.items().stop_waiting();
    };
    // The control is never notified; it began to wait before them.
    let control = Fixture::new().await;
    let c_of_control = control.container(400).await;
    let control_ctx = control.ctx();
    let untold = Box::pin(control.account.items().change_feed(&control_ctx, &c_of_control, &request));
    let told = async {
        let told = tokio::join!(waiting, stop).0;
        assert_eq!(told.expect("a page").count, 0);
        // No request waits any more.
        let later = account.items().change_feed(&ctx, &c, &request).await;
        assert_eq!(later.expect("a page").count, 0);
    };
    let first = futures::future::select(untold, Box::pin(told)).await;
    assert!(matches!(first, futures::future::Either::Right(_)), "they waited to the end");
}
