//! Collations of commands, collections, indexes and views. Answers do not depend on indexes or the number of partitions.

use bson::{Bson, doc};
use shardlake_account::{ItemWrite, SplitAt, WriteCommand, item_of_json};
use shardlake_model::{ErrorKind, PartitionKey, RequestContext};
use shardlake_mql::{
    Collation, Document, Env, Filter, Scope, SortPattern, Value, collation_of, identical_documents,
};
use shardlake_stdx::{Guid, Random};

use crate::client::{Client, Server, first_batch, of};

const DUPLICATE: i32 = 11000;
const NOT_ON_VIEW: i32 = 167;
const NONE: [i32; 0] = [];

fn no_case() -> bson::Document {
    doc! { "locale": "en", "strength": 2 }
}

async fn ok(client: &mut Client, command: bson::Document) -> Document {
    client.ok("d", of(&command)).await
}

async fn code(client: &mut Client, command: bson::Document) -> i32 {
    client.fails("d", of(&command)).await
}

/// The code of the first statement that failed.
async fn write_code(client: &mut Client, command: bson::Document) -> Option<i32> {
    let reply = ok(client, command).await;
    let errors = reply.value("writeErrors");
    errors.as_array()?.first()?.as_document()?.value("code").to_i32_exact()
}

/// The `_id`s of the documents that a command finds, in its order.
async fn ids(client: &mut Client, command: bson::Document) -> Vec<i32> {
    let found = first_batch(&ok(client, command).await);
    found.iter().map(|document| document.value("_id").to_i32_exact().expect("a number")).collect()
}

fn number(reply: &Document, name: &str) -> i32 {
    reply.value(name).to_i32_exact().expect("a number")
}

async fn filled(create: bson::Document) -> (Server, Client) {
    let server = Server::start().await;
    let mut client = server.connect();
    let mut command = doc! { "create": "c" };
    command.extend(create);
    ok(&mut client, command).await;
    let documents = vec![
        doc! { "_id": 1, "x": "apple", "v": 1, "tags": ["Red", "round"] },
        doc! { "_id": 2, "x": "Apple", "v": 2, "tags": ["red"], "in": { "y": "A" } },
        doc! { "_id": 3, "x": "banana", "v": 3, "tags": ["Yellow"], "in": { "y": "a" } },
        doc! { "_id": 4, "x": 5, "v": 4 },
    ];
    ok(&mut client, doc! { "insert": "c", "documents": documents }).await;
    (server, client)
}

#[tokio::test]
async fn commands_compare_strings_by_the_collation_that_they_state() {
    let (_server, mut client) = filled(doc! {}).await;
    let find = |filter: bson::Document| doc! { "find": "c", "filter": filter, "collation": no_case() };
    for (filter, found) in [
        (doc! { "x": "APPLE" }, vec![1, 2]),
        (doc! { "x": { "$in": ["APPLE", 5] } }, vec![1, 2, 4]),
        (doc! { "x": { "$gt": "APPLE" } }, vec![3]),
        (doc! { "x": { "$ne": "APPLE" } }, vec![3, 4]),
        (doc! { "tags": { "$all": ["RED", "ROUND"] } }, vec![1]),
        (doc! { "tags": { "$elemMatch": { "$eq": "RED" } } }, vec![1, 2]),
        (doc! { "in": { "y": "A" } }, vec![2, 3]),
        (doc! { "$expr": { "$eq": ["$in.y", "A"] } }, vec![2, 3]),
        (doc! { "x": { "$regex": "^APP" } }, vec![]),
        (doc! { "$or": [{ "x": "BANANA" }, { "v": 1 }] }, vec![1, 3]),
        (doc! { "$and": [{ "x": "APPLE" }, { "v": 2 }] }, vec![2]),
    ] {
        assert_eq!(ids(&mut client, find(filter.clone())).await, found, "{filter}");
    }
    assert_eq!(ids(&mut client, doc! { "find": "c", "filter": { "x": "APPLE" } }).await, NONE);
    let sorted = doc! { "find": "c", "sort": { "x": -1, "v": 1 }, "collation": no_case() };
    assert_eq!(ids(&mut client, sorted).await, [3, 1, 2, 4]);
    let count = doc! { "count": "c", "query": { "x": "APPLE" }, "collation": no_case() };
    assert_eq!(number(&ok(&mut client, count).await, "n"), 2);
    let distinct = doc! { "distinct": "c", "key": "x", "collation": no_case() };
    let values = ok(&mut client, distinct).await.value("values");
    assert_eq!(values.as_array().expect("a list").len(), 3);
    let pipeline = vec![
        doc! { "$match": { "x": { "$type": "string" } } },
        doc! { "$group": { "_id": "$x", "n": { "$sum": 1 } } },
        doc! { "$sort": { "_id": 1 } },
    ];
    let aggregate = doc! { "aggregate": "c", "pipeline": pipeline, "cursor": {}, "collation": no_case() };
    let groups = first_batch(&ok(&mut client, aggregate).await);
    assert_eq!(groups.iter().map(|group| number(group, "n")).collect::<Vec<_>>(), [2, 1]);
}

#[tokio::test]
async fn writes_compare_strings_by_the_collation_that_they_state() {
    let (_server, mut client) = filled(doc! {}).await;
    let update = |update: bson::Document| doc! { "update": "c", "updates": [update] };
    let changes = doc! { "$set": { "seen": true }, "$addToSet": { "tags": "RED" }, "$max": { "x": "APPLE" } };
    let statement = doc! { "q": { "x": "APPLE" }, "u": changes, "multi": true, "collation": no_case() };
    let reply = ok(&mut client, update(statement)).await;
    assert_eq!(number(&reply, "nModified"), 2);
    let lists = ids(&mut client, doc! { "find": "c", "filter": { "tags": "RED" } }).await;
    assert_eq!(lists, NONE, "an equal element is there");
    let filtered = doc! {
        "q": { "_id": 1 }, "u": { "$set": { "tags.$[t]": "blue" } }, "arrayFilters": [{ "t": "RED" }],
        "collation": no_case(),
    };
    ok(&mut client, update(filtered)).await;
    assert_eq!(ids(&mut client, doc! { "find": "c", "filter": { "tags": "blue" } }).await, [1]);
    let positional =
        doc! { "q": { "tags": "ROUND" }, "u": { "$set": { "tags.$": "flat" } }, "collation": no_case() };
    ok(&mut client, update(positional)).await;
    assert_eq!(ids(&mut client, doc! { "find": "c", "filter": { "tags": "flat" } }).await, [1]);
    let pulled = doc! { "q": { "_id": 3 }, "u": { "$pull": { "tags": "YELLOW" } }, "collation": no_case() };
    ok(&mut client, update(pulled)).await;
    assert_eq!(ids(&mut client, doc! { "find": "c", "filter": { "tags": [] } }).await, [3]);
    let modified = doc! {
        "findAndModify": "c", "query": { "x": "APPLE" }, "sort": { "v": -1 }, "update": { "$inc": { "v": 10 } },
        "collation": no_case(),
    };
    let value = ok(&mut client, modified).await.value("value");
    assert_eq!(number(value.as_document().expect("a document"), "_id"), 2);
    let upsert = doc! { "q": { "x": "BANANA" }, "u": { "$set": { "v": 0 } }, "upsert": true };
    let mut collated = upsert.clone();
    collated.insert("collation", no_case());
    assert_eq!(number(&ok(&mut client, update(collated)).await, "n"), 1);
    assert_eq!(number(&ok(&mut client, doc! { "count": "c" }).await, "n"), 4, "it was there");
    let delete = doc! { "q": { "x": "APPLE" }, "limit": 0, "collation": no_case() };
    let reply = ok(&mut client, doc! { "delete": "c", "deletes": [delete] }).await;
    assert_eq!(number(&reply, "n"), 2);
}

#[tokio::test]
async fn a_collection_gives_its_collation_to_operations_and_indexes() {
    let (_server, mut client) = filled(doc! { "collation": no_case() }).await;
    assert_eq!(ids(&mut client, doc! { "find": "c", "filter": { "x": "APPLE" } }).await, [1, 2]);
    let simple = doc! { "find": "c", "filter": { "x": "APPLE" }, "collation": { "locale": "simple" } };
    assert_eq!(ids(&mut client, simple).await, NONE);
    ok(&mut client, doc! { "createIndexes": "c", "indexes": [{ "key": { "x": 1 }, "name": "x_1" }] }).await;
    let simple = doc! { "key": { "v": 1 }, "name": "v_1", "collation": { "locale": "simple" } };
    ok(&mut client, doc! { "createIndexes": "c", "indexes": [simple] }).await;
    let whole = doc! {
        "locale": "en", "caseLevel": false, "caseFirst": "off", "strength": 2, "numericOrdering": false,
        "alternate": "non-ignorable", "maxVariable": "punct", "normalization": false, "backwards": false,
        "version": "57.1",
    };
    let listed = first_batch(&ok(&mut client, doc! { "listIndexes": "c" }).await);
    let shown: Vec<Option<Value>> = listed.iter().map(|index| index.get("collation").cloned()).collect();
    let whole = Value::document(of(&whole));
    let text = |value: &Option<Value>| value.as_ref().map(Value::to_string);
    let expected = [Some(whole.clone()), Some(whole.clone()), None];
    assert_eq!(shown.iter().map(text).collect::<Vec<_>>(), expected.iter().map(text).collect::<Vec<_>>());
    let collections = first_batch(&ok(&mut client, doc! { "listCollections": 1 }).await);
    let options = collections[0].value("options");
    assert_eq!(options.as_document().expect("options").value("collation").to_string(), whole.to_string());
    // The same index under another collation is another index.
    let other = doc! { "key": { "x": 1 }, "name": "x_1", "collation": { "locale": "fr" } };
    assert_eq!(code(&mut client, doc! { "createIndexes": "c", "indexes": [other.clone()] }).await, 86);
    let mut named = other;
    named.insert("name", "x_fr");
    ok(&mut client, doc! { "createIndexes": "c", "indexes": [named] }).await;
}

#[tokio::test]
async fn identities_are_unique_under_the_collation_of_their_collection() {
    let server = Server::start().await;
    let mut client = server.connect();
    ok(&mut client, doc! { "create": "c", "collation": no_case() }).await;
    ok(&mut client, doc! { "insert": "c", "documents": [{ "_id": "a/b" }, { "_id": "Öl" }, { "_id": 1 }] })
        .await;
    for id in ["A/B", "öl"] {
        let insert = doc! { "insert": "c", "documents": [{ "_id": id }] };
        assert_eq!(write_code(&mut client, insert).await, Some(DUPLICATE), "{id}");
    }
    // Another value is spelled like a text in storage: it is no text.
    let oid = bson::oid::ObjectId::from_bytes([0xAB; 12]);
    ok(&mut client, doc! { "insert": "c", "documents": [{ "_id": oid }, { "_id": oid.to_hex() }] }).await;
    let update = |id: &str, upsert: bool| {
        doc! {
            "update": "c", "updates": [{ "q": { "_id": id }, "u": { "$set": { "v": 1 } }, "upsert": upsert }],
        }
    };
    assert_eq!(number(&ok(&mut client, update("A/b", true)).await, "nModified"), 1);
    let found = first_batch(&ok(&mut client, doc! { "find": "c", "filter": { "_id": "A/B" } }).await);
    assert_eq!(found[0].value("_id").as_str(), Some("a/b"));
    let simple = doc! { "find": "c", "filter": { "_id": "A/B" }, "collation": { "locale": "simple" } };
    assert!(first_batch(&ok(&mut client, simple).await).is_empty());
    // A deleted identity is free again.
    ok(&mut client, doc! { "delete": "c", "deletes": [{ "q": { "_id": "ÖL" }, "limit": 1 }] }).await;
    ok(&mut client, doc! { "insert": "c", "documents": [{ "_id": "öl" }] }).await;
    // Through the NoSQL API, too.
    let ctx = RequestContext::internal(&server.clock, Guid([1; 16]));
    let container = server.account.router().container_for_items("d", "c").expect("the container");
    for (text, outcome) in [(r#"{"id":"ÖL"}"#, Some(ErrorKind::Conflict)), (r#"{"id":"new"}"#, None)] {
        let body = item_of_json(text.as_bytes(), server.account.router().limits()).expect("an item");
        let write = WriteCommand::of(Some(PartitionKey(vec![])), ItemWrite::Create { body });
        let refused = server.account.items().write_item(&ctx, &container, write).await.err();
        assert_eq!(refused.map(|error| error.kind()), outcome, "{text}");
    }
}

#[tokio::test]
async fn unique_indexes_compare_by_their_collation() {
    let (_server, mut client) = filled(doc! {}).await;
    let index = |name: &str, options: bson::Document| {
        let mut index = doc! { "key": { "x": 1 }, "name": name, "unique": true, "collation": no_case() };
        index.extend(options);
        doc! { "createIndexes": "c", "indexes": [index] }
    };
    assert_eq!(code(&mut client, index("u", doc! {})).await, DUPLICATE, "two documents are equal");
    ok(&mut client, doc! { "delete": "c", "deletes": [{ "q": { "_id": 2 }, "limit": 1 }] }).await;
    ok(&mut client, index("u", doc! {})).await;
    let insert = |id: i32, x: Bson| doc! { "insert": "c", "documents": [{ "_id": id, "x": x }] };
    assert_eq!(write_code(&mut client, insert(9, "APPLE".into())).await, Some(DUPLICATE));
    assert_eq!(write_code(&mut client, insert(9, "äpple".into())).await, None);
    let nested = |text: &str| Bson::Document(doc! { "y": [text, 1] });
    assert_eq!(write_code(&mut client, insert(10, nested("q"))).await, None);
    assert_eq!(write_code(&mut client, insert(11, nested("Q"))).await, Some(DUPLICATE));
    let update = doc! { "q": { "_id": 3 }, "u": { "$set": { "x": "aPPle" } } };
    let update = doc! { "update": "c", "updates": [update] };
    assert_eq!(write_code(&mut client, update).await, Some(DUPLICATE));
    // Applications add a user, and find it by another spelling.
    let find = doc! { "find": "c", "filter": { "x": "BANANA" }, "collation": no_case() };
    assert_eq!(ids(&mut client, find).await, [3]);
    // A partial index holds the documents that its filter matches by its own collation.
    ok(&mut client, doc! { "dropIndexes": "c", "index": "u" }).await;
    ok(&mut client, index("p", doc! { "partialFilterExpression": { "state": "on" } })).await;
    let insert = |id: i32, state: &str| doc! { "insert": "c", "documents": [{ "_id": id, "x": "pear", "state": state }] };
    assert_eq!(write_code(&mut client, insert(20, "ON")).await, None);
    assert_eq!(write_code(&mut client, insert(21, "off")).await, None);
    assert_eq!(write_code(&mut client, insert(22, "On")).await, Some(DUPLICATE));
}

#[tokio::test]
async fn views_have_collations_of_their_own() {
    let (_server, mut client) = filled(doc! { "collation": no_case() }).await;
    ok(&mut client, doc! { "create": "plain", "viewOn": "c", "pipeline": [] }).await;
    let view = doc! { "create": "view", "viewOn": "c", "pipeline": [], "collation": no_case() };
    ok(&mut client, view).await;
    let find = |name: &str| doc! { "find": name, "filter": { "x": "APPLE" } };
    assert_eq!(ids(&mut client, find("plain")).await, NONE, "a view does not inherit");
    assert_eq!(ids(&mut client, find("view")).await, [1, 2]);
    let mut other = find("plain");
    other.insert("collation", no_case());
    assert_eq!(code(&mut client, other).await, NOT_ON_VIEW);
    let lookup = |from: &str| {
        let stage = doc! { "$lookup": { "from": from, "localField": "x", "foreignField": "x", "as": "all" } };
        doc! { "aggregate": "c", "pipeline": [stage], "cursor": {} }
    };
    assert_eq!(code(&mut client, lookup("plain")).await, NOT_ON_VIEW);
    let joined = first_batch(&ok(&mut client, lookup("view")).await);
    let count = |document: &Document| document.value("all").as_array().map(|all| all.len());
    assert_eq!(joined.iter().map(count).collect::<Vec<_>>(), [Some(2), Some(2), Some(1), Some(1)]);
    let over = doc! { "create": "over", "viewOn": "view", "pipeline": [] };
    assert_eq!(code(&mut client, over).await, NOT_ON_VIEW);
}

#[tokio::test]
async fn merges_need_an_index_of_their_collation() {
    let (_server, mut client) = filled(doc! {}).await;
    ok(&mut client, doc! { "insert": "t", "documents": [{ "_id": 1, "x": "BANANA" }] }).await;
    let index = doc! { "key": { "x": 1 }, "name": "x", "unique": true, "collation": no_case() };
    ok(&mut client, doc! { "createIndexes": "t", "indexes": [index] }).await;
    let stages = vec![
        doc! { "$match": { "_id": 3 } },
        doc! { "$project": { "_id": 0, "x": 1, "v": 1 } },
        doc! { "$merge": { "into": "t", "on": "x" } },
    ];
    let merge = doc! { "aggregate": "c", "pipeline": stages, "cursor": {} };
    assert_eq!(code(&mut client, merge.clone()).await, 51183);
    let mut collated = merge;
    collated.insert("collation", no_case());
    ok(&mut client, collated).await;
    let found = first_batch(&ok(&mut client, doc! { "find": "t" }).await);
    assert_eq!((found.len(), found[0].value("v").to_i32_exact()), (1, Some(3)));
}

const DOCUMENTS: i32 = 120;
const QUESTIONS: usize = 150;

/// A random collation, often that of an index.
fn any_collation(random: &Random) -> bson::Document {
    match random.below(4) {
        0 => return no_case(),
        1 => return doc! { "locale": "sv" },
        _ => {}
    }
    let locale = ["en", "sv", "fr_CA", "de", "th", "tr"][random.below(6) as usize];
    let strength = 1 + random.below(5) as i32;
    let mut collation = doc! { "locale": locale, "strength": strength };
    for name in ["numericOrdering", "caseLevel"] {
        if random.below(3) == 0 {
            collation.insert(name, true);
        }
    }
    if random.below(3) == 0 {
        collation.insert("alternate", "shifted");
    }
    collation
}

fn any_text(random: &Random) -> Bson {
    const LETTERS: [&str; 11] = ["a", "A", "b", "B", "å", "é", "e", "1", "10", "-", " "];
    let letters = (0..random.below(3)).map(|_| LETTERS[random.below(11) as usize]);
    Bson::String(letters.collect())
}

fn any_value(random: &Random) -> Bson {
    match random.below(6) {
        0 => Bson::Int32(random.below(3) as i32),
        1 => Bson::Array((0..random.below(3)).map(|_| any_text(random)).collect()),
        2 => Bson::Document(doc! { "b": any_text(random) }),
        _ => any_text(random),
    }
}

fn any_condition(random: &Random) -> bson::Document {
    let path = ["a", "a.b", "k", "_id", "n"][random.below(5) as usize];
    let operator = ["$eq", "$gt", "$gte", "$lt", "$lte", "$in", "$ne"][random.below(7) as usize];
    let operand = match operator {
        "$in" => Bson::Array(vec![any_value(random), any_value(random)]),
        _ => any_value(random),
    };
    doc! { path: { operator: operand } }
}

fn any_filter(random: &Random) -> bson::Document {
    match random.below(4) {
        0 => doc! { "$or": [any_condition(random), any_condition(random)] },
        1 => doc! { "$and": [any_condition(random), any_condition(random)] },
        _ => any_condition(random),
    }
}

/// Compares the server's answers to random queries with those of the language over all documents.
async fn check(create: bson::Document, indexes: Vec<bson::Document>, splits: &[u32]) {
    let server = Server::start().await;
    let (mut client, random) = (server.connect(), Random::seeded(23));
    let mut command = doc! { "create": "c" };
    command.extend(create);
    ok(&mut client, command).await;
    let mut stored: Vec<Document> = Vec::new();
    for n in 0..DOCUMENTS {
        let id = if random.below(2) == 0 { Bson::Int32(n) } else { Bson::String(format!("a{n}")) };
        let k = any_text(&random);
        let document = doc! { "_id": id, "k": k, "n": random.below(3) as i32, "a": any_value(&random) };
        ok(&mut client, doc! { "insert": "c", "documents": [document.clone()] }).await;
        stored.push(of(&document));
    }
    if !indexes.is_empty() {
        ok(&mut client, doc! { "createIndexes": "c", "indexes": indexes }).await;
    }
    for range in splits {
        let handle = server.account.router().container_for_items("d", "c").expect("the container");
        let split =
            server.account.maintenance().split(&handle, *range, SplitAt::Middle).await.expect("begins");
        split.finished().await.expect("ends well");
    }
    for _ in 0..QUESTIONS {
        let (asked, filter) = (any_collation(&random), any_filter(&random));
        let collation: Collation = collation_of(&of(&asked)).expect("a collation");
        let parsed =
            Filter::parse(&of(&filter), &Scope::with_collation(collation.clone())).expect("a filter");
        let mut env = Env::new(0, 1);
        let mut wanted: Vec<Document> = stored.clone();
        wanted.retain(|document| parsed.matches(document, &mut env).expect("it can be told"));
        let command = doc! {
            "find": "c", "filter": filter.clone(), "collation": asked.clone(), "sort": { "a": 1 },
            "batchSize": DOCUMENTS + 1,
        };
        let found = first_batch(&ok(&mut client, command).await);
        let is_there = |document: &Document| found.iter().any(|other| identical_documents(document, other));
        assert!(wanted.iter().all(is_there), "{filter} {asked}");
        assert_eq!(found.len(), wanted.len(), "{filter} {asked}");
        let order = SortPattern::parse(&of(&doc! { "a": 1 }), &collation).expect("an order");
        let key = |document: &Document| order.key(&Value::document(document.clone())).expect("a key");
        let is_sorted = |pair: &[Document]| order.compare_keys(&key(&pair[0]), &key(&pair[1])).is_le();
        assert!(found.windows(2).all(is_sorted), "{filter} {asked}");
        let update = doc! { "q": filter.clone(), "u": { "$set": { "seen": true } }, "multi": true, "collation": asked };
        let reply = ok(&mut client, doc! { "update": "c", "updates": [update] }).await;
        assert_eq!(number(&reply, "n") as usize, wanted.len(), "{filter}");
        let clear = doc! { "q": {}, "u": { "$unset": { "seen": 1 } }, "multi": true };
        ok(&mut client, doc! { "update": "c", "updates": [clear] }).await;
    }
}

#[tokio::test]
async fn answers_are_those_of_a_scan_whatever_index_there_is() {
    check(doc! {}, vec![], &[]).await;
    let index = |path: &str, collation: bson::Document| {
        doc! { "key": { path: 1 }, "name": path, "collation": collation }
    };
    let simple = doc! { "locale": "simple" };
    let indexes = vec![index("a", simple.clone()), index("a.b", no_case()), index("k", simple)];
    check(doc! { "collation": { "locale": "sv" } }, indexes, &[]).await;
    let sv = || doc! { "locale": "sv" };
    let both = doc! { "key": { "k": 1, "a": -1 }, "name": "both", "collation": no_case() };
    let indexes = vec![index("a", sv()), index("a.b", no_case()), index("k", sv()), index("n", sv()), both];
    check(doc! { "collation": sv() }, indexes, &[]).await;
}

#[tokio::test]
async fn one_partition_answers_as_many_do() {
    check(doc! { "shardKey": { "k": "hashed" } }, vec![], &[]).await;
    let index = doc! { "key": { "a": 1 }, "name": "a", "collation": no_case() };
    check(doc! { "shardKey": { "k": "hashed" } }, vec![index], &[0, 1]).await;
}

#[tokio::test]
async fn plans_use_an_index_for_strings_of_its_own_collation_alone() {
    let (_server, mut client) = filled(doc! {}).await;
    let indexes = vec![
        doc! { "key": { "x": 1 }, "name": "x", "collation": no_case() },
        doc! { "key": { "tags": 1 }, "name": "tags" },
    ];
    ok(&mut client, doc! { "createIndexes": "c", "indexes": indexes }).await;
    for (filter, collation, stage) in [
        (doc! { "x": "apple" }, doc! {}, "COLLSCAN"),
        (doc! { "x": 5 }, doc! {}, "FETCH"),
        (doc! { "x": "APPLE" }, no_case(), "FETCH"),
        (doc! { "x": { "$in": ["APPLE", "pear"] }, "v": 1 }, no_case(), "FETCH"),
        (doc! { "x": { "$gt": "APPLE" } }, no_case(), "FETCH"),
        (doc! { "x": "apple" }, doc! { "locale": "en" }, "COLLSCAN"),
        (doc! { "tags": "red" }, doc! {}, "FETCH"),
        (doc! { "tags": "red" }, no_case(), "COLLSCAN"),
        (doc! { "_id": 1 }, no_case(), "IDHACK"),
        (doc! { "_id": "1" }, no_case(), "COLLSCAN"),
    ] {
        let find = doc! { "find": "c", "filter": filter.clone(), "collation": collation };
        let reply = ok(&mut client, doc! { "explain": find, "verbosity": "queryPlanner" }).await;
        let plan = reply.value("queryPlanner");
        let winning = plan.as_document().expect("a plan").value("winningPlan");
        assert_eq!(winning.as_document().expect("a plan").value("stage").as_str(), Some(stage), "{filter}");
    }
}

#[tokio::test]
async fn an_index_with_a_collation_narrows_what_is_read() {
    let server = Server::start().await;
    let mut client = server.connect();
    let index = doc! { "key": { "name": 1 }, "name": "name", "unique": true, "collation": no_case() };
    ok(&mut client, doc! { "create": "c", "collation": no_case() }).await;
    ok(&mut client, doc! { "createIndexes": "c", "indexes": [index] }).await;
    let documents: Vec<_> =
        (0..500).map(|n| doc! { "_id": format!("Id{n}"), "name": format!("User{n}") }).collect();
    ok(&mut client, doc! { "insert": "c", "documents": documents }).await;
    let long = "Long".repeat(100_000);
    ok(&mut client, doc! { "insert": "c", "documents": [{ "_id": "long", "name": &long }] }).await;
    for filter in [
        doc! { "name": "USER77" },
        doc! { "name": { "$in": ["USER77", "uSER78"] } },
        doc! { "name": long.to_uppercase() },
        doc! { "_id": "ID7" },
    ] {
        let find = doc! { "find": "c", "filter": filter.clone() };
        let reply = ok(&mut client, doc! { "explain": find.clone(), "verbosity": "executionStats" }).await;
        let stats = reply.value("executionStats");
        let examined = stats.as_document().expect("statistics").value("totalDocsExamined").to_i64_exact();
        let found = first_batch(&ok(&mut client, find).await).len() as i64;
        assert!(found > 0, "{filter}");
        assert_eq!(examined, Some(found), "{filter}");
    }
}

#[tokio::test]
async fn collations_that_the_tables_lack_are_refused_by_name() {
    let server = Server::start().await;
    let mut client = server.connect();
    let find = |collation: bson::Document| doc! { "find": "c", "collation": collation };
    assert_eq!(code(&mut client, find(doc! { "locale": "sv", "backwards": true })).await, 303);
    assert_eq!(code(&mut client, find(doc! { "locale": "klingon" })).await, 2);
    assert_eq!(code(&mut client, find(doc! { "locale": "en", "strength": 6 })).await, 2);
    ok(&mut client, find(doc! { "locale": "fr", "backwards": true })).await;
    let shard = doc! { "shardCollection": "d.s", "key": { "k": "hashed" }, "collation": no_case() };
    assert_eq!(client.fails("admin", of(&shard)).await, 2);
}

#[tokio::test]
async fn texts_that_begin_like_other_ids_are_found_by_their_collation() {
    let server = Server::start().await;
    let mut client = server.connect();
    let no_case = doc! { "locale": "en", "strength": 2 };
    ok(&mut client, doc! { "create": "c", "collation": no_case }).await;
    let texts =
        ["$num:abc", "$NUM:1", "$oid:x", "$hash:y", "$null:", "$str:z", "$bin:02:QUJD", "a/b", "$num:1"];
    let mut documents: Vec<_> = texts.iter().map(|id| doc! { "_id": *id }).collect();
    documents.push(doc! { "_id": 1 });
    let reply = ok(&mut client, doc! { "insert": "c", "documents": documents, "ordered": false }).await;
    assert_eq!(reply.value("n").to_i64_exact(), Some(9), "two of the texts differ in case only: {reply}");
    for text in texts {
        for asked in [text.to_lowercase(), text.to_uppercase()] {
            let find = doc! { "find": "c", "filter": { "_id": &asked } };
            assert_eq!(first_batch(&ok(&mut client, find).await).len(), 1, "{asked}");
        }
    }
    assert_eq!(first_batch(&ok(&mut client, doc! { "find": "c", "filter": { "_id": 1 } }).await).len(), 1);
}
