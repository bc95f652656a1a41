//! Keeps containers in as many physical partitions as their size and throughput require: evaluates the policy
//! repeatedly, and begins the splits that it returns.
//!
//! One task per account looks at all containers every second, and at once when a throughput was changed. It holds the
//! account weakly, so that dropping the account ends the task. A failed step is retried after a while, not at once.

use std::sync::Arc;
use std::time::Duration;

use shardlake_capacity::policy::{NextStep, PolicyLimits, RangeView, SplitReason, next_step};
use shardlake_heat::{HeatReport, RangeLoad};
use shardlake_model::{Error, ErrorKind, Offer, Result};
use shardlake_routing::{KeyRange, width};

use crate::relocation::SplitAt;
use crate::{Held, Upkeep};
use shardlake_router::ContainerEntry;
use shardlake_router::ContainerHandle;
use shardlake_router::RelocationKind;
use shardlake_router::bounds_of;

const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Time span that counts as the load of a partition that is to be split.
const LOAD_WINDOW: Duration = Duration::from_secs(600);
/// Share of the load above which a half of a range is the hot one.
const HOT_SIDE: f64 = 2.0 / 3.0;
/// Shares below the load's median that are worth a cut there.
const FAIR_SHARES: std::ops::RangeInclusive<f64> = 0.25..=0.75;
const RETRY_AFTER: Duration = Duration::from_secs(30);

/// A merge is worth while below 3,000 RU/s and 20 GB for each partition (engine.md §8.1).
const MERGE_THROUGHPUT_BELOW: u64 = 3000;

pub(crate) fn start(upkeep: &Upkeep) {
    let (held, wake) = (Held::of(upkeep), upkeep.0.router.offers_changed().clone());
    tokio::spawn(async move {
        loop {
            let _looked_early = tokio::time::timeout(LOOK_EVERY, wake.notified()).await;
            let Some(upkeep) = held.upkeep() else { return };
            look(&upkeep).await;
        }
    });
}

async fn look(upkeep: &Upkeep) {
    let catalog = upkeep.0.router.catalog().load_full();
    for entry in catalog.containers() {
        if entry.record.relocation.is_some() || !upkeep.may_balance(entry) {
            continue;
        }
        if let Err(error) = upkeep.balance(entry).await {
            let retry_at = upkeep.router().clock().elapsed() + RETRY_AFTER;
            entry.motion.state().retry_at = Some(retry_at);
            upkeep.tell_split_did_not_begin(entry, &error);
        }
    }
}

impl Upkeep {
    fn tell_split_did_not_begin(&self, entry: &ContainerEntry, error: &Error) {
        // A client was quicker: it began a relocation, or deleted the container.
        let is_moot = matches!(error.kind(), ErrorKind::InProgress | ErrorKind::OwnerNotFound);
        if !is_moot && !self.router().is_closing() {
            tracing::warn!(container = %entry.record.container.rid, %error, "a split that is due did not begin");
        }
    }

    fn may_balance(&self, entry: &ContainerEntry) -> bool {
        let mut state = entry.motion.state();
        let now = self.router().clock().elapsed();
        if let Some(Err(_)) = &state.last
            && state.retry_at.is_none()
        {
            state.retry_at = Some(now + RETRY_AFTER);
        }
        state.retry_at.is_none_or(|at| now >= at)
    }

    async fn balance(&self, entry: &Arc<ContainerEntry>) -> Result<()> {
        if let NextStep::Split { range_id, reason } = self.next_step(entry).await? {
            let at = match reason {
                SplitReason::Storage => SplitAt::Size,
                SplitReason::Throughput => SplitAt::Best,
            };
            {
                let mut state = entry.motion.state();
                state.last = None;
                state.retry_at = None;
            }
            let container = ContainerHandle { entry: entry.clone(), by_rid: false };
            self.split(&container, range_id, at).await?;
        }
        Ok(())
    }

    /// The next step of the policy for a container.
    pub async fn next_step_of(&self, container: &ContainerHandle) -> Result<NextStep> {
        let entry = self.router().current_entry(&container.entry)?;
        self.next_step(&entry).await
    }

    async fn next_step(&self, entry: &ContainerEntry) -> Result<NextStep> {
        let limits = self.router().limits();
        let definition = &entry.record.container.definition.partition_key;
        let mut views = Vec::with_capacity(entry.record.ranges.len());
        for (range, partition) in entry.record.ranges.iter().zip(entry.map.iter()) {
            let size_bytes = partition.size_bytes();
            let is_too_large = size_bytes > limits.physical_partition_size_bytes_max;
            views.push(RangeView {
                range_id: range.range_id,
                width: width(definition, &bounds_of(range)?),
                size_bytes,
                share: range.throughput,
                is_divisible: !is_too_large || partition.hosted().partition().size_median().await?.is_some(),
            });
        }
        let policy = PolicyLimits {
            partition_size_bytes_max: limits.physical_partition_size_bytes_max,
            partition_throughput_max: limits.partition_throughput_max,
            partitions_max: limits.partitions_per_container_max,
            merge_size_bytes_below: limits.physical_partition_size_bytes_max / 5 * 2,
            merge_throughput_below: MERGE_THROUGHPUT_BELOW,
        };
        let catalog = self.0.router.catalog().load();
        let own = catalog.offer_of(&entry.record.container.rid.to_string());
        // Throughput that no client has set is not enforced, so nothing is split for it.
        let own = own.filter(|offer| offer.enforced);
        let throughput = own.map(|offer| offer.throughput.maximum());
        Ok(next_step(&views, throughput, &policy))
    }

    /// Has the containers looked at now rather than within a second.
    pub(crate) fn wake_balance(&self) {
        self.0.router.offers_changed().notify_one();
    }

    /// Whether partitions are still being cut for a throughput that was set.
    pub async fn is_throughput_pending(&self, offer: &Offer) -> Result<bool> {
        let catalog = self.0.router.catalog().load_full();
        let mut entries = catalog.containers();
        let found = entries.find(|entry| entry.rid_text() == offer.resource_rid);
        let Some(entry) = found else { return Ok(false) };
        let step = match self.next_step(entry).await {
            Ok(step) => step,
            Err(error) if error.kind() == ErrorKind::PartitionGone => return Ok(true),
            Err(error) => return Err(error),
        };
        Ok(matches!(step, NextStep::Split { reason: SplitReason::Throughput, .. }))
    }

    /// The ranges that are being cut, or are cut next because of their size or throughput.
    pub async fn ranges_being_split(&self, container: &ContainerHandle) -> Result<Vec<u32>> {
        let entry = &container.entry;
        if let Some(relocation) = &entry.record.relocation {
            let is_split = relocation.kind == RelocationKind::Split;
            return Ok(if is_split { relocation.sources.clone() } else { Vec::new() });
        }
        match self.next_step(entry).await {
            Ok(NextStep::Split { range_id, .. }) => Ok(vec![range_id]),
            Ok(_) => Ok(Vec::new()),
            // It was split since the container was looked up.
            Err(error) if error.kind() == ErrorKind::PartitionGone => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// The bound to cut a range at.
    pub(crate) async fn best_bound(
        &self,
        entry: &ContainerEntry,
        range_id: u32,
        at: &SplitAt,
    ) -> Result<Option<shardlake_routing::Epk>> {
        let partition = entry.map.iter().find(|partition| partition.range_id() == range_id);
        let partition = partition.ok_or_else(|| Error::internal("a range without its partition"))?;
        if *at == SplitAt::Size {
            return partition.hosted().partition().size_median().await;
        }
        let definition = &entry.record.container.definition.partition_key;
        let report = partition
            .hosted()
            .partition()
            .heat(definition)
            .report(self.router().clock().elapsed(), LOAD_WINDOW);
        let median = report.recent.load_median.as_ref();
        let median =
            median.and_then(|median| Some((KeyRange::from_hex(&median.epk, "FF").ok()?.min, median)));
        Ok(match (at, median) {
            (SplitAt::Load, Some((bound, _))) => Some(bound),
            (SplitAt::Load, None) => {
                return Err(Error::bad_request(format!(
                    "range {range_id} had no load in the last minutes that could be halved: split it at 'middle' or 'size'"
                )));
            }
            (SplitAt::Best, Some((bound, median))) if is_lopsided(&report) => {
                // Where one key has most of the load, no bound halves it.
                FAIR_SHARES.contains(&median.share_below).then_some(bound)
            }
            _ => None,
        })
    }
}

/// Whether one half of the range has much more of the load than the other.
fn is_lopsided(report: &HeatReport) -> bool {
    let sum = |buckets: &[RangeLoad]| buckets.iter().map(|bucket| bucket.ru).sum::<f64>();
    let (low, high) = report.buckets.split_at(report.buckets.len() / 2);
    let (low, high) = (sum(low), sum(high));
    low.max(high) > HOT_SIDE * (low + high)
}
