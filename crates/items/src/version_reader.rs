//! All versions of a container's items, change by change, for a reader that stays: changes read ahead are
//! kept here.
//!
//! Where a container has several partitions, their changes come in the order of their times. A change is
//! taken only when every other part is known to have no earlier one:
//!
//! ```text
//! A: 10:01  10:05          B: nothing read          the first of A may not be taken
//! B passes 10:01 and is read to its end             nothing of B is earlier than 10:01: A's first change is taken
//! ```
//! Changes of one commit are taken one after the other, with no other change in between. Times in logs from
//! before a merge of partitions may go down, so there the order over partitions is only approximate; the
//! order for each item is exact.
//!
//! The taken changes of the container are its [`VersionPosition`]. Splits, merges and moves drop the changes
//! read ahead, and the reader continues with the current partitions behind its position.

use std::sync::Arc;

use shardlake_host::{FindVersionsSince, PassTime, ReadChanges};
use shardlake_model::{ErrorKind, PreviousImages, RequestContext, Result};
use shardlake_partition::{ChangeFeedMode, FeedFilter, FeedFound, PageLimits, all_versions_not_enabled};
use shardlake_router::{ContainerEntry, ContainerHandle, PartitionHandle};
use shardlake_routing::KeyRange;
use shardlake_stdx::Timestamp;

use crate::Items;
use crate::change_feed::LOOKING_TIME_MAX;
use crate::change_feed_position::{FeedPart, FeedPosition};
use crate::version_part::{Collected, VersionChange, VersionPart};
use crate::version_position::{InsideCommit, VersionPosition};

/// Limits on changes read ahead: of one part, and of all parts together.
const PART_CHANGES_MAX: usize = 1000;
const AHEAD_BYTES_MAX: usize = 4 << 20;
const PART_BYTES_MIN: usize = 64 << 10;

/// Where a reader begins.
#[derive(Debug, Clone)]
pub enum VersionStart {
    /// The container's first change.
    Beginning,
    Now,
    /// The first change at or after this time.
    At(Timestamp),
    After(VersionPosition),
}

#[derive(Debug)]
pub struct VersionReader {
    items: Items,
    entry: Arc<ContainerEntry>,
    parts: Vec<VersionPart>,
    charge_centi: u64,
}

impl VersionReader {
    /// `None` if changes since the start are not retained any more.
    pub async fn open(
        items: &Items,
        container: &ContainerHandle,
        start: VersionStart,
        now: Timestamp,
    ) -> Result<Option<VersionReader>> {
        let entry = container.entry.clone();
        let mut reader = VersionReader { items: items.clone(), entry, parts: Vec::new(), charge_centi: 0 };
        reader.check_kept()?;
        match start {
            VersionStart::Beginning => reader.cut(&VersionPosition::default()),
            VersionStart::After(position) => reader.cut(&position),
            VersionStart::Now => {
                let whole = |partition: &PartitionHandle| {
                    let place =
                        FeedPart { span: partition.epk_range().clone(), after: partition.durable_lsn() };
                    VersionPart::new(partition.clone(), place, None)
                };
                reader.parts = reader.entry.map.iter().map(whole).collect();
            }
            VersionStart::At(time) => {
                let ctx = RequestContext { now, ..items.router().own_context() };
                let mut routing = items.router().routing(container);
                let position = loop {
                    let found = position_at(&routing.entry, time, &ctx).await;
                    if !routing.has_moved(&found).await? {
                        break found?;
                    }
                };
                reader.entry = routing.entry;
                let Some(position) = position else { return Ok(None) };
                reader.cut(&position);
            }
        }
        Ok(Some(reader))
    }

    fn check_kept(&self) -> Result<()> {
        if self.entry.shape.retention.is_none() { Err(all_versions_not_enabled()) } else { Ok(()) }
    }

    /// Cuts the current partitions at a position.
    fn cut(&mut self, position: &VersionPosition) {
        let inside = position.inside.as_ref();
        let parts = self.entry.map.iter().flat_map(|partition| {
            let places = position.feed.parts_of(partition.epk_range());
            places.into_iter().map(|place| VersionPart::new(partition.clone(), place, inside))
        });
        self.parts = parts.collect();
    }

    /// The position after the taken changes.
    pub fn position(&self) -> VersionPosition {
        let mut places = Vec::with_capacity(self.parts.len());
        self.parts.iter().for_each(|part| part.places(&mut places));
        let inside: Option<InsideCommit> = self.parts.iter().find_map(|part| part.inside().cloned());
        VersionPosition { feed: FeedPosition::of_parts(&places, 0), inside }
    }

    /// Follows changes of the container's definition and partitions.
    pub fn follow(&mut self) -> Result<()> {
        let current = self.items.router().current_entry(&self.entry)?;
        if Arc::ptr_eq(&current, &self.entry) {
            return Ok(());
        }
        let has_moved = current.record.generation != self.entry.record.generation;
        self.entry = current;
        self.check_kept()?;
        if has_moved {
            let position = self.position();
            self.cut(&position);
        }
        Ok(())
    }

    /// Whether a commit was taken partly: its remaining changes come first.
    pub fn is_inside(&self) -> bool {
        self.parts.iter().any(|part| part.inside().is_some())
    }

    /// The time of the next change, of those read ahead.
    pub fn next_ms(&self) -> Option<u64> {
        self.next_part().and_then(|place| self.parts[place].ready.front()).map(|change| change.timestamp_ms)
    }

    fn next_part(&self) -> Option<usize> {
        if let Some(begun) = self.parts.iter().position(|part| part.inside().is_some()) {
            return (!self.parts[begun].ready.is_empty()).then_some(begun);
        }
        let time = |place: &usize| self.parts[*place].ready.front().map(|change| change.timestamp_ms);
        (0..self.parts.len()).filter(|place| time(place).is_some()).min_by_key(time)
    }

    /// The change that [`Self::take`] will take.
    pub fn peek(&self) -> Option<&VersionChange> {
        self.next_part().and_then(|place| self.parts[place].ready.front())
    }

    /// Whether everything of the container was read, and nothing can follow. For a container that was
    /// deleted.
    pub async fn is_read_to_its_end(&self) -> bool {
        let ctx = self.items.router().own_context();
        for part in &self.parts {
            let pass = PassTime(Timestamp(0));
            if part.partition.send(&ctx, &pass).await.map_or(true, |last| part.read < last) {
                return false;
            }
        }
        true
    }

    /// Takes the change of [`Self::peek`].
    pub fn take(&mut self) -> Option<VersionChange> {
        let place = self.next_part()?;
        self.parts[place].take()
    }

    /// Whether every change from before a time was read.
    pub fn has_passed(&self, time_ms: u64) -> bool {
        self.parts.iter().all(|part| !part.ready.is_empty() || part.passed_ms >= time_ms)
    }

    pub fn parts(&self) -> usize {
        self.parts.len()
    }

    /// The places to wait at for the next change.
    pub fn places<'s>(&'s self, out: &mut Vec<(&'s PartitionHandle, u64)>) {
        out.extend(self.parts.iter().map(|part| (&part.partition, part.read)));
    }

    /// Hundredths of a request unit since the last call.
    pub fn take_charge_centi(&mut self) -> u64 {
        std::mem::take(&mut self.charge_centi)
    }

    /// Reads ahead in parts without changes ready. If the reader needs the order across parts, the parts
    /// first pass the current time.
    pub async fn read(&mut self, ctx: &RequestContext, is_ordered: bool) -> Result<()> {
        self.follow()?;
        let mut place = 0;
        while place < self.parts.len() {
            if self.parts[place].ready.is_empty() {
                match self.read_part(ctx, place, is_ordered).await {
                    Err(error) if error.kind() == ErrorKind::PartitionGone => {
                        self.follow_move(error).await?;
                        place = 0;
                        continue;
                    }
                    read => read?,
                }
            }
            place += 1;
        }
        Ok(())
    }

    /// Follows a partition whose items have moved to others.
    async fn follow_move(&mut self, error: shardlake_model::Error) -> Result<()> {
        let position = self.position();
        let mut routing = self.items.router().routing_of(self.entry.clone());
        let failed: Result<()> = Err(error);
        if !routing.has_moved(&failed).await? {
            return failed;
        }
        self.entry = routing.entry;
        self.cut(&position);
        Ok(())
    }

    async fn read_part(&mut self, ctx: &RequestContext, place: usize, is_ordered: bool) -> Result<()> {
        let bytes = (AHEAD_BYTES_MAX / self.parts.len()).max(PART_BYTES_MIN);
        let limits = PageLimits { items: PART_CHANGES_MAX, size_bytes: bytes };
        let part = &mut self.parts[place];
        let now = self.items.router().clock().now();
        // No commit that begins from here on has an earlier time, even if the clock goes back.
        let latest = self.items.router().times().latest();
        let passed = match is_ordered {
            true => Some(part.partition.send(ctx, &PassTime(latest)).await?),
            false => None,
        };
        let mut collected = Collected::default();
        let found = look(ctx, part, (limits, now), &mut collected).await?;
        self.charge_centi += found.charge_centi;
        part.put(collected, found.last_lsn);
        if found.is_last && passed.is_some_and(|lsn| found.last_lsn >= lsn) {
            part.passed_ms = latest.milliseconds();
        } else if let Some(last) = part.ready.back() {
            part.passed_ms = part.passed_ms.max(last.timestamp_ms);
        }
        Ok(())
    }
}

async fn look(
    ctx: &RequestContext,
    part: &VersionPart,
    (limits, now): (PageLimits, Timestamp),
    collected: &mut Collected,
) -> Result<FeedFound> {
    let command = ReadChanges {
        filter: FeedFilter::Range(KeyRange::clone(&part.span)),
        mode: ChangeFeedMode::AllVersionsAndDeletes,
        images: PreviousImages::ALL,
        after: part.read,
        since: None,
        limits,
        time: LOOKING_TIME_MAX,
        charge_min: 0,
        checks_session: false,
    };
    let ctx = RequestContext { now, ..ctx.clone() };
    part.partition.read_changes(&ctx, &command, collected).await
}

/// The position before all changes at or after a time.
async fn position_at(
    entry: &ContainerEntry,
    time: Timestamp,
    ctx: &RequestContext,
) -> Result<Option<VersionPosition>> {
    let mut places = Vec::new();
    for partition in entry.map.iter() {
        let span = partition.epk_range().clone();
        let find = FindVersionsSince { span: span.clone(), time };
        let Some(after) = partition.send(ctx, &find).await? else { return Ok(None) };
        places.push(FeedPart { span, after });
    }
    Ok(Some(VersionPosition { feed: FeedPosition::of_parts(&places, 0), inside: None }))
}
