//! The containers that a stream follows: their choice, renames and ends.

use std::collections::VecDeque;
use std::sync::Arc;

use shardlake_items::{VersionPosition, VersionReader, VersionStart};
use shardlake_model::{ContainerRid, ErrorKind};
use shardlake_router::{ContainerEntry, ContainerHandle};
use shardlake_stdx::Timestamp;

use super::events::{catalog_event, namespace_document};
use super::token::{TokenContainer, TokenKind};
use super::{CHANGE_STREAM_FATAL, ChangeStream, HISTORY_LOST, Told, Watched};
use crate::collections::{Collection, Collections, Namespace};
use crate::failure::{Failure, Result};
use crate::meta::Rename;

/// Databases of the system.
pub(super) const OWN_DATABASES: [&str; 3] = ["admin", "config", "local"];
const NOT_KEPT: i32 = 40573;

/// A container and its reader.
#[derive(Debug)]
pub(super) struct Followed {
    pub rid: ContainerRid,
    /// The name in the next events.
    pub namespace: Namespace,
    pub collection: Collection,
    pub reader: VersionReader,
    /// Changes before this time are left out.
    pub since_ms: u64,
    /// Renames to report, in the order of their times.
    pub renames: VecDeque<Rename>,
    /// Renames up to this time were reported, or were before the stream began.
    renamed_ms: u64,
    /// Renames up to this time were reported or are queued in `renames`.
    noted_ms: u64,
    pub is_gone: bool,
}

/// Where a stream begins with a container.
#[derive(Debug, Clone)]
pub(super) struct Start {
    reader: VersionStart,
    since_ms: u64,
    /// Renames of the container up to this time are not reported.
    renamed_ms: u64,
}

impl Start {
    /// Starts with the writes from now on.
    pub fn now() -> Start {
        Start { reader: VersionStart::Now, since_ms: 0, renamed_ms: u64::MAX }
    }

    /// Starts with the first change and the first rename.
    pub fn beginning() -> Start {
        Start { reader: VersionStart::Beginning, since_ms: 0, renamed_ms: 0 }
    }

    /// Starts with the writes at a time and later.
    pub fn at(time_ms: u64) -> Start {
        Start { reader: VersionStart::At(Timestamp(time_ms)), since_ms: time_ms, renamed_ms: time_ms }
    }

    /// Starts with the rename at a time and the writes at that time and later.
    fn at_rename(time_ms: u64) -> Start {
        Start { renamed_ms: time_ms.saturating_sub(1), ..Start::at(time_ms) }
    }

    /// Starts behind the reported changes.
    pub fn after(position: VersionPosition, renamed_ms: u64) -> Start {
        Start { reader: VersionStart::After(position), since_ms: 0, renamed_ms }
    }
}

impl Followed {
    /// The time of the next change or rename that was read.
    pub fn next_ms(&self) -> Option<u64> {
        let rename = self.renames.front().map(|rename| rename.at_ms);
        self.reader.next_ms().into_iter().chain(rename).min()
    }

    /// The position for a token.
    pub fn position(&self) -> TokenContainer {
        let Followed { rid, renamed_ms, .. } = *self;
        TokenContainer { rid, renamed_ms, position: self.reader.position() }
    }

    fn note_renames(&mut self) -> Result<()> {
        let meta = &self.collection.meta;
        if meta.forgotten_ms > self.noted_ms {
            let name = &self.namespace;
            return Err(history_lost(&format!("{name} was renamed more often than is remembered")));
        }
        let new = meta.renames.iter().filter(|rename| rename.at_ms > self.noted_ms);
        self.renames.extend(new.cloned());
        self.noted_ms = self.renames.back().map_or(self.noted_ms, |rename| rename.at_ms);
        debug_assert!(
            self.renames.iter().is_sorted_by_key(|rename| rename.at_ms),
            "renames are told in order"
        );
        debug_assert!(self.renamed_ms <= self.noted_ms, "what was told was noted");
        let told = self.renames.back().map_or(&*self.namespace.collection, |rename| &*rename.to);
        if *told == *self.collection.namespace.collection {
            return Ok(());
        }
        let words = format!(
            "the collection {} is called {} now, and when it got that name is not known: start a new stream",
            self.namespace, self.collection.namespace
        );
        Err(Failure::new(CHANGE_STREAM_FATAL, words))
    }
}

/// The failure of a stream whose history was deleted.
pub(super) fn history_lost(why: &str) -> Failure {
    let words = format!(
        "Resume of change stream was not possible, as the resume point may no longer be in the oplog: {why}"
    );
    Failure::new(HISTORY_LOST, words)
}

impl Collections {
    /// Follows a container under the name that it had where the stream begins.
    pub(super) async fn followed(&self, entry: Arc<ContainerEntry>, start: Start) -> Result<Followed> {
        let rid = entry.record.container.rid;
        let own = Namespace::of_container(&entry.database.id, &entry.record.container.definition.id);
        let handle = ContainerHandle { entry, by_rid: false };
        let now = self.queries.router().clock().now();
        let reader = VersionReader::open(self.queries.items(), &handle, start.reader, now).await;
        let reader = reader.map_err(|error| match error.kind() {
            ErrorKind::BadRequest => {
                Failure::new(NOT_KEPT, format!("change streams need kept versions on '{own}': collMod with changeStreamPreAndPostImages: {{enabled: true}} keeps them from then on"))
            }
            _ => error.into(),
        })?;
        let lost = || history_lost(&format!("{own} keeps what was written for so long only"));
        let reader = reader.ok_or_else(lost)?;
        let collection = self.of_handle(&own, handle)?;
        let meta = &collection.meta;
        // As of the last rename before the start, so that a rename from now on is behind it.
        let before = meta.renames.iter().rfind(|rename| rename.at_ms <= start.renamed_ms);
        let forgotten_ms = meta.forgotten_ms.min(start.renamed_ms);
        let renamed_ms = before.map_or(forgotten_ms, |rename| rename.at_ms);
        let first = meta.renames.iter().find(|rename| rename.at_ms > start.renamed_ms);
        let namespace = match first {
            Some(rename) => Namespace::new(&*own.database, &*rename.from),
            None => own,
        };
        let mut followed = Followed {
            rid,
            namespace,
            collection,
            reader,
            since_ms: start.since_ms,
            renames: VecDeque::new(),
            renamed_ms,
            noted_ms: renamed_ms,
            is_gone: false,
        };
        followed.note_renames()?;
        Ok(followed)
    }

    /// Since when a container has its name; `None` where it never had another one.
    pub(super) fn named_since(&self, entry: &Arc<ContainerEntry>) -> Result<Option<u64>> {
        let own = Namespace::of_container(&entry.database.id, &entry.record.container.definition.id);
        let handle = ContainerHandle { entry: entry.clone(), by_rid: false };
        let collection = self.of_handle(&own, handle)?;
        Ok(collection.meta.renames.last().map(|rename| rename.at_ms))
    }

    /// The watched containers that exist now.
    pub(super) fn watched_now(&self, watched: &Watched) -> Result<Vec<Arc<ContainerEntry>>> {
        let of_database = |database: &str| -> Result<Vec<Arc<ContainerEntry>>> {
            match self.resources.router().containers(database) {
                Ok(handles) => Ok(handles.into_iter().map(|handle| handle.entry).collect()),
                Err(error) if matches!(error.kind(), ErrorKind::OwnerNotFound | ErrorKind::NotFound) => {
                    Ok(Vec::new())
                }
                Err(error) => Err(error.into()),
            }
        };
        match watched {
            Watched::Collection(namespace) => Ok(self
                .collection(namespace)?
                .map(|collection| collection.handle.entry)
                .into_iter()
                .collect()),
            Watched::Database(database) => of_database(database),
            Watched::Everything => {
                let databases = self.resources.router().databases();
                let users = databases.iter().filter(|database| !OWN_DATABASES.contains(&&*database.id));
                let lists = users.map(|database| of_database(&database.id)).collect::<Result<Vec<_>>>()?;
                Ok(lists.into_iter().flatten().collect())
            }
        }
    }
}

impl ChangeStream {
    /// Applies changes of the catalog.
    pub(super) async fn follow_catalog(&mut self) -> Result<()> {
        if !self.catalog.has_changed().unwrap_or(false) {
            return Ok(());
        }
        // Marked as seen at the end: a cancelled call begins again. Changes made meanwhile stay unseen.
        let mut seen = self.catalog.clone();
        seen.borrow_and_update();
        for followed in self.followed.iter_mut().filter(|followed| !followed.is_gone) {
            let Ok(entry) = self.collections.queries.router().entry_of_rid(followed.rid) else {
                followed.is_gone = true;
                continue;
            };
            let own = Namespace::of_container(&entry.database.id, &entry.record.container.definition.id);
            followed.collection =
                self.collections.of_handle(&own, ContainerHandle { entry, by_rid: false })?;
            followed.note_renames()?;
        }
        let is_one = matches!(self.watched, Watched::Collection(_));
        match is_one && !self.followed.is_empty() {
            true => self.tell_ended()?,
            false => self.follow_new().await?,
        }
        self.catalog = seen;
        Ok(())
    }

    /// Follows watched containers that are new since the last look, from their first change. A collection that was
    /// renamed to the watched name is followed from its rename on.
    pub(super) async fn follow_new(&mut self) -> Result<()> {
        self.tell_ended()?;
        if self.is_over() {
            return Ok(());
        }
        for entry in self.collections.watched_now(&self.watched)? {
            let rid = entry.record.container.rid;
            if self.followed.iter().any(|followed| followed.rid == rid) {
                continue;
            }
            let start = match self.watched {
                Watched::Collection(_) => self.collections.named_since(&entry)?.map(Start::at_rename),
                Watched::Database(_) | Watched::Everything => None,
            };
            let start = start.unwrap_or_else(Start::beginning);
            self.followed.push(self.collections.followed(entry, start).await?);
        }
        Ok(())
    }

    /// Reports the end of a dropped container if all of its changes were reported; returns whether there was one.
    pub(super) async fn tell_drop(&mut self) -> Result<bool> {
        let is_over = |followed: &Followed| followed.is_gone && followed.next_ms().is_none();
        let Some(place) = self.followed.iter().position(is_over) else { return Ok(false) };
        if !self.followed[place].reader.is_read_to_its_end().await {
            let name = &self.followed[place].namespace;
            let failure = history_lost(&format!("{name} was dropped before its last changes were read"));
            self.broken = Some(failure.clone());
            return Err(failure);
        }
        let Followed { namespace, rid, .. } = self.followed.remove(place);
        let ends_told = self.version_of_end(rid);
        let time_ms = self.now_ms();
        let event = catalog_event("drop", time_ms, Some(&namespace));
        let database = &namespace.database;
        let is_last = self.followed.iter().all(|followed| followed.namespace.database != *database)
            && self.collections.resources.router().database(database).is_err();
        match &self.watched {
            Watched::Collection(_) => {
                self.pending.push_back(Told { event, time_ms, kind: TokenKind::Invalidate, ends_told });
                self.invalidate(time_ms);
            }
            watched => {
                let is_one = matches!(watched, Watched::Database(_));
                self.pending.push_back(Told { event, time_ms, kind: TokenKind::Events, ends_told: None });
                if is_last {
                    let event =
                        catalog_event("dropDatabase", time_ms, Some(&Namespace::new(&**database, "")));
                    let kind = if is_one { TokenKind::Invalidate } else { TokenKind::Events };
                    self.pending.push_back(Told { event, time_ms, kind, ends_told: None });
                    if is_one {
                        self.invalidate(time_ms);
                    }
                }
            }
        }
        Ok(true)
    }

    /// Reports a rename and continues under the new name; a stream on the collection ends with it.
    pub(super) fn tell_rename(&mut self, place: usize) {
        let followed = &mut self.followed[place];
        let Some(Rename { at_ms, to, .. }) = followed.renames.pop_front() else { return };
        let to = Namespace::new(&*followed.namespace.database, to);
        let mut event = catalog_event("rename", at_ms, Some(&followed.namespace));
        event.push("to", shardlake_mql::Value::document(namespace_document(&to)));
        followed.namespace = to;
        debug_assert!(followed.renamed_ms < at_ms, "a rename is told once");
        followed.renamed_ms = at_ms;
        let time_ms = at_ms;
        if matches!(self.watched, Watched::Collection(_)) {
            self.pending.push_back(Told { event, time_ms, kind: TokenKind::Invalidate, ends_told: None });
            self.invalidate(time_ms);
        } else {
            self.pending.push_back(Told { event, time_ms, kind: TokenKind::Events, ends_told: None });
        }
    }

    pub(super) fn invalidate(&mut self, time_ms: u64) {
        let event = catalog_event("invalidate", time_ms, None);
        self.pending.push_back(Told { event, time_ms, kind: TokenKind::Nothing, ends_told: None });
        self.followed.clear();
    }

    pub(super) fn now_ms(&self) -> u64 {
        self.collections.queries.router().clock().now().milliseconds().max(self.time_ms)
    }
}
