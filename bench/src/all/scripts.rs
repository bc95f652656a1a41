//! Stored procedures against transactional batches, with durability async, so that the script and not the disk is measured.

use super::run::{Run, in_turn};
use super::sheet::{Goal, Sheet};
use crate::{Outcome, cases, contender};

const ITEMS: u64 = 1000;
const CONNECTIONS: [usize; 2] = [1, 8];

pub fn measure(run: &Run, sheet: &mut Sheet) -> Outcome {
    let contenders = run.start("async", ITEMS)?;
    let cases = cases::scripts(&contenders[0].1.server.client());
    for round in 0..run.rounds {
        for case in &cases {
            for (at, connections) in CONNECTIONS.into_iter().enumerate() {
                for (name, contender) in in_turn(&contenders, round) {
                    let turn = round * CONNECTIONS.len() + at;
                    let measured = contender::drive(&contender.server, case, turn, connections, run.time())?;
                    sheet.add(case.name, connections, name, measured);
                }
            }
        }
    }
    for connections in CONNECTIONS {
        let of = |case| sheet.of_builds(case, connections, |one| one.per_second);
        let ratio = |(procedure, batch): (&Vec<f64>, &Vec<f64>)| {
            assert_eq!(procedure.len(), batch.len(), "figures are compared in pairs of rounds");
            procedure.iter().zip(batch).map(|(procedure, batch)| procedure / batch).collect()
        };
        let ([before, after], [batch_before, batch_after]) = (of(cases::PROCEDURE), of(cases::BATCH));
        let rounds = [(&before, &batch_before), (&after, &batch_after)].map(ratio);
        let name = format!("stored procedure of two creates ÷ batch of the same, connections: {connections}");
        sheet.figure(name, Goal::AtLeast(0.6), rounds);
    }
    Ok(())
}
