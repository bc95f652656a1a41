//! Which request header each token of a frame stands for, and how its value is written there.
//!
//! A token that is not in these tables is not looked at. Some of them are hints, others speak for callers inside of the service, whose
//! word does not count here: keys of the account, the signature of a gateway, parameters of a restore.

use http::HeaderName;
use http::header::{AUTHORIZATION, IF_MODIFIED_SINCE};

/// How a value becomes the text of a header.
pub(crate) enum Form {
    /// As it is.
    Text,
    /// A JSON text that may have characters which no header has: they are escaped.
    Json,
    Number,
    /// 0xffffffff is -1.
    PageSize,
    Flag,
    Guid,
    /// A number that stands for a word.
    Word(&'static [(u8, &'static str)]),
    /// A bit for each word.
    Words(&'static [(u8, &'static str)]),
    /// A hash: its digits, or its bytes where the bounds of a feed are named so.
    Hash,
}

pub(crate) struct Row {
    pub id: u16,
    pub header: HeaderName,
    pub form: Form,
}

const fn row(id: u16, header: &'static str, form: Form) -> Row {
    Row { id, header: HeaderName::from_static(header), form }
}

pub(crate) const PAGE_SIZE: u16 = 0x04;
pub(crate) const MATCH: u16 = 0x08;
pub(crate) const CONSISTENCY_LEVEL: u16 = 0x10;
pub(crate) const REPLICA_PATH: u16 = 0x13;
pub(crate) const CONTAINER_RID: u16 = 0x35;
pub(crate) const READ_FEED_KEY_TYPE: u16 = 0x64;
pub(crate) const READ_CONSISTENCY_STRATEGY: u16 = 0xfe;

/// Bounds of a feed are the bytes of hashes; otherwise their digits.
pub(crate) const KEY_TYPE_BYTES: u8 = 2;

const FORMATS: &[(u8, &str)] = &[(1, "JsonText"), (2, "CosmosBinary"), (4, "HybridRow")];

/// In ascending order of ids, which is how they are found.
pub(crate) static ROWS: [Row; 47] = [
    Row { id: 0x01, header: AUTHORIZATION, form: Form::Text },
    row(0x03, "x-ms-date", Form::Text),
    row(PAGE_SIZE, "x-ms-max-item-count", Form::PageSize),
    row(0x05, "x-ms-session-token", Form::Text),
    row(0x06, "x-ms-continuation", Form::Text),
    row(0x07, "x-ms-indexing-directive", Form::Word(&[(0, "Default"), (1, "Include"), (2, "Exclude")])),
    row(0x09, "x-ms-documentdb-pre-trigger-include", Form::Text),
    row(0x0a, "x-ms-documentdb-post-trigger-include", Form::Text),
    row(
        CONSISTENCY_LEVEL,
        "x-ms-consistency-level",
        Form::Word(&[
            (0, "Strong"),
            (1, "BoundedStaleness"),
            (2, "Session"),
            (3, "Eventual"),
            (4, "ConsistentPrefix"),
        ]),
    ),
    row(0x14, "x-ms-documentdb-expiry-seconds", Form::Number),
    row(0x1e, "x-ms-documentdb-query-enable-scan", Form::Flag),
    row(0x1f, "x-ms-documentdb-query-emit-traces", Form::Flag),
    row(0x2b, "x-ms-documentdb-partitionkey", Form::Json),
    row(0x2c, "x-ms-documentdb-partitionkeyrangeid", Form::Text),
    row(0x3e, "x-ms-documentdb-script-enable-logging", Form::Flag),
    row(0x3f, "a-im", Form::Text),
    row(0x40, "x-ms-documentdb-populatequotainfo", Form::Flag),
    row(0x42, "x-ms-documentdb-populatequerymetrics", Form::Flag),
    row(0x43, "x-ms-documentdb-responsecontinuationtokenlimitinkb", Form::Number),
    row(0x44, "x-ms-documentdb-populatepartitionstatistics", Form::Flag),
    Row { id: 0x47, header: IF_MODIFIED_SINCE, form: Form::Text },
    row(0x49, "x-ms-remaining-time-in-ms-on-client", Form::Number),
    row(0x4a, "x-ms-client-retry-attempt-count", Form::Number),
    row(0x4b, "x-ms-target-lsn", Form::Number),
    row(0x4c, "x-ms-target-global-committed-lsn", Form::Number),
    row(0x57, "x-ms-exclude-system-properties", Form::Flag),
    row(0x62, "x-ms-start-epk", Form::Hash),
    row(0x63, "x-ms-end-epk", Form::Hash),
    row(
        READ_FEED_KEY_TYPE,
        "x-ms-read-key-type",
        Form::Word(&[
            (1, "ResourceId"),
            (KEY_TYPE_BYTES, "EffectivePartitionKey"),
            (3, "EffectivePartitionKeyRange"),
        ]),
    ),
    row(
        0x65,
        "x-ms-documentdb-content-serialization-format",
        Form::Word(&[(0, "JsonText"), (1, "CosmosBinary"), (2, "HybridRow")]),
    ),
    row(0x71, "x-ms-documentdb-populateresourcecount", Form::Flag),
    row(0x73, "x-ms-cosmos-batch-atomic", Form::Flag),
    row(0x74, "x-ms-cosmos-batch-continue-on-error", Form::Flag),
    row(0x75, "x-ms-cosmos-batch-ordered", Form::Flag),
    row(0x79, "x-ms-cosmos-max-polling-interval", Form::Number),
    row(0x82, "prefer", Form::Word(&[(0, "return=representation"), (1, "return=minimal")])),
    row(0x9d, "x-ms-cosmos-intended-collection-rid", Form::Text),
    row(0xa2, "x-ms-cosmos-sdk-supportedcapabilities", Form::Number),
    row(0xa9, "x-ms-cosmos-populateindexmetrics", Form::Flag),
    row(0xb0, "x-ms-cosmos-correlated-activityid", Form::Guid),
    row(0xb2, "x-ms-cosmos-changefeed-wire-format-version", Form::Text),
    row(0xbf, "x-ms-cosmos-priority-level", Form::Word(&[(1, "High"), (2, "Low")])),
    row(0xc2, "x-ms-cosmos-populateindexmetrics-v2", Form::Flag),
    row(0xc4, "x-ms-cosmos-supported-serialization-formats", Form::Words(FORMATS)),
    row(0xc8, "x-ms-cosmos-query-optimisticdirectexecute", Form::Flag),
    row(0xda, "x-ms-cosmos-populatequeryadvice", Form::Flag),
    row(0xdb, "x-ms-cosmos-throughput-bucket", Form::Number),
];

pub(crate) fn row_of(id: u16) -> Option<&'static Row> {
    let place = ROWS.binary_search_by_key(&id, |row| row.id).ok()?;
    Some(&ROWS[place])
}

/// Tokens that would change the outcome, are not supported, and are refused by name.
pub(crate) const REFUSED: [(u16, &str); 17] = [
    (0x0e, "PreTriggerExclude: triggers run only where they are named"),
    (0x0f, "PostTriggerExclude: triggers run only where they are named"),
    (0x52, "IsReadOnlyScript: a stored procedure that must not write"),
    (0x58, "BinaryId: an item by its binary id"),
    (0x59, "TimeToLiveInSeconds: set the item's 'ttl' property"),
    (0x5a, "EffectivePartitionKey: an item by the hash of its key"),
    (0x5f, "StartId: a feed between ids"),
    (0x60, "EndId: a feed between ids"),
    (0x61, "FanoutOperationState: a part of an operation over all partitions"),
    (0x88, "SystemDocumentType: documents of the service itself"),
    (0x8b, "TransactionId: a transaction of several requests"),
    (0x8c, "TransactionFirstRequest: a transaction of several requests"),
    (0x8d, "TransactionCommit: a transaction of several requests"),
    (0x9a, "ChangeFeedStartFullFidelityIfNoneMatch: a second start of a change feed"),
    (0xd7, "CosmosGatewayTransactionId: a transaction of several requests"),
    (0xf8, "IdempotencyToken: a write that is done once however often it is sent"),
    (0xfb, "DistributedTransactionId: a distributed transaction"),
];

/// A feed in the other direction.
pub(crate) const ENUMERATION_DIRECTION: u16 = 0x5e;
pub(crate) const DIRECTION_FORWARD: i64 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_found_by_their_ids() {
        assert!(ROWS.is_sorted_by(|one, next| one.id < next.id));
        assert!(REFUSED.is_sorted_by(|one, next| one.0 < next.0));
        for row in &ROWS {
            assert_eq!(row_of(row.id).map(|found| &found.header), Some(&row.header));
            assert!(REFUSED.iter().all(|(id, _)| *id != row.id), "{:#x}", row.id);
        }
        assert!(row_of(0x22).is_none(), "a key of the account says nothing");
    }
}
