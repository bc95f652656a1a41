//! Many items: queries that should not slow down, the final size on disk, and reads of uncached data.
//!
//! *Cold* is a server that was started just now with a cache of a quarter of its data on disk,
//! after the pages of the operating system were dropped. Where they cannot be dropped (that
//! requires root, on Linux) this is reported.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::Duration;

use shardlake_testkit::{EMULATOR_KEY, ServerOptions, ServerProcess};

use super::run::{Run, in_turn};
use super::sheet::{Goal, Sheet};
use crate::cases::{self, Case};
use crate::compare::Ratios;
use crate::cpu::{resident_megabytes, settle};
use crate::load::{self, Target};
use crate::query_workload::{self, CONTAINER};
use crate::workload::{Reads, Signer, create_database};
use crate::{Outcome, contender, disk};

const PATIENCE: Duration = Duration::from_secs(60);
const TOP: &str = "TOP 100 ORDER BY over 5 partitions, many items";
const EQUALITY: &str = "equality of 10 rows over 5 partitions, many items";
const COLD_READ: &str = "point read, many items, cold";
const COLD_EQUALITY: &str = "equality of 10 rows over 5 partitions, many items, cold";
const COLD_CONNECTIONS: usize = 16;
/// Different items that cold reads ask for.
const COLD_ITEMS: u64 = 200_000;

struct Large {
    name: &'static str,
    server: ServerProcess,
    /// Cache of a quarter of the data on disk; known once that is known.
    cold_cache_bytes: u64,
    directory: tempfile::TempDir,
}

pub fn measure(run: &Run, sheet: &mut Sheet) -> Outcome {
    let mut builds = Vec::new();
    for build in &run.builds {
        builds.push(Large::start(build.name, &build.binary, run.large_items, sheet)?);
    }
    warm(run, &builds, sheet)?;
    let mut on_disk = [Vec::new(), Vec::new()];
    for build in &mut builds {
        eprintln!("overwriting {} items, {}", run.large_items, build.name);
        query_workload::overwrite(&build.server, run.large_items)?;
        disk::at_rest(&mut build.server);
        let bytes = disk::bytes_below(build.directory.path())?;
        build.cold_cache_bytes = bytes / 4;
        let of_build = usize::from(build.name == super::BUILDS[1]);
        on_disk[of_build].push(bytes as f64 / disk::json_bytes(run.large_items) as f64);
    }
    let name = format!("disk bytes ÷ JSON bytes, {0} creates and {0} overwrites, at rest", run.large_items);
    sheet.figure(name, Goal::AtMost(2.0), on_disk);
    cold(run, &builds, sheet)
}

impl Large {
    fn start(name: &'static str, binary: &Path, items: u64, sheet: &mut Sheet) -> Outcome<Large> {
        let directory = tempfile::TempDir::with_prefix("shardlake-bench-large-")?;
        let server = options(binary, directory.path()).try_start()?;
        eprintln!("loading {items} items, {name}");
        create_database(&server.client());
        query_workload::load(&server, items)?;
        settle(server.process_id(), PATIENCE);
        let megabytes = resident_megabytes(server.process_id());
        writeln!(sheet.notes, "\n- Resident memory with {items} items, {name}: {megabytes:.0} MB.")?;
        Ok(Large { name, server, cold_cache_bytes: 0, directory })
    }
}

fn options(binary: &Path, directory: &Path) -> ServerOptions {
    ServerOptions::new(binary).data_dir(directory.join("data")).argument("--throughput=unlimited")
}

fn find<'a>(cases: &'a [Case], name: &str) -> &'a Case {
    cases.iter().find(|case| case.name == name).expect("it is one of the queries")
}

/// Queries that need a hundred or ten items, however many there are.
fn warm(run: &Run, builds: &[Large], sheet: &mut Sheet) -> Outcome {
    let cases = cases::queries(run.large_items);
    // The first query by a path counts its values once, which a round does not measure.
    for build in builds {
        for name in [cases::TOP, cases::EQUALITY] {
            contender::drive(&build.server, find(&cases, name), 0, 1, run.time())?;
        }
    }
    for round in 0..run.rounds {
        for (small, large) in [(cases::TOP, TOP), (cases::EQUALITY, EQUALITY)] {
            for build in in_turn(builds, round) {
                let measured = contender::drive(&build.server, find(&cases, small), round, 1, run.time())?;
                sheet.add(large, 1, build.name, measured);
            }
        }
    }
    for (small, large) in [(cases::TOP, TOP), (cases::EQUALITY, EQUALITY)] {
        let [few, many] = [small, large].map(|name| sheet.of_builds(name, 1, |one| one.p50_us));
        let pairs = few.into_iter().zip(many);
        let rounds: Vec<Vec<f64>> = pairs
            .map(|(few, many)| {
                let few = Ratios::new(few);
                many.into_iter().map(|many| many / few.median()).collect()
            })
            .collect();
        let [before, after] = rounds.try_into().expect("there are two builds");
        let name = format!("{small}: p50 at {} items ÷ at {}", run.large_items, run.items);
        sheet.figure(name, Goal::AtMost(1.2), [before, after]);
    }
    Ok(())
}

fn cold(run: &Run, builds: &[Large], sheet: &mut Sheet) -> Outcome {
    let signer = Signer::new(EMULATOR_KEY);
    let reads = Reads::of(&signer, CONTAINER, run.large_items, COLD_ITEMS.min(run.large_items));
    let reads = Case::same_each_round(COLD_READ, COLD_CONNECTIONS, reads);
    let queries = cases::queries(run.large_items);
    let equality = find(&queries, cases::EQUALITY);
    let mut dropped = true;
    for round in 0..run.rounds {
        for (name, case, connections) in [(COLD_READ, &reads, COLD_CONNECTIONS), (COLD_EQUALITY, equality, 1)]
        {
            for build in in_turn(builds, round) {
                // Only pages that are on disk already are dropped.
                dropped &= fs::write("/proc/sys/vm/drop_caches", "1").is_ok();
                let binary = &run.builds.iter().find(|one| one.name == build.name).expect("it is one").binary;
                let cache = format!("--cache-size={}", build.cold_cache_bytes);
                let server = options(binary, build.directory.path()).argument(cache).try_start()?;
                let requests = (case.requests)(round);
                let target = Target { address: server.address(), connections, server: server.process_id() };
                let measured = load::drive_after(Duration::ZERO, target, run.time(), requests)?;
                sheet.add(name, connections, build.name, measured);
            }
        }
    }
    if !dropped {
        sheet
            .notes
            .push_str("\n- The pages of the operating system could not be dropped: cold reads found them.\n");
    }
    for build in builds {
        let megabytes = build.cold_cache_bytes >> 20;
        writeln!(
            sheet.notes,
            "\n- Cache of cold reads, {}: {megabytes} MiB, a quarter of the disk.",
            build.name
        )?;
    }
    Ok(())
}
