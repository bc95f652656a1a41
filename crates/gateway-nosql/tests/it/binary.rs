//! Items in Cosmos binary JSON: sent by clients, and answered where clients request it.

use serde_json::{Value, json};
use shardlake_document::binary_of_json;
use shardlake_model::Limits;

use crate::access;
use crate::batch::statuses;
use crate::harness::{Answer, ITEMS, Server};

const KEY: &str = r#"["k"]"#;

fn sample(id: &str) -> Value {
    json!({
        "id": id, "pk": "k", "name": "Grüße \u{1F600}", "empty": "", "long": "x".repeat(300),
        "numbers": [0, 31, 32, -1, 255, 65536, 2_147_483_648_i64, 9_007_199_254_740_993_i64, 0.1, 1.0, -0.5, 1e300],
        "words": [null, true, false, {}, [], [[{}]]],
        "in": { "id": 1, "type": "Point", "_ts": 5, "a\u{0}b": { "c": null } },
    })
}

/// An item without the server's properties.
fn own(item: &Answer) -> Value {
    let mut item = item.json();
    item.as_object_mut().expect("an object").retain(|name, _| !name.starts_with('_'));
    item
}

#[tokio::test]
async fn items_are_written_and_read_in_either_form() {
    let server = Server::with_container().await;
    let text = server.post(ITEMS).key(KEY).json(sample("a")).send().await.expect(201);
    let binary = server.post(ITEMS).key(KEY).binary(&sample("b")).send().await.expect(201);
    assert_eq!(text.charge(), binary.charge());
    assert_eq!(text.text.len(), binary.text.len(), "numbers and order are the same, too");
    for id in ["a", "b"] {
        let as_text = server.item("GET", id, KEY).send().await.expect(200);
        let as_binary = server.item("GET", id, KEY).in_formats("CosmosBinary").send().await.expect(200);
        assert!(!as_text.is_binary && as_binary.is_binary);
        assert_eq!(as_text.text, as_binary.text);
        assert_eq!((as_text.charge(), as_text.etag()), (as_binary.charge(), as_binary.etag()));
        let mut shown = sample(id);
        shown["numbers"][9] = json!(1);
        assert_eq!(own(&as_text), shown, "whole numbers have no fraction");
    }
    let changed = json!({ "id": "b", "pk": "k", "n": 1 });
    let replaced = server.item("PUT", "b", KEY).binary(&changed).in_formats("CosmosBinary").send().await;
    assert!(replaced.is_binary);
    assert_eq!(own(&replaced.expect(200)), changed);
    let upserted = server.post(ITEMS).key(KEY).header("x-ms-documentdb-is-upsert", "true").binary(&changed);
    assert_eq!(own(&upserted.in_formats("CosmosBinary").send().await.expect(200)), changed);
    // The key comes from the body where the request does not name it.
    server.post(ITEMS).binary(&json!({ "id": "c", "pk": "other" })).send().await.expect(201);
    server.item("GET", "c", r#"["other"]"#).send().await.expect(200);
}

#[tokio::test]
async fn the_answer_comes_in_the_format_that_is_asked_for() {
    let server = Server::with_container().await;
    server.create(json!({ "id": "a", "pk": "k" })).await;
    let query = json!({ "query": "SELECT * FROM c" });
    let feed = || server.get(ITEMS).key(KEY);
    for (formats, item_is_binary, page_is_binary) in [
        ("JsonText", false, false),
        ("JsonText,CosmosBinary", true, false),
        ("cosmosbinary", true, true),
        ("HybridRow, JsonText", false, false),
        ("HybridRow,CosmosBinary", true, true),
    ] {
        let item = server.item("GET", "a", KEY).in_formats(formats).send().await.expect(200);
        assert_eq!(item.is_binary, item_is_binary, "{formats}");
        for call in [
            server.post(ITEMS).key(KEY).header("x-ms-documentdb-isquery", "true").json(query.clone()),
            feed(),
            feed().header("a-im", "Incremental feed"),
        ] {
            let page = call.in_formats(formats).send().await.expect(200);
            assert_eq!(page.is_binary, page_is_binary, "{formats}");
            assert_eq!(page.json()["Documents"][0]["id"], "a");
        }
        // Errors and empty answers are the same for every client.
        server.item("GET", "none", KEY).in_formats(formats).send().await.expect(404);
        let minimal = server.item("PUT", "a", KEY).header("prefer", "return=minimal").in_formats(formats);
        let minimal = minimal.json(json!({ "id": "a", "pk": "k" })).send().await.expect(200);
        assert!(minimal.text.is_empty());
        let same = server.item("GET", "a", KEY).in_formats(formats).header("if-none-match", &minimal.etag());
        same.send().await.expect(304);
    }
    let old_name =
        server.item("GET", "a", KEY).header("x-ms-documentdb-content-serialization-format", "CosmosBinary");
    assert!(old_name.send().await.expect(200).is_binary);
    let alone = server.item("GET", "a", KEY).in_formats("HybridRow").send().await;
    alone.refused(501, 0, "HybridRow");
    let written = server.post(ITEMS).key(KEY).in_formats("HybridRow").json(json!({ "id": "b", "pk": "k" }));
    written.send().await.refused(501, 0, "nothing was done");
    server.item("GET", "b", KEY).send().await.expect(404);
}

#[tokio::test]
async fn patches_batches_and_queries_may_be_binary_too() {
    let server = Server::with_container().await;
    server.create(json!({ "id": "a", "pk": "k", "n": 1 })).await;
    let patch = json!({ "operations": [{ "op": "incr", "path": "/n", "value": 2.5 }], "condition": "from c where c.n = 1" });
    let patched = server.item("PATCH", "a", KEY).binary(&patch).in_formats("CosmosBinary").send().await;
    assert_eq!(patched.expect(200).json()["n"], 3.5);
    let operations = json!([
        { "operationType": "Create", "resourceBody": { "id": "b", "pk": "k", "n": 1.0 } },
        { "operationType": "Read", "id": "a" },
    ]);
    let batch = server.post(ITEMS).header("x-ms-cosmos-is-batch-request", "True");
    let batch = batch.header("x-ms-cosmos-batch-atomic", "True").key(KEY).binary(&operations);
    let batch = batch.in_formats("CosmosBinary").send().await.expect(200);
    assert!(batch.is_binary);
    assert_eq!(statuses(&batch), [201, 200]);
    assert!(batch.text.contains(r#""n":1,"#), "{}", batch.text);
    let query = json!({ "query": "SELECT VALUE c.n FROM c WHERE c.n = @n", "parameters": [{ "name": "@n", "value": 3.5 }] });
    let rows = server.post(ITEMS).key(KEY).header("x-ms-documentdb-isquery", "true").binary(&query);
    assert_eq!(rows.send().await.expect(200).json()["Documents"], json!([3.5]));
}

#[tokio::test]
async fn malformed_items_are_refused_and_nothing_is_stored() {
    let server = Server::with_container().await;
    // A replacement is looked into where there is an item.
    let kept = server.create(json!({ "id": "a", "pk": "k" })).await.etag();
    let good = binary_of_json(br#"{"id":"a","pk":"k"}"#).expect("JSON");
    let mut cases: Vec<(Vec<u8>, &str)> = vec![
        (vec![0x80], "too early"),
        (vec![0x80, 0xE0], "must be a JSON object"),
        (vec![0x80, 0xE8], "'id; '"),
        (vec![0x80, 0xE9, 0x2C, 0x05], "'id' is not a string"),
        (vec![0x80, 0xE9, 0x2C, 0x41], "dictionary"),
        ([&good[..], &[0]].concat(), "behind the end"),
    ];
    cases.extend((1..good.len()).map(|length| (good[..length].to_vec(), "")));
    for (body, words) in cases {
        for call in [server.post(ITEMS), server.call("PUT", format!("{ITEMS}/a"))] {
            call.key(KEY).body(body.clone()).send().await.refused(400, 0, words);
        }
    }
    for call in [server.post(ITEMS), server.call("PUT", format!("{ITEMS}/a"))] {
        call.key(KEY).body([0x81, 0x00]).send().await.refused(501, 0, "HybridRow");
    }
    assert_eq!(server.get(ITEMS).send().await.expect(200).json()["_count"], 1);
    assert_eq!(server.item("GET", "a", KEY).send().await.expect(200).etag(), kept);
    server.post("/dbs").binary(&json!({ "id": "other" })).send().await.expect(400);
}

/// The limit is that of the JSON text: references to one long string are no way around it.
#[tokio::test]
async fn an_item_is_as_large_as_its_text() {
    let server = Server::with_limits(Limits { item_size_bytes_max: 20_000, ..Limits::default() }).await;
    // {"id": "a", "pk": "k", "x": ["…", "…", …]}, all texts the same.
    let references = |count: usize| {
        let text = [&[0xC1, 0xE8, 0x03][..], &[b'x'; 1000]].concat();
        let list = [&text[..], &[0xC4, 0x13, 0x00].repeat(count - 1)].concat();
        let members = [
            &[0x2C, 0x81, b'a', 0x82, b'p', b'k', 0x81, b'k', 0x81, b'x', 0xE3][..],
            &u16::try_from(list.len()).expect("short").to_le_bytes(),
            &list,
        ]
        .concat();
        [&[0x80, 0xEC][..], &u32::try_from(members.len()).expect("short").to_le_bytes(), &members].concat()
    };
    let upsert = |count| {
        let call = server.post(ITEMS).key(KEY).header("x-ms-documentdb-is-upsert", "true");
        call.body(references(count))
    };
    let item = upsert(19).send().await.expect(201).json();
    assert_eq!(item["x"], json!(vec!["x".repeat(1000); 19]));
    upsert(20).send().await.refused(413, 0, "20000 bytes of JSON");
    upsert(10_000).send().await.refused(413, 0, "20000 bytes of JSON");
    assert_eq!(server.item("GET", "a", KEY).send().await.expect(200).json(), item);
}

#[tokio::test]
async fn triggers_read_binary_items_as_text_and_their_answers_come_as_asked() {
    let server = Server::with_container().await;
    for (id, kind, body) in [
        (
            "stamp",
            "Pre",
            "function () { var request = getContext().getRequest(), item = request.getBody(); item.stamp = item.n + 1; request.setBody(item); }",
        ),
        ("other", "Post", "function () { getContext().getResponse().setBody({ told: true }); }"),
    ] {
        let definition = json!({ "id": id, "body": body, "triggerType": kind, "triggerOperation": "All" });
        server.post("/dbs/db/colls/items/triggers").json(definition).send().await.expect(201);
    }
    let create = |id: &str| server.post(ITEMS).key(KEY).binary(&json!({ "id": id, "pk": "k", "n": 1 }));
    let stamped = create("a").header("x-ms-documentdb-pre-trigger-include", "stamp");
    assert_eq!(stamped.send().await.expect(201).json()["stamp"], 2);
    for (id, formats, is_binary) in [("b", "JsonText", false), ("c", "CosmosBinary", true)] {
        let told = create(id).header("x-ms-documentdb-post-trigger-include", "other").in_formats(formats);
        let told = told.send().await.expect(201);
        assert_eq!((told.is_binary, told.json()), (is_binary, json!({ "told": true })));
    }
}

/// A token for one item leaves no other behind, whatever form the item comes in.
#[tokio::test]
async fn a_token_for_an_item_replaces_that_item_alone() {
    let server = access::server().await;
    server.create(json!({ "id": "a", "pk": "k" })).await;
    let token = server.token_for("All", "items/docs/a").await;
    let replace = |id: &str| {
        let item = json!({ "id": id, "pk": "k", "n": 5 });
        server.call("PUT", format!("{ITEMS}/a")).key(KEY).binary(&item).token(&token)
    };
    replace("b").send().await.refused(403, 0, "another id");
    replace("a").send().await.expect(200);
}
