//! Containers that are global secondary indexes, as SDKs and tools send and read them.

use serde_json::{Value, json};
use shardlake_account::sql::Dialect;
use shardlake_account::{AccountOptions, SecondaryIndexState};

use crate::harness::{Answer, Server, eventually};

const COLLECTIONS: &str = "/dbs/db/colls";
const EMAIL: &str = "SELECT c.customerId, c.email FROM c";

/// A server with a database `db` and a source `customer`.
async fn server() -> Server {
    server_of(Dialect::Shardlake).await
}

async fn server_of(index_dialect: Dialect) -> Server {
    let server = Server::with_account(AccountOptions { index_dialect, ..AccountOptions::default() }).await;
    let key = json!({ "paths": ["/pk"], "kind": "Hash", "version": 2 });
    server.create_container(json!({ "id": "customer", "partitionKey": key })).await;
    server
}

fn index_of(source: &str, definition: &str) -> Value {
    json!({ "sourceCollectionId": source, "definition": definition })
}

fn container(id: &str, key: &str, members: Value) -> Value {
    let mut container = json!({ "id": id, "partitionKey": { "paths": [key], "kind": "Hash", "version": 2 } });
    let Value::Object(members) = members else { panic!("members") };
    container.as_object_mut().expect("an object").extend(members);
    container
}

async fn create(server: &Server, id: &str, key: &str, index: Value) -> Answer {
    let body = container(id, key, json!({ "globalSecondaryIndexDefinition": index }));
    server.post(COLLECTIONS).json(body).send().await
}

/// A server with the index `byEmail` of `customer`.
async fn with_index() -> Server {
    let server = server().await;
    create(&server, "byEmail", "/email", index_of("customer", EMAIL)).await.expect(201);
    has_status(&server, "byEmail", "Active").await;
    server
}

async fn has_status(server: &Server, id: &str, status: &str) {
    eventually(status, async || read(server, id).await["globalSecondaryIndexDefinition"]["status"] == status)
        .await;
}

/// An index as it is shown, without its status: that changes by itself.
fn without_status(document: &Value, member: &str) -> Value {
    let mut index = document[member].clone();
    let status = index.as_object_mut().and_then(|index| index.remove("status")).unwrap_or_default();
    let known = SecondaryIndexState::STATUSES.iter().any(|known| status == *known);
    assert!(known, "{document}");
    index
}

async fn read(server: &Server, id: &str) -> Value {
    server.get(format!("{COLLECTIONS}/{id}")).send().await.expect(200).json()
}

#[tokio::test]
async fn both_names_are_read_and_shown() {
    let server = server().await;
    let source = read(&server, "customer").await;
    let rid = source["_rid"].clone();
    let sent = json!({ "sourceCollectionId": "customer", "sourceCollectionRid": rid, "definition": EMAIL });
    let shown = json!({ "sourceCollectionId": "customer", "sourceCollectionRid": rid, "definition": EMAIL,
        "containerType": "GlobalSecondaryIndex" });
    for (id, members) in [
        ("both", json!({ "globalSecondaryIndexDefinition": sent, "materializedViewDefinition": sent })),
        ("new", json!({ "globalSecondaryIndexDefinition": sent })),
        ("old", json!({ "materializedViewDefinition": index_of("customer", EMAIL) })),
    ] {
        let created =
            server.post(COLLECTIONS).json(container(id, "/email", members)).send().await.expect(201);
        for document in [created.json(), read(&server, id).await] {
            assert_eq!(without_status(&document, "globalSecondaryIndexDefinition"), shown, "{id}");
            assert_eq!(without_status(&document, "materializedViewDefinition"), shown, "{id}");
            assert!(document.get("materializedViews").is_none(), "{id}");
        }
    }
    let listed = server.get(COLLECTIONS).send().await.expect(200).json();
    let of = |id: &str| {
        let all = listed["DocumentCollections"].as_array().expect("a list").clone();
        all.into_iter().find(|container| container["id"] == id).expect("listed")
    };
    assert_eq!(without_status(&of("old"), "globalSecondaryIndexDefinition"), shown);
    assert_eq!(of("customer")["materializedViews"].as_array().map(Vec::len), Some(3));
    assert!(of("customer").get("globalSecondaryIndexDefinition").is_none());
}

#[tokio::test]
async fn a_source_lists_indexes_that_stand_in_for_it() {
    let server = server().await;
    let before = read(&server, "customer").await;
    assert!(before.get("materializedViews").is_none(), "absent when empty: {before}");
    let created = create(&server, "byEmail", "/email", index_of("customer", EMAIL)).await.expect(201).json();
    let after = read(&server, "customer").await;
    assert_ne!(after["_etag"], before["_etag"], "the list is a part of the source");
    assert_eq!(after["_ts"], before["_ts"]);
    let listed = json!([{ "id": "byEmail", "_rid": created["_rid"], "containerType": "GlobalSecondaryIndex",
        "requiredPathsInPreviousImage": ["/email"] }]);
    assert_eq!(after["materializedViews"], listed);
    // Rows of a part of the items, or several of an item, are no stand-in.
    for (id, definition) in [
        ("some", "SELECT c.email FROM c WHERE c.active"),
        ("parts", "SELECT t.email FROM c JOIN t IN c.contacts"),
    ] {
        create(&server, id, "/email", index_of("customer", definition)).await.expect(201);
    }
    assert_eq!(read(&server, "customer").await["materializedViews"], listed);
    for id in ["some", "parts", "byEmail"] {
        server.delete(format!("{COLLECTIONS}/{id}")).send().await.expect(204);
    }
    let empty = read(&server, "customer").await;
    assert!(empty.get("materializedViews").is_none() && empty["_etag"] != after["_etag"]);
}

#[tokio::test]
async fn impossible_indexes_are_refused() {
    let server = server().await;
    let other = index_of("customer", "SELECT c.other FROM c");
    let two = json!({ "globalSecondaryIndexDefinition": index_of("customer", EMAIL),
        "materializedViewDefinition": other });
    let send = |body: Value| server.post(COLLECTIONS).json(body).send();
    send(container("i", "/email", two)).await.refused(400, 0, "two names of one definition");
    for (index, status, words) in [
        (index_of("nothing", EMAIL), 400, "'nothing', does not exist"),
        (
            json!({ "sourceCollectionId": "customer", "sourceCollectionRid": "AAAAAA==", "definition": EMAIL }),
            400,
            "created anew meanwhile",
        ),
        (index_of("customer", "SELECT c.email FROM c WHERE"), 400, "end-of-file"),
        (index_of("customer", "SELECT c.email FROM c ORDER BY c.a"), 400, "ORDER BY: "),
        (
            index_of("customer", "SELECT c.email, COUNT(1) AS n FROM c GROUP BY c.email"),
            501,
            "GROUP BY without the partition key of the source, /pk, is not supported yet",
        ),
        (
            index_of("customer", "SELECT c.pk, MAX(c.email) AS email FROM c GROUP BY c.pk"),
            400,
            "the partition key path '/email' of the index is an aggregate",
        ),
        (index_of("customer", "SELECT c.other FROM c"), 400, "'/email'"),
        (
            json!({ "sourceCollectionId": "customer", "definition": EMAIL, "apiSpecificDefinition": {} }),
            501,
            "apiSpecificDefinition",
        ),
        (
            json!({ "sourceCollectionId": "customer", "definition": EMAIL, "shardlake": { "deadLetters": "x" } }),
            501,
            "shardlake.deadLetters",
        ),
        (
            json!({ "sourceCollectionId": "customer", "definition": EMAIL, "shardlake": { "other": 1 } }),
            400,
            "other",
        ),
        (json!({ "definition": EMAIL }), 400, "sourceCollectionId"),
    ] {
        create(&server, "i", "/email", index.clone()).await.refused(status, 0, words);
    }
    let index = index_of("customer", EMAIL);
    for (member, value) in [
        ("defaultTtl", json!(-1)),
        ("uniqueKeyPolicy", json!({ "uniqueKeys": [{ "paths": ["/a"] }] })),
        ("conflictResolutionPolicy", json!({ "mode": "LastWriterWins", "conflictResolutionPath": "/a" })),
    ] {
        let members = json!({ "globalSecondaryIndexDefinition": index, member: value });
        send(container("i", "/email", members)).await.refused(400, 0, member);
    }
    let listed = server.get(COLLECTIONS).send().await.expect(200).json();
    assert_eq!(listed["_count"], 1, "nothing was made");
}

#[tokio::test]
async fn indexes_are_limited_in_number_and_in_chains() {
    for (dialect, most, chain) in [(Dialect::Shardlake, 20, 4), (Dialect::Strict, 5, 1)] {
        let server = server_of(dialect).await;
        for number in 0..most {
            create(&server, &format!("i{number}"), "/email", index_of("customer", EMAIL)).await.expect(201);
        }
        let words = format!("has {most} indexes");
        create(&server, "more", "/email", index_of("customer", EMAIL)).await.refused(400, 0, &words);
        for depth in 1..chain {
            let (id, source) = (format!("d{depth}"), format!("d{}", depth - 1));
            let source = if depth == 1 { "i0" } else { &source };
            create(&server, &id, "/email", index_of(source, EMAIL)).await.expect(201);
        }
        let last = if chain == 1 { "i0".to_owned() } else { format!("d{}", chain - 1) };
        let words = if chain == 1 { "strict" } else { "chain of 4 indexes" };
        create(&server, "more", "/email", index_of(&last, EMAIL)).await.refused(400, 0, words);
    }
}

#[tokio::test]
async fn the_strict_dialect_has_only_what_the_reference_documents() {
    let server = server_of(Dialect::Strict).await;
    for (definition, words) in [
        ("SELECT c.email AS email FROM c", "AS: "),
        ("SELECT c.email FROM c WHERE c.a", "WHERE: "),
        ("SELECT c.a.email FROM c", "no property of the item"),
        ("SELECT t.email FROM c JOIN t IN c.a", "JOIN: "),
    ] {
        create(&server, "i", "/email", index_of("customer", definition)).await.refused(400, 0, words);
    }
    let body =
        container("i", "/email", json!({ "globalSecondaryIndexDefinition": index_of("customer", EMAIL) }));
    let manual = server.post(COLLECTIONS).json(body.clone()).header("x-ms-offer-throughput", "400");
    manual.send().await.refused(400, 0, "autoscale");
    let autoscale = server.post(COLLECTIONS).json(body);
    autoscale
        .header("x-ms-cosmos-offer-autopilot-settings", r#"{"maxThroughput":4000}"#)
        .send()
        .await
        .expect(201);
    create(&server, "all", "/any", index_of("customer", "SELECT * FROM c")).await.expect(201);
}

#[tokio::test]
async fn a_replace_keeps_the_index_and_changes_its_policies() {
    let server = with_index().await;
    let path = format!("{COLLECTIONS}/byEmail");
    let stored = read(&server, "byEmail").await;
    let put = |members: Value| server.put(&path).json(container("byEmail", "/email", members)).send();
    let index = without_status(&stored, "globalSecondaryIndexDefinition");
    let policy = json!({ "indexingMode": "none", "automatic": false });
    // As Python sends it, as it was read, and with another status.
    let mut other_status = stored.clone();
    other_status["globalSecondaryIndexDefinition"]["status"] = json!("Initializing");
    for members in [json!({}), stored.clone(), other_status, json!({ "indexingPolicy": policy })] {
        let replaced = put(members).await.expect(200).json();
        assert_eq!(without_status(&replaced, "globalSecondaryIndexDefinition"), index);
    }
    assert_eq!(read(&server, "byEmail").await["indexingPolicy"]["indexingMode"], "none");
    for other in [index_of("customer", "SELECT c.email FROM c"), index_of("byEmail", EMAIL)] {
        put(json!({ "materializedViewDefinition": other })).await.refused(400, 0, "cannot be changed");
    }
    put(json!({ "defaultTtl": 5 })).await.refused(400, 0, "defaultTtl");
    let source = container("customer", "/pk", json!({ "globalSecondaryIndexDefinition": index }));
    let replaced = server.put(format!("{COLLECTIONS}/customer")).json(source).send().await;
    replaced.refused(400, 0, "is no global secondary index");
    // A source keeps its list, and clients send it back.
    let source = read(&server, "customer").await;
    let replaced =
        server.put(format!("{COLLECTIONS}/customer")).json(source.clone()).send().await.expect(200).json();
    assert_eq!(replaced["materializedViews"], source["materializedViews"]);
}

#[tokio::test]
async fn computed_properties_stay_while_an_index_uses_them() {
    let server = server().await;
    let computed = |query: &str| {
        json!({ "computedProperties": [{ "name": "lower", "query": query },
            { "name": "free", "query": "SELECT VALUE c.x FROM c" }] })
    };
    let put = |members: Value| {
        server.put(format!("{COLLECTIONS}/customer")).json(container("customer", "/pk", members)).send()
    };
    put(computed("SELECT VALUE LOWER(c.email) FROM c")).await.expect(200);
    create(&server, "i", "/lower", index_of("customer", "SELECT c.lower FROM c")).await.expect(201);
    put(computed("SELECT VALUE UPPER(c.email) FROM c")).await.refused(400, 0, "'i' uses them");
    let mut other = computed("SELECT VALUE LOWER(c.email) FROM c");
    other["computedProperties"][1]["query"] = json!("SELECT VALUE c.y FROM c");
    put(other).await.expect(200);
    server.delete(format!("{COLLECTIONS}/i")).send().await.expect(204);
    put(json!({})).await.expect(200);
}

#[tokio::test]
async fn a_source_is_deleted_after_its_indexes() {
    let server = with_index().await;
    create(&server, "again", "/email", index_of("byEmail", EMAIL)).await.expect(201);
    let delete = |id: &str| server.delete(format!("{COLLECTIONS}/{id}")).send();
    delete("customer").await.refused(400, 0, "delete 'byEmail' first");
    delete("byEmail").await.refused(400, 0, "delete 'again' first");
    for id in ["again", "byEmail", "customer"] {
        delete(id).await.expect(204);
    }
    let server = with_index().await;
    server.delete("/dbs/db").send().await.expect(204);
    let live = server.gateway.account().router().catalog().load_full();
    assert!(live.definitions.secondary_indexes.is_empty() && live.definitions.containers.is_empty());
}

#[tokio::test]
async fn clients_write_to_the_source_only() {
    const REFUSAL: &str = "'byEmail' is a global secondary index of 'customer': write there";
    let server = with_index().await;
    let items = format!("{COLLECTIONS}/byEmail/docs");
    let item = json!({ "id": "1", "email": "e" });
    let key = r#"["e"]"#;
    let send = |method: &'static str, path: String| server.call(method, path).key(key);
    let upsert = ("x-ms-documentdb-is-upsert", "true");
    let of_item = format!("{items}/1");
    let patch = json!({ "operations": [{ "op": "set", "path": "/a", "value": 1 }] });
    for call in [
        send("POST", items.clone()).json(item.clone()),
        send("POST", items.clone()).json(item.clone()).header(upsert.0, upsert.1),
        send("PUT", of_item.clone()).json(item.clone()),
        send("PATCH", of_item.clone()).json(patch),
        send("DELETE", of_item.clone()),
        send("POST", format!("{COLLECTIONS}/byEmail/operations/partitionkeydelete")),
    ] {
        call.send().await.refused(403, 0, REFUSAL);
    }
    let bulk = |batch: bool| {
        let operations = json!([{ "operationType": "Create", "resourceBody": item, "partitionKey": key }]);
        let call =
            send("POST", items.clone()).json(operations).header("x-ms-cosmos-is-batch-request", "true");
        match batch {
            true => call.header("x-ms-cosmos-batch-atomic", "true"),
            false => call.header("x-ms-documentdb-partitionkeyrangeid", "0"),
        }
    };
    for batch in [true, false] {
        let answer = bulk(batch).send().await;
        assert_eq!(answer.json()[0]["statusCode"], 403, "{answer:?}");
    }
    let body = r#"function () { getContext().getCollection().createDocument("dbs/db/colls/byEmail",
        { id: "1", email: "e" }, function (error) { if (error) throw error; }); }"#;
    let sprocs = format!("{COLLECTIONS}/byEmail/sprocs");
    server.post(&sprocs).json(json!({ "id": "writes", "body": body })).send().await.expect(201);
    let run = send("POST", format!("{sprocs}/writes")).json(json!([])).send().await;
    assert!(run.status >= 400 && run.text.contains("is a global secondary index"), "{run:?}");
    // Reads go through.
    let read = server.get(&items).send().await.expect(200);
    assert_eq!(read.header("x-shardlake-copy-state"), None, "the index has all of the source");
    let long = json!({ "id": "long", "pk": "p", "email": "e".repeat(3000) });
    let written = server.call("POST", format!("{COLLECTIONS}/customer/docs")).key(r#"["p"]"#);
    written.json(long).send().await.expect(201);
    has_status(&server, "byEmail", "Incomplete").await;
    let read = server.get(&items).send().await.expect(200);
    assert_eq!(read.header("x-shardlake-copy-state"), Some("Incomplete"));
    let of_source = server.get(format!("{COLLECTIONS}/customer/docs")).send().await.expect(200);
    assert_eq!(of_source.header("x-shardlake-copy-state"), None);
    send("GET", of_item).send().await.refused(404, 0, "");
}

#[tokio::test]
async fn an_index_of_groups_answers_the_top_ten() {
    const BOARD: &str = "SELECT c.pk AS customer, 'all' AS board, COUNT(1) AS orders, SUM(c.total) AS total \
                         FROM c WHERE c.type = 'salesOrder' GROUP BY c.pk";
    let server = server().await;
    let docs = format!("{COLLECTIONS}/customer/docs");
    let order = |customer: usize, number: usize| json!({ "id": number.to_string(), "pk": format!("c{customer}"), "type": "salesOrder", "total": 1.5 });
    let key = |customer: usize| format!(r#"["c{customer}"]"#);
    for customer in 0..12 {
        for number in 0..=customer {
            let call = server.call("POST", &docs).key(&key(customer)).json(order(customer, number));
            call.send().await.expect(201);
        }
        let other = json!({ "id": "profile", "pk": format!("c{customer}"), "type": "customer" });
        server.call("POST", &docs).key(&key(customer)).json(other).send().await.expect(201);
    }
    create(&server, "top", "/board", index_of("customer", BOARD)).await.expect(201);
    has_status(&server, "top", "Active").await;
    assert!(read(&server, "customer").await.get("materializedViews").is_none(), "no stand-in");
    let top = async || {
        let query = json!({ "query": "SELECT TOP 10 c.customer, c.orders, c.total FROM c WHERE c.board = 'all' ORDER BY c.orders DESC" });
        let call = server.call("POST", format!("{COLLECTIONS}/top/docs")).key(r#"["all"]"#);
        let call = call.header("x-ms-documentdb-isquery", "True").header("x-ms-max-item-count", "100");
        let call = call.json(query).header("content-type", "application/query+json");
        call.send().await.expect(200).json()["Documents"].clone()
    };
    let row = |customer: usize, orders: usize| json!({ "customer": format!("c{customer}"), "orders": orders, "total": serde_json::Number::from_f64(1.5 * orders as f64) });
    let numbers = |rows: &Value| -> Vec<(String, f64, f64)> {
        let rows = rows.as_array().expect("rows").iter();
        let number = |value: &Value| value.as_f64().expect("a number");
        let row = |row: &Value| {
            (
                row["customer"].as_str().expect("a text").to_owned(),
                number(&row["orders"]),
                number(&row["total"]),
            )
        };
        rows.map(row).collect()
    };
    let expected: Value = (2..12).rev().map(|customer| row(customer, customer + 1)).collect();
    assert_eq!(numbers(&top().await), numbers(&expected));
    // The customer with most orders loses all but one.
    for number in 1..12 {
        let path = format!("{docs}/{number}");
        server.call("DELETE", path).key(&key(11)).send().await.expect(204);
    }
    let expected: Value = (1..11).rev().map(|customer| row(customer, customer + 1)).collect();
    eventually("the order follows", async || numbers(&top().await) == numbers(&expected)).await;
    let path = "/_shardlake/v1/copies/index/db/top/verify";
    server.post(path).send().await.expect(200);
    eventually("verified", async || {
        let report = server.get(path).send().await.expect(200).json();
        assert_eq!(report["counts"]["differences"], 0, "{report}");
        report["state"] == "done"
    })
    .await;
}
