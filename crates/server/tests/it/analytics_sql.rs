//! SQL over analytical tables at the wire: answers in each form, refusals, limits, cancelling, and workers that are killed.

use std::process::Command;

use serde_json::{Value, json};
use shardlake_testkit::{Client, EMULATOR_KEY, eventually};

use crate::sql_support::{ENDLESS, QUERIES, SQL, ask, asked, refused, rows, running, webstore, workers};
use crate::support::{Started, command};

#[test]
fn containers_are_joined_and_answers_have_each_form() {
    let server = webstore();
    let join = "SELECT c.name, sum(l['quantity']) AS n FROM (SELECT s.\"customerId\" AS customer, unnest(s.lines) AS l FROM sales s) x \
                JOIN customer c ON c.id = x.customer GROUP BY c.name ORDER BY c.name";
    let reply = ask(&server, &asked(join), &[]).expect_status(200);
    assert_eq!(reply.header("content-type"), Some("application/json"));
    assert_eq!(reply.header("x-ms-request-charge"), Some("0"));
    assert!(reply.header("x-shardlake-query-id").is_some_and(|id| !id.is_empty()));
    assert!(reply.header("x-shardlake-snapshot").is_some_and(|text| text.contains("shop/customer")));
    let answer = reply.json();
    assert_eq!(answer["rows"], json!([["n0", 23], ["n1", 25], ["n2", 27]]));
    assert_eq!(answer["columns"][1], json!({ "name": "n", "type": "long" }));
    assert!(answer["snapshot"]["shop/sales"]["version"].is_u64(), "{answer}");
    assert!(answer["statistics"]["bytesRead"].as_u64() > Some(0), "{answer}");
    // Everything acknowledged before the request is read.
    let put = json!({ "id": "c9", "name": "late" });
    let _put = server.client().upsert_item("shop", "customer", &json!(["c9"]), &put).expect_status(201);
    assert_eq!(rows(&server, "SELECT count(*) FROM customer"), json!([[7]]));
    let two = asked("SELECT id, vip FROM customer WHERE id < 'c2' ORDER BY id");
    for (accept, kind, text) in [
        ("text/csv", "text/csv; charset=utf-8", "id,vip\nc0,true\nc1,false\n"),
        (
            "application/x-ndjson",
            "application/x-ndjson",
            "{\"id\":\"c0\",\"vip\":true}\n{\"id\":\"c1\",\"vip\":false}\n",
        ),
    ] {
        let reply = ask(&server, &two, &[("accept", accept)]).expect_status(200);
        assert_eq!(reply.header("content-type"), Some(kind));
        assert_eq!(reply.text(), text);
    }
    let arrow = ask(&server, &two, &[("accept", "application/vnd.apache.arrow.stream")]).expect_status(200);
    assert!(arrow.body.starts_with(&[0xff; 4]), "an Arrow stream begins with its continuation mark");
    let _refused = ask(&server, &two, &[("accept", "text/html")]).expect_status(400);
    let metrics = server.client().get("/metrics", &[]).text();
    assert!(metrics.contains("shardlake_sql_queries_total{outcome=\"done\"}"), "{metrics}");
}

#[test]
fn wrong_requests_have_their_status() {
    let server = webstore();
    let of = |statement: &str| json!({ "query": statement, "database": "shop" });
    let with = |mut body: Value, name: &str, value: Value| {
        body[name] = value;
        body
    };
    let _waited = rows(&server, "SELECT count(*) FROM customer");
    for (body, status, code, words) in [
        (of("SELECT naem FROM customer"), 400, "BadRequest", "name"),
        (of("SELECT 1 FROM Customer"), 400, "BadRequest", "customer"),
        (of("SELECT 1 FROM nothing"), 400, "BadRequest", "no table 'shop.nothing'"),
        (of("SELECT 1 FROM Plain"), 400, "BadRequest", "no table 'shop.Plain'"),
        // A container without an analytical store.
        (of("SELECT 1 FROM plain"), 404, "AnalyticsNotEnabled", "line 1, column 15"),
        (of("SELECT 1 FROM shop.plain"), 404, "AnalyticsNotEnabled", "analyticalStorageTtl"),
        (
            of("SELECT 1 FROM customer c JOIN plain p ON p.id = c.id"),
            404,
            "AnalyticsNotEnabled",
            "shop/plain",
        ),
        (of("DESCRIBE plain"), 404, "AnalyticsNotEnabled", "shop/plain"),
        (
            of("SELECT TOP 1 * FROM OPENROWSET('CosmosDB', 'Account=a;Database=shop;Key=k', plain) AS p"),
            404,
            "AnalyticsNotEnabled",
            "shop/plain",
        ),
        (of("DELETE FROM customer"), 400, "BadRequest", "DELETE"),
        (of("COPY customer TO '/tmp/x.csv'"), 400, "BadRequest", "COPY"),
        (of("SELECT 1 FROM"), 400, "BadRequest", "line 1, column"),
        (json!({}), 400, "BadRequest", "query"),
        (with(of("SELECT 1"), "qery", json!("x")), 400, "BadRequest", "qery"),
        (with(of("SELECT 1"), "timeoutSeconds", json!(601)), 400, "BadRequest", "600"),
        (with(of("SELECT 1"), "atLeast", json!("soon")), 400, "BadRequest", "atLeast"),
        (
            with(of("SELECT id FROM customer"), "asOf", json!({ "version": { "shop/customer": 9_999 } })),
            400,
            "AnalyticsVersionGone",
            "9999",
        ),
        (
            with(of("SELECT id FROM customer"), "asOf", json!({ "time": "2001-01-01T00:00:00Z" })),
            400,
            "AnalyticsVersionGone",
            "retention",
        ),
        (with(of(ENDLESS), "timeoutSeconds", json!(1)), 408, "RequestTimeout", "timeoutSeconds"),
        (of(&format!("SELECT '{}'", "x".repeat(600_000))), 400, "BadRequest", "bytes"),
    ] {
        let error = refused(&server, &body, status);
        assert_eq!(error["code"], code, "{error}");
        assert!(error["message"].as_str().unwrap().contains(words), "{words}: {error}");
    }
    let misspelt = refused(&server, &of("SELECT id,\n  naem FROM customer"), 400);
    assert_eq!((&misspelt["line"], &misspelt["column"]), (&json!(2), &json!(3)), "{misspelt}");
}

#[test]
fn callers_have_their_rights() {
    let keys = tempfile::tempdir().unwrap();
    let file = keys.path().join("keys.json");
    let read_only = "cmVhZC1vbmx5LWtleS1vZi1hLXRlc3Q=";
    std::fs::write(&file, json!({ "primary": EMULATOR_KEY, "primaryReadonly": read_only }).to_string())
        .unwrap();
    let data = keys.path().join("data");
    let mut arguments = command(&["serve", "--listen=127.0.0.1:0", "--log-level=error", "--data-dir"]);
    let server = Started::new(arguments.arg(&data).arg("--key-file").arg(&file));
    let client = Client::new(server.address(), EMULATOR_KEY);
    let body = json!({ "query": "SELECT 1" });
    let _read = Client::new(server.address(), read_only).post_json(SQL, &[], &body).expect_status(200);
    let _listed = Client::new(server.address(), read_only).get(QUERIES, &[]).expect_status(200);
    let _created = client.create_database("d").expect_status(201);
    let _created = client.create_container("d", "c", "/id").expect_status(201);
    let _created = client.post_json("/dbs/d/users", &[], &json!({ "id": "u" })).expect_status(201);
    let permission = json!({ "id": "p", "permissionMode": "All", "resource": "dbs/d/colls/c" });
    let permission =
        client.post_json("/dbs/d/users/u/permissions", &[], &permission).expect_status(201).json();
    let token = percent_encoding::utf8_percent_encode(
        permission["_token"].as_str().unwrap(),
        percent_encoding::NON_ALPHANUMERIC,
    );
    let token = token.to_string();
    for (authorization, status) in
        [("", 401), ("type%3dmaster%26ver%3d1.0%26sig%3dAAAA", 401), (token.as_str(), 403)]
    {
        for (method, path) in
            [("POST", SQL), ("GET", QUERIES), ("DELETE", "/_shardlake/v1/analytics/queries/x")]
        {
            let sent = body.to_string();
            let reply = client.request(method, path, &[("authorization", authorization)], sent.as_bytes());
            assert_eq!(reply.status, status, "{method} {path} {authorization}: {reply}");
        }
    }
}

#[test]
fn a_query_is_listed_and_cancelled() {
    let server = webstore();
    std::thread::scope(|scope| {
        let slow = scope.spawn(|| ask(&server, &json!({ "query": ENDLESS }), &[]));
        let query = running(&server);
        assert!(!query["template"].as_str().unwrap().contains("1000000"), "{query}");
        let id = query["id"].as_str().unwrap();
        let path = format!("{QUERIES}/{id}");
        assert_eq!(server.client().delete(&path, &[]).status, 204);
        let ended = slow.join().unwrap();
        assert_eq!((ended.status, &ended.json()["code"]), (400, &json!("QueryCancelled")));
        assert_eq!(server.client().delete(&path, &[]).status, 404);
    });
}

#[test]
fn a_worker_that_is_killed_is_replaced() {
    let server = webstore();
    assert_eq!(rows(&server, "SELECT 1"), json!([[1]]));
    std::thread::scope(|scope| {
        let slow = scope.spawn(|| ask(&server, &json!({ "query": ENDLESS }), &[]));
        running(&server);
        let worker = workers(&server);
        assert_eq!(worker.len(), 1);
        let killed = Command::new("kill").args(["-KILL", &worker[0].to_string()]).status().unwrap();
        assert!(killed.success());
        let ended = slow.join().unwrap();
        assert_eq!(ended.status, 400, "{ended:?}");
        assert!(ended.text().contains("--analytics-sql-memory"), "{}", ended.text());
    });
    assert_eq!(rows(&server, "SELECT 2"), json!([[2]]));
    // A server that is killed leaves no worker behind.
    let before = workers(&server);
    let mut server = server;
    server.kill();
    eventually("the workers of a killed server end", || {
        !before.iter().any(|worker| std::path::Path::new(&format!("/proc/{worker}")).exists())
    });
}
