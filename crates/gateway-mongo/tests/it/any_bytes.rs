//! Messages that chance has damaged: what `fuzz/fuzz_targets/mongo_message.rs` asserts, over a fixed number of inputs.

use shardlake_gateway_mongo::wire::{
    Answer, AnswerAs, Compressor, HEADER_SIZE_BYTES, Header, OP_COMPRESSED, OP_MSG, OP_QUERY, decode, encode,
};
use shardlake_mql::{Document, Value};
use shardlake_stdx::Random;

use crate::client::{body_section, doc, message, sequence_section};

const ROUNDS: usize = 20_000;

fn payloads() -> Vec<(i32, Vec<u8>)> {
    let insert = doc([("insert", Value::string("c")), ("$db", Value::string("d"))]);
    let documents: Vec<Document> = (0..20).map(|number| Document::one("_id", number)).collect();
    let plain = message(0, &[sequence_section("documents", &documents), body_section(&insert)]);
    let mut query = vec![0; 4];
    query.extend(b"admin.$cmd\0");
    query.extend([0; 8]);
    query.extend(Document::one("hello", 1).to_bytes());
    let mut all = vec![(OP_MSG, plain), (OP_QUERY, query)];
    for compressor in [Compressor::Noop, Compressor::Snappy, Compressor::Zlib, Compressor::Zstd] {
        let document =
            doc([("ping", Value::string("x".repeat(500))), ("$db", Value::string("d"))]).to_bytes();
        all.push((OP_COMPRESSED, packed(&document, compressor)[HEADER_SIZE_BYTES..].to_vec()));
    }
    all
}

fn packed(document: &[u8], compressor: Compressor) -> Vec<u8> {
    encode(&Answer {
        document,
        failed: false,
        id: 1,
        response_to: 0,
        answer_as: AnswerAs::Message,
        compressor: Some(compressor),
    })
}

fn header(opcode: i32, payload: &[u8]) -> Header {
    Header { length: HEADER_SIZE_BYTES + payload.len(), request_id: 1, response_to: 0, opcode }
}

#[test]
fn damaged_messages_are_refused_or_mean_what_their_bytes_say() {
    let random = Random::seeded(5);
    let payloads = payloads();
    for (opcode, payload) in payloads.iter() {
        assert!(decode(&header(*opcode, payload), payload).is_ok(), "whole, it is right");
    }
    let mut understood = 0;
    for _ in 0..ROUNDS {
        let (opcode, payload) = &payloads[random.below(payloads.len() as u64) as usize];
        let mut payload = payload.clone();
        for _ in 0..=random.below(3) {
            let place = random.below(payload.len() as u64) as usize;
            match random.below(3) {
                0 => payload[place] ^= 1 << random.below(8),
                1 => payload[place] = random.u64() as u8,
                _ => payload.truncate(place.max(1)),
            }
        }
        let Ok(incoming) = decode(&header(*opcode, &payload), &payload) else { continue };
        understood += 1;
        let document = incoming.body.to_bytes();
        let again = packed(&document, incoming.compressor.unwrap_or(Compressor::Noop));
        let payload = &again[HEADER_SIZE_BYTES..];
        let read = decode(&header(OP_COMPRESSED, payload), payload).expect("what was made can be read");
        assert_eq!(read.body.to_bytes(), document);
    }
    assert!((ROUNDS / 50..ROUNDS).contains(&understood), "{understood} of {ROUNDS} were understood");
}
