//! Effects on clients while expired items are removed.

use super::run::Run;
use super::sheet::{Goal, Sheet};
use crate::{Outcome, TtlOptions, ttl};

const RATE: u64 = 1000;
/// Seconds without anything to remove, for each second of a measurement.
const QUIET: u64 = 4;

pub fn measure(run: &Run, sheet: &mut Sheet) -> Outcome {
    let (mut felt, mut speeds) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    for build in &run.builds {
        let of_build = usize::from(build.name == super::BUILDS[1]);
        let found = ttl::find(&TtlOptions {
            server: build.binary.clone(),
            seconds: QUIET * run.seconds,
            items: run.moved_items,
            rate: RATE,
            publish: None,
        })?;
        felt[of_build].push(found.ratio());
        speeds[of_build].push(found.removed_per_second(run.moved_items));
    }
    let name =
        format!("p99 of {RATE} requests/s while {} expired items are removed ÷ quiet", run.moved_items);
    sheet.figure(name, Goal::AtMost(1.5), felt);
    sheet.figure("items removed per second meanwhile", Goal::AtLeast(1900.0), speeds);
    Ok(())
}
