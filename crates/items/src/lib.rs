//! Operations on items: single ones, batches, feeds and the change feed.
//!
//! | file | contents |
//! |---|---|
//! | `command.rs` | item commands of front ends, as data |
//! | `items.rs`, `batch.rs`, `feed.rs` | single items, several in one request, pages of all of them |
//! | `json_items.rs` | items as JSON, for scripts and for front ends that speak it |
//! | `sample.rs`, `schema.rs`, `schema_cache.rs`, `policy_preview.rs` | samples of items: their schema, and their cost under another policy |
//! | `transactions.rs` | transactions of clients, which last for several commands |
//! | `change_feed.rs`, `change_feed_position.rs` | changes, page by page; a reader's position |
//! | `version_reader.rs`, `version_part.rs`, `version_position.rs` | all versions, change by change, for readers that stay |
//!
//! [`Items`] is the API. It is built on [`Serving`] and dereferences to it.

mod batch;
mod change_feed;
mod change_feed_position;
mod command;
mod feed;
mod insertion_order;
mod items;
mod json_items;
mod policy_preview;
mod sample;
mod schema;
mod schema_cache;
mod transactions;
mod version_part;
mod version_position;
mod version_reader;

use std::sync::Arc;

use shardlake_router::Serving;
use tokio::sync::Semaphore;

use schema_cache::SchemaCache;

pub use batch::{BulkOnError, key_of_another_partition};
pub use change_feed::{
    ChangeFeedPage, ChangeFeedRequest, FEED_WAIT_MAX, FeedStart, WaitingPlace, any_changed,
};
pub use change_feed_position::FeedPosition;
pub use command::{
    ItemOperation, ItemRead, ItemWrite, KeyedOperation, Patch, ReadCommand, Triggers, WriteCommand,
    WriteReply,
};
pub use feed::{
    FeedPage, FeedScope, decode_token, encode_token, find_range, position_of_token, resolve, window_of,
};
pub use insertion_order::{charge_in_order, read_in_order, trim, wait_in_order};
pub use items::no_such_item;
pub use json_items::{item_of_json, item_of_json_in};
pub use policy_preview::PolicyPreview;
pub use sample::{SAMPLE_ITEMS_MAX, Sample};
pub use schema::{SCHEMA_PATHS_MAX, SchemaPath};
pub use schema_cache::Schema;
pub use transactions::{OpenTransaction, TransactionSpace};
pub use version_part::VersionChange;
pub use version_position::{VersionPosition, read_number, write_number};
pub use version_reader::{VersionReader, VersionStart};

/// Items of all containers. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Items(Arc<ItemsState>);

#[derive(Debug)]
struct ItemsState {
    router: Serving,
    /// Readers of change feeds that wait for a change.
    feed_waiters: Semaphore,
    /// Schemas of containers' items, kept for a minute.
    schemas: SchemaCache,
}

impl Items {
    pub fn new(router: Serving) -> Items {
        Items(Arc::new(ItemsState {
            router,
            feed_waiters: Semaphore::new(change_feed::FEED_WAITERS_MAX),
            schemas: SchemaCache::default(),
        }))
    }

    pub fn router(&self) -> &Serving {
        &self.0.router
    }
}
