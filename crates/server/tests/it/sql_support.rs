//! Helpers of the tests of SQL over analytical tables.

use serde_json::{Value, json};
use shardlake_testkit::{Response, ServerOptions, ServerProcess, eventually};

use crate::support::on_disk;

pub const SQL: &str = "/_shardlake/v1/analytics/sql";
pub const QUERIES: &str = "/_shardlake/v1/analytics/queries";
pub const ENDLESS: &str = "SELECT count(*) FROM generate_series(1, 1000000) a JOIN generate_series(1, 1000000) b ON a.value <> b.value";

pub fn webstore() -> ServerProcess {
    webstore_of(on_disk())
}

/// Two containers with tables, and one without.
pub fn webstore_of(options: ServerOptions) -> ServerProcess {
    let server = options.start();
    let client = server.client();
    let _created = client.create_database("shop").expect_status(201);
    let key = json!({ "paths": ["/id"], "kind": "Hash", "version": 2 });
    for container in ["customer", "sales"] {
        let definition = json!({ "id": container, "partitionKey": key, "analyticalStorageTtl": -1 });
        let _created = client.create_container_of("shop", &definition, &[]).expect_status(201);
    }
    let _created = client.create_container("shop", "plain", "/id").expect_status(201);
    for number in 0..6 {
        let id = format!("c{number}");
        let customer = json!({ "id": id, "name": format!("n{number}"), "vip": number % 2 == 0 });
        let _put = client.upsert_item("shop", "customer", &json!([id]), &customer).expect_status(201);
        let sale = json!({
            "id": format!("s{number}"),
            "customerId": format!("c{}", number % 3),
            "lines": [{ "sku": "a", "quantity": number }, { "sku": "b", "quantity": 10 }],
        });
        let _put =
            client.upsert_item("shop", "sales", &json!([format!("s{number}")]), &sale).expect_status(201);
    }
    server
}

pub fn ask(server: &ServerProcess, body: &Value, headers: &[(&str, &str)]) -> Response {
    server.client().post_json(SQL, headers, body)
}

pub fn asked(statement: &str) -> Value {
    json!({ "query": statement, "database": "shop", "atLeast": "now" })
}

#[track_caller]
pub fn rows(server: &ServerProcess, statement: &str) -> Value {
    ask(server, &asked(statement), &[]).expect_status(200).json()["rows"].take()
}

#[track_caller]
pub fn refused(server: &ServerProcess, body: &Value, status: u16) -> Value {
    ask(server, body, &[]).expect_status(status).json()
}

/// The query that runs, once one does.
pub fn running(server: &ServerProcess) -> Value {
    in_state(server, "running")
}

/// The one query, once it has this state.
pub fn in_state(server: &ServerProcess, state: &str) -> Value {
    let mut found = Value::Null;
    eventually(&format!("the query has the state '{state}'"), || {
        let queries = server.client().get(QUERIES, &[]).expect_status(200).json();
        found = queries["queries"].get(0).cloned().unwrap_or_default();
        found["state"] == state
    });
    found
}

/// Processes that run for this server's queries.
pub fn workers(server: &ServerProcess) -> Vec<u32> {
    let parent = server.process_id().to_string();
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let name = entry.ok()?.file_name().into_string().ok()?;
        let stat = std::fs::read_to_string(format!("/proc/{name}/stat")).ok()?;
        let (_, rest) = stat.rsplit_once(") ")?;
        let is_child = rest.split(' ').nth(1)? == parent;
        let line = std::fs::read_to_string(format!("/proc/{name}/cmdline")).ok()?;
        (is_child && line.contains("--sql-worker")).then(|| name.parse().ok())?
    });
    processes.collect()
}
