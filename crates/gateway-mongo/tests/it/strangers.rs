//! Limits of clients that have yet to authenticate, which hold nothing of the server; users share its bounds.

use std::time::Duration;

use bson::doc;
use shardlake_gateway_mongo::{Access, CursorLimits, Key, MongoSettings, SessionLimits, TransactionLimits};
use shardlake_mql::{Document, Value};

use crate::authentication::prove_at;
use crate::client::{Client, OP_MSG, Server, body_section, first_batch, framed, message, of};

const KEY: &str = "cHJpbWFyeQ==";

fn settings() -> MongoSettings {
    let key = Key { text: KEY.to_owned(), access: Access::Full };
    MongoSettings { keys: vec![key], requires_authentication: true, ..MongoSettings::default() }
}

async fn authenticated(server: &Server) -> Client {
    as_user(server, "admin", "localhost", KEY).await
}

async fn as_user(server: &Server, database: &str, name: &str, password: &str) -> Client {
    let mut client = server.connect();
    let reply = prove_at(&mut client, database, name, password).await;
    assert!(reply.value("done").is_true(), "{}", Value::from(reply));
    client
}

/// A new user of database `d`, and a connection of it.
async fn user(server: &Server, owner: &mut Client, name: &str) -> Client {
    owner.ok("d", of(&doc! { "createUser": name, "pwd": "secret", "roles": ["readWrite"] })).await;
    as_user(server, "d", name, "secret").await
}

fn session(number: u32) -> bson::Document {
    let mut bytes = [7; 16];
    bytes[..4].copy_from_slice(&number.to_le_bytes());
    let bytes = bson::Binary { subtype: bson::spec::BinarySubtype::Uuid, bytes: bytes.to_vec() };
    doc! { "id": bytes }
}

fn with(mut command: bson::Document, more: bson::Document) -> Document {
    command.extend(more);
    of(&command)
}

/// The sessions that the server counts.
async fn sessions(client: &mut Client) -> i64 {
    let status = client.ok("admin", of(&doc! { "serverStatus": 1 })).await;
    let section = status.value("logicalSessionRecordCache");
    let count = section.as_document().expect("a section").value("activeSessionsCount");
    count.to_i64_exact().expect("a number")
}

#[tokio::test]
async fn a_stranger_enters_no_session_by_any_command() {
    let server = Server::start_with(settings()).await;
    let mut stranger = server.connect();
    let commands = [
        doc! { "hello": 1 },
        doc! { "isMaster": 1 },
        doc! { "ping": 1 },
        doc! { "buildInfo": 1 },
        doc! { "connectionStatus": 1 },
        doc! { "whatsmyuri": 1 },
        doc! { "getnonce": 1 },
        doc! { "logout": 1 },
        doc! { "endSessions": [session(0)] },
        doc! { "saslStart": 1, "mechanism": "SCRAM-SHA-256", "payload": "n,,n=localhost,r=abcdef" },
        doc! { "authenticate": 1, "mechanism": "PLAIN" },
        doc! { "find": "c" },
        doc! { "insert": "c", "documents": [{ "_id": 1 }] },
        doc! { "startSession": 1 },
        doc! { "serverStatus": 1 },
        doc! { "nosuch": 1 },
    ];
    for (number, command) in commands.into_iter().enumerate() {
        let _any = stranger.run("admin", with(command, doc! { "lsid": session(number as u32) })).await;
    }
    let mut client = authenticated(&server).await;
    assert_eq!(sessions(&mut client).await, 0);
    client.ok("admin", with(doc! { "ping": 1 }, doc! { "lsid": session(1) })).await;
    assert_eq!(sessions(&mut client).await, 1, "a client that has authenticated does");
}

#[tokio::test]
async fn sessions_are_shared_by_users() {
    let sessions = SessionLimits { count_max: 20, ..SessionLimits::default() };
    let server = Server::start_with(MongoSettings { sessions, ..settings() }).await;
    let mut owner = authenticated(&server).await;
    let mut ada = user(&server, &mut owner, "ada").await;
    let ping = |number| with(doc! { "ping": 1 }, doc! { "lsid": session(number) });
    for number in 0..10 {
        ada.ok("d", ping(number)).await;
    }
    assert_eq!(ada.fails("d", ping(10)).await, 261);
    ada.ok("d", ping(9)).await;
    let mut bob = user(&server, &mut owner, "bob").await;
    for number in 0..5 {
        bob.ok("d", ping(number)).await;
    }
    assert_eq!(bob.fails("d", ping(5)).await, 261);
    owner.ok("d", ping(1)).await;
    let ended: Vec<bson::Document> = (0..5).map(session).collect();
    ada.ok("d", of(&doc! { "endSessions": ended })).await;
    ada.ok("d", ping(10)).await;
}

#[tokio::test]
async fn cursors_and_transactions_are_shared_by_users() {
    let cursors = CursorLimits { count_max: 4, ..CursorLimits::default() };
    let transactions = TransactionLimits { count_max: 4, ..TransactionLimits::default() };
    let server = Server::start_with(MongoSettings { cursors, transactions, ..settings() }).await;
    let mut owner = authenticated(&server).await;
    owner.ok("d", of(&doc! { "insert": "c", "documents": [{ "_id": 1 }, { "_id": 2 }, { "_id": 3 }] })).await;
    let mut ada = user(&server, &mut owner, "ada").await;
    let mut bob = user(&server, &mut owner, "bob").await;
    let find = || of(&doc! { "find": "c", "batchSize": 1, "noCursorTimeout": true });
    ada.ok("d", find()).await;
    ada.ok("d", find()).await;
    assert_eq!(ada.fails("d", find()).await, 16500);
    bob.ok("d", find()).await;
    owner.ok("d", find()).await;
    let begin = |number| {
        let more = doc! { "lsid": session(number), "txnNumber": 1i64, "autocommit": false, "startTransaction": true };
        with(doc! { "find": "c", "filter": { "_id": 1 } }, more)
    };
    ada.ok("d", begin(1)).await;
    ada.ok("d", begin(2)).await;
    assert_eq!(ada.fails("d", begin(3)).await, 112);
    bob.ok("d", begin(1)).await;
    owner.ok("d", begin(1)).await;
    // Every way to drop a share returns it.
    ada.ok("admin", of(&doc! { "endSessions": [session(1), session(2)] })).await;
    ada.ok("d", begin(4)).await;
}

#[tokio::test]
async fn connections_are_shared_by_users() {
    let server = Server::start_with(MongoSettings { connections_max: 8, ..settings() }).await;
    let mut owner = authenticated(&server).await;
    let mut adas = vec![user(&server, &mut owner, "ada").await];
    // Half of the owner's remainder.
    while adas.len() < 4 {
        adas.push(as_user(&server, "d", "ada", "secret").await);
    }
    let mut one_more = server.connect();
    let reply = prove_at(&mut one_more, "d", "ada", "secret").await;
    assert_eq!(reply.value("code").to_i32_exact(), Some(16500), "{}", Value::from(reply));
    adas[0].ok("d", of(&doc! { "logout": 1 })).await;
    let _again = as_user(&server, "d", "ada", "secret").await;
    let _bob = user(&server, &mut owner, "bob").await;
}

#[tokio::test]
async fn strangers_that_announce_messages_keep_no_client_waiting() {
    const STRANGERS: usize = 500;
    let settings = MongoSettings { message_bytes_max: 1 << 20, ..settings() };
    let server = Server::start_with(settings).await;
    let mut owner = authenticated(&server).await;
    owner.ok("d", of(&doc! { "insert": "c", "documents": [{ "_id": 1 }] })).await;
    let mut strangers = Vec::new();
    for _ in 0..STRANGERS {
        let mut stranger = server.connect();
        let large = framed(1, OP_MSG, &vec![0; (16 << 10) - 16]);
        stranger.send_bytes(&large[..16]).await;
        strangers.push(stranger);
    }
    // Also those that would have a batch.
    let find = of(&doc! { "find": "c", "$db": "d" });
    for _ in 0..STRANGERS {
        let mut stranger = server.connect();
        stranger.send_bytes(&framed(1, OP_MSG, &message(0, &[body_section(&find)]))).await;
        strangers.push(stranger);
    }
    assert_eq!(server.gateway.message_bytes(), 0);
    assert_eq!(first_batch(&owner.ok("d", of(&doc! { "find": "c" })).await).len(), 1);
    let mut too_long = server.connect();
    too_long.send_bytes(&framed(1, OP_MSG, &vec![0; 16 << 10])[..16]).await;
    assert!(too_long.is_closed().await);
}

#[tokio::test]
async fn a_new_connection_ends_the_stranger_that_was_silent_for_longest() {
    let server = Server::start_with(MongoSettings { connections_max: 8, ..settings() }).await;
    let mut owner = authenticated(&server).await;
    let ping = of(&doc! { "ping": 1 });
    let mut strangers = Vec::new();
    for _ in 0..4 {
        let mut stranger = server.connect();
        stranger.ok("admin", ping.clone()).await;
        strangers.push(stranger);
    }
    strangers[0].ok("admin", ping.clone()).await;
    let mut newcomer = authenticated(&server).await;
    assert!(strangers[1].is_closed().await, "it was silent for longest");
    for kept in [0, 2, 3] {
        strangers[kept].ok("admin", ping.clone()).await;
    }
    newcomer.ok("admin", of(&doc! { "serverStatus": 1 })).await;
    owner.ok("admin", of(&doc! { "serverStatus": 1 })).await;
}

#[tokio::test(start_paused = true)]
async fn strangers_end_after_seconds_and_the_connections_that_watch_a_server_do_not() {
    let server = Server::start_with(settings()).await;
    let mut owner = authenticated(&server).await;
    let hello = of(&doc! { "hello": 1 });
    let (mut silent, mut greeted, mut watching) = (server.connect(), server.connect(), server.connect());
    greeted.ok("admin", hello.clone()).await;
    for _ in 0..30 {
        watching.ok("admin", hello.clone()).await;
        tokio::time::advance(Duration::from_secs(10)).await;
    }
    assert!(silent.is_closed().await, "it sent no first message");
    assert!(greeted.is_closed().await, "it greeted once");
    watching.ok("admin", hello).await;
    owner.ok("admin", of(&doc! { "serverStatus": 1 })).await;
}
