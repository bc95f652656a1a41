//! The point benchmark: contestants alternate at reads and at durable creates.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use shardlake_testkit::{EMULATOR_KEY, Request, ServerOptions, ServerProcess};

use crate::load::{self, Measured};
use crate::postgres::Postgres;
use crate::publish::publish;
use crate::report::{self, Line};
use crate::requests::Requests;
use crate::workload::{CONTAINER, Creates, DATABASE, Reads, Signer};
use crate::{Outcome, PointOptions, cpu, loading, million};

const READ_CONNECTIONS: [usize; 2] = [16, 64];
const CREATE_CONNECTIONS: [usize; 3] = [1, 16, 64];

pub fn run(options: &PointOptions) -> Outcome {
    let machine = report::machine();
    let directory = tempfile::TempDir::with_prefix("shardlake-bench-")?;
    let (server, start_ms) = start(&options.server, directory.path());
    let idle = cpu::resident_megabytes(server.process_id());
    eprintln!("loading {} items", options.items);
    loading::load(&server, options.items)?;
    let loaded = cpu::resident_megabytes(server.process_id());
    let ideal = Ideal::start(&server, directory.path())?;
    let postgres = Postgres::start(options.items)?;
    let lines = measure(options, &server, &ideal, postgres.as_ref())?;
    let mut text = format!(
        "Machine: {machine}. {} rounds of {} s each, medians; contestants take turns.\n\n{}\n- Start to ready on an empty directory: {start_ms} ms.\n- RSS idle after start: {idle:.0} MB; after loading {} items: {loaded:.0} MB.\n",
        options.rounds,
        options.seconds,
        report::table(&lines),
        options.items
    );
    drop((server, ideal, postgres));
    if options.million {
        million::measure(options, &mut text)?;
    }
    publish(options.publish.as_ref(), &text)
}

fn start(binary: &Path, directory: &Path) -> (ServerProcess, u128) {
    let started = Instant::now();
    let server = ServerOptions::new(binary).data_dir(directory.join("data")).start();
    (server, started.elapsed().as_millis())
}

/// The ideal handler in a process of its own.
pub struct Ideal {
    process: Child,
    pub address: SocketAddr,
}

impl Ideal {
    /// Starts the ideal handler with one of the server's replies.
    pub fn start(server: &ServerProcess, directory: &Path) -> Outcome<Ideal> {
        let client = server.client();
        let path = format!("/dbs/{DATABASE}/colls/{CONTAINER}/docs/item-0");
        let request = Request {
            method: "GET",
            path: &path,
            resource: None,
            headers: &[("x-ms-documentdb-partitionkey", "[\"key-0\"]"), ("connection", "close")],
            body: b"",
        };
        let mut raw = client.raw()?;
        raw.send(&client.signed_bytes(&request))?;
        let reply = directory.join("reply");
        std::fs::write(&reply, raw.read_to_end()?)?;
        let mut process = Command::new(std::env::current_exe()?)
            .arg("ideal-handler")
            .arg(&reply)
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        BufReader::new(process.stdout.take().expect("it was piped")).read_line(&mut line)?;
        Ok(Ideal { process, address: line.trim().parse()? })
    }

    pub fn process_id(&self) -> u32 {
        self.process.id()
    }
}

impl Drop for Ideal {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn measure(
    options: &PointOptions,
    server: &ServerProcess,
    ideal: &Ideal,
    postgres: Option<&Postgres>,
) -> Outcome<Vec<Line>> {
    let signer = Signer::new(EMULATOR_KEY);
    let reads: Arc<dyn Requests> = Arc::new(Reads::new(&signer, options.items));
    let duration = Duration::from_secs(options.seconds);
    let mut lines: Vec<Line> = Vec::new();
    for round in 0..options.rounds {
        for connections in READ_CONNECTIONS {
            let mut note =
                |contestant, measured| add(&mut lines, ("point read", connections, contestant), measured);
            let reads = || reads.clone();
            let (address, process) = (server.address(), server.process_id());
            note("shardlake", load::drive(address, connections, duration, reads(), process)?);
            note(
                "ideal handler",
                load::drive(ideal.address, connections, duration, reads(), ideal.process.id())?,
            );
            if let Some(postgres) = postgres {
                note("PostgreSQL 15", postgres.reads(connections, options.seconds, options.items)?);
            }
        }
        for connections in CREATE_CONNECTIONS {
            let mut note =
                |contestant, measured| add(&mut lines, ("durable create", connections, contestant), measured);
            let creates = Arc::new(Creates::new(&signer, format!("r{round}c{connections}")));
            note(
                "shardlake",
                load::drive(server.address(), connections, duration, creates, server.process_id())?,
            );
            if let Some(postgres) = postgres {
                note("PostgreSQL 15", postgres.creates(connections, options.seconds)?);
            }
        }
        eprintln!("round {} of {} done", round + 1, options.rounds);
    }
    Ok(lines)
}

pub fn add(lines: &mut Vec<Line>, place: (&'static str, usize, &'static str), measured: Measured) {
    let (operation, connections, contestant) = place;
    let is_same = |line: &&mut Line| (line.operation, line.connections, line.contestant) == place;
    match lines.iter_mut().find(is_same) {
        Some(line) => line.rounds.push(measured),
        None => lines.push(Line { operation, connections, contestant, rounds: vec![measured] }),
    }
}
