//! A filter selects the same documents with any index: those that the query language defines.

use bson::{Bson, doc};
use shardlake_account::AccountOptions;
use shardlake_gateway_mongo::MongoSettings;
use shardlake_model::Limits;
use shardlake_mql::{Document, Env, Filter, Scope, Value, identical_documents};
use shardlake_stdx::{Clock, Random};
use shardlake_storage::{Shard, ShardOptions};

use crate::client::{NOW, Server, first_batch, of};

const DOCUMENTS: i32 = 200;
const FILTERS: usize = 400;

/// A value of a small set, so that filters match some.
fn value(random: &Random, depth: u32) -> Bson {
    let small = random.below(4) as i32;
    match random.below(if depth == 0 { 11 } else { 13 }) {
        0 => Bson::Int32(small),
        1 => Bson::Int64(i64::from(small)),
        2 => Bson::Double(f64::from(small) + 0.5 * random.below(2) as f64),
        3 => Bson::Decimal128(["0", "1", "1.5", "2.50"][small as usize].parse().expect("a decimal")),
        4 => Bson::String(["", "a", "b", "\u{FFFD}x"][small as usize].to_owned()),
        5 => Bson::Boolean(small > 1),
        6 => Bson::Null,
        7 => Bson::ObjectId(bson::oid::ObjectId::from_bytes([small as u8; 12])),
        8 => Bson::DateTime(bson::DateTime::from_millis(i64::from(small) * 700 - 900)),
        9 => Bson::Double([f64::NAN, f64::INFINITY, -0.0, 1e300][small as usize]),
        10 => Bson::Binary(bson::Binary {
            subtype: bson::spec::BinarySubtype::Generic,
            bytes: vec![small as u8],
        }),
        11 => Bson::Array((0..random.below(3)).map(|_| value(random, depth - 1)).collect()),
        _ => Bson::Document(doc! { "b": value(random, depth - 1) }),
    }
}

fn condition(random: &Random) -> bson::Document {
    let path = ["a", "a.b", "c", "a.0", "_id"][random.below(5) as usize];
    let operator = ["$eq", "$gt", "$gte", "$lt", "$lte", "$in", "$ne", "$exists"][random.below(8) as usize];
    let operand = match operator {
        "$in" => Bson::Array(vec![value(random, 1), value(random, 1)]),
        "$exists" => Bson::Boolean(random.below(2) == 0),
        _ => value(random, 1),
    };
    doc! { path: { operator: operand } }
}

fn filter(random: &Random) -> bson::Document {
    match random.below(4) {
        0 => doc! { "$or": [condition(random), condition(random)] },
        1 => doc! { "$and": [condition(random), condition(random)] },
        _ => condition(random),
    }
}

async fn check(indexes: Vec<bson::Document>, shard_key: Option<bson::Document>) {
    check_with(Limits::default(), indexes, shard_key).await;
}

async fn check_with(limits: Limits, indexes: Vec<bson::Document>, shard_key: Option<bson::Document>) {
    let shard = Shard::open(ShardOptions::memory()).await.expect("a shard in memory opens");
    let options = AccountOptions { limits, ..AccountOptions::default() };
    let clock = Clock::manual(NOW);
    let server = Server::with_options(vec![shard], MongoSettings::default(), clock, options).await;
    let (mut client, random) = (server.connect(), Random::seeded(11));
    let mut create = doc! { "create": "c" };
    let is_sharded = shard_key.is_some();
    if let Some(shard_key) = shard_key {
        create.insert("shardKey", shard_key);
    }
    client.ok("d", of(&create)).await;
    let mut stored: Vec<Document> = Vec::new();
    for number in 0..DOCUMENTS {
        let id = match random.below(3) {
            0 => Bson::Int64(i64::from(number)),
            1 => Bson::String(format!("id{number}")),
            _ => Bson::Int32(number),
        };
        let mut document = doc! { "_id": id, "k": number % 5 };
        for name in ["a", "c"] {
            if random.below(5) > 0 {
                document.insert(name, value(&random, 2));
            }
        }
        client.ok("d", of(&doc! { "insert": "c", "documents": [document.clone()] })).await;
        stored.push(of(&document));
    }
    if !indexes.is_empty() {
        client.ok("d", of(&doc! { "createIndexes": "c", "indexes": indexes })).await;
    }
    for _ in 0..FILTERS {
        let mut filter = filter(&random);
        if is_sharded && random.below(2) == 0 {
            filter.insert("k", random.below(5) as i32);
        }
        let parsed = Filter::parse(&of(&filter), &Scope::new()).expect("a filter");
        let mut wanted: Vec<&Document> = Vec::new();
        for document in &stored {
            if parsed.matches(document, &mut Env::new(0, 1)).expect("it can be told") {
                wanted.push(document);
            }
        }
        let command = of(&doc! { "find": "c", "filter": filter.clone(), "batchSize": DOCUMENTS + 1 });
        let found = first_batch(&client.ok("d", command).await);
        let is_there = |document: &&&Document| found.iter().any(|other| identical_documents(document, other));
        let lost = wanted.iter().find(|document| !is_there(document));
        assert!(lost.is_none(), "{filter} misses {}", Value::document(Document::clone(lost.expect("one"))));
        assert_eq!(found.len(), wanted.len(), "{filter}");
    }
}

#[tokio::test]
async fn without_an_index() {
    check(vec![], None).await;
}

#[tokio::test]
async fn with_an_index_of_each_path() {
    let index = |path: &str| doc! { "key": { path: 1 }, "name": path };
    check(vec![index("a"), index("a.b"), index("c")], None).await;
}

#[tokio::test]
async fn with_summaries_of_all_arrays() {
    let limits = Limits { index_terms_exact_max: 0, ..Limits::default() };
    check_with(limits.clone(), vec![doc! { "key": { "$**": 1 }, "name": "all" }], None).await;
    let index = |path: &str| doc! { "key": { path: 1 }, "name": path };
    check_with(limits, vec![index("a"), index("a.b"), index("c")], None).await;
}

#[tokio::test]
async fn with_an_index_of_everything_in_a_sharded_collection() {
    check(vec![doc! { "key": { "$**": 1 }, "name": "all" }], Some(doc! { "k": "hashed" })).await;
}
