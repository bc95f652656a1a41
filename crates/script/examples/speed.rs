//! The cost of scripts, warm and without a database: `cargo run --release -p shardlake-script --example
//! speed`.
//!
//! Expects the worker program in the same directory: build the package's binary first. Prints microseconds of one call, the median of rounds.
#![allow(clippy::print_stdout)] // prints its results

use std::path::PathBuf;

use futures::future::BoxFuture;
use rustix::time::{ClockId, clock_gettime};
use shardlake_model::{ContainerRid, DatabaseRid};
use shardlake_script::changes::{
    ChangesInvocation, ChangesStore, FunctionContainer, FunctionQuery, FunctionRead,
};
use shardlake_script::{
    Invocation, Meter, Role, ScriptKey, ScriptLimits, ScriptSettings, Scripts, Store, StoreAnswer,
    StoreFailure, StoreReply, StoreRequest, WorkerKind,
};
use shardlake_stdx::Clock;

/// Answers every call with the same document, at once.
struct Instant(String);

impl Store for Instant {
    fn call<'a>(&'a mut self, _: StoreRequest) -> BoxFuture<'a, StoreReply> {
        let answer = StoreAnswer { body: Some(self.0.clone()), ..StoreAnswer::default() };
        Box::pin(async move { StoreReply { outcome: Ok(answer), accepts_more: true } })
    }
}

const HERE: ContainerRid = ContainerRid { database: DatabaseRid(1), number: 1 };

const EMPTY: &str = "function () {}";
const TWO_AT_ONCE: &str = "function (a, b) {
    const c = getContext().getCollection(), link = c.getSelfLink();
    if (!c.createDocument(link, a, e => { if (e) throw e; })) throw new Error('refused');
    if (!c.upsertDocument(link, b, (e, d) => { if (e) throw e; getContext().getResponse().setBody(d.id); })) throw new Error('refused');
}";
const TWO_IN_TURN: &str = "function (a, b) {
    const c = getContext().getCollection(), link = c.getSelfLink();
    const accepted = c.readDocument(link + 'docs/x', (e, d) => {
        if (e) throw e;
        d.count = d.count + 1;
        c.replaceDocument(link + 'docs/x', d, (e, d) => { if (e) throw e; getContext().getResponse().setBody(d.id); });
    });
    if (!accepted) throw new Error('refused');
}";

fn main() {
    let only_procedures = std::env::args().any(|argument| argument == "procedures");
    let example = std::env::current_exe().expect("has a path");
    let directory = example.parent().and_then(|examples| examples.parent()).expect("is in target");
    let program: PathBuf = directory.join("shardlake-script-worker");
    for workers in [WorkerKind::Thread, WorkerKind::Process { program, arguments: Vec::new() }] {
        println!("{workers:?}");
        let scripts = Scripts::new(ScriptSettings { workers, ..ScriptSettings::default() });
        procedures(&scripts);
        if !only_procedures {
            functions(&scripts);
            changes(&scripts);
        }
    }
}

fn procedures(scripts: &Scripts) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("starts");
    let arguments = format!("[{item}, {item}]", item = item());
    for (title, source) in [("empty", EMPTY), ("two at once", TWO_AT_ONCE), ("two in turn", TWO_IN_TURN)] {
        let microseconds = median(|| {
            for _ in 0..200 {
                let invocation = Invocation {
                    name: "p",
                    source,
                    role: Role::Procedure { arguments: &arguments },
                    self_link: "dbs/a/colls/b/",
                    alt_link: "dbs/a/colls/b",
                    usage: "",
                    quota: "",
                    logs: false,
                    foresees: true,
                    limits: ScriptLimits::default(),
                };
                runtime.block_on(scripts.run(HERE, invocation, &mut Instant(item()))).expect("runs");
            }
            200
        });
        println!("  procedure, {title}: {microseconds}");
    }
}

fn functions(scripts: &Scripts) {
    let definitions = [
        ("scalar", "function (x) { return x * 2; }"),
        ("item", "function (item) { return item.tags.length; }"),
    ];
    let limits = ScriptLimits::default();
    let turn = futures::executor::block_on(
        scripts.function_turn(ScriptKey { container: HERE, script: 1 }, Meter::default()),
    )
    .expect("is free");
    let mut functions = scripts.functions(&turn, &definitions, limits).expect("prepares");
    for (name, argument) in [("scalar", "21".to_owned()), ("item", item())] {
        let rows = vec![vec![Some(argument)]; 100];
        let microseconds = median(|| {
            for _ in 0..50 {
                functions.call(name, &rows, limits.time).expect("calls");
            }
            50 * 100
        });
        println!("  function, {name} argument, batches of 100: {microseconds}");
    }
}

const WRITES: &str = "async function (changes, context) {
    const c = context.container('target');
    for (const change of changes) c.upsert({...change.current, seen: change.lsn});
}";
const READS: &str = "async function (changes, context) {
    const c = context.container('target');
    const items = await Promise.all(changes.map((change) => c.read(change.id, change.id)));
    for (const item of items) { item.count++; c.replace(item); }
}";

impl ChangesStore for Instant {
    fn read<'a>(&'a mut self, _: FunctionRead) -> BoxFuture<'a, Result<Option<String>, StoreFailure>> {
        let item = self.0.clone();
        Box::pin(async { Ok(Some(item)) })
    }

    fn query<'a>(&'a mut self, _: FunctionQuery) -> BoxFuture<'a, Result<String, StoreFailure>> {
        Box::pin(async { Ok("[]".to_owned()) })
    }
}

fn changes(scripts: &Scripts) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("starts");
    let key = ScriptKey { container: HERE, script: 1 };
    let paths = ["/id".to_owned()];
    let containers = [FunctionContainer { name: "target", key_paths: &paths, may_write: true }];
    for (title, source) in [("one upsert each", WRITES), ("one read and replace each", READS)] {
        for count in [1, 100] {
            let change = |lsn| {
                let current = item();
                format!(
                    r#"{{"id":"x","partitionKey":["x"],"operation":"replace","lsn":{lsn},"current":{current}}}"#
                )
            };
            let changes = format!("[{}]", (0..count).map(change).collect::<Vec<_>>().join(","));
            let invocation = ChangesInvocation {
                name: "f",
                version: 1,
                attempt: 1,
                source,
                changes: &changes,
                containers: &containers,
                limits: ScriptLimits::default(),
            };
            let microseconds = median(|| {
                for _ in 0..200 {
                    runtime
                        .block_on(scripts.run_changes(key, &invocation, &mut Instant(item())))
                        .expect("runs");
                }
                200 * count
            });
            println!("  changes, {title}, batches of {count}: {microseconds} for each change");
        }
    }
}

/// About 1 KB.
fn item() -> String {
    let text = "abcdefghij ".repeat(6);
    let fields: String = (0..10).map(|n| format!(",\"field{n}\":\"{text}\"")).collect();
    format!("{{\"id\":\"x\",\"count\":1,\"tags\":[\"a\",\"b\",\"c\"],\"price\":12.5{fields}}}")
}

/// Of elapsed and of this process's processor time; with workers on threads the latter is all there is, whatever else the machine does.
fn median(mut round: impl FnMut() -> u32) -> String {
    round();
    let mut rounds: Vec<(f64, f64)> = (0..7)
        .map(|_| {
            let (start, processor_start) = (Clock::System.elapsed(), processor_time());
            let calls = f64::from(round()) / 1e6;
            (
                (Clock::System.elapsed() - start).as_secs_f64() / calls,
                (processor_time() - processor_start) / calls,
            )
        })
        .collect();
    rounds.sort_by(|a, b| a.1.total_cmp(&b.1));
    let (elapsed, processor) = rounds[rounds.len() / 2];
    format!("{elapsed:.1} µs, {processor:.1} µs of processor time here")
}

fn processor_time() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
