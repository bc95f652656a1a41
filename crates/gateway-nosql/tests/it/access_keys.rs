//! Tokens limited to a partition key: their reads and writes, of plain and of hierarchical keys, and through every operation.

use serde_json::{Value, json};

use crate::harness::{Answer, Server};

const DOCS: &str = "/dbs/db/colls/tenants/docs";

/// `db/tenants` with the key `/tenant`, `/user`, `/session`, and items of two tenants and three users.
async fn hierarchical() -> Server {
    let server = Server::start().await;
    let key = json!({ "paths": ["/tenant", "/user", "/session"], "kind": "MultiHash", "version": 2 });
    server.create_container(json!({ "id": "tenants", "partitionKey": key })).await;
    for (tenant, user) in [("a", "1"), ("a", "2"), ("b", "1")] {
        for session in ["x", "y"] {
            let item = json!({ "id": "i", "tenant": tenant, "user": user, "session": session });
            let key = json!([tenant, user, session]).to_string();
            server.post(DOCS).key(&key).json(item).send().await.expect(201);
        }
    }
    server
}

async fn token(server: &Server, mode: &str, key: Value) -> String {
    let permission = json!({
        "id": format!("{mode}-{}", key.to_string().len()),
        "permissionMode": mode,
        "resource": "dbs/db/colls/tenants",
        "resourcePartitionKey": key,
    });
    server.delete("/dbs/db/users/ann").send().await;
    server.permit_in("db", permission).await
}

async fn query(server: &Server, token: &str, key: &str, text: &str) -> Answer {
    let call = server.post(DOCS).header("content-type", "application/query+json");
    let call = call.header("x-ms-documentdb-query-enablecrosspartition", "True");
    call.key(key).token(token).json(json!({ "query": text })).send().await
}

fn keys(answer: &Answer) -> Vec<String> {
    let part = |item: &Value, name: &str| item[name].as_str().expect("a text").to_owned();
    let items = answer.json()["Documents"].as_array().expect("items").clone();
    let key = |item: &Value| part(item, "tenant") + &part(item, "user") + &part(item, "session");
    let mut keys: Vec<String> = items.iter().map(key).collect();
    keys.sort();
    keys
}

#[tokio::test]
async fn a_prefix_permits_the_keys_that_begin_with_it() {
    let server = hierarchical().await;
    let token = token(&server, "All", json!(["a", "1"])).await;
    for (key, status) in [
        (r#"["a","1","x"]"#, 200),
        (r#"["a","1","z"]"#, 404),
        (r#"["a","2","x"]"#, 403),
        (r#"["b","1","x"]"#, 403),
        (r#"["a","1"]"#, 400),
        (r#"["a"]"#, 403),
        (r#"["a",1,"x"]"#, 403),
        (r#"["A","1","x"]"#, 403),
        (r#"[]"#, 400),
        (r#"["a","1","x","y"]"#, 400),
        ("nonsense", 400),
    ] {
        let answer = server.get(format!("{DOCS}/i")).key(key).token(&token).send().await;
        assert_eq!(answer.status, status, "{key}: {answer:?}");
    }
    for (key, expected) in [
        (r#"["a","1"]"#, Some(vec!["a1x", "a1y"])),
        (r#"["a","1","y"]"#, Some(vec!["a1y"])),
        (r#"["a"]"#, None),
        (r#"["b","1"]"#, None),
    ] {
        let listed = server.get(DOCS).key(key).token(&token).send().await;
        let queried = query(&server, &token, key, "SELECT * FROM c").await;
        let wide = query(&server, &token, key, "SELECT * FROM c WHERE c.tenant = 'b' OR true").await;
        for answer in [listed, queried, wide] {
            match &expected {
                Some(expected) => assert_eq!(keys(&answer), *expected, "{key}"),
                None => drop(answer.refused(403, 0, "limited to the partition key")),
            }
        }
    }
}

#[tokio::test]
async fn other_scopes_do_not_widen_that_of_the_key() {
    let server = hierarchical().await;
    let token = token(&server, "Read", json!(["a", "1"])).await;
    for headers in [
        &[("x-ms-documentdb-partitionkeyrangeid", "0")][..],
        &[("x-ms-start-epk", ""), ("x-ms-end-epk", "FF")],
        &[
            ("x-ms-read-key-type", "EffectivePartitionKeyRange"),
            ("x-ms-start-epk", ""),
            ("x-ms-end-epk", "FF"),
        ],
        &[("x-shardlake-fan-out", "true")],
        &[("x-ms-cosmos-is-query-plan-request", "false")],
    ] {
        let ask = |key: Option<&str>, is_query: bool| {
            let mut call = if is_query {
                let body = json!({ "query": "SELECT * FROM c" });
                server.post(DOCS).header("content-type", "application/query+json").json(body)
            } else {
                server.get(DOCS)
            };
            for (name, value) in headers {
                call = call.header(name, value);
            }
            if let Some(key) = key {
                call = call.key(key);
            }
            call.token(&token).send()
        };
        for is_query in [true, false] {
            ask(None, is_query).await.refused(403, 0, "limited to the partition key");
            let answer = ask(Some(r#"["a","1"]"#), is_query).await.expect(200);
            assert_eq!(keys(&answer), ["a1x", "a1y"], "{headers:?}");
        }
    }
    // The first of several headers with one name counts, for the check and for the operation.
    let twice = server.get(DOCS).key(r#"["a","1"]"#).key(r#"["b","1"]"#).token(&token);
    assert_eq!(keys(&twice.send().await.expect(200)), ["a1x", "a1y"]);
    let twice = server.get(DOCS).key(r#"["b","1"]"#).key(r#"["a","1"]"#).token(&token);
    twice.send().await.expect(403);
}

#[tokio::test]
async fn a_continuation_of_another_key_does_not_lead_out() {
    let server = hierarchical().await;
    let token = token(&server, "Read", json!(["a", "1"])).await;
    let text = json!({ "query": "SELECT * FROM c" });
    let ask = |key: Option<&'static str>, continuation: String, token: Option<String>, is_query: bool| {
        let mut call = if is_query {
            let call = server.post(DOCS).header("content-type", "application/query+json").json(text.clone());
            call.header("x-ms-documentdb-query-enablecrosspartition", "True")
        } else {
            server.get(DOCS)
        };
        if let Some(key) = key {
            call = call.key(key);
        }
        if !continuation.is_empty() {
            call = call.header("x-ms-continuation", &continuation);
        }
        if let Some(token) = token {
            call = call.token(&token);
        }
        call.header("x-ms-max-item-count", "1").send()
    };
    for is_query in [true, false] {
        for key in [None, Some(r#"["b","1"]"#), Some(r#"["a"]"#), Some(r#"["a","2"]"#)] {
            let page = ask(key, String::new(), None, is_query).await.expect(200);
            let foreign = page.header("x-ms-continuation").expect("more follows").to_owned();
            let answer = ask(Some(r#"["a","1"]"#), foreign, Some(token.clone()), is_query).await;
            if answer.status == 200 {
                assert!(keys(&answer).iter().all(|key| key.starts_with("a1")), "{key:?}: {answer:?}");
            } else {
                assert_eq!(answer.status, 400, "{answer:?}");
            }
        }
    }
}

#[tokio::test]
async fn writes_stay_within_the_key() {
    let server = hierarchical().await;
    let token = token(&server, "All", json!(["a", "1"])).await;
    let item = |tenant: &str| json!({ "id": "n", "tenant": tenant, "user": "1", "session": "x" });
    let own = r#"["a","1","x"]"#;
    let create = |key: &str, item: Value| server.post(DOCS).key(key).json(item).token(&token).send();
    create(own, item("a")).await.expect(201);
    // The header and the body name different keys.
    create(own, item("b")).await.refused(400, 1001, "");
    create(r#"["b","1","x"]"#, item("b")).await.expect(403);
    server.post(DOCS).json(item("a")).token(&token).send().await.refused(403, 0, "partitionkey");
    let replace = |item: Value| server.put(format!("{DOCS}/n")).key(own).json(item).token(&token).send();
    replace(item("b")).await.refused(400, 1001, "");
    replace(item("a")).await.expect(200);
    let operation = |kind: &str, item: Value, key: Option<&str>| {
        let mut operation = json!({ "operationType": kind, "id": item["id"], "resourceBody": item });
        if let Some(key) = key {
            operation["partitionKey"] = json!(key);
        }
        operation
    };
    let batch = |atomic: &str, operations: Value| {
        let call = server.post(DOCS).header("x-ms-cosmos-is-batch-request", "True");
        call.header("x-ms-cosmos-batch-atomic", atomic).key(own).json(operations).token(&token).send()
    };
    let foreign = operation("Upsert", item("b"), Some(r#"["b","1","x"]"#));
    let good = operation("Upsert", item("a"), Some(own));
    batch("True", json!([good, foreign])).await.refused(400, 0, "different partition key");
    batch("False", json!([good, foreign])).await.refused(403, 0, "limited to the partition key");
    batch("False", json!([good, operation("Upsert", item("b"), None)])).await.expect(403);
    let lying = batch("False", json!([operation("Upsert", item("b"), Some(own))])).await.expect(207).json();
    assert_eq!(lying[0]["statusCode"], 400);
    batch("False", json!([good])).await.expect(200);
    let clear = |key: &str| {
        let call = server.post("/dbs/db/colls/tenants/operations/partitionkeydelete");
        call.key(key).token(&token).send()
    };
    clear(r#"["b","1","x"]"#).await.expect(403);
    clear(r#"["a"]"#).await.expect(403);
    clear(own).await.expect(200);
    let rest = server.get(DOCS).send().await.expect(200);
    assert_eq!(keys(&rest), ["a1y", "a2x", "a2y", "b1x", "b1y"]);
}

#[tokio::test]
async fn keys_of_every_type_are_compared_as_the_data_is() {
    let server = Server::with_container().await;
    let cases = [json!(1), json!(1.5), json!("1"), json!(true), json!(null), json!({})];
    for bound in &cases {
        let permission = json!({ "id": "p", "permissionMode": "Read", "resource": "dbs/db/colls/items", "resourcePartitionKey": [bound] });
        let token = server.permit_in("db", permission).await;
        for asked in &cases {
            let answer =
                server.get("/dbs/db/colls/items/docs").key(&json!([asked]).to_string()).token(&token);
            let expected = if asked == bound { 200 } else { 403 };
            assert_eq!(answer.send().await.status, expected, "{bound} and {asked}");
        }
    }
    let permission = json!({ "id": "p", "permissionMode": "Read", "resource": "dbs/db/colls/items", "resourcePartitionKey": [1] });
    let token = server.permit_in("db", permission).await;
    let spelled = server.get("/dbs/db/colls/items/docs").key("[ 1.0e0 ]").token(&token);
    spelled.send().await.expect(200);
}

#[tokio::test]
async fn the_change_feed_shows_the_key_alone_wherever_it_begins() {
    let server = hierarchical().await;
    let read = |key: Option<&'static str>, etag: String, token: Option<String>| {
        let mut call = server.get(DOCS).header("a-im", "Incremental Feed");
        if let Some(key) = key {
            call = call.key(key);
        }
        if !etag.is_empty() {
            call = call.header("if-none-match", &etag);
        }
        if let Some(token) = token {
            call = call.token(&token);
        }
        call.header("x-ms-max-item-count", "2").send()
    };
    let token = token(&server, "Read", json!(["a", "1"])).await;
    let own = || Some(token.clone());
    for key in [None, Some(r#"["a"]"#), Some(r#"["b","1"]"#)] {
        read(key, String::new(), own()).await.refused(403, 0, "limited to the partition key");
        let etag = read(key, String::new(), None).await.expect(200).etag();
        let answer = read(Some(r#"["a","1"]"#), etag, own()).await;
        assert!(matches!(answer.status, 200 | 304), "{answer:?}");
        assert!(answer.status == 304 || keys(&answer).iter().all(|key| key.starts_with("a1")), "{answer:?}");
    }
    let page = read(Some(r#"["a","1"]"#), String::new(), own()).await.expect(200);
    assert_eq!(keys(&page), ["a1x", "a1y"]);
    read(Some(r#"["a","1"]"#), page.etag(), own()).await.expect(304);
}

#[tokio::test]
async fn scripts_do_not_leave_the_key_that_they_are_run_for() {
    let server = Server::with_container().await;
    for (id, pk) in [("a", "k"), ("b", "z")] {
        server.create(json!({ "id": id, "pk": pk })).await;
    }
    let procedure = "function (pk) {
        var links = getContext().getCollection();
        links.queryDocuments(links.getSelfLink(), 'SELECT * FROM c', function (error, found) {
            if (error) throw error;
            links.createDocument(links.getSelfLink(), { id: 'made', pk: pk }, function (error) {
                if (error) throw error;
                getContext().getResponse().setBody(found.map(function (item) { return item.id; }));
            });
        });
    }";
    let trigger = "function () {
        var request = getContext().getRequest();
        var item = request.getBody();
        item.pk = 'z';
        request.setBody(item);
    }";
    let scripts = "/dbs/db/colls/items";
    let sproc = json!({ "id": "s", "body": procedure });
    server.post(format!("{scripts}/sprocs")).json(sproc).send().await.expect(201);
    let pre = json!({ "id": "t", "body": trigger, "triggerType": "Pre", "triggerOperation": "All" });
    server.post(format!("{scripts}/triggers")).json(pre).send().await.expect(201);
    let permission = json!({ "id": "p", "permissionMode": "All", "resource": "dbs/db/colls/items", "resourcePartitionKey": ["k"] });
    let token = server.permit_in("db", permission).await;
    let run = |key: &str, argument: &str| {
        let call = server.post(format!("{scripts}/sprocs/s")).key(key).token(&token);
        call.json(json!([argument])).send()
    };
    run(r#"["z"]"#, "z").await.refused(403, 0, "limited to the partition key");
    run(r#"["k"]"#, "z").await.expect(400);
    assert_eq!(run(r#"["k"]"#, "k").await.expect(200).json(), json!(["a"]));
    let create = server.post("/dbs/db/colls/items/docs").key(r#"["k"]"#).token(&token);
    let create = create.header("x-ms-documentdb-pre-trigger-include", "t");
    create.json(json!({ "id": "c", "pk": "k" })).send().await.refused(400, 1001, "");
    let rest = server.get("/dbs/db/colls/items/docs").key(r#"["z"]"#).send().await.expect(200).json();
    assert_eq!((&rest["_count"], &rest["Documents"][0]["id"]), (&json!(1), &json!("b")));
}
