//! Commit of a snapshot transaction: the net result of all its steps, in all its partitions, as one
//! batch of their shard.
//!
//! Order of events: the gates of the logical partitions that it writes to, partition by partition
//! and each in the order of the keys → a permit, where it is large → the sequencers in the order of
//! the partitions → every row that the steps rest on is compared with the stored one → one batch
//! with a log entry for each partition. A relocation holds several sequencers too, in the same
//! order; no other code holds two.

use std::sync::Arc;

use bytes::Bytes;
use rustc_hash::FxHashMap;
use shardlake_model::{Error, Result};
use shardlake_routing::LogicalKey;
use shardlake_stdx::{HybridTime, UnderWay};
use shardlake_storage::{PendingCommit, RowsPermit, SMALL_COMMIT_ROWS};

use super::snapshot_transaction::{Branch, Fingerprint, SnapshotTransaction, conflict, fingerprint, task};
use super::transaction::make_different;
use crate::commit::{Task, Together, Work, commit_time, go_on_after, plan, queue_together};
use crate::core::Core;
use crate::keys::{self, HEADER};
use crate::open_transactions::OwnItems;
use crate::open_transactions::Place;
use crate::operation::CommandContext;
use crate::origin::Origin;
use crate::read_set::{Plan, ReadSet, Stop};
use crate::sequencer::SequencerGuard;
use crate::shape::ContainerSchema;
use crate::statements::StatementRow;
use crate::write::{PlannedCommit, Transaction};

/// Why a transaction was not committed.
#[derive(Debug)]
pub struct Uncommitted {
    pub error: Error,
    /// Whether it was will show when the storage is opened again.
    pub is_in_doubt: bool,
}

impl From<Error> for Uncommitted {
    fn from(error: Error) -> Uncommitted {
        Uncommitted { error, is_in_doubt: false }
    }
}

/// The part of the commit for one partition.
struct Piece {
    branch: Branch,
    work: Arc<Differences>,
    reads: ReadSet,
    is_heavy: bool,
}

/// Items of a commit that is planned apart from the threads that answer requests.
const HEAVY_ITEMS: usize = 10_000;

impl Piece {
    /// The bounds in writes and bytes, which every step was held to, bound the entries of the index as well.
    fn task<'t>(&'t self, command: &CommandContext) -> Task<'t> {
        Task { is_heavy: self.is_heavy, is_clients: false, ..task(&self.branch.shape, command, None) }
    }
}

impl SnapshotTransaction {
    /// Commits everything, or nothing. A transaction that wrote nothing has nothing to commit. Once
    /// begun it is to be carried to its end: a caller that drops it does not learn whether it was
    /// committed. `row` is kept with the commit.
    pub async fn commit(mut self, row: Option<StatementRow>) -> Result<(), Uncommitted> {
        let mut pieces = Vec::new();
        for (uid, branch) in std::mem::take(&mut self.branches) {
            let items = self.own().of_prefix(&uid.0.to_be_bytes());
            if items.is_empty() {
                continue;
            }
            let is_heavy = items.len() > HEAVY_ITEMS;
            let by_logical = by_logical_partition(&items)?;
            let displaced = branch.displaced.clone();
            let work = Arc::new(Differences { by_logical, displaced });
            pieces.push(Piece { branch, work, reads: ReadSet::default(), is_heavy });
        }
        if pieces.is_empty() {
            return Ok(());
        }
        let places = self.pass_gates(&pieces).await?;
        let queued = self.queue(&mut pieces, row).await?;
        // Others continue: they find the commit queued.
        drop((pieces, places));
        let Some(Queued { commit, lsns }) = queued else { return Ok(()) };
        if let Err(error) = commit.await {
            return Err(Uncommitted { error: crate::storage_error(error), is_in_doubt: true });
        }
        lsns.iter().for_each(|(core, lsn)| core.note_acknowledged(*lsn));
        Ok(())
    }

    /// Keeps scripts out of the logical partitions that are written to.
    async fn pass_gates(&self, pieces: &[Piece]) -> Result<Vec<Place>> {
        let mut places = Vec::new();
        for Piece { branch, work, .. } in pieces {
            let prefix = |logical: &LogicalKey| keys::logical_prefix(branch.core.uid, logical);
            let mut prefixes: Vec<_> = work.by_logical.iter().map(|(logical, _)| prefix(logical)).collect();
            prefixes.sort_unstable();
            for prefix in prefixes {
                let mut place = branch.core.transactions.gates.place(prefix);
                place.pass(self.command().patience).await?;
                places.push(place);
            }
        }
        Ok(places)
    }

    /// Queues the commit, if there is anything to commit.
    async fn queue(&self, pieces: &mut [Piece], row: Option<StatementRow>) -> Result<Option<Queued>> {
        let mut rows = 0;
        loop {
            let large = self.shard().turn_for(rows).await.map_err(crate::storage_error)?;
            let mut turns = Vec::with_capacity(pieces.len());
            for piece in &*pieces {
                let mut turn = piece.branch.core.sequencer.hold().await;
                piece.branch.core.check_open()?;
                turn.pending.forget_applied(self.shard().applied());
                turns.push(turn);
            }
            // One time for all partitions, now that the transaction holds the sequencer of each.
            let first = pieces.first().expect("something is committed");
            let under_way = first.branch.core.times.begin();
            let time = commit_time(&under_way, &first.task(self.command()), turns.iter().map(|turn| &**turn));
            let planned = match self.planned(pieces, turns, time).await? {
                Planned::All(planned) => planned,
                Planned::Stopped(at, stop) => {
                    drop(under_way);
                    rows = rows.max(self.go_on(&mut pieces[at], stop).await?);
                    continue;
                }
            };
            let total = planned.iter().flat_map(|(_, commit)| commit).map(|commit| commit.batch.len()).sum();
            let Some(large) = self.turn_at_once(large, total) else {
                rows = total;
                continue;
            };
            return queue_all(pieces, planned, row, (large, under_way));
        }
    }

    async fn planned(
        &self,
        pieces: &mut [Piece],
        turns: Vec<SequencerGuard>,
        time: HybridTime,
    ) -> Result<Planned> {
        let mut planned = Vec::with_capacity(pieces.len());
        for (at, (piece, turn)) in pieces.iter_mut().zip(turns).enumerate() {
            let mut reads = std::mem::take(&mut piece.reads);
            let task = piece.task(self.command());
            let core = &piece.branch.core;
            let (turn, outcome) = plan(core, turn, (&task, time), &mut reads, &piece.work).await?;
            piece.reads = reads;
            match outcome {
                Ok(commit) => planned.push((turn, commit)),
                Err(stop) => return Ok(Planned::Stopped(at, stop)),
            }
        }
        Ok(Planned::All(planned))
    }

    /// Does the work that a stopped plan requests, and returns how many rows there may be.
    async fn go_on(&self, piece: &mut Piece, stop: Stop) -> Result<usize> {
        let mut reads = std::mem::take(&mut piece.reads);
        let mut task = piece.task(self.command());
        go_on_after(&piece.branch.core, stop, &mut task, &mut reads, &piece.work).await?;
        let (is_heavy, rows) = (task.is_heavy, task.rows);
        (piece.reads, piece.is_heavy) = (reads, is_heavy);
        Ok(rows)
    }

    /// As for single commits: the permit that was taken, or a free one; `None` where others wait
    /// before it.
    fn turn_at_once(&self, held: Option<RowsPermit>, rows: usize) -> Option<Option<RowsPermit>> {
        match held.filter(|_| rows > SMALL_COMMIT_ROWS) {
            Some(held) => Some(Some(held)),
            None => self.shard().try_turn_for(rows),
        }
    }
}

/// A commit on its way, with the LSN of each partition.
struct Queued {
    commit: PendingCommit,
    lsns: Vec<(Arc<Core>, u64)>,
}

enum Planned {
    /// Without a commit where the steps have no net effect.
    All(Vec<(SequencerGuard, Option<PlannedCommit>)>),
    /// The plan of one piece cannot continue yet.
    Stopped(usize, Stop),
}

fn queue_all(
    pieces: &[Piece],
    planned: Vec<(SequencerGuard, Option<PlannedCommit>)>,
    mut row: Option<StatementRow>,
    leave: (Option<RowsPermit>, UnderWay),
) -> Result<Option<Queued>> {
    let (mut turns, planned): (Vec<SequencerGuard>, Vec<_>) = planned.into_iter().unzip();
    let (mut commits, mut lsns) = (Vec::with_capacity(pieces.len()), Vec::with_capacity(pieces.len()));
    for ((piece, turn), planned) in pieces.iter().zip(&mut turns).zip(planned) {
        let Some(mut planned) = planned else { continue };
        if let Some(row) = row.take() {
            row.add_to(&mut planned.batch);
        }
        let core = &*piece.branch.core;
        lsns.push((piece.branch.core.clone(), planned.lsn));
        commits.push(Together { core, sequencer: turn, planned });
    }
    if commits.is_empty() {
        return Ok(None);
    }
    Ok(Some(Queued { commit: queue_together(&mut commits, leave)?, lsns }))
}

type Items = Vec<(Bytes, Option<Bytes>)>;

/// In the order of the keys.
fn by_logical_partition(items: &OwnItems) -> Result<Vec<(LogicalKey, Items)>> {
    let mut groups: Vec<(LogicalKey, Items)> = Vec::new();
    let mut last: &[u8] = &[];
    for (key, record) in items.iter() {
        let rest = &key[HEADER..];
        let part = keys::logical_part(rest).ok_or_else(crate::malformed_key)?;
        if groups.is_empty() || part != last {
            let (logical, _) = keys::parse_item_key(rest).ok_or_else(crate::malformed_key)?;
            groups.push((logical, Vec::new()));
            last = part;
        }
        if let Some((_, group)) = groups.last_mut() {
            group.push((key.clone(), record.clone()));
        }
    }
    Ok(groups)
}

/// The net writes of a transaction's steps in one partition.
struct Differences {
    by_logical: Vec<(LogicalKey, Items)>,
    /// The values of the rows on which the steps rest, from before the transaction.
    displaced: FxHashMap<Bytes, Fingerprint>,
}

impl Work for Arc<Differences> {
    type Outcome = Option<PlannedCommit>;

    fn plan(&self, mut transaction: Transaction<'_>) -> Plan<Self::Outcome> {
        for (key, before) in &self.displaced {
            if fingerprint(transaction.get(key)?.as_ref()) != *before {
                return Err(Stop::Error(conflict()));
            }
        }
        for (logical, items) in &self.by_logical {
            make_different(&mut transaction, logical, items.iter().map(|(key, record)| (key, record)))?;
        }
        Ok(transaction.changes_anything().then(|| transaction.into_batch()))
    }

    fn owned(&self) -> impl Work<Outcome = Self::Outcome> + Send + 'static {
        self.clone()
    }

    fn footprint(&self, origin: Origin, _shape: &ContainerSchema) -> Vec<Bytes> {
        let sizes = self.by_logical.iter().map(|(logical, _)| keys::size_key(origin.uid, logical).into());
        self.displaced.keys().cloned().chain(sizes).collect()
    }
}
