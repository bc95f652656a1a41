//! Scripts concurrent with scripts and plain writes, through splits, merges and power cuts: one
//! order explains the reads of all of them, and no script's writes are partial.

use crate::support::json_door::{JsonDoor, KeyInput, Patch};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use crate::support::{Fixture, json, memory_shards, none};
use serde_json::Value;
use shardlake_account::{FeedScope, PatchOperation, Shards, SplitAt, verify};
use shardlake_model::{ContainerDefinition, ErrorKind, PartitionKeyDefinition, UniqueKey};
use shardlake_stdx::{Guid, Random};
use shardlake_storage::fault::FaultEngine;
use shardlake_storage::{Durability, Shard, ShardOptions};
use shardlake_testkit::expects_log;
use shardlake_testkit::history::{Action, Answer, Guard, Recorder, Reply, SeenItem, check};

const KEYS: [&str; 3] = ["a", "b", "c"];
const ACCOUNTS: u64 = 3;

/// Moves an amount from one account to another, or throws when everything is written already.
const TRANSFER: &str = "
    const seen = [];
    const move = (id, by, then) => c.readDocument(alt + '/docs/' + id, (err, doc) => {
        must(err);
        doc.v += by;
        c.replaceDocument(doc._self, doc, {etag: doc._etag}, (err, next) => { must(err); seen.push([next.v, next._etag]); then(); });
    });
    move(from, -amount, () => move(to, amount, () => { if (fails) throw new Error('on purpose'); done(seen); }));";
/// All accounts at one point in time, in two looks that must be the same.
const AUDIT: &str = "
    const look = then => c.queryDocuments(self, 'SELECT r.id, r.v, r._etag FROM r WHERE IS_NUMBER(r.v)', (err, rows) => then(must(err, rows)));
    look(first => look(second => {
        if (JSON.stringify(first) !== JSON.stringify(second)) throw new Error('it changed');
        done(first);
    }));";
const APPEND: &str = "
    c.readDocument(alt + '/docs/list', (err, doc) => {
        if (err && err.number !== 404) throw new Error(err.body);
        const list = err ? {id: 'list', pk, all: []} : doc;
        list.all.push(value);
        c.upsertDocument(self, list, (err, next) => done(must(err, next).all));
    });";

fn parsed(body: Option<String>) -> Value {
    serde_json::from_str(&body.expect("a body was set")).expect("JSON")
}

fn etag(value: &Value) -> Guid {
    Guid::parse(value.as_str().expect("text").trim_matches('"')).expect("an etag")
}

struct World {
    fixture: Fixture,
    recorder: Recorder,
    /// The list that each append returned, by logical partition.
    lists: Mutex<BTreeMap<&'static str, Vec<Vec<u64>>>>,
}

impl World {
    async fn new(shards: &Shards) -> World {
        let fixture = Fixture::over(shards).await;
        let container = fixture.container(400).await;
        fixture.procedure(&container, "transfer", "from, to, amount, fails", TRANSFER).await;
        fixture.procedure(&container, "audit", "", AUDIT).await;
        fixture.procedure(&container, "append", "pk, value", APPEND).await;
        let world = World { fixture, recorder: Recorder::default(), lists: Mutex::default() };
        for pk in KEYS {
            for number in 0..ACCOUNTS {
                let id = format!("{number}");
                let asked = world.recorder.asks(0, pk, vec![(id.clone(), Action::Create { value: 100 })]);
                let body = format!(r#"{{"id":"{id}","pk":"{pk}","v":100}}"#);
                let ctx = world.fixture.ctx();
                let made = world.fixture.account.create_item(&ctx, &container, None, body.as_bytes()).await;
                let etag = made.expect("created").item.expect("there").etag();
                asked.answered(Reply::Done(vec![Answer::Created { etag }]));
            }
        }
        world
    }

    async fn act(&self, client: u32, random: &Random, number: u64) {
        let pk = KEYS[random.below(KEYS.len() as u64) as usize];
        match random.below(6) {
            0 | 1 => self.transfer(client, pk, random).await,
            2 => self.audit(client, pk).await,
            3 | 4 => self.append(pk, u64::from(client) * 1000 + number).await,
            _ => self.increment(client, pk, random.below(ACCOUNTS), 1).await,
        }
    }

    async fn transfer(&self, client: u32, pk: &'static str, random: &Random) {
        let from = random.below(ACCOUNTS);
        let to = (from + 1 + random.below(ACCOUNTS - 1)) % ACCOUNTS;
        let (amount, fails) = (1 + random.below(9) as i64, random.below(4) == 0);
        let by = |id: u64, by: i64| (id.to_string(), Action::Increment { by, guard: Guard::None });
        let asked = self.recorder.asks(client, pk, vec![by(from, -amount), by(to, amount)]);
        let run = self.fixture.run("transfer", pk, &format!(r#"["{from}","{to}",{amount},{fails}]"#)).await;
        match run {
            Ok(reply) => {
                assert!(!fails);
                let seen = parsed(reply.body);
                let answer = |at: usize| Answer::Incremented {
                    value: seen[at][0].as_i64().expect("a number"),
                    etag: etag(&seen[at][1]),
                };
                asked.answered(Reply::Done(vec![answer(0), answer(1)]));
            }
            Err(error) => {
                assert!(fails && error.kind() == ErrorKind::BadRequest, "{error:?}");
                asked.answered(Reply::Refused);
            }
        }
    }

    async fn audit(&self, client: u32, pk: &'static str) {
        let asked = self.recorder.asks(client, pk, vec![]);
        let rows = parsed(self.fixture.run("audit", pk, "[]").await.expect("reads").body);
        let seen = |row: &Value| SeenItem {
            id: row["id"].as_str().expect("text").to_owned(),
            value: row["v"].as_i64().expect("a number"),
            etag: etag(&row["_etag"]),
        };
        asked.answered(Reply::Snapshot(rows.as_array().expect("rows").iter().map(seen).collect()));
    }

    async fn append(&self, pk: &'static str, value: u64) {
        let reply = self.fixture.run("append", pk, &format!(r#"["{pk}",{value}]"#)).await.expect("appends");
        let list: Vec<u64> = serde_json::from_value(parsed(reply.body)).expect("numbers");
        assert_eq!(list.last(), Some(&value));
        self.lists.lock().expect("no holder panics").entry(pk).or_default().push(list);
    }

    /// A plain write of one item.
    async fn increment(&self, client: u32, pk: &'static str, id: u64, by: i64) {
        let id = id.to_string();
        let action = Action::Increment { by, guard: Guard::None };
        let asked = self.recorder.asks(client, pk, vec![(id.clone(), action)]);
        let operations = vec![PatchOperation::Increment {
            path: vec!["v".to_owned()],
            by: shardlake_account::Number::Int(by),
        }];
        let patch = Patch { operations, condition: None };
        let key = format!("[\"{pk}\"]");
        let key = Some(KeyInput(&key));
        let container = self.fixture.account.router().container("db", "c").expect("there");
        let ctx = self.fixture.ctx();
        let reply = self.fixture.account.patch_item(&ctx, &container, key, &id, patch, &none()).await;
        let item = reply.expect("patched").item.expect("there");
        let value = json(&item)["v"].as_i64().expect("a number");
        asked.answered(Reply::Done(vec![Answer::Incremented { value, etag: item.etag() }]));
    }

    /// Each list that an append returned is a prefix of the last one, and there is one of each length.
    fn check_lists(&self) {
        for (pk, mut lists) in self.lists.lock().expect("no holder panics").clone() {
            lists.sort_by_key(Vec::len);
            let last = lists.last().expect("appended").clone();
            for (at, list) in lists.iter().enumerate() {
                assert_eq!(list[..], last[..=at], "{pk}: no order explains what the appends were told");
            }
        }
    }
}

async fn many_at_once(shards: &Shards, clients: u32, steps: u64, moves: bool) {
    let world = Arc::new(World::new(shards).await);
    let tasks: Vec<_> = (1..=clients)
        .map(|client| {
            let world = world.clone();
            tokio::spawn(async move {
                let random = Random::seeded(u64::from(client));
                for number in 0..steps {
                    world.act(client, &random, number).await;
                }
            })
        })
        .collect();
    if moves {
        let account = &world.fixture.account;
        let current = || account.router().container("db", "c").expect("there");
        for _ in 0..3 {
            let first = current().partition_key_ranges()[0].id;
            let split =
                account.maintenance().split(&current(), first, SplitAt::Middle).await.expect("begins");
            split.finished().await.expect("ends");
            let ids: Vec<u32> = current().partition_key_ranges().iter().map(|range| range.id).collect();
            account
                .maintenance()
                .merge(&current(), &ids)
                .await
                .expect("begins")
                .finished()
                .await
                .expect("ends");
        }
    }
    for task in tasks {
        task.await.expect("no client panics");
    }
    let verdict = check(&world.recorder.calls());
    assert!(verdict.is_possible(), "{verdict:?}");
    world.check_lists();
    let report = verify(shards).await.expect("readable");
    assert_eq!(report.problem_count(), 0, "{report:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn scripts_and_writes_of_one_logical_partition_have_an_order() {
    many_at_once(&memory_shards(1).await, 6, 60, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn splits_and_merges_lose_and_double_nothing_of_scripts() {
    many_at_once(&memory_shards(2).await, 5, 120, true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_scripts_do_is_the_same_on_disk() {
    let directory = tempfile::tempdir().expect("a directory");
    let options = ShardOptions { durability: Durability::Sync, ..ShardOptions::local(directory.path()) };
    let shards: Shards = vec![Shard::open(options).await.expect("opens")].into();
    many_at_once(&shards, 4, 30, false).await;
    shards.close().await.expect("closes");
}

/// Two items that are always written together, and a number that only they count.
const TWINS: &str = "
    for (const id of ['left', 'right'])
        c.upsertDocument(self, {id: pk + id, pk, v: step, u: id + step}, must);
    last(() => done(step));";

async fn crash_once(seed: u64) {
    let random = Random::seeded(seed);
    let engine = Arc::new(FaultEngine::new());
    let options = ShardOptions { durability: Durability::Sync, ..ShardOptions::memory() };
    let over = |engine: Arc<FaultEngine>| Shard::with_engine(engine, &options).expect("opens");
    let fixture = Arc::new(Fixture::over(vec![over(engine.clone())]).await);
    let mut definition = ContainerDefinition::new("c", PartitionKeyDefinition::hash("/pk"));
    definition.unique_key_policy.unique_keys = vec![UniqueKey { paths: vec!["/u".into()] }];
    let container = fixture.container_with(definition, 400).await;
    fixture.procedure(&container, "twins", "pk, step", TWINS).await;
    expects_log("(injected)");
    match seed % 2 {
        0 => engine.fail_sync(1 + random.below(30)),
        _ => engine.fail_apply(1 + random.below(30)),
    }
    let acknowledged = Arc::new(Mutex::new(BTreeMap::<String, u64>::new()));
    let tasks: Vec<_> = (0..4)
        .map(|client| {
            let (fixture, acknowledged) = (fixture.clone(), acknowledged.clone());
            tokio::spawn(async move {
                // Two clients to a logical partition.
                let pk = format!("k{}", client % 2);
                for step in 1..20u64 {
                    let step = step * 4 + client;
                    match fixture.run("twins", &pk, &format!(r#"["{pk}",{step}]"#)).await {
                        Ok(_) => {
                            acknowledged.lock().expect("no holder panics").insert(pk.clone(), step);
                        }
                        Err(error) => {
                            assert_eq!(error.kind(), ErrorKind::Unavailable, "seed {seed}: {error:?}");
                            return;
                        }
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("no client panics");
    }
    let shards: Shards = vec![over(Arc::new(engine.crash(random.below(3) as usize)))].into();
    let report = verify(&shards).await.expect("readable");
    assert_eq!(report.problem_count(), 0, "seed {seed}: {report:?}");
    let fixture = Fixture::over(shards).await;
    let container = fixture.account.router().container("db", "c").expect("there");
    let ctx = fixture.ctx();
    let feed = fixture
        .account
        .items()
        .read_feed(&ctx, &container, FeedScope::All, Some(-1), None)
        .await
        .expect("a page");
    let stored: BTreeMap<String, u64> = feed
        .items
        .iter()
        .map(json)
        .map(|item| (item["id"].as_str().expect("text").to_owned(), item["v"].as_u64().expect("a number")))
        .collect();
    for pk in ["k0", "k1"] {
        let twin = |side: &str| stored.get(&format!("{pk}{side}"));
        assert_eq!(twin("left"), twin("right"), "seed {seed}: half a transaction in {pk}");
        let acknowledged = acknowledged.lock().expect("no holder panics").contains_key(pk);
        assert!(!acknowledged || twin("left").is_some(), "seed {seed}: an acknowledged transaction is gone");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_power_cut_leaves_whole_transactions() {
    for seed in 0..16 {
        crash_once(seed).await;
    }
}
