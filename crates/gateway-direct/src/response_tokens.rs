//! Which token stands for each answer header. The types are binding: clients read a value by the type that they expect for its id.

/// How the text of a header becomes a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    SmallString,
    String,
    ULong,
    LongLong,
    Double,
    Flag,
}

pub(crate) const LSN: u16 = 0x13;
pub(crate) const REQUEST_CHARGE: u16 = 0x15;
pub(crate) const QUORUM_ACKED_LSN: u16 = 0x1a;
pub(crate) const REQUEST_VALIDATION_FAILURE: u16 = 0x1b;
pub(crate) const SUBSTATUS: u16 = 0x1c;
pub(crate) const CURRENT_WRITE_QUORUM: u16 = 0x1e;
pub(crate) const CURRENT_REPLICA_SET_SIZE: u16 = 0x1f;
pub(crate) const GLOBAL_COMMITTED_LSN: u16 = 0x29;
pub(crate) const NUMBER_OF_READ_REGIONS: u16 = 0x30;
pub(crate) const LOCAL_LSN: u16 = 0x3a;
pub(crate) const QUORUM_ACKED_LOCAL_LSN: u16 = 0x3b;

/// The token of a header; `None` for headers without one.
pub(crate) fn token_of(header: &str) -> Option<(u16, Form)> {
    Some(match header {
        "x-ms-last-state-change-utc" => (0x02, Form::SmallString),
        "x-ms-continuation" => (0x03, Form::String),
        "etag" => (0x04, Form::String),
        "x-ms-retry-after-ms" => (0x0c, Form::ULong),
        "x-ms-resource-quota" => (0x0e, Form::String),
        "x-ms-resource-usage" => (0x0f, Form::String),
        "x-ms-schemaversion" => (0x10, Form::SmallString),
        "lsn" => (LSN, Form::LongLong),
        "x-ms-item-count" => (0x14, Form::ULong),
        "x-ms-request-charge" => (REQUEST_CHARGE, Form::Double),
        "x-ms-alt-content-path" => (0x17, Form::String),
        "x-ms-content-path" => (0x18, Form::String),
        "x-ms-quorum-acked-lsn" => (QUORUM_ACKED_LSN, Form::LongLong),
        "x-ms-substatus" => (SUBSTATUS, Form::ULong),
        "x-ms-documentdb-collection-index-transformation-progress" => (0x1d, Form::ULong),
        "x-ms-current-write-quorum" => (CURRENT_WRITE_QUORUM, Form::ULong),
        "x-ms-current-replica-set-size" => (CURRENT_REPLICA_SET_SIZE, Form::ULong),
        "x-ms-documentdb-partitionkeyrangeid" => (0x21, Form::String),
        "x-ms-documentdb-script-log-results" => (0x25, Form::String),
        "x-ms-xp-role" => (0x26, Form::ULong),
        "x-ms-documentdb-query-metrics" => (0x28, Form::String),
        "x-ms-global-committed-lsn" => (GLOBAL_COMMITTED_LSN, Form::LongLong),
        "x-ms-number-of-read-regions" => (NUMBER_OF_READ_REGIONS, Form::ULong),
        "x-ms-offer-replace-pending" => (0x31, Form::Flag),
        "x-ms-item-lsn" => (0x32, Form::LongLong),
        "x-ms-share-throughput" => (0x36, Form::Flag),
        "x-ms-cosmos-llsn" => (LOCAL_LSN, Form::LongLong),
        "x-ms-cosmos-quorum-acked-llsn" => (QUORUM_ACKED_LOCAL_LSN, Form::LongLong),
        "x-ms-cosmos-item-llsn" => (0x3c, Form::LongLong),
        "x-ms-session-token" => (0x3e, Form::String),
        "x-ms-cosmos-min-throughput" => (0x42, Form::ULong),
        "x-ms-cosmos-index-utilization" => (0x44, Form::String),
        "x-ms-request-duration-ms" => (0x51, Form::Double),
        "x-ms-cosmos-query-advice" => (0x75, Form::String),
        _ => return None,
    })
}
