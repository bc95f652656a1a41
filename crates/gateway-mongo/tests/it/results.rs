//! Results of pipelines: made on demand, in documents and replies of a size that clients accept.

use std::time::Duration;

use bson::doc;
use shardlake_gateway_mongo::MongoSettings;
use shardlake_mql::{Document, Value};

use crate::change_streams::Stream;
use crate::client::{Client, OP_MSG, Server, body_section, first_batch, message, of};
use crate::endings::{is_at_work, number_at_work};

const TOO_LARGE: i32 = 10334;
/// Limit of a reply, as the handshake reports it.
const MESSAGE_BYTES_MAX: usize = 48_000_000;

/// A collection `c` of documents of a million bytes each.
async fn of_megabytes(count: i32) -> (Server, Client) {
    let server = Server::start().await;
    let mut client = server.connect();
    for id in 0..count {
        let document = doc! { "_id": id, "k": 1, "text": "x".repeat(1_000_000) };
        client.ok("d", of(&doc! { "insert": "c", "documents": [document] })).await;
    }
    (server, client)
}

fn aggregate(pipeline: Vec<bson::Document>, batch_size: i32) -> Document {
    of(&doc! { "aggregate": "c", "pipeline": pipeline, "cursor": { "batchSize": batch_size } })
}

fn cursor_of(reply: &Document) -> i64 {
    reply.value("cursor").as_document().expect("a cursor").value("id").to_i64_exact().expect("an id")
}

fn next_batch(reply: &Document) -> usize {
    let batch = reply.value("cursor").as_document().expect("a cursor").value("nextBatch");
    batch.as_array().expect("a list").len()
}

#[tokio::test]
async fn results_above_sixteen_mebibytes_are_refused_whatever_makes_them() {
    let (_server, mut client) = of_megabytes(18).await;
    let pushed = doc! { "$group": { "_id": null, "all": { "$push": "$text" } } };
    let lookup = doc! { "from": "c", "localField": "k", "foreignField": "k", "as": "all" };
    for pipeline in [
        vec![pushed.clone()],
        vec![doc! { "$facet": { "a": [{ "$match": {} }] } }],
        vec![doc! { "$limit": 1 }, doc! { "$lookup": lookup.clone() }],
        vec![doc! { "$group": { "_id": null, "all": { "$push": "$$ROOT" } } }],
        vec![
            doc! { "$limit": 1 },
            doc! { "$project": {
                "all": { "$map": { "input": { "$range": [0, 18] }, "in": "$text" } },
            } },
        ],
    ] {
        assert_eq!(client.fails("d", aggregate(pipeline.clone(), 10)).await, TOO_LARGE, "{pipeline:?}");
    }
    // Only documents that are sent have this limit.
    let unwound = vec![pushed, doc! { "$unwind": "$all" }, doc! { "$count": "n" }];
    let counted = client.ok("d", aggregate(unwound, 10)).await;
    assert_eq!(first_batch(&counted)[0].value("n").to_i64_exact(), Some(18));
}

#[tokio::test]
async fn a_facet_that_multiplies_its_input_is_refused() {
    let (_server, mut client) = of_megabytes(18).await;
    let facets: bson::Document = (0..10)
        .map(|n| (format!("f{n}"), doc! { "$match": {} }))
        .map(|(name, stage)| (name, bson::Bson::Array(vec![stage.into()])))
        .collect();
    let pipeline = vec![doc! { "$facet": facets }, doc! { "$count": "n" }];
    assert_eq!(client.fails("d", aggregate(pipeline, 10)).await, 292);
}

#[tokio::test]
async fn replies_are_as_large_as_clients_take() {
    let (_server, mut client) = of_megabytes(60).await;
    let mut command = aggregate(vec![doc! { "$match": {} }], 1000);
    command.push("$db", Value::string("d"));
    client.send(OP_MSG, &message(0, &[body_section(&command)])).await;
    let answer = client.receive().await;
    assert!(answer.payload.len() + 16 <= MESSAGE_BYTES_MAX);
    let reply = answer.document();
    let mut all = first_batch(&reply).len();
    assert!(all > 10, "as many as have room");
    let mut id = cursor_of(&reply);
    while id != 0 {
        let reply = client.ok("d", of(&doc! { "getMore": id, "collection": "c" })).await;
        all += next_batch(&reply);
        id = cursor_of(&reply);
    }
    assert_eq!(all, 60);
}

#[tokio::test]
async fn results_are_made_as_they_are_asked_for() {
    let server = Server::start().await;
    let mut client = server.connect();
    let documents: Vec<bson::Document> = (0..100).map(|id| doc! { "_id": id, "n": 99 - id }).collect();
    client.ok("d", of(&doc! { "insert": "c", "documents": documents })).await;
    // The last document fails.
    let divided =
        vec![doc! { "$sort": { "_id": 1 } }, doc! { "$project": { "x": { "$divide": [1, "$n"] } } }];
    let reply = client.ok("d", aggregate(divided.clone(), 10)).await;
    assert_eq!(first_batch(&reply).len(), 10);
    let get_more = |batch_size: i32| {
        of(&doc! { "getMore": cursor_of(&reply), "collection": "c", "batchSize": batch_size })
    };
    assert_eq!(next_batch(&client.ok("d", get_more(80)).await), 80);
    assert_eq!(client.fails("d", get_more(10)).await, 2);
    assert_eq!(client.fails("d", get_more(10)).await, 43, "no result is passed over");
    // Every batch size gives the same results, and the last batch reports the end.
    let pipeline = vec![
        doc! { "$sort": { "_id": 1 } },
        doc! { "$project": { "r": { "$range": [0, "$_id"] } } },
        doc! { "$unwind": "$r" },
        doc! { "$skip": 3 },
        doc! { "$limit": 1000 },
    ];
    let mut seen = Vec::new();
    for batch_size in [1, 7, 1000, 2000] {
        let reply = client.ok("d", aggregate(pipeline.clone(), batch_size)).await;
        let mut rows: Vec<Vec<u8>> = first_batch(&reply).iter().map(Document::to_bytes).collect();
        let mut id = cursor_of(&reply);
        while id != 0 {
            let more = doc! { "getMore": id, "collection": "c", "batchSize": batch_size };
            let reply = client.ok("d", of(&more)).await;
            let cursor = reply.value("cursor");
            let batch = cursor.as_document().expect("a cursor").value("nextBatch");
            let batch = batch.as_array().expect("a list").iter().filter_map(Value::as_document);
            rows.extend(batch.map(|document| document.to_bytes()));
            id = cursor_of(&reply);
        }
        assert_eq!(rows.len(), 1000);
        seen.push(rows);
    }
    assert!(seen.windows(2).all(|pair| pair[0] == pair[1]));
}

/// A number that takes hours to compute. The thread that evaluates it must end, or the test does not.
fn slow() -> bson::Bson {
    let range = doc! { "$range": [0, 1000] };
    (0..6).fold(bson::Bson::Int32(1), |slow, _| {
        doc! { "$size": { "$map": { "input": range.clone(), "in": slow } } }.into()
    })
}

async fn patient_server() -> Server {
    // Nothing else ends the command during the test.
    let request_timeout = Duration::from_secs(24 * 3600);
    Server::start_with(MongoSettings { request_timeout, ..MongoSettings::default() }).await
}

/// Other clients are answered meanwhile on the runtime's only thread.
#[tokio::test]
async fn expressions_end_when_their_client_has_gone_and_stop_nobody_before() {
    let server = patient_server().await;
    let mut other = server.connect();
    other.ok("d", of(&doc! { "insert": "c", "documents": [{ "_id": 1 }] })).await;
    let is_slow = doc! { "$expr": { "$gt": [slow(), 1] } };
    let numbers: Vec<i32> = (0..60_000).collect();
    other.ok("d", of(&doc! { "insert": "large", "documents": [{ "_id": 1, "a": numbers.clone() }] })).await;
    for command in [
        doc! { "aggregate": "c", "pipeline": [{ "$project": { "x": slow() } }], "cursor": {} },
        doc! { "find": "c", "filter": is_slow.clone() },
        doc! { "find": "c", "filter": {}, "projection": { "x": slow() } },
        doc! { "count": "c", "query": is_slow.clone() },
        doc! { "distinct": "c", "key": "x", "query": is_slow.clone() },
        doc! { "explain": { "find": "c", "filter": is_slow.clone() }, "verbosity": "executionStats" },
        doc! { "find": "c", "filter": { "_id": 1 }, "let": { "v": slow() } },
        doc! { "listCollections": 1, "filter": is_slow.clone() },
        doc! { "find": "large", "filter": { "a": { "$all": numbers.clone() } } },
    ] {
        let mut client = server.connect();
        let name = command.keys().next().expect("a command").clone();
        let mut sent = command.clone();
        sent.insert("$db", "d");
        client.send(OP_MSG, &message(0, &[body_section(&of(&sent))])).await;
        while !is_at_work(&mut other, &name).await {
            tokio::task::yield_now().await;
        }
        other.ok("d", of(&doc! { "find": "c", "filter": { "_id": 1 } })).await;
        drop(client);
        while is_at_work(&mut other, &name).await {
            tokio::task::yield_now().await;
        }
    }
    let stages = [doc! { "$changeStream": {} }, doc! { "$set": { "x": slow() } }];
    let mut client = server.connect();
    let opened = client.ok("d", aggregate(stages.to_vec(), 1)).await;
    other.ok("d", of(&doc! { "insert": "c", "documents": [{ "_id": 2 }] })).await;
    let more = doc! { "getMore": cursor_of(&opened), "collection": "c", "$db": "d" };
    client.send(OP_MSG, &message(0, &[body_section(&of(&more))])).await;
    while !is_at_work(&mut other, "getMore").await {
        tokio::task::yield_now().await;
    }
    other.ok("d", of(&doc! { "find": "c", "filter": { "_id": 1 } })).await;
    drop(client);
    while is_at_work(&mut other, "getMore").await {
        tokio::task::yield_now().await;
    }
    // The runtime waits for its blocking threads when it is dropped.
}

/// Writes continue without their client, and end when they are killed.
#[tokio::test]
async fn writes_whose_expressions_take_long_are_killed_and_stop_nobody_before() {
    let server = patient_server().await;
    let (mut client, mut other) = (server.connect(), server.connect());
    other.ok("d", of(&doc! { "insert": "c", "documents": [{ "_id": 1 }] })).await;
    let is_slow = doc! { "$expr": { "$gt": [slow(), 1] } };
    let set = doc! { "$set": { "x": 1 } };
    other.ok("d", of(&doc! { "create": "v", "validator": is_slow.clone() })).await;
    for command in [
        doc! { "insert": "v", "documents": [{ "_id": 1 }] },
        doc! { "update": "c", "updates": [{ "q": {}, "u": [{ "$set": { "x": slow() } }] }] },
        doc! { "update": "c", "updates": [{ "q": is_slow.clone(), "u": set.clone() }] },
        doc! { "delete": "c", "deletes": [{ "q": is_slow.clone(), "limit": 1 }] },
        doc! { "findAndModify": "c", "query": is_slow.clone(), "update": set.clone() },
    ] {
        let name = command.keys().next().expect("a command").clone();
        let mut sent = command.clone();
        sent.insert("$db", "d");
        client.send(OP_MSG, &message(0, &[body_section(&of(&sent))])).await;
        let number = loop {
            if let Some(number) = number_at_work(&mut other, &name).await {
                break number;
            }
            tokio::task::yield_now().await;
        };
        other.ok("admin", of(&doc! { "killOp": 1, "op": number })).await;
        let reply: Document = client.receive().await.document();
        let code = reply.value("code").to_i32_exact();
        let errors = reply.value("writeErrors");
        let first = errors.as_array().and_then(|errors| errors[0].as_document().cloned());
        let code = code.or(first.and_then(|error| error.value("code").to_i32_exact()));
        assert_eq!(code, Some(11601), "{command}: {reply:?}");
    }
    let found = other.ok("d", of(&doc! { "find": "c", "filter": {} })).await;
    assert_eq!(first_batch(&found).len(), 1);
}

/// A million documents from one, and a billion from those, without a list of them.
#[tokio::test]
async fn results_that_nobody_asks_for_are_not_made() {
    let server = Server::start().await;
    let mut client = server.connect();
    client.ok("d", of(&doc! { "insert": "c", "documents": [{ "_id": 1 }] })).await;
    let range = doc! { "$range": [0, 1000] };
    let pipeline = vec![
        doc! { "$set": { "a": range.clone(), "b": range.clone(), "c": range } },
        doc! { "$unwind": "$a" },
        doc! { "$unwind": "$b" },
        doc! { "$unwind": "$c" },
    ];
    let reply = client.ok("d", aggregate(pipeline, 5)).await;
    assert_eq!(first_batch(&reply).len(), 5);
    assert_ne!(cursor_of(&reply), 0);
}

#[tokio::test]
async fn a_change_event_above_sixteen_mebibytes_ends_its_stream_before_it() {
    let server = Server::start().await;
    let mut client = server.connect();
    let large = "x".repeat(9 << 20);
    client.ok("d", of(&doc! { "create": "c", "changeStreamPreAndPostImages": { "enabled": true } })).await;
    client.ok("d", of(&doc! { "insert": "c", "documents": [{ "_id": 1, "t": &large }] })).await;
    let fields = doc! { "fullDocument": "updateLookup", "fullDocumentBeforeChange": "whenAvailable" };
    let mut stream = Stream::open(&mut client, "c", fields.clone()).await;
    client.ok("d", of(&doc! { "insert": "c", "documents": [{ "_id": 2 }] })).await;
    let update = doc! { "q": { "_id": 1 }, "u": { "$set": { "n": 1 } } };
    client.ok("d", of(&doc! { "update": "c", "updates": [update] })).await;
    client.ok("d", of(&doc! { "insert": "c", "documents": [{ "_id": 3 }] })).await;
    let events = stream.next(&mut client, 100).await;
    assert_eq!(events.len(), 1, "what is before it");
    let get_more = doc! { "getMore": stream.id, "collection": "c" };
    for _ in 0..2 {
        assert_eq!(client.fails("d", of(&get_more)).await, TOO_LARGE);
    }
}

#[tokio::test]
async fn answers_that_nobody_takes_are_bounded_and_come_all_the_same() {
    const CLIENTS: usize = 30;
    let settings = MongoSettings { message_bytes_max: 32 << 20, ..MongoSettings::default() };
    let server = Server::start_with(settings).await;
    let mut other = server.connect();
    let document = doc! { "_id": 1, "text": "x".repeat(1_000_000) };
    other.ok("d", of(&doc! { "insert": "c", "documents": [document] })).await;
    let before = bytes_out(&mut other).await;
    let find = of(&doc! { "find": "c", "limit": 1, "$db": "d" });
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        let mut client = server.connect();
        client.send(OP_MSG, &message(0, &[body_section(&find)])).await;
        clients.push(client);
    }
    for _ in 0..200 {
        other.ok("admin", of(&doc! { "ping": 1 })).await;
    }
    // A quarter of the memory budget, and one answer beyond it.
    let made = bytes_out(&mut other).await - before;
    assert!((2_000_000..=(8 << 20) + 1_100_000).contains(&made), "{made} bytes were made");
    assert!(server.gateway.message_bytes() <= 32 << 20);
    for client in &mut clients {
        assert_eq!(first_batch(&client.receive().await.document()).len(), 1);
    }
    assert_eq!(server.gateway.message_bytes(), 0);
}

async fn bytes_out(client: &mut Client) -> i64 {
    let status = client.ok("admin", of(&doc! { "serverStatus": 1 })).await;
    let network = status.value("network");
    network.as_document().expect("a section").value("bytesOut").to_i64_exact().expect("a number")
}

#[tokio::test]
async fn what_open_cursors_keep_is_bounded() {
    let settings = MongoSettings { message_bytes_max: 32 << 20, ..MongoSettings::default() };
    let server = Server::start_with(settings).await;
    let mut client = server.connect();
    for id in 0..6 {
        let document = doc! { "_id": id, "k": -id, "text": "x".repeat(1_000_000) };
        client.ok("d", of(&doc! { "insert": "c", "documents": [document] })).await;
    }
    let sorted = doc! { "$sort": { "k": 1 } };
    let grouped = doc! { "$group": { "_id": "$text", "k": { "$sum": 1 } } };
    let keep = [
        aggregate(vec![sorted.clone()], 1),
        aggregate(vec![sorted, doc! { "$set": { "a": 1 } }], 1),
        of(&doc! { "find": "c", "sort": { "k": 1 }, "batchSize": 1 }),
    ];
    for command in &keep {
        // Twelve megabytes hold two results of five megabytes.
        let first = client.ok("d", command.clone()).await;
        client.ok("d", command.clone()).await;
        assert_eq!(client.fails("d", command.clone()).await, 16500);
        // A cursor that keeps no results is not refused.
        client.ok("d", aggregate(vec![grouped.clone()], 10)).await;
        let mut id = cursor_of(&first);
        while id != 0 {
            id = cursor_of(&client.ok("d", of(&doc! { "getMore": id, "collection": "c" })).await);
        }
        client.ok("d", command.clone()).await;
        client.ok("admin", of(&doc! { "killAllSessions": [] })).await;
        let mut next = server.connect();
        // The new connection is counted before the old one ends.
        next.ok("admin", of(&doc! { "ping": 1 })).await;
        drop(std::mem::replace(&mut client, next));
        while server.gateway.connections() > 1 {
            tokio::task::yield_now().await;
        }
        assert_eq!(server.gateway.message_bytes(), 0);
    }
}

#[tokio::test]
async fn diagnostic_data_hold_the_status_of_the_server() {
    let server = Server::start().await;
    let mut client = server.connect();
    let reply = client.ok("admin", of(&doc! { "getDiagnosticData": 1 })).await;
    let data = reply.value("data");
    let data = data.as_document().expect("a section");
    let status = data.value("serverStatus");
    let status = status.as_document().expect("a section");
    for section in [data, status] {
        let names: Vec<&str> = section.iter().map(|(name, _)| &**name).collect();
        assert_eq!((names.first(), names.last()), (Some(&"start"), Some(&"end")));
        assert!(
            section
                .iter()
                .all(|(name, value)| !["start", "end"].contains(&&**name) || matches!(value, Value::Date(_)))
        );
    }
    assert!(status.has("opcounters") && status.has("connections"));
    assert_eq!(client.fails("d", of(&doc! { "getDiagnosticData": 1 })).await, 13);
}
