//! Queries over items: scopes, pages, tokens, plans, information besides the rows, and refusals.

use percent_encoding::percent_decode_str;
use serde_json::{Value, json};
use shardlake_storage::{Shard, ShardOptions};

use crate::harness::{Answer, Call, ITEMS, Server};

const RANGES: &str = "/dbs/db/colls/items/pkranges";

/// Five physical partitions and `count` items, each its own logical partition.
pub async fn server_with_items(count: usize) -> Server {
    let server = Server::start().await;
    fill(&server, count).await;
    server
}

async fn fill(server: &Server, count: usize) {
    server.post("/dbs").json(json!({ "id": "db" })).send().await.expect(201);
    let key = json!({ "paths": ["/pk"], "kind": "Hash", "version": 2 });
    let container = json!({ "id": "items", "partitionKey": key });
    let create = server.post("/dbs/db/colls").header("x-ms-offer-throughput", "30000");
    create.json(container).send().await.expect(201);
    for number in 0..count {
        let item = json!({ "id": format!("i{number}"), "pk": format!("k{number}"), "n": number, "team": number % 3 });
        server.create(item).await;
    }
}

/// A query as SDKs send it, across partitions if it names none.
pub fn query<'s>(server: &'s Server, text: &str) -> Call<'s> {
    query_with(server, text, json!([]))
}

fn query_with<'s>(server: &'s Server, text: &str, parameters: Value) -> Call<'s> {
    server
        .post(ITEMS)
        .header("content-type", "application/query+json")
        .header("x-ms-documentdb-isquery", "True")
        .header("x-ms-documentdb-query-enablecrosspartition", "True")
        .json(json!({ "query": text, "parameters": parameters }))
}

pub fn rows(answer: &Answer) -> Vec<Value> {
    let page = answer.json();
    let rows = page["Documents"].as_array().expect("an array").clone();
    assert_eq!(page["_count"], rows.len());
    assert_eq!(answer.header("x-ms-item-count"), Some(rows.len().to_string().as_str()));
    rows
}

/// All pages of a query, with the sum of their charges.
pub async fn drain<'s>(call: impl Fn() -> Call<'s>) -> (Vec<Vec<Value>>, f64) {
    let (mut pages, mut charge, mut continuation) = (Vec::new(), 0.0, None::<String>);
    loop {
        let mut call = call();
        if let Some(token) = &continuation {
            call = call.header("x-ms-continuation", token);
        }
        let answer = call.send().await.expect(200);
        charge += answer.charge();
        pages.push(rows(&answer));
        continuation = answer.header("x-ms-continuation").map(str::to_owned);
        let Some(token) = &continuation else { return (pages, charge) };
        assert!(token.len() < 1024, "{} bytes", token.len());
        assert!(pages.len() < 1000, "the query does not end");
    }
}

fn numbers(pages: &[Vec<Value>]) -> Vec<i64> {
    pages.iter().flatten().map(|row| row.as_i64().expect("a number")).collect()
}

#[tokio::test]
async fn a_logical_partition_answers_any_query_whole() {
    let server = server_with_items(0).await;
    for number in 0..30 {
        server
            .create(json!({ "id": format!("i{number}"), "pk": "k", "n": number, "team": number % 3 }))
            .await;
    }
    let text = |text: &'static str| {
        let call = query(&server, text).key(r#"["k"]"#);
        async move { rows(&call.send().await.expect(200)) }
    };
    assert_eq!(text("SELECT VALUE c.n FROM c WHERE c.n IN (3, 4) AND c.team = 1").await, [json!(4)]);
    assert_eq!(text("SELECT TOP 2 VALUE c.n FROM c ORDER BY c.n DESC").await, [json!(29), json!(28)]);
    assert_eq!(text("SELECT VALUE c.n FROM c ORDER BY c.n OFFSET 3 LIMIT 1").await, [json!(3)]);
    assert_eq!(
        text("SELECT COUNT(1) AS many, MAX(c.n) AS most FROM c").await,
        [json!({"many": 30, "most": 29})]
    );
    let teams = text("SELECT c.team, SUM(c.n) AS total FROM c GROUP BY c.team").await;
    assert_eq!(teams.len(), 3);
    assert_eq!(text("SELECT DISTINCT VALUE c.team FROM c").await.len(), 3);
    // The key may come in the text; then the answer is the same.
    let named = query(&server, "SELECT TOP 2 VALUE c.n FROM c WHERE c.pk = 'k' ORDER BY c.n DESC");
    assert_eq!(rows(&named.send().await.expect(200)), [json!(29), json!(28)]);
    let foreign = query(&server, "SELECT VALUE c.n FROM c WHERE c.pk = 'other'").key(r#"["k"]"#);
    assert_eq!(rows(&foreign.send().await.expect(200)), [] as [Value; 0]);
}

#[tokio::test]
async fn queries_come_as_json_with_parameters_or_as_text() {
    let server = server_with_items(10).await;
    let parameters = json!([{ "name": "@n", "value": 7 }, { "name": "@none" }]);
    let text = "SELECT VALUE c.id FROM c WHERE c.n = @n OR c.n = @none";
    let (pages, _) = drain(|| query_with(&server, text, parameters.clone())).await;
    assert_eq!(pages.concat(), [json!("i7")]);
    let plain = server.post(ITEMS).header("content-type", "application/sql").key(r#"["k3"]"#);
    let plain = plain.body("SELECT VALUE c.id FROM c").send().await.expect(200);
    assert_eq!(rows(&plain), [json!("i3")]);
    let post = |body: &str| server.post(ITEMS).header("content-type", "application/query+json").body(body);
    for (body, words) in [
        ("", "not valid"),
        ("[]", "not valid"),
        ("{\"query\": 5}", "not valid"),
        ("{\"parameters\": []}", "missing field `query`"),
        ("{\"query\": \"SELECT 1\", \"parameters\": [{\"value\": 1}]}", "missing field `name`"),
        ("\"\u{fffd}", "not valid"),
    ] {
        post(body).send().await.refused(400, 0, words);
    }
    // Before mistakes in the text, as in the service's planner.
    for name in ["@a$", "@1a", "@@a", "@á-b"] {
        let text = format!("SELECT VALUE c.n FROM c WHERE c.n = {name}");
        let parameters = json!([{ "name": name, "value": 1 }]);
        let words = format!("Specified parameter name '{name}' is invalid");
        query_with(&server, &text, parameters).send().await.refused(400, 0, &words);
    }
    let many: Vec<Value> =
        (0..10_001).map(|number| json!({ "name": format!("@p{number}"), "value": 1 })).collect();
    query_with(&server, "SELECT 1", json!(many)).send().await.refused(400, 0, "10001 parameters");
    let long = format!("SELECT VALUE 1 FROM c WHERE c.a = '{}'", "x".repeat(512 * 1024));
    query(&server, &long).send().await.refused(400, 0, "exceeded the maximum limit of 524288 characters");
}

#[tokio::test]
async fn plain_queries_drain_the_partitions_in_order() {
    let server = server_with_items(40).await;
    for size in ["1", "7", "100", "-1"] {
        let text = "SELECT VALUE c.n FROM c WHERE c.n >= 5";
        let (pages, charge) = drain(|| query(&server, text).header("x-ms-max-item-count", size)).await;
        let mut seen = numbers(&pages);
        seen.sort_unstable();
        assert_eq!(seen, (5..40).collect::<Vec<_>>(), "pages of {size}");
        // 2.8 for each page, 35 rows at 0.13, and the reads for them.
        let charge = charge - 2.8 * pages.len() as f64;
        assert!((4.0..11.0).contains(&charge), "{charge} RU in pages of {size}");
    }
    let (pages, _) = drain(|| query(&server, "SELECT VALUE c.n FROM c")).await;
    assert_eq!(pages.len(), 5, "a page is of one partition");
}

#[tokio::test]
async fn several_keys_go_to_their_partitions_only() {
    let server = server_with_items(40).await;
    let call = || query(&server, "SELECT VALUE c.n FROM c WHERE c.pk IN ('k1', 'k2') AND c.n > 0");
    let (pages, _) = drain(call).await;
    assert!(pages.len() <= 2, "{pages:?}");
    let mut seen = numbers(&pages);
    seen.sort_unstable();
    assert_eq!(seen, [1, 2]);
    let never = query(&server, "SELECT VALUE COUNT(1) FROM c WHERE c.pk = 'a' AND c.pk = 'b'");
    assert_eq!(rows(&never.send().await.expect(200)), [json!(0)]);
    let no_items = query(&server, "SELECT VALUE 1 + 1").send().await.expect(200);
    assert_eq!((rows(&no_items), no_items.header("x-ms-continuation")), (vec![json!(2)], None));
}

#[tokio::test]
async fn across_partitions_clients_must_allow_it_and_merge_themselves() {
    let server = server_with_items(20).await;
    let forbidden = |text: &str| {
        let call = server.post(ITEMS).header("x-ms-documentdb-isquery", "True");
        call.json(json!({ "query": text }))
    };
    let words = "Cross partition query is required but disabled. Please set x-ms-documentdb-query-enablecrosspartition to true";
    forbidden("SELECT * FROM c").send().await.refused(400, 0, words);
    assert_eq!(rows(&forbidden("SELECT * FROM c WHERE c.pk = 'k1'").send().await.expect(200)).len(), 1);
    for text in [
        "SELECT * FROM c ORDER BY c.n",
        "SELECT TOP 3 * FROM c",
        "SELECT * FROM c OFFSET 1 LIMIT 2",
        "SELECT DISTINCT VALUE c.team FROM c",
        "SELECT VALUE COUNT(1) FROM c",
        "SELECT c.team, COUNT(1) AS many FROM c GROUP BY c.team",
        "SELECT COUNT(1) AS many FROM c WHERE c.pk = 'k1'",
    ] {
        let answer = query(&server, text).send().await;
        let answer = answer.refused(400, 1004, "Cross partition query with TOP/ORDER BY/DISTINCT");
        let plan: Value =
            serde_json::from_str(answer.json()["additionalErrorInfo"].as_str().expect("text")).expect("JSON");
        assert_eq!(plan, plan_of(&server, text).await, "{text}");
    }
}

async fn plan_of(server: &Server, text: &str) -> Value {
    server
        .post(ITEMS)
        .header("x-ms-cosmos-is-query-plan-request", "True")
        .header("content-type", "application/json")
        .json(json!({ "query": text }))
        .send()
        .await
        .expect(200)
        .json()
}

#[tokio::test]
async fn our_own_merge_answers_on_request() {
    let server = server_with_items(40).await;
    let fanned = |text: &'static str, size: &'static str| {
        let server = &server;
        move || query(server, text).header("x-shardlake-fan-out", "true").header("x-ms-max-item-count", size)
    };
    for size in ["3", "100"] {
        let (pages, _) = drain(fanned("SELECT VALUE c.n FROM c ORDER BY c.n DESC", size)).await;
        assert_eq!(numbers(&pages), (0..40).rev().collect::<Vec<_>>(), "pages of {size}");
        let (pages, _) = drain(fanned("SELECT VALUE c.n FROM c ORDER BY c.n OFFSET 5 LIMIT 10", size)).await;
        assert_eq!(numbers(&pages), (5..15).collect::<Vec<_>>(), "pages of {size}");
        let (pages, _) = drain(fanned("SELECT VALUE SUM(c.n) FROM c", size)).await;
        assert_eq!(numbers(&pages), [780]);
        let (pages, _) = drain(fanned("SELECT DISTINCT VALUE c.team FROM c", size)).await;
        let mut teams = numbers(&pages);
        teams.sort_unstable();
        assert_eq!(teams, [0, 1, 2]);
        let (pages, _) = drain(fanned("SELECT c.team, COUNT(1) AS many FROM c GROUP BY c.team", size)).await;
        let many: i64 = pages.concat().iter().map(|row| row["many"].as_i64().expect("a count")).sum();
        assert_eq!((pages.concat().len(), many), (3, 40));
    }
}

#[tokio::test]
async fn rewritten_queries_run_in_a_range_and_in_a_part_of_it() {
    let server = server_with_items(40).await;
    let ranges = server.get(RANGES).send().await.expect(200).json();
    let ranges = ranges["PartitionKeyRanges"].as_array().expect("an array").clone();
    let order = "SELECT c._rid, [{\"item\": c.n}] AS orderByItems, c AS payload\nFROM c\nWHERE ((c.n >= 0) AND (true))\nORDER BY c.n";
    let sum = "SELECT VALUE [{\"item\": SUM(c.n)}]\nFROM c";
    let group = "SELECT [{\"item\": c.team}] AS groupByItems, {\"team\": c.team, \"many\": {\"item\": COUNT(1)}} AS payload\nFROM c\nGROUP BY c.team";
    let (mut seen, mut total, mut grouped) = (Vec::new(), 0, 0);
    for range in &ranges {
        let id = range["id"].as_str().expect("text");
        let max = range["maxExclusive"].as_str().expect("text");
        let in_range = |text| query(&server, text).header("x-ms-documentdb-partitionkeyrangeid", id);
        // The upper half of the range and the lower one, each with its bounds in headers.
        let min = range["minInclusive"].as_str().expect("text");
        let middle = format!("{:02X}", u8::from_str_radix(&max[..2], 16).expect("hexadecimal") - 3);
        let half = |min: &str, max: &str| {
            let call = in_range(order).header("x-ms-read-key-type", "EffectivePartitionKeyRange");
            call.header("x-ms-start-epk", min).header("x-ms-end-epk", max).header("x-ms-max-item-count", "2")
        };
        let (whole, _) = drain(|| in_range(order).header("x-ms-max-item-count", "3")).await;
        let keys: Vec<i64> = whole
            .concat()
            .iter()
            .map(|row| row["orderByItems"][0]["item"].as_i64().expect("a number"))
            .collect();
        assert!(keys.is_sorted() && whole.concat().iter().all(|row| row["_rid"] == row["payload"]["_rid"]));
        let (low, _) = drain(|| half(min, &middle)).await;
        let (high, _) = drain(|| half(&middle, max)).await;
        assert_eq!(low.concat().len() + high.concat().len(), keys.len());
        seen.extend(keys);
        let sum = rows(&in_range(sum).send().await.expect(200));
        total += sum[0][0]["item"].as_i64().expect("a number");
        let groups = rows(&in_range(group).send().await.expect(200));
        grouped +=
            groups.iter().map(|row| row["payload"]["many"]["item"].as_i64().expect("a count")).sum::<i64>();
    }
    seen.sort_unstable();
    assert_eq!(seen, (0..40).collect::<Vec<_>>());
    assert_eq!((total, grouped), (780, 40));
}

#[tokio::test]
async fn plans_are_the_services() {
    let server = server_with_items(3).await;
    let plan = plan_of(&server, "SELECT TOP 10 * FROM Root r ORDER BY r.blah").await;
    assert_eq!(
        plan,
        json!({
            "partitionedQueryExecutionInfoVersion": 2,
            "queryInfo": {
                "distinctType": "None", "top": 10, "offset": null, "limit": null,
                "orderBy": ["Ascending"], "orderByExpressions": ["r.blah"],
                "groupByExpressions": [], "groupByAliases": [], "aggregates": [], "groupByAliasToAggregateType": {},
                "rewrittenQuery": "SELECT TOP 10 r._rid, [{\"item\": r.blah}] AS orderByItems, r AS payload\nFROM Root AS r\nWHERE ({documentdb-formattableorderbyquery-filter})\nORDER BY r.blah",
                "hasSelectValue": false, "dCountInfo": null, "hasNonStreamingOrderBy": false,
            },
            "queryRanges": [{ "min": "", "max": "FF", "isMinInclusive": true, "isMaxInclusive": false }],
        })
    );
    // The keys of a condition, as points in order; 'k1' hashes as in any other implementation.
    let points = plan_of(&server, "SELECT * FROM c WHERE c.pk IN ('b', 'a', 'b')").await;
    let points = points["queryRanges"].as_array().expect("an array").clone();
    assert_eq!(points.len(), 2);
    assert!(points[0]["min"].as_str() < points[1]["min"].as_str());
    assert!(points.iter().all(|point| point["min"] == point["max"] && point["isMaxInclusive"] == true));
    let never = plan_of(&server, "SELECT * FROM c WHERE false").await;
    let nowhere = json!([{ "min": "", "max": "", "isMinInclusive": true, "isMaxInclusive": true }]);
    assert_eq!(never["queryRanges"], nowhere);

    let asks = |text: &str, features: &str| {
        let call = server.post(ITEMS).header("x-ms-cosmos-is-query-plan-request", "True");
        call.header("x-ms-cosmos-supported-query-features", features).json(json!({ "query": text }))
    };
    let group = "SELECT c.team, COUNT(1) AS many FROM c GROUP BY c.team";
    asks(group, "Aggregate, GroupBy, NonValueAggregate").send().await.expect(200);
    let refused = asks(group, "Aggregate,Distinct,OrderBy").send().await;
    refused.refused(400, 0, "Query contained GroupBy, which the calling client does not support.");
    let broken = asks("SELECT BADFUNC(r.age) FROM Root r", "OrderBy").send().await;
    broken.refused(
        400,
        0,
        r#"{"errors":[{"severity":"Error","location":{"start":7,"end":14},"code":"SC2005","message":"'BADFUNC' is not a recognized built-in function name."}]}"#,
    );
}

#[tokio::test]
async fn headers_tell_what_a_query_did_when_asked() {
    let server = server_with_items(10).await;
    let text = "SELECT * FROM c WHERE c.n = 3 AND c.team > 5 AND CONTAINS(c.id, 'x')";
    let silent = query(&server, text).key(r#"["k3"]"#).send().await.expect(200);
    let names = [
        "x-ms-documentdb-query-metrics",
        "x-ms-cosmos-index-utilization",
        "x-ms-cosmos-query-advice",
        "x-shardlake-explain",
    ];
    assert!(names.iter().all(|name| silent.header(name).is_none()));
    let told = query(&server, text)
        .key(r#"["k3"]"#)
        .header("x-ms-documentdb-populatequerymetrics", "true")
        .header("x-ms-cosmos-populateindexmetrics", "true")
        .header("x-ms-cosmos-populatequeryadvice", "true")
        .header("x-shardlake-explain", "true")
        .send()
        .await
        .expect(200);
    assert_eq!(told.json()["Documents"], silent.json()["Documents"]);
    let metrics = told.header(names[0]).expect("metrics").to_owned();
    let keys: Vec<&str> = metrics.split(';').map(|part| part.split_once('=').expect("a pair").0).collect();
    assert_eq!(
        keys.join(" "),
        "totalExecutionTimeInMs queryCompileTimeInMs queryLogicalPlanBuildTimeInMs VMExecutionTimeInMs retrievedDocumentCount retrievedDocumentSize outputDocumentCount outputDocumentSize writeOutputTimeInMs indexUtilizationRatio"
    );
    use base64::Engine as _;
    let older = base64::engine::general_purpose::STANDARD.decode(told.header(names[1]).expect("utilization"));
    let older: Value = serde_json::from_slice(&older.expect("base64")).expect("JSON");
    let specs = |list: &Value| -> Vec<String> {
        list.as_array()
            .expect("a list")
            .iter()
            .map(|one| one["IndexSpec"].as_str().expect("text").to_owned())
            .collect()
    };
    let utilized = specs(&older["UtilizedSingleIndexes"]);
    assert!(
        ["/pk/?", "/n/?", "/team/?", "/id/?"].iter().all(|path| utilized.contains(&(*path).to_owned())),
        "{older}"
    );
    assert!(older["PotentialSingleIndexes"].is_array() && older["UtilizedCompositeIndexes"].is_array());
    let advice = percent_decode_str(told.header(names[2]).expect("advice")).decode_utf8().expect("text");
    let advice: Value = serde_json::from_str(&advice).expect("JSON");
    assert_eq!(advice, json!([{ "Id": "QA1002", "Params": [] }]));
    let words = percent_decode_str(told.header(names[3]).expect("words")).decode_utf8().expect("text");
    assert!(words.contains("/n seek [3]") && words.contains("range "), "{words}");

    let newer =
        query(&server, text).header("x-ms-cosmos-populateindexmetrics-v2", "true").send().await.expect(200);
    let newer = percent_decode_str(newer.header(names[1]).expect("utilization")).decode_utf8().expect("text");
    let newer: Value = serde_json::from_str(&newer).expect("JSON");
    assert!(specs(&newer["UtilizedIndexes"]["SingleIndexes"]).contains(&"/n/?".to_owned()), "{newer}");
    assert!(newer["PotentialIndexes"]["CompositeIndexes"].is_array());
}

#[tokio::test]
async fn tokens_are_good_for_their_query_and_nothing_else() {
    let server = server_with_items(20).await;
    let with = |text: &str, parameters: Value, token: &str| {
        let call = query_with(&server, text, parameters).header("x-ms-max-item-count", "2");
        call.header("x-ms-continuation", token)
    };
    let (text, one) = ("SELECT VALUE c.n FROM c WHERE c.n >= @x", json!([{ "name": "@x", "value": 1 }]));
    let first = with(text, one.clone(), "").send().await.expect(200);
    let token = first.header("x-ms-continuation").expect("more").to_owned();
    let again = with(text, one.clone(), &token).send().await.expect(200);
    assert!(rows(&again).iter().all(|row| !rows(&first).contains(row)));
    let other = json!([{ "name": "@x", "value": 2 }]);
    with(text, other, &token).send().await.refused(400, 0, "Invalid Continuation Token");
    with("SELECT VALUE c.id FROM c", json!([]), &token).send().await.refused(
        400,
        0,
        "Invalid Continuation Token",
    );
    for at in [0, 7, token.len() / 2, token.len() - 1] {
        let mut broken = token.clone().into_bytes();
        broken[at] = if broken[at] == b'x' { b'y' } else { b'x' };
        let broken = String::from_utf8(broken).expect("ASCII");
        with(text, one.clone(), &broken).send().await.refused(400, 0, "Invalid Continuation Token");
    }
    for broken in ["nonsense", "AAAA", &token[1..], &format!("{token}{token}")] {
        with(text, one.clone(), broken).send().await.refused(400, 0, "Invalid Continuation Token");
    }
    // A token of the reference is not valid here, and the query begins anew.
    let foreign = "-RID:~a0NPAOszCpOChB4AAAAAAA==#RT:1#TRC:2#ISV:2#IEO:65567#QCF:8";
    assert_eq!(rows(&with(text, one.clone(), foreign).send().await.expect(200)), rows(&first));
    server.delete("/dbs/db/colls/items").send().await.expect(204);
    fill_again(&server).await;
    with(text, one, &token).send().await.refused(400, 0, "Invalid Continuation Token");
}

/// The JavaScript SDK shows a token of its own with a query that it has no plan for yet.
#[tokio::test]
async fn a_query_that_needs_a_plan_is_refused_with_it_whatever_its_token() {
    let server = Server::start().await;
    let own = r#"{"rid":"abc=","rangeMappings":[{"queryRange":{"min":"","max":"FF"}}]}"#;
    server.post("/dbs").json(json!({ "id": "db" })).send().await.expect(201);
    fill_again(&server).await;
    for text in ["SELECT * FROM c ORDER BY c.n", "SELECT TOP 3 * FROM c", "SELECT DISTINCT VALUE c.n FROM c"]
    {
        for token in ["", own, "nonsense"] {
            let refused = query(&server, text).header("x-ms-continuation", token).send().await;
            assert_eq!(refused.header("x-ms-substatus"), Some("1004"), "{text} with {token}");
            assert!(refused.expect(400).json()["additionalErrorInfo"].is_string(), "{text} with {token}");
        }
    }
    // A query that needs none has its token judged.
    let plain = query(&server, "SELECT * FROM c").header("x-ms-continuation", own);
    plain.send().await.refused(400, 0, "Invalid Continuation Token");
}

async fn fill_again(server: &Server) {
    let key = json!({ "paths": ["/pk"], "kind": "Hash", "version": 2 });
    server.post("/dbs/db/colls").json(json!({ "id": "items", "partitionKey": key })).send().await.expect(201);
}

#[tokio::test]
async fn queries_go_on_after_a_restart() {
    let directory = tempfile::tempdir().expect("a directory");
    let open = || Shard::open(ShardOptions::local(directory.path()));
    let server = Server::over(open().await.expect("opens")).await;
    fill(&server, 30).await;
    let texts = [
        "SELECT VALUE c.n FROM c WHERE c.team = 1",
        "SELECT VALUE c.n FROM c ORDER BY c.n DESC",
        "SELECT DISTINCT VALUE c.n FROM c",
    ];
    let mut begun = Vec::new();
    for text in texts {
        let first = page(&server, text, None).send().await.expect(200);
        begun.push((rows(&first), first.header("x-ms-continuation").map(str::to_owned)));
    }
    server.gateway.account().close().await.expect("closed");
    drop(server);
    let server = Server::over(open().await.expect("opens again")).await;
    for (text, (mut seen, mut token)) in texts.into_iter().zip(begun) {
        while let Some(next) = &token {
            let answer = page(&server, text, Some(next)).send().await.expect(200);
            seen.extend(rows(&answer));
            token = answer.header("x-ms-continuation").map(str::to_owned);
        }
        let whole = numbers(&drain(|| query(&server, text).header("x-shardlake-fan-out", "true")).await.0);
        assert_eq!(numbers(&[seen]).len(), whole.len(), "{text}");
    }
}

fn page<'s>(server: &'s Server, text: &str, token: Option<&str>) -> Call<'s> {
    let call = query(server, text).header("x-shardlake-fan-out", "true").header("x-ms-max-item-count", "4");
    match token {
        Some(token) => call.header("x-ms-continuation", token),
        None => call,
    }
}

#[tokio::test]
async fn mistakes_point_at_their_place() {
    let server = server_with_items(1).await;
    for (text, words) in [
        (
            "SELECT * FROM c WHERE c.n = = 1",
            r#""location":{"start":28,"end":29},"code":"SC1001","message":"Syntax error, incorrect syntax near '='.""#,
        ),
        ("SELECT x.a FROM c", r#""location":{"start":7,"end":8},"code":"SC2001""#),
        ("SELECT * FROM c ORDER BY LOWER(c.n)", r#""code":2206"#),
    ] {
        query(&server, text).key(r#"["k0"]"#).send().await.refused(400, 0, words);
    }
    for (text, name) in [
        ("SELECT udf.f(c) FROM c", "user-defined function"),
        ("SELECT * FROM c WHERE FullTextContains(c.id, 'a')", "FullTextContains"),
        ("SELECT TOP 1 * FROM c ORDER BY VectorDistance(c.v, [1])", "VectorDistance"),
    ] {
        let answer = query(&server, text).key(r#"["k0"]"#).send().await;
        assert!(matches!(answer.status, 400 | 501), "{answer:?}");
        assert!(answer.message().to_lowercase().contains(&name.to_lowercase()), "{answer:?}");
    }
}

#[tokio::test]
async fn errors_say_what_the_query_has_cost() {
    let server = server_with_items(10).await;
    let failing = "SELECT VALUE REGEXMATCH(c.pk, c.n >= 0 ? '(' : 'a') FROM c";
    let answer = query(&server, failing).key(r#"["k0"]"#).send().await;
    // The partition, and the item that fails.
    assert_eq!((answer.status, answer.charge()), (400, 2.87), "{answer:?}");
    let mistaken = query(&server, "SELECT VALUE c.n FROM c WHERE").key(r#"["k0"]"#).send().await;
    assert_eq!((mistaken.status, mistaken.charge()), (400, 0.0), "{mistaken:?}");
}
