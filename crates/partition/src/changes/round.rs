//! A round: the changes of a span of the hash space above an LSN, in one view of the engine.
//!
//! All pages of a round come from one view. Together with the items of that view they are the state
//! of the span at [`RoundView::upto`]: a reader that applies the whole round shows every logical
//! partition as after one commit. A page ends with a commit, so a reader that may stop earlier shows
//! no half of a transaction either.
//!
//! ```text
//! log       after │ 41  42  43  44 │ upto       45 …  are for the next round
//! round           │ page 1 │ page 2│            one view, pages of whole commits
//! ```
//! A view keeps the files of its time from being reclaimed: rounds must not be held longer than
//! their work takes.

use std::sync::Arc;

use bytes::Bytes;
use shardlake_document::Record;
use shardlake_model::{Error, ErrorKind, Result};
use shardlake_routing::KeyRange;
use shardlake_stdx::Timestamp;
use shardlake_storage::{ScanOptions, View};

use super::reader;
use crate::core::Core;
use crate::key_list::KeyList;
use crate::keys::{self, ITEMS};
use crate::log::entries::Entries;
use crate::log::entry::{ChangeKind, EndedRow, LogOperation};
use crate::log::marks::LogMarks;

/// Operations of one page, unless one commit has more.
const PAGE_OPERATIONS: usize = 256;
/// Bytes of the records that are read at once, estimated from the usual size of an item.
const PAGE_BYTES: u64 = 16 * 1024 * 1024;

/// Records that a round reads for its changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Images {
    #[default]
    None,
    /// Live versions, and those of expired items that are still kept.
    Latest,
    /// Items as the view has them, whichever operation wrote them: for readers that may be ahead of
    /// their position.
    Current,
    /// Every version that is still kept.
    All,
}

/// A version of an item, as far as a round has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Image {
    /// The round reads no such version, or the operation has none.
    NotAsked,
    /// A stored record, as `shardlake_document::Record` decodes it.
    Record(Bytes),
    /// The item has a later version: a later operation of the same round wrote it.
    LaterVersion,
    /// The item does not exist in the view: a later operation of the same round ended it.
    Gone,
    /// The version has ended, and its record is not kept any more.
    NotKept,
}

/// One operation of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogChange {
    pub lsn: u64,
    /// Time of the commit.
    pub time: Timestamp,
    pub kind: ChangeKind,
    pub ordinal: u64,
    /// LSN of the version that the operation ended; 0 for a new item.
    pub previous_lsn: u64,
    /// Ordinal of the ended version, where it is another one: one commit deleted the item and
    /// created it anew. Entries of version 1 do not record it.
    pub ended_ordinal: Option<u64>,
    /// Rows of copies that the ended version had and the new one has not.
    pub ended: Vec<EndedRow>,
    /// Number of the copy whose maintenance committed; 0 for clients.
    pub origin: u32,
    /// Item key without partition and space.
    pub key: Bytes,
    /// The version that the operation wrote.
    pub new: Image,
    /// The version that the operation ended.
    pub old: Image,
}

/// Why there is no round.
#[derive(Debug)]
pub enum RoundError {
    /// Operations above the position were compacted: the reader has to compare itself with the items.
    Hole {
        compacted_to: u64,
    },
    /// The log ends below the position, which is of another life of the partition.
    Ahead {
        last: u64,
    },
    Failed(Error),
}

impl From<Error> for RoundError {
    fn from(error: Error) -> RoundError {
        RoundError::Failed(error)
    }
}

impl From<RoundError> for Error {
    fn from(error: RoundError) -> Error {
        match error {
            RoundError::Hole { compacted_to } => Error::new(
                ErrorKind::Conflict,
                format!("the change log has a hole up to LSN {compacted_to}: start again from the items"),
            ),
            RoundError::Ahead { last } => Error::new(
                ErrorKind::Conflict,
                format!("the change log ends at LSN {last}, before the position: start again from the items"),
            ),
            RoundError::Failed(error) => error,
        }
    }
}

/// One view of a partition, for all pages of a round.
pub struct RoundView {
    pub(super) core: Arc<Core>,
    pub(super) view: View,
    pub(super) marks: Arc<LogMarks>,
    /// The part of the wanted span that the partition has.
    pub(super) span: KeyRange,
    /// LSN of the last commit in the view.
    upto: u64,
    upto_time: Timestamp,
}

impl RoundView {
    pub(super) async fn new(core: &Arc<Core>, span: &KeyRange) -> Result<RoundView> {
        let view = core.shard().snapshot();
        core.check_open()?;
        // Read after the view was taken: they hold for it.
        let marks = core.past.marks();
        let last = reader::last_entry(&view, core.uid).await?;
        let (upto, upto_time) =
            last.map_or((0, Timestamp(0)), |(lsn, entry)| (lsn, Timestamp(entry.timestamp_ms())));
        let span = span.intersection(&core.epk_range);
        Ok(RoundView { core: core.clone(), view, marks, span, upto, upto_time })
    }

    /// LSN of the last commit in the view.
    pub fn upto(&self) -> u64 {
        self.upto
    }

    /// Time of that commit.
    pub fn upto_time(&self) -> Timestamp {
        self.upto_time
    }

    /// The part of the wanted span that the partition has.
    pub fn span(&self) -> &KeyRange {
        &self.span
    }

    /// Waits until no crash can undo a commit of the view, in every mode of durability. A stored
    /// position must not be ahead of that: its LSNs would be given to other commits.
    pub async fn durable(&self) -> Result<()> {
        self.core.shard().wait_durable(self.view.seq()).await.map_err(crate::storage_error)
    }
}

impl std::fmt::Debug for RoundView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RoundView").field("partition", &self.core.uid).field("upto", &self.upto).finish()
    }
}

/// Changes of a span above an LSN, up to the last commit of one view.
pub struct Round {
    view: RoundView,
    after: u64,
    images: Images,
    page_operations: usize,
    entries: Entries,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Ready,
    /// A page was begun and not returned.
    Reading,
    Over,
}

/// Changes of whole commits, in the order of these.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoundPage {
    pub changes: Vec<LogChange>,
    /// Everything of the span up to here is in this page or in an earlier one.
    pub upto: u64,
}

impl std::fmt::Debug for Round {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Round").field("view", &self.view).field("after", &self.after).finish_non_exhaustive()
    }
}

impl Round {
    /// A position of 0 has seen nothing, so that it misses no deletion: the log has the last
    /// operation on every live item.
    pub(crate) async fn begin(core: &Arc<Core>, span: &KeyRange, after: u64) -> Result<Round, RoundError> {
        let view = RoundView::new(core, span).await?;
        let (start, end) = (keys::item_key_bound_below(&view.span), keys::item_key_bound(&view.span));
        let compacted_to = view.marks.past_of(&start, end.as_deref()).compacted_to;
        if after > 0 && after < compacted_to {
            return Err(RoundError::Hole { compacted_to });
        }
        Round::of(view, after)
    }

    /// For readers of live versions: these never miss one, also where deletions were compacted.
    pub(crate) async fn begin_over_holes(
        core: &Arc<Core>,
        span: &KeyRange,
        after: u64,
    ) -> Result<Round, RoundError> {
        Round::of(RoundView::new(core, span).await?, after)
    }

    fn of(view: RoundView, after: u64) -> Result<Round, RoundError> {
        if after > view.upto {
            return Err(RoundError::Ahead { last: view.upto });
        }
        let marks = view.marks.clone();
        let entries = Entries::behind(view.core.uid, &view.view, marks, after, ScanOptions::default());
        let (images, page_operations, state) = (Images::None, PAGE_OPERATIONS, State::Ready);
        Ok(Round { view, after, images, page_operations, entries, state })
    }

    /// With records. Before the first page.
    pub fn with(mut self, images: Images) -> Round {
        self.images = images;
        self
    }

    /// In pages of about so many operations. Before the first page.
    pub fn in_pages_of(mut self, operations: usize) -> Round {
        self.page_operations = operations.max(1);
        self
    }

    pub fn view(&self) -> &RoundView {
        &self.view
    }

    /// The LSN that the round began behind.
    pub fn after(&self) -> u64 {
        self.after
    }

    /// LSN of the last commit of the round.
    pub fn upto(&self) -> u64 {
        self.view.upto
    }

    pub fn upto_time(&self) -> Timestamp {
        self.view.upto_time
    }

    /// See [`RoundView::durable`].
    pub async fn durable(&self) -> Result<()> {
        self.view.durable().await
    }

    /// The next changes; `None` at the end. A page may have no changes: its commits concern nothing
    /// in the span. After an error, or a call that was dropped, the round has to be begun again.
    pub async fn next_page(&mut self) -> Result<Option<RoundPage>> {
        match self.state {
            State::Ready => self.state = State::Reading,
            State::Reading => return Err(Error::internal("a round goes on behind a page that was dropped")),
            State::Over => return Ok(None),
        }
        self.view.core.check_open()?;
        let Some(entries) = self.next_entries().await? else {
            self.state = State::Over;
            return Ok(None);
        };
        assert!(self.entries.last_lsn() <= self.view.upto, "a round ends with its view");
        let images = self.images_of(&entries).await?;
        let changes = entries.into_iter().zip(images).map(|(found, (new, old))| found.change(new, old));
        let changes = changes.collect();
        self.state = State::Ready;
        Ok(Some(RoundPage { changes, upto: self.entries.last_lsn() }))
    }

    /// Operations of whole commits inside the span.
    async fn next_entries(&mut self) -> Result<Option<Vec<Found>>> {
        let (start, end) =
            (keys::item_key_bound_below(&self.view.span), keys::item_key_bound(&self.view.span));
        let is_inside = |key: &[u8]| key >= &start[..] && end.as_ref().is_none_or(|end| key < &end[..]);
        let operations_max = self.view.core.usual_items_in(PAGE_BYTES).min(self.page_operations);
        let entries = self.entries.next(usize::MAX, operations_max).await?;
        if let Some((lsn, problem)) = self.entries.problem() {
            return Err(Error::new(
                ErrorKind::Corrupt,
                format!("log entry {lsn} contradicts the ones before it ({problem:?}): run verify"),
            ));
        }
        if entries.is_empty() {
            return Ok(None);
        }
        let mut found = Vec::new();
        for (lsn, entry) in entries {
            let time = Timestamp(entry.timestamp_ms());
            let inside = entry.operations.into_iter().filter(|operation| is_inside(&operation.key));
            let origin = entry.origin;
            found.extend(inside.map(|operation| Found { lsn, time, origin, operation }));
        }
        Ok(Some(found))
    }

    /// The new and the old version of each operation.
    async fn images_of(&self, found: &[Found]) -> Result<Vec<(Image, Image)>> {
        let mut images = vec![(Image::NotAsked, Image::NotAsked); found.len()];
        if self.images == Images::None {
            return Ok(images);
        }
        let uid = self.view.core.uid;
        let (mut live_keys, header) = (KeyList::default(), keys::header(uid, ITEMS, 0));
        let writes: Vec<usize> = (0..found.len()).filter(|place| found[*place].writes()).collect();
        writes.iter().for_each(|place| live_keys.push(&[&header, &found[*place].operation.key]));
        let live = self.view.view.get_many(live_keys.finish()).await.map_err(crate::storage_error)?;
        let (mut version_keys, mut wanted) = (KeyList::default(), Vec::new());
        let mut want = |place: usize, is_new: bool, lsn: u64| {
            version_keys.push(&[&keys::version_key(uid, &found[place].operation.key, lsn)]);
            wanted.push((place, is_new));
        };
        for (place, record) in writes.into_iter().zip(live) {
            let lsn = found[place].lsn;
            images[place].0 = match record {
                None => Image::Gone,
                Some(record) if lsn_of(&record)? == lsn => Image::Record(record),
                Some(record) if self.images == Images::Current => Image::Record(record),
                Some(_) => Image::LaterVersion,
            };
            if self.images == Images::All && !matches!(images[place].0, Image::Record(_)) {
                want(place, true, lsn);
            }
        }
        for (place, found) in found.iter().enumerate().filter(|(_, found)| found.ends()) {
            let is_expired = found.operation.kind == ChangeKind::Expire && self.images == Images::Latest;
            if self.images == Images::All || is_expired {
                images[place].1 = Image::NotKept;
                want(place, false, found.operation.previous_lsn);
            }
        }
        let versions = self.view.view.get_many(version_keys.finish()).await.map_err(crate::storage_error)?;
        for ((place, is_new), record) in wanted.into_iter().zip(versions) {
            let Some(record) = record else { continue };
            let image = if is_new { &mut images[place].0 } else { &mut images[place].1 };
            *image = Image::Record(record);
        }
        Ok(images)
    }
}

fn lsn_of(record: &Bytes) -> Result<u64> {
    Ok(Record::decode(record).map_err(crate::corrupt)?.envelope.lsn)
}

/// An operation with its commit.
struct Found {
    lsn: u64,
    time: Timestamp,
    origin: u32,
    operation: LogOperation,
}

impl Found {
    fn writes(&self) -> bool {
        matches!(self.operation.kind, ChangeKind::Create | ChangeKind::Replace)
    }

    fn ends(&self) -> bool {
        self.operation.kind != ChangeKind::Create && self.operation.previous_lsn > 0
    }

    fn change(self, new: Image, old: Image) -> LogChange {
        let LogOperation { kind, ordinal, ended_ordinal, previous_lsn, key, ended } = self.operation;
        LogChange {
            lsn: self.lsn,
            time: self.time,
            kind,
            ordinal,
            previous_lsn,
            ended_ordinal,
            ended,
            origin: self.origin,
            key: key.into(),
            new,
            old,
        }
    }
}
