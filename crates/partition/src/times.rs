//! Times of commits, for readers that bring the changes of several partitions into one order, or begin at a time.
//!
//! A commit takes its time when it is planned under the sequencer, from the account's
//! `CommitTimes`. Times of commits of one partition rise. A commit that is planned,
//! or queued and not durable, may still have an earlier time than a change that another partition
//! has reported already. [`Partition::pass`] waits for the sequencer, and so rules that out:
//!
//! ```text
//! reader: has a change of time t, from partition A
//!         B.pass(t): commits of B that follow have a time of t or later; the last one before has LSN n
//!         reads B up to n, and knows all that B did before t
//! ```

use shardlake_model::Result;
use shardlake_routing::KeyRange;
use shardlake_stdx::Timestamp;

use crate::change_feed::last_before;
use crate::core::Core;
use crate::keys;
use crate::log::marks::NOT_KEPT;

/// Time of the last commit that was planned.
pub(crate) async fn last_time(core: &Core) -> Timestamp {
    core.sequencer.hold().await.time.into()
}

/// The last LSN up to which everything was written before a time.
pub(crate) async fn last_before_time(core: &Core, time: Timestamp) -> Result<u64> {
    let snapshot = core.shard().snapshot();
    core.check_open()?;
    last_before(core, &snapshot, 0, time).await
}

/// From now on no commit has an earlier time. Returns the LSN of the last commit before that,
/// which may not be durable yet.
pub(crate) async fn pass(core: &Core, time: Timestamp) -> u64 {
    let mut sequencer = core.sequencer.hold().await;
    sequencer.time = sequencer.time.max(time.into());
    sequencer.lsn
}

/// The LSN behind which a reader of all versions finds everything that was written to a span at a time and later; `None`
/// where some of that is not kept any more.
pub(crate) async fn versions_since(
    core: &Core,
    span: &KeyRange,
    time: Timestamp,
    now: Timestamp,
) -> Result<Option<u64>> {
    let snapshot = core.shard().snapshot();
    core.check_open()?;
    let span = span.intersection(&core.epk_range);
    let (start, end) = (keys::item_key_bound_below(&span), keys::item_key_bound(&span));
    let past = core.past.marks().past_of(&start, end.as_deref());
    let mut after = last_before(core, &snapshot, 0, time).await?;
    let oldest_ms = now.milliseconds().saturating_sub(core.past.retention().as_millis() as u64);
    if time.milliseconds() >= oldest_ms {
        // Compaction removed only entries older than the retention time, and so older than
        // this.
        after = after.max(past.compacted_to);
    }
    let is_kept = past.versions_from != NOT_KEPT && after >= past.versions_from.max(past.compacted_to);
    Ok(is_kept.then_some(after))
}
