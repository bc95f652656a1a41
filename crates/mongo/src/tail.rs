//! A cursor at the end of a capped collection, which returns later inserts.
//!
//! Its position is the last document that it has looked at. A capped collection removes the oldest documents first, so where
//! that document is still there, nothing behind it was missed.

use std::time::Duration;

use shardlake_items::wait_in_order;
use shardlake_model::ContainerRid;
use shardlake_mql::write::document_of;
use shardlake_mql::{Document, Matched, Value};
use shardlake_partition::InsertionPosition;
use shardlake_router::ContainerHandle;
use tokio::time::Instant;

use crate::collections::{Collection, Collections, Namespace};
use crate::failure::{Failure, Result};
use crate::reads::Find;
use crate::request::Request;

/// A commit whose writer was cancelled wakes no reader: a waiting cursor looks for such commits regularly.
const WAIT_SLICE: Duration = Duration::from_secs(1);
const PLAN_KILLED: i32 = 175;
const POSITION_LOST: i32 = 136;

/// How much a batch may hold, and how long an empty one waits.
#[derive(Debug, Clone, Copy)]
pub struct TailRoom {
    pub documents_max: usize,
    pub size_bytes_max: usize,
    pub wait: Duration,
}

#[derive(Debug)]
pub struct TailBatch {
    pub documents: Vec<Value>,
    /// The cursor has no position to continue from, or has returned as many documents as were wanted.
    pub is_last: bool,
}

#[derive(Debug)]
pub struct Tail {
    collections: Collections,
    namespace: Namespace,
    rid: ContainerRid,
    find: Find,
    at: Place,
}

/// How far a cursor is.
#[derive(Debug, Clone, Copy)]
struct Place {
    position: InsertionPosition,
    to_skip: u64,
    /// Documents that are still wanted.
    left: u64,
    /// LSN of the partition at the last read.
    lsn: u64,
    is_at_end: bool,
}

impl Tail {
    /// A cursor before the first document.
    pub fn new(collections: &Collections, collection: &Collection, find: Find) -> Tail {
        let left = if find.limit == 0 { u64::MAX } else { find.limit };
        let position = InsertionPosition::default();
        let at = Place { position, to_skip: find.skip, left, lsn: 0, is_at_end: false };
        let (namespace, rid) = (collection.namespace.clone(), collection.container());
        Tail { collections: collections.clone(), namespace, rid, find, at }
    }

    /// The next documents; where there are none, waits for one. After an error the cursor is where it was.
    pub async fn next(
        &mut self,
        request: &Request,
        room: TailRoom,
        check: impl Fn(&[Value]) -> Result<()>,
    ) -> Result<TailBatch> {
        let until = Instant::now() + room.wait;
        self.find.env.set_time(request.time_test());
        let mut at = self.at;
        loop {
            let collection = self.collection()?;
            let documents = self.read(request, &collection, &mut at, room).await?;
            let is_last = at.left == 0 || (at.is_at_end && at.position.after.is_none());
            let is_over = Instant::now() >= until || self.collections.queries.items().waiting_is_over();
            if !documents.is_empty() || is_last || is_over {
                check(&documents)?;
                self.at = at;
                return Ok(TailBatch { documents, is_last });
            }
            self.wait(&collection, at.lsn, until).await?;
        }
    }

    /// The collection, unless it was dropped or renamed.
    fn collection(&self) -> Result<Collection> {
        let dropped = |_| Failure::new(PLAN_KILLED, "collection dropped");
        let entry = self.collections.queries.router().entry_of_rid(self.rid).map_err(dropped)?;
        let own = Namespace::of_container(&entry.database.id, &entry.record.container.definition.id);
        if own != self.namespace {
            return Err(Failure::new(PLAN_KILLED, "collection renamed"));
        }
        self.collections.of_handle(&own, ContainerHandle { entry, by_rid: false })
    }

    async fn read(
        &mut self,
        request: &Request,
        collection: &Collection,
        at: &mut Place,
        room: TailRoom,
    ) -> Result<Vec<Value>> {
        let (mut documents, mut size_bytes) = (Vec::new(), 0);
        let is_any = self.find.filter.is_empty();
        loop {
            debug_assert!(documents.len() <= room.documents_max, "a batch has no more than was asked for");
            let wanted = (room.documents_max.min(usize::try_from(at.left).unwrap_or(usize::MAX)))
                .saturating_sub(documents.len());
            if wanted == 0 {
                return Ok(documents);
            }
            let asked = u32::try_from(wanted).ok().filter(|_| is_any && at.to_skip == 0);
            let page =
                self.collections.in_order_of_insertion(request, collection, at.position, asked).await?;
            if !page.has_position {
                let words = "CollectionScan died due to position in capped collection being deleted";
                return Err(Failure::new(POSITION_LOST, words));
            }
            at.lsn = page.lsn;
            for item in &page.items {
                let document = document_of(item.body().as_bytes())?;
                let shown = match self.find.parsed.matched(&document, &mut self.find.env)? {
                    None => None,
                    Some(_) if at.to_skip > 0 => {
                        at.to_skip -= 1;
                        None
                    }
                    Some(matched) => Some(self.shown(Value::document(document), matched)?),
                };
                if let Some(shown) = shown {
                    let size = shown.size();
                    if !documents.is_empty() && size_bytes + size > room.size_bytes_max {
                        return Ok(documents);
                    }
                    size_bytes += size;
                    documents.push(shown);
                    at.left -= 1;
                }
                at.position.after = Some(item.envelope().ordinal);
                if documents.len() >= room.documents_max || at.left == 0 {
                    return Ok(documents);
                }
            }
            at.position.after = page.last;
            at.is_at_end = page.is_last;
            if page.is_last {
                return Ok(documents);
            }
        }
    }

    fn shown(&mut self, document: Value, matched: Matched) -> Result<Value> {
        Ok(match &self.find.projection {
            Some(projection) => projection.apply(&document, matched, &mut self.find.env)?,
            None => document,
        })
    }

    async fn wait(&self, collection: &Collection, lsn: u64, until: Instant) -> Result<()> {
        let time_max = WAIT_SLICE.min(until.saturating_duration_since(Instant::now()));
        let key = collection.shard_key().of_stored(&Document::new());
        let container = &collection.handle.entry;
        Ok(wait_in_order(self.collections.queries.items(), container, &key, lsn, time_max).await?)
    }
}
