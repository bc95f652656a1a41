//! The table of results: medians over rounds, and ratios.

use std::fmt::Write;

use crate::load::Measured;

/// One line: a contestant at a number of connections, over all rounds.
#[derive(Debug, Clone)]
pub struct Line {
    pub operation: &'static str,
    pub connections: usize,
    pub contestant: &'static str,
    pub rounds: Vec<Measured>,
}

impl Line {
    pub fn median(&self) -> Measured {
        median(&self.rounds)
    }
}

pub fn median(rounds: &[Measured]) -> Measured {
    let middle = |value: fn(&Measured) -> f64| {
        let mut values: Vec<f64> = rounds.iter().map(value).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or(0.0)
    };
    Measured {
        per_second: middle(|round| round.per_second),
        p50_us: middle(|round| round.p50_us),
        p99_us: middle(|round| round.p99_us),
        cpu_us: middle(|round| round.cpu_us),
    }
}

/// A Markdown table; ratios compare with the other contestants of the same operation and connections.
pub fn table(lines: &[Line]) -> String {
    let mut out = String::from(
        "| operation | connections | contestant | ops/s | p50 µs | p99 µs | server CPU µs/op | shardlake ÷ this |\n|---|---:|---|---:|---:|---:|---:|---:|\n",
    );
    for line in lines {
        let median = line.median();
        let ours = lines.iter().find(|other| {
            other.contestant == "shardlake"
                && other.operation == line.operation
                && other.connections == line.connections
        });
        let ratio = match ours {
            Some(ours) if line.contestant != "shardlake" => {
                format!("{:.2}", ours.median().per_second / median.per_second)
            }
            _ => "–".to_owned(),
        };
        let cpu = if median.cpu_us > 0.0 { format!("{:.1}", median.cpu_us) } else { "–".into() };
        writeln!(
            out,
            "| {} | {} | {} | {:.0} | {:.0} | {:.0} | {cpu} | {ratio} |",
            line.operation,
            line.connections,
            line.contestant,
            median.per_second,
            median.p50_us,
            median.p99_us
        )
        .expect("a string takes any text");
    }
    out
}

/// The machine of the measurement.
pub fn machine() -> String {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split(": ").nth(1))
        .unwrap_or("unknown CPU");
    let cores = cpu.lines().filter(|line| line.starts_with("processor")).count();
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib: f64 =
        memory.lines().next().and_then(|line| line.split_whitespace().nth(1)?.parse().ok()).unwrap_or(0.0);
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or("?").to_owned();
    format!(
        "{cores} cores of {model}, {:.0} GiB of memory, load average {load} before the run",
        kib / 1024.0 / 1024.0
    )
}
