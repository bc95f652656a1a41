//! User-defined functions in queries, as clients see them: in pages, in plans, in procedures, and where they are refused.

use serde_json::{Value, json};

use crate::harness::{Answer, Call, ITEMS, Server};
use crate::queries::{drain, query, rows, server_with_items};

const CONTAINER: &str = "/dbs/db/colls/items";

async fn define(server: &Server, id: &str, body: &str) {
    let definition = json!({ "id": id, "body": body });
    let call = server.post(format!("{CONTAINER}/udfs")).header("x-ms-documentdb-is-upsert", "True");
    let answer = call.json(definition).send().await;
    assert!(matches!(answer.status, 200 | 201), "{answer:?}");
}

async fn with_functions(items: usize) -> Server {
    let server = server_with_items(items).await;
    define(&server, "tax", "function tax(n) { if (n === undefined) throw 'no input'; return n * 2 }").await;
    define(&server, "first", "function (item) { return { id: item.id, rid: item._rid.length > 0 } }").await;
    server
}

fn sorted(pages: Vec<Vec<Value>>) -> Vec<i64> {
    let mut all: Vec<i64> = pages.concat().iter().map(|row| row.as_i64().expect("a number")).collect();
    all.sort_unstable();
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn functions_answer_in_queries_and_count_as_they_are_now() {
    let server = with_functions(20).await;
    let one = query(&server, "SELECT VALUE udf.first(c) FROM c").key(r#"["k3"]"#).send().await.expect(200);
    assert_eq!(rows(&one), [json!({ "id": "i3", "rid": true })]);
    let parameters = json!([{ "name": "@least", "value": 30 }]);
    let text = "SELECT VALUE udf.tax(c.n) FROM c WHERE udf.tax(c.n) >= @least";
    for size in ["1", "3", "100"] {
        let call = || {
            let call = query(&server, text).header("x-ms-max-item-count", size);
            call.json(json!({ "query": text, "parameters": parameters }))
        };
        assert_eq!(sorted(drain(call).await.0), [30, 32, 34, 36, 38], "pages of {size}");
    }
    define(&server, "tax", "n => n + 1").await;
    assert_eq!(
        sorted(drain(|| query(&server, "SELECT VALUE udf.tax(c.n) FROM c WHERE c.n < 3")).await.0),
        [1, 2, 3]
    );
    server.delete(format!("{CONTAINER}/udfs/tax")).send().await.expect(204);
    query(&server, text).send().await.refused(400, 0, "the user-defined function 'tax' does not exist");
}

#[tokio::test(flavor = "multi_thread")]
async fn plans_keep_the_calls_for_the_partitions() {
    let server = with_functions(40).await;
    let text = "SELECT TOP 5 udf.tax(c.n) AS t FROM c WHERE udf.tax(c.n) > 9 ORDER BY c.n";
    let plan = server.post(ITEMS).header("x-ms-cosmos-is-query-plan-request", "True");
    let plan = plan.json(json!({ "query": text })).send().await.expect(200).json();
    let rewritten = plan["queryInfo"]["rewrittenQuery"].as_str().expect("text");
    assert!(rewritten.contains("udf.tax(c.n)"), "{rewritten}");
    let sent = rewritten.replace("{documentdb-formattableorderbyquery-filter}", "true");
    let mut found = Vec::new();
    for range in
        server.get(format!("{CONTAINER}/pkranges")).send().await.expect(200).json()["PartitionKeyRanges"]
            .as_array()
            .expect("an array")
    {
        let id = range["id"].as_str().expect("text");
        let answer = query(&server, &sent).header("x-ms-documentdb-partitionkeyrangeid", id).send().await;
        found.extend(rows(&answer.expect(200)).into_iter().map(|row| row["payload"]["t"].as_i64()));
    }
    found.sort_unstable();
    assert_eq!(found[..5], [10, 12, 14, 16, 18].map(Some));
    let fanned = query(&server, text).header("x-shardlake-fan-out", "true").send().await.expect(200);
    assert_eq!(rows(&fanned), [10, 12, 14, 16, 18].map(|t| json!({ "t": t })));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_function_that_throws_fails_the_query_with_its_words() {
    let server = with_functions(3).await;
    let thrown = query(&server, "SELECT VALUE udf.tax(c.none) FROM c").key(r#"["k1"]"#);
    thrown.send().await.refused(400, 0, "no input");
    define(&server, "number", "function (n) { throw new Error(n, 'x of ' + n); }").await;
    for (number, substatus) in [(32766, 32766), (404, 404), (1004, 0), (-1, 0)] {
        let words = format!("Exception = Error: x of {number}");
        let text = format!("SELECT VALUE udf.number({number}) FROM c");
        query(&server, &text).key(r#"["k1"]"#).send().await.refused(400, substatus, &words);
        // Over all partitions, and merged by the server.
        fanned_out(&server, &text).await.refused(400, substatus, &words);
    }
    let guarded = query(&server, "SELECT VALUE udf.tax(c.none) FROM c WHERE IS_DEFINED(c.none)");
    assert!(rows(&guarded.key(r#"["k1"]"#).send().await.expect(200)).is_empty());
}

/// The last page of a query over all partitions, which the server merges. Partitions without rows have empty pages before it.
async fn fanned_out(server: &Server, text: &str) -> Answer {
    let mut token = String::new();
    loop {
        let page =
            query(server, text).header("x-shardlake-fan-out", "true").header("x-ms-continuation", &token);
        let page = page.send().await;
        match page.header("x-ms-continuation") {
            Some(next) if page.status == 200 => token = next.to_owned(),
            _ => return page,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn where_functions_cannot_be_called_they_are_refused_by_name() {
    let server = with_functions(3).await;
    let calls = |count: usize| {
        let calls: Vec<String> = (0..count).map(|place| format!("udf.tax(c.n + {place})")).collect();
        format!("SELECT VALUE [{}] FROM c", calls.join(","))
    };
    let at_one_key = |text: &str| query(&server, text).key(r#"["k1"]"#);
    at_one_key(&calls(10)).send().await.expect(200);
    at_one_key(&calls(11)).send().await.refused(400, 0, "more than 10 places");
    at_one_key("SELECT VALUE udf.Tax(c.n) FROM c").send().await.refused(400, 0, "'Tax'");
    at_one_key("SELECT * FROM c ORDER BY udf.tax(c.n)").send().await.refused(400, 0, "\"code\":2206");
    let patch = json!({ "condition": "from c where udf.tax(c.n) = 2", "operations": [{ "op": "set", "path": "/x", "value": 1 }] });
    let patch = server.item("PATCH", "i1", r#"["k1"]"#).json(patch).send().await;
    assert!(matches!(patch.status, 400 | 501), "{patch:?}");
    assert!(patch.message().contains("the user-defined function 'tax'"), "{patch:?}");
    let feed: Call<'_> = server
        .post("/dbs")
        .header("content-type", "application/query+json")
        .header("x-ms-documentdb-isquery", "True");
    let answer = feed.json(json!({ "query": "SELECT * FROM d WHERE udf.tax(1) = 2" })).send().await;
    assert!(matches!(answer.status, 400 | 501), "{answer:?}");
    assert!(answer.message().contains("the user-defined function 'tax'"), "{answer:?}");
    let definition = json!({
        "id": "computed",
        "partitionKey": { "paths": ["/pk"], "kind": "Hash", "version": 2 },
        "computedProperties": [{ "name": "t", "query": "SELECT VALUE udf.tax(c.n) FROM c" }]
    });
    server.post("/dbs/db/colls").json(definition).send().await.refused(400, 0, "a user-defined function");
}

#[tokio::test(flavor = "multi_thread")]
async fn queries_of_procedures_call_functions_too() {
    let server = with_functions(3).await;
    let body = "function () {
        var text = 'SELECT VALUE udf.tax(c.n) FROM c WHERE udf.tax(c.n) > 1';
        __.queryDocuments(__.getSelfLink(), text, {}, function (error, rows) {
            if (error) throw error;
            getContext().getResponse().setBody(rows);
        });
    }";
    let definition = json!({ "id": "asks", "body": body });
    server.post(format!("{CONTAINER}/sprocs")).json(definition).send().await.expect(201);
    let run = server.post(format!("{CONTAINER}/sprocs/asks")).key(r#"["k2"]"#).json(json!([]));
    assert_eq!(run.send().await.expect(200).json(), json!([4]));
}
