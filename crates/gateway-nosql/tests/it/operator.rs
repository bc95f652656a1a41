//! The operator's interface: access, reports, operations, and refusals.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{READ_ONLY_KEY, Server, eventually};

const OF_ITEMS: &str = "/_shardlake/v1/dbs/db/colls/items";
const PARTITIONS: &str = "/_shardlake/v1/dbs/db/colls/items/partitions";

async fn report(server: &Server) -> Value {
    server.get(PARTITIONS).send().await.expect(200).json()
}

/// The report after the relocation to these ranges has ended.
async fn settled(server: &Server, targets: &[&str]) -> Value {
    let mut seen = Value::Null;
    eventually("the end of the relocation", async || {
        seen = report(server).await;
        seen["lastRelocation"]["targets"] == json!(targets)
    })
    .await;
    assert_eq!(seen["relocation"], Value::Null);
    seen
}

fn ids(report: &Value) -> Vec<&str> {
    let partitions = report["partitions"].as_array().expect("a list");
    partitions.iter().map(|partition| partition["id"].as_str().expect("a text")).collect()
}

async fn with_items(count: usize) -> Server {
    let server = Server::with_container().await;
    for number in 0..count {
        let _created = server.create(json!({ "id": format!("i{number}"), "pk": format!("k{number}") })).await;
    }
    server
}

#[tokio::test]
async fn every_path_asks_for_a_signature_before_it_looks_at_anything() {
    let server = Server::with_container().await;
    for (method, path) in [
        ("GET", "/_shardlake/v1/partitions".to_owned()),
        ("GET", PARTITIONS.to_owned()),
        ("GET", "/_shardlake/v1/dbs/none/colls/none/partitions".to_owned()),
        ("POST", format!("{PARTITIONS}/0/split")),
        ("POST", format!("{PARTITIONS}/merge")),
        ("POST", format!("{PARTITIONS}/0/move")),
        ("POST", format!("{OF_ITEMS}/relocation/abort")),
        ("PUT", format!("{OF_ITEMS}/throughput")),
    ] {
        let unsigned = server.call(method, path.clone()).unsigned().send().await;
        let _answer = unsigned.refused(401, 0, "authorization is missing");
        let _answer = server
            .call(method, path)
            .unsigned()
            .header("x-ms-date", "Tue, 14 Nov 2023 22:13:20 GMT")
            .header("authorization", "type%3dmaster%26ver%3d1.0%26sig%3dAAAA")
            .send()
            .await
            .refused(401, 0, "shardlake\\n_shardlake/v1/");
    }
}

#[tokio::test]
async fn a_read_only_key_looks_and_does_not_touch() {
    let server = Server::with_container().await;
    let _report = server.get(PARTITIONS).signed_with(READ_ONLY_KEY).send().await.expect(200);
    let _all = server.get("/_shardlake/v1/partitions").signed_with(READ_ONLY_KEY).send().await.expect(200);
    for (method, path) in [
        ("POST", format!("{PARTITIONS}/0/split")),
        ("POST", format!("{OF_ITEMS}/relocation/abort")),
        ("PUT", format!("{OF_ITEMS}/throughput")),
    ] {
        // A header that makes a POST a query elsewhere makes no difference.
        let call = server.call(method, path).signed_with(READ_ONLY_KEY);
        let call = call.header("x-ms-documentdb-isquery", "True");
        let _answer = call.send().await.refused(403, 0, "read-only key");
    }
    assert_eq!(ids(&report(&server).await), ["0"]);
}

#[tokio::test]
async fn a_report_shows_ranges_sizes_and_throughput() {
    let server = with_items(20).await;
    let shown = report(&server).await;
    assert_eq!(shown["database"], "db");
    assert_eq!(shown["container"], "items");
    assert_eq!(shown["partitionKey"], json!(["/pk"]));
    assert_eq!(shown["items"], 20);
    let partition = &shown["partitions"][0];
    assert_eq!(partition["id"], "0");
    assert_eq!(partition["parents"], json!([]));
    assert_eq!((&partition["minInclusive"], &partition["maxExclusive"]), (&json!(""), &json!("FF")));
    assert_eq!((&partition["shard"], &partition["items"]), (&json!(0), &json!(20)));
    assert_eq!(partition["lsn"], 20);
    assert!(partition["sizeBytes"].as_u64().expect("a number") > 0);
    assert_eq!(partition["next"], "stays as it is");
    assert_eq!(partition["largestKeys"].as_array().expect("a list").len(), 10);
    assert_eq!(partition["largestKeys"][0]["items"], 1);
    assert_eq!(partition["load"]["windowSeconds"], 10, "it has not been there for longer");
    assert!(partition.get("series").is_none());
    let longer = server.get(format!("{PARTITIONS}?window=6h")).send().await.expect(200).json();
    assert_eq!(longer["partitions"][0]["series"]["periodSeconds"], 60);
    let wrong = server.get(format!("{PARTITIONS}?window=year")).send().await;
    let _answer = wrong.refused(400, 0, "the window 'year' is invalid");
    assert_eq!(shown["findings"][0]["kind"], "nothingWrong");
    assert_eq!(shown["findings"][0]["partition"], Value::Null);
    // The default throughput was not requested, so it is not enforced.
    assert_eq!(shown["throughput"]["mode"], "manual");
    assert_eq!(shown["throughput"]["ruPerSecond"], 400);
    assert_eq!(shown["throughput"]["enforced"], false);
    let all = server.get("/_shardlake/v1/partitions").send().await.expect(200).json();
    assert_eq!(all["containers"][0]["container"], "items");
    assert_eq!(all["containers"][0]["partitions"], 1);
}

#[tokio::test]
async fn a_hot_key_shows_in_load_throttling_and_diagnosis() {
    let server = Server::start().await;
    let _database = server.post("/dbs").json(json!({ "id": "db" })).send().await.expect(201);
    let key = json!({ "paths": ["/pk"], "kind": "Hash", "version": 2 });
    let create = server.post("/dbs/db/colls").header("x-ms-offer-throughput", "400");
    let _created = create.json(json!({ "id": "items", "partitionKey": key })).send().await.expect(201);
    let _cold = server.create(json!({ "id": "1", "pk": "cold" })).await;
    let _hot = server.create(json!({ "id": "1", "pk": "hot" })).await;
    let mut refused = 0;
    for _ in 0..600 {
        let answer = server.item("GET", "1", "[\"hot\"]").send().await;
        refused += u64::from(answer.status == 429);
    }
    assert!(refused > 50, "{refused}");
    server.clock.advance(Duration::from_secs(1));
    let shown = report(&server).await;
    let partition = &shown["partitions"][0];
    assert_eq!(partition["budget"]["refusedOperations"], refused);
    assert_eq!(partition["load"]["throttled"], refused);
    assert_eq!(partition["load"]["share"], 1.0);
    assert!(partition["load"]["normalizedRu"].as_f64().expect("a share") > 0.4, "{partition}");
    assert_eq!(partition["hottestKeys"][0]["key"], "[\"hot\"]");
    assert_eq!(partition["distinctKeys"]["count"], 2);
    assert_eq!(shown["findings"][0]["kind"], "singleHotKey");
    assert_eq!(shown["findings"][0]["partition"], "0");
    assert_eq!(shown["findings"][0]["windowSeconds"], 10, "as long as there is the partition");
    let remedy = shown["findings"][0]["remedy"].as_str().expect("words");
    assert!(remedy.contains("split does not help"), "{remedy}");
}

#[tokio::test]
async fn a_split_and_a_merge_are_begun_seen_and_ended() {
    let server = with_items(50).await;
    let begun = server.post(format!("{PARTITIONS}/0/split")).send().await.expect(202).json();
    assert_eq!(begun, json!({ "kind": "split", "targets": ["1", "2"], "generation": 1 }));
    let split = settled(&server, &["1", "2"]).await;
    assert_eq!(ids(&split), ["1", "2"]);
    assert_eq!(split["partitions"][0]["parents"], json!(["0"]));
    assert_eq!(split["items"], 50);
    assert_eq!(split["lastRelocation"]["outcome"], "done");
    assert_eq!(split["lastRelocation"]["items"], 50);
    let bound = split["partitions"][1]["minInclusive"].as_str().expect("a bound").to_owned();
    assert_eq!(split["partitions"][0]["maxExclusive"], bound.as_str());

    let merge = server.post(format!("{PARTITIONS}/merge")).json(json!({ "ids": ["2", 1] }));
    assert_eq!(merge.send().await.expect(202).json()["targets"], json!(["3"]));
    let merged = settled(&server, &["3"]).await;
    assert_eq!(ids(&merged), ["3"]);
    assert_eq!(merged["items"], 50);

    let split = server.post(format!("{PARTITIONS}/3/split")).json(json!({ "at": bound }));
    let _begun = split.send().await.expect(202);
    assert_eq!(settled(&server, &["4", "5"]).await["partitions"][1]["minInclusive"], bound.as_str());
    let aborted = server.post(format!("{OF_ITEMS}/relocation/abort")).send().await.expect(200).json();
    assert_eq!(aborted, json!({ "aborted": false }), "there is none");
}

#[tokio::test]
async fn throughput_is_divided_by_hand() {
    let server = Server::start().await;
    let _database = server.post("/dbs").json(json!({ "id": "db" })).send().await.expect(201);
    let definition =
        json!({ "id": "items", "partitionKey": { "paths": ["/pk"], "kind": "Hash", "version": 2 } });
    let create = server.post("/dbs/db/colls").header("x-ms-offer-throughput", "12000");
    let _created = create.json(definition).send().await.expect(201);
    let rates = |report: &Value| {
        let partitions = report["partitions"].as_array().expect("a list").iter();
        partitions
            .map(|partition| partition["budget"]["ruPerSecond"].as_f64().expect("a rate"))
            .collect::<Vec<_>>()
    };
    let shown = report(&server).await;
    assert_eq!(shown["throughput"]["enforced"], true);
    assert_eq!(rates(&shown), [6000.0, 6000.0]);
    let put = |body| server.put(format!("{OF_ITEMS}/throughput")).json(body);
    let divided = put(json!({ "shares": { "0": 8000, "1": 4000 } })).send().await.expect(200).json();
    assert_eq!(rates(&divided), [8000.0, 4000.0]);
    let _refused = put(json!({ "shares": { "0": 9000 } })).send().await.refused(400, 0, "add up to 13000");
    let resized = put(json!({ "shares": { "0": 9000 }, "resize": true })).send().await.expect(200).json();
    assert_eq!(resized["throughput"]["ruPerSecond"], 13000);
    let _refused = put(json!({ "shares": { "7": 9000 } })).send().await.refused(400, 0, "'7'");
    let equal = put(json!({ "shares": {} })).send().await.expect(200).json();
    assert_eq!(rates(&equal), [6500.0, 6500.0]);
}

#[tokio::test]
async fn what_cannot_be_done_is_refused_in_words() {
    let server = with_items(3).await;
    let post = |path: &str, body: Value| server.post(format!("{PARTITIONS}/{path}")).json(body);
    for (path, body, status, substatus, words) in [
        ("7/split", json!({}), 410, 1002, "partition key range 7"),
        ("x/split", json!({}), 400, 0, "'x' is no id"),
        ("0/split", json!({ "at": "zz" }), 400, 0, "bound"),
        ("0/split", json!({ "at": "FF" }), 400, 0, "does not lie inside"),
        ("0/split", json!({ "where": "middle" }), 400, 0, "unknown field `where`"),
        ("0/split", json!([1, 2]), 400, 0, "not what this path takes"),
        ("0/move", json!({ "shard": 9 }), 400, 0, "there is no shard 9"),
        ("0/move", json!({ "shard": 0 }), 400, 0, "already"),
        ("0/move", json!({}), 400, 0, "missing field `shard`"),
        ("merge", json!({ "ids": ["0"] }), 400, 0, "two or more ranges"),
        ("merge", json!({ "ids": ["0", "9"] }), 410, 1002, "partition key range 9"),
    ] {
        let _answer = post(path, body).send().await.refused(status, substatus, words);
    }
    let _missing = server.get("/_shardlake/v1/dbs/db/colls/none/partitions").send().await.expect(404);
    let _missing = server.get("/_shardlake/v1/dbs/none/colls/none/partitions").send().await.expect(404);
    let _missing =
        server.get("/_shardlake/v1/nothing").send().await.refused(404, 0, "'/_shardlake/v1/nothing'");
    let _method = server.delete(PARTITIONS).send().await.refused(405, 0, "DELETE");
    let _method = server.post(PARTITIONS).send().await.refused(405, 0, "POST");
    let _method = server.get(format!("{OF_ITEMS}/throughput")).send().await.refused(405, 0, "GET");
    let _unknown =
        server.get(format!("{PARTITIONS}?colour=blue")).send().await.refused(400, 0, "colour=blue");
    assert_eq!(ids(&report(&server).await), ["0"], "nothing was done");
}
