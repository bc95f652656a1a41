//! Changes of definitions that their clients walk away from.

use crate::support::json_door::{JsonDoor, KeyInput};
use std::sync::Arc;

use serde_json::json;
use shardlake_account::{
    Account, ContainerHandle, KeyRange, ProjectionRule, ProjectionState, SplitAt, verify,
};
use shardlake_catalog::{Holder, PlaceRecord};
use shardlake_model::{
    ContainerDefinition, ContainerRid, ExcludedPath, PartitionKeyDefinition, PermissionDefinition,
    PermissionMode, ScriptDefinition, ScriptKind, Throughput,
};

use shardlake_storage::Shard;
use shardlake_storage::fault::FaultEngine;
use shardlake_testkit::expects_log;

use crate::support::cancellation::{Drops, Work, drop_at, over};
use crate::support::{Fixture, json as item_json, none};

/// Where each change is dropped: after some steps, and in each of the syncs of two shards that it may wait for.
const POINTS: [Drops; 6] = [
    Drops::AfterSteps(0),
    Drops::AfterSteps(1),
    Drops::AfterSteps(2),
    Drops::AfterSteps(5),
    Drops::AtSync(1),
    Drops::AtSync(2),
];

pub struct Operation {
    /// As the façade calls it.
    pub name: &'static str,
    run: fn(Arc<Fixture>) -> Work<'static>,
}

/// An entry: the operation's name and its call. Dropped or not, it meets no error of its own.
macro_rules! operations {
    ($(($name:ident, |$account:ident, $context:ident, $any:ident| $call:expr)),* $(,)?) => {
        &[$(Operation {
            name: stringify!($name),
            run: |fixture| Box::pin(async move {
                let ($account, $context, $any) = (&fixture.account, &fixture.ctx(), &none());
                let _ = ($context, $any);
                let _told = $call.await.expect(stringify!($name));
            }),
        }),*]
    };
}

pub const OPERATIONS: &[Operation] = operations![
    (create_database, |a, ctx, _any| a.definitions().create_database(
        ctx,
        "other",
        Some(Throughput::Manual(400))
    )),
    (delete_database, |a, ctx, any| a.definitions().delete_database(ctx, "db", any)),
    (create_container, |a, ctx, _any| a.definitions().create_container(ctx, "db", named("other"), None)),
    (replace_container, |a, ctx, any| a.definitions().replace_container(ctx, "db", "a", reindexed(), any)),
    (delete_container, |a, ctx, any| a.definitions().delete_container(ctx, "db", "a", any)),
    (replace_offer, |a, ctx, any| a.definitions().replace_offer(
        ctx,
        &offer(a),
        Throughput::Manual(500),
        any
    )),
    (redistribute, |a, ctx, _any| a.router().redistribute(ctx, &of(a, "a"), &[(0, 400)])),
    (redistribute_and_resize, |a, ctx, _any| a.router().redistribute_and_resize(
        ctx,
        &of(a, "a"),
        &[(0, 600)]
    )),
    (create_user, |a, ctx, _any| a.definitions().create_user(ctx, "db", "bob")),
    (upsert_user, |a, ctx, any| a.definitions().upsert_user(ctx, "db", "ann", any)),
    (replace_user, |a, ctx, any| a.definitions().replace_user(ctx, "db", "ann", "bea", any)),
    (delete_user, |a, ctx, any| a.definitions().delete_user(ctx, "db", "ann", any)),
    (create_permission, |a, ctx, _any| a.definitions().create_permission(
        ctx,
        "db",
        "ann",
        permits("q", "b")
    )),
    (upsert_permission, |a, ctx, any| a.definitions().upsert_permission(
        ctx,
        "db",
        "ann",
        permits("p", "b"),
        any
    )),
    (replace_permission, |a, ctx, any| {
        a.definitions().replace_permission(ctx, ("db", "ann", "p"), permits("q", "a"), any)
    }),
    (create_login, |a, _ctx, _any| a.definitions().create_login("db", "fay", "kept".into())),
    (change_login, |a, _ctx, _any| a.definitions().change_login("db", "eve", |kept| Ok(kept.to_uppercase()))),
    (remove_logins, |a, _ctx, _any| a.definitions().remove_logins("db", None)),
    (delete_permission, |a, ctx, any| a.definitions().delete_permission(ctx, ("db", "ann", "p"), any)),
    (create_script, |a, ctx, _any| a.definitions().create_script(ctx, &of(a, "a"), script("t"))),
    (upsert_script, |a, ctx, any| a.definitions().upsert_script(ctx, &of(a, "a"), script("s"), any)),
    (replace_script, |a, ctx, any| a.definitions().replace_script(ctx, &of(a, "a"), "s", script("t"), any)),
    (delete_script, |a, _ctx, any| a.definitions().delete_script(
        &of(a, "a"),
        ScriptKind::Procedure,
        "s",
        any
    )),
    (split, |a, _ctx, _any| a.maintenance().split(&of(a, "a"), 0, SplitAt::Middle)),
    (merge, |a, _ctx, _any| a.maintenance().merge(&of(a, "wide"), &[0, 1])),
    (move_partition, |a, _ctx, _any| a.maintenance().move_partition(&of(a, "a"), 0, 1)),
    (abort_relocation, |a, _ctx, _any| a.maintenance().abort_relocation(&of(a, "wide"))),
    (put_projection, |a, ctx, _any| a.projections().put_projection(ctx, rule("new", "copied"))),
    (delete_projection, |a, _ctx, _any| a.projections().delete_projection("names")),
    (pause_projection, |a, _ctx, _any| a.projections().pause_projection("names")),
    (hold_log, |a, _ctx, _any| a.router().hold_log(
        rid(a),
        Holder::Copy(1),
        vec![PlaceRecord::new(&KeyRange::full(), 0)]
    )),
    (release_hold, |a, _ctx, _any| a.router().release_hold(rid(a), Holder::Projection(1))),
    (store_log_holds, |a, _ctx, _any| a.maintenance().store_log_holds()),
    (resume_projection, |a, _ctx, _any| a.projections().resume_projection("names")),
];

fn rid(account: &Account) -> ContainerRid {
    of(account, "a").entry.record.container.rid
}

fn offer(account: &Account) -> String {
    account.router().throughput_of(&of(account, "a")).own.expect("its own").rid.to_string()
}

fn named(id: &str) -> ContainerDefinition {
    ContainerDefinition::new(id, PartitionKeyDefinition::hash("/pk"))
}

fn reindexed() -> ContainerDefinition {
    let mut definition = named("a");
    definition.indexing_policy.excluded_paths.push(ExcludedPath { path: "/v/*".into() });
    definition.default_ttl = Some(-1);
    definition
}

fn permits(id: &str, container: &str) -> PermissionDefinition {
    PermissionDefinition {
        id: id.into(),
        mode: PermissionMode::Read,
        mode_text: "Read".into(),
        resource: format!("dbs/db/colls/{container}"),
        partition_key: None,
    }
}

fn script(id: &str) -> ScriptDefinition {
    ScriptDefinition {
        kind: ScriptKind::Procedure,
        id: id.into(),
        body: format!("function {id}() {{}}"),
        trigger: None,
        spelling: None,
    }
}

fn rule(id: &str, copy: &str) -> ProjectionRule {
    let rule = json!({
        "id": id,
        "source": { "database": "db", "container": "a" },
        "target": { "database": "db", "container": "b" },
        "match": [{ "source": "/id", "target": "/of" }],
        "set": [{ "from": "/v", "to": format!("/{copy}") }],
    });
    serde_json::from_value(rule).expect("well-formed")
}

fn of(account: &Account, container: &str) -> ContainerHandle {
    account.router().container("db", container).expect("the world has it")
}

const ITEMS: usize = 10;

/// Containers of one database with items that name their container, and one definition of each kind.
async fn world(engines: &[FaultEngine; 2]) -> Arc<Fixture> {
    let shards: Vec<Shard> = engines.iter().map(over).collect();
    let fixture = Arc::new(Fixture::over(shards).await);
    let (account, ctx) = (&fixture.account, fixture.ctx());
    account.definitions().create_database(&ctx, "db", None).await.expect("created");
    for (id, throughput) in [("a", 400), ("b", 400), ("wide", 20_000)] {
        let throughput = Some(Throughput::Manual(throughput));
        account.definitions().create_container(&ctx, "db", named(id), throughput).await.expect("created");
        fill(&fixture, id).await;
    }
    account.definitions().create_user(&ctx, "db", "ann").await.expect("created");
    account.definitions().create_permission(&ctx, "db", "ann", permits("p", "a")).await.expect("created");
    account.definitions().create_login("db", "eve", "kept".into()).await.expect("created");
    account.definitions().create_script(&ctx, &of(account, "a"), script("s")).await.expect("created");
    account.projections().put_projection(&ctx, rule("names", "name")).await.expect("put");
    // Some of the changes delete its source.
    expects_log("the source container 'db/a' was deleted");
    fixture
}

async fn fill(fixture: &Fixture, container: &str) {
    for number in 0..ITEMS {
        let body = format!(r#"{{"id":"{number}","pk":"{number}","of":"{container}","v":{number}}}"#);
        let key = format!("[\"{number}\"]");
        let (ctx, container, any) = (fixture.ctx(), of(&fixture.account, container), none());
        let key = Some(KeyInput(&key));
        let written = fixture.account.upsert_item(&ctx, &container, key, body.as_bytes(), &any);
        written.await.expect("written");
    }
}

/// Items of each container of `db`: a foreign item is recognised by the container that it names.
async fn check_items(fixture: &Fixture, hint: &str) {
    let Ok(containers) = fixture.account.router().containers("db") else { return };
    for container in containers {
        let id = &container.container().definition.id;
        if id == "other" {
            assert_eq!(container.usage().items, 0, "{hint}: nobody wrote to the container that was created");
            continue;
        }
        assert_eq!(container.usage().items, ITEMS as u64, "{hint}: {id}");
        for number in 0..ITEMS {
            let (item, key) = (number.to_string(), format!("[\"{number}\"]"));
            let ctx = fixture.ctx();
            let read =
                fixture.account.read_item(&ctx, &container, Some(KeyInput(&key)), &item, &none()).await;
            let item = read.unwrap_or_else(|error| panic!("{hint}: {id}/{number}: {error}")).item;
            assert_eq!(item_json(&item.expect("an item"))["of"], **id, "{hint}");
        }
    }
}

/// Until nothing moves or is built any more.
async fn settled(account: &Account) {
    loop {
        let databases = account.router().databases();
        let containers =
            databases.iter().filter_map(|database| account.router().containers(&database.id).ok());
        let is_busy = |container: &ContainerHandle| {
            container.relocation().is_some() || container.index_progress() < 100
        };
        if !containers.flatten().any(|container| is_busy(&container)) {
            return;
        }
        tokio::task::yield_now().await;
    }
}

/// All definitions as clients can see them.
async fn definitions(account: &Account) -> Vec<String> {
    let mut lines = Vec::new();
    for database in account.router().databases() {
        lines.push(format!("{database:?}"));
        for container in account.router().containers(&database.id).expect("there") {
            lines.push(format!("{:?}", container.container()));
            for range in container.partition_key_ranges() {
                let bounds = (range.min_inclusive, range.max_exclusive);
                lines.push(format!(
                    "{} {bounds:?} {:?} {}",
                    range.id, range.parents, range.throughput_fraction
                ));
            }
            let scripts = container.scripts(ScriptKind::Procedure);
            lines.extend(scripts.iter().map(|script| format!("{script:?}")));
        }
        for user in account.definitions().users(&database.id).expect("there").1 {
            lines.push(format!("{user:?}"));
            let permissions = account.definitions().permissions(&database.id, &user.id).expect("there").1;
            lines.extend(permissions.iter().map(|permission| format!("{permission:?}")));
        }
    }
    lines.extend(account.definitions().offers().iter().map(|offer| format!("{offer:?}")));
    for report in account.projections().projections().await {
        lines.push(format!("{:?} paused: {}", report.rule, report.state == ProjectionState::Paused));
    }
    lines
}

/// The catalog is on the first of two shards, partitions are on both.
async fn client_hangs_up(operation: &Operation, point: Drops) {
    let hint = format!("{} {point:?}", operation.name);
    let engines = [FaultEngine::new(), FaultEngine::new()];
    let fixture = world(&engines).await;
    if operation.name == "abort_relocation" {
        fixture.account.maintenance().merge(&of(&fixture.account, "wide"), &[0, 1]).await.expect("begun");
    }
    let before = definitions(&fixture.account).await;
    drop_at(&engines[0], (operation.run)(fixture.clone()), point, || ()).await;
    if matches!(point, Drops::AfterSteps(0)) && operation.name != "abort_relocation" {
        assert_eq!(definitions(&fixture.account).await, before, "{hint}: it never began");
    }
    // Other clients continue: their definitions must not be mixed up with the cancelled change.
    let ctx = fixture.ctx();
    let database = fixture.account.definitions().create_database(&ctx, "next", None).await;
    database.unwrap_or_else(|error| panic!("{hint}: {error}"));
    let throughput = Some(Throughput::Manual(20_000));
    let next = fixture.account.definitions().create_container(&ctx, "next", named("c"), throughput).await;
    let next = next.unwrap_or_else(|error| panic!("{hint}: {error}"));
    settled(&fixture.account).await;
    let live = definitions(&fixture.account).await;
    check_items(&fixture, &hint).await;
    assert_eq!(next.usage().items, 0, "{hint}: a new container is empty");
    check_restart(&engines, &live, &hint).await;
}

/// After a restart everything is as before, and each item belongs to its own container.
async fn check_restart(engines: &[FaultEngine; 2], live: &[String], hint: &str) {
    let disk = engines.each_ref().map(|engine| engine.crash(0));
    let report = verify(disk.iter().map(|engine| over(&engine.crash(0))).collect::<Vec<_>>()).await;
    let report = report.unwrap_or_else(|error| panic!("{hint}: {error}"));
    let in_partitions = report.partitions.iter().flat_map(|partition| &partition.report.problems);
    let problems: Vec<&String> = report.problems.iter().chain(in_partitions).collect();
    assert!(problems.is_empty(), "{hint}: {problems:?}");
    let reopened = Fixture::over(disk.iter().map(over).collect::<Vec<_>>()).await;
    settled(&reopened.account).await;
    let stored = definitions(&reopened.account).await;
    let only_shown: Vec<&String> = live.iter().filter(|line| !stored.contains(line)).collect();
    let only_stored: Vec<&String> = stored.iter().filter(|line| !live.contains(line)).collect();
    assert!(
        only_shown.is_empty() && only_stored.is_empty(),
        "{hint}: only shown {only_shown:#?}, only stored {only_stored:#?}"
    );
    check_items(&reopened, hint).await;
    // The new container's deletion deletes nothing else.
    reopened.account.definitions().delete_database(&reopened.ctx(), "next", &none()).await.expect("deleted");
    check_items(&reopened, hint).await;
}

#[tokio::test]
async fn definition_change_that_is_dropped_takes_place_as_a_whole_or_not_at_all() {
    for operation in OPERATIONS {
        for point in POINTS {
            client_hangs_up(operation, point).await;
        }
    }
}
