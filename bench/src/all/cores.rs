//! Gain of a second core: server and load generator pinned together to one core, and to two.
//!
//! The generator has the same work for each request either way, so a server that scales perfectly shows 2, as
//! long as the one thread of the generator is not the bottleneck. A server counts its cores at its start. The
//! ideal handler is driven in the same rounds: the generator's thread has a larger part in its requests.

use std::fmt::Write as _;
use std::time::Duration;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::run::{Run, in_turn};
use super::sheet::{Goal, Sheet, spread};
use super::warm::IDEAL;
use crate::Outcome;
use crate::cases::{self, Case};
use crate::contender::{self, Contender};
use crate::load::{self, Measured};
use crate::point::Ideal;

const ITEMS: u64 = 20_000;
const CONNECTIONS: usize = 16;
/// Operations by cores, and the goal for the gain of two cores.
const OPERATIONS: [(&str, [&str; 2], f64); 2] = [
    (cases::POINT_READ, ["point read, 1 core", "point read, 2 cores"], 1.8),
    (cases::CREATE, ["durable create, 1 core", "durable create, 2 cores"], 1.6),
];

pub fn measure(run: &Run, sheet: &mut Sheet) -> Outcome {
    if sched_getaffinity(None)?.count() < 2 {
        eprintln!("one core is all there is: cores skipped");
        return Ok(());
    }
    // Affinity is that of a thread, and of the threads and processes that it starts.
    let measured = std::thread::scope(|scope| {
        let thread = scope.spawn(|| drive(run).map_err(|error| error.to_string()));
        thread.join().expect("no measurement panics")
    })?;
    for (operation, name, measured) in measured {
        sheet.add(operation, CONNECTIONS, name, measured);
    }
    for (name, [one, two], least) in OPERATIONS {
        let of = |operation| sheet.of_builds(operation, CONNECTIONS, |one| one.per_second);
        let ([before, after], [before_two, after_two]) = (of(one), of(two));
        assert!(
            before.len() == before_two.len() && after.len() == after_two.len(),
            "figures are compared in pairs of rounds"
        );
        let rounds = [(before, before_two), (after, after_two)]
            .map(|(one, two)| one.iter().zip(&two).map(|(one, two)| two / one).collect());
        sheet.figure(format!("{name}: throughput at 2 cores ÷ 1 core"), Goal::AtLeast(least), rounds);
    }
    note_ideal(sheet)
}

/// Gain of two cores for a handler that shares nothing.
fn note_ideal(sheet: &mut Sheet) -> Outcome {
    let [one, two] = OPERATIONS[0].1.map(|name| sheet.values(name, CONNECTIONS, IDEAL, |one| one.per_second));
    assert_eq!(one.len(), two.len(), "figures are compared in pairs of rounds");
    let rounds: Vec<f64> = one.iter().zip(&two).map(|(one, two)| two / one).collect();
    let text = spread(&rounds);
    writeln!(
        sheet.notes,
        "\nThe {IDEAL} at 2 cores ÷ 1 core, with the same reads, in the same rounds: {text}."
    )?;
    Ok(())
}

fn drive(run: &Run) -> Outcome<Vec<(&'static str, &'static str, Measured)>> {
    let directory = tempfile::TempDir::with_prefix("shardlake-bench-ideal-")?;
    let mut contenders: Vec<(usize, &'static str, Contender)> = Vec::new();
    let mut ideals = Vec::new();
    for cores in [1, 2] {
        pin(cores)?;
        contenders.extend(run.start("sync", ITEMS)?.into_iter().map(|(name, one)| (cores, name, one)));
        ideals.push((cores, Ideal::start(&contenders[0].2.server, directory.path())?));
    }
    let cases = cases::all(&contenders[0].2.server.client(), ITEMS);
    let mut all = Vec::new();
    for round in 0..run.rounds {
        for (operation, by_cores, _) in &OPERATIONS {
            let case = cases.iter().find(|case| case.name == *operation).expect("it is one of all cases");
            for (cores, name, contender) in in_turn(&contenders, round) {
                pin(*cores)?;
                let time: Duration = run.time();
                let measured = contender::drive(&contender.server, case, round, CONNECTIONS, time)?;
                all.push((by_cores[cores - 1], *name, measured));
            }
            if *operation == cases::POINT_READ {
                drive_ideals(run, case, &ideals, |cores, one| all.push((by_cores[cores - 1], IDEAL, one)))?;
            }
        }
    }
    Ok(all)
}

fn drive_ideals(
    run: &Run,
    case: &Case,
    ideals: &[(usize, Ideal)],
    mut note: impl FnMut(usize, Measured),
) -> Outcome {
    for (cores, ideal) in ideals {
        pin(*cores)?;
        let requests = (case.requests)(0);
        note(*cores, load::drive(ideal.address, CONNECTIONS, run.time(), requests, ideal.process_id())?);
    }
    Ok(())
}

fn pin(cores: usize) -> Outcome {
    let mut set = CpuSet::new();
    (0..cores).for_each(|core| set.set(core));
    Ok(sched_setaffinity(None, &set)?)
}
