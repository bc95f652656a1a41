//! Rows of groups, for the index.

use bytes::Bytes;
use shardlake_document::{Value, partition_key_text};
use shardlake_model::Result;
use shardlake_partition::{CopyRow, LogicalKey, RowStamp};
use shardlake_sql::GroupState;

use crate::at_work::IndexAtWork;
use crate::status::Refusal;

/// Rows of groups at one LSN, to be applied together.
pub(super) struct GroupRows<'a> {
    at: &'a IndexAtWork<'a>,
    lsn: u64,
    rows: Vec<CopyRow>,
    refused: Vec<(Bytes, Refusal)>,
}

impl<'a> GroupRows<'a> {
    pub fn new(at: &'a IndexAtWork<'a>, lsn: u64) -> GroupRows<'a> {
        GroupRows { at, lsn, rows: Vec::new(), refused: Vec::new() }
    }

    /// A group's next row. Without rows of items the stored one ends; so it does if the next one cannot be an
    /// item.
    pub fn add(
        &mut self,
        id: String,
        place: LogicalKey,
        source: &LogicalKey,
        keys: &[Value],
        state: &GroupState,
    ) {
        let generation = self.at.record.generation;
        let stamp = RowStamp { lsn: self.lsn, source: RowStamp::source_of(source), generation, number: 0 };
        let row = match state.is_empty() {
            true => Ok(None),
            false => self.at.rows.derivation().group_row(&id, keys, state).map(Some),
        };
        let body = row.unwrap_or_else(|error| {
            let key = partition_key_text(&place.partition_key);
            let refusal = Refusal { key, id: id.clone(), reason: error.to_string() };
            self.refused.push((IndexAtWork::row_name(&id), refusal));
            None
        });
        let body = body.map(|body| body.as_bytes().to_vec());
        self.rows.push(CopyRow { key: place, id, stamp, body });
    }

    pub fn len(&self) -> usize {
        self.rows.len()
    }

    pub async fn apply(&mut self) -> Result<()> {
        self.at.apply(std::mem::take(&mut self.rows)).await?;
        for (name, refusal) in self.refused.drain(..) {
            self.at.entry.status.live().note_item(name, Some(refusal));
        }
        Ok(())
    }
}
