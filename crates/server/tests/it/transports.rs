//! One port: plain HTTP, TLS, HTTP/1.1 and HTTP/2, and the certificate it shows.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;

use shardlake_testkit::{Client, Request, eventually};

use crate::support::{Http2, TlsStream, assert_healthy, ca_of, connect, in_memory, tls};

/// Signed request, whole answer, on a connection that ends after it.
fn exchange(stream: &mut (impl Read + Write), client: &Client, path: &str) -> String {
    let headers = [("connection", "close")];
    let request = Request { method: "GET", path, headers: &headers, ..Request::default() };
    stream.write_all(&client.signed_bytes(&request)).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn plain_and_tls_share_the_port_and_say_where_they_are() {
    let server = in_memory().start();
    let (client, address) = (server.client(), server.address());
    let plain = exchange(&mut connect(address), &client, "/");
    assert!(plain.starts_with("HTTP/1.1 200"), "{plain}");
    assert!(plain.contains(&format!("\"databaseAccountEndpoint\":\"http://{address}/\"")), "{plain}");

    let mut stream = tls(address, &ca_of(&server), "localhost", "http/1.1").expect("a trusted certificate");
    let secure = exchange(&mut stream, &client, "/");
    assert!(secure.starts_with("HTTP/1.1 200"), "{secure}");
    assert!(secure.contains(&format!("\"databaseAccountEndpoint\":\"https://{address}/\"")), "{secure}");
    assert_healthy(&server);
}

#[test]
fn http2_is_spoken_over_tls_and_in_the_clear() {
    let server = in_memory().start();
    let address = server.address();
    let mut clear = Http2::new(connect(address));
    assert_eq!(clear.get("/livez", &[]), 200);
    assert_eq!(clear.get("/readyz", &[]), 200, "the connection is kept");
    let mut secure: Http2<TlsStream> = Http2::new(tls(address, &ca_of(&server), "127.0.0.1", "h2").unwrap());
    for _ in 0..10 {
        assert_eq!(secure.get("/livez", &[]), 200);
    }
    let long = "x".repeat(3_000);
    assert_eq!(secure.get("/livez", &[("x-long", &long)]), 200);
    assert_healthy(&server);
}

/// Time for headers is for a request that has begun; an HTTP/2 connection between requests has not begun one.
#[test]
fn an_idle_http2_connection_outlives_the_time_for_headers() {
    let server = in_memory().argument("--header-seconds=1").start();
    let mut connection = Http2::new(connect(server.address()));
    assert_eq!(connection.get("/livez", &[]), 200);
    // After the ping the client is silent for longer than the server's patience, which other clients exceed twice meanwhile.
    connection.ping();
    for _ in 0..2 {
        let mut slow = connect(server.address());
        slow.write_all(b"GET /livez HTTP/1.1\r\nhost: ").unwrap();
        let mut nothing = Vec::new();
        let _closed_or_reset = slow.read_to_end(&mut nothing);
    }
    assert_eq!(connection.get("/livez", &[]), 200);
}

#[test]
fn the_certificate_is_good_for_its_names_only_and_survives_restarts() {
    let mut server = in_memory().argument("--tls-name=db.example").start();
    let ca = ca_of(&server);
    for name in ["localhost", "127.0.0.1", "::1", "db.example"] {
        assert!(tls(server.address(), &ca, name, "http/1.1").is_ok(), "{name}");
    }
    server.expects_log("a client ended the TLS handshake");
    assert!(tls(server.address(), &ca, "other.example", "http/1.1").is_err());
    eventually("the log says why the client did not connect", || {
        server.log().contains("does not trust the server's certificate")
    });
    let file = server.ready().fields["ca_file"].as_str().expect("a file").to_owned();
    assert_eq!(fs::read(&file).unwrap(), ca);
    let directory = server.data_dir().join("tls");
    for secret in ["ca-key.pem", "server-key.pem"] {
        let mode = fs::metadata(directory.join(secret)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{secret}");
    }
    let before = fs::read(directory.join("server.pem")).unwrap();
    assert!(server.terminate(crate::support::PATIENCE).success());
    server.restart();
    assert_eq!(fs::read(directory.join("server.pem")).unwrap(), before);
    assert!(tls(server.address(), &ca, "db.example", "http/1.1").is_ok(), "the old authority is still right");
    assert_healthy(&server);
}

#[test]
fn a_server_without_a_directory_makes_its_certificate_in_memory() {
    let mut command = crate::support::command(&["serve", "--durability=memory", "--listen=127.0.0.1:0"]);
    let elsewhere = tempfile::tempdir().unwrap();
    let started = crate::support::Started::new(command.current_dir(elsewhere.path()));
    let client = Client::new(started.address(), started.record["key"].as_str().unwrap());
    let ca = client.get("/_shardlake/ca.pem", &[]).expect_status(200).body;
    assert!(tls(started.address(), &ca, "localhost", "http/1.1").is_ok());
    assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0, "nothing is written");
    assert!(
        started.record["data_dir"].is_null() && started.record["ca_file"].is_null(),
        "{}",
        started.record
    );
}
