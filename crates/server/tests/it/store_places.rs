//! Accounts in a store with their log in another one, and with a cache of the store on a local disk.

use std::fs;
use std::path::Path;

use shardlake_testkit::bucket::{Bucket, Fault, Weather};
use shardlake_testkit::{Client, ServerProcess};

use crate::backup_support::{
    complaint, create_at, endpoint, everything, everything_in, files_below, fill, id_of, make_container,
    printed, text_of, verify,
};
use crate::backups::make_everything;
use crate::store_faults::write;
use crate::stores::Account;
use crate::support::{PATIENCE, assert_healthy, command, on_disk, refused};

fn url_of(path: &Path) -> String {
    format!("file://{}", path.display())
}

fn log_of(account: &Account) -> String {
    format!("--wal-store={}", url_of(&account.path("log")))
}

/// Why a start with these arguments is refused.
fn refusal(account: &Account, node: &str, arguments: &[&str]) -> String {
    refused(
        command(&["serve", "--listen=127.0.0.1:0", "--log-level=error", "--store", &account.url()])
            .arg("--data-dir")
            .arg(account.path(node))
            .args(arguments),
    )
}

fn objects_of_logs(directory: &Path) -> usize {
    files_below(directory).iter().filter(|file| file.to_string_lossy().contains("/wal/")).count()
}

fn parts(server: &ServerProcess, outcome: &str) -> u64 {
    let page = server.client().get("/metrics", &[]).expect_status(200).text();
    let name = format!("shardlake_store_disk_cache_parts_total{{outcome=\"{outcome}\"}} ");
    page.lines().find_map(|line| line.strip_prefix(&name)).map_or(0, |count| count.parse().unwrap())
}

#[test]
fn a_log_in_a_store_of_its_own_is_found_by_whoever_needs_it() {
    let account = Account::new();
    let log = log_of(&account);
    let mut server = account.node("one", &["--shards=2", &log]).start();
    make_everything(&server.client());
    let original = everything(&server.client());
    assert_eq!(objects_of_logs(&account.path("account")), 0);
    assert!(objects_of_logs(&account.path("log")) > 0);
    // A backup of the running server, and one of its store after it was killed: the second has the log.
    let backups = account.path("backups");
    let online = create_at(&endpoint(&server), &backups);
    fill(&server.client(), "c", 2000..2030, 3000);
    let later = everything(&server.client());
    server.kill();
    verify(&[&account.url()]);
    let stopped =
        printed(&["backup", "create", "--json", "--store", &account.url(), "--to", text_of(&backups)], 0);
    let stopped: serde_json::Value = serde_json::from_str(&stopped).unwrap();
    for (backup, name, expected) in [(&online, "first", &original), (&stopped, "second", &later)] {
        let url = url_of(&account.path(name));
        let log_url = url_of(&account.path(&format!("{name}-log")));
        let (from, id) = (text_of(&backups), id_of(backup));
        let restore =
            ["backup", "restore", "--from", from, "--id", id, "--store", &url, "--wal-store", &log_url];
        let _said = printed(&restore, 0);
        let options = on_disk().data_dir(account.path(&format!("{name}-node")));
        let options = options.argument(format!("--store={url}")).argument(format!("--wal-store={log_url}"));
        let restored = options.argument("--lease=3").may_log("the lease could not be renewed").start();
        assert_eq!(&everything(&restored.client()), expected);
        assert_eq!(objects_of_logs(&account.path(name)), 0);
    }
    server.restart();
    assert_eq!(everything(&server.client()), later);
    assert_healthy(&server);
    assert!(server.terminate(PATIENCE).success());

    // Away from there, and back with a log elsewhere again.
    let local = account.path("local");
    let _moved = printed(&["migrate", "--from", &account.url(), "--to", text_of(&local)], 0);
    assert_eq!(everything_in(&local), later);
    let (url, log_url) = (url_of(&account.path("back")), url_of(&account.path("back-log")));
    let back = ["migrate", "--from", text_of(&local), "--to", &url, "--wal-store", &log_url];
    let said = printed(&back, 0);
    assert!(said.contains(&format!("--wal-store {log_url}")), "{said}");
    verify(&[&url]);
    assert_eq!(objects_of_logs(&account.path("back")), 0);
}

#[test]
fn a_start_without_the_log_of_the_account_is_refused_by_name() {
    let account = Account::new();
    let log = log_of(&account);
    let log_url = url_of(&account.path("log"));
    let mut server = account.node("one", &[&log]).start();
    let _database = server.client().create_database("db").expect_status(201);
    server.kill();

    let text = refusal(&account, "one", &[]);
    assert!(text.contains(&format!("start with --wal-store {log_url}")), "{text}");
    let text = refusal(&account, "one", &[&format!("--wal-store={}", url_of(&account.path("other")))]);
    assert!(text.contains(&log_url) && text.contains("and not in"), "{text}");
    let text = refusal(&account, "one", &[&format!("--wal-store={}/log", account.url())]);
    assert!(text.contains("one lies in the other"), "{text}");
    // The log is another account's.
    let other = url_of(&account.path("second"));
    let text = refused(
        command(&["serve", "--listen=127.0.0.1:0", "--store", &other, &log, "--data-dir"])
            .arg(account.path("two")),
    );
    assert!(text.contains("holds the log of the account in") && text.contains(&account.url()), "{text}");
    // The log is missing, and with it the latest acknowledged writes.
    fs::rename(account.path("log"), account.path("away")).unwrap();
    let text = refusal(&account, "one", &[&log]);
    assert!(text.contains("is missing in") && text.contains(&log_url), "{text}");
    let text = complaint(&["verify", &account.url()]);
    assert!(text.contains("is missing in"), "{text}");
    fs::remove_dir_all(account.path("log")).unwrap();
    fs::rename(account.path("away"), account.path("log")).unwrap();
    server.restart();
    let _found = server.client().get("/dbs/db", &[]).expect_status(200);
    assert!(server.terminate(PATIENCE).success());

    // An account whose log lies with its data keeps the log there.
    let plain = Account::new();
    let mut server = plain.node("one", &[]).start();
    assert!(server.terminate(PATIENCE).success());
    let text = refusal(&plain, "one", &[&log_of(&plain)]);
    assert!(text.contains("leave out --wal-store"), "{text}");
}

/// Either store is fast and in order, and the other one fails and loses answers.
#[test]
fn faults_of_either_store_cost_time_and_no_write() {
    for is_log in [true, false] {
        let bucket = Bucket::open();
        let directory = Account::new();
        let (bad, good) = ("s3://bucket/account", directory.url());
        let (store, log) = if is_log { (good.as_str(), bad) } else { (bad, good.as_str()) };
        let mut options = on_disk()
            .argument(format!("--store={store}"))
            .argument(format!("--wal-store={log}"))
            .argument("--write-buffer-size=1MiB")
            .may_log("the lease could not be renewed")
            .may_log("the object store does not answer");
        let environment = bucket.environment().into_iter();
        options.environment.extend(environment.map(|(name, value)| (name.into(), value.into())));
        let mut server = options.start();
        let client = server.client();
        let _database = client.create_database("db").expect_status(201);
        let _container = client.create_container("db", "c", "/pk").expect_status(201);
        let faults = vec![Fault::Status(503), Fault::AnswerLost, Fault::Reset, Fault::ClaimsFailure];
        bucket.set(Weather { one_in: 8, faults, ..Weather::default() });
        let told = write(&server, 0..20);
        bucket.set(Weather::default());
        assert!(told.iter().all(|(_, status)| *status == 201), "{is_log}: {told:?}");
        if is_log {
            assert!(bucket.counts().1 > 0);
        }
        server.kill();
        server.restart();
        let found = server.client().get("/dbs/db/colls/c/docs", &[("x-ms-max-item-count", "-1")]);
        assert_eq!(found.expect_status(200).json()["_count"], told.len());
        assert_healthy(&server);
        assert!(server.terminate(PATIENCE).success());
    }
}

fn fill_a_container(client: &Client) {
    let _database = client.create_database("db").expect_status(201);
    make_container(client, "c");
    fill(client, "c", 0..300, 6000);
}

#[test]
fn a_disk_cache_is_used_by_the_next_start_and_may_be_lost_or_damaged() {
    let account = Account::new();
    let cache = format!("--disk-cache={}", account.path("cache").display());
    // The memory cache is too small for blocks.
    let arguments = ["--write-buffer-size=1MiB", "--cache-size=256KiB", &cache];
    let mut server = account.node("one", &arguments).start();
    fill_a_container(&server.client());
    let original = everything(&server.client());
    assert!(server.terminate(PATIENCE).success());
    server.restart();
    assert_eq!(everything(&server.client()), original);
    shardlake_testkit::eventually("parts are kept", || !files_below(&account.path("cache/parts")).is_empty());
    let text = refusal(&account, "two", &["--take-over", &cache]);
    assert!(text.contains("another server uses the disk cache"), "{text}");
    assert!(server.terminate(PATIENCE).success());
    server.restart();
    assert_eq!(everything(&server.client()), original);
    shardlake_testkit::eventually("parts are found", || parts(&server, "Hit") > 0);
    assert!(server.terminate(PATIENCE).success());

    for file in files_below(&account.path("cache/parts")) {
        let mut content = fs::read(&file).unwrap();
        let middle = content.len() / 2;
        content[middle] ^= 1;
        fs::write(&file, content).unwrap();
    }
    server.restart();
    assert_eq!(everything(&server.client()), original);
    shardlake_testkit::eventually("damage is counted", || parts(&server, "Damaged") > 0);
    assert!(server.terminate(PATIENCE).success());
    fs::remove_dir_all(account.path("cache")).unwrap();
    server.restart();
    assert_eq!(everything(&server.client()), original);
    assert_healthy(&server);
    assert!(server.terminate(PATIENCE).success());

    fs::remove_dir_all(account.path("cache")).unwrap();
    fs::write(account.path("cache"), b"").unwrap();
    let text = refusal(&account, "one", &[&cache]);
    assert!(text.contains("the disk cache") && text.contains("cannot be used"), "{text}");
}
