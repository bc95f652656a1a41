//! Tokens of ordered queries with a filter that changes between pages. The token's position is the
//! beginning of a page, and the filter of the page's own request selects its rows. The JavaScript
//! SDK narrows the filter from page to page.

use crate::keyed_order::{answer, customers, key, of_two_keys, page, policy, put};
use crate::support::Fixture;
use proptest::prelude::*;
use shardlake_account::{ContainerHandle, FeedScope, Value};

const FILTERS: [&str; 7] = [
    "true",
    "c.b > 3",
    "UPPER(c.s) = 'X'",
    "IS_DEFINED(c.a)",
    "c.a > 20",
    "STARTSWITH(c.a, 'long')",
    "c.b != 2",
];

/// The place of each row in the order of all.
fn places(all: &[Value], rows: &[Value]) -> Vec<usize> {
    let place = |row| all.iter().position(|other| other == row).expect("a row of the container");
    rows.iter().map(place).collect()
}

/// Reads to the end with the filters in rotation, one for each page; `order` has every item's id in
/// the order of the query.
async fn read_with(
    (fixture, container, scope): (&Fixture, &ContainerHandle, &FeedScope),
    (direction, max_items): (&str, i64),
    filters: &[&str],
    order: &[Value],
) {
    let text = |filter: &str| format!("SELECT VALUE c.id FROM c WHERE {filter} ORDER BY c.a{direction}");
    let (mut token, mut begin) = (None::<String>, 0..=0);
    for filter in filters.iter().cycle().take(order.len() + 2) {
        let text = text(filter);
        let kept = places(order, &answer(fixture, container, scope, (&text, 1000)).await.rows);
        let (found, next) = page(fixture, container, scope, (&text, max_items), token.as_deref()).await;
        let found = places(order, &found.rows);
        // The previous page may have passed over rows that its own filter excludes.
        let expected = |from: &usize| -> Vec<usize> {
            let left = kept.iter().copied().filter(|place| place >= from);
            left.take(max_items as usize).collect()
        };
        assert!(
            begin.clone().any(|from| expected(&from) == found),
            "{text} from {begin:?}: {found:?} of {kept:?}"
        );
        let Some(next) = next else { return };
        let last = found.last().map_or(*begin.start(), |last| last + 1);
        let skipped = kept.iter().copied().find(|place| *place >= last).unwrap_or(order.len());
        (token, begin) = (Some(next), last..=skipped.max(*begin.end()));
    }
    panic!("pages without end");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10, max_shrink_iters: 20, ..ProptestConfig::default() })]

    #[test]
    fn a_page_begins_at_the_position_whatever_the_filter(
        seeds in prop::collection::vec(any::<u64>(), 500..600),
        policy in policy(),
        direction in prop::sample::select(vec!["", " DESC"]),
        filters in prop::collection::vec(prop::sample::select(FILTERS.to_vec()), 1..5),
        max_items in prop::sample::select(vec![3i64, 40]),
        mine in prop::sample::select(vec![2u64, 9]),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let (fixture, container) = of_two_keys(&seeds, policy, mine).await;
            let all = format!("SELECT VALUE c.id FROM c ORDER BY c.a{direction}");
            for scope in [key("mine"), FeedScope::Range { range_id: Some(0), epk: None }] {
                let order = answer(&fixture, &container, &scope, (&all, 1000)).await.rows;
                read_with((&fixture, &container, &scope), (direction, max_items), &filters, &order).await;
            }
        });
    }
}

#[tokio::test]
async fn a_token_is_good_for_its_key_its_order_and_what_is_joined() {
    let fixture = Fixture::new().await;
    let container = fixture.container_with(customers(), 400).await;
    for number in 0..40 {
        let customer = if number % 2 == 0 { "mine" } else { "other" };
        let body = format!(r#"{{"id":"{number}","customerId":"{customer}","a":{number},"tags":[1,2,3]}}"#);
        put(&fixture, &container, &body).await;
    }
    let refused = async |scope: &FeedScope, text: &str, token: &str| {
        let request = crate::support::queries::request(text, 3, Some(token));
        let request = shardlake_account::QueryRequest { scope: scope.clone(), fans_out: false, ..request };
        let asked = fixture.account.queries().query(&fixture.ctx(), &container, request).await;
        let message = asked.map(|_| ()).expect_err("it is refused").to_string();
        assert!(message.contains("Invalid Continuation Token"), "{text}: {message}");
    };
    let mine = key("mine");
    let text = "SELECT VALUE c.id FROM c ORDER BY c.a";
    let (_, token) = page(&fixture, &container, &mine, (text, 3), None).await;
    let token = token.expect("more");
    refused(&key("other"), text, &token).await;
    for other in [
        "SELECT VALUE c.id FROM c ORDER BY c.a DESC",
        "SELECT VALUE c.id FROM c ORDER BY c.id",
        "SELECT VALUE c.id FROM c",
        "SELECT TOP 9 VALUE c.id FROM c ORDER BY c.a",
        "SELECT DISTINCT VALUE c.id FROM c ORDER BY c.a",
        "SELECT VALUE t FROM c JOIN t IN c.tags ORDER BY c.a",
    ] {
        refused(&mine, other, &token).await;
    }
    let (found, _) = page(
        &fixture,
        &container,
        &mine,
        ("SELECT VALUE c.a FROM c WHERE c.a != 8 ORDER BY c.a", 3),
        Some(&token),
    )
    .await;
    assert_eq!(found.rows, [6, 10, 12].map(Value::Int));
    // The rows of an item are counted: another condition on them would count others.
    let joined = "SELECT VALUE [c.a, t] FROM c JOIN t IN c.tags ORDER BY c.a";
    let (_, token) = page(&fixture, &container, &mine, (joined, 4), None).await;
    let token = token.expect("more");
    refused(&mine, "SELECT VALUE [c.a, t] FROM c JOIN t IN c.tags WHERE t > 1 ORDER BY c.a", &token).await;
    let narrowed = "SELECT VALUE [c.a, t] FROM c JOIN t IN c.tags WHERE c.a >= 2 ORDER BY c.a";
    let (found, _) = page(&fixture, &container, &mine, (narrowed, 2), Some(&token)).await;
    assert_eq!(found.rows, [2, 3].map(|t| Value::Array(vec![Value::Int(2), Value::Int(t)])));
}

/// A composite index after an equality has its own order among rows with equal sort keys.
#[tokio::test]
async fn a_filter_that_leads_to_another_index_is_refused() {
    let fixture = Fixture::new().await;
    let mut definition = customers();
    let policy = r#"{"includedPaths":[{"path":"/*"}],"compositeIndexes":[[{"path":"/b"},{"path":"/a"}]]}"#;
    definition.indexing_policy = serde_json::from_str(policy).expect("a policy");
    let container = fixture.container_with(definition, 400).await;
    for number in 0..2_000 {
        let body = format!(
            r#"{{"id":"{number}","customerId":"c","a":{},"b":{},"c":{number}}}"#,
            number / 9,
            number % 3
        );
        put(&fixture, &container, &body).await;
    }
    let scope = FeedScope::Range { range_id: Some(0), epk: None };
    let plain = "SELECT VALUE c.id FROM c ORDER BY c.a";
    let (_, token) = page(&fixture, &container, &scope, (plain, 10), None).await;
    let fixed = "SELECT VALUE c.id FROM c WHERE c.b = 2 ORDER BY c.a";
    let request = crate::support::queries::request(fixed, 10, token.as_deref());
    let request = shardlake_account::QueryRequest { scope, ..request };
    let refused = fixture.account.queries().query(&fixture.ctx(), &container, request).await;
    let message = refused.map(|_| ()).expect_err("it is refused").to_string();
    assert!(message.contains("the filter selects another one"), "{message}");
}
