//! Functions at work over a whole account: the recipes of docs/functions.md, through restarts.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use shardlake_account::Account;
use shardlake_storage::{Shard, ShardOptions};

use crate::shop::{container, context, function, item, items, level, put, report, upsert, with};
use crate::support::json_door::{JsonDoor, KeyInput};
use crate::support::{Fixture, eventually, none};

pub const RENAME: &str = r#"async function (changes, context) {
  const products = context.container("product");
  for (const { current } of changes) if (current?.type === "category")
    for (const p of await products.query("SELECT c.id FROM c WHERE c.categoryName != @n", { "@n": current.name }, { partitionKey: current.id }))
      products.patch(p.id, current.id, [{ op: "set", path: "/categoryName", value: current.name }]);
}"#;

pub const ORDER_COUNT: &str = r#"async function (changes, context) {
  const customers = context.container("customer");
  for (const id of new Set(changes.filter(c => c.current?.type !== "customer").map(c => c.partitionKey[0]))) {
    const [n] = await customers.query("SELECT VALUE COUNT(1) FROM c WHERE c.type = 'salesOrder'", {}, { partitionKey: id });
    if (await customers.read(id, id)) customers.patch(id, id, [{ op: "set", path: "/salesOrderCount", value: n }]);
  }
}"#;

async fn shop(fixture: &Fixture) {
    container(fixture, "meta", "/type", 400).await;
    container(fixture, "product", "/categoryId", 30_000).await;
    container(fixture, "customer", "/customerId", 30_000).await;
}

fn rename() -> Value {
    let mut rename = function("category-names", "meta", &["product"], RENAME);
    rename["source"]["filter"] = json!({ "/type": "category" });
    rename
}

async fn name(account: &Account, category: usize, name: &str) {
    let id = format!("c{category}");
    upsert(account, "meta", json!({ "id": id, "type": "category", "name": name })).await;
}

async fn delete(account: &Account, name: &str, key: &str, id: &str) {
    let container = account.router().container("db", name).expect("there");
    let key = json!([key]).to_string();
    account
        .delete_item(&context(account), &container, Some(KeyInput(&key)), id, &none())
        .await
        .expect("deleted");
}

/// Categories of products, with their names.
async fn names(account: &Account) -> BTreeMap<String, Vec<String>> {
    let mut names: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for product in items(account, "product").await {
        let text = |name: &str| product[name].as_str().unwrap_or_default().to_owned();
        names.entry(text("categoryId")).or_default().push(text("categoryName"));
    }
    names.values_mut().for_each(|names| names.dedup());
    names
}

#[tokio::test]
async fn a_rename_reaches_every_product_also_after_a_restart() {
    let shard = Shard::open(ShardOptions::memory()).await.expect("opens");
    {
        let fixture = Fixture::over(shard.clone()).await;
        shop(&fixture).await;
        let account = &fixture.account;
        for product in 0..60 {
            let category = product % 6;
            let id = format!("p{product}");
            let product = json!({ "id": id, "categoryId": format!("c{category}"), "categoryName": "old" });
            upsert(account, "product", product).await;
        }
        upsert(account, "meta", json!({ "id": "t1", "type": "tag", "name": "not a category" })).await;
        for category in 0..6 {
            name(account, category, &format!("name {category}")).await;
        }
        put(account, &with(rename(), "batch", json!({ "changes": 1 }))).await.expect("valid");
        eventually("some products are renamed", async || {
            report(account, "category-names").await.counts.applied >= 20
        })
        .await;
        // In the middle: the account is dropped without its last positions.
    }
    let fixture = Fixture::over(shard).await;
    let account = &fixture.account;
    level(account, "category-names").await;
    let expected: BTreeMap<String, Vec<String>> =
        (0..6).map(|category| (format!("c{category}"), vec![format!("name {category}")])).collect();
    assert_eq!(names(account).await, expected);
    name(account, 3, "another name").await;
    level(account, "category-names").await;
    assert_eq!(names(account).await["c3"], ["another name"]);
}

#[tokio::test]
async fn orders_are_counted_and_the_counts_do_not_come_back() {
    let fixture = Fixture::new().await;
    shop(&fixture).await;
    let account = &fixture.account;
    for customer in 0..5 {
        let id = format!("u{customer}");
        upsert(account, "customer", json!({ "id": id, "customerId": id, "type": "customer" })).await;
    }
    put(account, &function("order-count", "customer", &["customer"], ORDER_COUNT)).await.expect("valid");
    for order in 0..40 {
        let (id, customer) = (format!("o{order}"), format!("u{}", order % 5));
        upsert(account, "customer", json!({ "id": id, "customerId": customer, "type": "salesOrder" })).await;
    }
    for order in 0..10 {
        delete(account, "customer", &format!("u{}", order % 5), &format!("o{order}")).await;
    }
    level(account, "order-count").await;
    for customer in 0..5 {
        let id = format!("u{customer}");
        let found = item(account, "customer", &id, &id).await.expect("there");
        assert_eq!(found["salesOrderCount"], 6, "{found}");
    }
    let found = report(account, "order-count").await;
    assert_eq!(
        (found.counts.dead_letters, found.failed_runs, found.holes),
        (0, 0, 0),
        "{:?}",
        found.last_error
    );
    assert!(found.counts.changes <= 55, "its own commits are none of its changes: {}", found.counts.changes);
}

#[tokio::test]
async fn a_paused_function_waits_and_a_new_code_holds_from_the_next_batch() {
    let fixture = Fixture::new().await;
    shop(&fixture).await;
    let account = &fixture.account;
    let copy = |version: u32| {
        format!(
            "async function (changes, context) {{ for (const {{ current }} of changes)
               context.container('product').upsert({{ id: current.id, categoryId: 'x', version: {version} }}); }}"
        )
    };
    let first = function("copy", "meta", &["product"], &copy(1));
    put(account, &first).await.expect("valid");
    name(account, 1, "a").await;
    level(account, "copy").await;
    account.functions().pause("copy").await.expect("there");
    name(account, 2, "b").await;
    assert_eq!(report(account, "copy").await.state.name(), "Paused");
    assert_eq!(item(account, "product", "x", "c2").await, None);
    put(account, &with(first, "code", copy(2))).await.expect("valid");
    account.functions().resume("copy").await.expect("there");
    level(account, "copy").await;
    let version = async |id: &str| item(account, "product", "x", id).await.expect("there")["version"].clone();
    assert_eq!((version("c1").await, version("c2").await), (json!(1), json!(2)));
}
