//! Queries with their plan and figures as data: that they add up, that a plan costs nothing, that leaving ends them.

use serde_json::{Value, json};

use crate::harness::{Answer, READ_ONLY_KEY, Server, eventually};

const OF_ITEMS: &str = "/_shardlake/v1/dbs/db/colls/items";

async fn ask(server: &Server, body: Value) -> Answer {
    server.post(format!("{OF_ITEMS}/query")).json(body).signed_with(READ_ONLY_KEY).send().await
}

async fn with_ranges() -> Server {
    let server = Server::with_container().await;
    for number in 0..60 {
        let item = json!({ "id": format!("i{number}"), "pk": format!("k{number}"), "n": number, "even": number % 2 == 0 });
        let _created = server.create(item).await;
    }
    let _begun = server.post(format!("{OF_ITEMS}/partitions/0/split")).send().await.expect(202);
    eventually("the end of the split", async || {
        let report =
            server.get(format!("{OF_ITEMS}/partitions?parts=ranges")).send().await.expect(200).json();
        report["partitions"].as_array().map(Vec::len) == Some(2) && report["relocation"].is_null()
    })
    .await;
    server
}

fn charges(answer: &Value) -> f64 {
    answer["ranges"].as_array().expect("a list").iter().filter_map(|range| range["charge"].as_f64()).sum()
}

#[tokio::test]
async fn charges_of_ranges_add_up_to_the_charge() {
    let server = with_ranges().await;
    for text in [
        "SELECT * FROM c",
        "SELECT * FROM c WHERE c.n > 10",
        "SELECT * FROM c ORDER BY c.n DESC",
        "SELECT TOP 7 c.n FROM c ORDER BY c.n",
        "SELECT COUNT(1) AS n FROM c WHERE c.even",
        "SELECT c.even, COUNT(1) AS n FROM c GROUP BY c.even",
        "SELECT DISTINCT c.even FROM c",
        "SELECT VALUE c.n FROM c OFFSET 5 LIMIT 10",
        "SELECT * FROM c WHERE c.pk = 'k3'",
        "SELECT * FROM c WHERE false",
    ] {
        let (mut rows, mut continuation, mut pages) = (0, Value::Null, 0);
        loop {
            let body = json!({ "query": text, "maxItems": 20, "continuation": continuation });
            let answer = ask(&server, body).await.expect(200);
            let told = answer.json();
            let charge = told["charge"].as_f64().expect("a number");
            assert!((charges(&told) - charge).abs() < 0.005, "{text}: {} of {charge}", charges(&told));
            assert!((answer.charge() - charge).abs() < 0.005, "{text}: the header says {}", answer.charge());
            rows += told["rows"].as_array().expect("rows").len();
            continuation = told["continuation"].clone();
            pages += 1;
            assert!(pages < 50, "{text} ends");
            if continuation.is_null() {
                break;
            }
        }
        let usual = server
            .post("/dbs/db/colls/items/docs")
            .header("x-ms-documentdb-isquery", "true")
            .header("x-ms-documentdb-query-enablecrosspartition", "true")
            .header("x-shardlake-fan-out", "true")
            .header("x-ms-max-item-count", "1000")
            .header("content-type", "application/query+json")
            .json(json!({ "query": text }));
        let mut usual = usual.send().await.expect(200);
        let mut count = usual.json()["_count"].as_u64().expect("a number");
        while let Some(token) = usual.header("x-ms-continuation").map(str::to_owned) {
            let next = server
                .post("/dbs/db/colls/items/docs")
                .header("x-ms-documentdb-isquery", "true")
                .header("x-ms-documentdb-query-enablecrosspartition", "true")
                .header("x-shardlake-fan-out", "true")
                .header("x-ms-max-item-count", "1000")
                .header("x-ms-continuation", &token)
                .header("content-type", "application/query+json")
                .json(json!({ "query": text }));
            usual = next.send().await.expect(200);
            count += usual.json()["_count"].as_u64().expect("a number");
        }
        assert_eq!(rows as u64, count, "{text}");
    }
}

#[tokio::test]
async fn a_plan_names_its_steps_and_costs_nothing() {
    let server = with_ranges().await;
    let text = "SELECT TOP 3 c.n FROM c WHERE c.n > 10 ORDER BY c.n";
    let before = server.get("/_shardlake/v1/pulse").send().await.expect(200).json();
    let answer = ask(&server, json!({ "query": text, "mode": "plan" })).await.expect(200);
    let told = answer.json();
    assert_eq!((answer.charge(), &told["charge"], &told["rows"]), (0.0, &json!(0.0), &json!([])));
    let kinds: Vec<&str> = told["plan"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|one| one["kind"].as_str().unwrap_or_default())
        .collect();
    assert_eq!(kinds, ["access", "load", "filter", "sort", "project", "merge", "offset"]);
    assert!(told["plan"].as_array().expect("a list").iter().all(|one| one["figures"].is_null()));
    assert_eq!(told["plan"][1]["inputs"], json!(["access"]));
    assert_eq!(told["ranges"].as_array().map(Vec::len), Some(2));
    let after = server.get("/_shardlake/v1/pulse").send().await.expect(200).json();
    assert_eq!(before["ru"], after["ru"], "nothing is counted as load");
    let run = ask(&server, json!({ "query": text })).await.expect(200).json();
    assert_eq!(run["rows"], json!([{ "n": 11 }, { "n": 12 }, { "n": 13 }]));
    let of = |kind: &str| {
        let boxes = run["plan"].as_array().expect("a list");
        boxes.iter().find(|one| one["kind"] == kind).unwrap_or_else(|| panic!("{kind} in {run}")).clone()
    };
    assert!(of("load")["figures"]["items"].as_u64().expect("counted") >= 3);
    assert!(of("filter")["label"].as_str().expect("a text").contains("10"));
    assert_eq!(of("merge")["figures"]["rowsOut"], 3);
    // Rows that a merge sorts are not counted: null, and not zero.
    assert_eq!(
        (&of("sort")["figures"]["rowsIn"], &of("sort")["figures"]["rowsOut"]),
        (&Value::Null, &Value::Null)
    );
    let items: u64 =
        run["ranges"].as_array().expect("a list").iter().filter_map(|one| one["items"].as_u64()).sum();
    assert_eq!(of("load")["figures"]["items"], items, "steps and ranges count the same");
    let used = run["indexes"]["used"].as_array().expect("a list");
    assert!(used.iter().any(|one| one["path"] == "/n/?"), "{run}");
}

#[tokio::test]
async fn scopes_narrow_and_rows_are_the_items_own_text() {
    let server = with_ranges().await;
    let _exact = server
        .post("/dbs/db/colls/items/docs")
        .key("[\"big\"]")
        .body(r#"{"id":"big","pk":"big","n":9007199254740993}"#)
        .send()
        .await
        .expect(201);
    let body = json!({ "query": "SELECT VALUE c.n FROM c", "scope": { "partitionKey": ["big"] } });
    let answer = ask(&server, body).await.expect(200);
    assert!(answer.text.ends_with(r#","rows":[9007199254740993]}"#), "{}", answer.text);
    let ranges = answer.json()["ranges"].as_array().map(Vec::len);
    assert_eq!(ranges, Some(1));
    let mut rows = 0;
    for range in ["1", "2"] {
        let body = json!({ "query": "SELECT c.id FROM c", "scope": { "range": range }, "maxItems": 1000 });
        rows += ask(&server, body).await.expect(200).json()["rows"].as_array().expect("rows").len();
    }
    assert_eq!(rows, 61);
    let gone = json!({ "query": "SELECT 1", "scope": { "range": "0" } });
    let _gone = ask(&server, gone).await.refused(410, 1002, "partition key range 0");
}

#[tokio::test]
async fn mistakes_are_told_with_their_place_and_nothing_else_is_taken() {
    let server = with_ranges().await;
    let wrong = ask(&server, json!({ "query": "SELECT * FRO c" })).await.expect(400);
    assert!(wrong.message().contains("\"location\""), "{}", wrong.message());
    for (body, words) in [
        (json!({ "query": "SELECT 1", "pages": 3 }), "unknown field `pages`"),
        (json!({ "query": "SELECT 1", "mode": "walk" }), "walk"),
        (json!({ "query": "SELECT 1", "scope": {} }), "the scope is one of"),
        (json!({ "query": "SELECT 1", "continuation": "x" }), "oken"),
        (json!({}), "missing field `query`"),
    ] {
        let _answer = ask(&server, body).await.refused(400, 0, words);
    }
    let _method = server.get(format!("{OF_ITEMS}/query")).send().await.refused(405, 0, "GET");
    let unsigned = server.post(format!("{OF_ITEMS}/query")).json(json!({ "query": "SELECT 1" })).unsigned();
    let _unsigned = unsigned.send().await.refused(401, 0, "authorization is missing");
}
