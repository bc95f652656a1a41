//! Queries cost their reads or their evaluation, whichever is more, however they end.

use crate::support::json_door::JsonDoor;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use shardlake_account::{ContainerHandle, QueryReply, Value};
use shardlake_model::{ErrorKind, Priority, RequestContext, Result};

use crate::support::queries::request;
use crate::support::{Fixture, ended, none};

/// Requests that are certainly more than a full budget of 400 RU/s allows.
const REQUESTS_MAX: usize = 1000;
/// Capacity of such a budget: a second.
const CAPACITY_CENTI: u64 = 40_000;

/// Items with an array of `numbers` numbers each.
async fn filled(throughput: u64, items: usize, numbers: usize) -> (Fixture, ContainerHandle) {
    let fixture = Fixture::new().await;
    let container = fixture.container(throughput).await;
    let list: Vec<String> = (0..numbers).map(|number| number.to_string()).collect();
    let list = list.join(",");
    for number in 0..items {
        let body = format!(r#"{{"id":"{number}","pk":"{number}","n":{number},"list":[{list}]}}"#);
        fixture
            .account
            .upsert_item(&fixture.ctx(), &container, None, body.as_bytes(), &none())
            .await
            .expect("stored");
    }
    (fixture, container)
}

async fn answer(fixture: &Fixture, container: &ContainerHandle, text: &str) -> QueryReply {
    fixture.page(container, text, 1000, None).await.expect("answered")
}

/// Context of a client of the container, which is held to its throughput.
fn client(fixture: &Fixture) -> RequestContext {
    RequestContext { priority: Priority::High, ..fixture.ctx() }
}

#[tokio::test]
async fn evaluation_costs_where_reading_does_not_pay_for_it() {
    let (fixture, container) = filled(400, 4, 40).await;
    let text = "SELECT VALUE COUNT(1) FROM c JOIN x IN c.list JOIN y IN c.list JOIN z IN c.list";
    let reply = answer(&fixture, &container, text).await;
    let steps = reply.statistics.steps;
    // A tuple is a step at least, and no more than some.
    assert!((4 * 64_000..4 * 64_000 * 8).contains(&steps), "{steps} steps");
    assert_eq!(reply.meta.charge_centi, (steps * 20 / 1000 + 5) / 10);
    let again = answer(&fixture, &container, text).await;
    assert_eq!((again.statistics.steps, again.meta.charge_centi), (steps, reply.meta.charge_centi));
    // In several partitions each evaluates its own part.
    let (parted, parts) = filled(30_000, 4, 40).await;
    let merged = answer(&parted, &parts, text).await;
    assert!(merged.statistics.steps.abs_diff(steps) < steps / 100, "{} {steps}", merged.statistics.steps);
    assert!(merged.meta.charge_centi.abs_diff(reply.meta.charge_centi) < reply.meta.charge_centi / 50);
}

#[tokio::test]
async fn merged_page_in_the_order_of_an_index_reads_one_item_of_each_partition_in_vain() {
    let (fixture, container) = filled(30_000, 400, 1).await;
    let reply = answer(&fixture, &container, "SELECT TOP 50 VALUE c.n FROM c ORDER BY c.n DESC").await;
    let rows: Vec<Vec<u8>> = reply.rows.iter().map(<[u8]>::to_vec).collect();
    assert_eq!(rows, (350..400).rev().map(|n: u64| n.to_string().into_bytes()).collect::<Vec<_>>());
    assert_eq!(reply.statistics.items_loaded, 50 + 5);
    // This holds for a page that a client cuts, and for the next page, too.
    let text = "SELECT VALUE c.n FROM c ORDER BY c.n DESC";
    let first = fixture.page(&container, text, 50, None).await.expect("answered");
    let second = fixture.page(&container, text, 50, first.continuation.as_deref()).await.expect("answered");
    assert_eq!(second.rows.iter().next(), Some(&b"349"[..]));
    for page in [first, second] {
        assert!((50..=50 + 2 * 5).contains(&page.statistics.items_loaded), "{:?}", page.statistics);
    }
}

#[tokio::test]
async fn merged_page_whose_rows_are_sorted_reads_each_item_once() {
    let (fixture, container) = filled(30_000, 400, 1).await;
    // Few items match: the index of the filter names them, and they are sorted. Most of them are in one partition.
    for number in 0..90 {
        let body = format!(r#"{{"id":"x{number}","pk":"one","n":{number},"kind":"x"}}"#);
        fixture
            .account
            .upsert_item(&fixture.ctx(), &container, None, body.as_bytes(), &none())
            .await
            .expect("stored");
    }
    let text = "SELECT VALUE c.n FROM c WHERE c.kind = 'x' ORDER BY c.n DESC";
    let reply = answer(&fixture, &container, text).await;
    assert_eq!((reply.rows.len(), reply.statistics.items_loaded), (90, 90));
    // A page of a sorted result reads all that matches, and only once.
    let page = fixture.page(&container, text, 70, None).await.expect("answered");
    assert_eq!((page.rows.len(), page.statistics.items_loaded), (70, 90));
}

#[tokio::test]
async fn ordinary_evaluation_costs_nothing() {
    let (fixture, container) = filled(400, 100, 5).await;
    // The partition at 2.8, rows at 0.13, items that are read and not returned at 0.067.
    for (text, charge_centi) in [
        ("SELECT * FROM c", 280 + 1300),
        ("SELECT c.id, UPPER(c.pk) AS p, [c.n, c.n + 1] AS q FROM c", 280 + 1300),
        // An index could have named the items, so a scan in its place costs no more.
        ("SELECT VALUE SUM(x) FROM c JOIN x IN c.list WHERE x > 2", 280 + 13),
        ("SELECT VALUE SUM(x) FROM c JOIN x IN c.list WHERE x + 1 > 2", 280 + 13 + 663),
        ("SELECT VALUE c.id FROM c WHERE c.n + 1 > 90", 280 + 130 + 603),
        ("SELECT VALUE COUNT(1) FROM c GROUP BY c.n % 10", 280 + 130 + 603),
    ] {
        assert_eq!(answer(&fixture, &container, text).await.meta.charge_centi, charge_centi, "{text}");
    }
}

#[tokio::test]
async fn rows_that_are_passed_over_cost_what_reading_them_costs() {
    let (fixture, container) = filled(12_000, 60, 1).await;
    for (text, charge_centi) in [
        // Two partitions at 2.8, rows at 0.13, and 0.067 for each row that is passed over.
        ("SELECT VALUE c.n FROM c OFFSET 30 LIMIT 10", 560 + 130 + 201),
        ("SELECT VALUE c.n FROM c OFFSET 99999999 LIMIT 10", 560 + 402),
        ("SELECT VALUE c.n FROM c ORDER BY c.n OFFSET 30 LIMIT 10", 560 + 130 + 201),
        ("SELECT VALUE c.n FROM c OFFSET 0 LIMIT 10", 560 + 130),
    ] {
        for page_size in [1000, 3] {
            let whole = fixture.answer(&container, text, page_size).await.expect("answered");
            assert_eq!(whole.work_centi() + 560, charge_centi, "{text} in pages of {page_size}");
        }
    }
}

#[tokio::test]
async fn item_that_takes_more_than_a_page_has_time_for_is_refused() {
    let (fixture, container) = filled(400, 1, 20_000).await;
    // Each of the searches in the list is counted as if it scanned all of it, and ends at its first element.
    let searches = ",0".repeat(1000);
    let text =
        format!("SELECT VALUE COUNT(1) FROM c JOIN x IN c.list WHERE ARRAY_CONTAINS_ALL(c.list{searches})");
    let error = fixture.page(&container, &text, 10, None).await.expect_err("too dear");
    assert_eq!(error.kind(), ErrorKind::BadRequest, "{error}");
    assert!(error.message().contains("steps of evaluation for one item"), "{error}");
    // Five thousand request units: the most that a page has time for.
    assert!((500_000..502_000).contains(&error.meta().charge_centi), "{}", error.meta().charge_centi);
}

/// Repeats a request until the budget of its container refuses one.
async fn until_refused(what: &str, mut attempt: impl AsyncFnMut() -> Option<ErrorKind>) -> usize {
    for attempts in 0..REQUESTS_MAX {
        if attempt().await == Some(ErrorKind::TooManyRequests) {
            return attempts;
        }
    }
    panic!("{what}: {REQUESTS_MAX} requests were not refused");
}

fn kind<T>(outcome: &Result<T>) -> Option<ErrorKind> {
    outcome.as_ref().err().map(|error| error.kind())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queries_without_time_are_charged_for_what_they_did() {
    let (fixture, container) = filled(400, 3, 100).await;
    let text = "SELECT VALUE COUNT(1) FROM c JOIN x IN c.list JOIN y IN c.list JOIN z IN c.list";
    let mut spent_centi = 0;
    let timeouts = until_refused("timeouts", async || {
        let ctx = RequestContext { deadline: fixture.clock.elapsed(), ..client(&fixture) };
        fixture.clock.advance(Duration::from_millis(1));
        let outcome = fixture.account.queries().query(&ctx, &container, request(text, 100, None)).await;
        let error = outcome.expect_err("no time");
        assert!(matches!(error.kind(), ErrorKind::Timeout | ErrorKind::TooManyRequests), "{error}");
        // The partition, and the item that was being evaluated.
        let is_refused = error.kind() == ErrorKind::TooManyRequests;
        assert_eq!(error.meta().charge_centi, if is_refused { 0 } else { 287 });
        spent_centi += error.meta().charge_centi;
        Some(error.kind())
    })
    .await;
    assert!(
        timeouts > 10 && spent_centi.abs_diff(CAPACITY_CENTI) < CAPACITY_CENTI / 4,
        "{timeouts}: {spent_centi}"
    );
}

#[tokio::test]
async fn queries_that_fail_are_charged_for_what_they_did() {
    let (fixture, container) = filled(400, 10, 1).await;
    let text = "SELECT VALUE REGEXMATCH(c.id, c.n > 5 ? '(' : 'a') FROM c";
    let refused = until_refused("failures", async || {
        let ctx = client(&fixture);
        let outcome = fixture.account.queries().query(&ctx, &container, request(text, 100, None)).await;
        let error = outcome.expect_err("not a pattern");
        assert!(error.kind() == ErrorKind::TooManyRequests || error.meta().charge_centi > 280, "{error}");
        Some(error.kind())
    });
    assert!(refused.await > 10);
}

#[tokio::test]
async fn client_that_hangs_up_pays_for_what_was_done() {
    let (fixture, container) = filled(400, 10, 100).await;
    let (plain, fanning) = ("SELECT VALUE c.id FROM c WHERE c.n + 1 > 0", "SELECT VALUE SUM(c.n + 1) FROM c");
    for text in [plain, fanning] {
        // Budgets are full again.
        fixture.clock.advance(Duration::from_secs(600));
        let refused = until_refused(text, async || {
            let ctx = client(&fixture);
            let mut query = pin!(fixture.account.queries().query(&ctx, &container, request(text, 100, None)));
            // It reads a first piece, and yields before the next.
            if let Poll::Ready(outcome) = query.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                return kind(&outcome);
            }
            // On the only thread, the tasks of a query that fans out begin here.
            tokio::task::yield_now().await;
            None
        });
        assert!(refused.await > 10, "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn turn_of_a_client_that_hangs_up_is_free_again() {
    let (fixture, container) = filled(400, 1, 1000).await;
    let endless =
        "SELECT VALUE COUNT(1) FROM c JOIN a IN c.list JOIN b IN c.list JOIN d IN c.list JOIN e IN c.list";
    // More than run at a time; the clock stands still, so that none ends by its deadline.
    for _ in 0..20 {
        let ctx = fixture.ctx();
        let mut query =
            Box::pin(fixture.account.queries().query(&ctx, &container, request(endless, 100, None)));
        assert!(query.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        // Some have begun at this point.
        tokio::task::yield_now().await;
    }
    let heavy = "SELECT VALUE COUNT(1) FROM c JOIN a IN c.list";
    let heavy = Box::pin(fixture.answer(&container, heavy, 100));
    let answer = ended("a heavy query behind those that hung up", heavy).await.expect("answered");
    assert_eq!(answer.rows, [Value::Int(1000)]);
}
