//! Measures a local shard: durable commits at 1, 16 and 64 writers, point reads, loading, memory, closing and reopening.
//!
//! `cargo run --release -p shardlake-storage --example figures -- DIR [ROWS]`; DIR must not exist yet. A commit writes one
//! value of 1 KB and one key of 60 bytes. Not a test: it asserts nothing about speed.
#![allow(clippy::print_stdout)]

use std::path::Path;
use std::time::Duration;

use shardlake_stdx::{Clock, Random};
use shardlake_storage::{Batch, Durability, ScanOptions, Shard, ShardOptions, StorageError};

fn key(number: u64) -> Vec<u8> {
    // Spread like the hashes that lead real keys.
    let mut key = number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes().to_vec();
    key.extend_from_slice(format!("/partition-{:06}/item-{number:08}", number % 10_000).as_bytes());
    key
}

fn value(random: &Random) -> Vec<u8> {
    let mut value = Vec::with_capacity(1024);
    while value.len() < 1000 {
        value.extend_from_slice(format!("{{\"field\":\"{:016x}\",\"count\":17}}", random.u64()).as_bytes());
    }
    value
}

fn batch(number: u64, random: &Random) -> Batch {
    let mut batch = Batch::new();
    batch.put(key(number), value(random));
    let mut log_key = vec![0xFF; 52];
    log_key.extend_from_slice(&number.to_be_bytes());
    batch.put(log_key, Vec::new());
    batch
}

async fn commits(shard: &Shard, writers: u64, span: Duration, first: u64) -> u64 {
    let clock = Clock::System;
    let end = clock.elapsed() + span;
    let tasks: Vec<_> = (0..writers)
        .map(|writer| {
            let (shard, clock, random) = (shard.clone(), clock.clone(), Random::seeded(writer + 1));
            tokio::spawn(async move {
                let mut latencies = Vec::new();
                let mut number = first + writer;
                while clock.elapsed() < end {
                    let batch = batch(number, &random);
                    number += writers;
                    let start = clock.elapsed();
                    shard.commit(batch).expect("the queue has room").await.expect("commits");
                    latencies.push(clock.elapsed() - start);
                }
                (latencies, number)
            })
        })
        .collect();
    let (mut latencies, mut last) = (Vec::new(), first);
    for task in tasks {
        let (more, number) = task.await.expect("a writer does not panic");
        latencies.extend(more);
        last = last.max(number);
    }
    let rate = latencies.len() as f64 / span.as_secs_f64();
    report(&format!("{writers} writers, {rate:.0} commits/s"), latencies);
    last
}

fn report(what: &str, mut latencies: Vec<Duration>) {
    latencies.sort_unstable();
    let at = |share: usize| latencies[(latencies.len() - 1) * share / 1000];
    println!("{what}: p50 {:?} p99 {:?} p99.9 {:?}", at(500), at(990), at(999));
}

fn memory_mb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kb| kb.parse::<u64>().ok()).unwrap_or(0) / 1024
}

async fn reads(shard: &Shard, rows: u64) -> Result<(), StorageError> {
    let (clock, random) = (Clock::System, Random::seeded(5));
    for round in ["first", "second"] {
        let mut latencies = Vec::new();
        for _ in 0..100_000 {
            let key = key(random.below(rows));
            let start = clock.elapsed();
            assert!(shard.get(&key).await?.is_some(), "a loaded row is there");
            latencies.push(clock.elapsed() - start);
        }
        report(&format!("get of one of {rows} rows, {round} round"), latencies);
    }
    let start = clock.elapsed();
    let mut scan = shard.snapshot().scan(vec![0]..vec![0xFF], ScanOptions::default());
    let mut scanned = 0;
    while let Some(chunk) = scan.next_chunk().await? {
        scanned += chunk.len();
    }
    println!("scan of {scanned} rows: {:?}", clock.elapsed() - start);
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), StorageError> {
    let arguments: Vec<String> = std::env::args().collect();
    let directory = Path::new(arguments.get(1).expect("give a directory that does not exist yet"));
    let rows: u64 = arguments.get(2).map_or(1_000_000, |rows| rows.parse().expect("a number of rows"));
    let clock = Clock::System;
    let options = ShardOptions::local(directory);

    let start = clock.elapsed();
    let shard = Shard::open(options.clone()).await?;
    println!("open of an empty directory: {:?}, {} MB", clock.elapsed() - start, memory_mb());
    let mut first = 1 << 40;
    for writers in [1, 16, 64, 1, 16, 64] {
        first = commits(&shard, writers, Duration::from_secs(3), first).await;
    }

    let (start, random) = (clock.elapsed(), Random::seeded(9));
    let mut load = shard.bulk_load();
    let mut numbers: Vec<u64> = (0..rows).collect();
    numbers.sort_by_key(|number| key(*number));
    for chunk in numbers.chunks(256) {
        load.push(chunk.iter().map(|number| (key(*number).into(), value(&random).into())).collect()).await?;
    }
    load.finish().await?;
    let disk_mb = shard.disk_bytes() / 1_000_000;
    println!("load of {rows} rows: {:?}, {} MB, {disk_mb} MB on disk", clock.elapsed() - start, memory_mb());
    reads(&shard, rows).await?;
    println!("after reading: {} MB", memory_mb());

    let start = clock.elapsed();
    shard.close().await?;
    let closed = clock.elapsed();
    drop(shard);
    println!("close: {:?} and {:?} for the drop", closed - start, clock.elapsed() - closed);
    let start = clock.elapsed();
    let shard = Shard::open(options.clone()).await?;
    println!("reopen: {:?}, {} MB", clock.elapsed() - start, memory_mb());
    first = commits(&shard, 1, Duration::from_secs(2), first).await;
    first = commits(&shard, 16, Duration::from_secs(2), first).await;
    drop(shard);
    let start = clock.elapsed();
    let shard = Shard::open(ShardOptions { durability: Durability::Async, ..options }).await?;
    println!("reopen without closing: {:?}", clock.elapsed() - start);
    commits(&shard, 16, Duration::from_secs(2), first).await;
    shard.close().await
}
