//! Starting, probing, stopping, starting again.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

use serde_json::{Value, json};
use shardlake_testkit::{Request, ServerProcess};

use crate::support::{PATIENCE, Started, assert_healthy, command, connect, in_memory, on_disk, refused};

#[test]
fn the_ready_record_says_what_answers() {
    let server = on_disk().start();
    let record = &server.ready().fields;
    assert_eq!(record["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(record["durability"], "sync");
    assert_eq!(record["pid"], server.process_id());
    assert_eq!(record["data_dir"].as_str(), server.data_dir().to_str());
    assert!(record["start_ms"].is_u64() && record.get("key_file").is_none(), "{record}");
    let address = server.address();
    assert_eq!(record["endpoints"], json!([format!("http://{address}/"), format!("https://{address}/")]));
    assert_healthy(&server);
}

/// #154: a readiness probe that succeeds before requests are served makes its clients fail.
#[test]
fn issue_154_the_probe_is_good_exactly_while_requests_are_served() {
    let directory = tempfile::tempdir().unwrap();
    let port = free_port();
    let listen = format!("--listen=127.0.0.1:{port}");
    let data = directory.path().to_str().unwrap();
    let mut loading =
        command(&["serve", "--demo=webstore", "--demo-customers=2000", "--data-dir", data, &listen]);
    let mut answers = Vec::new();
    let started = std::thread::scope(|scope| {
        let starting = scope.spawn(|| Started::new(&mut loading));
        while !starting.is_finished() {
            answers.extend(probe(port));
        }
        starting.join().unwrap()
    });
    let (status, served) = probe(port).expect("an answer of a server that is ready");
    assert_eq!((status, served), (200, true), "{}", started.record);
    assert!(
        answers.iter().any(|(status, _)| *status == 503),
        "the load is long enough to be seen: {answers:?}"
    );
    // The account is asked after the probe: once that was good, requests are served.
    assert!(answers.iter().all(|(status, served)| *status == 503 || *served), "{answers:?}");
}

/// The status of `/readyz`, and then whether the account answers.
fn probe(port: u16) -> Option<(u16, bool)> {
    let client = shardlake_testkit::Client::with_emulator_key(([127, 0, 0, 1], port).into());
    let ready = client.try_request("GET", "/readyz", &[], b"").ok()?;
    let account = client.try_request("GET", "/", &[], b"").ok()?;
    Some((ready.status, account.status == 200))
}

/// A port that was free just now. Only this test needs the port before the server does.
fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn probes_and_metrics_need_no_key_and_nothing_else_is_open() {
    let server = in_memory().start();
    let client = server.client();
    let _created = client.create_database("metered").expect_status(201);
    let mut connection = client.raw().unwrap();
    for (path, status) in [("/livez", 200), ("/readyz", 200), ("/metrics", 200), ("/", 401), ("/dbs", 401)] {
        connection.send(format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").as_bytes()).unwrap();
        let answer = connection.read_response("GET").unwrap();
        assert_eq!(answer.status, status, "{path}: {answer}");
    }
    let page = client.get("/metrics", &[]).expect_status(200).text();
    for line in [
        r#"shardlake_requests_total{transport="http",operation="CreateDatabase",status="201"} 1"#,
        "shardlake_databases 1",
        "shardlake_storage_poisoned 0",
        "shardlake_connections 2",
        "shardlake_request_charge_total{operation=\"CreateDatabase\"}",
    ] {
        assert!(page.contains(line), "{line} in\n{page}");
    }
}

/// However a path spells a container, the labels are its names, by which Prometheus joins one metric with another.
#[test]
fn metrics_of_a_container_have_the_same_labels() {
    let server = in_memory().start();
    let client = server.client();
    let _created = client.create_database("d b").expect_status(201);
    let key = json!({ "paths": ["/pk"], "kind": "Hash", "version": 2 });
    let definition = json!({ "id": "x\"y", "partitionKey": key });
    let throughput = [("x-ms-offer-throughput", "400")];
    let created = client.create_container_of("d b", &definition, &throughput).expect_status(201).json();
    let by_rid = format!("/{}", created["_self"].as_str().unwrap().trim_end_matches('/'));
    for path in ["/dbs/d%20b/colls/x%22y/docs", "/dbs/d%20b/colls/%78%22y/docs", &format!("{by_rid}/docs")] {
        let _feed = client.get(path, &[]).expect_status(200);
    }
    let page = client.get("/metrics", &[]).expect_status(200).text();
    for line in [
        r#"shardlake_container_throughput{database="d b",container="x\"y"} 400"#,
        r#"shardlake_container_requests_total{database="d b",container="x\"y",status="200"} 3"#,
    ] {
        assert!(page.contains(line), "{line} in\n{page}");
    }
    assert_eq!(page.matches("shardlake_container_requests_total{").count(), 1, "{page}");
}

#[test]
fn sigterm_finishes_what_is_in_flight_and_exits_with_0() {
    let mut server = on_disk().start();
    let client = server.client();
    let _created = client.create_database("kept").expect_status(201);
    // The head of a request and half of its body: it is in flight until the other half has come.
    let (mut stream, rest) = half_of_a_request(&server, br#"{"id":"last"}"#);
    let idle = connect(server.address());
    let mut kept = server.client().raw().unwrap();
    kept.send(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    assert_eq!(kept.read_response("GET").unwrap().status, 200);
    let status = std::thread::scope(|scope| {
        let stopping = scope.spawn(|| server.terminate(PATIENCE));
        // A server that stops closes the connections that have nothing in flight.
        assert!(kept.read_response("GET").is_err(), "there is nothing to answer");
        stream.write_all(&rest).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
        stopping.join().unwrap()
    });
    assert!(status.success(), "{status}");
    drop(idle);
    server.restart();
    let names = database_names(&server);
    assert_eq!(names, ["kept", "last"]);
}

#[test]
fn a_client_that_never_finishes_does_not_hold_up_the_end() {
    let mut server = in_memory().argument("--drain-seconds=1").start();
    server.expects_log("requests were still in flight at the end of the drain");
    let _stuck = half_of_a_request(&server, br#"{"id":"never"}"#);
    assert!(server.terminate(PATIENCE).success());
}

/// A request to create a database that the server is serving, on its connection, and the bytes that it still waits for.
fn half_of_a_request(server: &ServerProcess, body: &[u8]) -> (TcpStream, Vec<u8>) {
    let headers = [("expect", "100-continue")];
    let request = Request { method: "POST", path: "/dbs", headers: &headers, body, resource: None };
    let bytes = server.client().signed_bytes(&request);
    let (first, rest) = bytes.split_at(bytes.len() - 6);
    let mut stream = connect(server.address());
    stream.write_all(first).unwrap();
    // The server sends 100 Continue when it begins to serve the request.
    let mut line = [0; 25];
    stream.read_exact(&mut line).unwrap();
    assert_eq!(&line, b"HTTP/1.1 100 Continue\r\n\r\n");
    (stream, rest.to_vec())
}

/// #320: data that was acknowledged is there after a restart, a clean one and another.
#[test]
fn issue_320_a_restart_keeps_everything() {
    let mut server = on_disk().start();
    let client = server.client();
    let _database = client.create_database("kept").expect_status(201);
    let container = client.create_container("kept", "items", "/pk").expect_status(201).json();
    let item = json!({ "id": "1", "pk": "a", "exact": 9_007_199_254_740_993_i64, "text": "ü" });
    let created = client.create_item("kept", "items", &json!(["a"]), &item).expect_status(201).json();
    for restart in 0..3 {
        if restart % 2 == 0 {
            assert!(server.terminate(PATIENCE).success());
        } else {
            server.kill();
        }
        server.restart();
        let client = server.client();
        assert_eq!(client.read_container("kept", "items").expect_status(200).json(), container);
        let read = client.read_item("kept", "items", &json!(["a"]), "1").expect_status(200).json();
        assert_eq!(read, created, "after restart {restart}");
    }
    assert!(server.terminate(PATIENCE).success());
    let verified = server.verify();
    assert!(verified.status.success(), "{verified:?}");
    assert!(String::from_utf8_lossy(&verified.stdout).contains(": 1 item, "), "{verified:?}");
}

#[test]
fn a_second_server_on_the_same_directory_is_refused() {
    let server = on_disk().start();
    let directory = server.data_dir().to_str().unwrap();
    let message = refused(&mut command(&["serve", "--listen=127.0.0.1:0", "--data-dir", directory]));
    assert!(message.contains(directory) && message.contains("stop the other server"), "{message}");
    let message = refused(&mut command(&["verify", directory]));
    assert!(message.contains("stop the other server"), "{message}");
    assert_healthy(&server);
}

#[test]
fn an_address_in_use_is_refused_with_advice() {
    let server = in_memory().start();
    let listen = format!("--listen={}", server.address());
    let mut second: Command = command(&["serve", "--durability=memory", &listen]);
    let message = refused(&mut second);
    assert!(message.contains(&server.address().to_string()) && message.contains("--listen"), "{message}");
}

#[test]
fn verify_tells_a_data_directory_from_another() {
    let directory = tempfile::tempdir().unwrap();
    let message = refused(&mut command(&["verify", directory.path().to_str().unwrap()]));
    assert!(message.contains("no data directory"), "{message}");
    let mut server = on_disk().start();
    let _database = server.client().create_database("a").expect_status(201);
    assert!(server.terminate(PATIENCE).success());
    let output = command(&["verify", "--json", server.data_dir().to_str().unwrap()]).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (report["databases"].as_u64(), report["problemCount"].as_u64()),
        (Some(1), Some(0)),
        "{report}"
    );
}

fn database_names(server: &ServerProcess) -> Vec<String> {
    let feed = server.client().get("/dbs", &[]).expect_status(200).json();
    let databases = feed["Databases"].as_array().unwrap();
    databases.iter().map(|database| database["id"].as_str().unwrap().to_owned()).collect()
}
