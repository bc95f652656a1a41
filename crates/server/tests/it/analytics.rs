//! Tables of columns beside a server that is killed, by the operator's commands.

use std::process::Output;

use serde_json::{Value, json};
use shardlake_testkit::ServerProcess;

use crate::support::{command, on_disk};

const TABLE: &str = "shop/customer";
const KILLS: u64 = 20;

fn run(server: &ServerProcess, arguments: &[&str]) -> Output {
    let endpoint = format!("http://{}", server.client().address());
    command(arguments).args(["--endpoint", &endpoint]).output().unwrap()
}

#[track_caller]
fn printed(server: &ServerProcess, arguments: &[&str]) -> String {
    let output = run(server, arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn server_with_table() -> ServerProcess {
    let server = on_disk().start();
    let client = server.client();
    let _created = client.create_database("shop").expect_status(201);
    let key = json!({ "paths": ["/id"], "kind": "Hash", "version": 2 });
    let definition = json!({ "id": "customer", "partitionKey": key, "analyticalStorageTtl": -1 });
    let created = client.create_container_of("shop", &definition, &[]).expect_status(201).json();
    assert_eq!(created["analyticalStorageTtl"], -1);
    server
}

fn upsert(server: &ServerProcess, number: u64, turn: u64) {
    let id = format!("c{number}");
    let item =
        json!({ "id": id, "turn": turn, "name": format!("n{number}"), "o": { "list": [1, "two", null] } });
    let reply = server.client().upsert_item("shop", "customer", &json!([id]), &item);
    assert!(matches!(reply.status, 200 | 201), "{reply:?}");
}

#[test]
fn a_table_is_right_after_each_kill() {
    let mut server = server_with_table();
    for turn in 0..KILLS {
        for number in 0..20 {
            upsert(&server, (turn * 7 + number) % 60, turn);
        }
        if turn % 4 == 3 {
            // Whatever the follower was at, an order waits for the end of it.
            printed(&server, &["analytics", "compact", TABLE, "--quiet"]);
        }
        let id = format!("c{}", turn % 60);
        let _deleted = server.client().delete_item("shop", "customer", &json!([id]), &id);
        server.kill();
        server.restart();
    }
    let outcome = printed(&server, &["analytics", "verify", TABLE, "--quiet"]);
    assert!(outcome.contains("no difference"), "{outcome}");
    let report: Value =
        serde_json::from_str(&printed(&server, &["analytics", "status", TABLE, "--json"])).unwrap();
    assert_eq!(report["state"], "following");
    let all = printed(&server, &["analytics", "status"]);
    assert!(all.contains(TABLE) && all.contains("following"), "{all}");
    // Documents come back from the table's files alone.
    let location = report["location"].as_str().unwrap();
    let root = location.strip_suffix("/shop/customer").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("copy");
    let to = copy.to_str().unwrap();
    let arguments = ["analytics", "export", TABLE, "--root", root, "--to", to, "--format", "jsonl"];
    let copied = command(&arguments).output().unwrap();
    assert!(copied.status.success(), "{copied:?}");
    let lines: usize = std::fs::read_dir(&copy)
        .unwrap()
        .map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap().lines().count())
        .sum();
    assert_eq!(lines as u64, report["figures"]["rows"].as_u64().unwrap());
    let again = command(&arguments).output().unwrap();
    assert!(String::from_utf8_lossy(&again.stderr).contains("is not empty"), "{again:?}");
}

#[test]
fn orders_that_cannot_be_carried_out_name_the_reason() {
    let server = server_with_table();
    upsert(&server, 1, 1);
    printed(&server, &["analytics", "pause", TABLE]);
    let refused = run(&server, &["analytics", "verify", TABLE, "--quiet"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("paused"), "{refused:?}");
    printed(&server, &["analytics", "resume", TABLE]);
    printed(&server, &["analytics", "verify", TABLE, "--quiet"]);
    printed(&server, &["analytics", "rebuild", TABLE, "--quiet"]);
    let missing = run(&server, &["analytics", "status", "shop/none"]);
    assert_eq!(missing.status.code(), Some(1), "{missing:?}");
    let _created = server.client().create_container("shop", "plain", "/pk").expect_status(201);
    let without = run(&server, &["analytics", "verify", "shop/plain", "--quiet"]);
    assert!(String::from_utf8_lossy(&without.stderr).contains("analyticalStorageTtl"), "{without:?}");
    let metrics = server.client().get("/metrics", &[]).text();
    assert!(metrics.contains("shardlake_analytics_state"), "{metrics}");
}
