//! Commands with a statement that the store refuses: the command fails as a whole, and a driver that
//! retries it runs each statement once.

use std::sync::Arc;

use bson::doc;
use shardlake_gateway_mongo::MongoSettings;
use shardlake_mql::{Document, Value};
use shardlake_stdx::Clock;
use shardlake_storage::fault::FaultEngine;
use shardlake_storage::{Shard, ShardOptions};

use crate::client::{Client, NOW, Server, first_batch, of};

/// A collection with three documents, each with a counter.
async fn over(engine: &FaultEngine) -> (Server, Client) {
    let shard = Shard::with_engine(Arc::new(engine.clone()), &ShardOptions::memory()).expect("opens");
    let server = Server::over(vec![shard], MongoSettings::default(), Clock::manual(NOW)).await;
    let mut client = server.connect();
    let documents: Vec<bson::Document> = (0..3).map(|id| doc! { "_id": id, "n": 0 }).collect();
    client.ok("d", of(&doc! { "insert": "c", "documents": documents })).await;
    (server, client)
}

async fn documents(client: &mut Client) -> Vec<String> {
    let reply = client.ok("d", of(&doc! { "find": "c", "sort": { "_id": 1 } })).await;
    first_batch(&reply).iter().map(ToString::to_string).collect()
}

fn retryable(command: &bson::Document, number: i64) -> Document {
    let mut command = of(command);
    let id = Document::one("id", Value::Binary(4, [7; 16].as_slice().into()));
    command.push("lsid", id.into());
    command.push("txnNumber", Value::Long(number));
    command
}

/// Commands of several statements, and the documents after them.
fn commands() -> Vec<(&'static str, bson::Document, Vec<&'static str>)> {
    let increments: Vec<bson::Document> =
        (0..3).map(|id| doc! { "q": { "_id": id }, "u": { "$inc": { "n": 1 } } }).collect();
    let deletes: Vec<bson::Document> = (0..3).map(|id| doc! { "q": { "_id": id }, "limit": 1 }).collect();
    let inserts: Vec<bson::Document> = (3..6).map(|id| doc! { "_id": id }).collect();
    let ops: Vec<bson::Document> = (0..3)
        .flat_map(|id| {
            let update = doc! { "update": 0, "filter": { "_id": id }, "updateMods": { "$inc": { "n": 1 } } };
            [update, doc! { "insert": 0, "document": { "_id": id + 3 } }]
        })
        .collect();
    let modify = doc! { "findAndModify": "c", "query": { "_id": 0 }, "update": { "$inc": { "n": 1 } } };
    let incremented = vec!["{ _id: 0, n: 1 }", "{ _id: 1, n: 1 }", "{ _id: 2, n: 1 }"];
    let kept = vec!["{ _id: 0, n: 0 }", "{ _id: 1, n: 0 }", "{ _id: 2, n: 0 }"];
    let new = vec!["{ _id: 3 }", "{ _id: 4 }", "{ _id: 5 }"];
    vec![
        ("d", doc! { "update": "c", "updates": increments.clone() }, incremented.clone()),
        ("d", doc! { "update": "c", "updates": increments, "ordered": false }, incremented.clone()),
        ("d", doc! { "delete": "c", "deletes": deletes }, vec![]),
        ("d", doc! { "insert": "c", "documents": inserts.clone() }, [kept.clone(), new.clone()].concat()),
        (
            "d",
            doc! { "insert": "c", "documents": inserts, "ordered": false },
            [kept.clone(), new.clone()].concat(),
        ),
        ("d", modify, vec!["{ _id: 0, n: 1 }", kept[1], kept[2]]),
        (
            "admin",
            doc! { "bulkWrite": 1, "ops": ops, "nsInfo": [{ "ns": "d.c" }] },
            [incremented, new].concat(),
        ),
    ]
}

#[track_caller]
fn check_refused(reply: &Document, is_retryable: bool) {
    assert_eq!(reply.value("ok").to_f64(), Some(0.0), "{reply}");
    assert_eq!(reply.value("code").to_i32_exact(), Some(11600), "{reply}");
    let labels = reply.value("errorLabels").to_string();
    assert_eq!(labels.contains("RetryableWriteError"), is_retryable, "{reply}");
}

fn is_done(reply: &Document) -> bool {
    let is_ok = reply.value("ok").to_f64() == Some(1.0);
    assert!(!is_ok || !reply.has("writeErrors"), "a refusal is no write error: {reply}");
    assert!(!is_ok || reply.value("nErrors").to_i32_exact().unwrap_or(0) == 0, "{reply}");
    is_ok
}

/// The store may fail at every read of a command.
#[tokio::test]
async fn commands_that_the_store_refuses_are_done_once_when_they_are_retried() {
    for (database, command, after) in commands() {
        for answered in 0.. {
            let engine = FaultEngine::new();
            let (_server, mut client) = over(&engine).await;
            engine.refuse_reads_after(answered);
            let reply = client.run(database, retryable(&command, 1)).await;
            engine.answer_reads();
            let was_refused = !is_done(&reply);
            if was_refused {
                check_refused(&reply, true);
                let again = client.run(database, retryable(&command, 1)).await;
                assert!(is_done(&again), "{command}: {again}");
            }
            assert_eq!(documents(&mut client).await, after, "{command} after {answered} reads");
            if !was_refused {
                assert!(answered > 0, "{command} reads");
                break;
            }
        }
    }
}

#[tokio::test]
async fn refused_commands_without_a_number_have_no_label() {
    let engine = FaultEngine::new();
    let (_server, mut client) = over(&engine).await;
    engine.refuse_reads_after(0);
    for (database, command, _) in commands() {
        check_refused(&client.run(database, of(&command)).await, false);
    }
}
