//! All versions and deletes of the change feed.

use std::time::Duration;

use serde_json::{Value, json};
use shardlake_model::Limits;
use shardlake_storage::{Shard, ShardOptions};

use crate::change_feed::{CONTAINER, after, replace, split};
use crate::harness::{Answer, Call, ITEMS, Server};

async fn keeping(minutes: u64, more: Value) -> Server {
    let server = Server::start().await;
    let mut definition = json!({
        "id": "items",
        "partitionKey": { "paths": ["/pk"], "kind": "Hash", "version": 2 },
        "changeFeedPolicy": { "retentionDuration": minutes },
    });
    for (name, value) in more.as_object().expect("an object") {
        definition[name] = value.clone();
    }
    server.create_container(definition).await;
    server
}

fn feed(server: &Server) -> Call<'_> {
    let call = server.get(ITEMS).header("a-im", "Full-Fidelity Feed");
    call.header("x-ms-cosmos-changefeed-wire-format-version", "2021-09-15")
}

async fn now(server: &Server) -> Answer {
    feed(server).header("if-none-match", "*").send().await.expect(304)
}

fn changes(answer: &Answer) -> Vec<Value> {
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()["Documents"].as_array().expect("an array").clone()
}

#[tokio::test]
async fn every_version_comes_with_what_it_replaced_and_every_deletion_with_its_name() {
    let server = keeping(10, json!({})).await;
    let start = now(&server).await;
    assert_eq!(start.header("etag"), Some("\"0\""));
    server.create(json!({ "id": "a", "pk": "k", "v": 1 })).await;
    replace(&server, json!({ "id": "a", "pk": "k", "v": 2 })).await;
    server.item("DELETE", "a", r#"["k"]"#).send().await.expect(204);
    let page = after(feed(&server), &start).send().await;
    let all = changes(&page);
    assert_eq!(page.header("etag"), Some("\"3\""));
    assert_eq!(all.len(), 3);
    let (created, replaced, deleted) = (&all[0], &all[1], &all[2]);
    assert_eq!(created["metadata"], json!({ "operationType": "create", "lsn": 1, "crts": 1_700_000_000 }));
    assert_eq!((&created["current"]["v"], created.get("previous")), (&json!(1), None));
    assert!(created["current"]["_etag"].is_string() && created["current"]["_ts"] == 1_700_000_000);
    let metadata =
        json!({ "operationType": "replace", "lsn": 2, "crts": 1_700_000_000, "previousImageLSN": 1 });
    assert_eq!(replaced["metadata"], metadata);
    assert_eq!((&replaced["current"]["v"], replaced.get("previous")), (&json!(2), None));
    let metadata = json!({
        "operationType": "delete", "lsn": 3, "crts": 1_700_000_000, "previousImageLSN": 2,
        "timeToLiveExpired": false, "id": "a", "partitionKey": { "pk": "k" },
    });
    assert_eq!(deleted["metadata"], metadata);
    assert_eq!((&deleted["current"], &deleted["previous"]), (&json!({}), &replaced["current"]));
    let asking = after(feed(&server), &start).header("x-shardlake-feed-previous", "true").send().await;
    assert_eq!(changes(&asking)[1]["previous"], created["current"]);
    assert!(asking.charge() > page.charge(), "the version before is read, too");
    after(feed(&server), &page).send().await.expect(304);
    // The feed of latest versions, meanwhile, is empty.
    server.get(ITEMS).header("a-im", "Incremental feed").send().await.expect(304);
}

/// The modes of `previousImageRetentionPolicy` are those of the Java SDK: 0 for none, 1 for replaces, 2 for deletes, 3 for both.
#[tokio::test]
async fn the_container_decides_which_changes_show_the_version_before() {
    for (mode, of_replace, of_delete) in
        [(0, false, false), (1, true, false), (2, false, true), (3, true, true)]
    {
        let policy = json!({ "supportedFeatures": { "allVersionsAndDeletes": { "mode": mode } } });
        let server = keeping(10, json!({ "previousImageRetentionPolicy": policy })).await;
        let shown = server.get(CONTAINER).send().await.expect(200).json();
        assert_eq!(shown["previousImageRetentionPolicy"], policy);
        let start = now(&server).await;
        server.create(json!({ "id": "a", "pk": "k", "v": 1 })).await;
        replace(&server, json!({ "id": "a", "pk": "k", "v": 2 })).await;
        server.item("DELETE", "a", r#"["k"]"#).send().await.expect(204);
        let all = changes(&after(feed(&server), &start).send().await);
        let has = |place: usize| all[place].get("previous").is_some();
        assert_eq!((has(0), has(1), has(2)), (false, of_replace, of_delete), "mode {mode}");
        let deletion = &all[2]["metadata"];
        assert_eq!((&deletion["id"], &deletion["previousImageLSN"]), (&json!("a"), &json!(2)));
        // A definition without the policy leaves it as it is.
        let key = json!({ "paths": ["/pk"], "kind": "Hash", "version": 2 });
        let kept = server.put(CONTAINER).json(json!({ "id": "items", "partitionKey": key })).send().await;
        assert_eq!(kept.expect(200).json()["previousImageRetentionPolicy"], policy);
    }
}

/// The service's continuous backup.
#[tokio::test]
async fn with_a_window_of_restores_every_container_keeps_all_versions() {
    let limits = Limits { versions_kept: Some(Duration::from_secs(3600)), ..Limits::default() };
    let server = Server::with_limits(limits).await;
    let container = server.get(CONTAINER).send().await.expect(200).json();
    assert_eq!(container.get("changeFeedPolicy"), None);
    let start = now(&server).await;
    server.create(json!({ "id": "a", "pk": "k", "v": 1 })).await;
    server.item("DELETE", "a", r#"["k"]"#).send().await.expect(204);
    let all = changes(&after(feed(&server), &start).send().await);
    let kinds: Vec<_> = all.iter().map(|change| change["metadata"]["operationType"].clone()).collect();
    assert_eq!(kinds, ["create", "delete"]);
    feed(&server).send().await.refused(400, 0, "neither from the beginning nor from a time");
    server.clock.advance(Duration::from_secs(3601));
    after(feed(&server), &start).send().await.refused(400, 0, "for 60 minutes");
    // A policy of the container takes precedence over the window.
    let key = json!({ "paths": ["/pk"], "kind": "Hash", "version": 2 });
    let definition = |minutes| json!({ "id": "items", "partitionKey": key, "changeFeedPolicy": { "retentionDuration": minutes } });
    server.put(CONTAINER).json(definition(0)).send().await.expect(200);
    feed(&server).header("if-none-match", "*").send().await.refused(400, 0, "must be enabled");
    server.put(CONTAINER).json(definition(5)).send().await.expect(200);
    let start = now(&server).await;
    server.create(json!({ "id": "b", "pk": "k", "v": 1 })).await;
    assert_eq!(changes(&after(feed(&server), &start).send().await).len(), 1);
}

/// Versions that ended before are not there, and a position from then does not pass for one of now.
#[tokio::test]
async fn containers_that_are_there_keep_versions_from_the_start_with_a_window_on() {
    let directory = tempfile::tempdir().expect("a directory");
    let open = || Shard::open(ShardOptions::local(directory.path()));
    let server = Server::over(open().await.expect("opens")).await;
    server.create_items_container().await;
    server.create(json!({ "id": "a", "pk": "k", "v": 1 })).await;
    feed(&server).header("if-none-match", "*").send().await.refused(400, 0, "must be enabled");
    server.gateway.account().close().await.expect("closed");
    drop(server);
    let limits = Limits { versions_kept: Some(Duration::from_secs(3600)), ..Limits::default() };
    let server = Server::over_with_limits(open().await.expect("opens again"), limits).await;
    feed(&server).header("if-none-match", "\"0\"").send().await.refused(400, 0, "older than what is kept");
    let start = now(&server).await;
    replace(&server, json!({ "id": "a", "pk": "k", "v": 2 })).await;
    let told = changes(&after(feed(&server), &start).send().await);
    assert_eq!((told.len(), &told[0]["current"]["v"]), (1, &json!(2)));
}

#[tokio::test]
async fn a_transaction_comes_to_one_change_per_item() {
    let server = keeping(10, json!({})).await;
    server.create(json!({ "id": "old", "pk": "k" })).await;
    let start = now(&server).await;
    let item = |id: &str, v: u64| json!({ "id": id, "pk": "k", "v": v });
    let batch = server.post(ITEMS).key(r#"["k"]"#).header("x-ms-cosmos-is-batch-request", "true");
    let operations = json!([
        { "operationType": "Create", "resourceBody": item("a", 1) },
        { "operationType": "Replace", "id": "a", "resourceBody": item("a", 2) },
        { "operationType": "Create", "resourceBody": item("b", 1) },
        { "operationType": "Delete", "id": "b" },
        { "operationType": "Delete", "id": "old" },
        { "operationType": "Create", "resourceBody": item("old", 7) },
    ]);
    let batch = batch.header("x-ms-cosmos-batch-atomic", "true");
    batch.json(operations).send().await.expect(200);
    let page = after(feed(&server), &start).header("x-ms-max-item-count", "1").send().await;
    let mut all = changes(&page);
    all.sort_by_key(|change| change["current"]["id"].to_string());
    assert_eq!(all.len(), 2, "{all:?}");
    let told = |change: &Value| {
        let metadata = &change["metadata"];
        (
            change["current"]["v"].clone(),
            metadata["operationType"].clone(),
            metadata["previousImageLSN"].clone(),
        )
    };
    assert_eq!(told(&all[0]), (json!(2), json!("create"), Value::Null));
    assert_eq!(told(&all[1]), (json!(7), json!("replace"), json!(1)));
    after(feed(&server), &page).send().await.expect(304);
}

#[tokio::test]
async fn the_end_of_a_time_to_live_is_a_deletion_that_says_so() {
    let server = keeping(10, json!({ "defaultTtl": 30 })).await;
    let start = now(&server).await;
    server.create(json!({ "id": "a", "pk": "k", "v": 1 })).await;
    server.clock.advance(Duration::from_secs(31));
    server.create(json!({ "id": "a", "pk": "k", "v": 2 })).await;
    let all = changes(&after(feed(&server), &start).send().await);
    let kinds: Vec<_> =
        all.iter().map(|change| change["metadata"]["operationType"].as_str().expect("text")).collect();
    assert_eq!(kinds, ["create", "delete", "create"]);
    assert_eq!(all[1]["metadata"]["timeToLiveExpired"], true);
    assert_eq!((&all[1]["metadata"]["lsn"], &all[2]["metadata"]["lsn"]), (&json!(2), &json!(2)));
    assert_eq!((&all[1]["previous"]["v"], &all[2]["current"]["v"]), (&json!(1), &json!(2)));
}

#[tokio::test]
async fn what_is_not_kept_is_refused_in_words() {
    let server = Server::with_container().await;
    let full = feed(&server).header("if-none-match", "*").send().await;
    full.refused(400, 0, "must be enabled");
    server.create(json!({ "id": "before", "pk": "k" })).await;
    // It can be asked for later, and then begins.
    let key = json!({ "paths": ["/pk"], "kind": "Hash", "version": 2 });
    let definition = |minutes| json!({ "id": "items", "partitionKey": key, "changeFeedPolicy": { "retentionDuration": minutes } });
    server.put(CONTAINER).json(definition(5)).send().await.expect(200);
    feed(&server).send().await.refused(400, 0, "neither from the beginning nor from a time");
    let timed = feed(&server)
        .header("if-none-match", "*")
        .header("if-modified-since", "Tue, 14 Nov 2023 22:13:25 GMT");
    timed.send().await.refused(400, 0, "neither from the beginning nor from a time");
    feed(&server).header("if-none-match", "\"0\"").send().await.refused(400, 0, "older than what is kept");
    let start = now(&server).await;
    replace(&server, json!({ "id": "before", "pk": "k", "v": 2 })).await;
    let page = after(feed(&server), &start).send().await;
    let told = changes(&page);
    assert_eq!((told.len(), &told[0]["current"]["id"]), (1, &json!("before")));
    // A client that knows nothing of the policy leaves it as it is.
    let without = json!({ "id": "items", "partitionKey": key, "defaultTtl": -1 });
    let kept = server.put(CONTAINER).json(without).send().await.expect(200).json();
    assert_eq!(kept["changeFeedPolicy"], json!({ "retentionDuration": 5 }));
    assert_eq!(changes(&after(feed(&server), &start).send().await).len(), 1);
    let too_long = server.put(CONTAINER).json(definition(99_999_999)).send().await;
    too_long.refused(400, 0, "from 0 (off) to 527040");
    server.clock.advance(Duration::from_secs(6 * 60));
    after(feed(&server), &start).send().await.refused(400, 0, "for 5 minutes");
    after(feed(&server), &page).send().await.expect(304);
    server.put(CONTAINER).json(definition(0)).send().await.expect(200);
    after(feed(&server), &page).send().await.refused(400, 0, "must be enabled");
    server.put(CONTAINER).json(definition(5)).send().await.expect(200);
    after(feed(&server), &page).send().await.expect(304);
    server.create(json!({ "id": "last", "pk": "k" })).await;
    assert_eq!(changes(&after(feed(&server), &page).send().await).len(), 1);
}

#[tokio::test]
async fn versions_move_with_their_items() {
    let server = keeping(10, json!({})).await;
    let start = now(&server).await;
    let write = async |v: u64| {
        for number in 0..12 {
            let item = json!({ "id": "a", "pk": format!("k{number}"), "v": v });
            match v {
                1 => drop(server.create(item).await),
                _ => replace(&server, item).await,
            }
        }
    };
    write(1).await;
    write(2).await;
    let children = split(&server, "0").await;
    write(3).await;
    let mut all = Vec::new();
    for child in &children {
        let call = feed(&server).header("x-ms-documentdb-partitionkeyrangeid", child);
        let call = call.header("x-shardlake-feed-previous", "true");
        let told = changes(&after(call, &start).send().await);
        let lsns: Vec<_> =
            told.iter().map(|change| change["metadata"]["lsn"].as_u64().expect("a number")).collect();
        assert!(lsns.is_sorted(), "{lsns:?}");
        all.extend(told);
    }
    assert_eq!(all.len(), 36);
    for number in 0..12 {
        let key = format!("k{number}");
        let of_key = all.iter().filter(|change| change["current"]["pk"] == key.as_str());
        let versions: Vec<_> =
            of_key.map(|change| (change["current"]["v"].clone(), change["previous"]["v"].clone())).collect();
        assert_eq!(versions, [(json!(1), Value::Null), (json!(2), json!(1)), (json!(3), json!(2))]);
    }
}
