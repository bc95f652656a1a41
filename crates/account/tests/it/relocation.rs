//! Split, merge and move: existing data stays, concurrent writes are not lost, and clients find their way.

use crate::support::json_door::{JsonDoor, KeyInput};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use crate::support::{Fixture, eventually, json, memory_shards, none};
use shardlake_account::{
    Account, AccountOptions, ContainerHandle, FeedScope, KeyRange, Outcome, QueryRequest, RelocationHooks,
    RelocationKind, RelocationStep, Shards, SplitAt, verify,
};
use shardlake_model::{
    ContainerDefinition, ErrorKind, ExcludedPath, PartitionKeyDefinition, SessionToken, UniqueKey,
};
use shardlake_storage::fault::FaultEngine;
use shardlake_storage::{Durability, Shard, ShardOptions};
use shardlake_testkit::expects_log;

fn definition() -> ContainerDefinition {
    let mut definition = ContainerDefinition::new("c", PartitionKeyDefinition::hash("/pk"));
    definition.unique_key_policy.unique_keys = vec![UniqueKey { paths: vec!["/u".into()] }];
    definition
}

async fn write(fixture: &Fixture, container: &ContainerHandle, number: u64, value: u64) {
    let pk = format!("k{}", number % 17);
    let body =
        format!(r#"{{"id":"{number}","pk":"{pk}","v":{value},"u":"{number}-{value}","tags":["a","{pk}"]}}"#);
    let key = format!("[\"{pk}\"]");
    let reply = fixture
        .account
        .upsert_item(&fixture.ctx(), container, Some(KeyInput(&key)), body.as_bytes(), &none())
        .await
        .expect("written");
    assert!(matches!(reply.outcome, Outcome::Created | Outcome::Replaced));
}

fn current(fixture: &Fixture) -> ContainerHandle {
    fixture.account.router().container("db", "c").expect("there")
}

/// Every item by id, from a feed in small pages.
async fn items(fixture: &Fixture, container: &ContainerHandle, scope: FeedScope) -> BTreeMap<u64, u64> {
    let mut found = BTreeMap::new();
    let mut token = None;
    loop {
        let page = fixture
            .account
            .items()
            .read_feed(&fixture.ctx(), container, scope.clone(), Some(7), token.as_deref())
            .await
            .expect("a page");
        for item in &page.items {
            let item = json(item);
            let id = item["id"].as_str().expect("text").parse().expect("a number");
            assert!(found.insert(id, item["v"].as_u64().expect("a number")).is_none(), "item {id} twice");
        }
        token = page.continuation;
        if token.is_none() {
            return found;
        }
    }
}

async fn check(fixture: &Fixture, shards: &shardlake_account::Shards, expected: &BTreeMap<u64, u64>) {
    let container = current(fixture);
    assert_eq!(items(fixture, &container, FeedScope::All).await, *expected);
    for text in ["SELECT c.id FROM c WHERE c.v >= 0", "SELECT c.id FROM c WHERE ARRAY_CONTAINS(c.tags, 'a')"]
    {
        let answer = fixture.merged(&container, text, 9).await.expect("an answer");
        assert_eq!(answer.len(), expected.len(), "{text}");
    }
    let report = verify(shards).await.expect("readable");
    assert_eq!(report.problem_count(), 0, "{report:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn splits_merges_and_moves_keep_everything() {
    let shards = memory_shards(2).await;
    let fixture = Fixture::over(&shards).await;
    let container = fixture.container_with(definition(), 400).await;
    let mut expected = BTreeMap::new();
    for number in 0..200 {
        write(&fixture, &container, number, 0).await;
        expected.insert(number, 0);
    }
    let split = fixture.account.maintenance().split(&container, 0, SplitAt::Middle).await.expect("begins");
    assert_eq!(split.ranges, [1, 2]);
    // Through the handle of before, while it happens.
    for number in 150..250 {
        write(&fixture, &container, number, 1).await;
        expected.insert(number, 1);
    }
    let report = split.finished().await.expect("ends");
    assert_eq!(
        (report.kind, &report.sources[..], &report.targets[..]),
        (RelocationKind::Split, &[0][..], &[1, 2][..])
    );
    check(&fixture, &shards, &expected).await;
    let after = current(&fixture);
    assert_eq!(after.routing_generation(), 2);
    let ranges = after.partition_key_ranges();
    assert_eq!(
        ranges.iter().map(|range| (range.id, range.parents.clone())).collect::<Vec<_>>(),
        [(1, vec![0]), (2, vec![0])]
    );
    assert!(ranges.iter().all(|range| range.lsn > 200));

    let moved = fixture.account.maintenance().move_partition(&after, 2, 0).await;
    let moved = match moved {
        Ok(moved) => moved,
        Err(_) => fixture.account.maintenance().move_partition(&after, 2, 1).await.expect("begins"),
    };
    moved.finished().await.expect("ends");
    write(&fixture, &container, 300, 2).await;
    expected.insert(300, 2);
    check(&fixture, &shards, &expected).await;

    let again =
        fixture.account.maintenance().split(&current(&fixture), 1, SplitAt::Middle).await.expect("begins");
    again.finished().await.expect("ends");
    check(&fixture, &shards, &expected).await;
    let merge = fixture.account.maintenance().merge(&current(&fixture), &[4, 2]).await.expect("begins");
    merge.finished().await.expect("ends");
    let merge = fixture.account.maintenance().merge(&current(&fixture), &[3, 5]).await.expect("begins");
    for number in 0..100 {
        write(&fixture, &container, number, 3).await;
        expected.insert(number, 3);
    }
    merge.finished().await.expect("ends");
    check(&fixture, &shards, &expected).await;
    let ranges = current(&fixture).partition_key_ranges();
    assert_eq!(ranges.len(), 1);
    assert_eq!((ranges[0].id, &ranges[0].parents[..]), (6, &[0, 1, 2, 3, 4, 5][..]));

    drop(fixture);
    let fixture = Fixture::over(&shards).await;
    check(&fixture, &shards, &expected).await;
}

#[tokio::test]
async fn who_names_a_gone_range_is_told_and_sessions_go_on() {
    let fixture = Fixture::new().await;
    let container = fixture.container_with(definition(), 400).await;
    for number in 0..50 {
        write(&fixture, &container, number, 0).await;
    }
    let version = container.partition_key_ranges()[0].lsn;
    fixture
        .account
        .maintenance()
        .split(&container, 0, SplitAt::Middle)
        .await
        .expect("begins")
        .finished()
        .await
        .expect("ends");
    let scope = FeedScope::Range { range_id: Some(0), epk: None };
    for handle in [&container, &current(&fixture)] {
        let told = fixture.account.items().read_feed(&fixture.ctx(), handle, scope.clone(), None, None).await;
        assert_eq!(told.expect_err("gone").kind(), ErrorKind::PartitionGone);
    }
    // A token of the parent holds for its children, which are at least as far.
    let mut ctx = fixture.ctx();
    let reply = fixture
        .account
        .read_item(&ctx, &container, Some(KeyInput("[\"k3\"]")), "3", &none())
        .await
        .expect("read through an old handle");
    assert!(reply.meta.lsn > version);
    ctx.session = SessionToken::parse(&format!("0:{}#{}", reply.meta.session_version, version + 10_000));
    let behind = fixture.account.read_item(&ctx, &container, Some(KeyInput("[\"k3\"]")), "3", &none()).await;
    assert_eq!(behind.expect_err("behind").kind(), ErrorKind::SessionNotAvailable);
    ctx.session = SessionToken::parse(&format!("0:{}#{version}", reply.meta.session_version));
    fixture
        .account
        .read_item(&ctx, &container, Some(KeyInput("[\"k3\"]")), "3", &none())
        .await
        .expect("reached");
}

#[tokio::test]
async fn a_reader_of_the_log_goes_on_in_the_children_and_in_the_merged() {
    let fixture = Fixture::new().await;
    let container = fixture.container_with(definition(), 400).await;
    for number in 0..30 {
        write(&fixture, &container, number, 0).await;
    }
    let account = &fixture.account;
    let full = KeyRange::full();
    let page = account.items().changes(&container, 0, &full, 0, 1000).await.expect("the log");
    assert_eq!((page.entries.len(), page.last_lsn, page.is_last), (30, 30, true));
    account
        .maintenance()
        .split(&container, 0, SplitAt::Middle)
        .await
        .expect("begins")
        .finished()
        .await
        .expect("ends");
    for number in 0..30 {
        write(&fixture, &container, number, 1).await;
    }
    let gone = account.items().changes(&container, 0, &full, 30, 1000).await;
    assert_eq!(gone.expect_err("gone").kind(), ErrorKind::PartitionGone);
    let mut seen = 0;
    for range in current(&fixture).partition_key_ranges() {
        let page = account.items().changes(&container, range.id, &full, 30, 1000).await.expect("the log");
        assert!(page.entries.iter().all(|(lsn, _)| *lsn > 30));
        seen += page.entries.len();
    }
    assert_eq!(seen, 30);
    account.maintenance().merge(&container, &[1, 2]).await.expect("begins").finished().await.expect("ends");
    let page = account.items().changes(&container, 3, &full, 0, 1000).await.expect("the log");
    let operations: usize = page.entries.iter().map(|(_, entry)| entry.operations.len()).sum();
    assert_eq!(operations, 60);
}

#[tokio::test]
async fn what_cannot_be_done_is_refused_and_changes_nothing() {
    let fixture = Fixture::new().await;
    let container = fixture.container_with(definition(), 12_000).await;
    let account = &fixture.account;
    let kind = |refused: shardlake_model::Result<_>| -> ErrorKind {
        let refused: shardlake_model::Result<shardlake_account::RelocationTicket> = refused;
        refused.expect_err("refused").kind()
    };
    assert_eq!(
        kind(account.maintenance().split(&container, 7, SplitAt::Middle).await),
        ErrorKind::PartitionGone
    );
    for bound in ["", "20", "3F", "zz", "FF"] {
        let at = SplitAt::Epk(bound.into());
        assert_eq!(
            kind(account.maintenance().split(&container, 0, at).await),
            ErrorKind::BadRequest,
            "{bound}"
        );
    }
    for ids in [&[0][..], &[0, 0], &[]] {
        assert_eq!(
            kind(account.maintenance().merge(&container, ids).await),
            ErrorKind::BadRequest,
            "{ids:?}"
        );
    }
    assert_eq!(kind(account.maintenance().merge(&container, &[0, 9]).await), ErrorKind::PartitionGone);
    assert_eq!(kind(account.maintenance().move_partition(&container, 0, 0).await), ErrorKind::BadRequest);
    assert_eq!(kind(account.maintenance().move_partition(&container, 0, 1).await), ErrorKind::BadRequest);
    assert!(!account.maintenance().abort_relocation(&container).await.expect("nothing to abort"));
    assert_eq!(current(&fixture).routing_generation(), 1);
}

/// Background work releases a closed shard slightly later.
async fn opened(options: ShardOptions) -> Shard {
    let mut opened = None;
    eventually("a closed shard is let go", async || {
        opened = match Shard::open(options.clone()).await {
            Err(shardlake_storage::StorageError::Locked { .. }) => None,
            opened => Some(opened.expect("opens")),
        };
        opened.is_some()
    })
    .await;
    opened.expect("it was waited for")
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_disk_and_after_restarts() {
    let directory = tempfile::tempdir().expect("a directory");
    let open = || async {
        let mut shards = Vec::new();
        for number in 0..2 {
            let options = ShardOptions::local(directory.path().join(number.to_string()));
            shards.push(opened(options).await);
        }
        shardlake_account::Shards::from(shards)
    };
    let mut expected = BTreeMap::new();
    for round in 0..3u64 {
        let shards = open().await;
        let fixture = Fixture::over(&shards).await;
        let container = match round {
            0 => fixture.container_with(definition(), 400).await,
            _ => current(&fixture),
        };
        for number in 0..300 {
            write(&fixture, &container, number + round * 100, round).await;
            expected.insert(number + round * 100, round);
        }
        let id = container.partition_key_ranges()[0].id;
        let ticket = match round {
            1 => fixture.account.maintenance().move_partition(&container, id, 1).await,
            _ => fixture.account.maintenance().split(&container, id, SplitAt::Middle).await,
        };
        for number in 0..100 {
            write(&fixture, &container, number, round + 10).await;
            expected.insert(number, round + 10);
        }
        ticket.expect("begins").finished().await.expect("ends");
        check(&fixture, &shards, &expected).await;
        fixture.account.close().await.expect("closes");
    }
    let shards = open().await;
    check(&Fixture::over(&shards).await, &shards, &expected).await;
}

/// A paged query returns every item once, in index order, although its ranges are split and merged between its pages.
#[tokio::test]
async fn a_paged_query_goes_on_through_splits_and_merges() {
    for text in [
        "SELECT c.id FROM c",
        "SELECT c.id FROM c WHERE c.v >= 0 AND c.v < 90",
        "SELECT c.id FROM c WHERE STARTSWITH(c.pk, 'k')",
    ] {
        for order in [["split", "merge"], ["merge", "split"]] {
            let fixture = Fixture::new().await;
            // No more throughput than one partition has, so that merged partitions stay merged.
            let container = fixture.container_with(definition(), 400).await;
            let split =
                fixture.account.maintenance().split(&container, 0, SplitAt::Middle).await.expect("begins");
            split.finished().await.expect("ends");
            for number in 0..120 {
                write(&fixture, &container, number, number * 7 % 101).await;
            }
            let expected = fixture.answer(&container, text, 1000).await.expect("an answer").rows.len();
            let (mut token, mut found, mut pages) = (None::<String>, Vec::new(), 0);
            loop {
                let handle = current(&fixture);
                let request = crate::support::queries::request(text, 5, token.as_deref());
                let reply =
                    fixture.account.queries().query(&fixture.ctx(), &handle, request).await.expect("a page");
                found.extend(reply.rows.iter().map(<[u8]>::to_vec));
                token = reply.continuation;
                if token.is_none() {
                    break;
                }
                pages += 1;
                if pages % 3 == 0 && pages <= 12 {
                    let ranges = handle.partition_key_ranges();
                    let motion = order[pages / 3 % 2];
                    let last = ranges.len() - 1;
                    let ticket = match motion {
                        "merge" if ranges.len() > 1 => {
                            fixture
                                .account
                                .maintenance()
                                .merge(&handle, &[ranges[last - 1].id, ranges[last].id])
                                .await
                        }
                        _ => {
                            fixture.account.maintenance().split(&handle, ranges[0].id, SplitAt::Middle).await
                        }
                    };
                    ticket.expect("begins").finished().await.expect("ends");
                }
            }
            let count = found.len();
            found.sort();
            found.dedup();
            assert_eq!((found.len(), count), (expected, expected), "{text} {order:?}");
        }
    }
}

fn in_range_two<'a>(text: &'a str, token: Option<&'a str>) -> QueryRequest<'a> {
    let scope = FeedScope::Range { range_id: Some(2), epk: None };
    QueryRequest { scope, ..crate::support::queries::request(text, 5, token) }
}

fn row_json(row: &[u8]) -> serde_json::Value {
    serde_json::from_slice(row).expect("rows are JSON")
}

/// Answers of a query for a client that continues by the id of the range that it began in, while
/// that range is split and merged.
#[tokio::test]
async fn who_began_a_query_in_a_range_ends_it_by_the_same_id() {
    for (text, is_ordered) in [
        ("SELECT c.id AS payload FROM c", false),
        ("SELECT c._rid, [{'item': c.v}] AS orderByItems, c.id AS payload FROM c ORDER BY c.v", true),
        ("SELECT c._rid, [{'item': c.v}] AS orderByItems, c.id AS payload FROM c ORDER BY c.v DESC", true),
    ] {
        let fixture = Fixture::new().await;
        let container = fixture.container_with(definition(), 400).await;
        let account = &fixture.account;
        account
            .maintenance()
            .split(&container, 0, SplitAt::Middle)
            .await
            .expect("begins")
            .finished()
            .await
            .expect("ends");
        for number in 0..160 {
            write(&fixture, &container, number, number * 7 % 11).await;
        }
        let whole = QueryRequest { max_items: Some(1000), ..in_range_two(text, None) };
        let whole = account
            .queries()
            .query(&fixture.ctx(), &current(&fixture), whole)
            .await
            .expect("all of the range");
        let (mut token, mut found) = (None::<String>, Vec::new());
        for page in 0.. {
            let handle = current(&fixture);
            let reply = account
                .queries()
                .query(&fixture.ctx(), &handle, in_range_two(text, token.as_deref()))
                .await
                .expect("a page");
            found.extend(reply.rows.iter().map(row_json));
            token = reply.continuation;
            if token.is_none() {
                assert!(page > 7, "everything happened while the query was read");
                break;
            }
            let ids: Vec<u32> = handle.partition_key_ranges().iter().map(|range| range.id).collect();
            let last = ids.len() - 1;
            // The last merge joins the rest of the range with an unrelated range.
            let ticket = match page {
                0 | 2 => account.maintenance().split(&handle, ids[last], SplitAt::Middle).await,
                4 | 6 => account.maintenance().merge(&handle, &ids[last - 1..]).await,
                7 => account.maintenance().merge(&handle, &ids).await,
                _ => continue,
            };
            ticket.expect("begins").finished().await.expect("ends");
        }
        let handle = current(&fixture);
        let told = account.queries().query(&fixture.ctx(), &handle, in_range_two(text, None)).await;
        assert_eq!(told.expect_err("a query that begins is told").kind(), ErrorKind::PartitionGone);
        let key = |row: &serde_json::Value| row["orderByItems"][0]["item"].as_u64();
        let mut expected: Vec<_> = whole.rows.iter().map(row_json).collect();
        if is_ordered {
            let keys = |rows: &[serde_json::Value]| rows.iter().map(key).collect::<Vec<_>>();
            assert_eq!(keys(&found), keys(&expected), "{text}");
        }
        found.sort_by_key(|row| row["payload"].to_string());
        expected.sort_by_key(|row| row["payload"].to_string());
        assert_eq!(found, expected, "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn raised_throughput_cuts_partitions_and_says_so() {
    let fixture = Fixture::new().await;
    let container = fixture.container_with(definition(), 400).await;
    for number in 0..50 {
        write(&fixture, &container, number, 0).await;
    }
    let account = &fixture.account;
    let offer =
        account.definitions().offers().into_iter().find(|offer| offer.resource_rid == container.rid_text());
    let offer = offer.expect("an offer");
    let raise = async |throughput| {
        let throughput = shardlake_model::Throughput::Manual(throughput);
        let offer = account
            .definitions()
            .replace_offer(&fixture.ctx(), &offer.rid.to_string(), throughput, &none())
            .await;
        offer.expect("replaced")
    };
    // One partition may have up to 10,000.
    let offer_now = raise(10_000).await;
    assert!(!account.maintenance().is_throughput_pending(&offer_now).await.expect("known"));
    let offer_now = raise(25_000).await;
    assert!(account.maintenance().is_throughput_pending(&offer_now).await.expect("known"));
    // As the handle of before sees it: the range is due, or being cut.
    assert_eq!(account.maintenance().ranges_being_split(&container).await.expect("known"), [0]);
    eventually("three partitions", async || current(&fixture).partition_key_ranges().len() == 3).await;
    assert!(!account.maintenance().is_throughput_pending(&offer_now).await.expect("known"));
    raise(400).await;
    // The balancing task checks all containers: once it has split another one, it has seen this one too.
    let control = ContainerDefinition::new("control", PartitionKeyDefinition::hash("/pk"));
    let control = fixture.container_with(control, 400).await;
    let offer =
        account.definitions().offers().into_iter().find(|offer| offer.resource_rid == control.rid_text());
    let offer = offer.expect("an offer");
    let more = shardlake_model::Throughput::Manual(25_000);
    account
        .definitions()
        .replace_offer(&fixture.ctx(), &offer.rid.to_string(), more, &none())
        .await
        .expect("replaced");
    let control = || account.router().container("db", "control").expect("there");
    eventually("the control is cut", async || control().partition_key_ranges().len() == 3).await;
    assert_eq!(current(&fixture).partition_key_ranges().len(), 3, "less throughput merges nothing by itself");
}

/// Its log entry must not take the place of the first one of the new partition.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_whose_client_went_away_keeps_its_place_in_the_log() {
    let engine = Arc::new(FaultEngine::new());
    let options = ShardOptions { durability: Durability::Sync, ..ShardOptions::memory() };
    let shards = Shards::from(Shard::with_engine(engine.clone(), &options).expect("opens"));
    let fixture = Arc::new(Fixture::over(&shards).await);
    let container = fixture.container_with(definition(), 400).await;
    let mut expected = BTreeMap::new();
    for number in 0..20 {
        write(&fixture, &container, number, 0).await;
        expected.insert(number, 0);
    }
    engine.stall_syncs(true);
    let applies = engine.applies();
    let leaving = tokio::spawn({
        let (fixture, container) = (fixture.clone(), container.clone());
        async move { write(&fixture, &container, 7, 1).await }
    });
    eventually("applied", async || engine.applies() > applies).await;
    leaving.abort();
    let _gone = leaving.await;
    engine.stall_syncs(false);
    expected.insert(7, 1);
    let split = fixture.account.maintenance().split(&container, 0, SplitAt::Middle).await.expect("begins");
    split.finished().await.expect("ends");
    check(&fixture, &shards, &expected).await;
}

/// A report without a relocation has the end of the last one.
#[tokio::test]
async fn a_relocation_is_seen_until_its_end_is() {
    let shards = memory_shards(1).await;
    let (seen, account) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(None::<Account>)));
    let (looks, looked_at) = (seen.clone(), account.clone());
    let goes_on = move |_| {
        let account = looked_at.lock().expect("no panic").clone().expect("set");
        let container = account.router().container("db", "c").expect("there");
        let is_running = container.relocation().is_some();
        looks.lock().expect("no panic").push((is_running, container.last_relocation().is_some()));
        true
    };
    let hooks = RelocationHooks { goes_on: Some(Arc::new(goes_on)), bug: None };
    let options = AccountOptions { hooks, ..AccountOptions::default() };
    let shard = shards.iter().next().expect("one").clone();
    let fixture = Fixture::over_with(&shard, options).await;
    *account.lock().expect("no panic") = Some(fixture.account.clone());
    let container = fixture.container_with(definition(), 400).await;
    write(&fixture, &container, 1, 0).await;
    let split = fixture.account.maintenance().split(&container, 0, SplitAt::Middle).await.expect("begins");
    split.finished().await.expect("done");
    *account.lock().expect("no panic") = None;
    assert_eq!(*seen.lock().expect("no panic"), [(true, false); RelocationStep::ALL.len()]);
    let container = fixture.account.router().container("db", "c").expect("there");
    assert!(container.relocation().is_none() && container.last_relocation().is_some());
}

/// Copies made for one generation of the index have no postings of the next: queries would find nothing.
#[tokio::test]
async fn relocation_that_resumes_under_another_index_copies_anew() {
    let shards = memory_shards(1).await;
    expects_log("stopped after 'copied'");
    let goes_on = |step| step != RelocationStep::Copied;
    let hooks = RelocationHooks { goes_on: Some(Arc::new(goes_on)), bug: None };
    let options = AccountOptions { hooks, ..AccountOptions::default() };
    let shard = shards.iter().next().expect("one").clone();
    let fixture = Fixture::over_with(&shard, options).await;
    let container = fixture.container_with(definition(), 400).await;
    let mut expected = BTreeMap::new();
    for number in 0..40 {
        write(&fixture, &container, number, 0).await;
        expected.insert(number, 0);
    }
    let split = fixture.account.maintenance().split(&container, 0, SplitAt::Middle).await.expect("begins");
    split.finished().await.expect_err("stopped behind the copy");
    let mut other = definition();
    other.indexing_policy.excluded_paths.push(ExcludedPath { path: "/elsewhere/*".into() });
    let account = &fixture.account;
    account
        .definitions()
        .replace_container(&fixture.ctx(), "db", "c", other, &none())
        .await
        .expect("replaced");
    let container = || account.router().container("db", "c").expect("there");
    eventually("the new generation serves", async || container().index_progress() == 100).await;
    // As after a kill: the relocation continues where it stopped.
    let reopened = Fixture::over(&shards).await;
    let container = || reopened.account.router().container("db", "c").expect("there");
    eventually("the split is done", async || container().relocation().is_none()).await;
    assert_eq!(container().partition_key_ranges().len(), 2);
    check(&reopened, &shards, &expected).await;
}

/// An item that is given the id of a deleted one keeps its ordinal, and so its rows by it,
/// whichever of the ids the log names first.
#[tokio::test]
async fn an_item_that_takes_the_id_of_another_during_a_split_keeps_its_rows() {
    let shards = memory_shards(1).await;
    expects_log("stopped after 'copied'");
    let hooks = RelocationHooks { goes_on: Some(Arc::new(|step| step != RelocationStep::Copied)), bug: None };
    let options = AccountOptions { hooks, ..AccountOptions::default() };
    let shard = shards.iter().next().expect("one").clone();
    let fixture = Fixture::over_with(&shard, options).await;
    let container = fixture.container_with(definition(), 400).await;
    for number in 0..40 {
        write(&fixture, &container, number, 0).await;
    }
    let split = fixture.account.maintenance().split(&container, 0, SplitAt::Middle).await.expect("begins");
    split.finished().await.expect_err("stopped behind the copy");
    let account = &fixture.account;
    let mut expected: BTreeMap<u64, u64> = (0..40).map(|number| (number, 0)).collect();
    // A number that is 17 higher is in the same logical partition.
    for (taken, number) in [(17, 0), (18, 1), (19, 2), (20, 3)] {
        let pk = format!("k{}", number % 17);
        let key = format!("[\"{pk}\"]");
        let key = || Some(KeyInput(&key));
        account
            .delete_item(&fixture.ctx(), &container, key(), &taken.to_string(), &none())
            .await
            .expect("deleted");
        let body = format!(r#"{{"id":"{taken}","pk":"{pk}","v":7,"u":"{number}-0","tags":["a","{pk}"]}}"#);
        let (ctx, id) = (fixture.ctx(), number.to_string());
        account.replace_item(&ctx, &container, key(), &id, body.as_bytes(), &none()).await.expect("renamed");
        expected.remove(&number);
        expected.insert(taken, 7);
    }
    let reopened = Fixture::over(&shards).await;
    let container = || reopened.account.router().container("db", "c").expect("there");
    eventually("the split is done", async || container().relocation().is_none()).await;
    assert_eq!(container().partition_key_ranges().len(), 2);
    check(&reopened, &shards, &expected).await;
}
