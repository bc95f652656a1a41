//! Finds the items whose time to live has run out in the order in which it does, without reading those whose has not.
//!
//! There are two queues, since an item runs out by a time of its own or by the container's default, which may change:
//!
//! ```text
//! time of its own   rows `E due | item` (keys.rs), one for each such item, written with it        until the first that is not due
//! the default       the change log: its last entry on an item is as old as the item                until the first that is not due
//! ```
//!
//! So an item that uses the default costs its writers nothing, and a default that changes moves
//! nothing. The log of a partition that was made of several is not in the order of its times up to
//! where they were joined: there all of it is read.
//!
//! A partition that began before there were rows `E` has no whole queue of them, and is read item
//! by item as long as it lives. A partition that is made of others by a split, merge or move has a
//! whole queue if all of them have.

use std::sync::Arc;

use bytes::Bytes;
use shardlake_document::{Envelope, Record};
use shardlake_model::Result;
use shardlake_storage::{ScanOptions, Snapshot};

use crate::due::Due;
use crate::key_list::KeyList;
use crate::keys::{self, EXPIRY, HEADER, ITEMS, PartitionUid};
use crate::log::entries::Entries;
use crate::log::entry::ChangeKind;
use crate::log::marks::LogMarks;
use crate::shape::ContainerSchema;

/// Items that one look meets. They are read at once, by a thread that serves clients.
const ITEMS_MAX: usize = 128;
const ITEMS_LEAST: usize = 16;
/// Estimated cost of checking one item, in written rows: a step that checks `rows_max / 8` items takes about as long as a step
/// that writes `rows_max` rows.
const ROWS_PER_ITEM: usize = 8;

/// How many items a look meets where a piece writes so many rows.
pub(crate) fn items_of_a_look(rows_max: usize) -> usize {
    (rows_max / ROWS_PER_ITEM).clamp(ITEMS_LEAST, ITEMS_MAX)
}

/// Where the search continues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// Behind a row of the items with a time of their own.
    Own(Option<Bytes>),
    /// Behind an LSN.
    Log(u64),
    /// Behind an item, where there is no queue.
    Items(Option<Bytes>),
    End,
}

/// Scope of a search.
pub(crate) struct Search<'a> {
    pub uid: PartitionUid,
    pub snapshot: Snapshot,
    pub shape: &'a ContainerSchema,
    pub now_seconds: u64,
    /// Of the log, for this snapshot.
    pub marks: Arc<LogMarks>,
    /// No item that uses the default is older in the log.
    pub log_from: u64,
    /// Items that one look meets.
    pub items_max: usize,
}

/// Result of one look.
pub(crate) struct Found {
    /// Keys of items whose time had run out, in the order of the keys.
    pub keys: Vec<Bytes>,
    /// Expiry of the items that were met and stay.
    pub due: Due,
    pub next: Place,
    /// The log was searched up to here, …
    pub log_to: u64,
    /// … and up to here no item is left that uses the default, where one is.
    pub log_kept: Option<u64>,
}

impl Found {
    fn nothing(next: Place) -> Found {
        Found { keys: Vec::new(), due: Due::NEVER, next, log_to: 0, log_kept: None }
    }
}

/// Whether items without a time of their own run out.
pub(crate) fn goes_by_default(shape: &ContainerSchema) -> bool {
    shape.default_ttl.is_some_and(|seconds| seconds != -1)
}

impl Search<'_> {
    pub async fn look(&self, place: &Place) -> Result<Found> {
        let mut found = match place {
            Place::Own(last) => self.look_at_own(last.as_ref()).await?,
            Place::Log(after) => self.look_at_log(*after).await?,
            Place::Items(last) => self.look_at_items(last.as_ref()).await?,
            Place::End => Found::nothing(Place::End),
        };
        found.keys.sort_unstable();
        found.keys.dedup();
        Ok(found)
    }

    fn is_expired(&self, item: &Envelope) -> bool {
        self.shape.is_expired(item.timestamp_seconds(), item.ttl_seconds, self.now_seconds)
    }

    async fn look_at_own(&self, last: Option<&Bytes>) -> Result<Found> {
        let mut found = Found::nothing(self.behind_own());
        let start = match last {
            Some(last) => [&last[..], &[0]].concat(),
            None => keys::expiry_key(self.uid, 0, &[]),
        };
        let (_, end) = keys::space_range(self.uid, EXPIRY);
        let options = ScanOptions { limit: Some(self.items_max), ..ScanOptions::default() };
        let mut scan = self.snapshot.scan(start..end, options);
        while let Some(rows) = scan.next_chunk().await.map_err(crate::storage_error)? {
            for (key, _) in rows {
                let (due, item) = keys::parse_expiry_key(&key[HEADER..]).ok_or_else(crate::malformed_key)?;
                if due > self.now_seconds {
                    found.due.own = due;
                    found.next = self.behind_own();
                    return Ok(found);
                }
                found.keys.push(keys::with_header(self.uid, ITEMS, item).into());
                found.next = Place::Own(Some(Bytes::copy_from_slice(&key)));
            }
        }
        if found.keys.len() < self.items_max {
            found.next = self.behind_own();
        }
        Ok(found)
    }

    /// Nothing runs out by a default that there is not.
    fn behind_own(&self) -> Place {
        if goes_by_default(self.shape) { Place::Log(self.log_from) } else { Place::End }
    }

    async fn look_at_log(&self, after: u64) -> Result<Found> {
        let mut found = Found::nothing(Place::End);
        let default_ttl = self.shape.default_ttl.unwrap_or(-1).max(0) as u64;
        let mut named: Vec<(u64, Vec<u8>)> = Vec::new();
        let options = ScanOptions { limit: Some(self.items_max), ..ScanOptions::default() };
        let marks = self.marks.clone();
        let mut log = Entries::behind(self.uid, &self.snapshot, marks, after, options);
        let (mut last, mut entries, mut is_over) = (after, 0, false);
        while named.len() < self.items_max {
            let Some((lsn, entry)) = log.next(1, 1).await?.pop() else { break };
            let written = entry.timestamp_ms() / 1000;
            if lsn > self.marks.joined_to && written.saturating_add(default_ttl) > self.now_seconds {
                found.due.oldest = written;
                is_over = true;
                break;
            }
            let writes = |kind| matches!(kind, ChangeKind::Create | ChangeKind::Replace);
            let operations = entry.operations.into_iter().filter(|operation| writes(operation.kind));
            named.extend(operations.map(|operation| (lsn, operation.key)));
            (last, entries) = (lsn, entries + 1);
        }
        is_over |= entries < self.items_max && named.len() < self.items_max;
        for (lsn, key, item) in self.last_words(named).await? {
            if item.ttl_seconds.is_some() {
                continue;
            }
            if self.is_expired(&item) {
                found.keys.push(key);
                continue;
            }
            found.due.note(&item);
            found.log_kept.get_or_insert(lsn - 1);
            // Its time is not before those of the ones behind it.
            is_over |= lsn > self.marks.joined_to;
        }
        found.log_to = last;
        if !is_over {
            found.next = Place::Log(last);
        }
        Ok(found)
    }

    /// The named items whose last entry in the log named them.
    async fn last_words(&self, named: Vec<(u64, Vec<u8>)>) -> Result<Vec<(u64, Bytes, Envelope)>> {
        let (mut item_keys, header) = (KeyList::default(), keys::header(self.uid, ITEMS, 0));
        named.iter().for_each(|(_, key)| item_keys.push(&[&header, key]));
        let item_keys = item_keys.finish();
        let items = self.snapshot.get_many(item_keys.clone()).await.map_err(crate::storage_error)?;
        let mut there = Vec::with_capacity(items.len());
        for (((lsn, _), key), item) in named.into_iter().zip(item_keys).zip(items) {
            let Some(item) = item else { continue };
            let envelope = Record::decode(&item).map_err(crate::corrupt)?.envelope;
            if envelope.lsn == lsn {
                there.push((lsn, Bytes::copy_from_slice(&key), envelope));
            }
        }
        Ok(there)
    }

    async fn look_at_items(&self, last: Option<&Bytes>) -> Result<Found> {
        let mut found = Found::nothing(Place::End);
        let (start, end) = keys::space_range(self.uid, ITEMS);
        let start = last.map_or(start, |last| keys::after_item(self.uid, &last[HEADER..]));
        let options = ScanOptions { limit: Some(self.items_max), ..ScanOptions::default() };
        let mut scan = self.snapshot.scan(start..end, options);
        while let Some(rows) = scan.next_chunk().await.map_err(crate::storage_error)? {
            for (key, value) in rows {
                let envelope = Record::decode(&value).map_err(crate::corrupt)?.envelope;
                let key = Bytes::copy_from_slice(&key);
                found.next = Place::Items(Some(key.clone()));
                match self.is_expired(&envelope) {
                    true => found.keys.push(key),
                    false => found.due.note(&envelope),
                }
            }
        }
        Ok(found)
    }
}
