//! Projections keep copies true: whatever clients write meanwhile, wherever partitions go, and whenever the power does.

use crate::support::json_door::{JsonDoor, KeyInput, Patch};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::support::{Fixture, eventually, json as json_of, none, some_time};
use serde_json::{Value, json};
use shardlake_account::{
    Account, ContainerHandle, FeedScope, PatchOperation, ProjectionPut, ProjectionReport, ProjectionRule,
    ProjectionState, SplitAt,
};
use shardlake_model::{ContainerDefinition, PartitionKeyDefinition, RequestContext, UniqueKey};
use shardlake_stdx::Random;
use shardlake_storage::fault::FaultEngine;
use shardlake_storage::{Durability, Shard, ShardOptions};
use shardlake_testkit::expects_log;

fn categories() -> Value {
    json!({
        "id": "categories",
        "source": { "database": "db", "container": "meta", "filter": { "/type": "category" } },
        "target": { "database": "db", "container": "product" },
        "match": [{ "source": "/id", "target": "/categoryId" }],
        "set": [{ "from": "/name", "to": "/categoryName" }],
    })
}

fn tags() -> Value {
    json!({
        "id": "tags",
        "source": { "database": "db", "container": "meta", "filter": { "/type": "tag" } },
        "target": { "database": "db", "container": "product" },
        "match": [{ "source": "/id", "target": "/tags/[]/id" }],
        "set": [{ "from": "/name", "to": "/tags/[]/name" }],
    })
}

fn with(mut rule: Value, member: &str, value: impl Into<Value>) -> Value {
    rule[member] = value.into();
    rule
}

async fn put(account: &Account, rule: &Value) -> shardlake_model::Result<ProjectionPut> {
    let rule: ProjectionRule = serde_json::from_value(rule.clone()).expect("well-formed");
    let context = RequestContext::internal(account.router().clock(), account.router().random().guid());
    account.projections().put_projection(&context, rule).await
}

/// The store's containers, and the actions of clients in them.
struct Store<'f> {
    fixture: &'f Fixture,
    meta: ContainerHandle,
    product: ContainerHandle,
}

impl<'f> Store<'f> {
    async fn new(fixture: &'f Fixture, throughput: u64) -> Store<'f> {
        let definition =
            |id: &str, key: &str| ContainerDefinition::new(id, PartitionKeyDefinition::hash(key));
        let meta = fixture.container_with(definition("meta", "/type"), throughput).await;
        let product = fixture.container_with(definition("product", "/categoryId"), throughput).await;
        Store { fixture, meta, product }
    }

    fn of(fixture: &'f Fixture) -> Store<'f> {
        let container = |id| fixture.account.router().container("db", id).expect("there");
        Store { fixture, meta: container("meta"), product: container("product") }
    }

    async fn upsert(&self, container: &ContainerHandle, item: Value) -> shardlake_model::Result<()> {
        let (context, json) = (self.fixture.ctx(), item.to_string());
        let account = &self.fixture.account;
        account.upsert_item(&context, container, None, json.as_bytes(), &none()).await.map(drop)
    }

    async fn name(&self, kind: &str, id: usize, name: &str) {
        let item = json!({ "id": format!("{kind}{id}"), "type": kind, "name": name });
        self.upsert(&self.meta, item).await.expect("written");
    }

    async fn product(&self, id: usize, category: usize, tags: &[usize]) {
        let tags: Vec<_> = tags.iter().map(|tag| json!({ "id": format!("tag{tag}"), "name": "?" })).collect();
        let item = json!({ "id": id.to_string(), "categoryId": format!("category{category}"), "categoryName": "?",
            "tags": tags, "price": 1.5, "stock": 7 });
        self.upsert(&self.product, item).await.expect("written");
    }

    async fn all(&self, container: &str) -> Vec<Value> {
        let container = self.fixture.account.router().container("db", container).expect("there");
        let (mut items, mut next) = (Vec::new(), None);
        loop {
            let (account, context) = (&self.fixture.account, self.fixture.ctx());
            let page = account
                .items()
                .read_feed(&context, &container, FeedScope::All, Some(-1), next.as_deref())
                .await;
            let page = page.expect("read");
            items.extend(page.items.iter().map(json_of));
            next = page.continuation;
            if next.is_none() {
                return items;
            }
        }
    }

    /// Compares every copy with its original.
    async fn wrong_copies(&self) -> Vec<String> {
        let meta = self.all("meta").await;
        let names: BTreeMap<&str, &Value> =
            meta.iter().map(|item| (item["id"].as_str().expect("an id"), &item["name"])).collect();
        let mut wrong = Vec::new();
        for product in self.all("product").await {
            let mut compare = |id: &Value, copy: &Value| {
                if names.get(id.as_str().expect("an id")).is_some_and(|name| *name != copy) {
                    wrong.push(format!("product {}: {id} is not {copy}", product["id"]));
                }
            };
            compare(&product["categoryId"], &product["categoryName"]);
            for tag in product["tags"].as_array().into_iter().flatten() {
                compare(&tag["id"], &tag["name"]);
            }
        }
        wrong
    }

    /// Waits until nothing is left to do.
    async fn settled(&self) {
        eventually("everything is projected", async || {
            let reports = self.fixture.account.projections().projections().await;
            let is_done = |report: &ProjectionReport| {
                report.state == ProjectionState::Running && report.lag.changes == 0
            };
            // Budgets live by this clock.
            self.fixture.clock.advance(Duration::from_millis(10));
            reports.iter().all(is_done)
        })
        .await;
    }
}

#[tokio::test]
async fn copies_follow_what_they_are_copies_of() {
    let fixture = Fixture::new().await;
    let store = Store::new(&fixture, 12_000).await;
    for id in 0..5 {
        store.name("category", id, &format!("Category {id}")).await;
        store.name("tag", id, &format!("Tag {id}")).await;
    }
    for id in 0..60 {
        store.product(id, id % 5, &[id % 3, id % 5]).await;
    }
    // From the beginning: existing items are corrected.
    assert_eq!(put(&fixture.account, &categories()).await.expect("created"), ProjectionPut::Created);
    put(&fixture.account, &tags()).await.expect("created");
    store.settled().await;
    assert_eq!(store.wrong_copies().await, Vec::<String>::new());
    // A change reaches every copy, and nothing else changes.
    store.name("category", 1, "Renamed").await;
    store.name("tag", 2, "Renamed, too").await;
    store.settled().await;
    assert_eq!(store.wrong_copies().await, Vec::<String>::new());
    let products = store.all("product").await;
    assert!(products.iter().all(|product| product["price"] == 1.5 && product["stock"] == 7));
    assert_eq!(products.iter().filter(|product| product["categoryName"] == "Renamed").count(), 12);
    // A new item with an outdated copy is corrected because the target is watched.
    store.product(100, 1, &[2, 2, 4]).await;
    store.settled().await;
    assert_eq!(store.wrong_copies().await, Vec::<String>::new());
    // An item without a name has no copies of it any more.
    store.upsert(&store.meta, json!({ "id": "category3", "type": "category" })).await.expect("written");
    store.settled().await;
    let products = store.all("product").await;
    let of_three: Vec<_> = products.iter().filter(|product| product["categoryId"] == "category3").collect();
    assert!(of_three.len() == 12 && of_three.iter().all(|product| product.get("categoryName").is_none()));
    let report = fixture.account.projections().projection("categories").await.expect("there");
    assert!(report.counts.applied >= 60 + 12 + 12 && report.counts.dead_letters == 0, "{report:?}");
    assert_eq!(put(&fixture.account, &categories()).await.expect("there"), ProjectionPut::Unchanged);
}

#[tokio::test]
async fn renames_meet_writes_splits_and_merges() {
    let fixture = Fixture::new().await;
    let store = Store::new(&fixture, 400).await;
    for id in 0..4 {
        store.name("category", id, "0").await;
        store.name("tag", id, "0").await;
    }
    for id in 0..40 {
        store.product(id, id % 4, &[id % 4, (id + 1) % 4]).await;
    }
    put(&fixture.account, &categories()).await.expect("created");
    put(&fixture.account, &tags()).await.expect("created");
    let renames = async {
        for round in 1..25 {
            store.name("category", round % 4, &round.to_string()).await;
            store.name("tag", (round / 2) % 4, &round.to_string()).await;
            tokio::task::yield_now().await;
        }
    };
    // Clients change values that are not copies, and whole items with outdated copies.
    let writes = async {
        for round in 0..80_usize {
            let id = round % 40;
            let (account, context) = (&fixture.account, fixture.ctx());
            let key = format!("[\"category{}\"]", id % 4);
            let path = vec!["stock".to_owned()];
            let count = PatchOperation::Increment { path, by: shardlake_account::Number::Int(1) };
            let patch = Patch { operations: vec![count], condition: None };
            let id_text = id.to_string();
            let key = Some(KeyInput(&key));
            account
                .patch_item(&context, &store.product, key, &id_text, patch, &none())
                .await
                .expect("patched");
            if round % 10 == 0 {
                store.product(1000 + round, round % 4, &[round % 4]).await;
            }
            tokio::task::yield_now().await;
        }
    };
    let motion = async {
        for container in ["meta", "product", "meta", "product"] {
            let account = &fixture.account;
            let handle = account.router().container("db", container).expect("there");
            let ids: Vec<u32> = handle.partition_key_ranges().iter().map(|range| range.id).collect();
            let ticket = match ids.as_slice() {
                [one] => account.maintenance().split(&handle, *one, SplitAt::Middle).await.expect("begun"),
                several => account.maintenance().merge(&handle, several).await.expect("begun"),
            };
            ticket.finished().await.expect("moved");
        }
    };
    tokio::join!(renames, writes, motion);
    store.settled().await;
    assert_eq!(store.wrong_copies().await, Vec::<String>::new());
    // No increment of a client was lost.
    let stock: i64 =
        store.all("product").await.iter().map(|item| item["stock"].as_i64().expect("a count")).sum();
    assert_eq!(stock, 7 * (40 + 8) + 80);
    for report in fixture.account.projections().projections().await {
        assert_eq!((report.counts.dead_letters, report.places.len()), (0, 1), "{report:?}");
    }
}

#[tokio::test]
async fn a_paused_projection_waits_and_misses_nothing() {
    let shards = crate::support::memory_shards(2).await;
    let fixture = Fixture::over(shards.clone()).await;
    let store = Store::new(&fixture, 400).await;
    store.name("category", 1, "first").await;
    store.product(1, 1, &[]).await;
    let account = &fixture.account;
    put(account, &categories()).await.expect("created");
    put(account, &tags()).await.expect("created");
    store.settled().await;
    account.projections().pause_projection("categories").await.expect("paused");
    store.name("category", 1, "second").await;
    fixture.clock.advance(Duration::from_secs(90));
    // The other projection follows the same log: this one could have processed everything that it has passed.
    store.name("tag", 1, "second").await;
    let tags = async || account.projections().projection("tags").await.expect("there");
    eventually("the other projection goes on", async || tags().await.lag.changes == 0).await;
    let report = account.projections().projection("categories").await.expect("there");
    assert_eq!((report.state, report.lag.changes, report.lag.seconds), (ProjectionState::Paused, 2, 90));
    assert_eq!(store.all("product").await[0]["categoryName"], "first");
    // It is still paused after a restart, and keeps its position.
    drop(fixture);
    let fixture = Fixture::over(shards).await;
    let store = Store::of(&fixture);
    let report = fixture.account.projections().projection("categories").await.expect("there");
    assert_eq!((report.state, report.lag.changes), (ProjectionState::Paused, 2));
    fixture.account.projections().resume_projection("categories").await.expect("resumed");
    store.settled().await;
    assert_eq!(store.all("product").await[0]["categoryName"], "second");
    fixture.account.projections().delete_projection("categories").await.expect("deleted");
    assert!(fixture.account.projections().projection("categories").await.is_err());
    assert!(fixture.account.projections().delete_projection("categories").await.is_err());
}

#[tokio::test]
async fn a_projection_from_now_on_leaves_what_is_there() {
    let fixture = Fixture::new().await;
    let store = Store::new(&fixture, 400).await;
    store.name("category", 1, "first").await;
    store.name("category", 2, "first").await;
    store.product(1, 1, &[]).await;
    store.product(2, 2, &[]).await;
    let rule = with(with(categories(), "start", "now"), "watchTarget", false);
    put(&fixture.account, &rule).await.expect("created");
    store.name("category", 2, "second").await;
    store.settled().await;
    store.product(3, 2, &[]).await;
    store.settled().await;
    let names: BTreeMap<String, Value> = store
        .all("product")
        .await
        .iter()
        .map(|item| (item["id"].as_str().expect("an id").to_owned(), item["categoryName"].clone()))
        .collect();
    assert_eq!(json!(names), json!({ "1": "?", "2": "second", "3": "?" }));
    // Another rule with the same id begins anew.
    assert_eq!(put(&fixture.account, &categories()).await.expect("replaced"), ProjectionPut::Replaced);
    store.settled().await;
    assert_eq!(store.wrong_copies().await, Vec::<String>::new());
}

#[tokio::test]
async fn what_cannot_be_corrected_becomes_a_dead_letter() {
    let fixture = Fixture::new().await;
    let definition = ContainerDefinition::new("meta", PartitionKeyDefinition::hash("/type"));
    fixture.container_with(definition, 400).await;
    let mut definition = ContainerDefinition::new("product", PartitionKeyDefinition::hash("/categoryId"));
    definition.unique_key_policy.unique_keys = vec![UniqueKey { paths: vec!["/categoryName".into()] }];
    fixture.container_with(definition, 400).await;
    let store = Store::of(&fixture);
    for (id, name) in [("1", "x"), ("2", "y")] {
        let item = json!({ "id": id, "categoryId": "category1", "categoryName": name });
        store.upsert(&store.product, item).await.expect("written");
    }
    let item = json!({ "id": "3", "categoryId": "category1", "categoryName": "z", "deep": 5 });
    store.upsert(&store.product, item).await.expect("written");
    let rule = with(
        categories(),
        "set",
        json!([
        { "from": "/name", "to": "/categoryName" }, { "from": "/color", "to": "/deep/color" }]),
    );
    expects_log("a copy could not be corrected; see the dead letters projection=\"categories\"");
    put(&fixture.account, &rule).await.expect("created");
    store
        .upsert(&store.meta, json!({ "id": "category1", "type": "category", "name": "same", "color": "red" }))
        .await
        .expect("written");
    store.settled().await;
    let letters = store.all("projectionErrors").await;
    // One of the first two got the name, which blocked the other.
    assert_eq!(letters.len(), 2, "{letters:?}");
    for letter in &letters {
        assert_eq!(
            (&letter["projection"], &letter["source"]["id"]),
            (&json!("categories"), &json!("category1"))
        );
        assert_eq!(letter["target"]["partitionKey"], json!(["category1"]));
        let is_deep = letter["target"]["id"] == "3";
        let words = if is_deep { "no object" } else { "Unique index" };
        assert!(letter["reason"].as_str().expect("words").contains(words), "{letter}");
    }
    let right = store.all("product").await;
    assert_eq!(right.iter().filter(|item| item["categoryName"] == "same").count(), 1);
    let report = fixture.account.projections().projection("categories").await.expect("there");
    assert!(report.state == ProjectionState::Running && report.counts.dead_letters >= 2, "{report:?}");
}

#[tokio::test]
async fn budgets_are_waited_for() {
    let fixture = Fixture::new().await;
    let store = Store::new(&fixture, 400).await;
    store.name("category", 1, "first").await;
    for id in 0..150 {
        store.product(id, 1, &[]).await;
    }
    put(&fixture.account, &categories()).await.expect("created");
    // The clock stands still, so nothing is added to the budget.
    eventually("it waits for request units", async || {
        let report = fixture.account.projections().projection("categories").await.expect("there");
        matches!(&report.state, ProjectionState::Waiting(words) if words.contains("request units"))
    })
    .await;
    assert!(!store.wrong_copies().await.is_empty());
    eventually("it goes on", async || {
        fixture.clock.advance(Duration::from_millis(200));
        fixture.account.projections().projection("categories").await.expect("there").lag.changes == 0
    })
    .await;
    store.settled().await;
    assert_eq!(store.wrong_copies().await, Vec::<String>::new());
    let report = fixture.account.projections().projection("categories").await.expect("there");
    assert_eq!((report.counts.applied, report.counts.dead_letters), (150, 0));
    assert!(report.last_error.expect("it was said").0.contains("request units"));
}

#[tokio::test]
async fn a_projection_ends_with_its_containers_and_goes_with_its_database() {
    let shards = crate::support::memory_shards(1).await;
    let fixture = Fixture::over(shards.clone()).await;
    let store = Store::new(&fixture, 400).await;
    put(&fixture.account, &categories()).await.expect("created");
    store.settled().await;
    expects_log("the target container 'db/product' was deleted");
    fixture
        .account
        .definitions()
        .delete_container(&fixture.ctx(), "db", "product", &none())
        .await
        .expect("deleted");
    let failed = async |account: &Account| {
        eventually("it fails", async || {
            let report = account.projections().projection("categories").await.expect("there");
            let ProjectionState::Failed(words) = report.state else { return false };
            assert!(words.contains("target container 'db/product' was deleted"), "{words}");
            true
        })
        .await;
    };
    failed(&fixture.account).await;
    // A container with the same name is another one, also after a restart.
    let definition = ContainerDefinition::new("product", PartitionKeyDefinition::hash("/categoryId"));
    fixture.container_with(definition, 400).await;
    drop(fixture);
    let fixture = Fixture::over(shards.clone()).await;
    failed(&fixture.account).await;
    assert_eq!(put(&fixture.account, &categories()).await.expect("replaced"), ProjectionPut::Replaced);
    let store = Store::of(&fixture);
    store.name("category", 1, "first").await;
    store.product(1, 1, &[]).await;
    store.settled().await;
    assert_eq!(store.wrong_copies().await, Vec::<String>::new());
    fixture.account.definitions().delete_database(&fixture.ctx(), "db", &none()).await.expect("deleted");
    assert!(fixture.account.projections().projections().await.is_empty());
    drop(fixture);
    assert!(Fixture::over(shards).await.account.projections().projections().await.is_empty());
}

#[tokio::test]
async fn rules_that_feed_one_another_in_a_circle_are_refused() {
    let fixture = Fixture::new().await;
    let _store = Store::new(&fixture, 400).await;
    put(&fixture.account, &categories()).await.expect("created");
    let back = json!({
        "id": "back",
        "source": { "database": "db", "container": "product" },
        "target": { "database": "db", "container": "meta" },
        "match": [{ "source": "/categoryId", "target": "/id" }],
        "set": [{ "from": "/categoryName", "to": "/name" }],
    });
    let error = put(&fixture.account, &back).await.expect_err("a circle").to_string();
    assert!(error.contains("would feed itself, by way of 'back', 'categories'"), "{error}");
    // Dead letters that another projection treats as items, which it cannot correct either.
    for name in ["first", "second"] {
        let letters = ContainerDefinition::new(name, PartitionKeyDefinition::hash("/projection"));
        fixture.container_with(letters, 400).await;
    }
    let of_letters = |id: &str, target: &str, letters: &str| {
        json!({
            "id": id,
            "source": { "database": "db", "container": "meta" },
            "target": { "database": "db", "container": target },
            "match": [{ "source": "/id", "target": "/projection" }],
            "set": [{ "from": "/name", "to": "/reason/x" }],
            "deadLetters": letters,
        })
    };
    let unnamed = of_letters("unnamed", "first", "a/b");
    let error = put(&fixture.account, &unnamed).await.expect_err("no name").to_string();
    assert!(error.contains("'deadLetters' names no container"), "{error}");
    put(&fixture.account, &of_letters("there", "first", "second")).await.expect("created");
    let letters_back = of_letters("letters", "second", "first");
    let error = put(&fixture.account, &letters_back).await.expect_err("a circle").to_string();
    assert!(error.contains("would feed itself, by way of 'letters', 'there'"), "{error}");
    put(&fixture.account, &with(letters_back, "watchTarget", false)).await.expect("created");
    // A rule that leads elsewhere is no cycle.
    let onward = with(back, "set", json!([{ "from": "/sku", "to": "/lastSku" }]));
    put(&fixture.account, &onward).await.expect("created");
    let mut policy = ContainerDefinition::new("bare", PartitionKeyDefinition::hash("/pk"));
    policy.indexing_policy = serde_json::from_value(json!({
        "includedPaths": [], "excludedPaths": [{ "path": "/*" }] }))
    .expect("a policy");
    fixture.container_with(policy, 400).await;
    let bare = json!({ "database": "db", "container": "bare" });
    let unindexed = with(with(categories(), "id", "unindexed"), "target", bare);
    let error = put(&fixture.account, &unindexed).await.expect_err("no index").to_string();
    assert!(error.contains("'/categoryId' is not indexed in 'bare'"), "{error}");
}

/// An engine that loses unsynced data has a power failure at some time; the copies become correct all the same.
async fn crash_once(seed: u64) {
    let over = |engines: &[Arc<FaultEngine>]| -> Vec<Shard> {
        let options = ShardOptions { durability: Durability::Sync, ..ShardOptions::memory() };
        engines.iter().map(|engine| Shard::with_engine(engine.clone(), &options).expect("opens")).collect()
    };
    let random = Random::seeded(seed);
    let engines: Vec<Arc<FaultEngine>> = (0..2).map(|_| Arc::new(FaultEngine::new())).collect();
    let fixture = Fixture::over(over(&engines)).await;
    let store = Store::new(&fixture, 400).await;
    for id in 0..3 {
        store.name("category", id, "0").await;
        store.name("tag", id, "0").await;
    }
    for id in 0..12 {
        store.product(id, id % 3, &[id % 3, (id + 1) % 3]).await;
    }
    put(&fixture.account, &categories()).await.expect("created");
    put(&fixture.account, &tags()).await.expect("created");
    let at = 1 + random.below(60);
    expects_log("(injected)");
    match seed % 2 {
        0 => engines[(seed / 2 % 2) as usize].fail_sync(at),
        _ => engines[(seed / 2 % 2) as usize].fail_apply(at),
    }
    for round in 1..12 {
        let item =
            json!({ "id": format!("category{}", round % 3), "type": "category", "name": round.to_string() });
        let category = store.upsert(&store.meta, item).await;
        let item = json!({ "id": format!("tag{}", round % 3), "type": "tag", "name": round.to_string() });
        if category.is_err() || store.upsert(&store.meta, item).await.is_err() {
            break;
        }
        some_time(&random, 8).await;
    }
    let survivors: Vec<Arc<FaultEngine>> =
        engines.iter().map(|engine| Arc::new(engine.crash(random.below(3) as usize))).collect();
    drop(fixture);
    let shards = over(&survivors);
    let report = shardlake_account::verify(&shards[..]).await.expect("readable");
    assert_eq!(report.problem_count(), 0, "seed {seed}: {report:?}");
    let fixture = Fixture::over(shards).await;
    let store = Store::of(&fixture);
    store.settled().await;
    assert_eq!(store.wrong_copies().await, Vec::<String>::new(), "seed {seed}");
}

#[tokio::test]
async fn whenever_the_power_goes_copies_come_true() {
    for seed in 0..16 {
        crash_once(seed).await;
    }
}

#[tokio::test]
async fn one_container_may_hold_both_sides_in_many_partitions_and_pages() {
    let fixture = Fixture::new().await;
    let key = PartitionKeyDefinition::multi_hash(&["/kind", "/shop"]);
    let all = fixture.container_with(ContainerDefinition::new("all", key), 30_000).await;
    let store = Store { fixture: &fixture, meta: all.clone(), product: all };
    let author = json!({ "id": "a", "kind": "author", "shop": 1, "name": { "first": "Ada", "last": "L" } });
    store.upsert(&store.meta, author.clone()).await.expect("written");
    for id in 0..250 {
        let book =
            json!({ "id": id.to_string(), "kind": "book", "shop": id % 7, "author": { "id": "a" }, "n": id });
        store.upsert(&store.product, book).await.expect("written");
    }
    let end = json!({ "database": "db", "container": "all" });
    let rule = json!({
        "id": "authors", "source": with(end.clone(), "filter", json!({ "/kind": "author" })), "target": end,
        "match": [{ "source": "/id", "target": "/author/id" }],
        "set": [{ "from": "/name", "to": "/author/name" }, { "from": "/born", "to": "/author/born" }],
    });
    put(&fixture.account, &rule).await.expect("created");
    store.settled().await;
    let renamed = with(with(author, "name", json!(["Ada", 1.5, 1e300, null])), "born", 1815);
    store.upsert(&store.meta, renamed.clone()).await.expect("written");
    store.settled().await;
    let books = store.all("all").await;
    let is_right = |book: &&Value| {
        book["author"] == json!({ "id": "a", "name": renamed["name"], "born": 1815 }) && book["n"].is_i64()
    };
    assert_eq!(books.iter().filter(is_right).count(), 250);
    let report = fixture.account.projections().projection("authors").await.expect("there");
    assert_eq!((report.counts.applied, report.counts.dead_letters), (500, 0));
}

#[tokio::test]
async fn which_of_several_sources_is_true_is_for_people_to_say() {
    let fixture = Fixture::new().await;
    let store = Store::new(&fixture, 400).await;
    let rule = with(categories(), "match", json!([{ "source": "/code", "target": "/code" }]));
    put(&fixture.account, &rule).await.expect("created");
    for (id, name) in [("one", "same"), ("two", "same")] {
        let item = json!({ "id": id, "type": "category", "code": 7, "name": name });
        store.upsert(&store.meta, item).await.expect("written");
    }
    let product = json!({ "id": "1", "categoryId": "x", "code": 7.0, "categoryName": "?" });
    store.upsert(&store.product, product.clone()).await.expect("written");
    store.settled().await;
    assert_eq!(store.all("product").await[0]["categoryName"], "same");
    expects_log("say different things");
    // Their targets diverge, and the product is written again.
    let item = json!({ "id": "two", "type": "category", "code": 7, "name": "other" });
    store.upsert(&store.meta, item).await.expect("written");
    store.settled().await;
    assert_eq!(store.all("product").await[0]["categoryName"], "other");
    store.upsert(&store.product, product).await.expect("written");
    store.settled().await;
    let letters = store.all("projectionErrors").await;
    assert_eq!(letters.len(), 1, "{letters:?}");
    let reason = letters[0]["reason"].as_str().expect("words");
    assert!(reason.contains("say different things") && reason.contains("'one'"), "{reason}");
}
