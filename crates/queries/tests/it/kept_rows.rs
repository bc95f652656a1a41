//! Pages of sorted, grouped and distinct results without a suitable index. Later pages do not repeat the first page's work, and they
//! return the writes between two pages.

use std::time::Duration;

use crate::keyed_order::{answer, customers, page, put};
use crate::support::Fixture;
use shardlake_account::{ContainerHandle, FeedScope, Value};

const ITEMS: u64 = 3_000;
const PAGE: i64 = 20;

const QUERIES: [&str; 5] = [
    "SELECT VALUE c.n FROM c WHERE c.kind = 1 ORDER BY c.total",
    "SELECT VALUE c.n FROM c WHERE UPPER(c.name) = 'A' ORDER BY c.name DESC",
    "SELECT DISTINCT VALUE c.total FROM c",
    "SELECT c.total, COUNT(1) AS n FROM c GROUP BY c.total",
    "SELECT DISTINCT c.total, c.name FROM c ORDER BY c.total",
];

async fn filled() -> (Fixture, ContainerHandle) {
    let fixture = Fixture::new().await;
    let mut definition = customers();
    let policy =
        r#"{"includedPaths":[{"path":"/kind/?"}],"excludedPaths":[{"path":"/*"}],"compositeIndexes":[]}"#;
    definition.indexing_policy = serde_json::from_str(policy).expect("a policy");
    // `total` and `name` may be ordered by, and no index walks them within a key.
    definition.indexing_policy.included_paths.extend(
        serde_json::from_str::<Vec<_>>(r#"[{"path":"/total/?"},{"path":"/name/?"}]"#).expect("paths"),
    );
    let container = fixture.container_with(definition, 400).await;
    for n in 0..ITEMS {
        write(&fixture, &container, n).await;
    }
    (fixture, container)
}

async fn write(fixture: &Fixture, container: &ContainerHandle, n: u64) {
    let (kind, total) = (n % 2, n * 7919 % 1_009);
    let body = format!(r#"{{"id":"{n}","customerId":"c","n":{n},"kind":{kind},"total":{total},"name":"a"}}"#);
    put(fixture, container, &body).await;
}

fn sorted(rows: &[Value]) -> Vec<String> {
    let mut rows: Vec<String> = rows.iter().map(|row| row.to_json().expect("JSON")).collect();
    rows.sort();
    rows
}

#[tokio::test]
async fn later_pages_do_not_read_everything_again() {
    let (fixture, container) = filled().await;
    let scope = FeedScope::Range { range_id: Some(0), epk: None };
    for text in QUERIES {
        let whole = answer(&fixture, &container, &scope, (text, 1_000)).await;
        let (first, _) = page(&fixture, &container, &scope, (text, 1_000), None).await;
        let (mut rows, mut token, mut pages, mut read) = (Vec::new(), None::<String>, 0, 0);
        loop {
            let (part, next) = page(&fixture, &container, &scope, (text, PAGE), token.as_deref()).await;
            rows.extend(part.rows);
            (pages, read) = (pages + 1, read + part.retrieved);
            token = next;
            if token.is_none() {
                break;
            }
        }
        assert!(pages >= 40, "{text}: {pages} pages");
        let is_ordered = text.contains("ORDER BY");
        assert!(if is_ordered { rows == whole.rows } else { sorted(&rows) == sorted(&whole.rows) }, "{text}");
        // The first page, and one in twenty after it.
        let reads = 2 + pages / 20;
        assert!(
            read <= reads * first.retrieved,
            "{text}: {read} items in {pages} pages of {}",
            first.retrieved
        );
    }
}

#[tokio::test]
async fn what_is_written_between_pages_is_seen_and_a_page_can_be_asked_again() {
    let (fixture, container) = filled().await;
    let scope = FeedScope::Range { range_id: Some(0), epk: None };
    let text = "SELECT VALUE c.n FROM c WHERE c.kind = 1 ORDER BY c.total";
    let mut token = None;
    for _ in 0..3 {
        token = page(&fixture, &container, &scope, (text, PAGE), token.as_deref()).await.1;
    }
    let again = page(&fixture, &container, &scope, (text, PAGE), token.as_deref()).await;
    assert_eq!(page(&fixture, &container, &scope, (text, PAGE), token.as_deref()).await, again);
    // After the position, so that it is in the rest.
    let body = format!(r#"{{"id":"new","customerId":"c","n":{ITEMS},"kind":1,"total":1000000,"name":"a"}}"#);
    put(&fixture, &container, &body).await;
    let mut rows = Vec::new();
    while let Some(at) = token {
        let (part, next) = page(&fixture, &container, &scope, (text, PAGE), Some(&at)).await;
        rows.extend(part.rows);
        token = next;
    }
    assert_eq!(rows.last(), Some(&Value::Int(ITEMS as i64)), "the last of all in its order");
    assert_eq!(rows.len() as u64, ITEMS / 2 - 3 * PAGE as u64 + 1);
}

#[tokio::test]
async fn a_filter_by_the_time_is_evaluated_for_each_page() {
    let (fixture, container) = filled().await;
    let scope = FeedScope::Range { range_id: Some(0), epk: None };
    // True before the clock is advanced.
    let text = "SELECT VALUE c.n FROM c WHERE c.kind = 1 AND GetCurrentTimestamp() <= 1700000000000 ORDER BY c.total";
    let mut token = None;
    for _ in 0..3 {
        let (part, next) = page(&fixture, &container, &scope, (text, PAGE), token.as_deref()).await;
        assert_eq!(part.rows.len() as i64, PAGE);
        token = next;
    }
    fixture.clock.advance(Duration::from_secs(1));
    let (part, next) = page(&fixture, &container, &scope, (text, PAGE), token.as_deref()).await;
    assert_eq!((part.rows.len(), next), (0, None));
}
