//! Single items: statuses, headers, conditions, keys.

use serde_json::json;

use crate::harness::{ITEMS, Server};
use crate::queries::query;

#[tokio::test]
async fn an_item_is_created_read_replaced_and_deleted() {
    let server = Server::with_container().await;
    let created = server.create(json!({ "id": "a", "pk": "k", "n": 1 })).await;
    let item = created.json();
    assert_eq!(item["_etag"], created.etag());
    assert_eq!(item["_attachments"], "attachments/");
    assert_eq!(item["_ts"], 1_700_000_000);
    let rid = item["_rid"].as_str().expect("text");
    assert!(item["_self"].as_str().expect("text").ends_with(&format!("/docs/{rid}/")));

    let read = server.item("GET", "a", r#"["k"]"#).send().await.expect(200);
    assert_eq!(read.json(), item);
    assert_eq!(read.header("x-ms-item-count"), Some("1"));

    let replaced =
        server.item("PUT", "a", r#"["k"]"#).json(json!({ "id": "a", "pk": "k", "n": 2 })).send().await;
    let replaced = replaced.expect(200);
    assert_eq!(replaced.json()["n"], 2);
    assert_ne!(replaced.etag(), created.etag());
    assert_eq!(replaced.lsn(), created.lsn() + 1);

    server.item("DELETE", "a", r#"["k"]"#).send().await.expect(204);
    let gone = server.item("GET", "a", r#"["k"]"#).send().await;
    gone.refused(404, 0, "Entity with the specified id does not exist in the system.");
}

#[tokio::test]
async fn every_item_response_tells_the_position_and_the_container() {
    let server = Server::with_container().await;
    let container = server.get("/dbs/db/colls/items").send().await.expect(200).json();
    let created = server.create(json!({ "id": "a", "pk": "k" })).await;
    let missing = server.item("GET", "none", r#"["k"]"#).send().await.expect(404);
    let taken = server.post(ITEMS).key(r#"["k"]"#).json(json!({ "id": "a", "pk": "k" })).send().await;
    let stale = server.item("DELETE", "a", r#"["k"]"#).header("if-match", "\"x\"").send().await.expect(412);
    for answer in [&created, &missing, &taken.expect(409), &stale] {
        assert_eq!(answer.header("x-ms-alt-content-path"), Some("dbs/db/colls/items"), "{answer:?}");
        assert_eq!(answer.header("x-ms-content-path"), container["_rid"].as_str(), "{answer:?}");
        let token = format!("0:1700000000000#{}", created.lsn());
        assert_eq!(answer.header("x-ms-session-token"), Some(token.as_str()), "{answer:?}");
        assert_eq!(answer.header("x-ms-documentdb-partitionkeyrangeid"), Some("0"));
        assert!(answer.charge() > 0.0, "{answer:?}");
    }
    let read = server.item("GET", "a", r#"["k"]"#).send().await.expect(200);
    assert_eq!(read.header("x-ms-item-lsn"), Some(created.lsn().to_string().as_str()));
}

#[tokio::test]
async fn an_item_response_carries_every_documented_header() {
    let server = Server::with_container().await;
    server.create(json!({ "id": "other", "pk": "k" })).await;
    let created = server.create(json!({ "id": "a", "pk": "k" })).await;
    server.create(json!({ "id": "b", "pk": "k" })).await;
    let read = server.item("GET", "a", r#"["k"]"#).send().await.expect(200);
    let (lsn, item_lsn) = (read.lsn().to_string(), created.lsn().to_string());
    assert_ne!(lsn, item_lsn);
    let token = format!("0:1700000000000#{lsn}");
    for (name, value) in [
        ("x-ms-cosmos-llsn", lsn.as_str()),
        ("x-ms-quorum-acked-lsn", &lsn),
        ("x-ms-cosmos-quorum-acked-llsn", &lsn),
        ("x-ms-global-committed-lsn", &lsn),
        ("x-ms-item-lsn", &item_lsn),
        ("x-ms-cosmos-item-llsn", &item_lsn),
        ("x-ms-session-token", &token),
        ("x-ms-documentdb-partitionkeyrangeid", "0"),
        ("etag", &created.etag()),
        ("x-ms-request-charge", "1"),
        ("x-ms-request-duration-ms", "0"),
        ("x-ms-alt-content-path", "dbs/db/colls/items"),
        ("x-ms-item-count", "1"),
        ("x-ms-number-of-read-regions", "0"),
        ("x-ms-current-write-quorum", "1"),
        ("x-ms-current-replica-set-size", "1"),
        ("x-ms-xp-role", "1"),
        ("x-ms-schemaversion", "1.19"),
        ("content-type", "application/json"),
    ] {
        assert_eq!(read.header(name), Some(value), "{name}");
    }
    for name in [
        "x-ms-content-path",
        "x-ms-transport-request-id",
        "x-ms-last-state-change-utc",
        "x-ms-serviceversion",
        "x-ms-gatewayversion",
        "content-location",
    ] {
        assert!(read.header(name).is_some_and(|value| !value.is_empty()), "{name}");
    }
}

#[tokio::test]
async fn upsert_creates_then_replaces() {
    let server = Server::with_container().await;
    let upsert =
        |body| server.post(ITEMS).header("x-ms-documentdb-is-upsert", "True").key(r#"["k"]"#).json(body);
    let first = upsert(json!({ "id": "a", "pk": "k", "n": 1 })).send().await.expect(201);
    let second =
        upsert(json!({ "id": "a", "pk": "k", "n": 2 })).header("if-match", &first.etag()).send().await;
    assert_eq!(second.expect(200).json()["n"], 2);
    upsert(json!({ "id": "a", "pk": "k", "n": 3 }))
        .header("if-match", &first.etag())
        .send()
        .await
        .expect(412);
    upsert(json!({ "id": "b", "pk": "k" })).header("if-match", &first.etag()).send().await.expect(201);
}

#[tokio::test]
async fn minimal_responses_have_headers_and_no_body() {
    let server = Server::with_container().await;
    let create = |id: &str| server.post(ITEMS).key(r#"["k"]"#).json(json!({ "id": id, "pk": "k" }));
    let minimal = create("a").header("prefer", "return=minimal").send().await.expect(201);
    assert_eq!(minimal.text, "");
    assert!(minimal.lsn() > 0 && !minimal.etag().is_empty());
    let explicit = create("b")
        .header("prefer", "return=minimal")
        .header("x-ms-cosmos-populate-content-response-on-write", "true")
        .send()
        .await
        .expect(201);
    assert_eq!(explicit.json()["id"], "b");
    let off = create("c")
        .header("x-ms-cosmos-populate-content-response-on-write", "False")
        .send()
        .await
        .expect(201);
    assert_eq!(off.text, "");
}

#[tokio::test]
async fn keys_come_from_the_header_or_the_body_and_must_agree() {
    let server = Server::with_container().await;
    server.post(ITEMS).json(json!({ "id": "a", "pk": "k" })).send().await.expect(201);
    server.item("GET", "a", r#"["k"]"#).send().await.expect(200);
    let mismatch = server.post(ITEMS).key(r#"["other"]"#).json(json!({ "id": "b", "pk": "k" })).send().await;
    mismatch.refused(
        400,
        1001,
        "PartitionKey extracted from document doesn't match the one specified in the header",
    );
    server.get(format!("{ITEMS}/a")).send().await.expect(400);
    server.item("GET", "a", "[").send().await.expect(400);
    server.post(ITEMS).key("[{}]").json(json!({ "id": "c" })).send().await.expect(201);
    server.item("GET", "c", "[{}]").send().await.expect(200);
    server.item("GET", "c", "[null]").send().await.expect(404);
}

#[tokio::test]
async fn keys_and_ids_may_hold_any_unicode() {
    let server = Server::with_container().await;
    let key = "\"\u{20ac} \\ \u{1F600}";
    server.create(json!({ "id": "Grüße 100%+", "pk": key })).await;
    let ascii = serde_json::to_string(&[key]).expect("text");
    let escaped: String = ascii
        .encode_utf16()
        .map(|unit| match u8::try_from(unit) {
            Ok(byte) if byte.is_ascii() => char::from(byte).to_string(),
            _ => format!("\\u{unit:04x}"),
        })
        .collect();
    for header in [ascii, escaped] {
        let read = server.item("GET", "Gr%C3%BC%C3%9Fe%20100%25+", &header).send().await.expect(200);
        assert_eq!(read.json()["pk"], key);
    }
}

#[tokio::test]
async fn items_are_addressed_by_resource_id_too() {
    let server = Server::with_container().await;
    let created = server.create(json!({ "id": "a", "pk": "k" })).await.json();
    let link = created["_self"].as_str().expect("text");
    let read = server.get(format!("/{link}")).key(r#"["k"]"#).send().await.expect(200);
    assert_eq!(read.json(), created);
    let container_link = link.split("/docs/").next().expect("a container");
    let feed = server.get(format!("/{container_link}/docs/")).send().await.expect(200);
    assert_eq!(feed.json()["_count"], 1);
}

#[tokio::test]
async fn a_stale_container_and_a_missing_one_are_told_apart() {
    let server = Server::with_container().await;
    let rid =
        server.get("/dbs/db/colls/items").send().await.json()["_rid"].as_str().expect("text").to_owned();
    let intended =
        |rid: &str| server.item("GET", "a", r#"["k"]"#).header("x-ms-cosmos-intended-collection-rid", rid);
    intended(&rid).send().await.expect(404);
    server.delete("/dbs/db/colls/items").send().await.expect(204);
    intended(&rid).send().await.refused(404, 1003, "");
    server
        .create_container(
            json!({ "id": "items", "partitionKey": { "paths": ["/pk"], "kind": "Hash", "version": 2 } }),
        )
        .await;
    intended(&rid).send().await.refused(400, 1024, "");
}

#[tokio::test]
async fn bodies_that_are_no_item_are_refused() {
    let server = Server::with_container().await;
    let nested = format!(r#"{{"id":"a","pk":"k","x":{}{}}}"#, "[".repeat(200), "]".repeat(200));
    let bodies: [&[u8]; 8] = [
        b"",
        b"[]",
        b"{",
        b"{\"id\":\"a\",\"pk\":\"k\"} x",
        b"{\"pk\":\"k\"}",
        b"{\"id\":1,\"pk\":\"k\"}",
        b"{\"id\":\"a\",\"pk\":\"\xff\"}",
        nested.as_bytes(),
    ];
    for body in bodies {
        let answer = server.post(ITEMS).key(r#"["k"]"#).body(body).send().await;
        assert_eq!(answer.status, 400, "{:?}", String::from_utf8_lossy(body));
    }
    server.create(json!({ "id": "a", "pk": "k" })).await;
}

/// Queries compare numbers by value; the hash takes them as doubles, bit for bit. Every number that is stored as a key means
/// the same to both.
#[tokio::test]
async fn numbers_that_are_keys_are_what_queries_take_them_for() {
    let server = Server::with_container().await;
    for (key, why) in [
        ("-0", "-0"),
        ("-0.0", "-0"),
        ("9007199254740993", "a string"),
        ("9223372036854775807", "a string"),
        ("-9007199254740993", "a string"),
    ] {
        let body = format!(r#"{{"id":"a","pk":{key}}}"#);
        let header = format!("[{key}]");
        server.post(ITEMS).key(&header).body(body.as_bytes()).send().await.refused(400, 0, why);
        server.item("GET", "a", &header).send().await.refused(400, 0, why);
        server.item("DELETE", "a", &header).send().await.refused(400, 0, why);
        let single = json!([{ "operationType": "Create", "resourceBody": { "id": "a" } }]).to_string();
        let single = single.replace(r#""id":"a""#, &format!(r#""id":"a","pk":{key}"#));
        let bulk = server.post(ITEMS).header("x-ms-cosmos-is-batch-request", "True");
        let bulk = bulk.header("x-ms-cosmos-batch-continue-on-error", "True").body(single.as_bytes());
        let answer = bulk.send().await;
        assert!(answer.status == 400 || answer.json()[0]["statusCode"] == 400, "{key}");
    }
    assert_eq!(server.get(ITEMS).send().await.json()["_count"], 0);
    for (id, key) in
        [("zero", "0"), ("large", "9007199254740992"), ("half", "0.5"), ("low", "-9223372036854775808")]
    {
        let body = format!(r#"{{"id":"{id}","pk":{key}}}"#);
        server.post(ITEMS).key(&format!("[{key}]")).body(body.as_bytes()).send().await.expect(201);
        for text in [
            format!("SELECT VALUE c.id FROM c WHERE c.pk = {key}"),
            format!("SELECT VALUE c.id FROM c WHERE c.pk IN ({key})"),
        ] {
            let found = query(&server, &text).send().await.expect(200).json();
            assert_eq!(found["Documents"], json!([id]), "{text}");
        }
    }
    for text in ["SELECT VALUE c.id FROM c WHERE c.pk = -0.0", "SELECT VALUE c.id FROM c WHERE c.pk = -0"] {
        assert_eq!(
            query(&server, text).send().await.expect(200).json()["Documents"],
            json!(["zero"]),
            "{text}"
        );
    }
    let between = "SELECT VALUE c.id FROM c WHERE c.pk = 9007199254740993";
    assert_eq!(query(&server, between).send().await.expect(200).json()["Documents"], json!([]));
}

#[tokio::test]
async fn a_logical_partition_is_deleted_with_one_request() {
    let server = Server::with_container().await;
    for (id, key) in [("a", "k"), ("b", "k"), ("c", "other")] {
        server.create(json!({ "id": id, "pk": key })).await;
    }
    let path = "/dbs/db/colls/items/operations/partitionkeydelete";
    server.post(path).send().await.expect(400);
    server.post(path).key(r#"["k"]"#).send().await.expect(200);
    let left = server.get(ITEMS).send().await.expect(200).json();
    assert_eq!((&left["_count"], &left["Documents"][0]["id"]), (&json!(1), &json!("c")));
}

#[tokio::test]
async fn a_missing_item_is_404_before_its_replacement_is_400() {
    let server = Server::with_container().await;
    server.create(json!({ "id": "a", "pk": "k" })).await;
    // Another key than the header's, no id, and a time to live that is none.
    for body in [
        json!({ "id": "a", "pk": "other" }),
        json!({ "pk": "k" }),
        json!({ "id": "a", "pk": "k", "ttl": "soon" }),
    ] {
        let put = |id| server.item("PUT", id, r#"["k"]"#).json(body.clone());
        put("missing").send().await.refused(404, 0, "does not exist");
        put("a").send().await.expect(400);
    }
    // Text that is no JSON is refused before anything is looked for.
    server.item("PUT", "missing", r#"["k"]"#).body("{").send().await.expect(400);
    server.item("GET", "a", r#"["k"]"#).send().await.expect(200);
}
