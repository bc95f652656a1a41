//! Many concurrent connections, and clients that disconnect in the middle of a command.

use std::sync::Arc;

use bson::doc;
use shardlake_mql::{Document, Value};
use tokio::sync::Barrier;

use crate::client::{Client, OP_MSG, Server, body_section, first_batch, framed, message, of};

const CONNECTIONS: i32 = 1000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_connections_are_served_at_once() {
    let server = Server::start().await;
    let mut first = server.connect();
    first.ok("d", of(&doc! { "create": "c", "shardKey": { "k": "hashed" } })).await;
    let all_are_here = Arc::new(Barrier::new(CONNECTIONS as usize));
    let clients = (0..CONNECTIONS).map(|id| {
        let (mut client, all_are_here) = (server.connect(), all_are_here.clone());
        tokio::spawn(async move {
            client.ok("admin", of(&doc! { "hello": 1 })).await;
            all_are_here.wait().await;
            let document = doc! { "_id": id, "k": id % 10 };
            client.ok("d", of(&doc! { "insert": "c", "documents": [document] })).await;
            let found =
                client.ok("d", of(&doc! { "find": "c", "filter": { "_id": id, "k": id % 10 } })).await;
            assert_eq!(first_batch(&found).len(), 1);
        })
    });
    let clients: Vec<_> = clients.collect();
    for client in clients {
        client.await.expect("it was served");
    }
    let counted = first.ok("d", of(&doc! { "count": "c", "query": { "_id": { "$gte": 0 } } })).await;
    assert_eq!(counted.value("n").to_i64_exact(), Some(i64::from(CONNECTIONS)));
}

/// All commands of a client. The document that it inserts has this identity.
fn conversation(id: i32) -> Vec<Document> {
    let commands = [
        doc! { "hello": 1, "$db": "admin" },
        doc! { "insert": "c", "documents": [{ "_id": id, "text": "x".repeat(300) }], "$db": "d" },
        doc! { "update": "c", "updates": [{ "q": { "_id": -1 }, "u": { "$inc": { "n": 1 } } }], "$db": "d" },
        doc! { "find": "many", "batchSize": 1, "$db": "d" },
        doc! { "aggregate": "c", "pipeline": [{ "$changeStream": {} }], "cursor": {}, "$db": "d" },
        doc! { "getMore": 0i64, "collection": "c", "maxTimeMS": 60_000, "$db": "d" },
    ];
    commands.iter().map(of).collect()
}

/// Sends a conversation up to a command, of which only some bytes are sent, and disconnects.
async fn play(mut client: Client, commands: Vec<Document>, whole: usize, share: (usize, usize)) {
    let mut cursor = 0;
    for (place, command) in commands.into_iter().enumerate() {
        let mut command = command;
        if command.has("getMore") {
            command.set(&"getMore".into(), Value::Long(cursor));
        }
        let bytes = framed(place as i32, OP_MSG, &message(0, &[body_section(&command)]));
        if place == whole {
            client.send_bytes(&bytes[..bytes.len() * share.0 / share.1]).await;
            return;
        }
        client.send_bytes(&bytes).await;
        let reply = client.receive().await.document();
        assert_eq!(reply.value("ok").to_f64(), Some(1.0), "{}", Value::from(reply.clone()));
        cursor = match reply.value("cursor") {
            Value::Document(found) => found.value("id").to_i64_exact().unwrap_or_default(),
            _ => cursor,
        };
    }
}

#[tokio::test]
async fn a_client_that_dies_in_any_phase_leaves_the_others_alone() {
    let server = Server::start().await;
    let mut other = server.connect();
    let many: Vec<bson::Document> = (0..10).map(|id| doc! { "_id": id }).collect();
    other.ok("d", of(&doc! { "insert": "many", "documents": many })).await;
    other.ok("d", of(&doc! { "insert": "c", "documents": [{ "_id": -1, "n": 0 }] })).await;
    let commands = conversation(0).len();
    let mut id = 0;
    let mut finished = Vec::new();
    for whole in 0..commands {
        // Nothing, a part of the header, all but the last bytes, everything.
        for share in [(0, 1), (1, 40), (1, 2), (29, 30), (1, 1)] {
            play(server.connect(), conversation(id), whole, share).await;
            if whole > 1 {
                finished.push(id);
            } else if (whole, share.0 < share.1) == (1, true) || whole < 1 {
                let found = other.ok("d", of(&doc! { "find": "c", "filter": { "_id": id } })).await;
                assert!(first_batch(&found).is_empty(), "half a command does nothing");
            }
            other.ok("admin", of(&doc! { "ping": 1 })).await;
            id += 1;
        }
    }
    for id in finished {
        let found = other.ok("d", of(&doc! { "find": "c", "filter": { "_id": id } })).await;
        assert_eq!(first_batch(&found).len(), 1, "what was acknowledged stays");
    }
}
