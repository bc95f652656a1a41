//! Builds without SQL over analytical tables refuse it by name, to callers that signed.

use serde_json::json;

use crate::support::on_disk;

#[test]
fn a_build_without_sql_names_the_feature() {
    let server = on_disk().start();
    let client = server.client();
    let body = json!({ "query": "SELECT 1" });
    let path = "/_shardlake/v1/analytics/sql";
    let refused = client.post_json(path, &[], &body).expect_status(501).json();
    assert_eq!(refused["code"], "NotImplemented");
    let message = refused["message"].as_str().unwrap();
    let words = "SQL over the analytical store is not in this build (feature analytics-sql): use the full build, or read the Delta table at ROOT/database/container with DuckDB, Polars or Spark";
    assert!(message.contains(words), "{message}");
    let unsigned = client.post_json(path, &[("authorization", "")], &body);
    assert_eq!(unsigned.status, 401, "{unsigned}");
}
