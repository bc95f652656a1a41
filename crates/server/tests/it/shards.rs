//! A data directory with several shards, started with as many, fewer and more.

use std::path::Path;

use serde_json::json;
use shardlake_testkit::{Client, ServerProcess};

use crate::support::{PATIENCE, command, in_memory, on_disk, refused};

const ITEMS: usize = 60;

fn fill(client: &Client) {
    let _database = client.create_database("spread").expect_status(201);
    let definition =
        json!({ "id": "items", "partitionKey": { "paths": ["/pk"], "kind": "Hash", "version": 2 } });
    let headers = [("x-ms-offer-throughput", "30000")];
    let _container = client.create_container_of("spread", &definition, &headers).expect_status(201);
    for number in 0..ITEMS {
        let item = json!({ "id": "1", "pk": number, "text": "x".repeat(100) });
        let _item = client.create_item("spread", "items", &json!([number]), &item).expect_status(201);
    }
}

#[track_caller]
fn assert_complete(client: &Client) {
    for number in 0..ITEMS {
        let item = client.read_item("spread", "items", &json!([number]), "1").expect_status(200).json();
        assert_eq!(item["pk"], number);
    }
}

fn metric(server: &ServerProcess, name: &str) -> u64 {
    let page = server.client().get("/metrics", &[]).expect_status(200).text();
    let line =
        page.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("{name} in {page}"));
    line.trim().parse().unwrap()
}

fn start_in(data_dir: &Path, arguments: &[&str]) -> ServerProcess {
    arguments
        .iter()
        .fold(on_disk().data_dir(data_dir), |options, argument| options.argument(argument))
        .start()
}

#[test]
fn shards_may_be_added_and_never_left_out() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let mut server = start_in(&data, &["--shards=2"]);
    fill(&server.client());
    assert!(data.join("shard").is_dir() && data.join("shard-1").is_dir());
    assert_eq!(metric(&server, "shardlake_shards"), 2);
    assert!(metric(&server, "shardlake_disk_size_bytes") > 0);
    server.kill();

    let text = refused(command(&["serve", "--listen=127.0.0.1:0", "--shards=1", "--data-dir"]).arg(&data));
    assert!(text.contains("there are 2 shards") && text.contains("--shards 2 or more"), "{text}");

    let mut server = start_in(&data, &["--shards=4"]);
    assert_complete(&server.client());
    assert!(server.terminate(PATIENCE).success());
    let verified = server.verify();
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stdout));
    assert!(String::from_utf8_lossy(&verified.stdout).contains("5 partitions"));

    // Without the setting, all existing shards are used.
    let mut server = start_in(&data, &[]);
    assert_eq!(metric(&server, "shardlake_shards"), 4);
    assert_complete(&server.client());
    assert!(server.terminate(PATIENCE).success());

    std::fs::rename(data.join("shard-1"), directory.path().join("elsewhere")).unwrap();
    let text = refused(command(&["serve", "--listen=127.0.0.1:0", "--data-dir"]).arg(&data));
    assert!(text.contains("shard-1' is missing"), "{text}");
    let text = refused(command(&["verify"]).arg(&data));
    assert!(text.contains("shard-1' is missing"), "{text}");
}

#[test]
fn shards_in_memory_hold_what_one_would() {
    let server = in_memory().argument("--shards=3").start();
    fill(&server.client());
    assert_complete(&server.client());
    assert_eq!(metric(&server, "shardlake_shards"), 3);
}
