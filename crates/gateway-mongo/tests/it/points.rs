//! A read by key finds the document that a query would find, whatever else the filter contains.

use bson::{Bson, doc};
use shardlake_mql::{Document, Value};
use shardlake_stdx::Random;

use crate::client::{Client, Server, first_batch, of};

const DOCUMENTS: usize = 150;
const FINDS: usize = 600;

/// Values that are equal though they differ, and ones that look equal and are not.
fn value(random: &Random) -> Bson {
    let small = random.below(3) as i32;
    match random.below(14) {
        0 => Bson::Int32(small),
        1 => Bson::Int64(i64::from(small)),
        2 => Bson::Double(f64::from(small)),
        3 => Bson::Double([0.5, -0.0, f64::NAN][small as usize]),
        4 => Bson::Decimal128(["1", "0.5", "NaN"][small as usize].parse().expect("a decimal")),
        5 => Bson::Int64((1 << 53) + i64::from(small)),
        6 => Bson::String(["", "1", "$num:1"][small as usize].to_owned()),
        7 => Bson::String(["a/b", "$oid:x", "id"][small as usize].to_owned()),
        8 => Bson::Boolean(small > 0),
        9 => Bson::Null,
        10 => Bson::ObjectId(bson::oid::ObjectId::from_bytes([small as u8; 12])),
        11 => Bson::DateTime(bson::DateTime::from_millis(i64::from(small))),
        12 => Bson::Document(doc! { "b": small }),
        _ => Bson::Timestamp(bson::Timestamp { time: 1, increment: small as u32 }),
    }
}

/// A document with names that the NoSQL API spells differently, and some that it does not.
fn document(random: &Random) -> bson::Document {
    let mut document = doc! { "k": value(random), "_id": value(random) };
    for name in ["id", "_ts", "$id", "$_id", "_etag", "a", "indeed"] {
        if random.below(2) == 0 {
            document.insert(name, value(random));
        }
    }
    document.insert("list", vec![value(random), value(random)]);
    document
}

fn filter(random: &Random) -> bson::Document {
    let mut filter = match random.below(4) {
        0 => doc! { "_id": { "$eq": value(random) }, "k": value(random) },
        1 => doc! { "k": { "$eq": value(random) }, "_id": value(random) },
        _ => doc! { "_id": value(random), "k": value(random) },
    };
    match random.below(8) {
        0 => drop(filter.insert("a", value(random))),
        1 => drop(filter.insert("id", doc! { "$exists": random.below(2) == 0 })),
        2 => drop(filter.insert("list.0", value(random))),
        3 => drop(filter.insert("_ts", doc! { "$ne": value(random) })),
        4 => drop(filter.insert("$expr", doc! { "$eq": ["$a", value(random)] })),
        _ => {}
    }
    filter
}

async fn found(client: &mut Client, filter: &bson::Document) -> Vec<Document> {
    let find = doc! { "find": "c", "filter": filter, "batchSize": 1000 };
    first_batch(&client.ok("d", of(&find)).await)
}

async fn check(shard_key: Option<&str>, seed: u64) {
    let server = Server::start().await;
    let (mut client, random) = (server.connect(), Random::seeded(seed));
    let mut create = doc! { "create": "c" };
    if let Some(path) = shard_key {
        create.insert("shardKey", doc! { path: "hashed" });
    }
    client.ok("d", of(&create)).await;
    for _ in 0..DOCUMENTS {
        // Documents whose identity is taken, or that cannot have this shard key, are refused.
        client.run("d", of(&doc! { "insert": "c", "documents": [document(&random)] })).await;
    }
    let mut hits = 0;
    for _ in 0..FINDS {
        let filter = filter(&random);
        let by_key = found(&mut client, &filter).await;
        let by_query = found(&mut client, &doc! { "$or": [filter.clone()] }).await;
        let bytes = |documents: &[Document]| documents.iter().map(Document::to_bytes).collect::<Vec<_>>();
        let (mut one, mut other) = (bytes(&by_key), bytes(&by_query));
        one.sort();
        other.sort();
        assert_eq!(one, other, "{filter}: {:?}", (by_key, by_query));
        hits += one.len();
    }
    assert!(hits >= 5, "the filters mean something: {hits}");
}

#[tokio::test]
async fn a_key_and_a_query_find_the_same_in_a_sharded_collection() {
    check(Some("k"), 3).await;
}

#[tokio::test]
async fn a_key_and_a_query_find_the_same_where_the_identity_is_the_shard_key() {
    check(Some("_id"), 4).await;
}

#[tokio::test]
async fn a_key_and_a_query_find_the_same_in_a_collection_of_one_partition() {
    check(None, 5).await;
}

#[tokio::test]
async fn a_find_by_key_is_charged_counted_and_cut_like_any_other() {
    let server = Server::start().await;
    let mut client = server.connect();
    let documents: Vec<bson::Document> = (0..20).map(|n| doc! { "_id": n, "k": n % 3, "a": n }).collect();
    client.ok("d", of(&doc! { "create": "c", "shardKey": { "k": "hashed" } })).await;
    client.ok("d", of(&doc! { "insert": "c", "documents": documents })).await;
    let key = doc! { "_id": 4, "k": 1 };
    let charge = |reply: &Document| reply.value("requestCharge").to_f64();
    let plain =
        client.ok("d", of(&doc! { "find": "c", "filter": key.clone(), "$requestCharge": true })).await;
    let projected =
        doc! { "find": "c", "filter": key.clone(), "projection": { "a": 1 }, "$requestCharge": true };
    let projected = client.ok("d", of(&projected)).await;
    assert_eq!(charge(&plain), charge(&projected), "a point read");
    let statistics = client.ok("d", of(&doc! { "getLastRequestStatistics": 1 })).await;
    assert_eq!(statistics.value("RequestCharge").to_f64(), charge(&projected));
    let none = doc! { "find": "c", "filter": { "_id": 5, "k": 1 }, "$requestCharge": true };
    let none = client.ok("d", of(&none)).await;
    assert!(first_batch(&none).is_empty());
    assert!(charge(&none).is_some_and(|charge| charge > 0.0), "looking costs: {none:?}");
    for options in [doc! { "skip": 1 }, doc! { "batchSize": 0 }, doc! { "skip": 1, "limit": 1 }] {
        let mut find = doc! { "find": "c", "filter": key.clone() };
        find.extend(options.clone());
        assert!(first_batch(&client.ok("d", of(&find)).await).is_empty(), "{options}");
    }
    for options in
        [doc! { "limit": 1, "singleBatch": true }, doc! { "batchSize": 1 }, doc! { "sort": { "a": 1 } }]
    {
        let mut find = doc! { "find": "c", "filter": key.clone() };
        find.extend(options.clone());
        let reply = client.ok("d", of(&find)).await;
        assert_eq!(first_batch(&reply).len(), 1, "{options}");
        let cursor = reply.value("cursor");
        assert_eq!(cursor.as_document().expect("a cursor").value("id").to_i64_exact(), Some(0), "{options}");
    }
    let uses = client
        .ok("d", of(&doc! { "aggregate": "c", "pipeline": [{ "$indexStats": {} }], "cursor": {} }))
        .await;
    let uses = first_batch(&uses);
    let of_identity =
        uses.iter().find(|index| index.value("name").as_str() == Some("_id_")).expect("it is shown");
    let accesses = of_identity.value("accesses");
    let count = accesses.as_document().expect("counts").value("ops").to_i64_exact();
    assert!(count.is_some_and(|count| count >= 8), "{of_identity:?}");
}

#[tokio::test]
async fn a_transaction_reads_its_own_writes_by_key() {
    let server = Server::start().await;
    let (mut client, mut other) = (server.connect(), server.connect());
    client.ok("d", of(&doc! { "insert": "c", "documents": [{ "_id": 1, "a": 1 }] })).await;
    let session =
        doc! { "id": bson::Binary { subtype: bson::spec::BinarySubtype::Uuid, bytes: vec![1; 16] } };
    let with = |mut command: bson::Document, starts: bool| {
        command.insert("lsid", session.clone());
        command.insert("txnNumber", 1_i64);
        command.insert("autocommit", false);
        if starts {
            command.insert("startTransaction", true);
        }
        of(&command)
    };
    let update = doc! { "update": "c", "updates": [{ "q": { "_id": 1 }, "u": { "$set": { "a": 2 } } }] };
    client.ok("d", with(update, true)).await;
    let find = doc! { "find": "c", "filter": { "_id": 1 }, "limit": 1, "singleBatch": true };
    let own = first_batch(&client.ok("d", with(find.clone(), false)).await);
    assert_eq!(own[0].value("a").to_i64_exact(), Some(2));
    let shown = first_batch(&other.ok("d", of(&find)).await);
    assert_eq!(shown[0].value("a").to_i64_exact(), Some(1), "not committed");
    assert!(matches!(shown[0].first(), Some((name, Value::Int(1))) if &**name == "_id"));
}
