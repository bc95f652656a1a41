//! Stored items as rows of a table.

use bytes::Bytes;
use shardlake_analytical_table::error::TableError;
use shardlake_analytical_table::rows::Row;
use shardlake_analytical_table::table::Table;
use shardlake_document::Record;
use shardlake_model::{ContainerRid, Error, ErrorKind, ItemRid};

/// Rows, or bytes of records, that become columns at once.
const CHUNK_ROWS: usize = 8192;
const CHUNK_BYTES: usize = 16 * 1024 * 1024;

/// Records that wait to become rows.
pub struct Rows {
    container: ContainerRid,
    records: Vec<Bytes>,
    bytes: usize,
    /// Rows so far.
    pub count: u64,
}

/// Why a table does not take rows.
#[derive(Debug)]
pub enum RowsError {
    Item(Error),
    Table(TableError),
}

impl Rows {
    pub fn of(container: ContainerRid) -> Rows {
        Rows { container, records: Vec::new(), bytes: 0, count: 0 }
    }

    /// Takes a record, and hands a full chunk to the table's open round.
    pub fn push(&mut self, table: &mut Table, record: Bytes) -> Result<(), RowsError> {
        self.bytes += record.len();
        self.records.push(record);
        match self.records.len() >= CHUNK_ROWS || self.bytes >= CHUNK_BYTES {
            true => self.flush(table),
            false => Ok(()),
        }
    }

    pub fn flush(&mut self, table: &mut Table) -> Result<(), RowsError> {
        let mut records = Vec::with_capacity(self.records.len());
        for bytes in &self.records {
            let record = Record::decode(bytes).map_err(|error| {
                RowsError::Item(Error::new(ErrorKind::Corrupt, format!("a stored item is damaged: {error}")))
            })?;
            let rid = ItemRid { container: self.container, ordinal: record.envelope.ordinal }.text();
            records.push((rid, format!("\"{}\"", record.envelope.etag), record));
        }
        let rows: Vec<Row<'_>> = records
            .iter()
            .map(|(rid, etag, record)| Row {
                rid,
                etag,
                timestamp_seconds: record.envelope.timestamp_seconds(),
                lsn: record.envelope.lsn,
                ordinal: record.envelope.ordinal,
                body: record.body,
            })
            .collect();
        if !rows.is_empty() {
            table.append(&rows).map_err(RowsError::Table)?;
        }
        self.count += rows.len() as u64;
        drop(records);
        self.records.clear();
        self.bytes = 0;
        Ok(())
    }
}

impl From<RowsError> for Error {
    fn from(error: RowsError) -> Error {
        match error {
            RowsError::Item(error) => error,
            RowsError::Table(error) => Error::internal(error.to_string()),
        }
    }
}
