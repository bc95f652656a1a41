//! Request headers at the wire: values that do not exist, features that are not there, and headers that decide how a read is done.

use serde_json::json;

use crate::harness::{ITEMS, Server};

const KEY: &str = r#"["k"]"#;

#[tokio::test]
async fn a_read_strategy_decides_whether_the_session_token_counts() {
    let server = Server::with_container().await;
    let created = server.create(json!({ "id": "a", "pk": "k" })).await;
    let own = created.header("x-ms-session-token").expect("a position").to_owned();
    let (range, _) = own.rsplit_once('#').expect("a version and an LSN");
    let ahead = format!("{range}#{}", created.lsn() + 1000);
    let read = |strategy: &str| {
        let call = server.item("GET", "a", KEY).header("x-ms-session-token", &ahead);
        call.header("x-ms-cosmos-read-consistency-strategy", strategy)
    };
    read("Session").send().await.refused(404, 1002, "session");
    let eventual = read("Eventual").send().await.expect(200);
    let latest = read("LatestCommitted").send().await.expect(200);
    assert_eq!(latest.charge(), 2.0 * eventual.charge(), "as the level BoundedStaleness");
    for (strategy, words) in
        [("Bogus", "'Bogus'"), ("latestcommitted", "invalid"), ("GlobalStrong", "Strong")]
    {
        read(strategy).send().await.refused(400, 0, words);
    }
    let both = read("Eventual").header("x-ms-consistency-level", "Eventual").send().await;
    both.refused(400, 0, "x-ms-consistency-level");
    // Queries and feeds read by the same rule.
    let query = |strategy: &str| {
        let call = server.post(ITEMS).header("content-type", "application/query+json").key(KEY);
        let call = call.header("x-ms-session-token", &ahead).json(json!({ "query": "SELECT * FROM c" }));
        call.header("x-ms-cosmos-read-consistency-strategy", strategy)
    };
    query("Eventual").send().await.expect(200);
    query("Session").send().await.refused(404, 1002, "session");
}

#[tokio::test]
async fn versions_that_do_not_exist_are_refused() {
    let server = Server::with_container().await;
    let create = |version: &str, id: &str| {
        server.post(ITEMS).key(KEY).json(json!({ "id": id, "pk": "k" })).header("x-ms-version", version)
    };
    create("2015-01-01", "old").send().await.refused(400, 0, "Invalid API version.");
    server.item("GET", "old", KEY).send().await.expect(404);
    for version in ["2014-08-21", "2020-07-15", "2030-01-01", ""] {
        create(version, &format!("v{version}")).send().await.expect(201);
    }
}

#[tokio::test]
async fn headers_of_missing_features_are_refused_by_name() {
    let server = Server::with_container().await;
    server.create(json!({ "id": "a", "pk": "k" })).await;
    for (name, value) in [
        ("x-ms-enumeration-direction", "Reverse"),
        ("x-ms-start-id", "a"),
        ("x-ms-documentdb-filterby-schema-rid", "x"),
        ("x-ms-cosmos-tx-id", "0f8fad5b-d9cb-469f-a165-70867728950e"),
    ] {
        server.get(ITEMS).key(KEY).header(name, value).send().await.refused(501, 0, name);
    }
    let create = server.post(ITEMS).key(KEY).json(json!({ "id": "b", "pk": "k" }));
    create.header("x-ms-time-to-live-in-seconds", "5").send().await.refused(501, 0, "'ttl'");
    server.item("GET", "b", KEY).send().await.expect(404);
    let harmless = server.get(ITEMS).key(KEY).header("x-ms-is-readonly-script", "False");
    harmless.header("x-ms-cosmos-workload-id", "7").send().await.expect(200);
}

#[tokio::test]
async fn a_limit_of_zero_for_tokens_is_refused() {
    let server = Server::with_container().await;
    let name = "x-ms-documentdb-responsecontinuationtokenlimitinkb";
    let feed = |limit: &str| server.get(ITEMS).key(KEY).header(name, limit);
    for limit in ["0", "-2", "much"] {
        feed(limit).send().await.refused(400, 0, name);
    }
    for limit in ["1", "64", ""] {
        feed(limit).send().await.expect(200);
    }
}

#[tokio::test]
async fn a_session_token_that_cannot_be_read_is_refused_by_every_operation() {
    let server = Server::with_container().await;
    server.create(json!({ "id": "a", "pk": "k" })).await;
    let item = json!({ "id": "a", "pk": "k", "n": 1 });
    let patch = json!({ "operations": [{ "op": "set", "path": "/n", "value": 1 }] });
    let batch = json!([{ "operationType": "Read", "id": "a" }]);
    let post = || server.post(ITEMS).key(KEY);
    for call in [
        post().json(json!({ "id": "b", "pk": "k" })),
        post().header("x-ms-documentdb-is-upsert", "True").json(item.clone()),
        server.item("PUT", "a", KEY).json(item),
        server.item("PATCH", "a", KEY).json(patch),
        server.item("DELETE", "a", KEY),
        server.item("GET", "a", KEY),
        post()
            .header("x-ms-cosmos-is-batch-request", "True")
            .header("x-ms-cosmos-batch-atomic", "True")
            .json(batch),
    ] {
        let answer = call.header("x-ms-session-token", "no:token").send().await;
        answer.refused(400, 0, "The session token provided 'no:token' is invalid.");
    }
    let untouched = server.item("GET", "a", KEY).send().await.expect(200).json();
    assert_eq!(untouched.get("n"), None);
    server.item("GET", "b", KEY).send().await.expect(404);
    // A position ahead of the server holds up no write.
    let ahead = post().header("x-ms-session-token", "0:-1#99999").json(json!({ "id": "c", "pk": "k" }));
    ahead.send().await.expect(201);
}

#[tokio::test]
async fn unknown_serialization_formats_are_refused() {
    let server = Server::with_container().await;
    server.create(json!({ "id": "a", "pk": "k" })).await;
    for name in
        ["x-ms-cosmos-supported-serialization-formats", "x-ms-documentdb-content-serialization-format"]
    {
        for formats in ["Invalid value", ",,", "JsonText, ", "Json,Text", "JsonText|CosmosBinary"] {
            let feed = server.get(ITEMS).key(KEY).header(name, formats).send().await;
            feed.refused(400, 0, formats.trim());
            server.item("GET", "a", KEY).header(name, formats).send().await.expect(400);
        }
        server.item("GET", "a", KEY).header(name, "jsontext, HYBRIDROW").send().await.expect(200);
        server.item("GET", "a", KEY).header(name, "HybridRow").send().await.refused(501, 0, "HybridRow");
    }
}

#[tokio::test]
async fn a_query_over_the_change_feed_is_refused_by_name() {
    let server = Server::with_container().await;
    let query = || {
        let call = server.post(ITEMS).header("content-type", "application/query+json").key(KEY);
        call.json(json!({ "query": "SELECT * FROM c" }))
    };
    for mode in ["Incremental Feed", "Full-Fidelity Feed"] {
        query().header("a-im", mode).send().await.refused(501, 0, "change feed");
    }
    query().header("a-im", "").send().await.expect(200);
}

#[tokio::test]
async fn items_are_answered_without_their_links_on_request() {
    let server = Server::with_container().await;
    let name = "x-ms-exclude-system-properties";
    let members = |item: &serde_json::Value| {
        let mut names: Vec<String> = item.as_object().expect("an item").keys().cloned().collect();
        names.sort();
        names
    };
    let create = server.post(ITEMS).key(KEY).json(json!({ "id": "a", "pk": "k" })).header(name, "True");
    let created = create.send().await.expect(201).json();
    assert_eq!(members(&created), ["_etag", "_rid", "_ts", "id", "pk"]);
    for formats in ["JsonText", "CosmosBinary"] {
        let read = |excludes: &str| server.item("GET", "a", KEY).header(name, excludes).in_formats(formats);
        assert_eq!(read("True").send().await.expect(200).json(), created, "{formats}");
        let whole = read("False").send().await.expect(200).json();
        assert_eq!(members(&whole), ["_attachments", "_etag", "_rid", "_self", "_ts", "id", "pk"]);
    }
    server.item("GET", "a", KEY).header(name, "perhaps").send().await.expect(400);
    server.item("DELETE", "a", KEY).header(name, "True").send().await.expect(204);
}

#[tokio::test]
async fn operations_on_items_have_quota_and_usage_on_request() {
    let server = Server::with_container().await;
    let name = "x-ms-documentdb-populatequotainfo";
    let create = server.post(ITEMS).key(KEY).json(json!({ "id": "a", "pk": "k" })).header(name, "True");
    let created = create.send().await.expect(201);
    assert!(
        created.header("x-ms-resource-usage").expect("usage").contains("documentsCount=1;"),
        "{created:?}"
    );
    let read = server.item("GET", "a", KEY).header(name, "True").send().await.expect(200);
    assert!(read.header("x-ms-resource-quota").expect("quota").contains("documentsSize="), "{read:?}");
    assert_eq!(server.item("GET", "a", KEY).send().await.expect(200).header("x-ms-resource-quota"), None);
    // A token for a part of the container does not show how much the whole holds.
    for (resource, is_shown) in [("items", true), ("items/docs/a", false)] {
        let token = server.token_for("Read", resource).await;
        let read = server.item("GET", "a", KEY).header(name, "True").token(&token).send().await.expect(200);
        assert_eq!(read.header("x-ms-resource-usage").is_some(), is_shown, "{resource}");
    }
}
