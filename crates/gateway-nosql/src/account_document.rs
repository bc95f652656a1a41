//! `GET /`: the account document, the first thing every client reads.
//!
//! Endpoints are built from the scheme and host that this very request used, because clients send all later traffic to
//! them. No member may announce a second protocol: clients would switch to it.

use http::StatusCode;
use serde_json::json;
use shardlake_account::METADATA_READ_CHARGE_CENTI;

use crate::gateway::Call;
use crate::reply::Reply;
use crate::resource_document::document;

/// What query planners inside clients may assume; a JSON text inside the document.
const QUERY_ENGINE: &str = concat!(
    r#"{"maxSqlQueryInputLength":262144,"maxJoinsPerSqlQuery":5,"maxLogicalAndPerSqlQuery":500,"#,
    r#""maxLogicalOrPerSqlQuery":500,"maxUdfRefPerSqlQuery":10,"maxInExpressionItemsCount":16000,"#,
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
        "userReplicationPolicy": { "asyncReplication": false, "minReplicaSetSize": 1, "maxReplicasetSize": 4 },
        "userConsistencyPolicy": { "defaultConsistencyLevel": call.account.consistency().name() },
        "systemReplicationPolicy": { "minReplicaSetSize": 1, "maxReplicasetSize": 4 },
        "readPolicy": { "primaryReadCoefficient": 1, "secondaryReadCoefficient": 1 },
        "queryEngineConfiguration": QUERY_ENGINE,
    });
    Reply::json(StatusCode::OK, METADATA_READ_CHARGE_CENTI, document(&account))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_query_engine_configuration_is_json() {
        let parsed: serde_json::Value = serde_json::from_str(super::QUERY_ENGINE).expect("valid JSON");
        assert!(parsed.is_object());
    }
}
