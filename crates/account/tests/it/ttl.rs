//! Time to live: which items expire when, their invisibility from then on, and their removal in the background.

use crate::support::json_door::{BatchKind, BatchOperation, JsonDoor, KeyInput, Patch, key_scope};
use std::sync::Arc;
use std::time::Duration;

use crate::support::{Fixture, eventually, json, none};
use shardlake_account::{
    AccountOptions, CapacityMode, ChangeKind, ContainerHandle, FeedScope, KeyRange, Purging, SplitAt, Value,
    verify,
};
use shardlake_model::{
    ContainerDefinition, ErrorKind, PartitionKeyDefinition, Preconditions, Priority, RequestContext,
    Throughput, UniqueKey,
};
use shardlake_storage::{Shard, ShardOptions};

const A: Option<KeyInput<'static>> = Some(KeyInput(r#"["a"]"#));

fn definition(default_ttl: Option<i64>) -> ContainerDefinition {
    let mut definition = ContainerDefinition::new("c", PartitionKeyDefinition::hash("/pk"));
    definition.default_ttl = default_ttl;
    definition.unique_key_policy.unique_keys = vec![UniqueKey { paths: vec!["/email".into()] }];
    definition
}

async fn with_ttl(default_ttl: Option<i64>) -> (Fixture, ContainerHandle) {
    let options = AccountOptions { purging: Purging::WhenAsked, ..AccountOptions::default() };
    let fixture = Fixture::with_options(options).await;
    let container = fixture.container_with(definition(default_ttl), 400).await;
    (fixture, container)
}

async fn create(fixture: &Fixture, c: &ContainerHandle, body: &str) -> shardlake_model::Result<()> {
    fixture.account.create_item(&fixture.ctx(), c, None, body.as_bytes()).await.map(drop)
}

async fn is_there(fixture: &Fixture, c: &ContainerHandle, id: &str) -> bool {
    match fixture.account.read_item(&fixture.ctx(), c, A, id, &none()).await {
        Ok(_) => true,
        Err(error) if error.kind() == ErrorKind::NotFound => false,
        Err(error) => panic!("{error:?}"),
    }
}

/// The first row of a query, as JSON.
async fn first(fixture: &Fixture, c: &ContainerHandle, text: &str) -> Value {
    fixture.answer(c, text, 100).await.expect("a query").rows.remove(0)
}

async fn count(fixture: &Fixture, c: &ContainerHandle, text: &str) -> usize {
    fixture.answer(c, text, 100).await.expect("a query").rows.len()
}

#[tokio::test]
async fn what_runs_out_when_is_as_the_table_of_combinations_says() {
    // An item's own time to live; whether it exists after 10 seconds if the container's is none,
    // -1, and 10 seconds.
    let there = |off: bool, on: bool, ten: bool| [off, on, ten];
    let table = [
        ("", there(true, true, false)),
        (r#","ttl":-1"#, there(true, true, true)),
        (r#","ttl":5"#, there(true, false, false)),
        (r#","ttl":10.0"#, there(true, false, false)),
        (r#","ttl":1e1"#, there(true, false, false)),
        (r#","ttl":11"#, there(true, true, true)),
        (r#","ttl":2147483647"#, there(true, true, true)),
        // Only the property of that name at the top.
        (r#","TTL":1,"deep":{"ttl":1}"#, there(true, true, false)),
    ];
    for (place, default_ttl) in [None, Some(-1), Some(10)].into_iter().enumerate() {
        let (fixture, c) = with_ttl(default_ttl).await;
        for (at, (ttl, _)) in table.iter().enumerate() {
            let body = format!(r#"{{"id":"{at}","pk":"a","email":{at}{ttl}}}"#);
            create(&fixture, &c, &body).await.expect("created");
        }
        fixture.clock.advance(Duration::from_millis(9_999));
        for (at, (ttl, _)) in table.iter().enumerate() {
            let expected = default_ttl.is_none() || *ttl != r#","ttl":5"#;
            assert_eq!(is_there(&fixture, &c, &at.to_string()).await, expected, "{default_ttl:?} {ttl}");
        }
        fixture.clock.advance(Duration::from_millis(1));
        for (at, (ttl, there)) in table.iter().enumerate() {
            assert_eq!(is_there(&fixture, &c, &at.to_string()).await, there[place], "{default_ttl:?} {ttl}");
        }
        let purged = fixture.account.maintenance().purge_expired(&c).await.expect("purged");
        let left = table.iter().filter(|(_, there)| there[place]).count();
        assert_eq!(purged as usize, table.len() - left, "{default_ttl:?}");
        assert_eq!(c.usage().items as usize, left);
    }
}

#[tokio::test]
async fn a_time_to_live_that_is_none_is_refused_however_it_is_written() {
    for default_ttl in [None, Some(-1), Some(10)] {
        let (fixture, c) = with_ttl(default_ttl).await;
        create(&fixture, &c, r#"{"id":"there","pk":"a"}"#).await.expect("created");
        for ttl in ["null", "0", "-2", "-1.5", "1.5", "2147483648", "1e300", "\"10\"", "true", "[]", "{}"] {
            let body = format!(r#"{{"id":"there","pk":"a","ttl":{ttl}}}"#);
            let (account, ctx) = (&fixture.account, fixture.ctx());
            let create = account.create_item(&ctx, &c, None, body.replace("there", "new").as_bytes()).await;
            let upsert = account.upsert_item(&ctx, &c, None, body.as_bytes(), &none()).await;
            let replace = account.replace_item(&ctx, &c, None, "there", body.as_bytes(), &none()).await;
            let limits =
                shardlake_account::ParseLimits { size_max_bytes: 100, nesting_max: 9, ..Default::default() };
            let value = Value::from_json(ttl.as_bytes(), &limits).expect("JSON");
            let set = shardlake_account::PatchOperation::Set { path: vec!["ttl".into()], value };
            let patch = Patch { operations: vec![set], condition: None };
            let patch = account.patch_item(&ctx, &c, A, "there", patch, &none()).await;
            for outcome in [create, upsert, replace, patch] {
                let error = outcome.expect_err("refused");
                assert_eq!(error.kind(), ErrorKind::BadRequest, "{ttl}: {error:?}");
            }
        }
    }
}

#[tokio::test]
async fn nobody_sees_what_has_run_out() {
    let (fixture, c) = with_ttl(Some(-1)).await;
    for (id, more) in [("1", r#","ttl":10"#), ("2", ""), ("3", r#","ttl":10"#), ("4", r#","ttl":20"#)] {
        create(&fixture, &c, &format!(r#"{{"id":"{id}","pk":"a","email":"{id}","n":{id}{more}}}"#))
            .await
            .expect("created");
    }
    fixture.clock.advance(Duration::from_secs(10));
    let account = &fixture.account;
    for purged in [false, true] {
        if purged {
            assert_eq!(account.maintenance().purge_expired(&c).await.expect("purged"), 2);
        }
        let ids = |text: &'static str| fixture.answer(&c, text, 1);
        for (text, rows) in [
            ("SELECT * FROM c", 2),
            ("SELECT c.id FROM c ORDER BY c.n", 2),
            ("SELECT c.id FROM c ORDER BY c.n DESC", 2),
            ("SELECT c.id FROM c ORDER BY c.missing", 2),
            ("SELECT c.id FROM c WHERE c.n > 0", 2),
            ("SELECT c.id FROM c WHERE c.n = 1", 0),
            ("SELECT c.id FROM c WHERE c.id = '3'", 0),
            ("SELECT c.id FROM c WHERE c.pk = 'a' AND c.n IN (1, 2, 3)", 1),
            ("SELECT DISTINCT c.n FROM c", 2),
            ("SELECT c.n, COUNT(1) AS items FROM c GROUP BY c.n", 2),
            ("SELECT c.id FROM c ORDER BY c._ts", 2),
        ] {
            assert_eq!(ids(text).await.expect("rows").rows.len(), rows, "{text}, purged {purged}");
        }
        for text in ["SELECT VALUE COUNT(1) FROM c", "SELECT VALUE COUNT(1) FROM c WHERE c.n > 0"] {
            assert_eq!(first(&fixture, &c, text).await, Value::Int(2), "{text}");
        }
        assert_eq!(first(&fixture, &c, "SELECT VALUE SUM(c.n) FROM c").await, Value::Int(6));
        assert_eq!(first(&fixture, &c, "SELECT VALUE MIN(c.n) FROM c").await, Value::Int(2));
        for scope in [FeedScope::All, key_scope(r#"["a"]"#)] {
            let page =
                account.items().read_feed(&fixture.ctx(), &c, scope, None, None).await.expect("a page");
            let ids: Vec<_> = page.items.iter().map(|item| json(item)["id"].to_string()).collect();
            assert_eq!(ids, ["\"2\"", "\"4\""]);
        }
        let not_found = |outcome: shardlake_model::Result<_>| {
            assert_eq!(
                outcome.map(|_: shardlake_account::ItemReply| ()).expect_err("gone").kind(),
                ErrorKind::NotFound
            );
        };
        let ctx = fixture.ctx();
        let body = br#"{"id":"1","pk":"a"}"#;
        not_found(account.read_item(&ctx, &c, A, "1", &none()).await);
        not_found(account.replace_item(&ctx, &c, A, "1", body, &none()).await);
        not_found(account.delete_item(&ctx, &c, A, "1", &none()).await);
        let set = shardlake_account::PatchOperation::Set { path: vec!["n".into()], value: Value::Int(1) };
        let patch = Patch { operations: vec![set], condition: None };
        not_found(account.patch_item(&ctx, &c, A, "1", patch, &none()).await);
        let read = BatchOperation {
            kind: BatchKind::Read,
            id: Some("1".into()),
            body: None,
            patch: None,
            partition_key: None,
            preconditions: Preconditions::default(),
        };
        let batch = account.json_batch(&ctx, &c, A.expect("a key"), vec![read]).await.expect("a reply");
        assert_eq!(batch.outcome.expect_err("gone").error.kind(), ErrorKind::NotFound);
    }
    // Ids and unique values are free, for every kind of write.
    let rename = br#"{"id":"1","pk":"a","email":"3"}"#;
    account.replace_item(&fixture.ctx(), &c, A, "2", rename, &none()).await.expect("renamed");
    assert!(is_there(&fixture, &c, "1").await && !is_there(&fixture, &c, "2").await);
}

#[tokio::test]
async fn another_default_holds_at_once_for_what_is_there() {
    let (fixture, c) = with_ttl(None).await;
    create(&fixture, &c, r#"{"id":"plain","pk":"a","email":1}"#).await.expect("created");
    create(&fixture, &c, r#"{"id":"own","pk":"a","email":2,"ttl":50}"#).await.expect("created");
    create(&fixture, &c, r#"{"id":"kept","pk":"a","email":3,"ttl":-1}"#).await.expect("created");
    fixture.clock.advance(Duration::from_secs(60));
    let account = &fixture.account;
    for (default_ttl, there) in [
        (None, ["plain", "own", "kept"].as_slice()),
        (Some(100), &["plain", "kept"]),
        (Some(60), &["kept"]),
        // Items that were not removed yet are visible again.
        (Some(61), &["plain", "kept"]),
        (Some(-1), &["plain", "kept"]),
        (None, &["plain", "own", "kept"]),
    ] {
        let (ctx, definition) = (fixture.ctx(), definition(default_ttl));
        let c = account
            .definitions()
            .replace_container(&ctx, "db", "c", definition, &none())
            .await
            .expect("replaced");
        for id in ["plain", "own", "kept"] {
            assert_eq!(is_there(&fixture, &c, id).await, there.contains(&id), "{default_ttl:?} {id}");
        }
        assert_eq!(count(&fixture, &c, "SELECT * FROM c").await, there.len(), "{default_ttl:?}");
    }
}

#[tokio::test]
async fn purging_writes_the_log_and_leaves_nothing_behind() {
    let shard = Shard::open(ShardOptions::memory()).await.expect("opens");
    let options = AccountOptions { purging: Purging::WhenAsked, ..AccountOptions::default() };
    let fixture = Fixture::over_with(&shard, options.clone()).await;
    let c = fixture.container_with(definition(Some(10)), 12_000).await;
    for n in 0..500 {
        let ttl = if n % 5 == 0 { r#","ttl":-1"# } else { "" };
        let body = format!(r#"{{"id":"{n}","pk":"k{}","email":{n},"tags":["a",{n}]{ttl}}}"#, n % 90);
        create(&fixture, &c, &body).await.expect("created");
    }
    let account = &fixture.account;
    assert_eq!(account.maintenance().purge_expired(&c).await.expect("nothing is due"), 0);
    fixture.clock.advance(Duration::from_secs(10));
    let before: Vec<_> = c.partition_key_ranges().iter().map(|range| (range.id, range.lsn)).collect();
    assert_eq!(account.maintenance().purge_expired(&c).await.expect("purged"), 400);
    assert_eq!(account.maintenance().purge_expired(&c).await.expect("nothing is left"), 0);
    assert_eq!(c.usage().items, 100);
    assert_eq!(verify(shard.clone()).await.expect("readable").problem_count(), 0);
    let mut expired = 0;
    for (range_id, lsn) in before {
        let page =
            account.items().changes(&c, range_id, &KeyRange::full(), lsn, 1000).await.expect("the log");
        for (_, entry) in &page.entries {
            assert!(entry.operations.len() <= 32, "a commit is small");
            assert!(entry.operations.iter().all(|operation| operation.kind == ChangeKind::Expire));
            expired += entry.operations.len();
        }
    }
    assert_eq!(expired, 400);
    // A start knows nothing, and finds everything.
    fixture.clock.advance(Duration::from_secs(100));
    create(&fixture, &c, r#"{"id":"late","pk":"a","ttl":1}"#).await.expect("created");
    let later = fixture.clock.now();
    drop(fixture);
    let fixture = Fixture::over_with(&shard, options).await;
    fixture.clock.advance(Duration::from_millis(later.0 - fixture.clock.now().0 + 1000));
    let c = fixture.account.router().container("db", "c").expect("there");
    assert_eq!(fixture.account.maintenance().purge_expired(&c).await.expect("purged"), 1);
    assert_eq!(verify(shard).await.expect("readable").problem_count(), 0);
}

#[tokio::test]
async fn the_background_removes_what_has_run_out_and_reads_nothing_before() {
    let fixture = Fixture::new().await;
    let c = fixture.container_with(definition(Some(10)), 400).await;
    for n in 0..300 {
        create(&fixture, &c, &format!(r#"{{"id":"{n}","pk":"k{n}"}}"#)).await.expect("created");
    }
    fixture.clock.advance(Duration::from_secs(10));
    let purged = || fixture.account.maintenance().loads(Duration::from_secs(1))[0].partitions[0].purged;
    eventually("they are removed", async || purged() == 300).await;
    eventually("they are gone for readers", async || c.usage().items == 0).await;
}

#[tokio::test]
async fn without_request_units_the_background_looks_on_and_removes_once_a_second() {
    let fixture = Fixture::new().await;
    let c = fixture.container_with(definition(Some(10)), 400).await;
    let own = |n: u32| if n < 300 { r#","ttl":-1"# } else { "" };
    for n in 0..400 {
        let body = format!(r#"{{"id":"{n}","pk":"k{n}","email":{n}{}}}"#, own(n));
        create(&fixture, &c, &body).await.expect("created");
    }
    fixture.clock.advance(Duration::from_secs(9));
    let client = RequestContext { priority: Priority::High, ..fixture.ctx() };
    let large = format!(r#"{{"id":"large","pk":"k","ttl":-1,"text":"{}"}}"#, "x".repeat(1_900_000));
    let reply = fixture.account.create_item(&client, &c, None, large.as_bytes()).await.expect("created");
    assert!(reply.meta.charge_centi > 100 * 400 * 3, "what there was, and that of two seconds more");
    fixture.clock.advance(Duration::from_secs(1));
    let purged = || fixture.account.maintenance().loads(Duration::from_secs(1))[0].partitions[0].purged;
    eventually("one removal", async || purged() == 32).await;
    fixture.clock.advance(Duration::from_secs(1));
    eventually("another a second later", async || purged() == 64).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_has_run_out_goes_through_splits_and_merges_and_is_removed_there() {
    let shard = Shard::open(ShardOptions::memory()).await.expect("opens");
    let options = AccountOptions { purging: Purging::WhenAsked, ..AccountOptions::default() };
    let fixture = Arc::new(Fixture::over_with(&shard, options).await);
    let c = fixture.container_with(definition(Some(10)), 400).await;
    for n in 0..600 {
        let ttl = if n % 6 == 0 { r#","ttl":-1"# } else { "" };
        let body = format!(r#"{{"id":"{n}","pk":"k{}","email":{n}{ttl}}}"#, n % 90);
        create(&fixture, &c, &body).await.expect("created");
    }
    fixture.clock.advance(Duration::from_secs(10));
    let current = || fixture.account.router().container("db", "c").expect("there");
    for step in 0..3 {
        let (sweeper, swept) = (fixture.clone(), current());
        // A sweep that ends together with its partition has removed a part; the partition's
        // successors do not know of it.
        let sweep = tokio::spawn(async move { sweeper.account.maintenance().purge_expired(&swept).await });
        let relocation = match step {
            0 => fixture.account.maintenance().split(&current(), 0, SplitAt::Middle).await,
            1 => fixture.account.maintenance().split(&current(), 1, SplitAt::Middle).await,
            _ => fixture.account.maintenance().merge(&current(), &[4, 2]).await,
        };
        relocation.expect("begins").finished().await.expect("ends");
        if let Err(error) = sweep.await.expect("nothing panics") {
            assert_eq!(error.kind(), ErrorKind::PartitionGone, "{error:?}");
        }
        assert_eq!(count(&fixture, &current(), "SELECT c.id FROM c").await, 100);
        for n in 0..90 {
            let body = format!(r#"{{"id":"late{step}","pk":"k{n}","email":"late{step}"}}"#);
            create(&fixture, &current(), &body).await.expect("created");
        }
        fixture.clock.advance(Duration::from_secs(10));
    }
    fixture.account.maintenance().purge_expired(&current()).await.expect("purged");
    assert_eq!(current().usage().items, 100);
    assert_eq!(verify(shard).await.expect("readable").problem_count(), 0);
}

/// How much less a partition may spend after 100 items were removed in the background.
async fn charged(capacity: CapacityMode) -> i64 {
    let fixture = Fixture::with_options(AccountOptions { capacity, ..AccountOptions::default() }).await;
    fixture.account.definitions().create_database(&fixture.ctx(), "db", None).await.expect("created");
    let throughput = (capacity == CapacityMode::Provisioned).then_some(Throughput::Manual(400));
    let c = fixture
        .account
        .definitions()
        .create_container(&fixture.ctx(), "db", definition(Some(10)), throughput)
        .await;
    let c = c.expect("created");
    let mut control = definition(None);
    control.id = "control".to_owned();
    let control =
        fixture.account.definitions().create_container(&fixture.ctx(), "db", control, throughput).await;
    create(&fixture, &control.expect("created"), r#"{"id":"1","pk":"1"}"#).await.expect("created");
    for n in 0..100 {
        create(&fixture, &c, &format!(r#"{{"id":"{n}","pk":"k{n}"}}"#)).await.expect("created");
        fixture.clock.advance(Duration::from_millis(50));
    }
    fixture.clock.advance(Duration::from_secs(100));
    let level = || fixture.account.router().throughput_of(&c).partitions[0].1.level_centi;
    let before = level();
    eventually("they are removed", async || c.usage().items == 0).await;
    // One task sweeps all containers, and charges a step before the next: when it has removed an
    // item of another container that expires only now, it has charged everything here. The clock
    // stands still, so that nothing is refilled.
    let mut control = definition(Some(1));
    control.id = "control".to_owned();
    let control = fixture
        .account
        .definitions()
        .replace_container(&fixture.ctx(), "db", "control", control, &none())
        .await;
    let control = control.expect("replaced");
    eventually("the control is swept", async || control.usage().items == 0).await;
    before - level()
}

#[tokio::test]
async fn removing_is_free_but_where_everything_is_paid_for_by_use() {
    assert_eq!(charged(CapacityMode::Provisioned).await, 0);
    let charge = charged(CapacityMode::Serverless).await;
    assert!(charge > 100 * 400, "deletes cost about 5 RU each: {charge}");
}
