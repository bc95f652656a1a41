//! One version of an item, as a table takes it.

use shardlake_document::RawDocument;

#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    pub rid: &'a str,
    pub etag: &'a str,
    pub timestamp_seconds: u64,
    pub lsn: u64,
    /// The item's number in its container, for key files.
    pub ordinal: u64,
    pub body: RawDocument<'a>,
}
