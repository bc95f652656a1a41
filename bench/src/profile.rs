//! `cargo xtask bench profile`: the processor time of each path by function, by `perf`.
//!
//! One server is driven by one case after the other while `perf record` watches it and its script
//! workers. For each case there is a page with the most expensive functions, and a flame graph
//! where the tools of `inferno` are installed. Symbols need a build with line tables:
//! `CARGO_PROFILE_QUICK_DEBUG=line-tables-only cargo xtask bench --profile quick profile`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use clap::Args;

use crate::cases::{self, Case};
use crate::contender::{Contender, Setup};
use crate::publish::commit;
use crate::{Outcome, cpu, load};

const SAMPLES_PER_SECOND: &str = "499";
/// Functions that a page lists.
const FUNCTIONS: usize = 40;
const FOLD: &str = "inferno-collapse-perf";
const DRAW: &str = "inferno-flamegraph";

#[derive(Debug, Clone, Args)]
pub struct ProfileOptions {
    /// A build of the server with line tables
    #[arg(long)]
    server: PathBuf,
    /// Seconds of each case
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Items in each of the two containers
    #[arg(long, default_value_t = 30_000)]
    items: u64,
    /// Only operations whose names have one of these words in them
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Where the pages go
    #[arg(long, default_value = "docs/profiles")]
    directory: PathBuf,
}

pub fn run(options: &ProfileOptions) -> Outcome {
    let setup = Setup { binary: options.server.clone(), durability: "sync", items: options.items };
    let contender = Contender::start(&setup)?;
    fs::create_dir_all(&options.directory)?;
    let has_inferno = [FOLD, DRAW].iter().all(|name| is_installed(name));
    if !has_inferno {
        eprintln!("{FOLD} and {DRAW} are not installed: no flame graphs. cargo install --locked inferno");
    }
    for case in cases::all(&contender.server.client(), options.items) {
        if options.only.is_empty() || options.only.iter().any(|part| case.name.contains(part.as_str())) {
            eprintln!("{}", case.name);
            let samples = contender.server.scratch().join("perf.data");
            let cpu_us = record(options, &contender, &case, &samples)?;
            let stem = case.name.replace(' ', "-").to_lowercase();
            let picture = options.directory.join(format!("{stem}.svg"));
            if has_inferno {
                draw(&samples, case.name, &picture)?;
            }
            let page = page(&case, cpu_us, &functions(&samples)?, has_inferno.then_some(&stem));
            fs::write(options.directory.join(format!("{stem}.md")), page)?;
        }
    }
    Ok(())
}

fn is_installed(program: &str) -> bool {
    Command::new(program).arg("--help").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

/// Drives a case while perf watches; processor time of the server per operation. A thread that ends while perf opens its files
/// ends perf, too; so there is another attempt.
fn record(options: &ProfileOptions, contender: &Contender, case: &Case, samples: &Path) -> Outcome<f64> {
    const ATTEMPTS: usize = 3;
    for attempt in 0..ATTEMPTS {
        if let Some(cpu_us) = record_once(options, contender, (case, attempt), samples)? {
            return Ok(cpu_us);
        }
    }
    Err("perf record failed".into())
}

fn record_once(
    options: &ProfileOptions,
    contender: &Contender,
    (case, round): (&Case, usize),
    samples: &Path,
) -> Outcome<Option<f64>> {
    let (address, process) = (contender.server.address(), contender.server.process_id());
    let family: Vec<String> = cpu::family(process).iter().map(u32::to_string).collect();
    let mut perf = Command::new("perf")
        .args(["record", "--call-graph", "dwarf,16384", "-F", SAMPLES_PER_SECOND, "-p"])
        .arg(family.join(","))
        .arg("-o")
        .arg(samples)
        .args(["--", "sleep", &options.seconds.to_string()])
        .stdin(Stdio::null())
        .spawn()
        .map_err(|error| format!("perf does not start: {error}"))?;
    let time = Duration::from_secs(options.seconds);
    let measured = load::drive(address, case.connections, time, (case.requests)(round), process)?;
    Ok(perf.wait()?.success().then_some(measured.cpu_us))
}

/// The most expensive functions by their own samples: share and name.
fn functions(samples: &Path) -> Outcome<Vec<(String, String)>> {
    // Inlined functions would be looked up one by one, which takes minutes.
    let output = Command::new("perf")
        .args(["report", "--no-children", "--no-inline", "--stdio", "-g", "none", "--sort", "symbol", "-i"])
        .arg(samples)
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let function = |line: &str| {
        let (share, rest) = line.trim().split_once('%')?;
        let _is_a_share: f64 = share.parse().ok()?;
        // Columns follow, after spaces.
        let name = rest.trim().trim_start_matches("[.] ").split("  ").next()?;
        Some((format!("{share} %"), name.replace('|', "\\|")))
    };
    Ok(text.lines().filter_map(function).take(FUNCTIONS).collect())
}

fn draw(samples: &Path, title: &str, picture: &Path) -> Outcome {
    let stacks = samples.with_extension("stacks");
    let mut script = Command::new("perf")
        .args(["script", "--no-inline", "-i"])
        .arg(samples)
        .stdout(Stdio::piped())
        .spawn()?;
    let folded = Command::new(FOLD).stdin(script.stdout.take().expect("it was piped")).output()?;
    script.wait()?;
    fs::write(&stacks, &folded.stdout)?;
    let drawn = Command::new(DRAW).args(["--minwidth", "0.5", "--title", title]).arg(&stacks).output()?;
    if !drawn.status.success() {
        return Err(format!("{DRAW} failed: {}", String::from_utf8_lossy(&drawn.stderr)).into());
    }
    Ok(fs::write(picture, &drawn.stdout)?)
}

fn page(case: &Case, cpu_us: f64, functions: &[(String, String)], picture: Option<&String>) -> String {
    let picture = picture.map(|stem| format!("[Flame graph]({stem}.svg). ")).unwrap_or_default();
    let mut page = format!(
        "# Profile: {}\n\n{picture}Commit {}. Processor time of the server per operation: {cpu_us:.0} µs, on {} connections, under `perf`.\n\n| itself | function |\n|---:|---|\n",
        case.name,
        commit().unwrap_or_else(|| "unknown".into()),
        case.connections
    );
    page.extend(functions.iter().map(|(share, name)| format!("| {share} | `{name}` |\n")));
    page
}
