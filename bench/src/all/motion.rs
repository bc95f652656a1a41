//! Effects on clients over HTTP while a partition is split, merged and moved, and how fast its
//! items are copied without load.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use shardlake_testkit::{EMULATOR_KEY, ServerOptions, ServerProcess};

use super::run::Run;
use super::sheet::{Goal, Sheet};
use crate::pace::{Got, Pace};
use crate::requests::Requests;
use crate::workload::{CONTAINER, DATABASE, Reads, Replaces, Signer};
use crate::{Outcome, loading};

const RATE: u64 = 1000;
const CONNECTIONS: u64 = 8;
/// Seconds without motion, for each second of a measurement.
const QUIET: u64 = 4;
const WINDOW: Duration = Duration::from_millis(250);

pub fn measure(run: &Run, sheet: &mut Sheet) -> Outcome {
    let (mut felt, mut copied) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    for build in &run.builds {
        let of_build = usize::from(build.name == super::BUILDS[1]);
        let (ratio, speeds) = measure_build(run, &build.binary)?;
        felt[of_build].push(ratio);
        copied[of_build].extend(speeds);
    }
    sheet.figure(
        format!(
            "p99 of {RATE} requests/s while a partition of {} items splits, merges and moves ÷ quiet",
            run.moved_items
        ),
        Goal::AtMost(2.0),
        felt,
    );
    sheet.figure("idle copy rate, items/s", Goal::AtLeast(60_000.0), copied);
    Ok(())
}

/// The ratio of the 99th percentiles, and items per second of a split, a merge and a move without clients.
fn measure_build(run: &Run, binary: &Path) -> Outcome<(f64, Vec<f64>)> {
    let directory = tempfile::TempDir::with_prefix("shardlake-bench-motion-")?;
    let server = ServerOptions::new(binary)
        .data_dir(directory.path().join("data"))
        .argument("--throughput=unlimited")
        .argument("--shards=2")
        .try_start()?;
    eprintln!("loading {} items to move, {}", run.moved_items, binary.display());
    loading::load(&server, run.moved_items)?;
    let requests = requests(run.moved_items);
    let pace = |time| Pace {
        address: server.address(),
        requests: &requests,
        rate: RATE,
        connections: CONNECTIONS,
        time,
    };
    // Remaining work of the loading is not measured.
    pace(Duration::from_secs(2)).run()?;
    let quiet = pace(Duration::from_secs(QUIET * run.seconds)).run()?;
    let moves = Moves { binary, server: &server };
    let is_done = AtomicBool::new(false);
    let moving = std::thread::scope(|scope| -> Outcome<Got> {
        let mover = scope.spawn(|| {
            let moved = moves.relocate(0, 1).map_err(|error| error.to_string());
            is_done.store(true, Ordering::Release);
            moved
        });
        let mut got = Got::default();
        while !is_done.load(Ordering::Acquire) {
            got = got.joined(pace(WINDOW).run()?);
        }
        mover.join().expect("the mover does not panic")?;
        Ok(got)
    })?;
    let [p50, p99, p999] = [0.5, 0.99, 0.999].map(|share| (quiet.within(share), moving.within(share)));
    eprintln!("µs quiet and moving: p50 {p50:?}, p99 {p99:?}, p99.9 {p999:?}; {} requests", moving.asked());
    let times = moves.relocate(3, 0)?;
    eprintln!("idle: split, merge, move took {times:?}");
    let speeds = times.iter().map(|time| run.moved_items as f64 / time.as_secs_f64()).collect();
    Ok((moving.within(0.99) as f64 / quiet.within(0.99).max(1) as f64, speeds))
}

/// Reads and replacements alternately.
fn requests(items: u64) -> Vec<Vec<u8>> {
    let signer = Signer::new(EMULATOR_KEY);
    let (reads, replaces) = (Reads::new(&signer, items), Replaces::new(&signer, items, 0));
    let request = |number: u64| {
        let mut request = Vec::new();
        match number.is_multiple_of(2) {
            true => reads.next(0, number, &mut request),
            false => replaces.next(0, number, &mut request),
        }
        request
    };
    (0..4000).map(request).collect()
}

/// The commands of an operator.
struct Moves<'a> {
    binary: &'a Path,
    server: &'a ServerProcess,
}

impl Moves<'_> {
    /// Splits a partition, merges the two, and moves the result to another shard; ids are counted
    /// on. Returns the three durations.
    fn relocate(&self, first: u32, shard: u32) -> Outcome<[Duration; 3]> {
        let [id, left, right, joined] = [first, first + 1, first + 2, first + 3].map(|id| id.to_string());
        Ok([
            self.command(&["split", &id], &["--at", "middle"])?,
            self.command(&["merge", &left, &right], &[])?,
            self.command(&["move", &joined, &shard.to_string()], &[])?,
        ])
    }

    fn command(&self, words: &[&str], options: &[&str]) -> Outcome<Duration> {
        let (name, partitions) = words.split_first().expect("a command has a name");
        let started = Instant::now();
        let mut command = Command::new(self.binary);
        command.arg(name).arg(format!("{DATABASE}/{CONTAINER}")).args(partitions).args(options);
        let output = command.args(["--endpoint", &self.server.ready().http]).stdin(Stdio::null()).output()?;
        match output.status.success() {
            true => Ok(started.elapsed()),
            false => Err(format!("{name} failed: {}", String::from_utf8_lossy(&output.stderr)).into()),
        }
    }
}
