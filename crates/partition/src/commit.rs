//! From a command to a commit: read, plan, queue.
//!
//! ```text
//! look ahead  for heavy items: their requirements are determined      on the blocking pool, no lock
//! permit      of a large commit                                       storage/src/large_commits.rs
//! sequencer   plan: a function that waits for nothing, then queue one batch with its log entry
//! again       the plan's missing reads are fetched in one go (read_set.rs), or the plan is offloaded
//! ```
//!
//! A plan can be made any number of times, and on any thread: nothing is changed before its commit is queued.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use shardlake_model::{Error, ErrorKind, Result};
use shardlake_routing::LogicalKey;
use shardlake_stdx::{HybridTime, Timestamp, UnderWay};
use shardlake_storage::{Batch, PendingCommit, RowsPermit, SMALL_COMMIT_ROWS, ScanOptions, Seq};
use tracing::Instrument;

use crate::core::Core;
use crate::index::Maintained;
use crate::invariants;
use crate::keys;
use crate::oldest::{LIST_MAX, Oldest, Placed};
use crate::open_transactions::Place;
use crate::origin::Origin;
use crate::read_set::{Plan, ReadSet, Stop};
use crate::sequencer::{Sequencer, SequencerGuard};
use crate::shape::ContainerSchema;
use crate::write::{Base, PlanInput, PlannedCommit, Switches, Transaction};

/// A plannable unit of work.
pub(crate) trait Work: Sync {
    type Outcome: Send + 'static;

    fn plan(&self, transaction: Transaction<'_>) -> Plan<Self::Outcome>;

    /// A copy with all its inputs, for another thread.
    fn owned(&self) -> impl Work<Outcome = Self::Outcome> + Send + 'static;

    /// Keys that it reads in any case.
    fn footprint(&self, _origin: Origin, _shape: &ContainerSchema) -> Vec<Bytes> {
        Vec::new()
    }

    /// Determines the requirements of heavy items, before the sequencer is taken, and the expected
    /// number of rows of the commit.
    fn look_ahead(
        &self,
        _core: &Core,
        _task: &Task<'_>,
        _reads: &mut ReadSet,
    ) -> impl Future<Output = Result<usize>> + Send {
        async { Ok(0) }
    }
}

/// Purpose and conditions of a plan.
#[derive(Clone, Copy)]
pub(crate) struct Task<'t> {
    pub shape: &'t Arc<ContainerSchema>,
    /// When the request arrived, or the transaction began. The commit gets its time when it holds
    /// the sequencer.
    pub now: Timestamp,
    /// Steps have decided by `now` which items have expired, and the commit uses `now`, too.
    pub is_decided: bool,
    pub writer: Writer<'t>,
    /// It carries out a client's request.
    pub is_clients: bool,
    /// Rows that the commit is expected to have; about.
    pub rows: usize,
    /// It is too much for a thread that answers requests.
    pub is_heavy: bool,
    /// The steps before, of a transaction that continues.
    pub base: Option<&'t Arc<Base>>,
}

/// The kind of writer.
#[derive(Clone, Copy)]
pub(crate) enum Writer<'t> {
    /// Waits for so long while a transaction holds the logical partition.
    Passing(&'t LogicalKey, Duration),
    /// Holds the logical partition, or avoids those that others hold.
    Holder,
}

/// Result of a commit.
pub(crate) struct Done<T> {
    pub outcome: T,
    /// The last commit that the plan may rest on.
    pub rests_on: Seq,
    /// The partition's last commit before.
    pub last_lsn: u64,
    /// `None` where nothing changes.
    pub commit: Option<(u64, PendingCommit)>,
}

/// Plans a commit and queues it.
pub(crate) async fn carry_out<T: Send + 'static>(
    core: &Core,
    mut task: Task<'_>,
    mut reads: ReadSet,
    work: &impl Work<Outcome = (T, Option<PlannedCommit>)>,
) -> Result<Done<T>> {
    if task.is_heavy {
        task.rows = Box::pin(work.look_ahead(core, &task, &mut reads)).await?;
    }
    loop {
        let WriteTurn { mut sequencer, large, place, is_contended } =
            turn_of(core, task.writer, task.rows).await?;
        core.check_open()?;
        sequencer.pending.forget_applied(core.shard().applied());
        let planned;
        // From here on the commit counts as under way. A plan that is made again gets a new
        // time.
        let under_way = core.times.begin();
        let time = commit_time(&under_way, &task, [&*sequencer]);
        (sequencer, planned) = plan(core, sequencer, (&task, time), &mut reads, work).await?;
        let (outcome, planned) = match planned {
            Ok(planned) => planned,
            Err(stop) => {
                drop((sequencer, large, place, under_way));
                Box::pin(go_on_after(core, stop, &mut task, &mut reads, work)).await?;
                continue;
            }
        };
        if let (Writer::Passing(_, patience), Some(planned)) = (task.writer, &planned)
            && is_contended
            && let Some(claim) = core.transactions.claims.on(&planned.writes)
        {
            // Without the gate: the transaction passes it with its commit.
            drop((sequencer, large, place, under_way));
            Box::pin(claim.ended(patience)).await?;
            continue;
        }
        let (rests_on, last_lsn) = (core.last_queued(&sequencer), sequencer.lsn);
        let mut commit = None;
        if let Some(planned) = planned {
            let Some(large) = turn_at_once(core, large, &planned) else {
                task.rows = planned.batch.len();
                continue;
            };
            let lsn = planned.lsn;
            commit = Some((lsn, queue(core, &mut sequencer, planned, (large, under_way))?));
        }
        return Ok(Done { outcome, rests_on, last_lsn, commit });
    }
}

/// Does the work that a stopped plan requests; fails where the work was refused.
pub(crate) async fn go_on_after(
    core: &Core,
    stop: Stop,
    task: &mut Task<'_>,
    reads: &mut ReadSet,
    work: &impl Work,
) -> Result<()> {
    match stop {
        Stop::Error(error) => Err(error),
        Stop::Wanted(mut keys) => {
            keys.extend(work.footprint(core.origin(), task.shape));
            fetch(core, reads, task.shape, keys).await
        }
        Stop::Oldest(prefix) => find_oldest(core, &prefix).await,
        Stop::Heavy => {
            let rows = work.look_ahead(core, task, reads).await?;
            (task.rows, task.is_heavy) = (task.rows.max(rows), true);
            Ok(())
        }
    }
}

/// Reads the beginning of the gap between the oldest items of a logical partition that are known and those that are new.
async fn find_oldest(core: &Core, prefix: &[u8]) -> Result<()> {
    let uid = core.uid;
    let (gap, last, kept) = {
        let mut sequencer = core.sequencer.hold().await;
        core.check_open()?;
        let next_ordinal = u64::from(core.rid_prefix) << 40 | sequencer.counters.next_ordinal;
        if sequencer.oldest.as_ref().is_none_or(|oldest| !oldest.is_of(prefix)) {
            sequencer.oldest = Some(Box::new(Oldest::new(prefix.to_vec(), next_ordinal)));
        }
        let gap = sequencer.oldest.as_ref().map(|oldest| oldest.gap()).unwrap_or_default();
        let kept = sequencer.pending.keep_behind(core.shard().applied());
        (gap, core.last_queued(&sequencer), kept)
    };
    // Then the engine shows every item of the gap.
    core.wait_for(last).await?;
    let (start, end) = (keys::ordinal_key(uid, gap.start), keys::ordinal_key(uid, gap.end));
    let (mut found, mut read_to) = (Vec::new(), gap.end);
    let mut scan = core.shard().snapshot().scan(start..end, ScanOptions::default());
    'read: while let Some(rows) = scan.next_chunk().await.map_err(crate::storage_error)? {
        for (key, item) in rows {
            let ordinal = keys::ordinal_of(&key).ok_or_else(crate::malformed_key)?;
            if found.len() == LIST_MAX {
                read_to = ordinal;
                break 'read;
            }
            let key = Bytes::from(keys::with_header(uid, keys::ITEMS, &item));
            if key.starts_with(prefix) {
                found.push(Placed { ordinal, key });
            }
        }
    }
    drop(scan);
    let mut sequencer = core.sequencer.hold().await;
    // Without items that were removed meanwhile: the overlay has kept every commit that the scan may not show.
    found.retain(|placed| sequencer.pending.get(&keys::ordinal_key(uid, placed.ordinal)) != Some(None));
    drop(kept);
    if let Some(oldest) = sequencer.oldest.as_mut().filter(|oldest| oldest.is_of(prefix)) {
        oldest.fill(&gap, found, read_to);
    }
    Ok(())
}

/// Fetches the keys that a plan wants. The sequencer is not held.
pub(crate) async fn fetch(
    core: &Core,
    reads: &mut ReadSet,
    shape: &ContainerSchema,
    keys: Vec<Bytes>,
) -> Result<()> {
    keep_for(core, reads).await;
    reads.fetch(core.shard(), shape, keys).await
}

/// Fetches values from which no others follow.
pub(crate) async fn fetch_alone(core: &Core, reads: &mut ReadSet, keys: Vec<Bytes>) -> Result<()> {
    keep_for(core, reads).await;
    reads.fetch_values(core.shard(), keys).await.map(drop)
}

async fn keep_for(core: &Core, reads: &mut ReadSet) {
    if reads.kept.is_none() {
        let mut sequencer = core.sequencer.hold().await;
        reads.kept = Some(sequencer.pending.keep_behind(core.shard().applied()));
    }
}

/// The sequencer for a writer, with its other permits.
struct WriteTurn {
    sequencer: SequencerGuard,
    /// Where the commit is expected to be large.
    large: Option<RowsPermit>,
    /// Where the writer had to wait at the gate.
    place: Option<Place>,
    /// Open transactions may have claimed rows.
    is_contended: bool,
}

/// The sequencer for a write of about so many rows, once no transaction holds its logical partition.
async fn turn_of(core: &Core, writer: Writer<'_>, rows: usize) -> Result<WriteTurn> {
    let Writer::Passing(logical, patience) = writer else {
        let large = core.shard().turn_for(rows).await.map_err(crate::storage_error)?;
        let sequencer = core.sequencer.hold().await;
        return Ok(WriteTurn { sequencer, large, place: None, is_contended: false });
    };
    core.shard().check_writable().map_err(crate::storage_error)?;
    let large = turn_within(core, rows, patience).await?;
    let sequencer = core.sequencer.hold().await;
    if core.transactions.are_none() {
        return Ok(WriteTurn { sequencer, large, place: None, is_contended: false });
    }
    let prefix = || keys::logical_prefix(core.uid, logical);
    let Some(mut place) = core.transactions.gates.place_if_any(prefix) else {
        return Ok(WriteTurn { sequencer, large, place: None, is_contended: true });
    };
    drop(sequencer);
    // Large commits of others continue while a script keeps this one waiting.
    drop(large);
    place.pass(patience).await?;
    let large = turn_within(core, rows, patience).await?;
    let sequencer = core.sequencer.hold().await;
    Ok(WriteTurn { sequencer, large, place: Some(place), is_contended: true })
}

async fn turn_within(core: &Core, rows: usize, patience: Duration) -> Result<Option<RowsPermit>> {
    if rows <= SMALL_COMMIT_ROWS {
        return Ok(None);
    }
    let turn = async { core.shard().turn_for(rows).await.map_err(crate::storage_error) };
    tokio::time::timeout(patience, turn).await.unwrap_or_else(|_| {
        Err(Error::new(
            ErrorKind::Timeout,
            "other large writes went on for as long as the request could wait: nothing was done, retry",
        ))
    })
}

/// Makes a plan while holding the sequencer: here, or on the blocking pool.
pub(crate) async fn plan<W: Work>(
    core: &Core,
    turn: SequencerGuard,
    (task, time): (&Task<'_>, HybridTime),
    reads: &mut ReadSet,
    work: &W,
) -> Result<(SequencerGuard, Plan<W::Outcome>)> {
    let setup = Setup {
        origin: core.origin(),
        now: if task.is_decided { task.now } else { time.into() },
        time,
        switches: Switches {
            keeps_versions: core.past.keeps_versions(),
            keeps_expired_above: core.holds.expired(),
            is_clients: task.is_clients,
            is_offloaded: task.is_heavy,
            ..Switches::default()
        },
    };
    if !task.is_heavy {
        let base = task.base.map(|base| &**base);
        let input = setup.input(&turn, (task.shape, core.shard()), reads, base);
        let planned = work.plan(Transaction::new(input));
        return Ok((turn, planned));
    }
    let (shape, shard, base) = (task.shape.clone(), core.shard().clone(), task.base.cloned());
    let (work, own_reads) = (work.owned(), std::mem::take(reads));
    let make = move |sequencer: &mut Sequencer| {
        let input = setup.input(sequencer, (&shape, &shard), &own_reads, base.as_deref());
        let planned = work.plan(Transaction::new(input));
        (own_reads, planned)
    };
    // On the heap: other writes are not to carry it along.
    let (turn, planned) = Box::pin(turn.offload(make)).await?;
    let planned_here;
    (*reads, planned_here) = planned;
    Ok((turn, planned_here))
}

/// The permit that a planned commit needs, if it needs one: its writer's, or a free one. `None`
/// where others wait for one: then the writer has to wait without the sequencer.
fn turn_at_once(
    core: &Core,
    held: Option<RowsPermit>,
    planned: &PlannedCommit,
) -> Option<Option<RowsPermit>> {
    let rows = planned.batch.len();
    match held.filter(|_| rows > SMALL_COMMIT_ROWS) {
        Some(held) => Some(Some(held)),
        None => core.shard().try_turn_for(rows),
    }
}

/// Hands a planned commit to the shard and moves the sequencer past it. Nothing changed when this fails.
fn queue(
    core: &Core,
    sequencer: &mut Sequencer,
    planned: PlannedCommit,
    leave: (Option<RowsPermit>, UnderWay),
) -> Result<PendingCommit> {
    queue_together(&mut [Together { core, sequencer, planned }], leave)
}

/// Moves the sequencer past a commit that is queued.
fn note_queued(core: &Core, sequencer: &mut Sequencer, planned: &mut PlannedCommit, seq: Seq) {
    #[cfg(feature = "testing")]
    crate::seeded::panic_if(crate::seeded::Mistake::PanicWhileQueueing);
    sequencer.lsn = planned.lsn;
    sequencer.time = planned.time;
    core.last_ms.store(planned.time.milliseconds(), Ordering::Release);
    sequencer.counters = planned.counters;
    core.expiry.note(planned.due);
    if let Some(oldest) = &mut sequencer.oldest {
        note_ordinals(oldest, &planned.writes);
    }
    for (key, size) in std::mem::take(&mut planned.recorded) {
        if let Some(largest) = &mut sequencer.largest {
            largest.note(&key[keys::HEADER..], size);
        }
        sequencer.sizes.put(key, size);
    }
    sequencer.pending.add(seq, std::mem::take(&mut planned.writes));
    for (place, by) in &planned.counts {
        sequencer.maintained.counted[*place].note(seq, *by);
    }
    core.acknowledged.queue(seq, planned.lsn, planned.counters);
}

/// Which items a commit has created and removed.
fn note_ordinals(oldest: &mut Oldest, writes: &[(Bytes, Option<Bytes>)]) {
    for (key, item) in writes.iter().filter(|(key, _)| keys::is_ordinal(key)) {
        let Some(ordinal) = keys::ordinal_of(key) else { continue };
        match item {
            None => oldest.note_removed(ordinal),
            Some(item) => {
                let key = Bytes::from(keys::with_header(keys::uid_of(key), keys::ITEMS, item));
                oldest.note_created(Placed { ordinal, key });
            }
        }
    }
}

/// A planned commit of one of several partitions of a shard, whose sequencer the caller holds.
pub(crate) struct Together<'t> {
    pub core: &'t Core,
    pub sequencer: &'t mut Sequencer,
    pub planned: PlannedCommit,
}

/// Panics at a commit that contradicts an invariant, before anything of it is queued: that ends its
/// partition.
fn check(core: &Core, sequencer: &Sequencer, planned: &PlannedCommit) {
    #[cfg(feature = "testing")]
    if crate::seeded::is_any() {
        return;
    }
    let PlannedCommit { lsn, time, operations, writes, .. } = planned;
    let kept = invariants::commit(&sequencer.point(), &planned.point(), operations);
    assert_eq!(kept, Ok(()), "commit {lsn} of partition {}", core.uid.0);
    if invariants::is_sampled(*lsn) {
        let kept = invariants::rows((core.uid, &core.key_bounds), (*lsn, *time), writes, operations);
        assert_eq!(kept, Ok(()), "rows of commit {lsn} of partition {}", core.uid.0);
    }
}

/// Hands the planned commits of partitions of one shard to it as one: all of them or none. Moves the sequencers past them;
/// nothing changed when this fails.
pub(crate) fn queue_together(
    commits: &mut [Together<'_>],
    (turn, under_way): (Option<RowsPermit>, UnderWay),
) -> Result<PendingCommit> {
    assert!(!commits.is_empty(), "something is committed");
    let mut batch = Batch::new();
    let mut all_marks = Vec::with_capacity(commits.len());
    for Together { core, sequencer, planned } in commits.iter_mut() {
        check(core, sequencer, planned);
        assert!(planned.time >= under_way.time(), "a commit is under way from before its time");
        let part = std::mem::take(&mut planned.batch);
        match batch.is_empty() {
            true => batch = part,
            false => {
                let size_bytes = part.size_bytes();
                batch.append(part.into_ops(), size_bytes);
            }
        }
        let marks = if core.past.has_unsaved() { core.past.take_unsaved() } else { None };
        if let Some(marks) = &marks {
            batch.put(keys::log_marks_key(core.uid), marks.encode());
        }
        all_marks.push(marks);
    }
    let shard = commits.first().expect("something is committed").core.shard();
    let under_way = Some(under_way);
    #[cfg(feature = "testing")]
    let under_way = under_way.filter(|_| !crate::seeded::loses_under_way());
    let commit = match shard.commit_timed(batch, turn, under_way) {
        Ok(commit) => commit,
        Err(error) => {
            for (commit, marks) in commits.iter().zip(all_marks) {
                commit.core.past.give_back(marks);
            }
            return Err(crate::storage_error(error));
        }
    };
    for Together { core, sequencer, planned } in commits {
        note_queued(core, sequencer, planned, commit.seq());
    }
    Ok(commit)
}

/// Waits until a commit may be acknowledged.
pub(crate) async fn acknowledge(core: &Core, lsn: u64, commit: PendingCommit) -> Result<()> {
    let durable = tracing::debug_span!("durable", lsn);
    commit.instrument(durable).await.map_err(crate::storage_error)?;
    core.note_acknowledged(lsn);
    Ok(())
}

/// The time of a commit that holds the sequencer of each of its partitions: after every entry of
/// their logs, and not before the request arrived, should the clock have gone back.
pub(crate) fn commit_time<'s>(
    under_way: &UnderWay,
    task: &Task<'_>,
    turns: impl IntoIterator<Item = &'s Sequencer>,
) -> HybridTime {
    let last = turns.into_iter().map(|sequencer| sequencer.time).max().unwrap_or_default();
    under_way.time().max(task.now.into()).max(last.next())
}

/// Settings of a plan, from its partition and its purpose.
#[derive(Clone, Copy)]
struct Setup {
    origin: Origin,
    /// By which items have run out.
    now: Timestamp,
    /// Time of the commit, or of the step.
    time: HybridTime,
    switches: Switches,
}

/// Steps keep no index: the commit does.
static NOTHING_MAINTAINED: Maintained = Maintained { layouts: Vec::new(), counted: Vec::new() };

impl Setup {
    fn input<'a>(
        self,
        sequencer: &'a Sequencer,
        (shape, shard): (&'a Arc<ContainerSchema>, &'a shardlake_storage::Shard),
        reads: &'a ReadSet,
        base: Option<&'a Base>,
    ) -> PlanInput<'a> {
        let switches = Switches {
            keeps_versions: self.switches.keeps_versions && base.is_none(),
            keeps_expired_above: self.switches.keeps_expired_above.filter(|_| base.is_none()),
            may_expire: sequencer.may_expire(shape),
            is_outdated: shape.number < sequencer.unique_since,
            ..self.switches
        };
        PlanInput {
            origin: self.origin,
            shape,
            shard,
            lsn: sequencer.lsn + 1,
            counters: base.map_or(sequencer.counters, |base| base.on(sequencer.counters)),
            now: self.now,
            time: self.time,
            pending: &sequencer.pending,
            reads,
            maintained: if base.is_some() { &NOTHING_MAINTAINED } else { &sequencer.maintained },
            watch: if base.is_some() { None } else { sequencer.watched.of(shape) },
            sizes: Some(&sequencer.sizes),
            oldest: sequencer.oldest.as_deref(),
            base,
            switches,
        }
    }
}

#[cfg(test)]
mod tests {
    use shardlake_model::ErrorKind;

    use super::*;
    use crate::due::Due;
    use crate::log::entry::{ChangeKind, Counters, LogOperation};
    use crate::test_fixture::Fixture;

    /// A first commit, which creates one item and has no row.
    fn planned(lsn: u64, items: u64) -> PlannedCommit {
        let mut batch = Batch::new();
        batch.put(b"row".to_vec(), b"of a commit that must not be".to_vec());
        let operation = LogOperation::new(ChangeKind::Create, 1, 0, &[1]);
        PlannedCommit {
            lsn,
            batch,
            time: HybridTime(u64::MAX),
            counters: Counters { items, size_bytes: 100, next_ordinal: 2 },
            operations: vec![operation],
            writes: Vec::new(),
            counts: Vec::new(),
            recorded: Vec::new(),
            due: Due::NEVER,
        }
    }

    #[tokio::test]
    async fn a_commit_that_contradicts_an_invariant_is_not_queued() {
        // An LSN is left out; the totals do not follow; the log has an item that is not written.
        for wrong in [planned(2, 1), planned(1, 2), planned(1, 1)] {
            let fixture = Fixture::new().await;
            let core = fixture.partition.core().clone();
            let writer = tokio::spawn(async move {
                let mut sequencer = core.sequencer.hold().await;
                let under_way = core.times.begin();
                queue(&core, &mut sequencer, wrong, (None, under_way)).map(drop)
            });
            assert!(writer.await.expect_err("it panics").is_panic());
            let error = fixture.partition.check_open().expect_err("it has ended");
            assert_eq!(error.kind(), ErrorKind::Unavailable);
            assert_eq!(fixture.shard.view().get(b"row").await.expect("readable"), None);
        }
    }
}
