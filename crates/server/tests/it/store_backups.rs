//! Backups of accounts in an object store, and backups that lie in a store: their contents, and the commands that are refused.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use serde_json::Value;
use shardlake_testkit::{ServerOptions, ServerProcess};

use crate::backup_support::{
    Stalling, complaint, create, endpoint, everything, everything_in, fill, id_of, list, make_container,
    object_of, paths_of, printed, text_of, verify,
};
use crate::backups::{flip, make_everything, rounds, write_round};
use crate::stores::Account;
use crate::support::{PATIENCE, assert_healthy, command, on_disk, refused};

fn url_of(path: &Path) -> String {
    format!("file://{}", path.display())
}

/// A server of an account in a store, which sorts early.
fn start(account: &Account, shards: &str) -> ServerProcess {
    // None of these tests waits for the end of a lease; on a busy machine a short one refuses writers.
    account.node("one", &[shards, "--write-buffer-size=1MiB", "--lease=15"]).start()
}

fn serve_restored(account: &Account, url: &str, node: &str) -> ServerProcess {
    let options: ServerOptions = on_disk().data_dir(account.path(node)).argument(format!("--store={url}"));
    options.argument("--lease=3").may_log("the lease could not be renewed").start()
}

fn restore_to_store(from: &str, id: &str, url: &str) -> String {
    printed(&["backup", "restore", "--from", from, "--id", id, "--store", url], 0)
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// Guard that ends the writers of a scope, also when the scope's test panics.
struct EndsWriters<'a>(&'a AtomicBool);

impl Drop for EndsWriters<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

#[test]
fn a_backup_of_an_account_in_a_store_has_all_that_was_acknowledged_in_whole_batches() {
    const WRITERS: usize = 4;
    let account = Account::new();
    let place = account.path("backups");
    let server = start(&account, "--shards=3");
    let client = server.client();
    let _database = client.create_database("db").expect_status(201);
    make_container(&client, "c");
    make_container(&client, "after");
    let acknowledged: Vec<AtomicUsize> = (0..WRITERS).map(|_| AtomicUsize::new(0)).collect();
    let goes_on = AtomicBool::new(true);
    let count = |writer: usize| acknowledged[writer].load(Ordering::SeqCst);
    let mut made = Vec::new();
    thread::scope(|scope| {
        let mut writers = Vec::new();
        for writer in 0..WRITERS {
            let (server, goes_on, acknowledged) = (&server, &goes_on, &acknowledged);
            writers.push(scope.spawn(move || {
                let client = server.client();
                for round in 0.. {
                    write_round(&client, writer, round);
                    acknowledged[writer].store(round + 1, Ordering::SeqCst);
                    if !goes_on.load(Ordering::SeqCst) {
                        return;
                    }
                }
            }));
        }
        let _ending = EndsWriters(&goes_on);
        for number in 0..2 {
            while (0..WRITERS).any(|writer| count(writer) < (number + 1) * 15) {
                if writers.iter().any(|writer| writer.is_finished()) {
                    return; // It failed: the scope passes its panic on.
                }
                thread::yield_now();
            }
            let before: Vec<usize> = (0..WRITERS).map(count).collect();
            let backup = create(&server, &place);
            // One round may be under way, and one more may have ended in between.
            let after: Vec<usize> = (0..WRITERS).map(|writer| count(writer) + 1).collect();
            made.push((id_of(&backup).to_owned(), before, after));
        }
    });
    assert_healthy(&server);
    printed(&["backup", "check", "--from", text_of(&place)], 0);
    for (number, (id, before, after)) in made.iter().enumerate() {
        verify(&[text_of(&place), "--id", id]);
        let url = url_of(&account.path(&format!("restored-{number}")));
        let said = restore_to_store(text_of(&place), id, &url);
        assert!(said.contains("shardlake serve --store"), "{said}");
        let restored = serve_restored(&account, &url, &format!("node-{number}"));
        for writer in 0..WRITERS {
            let found = rounds(&restored.client(), writer);
            assert!(
                (before[writer]..=after[writer]).contains(&found),
                "writer {writer}: {found} rounds, acknowledged {} before and {} after",
                before[writer],
                after[writer]
            );
        }
        assert_healthy(&restored);
    }
}

#[test]
fn a_restored_account_in_a_store_is_the_original_whether_its_server_ran_was_stopped_or_killed() {
    let account = Account::new();
    // In a directory, and below a prefix.
    let (place, store_place) = (account.path("backups"), url_of(&account.path("bucket")));
    let mut server = start(&account, "--shards=2");
    make_everything(&server.client());
    fill(&server.client(), "c", 300..500, 6000);
    let original = everything(&server.client());
    let running = create(&server, &place);
    let again = create(&server, &place);
    assert!(again["newBytes"].as_u64().unwrap() * 10 < again["sizeBytes"].as_u64().unwrap(), "{again}");
    let create_in =
        |to: &str| json(&printed(&["backup", "create", "--json", "--store", &account.url(), "--to", to], 0));
    // A living server has it: neither is it copied past it, nor looked at.
    let held = complaint(&["backup", "create", "--store", &account.url(), "--to", &store_place]);
    assert!(held.contains("a server has the account"), "{held}");
    assert!(complaint(&["verify", &account.url()]).contains("a server has the account"));
    verify(&[&account.url(), "--online", "--endpoint", &endpoint(&server)]);
    server.kill();
    let killed = create_in(&store_place);
    verify(&[&account.url()]);
    server.restart();
    assert_eq!(everything(&server.client()), original);
    assert!(server.terminate(PATIENCE).success());
    let stopped = create_in(&store_place);
    assert!(stopped["newFiles"].as_u64().unwrap() < stopped["files"].as_u64().unwrap(), "{stopped}");
    printed(&["backup", "check", "--from", &store_place], 0);
    verify(&[&store_place]);
    let listed = json(&printed(&["backup", "list", "--json", "--from", &store_place], 0));
    assert_eq!(listed["backups"].as_array().unwrap().len(), 2, "{listed}");
    for (number, (from, backup)) in
        [(text_of(&place), &running), (&store_place, &killed), (&store_place, &stopped)]
            .into_iter()
            .enumerate()
    {
        let url = url_of(&account.path(&format!("restored-{number}")));
        restore_to_store(from, id_of(backup), &url);
        let mut restored = serve_restored(&account, &url, &format!("node-{number}"));
        assert_eq!(everything(&restored.client()), original, "{number}");
        fill(&restored.client(), "c", 1000..1010, 100);
        assert_healthy(&restored);
        assert!(restored.terminate(PATIENCE).success());
        verify(&[&url]);
        let again = complaint(&["backup", "restore", "--from", from, "--store", &url]);
        assert!(again.contains("is not empty"), "{again}");
    }
    printed(&["backup", "delete", "--from", &store_place, "--keep", "1"], 0);
    printed(&["backup", "check", "--from", &store_place], 0);
    printed(&["backup", "delete", "--from", &store_place, "--id", id_of(&stopped)], 0);
    let objects = account.path("bucket").join("objects");
    assert_eq!(crate::backup_support::files_below(&objects), Vec::<PathBuf>::new());
}

#[test]
fn a_flipped_bit_in_any_object_of_a_backup_is_named_and_nothing_is_served() {
    let account = Account::new();
    let place = account.path("backups");
    let mut server = start(&account, "--shards=2");
    make_everything(&server.client());
    // Tables, and a log behind them.
    assert!(server.terminate(PATIENCE).success());
    server.restart();
    fill(&server.client(), "d", 300..303, 100);
    server.kill();
    let made =
        printed(&["backup", "create", "--json", "--store", &account.url(), "--to", text_of(&place)], 0);
    let made = json(&made);
    let id = id_of(&made);
    let paths = paths_of(&place, id);
    for kind in ["compacted/", "wal/", "manifest/", "account.json"] {
        assert!(paths.iter().any(|path| path.contains(kind)), "{kind}: {paths:?}");
    }
    for (number, path) in paths.iter().enumerate() {
        let object = object_of(&place, id, path);
        if fs::metadata(&object).unwrap().len() == 0 {
            // The object that keeps former owners out of the log is empty: no bit can be flipped.
            continue;
        }
        let good = flip(&object);
        let found = printed(&["backup", "check", "--from", text_of(&place)], 1);
        assert!(found.contains(path), "{path}: {found}");
        let url = url_of(&account.path(&format!("damaged-{number}")));
        let text = complaint(&["backup", "restore", "--from", text_of(&place), "--id", id, "--store", &url]);
        assert!(text.contains(path) && text.contains("nothing was restored"), "{path}: {text}");
        let text = refused(
            command(&["serve", "--listen=127.0.0.1:0", "--log-level=error", "--store", &url, "--data-dir"])
                .arg(account.path(&format!("node-{number}"))),
        );
        assert!(text.contains("cut off"), "{path}: {text}");
        assert!(complaint(&["verify", &url]).contains("cut off"), "{path}");
        fs::write(&object, good).unwrap();
    }
    fs::remove_file(object_of(&place, id, &paths[0])).unwrap();
    assert!(complaint(&["verify", text_of(&place)]).contains("is missing"));
}

#[test]
fn a_local_account_is_backed_up_to_a_store_and_back() {
    let account = Account::new();
    let place = url_of(&account.path("bucket"));
    let data = account.path("data");
    let server = on_disk().data_dir(&data).argument("--shards=2").start();
    make_everything(&server.client());
    let original = everything(&server.client());
    let created = ["backup", "create", "--json", "--endpoint", &endpoint(&server), "--to", &place];
    let made = json(&printed(&created, 0));
    let again = json(&printed(&created, 0));
    assert!(again["newFiles"].as_u64().unwrap() < made["newFiles"].as_u64().unwrap(), "{again}");
    printed(&["backup", "check", "--from", &place], 0);
    let back = account.path("back");
    printed(&["backup", "restore", "--from", &place, "--id", id_of(&made), "--data-dir", text_of(&back)], 0);
    assert_eq!(everything_in(&back), original);
    // Kinds are not mixed up, and nothing is made where they are.
    let other = account.path("other");
    let text = complaint(&["backup", "restore", "--from", &place, "--store", &url_of(&other)]);
    assert!(text.contains("local disk") && !other.join("RESTORING").exists(), "{text}");
    assert!(complaint(&["verify", &place]).contains("restore it"));
    // A flipped bit in an object of the store.
    let bucket = account.path("bucket");
    let table = paths_of(&bucket, id_of(&made)).into_iter().find(|path| path.contains("tables")).unwrap();
    flip(&object_of(&bucket, id_of(&made), &table));
    assert!(printed(&["backup", "check", "--from", &place], 1).contains(&table));
    let text = complaint(&[
        "backup",
        "restore",
        "--from",
        &place,
        "--id",
        id_of(&made),
        "--data-dir",
        text_of(&account.path("damaged")),
    ]);
    assert!(text.contains(&table), "{text}");
}

#[test]
fn places_of_backups_in_a_store_are_refused_where_they_are_something_else() {
    let account = Account::new();
    let mut server = start(&account, "--shards=1");
    make_everything(&server.client());
    // Not into the account itself, nor below nothing.
    let into = complaint(&["backup", "create", "--endpoint", &endpoint(&server), "--to", &account.url()]);
    assert!(into.contains("something else than backups"), "{into}");
    let none = url_of(&account.path("none"));
    assert!(complaint(&["backup", "list", "--from", &none]).contains("holds no backups"));
    assert!(complaint(&["backup", "list", "--from", "ftp://x/y"]).contains("s3://bucket/prefix"));
    assert!(complaint(&["verify", &none]).contains("no account"));
    let local = text_of(&account.path("backups")).to_owned();
    let made = create(&server, &account.path("backups"));
    let data = account.path("data");
    let text = complaint(&["backup", "restore", "--from", &local, "--data-dir", text_of(&data)]);
    assert!(text.contains("of an account in an object store") && !data.exists(), "{text}");
    let text = complaint(&["backup", "restore", "--from", &local, "--data-dir", &none]);
    assert!(text.contains("--store"), "{text}");
    assert!(complaint(&["backup", "restore", "--from", &local, "--store", &local]).contains("is no URL"));
    let at = ["backup", "restore", "--from", &local, "--store", &none, "--at", "2026-11-23T08:17:08Z"];
    let refused = command(&at).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("'--at'"), "{refused:?}");
    assert!(!account.path("none/s").exists(), "nothing was made");
    assert_eq!(id_of(&list(&account.path("backups"))[0]), id_of(&made));
    assert!(server.terminate(PATIENCE).success());
}

/// A killed command or server leaves nothing behind that requires cleaning up.
#[test]
fn kills_leave_no_backup_in_a_store_and_no_kept_state() {
    let account = Account::new();
    let mut server = start(&account, "--shards=2");
    make_everything(&server.client());
    let place = url_of(&account.path("bucket"));
    let path = "/_shardlake/v1/backups";
    let state = server.client().request("POST", path, &[], b"").expect_status(201).json();
    assert_eq!(state["isOfStore"], true);
    // The state of a client that stopped at this step.
    let piece = format!("{path}/{}/shards/0/files/0/0", state["id"].as_str().unwrap());
    let _piece = server.client().get(&piece, &[]).expect_status(200);
    server.kill();
    server.restart();
    assert_eq!(server.client().get(&piece, &[]).status, 404);
    // The client hangs in the middle and is killed: the lease of the place runs out by itself.
    let stalling = Stalling::new(server.address(), 2);
    let endpoint_of = format!("http://{}", stalling.address);
    let mut client = command(&["backup", "create", "--to", &place, "--endpoint", &endpoint_of]);
    let mut client = client.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    stalling.wait();
    let busy = complaint(&["backup", "create", "--to", &place, "--endpoint", &endpoint(&server)]);
    assert!(busy.contains("in use by another"), "{busy}");
    client.kill().unwrap();
    client.wait().unwrap();
    assert!(printed(&["backup", "list", "--from", &place], 0).contains("no backups"));
    printed(&["backup", "create", "--to", &place, "--endpoint", &endpoint(&server)], 0);
    printed(&["backup", "check", "--from", &place], 0);
    assert_healthy(&server);
}
