//! A query is bound to its container once, however many pages it has and however often it is asked.

use shardlake_account::{ContainerHandle, FeedScope, QueryRequest, Value};
use shardlake_model::{ContainerDefinition, KeyComponent, PartitionKey, PartitionKeyDefinition};

use crate::support::json_door::JsonDoor;
use crate::support::queries::{parse, request};
use crate::support::{Fixture, none};

async fn filled() -> (Fixture, ContainerHandle) {
    let fixture = Fixture::new().await;
    let container = fixture.container(30_000).await;
    for number in 0..60 {
        let body = format!(r#"{{"id":"{number}","pk":"{number}","n":{number}}}"#);
        fixture
            .account
            .upsert_item(&fixture.ctx(), &container, None, body.as_bytes(), &none())
            .await
            .expect("stored");
    }
    (fixture, container)
}

#[tokio::test]
async fn a_query_of_many_pages_is_bound_once() {
    let (fixture, container) = filled().await;
    for text in [
        "SELECT * FROM c WHERE c.n < 50",
        "SELECT VALUE c.n FROM c WHERE c.n < 50 ORDER BY c.n",
        "SELECT c.n % 7 AS rest, COUNT(1) AS n FROM c GROUP BY c.n % 7",
    ] {
        let before = fixture.account.queries().queries_bound();
        let answer = fixture.answer(&container, text, 3).await.expect("answered");
        assert!(answer.pages > 1, "{text}: {} pages", answer.pages);
        fixture.answer(&container, text, 4).await.expect("answered again");
        assert_eq!(fixture.account.queries().queries_bound() - before, 1, "{text}");
    }
}

#[tokio::test]
async fn other_parameters_and_other_definitions_are_bound_anew() {
    let (fixture, container) = filled().await;
    let count = async |container: &ContainerHandle, at_most: i64| {
        let parameters = [("@n".to_owned(), Value::Int(at_most))];
        let text = "SELECT VALUE COUNT(1) FROM c WHERE c.n < @n";
        let request = QueryRequest { parameters: &parameters, ..request(text, 10, None) };
        let reply =
            fixture.account.queries().query(&fixture.ctx(), container, request).await.expect("answered");
        (reply.rows.iter().map(parse).collect::<Vec<_>>(), fixture.account.queries().queries_bound())
    };
    assert_eq!(count(&container, 10).await, (vec![Value::Int(10)], 1));
    assert_eq!(count(&container, 20).await, (vec![Value::Int(20)], 2));
    assert_eq!(count(&container, 10).await, (vec![Value::Int(10)], 2));
    let mut definition = ContainerDefinition::new("c", PartitionKeyDefinition::hash("/pk"));
    definition.default_ttl = Some(-1);
    let changed =
        fixture.account.definitions().replace_container(&fixture.ctx(), "db", "c", definition, &none()).await;
    let changed = changed.expect("replaced");
    assert_eq!(count(&changed, 10).await, (vec![Value::Int(10)], 3));
}

#[tokio::test]
async fn a_query_that_tells_the_time_is_bound_to_each() {
    let (fixture, container) = filled().await;
    let now = async || {
        let scope = FeedScope::Key(PartitionKey(vec![KeyComponent::String("1".into())]));
        let request =
            QueryRequest { scope, ..request("SELECT VALUE GETCURRENTTIMESTAMP() FROM c", 10, None) };
        let reply =
            fixture.account.queries().query(&fixture.ctx(), &container, request).await.expect("answered");
        reply.rows.iter().map(parse).collect::<Vec<_>>()
    };
    let before = now().await;
    fixture.clock.advance(std::time::Duration::from_secs(5));
    let after = now().await;
    let milliseconds = |rows: &[Value]| rows[0].as_number().expect("a number").as_f64();
    assert_eq!(milliseconds(&after) - milliseconds(&before), 5000.0);
}
