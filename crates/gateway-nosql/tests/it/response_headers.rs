//! Response headers of every kind of resource and status, by one table.

use std::cell::RefCell;

use serde_json::{Value, json};

use crate::harness::{Answer, Call, ITEMS, Server};

const KEY: &str = r#"["k"]"#;

/// On the answers of all resources.
const ALWAYS: [&str; 13] = [
    "content-location",
    "x-ms-activity-id",
    "x-ms-current-replica-set-size",
    "x-ms-current-write-quorum",
    "x-ms-gatewayversion",
    "x-ms-last-state-change-utc",
    "x-ms-number-of-read-regions",
    "x-ms-request-charge",
    "x-ms-request-duration-ms",
    "x-ms-schemaversion",
    "x-ms-serviceversion",
    "x-ms-transport-request-id",
    "x-ms-xp-role",
];

/// The position of a partition, and the range that it belongs to.
const POSITION: [&str; 7] = [
    "lsn",
    "x-ms-cosmos-llsn",
    "x-ms-cosmos-quorum-acked-llsn",
    "x-ms-documentdb-partitionkeyrangeid",
    "x-ms-global-committed-lsn",
    "x-ms-quorum-acked-lsn",
    "x-ms-session-token",
];

/// The version of an item.
const ITEM_VERSION: [&str; 2] = ["x-ms-cosmos-item-llsn", "x-ms-item-lsn"];
const OWNER: [&str; 2] = ["x-ms-alt-content-path", "x-ms-content-path"];
const QUOTA: [&str; 3] = [
    "x-ms-documentdb-collection-index-transformation-progress",
    "x-ms-resource-quota",
    "x-ms-resource-usage",
];
const OFFER: [&str; 2] = ["x-ms-cosmos-min-throughput", "x-ms-offer-replace-pending"];

/// Kinds of answers: the letters of a row of the table.
fn headers_of(letter: char) -> &'static [&'static str] {
    match letter {
        'e' => &["etag"],
        'n' => &["x-ms-item-count"],
        'o' => &OWNER,
        'p' => &POSITION,
        'v' => &ITEM_VERSION,
        's' => &["x-ms-substatus"],
        'q' => &QUOTA,
        't' => &OFFER,
        'c' => &["x-ms-continuation"],
        'm' => &["x-ms-max-media-storage-usage-mb", "x-ms-media-storage-usage-mb"],
        other => panic!("'{other}' names no headers"),
    }
}

const LETTERS: &str = "enopvsqtcm";

/// Headers that the answer lacks, and headers that it has in addition to those of its letters.
fn differences(letters: &str, answer: &Answer) -> Vec<String> {
    let has = |header: &str| answer.header(header).is_some_and(|value| !value.is_empty());
    let missing = ALWAYS.iter().filter(|header| !has(header)).map(|header| format!("no {header}"));
    let of_letters =
        LETTERS.chars().flat_map(|letter| headers_of(letter).iter().map(move |name| (letter, name)));
    let others = of_letters.filter(|(letter, name)| has(name) != letters.contains(*letter));
    missing.chain(others.map(|(letter, name)| format!("{name} ({letter})"))).collect()
}

struct Walk<'s> {
    server: &'s Server,
    wrong: RefCell<Vec<String>>,
}

impl Walk<'_> {
    async fn ask(&self, name: &str, call: Call<'_>, status: u16, letters: &str) -> Answer {
        let answer = call.send().await.expect(status);
        let differences = differences(letters, &answer);
        if !differences.is_empty() {
            let found = format!("{name} {status} ({letters}): {}", differences.join(", "));
            self.wrong.borrow_mut().push(found);
        }
        answer
    }

    /// A resource from its creation to its end. `of` are the letters of its answers besides the etag.
    async fn resource(&self, kind: &str, feed: &str, id: &str, body: &Value, of: &str) {
        let (server, at) = (self.server, format!("{feed}/{id}"));
        let with = |letters: &str| format!("{letters}{of}");
        let created = self.ask(kind, server.post(feed).json(body.clone()), 201, &with("e")).await;
        self.ask(kind, server.post(feed).json(body.clone()), 409, "").await;
        self.ask(kind, server.get(&at), 200, &with("e")).await;
        let known = server.get(&at).header("if-none-match", &created.etag());
        self.ask(kind, known, 304, &with("e")).await;
        self.ask(kind, server.get(feed), 200, &with("n")).await;
        let query = server.post(feed).header("content-type", "application/query+json");
        self.ask(kind, query.json(json!({ "query": "SELECT * FROM c" })), 200, &with("n")).await;
        let stale = server.delete(&at).header("if-match", "\"x\"");
        self.ask(kind, stale, 412, "").await;
    }
}

#[tokio::test]
async fn every_kind_of_resource_has_its_headers_at_every_status() {
    let server = Server::start().await;
    let walk = Walk { server: &server, wrong: RefCell::default() };
    walk.ask("account", server.get("/"), 200, "m").await;
    walk.resource("database", "/dbs", "db", &json!({ "id": "db" }), "").await;
    let definition =
        json!({ "id": "items", "partitionKey": { "paths": ["/pk"], "kind": "Hash", "version": 2 } });
    let containers = "/dbs/db/colls";
    let at = "/dbs/db/colls/items";
    let throughput = server.post(containers).header("x-ms-offer-throughput", "400");
    let other = json!({ "id": "other", "partitionKey": { "paths": ["/pk"] } });
    walk.ask("container", throughput.json(other), 201, "eo").await;
    let created = walk.ask("container", server.post(containers).json(definition.clone()), 201, "eo").await;
    walk.ask("container", server.get(at), 200, "eo").await;
    let known = server.get(at).header("if-none-match", &created.etag());
    walk.ask("container", known, 304, "eo").await;
    let quota = server.get(at).header("x-ms-documentdb-populatequotainfo", "True");
    walk.ask("container", quota, 200, "eoq").await;
    walk.ask("container", server.put(at).json(definition), 200, "eo").await;
    walk.ask("containers", server.get(containers), 200, "no").await;
    walk.ask("missing container", server.get("/dbs/db/colls/none"), 404, "").await;
    walk.ask("missing database", server.get("/dbs/none/colls"), 404, "").await;
    walk.ask("ranges", server.get("/dbs/db/colls/items/pkranges"), 200, "en").await;
    walk.resource("user", "/dbs/db/users", "ann", &json!({ "id": "ann" }), "o").await;
    let permission = json!({ "id": "p", "permissionMode": "Read", "resource": "dbs/db/colls/items" });
    walk.resource("permission", "/dbs/db/users/ann/permissions", "p", &permission, "o").await;
    for (feed, extra) in [("sprocs", ""), ("triggers", "All"), ("udfs", "")] {
        let mut script = json!({ "id": "s", "body": "function () { }" });
        if !extra.is_empty() {
            script["triggerType"] = json!("Pre");
            script["triggerOperation"] = json!(extra);
        }
        walk.resource(feed, &format!("{at}/{feed}"), "s", &script, "").await;
    }
    let run = server.post(format!("{at}/sprocs/s")).key(KEY).json(json!([]));
    walk.ask("procedure", run, 200, "op").await;
    let offers = server.get("/offers").send().await.expect(200);
    let rid = offers.json()["Offers"][0]["_rid"].as_str().expect("a rid").to_owned();
    walk.ask("offers", server.get("/offers"), 200, "n").await;
    walk.ask("offer", server.get(format!("/offers/{rid}")), 200, "et").await;
    walk.ask("missing offer", server.get("/offers/X7kE"), 404, "").await;
    walk.ask("conflicts", server.get(format!("{at}/conflicts")), 200, "n").await;
    walk.ask("refused", server.get("/dbs/db/clientencryptionkeys"), 501, "").await;
    walk.ask("wrong verb", server.call("PATCH", "/dbs/db"), 405, "").await;
    walk.ask("unsigned", server.get("/dbs").unsigned(), 401, "").await;
    on_items(&walk).await;
    walk.ask("deleted container", server.delete(at), 204, "o").await;
    walk.ask("item of a deleted container", server.item("GET", "a", KEY), 404, "s").await;
    walk.ask("deleted database", server.delete("/dbs/db"), 204, "").await;
    let wrong = walk.wrong.into_inner();
    assert!(wrong.is_empty(), "{} answers:\n{}", wrong.len(), wrong.join("\n"));
}

async fn on_items(walk: &Walk<'_>) {
    let server = walk.server;
    let item = json!({ "id": "a", "pk": "k" });
    let post = || server.post(ITEMS).key(KEY);
    let created = walk.ask("item", post().json(item.clone()), 201, "eopv").await;
    walk.ask("item", post().json(item.clone()), 409, "opv").await;
    walk.ask("item", server.item("GET", "a", KEY), 200, "enopv").await;
    let known = || server.item("GET", "a", KEY).header("if-none-match", &created.etag());
    walk.ask("item", known(), 304, "eopv").await;
    walk.ask("item", server.item("GET", "none", KEY), 404, "op").await;
    let minimal = post().header("x-ms-documentdb-is-upsert", "True").header("prefer", "return=minimal");
    walk.ask("item", minimal.json(item.clone()), 200, "eopv").await;
    walk.ask("item", server.item("PUT", "a", KEY).json(item), 200, "eopv").await;
    let patch = json!({ "operations": [{ "op": "set", "path": "/n", "value": 1 }] });
    walk.ask("item", server.item("PATCH", "a", KEY).json(patch), 200, "eopv").await;
    walk.ask("item", server.item("DELETE", "a", KEY).header("if-match", "\"x\""), 412, "opv").await;
    walk.ask("mismatch", post().json(json!({ "id": "b", "pk": "l" })), 400, "s").await;
    walk.ask("second item", post().json(json!({ "id": "b", "pk": "k" })), 201, "eopv").await;
    walk.ask("feed", server.get(ITEMS).key(KEY), 200, "nop").await;
    let page = server.get(ITEMS).key(KEY).header("x-ms-max-item-count", "1");
    walk.ask("page", page, 200, "nopc").await;
    let quota = server.get(ITEMS).key(KEY).header("x-ms-documentdb-populatequotainfo", "True");
    walk.ask("feed", quota, 200, "nopq").await;
    let query = post().header("content-type", "application/query+json");
    walk.ask("query", query.json(json!({ "query": "SELECT * FROM c" })), 200, "nop").await;
    let changes = server.get(ITEMS).key(KEY).header("a-im", "Incremental Feed");
    let changes = walk.ask("changes", changes, 200, "enop").await;
    let more = server.get(ITEMS).key(KEY).header("a-im", "Incremental Feed");
    walk.ask("no changes", more.header("if-none-match", &changes.etag()), 304, "enop").await;
    let batch = json!([{ "operationType": "Read", "id": "b" }]);
    let batch = post().header("x-ms-cosmos-is-batch-request", "True").json(batch);
    walk.ask("batch", batch.header("x-ms-cosmos-batch-atomic", "True"), 200, "op").await;
    walk.ask("item", server.item("DELETE", "a", KEY), 204, "opv").await;
}
