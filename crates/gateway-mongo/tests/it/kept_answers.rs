//! Writes whose server ends before their clients have the answer: the next server knows their results.

use std::time::Duration;

use bson::doc;
use shardlake_gateway_mongo::MongoSettings;
use shardlake_mql::{Document, Value};
use shardlake_stdx::{Clock, Timestamp};
use shardlake_storage::{Batch, Shard, ShardOptions};
use tokio::runtime::Runtime;

use crate::client::{Client, Server, first_batch, of};
use crate::transactions::Session;

/// The shards of consecutive servers.
struct Servers {
    shards: Vec<Shard>,
    clock: Clock,
}

impl Servers {
    async fn new(count: usize) -> Servers {
        let mut shards = Vec::new();
        for _ in 0..count {
            shards.push(Shard::open(ShardOptions::memory()).await.expect("a shard in memory opens"));
        }
        Servers { shards, clock: Clock::manual(Timestamp(1_700_000_000_000)) }
    }

    /// A server that starts after the end of the previous one, whose memory is lost. An ended process writes nothing more;
    /// here its shards continue, so the next server waits for the queued commits.
    async fn next(&self) -> Server {
        for shard in &self.shards {
            let behind_all = shard.commit(Batch::default()).expect("the shard is open");
            behind_all.await.expect("the engine is in memory");
        }
        Server::over(self.shards.clone(), MongoSettings::default(), self.clock.clone()).await
    }
}

fn numbered(command: &bson::Document, session: u8, number: i64) -> Document {
    let mut command = of(command);
    let id = Document::one("id", Value::Binary(4, [session; 16].as_slice().into()));
    command.push("lsid", id.into());
    command.push("txnNumber", Value::Long(number));
    command
}

/// The reply without its times.
fn told(reply: &Document) -> String {
    let mut reply = reply.clone();
    for name in ["$clusterTime", "operationTime", "cursor"] {
        reply.remove(name);
    }
    Value::from(reply).to_string()
}

async fn shown(client: &mut Client) -> Vec<String> {
    documents(client).await.into_iter().map(|found| Value::from(found).to_string()).collect()
}

async fn documents(client: &mut Client) -> Vec<Document> {
    first_batch(&client.ok("d", of(&doc! { "find": "c", "sort": { "_id": 1 }, "batchSize": 1000 })).await)
}

fn retried_writes() -> Vec<bson::Document> {
    let increment = |id: i32| doc! { "q": { "_id": id }, "u": { "$inc": { "n": 1 } } };
    let upsert = doc! { "q": { "_id": "made" }, "u": { "$inc": { "n": 1 } }, "upsert": true };
    let bulk = doc! {
        "bulkWrite": 1, "nsInfo": [{ "ns": "d.c" }], "ops": [
            { "insert": 0, "document": { "_id": "bulk", "n": 0 } },
            { "update": 0, "filter": { "_id": 2 }, "updateMods": { "$inc": { "n": 1 } } },
            { "update": 0, "filter": { "_id": "up" }, "updateMods": { "$inc": { "n": 1 } }, "upsert": true },
            { "delete": 0, "filter": { "n": { "$gte": 100 } } },
        ]
    };
    vec![
        doc! { "insert": "c", "documents": (10..400).map(|n| doc! { "_id": n, "n": 0 }).collect::<Vec<_>>() },
        doc! { "update": "c", "updates": [increment(1), increment(2), increment(404), upsert] },
        doc! { "delete": "c", "deletes": [{ "q": { "n": { "$gt": 50 } }, "limit": 1 }] },
        doc! { "findAndModify": "c", "query": { "_id": 1 }, "update": { "$inc": { "n": 7 } }, "new": true },
        doc! { "findAndModify": "c", "query": { "_id": 1 }, "update": [{ "$set": { "n": { "$add": ["$n", 1] } } }], "fields": { "n": 1, "_id": 0 } },
        doc! { "findAndModify": "c", "query": { "n": { "$gt": 50 } }, "remove": true },
        doc! { "findAndModify": "c", "query": { "_id": "anew" }, "update": { "$inc": { "n": 1 } }, "upsert": true, "new": true },
        bulk,
    ]
}

#[tokio::test]
async fn a_write_that_comes_again_after_a_restart_is_answered_as_before() {
    let servers = Servers::new(2).await;
    let mut server = servers.next().await;
    let mut client = server.connect();
    let first: Vec<_> = (1..6).map(|n| doc! { "_id": n, "n": n * 30 }).collect();
    client.ok("d", of(&doc! { "insert": "c", "documents": first })).await;
    for (command, number) in retried_writes().iter().zip(1..) {
        let database = if command.contains_key("bulkWrite") { "admin" } else { "d" };
        let command = numbered(command, 1, number);
        let before = shown(&mut client).await;
        let answer = client.ok(database, command.clone()).await;
        assert!(!answer.has("writeErrors"), "{answer:?}");
        let after = shown(&mut client).await;
        assert_ne!(before, after, "it does something");
        servers.clock.advance(Duration::from_secs(60));
        server = servers.next().await;
        client = server.connect();
        let again = client.ok(database, command.clone()).await;
        assert_eq!(told(&again), told(&answer));
        assert_eq!(shown(&mut client).await, after, "and is done once");
        assert_eq!(
            client.fails(database, numbered(&doc! { "insert": "c", "documents": [{}] }, 1, number - 1)).await,
            225
        );
    }
    drop(server);
}

/// A runtime that ends at once, with all running tasks, when it is dropped.
fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

#[test]
fn a_write_that_was_half_done_is_finished_when_it_comes_again() {
    // More than one wait for the disk covers.
    const DOCUMENTS: i64 = 600;
    let servers = runtime().block_on(Servers::new(1));
    let mut halves = 0;
    for round in 1..=6_i64 {
        let updates: Vec<_> = (0..DOCUMENTS)
            .map(|n| doc! { "q": { "_id": n }, "u": { "$inc": { "n": 1 } }, "upsert": true })
            .collect();
        let command = numbered(&doc! { "update": "c", "updates": updates }, 1, round);
        runtime().block_on(async {
            let server = servers.next().await;
            let (mut client, mut other) = (server.connect(), server.connect());
            let write = client.run("d", command.clone());
            futures::pin_mut!(write);
            // Polled until the first updates are visible, and some more in each round.
            while futures::poll!(&mut write).is_pending() {
                let done = documents(&mut other).await.iter().filter(|at| count(at) == round).count();
                if done as i64 > 5 * (round - 1) {
                    break;
                }
            }
        });
        runtime().block_on(async {
            let next = servers.next().await;
            let mut client = next.connect();
            let before: Vec<_> = documents(&mut client).await.iter().map(count).collect();
            let done = before.iter().filter(|count| **count == round).count() as i64;
            halves += i32::from((1..DOCUMENTS).contains(&done));
            let reply = client.ok("d", command).await;
            assert_eq!(reply.value("n").to_i64_exact(), Some(DOCUMENTS), "{reply:?}");
            let counts: Vec<_> = documents(&mut client).await.iter().map(count).collect();
            assert_eq!(counts, vec![round; DOCUMENTS as usize], "after {done} of them");
        });
    }
    assert!(halves > 0, "some of them were half done");
}

fn count(document: &Document) -> i64 {
    document.value("n").to_i64_exact().expect("a number")
}

#[tokio::test]
async fn a_commit_that_comes_again_after_a_restart_is_known() {
    let servers = Servers::new(1).await;
    let server = servers.next().await;
    let mut client = server.connect();
    client.ok("d", of(&doc! { "insert": "c", "documents": [{ "_id": 1, "n": 0 }] })).await;
    let mut session = Session::new(1);
    let increment = doc! { "update": "c", "updates": [{ "q": { "_id": 1 }, "u": { "$inc": { "n": 1 } } }] };
    session.begin();
    client.ok("d", session.part(&increment)).await;
    client.ok("admin", session.commit()).await;
    let next = servers.next().await;
    let mut client = next.connect();
    client.ok("admin", session.commit()).await;
    assert_eq!(client.fails("admin", session.abort()).await, 256, "it is committed");
    assert_eq!(documents(&mut client).await[0].value("n").to_i64_exact(), Some(1));
    // An uncommitted transaction is lost, and drivers may repeat all of it.
    session.begin();
    client.ok("d", session.part(&increment)).await;
    let next = servers.next().await;
    let mut client = next.connect();
    let reply = client.run("admin", session.commit()).await;
    assert_eq!(reply.value("code").to_i32_exact(), Some(251));
    let labels = reply.value("errorLabels");
    assert_eq!(labels.as_array().expect("labels")[0].as_str(), Some("TransientTransactionError"));
    assert_eq!(documents(&mut client).await[0].value("n").to_i64_exact(), Some(1));
}

#[tokio::test]
async fn answers_are_forgotten_when_nobody_can_ask_for_them() {
    let servers = Servers::new(2).await;
    let server = servers.next().await;
    let write = numbered(&doc! { "insert": "c", "documents": [{ "_id": 1 }] }, 1, 1);
    server.connect().ok("d", write.clone()).await;
    let collections = server.account.collections();
    servers.clock.advance(Duration::from_secs(29 * 60));
    assert_eq!(collections.forget_answers(servers.clock.now()).await.expect("no fault"), 0);
    let next = servers.next().await;
    next.connect().ok("d", write.clone()).await;
    servers.clock.advance(Duration::from_secs(30 * 60));
    assert_eq!(collections.forget_answers(servers.clock.now()).await.expect("no fault"), 1);
    let report = shardlake_account::verify(&servers.shards[..]).await.expect("it can be read");
    assert_eq!(report.problems, Vec::<String>::new());
}
