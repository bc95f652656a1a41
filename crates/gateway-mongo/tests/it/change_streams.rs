//! Change streams: their events, their resumption, and their ends.

use std::collections::BTreeMap;
use std::time::Duration;

use bson::doc;
use shardlake_account::{ItemOperation, ItemWrite, KeyedOperation, SplitAt, item_of_json};
use shardlake_model::{PartitionKey, RequestContext};
use shardlake_mql::{Document, Value};
use shardlake_stdx::Guid;

use crate::client::{Client, Server, of};

/// A change stream, read as a driver does.
pub struct Stream {
    pub id: i64,
    pub collection: String,
    /// The token of the last batch.
    pub token: Document,
}

impl Stream {
    /// Opens a stream on a collection of the database `d`. Events of the first batch are left to `getMore`.
    pub async fn open(client: &mut Client, collection: &str, fields: bson::Document) -> Stream {
        Stream::open_with(client, collection, fields, vec![]).await
    }

    async fn open_with(
        client: &mut Client,
        collection: &str,
        fields: bson::Document,
        stages: Vec<bson::Document>,
    ) -> Stream {
        let command = aggregate(collection, fields, stages);
        let reply = client.ok("d", of(&command)).await;
        let cursor = reply.value("cursor");
        let cursor = cursor.as_document().expect("a cursor");
        assert!(cursor.value("firstBatch").as_array().expect("a list").is_empty());
        let id = cursor.value("id").to_i64_exact().expect("a number");
        Stream { id, collection: collection.to_owned(), token: token(cursor) }
    }

    /// The next available events, at most so many, without waiting.
    pub async fn next(&mut self, client: &mut Client, batch_size: i32) -> Vec<Document> {
        self.wait(client, batch_size, 1).await
    }

    async fn wait(&mut self, client: &mut Client, batch_size: i32, milliseconds: i32) -> Vec<Document> {
        let command = doc! {
            "getMore": self.id, "collection": &self.collection, "batchSize": batch_size, "maxTimeMS": milliseconds,
        };
        let reply = client.ok("d", of(&command)).await;
        let cursor = reply.value("cursor");
        let cursor = cursor.as_document().expect("a cursor");
        self.id = cursor.value("id").to_i64_exact().expect("a number");
        self.token = token(cursor);
        let batch = cursor.value("nextBatch");
        let events = batch.as_array().expect("a list").iter();
        events.map(|event| Document::clone(event.as_document().expect("a document"))).collect()
    }

    /// All available events.
    async fn rest(&mut self, client: &mut Client) -> Vec<Document> {
        let mut all = Vec::new();
        loop {
            let events = self.next(client, 100).await;
            if events.is_empty() {
                return all;
            }
            all.extend(events);
            if self.id == 0 {
                return all;
            }
        }
    }
}

pub fn aggregate(collection: &str, fields: bson::Document, stages: Vec<bson::Document>) -> bson::Document {
    let mut pipeline = vec![doc! { "$changeStream": fields }];
    pipeline.extend(stages);
    if collection == "$cmd.aggregate" {
        doc! { "aggregate": 1, "pipeline": pipeline, "cursor": { "batchSize": 0 } }
    } else {
        doc! { "aggregate": collection, "pipeline": pipeline, "cursor": { "batchSize": 0 } }
    }
}

fn token(cursor: &Document) -> Document {
    Document::clone(cursor.value("postBatchResumeToken").as_document().expect("a token"))
}

pub fn bson_of(document: &Document) -> bson::Document {
    bson::Document::from_reader(&document.to_bytes()[..]).expect("BSON")
}

fn kind(event: &Document) -> String {
    event.value("operationType").as_str().expect("a kind").to_owned()
}

fn kinds(events: &[Document]) -> Vec<String> {
    events.iter().map(kind).collect()
}

fn inner(event: &Document, name: &str) -> bson::Document {
    bson_of(
        event.value(name).as_document().unwrap_or_else(|| panic!("{name} of {}", Value::from(event.clone()))),
    )
}

pub async fn ok(client: &mut Client, command: bson::Document) -> Document {
    client.ok("d", of(&command)).await
}

pub async fn insert(client: &mut Client, collection: &str, id: i32) {
    ok(client, doc! { "insert": collection, "documents": [{ "_id": id, "n": 0 }] }).await;
}

async fn set(client: &mut Client, collection: &str, id: i32, n: i32) {
    let update = doc! { "q": { "_id": id }, "u": { "$set": { "n": n } } };
    ok(client, doc! { "update": collection, "updates": [update] }).await;
}

#[tokio::test]
async fn every_kind_of_change_is_an_event() {
    let server = Server::start().await;
    let mut client = server.connect();
    insert(&mut client, "c", 0).await;
    let mut stream = Stream::open(&mut client, "c", doc! {}).await;
    ok(
        &mut client,
        doc! { "insert": "c", "documents": [{ "_id": 1, "a": { "x": 1, "y": [1, 2, 3] }, "gone": 1 }] },
    )
    .await;
    let update = doc! { "$set": { "a.x": 2, "a.y": [1, 2] }, "$unset": { "gone": 1 } };
    ok(&mut client, doc! { "update": "c", "updates": [{ "q": { "_id": 1 }, "u": update }] }).await;
    // Nothing changes.
    set(&mut client, "c", 0, 0).await;
    ok(&mut client, doc! { "update": "c", "updates": [{ "q": { "_id": 1 }, "u": { "b": 1 } }] }).await;
    ok(&mut client, doc! { "delete": "c", "deletes": [{ "q": { "_id": 1 }, "limit": 1 }] }).await;
    let events = stream.rest(&mut client).await;
    assert_eq!(kinds(&events), ["insert", "update", "replace", "delete"]);
    for event in &events {
        assert_eq!(inner(event, "ns"), doc! { "db": "d", "coll": "c" });
        assert_eq!(inner(event, "documentKey"), doc! { "_id": 1 });
        assert!(matches!(event.value("clusterTime"), Value::Timestamp(1_700_000_000, _)));
        assert!(matches!(event.value("wallTime"), Value::Date(1_700_000_000_000)));
        assert!(event.value("_id").as_document().expect("a token").value("_data").as_str().is_some());
    }
    let told = inner(&events[0], "fullDocument");
    assert_eq!(told, doc! { "_id": 1, "a": { "x": 1, "y": [1, 2, 3] }, "gone": 1 });
    let description = inner(&events[1], "updateDescription");
    let wanted = doc! {
        "updatedFields": { "a.x": 2 }, "removedFields": ["gone"],
        "truncatedArrays": [{ "field": "a.y", "newSize": 2 }],
    };
    assert_eq!(description, wanted);
    assert!(events[1].get("fullDocument").is_none());
    assert_eq!(inner(&events[2], "fullDocument"), doc! { "_id": 1, "b": 1 });
    assert!(events[3].get("fullDocument").is_none());
}

#[tokio::test]
async fn a_stream_goes_on_behind_every_token() {
    let server = Server::start().await;
    let mut client = server.connect();
    insert(&mut client, "c", 0).await;
    let mut stream = Stream::open(&mut client, "c", doc! {}).await;
    let beginning = stream.token.clone();
    for n in 1..=7 {
        set(&mut client, "c", 0, n).await;
    }
    let all = stream.rest(&mut client).await;
    assert_eq!(all.len(), 7);
    let tokens = std::iter::once(beginning)
        .chain(all.iter().map(|event| Document::clone(event.value("_id").as_document().expect("a token"))));
    for (done, token) in tokens.enumerate() {
        for option in ["resumeAfter", "startAfter"] {
            let mut again = Stream::open(&mut client, "c", doc! { option: bson_of(&token) }).await;
            assert_eq!(again.rest(&mut client).await.len(), 7 - done, "{option} behind {done}");
        }
    }
    // Stages drop events, and the tokens still advance.
    let filter = doc! { "$match": { "updateDescription.updatedFields.n": { "$gt": 100 } } };
    let mut narrow = Stream::open_with(&mut client, "c", doc! {}, vec![filter]).await;
    let before = narrow.token.clone();
    set(&mut client, "c", 0, 8).await;
    assert!(narrow.rest(&mut client).await.is_empty());
    assert_ne!(bson_of(&narrow.token), bson_of(&before));
    let mut again = Stream::open(&mut client, "c", doc! { "resumeAfter": bson_of(&narrow.token) }).await;
    assert!(again.rest(&mut client).await.is_empty());
}

#[tokio::test]
async fn a_transaction_can_be_left_in_its_middle() {
    let server = Server::start().await;
    let mut client = server.connect();
    insert(&mut client, "c", 100).await;
    let mut stream = Stream::open(&mut client, "c", doc! {}).await;
    let container = server.account.router().container_for_items("d", "c").expect("the container");
    let ctx = RequestContext::internal(&server.clock, Guid([1; 16]));
    let create = |id: i32| {
        let text = format!(r#"{{"id":"$num:{id}","n":{id}}}"#);
        let body = item_of_json(text.as_bytes(), server.account.router().limits()).expect("an item");
        Ok(KeyedOperation {
            key: None,
            operation: ItemOperation::Write(ItemWrite::Create { body }),
            content: true,
        })
    };
    let key = PartitionKey(vec![]);
    let operations = [5, 3, 9, 1].map(create).into_iter().collect();
    server
        .account
        .items()
        .batch(&ctx, &container, &key, operations)
        .await
        .expect("runs")
        .outcome
        .expect("is done");
    let ids = |events: &[Document]| -> Vec<i32> {
        events.iter().map(|event| inner(event, "documentKey").get_i32("_id").expect("a number")).collect()
    };
    let mut seen = Vec::new();
    for _ in 0..4 {
        let events = stream.next(&mut client, 1).await;
        assert_eq!(events.len(), 1);
        seen.extend(ids(&events));
        // By the event and by the batch.
        let token = Document::clone(events[0].value("_id").as_document().expect("a token"));
        for token in [token, stream.token.clone()] {
            let mut again = Stream::open(&mut client, "c", doc! { "resumeAfter": bson_of(&token) }).await;
            let rest = again.rest(&mut client).await;
            assert_eq!([&seen[..], &ids(&rest)].concat(), [5, 3, 9, 1]);
        }
    }
}

#[tokio::test]
async fn documents_are_shown_before_after_and_as_they_are() {
    let server = Server::start().await;
    let mut client = server.connect();
    insert(&mut client, "c", 1).await;
    let required = doc! { "fullDocument": "required" };
    let start = Stream::open(&mut client, "c", doc! {}).await.token;
    let from = |mut fields: bson::Document| {
        fields.insert("resumeAfter", bson_of(&start));
        fields
    };
    set(&mut client, "c", 1, 1).await;
    set(&mut client, "c", 1, 2).await;
    let mut stream = Stream::open(&mut client, "c", from(doc! { "fullDocument": "updateLookup" })).await;
    let events = stream.rest(&mut client).await;
    assert!(events.iter().all(|event| inner(event, "fullDocument") == doc! { "_id": 1, "n": 2 }));
    // Images need a collection that keeps them.
    let available = doc! { "fullDocument": "whenAvailable", "fullDocumentBeforeChange": "whenAvailable" };
    let mut stream = Stream::open(&mut client, "c", from(available.clone())).await;
    let events = stream.rest(&mut client).await;
    for name in ["fullDocument", "fullDocumentBeforeChange"] {
        assert!(events.iter().all(|event| matches!(event.get(name), Some(Value::Null))));
    }
    let stream = Stream::open(&mut client, "c", from(required.clone())).await;
    let more = doc! { "getMore": stream.id, "collection": "c" };
    assert_eq!(client.fails("d", of(&more)).await, 47);
    assert_eq!(client.fails("d", of(&more)).await, 47, "the event is not left out");
    ok(&mut client, doc! { "collMod": "c", "changeStreamPreAndPostImages": { "enabled": true } }).await;
    let both = doc! { "fullDocument": "required", "fullDocumentBeforeChange": "required" };
    let mut stream = Stream::open(&mut client, "c", from(both)).await;
    ok(&mut client, doc! { "delete": "c", "deletes": [{ "q": { "_id": 1 }, "limit": 1 }] }).await;
    let events = stream.rest(&mut client).await;
    assert_eq!(kinds(&events), ["update", "update", "delete"]);
    let image = |place: usize, name: &str| inner(&events[place], name).get_i32("n").expect("a number");
    assert_eq!((image(0, "fullDocumentBeforeChange"), image(0, "fullDocument")), (0, 1));
    assert_eq!((image(1, "fullDocumentBeforeChange"), image(1, "fullDocument")), (1, 2));
    assert_eq!(image(2, "fullDocumentBeforeChange"), 2);
    let mut stream = Stream::open(&mut client, "c", from(doc! { "fullDocument": "updateLookup" })).await;
    let events = stream.rest(&mut client).await;
    assert!(matches!(events[0].get("fullDocument"), Some(Value::Null)), "it is gone by now");
}

#[tokio::test]
async fn a_commit_wakes_who_waits() {
    let server = Server::start().await;
    let (mut client, mut writer) = (server.connect(), server.connect());
    // Also where there is no collection yet.
    let mut stream = Stream::open(&mut client, "late", doc! {}).await;
    let long = 600_000;
    for id in 0..3 {
        let waiting = tokio::spawn(async move {
            let events = stream.wait(&mut client, 10, long).await;
            (stream, client, events)
        });
        tokio::task::yield_now().await;
        insert(&mut writer, "late", id).await;
        let events;
        // The server would wait for a minute.
        let woken = tokio::time::timeout(Duration::from_secs(30), waiting).await;
        (stream, client, events) = woken.expect("it is woken").expect("it ends well");
        assert_eq!(kinds(&events), ["insert"]);
        assert_eq!(inner(&events[0], "documentKey"), doc! { "_id": id });
    }
}

#[tokio::test]
async fn the_end_of_a_collection_ends_its_streams() {
    let server = Server::start().await;
    let mut client = server.connect();
    insert(&mut client, "c", 1).await;
    let mut dropped = Stream::open(&mut client, "c", doc! {}).await;
    set(&mut client, "c", 1, 1).await;
    assert_eq!(dropped.rest(&mut client).await.len(), 1);
    ok(&mut client, doc! { "drop": "c" }).await;
    let first = dropped.next(&mut client, 1).await;
    assert_eq!(kinds(&first), ["drop"]);
    let token = bson_of(first[0].value("_id").as_document().expect("a token"));
    let events = dropped.rest(&mut client).await;
    assert_eq!((kinds(&events), dropped.id), (vec!["invalidate".to_owned()], 0));
    let mut again = Stream::open(&mut client, "c", doc! { "resumeAfter": token }).await;
    assert_eq!(kinds(&again.rest(&mut client).await), ["invalidate"]);
    let end = bson_of(events[0].value("_id").as_document().expect("a token"));
    let resumed = aggregate("c", doc! { "resumeAfter": end.clone() }, vec![]);
    assert_eq!(client.fails("d", of(&resumed)).await, 260);
    server.clock.advance(Duration::from_secs(1));
    let mut anew = Stream::open(&mut client, "c", doc! { "startAfter": end.clone() }).await;
    insert(&mut client, "c", 2).await;
    assert_eq!(kinds(&anew.rest(&mut client).await), ["insert"]);
    let mut anew = Stream::open(&mut client, "c", doc! { "startAfter": end }).await;
    assert_eq!(kinds(&anew.rest(&mut client).await), ["insert"]);
}

#[tokio::test]
async fn changes_that_went_with_their_collection_are_not_left_out_in_silence() {
    let server = Server::start().await;
    let mut client = server.connect();
    insert(&mut client, "c", 1).await;
    let stream = Stream::open(&mut client, "c", doc! {}).await;
    set(&mut client, "c", 1, 1).await;
    ok(&mut client, doc! { "drop": "c" }).await;
    let more = doc! { "getMore": stream.id, "collection": "c" };
    let reply = client.run("d", of(&more)).await;
    assert_eq!(reply.value("code").to_i32_exact(), Some(286), "{}", Value::from(reply.clone()));
    let labels = reply.value("errorLabels");
    assert_eq!(labels.as_array().expect("labels")[0].as_str(), Some("NonResumableChangeStreamError"));
    let resumed = aggregate("c", doc! { "resumeAfter": bson_of(&stream.token) }, vec![]);
    assert_eq!(client.fails("d", of(&resumed)).await, 286);
}

#[tokio::test]
async fn a_rename_stands_between_what_was_before_and_after() {
    let server = Server::start().await;
    let mut client = server.connect();
    insert(&mut client, "a", 1).await;
    let mut collection = Stream::open(&mut client, "a", doc! {}).await;
    let mut database = Stream::open(&mut client, "$cmd.aggregate", doc! {}).await;
    let start = database.token.clone();
    set(&mut client, "a", 1, 1).await;
    server.clock.advance(Duration::from_secs(1));
    client.ok("admin", of(&doc! { "renameCollection": "d.a", "to": "d.b" })).await;
    server.clock.advance(Duration::from_secs(1));
    set(&mut client, "b", 1, 2).await;
    let events = collection.rest(&mut client).await;
    assert_eq!(kinds(&events), ["update", "rename", "invalidate"]);
    assert_eq!(inner(&events[1], "to"), doc! { "db": "d", "coll": "b" });
    let told = database.rest(&mut client).await;
    let resumed = doc! { "resumeAfter": bson_of(&start) };
    let again = Stream::open(&mut client, "$cmd.aggregate", resumed).await.rest(&mut client).await;
    for events in [told, again] {
        assert_eq!(kinds(&events), ["update", "rename", "update"]);
        let names: Vec<bson::Document> = events.iter().map(|event| inner(event, "ns")).collect();
        assert_eq!(names[0], doc! { "db": "d", "coll": "a" });
        assert_eq!(names[2], doc! { "db": "d", "coll": "b" });
    }
    let other = aggregate("a", doc! { "resumeAfter": bson_of(&start) }, vec![]);
    assert_eq!(client.fails("d", of(&other)).await, 280, "a token of the database's stream");
}

#[tokio::test]
async fn a_database_and_a_deployment_are_watched_as_wholes() {
    let server = Server::start().await;
    let mut client = server.connect();
    let mut database = Stream::open(&mut client, "$cmd.aggregate", doc! {}).await;
    insert(&mut client, "a", 1).await;
    insert(&mut client, "b", 2).await;
    let events = database.rest(&mut client).await;
    let mut names: Vec<String> =
        events.iter().map(|event| inner(event, "ns").get_str("coll").expect("a name").to_owned()).collect();
    names.sort();
    assert_eq!(names, ["a", "b"]);
    let everything = doc! {
        "aggregate": 1, "cursor": { "batchSize": 0 },
        "pipeline": [{ "$changeStream": { "allChangesForCluster": true } }],
    };
    let reply = client.ok("admin", of(&everything)).await;
    let cursor = reply.value("cursor");
    let id = cursor.as_document().expect("a cursor").value("id").to_i64_exact().expect("a number");
    client.ok("other", of(&doc! { "insert": "x", "documents": [{ "_id": 1 }] })).await;
    set(&mut client, "a", 1, 1).await;
    let more = doc! { "getMore": id, "collection": "$cmd.aggregate", "maxTimeMS": 1 };
    let reply = client.ok("admin", of(&more)).await;
    let batch = reply.value("cursor").as_document().expect("a cursor").value("nextBatch");
    assert_eq!(batch.as_array().expect("a list").len(), 2);
    assert_eq!(kinds(&database.rest(&mut client).await), ["update"]);
    ok(&mut client, doc! { "dropDatabase": 1 }).await;
    let events = database.rest(&mut client).await;
    assert_eq!(kinds(&events), ["drop", "drop", "dropDatabase", "invalidate"]);
    assert_eq!(database.id, 0);
}

#[tokio::test]
async fn a_stream_begins_at_a_time() {
    let server = Server::start().await;
    let mut client = server.connect();
    insert(&mut client, "c", 1).await;
    server.clock.advance(Duration::from_secs(5));
    let reply = ok(&mut client, doc! { "ping": 1 }).await;
    let Value::Timestamp(time, increment) = reply.value("operationTime") else { panic!("no time") };
    let start = |seconds: u32| doc! { "startAtOperationTime": bson::Timestamp { time: seconds, increment } };
    set(&mut client, "c", 1, 1).await;
    set(&mut client, "c", 1, 2).await;
    for (seconds, told) in [(time - 60, 3), (time, 2), (time + 1, 0)] {
        let mut stream = Stream::open(&mut client, "c", start(seconds)).await;
        assert_eq!(stream.rest(&mut client).await.len(), told, "from {seconds} on");
    }
}

#[tokio::test]
async fn what_cannot_be_told_right_is_refused() {
    let server = Server::start().await;
    let mut client = server.connect();
    insert(&mut client, "c", 1).await;
    let token = bson_of(&Stream::open(&mut client, "c", doc! {}).await.token);
    let time = bson::Timestamp { time: 1_700_000_000, increment: 1 };
    for (fields, stages, code) in [
        (doc! { "unknown": 1 }, vec![], 40415),
        (doc! { "fullDocument": "sometimes" }, vec![], 2),
        (doc! { "fullDocumentBeforeChange": 1 }, vec![], 14),
        (doc! { "resumeAfter": 1 }, vec![], 14),
        (doc! { "resumeAfter": {} }, vec![], 40647),
        (doc! { "resumeAfter": { "_data": "82" } }, vec![], 260),
        (doc! { "resumeAfter": token.clone(), "startAfter": token.clone() }, vec![], 50674),
        (doc! { "resumeAfter": token, "startAtOperationTime": time }, vec![], 40674),
        (doc! { "showExpandedEvents": true }, vec![], 238),
        (doc! { "allChangesForCluster": true }, vec![], 72),
        (doc! {}, vec![doc! { "$group": { "_id": 1 } }], 20),
        (doc! {}, vec![doc! { "$out": "x" }], 20),
        (doc! {}, vec![doc! { "$changeStreamSplitLargeEvent": {} }], 303),
        (doc! {}, vec![doc! { "$nonsense": 1 }], 40324),
    ] {
        let command = aggregate("c", fields, stages);
        assert_eq!(client.fails("d", of(&command)).await, code, "{command}");
    }
    let internal = aggregate("c", doc! {}, vec![]);
    assert_eq!(client.fails("config", of(&internal)).await, 73);
    ok(&mut client, doc! { "create": "v", "viewOn": "c" }).await;
    assert_eq!(client.fails("d", of(&aggregate("v", doc! {}, vec![]))).await, 166);
    // Stages that remove the token of an event fail the stream.
    let stages = vec![doc! { "$project": { "_id": 0 } }];
    let stream = Stream::open_with(&mut client, "c", doc! {}, stages).await;
    set(&mut client, "c", 1, 5).await;
    assert_eq!(client.fails("d", of(&doc! { "getMore": stream.id, "collection": "c" })).await, 280);
    // A container of the NoSQL API keeps versions only if it is configured to.
    let ctx = RequestContext::internal(&server.clock, Guid([1; 16]));
    let definition = shardlake_model::ContainerDefinition::new(
        "theirs",
        shardlake_model::PartitionKeyDefinition::hash("/tenant"),
    );
    server.account.definitions().create_container(&ctx, "d", definition, None).await.expect("a container");
    assert_eq!(client.fails("d", of(&aggregate("theirs", doc! {}, vec![]))).await, 40573);
    ok(&mut client, doc! { "collMod": "theirs", "changeStreamPreAndPostImages": { "enabled": true } }).await;
    Stream::open(&mut client, "theirs", doc! {}).await;
}

/// Document → its numbers in the events, in their order.
type Histories = BTreeMap<i32, Vec<i32>>;

fn note(histories: &mut Histories, event: &Document) {
    let id = inner(event, "documentKey").get_i32("_id").expect("a number");
    let n = match kind(event).as_str() {
        "insert" => 0,
        "update" => {
            let description = inner(event, "updateDescription");
            description.get_document("updatedFields").expect("fields").get_i32("n").expect("a number")
        }
        other => panic!("a {other}"),
    };
    histories.entry(id).or_default().push(n);
}

#[tokio::test]
async fn splits_and_merges_lose_nothing_and_tell_nothing_twice() {
    const DOCUMENTS: i32 = 24;
    const ROUNDS: i32 = 12;
    let server = Server::start().await;
    let (mut client, mut writer) = (server.connect(), server.connect());
    ok(&mut client, doc! { "create": "s", "shardKey": { "k": "hashed" } }).await;
    let mut whole = Stream::open(&mut client, "s", doc! {}).await;
    let mut hopping = Stream::open(&mut client, "s", doc! {}).await;
    let (mut told, mut hopped) = (Histories::new(), Histories::new());
    let container =
        |server: &Server| server.account.router().container_for_items("d", "s").expect("the container");
    for round in 0..ROUNDS {
        for id in 0..DOCUMENTS {
            if round == 0 {
                let document = doc! { "_id": id, "k": format!("key {id}"), "n": 0 };
                ok(&mut writer, doc! { "insert": "s", "documents": [document] }).await;
            } else {
                let query = doc! { "_id": id, "k": format!("key {id}") };
                let update = doc! { "q": query, "u": { "$set": { "n": round } } };
                ok(&mut writer, doc! { "update": "s", "updates": [update] }).await;
            }
        }
        // One stream reads to the end; the other one is reopened after its last event.
        for event in whole.next(&mut client, 7).await {
            note(&mut told, &event);
        }
        let events = hopping.next(&mut client, 1 + round % 5).await;
        events.iter().for_each(|event| note(&mut hopped, event));
        let resumed = doc! { "resumeAfter": bson_of(&hopping.token) };
        hopping = Stream::open(&mut client, "s", resumed).await;
        server.clock.advance(Duration::from_millis(3));
        let handle = container(&server);
        let ranges: Vec<u32> = handle.entry.record.ranges.iter().map(|range| range.range_id).collect();
        let ticket = match (round % 3, &ranges[..]) {
            (2, [.., left, right]) => server.account.maintenance().merge(&handle, &[*left, *right]).await,
            _ => {
                server
                    .account
                    .maintenance()
                    .split(&handle, ranges[round as usize % ranges.len()], SplitAt::Middle)
                    .await
            }
        };
        ticket.expect("begins").finished().await.expect("ends well");
    }
    whole.rest(&mut client).await.iter().for_each(|event| note(&mut told, event));
    loop {
        let events = hopping.next(&mut client, 5).await;
        if events.is_empty() {
            break;
        }
        events.iter().for_each(|event| note(&mut hopped, event));
        let resumed = doc! { "resumeAfter": bson_of(&hopping.token) };
        hopping = Stream::open(&mut client, "s", resumed).await;
    }
    let wanted: Histories = (0..DOCUMENTS).map(|id| (id, (0..ROUNDS).collect())).collect();
    assert_eq!(told, wanted, "read through");
    assert_eq!(hopped, wanted, "resumed again and again");
}

#[tokio::test]
async fn changes_of_several_partitions_come_in_the_order_of_their_times() {
    let server = Server::start().await;
    let mut client = server.connect();
    ok(&mut client, doc! { "create": "s", "shardKey": { "k": "hashed" } }).await;
    let handle = server.account.router().container_for_items("d", "s").expect("the container");
    let split = server.account.maintenance().split(&handle, 0, SplitAt::Middle).await.expect("begins");
    split.finished().await.expect("ends well");
    let mut stream = Stream::open(&mut client, "s", doc! {}).await;
    for id in 0..40 {
        let document = doc! { "_id": id, "k": format!("key {}", id % 9) };
        ok(&mut client, doc! { "insert": "s", "documents": [document] }).await;
        server.clock.advance(Duration::from_millis(1));
    }
    let events = stream.rest(&mut client).await;
    let ids: Vec<i32> =
        events.iter().map(|event| inner(event, "documentKey").get_i32("_id").expect("a number")).collect();
    assert_eq!(ids, (0..40).collect::<Vec<_>>());
}

/// The next events of a stream, as kind, collection and document.
pub async fn told(stream: &mut Stream, client: &mut Client) -> Vec<String> {
    let describe = |event: &Document| {
        let name = |field: &str| {
            event.get(field).and_then(|_| inner(event, field).get_str("coll").ok().map(str::to_owned))
        };
        let id = event
            .get("documentKey")
            .map(|_| format!(" {}", inner(event, "documentKey").get("_id").expect("an id")));
        let ns = name("ns").map_or(String::new(), |name| format!(" {name}"));
        let to = name("to").map_or(String::new(), |name| format!(" to {name}"));
        format!("{}{ns}{to}{}", kind(event), id.unwrap_or_default())
    };
    stream.rest(client).await.iter().map(describe).collect()
}

pub async fn rename(client: &mut Client, from: &str, to: &str) {
    let names = doc! { "renameCollection": format!("d.{from}"), "to": format!("d.{to}") };
    client.ok("admin", of(&names)).await;
}

/// The token of a stream's last event.
pub async fn end_of(stream: &mut Stream, client: &mut Client) -> bson::Document {
    let events = stream.rest(client).await;
    assert_eq!((kinds(&events).last().map(String::as_str), stream.id), (Some("invalidate"), 0));
    bson_of(&stream.token)
}

#[tokio::test]
async fn the_next_collection_of_a_name_is_told_from_its_beginning() {
    let server = Server::start().await;
    let mut client = server.connect();
    insert(&mut client, "c", 1).await;
    let mut stream = Stream::open(&mut client, "c", doc! {}).await;
    ok(&mut client, doc! { "drop": "c" }).await;
    // Before the end of the old one is read.
    insert(&mut client, "c", 2).await;
    server.clock.advance(Duration::from_millis(5));
    let end = end_of(&mut stream, &mut client).await;
    insert(&mut client, "c", 3).await;
    let mut anew = Stream::open(&mut client, "c", doc! { "startAfter": end }).await;
    assert_eq!(told(&mut anew, &mut client).await, ["insert c 2", "insert c 3"]);
}

#[tokio::test]
async fn a_name_that_another_collection_gets_is_told_from_then_on() {
    let server = Server::start().await;
    let mut client = server.connect();
    insert(&mut client, "a", 1).await;
    let mut stream = Stream::open(&mut client, "a", doc! {}).await;
    rename(&mut client, "a", "b").await;
    let end = end_of(&mut stream, &mut client).await;
    insert(&mut client, "b", 2).await;
    rename(&mut client, "b", "a").await;
    insert(&mut client, "a", 3).await;
    let mut anew = Stream::open(&mut client, "a", doc! { "startAfter": end }).await;
    assert_eq!(told(&mut anew, &mut client).await, ["insert a 3"]);
}

#[tokio::test]
async fn the_next_database_of_a_name_is_told_from_its_beginning() {
    let server = Server::start().await;
    let mut client = server.connect();
    insert(&mut client, "c", 1).await;
    let mut stream = Stream::open(&mut client, "$cmd.aggregate", doc! {}).await;
    ok(&mut client, doc! { "dropDatabase": 1 }).await;
    let end = end_of(&mut stream, &mut client).await;
    insert(&mut client, "c", 2).await;
    rename(&mut client, "c", "e").await;
    insert(&mut client, "e", 3).await;
    let mut anew = Stream::open(&mut client, "$cmd.aggregate", doc! { "startAfter": end }).await;
    assert_eq!(told(&mut anew, &mut client).await, ["insert c 2", "rename c to e", "insert e 3"]);
}

#[tokio::test]
async fn a_rename_follows_what_was_written_in_its_millisecond() {
    let server = Server::start().await;
    let mut client = server.connect();
    ok(&mut client, doc! { "create": "a" }).await;
    let mut old = Stream::open(&mut client, "a", doc! {}).await;
    let mut new = Stream::open(&mut client, "b", doc! {}).await;
    let mut database = Stream::open(&mut client, "$cmd.aggregate", doc! {}).await;
    insert(&mut client, "a", 1).await;
    rename(&mut client, "a", "b").await;
    insert(&mut client, "b", 2).await;
    assert_eq!(told(&mut old, &mut client).await, ["insert a 1", "rename a to b", "invalidate"]);
    assert_eq!(told(&mut new, &mut client).await, ["rename a to b", "invalidate"]);
    let all = ["insert a 1", "rename a to b", "insert b 2"];
    assert_eq!(told(&mut database, &mut client).await, all);
    let end = bson_of(&new.token);
    let mut anew = Stream::open(&mut client, "b", doc! { "startAfter": end }).await;
    assert_eq!(told(&mut anew, &mut client).await, ["insert b 2"]);
}

#[tokio::test]
async fn a_rename_is_told_behind_every_token_before_it() {
    let server = Server::start().await;
    let mut client = server.connect();
    for name in ["x", "a", "y"] {
        ok(&mut client, doc! { "create": name }).await;
    }
    let mut stream = Stream::open(&mut client, "$cmd.aggregate", doc! {}).await;
    let mut all = Vec::new();
    rename(&mut client, "a", "b").await;
    insert(&mut client, "x", 1).await;
    insert(&mut client, "y", 2).await;
    insert(&mut client, "b", 3).await;
    loop {
        let resumed = doc! { "resumeAfter": bson_of(&stream.token) };
        let mut tail = Stream::open(&mut client, "$cmd.aggregate", resumed).await;
        all.push(told(&mut tail, &mut client).await);
        if stream.next(&mut client, 1).await.is_empty() {
            break;
        }
    }
    assert_eq!(all.len(), 5);
    assert!(all[0].contains(&"rename a to b".to_owned()), "{all:?}");
    for (place, tail) in all.iter().enumerate() {
        assert_eq!(*tail, all[0][place..], "behind event {place} of {:?}", all[0]);
    }
}

#[tokio::test]
async fn renames_that_are_forgotten_are_lost_history() {
    let server = Server::start().await;
    let mut client = server.connect();
    insert(&mut client, "n0", 0).await;
    let mut stream = Stream::open(&mut client, "$cmd.aggregate", doc! {}).await;
    let start = doc! { "resumeAfter": bson_of(&stream.token) };
    for number in 1..=16 {
        rename(&mut client, &format!("n{}", number - 1), &format!("n{number}")).await;
        insert(&mut client, &format!("n{number}"), number).await;
    }
    let wanted: Vec<String> =
        (1..=16).flat_map(|n| [format!("rename n{} to n{n}", n - 1), format!("insert n{n} {n}")]).collect();
    let mut again = Stream::open(&mut client, "$cmd.aggregate", start.clone()).await;
    assert_eq!(told(&mut again, &mut client).await, wanted);
    rename(&mut client, "n16", "n17").await;
    let resumed = aggregate("$cmd.aggregate", start, vec![]);
    assert_eq!(client.fails("d", of(&resumed)).await, 286, "the first of 17 renames is forgotten");
    let since = doc! { "startAtOperationTime": bson::Timestamp { time: 1_700_000_000, increment: 0 } };
    let since = aggregate("$cmd.aggregate", since, vec![]);
    assert_eq!(client.fails("d", of(&since)).await, 286);
    let more = doc! { "getMore": stream.id, "collection": "$cmd.aggregate" };
    assert_eq!(client.fails("d", of(&more)).await, 286, "it had not looked since the first");
    stream = Stream::open(&mut client, "$cmd.aggregate", doc! {}).await;
    insert(&mut client, "n17", 17).await;
    assert_eq!(told(&mut stream, &mut client).await, ["insert n17 17"]);
}
