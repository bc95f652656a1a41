//! Power cuts and failing disks: at every change of a file the power fails or the change does. The follower recovers by
//! itself, and every item has one row.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use shardlake_account::ContainerHandle;
use shardlake_analytical_table::schema::SchemaMode;
use shardlake_analytical_table::store::Fault;
use shardlake_analytics::testing::Hooks;
use shardlake_analytics::{AnalyticsOptions, TableState};
use shardlake_catalog::Holder;
use shardlake_model::{ContainerDefinition, PartitionKeyDefinition, Preconditions};
use shardlake_stdx::{Clock, Timestamp};
use shardlake_storage::{Shard, ShardOptions};
use shardlake_testkit::expects_log;

use crate::support::{Fixture, Place, eventually};

const FAULTS: [Fault; 4] = [Fault::FailBefore, Fault::FailAfter, Fault::CutBefore, Fault::CutAfter];
/// Later than every file of the test, so that vacuum deletes all that it may.
const START: Timestamp = Timestamp(4_000_000_000_000);
/// Analytical time to live, in seconds, where a case has one.
const TTL: i64 = 200;
/// Time that passes between two looks at a table, so that attempts after a failure come soon.
const LOOK: Duration = Duration::from_millis(100);

/// Work of the follower, at each change of which a fault happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    Round,
    FirstCopy,
    Rebuild,
    Compaction,
    Retention,
    Reconcile,
}

struct Case {
    fixture: Fixture,
    ttl: i64,
    written: u64,
    /// Items that ran out: each of them keeps its row.
    ended: usize,
}

impl Case {
    async fn new(place: Place, ttl: i64) -> Case {
        expects_log("an analytical table waits");
        let shard = Shard::open(ShardOptions::memory()).await.expect("a memory shard opens");
        let folder = Arc::new(tempfile::tempdir().expect("a folder"));
        let options = AnalyticsOptions {
            lag: Duration::from_millis(1),
            hooks: Hooks::waking_each(Duration::from_millis(5)),
            ..place.options(folder.path())
        };
        let fixture = Fixture::with(vec![shard], folder, Clock::manual(START), options).await;
        let mut case = Case { fixture, ttl, written: 0, ended: 0 };
        case.create().await;
        case.write().await;
        case.level().await;
        case
    }

    async fn create(&self) {
        let definition = ContainerDefinition::new("c", PartitionKeyDefinition::hash("/pk"));
        let ttl = Some(self.ttl);
        let definition =
            ContainerDefinition { analytical_storage_ttl: ttl, default_ttl: Some(-1), ..definition };
        self.fixture.container_of(definition, 400).await;
    }

    fn container(&self) -> ContainerHandle {
        self.fixture.again()
    }

    /// New items, new versions, and a deletion.
    async fn write(&mut self) {
        let container = self.container();
        let number = self.written;
        self.written += 1;
        for at in number..number + 3 {
            let json = format!(r#"{{"id":"i{}","pk":"p{}","n":{number},"m":[{at}]}}"#, at % 12, at % 3);
            self.fixture.upsert(&container, &json).await;
        }
        let at = (number + 5) % 12;
        self.fixture.delete(&container, &format!("p{}", at % 3), &format!("i{at}")).await;
    }

    /// An item that runs out and leaves its row.
    async fn end_an_item(&mut self) {
        let container = self.container();
        let json = format!(r#"{{"id":"ended{}","pk":"p0","ttl":1}}"#, self.ended);
        self.fixture.upsert(&container, &json).await;
        self.level().await;
        self.fixture.clock.advance(Duration::from_secs(2));
        self.fixture.account.maintenance().store_log_holds().await.expect("stored");
        let purged = self.fixture.account.maintenance().purge_expired(&container).await.expect("purged");
        assert_eq!(purged, 1, "the item is purged");
        self.ended += 1;
        self.level().await;
    }

    async fn set_ttl(&self, ttl: i64) {
        let old = self.container().container().definition.clone();
        let definition = ContainerDefinition { analytical_storage_ttl: Some(ttl), ..old };
        let definitions = self.fixture.account.definitions();
        let none = Preconditions::default();
        let ctx = self.fixture.ctx();
        definitions.replace_container(&ctx, "db", "c", definition, &none).await.expect("replaced");
    }

    /// The table is closed while the log is compacted, and opened again behind the hole.
    async fn lose_the_log(&mut self) {
        self.set_ttl(0).await;
        let rid = self.container().container().rid;
        eventually("the log is not held", async || {
            self.fixture.clock.advance(LOOK);
            let router = self.fixture.account.router();
            router.hold_state(rid, Holder::Analytics(1)).is_none().then_some(())
        })
        .await;
        for _ in 0..6 {
            self.write().await;
        }
        self.fixture.account.maintenance().compact_change_logs().await.expect("compacted");
        self.set_ttl(-1).await;
    }

    async fn begin(&mut self, work: Work) {
        let container = self.container();
        let rid = container.container().rid;
        match work {
            Work::Round => self.write().await,
            Work::FirstCopy => {
                let definitions = self.fixture.account.definitions();
                let none = Preconditions::default();
                definitions.delete_container(&self.fixture.ctx(), "db", "c", &none).await.expect("deleted");
                self.create().await;
                self.write().await;
            }
            Work::Rebuild => self.fixture.analytics.rebuild(rid).await.expect("asked"),
            Work::Compaction => _ = self.fixture.analytics.compact(rid, true).expect("asked"),
            Work::Reconcile => self.lose_the_log().await,
            Work::Retention => self.fixture.clock.advance(Duration::from_secs(TTL as u64 / 2 + 20)),
        }
    }

    async fn is_level(&self) -> bool {
        self.fixture.clock.advance(LOOK);
        let live = self.fixture.account.router().catalog().load_full();
        let rid = self.container().container().rid;
        let generation = live.definitions.analytical.get(&rid).expect("a record").generation;
        let report = self.fixture.report().await;
        assert!(report.state.name() != "failed", "{:?}", report.state);
        report.state == TableState::Following
            && report.figures.generation >= generation
            && report.lag.changes == 0
    }

    /// Waits for a failed step after a time, in seconds.
    async fn failure_after(&self, seconds: u64) {
        eventually("a step fails", async || {
            self.is_level().await;
            self.fixture.report().await.last_error.filter(|error| error.time > seconds)
        })
        .await;
    }

    async fn level(&self) {
        let faults = &self.fixture.hooks.faults;
        eventually("the table has everything", async || {
            (faults.is_cut() || self.is_level().await).then_some(())
        })
        .await;
    }

    /// Everything that is due is done, with background maintenance, unless the power fails.
    async fn settle(&self) {
        self.level().await;
        let faults = &self.fixture.hooks.faults;
        // The second order begins after the step of the first one.
        for _ in 0..2 {
            let rid = self.container().container().rid;
            let number = self.fixture.analytics.compact(rid, false).expect("asked");
            eventually("the order", async || {
                self.fixture.clock.advance(LOOK);
                let report = self.fixture.report().await;
                let is_done = report.orders.iter().any(|order| order.number >= number);
                (faults.is_cut() || is_done).then_some(())
            })
            .await;
        }
        self.level().await;
    }

    async fn check(&self, words: &str) {
        let (rows, items) = (self.fixture.rows(), self.fixture.items(SchemaMode::WellDefined).await);
        let horizon = self.fixture.clock.now().seconds() as i64 - self.ttl;
        let is_kept = |time: u64| self.ttl < 0 || time as i64 >= horizon;
        let missing: Vec<_> =
            items.iter().filter(|(key, (_, time, _))| is_kept(*time) && !rows.contains_key(*key)).collect();
        assert!(missing.is_empty(), "{words}: {missing:?} have no row");
        let surplus: BTreeSet<_> = rows.keys().filter(|key| !items.contains_key(*key)).collect();
        assert_eq!(surplus.len(), self.ended, "{words}: rows without an item: {surplus:?}");
        let (router, rid) = (self.fixture.account.router(), self.container().container().rid);
        let generation = self.fixture.report().await.figures.generation;
        let held =
            (1..generation).find(|former| router.hold_state(rid, Holder::Analytics(*former)).is_some());
        assert_eq!(held, None, "{words}: the log is not kept for a former generation");
        let differs = rows.iter().find(|(key, row)| items.get(key).is_some_and(|item| item != *row));
        assert_eq!(differs, None, "{words}");
    }
}

/// Returns the changes of files at which a fault happened.
async fn at_every_change(work: Work) -> u64 {
    let in_directory = at_every_change_in(Place::Directory, work).await;
    in_directory.min(at_every_change_in(Place::Objects, work).await)
}

async fn at_every_change_in(place: Place, work: Work) -> u64 {
    let mut case = Case::new(place, if work == Work::Retention { TTL } else { -1 }).await;
    for number in 0.. {
        let mut happened = 0;
        for fault in FAULTS {
            let words = format!("{place:?}, {work:?}, change {number}, {fault:?}");
            let faults = case.fixture.hooks.faults.clone();
            if matches!(work, Work::Compaction | Work::Retention) {
                for _ in 0..3 {
                    case.write().await;
                    case.level().await;
                }
            }
            if work == Work::Retention {
                // A file of which a part is past the time to live.
                case.fixture.clock.advance(Duration::from_secs(TTL as u64 / 2));
                case.write().await;
                case.settle().await;
            }
            if matches!(work, Work::Rebuild | Work::Reconcile) && fault == Fault::CutAfter {
                case.end_an_item().await;
            }
            // Vacuum is due with the next step.
            case.fixture.clock.advance(Duration::from_secs(if work == Work::Compaction {
                90_000
            } else {
                0
            }));
            faults.fail_at(number, fault);
            case.begin(work).await;
            case.settle().await;
            if faults.is_cut() && number % 2 == 1 {
                case.fixture = case.fixture.restart().await;
            }
            happened += u64::from(!faults.is_armed());
            faults.restart();
            case.settle().await;
            case.check(&words).await;
        }
        if happened == 0 {
            return number;
        }
    }
    unreachable!("work ends");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_round() {
    // Data file, keys, vector, commit.
    assert!(at_every_change(Work::Round).await >= 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_first_copy() {
    assert!(at_every_change(Work::FirstCopy).await >= 6);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_rebuild() {
    assert!(at_every_change(Work::Rebuild).await >= 8);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_comparison_with_the_items() {
    expects_log("an analytical table is reconciled");
    // Data file, keys, vector, commit.
    assert!(at_every_change(Work::Reconcile).await >= 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_compaction_with_vacuum() {
    assert!(at_every_change(Work::Compaction).await >= 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_retention() {
    assert!(at_every_change(Work::Retention).await >= 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_is_waited_out() {
    let mut case = Case::new(Place::Directory, -1).await;
    let rid = case.container().container().rid;
    for is_rebuilt in [false, true] {
        case.fixture.hooks.faults.set_full(true);
        case.write().await;
        if is_rebuilt {
            case.fixture.analytics.rebuild(rid).await.expect("asked");
        }
        let reason = eventually("the table waits", async || {
            case.is_level().await;
            match case.fixture.report().await.state {
                TableState::Waiting(reason) => Some(reason),
                _ => None,
            }
        })
        .await;
        assert!(reason.contains("no space left"), "{reason}");
        // Requests are served meanwhile.
        case.write().await;
        case.fixture.hooks.faults.set_full(false);
        case.settle().await;
        case.check("after a full disk").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_without_local_files_is_made_anew_also_after_a_failure() {
    let mut case = Case::new(Place::Directory, -1).await;
    expects_log("an analytical table is made anew");
    std::fs::remove_dir_all(case.fixture.folder.path().join("analytics-local")).expect("removed");
    case.fixture.hooks.faults.fail_at(0, Fault::FailAfter);
    case.fixture = case.fixture.restart().await;
    case.settle().await;
    assert!(!case.fixture.hooks.faults.is_armed(), "the first change of a file failed");
    assert_eq!(case.fixture.report().await.figures.generation, 2, "the table is not taken for a known one");
    case.check("without local files").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_verification_outlasts_a_failing_disk() {
    let mut case = Case::new(Place::Directory, -1).await;
    let rid = case.container().container().rid;
    let faults = case.fixture.hooks.faults.clone();
    faults.set_full(true);
    case.write().await;
    case.failure_after(0).await;
    // The comparison begins with a round, which fails.
    let number = case.fixture.analytics.verify(rid).expect("asked");
    case.failure_after(case.fixture.clock.now().seconds()).await;
    faults.set_full(false);
    let done = eventually("the comparison", async || {
        case.is_level().await;
        case.fixture.report().await.orders.into_iter().find(|order| order.number >= number)
    })
    .await;
    assert!(done.is_right, "{}", done.outcome);
}
