//! Assertions on any bytes as a message: no panic, nothing unpacked beyond its bounds, and commands that survive being sent again.
//!
//! `fuzz/fuzz_targets/mongo_message.rs` is this file, too, so the fuzzer and the tests (`any_bytes.rs`) share their assertions.

use shardlake_gateway_mongo::wire::{
    Answer, AnswerAs, HEADER_SIZE_BYTES, Header, OP_COMPRESSED, OP_MSG, OP_QUERY, decode, encode,
    unpacked_size_bytes,
};

/// The first byte chooses the kind of the message, the others are its payload. Returns whether the message was valid.
pub fn check(input: &[u8]) -> bool {
    let Some((kind, payload)) = input.split_first() else { return false };
    let opcode = [OP_MSG, OP_QUERY, OP_COMPRESSED, i32::from(*kind)][usize::from(kind % 4)];
    let length = HEADER_SIZE_BYTES + payload.len();
    let header = Header { length, request_id: 1, response_to: 0, opcode };
    assert_eq!(Header::parse(&header.bytes()), Some(header));
    let Ok(size) = unpacked_size_bytes(&header, payload) else { return false };
    let Ok(incoming) = decode(&header, payload) else { return false };
    let document = incoming.body.to_bytes();
    // Sections name their arrays once for all documents; in a body each has a number besides.
    assert!(document.len() <= 4 * size + 64, "{} bytes became {}", size, document.len());
    let answer = Answer {
        document: &document,
        is_refused: false,
        id: 2,
        response_to: 1,
        answer_as: AnswerAs::Message,
        compressor: incoming.compressor,
    };
    let message = encode(&answer);
    let (head, rest) = message.split_at(HEADER_SIZE_BYTES);
    let head = Header::parse(head.try_into().expect("sixteen bytes")).expect("an answer has a right length");
    assert_eq!(head.length, message.len());
    let again = decode(&head, rest).expect("what was made can be read");
    assert_eq!(again.body.to_bytes(), document);
    true
}
