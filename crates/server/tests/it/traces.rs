//! Logs and traces of one request: a line where it was slow, and its spans at a collector.

use serde_json::json;

use crate::support::in_memory;

const ACTIVITY: &str = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0";

#[test]
fn slow_requests_are_logged_with_what_they_cost_and_no_more_than_ten_a_second() {
    // Everything takes longer than nothing at all; a second has a thousand milliseconds.
    let server = in_memory().argument("--slow-request-ms=1").start();
    let client = server.client();
    let _database = client.create_database("d").expect_status(201);
    let _container = client.create_container("d", "c", "/pk").expect_status(201);
    let slow = "SELECT VALUE COUNT(1) FROM c JOIN a IN c.list JOIN b IN c.list JOIN d IN c.list";
    let list: Vec<u64> = (0..40).collect();
    let item = json!({ "id": "1", "pk": "a", "list": list });
    let _created = client.create_item("d", "c", &json!(["a"]), &item).expect_status(201);
    let headers = [
        ("x-ms-activity-id", ACTIVITY),
        ("x-ms-documentdb-partitionkey", "[\"a\"]"),
        ("x-ms-documentdb-isquery", "true"),
        ("content-type", "application/query+json"),
    ];
    let query = json!({ "query": slow }).to_string();
    let answer = client.request("POST", "/dbs/d/colls/c/docs", &headers, query.as_bytes()).expect_status(200);
    let log = server.log();
    let line = log.lines().find(|line| line.contains(ACTIVITY)).unwrap_or_else(|| panic!("{log}"));
    let charge = format!("charge={}", answer.header("x-ms-request-charge").unwrap());
    for part in ["slow request", "path=\"/dbs/d/colls/c/docs\"", "status=200", "milliseconds=", &charge] {
        assert!(line.contains(part), "{part} in {line}");
    }
}

#[test]
fn no_request_is_slow_where_the_operator_says_so() {
    let server = in_memory().argument("--slow-request-ms=0").start();
    let _created = server.client().create_database("d").expect_status(201);
    assert!(!server.log().contains("slow request"), "{}", server.log());
}

/// The collector is a listener that keeps its input. Names in the messages are text, so nothing decodes them.
#[cfg(feature = "otlp")]
#[test]
fn a_collector_gets_the_spans_of_a_write() {
    use std::io::{Read, Write};

    use crate::support::PATIENCE;

    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("--otlp-endpoint=http://{}", listener.local_addr().unwrap());
    let mut server = in_memory().argument(&endpoint).start();
    let client = server.client();
    let _database = client.create_database("d").expect_status(201);
    let _container = client.create_container("d", "c", "/pk").expect_status(201);
    let headers = [("x-ms-activity-id", ACTIVITY), ("x-ms-documentdb-partitionkey", "[\"a\"]")];
    let body = json!({ "id": "1", "pk": "a" }).to_string();
    let _created =
        client.request("POST", "/dbs/d/colls/c/docs", &headers, body.as_bytes()).expect_status(201);
    let collector = std::thread::spawn(move || {
        let mut all = Vec::new();
        let (mut stream, _) = listener.accept().unwrap();
        let mut buffer = [0; 64 * 1024];
        while let Ok(count @ 1..) = stream.read(&mut buffer) {
            all.extend_from_slice(&buffer[..count]);
            let text = String::from_utf8_lossy(&all).into_owned();
            if text.contains(ACTIVITY) && text.contains("durable") {
                break;
            }
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap();
        }
        String::from_utf8_lossy(&all).into_owned()
    });
    // Remaining spans are sent before the process ends.
    let status = server.terminate(PATIENCE);
    assert!(status.success(), "{status}");
    let sent = collector.join().unwrap();
    assert!(sent.starts_with("POST /v1/traces "), "{sent}");
    for name in ["request", ACTIVITY, "/dbs/d/colls/c/docs", "shardlake", "plan", "durable"] {
        assert!(sent.contains(name), "{name} in {sent}");
    }
}
