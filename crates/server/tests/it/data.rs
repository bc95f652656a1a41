//! Initial data of a server: a seed, or the demo.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use shardlake_testkit::{Client, ServerProcess, items_path};

use crate::support::{PATIENCE, command, in_memory, on_disk, refused, run};

const SEED: &str = r#"{ "databases": [ { "id": "shop", "throughput": 500, "containers": [
    { "id": "orders", "partitionKey": { "paths": ["/customer"] }, "defaultTtl": -1,
      "items": [ { "id": "1", "customer": "a", "total": 1.10 }, { "id": "2", "customer": "b" } ],
      "itemsFile": "more.jsonl" },
    { "id": "regions", "partitionKey": { "paths": ["/country", "/city"], "kind": "MultiHash", "version": 2 },
      "autoscaleMaxThroughput": 2000 } ] } ] }"#;
const MORE: &str = "{\"id\":\"3\",\"customer\":\"a\"}\n{\"id\":\"4\",\"customer\":\"c\"}\n";

fn seed_file(directory: &tempfile::TempDir, text: &str) -> PathBuf {
    let file = directory.path().join("seed.json");
    std::fs::write(&file, text).unwrap();
    std::fs::write(directory.path().join("more.jsonl"), MORE).unwrap();
    file
}

/// Every item of a container, over all pages.
fn all_items(client: &Client, database: &str, container: &str) -> Vec<Value> {
    let mut items = Vec::new();
    let mut continuation = String::new();
    loop {
        let mut headers = vec![("x-ms-max-item-count", "1000")];
        if !continuation.is_empty() {
            headers.push(("x-ms-continuation", &continuation));
        }
        let page = client.get(&items_path(database, container), &headers).expect_status(200);
        items.extend(page.json()["Documents"].as_array().unwrap().iter().cloned());
        match page.header("x-ms-continuation") {
            Some(next) => continuation = next.to_owned(),
            None => return items,
        }
    }
}

#[test]
fn a_seed_creates_what_is_missing_and_leaves_the_rest_alone() {
    let directory = tempfile::tempdir().unwrap();
    let file = seed_file(&directory, SEED);
    let mut server = on_disk().argument("--seed").argument(&file).start();
    let client = server.client();
    assert_eq!(all_items(&client, "shop", "orders").len(), 4);
    let orders = client.read_container("shop", "orders").expect_status(200).json();
    assert_eq!(orders["defaultTtl"], -1);
    let regions = client.read_container("shop", "regions").expect_status(200).json();
    assert_eq!(regions["partitionKey"]["kind"], "MultiHash");
    let offers = client.get("/offers", &[]).expect_status(200).json();
    assert_eq!(offers["Offers"].as_array().map(Vec::len), Some(2), "{offers}");

    let changed = json!({ "id": "1", "customer": "a", "total": 2 });
    let _replaced = client.replace_item("shop", "orders", &json!(["a"]), &changed).expect_status(200);
    let _deleted = client.delete_item("shop", "orders", &json!(["b"]), "2").expect_status(204);
    assert!(server.terminate(PATIENCE).success());
    server.restart();
    let client = server.client();
    let read = client.read_item("shop", "orders", &json!(["a"]), "1").expect_status(200).json();
    assert_eq!(read["total"], 2, "what exists is left alone");
    assert_eq!(all_items(&client, "shop", "orders").len(), 4, "what is missing comes back");
}

#[test]
fn a_wrong_seed_is_refused_with_its_place() {
    let directory = tempfile::tempdir().unwrap();
    for (text, words) in [
        ("{", "seed.json"),
        (r#"{"databases":[{"id":"a","colls":[]}]}"#, "colls"),
        (r#"{"databases":[{"id":"a"},{"id":"b/c"}]}"#, "databases[1]"),
        (r#"{"databases":[{"id":"a","containers":[{"id":"b"}]}]}"#, "databases[0].containers[0]"),
        (
            r#"{"databases":[{"id":"a","containers":[{"id":"b","partitionKey":{"paths":["/k"]},"items":[{"id":"1"},{"k":1}]}]}]}"#,
            "databases[0].containers[0].items[1]",
        ),
        (
            r#"{"databases":[{"id":"a","containers":[{"id":"b","partitionKey":{"paths":["/k"]},"itemsFile":"none"}]}]}"#,
            "none",
        ),
    ] {
        let file = seed_file(&directory, text);
        let file = file.to_str().unwrap();
        let message = refused(&mut command(&[
            "serve",
            "--durability=memory",
            "--log-level=error",
            "--listen=127.0.0.1:0",
            "--seed",
            file,
        ]));
        assert!(message.contains(words), "{words} in {message}");
    }
}

fn demo(customers: u32) -> ServerProcess {
    in_memory().argument("--demo=webstore").argument(format!("--demo-customers={customers}")).start()
}

/// The items without the server's properties, sorted.
fn own_members(mut items: Vec<Value>) -> Vec<Value> {
    for item in &mut items {
        item.as_object_mut().unwrap().retain(|name, _| !name.starts_with('_'));
    }
    items.sort_by_key(|item| item["id"].as_str().unwrap().to_owned());
    items
}

#[test]
fn the_demo_is_the_same_everywhere_and_agrees_with_itself() {
    let (first, second) = (demo(40), demo(40));
    for container in ["customer", "product", "productMeta"] {
        let mine = own_members(all_items(&first.client(), "webstore", container));
        let other = own_members(all_items(&second.client(), "webstore", container));
        assert!(!mine.is_empty() && mine == other, "{container}");
    }
    let stored = own_members(all_items(&first.client(), "webstore", "customer"));
    let (customers, orders): (Vec<&Value>, Vec<&Value>) =
        stored.iter().partition(|item| item["type"] == "customer");
    assert_eq!(customers.len(), 40);
    assert!(!orders.is_empty(), "somebody ordered something");
    for customer in customers {
        assert_eq!(customer["id"], customer["customerId"]);
        let placed = orders.iter().filter(|order| order["customerId"] == customer["id"]).count();
        assert_eq!(customer["salesOrderCount"].as_u64(), Some(placed as u64), "{customer}");
    }
    let meta = all_items(&first.client(), "webstore", "productMeta");
    for product in all_items(&first.client(), "webstore", "product") {
        let category =
            meta.iter().find(|meta| meta["id"] == product["categoryId"]).expect("a known category");
        assert_eq!((&category["name"], &category["type"]), (&product["categoryName"], &json!("category")));
    }
}

#[test]
fn the_printed_demo_is_a_seed_of_the_same_data() {
    let printed = run(&["demo", "webstore", "--customers=20", "--print"]);
    assert!(printed.status.success(), "{printed:?}");
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("printed.json");
    std::fs::write(&file, &printed.stdout).unwrap();
    let seeded = in_memory().argument("--seed").argument(&file).start();
    let loaded = demo(20);
    for container in ["customer", "product", "productMeta"] {
        let mine = own_members(all_items(&seeded.client(), "webstore", container));
        assert!(mine == own_members(all_items(&loaded.client(), "webstore", container)), "{container}");
    }
}

#[test]
fn a_demo_that_was_interrupted_goes_on_and_a_finished_one_is_left_alone() {
    let options = on_disk().argument("--demo=webstore").argument("--demo-customers=600");
    let options = shardlake_testkit::ServerOptions { ready_deadline: Duration::from_millis(250), ..options };
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    // Killed when it is not ready in time; where the machine is faster than that, the test shows the second half alone.
    drop(options.clone().data_dir(&data).try_start());
    let options = shardlake_testkit::ServerOptions { ready_deadline: PATIENCE * 4, ..options };
    let mut server = options.data_dir(&data).start();
    let stored = all_items(&server.client(), "webstore", "customer");
    assert_eq!(stored.iter().filter(|item| item["type"] == "customer").count(), 600);
    let orders = stored.iter().filter(|item| item["type"] == "salesOrder").count() as u64;
    let counted: u64 = stored.iter().filter_map(|item| item["salesOrderCount"].as_u64()).sum();
    assert_eq!(counted, orders, "no order is counted twice");

    let customer = stored.iter().find(|item| item["type"] == "customer").unwrap();
    let (id, key) = (customer["id"].as_str().unwrap(), json!([customer["id"]]));
    let _deleted = server.client().delete_item("webstore", "customer", &key, id).expect_status(204);
    assert!(server.terminate(PATIENCE).success());
    server.restart();
    let _gone = server.client().read_item("webstore", "customer", &key, id).expect_status(404);
}
