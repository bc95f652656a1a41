//! `shardlake support-bundle`: its files, its bounds, and the secrets that are not in it.

use std::collections::BTreeMap;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Output;

use flate2::read::GzDecoder;
use serde_json::{Value, json};
use shardlake_testkit::{Client, EMULATOR_KEY};

use crate::support::{Started, command, in_memory, on_disk, refused};

const SECRET: &str = "value of an item that nobody may see";

/// The files of a bundle by name, without the folder.
fn files(bundle: &Path) -> BTreeMap<String, String> {
    let mut archive = tar::Archive::new(GzDecoder::new(std::fs::File::open(bundle).unwrap()));
    let read = |entry: std::io::Result<tar::Entry<'_, GzDecoder<std::fs::File>>>| {
        let mut entry = entry.unwrap();
        assert_eq!(entry.header().mode().unwrap(), 0o600);
        let path = entry.path().unwrap().into_owned();
        let mut text = String::new();
        entry.read_to_string(&mut text).unwrap();
        (path.strip_prefix("shardlake-support").unwrap().to_str().unwrap().to_owned(), text)
    };
    archive.entries().unwrap().map(read).collect()
}

#[track_caller]
fn document(files: &BTreeMap<String, String>, name: &str) -> Value {
    serde_json::from_str(&files[name]).unwrap_or_else(|error| panic!("{name}: {error}: {}", files[name]))
}

#[track_caller]
fn printed(output: Output) -> String {
    assert!(output.status.success(), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Items whose ids, keys and values must stay on the server, and a request whose path is logged.
fn fill(client: &Client) {
    let _database = client.create_database("shop").expect_status(201);
    let _container = client.create_container("shop", "orders", "/tenant").expect_status(201);
    for number in 0..20 {
        let item = json!({ "id": format!("secret-{number}"), "tenant": "secret tenant", "text": SECRET });
        let _item = client.create_item("shop", "orders", &json!(["secret tenant"]), &item).expect_status(201);
    }
}

#[track_caller]
fn assert_no_secrets(files: &BTreeMap<String, String>, keys: &[&str]) {
    for (name, text) in files {
        for secret in [SECRET, "secret-", "secret tenant", "PRIVATE KEY"].iter().chain(keys) {
            assert!(!text.contains(*secret), "'{secret}' in {name}: {text}");
        }
    }
}

#[test]
fn a_running_server_gives_everything_but_keys_and_items() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("data");
    let arguments =
        ["serve", "--listen=0.0.0.0:0", "--slow-request-ms=1", "--data-dir", data.to_str().unwrap()];
    let server = Started::new(&mut command(&arguments));
    let key_file = server.record["key_file"].as_str().unwrap().to_owned();
    let keys: Value = serde_json::from_str(&std::fs::read_to_string(&key_file).unwrap()).unwrap();
    fill(&Client::new(server.address(), keys["primary"].as_str().unwrap()));
    let endpoint = format!("http://{}", server.address());
    let bundle = place.path().join("bundle.tar.gz");
    let of = |more: &[&str]| {
        let mut command = command(&["support-bundle", "--endpoint", &endpoint, "--key-file", &key_file]);
        command.args(more);
        command
    };
    let to = bundle.to_str().unwrap();
    let listed = printed(of(&["--to", to, "--list"]).output().unwrap());
    assert!(!bundle.exists(), "a list writes nothing");
    let written = printed(of(&["--to", to]).output().unwrap());
    assert_eq!(bundle.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let found = files(&bundle);
    let names = [
        "contents.json",
        "definitions.json",
        "formats.json",
        "log.jsonl",
        "metrics.txt",
        "partitions.json",
        "process.json",
        "settings.json",
        "status.json",
        "version.txt",
    ];
    assert_eq!(found.keys().map(String::as_str).collect::<Vec<_>>(), names);
    assert!(names.iter().all(|name| listed.contains(name) && written.contains(name)), "{listed}");
    let all: Vec<&str> = keys.as_object().unwrap().values().map(|key| key.as_str().unwrap()).collect();
    let stripped: Vec<&str> = all.iter().map(|key| key.trim_end_matches('=')).collect();
    let encoded: Vec<String> = all.iter().map(|key| key.replace('+', "%2B").replace('/', "%2F")).collect();
    let encoded: Vec<&str> = encoded.iter().map(|key| key.trim_end_matches('=')).collect();
    assert_no_secrets(&found, &[all, stripped, encoded].concat());
    // Facts that a report of a problem needs.
    assert_eq!(document(&found, "status.json")["server"]["counts"]["items"], 20);
    assert_eq!(document(&found, "settings.json")["slow-request-ms"]["source"], "flag");
    assert!(document(&found, "formats.json")["dataDir"]["shard"].as_str().unwrap().contains("shard"));
    assert!(document(&found, "process.json")["limits"].is_array());
    let definition = &document(&found, "definitions.json")["databases"][0]["containers"][0]["definition"];
    assert_eq!(
        (&definition["id"], &definition["partitionKey"]["paths"]),
        (&json!("orders"), &json!(["/tenant"]))
    );
    let partition = &document(&found, "partitions.json")["containers"][0]["partitions"][0];
    assert_eq!(partition["items"], 20);
    assert!(found["metrics.txt"].contains("shardlake_items 20"), "{}", found["metrics.txt"]);
    assert!(
        found["log.jsonl"].lines().any(|line| line.contains("CreateContainer")),
        "{}",
        found["log.jsonl"]
    );
    // A second bundle of the same name.
    let before = std::fs::read(&bundle).unwrap();
    let message = refused(&mut of(&["--to", to]));
    assert!(message.contains("no file is overwritten"), "{message}");
    assert_eq!(std::fs::read(&bundle).unwrap(), before);
}

#[test]
fn an_anonymous_bundle_has_no_names() {
    let server = in_memory().start();
    fill(&server.client());
    let endpoint = format!("http://{}", server.address());
    let place = tempfile::tempdir().unwrap();
    let bundle = place.path().join("bundle.tar.gz");
    let arguments =
        ["support-bundle", "--anonymous", "--endpoint", &endpoint, "--to", bundle.to_str().unwrap()];
    let _listed = printed(command(&arguments).output().unwrap());
    let found = files(&bundle);
    for (file, text) in &found {
        for name in ["shop", "orders", "tenant", EMULATOR_KEY] {
            assert!(!text.contains(name), "{name} in {file}: {text}");
        }
    }
    // One name has one pseudonym.
    let definition = &document(&found, "definitions.json")["databases"][0]["containers"][0]["definition"];
    let pseudonym = definition["id"].as_str().unwrap();
    assert_eq!(document(&found, "partitions.json")["containers"][0]["container"], pseudonym);
    assert!(found["metrics.txt"].contains(&format!("container=\"{pseudonym}\"")), "{}", found["metrics.txt"]);
    assert!(found["log.jsonl"].contains(pseudonym), "{}", found["log.jsonl"]);
}

#[test]
fn a_stopped_server_gives_what_its_data_directory_holds() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("data");
    let server = on_disk().data_dir(&data).argument("--shards=2").start();
    fill(&server.client());
    let text = data.to_str().unwrap();
    let log = server.log();
    let log_file = place.path().join("server.log");
    std::fs::write(
        &log_file,
        log + "2026-11-29T01:02:03Z  INFO x: slow request path=\"dbs/d/colls/c/docs/secret-1\"\n",
    )
    .unwrap();
    let bundle = place.path().join("running.tar.gz");
    let of = |bundle: &Path| {
        let mut command = command(&["support-bundle", "--data-dir", text, "--to", bundle.to_str().unwrap()]);
        command.args(["--log-file", log_file.to_str().unwrap()]);
        command
    };
    // The server still has its data.
    let _listed = printed(of(&bundle).output().unwrap());
    let missing = document(&files(&bundle), "contents.json")["missing"].to_string();
    assert!(missing.contains("definitions.json") && missing.contains("stop the other server"), "{missing}");
    drop(server);
    let bundle = place.path().join("stopped.tar.gz");
    let _listed = printed(of(&bundle).output().unwrap());
    let found = files(&bundle);
    assert_no_secrets(&found, &[EMULATOR_KEY]);
    assert_eq!(document(&found, "contents.json")["missing"], json!([]));
    assert_eq!(document(&found, "definitions.json")["databases"][0]["id"], "shop");
    assert_eq!(document(&found, "partitions.json")["partitions"][0]["items"], 20);
    assert_eq!(document(&found, "settings.json")["data-dir"]["value"], text);
    assert_eq!(document(&found, "formats.json")["dataDir"].as_object().unwrap().len(), 2);
    assert!(document(&found, "disk.json")["freeBytes"].as_u64().unwrap() > 0);
    assert!(found["log-file.jsonl"].lines().count() > 1, "{}", found["log-file.jsonl"]);
    let gone = refused(&mut command(&["support-bundle", "--data-dir", "/nowhere/at/all"]));
    assert!(gone.contains("'/nowhere/at/all' does not exist"), "{gone}");
    let silent = refused(&mut command(&["support-bundle", "--endpoint", "http://127.0.0.1:1"]));
    assert!(silent.contains("--data-dir DIR"), "{silent}");
}
