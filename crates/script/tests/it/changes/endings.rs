//! How runs end: killed workers, limits, output and processor time of failed runs.

use std::time::Duration;

use futures::future::BoxFuture;
use shardlake_model::{ErrorKind, Result};
use shardlake_script::changes::{
    ChangesInvocation, ChangesStore, FUNCTION_TIME_MAX, FunctionContainer, FunctionQuery, FunctionRead,
};
use shardlake_script::{Meter, ScriptKey, ScriptLimits, Scripts, StoreFailure, is_worker_lost};

use super::support::{Items, KEY, body, key_paths, run};
use crate::support::{block_on, processes, refusal};

/// Runs a function and returns its error, its output and the time of its worker.
fn failed(
    scripts: &Scripts,
    store: &mut dyn ChangesStore,
    text: &str,
    limits: ScriptLimits,
) -> (shardlake_model::Error, Vec<String>, Duration) {
    let (source, paths) = (body(text), key_paths(&["/category"]));
    let containers = [FunctionContainer { name: "product", key_paths: &paths, may_write: true }];
    let invocation = ChangesInvocation {
        name: "f",
        version: 1,
        attempt: 1,
        source: &source,
        changes: "[]",
        containers: &containers,
        limits,
    };
    let (meter, mut log) = (Meter::default(), Vec::new());
    let run = scripts.run_changes_logged(KEY, meter.clone(), &invocation, store, &mut log);
    let error = block_on(run).expect_err("fails");
    (error, log, meter.total())
}

#[test]
fn a_failed_run_returns_its_output_and_its_processor_time() {
    let (error, log, time) = failed(
        &processes(1),
        &mut Items::default(),
        "console.log('before'); for (let i = 0; i < 1e5; i++); throw new Error('mine')",
        ScriptLimits::default(),
    );
    assert_eq!((error.kind(), log.as_slice()), (ErrorKind::BadRequest, &["before".to_owned()][..]));
    assert!(time > Duration::ZERO);
    let limits = ScriptLimits { time: Duration::from_millis(300), ..ScriptLimits::default() };
    let text = "console.log('before'); for (;;);";
    let (error, log, time) = failed(&processes(1), &mut Items::default(), text, limits);
    assert_eq!((error.kind(), log.as_slice()), (ErrorKind::Forbidden, &["before".to_owned()][..]));
    assert!(error.message().contains("ran for more than 0.3 s"), "{error}");
    assert!(time > Duration::ZERO);
}

#[test]
fn steps_and_memory_are_limited() {
    let few = ScriptLimits { steps_max: 1_000_000, ..ScriptLimits::of_function(FUNCTION_TIME_MAX) };
    let (error, ..) = failed(&processes(1), &mut Items::default(), "for (;;) await null;", few);
    assert_eq!(error.kind(), ErrorKind::Forbidden, "{error}");
    let small = ScriptLimits { memory_bytes_max: 4 << 20, ..ScriptLimits::default() };
    let text = "const a = []; for (;;) a.push(await c.read('a', 'x'), new Array(100).fill(0));";
    let (error, ..) = failed(&processes(1), &mut Items::default(), text, small);
    assert_eq!(error.kind(), ErrorKind::Forbidden, "{error}");
    assert!(error.message().contains("more than 4 MiB of memory"), "{error}");
}

#[test]
fn a_function_has_a_minute_at_most() {
    let usual = ScriptLimits::default();
    assert_eq!(ScriptLimits::of_function(usual.time), usual);
    let longest = ScriptLimits::of_function(FUNCTION_TIME_MAX);
    assert_eq!((longest.time, longest.steps_max), (Duration::from_secs(60), 12 * usual.steps_max));
    let longer = ScriptLimits { time: FUNCTION_TIME_MAX + Duration::from_secs(1), ..usual };
    let (error, ..) = failed(&processes(1), &mut Items::default(), "", longer);
    assert_eq!(error.kind(), ErrorKind::BadRequest);
    assert!(error.message().contains("at most 60 s"), "{error}");
}

/// Does something before it answers a read.
struct Before<F>(F);

impl<F: FnMut() + Send> ChangesStore for Before<F> {
    fn read<'a>(&'a mut self, _: FunctionRead) -> BoxFuture<'a, Result<Option<String>, StoreFailure>> {
        (self.0)();
        Box::pin(async { Ok(None) })
    }

    fn query<'a>(&'a mut self, _: FunctionQuery) -> BoxFuture<'a, Result<String, StoreFailure>> {
        Box::pin(async { Ok("[]".to_owned()) })
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_lost_worker_is_reported_as_such() {
    let scripts = processes(1);
    run(&scripts, &mut Items::default(), &body("")).expect("starts a worker");
    let worker = crate::support::children();
    let mut kill = Before(|| crate::support::signal(worker.trim(), rustix::process::Signal::KILL));
    let text = "c.create({id: 'a', category: 'x'}); await c.read('a', 'y');";
    let (error, ..) = failed(&scripts, &mut kill, text, ScriptLimits::default());
    assert!(is_worker_lost(&error), "{error}");
    let next = run(&scripts, &mut Items::default(), &body("console.log(1)")).expect("another worker runs");
    assert_eq!(next.log, ["1"]);
}

#[test]
fn a_dropped_run_leaves_no_worker_in_use() {
    let scripts = processes(1);
    let (source, paths) = (body("await c.read('a', 'x'); for (;;);"), key_paths(&["/category"]));
    let containers = [FunctionContainer { name: "product", key_paths: &paths, may_write: true }];
    let invocation = ChangesInvocation {
        name: "f",
        version: 1,
        attempt: 1,
        source: &source,
        changes: "[]",
        containers: &containers,
        limits: ScriptLimits::of_function(FUNCTION_TIME_MAX),
    };
    let (asked, was_asked) = futures::channel::oneshot::channel();
    let mut asked = Some(asked);
    let mut store = Before(move || {
        if let Some(asked) = asked.take() {
            let _ = asked.send(());
        }
    });
    block_on(async {
        let run = scripts.run_changes(KEY, &invocation, &mut store);
        futures::future::select(Box::pin(run), was_asked).await;
    });
    let (kind, message) = refusal(run(&scripts, &mut Items::default(), &body("throw new Error('next')")));
    assert_eq!(kind, ErrorKind::BadRequest);
    assert!(message.contains("next"), "{message}");
}

#[test]
fn functions_and_procedures_do_not_wait_for_each_other() {
    let scripts = processes(1);
    let held = scripts.try_turn(KEY, Meter::default()).expect("the worker of procedures is free");
    let outcome =
        run(&scripts, &mut Items::default(), &body("console.log(1)")).expect("has a worker of its own");
    assert_eq!(outcome.log, ["1"]);
    drop(held);
    // A function that had to be stopped does not slow the procedures of its container down.
    let limits = ScriptLimits { time: Duration::from_millis(300), ..ScriptLimits::default() };
    let scripts = processes(3);
    let (error, ..) = failed(&scripts, &mut Items::default(), "for (;;);", limits);
    assert_eq!(error.kind(), ErrorKind::Forbidden);
    let held = [1, 2].map(|script| scripts.try_turn(ScriptKey { script, ..KEY }, Meter::default()));
    assert!(held.iter().all(Option::is_some), "its procedures may use all workers but one");
}
