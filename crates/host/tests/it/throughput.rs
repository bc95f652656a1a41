//! Containers are held to their throughput: over simulated time each gets its set throughput, and
//! refusals carry the time to wait.

use crate::support::json_door::{BatchKind, BatchOperation, JsonDoor, KeyInput};
use std::time::Duration;

use crate::support::{Fixture, none};
use shardlake_account::{
    AccountOptions, BulkOnError, CapacityMode, ContainerHandle, Enforcement, FeedScope, QueryRequest,
    QueryWants, SplitAt, ThroughputReport,
};
use shardlake_model::{
    Autoscale, ContainerDefinition, Error, ErrorKind, PartitionKeyDefinition, Priority, ReplyMeta,
    RequestContext, Throughput,
};

const SECONDS: u64 = 30;
/// Hundredths of a request unit for reading one of the items here.
const READ_CENTI: u64 = 100;

fn ctx(fixture: &Fixture, priority: Priority) -> RequestContext {
    RequestContext { priority, ..fixture.ctx() }
}

/// A container `id` with items of keys `k0` to `k99`, written outside every budget.
async fn container(fixture: &Fixture, id: &str, throughput: Option<Throughput>) -> ContainerHandle {
    if fixture.account.router().database("db").is_err() {
        fixture.account.definitions().create_database(&fixture.ctx(), "db", None).await.expect("created");
    }
    let definition = ContainerDefinition::new(id, PartitionKeyDefinition::hash("/pk"));
    let container =
        fixture.account.definitions().create_container(&fixture.ctx(), "db", definition, throughput).await;
    let container = container.expect("created");
    for number in 0..100 {
        let body = format!(r#"{{"id":"i","pk":"k{number}"}}"#);
        fixture
            .account
            .create_item(&fixture.ctx(), &container, None, body.as_bytes())
            .await
            .expect("created");
    }
    container
}

async fn read(
    fixture: &Fixture,
    container: &ContainerHandle,
    key: u64,
    priority: Priority,
) -> Result<u64, Error> {
    let key = format!(r#"["k{}"]"#, key % 100);
    let ctx = ctx(fixture, priority);
    let reply = fixture.account.read_item(&ctx, container, Some(KeyInput(&key)), "i", &none()).await?;
    Ok(reply.meta.charge_centi)
}

/// One client of a container, which requests `asks` RU/s of reads.
struct Client<'c> {
    container: &'c ContainerHandle,
    asks: u64,
    priority: Priority,
    /// Always this one, or all keys in rotation.
    key: Option<u64>,
}

impl Client<'_> {
    fn of(container: &ContainerHandle, asks: u64) -> Client<'_> {
        Client { container, asks, priority: Priority::High, key: None }
    }
}

/// Charges and refusals of each client, over simulated time in steps of 10 ms.
async fn run(fixture: &Fixture, clients: &[Client<'_>], seconds: u64) -> Vec<(u64, u64)> {
    let mut totals = vec![(0, 0); clients.len()];
    let mut asked = 0;
    for step in 1..=seconds * 100 {
        for (client, total) in clients.iter().zip(&mut totals) {
            let (before, after) = ((step - 1) * client.asks / 100, step * client.asks / 100);
            for _ in before..after {
                asked += 1;
                match read(fixture, client.container, client.key.unwrap_or(asked * 7), client.priority).await
                {
                    Ok(charge_centi) => total.0 += charge_centi,
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::TooManyRequests, "{error}");
                        assert!(error.retry_after_ms().expect("told") >= 1);
                        assert_eq!(error.meta().charge_centi, 0, "a refusal is free");
                        total.1 += 1;
                    }
                }
            }
        }
        fixture.clock.advance(Duration::from_millis(10));
    }
    totals
}

fn assert_near(charged_centi: u64, units: u64, percent: u64) {
    let wanted = units * 100;
    let off = charged_centi.abs_diff(wanted) * 100;
    assert!(off <= wanted * percent, "{charged_centi} is not within {percent} % of {wanted}");
}

#[tokio::test]
async fn a_client_at_twice_its_budget_gets_its_budget() {
    let fixture = Fixture::new().await;
    let c = container(&fixture, "c", Some(Throughput::Manual(400))).await;
    let totals = run(&fixture, &[Client::of(&c, 800)], SECONDS).await;
    assert_near(totals[0].0, 400 * SECONDS, 4);
    assert!(totals[0].1 >= 11_000, "the rest is refused: {totals:?}");
}

#[tokio::test]
async fn five_partitions_hand_out_a_fifth_each_and_a_hot_key_gets_one_share() {
    let fixture = Fixture::new().await;
    let c = container(&fixture, "c", Some(Throughput::Manual(30_000))).await;
    let hot = Client { key: Some(3), ..Client::of(&c, 30_000) };
    let totals = run(&fixture, &[hot], 3).await;
    let most = (6_000 * 3 + 6_000) * 100 + READ_CENTI;
    assert!(totals[0].0 <= most, "{totals:?} is more than {most}");
    assert!(totals[0].0 >= 6_000 * 3 * 100);
    let cool: Vec<u64> = c.partition_key_ranges().iter().map(|range| u64::from(range.id)).collect();
    let report = fixture.account.router().throughput_of(&c);
    assert_eq!(report.partitions.iter().filter(|(_, budget)| budget.refused > 0).count(), 1);
    assert!(cool.len() == 5 && report.partitions.iter().all(|(_, budget)| budget.rate_centi == 600_000));
}

#[tokio::test]
async fn a_neighbour_is_not_refused_for_another_containers_load() {
    let fixture = Fixture::new().await;
    let busy = container(&fixture, "busy", Some(Throughput::Manual(400))).await;
    let calm = container(&fixture, "calm", Some(Throughput::Manual(400))).await;
    let totals = run(&fixture, &[Client::of(&busy, 2_000), Client::of(&calm, 100)], 10).await;
    assert!(totals[0].1 > 0);
    assert_eq!(totals[1], (100 * 10 * 100, 0));
}

#[tokio::test]
async fn low_priority_is_refused_first() {
    let fixture = Fixture::new().await;
    let c = container(&fixture, "c", Some(Throughput::Manual(400))).await;
    let low = Client { priority: Priority::Low, ..Client::of(&c, 400) };
    let totals = run(&fixture, &[Client::of(&c, 380), low], SECONDS).await;
    assert_eq!(totals[0], (380 * SECONDS * 100, 0), "high priority has its wish");
    assert!(totals[1].0 >= 20 * SECONDS * 100 && totals[1].1 > 0, "low priority has the rest: {totals:?}");
    let alone = Client { priority: Priority::Low, ..Client::of(&c, 800) };
    let totals = run(&fixture, &[alone], SECONDS).await;
    assert_near(totals[0].0, 400 * SECONDS, 4);
}

#[tokio::test]
async fn the_servers_own_work_that_pays_is_refused_as_requests_of_low_priority_are() {
    let fixture = Fixture::new().await;
    let c = container(&fixture, "c", Some(Throughput::Manual(400))).await;
    let alone = Client { priority: Priority::Background, ..Client::of(&c, 800) };
    let (charged, refused) = run(&fixture, &[alone], 10).await[0];
    assert!(charged > 0 && charged <= (400 * 10 + 400) * 100, "{charged} of a budget of 400 a second");
    assert!(refused > 0, "it waits for the budget as others do");
    let report = fixture.account.router().throughput_of(&c);
    assert!(report.partitions.iter().any(|(_, budget)| budget.refused > 0));
    // A client that uses all of the budget leaves it next to nothing.
    let client = Client::of(&c, 400);
    let own = Client { priority: Priority::Background, ..Client::of(&c, 400) };
    let totals = run(&fixture, &[client, own], 10).await;
    assert!(totals[0].0 > 5 * totals[1].0, "{totals:?}");
}

#[tokio::test]
async fn the_servers_own_work_is_in_no_budget_and_is_never_refused() {
    let fixture = Fixture::new().await;
    let c = container(&fixture, "c", Some(Throughput::Manual(400))).await;
    let own = Client { priority: Priority::System, ..Client::of(&c, 4_000) };
    let totals = run(&fixture, &[own, Client::of(&c, 300)], 5).await;
    assert_eq!(totals[0].1, 0, "it is not refused");
    assert_eq!(totals[1], (300 * 5 * 100, 0), "and takes nothing from clients");
    let report = fixture.account.router().throughput_of(&c);
    assert!(report.partitions.iter().all(|(_, budget)| budget.refused == 0));
}

#[tokio::test]
async fn autoscale_gives_its_maximum_and_shows_what_is_used() {
    let fixture = Fixture::new().await;
    let autoscale = Throughput::Autoscale(Autoscale::new(1_000));
    let c = container(&fixture, "c", Some(autoscale)).await;
    assert_eq!(fixture.account.router().throughput_of(&c).scaled_to, Some(100));
    run(&fixture, &[Client::of(&c, 500)], 10).await;
    assert_eq!(fixture.account.router().throughput_of(&c).scaled_to, Some(500));
    let totals = run(&fixture, &[Client::of(&c, 2_000)], SECONDS).await;
    assert_near(totals[0].0, 1_000 * SECONDS, 4);
    assert_eq!(fixture.account.router().throughput_of(&c).scaled_to, Some(1_000));
    fixture.clock.advance(Duration::from_secs(300));
    assert_eq!(fixture.account.router().throughput_of(&c).scaled_to, Some(100));
}

#[tokio::test]
async fn containers_share_the_throughput_of_their_database() {
    let fixture = Fixture::new().await;
    let shared = Some(Throughput::Manual(1_000));
    fixture.account.definitions().create_database(&fixture.ctx(), "db", shared).await.expect("created");
    let (a, b) = (container(&fixture, "a", None).await, container(&fixture, "b", None).await);
    let own = container(&fixture, "own", Some(Throughput::Manual(400))).await;
    let clients = [Client::of(&a, 1_000), Client::of(&b, 1_000), Client::of(&own, 800)];
    let totals = run(&fixture, &clients, SECONDS).await;
    assert_near(totals[0].0 + totals[1].0, 1_000 * SECONDS, 4);
    assert_near(totals[2].0, 400 * SECONDS, 4);
}

#[tokio::test]
async fn nothing_is_refused_without_a_wish_for_throughput_or_with_enforcement_off() {
    let fixture = Fixture::new().await;
    let c = container(&fixture, "c", None).await;
    assert_eq!(run(&fixture, &[Client::of(&c, 5_000)], 1).await, [(5_000 * 100, 0)]);
    let fixture = Fixture::with_options(AccountOptions {
        throughput: Enforcement::Unlimited,
        ..AccountOptions::default()
    })
    .await;
    let c = container(&fixture, "c", Some(Throughput::Manual(400))).await;
    assert_eq!(run(&fixture, &[Client::of(&c, 5_000)], 1).await, [(5_000 * 100, 0)]);
}

#[tokio::test]
async fn serverless_containers_have_a_fixed_throughput_and_none_to_set() {
    let fixture = Fixture::with_options(AccountOptions {
        capacity: CapacityMode::Serverless,
        ..AccountOptions::default()
    })
    .await;
    let c = container(&fixture, "c", None).await;
    let totals = run(&fixture, &[Client::of(&c, 8_000)], 5).await;
    assert!(
        totals[0].0 >= 5_000 * 5 * 100 && totals[0].0 <= (5_000 * 5 + 5_000) * 100 + READ_CENTI,
        "{totals:?}"
    );
    assert!(fixture.account.definitions().offers().is_empty());
    let account = &fixture.account;
    let throughput = Some(Throughput::Manual(400));
    let definition = ContainerDefinition::new("d", PartitionKeyDefinition::hash("/pk"));
    let of_container =
        account.definitions().create_container(&fixture.ctx(), "db", definition, throughput).await;
    let of_database =
        account.definitions().create_database(&fixture.ctx(), "other", throughput).await.map(|_| ());
    for refused in [
        of_container.map(|_| ()),
        of_database,
        account.router().redistribute(&fixture.ctx(), &c, &[]).await.map(|_| ()),
    ] {
        let error = refused.expect_err("no throughput to set");
        assert_eq!(error.kind(), ErrorKind::BadRequest);
        assert!(error.message().contains("not supported for serverless accounts"), "{error}");
    }
}

#[tokio::test]
async fn burst_credit_is_banked_and_spent() {
    let fixture = Fixture::with_options(AccountOptions { burst: true, ..AccountOptions::default() }).await;
    let c = container(&fixture, "c", Some(Throughput::Manual(400))).await;
    fixture.clock.advance(Duration::from_secs(60));
    let totals = run(&fixture, &[Client::of(&c, 4_000)], SECONDS).await;
    // A minute of 400 RU/s was banked.
    assert_near(totals[0].0, 400 * (SECONDS + 60), 4);
    let next = run(&fixture, &[Client::of(&c, 4_000)], SECONDS).await;
    assert_near(next[0].0, 400 * SECONDS, 4);
}

#[tokio::test]
async fn a_replaced_offer_is_in_force_at_once_and_debts_stay() {
    let fixture = Fixture::new().await;
    let c = container(&fixture, "c", None).await;
    let offer = fixture.account.definitions().offers()[0].rid.to_string();
    assert_eq!(run(&fixture, &[Client::of(&c, 800)], 1).await[0].1, 0);
    let replace = async |units| {
        let (ctx, throughput) = (fixture.ctx(), Throughput::Manual(units));
        fixture
            .account
            .definitions()
            .replace_offer(&ctx, &offer, throughput, &none())
            .await
            .expect("replaced")
    };
    replace(400).await;
    let totals = run(&fixture, &[Client::of(&c, 800)], SECONDS).await;
    assert_near(totals[0].0, 400 * SECONDS, 4);
    replace(1_000).await;
    let totals = run(&fixture, &[Client::of(&c, 2_000)], SECONDS).await;
    assert_near(totals[0].0, 1_000 * SECONDS, 4);
    let mut definition = c.container().definition.clone();
    definition.default_ttl = Some(-1);
    let changed =
        fixture.account.definitions().replace_container(&fixture.ctx(), "db", "c", definition, &none()).await;
    let changed = changed.expect("replaced");
    let totals = run(&fixture, &[Client::of(&changed, 2_000)], 1).await;
    assert!(totals[0].0 <= 1_010 * 100, "a new entry is no new bucket: {totals:?}");
}

#[tokio::test]
async fn a_redistribution_moves_throughput_to_named_partitions_and_is_kept() {
    let shards = crate::support::memory_shards(1).await;
    let fixture = Fixture::over(shards.clone()).await;
    let c = container(&fixture, "c", Some(Throughput::Manual(12_000))).await;
    let account = &fixture.account;
    let refusals: [(&[(u32, u64)], &str); 6] = [
        (&[(0, 7_000)], "add up to 13000 RU/s, and the container has 12000"),
        (&[(0, 10_001), (1, 1_999)], "1 to 10000"),
        (&[(0, 0), (1, 12_000)], "1 to 10000"),
        (&[(7, 6_000)], "no partition key range '7'"),
        (&[(0, 6_000), (0, 6_000)], "named twice"),
        (&[(0, u64::MAX)], "1 to 10000"),
    ];
    for (shares, words) in refusals {
        let error = account.router().redistribute(&fixture.ctx(), &c, shares).await.expect_err(words);
        assert_eq!(error.kind(), ErrorKind::BadRequest);
        assert!(error.message().contains(words), "{error}");
    }
    let c = account.router().redistribute(&fixture.ctx(), &c, &[(0, 9_000), (1, 3_000)]).await.expect("done");
    let fractions = |c: &ContainerHandle| -> Vec<f64> {
        c.partition_key_ranges().iter().map(|range| range.throughput_fraction).collect()
    };
    let rates = |fixture: &Fixture, c: &ContainerHandle| -> Vec<u64> {
        let report = fixture.account.router().throughput_of(c);
        report.partitions.iter().map(|(_, budget)| budget.rate_centi / 100).collect()
    };
    assert_eq!((fractions(&c), rates(&fixture, &c)), (vec![0.75, 0.25], vec![9_000, 3_000]));
    let fixture = Fixture::over(shards).await;
    let c = fixture.account.router().container("db", "c").expect("there");
    assert_eq!((fractions(&c), rates(&fixture, &c)), (vec![0.75, 0.25], vec![9_000, 3_000]));
    let account = &fixture.account;
    let c = account.router().redistribute_and_resize(&fixture.ctx(), &c, &[(1, 4_000)]).await.expect("done");
    assert_eq!(rates(&fixture, &c), [9_000, 4_000]);
    assert_eq!(account.definitions().offers()[0].throughput, Throughput::Manual(13_000));
    let c = account.router().redistribute(&fixture.ctx(), &c, &[]).await.expect("done");
    assert_eq!((fractions(&c), rates(&fixture, &c)), (vec![0.5, 0.5], vec![6_500, 6_500]));
}

#[tokio::test]
async fn operations_of_a_bulk_request_are_refused_one_by_one_and_a_batch_as_a_whole() {
    let fixture = Fixture::new().await;
    let c = container(&fixture, "c", Some(Throughput::Manual(400))).await;
    let create = |number: u32| BatchOperation {
        kind: BatchKind::Upsert,
        id: None,
        body: Some(format!(r#"{{"id":"b{number}","pk":"k1"}}"#).into_bytes()),
        patch: None,
        partition_key: Some(r#"["k1"]"#.to_owned()),
        preconditions: none(),
    };
    let ctx = ctx(&fixture, Priority::High);
    let operations = (0..100).map(create).collect();
    let replies =
        fixture.account.json_bulk(&ctx, &c, None, operations, BulkOnError::Continue).await.expect("replies");
    let refused: Vec<&Error> = replies.iter().filter_map(|reply| reply.as_ref().err()).collect();
    assert!(!refused.is_empty() && refused.len() < 90, "{} of 100 are refused", refused.len());
    for error in refused {
        assert_eq!(error.kind(), ErrorKind::TooManyRequests);
        assert!(error.retry_after_ms().expect("told") >= 1);
    }
    let operations = (0..3).map(create).collect();
    let batch = fixture.account.json_batch(&ctx, &c, KeyInput(r#"["k1"]"#), operations).await;
    let error = batch.expect_err("the budget is spent");
    assert_eq!(error.kind(), ErrorKind::TooManyRequests);
    fixture.clock.advance(Duration::from_millis(error.retry_after_ms().expect("told")));
    let operations = (0..3).map(create).collect();
    fixture
        .account
        .json_batch(&ctx, &c, KeyInput(r#"["k1"]"#), operations)
        .await
        .expect("the wait was long enough");
}

/// Spends the budget of a range, and leaves the others alone.
async fn spend(fixture: &Fixture, container: &ContainerHandle, range_id: u32) {
    let mut owned = None;
    for key in 0..100 {
        if owned.is_none() && read_meta(fixture, container, key).await.range_id == Some(range_id) {
            owned = Some(key);
        }
    }
    let key = owned.expect("some key lies in the range");
    while read(fixture, container, key, Priority::High).await.is_ok() {}
}

async fn read_meta(fixture: &Fixture, container: &ContainerHandle, key: u64) -> ReplyMeta {
    let key = format!(r#"["k{key}"]"#);
    let reply =
        fixture.account.read_item(&fixture.ctx(), container, Some(KeyInput(&key)), "i", &none()).await;
    reply.expect("read").meta
}

#[tokio::test]
async fn pages_end_where_the_budget_does_and_go_on_later() {
    let fixture = Fixture::new().await;
    let c = container(&fixture, "c", Some(Throughput::Manual(30_000))).await;
    let ctx = ctx(&fixture, Priority::High);
    spend(&fixture, &c, c.partition_key_ranges()[2].id).await;
    let (mut seen, mut continuation) = (0, None::<String>);
    for _ in 0..2 {
        let page = fixture
            .account
            .items()
            .read_feed(&ctx, &c, FeedScope::All, Some(1000), continuation.as_deref())
            .await;
        match page {
            Ok(page) => {
                assert!(page.continuation.is_some() && !page.items.is_empty(), "two ranges had budget");
                assert!(page.meta.charge_centi > 0);
                (seen, continuation) = (page.items.len(), page.continuation);
            }
            Err(error) => {
                assert_eq!((error.kind(), seen > 0), (ErrorKind::TooManyRequests, true));
                fixture.clock.advance(Duration::from_millis(error.retry_after_ms().expect("told")));
            }
        }
    }
    let page = fixture
        .account
        .items()
        .read_feed(&ctx, &c, FeedScope::All, Some(1000), continuation.as_deref())
        .await;
    let page = page.expect("there is budget again");
    assert_eq!((seen + page.items.len(), page.continuation), (100, None));
}

#[tokio::test]
async fn a_merged_query_waits_for_all_of_its_partitions() {
    let fixture = Fixture::new().await;
    let c = container(&fixture, "c", Some(Throughput::Manual(30_000))).await;
    spend(&fixture, &c, c.partition_key_ranges()[2].id).await;
    let before = fixture.account.router().throughput_of(&c);
    let request = QueryRequest {
        text: "SELECT VALUE COUNT(1) FROM c",
        parameters: &[],
        scope: FeedScope::All,
        max_items: None,
        continuation: None,
        resume_filter: None,
        allows_cross_partition: true,
        fans_out: true,
        wants: QueryWants::default(),
    };
    let error = fixture
        .account
        .queries()
        .query(&ctx(&fixture, Priority::High), &c, request)
        .await
        .expect_err("spent");
    assert_eq!(error.kind(), ErrorKind::TooManyRequests);
    let after = fixture.account.router().throughput_of(&c);
    let levels = |report: &ThroughputReport| -> Vec<i64> {
        report.partitions.iter().map(|(_, budget)| budget.level_centi).collect()
    };
    assert_eq!(levels(&before), levels(&after), "what was reserved elsewhere is given back");
}

#[tokio::test]
async fn a_split_and_a_merge_leave_a_client_at_twice_its_budget_its_budget() {
    let fixture = Fixture::new().await;
    let c = container(&fixture, "c", Some(Throughput::Manual(400))).await;
    let mut charged = run(&fixture, &[Client::of(&c, 800)], 10).await[0].0;
    let split = fixture.account.maintenance().split(&c, 0, SplitAt::Middle).await.expect("begins");
    split.finished().await.expect("ends");
    let rates = |report: ThroughputReport| -> Vec<(u32, u64)> {
        report.partitions.iter().map(|(id, budget)| (*id, budget.rate_centi / 100)).collect()
    };
    let current = || fixture.account.router().container("db", "c").expect("there");
    assert_eq!(rates(fixture.account.router().throughput_of(&current())), [(1, 200), (2, 200)]);
    // By the handle of before, as a client that does not know yet.
    charged += run(&fixture, &[Client::of(&c, 800)], 10).await[0].0;
    let merge = fixture.account.maintenance().merge(&current(), &[1, 2]).await.expect("begins");
    merge.finished().await.expect("ends");
    assert_eq!(rates(fixture.account.router().throughput_of(&current())), [(3, 400)]);
    charged += run(&fixture, &[Client::of(&c, 800)], 10).await[0].0;
    assert_near(charged, 400 * SECONDS, 4);
}
