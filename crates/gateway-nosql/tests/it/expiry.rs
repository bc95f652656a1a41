//! Time to live and unique keys over the wire.

use std::time::Duration;

use serde_json::{Value, json};

use crate::batch::{atomic, statuses};
use crate::harness::{Answer, ITEMS, Server};
use crate::queries::{query, rows};

const CONTAINER: &str = "/dbs/db/colls/items";

fn definition(more: Value) -> Value {
    let key = json!({ "paths": ["/pk"], "kind": "Hash", "version": 2 });
    let mut definition = json!({ "id": "items", "partitionKey": key });
    let members = definition.as_object_mut().expect("an object");
    members.extend(more.as_object().expect("an object").clone());
    definition
}

async fn with(more: Value) -> Server {
    let server = Server::start().await;
    server.create_container(definition(more)).await;
    server
}

async fn create(server: &Server, item: Value) -> Answer {
    let key = json!([item["pk"]]).to_string();
    server.post(ITEMS).key(&key).json(item).send().await
}

#[tokio::test]
async fn a_container_s_time_to_live_is_minus_one_or_positive_and_may_go() {
    let server = with(json!({ "defaultTtl": -1 })).await;
    for default_ttl in [json!(0), json!(-10), json!("10"), json!(1.5), json!(2_147_483_648_u64), json!(true)]
    {
        let changed = definition(json!({ "defaultTtl": default_ttl }));
        server.put(CONTAINER).json(changed.clone()).send().await.expect(400);
        let mut other = changed;
        other["id"] = json!("other");
        server.post("/dbs/db/colls").json(other).send().await.expect(400);
    }
    assert_eq!(server.get(CONTAINER).send().await.json()["defaultTtl"], -1);
    for off in [definition(json!({})), definition(json!({ "defaultTtl": null }))] {
        let replaced = server.put(CONTAINER).json(off).send().await.expect(200).json();
        assert!(replaced.get("defaultTtl").is_none(), "{replaced}");
    }
}

#[tokio::test]
async fn an_item_s_time_to_live_is_refused_where_it_is_none() {
    let server = with(json!({ "defaultTtl": 100 })).await;
    for (ttl, shown) in [
        (json!(0), "0"),
        (json!(-2), "-2"),
        (json!(null), "null"),
        (json!("10"), "\\\"10\\\""),
        (json!(1.5), "1.5"),
        (json!(2_147_483_648_u64), "2147483648"),
        (json!([60]), "[...]"),
    ] {
        let answer = create(&server, json!({ "id": "a", "pk": "k", "ttl": ttl })).await;
        let sentence = format!(
            "The input ttl '{shown}' is invalid. Ensure to provide a nonzero positive integer less than or equal to '2147483647', or '-1' which means never expire."
        );
        answer.refused(400, 0, &sentence);
    }
    for (number, ttl) in [json!(1), json!(-1), json!(2_147_483_647), json!(5.0)].into_iter().enumerate() {
        create(&server, json!({ "id": number.to_string(), "pk": "k", "ttl": ttl })).await.expect(201);
    }
}

#[tokio::test]
async fn what_has_run_out_is_gone_for_every_request_at_once() {
    let server =
        with(json!({ "defaultTtl": 10, "uniqueKeyPolicy": { "uniqueKeys": [{ "paths": ["/u"] }] } })).await;
    create(&server, json!({ "id": "short", "pk": "k", "u": 1, "ttl": 5 })).await.expect(201);
    create(&server, json!({ "id": "default", "pk": "k", "u": 2 })).await.expect(201);
    create(&server, json!({ "id": "kept", "pk": "k", "u": 3, "ttl": -1 })).await.expect(201);
    server.clock.advance(Duration::from_secs(5));
    server.item("GET", "short", r#"["k"]"#).send().await.expect(404);
    server.item("GET", "default", r#"["k"]"#).send().await.expect(200);
    // A write begins anew.
    server
        .item("PUT", "default", r#"["k"]"#)
        .json(json!({ "id": "default", "pk": "k", "u": 2 }))
        .send()
        .await
        .expect(200);
    server.clock.advance(Duration::from_secs(9));
    server.item("GET", "default", r#"["k"]"#).send().await.expect(200);
    server.clock.advance(Duration::from_secs(1));
    for method in ["GET", "DELETE"] {
        server.item(method, "default", r#"["k"]"#).send().await.expect(404);
    }
    let replace = json!({ "id": "default", "pk": "k" });
    server.item("PUT", "default", r#"["k"]"#).json(replace).send().await.expect(404);
    let patch = json!({ "operations": [{ "op": "set", "path": "/n", "value": 1 }] });
    server.item("PATCH", "default", r#"["k"]"#).json(patch).send().await.expect(404);
    let feed = server.get(ITEMS).send().await.expect(200);
    assert_eq!(feed.json()["_count"], 1);
    let counted = query(&server, "SELECT VALUE COUNT(1) FROM c WHERE c.pk = 'k'");
    let counted = counted.key(r#"["k"]"#).send().await.expect(200);
    assert_eq!(rows(&counted), [json!(1)]);
    let read = atomic(&server, json!([{ "operationType": "Read", "id": "short" }])).await;
    assert_eq!(statuses(&read), [404]);
    // Ids and values that they had are free.
    create(&server, json!({ "id": "short", "pk": "k", "u": 2 })).await.expect(201);
    create(&server, json!({ "id": "another", "pk": "k", "u": 1 })).await.expect(201);
    create(&server, json!({ "id": "third", "pk": "k", "u": 3 })).await.refused(
        409,
        0,
        "Unique index constraint",
    );
}

#[tokio::test]
async fn another_default_holds_for_the_next_request() {
    let server = with(json!({})).await;
    create(&server, json!({ "id": "a", "pk": "k", "ttl": 1 })).await.expect(201);
    server.clock.advance(Duration::from_secs(100));
    let status = async || server.item("GET", "a", r#"["k"]"#).send().await.status;
    assert_eq!(status().await, 200, "an item's own time to live means nothing before the container has one");
    let set = async |more| server.put(CONTAINER).json(definition(more)).send().await.expect(200);
    set(json!({ "defaultTtl": 1000 })).await;
    assert_eq!(status().await, 404);
    set(json!({})).await;
    // Either the expired item was removed already, or it is visible again.
    assert!(matches!(status().await, 200 | 404));
}

#[tokio::test]
async fn a_unique_value_is_refused_by_whichever_operation_brings_it_twice() {
    let unique = json!({ "uniqueKeys": [{ "paths": ["/email"] }, { "paths": ["/a", "/b/c"] }] });
    let server = with(json!({ "uniqueKeyPolicy": unique })).await;
    create(&server, json!({ "id": "1", "pk": "k", "email": "x", "a": 1, "b": { "c": 1 } })).await.expect(201);
    create(&server, json!({ "id": "2", "pk": "k", "email": "y", "a": 1, "b": { "c": 2 } })).await.expect(201);
    let words = "Unique index constraint violation";
    let taken = json!({ "id": "3", "pk": "k", "email": "x" });
    create(&server, taken.clone()).await.refused(409, 0, words);
    let upsert = server.post(ITEMS).key(r#"["k"]"#).header("x-ms-documentdb-is-upsert", "true");
    upsert.json(taken.clone()).send().await.refused(409, 0, words);
    let replace = json!({ "id": "2", "pk": "k", "email": "z", "a": 1, "b": { "c": 1 } });
    server.item("PUT", "2", r#"["k"]"#).json(replace).send().await.refused(409, 0, words);
    let patch = json!({ "operations": [{ "op": "set", "path": "/email", "value": "x" }] });
    server.item("PATCH", "2", r#"["k"]"#).json(patch).send().await.refused(409, 0, words);
    let create_3 = json!({ "operationType": "Create", "resourceBody": taken });
    assert_eq!(statuses(&atomic(&server, json!([create_3])).await), [409]);
    // In one transaction a value may change hands.
    let delete_1 = json!({ "operationType": "Delete", "id": "1" });
    assert_eq!(statuses(&atomic(&server, json!([delete_1, create_3])).await), [204, 201]);
    // Values differ by case, and another partition key is another world.
    create(&server, json!({ "id": "4", "pk": "k", "email": "X", "a": 2 })).await.expect(201);
    create(&server, json!({ "id": "1", "pk": "other", "email": "x" })).await.expect(201);
    // A missing value counts as null, which one item may have.
    create(&server, json!({ "id": "5", "pk": "k", "email": "v", "a": 2, "b": { "c": null } }))
        .await
        .refused(409, 0, words);
    let changed = definition(json!({}));
    server.put(CONTAINER).json(changed).send().await.expect(400);
}
