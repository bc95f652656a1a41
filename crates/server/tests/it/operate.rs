//! The operator's commands against a server: their output, their effects, and their failures.

use serde_json::{Value, json};
use shardlake_testkit::ServerProcess;

use crate::support::{ca_of, command, in_memory};

const ORDERS: &str = "shop/orders";

/// A server with two shards and a container of 12,000 RU/s, which makes two partitions.
fn server_with_orders() -> ServerProcess {
    let server = in_memory().argument("--shards").argument("2").start();
    let client = server.client();
    let _created = client.create_database("shop").expect_status(201);
    let key = json!({ "paths": ["/customer"], "kind": "Hash", "version": 2 });
    let definition = json!({ "id": "orders", "partitionKey": key });
    let throughput = [("x-ms-offer-throughput", "12000")];
    let _created = client.create_container_of("shop", &definition, &throughput).expect_status(201);
    for number in 0..40 {
        let customer = format!("c{number}");
        let item = json!({ "id": "1", "customer": customer });
        let _created = client.create_item("shop", "orders", &json!([customer]), &item).expect_status(201);
    }
    server
}

fn endpoint(server: &ServerProcess) -> String {
    format!("http://{}", server.client().address())
}

/// Output of a command that succeeds.
#[track_caller]
fn printed(server: &ServerProcess, arguments: &[&str]) -> String {
    let output = command(arguments).args(["--endpoint", &endpoint(server)]).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{arguments:?}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

/// The one line of a command that fails.
#[track_caller]
fn complaint(server: &ServerProcess, arguments: &[&str]) -> String {
    let output = command(arguments).args(["--endpoint", &endpoint(server)]).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), error.lines().count()), (Some(1), 1), "{arguments:?}: {error}");
    error
}

#[track_caller]
fn report(server: &ServerProcess) -> Value {
    serde_json::from_str(&printed(server, &["partitions", ORDERS, "--json"])).unwrap()
}

fn ids(report: &Value) -> Vec<&str> {
    report["partitions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|partition| partition["id"].as_str().unwrap())
        .collect()
}

#[test]
fn partitions_are_shown_split_moved_merged_and_given_shares() {
    let server = server_with_orders();
    let shown = printed(&server, &["partitions", ORDERS]);
    assert!(shown.contains("shop/orders: 12,000 RU/s manual, enforced"), "{shown}");
    assert!(shown.contains("key /customer; 40 items"), "{shown}");
    let all = printed(&server, &["partitions"]);
    assert!(all.contains("shop/orders"), "{all}");

    let split = printed(&server, &["split", ORDERS, "0", "--at", "middle"]);
    assert!(split.starts_with("split done: partitions 2 and 3, "), "{split}");
    assert_eq!(ids(&report(&server)), ["2", "3", "1"]);

    let before = report(&server);
    let target = 1 - before["partitions"][0]["shard"].as_u64().unwrap();
    let moved = printed(&server, &["move", ORDERS, "2", &target.to_string()]);
    assert!(moved.starts_with("move done: partition 2, "), "{moved}");
    assert_eq!(report(&server)["partitions"][0]["shard"], target);

    let merged = printed(&server, &["merge", ORDERS, "3", "2"]);
    assert!(merged.starts_with("merge done: partition 4, "), "{merged}");
    let shown = report(&server);
    assert_eq!((ids(&shown), &shown["items"]), (vec!["4", "1"], &json!(40)));

    let divided = printed(&server, &["redistribute", ORDERS, "4=8000", "1=4000"]);
    assert!(divided.contains("8000/s") && divided.contains("4000/s"), "{divided}");
    let equal = printed(&server, &["redistribute", ORDERS, "--equal"]);
    assert_eq!(equal.matches("6000/s").count(), 2, "{equal}");
    let page = server.client().get("/metrics", &[]).expect_status(200).body;
    let page = String::from_utf8(page).unwrap();
    for line in [
        r#"shardlake_relocations_total{kind="merge",outcome="done"} 1"#,
        r#"shardlake_container_throughput{database="shop",container="orders"} 12000"#,
        r#"shardlake_partition_throughput{database="shop",container="orders",partition_key_range_id="4"} 6000.0"#,
        r#"shardlake_container_requests_total{database="shop",container="orders",status="201"} 40"#,
    ] {
        assert!(page.contains(line), "{line} in\n{page}");
    }
    let abort = printed(&server, &["abort", ORDERS]);
    assert!(abort.contains("no relocation is in progress"), "{abort}");
}

#[test]
fn failures_are_one_line_that_says_why() {
    let server = server_with_orders();
    for (arguments, words) in [
        (&["partitions", "shop/none"] as &[&str], "none"),
        (&["split", ORDERS, "9"], "there is no partition 9"),
        (&["split", ORDERS, "0", "--at", "xyz"], "bound"),
        (&["move", ORDERS, "0", "7"], "there is no shard 7"),
        (&["merge", ORDERS, "0", "0"], "each of them once"),
        (&["redistribute", ORDERS, "0=9000"], "add up to 15000"),
        (&["redistribute", ORDERS, "0=1", "0=2"], "named twice"),
        (&["partitions", ORDERS, "--key", "AAAA"], "does not accept the key"),
        (&["partitions", ORDERS, "--key", "%"], "base64"),
        (&["partitions", ORDERS, "--key-file", "/nowhere/key"], "/nowhere/key"),
    ] {
        let complaint = complaint(&server, arguments);
        assert!(complaint.starts_with("shardlake: ") && complaint.contains(words), "{complaint}");
    }
    for wrong in [
        &["partitions", "shop"] as &[&str],
        &["split", ORDERS],
        &["merge", ORDERS, "1"],
        &["redistribute", ORDERS],
    ] {
        assert_eq!(command(wrong).output().unwrap().status.code(), Some(2), "{wrong:?}");
    }
    let nobody = command(&["partitions", "--endpoint", "http://127.0.0.1:1"]).output().unwrap();
    assert!(String::from_utf8(nobody.stderr).unwrap().contains("no connection"));
}

#[test]
fn keys_come_from_flags_files_and_the_environment_and_tls_from_an_authority() {
    let server = server_with_orders();
    let directory = tempfile::tempdir().unwrap();
    let (ca, key) = (directory.path().join("ca.pem"), directory.path().join("key"));
    std::fs::write(&ca, ca_of(&server)).unwrap();
    std::fs::write(&key, format!("{}\n", shardlake_testkit::EMULATOR_KEY)).unwrap();
    let endpoint = format!("https://localhost:{}", server.client().address().port());
    let arguments = ["partitions", ORDERS, "--endpoint", &endpoint];
    let trusted = ["--ca-file", ca.to_str().unwrap(), "--key-file", key.to_str().unwrap()];
    let output = command(&arguments).args(trusted).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let untrusted = command(&arguments).output().unwrap();
    assert!(String::from_utf8(untrusted.stderr).unwrap().contains("--ca-file"));
    let wrong = command(&arguments).args(&trusted[..2]).env("SHARDLAKE_KEY", "AAAA").output().unwrap();
    assert!(String::from_utf8(wrong.stderr).unwrap().contains("does not accept the key"));
}

#[test]
fn projections_are_created_shown_paused_and_deleted() {
    let server = server_with_orders();
    let client = server.client();
    let key = json!({ "paths": ["/id"], "kind": "Hash", "version": 2 });
    let definition = json!({ "id": "customers", "partitionKey": key });
    let _created = client.create_container_of("shop", &definition, &[]).expect_status(201);
    let customer = json!({ "id": "c7", "name": "Ada" });
    let _created = client.create_item("shop", "customers", &json!(["c7"]), &customer).expect_status(201);
    let rule = json!({
        "id": "customer-names",
        "source": { "database": "shop", "container": "customers" },
        "target": { "database": "shop", "container": "orders" },
        "match": [{ "source": "/id", "target": "/customer" }],
        "set": [{ "from": "/name", "to": "/customerName" }],
    });
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("rule.json");
    std::fs::write(&file, rule.to_string()).unwrap();
    let created = printed(&server, &["projections", "create", file.to_str().unwrap()]);
    assert!(
        created.contains("customer-names  shop/customers  shop/orders") && created.contains("\"match\""),
        "{created}"
    );
    let mut shown = Value::Null;
    shardlake_testkit::eventually("everything is projected", || {
        let text = printed(&server, &["projections", "show", "customer-names", "--json"]);
        shown = serde_json::from_str(&text).unwrap();
        shown["lag"]["changes"] == 0
    });
    assert_eq!((&shown["state"], &shown["counts"]["applied"]), (&json!("running"), &json!(1)), "{shown}");
    let metrics = client.get("/metrics", &[]).expect_status(200).text();
    for line in [
        "shardlake_projection_lag{projection=\"customer-names\"} 0",
        "shardlake_projection_applied_total{projection=\"customer-names\"} 1",
        "shardlake_projection_state{projection=\"customer-names\",state=\"running\"} 1",
    ] {
        assert!(metrics.contains(line), "{line} in\n{metrics}");
    }
    assert!(printed(&server, &["projections", "pause", "customer-names"]).contains("paused"));
    assert!(printed(&server, &["projections", "list"]).contains("paused"));
    assert!(printed(&server, &["projections", "resume", "customer-names"]).contains("running"));
    assert_eq!(printed(&server, &["projections", "delete", "customer-names"]), "deleted: customer-names\n");
    let words = complaint(&server, &["projections", "show", "customer-names"]);
    assert!(
        words.contains("there is no projection 'customer-names': `shardlake projections list`"),
        "{words}"
    );
    std::fs::write(&file, "{").unwrap();
    assert!(complaint(&server, &["projections", "create", file.to_str().unwrap()]).contains("is no JSON"));
}

#[test]
fn indexes_are_created_shown_paused_and_deleted() {
    let server = server_with_orders();
    let client = server.client();
    let definition = "SELECT c.customer FROM c";
    let create = ["copies", "create", "shop/byId", "--source", "orders", "--partition-key", "/_id"];
    let created = printed(&server, &[&create[..], &["--definition", definition]].concat());
    assert!(created.contains("shop/byId") && created.contains(definition), "{created}");
    let mut shown = Value::Null;
    shardlake_testkit::eventually("every item has its row", || {
        shown =
            serde_json::from_str(&printed(&server, &["copies", "status", "shop/byId", "--json"])).unwrap();
        shown["status"] == "Active" && shown["lag"]["changes"] == 0
    });
    assert_eq!((&shown["rows"], &shown["counts"]["refused"]), (&json!(40), &json!(0)), "{shown}");
    let metrics = client.get("/metrics", &[]).expect_status(200).text();
    for line in [
        "shardlake_copy_lag_changes{kind=\"index\",copy=\"shop/byId\"} 0",
        "shardlake_copy_rows{kind=\"index\",copy=\"shop/byId\"} 40",
        "shardlake_copy_state{kind=\"index\",copy=\"shop/byId\",state=\"Active\"} 1",
    ] {
        assert!(metrics.contains(line), "{line} in\n{metrics}");
    }
    assert!(printed(&server, &["copies", "pause", "shop/byId"]).contains("Paused"));
    assert!(printed(&server, &["copies", "list"]).contains("Paused"));
    assert!(printed(&server, &["copies", "resume", "shop/byId"]).contains("Active"));
    let create = ["copies", "create", "shop/other", "--source", "orders", "--partition-key", "/_id"];
    let ordered = ["--definition", "SELECT c.a FROM c ORDER BY c.a"];
    let refused = complaint(&server, &[&create[..], &ordered[..]].concat());
    assert!(refused.contains("ORDER BY"), "{refused}");
    let rule = json!({
        "id": "to-an-index",
        "source": { "database": "shop", "container": "orders" },
        "target": { "database": "shop", "container": "byId" },
        "match": [{ "source": "/id", "target": "/_id" }],
        "set": [{ "from": "/customer", "to": "/name" }],
    });
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("rule.json");
    std::fs::write(&file, rule.to_string()).unwrap();
    let refused = complaint(&server, &["projections", "create", file.to_str().unwrap()]);
    assert!(refused.contains("'byId' is a global secondary index of 'orders': write there"), "{refused}");
    let no_index = complaint(&server, &["copies", "delete", ORDERS]);
    assert!(no_index.contains("`shardlake copies list`"), "{no_index}");
    assert_eq!(printed(&server, &["copies", "delete", "shop/byId"]), "deleted: shop/byId\n");
    assert!(!printed(&server, &["copies", "list"]).contains("byId"));
}

#[test]
fn functions_are_put_tried_shown_paused_replayed_and_deleted() {
    let server = server_with_orders();
    let client = server.client();
    let key = json!({ "paths": ["/id"], "kind": "Hash", "version": 2 });
    let definition = json!({ "id": "counted", "partitionKey": key });
    let _created = client.create_container_of("shop", &definition, &[]).expect_status(201);
    let directory = tempfile::tempdir().unwrap();
    let (file, code) = (directory.path().join("function.json"), directory.path().join("code.js"));
    let definition = json!({
        "id": "count", "source": { "database": "shop", "container": "orders" },
        "access": { "counted": "readWrite" },
    });
    std::fs::write(&file, definition.to_string()).unwrap();
    let text = "async function (changes, context) {
        for (const { id } of changes) context.container('counted').upsert({ id });
        console.log(changes.length, 'changes'); }";
    std::fs::write(&code, text).unwrap();
    let (file, code) = (file.to_str().unwrap(), code.to_str().unwrap());
    assert!(complaint(&server, &["copies", "put", file]).contains("code"));
    let put = printed(&server, &["copies", "put", file, "--code", code]);
    assert!(put.contains("shop/orders") && put.contains("async function"), "{put}");
    let mut shown = Value::Null;
    shardlake_testkit::eventually("every order is counted", || {
        shown = serde_json::from_str(&printed(&server, &["copies", "status", "count", "--json"])).unwrap();
        shown["lag"]["changes"] == 0 && shown["counts"]["written"] == 40
    });
    assert_eq!((&shown["status"], &shown["counts"]["deadLetters"]), (&json!("Active"), &json!(0)), "{shown}");
    let metrics = client.get("/metrics", &[]).expect_status(200).text();
    for line in [
        "shardlake_copy_lag_changes{kind=\"function\",copy=\"count\"} 0",
        "shardlake_copy_changes_total{kind=\"function\",copy=\"count\"} 40",
        "shardlake_copy_dead_letters_total{kind=\"function\",copy=\"count\"} 0",
        "shardlake_copy_state{kind=\"function\",copy=\"count\",state=\"Active\"} 1",
    ] {
        assert!(metrics.contains(line), "{line} in\n{metrics}");
    }
    assert!(printed(&server, &["copies", "log", "count"]).contains("changes"));
    let trial = printed(&server, &["copies", "try", "count", "--last", "3"]);
    assert!(trial.contains("3 changes") && trial.contains("\"operation\":\"upsert\""), "{trial}");
    assert!(printed(&server, &["copies", "pause", "count"]).contains("Paused"));
    let list = printed(&server, &["copies", "list"]);
    assert!(list.contains("count") && list.contains("function") && list.contains("Paused"), "{list}");
    let replayed = printed(&server, &["copies", "replay", "count", "--from", "beginning", "--json"]);
    let replayed: Value = serde_json::from_str(&replayed).unwrap();
    assert_eq!(replayed["places"][0]["lsn"], 0, "{replayed}");
    assert!(printed(&server, &["copies", "resume", "count"]).contains("count"));
    assert!(complaint(&server, &["copies", "rollback", "count"]).contains("earlier"));
    assert_eq!(printed(&server, &["copies", "delete", "count"]), "deleted: count\n");
    let unknown = complaint(&server, &["copies", "status", "count"]);
    assert!(unknown.contains("there is no function 'count': `shardlake copies list`"), "{unknown}");
}
