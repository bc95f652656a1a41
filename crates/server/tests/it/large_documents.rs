//! A document of nearly 16 MiB through backup, restore and the look at everything.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::json;

use crate::backup_support::{create, directory, everything_in, id_of, options, restore, text_of, verify};
use crate::support::PATIENCE;

const DOCUMENT_BYTES: usize = (16 << 20) - 1000;

/// A member: its kind, its name, its value.
fn member(kind: u8, name: &str, value: &[u8]) -> Vec<u8> {
    [&[kind], name.as_bytes(), &[0], value].concat()
}

fn text(name: &str, value: &str) -> Vec<u8> {
    let length = (value.len() as i32 + 1).to_le_bytes();
    member(2, name, &[&length[..], value.as_bytes(), &[0]].concat())
}

fn document(members: &[Vec<u8>]) -> Vec<u8> {
    let members = members.concat();
    [&(members.len() as i32 + 5).to_le_bytes()[..], &members, &[0]].concat()
}

/// Inserts a document with an `_id` and a long text, over MongoDB's protocol.
fn insert(address: &str, id: &str, letter: &str) {
    let large = document(&[text("_id", id), text("pad", &letter.repeat(DOCUMENT_BYTES))]);
    let documents = member(4, "documents", &document(&[member(3, "0", &large)]));
    let command = document(&[text("insert", "c"), text("$db", "d"), documents]);
    let length = (16 + 4 + 1 + command.len()) as i32;
    let mut message = [length, 1, 0, 2013, 0].map(i32::to_le_bytes).concat();
    message.push(0);
    message.extend(command);
    let mut stream = TcpStream::connect(address).expect("the server listens");
    stream.write_all(&message).expect("the server reads");
    let mut header = [0; 16];
    stream.read_exact(&mut header).expect("an answer");
    let length = i32::from_le_bytes(header[..4].try_into().expect("four bytes")) as usize;
    let mut reply = vec![0; length - 16];
    stream.read_exact(&mut reply).expect("all of it");
    let one = member(16, "n", &1i32.to_le_bytes());
    assert!(reply.windows(one.len()).any(|bytes| bytes == one), "{}", String::from_utf8_lossy(&reply));
}

#[test]
fn a_document_of_sixteen_mebibytes_is_backed_up_restored_and_verified() {
    let directory = directory();
    let (data, place) = (directory.path().join("data"), directory.path().join("backups"));
    let mut server = options(&data, 1).argument("--mongo-listen=127.0.0.1:0").start();
    let address = server.ready().fields["mongo"][0].as_str().expect("it serves MongoDB's drivers").to_owned();
    let address = address.trim_start_matches("mongodb://").trim_end_matches('/');
    insert(address, "before", "x");
    let backup = create(&server, &place);
    insert(address, "after", "y");
    let id = json!("before");
    assert!(server.terminate(PATIENCE).success());
    verify(&[text_of(&data)]);
    let restored = directory.path().join("restored");
    let _told = restore(&place, id_of(&backup), &restored);
    verify(&[text_of(&restored)]);
    let found = everything_in(&restored);
    let documents = found["/dbs/d/colls/c/docs"].as_array().expect("a list");
    assert_eq!(documents.len(), 1, "the second one came after the backup");
    assert_eq!(documents[0]["id"], id);
    assert_eq!(documents[0]["pad"].as_str().expect("text").len(), DOCUMENT_BYTES);
    assert_eq!(everything_in(&data)["/dbs/d/colls/c/docs"].as_array().expect("a list").len(), 2);
}
