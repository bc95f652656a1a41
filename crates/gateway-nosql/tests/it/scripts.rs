//! Stored procedures, triggers and user-defined functions as resources, and procedures at work.

use serde_json::json;
use shardlake_model::Limits;
use shardlake_storage::{Shard, ShardOptions};

use crate::harness::{ITEMS, READ_ONLY_KEY, Server};

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

#[tokio::test]
async fn scripts_are_created_read_replaced_and_deleted() {
    let server = Server::with_container().await;
    for (segment, member, definition) in kinds() {
        let feed = format!("{CONTAINER}/{segment}");
        let created = server.post(feed.as_str()).json(definition.clone()).send().await.expect(201);
        let script = created.json();
        for (name, value) in definition.as_object().expect("an object") {
            assert_eq!(&script[name], value, "{segment}");
        }
        assert_eq!(script["_etag"], created.etag());
        assert_eq!(script["_ts"], 1_700_000_000);
        let (rid, link) = (script["_rid"].as_str().expect("text"), script["_self"].as_str().expect("text"));
        assert!(link.ends_with(&format!("/{segment}/{rid}/")), "{link}");
        assert_eq!(
            script.as_object().expect("an object").len(),
            definition.as_object().expect("one").len() + 4
        );
        let again = server.post(feed.as_str()).json(definition.clone()).send().await;
        again.refused(409, 0, "already exists");

        let one = format!("{feed}/a%20script/");
        assert_eq!(server.get(one.as_str()).send().await.expect(200).json(), script);
        let by_rid = format!("/{link}");
        assert_eq!(server.get(by_rid.as_str()).send().await.expect(200).json(), script);
        server.get(one.as_str()).header("if-none-match", &created.etag()).send().await.expect(304);
        let page = server.get(feed.as_str()).send().await.expect(200).json();
        assert_eq!((&page[member], &page["_count"]), (&json!([script]), &json!(1)));

        // Clients send the read document back.
        let mut changed = script.clone();
        changed["body"] = json!("function () { return 1; }");
        let stale = server.put(one.as_str()).json(changed.clone()).header("if-match", "\"x\"");
        stale.send().await.expect(412);
        let replaced = server.put(by_rid.as_str()).json(changed.clone()).header("if-match", &created.etag());
        let replaced = replaced.send().await.expect(200);
        assert_eq!((&replaced.json()["body"], &replaced.json()["_rid"]), (&changed["body"], &script["_rid"]));
        assert_ne!(replaced.etag(), created.etag());
        let upsert = |id: &str| {
            let mut definition = definition.clone();
            definition["id"] = json!(id);
            server.post(feed.as_str()).header("x-ms-documentdb-is-upsert", "True").json(definition)
        };
        upsert("a script").send().await.expect(200);
        upsert("another").send().await.expect(201);

        server.delete(one.as_str()).header("if-match", "\"x\"").send().await.expect(412);
        server.delete(one.as_str()).send().await.expect(204);
        server.get(one.as_str()).send().await.expect(404);
        server.delete(by_rid).send().await.expect(404);
    }
}

#[tokio::test]
async fn scripts_are_queried_and_come_in_pages() {
    let server = Server::with_container().await;
    let feed = format!("{CONTAINER}/udfs");
    for number in 0..5 {
        let definition = json!({ "id": format!("f{number}"), "body": "function () { }" });
        server.post(feed.as_str()).json(definition).send().await.expect(201);
    }
    let query = server.post(feed.as_str()).header("content-type", "application/query+json").json(json!({
        "query": "SELECT * FROM root r WHERE r.id = @id",
        "parameters": [{ "name": "@id", "value": "f3" }],
    }));
    let found = query.send().await.expect(200).json();
    assert_eq!((&found["_count"], &found["UserDefinedFunctions"][0]["id"]), (&json!(1), &json!("f3")));
    let (mut ids, mut continuation) = (Vec::new(), None::<String>);
    loop {
        let mut call = server.get(feed.as_str()).header("x-ms-max-item-count", "2");
        if let Some(token) = &continuation {
            call = call.header("x-ms-continuation", token);
        }
        let page = call.send().await.expect(200);
        let rows = page.json()["UserDefinedFunctions"].as_array().expect("rows").clone();
        assert!(rows.len() <= 2);
        ids.extend(rows.iter().map(|row| row["id"].as_str().expect("text").to_owned()));
        continuation = page.header("x-ms-continuation").map(str::to_owned);
        if continuation.is_none() {
            break;
        }
    }
    ids.sort();
    assert_eq!(ids, ["f0", "f1", "f2", "f3", "f4"]);
}

#[tokio::test]
async fn a_read_only_key_reads_scripts_and_changes_and_runs_none() {
    let server = Server::with_container().await;
    for (segment, _, definition) in kinds() {
        let feed = format!("{CONTAINER}/{segment}");
        server.post(feed.as_str()).json(definition.clone()).send().await.expect(201);
        let one = format!("{feed}/a%20script");
        for call in [server.get(feed.as_str()), server.get(one.as_str())] {
            call.signed_with(READ_ONLY_KEY).send().await.expect(200);
        }
        for call in [server.post(feed.as_str()), server.put(one.as_str()), server.delete(one.as_str())] {
            let refused = call.json(definition.clone()).signed_with(READ_ONLY_KEY).send().await;
            refused.refused(401, 0, "read-only key");
        }
    }
    let run = server.post(format!("{CONTAINER}/sprocs/a%20script")).key("[1]").signed_with(READ_ONLY_KEY);
    run.send().await.refused(401, 0, "read-only key");
}

#[tokio::test]
async fn scripts_are_there_after_a_restart() {
    let shard = Shard::open(ShardOptions::memory()).await.expect("a shard in memory opens");
    let server = Server::over(shard.clone()).await;
    server.create_container(json!({ "id": "items", "partitionKey": { "paths": ["/pk"] } })).await;
    let mut created = Vec::new();
    for (segment, _, definition) in kinds() {
        let answer = server.post(format!("{CONTAINER}/{segment}")).json(definition).send().await.expect(201);
        created.push((format!("{CONTAINER}/{segment}/a%20script"), answer.json()));
    }
    drop(server);
    let server = Server::over(shard).await;
    for (path, script) in created {
        assert_eq!(server.get(path).send().await.expect(200).json(), script);
    }
}

#[tokio::test]
async fn texts_come_back_as_they_were_sent() {
    let server = Server::with_container().await;
    let body = "// \u{e9} \u{65e5} \u{1f389}\r\nfunction f () { return '\u{85} \u{2028} \u{2029} \u{200c} \\u0041 \\' \"'; }";
    let definition = json!({ "id": "\u{65e5}", "body": body });
    server.post(format!("{CONTAINER}/udfs")).json(definition).send().await.expect(201);
    let read = server.get(format!("{CONTAINER}/udfs/%E6%97%A5")).send().await.expect(200).json();
    assert_eq!((&read["id"], &read["body"]), (&json!("\u{65e5}"), &json!(body)));
    // As clients print a method; the documentation of an SDK has such a trigger.
    let method = json!({ "id": "method", "body": "serverScript() { var x = 10; return x; } // end" });
    server.post(format!("{CONTAINER}/udfs")).json(method).send().await.expect(201);
    for body in ["a() { }, b() { }", "a() { }, b: 1", "a()", "a() { } + 1"] {
        let other = json!({ "id": "other", "body": body });
        server.post(format!("{CONTAINER}/udfs")).json(other).send().await.refused(400, 0, "'other'");
    }
    let broken = json!({ "id": "broken", "body": "function () {\n  return 1 +;\n}" });
    server.post(format!("{CONTAINER}/udfs")).json(broken).send().await.refused(400, 0, "line 2, column");
}

#[tokio::test]
async fn a_page_has_room_for_so_many_texts() {
    let limits = Limits { page_size_bytes_max: 10_000, ..Limits::default() };
    let server = Server::with_limits(limits).await;
    let feed = format!("{CONTAINER}/sprocs");
    for number in 0..7 {
        let body =
            format!("function () {{ /* {} */ }}", "x".repeat(if number == 0 { 20_000 } else { 3_000 }));
        let definition = json!({ "id": number.to_string(), "body": body });
        server.post(feed.as_str()).json(definition).send().await.expect(201);
    }
    let (mut seen, mut pages, mut continuation) = (Vec::new(), 0, String::new());
    loop {
        let page =
            server.get(feed.as_str()).header("x-ms-continuation", &continuation).send().await.expect(200);
        let rows = page.json()["StoredProcedures"].as_array().expect("rows").clone();
        assert!(page.text.len() < 11_000 || rows.len() == 1, "{} bytes", page.text.len());
        seen.extend(rows.iter().map(|row| row["id"].as_str().expect("text").to_owned()));
        pages += 1;
        match page.header("x-ms-continuation") {
            Some(token) => continuation = token.to_owned(),
            None => break,
        }
    }
    seen.sort();
    assert_eq!(seen, ["0", "1", "2", "3", "4", "5", "6"]);
    assert!((3..=7).contains(&pages), "{pages}");
}
