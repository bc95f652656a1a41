//! An index at work: the surroundings of one step, and applying rows.

use std::sync::Arc;

use bytes::Bytes;
use shardlake_catalog::SecondaryIndexRecord;
use shardlake_change_log::LogFollower;
use shardlake_document::partition_key_text;
use shardlake_model::{Error, ErrorKind, IndexCharge, PartitionKey, Result};
use shardlake_partition::{ContainerSchema, CopyRow, LogicalKey};
use shardlake_router::{ContainerEntry, IndexRows, Serving};

use crate::entries::IndexEntry;
use crate::plan::Generation;
use crate::send::{self, Sent, Target};
use crate::status::{ROW_NAME, Refusal};

/// One step's surroundings.
pub(crate) struct IndexAtWork<'a> {
    pub serving: &'a Serving,
    pub entry: &'a IndexEntry,
    pub record: &'a SecondaryIndexRecord,
    pub source: Arc<ContainerEntry>,
    pub rows: &'a IndexRows,
}

impl IndexAtWork<'_> {
    /// Whether the step is to end at the next place where it may: the record has changed, or the server
    /// stops.
    pub fn is_interrupted(&self) -> bool {
        let live = self.serving.catalog().load();
        let now = live.definitions.secondary_indexes.get(&self.entry.index);
        let is_same = now.is_some_and(|now| {
            now.number == self.record.number
                && now.generation == self.record.generation
                && now.state.is_paused == self.record.state.is_paused
        });
        !is_same || self.serving.is_closing()
    }

    /// Ends a comparison where the index is another one than at its beginning.
    pub fn check_same(&self) -> Result<()> {
        match self.is_interrupted() {
            false => Ok(()),
            true => Err(Error::new(
                ErrorKind::Conflict,
                "the index was paused, rebuilt or deleted, or the server stops: verify it again later",
            )),
        }
    }
}

/// A chunk of a build that is begun again when the index continues.
pub(crate) fn interrupted() -> Error {
    Error::new(ErrorKind::Unavailable, "the build of the index was interrupted: it continues later")
}

impl Generation for IndexAtWork<'_> {
    fn generation(&self) -> u16 {
        self.record.generation
    }

    fn logical(&self, key: PartitionKey) -> LogicalKey {
        self.rows.logical(key)
    }
}

impl IndexAtWork<'_> {
    /// The name of a row among refusals.
    pub(crate) fn row_name(id: &str) -> Bytes {
        Bytes::from([ROW_NAME, id.as_bytes()].concat())
    }

    /// Applies rows. A row that cannot be written takes an older one with its name along: the index lacks
    /// it then, and shows no former version of it.
    pub(crate) async fn apply(&self, rows: Vec<CopyRow>) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let copy = self.record.number;
        let settings = &self.record.settings;
        let target = Target {
            index: self.entry.index,
            copy,
            is_unique: settings.unique,
            is_free: settings.charge == IndexCharge::None,
        };
        let has_refusals = self.entry.status.live().refused() > 0;
        let names =
            rows.iter().filter(|_| has_refusals).map(|row| Self::row_name(&row.id)).collect::<Vec<_>>();
        let mut sent = self.send(target, rows).await?;
        let refused = std::mem::take(&mut sent.refused);
        if !refused.is_empty() {
            let ends = refused.iter().map(|(row, _)| CopyRow { body: None, ..row.clone() }).collect();
            self.send(target, ends).await?;
        }
        let mut live = self.entry.status.live();
        names.into_iter().for_each(|name| live.note_item(name, None));
        for (row, reason) in refused {
            tracing::warn!(index = copy, row = row.id, reason, "a row of an index cannot be written");
            let (name, key) = (Self::row_name(&row.id), partition_key_text(&row.key.partition_key));
            live.note_item(name, Some(Refusal { key, id: row.id, reason }));
        }
        Ok(())
    }

    async fn send(&self, target: Target, rows: Vec<CopyRow>) -> Result<Sent> {
        let mut sent = Sent::default();
        let outcome = send::apply(self.serving, target, rows, &mut sent).await;
        let mut live = self.entry.status.live();
        live.written += sent.written;
        live.deleted += sent.deleted;
        live.duplicates = match &outcome {
            // Whether the batch took place is not known: duplicates are counted anew. A batch that is over the budget did not.
            Err(error) if error.kind() != ErrorKind::TooManyRequests => None,
            _ => live.duplicates.map(|known| known.saturating_add_signed(sent.duplicates)),
        };
        outcome.map(|()| sent)
    }

    /// Notes the follower's position, and wakes the reads that wait for it.
    pub(crate) fn note_position(&self, follower: &LogFollower) {
        let position = follower.position();
        {
            let mut live = self.entry.status.live();
            if live.followed.as_deref() == Some(position) {
                return;
            }
            live.checkpoint.source = position.records();
            live.followed = Some(Arc::new(position.clone()));
            live.steps += 1;
        }
        self.entry.moved.notify_waiters();
    }

    pub(crate) fn schema(&self) -> &Arc<ContainerSchema> {
        &self.source.shape
    }
}
