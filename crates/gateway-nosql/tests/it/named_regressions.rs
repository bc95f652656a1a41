//! Problems of other emulators' users, each test named after the public thread that reports it.

use serde_json::json;

use crate::batch::{atomic, statuses};
use crate::harness::{ITEMS, Server};

#[tokio::test]
async fn issue_303_batch_over_100_operations_is_refused() {
    let server = Server::with_container().await;
    let create = |number: usize| json!({ "operationType": "Create", "resourceBody": { "id": format!("i{number}"), "pk": "k" } });
    let too_many: Vec<_> = (0..101).map(create).collect();
    let answer = atomic(&server, json!(too_many)).await;
    answer.refused(400, 0, "Batch request has more operations than what is supported.");
    assert_eq!(server.get(ITEMS).send().await.json()["_count"], 0);
    atomic(&server, json!(too_many[..100])).await.expect(200);
}

#[tokio::test]
async fn issue_304_a_failed_batch_leaves_nothing_behind() {
    let server = Server::with_container().await;
    let before = server.create(json!({ "id": "taken", "pk": "k" })).await;
    let answer = atomic(
        &server,
        json!([
            { "operationType": "Create", "resourceBody": { "id": "a", "pk": "k" } },
            { "operationType": "Create", "resourceBody": { "id": "taken", "pk": "k" } },
            { "operationType": "Create", "resourceBody": { "id": "b", "pk": "k" } },
        ]),
    )
    .await
    .expect(207);
    assert_eq!(statuses(&answer), [424, 409, 424]);
    assert_eq!(server.get(ITEMS).send().await.json()["_count"], 1);
    let next = server.create(json!({ "id": "next", "pk": "k" })).await;
    assert_eq!(next.lsn(), before.lsn() + 1, "the failed batch took no LSN");
}

#[tokio::test]
async fn issue_292_batches_across_partition_keys_and_above_2_mb_are_refused() {
    let server = Server::with_container().await;
    let answer = atomic(
        &server,
        json!([
            { "operationType": "Create", "resourceBody": { "id": "a", "pk": "k" } },
            { "operationType": "Create", "resourceBody": { "id": "b", "pk": "other" } },
        ]),
    )
    .await
    .expect(207);
    assert_eq!(statuses(&answer), [424, 400]);
    let large = "x".repeat(1_300_000);
    let create =
        |id: &str| json!({ "operationType": "Create", "resourceBody": { "id": id, "pk": "k", "x": large } });
    let answer = atomic(&server, json!([create("a"), create("b")])).await.expect(413);
    assert_eq!(answer.json()["code"], "RequestEntityTooLarge");
    let item = json!({ "id": "a", "pk": "k", "x": "x".repeat(2 * 1024 * 1024) });
    let answer = server.post(ITEMS).key(r#"["k"]"#).json(item).send().await.expect(413);
    assert_eq!(answer.json()["code"], "RequestEntityTooLarge");
    assert_eq!(server.get(ITEMS).send().await.json()["_count"], 0);
}

/// Threads 296, 302 and 319 report the same of three releases.
#[tokio::test]
async fn issue_319_if_match_is_enforced_inside_a_batch() {
    let server = Server::with_container().await;
    let old = server.create(json!({ "id": "a", "pk": "k", "n": 1 })).await.etag();
    let new =
        server.item("PUT", "a", r#"["k"]"#).json(json!({ "id": "a", "pk": "k", "n": 2 })).send().await.etag();
    for operation in [
        json!({ "operationType": "Replace", "id": "a", "resourceBody": { "id": "a", "pk": "k" }, "ifMatch": old }),
        json!({ "operationType": "Patch", "id": "a", "resourceBody": { "operations": [{ "op": "incr", "path": "/n", "value": 1 }] }, "ifMatch": old }),
        json!({ "operationType": "Delete", "id": "a", "ifMatch": old }),
        json!({ "operationType": "Upsert", "resourceBody": { "id": "a", "pk": "k" }, "ifMatch": old }),
    ] {
        let create = json!({ "operationType": "Create", "resourceBody": { "id": "b", "pk": "k" } });
        let answer = atomic(&server, json!([create, operation])).await.expect(207);
        assert_eq!(statuses(&answer), [424, 412], "{operation}");
    }
    assert_eq!(server.item("GET", "a", r#"["k"]"#).send().await.etag(), new);
    let current = json!({ "operationType": "Delete", "id": "a", "ifMatch": new });
    assert_eq!(statuses(&atomic(&server, json!([current])).await.expect(200)), [204]);
}

#[tokio::test]
async fn issue_349_a_point_read_with_the_current_etag_is_304() {
    let server = Server::with_container().await;
    let created = server.create(json!({ "id": "a", "pk": "k" })).await;
    let read = |etag: &str| server.item("GET", "a", r#"["k"]"#).header("if-none-match", etag);
    let unchanged = read(&created.etag()).send().await.expect(304);
    assert_eq!(unchanged.etag(), created.etag());
    assert!(unchanged.header("x-ms-session-token").is_some() && unchanged.charge() >= 1.0);
    read("*").send().await.expect(304);
    read("\"00000000-0000-0000-0000-000000000000\"").send().await.expect(200);
}

#[tokio::test]
async fn issue_205_every_write_returns_its_etag() {
    let server = Server::with_container().await;
    let created = server.create(json!({ "id": "a", "pk": "k" })).await;
    assert_eq!(created.json()["_etag"], created.etag());
    let put = server
        .item("PUT", "a", r#"["k"]"#)
        .json(json!({ "id": "a", "pk": "k", "n": 1 }))
        .send()
        .await
        .expect(200);
    assert_eq!(put.json()["_etag"], put.etag());
    let patched =
        server.item("PATCH", "a", r#"["k"]"#).json(json!([{ "op": "incr", "path": "/n", "value": 1 }]));
    let patched = patched.send().await.expect(200);
    assert_eq!(patched.json()["_etag"], patched.etag());
    assert!(created.etag() != put.etag() && put.etag() != patched.etag());
}

#[tokio::test]
async fn issue_185_delete_respects_if_match() {
    let server = Server::with_container().await;
    let etag = server.create(json!({ "id": "a", "pk": "k" })).await.etag();
    let delete = |etag: &str| server.item("DELETE", "a", r#"["k"]"#).header("if-match", etag);
    delete("\"random\"").send().await.expect(412);
    delete(&etag).send().await.expect(204);
}

#[tokio::test]
async fn issue_331_feeds_return_the_session_token_of_the_last_write() {
    let server = Server::with_container().await;
    let written = server.create(json!({ "id": "a", "pk": "k" })).await;
    for call in [server.get(ITEMS), server.get(ITEMS).key(r#"["k"]"#)] {
        let feed = call.send().await.expect(200);
        assert_eq!(feed.header("x-ms-session-token"), written.header("x-ms-session-token"));
    }
}

#[tokio::test]
async fn issue_322_a_session_token_from_the_future_is_refused() {
    let server = Server::with_container().await;
    let written = server.create(json!({ "id": "a", "pk": "k" })).await;
    let read = |token: &str| server.item("GET", "a", r#"["k"]"#).header("x-ms-session-token", token);
    read(written.header("x-ms-session-token").expect("a token")).send().await.expect(200);
    let future = format!("0:1700000000000#{}", written.lsn() + 1000);
    read(&future).send().await.refused(
        404,
        1002,
        "The read session is not available for the input session token.",
    );
    read("7:1700000000000#1000000").send().await.expect(200);
    read(&future).header("x-ms-consistency-level", "Eventual").send().await.expect(200);
}

#[tokio::test]
async fn issue_291_session_tokens_advance_and_broken_ones_are_refused() {
    let server = Server::with_container().await;
    let first = server.create(json!({ "id": "a", "pk": "k" })).await;
    let second = server.create(json!({ "id": "b", "pk": "k" })).await;
    assert_eq!(second.lsn(), first.lsn() + 1);
    assert_ne!(first.header("x-ms-session-token"), second.header("x-ms-session-token"));
    let read = server.item("GET", "a", r#"["k"]"#).header("x-ms-session-token", "invalidtoken");
    read.send().await.expect(400);
}

#[tokio::test]
async fn issue_352_an_altered_continuation_token_is_refused() {
    let server = Server::with_container().await;
    for number in 0..3 {
        server.create(json!({ "id": format!("i{number}"), "pk": "k" })).await;
    }
    let page = server.get(ITEMS).header("x-ms-max-item-count", "1").send().await.expect(200);
    let token = page.header("x-ms-continuation").expect("more").to_owned();
    let middle = token.len() / 2;
    let swapped = if token.as_bytes()[middle] == b'A' { "B" } else { "A" };
    let altered = format!("{}{swapped}{}", &token[..middle], &token[middle + 1..]);
    server.get(ITEMS).header("x-ms-continuation", &altered).send().await.expect(400);
    server.get(ITEMS).header("x-ms-continuation", &token).send().await.expect(200);
}

#[tokio::test]
async fn issue_245_reading_a_deleted_item_is_an_ordinary_404() {
    let server = Server::with_container().await;
    server.create(json!({ "id": "a", "pk": "k" })).await;
    server.item("DELETE", "a", r#"["k"]"#).send().await.expect(204);
    server.item("GET", "a", r#"["k"]"#).send().await.refused(
        404,
        0,
        "Entity with the specified id does not exist in the system.",
    );
}
