//! Requests that came as frames of Direct mode: their routing, barriers, resources of the master partition, recorded signatures.

use std::cell::Cell;
use std::time::{Duration, UNIX_EPOCH};

use serde_json::{Value, json};
use shardlake_testkit::shared_directory;

use crate::addresses::paths_of;
use crate::change_feed::{CONTAINER, split};
use crate::harness::{Answer, Call, Frame, ITEMS, Server};

const RANGE: &str = "x-ms-documentdb-partitionkeyrangeid";
const KEY: &str = r#"["k"]"#;

/// Path of the primary of the master partition, as clients send it back.
pub const MASTER: &str = "/apps/shardlake/services/master/partitions/M/replicas/1p";

pub fn master() -> Frame {
    Frame { replica_path: MASTER.into(), container_rid: None }
}

/// A frame of a client that knows the container `db/items` and its range.
pub async fn frame_to(server: &Server, range: &str) -> Frame {
    let rid =
        server.get(CONTAINER).send().await.expect(200).json()["_rid"].as_str().expect("text").to_owned();
    let [primary, _] = paths_of(server, range).await;
    Frame { replica_path: primary.trim_end_matches('/').to_owned(), container_rid: Some(rid) }
}

/// Moves the clock on to a date in the form of HTTP.
pub fn advance_to(server: &Server, date: &str) {
    let date = httpdate::parse_http_date(date).expect("a date");
    let since = date.duration_since(UNIX_EPOCH).expect("after 1970");
    server.clock.advance(since.saturating_sub(Duration::from_millis(server.clock.now().0)));
}

fn query(server: &Server) -> Call<'_> {
    let call = server.post(ITEMS).header("content-type", "application/query+json");
    call.json(json!({ "query": "SELECT * FROM c" }))
}

fn batch(server: &Server) -> Call<'_> {
    let create = json!({ "operationType": "Create", "resourceBody": { "id": "b", "pk": "k" } });
    let call = server.post(ITEMS).key(KEY).header("x-ms-cosmos-is-batch-request", "true");
    call.header("x-ms-cosmos-batch-atomic", "true").json(json!([create]))
}

/// One request of each kind that comes as a frame without naming a range.
fn point_operations(server: &Server) -> Vec<(&'static str, Call<'_>)> {
    let item = |id: &str| json!({ "id": id, "pk": "k" });
    let set = json!({ "operations": [{ "op": "set", "path": "/v", "value": 1 }] });
    let upsert = server.post(ITEMS).key(KEY).header("x-ms-documentdb-is-upsert", "true");
    vec![
        ("create", server.post(ITEMS).key(KEY).json(item("n"))),
        ("create without a key", server.post(ITEMS).json(item("m"))),
        ("upsert", upsert.json(item("u"))),
        ("read", server.item("GET", "a", KEY)),
        ("replace", server.item("PUT", "a", KEY).json(json!({ "id": "a", "pk": "k", "v": 2 }))),
        ("patch", server.item("PATCH", "a", KEY).json(set)),
        ("batch", batch(server)),
        ("procedure", server.post(format!("{CONTAINER}/sprocs/s")).key(KEY).json(json!([]))),
        ("query", query(server).key(KEY)),
        ("feed", server.get(ITEMS).key(KEY)),
        ("change feed", server.get(ITEMS).key(KEY).header("a-im", "Incremental feed")),
        ("conflicts", server.get(format!("{CONTAINER}/conflicts"))),
        ("head", server.call("HEAD", CONTAINER).key(KEY)),
        ("delete", server.item("DELETE", "a", KEY)),
    ]
}

/// With an item and a procedure that writes another.
async fn filled() -> Server {
    let server = Server::with_container().await;
    server.create(json!({ "id": "a", "pk": "k", "v": 0 })).await;
    let body = "function () { getContext().getCollection().createDocument(getContext().getCollection().getSelfLink(), { id: 'p', pk: 'k' }); }";
    let procedure = server.post(format!("{CONTAINER}/sprocs")).json(json!({ "id": "s", "body": body }));
    procedure.send().await.expect(201);
    server
}

async fn items(server: &Server) -> Value {
    server.get(ITEMS).send().await.expect(200).json()["Documents"].clone()
}

#[tokio::test]
async fn a_frame_at_an_address_of_the_container_is_served_as_over_http() {
    let (server, other) = (filled().await, filled().await);
    let frame = frame_to(&server, "0").await;
    let secondary = Frame { replica_path: frame.replica_path.replace("1p", "2s") + "/", ..frame.clone() };
    let unnamed = Frame { container_rid: None, ..frame.clone() };
    for (name, call) in point_operations(&server) {
        let same =
            point_operations(&other).into_iter().find(|(other, _)| *other == name).expect("the same").1;
        let answer = call.framed(&frame).send().await;
        if name == "head" {
            assert_eq!(same.send().await.status, 405);
            continue;
        }
        let over_http = same.send().await;
        assert_eq!(answer.status, over_http.status, "{name}: {answer:?}");
        assert!(answer.status < 300, "{name}: {answer:?}");
        assert_eq!(answer.header("x-ms-item-count"), over_http.header("x-ms-item-count"), "{name}");
    }
    assert_eq!(items(&server).await.as_array().expect("items").len(), 5);
    for frame in [&secondary, &unnamed] {
        server.item("GET", "n", KEY).framed(frame).send().await.expect(200);
    }
}

#[tokio::test]
async fn a_container_that_was_made_again_or_deleted_is_stale_before_anything_is_done() {
    let server = filled().await;
    let earlier = frame_to(&server, "0").await;
    server.delete(CONTAINER).send().await.expect(204);
    for (name, call) in point_operations(&server) {
        let answer = call.framed(&earlier).send().await;
        assert_eq!((answer.status, answer.substatus()), (400, 1024), "{name}: {answer:?}");
    }
    server.create_items_container().await;
    let body = json!({ "id": "s", "body": "function () {}" });
    server.post(format!("{CONTAINER}/sprocs")).json(body).send().await.expect(201);
    server.create(json!({ "id": "a", "pk": "k" })).await;
    let before = items(&server).await;
    for (name, call) in point_operations(&server) {
        let answer = call.framed(&earlier).send().await;
        assert_eq!((answer.status, answer.substatus()), (400, 1024), "{name}: {answer:?}");
    }
    // A frame without a container's id is checked by its address.
    let nameless = Frame { container_rid: None, ..earlier };
    for (name, call) in point_operations(&server) {
        let answer = call.framed(&nameless).send().await;
        assert_eq!((answer.status, answer.substatus()), (410, 0), "{name}: {answer:?}");
    }
    assert_eq!(items(&server).await, before);
    let missing = server.get("/dbs/none/colls/items/docs/a").key(KEY).framed(&nameless);
    missing.send().await.refused(400, 1024, "'none'");
}

#[tokio::test]
async fn addresses_that_are_not_of_the_container_are_stale() {
    let server = filled().await;
    let frame = frame_to(&server, "0").await;
    let before = items(&server).await;
    for path in ["", "/", MASTER, "/apps/other/services/x/partitions/0/replicas/1p", &frame.replica_path[1..]]
    {
        let stale = Frame { replica_path: path.to_owned(), ..frame.clone() };
        for (name, call) in point_operations(&server) {
            let answer = call.framed(&stale).send().await;
            assert_eq!((answer.status, answer.substatus()), (410, 0), "{path} {name}: {answer:?}");
        }
    }
    assert_eq!(items(&server).await, before);
}

#[tokio::test]
async fn a_range_that_is_gone_is_1007_where_the_address_alone_names_it() {
    let server = filled().await;
    let parent = frame_to(&server, "0").await;
    let children = split(&server, "0").await;
    let before = items(&server).await;
    for (name, call) in point_operations(&server) {
        let answer = call.framed(&parent).send().await;
        assert_eq!((answer.status, answer.substatus()), (410, 1007), "{name}: {answer:?}");
    }
    assert_eq!(items(&server).await, before);
    // A range in a header is checked by the operation itself, which accepts the right range.
    query(&server).header(RANGE, "0").framed(&parent).send().await.refused(410, 1002, "range 0");
    server.get(ITEMS).header(RANGE, "0").framed(&parent).send().await.refused(410, 1002, "range 0");
    query(&server).header(RANGE, &children[0]).framed(&parent).send().await.expect(200);
    // Another range than that of the key is served as over HTTP, by the range of the key.
    let mut ranges = Vec::new();
    for child in &children {
        let frame = frame_to(&server, child).await;
        let answer = server.item("GET", "a", KEY).framed(&frame).send().await.expect(200);
        ranges.push(answer.header(RANGE).expect("a range").to_owned());
        let key = format!(r#"["{child}"]"#);
        let created = server.post(ITEMS).key(&key).json(json!({ "id": "c", "pk": child })).framed(&frame);
        created.send().await.expect(201);
        server.item("GET", "c", &key).send().await.expect(200);
    }
    assert_eq!(ranges[0], ranges[1]);
}

/// A frame may pass the check of its address before the split takes over, and be served behind it.
#[tokio::test]
async fn a_client_that_writes_through_a_split_is_refused_once_and_loses_nothing() {
    let server = filled().await;
    let is_split = Cell::new(false);
    let splitting = async {
        split(&server, "0").await;
        is_split.set(true);
    };
    let writing = async {
        let mut frame = frame_to(&server, "0").await;
        let (mut written, mut refused, mut written_after) = (0, 0, 0);
        while written_after < 10 {
            let item = json!({ "id": format!("w{written}"), "pk": "k" });
            let answer = server.post(ITEMS).key(KEY).json(item).framed(&frame).send().await;
            if answer.status == 201 {
                written += 1;
                written_after += usize::from(is_split.get());
                continue;
            }
            answer.refused(410, 1007, "refresh the partition key ranges");
            refused += 1;
            let range = server.get(ITEMS).key(KEY).send().await.expect(200);
            frame = frame_to(&server, range.header(RANGE).expect("a range")).await;
        }
        (written, refused)
    };
    let (_, (written, refused)) = futures::join!(splitting, writing);
    assert_eq!(refused, 1);
    let count = server.get(ITEMS).key(KEY).header("x-ms-max-item-count", "50000").send().await.expect(200);
    assert_eq!(count.json()["_count"], written + 1);
}

#[tokio::test]
async fn barriers_give_the_position_of_the_partition_that_they_name() {
    let server = filled().await;
    let children = split(&server, "0").await;
    for number in 0..20 {
        server.create(json!({ "id": "x", "pk": format!("p{number}") })).await;
    }
    let positioned = |answer: Answer| {
        assert_eq!(answer.text, "");
        (
            answer.header(RANGE).expect("a range").to_owned(),
            answer.header("x-ms-session-token").expect("one").to_owned(),
        )
    };
    let frame = frame_to(&server, &children[0]).await;
    let read = server.item("GET", "x", r#"["p7"]"#).send().await.expect(200);
    let of_key = server.call("HEAD", CONTAINER).key(r#"["p7"]"#).framed(&frame).send().await.expect(200);
    assert_eq!(of_key.lsn(), read.lsn());
    assert_eq!(of_key.header("x-ms-session-token"), read.header("x-ms-session-token"));
    for child in &children {
        let feed = server.get(ITEMS).header(RANGE, child).send().await.expect(200);
        let expected = (child.clone(), feed.header("x-ms-session-token").expect("one").to_owned());
        let frame = frame_to(&server, child).await;
        let by_path = server.call("HEAD", CONTAINER).framed(&frame).send().await.expect(200);
        assert_eq!(positioned(by_path), expected);
        let other = frame_to(&server, &children[0]).await;
        let by_header = server.call("HEAD", CONTAINER).header(RANGE, child).framed(&other).send().await;
        assert_eq!(positioned(by_header.expect(200)), expected);
    }
    let gone = server.call("HEAD", CONTAINER).header(RANGE, "0").framed(&frame).send().await;
    assert_eq!((gone.status, gone.substatus()), (410, 1002));
    let token = server.token_for("Read", "items").await;
    server.call("HEAD", CONTAINER).token(&token).framed(&frame).send().await.expect(200);
    server.call("HEAD", CONTAINER).unsigned().framed(&frame).send().await.expect(401);
    let databases = server.call("HEAD", "/dbs").framed(&master()).send().await.expect(200);
    assert_eq!((&*databases.text, databases.header("lsn")), ("", None));
    // Nothing else has a head, and over HTTP nothing has.
    for path in ["/", "/dbs/db", ITEMS, "/dbs/db/colls", "/offers"] {
        server.call("HEAD", path).framed(&master()).send().await.expect(405);
    }
    for path in [CONTAINER, "/dbs"] {
        server.call("HEAD", path).send().await.expect(405);
    }
}

#[tokio::test]
async fn databases_users_and_permissions_are_at_the_master_partition() {
    let server = filled().await;
    let frame = frame_to(&server, "0").await;
    let permission = json!({ "id": "p", "permissionMode": "Read", "resource": "dbs/db/colls/items" });
    server.permit_in("db", permission).await;
    let user = server.get("/dbs/db/users/ann").send().await.expect(200).json();
    let permission = server.get("/dbs/db/users/ann/permissions/p").send().await.expect(200).json();
    let link =
        |resource: &Value| format!("/{}", resource["_self"].as_str().expect("a link").trim_matches('/'));
    let by_query = |path: &str| {
        let call = server.post(path).header("content-type", "application/query+json");
        call.json(json!({ "query": "SELECT * FROM c" }))
    };
    let calls = || {
        let new = json!({ "id": "p", "permissionMode": "All", "resource": "dbs/db/colls/items" });
        vec![
            server.get("/dbs"),
            by_query("/dbs"),
            server.get("/dbs/db"),
            server.get("/dbs/db/colls"),
            by_query("/dbs/db/colls"),
            server.get("/dbs/db/users"),
            by_query("/dbs/db/users"),
            server.get("/dbs/db/users/ann"),
            server.get("/dbs/db/users/ann/permissions"),
            by_query("/dbs/db/users/ann/permissions"),
            // By resource ids alone, as Java addresses them by their links.
            server.get(link(&user)),
            server.put(link(&user)).json(json!({ "id": "ann" })),
            server.get(format!("{}/permissions", link(&user))),
            server.get(link(&permission)),
            server.put(link(&permission)).json(new),
        ]
    };
    for call in calls() {
        call.framed(&master()).send().await.expect(200);
    }
    for call in calls() {
        let answer = call.framed(&frame).send().await;
        assert_eq!((answer.status, answer.substatus()), (410, 0), "{answer:?}");
    }
    server.delete(link(&permission)).framed(&frame).send().await.expect(410);
    server.get("/dbs/db/users/ann/permissions/p").send().await.expect(200);
    server.delete(link(&permission)).framed(&master()).send().await.expect(204);
    server.get(link(&permission)).framed(&master()).send().await.expect(404);
    server.get("/dbs/none").framed(&master()).send().await.expect(404);
}

/// Frames carry names as they are; the path that stands for them is percent-encoded, and the signature has them plain.
#[tokio::test]
async fn names_with_special_characters_are_reached() {
    let server = Server::with_container().await;
    let frame = frame_to(&server, "0").await;
    for id in ["a b", "a%20b", "a+b", "ä€😀", "\"q\"", "x&y=z", "d%e"] {
        server
            .post(ITEMS)
            .key(KEY)
            .json(json!({ "id": id, "pk": "k" }))
            .framed(&frame)
            .send()
            .await
            .expect(201);
        let encoded = percent_encoding::utf8_percent_encode(id, percent_encoding::NON_ALPHANUMERIC);
        let read = server.get(format!("{ITEMS}/{encoded}")).key(KEY).framed(&frame);
        let read = read.signed_as("docs", &format!("dbs/db/colls/items/docs/{id}")).send().await;
        assert_eq!(read.expect(200).json()["id"], id);
    }
    let raw = server.post(ITEMS).key(r#"["ü/日 \"q"]"#).json(json!({ "id": "r", "pk": "ü/日 \"q" }));
    raw.framed(&frame).send().await.expect(201);
}

/// The requests that the recorded frames of both SDKs stand for. Their resources are not here, which those learn alone whose
/// signature is right.
#[tokio::test]
async fn recorded_requests_are_authentic() {
    let Some(directory) = shared_directory("conformance", "direct::recorded_requests") else { return };
    let server = Server::start().await;
    let mut recorded = Vec::new();
    for folder in [directory.join("direct"), directory.join("direct/java")] {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.extension().is_some_and(|extension| extension == "json") {
                let text = std::fs::read_to_string(&path).expect("a recording");
                let value: Value = serde_json::from_str(&text).expect("JSON");
                recorded.push((path, value));
            }
        }
    }
    let date = |value: &Value| value["rest"]["headers"]["x-ms-date"].as_str().map(httpdate::parse_http_date);
    recorded.retain(|(_, value)| date(value).is_some());
    recorded.sort_by_key(|(_, value)| date(value).expect("dated").expect("a date"));
    let mut checked = 0;
    for (path, value) in &recorded {
        let (rest, status) = (&value["rest"], &value["response"]["status"]);
        let authorization = rest["headers"]["authorization"].as_str().expect("text");
        if *status == 401
            || !authorization.starts_with("type%3dmaster") && !authorization.starts_with("type%3Dmaster")
        {
            continue;
        }
        let date = rest["headers"]["x-ms-date"].as_str().expect("text");
        advance_to(&server, date);
        let methods = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"];
        let method = methods.into_iter().find(|known| rest["method"] == *known).expect("a method");
        let call = server.call(method, rest["path"].as_str().expect("text")).unsigned();
        let call = call.header("x-ms-date", date).header("authorization", authorization);
        let tokens = value["request"]["tokens"].as_array().expect("tokens");
        let sent = tokens.iter().find(|token| token["name"] == "ReplicaPath").expect("a path");
        let replica_path = sent["value"].as_str().expect("text").to_owned();
        let answer = call.framed(&Frame { replica_path, container_rid: None }).send().await;
        assert!(!matches!(answer.status, 401 | 403), "{}: {answer:?}", path.display());
        checked += 1;
    }
    assert!(checked > 140, "{checked} of {}", recorded.len());
}
