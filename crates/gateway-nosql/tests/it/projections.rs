//! Projections over the operator's interface: created, shown, paused, resumed, deleted, and refused.

use serde_json::{Value, json};

use crate::harness::{READ_ONLY_KEY, Server, eventually};

const ALL: &str = "/_shardlake/v1/projections";
const NAMES: &str = "/_shardlake/v1/projections/names";

fn rule() -> Value {
    json!({
        "source": { "database": "db", "container": "items", "filter": { "/type": "category" } },
        "target": { "database": "db", "container": "products" },
        "match": [{ "source": "/id", "target": "/categoryId" }],
        "set": [{ "from": "/name", "to": "/categoryName" }],
    })
}

async fn server() -> Server {
    let server = Server::with_container().await;
    let definition = json!({ "id": "products", "partitionKey": { "paths": ["/categoryId"], "kind": "Hash", "version": 2 } });
    let _created = server.post("/dbs/db/colls").json(definition.clone()).send().await.expect(201);
    server
}

async fn report(server: &Server) -> Value {
    server.get(NAMES).send().await.expect(200).json()
}

#[tokio::test]
async fn a_projection_is_created_followed_paused_and_deleted() {
    let server = server().await;
    let category = json!({ "id": "c1", "pk": "x", "type": "category", "name": "Bikes" });
    let _created = server.create(category).await;
    let product = json!({ "id": "p1", "categoryId": "c1", "categoryName": "?" });
    let path = "/dbs/db/colls/products/docs";
    let key = ("x-ms-documentdb-partitionkey", "[\"c1\"]");
    let _created = server.post(path).json(product.clone()).header(key.0, key.1).send().await.expect(201);
    let created = server.put(NAMES).json(rule()).send().await.expect(201).json();
    assert_eq!((&created["id"], &created["rule"]["id"]), (&json!("names"), &json!("names")));
    assert_eq!(created["rule"]["deadLetters"], "projectionErrors");
    let mut seen = Value::Null;
    eventually("everything is projected", async || {
        seen = report(&server).await;
        seen["lag"]["changes"] == 0
    })
    .await;
    assert_eq!((&seen["state"], &seen["counts"]["applied"]), (&json!("running"), &json!(1)), "{seen}");
    let product = server.get(format!("{path}/p1")).header(key.0, key.1).send().await.expect(200).json();
    assert_eq!(product["categoryName"], "Bikes");
    // The same again is no change.
    let _same = server.put(NAMES).json(rule()).send().await.expect(200);
    let paused = server.call("POST", format!("{NAMES}/pause")).send().await.expect(200).json();
    assert_eq!(paused["state"], "paused");
    let resumed = server.call("POST", format!("{NAMES}/resume")).send().await.expect(200).json();
    assert_eq!(resumed["state"], "running");
    let all = server.get(ALL).send().await.expect(200).json();
    assert_eq!(all["projections"].as_array().map(Vec::len), Some(1));
    let _deleted = server.call("DELETE", NAMES.to_owned()).send().await.expect(204);
    let _gone = server.get(NAMES).send().await.refused(404, 0, "there is no projection 'names'");
    let _gone = server.call("DELETE", NAMES.to_owned()).send().await.refused(404, 0, "no projection");
}

#[tokio::test]
async fn rules_that_cannot_be_kept_are_refused_with_the_reason() {
    let server = server().await;
    let with = |member: &str, value: Value| {
        let mut rule = rule();
        rule[member] = value;
        rule
    };
    let nowhere = json!({ "database": "db", "container": "none" });
    let of_items = json!({ "database": "db", "container": "items" });
    for (rule, reason) in [
        (with("id", json!("other")), "and the path 'names'"),
        (with("sets", json!([])), "unknown field"),
        (with("target", nowhere.clone()), "'db/none', does not exist"),
        (with("source", nowhere), "'db/none', does not exist"),
        (with("set", json!([{ "from": "/name", "to": "/categoryId" }])), "looks for"),
        (with("deadLetters", json!("products")), "dead letters need"),
        (json!([]), "it is no object"),
    ] {
        let _refused = server.put(NAMES).json(rule.clone()).send().await.refused(400, 0, reason);
    }
    // Within one container a rule may not write a member that it reads.
    let mut circle = with("target", of_items);
    circle["set"] = json!([{ "from": "/name", "to": "/type" }]);
    let _refused = server.put(NAMES).json(circle.clone()).send().await.refused(400, 0, "would feed itself");
    circle["set"] = json!([{ "from": "/name", "to": "/pk" }]);
    let _refused = server.put(NAMES).json(circle.clone()).send().await.refused(400, 0, "partition key");
    let _none = server.put(NAMES).json(rule()).send().await.expect(201);
    let other = "/_shardlake/v1/projections/other";
    let _refused = server.put(other).json(rule()).send().await.refused(400, 0, "sets the same copies");
}

#[tokio::test]
async fn projections_are_signed_for_and_a_read_only_key_looks() {
    let server = server().await;
    for (method, path) in [("GET", ALL), ("PUT", NAMES), ("DELETE", NAMES)] {
        let call = server.call(method, path.to_owned()).unsigned();
        let _refused = call.send().await.refused(401, 0, "authorization is missing");
    }
    let _all = server.get(ALL).signed_with(READ_ONLY_KEY).send().await.expect(200);
    let refused = server.put(NAMES).json(rule()).signed_with(READ_ONLY_KEY).send().await;
    let _refused = refused.refused(403, 0, "read-only key");
    let _refused = server.call("POST", ALL.to_owned()).send().await.refused(405, 0, "POST");
    let _refused = server.get("/_shardlake/v1/projections?x=1").send().await.refused(400, 0, "'x=1'");
}
