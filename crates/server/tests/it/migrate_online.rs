//! Accounts that are moved while clients write: no acknowledged write is lost, wherever the move was cut off.

use std::process::Stdio;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use serde_json::json;
use shardlake_testkit::{Client, ServerProcess};

use crate::backup_support::{complaint, endpoint, everything, options, printed, text_of, verify};
use crate::backups::make_everything;
use crate::stores::Account;
use crate::support::{PATIENCE, assert_healthy, command, on_disk};

const WINDOW: &str = "--restore-window=1h";
/// Writers go as fast as they can, and everything is read behind them.
const UNLIMITED: &str = "--throughput=unlimited";
const WRITERS: usize = 3;

/// The last answer to a client about an item.
#[derive(Clone, Debug)]
enum Told {
    Created(String),
    Deleted(String),
}

/// Clients that write for as long as their server is there.
struct Writers {
    threads: Vec<JoinHandle<()>>,
    told: Receiver<Told>,
    all: Vec<Told>,
}

impl Writers {
    fn start(server: &ServerProcess, run: &str) -> Writers {
        let (tell, told) = channel();
        let write = |number: usize| {
            let (client, tell) = (server.client(), tell.clone());
            let name = format!("{run}{number}");
            std::thread::spawn(move || write(&client, &name, &tell))
        };
        Writers { threads: (0..WRITERS).map(write).collect(), told, all: Vec::new() }
    }

    /// Until so many more writes are acknowledged.
    fn go_on(&mut self, count: usize) {
        for _ in 0..count {
            self.all.push(self.told.recv_timeout(PATIENCE).expect("the server goes on"));
        }
    }

    /// After their server has ended.
    fn end(mut self) -> Vec<Told> {
        for thread in self.threads {
            thread.join().unwrap();
        }
        self.all.extend(self.told.try_iter());
        self.all
    }
}

fn write(client: &Client, name: &str, tell: &Sender<Told>) {
    for number in 0.. {
        let (id, pk) = (format!("{name}-{number}"), number % 20);
        let key = format!("[{pk}]");
        let headers = [("x-ms-documentdb-partitionkey", key.as_str())];
        let item = json!({ "id": id, "pk": pk, "text": id.repeat(40) });
        let body = serde_json::to_vec(&item).unwrap();
        let sent = client.try_request("POST", "/dbs/db/colls/d/docs", &headers, &body);
        if sent.is_ok_and(|answer| answer.status == 201) {
            tell.send(Told::Created(id.clone())).unwrap();
        } else {
            return;
        }
        if number % 5 == 4 {
            let path = format!("/dbs/db/colls/d/docs/{id}");
            match client.try_request("DELETE", &path, &headers, b"") {
                Ok(answer) if answer.status == 204 => tell.send(Told::Deleted(id)).unwrap(),
                // Deleted or not: whatever is there is right.
                _ => return,
            }
        }
    }
}

/// Everything acknowledged is there, except items that were deleted, or may have been.
#[track_caller]
fn check(client: &Client, told: &[Told]) {
    let found = everything(client);
    let ids: Vec<&str> = found["/dbs/db/colls/d/docs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["id"].as_str().unwrap())
        .collect();
    let is_deleted =
        |id: &String| told.iter().any(|told| matches!(told, Told::Deleted(deleted) if deleted == id));
    let may_be_deleted = |id: &String| id.rsplit('-').next().unwrap().parse::<usize>().unwrap() % 5 == 4;
    for told in told {
        match told {
            Told::Deleted(id) => assert!(!ids.contains(&id.as_str()), "{id} was deleted"),
            Told::Created(id) if is_deleted(id) || may_be_deleted(id) => {}
            Told::Created(id) => assert!(ids.contains(&id.as_str()), "{id} was acknowledged"),
        }
    }
}

fn online<'a>(from: &'a str, to: &'a str, endpoint: &'a str) -> [&'a str; 8] {
    ["migrate", "--online", "--endpoint", endpoint, "--from", from, "--to", to]
}

/// Has a command continue until the writers have come so much further, and kills it then, unless it has ended.
fn kill_after(arguments: &[&str], writers: &mut Writers, writes: usize) {
    let mut moving = command(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    writers.go_on(writes);
    let _ended_before = moving.kill();
    let _status = moving.wait().unwrap();
}

#[test]
fn clients_that_write_all_the_time_lose_nothing_on_the_way_to_a_store_and_back() {
    let account = Account::new();
    let (data, url) = (account.path("data"), account.url());
    let mut server = options(&data, 2).argument(WINDOW).argument(UNLIMITED).start();
    make_everything(&server.client());
    let mut writers = Writers::start(&server, "a");
    writers.go_on(20);
    let said = printed(&online(text_of(&data), &url, &endpoint(&server)), 0);
    assert!(said.contains("copied to") && said.contains("followed to"), "{said}");
    assert!(account.refused("early").contains("cut off"), "the account is still where it was");
    writers.go_on(50);
    // The next time nothing is copied, and the one after a death of the server neither.
    let said = printed(&online(text_of(&data), &url, &endpoint(&server)), 0);
    assert!(!said.contains("copied") && said.contains("followed to"), "{said}");
    writers.go_on(20);
    server.kill();
    let mut told = writers.end();
    server.restart();
    let mut writers = Writers::start(&server, "b");
    writers.go_on(50);
    let said = printed(&online(text_of(&data), &url, &endpoint(&server)), 0);
    assert!(!said.contains("copied"), "{said}");
    assert!(server.terminate(PATIENCE).success());
    told.extend(writers.end());
    // Both sides are compared once more, to find rows that the log would have missed.
    let said = printed(&["migrate", "--compare", "--from", text_of(&data), "--to", &url], 0);
    assert!(said.contains("of the log"), "{said}");
    verify(&[&url]);

    let mut moved = account.node("node", &[WINDOW, UNLIMITED]).start();
    check(&moved.client(), &told);
    assert_healthy(&moved);
    let back = account.path("back");
    let mut writers = Writers::start(&moved, "c");
    writers.go_on(10);
    let said = printed(&online(&url, text_of(&back), &endpoint(&moved)), 0);
    assert!(said.contains("copied to") && said.contains("followed to"), "{said}");
    writers.go_on(30);
    let said = printed(&online(&url, text_of(&back), &endpoint(&moved)), 0);
    assert!(!said.contains("copied"), "{said}");
    writers.go_on(30);
    moved.kill();
    told.extend(writers.end());
    let said = printed(&["migrate", "--compare", "--from", &url, "--to", text_of(&back)], 0);
    assert!(said.contains("of the log"), "{said}");
    assert!(!back.join("COPIED").exists());
    verify(&[text_of(&back)]);
    let server = on_disk().data_dir(&back).argument(UNLIMITED).start();
    check(&server.client(), &told);
    assert_healthy(&server);
}

/// To a directory: the lease of a store would hold up the command after each kill. A server keeps at most four states, also of those who were
/// killed.
#[test]
fn a_copy_that_is_killed_at_any_point_goes_on_and_loses_nothing() {
    let account = Account::new();
    let (back, url) = (account.path("back"), account.url());
    let mut server =
        account.node("node", &["--shards=2", "--write-buffer-size=1MiB", WINDOW, UNLIMITED]).start();
    make_everything(&server.client());
    let mut writers = Writers::start(&server, "a");
    let address = endpoint(&server);
    let ahead = online(&url, text_of(&back), &address);
    for writes in [1, 100, 300] {
        kill_after(&ahead, &mut writers, writes);
    }
    printed(&ahead, 0);
    for writes in [1, 20, 50, 100] {
        kill_after(&ahead, &mut writers, writes);
    }
    assert!(server.terminate(PATIENCE).success());
    let told = writers.end();
    let said = printed(&["migrate", "--from", &url, "--to", text_of(&back)], 0);
    assert!(said.contains("of the log"), "a copy once complete stays so: {said}");
    let moved = on_disk().data_dir(&back).argument(UNLIMITED).start();
    check(&moved.client(), &told);
    assert_healthy(&moved);
    assert!(complaint(&["verify", &url]).contains("was moved to"));
}

/// Some writes are in no log: the copy cannot follow, and everything is read.
#[test]
fn a_log_with_a_hole_has_both_sides_read() {
    let account = Account::new();
    let (data, url) = (account.path("data"), account.url());
    let move_it = ["migrate", "--from", text_of(&data), "--to", &url];
    let mut server = options(&data, 1).argument(WINDOW).argument(UNLIMITED).start();
    make_everything(&server.client());
    let said = printed(&online(text_of(&data), &url, &endpoint(&server)), 0);
    assert!(said.contains("followed to"), "{said}");
    assert!(server.terminate(PATIENCE).success());
    let mut server = options(&data, 1).argument(UNLIMITED).start();
    write_some(&server, "x");
    let said = printed(&online(text_of(&data), &url, &endpoint(&server)), 0);
    assert!(!said.contains("followed") && said.contains("--restore-window"), "{said}");
    assert!(server.terminate(PATIENCE).success());
    let mut server = options(&data, 1).argument(WINDOW).argument(UNLIMITED).start();
    write_some(&server, "y");
    let said = printed(&online(text_of(&data), &url, &endpoint(&server)), 0);
    assert!(said.contains("copied to") && said.contains("followed to"), "{said}");
    assert!(server.terminate(PATIENCE).success());
    let mut server = options(&data, 1).argument(UNLIMITED).start();
    write_some(&server, "z");
    let original = everything(&server.client());
    assert!(server.terminate(PATIENCE).success());
    let said = printed(&move_it, 0);
    assert!(said.contains("could not go on") && said.contains("were read"), "{said}");
    let moved = account.node("node", &[]).start();
    assert_eq!(everything(&moved.client()), original);
    assert_healthy(&moved);
}

fn write_some(server: &ServerProcess, name: &str) {
    for number in 0..10 {
        let item = json!({ "id": format!("{name}{number}"), "pk": number });
        let _item = server.client().create_item("db", "d", &json!([number]), &item).expect_status(201);
    }
}
