//! The policy of the analytical store, as SDKs send it in container definitions.

use serde_json::{Value, json};
use shardlake_account::{AccountOptions, AnalyticalMode, AnalyticalSchema};

use crate::harness::Server;

const ON: AnalyticalMode = AnalyticalMode::On { schema: AnalyticalSchema::WellDefined };

async fn server(analytical: AnalyticalMode) -> Server {
    let server = Server::with_account(AccountOptions { analytical, ..AccountOptions::default() }).await;
    server.post("/dbs").json(json!({ "id": "db" })).send().await.expect(201);
    server
}

fn definition(id: &str, ttl: Value) -> Value {
    json!({ "id": id, "partitionKey": { "paths": ["/pk"] }, "analyticalStorageTtl": ttl })
}

/// The store's record of a container, as it is stored: none, open or closed.
fn state_of(server: &Server, id: &str) -> &'static str {
    let live = server.gateway.account().router().catalog().load_full();
    let rid = live.databases["db"].containers[id].record.container.rid;
    match live.definitions.analytical.get(&rid) {
        None => "none",
        Some(record) if record.closed.is_some() => "closed",
        Some(_) => "open",
    }
}

#[tokio::test]
async fn a_policy_is_kept_changed_disabled_and_enabled_again() {
    let server = server(ON).await;
    for (id, ttl, state) in [
        ("none", json!(null), "none"),
        ("zero", json!(0), "none"),
        ("ever", json!(-1), "open"),
        ("some", json!(60), "open"),
    ] {
        let created =
            server.post("/dbs/db/colls").json(definition(id, ttl.clone())).send().await.expect(201).json();
        assert_eq!(created.get("analyticalStorageTtl").unwrap_or(&Value::Null), &ttl, "{id}");
        assert_eq!(state_of(&server, id), state, "{id}");
    }
    let put = async |id: &str, definition: Value| {
        server.put(format!("/dbs/db/colls/{id}")).json(definition).send().await.expect(200).json()["analyticalStorageTtl"].clone()
    };
    // A client that does not know the member keeps it; so does one that sends null.
    let without = json!({ "id": "ever", "partitionKey": { "paths": ["/pk"] } });
    assert_eq!(put("ever", without).await, -1);
    assert_eq!(put("ever", definition("ever", json!(null))).await, -1);
    assert_eq!(put("ever", definition("ever", json!(7))).await, 7);
    assert_eq!(state_of(&server, "ever"), "open");
    // Closed, and enabled again: the table goes on.
    assert_eq!(put("ever", definition("ever", json!(0))).await, 0);
    assert_eq!(state_of(&server, "ever"), "closed");
    assert_eq!(put("ever", definition("ever", json!(null))).await, 0);
    assert_eq!(put("ever", definition("ever", json!(-1))).await, -1);
    assert_eq!(state_of(&server, "ever"), "open");
    assert_eq!(put("none", definition("none", json!(5))).await, 5);
    assert_eq!(state_of(&server, "none"), "open");
    server.delete("/dbs/db/colls/ever").send().await.expect(204);
    let live = server.gateway.account().router().catalog().load_full();
    assert_eq!(live.definitions.analytical.len(), 2, "a store ends with its container");
}

#[tokio::test]
async fn values_that_mean_nothing_are_refused_by_name() {
    let server = server(ON).await;
    for ttl in [json!(-2), json!(2_147_483_648_u64), json!("soon"), json!(1.5), json!(true)] {
        let create = server.post("/dbs/db/colls").json(definition("c", ttl));
        create.send().await.refused(400, 0, "analyticalStorageTtl");
    }
    server.get("/dbs/db/colls/c").send().await.expect(404);
}

#[tokio::test]
async fn a_server_without_the_store_refuses_new_policies_and_keeps_old_ones() {
    for (mode, words) in
        [(AnalyticalMode::Absent, "not in this build"), (AnalyticalMode::Off, "--analytics off")]
    {
        let server = server(mode).await;
        for ttl in [-1, 60] {
            let create = server.post("/dbs/db/colls").json(definition("c", json!(ttl)));
            create.send().await.refused(501, 0, words);
        }
        server.post("/dbs/db/colls").json(definition("c", json!(0))).send().await.expect(201);
        let later = server.put("/dbs/db/colls/c").json(definition("c", json!(5)));
        later.send().await.refused(501, 0, "analyticalStorageTtl");
    }
}

#[tokio::test]
async fn an_account_has_a_limited_number_of_stores() {
    let server = server(ON).await;
    for number in 0..100 {
        server
            .post("/dbs/db/colls")
            .json(definition(&format!("c{number}"), json!(-1)))
            .send()
            .await
            .expect(201);
    }
    let more = server.post("/dbs/db/colls").json(definition("more", json!(-1)));
    more.send().await.refused(403, 0, "at most 100 analytical stores");
    server.put("/dbs/db/colls/c0").json(definition("c0", json!(0))).send().await.expect(200);
    server.post("/dbs/db/colls").json(definition("more", json!(-1))).send().await.expect(201);
    let reopened = server.put("/dbs/db/colls/c0").json(definition("c0", json!(-1)));
    reopened.send().await.refused(403, 0, "at most 100 analytical stores");
}

#[tokio::test]
async fn a_server_without_sql_over_tables_refuses_it_by_name() {
    let server = server(ON).await;
    let query = json!({ "query": "SELECT * FROM c", "database": "db" });
    let refused = server.post("/_shardlake/v1/analytics/sql").json(query).send().await.expect(501);
    assert!(refused.text.contains("analytics-sql"), "{}", refused.text);
}
