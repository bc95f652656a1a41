//! The next change of all containers that a stream follows.
//!
//! A change is reported once nothing earlier can arrive from another container or partition. If a stream reads one
//! partition, its log is the order. Otherwise every part that has nothing ready passes the time of the change first
//! (`version_reader.rs`).

use shardlake_document::ItemName;
use shardlake_items::{ItemRead, ReadCommand};
use shardlake_model::{ErrorKind, PartitionKey, Preconditions};
use shardlake_mql::Value;
use shardlake_mql::write::document_of;

use super::events::event_of;
use super::followed::history_lost;
use super::token::TokenKind;
use super::{ChangeStream, Told};
use crate::collections::{Collection, Collections};
use crate::failure::Result;
use crate::request::Request;

impl ChangeStream {
    /// The next event that may be reported.
    pub(super) async fn advance(&mut self, request: &Request) -> Result<Option<Told>> {
        let mut has_read = false;
        loop {
            if let Some(told) = self.pending.pop_front() {
                return Ok(Some(told));
            }
            if self.kind == TokenKind::Nothing {
                return Ok(None);
            }
            self.follow_catalog().await?;
            if self.tell_drop().await? {
                continue;
            }
            let Some(place) = self.next_place() else {
                if has_read {
                    return Ok(None);
                }
                self.read(request).await?;
                has_read = true;
                continue;
            };
            let is_rename = self.is_rename_next(place);
            if is_rename {
                self.tell_rename(place);
            } else if let Some(told) = self.take(request, place).await? {
                return Ok(Some(told));
            }
            has_read = false;
        }
    }

    /// The container with the next change, if that change may be reported now.
    fn next_place(&self) -> Option<usize> {
        // A commit that was begun is reported to its end first.
        if let Some(begun) = self.followed.iter().position(|followed| followed.reader.is_inside()) {
            return self.followed[begun].reader.next_ms().map(|_| begun);
        }
        let time = |place: &usize| self.followed[*place].next_ms();
        // Writes in the millisecond of a rename came after the rename.
        let order = |place: &usize| (time(place), !self.is_rename_next(*place));
        let place = (0..self.followed.len()).filter(|place| time(place).is_some()).min_by_key(order)?;
        let time_ms = time(&place)?;
        let has_passed = !self.is_ordered()
            || self.followed.iter().all(|followed| followed.is_gone || followed.reader.has_passed(time_ms));
        has_passed.then_some(place)
    }

    /// Whether several parts, or a part and a rename, have to be merged by time.
    fn is_ordered(&self) -> bool {
        let parts: usize = self.followed.iter().map(|followed| followed.reader.parts()).sum();
        parts > 1 || self.followed.iter().any(|followed| !followed.renames.is_empty())
    }

    fn is_rename_next(&self, place: usize) -> bool {
        let followed = &self.followed[place];
        let rename = followed.renames.front().map(|rename| rename.at_ms);
        let change = followed.reader.next_ms();
        !followed.reader.is_inside() && rename.is_some_and(|at| change.is_none_or(|change| at <= change))
    }

    async fn read(&mut self, request: &Request) -> Result<()> {
        let is_ordered = self.is_ordered();
        for followed in self.followed.iter_mut().filter(|followed| !followed.is_gone) {
            let read = followed.reader.read(&request.ctx, is_ordered).await;
            request.charge(followed.reader.take_charge_centi());
            match read {
                Ok(()) => {}
                Err(error) if matches!(error.kind(), ErrorKind::OwnerNotFound | ErrorKind::NotFound) => {
                    followed.is_gone = true;
                }
                Err(error) if error.kind() == ErrorKind::BadRequest => {
                    let failure = history_lost(error.message());
                    self.broken = Some(failure.clone());
                    return Err(failure);
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Takes the next change of a container; `None` if it is no event. A failure leaves the change in the reader.
    async fn take(&mut self, request: &Request, place: usize) -> Result<Option<Told>> {
        let followed = &mut self.followed[place];
        let Some(change) = followed.reader.peek().cloned() else { return Ok(None) };
        let event = event_of(&change, (&followed.collection, &followed.namespace), &self.options)?;
        let mut told = None;
        if let Some(mut event) = event.filter(|_| change.timestamp_ms >= followed.since_ms) {
            if let Some((key, id)) = event.lookup {
                let document = self.collections.looked_up(request, &followed.collection, key, &id).await?;
                event.document.push("fullDocument", document);
            }
            let (time_ms, kind) = (change.timestamp_ms, TokenKind::Events);
            told = Some(Told { event: event.document, time_ms, kind, ends_told: None });
        }
        followed.reader.take();
        Ok(told)
    }
}

impl Collections {
    /// A document as it is now; null if it does not exist.
    async fn looked_up(
        &self,
        request: &Request,
        collection: &Collection,
        key: PartitionKey,
        id: &str,
    ) -> Result<Value> {
        let read = ItemRead { item: ItemName::from(id), preconditions: Preconditions::default() };
        let command = ReadCommand { key: Some(key), read };
        match self.queries.items().read(&request.ctx, &collection.handle, command).await {
            Ok(reply) => {
                request.charge(reply.meta.charge_centi);
                let document = reply.item.map(|item| document_of(item.body().as_bytes())).transpose()?;
                Ok(document.map_or(Value::Null, Value::document))
            }
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::NotFound | ErrorKind::OwnerNotFound | ErrorKind::StaleContainer
                ) =>
            {
                Ok(Value::Null)
            }
            Err(error) => Err(error.into()),
        }
    }
}
