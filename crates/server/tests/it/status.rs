//! `shardlake status`, `shardlake keys`, and colours of tables.

use std::process::Output;

use serde_json::{Value, json};
use shardlake_testkit::{Client, EMULATOR_KEY};

use crate::support::{Started, command, in_memory, on_disk};

#[track_caller]
fn printed(output: Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_status_of_a_server_has_its_data_and_its_last_backup() {
    let server = on_disk().start();
    let endpoint = format!("http://{}", server.address());
    let _database = server.client().create_database("d").expect_status(201);
    let _container = server.client().create_container("d", "c", "/pk").expect_status(201);
    let status = || -> Value {
        let json = printed(command(&["status", "--json", "--endpoint", &endpoint]).output().unwrap());
        serde_json::from_str(&json).unwrap()
    };
    let first = status();
    assert_eq!(
        (&first["ready"], &first["readiness"], &first["attention"]),
        (&json!(true), &json!("ready"), &json!([]))
    );
    let about = &first["server"];
    assert_eq!((&about["version"], &about["lastBackup"]), (&json!(env!("CARGO_PKG_VERSION")), &Value::Null));
    assert_eq!(about["dataDir"].as_str(), server.data_dir().to_str());
    let place = tempfile::tempdir().unwrap();
    let to = place.path().to_str().unwrap();
    let _made =
        printed(command(&["backup", "create", "--to", to, "--endpoint", &endpoint]).output().unwrap());
    let name = status()["server"]["lastBackup"]["name"].as_str().expect("a backup").to_owned();
    let listed = printed(command(&["backup", "list", "--from", to]).output().unwrap());
    assert!(listed.contains(&name), "{name} in {listed}");
    let table = printed(command(&["status", "--endpoint", &endpoint]).output().unwrap());
    for words in
        ["health", "ready", "1 database, 1 container, 1 partition, 0 items", &name, "no partition needs any"]
    {
        assert!(table.contains(words), "{words} in {table}");
    }
}

#[test]
fn a_server_that_is_not_there_fails_the_status() {
    let output = command(&["status", "--endpoint", "http://127.0.0.1:1"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(String::from_utf8(output.stderr).unwrap().contains("no connection"));
}

#[test]
fn tables_have_colours_when_they_are_asked_for() {
    let server = in_memory().start();
    let endpoint = format!("http://{}", server.address());
    let with = |color: &str| {
        printed(command(&["partitions", "--endpoint", &endpoint, "--color", color]).output().unwrap())
    };
    assert!(with("always").starts_with("\x1b[1mcontainer"), "{}", with("always"));
    assert_eq!(with("auto"), with("never"), "no terminal");
    assert!(with("never").starts_with("container"));
    let status = printed(command(&["status", "--endpoint", &endpoint, "--color=always"]).output().unwrap());
    assert!(status.contains("\x1b[32mready\x1b[0m"), "{status}");
}

/// Clients change to the secondary key, then to the new primary key; the file has the keys of the next start.
#[test]
fn keys_are_rotated_while_clients_go_on() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    let arguments = ["serve", "--listen=0.0.0.0:0", "--mongo-listen=127.0.0.1:0", "--data-dir", path];
    let server = Started::new(&mut command(&arguments));
    let file = server.record["key_file"].as_str().unwrap().to_owned();
    let keys = || -> Value { serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap() };
    let endpoint = format!("http://{}", server.address());
    let run = |arguments: &[&str]| {
        let mut command = command(arguments);
        printed(command.args(["--endpoint", &endpoint, "--key-file", &file]).output().unwrap())
    };
    let status = |key: &Value| Client::new(server.address(), key.as_str().unwrap()).get("/dbs", &[]).status;
    let before = keys();
    let shown = run(&["keys", "show"]);
    for name in ["primary", "secondary", "primaryReadonly", "secondaryReadonly"] {
        assert!(shown.contains(name) && !shown.contains(before[name].as_str().unwrap()), "{shown}");
    }
    let made = run(&["keys", "rotate"]);
    let middle = keys();
    assert!(made.starts_with(middle["secondary"].as_str().unwrap()), "{made}");
    assert_eq!(
        (&middle["primary"], &middle["primaryReadonly"]),
        (&before["primary"], &before["primaryReadonly"])
    );
    assert_eq!([&before["secondary"], &middle["secondary"], &before["primary"]].map(status), [401, 200, 200]);
    let _made = run(&["keys", "rotate", "primary", "--json"]);
    let after = keys();
    assert_eq!([&before["primary"], &after["primary"], &middle["secondary"]].map(status), [401, 200, 200]);
    drop(server);
    let again = Started::new(&mut command(&arguments));
    let client = Client::new(again.address(), after["primary"].as_str().unwrap());
    assert_eq!(client.get("/dbs", &[]).status, 200);
}

/// A rotation would write a removed key back, or leave a leaked one valid.
#[test]
fn a_rotation_is_refused_where_the_file_is_not_what_the_server_serves() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("own.json");
    let (first, second) = ("b25l", "dHdv");
    let write = |keys: Value| std::fs::write(&file, keys.to_string()).unwrap();
    let refusal = |keys: Value, after: Option<Value>| {
        write(keys.clone());
        let path = file.to_str().unwrap();
        let data = directory.path().join("data");
        let serve = [
            "serve",
            "--listen=127.0.0.1:0",
            "--durability=memory",
            "--key-file",
            path,
            "--data-dir",
            data.to_str().unwrap(),
        ];
        let server = Started::new(&mut command(&serve));
        if let Some(after) = after {
            write(after);
        }
        let endpoint = format!("http://{}", server.address());
        let key = keys["primary"].as_str().unwrap().to_owned();
        let output =
            command(&["keys", "rotate", "primary", "--endpoint", &endpoint, "--key", &key]).output().unwrap();
        assert!(!output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let changed =
        refusal(json!({ "primary": first, "secondary": second }), Some(json!({ "primary": first })));
    assert!(changed.contains("was changed since the server read it"), "{changed}");
    let twice = refusal(json!({ "primary": first, "secondary": first }), None);
    assert!(twice.contains("one key under two names"), "{twice}");
    let well_known = refusal(json!({ "primary": EMULATOR_KEY }), None);
    assert!(well_known.contains("holds the emulators' well-known key"), "{well_known}");
}

#[test]
fn the_well_known_key_is_not_rotated() {
    let server = in_memory().start();
    let endpoint = format!("http://{}", server.address());
    let output = command(&["keys", "rotate", "--endpoint", &endpoint]).output().unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("well-known key does not change"), "{message}");
    let _unchanged = server.client().get("/dbs", &[]).expect_status(200);
    let shown = printed(command(&["keys", "show", "--endpoint", &endpoint]).output().unwrap());
    assert!(shown.contains("no file holds them"), "{shown}");
}
