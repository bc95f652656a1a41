//! Memory of the machine, and the limits that follow from it.

use std::path::Path;

/// Memory planned for a database or container: some 20 KB of definitions and counters when it is
/// empty, the rest for its cached rows while it is used.
const RESOURCE_BYTES: u64 = 64 << 10;
/// Part of the memory that databases and containers may take.
const RESOURCES_SHARE: u64 = 8;
/// Databases and containers on the smallest machine: the service's limit.
const RESOURCES_MIN: usize = 500;

/// Databases and containers for which there is memory, up to `most`. An unknown size of the memory is
/// no limit.
pub fn resources_max(memory_bytes: Option<u64>, most: usize) -> usize {
    let Some(bytes) = memory_bytes else { return most };
    let fitting = usize::try_from(bytes / RESOURCES_SHARE / RESOURCE_BYTES).unwrap_or(usize::MAX);
    fitting.clamp(RESOURCES_MIN.min(most), most)
}

/// Memory of the machine or, where it is less, of the control group that the process runs in. `None`
/// where the operating system does not report it.
pub fn available_bytes() -> Option<u64> {
    let read = |path: &str| std::fs::read_to_string(Path::new(path)).ok();
    let machine = read("/proc/meminfo").and_then(|text| total_of_meminfo(&text));
    let group = read("/sys/fs/cgroup/memory.max").and_then(|text| text.trim().parse::<u64>().ok());
    machine.into_iter().chain(group).min()
}

fn total_of_meminfo(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_machines_hold_fewer_containers() {
        assert_eq!(resources_max(None, 10_000), 10_000);
        assert_eq!(resources_max(Some(64 << 30), 10_000), 10_000);
        assert_eq!(resources_max(Some(1 << 30), 10_000), 2048);
        assert_eq!(resources_max(Some(64 << 20), 10_000), 500);
        assert_eq!(resources_max(Some(64 << 20), 100), 100);
    }

    #[test]
    fn the_memory_of_the_machine_is_read() {
        let text = "MemTotal:       24576000 kB\nMemFree:         1000 kB\n";
        assert_eq!(total_of_meminfo(text), Some(24_576_000 << 10));
        assert_eq!(total_of_meminfo("MemFree: 1 kB"), None);
    }
}
