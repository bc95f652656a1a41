//! Heat over time and the hash space at the wire: its place, its persistence; one key; the parts of a report.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::harness::{ITEMS, READ_ONLY_KEY, Server, eventually};

const OF_ITEMS: &str = "/_shardlake/v1/dbs/db/colls/items";

async fn heat(server: &Server, query: &str) -> Value {
    server.get(format!("{OF_ITEMS}/heat?{query}")).signed_with(READ_ONLY_KEY).send().await.expect(200).json()
}

/// Columns of rows.
fn cells(map: &Value) -> Vec<Vec<f32>> {
    let bytes = STANDARD.decode(map["cells"].as_str().expect("a text")).expect("base64");
    let cells: Vec<f32> =
        bytes.chunks(4).map(|four| f32::from_le_bytes(four.try_into().expect("four bytes"))).collect();
    let rows = map["rowBounds"].as_array().expect("a list").len() - 1;
    assert_eq!(cells.len(), rows * map["times"].as_array().expect("a list").len());
    cells.chunks(rows).map(<[f32]>::to_vec).collect()
}

fn total(column: &[f32]) -> f32 {
    column.iter().sum()
}

async fn with_load() -> (Server, f64) {
    let server = Server::with_container().await;
    let mut charged = 0.0;
    for number in 0..20 {
        charged +=
            server.create(json!({ "id": format!("i{number}"), "pk": format!("k{number}") })).await.charge();
    }
    (server, charged)
}

async fn relocated(server: &Server, path: &str, body: Value, targets: &[&str]) {
    let _begun = server.post(format!("{OF_ITEMS}/partitions/{path}")).json(body).send().await.expect(202);
    eventually("the end of the relocation", async || {
        let report = server.get(format!("{OF_ITEMS}/partitions")).send().await.expect(200).json();
        report["lastRelocation"]["targets"] == json!(targets)
    })
    .await;
}

#[tokio::test]
async fn heat_is_where_the_keys_are_and_adds_up() {
    let (server, charged) = with_load().await;
    let map = heat(&server, "window=10m&rows=64&measure=ru").await;
    assert_eq!((&map["periodSeconds"], &map["unit"]), (&json!(1), &json!("ruPerSecond")));
    let columns = cells(&map);
    assert_eq!(columns.len(), 600);
    let now = columns.last().expect("a column");
    assert!((f64::from(total(now)) - charged).abs() < 0.01, "{} of {charged}", total(now));
    assert!(columns[0].iter().all(|cell| cell.is_nan()), "nobody knows what was before the start");
    assert_eq!((&map["rowBounds"][0], &map["rowBounds"][64]), (&json!(""), &json!("FF")));
    // The share of one busy key is reported with the part of the hash space that it is in.
    let _hot = server.item("GET", "i3", "[\"k3\"]").send().await.expect(200);
    let report = server.get(format!("{OF_ITEMS}/key?key=%5B%22k3%22%5D")).send().await.expect(200).json();
    assert_eq!((&report["key"], &report["partition"]), (&json!(["k3"]), &json!("0")));
    assert_eq!((&report["items"], &report["shard"]), (&json!(1), &json!(0)));
    assert!(report["load"]["ru"].as_f64().expect("load") > 1.0, "{report}");
    let epk = report["epk"].as_str().expect("a hash");
    let narrow = heat(&server, &format!("window=10m&rows=1&measure=share&min={epk}&max=FF")).await;
    assert!(total(cells(&narrow).last().expect("a column")) > 0.0);
    let cold = server.get(format!("{OF_ITEMS}/key?key=%5B%22none%22%5D")).send().await.expect(200).json();
    assert_eq!((&cold["items"], &cold["load"]), (&json!(0), &Value::Null));
}

#[tokio::test]
async fn heat_survives_splits_merges_and_moves_and_says_when_they_were() {
    let (server, _charged) = with_load().await;
    let before = heat(&server, "window=10m&rows=32&measure=ru").await;
    let sequence = before["sequence"].as_u64().expect("a number");
    server.clock.advance(Duration::from_secs(5));
    relocated(&server, "0/split", json!({ "at": "middle" }), &["1", "2"]).await;
    server.clock.advance(Duration::from_secs(5));
    relocated(&server, "merge", json!({ "ids": ["1", "2"] }), &["3"]).await;
    server.clock.advance(Duration::from_secs(5));
    let _after = server.item("GET", "i1", "[\"k1\"]").send().await.expect(200);
    let after = heat(&server, "window=10m&rows=32&measure=ru").await;
    let last_of = |map: &Value| cells(map).last().expect("a column").clone();
    let then = cells(&after)[599 - 15].clone();
    assert_eq!(then, last_of(&before), "what was there before the split is there after the merge");
    assert!(total(&last_of(&after)) >= 1.0);
    let kinds: Vec<&str> = after["events"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|event| event["kind"].as_str().unwrap_or_default())
        .collect();
    assert_eq!(kinds, ["split", "merge"]);
    assert_eq!(
        (&after["events"][0]["sources"], &after["events"][0]["targets"]),
        (&json!(["0"]), &json!(["1", "2"]))
    );
    let epochs = after["epochs"].as_array().expect("a list");
    let ids = |epoch: &Value| -> Vec<String> {
        let ranges = epoch["ranges"].as_array().expect("a list");
        ranges.iter().map(|range| range["id"].as_str().expect("a text").to_owned()).collect()
    };
    assert_eq!(epochs.iter().map(ids).collect::<Vec<_>>(), [vec!["0"], vec!["1", "2"], vec!["3"]]);
    let rows = |range: &Value| (range["firstRow"].as_u64(), range["rows"].as_u64());
    assert_eq!(rows(&epochs[1]["ranges"][0]), (Some(0), Some(16)));
    assert_eq!(rows(&epochs[1]["ranges"][1]), (Some(16), Some(16)));
    // Only new cells.
    let next = heat(&server, &format!("window=10m&rows=32&measure=ru&since={sequence}")).await;
    assert_eq!(cells(&next).len(), 16);
    assert_eq!(cells(&next)[0], last_of(&before));
    // Account-wide figures keep it as well.
    let pulse = server.get("/_shardlake/v1/pulse").send().await.expect(200).json();
    let created: f64 =
        pulse["ru"]["create"].as_array().expect("a list").iter().filter_map(Value::as_f64).sum();
    assert!(created > 100.0, "{created}");
    let parts =
        server.get(format!("{OF_ITEMS}/partitions?parts=relocations")).send().await.expect(200).json();
    let past = parts["relocations"].as_array().expect("a list");
    assert_eq!(
        past.iter().map(|one| one["kind"].as_str().expect("a text")).collect::<Vec<_>>(),
        ["split", "merge"]
    );
    assert_eq!((&past[0]["outcome"], &past[0]["items"]), (&json!("done"), &json!(20)));
}

#[tokio::test]
async fn a_report_is_told_in_parts() {
    let (server, _charged) = with_load().await;
    let get = |parts: &str| server.get(format!("{OF_ITEMS}/partitions?parts={parts}"));
    let members = |value: &Value| -> Vec<String> {
        let mut names: Vec<String> = value.as_object().expect("an object").keys().cloned().collect();
        names.sort();
        names
    };
    let keys = get("keys").send().await.expect(200).json();
    assert_eq!(members(&keys), ["container", "database", "generation", "partitions", "rid"]);
    assert_eq!(
        members(&keys["partitions"][0]),
        ["distinctKeys", "hottestKeys", "hottestQueries", "id", "keysCreated", "leaders"]
    );
    assert_eq!(keys["partitions"][0]["keysCreated"]["count"], 20);
    let findings = get("findings,budget").send().await.expect(200).json();
    assert_eq!(findings["findings"][0]["actions"], json!([]));
    assert!(findings["throughput"].is_object() && findings.get("items").is_none());
    let _unknown = get("colours").send().await.refused(400, 0, "no part 'colours'");
}

#[tokio::test]
async fn a_hot_key_has_remedies_with_predictions() {
    let server = Server::start().await;
    let _database = server.post("/dbs").json(json!({ "id": "db" })).send().await.expect(201);
    let key = json!({ "paths": ["/pk"], "kind": "Hash", "version": 2 });
    let create = server.post("/dbs/db/colls").header("x-ms-offer-throughput", "400");
    let _created = create.json(json!({ "id": "items", "partitionKey": key })).send().await.expect(201);
    relocated(&server, "0/split", json!({ "at": "middle" }), &["1", "2"]).await;
    let _hot = server.create(json!({ "id": "1", "pk": "hot" })).await;
    // 250 RU/s are wanted of a partition that has 200.
    for _ in 0..12 * 250 {
        server.clock.advance(std::time::Duration::from_millis(4));
        let _answer = server.item("GET", "1", "[\"hot\"]").send().await;
    }
    let report = server.get(format!("{OF_ITEMS}/partitions?parts=findings")).send().await.expect(200).json();
    let finding = &report["findings"][0];
    assert_eq!(finding["kind"], "singleHotKey", "{report}");
    let kinds: Vec<&str> = finding["actions"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|one| one["kind"].as_str().unwrap_or_default())
        .collect();
    assert!(kinds.contains(&"rekey"), "{finding}");
    let divide =
        finding["actions"].as_array().expect("a list").iter().find(|one| one["kind"] == "redistribute");
    let divide = divide.expect("the other half is idle");
    assert_eq!(divide["predicted"]["throttledShare"], 0.0, "{finding}");
    // A proposal can be applied as it is.
    let body = json!({ "shares": divide["shares"] });
    let _done = server.put(format!("{OF_ITEMS}/throughput")).json(body).send().await.expect(200);
    let map = heat(&server, "window=10m&rows=2").await;
    assert_eq!(map["events"].as_array().expect("a list").len(), 1, "equal totals are no event of throughput");
    let budgets: Vec<f64> = map["epochs"].as_array().expect("a list").last().expect("an epoch")["ranges"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|range| range["budgetRuPerSecond"].as_f64())
        .collect();
    assert_eq!(budgets.iter().sum::<f64>(), 400.0);
}

/// Reads of one key at a rate, for some seconds.
async fn read_hot(server: &Server, per_second: u64, seconds: u64) {
    for _ in 0..per_second * seconds {
        server.clock.advance(Duration::from_millis(1000 / per_second));
        let _answer = server.item("GET", "1", "[\"hot\"]").send().await;
    }
}

#[tokio::test]
async fn a_finding_has_a_time_and_is_cured_when_it_no_longer_holds() {
    let server = Server::start().await;
    let _database = server.post("/dbs").json(json!({ "id": "db" })).send().await.expect(201);
    let key = json!({ "paths": ["/pk"], "kind": "Hash", "version": 2 });
    let create = server.post("/dbs/db/colls").header("x-ms-offer-throughput", "400");
    let _created = create.json(json!({ "id": "items", "partitionKey": key })).send().await.expect(201);
    relocated(&server, "0/split", json!({ "at": "middle" }), &["1", "2"]).await;
    let _hot = server.create(json!({ "id": "1", "pk": "hot" })).await;
    let finding = async || {
        let path = format!("{OF_ITEMS}/partitions?window=1m&parts=findings");
        server.get(path).send().await.expect(200).json()["findings"][0].clone()
    };
    let now = || server.clock.now().milliseconds();
    let began = now();
    read_hot(&server, 500, 6).await;
    let hot = finding().await;
    assert_eq!((&hot["kind"], &hot["until"]), (&json!("singleHotKey"), &Value::Null), "{hot}");
    let since = hot["since"].as_u64().expect("a time");
    assert!((began - 1_000..began + 3_000).contains(&since), "{since} of {began}");
    let divide = hot["actions"].as_array().expect("a list").iter().find(|one| one["kind"] == "redistribute");
    let divide = divide.expect("the other half is idle");
    assert!(divide["shares"].as_object().expect("shares").values().all(|share| share.as_u64() >= Some(20)));
    assert!(divide["predicted"]["throttledShareMax"].as_f64() > Some(0.0), "{divide}");
    let body = json!({ "shares": divide["shares"] });
    let _done = server.put(format!("{OF_ITEMS}/throughput")).json(body).send().await.expect(200);
    let cured_at = now();
    read_hot(&server, 50, 12).await;
    let cured = finding().await;
    assert_eq!((&cured["kind"], &cured["since"]), (&json!("singleHotKey"), &hot["since"]), "{cured}");
    let until = cured["until"].as_u64().expect("a time");
    assert!((cured_at - 2_000..cured_at + 2_000).contains(&until), "{until} of {cured_at}");
    assert_eq!(cured["actions"], json!([]));
    read_hot(&server, 10, 60).await;
    assert_eq!(finding().await["kind"], "nothingWrong");
}

#[tokio::test]
async fn columns_are_named_by_number() {
    let (server, _charged) = with_load().await;
    let whole = heat(&server, "window=10m&rows=4").await;
    let numbers =
        |map: &Value| [&map["firstSequence"], &map["sequence"]].map(|one| one.as_u64().expect("a number"));
    let [first, last] = numbers(&whole);
    assert_eq!(last - first + 1, 600);
    server.clock.advance(Duration::from_millis(2_012));
    let next = heat(&server, &format!("window=10m&rows=4&since={last}")).await;
    assert_eq!(numbers(&next), [last, last + 2]);
}

#[tokio::test]
async fn what_a_map_cannot_show_is_refused_in_words() {
    let (server, _charged) = with_load().await;
    for (query, words) in [
        ("rows=0", "'rows' is 1 to 512"),
        ("rows=513", "'rows' is 1 to 512"),
        ("measure=colour", "none of share, ru, throttled"),
        ("min=20&max=10", "'min'"),
        ("min=zz", "no span"),
        ("window=year", "'year'"),
        ("columns=3", "'columns=3'"),
    ] {
        let _answer = server.get(format!("{OF_ITEMS}/heat?{query}")).send().await.refused(400, 0, words);
    }
    for (query, words) in [("", "is missing"), ("key=a", "'a' is invalid"), ("key=%5B%22a%22,%22b%22%5D", "")]
    {
        let _answer = server.get(format!("{OF_ITEMS}/key?{query}")).send().await.refused(400, 0, words);
    }
    let _method = server.post(format!("{OF_ITEMS}/heat")).send().await.refused(405, 0, "POST");
    let _there = server.get(ITEMS).send().await.expect(200);
}
