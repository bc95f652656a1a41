//! Operations on items through the façade, over an engine in memory.

use crate::support::json_door::{JsonDoor, KeyInput, Patch};
use std::time::Duration;

use crate::support::{Fixture, json, none};
use shardlake_account::Outcome;
use shardlake_document::{PatchOperation, Value, parse_path};
use shardlake_model::{
    ContainerDefinition, ETagCondition, ErrorKind, PartitionKeyDefinition, Preconditions, SessionToken,
    UniqueKey,
};

const A: Option<KeyInput<'static>> = Some(KeyInput(r#"["a"]"#));

#[tokio::test]
async fn an_item_lives_through_every_operation() {
    let fixture = Fixture::new().await;
    let c = fixture.container(400).await;
    let (account, ctx) = (&fixture.account, fixture.ctx());
    let created = account.create_item(&ctx, &c, A, br#"{"id":"1","pk":"a","n":1}"#).await.expect("created");
    assert_eq!((created.outcome, created.meta.lsn), (Outcome::Created, 1));
    let read = account.read_item(&ctx, &c, A, "1", &none()).await.expect("read");
    assert_eq!(json(read.item.as_ref().expect("a body"))["n"], 1);
    assert_eq!(read.meta.charge_centi, 100);

    let replaced = account
        .replace_item(&ctx, &c, A, "1", br#"{"id":"1","pk":"a","n":2}"#, &none())
        .await
        .expect("replaced");
    assert_eq!(replaced.meta.lsn, 2);
    let (old, new) = (created.item.expect("a body"), replaced.item.expect("a body"));
    assert_ne!(old.etag(), new.etag());
    assert_eq!(json(&old)["_rid"], json(&new)["_rid"], "the rid outlives a replace");

    let upserted =
        account.upsert_item(&ctx, &c, A, br#"{"id":"2","pk":"a"}"#, &none()).await.expect("created");
    assert_eq!(upserted.outcome, Outcome::Created);
    let again =
        account.upsert_item(&ctx, &c, A, br#"{"id":"2","pk":"a","x":0}"#, &none()).await.expect("replaced");
    assert_eq!((again.outcome, again.meta.lsn), (Outcome::Replaced, 4));

    let conflict = account.create_item(&ctx, &c, A, br#"{"id":"1","pk":"a"}"#).await.expect_err("taken");
    assert_eq!(conflict.kind(), ErrorKind::Conflict);
    assert_eq!(account.delete_item(&ctx, &c, A, "1", &none()).await.expect("deleted").meta.lsn, 5);
    let missing = account.read_item(&ctx, &c, A, "1", &none()).await.expect_err("gone");
    assert_eq!((missing.kind(), missing.meta().lsn), (ErrorKind::NotFound, 5));
    assert_eq!(c.usage().items, 1);
}

#[tokio::test]
async fn conditions_on_etags_hold_for_every_operation() {
    let fixture = Fixture::new().await;
    let c = fixture.container(400).await;
    let (account, ctx) = (&fixture.account, fixture.ctx());
    let body = br#"{"id":"1","pk":"a"}"#;
    let created = account.create_item(&ctx, &c, A, body).await.expect("created").item.expect("a body");
    let tag = |text: &str| ETagCondition::parse(text);
    let stale = Preconditions { if_match: Some(tag("\"other\"")), if_none_match: None };
    let current =
        Preconditions { if_match: Some(tag(&format!("\"{}\"", created.etag()))), if_none_match: None };
    let kinds = [
        account.replace_item(&ctx, &c, A, "1", body, &stale).await.expect_err("stale").kind(),
        account.upsert_item(&ctx, &c, A, body, &stale).await.expect_err("stale").kind(),
        account.delete_item(&ctx, &c, A, "1", &stale).await.expect_err("stale").kind(),
    ];
    assert_eq!(kinds, [ErrorKind::PreconditionFailed; 3]);
    let unmodified = Preconditions { if_match: None, if_none_match: current.if_match.clone() };
    let read = account.read_item(&ctx, &c, A, "1", &unmodified).await.expect("not modified");
    assert_eq!(read.outcome, Outcome::NotModified);
    account.replace_item(&ctx, &c, A, "1", body, &current).await.expect("current");
    account.replace_item(&ctx, &c, A, "1", body, &current).await.expect_err("no longer current");
    account
        .upsert_item(&ctx, &c, A, br#"{"id":"new","pk":"a"}"#, &stale)
        .await
        .expect("If-Match is for existing items");
}

#[tokio::test]
async fn keys_must_agree_with_bodies() {
    let fixture = Fixture::new().await;
    let c = fixture.container(400).await;
    let (account, ctx) = (&fixture.account, fixture.ctx());
    let error = account.create_item(&ctx, &c, A, br#"{"id":"1","pk":"b"}"#).await.expect_err("mismatch");
    assert_eq!(error.kind(), ErrorKind::PartitionKeyMismatch);
    account.create_item(&ctx, &c, None, br#"{"id":"1","pk":"a"}"#).await.expect("taken from the body");
    account.create_item(&ctx, &c, Some(KeyInput("[{}]")), br#"{"id":"1"}"#).await.expect("undefined");
    account.create_item(&ctx, &c, Some(KeyInput("[null]")), br#"{"id":"1","pk":null}"#).await.expect("null");
    account
        .create_item(&ctx, &c, Some(KeyInput("[{}]")), br#"{"id":"2","pk":[1]}"#)
        .await
        .expect("an array is undefined");
    account
        .read_item(&ctx, &c, Some(KeyInput("[null]")), "2", &none())
        .await
        .expect_err("null is not undefined");
    for broken in ["", "a", "[", "[1,2]", r#"["a""#, "{}", "[[1]]"] {
        let error =
            account.read_item(&ctx, &c, Some(KeyInput(broken)), "1", &none()).await.expect_err(broken);
        assert_eq!(error.kind(), ErrorKind::BadRequest, "{broken}");
    }
}

#[tokio::test]
async fn a_replace_may_rename_within_the_logical_partition() {
    let fixture = Fixture::new().await;
    let c = fixture.container(400).await;
    let (account, ctx) = (&fixture.account, fixture.ctx());
    for id in ["1", "2"] {
        let body = format!(r#"{{"id":"{id}","pk":"a"}}"#);
        account.create_item(&ctx, &c, A, body.as_bytes()).await.expect("created");
    }
    let taken =
        account.replace_item(&ctx, &c, A, "1", br#"{"id":"2","pk":"a"}"#, &none()).await.expect_err("taken");
    assert_eq!(taken.kind(), ErrorKind::Conflict);
    account.replace_item(&ctx, &c, A, "1", br#"{"id":"3","pk":"a"}"#, &none()).await.expect("renamed");
    account.read_item(&ctx, &c, A, "1", &none()).await.expect_err("gone");
    account.read_item(&ctx, &c, A, "3", &none()).await.expect("there");
    assert_eq!(c.usage().items, 2);
}

#[tokio::test]
async fn patches_change_what_they_may() {
    let fixture = Fixture::new().await;
    let c = fixture.container(400).await;
    let (account, ctx) = (&fixture.account, fixture.ctx());
    account.create_item(&ctx, &c, A, br#"{"id":"1","pk":"a","n":1,"o":{"x":1}}"#).await.expect("created");
    let set = |path: &str, value: i64| PatchOperation::Set {
        path: parse_path(path).expect("a path"),
        value: Value::Int(value),
    };
    let patch = |operations: Vec<PatchOperation>, condition: Option<&str>| Patch {
        operations,
        condition: condition.map(str::to_owned),
    };
    let reply = account
        .patch_item(&ctx, &c, A, "1", patch(vec![set("/n", 2)], Some("from c where c.n = 1")), &none())
        .await;
    assert_eq!(json(&reply.expect("patched").item.expect("a body"))["n"], 2);
    let refused = account
        .patch_item(&ctx, &c, A, "1", patch(vec![set("/n", 3)], Some("from c where c.n = 1")), &none())
        .await;
    assert_eq!(refused.expect_err("the condition is false").kind(), ErrorKind::PreconditionFailed);
    for path in ["/id", "/pk", "/_ts", "/_etag"] {
        let error = account.patch_item(&ctx, &c, A, "1", patch(vec![set(path, 1)], None), &none()).await;
        assert_eq!(error.expect_err(path).kind(), ErrorKind::BadRequest, "{path}");
    }
    let eleven = (0..11).map(|_| set("/n", 1)).collect();
    account.patch_item(&ctx, &c, A, "1", patch(eleven, None), &none()).await.expect_err("too many");
    let half_bad = patch(vec![set("/n", 9), set("/missing/x", 1)], None);
    account.patch_item(&ctx, &c, A, "1", half_bad, &none()).await.expect_err("the parent is missing");
    let read = account.read_item(&ctx, &c, A, "1", &none()).await.expect("read");
    assert_eq!(json(&read.item.expect("a body"))["n"], 2, "a failed patch leaves no trace");
}

#[tokio::test]
async fn expired_items_are_gone_at_once() {
    let fixture = Fixture::new().await;
    let mut definition = ContainerDefinition::new("c", PartitionKeyDefinition::hash("/pk"));
    definition.default_ttl = Some(10);
    definition.unique_key_policy.unique_keys = vec![UniqueKey { paths: vec!["/email".into()] }];
    let c = fixture.container_with(definition, 400).await;
    let account = &fixture.account;
    let ctx = fixture.ctx();
    account.create_item(&ctx, &c, A, br#"{"id":"1","pk":"a","email":"e"}"#).await.expect("created");
    account.create_item(&ctx, &c, A, br#"{"id":"2","pk":"a","email":"f","ttl":-1}"#).await.expect("created");
    account.create_item(&ctx, &c, A, br#"{"id":"3","pk":"a","ttl":0}"#).await.expect_err("0 is invalid");
    fixture.clock.advance(Duration::from_secs(10));
    let ctx = fixture.ctx();
    account.read_item(&ctx, &c, A, "1", &none()).await.expect_err("expired");
    account.read_item(&ctx, &c, A, "2", &none()).await.expect("never expires");
    account.delete_item(&ctx, &c, A, "1", &none()).await.expect_err("expired");
    account
        .create_item(&ctx, &c, A, br#"{"id":"9","pk":"a","email":"e"}"#)
        .await
        .expect("its unique value is free");
    account.create_item(&ctx, &c, A, br#"{"id":"1","pk":"a","email":"g"}"#).await.expect("its id is free");
}

#[tokio::test]
async fn unique_keys_hold_within_a_logical_partition() {
    let fixture = Fixture::new().await;
    let mut definition = ContainerDefinition::new("c", PartitionKeyDefinition::hash("/pk"));
    definition.unique_key_policy.unique_keys = vec![UniqueKey { paths: vec!["/email".into(), "/n".into()] }];
    let c = fixture.container_with(definition, 400).await;
    let (account, ctx) = (&fixture.account, fixture.ctx());
    account.create_item(&ctx, &c, A, br#"{"id":"1","pk":"a","email":"e","n":1}"#).await.expect("created");
    let taken = account.create_item(&ctx, &c, A, br#"{"id":"2","pk":"a","email":"e","n":1.0}"#).await;
    assert_eq!(taken.expect_err("taken").kind(), ErrorKind::Conflict);
    account
        .create_item(&ctx, &c, None, br#"{"id":"2","pk":"b","email":"e","n":1}"#)
        .await
        .expect("another partition");
    account.create_item(&ctx, &c, A, br#"{"id":"3","pk":"a"}"#).await.expect("missing counts as null");
    account
        .create_item(&ctx, &c, A, br#"{"id":"4","pk":"a","email":null}"#)
        .await
        .expect_err("null is taken");
    account
        .replace_item(&ctx, &c, A, "1", br#"{"id":"1","pk":"a","email":"x","n":1}"#, &none())
        .await
        .expect("moved on");
    account.create_item(&ctx, &c, A, br#"{"id":"5","pk":"a","email":"e","n":1}"#).await.expect("free again");
    account.delete_item(&ctx, &c, A, "5", &none()).await.expect("deleted");
    account
        .upsert_item(&ctx, &c, A, br#"{"id":"6","pk":"a","email":"e","n":1}"#, &none())
        .await
        .expect("free again");
}

#[tokio::test]
async fn a_session_from_the_future_is_refused() {
    let fixture = Fixture::new().await;
    let c = fixture.container(400).await;
    let account = &fixture.account;
    account.create_item(&fixture.ctx(), &c, A, br#"{"id":"1","pk":"a"}"#).await.expect("created");
    let mut ctx = fixture.ctx();
    let own = account.read_item(&ctx, &c, A, "1", &none()).await.expect("read").meta.session_version;
    let tokens = [
        (format!("0:{own}#1"), true),
        (format!("0:{own}#2"), false),
        (format!("7:{own}#99"), true),
        // An earlier container of the same name, and a later one.
        (format!("0:{}#99", own - 1), true),
        (format!("0:{}#1", own + 1), false),
    ];
    for (token, works) in tokens {
        ctx.session = SessionToken::parse(&token);
        let read = account.read_item(&ctx, &c, A, "1", &none()).await;
        assert_eq!(read.is_ok(), works, "{token}");
        if let Err(error) = read {
            assert_eq!(error.kind(), ErrorKind::SessionNotAvailable);
        }
    }
}

#[tokio::test]
async fn rids_address_items_when_the_container_is_named_by_rid() {
    let fixture = Fixture::new().await;
    let c = fixture.container(400).await;
    let (account, ctx) = (&fixture.account, fixture.ctx());
    let created = account.create_item(&ctx, &c, A, br#"{"id":"1","pk":"a"}"#).await.expect("created");
    let link = json(&created.item.expect("a body"))["_self"].as_str().expect("a link").to_owned();
    let segments: Vec<&str> = link.trim_end_matches('/').split('/').collect();
    let by_rid = account.router().container_for_items(segments[1], segments[3]).expect("found by rid");
    account.read_item(&ctx, &by_rid, A, segments[5], &none()).await.expect("found by rid");
    account.read_item(&ctx, &c, A, segments[5], &none()).await.expect_err("a rid is no id");
    account.delete_item(&ctx, &by_rid, A, segments[5], &none()).await.expect("deleted by rid");
    account.read_item(&ctx, &by_rid, A, segments[5], &none()).await.expect_err("gone");
}

#[tokio::test]
async fn bodies_that_are_wrong_are_refused_in_words() {
    let fixture = Fixture::new().await;
    let c = fixture.container(400).await;
    let (account, ctx) = (&fixture.account, fixture.ctx());
    let long_id = format!(r#"{{"id":"{}","pk":"a"}}"#, "x".repeat(1024));
    let deep = format!(r#"{{"id":"1","pk":"a","d":{}{}}}"#, "[".repeat(200), "]".repeat(200));
    let cases = [
        "",
        "[]",
        "null",
        "{",
        r#"{"pk":"a"}"#,
        r#"{"id":1,"pk":"a"}"#,
        r#"{"id":"","pk":"a"}"#,
        r#"{"id":"1","pk":"a"} x"#,
        &long_id,
        &deep,
    ];
    for case in cases {
        let error = account.create_item(&ctx, &c, A, case.as_bytes()).await.expect_err(case);
        assert_eq!(error.kind(), ErrorKind::BadRequest, "{case}");
    }
    let big = format!(r#"{{"id":"1","pk":"a","d":"{}"}}"#, "x".repeat(2 * 1024 * 1024));
    assert_eq!(
        account.create_item(&ctx, &c, A, big.as_bytes()).await.expect_err("too big").kind(),
        ErrorKind::TooLarge
    );
    let invalid = b"{\"id\":\"1\",\"pk\":\"a\",\"d\":\"\xff\"}";
    assert_eq!(
        account.create_item(&ctx, &c, A, invalid).await.expect_err("not UTF-8").kind(),
        ErrorKind::BadRequest
    );
}
