//! An account whose containers are followed, and its tables as a reader of their files sees them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use shardlake_account::{
    Account, AccountOptions, AnalyticalMode, AnalyticalSchema, ContainerHandle, ItemOperation, ItemWrite,
    KeyedOperation, Purging, Reach, WriteCommand, item_of_json,
};
use shardlake_analytical_table::rows::{document_of, normal_form, normal_form_of};
use shardlake_analytical_table::schema::{SchemaLimits, SchemaMode};
use shardlake_analytical_table::store::{LocalStore, ObjectTableStore, TableStore};
use shardlake_analytical_table::table::TableReader;
use shardlake_analytics::testing::Hooks;
use shardlake_analytics::{Analytics, AnalyticsOptions, Root, TableReport, TableState};
use shardlake_document::{Record, Value, parse_partition_key};
use shardlake_model::{
    ContainerDefinition, ItemRid, Limits, PartitionKeyDefinition, Preconditions, RequestContext, Throughput,
};
use shardlake_stdx::{Clock, Random};
use shardlake_storage::{Shard, ShardOptions};
use shardlake_testkit::Logs;

pub const ON: AnalyticalMode = AnalyticalMode::On { schema: AnalyticalSchema::WellDefined };

static STARTS: AtomicU64 = AtomicU64::new(0);

/// Object stores of all tests live on it.
static OBJECTS: LazyLock<tokio::runtime::Runtime> = LazyLock::new(|| {
    let builder = &mut tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(1).enable_time().build().expect("a runtime")
});

/// Where the tables of a test lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    Directory,
    /// An object store in memory.
    Objects,
}

pub const PLACES: [Place; 2] = [Place::Directory, Place::Objects];

impl Place {
    /// Options with a root of this kind.
    pub fn options(self, folder: &std::path::Path) -> AnalyticsOptions {
        let options = AnalyticsOptions::below(folder);
        match self {
            Place::Directory => options,
            Place::Objects => AnalyticsOptions { root: in_objects(), ..options },
        }
    }
}

pub fn in_objects() -> Root {
    let (store, prefix) = (Arc::new(object_store::memory::InMemory::new()), "root".into());
    let files = ObjectTableStore::new(store, prefix, OBJECTS.handle().clone());
    Root::Store { url: "memory:///root".into(), files }
}

/// Whether a server follows containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Following {
    On,
    Off,
}

pub struct Fixture {
    pub account: Account,
    pub analytics: Analytics,
    pub folder: Arc<tempfile::TempDir>,
    pub shards: Vec<Shard>,
    pub clock: Clock,
    /// Faults and mistakes of the follower.
    pub hooks: Hooks,
    options: AnalyticsOptions,
    _logs: Logs,
}

/// Rows by their rids: the document in normal form, `_ts` and `_etag`, and the LSN.
pub type Rows = BTreeMap<(String, u64), (Value, u64, String)>;

impl Fixture {
    pub async fn new() -> Fixture {
        let shard = Shard::open(ShardOptions::memory()).await.expect("a memory shard opens");
        let folder = Arc::new(tempfile::tempdir().expect("a folder"));
        Fixture::over(shard, folder, Clock::default()).await
    }

    pub async fn over(shard: Shard, folder: Arc<tempfile::TempDir>, clock: Clock) -> Fixture {
        Fixture::at(Place::Directory, shard, folder, clock).await
    }

    pub async fn at(place: Place, shard: Shard, folder: Arc<tempfile::TempDir>, clock: Clock) -> Fixture {
        let options = AnalyticsOptions { lag: Duration::from_millis(20), ..place.options(folder.path()) };
        Fixture::with(vec![shard], folder, clock, options).await
    }

    pub async fn with(
        shards: Vec<Shard>,
        folder: Arc<tempfile::TempDir>,
        clock: Clock,
        options: AnalyticsOptions,
    ) -> Fixture {
        Fixture::started(shards, folder, clock, options, Following::On).await
    }

    async fn started(
        shards: Vec<Shard>,
        folder: Arc<tempfile::TempDir>,
        clock: Clock,
        options: AnalyticsOptions,
        following: Following,
    ) -> Fixture {
        let _logs = Logs::watch();
        let of_account = AccountOptions {
            analytical: ON,
            // Every start has numbers of its own: files are named by them.
            random: Random::seeded(7 + STARTS.fetch_add(1, Ordering::Relaxed)),
            clock: clock.clone(),
            purging: Purging::WhenAsked,
            // Little of the log is kept, unless a table holds it.
            limits: Limits {
                change_log_entries_kept: 4,
                change_log_operations_in_vain: 4,
                ..Limits::default()
            },
            reach: Reach::Direct,
            ..AccountOptions::default()
        };
        let account = Account::open(shards.clone(), of_account).await.expect("the account opens");
        let hooks = options.hooks.clone();
        let followed = (following == Following::On).then(|| options.clone());
        let analytics = Analytics::start(account.definitions().clone(), followed).expect("it starts");
        Fixture { account, analytics, folder, shards, clock, hooks, options, _logs }
    }

    /// A new server over the same data.
    pub async fn restart(self) -> Fixture {
        self.restart_with(|_| {}).await
    }

    /// A server on another machine, without the local files of this one.
    pub async fn take_over(self) -> Fixture {
        let local = self.folder.path().join(format!("local-{}", STARTS.load(Ordering::Relaxed)));
        self.restart_with(|options| options.local = local).await
    }

    /// A new server over the same data, which follows nothing.
    pub async fn restart_unfollowed(self) -> Fixture {
        let Fixture { account, analytics, folder, shards, clock, options, hooks, _logs } = self;
        end(account, analytics, &hooks).await;
        drop(_logs);
        Fixture::started(shards, folder, clock, options, Following::Off).await
    }

    /// A new server over the same data, with other options.
    pub async fn restart_with(mut self, change: impl FnOnce(&mut AnalyticsOptions)) -> Fixture {
        change(&mut self.options);
        let Fixture { account, analytics, folder, shards, clock, options, hooks, _logs } = self;
        end(account, analytics, &hooks).await;
        drop(_logs);
        Fixture::with(shards, folder, clock, options).await
    }

    pub fn ctx(&self) -> RequestContext {
        RequestContext::internal(&self.clock, self.account.router().random().guid())
    }

    /// Container `db/c` with the key `/pk` and an analytical store.
    pub async fn container(&self, throughput: u64) -> ContainerHandle {
        let definition = ContainerDefinition::new("c", PartitionKeyDefinition::hash("/pk"));
        self.container_of(ContainerDefinition { analytical_storage_ttl: Some(-1), ..definition }, throughput)
            .await
    }

    pub async fn container_of(&self, definition: ContainerDefinition, throughput: u64) -> ContainerHandle {
        let definitions = self.account.definitions();
        if self.account.router().database("db").is_err() {
            definitions.create_database(&self.ctx(), "db", None).await.expect("created");
        }
        let throughput = Some(Throughput::Manual(throughput));
        definitions.create_container(&self.ctx(), "db", definition, throughput).await.expect("created")
    }

    pub fn again(&self) -> ContainerHandle {
        self.account.router().container("db", "c").expect("it exists")
    }

    pub async fn upsert(&self, container: &ContainerHandle, json: &str) {
        self.upsert_at(container, json).await;
    }

    /// The LSN of the write.
    pub async fn upsert_at(&self, container: &ContainerHandle, json: &str) -> u64 {
        let body = item_of_json(json.as_bytes(), self.account.router().limits()).expect("an item");
        let write = ItemWrite::Upsert { body, preconditions: Preconditions::default() };
        let command = WriteCommand::of(None, write);
        let items = self.account.items();
        items.write_item(&self.ctx(), container, command).await.expect("written").meta.item_lsn
    }

    pub async fn delete(&self, container: &ContainerHandle, key: &str, id: &str) -> bool {
        self.delete_at(container, key, id).await.is_some()
    }

    /// The LSN of the deletion; `None` where there is no such item.
    pub async fn delete_at(&self, container: &ContainerHandle, key: &str, id: &str) -> Option<u64> {
        let key = parse_partition_key(&format!("[\"{key}\"]")).expect("a key");
        let item = container.item_name(id);
        let write = ItemWrite::Delete { item, preconditions: Preconditions::default() };
        self.account
            .items()
            .write_item(&self.ctx(), container, WriteCommand::of(Some(key), write))
            .await
            .ok()
            .map(|reply| reply.meta.item_lsn)
    }

    /// Operations of one logical partition, all or none.
    pub async fn batch(&self, container: &ContainerHandle, key: &str, writes: Vec<ItemWrite>) -> bool {
        self.batch_at(container, key, writes).await.is_some()
    }

    /// The LSN of the transaction; `None` where it failed.
    pub async fn batch_at(
        &self,
        container: &ContainerHandle,
        key: &str,
        writes: Vec<ItemWrite>,
    ) -> Option<u64> {
        let key = parse_partition_key(&format!("[\"{key}\"]")).expect("a key");
        let operation =
            |write| Ok(KeyedOperation { key: None, operation: ItemOperation::Write(write), content: false });
        let operations = writes.into_iter().map(operation).collect();
        let reply = self.account.items().batch(&self.ctx(), container, &key, operations).await;
        reply.ok().filter(|reply| reply.outcome.is_ok()).map(|reply| reply.meta.item_lsn)
    }

    pub async fn report(&self) -> TableReport {
        let rid = self.again().container().rid;
        self.analytics.report(rid).await.expect("there is a table")
    }

    /// Waits until the table has everything. No test is about how long that takes.
    pub async fn level(&self) -> TableReport {
        eventually("the table has everything", async || {
            let report = self.report().await;
            match &report.state {
                TableState::Failed(reason) => panic!("the table failed: {reason}"),
                TableState::Following if report.lag.changes == 0 => Some(report),
                _ => None,
            }
        })
        .await
    }

    /// A clock that stands still goes on a little.
    pub fn pass_time(&self) {
        if !matches!(self.clock, Clock::System) {
            self.clock.advance(Duration::from_millis(50));
        }
    }

    pub fn table_folder(&self) -> std::path::PathBuf {
        self.folder.path().join("analytics/db/c")
    }

    /// The table's files, as other programs read them.
    pub fn table(&self) -> Arc<dyn TableStore> {
        match &self.options.root {
            Root::Directory(_) => Arc::new(LocalStore::open(&self.table_folder()).expect("the folder")),
            Root::Store { files, .. } => Arc::new(files.below("db/c")),
        }
    }

    /// All files below the root.
    pub fn files(&self) -> Arc<dyn TableStore> {
        match &self.options.root {
            Root::Directory(root) => Arc::new(LocalStore::open(root).expect("the folder")),
            Root::Store { files, .. } => Arc::new(files.clone()),
        }
    }

    /// Rows of the newest version, from its files.
    pub fn rows(&self) -> Rows {
        rows_of(self.table())
    }

    /// The container's items as rows.
    pub async fn items(&self, mode: SchemaMode) -> Rows {
        let container = self.again();
        let rid = container.container().rid;
        let entry = self.account.router().entry_of_rid(rid).expect("it is served");
        let schema = shardlake_analytical_table::schema::TableSchema::new(
            mode,
            SchemaLimits::default(),
            &[] as &[&str],
        );
        let mut rows = Rows::new();
        for partition in entry.map.iter() {
            let mut rest = Some(partition.epk_range().clone());
            while let Some(span) = rest {
                let mut round =
                    partition.hosted().partition().items_round(&span, 1000).await.expect("a view");
                while let Some(page) = round.next_page().await.expect("a page") {
                    for item in page {
                        let record = Record::decode(&item.record).expect("a record");
                        let envelope = record.envelope;
                        let rid = ItemRid { container: rid, ordinal: envelope.ordinal }.text();
                        let document = normal_form_of(&schema, record.body);
                        let etag = format!("\"{}\"", envelope.etag);
                        rows.insert((rid, envelope.lsn), (document, envelope.timestamp_seconds(), etag));
                    }
                }
                rest = round.rest();
            }
        }
        rows
    }

    /// Every row has its item, and every item its row.
    pub async fn assert_level(&self) {
        self.level().await;
        self.assert_rows().await;
    }

    /// As [`Fixture::assert_level`], of a table that is level.
    pub async fn assert_rows(&self) {
        let (rows, items) = (self.rows(), self.items(SchemaMode::WellDefined).await);
        let missing: Vec<_> = items.keys().filter(|key| !rows.contains_key(*key)).collect();
        let surplus: Vec<_> = rows.keys().filter(|key| !items.contains_key(*key)).collect();
        assert!(missing.is_empty() && surplus.is_empty(), "missing {missing:?}, surplus {surplus:?}");
        assert_eq!(rows, items);
    }
}

/// A process that ends takes its relocations, its changes of the catalog and its follower along.
async fn end(account: Account, analytics: Analytics, hooks: &Hooks) {
    account.maintenance().pause_relocations().await;
    account.router().catalog_writer().close().await;
    drop((account, analytics));
    eventually("the follower ends", async || (hooks.clones() == 2).then_some(())).await;
}

pub fn rows_of(store: Arc<dyn TableStore>) -> Rows {
    let table = TableReader::open(store).expect("it opens").expect("a table");
    let mode = table.schema().mode();
    let mut rows = Rows::new();
    for live in table.read() {
        let batch = live.expect("a batch").batch;
        for row in 0..batch.num_rows() {
            let text = |name: &str| {
                use arrow_array::cast::AsArray;
                batch.column_by_name(name).expect(name).as_string::<i32>().value(row).to_owned()
            };
            let number = |name: &str| {
                use arrow_array::cast::AsArray;
                use arrow_array::types::Int64Type;
                batch.column_by_name(name).expect(name).as_primitive::<Int64Type>().value(row) as u64
            };
            let document = document_of(table.schema(), &batch, row).expect("a document");
            let key = (text("_rid"), number("_lsn"));
            let before = rows.insert(key, (normal_form(mode, document), number("_ts"), text("_etag")));
            assert!(before.is_none(), "no version of an item has two rows");
        }
    }
    rows
}

/// The value that a look finds, sooner or later.
pub async fn eventually<T>(event: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let mut found = None;
    shardlake_account_fixture::eventually(event, async || {
        found = look().await;
        found.is_some()
    })
    .await;
    found.expect("it was found")
}
