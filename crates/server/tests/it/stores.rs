//! Accounts in an object store: one server has it, others wait, refuse or take it.

use std::path::Path;
use std::process::Stdio;

use serde_json::json;
use shardlake_testkit::{Client, ServerOptions};

use crate::support::{PATIENCE, Started, assert_healthy, ca_of, command, on_disk, refused};

/// Short, since spares wait for its end; a shorter one refuses writers on a busy machine.
const LEASE: &str = "--lease=3";

pub struct Account {
    directory: tempfile::TempDir,
}

impl Account {
    pub fn new() -> Account {
        Account { directory: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self, name: &str) -> std::path::PathBuf {
        self.directory.path().join(name)
    }

    pub fn url(&self) -> String {
        format!("file://{}/account", self.directory.path().display())
    }

    pub fn node(&self, name: &str, arguments: &[&str]) -> ServerOptions {
        let options = on_disk().data_dir(self.path(name)).argument(format!("--store={}", self.url()));
        let has_lease = arguments.iter().any(|argument| argument.starts_with("--lease="));
        let options = if has_lease { options } else { options.argument(LEASE) };
        let options = options.argument(format!("--node-name={name}"));
        // On a busy machine an answer may take longer than a third of so short a lease.
        let options = options.may_log("the lease could not be renewed");
        arguments.iter().fold(options, |options, argument| options.argument(argument))
    }

    pub fn refused(&self, name: &str) -> String {
        refused(
            command(&["serve", "--listen=127.0.0.1:0", "--log-level=error", "--store", &self.url()])
                .arg("--data-dir")
                .arg(self.path(name)),
        )
    }
}

fn define(client: &Client) {
    let _database = client.create_database("shop").expect_status(201);
    let _container = client.create_container("shop", "items", "/pk").expect_status(201);
}

fn create(client: &Client, id: &str) -> u16 {
    client.create_item("shop", "items", &json!(["a"]), &json!({ "id": id, "pk": "a" })).status
}

fn read(client: &Client, id: &str) -> u16 {
    client.read_item("shop", "items", &json!(["a"]), id).status
}

fn objects(directory: &Path) -> usize {
    let entries = std::fs::read_dir(directory).into_iter().flatten();
    let count = |path: std::path::PathBuf| if path.is_dir() { objects(&path) } else { 1 };
    entries.map(|entry| count(entry.unwrap().path())).sum()
}

#[test]
fn an_account_in_a_store_outlives_its_server_and_its_data_directory() {
    let account = Account::new();
    let mut server = account.node("one", &["--shards=2"]).start();
    assert_eq!(server.ready().fields["store"], account.url());
    define(&server.client());
    assert_eq!(create(&server.client(), "1"), 201);
    server.kill();
    // The same machine knows that the former run has ended, and need not wait.
    server.restart();
    assert_eq!(read(&server.client(), "1"), 200);
    assert_eq!(create(&server.client(), "2"), 201);
    assert_healthy(&server);
    assert!(server.terminate(PATIENCE).success());
    assert!(objects(&account.path("account/s")) > 0);
    assert!(!account.path("one/shard").exists());
    std::fs::remove_dir_all(account.path("one")).unwrap();

    let server = account.node("two", &[]).start();
    assert_eq!((read(&server.client(), "1"), read(&server.client(), "2")), (200, 200));
    assert_healthy(&server);
}

#[test]
fn a_second_server_is_refused_and_a_spare_goes_on_after_a_death() {
    let account = Account::new();
    let mut first = account.node("first", &[]).start();
    define(&first.client());
    assert_eq!(create(&first.client(), "1"), 201);
    let text = account.refused("second");
    assert!(text.contains("'first'") && text.contains("--standby") && text.contains("--take-over"), "{text}");
    let text = account.refused("first");
    assert!(text.contains("another server uses the data directory"), "{text}");

    let authority = ca_of(&first);
    let spare = account.node("spare", &["--standby"]);
    let starting = std::thread::spawn(move || spare.start());
    // The spare is not ready while the first server is: later writes are there afterwards.
    assert_eq!(create(&first.client(), "2"), 201);
    assert!(!starting.is_finished());
    first.kill();
    let spare = starting.join().unwrap();
    assert_eq!((read(&spare.client(), "1"), read(&spare.client(), "2")), (200, 200));
    assert_eq!(create(&spare.client(), "3"), 201);
    assert_eq!(ca_of(&spare), authority, "clients trust both by one authority");
    assert_healthy(&spare);
}

#[test]
fn a_server_that_stops_in_good_order_leaves_the_account_at_once() {
    let account = Account::new();
    // With so long a lease the test would hang otherwise.
    let long = ["--lease=100000"];
    let mut first = account.node("first", &[]).argument("--shards=1").start();
    assert!(first.terminate(PATIENCE).success());
    let options = |name: &str| {
        let options = on_disk().data_dir(account.path(name)).argument(format!("--store={}", account.url()));
        long.iter().fold(options, |options, argument| options.argument(argument))
    };
    let mut second = options("second").start();
    assert!(second.terminate(PATIENCE).success());
    assert_healthy(&options("third").start());
}

#[test]
fn who_is_taken_over_acknowledges_nothing_more_and_ends_with_3() {
    let account = Account::new();
    let mut first = account.node("first", &[]).start();
    define(&first.client());
    // A client with the keys, made before the take-over; its requests continue during the take-over.
    let client = first.client();
    assert_eq!(create(&client, "1"), 201);
    first.expects_log("this server ends");
    first.expects_log("a shard refuses writes from now on");
    let writing = std::thread::spawn(move || {
        let mut acknowledged = Vec::new();
        for number in 0.. {
            let item = json!({ "id": format!("w{number}"), "pk": "a" });
            let body = serde_json::to_vec(&item).unwrap();
            let headers = [("x-ms-documentdb-partitionkey", "[\"a\"]")];
            let sent = client.try_request("POST", "/dbs/shop/colls/items/docs", &headers, &body);
            match sent.map(|response| response.status) {
                Ok(201) => acknowledged.push(format!("w{number}")),
                // The server checks before each answer whether it still holds the lease.
                Ok(status) => assert_eq!(status, 503),
                Err(_) => break,
            }
        }
        acknowledged
    });
    let second = account.node("second", &["--take-over"]).start();
    let status = first.wait(PATIENCE);
    assert_eq!(status.code(), Some(3), "{}", first.log());
    assert!(first.log().contains("'second' has taken the lease"), "{}", first.log());
    let client = second.client();
    let acknowledged = writing.join().unwrap();
    assert!(!acknowledged.is_empty());
    for id in &acknowledged {
        assert_eq!(read(&client, id), 200, "{id} of {}", acknowledged.len());
    }
    assert_eq!(read(&client, "1"), 200);
}

#[test]
fn requests_to_the_store_are_counted() {
    let account = Account::new();
    let server = account.node("one", &[]).start();
    define(&server.client());
    let count = |operation: &str| {
        let page = server.client().get("/metrics", &[]).expect_status(200).text();
        let name = format!("shardlake_store_requests_total{{operation=\"{operation}\"}} ");
        page.lines()
            .find_map(|line| line.strip_prefix(&name))
            .map_or(0, |count| count.parse::<u64>().unwrap())
    };
    let before = count("Put");
    for number in 0..10 {
        assert_eq!(create(&server.client(), &number.to_string()), 201);
    }
    // A page of metrics is made once a second.
    while count("Put") < before + 10 {}
    let page = server.client().get("/metrics", &[]).expect_status(200).text();
    assert!(page.contains("shardlake_store_transfer_bytes_total{operation=\"Put\"}"), "{page}");
    assert!(page.contains("shardlake_store_request_duration_seconds_bucket"), "{page}");
}

#[test]
fn places_are_not_mixed_up() {
    let account = Account::new();
    let mut server = account.node("one", &[]).start();
    define(&server.client());
    assert!(server.terminate(PATIENCE).success());

    let text = refused(command(&["serve", "--listen=127.0.0.1:0", "--data-dir"]).arg(account.path("one")));
    assert!(text.contains("lies in an object store") && text.contains(&account.url()), "{text}");
    let other = format!("file://{}/other", account.directory.path().display());
    let text = refused(
        command(&["serve", "--listen=127.0.0.1:0", "--store", &other, "--data-dir"]).arg(account.path("one")),
    );
    assert!(text.contains("belongs to the account in"), "{text}");
    let mut local = on_disk().data_dir(account.path("local")).start();
    assert!(local.terminate(PATIENCE).success());
    let text = account.refused("local");
    assert!(text.contains("an account of its own"), "{text}");
    let text = refused(&mut command(&["serve", "--store", "ftp://x/y", "--data-dir", "/nowhere/x"]));
    assert!(text.contains("s3://bucket/prefix"), "{text}");
    let text = refused(command(&["verify"]).arg(account.path("one")));
    assert!(text.contains("no data directory"), "{text}");

    // Part of the data is missing, and the rest is not served.
    std::fs::rename(account.path("account/s/00000-1"), account.path("moved")).unwrap();
    assert!(account.refused("one").contains("is missing"));
}

#[test]
fn servers_that_others_can_reach_have_the_same_keys() {
    let account = Account::new();
    let start = |name: &str| {
        let mut command = command(&["serve", "--listen=0.0.0.0:0", "--lease=1", "--store", &account.url()]);
        Started::new(command.arg("--data-dir").arg(account.path(name)).stdin(Stdio::null()))
    };
    drop(start("one"));
    let mut two = command(&["serve", "--listen=0.0.0.0:0", "--standby", "--store", &account.url()]);
    let two = Started::new(two.arg("--lease=1").arg("--data-dir").arg(account.path("two")));
    let keys = |name: &str| std::fs::read_to_string(account.path(name).join("keys.json")).unwrap();
    assert_eq!(keys("one"), keys("two"));
    let primary: serde_json::Value = serde_json::from_str(&keys("two")).unwrap();
    let client = Client::new(two.address(), primary["primary"].as_str().unwrap());
    let _account = client.get("/", &[]).expect_status(200);
}

/// Reads and the lease continue, and only the log cannot be written.
#[test]
fn a_server_whose_store_refuses_its_log_is_not_ready_until_it_is_written() {
    let account = Account::new();
    // On a busy machine a short lease may end before it is renewed, and then reads are refused, too.
    let server = account.node("one", &["--lease=9"]).start();
    define(&server.client());
    assert_eq!(create(&server.client(), "1"), 201);
    let shards = std::fs::read_dir(account.path("account/s")).unwrap();
    let logs: Vec<_> = shards.map(|shard| shard.unwrap().path().join("wal")).collect();
    for log in &logs {
        std::fs::rename(log, log.with_extension("away")).unwrap();
        std::fs::write(log, b"").unwrap();
    }
    let readiness = || server.client().get("/readyz", &[]).status;
    std::thread::scope(|scope| {
        let written = scope.spawn(|| create(&server.client(), "2"));
        while readiness() != 503 {}
        assert_eq!(read(&server.client(), "1"), 200);
        for log in &logs {
            std::fs::remove_file(log).unwrap();
            std::fs::rename(log.with_extension("away"), log).unwrap();
        }
        assert_eq!(written.join().unwrap(), 201);
    });
    while readiness() != 200 {}
}

/// The store of a running server fails and recovers: nothing is acknowledged in between, and the server continues.
#[test]
fn a_server_that_cannot_reach_its_store_answers_503_and_goes_on() {
    let account = Account::new();
    let server = account.node("one", &[]).start();
    define(&server.client());
    assert_eq!(create(&server.client(), "1"), 201);
    let (there, away) = (account.path("account"), account.path("away"));
    std::fs::rename(&there, &away).unwrap();
    // A file in its place: the directory cannot be made anew.
    std::fs::write(&there, b"").unwrap();
    server.expects_log("the lease could not be renewed");
    let client = server.client();
    while read(&client, "1") != 503 {}
    assert_eq!(client.get("/readyz", &[]).status, 503);
    let refused = client.create_item("shop", "items", &json!(["a"]), &json!({ "id": "2", "pk": "a" }));
    assert_eq!(refused.status, 503);
    assert!(refused.header("retry-after").is_some());
    std::fs::remove_file(&there).unwrap();
    std::fs::rename(&away, &there).unwrap();
    while read(&client, "1") != 200 {}
}
