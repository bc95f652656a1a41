//! Rules of containers' definitions: between two policies, of policies for searches, and how many share a throughput.

use serde_json::{Value, json};

use crate::harness::{Answer, Server};

async fn with_database() -> Server {
    let server = Server::start().await;
    server.post("/dbs").json(json!({ "id": "db" })).send().await.expect(201);
    server
}

fn definition(id: &str, members: Value) -> Value {
    let mut definition =
        json!({ "id": id, "partitionKey": { "paths": ["/pk"], "kind": "Hash", "version": 2 } });
    for (name, value) in members.as_object().expect("an object") {
        definition[name] = value.clone();
    }
    definition
}

async fn create(server: &Server, id: &str, members: Value) -> Answer {
    server.post("/dbs/db/colls").json(definition(id, members)).send().await
}

async fn replace(server: &Server, id: &str, members: Value) -> Answer {
    server.put(format!("/dbs/db/colls/{id}")).json(definition(id, members)).send().await
}

#[tokio::test]
async fn a_time_to_live_and_the_indexing_mode_none_exclude_each_other() {
    let server = with_database().await;
    let none = json!({ "indexingMode": "none", "automatic": false });
    for ttl in [-1, 60] {
        let both = json!({ "defaultTtl": ttl, "indexingPolicy": none });
        create(&server, "both", both.clone()).await.refused(400, 0, "a time to live needs an index");
        for (id, before) in
            [("ttl", json!({ "defaultTtl": ttl })), ("none", json!({ "indexingPolicy": none }))]
        {
            let id = format!("{id}{ttl}");
            create(&server, &id, before).await.expect(201);
            replace(&server, &id, both.clone()).await.refused(400, 0, "a time to live needs an index");
        }
    }
    let empty = json!({ "includedPaths": [], "excludedPaths": [{ "path": "/*" }] });
    create(&server, "empty", json!({ "defaultTtl": 60, "indexingPolicy": empty })).await.expect(201);
    let consistent = json!({ "defaultTtl": 60, "indexingPolicy": { "indexingMode": "consistent" } });
    replace(&server, "none60", consistent).await.expect(200);
}

#[tokio::test]
async fn a_spatial_index_has_types() {
    let server = with_database().await;
    let indexed = |spatial: Value| json!({ "indexingPolicy": { "spatialIndexes": [spatial] } });
    for spatial in [json!({ "path": "/at/*" }), json!({ "path": "/at/*", "types": [] })] {
        create(&server, "c", indexed(spatial)).await.refused(400, 0, "has no types");
    }
    create(&server, "c", indexed(json!({ "path": "/at/*", "types": ["Point"] }))).await.expect(201);
}

#[tokio::test]
async fn twenty_five_containers_share_the_throughput_of_a_database() {
    let server = Server::start().await;
    for (database, name, value) in [
        ("manual", "x-ms-offer-throughput", "400"),
        ("scaled", "x-ms-cosmos-offer-autopilot-settings", r#"{"maxThroughput":4000}"#),
    ] {
        server.post("/dbs").json(json!({ "id": database })).header(name, value).send().await.expect(201);
        let create = |id: &str| server.post(format!("/dbs/{database}/colls")).json(definition(id, json!({})));
        let own = |id: &str| create(id).header("x-ms-offer-throughput", "400");
        own("own").send().await.expect(201);
        for number in 0..25 {
            create(&format!("c{number}")).send().await.expect(201);
        }
        create("c25").send().await.refused(
            403,
            1019,
            "Collection create forbidden as collection count in database offer has exceeded 25.",
        );
        own("other").send().await.expect(201);
        server.delete(format!("/dbs/{database}/colls/c0")).send().await.expect(204);
        create("c25").send().await.expect(201);
    }
}
