//! Queries whose range ends between two pages: under which id, with which rows, and with which session position they continue.

use serde_json::{Value, json};

use crate::change_feed::{CONTAINER, relocate, split};
use crate::harness::{Answer, Call, ITEMS, Server};

const RANGE: &str = "x-ms-documentdb-partitionkeyrangeid";
const SESSION: &str = "x-ms-session-token";
const ORDERED: &str = "SELECT c._rid, [{\"item\": c.n}] AS orderByItems, c.n AS payload FROM c ORDER BY c.n";

/// Items `0..count`, each its own logical partition.
async fn filled(count: u64) -> Server {
    let server = Server::with_container().await;
    for n in 0..count {
        server.create(json!({ "id": format!("i{n}"), "pk": format!("k{n}"), "n": n })).await;
    }
    server
}

async fn merge(server: &Server, ids: &[&str]) -> String {
    relocate(server, format!("/_shardlake/v1{CONTAINER}/partitions/merge"), json!({ "ids": ids }))
        .await
        .remove(0)
}

/// The bounds of every live range, by id.
async fn bounds(server: &Server, id: &str) -> (String, String) {
    let ranges = server.get(format!("{CONTAINER}/pkranges")).send().await.expect(200).json();
    let ranges = ranges["PartitionKeyRanges"].as_array().expect("an array").clone();
    let range = ranges.iter().find(|range| range["id"] == id).expect("a live range");
    let text = |name: &str| range[name].as_str().expect("text").to_owned();
    (text("minInclusive"), text("maxExclusive"))
}

/// A page of a query that names a range.
struct Page<'s> {
    server: &'s Server,
    text: &'s str,
    range: &'s str,
    rows: &'s str,
}

impl<'s> Page<'s> {
    fn of(server: &'s Server, range: &'s str) -> Page<'s> {
        Page { server, text: "SELECT VALUE c.n FROM c", range, rows: "2" }
    }

    fn call(&self, token: Option<&str>) -> Call<'s> {
        let call = self.server.post(ITEMS).json(json!({ "query": self.text }));
        let call =
            call.header("content-type", "application/query+json").header("x-ms-documentdb-isquery", "true");
        let call = call.header("x-ms-documentdb-query-enablecrosspartition", "true");
        let call = call.header(RANGE, self.range).header("x-ms-max-item-count", self.rows);
        match token {
            Some(token) => call.header("x-ms-continuation", token),
            None => call,
        }
    }

    /// The rest of the query, and all its answers.
    async fn rest(&self, token: Option<String>) -> (Vec<u64>, Vec<Answer>) {
        let (mut token, mut found, mut answers) = (token, Vec::new(), Vec::new());
        loop {
            let answer = self.call(token.as_deref()).send().await.expect(200);
            found.extend(numbers(&answer));
            token = token_of(&answer);
            answers.push(answer);
            if token.is_none() {
                return (found, answers);
            }
        }
    }
}

fn within<'s>(call: Call<'s>, (min, max): (&str, &str)) -> Call<'s> {
    let call = call.header("x-ms-read-key-type", "EffectivePartitionKeyRange");
    call.header("x-ms-start-epk", min).header("x-ms-end-epk", max)
}

fn token_of(answer: &Answer) -> Option<String> {
    answer.header("x-ms-continuation").map(str::to_owned)
}

fn numbers(answer: &Answer) -> Vec<u64> {
    let page = answer.json();
    let rows = page["Documents"].as_array().unwrap_or_else(|| panic!("a page: {answer:?}"));
    let number = |row: &Value| row.as_u64().or_else(|| row["payload"].as_u64()).expect("a number");
    rows.iter().map(number).collect()
}

fn sorted(mut rows: Vec<u64>) -> Vec<u64> {
    rows.sort_unstable();
    rows
}

/// Every SDK parses one position; more of them end .NET's iterators.
fn session_of(answer: &Answer) -> (String, u64) {
    let token = answer.header(SESSION).unwrap_or_else(|| panic!("a session token: {answer:?}"));
    assert!(!token.contains(','), "{token}");
    let (range, position) = token.split_once(':').expect("a range");
    let (_, lsn) = position.split_once('#').expect("an LSN");
    (range.to_owned(), lsn.parse().expect("a number"))
}

/// The finding of the Python SDK: it drops its map at an id that it does not know, and begins the query again.
#[tokio::test]
async fn a_page_of_a_range_that_ended_is_answered_under_its_id() {
    let server = filled(24).await;
    for text in ["SELECT VALUE c.n FROM c", ORDERED, "SELECT VALUE c.n FROM c WHERE c.n >= 0"] {
        let live = server.get(format!("{CONTAINER}/pkranges")).send().await.expect(200).json();
        let live: Vec<String> = live["PartitionKeyRanges"]
            .as_array()
            .expect("an array")
            .iter()
            .map(|range| range["id"].as_str().expect("text").to_owned())
            .collect();
        let live: Vec<&str> = live.iter().map(String::as_str).collect();
        let range = match live[..] {
            [one] => one.to_owned(),
            ref several => merge(&server, several).await,
        };
        let page = Page { text, ..Page::of(&server, &range) };
        let first = page.call(None).send().await.expect(200);
        let mut found = numbers(&first);
        let children = split(&server, &range).await;
        // One child is ahead of the other.
        for n in 100..110 {
            server.create(json!({ "id": format!("i{n}-{range}"), "pk": "one key", "n": n })).await;
        }
        let mut lsns = Vec::new();
        for child in &children {
            lsns.push(
                Page { rows: "1", ..Page::of(&server, child) }.call(None).send().await.expect(200).lsn(),
            );
        }
        assert_ne!(lsns[0], lsns[1]);
        let (rest, answers) = page.rest(token_of(&first)).await;
        found.extend(rest);
        found.retain(|n| *n < 24);
        for answer in &answers {
            assert_eq!(answer.header(RANGE), Some(&*range), "{text}");
            assert_eq!(session_of(answer), (range.clone(), *lsns.iter().min().expect("two")), "{text}");
            assert_eq!(answer.lsn(), *lsns.iter().min().expect("two"));
            // A client that continues with this position is behind none of the children.
            for child in &children {
                let session = answer.header(SESSION).expect("a token");
                Page::of(&server, child).call(None).header(SESSION, session).send().await.expect(200);
            }
        }
        assert_eq!(sorted(found), (0..24).collect::<Vec<_>>(), "{text}");
    }
}

/// The finding of .NET: a token that was carried to a child, which then is merged, gave the sibling's rows again.
#[tokio::test]
async fn a_token_of_another_range_is_answered_with_410() {
    for text in ["SELECT VALUE c.n FROM c", ORDERED] {
        let server = filled(24).await;
        let of = |range| Page { text, ..Page::of(&server, range) };
        let first = of("0").call(None).send().await.expect(200);
        split(&server, "0").await;
        let second = of("0").call(token_of(&first).as_deref()).send().await.expect(200);
        let token = token_of(&second).expect("more to come");
        let (min, max) = bounds(&server, "2").await;
        let left = of("2").rest(Some(token.clone())).await.0;
        let three = merge(&server, &["1", "2"]).await;
        // Range 2 has ended, and the token is none of its own.
        of("2").call(Some(&token)).send().await.refused(410, 1002, "");
        within(of("2").call(Some(&token)), (&min, &max)).send().await.refused(410, 1002, "");
        // The client reads the ranges, and continues in the merged range within its window.
        let page = Page { text, rows: "100", ..Page::of(&server, &three) };
        let answer = within(page.call(Some(&token)), (&min, &max)).send().await.expect(200);
        assert_eq!((numbers(&answer), answer.header(RANGE)), (left, Some(&*three)), "{text}");
        // The token's range continues under its own id, or in the range that contains it.
        for range in ["0", three.as_str()] {
            let mut found = [numbers(&first), numbers(&second)].concat();
            found.extend(of(range).rest(Some(token.clone())).await.0);
            assert!(text != ORDERED || found.is_sorted(), "{found:?}");
            assert_eq!(sorted(found), (0..24).collect::<Vec<_>>(), "{text}");
        }
    }
}

/// A window is part of the request, also where the range has ended: a prefix of a key must not show other tenants' rows.
#[tokio::test]
async fn a_window_holds_through_splits_and_merges() {
    let server = filled(32).await;
    let window = ("08", "18");
    let all =
        within(Page { rows: "100", ..Page::of(&server, "0") }.call(None), window).send().await.expect(200);
    let expected = sorted(numbers(&all));
    assert!((4..28).contains(&expected.len()), "{expected:?}");
    for text in ["SELECT VALUE c.n FROM c", ORDERED] {
        let server = filled(32).await;
        let page = Page { text, rows: "1", ..Page::of(&server, "0") };
        let (mut found, mut token, mut step) = (Vec::new(), None::<String>, 0);
        loop {
            let answer = within(page.call(token.as_deref()), window).send().await.expect(200);
            assert_eq!((answer.header(RANGE), session_of(&answer).0.as_str()), (Some("0"), "0"));
            found.extend(numbers(&answer));
            token = token_of(&answer);
            if token.is_none() {
                break;
            }
            match step {
                0 => drop(split(&server, "0").await),
                1 => drop(split(&server, "1").await),
                2 => drop(merge(&server, &["4", "2"]).await),
                _ => {}
            }
            step += 1;
        }
        assert!(step > 3, "everything happened while the query was read");
        assert_eq!(sorted(found), expected, "{text}");
    }
}

#[tokio::test]
async fn a_first_page_within_one_successor_is_answered_by_it() {
    let server = filled(32).await;
    let page = Page { rows: "100", ..Page::of(&server, "0") };
    let expected = numbers(&within(page.call(None), ("04", "10")).send().await.expect(200));
    assert!(!expected.is_empty());
    split(&server, "0").await;
    let answer = within(page.call(None), ("04", "10")).send().await.expect(200);
    assert_eq!(sorted(numbers(&answer)), sorted(expected.clone()));
    assert_eq!((answer.header(RANGE), session_of(&answer).0.as_str()), (Some("0"), "0"));
    // Its pages follow one another, also where the successor ends in turn.
    let page = Page::of(&server, "0");
    let first = within(page.call(None), ("04", "10")).send().await.expect(200);
    split(&server, "1").await;
    let (mut found, mut token) = (numbers(&first), token_of(&first));
    while let Some(text) = &token {
        let answer = within(page.call(Some(text)), ("04", "10")).send().await.expect(200);
        found.extend(numbers(&answer));
        token = token_of(&answer);
    }
    assert_eq!(sorted(found), sorted(expected));
    // Whatever lies in several, or names no window, has to read the ranges.
    within(page.call(None), ("04", "FF")).send().await.refused(410, 1002, "");
    page.call(None).send().await.refused(410, 1002, "");
    Page::of(&server, "77").call(None).send().await.refused(410, 1002, "");
    within(Page::of(&server, "77").call(None), ("04", "10")).send().await.refused(410, 1002, "");
}

/// A window outside the named range has no rows, also where a merge put others into the range in its place.
#[tokio::test]
async fn a_range_that_was_merged_keeps_to_its_bounds() {
    let server = filled(32).await;
    split(&server, "0").await;
    let low = bounds(&server, "1").await;
    let one = sorted(Page::of(&server, "1").rest(None).await.0);
    let first = Page::of(&server, "1").call(None).send().await.expect(200);
    merge(&server, &["1", "2"]).await;
    let whole = within(Page { rows: "100", ..Page::of(&server, "1") }.call(None), ("", "FF"))
        .send()
        .await
        .expect(200);
    assert_eq!(sorted(numbers(&whole)), one);
    let (rest, _) = Page::of(&server, "1").rest(token_of(&first)).await;
    assert_eq!(sorted([numbers(&first), rest].concat()), one);
    within(Page::of(&server, "2").call(None), ("", &low.1)).send().await.refused(410, 1002, "");
}

#[tokio::test]
async fn a_token_of_a_sibling_is_invalid_and_one_of_an_ancestor_holds() {
    let server = filled(24).await;
    let parent = Page::of(&server, "0").call(None).send().await.expect(200);
    split(&server, "0").await;
    let low = Page::of(&server, "1").call(None).send().await.expect(200);
    let refused = Page::of(&server, "2").call(token_of(&low).as_deref()).send().await;
    refused.refused(400, 0, "Invalid Continuation Token");
    let mut found = numbers(&parent);
    for child in ["1", "2"] {
        found.extend(Page::of(&server, child).rest(token_of(&parent)).await.0);
    }
    assert_eq!(sorted(found), (0..24).collect::<Vec<_>>());
    // A merged range accepts the token of either source, within that source's bounds.
    let one = sorted(Page::of(&server, "1").rest(None).await.0);
    let three = merge(&server, &["1", "2"]).await;
    let rest = Page::of(&server, &three).rest(token_of(&low)).await.0;
    assert_eq!(sorted([numbers(&low), rest].concat()), one);
}

/// Refusals, too, name the range that was asked: SDKs read the headers of errors.
#[tokio::test]
async fn a_failure_under_a_former_range_names_it() {
    let server = filled(8).await;
    let first = Page::of(&server, "0").call(None).send().await.expect(200);
    split(&server, "0").await;
    let ahead =
        Page::of(&server, "0").call(token_of(&first).as_deref()).header(SESSION, "0:1700000000000#9999");
    let refused = ahead.send().await;
    assert_eq!((refused.header(RANGE), session_of(&refused).0.as_str()), (Some("0"), "0"));
    refused.refused(404, 1002, "session");
}

#[tokio::test]
async fn answers_of_several_ranges_have_one_position() {
    let server = filled(12).await;
    split(&server, "0").await;
    let query = |text: &str| {
        let call = server.post(ITEMS).json(json!({ "query": text }));
        let call =
            call.header("content-type", "application/query+json").header("x-ms-documentdb-isquery", "true");
        call.header("x-ms-documentdb-query-enablecrosspartition", "true")
    };
    let merged = query("SELECT VALUE c.n FROM c ORDER BY c.n").header("x-shardlake-fan-out", "true");
    let windows = within(query("SELECT VALUE COUNT(1) FROM c"), ("04", "30"));
    for call in [server.get(ITEMS), server.get(ITEMS).header("a-im", "Incremental feed"), merged, windows] {
        let answer = call.send().await.expect(200);
        let (range, lsn) = session_of(&answer);
        assert_eq!((answer.header(RANGE), answer.lsn()), (Some(&*range), lsn));
    }
}

/// .NET finds ranges by an earlier container of the same name, and misses rows in silence.
#[tokio::test]
async fn a_query_with_a_session_of_an_earlier_life_is_answered_with_410() {
    let server = filled(8).await;
    let older = "0:1600000000000#5";
    let stale = Page::of(&server, "0").call(None).header(SESSION, older).send().await;
    stale.refused(410, 1000, "");
    // A token of a range that this life of the container does not have.
    Page::of(&server, "7")
        .call(None)
        .header(SESSION, "7:1600000000000#5")
        .send()
        .await
        .refused(410, 1000, "");
    // Positions of this life, and of clients that know no lives.
    for session in ["0:1700000000000#2", "0:5", "9:1600000000000#3,0:1700000000000#2"] {
        Page::of(&server, "0").call(None).header(SESSION, session).send().await.expect(200);
    }
    // Change feeds show it to their users; who names no range goes by the name.
    server
        .get(ITEMS)
        .header("a-im", "Incremental feed")
        .header(RANGE, "0")
        .header(SESSION, older)
        .send()
        .await
        .expect(200);
    server.item("GET", "i1", r#"["k1"]"#).header(SESSION, older).send().await.expect(200);
    // The JavaScript SDK never forgets the older position, and shows 410 to its users.
    let script = Page::of(&server, "0").call(None).header(SESSION, older);
    script.header("user-agent", "azure-cosmos-js/4.10.1 Node.js/22").send().await.expect(200);
}

/// The Python SDK drops its map of ranges at an answer that names the container and none of its ranges.
#[tokio::test]
async fn an_answer_that_names_the_container_names_a_range() {
    let server = filled(4).await;
    let first = Page::of(&server, "0").call(None).send().await.expect(200);
    split(&server, "0").await;
    let beside = within(Page::of(&server, "1").call(None), ("30", "38"));
    let answers = [
        beside.send().await.expect(200),
        Page::of(&server, "0").call(None).send().await.expect(410),
        Page::of(&server, "1").call(Some("nonsense")).send().await.expect(400),
        Page::of(&server, "0").call(token_of(&first).as_deref()).send().await.expect(200),
        server.item("GET", "none", r#"["k"]"#).send().await.expect(404),
        server.get(ITEMS).header("x-ms-continuation", "nonsense").send().await.expect(400),
    ];
    for answer in answers {
        assert!(
            answer.header("x-ms-alt-content-path").is_none() || answer.header(RANGE).is_some(),
            "{answer:?}"
        );
    }
}

/// A position without its container's version is refused when it comes back: Java's clients then fail for good.
#[tokio::test]
async fn every_position_names_the_version_of_its_container() {
    let server = filled(3).await;
    let key = r#"["k0"]"#;
    let batch = |atomic: &'static str, operations: Value| {
        let call = server.post(ITEMS).header("x-ms-cosmos-is-batch-request", "True").json(operations);
        let call = call.header("x-ms-cosmos-batch-atomic", atomic);
        if atomic == "True" { call.key(key) } else { call.header(RANGE, "0") }
    };
    let create = |id: &str| json!([{ "operationType": "Create", "partitionKey": ["k0"], "resourceBody": { "id": id, "pk": "k0" } }]);
    let missing = json!([{ "operationType": "Delete", "partitionKey": ["k0"], "id": "none" }]);
    let query = |text: &str| {
        let call = server.post(ITEMS).json(json!({ "query": text })).key(key);
        call.header("content-type", "application/query+json").header("x-ms-documentdb-isquery", "true")
    };
    let calls = [
        server.post(ITEMS).key(key).json(json!({ "id": "new", "pk": "k0" })),
        server.post(ITEMS).key(key).json(json!({ "id": "new", "pk": "k0" })),
        server.item("GET", "i0", key),
        server.item("GET", "none", key),
        server.item("PUT", "i0", key).json(json!({ "id": "i0", "pk": "k0" })),
        server.item("PUT", "i0", key).header("if-match", "\"x\"").json(json!({ "id": "i0", "pk": "k0" })),
        server.item("PATCH", "i0", key).json(json!([{ "op": "set", "path": "/n", "value": 1 }])),
        server.item("PATCH", "none", key).json(json!([{ "op": "set", "path": "/n", "value": 1 }])),
        query("SELECT * FROM c"),
        query("SELECT * FROM c WHERE c.n = 'none'"),
        server.get(ITEMS),
        server.get(ITEMS).header("a-im", "Incremental feed"),
        batch("True", create("b")),
        batch("True", create("b")),
        batch("False", create("c")),
        batch("False", create("c")),
        batch("False", missing),
        server.item("DELETE", "i0", key),
    ];
    for (number, call) in calls.into_iter().enumerate() {
        let answer = call.send().await;
        let token = answer.header(SESSION).unwrap_or_else(|| panic!("call {number}: {answer:?}"));
        assert!(token.starts_with("0:1700000000000#"), "call {number}: {token}");
        let back = query("SELECT * FROM c").header(SESSION, token).send().await;
        assert_eq!(back.status, 200, "call {number} with {token}: {back:?}");
    }
}
