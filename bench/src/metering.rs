//! `cargo xtask bench metering`: the cost of budgets and of the record of heat.
//!
//! Three servers of the same build with the same items. *metered* has the default settings: budgets
//! enforced on a container with more throughput than is requested, heat on. *unmetered* has
//! `--throughput unlimited` and `--heat off`. *unmetered, again* is a second server like
//! *unmetered*: the difference of two equal servers is the error of the measurement. The servers
//! alternate, in another order every round, and each is compared with the *unmetered* one of its round.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use shardlake_testkit::{EMULATOR_KEY, ServerOptions, ServerProcess};

use crate::load::{self, Measured};
use crate::loading::load_items;
use crate::publish::publish;
use crate::report;
use crate::requests::Requests;
use crate::workload::{CONTAINER, Creates, DATABASE, Reads, Signer};
use crate::{MeteringOptions, Outcome};

const CONNECTIONS: usize = 16;
/// Enough for a number of partitions of which none is asked for more than its share.
const AMPLE: &str = "300000";
/// Logical partitions that new items are spread over.
const KEYS: u64 = 50_000;
const OPERATIONS: [&str; 2] = ["point read", "durable create"];
const CONTESTANTS: [(&str, &[&str]); 3] = [
    ("metered", &[]),
    ("unmetered", &["--throughput=unlimited", "--heat=off"]),
    ("unmetered, again", &["--throughput=unlimited", "--heat=off"]),
];
/// The contestant that the others are compared with.
const YARDSTICK: usize = 1;

/// By operation, by contestant, by round.
type Rounds = [[Vec<Measured>; CONTESTANTS.len()]; OPERATIONS.len()];

pub fn run(options: &MeteringOptions) -> Outcome {
    let machine = report::machine();
    let directory = tempfile::TempDir::with_prefix("shardlake-bench-")?;
    let mut servers = Vec::new();
    for (number, (name, arguments)) in CONTESTANTS.iter().enumerate() {
        eprintln!("loading {} items, {name}", options.items);
        servers.push(start(options, &directory.path().join(number.to_string()), arguments)?);
    }
    let rounds = measure(options, &servers)?;
    let text = format!(
        "Machine: {machine}. {} rounds of {} s each on {CONNECTIONS} connections; contestants take turns. Containers of {AMPLE} RU/s.\n\n{}\n{}",
        options.rounds,
        options.seconds,
        costs(&rounds)?,
        medians(&rounds)?
    );
    publish(options.publish.as_ref(), &text)
}

fn start(options: &MeteringOptions, data: &Path, arguments: &[&str]) -> Outcome<ServerProcess> {
    let server = ServerOptions::new(&options.server).data_dir(data);
    let server = arguments.iter().fold(server, |server, argument| server.argument(argument)).try_start()?;
    let client = server.client();
    let _ = client.create_database(DATABASE).expect_status(201);
    let body = json!({"id": CONTAINER, "partitionKey": {"paths": ["/pk"], "kind": "Hash", "version": 2}});
    let headers = [("x-ms-offer-throughput", AMPLE)];
    let _ = client.create_container_of(DATABASE, &body, &headers).expect_status(201);
    load_items(&server, options.items)?;
    Ok(server)
}

/// Creates with another key each, so that no partition is asked for more than the others.
struct ScatteredCreates {
    creates: Creates,
    round: usize,
}

impl Requests for ScatteredCreates {
    fn next(&self, connection: usize, number: u64, out: &mut Vec<u8>) {
        let key = (number * CONNECTIONS as u64 + connection as u64) % KEYS;
        let id = format!("r{}-{connection}-{number}", self.round);
        self.creates.request(&id, &format!("spread-{key}"), out);
    }

    fn expected_status(&self) -> u16 {
        201
    }
}

fn measure(options: &MeteringOptions, servers: &[ServerProcess]) -> Outcome<Rounds> {
    let signer = Signer::new(EMULATOR_KEY);
    let reads: Arc<dyn Requests> = Arc::new(Reads::new(&signer, options.items));
    let mut rounds = Rounds::default();
    for round in 0..options.rounds {
        let creates: Arc<dyn Requests> =
            Arc::new(ScatteredCreates { creates: Creates::new(&signer, ""), round });
        for (requests, contestants) in [&reads, &creates].into_iter().zip(&mut rounds) {
            for turn in 0..servers.len() {
                let at = (turn + round) % servers.len();
                let (server, time) = (&servers[at], Duration::from_secs(options.seconds));
                let (address, process) = (server.address(), server.process_id());
                contestants[at].push(load::drive(address, CONNECTIONS, time, requests.clone(), process)?);
            }
        }
        eprintln!("round {} of {} done", round + 1, options.rounds);
    }
    Ok(rounds)
}

/// The excess of a contestant over the yardstick in percent: sorted, one for each round.
fn excess(contestants: &[Vec<Measured>], at: usize, value: fn(&Measured) -> f64) -> Vec<f64> {
    assert_eq!(
        contestants[at].len(),
        contestants[YARDSTICK].len(),
        "contestants are compared in pairs of rounds"
    );
    let pairs = contestants[at].iter().zip(&contestants[YARDSTICK]);
    let mut all: Vec<f64> = pairs.map(|(one, other)| (value(one) / value(other) - 1.0) * 100.0).collect();
    all.sort_by(f64::total_cmp);
    all
}

/// Goals of metering next to the measured figures.
fn costs(rounds: &Rounds) -> Outcome<String> {
    let mut out = String::from(
        "| compared with *unmetered* | asked | operations/s: median (lowest, highest) | server CPU: median (lowest, highest) |\n|---|---:|---:|---:|\n",
    );
    for (operation, contestants) in OPERATIONS.iter().zip(rounds) {
        for (at, (name, _)) in CONTESTANTS.iter().enumerate().filter(|(at, _)| *at != YARDSTICK) {
            let asked = if at == 0 { "≥ −3 %" } else { "–" };
            let spread = |value| {
                let all = excess(contestants, at, value);
                let shown = |at: usize| all.get(at).copied().unwrap_or(f64::NAN);
                let last = all.len().saturating_sub(1);
                format!("{:+.1} % ({:+.1}, {:+.1})", shown(all.len() / 2), shown(0), shown(last))
            };
            let (speed, cpu) = (spread(|one| one.per_second), spread(|one| one.cpu_us));
            writeln!(out, "| {operation}, {name} | {asked} | {speed} | {cpu} |")?;
        }
    }
    Ok(out)
}

fn medians(rounds: &Rounds) -> Outcome<String> {
    let mut out = String::from(
        "| operation | server | ops/s | p50 µs | p99 µs | server CPU µs/op |\n|---|---|---:|---:|---:|---:|\n",
    );
    for (operation, contestants) in OPERATIONS.iter().zip(rounds) {
        for ((name, _), results) in CONTESTANTS.iter().zip(contestants) {
            let Measured { per_second, p50_us, p99_us, cpu_us } = report::median(results);
            writeln!(
                out,
                "| {operation} | {name} | {per_second:.0} | {p50_us:.0} | {p99_us:.0} | {cpu_us:.2} |"
            )?;
        }
    }
    Ok(out)
}
