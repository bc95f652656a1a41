//! Tables of columns in an object store, or in a place that outlives the account: through kills, take-overs and restores.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};
use shardlake_testkit::bucket::{Bucket, Fault, Weather};
use shardlake_testkit::{ServerOptions, ServerProcess};

use crate::backup_support;
use crate::support::{PATIENCE, command, on_disk};

const TABLE: &str = "shop/customer";
const FOLDER: &str = "account/analytics/shop/customer/";

/// A server on another machine: only the bucket is shared.
fn node(bucket: &Bucket, data: &Path, arguments: &[&str]) -> ServerOptions {
    let mut options = on_disk()
        .data_dir(data)
        .argument("--store=s3://bucket/account")
        .argument("--lease=9")
        .may_log("the lease could not be renewed")
        .may_log("an analytical table waits");
    options.environment.extend(environment(bucket));
    arguments.iter().fold(options, |options, argument| options.argument(argument))
}

/// A server of an account on a disk, with its tables in the bucket.
fn with_tables_in(bucket: &Bucket, data: &Path) -> ServerOptions {
    let mut options = on_disk()
        .data_dir(data)
        .argument("--analytics-root=s3://bucket/tables")
        .may_log("an analytical table waits");
    options.environment.extend(environment(bucket));
    options
}

fn environment(bucket: &Bucket) -> Vec<(std::ffi::OsString, std::ffi::OsString)> {
    bucket.environment().into_iter().map(|(name, value)| (name.into(), value.into())).collect()
}

fn run(mut command: Command, server: &ServerProcess) -> Output {
    let endpoint = format!("http://{}", server.client().address());
    command.args(["--endpoint", &endpoint]).output().unwrap()
}

#[track_caller]
fn printed(server: &ServerProcess, arguments: &[&str]) -> String {
    let output = run(command(arguments), server);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn define(server: &ServerProcess) {
    let client = server.client();
    let _created = client.create_database("shop").expect_status(201);
    let key = json!({ "paths": ["/id"], "kind": "Hash", "version": 2 });
    let definition = json!({ "id": "customer", "partitionKey": key, "analyticalStorageTtl": -1 });
    let _created = client.create_container_of("shop", &definition, &[]).expect_status(201);
}

/// Twenty items, of which some replace others, and a deletion.
fn write(server: &ServerProcess, turn: u64) {
    let client = server.client();
    for number in 0..20 {
        let id = format!("c{}", (turn * 7 + number) % 60);
        let item = json!({ "id": id, "turn": turn, "list": [number, "two", null] });
        let reply = client.upsert_item("shop", "customer", &json!([id]), &item);
        assert!(matches!(reply.status, 200 | 201), "{reply:?}");
    }
    let id = format!("c{}", (turn * 7) % 60);
    assert_eq!(client.delete_item("shop", "customer", &json!([id]), &id).status, 204);
}

#[track_caller]
fn verify(server: &ServerProcess) {
    let outcome = printed(server, &["analytics", "verify", TABLE, "--quiet"]);
    assert!(outcome.contains("no difference"), "{outcome}");
}

fn report(server: &ServerProcess) -> Value {
    serde_json::from_str(&printed(server, &["analytics", "status", TABLE, "--json"])).unwrap()
}

#[test]
fn a_table_in_a_store_goes_on_after_kills_and_on_other_servers() {
    let bucket = Bucket::open();
    let directory = tempfile::tempdir().unwrap();
    let data = |name: &str| directory.path().join(name);
    let mut server = node(&bucket, &data("one"), &[]).start();
    define(&server);
    for turn in 0..4 {
        write(&server, turn);
        if turn % 2 == 0 {
            // The order waits for a round, which otherwise begins a minute after the last one.
            verify(&server);
        }
        server.kill();
        server.restart();
    }
    verify(&server);
    let location = "s3://bucket/account/analytics/shop/customer";
    let before = report(&server);
    assert_eq!((&before["location"], &before["figures"]["generation"]), (&json!(location), &json!(1)));
    #[cfg(feature = "analytics-sql")]
    {
        let query = json!({ "query": "SELECT count(*) FROM customer", "database": "shop" });
        let refused =
            server.client().post_json("/_shardlake/v1/analytics/sql", &[], &query).expect_status(501);
        assert!(refused.text().contains(location), "{}", refused.text());
    }
    let commits = || {
        let log = bucket.objects(&format!("{FOLDER}_delta_log/"));
        log.into_iter().filter(|(name, _)| name.ends_with(".json")).count()
    };
    assert!(commits() > 3, "{:?}", bucket.objects(FOLDER));
    assert!(!data("one").join("analytics").exists(), "tables lie in the store alone");
    assert!(data("one").join("analytics-local").exists(), "key files are local");

    // Another server takes the account while the first one writes its table.
    write(&server, 4);
    server.expects_log("this server ends");
    server.expects_log("a shard refuses writes from now on");
    server.expects_log("an analytical table");
    let second = node(&bucket, &data("two"), &["--take-over"]).start();
    assert_eq!(server.wait(PATIENCE).code(), Some(3), "{}", server.log());
    write(&second, 5);
    verify(&second);
    let after = report(&second);
    assert_eq!(after["figures"]["generation"], 1, "the table goes on: {after}");
    assert!(after["figures"]["version"].as_u64() > before["figures"]["version"].as_u64());

    // Documents come back from the store alone.
    let copy = data("copy");
    let to = copy.to_str().unwrap();
    let root = "s3://bucket/account/analytics";
    let arguments = ["analytics", "export", TABLE, "--root", root, "--to", to, "--format", "jsonl"];
    let copied = command(&arguments).envs(environment(&bucket)).output().unwrap();
    assert!(copied.status.success(), "{copied:?}");
    let files = std::fs::read_dir(&copy).unwrap();
    let lines = files.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap().lines().count());
    assert_eq!(lines.sum::<usize>() as u64, after["figures"]["rows"].as_u64().unwrap());

    let _deleted = second.client().delete("/dbs/shop/colls/customer", &[]).expect_status(204);
    let is_gone = || bucket.objects("account/analytics/shop/").is_empty();
    shardlake_testkit::eventually("the table is deleted with its container", is_gone);
}

#[test]
fn a_failing_store_costs_a_table_nothing() {
    let bucket = Bucket::open();
    let directory = tempfile::tempdir().unwrap();
    let mut server = with_tables_in(&bucket, &directory.path().join("data")).start();
    define(&server);
    write(&server, 0);
    verify(&server);
    let faults =
        vec![Fault::Status(503), Fault::Reset, Fault::AnswerLost, Fault::Status(500), Fault::ClaimsFailure];
    bucket.set(Weather { one_in: 7, faults, ..Weather::default() });
    for turn in 1..6 {
        write(&server, turn);
        verify(&server);
    }
    bucket.set(Weather::default());
    let (_, befallen) = bucket.counts();
    assert!(befallen > 5, "{befallen} faults");
    server.kill();
    server.restart();
    write(&server, 6);
    verify(&server);
    assert_eq!(report(&server)["figures"]["generation"], 1);
}

#[test]
fn tables_of_an_account_on_a_disk_may_lie_in_a_store() {
    let bucket = Bucket::open();
    let directory = tempfile::tempdir().unwrap();
    let mut server = with_tables_in(&bucket, &directory.path().join("data")).start();
    define(&server);
    write(&server, 0);
    verify(&server);
    server.kill();
    server.restart();
    write(&server, 1);
    verify(&server);
    assert_eq!(report(&server)["location"], "s3://bucket/tables/shop/customer");
    assert!(!bucket.objects("tables/shop/customer/g1/").is_empty());
    assert!(bucket.objects("tables/probe/").is_empty(), "the store was tested, and nothing is left");
    let mut refused = command(&["serve", "--listen=127.0.0.1:0", "--analytics-root=s3://bucket/tables"]);
    refused.arg("--data-dir").arg(directory.path().join("other")).envs(environment(&bucket));
    let refused = refused.output().unwrap();
    let text = String::from_utf8_lossy(&refused.stderr);
    assert!(text.contains("has the tables of another account"), "{text}");
    let metrics = server.client().get("/metrics", &[]).text();
    assert!(metrics.contains("shardlake_store_requests_total{operation=\"Put\"}"), "{metrics}");
}

#[test]
fn a_backup_restored_below_a_later_table_makes_it_anew() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let tables = format!("--analytics-root={}", path("tables").display());
    let options = |data: &Path| on_disk().data_dir(data).argument(&tables);
    let mut server = options(&path("data")).start();
    define(&server);
    write(&server, 0);
    verify(&server);
    let backup = backup_support::create(&server, &path("backups"));
    write(&server, 1);
    verify(&server);
    assert!(server.terminate(PATIENCE).success());
    let restored = path("restored");
    backup_support::restore(&path("backups"), backup_support::id_of(&backup), &restored);
    // The local files are there, as where a disk was brought back and not the directory alone.
    copy_all(&path("data").join("analytics-local"), &restored.join("analytics-local"));
    assert!(restored.join("RESTORED").exists());
    let server = options(&restored).start();
    server.expects_log("an analytical table is made anew");
    // As many commits as the table has seen, so that the position in the log raises no suspicion.
    write(&server, 2);
    write(&server, 3);
    verify(&server);
    let report = report(&server);
    assert_eq!(report["figures"]["generation"], 2, "{report}");
    assert!(server.log().contains("restored from a backup"), "{}", server.log());
    assert!(!restored.join("RESTORED").exists(), "it is noted once");
}

fn copy_all(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_all(&entry.path(), &target);
        } else {
            let _bytes = std::fs::copy(entry.path(), target).unwrap();
        }
    }
}
