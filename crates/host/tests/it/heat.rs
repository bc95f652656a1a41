//! Heat of partitions after operations.

use crate::support::json_door::{JsonDoor, KeyInput, key_scope};
use std::time::Duration;

use crate::support::{Fixture, memory_shards, none};
use shardlake_account::{
    AccountOptions, ContainerHandle, FeedScope, Finding, FindingKind, HeatRecording, HeatReport,
    QueryRequest, QueryWants, SplitAt,
};
use shardlake_model::{ErrorKind, Priority, RequestContext};

const WINDOW: Duration = Duration::from_secs(60);

fn ctx(fixture: &Fixture) -> RequestContext {
    RequestContext { priority: Priority::High, ..fixture.ctx() }
}

/// Heat of completed seconds.
async fn heat(fixture: &Fixture, container: &ContainerHandle) -> Vec<HeatReport> {
    fixture.clock.advance(Duration::from_secs(1));
    let report = fixture.account.maintenance().container_report(container, WINDOW).await.expect("a report");
    report.partitions.into_iter().map(|range| range.heat).collect()
}

async fn query(fixture: &Fixture, container: &ContainerHandle, text: &str, scope: FeedScope) {
    let request = QueryRequest {
        text,
        parameters: &[],
        scope,
        max_items: None,
        continuation: None,
        resume_filter: None,
        allows_cross_partition: true,
        fans_out: true,
        wants: QueryWants::default(),
    };
    fixture.account.queries().query(&ctx(fixture), container, request).await.expect("a page");
}

#[tokio::test]
async fn operations_are_counted_where_they_went_with_what_they_cost() {
    let fixture = Fixture::new().await;
    let c = fixture.container(12_000).await;
    let (account, mut charged) = (&fixture.account, 0);
    for number in 0..20 {
        let (key, body) =
            (format!("[\"{}\"]", number % 4), format!("{{\"id\":\"{number}\",\"pk\":\"{}\"}}", number % 4));
        let reply = account.create_item(&ctx(&fixture), &c, Some(KeyInput(&key)), body.as_bytes()).await;
        charged += reply.expect("created").meta.charge_centi;
        fixture.clock.advance(Duration::from_millis(100));
        let read = account.read_item(&ctx(&fixture), &c, Some(KeyInput("[\"0\"]")), "0", &none()).await;
        charged += read.expect("found").meta.charge_centi;
    }
    let heat = heat(&fixture, &c).await;
    assert_eq!(heat.len(), c.partition_key_ranges().len());
    let total: f64 = heat.iter().map(|report| report.totals.ru).sum();
    assert_eq!((total * 100.0).round() as u64, charged);
    assert_eq!(heat.iter().map(|report| report.totals.operations).sum::<u64>(), 40);
    let created: u64 = heat.iter().map(|report| report.kinds[1].operations).sum();
    assert_eq!(created, 20);
    assert_eq!(heat.iter().map(|report| report.recent.keys_created.count).sum::<u64>(), 4);
    let hottest = heat.iter().max_by(|a, b| a.totals.ru.total_cmp(&b.totals.ru));
    assert_eq!(hottest.expect("ranges").recent.keys[0].key, "[\"0\"]");
}

#[tokio::test]
async fn queries_show_by_template_and_by_reach() {
    let fixture = Fixture::new().await;
    let c = fixture.container(400).await;
    let reply = fixture
        .account
        .create_item(&ctx(&fixture), &c, Some(KeyInput("[\"a\"]")), br#"{"id":"1","pk":"a"}"#)
        .await;
    reply.expect("created");
    for number in 0..5 {
        query(&fixture, &c, &format!("SELECT * FROM c WHERE c.n = {number}"), FeedScope::All).await;
    }
    query(&fixture, &c, "SELECT * FROM c", key_scope("[\"a\"]")).await;
    let reply = fixture.account.items().read_feed(&ctx(&fixture), &c, FeedScope::All, None, None).await;
    reply.expect("a page");
    let report = heat(&fixture, &c).await.remove(0);
    let operations = report.kinds.iter().map(|kind| (kind.kind, kind.operations)).collect::<Vec<_>>();
    assert_eq!(
        operations,
        [("read", 0), ("create", 1), ("write", 0), ("query", 1), ("fan-out", 5), ("feed", 1)]
    );
    let templates: Vec<&str> = report.recent.templates.iter().map(|hot| &hot.template[..]).collect();
    assert_eq!(templates, ["SELECT * FROM c WHERE c.n = ?", "SELECT * FROM c"]);
}

#[tokio::test]
async fn refusals_count_as_throttles() {
    let fixture = Fixture::new().await;
    let c = fixture.container(400).await;
    let mut refused = 0;
    for number in 0..200 {
        let body = format!("{{\"id\":\"{number}\",\"pk\":\"a\"}}");
        let reply = fixture.account.create_item(&ctx(&fixture), &c, None, body.as_bytes()).await;
        refused += u64::from(reply.is_err_and(|error| error.kind() == ErrorKind::TooManyRequests));
    }
    let report = heat(&fixture, &c).await.remove(0);
    assert!(refused > 100);
    assert_eq!(report.totals.throttled, refused);
    assert_eq!(report.totals.operations, 200 - refused);
    assert!(report.totals.throttled_share > 0.5);
}

#[tokio::test]
async fn what_the_server_does_for_itself_is_not_counted_and_heat_can_be_off() {
    let fixture = Fixture::new().await;
    let c = fixture.container(400).await;
    let reply = fixture.account.create_item(&fixture.ctx(), &c, None, br#"{"id":"1","pk":"a"}"#).await;
    reply.expect("created");
    assert_eq!(heat(&fixture, &c).await[0].totals.operations, 0);
    let fixture =
        Fixture::with_options(AccountOptions { heat: HeatRecording::Off, ..AccountOptions::default() }).await;
    let c = fixture.container(400).await;
    let reply = fixture.account.create_item(&ctx(&fixture), &c, None, br#"{"id":"1","pk":"a"}"#).await;
    reply.expect("created");
    assert_eq!(heat(&fixture, &c).await[0].totals.operations, 0);
}

/// Upserts for 20 seconds, of keys by their number, at more than 400 RU/s; the findings of that time.
async fn findings(container_of: u64, per_second: u64, key_of: impl Fn(u64) -> String) -> Vec<Finding> {
    let fixture = Fixture::new().await;
    let c = fixture.container(container_of).await;
    for number in 0..20 * per_second {
        fixture.clock.advance(Duration::from_millis(1000 / per_second));
        let body = format!("{{\"id\":\"{}\",\"pk\":\"{}\"}}", number % 7, key_of(number));
        let _may_be_refused =
            fixture.account.upsert_item(&ctx(&fixture), &c, None, body.as_bytes(), &none()).await;
    }
    fixture
        .account
        .maintenance()
        .container_report(&c, Duration::from_secs(20))
        .await
        .expect("a report")
        .diagnosis
}

fn kinds(findings: &[Finding]) -> Vec<FindingKind> {
    findings.iter().map(|finding| finding.kind).collect()
}

#[tokio::test]
async fn real_traffic_is_diagnosed() {
    let hot =
        |number: u64| if number.is_multiple_of(5) { format!("t{}", number % 1000) } else { "busy".into() };
    let found = findings(12_000, 500, hot).await;
    assert_eq!(kinds(&found), [FindingKind::NothingWrong], "{found:?}");
    let found = findings(400, 125, hot).await;
    assert_eq!(kinds(&found), [FindingKind::SingleHotKey], "{found:?}");
    let even = |number: u64| format!("t{}", number % 1000);
    assert_eq!(kinds(&findings(400, 125, even).await), [FindingKind::ThroughputTooLow]);
    assert_eq!(kinds(&findings(400, 20, even).await), [FindingKind::NothingWrong]);
}

/// One read in 100 ms of key `a` makes the same rate, however young its partition is.
#[tokio::test]
async fn a_partition_that_came_to_be_a_moment_ago_is_judged_by_its_own_time() {
    let fixture = Fixture::over(&memory_shards(2).await).await;
    let c = fixture.container(400).await;
    let (context, conditions) = (ctx(&fixture), none());
    let create =
        fixture.account.create_item(&context, &c, Some(KeyInput("[\"a\"]")), br#"{"id":"1","pk":"a"}"#);
    create.await.expect("created");
    let current = || fixture.account.router().container("db", "c").expect("there");
    let rates = async |seconds: u64| -> Vec<f64> {
        let c = current();
        for _ in 0..seconds * 10 {
            fixture.clock.advance(Duration::from_millis(100));
            let read = fixture.account.read_item(&context, &c, Some(KeyInput("[\"a\"]")), "1", &conditions);
            read.await.expect("found");
        }
        let report = fixture.account.maintenance().container_report(&c, WINDOW).await.expect("a report");
        assert!((report.partitions.iter().map(|range| range.load_share).sum::<f64>() - 1.0).abs() < 1e-9);
        let rate = |heat: &HeatReport| heat.totals.ru / f64::from(heat.window_seconds);
        report.partitions.iter().map(|range| rate(&range.heat)).filter(|rate| *rate > 0.0).collect()
    };
    let [before] = rates(300).await[..] else { panic!("one partition") };
    let split = fixture.account.maintenance().split(&current(), 0, SplitAt::Middle).await.expect("begins");
    split.finished().await.expect("ends");
    let [after] = rates(20).await[..] else { panic!("the key is in one half") };
    assert!((0.9..1.3).contains(&(after / before)), "{after} after the split, {before} before");
    let report = fixture.account.maintenance().container_report(&current(), WINDOW).await.expect("a report");
    let busy = report.partitions.iter().find(|range| range.load_share > 0.5).expect("one is busy");
    let shard = 1 - busy.shard;
    let moved =
        fixture.account.maintenance().move_partition(&current(), busy.range.id, shard).await.expect("begins");
    moved.finished().await.expect("ends");
    let [after] = rates(20).await[..] else { panic!("the key is in one half") };
    assert!((0.9..1.3).contains(&(after / before)), "{after} after the move, {before} before");
}
