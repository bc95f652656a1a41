//! The clock of a shard's database, which never goes back.
//!
//! SlateDB refuses a write, a table or a merge that is older by its clock than the newest stored one, and ends. A machine's clock may be set
//! back, and a shard may be opened on a machine whose clock is behind. So the time of a database starts at the newest
//! stored time, and runs at half speed until the machine's clock has caught up:
//!
//! ```text
//! machine    10:00:05   10:00:06     10:00:08     10:00:10
//! database   10:00:07   10:00:07.5   10:00:08.5   10:00:10        the newest stored time is 10:00:07
//! ```
//!
//! Stores date objects by their own clocks. While the database is ahead of the machine its collector removes nothing: objects would
//! seem older than they are.

use std::collections::HashSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use shardlake_stdx::Clock;
use slatedb::admin::Admin;
use slatedb::{GcFilter, ObjectMetadata, VersionedManifest, WalReader};
use slatedb_common::clock::{SystemClock, SystemClockTicker};
use tokio::time::Instant;

/// How far ahead of the machine a database may be whose collector works: little compared to the
/// ages at which objects are removed.
const LEAD_MAX: Duration = Duration::from_mins(1);

#[derive(Debug)]
pub(super) struct SteadyClock {
    machine: Clock,
    last: Mutex<Reading>,
}

#[derive(Debug)]
struct Reading {
    /// Since the epoch.
    time: Duration,
    at: Instant,
}

impl SteadyClock {
    /// A clock that starts at `newest` or later.
    pub fn new(machine: Clock, newest: Duration) -> SteadyClock {
        SteadyClock { machine, last: Mutex::new(Reading { time: newest, at: Instant::now() }) }
    }

    /// Since the epoch.
    fn time(&self) -> Duration {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let time = next(last.time, now - last.at, self.machine_time());
        assert!(time >= last.time, "the time of a store never falls");
        *last = Reading { time, at: now };
        time
    }

    fn machine_time(&self) -> Duration {
        Duration::from_millis(self.machine.now().milliseconds())
    }

    /// How far the machine's clock is behind, where it is behind by more than a collector may overlook.
    pub fn lead(&self) -> Option<Duration> {
        Some(self.time().saturating_sub(self.machine_time())).filter(|lead| *lead > LEAD_MAX)
    }
}

/// The time after `passed`, on a machine whose clock shows `machine`.
fn next(last: Duration, passed: Duration, machine: Duration) -> Duration {
    machine.max(last + passed / 2)
}

impl SystemClock for SteadyClock {
    fn now(&self) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH + self.time()
    }

    fn sleep<'a>(&'a self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        Box::pin(tokio::time::sleep(duration))
    }

    fn ticker<'a>(&'a self, duration: Duration) -> SystemClockTicker<'a> {
        SystemClockTicker::new(self, duration)
    }
}

/// Keeps objects whose age is not known.
pub(super) struct Collects(pub Arc<SteadyClock>);

#[async_trait]
impl GcFilter for Collects {
    async fn filter(&self, candidates: HashSet<ObjectMetadata>) -> HashSet<ObjectMetadata> {
        if self.0.lead().is_some() { HashSet::new() } else { candidates }
    }
}

/// The newest time that a database has stored, since the epoch. `log` has the numbers of its log objects from the last one in tables on.
pub(super) async fn newest_time(
    reader: &WalReader,
    admin: &Admin,
    manifest: &VersionedManifest,
    log: &[u64],
) -> Result<Duration, slatedb::Error> {
    // Names of tables and merges begin with the time at which they were made.
    let tables = manifest.all_sst_views().flat_map(|table| [table.id, table.sst.id.value()]);
    let merged = manifest
        .segments()
        .iter()
        .flat_map(|part| [part.last_compacted_l0_sst_view_id(), part.last_compacted_l0_sst_id()]);
    let mut newest = tables.chain(merged.flatten()).map(|name| name.timestamp_ms()).max().unwrap_or(0);
    for merge in admin.read_compactions(None).await?.iter().flat_map(|all| all.recent_compactions()) {
        let made = merge.output_ssts().into_iter().map(|table| table.id.value());
        let names = made.chain([merge.id()]).map(|name| name.timestamp_ms());
        newest = names.fold(newest, u64::max);
    }
    newest = newest.max(u64::try_from(manifest.last_l0_clock_tick()).unwrap_or(0));
    let log = log.iter().rev().take_while(|number| **number > manifest.replay_after_wal_id());
    for number in log {
        let mut rows = reader.get(*number).iterator().await?;
        let mut written = None;
        while let Some(row) = rows.next().await? {
            written = written.max(row.create_ts);
        }
        // Fences of owners have no rows.
        if let Some(written) = written {
            newest = newest.max(u64::try_from(written).unwrap_or(0));
            break;
        }
    }
    Ok(Duration::from_millis(newest))
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn time_never_goes_back_and_meets_the_machine_s_again() {
        // The machine's clock is set back by 600 ms, and then continues.
        let machine = (0..2_000).map(|step| if step < 100 { 10_000 + step } else { 10_000 + step - 600 });
        let (mut last, mut is_behind) = (at(9_000), 0);
        for machine in machine.map(at) {
            let time = next(last, at(1), machine);
            assert!(time >= last && time >= machine);
            is_behind += usize::from(time > machine);
            last = time;
        }
        assert!((1_195..=1_205).contains(&is_behind), "{is_behind} ms");
    }

    #[tokio::test]
    async fn collector_waits_for_the_machine_s_clock() {
        let object = || ObjectMetadata {
            location: "wal/1".into(),
            last_modified: DateTime::UNIX_EPOCH,
            size: 1,
            e_tag: None,
            version: None,
        };
        for (newest, collected) in [(0, 1), (1_030_000, 1), (1_090_000, 0)] {
            let machine = Clock::manual(shardlake_stdx::Timestamp(1_000_000));
            let clock = Arc::new(SteadyClock::new(machine.clone(), at(newest)));
            let candidates = || HashSet::from([object()]);
            assert_eq!(Collects(clock.clone()).filter(candidates()).await.len(), collected, "{newest}");
            machine.advance(at(100_000));
            assert_eq!(Collects(clock).filter(candidates()).await.len(), 1, "{newest}");
        }
    }
}
