//! Sample of a container's items, drawn evenly over the hash space.
//!
//! The hash space is cut into equal spans, and the first items of each are taken. Sampling is quick and fair
//! as far as hashes are: the items at the beginning of a span are independent of their contents. It is the
//! server's own work, bounded in items, bytes and time; it is not charged, and it counts towards no load.

use std::time::Duration;

use shardlake_model::{Priority, RequestContext, Result};
use shardlake_partition::StoredItem;
use shardlake_router::ContainerHandle;
use shardlake_routing::{EpkScale, KeyRange};

use crate::{FeedScope, Items};

pub const SAMPLE_ITEMS_MAX: usize = 5_000;
/// Spans that are asked for their first items.
const SPANS: usize = 32;
const BYTES_MAX: usize = 2 << 20;
const TIME_MAX: Duration = Duration::from_millis(50);

/// Sampled items, and the number of all items.
#[derive(Debug)]
pub struct Sample {
    pub items: Vec<StoredItem>,
    pub of_items: u64,
}

impl Items {
    pub async fn sample(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        count: usize,
    ) -> Result<Sample> {
        let entry = self.router().current_entry(&container.entry)?;
        let container = ContainerHandle { entry: entry.clone(), by_rid: container.by_rid };
        let ctx =
            RequestContext { priority: Priority::System, answer_space: None, session: None, ..ctx.clone() };
        let whole = KeyRange::full();
        let scale = EpkScale::new(&entry.record.container.definition.partition_key, &whole);
        let inner = (1..SPANS).map(|span| scale.bound(span as f64 / SPANS as f64));
        let bounds: Vec<_> = std::iter::once(whole.min.clone()).chain(inner).chain([whole.max]).collect();
        let end = self.router().clock().elapsed() + TIME_MAX;
        let usage = container.usage();
        // A small container is sampled as a whole, wherever its items are.
        let fits = usage.items <= count as u64 && usage.size_bytes <= BYTES_MAX as u64;
        let mut items: Vec<StoredItem> = Vec::new();
        let mut bytes = 0;
        for (place, span) in bounds.windows(2).enumerate() {
            // The next spans make up for items that a span lacks.
            assert!(items.len() <= count, "a sample has no more items than were asked for");
            let left = count - items.len();
            let room = if fits { left } else { left.div_ceil(SPANS - place) };
            if room == 0 || bytes >= BYTES_MAX || (place > 0 && self.router().clock().elapsed() > end) {
                break;
            }
            // An even part of the bytes, so that the end of the hash space is sampled as well as its beginning.
            let bytes_max = if fits { BYTES_MAX } else { BYTES_MAX / SPANS * (place + 1) };
            let epk = Some((span[0].to_hex(), span[1].to_hex()));
            let scope = FeedScope::Range { range_id: None, epk };
            let page = self.read_feed(&ctx, &container, scope, Some(room as i64), None).await?;
            for item in page.items {
                bytes += item.json_size_bytes();
                items.push(item);
                if bytes >= bytes_max {
                    break;
                }
            }
        }
        Ok(Sample { items, of_items: container.usage().items })
    }
}
