//! Queries about one partition key. Whether the request or the text names it, the rows, their order
//! and the charge are the same. The newest items of one key cost as much as the newest of all,
//! unless others' entries lie before them: then no more than twice the cost of reading the key.

use crate::support::json_door::{JsonDoor, key_scope};
use crate::support::{Fixture, none};
use proptest::prelude::*;
use shardlake_account::sql::compare_sort_keys;
use shardlake_account::{ContainerHandle, FeedScope, QueryRequest, QueryWants, SplitAt, Value};
use shardlake_model::{ContainerDefinition, KeyComponent, KeyKind, PartitionKey, PartitionKeyDefinition};
use shardlake_routing::effective_partition_key;

/// Rows, work and cost of a query, over all its pages.
#[derive(Debug, Default, PartialEq)]
pub struct Answer {
    pub rows: Vec<Value>,
    charge_centi: u64,
    pub retrieved: u64,
    /// Entries and items looked at.
    looked_at: u64,
}

pub async fn page(
    fixture: &Fixture,
    container: &ContainerHandle,
    scope: &FeedScope,
    (text, max_items): (&str, i64),
    continuation: Option<&str>,
) -> (Answer, Option<String>) {
    let request = QueryRequest {
        text,
        parameters: &[],
        scope: scope.clone(),
        max_items: Some(max_items),
        continuation,
        resume_filter: None,
        allows_cross_partition: true,
        fans_out: true,
        wants: QueryWants::default(),
    };
    let reply = fixture.account.queries().query(&fixture.ctx(), container, request).await;
    let reply = reply.unwrap_or_else(|error| panic!("{text}: {error}"));
    let statistics = &reply.statistics;
    let retrieved = statistics.items_loaded + statistics.items_scanned;
    let answer = Answer {
        rows: reply.rows.iter().map(crate::support::queries::parse).collect(),
        charge_centi: reply.meta.charge_centi,
        retrieved,
        looked_at: retrieved + statistics.postings_read + statistics.entries_passed,
    };
    (answer, reply.continuation)
}

pub async fn answer(
    fixture: &Fixture,
    container: &ContainerHandle,
    scope: &FeedScope,
    (text, max_items): (&str, i64),
) -> Answer {
    let (mut all, mut token) = (Answer::default(), None::<String>);
    for _ in 0..2000 {
        let (part, next) = page(fixture, container, scope, (text, max_items), token.as_deref()).await;
        all.rows.extend(part.rows);
        all.charge_centi += part.charge_centi;
        all.retrieved += part.retrieved;
        all.looked_at += part.looked_at;
        token = next;
        if token.is_none() {
            return all;
        }
    }
    panic!("{text}: pages without end");
}

pub fn key(text: &str) -> FeedScope {
    key_scope(format!("[\"{text}\"]"))
}

/// The part of the hash space that holds one key alone.
fn range_of(container: &ContainerHandle, components: Vec<KeyComponent>) -> FeedScope {
    let definition = &container.container().definition.partition_key;
    let epk = effective_partition_key(definition, &PartitionKey(components)).to_hex();
    FeedScope::Range { range_id: None, epk: Some((epk.clone(), format!("{epk}FF"))) }
}

fn text_component(text: &str) -> KeyComponent {
    KeyComponent::String(text.to_owned())
}

pub async fn put(fixture: &Fixture, container: &ContainerHandle, body: &str) {
    let written =
        fixture.account.upsert_item(&fixture.ctx(), container, None, body.as_bytes(), &none()).await;
    written.unwrap_or_else(|error| panic!("{body}: {error}"));
}

pub fn customers() -> ContainerDefinition {
    ContainerDefinition::new("c", PartitionKeyDefinition::hash("/customerId"))
}

async fn order(fixture: &Fixture, container: &ContainerHandle, customer: &str, date: u64) {
    let body =
        format!(r#"{{"id":"{date}","customerId":"{customer}","orderDate":{date},"total":{}}}"#, date % 7);
    put(fixture, container, &body).await;
}

const NEWEST: &str = "SELECT TOP 10 * FROM c ORDER BY c.orderDate DESC";

#[tokio::test]
async fn newest_of_a_key_cost_what_the_newest_of_all_cost() {
    let fixture = Fixture::new().await;
    let container = fixture.container_with(customers(), 400).await;
    // First ten thousand of "old", then "c3" and "c4" alternating, then a few of "rare" among many of "new".
    for date in 0..10_000 {
        order(&fixture, &container, "old", date).await;
    }
    for date in 10_000..30_000 {
        order(&fixture, &container, if date % 2 == 0 { "c3" } else { "c4" }, date).await;
    }
    let all = answer(&fixture, &container, &FeedScope::All, (NEWEST, 100)).await;
    for customer in ["c3", "old"] {
        let in_text =
            format!("SELECT TOP 10 * FROM c WHERE c.customerId = '{customer}' ORDER BY c.orderDate DESC");
        let range = range_of(&container, vec![text_component(customer)]);
        let by_id = FeedScope::Range { range_id: Some(0), epk: None };
        let asked = [
            (key(customer), NEWEST),
            (range.clone(), NEWEST),
            (range, &in_text),
            (by_id, &in_text),
            (FeedScope::All, &in_text),
        ];
        let mut first = None;
        for (scope, text) in asked {
            let found = answer(&fixture, &container, &scope, (text, 100)).await;
            assert_eq!(found.rows.len(), 10, "{text} in {scope:?}");
            assert!(
                found.charge_centi <= 2 * all.charge_centi && found.retrieved <= 2 * all.retrieved,
                "{text} in {scope:?} cost {} and read {}, beside {} and {} of everybody's",
                found.charge_centi,
                found.retrieved,
                all.charge_centi,
                all.retrieved
            );
            // At worst every entry of others is newer: then the key's own items are read.
            assert!(found.looked_at <= 2 * 10_000 + 20, "{text} in {scope:?}: {} looks", found.looked_at);
            assert_eq!(*first.get_or_insert(found.rows.clone()), found.rows, "{text} in {scope:?}");
        }
    }
    let count = "SELECT VALUE COUNT(1) FROM c";
    let by_request = answer(&fixture, &container, &key("c3"), (count, 100)).await;
    let in_text = "SELECT VALUE COUNT(1) FROM c WHERE c.customerId = 'c3'";
    let by_text = answer(&fixture, &container, &FeedScope::All, (in_text, 100)).await;
    let by_range = FeedScope::Range { range_id: Some(0), epk: None };
    let by_range = answer(&fixture, &container, &by_range, (in_text, 100)).await;
    assert_eq!(by_request.rows, [Value::Int(10_000)]);
    assert_eq!((&by_text, &by_range), (&by_request, &by_request));
    assert!(by_request.looked_at <= 1, "a count looks at {} entries", by_request.looked_at);
}

#[tokio::test]
async fn a_page_does_at_most_twice_the_work_of_the_better_way() {
    let fixture = Fixture::new().await;
    let container = fixture.container_with(customers(), 400).await;
    let (items, others) = (600, 5_000);
    // The others' entries are before "behind", around "among", and after "ahead".
    for date in 0..items {
        order(&fixture, &container, "behind", date).await;
    }
    for date in 0..others {
        order(&fixture, &container, "other", 10_000 + date).await;
        if date * items / others != (date + 1) * items / others {
            order(&fixture, &container, "among", 10_000 + date).await;
        }
    }
    for date in 0..items {
        order(&fixture, &container, "ahead", 20_000 + date).await;
    }
    // Entries up to the tenth row: each of the other's, or one in about nine.
    for (customer, in_order) in [("behind", others + items), ("among", items + 100), ("ahead", 10)] {
        let found = answer(&fixture, &container, &key(customer), (NEWEST, 100)).await;
        assert_eq!(found.rows.len(), 10, "{customer}");
        let better = in_order.min(items);
        // A row is an entry and an item.
        assert!(found.looked_at <= 2 * better + 20, "{customer}: {} looks beside {better}", found.looked_at);
        // The bound holds for every page of all rows, too.
        let all = "SELECT VALUE c.orderDate FROM c ORDER BY c.orderDate DESC";
        let (mut token, mut rows) = (None::<String>, Vec::new());
        loop {
            let (part, next) = page(&fixture, &container, &key(customer), (all, 50), token.as_deref()).await;
            assert!(part.looked_at <= 2 * items + 102, "{customer}: a page with {} looks", part.looked_at);
            rows.extend(part.rows);
            token = next;
            if token.is_none() {
                break;
            }
        }
        let dates: Vec<i64> =
            rows.iter().map(|row| row.as_number().expect("a date").as_f64() as i64).collect();
        assert_eq!(dates.len() as u64, items, "{customer}");
        assert!(dates.is_sorted_by(|left, right| left > right), "{customer}: {dates:?}");
    }
}

#[tokio::test]
async fn a_key_that_grows_between_pages_gives_no_row_twice() {
    let fixture = Fixture::new().await;
    let container = fixture.container_with(customers(), 400).await;
    for date in 0..200 {
        order(&fixture, &container, "mine", date).await;
    }
    let text = "SELECT VALUE c.orderDate FROM c ORDER BY c.total";
    let (first, token) = page(&fixture, &container, &key("mine"), (text, 90), None).await;
    for date in 200..900 {
        order(&fixture, &container, "mine", date).await;
    }
    let mut rows = first.rows;
    let mut token = token;
    while let Some(at) = token {
        let (part, next) = page(&fixture, &container, &key("mine"), (text, 90), Some(&at)).await;
        rows.extend(part.rows);
        token = next;
    }
    let mut dates: Vec<i64> =
        rows.iter().map(|row| row.as_number().expect("a date").as_f64() as i64).collect();
    let found = dates.len();
    dates.sort_unstable();
    dates.dedup();
    assert_eq!(dates.len(), found, "a row came twice");
    assert!(
        (0..200).all(|date| dates.binary_search(&date).is_ok()),
        "a row that was there all along is missing"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_a_key_go_on_where_its_partition_was_cut_and_joined() {
    let fixture = Fixture::new().await;
    let mut container = fixture.container_with(customers(), 400).await;
    for date in 0..1_200 {
        order(&fixture, &container, if date % 3 == 0 { "mine" } else { "other" }, date).await;
    }
    let text = "SELECT VALUE c.orderDate FROM c ORDER BY c.orderDate DESC";
    let (mut rows, mut token, mut pages) = (Vec::new(), None::<String>, 0);
    loop {
        let (part, next) = page(&fixture, &container, &key("mine"), (text, 60), token.as_deref()).await;
        rows.extend(part.rows);
        token = next;
        if token.is_none() {
            break;
        }
        let account = &fixture.account;
        let ticket = match pages {
            1 => Some(account.maintenance().split(&container, 0, SplitAt::Middle).await),
            3 => Some(account.maintenance().merge(&container, &[1, 2]).await),
            _ => None,
        };
        if let Some(ticket) = ticket {
            ticket.expect("begins").finished().await.expect("ends");
            container = account.router().container("db", "c").expect("there");
        }
        pages += 1;
    }
    let expected: Vec<Value> = (0..400).rev().map(|date| Value::Int(date * 3)).collect();
    assert_eq!(rows, expected);
}

#[tokio::test]
async fn hierarchical_keys_and_their_prefixes_are_read_in_order_too() {
    let fixture = Fixture::new().await;
    let mut definition = ContainerDefinition::new("c", PartitionKeyDefinition::hash("/tenant"));
    definition.partition_key.paths = vec!["/tenant".into(), "/user".into(), "/id".into()];
    definition.partition_key.kind = KeyKind::MultiHash;
    let container = fixture.container_with(definition, 400).await;
    for number in 0..3_000 {
        let (tenant, user) = (number % 2, number % 6);
        let body = format!(r#"{{"id":"i{number}","tenant":"t{tenant}","user":{user},"at":{number}}}"#);
        put(&fixture, &container, &body).await;
    }
    let newest = "SELECT TOP 5 VALUE c.at FROM c ORDER BY c.at DESC";
    let all = answer(&fixture, &container, &FeedScope::All, (newest, 100)).await;
    let cases = [
        (r#"["t1"]"#, "c.tenant = 't1'", vec![2999, 2997, 2995, 2993, 2991], 1500),
        (r#"["t1",3]"#, "c.tenant = 't1' AND c.user = 3", vec![2997, 2991, 2985, 2979, 2973], 500),
        (r#"["t1",3,"i9"]"#, "c.tenant = 't1' AND c.user = 3 AND c.id = 'i9'", vec![9], 1),
    ];
    for (prefix, condition, expected, items) in cases {
        let expected: Vec<Value> = expected.into_iter().map(Value::Int).collect();
        let scope = key_scope(prefix);
        let in_text = newest.replace(" ORDER", &format!(" WHERE {condition} ORDER"));
        for (scope, text) in [(&scope, newest), (&FeedScope::All, &in_text[..]), (&scope, &in_text)] {
            let found = answer(&fixture, &container, scope, (text, 100)).await;
            assert_eq!(found.rows, expected, "{text} in {scope:?}");
            assert!(found.charge_centi <= 2 * all.charge_centi, "{text} in {scope:?}: {found:?}");
        }
        let count = answer(&fixture, &container, &scope, ("SELECT VALUE COUNT(1) FROM c", 100)).await;
        assert_eq!(count.rows, [Value::Int(items)], "{prefix}");
    }
}

/// A query by the scope of its request, by its text, and by the range that holds the key alone: all
/// return the same rows.
async fn same_rows(
    fixture: &Fixture,
    container: &ContainerHandle,
    (literal, component): (&str, KeyComponent),
    (query, max_items): (&str, i64),
) -> Vec<Value> {
    let scopes = [key_scope(format!("[{literal}]")), range_of(container, vec![component])];
    let in_text = query.replace(" WHERE ", &format!(" WHERE c.customerId = {literal} AND "));
    let asked = [(&scopes[1], query), (&scopes[1], &in_text), (&FeedScope::All, &in_text)];
    let first = answer(fixture, container, &scopes[0], (query, max_items)).await.rows;
    for (scope, text) in asked {
        let found = answer(fixture, container, scope, (text, max_items)).await;
        assert_eq!(found.rows, first, "{text} in {scope:?}, {max_items} a page");
    }
    first
}

pub fn policy() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "{}",
        r#"{"includedPaths":[{"path":"/*"},{"path":"/a/?"}],"excludedPaths":[{"path":"/customerId/?"}]}"#,
        r#"{"includedPaths":[{"path":"/a/?"},{"path":"/b/?"}],"excludedPaths":[{"path":"/*"}]}"#,
        r#"{"includedPaths":[{"path":"/*"}],"compositeIndexes":[[{"path":"/customerId"},{"path":"/a","order":"descending"}],[{"path":"/a"},{"path":"/b"}]]}"#,
        r#"{"includedPaths":[{"path":"/*"}],"compositeIndexes":[[{"path":"/b"},{"path":"/a"}],[{"path":"/customerId"},{"path":"/b"}]]}"#,
    ])
}

/// Items of the keys "mine" and "other", in runs of one key, so that index entries of the other key are adjacent.
pub async fn of_two_keys(seeds: &[u64], policy: &str, mine: u64) -> (Fixture, ContainerHandle) {
    let fixture = Fixture::new().await;
    let mut definition = customers();
    definition.indexing_policy = serde_json::from_str(policy).expect("a policy");
    let container = fixture.container_with(definition, 400).await;
    for (number, seed) in seeds.iter().enumerate() {
        let customer = if (number as u64 / 50).is_multiple_of(mine) { "mine" } else { "other" };
        let a = value_of(*seed).map_or(String::new(), |a| format!(r#","a":{a}"#));
        let (b, s) = (seed / 5 % 6, if seed / 7 % 3 == 0 { "x" } else { "y" });
        let body = format!(r#"{{"id":"{number}","customerId":"{customer}","b":{b},"s":"{s}"{a}}}"#);
        put(&fixture, &container, &body).await;
    }
    (fixture, container)
}

/// Values of `a`: few, so that many are equal; long ones are alike as far as the index holds them.
fn value_of(seed: u64) -> Option<String> {
    match seed % 11 {
        0 | 1 => None,
        2 => Some("null".into()),
        3 => Some("true".into()),
        4 => Some(format!("\"{}{}\"", "long ".repeat(26), seed / 11 % 3)),
        5 => Some("[1]".into()),
        6 => Some("9007199254740993".into()),
        _ => Some((seed / 11 % 50).to_string()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10, max_shrink_iters: 20, ..ProptestConfig::default() })]

    /// Compares with a container without an index, whose rows are sorted here.
    #[test]
    fn scopes_texts_and_scans_agree(
        seeds in prop::collection::vec(any::<u64>(), 700..900),
        policy in policy(),
        descending in any::<bool>(),
        condition in prop::sample::select(vec!["true", "c.b > 3", "UPPER(c.s) = 'X'", "IS_DEFINED(c.a)", "c.b = 2"]),
        selection in prop::sample::select(vec!["", "TOP 7 ", "TOP 300 "]),
        max_items in prop::sample::select(vec![3i64, 40, 1000]),
        mine in prop::sample::select(vec![2u64, 3, 9]),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let (fixture, container) = of_two_keys(&seeds, policy, mine).await;
            let direction = if descending { " DESC" } else { "" };
            let query = format!("SELECT {selection}VALUE c.id FROM c WHERE {condition} ORDER BY c.a{direction}");
            // A subquery in FROM has no order: all rows, and their keys to sort by.
            let all = format!("SELECT VALUE [c.id, c.a ?? {{}}, IS_DEFINED(c.a)] FROM c WHERE {condition}");
            let found = answer(&fixture, &container, &key("mine"), (&all, 1000)).await.rows;
            let mut expected: Vec<(Value, Value, usize)> = found.iter().map(|row| {
                let Value::Array(parts) = row else { panic!("{row:?}") };
                let a = if parts[2] == Value::Bool(true) { parts[1].clone() } else { Value::Undefined };
                let number = parts[0].as_str().and_then(|id| id.parse().ok()).expect("an id");
                (parts[0].clone(), a, number)
            }).collect();
            // Rows of equal keys come in the order of writing, or against it where the key descends.
            expected.sort_by(|left, right| {
                let order = compare_sort_keys(&left.1, &right.1).then(left.2.cmp(&right.2));
                if descending { order.reverse() } else { order }
            });
            let top = selection.trim().strip_prefix("TOP ").map_or(usize::MAX, |top| top.parse().expect("a number"));
            let expected: Vec<Value> = expected.into_iter().take(top).map(|(id, ..)| id).collect();
            let found = same_rows(&fixture, &container, ("\"mine\"", text_component("mine")), (&query, max_items)).await;
            assert_eq!(found, expected, "{query}, {max_items} a page");
        });
    }
}

/// Strings that are equal as far as the index holds them; a filter without an index removes half of
/// them. Pages begin with a walk over the index or with the items of the key, and both forms
/// address the same position.
#[tokio::test]
async fn pages_that_end_among_strings_too_long_for_the_index_go_on_where_they_ended() {
    let long = "long ".repeat(26);
    for (direction, first) in [("", "0"), (" DESC", "2")] {
        let fixture = Fixture::new().await;
        let container = fixture.container_with(customers(), 400).await;
        // So many that the first page abandons its walk; on later pages, walks meet no more entries
        // than the key has items.
        for number in 0..400 {
            let body = format!(r#"{{"id":"{number}","customerId":"other","a":"{first}"}}"#);
            put(&fixture, &container, &body).await;
        }
        let mut expected = Vec::new();
        for number in 0..340 {
            // Items without a row come first in the order of the strings, and last.
            let (s, end) = match number % 4 {
                0 => ("x", number / 17 + 100),
                2 => ("y", 0),
                _ => ("y", 900),
            };
            let body = format!(r#"{{"id":"{number}","customerId":"mine","s":"{s}","a":"1 {long}{end}"}}"#);
            put(&fixture, &container, &body).await;
            if s == "x" {
                expected.push(Value::String(number.to_string()));
            }
        }
        if !direction.is_empty() {
            expected.reverse();
        }
        let query = format!("SELECT VALUE c.id FROM c WHERE UPPER(c.s) = 'X' ORDER BY c.a{direction}");
        for max_items in [7, 40, 84] {
            let found = answer(&fixture, &container, &key("mine"), (&query, max_items)).await;
            assert_eq!(found.rows, expected, "{query}, {max_items} a page");
        }
    }
}

/// If another item of the group is deleted between two pages, no other row is lost; if the last
/// item of a page is deleted, the position is lost.
#[tokio::test]
async fn a_page_goes_on_behind_its_last_item_or_says_that_it_is_gone() {
    let fixture = Fixture::new().await;
    let container = fixture.container_with(customers(), 400).await;
    let long = "long ".repeat(26);
    for number in 0..6 {
        let body = format!(r#"{{"id":"{number}","customerId":"mine","a":"{long}{number}"}}"#);
        put(&fixture, &container, &body).await;
    }
    // More than the limit for sorting without the index.
    for number in 0..600 {
        put(&fixture, &container, &format!(r#"{{"id":"z{number}","customerId":"mine","a":"z"}}"#)).await;
    }
    let query = ("SELECT TOP 6 VALUE c.id FROM c ORDER BY c.a", 3);
    let (first, token) = page(&fixture, &container, &key("mine"), query, None).await;
    assert_eq!(first.rows, ["0", "1", "2"].map(|id| Value::String(id.into())));
    let delete = async |id: &str| {
        fixture
            .account
            .delete_item(
                &fixture.ctx(),
                &container,
                Some(crate::support::json_door::KeyInput(r#"["mine"]"#)),
                id,
                &none(),
            )
            .await
            .expect("deletes");
    };
    delete("1").await;
    let (second, _) = page(&fixture, &container, &key("mine"), query, token.as_deref()).await;
    assert_eq!(second.rows, ["3", "4", "5"].map(|id| Value::String(id.into())));
    delete("2").await;
    let request = QueryRequest {
        text: query.0,
        parameters: &[],
        scope: key("mine"),
        max_items: Some(3),
        continuation: token.as_deref(),
        resume_filter: None,
        allows_cross_partition: true,
        fans_out: true,
        wants: QueryWants::default(),
    };
    let error =
        fixture.account.queries().query(&fixture.ctx(), &container, request).await.expect_err("no place");
    assert!(error.to_string().contains("start the query again"), "{error}");
}

#[tokio::test]
async fn keys_that_look_alike_are_told_apart() {
    let fixture = Fixture::new().await;
    let container = fixture.container_with(customers(), 400).await;
    let long = |end: &str| format!("\"{}{end}\"", "k".repeat(200));
    let keys = [
        ("null".to_owned(), KeyComponent::Null),
        ("true".to_owned(), KeyComponent::Bool(true)),
        ("7".to_owned(), KeyComponent::Number(7.0)),
        ("-2.5".to_owned(), KeyComponent::Number(-2.5)),
        ("\"7\"".to_owned(), text_component("7")),
        ("\"\"".to_owned(), text_component("")),
        (long("a"), text_component(long("a").trim_matches('"'))),
        (long("b"), text_component(long("b").trim_matches('"'))),
        ("9007199254740994".to_owned(), KeyComponent::Number(9_007_199_254_740_994.0)),
    ];
    for number in 0..3_200 {
        let customer = match keys.get(number % 10) {
            Some((literal, _)) => format!(r#","customerId":{literal}"#),
            None if number % 20 == 9 => String::new(),
            None => r#","customerId":[1]"#.to_owned(),
        };
        put(&fixture, &container, &format!(r#"{{"id":"{number}","n":{number}{customer}}}"#)).await;
    }
    let query = "SELECT TOP 4 VALUE c.n FROM c WHERE true ORDER BY c.n DESC";
    let newest = |rest: i64| -> Vec<Value> { (0..4).map(|row| Value::Int(3190 + rest - 10 * row)).collect() };
    for (rest, (literal, component)) in keys.iter().enumerate() {
        let expected = newest(rest as i64);
        let found = same_rows(&fixture, &container, (literal, component.clone()), (query, 100)).await;
        assert_eq!(found, expected, "{literal}");
    }
    // Missing values and non-scalars are one key; a text cannot name it.
    let without = key_scope("[{}]");
    let found = answer(&fixture, &container, &without, (query, 100)).await;
    assert_eq!(found.rows, newest(9));
    let count = answer(&fixture, &container, &without, ("SELECT VALUE COUNT(1) FROM c", 100)).await;
    assert_eq!(count.rows, [Value::Int(320)]);
}
