//! A system that allows few open files: storage keeps its part, connections get the rest, and a start that would leave too
//! little is refused.

use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::json;
use shardlake_testkit::{ServerOptions, eventually};

use crate::support::{assert_healthy, connect, metric, on_disk, program_without_variables, refused};

/// The program behind a hard limit of open files.
fn program_with_limit(directory: &Path, limit: u32) -> PathBuf {
    let path = directory.join("limited");
    let program = env!("CARGO_BIN_EXE_shardlake");
    fs::write(&path, format!("#!/bin/sh\nulimit -n {limit} && exec '{program}' \"$@\"\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn sorted_files(data_dir: &Path) -> usize {
    let mut count = 0;
    let mut left = vec![data_dir.to_owned()];
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                left.push(path);
            } else if path.parent().is_some_and(|parent| parent.ends_with("tables")) {
                count += 1;
            }
        }
    }
    count
}

#[test]
fn idle_connections_leave_storage_the_files_that_it_needs() {
    let directory = tempfile::tempdir().unwrap();
    let program = program_with_limit(directory.path(), 300);
    let options = ServerOptions { binary: program, ..on_disk() };
    let server = options.argument("--write-buffer-size=256KiB").start();
    let client = server.client();
    let _database = client.create_database("d").expect_status(201);
    let _container = client.create_container("d", "c", "/pk").expect_status(201);

    let _idle: Vec<TcpStream> = (0..400)
        .map(|_| {
            let mut stream = connect(server.address());
            stream.write_all(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
            stream
        })
        .collect();
    let open = |name: &str| metric(&client, name);
    eventually("connections take all that they can get", || {
        let all_slots = open("shardlake_connections") == open("shardlake_connections_max");
        all_slots || open("shardlake_connections") > 250
    });
    // Noise, so that it is not compressed to nothing.
    let random = shardlake_stdx::Random::seeded(7);
    let tables_before = sorted_files(server.data_dir());
    let mut written = 0;
    while sorted_files(server.data_dir()) < tables_before + 3 || written < 40 {
        let text: String = (0..50_000).map(|_| char::from(b'a' + random.below(26) as u8)).collect();
        let item = json!({ "id": written.to_string(), "pk": "a", "text": text });
        let _created = client.create_item("d", "c", &json!(["a"]), &item).expect_status(201);
        written += 1;
        assert!(written < 2_000, "tables are made");
    }
    assert!(open("shardlake_connections_refused_total") > 0, "those beyond the slots are told");
    assert!(server.log().contains("fewer connections than --max-connections"), "{}", server.log());
    drop(_idle);
    eventually("the server has seen that they are gone", || open("shardlake_connections") <= 2);
    assert_healthy(&server);
}

#[test]
fn a_start_with_too_few_files_is_refused_with_advice() {
    let directory = tempfile::tempdir().unwrap();
    let program = program_with_limit(directory.path(), 64);
    let data_dir = directory.path().join("data");
    let mut command = program_without_variables(program, &["serve", "--listen=127.0.0.1:0", "--data-dir"]);
    let message = refused(command.arg(&data_dir));
    assert!(message.contains("64 open files") && message.contains("ulimit -n"), "{message}");
    assert!(!data_dir.join("shard").exists(), "nothing is made");
}
