//! Commands that read many items of a partition, or its changes.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use shardlake_model::{ConsistencyLevel, PreviousImages, RequestContext, Result};
use shardlake_partition::{
    ChangeFeedMode, ChangePage, ChangeSink, FeedFilter, FeedFound, FeedLook, InsertionPage,
    InsertionPosition, LogicalKey, PageLimits, PartitionPage, StoredItem,
};
use shardlake_routing::{Epk, KeyRange};
use shardlake_stdx::Timestamp;

use crate::admission::{Cost, OperationKind, Touched};
use crate::command::Command;
use crate::hosted::Hosted;
use crate::travel::travels_as_itself;

travels_as_itself!(ReadFeed, ReadInOrder, Trim, ReadLog, FindVersionsSince, PassTime, ChangePage);

/// One page of items in key order.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ReadFeed {
    pub filter: FeedFilter,
    /// The position of the last item that was read.
    pub after: Option<Vec<u8>>,
    pub limits: PageLimits,
}

impl Command for ReadFeed {
    type Reply = PartitionPage;

    async fn run(&self, at: &Hosted, ctx: &RequestContext) -> Result<PartitionPage> {
        at.check_session(ctx)?;
        let span = span_of(&self.filter).intersection(&at.partition().epk_range);
        let permit = at.admit(ctx, OperationKind::Feed, touched(&self.filter, &span))?;
        let ReadFeed { filter, after, limits } = self;
        let page =
            at.partition().read_page(at.schema(), &at.reading(ctx), filter, after.as_deref(), *limits).await;
        permit.settle_outcome(&page, |page| {
            let charge_centi = at.charge_of_items(&page.items, ctx.consistency);
            Cost { charge_centi, size_bytes: page.size_bytes as u64, creates: false }
        });
        page
    }
}

/// One page of the items of a logical partition in the order of their creation.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ReadInOrder {
    pub key: LogicalKey,
    pub position: InsertionPosition,
    pub limits: PageLimits,
}

impl Command for ReadInOrder {
    type Reply = InsertionPage;

    async fn run(&self, at: &Hosted, ctx: &RequestContext) -> Result<InsertionPage> {
        at.check_session(ctx)?;
        let permit = at.admit(ctx, OperationKind::Feed, Touched::Logical(&self.key))?;
        let (now, from) = (ctx.now.seconds(), (&self.key, self.position));
        let page =
            shardlake_partition::read_in_order(at.partition(), at.schema(), now, from, self.limits).await;
        permit.settle_outcome(&page, |page| {
            let charge_centi = at.charge_of_items(&page.items, ctx.consistency);
            Cost { charge_centi, size_bytes: page.size_bytes as u64, creates: false }
        });
        page
    }
}

/// Removes the oldest items of a logical partition that is beyond the bounds of its container. The reply says whether
/// there may be more to remove.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Trim {
    pub key: LogicalKey,
    /// How long a transaction that holds the logical partition is waited for.
    pub patience: Duration,
}

impl Command for Trim {
    type Reply = bool;

    async fn run(&self, at: &Hosted, ctx: &RequestContext) -> Result<bool> {
        shardlake_partition::trim(at.partition(), at.schema(), ctx.now, &self.key, self.patience).await
    }
}

/// Entries of the change log within a span, above an LSN.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ReadLog {
    pub span: KeyRange,
    pub after: u64,
    pub entries_max: usize,
}

impl Command for ReadLog {
    type Reply = ChangePage;

    async fn run(&self, at: &Hosted, _: &RequestContext) -> Result<ChangePage> {
        at.partition().changes(&self.span, self.after, self.entries_max).await
    }
}

/// The last LSN before all versions from a time on; `None` where some of them are not kept any more.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FindVersionsSince {
    pub span: KeyRange,
    pub time: Timestamp,
}

impl Command for FindVersionsSince {
    type Reply = Option<u64>;

    async fn run(&self, at: &Hosted, ctx: &RequestContext) -> Result<Option<u64>> {
        at.partition().versions_since(&self.span, self.time, ctx.now).await
    }
}

/// From now on no commit of the partition has a time up to this one. The reply is the last LSN with such a time.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct PassTime(pub Timestamp);

impl Command for PassTime {
    type Reply = u64;

    async fn run(&self, at: &Hosted, _: &RequestContext) -> Result<u64> {
        Ok(at.partition().pass(self.0).await)
    }
}

/// One page of the change feed of a partition. Its changes go to a sink.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ReadChanges {
    pub filter: FeedFilter,
    pub mode: ChangeFeedMode,
    /// Which changes show the previous version, on a page of all versions and deletes.
    pub images: PreviousImages,
    /// The last LSN that the reader has seen.
    pub after: u64,
    /// Changes before this second are left out.
    pub since: Option<Timestamp>,
    pub limits: PageLimits,
    /// How long the page may look for changes.
    pub time: Duration,
    /// The least charge of the page.
    pub charge_min: u64,
    pub checks_session: bool,
}

impl Hosted {
    /// Hands a page of changes to a sink.
    pub async fn read_changes(
        &self,
        ctx: &RequestContext,
        command: &ReadChanges,
        out: &mut dyn ChangeSink,
    ) -> Result<FeedFound> {
        if command.checks_session {
            self.check_session(ctx)?;
        }
        let span = span_of(&command.filter);
        let permit = self.admit(ctx, OperationKind::Feed, touched(&command.filter, &span))?;
        let look = FeedLook {
            shape: self.schema(),
            filter: &command.filter,
            mode: command.mode,
            images: command.images,
            after: command.after,
            since: command.since,
            limits: command.limits,
            now: ctx.now,
            consistency: ctx.consistency,
            clock: self.clock(),
            until: self.clock().elapsed().saturating_add(command.time).min(ctx.deadline),
        };
        let mut found = self.partition().read_changes(&look, out).await;
        if let Ok(found) = &mut found {
            found.charge_centi = found.charge_centi.max(command.charge_min);
        }
        permit.settle_outcome(&found, |found| Cost {
            charge_centi: found.charge_centi,
            size_bytes: found.size_bytes as u64,
            creates: false,
        });
        found
    }

    fn charge_of_items(&self, items: &[StoredItem], consistency: ConsistencyLevel) -> u64 {
        self.schema().charges.feed_page(items.iter().map(StoredItem::json_size_bytes), consistency).0
    }
}

/// Where a feed touches a partition.
pub fn touched<'a>(filter: &'a FeedFilter, span: &'a KeyRange) -> Touched<'a> {
    match filter {
        FeedFilter::Logical(logical) => Touched::Logical(logical),
        FeedFilter::Range(_) | FeedFilter::Prefix(..) => Touched::Span(span),
    }
}

/// The span of the hash space that holds the items of a filter.
pub fn span_of(filter: &FeedFilter) -> KeyRange {
    match filter {
        FeedFilter::Range(range) | FeedFilter::Prefix(range, _) => range.clone(),
        FeedFilter::Logical(logical) => span_of_point(&logical.epk),
    }
}

/// The span that holds one hash and no other hash that occurs.
pub fn span_of_point(epk: &Epk) -> KeyRange {
    let mut max = epk.clone();
    max.0.push(0xFF);
    let mut min = epk.clone();
    while min.0.last() == Some(&0) {
        min.0.pop();
    }
    KeyRange { min, max }
}
