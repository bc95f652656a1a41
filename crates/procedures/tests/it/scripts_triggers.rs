//! Triggers: which may be named, their possible changes, and their atomicity with the write.

use crate::support::json_door::{JsonDoor, KeyInput, Triggers};
use crate::support::{Fixture, none};
use serde_json::json;
use shardlake_account::{ContainerHandle, WriteReply};
use shardlake_model::{ETagCondition, ErrorKind, Preconditions, Result, TriggerOperation, TriggerType};

async fn fixture() -> Fixture {
    let fixture = Fixture::new().await;
    let container = fixture.container(400).await;
    let pre = |operation| (TriggerType::Pre, operation);
    let post = |operation| (TriggerType::Post, operation);
    let shout =
        "const r = getContext().getRequest(), d = r.getBody(); d.v = d.v.toUpperCase(); r.setBody(d);";
    let count = "const r = getContext().getRequest(), made = getContext().getResponse().getBody();
        c.upsertDocument(c.getSelfLink(), {id: 'count', pk: made.pk, last: made._etag, by: r.getOperationType()}, err => { if (err) throw err; });";
    fixture.trigger(&container, "shout", pre(TriggerOperation::All), shout).await;
    fixture.trigger(&container, "update", pre(TriggerOperation::Update), shout).await;
    fixture.trigger(&container, "count", post(TriggerOperation::All), count).await;
    let throws = "throw new Error('on purpose');";
    fixture.trigger(&container, "no", pre(TriggerOperation::All), throws).await;
    fixture.trigger(&container, "late no", post(TriggerOperation::All), &format!("{count} {throws}")).await;
    let moves = "const r = getContext().getRequest(), d = r.getBody(); d.pk = 'elsewhere'; r.setBody(d);";
    fixture.trigger(&container, "moves", pre(TriggerOperation::All), moves).await;
    let spoils = "getContext().getRequest().setBody({pk: 'a'});";
    fixture.trigger(&container, "spoils", pre(TriggerOperation::All), spoils).await;
    let answers = "const r = getContext().getResponse(), d = r.getBody(); r.setBody({told: d.id});";
    fixture.trigger(&container, "answers", post(TriggerOperation::All), answers).await;
    let again =
        "const d = getContext().getResponse().getBody(); d.v = 'again'; c.replaceDocument(d._self, d);";
    fixture.trigger(&container, "again", post(TriggerOperation::All), again).await;
    let guards =
        "c.readDocument(c.getAltLink() + '/docs/closed', err => { if (!err) throw new Error('closed'); });";
    fixture.trigger(&container, "guards", pre(TriggerOperation::Delete), guards).await;
    fixture
}

fn current(fixture: &Fixture) -> ContainerHandle {
    fixture.account.router().container("db", "c").expect("there")
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

async fn create(fixture: &Fixture, json: &str, pre: &[&str], post: &[&str]) -> Result<WriteReply> {
    let (pre, post) = (names(pre), names(post));
    let triggers = Triggers { pre: &pre, post: &post };
    let key = Some(KeyInput(r#"["a"]"#));
    let (ctx, container) = (fixture.ctx(), current(fixture));
    fixture.account.create_item_with_triggers(&ctx, &container, key, json.as_bytes(), triggers).await
}

#[tokio::test]
async fn a_write_and_its_triggers_are_one_commit() {
    let fixture = fixture().await;
    let lsn = current(&fixture).partition_key_ranges()[0].lsn;
    let item = r#"{"id":"1","pk":"a","v":"quiet"}"#;
    let made = create(&fixture, item, &["shout"], &["count"]).await.expect("created");
    assert_eq!((made.reply.meta.lsn, made.reply.meta.item_lsn), (lsn + 1, lsn + 1));
    let shown = crate::support::json(made.reply.item.as_ref().expect("there"));
    assert_eq!(Some(&shown), fixture.stored("a", "1").await.as_ref());
    assert_eq!(shown["v"], "QUIET");
    let count = fixture.stored("a", "count").await.expect("written");
    assert_eq!((&count["last"], &count["by"]), (&shown["_etag"], &json!("Create")));
    assert_eq!(made.body, None);

    // Two runs, and both creates.
    let plain = create(&fixture, r#"{"id":"2","pk":"a","v":"quiet"}"#, &[], &[]).await.expect("created");
    let both = made.reply.meta.charge_centi - 2 * 500;
    assert!(both > plain.reply.meta.charge_centi, "{both}");
    assert_eq!(fixture.stored("a", "2").await.expect("there")["v"], "quiet", "unasked, none runs");
}

#[tokio::test]
async fn whatever_fails_takes_everything_back() {
    let fixture = fixture().await;
    let item = r#"{"id":"1","pk":"a","v":"x"}"#;
    let kind = |outcome: Result<WriteReply>| outcome.expect_err("refused").kind();
    assert_eq!(kind(create(&fixture, item, &["no"], &[]).await), ErrorKind::BadRequest);
    let error = create(&fixture, item, &[], &["late no"]).await.expect_err("it throws");
    assert_eq!(error.kind(), ErrorKind::BadRequest);
    assert!(error.message().contains("on purpose"), "{error}");
    assert!(error.meta().charge_centi > 1000, "what was done is paid for");
    assert_eq!(kind(create(&fixture, item, &["moves"], &[]).await), ErrorKind::PartitionKeyMismatch);
    assert_eq!(kind(create(&fixture, item, &["spoils"], &[]).await), ErrorKind::BadRequest);
    assert_eq!(current(&fixture).partition_key_ranges()[0].lsn, 0, "nothing was written");
    create(&fixture, item, &[], &[]).await.expect("created");
    // The write's own failure is reported as ever, and the post-trigger does not run.
    assert_eq!(kind(create(&fixture, item, &["shout"], &["count"]).await), ErrorKind::Conflict);
    assert_eq!(fixture.stored("a", "count").await, None);
}

#[tokio::test]
async fn triggers_are_named_rightly_or_refused() {
    let fixture = fixture().await;
    let item = r#"{"id":"1","pk":"a","v":"x"}"#;
    for (pre, post) in [
        (&["unknown"][..], &[][..]),
        (&["count"], &[]),
        (&[], &["shout"]),
        (&["update"], &[]),
        (&["guards"], &[]),
        (&["shout", "shout"], &[]),
        (&[], &["count", "answers"]),
    ] {
        let refused = create(&fixture, item, pre, post).await.expect_err("refused");
        assert_eq!(refused.kind(), ErrorKind::BadRequest, "{pre:?} {post:?}: {refused}");
    }
    assert_eq!(fixture.stored("a", "1").await, None);
}

#[tokio::test]
async fn replaces_upserts_and_deletes_have_triggers_too() {
    let fixture = fixture().await;
    let (ctx, container) = (fixture.ctx(), current(&fixture));
    let key = Some(KeyInput(r#"["a"]"#));
    let (update, count, guards) = (names(&["update"]), names(&["count"]), names(&["guards"]));
    let shout = names(&["shout"]);
    let both = Triggers { pre: &update, post: &count };
    let account = &fixture.account;
    let first = br#"{"id":"1","pk":"a","v":"one"}"#;
    let refused = account.upsert_item_with_triggers(&ctx, &container, key, first, &none(), both).await;
    assert_eq!(refused.expect_err("an upsert is no update").kind(), ErrorKind::BadRequest);
    let for_all = Triggers { pre: &shout, post: &count };
    let made = account
        .upsert_item_with_triggers(&ctx, &container, key, first, &none(), for_all)
        .await
        .expect("created");
    assert_eq!(fixture.stored("a", "1").await.expect("there")["v"], "ONE");
    assert_eq!(fixture.stored("a", "count").await.expect("there")["by"], "Upsert");

    let etag = made.reply.item.expect("there").etag().to_string();
    let of = |etag: &str| Preconditions { if_match: Some(ETagCondition::parse(etag)), ..none() };
    let body = br#"{"id":"1","pk":"a","v":"two"}"#;
    let stale = account
        .replace_item_with_triggers(&ctx, &container, key, "1", body, &of("other"), both)
        .await
        .expect_err("another etag");
    assert_eq!(stale.kind(), ErrorKind::PreconditionFailed);
    account
        .replace_item_with_triggers(&ctx, &container, key, "1", body, &of(&etag), both)
        .await
        .expect("replaced");
    assert_eq!(fixture.stored("a", "1").await.expect("there")["v"], "TWO");
    assert_eq!(fixture.stored("a", "count").await.expect("there")["by"], "Replace");

    let guarded = Triggers { pre: &guards, post: &[] };
    create(&fixture, r#"{"id":"closed","pk":"a"}"#, &[], &[]).await.expect("created");
    let closed = account.delete_item_with_triggers(&ctx, &container, key, "1", &none(), guarded).await;
    assert!(closed.expect_err("closed").message().contains("closed"));
    account.delete_item(&ctx, &container, key, "closed", &none()).await.expect("deleted");
    account.delete_item_with_triggers(&ctx, &container, key, "1", &none(), guarded).await.expect("deleted");
    assert_eq!(fixture.stored("a", "1").await, None);
    let gone = account.delete_item_with_triggers(&ctx, &container, key, "1", &none(), guarded).await;
    assert_eq!(gone.expect_err("gone").kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn a_post_trigger_may_answer_for_the_write() {
    let fixture = fixture().await;
    let item = r#"{"id":"1","pk":"a","v":"x"}"#;
    let made = create(&fixture, item, &[], &["answers"]).await.expect("created");
    assert_eq!(made.body.as_deref(), Some(r#"{"told":"1"}"#));
    assert_eq!(fixture.stored("a", "1").await.expect("there")["v"], "x");
}

#[tokio::test]
async fn the_reply_is_of_the_version_that_a_post_trigger_left() {
    let fixture = fixture().await;
    let made = create(&fixture, r#"{"id":"1","pk":"a","v":"x"}"#, &[], &["again"]).await.expect("created");
    let shown = crate::support::json(made.reply.item.as_ref().expect("there"));
    assert_eq!(shown["v"], "again");
    assert_eq!(Some(shown), fixture.stored("a", "1").await, "its etag is good for the next write");
}
