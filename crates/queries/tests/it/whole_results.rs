//! Queries over the whole result of another query. They are answered within one logical or physical
//! partition and by the server's merge, and refused if a client would have to merge.

use crate::support::json_door::{JsonDoor, key_scope};
use crate::support::queries::request;
use crate::support::{Fixture, none};
use shardlake_account::sql::SupportedFeatures;
use shardlake_account::{ContainerHandle, FeedScope, QueryRequest, SplitAt};
use shardlake_model::ErrorKind;

const ITEMS: usize = 600;
const GROUPS: &str = "(SELECT c.kind, COUNT(1) AS n FROM c GROUP BY c.kind) AS r";

async fn fill(fixture: &Fixture, container: &ContainerHandle) {
    for n in 0..ITEMS {
        let (key, kind, tags) = (n % 23, n % 7, [n % 3, n % 5]);
        let body = format!(
            r#"{{"id":"{n}","pk":"p{key}","kind":{kind},"n":{n},"tags":[{},"t{}"]}}"#,
            tags[0], tags[1]
        );
        fixture
            .account
            .upsert_item(&fixture.ctx(), container, None, body.as_bytes(), &none())
            .await
            .expect("written");
    }
}

/// Queries with the number of their rows, and short results in order.
fn queries() -> Vec<(String, usize, Option<&'static str>)> {
    let over = |select: &str, rest: &str| format!("SELECT {select} FROM {GROUPS} {rest}");
    let text = |text: &str| text.to_owned();
    vec![
        (text("SELECT VALUE COUNT(1) FROM (SELECT DISTINCT VALUE c.kind FROM c) AS s"), 1, Some("[7]")),
        (
            text("SELECT COUNT(1) AS kinds FROM (SELECT c.kind FROM c GROUP BY c.kind) AS s"),
            1,
            Some(r#"[{"kinds":7}]"#),
        ),
        (
            text("SELECT VALUE COUNT(1) FROM (SELECT DISTINCT VALUE c.kind FROM c WHERE c.n < 3) AS s"),
            1,
            Some("[3]"),
        ),
        (text("SELECT VALUE r.n + 1 FROM (SELECT COUNT(1) AS n FROM c) AS r"), 1, Some("[601]")),
        (text("SELECT VALUE r.n + 1 FROM (SELECT COUNT(1) AS n FROM c WHERE c.n < 0) AS r"), 1, Some("[1]")),
        (over("VALUE SUM(r.n)", ""), 1, Some("[600]")),
        (over("VALUE r.kind", "WHERE r.n > 85"), 5, Some("[0,1,2,3,4]")),
        (over("r.n, COUNT(1) AS k", "GROUP BY r.n"), 2, Some(r#"[{"n":85,"k":2},{"n":86,"k":5}]"#)),
        (over("DISTINCT VALUE r.n", ""), 2, Some("[85,86]")),
        (over("TOP 3 VALUE r.kind", "WHERE r.n > 0"), 3, None),
        (over("VALUE r.kind", "WHERE r.n > 0 OFFSET 2 LIMIT 4"), 4, None),
        (over("VALUE r.n", "WHERE r.kind >= 0"), 7, Some("[85,85,86,86,86,86,86]")),
        (
            format!(
                "SELECT VALUE COUNT(1) FROM (SELECT DISTINCT VALUE r.n FROM {GROUPS} WHERE r.n > 0) AS s"
            ),
            1,
            Some("[2]"),
        ),
        (text("SELECT VALUE t FROM (SELECT DISTINCT c.tags FROM c) AS r JOIN t IN r.tags"), 30, None),
        (text("SELECT VALUE t FROM t IN (SELECT DISTINCT VALUE c.tags FROM c)"), 30, None),
    ]
}

/// In the order of their texts.
async fn rows(
    fixture: &Fixture,
    container: &ContainerHandle,
    scope: &FeedScope,
    (text, max_items): (&str, i64),
) -> Vec<String> {
    let answer = fixture.answer_of(container, scope, text, max_items).await;
    let answer = answer.unwrap_or_else(|error| panic!("{text}: {error}"));
    let mut rows: Vec<String> = answer.rows.iter().map(|row| row.to_json().expect("rows are JSON")).collect();
    rows.sort_by(|left, right| left.len().cmp(&right.len()).then(left.cmp(right)));
    rows
}

#[tokio::test]
async fn whole_results_are_the_same_in_one_partition_and_in_many_and_page_by_page() {
    let (one, many) = (Fixture::new().await, Fixture::new().await);
    let (of_one, of_many) = (one.container(400).await, many.container(50_000).await);
    assert!(of_many.partition_key_ranges().len() > 1);
    fill(&one, &of_one).await;
    fill(&many, &of_many).await;
    let physical = FeedScope::Range { range_id: Some(0), epk: None };
    let logical = key_scope(r#"["p4"]"#);
    for (text, count, expected) in queries() {
        let in_key = rows(&one, &of_one, &logical, (&text, 1000)).await;
        let whole = rows(&one, &of_one, &FeedScope::All, (&text, 1000)).await;
        assert_eq!(whole.len(), count, "{text}: {whole:?}");
        if let Some(expected) = expected {
            assert_eq!(format!("[{}]", whole.join(",")), expected, "{text}");
        }
        let is_cut = text.contains("TOP") || text.contains("LIMIT");
        for max_items in [1, 2, 1000] {
            for (fixture, container) in [(&one, &of_one), (&many, &of_many)] {
                let found = rows(fixture, container, &FeedScope::All, (&text, max_items)).await;
                assert!(is_cut && found.len() == count || found == whole, "{text}: {found:?}, not {whole:?}");
                let found = rows(fixture, container, &logical, (&text, max_items)).await;
                assert!(is_cut && found.len() == in_key.len() || found == in_key, "{text}: {found:?}");
            }
            let found = rows(&one, &of_one, &physical, (&text, max_items)).await;
            assert!(is_cut && found.len() == count || found == whole, "{text}: {found:?}, not {whole:?}");
        }
    }
}

/// A key in the text is a scope, too.
#[tokio::test]
async fn whole_results_that_clients_cannot_merge_are_refused() {
    let fixture = Fixture::new().await;
    let container = fixture.container(50_000).await;
    fill(&fixture, &container).await;
    let alone = async |text: &str| {
        let request = QueryRequest { fans_out: false, ..request(text, 100, None) };
        let reply = fixture.account.queries().query(&fixture.ctx(), &container, request).await;
        reply.map(|reply| reply.rows.len()).map_err(|error| error.kind())
    };
    let plan = |text: &str| {
        let all = SupportedFeatures::all();
        let reply = fixture.account.queries().query_plan(&fixture.ctx(), &container, text, &[], &all);
        reply.expect("a plan").plan
    };
    for (text, ..) in queries() {
        let is_count = text.contains("COUNT(1) FROM (SELECT DISTINCT VALUE c.kind");
        assert_eq!(alone(&text).await, Err(ErrorKind::CrossPartitionQuery), "{text}");
        assert_eq!(plan(&text).check_merge().is_ok(), is_count, "{text}");
        let of_key = text.replace(" FROM c", " FROM c WHERE c.pk = 'p4'").replace("'p4' WHERE", "'p4' AND");
        // Aggregates with names are left to clients even there, which then merge one answer.
        let has_named_aggregate =
            ["SELECT COUNT(1) AS", "SELECT r.n, COUNT"].iter().any(|start| of_key.starts_with(start));
        let found = alone(&of_key).await;
        assert!(found.is_ok() || has_named_aggregate, "{of_key}: {found:?}");
        assert!(plan(&of_key).check_merge().is_ok(), "{of_key}");
    }
}

/// The subquery's result over one half of the items is another result.
#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_a_whole_result_is_refused_after_its_range_was_split() {
    let fixture = Fixture::new().await;
    let mut container = fixture.container(400).await;
    fill(&fixture, &container).await;
    let text = format!("SELECT VALUE r.kind FROM {GROUPS} WHERE r.n > 0");
    let scope = |range_id| FeedScope::Range { range_id: Some(range_id), epk: None };
    let ask = async |container: &ContainerHandle, range_id, token: Option<&str>| {
        let request = QueryRequest { scope: scope(range_id), fans_out: false, ..request(&text, 2, token) };
        fixture.account.queries().query(&fixture.ctx(), container, request).await
    };
    let token = ask(&container, 0, None).await.expect("a page").continuation.expect("more");
    let ticket = fixture.account.maintenance().split(&container, 0, SplitAt::Middle).await.expect("begins");
    ticket.finished().await.expect("ends");
    container = fixture.account.router().container("db", "c").expect("there");
    for range_id in 0..3 {
        let refused = ask(&container, range_id, Some(&token)).await.map(|reply| reply.rows.len());
        let kind = refused.expect_err("another result").kind();
        assert!(
            matches!(kind, ErrorKind::PartitionGone | ErrorKind::BadRequest),
            "range {range_id}: {kind:?}"
        );
    }
    let whole = fixture.answer(&container, &text, 2).await.expect("merged").rows;
    assert_eq!(whole.len(), 7);
}
