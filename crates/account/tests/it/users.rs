//! Users and permissions: rules of ids, one permission per resource, targets of links, and lifetimes.

use crate::support::{Fixture, none};
use shardlake_account::{AccountOptions, verify};
use shardlake_model::{
    ErrorKind, Limits, Permission, PermissionDefinition, PermissionMode, Preconditions, Result,
};
use shardlake_storage::{Shard, ShardOptions};

fn for_resource(id: &str, resource: &str) -> PermissionDefinition {
    PermissionDefinition {
        id: id.into(),
        mode: PermissionMode::Read,
        mode_text: "Read".into(),
        resource: resource.into(),
        partition_key: None,
    }
}

async fn permit(fixture: &Fixture, id: &str, resource: &str) -> Result<std::sync::Arc<Permission>> {
    fixture
        .account
        .definitions()
        .create_permission(&fixture.ctx(), "db", "ann", for_resource(id, resource))
        .await
}

/// With container `db/c` and user `ann`.
async fn fixture() -> Fixture {
    let fixture = Fixture::new().await;
    fixture.container(400).await;
    fixture.account.definitions().create_user(&fixture.ctx(), "db", "ann").await.expect("created");
    fixture
}

#[tokio::test]
async fn users_are_created_renamed_upserted_and_deleted() {
    let fixture = fixture().await;
    let (account, ctx) = (&fixture.account, fixture.ctx());
    let kind = |error: shardlake_model::Error| error.kind();
    assert_eq!(
        account.definitions().create_user(&ctx, "db", "ann").await.map_err(kind),
        Err(ErrorKind::Conflict)
    );
    assert_eq!(
        account.definitions().create_user(&ctx, "db", "a/b").await.map_err(kind),
        Err(ErrorKind::BadRequest)
    );
    assert_eq!(
        account.definitions().create_user(&ctx, "xx", "ann").await.map_err(kind),
        Err(ErrorKind::OwnerNotFound)
    );
    let (bob, created) =
        account.definitions().upsert_user(&ctx, "db", "bob", &none()).await.expect("created");
    assert!(created);
    let renamed =
        account.definitions().replace_user(&ctx, "db", "bob", "bea", &none()).await.expect("renamed");
    assert_eq!(renamed.rid, bob.rid);
    assert_ne!(renamed.etag, bob.etag);
    assert_eq!(account.definitions().user("db", "bob").map_err(kind), Err(ErrorKind::NotFound));
    assert_eq!(account.definitions().user("db", &bob.rid.to_string()).expect("by rid").id, "bea");
    let taken = account.definitions().replace_user(&ctx, "db", "bea", "ann", &none()).await;
    assert_eq!(taken.map_err(kind), Err(ErrorKind::Conflict));
    let (again, created) =
        account.definitions().upsert_user(&ctx, "db", "bea", &none()).await.expect("replaced");
    assert_eq!((again.rid, created), (bob.rid, false));
    let ids: Vec<String> =
        account.definitions().users("db").expect("there").1.iter().map(|user| user.id.clone()).collect();
    assert_eq!(ids, ["ann", "bea"]);
    let outdated = Preconditions {
        if_match: Some(shardlake_model::ETagCondition::parse("\"00000000-0000-0000-0000-000000000000\"")),
        ..none()
    };
    let refused = account.definitions().delete_user(&ctx, "db", "bea", &outdated).await;
    assert_eq!(refused.map_err(kind), Err(ErrorKind::PreconditionFailed));
    account.definitions().delete_user(&ctx, "db", "bea", &none()).await.expect("deleted");
    assert_eq!(account.definitions().users("db").expect("there").1.len(), 1);
}

#[tokio::test]
async fn a_user_has_one_permission_for_each_link_as_it_is_written() {
    let fixture = fixture().await;
    let container = fixture.account.router().container("db", "c").expect("there");
    let by_rid = container.self_link().to_owned();
    permit(&fixture, "one", "dbs/db/colls/c").await.expect("created");
    for (id, resource) in [("one", "dbs/db/colls/c/docs/x"), ("two", "dbs/db/colls/c")] {
        let refused = permit(&fixture, id, resource).await.expect_err(resource);
        assert_eq!(refused.kind(), ErrorKind::Conflict, "{id} {resource}");
    }
    permit(&fixture, "by rid", &by_rid).await.expect("another link");
    permit(&fixture, "item", "dbs/db/colls/c/docs/x").await.expect("another resource");
    permit(&fixture, "script", "dbs/db/colls/c/sprocs/x").await.expect("another kind");
    let (account, ctx) = (&fixture.account, fixture.ctx());
    let moved = for_resource("renamed", "dbs/db/colls/c/docs/y");
    let path = ("db", "ann", "item");
    let moved = account.definitions().replace_permission(&ctx, path, moved, &none()).await.expect("renamed");
    assert_eq!(account.definitions().permission("db", "ann", "renamed").expect("there"), moved);
    let taken = for_resource("one", "dbs/db/colls/c/docs/y");
    let refused =
        account.definitions().replace_permission(&ctx, ("db", "ann", "renamed"), taken, &none()).await;
    assert_eq!(refused.expect_err("the id is taken").kind(), ErrorKind::Conflict);
    let same = for_resource("script", "dbs/db/colls/c/docs/y");
    let refused = account.definitions().upsert_permission(&ctx, "db", "ann", same, &none()).await;
    assert_eq!(refused.expect_err("the resource is taken").kind(), ErrorKind::Conflict);
}

#[tokio::test]
async fn links_lead_into_the_database_or_nowhere() {
    let fixture = fixture().await;
    let other =
        fixture.account.definitions().create_database(&fixture.ctx(), "other", None).await.expect("created");
    let definition =
        fixture.account.router().container("db", "c").expect("there").container().definition.clone();
    let foreign = fixture
        .account
        .definitions()
        .create_container(&fixture.ctx(), "other", definition, None)
        .await
        .expect("created");
    for (resource, kind) in [
        ("dbs/other/colls/c", ErrorKind::BadRequest),
        (foreign.self_link(), ErrorKind::BadRequest),
        ("dbs/db", ErrorKind::BadRequest),
    ] {
        assert_eq!(permit(&fixture, "p", resource).await.expect_err(resource).kind(), kind, "{resource}");
    }
    for resource in ["dbs/AQAAAA==/colls/AQAAAJ0fgTc=", "dbs/db/colls/missing", "dbs/missing/colls/c"] {
        let dangling = permit(&fixture, resource.len().to_string().as_str(), resource).await;
        assert_eq!(
            fixture.account.definitions().granted_container(&dangling.expect("clients do this")),
            None,
            "{resource}"
        );
    }
    let _ = other;
}

#[tokio::test]
async fn a_name_leads_to_the_container_of_now() {
    let fixture = fixture().await;
    let permission = permit(&fixture, "p", "dbs/db/colls/c").await.expect("created");
    let account = &fixture.account;
    let first = account.router().container("db", "c").expect("there");
    assert_eq!(account.definitions().granted_container(&permission), Some(first.container().rid));
    let definition = first.container().definition.clone();
    account.definitions().delete_container(&fixture.ctx(), "db", "c", &none()).await.expect("deleted");
    assert_eq!(account.definitions().granted_container(&permission), None);
    let second = account
        .definitions()
        .create_container(&fixture.ctx(), "db", definition, None)
        .await
        .expect("created");
    assert_ne!(second.container().rid, first.container().rid);
    assert_eq!(account.definitions().granted_container(&permission), Some(second.container().rid));
}

#[tokio::test]
async fn everything_is_there_after_a_restart_and_goes_with_its_owner() {
    let shard = Shard::open(ShardOptions::memory()).await.expect("opens");
    let fixture = Fixture::over(shard.clone()).await;
    fixture.container(400).await;
    let ctx = fixture.ctx();
    for user in ["ann", "bob"] {
        fixture.account.definitions().create_user(&ctx, "db", user).await.expect("created");
        let definition = for_resource("p", "dbs/db/colls/c");
        fixture.account.definitions().create_permission(&ctx, "db", user, definition).await.expect("created");
    }
    let kept = fixture.account.definitions().permission("db", "ann", "p").expect("there");
    drop(fixture);

    let fixture = Fixture::over(shard.clone()).await;
    let account = &fixture.account;
    assert_eq!(account.definitions().permission("db", "ann", "p").expect("there"), kept);
    assert_eq!(account.definitions().permission_by_rid(kept.rid), Some(kept.clone()));
    account.definitions().delete_user(&ctx, "db", "ann", &none()).await.expect("deleted");
    assert_eq!(account.definitions().permission_by_rid(kept.rid), None);
    let report = verify(shard.clone()).await.expect("readable");
    assert_eq!(report.problems, Vec::<String>::new());
    let other = account.definitions().permission("db", "bob", "p").expect("untouched");
    account.definitions().delete_database(&ctx, "db", &none()).await.expect("deleted");
    assert_eq!(account.definitions().permission_by_rid(other.rid), None);
    let report = verify(shard.clone()).await.expect("readable");
    assert_eq!(report.problems, Vec::<String>::new(), "nothing is left without an owner");
    Fixture::over(shard).await;
}

#[tokio::test]
async fn there_is_an_end_to_users_and_permissions() {
    let limits = Limits { users_per_database_max: 2, permissions_per_user_max: 1, ..Limits::default() };
    let fixture = Fixture::with_options(AccountOptions { limits, ..AccountOptions::default() }).await;
    fixture.container(400).await;
    let (account, ctx) = (&fixture.account, fixture.ctx());
    account.definitions().create_user(&ctx, "db", "ann").await.expect("room");
    account.definitions().create_user(&ctx, "db", "bob").await.expect("room");
    let refused = account.definitions().create_user(&ctx, "db", "cid").await.expect_err("full");
    assert_eq!(refused.kind(), ErrorKind::BadRequest);
    permit(&fixture, "p", "dbs/db/colls/c").await.expect("room");
    let refused = permit(&fixture, "q", "dbs/db/colls/c/docs/x").await.expect_err("full");
    assert_eq!(refused.kind(), ErrorKind::BadRequest);
}
