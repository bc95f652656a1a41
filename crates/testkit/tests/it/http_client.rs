//! The client against a socket that plays a script, so that its framing is known to be right before it judges a server.
#![allow(clippy::unwrap_used)] // helpers of tests are tests

use shardlake_testkit::{Client, EMULATOR_KEY, RawConnection, ReadyRecord, Request};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::thread::JoinHandle;

/// Accepts one connection, answers the requests with `replies` in order, returns everything received.
fn scripted(replies: Vec<&'static str>) -> (SocketAddr, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let thread = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut received = String::new();
        for reply in replies {
            received.push_str(&read_head(&mut stream));
            stream.write_all(reply.as_bytes()).unwrap();
        }
        received
    });
    (address, thread)
}

fn read_head(stream: &mut impl Read) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        if stream.read(&mut byte).unwrap() == 0 {
            break;
        }
        head.extend(byte);
    }
    String::from_utf8(head).unwrap()
}

#[test]
fn two_requests_share_a_connection_and_are_signed() {
    let (address, server) = scripted(vec![
        "HTTP/1.1 200 OK\r\nContent-Length: 7\r\nETag: \"1\"\r\nlsn: 9\r\n\r\n{\"a\":1}",
        "HTTP/1.1 304 Not Modified\r\nx-ms-substatus: 1002\r\n\r\n",
    ]);
    let client = Client::new(address, EMULATOR_KEY);
    let first = client.get("/dbs/a", &[("accept", "text/plain")]).expect_status(200);
    assert_eq!(first.json()["a"], 1);
    assert_eq!((first.etag(), first.lsn(), first.sub_status()), (Some("\"1\""), Some(9), 0));
    let second = client.get("/dbs/a", &[]);
    assert_eq!((second.status, second.sub_status(), second.body.len()), (304, 1002, 0));
    let received = server.join().unwrap();
    assert_eq!(received.matches("GET /dbs/a HTTP/1.1\r\n").count(), 2);
    assert_eq!(received.matches("authorization: type%3Dmaster%26ver%3D1.0%26sig%3D").count(), 2);
    assert_eq!(received.matches("accept: text/plain\r\n").count(), 1, "the caller's header replaces ours");
}

#[test]
fn chunks_are_joined() {
    let (address, server) = scripted(vec![
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n",
    ]);
    assert_eq!(Client::new(address, EMULATOR_KEY).get("/", &[]).text(), "abcde");
    server.join().unwrap();
}

#[test]
fn a_cut_or_shapeless_response_is_an_error() {
    for reply in
        ["HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", "HTTP/1.1 200 OK\r\n\r\nabc", "hello\r\n"]
    {
        let (address, server) = scripted(vec![reply]);
        let client = Client::new(address, EMULATOR_KEY);
        assert!(client.try_request("GET", "/", &[], b"").is_err(), "{reply}");
        server.join().unwrap();
    }
}

#[test]
fn raw_bytes_arrive_as_sent() {
    let (address, server) = scripted(vec!["HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"]);
    let mut raw = RawConnection::open(address).unwrap();
    raw.send(b"GET / HTTP/9\r\n\r\n").unwrap();
    assert_eq!(raw.read_response("GET").unwrap().status, 400);
    assert_eq!(server.join().unwrap(), "GET / HTTP/9\r\n\r\n");
}

#[test]
fn a_request_can_be_signed_as_something_else() {
    let client = Client::with_emulator_key("127.0.0.1:1".parse().unwrap());
    let plain = Request { method: "GET", path: "/dbs/a", ..Request::default() };
    let other = Request { resource: Some(("colls", "dbs/a")), ..plain.clone() };
    assert_ne!(client.signed_bytes(&plain), client.signed_bytes(&other));
}

#[test]
fn the_ready_record_names_both_schemes() {
    let line =
        r#"{"ready":true,"endpoints":["http://127.0.0.1:5/","https://127.0.0.1:5/"],"key":"k","pid":1}"#;
    let ready = ReadyRecord::parse(line).unwrap();
    assert_eq!((ready.http.as_str(), ready.address.port()), ("http://127.0.0.1:5/", 5));
    assert_eq!(ready.https.as_deref(), Some("https://127.0.0.1:5/"));
    assert!(ReadyRecord::parse("listening").is_err());
    assert!(ReadyRecord::parse(r#"{"ready":false}"#).is_err());
}
