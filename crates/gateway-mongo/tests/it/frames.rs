//! Valid and invalid messages of every kind.

use shardlake_gateway_mongo::wire::crc32c;
use shardlake_gateway_mongo::{MongoSettings, wire};
use shardlake_mql::{Document, Value};

use crate::client::{
    OP_COMPRESSED, OP_MSG, OP_QUERY, Server, body_section, doc, framed, message, ping, query,
    sequence_section,
};

/// The server's answer to these bytes; `None` if the server ends the connection.
async fn reply_to(server: &Server, bytes: &[u8]) -> Option<Document> {
    let mut client = server.connect();
    client.send_bytes(bytes).await;
    client.finish().await;
    client.receive_or_end().await.map(|answer| answer.document())
}

#[tokio::test]
async fn frames_that_cannot_be_trusted_end_the_connection() {
    let server = Server::start().await;
    let right = message(0, &[body_section(&ping())]);
    let mut short = framed(1, OP_MSG, &right);
    short[0..4].copy_from_slice(&15i32.to_le_bytes());
    let mut long = framed(1, OP_MSG, &right);
    long[0..4].copy_from_slice(&48_000_001i32.to_le_bytes());
    let mut negative = framed(1, OP_MSG, &right);
    negative[0..4].copy_from_slice(&(-1i32).to_le_bytes());
    let two_bodies = message(0, &[body_section(&ping()), body_section(&ping())]);
    let cut = |payload: &[u8]| payload[..payload.len() - 1].to_vec();
    let mut wrong_sequence = sequence_section("documents", &[ping()]);
    wrong_sequence[1..5].copy_from_slice(&3i32.to_le_bytes());
    for (what, bytes) in [
        ("a length below the header's", short),
        ("a length above the greatest", long),
        ("a negative length", negative),
        ("no flags", framed(1, OP_MSG, &[])),
        ("no sections", framed(1, OP_MSG, &[0; 4])),
        ("no body", framed(1, OP_MSG, &message(0, &[sequence_section("documents", &[])]))),
        ("two bodies", framed(1, OP_MSG, &two_bodies)),
        ("a section of another kind", framed(1, OP_MSG, &message(0, &[body_section(&ping()), vec![2]]))),
        ("a body that is cut off", framed(1, OP_MSG, &cut(&right))),
        ("a sequence that is too short", framed(1, OP_MSG, &message(0, &[wrong_sequence]))),
        ("a required flag that nobody knows", framed(1, OP_MSG, &message(1 << 2, &[body_section(&ping())]))),
        ("a message of another kind", framed(1, 2001, &right)),
        ("a reply", framed(1, 1, &right)),
        ("a checksum without room", framed(1, OP_MSG, &message(1, &[]))),
    ] {
        assert!(reply_to(&server, &bytes).await.is_none(), "{what}");
    }
    assert_eq!(
        server.connect().run("admin", doc([("ping", Value::Int(1))])).await.value("ok").to_f64(),
        Some(1.0)
    );
}

#[tokio::test]
async fn checksums_are_verified() {
    let server = Server::start().await;
    let payload = message(1, &[body_section(&ping())]);
    let length = 16 + payload.len() + 4;
    let mut bytes = framed(1, OP_MSG, &payload);
    bytes[0..4].copy_from_slice(&(length as i32).to_le_bytes());
    let checksum = crc32c(&[&bytes]);
    bytes.extend(checksum.to_le_bytes());
    assert_eq!(reply_to(&server, &bytes).await.expect("an answer").value("ok").to_f64(), Some(1.0));
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    let mut client = server.connect();
    client.send_bytes(&bytes).await;
    assert_eq!(client.receive().await.document().value("code").to_i32_exact(), Some(8));
    assert!(client.is_closed().await);
}

#[tokio::test]
async fn damaged_documents_are_refused_and_the_connection_goes_on() {
    let server = Server::start().await;
    let mut client = server.connect();
    let right = ping().to_bytes();
    let mut boolean = doc([("ping", Value::Bool(true)), ("$db", Value::string("admin"))]).to_bytes();
    let place = boolean.windows(6).position(|bytes| bytes == b"\x08ping\0").expect("there") + 6;
    boolean[place] = 2;
    let mut text = right.clone();
    let place = text.windows(5).position(|bytes| bytes == b"admin").expect("there");
    text[place] = 0xFF;
    let mut end = right.clone();
    *end.last_mut().expect("not empty") = 7;
    let deep = (0..250).fold(Document::new(), |inner, _| Document::one("a", inner));
    let deep = doc([("ping", deep.into()), ("$db", Value::string("admin"))]).to_bytes();
    for (code, wrong) in [(22, boolean), (22, text), (22, end), (15, deep)] {
        client.send(OP_MSG, &message(0, &[[vec![0], wrong].concat()])).await;
        assert_eq!(client.receive().await.document().value("code").to_i32_exact(), Some(code));
    }
    client.ok("admin", doc([("ping", Value::Int(1))])).await;
}

#[tokio::test]
async fn sections_stand_for_arrays_in_any_order_and_once() {
    let server = Server::start().await;
    let mut client = server.connect();
    let insert = doc([("insert", Value::string("c")), ("$db", Value::string("d"))]);
    let documents =
        || sequence_section("documents", &[doc([("_id", Value::Int(1))]), doc([("_id", Value::Int(2))])]);
    client.send(OP_MSG, &message(0, &[documents(), body_section(&insert)])).await;
    assert_eq!(client.receive().await.document().value("n").to_i32_exact(), Some(2));
    client.send(OP_MSG, &message(0, &[body_section(&insert), documents(), documents()])).await;
    assert_eq!(client.receive().await.document().value("code").to_i32_exact(), Some(40413));
    let mut both = insert.clone();
    both.push("documents", Value::array(vec![]));
    client.send(OP_MSG, &message(0, &[body_section(&both), documents()])).await;
    assert_eq!(client.receive().await.document().value("code").to_i32_exact(), Some(40413));
}

#[tokio::test]
async fn pipelined_commands_are_answered_in_order_and_more_to_come_not_at_all() {
    const MORE_TO_COME: u32 = 2;
    let server = Server::start().await;
    let mut client = server.connect();
    let mut all = Vec::new();
    for number in 1..=50 {
        let flags = if number % 5 == 0 { MORE_TO_COME } else { 0 };
        all.extend(framed(number, OP_MSG, &message(flags, &[body_section(&ping())])));
    }
    client.send_bytes(&all).await;
    for number in (1..=50).filter(|number| number % 5 != 0) {
        assert_eq!(client.receive().await.response_to, number);
    }
    // Errors get no answer either, and the next command sees a write without an answer.
    let insert = doc([
        ("insert", Value::string("c")),
        ("documents", Value::array(vec![doc([("_id", Value::Int(1))]).into()])),
        ("$db", Value::string("d")),
    ]);
    let wrong = doc([("nosuch", Value::Int(1)), ("$db", Value::string("d"))]);
    client.send(OP_MSG, &message(MORE_TO_COME, &[body_section(&wrong)])).await;
    client.send(OP_MSG, &message(MORE_TO_COME, &[body_section(&insert)])).await;
    let found = client.ok("d", doc([("count", Value::string("c"))])).await;
    assert_eq!(found.value("n").to_i32_exact(), Some(1));
}

#[tokio::test]
async fn flags_that_a_receiver_need_not_know_are_passed_over() {
    let server = Server::start().await;
    let mut client = server.connect();
    client.send(OP_MSG, &message(1 << 16 | 1 << 31, &[body_section(&ping())])).await;
    assert_eq!(client.receive().await.document().value("ok").to_f64(), Some(1.0));
}

#[tokio::test]
async fn old_greetings_are_answered_and_other_old_queries_refused() {
    let server = Server::start().await;
    let greeting = doc([("ismaster", Value::Int(1)), ("helloOk", Value::Bool(true))]);
    let wrapped = Document::one("$query", greeting.clone());
    for body in [greeting, wrapped] {
        let mut client = server.connect();
        client.send(OP_QUERY, &query("admin.$cmd", &body)).await;
        let answer = client.receive().await;
        assert_eq!(answer.opcode, 1);
        let reply = answer.document_of_reply();
        assert_eq!(reply.value("msg").as_str(), Some("isdbgrid"));
        assert!(reply.value("helloOk").is_true() && reply.value("ismaster").is_true());
        assert!(!reply.has("topologyVersion"), "drivers would greet without a pause");
    }
    for (namespace, body) in [("admin.$cmd", ping()), ("d.c", Document::one("a", 1))] {
        let mut client = server.connect();
        client.send(OP_QUERY, &query(namespace, &body)).await;
        let answer = client.receive().await;
        assert_eq!((answer.opcode, answer.payload[0]), (1, 2), "the query has failed");
        let reply = answer.document_of_reply();
        assert_eq!(reply.value("code").to_i32_exact(), Some(352));
    }
}

#[tokio::test]
async fn nine_commands_are_taken_as_old_queries() {
    let server = Server::start().await;
    let mut client = server.connect();
    for name in ["hello", "isMaster", "ismaster", "buildInfo", "buildinfo"] {
        client.send(OP_QUERY, &query("admin.$cmd", &Document::one(name, 1))).await;
        let answer = client.receive().await;
        assert_eq!((answer.opcode, answer.payload[0]), (1, 0), "{name}");
        assert_eq!(answer.document_of_reply().value("ok").to_f64(), Some(1.0), "{name}");
    }
    // They run, and report errors by their own codes.
    let wrong = [
        ("saslStart", 40414),
        ("saslContinue", 40414),
        ("authenticate", 40414),
        ("_isSelf", 59),
        ("ping", 352),
        ("Hello", 352),
        ("find", 352),
    ];
    for (name, code) in wrong {
        client.send(OP_QUERY, &query("admin.$cmd", &Document::one(name, 1))).await;
        let answer = client.receive().await;
        assert_eq!(answer.opcode, 1, "{name}");
        assert_eq!(answer.document_of_reply().value("code").to_i32_exact(), Some(code), "{name}");
    }
}

fn compressed(compressor: u8, opcode: i32, size: i32, content: &[u8]) -> Vec<u8> {
    let mut payload = opcode.to_le_bytes().to_vec();
    payload.extend(size.to_le_bytes());
    payload.push(compressor);
    payload.extend(content);
    payload
}

#[tokio::test]
async fn compressed_messages_are_answered_in_their_compression_but_secrets_are_not() {
    let server = Server::start().await;
    let mut client = server.connect();
    let plain = message(0, &[body_section(&ping())]);
    client.send(OP_COMPRESSED, &compressed(0, OP_MSG, plain.len() as i32, &plain)).await;
    let answer = client.receive().await;
    assert_eq!((answer.opcode, answer.payload[8]), (OP_COMPRESSED, 0));
    let header = wire::Header {
        length: 16 + answer.payload.len(),
        request_id: 1,
        response_to: 1,
        opcode: OP_COMPRESSED,
    };
    let inside = wire::decode(&header, &answer.payload).expect("a message inside");
    assert_eq!(inside.body.value("ok").to_f64(), Some(1.0));
    let hello = doc([("hello", Value::Int(1)), ("$db", Value::string("admin"))]);
    let hello = message(0, &[body_section(&hello)]);
    client.send(OP_COMPRESSED, &compressed(0, OP_MSG, hello.len() as i32, &hello)).await;
    assert_eq!(client.receive().await.opcode, OP_MSG);
}

#[tokio::test]
async fn compressed_messages_that_lie_end_the_connection() {
    let server = Server::start().await;
    let plain = message(0, &[body_section(&ping())]);
    let size = plain.len() as i32;
    // A few bytes of zlib that unpack to a hundred megabytes of zeros.
    let mut bomb = vec![0x78, 0x9C];
    bomb.extend([0xED, 0xC1, 0x01, 0x01, 0x00, 0x00, 0x00, 0x80, 0x90, 0xFE, 0xAF]);
    for (what, payload) in [
        ("another compressor", compressed(9, OP_MSG, size, &plain)),
        ("twice", compressed(0, OP_COMPRESSED, size, &plain)),
        ("a size that is not the content's", compressed(0, OP_MSG, size + 1, &plain)),
        ("a size above the greatest", compressed(1, OP_MSG, 48_000_000, &plain)),
        ("a negative size", compressed(2, OP_MSG, -5, &plain)),
        ("damaged snappy", compressed(1, OP_MSG, size, &plain)),
        ("damaged zlib", compressed(2, OP_MSG, 40_000_000, &bomb)),
        ("damaged zstd", compressed(3, OP_MSG, size, &plain)),
        ("no head", vec![0; 8]),
    ] {
        assert!(reply_to(&server, &framed(1, OP_COMPRESSED, &payload)).await.is_none(), "{what}");
    }
}

#[tokio::test]
async fn what_does_not_fit_into_memory_waits_or_ends() {
    let settings = MongoSettings {
        message_bytes_max: 64 << 10,
        message_max: std::time::Duration::from_millis(1),
        ..MongoSettings::default()
    };
    let server = Server::start_with(settings).await;
    // Takes the whole memory budget with an incomplete message.
    let mut greedy = server.connect();
    let large = framed(1, OP_MSG, &vec![0; 200 << 10]);
    greedy.send_bytes(&large[..100]).await;
    assert!(greedy.is_closed().await, "the rest did not come in time");
    server.connect().ok("admin", doc([("ping", Value::Int(1))])).await;
    assert_eq!(server.gateway.message_bytes(), 0);
}

/// A `ping` with so many bytes and some more.
fn large_ping(size: usize) -> Vec<u8> {
    let mut body = ping();
    body.push("comment", Value::string("x".repeat(size)));
    framed(1, OP_MSG, &message(0, &[body_section(&body)]))
}

#[tokio::test]
async fn announced_lengths_take_no_memory_before_the_bytes_arrive() {
    const CLIENTS: usize = 200;
    let settings = MongoSettings { message_bytes_max: 8 << 20, ..MongoSettings::default() };
    let server = Server::start_with(settings).await;
    let mut announced = Vec::new();
    for _ in 0..CLIENTS {
        let mut client = server.connect();
        let mut header = framed(1, OP_MSG, &[]);
        header[..4].copy_from_slice(&48_000_000i32.to_le_bytes());
        client.send_bytes(&[header, vec![0; 1000]].concat()).await;
        announced.push(client);
    }
    let mut client = server.connect();
    client.send_bytes(&large_ping(1 << 20)).await;
    assert_eq!(client.receive().await.document().value("ok").to_f64(), Some(1.0));
    assert_eq!(server.gateway.message_bytes(), 0);
}

#[tokio::test]
async fn messages_that_arrive_side_by_side_do_not_wait_for_each_other() {
    const CLIENTS: usize = 4;
    // Two of them together exceed the memory budget.
    let settings = MongoSettings { message_bytes_max: 8 << 20, ..MongoSettings::default() };
    let server = Server::start_with(settings).await;
    let bytes = large_ping(2 << 20);
    let (first, rest) = bytes.split_at(64 << 10);
    let all_have_begun = std::sync::Arc::new(tokio::sync::Barrier::new(CLIENTS));
    let clients = (0..CLIENTS).map(|_| {
        let (mut client, all_have_begun) = (server.connect(), all_have_begun.clone());
        let (first, rest) = (first.to_vec(), rest.to_vec());
        tokio::spawn(async move {
            client.send_bytes(&first).await;
            all_have_begun.wait().await;
            client.send_bytes(&rest).await;
            client.receive().await.document()
        })
    });
    for client in clients.collect::<Vec<_>>() {
        assert_eq!(client.await.expect("answered").value("ok").to_f64(), Some(1.0));
    }
    assert_eq!(server.gateway.message_bytes(), 0);
}

#[tokio::test]
async fn a_server_that_stops_answers_what_it_has_and_ends_connections() {
    let server = Server::start().await;
    let mut client = server.connect();
    client.ok("admin", doc([("ping", Value::Int(1))])).await;
    server.stopping.send_replace(true);
    assert!(client.is_closed().await);
}
