//! A page of the change feed of one partition: the log walked in the order of its LSNs.
//!
//! *Latest version*: an operation shows its item if the live item still has the operation's LSN.
//! Otherwise a later entry of the same snapshot shows the item, or records its deletion, which this
//! mode does not report. So one snapshot decides a whole page, and a reader that continues behind the
//! page's last LSN misses no change.
//!
//! *All versions and deletes*: every operation shows the version that it wrote and the version that it
//! ended (`all_versions.rs`), as far back as versions are kept.
//!
//! The operations of one LSN are in one page, also where they are more than were asked for: a position is an LSN, and there
//! is none in the middle of one.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{try_join_all, try_join3};
use serde::{Deserialize, Serialize};
use shardlake_model::{ConsistencyLevel, Error, ErrorKind, KeyComponent, PreviousImages, Result};
use shardlake_stdx::{Clock, Timestamp};
use shardlake_storage::{ScanOptions, Snapshot};

use crate::change_sink::{Change, ChangeSink};
use crate::changes::reader::first_entry_from;
use crate::core::Core;
use crate::feed::{FeedFilter, PageLimits};
use crate::item::StoredItem;
use crate::keys::{self, ITEMS};
use crate::log::entries::{Entries, Logged};
use crate::log::entry::{ChangeKind, LogOperation};
use crate::log::marks::NOT_KEPT;
use crate::shape::ContainerSchema;

/// Bytes of the items that are read at once, estimated from the usual size of an item.
const ITEMS_BYTES: u64 = 64 * 1024 * 1024;

/// Changes that a change feed reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum ChangeFeedMode {
    /// The last version of every item that changed.
    #[default]
    LatestVersion,
    /// Every version, and every end of one; where the container keeps them.
    AllVersionsAndDeletes,
}

/// Content requested of a page.
#[derive(Debug)]
pub struct FeedLook<'a> {
    pub shape: &'a Arc<ContainerSchema>,
    pub filter: &'a FeedFilter,
    pub mode: ChangeFeedMode,
    /// Previous images, in the mode of all versions and deletes.
    pub images: PreviousImages,
    /// The last LSN that the reader has seen.
    pub after: u64,
    /// Changes before this second are left out.
    pub since: Option<Timestamp>,
    pub limits: PageLimits,
    pub now: Timestamp,
    pub consistency: ConsistencyLevel,
    /// When to stop looking, and to return the changes found so far.
    pub clock: &'a Clock,
    pub until: Duration,
}

/// Description of a page, besides its text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeedFound {
    pub changes: usize,
    pub size_bytes: usize,
    /// Charge for reading the changes.
    pub charge_centi: u64,
    /// The last LSN looked at: the next page continues behind it.
    pub last_lsn: u64,
    /// Nothing durable lies behind it yet.
    pub is_last: bool,
}

/// Hands the changes to `out`.
#[tracing::instrument(name = "changes", level = "debug", skip_all, fields(partition = core.uid.0))]
pub(crate) async fn read_changes(
    core: &Core,
    look: &FeedLook<'_>,
    out: &mut dyn ChangeSink,
) -> Result<FeedFound> {
    let snapshot = core.shard().snapshot();
    core.check_open()?;
    let mut page = Page { core, look, keys: KeyTest::new(look.filter), found: FeedFound::default(), out };
    if look.mode == ChangeFeedMode::AllVersionsAndDeletes {
        check_past(core, look, &page.keys)?;
    }
    let after = match look.since {
        Some(since) => last_before(core, &snapshot, look.after, since).await?,
        None => look.after,
    };
    page.found.last_lsn = after;
    let marks = core.past.marks();
    let mut entries = Entries::behind(core.uid, &snapshot, marks, after, ScanOptions::default());
    if !page.take_all(&snapshot, &mut entries).await? {
        return Ok(page.found);
    }
    if page.found.last_lsn == look.after {
        check_position(core, &snapshot, look.after).await?;
    }
    debug_assert!(page.found.last_lsn >= look.after, "a reader never goes back");
    page.found.is_last = true;
    Ok(page.found)
}

/// The last LSN not below `after` up to which everything was written before a time.
pub(crate) async fn last_before(
    core: &Core,
    snapshot: &Snapshot,
    after: u64,
    since: Timestamp,
) -> Result<u64> {
    let joined_to = core.past.marks().joined_to;
    let is_before = async |lsn: u64| -> Result<Option<u64>> {
        let Some((lsn, entry)) = first_entry_from(core, snapshot, lsn).await? else { return Ok(None) };
        Ok((entry.timestamp_ms() < since.milliseconds()).then_some(lsn))
    };
    // Times increase with the LSN above `joined_to`. Below it, a merge joined several logs, and times may be in any order.
    let mut low = after.max(joined_to);
    let bounds = try_join3(
        is_before(after.saturating_add(1)),
        is_before(low.saturating_add(1)),
        keys::last_log_lsn(snapshot, core.uid),
    );
    let (Some(_), Some(_), mut high) = bounds.await? else { return Ok(after) };
    // Over a slow store, many looks at once take as long as one.
    let ways = if snapshot.reads_at_once() { 2 } else { 16 };
    while low < high {
        debug_assert!(low < high, "each look leaves less to look at");
        let step = (high - low).div_ceil(ways);
        let looks: Vec<u64> =
            (1..ways).map(|look| low + look * step).take_while(|look| *look <= high).collect();
        for (look, found) in looks.iter().zip(try_join_all(looks.iter().copied().map(&is_before)).await?) {
            match found {
                Some(lsn) => low = low.max(lsn),
                None => {
                    high = look - 1;
                    break;
                }
            }
        }
    }
    Ok(low)
}

/// Refuses a position that was never reached here: writes up to that position would not be
/// reported.
async fn check_position(core: &Core, snapshot: &Snapshot, after: u64) -> Result<()> {
    let last = keys::last_log_lsn(snapshot, core.uid).await?;
    if after <= last {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::BadRequest,
        format!(
            "the change feed position {after} lies ahead of partition key range {}, which is at {last}: it is of another life of the container; start again",
            core.range_id
        ),
    ))
}

/// Refuses a position from before the retained history.
fn check_past(core: &Core, look: &FeedLook<'_>, keys: &KeyTest<'_>) -> Result<()> {
    let past = core.past.marks().past_of(&keys.start, keys.end.as_deref());
    if past.versions_from == NOT_KEPT || !core.past.keeps_versions() {
        return Err(not_enabled());
    }
    if look.after < past.versions_from.max(past.compacted_to) {
        return Err(too_old(core, look.after));
    }
    Ok(())
}

pub(crate) fn too_old(core: &Core, after: u64) -> Error {
    let minutes = core.past.retention().as_secs() / 60;
    Error::bad_request(format!(
        "the change feed position {after} of partition key range {} is older than what is kept: all versions and deletes are kept for {minutes} minutes, by changeFeedPolicy.retentionDuration or else by the server's --restore-window; start again from now",
        core.range_id
    ))
}

/// The wording of the reference.
pub fn not_enabled() -> Error {
    Error::new(
        ErrorKind::BadRequest,
        "The change feed mode 'All Versions and Deletes' must be enabled for the container: set changeFeedPolicy.retentionDuration to the minutes for which versions are to be kept, or start the server with --restore-window",
    )
}

/// A page in the making.
pub(crate) struct Page<'a> {
    pub core: &'a Core,
    pub look: &'a FeedLook<'a>,
    pub keys: KeyTest<'a>,
    pub found: FeedFound,
    pub out: &'a mut dyn ChangeSink,
}

impl Page<'_> {
    /// Takes entries of the log, and returns whether there was room and time for all of them.
    async fn take_all(&mut self, snapshot: &Snapshot, entries: &mut Entries) -> Result<bool> {
        // A page of few items must not read many, and not many large ones.
        let at_once = self.core.usual_items_in(ITEMS_BYTES);
        loop {
            let room = self.look.limits.items.saturating_sub(self.found.changes).min(at_once);
            let some = entries.next(room.max(1), usize::MAX).await?;
            if some.is_empty() {
                return Ok(true);
            }
            let goes_on = match self.look.mode {
                ChangeFeedMode::LatestVersion => self.take_latest(snapshot, some).await?,
                ChangeFeedMode::AllVersionsAndDeletes => self.take_versions(snapshot, some).await?,
            };
            if !goes_on || entries.is_drained() && self.look.clock.elapsed() >= self.look.until {
                return Ok(false);
            }
        }
    }

    async fn take_latest(&mut self, snapshot: &Snapshot, entries: Vec<Logged>) -> Result<bool> {
        let mut lsns = Vec::new();
        let mut candidates = Vec::new();
        for (lsn, entry) in entries {
            for operation in entry.operations {
                if shows(&operation) && self.keys.matches(&operation.key)? {
                    candidates.push(keys::with_header(self.core.uid, ITEMS, &operation.key));
                }
            }
            lsns.push((lsn, candidates.len()));
        }
        let mut items = snapshot.multi_get(&candidates).await.map_err(crate::storage_error)?.into_iter();
        let mut taken = 0;
        for (lsn, up_to) in lsns {
            let mut shown = Vec::new();
            for item in items.by_ref().take(up_to - taken) {
                let Some(bytes) = item else { continue };
                let item = StoredItem::decode(bytes, self.look.shape)?;
                if item.lsn() == lsn && self.is_wanted(&item) {
                    shown.push(item);
                }
            }
            taken = up_to;
            let size: usize = shown.iter().map(StoredItem::json_size_bytes).sum();
            if self.found.changes > 0 && !shown.is_empty() && !self.has_room(shown.len(), size) {
                return Ok(false);
            }
            shown.iter().for_each(|item| self.show(item));
            self.found.last_lsn = lsn;
            if !self.has_room(1, 0) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn is_wanted(&self, item: &StoredItem) -> bool {
        let is_early = |since: Timestamp| item.envelope().timestamp_seconds() < since.seconds();
        !item.is_expired(self.look.now.seconds()) && !self.look.since.is_some_and(is_early)
    }

    pub fn has_room(&self, changes: usize, size_bytes: usize) -> bool {
        let PageLimits { items, size_bytes: size_max } = self.look.limits;
        self.found.changes + changes <= items && self.found.size_bytes + size_bytes <= size_max
    }

    fn show(&mut self, item: &StoredItem) {
        let size = item.json_size_bytes();
        self.out.push(&Change::Latest(item));
        self.found.changes += 1;
        self.found.size_bytes += size;
        self.found.charge_centi += self.look.shape.charges.read(size, self.look.consistency).0;
    }
}

fn shows(operation: &LogOperation) -> bool {
    matches!(operation.kind, ChangeKind::Create | ChangeKind::Replace)
}

/// Which items of the log a feed is about, by their keys without headers.
pub(crate) struct KeyTest<'a> {
    pub start: Vec<u8>,
    pub end: Option<Vec<u8>>,
    components: &'a [KeyComponent],
}

impl KeyTest<'_> {
    pub fn new(filter: &FeedFilter) -> KeyTest<'_> {
        let of_range = |range, components| KeyTest {
            start: keys::item_key_bound_below(range),
            end: keys::item_key_bound(range),
            components,
        };
        match filter {
            FeedFilter::Range(range) => of_range(range, &[]),
            FeedFilter::Prefix(range, components) => of_range(range, components),
            FeedFilter::Logical(logical) => {
                let prefix = keys::logical_prefix(keys::PartitionUid(0), logical);
                let end = keys::after_prefix(&prefix)[keys::HEADER..].to_vec();
                KeyTest { start: prefix[keys::HEADER..].to_vec(), end: Some(end), components: &[] }
            }
        }
    }

    pub fn matches(&self, key: &[u8]) -> Result<bool> {
        if key < &self.start[..] || self.end.as_ref().is_some_and(|end| key >= &end[..]) {
            return Ok(false);
        }
        if self.components.is_empty() {
            return Ok(true);
        }
        let (logical, _) = keys::parse_item_key(key).ok_or_else(crate::malformed_key)?;
        Ok(self.components.iter().zip(&logical.partition_key.0).all(|(wanted, actual)| wanted.same(actual)))
    }
}
