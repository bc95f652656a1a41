//! Random and damaged messages: the fuzzer's assertions (`any_message.rs`) over a fixed number of inputs.

use shardlake_gateway_mongo::wire::{
    Answer, AnswerAs, Compressor, HEADER_SIZE_BYTES, OP_COMPRESSED, OP_MSG, OP_QUERY, encode,
};
use shardlake_mql::{Document, Value};
use shardlake_stdx::Random;

use crate::any_message::check;
use crate::client::{Client, Server, body_section, doc, framed, message, sequence_section};

const ROUNDS: usize = 20_000;

/// Messages as the fuzzer has them: a byte for the kind, then the payload.
fn corpus() -> Vec<Vec<u8>> {
    let insert = doc([("insert", Value::string("c")), ("$db", Value::string("d"))]);
    let documents: Vec<Document> = (0..20).map(|number| Document::one("_id", number)).collect();
    let plain = message(0, &[sequence_section("documents", &documents), body_section(&insert)]);
    let mut query = vec![0; 4];
    query.extend(b"admin.$cmd\0");
    query.extend([0; 8]);
    query.extend(Document::one("hello", 1).to_bytes());
    let mut all = vec![of_kind(OP_MSG, &plain), of_kind(OP_QUERY, &query)];
    for compressor in [Compressor::Noop, Compressor::Snappy, Compressor::Zlib, Compressor::Zstd] {
        let document =
            doc([("ping", Value::string("x".repeat(500))), ("$db", Value::string("d"))]).to_bytes();
        let packed = encode(&Answer {
            document: &document,
            is_refused: false,
            id: 1,
            response_to: 0,
            answer_as: AnswerAs::Message,
            compressor: Some(compressor),
        });
        all.push(of_kind(OP_COMPRESSED, &packed[HEADER_SIZE_BYTES..]));
    }
    all
}

fn of_kind(opcode: i32, payload: &[u8]) -> Vec<u8> {
    let place = [OP_MSG, OP_QUERY, OP_COMPRESSED].iter().position(|known| *known == opcode);
    let kind = place.expect("one of the three") as u8;
    [&[kind], payload].concat()
}

#[test]
fn damaged_messages_are_refused_or_mean_what_their_bytes_say() {
    let random = Random::seeded(5);
    let corpus = corpus();
    assert!(corpus.iter().all(|input| check(input)), "whole, they are right");
    let mut understood = 0;
    for _ in 0..ROUNDS {
        let mut input = corpus[random.below(corpus.len() as u64) as usize].clone();
        for _ in 0..=random.below(3) {
            let place = 1 + random.below(input.len() as u64 - 1) as usize;
            match random.below(3) {
                0 => input[place] ^= 1 << random.below(8),
                1 => input[place] = random.u64() as u8,
                _ => input.truncate(place.max(2)),
            }
        }
        understood += usize::from(check(&input));
    }
    assert!((ROUNDS / 50..ROUNDS).contains(&understood), "{understood} of {ROUNDS} were understood");
}

#[test]
fn bytes_of_chance_do_no_harm() {
    let random = Random::seeded(6);
    for _ in 0..ROUNDS {
        let length = random.below(200);
        let input: Vec<u8> = (0..length).map(|_| random.u64() as u8).collect();
        check(&input);
    }
}

/// A damaged message ends its own connection alone, and no connection stays open.
#[tokio::test]
async fn damaged_messages_leave_a_server_that_answers() {
    const MESSAGES: usize = 3_000;
    let random = Random::seeded(7);
    let corpus: Vec<Vec<u8>> = corpus().iter().map(|input| framed_of(input)).collect();
    let server = Server::start().await;
    let mut other = server.connect();
    for _ in 0..MESSAGES {
        let mut bytes = corpus[random.below(corpus.len() as u64) as usize].clone();
        for _ in 0..=random.below(4) {
            // The length stays valid, so that the whole message is parsed.
            let place = 4 + random.below(bytes.len() as u64 - 4) as usize;
            bytes[place] ^= 1 << random.below(8);
        }
        let mut client = server.connect();
        client.send_bytes(&bytes).await;
        client.finish().await;
        while client.receive_or_end().await.is_some() {}
    }
    // A client sees the end of its connection a moment before the server counts it.
    let mut current = connections_of(&mut other).await;
    for _ in 0..MESSAGES {
        if current == 1 {
            break;
        }
        current = connections_of(&mut other).await;
    }
    assert_eq!(current, 1, "every other connection has ended");
    other.ok("d", doc([("find", Value::string("c"))])).await;
}

async fn connections_of(client: &mut Client) -> i32 {
    let reply = client.ok("admin", doc([("serverStatus", Value::Int(1))])).await;
    let connections = reply.value("connections");
    let connections = connections.as_document().expect("a document");
    connections.value("current").to_i32_exact().expect("a number")
}

/// Adds the header of the input's kind.
fn framed_of(input: &[u8]) -> Vec<u8> {
    framed(1, [OP_MSG, OP_QUERY, OP_COMPRESSED][usize::from(input[0])], &input[1..])
}
