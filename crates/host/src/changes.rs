//! Changes on their way from the owner to the node that asked for them.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use shardlake_model::{PartitionKey, Result};
use shardlake_partition::{Change, ChangeKind, ChangeSink, ContainerSchema, JsonChanges};
use shardlake_routing::Epk;

use crate::travel::{ItemForm, item_form, item_of};

/// A change as it travels.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum SentChange {
    Latest(ItemForm),
    Version(SentVersion),
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SentVersion {
    kind: ChangeKind,
    lsn: u64,
    timestamp_ms: u64,
    current: Option<ItemForm>,
    previous: Option<ItemForm>,
    previous_lsn: Option<u64>,
    id: String,
    epk: Epk,
    partition_key: PartitionKey,
}

/// The changes of a page. A page is cut by the size of its changes as JSON, also where their reader has another form.
#[derive(Debug, Default)]
pub(crate) struct SentChanges {
    pub changes: Vec<SentChange>,
    /// Sizes up to and with each change.
    sizes: Vec<usize>,
}

impl ChangeSink for SentChanges {
    fn push(&mut self, change: &Change<'_>) {
        let mut json = JsonChanges::default();
        json.push(change);
        self.sizes.push(self.size_bytes() + json.size_bytes() + ",".len());
        self.changes.push(match change {
            Change::Latest(item) => SentChange::Latest(item_form(item)),
            &Change::Version {
                kind,
                lsn,
                timestamp_ms,
                current,
                previous,
                previous_lsn,
                id,
                epk,
                partition_key,
                ..
            } => SentChange::Version(SentVersion {
                kind,
                lsn,
                timestamp_ms,
                current: current.map(item_form),
                previous: previous.map(item_form),
                previous_lsn,
                id: id.to_owned(),
                epk: epk.clone(),
                partition_key: partition_key.clone(),
            }),
        });
    }

    fn size_bytes(&self) -> usize {
        self.sizes.last().copied().unwrap_or_default()
    }

    fn cut(&mut self, size_bytes: usize) {
        let kept = self.sizes.partition_point(|size| *size <= size_bytes);
        self.sizes.truncate(kept);
        self.changes.truncate(kept);
    }
}

impl SentChange {
    /// Hands it to the sink of the reader.
    pub fn push_to(self, schema: &Arc<ContainerSchema>, out: &mut dyn ChangeSink) -> Result<()> {
        match self {
            SentChange::Latest(form) => out.push(&Change::Latest(&item_of(form, schema)?)),
            SentChange::Version(version) => {
                let item = |form: Option<ItemForm>| form.map(|form| item_of(form, schema)).transpose();
                let (current, previous) = (item(version.current)?, item(version.previous)?);
                out.push(&Change::Version {
                    kind: version.kind,
                    lsn: version.lsn,
                    timestamp_ms: version.timestamp_ms,
                    current: current.as_ref(),
                    previous: previous.as_ref(),
                    previous_lsn: version.previous_lsn,
                    id: &version.id,
                    epk: &version.epk,
                    partition_key: &version.partition_key,
                    key_paths: &schema.key_paths,
                });
            }
        }
        Ok(())
    }
}
