//! `cargo xtask bench analytics` and `bench copies`: analytical tables and secondary indexes that follow containers, and their
//! effects on clients.
//!
//! Two containers alternate, round by round: one is followed and one is not. Both get the same requests by the
//! clock: upserts, a third of them of loaded items, and point reads; a tenth of the upserts moves a row of the index to another
//! key. Then both take as many creates as the server manages, and at last a container that is full already gets a table or an
//! index.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use shardlake_testkit::{EMULATOR_KEY, ServerOptions, ServerProcess};

use crate::cpu::{Cpu, most_resident_megabytes, resident_megabytes, settle};
use crate::loading::load_requests;
use crate::pace::{Got, Pace};
use crate::publish::publish;
use crate::report;
use crate::workload::{DATABASE, Signer, document};
use crate::{AnalyticsOptions, Outcome};

/// Items that are loaded before a measurement, for reads and updates.
const LOADED: u64 = 20_000;
const ITEMS_PER_KEY: u64 = 100;
const CONNECTIONS: u64 = 8;
const READS_PER_SECOND: u64 = 500;
/// Request units per second of a container: some 10 partitions. More of them than the load needs would only make more files.
const THROUGHPUT: &str = "60000";
/// Time limit of a follower that is to become level.
const PATIENCE: Duration = Duration::from_secs(600);

pub fn run(options: &AnalyticsOptions, follower: Follower) -> Outcome {
    let machine = report::machine();
    let directory = tempfile::TempDir::with_prefix("shardlake-bench-")?;
    // The machine is the limit, and not a budget.
    let started = ServerOptions::new(&options.server).argument("--throughput").argument("unlimited");
    let server = started.data_dir(directory.path().join("data")).try_start()?;
    let bench = Bench { server, signer: Signer::new(EMULATOR_KEY), follower, probes: AtomicU64::new(0) };
    let _ = bench.server.client().create_database(DATABASE).expect_status(201);
    let mut text = format!(
        "Machine: {machine}. {} upserts of 1 KB a second, a third of them updates, and {READS_PER_SECOND} point reads a second, by the clock, by \
         {CONNECTIONS} connections each; {} s for each container and round, {} rounds; the clients share the cores with the server.\n\n",
        options.rate, options.seconds, options.rounds
    );
    bench.by_the_clock(options, &mut text)?;
    bench.saturated(options, &mut text)?;
    match follower {
        Follower::Table => bench.first_copy(options, &mut text)?,
        Follower::Index => {
            for (definition, asked) in [("SELECT * FROM c", 10_000), (FOUR_PROPERTIES, 20_000)] {
                bench.first_index(options, definition, asked, &mut text)?;
            }
        }
    }
    publish(options.publish.as_ref(), &text)
}

struct Bench {
    server: ServerProcess,
    signer: Signer,
    follower: Follower,
    /// Items written to measure the lag of an index.
    probes: AtomicU64,
}

/// A follower of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Follower {
    Table,
    Index,
}

/// A row of the index for each item, under a key that is not the source's.
const FOUR_PROPERTIES: &str = "SELECT c.pk, c.name, c.price, c.quantity FROM c";

/// Clients of one container in one round.
struct Phase {
    writes: Got,
    reads: Got,
    lag: Vec<f64>,
    processor: f64,
}

impl Bench {
    fn create(&self, container: &str, is_followed: bool) {
        let mut definition = json!({
            "id": container, "partitionKey": {"paths": ["/pk"], "kind": "Hash", "version": 2},
        });
        if is_followed && self.follower == Follower::Table {
            definition["analyticalStorageTtl"] = (-1).into();
        }
        let throughput = [("x-ms-offer-throughput", THROUGHPUT)];
        let create = |definition: &Value| {
            self.server.client().create_container_of(DATABASE, definition, &throughput).expect_status(201)
        };
        let _ = create(&definition);
        if is_followed && self.follower == Follower::Index {
            let _ = create(&index_of(container, FOUR_PROPERTIES));
        }
    }

    /// `name` is the key of the index.
    fn upsert(&self, container: &str, id: &str, key: &str, name: u64) -> Vec<u8> {
        let link = format!("dbs/{DATABASE}/colls/{container}");
        let (authorization, date) = (self.signer.authorization("post", &link), &self.signer.date);
        let body = document(id, key).replace("Silver, 42", &format!("Silver, {name}"));
        let length = body.len();
        format!(
            "POST /{link}/docs HTTP/1.1\r\nhost: localhost\r\nauthorization: {authorization}\r\nx-ms-date: {date}\r\nx-ms-version: 2020-07-15\r\nx-ms-documentdb-partitionkey: [\"{key}\"]\r\nx-ms-documentdb-is-upsert: true\r\ncontent-length: {length}\r\n\r\n{body}"
        )
        .into_bytes()
    }

    fn read(&self, container: &str, number: u64) -> Vec<u8> {
        let link = format!("dbs/{DATABASE}/colls/{container}/docs/item-{number}");
        let (authorization, date) = (self.signer.authorization("get", &link), &self.signer.date);
        let key = number / ITEMS_PER_KEY;
        format!(
            "GET /{link} HTTP/1.1\r\nhost: localhost\r\nauthorization: {authorization}\r\nx-ms-date: {date}\r\nx-ms-version: 2020-07-15\r\nx-ms-documentdb-partitionkey: [\"key-{key}\"]\r\n\r\n"
        )
        .into_bytes()
    }

    fn load(&self, container: &str, items: u64) -> Outcome {
        load_requests(self.server.address(), items, 201, &|number, out| {
            let key = format!("key-{}", number / ITEMS_PER_KEY);
            let name = number / ITEMS_PER_KEY;
            out.extend_from_slice(&self.upsert(container, &format!("item-{number}"), &key, name));
        })
    }

    /// Two of three create an item, the third replaces a loaded one; a third of those moves to another key of the index.
    fn writes(&self, container: &str, round: usize, count: u64) -> Vec<Vec<u8>> {
        let write = |number: u64| {
            let at = number.wrapping_mul(7919) % LOADED;
            let key = |number: u64| format!("key-{}", number / ITEMS_PER_KEY);
            let name = if number % 9 == 2 { number } else { at / ITEMS_PER_KEY };
            match number % 3 {
                2 => self.upsert(container, &format!("item-{at}"), &key(at), name),
                _ => self.upsert(container, &format!("new-{round}-{number}"), &key(number), name),
            }
        };
        (0..count).map(write).collect()
    }

    fn status(&self, container: &str) -> Value {
        let path = match self.follower {
            Follower::Table => format!("/_shardlake/v1/dbs/{DATABASE}/colls/{container}/analytics"),
            Follower::Index => format!("/_shardlake/v1/copies/index/{DATABASE}/{container}-index"),
        };
        self.server.client().get(&path, &[]).expect_status(200).json()
    }

    fn lag(&self, container: &str) -> f64 {
        self.status(container)["lag"]["seconds"].as_f64().unwrap_or(f64::MAX)
    }

    /// Waits until the follower has everything, and returns its report and the time.
    fn level(&self, container: &str) -> Outcome<(Value, Duration)> {
        let started = Instant::now();
        loop {
            let report = self.status(container);
            let is_following = report["state"] == "following" || report["status"] == "Active";
            if is_following && report["lag"]["changes"] == 0 {
                return Ok((report, started.elapsed()));
            }
            if started.elapsed() > PATIENCE {
                return Err(format!("the follower does not become level: {report}").into());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Seconds from the answer to a write until a query of the index finds its row.
    fn lag_of_a_row(&self, container: &str) -> f64 {
        let client = self.server.client();
        let name = format!("probe-{}", self.probes.fetch_add(1, Ordering::Relaxed));
        let item = json!({"id": name, "pk": name, "name": name, "price": 1, "quantity": 1});
        let key = json!([name]).to_string();
        let upsert = [("x-ms-documentdb-partitionkey", key.as_str()), ("x-ms-documentdb-is-upsert", "true")];
        let _ = client
            .post_json(&format!("/dbs/{DATABASE}/colls/{container}/docs"), &upsert, &item)
            .expect_status(201);
        let written = Instant::now();
        let question = json!({"query": "SELECT VALUE COUNT(1) FROM c", "parameters": []});
        let query = [
            ("x-ms-documentdb-partitionkey", key.as_str()),
            ("x-ms-documentdb-isquery", "true"),
            ("content-type", "application/query+json"),
        ];
        loop {
            let path = format!("/dbs/{DATABASE}/colls/{container}-index/docs");
            let found = client.post_json(&path, &query, &question).expect_status(200).json();
            let seconds = written.elapsed().as_secs_f64();
            if found["Documents"] == json!([1]) || written.elapsed() > PATIENCE {
                return seconds;
            }
            // One more client without rests would be a load of its own.
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Runs work while the lag of a follower is sampled.
    fn sampled<T: Send>(&self, container: Option<&str>, work: impl FnOnce() -> T + Send) -> (T, Vec<f64>) {
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let sampler = scope.spawn(|| {
                let mut lag = Vec::new();
                while let Some(container) = container.filter(|_| !is_over.load(Ordering::Relaxed)) {
                    match self.follower {
                        Follower::Table => lag.push(self.lag(container)),
                        Follower::Index => lag.push(self.lag_of_a_row(container)),
                    }
                    std::thread::sleep(self.follower.look_again());
                }
                lag.sort_by(f64::total_cmp);
                lag
            });
            let done = work();
            is_over.store(true, Ordering::Relaxed);
            (done, sampler.join().expect("no sampler panics"))
        })
    }

    fn phase(
        &self,
        options: &AnalyticsOptions,
        container: &str,
        is_followed: bool,
        round: usize,
    ) -> Outcome<Phase> {
        let time = Duration::from_secs(options.seconds);
        let writes = self.writes(container, round, options.rate * options.seconds);
        let reads: Vec<_> = (0..4000).map(|number| self.read(container, number * 7919 % LOADED)).collect();
        settle(self.server.process_id(), Duration::from_secs(5));
        let address = self.server.address();
        let pace = |requests, rate| Pace { address, requests, rate, connections: CONNECTIONS, time };
        let cpu = Cpu::of(self.server.process_id());
        let followed = is_followed.then_some(container);
        let (got, lag) = self.sampled(followed, || {
            let both = pace(&writes, options.rate).run_beside(&pace(&reads, READS_PER_SECOND));
            both.map_err(|error| error.to_string())
        });
        let (writes, reads) = got?;
        for got in [&writes, &reads] {
            if let Some(strange) = &got.strange {
                return Err(strange.clone().into());
            }
        }
        Ok(Phase { writes, reads, lag, processor: cpu.seconds() })
    }

    fn by_the_clock(&self, options: &AnalyticsOptions, text: &mut String) -> Outcome {
        for (container, is_followed) in [("off", false), ("on", true)] {
            self.create(container, is_followed);
            self.load(container, LOADED)?;
        }
        let (mut off, mut on) = (Vec::new(), Vec::new());
        for round in 0..options.rounds {
            eprintln!("round {}", round + 1);
            off.push(self.phase(options, "off", false, round)?);
            on.push(self.phase(options, "on", true, round)?);
            self.level("on")?;
        }
        let charged = |phases: &[Phase]| -> f64 {
            phases.iter().map(|phase| phase.writes.charged + phase.reads.charged).sum()
        };
        let ratio = |at: &dyn Fn(&Phase) -> u64| {
            median(off.iter().zip(&on).map(|(off, on)| at(on) as f64 / at(off).max(1) as f64))
        };
        writeln!(text, "| followed ÷ not followed, median of rounds | asked | measured |\n|---|---:|---:|")?;
        let asked_p50 = if self.follower == Follower::Table { 1.1 } else { 1.05 };
        for (words, share, asked) in [("p50", 0.5, asked_p50), ("p99", 0.99, 1.5)] {
            let writes = ratio(&|phase: &Phase| phase.writes.within(share));
            let reads = ratio(&|phase: &Phase| phase.reads.within(share));
            writeln!(text, "| {words} of writes | ≤ {asked} | {writes:.2} |")?;
            writeln!(text, "| {words} of reads | ≤ {asked} | {reads:.2} |")?;
        }
        let (free, followed) = (charged(&off), charged(&on));
        writeln!(text, "| request units | {free:.2} | {followed:.2} |")?;
        let lag: Vec<f64> = {
            let mut all: Vec<f64> = on.iter().flat_map(|phase| phase.lag.iter().copied()).collect();
            all.sort_by(f64::total_cmp);
            all
        };
        match self.follower {
            Follower::Table => {
                writeln!(text, "| lag of the table, p99 | ≤ 10 s | {:.0} s |", at(&lag, 0.99))?;
                writeln!(text, "| lag of the table, most | ≤ 30 s | {:.0} s |", at(&lag, 1.0))?;
            }
            Follower::Index => {
                for (words, share, asked) in [("p50", 0.5, 20), ("p99", 0.99, 250), ("most", 1.0, 2_000)] {
                    let lag = at(&lag, share) * 1_000.0;
                    writeln!(text, "| lag of the index, {words} | ≤ {asked} ms | {lag:.0} ms |")?;
                }
            }
        }
        writeln!(
            text,
            "\n| container | round | writes p50 µs | p99 µs | reads p50 µs | p99 µs | processor s |"
        )?;
        writeln!(text, "|---|---:|---:|---:|---:|---:|---:|")?;
        for (name, phases) in [("not followed", &off), ("followed", &on)] {
            for (round, phase) in phases.iter().enumerate() {
                let (writes, reads) = (&phase.writes, &phase.reads);
                writeln!(
                    text,
                    "| {name} | {} | {} | {} | {} | {} | {:.1} |",
                    round + 1,
                    writes.within(0.5),
                    writes.within(0.99),
                    reads.within(0.5),
                    reads.within(0.99),
                    phase.processor
                )?;
            }
        }
        Ok(())
    }

    /// As many creates as the server manages, without and with a table, alternating.
    fn saturated(&self, options: &AnalyticsOptions, text: &mut String) -> Outcome {
        writeln!(text, "\n| saturated | upserts/s | worst lag s | level after s |\n|---|---:|---:|---:|")?;
        let mut rates = [Vec::new(), Vec::new()];
        for round in 0..options.saturated_rounds {
            for is_followed in [false, true] {
                let container = format!("full-{round}-{is_followed}");
                self.create(&container, is_followed);
                let requests = self.writes(&container, 0, options.saturated_seconds * 20_000);
                settle(self.server.process_id(), Duration::from_secs(5));
                let pace = Pace {
                    address: self.server.address(),
                    requests: &requests,
                    rate: u64::MAX,
                    connections: 16,
                    time: Duration::from_secs(options.saturated_seconds),
                };
                let (got, lag) = self.sampled(is_followed.then_some(container.as_str()), || {
                    pace.run().map_err(|error| error.to_string())
                });
                let rate = got?.asked() as f64 / options.saturated_seconds as f64;
                rates[usize::from(is_followed)].push(rate);
                let level = match is_followed {
                    true => format!("{:.1}", self.level(&container)?.1.as_secs_f64()),
                    false => "–".into(),
                };
                let words = if is_followed { "followed" } else { "not followed" };
                writeln!(text, "| {words} | {rate:.0} | {:.0} | {level} |", at(&lag, 1.0))?;
            }
        }
        let [free, followed] = rates;
        let ratio = median(free.iter().zip(&followed).map(|(free, followed)| followed / free));
        writeln!(text, "\nFollowed ÷ not followed, median: {ratio:.2} (asked: ≥ 0.85).")?;
        Ok(())
    }

    /// A container with many items gets a table, while no client asks for anything.
    fn first_copy(&self, options: &AnalyticsOptions, text: &mut String) -> Outcome {
        let container = "copied";
        self.create(container, false);
        eprintln!("loading {} items", options.items);
        self.load(container, options.items)?;
        let process = self.server.process_id();
        settle(process, Duration::from_secs(30));
        // Forgets the peak of the load.
        std::fs::write(format!("/proc/{process}/clear_refs"), "5")?;
        let idle = resident_megabytes(process);
        let definition = json!({
            "id": container, "analyticalStorageTtl": -1,
            "partitionKey": {"paths": ["/pk"], "kind": "Hash", "version": 2},
        });
        let (cpu, started) = (Cpu::of(process), Instant::now());
        let path = format!("/dbs/{DATABASE}/colls/{container}");
        let _ = self.server.client().put_json(&path, &[], &definition).expect_status(200);
        let (report, _) = self.level(container)?;
        let seconds = started.elapsed().as_secs_f64();
        let rise = most_resident_megabytes(process) - idle;
        let rows = report["rows"].as_u64().or(report["figures"]["rows"].as_u64()).unwrap_or(0);
        if rows != options.items {
            return Err(format!("{} items have {rows} rows", options.items).into());
        }
        let (size, json) = (&report["figures"]["sizeBytes"], &report["figures"]["jsonBytes"]);
        let share = size.as_f64().unwrap_or(0.0) / json.as_f64().unwrap_or(f64::NAN);
        writeln!(text, "\n| first copy of {} items | asked | measured |\n|---|---:|---:|", options.items)?;
        writeln!(
            text,
            "| items/s, from the definition to the last row | ≥ 60,000 | {:.0} |",
            rows as f64 / seconds
        )?;
        writeln!(text, "| processor time | | {:.1} s |", cpu.seconds())?;
        writeln!(text, "| rise of resident memory | ≤ 256 MB | {rise:.0} MB |")?;
        writeln!(text, "| table ÷ stored items | ≤ 0.35 | {share:.3} |")?;
        Ok(())
    }

    /// A container with many items gets an index, while no client asks for anything.
    fn first_index(
        &self,
        options: &AnalyticsOptions,
        definition: &str,
        asked: u64,
        text: &mut String,
    ) -> Outcome {
        let container = format!("copied-{asked}");
        self.create(&container, false);
        eprintln!("loading {} items", options.items);
        self.load(&container, options.items)?;
        let process = self.server.process_id();
        settle(process, Duration::from_secs(30));
        // Forgets the peak of the load.
        std::fs::write(format!("/proc/{process}/clear_refs"), "5")?;
        let idle = resident_megabytes(process);
        let throughput = [("x-ms-offer-throughput", THROUGHPUT)];
        let (cpu, started) = (Cpu::of(process), Instant::now());
        let _ = self
            .server
            .client()
            .create_container_of(DATABASE, &index_of(&container, definition), &throughput)
            .expect_status(201);
        let (report, _) = self.level(&container)?;
        let seconds = started.elapsed().as_secs_f64();
        let rise = most_resident_megabytes(process) - idle;
        let rows = report["rows"].as_u64().unwrap_or(0);
        if rows != options.items {
            return Err(format!("{} items have {rows} rows", options.items).into());
        }
        writeln!(text, "\n| index `{definition}` of {rows} items | asked | measured |\n|---|---:|---:|")?;
        writeln!(
            text,
            "| rows/s, from the definition to the last row | ≥ {asked} | {:.0} |",
            rows as f64 / seconds
        )?;
        writeln!(text, "| processor time | | {:.1} s |", cpu.seconds())?;
        writeln!(text, "| rise of resident memory | ≤ 128 MB | {rise:.0} MB |")?;
        Ok(())
    }
}

impl Follower {
    /// Time between two samples of its lag: a table's is reported, that of an index is that of a row of its own.
    fn look_again(self) -> Duration {
        match self {
            Follower::Table => Duration::from_millis(250),
            Follower::Index => Duration::from_millis(50),
        }
    }
}

fn index_of(source: &str, definition: &str) -> Value {
    json!({
        "id": format!("{source}-index"), "partitionKey": {"paths": ["/name"], "kind": "Hash", "version": 2},
        "globalSecondaryIndexDefinition": {"sourceCollectionId": source, "definition": definition},
    })
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// The value that a share of sorted values does not exceed.
fn at(sorted: &[f64], share: f64) -> f64 {
    debug_assert!(sorted.is_sorted(), "a share is read from sorted values");
    let last = sorted.len().saturating_sub(1);
    sorted.get((sorted.len() as f64 * share) as usize).or(sorted.get(last)).copied().unwrap_or(0.0)
}
