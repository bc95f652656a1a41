//! `cargo xtask bench hostile`: latency of other clients and memory of the server while its MongoDB API is attacked.
//!
//! Clients of both APIs read and write small documents by the clock, alternately alone and during
//! an attack at a fixed rate:
//! - connections announce messages of the largest size and send nothing of them;
//! - aggregates make 100,000 documents of each of 300, with batches of one, and leave their cursors open;
//! - readers ask for large documents and read no answer.
//!
//! With `--sql` the attack is one of SQL statements without an end, over tables of the analytical store; the server needs that feature.
//!
//! Each attack has a server of its own, whose memory is its maximum over all rounds.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use shardlake_testkit::{Request, ServerOptions, ServerProcess};

use crate::cpu::most_resident_megabytes;
use crate::heavy::upsert;
use crate::mongo::door;
use crate::mongo_messages::{length, message};
use crate::pace::Pace;
use crate::publish::publish;
use crate::report;
use crate::workload::{CONTAINER, DATABASE, Signer, document};
use crate::{HostileOptions, Outcome};

const LARGE: &str = "large";
const LARGE_DOCUMENTS: usize = 300;
const LARGE_BYTES: usize = 50_000;
const SMALL_DOCUMENTS: u64 = 500;
const CONNECTIONS: u64 = 2;
const REPLY_MAX: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, Copy)]
enum Attack {
    Lengths,
    Aggregates,
    SlowReaders,
    Statements,
}

use Attack::{Aggregates, Lengths, SlowReaders, Statements};

const ATTACKS: [(&str, &[Attack]); 4] = [
    ("announced lengths", &[Lengths]),
    ("aggregates", &[Aggregates]),
    ("unread answers", &[SlowReaders]),
    ("lengths, aggregates and unread answers", &[Lengths, Aggregates, SlowReaders]),
];

const SQL_ATTACKS: [(&str, &[Attack]); 1] = [("SQL statements without an end", &[Statements])];

/// Endless in time, in rows, in memory and in groups.
const STATEMENTS: [&str; 4] = [
    "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r",
    "SELECT count(*) FROM generate_series(1, 1000000) a, generate_series(1, 1000000) b",
    "SELECT array_agg(repeat('x', 100000)) FROM generate_series(1, 100000)",
    "SELECT value % 50000000, count(*) FROM generate_series(1, 100000000) GROUP BY 1 ORDER BY 2",
];

impl Attack {
    fn per_second(self) -> u64 {
        match self {
            Lengths => 50,
            Aggregates => 2,
            SlowReaders => 40,
            Statements => 4,
        }
    }

    /// Connections that stay open; older ones are closed.
    fn connections(self) -> usize {
        match self {
            Lengths => 1_000,
            Aggregates => 60,
            SlowReaders => 400,
            Statements => 24,
        }
    }

    fn address(self, server: &ServerProcess) -> Outcome<SocketAddr> {
        if matches!(self, Statements) { Ok(server.address()) } else { door(server) }
    }

    fn request(self, server: &ServerProcess, number: u64) -> Vec<u8> {
        match self {
            Lengths => [48_000_000_i32, 1, 0, 2013].iter().flat_map(|field| field.to_le_bytes()).collect(),
            Aggregates => message(&json!({
                "aggregate": LARGE, "cursor": { "batchSize": 1 }, "$db": DATABASE,
                "pipeline": [{ "$project": { "a": { "$range": [0, 100_000] } } }, { "$unwind": "$a" }],
            })),
            SlowReaders => {
                message(&json!({ "find": LARGE, "filter": {}, "batchSize": 1000, "$db": DATABASE }))
            }
            Statements => {
                let statement = STATEMENTS[number as usize % STATEMENTS.len()];
                let body = json!({ "query": statement, "timeoutSeconds": 3 }).to_string();
                let path = "/_shardlake/v1/analytics/sql";
                let request = Request { method: "POST", path, body: body.as_bytes(), ..Request::default() };
                server.client().signed_bytes(&request)
            }
        }
    }

    /// Attacks at its rate until `ends` is set; returns the number of attempts. Refused and closed connections are no failures.
    fn run(self, server: &ServerProcess, address: SocketAddr, ends: &AtomicBool) -> u64 {
        let start = Instant::now();
        let mut open: VecDeque<TcpStream> = VecDeque::new();
        let mut number = 0;
        while !ends.load(Ordering::Relaxed) {
            let due = start + Duration::from_micros(number * 1_000_000 / self.per_second());
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            if let Ok(mut stream) = TcpStream::connect(address) {
                let _may_be_closed = stream.write_all(&self.request(server, number));
                open.push_back(stream);
            }
            open.drain(..open.len().saturating_sub(self.connections()));
            number += 1;
        }
        number
    }
}

/// Microseconds of the 99th percentile.
struct Round {
    writes: u64,
    finds: u64,
    failures: u64,
}

struct Found {
    quiet: Vec<Round>,
    attacked: Vec<Round>,
    attempts: u64,
    most_mb: f64,
}

pub fn run(options: &HostileOptions) -> Outcome {
    let machine = report::machine();
    let mut out = String::from(
        "| attack | attempts | writes over HTTP, p99 quiet → attacked, µs | ratio (asked: ≤ 3) | finds of MongoDB, p99 quiet → attacked, µs | ratio (asked: ≤ 3) | failed | most memory, MB (asked: < 1,000) |\n|---|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    let attacks = if options.sql { SQL_ATTACKS.as_slice() } else { ATTACKS.as_slice() };
    for (name, attacks) in attacks {
        eprintln!("{name}");
        let found = measure(options, attacks)?;
        let median = |rounds: &[Round], of: fn(&Round) -> u64| {
            let mut all: Vec<u64> = rounds.iter().map(of).collect();
            assert!(!all.is_empty(), "a median has a round");
            all.sort_unstable();
            all[all.len() / 2]
        };
        let pair = |of: fn(&Round) -> u64| {
            let (quiet, attacked) = (median(&found.quiet, of), median(&found.attacked, of));
            format!("{quiet} → {attacked} | {:.1}", attacked as f64 / quiet.max(1) as f64)
        };
        let failures: u64 = found.quiet.iter().chain(&found.attacked).map(|round| round.failures).sum();
        let (writes, finds) = (pair(|round| round.writes), pair(|round| round.finds));
        writeln!(
            out,
            "| {name} | {} | {writes} | {finds} | {failures} | {:.0} |",
            found.attempts, found.most_mb
        )?;
    }
    let text = format!(
        "Machine: {machine}, which runs attackers and clients, too. {} rounds of {} s quiet and {} s attacked, medians, `--message-memory 512MiB`; {} small durable writes a second over HTTP and as many finds by key, {CONNECTIONS} connections each.\n\n{out}",
        options.rounds, options.seconds, options.seconds, options.rate
    );
    publish(options.publish.as_ref(), &text)
}

fn measure(options: &HostileOptions, attacks: &[Attack]) -> Outcome<Found> {
    let directory = tempfile::TempDir::with_prefix("shardlake-bench-")?;
    let server = ServerOptions::new(&options.server)
        .data_dir(directory.path().join("data"))
        .argument("--mongo-listen=127.0.0.1:0")
        .argument("--message-memory=512MiB");
    let server = server.try_start()?;
    load(&server)?;
    let (mut quiet, mut attacked, mut attempts) = (Vec::new(), Vec::new(), 0);
    for _ in 0..options.rounds {
        quiet.push(clients(&server, options)?);
        let ends = AtomicBool::new(false);
        let addresses = attacks.iter().map(|attack| attack.address(&server)).collect::<Outcome<Vec<_>>>()?;
        let round = std::thread::scope(|scope| {
            let (server, ends) = (&server, &ends);
            let attacks = attacks.iter().zip(addresses);
            let running: Vec<_> = attacks
                .map(|(attack, address)| scope.spawn(move || attack.run(server, address, ends)))
                .collect();
            let round = clients(server, options).map_err(|error| error.to_string());
            ends.store(true, Ordering::Relaxed);
            attempts +=
                running.into_iter().map(|attack| attack.join().expect("no attacker panics")).sum::<u64>();
            round
        })?;
        attacked.push(round);
        // Cursors and answers of the attackers end with their connections.
        std::thread::sleep(Duration::from_secs(1));
    }
    Ok(Found { quiet, attacked, attempts, most_mb: most_resident_megabytes(server.process_id()) })
}

fn load(server: &ServerProcess) -> Outcome {
    let client = server.client();
    let _ = client.create_database(DATABASE).expect_status(201);
    for container in [CONTAINER, LARGE] {
        let definition =
            json!({"id": container, "partitionKey": {"paths": ["/pk"], "kind": "Hash", "version": 2}});
        let _ = client.create_container_of(DATABASE, &definition, &[]).expect_status(201);
    }
    for number in 0..LARGE_DOCUMENTS {
        let text = "x".repeat(LARGE_BYTES);
        let item = json!({ "id": format!("l{number}"), "pk": "a", "text": text });
        let _ = client.create_item(DATABASE, LARGE, &json!(["a"]), &item).expect_status(201);
    }
    for number in 0..SMALL_DOCUMENTS {
        let item: Value = serde_json::from_str(&document(&format!("i{number}"), "a"))?;
        let _ = client.create_item(DATABASE, CONTAINER, &json!(["a"]), &item).expect_status(201);
    }
    Ok(())
}

/// Writes over HTTP, with concurrent finds.
fn clients(server: &ServerProcess, options: &HostileOptions) -> Outcome<Round> {
    let signer = Signer::new(&server.ready().key);
    let upserts: Vec<_> = (0..SMALL_DOCUMENTS)
        .map(|number| upsert(&signer, CONTAINER, &document(&format!("i{number}"), "a")))
        .collect();
    let time = Duration::from_secs(options.seconds);
    let writes = Pace {
        address: server.address(),
        requests: &upserts,
        rate: options.rate,
        connections: CONNECTIONS,
        time,
    };
    let address = door(server)?;
    std::thread::scope(|scope| {
        let finding: Vec<_> = (0..CONNECTIONS)
            .map(|connection| scope.spawn(move || find_by_the_clock(address, connection, options.rate, time)))
            .collect();
        let writes = writes.run()?;
        let (mut finds, mut failures) = (Vec::new(), writes.other);
        for found in finding {
            let (times, failed) = found.join().expect("no client panics");
            finds.extend(times);
            failures += failed;
        }
        finds.sort_unstable();
        let finds = finds.get(finds.len() * 99 / 100).copied().unwrap_or(0);
        Ok(Round { writes: writes.within(0.99), finds, failures })
    })
}

/// Microseconds of each find, and the number of failures. A request that waited behind another counts from its due time.
fn find_by_the_clock(address: SocketAddr, connection: u64, rate: u64, time: Duration) -> (Vec<u64>, u64) {
    let start = Instant::now();
    let (mut times, mut failed, mut open) = (Vec::new(), 0, None);
    for number in (connection..).step_by(CONNECTIONS as usize) {
        let due = start + Duration::from_micros(number * 1_000_000 / rate);
        if due >= start + time {
            break;
        }
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let late = due.elapsed() >= Duration::from_millis(2);
        let from = if late { due } else { Instant::now() };
        let filter = json!({ "_id": format!("i{}", number % SMALL_DOCUMENTS), "pk": "a" });
        let find =
            json!({ "find": CONTAINER, "filter": filter, "limit": 1, "singleBatch": true, "$db": DATABASE });
        match ask(&mut open, address, &message(&find)) {
            Ok(()) => times.push(from.elapsed().as_micros() as u64),
            Err(_) => (failed, open) = (failed + 1, None),
        }
    }
    (times, failed)
}

fn ask(open: &mut Option<TcpStream>, address: SocketAddr, request: &[u8]) -> std::io::Result<()> {
    let stream = match open {
        Some(stream) => stream,
        None => {
            let stream = TcpStream::connect_timeout(&address, REPLY_MAX)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(REPLY_MAX))?;
            open.insert(stream)
        }
    };
    stream.write_all(request)?;
    let mut head = [0; 16];
    stream.read_exact(&mut head)?;
    let rest = length(&head).unwrap_or(0).saturating_sub(head.len());
    let mut body = vec![0; rest];
    stream.read_exact(&mut body)
}
