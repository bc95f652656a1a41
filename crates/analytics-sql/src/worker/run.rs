//! One statement: parsed, planned, executed, and its rows written.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;

use arrow_array::RecordBatch;
use datafusion::catalog::CatalogProvider;
use datafusion::execution::context::SQLOptions;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::prelude::{DataFrame, SessionConfig};
use futures::StreamExt;
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use shardlake_stdx::Clock;

use super::errors::failure;
use super::memory::MeasuredPool;
use super::values;
use crate::gate;
use crate::protocol::{Failure, FailureKind, Head, Message, Order, Statistics};
use crate::reply::Reply;
use crate::table::{Catalog, Footers, ReadCounter};

/// Rows decoded and computed at a time.
const BATCH_ROWS: usize = 8_192;
/// Bytes of an answer that are sent at once.
const PIECE_BYTES: usize = 64 << 10;
/// The engine's own default.
const SORT_RESERVATION_BYTES_MAX: usize = 10 << 20;
const CATALOG: &str = "shardlake";
/// The database of names without one, where the request names none: no database has this name, since names are not empty.
const NO_DATABASE: &str = "";

/// The server's end of this worker.
pub(super) struct Wire {
    pub socket: UnixStream,
    pub orders: Receiver<Message>,
}

impl Wire {
    fn send(&mut self, message: &Message) -> Result<(), Failure> {
        message.send(&mut self.socket).map_err(lost)
    }
}

fn lost(error: io::Error) -> Failure {
    Failure::new(FailureKind::Lost, format!("the server does not read: {error}"))
}

pub(super) fn run(order: &Order, footers: &Footers, wire: &mut Wire) -> Result<Statistics, Failure> {
    let (started, began) = (Clock::System.elapsed(), cpu_ms());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(order.limits.threads.max(1))
        .thread_stack_size(16 << 20)
        .enable_time()
        .build();
    let runtime =
        runtime.map_err(|error| Failure::new(FailureKind::Internal, format!("no threads: {error}")))?;
    let counter = ReadCounter::default();
    let kept = (footers.clone(), counter.clone());
    let mut catalog = Catalog::new(order.tables.clone(), order.as_of.clone(), order.now, kept.clone());
    let ran = runtime.block_on(async {
        let (state, most) = session(order, &catalog)?;
        let database = order.database.as_deref();
        let named = gate::named(&order.statement, database, &catalog)?;
        if order.waits_for_tables {
            wire.send(&Message::Names(named.tables.clone()))?;
            let Ok(Message::Go(tables)) = wire.orders.recv() else {
                return Err(Failure::new(FailureKind::Lost, "the server does not answer"));
            };
            catalog = Catalog::new(tables, order.as_of.clone(), order.now, kept);
            register(&state, &catalog);
        }
        let checked = gate::rewritten(&order.statement, database, &catalog, &named.tables)?;
        catalog.keep(&checked.tables);
        let statement = checked.statement;
        let plan = state.statement_to_plan(statement).await.map_err(|error| failure(&error))?;
        let only_reads =
            SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
        only_reads.verify_plan(&plan).map_err(|error| failure(&error))?;
        let plan = plan
            .with_param_values(values::parameters(&order.parameters)?)
            .map_err(|error| failure(&error))?;
        let frame = DataFrame::new(state, plan);
        let context = Arc::new(frame.task_ctx());
        let plan = frame.create_physical_plan().await.map_err(|error| failure(&error))?;
        let mut stream = execute_stream(plan.clone(), context).map_err(|error| failure(&error))?;
        // Errors of the first rows still have a status of their own.
        let mut next = stream.next().await.transpose().map_err(|error| failure(&error))?;
        let mut reply = Reply::begin(order.format, &plan.schema(), order.bigints_as_text, &order.limits)?;
        wire.send(&Message::Head(head(order, &catalog)))?;
        while let Some(batch) = next {
            push(&mut reply, &batch, wire)?;
            next = stream.next().await.transpose().map_err(|error| failure(&error))?;
        }
        let statistics = Statistics {
            rows: reply.rows(),
            bytes_read: counter.bytes(),
            memory_bytes: most.load(Ordering::Relaxed) as u64,
            spilled_bytes: spilled(&*plan) as u64,
            cpu_ms: cpu_ms().saturating_sub(began),
            elapsed_ms: Clock::System.elapsed().saturating_sub(started).as_millis() as u64,
        };
        reply.finish(&snapshot(&catalog), &statistics)?;
        send_made(&mut reply, wire)?;
        Ok(statistics)
    });
    // Tasks of a query that failed may still compute.
    runtime.shutdown_background();
    ran
}

fn push(reply: &mut Reply, batch: &RecordBatch, wire: &mut Wire) -> Result<(), Failure> {
    const ROWS: usize = 512;
    for start in (0..batch.num_rows()).step_by(ROWS) {
        reply.push(&batch.slice(start, ROWS.min(batch.num_rows() - start)))?;
        if reply.made_bytes() >= PIECE_BYTES {
            send_made(reply, wire)?;
        }
    }
    Ok(())
}

fn send_made(reply: &mut Reply, wire: &mut Wire) -> Result<(), Failure> {
    let made = reply.take();
    if made.is_empty() { Ok(()) } else { wire.send(&Message::Data(made)) }
}

fn session(
    order: &Order,
    catalog: &Catalog,
) -> Result<(SessionState, Arc<std::sync::atomic::AtomicUsize>), Failure> {
    let limits = &order.limits;
    let mut config = SessionConfig::new()
        .with_target_partitions(limits.threads.max(1))
        .with_batch_size(BATCH_ROWS)
        .with_create_default_catalog_and_schema(false)
        .with_default_catalog_and_schema(CATALOG, order.database.as_deref().unwrap_or(NO_DATABASE))
        .with_information_schema(true);
    let options = config.options_mut();
    options.sql_parser.enable_ident_normalization = false;
    options.sql_parser.collect_spans = true;
    options.execution.parquet.pushdown_filters = false;
    // Memory that each sort keeps for its merge, of each thread.
    options.execution.sort_spill_reservation_bytes =
        (limits.memory_bytes as usize / 32 / limits.threads.max(1)).min(SORT_RESERVATION_BYTES_MAX);
    options.execution.time_zone = Some("+00:00".into());
    let (pool, most) = MeasuredPool::new(FairSpillPool::new(limits.memory_bytes as usize));
    let disk = DiskManagerBuilder::default()
        .with_mode(DiskManagerMode::Directories(vec![order.spill_folder.clone()]))
        .with_max_temp_directory_size(limits.spill_bytes);
    let environment = RuntimeEnvBuilder::new()
        .with_memory_pool(Arc::new(pool))
        .with_disk_manager_builder(disk)
        .with_object_store_registry(Arc::new(crate::table::OnlyTables::new()))
        .build_arc()
        .map_err(|error| failure(&error))?;
    let mut state = SessionStateBuilder::new()
        .with_config(config)
        .with_runtime_env(environment)
        .with_default_features()
        .build();
    datafusion_functions_json::register_all(&mut state).map_err(|error| failure(&error))?;
    register(&state, catalog);
    Ok((state, most))
}

fn register(state: &SessionState, catalog: &Catalog) {
    let registered: Arc<dyn CatalogProvider> = Arc::new(catalog.clone());
    let _replaced = state.catalog_list().register_catalog(CATALOG.into(), registered);
}

fn head(order: &Order, catalog: &Catalog) -> Head {
    let versions: BTreeMap<String, u64> = catalog
        .opened()
        .into_iter()
        .map(|opened| (format!("{}/{}", opened.database, opened.container), opened.table.version().number))
        .collect();
    Head { media_type: order.format.media_type().into(), versions }
}

/// The versions that were read, with how far each table was.
fn snapshot(catalog: &Catalog) -> Value {
    let tables = catalog.opened().into_iter().map(|opened| {
        let version = opened.table.version();
        let places = &version.info.places;
        let complete = places.iter().map(|place| place.read_at).min();
        let mut described = json!({
            "version": version.number,
            "places": places,
            "completeTo": complete,
            "rows": version.rows() - version.deleted_rows(),
        });
        if let Some(warning) = opened.warning {
            described["warning"] = warning.into();
        }
        (format!("{}/{}", opened.database, opened.container), described)
    });
    Value::Object(tables.collect())
}

fn spilled(plan: &dyn ExecutionPlan) -> usize {
    let own = plan.metrics().and_then(|metrics| metrics.spilled_bytes()).unwrap_or(0);
    own + plan.children().into_iter().map(|child| spilled(&**child)).sum::<usize>()
}

fn cpu_ms() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec.max(0) as u64 * 1_000 + time.tv_nsec.max(0) as u64 / 1_000_000
}
