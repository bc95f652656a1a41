//! Starts after kill -9: a server with an archived log and two shards is killed under writes,
//! relocations and a backup, and started again. Each start must be ready in time.
//!
//! If a start is not ready in time, all evidence is kept: its log, in which the server reports its
//! steps and threads; stacks by a debugger where there is one; the kernel's state of each thread;
//! and the data directory as it was before the start.

use super::run::{Campaign, Choices};
use crate::Outcome;
use serde_json::{Value, json};
use shardlake_testkit::{Client, ReadyRecord, container_path};
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Longer than the server waits before it reports its threads.
const READY_MAX: Duration = Duration::from_secs(150);
/// Starts on one data directory, so that it stays small.
const STARTS_OF_A_DIRECTORY: u64 = 40;
const REPORT_EVERY: u64 = 25;
const WRITERS: u64 = 4;
const DEBUGGER_MAX: Duration = Duration::from_secs(60);

pub fn run(campaign: &Campaign) -> Outcome {
    let mut choices = Choices::of(campaign.seed);
    let mut tally = Tally::default();
    while campaign.goes_on(tally.starts()) {
        let place = Place::new()?;
        while campaign.goes_on(tally.starts()) {
            place.cycle(campaign, &mut choices, &mut tally)?;
            if tally.starts().is_multiple_of(STARTS_OF_A_DIRECTORY) {
                break;
            }
        }
        place.verify(campaign)?;
        tally.verified += 1;
    }
    println!("{} in {} s", tally.line(), campaign.elapsed().as_secs());
    Ok(())
}

#[derive(Default)]
struct Tally {
    ready: u64,
    killed_before: u64,
    verified: u64,
    times: Vec<Duration>,
}

impl Tally {
    fn starts(&self) -> u64 {
        self.ready + self.killed_before
    }

    fn line(&self) -> String {
        let mut times = self.times.clone();
        times.sort_unstable();
        let at =
            |part: usize| times.get(times.len() * part / 100).or(times.last()).copied().unwrap_or_default();
        format!(
            "{} starts after kill -9: {} ready, {} killed before; median {} ms, 99 % {} ms, slowest {} ms; {} directories verified",
            self.starts(),
            self.ready,
            self.killed_before,
            at(50).as_millis(),
            at(99).as_millis(),
            at(100).as_millis(),
            self.verified
        )
    }
}

/// A data directory and a place for backups.
struct Place {
    directory: TempDir,
}

impl Place {
    fn new() -> Outcome<Place> {
        Ok(Place { directory: TempDir::with_prefix("shardlake-starts-")? })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn cycle(&self, campaign: &Campaign, choices: &mut Choices, tally: &mut Tally) -> Outcome {
        let began = Instant::now();
        let mut server = Server::spawn(&campaign.binary, self)?;
        if self.path("data/account.json").exists() && choices.below(4) == 0 {
            thread::sleep(Duration::from_millis(choices.below(150)));
            server.kill()?;
            tally.killed_before += 1;
            return Ok(());
        }
        let Some(ready) = server.ready(READY_MAX) else {
            let kept = server.keep_evidence(campaign, self)?;
            return Err(format!(
                "a start was not ready after {} s, after {} starts: see {}",
                READY_MAX.as_secs(),
                tally.starts(),
                kept.display()
            )
            .into());
        };
        tally.times.push(began.elapsed());
        tally.ready += 1;
        let mut backup = (choices.below(2) == 0).then(|| self.backup(campaign, &ready)).transpose()?;
        let for_so_long = Duration::from_millis(150 + choices.below(700));
        work(&ready, choices.next(), for_so_long, || server.kill())?;
        if let Some(backup) = &mut backup {
            let _gone = backup.kill();
            let _reaped = backup.wait();
        }
        if tally.ready.is_multiple_of(REPORT_EVERY) {
            println!("{}", tally.line());
        }
        Ok(())
    }

    fn backup(&self, campaign: &Campaign, ready: &ReadyRecord) -> Outcome<Child> {
        let mut backup = program(&campaign.binary);
        backup.args(["backup", "create", "--endpoint", &ready.http, "--key", &ready.key, "--to"]);
        backup.arg(self.path("backups"));
        Ok(backup.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?)
    }

    fn verify(&self, campaign: &Campaign) -> Outcome {
        let output = program(&campaign.binary).arg("verify").arg(self.path("data")).output()?;
        if output.status.success() {
            return Ok(());
        }
        let kept = keep(campaign, self, "verify")?;
        fs::write(kept.join("verify.txt"), [output.stdout, output.stderr].concat())?;
        Err(format!("verify ended with {}: see {}", output.status, kept.display()).into())
    }
}

/// The program without settings of this shell.
fn program(binary: &Path) -> Command {
    let mut command = Command::new(binary);
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("SHARDLAKE_"))
    {
        command.env_remove(name);
    }
    command
}

struct Server {
    child: Child,
    record: std::sync::mpsc::Receiver<String>,
}

impl Server {
    fn spawn(binary: &Path, place: &Place) -> Outcome<Server> {
        let log = File::create(place.path("server.log"))?;
        let mut command = program(binary);
        command.args(["serve", "--listen", "127.0.0.1:0", "--shards", "2", "--restore-window", "1h"]);
        command.args(["--write-buffer-size", "1MiB", "--throughput", "unlimited", "--data-dir"]);
        command.arg(place.path("data"));
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).spawn()?;
        let stdout = child.stdout.take().ok_or("standard output is piped")?;
        let (sender, record) = sync_channel(1);
        thread::spawn(move || {
            let mut lines = BufReader::new(stdout).lines();
            if let Some(Ok(line)) = lines.next() {
                let _nobody_waits = sender.send(line);
            }
            lines.for_each(drop);
        });
        Ok(Server { child, record })
    }

    fn ready(&self, within: Duration) -> Option<ReadyRecord> {
        ReadyRecord::parse(&self.record.recv_timeout(within).ok()?).ok()
    }

    fn kill(&mut self) -> Outcome {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Keeps the evidence of a server that is still starting.
    fn keep_evidence(&mut self, campaign: &Campaign, place: &Place) -> Outcome<PathBuf> {
        let number = self.child.id();
        let stacks = [
            (
                "gdb",
                vec![
                    "-p".to_owned(),
                    number.to_string(),
                    "-batch".into(),
                    "-ex".into(),
                    "thread apply all bt".into(),
                ],
            ),
            ("eu-stack", vec!["-p".to_owned(), number.to_string()]),
        ];
        let stacks = stacks.map(|(debugger, arguments)| stacks_by(debugger, &arguments));
        let threads = threads_of(number);
        self.kill()?;
        let kept = keep(campaign, place, "start")?;
        fs::write(kept.join("stacks.txt"), stacks.join("\n"))?;
        fs::write(kept.join("threads.txt"), threads)?;
        Ok(kept)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// Copies the directory of a fault.
fn keep(campaign: &Campaign, place: &Place, what: &str) -> Outcome<PathBuf> {
    let kept = campaign.evidence.join(format!("{what}-{}-{}", campaign.seed, std::process::id()));
    fs::create_dir_all(&kept)?;
    Command::new("cp").arg("-a").arg(place.directory.path()).arg(kept.join("place")).status()?;
    Ok(kept)
}

fn stacks_by(debugger: &str, arguments: &[String]) -> String {
    let running = Command::new(debugger).args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let Ok(mut running) = running else { return format!("{debugger} is not there") };
    let stdout = running
        .stdout
        .take()
        .map(|stdout| thread::spawn(move || std::io::read_to_string(stdout).unwrap_or_default()));
    let began = Instant::now();
    while running.try_wait().is_ok_and(|ended| ended.is_none()) {
        if began.elapsed() > DEBUGGER_MAX {
            let _gone = running.kill();
            break;
        }
        thread::sleep(Duration::from_millis(100));
    }
    let _reaped = running.wait();
    stdout.and_then(|reading| reading.join().ok()).unwrap_or_default()
}

fn threads_of(number: u32) -> String {
    let mut lines = String::new();
    let tasks = fs::read_dir(format!("/proc/{number}/task")).into_iter().flatten().flatten();
    for task in tasks {
        for name in ["comm", "stat", "wchan", "syscall", "stack"] {
            let content = fs::read_to_string(task.path().join(name)).unwrap_or_default();
            lines += &format!("{} {name}: {}\n", task.path().display(), content.trim());
        }
    }
    lines
}

/// Writes and relocations until `kill` has ended the server.
fn work(ready: &ReadyRecord, seed: u64, time: Duration, kill: impl FnOnce() -> Outcome) -> Outcome {
    let client = Client::new(ready.address, &ready.key);
    // Only the arrival of the answers matters: a server under kill -9 may not answer.
    let _there = client.try_request("POST", "/dbs", &[], json!({ "id": "d" }).to_string().as_bytes());
    let definition = json!({ "id": "c", "partitionKey": { "paths": ["/pk"], "kind": "Hash", "version": 2 } });
    let throughput = [("x-ms-offer-throughput", "12000")];
    let _there = client.try_request("POST", "/dbs/d/colls", &throughput, definition.to_string().as_bytes());
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (client, choices) = (client.clone(), Choices::of(seed.wrapping_add(writer)));
            scope.spawn(move || write(&client, choices));
        }
        let choices = Choices::of(seed.wrapping_add(WRITERS));
        let operator = client.clone();
        scope.spawn(move || relocate(&operator, choices));
        thread::sleep(time);
        kill()
    })
}

/// Batches, small and large, until the connection breaks.
fn write(client: &Client, mut choices: Choices) {
    loop {
        let key = format!("k{}", choices.below(40));
        let (items, text_bytes) = match choices.below(4) {
            0 => (90, 8 + choices.below(12_000)),
            _ => (1 + choices.below(4), 8 + choices.below(300)),
        };
        let operations: Vec<Value> = (0..items)
            .map(|item| {
                let text: String =
                    (0..text_bytes).map(|_| char::from(b'a' + choices.below(26) as u8)).collect();
                let body = json!({
                    "id": format!("{item}"), "pk": key, "n": choices.below(1000), "text": text,
                    "tags": [choices.below(9), choices.below(9)], "deep": { "at": choices.below(1 << 40) }
                });
                json!({ "operationType": "Upsert", "resourceBody": body })
            })
            .collect();
        if client.try_batch("d", "c", &json!([key]), &Value::Array(operations)).is_err() {
            return;
        }
    }
}

/// Splits, merges and moves until the connection breaks.
fn relocate(client: &Client, mut choices: Choices) {
    let path = container_path("d", "c");
    loop {
        let Ok(ranges) = client.try_request("GET", &format!("{path}/pkranges"), &[], b"") else { return };
        let ranges: Value = serde_json::from_slice(&ranges.body).unwrap_or_default();
        let ranges = ranges["PartitionKeyRanges"].as_array().cloned().unwrap_or_default();
        let ids: Vec<&str> = ranges.iter().filter_map(|range| range["id"].as_str()).collect();
        if !ids.is_empty() {
            let chosen = choices.below(ids.len() as u64) as usize;
            let (action, body) = match choices.below(3) {
                0 => (format!("{}/move", ids[chosen]), json!({ "shard": choices.below(2) })),
                _ if ids.len() > 4 && chosen > 0 => {
                    ("merge".to_owned(), json!({ "ids": [ids[chosen - 1], ids[chosen]] }))
                }
                _ => (format!("{}/split", ids[chosen]), json!({ "at": "middle" })),
            };
            let path = format!("/_shardlake/v1{path}/partitions/{action}");
            if client.try_request("POST", &path, &[], body.to_string().as_bytes()).is_err() {
                return;
            }
        }
        thread::sleep(Duration::from_millis(choices.below(30)));
    }
}
