//! Results without a sort come in the order of creation, in each logical partition: in queries, feeds and scripts, however many
//! items, partitions and pages there are.

use proptest::prelude::*;
use serde_json::Value;
use shardlake_account::{ContainerHandle, FeedScope, SplitAt, verify};
use shardlake_storage::{Shard, ShardOptions};

use crate::support::json_door::{JsonDoor, KeyInput, key_scope};
use crate::support::{Fixture, json, memory_shards, none};

/// Ids with an order unrelated to the order of their creation.
fn id(number: usize) -> String {
    format!("{:08x}", (number as u32).wrapping_mul(0x9E37_79B9))
}

async fn create(fixture: &Fixture, container: &ContainerHandle, pk: &str, number: usize) {
    let body = format!(
        r#"{{"id":"{}","pk":"{pk}","n":{number},"g":"g{}","tags":["x","y"]}}"#,
        id(number),
        number * 7 % 5
    );
    fixture.account.create_item(&fixture.ctx(), container, None, body.as_bytes()).await.expect("created");
}

fn text_of(row: &shardlake_account::Value) -> String {
    let mut text = Vec::new();
    row.write_json(&mut text).expect("it is JSON");
    String::from_utf8(text).expect("it is text")
}

async fn numbers(fixture: &Fixture, container: &ContainerHandle, text: &str, page: i64) -> Vec<u64> {
    let answer = fixture.answer(container, text, page).await.expect("an answer");
    answer.rows.iter().map(|row| text_of(row).parse().expect("a number")).collect()
}

async fn feed(
    fixture: &Fixture,
    container: &ContainerHandle,
    scope: &FeedScope,
    page: i64,
) -> Vec<(String, u64)> {
    let (mut found, mut token) = (Vec::new(), None::<String>);
    loop {
        let ctx = fixture.ctx();
        let read = fixture
            .account
            .items()
            .read_feed(&ctx, container, scope.clone(), Some(page), token.as_deref())
            .await;
        let read = read.expect("a page");
        for item in &read.items {
            let item = json(item);
            found
                .push((item["pk"].as_str().expect("text").to_owned(), item["n"].as_u64().expect("a number")));
        }
        token = read.continuation;
        if token.is_none() {
            return found;
        }
    }
}

/// Every way to read a logical partition with items in the order of these numbers.
async fn check(fixture: &Fixture, container: &ContainerHandle, pk: &str, expected: &[u64], page: i64) {
    let of = |text: &str| text.replace("KEY", pk);
    let all = numbers(fixture, container, &of("SELECT VALUE c.n FROM c WHERE c.pk = 'KEY'"), page).await;
    assert_eq!(all, expected, "all of {pk}, {page} a page");
    // No index serves it.
    let odd: Vec<u64> = expected.iter().copied().filter(|n| n % 2 == 1).collect();
    let text = of("SELECT VALUE c.n FROM c WHERE c.pk = 'KEY' AND ABS(c.n) % 2 = 1");
    assert_eq!(numbers(fixture, container, &text, page).await, odd, "filtered, {page} a page");
    let top =
        numbers(fixture, container, &of("SELECT TOP 5 VALUE c.n FROM c WHERE c.pk = 'KEY'"), page).await;
    assert_eq!(top, expected[..expected.len().min(5)]);
    let text = of("SELECT VALUE c.n FROM c WHERE c.pk = 'KEY' OFFSET 3 LIMIT 4");
    let middle = expected.iter().copied().skip(3).take(4).collect::<Vec<_>>();
    assert_eq!(numbers(fixture, container, &text, page).await, middle);
    let text = of("SELECT VALUE c.n FROM c JOIN t IN c.tags WHERE c.pk = 'KEY'");
    let twice: Vec<u64> = expected.iter().flat_map(|n| [*n, *n]).collect();
    assert_eq!(numbers(fixture, container, &text, page).await, twice, "joined, {page} a page");
    let mut groups: Vec<String> = Vec::new();
    for n in expected {
        let group = format!("\"g{}\"", n * 7 % 5);
        if !groups.contains(&group) {
            groups.push(group);
        }
    }
    // Only if they fit one page: groups of many pages are ordered by their hashes.
    let grouped = [
        "SELECT VALUE c.g FROM c WHERE c.pk = 'KEY' GROUP BY c.g",
        "SELECT DISTINCT VALUE c.g FROM c WHERE c.pk = 'KEY'",
    ];
    for text in grouped.iter().filter(|_| page > 5) {
        let rows = fixture.answer(container, &of(text), page).await.expect("an answer").rows;
        assert_eq!(rows.iter().map(text_of).collect::<Vec<_>>(), groups, "{text}");
    }
    let found = feed(fixture, container, &key_scope(format!(r#"["{pk}"]"#)), page).await;
    assert_eq!(found.iter().map(|(_, n)| *n).collect::<Vec<_>>(), expected, "feed, {page} a page");
}

#[tokio::test]
async fn few_and_many_items_come_as_they_were_created() {
    let fixture = Fixture::new().await;
    let container = fixture.container(400).await;
    for number in 0..300 {
        create(&fixture, &container, if number % 10 == 0 { "few" } else { "many" }, number).await;
    }
    let (few, many): (Vec<u64>, Vec<u64>) = (0..300).partition(|n| n % 10 == 0);
    for page in [1, 7, 100, 1000] {
        check(&fixture, &container, "few", &few, page).await;
        check(&fixture, &container, "many", &many, page).await;
    }
    // Over all of them, those of each key.
    let all = feed(&fixture, &container, &FeedScope::All, 9).await;
    for (pk, expected) in [("few", &few), ("many", &many)] {
        let of_key: Vec<u64> = all.iter().filter(|(key, _)| key == pk).map(|(_, n)| *n).collect();
        assert_eq!(of_key, *expected);
    }
}

#[tokio::test]
async fn more_items_than_are_put_in_order_come_each_once() {
    let fixture = Fixture::new().await;
    let container = fixture.container(400).await;
    let total = 4_500;
    for number in 0..total {
        create(&fixture, &container, "k", number).await;
    }
    let expected: Vec<u64> = (0..total as u64).collect();
    // Whatever makes a row of each item is in order, and so is a feed.
    assert_eq!(
        numbers(&fixture, &container, "SELECT VALUE c.n FROM c WHERE c.pk = 'k'", 1000).await,
        expected
    );
    let found = feed(&fixture, &container, &key_scope(r#"["k"]"#), 777).await;
    assert_eq!(found.into_iter().map(|(_, n)| n).collect::<Vec<_>>(), expected);
    // A filter that may pass over most of them is not.
    let text = "SELECT VALUE c.n FROM c WHERE c.pk = 'k' AND ABS(c.n) % 3 = 1";
    let mut filtered = numbers(&fixture, &container, text, 100).await;
    filtered.sort_unstable();
    assert_eq!(filtered, expected.iter().copied().filter(|n| n % 3 == 1).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_replaced_item_keeps_its_place_and_one_that_is_made_again_has_a_new_one() {
    let fixture = Fixture::new().await;
    let container = fixture.container(400).await;
    for number in 0..6 {
        create(&fixture, &container, "k", number).await;
    }
    let ctx = fixture.ctx();
    let body = format!(r#"{{"id":"{}","pk":"k","n":2,"g":"g4","tags":["x","y"],"more":true}}"#, id(2));
    fixture.account.upsert_item(&ctx, &container, None, body.as_bytes(), &none()).await.expect("replaced");
    let key = Some(KeyInput(r#"["k"]"#));
    fixture.account.delete_item(&ctx, &container, key, &id(1), &none()).await.expect("deleted");
    create(&fixture, &container, "k", 1).await;
    for page in [1, 2, 100] {
        check(&fixture, &container, "k", &[0, 2, 3, 4, 5, 1], page).await;
    }
}

#[tokio::test]
async fn a_script_sees_its_own_items_where_they_were_created() {
    let fixture = Fixture::new().await;
    let container = fixture.container(400).await;
    for number in 0..150 {
        create(&fixture, &container, "k", number).await;
    }
    let body = format!(
        "c.createDocument(self, {{id: '!first', pk: 'k', n: 150}}, must);
        c.deleteDocument(alt + '/docs/{}', must);
        c.upsertDocument(self, {{id: '{}', pk: 'k', n: 1}}, must);
        c.deleteDocument(alt + '/docs/{}', must);
        c.createDocument(self, {{id: '{}', pk: 'k', n: 3}}, must);
        const ids = [];
        const page = continuation => {{
            const next = (err, docs, info) => {{
                must(err);
                ids.push(...docs.map(d => d.n === undefined ? d : d.n));
                if (info.continuation) page(info.continuation); else done(ids);
            }};
            CALL
        }};
        page();",
        id(0),
        id(1),
        id(3),
        id(3)
    );
    let expected: Vec<u64> = [1, 2].into_iter().chain(4..150).chain([150, 3]).collect();
    for (call, undo) in [
        ("c.readDocuments(self, {pageSize: 9, continuation}, next);", true),
        ("c.queryDocuments(self, 'SELECT VALUE r.n FROM r', {pageSize: 9, continuation}, next);", false),
    ] {
        // The first one is undone by its error.
        let fails = if undo { " last(() => { throw new Error(JSON.stringify(ids)); }, 99);" } else { "" };
        let ran = fixture.ran("k", &format!("{}{fails}", body.replace("CALL", call))).await;
        let seen: Vec<u64> = match ran {
            Ok(seen) => serde_json::from_value(seen).expect("numbers"),
            Err(error) => {
                let text = error.message();
                let (from, to) = (text.find('[').expect("a list"), text.find(']').expect("its end"));
                serde_json::from_str(&text[from..=to]).expect("numbers")
            }
        };
        assert_eq!(seen, expected, "{call}");
    }
    check_whole(&fixture).await;
}

async fn check_whole(fixture: &Fixture) {
    let container = fixture.account.router().container("db", "c").expect("there");
    let found = feed(fixture, &container, &key_scope(r#"["k"]"#), 1000).await;
    let expected: Vec<u64> = [1, 2].into_iter().chain(4..150).chain([150, 3]).collect();
    assert_eq!(found.into_iter().map(|(_, n)| n).collect::<Vec<_>>(), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn partitions_that_split_merge_and_move_keep_the_order() {
    let shards = memory_shards(2).await;
    let fixture = Fixture::over(&shards).await;
    let container = fixture.container(400).await;
    let mut expected = vec![Vec::new(); 5];
    for number in 0..200 {
        create(&fixture, &container, &format!("k{}", number % 5), number).await;
        expected[number % 5].push(number as u64);
    }
    let split = fixture.account.maintenance().split(&container, 0, SplitAt::Middle).await.expect("begins");
    for number in 200..250 {
        create(&fixture, &container, &format!("k{}", number % 5), number).await;
        expected[number % 5].push(number as u64);
    }
    split.finished().await.expect("ends");
    let current = || fixture.account.router().container("db", "c").expect("there");
    let merge = fixture.account.maintenance().merge(&current(), &[1, 2]).await.expect("begins");
    for number in 250..300 {
        create(&fixture, &current(), &format!("k{}", number % 5), number).await;
        expected[number % 5].push(number as u64);
    }
    merge.finished().await.expect("ends");
    for number in 300..320 {
        create(&fixture, &current(), &format!("k{}", number % 5), number).await;
        expected[number % 5].push(number as u64);
    }
    for (key, expected) in expected.iter().enumerate() {
        for page in [3, 1000] {
            check(&fixture, &current(), &format!("k{key}"), expected, page).await;
        }
    }
    let report = verify(&shards).await.expect("readable");
    assert_eq!(report.problem_count(), 0, "{report:?}");
}

#[derive(Debug, Clone)]
enum Command {
    Write(u8, u8),
    Delete(u8, u8),
}

fn command() -> impl Strategy<Value = Command> {
    let place = || (0u8..3, any::<u8>());
    prop_oneof![
        4 => place().prop_map(|(pk, id)| Command::Write(pk, id)),
        1 => place().prop_map(|(pk, id)| Command::Delete(pk, id % 40)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn any_writes_leave_items_in_the_order_of_creation(
        commands in prop::collection::vec(command(), 1..120),
        page in prop_oneof![Just(1), Just(3), Just(1000)],
        throughput in prop_oneof![Just(400), Just(30_000)],
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let directory = tempfile::tempdir().expect("a directory");
            let open = || Shard::open(ShardOptions::local(directory.path()));
            let fixture = Fixture::over(vec![open().await.expect("opens")]).await;
            let container = fixture.container(throughput).await;
            let mut expected: Vec<Vec<String>> = vec![Vec::new(); 3];
            for command in &commands {
                let ctx = fixture.ctx();
                match command {
                    Command::Write(pk, id) => {
                        let id = (id % 40).to_string();
                        let body = format!(r#"{{"id":"{id}","pk":"k{pk}"}}"#);
                        let (account, none) = (&fixture.account, none());
                        account.upsert_item(&ctx, &container, None, body.as_bytes(), &none).await.expect("written");
                        let items = &mut expected[usize::from(*pk)];
                        if !items.contains(&id) {
                            items.push(id);
                        }
                    }
                    Command::Delete(pk, id) => {
                        let key = format!(r#"["k{pk}"]"#);
                        let _ = fixture.account
                            .delete_item(&ctx, &container, Some(KeyInput(&key)), &id.to_string(), &none())
                            .await;
                        expected[usize::from(*pk)].retain(|known| *known != id.to_string());
                    }
                }
            }
            check_ids(&fixture, &expected, page).await;
            fixture.account.close().await.expect("closes");
            drop((container, fixture));
            let reopened = Fixture::over(vec![open().await.expect("opens")]).await;
            check_ids(&reopened, &expected, page).await;
        });
    }
}

async fn check_ids(fixture: &Fixture, expected: &[Vec<String>], page: i64) {
    let container = fixture.account.router().container("db", "c").expect("there");
    let all = fixture.answer(&container, "SELECT c.pk, c.id FROM c", page).await.expect("an answer").rows;
    let all: Vec<Value> = all.iter().map(|row| serde_json::from_str(&text_of(row)).expect("JSON")).collect();
    for (pk, expected) in expected.iter().enumerate() {
        let text = format!("SELECT VALUE c.id FROM c WHERE c.pk = 'k{pk}'");
        let rows = fixture.answer(&container, &text, page).await.expect("an answer").rows;
        let ids: Vec<String> = rows.iter().map(|row| text_of(row).trim_matches('"').to_owned()).collect();
        assert_eq!(ids, *expected);
        let of_key = all.iter().filter(|row| row["pk"] == format!("k{pk}"));
        let of_key: Vec<&str> = of_key.map(|row| row["id"].as_str().expect("text")).collect();
        assert_eq!(of_key, *expected);
    }
}
