//! Workers that are killed from outside, by an operator or for want of memory: no script is blamed for it.

use std::time::Duration;

use crate::support::{
    Documents, HERE, block_on, body, children, functions, procedure, processes, refusal, run, signal,
    status_of,
};
use rustix::process::Signal;
use serde_json::json;
use shardlake_model::ErrorKind;
use shardlake_script::{Completion, Invocation, ScriptLimits, is_worker_lost};

const TIME: Duration = Duration::from_secs(5);

/// Ends only by force from the test.
fn endless() -> Invocation<'static> {
    let limits =
        ScriptLimits { time: Duration::from_secs(3600), steps_max: u64::MAX, ..ScriptLimits::default() };
    Invocation { limits, ..procedure("function () { for (;;); }", "[]") }
}

/// The outcome of an endless script whose worker gets a signal.
fn signalled(how: Signal) -> shardlake_model::Result<Completion> {
    let scripts = processes(1);
    let outcome = block_on(async {
        let mut documents = Documents::default();
        let hang = scripts.run(HERE, endless(), &mut documents);
        let kill = async {
            // The confinement is known once the worker's first message has arrived.
            while scripts.confined().is_none() {
                tokio::task::yield_now().await;
            }
            signal(children().trim(), how);
        };
        futures::join!(hang, kill).0
    });
    let next = run(&scripts, &mut Documents::default(), "function () { __.response.setBody(1); }", "[]");
    assert_eq!(body(&next.expect("another worker runs")), json!(1));
    outcome
}

#[test]
fn a_worker_that_is_killed_from_outside_is_not_its_scripts_fault() {
    // An interrupt is left out: programs that a shell has put into the background ignore it, and so do their children.
    for how in [Signal::KILL, Signal::TERM] {
        let error = signalled(how).expect_err("is told");
        assert!(is_worker_lost(&error), "{error}");
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(error.message().contains("killed from outside"), "{error}");
        assert!(error.retry_after_ms().is_some());
    }
}

#[test]
fn a_worker_that_ends_by_itself_is_its_scripts_fault() {
    for (how, words) in [(Signal::ABORT, "most likely out of memory"), (Signal::SYS, "may not have")] {
        let error = signalled(how).expect_err("is told");
        assert!(!is_worker_lost(&error), "{error}");
        assert_eq!(error.kind(), ErrorKind::Forbidden);
        assert!(error.message().contains(words), "{error}");
    }
    // The watchdog kills, too.
    let limits = ScriptLimits { time: Duration::from_millis(1), ..ScriptLimits::default() };
    let hang = "function () { Array.prototype.reverse.call({length: 2 ** 53 - 1}); }";
    let hang = Invocation { limits, ..procedure(hang, "[]") };
    let (kind, message) = refusal(block_on(processes(1).run(HERE, hang, &mut Documents::default())));
    assert_eq!(kind, ErrorKind::Forbidden, "{message}");
}

#[test]
fn functions_whose_worker_is_killed_say_so() {
    let scripts = processes(1);
    let mut prepared = functions(&scripts, &[("f", "x => x")], ScriptLimits::default()).expect("prepares");
    signal(children().trim(), Signal::KILL);
    let error = prepared.call("f", &[vec![None]], TIME).expect_err("is told");
    assert!(is_worker_lost(&error), "{error}");
    drop(prepared);
    let mut prepared = functions(&scripts, &[("f", "x => x")], ScriptLimits::default()).expect("prepares");
    assert_eq!(prepared.call("f", &[vec![None]], TIME).expect("calls"), [None]);
}

/// An idle worker that was killed is replaced without an error.
#[test]
fn idle_workers_that_were_killed_are_not_asked() {
    let scripts = processes(1);
    let idle = || run(&scripts, &mut Documents::default(), "function () {}", "[]");
    for _ in 0..3 {
        idle().expect("runs");
        let worker = children();
        signal(worker.trim(), Signal::KILL);
        while !status_of(worker.trim()).contains("State:\tZ") {
            std::thread::yield_now();
        }
    }
    idle().expect("runs");
}
