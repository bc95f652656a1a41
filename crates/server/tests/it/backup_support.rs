//! Helpers of the backup tests: running the command, copies of data to compare, and a network that stops at a given time.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

use serde_json::{Value, json};
use shardlake_testkit::{Client, ServerOptions, ServerProcess};

use crate::support::{PATIENCE, command, on_disk};

/// In memory where there is such a place: many copies are made, and no power is cut.
pub fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// A server that sorts early, so that small tests have several tables.
pub fn options(data: &Path, shards: u16) -> ServerOptions {
    on_disk().data_dir(data).argument(format!("--shards={shards}")).argument("--write-buffer-size=1MiB")
}

pub fn endpoint(server: &ServerProcess) -> String {
    format!("http://{}", server.address())
}

/// Output of a command, with the exit code that it must have.
#[track_caller]
pub fn printed(arguments: &[&str], code: i32) -> String {
    let Output { status, stdout, stderr } = command(arguments).output().unwrap();
    let error = String::from_utf8(stderr).unwrap();
    let text = String::from_utf8(stdout).unwrap();
    assert_eq!(status.code(), Some(code), "{arguments:?}: {error}{text}");
    assert!(error.is_empty(), "{arguments:?}: {error}");
    text
}

/// The one line of a command that fails.
#[track_caller]
pub fn complaint(arguments: &[&str]) -> String {
    crate::support::refused(&mut command(arguments))
}

#[track_caller]
pub fn create(server: &ServerProcess, place: &Path) -> Value {
    create_at(&endpoint(server), place)
}

#[track_caller]
pub fn create_at(endpoint: &str, place: &Path) -> Value {
    let text = printed(&["backup", "create", "--json", "--endpoint", endpoint, "--to", text_of(place)], 0);
    serde_json::from_str(&text).unwrap()
}

#[track_caller]
pub fn restore(place: &Path, id: &str, data: &Path) -> String {
    let arguments = ["backup", "restore", "--from", text_of(place), "--id", id, "--data-dir", text_of(data)];
    printed(&arguments, 0)
}

#[track_caller]
pub fn list(place: &Path) -> Vec<Value> {
    let text = printed(&["backup", "list", "--json", "--from", text_of(place)], 0);
    let listed: Value = serde_json::from_str(&text).unwrap();
    listed["backups"].as_array().unwrap().clone()
}

#[track_caller]
pub fn verify(arguments: &[&str]) {
    let text = printed(&[&["verify"], arguments].concat(), 0);
    assert!(text.contains("everything agrees"), "{text}");
}

pub fn text_of(path: &Path) -> &str {
    path.to_str().unwrap()
}

pub fn id_of(backup: &Value) -> &str {
    backup["id"].as_str().unwrap()
}

pub fn fill(client: &Client, container: &str, numbers: std::ops::Range<usize>, size: usize) {
    for number in numbers {
        let pk = number % 20;
        // No two are alike, so that nothing is compressed away.
        let word = |at: usize| ((number * 7919 + at) as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let text: String = (0..size / 16).map(|at| format!("{:016x}", word(at))).collect();
        let item = json!({ "id": number.to_string(), "pk": pk, "text": text });
        let _item = client.create_item("db", container, &json!([pk]), &item).expect_status(201);
    }
}

/// `db/{container}` in five partitions.
pub fn make_container(client: &Client, container: &str) {
    let key = json!({ "paths": ["/pk"], "kind": "Hash", "version": 2 });
    let definition = json!({ "id": container, "partitionKey": key });
    let throughput = [("x-ms-offer-throughput", "30000")];
    let _made = client.create_container_of("db", &definition, &throughput).expect_status(201);
}

/// Everything that a client can list, as the server returns it.
pub fn everything(client: &Client) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    let mut add = |path: &str, member: &str| {
        let mut all = Vec::new();
        let mut continuation: Option<String> = None;
        loop {
            let token = continuation.clone().unwrap_or_default();
            let headers: &[(&str, &str)] =
                if token.is_empty() { &[] } else { &[("x-ms-continuation", &token)] };
            let page = client.get(path, headers).expect_status(200);
            all.extend(page.json()[member].as_array().unwrap().iter().cloned());
            continuation = page.header("x-ms-continuation").map(str::to_owned);
            if continuation.is_none() {
                break;
            }
        }
        all.sort_by_key(|member| member["_rid"].as_str().unwrap_or_default().to_owned());
        found.insert(path.to_owned(), Value::Array(all.clone()));
        all
    };
    let _offers = add("/offers", "Offers");
    for database in add("/dbs", "Databases") {
        let database = format!("/dbs/{}", database["id"].as_str().unwrap());
        let _users = add(&format!("{database}/users"), "Users");
        for container in add(&format!("{database}/colls"), "DocumentCollections") {
            let container = format!("{database}/colls/{}", container["id"].as_str().unwrap());
            let _items = add(&format!("{container}/docs"), "Documents");
            let _scripts = add(&format!("{container}/sprocs"), "StoredProcedures");
            let _ranges = add(&format!("{container}/pkranges"), "PartitionKeyRanges");
        }
    }
    found
}

/// The contents of a restored directory, read through a server that is started on it.
pub fn everything_in(data: &Path) -> BTreeMap<String, Value> {
    let mut server = on_disk().data_dir(data).start();
    let found = everything(&server.client());
    assert!(server.terminate(PATIENCE).success());
    found
}

pub fn files_below(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let Ok(entries) = fs::read_dir(directory) else { return found };
    for entry in entries {
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

/// States that a server keeps for backups, in all its shards.
pub fn kept_states(data: &Path) -> Vec<PathBuf> {
    let mut kept = Vec::new();
    for shard in fs::read_dir(data).unwrap() {
        let Ok(checkpoints) = fs::read_dir(shard.unwrap().path().join("checkpoints")) else { continue };
        kept.extend(checkpoints.map(|entry| entry.unwrap().path()));
    }
    kept
}

/// The file behind the manifest's entry for a path.
pub fn object_of(place: &Path, id: &str, path: &str) -> PathBuf {
    let manifest = fs::read_to_string(place.join(format!("backups/{id}.manifest"))).unwrap();
    let manifest: Value = serde_json::from_str(manifest.split_once('\n').unwrap().1).unwrap();
    let files = manifest["files"].as_array().unwrap();
    let entry =
        files.iter().find(|file| file["path"] == path).unwrap_or_else(|| panic!("{path} in {files:?}"));
    let (folder, rest) = entry["sha256"].as_str().unwrap().split_at(2);
    place.join("objects").join(folder).join(rest)
}

pub fn sha256(content: &[u8]) -> String {
    use sha2::Digest;
    sha2::Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The paths in a backup.
pub fn paths_of(place: &Path, id: &str) -> Vec<String> {
    let manifest = fs::read_to_string(place.join(format!("backups/{id}.manifest"))).unwrap();
    let manifest: Value = serde_json::from_str(manifest.split_once('\n').unwrap().1).unwrap();
    let path = |file: &Value| file["path"].as_str().unwrap().to_owned();
    manifest["files"].as_array().unwrap().iter().map(path).collect()
}

/// Between a client and a server: passes on the first so many connections, then lets the client wait for ever.
pub struct Stalling {
    pub address: SocketAddr,
    reached: Receiver<()>,
    passes_again: Arc<AtomicBool>,
}

impl Stalling {
    pub fn new(server: SocketAddr, connections: usize) -> Stalling {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (tell, reached) = sync_channel(1);
        let passes_again = Arc::new(AtomicBool::new(false));
        let passes = passes_again.clone();
        thread::spawn(move || {
            let (mut held, mut seen) = (Vec::new(), 0);
            for client in listener.incoming() {
                let Ok(client) = client else { return };
                seen += 1;
                if seen > connections && !passes.load(Ordering::SeqCst) {
                    held.push(client);
                    let _told_before = tell.try_send(());
                } else if let Ok(server) = TcpStream::connect(server) {
                    pass(client.try_clone().unwrap(), server.try_clone().unwrap());
                    pass(server, client);
                }
            }
        });
        Stalling { address, reached, passes_again }
    }

    /// From here on connections are passed on again; the held connection stays held, and its client waits.
    pub fn pass_again(&self) {
        self.passes_again.store(true, Ordering::SeqCst);
    }

    /// Waits until the client waits.
    pub fn wait(&self) {
        self.reached.recv_timeout(PATIENCE).expect("the client comes so far");
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream) {
    thread::spawn(move || {
        let mut buffer = [0; 16 << 10];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            if to.write_all(&buffer[..count]).is_err() {
                break;
            }
        }
        let _closed = to.shutdown(Shutdown::Write);
    });
}
