//! `GROUP BY` with `ORDER BY`: within a logical partition, merged by the server, and by clients that merge by the plan.

use serde_json::{Value, json};

use crate::harness::{ITEMS, Server};
use crate::queries::{drain, query, rows};

/// Five physical partitions. The groups of `team` are 0 to 6, without a `team`, and null; `place.city` is A, B or C.
async fn filled() -> Server {
    let server = Server::start().await;
    server.post("/dbs").json(json!({ "id": "db" })).send().await.expect(201);
    let key = json!({ "paths": ["/pk"], "kind": "Hash", "version": 2 });
    let create = server.post("/dbs/db/colls").header("x-ms-offer-throughput", "30000");
    create.json(json!({ "id": "items", "partitionKey": key })).send().await.expect(201);
    for number in 0..54 {
        let city = ["A", "B", "C"][number % 3];
        let mut item = json!({ "id": format!("i{number}"), "n": number, "place": { "city": city } });
        item["pk"] = if number < 27 { json!("one") } else { json!(format!("k{number}")) };
        match number % 9 {
            7 => item["team"] = Value::Null,
            8 => {}
            team => item["team"] = json!(team),
        }
        server.create(item).await;
    }
    server
}

fn teams(rows: &[Value]) -> Vec<Value> {
    rows.iter().map(|row| row.get("team").cloned().unwrap_or(json!("none"))).collect()
}

fn ascending() -> Vec<Value> {
    [vec![json!("none"), Value::Null], (0..7).map(Value::from).collect()].concat()
}

#[tokio::test]
async fn groups_come_in_order_in_a_partition_and_merged_by_the_server() {
    let server = filled().await;
    let text = "SELECT c.team, COUNT(1) AS many, SUM(c.n) AS total FROM c GROUP BY c.team ORDER BY c.team";
    for size in ["1", "2", "100"] {
        let in_key = |text: &'static str| {
            let server = &server;
            move || query(server, text).key(r#"["one"]"#).header("x-ms-max-item-count", size)
        };
        let (pages, _) = drain(in_key(text)).await;
        let groups = pages.concat();
        assert_eq!(teams(&groups), ascending(), "pages of {size}");
        assert!(groups.iter().all(|row| row["many"] == 3));
        assert!(pages.iter().all(|page| page.len() <= size.parse().expect("a number")));

        let merged = |text: &'static str| {
            let server = &server;
            let fans = "x-shardlake-fan-out";
            move || query(server, text).header(fans, "true").header("x-ms-max-item-count", size)
        };
        let (pages, _) = drain(merged(text)).await;
        let groups = pages.concat();
        assert_eq!(teams(&groups), ascending(), "pages of {size}");
        let total: i64 = groups.iter().map(|row| row["total"].as_i64().expect("a sum")).sum();
        assert_eq!(total, (0..54).sum::<i64>());

        let text = "SELECT TOP 4 c.team FROM c GROUP BY c.team ORDER BY c.team DESC";
        let expected: Vec<Value> = (3..7).rev().map(Value::from).collect();
        assert_eq!(teams(&drain(in_key(text)).await.0.concat()), expected);
        assert_eq!(teams(&drain(merged(text)).await.0.concat()), expected);

        let text = "SELECT c.team, c.place.city FROM c GROUP BY c.team, c.place ORDER BY c.place.city DESC, c.team OFFSET 2 LIMIT 3";
        // Numbers that are alike modulo 9 are alike modulo 3: each team has one city.
        let expected = [
            json!({"team": 5, "city": "C"}),
            json!({"team": null, "city": "B"}),
            json!({"team": 1, "city": "B"}),
        ];
        assert_eq!(drain(in_key(text)).await.0.concat(), expected);
        assert_eq!(drain(merged(text)).await.0.concat(), expected);
    }
}

#[tokio::test]
async fn plans_of_ordered_groups_are_the_services() {
    let server = filled().await;
    let plan = |text: &str| {
        let call = server.post(ITEMS).header("x-ms-cosmos-is-query-plan-request", "True");
        let features = "Aggregate,GroupBy,NonValueAggregate,OrderBy,MultipleOrderBy,OffsetAndLimit,Distinct";
        let call = call.header("x-ms-cosmos-supported-query-features", features);
        let call = call.json(json!({ "query": text }));
        async move { call.send().await.expect(200).json()["queryInfo"].clone() }
    };
    let aggregated = plan("SELECT c.type, COUNT(1) AS n FROM c GROUP BY c.type ORDER BY c.type").await;
    assert_eq!(aggregated["orderBy"], json!([]));
    assert_eq!(
        aggregated["rewrittenQuery"],
        "SELECT [{\"item\": c.type}] AS groupByItems, {\"type\": c.type, \"n\": {\"item\": COUNT(1)}} AS payload\nFROM c\nGROUP BY c.type\nORDER BY c.type"
    );
    let bare = plan("SELECT c.a FROM c WHERE c.b = 1 GROUP BY c.a ORDER BY c.a DESC OFFSET 1 LIMIT 2").await;
    assert_eq!((&bare["orderBy"], &bare["orderByExpressions"]), (&json!(["Descending"]), &json!(["c.a"])));
    assert_eq!((&bare["offset"], &bare["limit"]), (&json!(1), &json!(2)));
    assert_eq!((&bare["groupByExpressions"], &bare["groupByAliases"]), (&json!(["c.a"]), &json!(["a"])));
    assert_eq!(
        bare["rewrittenQuery"],
        "SELECT c._rid, [{\"item\": c.a}] AS orderByItems, {\"groupByItems\": [{\"item\": c.a}], \"payload\": {\"a\": c.a}} AS payload\nFROM c\nWHERE ((c.b = 1) AND ({documentdb-formattableorderbyquery-filter}))\nGROUP BY c.a\nORDER BY c.a DESC"
    );
}

/// A client merges the rows of all ranges by `orderByItems`, and takes the groups from the payloads in the order in which they come.
#[tokio::test]
async fn a_client_that_merges_by_the_plan_gets_groups_in_order() {
    let server = filled().await;
    let text = "SELECT c._rid, [{\"item\": c.team}] AS orderByItems, {\"groupByItems\": [{\"item\": c.team}], \"payload\": {\"team\": c.team}} AS payload\nFROM c\nWHERE ((c.n >= 0) AND (true))\nGROUP BY c.team\nORDER BY c.team";
    let ranges = server.get("/dbs/db/colls/items/pkranges").send().await.expect(200).json();
    let mut all = Vec::new();
    for range in ranges["PartitionKeyRanges"].as_array().expect("an array") {
        let id = range["id"].as_str().expect("text");
        for size in ["1", "100"] {
            let call = || query(&server, text).header("x-ms-documentdb-partitionkeyrangeid", id);
            let (pages, _) = drain(|| call().header("x-ms-max-item-count", size)).await;
            let found = pages.concat();
            let order: Vec<usize> = teams_of_payloads(&found)
                .iter()
                .map(|team| ascending().iter().position(|other| other == team).expect("a team"))
                .collect();
            assert!(order.is_sorted_by(|left, right| left < right), "{order:?}");
            let shows = |row: &Value| row["_rid"].is_string() && row["orderByItems"].is_array();
            assert!(found.iter().all(shows), "{found:?}");
            all.extend(teams_of_payloads(&found));
        }
    }
    assert!(ascending().iter().all(|team| all.contains(team)));
    assert!(all.len() > 2 * ascending().len(), "groups lie in several ranges");
}

fn teams_of_payloads(rows: &[Value]) -> Vec<Value> {
    let payloads: Vec<Value> = rows.iter().map(|row| row["payload"]["payload"].clone()).collect();
    teams(&payloads)
}

#[tokio::test]
async fn orders_that_groups_do_not_have_are_refused() {
    let server = filled().await;
    for (text, words) in [
        ("SELECT c.team, COUNT(1) AS n FROM c GROUP BY c.team ORDER BY n DESC", "SC2001"),
        ("SELECT c.team, COUNT(1) AS n FROM c GROUP BY c.team ORDER BY COUNT(1)", "2206"),
        ("SELECT LOWER(c.team) AS t FROM c GROUP BY LOWER(c.team) ORDER BY LOWER(c.team)", "2206"),
        ("SELECT c.team FROM c GROUP BY c.team ORDER BY c.n", "SC2103"),
        (
            "SELECT t FROM c JOIN t IN c.tags GROUP BY t ORDER BY t",
            "Order-by over correlated collections is not supported.",
        ),
    ] {
        query(&server, text).key(r#"["one"]"#).send().await.refused(400, 0, words);
    }
    // Without a key, in a range.
    let range = query(&server, "SELECT c.team FROM c GROUP BY c.team ORDER BY c.team");
    let range = range.header("x-ms-documentdb-partitionkeyrangeid", "0").send().await.expect(200);
    assert!(!rows(&range).is_empty());
}
