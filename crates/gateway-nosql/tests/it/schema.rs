//! The schema of items, and predictions for another indexing policy, at the wire.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{READ_ONLY_KEY, Server, eventually};

const PROGRESS: &str = "x-ms-documentdb-collection-index-transformation-progress";
const OF_ITEMS: &str = "/_shardlake/v1/dbs/db/colls/items";

async fn with_items(count: usize) -> Server {
    let server = Server::with_container().await;
    for number in 0..count {
        let item = json!({
            "id": format!("i{number}"), "pk": format!("k{number}"), "n": number,
            "tags": [{ "name": "red" }, { "name": "blue" }], "text": "a rather plain text",
        });
        let _created = server.create(item).await;
    }
    server
}

async fn schema(server: &Server, query: &str) -> Value {
    server.get(format!("{OF_ITEMS}/schema{query}")).signed_with(READ_ONLY_KEY).send().await.expect(200).json()
}

fn path<'s>(schema: &'s Value, path: &str) -> &'s Value {
    let paths = schema["paths"].as_array().expect("a list");
    paths.iter().find(|one| one["path"] == path).unwrap_or_else(|| panic!("{path} in {schema}"))
}

#[tokio::test]
async fn a_schema_tells_paths_types_and_examples() {
    let server = with_items(60).await;
    let told = schema(&server, "").await;
    assert_eq!((&told["sampled"], &told["ofItems"], &told["isCut"]), (&json!(60), &json!(60), &json!(false)));
    assert_eq!(path(&told, "/n")["types"], json!({ "number": 1.0 }));
    assert_eq!(
        (&path(&told, "/n")["distinct"], &path(&told, "/n")["isDistinctExact"]),
        (&json!(60), &json!(true))
    );
    assert_eq!(path(&told, "/tags/[]/name")["distinct"], 2);
    assert_eq!(path(&told, "/text")["examples"], json!(["\"a rather plain text\""]));
    assert_eq!((&path(&told, "/pk")["isKey"], &path(&told, "/n")["isKey"]), (&json!(true), &json!(false)));
    assert_eq!(
        (&path(&told, "/n")["isIndexed"], &path(&told, "/_etag")["isIndexed"]),
        (&json!(true), &json!(false))
    );
    assert!(told["itemBytes"]["p50"].as_u64() <= told["itemBytes"]["max"].as_u64());
    let part = schema(&server, "?sample=10").await;
    assert_eq!((&part["sampled"], &part["ofItems"]), (&json!(10), &json!(60)));
    assert_eq!(path(&part, "/n")["isDistinctExact"], false);
    let _wrong = server.get(format!("{OF_ITEMS}/schema?sample=0")).send().await.refused(400, 0, "1 to 5000");
}

#[tokio::test]
async fn a_schema_is_kept_for_a_minute_and_costs_nobody_anything() {
    let server = with_items(3).await;
    let before = server.get("/_shardlake/v1/pulse").send().await.expect(200).json();
    let first = schema(&server, "").await;
    let _new = server.create(json!({ "id": "x", "pk": "x", "fresh": true })).await;
    assert_eq!(schema(&server, "").await, first);
    server.clock.advance(Duration::from_secs(61));
    assert_eq!(path(&schema(&server, "").await, "/fresh")["types"], json!({ "boolean": 0.25 }));
    let after = server.get("/_shardlake/v1/pulse").send().await.expect(200).json();
    let sum = |pulse: &Value| -> f64 {
        pulse["ru"]["feed"].as_array().expect("a list").iter().filter_map(Value::as_f64).sum()
    };
    assert_eq!((sum(&before), sum(&after)), (0.0, 0.0));
}

#[tokio::test]
async fn a_preview_charges_as_writes_do() {
    let server = with_items(20).await;
    let preview = async |policy: Value| -> Value {
        let call =
            server.post(format!("{OF_ITEMS}/indexing/preview")).json(json!({ "indexingPolicy": policy }));
        call.signed_with(READ_ONLY_KEY).send().await.expect(200).json()
    };
    let policy = json!({
        "indexingMode": "consistent", "automatic": true,
        "includedPaths": [{ "path": "/n/?" }], "excludedPaths": [{ "path": "/*" }],
    });
    let told = preview(policy.clone()).await;
    assert_eq!((&told["isValid"], &told["errors"], &told["sampled"]), (&json!(true), &json!([]), &json!(20)));
    let (now, then) = (&told["termsPerItem"]["now"], &told["termsPerItem"]["then"]);
    assert!(now.as_f64() > then.as_f64(), "{told}");
    assert_eq!(told["rebuild"]["items"], 20);
    // The predicted charge equals the actual one, before and after.
    let item = |id: &str| {
        json!({
            "id": id, "pk": id, "n": 5, "tags": [{ "name": "red" }, { "name": "blue" }], "text": "a rather plain text",
        })
    };
    let charge = server.create(item("before")).await.charge();
    assert_eq!(told["charge"]["create"]["now"].as_f64(), Some(charge));
    let same = server.put("/dbs/db/colls/items/docs/before").key("[\"before\"]").json(item("before"));
    assert_eq!(told["charge"]["replace"]["now"].as_f64(), Some(same.send().await.expect(200).charge()));
    let key = json!({ "paths": ["/pk"], "kind": "Hash", "version": 2 });
    let definition = json!({ "id": "items", "partitionKey": key, "indexingPolicy": policy });
    let _replaced = server.put("/dbs/db/colls/items").json(definition).send().await.expect(200);
    let charge = server.create(item("afterw")).await.charge();
    assert_eq!(told["charge"]["create"]["then"].as_f64(), Some(charge));
    let wrong =
        preview(json!({ "includedPaths": [{ "path": "/n" }], "excludedPaths": [{ "path": "/*" }] })).await;
    assert_eq!(wrong["isValid"], false);
    assert!(wrong["errors"][0]["words"].as_str().expect("a text").contains("/n"), "{wrong}");
    let unknown = preview(json!({ "includedPaths": 3 })).await;
    assert_eq!(unknown["isValid"], false);
}

#[tokio::test]
async fn a_preview_says_what_becomes_of_queries() {
    let server = with_items(40).await;
    let without_n = json!({
        "indexingMode": "consistent", "automatic": true,
        "includedPaths": [{ "path": "/*" }], "excludedPaths": [{ "path": "/n/?" }],
    });
    let queries = json!([
        { "query": "SELECT * FROM c WHERE c.n < @n", "parameters": [{ "name": "@n", "value": 5 }] },
        { "query": "SELECT * FROM c WHERE c.text = 'x'" },
        { "query": "SELECT TOP 1 * FROM c ORDER BY c.n" },
        { "query": "SELECT * FROM" },
    ]);
    let preview = async |policy: &Value, queries: &Value| -> Value {
        let body = json!({ "indexingPolicy": policy, "queries": queries });
        let call = server.post(format!("{OF_ITEMS}/indexing/preview")).json(body);
        call.signed_with(READ_ONLY_KEY).send().await.expect(200).json()
    };
    let told = preview(&without_n, &queries).await["queries"].clone();
    let way = |place: usize, when: &str| told[place][when]["way"].clone();
    assert_eq!((way(0, "now"), way(0, "then")), (json!("index"), json!("scan")), "{told}");
    assert_eq!((way(1, "now"), way(1, "then")), (json!("index"), json!("index")), "{told}");
    // The policy refuses an order that it has no index for.
    assert_eq!((way(2, "now"), &told[2]["now"]["charge"]), (json!("order"), &Value::Null), "{told}");
    assert!(told[2]["then"]["refusal"].as_str().expect("a refusal").contains("index"), "{told}");
    assert!(told[3]["now"]["refusal"].is_string() && told[3]["then"]["refusal"].is_string(), "{told}");
    assert_eq!(told[0]["then"]["indexes"]["possible"][0]["path"], "/n/?", "{told}");

    // The predicted charge equals the actual one, before and after.
    let charged = async || {
        let query = json!({ "query": "SELECT * FROM c WHERE c.n < 5" });
        let call = server.post(format!("{OF_ITEMS}/query")).json(query);
        call.send().await.expect(200).charge()
    };
    assert_eq!(told[0]["now"]["charge"].as_f64(), Some(charged().await), "{told}");
    let key = json!({ "paths": ["/pk"], "kind": "Hash", "version": 2 });
    let definition = json!({ "id": "items", "partitionKey": key, "indexingPolicy": without_n });
    let _replaced = server.put("/dbs/db/colls/items").json(definition).send().await.expect(200);
    eventually("the new index serves", async || {
        let call = server.get("/dbs/db/colls/items").header("x-ms-documentdb-populatequotainfo", "True");
        call.send().await.expect(200).header(PROGRESS) == Some("100")
    })
    .await;
    assert_eq!(told[0]["then"]["charge"].as_f64(), Some(charged().await), "{told}");
    let many: Vec<Value> = (0..21).map(|_| json!({ "query": "SELECT 1" })).collect();
    let body = json!({ "indexingPolicy": without_n, "queries": many });
    let _refused =
        server.post(format!("{OF_ITEMS}/indexing/preview")).json(body).send().await.refused(400, 0, "20");
}

/// A web store in three partitions: orders and customers, dates, numbers, a list, and a property that few have.
async fn web_store() -> Server {
    let server = Server::with_container().await;
    for number in 0..600_u64 {
        let mut item = json!({
            "id": format!("i{number}"), "pk": format!("k{}", number % 150), "n": number,
            "type": if number % 4 == 0 { "customer" } else { "salesOrder" },
            "shipDate": format!("2023-{:02}-{:02}", number * 7 % 12 + 1, number * 11 % 28 + 1),
            "orderDate": format!("2023-{:02}-{:02}", number * 5 % 12 + 1, number * 13 % 28 + 1),
            "tags": [if number % 3 == 0 { "red" } else { "blue" }, "all"], "text": "a rather plain text ".repeat(10),
        });
        if number % 50 == 0 {
            item["rare"] = json!(number);
        }
        let _created = server.create(item).await;
    }
    for (partition, targets) in [("0", ["1", "2"]), ("1", ["3", "4"])] {
        let path = format!("{OF_ITEMS}/partitions/{partition}/split");
        let _begun = server.post(path).json(json!({ "at": "middle" })).send().await.expect(202);
        eventually("the end of the split", async || {
            let report = server.get(format!("{OF_ITEMS}/partitions")).send().await.expect(200).json();
            report["lastRelocation"]["targets"] == json!(targets)
        })
        .await;
    }
    server
}

const STORE_QUERIES: [&str; 16] = [
    "SELECT c.id FROM c WHERE c.type = 'salesOrder' AND STARTSWITH(c.shipDate, '2023-11') ORDER BY c.orderDate DESC",
    "SELECT c.id FROM c WHERE c.type = 'salesOrder' AND CONTAINS(c.shipDate, '2023-11') ORDER BY c.orderDate DESC",
    "SELECT * FROM c ORDER BY c.n",
    "SELECT c.n FROM c WHERE c.n < 200 ORDER BY c.n DESC",
    "SELECT * FROM c ORDER BY c.rare",
    "SELECT * FROM c WHERE c.type = 'customer'",
    "SELECT * FROM c WHERE c.type = 'salesOrder' AND c.n < 200",
    "SELECT * FROM c WHERE c.n < 50",
    "SELECT * FROM c WHERE c.n < 10 OR c.shipDate = '2023-11-05'",
    "SELECT VALUE COUNT(1) FROM c",
    "SELECT VALUE COUNT(1) FROM c WHERE c.n < 50",
    "SELECT c.type, COUNT(1) AS count FROM c GROUP BY c.type",
    "SELECT DISTINCT VALUE c.shipDate FROM c WHERE c.n >= 300",
    "SELECT * FROM c WHERE ARRAY_CONTAINS(c.tags, 'red')",
    "SELECT * FROM c WHERE IS_DEFINED(c.rare)",
    "SELECT * FROM c WHERE c.pk = 'k3' ORDER BY c.n",
];

fn store_policies() -> Vec<Value> {
    let composites = |list: Value| {
        json!({
            "indexingMode": "consistent", "automatic": true, "compositeIndexes": list,
            "includedPaths": [{ "path": "/*" }], "excludedPaths": [],
        })
    };
    let without = |paths: &[&str]| {
        let excluded: Vec<Value> = paths.iter().map(|path| json!({ "path": path })).collect();
        json!({
            "indexingMode": "consistent", "automatic": true,
            "includedPaths": [{ "path": "/*" }], "excludedPaths": excluded,
        })
    };
    vec![
        composites(json!([[{ "path": "/type" }, { "path": "/shipDate" }]])),
        composites(json!([[{ "path": "/type" }, { "path": "/orderDate", "order": "descending" }]])),
        without(&["/n/?", "/tags/*"]),
        without(&["/type/?", "/shipDate/?", "/rare/?"]),
        without(&[]),
    ]
}

/// Charge of all pages of a query; `None` where the policy refuses the query.
async fn charged_for(server: &Server, text: &str) -> Option<f64> {
    let (mut charge, mut continuation) = (0.0, Value::Null);
    loop {
        let body = json!({ "query": text, "maxItems": 1000, "continuation": continuation });
        let answer = server.post(format!("{OF_ITEMS}/query")).json(body).send().await;
        if answer.status == 400 {
            return None;
        }
        let answer = answer.expect(200);
        charge += answer.charge();
        continuation = answer.json()["continuation"].clone();
        if continuation.is_null() {
            return Some(charge);
        }
    }
}

#[tokio::test]
async fn a_preview_foresees_the_charge_of_now_and_recommends_nothing_dearer() {
    let server = web_store().await;
    let queries: Vec<Value> = STORE_QUERIES.iter().map(|text| json!({ "query": text })).collect();
    let measured = async || {
        let mut charges = Vec::new();
        for text in STORE_QUERIES {
            charges.push(charged_for(&server, text).await);
        }
        charges
    };
    let mut now = measured().await;
    let mut wrong = Vec::new();
    for policy in store_policies() {
        let body = json!({ "indexingPolicy": policy, "queries": queries });
        let preview =
            server.post(format!("{OF_ITEMS}/indexing/preview")).json(body).send().await.expect(200).json();
        let key = json!({ "paths": ["/pk"], "kind": "Hash", "version": 2 });
        let definition = json!({ "id": "items", "partitionKey": key, "indexingPolicy": policy });
        let _replaced = server.put("/dbs/db/colls/items").json(definition).send().await.expect(200);
        eventually("the new index serves", async || {
            let call = server.get("/dbs/db/colls/items").header("x-ms-documentdb-populatequotainfo", "True");
            call.send().await.expect(200).header(PROGRESS) == Some("100")
        })
        .await;
        let then = measured().await;
        for (place, text) in STORE_QUERIES.iter().enumerate() {
            let foreseen = |when: &str| preview["queries"][place][when]["charge"].as_f64();
            for (when, charge) in [("now", now[place]), ("then", then[place])] {
                let is_near = match (foreseen(when), charge) {
                    (Some(foreseen), Some(charge)) => (foreseen / charge - 1.0).abs() <= 0.1,
                    (None, None) => true,
                    _ => false,
                };
                if !is_near {
                    wrong.push(format!(
                        "{text} {when} of {policy}: foreseen {:?}, charged {charge:?}",
                        foreseen(when)
                    ));
                }
            }
            let is_recommended =
                matches!((foreseen("now"), foreseen("then")), (Some(now), Some(then)) if then < now);
            if is_recommended && then[place] > now[place] {
                wrong.push(format!("{text}: {policy} is recommended, and dearer"));
            }
        }
        now = then;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
