//! Clients that are slow, broken, many or malicious. Each gets its answer or its close; the server is healthy after.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::json;
use shardlake_testkit::{Request, ServerProcess, eventually, items_path};

use crate::support::{
    Http2, answer_at, answer_to, assert_healthy, ca_of, connect, in_memory, read_to_close, tls,
};

#[test]
fn garbage_is_answered_400_or_closed() {
    let server = in_memory().start();
    let address = server.address();
    let mut noise = Vec::new();
    let random = shardlake_stdx::Random::seeded(7);
    for _ in 0..64 {
        noise.resize(1 + random.below(4_000) as usize, 0);
        random.fill(&mut noise);
        let answer = answer_to(address, &noise);
        assert!(
            answer.is_empty() || answer.starts_with("HTTP/1.1 400") || !answer.starts_with("HTTP"),
            "{answer}"
        );
    }
    for bytes in [
        &b""[..],
        b"\r\n\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
        b"GET / HTTP/1.1\r\ncontent-length: -1\r\n\r\n",
        b"GET / HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab",
        b"POST /dbs HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"PRI * HTTP/2.0\r\n\r\nnot HTTP/2 after all",
        b"PRI",
        b"\x00\x01\x02\x03",
    ] {
        let answer = answer_to(address, bytes);
        assert!(!answer.starts_with("HTTP/1.1 2"), "{:?}: {answer}", String::from_utf8_lossy(bytes));
    }
    assert_healthy(&server);
}

/// A body in a coding that is not decoded would be read as other bytes than its sender sent.
#[test]
fn unknown_transfer_codings_are_refused_and_the_connection_ends() {
    let server = in_memory().start();
    for codings in
        ["gzip, chunked", "chunked, chunked", "identity, chunked", "gzip\r\ntransfer-encoding: chunked"]
    {
        let head = format!("POST /dbs HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: {codings}\r\n\r\n");
        let answer = answer_at(server.address(), &format!("{head}0\r\n\r\n{head}0\r\n\r\n"));
        assert!(answer.starts_with("HTTP/1.1 501") || answer.starts_with("HTTP/1.1 400"), "{answer}");
        assert_eq!(answer.matches("HTTP/1.1").count(), 1, "nothing is read behind it: {answer}");
    }
    // The client keeps its half open: for a client that closes it, the server cancels a request that has to wait.
    let plain = "POST /dbs HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ntransfer-encoding: Chunked\r\n\r\n0\r\n\r\n";
    let answer = answer_at(server.address(), plain);
    assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
    assert_healthy(&server);
}

#[test]
fn tls_garbage_is_closed() {
    let server = in_memory().start();
    let address = server.address();
    for bytes in [&b"\x16"[..], b"\x16\x03\x01\x00\x05hello", b"\x16\x03\x01\xff\xff", &[0x16; 20_000]] {
        let answer = answer_to(address, bytes);
        assert!(!answer.starts_with("HTTP"), "{answer}");
    }
    // A good handshake, then bytes that are no record.
    let mut stream = tls(address, &ca_of(&server), "localhost", "http/1.1").unwrap();
    stream.sock.write_all(&[0x55; 600]).unwrap();
    read_to_close(&mut stream.sock);
    assert_healthy(&server);
}

#[test]
fn half_sent_requests_leave_nothing_behind() {
    let server = in_memory().start();
    let client = server.client();
    let body = br#"{"id":"half"}"#;
    let bytes = client.signed_bytes(&Request { method: "POST", path: "/dbs", body, ..Request::default() });
    for length in [1, 10, bytes.len() - body.len() - 2, bytes.len() - body.len(), bytes.len() - 1] {
        answer_to(server.address(), &bytes[..length]);
        // And once without even an end.
        connect(server.address()).write_all(&bytes[..length]).unwrap();
    }
    let feed = client.get("/dbs", &[]).expect_status(200).json();
    assert_eq!(feed["_count"], 0, "half a request is no request");
    assert_healthy(&server);
}

#[test]
fn headers_that_trickle_are_cut_off() {
    let server = in_memory().argument("--header-seconds=1").argument("--max-header-size=1MiB").start();
    let mut trickle = connect(server.address());
    let mut silent = connect(server.address());
    let mut shaking = connect(server.address());
    shaking.write_all(b"\x16\x03\x01").unwrap();
    trickle.write_all(b"GET /livez HTTP/1.1\r\nhost: localhost\r\nx-slow: ").unwrap();
    // A byte whenever the test looks; they are too few to be too many, so the end comes from the time for headers.
    eventually("a trickle is cut off", || trickle.write_all(b"a").is_err());
    assert_eq!(read_to_close(&mut silent), "");
    assert_eq!(read_to_close(&mut shaking), "");
    assert_healthy(&server);
}

#[test]
fn a_body_that_does_not_come_is_answered_408() {
    let server = in_memory().argument("--request-seconds=1").start();
    let request = Request { method: "POST", path: "/dbs", body: br#"{"id":"slow"}"#, ..Request::default() };
    let bytes = server.client().signed_bytes(&request);
    let mut stream = connect(server.address());
    stream.write_all(&bytes[..bytes.len() - 3]).unwrap();
    let answer = read_to_close(&mut stream);
    assert!(answer.starts_with("HTTP/1.1 408") && answer.contains("\"code\":\"RequestTimeout\""), "{answer}");
    assert_healthy(&server);
}

#[test]
fn oversized_headers_are_answered_431() {
    let server = in_memory().argument("--max-header-size=16KiB").start();
    let ordinary = "a".repeat(12 << 10);
    let _fits = server.client().get("/", &[("x-long", &ordinary)]).expect_status(200);
    let long = "a".repeat(64 << 10);
    let answer = answer_to(server.address(), format!("GET / HTTP/1.1\r\nx-long: {long}\r\n\r\n").as_bytes());
    assert!(answer.starts_with("HTTP/1.1 431"), "{answer}");
    let many: String = (0..500).map(|number| format!("x-{number}: a\r\n")).collect();
    let answer = answer_to(server.address(), format!("GET / HTTP/1.1\r\n{many}\r\n").as_bytes());
    assert!(answer.starts_with("HTTP/1.1 431"), "{answer}");
    // Without end: the server must not read for ever.
    let endless = vec![b'a'; 4 << 20];
    let answer = answer_to(server.address(), &[b"GET / HTTP/1.1\r\nx: ", &endless[..]].concat());
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer}");
    assert_healthy(&server);
}

#[test]
fn oversized_bodies_are_answered_413_before_they_are_read() {
    let server = in_memory().start();
    let client = server.client();
    let _database = client.create_database("d").expect_status(201);
    let _container = client.create_container("d", "c", "/pk").expect_status(201);
    let path = items_path("d", "c");
    let headers = [("x-ms-documentdb-partitionkey", "[\"a\"]")];
    let body = vec![b' '; 6 << 20];
    let request = Request { method: "POST", path: &path, headers: &headers, body: &body, resource: None };
    for _ in 0..5 {
        let answer = client.send(&request).expect("the answer, not a reset");
        assert_eq!(answer.status, 413, "{answer}");
        assert_eq!(answer.header("connection"), Some("close"), "the rest of the body is in the way");
    }
    // More than any buffer on the way holds.
    let body = vec![b' '; 40 << 20];
    let answer = client.send(&Request { body: &body, ..request }).expect("the answer, not a reset");
    assert_eq!(answer.status, 413, "{answer}");
    let big = json!({ "id": "1", "pk": "a", "text": "x".repeat(3 << 20) });
    assert_eq!(client.create_item("d", "c", &json!(["a"]), &big).status, 413);
    let fits = json!({ "id": "1", "pk": "a", "text": "x".repeat(1 << 20) });
    assert_eq!(client.create_item("d", "c", &json!(["a"]), &fits).status, 201);
    let conflict = client.create_item("d", "c", &json!(["a"]), &fits).expect_status(409);
    assert_eq!(conflict.header("connection"), None, "a body that was read is in nobody's way");
    assert_healthy(&server);
}

#[test]
fn a_thousand_idle_connections_disturb_nobody() {
    let server = in_memory().start();
    raise_file_limit();
    assert_healthy(&server);
    let resident_without = resident_bytes(&server);
    let mut idle: Vec<TcpStream> = (0..1_000).map(|_| connect(server.address())).collect();
    for stream in idle.iter_mut().step_by(2) {
        stream.write_all(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    }
    for stream in idle.iter_mut().step_by(2) {
        let mut buffer = [0; 512];
        let count = stream.read(&mut buffer).unwrap();
        assert!(buffer[..count].starts_with(b"HTTP/1.1 200"));
    }
    let of_each = resident_bytes(&server).saturating_sub(resident_without) / 1_000;
    assert!(of_each < 64 << 10, "{of_each} bytes for each connection");
    for number in 0..200 {
        let _created = server.client().create_database(&format!("d{number}")).expect_status(201);
    }
    assert_healthy(&server);
    // They are all served still.
    for stream in &mut idle {
        stream.write_all(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
        let mut buffer = [0; 512];
        let count = stream.read(&mut buffer).unwrap();
        assert!(buffer[..count].starts_with(b"HTTP/1.1 200"));
    }
    drop(idle);
    assert_healthy(&server);
}

#[test]
fn idle_connections_are_closed_when_their_time_is_up() {
    let server = in_memory().argument("--idle-seconds=1").start();
    let mut kept = connect(server.address());
    kept.write_all(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    assert!(read_to_close(&mut kept).starts_with("HTTP/1.1 200"));
    let mut of_frames = Http2::new(connect(server.address()));
    assert_eq!(of_frames.get("/livez", &[]), 200);
    while of_frames.receive().is_some() {}
    assert_healthy(&server);
}

#[test]
fn connections_above_the_limit_are_told_503_and_others_go_on() {
    let server = in_memory().argument("--max-connections=4").start();
    let mut kept: Vec<TcpStream> = (0..4).map(|_| connect(server.address())).collect();
    for stream in &mut kept {
        stream.write_all(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
        let mut buffer = [0; 512];
        assert!(stream.read(&mut buffer).unwrap() > 0);
    }
    let answer = answer_to(server.address(), b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("too many connections"), "{answer}");
    kept[0].write_all(b"GET /livez HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
    assert!(read_to_close(&mut kept[0]).starts_with("HTTP/1.1 200"));
    drop(kept);
    let ask = || answer_to(server.address(), b"GET /readyz HTTP/1.1\r\nhost: localhost\r\n\r\n");
    eventually("the slots come back", || ask().starts_with("HTTP/1.1 200"));
    assert_healthy(&server);
}

#[test]
fn clients_that_leave_while_they_are_served_cost_nothing() {
    let server = in_memory().start();
    let client = server.client();
    let _database = client.create_database("d").expect_status(201);
    let _container = client.create_container("d", "c", "/pk").expect_status(201);
    let path = items_path("d", "c");
    let headers = [("x-ms-documentdb-partitionkey", "[\"a\"]")];
    for number in 0..200 {
        let body = json!({ "id": number.to_string(), "pk": "a" }).to_string();
        let request =
            Request { method: "POST", path: &path, headers: &headers, body: body.as_bytes(), resource: None };
        connect(server.address()).write_all(&client.signed_bytes(&request)).unwrap();
    }
    // Whether an item was created or not, the container continues counting right.
    let item = json!({ "id": "last", "pk": "a" });
    let _created = client.create_item("d", "c", &json!(["a"]), &item).expect_status(201);
    assert_healthy(&server);
}

/// The HTTP library reads in pieces that grow, so the last of them can go beyond the limit and hold the end of the headers.
#[test]
fn headers_that_end_in_the_read_that_goes_beyond_the_limit_are_answered_431() {
    let server = in_memory().start();
    for (size, expected) in [(60_000, "200"), (66_000, "431"), (70_000, "431"), (100_000, "431")] {
        let lines = format!("host: localhost\r\nx-long: {}\r\nconnection: close\r\n", "a".repeat(size));
        let answer = answer_at(server.address(), &format!("GET /livez HTTP/1.1\r\n{lines}\r\n"));
        assert!(answer.starts_with(&format!("HTTP/1.1 {expected}")), "{size}: {answer}");
    }
}

#[test]
fn more_headers_than_are_documented_are_answered_431() {
    let server = in_memory().start();
    let lines = |count: usize| (0..count).map(|number| format!("x-{number}: a\r\n")).collect::<String>();
    let head = |count: usize| {
        format!("GET /livez HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{}\r\n", lines(count - 2))
    };
    let fits = answer_at(server.address(), &head(100));
    assert!(fits.starts_with("HTTP/1.1 200"), "{fits}");
    let many = answer_at(server.address(), &head(101));
    assert!(many.starts_with("HTTP/1.1 431"), "{many}");
    let names: Vec<String> = (0..101).map(|number| format!("x-{number}")).collect();
    let fields: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "a")).collect();
    let mut connection = Http2::new(connect(server.address()));
    assert_eq!(connection.get("/livez", &fields[..100]), 200);
    assert_eq!(connection.get("/livez", &fields), 431);
}

/// RFC 9112 §2.2 lets a recipient take a bare line feed for the end of a line; the HTTP library does.
/// `docs/reference.md` documents it.
#[test]
fn bare_line_feeds_end_lines() {
    let server = in_memory().start();
    let answer = answer_at(server.address(), "GET /livez HTTP/1.1\nhost: localhost\nconnection: close\n\n");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    // They are no way around the checks.
    let twice = "host: localhost\nhost: localhost\nconnection: close\n";
    let answer = answer_at(server.address(), &format!("GET /livez HTTP/1.1\n{twice}\n"));
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
}

#[test]
fn errors_do_not_repeat_long_names() {
    let server = in_memory().start();
    let client = server.client();
    let long = "a".repeat(60_000);
    let nested = format!("/{}", "b/".repeat(30_000));
    for path in [format!("/{long}"), nested, format!("/dbs/{long}"), format!("/dbs/x/colls/{long}/docs")] {
        let answer = client.get(&path, &[]);
        assert!(matches!(answer.status, 400 | 404), "{}", answer.status);
        assert!(answer.body.len() < 2_000, "{} bytes for {}…", answer.body.len(), &path[..20]);
    }
    let _created = client.create_database("d").expect_status(201);
    let _created = client.create_container("d", "c", "/pk").expect_status(201);
    let definition = json!({ "id": "x", "partitionKey": { "paths": ["/pk"] }, long.as_str(): 1 });
    let patch = json!({ "operations": [{ "op": long, "path": "/a", "value": 1 }] });
    let key = [("x-ms-documentdb-partitionkey", "[\"a\"]")];
    let answers = [
        client.create_container_of("d", &definition, &[]),
        client.request("PATCH", "/dbs/d/colls/c/docs/x", &key, patch.to_string().as_bytes()),
        client.get("/dbs/d", &[("x-ms-consistency-level", &long)]),
    ];
    for answer in answers {
        assert!(answer.body.len() < 20_000, "{} bytes with {}", answer.body.len(), answer.status);
    }
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let server = in_memory().start();
    let signed = server.client().signed_bytes(&Request { method: "GET", path: "/", ..Request::default() });
    let unsigned = b"GET /dbs HTTP/1.1\r\nhost: localhost\r\n\r\n".as_slice();
    let probe = b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n".as_slice();
    let mut connection = server.client().raw().unwrap();
    connection.send(&[&signed, unsigned, probe, &signed].concat()).unwrap();
    let statuses: Vec<u16> = (0..4).map(|_| connection.read_response("GET").unwrap().status).collect();
    assert_eq!(statuses, [200, 401, 200, 200]);
    assert_healthy(&server);
}

fn raise_file_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
}

fn resident_bytes(server: &ServerProcess) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.process_id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}
