//! Names by which a request may call the server, and the rules for its head.
//!
//! A web page whose name resolves to this machine (DNS rebinding) can send anything but another `Host` and `Origin`.

use shardlake_testkit::{Client, Request, ServerProcess};

use crate::support::{Http2, Started, answer_at, command, connect, in_memory};

/// Everything that answers without a key, and something that needs one.
const PATHS: [&str; 9] = [
    "/livez",
    "/readyz",
    "/metrics",
    "/_shardlake/ca.pem",
    "/_explorer/",
    "/",
    "/dbs",
    "/_shardlake/v1/partitions",
    "/nowhere",
];

const STRANGE: [&str; 16] = [
    "rebind.evil.example",
    "rebind.evil.example:8081",
    "x",
    "localhost.evil.example",
    "evil-localhost",
    "127.0.0.1.evil.example",
    "127.0.0.1:1@evil.example",
    "evil.example/\"<script>",
    "2130706433",
    "0x7f.1",
    "[::1",
    "[evil]",
    "127.0.0.1:99999",
    "127.0.0.1:x",
    "a..b",
    "",
];

fn server() -> ServerProcess {
    in_memory().argument("--tls-name=db.example").argument("--tls-name=*.wild.example").start()
}

fn machine() -> String {
    rustix::system::uname().nodename().to_str().unwrap().to_owned()
}

/// The status of an unsigned request with these additional lines in its head.
fn status(server: &ServerProcess, target: &str, lines: &str) -> u16 {
    let head = format!("GET {target} HTTP/1.1\r\n{lines}connection: close\r\n\r\n");
    let answer = answer_at(server.address(), &head);
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("{answer}"))
}

#[test]
fn requests_by_names_that_strangers_could_own_are_refused_on_every_path() {
    let server = server();
    for host in STRANGE {
        for path in PATHS {
            assert_eq!(status(&server, path, &format!("host: {host}\r\n")), 403, "{host:?} {path}");
        }
        let created = server.client().request("POST", "/dbs", &[("host", host)], br#"{"id":"stolen"}"#);
        assert_eq!(created.status, 403, "{host:?}: {created}");
    }
    let told = server.client().get("/", &[("host", "shop:8081")]).expect_status(403).text();
    for words in ["'shop'", "--tls-name shop", "--listen"] {
        assert!(told.contains(words), "{words} in {told}");
    }
    let feed = server.client().get("/dbs", &[]).expect_status(200).json();
    assert_eq!(feed["_count"], 0, "nothing was created under a strange name");
}

#[test]
fn addresses_localhost_and_configured_names_are_answered() {
    let server = server();
    let machine = machine();
    let own = server.address().to_string();
    for host in [
        own.as_str(),
        "127.0.0.1",
        "10.1.2.3:8081",
        "[::1]",
        "[::1]:8081",
        "[fe80::1]:1",
        "localhost",
        "LocalHost:8081",
        "localhost.",
        "shop.localhost:8081",
        "db.example",
        "DB.example:443",
        "a.wild.example",
        machine.as_str(),
    ] {
        for (path, expected) in [("/livez", 200), ("/metrics", 200), ("/dbs", 401)] {
            assert_eq!(status(&server, path, &format!("host: {host}\r\n")), expected, "{host} {path}");
        }
        let account = server.client().get("/", &[("host", host)]).expect_status(200).json();
        let endpoint = account["writableLocations"][0]["databaseAccountEndpoint"].as_str().unwrap();
        assert_eq!(endpoint, format!("http://{host}/"));
    }
    assert_eq!(status(&server, "/livez", "host: a.b.wild.example\r\n"), 403, "a wildcard is for one label");
}

#[test]
fn http2_authorities_and_absolute_targets_count_as_hosts() {
    let server = server();
    let mut connection = Http2::new(connect(server.address()));
    assert_eq!(connection.get_from("127.0.0.1:1", "/livez", &[]), 200);
    assert_eq!(connection.get_from("evil.example", "/livez", &[]), 403);
    assert_eq!(connection.get_from("evil.example", "/metrics", &[("host", "localhost")]), 403);
    assert_eq!(connection.get_from("localhost", "/metrics", &[("host", "evil.example")]), 403);
    assert_eq!(connection.get_from("localhost", "/livez", &[("origin", "https://evil.example")]), 403);
    assert_eq!(status(&server, "http://localhost/livez", "host: localhost\r\n"), 200);
    assert_eq!(status(&server, "http://evil.example/livez", "host: localhost\r\n"), 403);
    assert_eq!(status(&server, "http://localhost/livez", "host: evil.example\r\n"), 403);
}

#[test]
fn pages_of_other_origins_are_refused() {
    let server = server();
    for (origin, expected) in [
        ("http://localhost:8081", 200),
        ("https://LOCALHOST:8081", 200),
        ("http://localhost", 403),
        ("http://localhost:8082", 403),
        ("http://evil.example", 403),
        ("http://localhost:8081.evil.example", 403),
        ("null", 403),
        ("", 403),
        ("file://localhost:8081", 403),
    ] {
        let lines = format!("host: localhost:8081\r\norigin: {origin}\r\n");
        assert_eq!(status(&server, "/metrics", &lines), expected, "{origin}");
    }
    let twice = "host: localhost\r\norigin: http://localhost\r\norigin: http://evil.example\r\n";
    assert_eq!(status(&server, "/metrics", twice), 403);
    assert_eq!(status(&server, "/metrics", "host: localhost\r\norigin: http://localhost:80\r\n"), 200);
    assert_eq!(status(&server, "/metrics", "host: localhost:443\r\norigin: https://localhost\r\n"), 200);
}

#[test]
fn requests_without_a_host_or_with_two_are_refused() {
    let server = server();
    for lines in ["", "host: localhost\r\nhost: localhost\r\n", "host: localhost\r\nHost: evil.example\r\n"] {
        for path in ["/livez", "/dbs"] {
            assert_eq!(status(&server, path, lines), 400, "{lines:?} {path}");
        }
    }
    assert_eq!(status(&server, "http://localhost/livez", ""), 400, "an absolute target is no header");
    let old = |lines: &str| answer_at(server.address(), &format!("GET /livez HTTP/1.0\r\n{lines}\r\n"));
    assert!(old("").starts_with("HTTP/1.0 200"), "HTTP/1.0 knows no Host: {}", old(""));
    assert!(old("host: evil.example\r\n").starts_with("HTTP/1.0 403"));
}

#[test]
fn transfer_codings_other_than_chunked_are_refused() {
    let server = server();
    for (coding, expected) in
        [("chunked", "401"), ("Chunked", "401"), ("gzip, chunked", "501"), ("chunked, chunked", "501")]
    {
        let lines = format!("host: localhost\r\ntransfer-encoding: {coding}\r\nconnection: close\r\n");
        let answer = answer_at(server.address(), &format!("POST /dbs HTTP/1.1\r\n{lines}\r\n0\r\n\r\n"));
        assert!(answer.starts_with(&format!("HTTP/1.1 {expected}")), "{coding}: {answer}");
    }
}

#[test]
fn every_response_forbids_sniffing_and_none_opens_the_server_to_other_origins() {
    let server = server();
    let signed = server.client();
    let mut answers: Vec<String> = PATHS
        .iter()
        .flat_map(|path| [("GET", path), ("OPTIONS", path), ("POST", path)])
        .map(|(method, path)| {
            let lines =
                "host: localhost\r\norigin: http://localhost\r\naccess-control-request-method: POST\r\n";
            let head = format!("{method} {path} HTTP/1.1\r\n{lines}connection: close\r\n\r\n");
            answer_at(server.address(), &head)
        })
        .collect();
    for lines in ["", "host: evil.example\r\n"] {
        let head = format!("GET / HTTP/1.1\r\n{lines}connection: close\r\n\r\n");
        answers.push(answer_at(server.address(), &head));
    }
    let headers = [("connection", "close")];
    let good =
        signed.signed_bytes(&Request { method: "GET", path: "/", headers: &headers, ..Request::default() });
    answers.push(answer_at(server.address(), std::str::from_utf8(&good).unwrap()));
    for answer in answers {
        let head = answer.split("\r\n\r\n").next().unwrap().to_ascii_lowercase();
        assert!(head.contains("\r\nx-content-type-options: nosniff"), "{answer}");
        assert!(!head.contains("access-control-"), "{answer}");
    }
}

#[test]
fn with_keys_of_its_own_a_server_answers_any_name_and_repeats_only_known_ones() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    let started = Started::new(&mut command(&["serve", "--listen=0.0.0.0:0", "--data-dir", path]));
    let keys = std::fs::read_to_string(started.record["key_file"].as_str().unwrap()).unwrap();
    let keys: serde_json::Value = serde_json::from_str(&keys).unwrap();
    let client = Client::new(started.address(), keys["primary"].as_str().unwrap());
    let endpoint = |host: &str| {
        let account = client.get("/", &[("host", host)]).expect_status(200).json();
        let [writable, readable] = ["writableLocations", "readableLocations"]
            .map(|name| account[name][0]["databaseAccountEndpoint"].as_str().unwrap().to_owned());
        assert_eq!(writable, readable);
        writable
    };
    let listener = format!("http://{}/", started.address());
    for unknown in ["evil.example", "evil.example:8081", "shop.evil.example"] {
        assert_eq!(endpoint(unknown), listener, "{unknown}");
    }
    // Names without a dot and those of private networks have no owner on the Internet: containers call one another by them.
    for known in ["192.168.7.7:1", "localhost:8081", "shardlake:8081", "db.shop.svc.cluster.local", "[::1]:9"]
    {
        assert_eq!(endpoint(known), format!("http://{known}/"));
    }
    for malformed in ["a\"b", "x:99999999", "127.0.0.1:1@evil", "a/b?c#d", ""] {
        let refused = client.get("/", &[("host", malformed)]);
        assert_eq!(refused.status, 400, "{malformed:?}: {refused}");
    }
}
