//! A table follows its container, through everything that moves data or stops the follower.

use std::sync::Arc;
use std::time::Duration;

use shardlake_account::{AnalyticalSettings, ItemWrite, SplitAt, item_of_json};
use shardlake_analytical_table::schema::SchemaMode;
use shardlake_analytics::TableState;
use shardlake_analytics::testing::SeededBug;
use shardlake_catalog::{HoldState, Holder};
use shardlake_document::Value;
use shardlake_model::{ContainerDefinition, Preconditions};
use shardlake_stdx::{Clock, Random, Timestamp};
use shardlake_storage::{Shard, ShardOptions};
use shardlake_testkit::expects_log;

use crate::support::{Fixture, PLACES, Place, eventually, rows_of};

fn item(number: u64, rest: &str) -> String {
    format!(r#"{{"id":"i{number}","pk":"p{}"{rest}}}"#, number % 7)
}

async fn fill(fixture: &Fixture, numbers: std::ops::Range<u64>) {
    let container = fixture.again();
    for number in numbers {
        fixture
            .upsert(
                &container,
                &item(number, &format!(r#","n":{number},"tags":["a",{number}],"o":{{"x":1.5}}"#)),
            )
            .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_has_the_items_of_its_container() {
    let fixture = Fixture::new().await;
    let container = fixture.container(400).await;
    fill(&fixture, 0..100).await;
    fixture.assert_level().await;
    for number in 0..50 {
        match number % 3 {
            0 => {
                assert!(fixture.delete(&container, &format!("p{}", number % 7), &format!("i{number}")).await)
            }
            _ => fixture.upsert(&container, &item(number, r#","n":"text","more":{"y":null,"z":[{}]}"#)).await,
        }
    }
    fixture.assert_level().await;
    let fixture = fixture.restart().await;
    let container = fixture.again();
    fixture.upsert(&container, r#"{"id":"after","pk":"p1","n":1e300}"#).await;
    fixture.assert_level().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_item_deleted_and_created_in_one_transaction_has_one_row() {
    let fixture = Fixture::new().await;
    let container = fixture.container(400).await;
    fixture.upsert(&container, r#"{"id":"a","pk":"p","n":1}"#).await;
    fixture.assert_level().await;
    let body =
        item_of_json(br#"{"id":"a","pk":"p","n":2}"#, fixture.account.router().limits()).expect("an item");
    let writes = vec![
        ItemWrite::Delete { item: container.item_name("a"), preconditions: Preconditions::default() },
        ItemWrite::Create { body },
    ];
    assert!(fixture.batch(&container, "p", writes).await);
    fixture.assert_level().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_follows_through_splits_and_merges() {
    let fixture = Fixture::new().await;
    fixture.container(400).await;
    let random = Random::seeded(5);
    fill(&fixture, 0..60).await;
    for turn in 0..6_u64 {
        let container = fixture.again();
        let ranges: Vec<u32> = container.entry.map.iter().map(|partition| partition.range_id()).collect();
        let maintenance = fixture.account.maintenance();
        let ticket = match ranges.as_slice() {
            [one] => maintenance.split(&container, *one, SplitAt::Middle).await.expect("begins"),
            [one, two, ..] if turn % 3 == 2 => {
                maintenance.merge(&container, &[*one, *two]).await.expect("begins")
            }
            several => {
                let one = several[random.below(several.len() as u64) as usize];
                maintenance.split(&container, one, SplitAt::Middle).await.expect("begins")
            }
        };
        for number in 0..40 {
            let container = fixture.again();
            let number = random.below(80) + number % 2;
            match random.below(3) {
                0 => _ = fixture.delete(&container, &format!("p{}", number % 7), &format!("i{number}")).await,
                _ => fixture.upsert(&container, &item(number, &format!(r#","turn":{turn}"#))).await,
            }
        }
        ticket.finished().await.expect("it finishes");
    }
    fixture.assert_level().await;
    let fixture = fixture.restart().await;
    fill(&fixture, 100..120).await;
    fixture.assert_level().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rebuild_shows_the_old_table_until_the_new_one_is_complete() {
    let fixture = Fixture::new().await;
    let container = fixture.container(400).await;
    fill(&fixture, 0..50).await;
    let before = fixture.level().await;
    let rid = container.container().rid;
    fixture.analytics.rebuild(rid).await.expect("asked");
    fill(&fixture, 40..70).await;
    let after = eventually("the rebuild", async || {
        let report = fixture.report().await;
        (report.state == TableState::Following && report.figures.generation == 2).then_some(report)
    })
    .await;
    assert!(after.figures.version > before.figures.version, "the versions of a table go forward");
    fixture.assert_level().await;
    // Another schema needs a new table.
    let excluded = AnalyticalSettings { exclude: vec!["/n".into()], ..AnalyticalSettings::default() };
    fixture.analytics.set_settings(rid, excluded, true).await.expect("set");
    eventually("the rebuild", async || (fixture.report().await.figures.generation == 3).then_some(())).await;
    fixture.level().await;
    assert!(fixture.rows().values().all(|(document, ..)| document.get("n").is_none()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn items_that_run_out_stay_as_history() {
    let clock = Clock::manual(Timestamp(1_700_000_000_000));
    let shard = Shard::open(ShardOptions::memory()).await.expect("a memory shard opens");
    let fixture = Fixture::over(shard, Arc::new(tempfile::tempdir().expect("a folder")), clock).await;
    let definition = ContainerDefinition::new("c", shardlake_model::PartitionKeyDefinition::hash("/pk"));
    let definition =
        ContainerDefinition { analytical_storage_ttl: Some(-1), default_ttl: Some(60), ..definition };
    fixture.container_of(definition, 400).await;
    fill(&fixture, 0..10).await;
    step(&fixture, 1).await;
    assert_eq!(fixture.rows().len(), 10);
    step(&fixture, 100).await;
    let container = fixture.again();
    // Written anew: a row beside the old one.
    fill(&fixture, 0..2).await;
    fixture.account.maintenance().purge_expired(&container).await.expect("purged");
    step(&fixture, 1).await;
    assert_eq!(fixture.rows().len(), 12);
    assert!(fixture.delete(&container, "p0", "i0").await);
    step(&fixture, 1).await;
    assert_eq!(fixture.rows().len(), 11, "a deleted item takes its own row along, not its history");
    let rid = container.container().rid;
    fixture.analytics.rebuild(rid).await.expect("asked");
    stepping(&fixture, async || (fixture.report().await.figures.generation == 2).then_some(())).await;
    step(&fixture, 1).await;
    assert_eq!(fixture.rows().len(), 11, "a rebuild keeps history");
    verify(&fixture).await;
}

/// The clock goes on by so many seconds, and the table follows.
async fn step(fixture: &Fixture, seconds: u64) {
    fixture.clock.advance(Duration::from_secs(seconds));
    stepping(fixture, async || {
        let report = fixture.report().await;
        assert!(report.state.name() != "failed", "{:?}", report.state);
        (report.state == TableState::Following && report.lag.changes == 0).then_some(())
    })
    .await;
}

/// Time goes on until something is so.
async fn stepping(fixture: &Fixture, mut look: impl AsyncFnMut() -> Option<()>) {
    eventually("a step of the table", async || {
        fixture.pass_time();
        look().await
    })
    .await;
}

async fn verify(fixture: &Fixture) {
    let number = fixture.analytics.verify(fixture.again().container().rid).expect("asked");
    let done = eventually("the comparison", async || {
        fixture.pass_time();
        fixture.report().await.orders.into_iter().find(|order| order.number >= number)
    })
    .await;
    assert!(done.is_right, "{}", done.outcome);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn items_deleted_during_a_rebuild_are_no_history() {
    let clock = Clock::manual(Timestamp(1_700_000_000_000));
    let shard = Shard::open(ShardOptions::memory()).await.expect("a memory shard opens");
    let fixture = Fixture::over(shard, Arc::new(tempfile::tempdir().expect("a folder")), clock).await;
    let definition = ContainerDefinition::new("c", shardlake_model::PartitionKeyDefinition::hash("/pk"));
    let definition =
        ContainerDefinition { analytical_storage_ttl: Some(-1), default_ttl: Some(60), ..definition };
    let container = fixture.container_of(definition, 400).await;
    fill(&fixture, 0..3).await;
    step(&fixture, 1).await;
    let rid = container.container().rid;
    fixture.analytics.pause(rid, true).await.expect("paused");
    let before = fixture.rows();
    assert!(fixture.delete(&container, "p0", "i0").await);
    fill(&fixture, 1..2).await;
    fixture.analytics.rebuild(rid).await.expect("asked");
    fixture.clock.advance(Duration::from_secs(100));
    fixture.account.maintenance().purge_expired(&container).await.expect("purged");
    fixture.analytics.pause(rid, false).await.expect("resumed");
    stepping(&fixture, async || (fixture.report().await.figures.generation == 2).then_some(())).await;
    step(&fixture, 1).await;
    let rows = fixture.rows();
    let id = |id: &str| Value::String(id.into());
    let ids: Vec<_> = rows.values().filter_map(|(document, ..)| document.get("id")).collect();
    assert_eq!(ids, [&id("i1"), &id("i2")], "the deleted item has no row");
    let kept = rows.keys().filter(|name| before.contains_key(*name)).count();
    assert_eq!(kept, 1, "of the replaced item only the last version has a row");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_past_the_analytical_time_to_live_go() {
    let clock = Clock::manual(Timestamp(1_700_000_000_000));
    let shard = Shard::open(ShardOptions::memory()).await.expect("a memory shard opens");
    let fixture = Fixture::over(shard, Arc::new(tempfile::tempdir().expect("a folder")), clock).await;
    let definition = ContainerDefinition::new("c", shardlake_model::PartitionKeyDefinition::hash("/pk"));
    fixture.container_of(ContainerDefinition { analytical_storage_ttl: Some(600), ..definition }, 400).await;
    fill(&fixture, 0..10).await;
    step(&fixture, 300).await;
    fill(&fixture, 10..20).await;
    step(&fixture, 1).await;
    assert_eq!(fixture.rows().len(), 20);
    step(&fixture, 320).await;
    stepping(&fixture, async || (fixture.rows().len() == 10).then_some(())).await;
    // Their items live, and may still be replaced and deleted.
    let container = fixture.again();
    assert!(fixture.delete(&container, "p0", "i0").await);
    fill(&fixture, 1..2).await;
    step(&fixture, 1).await;
    assert_eq!(fixture.rows().len(), 11);
    assert_eq!(fixture.report().await.counts.commits.get("retention"), Some(&1));
    verify(&fixture).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn compaction_and_verification_are_orders() {
    let fixture = Fixture::new().await;
    let container = fixture.container(400).await;
    for turn in 0..5 {
        fill(&fixture, turn * 10..turn * 10 + 12).await;
        fixture.level().await;
    }
    let before = fixture.level().await;
    assert!(before.figures.files > 1 && before.figures.rows_deleted > 0, "{before:?}");
    let number = fixture.analytics.compact(container.container().rid, true).expect("asked");
    let done = async |number| {
        eventually("the order", async || {
            fixture.report().await.orders.into_iter().find(|order| order.number >= number)
        })
        .await
    };
    assert!(done(number).await.is_right);
    assert_eq!(fixture.report().await.figures.rows_deleted, 0);
    done(fixture.analytics.compact(container.container().rid, false).expect("asked")).await;
    assert_eq!(fixture.report().await.figures.files, 1);
    fixture.assert_level().await;
    verify(&fixture).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_closed_table_goes_on_where_it_stopped() {
    let fixture = Fixture::new().await;
    let container = fixture.container(400).await;
    fill(&fixture, 0..20).await;
    fixture.level().await;
    let with = |ttl| {
        let old = fixture.again().container().definition.clone();
        ContainerDefinition { analytical_storage_ttl: Some(ttl), ..old }
    };
    let replace = async |ttl| {
        let definitions = fixture.account.definitions();
        let none = Preconditions::default();
        definitions.replace_container(&fixture.ctx(), "db", "c", with(ttl), &none).await.expect("replaced");
    };
    replace(0).await;
    eventually("the table is closed", async || {
        (fixture.report().await.state == TableState::Closed).then_some(())
    })
    .await;
    for number in 0..10 {
        assert!(fixture.delete(&container, &format!("p{}", number % 7), &format!("i{number}")).await);
    }
    fill(&fixture, 15..30).await;
    assert_eq!(fixture.rows().len(), 20, "a closed table stays readable as it was");
    replace(-1).await;
    fixture.assert_level().await;
    fixture
        .account
        .definitions()
        .delete_container(&fixture.ctx(), "db", "c", &Preconditions::default())
        .await
        .expect("deleted");
    eventually("the files are deleted", async || (!fixture.table_folder().exists()).then_some(())).await;
    // A new container of the name has nothing of the old one.
    fixture.container(400).await;
    fill(&fixture, 0..3).await;
    fixture.assert_level().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_ends_the_table_and_not_the_thread() {
    let fixture = Fixture::new().await;
    let container = fixture.container(400).await;
    fill(&fixture, 0..5).await;
    fixture.level().await;
    fixture.hooks.seed(SeededBug::Panic);
    let reason =
        eventually("the table fails", async || fixture.report().await.state.reason().map(str::to_owned))
            .await;
    assert!(reason.contains("rebuild"), "{reason}");
    assert_eq!(fixture.rows().len(), 5, "its last version stays readable");
    // The thread goes on: it refuses the order of a failed table.
    let number = fixture.analytics.compact(container.container().rid, false).expect("asked");
    let done = eventually("the order ends", async || {
        fixture.report().await.orders.into_iter().find(|order| order.number >= number)
    })
    .await;
    assert!(!done.is_right && done.outcome.contains("failed"), "{done:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pauses_outlast_a_restart() {
    let fixture = Fixture::new().await;
    let container = fixture.container(400).await;
    fill(&fixture, 0..5).await;
    fixture.level().await;
    fixture.analytics.pause(container.container().rid, true).await.expect("paused");
    let fixture = fixture.restart().await;
    fill(&fixture, 5..10).await;
    eventually("it is paused", async || (fixture.report().await.state == TableState::Paused).then_some(()))
        .await;
    assert_eq!(fixture.rows().len(), 5);
    fixture.analytics.pause(fixture.again().container().rid, false).await.expect("resumed");
    fixture.assert_level().await;
}

async fn in_objects() -> Fixture {
    let shard = Shard::open(ShardOptions::memory()).await.expect("a memory shard opens");
    let folder = Arc::new(tempfile::tempdir().expect("a folder"));
    Fixture::at(Place::Objects, shard, folder, Clock::default()).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_in_an_object_store_are_not_escaped_by_readers() {
    let fixture = in_objects().await;
    let definition = ContainerDefinition::new("ü c", shardlake_model::PartitionKeyDefinition::hash("/pk"));
    let definition = ContainerDefinition { analytical_storage_ttl: Some(-1), ..definition };
    let rid = fixture.container_of(definition, 400).await.container().rid;
    let location = eventually("the table is followed", async || {
        let report = fixture.analytics.report(rid).await.expect("there is a table");
        report.location.filter(|_| report.state == TableState::Following)
    })
    .await;
    assert_eq!(location, "memory:///root/db/@C3@BC@20c");
    let files = fixture.files().list("db/@C3@BC@20c/_delta_log").expect("listed");
    assert!(!files.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_server_continues_a_table_in_an_object_store() {
    let mut fixture = in_objects().await;
    fixture.container(400).await;
    for turn in 0..4 {
        fill(&fixture, turn * 10..turn * 10 + 25).await;
        if turn % 2 == 0 {
            fixture.assert_level().await;
        }
        let container = fixture.again();
        for number in turn * 10..turn * 10 + 4 {
            assert!(fixture.delete(&container, &format!("p{}", number % 7), &format!("i{number}")).await);
        }
        fixture = fixture.take_over().await;
    }
    fixture.assert_level().await;
    let report = fixture.report().await;
    assert_eq!(report.figures.generation, 1, "the table goes on");
    assert_eq!(report.location.as_deref(), Some("memory:///root/db/c"));
    assert_eq!(report.last_error, None);
    verify(&fixture).await;
    let local = std::fs::read_dir(fixture.folder.path()).expect("a folder");
    let names = local.map(|entry| entry.expect("an entry").file_name()).collect::<Vec<_>>();
    assert!(
        names.iter().all(|name| name.to_string_lossy().starts_with("local-") || name == "analytics-local")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_container_that_ends_while_no_server_follows_leaves_no_table() {
    let fixture = in_objects().await;
    fixture.container(400).await;
    fill(&fixture, 0..10).await;
    fixture.assert_level().await;
    let fixture = fixture.restart_unfollowed().await;
    let ctx = fixture.ctx();
    let none = Preconditions::default();
    fixture.account.definitions().delete_container(&ctx, "db", "c", &none).await.expect("deleted");
    assert!(!fixture.table().list("").expect("listed").is_empty());
    let fixture = fixture.take_over().await;
    eventually("the files are deleted", async || {
        let left = fixture.files().list("").expect("listed");
        left.iter().all(|file| file.path == "tables.json").then_some(())
    })
    .await;
    fixture.container(400).await;
    fill(&fixture, 0..3).await;
    fixture.assert_level().await;
}

async fn set_ttl(fixture: &Fixture, ttl: i64) {
    let old = fixture.again().container().definition.clone();
    let definition = ContainerDefinition { analytical_storage_ttl: Some(ttl), ..old };
    let (definitions, none) = (fixture.account.definitions(), Preconditions::default());
    definitions.replace_container(&fixture.ctx(), "db", "c", definition, &none).await.expect("replaced");
}

/// Closes the table, so that the log is not kept for it, and waits until that is so.
async fn close(fixture: &Fixture) {
    set_ttl(fixture, 0).await;
    stepping(fixture, async || {
        let rid = fixture.again().container().rid;
        let is_released = fixture.account.router().hold_state(rid, Holder::Analytics(1)).is_none();
        (is_released && fixture.report().await.state == TableState::Closed).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_behind_a_hole_of_the_log_is_compared_with_its_container() {
    expects_log("an analytical table is reconciled");
    for place in PLACES {
        let clock = Clock::manual(Timestamp(1_700_000_000_000));
        let shard = Shard::open(ShardOptions::memory()).await.expect("a memory shard opens");
        let folder = Arc::new(tempfile::tempdir().expect("a folder"));
        let fixture = Fixture::at(place, shard, folder, clock).await;
        let definition = ContainerDefinition::new("c", shardlake_model::PartitionKeyDefinition::hash("/pk"));
        let definition =
            ContainerDefinition { analytical_storage_ttl: Some(-1), default_ttl: Some(1000), ..definition };
        let container = fixture.container_of(definition, 400).await;
        fill(&fixture, 0..40).await;
        for number in 40..44 {
            fixture.upsert(&container, &item(number, r#","ttl":60"#)).await;
        }
        step(&fixture, 1).await;
        close(&fixture).await;
        // Replaced, deleted, new, new and deleted, run out copied and uncopied.
        fill(&fixture, 0..10).await;
        for number in 10..20 {
            assert!(fixture.delete(&container, &format!("p{}", number % 7), &format!("i{number}")).await);
        }
        fill(&fixture, 50..60).await;
        assert!(fixture.delete(&container, "p1", "i50").await);
        for number in 70..73 {
            fixture.upsert(&container, &item(number, r#","ttl":60"#)).await;
        }
        fixture.clock.advance(Duration::from_secs(100));
        let purged = fixture.account.maintenance().purge_expired(&container).await.expect("purged");
        assert_eq!(purged, 7);
        for turn in 0..20 {
            fill(&fixture, 30 + turn % 3..33).await;
        }
        let removed = fixture.account.maintenance().compact_change_logs().await.expect("compacted");
        assert!(removed > 10, "{removed}");
        set_ttl(&fixture, -1).await;
        step(&fixture, 1).await;
        let report = fixture.report().await;
        assert_eq!(report.figures.generation, 1, "the table goes on");
        assert_eq!(report.counts.commits.get("reconcile"), Some(&1));
        assert_eq!(report.counts.lost_history, 1, "the log does not have how many items ran out uncopied");
        let (rows, items) = (fixture.rows(), fixture.items(SchemaMode::WellDefined).await);
        assert_eq!(items.iter().find(|(name, item)| rows.get(*name) != Some(*item)), None);
        let history: Vec<_> = rows.iter().filter(|(name, _)| !items.contains_key(*name)).collect();
        assert_eq!(history.len(), 4, "items that ran out stay: {history:?}");
        verify(&fixture).await;
        // Rounds follow, also after a restart.
        let fixture = fixture.restart().await;
        fill(&fixture, 5..25).await;
        assert!(fixture.delete(&fixture.again(), "p3", "i3").await);
        step(&fixture, 1).await;
        verify(&fixture).await;
        assert_eq!(fixture.report().await.figures.generation, 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_that_differ_by_case_have_folders_of_their_own() {
    let fixture = Fixture::new().await;
    fixture.container(400).await;
    fill(&fixture, 0..5).await;
    fixture.assert_level().await;
    let definition = ContainerDefinition::new("C", shardlake_model::PartitionKeyDefinition::hash("/pk"));
    let definition = ContainerDefinition { analytical_storage_ttl: Some(-1), ..definition };
    let other = fixture.container_of(definition, 400).await;
    fixture.upsert(&other, &item(1, r#","of":"C""#)).await;
    let rid = other.container().rid;
    let folder = format!("db/C~r{:x}-{:x}", rid.database.0, rid.number);
    let report = eventually("the table has everything", async || {
        let report = fixture.analytics.report(rid).await.expect("there is a table");
        (report.state == TableState::Following && report.lag.changes == 0).then_some(report)
    })
    .await;
    let location = report.location.expect("a folder");
    assert!(location.ends_with(&folder), "{location}");
    let store = shardlake_analytical_table::store::LocalStore::open(location.as_ref()).expect("a folder");
    assert_eq!((rows_of(Arc::new(store)).len(), fixture.rows().len()), (1, 5));
    let tables = eventually("the names are written", async || {
        let text = fixture.files().read("tables.json").ok()?;
        let file: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
        let tables = file["tables"].as_array().expect("tables").clone();
        let is_all = tables.len() == 2 && tables.iter().all(|table| table["state"] == "following");
        is_all.then_some(tables)
    })
    .await;
    let mut folders: Vec<_> = tables.iter().filter_map(|table| table["address"].as_str()).collect();
    folders.sort_unstable_by_key(|folder| folder.len());
    assert!(folders[0].ends_with("/db/c") && folders[1].ends_with(&folder), "{folders:?}");
    // The folder stays when the other name is free again.
    let none = Preconditions::default();
    let definitions = fixture.account.definitions();
    definitions.delete_container(&fixture.ctx(), "db", "c", &none).await.expect("deleted");
    eventually("the files are deleted", async || (!fixture.table_folder().exists()).then_some(())).await;
    let fixture = fixture.restart().await;
    let report = eventually("the table is followed", async || {
        let report = fixture.analytics.report(rid).await.expect("there is a table");
        (report.state == TableState::Following).then_some(report)
    })
    .await;
    assert!(report.location.expect("a folder").ends_with(&folder));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_commit_of_the_server_before_is_one_version_of_the_table() {
    let fixture = in_objects().await;
    fixture.container(400).await;
    fill(&fixture, 0..10).await;
    fixture.assert_level().await;
    for turn in 0..3_u64 {
        commit_besides(&fixture);
        fill(&fixture, turn * 3 + 5..turn * 3 + 15).await;
        fixture.assert_level().await;
    }
    let report = fixture.report().await;
    assert_eq!((report.figures.generation, report.last_error), (1, None));
    verify(&fixture).await;
    // A program that goes on writing is another matter.
    expects_log("an analytical table failed");
    commit_besides(&fixture);
    fill(&fixture, 30..31).await;
    let reason =
        eventually("the table fails", async || fixture.report().await.state.reason().map(str::to_owned))
            .await;
    assert!(reason.contains("another writer"), "{reason}");
}

/// A version as another server writes it, without changes.
fn commit_besides(fixture: &Fixture) {
    use shardlake_analytical_table::table::{
        Commit, Location, Table, TableFolders, TableOptions, TableReader,
    };
    let reader = TableReader::open(fixture.table()).expect("it opens").expect("a table");
    let info = reader.version().info.clone();
    let folders = TableFolders { store: fixture.table(), keys: fixture.table(), random: Random::seeded(9) };
    let options = TableOptions {
        container: info.container,
        history: info.history,
        writer: "another".into(),
        secret: Vec::new(),
        mode: SchemaMode::WellDefined,
        limits: shardlake_analytical_table::schema::SchemaLimits::default(),
        exclude: Vec::new(),
        stats_keys: Vec::new(),
        cluster_by: Vec::new(),
        retention_hours: 24,
        checkpoint_every: 64,
        sizes: shardlake_analytical_table::table::Sizes::default(),
    };
    let table = Table::open(&folders, Location::Serving, options).expect("it opens");
    let mut table = table.expect("a table");
    let same = Commit::same(table.version(), table.version().time);
    table.commit_state(&same).expect("committed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retention_that_was_changed_reaches_the_table_with_its_next_commit() {
    use shardlake_analytical_table::table::TableReader;
    let fixture = Fixture::new().await;
    fixture.container(400).await;
    fill(&fixture, 0..5).await;
    fixture.assert_level().await;
    let kept = |fixture: &Fixture| {
        let table = TableReader::open(fixture.table()).expect("it opens").expect("a table");
        (table.version().info.generation, table.version().metadata.retention_hours)
    };
    assert_eq!(kept(&fixture), (1, 24));
    let fixture = fixture.restart_with(|options| options.retention = Duration::from_secs(48 * 3600)).await;
    fill(&fixture, 3..8).await;
    fixture.assert_level().await;
    assert_eq!(kept(&fixture), (1, 48));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_of_another_history_is_made_anew() {
    let fixture = Fixture::new().await;
    fixture.container(400).await;
    fill(&fixture, 0..5).await;
    fixture.assert_level().await;
    let fixture = fixture.restart_unfollowed().await;
    fixture.account.definitions().renew_analytical_histories().await.expect("renewed");
    expects_log("an analytical table is made anew");
    let fixture = fixture.restart_with(|_| {}).await;
    eventually("the rebuild", async || (fixture.report().await.figures.generation == 2).then_some(())).await;
    fixture.assert_level().await;
    // Once: the new table has the new history.
    let fixture = fixture.restart().await;
    fill(&fixture, 3..8).await;
    fixture.assert_level().await;
    assert_eq!(fixture.report().await.figures.generation, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pause_that_outlasts_the_log_ends_with_a_comparison() {
    expects_log("an analytical table is reconciled");
    expects_log("a follower is too slow");
    let clock = Clock::manual(Timestamp(1_700_000_000_000));
    let shard = Shard::open(ShardOptions::memory()).await.expect("a memory shard opens");
    let fixture = Fixture::over(shard, Arc::new(tempfile::tempdir().expect("a folder")), clock).await;
    let container = fixture.container(400).await;
    let rid = container.container().rid;
    fill(&fixture, 0..20).await;
    step(&fixture, 1).await;
    fixture.analytics.pause(rid, true).await.expect("paused");
    for number in 0..10 {
        assert!(fixture.delete(&container, &format!("p{}", number % 7), &format!("i{number}")).await);
    }
    fill(&fixture, 15..30).await;
    fixture.clock.advance(Duration::from_secs(25 * 3600));
    fill(&fixture, 15..16).await;
    let maintenance = fixture.account.maintenance();
    maintenance.store_log_holds().await.expect("stored");
    let state = fixture.account.router().hold_state(rid, Holder::Analytics(1));
    assert_eq!(state, Some(HoldState::Lost), "the log does not wait for ever");
    assert!(maintenance.compact_change_logs().await.expect("compacted") > 10);
    fixture.analytics.pause(rid, false).await.expect("resumed");
    step(&fixture, 1).await;
    let report = fixture.report().await;
    assert_eq!((report.figures.generation, report.counts.commits.get("reconcile")), (1, Some(&1)));
    assert_eq!(report.counts.lost_history, 0, "no item of the container runs out");
    fixture.assert_rows().await;
    assert_eq!(fixture.account.router().hold_state(rid, Holder::Analytics(1)), Some(HoldState::Held));
    verify(&fixture).await;
}
