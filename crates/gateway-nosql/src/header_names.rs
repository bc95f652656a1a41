//! Names of response headers.

use http::HeaderName;

macro_rules! header_names {
    ($($constant:ident = $name:literal;)*) => { $(pub(crate) static $constant: HeaderName = HeaderName::from_static($name);)* };
}

header_names! {
    REQUEST_CHARGE = "x-ms-request-charge";
    ACTIVITY_ID = "x-ms-activity-id";
    SESSION_TOKEN = "x-ms-session-token";
    SUBSTATUS = "x-ms-substatus";
    RETRY_AFTER = "x-ms-retry-after-ms";
    CONTINUATION = "x-ms-continuation";
    ITEM_COUNT = "x-ms-item-count";
    ALT_CONTENT_PATH = "x-ms-alt-content-path";
    CONTENT_PATH = "x-ms-content-path";
    RANGE_ID = "x-ms-documentdb-partitionkeyrangeid";
    LSN = "lsn";
    LOCAL_LSN = "x-ms-cosmos-llsn";
    QUORUM_ACKED_LSN = "x-ms-quorum-acked-lsn";
    QUORUM_ACKED_LOCAL_LSN = "x-ms-cosmos-quorum-acked-llsn";
    GLOBAL_COMMITTED_LSN = "x-ms-global-committed-lsn";
    ITEM_LSN = "x-ms-item-lsn";
    ITEM_LOCAL_LSN = "x-ms-cosmos-item-llsn";
    TRANSPORT_REQUEST_ID = "x-ms-transport-request-id";
    REQUEST_DURATION = "x-ms-request-duration-ms";
    QUERY_METRICS = "x-ms-documentdb-query-metrics";
    INDEX_UTILIZATION = "x-ms-cosmos-index-utilization";
    QUERY_ADVICE = "x-ms-cosmos-query-advice";
    EXPLANATION = "x-shardlake-explain";
    NOTE = "x-shardlake-note";
    COPY_STATE = "x-shardlake-copy-state";
    COPY_LAG = "x-shardlake-copy-lag-ms";
    RESOURCE_QUOTA = "x-ms-resource-quota";
    RESOURCE_USAGE = "x-ms-resource-usage";
    INDEX_PROGRESS = "x-ms-documentdb-collection-index-transformation-progress";
    MINIMUM_THROUGHPUT = "x-ms-cosmos-min-throughput";
    SCRIPT_LOG = "x-ms-documentdb-script-log-results";
    SHARE_THROUGHPUT = "x-ms-share-throughput";
    OFFER_REPLACE_PENDING = "x-ms-offer-replace-pending";
}
