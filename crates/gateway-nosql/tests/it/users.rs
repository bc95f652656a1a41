//! Users and permissions as resources: documents, statuses, preconditions, feeds, queries, upserts; how long tokens are asked for.

use serde_json::{Value, json};

use crate::harness::{Answer, READ_ONLY_KEY, Server};

const USERS: &str = "/dbs/db/users";
const PERMISSIONS: &str = "/dbs/db/users/ann/permissions";

async fn with_ann() -> Server {
    let server = Server::with_container().await;
    server.post(USERS).json(json!({ "id": "ann" })).send().await.expect(201);
    server
}

fn on_items(id: &str) -> Value {
    json!({ "id": id, "permissionMode": "Read", "resource": "dbs/db/colls/items" })
}

async fn query(server: &Server, path: &str, text: &str) -> Answer {
    let query = server.post(path).header("content-type", "application/query+json");
    query.json(json!({ "query": text })).send().await.expect(200)
}

#[tokio::test]
async fn a_user_is_created_read_renamed_and_deleted() {
    let server = Server::with_container().await;
    let created = server.post(USERS).json(json!({ "id": "ann" })).send().await.expect(201);
    let user = created.json();
    let rid = user["_rid"].as_str().expect("a rid");
    let database = server.get("/dbs/db").send().await.json()["_rid"].as_str().expect("a rid").to_owned();
    assert_eq!(user["_self"], format!("dbs/{database}/users/{rid}/"));
    assert_eq!((&user["id"], &user["_permissions"]), (&json!("ann"), &json!("permissions/")));
    assert!(user["_ts"].is_u64());
    assert_eq!(user["_etag"], created.etag());
    let read = server.get("/dbs/db/users/ann").send().await.expect(200);
    assert_eq!(read.json(), user);
    let known = server.get("/dbs/db/users/ann").header("if-none-match", &created.etag());
    known.send().await.expect(304);
    let by_rid = server.get(format!("/dbs/{database}/users/{rid}")).send().await.expect(200);
    assert_eq!(by_rid.json(), user);
    let renamed = server.put("/dbs/db/users/ann").json(json!({ "id": "bea", "_rid": "x" })).send().await;
    assert_eq!(renamed.expect(200).json()["_rid"], rid);
    server.get("/dbs/db/users/ann").send().await.expect(404);
    let outdated = server.delete("/dbs/db/users/bea").header("if-match", &created.etag());
    outdated.send().await.expect(412);
    server.delete("/dbs/db/users/bea").send().await.expect(204);
    server.get("/dbs/db/users/bea").send().await.expect(404);
}

#[tokio::test]
async fn ids_are_unique_and_well_formed_and_owners_exist() {
    let server = with_ann().await;
    server.post(USERS).json(json!({ "id": "ann" })).send().await.refused(409, 0, "already exists");
    for body in [json!({}), json!({ "id": "a/b" }), json!({ "id": "" }), json!({ "id": 7 })] {
        server.post(USERS).json(body).send().await.expect(400);
    }
    server.post(USERS).json(json!({ "id": "b", "x": 1 })).send().await.refused(501, 0, "'x'");
    server.post("/dbs/missing/users").json(json!({ "id": "b" })).send().await.refused(404, 1003, "");
    server.get("/dbs/db/users/bob/permissions").send().await.refused(404, 1003, "");
    server.post("/dbs/db/users/bob/permissions").json(on_items("p")).send().await.refused(404, 1003, "");
    server.get("/dbs/db/users/ann/permissions/p").send().await.expect(404);
    server.call("PATCH", "/dbs/db/users/ann").send().await.expect(405);
    server.delete(USERS).send().await.expect(405);
}

#[tokio::test]
async fn feeds_are_listed_queried_and_paged() {
    let server = with_ann().await;
    for id in ["bob", "cid"] {
        server.post(USERS).json(json!({ "id": id })).send().await.expect(201);
    }
    let list = server.get(USERS).send().await.expect(200).json();
    assert_eq!((list["_count"].as_u64(), list["Users"].as_array().map(Vec::len)), (Some(3), Some(3)));
    let found = query(&server, USERS, "SELECT * FROM root r WHERE r.id = 'bob'").await.json();
    assert_eq!((found["_count"].as_u64(), &found["Users"][0]["id"]), (Some(1), &json!("bob")));
    let (mut ids, mut continuation) = (Vec::new(), String::new());
    loop {
        let page = server.get(USERS).header("x-ms-max-item-count", "1");
        let page = page.header("x-ms-continuation", &continuation).send().await.expect(200);
        ids.push(page.json()["Users"][0]["id"].as_str().expect("an id").to_owned());
        let Some(next) = page.header("x-ms-continuation") else { break };
        continuation = next.to_owned();
    }
    ids.sort();
    assert_eq!(ids, ["ann", "bob", "cid"]);
    server.post(PERMISSIONS).json(on_items("p")).send().await.expect(201);
    let list = server.get(PERMISSIONS).send().await.expect(200).json();
    assert!(list["Permissions"][0]["_token"].is_string(), "{list}");
    let found = query(&server, PERMISSIONS, "SELECT * FROM root r WHERE r.id = 'p'").await.json();
    assert_eq!(found["_count"], 1);
    let found = query(&server, PERMISSIONS, "SELECT * FROM root r WHERE r.id = 'q'").await.json();
    assert_eq!(found["_count"], 0);
}

#[tokio::test]
async fn upserts_create_and_then_replace() {
    let server = with_ann().await;
    let upsert = |path: &str, body: Value| {
        server.post(path).header("x-ms-documentdb-is-upsert", "True").json(body).send()
    };
    let ann = server.get("/dbs/db/users/ann").send().await.json();
    assert_eq!(upsert(USERS, ann.clone()).await.expect(200).json()["_rid"], ann["_rid"]);
    upsert(USERS, json!({ "id": "bob" })).await.expect(201);
    let created = upsert(PERMISSIONS, on_items("p")).await.expect(201).json();
    let all = json!({ "id": "p", "permissionMode": "all", "resource": "dbs/db/colls/items" });
    let replaced = upsert(PERMISSIONS, all).await.expect(200).json();
    assert_eq!((&replaced["_rid"], &replaced["permissionMode"]), (&created["_rid"], &json!("all")));
    upsert(PERMISSIONS, on_items("q")).await.refused(409, 0, "same resource");
}

#[tokio::test]
async fn a_permission_is_created_read_renamed_and_deleted() {
    let server = with_ann().await;
    let body = json!({
        "id": "p",
        "permissionMode": "All",
        "resource": "/dbs/db/colls/items/",
        "resourcePartitionKey": ["k"],
    });
    let created = server.post(PERMISSIONS).json(body).send().await.expect(201);
    let permission = created.json();
    assert_eq!(permission["resource"], "dbs/db/colls/items");
    assert_eq!(
        (&permission["permissionMode"], &permission["resourcePartitionKey"]),
        (&json!("All"), &json!(["k"]))
    );
    let user = server.get("/dbs/db/users/ann").send().await.json();
    let own = user["_self"].as_str().expect("a link");
    let rid = permission["_rid"].as_str().expect("a rid");
    assert_eq!(permission["_self"], format!("{own}permissions/{rid}/"));
    let token = permission["_token"].as_str().expect("a token");
    assert!(token.starts_with("type=resource&ver=1.0&sig=") && token.ends_with(';'), "{token}");
    let by_rid = server.get(format!("/{}", permission["_self"].as_str().expect("a link"))).send().await;
    assert_eq!(by_rid.expect(200).json()["id"], "p");
    let mut renamed = permission.clone();
    renamed["id"] = json!("q");
    let renamed = server.put(format!("{PERMISSIONS}/p")).json(renamed).send().await.expect(200).json();
    assert_eq!(renamed["_rid"], permission["_rid"]);
    assert!(renamed["_token"].is_string());
    server.get(format!("{PERMISSIONS}/p")).send().await.expect(404);
    let outdated = server.put(format!("{PERMISSIONS}/q")).header("if-match", &created.etag());
    outdated.json(on_items("q")).send().await.expect(412);
    server.delete(format!("{PERMISSIONS}/q")).send().await.expect(204);
    server.delete(format!("{PERMISSIONS}/q")).send().await.expect(404);
}

#[tokio::test]
async fn permissions_are_for_containers_and_what_is_in_them() {
    let server = with_ann().await;
    server.post("/dbs").json(json!({ "id": "other" })).send().await.expect(201);
    let key = json!({ "paths": ["/pk"], "kind": "Hash", "version": 2 });
    let foreign = json!({ "id": "items", "partitionKey": key });
    server.post("/dbs/other/colls").json(foreign).send().await.expect(201);
    let create = |resource: &str, key: Value| {
        let body =
            json!({ "id": "p", "permissionMode": "Read", "resource": resource, "resourcePartitionKey": key });
        server.post(PERMISSIONS).json(body).send()
    };
    for (resource, key, status) in [
        ("dbs/db", Value::Null, 400),
        ("dbs/db/users/ann", Value::Null, 400),
        ("dbs/db/colls/items/docs", Value::Null, 400),
        ("", Value::Null, 400),
        ("dbs/other/colls/items", Value::Null, 400),
        ("dbs/db/colls/items", json!([]), 400),
        ("dbs/db/colls/items", json!(["a", "b"]), 400),
        ("dbs/db/colls/items", json!([["a"]]), 400),
        ("dbs/db/colls/items", json!(7), 400),
    ] {
        let answer = create(resource, key).await;
        assert_eq!(answer.status, status, "{resource}: {answer:?}");
    }
}

/// Clients store permissions for containers that do not exist yet or no longer, and several for one container.
#[tokio::test]
async fn permissions_differ_in_their_links_or_keys() {
    let server = with_ann().await;
    let rid =
        server.get("/dbs/db/colls/items").send().await.json()["_self"].as_str().expect("a link").to_owned();
    let create = |id: usize, resource: &str, key: Value| {
        let id = format!("p{id}");
        let body =
            json!({ "id": id, "permissionMode": "Read", "resource": resource, "resourcePartitionKey": key });
        server.post(PERMISSIONS).json(body).send()
    };
    for (id, (resource, key)) in [
        ("dbs/db/colls/missing", Value::Null),
        ("dbs/AQAAAA==/colls/AQAAAJ0fgTc=", Value::Null),
        ("dbs/db/colls/items", Value::Null),
        ("dbs/db/colls/items", json!(["a"])),
        ("dbs/db/colls/items", json!(["b"])),
        (&rid, json!(["a"])),
        ("dbs/db/colls/items/docs/a", json!(["a"])),
    ]
    .into_iter()
    .enumerate()
    {
        create(id, resource, key.clone()).await.expect(201);
        create(100 + id, resource, key).await.refused(409, 0, "same resource and partition key");
    }
    // A permission for a container that does not exist grants nothing.
    let permission = server.get(format!("{PERMISSIONS}/p0")).send().await.expect(200).json();
    let token = permission["_token"].as_str().expect("a token");
    let read = server.get("/dbs/db/colls/missing/docs/a").key(r#"["k"]"#);
    let refused = read.token(token).send().await;
    assert!(matches!(refused.status, 401 | 403 | 404), "{refused:?}");
}

#[tokio::test]
async fn tokens_last_as_long_as_is_asked_for_within_bounds() {
    let server = with_ann().await;
    server.create(json!({ "id": "a", "pk": "k" })).await;
    server.post(PERMISSIONS).json(on_items("p")).send().await.expect(201);
    let path = format!("{PERMISSIONS}/p");
    let ask = |seconds: &str| server.get(&*path).header("x-ms-documentdb-expiry-seconds", seconds).send();
    for seconds in ["0", "-1", "599", "86401", "1h", "99999999999999999999"] {
        ask(seconds).await.refused(400, 0, "x-ms-documentdb-expiry-seconds");
    }
    let token = |answer: Answer| answer.json()["_token"].as_str().expect("a token").to_owned();
    let short = token(ask("600").await.expect(200));
    let usual = token(server.get(&*path).send().await.expect(200));
    let long = token(ask("86400").await.expect(200));
    let listed = server.get(PERMISSIONS).header("x-ms-documentdb-expiry-seconds", "600").send().await;
    let listed = listed.expect(200).json()["Permissions"][0]["_token"].as_str().expect("a token").to_owned();
    let mut good = vec![(600, short), (600, listed), (3600, usual), (86_400, long)];
    let mut passed = 0;
    for seconds in [599, 600, 3599, 3600, 86_399, 86_400] {
        server.clock.advance(std::time::Duration::from_secs(seconds - passed));
        passed = seconds;
        for (lasts, token) in &mut good {
            let answer = server.item("GET", "a", r#"["k"]"#).token(token).send().await;
            match *lasts > seconds {
                true => drop(answer.expect(200)),
                false => drop(answer.refused(401, 0, "expired")),
            }
        }
    }
}

#[tokio::test]
async fn a_read_only_key_sees_users_and_no_permission() {
    let server = with_ann().await;
    server.post(PERMISSIONS).json(on_items("p")).send().await.expect(201);
    server.get(USERS).signed_with(READ_ONLY_KEY).send().await.expect(200);
    server.get("/dbs/db/users/ann").signed_with(READ_ONLY_KEY).send().await.expect(200);
    for path in [PERMISSIONS.to_owned(), format!("{PERMISSIONS}/p")] {
        server.get(path).signed_with(READ_ONLY_KEY).send().await.refused(403, 0, "permissions");
    }
    let query = server.post(PERMISSIONS).header("content-type", "application/query+json");
    let query = query.json(json!({ "query": "SELECT * FROM c" })).signed_with(READ_ONLY_KEY);
    query.send().await.refused(403, 0, "permissions");
}
