//! One statement: parsed, planned, executed, and its rows written.

use std::collections::BTreeMap;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;

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

fn send(socket: &mut UnixStream, message: &Message) -> Result<(), Failure> {
    let lost = |error| Failure::new(FailureKind::Lost, format!("the server does not read: {error}"));
    message.send(socket).map_err(lost)
}

/// The tables that the order's statement names.
pub(super) fn names(order: &Order, footers: &Footers) -> Result<Vec<(String, String)>, Failure> {
    let catalog = catalog(order, footers, &ReadCounter::default());
    Ok(gate::named(&order.statement, order.database.as_deref(), &catalog)?.tables)
}

fn catalog(order: &Order, footers: &Footers, counter: &ReadCounter) -> Catalog {
    let kept = (footers.clone(), counter.clone());
    Catalog::new(order.tables.clone(), order.as_of.clone(), order.now, kept)
}

/// Sends the answer up to its last bytes, which it returns with the figures of the query.
pub(super) fn run(
    order: &Order,
    footers: &Footers,
    socket: &mut UnixStream,
) -> Result<(Vec<u8>, Statistics), Failure> {
    let (started, began) = (Clock::System.elapsed(), cpu_ms());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(order.limits.threads.max(1))
        .thread_stack_size(16 << 20)
        .enable_time()
        .build();
    let runtime =
        runtime.map_err(|error| Failure::new(FailureKind::Internal, format!("no threads: {error}")))?;
    let counter = ReadCounter::default();
    let catalog = catalog(order, footers, &counter);
    let ran = runtime.block_on(async {
        let (state, most) = session(order, &catalog)?;
        let database = order.database.as_deref();
        let named = gate::named(&order.statement, database, &catalog)?;
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
        send(socket, &Message::Head(head(order, &catalog)))?;
        while let Some(batch) = next {
            push(&mut reply, &batch, socket)?;
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
        Ok((reply.take(), statistics))
    });
    // Tasks of a query that failed may still compute.
    runtime.shutdown_background();
    ran
}

fn push(reply: &mut Reply, batch: &RecordBatch, socket: &mut UnixStream) -> Result<(), Failure> {
    const ROWS: usize = 512;
    for start in (0..batch.num_rows()).step_by(ROWS) {
        reply.push(&batch.slice(start, ROWS.min(batch.num_rows() - start)))?;
        if reply.made_bytes() >= PIECE_BYTES {
            send(socket, &Message::Data(reply.take()))?;
        }
    }
    Ok(())
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
    let registered: Arc<dyn CatalogProvider> = Arc::new(catalog.clone());
    let _replaced = state.catalog_list().register_catalog(CATALOG.into(), registered);
    Ok((state, most))
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
