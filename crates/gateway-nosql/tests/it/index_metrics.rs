//! Index metrics in the form of newer clients, as the service writes them.

use percent_encoding::percent_decode_str;
use serde_json::{Value, json};

use crate::queries::{query, server_with_items};

#[tokio::test]
async fn aggregates_over_a_path_use_its_index() {
    let server = server_with_items(0).await;
    let used = |text: &'static str| {
        let call =
            query(&server, text).key(r#"["k3"]"#).header("x-ms-cosmos-populateindexmetrics-v2", "true");
        async move {
            let answer = call.send().await.expect(200);
            let report = percent_decode_str(answer.header("x-ms-cosmos-index-utilization").expect("metrics"));
            let report: Value = serde_json::from_str(&report.decode_utf8().expect("text")).expect("JSON");
            report["UtilizedIndexes"]["SingleIndexes"].clone()
        }
    };
    let key_and = |path: &str| json!([{ "IndexSpec": "/pk/?" }, { "IndexSpec": path }]);
    assert_eq!(used("SELECT SUM(c.n) AS s FROM c").await, key_and("/n/?"));
    assert_eq!(used("SELECT VALUE MAX(c.n) FROM c").await, key_and("/n/?"));
    assert_eq!(used("SELECT VALUE AVG(c.deep.n) FROM c").await, key_and("/deep/n/?"));
    for text in ["SELECT VALUE COUNT(c.n) FROM c", "SELECT VALUE SUM(c.n + 1) FROM c"] {
        assert_eq!(used(text).await, json!([{ "IndexSpec": "/pk/?" }]), "{text}");
    }
}

/// A recorded report ends so, in the middle of its first path.
#[tokio::test]
async fn long_reports_are_cut() {
    let server = server_with_items(0).await;
    let [a, b, c] = ["a", "b", "c"].map(|letter| letter.repeat(10_000));
    let text = format!("SELECT * FROM root r WHERE r.{a} = 0 AND r.{b} > 0 AND r.{c} > 0");
    let call = query(&server, &text).header("x-ms-cosmos-populateindexmetrics-v2", "true");
    let answer = call.send().await.expect(200);
    let report = answer.header("x-ms-cosmos-index-utilization").expect("metrics").to_owned();
    let report = percent_decode_str(&report).decode_utf8().expect("text").into_owned();
    let begin = r#"{"UtilizedIndexes":{"SingleIndexes":[{"IndexSpec":"/"#;
    assert_eq!(report, format!("{begin}{}", "a".repeat(4906)));
}
