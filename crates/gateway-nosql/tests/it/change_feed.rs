//! The change feed as clients read it.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Answer, Call, ITEMS, Server, eventually};

pub const CONTAINER: &str = "/dbs/db/colls/items";

fn feed(server: &Server) -> Call<'_> {
    server.get(ITEMS).header("a-im", "Incremental feed")
}

pub fn after<'s>(call: Call<'s>, answer: &Answer) -> Call<'s> {
    call.header("if-none-match", answer.header("etag").expect("every answer has an etag"))
}

/// Ids of a page's items; none for an answer without a page.
fn ids(answer: &Answer) -> Vec<String> {
    assert_eq!(answer.header("x-ms-item-count").is_some(), answer.status < 400, "{answer:?}");
    if answer.status == 304 {
        return vec![];
    }
    assert_eq!(answer.status, 200, "{answer:?}");
    let page = answer.json();
    let documents = page["Documents"].as_array().expect("an array");
    assert_eq!(page["_count"], documents.len());
    documents.iter().map(|item| item["id"].as_str().expect("text").to_owned()).collect()
}

/// Reads pages until there is nothing new, and gives the ids with the last answer.
pub async fn read_all<'s>(call: impl Fn() -> Call<'s>, from: Option<&Answer>) -> (Vec<String>, Answer) {
    let first = call();
    let mut answer = match from {
        Some(from) => after(first, from).send().await,
        None => first.send().await,
    };
    let mut seen = Vec::new();
    while answer.status == 200 {
        seen.extend(ids(&answer));
        answer = after(call(), &answer).send().await;
    }
    (seen, answer.expect(304))
}

pub async fn replace(server: &Server, item: Value) {
    let key = json!([item["pk"]]).to_string();
    let id = item["id"].as_str().expect("text").to_owned();
    server.item("PUT", &id, &key).json(item).send().await.expect(200);
}

/// Splits a range, or merges two, and waits for the new ids.
pub async fn relocate(server: &Server, path: String, body: Value) -> Vec<String> {
    let begun = server.post(path).json(body).send().await.expect(202).json();
    let targets: Vec<String> = begun["targets"]
        .as_array()
        .expect("targets")
        .iter()
        .map(|id| id.as_str().expect("text").into())
        .collect();
    eventually("the targets are there", async || {
        let ranges = server.get(format!("{CONTAINER}/pkranges")).send().await.expect(200).json();
        let ranges = ranges["PartitionKeyRanges"].as_array().expect("an array").clone();
        targets.iter().all(|id| ranges.iter().any(|range| range["id"] == id.as_str()))
    })
    .await;
    targets
}

pub async fn split(server: &Server, id: &str) -> Vec<String> {
    relocate(server, format!("/_shardlake/v1{CONTAINER}/partitions/{id}/split"), json!({})).await
}

#[tokio::test]
async fn the_latest_version_of_every_item_comes_in_the_order_of_the_writes() {
    let server = Server::with_container().await;
    let empty = feed(&server).send().await.expect(304);
    assert_eq!(empty.header("etag"), Some("\"0\""));
    for id in ["a", "b", "c"] {
        server.create(json!({ "id": id, "pk": "k" })).await;
    }
    replace(&server, json!({ "id": "a", "pk": "k", "v": 2 })).await;
    server.item("DELETE", "b", r#"["k"]"#).send().await.expect(204);
    let page = feed(&server).send().await.expect(200);
    assert_eq!(ids(&page), ["c", "a"]);
    assert_eq!(page.json()["_rid"], page.header("x-ms-content-path").expect("the rid"));
    let documents = page.json()["Documents"].clone();
    assert_eq!(
        (&documents[0]["_lsn"], &documents[1]["_lsn"], &documents[1]["v"]),
        (&json!(3), &json!(4), &json!(2))
    );
    assert_eq!((page.header("etag"), page.header("x-ms-item-count")), (Some("\"5\""), Some("2")));
    assert_eq!((page.lsn(), page.header("x-ms-session-token")), (5, Some("0:1700000000000#5")));
    assert!(page.header("x-ms-continuation").is_none() && page.charge() >= 2.0);
    let nothing = after(feed(&server), &page).send().await.expect(304);
    assert_eq!((nothing.header("etag"), nothing.header("x-ms-item-count")), (Some("\"5\""), Some("0")));
    assert_eq!((nothing.lsn(), nothing.header("x-ms-session-token")), (5, Some("0:1700000000000#5")));
    server.create(json!({ "id": "d", "pk": "other" })).await;
    assert_eq!(ids(&after(feed(&server), &nothing).send().await), ["d"]);
}

#[tokio::test]
async fn pages_are_bounded_and_never_cut_a_transaction() {
    let server = Server::with_container().await;
    for number in 0..5 {
        server.create(json!({ "id": format!("i{number}"), "pk": "k" })).await;
    }
    let operation = |id: &str| json!({ "operationType": "Create", "resourceBody": { "id": id, "pk": "k" } });
    let batch = server.post(ITEMS).key(r#"["k"]"#).header("x-ms-cosmos-is-batch-request", "true");
    let batch = batch.header("x-ms-cosmos-batch-atomic", "true");
    batch.json(json!([operation("x"), operation("y"), operation("z")])).send().await.expect(200);
    let paged = || feed(&server).header("x-ms-max-item-count", "2");
    let first = paged().send().await;
    assert_eq!(ids(&first), ["i0", "i1"]);
    let second = after(paged(), &first).send().await;
    assert_eq!(ids(&second), ["i2", "i3"]);
    let third = after(paged(), &second).send().await;
    assert_eq!(ids(&third), ["i4"]);
    let fourth = after(paged(), &third).send().await;
    assert_eq!(ids(&fourth), ["x", "y", "z"]);
    after(paged(), &fourth).send().await.expect(304);
}

#[tokio::test]
async fn now_and_a_time_are_starts() {
    let server = Server::with_container().await;
    server.create(json!({ "id": "old", "pk": "k" })).await;
    let now = feed(&server).header("if-none-match", "*").send().await.expect(304);
    assert_eq!(now.header("etag"), Some("\"1\""));
    server.clock.advance(Duration::from_secs(10));
    server.create(json!({ "id": "new", "pk": "k" })).await;
    assert_eq!(ids(&after(feed(&server), &now).send().await), ["new"]);
    // 5 seconds after the first.
    let at = "Tue, 14 Nov 2023 22:13:25 GMT";
    let page = feed(&server).header("if-modified-since", at).send().await;
    assert_eq!(ids(&page), ["new"]);
    after(feed(&server).header("if-modified-since", at), &page).send().await.expect(304);
    // Both apply.
    let both = feed(&server).header("if-modified-since", at).header("if-none-match", "\"0\"").send().await;
    assert_eq!(ids(&both), ["new"]);
    let later =
        feed(&server).header("if-modified-since", "Tue, 14 Nov 2023 22:14:00 GMT").send().await.expect(304);
    assert_eq!(later.header("etag"), Some("\"2\""));
    // Dates as Go, mail programs and .NET write them; other texts are ignored.
    for at in ["Tue, 14 Nov 2023 22:13:25 UTC", "Tue, 14 Nov 2023 23:13:25 +0100", "2023-11-14T22:13:25Z"] {
        let page = feed(&server).header("if-modified-since", at).send().await;
        assert_eq!(ids(&page), ["new"], "{at}");
    }
    let all = feed(&server).header("if-modified-since", "yesterday").send().await;
    assert_eq!(ids(&all), ["old", "new"]);
}

/// The Java SDK reads `current` of each change also in the mode of latest versions.
#[tokio::test]
async fn latest_versions_have_metadata_for_clients_that_name_the_form() {
    let server = Server::with_container().await;
    server.create(json!({ "id": "a", "pk": "k", "n": 1 })).await;
    let of_form = |form| feed(&server).header("x-ms-cosmos-changefeed-wire-format-version", form);
    let page = of_form("2021-09-15").send().await.expect(200);
    let change = &page.json()["Documents"][0];
    assert_eq!((&change["current"]["id"], &change["current"]["n"]), (&json!("a"), &json!(1)));
    assert_eq!(change["metadata"]["lsn"], 1);
    assert_eq!(change["metadata"]["crts"], change["current"]["_ts"]);
    assert_eq!(page.json()["_count"], 1);
    after(of_form("2021-09-15"), &page).send().await.expect(304);
    let bare = of_form("").send().await.expect(200).json();
    assert_eq!((&bare["Documents"][0]["id"], &bare["Documents"][0]["_lsn"]), (&json!("a"), &json!(1)));
}

#[tokio::test]
async fn a_key_or_a_prefix_of_one_has_a_feed_of_its_own() {
    let server = Server::start().await;
    let key = json!({ "paths": ["/a", "/b"], "kind": "MultiHash", "version": 2 });
    server.create_container(json!({ "id": "items", "partitionKey": key })).await;
    for (id, a, b) in [("1", "x", "p"), ("2", "x", "q"), ("3", "y", "p"), ("4", "x", "p")] {
        let call = server.post(ITEMS).key(&json!([a, b]).to_string());
        call.json(json!({ "id": id, "a": a, "b": b })).send().await.expect(201);
    }
    let of = |key: &'static str| feed(&server).key(key);
    let (seen, end) = read_all(|| of(r#"["x","p"]"#).header("x-ms-max-item-count", "1"), None).await;
    assert_eq!((seen, end.header("etag")), (vec!["1".into(), "4".into()], Some("\"4\"")));
    let (seen, _) = read_all(|| of(r#"["x"]"#), None).await;
    assert_eq!(seen, ["1", "2", "4"]);
    assert_eq!(ids(&of(r#"["z"]"#).send().await.expect(304)), Vec::<String>::new());
}

#[tokio::test]
async fn positions_hold_across_splits_and_merges() {
    let server = Server::with_container().await;
    let write = async |from: usize, to: usize| {
        for number in from..to {
            server.create(json!({ "id": format!("i{number}"), "pk": format!("k{number}") })).await;
        }
    };
    write(0, 20).await;
    let of_range = |id: &str| feed(&server).header("x-ms-documentdb-partitionkeyrangeid", id);
    let whole = || feed(&server).header("x-ms-max-item-count", "3");
    let (before, position) = read_all(whole, None).await;
    assert_eq!(before.len(), 20);
    let middle = of_range("0").header("x-ms-max-item-count", "7").send().await;
    assert_eq!(ids(&middle).len(), 7);
    let children = split(&server, "0").await;
    of_range("0").send().await.refused(410, 1002, "");
    after(of_range("0"), &middle).send().await.refused(410, 1002, "");
    write(20, 40).await;
    // The rest of the parent's changes comes from both children, once.
    let mut rest = Vec::new();
    let mut ends = Vec::new();
    for child in &children {
        let (seen, end) = read_all(|| of_range(child), Some(&middle)).await;
        rest.extend(seen);
        ends.push(end);
    }
    rest.sort();
    let mut expected: Vec<String> = (7..40).map(|number| format!("i{number}")).collect();
    expected.sort();
    assert_eq!(rest, expected);
    // The feed of the whole container continues with a list of positions.
    let (mut seen, position) = read_all(whole, Some(&position)).await;
    seen.sort();
    assert_eq!(seen, (20..40).map(|number| format!("i{number}")).collect::<Vec<_>>());
    assert!(position.etag().contains(';'), "{position:?}");
    let ranges = server.get(format!("{CONTAINER}/pkranges")).send().await.expect(200).json();
    let bound = ranges["PartitionKeyRanges"][0]["maxExclusive"].as_str().expect("a bound").to_owned();
    let merge = format!("/_shardlake/v1{CONTAINER}/partitions/merge");
    let merged = relocate(&server, merge, json!({ "ids": children })).await.remove(0);
    write(40, 50).await;
    let expected: Vec<String> = (40..50).map(|number| format!("i{number}")).collect();
    let (mut seen, position) = read_all(whole, Some(&position)).await;
    seen.sort();
    assert_eq!(seen, expected);
    assert!(!position.etag().contains(';'), "{position:?}");
    // Each child's reader continues in its span of the merged range.
    let mut seen = Vec::new();
    for (end, (min, max)) in ends.iter().zip([("", &bound[..]), (&bound[..], "FF")]) {
        let window = || {
            of_range(&merged)
                .header("x-ms-read-key-type", "EffectivePartitionKeyRange")
                .header("x-ms-start-epk", min)
                .header("x-ms-end-epk", max)
        };
        seen.extend(read_all(window, Some(end)).await.0);
    }
    seen.sort();
    assert_eq!(seen, expected);
}

#[tokio::test]
async fn a_waiting_reader_hears_of_the_next_change() {
    let server = Server::with_container().await;
    server.create(json!({ "id": "old", "pk": "k" })).await;
    let now = feed(&server).header("if-none-match", "*").send().await.expect(304);
    let waiting =
        |wait: &str| after(feed(&server), &now).key(r#"["k"]"#).header("x-shardlake-feed-wait-ms", wait);
    let write = async {
        tokio::task::yield_now().await;
        server.create(json!({ "id": "elsewhere", "pk": "other" })).await;
        tokio::task::yield_now().await;
        server.create(json!({ "id": "new", "pk": "k" })).await;
    };
    let (answer, ()) = tokio::join!(waiting("60000").send(), write);
    assert_eq!(ids(&answer), ["new"]);
    // Nothing comes.
    let nothing =
        after(feed(&server), &answer).header("x-shardlake-feed-wait-ms", "20").send().await.expect(304);
    assert_eq!(nothing.header("etag"), Some("\"3\""));
    waiting("60001").send().await.refused(400, 0, "x-shardlake-feed-wait-ms");
    // A reader that waits on a range gets an error when the range is split; a reader of a key does not notice.
    let of_range = after(feed(&server), &answer).header("x-ms-documentdb-partitionkeyrangeid", "0");
    let of_key = after(feed(&server), &answer).key(r#"["k"]"#).header("x-shardlake-feed-wait-ms", "60000");
    let motion = async {
        tokio::task::yield_now().await;
        split(&server, "0").await;
        server.create(json!({ "id": "newer", "pk": "k" })).await;
    };
    let of_range = of_range.header("x-shardlake-feed-wait-ms", "60000");
    let (gone, found, ()) = tokio::join!(of_range.send(), of_key.send(), motion);
    gone.refused(410, 1002, "");
    assert_eq!(ids(&found), ["newer"]);
}

#[tokio::test]
async fn what_makes_no_sense_is_refused() {
    let server = Server::with_container().await;
    server.create(json!({ "id": "a", "pk": "k" })).await;
    server.get(ITEMS).header("a-im", "Some feed").send().await.refused(400, 0, "A-IM");
    for etag in ["\"x\"", "\"1;2\"", "\"-4\""] {
        feed(&server).header("if-none-match", etag).send().await.refused(400, 0, "etag");
    }
    // A position of an earlier life of the container, which had more changes.
    feed(&server).header("if-none-match", "\"99\"").send().await.refused(400, 0, "lies ahead");
    feed(&server)
        .header("x-ms-session-token", "0:1700000000000#99")
        .send()
        .await
        .refused(404, 1002, "session");
}
