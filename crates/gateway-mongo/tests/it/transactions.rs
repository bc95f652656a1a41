//! Transactions, command by command: their reads, the reads of other clients, and how they end.

use std::time::Duration;

use bson::doc as bson_doc;
use shardlake_account::AccountOptions;
use shardlake_gateway_mongo::{MongoSettings, TransactionLimits};
use shardlake_model::Limits;
use shardlake_mql::{Document, Value};
use shardlake_stdx::Clock;
use shardlake_storage::{Shard, ShardOptions};

use crate::client::{Client, NOW, OP_MSG, Server, body_section, first_batch, message, of};

/// A session of a test, whose transactions have a number.
pub struct Session {
    id: u8,
    number: i64,
    is_begun: bool,
}

impl Session {
    pub fn new(id: u8) -> Session {
        Session { id, number: 0, is_begun: false }
    }

    pub fn begin(&mut self) -> &mut Session {
        self.number += 1;
        self.is_begun = false;
        self
    }

    /// The command as a part of the transaction.
    pub fn part(&mut self, command: &bson::Document) -> Document {
        let mut command = self.numbered(command);
        if !std::mem::replace(&mut self.is_begun, true) {
            command.push("startTransaction", Value::Bool(true));
        }
        command
    }

    fn numbered(&self, command: &bson::Document) -> Document {
        let mut command = of(command);
        let id = Document::one("id", Value::Binary(4, [self.id; 16].as_slice().into()));
        command.push("lsid", id.into());
        command.push("txnNumber", Value::Long(self.number));
        command.push("autocommit", Value::Bool(false));
        command
    }

    pub fn commit(&self) -> Document {
        self.numbered(&bson_doc! { "commitTransaction": 1 })
    }

    pub fn abort(&self) -> Document {
        self.numbered(&bson_doc! { "abortTransaction": 1 })
    }
}

fn insert(collection: &str, id: i32, n: i32) -> bson::Document {
    bson_doc! { "insert": collection, "documents": [{ "_id": id, "n": n }] }
}

fn increment(collection: &str, id: i32) -> bson::Document {
    bson_doc! { "update": collection, "updates": [{ "q": { "_id": id }, "u": { "$inc": { "n": 1 } } }] }
}

fn find(collection: &str) -> bson::Document {
    bson_doc! { "find": collection, "filter": {}, "sort": { "_id": 1 } }
}

fn numbers(reply: &Document) -> Vec<(i64, i64)> {
    let number = |document: &Document, name: &str| document.value(name).to_i64_exact().expect("a number");
    first_batch(reply).iter().map(|found| (number(found, "_id"), number(found, "n"))).collect()
}

async fn stored(client: &mut Client, collection: &str) -> Vec<(i64, i64)> {
    numbers(&client.ok("d", of(&find(collection))).await)
}

fn has_label(reply: &Document, label: &str) -> bool {
    let labels = reply.value("errorLabels");
    labels.as_array().is_some_and(|labels| labels.iter().any(|own| own.as_str() == Some(label)))
}

async fn conflicts(client: &mut Client, command: Document) {
    let reply = client.run("d", command).await;
    assert_eq!(reply.value("code").to_i32_exact(), Some(112), "{}", Value::from(reply.clone()));
    assert!(has_label(&reply, "TransientTransactionError"));
}

#[tokio::test]
async fn a_transaction_sees_its_own_writes_and_others_see_them_when_it_is_committed() {
    let server = Server::start().await;
    let (mut client, mut other) = (server.connect(), server.connect());
    client.ok("d", of(&insert("c", 1, 10))).await;
    let mut session = Session::new(1);
    session.begin();
    client.ok("d", session.part(&insert("c", 2, 20))).await;
    client.ok("d", session.part(&increment("c", 1))).await;
    // Another collection, which the transaction makes.
    client.ok("d", session.part(&insert("e", 1, 0))).await;
    let seen = client.ok("d", session.part(&find("c"))).await;
    assert_eq!(numbers(&seen), [(1, 11), (2, 20)]);
    assert_eq!(stored(&mut other, "c").await, [(1, 10)]);
    assert_eq!(stored(&mut other, "e").await, []);
    client.ok("admin", session.commit()).await;
    assert_eq!(stored(&mut other, "c").await, [(1, 11), (2, 20)]);
    assert_eq!(stored(&mut other, "e").await, [(1, 0)]);
    client.ok("admin", session.commit()).await;
    assert_eq!(client.fails("admin", session.abort()).await, 256, "it is committed");
    assert_eq!(client.fails("d", session.part(&find("c"))).await, 256);
}

#[tokio::test]
async fn an_aborted_transaction_leaves_nothing() {
    let server = Server::start().await;
    let mut client = server.connect();
    client.ok("d", of(&insert("c", 1, 10))).await;
    let mut session = Session::new(1);
    session.begin();
    client.ok("d", session.part(&increment("c", 1))).await;
    client.ok("d", session.part(&bson_doc! { "delete": "c", "deletes": [{ "q": {}, "limit": 0 }] })).await;
    assert_eq!(numbers(&client.ok("d", session.part(&find("c"))).await), []);
    client.ok("admin", session.abort()).await;
    assert_eq!(stored(&mut client, "c").await, [(1, 10)]);
    assert_eq!(client.fails("admin", session.commit()).await, 251);
    assert_eq!(client.fails("admin", session.abort()).await, 251);
    // The session begins another one.
    session.begin();
    client.ok("d", session.part(&increment("c", 1))).await;
    client.ok("admin", session.commit()).await;
    assert_eq!(stored(&mut client, "c").await, [(1, 11)]);
}

#[tokio::test]
async fn reads_are_of_one_moment() {
    let server = Server::start().await;
    let (mut client, mut other) = (server.connect(), server.connect());
    for id in 0..30 {
        client.ok("d", of(&insert("c", id, 0))).await;
    }
    client.ok("d", of(&insert("e", 0, 0))).await;
    let mut session = Session::new(1);
    session.begin();
    let first = bson_doc! { "find": "c", "filter": {}, "batchSize": 5 };
    let reply = client.ok("d", session.part(&first)).await;
    let cursor = reply.value("cursor").as_document().expect("a cursor").value("id");
    for id in 0..30 {
        other.ok("d", of(&increment("c", id))).await;
    }
    other.ok("d", of(&increment("e", 0))).await;
    let more = bson_doc! { "getMore": cursor.to_i64_exact().expect("an id"), "collection": "c" };
    assert_eq!(client.fails("d", of(&more)).await, 50738, "the cursor is the transaction's");
    let reply = client.ok("d", session.part(&more)).await;
    let rest = reply.value("cursor").as_document().expect("a cursor").value("nextBatch");
    let rest = rest.as_array().expect("a list");
    assert_eq!(rest.len(), 25);
    assert!(rest.iter().all(|found| found.as_document().expect("one").value("n").to_i64_exact() == Some(0)));
    let seen = client.ok("d", session.part(&bson_doc! { "find": "c", "filter": { "_id": 3 } })).await;
    assert_eq!(numbers(&seen), [(3, 0)]);
    assert_eq!(numbers(&client.ok("d", session.part(&find("e"))).await), [(0, 0)], "another collection, too");
    client.ok("admin", session.commit()).await;
    assert_eq!(stored(&mut client, "e").await, [(0, 1)]);
}

#[tokio::test]
async fn an_answer_about_a_missing_collection_is_of_the_point_in_time_that_later_commands_read() {
    let firsts = [
        bson_doc! { "find": "none", "filter": { "_id": 1 } },
        bson_doc! { "find": "c", "filter": {} },
        bson_doc! { "aggregate": "none", "pipeline": [{ "$group": { "_id": 1, "n": { "$sum": 1 } } }], "cursor": {} },
        bson_doc! { "distinct": "none", "key": "n" },
        bson_doc! { "update": "none", "updates": [{ "q": { "_id": 1 }, "u": { "$set": { "n": 1 } } }] },
        bson_doc! { "delete": "none", "deletes": [{ "q": {}, "limit": 0 }] },
        bson_doc! { "findAndModify": "none", "query": { "_id": 1 }, "update": { "$set": { "n": 1 } } },
    ];
    for first in firsts {
        let server = Server::start().await;
        let (mut client, mut other) = (server.connect(), server.connect());
        other.ok("d", of(&insert("old", 1, 0))).await;
        let mut session = Session::new(1);
        session.begin();
        client.ok("d", session.part(&first)).await;
        other.ok("d", of(&insert("c", 1, 1))).await;
        other.ok("d", of(&increment("old", 1))).await;
        assert_eq!(numbers(&client.ok("d", session.part(&find("c"))).await), [], "{first}");
        assert_eq!(numbers(&client.ok("d", session.part(&find("old"))).await), [(1, 0)], "{first}");
        let upsert = bson_doc! {
            "update": "c",
            "updates": [{ "q": { "_id": 1 }, "u": { "$set": { "n": 7 } }, "upsert": true }],
        };
        conflicts(&mut client, session.part(&upsert)).await;
        assert_eq!(stored(&mut other, "c").await, [(1, 1)], "{first}");
    }
}

#[tokio::test]
async fn a_transaction_that_begins_on_an_empty_account_may_create_its_collection() {
    let server = Server::start().await;
    let mut client = server.connect();
    let mut session = Session::new(1);
    session.begin();
    assert_eq!(numbers(&client.ok("d", session.part(&find("c"))).await), []);
    client.ok("d", session.part(&insert("c", 1, 5))).await;
    assert_eq!(numbers(&client.ok("d", session.part(&find("c"))).await), [(1, 5)]);
    client.ok("admin", session.commit()).await;
    assert_eq!(stored(&mut client, "c").await, [(1, 5)]);
}

#[tokio::test]
async fn of_two_that_write_the_same_document_the_first_wins() {
    let server = Server::start().await;
    let (mut client, mut other) = (server.connect(), server.connect());
    client
        .ok("d", of(&bson_doc! { "insert": "c", "documents": [{ "_id": 1, "n": 0 }, { "_id": 2, "n": 0 }] }))
        .await;
    let (mut left, mut right) = (Session::new(1), Session::new(2));
    left.begin();
    right.begin();
    client.ok("d", left.part(&increment("c", 1))).await;
    other.ok("d", right.part(&increment("c", 2))).await;
    conflicts(&mut other, right.part(&increment("c", 1))).await;
    assert_eq!(other.fails("admin", right.commit()).await, 251, "the conflict has aborted it");
    client.ok("admin", left.commit()).await;
    // A write or an insert after the beginning of the transaction is a conflict, too.
    right.begin();
    other.ok("d", right.part(&find("c"))).await;
    client.ok("d", of(&increment("c", 2))).await;
    conflicts(&mut other, right.part(&increment("c", 2))).await;
    right.begin();
    other.ok("d", right.part(&find("c"))).await;
    client.ok("d", of(&insert("c", 3, 0))).await;
    conflicts(&mut other, right.part(&insert("c", 3, 7))).await;
    assert_eq!(stored(&mut client, "c").await, [(1, 1), (2, 1), (3, 0)]);
}

#[tokio::test]
async fn a_write_by_itself_waits_for_the_transaction_that_has_the_document() {
    let server = Server::start().await;
    let (mut client, mut other) = (server.connect(), server.connect());
    client.ok("d", of(&insert("c", 1, 0))).await;
    client.ok("d", of(&insert("c", 2, 0))).await;
    let mut session = Session::new(1);
    session.begin();
    client.ok("d", session.part(&increment("c", 1))).await;
    // Other documents of the collection are free.
    other.ok("d", of(&increment("c", 2))).await;
    let waiting = tokio::spawn(async move {
        other.ok("d", of(&increment("c", 1))).await;
    });
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert!(!waiting.is_finished());
    client.ok("admin", session.commit()).await;
    waiting.await.expect("it goes on");
    assert_eq!(stored(&mut client, "c").await, [(1, 2), (2, 1)]);
}

#[tokio::test]
async fn an_error_ends_the_transaction() {
    let server = Server::start().await;
    let mut client = server.connect();
    client.ok("d", of(&insert("c", 1, 0))).await;
    let mut session = Session::new(1);
    session.begin();
    client.ok("d", session.part(&insert("c", 2, 0))).await;
    let reply = client.ok("d", session.part(&insert("c", 1, 5))).await;
    let errors = reply.value("writeErrors");
    let error = errors.as_array().and_then(|errors| errors.first()?.as_document()).expect("an error");
    assert_eq!(error.value("code").to_i32_exact(), Some(11000));
    assert_eq!(client.fails("d", session.part(&find("c"))).await, 251);
    assert_eq!(client.fails("admin", session.commit()).await, 251);
    assert_eq!(stored(&mut client, "c").await, [(1, 0)]);
    session.begin();
    client.ok("d", session.part(&insert("c", 2, 0))).await;
    let wrong = bson_doc! { "find": "c", "filter": { "a": { "$nothing": 1 } } };
    assert_eq!(client.fails("d", session.part(&wrong)).await, 2);
    assert_eq!(client.fails("admin", session.commit()).await, 251);
    assert_eq!(stored(&mut client, "c").await, [(1, 0)]);
}

#[tokio::test]
async fn what_may_not_run_in_a_transaction_is_refused_and_changes_nothing() {
    let server = Server::start().await;
    let mut client = server.connect();
    client.ok("d", of(&insert("c", 1, 0))).await;
    let mut session = Session::new(1);
    for refused in [
        bson_doc! { "count": "c" },
        bson_doc! { "listCollections": 1 },
        bson_doc! { "drop": "c" },
        bson_doc! { "aggregate": "c", "pipeline": [{ "$out": "o" }], "cursor": {} },
        bson_doc! { "aggregate": "c", "pipeline": [{ "$facet": { "a": [{ "$collStats": {} }] } }], "cursor": {} },
    ] {
        session.begin();
        assert_eq!(client.fails("d", session.part(&refused)).await, 263, "{refused}");
    }
    session.begin();
    assert_eq!(client.fails("config", session.part(&insert("c", 1, 0))).await, 263);
    let indexes = bson_doc! { "createIndexes": "c", "indexes": [{ "key": { "n": 1 }, "name": "n_1" }] };
    session.begin();
    assert_eq!(client.fails("d", session.part(&indexes)).await, 263, "it has documents");
    assert_eq!(stored(&mut client, "c").await, [(1, 0)]);
}

#[tokio::test]
async fn concerns_and_numbers_are_checked() {
    let server = Server::start().await;
    let mut client = server.connect();
    let mut session = Session::new(1);
    session.begin();
    let mut written = session.part(&insert("c", 1, 0));
    written.push("writeConcern", Document::one("w", 1).into());
    assert_eq!(client.fails("d", written).await, 72);
    session.begin();
    let mut first = session.part(&insert("c", 1, 0));
    first.push("readConcern", Document::one("level", Value::string("snapshot")).into());
    client.ok("d", first).await;
    let mut later = session.part(&find("c"));
    later.push("readConcern", Document::one("level", Value::string("local")).into());
    assert_eq!(client.fails("d", later).await, 72);
    client.ok("admin", session.commit()).await;
    let mut again = Session { id: 1, number: session.number, is_begun: false };
    assert_eq!(client.fails("d", again.part(&find("c"))).await, 117, "the number is used");
    let mut older = Session { id: 1, number: session.number - 1, is_begun: true };
    assert_eq!(client.fails("d", older.part(&find("c"))).await, 225);
    let mut newer = Session { id: 1, number: session.number + 1, is_begun: true };
    assert_eq!(client.fails("d", newer.part(&find("c"))).await, 251);
    assert_eq!(client.fails("d", session.commit()).await, 13, "it is run on admin");
}

#[tokio::test]
async fn idle_and_old_transactions_are_aborted_and_so_are_those_of_ended_sessions() {
    let server = Server::start().await;
    let mut client = server.connect();
    client.ok("d", of(&insert("c", 1, 0))).await;
    let mut session = Session::new(1);
    session.begin();
    client.ok("d", session.part(&increment("c", 1))).await;
    server.clock.advance(Duration::from_secs(31));
    assert_eq!(client.fails("d", session.part(&find("c"))).await, 251);
    session.begin();
    for _ in 0..3 {
        client.ok("d", session.part(&increment("c", 1))).await;
        server.clock.advance(Duration::from_secs(20));
    }
    assert_eq!(client.fails("admin", session.commit()).await, 251, "it has lasted for a minute");
    session.begin();
    client.ok("d", session.part(&increment("c", 1))).await;
    client.ok("admin", of(&bson_doc! { "killAllSessions": [] })).await;
    // The transaction has released its documents.
    client.ok("d", of(&increment("c", 1))).await;
    assert_eq!(client.fails("admin", session.commit()).await, 251);
    assert_eq!(stored(&mut client, "c").await, [(1, 1)]);
}

#[tokio::test]
async fn transactions_are_bounded_in_number_and_size() {
    let transactions = TransactionLimits { count_max: 1, ..TransactionLimits::default() };
    let server = Server::start_with(MongoSettings { transactions, ..MongoSettings::default() }).await;
    let mut client = server.connect();
    let (mut left, mut right) = (Session::new(1), Session::new(2));
    left.begin();
    right.begin();
    client.ok("d", left.part(&insert("c", 1, 0))).await;
    conflicts(&mut client, right.part(&find("c"))).await;
    client.ok("admin", left.abort()).await;
    // More than 16 MB in a few documents.
    right.begin();
    let pad = "x".repeat(4 << 20);
    let large = |id: i32| bson_doc! { "insert": "c", "documents": [{ "_id": id, "pad": &pad }] };
    let mut codes = Vec::new();
    for id in 0..5 {
        let reply = client.run("d", right.part(&large(id))).await;
        codes.push(reply.value("code").to_i32_exact());
    }
    assert_eq!(codes, [None, None, None, None, Some(257)]);
    assert_eq!(stored(&mut client, "c").await, []);
}

#[tokio::test]
async fn the_writes_of_a_transaction_are_counted_and_a_hundred_thousand_may_be() {
    assert_eq!(Limits::default().snapshot_transaction_writes_max, 100_000);
    let shard = Shard::open(ShardOptions::memory()).await.expect("a shard in memory opens");
    let limits = Limits { snapshot_transaction_writes_max: 5_000, ..Limits::default() };
    let options = AccountOptions { limits, ..AccountOptions::default() };
    let server =
        Server::with_options(vec![shard], MongoSettings::default(), Clock::manual(NOW), options).await;
    let mut client = server.connect();
    let mut session = Session::new(1);
    let many = |from: i32, to: i32| {
        let documents: Vec<bson::Bson> =
            (from..to).map(|id| bson_doc! { "_id": id, "n": 0 }.into()).collect();
        bson_doc! { "insert": "c", "documents": documents }
    };
    session.begin();
    client.ok("d", session.part(&many(0, 5_000))).await;
    client.ok("admin", session.commit()).await;
    assert_eq!(client.ok("d", of(&bson_doc! { "count": "c" })).await.value("n").to_i64_exact(), Some(5_000));
    // Index entries are not counted separately: a batch of another protocol may change 100,000.
    let fields: Vec<i32> = (0..30).collect();
    let wide = |id: i32| bson_doc! { "_id": id, "list": fields.clone() };
    let documents: Vec<bson::Bson> = (20_000..24_000).map(|id| wide(id).into()).collect();
    session.begin();
    let list = bson_doc! { "createIndexes": "w", "indexes": [{ "key": { "list": 1 }, "name": "list" }] };
    client.ok("d", of(&list)).await;
    client.ok("d", session.part(&bson_doc! { "insert": "w", "documents": documents })).await;
    client.ok("admin", session.commit()).await;
    let found = bson_doc! { "count": "w", "query": { "list": 29 } };
    assert_eq!(client.ok("d", of(&found)).await.value("n").to_i64_exact(), Some(4_000));
    session.begin();
    let reply = client.run("d", session.part(&many(5_000, 10_001))).await;
    assert_eq!(reply.value("code").to_i32_exact(), Some(257), "{reply}");
}

#[tokio::test]
async fn what_open_transactions_hold_together_is_bounded() {
    let transactions = TransactionLimits { size_bytes_max: 1000, ..TransactionLimits::default() };
    let server = Server::start_with(MongoSettings { transactions, ..MongoSettings::default() }).await;
    let mut client = server.connect();
    let (mut left, mut right) = (Session::new(1), Session::new(2));
    left.begin();
    right.begin();
    let large = bson_doc! { "insert": "c", "documents": [{ "_id": 1, "s": "x".repeat(1000) }] };
    client.ok("d", left.part(&large)).await;
    conflicts(&mut client, right.part(&insert("c", 2, 0))).await;
    client.ok("admin", left.commit()).await;
    right.begin();
    client.ok("d", right.part(&insert("c", 2, 0))).await;
    client.ok("admin", right.commit()).await;
    let counted = client.ok("d", of(&bson_doc! { "count": "c" })).await;
    assert_eq!(counted.value("n").to_i64_exact(), Some(2));
}

#[tokio::test]
async fn a_transaction_spans_keys_and_collections() {
    let server = Server::start().await;
    let mut client = server.connect();
    let create = bson_doc! { "create": "s", "shardKey": { "k": "hashed" } };
    client.ok("d", of(&create)).await;
    let mut session = Session::new(1);
    session.begin();
    let documents: Vec<bson::Bson> =
        (0..20).map(|id| bson_doc! { "_id": id, "k": id % 7, "n": 0 }.into()).collect();
    client.ok("d", session.part(&bson_doc! { "insert": "s", "documents": documents })).await;
    let all =
        bson_doc! { "update": "s", "updates": [{ "q": {}, "u": { "$inc": { "n": 1 } }, "multi": true }] };
    let reply = client.ok("d", session.part(&all)).await;
    assert_eq!(reply.value("nModified").to_i32_exact(), Some(20));
    client.ok("d", session.part(&insert("c", 1, 1))).await;
    let total = bson_doc! {
        "aggregate": "s", "pipeline": [{ "$group": { "_id": 1, "n": { "$sum": "$n" } } }], "cursor": {}
    };
    assert_eq!(numbers(&client.ok("d", session.part(&total)).await), [(1, 20)]);
    assert_eq!(stored(&mut client, "s").await, []);
    client.ok("admin", session.commit()).await;
    assert_eq!(stored(&mut client, "s").await.len(), 20);
    assert_eq!(stored(&mut client, "c").await, [(1, 1)]);
}

/// Commands that wait for a transaction's document take no permit from the transaction's own commands.
#[tokio::test]
async fn writes_that_evaluate_and_wait_for_a_transaction_do_not_hold_it_up() {
    let server = Server::start().await;
    let mut client = server.connect();
    client.ok("d", of(&insert("c", 1, 0))).await;
    let mut session = Session::new(1);
    let _reply = client.ok("d", session.begin().part(&increment("c", 1))).await;
    let add = bson_doc! { "$set": { "n": { "$add": ["$n", 1] } } };
    let mut writers: Vec<_> = (0..40).map(|_| server.connect()).collect();
    for writer in &mut writers {
        let update =
            bson_doc! { "update": "c", "updates": [{ "q": { "_id": 1 }, "u": [add.clone()] }], "$db": "d" };
        writer.send(OP_MSG, &message(0, &[body_section(&of(&update))])).await;
    }
    while operations(&mut client, "update").await < writers.len() {
        tokio::task::yield_now().await;
    }
    let is_first = bson_doc! { "$expr": { "$eq": ["$_id", 1] } };
    let found = client.ok("d", session.part(&bson_doc! { "find": "c", "filter": is_first })).await;
    assert_eq!(numbers(&found), [(1, 1)]);
    client.ok("admin", session.commit()).await;
    for writer in &mut writers {
        let reply: Document = writer.receive().await.document();
        assert_eq!(reply.value("nModified").to_i32_exact(), Some(1), "{reply:?}");
    }
    assert_eq!(stored(&mut client, "c").await, [(1, 41)]);
}

/// Number of running commands of this name.
async fn operations(client: &mut Client, command: &str) -> usize {
    let listed = client.ok("admin", of(&bson_doc! { "currentOp": 1 })).await.value("inprog");
    let listed = listed.as_array().expect("a list").iter().filter_map(Value::as_document);
    let of_name = |own: &Document| own.value("command").as_document().is_some_and(|own| own.has(command));
    listed.filter(|own| of_name(own)).count()
}
