//! Global secondary indexes as users define them: containers whose items are derived from another container's.

use serde::{Deserialize, Serialize};

/// Bytes of the query that defines an index.
pub const INDEX_DEFINITION_BYTES_MAX: usize = 4 * 1024;
/// Indexes of one source.
pub const INDEXES_OF_SOURCE_MAX: usize = 20;
/// Indexes of one source in the strict dialect.
pub const INDEXES_OF_SOURCE_MAX_STRICT: usize = 5;
/// Indexes between an index and the container whose clients write: an index of an index is the second.
pub const INDEX_CHAIN_MAX: usize = 4;

/// Definition of a global secondary index, a member of its container's definition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SecondaryIndexDefinition {
    /// Name of the source, a container of the same database.
    pub source_collection_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_collection_rid: Option<String>,
    /// A query over the source, whose rows are the items of the index.
    pub definition: String,
    #[serde(default, skip_serializing_if = "IndexSettings::is_default")]
    pub shardlake: IndexSettings,
}

/// Settings beyond the reference's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct IndexSettings {
    #[serde(default)]
    pub reads: IndexReads,
    #[serde(default)]
    pub expired: ExpiredRows,
    /// Whether the id of a row is the text of its partition key.
    #[serde(default)]
    pub unique: bool,
    #[serde(default)]
    pub charge: IndexCharge,
    /// Container of the database that lists the rows that cannot be written.
    #[serde(default = "default_dead_letters")]
    pub dead_letters: String,
}

fn default_dead_letters() -> String {
    "copyErrors".into()
}

impl Default for IndexSettings {
    fn default() -> Self {
        IndexSettings {
            reads: IndexReads::default(),
            expired: ExpiredRows::default(),
            unique: false,
            charge: IndexCharge::default(),
            dead_letters: default_dead_letters(),
        }
    }
}

impl IndexSettings {
    pub fn is_default(&self) -> bool {
        *self == IndexSettings::default()
    }
}

/// Consistency of reads of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum IndexReads {
    #[default]
    Eventual,
    /// Reads wait until the index has all earlier writes of the source.
    CaughtUp,
}

/// Fate of the rows of an item whose time to live has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ExpiredRows {
    #[default]
    Delete,
    Keep,
}

/// Budget that pays for the upkeep of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum IndexCharge {
    /// The source for reading its changes, the index for writing its rows.
    #[default]
    Containers,
    None,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_are_read_as_they_are_written() {
        let text = r#"{"sourceCollectionId":"customer","definition":"SELECT c.email FROM c"}"#;
        let read: SecondaryIndexDefinition = serde_json::from_str(text).expect("valid");
        assert!(read.shardlake.is_default());
        assert_eq!(serde_json::to_string(&read).expect("plain data"), text);
        let text = r#"{"sourceCollectionId":"a","sourceCollectionRid":"b","definition":"c","shardlake":{"reads":"caughtUp","expired":"keep","unique":true,"charge":"none","deadLetters":"d"}}"#;
        let read: SecondaryIndexDefinition = serde_json::from_str(text).expect("valid");
        assert_eq!((read.shardlake.expired, read.shardlake.unique), (ExpiredRows::Keep, true));
        assert_eq!(serde_json::to_string(&read).expect("plain data"), text);
    }

    #[test]
    fn unknown_members_are_refused() {
        for text in [
            r#"{"sourceCollectionId":"a","definition":"b","other":1}"#,
            r#"{"sourceCollectionId":"a","definition":"b","shardlake":{"other":1}}"#,
            r#"{"sourceCollectionId":"a"}"#,
        ] {
            assert!(serde_json::from_str::<SecondaryIndexDefinition>(text).is_err(), "{text}");
        }
    }
}
