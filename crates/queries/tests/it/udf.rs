//! User-defined functions in queries, in JavaScript: the same answers as built-in functions, with
//! an index and without, in one partition and in several, in one page and in many. Replaced
//! functions are used at once; failing ones fail the queries that need them.

use crate::support::json_door::JsonDoor;
use std::time::Duration;

use crate::support::queries::shown;
use crate::support::{Fixture, none};
use shardlake_account::{AccountOptions, ContainerHandle, Value};
use shardlake_document::compare;
use shardlake_model::{
    ContainerDefinition, ErrorKind, IndexingPolicy, Limits, PartitionKeyDefinition, ScriptDefinition,
    ScriptKind,
};

/// Each has the semantics of the built-in function with the name in capitals.
const FUNCTIONS: &[(&str, &str)] = &[
    ("abs", "function (x) { return typeof x === 'number' ? Math.abs(x) : undefined }"),
    ("upper", "function (x) { return typeof x === 'string' ? x.toUpperCase() : undefined }"),
    ("is_number", "function (x) { return typeof x === 'number' }"),
    ("is_defined", "function (x) { return x !== undefined }"),
    ("array_length", "function (x) { return Array.isArray(x) ? x.length : undefined }"),
    (
        "concat",
        "function (...parts) { return parts.every(p => typeof p === 'string') ? parts.join('') : undefined }",
    ),
];

/// `§` stands before the names of functions.
const QUERIES: &[&str] = &[
    "SELECT VALUE §abs(c.n) FROM c",
    "SELECT c.id, §abs(c.n) AS x, §upper(c.s) AS y, §array_length(c.tags) AS z FROM c",
    "SELECT VALUE c.id FROM c WHERE §abs(c.n) > 3",
    "SELECT VALUE c.id FROM c WHERE §abs(c.n) = 2 AND c.s = 's1'",
    "SELECT VALUE c.id FROM c WHERE §abs(c.n) = 2 OR c.s = 's1'",
    "SELECT VALUE c.id FROM c WHERE NOT §is_defined(c.s)",
    "SELECT VALUE c.id FROM c WHERE c.n > -3 AND §upper(c.s) IN ('S0', 'S2')",
    "SELECT VALUE c.id FROM c WHERE §is_number(c.s) = false ORDER BY c.id DESC",
    "SELECT TOP 5 c.id, §upper(c.s) AS u FROM c WHERE §abs(c.n) < 7 ORDER BY c.id",
    "SELECT c.id, §abs(c.n) AS x FROM c ORDER BY c.id OFFSET 6 LIMIT 9",
    "SELECT DISTINCT VALUE §upper(c.s) FROM c",
    "SELECT VALUE COUNT(1) FROM c WHERE §abs(c.n) > 3",
    "SELECT VALUE SUM(§abs(c.n)) FROM c",
    "SELECT VALUE MAX(§upper(c.s)) FROM c",
    "SELECT §upper(c.s) AS u, COUNT(1) AS n FROM c GROUP BY §upper(c.s)",
    "SELECT §upper(c.s) AS u, MIN(§abs(c.n)) AS n FROM c GROUP BY c.s",
    "SELECT VALUE §concat(§upper(c.s), '-', c.pk) FROM c WHERE §is_defined(§upper(c.s))",
    "SELECT c.id, §abs(t) AS t FROM c JOIN t IN c.tags WHERE §abs(t) > 1",
    "SELECT VALUE c.id FROM c WHERE EXISTS(SELECT VALUE t FROM t IN c.tags WHERE §abs(t) = 4)",
    "SELECT VALUE ARRAY(SELECT VALUE §abs(t) FROM t IN c.tags) FROM c",
    "SELECT VALUE c.s = 's1' ? §upper(c.s) : §abs(c.n) FROM c",
    "SELECT VALUE c.missing ?? §abs(c.n) FROM c",
    "SELECT VALUE x FROM (SELECT VALUE §abs(c.n) FROM c) AS x WHERE x > 2",
    "SELECT VALUE §abs(-2)",
    "SELECT VALUE c.id FROM c WHERE c.pk = §concat('p', '1')",
];

fn function(id: &str, body: &str) -> ScriptDefinition {
    let kind = ScriptKind::Function;
    ScriptDefinition { kind, id: id.into(), body: body.into(), trigger: None, spelling: None }
}

/// The container with one more function, as requests find it from then on.
async fn with(fixture: &Fixture, container: &ContainerHandle, id: &str, body: &str) -> ContainerHandle {
    let definition = function(id, body);
    fixture
        .account
        .definitions()
        .upsert_script(&fixture.ctx(), container, definition, &none())
        .await
        .expect("kept");
    fixture.account.router().container("db", "c").expect("there")
}

async fn fill(fixture: &Fixture, container: &ContainerHandle, count: i64) {
    for n in 0..count {
        let text = if n % 5 == 4 { String::new() } else { format!(",\"s\":\"s{}\"", n % 5) };
        let (value, tags) = (n % 11 - 5, format!("[{},{}]", n % 7, -(n % 4)));
        let json =
            format!("{{\"id\":\"i{n:03}\",\"pk\":\"p{}\",\"n\":{value},\"tags\":{tags}{text}}}", n % 9);
        fixture.account.create_item(&fixture.ctx(), container, None, json.as_bytes()).await.expect("created");
    }
}

async fn filled(throughput: u64, policy: IndexingPolicy) -> (Fixture, ContainerHandle) {
    let fixture = Fixture::new().await;
    let mut definition = ContainerDefinition::new("c", PartitionKeyDefinition::hash("/pk"));
    definition.indexing_policy = policy;
    let mut container = fixture.container_with(definition, throughput).await;
    for (id, body) in FUNCTIONS {
        container = with(&fixture, &container, id, body).await;
    }
    fill(&fixture, &container, 60).await;
    (fixture, container)
}

fn unindexed() -> IndexingPolicy {
    serde_json::from_str(r#"{"indexingMode":"none","automatic":false}"#).expect("a policy")
}

fn in_order(text: &str, mut rows: Vec<Value>) -> Vec<Value> {
    if !text.contains("ORDER BY") {
        rows.sort_by(compare);
    }
    rows
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn they_are_like_built_in_ones_however_the_container_is_laid_out() {
    for (throughput, is_indexed) in [(400, true), (400, false), (45_000, true)] {
        let policy = if is_indexed { IndexingPolicy::default() } else { unindexed() };
        let (fixture, container) = filled(throughput, policy).await;
        for text in QUERIES.iter().filter(|text| is_indexed || !text.contains("ORDER BY")) {
            let (own, built_in) = (text.replace('§', "udf."), text.replace('§', ""));
            let expected = fixture.answer(&container, &built_in, 1000).await.expect(&built_in).rows;
            let expected = shown(&in_order(text, expected));
            for page in [1000, 7, 1] {
                let rows = fixture.answer(&container, &own, page).await.expect(&own).rows;
                assert_eq!(shown(&in_order(text, rows)), expected, "{own} in pages of {page}");
            }
            let rows = fixture.merged(&container, &own, 7).await.expect(&own);
            assert_eq!(shown(&in_order(text, rows)), expected, "{own} merged by a client");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replaced_function_counts_from_the_next_query_on() {
    let fixture = Fixture::new().await;
    let container = fixture.container(400).await;
    fill(&fixture, &container, 3).await;
    let text = "SELECT VALUE udf.f(c.n) FROM c";
    let error = fixture.answer(&container, text, 10).await.expect_err("unknown");
    assert_eq!(
        (error.kind(), error.message()),
        (ErrorKind::BadRequest, "the user-defined function 'f' does not exist in this container")
    );
    let first = with(&fixture, &container, "f", "function f(n) { return 1 }").await;
    let second = with(&fixture, &first, "f", "n => [n, 2]").await;
    let rows = |container: ContainerHandle| {
        let fixture = &fixture;
        async move { shown(&fixture.answer(&container, text, 10).await.expect("rows").rows) }
    };
    assert_eq!(rows(first).await, "1 1 1");
    assert_eq!(rows(second.clone()).await, "[-5,2] [-4,2] [-3,2]");
    fixture
        .account
        .definitions()
        .delete_script(&second, ScriptKind::Function, "f", &none())
        .await
        .expect("deleted");
    let container = fixture.account.router().container("db", "c").expect("there");
    assert!(fixture.answer(&container, text, 10).await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_fails_fails_only_the_query_that_needs_it() {
    let fixture = Fixture::new().await;
    let mut container = fixture.container(400).await;
    fill(&fixture, &container, 40).await;
    for (id, body) in [
        ("picky", "function (n) { if (n < 0) throw new Error('too small'); return n }"),
        ("endless", "function () { for (;;) {} }"),
        ("greedy", "function () { let all = []; for (;;) all.push('x'.repeat(1e6) + all.length) }"),
        ("deep", "function f(n) { return f(n + 1) + 1 }"),
        ("stateful", "function () { globalThis.seen = (globalThis.seen || 0) + 1; return globalThis.seen }"),
    ] {
        container = with(&fixture, &container, id, body).await;
    }
    let fails = |text: &'static str| {
        let (fixture, container) = (&fixture, &container);
        async move { fixture.answer(container, text, 100).await.expect_err(text) }
    };
    let thrown = fails("SELECT VALUE udf.picky(c.n) FROM c").await;
    assert_eq!(thrown.kind(), ErrorKind::BadRequest);
    assert!(thrown.message().contains("too small"), "{thrown}");
    for text in ["SELECT VALUE udf.greedy() FROM c", "SELECT VALUE udf.deep(1) FROM c"] {
        let error = fails(text).await;
        assert!(matches!(error.kind(), ErrorKind::BadRequest | ErrorKind::Forbidden), "{text}: {error}");
    }
    for text in [
        "SELECT VALUE udf.picky(c.n) FROM c WHERE c.n >= 0",
        "SELECT VALUE c.n >= 0 ? udf.picky(c.n) : 'small' FROM c",
        "SELECT VALUE 1 FROM c WHERE udf.picky(c.n) < 3 AND c.n >= 0",
        "SELECT VALUE c.n > 1000 ? udf.endless() : c.n FROM c",
        "SELECT TOP 1 VALUE udf.stateful() FROM c",
    ] {
        fixture.answer(&container, text, 100).await.expect(text);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endless_function_ends_with_the_time_of_its_request() {
    let fixture = Fixture::in_real_time().await;
    let container = fixture.container(400).await;
    fill(&fixture, &container, 3).await;
    let container = with(&fixture, &container, "endless", "function () { for (;;) {} }").await;
    let mut ctx = fixture.ctx();
    ctx.deadline = fixture.clock.elapsed() + Duration::from_millis(300);
    let request = crate::support::queries::request("SELECT VALUE udf.endless() FROM c", 10, None);
    let error = fixture.account.queries().query(&ctx, &container, request).await.expect_err("endless");
    assert!(matches!(error.kind(), ErrorKind::Forbidden | ErrorKind::Timeout), "{error}");
    let rows = fixture.answer(&container, "SELECT VALUE c.n FROM c", 10).await.expect("others go on").rows;
    assert_eq!(rows.len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_whose_time_is_spent_is_cut_and_the_next_one_goes_on() {
    let limits = Limits { query_page_time: Duration::ZERO, ..Limits::default() };
    let fixture = Fixture::in_real_time_with(AccountOptions { limits, ..AccountOptions::default() }).await;
    let container = fixture.container(400).await;
    fill(&fixture, &container, 40).await;
    let container = with(&fixture, &container, "f", "n => -n").await;
    let answer = fixture.answer(&container, "SELECT VALUE udf.f(c.n) FROM c", 1000).await.expect("cut");
    assert_eq!(answer.rows.len(), 40);
    assert!(answer.pages >= 40, "{} pages", answer.pages);
    // Aggregates over all rows are not cut.
    let sums =
        fixture.answer(&container, "SELECT VALUE SUM(udf.f(c.n)) FROM c", 10).await.expect("whole").rows;
    assert_eq!(sums.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_are_charged_alike_in_one_page_and_in_many() {
    let (fixture, container) = filled(400, IndexingPolicy::default()).await;
    let charge = |text: &'static str, page| {
        let (fixture, container) = (&fixture, &container);
        async move { fixture.answer(container, text, page).await.expect(text).work_centi() }
    };
    for (own, built_in, calls) in [
        ("SELECT VALUE udf.abs(c.n) FROM c", "SELECT VALUE ABS(c.n) FROM c", 60),
        ("SELECT c.id FROM c WHERE udf.abs(c.n) > 3", "SELECT c.id FROM c WHERE ABS(c.n) > 3", 60),
    ] {
        let (whole, without) = (charge(own, 1000).await, charge(built_in, 1000).await);
        assert_eq!(whole - without, 2 * calls, "{own}");
        for page in [1, 7] {
            assert_eq!(charge(own, page).await, whole, "{own} in pages of {page}");
        }
    }
}
