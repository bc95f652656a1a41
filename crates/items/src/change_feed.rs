//! The change feed of a container, a logical partition or a range: a page at a time, or waiting for the next change.
//!
//! A page reads its parts one after the other, each from the last LSN seen there, until it is full,
//! everything was read, or its time is spent. If nothing was found and the client waits, the partitions wake
//! the page with their next commit. A position records the LSN for each part of the hash space, so it
//! survives splits, merges and moves. If a partition moves while it is read, the page begins again with the
//! position that it had.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use shardlake_host::{ReadChanges, span_of};
use shardlake_model::{Error, ErrorKind, PreviousImages, ReplyMeta, RequestContext, Result};
use shardlake_partition::{
    ChangeFeedMode, ChangeSink, FeedFilter, FeedFound, JsonChanges, PageLimits, all_versions_not_enabled,
};
use shardlake_routing::KeyRange;
use shardlake_stdx::Timestamp;

use crate::Items;
use crate::change_feed_position::{FeedPart, FeedPosition};
use crate::feed::{FeedScope, resolve};
use shardlake_router::ContainerEntry;
use shardlake_router::{ContainerHandle, PartitionHandle};

/// Time that a page may spend on changes outside of its scope.
pub const LOOKING_TIME_MAX: Duration = Duration::from_secs(5);
/// Time that a reader may wait for a change.
pub const FEED_WAIT_MAX: Duration = Duration::from_secs(60);
/// Limit on waiting readers; further ones get an empty page at once.
pub const FEED_WAITERS_MAX: usize = 4096;
/// A read without a waiting place may be repeated after so long.
const PLACE_RETRY_MS: u64 = 1000;

/// One of the places of waiting readers, until it is dropped.
#[derive(Debug)]
pub struct WaitingPlace<'i> {
    _permit: tokio::sync::SemaphorePermit<'i>,
}

/// A commit whose writer has disconnected wakes no reader: waiting readers check for such commits at this
/// interval.
pub const WAIT_SLICE: Duration = Duration::from_secs(1);

/// Where a reader begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FeedStart<'r> {
    #[default]
    Beginning,
    /// The next change.
    Now,
    /// After an earlier page, by its etag.
    After(&'r str),
}

#[derive(Debug, Clone, Default)]
pub struct ChangeFeedRequest<'r> {
    pub scope: FeedScope,
    pub mode: ChangeFeedMode,
    /// Which changes show the previous version, on a page of all versions and deletes.
    pub images: PreviousImages,
    pub start: FeedStart<'r>,
    /// Leaves out changes before this second, also with an earlier start.
    pub since: Option<Timestamp>,
    /// The client's wish, as for other feeds.
    pub max_items: Option<i64>,
    /// How long an empty page waits for a change.
    pub wait: Duration,
}

#[derive(Debug)]
pub struct ChangeFeedPage<C = Vec<u8>> {
    /// By default as JSON, separated by commas.
    pub changes: C,
    pub count: usize,
    /// The position at which the next page resumes.
    pub etag: String,
    /// There was no further change when the page was read.
    pub is_last: bool,
    pub meta: ReplyMeta,
    /// Every range in scope, with its LSN.
    pub ranges: Vec<(u32, u64)>,
}

/// A part of a partition that a page reads.
struct Part {
    partition: PartitionHandle,
    filter: FeedFilter,
    place: FeedPart,
}

impl Items {
    /// A page with the changes as JSON.
    pub async fn change_feed(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        request: &ChangeFeedRequest<'_>,
    ) -> Result<ChangeFeedPage> {
        let page = self.changes_in::<JsonChanges>(ctx, container, request).await?;
        let ChangeFeedPage { changes: JsonChanges(changes), count, etag, is_last, meta, ranges } = page;
        Ok(ChangeFeedPage { changes, count, etag, is_last, meta, ranges })
    }

    /// A page with the changes in a front end's sink.
    pub async fn changes_in<C: ChangeSink + Default>(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        request: &ChangeFeedRequest<'_>,
    ) -> Result<ChangeFeedPage<C>> {
        check_start(container, request)?;
        let left = ctx.deadline.saturating_sub(self.router().clock().elapsed());
        let wait = request.wait.min(FEED_WAIT_MAX).min(left);
        let turn = (!wait.is_zero()).then(|| self.0.feed_waiters.try_acquire().ok()).flatten();
        let mut position = match request.start {
            FeedStart::Beginning => Some(FeedPosition::default()),
            FeedStart::Now => None,
            FeedStart::After(etag) => Some(FeedPosition::decode(etag)?),
        };
        let time_over = tokio::time::sleep(wait);
        tokio::pin!(time_over);
        let mut is_over = turn.is_none();
        let mut routing = self.router().routing(container);
        // The first look has a minimum charge; further looks of a waiting reader have none.
        let page_min = self.0.router.charges().feed_page([].into_iter(), ctx.consistency).0;
        let mut charge_centi = 0;
        loop {
            self.router().take_answer_space(ctx).await?;
            let charge_min = if charge_centi == 0 { page_min } else { 0 };
            let looked = self.look(ctx, &routing.entry, request, (position.as_ref(), charge_min)).await;
            if routing.has_moved(&looked).await? {
                continue;
            }
            let (mut page, parts) = looked?;
            charge_centi += page.meta.charge_centi;
            if page.count > 0 || !page.is_last || is_over {
                page.meta.charge_centi = charge_centi;
                return Ok(page);
            }
            if let Some(space) = &ctx.answer_space {
                space.give_back();
            }
            tokio::select! {
                biased;
                () = &mut time_over => is_over = true,
                () = changed_or_later(&parts) => is_over = self.0.feed_waiters.is_closed(),
            }
            position = Some(FeedPosition::of_parts(&places(&parts), 0));
        }
    }

    /// To be called before the account is closed: waiting readers get an empty page within a second, and no
    /// further ones wait.
    pub fn stop_waiting(&self) {
        self.0.feed_waiters.close();
    }

    /// A place for a read that waits for derived data. Readers of change feeds have the same places.
    pub fn waiting_place(&self) -> Result<WaitingPlace<'_>> {
        let place = self.0.feed_waiters.try_acquire();
        place.map(|permit| WaitingPlace { _permit: permit }).map_err(|_| {
            let text = format!(
                "{FEED_WAITERS_MAX} requests wait already, or the server is stopping: nothing was done, retry"
            );
            Error::new(ErrorKind::Unavailable, text).with_retry_after_ms(PLACE_RETRY_MS)
        })
    }

    /// Whether the account is being closed: no reader waits for changes then.
    pub fn waiting_is_over(&self) -> bool {
        self.0.feed_waiters.is_closed()
    }

    /// One page of the available changes.
    async fn look<C: ChangeSink + Default>(
        &self,
        ctx: &RequestContext,
        entry: &Arc<ContainerEntry>,
        request: &ChangeFeedRequest<'_>,
        (position, charge_min): (Option<&FeedPosition>, u64),
    ) -> Result<(ChangeFeedPage<C>, Vec<Part>)> {
        let mut room = self.page_limits(request.max_items)?;
        let mut parts = parts_of(entry, &request.scope, position)?;
        let until = (self.router().clock().elapsed() + LOOKING_TIME_MAX).min(ctx.deadline);
        let mut changes = C::default();
        let (mut count, mut charge_centi, mut is_last) = (0, 0, true);
        let first = position.map_or(0, |position| position.next) % parts.len().max(1);
        let mut next = first;
        let mut read = 0;
        while read < parts.len() {
            let part = &mut parts[next];
            let found =
                match self.read_part(ctx, request, part, (room, until, charge_min), &mut changes).await {
                    // Changes already read are paid for, so they are returned.
                    Err(error) if error.kind() == ErrorKind::TooManyRequests && count > 0 => {
                        is_last = false;
                        break;
                    }
                    found => found?,
                };
            debug_assert!(found.last_lsn >= part.place.after, "a change feed never moves back");
            part.place.after = found.last_lsn;
            count += found.changes;
            charge_centi += found.charge_centi;
            is_last &= found.is_last;
            room.items = room.items.saturating_sub(found.changes);
            room.size_bytes = room.size_bytes.saturating_sub(found.size_bytes);
            read += 1;
            next = (next + 1) % parts.len();
            if room.items == 0 || room.size_bytes == 0 || !found.is_last {
                is_last &= read == parts.len();
                break;
            }
        }
        assert!(read <= parts.len(), "a page reads each part at most once");
        let etag = FeedPosition::of_parts(&places(&parts), next).encode();
        let mut ranges: Vec<(u32, u64)> =
            parts.iter().map(|part| (part.partition.range_id(), part.partition.durable_lsn())).collect();
        ranges.dedup_by_key(|(range_id, _)| *range_id);
        let meta = ReplyMeta {
            charge_centi,
            lsn: ranges.first().map_or(0, |(_, lsn)| *lsn),
            item_lsn: 0,
            range_id: ranges.first().map(|(range_id, _)| *range_id),
            session_version: entry.record.session_version,
        };
        Ok((ChangeFeedPage { changes, count, etag, is_last, meta, ranges }, parts))
    }

    async fn read_part(
        &self,
        ctx: &RequestContext,
        request: &ChangeFeedRequest<'_>,
        part: &Part,
        (limits, until, charge_min): (PageLimits, Duration, u64),
        out: &mut dyn ChangeSink,
    ) -> Result<FeedFound> {
        let command = ReadChanges {
            filter: part.filter.clone(),
            mode: request.mode,
            images: request.images,
            after: part.place.after,
            since: request.since,
            limits,
            time: until.saturating_sub(self.router().clock().elapsed()),
            charge_min,
            checks_session: true,
        };
        part.partition.read_changes(ctx, &command, out).await
    }
}

/// A feed of all versions begins with an LSN, never with the beginning or a time.
fn check_start(container: &ContainerHandle, request: &ChangeFeedRequest<'_>) -> Result<()> {
    if request.mode == ChangeFeedMode::LatestVersion {
        return Ok(());
    }
    if container.entry.shape.retention.is_none() {
        return Err(all_versions_not_enabled());
    }
    if request.start == FeedStart::Beginning || request.since.is_some() {
        return Err(Error::bad_request(
            "the change feed mode 'All Versions and Deletes' starts now (If-None-Match: *) or behind an earlier page (its etag), neither from the beginning nor from a time",
        ));
    }
    Ok(())
}

/// The current parts of a scope, cut where the position changes; without a position, behind all existing
/// changes.
fn parts_of(entry: &ContainerEntry, scope: &FeedScope, position: Option<&FeedPosition>) -> Result<Vec<Part>> {
    let (filter, partitions) = resolve(entry, scope)?;
    let span = span_of(&filter);
    let mut parts = Vec::with_capacity(partitions.len());
    for partition in partitions {
        let span = match &filter {
            FeedFilter::Logical(_) => span.clone(),
            FeedFilter::Range(_) | FeedFilter::Prefix(..) => span.intersection(partition.epk_range()),
        };
        let places = match position {
            Some(position) => position.parts_of(&span),
            None => vec![FeedPart { span, after: partition.durable_lsn() }],
        };
        for place in places {
            let (filter, partition) = (within(&filter, &place.span), partition.clone());
            parts.push(Part { partition, filter, place });
        }
    }
    Ok(parts)
}

fn within(filter: &FeedFilter, span: &KeyRange) -> FeedFilter {
    match filter {
        FeedFilter::Range(_) => FeedFilter::Range(span.clone()),
        FeedFilter::Prefix(_, components) => FeedFilter::Prefix(span.clone(), components.clone()),
        FeedFilter::Logical(logical) => FeedFilter::Logical(logical.clone()),
    }
}

fn places(parts: &[Part]) -> Vec<FeedPart> {
    parts.iter().map(|part| part.place.clone()).collect()
}

/// Waits until one of the partitions has a new change or ends, at most [`WAIT_SLICE`].
async fn changed_or_later(parts: &[Part]) {
    let places = parts.iter().map(|part| (&part.partition, part.place.after)).collect();
    any_changed(places, WAIT_SLICE).await;
}

/// Waits until one of several partitions has a change above an LSN or ends, at most `time_max`.
pub async fn any_changed(places: Vec<(&PartitionHandle, u64)>, time_max: Duration) {
    let mut waits: Vec<Pin<Box<dyn Future<Output = ()> + Send + '_>>> = Vec::with_capacity(places.len());
    for (partition, after) in places {
        waits.push(Box::pin(partition.wait_for_change(after)));
    }
    let changed = std::future::poll_fn(|context| {
        // All partitions are polled: an unpolled one would not wake the page.
        let ready =
            waits.iter_mut().filter_map(|wait| wait.as_mut().poll(context).is_ready().then_some(())).count();
        if ready > 0 { Poll::Ready(()) } else { Poll::Pending }
    });
    // Both outcomes end the wait.
    let _ = tokio::time::timeout(time_max, changed).await;
}
