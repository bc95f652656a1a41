//! Attempts to make more of a resource token than it is: forged, altered, outlived, and carried to other resources.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;
use shardlake_testkit::EMULATOR_KEY;

use crate::access::server;
use crate::harness::{ITEMS, READ_ONLY_KEY, Server};

const PERMISSION: &str = "/dbs/db/users/ann/permissions";

/// The signature and the claims of a token.
fn parts(token: &str) -> (String, Vec<u8>) {
    let body = token.strip_prefix("type=resource&ver=1.0&sig=").expect("a prefix");
    let (signature, claims) = body.split_once(';').expect("two parts");
    (signature.to_owned(), URL_SAFE_NO_PAD.decode(claims.trim_end_matches(';')).expect("base64url"))
}

fn joined(signature: &str, claims: &[u8]) -> String {
    format!("type=resource&ver=1.0&sig={signature};{};", URL_SAFE_NO_PAD.encode(claims))
}

/// A signature made by the documented recipe, with code of its own.
fn signed(key: &str, claims: &[u8], mode: u8, resource: &str) -> String {
    let key = STANDARD.decode(key).expect("base64");
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).expect("any length");
    mac.update(b"\0shardlake resource token\0");
    mac.update(claims);
    mac.update(&[mode]);
    mac.update(&(resource.len() as u32).to_be_bytes());
    mac.update(resource.as_bytes());
    mac.update(&u32::MAX.to_be_bytes());
    STANDARD.encode(mac.finalize().into_bytes())
}

async fn status(server: &Server, method: &'static str, path: &str, token: &str) -> u16 {
    server.call(method, path).key(r#"["k"]"#).token(token).send().await.status
}

#[tokio::test]
async fn altered_and_swapped_tokens_are_refused() {
    let server = server().await;
    let read = server.token_for("Read", "items").await;
    let all = server.token_for("All", "others").await;
    let ((signature, claims), (other_signature, other_claims)) = (parts(&read), parts(&all));
    assert_eq!(status(&server, "GET", ITEMS, &joined(&signature, &claims)).await, 200);
    for token in [joined(&signature, &other_claims), joined(&other_signature, &claims)] {
        assert_eq!(status(&server, "GET", ITEMS, &token).await, 401, "{token}");
        assert_eq!(status(&server, "GET", "/", &token).await, 401, "{token}");
    }
    for at in 0..claims.len() {
        let mut changed = claims.clone();
        changed[at] ^= 1;
        assert_eq!(status(&server, "GET", ITEMS, &joined(&signature, &changed)).await, 401, "byte {at}");
    }
    for token in [
        joined("", &claims),
        joined(&STANDARD.encode([0; 32]), &claims),
        joined(&signature, &claims[1..]),
        joined(&signature, &[]),
        "type=resource&ver=1.0&sig=".to_owned(),
        "type=resource&ver=1.0&sig=;;".to_owned(),
        "type=resource".to_owned(),
        read.replace("resource", "master"),
        read.replace("ver=1.0", "ver=2.0"),
        format!("type=master&ver=1.0&sig={signature}"),
        format!("{read}{all}"),
        read.repeat(2),
        format!("{read}&sig={signature};"),
    ] {
        assert_eq!(status(&server, "GET", ITEMS, &token).await, 401, "{token}");
    }
    // Sent as it is, or without its last character, it is the same token.
    for token in [&*read, read.trim_end_matches(';')] {
        let plain = server.get(ITEMS).unsigned().header("authorization", token).send().await;
        plain.expect(200);
    }
}

#[tokio::test]
async fn only_a_read_write_key_makes_tokens() {
    let server = server().await;
    let token = server.token_for("All", "items").await;
    let (signature, claims) = parts(&token);
    let resource = "dbs/db/colls/items";
    assert_eq!(signed(EMULATOR_KEY, &claims, 1, resource), signature, "the recipe is the documented one");
    for (key, mode) in [(READ_ONLY_KEY, 1), (READ_ONLY_KEY, 0), (EMULATOR_KEY, 0)] {
        let forged = joined(&signed(key, &claims, mode, resource), &claims);
        assert_eq!(status(&server, "GET", ITEMS, &forged).await, 401, "{mode}");
    }
}

#[tokio::test]
async fn a_token_ends_with_its_permission_its_user_and_its_database() {
    for (method, path, body) in [
        ("DELETE", format!("{PERMISSION}/All-items"), Value::Null),
        ("DELETE", "/dbs/db/users/ann".to_owned(), Value::Null),
        ("DELETE", "/dbs/db".to_owned(), Value::Null),
    ] {
        let server = server().await;
        let token = server.token_for("All", "items").await;
        assert_eq!(status(&server, "GET", ITEMS, &token).await, 200);
        let call = server.call(method, &*path);
        if body.is_null() { call } else { call.json(body) }.send().await.expect(204);
        for path in ["/", ITEMS] {
            assert_eq!(status(&server, "GET", path, &token).await, 401, "{path}");
        }
        // Nor does another of the same name bring it back.
        server.post("/dbs").json(json!({ "id": "db" })).send().await;
        let key = json!({ "paths": ["/pk"], "kind": "Hash", "version": 2 });
        server.post("/dbs/db/colls").json(json!({ "id": "items", "partitionKey": key })).send().await;
        let again = server.token_for("All", "items").await;
        assert_eq!(status(&server, "GET", ITEMS, &again).await, 200);
        assert_eq!(status(&server, "GET", ITEMS, &token).await, 401);
    }
}

#[tokio::test]
async fn a_token_ends_when_its_permission_grants_something_else_and_survives_a_new_name() {
    let server = server().await;
    let token = server.token_for("All", "items").await;
    let path = format!("{PERMISSION}/All-items");
    let change = |member: &str, value: Value| {
        let mut body =
            json!({ "id": "All-items", "permissionMode": "All", "resource": "dbs/db/colls/items" });
        body[member] = value;
        server.put(&*path).json(body).send()
    };
    for (member, value) in [
        ("permissionMode", json!("Read")),
        ("resource", json!("dbs/db/colls/others")),
        ("resourcePartitionKey", json!(["k"])),
    ] {
        change(member, value).await.expect(200);
        assert_eq!(status(&server, "GET", ITEMS, &token).await, 401, "{member}");
        change("id", json!("All-items")).await.expect(200);
        assert_eq!(status(&server, "GET", ITEMS, &token).await, 200, "as it was again");
    }
    server.put("/dbs/db/users/ann").json(json!({ "id": "bea" })).send().await.expect(200);
    let renamed = json!({ "id": "other", "permissionMode": "all", "resource": "dbs/db/colls/items" });
    server.put("/dbs/db/users/bea/permissions/All-items").json(renamed).send().await.expect(200);
    assert_eq!(status(&server, "GET", ITEMS, &token).await, 200, "nobody is granted less or more");
}

#[tokio::test]
async fn a_container_created_again_is_another() {
    let server = server().await;
    let token = server.token_for("All", "items").await;
    server.delete("/dbs/db/colls/items").send().await.expect(204);
    assert_eq!(
        status(&server, "GET", ITEMS, &token).await,
        403,
        "and not 404: nothing is told of what is not its own"
    );
    let key = json!({ "paths": ["/pk"], "kind": "Hash", "version": 2 });
    server.create_container(json!({ "id": "items", "partitionKey": key })).await;
    for path in [ITEMS, "/dbs/db/colls/items", "/dbs/db/colls/items/pkranges"] {
        assert_eq!(status(&server, "GET", path, &token).await, 403, "{path}");
    }
    assert_eq!(status(&server, "GET", "/", &token).await, 200);
    // The permission names the container; a token made now is for the one of now.
    let answer = server.get(format!("{PERMISSION}/All-items")).send().await.expect(200).json();
    assert_eq!(status(&server, "GET", ITEMS, answer["_token"].as_str().expect("a token")).await, 200);
}

#[tokio::test]
async fn a_permission_that_leads_nowhere_reaches_nothing() {
    let server = server().await;
    let resource = "dbs/AQAAAA==/colls/AQAAAJ0fgTc=";
    let permission = json!({ "id": "p", "permissionMode": "All", "resource": resource });
    let token = server.permit_in("db", permission).await;
    assert_eq!(status(&server, "GET", "/", &token).await, 200);
    for path in
        [ITEMS, "/dbs/AQAAAA==/colls/AQAAAJ0fgTc=/docs", "/dbs/db/colls/missing/docs", "/dbs/missing/colls/x"]
    {
        assert_eq!(status(&server, "GET", path, &token).await, 403, "{path}");
    }
}

#[tokio::test]
async fn paths_are_compared_by_what_they_lead_to() {
    let server = server().await;
    for id in ["a", "a b", "%61"] {
        server.create(json!({ "id": id, "pk": "k" })).await;
    }
    let container = server.get("/dbs/db/colls/items").send().await.json();
    let own = container["_self"].as_str().expect("a link").trim_end_matches('/').to_owned();
    let whole = server.token_for("Read", "items").await;
    for path in [
        "/dbs/db/colls/items/docs",
        "//dbs/db/colls/items/docs/",
        "/dbs/d%62/colls/%69tems/docs",
        &format!("/{own}/docs"),
    ] {
        assert_eq!(status(&server, "GET", path, &whole).await, 200, "{path}");
    }
    for path in [
        "/dbs/db/colls/others/docs",
        "/dbs/elsewhere/colls/items/docs",
        "/dbs/db/colls/items%2F..%2Fothers/docs",
        "/dbs/db/colls/Items/docs",
    ] {
        assert_eq!(status(&server, "GET", path, &whole).await, 403, "{path}");
    }
    let item = server.token_for("All", "items/docs/a b").await;
    for (segment, expected) in [
        ("a%20b", 200),
        ("a b", 0),
        ("%61%20b", 200),
        ("a%2520b", 403),
        ("a", 403),
        ("A%20b", 403),
        ("a%20b%2F", 403),
        ("a%20b%00", 403),
        ("a+b", 403),
    ] {
        if expected > 0 {
            assert_eq!(
                status(&server, "GET", &format!("{ITEMS}/{segment}"), &item).await,
                expected,
                "{segment}"
            );
        }
    }
    let literal = server.token_for("All", "items/docs/%61").await;
    assert_eq!(status(&server, "GET", &format!("{ITEMS}/%2561"), &literal).await, 200);
    assert_eq!(status(&server, "GET", &format!("{ITEMS}/a"), &literal).await, 403, "links are not decoded");
}

#[tokio::test]
async fn rids_and_ids_of_items_are_told_apart() {
    let server = server().await;
    let first = server.create(json!({ "id": "a", "pk": "k" })).await.json();
    let rid = first["_rid"].as_str().expect("a rid").to_owned();
    // Another item is called as the first one's rid reads.
    server.create(json!({ "id": rid, "pk": "k", "secret": true })).await;
    let by_rid = first["_self"].as_str().expect("a link").trim_end_matches('/').to_owned();
    let token = |resource: String, id: &'static str| {
        let permission = json!({ "id": id, "permissionMode": "All", "resource": resource });
        server.permit_in("db", permission)
    };
    let of_rid = token(by_rid.clone(), "rid").await;
    let of_name = token(format!("dbs/db/colls/items/docs/{rid}"), "name").await;
    let read = |path: String, token: String| {
        let call = server.get(path).key(r#"["k"]"#).token(&token);
        call.send()
    };
    let (rid_path, name_path) = (format!("/{by_rid}"), format!("{ITEMS}/{rid}"));
    assert_eq!(read(rid_path.clone(), of_rid.clone()).await.expect(200).json()["id"], "a");
    assert_eq!(read(name_path.clone(), of_name.clone()).await.expect(200).json()["secret"], true);
    read(name_path, of_rid.clone()).await.expect(403);
    read(rid_path.clone(), of_name).await.expect(403);
    let replace = |id: &str| {
        let call = server.put(&*rid_path).key(r#"["k"]"#).json(json!({ "id": id, "pk": "k" }));
        call.token(&of_rid).send()
    };
    replace("a").await.expect(200);
    replace("b").await.refused(403, 0, "another id");
}

#[tokio::test]
async fn a_token_for_an_item_leaves_no_other_item_behind() {
    let server = server().await;
    server.create(json!({ "id": "a", "pk": "k" })).await;
    let token = server.token_for("All", "items/docs/a").await;
    let replace =
        |body: &'static str| server.put(format!("{ITEMS}/a")).key(r#"["k"]"#).body(body).token(&token).send();
    replace(r#"{"id":"a","pk":"k","x":1}"#).await.expect(200);
    replace(r#"{"\u0069d":"\u0061","pk":"k"}"#).await.expect(200);
    for body in [
        r#"{"id":"b","pk":"k"}"#,
        r#"{"id":"a","id":"b","pk":"k"}"#,
        r#"{"pk":"k"}"#,
        r#"{"id":7,"pk":"k"}"#,
        "[]",
    ] {
        replace(body).await.refused(403, 0, "another id");
    }
    let call = server.put(format!("{ITEMS}/a")).key(r#"["k"]"#).body(r#"{"id":"a","pk":"k"}"#);
    let call = call.header("x-ms-documentdb-pre-trigger-include", "rename").token(&token);
    call.send().await.refused(403, 0, "triggers");
}

#[tokio::test]
async fn a_stale_rid_in_a_header_changes_nothing() {
    let server = server().await;
    let token = server.token_for("Read", "items").await;
    let other =
        server.get("/dbs/db/colls/others").send().await.json()["_rid"].as_str().expect("a rid").to_owned();
    let call = server.get(ITEMS).header("x-ms-cosmos-intended-collection-rid", &other).token(&token);
    call.send().await.refused(400, 1024, "");
    let call = server.get("/dbs/db/colls/others/docs").header("x-ms-cosmos-intended-collection-rid", &other);
    call.token(&token).send().await.expect(403);
}

#[tokio::test]
async fn who_waits_for_changes_is_not_told_after_the_token_has_ended() {
    for ends_by_time in [true, false] {
        let server = server().await;
        let token = server.token_for("Read", "items").await;
        let wait = || {
            let call = server.get(ITEMS).header("a-im", "Incremental Feed").header("if-none-match", "*");
            call.header("x-shardlake-feed-wait-ms", "30000").token(&token).send()
        };
        let change = |id: &'static str| server.create(json!({ "id": id, "pk": "k" }));
        let (told, _) = tokio::join!(wait(), change("a"));
        told.expect(200);
        let (told, ()) = tokio::join!(wait(), async {
            if ends_by_time {
                server.clock.advance(std::time::Duration::from_secs(3600));
            } else {
                server.delete(format!("{PERMISSION}/Read-items")).send().await.expect(204);
            }
            change("b").await;
        });
        told.expect(401);
    }
}
