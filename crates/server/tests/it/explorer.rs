//! The explorer's files over HTTP: their headers, their clients, and the cases that serve none.

use shardlake_testkit::{Request, Response, ServerProcess};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use crate::support::{PATIENCE, Started, answer_at, command, in_memory, on_disk};

/// The header of a browser that opens a page.
const BROWSER: (&str, &str) = ("accept", "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8");

/// The answer to an unsigned request.
fn ask(server: &ServerProcess, method: &str, path: &str, headers: &[(&str, &str)]) -> Response {
    let mut head = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n");
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    let mut connection = server.client().raw().unwrap();
    connection.send(format!("{head}\r\n").as_bytes()).unwrap();
    connection.read_response(method).unwrap()
}

fn page(server: &ServerProcess, path: &str) -> Response {
    ask(server, "GET", path, &[BROWSER])
}

/// The first asset that the page names, which has its build in its path.
fn asset(page: &Response) -> String {
    let text = page.text();
    let start = text.find("/_explorer/assets/").unwrap_or_else(|| panic!("an asset in {text}"));
    let path = text[start..].split('"').next().unwrap();
    let build = path.split('/').nth(3).unwrap();
    assert!(build.len() == 16 && build.bytes().all(|byte| byte.is_ascii_hexdigit()), "{path}");
    path.to_owned()
}

#[test]
fn a_browser_is_led_to_the_explorer_and_clients_are_not() {
    let server = in_memory().start();
    let led = page(&server, "/").expect_status(303);
    assert_eq!(led.header("location"), Some("/_explorer/"));
    assert_eq!(ask(&server, "GET", "/", &[("accept", "application/json")]).status, 401);
    let account = server.client().get("/", &[BROWSER]).expect_status(200).json();
    assert_eq!(account["id"], "localhost", "who signs gets the account");
    let moved = ask(&server, "GET", "/_explorer", &[]).expect_status(308);
    assert_eq!(moved.header("location"), Some("/_explorer/"));
}

#[test]
fn every_place_is_the_page_and_assets_are_kept_for_ever() {
    let server = in_memory().start();
    let first = page(&server, "/_explorer/").expect_status(200);
    assert!(first.text().contains("<!doctype html>") && !first.text().contains("__BUILD__"), "{first}");
    assert_eq!(first.header("cache-control"), Some("no-cache"));
    for path in [
        "/_explorer/index.html",
        "/_explorer/c/shop/orders/items/%5B%22a%2Fb%22%5D/~..",
        "/_explorer/sign-in",
    ] {
        assert_eq!(page(&server, path).expect_status(200).body, first.body, "{path}");
    }
    let path = asset(&first);
    let file = ask(&server, "GET", &path, &[]).expect_status(200);
    assert_eq!(file.header("cache-control"), Some("public, max-age=31536000, immutable"));
    let name = path.rsplit('/').next().unwrap();
    for gone in
        [format!("/_explorer/assets/0123456789abcdef/{name}"), format!("{path}x"), path.replace(name, "..")]
    {
        assert_eq!(ask(&server, "GET", &gone, &[BROWSER]).status, 404, "{gone}");
    }
    assert_eq!(ask(&server, "GET", "/_explorer/x.map", &[("accept", "*/*")]).status, 404);
}

#[test]
fn what_is_known_is_not_sent_again_and_text_is_compressed() {
    let server = in_memory().start();
    let plain = page(&server, "/_explorer/").expect_status(200);
    let zipped =
        ask(&server, "GET", "/_explorer/", &[BROWSER, ("accept-encoding", "gzip, br")]).expect_status(200);
    assert_eq!(zipped.header("content-encoding"), Some("gzip"));
    assert_eq!(zipped.body[..2], [0x1f, 0x8b]);
    assert!(zipped.body.len() < plain.body.len());
    let etags = [plain.header("etag").unwrap().to_owned(), zipped.header("etag").unwrap().to_owned()];
    assert_ne!(etags[0], etags[1]);
    let again =
        ask(&server, "GET", "/_explorer/", &[BROWSER, ("if-none-match", &etags[0])]).expect_status(304);
    assert!(again.body.is_empty());
    let other = ask(&server, "GET", "/_explorer/", &[BROWSER, ("if-none-match", "\"x\"")]);
    assert_eq!(other.status, 200);
    let head = ask(&server, "HEAD", "/_explorer/", &[BROWSER]);
    assert_eq!((head.status, head.body.len()), (200, 0));
    let posted = ask(&server, "POST", "/_explorer/", &[BROWSER]).expect_status(405);
    assert_eq!(posted.header("allow"), Some("GET, HEAD"));
}

#[test]
fn pages_may_load_nothing_from_elsewhere_and_no_page_elsewhere_may_read_them() {
    let server = in_memory().start();
    let first = page(&server, "/_explorer/");
    let file = ask(&server, "GET", &asset(&first), &[]);
    for answer in [&first, &file] {
        let policy = answer.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'; script-src 'self';"), "{policy}");
        assert!(policy.contains("frame-ancestors 'none'") && !policy.contains("unsafe"), "{policy}");
        for (name, value) in [
            ("referrer-policy", "no-referrer"),
            ("cross-origin-opener-policy", "same-origin"),
            ("cross-origin-resource-policy", "same-origin"),
        ] {
            assert_eq!(answer.header(name), Some(value), "{name}");
        }
    }
    // Every answer, of whatever part of the server, to whatever request of another page.
    for path in ["/_explorer/", "/", "/dbs", "/livez", "/metrics", "/_shardlake/v1/partitions", "/nowhere"] {
        for method in ["GET", "POST", "OPTIONS"] {
            for lines in ["", "access-control-request-method: PUT\r\n", "content-type: text/plain\r\n"] {
                let head = format!(
                    "{method} {path} HTTP/1.1\r\nhost: localhost\r\norigin: http://evil.example\r\n{lines}content-length: 0\r\nconnection: close\r\n\r\n"
                );
                let answer = answer_at(server.address(), &head).to_ascii_lowercase();
                assert!(answer.starts_with("http/1.1 403"), "{method} {path}: {answer}");
                assert!(!answer.contains("access-control-") && !answer.contains("set-cookie"), "{answer}");
                assert!(answer.contains("x-content-type-options: nosniff"), "{answer}");
            }
        }
    }
}

#[test]
fn requests_for_pages_are_not_counted_as_data_requests() {
    let server = in_memory().start();
    let counted = |server: &ServerProcess| {
        let text = server.client().get("/metrics", &[]).expect_status(200).text();
        text.lines().filter(|line| line.starts_with("shardlake_requests_total")).count()
    };
    let before = counted(&server);
    for _ in 0..5 {
        let _page = page(&server, "/_explorer/").expect_status(200);
        let _gone = ask(&server, "GET", "/_explorer/assets/x/y", &[]).expect_status(404);
    }
    let _data = server.client().get("/dbs", &[]).expect_status(200);
    // The page is kept for a second: it is asked for until it shows the one request for data.
    while counted(&server) == before {
        std::thread::yield_now();
    }
    assert_eq!((before, counted(&server)), (0, 1));
}

#[test]
fn it_is_served_where_only_this_machine_can_ask_or_where_it_is_switched_on() {
    let off = in_memory().argument("--explorer=off").start();
    assert_eq!(page(&off, "/_explorer/").status, 404);
    assert_eq!(page(&off, "/_explorer").status, 404);
    assert_eq!(page(&off, "/").expect_status(200).header("content-type"), Some("text/html; charset=utf-8"));
    let directory = tempfile::tempdir().unwrap();
    let open = |directory: &str, more: &[&str]| {
        let arguments = ["serve", "--durability=memory", "--listen=0.0.0.0:0", "--data-dir", directory];
        Started::new(&mut command(&[&arguments[..], more].concat()))
    };
    let opened = |server: &Started, host: &str| {
        let head = format!(
            "GET /_explorer/ HTTP/1.1\r\nhost: {host}\r\naccept: text/html\r\nconnection: close\r\n\r\n"
        );
        answer_at(server.address(), &head)
    };
    let directory = directory.path().to_str().unwrap();
    let auto = open(directory, &[]);
    assert!(opened(&auto, "localhost").starts_with("HTTP/1.1 404"), "others can reach it");
    drop(auto);
    let on = open(directory, &["--explorer=on", "--explorer-label=PRODUCTION"]);
    let here = opened(&on, "localhost");
    assert!(here.starts_with("HTTP/1.1 200") && here.contains("/_explorer/assets/"), "{here}");
    let elsewhere = opened(&on, "shop.example:8081");
    assert!(elsewhere.contains(r#"href="https://shop.example:8081/_explorer/""#), "{elsewhere}");
    assert!(!elsewhere.contains("/_explorer/assets/"), "no page that could not sign: {elsewhere}");
}

/// The largest cell of the last hours, and from when on there is anything to know.
fn heat(server: &ServerProcess) -> (f32, u64) {
    let path = "/_shardlake/v1/dbs/shop/colls/orders/heat?window=6h&measure=ru";
    let map = server.client().get(path, &[]).expect_status(200).json();
    let cells = STANDARD.decode(map["cells"].as_str().unwrap()).unwrap();
    let cells = cells.chunks(4).map(|four| f32::from_le_bytes(four.try_into().unwrap()));
    (cells.fold(0.0, f32::max), map["knownSince"].as_u64().unwrap())
}

#[test]
fn heat_goes_on_after_a_restart_and_a_damaged_file_is_left_behind() {
    let mut server = on_disk().start();
    let client = server.client();
    let _database = client.create_database("shop").expect_status(201);
    let _container = client.create_container("shop", "orders", "/customer").expect_status(201);
    for number in 0..50 {
        let item = json!({ "id": number.to_string(), "customer": "ada" });
        let _item = client.create_item("shop", "orders", &json!(["ada"]), &item).expect_status(201);
    }
    let (hottest, since) = heat(&server);
    assert!(hottest > 0.0);
    for _ in 0..2 {
        assert!(server.terminate(PATIENCE).success());
        server.restart();
        let (kept, known_since) = heat(&server);
        assert!(kept > 0.0, "what an earlier process has counted is on the map");
        assert!(known_since.abs_diff(since) < 2_000, "{known_since} and {since}");
    }
    assert!(server.terminate(PATIENCE).success());
    let file = server.data_dir().join("heat");
    let text = std::fs::read_to_string(&file).unwrap();
    let damaged = text.replace("\"partitions\"", "\"partition\"");
    assert_ne!(damaged, text);
    std::fs::write(&file, damaged).unwrap();
    server.expects_log("heat of earlier times");
    server.restart();
    assert_eq!(heat(&server).0, 0.0);
    assert!(server.terminate(PATIENCE).success());
    std::fs::write(&file, [0xff; 100]).unwrap();
    server.restart();
    assert_eq!(heat(&server).0, 0.0);
}

#[test]
fn a_server_tells_of_itself_and_keeps_its_log() {
    let server = in_memory().argument("--explorer-label=PRODUCTION").start();
    let client = server.client();
    let told = client.get("/_shardlake/v1/server", &[]).expect_status(200).json();
    assert_eq!(told["label"], "PRODUCTION");
    assert_eq!(told["durability"], "memory");
    assert_eq!(told["certificateDaysLeft"].as_u64().map(|days| (390..=397).contains(&days)), Some(true));
    let log = client.get("/_shardlake/v1/log?level=info", &[]).expect_status(200).json();
    let lines = log["lines"].as_array().unwrap();
    assert!(lines.iter().any(|line| line["message"] == "ready"), "{log}");
    // The sampler runs once a second: the pulse has figures of the process before long.
    loop {
        let pulse = client.get("/_shardlake/v1/pulse", &[]).expect_status(200).json();
        let memory = pulse["memoryBytes"].as_array().unwrap();
        if memory.iter().any(|bytes| bytes.as_f64().is_some_and(|bytes| bytes > 1e6)) {
            break;
        }
        std::thread::yield_now();
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_query_whose_client_leaves_ends() {
    let server = in_memory().start();
    let client = server.client();
    let _database = client.create_database("db").expect_status(201);
    let _container = client.create_container("db", "items", "/pk").expect_status(201);
    let list: Vec<u32> = (0..60).collect();
    for number in 0..8 {
        let item = serde_json::json!({ "id": number.to_string(), "pk": number.to_string(), "list": list });
        let _item =
            client.create_item("db", "items", &serde_json::json!([item["pk"]]), &item).expect_status(201);
    }
    let path = "/_shardlake/v1/dbs/db/colls/items/query";
    let text = "SELECT VALUE COUNT(1) FROM c JOIN x IN c.list JOIN y IN c.list JOIN z IN c.list";
    let body = serde_json::json!({ "query": text }).to_string();
    let start = processor_ticks(&server);
    let _whole = client.request("POST", path, &[], body.as_bytes()).expect_status(200);
    let whole = processor_ticks(&server) - start;
    assert!(whole > 5, "long enough to be left: {whole} ticks");
    let before = processor_ticks(&server);
    // As many as are at work at a time; others would not have begun.
    const LEFT: u64 = 8;
    let asked: Vec<_> = (0..LEFT)
        .map(|_| {
            let request = Request { method: "POST", path, body: body.as_bytes(), ..Request::default() };
            let mut connection = client.raw().unwrap();
            connection.send(&client.signed_bytes(&request)).unwrap();
            connection
        })
        .collect();
    while processor_ticks(&server) < before + whole / 4 {
        std::thread::yield_now();
    }
    // They are at work, and all are left.
    drop(asked);
    // The server runs it after the requests that were left, so it is the last to be done.
    let after = client.request("POST", path, &[], body.as_bytes()).expect_status(200).json();
    assert_eq!(after["rows"], serde_json::json!([8 * 60 * 60 * 60]));
    let left = (processor_ticks(&server) - before).saturating_sub(whole);
    assert!(left < whole * 3, "{left} ticks for {LEFT} queries of {whole} that nobody waited for");
}

#[cfg(target_os = "linux")]
/// Hundredths of a second that all threads of a server have worked.
fn processor_ticks(server: &ServerProcess) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", server.process_id())).unwrap();
    // Behind the name, which may hold anything.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks = |place: usize| fields[place].parse::<u64>().unwrap();
    ticks(11) + ticks(12)
}
