//! Capped collections: their bounds, their order, how they are made, and cursors that wait at their end.

use std::collections::VecDeque;
use std::time::Duration;

use bson::{Bson, doc};
use shardlake_account::{WriteCommand, item_of_json_in};
use shardlake_gateway_mongo::MongoSettings;
use shardlake_model::{PartitionKey, RequestContext};
use shardlake_mql::{Document, Value};
use shardlake_stdx::{Clock, Guid, Random};
use shardlake_storage::fault::FaultEngine;
use shardlake_storage::{Durability, Shard, ShardOptions};

use crate::client::{Client, NOW, Server, first_batch, of};

async fn over(engine: &FaultEngine) -> Server {
    let options = ShardOptions { durability: Durability::Sync, ..ShardOptions::memory() };
    let shard = Shard::with_engine(std::sync::Arc::new(engine.clone()), &options).expect("opens");
    Server::over(vec![shard], MongoSettings::default(), Clock::manual(NOW)).await
}

async fn ok(client: &mut Client, command: bson::Document) -> Document {
    client.ok("d", of(&command)).await
}

async fn fails(client: &mut Client, command: bson::Document) -> i32 {
    client.fails("d", of(&command)).await
}

/// Makes a capped collection `c`.
async fn capped(client: &mut Client, size: i32, max: Option<i32>) {
    let mut create = doc! { "create": "c", "capped": true, "size": size };
    max.into_iter().for_each(|max| drop(create.insert("max", max)));
    ok(client, create).await;
}

async fn insert(client: &mut Client, ids: impl IntoIterator<Item = i32>) -> Document {
    let documents: Vec<_> = ids.into_iter().map(|id| doc! { "_id": id }).collect();
    ok(client, doc! { "insert": "c", "documents": documents }).await
}

fn number(document: &Document, name: &str) -> i64 {
    document.value(name).to_i64_exact().unwrap_or_default()
}

fn ids(documents: &[Document]) -> Vec<i64> {
    documents.iter().map(|document| number(document, "_id")).collect()
}

async fn found(client: &mut Client, fields: bson::Document) -> Vec<i64> {
    let mut find = doc! { "find": "c", "batchSize": 100_000 };
    find.extend(fields);
    ids(&first_batch(&ok(client, find).await))
}

/// A cursor and its last batch.
struct Cursor {
    id: i64,
    batch: Vec<i64>,
}

impl Cursor {
    fn of(reply: &Document) -> Cursor {
        let cursor = reply.value("cursor");
        let cursor = cursor.as_document().expect("a cursor");
        let batch = ["firstBatch", "nextBatch"].map(|name| cursor.value(name));
        let batch = batch.iter().find_map(Value::as_array).expect("a batch");
        let documents: Vec<Document> =
            batch.iter().filter_map(Value::as_document).map(|found| Document::clone(found)).collect();
        Cursor { id: number(cursor, "id"), batch: ids(&documents) }
    }

    async fn open(client: &mut Client, fields: bson::Document) -> Cursor {
        let mut find = doc! { "find": "c", "tailable": true };
        find.extend(fields);
        Cursor::of(&ok(client, find).await)
    }

    fn more(&self) -> bson::Document {
        doc! { "getMore": self.id, "collection": "c" }
    }

    async fn next(&mut self, client: &mut Client) -> Vec<i64> {
        let id = self.id;
        *self = Cursor::of(&ok(client, self.more()).await);
        assert!([0, id].contains(&self.id));
        self.batch.clone()
    }
}

#[tokio::test]
async fn a_capped_collection_is_described_by_its_options() {
    let server = Server::start().await;
    let mut client = server.connect();
    for (options, code) in [
        (doc! {}, 72),
        (doc! { "size": 0 }, 2),
        (doc! { "size": -5 }, 2),
        (doc! { "size": 1i64 << 51 }, 2),
        (doc! { "size": 4096, "max": 1i64 << 31 }, 2),
        (doc! { "size": 4096, "shardKey": { "a": "hashed" } }, 72),
        (doc! { "size": 4096, "viewOn": "x" }, 72),
    ] {
        let mut create = doc! { "create": "c", "capped": true };
        create.extend(options.clone());
        assert_eq!(fails(&mut client, create).await, code, "{options}");
    }
    assert_eq!(fails(&mut client, doc! { "create": "c", "size": 4096 }).await, 72);
    for (asked, given) in [(1, 4096), (4096, 4096), (4097, 4352), (5000, 5120)] {
        capped(&mut client, asked, Some(7)).await;
        // Repeating the same command is no error.
        capped(&mut client, asked, Some(7)).await;
        let listed = first_batch(&ok(&mut client, doc! { "listCollections": 1 }).await);
        let options = listed[0].value("options");
        let options = options.as_document().expect("options");
        assert!(options.value("capped").is_true());
        assert_eq!((number(options, "size"), number(options, "max")), (given, 7), "{asked}");
        let stats = ok(&mut client, doc! { "collStats": "c", "scale": 2 }).await;
        assert!(stats.value("capped").is_true());
        assert_eq!((number(&stats, "maxSize"), number(&stats, "max")), (given / 2, 7), "{asked}");
        let hashed = ok(&mut client, doc! { "dbHash": 1, "excludeCapped": true }).await;
        assert_eq!(hashed.value("capped").as_array().map(|names| names.len()), Some(1));
        ok(&mut client, doc! { "drop": "c" }).await;
    }
    ok(&mut client, doc! { "create": "c" }).await;
    assert_eq!(fails(&mut client, doc! { "collMod": "c", "cappedMax": 5 }).await, 72);
    let stats = ok(&mut client, doc! { "collStats": "c" }).await;
    assert!(!stats.value("capped").is_true() && !stats.has("maxSize"));
}

#[tokio::test]
async fn commands_that_a_capped_collection_does_not_take_are_refused() {
    let server = Server::start().await;
    let mut client = server.connect();
    capped(&mut client, 4096, None).await;
    insert(&mut client, 0..3).await;
    ok(&mut client, doc! { "insert": "other", "documents": [{ "_id": 10 }] }).await;
    let out = doc! { "aggregate": "other", "pipeline": [{ "$out": "c" }], "cursor": {} };
    assert_eq!(fails(&mut client, out).await, 17152);
    let merge = doc! { "aggregate": "other", "pipeline": [{ "$merge": "c" }], "cursor": {} };
    ok(&mut client, merge).await;
    assert_eq!(found(&mut client, doc! {}).await, [0, 1, 2, 10]);
    let session = Bson::Document(
        doc! { "id": bson::Binary { subtype: bson::spec::BinarySubtype::Uuid, bytes: vec![7; 16] } },
    );
    for (n, write) in [
        doc! { "insert": "c", "documents": [{ "_id": 5 }] },
        doc! { "update": "c", "updates": [{ "q": {}, "u": { "$set": { "a": 1 } } }] },
        doc! { "delete": "c", "deletes": [{ "q": {}, "limit": 1 }] },
    ]
    .into_iter()
    .enumerate()
    {
        let mut write = write;
        write.extend(doc! {
            "lsid": session.clone(), "txnNumber": n as i64 + 1, "startTransaction": true, "autocommit": false,
        });
        assert_eq!(fails(&mut client, write.clone()).await, 263, "{write}");
    }
    let shard = doc! { "shardCollection": "d.c", "key": { "a": "hashed" } };
    assert_eq!(client.fails("admin", of(&shard)).await, 20);
    let large = doc! { "insert": "c", "documents": [{ "_id": 6, "s": "x".repeat(5000) }, { "_id": 7 }], "ordered": false };
    let reply = ok(&mut client, large).await;
    let errors = reply.value("writeErrors");
    let error = errors.as_array().expect("errors")[0].as_document().cloned().expect("an error");
    assert_eq!((number(&reply, "n"), number(&error, "code")), (1, 2));
    assert_eq!(found(&mut client, doc! {}).await, [0, 1, 2, 10, 7]);
    // The same through a view, and with a cursor of several batches.
    ok(&mut client, doc! { "create": "v", "viewOn": "c" }).await;
    assert_eq!(ids(&first_batch(&ok(&mut client, doc! { "find": "v" }).await)), [0, 1, 2, 10, 7]);
    let mut cursor = Cursor::of(&ok(&mut client, doc! { "find": "c", "batchSize": 2 }).await);
    assert_eq!(cursor.batch, [0, 1]);
    assert_eq!(cursor.next(&mut client).await, [2, 10, 7]);
    // Deletes are allowed, and an update leaves a document in its place.
    ok(&mut client, doc! { "delete": "c", "deletes": [{ "q": { "_id": 1 }, "limit": 1 }] }).await;
    let update = doc! { "q": { "_id": 0 }, "u": { "$set": { "a": "grown" } } };
    ok(&mut client, doc! { "update": "c", "updates": [update] }).await;
    assert_eq!(found(&mut client, doc! { "sort": { "$natural": -1 } }).await, [7, 10, 2, 0]);
    assert_eq!(found(&mut client, doc! { "hint": { "$natural": -1 }, "limit": 2 }).await, [7, 10]);
    assert_eq!(
        found(&mut client, doc! { "filter": { "_id": { "$gt": 1 } }, "hint": { "$natural": 1 } }).await,
        [2, 10, 7]
    );
}

/// Model of a capped collection.
#[derive(Default)]
struct Model {
    documents: VecDeque<(i32, usize)>,
    size: usize,
    max: usize,
}

/// Bytes of a document besides its text, at most.
const BESIDES: usize = 64;

impl Model {
    fn ids(&self) -> Vec<i64> {
        self.documents.iter().map(|(id, _)| i64::from(*id)).collect()
    }

    /// Takes over the documents found, which must be the newest, and as many as fit.
    fn keep(&mut self, found: &[i64], words: &str) {
        let gone = self.documents.len().checked_sub(found.len()).expect("no more than were inserted");
        assert_eq!(self.ids()[gone..], *found, "{words}: the newest are kept");
        let text = |documents: &mut dyn Iterator<Item = &(i32, usize)>| {
            documents.map(|(_, size)| *size).sum::<usize>()
        };
        let kept = text(&mut self.documents.iter().skip(gone));
        assert!(
            kept <= self.size && found.len() <= self.max,
            "{words}: {kept} bytes, {} documents",
            found.len()
        );
        if gone > 0 {
            let one_more = text(&mut self.documents.iter().skip(gone - 1)) + BESIDES * (found.len() + 1);
            assert!(one_more > self.size || found.len() == self.max, "{words}: too many went");
        }
        self.documents.drain(..gone);
    }
}

#[tokio::test]
async fn random_writes_leave_the_newest_documents_in_their_order() {
    for seed in 0..6 {
        let (server, random) = (Server::start().await, Random::seeded(seed));
        let mut client = server.connect();
        let mut model = Model { size: 4096, max: usize::MAX, ..Model::default() };
        capped(&mut client, 4096, None).await;
        let index = doc! { "key": { "k": 1 }, "name": "k" };
        ok(&mut client, doc! { "createIndexes": "c", "indexes": [index] }).await;
        let mut next = 0;
        let mut new = |model: &mut Model| {
            next += 1;
            let size = random.below(400) as usize;
            model.documents.push_back((next, size));
            doc! { "_id": next, "s": "x".repeat(size), "k": next % 5 }
        };
        for round in 0..120 {
            let words = format!("round {round} of {seed}");
            let any = |model: &Model| match model.documents.len() {
                0 => 0,
                len => random.below(len as u64) as usize,
            };
            let mut trims = true;
            match random.below(10) {
                0..4 => {
                    let documents: Vec<_> = (0..=random.below(30)).map(|_| new(&mut model)).collect();
                    let is_ordered = random.below(2) == 0;
                    ok(&mut client, doc! { "insert": "c", "documents": documents, "ordered": is_ordered })
                        .await;
                }
                4 => {
                    let document = new(&mut model);
                    let update = doc! { "q": { "_id": document.get("_id") }, "u": document, "upsert": true };
                    ok(&mut client, doc! { "update": "c", "updates": [update] }).await;
                }
                5 if !model.documents.is_empty() => {
                    trims = false;
                    let place = any(&model);
                    let size = random.below(400) as usize;
                    model.documents[place].1 = size;
                    let update = doc! { "q": { "_id": model.documents[place].0 }, "u": { "$set": { "s": "y".repeat(size) } } };
                    ok(&mut client, doc! { "update": "c", "updates": [update] }).await;
                }
                6 if !model.documents.is_empty() => {
                    trims = false;
                    let (id, _) = model.documents.remove(any(&model)).expect("there");
                    ok(&mut client, doc! { "delete": "c", "deletes": [{ "q": { "_id": id }, "limit": 1 }] })
                        .await;
                }
                7 => {
                    model.max = 1 + random.below(20) as usize;
                    ok(&mut client, doc! { "collMod": "c", "cappedMax": model.max as i32 }).await;
                }
                8 => {
                    model.size = 4096 + 256 * random.below(20) as usize;
                    ok(&mut client, doc! { "collMod": "c", "cappedSize": model.size as i32 }).await;
                }
                _ => {
                    (model.size, model.max) = (4096 + 256 * random.below(20) as usize, usize::MAX);
                    ok(&mut client, doc! { "convertToCapped": "c", "size": model.size as i32 }).await;
                }
            }
            let found_now = found(&mut client, doc! {}).await;
            match trims {
                true => model.keep(&found_now, &words),
                // An update may make a document larger; the next insert makes room.
                false => assert_eq!(found_now, model.ids(), "{words}"),
            }
            let mut backwards = found(&mut client, doc! { "sort": { "$natural": -1 } }).await;
            backwards.reverse();
            assert_eq!(backwards, found_now, "{words}");
            let mut by_index = found(&mut client, doc! { "filter": { "k": 3 } }).await;
            by_index.sort_unstable();
            let of_index: Vec<i64> = found_now.iter().copied().filter(|id| id % 5 == 3).collect();
            assert_eq!(by_index, of_index, "{words}: the index follows");
            let in_order = found(&mut client, doc! { "filter": { "k": 3 }, "sort": { "$natural": 1 } }).await;
            assert_eq!(in_order, of_index, "{words}");
        }
        let valid = ok(&mut client, doc! { "validate": "c" }).await;
        assert!(valid.value("valid").is_true(), "{seed}");
        assert_eq!(number(&ok(&mut client, doc! { "count": "c" }).await, "n"), model.documents.len() as i64);
    }
}

#[tokio::test]
async fn concurrent_writers_never_bring_a_collection_beyond_its_bounds() {
    let server = Server::start().await;
    let mut client = server.connect();
    for max in [1, 7, 40] {
        capped(&mut client, 1 << 20, Some(max)).await;
        let writers = (0..8).map(|writer| {
            let mut client = server.connect();
            async move {
                for round in 0..25 {
                    let first = 1000 * writer + 10 * round;
                    let count = 1 + (writer + round) % 3;
                    let documents: Vec<_> = (first..first + count).map(|id| doc! { "_id": id }).collect();
                    ok(&mut client, doc! { "insert": "c", "documents": documents }).await;
                    let found = found(&mut client, doc! {}).await;
                    assert!(found.len() <= max as usize, "{} of {max}", found.len());
                }
            }
        });
        futures::future::join_all(writers).await;
        // The documents of each writer keep its order.
        let kept = found(&mut client, doc! {}).await;
        assert_eq!(kept.len(), max as usize);
        for writer in 0..8 {
            let own: Vec<i64> = kept.iter().copied().filter(|id| id / 1000 == writer).collect();
            assert!(own.is_sorted(), "{own:?}");
        }
        ok(&mut client, doc! { "drop": "c" }).await;
    }
}

#[tokio::test]
async fn one_large_document_takes_the_place_of_very_many() {
    const SMALL: i32 = 6000;
    let server = Server::start().await;
    let mut client = server.connect();
    let large = doc! { "_id": SMALL, "s": "x".repeat((1 << 20) - 2000) };
    let insert_of_it = doc! { "insert": "c", "documents": [large.clone()] };
    let upsert = |update: bson::Document| doc! { "q": { "_id": SMALL }, "u": update, "upsert": true };
    let fields = doc! { "$set": { "s": "x".repeat((1 << 20) - 2000) } };
    let modify =
        doc! { "findAndModify": "c", "query": { "_id": SMALL }, "update": fields.clone(), "upsert": true };
    for write in [
        insert_of_it.clone(),
        doc! { "update": "c", "updates": [upsert(large)] },
        doc! { "update": "c", "updates": [upsert(fields)] },
        modify,
    ] {
        capped(&mut client, 1 << 20, None).await;
        for first in (0..SMALL).step_by(1000) {
            insert(&mut client, first..first + 1000).await;
        }
        assert_eq!(found(&mut client, doc! {}).await.len(), SMALL as usize);
        let reply = ok(&mut client, write).await;
        assert!(!reply.has("writeErrors"), "{reply}");
        let kept = found(&mut client, doc! {}).await;
        assert!((2..200).contains(&kept.len()), "{}", kept.len());
        assert_eq!(kept, (i64::from(SMALL) + 1 - kept.len() as i64..=i64::from(SMALL)).collect::<Vec<_>>());
        // A refused duplicate removes no document.
        ok(&mut client, insert_of_it.clone()).await;
        assert_eq!(found(&mut client, doc! {}).await, kept);
        ok(&mut client, doc! { "drop": "c" }).await;
    }
}

#[tokio::test]
async fn documents_beyond_the_size_of_a_collection_take_few_commits() {
    const DOCUMENTS: i32 = 600;
    let engine = FaultEngine::new();
    let server = over(&engine).await;
    let mut client = server.connect();
    for (is_ordered, broken) in [(true, None), (false, None), (true, Some(450)), (false, Some(450))] {
        capped(&mut client, 8192, None).await;
        let mut documents: Vec<_> =
            (0..DOCUMENTS).map(|id| doc! { "_id": id, "s": "x".repeat(500) }).collect();
        broken.into_iter().for_each(|place: usize| documents[place] = documents[place - 1].clone());
        let before = engine.applies();
        let insert = doc! { "insert": "c", "documents": documents, "ordered": is_ordered };
        let reply = ok(&mut client, insert).await;
        let commits = engine.applies() - before;
        let last = match (is_ordered, broken) {
            (true, Some(place)) => place as i64 - 1,
            _ => i64::from(DOCUMENTS) - 1,
        };
        assert_eq!(number(&reply, "n"), last + 1 - i64::from(!is_ordered && broken.is_some()), "{reply}");
        let kept = found(&mut client, doc! {}).await;
        let expected: Vec<i64> =
            (0..=last).filter(|id| is_ordered || Some(*id) != broken.map(|id| id as i64)).collect();
        assert!((8..20).contains(&kept.len()), "{}", kept.len());
        assert_eq!(kept, expected[expected.len() - kept.len()..]);
        assert!(commits < 150, "{commits} commits for {DOCUMENTS} documents");
        ok(&mut client, doc! { "drop": "c" }).await;
    }
}

#[tokio::test]
async fn the_other_front_end_keeps_to_the_bounds() {
    let server = Server::start().await;
    let mut client = server.connect();
    capped(&mut client, 4096, Some(3)).await;
    insert(&mut client, 0..3).await;
    let container = server.account.router().container_for_items("d", "c").expect("the container");
    let ctx = RequestContext::internal(&server.clock, Guid([1; 16]));
    let body = item_of_json_in(br#"{"id":"text"}"#, server.account.router().limits(), true).expect("an item");
    let create = shardlake_account::ItemWrite::Create { body };
    let command = WriteCommand::of(Some(PartitionKey(vec![])), create);
    server.account.items().write_item(&ctx, &container, command).await.expect("written");
    let reply = ok(&mut client, doc! { "find": "c" }).await;
    let names: Vec<Value> = first_batch(&reply).iter().map(|document| document.value("_id")).collect();
    assert_eq!(names.len(), 3);
    assert_eq!(names[2].as_str(), Some("text"));
    assert_eq!(names[0].to_i32_exact(), Some(1));
}

#[tokio::test]
async fn a_copy_is_capped_and_has_the_newest_documents() {
    let server = Server::start().await;
    let mut client = server.connect();
    assert_eq!(fails(&mut client, doc! { "convertToCapped": "none", "size": 4096 }).await, 26);
    assert_eq!(fails(&mut client, doc! { "convertToCapped": "c" }).await, 40414);
    assert_eq!(fails(&mut client, doc! { "convertToCapped": "c", "size": 0 }).await, 72);
    for first in (0..300).step_by(100) {
        insert(&mut client, (first..first + 100).rev()).await;
    }
    let clone = doc! { "cloneCollectionAsCapped": "c", "toCollection": "copy", "size": 4096 };
    ok(&mut client, clone.clone()).await;
    assert_eq!(fails(&mut client, clone).await, 48);
    let copy = ids(&first_batch(&ok(&mut client, doc! { "find": "copy", "batchSize": 1000 }).await));
    let inserted: Vec<i64> =
        [99, 199, 299].into_iter().flat_map(|last: i64| (last - 99..=last).rev()).collect();
    assert!((40..300).contains(&copy.len()), "{}", copy.len());
    assert_eq!(copy, inserted[300 - copy.len()..]);
    assert_eq!(found(&mut client, doc! {}).await.len(), 300, "the source stays");
    ok(&mut client, doc! { "convertToCapped": "c", "size": 4096 }).await;
    assert_eq!(found(&mut client, doc! {}).await, copy);
    ok(&mut client, doc! { "create": "s", "shardKey": { "_id": "hashed" } }).await;
    assert_eq!(fails(&mut client, doc! { "convertToCapped": "s", "size": 4096 }).await, 20);
}

const DOCUMENTS: i32 = 5000;

/// A collection that loses most of its documents when it becomes capped, in several commits.
async fn filled(engine: &FaultEngine) -> (Server, Client) {
    let server = over(engine).await;
    let mut client = server.connect();
    for first in (0..DOCUMENTS).step_by(1000) {
        insert(&mut client, first..first + 1000).await;
    }
    (server, client)
}

/// Whether the collection is capped. A capped collection must be within its bounds, another one must have all documents.
async fn check_ended(engine: &FaultEngine, place: &str) -> bool {
    let server = over(engine).await;
    let mut client = server.connect();
    let stats = ok(&mut client, doc! { "collStats": "c" }).await;
    let is_capped = stats.value("capped").is_true();
    let kept = found(&mut client, doc! { "sort": { "_id": 1 } }).await;
    let is_right = if is_capped { (20..300).contains(&kept.len()) } else { kept.len() == DOCUMENTS as usize };
    assert!(is_right, "{place}: {is_capped} with {}", kept.len());
    assert_eq!(kept.last(), Some(&(i64::from(DOCUMENTS) - 1)), "{place}");
    assert_eq!(kept[0], i64::from(DOCUMENTS) - kept.len() as i64, "{place}");
    insert(&mut client, DOCUMENTS..=DOCUMENTS).await;
    let last = found(&mut client, doc! { "sort": { "_id": -1 }, "limit": 1 }).await;
    assert_eq!(last, [i64::from(DOCUMENTS)], "{place}");
    is_capped
}

#[tokio::test]
async fn a_process_that_ends_during_a_conversion_leaves_the_old_collection_or_the_new_one() {
    let mut seen = [false; 2];
    for commit in 0..20 {
        let engine = FaultEngine::new();
        let (_server, mut client) = filled(&engine).await;
        engine.stall_syncs_after(commit);
        let running = client.run("d", of(&doc! { "convertToCapped": "c", "size": 4096 }));
        futures::pin_mut!(running);
        let has_ended = loop {
            if futures::poll!(&mut running).is_ready() {
                break true;
            }
            if engine.is_stalling() {
                break false;
            }
            tokio::task::yield_now().await;
        };
        let left = [engine.crash(0), engine.crash(usize::MAX)];
        engine.stall_syncs(false);
        for (engine, lucky) in left.iter().zip(["lost", "kept"]) {
            let is_capped = check_ended(engine, &format!("commit {commit}, which is {lucky}")).await;
            seen[usize::from(is_capped)] = true;
            assert!(is_capped || !has_ended);
        }
        if has_ended {
            assert_eq!(seen, [true; 2]);
            assert!(commit > 1, "the documents are removed in one commit");
            return;
        }
    }
    panic!("a conversion makes fewer commits");
}

#[tokio::test]
async fn a_power_cut_leaves_the_newest_documents_that_were_acknowledged() {
    for commit in [0, 1, 3, 6] {
        let engine = FaultEngine::new();
        let server = over(&engine).await;
        let mut client = server.connect();
        capped(&mut client, 1 << 16, Some(5)).await;
        engine.stall_syncs_after(commit);
        let mut acknowledged = 0;
        for id in 1..10 {
            let write = insert(&mut client, [id]);
            futures::pin_mut!(write);
            let is_acknowledged = loop {
                if futures::poll!(&mut write).is_ready() {
                    break true;
                }
                if engine.is_stalling() {
                    break false;
                }
                tokio::task::yield_now().await;
            };
            if !is_acknowledged {
                break;
            }
            acknowledged = id;
        }
        let left = [engine.crash(0), engine.crash(usize::MAX)];
        engine.stall_syncs(false);
        for (engine, lucky) in left.iter().zip(["lost", "kept"]) {
            let again = over(engine).await;
            let kept = found(&mut again.connect(), doc! {}).await;
            let last = kept.last().copied().unwrap_or_default();
            assert!([acknowledged, acknowledged + 1].contains(&(last as i32)), "{acknowledged}: {kept:?}");
            let expected: Vec<i64> = (1.max(last - 4)..=last).collect();
            assert_eq!(kept, expected, "{commit}, {lucky}");
        }
    }
}

#[tokio::test]
async fn a_tailable_cursor_goes_on_with_what_is_inserted() {
    let server = Server::start().await;
    let mut client = server.connect();
    for (fields, code) in [
        (doc! { "awaitData": true, "tailable": false }, 9),
        (doc! { "sort": { "_id": 1 } }, 2),
        (doc! { "sort": { "$natural": -1 } }, 2),
        (doc! { "singleBatch": true }, 2),
    ] {
        let mut find = doc! { "find": "c", "tailable": true };
        find.extend(fields);
        assert_eq!(fails(&mut client, find.clone()).await, code, "{find}");
    }
    assert_eq!(Cursor::open(&mut client, doc! {}).await.id, 0, "there is no collection");
    ok(&mut client, doc! { "create": "c" }).await;
    assert_eq!(fails(&mut client, doc! { "find": "c", "tailable": true }).await, 2);
    ok(&mut client, doc! { "drop": "c" }).await;
    capped(&mut client, 1 << 16, Some(5)).await;
    assert_eq!(Cursor::open(&mut client, doc! {}).await.id, 0, "an empty one has no position");
    insert(&mut client, 0..3).await;
    let mut even = Cursor::open(&mut client, doc! { "filter": { "_id": { "$mod": [2, 0] } } }).await;
    let mut cursor = Cursor::open(&mut client, doc! { "batchSize": 2, "sort": { "$natural": 1 } }).await;
    let mut none = Cursor::open(&mut client, doc! { "filter": { "_id": 100 } }).await;
    let mut two = Cursor::open(&mut client, doc! { "limit": 4, "skip": 1 }).await;
    assert_eq!((cursor.batch.clone(), even.batch.clone()), (vec![0, 1], vec![0, 2]));
    assert!(none.id != 0 && none.batch.is_empty());
    assert_eq!(two.batch, [1, 2]);
    assert_eq!(cursor.next(&mut client).await, [2]);
    assert_eq!(cursor.next(&mut client).await, [] as [i64; 0]);
    assert!(cursor.id != 0);
    let more = doc! { "getMore": cursor.id, "collection": "c", "maxTimeMS": 100 };
    assert_eq!(fails(&mut client, more).await, 2, "it does not wait");
    insert(&mut client, 3..5).await;
    assert_eq!(cursor.next(&mut client).await, [3, 4]);
    assert_eq!(even.next(&mut client).await, [4]);
    assert_eq!(two.next(&mut client).await, [3, 4]);
    assert_eq!(two.id, 0, "it has returned its limit");
    insert(&mut client, [100]).await;
    assert_eq!(none.next(&mut client).await, [100]);
    // No document after the cursor's position was removed.
    insert(&mut client, 101..104).await;
    assert_eq!(cursor.next(&mut client).await, [100, 101, 102, 103]);
    assert_eq!(even.next(&mut client).await, [100, 102]);
    insert(&mut client, 200..206).await;
    assert_eq!(fails(&mut client, cursor.more()).await, 136, "its position was removed");
    assert_eq!(fails(&mut client, cursor.more()).await, 43, "it is closed");
    let mut last = Cursor::open(&mut client, doc! {}).await;
    assert_eq!(last.batch, [201, 202, 203, 204, 205]);
    ok(&mut client, doc! { "drop": "c" }).await;
    assert_eq!(fails(&mut client, last.more()).await, 175);
    last.id = 0;
}

#[tokio::test]
async fn a_cursor_that_awaits_data_is_woken_by_an_insert() {
    let engine = FaultEngine::new();
    let server = over(&engine).await;
    let (mut client, mut reader) = (server.connect(), server.connect());
    capped(&mut client, 1 << 16, None).await;
    insert(&mut client, [0]).await;
    let mut cursor = Cursor::open(&mut reader, doc! { "awaitData": true }).await;
    assert_eq!(cursor.batch, [0]);
    let mut more = cursor.more();
    more.insert("maxTimeMS", 600_000);
    for id in 1..4 {
        let waiting = reader.run("d", of(&more));
        futures::pin_mut!(waiting);
        tokio::time::pause();
        let early = tokio::time::timeout(Duration::from_millis(500), &mut waiting).await;
        assert!(early.is_err(), "it waits");
        engine.stall_syncs(true);
        let mut writing = {
            let mut writer = server.connect();
            tokio::spawn(async move { insert(&mut writer, [id]).await })
        };
        let early = tokio::time::timeout(Duration::from_secs(5), &mut writing).await;
        assert!(early.is_err(), "the insert is not durable");
        let early = tokio::time::timeout(Duration::from_secs(5), &mut waiting).await;
        assert!(early.is_err(), "what is not acknowledged is not shown");
        tokio::time::resume();
        engine.stall_syncs(false);
        cursor = Cursor::of(&waiting.await);
        assert_eq!(cursor.batch, [i64::from(id)]);
        assert_eq!(number(&writing.await.expect("no panic"), "n"), 1);
    }
    // Without a time it waits for a second.
    tokio::time::pause();
    let by_default = of(&cursor.more());
    {
        let waiting = reader.run("d", by_default);
        futures::pin_mut!(waiting);
        assert!(tokio::time::timeout(Duration::from_millis(900), &mut waiting).await.is_err());
        let reply = tokio::time::timeout(Duration::from_millis(200), &mut waiting).await;
        cursor = Cursor::of(&reply.expect("it has waited for a second"));
    }
    assert!(cursor.id != 0 && cursor.batch.is_empty());
    let at_once = doc! { "getMore": cursor.id, "collection": "c", "maxTimeMS": 0 };
    let reply = tokio::time::timeout(Duration::from_millis(200), ok(&mut reader, at_once)).await;
    assert!(Cursor::of(&reply.expect("it does not wait")).batch.is_empty());
    let waiting = reader.run("d", of(&more));
    futures::pin_mut!(waiting);
    assert!(tokio::time::timeout(Duration::from_millis(500), &mut waiting).await.is_err());
    tokio::time::resume();
    ok(&mut client, doc! { "drop": "c" }).await;
    assert_eq!(number(&waiting.await, "code"), 175);
}
