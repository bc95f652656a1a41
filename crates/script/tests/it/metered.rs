//! The processor time of a run is counted, however it ends.

use std::time::Duration;

use crate::support::{Documents, HERE, block_on, functions, procedure, processes};
use shardlake_script::{Invocation, Meter, ScriptKey, ScriptLimits, Scripts};

const HERE_RUN: ScriptKey = ScriptKey { container: HERE, script: 1 };

/// The time used by a run with this limit, and whether it succeeded.
fn used(scripts: &Scripts, source: &str, time: Duration) -> (Duration, bool) {
    let meter = Meter::default();
    let outcome = block_on(async {
        let turn = scripts.turn(HERE_RUN, meter.clone()).await.expect("is free");
        let limits = ScriptLimits { time, ..ScriptLimits::default() };
        let invocation = Invocation { limits, ..procedure(source, "[]") };
        scripts.run_in(&turn, invocation, &mut Documents::default()).await
    });
    (meter.total(), outcome.is_ok())
}

#[test]
fn runs_are_metered_however_they_end() {
    let scripts = processes(1);
    let second = Duration::from_secs(1);
    let (small, is_ok) = used(&scripts, "function () {}", second);
    assert!(is_ok && small > Duration::ZERO);
    let (large, is_ok) = used(&scripts, "function () { for (let i = 0; i < 3e6; i++); }", 60 * second);
    assert!(is_ok && large > small, "{large:?} {small:?}");
    // Stopped by the engine: most of its time, as other processes leave it.
    let time = Duration::from_millis(200);
    let (stopped, is_ok) = used(&scripts, "function () { for (;;); }", time);
    assert!(!is_ok && stopped > small, "{stopped:?}");
    // A killed worker reports no processor time, so the time spent waiting for it counts.
    let hang = "function () { Array.prototype.reverse.call({length: 2 ** 53 - 1}); }";
    let (killed, is_ok) = used(&scripts, hang, time);
    assert!(!is_ok && killed >= time, "{killed:?}");
}

#[test]
fn a_run_that_is_given_up_is_metered_by_what_was_waited_for_it() {
    let scripts = processes(1);
    let meter = Meter::default();
    block_on(async {
        let turn = scripts.turn(HERE_RUN, meter.clone()).await.expect("is free");
        let mut documents = Documents::default();
        let run = scripts.run_in(&turn, procedure("function () { for (;;); }", "[]"), &mut documents);
        assert!(tokio::time::timeout(Duration::from_millis(100), run).await.is_err());
    });
    assert!(meter.total() > Duration::ZERO);
}

#[test]
fn functions_are_metered_and_answer_what_is_ready() {
    let scripts = processes(1);
    let meter = Meter::default();
    let turn = block_on(scripts.function_turn(HERE_RUN, meter.clone())).expect("is free");
    let slow = ("slow", "function () { const end = Date.now() + 60; while (Date.now() < end); return 1; }");
    let limits = ScriptLimits::default();
    let mut prepared = scripts.functions(&turn, &[slow, ("f", "x => x")], limits).expect("prepares");
    let rows = vec![vec![Some("1".to_owned())]; 100];
    let answers = prepared.call("slow", &rows, limits.time).expect("calls");
    assert_eq!(answers.len(), 1, "a portion's time is over with the first");
    let after_slow = meter.total();
    assert!(after_slow > Duration::ZERO);
    prepared.call("f", &rows, limits.time).expect("calls");
    assert!(meter.total() > after_slow);
    drop((prepared, turn));
    drop(functions(&scripts, &[("f", "x => x")], limits).expect("the turn came back"));
}
