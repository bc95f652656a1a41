//! Commands of many statements share one wait for the disk, and each statement sees the earlier ones.

use std::sync::Arc;
use std::time::Duration;

use bson::{Bson, doc};
use shardlake_gateway_mongo::MongoSettings;
use shardlake_mql::{Document, Value, identical_documents};
use shardlake_stdx::{Clock, Random};
use shardlake_storage::fault::FaultEngine;
use shardlake_storage::{Durability, Shard, ShardOptions};
use shardlake_testkit::expects_log;

use crate::client::{Client, NOW, Server, first_batch, of};

const STATEMENTS: i32 = 200;

async fn on(engine: &FaultEngine) -> Server {
    let options = ShardOptions { durability: Durability::Sync, ..ShardOptions::memory() };
    let shard = Shard::with_engine(Arc::new(engine.clone()), &options).expect("opens");
    Server::over(vec![shard], MongoSettings::default(), Clock::manual(NOW)).await
}

async fn over(engine: &FaultEngine) -> (Server, Client) {
    let server = on(engine).await;
    let mut client = server.connect();
    client.ok("d", of(&doc! { "create": "c", "shardKey": { "_id": 1 } })).await;
    client.ok("d", of(&doc! { "createIndexes": "c", "indexes": [{ "key": { "k": 1 }, "name": "k" }] })).await;
    for (n, collection) in ["c", "source"].into_iter().enumerate() {
        let documents: Vec<_> =
            (0..STATEMENTS).map(|id| doc! { "_id": id, "k": id, "n": n as i32 }).collect();
        let insert = doc! { "insert": collection, "documents": documents, "ordered": false };
        let reply = client.ok("d", of(&insert)).await;
        assert_eq!(reply.value("n").to_i32_exact(), Some(STATEMENTS), "{}", Value::from(reply));
    }
    (server, client)
}

/// Commands with equally many statements, by name.
fn commands() -> Vec<(&'static str, bson::Document)> {
    let each = |statement: fn(i32) -> bson::Document| (0..STATEMENTS).map(statement).collect::<Vec<_>>();
    let updates = each(|id| doc! { "q": { "_id": id }, "u": { "$inc": { "n": 1 } } });
    let by_field = each(|id| doc! { "q": { "k": id }, "u": { "$inc": { "n": 1 } } });
    let upserts =
        each(|id| doc! { "q": { "_id": format!("new{id}") }, "u": { "$set": { "n": 1 } }, "upsert": true });
    let deletes = each(|id| doc! { "q": { "k": id }, "limit": 1 });
    let operations = each(|id| match id % 3 {
        0 => doc! { "insert": 0, "document": { "_id": 1000 + id } },
        1 => doc! { "update": 0, "filter": { "k": id }, "updateMods": { "$inc": { "n": 1 } } },
        _ => doc! { "delete": 0, "filter": { "_id": id } },
    });
    vec![
        ("updates by _id", doc! { "update": "c", "updates": updates }),
        ("updates by a field", doc! { "update": "c", "updates": by_field, "ordered": false }),
        ("upserts", doc! { "update": "c", "updates": upserts }),
        ("deletes", doc! { "delete": "c", "deletes": deletes }),
        ("bulkWrite", doc! { "bulkWrite": 1, "ops": operations, "nsInfo": [{ "ns": "d.c" }] }),
        ("$merge", doc! { "aggregate": "source", "pipeline": [{ "$merge": "c" }], "cursor": {} }),
    ]
}

fn database_of(command: &bson::Document) -> &'static str {
    if command.contains_key("bulkWrite") { "admin" } else { "d" }
}

#[tokio::test]
async fn statements_of_a_command_wait_for_the_disk_together() {
    for (name, command) in commands() {
        let engine = FaultEngine::new();
        let (server, mut client) = over(&engine).await;
        engine.stall_syncs(true);
        let before = engine.syncs();
        let mut running = {
            let (command, database) = (of(&command), database_of(&command));
            tokio::spawn(async move { client.run(database, command).await })
        };
        // A paused clock advances only when every task waits: then the command has planned all that it can.
        tokio::time::pause();
        let early = tokio::time::timeout(Duration::from_secs(1), &mut running).await;
        assert!(early.is_err(), "{name}: nothing is durable yet");
        tokio::time::resume();
        engine.stall_syncs(false);
        let reply = running.await.expect("no panic");
        assert_eq!(reply.value("ok").to_f64(), Some(1.0), "{name}: {}", Value::from(reply.clone()));
        assert!(!reply.has("writeErrors"), "{name}: {}", Value::from(reply));
        // One sync for the first statement, and one for all that were planned meanwhile.
        assert!(engine.syncs() - before <= 2, "{name}: {} syncs", engine.syncs() - before);
        let again = on(&engine.crash(0)).await;
        let all = of(&doc! { "find": "c", "batchSize": 1000, "sort": { "_id": 1 } });
        let kept = first_batch(&again.connect().ok("d", all.clone()).await);
        assert_eq!(kept.len(), first_batch(&server.connect().ok("d", all).await).len(), "{name}");
    }
}

#[tokio::test]
async fn a_statement_for_many_documents_waits_on_its_way() {
    const DOCUMENTS: i32 = 1000;
    let engine = FaultEngine::new();
    let (_server, mut client) = over(&engine).await;
    let documents: Vec<_> = (0..DOCUMENTS).map(|id| doc! { "_id": id, "n": 0 }).collect();
    client.ok("d", of(&doc! { "insert": "many", "documents": documents, "ordered": false })).await;
    engine.stall_syncs(true);
    let before = engine.syncs();
    let all = doc! { "q": {}, "u": { "$inc": { "n": 1 } }, "multi": true };
    let last = doc! { "q": { "_id": 1 }, "u": { "$inc": { "n": 1 } } };
    let command = of(&doc! { "update": "many", "updates": [all, last] });
    let mut running = tokio::spawn(async move { client.ok("d", command).await });
    tokio::time::pause();
    let early = tokio::time::timeout(Duration::from_secs(1), &mut running).await;
    assert!(early.is_err(), "nothing is durable yet");
    tokio::time::resume();
    engine.stall_syncs(false);
    let reply = running.await.expect("no panic");
    assert_eq!(number(&reply, "nModified"), i64::from(DOCUMENTS) + 1);
    assert!(
        engine.syncs() - before >= 4,
        "{} syncs: the documents would all be kept",
        engine.syncs() - before
    );
}

#[tokio::test]
async fn a_command_fails_when_its_statements_are_not_durable() {
    expects_log("(injected)");
    for (name, command) in commands() {
        let engine = FaultEngine::new();
        let (_server, mut client) = over(&engine).await;
        engine.fail_sync(1);
        let reply = client.run(database_of(&command), of(&command)).await;
        assert_eq!(reply.value("ok").to_f64(), Some(0.0), "{name}: {}", Value::from(reply));
    }
}

fn filter(random: &Random) -> bson::Document {
    let number = random.below(6) as i32;
    match random.below(5) {
        0 => doc! { "_id": number },
        1 => doc! { "k": number % 3 },
        2 => doc! { "k": { "$gte": number % 3 }, "n": { "$lt": 3 } },
        3 => doc! { "k": number % 3, "_id": { "$in": [number, number + 1] } },
        _ => doc! { "n": { "$exists": true } },
    }
}

fn change(random: &Random) -> bson::Document {
    let number = random.below(4) as i32;
    match random.below(5) {
        0 => doc! { "$inc": { "n": 1 } },
        1 => doc! { "$set": { "k": number % 3 } },
        2 => doc! { "$set": { "k": number % 3 }, "$inc": { "n": 1 } },
        3 => doc! { "$unset": { "n": 1 } },
        _ => doc! { "k": number % 3, "n": number },
    }
}

fn update(random: &Random) -> bson::Document {
    let change = change(random);
    let is_replacement = change.contains_key("k");
    let mut statement = doc! { "q": filter(random), "u": change, "upsert": random.below(3) == 0 };
    // Without a sort, any matching document may be chosen.
    match is_replacement || random.below(2) == 0 {
        true => drop(statement.insert("sort", doc! { "n": -1, "_id": 1 })),
        false => drop(statement.insert("multi", true)),
    }
    statement
}

/// Statements of one kind, with their command and its field.
fn statements(random: &Random) -> (&'static str, &'static str, Vec<bson::Document>) {
    let count = 2 + random.below(12);
    match random.below(3) {
        0 => {
            let delete = |_| doc! { "q": filter(random), "limit": 0 };
            ("delete", "deletes", (0..count).map(delete).collect())
        }
        _ => ("update", "updates", (0..count).map(|_| update(random)).collect()),
    }
}

async fn documents(client: &mut Client, collection: &str) -> Vec<Document> {
    let found =
        client.ok("d", of(&doc! { "find": collection, "sort": { "_id": 1 }, "batchSize": 1000 })).await;
    first_batch(&found)
}

fn number(reply: &Document, name: &str) -> i64 {
    reply.value(name).to_i64_exact().unwrap_or(0)
}

/// Counts of a reply.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    n: i64,
    modified: i64,
    upserted: usize,
    errors: usize,
}

impl Counts {
    fn add(&mut self, reply: &Document) {
        let length = |name: &str| reply.value(name).as_array().map_or(0, |list| list.len());
        self.n += number(reply, "n");
        self.modified += number(reply, "nModified");
        self.upserted += length("upserted");
        self.errors += length("writeErrors");
    }
}

/// Sets the ids of upserts, so that both collections get the same documents.
fn with_id(mut statement: bson::Document, id: i32) -> bson::Document {
    let is_upsert = statement.get_bool("upsert").unwrap_or(false);
    let names_id = statement.get_document("q").is_ok_and(|filter| filter.get_i32("_id").is_ok());
    if is_upsert && !names_id {
        let change = statement.get_document_mut("u").expect("a change");
        match change.keys().next().is_some_and(|name| name.starts_with('$')) {
            true => drop(change.insert("$setOnInsert", doc! { "_id": id })),
            false => drop(statement.insert("upsert", false)),
        }
    }
    statement
}

#[tokio::test]
async fn statements_of_one_command_come_to_the_same_as_commands_of_one_statement() {
    for (seed, keys) in [(1, doc! {}), (2, doc! { "_id": 1 })] {
        let (server, random) = (Server::start().await, Random::seeded(seed));
        let mut client = server.connect();
        for collection in ["together", "apart"] {
            let mut create = doc! { "create": collection };
            if !keys.is_empty() {
                create.insert("shardKey", keys.clone());
            }
            client.ok("d", of(&create)).await;
            let index = doc! { "key": { "k": 1, "n": 1 }, "name": "k" };
            client.ok("d", of(&doc! { "createIndexes": collection, "indexes": [index] })).await;
        }
        for round in 0..150 {
            let (command, field, statements) = statements(&random);
            let given =
                |(place, statement)| Bson::Document(with_id(statement, 100 * round + place as i32 + 10));
            let statements: Vec<Bson> = statements.into_iter().enumerate().map(given).collect();
            let (mut together, mut apart) = (Counts::default(), Counts::default());
            let mut all = doc! { command: "together", "ordered": false };
            all.insert(field, statements.clone());
            together.add(&client.ok("d", of(&all)).await);
            for statement in &statements {
                let mut one = doc! { command: "apart" };
                one.insert(field, vec![statement.clone()]);
                apart.add(&client.ok("d", of(&one)).await);
            }
            let (left, right) =
                (documents(&mut client, "together").await, documents(&mut client, "apart").await);
            let words = || format!("round {round} of {seed}: {statements:?}");
            assert_eq!(together, apart, "{}", words());
            assert_eq!(left.len(), right.len(), "{}", words());
            for (left, right) in left.iter().zip(&right) {
                assert!(identical_documents(left, right), "{}: {left:?} {right:?}", words());
            }
        }
    }
}
