//! Cycles of work, kill -9, restart and judgement.

use crate::choose::Numbers;
use crate::clients::{Cycle, Estate, Owner};
use crate::commits::CommitNumbers;
use crate::difference::Breach;
use crate::model::{Definition, Operation, Place};
use crate::motion::Operator;
use crate::observe;
use crate::requests::wire_of;
use crate::server_binary;
use crate::tally::Tally;
use crate::weather::{LOOK_AGAIN, Weather};
use shardlake_stdx::{Clock, Random};
use shardlake_testkit::bucket::{self, Fault};
use shardlake_testkit::{Client, FaultProxy, HANG, ServerOptions, ServerProcess};
use std::ffi::OsStr;
use std::panic::AssertUnwindSafe;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tempfile::TempDir;

const LEDGER: &str = "ledger";
const WRITERS: usize = 16;
const DEFINERS: usize = 5;
/// A kill before anything was acknowledged would prove nothing.
const ACKNOWLEDGED_MIN: u64 = 200;
const DEFINED_MIN: u64 = 15;
/// Only a server that hangs takes as long; no verdict depends on it.
const PATIENCE: Duration = Duration::from_secs(60);
const DELAYS_MS: [u64; 5] = [0, 0, 2, 5, 15];
/// How many runs share the cycles of `SHARDLAKE_KILL_CYCLES`.
const RUNS: u64 = if cfg!(feature = "object-storage") { 5 } else { 4 };

/// Settings of the server in a run, and the events in the run.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    pub test: &'static str,
    pub durability: &'static str,
    pub shards: u16,
    pub partitions_move: bool,
    /// A small one sorts writes to disk, and drops journals, several times in a run.
    pub write_buffer: &'static str,
    /// Whether the account lies in a store next to the data directory.
    pub is_stored: bool,
}

impl Plan {
    fn arguments(&self, store: &Store) -> Vec<String> {
        let mut arguments =
            vec![format!("--shards={}", self.shards), format!("--write-buffer-size={}", self.write_buffer)];
        if self.is_stored {
            // A start that is killed before it has noted that it owns the account makes the next one wait for so long. Gateways
            // on a busy machine take seconds for an answer.
            let lease = if store.url.starts_with("file:") { 4 } else { 15 };
            arguments.extend([format!("--store={}", store.url), format!("--lease={lease}")]);
            arguments.extend(store.further.iter().cloned());
        }
        arguments
    }
}

/// How a cycle's work ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Kill,
    /// SIGTERM: the server answers the requests in progress, and closes.
    Stop,
}

/// Where an account is put that lies in a store.
struct Store {
    url: String,
    /// A cache, and in every other run a store of its own for the log.
    further: Vec<String>,
    /// Before a store that speaks S3's protocol, if it is to fail.
    proxy: Option<FaultProxy>,
    _directory: TempDir,
}

impl Store {
    fn new(random: &Random) -> Store {
        let directory = TempDir::with_prefix("shardlake-store-").unwrap();
        let cache = format!("--disk-cache={}", directory.path().join("cache").display());
        if let Ok(url) = std::env::var("SHARDLAKE_TEST_STORE") {
            let (url, proxy) = (format!("{url}/{}", random.guid()), failing());
            return Store { url, further: vec![cache], proxy, _directory: directory };
        }
        let place = |name: &str| format!("file://{}", directory.path().join(name).display());
        let log = format!("--wal-store={}", place("log"));
        let further = if random.below(2) == 0 { vec![cache, log] } else { vec![cache] };
        Store { url: place("account"), further, proxy: None, _directory: directory }
    }

    /// The server's requests go through the proxy; those of the harness and of `verify` do not.
    fn over(&self, options: ServerOptions) -> ServerOptions {
        // A store on a busy disk, too, may take longer than a renewal waits for it.
        let options = options.may_log("the lease could not be renewed");
        let Some(proxy) = &self.proxy else { return options };
        let mut options = options.may_log("the object store does not answer");
        let endpoint = format!("http://{}", proxy.address());
        options.environment.push(("AWS_ENDPOINT".into(), endpoint.into()));
        options
    }
}

/// One request in so many of `SHARDLAKE_TEST_FAULTS` fails, is answered with something else than was done, or not at all.
fn failing() -> Option<FaultProxy> {
    let one_in = number_from_environment("SHARDLAKE_TEST_FAULTS")?;
    let endpoint = std::env::var("AWS_ENDPOINT").expect("faults are for a store that AWS_ENDPOINT names");
    let address = endpoint.trim_start_matches("http://").trim_end_matches('/');
    let proxy = FaultProxy::before(address.parse().expect("an address of loopback"));
    let faults =
        vec![Fault::Status(503), Fault::AnswerLost, Fault::Reset, Fault::ClaimsFailure, Fault::Status(500)];
    let delay = Duration::from_millis(1);
    proxy.set(bucket::Weather { delay, one_in, faults, is_silent: false });
    Some(proxy)
}

struct Run {
    plan: Plan,
    seed: u64,
    random: Random,
    numbers: Numbers,
    weather: Option<Weather>,
    clients_hang_up: bool,
    server: ServerProcess,
    store: Store,
    owners: Vec<Owner>,
    commits: CommitNumbers,
    tally: Tally,
}

/// # Panics
/// When a promise was broken; the message has the seed, the cycle and the operations.
pub fn survive_kills(plan: Plan) -> Tally {
    let cycles = number_from_environment("SHARDLAKE_KILL_CYCLES").unwrap_or(2 * RUNS).div_ceil(RUNS);
    let mut run = Run::start(plan);
    println!("{cycles} cycles of {plan:?}, SHARDLAKE_SEED={}", run.seed);
    for cycle in 1..=cycles {
        if run.random.below(4) == 0 {
            run.work_until(Ending::Stop);
            run.restart_and_settle(cycle);
        }
        run.work_until(Ending::Kill);
        if cycle % 2 == 1 {
            run.verify(); // recovery by `verify` and recovery by `serve` take turns
        }
        run.kill_in_recovery();
        run.restart_and_settle(cycle);
        run.end_cycle(cycle);
    }
    let status = run.server.terminate(PATIENCE);
    assert!(status.success(), "SIGTERM ended the server with {status}");
    run.verify();
    run.tally.add("cycles", cycles);
    if let Some(proxy) = &run.store.proxy {
        let (requests, faults) = proxy.counts();
        println!("{faults} of {requests} requests to the store met a fault");
        assert!(faults > 0, "no request met a fault");
    }
    println!("{plan:?}, SHARDLAKE_SEED={}:\n{}", run.seed, run.tally);
    run.judge(cycles);
    run.tally
}

impl Run {
    fn start(plan: Plan) -> Run {
        let seed =
            number_from_environment("SHARDLAKE_SEED").unwrap_or_else(|| Clock::System.now().milliseconds());
        let random = Random::seeded(seed);
        let weather = Weather::new(plan.test);
        let store = Store::new(&random);
        let options = ServerOptions::new(crate::server_binary())
            .durability(plan.durability)
            .argument("--throughput=unlimited");
        let options = plan.arguments(&store).into_iter().fold(options, ServerOptions::argument);
        let options = match &weather {
            Some(weather) => weather.over(options),
            None => options,
        };
        let server = if plan.is_stored { store.over(options) } else { options }.start();
        let ledger = Place { database: LEDGER.to_owned(), container: LEDGER.to_owned() };
        create_ledger(&server.client(), &ledger);
        let mut owners = Vec::new();
        for number in 0..WRITERS {
            let partition = format!("writer-{number:02}");
            let state = observe::logical_partition(&server.client(), &ledger, &partition);
            let estate = Estate::LogicalPartition { at: ledger.clone(), partition: partition.clone() };
            owners.push(Owner::new(partition, estate, &random, state));
        }
        for number in 0..DEFINERS {
            let names = vec![format!("d{number}a"), format!("d{number}b")];
            let state = observe::databases(&server.client(), &names);
            owners.push(Owner::new(format!("definer-{number}"), Estate::Databases(names), &random, state));
        }
        let (numbers, commits, tally) = Default::default();
        let clients_hang_up = std::env::var_os("SHARDLAKE_KILL_POLITE").is_none();
        Run { plan, seed, random, numbers, weather, clients_hang_up, server, store, owners, commits, tally }
    }

    fn work_until(&mut self, ending: Ending) {
        let delay = DELAYS_MS[self.random.below(DELAYS_MS.len() as u64) as usize];
        if let Some(weather) = &self.weather {
            weather.delay(Duration::from_millis(delay));
        }
        let (acknowledged, defined) = (AtomicU64::new(0), AtomicU64::new(0));
        let is_being_killed = AtomicBool::new(false);
        let operations_min = ACKNOWLEDGED_MIN + self.random.below(200);
        let definitions_min = DEFINED_MIN + self.random.below(20);
        let is_enough = || {
            acknowledged.load(Ordering::Relaxed) >= operations_min
                && defined.load(Ordering::Relaxed) >= definitions_min
        };
        let operator = self.plan.partitions_move.then(|| {
            let (client, random) = (self.server.client(), Random::seeded(self.random.u64()));
            let (shards, weather, places) = (self.plan.shards, self.weather.as_ref(), places_to_move());
            let hangs_up = self.clients_hang_up;
            Operator { client, random, shards, weather, places, hangs_up }
        });
        let (server, weather, numbers) = (&mut self.server, self.weather.as_ref(), &self.numbers);
        let (random, clients_hang_up) = (&self.random, self.clients_hang_up);
        let moved = std::thread::scope(|scope| {
            let running: Vec<_> = self
                .owners
                .iter_mut()
                .map(|owner| {
                    let client = server.client();
                    let (acknowledged, defined) = (&acknowledged, &defined);
                    let is_being_killed = &is_being_killed;
                    let cycle = Cycle {
                        client,
                        numbers,
                        weather,
                        clients_hang_up,
                        acknowledged,
                        defined,
                        is_being_killed,
                    };
                    scope.spawn(move || owner.work_until_killed(&cycle))
                })
                .collect();
            let moving = operator.map(|operator| scope.spawn(move || operator.move_until_killed()));
            let started = Clock::System.elapsed();
            while !is_enough() && !running.iter().all(|one| one.is_finished()) {
                assert!(Clock::System.elapsed() - started < HANG, "clients are stuck");
                std::thread::sleep(LOOK_AGAIN);
            }
            if ending == Ending::Kill {
                wait_for_a_moment_to_kill(weather, random);
            }
            is_being_killed.store(true, Ordering::SeqCst);
            match ending {
                Ending::Kill => server.kill(),
                Ending::Stop => {
                    let status = server.terminate(PATIENCE);
                    assert!(status.success(), "SIGTERM ended the server with {status}");
                }
            }
            moving.map(|moving| moving.join().expect("the operator met no surprise"))
        });
        self.tally.take_over(moved.unwrap_or_default());
        self.tally.count(if ending == Ending::Kill { "kills under clients" } else { "stops under clients" });
        if let Some(weather) = &self.weather {
            weather.server_was_killed();
            weather.delay(Duration::ZERO);
        }
    }

    /// Kills some starts at a random time of the recovery.
    fn kill_in_recovery(&mut self) {
        for _ in 0..self.random.below(3) {
            let mut command = Command::new(crate::server_binary());
            for (name, _) in std::env::vars_os().filter(|(name, _)| is_ours(name)) {
                command.env_remove(name);
            }
            command
                .args(["serve", "--listen=127.0.0.1:0"])
                .arg(format!("--durability={}", self.plan.durability))
                .args(self.plan.arguments(&self.store))
                .arg("--data-dir")
                .arg(self.server.data_dir())
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            let mut server = command.spawn().expect("a server that started before starts again");
            std::thread::sleep(Duration::from_micros(self.random.below(150_000)));
            server.kill().expect("a process we have not waited for can be killed");
            server.wait().expect("our own child can be waited for");
            self.tally.count("kills in or after a recovery");
        }
    }

    /// A server that does not start has lost everything.
    fn restart_and_settle(&mut self, cycle: u64) {
        let restarted = std::panic::catch_unwind(AssertUnwindSafe(|| self.server.restart()));
        if let Err(reason) = restarted {
            let reason = reason.downcast_ref::<String>().cloned().unwrap_or_default();
            self.tally.breach(Breach::Lost, format!("the server does not start: {reason}"));
            self.end_cycle(cycle);
            self.judge(cycle);
        }
        self.settle();
    }

    fn settle(&mut self) {
        self.for_each_owner(Owner::settle);
        let client = self.server.client();
        if let Some(stray) = observe::strays(&client, |name| name == LEDGER || name.starts_with('d')) {
            self.tally.breach(Breach::Extra, stray);
        }
        // Nothing of one container may go with another.
        if self.random.below(2) == 0 {
            let chosen = self.random.below(self.owners.len() as u64) as usize;
            if self.owners.iter_mut().skip(chosen).any(|owner| owner.delete_a_container(&client)) {
                self.tally.count("containers deleted after a restart");
                self.for_each_owner(Owner::settle);
            }
        }
    }

    /// A client that cannot even read is a finding like any other.
    fn for_each_owner(&mut self, step: fn(&mut Owner, &Client)) {
        let server = &self.server;
        let panicked: Vec<String> = std::thread::scope(|scope| {
            let running: Vec<_> = self
                .owners
                .iter_mut()
                .map(|owner| {
                    let (name, client) = (owner.name.clone(), server.client());
                    (name, scope.spawn(move || step(owner, &client)))
                })
                .collect();
            let ended = running.into_iter().map(|(name, thread)| (name, thread.join()));
            ended.filter(|(_, result)| result.is_err()).map(|(name, _)| name).collect()
        });
        for name in panicked {
            self.tally.breach(Breach::Answer, format!("{name} could not read what is stored, see above"));
        }
    }

    fn verify(&mut self) {
        let output = match self.plan.is_stored {
            true => Command::new(server_binary()).args(["verify", &self.store.url]).output().unwrap(),
            false => self.server.verify(),
        };
        self.tally.count("runs of verify");
        if !output.status.success() {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let said = text(&output.stdout) + &text(&output.stderr);
            let problems: Vec<&str> = said.lines().filter(|line| line.contains("PROBLEM")).collect();
            let problems = if problems.is_empty() { said } else { problems.join("\n") };
            self.tally.breach(Breach::Verify, format!("{}\n{problems}", output.status));
        }
    }

    fn end_cycle(&mut self, cycle: u64) {
        let acknowledged = self.commits.record_cycle(&mut self.owners);
        for owner in &mut self.owners {
            self.tally.take_over(std::mem::take(&mut owner.tally));
        }
        let findings = self.tally.findings.len();
        if findings == 0 {
            println!(
                "cycle {cycle} ok: {acknowledged} commits of the ledger and {} operations in all acknowledged, {} hung up",
                self.tally.acknowledged_in_all(),
                self.tally.get("hung up")
            );
        } else {
            println!("cycle {cycle} of seed {} broke promises, {findings} findings so far", self.seed);
            if std::env::var_os("SHARDLAKE_KILL_GO_ON").is_none() {
                println!("{}", self.tally);
                self.judge(cycle);
            }
        }
    }

    fn judge(&self, cycle: u64) {
        let findings = &self.tally.findings;
        assert!(
            findings.is_empty(),
            "{:?}, SHARDLAKE_SEED={}, up to cycle {cycle}: {} findings, the first of them\n{}",
            self.plan,
            self.seed,
            findings.len(),
            findings[..findings.len().min(20)].join("\n")
        );
    }
}

/// The ledger mostly, at times a container that is created and deleted.
fn places_to_move() -> Vec<Place> {
    let place = |database: String, container: &str| Place { database, container: container.to_owned() };
    let others = (0..DEFINERS).flat_map(|number| ["a", "b"].map(|letter| format!("d{number}{letter}")));
    let others = others.map(|database| place(database, "c0"));
    std::iter::once(place(LEDGER.to_owned(), LEDGER)).chain(others).collect()
}

/// Waits for one of three points in time: now, the middle of a sync, or a sync that never ends.
fn wait_for_a_moment_to_kill(weather: Option<&Weather>, random: &Random) {
    let Some(weather) = weather else { return };
    let choice = random.below(3);
    if choice == 0 {
        return;
    }
    if choice == 1 {
        weather.hold();
    }
    for _ in 0..200 {
        if weather.is_a_sync_under_way() {
            return;
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

/// Two partitions to begin with: 12,000 RU/s are more than one may serve.
fn create_ledger(client: &Client, at: &Place) {
    let _created = client.create_database(&at.database).expect_status(201);
    let definition = Definition { ttl: 1, excluded: 0 };
    let operation = Operation::CreateContainer { at: at.clone(), tag: 0, definition, throughput: 12_000 };
    let response = wire_of(&operation, None).send(client).expect("a server that runs answers");
    let _created = response.expect_status(201);
}

fn is_ours(name: &OsStr) -> bool {
    name.to_string_lossy().starts_with("SHARDLAKE_")
}

fn number_from_environment(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")))
}
