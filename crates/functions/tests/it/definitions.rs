//! Definitions: stored, replaced, refused; containers that are deleted.

use serde_json::{Value, json};
use shardlake_account::{FunctionPut, ProjectionRule};
use shardlake_model::ErrorKind;
use shardlake_storage::{Shard, ShardOptions};

use crate::shop::{container, context, function, put, report, with};
use crate::support::Fixture;

const CODE: &str = "async function (changes, context) { }";

async fn shop() -> Fixture {
    let fixture = Fixture::new().await;
    container(&fixture, "meta", "/type", 400).await;
    container(&fixture, "product", "/categoryId", 400).await;
    fixture
}

#[tokio::test]
async fn a_function_survives_a_restart_with_its_versions() {
    let shard = Shard::open(ShardOptions::memory()).await.expect("opens");
    {
        let fixture = Fixture::over(shard.clone()).await;
        container(&fixture, "meta", "/type", 400).await;
        container(&fixture, "product", "/categoryId", 400).await;
        let first = function("names", "meta", &["product"], CODE);
        assert_eq!(put(&fixture.account, &first).await.expect("valid"), FunctionPut::Created);
        assert_eq!(put(&fixture.account, &first).await.expect("valid"), FunctionPut::Unchanged);
        for version in 2..=12 {
            let code = format!("async function (changes, context) {{ return {version}; }}");
            let next = with(first.clone(), "code", code);
            assert_eq!(put(&fixture.account, &next).await.expect("valid"), FunctionPut::Replaced);
        }
        fixture.account.functions().pause("names").await.expect("there");
    }
    let fixture = Fixture::over(shard).await;
    let found = report(&fixture.account, "names").await;
    assert_eq!((found.record.version, found.record.number, found.state.name()), (12, 1, "Paused"));
    let kept: Vec<u64> = found.record.earlier.iter().map(|earlier| earlier.version).collect();
    assert_eq!(kept, (3..=11).collect::<Vec<u64>>(), "ten with the current one");
    fixture.account.functions().resume("names").await.expect("there");
    fixture.account.functions().delete("names").await.expect("there");
    let error = fixture.account.functions().function("names").await.expect_err("deleted");
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn wrong_definitions_are_refused_with_the_reason() {
    let fixture = shop().await;
    let valid = function("names", "meta", &["product"], CODE);
    let letters = json!({ "deadLetters": "product" });
    for (member, value, reason) in [
        ("source", json!({ "database": "db", "container": "nowhere" }), "'db/nowhere'"),
        ("access", json!({ "other/product": "read" }), "'other/product'"),
        ("access", json!({ "product": "read", "db/product": "read" }), "twice"),
        ("deadLetters", letters["deadLetters"].clone(), "container of their own"),
        ("deadLetters", json!("a/b"), "deadLetters"),
        ("code", json!("async function ( {"), "code"),
        ("code", json!("1 + 1"), "code"),
    ] {
        let error = put(&fixture.account, &with(valid.clone(), member, value)).await.expect_err(reason);
        assert_eq!(error.kind(), ErrorKind::BadRequest, "{error}");
        assert!(error.message().contains(reason), "{reason}: {error}");
    }
    assert!(fixture.account.functions().functions().await.is_empty());
}

#[tokio::test]
async fn a_function_that_would_feed_itself_through_another_is_refused() {
    let fixture = shop().await;
    put(&fixture.account, &function("there", "meta", &["product"], CODE)).await.expect("valid");
    let back = function("back", "product", &["meta"], CODE);
    let error = put(&fixture.account, &back).await.expect_err("a circle");
    assert!(error.message().contains("the function 'there'"), "{error}");
    put(&fixture.account, &with(back, "allowCircle", true)).await.expect("accepted");
    // Its own commits never come back, so a function may write to its source.
    let fixture = shop().await;
    put(&fixture.account, &function("own", "meta", &["meta"], CODE)).await.expect("valid");
}

#[tokio::test]
async fn a_function_of_a_deleted_container_fails_with_the_reason() {
    for deleted in ["meta", "product"] {
        let fixture = shop().await;
        let names = function("names", "meta", &["product"], CODE);
        put(&fixture.account, &names).await.expect("valid");
        assert_eq!(report(&fixture.account, "names").await.state.name(), "Active");
        let definitions = fixture.account.definitions();
        definitions
            .delete_container(&fixture.ctx(), "db", deleted, &Default::default())
            .await
            .expect("deleted");
        let state = report(&fixture.account, "names").await.state;
        assert_eq!(state.name(), "Failed");
        assert!(state.reason().expect("known").contains(&format!("'db/{deleted}'")), "{state:?}");
        let key = if deleted == "meta" { "/type" } else { "/categoryId" };
        container(&fixture, deleted, key, 400).await;
        assert_eq!(report(&fixture.account, "names").await.state.name(), "Failed", "it is another container");
        assert_eq!(put(&fixture.account, &names).await.expect("valid"), FunctionPut::Replaced);
        let found = report(&fixture.account, "names").await;
        assert_eq!(found.state.name(), "Active");
        let begins_anew = deleted == "meta";
        assert_eq!(found.record.former_numbers, if begins_anew { vec![1] } else { vec![] });
    }
}

#[tokio::test]
async fn names_are_unique_over_functions_and_projections() {
    let fixture = shop().await;
    let rule: Value = json!({
        "id": "names",
        "source": { "database": "db", "container": "meta" },
        "target": { "database": "db", "container": "product" },
        "match": [{ "source": "/id", "target": "/categoryId" }],
        "set": [{ "from": "/name", "to": "/categoryName" }],
    });
    let rule: ProjectionRule = serde_json::from_value(rule).expect("well-formed");
    let (projections, ctx) = (fixture.account.projections(), context(&fixture.account));
    let names = function("names", "meta", &[], CODE);
    put(&fixture.account, &names).await.expect("valid");
    let error = projections.put_projection(&ctx, ProjectionRule::clone(&rule)).await.expect_err("taken");
    assert!(error.message().contains("function 'names'"), "{error}");
    fixture.account.functions().delete("names").await.expect("there");
    projections.put_projection(&ctx, rule).await.expect("valid");
    let error = put(&fixture.account, &names).await.expect_err("taken");
    assert!(error.message().contains("projection 'names'"), "{error}");
}
