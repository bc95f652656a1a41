//! The index against the items: with all kinds of writes and policies, through changes of the policy and crashes.

use crate::support::json_door::{BatchKind, BatchOperation, JsonDoor, KeyInput, Patch};
use std::sync::Arc;
use std::time::Duration;

use crate::support::{Fixture, eventually, none, some_time};
use proptest::prelude::*;
use shardlake_account::{AccountOptions, verify};
use shardlake_document::{PatchOperation, Value, parse_path};
use shardlake_model::{
    ComputedProperty, ContainerDefinition, ErrorKind, ExcludedPath, IndexingMode, IndexingPolicy, Limits,
    PartitionKeyDefinition, Preconditions,
};
use shardlake_stdx::Random;
use shardlake_storage::fault::FaultEngine;
use shardlake_storage::{Batch, Durability, ScanOptions, Shard, ShardOptions};
use shardlake_testkit::expects_log;

const POLICIES: [&str; 6] = [
    "{}",
    r#"{"indexingMode":"none","automatic":false}"#,
    r#"{"includedPaths":[{"path":"/a/?"},{"path":"/o/*"},{"path":"/t/[]/n/?"}],"excludedPaths":[{"path":"/*"}]}"#,
    r#"{"includedPaths":[{"path":"/*"},{"path":"/o/p/?"}],"excludedPaths":[{"path":"/o/*"},{"path":"/t/[]/?"}],
        "compositeIndexes":[[{"path":"/a"},{"path":"/b","order":"descending"}],[{"path":"/_ts"},{"path":"/o/p"}]]}"#,
    r#"{"includedPaths":[{"path":"/*"},{"path":"/c/?"},{"path":"/missing/x/?"}],
        "compositeIndexes":[[{"path":"/c","order":"descending"},{"path":"/id"}]]}"#,
    r#"{"includedPaths":[{"path":"/t/[0]/?"}],"excludedPaths":[{"path":"/*"}]}"#,
];

fn definition(policy: usize) -> ContainerDefinition {
    let mut definition = ContainerDefinition::new("c", PartitionKeyDefinition::hash("/pk"));
    definition.indexing_policy = serde_json::from_str::<IndexingPolicy>(POLICIES[policy]).expect("a policy");
    // A time to live and the mode `none` exclude each other.
    let has_index = definition.indexing_policy.indexing_mode != IndexingMode::None;
    definition.default_ttl = has_index.then_some(-1);
    if policy == 4 {
        let query = "SELECT VALUE LOWER(c.b) FROM c".to_owned();
        definition.computed_properties = Some(vec![ComputedProperty { name: "c".into(), query }]);
    }
    definition
}

/// The index has summaries of the arrays of items with more than `exact_max` values.
async fn summarising(shard: &Shard, exact_max: usize) -> Fixture {
    let limits = Limits { index_terms_exact_max: exact_max, ..Limits::default() };
    Fixture::over_with(shard, AccountOptions { limits, ..AccountOptions::default() }).await
}

async fn memory() -> Shard {
    Shard::open(ShardOptions::memory()).await.expect("opens")
}

/// Postings of all generations in all partitions.
async fn stored_postings(shard: &Shard) -> u64 {
    let mut scan = shard.snapshot().scan(vec![0, 0, 0, 1]..vec![0xFF; 8], ScanOptions::default());
    let mut postings = 0;
    while let Some(rows) = scan.next_chunk().await.expect("readable") {
        postings += rows.iter().filter(|(key, _)| key[4] == b'X').count() as u64;
    }
    postings
}

/// Waits until the index follows the policy and nothing of another generation is left, then checks it.
async fn settle(fixture: &Fixture, shard: &Shard) -> u64 {
    let mut postings = 0;
    eventually("the index is built and the old one dropped", async || {
        if fixture.account.router().container("db", "c").expect("there").index_progress() < 100 {
            return false;
        }
        let report = verify(shard).await.expect("readable");
        postings = report.partitions.iter().map(|partition| partition.report.postings).sum();
        assert_eq!(report.problem_count(), 0, "{report:#?}");
        postings == stored_postings(shard).await
    })
    .await;
    postings
}

#[derive(Debug, Clone)]
enum Command {
    Upsert(u8, u8, String),
    Expiring(u8, u8, String),
    Rename(u8, u8, u8, String),
    Set(u8, u8, String, i64),
    Delete(u8, u8),
    DeleteKey(u8),
    Batch(u8, Vec<(u8, Option<String>)>),
    Later,
    Purge,
    Count(u8),
    Policy(usize),
}

fn members() -> impl Strategy<Value = String> {
    let scalar = prop_oneof![
        Just("null".to_owned()),
        any::<bool>().prop_map(|value| value.to_string()),
        (-3i64..3).prop_map(|value| value.to_string()),
        (-3i64..3).prop_map(|value| format!("{value}.5")),
        Just("9007199254740993".to_owned()),
        "[a-cA-C]{0,3}".prop_map(|text| format!("\"{text}\"")),
        "[a-b]{118,122}".prop_map(|text| format!("\"{text}\"")),
    ];
    let value = scalar.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(|list| format!("[{}]", list.join(","))),
            prop::collection::btree_map(prop_oneof![Just("p"), Just("n"), Just("x")], inner, 0..3)
                .prop_map(|map| format!("{{{}}}", joined(map))),
        ]
    });
    let name = prop_oneof![Just("a"), Just("b"), Just("c"), Just("o"), Just("t"), Just("_etag")];
    prop::collection::btree_map(name, value, 0..5).prop_map(joined)
}

fn joined(map: std::collections::BTreeMap<&'static str, String>) -> String {
    let members: Vec<String> = map.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
    members.join(",")
}

fn command() -> impl Strategy<Value = Command> {
    let (pk, id) = (0u8..2, 0u8..4);
    prop_oneof![
        4 => (pk.clone(), id.clone(), members()).prop_map(|(pk, id, body)| Command::Upsert(pk, id, body)),
        2 => (pk.clone(), id.clone(), members()).prop_map(|(pk, id, body)| Command::Expiring(pk, id, body)),
        2 => (pk.clone(), id.clone(), id.clone(), members())
            .prop_map(|(pk, id, new, body)| Command::Rename(pk, id, new, body)),
        1 => (pk.clone(), id.clone(), "[abot]", -3i64..3)
            .prop_map(|(pk, id, name, value)| Command::Set(pk, id, name, value)),
        1 => (pk.clone(), id.clone()).prop_map(|(pk, id)| Command::Delete(pk, id)),
        1 => pk.clone().prop_map(Command::DeleteKey),
        3 => (pk, prop::collection::vec((id, prop::option::of(members())), 1..6))
            .prop_map(|(pk, list)| Command::Batch(pk, list)),
        1 => Just(Command::Later),
        1 => Just(Command::Purge),
        1 => (0u8..4).prop_map(Command::Count),
        1 => (0usize..POLICIES.len()).prop_map(Command::Policy),
    ]
}

fn body(pk: u8, id: u8, members: &str, more: &str) -> Vec<u8> {
    let comma = if members.is_empty() { "" } else { "," };
    format!(r#"{{"id":"{id}","pk":"k{pk}"{more}{comma}{members}}}"#).into_bytes()
}

async fn run(fixture: &Fixture, command: &Command) {
    let (account, ctx) = (&fixture.account, fixture.ctx());
    let container = account.router().container("db", "c").expect("there");
    let key = |pk: u8| format!(r#"["k{pk}"]"#);
    let result = match command {
        Command::Upsert(pk, id, members) => {
            account.upsert_item(&ctx, &container, None, &body(*pk, *id, members, ""), &none()).await.map(drop)
        }
        Command::Expiring(pk, id, members) => {
            let body = body(*pk, *id, members, r#","ttl":10"#);
            account.upsert_item(&ctx, &container, None, &body, &none()).await.map(drop)
        }
        Command::Rename(pk, id, new, members) => {
            let body = body(*pk, *new, members, "");
            account.replace_item(&ctx, &container, None, &id.to_string(), &body, &none()).await.map(drop)
        }
        Command::Set(pk, id, name, value) => {
            let path = parse_path(&format!("/{name}")).expect("a path");
            let operations = vec![PatchOperation::Set { path, value: Value::Int(*value) }];
            let patch = Patch { operations, condition: None };
            let key = key(*pk);
            account
                .patch_item(&ctx, &container, Some(KeyInput(&key)), &id.to_string(), patch, &none())
                .await
                .map(drop)
        }
        Command::Delete(pk, id) => {
            let key = key(*pk);
            account
                .delete_item(&ctx, &container, Some(KeyInput(&key)), &id.to_string(), &none())
                .await
                .map(drop)
        }
        Command::DeleteKey(pk) => {
            account.json_key_delete(&ctx, &container, KeyInput(&key(*pk))).await.map(drop)
        }
        Command::Batch(pk, list) => {
            let operation = |(id, members): &(u8, Option<String>)| BatchOperation {
                kind: if members.is_some() { BatchKind::Upsert } else { BatchKind::Delete },
                id: Some(id.to_string()),
                body: members.as_ref().map(|members| body(*pk, *id, members, "")),
                patch: None,
                partition_key: None,
                preconditions: Preconditions::default(),
            };
            let operations = list.iter().map(operation).collect();
            account.json_batch(&ctx, &container, KeyInput(&key(*pk)), operations).await.map(drop)
        }
        Command::Later => {
            fixture.clock.advance(Duration::from_secs(7));
            Ok(())
        }
        Command::Purge => account.maintenance().purge_expired(&container).await.map(drop),
        Command::Count(path) => {
            let name = ["a", "o", "c", "missing"][usize::from(*path)];
            container.count_path(&[name]).await
        }
        Command::Policy(policy) => account
            .definitions()
            .replace_container(&ctx, "db", "c", definition(*policy), &none())
            .await
            .map(drop),
    };
    if let Err(error) = result {
        let is_expected = matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Conflict);
        assert!(is_expected, "{command:?}: {error:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn the_index_says_what_the_items_say(
        policy in 0usize..POLICIES.len(),
        exact_max in prop::sample::select(vec![5usize, 8192]),
        commands in prop::collection::vec(command(), 1..60),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let shard = memory().await;
            let fixture = summarising(&shard, exact_max).await;
            fixture.container_with(definition(policy), 400).await;
            for command in &commands {
                run(&fixture, command).await;
            }
            settle(&fixture, &shard).await;
        });
    }
}

fn shard_over(engine: Arc<FaultEngine>) -> Shard {
    let options = ShardOptions { durability: Durability::Sync, ..ShardOptions::memory() };
    Shard::with_engine(engine, &options).expect("opens")
}

async fn write_at_random(fixture: Arc<Fixture>, seed: u64) {
    let random = Random::seeded(seed);
    for step in 0..150 {
        let container = fixture.account.router().container("db", "c").expect("there");
        let ctx = fixture.ctx();
        let id = random.below(200);
        let result = if random.below(5) == 0 {
            let key = KeyInput(r#"["a"]"#);
            fixture.account.delete_item(&ctx, &container, Some(key), &id.to_string(), &none()).await.map(drop)
        } else {
            let members = format!(r#""a":{step},"b":"{id}","o":{{"p":[{step},{seed}]}},"t":[{{"n":{id}}}]"#);
            let body = format!(r#"{{"id":"{id}","pk":"a",{members}}}"#);
            fixture.account.upsert_item(&ctx, &container, None, body.as_bytes(), &none()).await.map(drop)
        };
        match result.map_err(|error| error.kind()) {
            Err(ErrorKind::Unavailable) => return,
            result => assert!(matches!(result, Ok(()) | Err(ErrorKind::NotFound)), "{result:?}"),
        }
    }
}

async fn fill(fixture: &Fixture, items: u64) {
    let container = fixture.account.router().container("db", "c").expect("there");
    for id in 0..items {
        let body =
            format!(r#"{{"id":"{id}","pk":"a","a":{id},"b":"B{id}","o":{{"p":1}},"t":[{{"n":1}},2]}}"#);
        let ctx = fixture.ctx();
        fixture.account.create_item(&ctx, &container, None, body.as_bytes()).await.expect("created");
    }
}

/// Policies change while items are written; at a random time the power may fail.
async fn transform_once(seed: u64) {
    let engine = Arc::new(FaultEngine::new());
    let shard = shard_over(engine.clone());
    let fixture = Arc::new(summarising(&shard, if seed.is_multiple_of(2) { 4 } else { 8192 }).await);
    let container = fixture.container_with(definition(seed as usize % POLICIES.len()), 400).await;
    fill(&fixture, 400).await;
    container.count_path(&["a"]).await.expect("counted");
    let random = Random::seeded(seed);
    if !seed.is_multiple_of(3) {
        expects_log("(injected)");
        engine.fail_sync(1 + random.below(200));
    }
    let writers: Vec<_> =
        (0..4).map(|writer| tokio::spawn(write_at_random(fixture.clone(), seed * 10 + writer))).collect();
    for _ in 0..random.below(4) + 1 {
        some_time(&random, 15).await;
        let new = definition(random.below(POLICIES.len() as u64) as usize);
        match fixture.account.definitions().replace_container(&fixture.ctx(), "db", "c", new, &none()).await {
            Ok(container) => {
                let counted = container.count_path(&["a"]).await.map_err(|error| error.kind());
                assert!(matches!(counted, Ok(()) | Err(ErrorKind::Unavailable)), "seed {seed}: {counted:?}");
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "seed {seed}: {error:?}"),
        }
    }
    for writer in writers {
        writer.await.expect("no writer panics");
    }
    if seed.is_multiple_of(3) {
        settle(&fixture, &shard).await;
        return;
    }
    let shard = shard_over(Arc::new(engine.crash(random.below(3) as usize)));
    let report = verify(&shard).await.expect("readable");
    assert_eq!(report.problem_count(), 0, "seed {seed}: {report:#?}");
    let fixture = Fixture::over(shard.clone()).await;
    settle(&fixture, &shard).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn policies_change_under_writes_and_through_crashes() {
    for seed in 0..18 {
        transform_once(seed).await;
    }
}

#[tokio::test]
async fn progress_is_below_100_until_the_new_policy_serves() {
    let shard = memory().await;
    let fixture = Fixture::over(shard.clone()).await;
    let container = fixture.container_with(definition(0), 400).await;
    assert_eq!(container.index_progress(), 100);
    fill(&fixture, 500).await;
    let before = settle(&fixture, &shard).await;
    let changed = fixture
        .account
        .definitions()
        .replace_container(&fixture.ctx(), "db", "c", definition(2), &none())
        .await;
    let mut last = changed.expect("replaced").index_progress();
    assert!(last < 100);
    // Other changes of the definition do not set the build back.
    let mut definition = definition(2);
    definition.default_ttl = None;
    fixture
        .account
        .definitions()
        .replace_container(&fixture.ctx(), "db", "c", definition, &none())
        .await
        .expect("replaced");
    eventually("the new policy serves", async || {
        let progress = fixture.account.router().container("db", "c").expect("there").index_progress();
        assert!(progress >= last, "{progress} after {last}");
        last = progress;
        last == 100
    })
    .await;
    assert!(settle(&fixture, &shard).await < before);
}

#[tokio::test]
async fn a_number_of_an_abandoned_generation_is_not_given_again() {
    let shard = memory().await;
    let fixture = Fixture::over(shard.clone()).await;
    fixture.container_with(definition(0), 400).await;
    fill(&fixture, 300).await;
    for policy in [3, 0, 2, 0, 4, 3, 0, 2] {
        let changed = fixture
            .account
            .definitions()
            .replace_container(&fixture.ctx(), "db", "c", definition(policy), &none())
            .await;
        changed.expect("replaced");
        tokio::task::yield_now().await;
    }
    settle(&fixture, &shard).await;
}

#[tokio::test]
async fn a_container_deleted_during_a_build_leaves_nothing() {
    let shard = memory().await;
    let fixture = Fixture::over(shard.clone()).await;
    fixture.container_with(definition(0), 400).await;
    fill(&fixture, 300).await;
    let account = &fixture.account;
    account
        .definitions()
        .replace_container(&fixture.ctx(), "db", "c", definition(3), &none())
        .await
        .expect("replaced");
    account.definitions().delete_container(&fixture.ctx(), "db", "c", &none()).await.expect("deleted");
    eventually("its postings go", async || stored_postings(&shard).await == 0).await;
    // The build ends with its account, so nothing can write any more.
    fixture.account.close().await.expect("closes");
    assert_eq!(stored_postings(&shard).await, 0);
    assert_eq!(verify(&shard).await.expect("readable").problem_count(), 0);
}

/// Rewrites the records of containers as a version without summaries would have left them.
async fn forget_maximum(shard: &Shard) {
    let mut batch = Batch::new();
    let mut scan = shard.snapshot().scan(vec![0; 4]..vec![0, 0, 0, 1], ScanOptions::default());
    while let Some(rows) = scan.next_chunk().await.expect("readable") {
        for (key, value) in rows.into_iter().filter(|(key, _)| key[4] == b'C') {
            let mut record: serde_json::Value = serde_json::from_slice(&value[4..]).expect("a record");
            let serving = record["index"]["serving"].as_object_mut().expect("it serves");
            serving.remove("exact_terms_max").expect("a maximum");
            let policy = serving.remove("summarised_policy").expect("a policy");
            serving.insert("policy".to_owned(), policy);
            let json = serde_json::to_vec(&record).expect("renders");
            batch.put(key, [&crc32fast::hash(&json).to_le_bytes()[..], &json].concat());
        }
    }
    shard.commit(batch).expect("accepted").await.expect("written");
}

#[tokio::test]
async fn an_index_of_an_earlier_version_holds_every_value_until_its_policy_changes() {
    let shard = memory().await;
    // Nothing exceeds the maximum of the first account, so all values have their postings.
    let fixture = summarising(&shard, 8192).await;
    fixture.container_with(definition(0), 400).await;
    fill(&fixture, 50).await;
    settle(&fixture, &shard).await;
    forget_maximum(&shard).await;
    drop(fixture);
    let fixture = summarising(&shard, 0).await;
    let found = async |values: usize| {
        let container = fixture.account.router().container("db", "c").expect("there");
        let text = "SELECT VALUE c.id FROM c WHERE EXISTS(SELECT VALUE t FROM t IN c.t WHERE t.n = 1)";
        assert_eq!(fixture.answer(&container, text, 1000).await.expect("a query").rows.len(), values);
    };
    let container = fixture.account.router().container("db", "c").expect("there");
    let before = settle(&fixture, &shard).await;
    let body = br#"{"id":"more","pk":"a","t":[{"n":1},2,3,4,5,6,7,8]}"#;
    fixture.account.create_item(&fixture.ctx(), &container, None, body).await.expect("created");
    found(51).await;
    assert!(settle(&fixture, &shard).await > before + 8, "each value has its posting");
    let all = settle(&fixture, &shard).await;
    let mut policy = definition(0);
    policy.indexing_policy.excluded_paths.push(ExcludedPath { path: "/unused/*".to_owned() });
    let changed =
        fixture.account.definitions().replace_container(&fixture.ctx(), "db", "c", policy, &none()).await;
    changed.expect("replaced");
    assert!(settle(&fixture, &shard).await < all, "arrays have summaries");
    found(51).await;
}

/// Rewrites a shard as a version without an index would have left it.
async fn forget_indexes(shard: &Shard) {
    let mut batch = Batch::new();
    let mut scan = shard.snapshot().scan(vec![0]..vec![0xFF; 8], ScanOptions::default());
    while let Some(rows) = scan.next_chunk().await.expect("readable") {
        for (key, value) in rows {
            match (&key[..4], key[4]) {
                ([0, 0, 0, 0], b'C') => {
                    let mut record: serde_json::Value =
                        serde_json::from_slice(&value[4..]).expect("a record");
                    record.as_object_mut().expect("an object").remove("index").expect("there");
                    let json = serde_json::to_vec(&record).expect("renders");
                    batch.put(key, [&crc32fast::hash(&json).to_le_bytes()[..], &json].concat());
                }
                ([0, 0, 0, 0], _) => {}
                (_, b'X' | b'C' | b'M') => batch.delete(key),
                _ => {}
            }
        }
    }
    shard.commit(batch).expect("accepted").await.expect("written");
}

#[tokio::test]
async fn items_from_before_there_was_an_index_are_indexed() {
    for policy in [0, 1, 3] {
        let shard = memory().await;
        let fixture = Fixture::over(shard.clone()).await;
        fixture.container_with(definition(policy), 12_000).await;
        fill(&fixture, 150).await;
        settle(&fixture, &shard).await;
        forget_indexes(&shard).await;
        assert_eq!(verify(&shard).await.expect("readable").problem_count(), 0);
        let reopened = Fixture::over(shard.clone()).await;
        fill_more(&reopened).await;
        let after = settle(&reopened, &shard).await;
        assert_eq!(after == 0, policy == 1, "{after} postings");
        // A stop between any two steps changes nothing: the next start learns from the record that all is done.
        let again = Fixture::over(shard.clone()).await;
        assert_eq!(again.account.router().container("db", "c").expect("there").index_progress(), 100);
        assert_eq!(settle(&again, &shard).await, after);
    }
}

async fn fill_more(fixture: &Fixture) {
    let container = fixture.account.router().container("db", "c").expect("there");
    for id in 140..160 {
        let body = format!(r#"{{"id":"{id}","pk":"a","b":[{id}]}}"#);
        let ctx = fixture.ctx();
        fixture.account.upsert_item(&ctx, &container, None, body.as_bytes(), &none()).await.expect("written");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn items_with_as_many_values_as_the_index_holds_exactly_are_indexed_whole() {
    let shard = memory().await;
    let fixture = Fixture::over(shard.clone()).await;
    let container = fixture.container_with(definition(0), 400).await;
    // Besides them there are the list, the id and the key.
    let most = Limits::default().index_terms_exact_max - 3;
    let numbers: Vec<String> = (0..most).map(|number| number.to_string()).collect();
    for kept in [most, most - 1, 3] {
        let body = format!(r#"{{"id":"1","pk":"a","list":[{}]}}"#, numbers[..kept].join(","));
        let ctx = fixture.ctx();
        fixture.account.upsert_item(&ctx, &container, None, body.as_bytes(), &none()).await.expect("written");
        // The elements, and id, pk, list and _ts.
        assert_eq!(settle(&fixture, &shard).await, kept as u64 + 4);
    }
    // Deleting many requires as many commits as their index entries need.
    for id in 0..8 {
        let body = format!(r#"{{"id":"{id}","pk":"a","list":[{}]}}"#, numbers[..8_000].join(","));
        let ctx = fixture.ctx();
        fixture.account.upsert_item(&ctx, &container, None, body.as_bytes(), &none()).await.expect("written");
    }
    let key = KeyInput(r#"["a"]"#);
    fixture.account.json_key_delete(&fixture.ctx(), &container, key).await.expect("deleted");
    assert_eq!(settle(&fixture, &shard).await, 0);
}
