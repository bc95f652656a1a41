//! Methods of a partition that its modules carry out: feeds, sizes and deletions for requests, and the
//! tasks of its owner.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use shardlake_index::IndexLayout;
use shardlake_model::{Limits, ReplyMeta, Result};
use shardlake_routing::{Epk, KeyRange, LogicalKey};
use shardlake_stdx::Timestamp;

use crate::change_feed::{self, FeedFound, FeedLook};
use crate::change_sink::ChangeSink;
use crate::changes::items_round::ItemsRound;
use crate::changes::reader::{self, ChangePage};
use crate::changes::round::{Round, RoundError};
use crate::commit::Writer;
use crate::copies::{self, CopyBatch, CopyReply, UniqueReply};
use crate::delete_key;
use crate::expire::{self, Sweep, SweepStep};
use crate::feed::{self, FeedFilter, PageLimits, PartitionPage};
use crate::functions::{self, FunctionBatch, FunctionProgress, FunctionReply};
use crate::log::holds::HeldLsns;
use crate::operation::CommandContext;
use crate::partition::Partition;
use crate::reclaim;
use crate::shape::ContainerSchema;
use crate::size_reports::{self, SizedKey};
use crate::sizes::LogicalSize;
use crate::tasks::compaction::{self, Compaction, CompactionStep};
use crate::tasks::{self, BuildEnd};
use crate::times;

/// Requests.
impl Partition {
    /// Writes and ends rows of a copy in one commit: those with a newer stamp than the stored ones.
    pub async fn apply_copies(
        &self,
        shape: &Arc<ContainerSchema>,
        command: &CommandContext,
        batch: &CopyBatch,
    ) -> Result<CopyReply> {
        copies::apply_copies(self.core(), shape, command, batch).await
    }

    /// As [`Partition::apply_copies`], for a unique index: one row of each key has the key's name.
    pub async fn apply_unique(
        &self,
        shape: &Arc<ContainerSchema>,
        command: &CommandContext,
        batch: &CopyBatch,
    ) -> Result<UniqueReply> {
        copies::apply_unique(self.core(), shape, command, batch).await
    }

    /// Applies writes of a function in one commit with its progress: all of them, or none. Those that have
    /// the progress already are left out.
    pub async fn apply_function(
        &self,
        shape: &Arc<ContainerSchema>,
        command: &CommandContext,
        batch: &FunctionBatch,
    ) -> Result<FunctionReply> {
        functions::apply_function(self.core(), shape, command, batch).await
    }

    /// How far a function has come here, by durable commits.
    pub async fn function_progress(&self, function: u32) -> Result<Vec<FunctionProgress>> {
        functions::read_all(self.core(), function).await
    }

    /// Deletes the progress of a function that is no more.
    pub async fn forget_function(&self, function: u32) -> Result<()> {
        functions::forget(self.core(), function).await
    }

    /// Records of a copy's rows by key and id, as acknowledged commits left them.
    pub async fn copy_rows(&self, names: &[(&LogicalKey, &str)]) -> Result<Vec<Option<Bytes>>> {
        copies::stored_rows(self.core(), names).await
    }

    /// One page, in the order epk, partition key, creation, of the items that are durable when it is read.
    pub async fn read_page(
        &self,
        shape: &Arc<ContainerSchema>,
        command: &CommandContext,
        filter: &FeedFilter,
        after: Option<&[u8]>,
        limits: PageLimits,
    ) -> Result<PartitionPage> {
        feed::read_page(self.core(), shape, command, filter, after, limits, None).await
    }

    /// A page of the change feed: hands the changes to `out`.
    pub async fn read_changes(&self, look: &FeedLook<'_>, out: &mut dyn ChangeSink) -> Result<FeedFound> {
        change_feed::read_changes(self.core(), look, out).await
    }

    /// Looks at up to `entries_max` durable entries above `after`. LSNs of the partitions that this
    /// one was made of count, too: a reader that has followed one of them over `span` continues here
    /// with the last LSN seen there.
    pub async fn changes(&self, span: &KeyRange, after: u64, entries_max: usize) -> Result<ChangePage> {
        reader::changes(self.core(), span, after, entries_max).await
    }

    /// The changes of a span above an LSN, up to the last acknowledged commit, in one view of the
    /// engine. LSNs of the partitions that this one was made of count, too.
    pub async fn log_round(&self, span: &KeyRange, after: u64) -> Result<Round, RoundError> {
        Round::begin(self.core(), span, after).await
    }

    /// A round for a reader that only needs the last version of every live item. Compaction keeps
    /// the operations that wrote these, so that there is no hole for it.
    pub async fn log_round_over_holes(&self, span: &KeyRange, after: u64) -> Result<Round, RoundError> {
        Round::begin_over_holes(self.core(), span, after).await
    }

    /// About `items_max` items from the start of a span on, in one view of the engine; more where
    /// the last logical partition has more.
    pub async fn items_round(&self, span: &KeyRange, items_max: usize) -> Result<ItemsRound> {
        ItemsRound::begin(self.core(), span, items_max).await
    }

    /// The LSN behind which a reader of all versions finds everything that was written to a span at a time and later; `None`
    /// where some of that is not kept any more.
    pub async fn versions_since(
        &self,
        span: &KeyRange,
        time: Timestamp,
        now: Timestamp,
    ) -> Result<Option<u64>> {
        times::versions_since(self.core(), span, time, now).await
    }

    /// The last LSN up to which everything was written before a time; 0 where the log has nothing older.
    pub async fn last_before(&self, time: Timestamp) -> Result<u64> {
        times::last_before_time(self.core(), time).await
    }

    /// Time of the last commit that was planned.
    pub async fn last_time(&self) -> Timestamp {
        times::last_time(self.core()).await
    }

    /// From now on no commit has an earlier time. Returns the LSN of the last commit before that,
    /// which may not be durable yet.
    pub async fn pass(&self, time: Timestamp) -> u64 {
        times::pass(self.core(), time).await
    }

    /// Deletes every item that a logical partition has now, a bounded number per commit. Gives how many there were. Those whose time has
    /// run out go too, as such, and cost nothing.
    pub async fn delete_logical_partition(
        &self,
        shape: &Arc<ContainerSchema>,
        command: &CommandContext,
        logical: &LogicalKey,
    ) -> Result<(u64, ReplyMeta)> {
        delete_key::delete_logical_partition(self.core(), shape, command, logical).await
    }

    /// The size of a logical partition, as the engine shows it now.
    pub async fn logical_size(&self, logical: &LogicalKey) -> Result<LogicalSize> {
        size_reports::logical_size(self.core(), logical).await
    }

    /// The largest logical partitions, largest first, at most 32. The first time, and rarely again, it takes as long as
    /// reading all sizes.
    pub async fn largest_logical_partitions(&self, count: usize) -> Result<Vec<SizedKey>> {
        size_reports::largest_logical_partitions(self.core(), count).await
    }

    /// Where a cut leaves about half of the bytes on either side: the first position of the upper
    /// half. `None` where everything lies in one place. Writes that continue meanwhile move the
    /// middle by their size.
    pub async fn size_median(&self) -> Result<Option<Epk>> {
        size_reports::size_median(self.core()).await
    }
}

/// Tasks of the owner.
impl Partition {
    /// When, in seconds, the first item may run out under a default; `None` while none can.
    pub fn expiry_due(&self, default_ttl: Option<i64>) -> Option<u64> {
        self.core().expiry.due_under(self.core().holds.expired()).at(default_ttl)
    }

    /// Items removed since the partition was opened because their time had run out.
    pub fn purged(&self) -> u64 {
        self.core().expiry.purged()
    }

    /// From now on only sweeps with this default remove expired items. To be called before a
    /// changed definition is published.
    pub async fn follow_ttl(&self, default_ttl: Option<i64>) {
        self.core().sequencer.hold().await.default_ttl = Some(default_ttl);
    }

    /// Begins a walk over the items whose time may have run out. Only the findings of the last one
    /// that began are kept.
    pub async fn begin_sweep(&self) -> Result<Sweep> {
        expire::begin_sweep(self.core()).await
    }

    /// Looks for items, or removes some that were found, with up to `rows_max` rows of the index. Not both: clients may come in between.
    pub async fn sweep_step(
        &self,
        shape: &Arc<ContainerSchema>,
        now: Timestamp,
        sweep: &mut Sweep,
        rows_max: usize,
    ) -> Result<SweepStep> {
        expire::sweep_step(self.core(), shape, now, sweep, rows_max).await
    }

    /// From now on no write uses the unique keys and the bounds of a shape before this one.
    pub async fn follow_unique_keys(&self, shape: &ContainerSchema) {
        self.core().sequencer.hold().await.unique_since = shape.number;
    }

    /// From now on every commit records ended rows for the copies of this shape or of a later one, also
    /// under an earlier shape. When this returns, commits planned before are applied: a view has them.
    pub async fn follow_watch(&self, shape: &ContainerSchema) -> Result<()> {
        let last = {
            let mut sequencer = self.core().sequencer.hold().await;
            self.core().check_open()?;
            sequencer.watched.follow(shape);
            self.core().last_queued(&sequencer)
        };
        self.core().wait_for(last).await
    }

    /// From now on versions that end are kept for so long, or not at all. That is known for good with the next commit: if there
    /// is none before a crash, there is nothing to keep either.
    pub async fn keep_versions(&self, retention: Option<Duration>) {
        let sequencer = self.core().sequencer.hold().await;
        self.core().past.keep_versions(retention, sequencer.lsn);
    }

    /// Time of the first acknowledged commit above an LSN; `None` where there is none.
    pub async fn log_time_above(&self, lsn: u64) -> Result<Option<Timestamp>> {
        reader::time_above(self.core(), lsn).await
    }

    /// From now on the log and expired items are kept for followers that are so far.
    pub fn hold_log(&self, held: HeldLsns) {
        self.core().holds.set(held);
    }

    /// Whether a step of compaction may find something to do; cheap.
    pub fn compaction_due(&self, limits: &Limits, now: Timestamp) -> bool {
        compaction::compaction_due(self.core(), limits, now)
    }

    /// One step of compaction.
    pub async fn compact(
        &self,
        compaction: &mut Compaction,
        limits: &Limits,
        now: Timestamp,
    ) -> Result<CompactionStep> {
        compaction::compact(self.core(), compaction, limits, now).await
    }

    /// From now on no query begins to read a generation below this one.
    pub fn retire_indexes_below(&self, id: u16) {
        tasks::retire_indexes_below(self.core(), id);
    }

    /// Decides which generations every later commit keeps up to date. When this returns, commits planned without them are
    /// applied: nothing is written to any other generation any more.
    pub async fn maintain_indexes(&self, layouts: Vec<Arc<IndexLayout>>) -> Result<()> {
        tasks::maintain_indexes(self.core(), layouts).await
    }

    /// Adds the terms of every item to a generation that the partition maintains. `done` is called
    /// with the number of items dealt with since the last call.
    pub async fn build_index(
        &self,
        shape: &Arc<ContainerSchema>,
        layout: &Arc<IndexLayout>,
        done: &(dyn Fn(u64) + Send + Sync),
    ) -> Result<BuildEnd> {
        tasks::build_index(self.core(), shape, layout, done).await
    }

    /// Deletes the remains of generations below `end`, except for some, after the partition has
    /// stopped maintaining them. Generations from `end` on may be in the making and are left alone.
    pub async fn drop_indexes_below(&self, end: u16, except: &[u16]) -> Result<()> {
        tasks::drop_indexes_below(self.core(), end, except).await
    }

    /// Counts a path from now on, in the background. Not where the shard refuses writes: each query would ask again in vain.
    pub fn count_path_in_background(&self, index_id: u16, path_hash: u64) {
        tasks::count_path_in_background(self.core(), index_id, path_hash);
    }

    /// Counts a path without array elements in a whole generation from now on, unless too many are counted already. Must
    /// be polled to its end.
    pub async fn count_path(&self, index_id: u16, path_hash: u64) -> Result<()> {
        tasks::count_path(self.core(), index_id, path_hash).await
    }
}

/// One commit towards a logical partition within the bounds of its container. Returns whether
/// another commit has to follow.
pub async fn trim(
    partition: &Partition,
    shape: &Arc<ContainerSchema>,
    now: Timestamp,
    logical: &LogicalKey,
    patience: Duration,
) -> Result<bool> {
    let writer = Writer::Passing(logical, patience);
    reclaim::trim_for(partition.core(), shape, now, (logical, LogicalSize::default()), writer).await
}
