//! Latency at half of each build's maximum load: requests by the clock, not one after the other.

use std::fmt::Write as _;

use super::run::{Run, in_turn};
use super::sheet::Sheet;
use crate::Outcome;
use crate::cases::{self, Case};
use crate::compare::Ratios;
use crate::contender::Contender;
use crate::pace::Pace;

const CONNECTIONS: u64 = 16;
const SHARES: [f64; 3] = [0.5, 0.99, 0.999];
/// Rounds of writes have numbers of their own, since ids come from them.
const FIRST_ROUND: usize = 100_000;

/// One operation of one build, with the microseconds of each share, one for each round.
struct Found {
    operation: &'static str,
    name: &'static str,
    rate: u64,
    rounds: [Vec<f64>; SHARES.len()],
}

pub fn measure(
    run: &Run,
    contenders: &[(&'static str, Contender)],
    cases: &[Case],
    sheet: &mut Sheet,
) -> Outcome {
    let measured = cases.iter().filter(|case| matches!(case.name, cases::POINT_READ | cases::CREATE));
    let mut all: Vec<Found> = Vec::new();
    for case in measured {
        for (name, _) in contenders {
            let speeds = sheet.values(case.name, CONNECTIONS as usize, name, |one| one.per_second);
            let rate = (Ratios::new(speeds).median() / 2.0).max(1.0) as u64;
            all.push(Found { operation: case.name, name, rate, rounds: Default::default() });
        }
        for round in 0..run.rounds {
            for (name, contender) in in_turn(contenders, round) {
                let found = all.iter_mut().find(|found| (found.operation, found.name) == (case.name, name));
                found.expect("it was added above").measure(run, contender, case, round)?;
            }
        }
    }
    sheet.notes.push_str("\n| at half of the maximum load | build | requests/s | p50 µs | p99 µs | p99.9 µs |\n|---|---|---:|---:|---:|---:|\n");
    for Found { operation, name, rate, rounds } in all {
        let [p50, p99, p999] = rounds.map(|values| Ratios::new(values).median());
        writeln!(sheet.notes, "| {operation} | {name} | {rate} | {p50:.0} | {p99:.0} | {p999:.0} |")?;
    }
    Ok(())
}

impl Found {
    fn measure(&mut self, run: &Run, contender: &Contender, case: &Case, round: usize) -> Outcome {
        let source = (case.requests)(FIRST_ROUND + round);
        let request = |number: u64| {
            let mut request = Vec::new();
            source.next((number % CONNECTIONS) as usize, number / CONNECTIONS, &mut request);
            request
        };
        let requests: Vec<Vec<u8>> = (0..self.rate * run.seconds).map(request).collect();
        let got = Pace {
            address: contender.server.address(),
            requests: &requests,
            rate: self.rate,
            connections: CONNECTIONS,
            time: run.time(),
        }
        .run()?;
        if let Some(reply) = got.strange {
            return Err(format!("{} was answered {reply}", self.operation).into());
        }
        assert_eq!(self.rounds.len(), SHARES.len(), "each share of the requests has its figures");
        for (values, share) in self.rounds.iter_mut().zip(SHARES) {
            values.push(got.within(share) as f64);
        }
        Ok(())
    }
}
