//! Sampler of connections, requests, processor and memory, once a second, for the operators' charts.
//!
//! Requests are counted where they are answered; the sampler reads the counts, and asks the system for processor and memory.
//! The size of the files is read now and then, on the blocking pool, since it waits for a journal that is being synced.

use std::sync::Arc;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use shardlake_account::Account;
use shardlake_admin::{ProcessGauges, ProcessRings};
use shardlake_stdx::Clock;
use tokio::time::MissedTickBehavior;

use crate::metrics::Metrics;

const PERIOD: Duration = Duration::from_secs(1);
/// Periods between two looks at the files.
const DISK_PERIODS: u64 = 10;

/// Takes samples as long as the server runs.
pub async fn sample(rings: Arc<ProcessRings>, metrics: Arc<Metrics>, account: Account, clock: Clock) {
    let mut ticks = tokio::time::interval(PERIOD);
    // After a pause of the machine there is nothing to make up for.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut disk_bytes, mut count) = (0, 0_u64);
    loop {
        ticks.tick().await;
        if count.is_multiple_of(DISK_PERIODS) {
            let account = account.clone();
            let asked = tokio::task::spawn_blocking(move || account.statistics().disk_bytes);
            disk_bytes = asked.await.unwrap_or(disk_bytes);
        }
        count += 1;
        let gauges = ProcessGauges {
            connections: u64::try_from(metrics.connections.get()).unwrap_or(0),
            direct_connections: u64::try_from(metrics.direct_connections.get()).unwrap_or(0),
            cpu: cpu(),
            memory_bytes: memory_bytes().unwrap_or(0),
            disk_bytes,
        };
        rings.note(clock.elapsed(), &metrics.counts, gauges);
    }
}

/// Processor time of all threads since the process was started.
fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// In memory, as the kernel counts; `None` where it has no such file.
fn memory_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_uses_something() {
        assert!(cpu() > Duration::ZERO);
        #[cfg(target_os = "linux")]
        assert!(memory_bytes().expect("linux tells") > 1 << 20);
    }
}
