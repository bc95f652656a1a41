//! Reads, creates, patches and queries of data that is in memory, against the ideal handler and PostgreSQL.

use std::fmt::Write as _;

use super::latency;
use super::run::{Run, in_turn};
use super::sheet::{Goal, Ratio, Sheet};
use crate::cases::{self, Case};
use crate::contender::{self, Contender};
use crate::cpu::resident_megabytes;
use crate::load::{self, Measured};
use crate::point::Ideal;
use crate::postgres::Postgres;
use crate::{Outcome, query};

pub(super) const IDEAL: &str = "ideal handler";
const POSTGRES: &str = "PostgreSQL 15";

const RATIOS: [Ratio; 10] = [
    ratio("point reads ÷ ideal handler, 16 connections", cases::POINT_READ, 16, IDEAL, 0.8),
    ratio("point reads ÷ ideal handler, 64 connections", cases::POINT_READ, 64, IDEAL, 0.8),
    ratio("point reads ÷ PostgreSQL, 16 connections", cases::POINT_READ, 16, POSTGRES, 1.5),
    ratio("point reads ÷ PostgreSQL, 64 connections", cases::POINT_READ, 64, POSTGRES, 2.4),
    ratio("durable creates ÷ PostgreSQL with GIN, 1 connection", cases::CREATE, 1, POSTGRES, 1.0),
    ratio("durable creates ÷ PostgreSQL with GIN, 16 connections", cases::CREATE, 16, POSTGRES, 1.5),
    ratio("durable creates ÷ PostgreSQL with GIN, 64 connections", cases::CREATE, 64, POSTGRES, 1.5),
    ratio("one row of 100 in a logical partition ÷ PostgreSQL", cases::ONE_ROW, 16, POSTGRES, 1.5),
    ratio("50 rows of 100 in a logical partition ÷ PostgreSQL", cases::FIFTY_ROWS, 16, POSTGRES, 1.5),
    ratio("patch of one property ÷ PostgreSQL `jsonb_set` with GIN", cases::PATCH, 16, POSTGRES, 1.5),
];

const fn ratio(
    name: &'static str,
    operation: &'static str,
    connections: usize,
    yardstick: &'static str,
    at_least: f64,
) -> Ratio {
    Ratio { name, operation, connections, yardstick, at_least }
}

pub fn measure(run: &Run, sheet: &mut Sheet) -> Outcome {
    let contenders = run.start("sync", run.items)?;
    let yardsticks = Yardsticks::start(run, &contenders[0].1)?;
    let mut cases = cases::all(&contenders[0].1.server.client(), run.items);
    cases.retain(|case| !cases::SCRIPTS.contains(&case.name));
    for round in 0..run.rounds {
        for case in &cases {
            for (at, connections) in connections_of(case).into_iter().enumerate() {
                // Creates of different numbers of connections have different ids.
                let turn = round * 3 + at;
                for (name, contender) in in_turn(&contenders, round) {
                    let measured = contender::drive(&contender.server, case, turn, connections, run.time())?;
                    sheet.add(case.name, connections, name, measured);
                }
                yardsticks.drive(run, case, connections, sheet)?;
            }
        }
        eprintln!("round {} of {} done", round + 1, run.rounds);
    }
    drop(yardsticks);
    figures(run, sheet);
    memory(run, &contenders, sheet)?;
    latency::measure(run, &contenders, &cases, sheet)
}

fn connections_of(case: &Case) -> Vec<usize> {
    match case.name {
        cases::POINT_READ => vec![16, 64],
        cases::CREATE => vec![1, 16, 64],
        _ => vec![case.connections],
    }
}

struct Yardsticks {
    ideal: Ideal,
    /// The items of the point benchmark, with a GIN index.
    postgres: Option<Postgres>,
    /// The database of the query benchmark.
    queried: Option<Postgres>,
    items: u64,
    _directory: tempfile::TempDir,
}

impl Yardsticks {
    fn start(run: &Run, contender: &Contender) -> Outcome<Yardsticks> {
        let directory = tempfile::TempDir::with_prefix("shardlake-bench-ideal-")?;
        Ok(Yardsticks {
            ideal: Ideal::start(&contender.server, directory.path())?,
            postgres: Postgres::start(run.items)?,
            queried: query::postgres(run.items)?,
            items: run.items,
            _directory: directory,
        })
    }

    /// Drives the contestants that support the case.
    fn drive(&self, run: &Run, case: &Case, connections: usize, sheet: &mut Sheet) -> Outcome {
        if case.name == cases::POINT_READ {
            let requests = (case.requests)(0);
            let process = self.ideal.process_id();
            let measured = load::drive(self.ideal.address, connections, run.time(), requests, process)?;
            sheet.add(case.name, connections, IDEAL, measured);
        }
        if let Some(measured) = self.drive_postgres(run, case.name, connections)? {
            sheet.add(case.name, connections, POSTGRES, measured);
        }
        Ok(())
    }

    fn drive_postgres(&self, run: &Run, name: &str, connections: usize) -> Outcome<Option<Measured>> {
        let (Some(postgres), Some(queried)) = (&self.postgres, &self.queried) else { return Ok(None) };
        let query = |condition| {
            queried.pgbench(&query::postgres_script(condition, self.items), connections, run.seconds)
        };
        Ok(Some(match name {
            cases::POINT_READ => postgres.reads(connections, run.seconds, self.items)?,
            cases::CREATE => postgres.creates(connections, run.seconds)?,
            cases::PATCH => postgres.patches(connections, run.seconds, self.items)?,
            cases::ONE_ROW => query("(doc->>'slot')::int = :s")?,
            cases::FIFTY_ROWS => query("(doc->>'slot')::int < 50")?,
            _ => return Ok(None),
        }))
    }
}

fn figures(run: &Run, sheet: &mut Sheet) {
    for ratio in &RATIOS {
        sheet.ratio(ratio);
    }
    let p50_ms = sheet.of_builds(cases::TOP, 1, |one| one.p50_us / 1000.0);
    sheet.figure(format!("{}, {} items, p50 ms", cases::TOP, run.items), Goal::AtMost(1.0), p50_ms);
    let in_partition = run.items as f64 / 5.0;
    for (name, case, least) in [
        ("filter without an index, items/s of one core", cases::FILTER, 2e6),
        ("COUNT of an indexed equality, entries/s of one core", cases::COUNT, 20e6),
    ] {
        let speed = sheet.of_builds(case, 1, |one| in_partition / (one.cpu_us / 1e6).max(1e-9));
        sheet.figure(name, Goal::AtLeast(least), speed);
    }
}

fn memory(run: &Run, contenders: &[(&'static str, Contender)], sheet: &mut Sheet) -> Outcome {
    writeln!(
        sheet.notes,
        "\n| resident memory, MB | after the start | with 2 × {} items | after all reads and writes |\n|---|---:|---:|---:|",
        run.items
    )?;
    for (name, Contender { server, megabytes: (idle, loaded), .. }) in contenders {
        let end = resident_megabytes(server.process_id());
        writeln!(sheet.notes, "| {name} | {idle:.0} | {loaded:.0} | {end:.0} |")?;
    }
    Ok(())
}
