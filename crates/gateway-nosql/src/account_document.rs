//! `GET /`: the account document, the first thing every client reads.
//!
//! Endpoints are built from the scheme and host that this very request used, because clients send all later traffic to
//! them; the server names another authority where a host is not to be repeated ([`Endpoint`](crate::Endpoint)). No member may
//! announce a second protocol: clients would switch to it.

use std::sync::LazyLock;

use http::{HeaderName, HeaderValue, StatusCode};
use serde_json::json;
use shardlake_account::METADATA_READ_CHARGE_CENTI;
use shardlake_model::LanguageLimits;

use crate::call::Call;
use crate::connection_mode::REPLICAS;
use crate::reply::Reply;
use crate::resource_document::document;

/// Limits and features for query planners inside clients; a JSON text inside the document. The limits are enforced; the members
/// after them concern the planners alone.
static QUERY_ENGINE: LazyLock<String> = LazyLock::new(|| {
    let LanguageLimits { text_length_max, joins_max, ands_max, ors_max, list_items_max, user_functions_max } =
        LanguageLimits::PUBLISHED;
    let limits = format!(
        r#"{{"maxSqlQueryInputLength":{text_length_max},"maxJoinsPerSqlQuery":{joins_max},"maxLogicalAndPerSqlQuery":{ands_max},"maxLogicalOrPerSqlQuery":{ors_max},"maxUdfRefPerSqlQuery":{user_functions_max},"maxInExpressionItemsCount":{list_items_max},"#
    );
    limits + PLANNERS
});

const PLANNERS: &str = concat!(
    r#""queryMaxInMemorySortDocumentCount":500,"maxQueryRequestTimeoutFraction":0.9,"sqlAllowNonFiniteNumbers":false,"#,
    r#""sqlAllowAggregateFunctions":true,"sqlAllowSubQuery":true,"sqlAllowScalarSubQuery":true,"allowNewKeywords":true,"#,
    r#""sqlAllowLike":true,"sqlAllowGroupByClause":true,"maxSpatialQueryCells":12,"spatialMaxGeometryPointCount":256,"#,
    r#""sqlDisableOptimizationFlags":0,"sqlAllowTop":true,"enableSpatialIndexing":true}"#
);

pub(crate) fn read(call: &Call<'_>) -> Reply {
    let id = &call.settings.account_id;
    let endpoint = format!("{}://{}/", call.scheme.name(), call.host);
    let locations = json!([{ "name": call.settings.region, "databaseAccountEndpoint": endpoint }]);
    let account = json!({
        "_self": "",
        "id": id,
        "_rid": id,
        "media": "//media/",
        "addresses": "//addresses/",
        "_dbs": "//dbs/",
        "writableLocations": locations,
        "readableLocations": locations,
        "enableMultipleWriteLocations": false,
        "continuousBackupEnabled": false,
        "enableNRegionSynchronousCommit": false,
        "enablePerPartitionFailoverBehavior": false,
        "disableCrossRegionalHedging": false,
        "userReplicationPolicy": { "asyncReplication": false, "minReplicaSetSize": 1, "maxReplicasetSize": REPLICAS.len() },
        "userConsistencyPolicy": { "defaultConsistencyLevel": call.account.router().consistency().name() },
        "systemReplicationPolicy": { "minReplicaSetSize": 1, "maxReplicasetSize": REPLICAS.len() },
        "readPolicy": { "primaryReadCoefficient": 1, "secondaryReadCoefficient": 1 },
        "queryEngineConfiguration": QUERY_ENGINE.as_str(),
    });
    let reply = Reply::json(StatusCode::OK, METADATA_READ_CHARGE_CENTI, document(&account));
    // There is no media storage. The Java SDK reads both as numbers.
    let figure = |reply: Reply, name| reply.with_header(HeaderName::from_static(name), HeaderValue::from(0));
    figure(figure(reply, "x-ms-max-media-storage-usage-mb"), "x-ms-media-storage-usage-mb")
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_query_engine_configuration_is_json() {
        let parsed: serde_json::Value = serde_json::from_str(&super::QUERY_ENGINE).expect("valid JSON");
        assert_eq!(parsed["maxJoinsPerSqlQuery"], 10);
        assert_eq!(parsed["enableSpatialIndexing"], true);
    }
}
