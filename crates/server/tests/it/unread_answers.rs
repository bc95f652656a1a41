//! Clients that read nothing of their answers, and uploads that stop half-way: their memory is bounded, others are served, and
//! they are ended in time.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::json;
use shardlake_testkit::{Client, Request, ServerProcess, eventually, items_path};

use crate::support::{Http2, assert_healthy, connect, in_memory, metric, signed_headers};

/// Half of the smallest `--message-memory`.
const ANSWER_BYTES_MAX: u64 = 16 << 20;
const RST_STREAM: u8 = 3;

/// A server with little memory for messages, and a container whose feed page has nearly 4 MB.
fn with_a_large_page(argument: &str) -> ServerProcess {
    let server = in_memory().argument("--message-memory=32MiB").argument(argument).start();
    let client = server.client();
    let _database = client.create_database("d").expect_status(201);
    let _container = client.create_container("d", "c", "/pk").expect_status(201);
    for number in 0..4 {
        let item = json!({ "id": number.to_string(), "pk": "a", "text": "x".repeat(1_000_000) });
        let _created = client.create_item("d", "c", &json!(["a"]), &item).expect_status(201);
    }
    server
}

/// A connection without a window that asks for so many feed pages.
fn unread_pages(server: &ServerProcess, count: usize) -> Http2<TcpStream> {
    let path = items_path("d", "c");
    let headers = signed_headers(&server.client(), &path);
    let headers: Vec<(&str, &str)> =
        headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let mut connection = Http2::without_window(connect(server.address()));
    (0..count).for_each(|_| _ = connection.ask(&path, &headers));
    connection
}

fn answered(client: &Client, status: u16) -> u64 {
    metric(
        client,
        &format!("shardlake_requests_total{{transport=\"http\",operation=\"ReadFeed\",status=\"{status}\"}}"),
    )
}

#[test]
fn answers_that_nobody_takes_are_bounded_and_others_are_served() {
    const STREAMS: usize = 100;
    let server = with_a_large_page("--request-seconds=3600");
    let client = server.client();
    let unread: Vec<_> = (0..3).map(|_| unread_pages(&server, STREAMS)).collect();
    eventually("every request is answered, refused or waits", || {
        let held = metric(&client, "shardlake_answers_waiting_bytes");
        assert!(held <= ANSWER_BYTES_MAX, "{held}");
        let waiting = metric(&client, "shardlake_requests_waiting");
        waiting + answered(&client, 200) + answered(&client, 503) >= 3 * STREAMS as u64
    });
    let made = answered(&client, 200);
    assert!((1..50).contains(&made), "{made} of 300 pages were made for clients that take none");

    let read = client.read_item("d", "c", &json!(["a"]), "1");
    assert_eq!(read.status, 200, "an item has room");
    let path = items_path("d", "c");
    eventually("another client gets a page", || client.get(&path, &[]).status == 200);
    let held = metric(&client, "shardlake_answers_waiting_bytes");
    assert!(held <= ANSWER_BYTES_MAX, "{held}");
    for mut connection in unread {
        assert_eq!(connection.get("/livez", &[]), 200, "a connection that waits answers");
    }
    eventually("nothing is held for clients that are gone", || {
        metric(&client, "shardlake_answers_waiting_bytes") == 0
            && metric(&client, "shardlake_requests_waiting") == 0
    });
    assert_healthy(&server);
}

#[test]
fn an_answer_that_is_not_taken_in_its_time_ends_its_stream_alone() {
    let server = with_a_large_page("--request-seconds=1");
    let mut connection = unread_pages(&server, 1);
    loop {
        let (kind, _, stream, _) = connection.receive().expect("the connection goes on");
        if kind == RST_STREAM {
            assert_eq!(stream, 1);
            break;
        }
    }
    assert_eq!(connection.get("/livez", &[]), 200);
    let client = server.client();
    assert!(metric(&client, "shardlake_answers_abandoned_total") >= 1);
    drop(connection);
    eventually("nothing is held", || metric(&client, "shardlake_answers_waiting_bytes") == 0);
    assert_healthy(&server);
}

/// Feed pages asked for on one HTTP/1.1 connection, more than buffers of the system take.
fn pipelined_pages(server: &ServerProcess, count: usize) -> TcpStream {
    let path = items_path("d", "c");
    let request = Request { method: "GET", path: &path, ..Request::default() };
    let mut stream = connect(server.address());
    stream.write_all(&server.client().signed_bytes(&request).repeat(count)).unwrap();
    stream
}

fn bytes_to_the_end(stream: &mut TcpStream) -> usize {
    let mut all = Vec::new();
    let _ended_or_reset = stream.read_to_end(&mut all);
    all.len()
}

#[test]
fn an_http1_connection_ends_where_an_answer_is_not_taken_in_its_time() {
    let server = with_a_large_page("--request-seconds=1");
    let client = server.client();
    let mut stream = pipelined_pages(&server, 5);
    eventually("the answer is ended", || metric(&client, "shardlake_answers_abandoned_total") >= 1);
    let taken = bytes_to_the_end(&mut stream);
    assert!(taken < 5 * 4_000_000, "{taken}");
    eventually("nothing is held", || metric(&client, "shardlake_answers_waiting_bytes") == 0);
    assert_healthy(&server);
}

/// A connection is busy until its answer was taken, so that time for idle connections does not end it.
#[test]
fn a_slow_reader_is_not_idle() {
    const PAGES: usize = 5;
    let server = with_a_large_page("--idle-seconds=1");
    let mut slow = pipelined_pages(&server, PAGES);
    for _ in 0..3 {
        // Others run out of their time meanwhile.
        let mut idle = connect(server.address());
        idle.write_all(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
        bytes_to_the_end(&mut idle);
    }
    let taken = bytes_to_the_end(&mut slow);
    assert!(taken > PAGES * 4_000_000, "{taken}");
    assert_healthy(&server);
}

#[test]
fn bodies_that_arrive_slowly_are_bounded_and_small_writes_go_on() {
    const UPLOADS: usize = 20;
    let server = with_a_large_page("--request-seconds=3600");
    let client = server.client();
    let path = items_path("d", "c");
    let headers = [("x-ms-documentdb-partitionkey", "[\"u\"]")];
    let mut uploads: Vec<(TcpStream, Vec<u8>)> = Vec::new();
    for number in 0..UPLOADS {
        let body =
            json!({ "id": format!("u{number}"), "pk": "u", "text": "x".repeat(1_900_000) }).to_string();
        let request =
            Request { method: "POST", path: &path, headers: &headers, body: body.as_bytes(), resource: None };
        let bytes = client.signed_bytes(&request);
        let (head, rest) = bytes.split_at(bytes.len() - body.len() + 1000);
        let mut stream = connect(server.address());
        stream.write_all(head).unwrap();
        uploads.push((stream, rest.to_vec()));
    }
    eventually("all uploads have room, wait or are refused", || {
        let held = metric(&client, "shardlake_bodies_arriving_bytes");
        assert!(held <= ANSWER_BYTES_MAX, "{held}");
        let refused = metric(&client, "shardlake_requests_total{operation=\"CreateItem\",status=\"503\"}");
        held / 1_900_000 + metric(&client, "shardlake_requests_waiting") + refused >= UPLOADS as u64
    });
    let small = json!({ "id": "small", "pk": "a" });
    let _created = client.create_item("d", "c", &json!(["a"]), &small).expect_status(201);
    let mut statuses = Vec::new();
    for (stream, rest) in &mut uploads {
        // The server may not read a refused upload to its end.
        let _refused = stream.write_all(rest);
        let mut status = [0; 12];
        stream.read_exact(&mut status).unwrap();
        statuses.push(String::from_utf8_lossy(&status[9..]).into_owned());
    }
    assert!(statuses.iter().all(|status| status == "201" || status == "503"), "{statuses:?}");
    assert!(statuses.iter().filter(|status| *status == "201").count() >= 8, "{statuses:?}");
    drop(uploads);
    eventually("nothing is held", || metric(&client, "shardlake_bodies_arriving_bytes") == 0);
    assert_healthy(&server);
}
