//! Processor time of a process and its children, from `/proc`.
//!
//! The scheduler counts the nanoseconds of every living thread. The process as a whole has a count of hundredths of a second,
//! which also knows of threads that have ended; it is used where it is larger than its rounding explains.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

/// User and system time are rounded down, each at both ends.
const ROUNDING_SECONDS: f64 = 0.04;

/// Processor time used up to a point in time.
pub struct Cpu {
    process: u32,
    /// Nanoseconds by thread.
    threads: BTreeMap<u32, u64>,
    ticks: u64,
}

impl Cpu {
    pub fn of(process: u32) -> Cpu {
        let processes = family(process);
        let threads = processes.iter().flat_map(|process| {
            threads(*process).into_iter().filter_map(|thread| Some((thread, nanoseconds(*process, thread)?)))
        });
        Cpu { process, threads: threads.collect(), ticks: processes.iter().copied().map(ticks).sum() }
    }

    /// Seconds used since this snapshot.
    pub fn seconds(&self) -> f64 {
        let now = Cpu::of(self.process);
        let of_thread = |(thread, now): (&u32, &u64)| now - self.threads.get(thread).unwrap_or(&0);
        let exact = now.threads.iter().map(of_thread).sum::<u64>() as f64 / 1e9;
        let rounded = now.ticks.saturating_sub(self.ticks) as f64 / 100.0;
        if rounded - exact > ROUNDING_SECONDS { rounded } else { exact }
    }
}

/// Waits until a process is almost idle, or for some seconds; returns the processor time that it used meanwhile.
pub fn settle(process: u32, patience: Duration) -> f64 {
    const WINDOW: Duration = Duration::from_millis(40);
    let (all, started) = (Cpu::of(process), Instant::now());
    while started.elapsed() < patience {
        let window = Cpu::of(process);
        std::thread::sleep(WINDOW);
        if window.seconds() < WINDOW.as_secs_f64() * 0.05 {
            break;
        }
    }
    all.seconds()
}

pub fn resident_megabytes(process: u32) -> f64 {
    megabytes(process, "VmRSS:")
}

/// Since the process began.
pub fn most_resident_megabytes(process: u32) -> f64 {
    megabytes(process, "VmHWM:")
}

fn megabytes(process: u32, name: &str) -> f64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(name)).unwrap_or("");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<f64>().ok()).unwrap_or(0.0) / 1024.0
}

fn threads(process: u32) -> Vec<u32> {
    let entries = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// A process and its children.
pub fn family(process: u32) -> Vec<u32> {
    std::iter::once(process).chain(children(process)).collect()
}

fn children(process: u32) -> Vec<u32> {
    let lists = threads(process)
        .into_iter()
        .filter_map(|thread| fs::read_to_string(format!("/proc/{process}/task/{thread}/children")).ok());
    lists
        .flat_map(|list| list.split_whitespace().filter_map(|child| child.parse().ok()).collect::<Vec<_>>())
        .collect()
}

fn nanoseconds(process: u32, thread: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/task/{thread}/schedstat")).ok()?;
    text.split(' ').next()?.parse().ok()
}

fn ticks(process: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // Fields are counted after the command's closing parenthesis, since the command may hold spaces.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    let ticks = |index: usize| fields.get(index).and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
    // Its own time, and that of children that have ended.
    ticks(11) + ticks(12) + ticks(13) + ticks(14)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_work_of_ended_threads_counts() {
        let work = || (0..20_000_000_u64).fold(0, |sum, number| std::hint::black_box(sum ^ number));
        let cpu = Cpu::of(std::process::id());
        let is_counted = (0..1000).any(|_| {
            std::thread::spawn(work).join().expect("it does not panic");
            cpu.seconds() > 2.0 * ROUNDING_SECONDS
        });
        assert!(is_counted);
    }
}
