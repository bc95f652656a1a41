//! What applications do with MongoDB's driver for Rust, against a running server.

use futures::{StreamExt, TryStreamExt};
use mongodb::bson::{Bson, Document, doc};
use mongodb::change_stream::event::OperationType;
use mongodb::options::{IndexOptions, ReturnDocument};
use mongodb::{Client, Collection, Database, IndexModel};

async fn database(name: &str) -> Database {
    let uri = std::env::var("SHARDLAKE_MONGO").expect("SHARDLAKE_MONGO says where the server is");
    let client = Client::with_uri_str(uri).await.expect("the address is well-formed");
    let database = client.database(&format!("rust_{name}_{}", std::process::id()));
    database.drop().await.expect("dropped");
    database
}

async fn end(database: Database) {
    database.drop().await.expect("dropped");
}

#[tokio::test]
async fn documents_are_written_found_and_changed() {
    let database = database("documents").await;
    let people: Collection<Document> = database.collection("people");
    let inserted = people
        .insert_many([doc! { "_id": 1, "name": "Ada" }, doc! { "_id": 2, "name": "Alan" }])
        .await
        .expect("inserted");
    assert_eq!(inserted.inserted_ids[&0], Bson::Int32(1));
    let updated =
        people.update_one(doc! { "_id": 1 }, doc! { "$set": { "age": 36i64 } }).await.expect("updated");
    assert_eq!(updated.modified_count, 1);
    let found = people.find_one(doc! { "name": "Ada" }).await.expect("found").expect("one");
    assert_eq!(found, doc! { "_id": 1, "name": "Ada", "age": 36i64 });
    let changed = people
        .find_one_and_update(doc! { "_id": 3 }, doc! { "$set": { "name": "Grace" } })
        .upsert(true)
        .return_document(ReturnDocument::After)
        .await
        .expect("changed");
    assert_eq!(changed, Some(doc! { "_id": 3, "name": "Grace" }));
    let names: Vec<Document> = people
        .find(doc! {})
        .sort(doc! { "name": -1 })
        .projection(doc! { "_id": 0, "name": 1 })
        .batch_size(2)
        .await
        .expect("a cursor")
        .try_collect()
        .await
        .expect("all");
    assert_eq!(names, [doc! { "name": "Grace" }, doc! { "name": "Alan" }, doc! { "name": "Ada" }]);
    assert_eq!(people.delete_many(doc! {}).await.expect("deleted").deleted_count, 3);
    end(database).await;
}

#[tokio::test]
async fn unique_values_and_pipelines() {
    let database = database("unique").await;
    let items: Collection<Document> = database.collection("items");
    let options = IndexOptions::builder().unique(true).build();
    let index = IndexModel::builder().keys(doc! { "code": 1 }).options(options).build();
    items.create_index(index).await.expect("an index");
    items.insert_many((0..10).map(|n| doc! { "code": n, "group": n % 3 })).await.expect("inserted");
    let refused = items.insert_one(doc! { "code": 1 }).await.expect_err("it is taken");
    assert!(refused.to_string().contains("E11000"), "{refused}");
    let stages =
        [doc! { "$group": { "_id": "$group", "count": { "$sum": 1 } } }, doc! { "$sort": { "_id": 1 } }];
    let groups: Vec<Document> =
        items.aggregate(stages).await.expect("a cursor").try_collect().await.expect("all");
    assert_eq!(groups[0], doc! { "_id": 0, "count": 4 });
    end(database).await;
}

#[tokio::test]
async fn a_change_stream_is_resumed_behind_an_event() {
    let database = database("streams").await;
    let notes: Collection<Document> = database.collection("notes");
    notes.insert_one(doc! { "_id": 0 }).await.expect("inserted");
    let mut stream = notes.watch().await.expect("a stream");
    notes.insert_one(doc! { "_id": 1, "n": 1 }).await.expect("inserted");
    let event = stream.next().await.expect("an event").expect("no error");
    assert_eq!(event.operation_type, OperationType::Insert);
    notes.update_one(doc! { "_id": 1 }, doc! { "$inc": { "n": 1 } }).await.expect("updated");
    let mut again = notes.watch().resume_after(Some(event.id)).await.expect("a stream");
    let event = again.next().await.expect("an event").expect("no error");
    let updated = event.update_description.expect("an update").updated_fields;
    assert_eq!(updated, doc! { "n": 2 });
    end(database).await;
}
