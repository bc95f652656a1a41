//! First stages that report the server's state.

use bson::doc;
use shardlake_mql::Value;

use crate::client::{Server, first_batch, of};

#[tokio::test]
async fn operations_and_sessions_are_listed_by_stages() {
    let server = Server::start().await;
    let mut client = server.connect();
    let aggregate =
        |stages: Vec<bson::Document>| of(&doc! { "aggregate": 1, "pipeline": stages, "cursor": {} });
    let reply = client.ok("admin", aggregate(vec![doc! { "$currentOp": {} }])).await;
    let shown = first_batch(&reply);
    assert_eq!(shown.len(), 1, "this one");
    assert!(shown[0].value("opid").to_i32_exact().is_some());
    let matched = vec![doc! { "$currentOp": {} }, doc! { "$match": { "opid": -1 } }];
    assert!(first_batch(&client.ok("admin", aggregate(matched)).await).is_empty());
    assert_eq!(client.fails("d", aggregate(vec![doc! { "$currentOp": {} }])).await, 73);
    assert_eq!(client.fails("admin", aggregate(vec![doc! { "$currentOp": { "allUsers": 1 } }])).await, 14);
    let twice = vec![doc! { "$currentOp": {} }, doc! { "$currentOp": {} }];
    assert_eq!(client.fails("admin", aggregate(twice)).await, 40602);
    let session = client.ok("admin", of(&doc! { "startSession": 1 })).await;
    let listed = client.ok("d", aggregate(vec![doc! { "$listLocalSessions": {} }])).await;
    let shown = first_batch(&listed);
    let id = session.value("id").as_document().expect("a session").value("id");
    let ids = shown.iter().filter_map(|shown| Some(shown.value("_id").as_document()?.value("id")));
    assert!(ids.into_iter().any(|own| shardlake_mql::equal(&own, &id)));
    assert!(shown.iter().all(|shown| matches!(shown.value("lastUse"), Value::Date(_))));
}

#[tokio::test]
async fn plans_and_query_settings_are_none() {
    let server = Server::start().await;
    let mut client = server.connect();
    client.ok("d", of(&doc! { "insert": "c", "documents": [{ "_id": 1 }] })).await;
    let plans = doc! { "aggregate": "c", "pipeline": [{ "$planCacheStats": {} }], "cursor": {} };
    assert!(first_batch(&client.ok("d", of(&plans)).await).is_empty());
    let settings = doc! { "aggregate": 1, "pipeline": [{ "$querySettings": {} }], "cursor": {} };
    assert!(first_batch(&client.ok("d", of(&settings)).await).is_empty());
    let elsewhere = doc! { "aggregate": "c", "pipeline": [{ "$querySettings": {} }], "cursor": {} };
    assert_eq!(client.fails("d", of(&elsewhere)).await, 73);
    let catalog = doc! { "aggregate": 1, "pipeline": [{ "$listClusterCatalog": {} }], "cursor": {} };
    let shown = first_batch(&client.ok("d", of(&catalog)).await);
    assert_eq!(shown[0].value("ns").as_str(), Some("d.c"));
}
