//! Stored procedures, triggers and user-defined functions as resources, and procedures at work.

use serde_json::json;

use crate::harness::{ITEMS, Server};

const CONTAINER: &str = "/dbs/db/colls/items";

/// Feed's segment, member of its body, and a definition.
fn kinds() -> [(&'static str, &'static str, serde_json::Value); 3] {
    let body = "function () { }";
    [
        ("sprocs", "StoredProcedures", json!({ "id": "a script", "body": body })),
        (
            "triggers",
            "Triggers",
            json!({ "id": "a script", "body": body, "triggerType": "pre", "triggerOperation": "All" }),
        ),
        ("udfs", "UserDefinedFunctions", json!({ "id": "a script", "body": body })),
    ]
}

#[tokio::test]
async fn feeds_are_empty_at_first_and_what_is_not_there_is_404() {
    let server = Server::with_container().await;
    for (segment, member, definition) in kinds() {
        let feed = format!("{CONTAINER}/{segment}");
        let page = server.get(feed.as_str()).send().await.expect(200);
        assert_eq!(page.json()[member], json!([]), "{segment}");
        assert_eq!((page.header("x-ms-item-count"), page.json()["_count"].as_u64()), (Some("0"), Some(0)));
        let one = format!("{feed}/none");
        server.get(one.as_str()).send().await.refused(404, 0, "does not exist");
        server.delete(one.as_str()).send().await.refused(404, 0, "does not exist");
        server.put(one.as_str()).json(definition).send().await.refused(404, 0, "does not exist");
        server.put(feed.as_str()).json(json!({})).send().await.expect(405);
        server.get(format!("/dbs/db/colls/none/{segment}")).send().await.refused(404, 1003, "Owner resource");
        let stale = server.get(feed.as_str()).header("x-ms-cosmos-intended-collection-rid", "AAAAAQAAAAE=");
        stale.send().await.refused(400, 1024, "refresh");
    }
    server.post(format!("{CONTAINER}/sprocs/none")).key("[1]").send().await.refused(
        404,
        0,
        "stored procedure",
    );
    server.post(format!("{CONTAINER}/udfs/none")).send().await.expect(405);
}

#[tokio::test]
async fn malformed_definitions_are_refused() {
    let server = Server::with_container().await;
    for (segment, _, definition) in kinds() {
        let create = |body: serde_json::Value| server.post(format!("{CONTAINER}/{segment}")).json(body);
        for member in definition.as_object().expect("an object").keys() {
            let mut without = definition.clone();
            without.as_object_mut().expect("an object").remove(member);
            create(without).send().await.refused(400, 0, &format!("'{member}; '"));
        }
        let with = |member: &str, value: serde_json::Value| {
            let mut changed = definition.clone();
            changed[member] = value;
            create(changed)
        };
        with("id", json!("a/b")).send().await.refused(400, 0, "choose another");
        with("id", json!("x".repeat(256))).send().await.refused(400, 0, "less than '255'");
        with("body", json!("")).send().await.refused(400, 0, "empty body");
        with("body", json!("x".repeat(600_000))).send().await.refused(413, 0, "at most");
        with("language", json!("wasm")).send().await.refused(501, 0, "language");
    }
    let trigger = |member: &str, value: &str| {
        let mut changed = kinds()[1].2.clone();
        changed[member] = json!(value);
        server.post(format!("{CONTAINER}/triggers")).json(changed)
    };
    trigger("triggerType", "During").send().await.refused(400, 0, "During");
    trigger("triggerOperation", "Read").send().await.refused(400, 0, "Read");
}

#[tokio::test]
async fn operations_that_run_no_triggers_refuse_their_names() {
    let server = Server::with_container().await;
    server.create(json!({ "id": "a", "pk": "k" })).await;
    let key = r#"["k"]"#;
    for name in ["x-ms-documentdb-pre-trigger-include", "x-ms-documentdb-post-trigger-include"] {
        let patch = json!([{ "op": "set", "path": "/a", "value": 1 }]);
        server.item("PATCH", "a", key).header(name, "t1").json(patch).send().await.refused(501, 0, "'t1'");
        server.item("GET", "a", key).header(name, "t1").send().await.refused(501, 0, "'t1'");
        server.get(ITEMS).header(name, "t1").send().await.refused(501, 0, "'t1'");
        let batch = server.post(ITEMS).key(key).header("x-ms-cosmos-is-batch-request", "True");
        batch.header(name, "t1").json(json!([])).send().await.refused(501, 0, "'t1'");
        let query = server.post(ITEMS).header("content-type", "application/query+json").header(name, "t1");
        query.json(json!({ "query": "SELECT * FROM r" })).send().await.refused(501, 0, "'t1'");
        server.item("GET", "a", key).header(name, "").send().await.expect(200);
    }
}
