//! Collections whose shard key is `_id`: documents with every kind of `_id`, found by it.

use bson::{Bson, doc, oid::ObjectId};
use shardlake_mql::Value;

use crate::client::{Server, first_batch, of};

fn ids() -> Vec<Bson> {
    vec![
        Bson::Int32(5),
        Bson::Int64(6),
        Bson::Int64(1 << 60),
        Bson::Double(7.0),
        Bson::Double(7.5),
        Bson::Double(-0.0),
        Bson::Double(f64::NAN),
        Bson::Decimal128("8.50".parse().expect("a decimal")),
        Bson::String("plain".to_owned()),
        Bson::String("a/b?c#d ".to_owned()),
        Bson::String("$num:5".to_owned()),
        Bson::String(String::new()),
        Bson::ObjectId(ObjectId::from_bytes([3; 12])),
        Bson::DateTime(bson::DateTime::from_millis(-1)),
        Bson::Boolean(true),
        Bson::Null,
        Bson::Document(doc! { "a": 1, "b": [2] }),
        Bson::MinKey,
    ]
}

#[tokio::test]
async fn documents_are_found_by_an_identity_of_any_kind() {
    for key in [Bson::Int32(1), "hashed".into()] {
        let server = Server::start().await;
        let mut client = server.connect();
        client.ok("d", of(&doc! { "create": "c", "shardKey": { "_id": key } })).await;
        for (n, id) in ids().into_iter().enumerate() {
            let insert = doc! { "insert": "c", "documents": [{ "_id": id.clone(), "n": n as i32 }] };
            let reply = client.ok("d", of(&insert)).await;
            assert_eq!(reply.value("n").to_i32_exact(), Some(1), "{id}: {}", Value::from(reply));
        }
        for (n, id) in ids().into_iter().enumerate() {
            let filter = doc! { "_id": id.clone() };
            let found =
                first_batch(&client.ok("d", of(&doc! { "find": "c", "filter": filter.clone() })).await);
            let numbers: Vec<_> = found.iter().map(|found| found.value("n").to_i64_exact()).collect();
            assert_eq!(numbers, [Some(n as i64)], "{id}");
            let update = doc! { "q": filter.clone(), "u": { "$inc": { "n": 100 } } };
            let reply = client.ok("d", of(&doc! { "update": "c", "updates": [update] })).await;
            assert_eq!(reply.value("nModified").to_i32_exact(), Some(1), "{id}");
            let delete = doc! { "delete": "c", "deletes": [{ "q": filter, "limit": 1 }] };
            assert_eq!(client.ok("d", of(&delete)).await.value("n").to_i32_exact(), Some(1), "{id}");
        }
    }
}

#[tokio::test]
async fn equal_numbers_of_several_types_are_one_identity() {
    let server = Server::start().await;
    let mut client = server.connect();
    client.ok("d", of(&doc! { "create": "c", "shardKey": { "_id": "hashed" } })).await;
    let equal =
        [Bson::Int32(6), Bson::Int64(6), Bson::Double(6.0), Bson::Decimal128("6.0".parse().expect("6"))];
    client.ok("d", of(&doc! { "insert": "c", "documents": [{ "_id": 6_i64 }] })).await;
    for id in equal {
        let insert = of(&doc! { "insert": "c", "documents": [{ "_id": id.clone() }] });
        let reply = client.ok("d", insert).await;
        let errors = reply.value("writeErrors");
        let code = errors.as_array().and_then(|errors| errors[0].as_document().cloned());
        assert_eq!(code.and_then(|error| error.value("code").to_i64_exact()), Some(11000), "{id}");
        let found = client.ok("d", of(&doc! { "find": "c", "filter": { "_id": id.clone() } })).await;
        assert_eq!(first_batch(&found).len(), 1, "{id}");
    }
}
