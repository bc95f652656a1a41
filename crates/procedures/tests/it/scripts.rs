//! Scripts as resources: rules of their ids, versions and limits, and their lifetime.

use crate::support::json_door::{JsonDoor, KeyInput};
use std::sync::Arc;

use crate::support::{Fixture, eventually, memory_shards, none};
use shardlake_account::{AccountOptions, ContainerHandle, ScriptWrite, SplitAt, verify};
use shardlake_model::{
    ETagCondition, Error, ErrorKind, Limits, Preconditions, ScriptDefinition, ScriptKind, TriggerDefinition,
    TriggerOperation, TriggerSpelling, TriggerType,
};
use shardlake_stdx::Guid;
use shardlake_storage::fault::FaultEngine;
use shardlake_storage::{Durability, Shard, ShardOptions};

use ScriptKind::{Function, Procedure, Trigger};

fn definition(kind: ScriptKind, id: &str, body: &str) -> ScriptDefinition {
    let is_trigger = kind == Trigger;
    ScriptDefinition {
        kind,
        id: id.into(),
        body: body.into(),
        trigger: is_trigger.then_some(TriggerDefinition {
            trigger_type: TriggerType::Pre,
            operation: TriggerOperation::All,
        }),
        spelling: is_trigger.then(|| TriggerSpelling { trigger_type: "pre".into(), operation: "all".into() }),
    }
}

fn numbered(kind: ScriptKind, number: usize) -> ScriptDefinition {
    definition(kind, &number.to_string(), &format!("function () {{ return {number}; }}"))
}

fn current(fixture: &Fixture) -> ContainerHandle {
    fixture.account.router().container("db", "c").expect("there")
}

fn only_if(etag: [u8; 16]) -> Preconditions {
    let condition = ETagCondition::OneOf(vec![Guid(etag).to_string()]);
    Preconditions { if_match: Some(condition), if_none_match: None }
}

fn kind_of<T>(outcome: Result<T, Error>) -> ErrorKind {
    outcome.map(|_| ()).expect_err("refused").kind()
}

#[tokio::test]
async fn scripts_live_and_die() {
    let fixture = Fixture::new().await;
    let (account, ctx) = (&fixture.account, fixture.ctx());
    let container = fixture.container(400).await;
    for kind in [Procedure, Trigger, Function] {
        let created =
            account.definitions().create_script(&ctx, &container, numbered(kind, 1)).await.expect("created");
        assert_eq!(
            kind_of(account.definitions().create_script(&ctx, &container, numbered(kind, 1)).await),
            ErrorKind::Conflict
        );
        // A handle does not see later changes.
        assert_eq!(kind_of(container.script(kind, "1")), ErrorKind::NotFound);
        let now = current(&fixture);
        assert_eq!(now.script(kind, "1").expect("there"), created);

        let other = definition(kind, "1", "function () { }");
        let stale =
            account.definitions().replace_script(&ctx, &now, "1", other.clone(), &only_if([1; 16])).await;
        assert_eq!(kind_of(stale), ErrorKind::PreconditionFailed);
        let replaced = account
            .definitions()
            .replace_script(&ctx, &now, "1", other.clone(), &only_if(created.etag))
            .await;
        let replaced = replaced.expect("replaced");
        assert_eq!((replaced.number, replaced.body.as_str()), (created.number, "function () { }"));
        assert_ne!(replaced.etag, created.etag);
        assert_eq!(now.script(kind, "1").expect("what was found stays").body, created.body);

        let (upserted, write) =
            account.definitions().upsert_script(&ctx, &now, other.clone(), &none()).await.expect("written");
        assert_eq!((upserted.number, write), (created.number, ScriptWrite::Replaced));
        let absent =
            account.definitions().upsert_script(&ctx, &now, numbered(kind, 2), &only_if([1; 16])).await;
        assert_eq!(absent.expect("nothing to match").1, ScriptWrite::Created);

        let stale = account.definitions().delete_script(&now, kind, "1", &only_if(created.etag)).await;
        assert_eq!(kind_of(stale), ErrorKind::PreconditionFailed);
        account.definitions().delete_script(&now, kind, "1", &only_if(upserted.etag)).await.expect("deleted");
        assert_eq!(
            kind_of(account.definitions().delete_script(&now, kind, "1", &none()).await),
            ErrorKind::NotFound
        );
        let gone = account.definitions().replace_script(&ctx, &current(&fixture), "1", other, &none()).await;
        assert_eq!(kind_of(gone), ErrorKind::NotFound);
        assert_eq!(current(&fixture).scripts(kind).len(), 1);
    }
}

#[tokio::test]
async fn a_replace_may_bring_another_id_that_nobody_has() {
    let fixture = Fixture::new().await;
    let (account, ctx) = (&fixture.account, fixture.ctx());
    let container = fixture.container(400).await;
    let first =
        account.definitions().create_script(&ctx, &container, numbered(Function, 1)).await.expect("created");
    account.definitions().create_script(&ctx, &container, numbered(Function, 2)).await.expect("created");
    let now = current(&fixture);
    let taken = account.definitions().replace_script(&ctx, &now, "1", numbered(Function, 2), &none()).await;
    assert_eq!(kind_of(taken), ErrorKind::Conflict);
    let renamed = account.definitions().replace_script(&ctx, &now, "1", numbered(Function, 3), &none()).await;
    assert_eq!(renamed.expect("renamed").number, first.number);
    let ids: Vec<String> = current(&fixture).scripts(Function).iter().map(|one| one.id.clone()).collect();
    assert_eq!(ids, ["2", "3"]);
}

#[tokio::test]
async fn rids_name_scripts_in_containers_that_are_named_by_rid() {
    let fixture = Fixture::new().await;
    let (account, ctx) = (&fixture.account, fixture.ctx());
    let container = fixture.container(400).await;
    let script =
        account.definitions().create_script(&ctx, &container, numbered(Procedure, 1)).await.expect("created");
    let rid = container.script_rid(&script).to_string();
    assert_eq!(kind_of(current(&fixture).script(Procedure, &rid)), ErrorKind::NotFound);
    let (database, own) = (container.container().rid.database.to_string(), container.rid_text().to_owned());
    let by_rid = account.router().container(&database, &own).expect("there");
    assert_eq!(by_rid.script(Procedure, &rid).expect("there"), script);
    assert_eq!(kind_of(by_rid.script(Trigger, &rid)), ErrorKind::NotFound);
    let replaced =
        account.definitions().replace_script(&ctx, &by_rid, &rid, numbered(Procedure, 1), &none()).await;
    replaced.expect("replaced");
    account.definitions().delete_script(&by_rid, Procedure, &rid, &none()).await.expect("deleted");
}

#[tokio::test]
async fn each_kind_has_its_limit_and_replacing_needs_no_room() {
    let limits = Limits { procedures_max: 2, triggers_max: 1, functions_max: 3, ..Limits::default() };
    let fixture = Fixture::with_options(AccountOptions { limits, ..AccountOptions::default() }).await;
    let (account, ctx) = (&fixture.account, fixture.ctx());
    let container = fixture.container(400).await;
    for (kind, max) in [(Procedure, 2), (Trigger, 1), (Function, 3)] {
        for number in 0..max {
            account
                .definitions()
                .create_script(&ctx, &container, numbered(kind, number))
                .await
                .expect("there is room");
        }
        let beyond = account.definitions().create_script(&ctx, &container, numbered(kind, max)).await;
        assert_eq!(kind_of(beyond), ErrorKind::Forbidden);
        account
            .definitions()
            .upsert_script(&ctx, &container, numbered(kind, 0), &none())
            .await
            .expect("replaced");
        account.definitions().delete_script(&current(&fixture), kind, "0", &none()).await.expect("deleted");
        account
            .definitions()
            .create_script(&ctx, &container, numbered(kind, max))
            .await
            .expect("there is room again");
    }
}

#[tokio::test]
async fn what_is_not_a_function_is_not_stored() {
    let fixture = Fixture::new().await;
    let container = fixture.container(400).await;
    let ctx = fixture.ctx();
    for body in ["function (", "1 +", "function () {} }", "({"] {
        let refused = fixture
            .account
            .definitions()
            .create_script(&ctx, &container, definition(Function, "f", body))
            .await;
        let error = refused.expect_err(body);
        assert_eq!(error.kind(), ErrorKind::BadRequest, "{body}: {error}");
        assert!(error.message().contains("'f'"), "{error}");
    }
    assert!(current(&fixture).scripts(Function).is_empty());
}

#[tokio::test]
async fn scripts_outlive_restarts_replaces_and_splits_and_go_with_their_container() {
    let shards = memory_shards(1).await;
    let fixture = Fixture::over(shards.clone()).await;
    let container = fixture.container(400).await;
    for kind in [Procedure, Trigger, Function] {
        for number in 0..3 {
            fixture
                .account
                .definitions()
                .create_script(&fixture.ctx(), &container, numbered(kind, number))
                .await
                .expect("created");
        }
        fixture
            .account
            .definitions()
            .delete_script(&current(&fixture), kind, "0", &none())
            .await
            .expect("deleted");
    }
    let all = |fixture: &Fixture| {
        let container = current(fixture);
        [Procedure, Trigger, Function].map(|kind| container.scripts(kind))
    };
    let expected = all(&fixture);

    let definition = current(&fixture).container().definition.clone();
    let (ctx, account) = (fixture.ctx(), &fixture.account);
    account
        .definitions()
        .replace_container(&ctx, "db", "c", definition.clone(), &none())
        .await
        .expect("replaced");
    assert_eq!(all(&fixture), expected, "a replaced container");
    let split =
        fixture.account.maintenance().split(&current(&fixture), 0, SplitAt::Middle).await.expect("begins");
    split.finished().await.expect("splits");
    assert_eq!(all(&fixture), expected, "a split container");
    assert_eq!(verify(&shards).await.expect("readable").scripts, 6);

    // The leftovers of the split are deleted in the background, which ends with a change of the
    // catalog. That must not coincide with a change of another account.
    eventually("the source is gone", async || {
        let stored = shardlake_catalog::load(shards.first()).await.expect("readable");
        stored.dropped.values().next().is_none()
    })
    .await;
    drop(fixture);
    let fixture = Fixture::over(shards.clone()).await;
    assert_eq!(all(&fixture), expected, "after a restart");

    fixture
        .account
        .definitions()
        .delete_container(&fixture.ctx(), "db", "c", &none())
        .await
        .expect("deleted");
    let recreated = fixture.container_with(definition, 400).await;
    assert!(recreated.scripts(Procedure).is_empty(), "another container of the same name");
    let report = verify(&shards).await.expect("readable");
    assert_eq!((report.scripts, report.problem_count()), (0, 0), "{report:?}");
    drop(fixture);
    assert!(current(&Fixture::over(shards).await).scripts(Function).is_empty());
}

#[tokio::test]
async fn writers_at_once_agree_on_who_made_it() {
    let fixture = Fixture::new().await;
    let container = fixture.container(400).await;
    let create = |number: usize| {
        let (account, ctx, container) = (fixture.account.clone(), fixture.ctx(), container.clone());
        async move {
            account
                .definitions()
                .create_script(&ctx, &container, numbered(Function, number % 3))
                .await
                .is_ok()
        }
    };
    let made = futures::future::join_all((0..12).map(create)).await;
    assert_eq!(made.into_iter().filter(|made| *made).count(), 3);
    assert_eq!(current(&fixture).scripts(Function).len(), 3);
}

#[tokio::test]
async fn a_script_runs_to_its_end_as_it_was_found() {
    let fixture = Fixture::new().await;
    let (account, ctx) = (&fixture.account, fixture.ctx());
    let container = fixture.container(400).await;
    let body = "function () { getContext().getResponse().setBody(1); }";
    let found = account
        .definitions()
        .create_script(&ctx, &container, definition(Procedure, "p", body))
        .await
        .expect("created");
    let other = definition(Procedure, "p", "function () { throw new Error('another'); }");
    account
        .definitions()
        .replace_script(&ctx, &current(&fixture), "p", other, &none())
        .await
        .expect("replaced");
    account.definitions().delete_script(&current(&fixture), Procedure, "p", &none()).await.expect("deleted");
    let key = Some(KeyInput(r#"["k"]"#));
    let reply = account.json_procedure(&ctx, &container, key, &found, "[]", false).await.expect("runs");
    assert_eq!(reply.body.as_deref(), Some("1"));
}

#[tokio::test]
async fn what_was_acknowledged_is_there_after_a_crash() {
    let engine = Arc::new(FaultEngine::new());
    let shard_over = |engine| {
        let options = ShardOptions { durability: Durability::Sync, ..ShardOptions::memory() };
        Shard::with_engine(engine, &options).expect("opens")
    };
    let fixture = Fixture::over(shard_over(engine.clone())).await;
    let container = fixture.container(400).await;
    for number in 0..10 {
        fixture
            .account
            .definitions()
            .create_script(&fixture.ctx(), &container, numbered(Function, number))
            .await
            .expect("created");
    }
    fixture
        .account
        .definitions()
        .delete_script(&current(&fixture), Function, "3", &none())
        .await
        .expect("deleted");
    let other = definition(Function, "4", "function () { }");
    fixture
        .account
        .definitions()
        .replace_script(&fixture.ctx(), &current(&fixture), "4", other, &none())
        .await
        .expect("replaced");
    let expected = current(&fixture).scripts(Function);
    let reopened = Fixture::over(shard_over(Arc::new(engine.crash(0)))).await;
    assert_eq!(current(&reopened).scripts(Function), expected);
}

#[tokio::test]
async fn scripts_written_during_a_split_are_kept_and_go_with_their_database() {
    let shards = memory_shards(1).await;
    let fixture = Fixture::over(shards.clone()).await;
    let container = fixture.container(400).await;
    for number in 0..200 {
        let item = format!(r#"{{"id":"{number}","pk":"{number}"}}"#);
        fixture
            .account
            .create_item(&fixture.ctx(), &container, None, item.as_bytes())
            .await
            .expect("created");
    }
    let split = fixture.account.maintenance().split(&container, 0, SplitAt::Middle).await.expect("begins");
    // By a handle from before, at various times of the split.
    for number in 0..20 {
        fixture
            .account
            .definitions()
            .create_script(&fixture.ctx(), &container, numbered(Procedure, number))
            .await
            .expect("created");
    }
    split.finished().await.expect("splits");
    assert_eq!(current(&fixture).scripts(Procedure).len(), 20);
    assert_eq!(verify(&shards).await.expect("readable").scripts, 20);
    fixture.account.definitions().delete_database(&fixture.ctx(), "db", &none()).await.expect("deleted");
    let late = fixture
        .account
        .definitions()
        .create_script(&fixture.ctx(), &container, numbered(Procedure, 20))
        .await;
    assert_eq!(kind_of(late), ErrorKind::OwnerNotFound);
    let report = verify(&shards).await.expect("readable");
    assert_eq!((report.scripts, report.problem_count()), (0, 0));
}
