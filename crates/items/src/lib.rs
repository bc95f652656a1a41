//! Operations on items: single ones, batches, feeds and the change feed.
//!
//! | file | what it does |
//! |---|---|
//! | `command.rs` | what front ends ask for on items, as data |
//! | `items.rs`, `batch.rs`, `feed.rs` | single items, several in one request, pages of all of them |
//! | `json_items.rs` | items as JSON, for scripts and for front ends that speak it |
//! | `change_feed.rs`, `change_feed_position.rs` | what changed, page by page; where a reader stands |
//!
//! [`Items`] is the door. It stands on [`Serving`], and shows what that offers as its own.

mod batch;
mod change_feed;
mod change_feed_position;
mod command;
mod feed;
mod items;
mod json_items;

use std::ops::Deref;
use std::sync::Arc;

use shardlake_serving::Serving;
use tokio::sync::Semaphore;

pub use batch::BulkOnError;
pub use change_feed::{ChangeFeedPage, ChangeFeedRequest, FEED_WAIT_MAX, FeedStart};
pub use command::{
    ItemOperation, ItemRead, ItemWrite, KeyedOperation, Patch, ReadCommand, Triggers, WriteCommand,
    WriteReply,
};
pub use feed::{FeedPage, FeedScope, decode_token, encode_token, resolve, span_of_point};
pub use items::{check_session, no_such_item};
pub use json_items::item_of_json;

/// Items of all containers. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Items(Arc<ItemsState>);

#[derive(Debug)]
struct ItemsState {
    serving: Serving,
    /// Readers of change feeds that wait for a change.
    feed_waiters: Semaphore,
}

impl Deref for Items {
    type Target = Serving;

    fn deref(&self) -> &Serving {
        &self.0.serving
    }
}

impl Deref for ItemsState {
    type Target = Serving;

    fn deref(&self) -> &Serving {
        &self.serving
    }
}

impl Items {
    pub fn new(serving: Serving) -> Items {
        Items(Arc::new(ItemsState { serving, feed_waiters: Semaphore::new(change_feed::FEED_WAITERS_MAX) }))
    }
}
