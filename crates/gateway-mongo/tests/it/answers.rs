//! Implicit behaviour that applications rely on: generated values, the order of storage, reasons of refusals.

use bson::doc;
use shardlake_mql::{Document, Value};

use crate::client::{Client, Server, first_batch, of};

async fn found(client: &mut Client, command: &bson::Document) -> Vec<Document> {
    first_batch(&client.ok("d", of(command)).await)
}

async fn ids(client: &mut Client, command: &bson::Document) -> Vec<i64> {
    let found = found(client, command).await;
    found.iter().map(|found| found.value("_id").to_i64_exact().expect("a number")).collect()
}

#[tokio::test]
async fn generated_ids_and_times_ascend_in_the_order_of_writes() {
    let server = Server::start().await;
    let mut client = server.connect();
    let empty = bson::Timestamp { time: 0, increment: 0 };
    let documents: Vec<bson::Document> = (0..50).map(|n| doc! { "n": n, "at": empty }).collect();
    client.ok("d", of(&doc! { "insert": "c", "documents": documents })).await;
    for n in 50..60 {
        let update = doc! { "q": { "n": n }, "u": { "n": n, "at": empty }, "upsert": true };
        client.ok("d", of(&doc! { "update": "c", "updates": [update] })).await;
    }
    for order in ["_id", "at"] {
        let found = found(&mut client, &doc! { "find": "c", "sort": { order: 1 } }).await;
        let numbers: Vec<i64> = found.iter().map(|found| found.value("n").to_i64_exact().unwrap()).collect();
        assert!(numbers.is_sorted(), "by {order}: {numbers:?}");
    }
}

#[tokio::test]
async fn the_order_of_storage_is_reversed_where_natural_is_minus_one() {
    let server = Server::start().await;
    let mut client = server.connect();
    let documents: Vec<bson::Document> = (0..40).map(|id| doc! { "_id": id, "n": id % 3 }).collect();
    client.ok("d", of(&doc! { "insert": "c", "documents": documents })).await;
    let odd = [doc! { "$match": { "n": { "$gt": 0 } } }];
    client.ok("d", of(&doc! { "create": "v", "viewOn": "c", "pipeline": odd.to_vec() })).await;
    let backwards = doc! { "$natural": -1 };
    for name in ["c", "v"] {
        let forwards = ids(&mut client, &doc! { "find": name, "batchSize": 100 }).await;
        let mut reversed = forwards.clone();
        reversed.reverse();
        let by_sort = doc! { "find": name, "batchSize": 100, "sort": backwards.clone() };
        assert_eq!(ids(&mut client, &by_sort).await, reversed, "sort of {name}");
        let by_hint = doc! { "find": name, "batchSize": 100, "hint": backwards.clone() };
        assert_eq!(ids(&mut client, &by_hint).await, reversed, "hint of {name}");
        let aggregate = doc! { "aggregate": name, "pipeline": [], "hint": backwards.clone(), "cursor": { "batchSize": 100 } };
        assert_eq!(ids(&mut client, &aggregate).await, reversed, "pipeline over {name}");
        let newest =
            doc! { "find": name, "filter": { "n": 1 }, "sort": backwards.clone(), "skip": 1, "limit": 2 };
        let last: Vec<i64> = reversed.iter().copied().filter(|id| id % 3 == 1).skip(1).take(2).collect();
        assert_eq!(ids(&mut client, &newest).await, last, "limit of {name}");
        let upwards = doc! { "find": name, "batchSize": 100, "sort": { "$natural": 1 } };
        assert_eq!(ids(&mut client, &upwards).await, forwards);
    }
    let last = ids(&mut client, &doc! { "find": "c", "sort": backwards.clone(), "limit": 1 }).await;
    let explained = doc! { "explain": { "find": "c", "sort": backwards.clone() } };
    let plan = client.ok("d", of(&explained)).await.value("queryPlanner");
    assert!(plan.to_string().contains(r#"stage: "COLLSCAN", filter: {}, direction: "backward""#), "{plan}");
    let modify = doc! { "findAndModify": "c", "query": {}, "sort": backwards, "remove": true };
    let removed = client.ok("d", of(&modify)).await.value("value");
    assert_eq!(removed.as_document().expect("a document").value("_id").to_i64_exact(), Some(last[0]));
}

#[tokio::test]
async fn an_index_cannot_have_the_name_of_the_identity() {
    let server = Server::start().await;
    let mut client = server.connect();
    let index = doc! { "key": { "a": 1 }, "name": "_id_" };
    let refused = client.run("d", of(&doc! { "createIndexes": "c", "indexes": [index] })).await;
    assert_eq!(refused.value("code").to_i32_exact(), Some(2), "{}", Value::from(refused));
}

#[tokio::test]
async fn merged_documents_have_their_fields_in_the_order_of_names() {
    let server = Server::start().await;
    let mut client = server.connect();
    client
        .ok(
            "d",
            of(&doc! { "insert": "s", "documents": [{ "_id": 1, "z": 1, "a": 2, "m": { "y": 1, "b": 2 } }] }),
        )
        .await;
    for (matched, order) in [("merge", ["_id", "a", "m", "z"]), ("replace", ["_id", "z", "a", "m"])] {
        let merge = doc! { "$merge": { "into": matched, "whenMatched": matched } };
        client.ok("d", of(&doc! { "aggregate": "s", "pipeline": [merge], "cursor": {} })).await;
        let found = found(&mut client, &doc! { "find": matched }).await;
        let names: Vec<&str> = found[0].iter().map(|(name, _)| &**name).collect();
        assert_eq!(names, order, "{matched}");
    }
}

#[tokio::test]
async fn the_error_of_a_refused_document_names_the_rules_that_it_breaks() {
    let server = Server::start().await;
    let mut client = server.connect();
    let schema = doc! {
        "required": ["name", "year"],
        "properties": { "year": { "bsonType": "int", "minimum": 2000, "description": "the year" } },
    };
    client.ok("d", of(&doc! { "create": "c", "validator": { "$jsonSchema": schema } })).await;
    let reply = client.ok("d", of(&doc! { "insert": "c", "documents": [{ "_id": 1, "year": 1999 }] })).await;
    let errors = reply.value("writeErrors");
    let error = errors.as_array().and_then(|errors| errors[0].as_document().cloned()).expect("an error");
    let wanted = doc! {
        "failingDocumentId": 1,
        "details": {
            "operatorName": "$jsonSchema",
            "schemaRulesNotSatisfied": [
                { "operatorName": "required", "specifiedAs": { "required": ["name", "year"] }, "missingProperties": ["name"] },
                { "operatorName": "properties", "propertiesNotSatisfied": [{
                    "propertyName": "year",
                    "description": "the year",
                    "details": [{
                        "operatorName": "minimum",
                        "specifiedAs": { "minimum": 2000 },
                        "reason": "comparison failed",
                        "consideredValue": 1999,
                    }],
                }] },
            ],
        },
    };
    assert_eq!(error.value("errInfo").to_string(), Value::from(of(&wanted)).to_string());
}
