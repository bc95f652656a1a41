//! Reads of global secondary indexes that wait for writes of their source.

use futures::future::join_all;
use serde_json::{Value, json};

use crate::harness::{Answer, Server, eventually};

const COLLECTIONS: &str = "/dbs/db/colls";
const AT_LEAST: &str = "x-shardlake-copies-at-least";
const LAG: &str = "x-shardlake-copy-lag-ms";

/// A source `customer` and its index `byEmail`, with settings.
async fn server(settings: Value) -> Server {
    let server = with_source().await;
    index(&server, "byEmail", "customer", settings).await;
    server
}

async fn with_source() -> Server {
    let server = Server::start().await;
    let key = json!({ "paths": ["/pk"], "kind": "Hash", "version": 2 });
    server.create_container(json!({ "id": "customer", "partitionKey": key })).await;
    server
}

async fn index(server: &Server, id: &str, source: &str, settings: Value) {
    index_with_throughput(server, id, source, settings, None).await;
}

async fn index_with_throughput(
    server: &Server,
    id: &str,
    source: &str,
    settings: Value,
    throughput: Option<&str>,
) {
    let definition = json!({ "sourceCollectionId": source, "definition": "SELECT c.email, c.n FROM c",
        "shardlake": settings });
    let body = json!({ "id": id, "partitionKey": { "paths": ["/email"], "kind": "Hash", "version": 2 },
        "globalSecondaryIndexDefinition": definition });
    let mut create = server.post(COLLECTIONS).json(body);
    if let Some(throughput) = throughput {
        create = create.header("x-ms-offer-throughput", throughput);
    }
    create.send().await.expect(201);
    eventually("active", async || {
        let read = server.get(format!("{COLLECTIONS}/{id}")).send().await.expect(200).json();
        read["globalSecondaryIndexDefinition"]["status"] == "Active"
    })
    .await;
}

async fn write(server: &Server, id: &str, email: &str, n: u32) -> Answer {
    let call = server.post(format!("{COLLECTIONS}/customer/docs")).key(r#"["p"]"#);
    let call = call.header("x-ms-documentdb-is-upsert", "true");
    let answer = call.json(json!({ "id": id, "pk": "p", "email": email, "n": n })).send().await;
    assert!(matches!(answer.status, 200 | 201), "{answer:?}");
    answer
}

fn by_email<'s>(server: &'s Server, email: &str) -> crate::harness::Call<'s> {
    server.get(format!("{COLLECTIONS}/byEmail/docs")).key(&json!([email]).to_string())
}

async fn order(server: &Server, action: &str) -> Value {
    let path = format!("/_shardlake/v1/copies/index/db/byEmail/{action}");
    server.post(path).send().await.expect(200).json()
}

#[tokio::test]
async fn a_read_with_the_token_of_a_write_finds_it() {
    let server = server(json!({})).await;
    for n in 0..200 {
        let email = format!("e{}", n % 7);
        let written = write(&server, "1", &email, n).await;
        let token = written.header("x-ms-session-token").expect("a token").to_owned();
        let at_least = if n % 2 == 0 { token } else { "now".to_owned() };
        let read = by_email(&server, &email).header(AT_LEAST, &at_least).send().await.expect(200);
        let rows = read.json()["Documents"].as_array().expect("rows").clone();
        assert_eq!(rows.len(), 1, "{n}: {rows:?}");
        assert_eq!(rows[0]["n"], n);
        assert_eq!(read.header(LAG), Some("0"));
    }
}

#[tokio::test]
async fn every_kind_of_read_waits_by_the_definition() {
    let server = server(json!({ "reads": "caughtUp" })).await;
    let documents = |answer: Answer| answer.expect(200).json()["Documents"].as_array().expect("rows").len();
    for n in 0..40 {
        write(&server, &n.to_string(), &format!("e{n}"), n).await;
        let path = format!("{COLLECTIONS}/byEmail/docs");
        let count = match n % 4 {
            0 => documents(by_email(&server, &format!("e{n}")).send().await),
            1 => {
                let query = json!({ "query": "SELECT * FROM c WHERE c.n = @n", "parameters": [{ "name": "@n", "value": n }] });
                let call = server.post(&path).header("x-ms-documentdb-isquery", "true");
                let call = call.header("content-type", "application/query+json");
                documents(
                    call.header("x-ms-documentdb-query-enablecrosspartition", "true")
                        .json(query)
                        .send()
                        .await,
                )
            }
            2 => {
                let call = server.get(&path).header("a-im", "Incremental feed");
                documents(call.key(&json!([format!("e{n}")]).to_string()).send().await)
            }
            _ => documents(server.get(&path).header("x-ms-max-item-count", "-1").send().await) - n as usize,
        };
        assert_eq!(count, 1, "{n}");
    }
}

#[tokio::test]
async fn a_stopped_index_refuses_what_it_lacks_and_answers_what_it_has() {
    let server = server(json!({})).await;
    let old = write(&server, "1", "a", 1).await;
    by_email(&server, "a").header(AT_LEAST, "now").send().await.expect(200);
    order(&server, "pause").await;
    by_email(&server, "a").header(AT_LEAST, "now").send().await.expect(200);
    let new = write(&server, "2", "a", 2).await;
    let words = "shardlake copies resume db/byEmail";
    by_email(&server, "a").header(AT_LEAST, "now").send().await.refused(503, 0, words);
    let token = new.header("x-ms-session-token").expect("a token");
    let refused = by_email(&server, "a").header(AT_LEAST, token).send().await;
    refused.refused(503, 0, "is Paused, and lacks writes of 'customer'");
    let token = old.header("x-ms-session-token").expect("a token");
    by_email(&server, "a").header(AT_LEAST, token).send().await.expect(200);
    server.clock.advance(std::time::Duration::from_millis(1500));
    let read = by_email(&server, "a").send().await.expect(200);
    assert_eq!(read.header(LAG), Some("1500"), "{read:?}");
    order(&server, "resume").await;
    let read = by_email(&server, "a").header(AT_LEAST, "now").send().await.expect(200);
    assert_eq!(read.json()["_count"], 2);
}

#[tokio::test]
async fn an_index_of_an_index_has_everything_of_the_first_source() {
    let server = server(json!({})).await;
    index(&server, "again", "byEmail", json!({ "reads": "caughtUp" })).await;
    for n in 0..50 {
        write(&server, "1", "a", n).await;
        let read = server.get(format!("{COLLECTIONS}/again/docs")).key(r#"["a"]"#).send().await.expect(200);
        assert_eq!(read.json()["Documents"][0]["n"], n);
    }
}

#[tokio::test]
async fn what_cannot_be_waited_for_is_refused() {
    let server = server(json!({})).await;
    write(&server, "1", "a", 1).await;
    let ask = |value: &str| by_email(&server, "a").header(AT_LEAST, value).send();
    for value in ["soon", ",", "0:x"] {
        ask(value).await.refused(400, 0, AT_LEAST);
    }
    ask("0:1#1").await.refused(400, 0, "of another container, or of an earlier 'customer'");
    let version = 1_700_000_000_000_u64;
    ask(&format!("0:{version}#99999")).await.refused(404, 1002, "LSN 99999");
    // Containers that follow no other have all their writes.
    let of_source = server.get(format!("{COLLECTIONS}/customer/docs")).header(AT_LEAST, "now");
    let read = of_source.send().await.expect(200);
    assert_eq!(read.header(LAG), None);
}

/// The time of this runtime goes on by itself when nothing else happens.
#[tokio::test(start_paused = true)]
async fn a_read_that_waits_too_long_is_refused_and_costs_nothing() {
    let server = with_source().await;
    // Its budget is spent for good by the rows of the first writes: the clock of budgets stands still.
    index_with_throughput(&server, "byEmail", "customer", json!({}), Some("400")).await;
    for n in 0..400 {
        write(&server, &n.to_string(), &format!("e{n}"), n).await;
    }
    let reads = (0..20).map(|_| by_email(&server, "e399").header(AT_LEAST, "now").send());
    for answer in join_all(reads).await {
        let refused = answer.refused(408, 0, "lacks writes of 'customer' that this read asks for");
        assert_eq!(refused.charge(), 0.0);
    }
}

#[tokio::test]
async fn settings_change_and_those_that_cannot_are_refused_by_name() {
    let server = server(json!({})).await;
    let path = "/_shardlake/v1/copies/index/db/byEmail";
    let patch = |body: Value| server.call("PATCH", path).json(body).send();
    let changed = patch(json!({ "reads": "caughtUp", "charge": "none" })).await.expect(200).json();
    assert_eq!(
        (&changed["settings"]["reads"], &changed["settings"]["charge"]),
        (&json!("caughtUp"), &json!("none"))
    );
    for n in 0..20 {
        write(&server, "1", &format!("e{n}"), n).await;
        let read = by_email(&server, &format!("e{n}")).send().await.expect(200);
        assert_eq!(read.json()["_count"], 1, "{n}");
    }
    let shown = server.get(format!("{COLLECTIONS}/byEmail")).send().await.expect(200).json();
    assert_eq!(shown["globalSecondaryIndexDefinition"]["shardlake"]["reads"], "caughtUp");
    patch(json!({ "unique": true })).await.refused(400, 0, "'unique' cannot be changed");
    patch(json!({ "deadLetters": "x" })).await.refused(501, 0, "deadLetters");
    patch(json!({ "definition": "SELECT" })).await.refused(400, 0, "no setting 'definition'");
    patch(json!({ "reads": "soon" })).await.refused(400, 0, "caughtUp");
    // A source that keeps rows of expired items lists no index for them.
    let listed = || async {
        let source = server.get(format!("{COLLECTIONS}/customer")).send().await.expect(200).json();
        source["materializedViews"].as_array().map_or(0, Vec::len)
    };
    assert_eq!(listed().await, 1);
    patch(json!({ "expired": "keep" })).await.expect(200);
    assert_eq!(listed().await, 0);
}

#[tokio::test]
async fn a_unique_index_is_looked_up_by_a_point_read() {
    let server = server(json!({ "unique": true, "reads": "caughtUp" })).await;
    for (id, email, n) in
        [("b", "ada@example.com", 1), ("c", "bob@example.com", 2), ("a", "ada@example.com", 3)]
    {
        write(&server, id, email, n).await;
    }
    let read = |email: &'static str| {
        let key = json!([email]).to_string();
        server.get(format!("{COLLECTIONS}/byEmail/docs/{email}")).key(&key).send()
    };
    let ada = read("ada@example.com").await.expect(200);
    assert_eq!(
        (&ada.json()["_id"], &ada.json()["n"]),
        (&json!("a"), &json!(3)),
        "the least item has the name"
    );
    assert!(ada.charge() <= 1.0, "{}", ada.charge());
    assert_eq!(read("bob@example.com").await.expect(200).json()["_id"], "c");
    let path = "/_shardlake/v1/copies/index/db/byEmail";
    let found = server.get(format!("{path}/duplicates")).send().await.expect(200).json();
    assert_eq!(found["count"], 1);
    assert_eq!(
        (&found["duplicates"][0]["_id"], &found["duplicates"][0]["partitionKey"][0]),
        (&json!("b"), &json!("ada@example.com"))
    );
    let report = server.get(path).send().await.expect(200).json();
    assert_eq!(report["counts"]["duplicates"], 1);
    // The name passes on.
    let deleted = server.delete(format!("{COLLECTIONS}/customer/docs/a")).key(r#"["p"]"#).send().await;
    deleted.expect(204);
    assert_eq!(read("ada@example.com").await.expect(200).json()["_id"], "b");
    let report = server.post(format!("{path}/verify")).send().await.expect(200).json();
    assert!(report["state"] == "running" || report["state"] == "done", "{report}");
    eventually("verified", async || {
        let report = server.get(format!("{path}/verify")).send().await.expect(200).json();
        assert_eq!(report["counts"]["differences"], 0, "{report}");
        report["state"] == "done"
    })
    .await;
    server.post(format!("{path}/verify?repair=maybe")).send().await.refused(400, 0, "repair");
    let other = json!({ "sourceCollectionId": "customer", "definition": "SELECT c.email, c._row FROM c",
        "shardlake": { "unique": true } });
    let body = json!({ "id": "other", "partitionKey": { "paths": ["/email"], "kind": "Hash", "version": 2 },
        "globalSecondaryIndexDefinition": other });
    server.post(COLLECTIONS).json(body).send().await.refused(400, 0, "'_row'");
}
