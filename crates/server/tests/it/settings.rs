//! Where settings come from, and which keys count where.

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};
use shardlake_testkit::{Client, EMULATOR_KEY, ServerProcess};

use crate::support::{Started, command, in_memory, refused};

#[test]
fn unknown_settings_are_refused_wherever_they_are() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("settings.toml");
    std::fs::write(&file, "durability = \"memory\"\nlisten-on = \"127.0.0.1:0\"\n").unwrap();
    let path = file.to_str().unwrap();
    let message = refused(&mut command(&["serve", "--config", path]));
    assert!(
        message.contains(path) && message.contains("line 2") && message.contains("listen-on"),
        "{message}"
    );
    for (near_miss, meant) in [
        ("SHARDLAKE_LISTENON", "SHARDLAKE_LISTEN"),
        ("SHARDLAKE_DATADIR", "SHARDLAKE_DATA_DIR"),
        ("SHARDLAKE_DURABILTY", "SHARDLAKE_DURABILITY"),
        ("SHARDLAKE_CONFG", "SHARDLAKE_CONFIG"),
    ] {
        let message = refused(command(&["serve"]).env(near_miss, "127.0.0.1:0"));
        assert!(message.contains(near_miss) && message.contains(&format!("{meant} ")), "{message}");
    }
    let output = command(&["serve", "--listen-on=127.0.0.1:0"]).output().unwrap();
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("--listen-on"), "{output:?}");
}

/// Kubernetes puts variables like these into every pod in the namespace of a service of the name.
#[test]
fn variables_of_others_do_not_stop_the_start() {
    let mut options = in_memory();
    let of_kubernetes = [
        ("SHARDLAKE_SERVICE_HOST", "10.0.0.1"),
        ("SHARDLAKE_SERVICE_PORT", "8081"),
        ("SHARDLAKE_SERVICE_PORT_HTTP", "8081"),
        ("SHARDLAKE_PORT", "tcp://10.0.0.1:8081"),
        ("SHARDLAKE_PORT_8081_TCP", "tcp://10.0.0.1:8081"),
        ("SHARDLAKE_PORT_8081_TCP_ADDR", "10.0.0.1"),
        ("SHARDLAKE_PORT_8081_TCP_PORT", "8081"),
        ("SHARDLAKE_PORT_8081_TCP_PROTO", "tcp"),
        ("SHARDLAKE_TLS_PORT", "tcp://10.0.0.2:1"),
    ];
    options.environment.extend(of_kubernetes.map(|(name, value)| (name.into(), value.into())));
    // A warning would fail the test.
    drop(options.clone().start());
    options.environment.push(("SHARDLAKE_REPLICAS".into(), "3".into()));
    options.environment.push(("SHARDLAKE_IMAGE_TAG".into(), "latest".into()));
    let server = options.start();
    server.expects_log("SHARDLAKE_IMAGE_TAG, SHARDLAKE_REPLICAS");
    let log = server.log();
    assert_eq!(log.matches("SHARDLAKE_").count(), 2, "told once, and of Kubernetes nothing: {log}");
}

#[test]
fn a_file_and_a_variable_and_a_flag_make_one_configuration() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("settings.toml");
    let text =
        "listen = \"127.0.0.1:0\"\ndurability = \"sync\"\nconsistency = \"Strong\"\nlog-format = \"json\"\n";
    std::fs::write(&file, text).unwrap();
    let mut serve = command(&["serve", "--consistency=Eventual"]);
    serve.env("SHARDLAKE_CONFIG", &file).env("SHARDLAKE_DURABILITY", "memory").current_dir(directory.path());
    let started = Started::new(&mut serve);
    assert_eq!(started.record["durability"], "memory", "the variable wins over the file");
    let account = Client::with_emulator_key(started.address()).get("/", &[]).expect_status(200).json();
    assert_eq!(
        account["userConsistencyPolicy"]["defaultConsistencyLevel"], "Eventual",
        "the flag wins over both"
    );
}

#[test]
fn a_small_scale_of_limits_makes_small_partitions() {
    let server = in_memory().argument("--limits-scale=1/1000000").start();
    let client = server.client();
    let _ = client.create_database("db").expect_status(201);
    let _ = client.create_container("db", "c", "/pk").expect_status(201);
    let ranges = |container: &str| {
        let path = format!("/dbs/db/colls/{container}/pkranges");
        client.get(&path, &[]).expect_status(200).json()["_count"].as_u64().unwrap()
    };
    assert_eq!(ranges("c"), 1, "nobody asked for throughput that would need more");
    let key = json!({ "paths": ["/pk"], "kind": "Hash", "version": 2 });
    let definition = json!({ "id": "asked", "partitionKey": key });
    let throughput = [("x-ms-offer-throughput", "400")];
    let _ = client.create_container_of("db", &definition, &throughput).expect_status(201);
    assert_eq!(ranges("asked"), 200, "400 RU/s in partitions of one RU/s, and at most so many");
    let key = json!(["k"]);
    let item = |id: &str, key: &str| json!({ "id": id, "pk": key, "pad": "x".repeat(12_000) });
    let _ = client.create_item("db", "c", &key, &item("a", "k")).expect_status(201);
    let full = client.create_item("db", "c", &key, &item("b", "k")).expect_status(403);
    assert_eq!(full.header("x-ms-substatus"), Some("1014"));
    assert!(full.text().contains("Partition key reached maximum size of 20.97 KB"), "{}", full.text());
    for other in 0..5 {
        let other = format!("k{other}");
        let answer = client.create_item("db", "c", &json!([other]), &item("a", &other));
        assert!(matches!(answer.status, 201 | 403), "{answer}");
    }
    shardlake_testkit::eventually("a partition that is too large is split", || ranges("c") > 1);
}

/// A post with so many comments of some 77 bytes.
fn post(comments: usize) -> Value {
    let comment = |number: usize| json!({ "id": format!("c{number}"), "by": format!("u{}", number % 800), "text": "x".repeat(40) });
    json!({ "id": "p", "pk": "k", "comments": (0..comments).map(comment).collect::<Vec<_>>() })
}

#[test]
fn a_post_of_two_megabytes_of_comments_is_stored_and_found_by_any_of_them() {
    let server = in_memory().start();
    let client = server.client();
    let _ = client.create_database("db").expect_status(201);
    let _ = client.create_container("db", "c", "/pk").expect_status(201);
    let post = post(26_000);
    let size = post.to_string().len();
    assert!((2_000_000..=2 << 20).contains(&size), "{size} bytes");
    let _ = client.create_item("db", "c", &json!(["k"]), &post).expect_status(201);
    for (by, count) in [("c25999", 1), ("c26000", 0)] {
        let text = format!(
            "SELECT VALUE p.id FROM p WHERE EXISTS(SELECT VALUE c FROM c IN p.comments WHERE c.id = '{by}')"
        );
        let headers = [
            ("x-ms-documentdb-isquery", "true"),
            ("x-ms-documentdb-partitionkey", r#"["k"]"#),
            ("content-type", "application/query+json"),
        ];
        let query = json!({ "query": text }).to_string();
        let path = "/dbs/db/colls/c/docs";
        let found = client.request("POST", path, &headers, query.as_bytes()).expect_status(200).json();
        assert_eq!(found["_count"], count, "{by}: {found}");
    }
}

#[test]
fn items_of_more_values_than_the_setting_allows_are_refused_by_its_name() {
    let server = in_memory().argument("--max-index-terms=1000").start();
    let client = server.client();
    let _ = client.create_database("db").expect_status(201);
    let _ = client.create_container("db", "c", "/pk").expect_status(201);
    let key = json!(["k"]);
    let refused = client.create_item("db", "c", &key, &post(2000)).expect_status(413);
    assert!(refused.text().contains("more than the limit of 1000 (`max-index-terms`)"), "{}", refused.text());
    let _ = client.create_item("db", "c", &key, &post(200)).expect_status(201);
}

#[test]
fn queries_are_merged_for_clients_that_do_not_when_the_setting_says_so() {
    for (mode, merges) in [("client", false), ("server", true)] {
        let server = in_memory().argument(format!("--query-merge={mode}")).start();
        let client = server.client();
        let _ = client.create_database("db").expect_status(201);
        let definition =
            json!({ "id": "c", "partitionKey": { "paths": ["/pk"], "kind": "Hash", "version": 2 } });
        let headers = [("x-ms-offer-throughput", "30000"), ("content-type", "application/json")];
        let created = client.request("POST", "/dbs/db/colls", &headers, definition.to_string().as_bytes());
        let _ = created.expect_status(201);
        for n in 0..20 {
            let item = json!({ "id": n.to_string(), "pk": n.to_string(), "n": n });
            let _ = client.create_item("db", "c", &json!([n.to_string()]), &item).expect_status(201);
        }
        let ask = |fans_out: Option<&str>| {
            let query = json!({ "query": "SELECT TOP 3 VALUE c.n FROM c ORDER BY c.n DESC" }).to_string();
            let mut headers = vec![
                ("x-ms-documentdb-isquery", "true"),
                ("x-ms-documentdb-query-enablecrosspartition", "true"),
                ("content-type", "application/query+json"),
            ];
            headers.extend(fans_out.map(|fans_out| ("x-shardlake-fan-out", fans_out)));
            client.request("POST", "/dbs/db/colls/c/docs", &headers, query.as_bytes())
        };
        for (asked, answers) in [(None, merges), (Some("true"), true), (Some("false"), false)] {
            let found = ask(asked).expect_status(if answers { 200 } else { 400 }).json();
            assert!(!answers || found["Documents"] == json!([19, 18, 17]), "{found}");
        }
    }
}

#[test]
fn json_logs_are_json() {
    let server = in_memory().argument("--log-format=json").argument("--log-level=debug").start();
    let log = server.log();
    assert!(log.lines().count() > 0, "nothing was logged");
    for line in log.lines() {
        let record: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(record["timestamp"].is_string() && record["level"].is_string(), "{line}");
    }
}

#[test]
fn a_server_that_others_can_reach_has_keys_of_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    let started = Started::new(&mut command(&["serve", "--listen=0.0.0.0:0", "--data-dir", path]));
    assert_eq!(started.record.get("key"), None);
    let file = started.record["key_file"].as_str().expect("a key file");
    assert_eq!(std::fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
    let keys: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let status = |key: &str, method: &str| {
        let body: &[u8] = if method == "POST" { br#"{"id":"a"}"# } else { b"" };
        Client::new(started.address(), key).request(method, "/dbs", &[], body).status
    };
    let key = |name: &str| keys[name].as_str().unwrap_or_else(|| panic!("{name} in {keys}")).to_owned();
    assert_eq!(status(EMULATOR_KEY, "GET"), 401);
    assert_eq!(status(&key("primaryReadonly"), "POST"), 401);
    assert_eq!(status(&key("secondaryReadonly"), "GET"), 200);
    assert_eq!(status(&key("secondary"), "POST"), 201);
    assert_eq!(status(&key("primary"), "GET"), 200);
}

#[test]
fn the_well_known_key_is_refused_for_a_server_that_others_can_reach() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("keys.json");
    std::fs::write(&file, format!("{{\"primary\":\"{EMULATOR_KEY}\"}}")).unwrap();
    let message = refused(&mut command(&[
        "serve",
        "--listen=0.0.0.0:0",
        "--durability=memory",
        "--key-file",
        file.to_str().unwrap(),
    ]));
    assert!(message.contains("well-known"), "{message}");
    let message = refused(&mut command(&["serve", "--listen=0.0.0.0:0", "--durability=memory"]));
    assert!(message.contains("--key-file"), "{message}");
}

#[test]
fn a_clock_that_is_off_is_tolerated_as_far_as_configured() {
    let date_ago = |seconds: u64| {
        let now = shardlake_stdx::Clock::System.now().seconds();
        shardlake_testkit::http_date_after_epoch(std::time::Duration::from_secs(now - seconds))
    };
    let status = |server: &ServerProcess, seconds: u64| {
        let date = date_ago(seconds);
        let signature = shardlake_testkit::authorization("GET", "", "", &date, EMULATOR_KEY);
        server.client().get("/", &[("x-ms-date", &date), ("authorization", &signature)]).status
    };
    let strict = in_memory().argument("--clock-skew=60").start();
    assert_eq!((status(&strict, 30), status(&strict, 90)), (200, 403));
    let patient = in_memory().argument("--clock-skew=7200").start();
    assert_eq!((status(&patient, 3_600), status(&patient, 9_000)), (200, 403));
}
