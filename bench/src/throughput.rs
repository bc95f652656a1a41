//! `cargo xtask bench throughput`: what budgets give, what they spare a neighbour, and what they cost.
//!
//! *Held to the budget*: a client asks for twice the 400 RU/s of its container, by the clock, whatever it is answered. *The
//! neighbour*: another client reads from another container of the same server, well within its own 400 RU/s, alone, beside the first
//! client, and beside connections that do nothing but be refused. *The cost*: reads from a server that enforces and from one that does
//! not, in turns; each container has more throughput than the reads need.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use shardlake_testkit::{EMULATOR_KEY, RawConnection, ServerOptions, ServerProcess};

use crate::load::{self, Measured, Requests};
use crate::point::load_requests;
use crate::report;
use crate::workload::{DATABASE, Signer, document};
use crate::{Outcome, ThroughputOptions};

const BUDGET: u64 = 400;
const NEIGHBOUR_RATE: u64 = 100;
const KEYS: u64 = 1000;
const FLOOD_CONNECTIONS: u64 = 8;
/// Of so many partitions that none of them is asked for its share.
const AMPLE: u64 = 300_000;

pub fn run(options: &ThroughputOptions) -> Outcome {
    let machine = report::machine();
    let directory = tempfile::TempDir::with_prefix("shardlake-bench-")?;
    let server = start(&options.server, &directory.path().join("enforced"), "enforced")?;
    for container in ["busy", "calm"] {
        fill(&server, container, BUDGET)?;
    }
    let time = Duration::from_secs(options.seconds);
    let address = server.address();
    eprintln!("the neighbour alone");
    let alone = paced(address, "calm", NEIGHBOUR_RATE, 1, time)?;
    eprintln!("beside a client at twice its budget");
    let (greedy, beside) = at_once(
        || paced(address, "busy", 2 * BUDGET, 4, time),
        || paced(address, "calm", NEIGHBOUR_RATE, 1, time),
    )?;
    eprintln!("beside a flood of refusals");
    let (flood, flooded) = at_once(
        || paced(address, "busy", u64::MAX, FLOOD_CONNECTIONS, time),
        || paced(address, "calm", NEIGHBOUR_RATE, 1, time),
    )?;
    println!("Machine: {machine}. {} s each.\n", options.seconds);
    println!(
        "| client | asked/s | charged of its budget | refused | p50 µs | p99 µs |\n|---|---:|---:|---:|---:|---:|"
    );
    for (name, part) in [
        ("at twice its budget", &greedy),
        ("neighbour, alone", &alone),
        ("neighbour, beside it", &beside),
        ("flood over 8 connections", &flood),
        ("neighbour, beside the flood", &flooded),
    ] {
        part.print(name, time);
    }
    cost(options, &server, directory.path())
}

fn start(binary: &Path, data: &Path, mode: &str) -> Outcome<ServerProcess> {
    let options = ServerOptions::new(binary).data_dir(data).argument(format!("--throughput={mode}"));
    let server = options.try_start()?;
    let _ = server.client().create_database(DATABASE).expect_status(201);
    Ok(server)
}

/// A container with one item of 1 KB, hence 1 RU to read, in each of its logical partitions.
fn fill(server: &ServerProcess, container: &str, throughput: u64) -> Outcome {
    let body = serde_json::json!({
        "id": container,
        "partitionKey": {"paths": ["/pk"], "kind": "Hash", "version": 2},
    });
    let throughput = throughput.to_string();
    let headers = [("x-ms-offer-throughput", throughput.as_str())];
    let _ = server.client().create_container_of(DATABASE, &body, &headers).expect_status(201);
    let signer = Signer::new(EMULATOR_KEY);
    let link = format!("dbs/{DATABASE}/colls/{container}");
    let (authorization, date) = (signer.authorization("post", &link), signer.date.clone());
    let request = |number: u64, out: &mut Vec<u8>| {
        let body = document("item", &format!("key-{number}"));
        let head = format!(
            "POST /{link}/docs HTTP/1.1\r\nhost: localhost\r\nauthorization: {authorization}\r\nx-ms-date: {date}\r\nx-ms-version: 2020-07-15\r\nx-ms-documentdb-partitionkey: [\"key-{number}\"]\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        out.extend_from_slice(head.as_bytes());
        out.extend_from_slice(body.as_bytes());
    };
    if throughput == BUDGET.to_string() {
        return fill_slowly(server.address(), &request);
    }
    load_requests(server.address(), KEYS, &request)
}

/// Waits as it is told.
fn fill_slowly(address: SocketAddr, request: &dyn Fn(u64, &mut Vec<u8>)) -> Outcome {
    let mut connection = RawConnection::open(address)?;
    let mut bytes = Vec::new();
    for number in 0..KEYS {
        bytes.clear();
        request(number, &mut bytes);
        loop {
            connection.send(&bytes)?;
            let reply = connection.read_response("POST")?;
            match reply.status {
                201 => break,
                429 => std::thread::sleep(Duration::from_millis(
                    reply.header("x-ms-retry-after-ms").and_then(|text| text.parse().ok()).unwrap_or(10),
                )),
                _ => return Err(reply.text().into()),
            }
        }
    }
    // Until the bucket is full again.
    std::thread::sleep(Duration::from_secs(2));
    Ok(())
}

fn reads(container: &str) -> Vec<Vec<u8>> {
    let signer = Signer::new(EMULATOR_KEY);
    let link = format!("dbs/{DATABASE}/colls/{container}/docs/item");
    let (authorization, date) = (signer.authorization("get", &link), &signer.date);
    let request = |number: u64| {
        format!(
            "GET /{link} HTTP/1.1\r\nhost: localhost\r\nauthorization: {authorization}\r\nx-ms-date: {date}\r\nx-ms-version: 2020-07-15\r\nx-ms-documentdb-partitionkey: [\"key-{number}\"]\r\n\r\n"
        )
        .into_bytes()
    };
    (0..KEYS).map(request).collect()
}

/// What a client got.
#[derive(Default)]
struct Part {
    charged: f64,
    refused: u64,
    /// Microseconds from the time at which a request was due.
    latencies: Vec<u64>,
}

impl Part {
    fn print(&self, name: &str, time: Duration) {
        let mut sorted = self.latencies.clone();
        sorted.sort_unstable();
        let at = |share: f64| sorted.get((sorted.len() as f64 * share) as usize).copied().unwrap_or(0);
        let asked = self.latencies.len() as f64 / time.as_secs_f64();
        let percent = self.charged / (BUDGET as f64 * time.as_secs_f64()) * 100.0;
        let (refused, p50, p99) = (self.refused, at(0.5), at(0.99));
        println!("| {name} | {asked:.0} | {percent:.2} % | {refused} | {p50} | {p99} |");
    }
}

/// Reads from a container at a rate over some connections, or as fast as they go.
fn paced(address: SocketAddr, container: &str, rate: u64, connections: u64, time: Duration) -> Outcome<Part> {
    let requests = reads(container);
    let start = Instant::now();
    let parts: Result<Vec<Part>, String> = std::thread::scope(|scope| {
        let part = |connection| {
            let requests = &requests;
            scope.spawn(move || converse(address, requests, start, (connection, connections, rate), time))
        };
        let threads: Vec<_> = (0..connections).map(part).collect();
        threads.into_iter().map(|thread| thread.join().expect("no client panics")).collect()
    });
    Ok(parts?.into_iter().fold(Part::default(), |mut all, part| {
        all.charged += part.charged;
        all.refused += part.refused;
        all.latencies.extend(part.latencies);
        all
    }))
}

fn converse(
    address: SocketAddr,
    requests: &[Vec<u8>],
    start: Instant,
    (connection, connections, rate): (u64, u64, u64),
    time: Duration,
) -> Result<Part, String> {
    let mut stream = RawConnection::open(address).map_err(|error| error.to_string())?;
    let mut part = Part::default();
    for number in (connection..).step_by(connections as usize) {
        let due = match rate {
            u64::MAX => Instant::now(),
            _ => start + Duration::from_micros(number * 1_000_000 / rate),
        };
        if due >= start + time || Instant::now() >= start + time {
            break;
        }
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        stream.send(&requests[(number * 7 % KEYS) as usize]).map_err(|error| error.to_string())?;
        let reply = stream.read_response("GET").map_err(|error| error.to_string())?;
        part.latencies.push(due.elapsed().as_micros() as u64);
        match reply.status {
            200 => {
                let charge = reply.header("x-ms-request-charge").and_then(|text| text.parse::<f64>().ok());
                part.charged += charge.ok_or("a reply has no charge")?;
            }
            429 => part.refused += 1,
            status => return Err(format!("a reply had status {status}: {}", reply.text())),
        }
    }
    Ok(part)
}

fn at_once(
    one: impl FnOnce() -> Outcome<Part> + Send,
    other: impl FnOnce() -> Outcome<Part>,
) -> Outcome<(Part, Part)> {
    std::thread::scope(|scope| {
        let one = scope.spawn(|| one().map_err(|error| error.to_string()));
        let other = other()?;
        Ok((one.join().expect("no client panics")?, other))
    })
}

struct AllKeys(Vec<Vec<u8>>);

impl Requests for AllKeys {
    fn next(&self, connection: usize, number: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0[((number * 7 + connection as u64 * 131) % KEYS) as usize]);
    }

    fn expected_status(&self) -> u16 {
        200
    }
}

fn cost(options: &ThroughputOptions, enforced: &ServerProcess, directory: &Path) -> Outcome {
    let unlimited = start(&options.server, &directory.join("unlimited"), "unlimited")?;
    let servers = [("enforced", enforced), ("unlimited", &unlimited)];
    for (_, server) in servers {
        fill(server, "wide", AMPLE)?;
    }
    let requests = Arc::new(AllKeys(reads("wide")));
    let mut rounds = [vec![], vec![]];
    for _ in 0..options.rounds {
        for ((name, server), results) in servers.iter().zip(&mut rounds) {
            eprintln!("reads, {name}");
            let time = Duration::from_secs(4);
            results.push(load::drive(server.address(), 16, time, requests.clone(), server.process_id())?);
        }
    }
    println!(
        "\n| point reads, 16 connections | ops/s | p50 µs | p99 µs | server CPU µs/op |\n|---|---:|---:|---:|---:|"
    );
    for ((name, _), results) in servers.iter().zip(&rounds) {
        let Measured { per_second, p50_us, p99_us, cpu_us } = report::median(results);
        println!("| {name} | {per_second:.0} | {p50_us:.0} | {p99_us:.0} | {cpu_us:.2} |");
    }
    Ok(())
}
