//! The process in the names that Prometheus' own clients give it, read from `/proc`, and the file system of its data.

use std::fs;
use std::path::Path;

use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};
use shardlake_stdx::disk_space;

use crate::exposition::Page;
use crate::metric_table as table;

/// The unit of times in `/proc`, which Linux fixes for programs whatever its own clock does.
const TICKS_PER_SECOND: f64 = 100.0;

/// What cannot be read is left out.
pub fn write(page: &mut Page) {
    let cpu = clock_gettime(ClockId::ProcessCPUTime);
    page.set(&table::PROCESS_CPU, cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9);
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    page.set_some(&table::PROCESS_RESIDENT, field(&status, "VmRSS:").map(|kibibytes| kibibytes * 1024));
    page.set_some(&table::PROCESS_THREADS, field(&status, "Threads:"));
    page.set_some(&table::PROCESS_START, started_at());
    // One of them is the folder that is being read.
    let open = fs::read_dir("/proc/self/fd").map(|entries| (entries.count() as u64).saturating_sub(1));
    page.set_some(&table::PROCESS_OPEN_FDS, open.ok());
    page.set_some(&table::PROCESS_MAX_FDS, getrlimit(Resource::Nofile).current);
}

/// Of the file system on which the data directory lies.
pub fn write_disk(page: &mut Page, data_dir: Option<&Path>) {
    let Some(Ok(space)) = data_dir.map(disk_space) else { return };
    page.set(&table::DATA_DIR_SIZE, space.size_bytes);
    page.set(&table::DATA_DIR_FREE, space.free_bytes);
}

/// The number behind a name at the start of a line.
fn field(text: &str, name: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(name))?;
    value.split_ascii_whitespace().next()?.parse().ok()
}

/// Unix seconds.
fn started_at() -> Option<f64> {
    let booted = field(&fs::read_to_string("/proc/stat").ok()?, "btime ")?;
    let ticks = start_ticks(&fs::read_to_string("/proc/self/stat").ok()?)?;
    Some(booted as f64 + ticks as f64 / TICKS_PER_SECOND)
}

/// `man 5 proc_pid_stat`: ticks since the machine was booted. The second field is a name in parentheses, which may hold anything.
fn start_ticks(stat: &str) -> Option<u64> {
    const START_TIME: usize = 22;
    let behind_name = stat.rsplit_once(')')?.1;
    // The first of these is the third of the file.
    behind_name.split_ascii_whitespace().nth(START_TIME - 3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_and_spaces_moves_no_field() {
        let text = "42 (a) b ) S 1 42 42 0 -1 4194304 100 0 0 0 70 30 0 0 20 0 9 0 5000 1000000 256 18446744073709551615 1";
        assert_eq!((start_ticks(text), start_ticks("42 (cut")), (Some(5000), None));
        assert_eq!(field("Name:\tx\nVmRSS:\t   12 kB\n", "VmRSS:"), Some(12));
    }

    #[test]
    fn this_process_is_shown() {
        let mut page = Page::default();
        write(&mut page);
        write_disk(&mut page, Some(Path::new(".")));
        let text = page.text();
        for name in [
            "process_cpu_seconds_total ",
            "process_resident_memory_bytes ",
            "process_threads ",
            "process_start_time_seconds ",
            "process_open_fds ",
            "process_max_fds ",
            "shardlake_data_dir_free_bytes ",
        ] {
            assert!(text.contains(&format!("\n{name}")), "{name} in\n{text}");
        }
    }
}
