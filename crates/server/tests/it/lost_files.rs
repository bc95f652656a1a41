//! A data directory with missing files: it is refused in one line, by servers and by `verify`, and is whole again once
//! the files are back. Nothing that had data starts empty.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde_json::{Value, json};
use shardlake_testkit::{Client, ServerProcess};

use crate::support::{PATIENCE, command, on_disk, refused};

const ITEMS: usize = 20;

fn serve(data: &Path) -> Result<ServerProcess, String> {
    on_disk().data_dir(data).argument("--log-level=error").try_start()
}

fn refused_server(data: &Path) -> String {
    refused(command(&["serve", "--listen=127.0.0.1:0", "--log-level=error", "--data-dir"]).arg(data))
}

fn refused_verify(data: &Path) -> String {
    refused(command(&["verify"]).arg(data))
}

fn fill(client: &Client, from: usize) {
    for number in from..from + ITEMS {
        let item = json!({ "id": number.to_string(), "pk": "a", "text": "x".repeat(500) });
        let _item = client.create_item("db", "c", &json!(["a"]), &item).expect_status(201);
    }
}

/// Items in sorted files and in the journal.
fn make(data: &Path, arguments: &[&str]) {
    let options = on_disk().data_dir(data);
    let mut server = arguments.iter().fold(options, |options, argument| options.argument(argument)).start();
    let client = server.client();
    let _database = client.create_database("db").expect_status(201);
    let _container = client.create_container("db", "c", "/pk").expect_status(201);
    fill(&client, 0);
    assert!(server.terminate(PATIENCE).success());
    server.restart();
    fill(&server.client(), ITEMS);
    assert!(server.terminate(PATIENCE).success());
}

#[track_caller]
fn assert_whole(data: &Path) {
    let mut server = serve(data).unwrap();
    for number in 0..2 * ITEMS {
        let key = json!(["a"]);
        let _item = server.client().read_item("db", "c", &key, &number.to_string()).expect_status(200);
    }
    assert!(server.terminate(PATIENCE).success());
}

fn verified(data: &Path) -> Value {
    let output = command(&["verify", "--json"]).arg(data).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn files_below(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            found.extend(files_below(&entry.path()));
        } else {
            found.push(entry.path());
        }
    }
    found.sort();
    found
}

fn copy(from: &Path, to: &Path) {
    for file in files_below(from) {
        let target = to.join(file.strip_prefix(from).unwrap());
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::copy(file, target).unwrap();
    }
}

fn image(directory: &Path) -> Vec<(PathBuf, Vec<u8>, SystemTime)> {
    let seen = |file: PathBuf| {
        let modified = fs::metadata(&file).unwrap().modified().unwrap();
        (file.clone(), fs::read(file).unwrap(), modified)
    };
    files_below(directory).into_iter().map(seen).collect()
}

/// In memory where there is such a place: many copies are made, and no power is cut.
fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

#[test]
fn every_lost_or_zeroed_file_is_refused_or_harmless_and_comes_back() {
    let directory = directory();
    let (good, bad) = (directory.path().join("good"), directory.path().join("bad"));
    make(&good, &[]);
    let expected = verified(&good)["partitions"].clone();
    let mut served = 0;
    let files = files_below(&good);
    for file in files.iter().filter(|file| !file.starts_with(good.join("tls"))) {
        for is_zeroed in [false, true] {
            let _ = fs::remove_dir_all(&bad);
            copy(&good, &bad);
            let lost = bad.join(file.strip_prefix(&good).unwrap());
            if is_zeroed {
                fs::write(&lost, vec![0; fs::read(&lost).unwrap().len()]).unwrap();
            } else {
                fs::remove_file(&lost).unwrap();
            }
            let before = image(&bad);
            let output = command(&["verify", "--json"]).arg(&bad).output().unwrap();
            assert!(image(&bad) == before, "{lost:?}: verify changed something");
            let message = String::from_utf8_lossy(&output.stderr);
            if output.status.success() {
                let report: Value = serde_json::from_slice(&output.stdout).unwrap();
                assert_eq!(report["partitions"], expected, "{lost:?}");
                assert_whole(&bad);
                served += 1;
            } else {
                assert_eq!(output.status.code(), Some(1), "{lost:?}: {message}");
                assert_eq!(message.lines().count(), 1, "{lost:?}: {message}");
                let _line = refused_server(&bad);
                fs::copy(file, &lost).unwrap();
                assert_whole(&bad);
            }
        }
    }
    assert!(served > 0 && served < files.len(), "{served} of {} faults were harmless", files.len());
}

#[test]
fn a_volume_that_is_not_mounted_is_refused_and_nothing_is_written_in_its_place() {
    let directory = directory();
    let data = directory.path().join("data");
    make(&data, &["--shards=2"]);
    for name in ["shard", "shard-1"] {
        let (shard, elsewhere) = (data.join(name), directory.path().join("elsewhere"));
        fs::rename(&shard, &elsewhere).unwrap();
        fs::create_dir(&shard).unwrap();
        for text in [refused_server(&data), refused_verify(&data)] {
            assert!(text.contains(&format!("there is no shard in '{}'", shard.display())), "{text}");
            assert!(text.contains("mount its volume"), "{text}");
        }
        assert_eq!(fs::read_dir(&shard).unwrap().count(), 0, "nothing was written");
        fs::remove_dir(&shard).unwrap();
        for text in [refused_server(&data), refused_verify(&data)] {
            assert!(text.contains(&format!("'{}' is missing", shard.display())), "{text}");
        }
        fs::rename(&elsewhere, &shard).unwrap();
        assert_whole(&data);
    }
}

#[test]
fn a_shard_of_another_account_is_refused() {
    let directory = directory();
    let (mine, other) = (directory.path().join("mine"), directory.path().join("other"));
    make(&mine, &[]);
    make(&other, &[]);
    fs::rename(mine.join("shard"), directory.path().join("elsewhere")).unwrap();
    fs::rename(other.join("shard"), mine.join("shard")).unwrap();
    for text in [refused_server(&mine), refused_verify(&mine)] {
        assert!(text.contains("shard 0 cannot be used: it belongs to another account"), "{text}");
    }
}

#[test]
fn a_copy_of_the_data_directory_is_as_good_as_the_original() {
    let directory = directory();
    let (original, copied) = (directory.path().join("original"), directory.path().join("copied"));
    make(&original, &["--shards=2"]);
    copy(&original, &copied);
    assert_eq!(verified(&original)["partitions"], verified(&copied)["partitions"]);
    assert_whole(&copied);
    assert_whole(&original);
}

/// The states that a first start leaves when it is killed between two of its steps.
#[test]
fn a_first_start_that_was_killed_begins_anew() {
    type Undo = fn(&Path);
    let undone: [(&str, Undo); 4] = [
        ("before it remembered the account", |_| ()),
        ("before the shard was complete", |shard| {
            fs::write(shard.join("FORMAT"), "shardlake shard 1, being created\n").unwrap();
        }),
        ("before there was a database", |shard| {
            fs::write(shard.join("FORMAT"), "shardlake shard 1, being created\n").unwrap();
            fs::remove_dir_all(shard.join("db")).unwrap();
            fs::remove_file(shard.join("JOURNALS")).unwrap();
        }),
        ("before it said anything", |shard| {
            fs::remove_dir_all(shard).unwrap();
            fs::create_dir(shard).unwrap();
        }),
    ];
    for (when, undo) in undone {
        let directory = directory();
        let data = directory.path().join("data");
        let mut server = on_disk().data_dir(&data).start();
        server.kill();
        fs::remove_file(data.join("account.json")).unwrap();
        undo(&data.join("shard"));
        let mut server = serve(&data).unwrap_or_else(|text| panic!("{when}: {text}"));
        assert!(data.join("account.json").is_file(), "{when}");
        let _database = server.client().create_database("db").expect_status(201);
        assert!(server.terminate(PATIENCE).success());
    }
}

#[test]
fn a_directory_of_a_version_without_marks_is_served_and_gets_them() {
    let directory = directory();
    let data = directory.path().join("data");
    make(&data, &[]);
    for name in ["account.json", "shard/JOURNALS"] {
        fs::remove_file(data.join(name)).unwrap();
    }
    assert_eq!(verified(&data)["problemCount"], 0);
    assert!(!data.join("account.json").exists(), "verify leaves no marks");
    assert_whole(&data);
    assert!(data.join("account.json").is_file() && data.join("shard/JOURNALS").is_file());
}

#[test]
fn verify_changes_nothing_and_tells_of_torn_writes() {
    let directory = directory();
    let (data, scratch) = (directory.path().join("data"), directory.path().join("scratch"));
    fs::create_dir(&scratch).unwrap();
    make(&data, &[]);
    let mut server = serve(&data).unwrap();
    fill(&server.client(), 2 * ITEMS);
    server.kill();
    let journal = data.join("shard/db/0.jnl");
    let mut content = fs::read(&journal).unwrap();
    let used = content.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    content.truncate(used);
    content.extend([1, 2, 3]);
    fs::write(&journal, content).unwrap();
    let read_only = |is_read_only: bool| {
        for path in
            files_below(&data).into_iter().chain([data.clone(), data.join("shard"), data.join("shard/db")])
        {
            let mut permissions = fs::metadata(&path).unwrap().permissions();
            permissions.set_readonly(is_read_only);
            fs::set_permissions(&path, permissions).unwrap();
        }
    };
    read_only(true);
    let before = image(&data);
    let output = command(&["verify", "--json", "--scratch"]).arg(&scratch).arg(&data).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["shards"][0]["tornWrite"]["sizeBytes"], 3, "{report}");
    assert_eq!(report["shards"][0]["tornWrite"]["at"], used);
    assert_eq!(report["partitions"][0]["items"], 3 * ITEMS);
    let output = command(&["verify", "--scratch"]).arg(&scratch).arg(&data).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("the next start cuts off 3 bytes") && text.contains("everything agrees"), "{text}");
    assert!(image(&data) == before, "verify changed something");
    assert_eq!(fs::read_dir(&scratch).unwrap().count(), 0, "nothing stays in the scratch directory");
    let missing = directory.path().join("none");
    let text = refused(command(&["verify", "--scratch"]).arg(&missing).arg(&data));
    assert!(text.contains("the scratch directory") && text.contains("cannot be made"), "{text}");
    #[allow(clippy::permissions_set_readonly_false)] // a directory of this test
    read_only(false);
    let mut server = serve(&data).unwrap();
    assert!(server.terminate(PATIENCE).success());
    assert_eq!(verified(&data)["shards"][0]["tornFiles"], 1);
}
