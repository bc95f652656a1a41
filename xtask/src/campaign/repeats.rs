//! `cargo xtask campaign tests`: test programs repeated under changing load, to find tests that
//! pass by luck.
//!
//! Each round runs every chosen program once, alone, while idle loops occupy more or fewer
//! processors than there are. The log has one line for each run, and the output of runs that
//! failed; it stays in the work directory.

use crate::suites::programs::{self, Program, Selection};
use crate::{Outcome, project, tally};
use std::fs::File;
use std::hint::spin_loop;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Loops that keep a processor busy, round by round.
const LOADS: [usize; 4] = [0, 2, 8, 4];

/// Runs of each program, if the command sets no number.
const ROUNDS: u64 = 20;

/// Programs whose PACKAGE/TARGET contains one of these, such as `cluster/lib`, or all; and the tests in them by a part of
/// their names.
pub fn run(rounds: Option<u64>, programs: &[String], test: Option<&str>) -> Outcome {
    programs::build(Selection::All)?;
    let is_chosen =
        |program: &Program| programs.is_empty() || programs.iter().any(|part| program.name().contains(part));
    let chosen: Vec<Program> = programs::programs()?.into_iter().filter(is_chosen).collect();
    if chosen.is_empty() {
        return Err("no test program has such a name".into());
    }
    let folder = project::work_directory().join("campaign");
    std::fs::create_dir_all(&folder)?;
    let started = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let path = folder.join(format!("tests-{started}.log"));
    let mut log = File::create(&path)?;
    println!("the log is {}", path.display());
    let (mut runs, mut failures) = (0, 0);
    for round in 0..rounds.unwrap_or(ROUNDS) {
        let load = LOADS[(round % LOADS.len() as u64) as usize];
        for program in &chosen {
            let (line, output) = under_load(load, || run_once(program, test));
            let line = format!("round {} load {load} {line}", round + 1);
            println!("{line}");
            writeln!(log, "{line}")?;
            runs += 1;
            if let Some(output) = output {
                failures += 1;
                writeln!(log, "{output}")?;
            }
        }
    }
    println!("{runs} runs, {failures} failed; the log is {}", path.display());
    if failures == 0 { Ok(()) } else { Err("some runs failed".into()) }
}

/// One line for the log, and the output of a run that failed.
fn run_once(program: &Program, test: Option<&str>) -> (String, Option<String>) {
    let mut command = program.command();
    command.args(test);
    let started = Instant::now();
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => return (format!("{} does not start", program.name()), Some(error.to_string())),
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let counts =
        tally::of_cargo_test(&text).map_or_else(|| "no counts".to_owned(), |tally| tally.to_string());
    let seconds = started.elapsed().as_secs_f64();
    let line = format!("{} {counts} in {seconds:.1} s, {}", program.name(), output.status);
    let failed = !output.status.success();
    (line, failed.then(|| format!("{text}\n{}", String::from_utf8_lossy(&output.stderr))))
}

/// Runs concurrently with `loops` loops that keep a processor busy.
fn under_load<T>(loops: usize, run: impl FnOnce() -> T) -> T {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..loops {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    spin_loop();
                }
            });
        }
        let result = run();
        is_over.store(true, Ordering::Relaxed);
        result
    })
}
