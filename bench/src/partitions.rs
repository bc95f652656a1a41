//! `cargo xtask bench partitions`: speed of splits, merges and moves, how long writers are held,
//! and the effects on clients meanwhile.
//!
//! In one process, over two shards on a local disk with synced commits: clients write at a steady
//! rate, each against its own schedule, so that a delayed operation counts from its due time. First
//! without relocations, then with one after the other.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use shardlake_account::{
    Account, AccountOptions, ContainerHandle, ItemRead, ReadCommand, RelocationReport, Shards, SplitAt,
    WriteCommand, item_of_json,
};
use shardlake_model::{
    ContainerDefinition, KeyComponent, PartitionKey, PartitionKeyDefinition, Preconditions, RequestContext,
};
use shardlake_storage::{Shard, ShardOptions};

use crate::publish::publish;
use crate::report;
use crate::workload::{document, key_of};
use crate::{Outcome, PartitionsOptions};

const CLIENTS: u64 = 16;
const LOADERS: u64 = 64;

struct Bench {
    account: Account,
    container: ContainerHandle,
    items: u64,
    written: AtomicU64,
}

impl Bench {
    fn ctx(&self) -> RequestContext {
        RequestContext::internal(self.account.router().clock(), self.account.router().random().guid())
    }

    async fn upsert(&self, number: u64) {
        let key = key_of(number);
        let body = document(&format!("item-{number}"), &key);
        let body = item_of_json(body.as_bytes(), self.account.router().limits()).expect("an item");
        let (ctx, command) = (self.ctx(), WriteCommand::upsert(body));
        self.account.items().write_item(&ctx, &self.container, command).await.expect("written");
    }

    async fn read(&self, number: u64) {
        let key = Some(PartitionKey::single(KeyComponent::String(key_of(number))));
        let read =
            ItemRead { item: format!("item-{number}").into(), preconditions: Preconditions::default() };
        let (ctx, command) = (self.ctx(), ReadCommand { key, read });
        self.account.items().read(&ctx, &self.container, command).await.expect("read");
    }

    fn current(&self) -> ContainerHandle {
        self.account.router().container("bench", "items").expect("there")
    }
}

/// Latencies in microseconds.
#[derive(Default)]
struct Latencies(Mutex<Vec<u64>>);

impl Latencies {
    fn note(&self, time: Duration) {
        self.0.lock().expect("no holder panics").push(time.as_micros() as u64);
    }

    fn take(&self) -> Quantiles {
        let mut all = std::mem::take(&mut *self.0.lock().expect("no holder panics"));
        all.sort_unstable();
        let at = |share: f64| all.get((all.len() as f64 * share) as usize).copied().unwrap_or(0);
        Quantiles { count: all.len(), p50: at(0.5), p99: at(0.99), max: all.last().copied().unwrap_or(0) }
    }
}

struct Quantiles {
    count: usize,
    p50: u64,
    p99: u64,
    max: u64,
}

pub fn run(options: &PartitionsOptions) -> Outcome {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(measure(options))
}

async fn measure(options: &PartitionsOptions) -> Outcome {
    let machine = report::machine();
    let directory = tempfile::tempdir()?;
    let mut shards = Vec::new();
    for number in 0..2 {
        shards
            .push(Shard::open(ShardOptions::local(directory.path().join(format!("shard-{number}")))).await?);
    }
    let account = Account::open(Shards::from(shards), AccountOptions::default()).await?;
    let ctx = RequestContext::internal(account.router().clock(), account.router().random().guid());
    account.definitions().create_database(&ctx, "bench", None).await?;
    let definition = ContainerDefinition::new("items", PartitionKeyDefinition::hash("/pk"));
    let container = account.definitions().create_container(&ctx, "bench", definition, None).await?;
    let bench = Arc::new(Bench { account, container, items: options.items, written: AtomicU64::new(0) });
    let started = Instant::now();
    load(&bench).await;
    let mut text = format!(
        "Machine: {machine}. {} items of 1 KB in one container over two shards, loaded in {:.1} s; {} writes/s by {CLIENTS} clients and \
         500 reads/s by one, against their schedules, in the process of the database, synced to disk. {} s without relocations, then {} \
         relocations one after the other.\n\n",
        options.items,
        started.elapsed().as_secs_f64(),
        options.rate,
        options.seconds,
        options.rounds
    );

    let stop = Arc::new(AtomicBool::new(false));
    let (writes, reads) = (Arc::new(Latencies::default()), Arc::new(Latencies::default()));
    let mut clients = Vec::new();
    for client in 0..CLIENTS {
        let (bench, stop, writes) = (bench.clone(), stop.clone(), writes.clone());
        let period = Duration::from_nanos(1_000_000_000 * CLIENTS / options.rate.max(1));
        clients.push(tokio::spawn(async move {
            paced(&stop, period, &writes, |number| {
                let bench = bench.clone();
                async move {
                    let at = (number * CLIENTS + client).wrapping_mul(0x9E37_79B9_7F4A_7C15) % bench.items;
                    bench.upsert(at).await;
                    bench.written.fetch_add(1, Ordering::Relaxed);
                }
            })
            .await;
        }));
    }
    let (reader, reading, read_latencies) = (bench.clone(), stop.clone(), reads.clone());
    clients.push(tokio::spawn(async move {
        paced(&reading, Duration::from_millis(2), &read_latencies, |number| {
            let bench = reader.clone();
            async move { bench.read(number.wrapping_mul(7919) % bench.items).await }
        })
        .await;
    }));

    tokio::time::sleep(Duration::from_secs(2)).await;
    let _warming_up = (writes.take(), reads.take());
    tokio::time::sleep(Duration::from_secs(options.seconds)).await;
    let quiet = (writes.take(), reads.take());
    let mut reports = Vec::new();
    for round in 0..options.rounds {
        reports.push(relocate(&bench, round).await?);
    }
    let busy = (writes.take(), reads.take());
    stop.store(true, Ordering::Relaxed);
    for client in clients {
        client.await?;
    }
    table(&mut text, &quiet, &busy, &reports)?;
    bench.account.close().await?;
    publish(options.publish.as_ref(), &text)
}

/// A split, then a merge of the resulting ranges, then a move, and again.
async fn relocate(bench: &Bench, round: usize) -> Outcome<RelocationReport> {
    let container = bench.current();
    let ranges = container.partition_key_ranges();
    let account = &bench.account;
    let ticket = match round % 3 {
        0 => account.maintenance().split(&container, ranges[0].id, SplitAt::Middle).await?,
        1 => account.maintenance().merge(&container, &[ranges[0].id, ranges[1].id]).await?,
        _ => {
            let shard = (round / 3 + 1) % 2;
            account.maintenance().move_partition(&container, ranges[0].id, shard as u16).await?
        }
    };
    Ok(ticket.finished().await?)
}

async fn load(bench: &Arc<Bench>) {
    let loaders = (0..LOADERS).map(|loader| {
        let bench = bench.clone();
        tokio::spawn(async move {
            let mut number = loader;
            while number < bench.items {
                bench.upsert(number).await;
                number += LOADERS;
            }
        })
    });
    for loader in loaders.collect::<Vec<_>>() {
        loader.await.expect("no loader panics");
    }
}

/// Runs operations on a schedule, and notes for each how long after its time it was done.
async fn paced<F: Future<Output = ()>>(
    stop: &AtomicBool,
    period: Duration,
    latencies: &Latencies,
    operation: impl Fn(u64) -> F,
) {
    let start = tokio::time::Instant::now();
    for number in 0u64.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let due = start + period * number as u32;
        tokio::time::sleep_until(due).await;
        // The timer's own coarseness is not the database's: an operation that starts in time counts from its start.
        let began = tokio::time::Instant::now();
        let from = if began.duration_since(due) < Duration::from_millis(2) { began } else { due };
        operation(number).await;
        latencies.note(from.elapsed());
    }
}

fn table(
    out: &mut String,
    quiet: &(Quantiles, Quantiles),
    busy: &(Quantiles, Quantiles),
    reports: &[RelocationReport],
) -> Outcome {
    asked(out, quiet, busy, reports)?;
    writeln!(out, "\n| meanwhile | clients | operations | p50 µs | p99 µs | max µs |")?;
    writeln!(out, "|---|---|---:|---:|---:|---:|")?;
    for (what, (writes, reads)) in [("nothing moves", quiet), ("relocations", busy)] {
        for (who, found) in [("writes", writes), ("reads", reads)] {
            writeln!(
                out,
                "| {what} | {who} | {} | {} | {} | {} |",
                found.count, found.p50, found.p99, found.max
            )?;
        }
    }
    writeln!(out, "\n| relocation | items | seconds | items/s | pause ms | put off |")?;
    writeln!(out, "|---|---:|---:|---:|---:|---:|")?;
    for report in reports {
        writeln!(
            out,
            "| {} | {} | {:.2} | {:.0} | {:.1} | {} |",
            report.kind.name(),
            report.items,
            report.duration.as_secs_f64(),
            items_per_second(report),
            report.pause.as_secs_f64() * 1000.0,
            report.attempts
        )?;
    }
    Ok(())
}

fn items_per_second(report: &RelocationReport) -> f64 {
    report.items as f64 / report.duration.as_secs_f64()
}

/// Goals of relocations next to the measured figures.
fn asked(
    out: &mut String,
    quiet: &(Quantiles, Quantiles),
    busy: &(Quantiles, Quantiles),
    reports: &[RelocationReport],
) -> Outcome {
    let sorted = |value: fn(&RelocationReport) -> f64| {
        let mut values: Vec<f64> = reports.iter().map(value).collect();
        values.sort_by(f64::total_cmp);
        values
    };
    let at = |values: &[f64], share: f64| {
        values.get((values.len() as f64 * share) as usize).copied().unwrap_or_default()
    };
    let pauses = sorted(|report| report.pause.as_secs_f64() * 1000.0);
    let speeds = sorted(items_per_second);
    let ratio = |busy: &Quantiles, quiet: &Quantiles| busy.p99 as f64 / quiet.p99.max(1) as f64;
    writeln!(out, "| what | asked | measured |\n|---|---:|---:|")?;
    writeln!(
        out,
        "| writers held at the cutover, p99 of {} relocations | ≤ 50 ms | {:.1} ms (p50 {:.1} ms) |",
        pauses.len(),
        at(&pauses, 0.99),
        at(&pauses, 0.5)
    )?;
    writeln!(
        out,
        "| items copied, median (slowest) | ≥ 40,000/s | {:.0}/s ({:.0}/s) |",
        at(&speeds, 0.5),
        at(&speeds, 0.0)
    )?;
    writeln!(out, "| p99 of writes, during relocations ÷ without | ≤ 2 | {:.2} |", ratio(&busy.0, &quiet.0))?;
    writeln!(out, "| p99 of reads, during relocations ÷ without | ≤ 2 | {:.2} |", ratio(&busy.1, &quiet.1))?;
    Ok(())
}
