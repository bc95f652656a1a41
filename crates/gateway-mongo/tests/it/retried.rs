//! Connections that end before the answer has come: a repeated write is done once.

use bson::doc as bson_doc;
use shardlake_mql::{Document, Value};
use shardlake_stdx::Random;

use crate::client::{OP_MSG, Server, body_section, first_batch, message, of};
use crate::transactions::Session;

const WRITES: i64 = 150;

fn retryable(command: &bson::Document, number: i64) -> Document {
    let mut command = of(command);
    let id = Document::one("id", Value::Binary(4, [9; 16].as_slice().into()));
    command.push("lsid", id.into());
    command.push("txnNumber", Value::Long(number));
    command
}

/// Sends a command until an answer comes. The connection often ends before that: before the command is read, or after it.
async fn sent_until_answered(
    server: &Server,
    random: &Random,
    database: &str,
    command: &Document,
) -> Document {
    loop {
        let mut client = server.connect();
        let mut body = command.clone();
        body.push("$db", Value::string(database));
        if random.below(3) == 0 {
            client.send(OP_MSG, &message(0, &[body_section(&body)])).await;
            for _ in 0..random.below(40) {
                tokio::task::yield_now().await;
            }
            // The client has gone away.
            drop(client);
            continue;
        }
        return client.run(database, command.clone()).await;
    }
}

#[tokio::test]
async fn writes_whose_answers_are_lost_are_done_once() {
    let (server, random) = (Server::start().await, Random::seeded(3));
    let upsert = bson_doc! {
        "update": "c", "updates": [{ "q": { "_id": 1 }, "u": { "$inc": { "n": 1 } }, "upsert": true }]
    };
    let modify = bson_doc! { "findAndModify": "c", "query": { "_id": 1 }, "update": { "$inc": { "n": 1 } }, "new": true };
    for number in 0..WRITES {
        let command = if number % 2 == 0 { &upsert } else { &modify };
        let reply = sent_until_answered(&server, &random, "d", &retryable(command, number)).await;
        assert_eq!(reply.value("ok").to_f64(), Some(1.0), "{}", Value::from(reply.clone()));
        if number % 2 == 1 {
            let shown = reply.value("value").as_document().expect("a document").value("n");
            assert_eq!(shown.to_i64_exact(), Some(number + 1), "the answer is that of the write");
        }
    }
    let found = server.connect().ok("d", of(&bson_doc! { "find": "c" })).await;
    assert_eq!(first_batch(&found)[0].value("n").to_i64_exact(), Some(WRITES));
}

#[tokio::test]
async fn a_commit_whose_answer_is_lost_is_done_once_and_answered_alike() {
    let (server, random) = (Server::start().await, Random::seeded(4));
    let mut client = server.connect();
    client.ok("d", of(&bson_doc! { "insert": "c", "documents": [{ "_id": 1, "n": 0 }] })).await;
    let mut session = Session::new(1);
    let increment =
        bson_doc! { "update": "c", "updates": [{ "q": { "_id": 1 }, "u": { "$inc": { "n": 1 } } }] };
    for _ in 0..40 {
        session.begin();
        client.ok("d", session.part(&increment)).await;
        let reply = sent_until_answered(&server, &random, "admin", &session.commit()).await;
        assert_eq!(reply.value("ok").to_f64(), Some(1.0), "{}", Value::from(reply));
    }
    let found = client.ok("d", of(&bson_doc! { "find": "c" })).await;
    assert_eq!(first_batch(&found)[0].value("n").to_i64_exact(), Some(40));
}
