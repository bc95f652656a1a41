//! Documents by distance: `$near`, `$nearSphere`, `$geoNear`, and the indexes that they need.

use bson::doc;
use shardlake_mql::{Document, Value};

use crate::client::{Client, Server, first_batch, of};

async fn run(client: &mut Client, command: bson::Document) -> Document {
    client.run("d", of(&command)).await
}

/// The numbers of the documents that a command finds, in their order.
async fn found(client: &mut Client, command: bson::Document) -> Vec<i64> {
    let reply = client.ok("d", of(&command)).await;
    first_batch(&reply)
        .iter()
        .map(|document| document.value("_id").to_i64_exact().expect("a number"))
        .collect()
}

fn point(longitude: f64, latitude: f64) -> bson::Document {
    doc! { "type": "Point", "coordinates": [longitude, latitude] }
}

async fn with_places(client: &mut Client) {
    let documents = [(1, 5.0), (2, 0.0), (3, 1.0)];
    let documents: Vec<bson::Document> = documents
        .iter()
        .map(|(id, at)| doc! { "_id": id, "loc": point(*at, 0.0), "rank": 10 - id })
        .collect();
    client.ok("d", of(&doc! { "insert": "c", "documents": documents })).await;
}

async fn index(client: &mut Client, kind: &str) -> Document {
    let index = doc! { "key": { "loc": kind }, "name": kind };
    run(client, doc! { "createIndexes": "c", "indexes": [index] }).await
}

#[tokio::test]
async fn documents_are_found_by_distance_where_an_index_is_for_it() {
    let server = Server::start().await;
    let mut client = server.connect();
    with_places(&mut client).await;
    let near = doc! { "loc": { "$near": { "$geometry": point(0.0, 0.0) } } };
    let find = doc! { "find": "c", "filter": near.clone() };
    assert_eq!(client.fails("d", of(&find)).await, 291, "there is no index");
    let stage = doc! { "$geoNear": { "near": point(0.0, 0.0), "distanceField": "far" } };
    let pipeline = doc! { "aggregate": "c", "pipeline": [stage], "cursor": {} };
    assert_eq!(client.fails("d", of(&pipeline)).await, 27);
    index(&mut client, "2dsphere").await;
    assert_eq!(found(&mut client, find).await, [2, 3, 1]);
    let by_rank = doc! { "find": "c", "filter": near.clone(), "sort": { "rank": 1 } };
    assert_eq!(found(&mut client, by_rank).await, [3, 2, 1], "a sort goes before distance");
    let limited =
        doc! { "loc": { "$nearSphere": { "$geometry": point(0.0, 0.0), "$maxDistance": 200_000 } } };
    assert_eq!(found(&mut client, doc! { "find": "c", "filter": limited, "limit": 2 }).await, [2, 3]);
    let update = doc! { "q": near.clone(), "u": { "$set": { "nearest": true } } };
    client.ok("d", of(&doc! { "update": "c", "updates": [update] })).await;
    assert_eq!(found(&mut client, doc! { "find": "c", "filter": { "nearest": true } }).await, [2]);
    assert_eq!(found(&mut client, pipeline.clone()).await, [2, 3, 1]);
    let shown = first_batch(&client.ok("d", of(&pipeline)).await);
    assert_eq!(shown[1].value("far").to_f64(), Some(111_318.845_021_450_34));
    let in_match = doc! { "aggregate": "c", "pipeline": [{ "$match": near }], "cursor": {} };
    assert_eq!(client.fails("d", of(&in_match)).await, 5_626_500);
}

#[tokio::test]
async fn indexes_of_places_refuse_documents_without_one() {
    let server = Server::start().await;
    let mut client = server.connect();
    with_places(&mut client).await;
    let reply = index(&mut client, "2d").await;
    assert_eq!(reply.value("code").to_i32_exact(), Some(16804), "GeoJSON lies on a sphere");
    assert_eq!(index(&mut client, "2dsphere").await.value("ok").to_f64(), Some(1.0));
    let code = |reply: &Document| {
        let errors = reply.value("writeErrors");
        let error = errors.as_array().and_then(|errors| errors.first()?.as_document().cloned());
        error.map(|error| error.value("code"))
    };
    let wrong = doc! { "insert": "c", "documents": [{ "_id": 9, "loc": point(181.0, 0.0) }] };
    let reply = run(&mut client, wrong).await;
    assert_eq!(code(&reply).as_ref().and_then(Value::to_i32_exact), Some(16755));
    let changed = doc! { "q": { "_id": 1 }, "u": { "$set": { "loc": "here" } } };
    let reply = run(&mut client, doc! { "update": "c", "updates": [changed] }).await;
    assert_eq!(code(&reply).as_ref().and_then(Value::to_i32_exact), Some(16755));
    assert_eq!(found(&mut client, doc! { "find": "c", "filter": { "loc": "here" } }).await, [0_i64; 0]);
    client.ok("d", of(&doc! { "insert": "c", "documents": [{ "_id": 4 }] })).await;
}

#[tokio::test]
async fn gaps_are_filled() {
    let server = Server::start().await;
    let mut client = server.connect();
    let documents = vec![doc! { "_id": 1, "t": 0, "v": 10 }, doc! { "_id": 2, "t": 3, "v": 40 }];
    client.ok("d", of(&doc! { "insert": "c", "documents": documents })).await;
    let pipeline = vec![
        doc! { "$densify": { "field": "t", "range": { "step": 1, "bounds": "full" } } },
        doc! { "$fill": { "sortBy": { "t": 1 }, "output": { "v": { "method": "linear" } } } },
    ];
    let reply = client.ok("d", of(&doc! { "aggregate": "c", "pipeline": pipeline, "cursor": {} })).await;
    let values: Vec<f64> = first_batch(&reply).iter().map(|row| row.value("v").to_f64().unwrap()).collect();
    assert_eq!(values, [10.0, 20.0, 30.0, 40.0]);
}
