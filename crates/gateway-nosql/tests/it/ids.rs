//! Ids of items that look like a part of a path: with `/`, `\`, `?` and `#`. Clients reach them
//! percent-encoded.

use serde_json::{Value, json};

use crate::batch::{atomic, statuses};
use crate::change_feed::read_all;
use crate::harness::{Call, ITEMS, NOW, Server};

const KEY: &str = r#"["k"]"#;

/// Ids, and how a client writes them in a path.
const IDS: [(&str, &str); 9] = [
    ("a/b", "a%2Fb"),
    ("a?b=c", "a%3Fb=c"),
    ("a#b", "a%23b"),
    ("a\\b", "a%5Cb"),
    ("/", "%2F"),
    ("..", "%2E%2E"),
    ("docs/x/attachments/y", "docs%2Fx%2Fattachments%2Fy"),
    ("a%2Fb", "a%252Fb"),
    ("+96z/GAUV+iH2xAKIlSgqw==", "+96z%2FGAUV+iH2xAKIlSgqw%3D%3D"),
];

fn item(id: &str, n: i64) -> Value {
    json!({ "id": id, "pk": "k", "n": n })
}

#[tokio::test]
async fn they_are_created_and_reached_percent_encoded() {
    let server = Server::with_container().await;
    for (id, encoded) in IDS {
        let at = |method| server.item(method, encoded, KEY);
        let created = server.create(item(id, 0)).await;
        server.post(ITEMS).key(KEY).json(item(id, 0)).send().await.expect(409);
        let read = at("GET").send().await.expect(200);
        assert_eq!((read.json(), read.etag()), (created.json(), created.etag()), "{id}");
        let session = read.header("x-ms-session-token").expect("a token").to_owned();
        at("GET").header("x-ms-session-token", &session).send().await.expect(200);
        let replaced =
            at("PUT").json(item(id, 1)).header("if-match", &created.etag()).send().await.expect(200);
        assert_eq!(replaced.json()["n"], 1);
        let patch = json!([{ "op": "incr", "path": "/n", "value": 1 }]);
        assert_eq!(at("PATCH").json(patch).send().await.expect(200).json()["n"], 2);
        let link = created.json()["_self"].as_str().expect("text").to_owned();
        let by_rid = server.get(format!("/{link}")).key(KEY).send().await.expect(200);
        assert_eq!(by_rid.json()["id"], id);
    }
    let query = json!({ "query": "SELECT VALUE c.n FROM c WHERE c.id = @id", "parameters": [{ "name": "@id", "value": "a/b" }] });
    let rows = server.post(ITEMS).key(KEY).header("x-ms-documentdb-isquery", "true").json(query).send().await;
    assert_eq!(rows.expect(200).json()["Documents"], json!([2]));
    let (mut seen, _) = read_all(|| server.get(ITEMS).header("a-im", "Incremental feed"), None).await;
    seen.sort();
    let mut all: Vec<&str> = IDS.iter().map(|(id, _)| *id).collect();
    all.sort();
    assert_eq!(seen, all);
    for (_, encoded) in IDS {
        server.item("DELETE", encoded, KEY).send().await.expect(204);
        server.item("GET", encoded, KEY).send().await.expect(404);
    }
    assert_eq!(server.get(ITEMS).send().await.expect(200).json()["_count"], 0);
}

/// A slash that is not encoded divides segments: such a path names something else, and never an
/// item by accident.
#[tokio::test]
async fn a_path_is_divided_before_it_is_decoded() {
    let server = Server::with_container().await;
    server.create(item("a/b", 0)).await;
    server.create(item("a", 0)).await;
    server.item("GET", "a/b", KEY).send().await.expect(404);
    server.item("DELETE", "a/b", KEY).send().await.expect(404);
    let attachment = server.item("GET", "a/attachments/b", KEY).send().await;
    attachment.refused(501, 0, "attachments");
    server.item("GET", "a%2Fb", KEY).send().await.expect(200);
}

#[tokio::test]
async fn batches_and_scripts_name_them_as_they_are() {
    const TOUCH: &str = "function (id) {
        var collection = getContext().getCollection(), link = collection.getAltLink() + '/docs/' + id;
        collection.readDocument(link, {}, function (error, item) {
            if (error) throw error;
            item.touched = true;
            collection.replaceDocument(link, item, {}, function (error, replaced) {
                if (error) throw error;
                getContext().getResponse().setBody(replaced.id);
            });
        });
    }";
    let server = Server::with_container().await;
    let procedure = json!({ "id": "touch", "body": TOUCH });
    server.post("/dbs/db/colls/items/sprocs").json(procedure).send().await.expect(201);
    for (id, _) in IDS {
        let operations = json!([
            { "operationType": "Create", "resourceBody": item(id, 0) },
            { "operationType": "Replace", "id": id, "resourceBody": item(id, 1) },
            { "operationType": "Read", "id": id },
        ]);
        let batch = atomic(&server, operations).await.expect(200);
        assert_eq!(statuses(&batch), [201, 200, 200], "{id}");
        if id.ends_with('/') {
            continue; // A slash at the end belongs to the link.
        }
        let run = server.post("/dbs/db/colls/items/sprocs/touch").key(KEY).json(json!([id])).send().await;
        assert_eq!(run.expect(200).json(), id);
        let deleted = atomic(&server, json!([{ "operationType": "Delete", "id": id }])).await.expect(200);
        assert_eq!(statuses(&deleted), [204]);
    }
}

#[tokio::test]
async fn a_token_for_one_reaches_it_and_no_other() {
    let server = Server::with_container().await;
    for (id, _) in IDS {
        server.create(item(id, 0)).await;
    }
    let token_for = async |id: &str, name: &str| {
        let resource = format!("dbs/db/colls/items/docs/{id}");
        let permission = json!({ "id": name, "permissionMode": "All", "resource": resource });
        server.permit_in("db", permission).await
    };
    for (name, (id, encoded)) in [("slash", IDS[0]), ("mark", IDS[1]), ("hash", IDS[2]), ("percent", IDS[7])]
    {
        let token = token_for(id, name).await;
        let status = async |call: Call<'_>| call.key(KEY).token(&token).send().await.status;
        let replacement = server.put(format!("{ITEMS}/{encoded}")).json(item(id, 5));
        assert_eq!(status(replacement).await, 200, "{id}");
        for (other, encoded) in IDS {
            let expected = if other == id { 200 } else { 403 };
            assert_eq!(status(server.get(format!("{ITEMS}/{encoded}"))).await, expected, "{id} {other}");
        }
    }
}

/// Clients that leave the question mark unencoded sign the id with the part behind the mark.
#[tokio::test]
async fn a_question_mark_belongs_to_the_id_where_the_signature_has_it() {
    let server = Server::with_container().await;
    server.create(item("a?b", 1)).await;
    server.create(item("a", 2)).await;
    let date = shardlake_testkit::http_date_after_epoch(std::time::Duration::from_millis(NOW.0));
    let signed = |method, id: &str| {
        let link = format!("dbs/db/colls/items/docs/{id}");
        let key = shardlake_testkit::EMULATOR_KEY;
        let token = shardlake_testkit::authorization(method, "docs", &link, &date, key);
        let call = server.call(method, format!("{ITEMS}/a?b")).key(KEY).unsigned();
        call.header("x-ms-date", &date).header("authorization", &token)
    };
    assert_eq!(signed("GET", "a?b").send().await.expect(200).json()["n"], 1);
    assert_eq!(signed("GET", "a").send().await.expect(200).json()["n"], 2, "a query of the address");
    signed("GET", "b").send().await.refused(401, 0, r"docs/a\n");
    signed("DELETE", "a?b").send().await.expect(204);
    server.item("GET", "a", KEY).send().await.expect(200);
    server.item("GET", "a%3Fb", KEY).send().await.expect(404);
}

/// Names of everything else keep the service's rule.
#[tokio::test]
async fn names_of_databases_containers_and_scripts_have_none_of_these() {
    let server = Server::with_container().await;
    for id in ["a/b", "a\\b", "a?b", "a#b"] {
        server.post("/dbs").json(json!({ "id": id })).send().await.expect(400);
        let key = json!({ "paths": ["/pk"], "kind": "Hash", "version": 2 });
        server.post("/dbs/db/colls").json(json!({ "id": id, "partitionKey": key })).send().await.expect(400);
        let procedure = json!({ "id": id, "body": "function () { }" });
        server.post("/dbs/db/colls/items/sprocs").json(procedure).send().await.expect(400);
    }
}
