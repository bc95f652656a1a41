//! Reading the items of a container, a logical partition or a range, a page at a time; deleting a logical partition.
//!
//! A continuation token is `base64url(version u8 | container u32 | logical partition | ordinal u64 | crc32 u32)`: the last item returned.
//! Items are ordered by epk over the whole container, so a token holds in every later cut of the ranges.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use shardlake_host::{DeleteKey, ReadFeed, ReadLog};
use shardlake_model::{Error, ErrorKind, PartitionKey, ReplyMeta, RequestContext, Result};
use shardlake_partition::{ChangePage, FeedFilter, PageLimits, StoredItem, epk_of_position};
use shardlake_routing::{KeyRange, prefix_range};

use crate::Items;
use shardlake_router::ContainerHandle;
use shardlake_router::{ContainerEntry, PartitionHandle, checked_key, key_of_read, logical, partition_of};

const TOKEN_VERSION: u8 = 2;

/// The extent of a feed.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum FeedScope {
    #[default]
    All,
    /// A full partition key, or a prefix of a hierarchical one.
    Key(PartitionKey),
    /// A partition key range by id, a span of the hash space in hexadecimal, or both: then their intersection.
    Range { range_id: Option<u32>, epk: Option<(String, String)> },
}

impl FeedScope {
    /// The partition key range that the request names.
    pub fn range_id(&self) -> Option<u32> {
        match self {
            FeedScope::All | FeedScope::Key(_) => None,
            FeedScope::Range { range_id, .. } => *range_id,
        }
    }
}

#[derive(Debug)]
pub struct FeedPage {
    pub items: Vec<StoredItem>,
    pub continuation: Option<String>,
    pub meta: ReplyMeta,
    /// Every range that was read, with its LSN.
    pub ranges: Vec<(u32, u64)>,
}

impl Items {
    /// `max_items` is the client's wish: absent for the default, -1 for the server's choice.
    pub async fn read_feed(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        scope: FeedScope,
        max_items: Option<i64>,
        continuation: Option<&str>,
    ) -> Result<FeedPage> {
        self.router().take_answer_space(ctx).await?;
        let mut routing = self.router().routing(container);
        loop {
            let page = self.page_of_feed(ctx, &routing.entry, &scope, max_items, continuation).await;
            if !routing.has_moved(&page).await? {
                return page;
            }
        }
    }

    async fn page_of_feed(
        &self,
        ctx: &RequestContext,
        entry: &Arc<ContainerEntry>,
        scope: &FeedScope,
        max_items: Option<i64>,
        continuation: Option<&str>,
    ) -> Result<FeedPage> {
        let mut after = continuation.map(|token| decode_token(entry, token)).transpose()?;
        let mut room = self.page_limits(max_items)?;
        let (filter, partitions) = resolve(entry, scope)?;
        let mut page =
            FeedPage { items: vec![], continuation: None, meta: ReplyMeta::default(), ranges: vec![] };
        let start = after.as_deref().map(epk_of_position).transpose()?;
        for partition in partitions {
            // The token is past this partition.
            if start.as_ref().is_some_and(|epk| partition.epk_range().is_below(epk)) {
                continue;
            }
            let read = ReadFeed { filter: filter.clone(), after: after.take(), limits: room };
            let part = match partition.send(ctx, &read).await {
                // Items already read are paid for, so they are returned; the next page finds out whether
                // there is budget again.
                Err(error) if error.kind() == ErrorKind::TooManyRequests && !page.items.is_empty() => {
                    let last = page.items.last().map(|item| item.position(&entry.shape));
                    page.continuation = last.map(|position| encode_token(entry, &position));
                    break;
                }
                part => part?,
            };
            assert!(part.items.len() <= room.items, "a partition keeps to the items that it was asked for");
            page.ranges.push((partition.range_id(), partition.durable_lsn()));
            room.items -= part.items.len();
            room.size_bytes = room.size_bytes.saturating_sub(part.size_bytes);
            page.items.extend(part.items);
            if let Some(next) = part.next {
                page.continuation = Some(encode_token(entry, &next));
                break;
            }
            if room.items == 0 || room.size_bytes == 0 {
                // Full exactly at a partition's end: the next page finds out whether more items follow.
                page.continuation = page
                    .items
                    .last()
                    .filter(|_| !is_last(entry, &partition))
                    .map(|item| encode_token(entry, &item.position(&entry.shape)));
                break;
            }
        }
        let sizes = page.items.iter().map(StoredItem::json_size_bytes);
        page.meta.charge_centi = self.0.router.charges().feed_page(sizes, ctx.consistency).0;
        page.meta.session_version = entry.record.session_version;
        page.meta.range_id = page.ranges.first().map(|(id, _)| *id);
        page.meta.lsn = page.ranges.first().map_or(0, |(_, lsn)| *lsn);
        Ok(page)
    }

    /// The change log of a range, or of the part of it within a span, above an LSN. Positions of a range hold
    /// in the ranges that replace it, for the same span.
    pub async fn changes(
        &self,
        container: &ContainerHandle,
        range_id: u32,
        span: &KeyRange,
        after: u64,
        entries_max: usize,
    ) -> Result<ChangePage> {
        let read = ReadLog { span: span.clone(), after, entries_max };
        let ctx = self.router().own_context();
        let mut routing = self.router().routing(container);
        loop {
            // A moved range exists under its id; any other end shows by the missing id.
            let page = match find_range(&routing.entry, range_id) {
                Ok(partition) => partition.send(&ctx, &read).await,
                Err(gone) => Err(gone),
            };
            if !routing.has_moved(&page).await? {
                return page;
            }
        }
    }

    pub fn page_limits(&self, max_items: Option<i64>) -> Result<PageLimits> {
        let limits = self.router().limits();
        let items = match max_items {
            None => limits.page_items_default,
            Some(-1) => limits.page_items_own,
            Some(wanted) if wanted > 0 => (wanted as usize).min(limits.page_items_max),
            Some(other) => {
                return Err(Error::bad_request(format!(
                    "a page of {other} items is invalid: use -1 or 1 and above"
                )));
            }
        };
        Ok(PageLimits { items, size_bytes: limits.page_size_bytes_max })
    }

    /// Deletes every item of a logical partition, and returns when all are deleted; other requests may see
    /// intermediate states.
    pub async fn delete_partition_key(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        key: &PartitionKey,
    ) -> Result<ReplyMeta> {
        container.entry.check_takes_writes()?;
        let logical = key_of_read(container, Some(key))?;
        self.router().send(ctx, container, &logical, &DeleteKey(logical.clone())).await
    }
}

fn is_last(entry: &ContainerEntry, partition: &PartitionHandle) -> bool {
    entry.map.iter().last().is_some_and(|last| last.uid() == partition.uid())
}

pub fn resolve(entry: &ContainerEntry, scope: &FeedScope) -> Result<(FeedFilter, Vec<PartitionHandle>)> {
    let of_range = |range: &KeyRange| entry.map.overlapping(range).cloned().collect();
    Ok(match scope {
        FeedScope::All => (FeedFilter::Range(KeyRange::full()), entry.map.iter().cloned().collect()),
        FeedScope::Key(key) => {
            let key = checked_key(entry, key)?.into_owned();
            if key.0.len() == entry.shape.key_paths.len() {
                let logical = logical(entry, key);
                let partition = partition_of(entry, &logical).clone();
                (FeedFilter::Logical(logical), vec![partition])
            } else {
                let range = prefix_range(&entry.record.container.definition.partition_key, &key);
                let partitions = of_range(&range);
                (FeedFilter::Prefix(range, key.0), partitions)
            }
        }
        FeedScope::Range { range_id, epk } => {
            let span = window_of(epk.as_ref())?;
            let partitions = match range_id {
                Some(id) => vec![find_range(entry, *id)?.clone()],
                None => of_range(&span),
            };
            (FeedFilter::Range(span), partitions)
        }
    })
}

/// The span of the hash space that a request names by its bounds in hexadecimal; all of it where it names none.
pub fn window_of(epk: Option<&(String, String)>) -> Result<KeyRange> {
    let Some((min, max)) = epk else { return Ok(KeyRange::full()) };
    KeyRange::from_hex(min, max)
        .map_err(|error| Error::bad_request(format!("the effective partition key range is invalid: {error}")))
}

pub fn find_range(entry: &ContainerEntry, id: u32) -> Result<&PartitionHandle> {
    entry.map.iter().find(|partition| partition.range_id() == id).ok_or_else(|| {
        Error::new(
            ErrorKind::PartitionGone,
            format!("partition key range {id} does not exist (any more): refresh the partition key ranges"),
        )
    })
}

pub fn range_by_id(container: &ContainerHandle, id: u32) -> Result<&PartitionHandle> {
    find_range(&container.entry, id)
}

pub fn encode_token(entry: &ContainerEntry, position: &[u8]) -> String {
    let mut bytes = vec![TOKEN_VERSION];
    bytes.extend_from_slice(&entry.record.container.rid.number.to_be_bytes());
    bytes.extend_from_slice(position);
    bytes.extend_from_slice(&crc32fast::hash(&bytes).to_be_bytes());
    URL_SAFE_NO_PAD.encode(bytes)
}

pub fn decode_token(entry: &ContainerEntry, token: &str) -> Result<Vec<u8>> {
    position_of_token(entry.record.container.rid.number, token)
}

/// The position in a token of a container, which may be made up: the last item of a page.
pub fn position_of_token(container: u32, token: &str) -> Result<Vec<u8>> {
    let invalid = || Error::bad_request("Invalid Continuation Token");
    let bytes = URL_SAFE_NO_PAD.decode(token).map_err(|_| invalid())?;
    let (content, checksum) = bytes.split_last_chunk::<4>().ok_or_else(invalid)?;
    if crc32fast::hash(content) != u32::from_be_bytes(*checksum) {
        return Err(invalid());
    }
    let (header, position) = content.split_at_checked(5).ok_or_else(invalid)?;
    if header[0] != TOKEN_VERSION || header[1..] != container.to_be_bytes() {
        return Err(invalid());
    }
    epk_of_position(position).map_err(|_| invalid())?;
    Ok(position.to_vec())
}
