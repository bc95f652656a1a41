//! A storm over a followed container: every version of the table against the recorded commits at its position.
//!
//! The test records every acknowledged commit. A version of the table names an LSN for each part of the hash space, so its
//! rows must be exactly the recorded items as of these LSNs. Items whose time to live ran out keep their rows as history.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use shardlake_account::{ContainerHandle, ItemWrite, SplitAt, item_of_json};
use shardlake_analytical_table::rows::{document_of, normal_form, normal_form_of};
use shardlake_analytical_table::schema::{SchemaLimits, SchemaMode, TableSchema};
use shardlake_analytical_table::store::Fault;
use shardlake_analytical_table::table::TableReader;
use shardlake_analytics::testing::{Hooks, SeededBug};
use shardlake_analytics::{AnalyticsOptions, OrderReport, TableState};
use shardlake_document::{Value, parse_partition_key};
use shardlake_model::{ContainerDefinition, PartitionKeyDefinition, Preconditions};
use shardlake_routing::{Epk, KeyRange, effective_partition_key};
use shardlake_stdx::{Clock, Random, Timestamp};
use shardlake_storage::{Shard, ShardOptions};
use shardlake_testkit::expects_log;

use crate::support::{Fixture, PLACES, eventually};

/// Seconds that storms run for in CI.
const BUDGET: Duration = Duration::from_secs(10);
/// Seconds to run for instead.
const BUDGET_VARIABLE: &str = "SHARDLAKE_STORM_SECONDS";
/// The one seed to run.
const SEED_VARIABLE: &str = "SHARDLAKE_STORM_SEED";
/// Whether batches delete an item and create it anew. Entries of the change log do not record both ordinals yet.
const RECREATES_IN_BATCHES: bool = false;
const KEYS: u64 = 8;
const IDS: u64 = 6;
/// Later than every file of the test, so that vacuum deletes all that it may.
const START: Timestamp = Timestamp(4_000_000_000_000);
/// Events after which a storm compares.
const EVENTS: u64 = 60;
/// Seconds between two looks for rows past the analytical time to live, with some slack.
const RETENTION_EVERY: u64 = 65;

const FAULTS: [Fault; 4] = [Fault::FailBefore, Fault::FailAfter, Fault::CutBefore, Fault::CutAfter];

/// `pk` and `id`.
type Key = (String, String);

/// An acknowledged write of an item.
#[derive(Debug, Clone)]
struct Written {
    lsn: u64,
    /// `None`: deleted.
    document: Option<Value>,
    time: u64,
    ttl: Option<u64>,
}

impl Written {
    fn has_run_out(&self, now: u64) -> bool {
        self.ttl.is_some_and(|ttl| self.time + ttl <= now)
    }
}

#[derive(Debug, Default)]
struct History {
    items: BTreeMap<Key, Vec<Written>>,
    /// Whether history rows are kept through everything so far: a table that was made anew may lack some.
    lacks_rows: bool,
    /// Whether the log had a hole: of an item that has run out by now it is not known whether it was deleted before.
    has_hole: bool,
    /// Analytical time to live in seconds.
    ttl: Option<u64>,
    /// The last version of the table that was compared, and its position.
    checked: Option<u64>,
    places: Vec<(KeyRange, u64)>,
}

/// Rows of a version, by key and LSN.
type Rows = BTreeMap<(Key, u64), Value>;

fn epk_of(key: &str) -> Epk {
    let key = parse_partition_key(&format!("[\"{key}\"]")).expect("a key");
    effective_partition_key(&PartitionKeyDefinition::hash("/pk"), &key)
}

fn lsn_at(places: &[(KeyRange, u64)], key: &str) -> Option<u64> {
    let epk = epk_of(key);
    places.iter().find(|(range, _)| range.contains(&epk)).map(|(_, lsn)| *lsn)
}

impl History {
    fn live(&self, now: u64) -> Vec<Key> {
        let last = self.items.iter().filter_map(|(key, written)| Some((key, written.last()?)));
        let live = last.filter(|(_, last)| last.document.is_some() && !last.has_run_out(now));
        live.map(|(key, _)| key.clone()).collect()
    }

    /// The differences between a version and the recorded commits at its position.
    fn differences(&self, rows: &Rows, places: &[(KeyRange, u64)], now: u64) -> Vec<String> {
        let (mut wrong, mut explained) = (Vec::new(), BTreeSet::new());
        for ((pk, id), written) in &self.items {
            let Some(lsn) = lsn_at(places, pk) else {
                wrong.push(format!("no place has {pk}"));
                continue;
            };
            let seen = written.iter().filter(|one| one.lsn <= lsn).count();
            for (at, one) in written[..seen].iter().enumerate() {
                let Some(document) = &one.document else { continue };
                let is_last = at + 1 == seen;
                let next = written[..seen].get(at + 1);
                let has_run_out = one.has_run_out(next.map_or(now, |next| next.time));
                let name = ((pk.clone(), id.clone()), one.lsn);
                if !is_last && !has_run_out {
                    if self.has_hole && one.has_run_out(now) {
                        explained.insert(name);
                    }
                    continue;
                }
                match rows.get(&name) {
                    Some(row) if row == document => {}
                    Some(row) => wrong.push(format!("{name:?} is {row:?}, not {document:?}")),
                    None if has_run_out && self.lacks_rows => {}
                    None if self.is_past(one, now, 0) => {}
                    None => wrong.push(format!("{name:?} has no row at {lsn} ({one:?})")),
                }
                explained.insert(name);
            }
        }
        let surplus = rows.keys().filter(|name| !explained.contains(*name));
        wrong.extend(surplus.map(|name| format!("{name:?} has a row: {:?}", self.items.get(&name.0))));
        wrong
    }

    /// Whether a version was past the analytical time to live so many seconds ago.
    fn is_past(&self, written: &Written, now: u64, seconds: u64) -> bool {
        self.ttl.is_some_and(|ttl| written.time + ttl + seconds < now)
    }

    /// Rows that retention left behind.
    fn left_behind(&self, rows: &Rows, now: u64) -> Vec<String> {
        let is_left = |name: &&(Key, u64)| {
            let written = self.items.get(&name.0).into_iter().flatten();
            written.into_iter().any(|one| one.lsn == name.1 && self.is_past(one, now, RETENTION_EVERY))
        };
        rows.keys().filter(is_left).map(|name| format!("{name:?} is past the time to live")).collect()
    }

    /// Compares all retained versions again: their files must still be there.
    fn check_all(&mut self, fixture: &Fixture) -> Vec<String> {
        (self.checked, self.places) = (None, Vec::new());
        self.check(fixture)
    }

    /// Compares all versions that were not compared.
    fn check(&mut self, fixture: &Fixture) -> Vec<String> {
        let Some(mut table) = TableReader::open(fixture.table()).expect("it opens") else {
            return Vec::new();
        };
        let now = fixture.clock.now().seconds();
        let (mut wrong, mut newest) = (Vec::new(), Rows::new());
        for (number, _) in table.history().expect("a history") {
            if self.checked.is_some_and(|checked| number <= checked) {
                continue;
            }
            table.at(number).expect("a retained version is readable");
            let info = &table.version().info;
            let range = |place: &shardlake_analytical_table::log::Place| {
                (KeyRange::from_hex(&place.span.min, &place.span.max).expect("a span"), place.lsn)
            };
            let places: Vec<_> = info.places.iter().map(range).collect();
            for key in (0..KEYS).map(|number| format!("p{number}")) {
                let (before, after) = (lsn_at(&self.places, &key), lsn_at(&places, &key));
                if before > after {
                    wrong.push(format!("version {number}: {key} moves back from {before:?} to {after:?}"));
                }
            }
            let rows = rows_of(&table);
            let words = format!("version {number} ({:?}, {})", info.reason, info.state);
            wrong.extend(self.differences(&rows, &places, now).iter().map(|text| format!("{words}: {text}")));
            (self.places, self.checked) = (places, Some(number));
            newest = rows;
        }
        wrong.extend(self.left_behind(&newest, now));
        wrong
    }
}

fn rows_of(table: &TableReader) -> Rows {
    let mut rows = Rows::new();
    for live in table.read() {
        let batch = live.expect("a retained version is readable").batch;
        let lsns = batch.column_by_name("_lsn").expect("a column").as_primitive::<Int64Type>().clone();
        for row in 0..batch.num_rows() {
            let document = document_of(table.schema(), &batch, row).expect("a document");
            let document = normal_form(table.schema().mode(), document);
            let text = |name: &str| match document.get(name) {
                Some(Value::String(text)) => text.to_string(),
                other => panic!("{name} is {other:?}"),
            };
            let name = ((text("pk"), text("id")), lsns.value(row) as u64);
            assert!(rows.insert(name.clone(), document).is_none(), "{name:?} has two rows");
        }
    }
    rows
}

struct Storm {
    fixture: Fixture,
    random: Random,
    history: History,
    schema: TableSchema,
    is_paused: bool,
    is_closed: bool,
}

impl Storm {
    async fn begin(seed: u64) -> Storm {
        for words in [
            "an analytical table waits",
            "an analytical table is made anew",
            "an analytical table is reconciled",
        ] {
            expects_log(words);
        }
        let mut shards = Vec::new();
        for _ in 0..3 {
            shards.push(Shard::open(ShardOptions::memory()).await.expect("a memory shard opens"));
        }
        let folder = Arc::new(tempfile::tempdir().expect("a folder"));
        let options = AnalyticsOptions {
            lag: Duration::from_millis(1),
            hooks: Hooks::waking_each(Duration::from_millis(5)),
            ..PLACES[seed as usize / 2 % 2].options(folder.path())
        };
        let fixture = Fixture::with(shards, folder, Clock::manual(START), options).await;
        let definition = ContainerDefinition::new("c", PartitionKeyDefinition::hash("/pk"));
        let definition = ContainerDefinition { default_ttl: Some(-1), ..definition };
        let ttl = seed.is_multiple_of(3).then_some(150);
        let definition = ContainerDefinition {
            analytical_storage_ttl: Some(ttl.map_or(-1, |ttl| ttl as i64)),
            ..definition
        };
        fixture.container_of(definition, 400).await;
        // A first copy takes no history of items that ran out before it.
        let lacks_rows = seed.is_multiple_of(2);
        let mut storm = Storm {
            fixture,
            random: Random::seeded(seed),
            history: History { lacks_rows, ttl, ..History::default() },
            schema: TableSchema::new(SchemaMode::WellDefined, SchemaLimits::default(), &[] as &[&str]),
            is_paused: false,
            is_closed: false,
        };
        if !lacks_rows {
            storm.level().await;
        }
        storm
    }

    fn now(&self) -> u64 {
        self.fixture.clock.now().seconds()
    }

    fn a_key(&self) -> Key {
        (format!("p{}", self.random.below(KEYS)), format!("i{}", self.random.below(IDS)))
    }

    /// JSON of a new version of an item, and its time to live.
    fn body(&self, (pk, id): &Key) -> (String, Option<u64>) {
        let number = self.random.below(1000);
        let value = match self.random.below(7) {
            0 => format!("{number}.5"),
            1 => format!("\"text {number}\""),
            2 => format!("{{\"x\":{number},\"y\":[{number},\"z\"]}}"),
            3 => "null".to_owned(),
            4 => format!("[{{\"a\":{number}}},{{\"a\":null,\"b\":true}}]"),
            _ => number.to_string(),
        };
        let name = self.random.below(4);
        let ttl = (self.random.below(4) == 0).then(|| 1 + self.random.below(90));
        let ttl_text = ttl.map(|ttl| format!(",\"ttl\":{ttl}")).unwrap_or_default();
        (format!("{{\"id\":\"{id}\",\"pk\":\"{pk}\",\"n\":{number},\"m{name}\":{value}{ttl_text}}}"), ttl)
    }

    fn record(&mut self, key: Key, lsn: u64, written: Option<(&str, Option<u64>)>) {
        assert!(lsn > 0, "a commit has an LSN");
        let limits = self.fixture.account.router().limits();
        let document = written.map(|(json, _)| {
            let body = item_of_json(json.as_bytes(), limits).expect("an item");
            normal_form_of(&self.schema, body.raw())
        });
        let one = Written { lsn, document, time: self.now(), ttl: written.and_then(|(_, ttl)| ttl) };
        let versions = self.history.items.entry(key).or_default();
        assert!(versions.last().is_none_or(|last| last.lsn < lsn), "LSNs of an item increase");
        versions.push(one);
    }

    async fn upsert(&mut self, container: &ContainerHandle) {
        let key = self.a_key();
        let (json, ttl) = self.body(&key);
        let lsn = self.fixture.upsert_at(container, &json).await;
        self.record(key, lsn, Some((&json, ttl)));
    }

    async fn delete(&mut self, container: &ContainerHandle) {
        let live = self.history.live(self.now());
        let Some(key) = live.get(self.random.below(live.len().max(1) as u64) as usize).cloned() else {
            return;
        };
        let lsn = self.fixture.delete_at(container, &key.0, &key.1).await;
        self.record(key, lsn.expect("a live item is deleted"), None);
    }

    /// A few operations on few items, several on one of them.
    async fn batch(&mut self, container: &ContainerHandle) {
        let pk = self.a_key().0;
        let live = self.history.live(self.now());
        let mut last: BTreeMap<String, Option<(String, Option<u64>)>> = BTreeMap::new();
        let mut writes = Vec::new();
        for _ in 0..2 + self.random.below(5) {
            let key = (pk.clone(), format!("i{}", self.random.below(3)));
            let is_there = match last.get(&key.1) {
                Some(written) => written.is_some(),
                None => live.contains(&key),
            };
            if last.get(&key.1) == Some(&None) && !RECREATES_IN_BATCHES {
                continue;
            }
            if is_there && self.random.below(3) == 0 {
                let item = container.item_name(&key.1);
                writes.push(ItemWrite::Delete { item, preconditions: Preconditions::default() });
                last.insert(key.1, None);
                continue;
            }
            let (json, ttl) = self.body(&key);
            let limits = self.fixture.account.router().limits();
            let body = item_of_json(json.as_bytes(), limits).expect("an item");
            writes.push(ItemWrite::Upsert { body, preconditions: Preconditions::default() });
            last.insert(key.1, Some((json, ttl)));
        }
        if writes.is_empty() {
            return;
        }
        let lsn = self.fixture.batch_at(container, &pk, writes).await.expect("the batch is carried out");
        for (id, written) in last {
            let key = (pk.clone(), id);
            if written.is_some() || live.contains(&key) {
                let written = written.as_ref().map(|(json, ttl)| (json.as_str(), *ttl));
                self.record(key, lsn, written);
            }
        }
    }

    async fn write(&mut self) {
        let container = self.fixture.again();
        match self.random.below(8) {
            0..4 => self.upsert(&container).await,
            4 | 5 => self.delete(&container).await,
            _ => self.batch(&container).await,
        }
    }

    /// A split, merge or move, with writes while it runs.
    async fn relocate(&mut self) {
        let container = self.fixture.again();
        let parts: Vec<u32> = container.entry.map.iter().map(|partition| partition.range_id()).collect();
        let at = self.random.below(parts.len() as u64) as usize;
        let maintenance = self.fixture.account.maintenance().clone();
        let ticket = match self.random.below(3) {
            0 if parts.len() < 6 => maintenance.split(&container, parts[at], SplitAt::Middle).await,
            1 if at > 0 => maintenance.merge(&container, &parts[at - 1..=at]).await,
            _ => {
                let shard = self.random.below(3) as u16;
                maintenance.move_partition(&container, parts[at], shard).await
            }
        };
        // Some are refused: a partition is on its shard already, or a merge has too little throughput.
        let Ok(ticket) = ticket else { return };
        for _ in 0..self.random.below(12) {
            self.write().await;
        }
        ticket.finished().await.expect("it finishes");
    }

    async fn set_ttl(&mut self, is_closed: bool) {
        let ttl = if is_closed { 0 } else { self.history.ttl.map_or(-1, |ttl| ttl as i64) };
        let old = self.fixture.again().container().definition.clone();
        let definition = ContainerDefinition { analytical_storage_ttl: Some(ttl), ..old };
        let (definitions, none) = (self.fixture.account.definitions(), Preconditions::default());
        let ctx = self.fixture.ctx();
        definitions.replace_container(&ctx, "db", "c", definition, &none).await.expect("replaced");
    }

    /// The table is closed while items change and the log is compacted: afterwards it is compared with the items.
    async fn lose_the_log(&mut self) {
        (self.history.lacks_rows, self.history.has_hole) = (true, true);
        self.set_ttl(true).await;
        let fixture = &self.fixture;
        let rid = fixture.again().container().rid;
        eventually("the log is not held", async || {
            fixture.clock.advance(Duration::from_millis(20));
            let live = fixture.account.router().catalog().load_full();
            live.definitions.log_holds_of(rid).next().is_none().then_some(())
        })
        .await;
        for _ in 0..10 + self.random.below(20) {
            self.write().await;
        }
        let maintenance = self.fixture.account.maintenance();
        if self.random.below(2) == 0 {
            self.fixture.clock.advance(Duration::from_secs(1 + self.random.below(60)));
            maintenance.purge_expired(&self.fixture.again()).await.expect("purged");
        }
        maintenance.compact_change_logs().await.expect("compacted");
        self.set_ttl(false).await;
    }

    async fn event(mut self) -> Storm {
        let rid = self.fixture.again().container().rid;
        match self.random.below(40) {
            0 | 1 => self.relocate().await,
            2 if !self.is_closed => {
                self.is_paused = !self.is_paused;
                self.fixture.analytics.pause(rid, self.is_paused).await.expect("paused");
            }
            3 if !self.is_closed => {
                self.history.lacks_rows = true;
                self.fixture.analytics.rebuild(rid).await.expect("asked");
            }
            4 | 5 if !self.is_closed => {
                let is_purge = self.random.below(2) == 0;
                self.fixture.analytics.compact(rid, is_purge).expect("asked");
            }
            6 if self.random.below(3) == 0 => {
                (self.history.lacks_rows, self.history.has_hole) = (true, true);
                self.is_closed = !self.is_closed;
                self.set_ttl(self.is_closed).await;
            }
            7 => self.fixture = self.fixture.restart().await,
            8 => {
                let container = self.fixture.again();
                self.fixture.account.maintenance().store_log_holds().await.expect("stored");
                self.fixture.account.maintenance().purge_expired(&container).await.expect("purged");
            }
            9 => {
                self.fixture.account.maintenance().store_log_holds().await.expect("stored");
                self.fixture.account.maintenance().compact_change_logs().await.expect("compacted");
            }
            10 => self.fixture.clock.advance(Duration::from_secs(30 + self.random.below(40))),
            // Vacuum is due.
            17 if self.random.below(3) == 0 => self.fixture.clock.advance(Duration::from_secs(3700)),
            11..15 => self.fixture.clock.advance(Duration::from_secs(1 + self.random.below(9))),
            15 => self.level().await,
            16 => {
                for _ in 0..self.random.below(2000) {
                    tokio::task::yield_now().await;
                }
            }
            19 if !self.is_closed => self.lose_the_log().await,
            18 => {
                let fault = FAULTS[self.random.below(4) as usize];
                self.fixture.hooks.faults.fail_at(self.random.below(12), fault);
            }
            _ => self.write().await,
        }
        self
    }

    /// Ends faults, resumes everything, and waits until the table has everything.
    async fn level(&mut self) {
        self.fixture.hooks.faults.restart();
        let rid = self.fixture.again().container().rid;
        if self.is_closed {
            self.is_closed = false;
            self.set_ttl(false).await;
        }
        if self.is_paused {
            self.is_paused = false;
            self.fixture.analytics.pause(rid, false).await.expect("resumed");
        }
        let fixture = &self.fixture;
        let generation = fixture.account.router().catalog().load_full();
        let generation = generation.definitions.analytical.get(&rid).expect("a record").generation;
        eventually("the table has everything", async || {
            fixture.clock.advance(Duration::from_millis(20));
            let report = fixture.report().await;
            assert!(report.state.name() != "failed", "{:?}", report.state);
            let is_level = report.state == TableState::Following
                && report.figures.generation >= generation
                && report.lag.changes == 0;
            is_level.then_some(())
        })
        .await;
    }

    /// Compares the versions so far, and has the follower compare itself.
    async fn check(&mut self) -> Vec<String> {
        self.level().await;
        if self.history.ttl.is_some() {
            // Rows may be copied late. Retention comes before the order in a step, and the step of the second order
            // begins at this time.
            self.fixture.clock.advance(Duration::from_secs(61));
            let rid = self.fixture.again().container().rid;
            for _ in 0..2 {
                self.done(self.fixture.analytics.compact(rid, false).expect("asked")).await;
            }
        }
        let mut wrong = self.history.check(&self.fixture);
        wrong.extend(self.verified().await);
        wrong
    }

    /// The differences that the follower finds.
    async fn verified(&self) -> Option<String> {
        let rid = self.fixture.again().container().rid;
        let done = self.done(self.fixture.analytics.verify(rid).expect("asked")).await;
        (!done.is_right).then_some(done.outcome)
    }

    /// Waits until an order was carried out.
    async fn done(&self, number: u64) -> OrderReport {
        let fixture = &self.fixture;
        eventually("the order", async || {
            fixture.clock.advance(Duration::from_millis(1));
            fixture.report().await.orders.into_iter().find(|order| order.number >= number)
        })
        .await
    }
}

/// Returns how often the last server of the storm compared the table with the items.
async fn storm(seed: u64, rounds: u64) -> Result<u64, String> {
    let mut storm = Storm::begin(seed).await;
    for _ in 0..rounds {
        for _ in 0..EVENTS {
            storm = storm.event().await;
        }
        let wrong = storm.check().await;
        if !wrong.is_empty() {
            let report = storm.fixture.report().await;
            return Err(format!(
                "seed {seed}: {}\n{:?} {:?} {:?}",
                wrong.join("\n"),
                report.state,
                report.orders,
                report.counts
            ));
        }
    }
    let wrong = storm.history.check_all(&storm.fixture);
    assert_eq!(wrong, Vec::<String>::new(), "seed {seed}: the retained versions");
    assert!(storm.history.checked.is_some(), "versions were compared");
    Ok(storm.fixture.report().await.counts.commits.get("reconcile").copied().unwrap_or(0))
}

#[allow(clippy::disallowed_methods)] // A developer sets these variables.
fn number_of(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().expect("a number"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_version_is_the_recorded_history_at_its_position() {
    let budget = number_of(BUDGET_VARIABLE).map_or(BUDGET, Duration::from_secs);
    let clock = Clock::System;
    let begun = clock.elapsed();
    let seeds = number_of(SEED_VARIABLE).map_or(0..u64::MAX, |seed| seed..seed + 1);
    let (mut stormed, mut reconciled) = (0, 0);
    for seed in seeds {
        eprintln!("storm {seed}");
        reconciled += Box::pin(storm(seed, 3)).await.unwrap_or_else(|wrong| panic!("{wrong}"));
        stormed += 1;
        if clock.elapsed() - begun >= budget {
            break;
        }
    }
    assert!(stormed > 0, "at least one storm ran");
    eprintln!("{stormed} storms, {reconciled} comparisons");
}

/// A short storm with writes alone, and the mistake from the middle on.
async fn noticed(bug: SeededBug) -> Vec<String> {
    expects_log("an analytical table differs from its container");
    let mut storm = Storm::begin(1).await;
    for _ in 0..40 {
        storm.write().await;
    }
    assert_eq!(storm.check().await, Vec::<String>::new(), "without the mistake there is no difference");
    let rid = storm.fixture.again().container().rid;
    if bug == SeededBug::RestartAhead {
        storm.fixture.analytics.pause(rid, true).await.expect("paused");
    }
    storm.fixture.hooks.seed(bug);
    for _ in 0..40 {
        storm.write().await;
    }
    if bug == SeededBug::RestartAhead {
        storm.fixture = storm.fixture.restart().await;
        storm.fixture.analytics.pause(rid, false).await.expect("resumed");
    }
    storm.check().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_mistake_is_noticed() {
    for (bug, words) in [
        (SeededBug::SkippedVector, "has a row"),
        (SeededBug::LostDelete, "has a row"),
        (SeededBug::PositionBeforeRows, "(State, following)"),
        (SeededBug::RestartAhead, "has no row"),
    ] {
        let wrong = Box::pin(noticed(bug)).await;
        assert!(wrong.iter().any(|text| text.contains(words)), "{bug:?}: {wrong:?}");
    }
}
