//! Functions over the operator's interface: created, shown, tried, paused, resumed, deleted, and refused.

use serde_json::{Value, json};

use crate::harness::{READ_ONLY_KEY, Server, eventually};

const ALL: &str = "/_shardlake/v1/copies";
const COPY: &str = "/_shardlake/v1/copies/functions/copy";
const CODE: &str = "async function (changes, context) {
    for (const { id, current } of changes) context.container('other').upsert({ id, kind: current?.type });
    console.log('copied', changes.length); }";

fn definition() -> Value {
    json!({
        "source": { "database": "db", "container": "items", "filter": { "/type": "category" } },
        "access": { "other": "readWrite" }, "code": CODE,
    })
}

async fn server() -> Server {
    let server = Server::with_container().await;
    let definition =
        json!({ "id": "other", "partitionKey": { "paths": ["/id"], "kind": "Hash", "version": 2 } });
    let _created = server.post("/dbs/db/colls").json(definition).send().await.expect(201);
    server
}

async fn report(server: &Server) -> Value {
    server.get(COPY).send().await.expect(200).json()
}

async fn post(server: &Server, action: &str, body: Value) -> Value {
    server.call("POST", format!("{COPY}/{action}")).json(body).send().await.expect(200).json()
}

#[tokio::test]
async fn a_function_is_put_followed_tried_paused_and_deleted() {
    let server = server().await;
    for (id, kind) in [("c1", "category"), ("c2", "category"), ("t1", "tag")] {
        let _created = server.create(json!({ "id": id, "pk": "x", "type": kind })).await;
    }
    let created = server.put(COPY).json(definition()).send().await.expect(201).json();
    assert_eq!(
        (&created["name"], &created["kind"], &created["version"]),
        (&json!("copy"), &json!("function"), &json!(1))
    );
    assert_eq!(
        (&created["definition"]["code"], &created["definition"]["batch"]["changes"]),
        (&json!(CODE), &json!(100))
    );
    let mut seen = Value::Null;
    eventually("everything is copied", async || {
        seen = report(&server).await;
        seen["lag"]["changes"] == 0
    })
    .await;
    assert_eq!((&seen["status"], &seen["counts"]["written"]), (&json!("Active"), &json!(2)), "{seen}");
    let _same = server.put(COPY).json(definition()).send().await.expect(200);
    let lines = server.get(format!("{COPY}/log")).send().await.expect(200).json();
    assert!(lines["lines"][0]["text"].as_str().is_some_and(|text| text.starts_with("copied")), "{lines}");
    let trial = post(&server, "try", json!({ "last": 1 })).await;
    assert_eq!(
        trial["writes"],
        json!([{ "container": "other", "operation": "upsert", "item": { "id": "c2", "kind": "category" } }])
    );
    assert_eq!((&trial["error"], &trial["changes"][0]["id"]), (&Value::Null, &json!("c2")), "{trial}");
    assert_eq!(post(&server, "pause", json!({})).await["status"], "Paused");
    let all = server.get(ALL).send().await.expect(200).json();
    assert_eq!((&all["copies"][0]["name"], &all["copies"][0]["status"]), (&json!("copy"), &json!("Paused")));
    assert_eq!(all["copies"][0]["definition"].get("code"), None, "the list has no code");
    let replayed = post(&server, "replay", json!({ "from": "beginning" })).await;
    assert_eq!(
        (&replayed["places"][0]["lsn"], &replayed["status"]),
        (&json!(0), &json!("Paused")),
        "{replayed}"
    );
    let mut other = definition();
    other["code"] = "async function (changes, context) { }".into();
    let _replaced = server.put(COPY).json(other).send().await.expect(200);
    assert_eq!(post(&server, "rollback", json!({})).await["version"], 3);
    let versions = server.get(format!("{COPY}/versions")).send().await.expect(200).json();
    assert_eq!(versions["versions"].as_array().map(Vec::len), Some(3), "{versions}");
    assert_eq!(versions["versions"][2]["code"], CODE);
    assert_eq!(post(&server, "resume", json!({})).await["status"], "Active");
    let _deleted = server.call("DELETE", COPY.to_owned()).send().await.expect(204);
    let _gone = server.get(COPY).send().await.refused(404, 0, "there is no function 'copy'");
}

#[tokio::test]
async fn functions_that_cannot_run_are_refused_with_the_reason() {
    let server = server().await;
    let with = |member: &str, value: Value| {
        let mut definition = definition();
        definition[member] = value;
        definition
    };
    for (definition, status, reason) in [
        (with("id", json!("other")), 400, "and the path 'copy'"),
        (with("colour", json!(1)), 400, "unknown field `colour`"),
        (with("access", json!({ "none": "read" })), 400, "'db/none'"),
        (with("access", json!({ "other": "write" })), 400, "unknown variant `write`"),
        (with("code", json!("function (")), 400, "code"),
        (with("timeoutSeconds", json!(0)), 400, "timeoutSeconds"),
        (with("mode", json!("allVersions")), 501, "allVersions"),
        (with("lanes", json!(4)), 501, "lane"),
    ] {
        let _refused = server.put(COPY).json(definition).send().await.refused(status, 0, reason);
    }
    let _created = server.put(COPY).json(definition()).send().await.expect(201);
    let replay = server.call("POST", format!("{COPY}/replay")).json(json!({ "from": "yesterday" }));
    let _refused = replay.send().await.refused(400, 0, "beginning");
    let _refused = server.call("PATCH", COPY.to_owned()).send().await.refused(405, 0, "PATCH");
}

#[tokio::test]
async fn a_read_only_key_looks_at_functions_and_changes_none() {
    let server = server().await;
    let _created = server.put(COPY).json(definition()).send().await.expect(201);
    for path in [COPY.to_owned(), format!("{COPY}/log"), format!("{COPY}/versions"), ALL.to_owned()] {
        let _seen = server.get(path).signed_with(READ_ONLY_KEY).send().await.expect(200);
    }
    let _refused = server.put(COPY).json(definition()).signed_with(READ_ONLY_KEY).send().await.expect(403);
    for action in ["pause", "resume", "try", "replay", "rollback"] {
        let call = server.call("POST", format!("{COPY}/{action}")).json(json!({})).signed_with(READ_ONLY_KEY);
        let _refused = call.send().await.expect(403);
    }
}
