//! The query benchmark: one-partition queries against PostgreSQL in the same run, and the times of
//! queries over all partitions.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use shardlake_testkit::{ServerOptions, ServerProcess, items_path};

use crate::cpu::Cpu;
use crate::load::{self, Measured};
use crate::point::add;
use crate::postgres::Postgres;
use crate::publish::publish;
use crate::query_workload::{self, CONTAINER, GROUP_SIZE, Queries, Target, document};
use crate::report::{self, Line};
use crate::requests::Requests;
use crate::workload::{DATABASE, create_database, key_of};
use crate::{Outcome, QueryOptions};

const CONNECTIONS: usize = 16;
const MILLION: u64 = 1_000_000;

pub fn run(options: &QueryOptions) -> Outcome {
    let machine = report::machine();
    let mut text =
        format!("Machine: {machine}. {} rounds of {} s each, medians.\n\n", options.rounds, options.seconds);
    measure_set(options, options.items, true, &mut text)?;
    if options.million {
        measure_set(options, MILLION, false, &mut text)?;
    }
    publish(options.publish.as_ref(), &text)
}

fn measure_set(options: &QueryOptions, items: u64, with_postgres: bool, text: &mut String) -> Outcome {
    let directory = tempfile::TempDir::with_prefix("shardlake-bench-query-")?;
    let server = ServerOptions::new(&options.server)
        .data_dir(directory.path().join("data"))
        .argument("--throughput=unlimited")
        .start();
    eprintln!("loading {items} items");
    create_database(&server.client());
    query_workload::load(&server, items)?;
    let postgres = if with_postgres { postgres(items)? } else { None };
    let mut lines = Vec::new();
    for round in 0..options.rounds {
        one_partition(options, &server, postgres.as_ref(), items, &mut lines)?;
        everywhere(options, &server, items, &mut lines)?;
        eprintln!("round {} of {} done", round + 1, options.rounds);
    }
    writeln!(text, "{items} items of 1 KB in 5 partitions:\n\n{}", report::table(&lines))?;
    scans(&server, items, text)
}

/// The items in PostgreSQL, without an index but the key's.
pub fn postgres(items: u64) -> Outcome<Option<Postgres>> {
    let Some(postgres) = Postgres::start(0)? else { return Ok(None) };
    let template = document(0, "ID", items).replace("key-0", "PK").replace("\"slot\":0", "\"slot\":SLOT");
    postgres.fill(&template, items)?;
    Ok(Some(postgres))
}

/// Queries in one logical partition of 100 items.
fn one_partition(
    options: &QueryOptions,
    server: &ServerProcess,
    postgres: Option<&Postgres>,
    items: u64,
    lines: &mut Vec<Line>,
) -> Outcome {
    let queries = |condition: fn(u64) -> String| -> Arc<dyn Requests> {
        let query = |n: u64| {
            let text = format!("SELECT * FROM c WHERE {}", condition(n));
            (Target::Key(key_of((n * 7919) % items)), text)
        };
        Arc::new(Queries::new((0..2000).map(query)))
    };
    let one = queries(|n| format!("c.slot = {}", n % 100));
    let fifty = queries(|_| "c.slot < 50".into());
    for (operation, requests, condition) in [
        ("1 of 100 in a partition", one, "(doc->>'slot')::int = :s"),
        ("50 of 100 in a partition", fifty, "(doc->>'slot')::int < 50"),
    ] {
        add(lines, (operation, CONNECTIONS, "shardlake"), drive(options, server, CONNECTIONS, requests)?);
        if let Some(postgres) = postgres {
            let script = postgres_script(condition, items);
            add(
                lines,
                (operation, CONNECTIONS, "PostgreSQL 15"),
                postgres.pgbench(&script, CONNECTIONS, options.seconds)?,
            );
        }
    }
    Ok(())
}

/// The query in PostgreSQL.
pub fn postgres_script(condition: &str, items: u64) -> String {
    format!(
        "\\set k random(0, {})\n\\set s random(0, 99)\nselect doc from items where pk = 'key-' || :k and {condition};\n",
        items / 100 - 1
    )
}

/// Queries over all partitions, one at a time: their latency is measured.
fn everywhere(options: &QueryOptions, server: &ServerProcess, items: u64, lines: &mut Vec<Line>) -> Outcome {
    let groups = items / GROUP_SIZE;
    let equality = (0..500).map(|n| {
        (Target::Everything, format!("SELECT * FROM c WHERE c[\"group\"] = {}", (n * 7919) % groups))
    });
    let top = |direction| {
        vec![(Target::Everything, format!("SELECT TOP 100 * FROM c ORDER BY c.rank {direction}"))]
    };
    for (operation, queries) in [
        ("equality, 10 rows, everywhere", Queries::new(equality)),
        ("TOP 100 ORDER BY rank, everywhere", Queries::new(top("ASC"))),
        ("TOP 100 ORDER BY rank DESC, everywhere", Queries::new(top("DESC"))),
    ] {
        add(lines, (operation, 1, "shardlake"), drive(options, server, 1, Arc::new(queries))?);
    }
    Ok(())
}

fn drive(
    options: &QueryOptions,
    server: &ServerProcess,
    connections: usize,
    requests: Arc<dyn Requests>,
) -> Outcome<Measured> {
    let duration = Duration::from_secs(options.seconds);
    load::drive(server.address(), connections, duration, requests, server.process_id())
}

/// Scans of one partition: the throughput of a core, by the CPU time of the server.
fn scans(server: &ServerProcess, items: u64, text: &mut String) -> Outcome {
    let per_partition = items as f64 / 5.0;
    for (what, filter, unit) in [
        ("filter without an index over one partition", "c.slot % 7 = 99 OR c.price * 2 < 0", "items"),
        ("COUNT of an indexed equality that every item meets", "c.active = true", "index entries"),
    ] {
        let query = format!("SELECT VALUE COUNT(1) FROM c WHERE {filter}");
        let (seconds, cpu, counted) = timed(server, &query)?;
        writeln!(
            text,
            "- {what}: {:.0} {unit}/s of one core ({:.1} ms, {:.1} ms of CPU for {per_partition:.0}; result {counted}).",
            per_partition / cpu.max(1e-9),
            seconds * 1000.0,
            cpu * 1000.0,
        )?;
    }
    Ok(())
}

/// Mean time and server CPU of a query over range 0, and its result.
fn timed(server: &ServerProcess, query: &str) -> Outcome<(f64, f64, Value)> {
    const TIMES: u32 = 20;
    let client = server.client();
    let body = serde_json::json!({ "query": query, "parameters": [] }).to_string();
    let headers = [
        ("content-type", "application/query+json"),
        ("x-ms-documentdb-isquery", "true"),
        ("x-ms-documentdb-query-enablecrosspartition", "true"),
        ("x-ms-documentdb-partitionkeyrangeid", "0"),
    ];
    let send = || client.request("POST", &items_path(DATABASE, CONTAINER), &headers, body.as_bytes());
    let result = send().expect_status(200).json()["Documents"].clone();
    let (started, cpu) = (std::time::Instant::now(), Cpu::of(server.process_id()));
    for _ in 0..TIMES {
        let _ = send().expect_status(200);
    }
    let seconds = started.elapsed().as_secs_f64() / f64::from(TIMES);
    let cpu = cpu.seconds() / f64::from(TIMES);
    Ok((seconds, cpu, result))
}
