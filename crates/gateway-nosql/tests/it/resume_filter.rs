//! Ordered queries that a merging client continues by the sort keys of its last row, in `resumeFilter`.

use proptest::prelude::*;
use serde_json::{Value, json};
use shardlake_account::sql::distinct_hash;

use crate::change_feed::{CONTAINER, relocate, split};
use crate::harness::{ITEMS, Server};

const RANGE: &str = "x-ms-documentdb-partitionkeyrangeid";

/// An order, as text and as the rewritten query that clients send.
struct Order {
    expressions: &'static [&'static str],
    directions: &'static [&'static str],
    filter: &'static str,
}

const ORDERS: [Order; 7] = [
    Order { expressions: &["c.a"], directions: &["ASC"], filter: "true" },
    Order { expressions: &["c.a"], directions: &["DESC"], filter: "true" },
    Order { expressions: &["c.a"], directions: &["ASC"], filter: "c.g != 1" },
    Order { expressions: &["c.a"], directions: &["DESC"], filter: "c.g = 2" },
    Order { expressions: &["c.g", "c.a"], directions: &["ASC", "ASC"], filter: "true" },
    Order { expressions: &["c.g", "c.a"], directions: &["DESC", "DESC"], filter: "c.a != 3" },
    Order { expressions: &["c.g", "c.a"], directions: &["ASC", "DESC"], filter: "true" },
];

impl Order {
    fn text(&self) -> String {
        let items = self.expressions.iter().map(|one| format!("{{\"item\": {one}}}"));
        let items = items.collect::<Vec<_>>().join(", ");
        let keys = self.expressions.iter().zip(self.directions).map(|(one, way)| format!("{one} {way}"));
        let keys = keys.collect::<Vec<_>>().join(", ");
        format!(
            "SELECT c._rid, [{items}] AS orderByItems, c.id AS payload FROM c WHERE {} ORDER BY {keys}",
            self.filter
        )
    }
}

/// A server with a container whose items have keys of all kinds, many of them alike.
async fn filled(seeds: &[u8]) -> Server {
    let server = Server::start().await;
    let composite = |second: &str| json!([{ "path": "/g" }, { "path": "/a", "order": second }]);
    let policy = json!({ "compositeIndexes": [composite("ascending"), composite("descending")] });
    let key = json!({ "paths": ["/pk"], "kind": "Hash", "version": 2 });
    server.create_container(json!({ "id": "items", "partitionKey": key, "indexingPolicy": policy })).await;
    let long = "long ".repeat(30);
    for (number, seed) in seeds.iter().enumerate() {
        let mut item = json!({ "id": format!("{number}"), "pk": format!("{number}"), "g": seed % 3 });
        let a = match seed % 16 {
            0 | 1 => None,
            2 => Some(Value::Null),
            3 => Some(json!(seed % 2 == 0)),
            4..=6 => Some(json!(seed / 64)),
            7 => Some(json!(1.5)),
            8 => Some(json!("text")),
            9 => Some(json!(format!("{long}{}", seed / 64))),
            10..=12 => Some(json!([seed / 32])),
            13 => Some(json!({ "deep": seed / 64 })),
            _ => Some(json!(number)),
        };
        if let Some(a) = a {
            item["a"] = a;
        }
        server.create(item).await;
    }
    server
}

/// A live range: its id and its bounds.
#[derive(Clone)]
struct Range {
    id: String,
    window: Window,
}

/// A part of the hash space, from one bound to below another.
#[derive(Clone, PartialEq)]
struct Window(String, String);

async fn ranges(server: &Server) -> Vec<Range> {
    let answer = server.get(format!("{CONTAINER}/pkranges")).send().await.expect(200).json();
    let range = |range: &Value| {
        let text = |name: &str| range[name].as_str().expect("text").to_owned();
        Range { id: text("id"), window: Window(text("minInclusive"), text("maxExclusive")) }
    };
    let mut ranges: Vec<Range> =
        answer["PartitionKeyRanges"].as_array().expect("an array").iter().map(range).collect();
    ranges.sort_by(|left, right| left.window.0.cmp(&right.window.0));
    ranges
}

/// Range, query and window of a page.
struct Asked<'a> {
    range: &'a str,
    order: &'a Order,
    window: Option<&'a Window>,
}

impl Asked<'_> {
    /// The rows of a page and the token of the next one.
    async fn page(
        &self,
        server: &Server,
        (filter, token): (Option<&Value>, Option<&str>),
        rows: usize,
    ) -> (Vec<Value>, Option<String>) {
        let mut body = json!({ "query": self.order.text(), "parameters": [] });
        if let Some(filter) = filter {
            body["resumeFilter"] = filter.clone();
        }
        let call = server.post(ITEMS).json(body).header("content-type", "application/query+json");
        let call = call.header("x-ms-documentdb-isquery", "true");
        let call = call.header("x-ms-documentdb-query-enablecrosspartition", "true");
        let mut call = call.header(RANGE, self.range).header("x-ms-max-item-count", &rows.to_string());
        if let Some(token) = token {
            call = call.header("x-ms-continuation", token);
        }
        if let Some(Window(min, max)) = self.window {
            call = call.header("x-ms-read-key-type", "EffectivePartitionKeyRange");
            call = call.header("x-ms-start-epk", min).header("x-ms-end-epk", max);
        }
        let answer = call.send().await.expect(200);
        let rows = answer.json()["Documents"].as_array().expect("an array").clone();
        (rows, answer.header("x-ms-continuation").map(str::to_owned))
    }
}

/// All rows of the first range behind a position.
async fn rest(server: &Server, order: &Order, filter: Option<&Value>, rows: usize) -> Vec<Value> {
    let (mut all, mut token) = (Vec::new(), None::<String>);
    let asked = Asked { range: "0", order, window: None };
    loop {
        let (found, next) = asked.page(server, (filter, token.as_deref()), rows).await;
        all.extend(found);
        match next {
            Some(next) => token = Some(next),
            None => return all,
        }
    }
}

/// The sort keys of a row, as they lie in its `orderByItems`.
fn keys(row: &Value) -> Vec<Option<Value>> {
    let items = row["orderByItems"].as_array().expect("an array");
    items.iter().map(|item| item.get("item").cloned()).collect()
}

/// As clients write a sort key into a position.
fn resume_value(key: &Option<Value>) -> Value {
    let hashed = |kind: &str, value: &Value| {
        let value = shardlake_document::Value::from_json(value.to_string().as_bytes(), &Default::default());
        let hash = distinct_hash(&value.expect("JSON"));
        json!({ "type": kind, "low": hash as u64 as i64, "high": (hash >> 64) as u64 as i64 })
    };
    match key {
        None => json!([]),
        Some(value @ Value::Array(_)) => hashed("array", value),
        Some(value @ Value::Object(_)) => hashed("object", value),
        Some(scalar) => scalar.clone(),
    }
}

fn position(row: &Value, with_rid: bool, exclude: bool) -> Value {
    let value: Vec<Value> = keys(row).iter().map(resume_value).collect();
    match with_rid {
        true => json!({ "value": value, "rid": row["_rid"], "exclude": exclude }),
        false => json!({ "value": value, "exclude": exclude }),
    }
}

fn seeds() -> Vec<u8> {
    (0..90u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 11) as u8).collect()
}

#[tokio::test]
async fn a_page_begins_at_any_position_of_a_range() {
    let server = filled(&seeds()).await;
    for order in &ORDERS {
        let all = rest(&server, order, None, 1000).await;
        assert!(all.len() > 20, "{}", order.text());
        for (place, row) in all.iter().enumerate().step_by(3) {
            let first_alike = all.iter().position(|other| keys(other) == keys(row)).expect("itself");
            let behind = all.iter().rposition(|other| keys(other) == keys(row)).expect("itself") + 1;
            for (filter, from) in [
                (position(row, true, false), place),
                (position(row, false, false), first_alike),
                (position(row, false, true), behind),
                (position(row, true, true), behind),
            ] {
                let found = rest(&server, order, Some(&filter), 7).await;
                assert_eq!(found, all[from..], "{} at {filter}", order.text());
            }
        }
    }
}

#[tokio::test]
async fn with_a_token_the_later_position_counts() {
    let server = filled(&seeds()).await;
    for order in &ORDERS {
        let all = rest(&server, order, None, 1000).await;
        let asked = Asked { range: "0", order, window: None };
        let (_, token) = asked.page(&server, (None, None), 10).await;
        for place in [0, 5, 10, 15] {
            let filter = position(&all[place], true, false);
            let (found, _) = asked.page(&server, (Some(&filter), token.as_deref()), 4).await;
            let from = place.max(10);
            assert_eq!(found, all[from..from + 4], "{} at {place}", order.text());
        }
    }
}

/// Rows that are out, or that have no order to begin in, are named in the refusal.
#[tokio::test]
async fn positions_that_are_none_are_refused() {
    let server = filled(&seeds()[..4]).await;
    let ask = async |text: &str, members: Value| {
        let mut body = json!({ "query": text });
        for (name, value) in members.as_object().expect("an object") {
            body[name] = value.clone();
        }
        let call = server.post(ITEMS).json(body).header("content-type", "application/query+json");
        call.header("x-ms-documentdb-isquery", "true").header(RANGE, "0").send().await
    };
    let ordered = "SELECT c._rid, [{\"item\": c.a}] AS orderByItems, c AS payload FROM c ORDER BY c.a";
    let grouped = "SELECT COUNT(1) AS n FROM c GROUP BY c.a";
    for (text, filter) in [
        (ordered, json!({ "value": [] })),
        (ordered, json!({ "value": [1, 2] })),
        (ordered, json!({ "value": [1], "rid": "bm8=" })),
        (ordered, json!({ "value": [1], "rid": rid_of_the_container(&server).await })),
        (ordered, json!({ "value": [[1]] })),
        (ordered, json!({ "value": [{ "low": 1 }] })),
        (ordered, json!({ "value": [{ "type": "array", "low": 1.5, "high": 2 }] })),
        (ordered, json!({ "value": [1], "skip": 3 })),
        (ordered, json!({ "value": 1 })),
        ("SELECT * FROM c", json!({ "value": [] })),
        ("SELECT * FROM c", json!({ "value": [1] })),
        (grouped, json!({ "value": [1] })),
    ] {
        let refused = ask(text, json!({ "resumeFilter": filter })).await.expect(400);
        let is_named = refused.text.contains("resumeFilter") || refused.text.contains("skip");
        assert!(is_named || refused.text.contains("invalid type"), "{filter}: {}", refused.text);
    }
    let refused = ask("SELECT * FROM c", json!({ "nonsense": 5 })).await.expect(400);
    assert!(refused.text.contains("nonsense"), "{}", refused.text);
    let refused = ask(
        "SELECT * FROM c WHERE c.a = @a",
        json!({ "parameters": [{ "name": "@a", "value": 1, "kind": 2 }] }),
    );
    assert!(refused.await.expect(400).text.contains("kind"));
    let on_databases =
        server.post("/dbs").json(json!({ "query": "SELECT * FROM c", "resumeFilter": { "value": [1] } }));
    let on_databases = on_databases.header("x-ms-documentdb-isquery", "true");
    let on_databases = on_databases.header("content-type", "application/query+json").send().await.expect(400);
    assert!(on_databases.text.contains("resumeFilter"), "{}", on_databases.text);
}

async fn rid_of_the_container(server: &Server) -> Value {
    server.get(CONTAINER).send().await.expect(200).json()["_rid"].clone()
}

/// One row of the merge, and the part of the hash space that it was asked for in.
#[derive(Clone)]
struct Merged {
    row: Value,
    window: Window,
}

/// A part of the hash space that a client asks by itself, and the last row that was taken from there.
#[derive(Clone)]
struct Part {
    window: Window,
    last: Option<Value>,
}

/// A client that merges the pages of its parts. Only splits cut a part; both pieces then have its last row, since a piece alone
/// may lie on either side of the merge's last row.
struct Client<'s> {
    server: &'s Server,
    order: &'s Order,
    parts: Vec<Part>,
}

impl Client<'_> {
    /// Cuts the parts as the live ranges are, and gives for each the id of the range that holds it.
    async fn asked(&mut self) -> Vec<String> {
        let live = ranges(self.server).await;
        let (mut ids, mut parts) = (Vec::new(), Vec::new());
        for Part { window, last } in &self.parts {
            for range in &live {
                let (min, max) = (
                    range.window.0.clone().max(window.0.clone()),
                    range.window.1.clone().min(window.1.clone()),
                );
                if min < max {
                    ids.push(range.id.clone());
                    parts.push(Part { window: Window(min, max), last: last.clone() });
                }
            }
        }
        self.parts = parts;
        ids
    }

    /// A page of a client that has kept positions alone: each part is asked anew.
    async fn page(&mut self, last: Option<&Merged>, rows: usize) -> Vec<Merged> {
        let mut heads: Vec<Vec<Value>> = Vec::new();
        for (id, part) in self.asked().await.iter().zip(&self.parts) {
            let filter = last.map(|last| match &part.last {
                Some(own) if keys(own) == keys(&last.row) => position(own, true, false),
                _ => position(&last.row, false, part.window.0 < last.window.0),
            });
            let asked = Asked { range: id, order: self.order, window: Some(&part.window) };
            let (mut found, _) = asked.page(self.server, (filter.as_ref(), None), rows + 1).await;
            found.retain(|row| part.last.as_ref().is_none_or(|own| row["_rid"] != own["_rid"]));
            found.reverse();
            heads.push(found);
        }
        let mut merged = Vec::new();
        while merged.len() < rows {
            let left = (0..heads.len()).filter(|at| !heads[*at].is_empty());
            let next = left.min_by(|left, right| {
                let of = |at: usize| keys(heads[at].last().expect("a head"));
                self.order.compare(&of(*left), &of(*right)).then(left.cmp(right))
            });
            let Some(at) = next else { break };
            let (row, part) = (heads[at].pop().expect("a head"), &mut self.parts[at]);
            part.last = Some(row.clone());
            merged.push(Merged { row, window: part.window.clone() });
        }
        merged
    }
}

impl Order {
    fn compare(&self, left: &[Option<Value>], right: &[Option<Value>]) -> std::cmp::Ordering {
        let value = |key: &Option<Value>| match key {
            None => shardlake_document::Value::Undefined,
            Some(value) => {
                shardlake_document::Value::from_json(value.to_string().as_bytes(), &Default::default())
                    .expect("JSON")
            }
        };
        for ((left, right), direction) in left.iter().zip(right).zip(self.directions) {
            let order = shardlake_account::sql::compare_sort_keys(&value(left), &value(right));
            if order.is_ne() {
                return if *direction == "DESC" { order.reverse() } else { order };
            }
        }
        std::cmp::Ordering::Equal
    }
}

fn whole_space() -> Part {
    Part { window: Window(String::new(), "FF".into()), last: None }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, max_shrink_iters: 10, ..ProptestConfig::default() })]

    /// As the .NET SDK reads pages from tokens: over any ranges, in pages of any size, each row comes once and in order, also
    /// where ranges are split and merged between pages.
    #[test]
    fn pages_from_tokens_are_the_whole_result(
        seeds in prop::collection::vec(any::<u8>(), 60..100),
        order in 0..ORDERS.len(),
        sizes in prop::collection::vec(1..9usize, 1..4),
        moves in prop::collection::vec(prop::option::of(any::<prop::sample::Index>()), 1..12),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let server = filled(&seeds).await;
            let order = &ORDERS[order];
            let whole = rest(&server, order, None, 1000).await;
            let mut client = Client { server: &server, order, parts: vec![whole_space()] };
            let (mut found, mut last) = (Vec::new(), None::<Merged>);
            let (mut sizes, mut moves) = (sizes.iter().cycle(), moves.iter());
            loop {
                let live = ranges(&server).await;
                match moves.next() {
                    Some(Some(at)) if live.len() < 8 => drop(split(&server, &at.get(&live).id).await),
                    Some(None) if live.len() > 2 => {
                        let path = format!("/_shardlake/v1{CONTAINER}/partitions/merge");
                        relocate(&server, path, json!({ "ids": [live[0].id, live[1].id] })).await;
                    }
                    _ => {}
                }
                let page = client.page(last.as_ref(), *sizes.next().expect("a cycle")).await;
                let Some(end) = page.last() else { break };
                last = Some(end.clone());
                found.extend(page);
            }
            let mut ids: Vec<&Value> = found.iter().map(|merged| &merged.row["payload"]).collect();
            for pair in found.windows(2) {
                assert!(order.compare(&keys(&pair[0].row), &keys(&pair[1].row)).is_le(), "{}", order.text());
            }
            let mut all: Vec<&Value> = whole.iter().map(|row| &row["payload"]).collect();
            ids.sort_by_key(|id| id.to_string());
            all.sort_by_key(|id| id.to_string());
            assert_eq!(ids, all, "{}", order.text());
        });
    }
}
