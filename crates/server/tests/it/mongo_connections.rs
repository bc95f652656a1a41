//! The MongoDB API's port: TLS and plain messages of any length.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use shardlake_testkit::ServerProcess;

use crate::support::{assert_healthy, ca_of, connect, in_memory, tls};

const OP_MSG: i32 = 2013;
/// Of a `ping` whose comment is empty.
const PING_BYTES: usize = ping_bytes(0);

const fn ping_bytes(comment: usize) -> usize {
    // Header, flags, section; then the document: its length, three members, its end.
    16 + 5 + 4 + (1 + 5 + 4) + (1 + 4 + 4 + 6) + (1 + 8 + 4 + comment + 1) + 1
}

fn served() -> (ServerProcess, SocketAddr) {
    let server = in_memory().argument("--mongo-listen=127.0.0.1:0").start();
    let address = server.ready().fields["mongo"][0].as_str().expect("it serves MongoDB's drivers").to_owned();
    let address = address.trim_start_matches("mongodb://").trim_end_matches('/');
    (server, address.parse().expect("an address"))
}

/// A `ping` message of exactly this length.
fn ping(length: usize) -> Vec<u8> {
    let text = |name: &str, value: &str| {
        let length = (value.len() as i32 + 1).to_le_bytes();
        [&[2], name.as_bytes(), &[0], &length, value.as_bytes(), &[0]].concat()
    };
    let comment = "x".repeat(length - PING_BYTES);
    let members = [
        [&[16], &b"ping\0"[..], &1i32.to_le_bytes()].concat(),
        text("$db", "admin"),
        text("comment", &comment),
    ];
    let members = members.concat();
    let document = [&(members.len() as i32 + 5).to_le_bytes(), &members[..], &[0]].concat();
    let head = [length as i32, 0x0101, 0, OP_MSG, 0].map(i32::to_le_bytes).concat();
    let message = [head, vec![0], document].concat();
    assert_eq!(message.len(), length);
    message
}

fn assert_answers(stream: &mut (impl Read + Write), first: &[u8], rest: &[u8]) {
    stream.write_all(first).expect("the server reads");
    stream.flush().expect("the server reads");
    stream.write_all(rest).expect("the server reads");
    let mut header = [0; 16];
    stream.read_exact(&mut header).expect("an answer, and no alert");
    assert_eq!(header[12..], OP_MSG.to_le_bytes());
    let length = i32::from_le_bytes(header[..4].try_into().expect("four bytes")) as usize;
    stream.read_exact(&mut vec![0; length - 16]).expect("all of it");
}

#[test]
fn a_first_message_of_any_length_is_answered_and_so_is_tls() {
    let (server, address) = served();
    // The first byte of a TLS handshake, and beginnings that have ever more bytes in common with one.
    for length in [100, 0x116, 0x216, 0x316, 0x416, 0xFF16, 0x1_0316, 0x4_0316, 0x12_0316] {
        let message = ping(length);
        for part in [1, 2, 4, 9, 16] {
            let mut stream: TcpStream = connect(address);
            assert_answers(&mut stream, &message[..part], &message[part..]);
        }
    }
    let mut stream = tls(address, &ca_of(&server), "localhost", "http/1.1").expect("a trusted certificate");
    assert_answers(&mut stream, &[], &ping(0x116));
    assert_healthy(&server);
}
