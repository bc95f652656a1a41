//! Kills the server with SIGKILL under sixteen writers, restarts it, and looks for a broken promise.
//!
//! Every writer owns one logical partition and keeps a model of it: what was acknowledged, and the one change that was in
//! flight when the connection broke. After the restart each acknowledged write must be there; the change in flight must
//! be there wholly or not at all, a batch of several items included; and no LSN of a partition may be given out twice,
//! nor may a later commit get a smaller one than an acknowledged earlier commit. At last `shardlake verify` walks the
//! directory. A second test has partitions split, merged and moved at random meanwhile. `SHARDLAKE_KILL_CYCLES` sets the number of kills (3 by default, 20 in CI, more by hand) and
//! `SHARDLAKE_SEED` repeats the choices of a run, though not its timing.
//!
//! SIGKILL leaves the page cache of the operating system alone, so this proves the order of acknowledgement and
//! journal, not the sync itself; that is what the fault-injecting storage of the engine's own tests is for.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::print_stdout)] // a test, and its report

use serde_json::{Value, json};
use shardlake_stdx::{Clock, Random};
use shardlake_testkit::{
    Client, Request, Response, ServerOptions, ServerProcess, container_path, item_path, items_path,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const DATABASE: &str = "durability";
const CONTAINER: &str = "ledger";
const COUNTER: &str = "counter";
const WRITERS: u64 = 16;
/// A kill before anything was acknowledged would prove nothing.
const ACKNOWLEDGED_MIN: u64 = 200;
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn acknowledged_writes_survive_kill_9() {
    let _begun = survive_kills(Partitions::StayWhereTheyAre);
}

#[test]
fn acknowledged_writes_survive_kill_9_while_partitions_split_merge_and_move() {
    let begun = survive_kills(Partitions::Move);
    assert!(begun > 0, "nothing moved");
}

/// What partitions do while the server is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Partitions {
    StayWhereTheyAre,
    Move,
}

/// Returns how many splits, merges and moves were begun.
fn survive_kills(partitions: Partitions) -> u64 {
    let cycles = number_from_environment("SHARDLAKE_KILL_CYCLES").unwrap_or(3);
    let seed =
        number_from_environment("SHARDLAKE_SEED").unwrap_or_else(|| Clock::System.now().milliseconds());
    println!("{cycles} cycles, SHARDLAKE_SEED={seed}");
    let random = Random::seeded(seed);
    // Its two partitions lie on a shard each.
    let mut server = ServerOptions::new(env!("CARGO_BIN_EXE_shardlake"))
        .argument("--shards=2")
        .argument("--throughput=unlimited")
        .start();
    create_ledger(&server.client());
    let mut writers: Vec<Writer> = (0..WRITERS).map(|number| Writer::new(number, &random)).collect();
    let mut commits = CommitNumbers::default();
    let mut begun = 0;

    for cycle in 1..=cycles {
        begun += write_until_killed(&mut server, &mut writers, &random, partitions);
        let acknowledged = commits.record_cycle(&mut writers);
        if cycle % 2 == 1 {
            expect_verified(&server); // recovery by `verify` and recovery by `serve` take turns
        }
        server.restart();
        let client = server.client();
        let in_flight = writers.iter().filter(|writer| writer.in_flight.is_some()).count();
        let applied =
            for_each_writer(&mut writers, &client, |writer, client| writer.settle_and_check(client));
        println!(
            "cycle {cycle} ok: {acknowledged} acknowledged, {in_flight} in flight, {applied} of them applied; {begun} motions so far"
        );
    }

    let client = server.client();
    let items = for_each_writer(&mut writers, &client, |writer, client| writer.check_everything(client));
    println!("{items} items read back");
    let status = server.terminate(PATIENCE);
    assert!(status.success(), "SIGTERM ended the server with {status}");
    expect_verified(&server);
    begun
}

fn create_ledger(client: &Client) {
    let _created = client.create_database(DATABASE).expect_status(201);
    let key = json!({ "paths": ["/owner"], "kind": "Hash", "version": 2 });
    let body = json!({ "id": CONTAINER, "partitionKey": key });
    // 12,000 RU/s are two physical partitions: LSNs are kept apart per partition.
    let headers = [("x-ms-offer-throughput", "12000")];
    let _created = client.create_container_of(DATABASE, &body, &headers).expect_status(201);
}

fn write_until_killed(
    server: &mut ServerProcess,
    writers: &mut [Writer],
    random: &Random,
    partitions: Partitions,
) -> u64 {
    let (acknowledged, begun) = (AtomicU64::new(0), AtomicU64::new(0));
    let clients: Vec<Client> = writers.iter().map(|_| server.client()).collect();
    std::thread::scope(|scope| {
        for (writer, client) in writers.iter_mut().zip(clients) {
            let acknowledged = &acknowledged;
            scope.spawn(move || writer.write_until_error(&client, acknowledged));
        }
        if partitions == Partitions::Move {
            let (client, begun) = (server.client(), &begun);
            scope.spawn(move || move_until_error(&client, random, begun));
        }
        let started = Clock::System.elapsed();
        while acknowledged.load(Ordering::Relaxed) < ACKNOWLEDGED_MIN {
            assert!(Clock::System.elapsed() - started < PATIENCE, "writers are stuck");
            std::thread::sleep(Duration::from_millis(1));
        }
        let pause_us = if partitions == Partitions::Move { 1_500_000 } else { 400_000 };
        std::thread::sleep(Duration::from_micros(random.below(pause_us)));
        server.kill();
    });
    begun.into_inner()
}

/// Splits, merges and moves partitions at random, as an operator would, until the connection breaks.
fn move_until_error(client: &Client, random: &Random, begun: &AtomicU64) {
    loop {
        let Ok(ranges) =
            client.try_request("GET", &format!("{}/pkranges", container_path(DATABASE, CONTAINER)), &[], b"")
        else {
            return;
        };
        let ranges = ranges.expect_status(200).json();
        let ids: Vec<&str> = ranges["PartitionKeyRanges"]
            .as_array()
            .unwrap()
            .iter()
            .map(|range| range["id"].as_str().unwrap())
            .collect();
        let at = random.below(ids.len() as u64) as usize;
        let (action, body) = match random.below(3) {
            0 => (format!("{}/move", ids[at]), json!({ "shard": random.below(2) })),
            _ if ids.len() > 5 || (at > 0 && random.below(3) == 0) => {
                let at = at.max(1);
                ("merge".to_owned(), json!({ "ids": [ids[at - 1], ids[at]] }))
            }
            _ => (format!("{}/split", ids[at]), json!({ "at": "middle" })),
        };
        let path = format!("/_shardlake/v1/dbs/{DATABASE}/colls/{CONTAINER}/partitions/{action}");
        let body = body.to_string();
        let request = Request {
            method: "POST",
            path: &path,
            headers: &[],
            body: body.as_bytes(),
            resource: Some(("shardlake", &path[1..])),
        };
        match client.send(&request) {
            // It is on that shard already; or another is at work; or one ended between the two requests.
            Ok(response) if matches!(response.status, 400 | 409 | 410) => {}
            Ok(response) => {
                let _begun = response.expect_status(202);
                begun.fetch_add(1, Ordering::Relaxed);
            }
            Err(_) => return,
        }
        std::thread::sleep(Duration::from_millis(random.below(20)));
    }
}

/// Runs `step` for all writers at once and adds up what they return.
fn for_each_writer(
    writers: &mut [Writer],
    client: &Client,
    step: fn(&mut Writer, &Client) -> usize,
) -> usize {
    std::thread::scope(|scope| {
        let running: Vec<_> = writers
            .iter_mut()
            .map(|writer| {
                let client = client.clone();
                scope.spawn(move || step(writer, &client))
            })
            .collect();
        running.into_iter().map(|thread| thread.join().unwrap()).sum()
    })
}

fn expect_verified(server: &ServerProcess) {
    let output = server.verify();
    assert!(
        output.status.success(),
        "verify: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

fn number_from_environment(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")))
}

/// What one commit changes: item ids and the version each gets. More than one item means a batch.
#[derive(Debug, Clone)]
struct Change {
    versions: Vec<(String, u64)>,
    creates: bool,
}

struct Writer {
    owner: String,
    random: Random,
    /// Acknowledged state of the logical partition.
    expected: BTreeMap<String, u64>,
    /// Ids written since the last check.
    touched: BTreeSet<String>,
    /// (physical partition, LSN) of every commit acknowledged in this cycle.
    commits: Vec<(String, u64)>,
    in_flight: Option<Change>,
    version: u64,
}

impl Writer {
    fn new(number: u64, random: &Random) -> Writer {
        Writer {
            owner: format!("writer-{number:02}"),
            random: Random::seeded(random.u64()),
            expected: BTreeMap::new(),
            touched: BTreeSet::new(),
            commits: Vec::new(),
            in_flight: None,
            version: 0,
        }
    }

    fn write_until_error(&mut self, client: &Client, acknowledged: &AtomicU64) {
        loop {
            let change = self.next_change();
            match self.send(client, &change) {
                Ok(response) if response.status == 429 => std::thread::sleep(Duration::from_millis(5)),
                Ok(response) => {
                    self.commits.push(commit_of(&response, &change));
                    self.accept(&change);
                    acknowledged.fetch_add(1, Ordering::Relaxed);
                }
                Err(_) => {
                    self.touched.extend(change.versions.iter().map(|(id, _)| id.clone()));
                    self.in_flight = Some(change);
                    return;
                }
            }
        }
    }

    fn next_change(&mut self) -> Change {
        self.version += 1;
        let version = self.version;
        match self.random.below(4) {
            0 => {
                let mut versions: Vec<_> =
                    (0..3).map(|part| (format!("batch-{version}-{part}"), version)).collect();
                versions.push((COUNTER.to_owned(), version));
                Change { versions, creates: true }
            }
            1 if !self.expected.is_empty() => {
                let nth = self.random.below(self.expected.len() as u64) as usize;
                let id = self.expected.keys().nth(nth).unwrap().clone();
                Change { versions: vec![(id, version)], creates: false }
            }
            _ => Change { versions: vec![(format!("single-{version}"), version)], creates: true },
        }
    }

    fn send(&self, client: &Client, change: &Change) -> std::io::Result<Response> {
        let key = json!([self.owner]);
        let headers = [("x-ms-documentdb-partitionkey", &*key.to_string())];
        match change.versions.as_slice() {
            [(id, version)] => {
                let body = self.item(id, *version).to_string();
                let create = ("POST", items_path(DATABASE, CONTAINER));
                let replace = ("PUT", item_path(DATABASE, CONTAINER, id));
                let (method, path) = if change.creates { create } else { replace };
                client.try_request(method, &path, &headers, body.as_bytes())
            }
            several => {
                let operations: Vec<Value> = several
                    .iter()
                    .map(|(id, version)| {
                        let operation = if id == COUNTER { "Upsert" } else { "Create" };
                        json!({ "operationType": operation, "id": id, "resourceBody": self.item(id, *version) })
                    })
                    .collect();
                client.try_batch(DATABASE, CONTAINER, &key, &json!(operations))
            }
        }
    }

    fn item(&self, id: &str, version: u64) -> Value {
        json!({ "id": id, "owner": self.owner, "version": version, "filler": "x".repeat(300) })
    }

    fn accept(&mut self, change: &Change) {
        for (id, version) in &change.versions {
            self.touched.insert(id.clone());
            self.expected.insert(id.clone(), *version);
        }
    }

    /// Finds out what became of the change in flight, then reads everything this cycle wrote. Returns 1 if it was applied.
    fn settle_and_check(&mut self, client: &Client) -> usize {
        let applied = self.in_flight.take().is_some_and(|change| self.settle(client, &change));
        for id in std::mem::take(&mut self.touched) {
            self.check(client, &id);
        }
        usize::from(applied)
    }

    fn settle(&mut self, client: &Client, change: &Change) -> bool {
        let applied: Vec<bool> = change
            .versions
            .iter()
            .map(|(id, version)| {
                let found = self.stored_version(client, id);
                let before = self.expected.get(id).copied();
                let known = found == Some(*version) || found == before;
                assert!(known, "{}/{id}: found {found:?}, had {before:?}, sent {version}", self.owner);
                found == Some(*version)
            })
            .collect();
        assert!(
            applied.windows(2).all(|pair| pair[0] == pair[1]),
            "torn batch of {}: {change:?} {applied:?}",
            self.owner
        );
        if applied[0] {
            self.accept(change);
        }
        applied[0]
    }

    fn check_everything(&mut self, client: &Client) -> usize {
        let ids: Vec<String> = self.expected.keys().cloned().collect();
        ids.iter().for_each(|id| self.check(client, id));
        ids.len()
    }

    fn check(&self, client: &Client, id: &str) {
        let (found, expected) = (self.stored_version(client, id), self.expected.get(id).copied());
        assert_eq!(found, expected, "acknowledged write of {}/{id} is not there", self.owner);
    }

    fn stored_version(&self, client: &Client, id: &str) -> Option<u64> {
        let response = client.read_item(DATABASE, CONTAINER, &json!([self.owner]), id);
        if response.status == 404 {
            return None;
        }
        let item = response.expect_status(200).json();
        assert_eq!(item["filler"].as_str().map(str::len), Some(300), "damaged item {item}");
        item["version"].as_u64()
    }
}

/// The physical partition and LSN of an acknowledged change.
fn commit_of(response: &Response, change: &Change) -> (String, u64) {
    assert!(matches!(response.status, 200 | 201), "{change:?} was answered with {response}");
    if change.versions.len() > 1 {
        let results = response.json();
        let statuses: Vec<u64> =
            results.as_array().unwrap().iter().filter_map(|one| one["statusCode"].as_u64()).collect();
        let good = statuses.len() == change.versions.len() && statuses.iter().all(|status| *status < 300);
        assert!(good, "{change:?} was answered with {response}");
    }
    let partition =
        response.header("x-ms-documentdb-partitionkeyrangeid").expect("writes name their partition");
    (partition.to_owned(), response.lsn().expect("writes have an LSN"))
}

/// Every LSN ever acknowledged, per physical partition.
#[derive(Default)]
struct CommitNumbers {
    highest: BTreeMap<String, u64>,
}

impl CommitNumbers {
    /// Takes over the commits of one cycle: distinct, and all above those of the cycles before. Returns how many.
    fn record_cycle(&mut self, writers: &mut [Writer]) -> usize {
        let mut seen = BTreeSet::new();
        let mut highest = self.highest.clone();
        for writer in writers {
            let mut previous = 0;
            for (partition, lsn) in writer.commits.drain(..) {
                let before_the_kill = self.highest.get(&partition).copied().unwrap_or(0);
                assert!(
                    lsn > before_the_kill,
                    "partition {partition} gave out LSN {lsn} after {before_the_kill}"
                );
                assert!(lsn > previous, "a writer's later commit got LSN {lsn} after {previous}");
                assert!(
                    seen.insert((partition.clone(), lsn)),
                    "partition {partition} gave out LSN {lsn} twice"
                );
                previous = lsn;
                let top = highest.entry(partition).or_default();
                *top = lsn.max(*top);
            }
        }
        self.highest = highest;
        seen.len()
    }
}
