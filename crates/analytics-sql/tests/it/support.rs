//! A pool of workers over tables in a folder.

use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Map, Value};
use shardlake_analytical_table::store::{LocalStore, MemoryStore};
use shardlake_analytical_table::table::{Location, TableOptions};
use shardlake_analytics_sql::{
    Answer, AsOf, Failure, Format, Limits, ListedTable, Piece, Pool, PoolSettings, Query, Statistics,
    WorkerProgram,
};
use shardlake_testkit::{HANG, eventually};
use tempfile::TempDir;

use crate::fixture::{self, Change, Fixture, START};

pub const LIMITS: Limits = Limits {
    memory_bytes: 256 << 20,
    spill_bytes: 64 << 20,
    rows: 1_000_000,
    answer_bytes: 256 << 20,
    threads: 2,
    seconds: 0,
};

pub fn pool_with(folder: &Path, limits: Limits, workers_max: usize, waiting_max: usize) -> Pool {
    let program = env!("CARGO_BIN_EXE_shardlake-sql-worker").into();
    // The argument distinguishes the workers of one test from those of others.
    let worker = WorkerProgram { program, arguments: vec![folder.display().to_string()] };
    let spill_folder = folder.join("spill");
    Pool::new(PoolSettings { worker, workers_max, waiting_max, limits, spill_folder })
}

/// Waits until at most so many workers of earlier queries are left, and none of their spill files.
pub fn settled(folder: &Path, workers_max: usize) {
    let files = || std::fs::read_dir(folder.join("spill")).map_or(0, |entries| entries.count());
    eventually("workers and spill files of ended queries are gone", || {
        files() == 0 && workers(folder) <= workers_max
    });
}

/// Drives a query that does not end by itself until `holds`.
pub async fn driven<T: std::fmt::Debug>(
    mut query: Pin<&mut impl Future<Output = T>>,
    event: &str,
    mut holds: impl FnMut() -> bool,
) {
    let mut looks = tokio::time::interval(Duration::from_millis(2));
    let wait = async {
        while !holds() {
            tokio::select! {
                ended = &mut query => panic!("{ended:?} before {event}"),
                _ = looks.tick() => {}
            }
        }
    };
    tokio::time::timeout(HANG, wait).await.unwrap_or_else(|_| panic!("{event} did not happen"));
}

/// Worker processes of the pools of a folder.
fn workers(folder: &Path) -> usize {
    let mark = folder.display().to_string();
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let line = std::fs::read(entry.ok()?.path().join("cmdline")).ok()?;
        let mut arguments = line.split(|byte| *byte == 0);
        let is_worker = arguments.next()?.ends_with(b"shardlake-sql-worker");
        (is_worker && arguments.next()? == mark.as_bytes()).then_some(())
    });
    processes.count()
}

pub fn pool(folder: &Path) -> Pool {
    pool_with(folder, LIMITS, 2, 16)
}

/// A table in `folder/container`.
pub fn table(folder: &Path, container: &str, options: TableOptions) -> Fixture {
    let store = LocalStore::open(&folder.join(container)).unwrap();
    let folders = fixture::folders(Arc::new(store), Arc::new(MemoryStore::new()), 7);
    Fixture::create(folders, Location::Serving, 1, options)
}

pub fn listed(folder: &Path, container: &str) -> ListedTable {
    ListedTable {
        database: "shop".into(),
        container: container.into(),
        folder: Some(folder.join(container)),
        ttl: -1,
        refusal: None,
        warning: None,
    }
}

pub fn query(statement: &str, tables: &[ListedTable]) -> Query {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    Query {
        id: format!("q{}", NUMBER.fetch_add(1, Ordering::Relaxed)),
        statement: statement.into(),
        parameters: Map::new(),
        database: Some("shop".into()),
        tables: tables.to_vec(),
        as_of: AsOf::Newest,
        format: Format::Json,
        bigints_as_text: false,
        now: START + 1_000,
        waits: None,
        unlisted: None,
        time: Duration::from_secs(120),
    }
}

/// The whole text of an answer, with the figures of its query.
pub async fn read(mut answer: Answer) -> Result<(Vec<u8>, Statistics), Failure> {
    let mut text = Vec::new();
    loop {
        match answer.next().await.expect("an answer has an end") {
            Piece::Data(data) => text.extend_from_slice(&data),
            Piece::End(statistics) => return Ok((text, statistics)),
            Piece::Failed(failure) => return Err(failure),
        }
    }
}

pub async fn text_of(pool: &Pool, query: Query) -> Result<String, Failure> {
    let (text, _) = read(pool.run(query).await?).await?;
    Ok(String::from_utf8(text).unwrap())
}

pub async fn answered(pool: &Pool, query: Query) -> Result<Value, Failure> {
    Ok(serde_json::from_str(&text_of(pool, query).await?).unwrap())
}

/// The rows of a statement.
#[track_caller]
pub fn rows(pool: &Pool, runtime: &tokio::runtime::Runtime, query: Query) -> Value {
    let statement = query.statement.clone();
    match runtime.block_on(answered(pool, query)) {
        Ok(mut answer) => answer["rows"].take(),
        Err(failure) => panic!("{statement}: {failure:?}"),
    }
}

/// Message and hint.
pub fn words(failure: &Failure) -> String {
    format!("{} {}", failure.message, failure.hint.as_deref().unwrap_or_default())
}

pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// One table `c` of items that are all alike.
pub struct Shop {
    pub folder: TempDir,
    pub pool: Pool,
    pub tables: Vec<ListedTable>,
    pub runtime: tokio::runtime::Runtime,
}

impl Shop {
    pub fn new(items: impl IntoIterator<Item = Value>) -> Shop {
        let folder = tempfile::tempdir().unwrap();
        let mut table = table(folder.path(), "c", fixture::options());
        let changes: Vec<Change> =
            items.into_iter().enumerate().map(|(at, item)| Change::Put(at as u64, item)).collect();
        table.round(&changes).unwrap();
        let tables = vec![listed(folder.path(), "c")];
        Shop { pool: pool(folder.path()), tables, runtime: runtime(), folder }
    }

    pub fn query(&self, statement: &str) -> Query {
        query(statement, &self.tables)
    }

    #[track_caller]
    pub fn rows(&self, statement: &str) -> Value {
        rows(&self.pool, &self.runtime, self.query(statement))
    }

    #[track_caller]
    pub fn failure(&self, query: Query) -> Failure {
        let statement = query.statement.clone();
        match self.runtime.block_on(text_of(&self.pool, query)) {
            Ok(text) => panic!("{statement}: {text}"),
            Err(failure) => failure,
        }
    }
}
