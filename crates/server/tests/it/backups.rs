//! Backups of servers that run, are stopped, or are killed: their contents, and the commands that are refused.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use serde_json::{Value, json};
use shardlake_testkit::{Client, eventually};

use crate::backup_support::{
    Stalling, complaint, create, create_at, directory, endpoint, everything, everything_in, files_below,
    fill, id_of, kept_states, list, make_container, object_of, options, paths_of, printed, restore, sha256,
    text_of, verify,
};
use crate::support::{PATIENCE, assert_healthy, command, in_memory, metric, on_disk, refused};

/// Writes a batch, and when that is acknowledged an item of another partition that follows from it.
pub fn write_round(client: &Client, writer: usize, round: usize) {
    let key = json!([format!("writer {writer}")]);
    let half = |half: &str| {
        let body = json!({ "id": format!("{round}-{half}"), "pk": key[0], "text": "x".repeat(700) });
        json!({ "operationType": "Create", "resourceBody": body })
    };
    let batch = client.batch("db", "c", &key, &json!([half("a"), half("b")])).expect_status(200);
    assert_eq!(batch.json()[0]["statusCode"], 201);
    let after = json!({ "id": round.to_string(), "pk": format!("after {writer}") });
    let _after = client.create_item("db", "after", &json!([after["pk"]]), &after).expect_status(201);
}

/// How many rounds of a writer are there, after a look whether each batch is whole and follows the one before.
#[track_caller]
pub fn rounds(client: &Client, writer: usize) -> usize {
    let (key, after) = (json!([format!("writer {writer}")]), json!([format!("after {writer}")]));
    let is_there = |round: usize| {
        let halves = ["a", "b"]
            .map(|half| client.read_item("db", "c", &key, &format!("{round}-{half}")).status == 200);
        assert_eq!(halves[0], halves[1], "writer {writer}: batch {round} is torn");
        let is_followed = client.read_item("db", "after", &after, &round.to_string()).status == 200;
        assert!(halves[0] || !is_followed, "writer {writer}: what follows batch {round} is there without it");
        halves[0]
    };
    let count = (0..).take_while(|round| is_there(*round)).count();
    let strays = (count..count + 3).filter(|round| is_there(*round)).count();
    assert_eq!(strays, 0, "writer {writer}: a round is missing before another one");
    count
}

#[test]
fn a_backup_made_while_four_writers_write_has_all_that_was_acknowledged_in_whole_batches() {
    const WRITERS: usize = 4;
    let directory = directory();
    let (data, place) = (directory.path().join("data"), directory.path().join("backups"));
    let server = options(&data, 3).start();
    let client = server.client();
    let _database = client.create_database("db").expect_status(201);
    make_container(&client, "c");
    make_container(&client, "after");
    let acknowledged: Vec<AtomicUsize> = (0..WRITERS).map(|_| AtomicUsize::new(0)).collect();
    let goes_on = AtomicBool::new(true);
    let count = |writer: usize| acknowledged[writer].load(Ordering::SeqCst);
    let mut made = Vec::new();
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (server, goes_on, acknowledged) = (&server, &goes_on, &acknowledged);
            scope.spawn(move || {
                let client = server.client();
                for round in 0.. {
                    write_round(&client, writer, round);
                    acknowledged[writer].store(round + 1, Ordering::SeqCst);
                    if !goes_on.load(Ordering::SeqCst) {
                        return;
                    }
                }
            });
        }
        for number in 0..3 {
            let enough = |writer| count(writer) >= (number + 1) * 25;
            eventually("writers write", || (0..WRITERS).all(enough));
            let before: Vec<usize> = (0..WRITERS).map(count).collect();
            let backup = create(&server, &place);
            let after: Vec<usize> = (0..WRITERS).map(count).collect();
            made.push((backup, before, after));
        }
        goes_on.store(false, Ordering::SeqCst);
    });
    assert!(kept_states(&data).is_empty(), "the server keeps nothing");
    assert_healthy(&server);
    for (backup, before, after) in &made {
        let restored = directory.path().join(id_of(backup));
        restore(&place, id_of(backup), &restored);
        verify(&[text_of(&restored)]);
        let server = on_disk().data_dir(&restored).start();
        let client = server.client();
        let mut items = 0;
        for writer in 0..WRITERS {
            let found = rounds(&client, writer);
            let (least, most) = (before[writer], after[writer] + 1);
            assert!((least..=most).contains(&found), "writer {writer}: {found} is not in {least} to {most}");
            items += 2 * found;
        }
        // The last round of each writer may have no follower yet.
        let told = backup["items"].as_u64().unwrap();
        assert_eq!(metric(&client, "shardlake_items"), told);
        assert!(told as usize >= items && told as usize <= items / 2 * 3, "{told} for {items}");
        assert_eq!(backup["partitions"].as_array().unwrap().len(), 10);
    }
    let times: Vec<&str> = made.iter().map(|(backup, ..)| backup["time"].as_str().unwrap()).collect();
    assert!(times.is_sorted(), "{times:?}");
}

/// Definitions and items of every kind, of which some lie in tables and some in journals.
pub fn make_everything(client: &Client) {
    let _database = client.create_database("db").expect_status(201);
    make_container(client, "c");
    make_container(client, "d");
    fill(client, "c", 0..200, 4000);
    fill(client, "d", 0..20, 100);
    let script = json!({ "id": "s", "body": "function () { getContext().getResponse().setBody(7); }" });
    let _script = client.post_json("/dbs/db/colls/c/sprocs", &[], &script).expect_status(201);
    let _user = client.post_json("/dbs/db/users", &[], &json!({ "id": "u" })).expect_status(201);
    let _deleted = client.delete_item("db", "c", &json!([3]), "3").expect_status(204);
}

#[test]
fn a_restored_account_is_the_original_whether_its_server_ran_was_stopped_or_killed() {
    let directory = directory();
    let (data, place) = (directory.path().join("data"), directory.path().join("backups"));
    let mut server = options(&data, 2).start();
    make_everything(&server.client());
    let expected = everything(&server.client());
    let of_running = create(&server, &place);
    let in_use = complaint(&["backup", "create", "--to", text_of(&place), "--data-dir", text_of(&data)]);
    assert!(in_use.contains("in use by another process"), "{in_use}");
    verify(&[text_of(&data), "--online", "--endpoint", &endpoint(&server)]);
    assert!(kept_states(&data).is_empty(), "verify has the server keep nothing");
    server.kill();
    let offline = ["backup", "create", "--json", "--to", text_of(&place), "--data-dir", text_of(&data)];
    let of_killed: Value = serde_json::from_str(&printed(&offline, 0)).unwrap();
    server.restart();
    assert_eq!(everything(&server.client()), expected);
    assert!(server.terminate(PATIENCE).success());
    let of_stopped: Value = serde_json::from_str(&printed(&offline, 0)).unwrap();
    assert_eq!(list(&place).len(), 3);
    for backup in [of_running, of_killed, of_stopped] {
        let restored = directory.path().join(id_of(&backup));
        assert_eq!(backup["items"], 219, "{backup}");
        verify(&[text_of(&place), "--id", id_of(&backup)]);
        let told = restore(&place, id_of(&backup), &restored);
        assert!(told.contains("219 items in 10 partitions") && told.contains("keys.json"), "{told}");
        verify(&[text_of(&restored)]);
        assert_eq!(everything_in(&restored), expected);
        let mode = fs::metadata(&restored).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700, "the data of an account is its owner's");
    }
    let newest = directory.path().join("newest");
    printed(&["backup", "restore", "--from", text_of(&place), "--data-dir", text_of(&newest)], 0);
    assert_eq!(everything_in(&newest), expected);
}

/// Changes one bit in the middle of a file.
pub fn flip(file: &Path) -> Vec<u8> {
    let good = fs::read(file).unwrap();
    let mut bad = good.clone();
    let middle = bad.len() / 2;
    bad[middle] ^= 0x10;
    fs::write(file, bad).unwrap();
    good
}

#[test]
fn a_flipped_bit_in_each_kind_of_file_is_named_and_nothing_is_served() {
    let directory = directory();
    let (data, place) = (directory.path().join("data"), directory.path().join("backups"));
    let mut server = options(&data, 1).start();
    make_everything(&server.client());
    assert!(server.terminate(PATIENCE).success());
    server.restart();
    fill(&server.client(), "d", 20..40, 100);
    server.kill();
    let offline = ["backup", "create", "--json", "--to", text_of(&place), "--data-dir", text_of(&data)];
    let backup: Value = serde_json::from_str(&printed(&offline, 0)).unwrap();
    let id = id_of(&backup);
    let paths = paths_of(&place, id);
    let check = ["backup", "check", "--from", text_of(&place)];
    assert!(printed(&check, 0).contains("everything is as it was written"));
    let kinds: [&dyn Fn(&str) -> bool; 9] = [
        &|path| path.contains("keyspaces/1/tables/"),
        &|path| path.contains("keyspaces/0/tables/"),
        &|path| path.contains("keyspaces/1/v"),
        &|path| path.ends_with("keyspaces/1/current"),
        &|path| path.ends_with("db/version"),
        &|path| path.ends_with(".jnl"),
        &|path| path.ends_with("shard/JOURNALS"),
        &|path| path.ends_with("shard/FORMAT"),
        &|path| path == "account.json",
    ];
    for (number, kind) in kinds.iter().enumerate() {
        let path =
            paths.iter().find(|path| kind(path)).unwrap_or_else(|| panic!("kind {number} in {paths:?}"));
        let object = object_of(&place, id, path);
        let good = flip(&object);
        let text = printed(&check, 1);
        assert!(text.contains(&format!("DAMAGED {id}: '{path}' is damaged")), "{path}: {text}");
        assert!(text.contains(text_of(&object)), "{text}");
        let target = directory.path().join(format!("restored-{number}"));
        let restore = ["backup", "restore", "--from", text_of(&place), "--data-dir", text_of(&target)];
        let text = complaint(&restore);
        assert!(text.contains(&format!("'{path}' is damaged")) && text.contains("remove"), "{text}");
        for command in [&["serve", "--listen=127.0.0.1:0", "--data-dir"] as &[&str], &["verify"]] {
            let text = complaint(&[command, &[text_of(&target)]].concat());
            assert!(text.contains("is a restore that was cut off"), "{text}");
        }
        assert!(complaint(&restore).contains("is not empty"));
        // The list alone reports a content that is missing or cut.
        fs::write(&object, &good[..good.len() - 1]).unwrap();
        assert_eq!(list(&place)[0]["complete"], false, "{path}");
        assert!(printed(&check, 1).contains(&format!("'{path}' has {} bytes", good.len() - 1)));
        fs::remove_file(&object).unwrap();
        assert!(printed(&check, 1).contains(&format!("'{path}' is missing")));
        assert_eq!(list(&place)[0]["missingFiles"], 1, "{path}");
        fs::write(&object, good).unwrap();
    }
    let manifest = place.join(format!("backups/{id}.manifest"));
    let good = flip(&manifest);
    assert!(printed(&check, 1).contains(&format!("the manifest '{}' is damaged", manifest.display())));
    assert!(list(&place)[0]["damage"].as_str().unwrap().contains("is damaged"));
    let target = directory.path().join("restored-of-manifest");
    let restore =
        ["backup", "restore", "--from", text_of(&place), "--id", id, "--data-dir", text_of(&target)];
    assert!(complaint(&restore).contains("is damaged"));
    assert!(!target.exists(), "nothing was begun");
    fs::write(&manifest, good).unwrap();
    printed(&check, 0);
    printed(&restore, 0);
    verify(&[text_of(&target)]);
    // A damaged content that is removed by hand is copied again by the next backup.
    let table = paths.iter().find(|path| kinds[0](path)).unwrap();
    fs::remove_file(object_of(&place, id, table)).unwrap();
    printed(&check, 1);
    printed(&offline, 0);
    assert!(printed(&check, 0).contains("2 backups"));
}

#[test]
fn a_damaged_table_of_the_server_gets_into_no_backup() {
    let directory = directory();
    let (data, place) = (directory.path().join("data"), directory.path().join("backups"));
    let mut server = options(&data, 1).start();
    make_everything(&server.client());
    assert!(server.terminate(PATIENCE).success());
    let tables = files_below(&data.join("shard/db/keyspaces/1/tables"));
    let table = tables.iter().max_by_key(|table| fs::metadata(table).unwrap().len()).unwrap();
    let good = flip(table);
    let create = ["backup", "create", "--to", text_of(&place), "--data-dir", text_of(&data)];
    let text = complaint(&create);
    let name = format!("shard/db/keyspaces/1/tables/{}", table.file_name().unwrap().to_str().unwrap());
    assert!(text.contains(&name) && text.contains("is damaged where it is copied from"), "{text}");
    assert!(list(&place).is_empty() && files_below(&place.join("objects")).is_empty());
    fs::write(table, good).unwrap();
    printed(&create, 0);
}

#[test]
fn kill_9_of_the_client_or_of_the_server_leaves_no_backup_and_no_kept_state() {
    let directory = directory();
    let (data, place) = (directory.path().join("data"), directory.path().join("backups"));
    let mut server = options(&data, 2).start();
    make_everything(&server.client());
    let first = create(&server, &place);
    fill(&server.client(), "c", 300..340, 4000);
    let contents = files_below(&place.join("objects"));
    for kills_client in [true, false] {
        // The state is kept and two pieces have come.
        let stalling = Stalling::new(server.address(), 3);
        let through = format!("http://{}", stalling.address);
        let mut client = command(&["backup", "create", "--endpoint", &through, "--to", text_of(&place)])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        stalling.wait();
        assert_eq!(kept_states(&data).len(), 2, "one in each shard");
        let busy = complaint(&["backup", "delete", "--from", text_of(&place), "--keep", "1"]);
        assert!(busy.contains("in use by another `shardlake backup`"), "{busy}");
        if kills_client {
            client.kill().unwrap();
            let _reaped = client.wait().unwrap();
            assert_eq!(kept_states(&data).len(), 2, "the server cannot know yet");
        }
        server.kill();
        client.kill().unwrap();
        let _reaped = client.wait().unwrap();
        assert!(files_below(&place).len() > contents.len() + 3, "something was copied");
        assert_eq!(list(&place).len(), 1, "no backup was made");
        printed(&["backup", "check", "--from", text_of(&place)], 0);
        server.restart();
        assert!(kept_states(&data).is_empty(), "the next start removes what is left");
    }
    let second = create(&server, &place);
    assert!(files_below(&place.join("unfinished")).is_empty());
    printed(&["backup", "delete", "--from", text_of(&place), "--id", id_of(&second)], 0);
    assert_eq!(files_below(&place.join("objects")), contents, "nothing of the attempts is left");
    let restored = directory.path().join("restored");
    restore(&place, id_of(&first), &restored);
    verify(&[text_of(&restored)]);
}

#[test]
fn an_interrupted_client_tells_the_server_and_leaves_nothing() {
    let directory = directory();
    let (data, place) = (directory.path().join("data"), directory.path().join("backups"));
    let server = options(&data, 1).start();
    server.expects_log("a backup ends");
    make_everything(&server.client());
    let stalling = Stalling::new(server.address(), 3);
    let mut arguments = vec!["backup", "create", "--to", text_of(&place), "--endpoint"];
    let through = format!("http://{}", stalling.address);
    arguments.push(&through);
    let client = command(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    stalling.wait();
    stalling.pass_again();
    let id = rustix::process::Pid::from_child(&client);
    rustix::process::kill_process(id, rustix::process::Signal::INT).unwrap();
    let output = client.wait_with_output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), text.lines().count()), (Some(1), 1), "{text}");
    assert!(text.contains("interrupted: no backup was made"), "{text}");
    assert!(kept_states(&data).is_empty() && list(&place).is_empty());
    assert!(files_below(&place.join("objects")).is_empty());
    assert!(files_below(&place.join("unfinished")).is_empty());
}

#[test]
fn a_later_backup_copies_little_and_deleting_keeps_what_others_need() {
    let directory = directory();
    let (data, place) = (directory.path().join("data"), directory.path().join("backups"));
    let server = options(&data, 2).start();
    make_everything(&server.client());
    let first = create(&server, &place);
    fill(&server.client(), "c", 400..402, 100);
    let second = create(&server, &place);
    let new = |backup: &Value| backup["newBytes"].as_u64().unwrap();
    // Shards share some contents.
    assert!(new(&first) * 10 > first["sizeBytes"].as_u64().unwrap() * 9, "{first}");
    assert!(new(&second) * 10 < new(&first), "{} after {}", new(&second), new(&first));
    let stored: u64 =
        files_below(&place.join("objects")).iter().map(|file| fs::metadata(file).unwrap().len()).sum();
    assert!(stored <= new(&first) + new(&second));
    let expected = everything(&server.client());
    let told = printed(&["backup", "delete", "--from", text_of(&place), "--id", id_of(&first)], 0);
    assert!(told.contains(id_of(&first)), "{told}");
    printed(&["backup", "check", "--from", text_of(&place)], 0);
    let restored = directory.path().join("restored");
    restore(&place, id_of(&second), &restored);
    assert_eq!(everything_in(&restored), expected);

    fill(&server.client(), "c", 402..404, 100);
    let third = create(&server, &place);
    let kept = printed(&["backup", "delete", "--from", text_of(&place), "--keep", "1"], 0);
    assert!(kept.contains(id_of(&second)), "{kept}");
    assert_eq!(list(&place).iter().map(id_of).collect::<Vec<_>>(), [id_of(&third)]);
    assert!(
        printed(&["backup", "delete", "--from", text_of(&place), "--keep", "1"], 0)
            .contains("nothing to delete")
    );
    // The contents that a damaged backup needs are unknown.
    let fourth = create(&server, &place);
    let contents = files_below(&place.join("objects"));
    let good = flip(&place.join(format!("backups/{}.manifest", id_of(&third))));
    let told = printed(&["backup", "delete", "--from", text_of(&place), "--id", id_of(&fourth)], 0);
    assert!(told.contains("no shared files were removed"), "{told}");
    assert_eq!(files_below(&place.join("objects")), contents);
    fs::write(place.join(format!("backups/{}.manifest", id_of(&third))), good).unwrap();
    printed(&["backup", "delete", "--from", text_of(&place), "--id", id_of(&third)], 0);
    assert!(files_below(&place.join("objects")).is_empty());
    assert_eq!(printed(&["backup", "list", "--from", text_of(&place)], 0), "no backups\n");
}

#[test]
fn a_disk_that_takes_no_more_leaves_no_backup_and_a_healthy_server() {
    let directory = directory();
    let (data, place) = (directory.path().join("data"), directory.path().join("backups"));
    let server = options(&data, 1).start();
    server.expects_log("a backup ends");
    make_everything(&server.client());
    // A file may have 64 KiB at most; beyond that writes fail, as on a full disk.
    let script = r#"trap "" XFSZ; ulimit -f 128; exec "$@""#;
    let arguments = ["backup", "create", "--to", text_of(&place), "--endpoint", &endpoint(&server)];
    let mut shell = crate::support::program_without_variables("sh", &["-c", script, "sh"]);
    let text = refused(shell.arg(env!("CARGO_BIN_EXE_shardlake")).args(arguments));
    assert!(text.contains("cannot be written"), "{text}");
    assert!(list(&place).is_empty() && files_below(&place.join("objects")).is_empty());
    assert!(kept_states(&data).is_empty(), "the server was told");
    assert_healthy(&server);
    fill(&server.client(), "c", 500..501, 100);
    let backup = create(&server, &place);
    let restored = directory.path().join("restored");
    restore(&place, id_of(&backup), &restored);
    verify(&[text_of(&restored)]);
}

#[test]
fn keys_are_in_a_backup_only_when_they_are_asked_for() {
    let directory = directory();
    let (data, place) = (directory.path().join("data"), directory.path().join("backups"));
    let keys = directory.path().join("my-keys.json");
    let key = shardlake_testkit::EMULATOR_KEY;
    fs::write(&keys, json!({ "primary": key }).to_string()).unwrap();
    let server = options(&data, 1).start();
    server.expects_log("a backup ends");
    make_everything(&server.client());
    let without = create(&server, &place);
    let paths = paths_of(&place, id_of(&without));
    assert!(paths.iter().all(|path| path == "account.json" || path.starts_with("shard/")), "{paths:?}");
    let with_keys =
        ["backup", "create", "--json", "--to", text_of(&place), "--with-keys", text_of(&keys), "--endpoint"];
    let with: Value =
        serde_json::from_str(&printed(&[&with_keys[..], &[&endpoint(&server)]].concat(), 0)).unwrap();
    assert_eq!((&without["holdsKeys"], &with["holdsKeys"]), (&json!(false), &json!(true)));
    let restored = directory.path().join("restored");
    let told = restore(&place, id_of(&with), &restored);
    assert!(told.contains("account keys are in"), "{told}");
    assert_eq!(fs::read(restored.join("keys.json")).unwrap(), fs::read(&keys).unwrap());
    assert_eq!(fs::metadata(restored.join("keys.json")).unwrap().permissions().mode() & 0o777, 0o600);
    for file in files_below(&place) {
        let mode = fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{}: others may not read it", file.display());
    }
    fs::write(&keys, "secret").unwrap();
    let text = complaint(&[&with_keys[..], &[&endpoint(&server)]].concat());
    assert!(text.contains("my-keys.json"), "{text}");
}

#[test]
fn hostile_ids_paths_and_directories_are_refused() {
    let directory = directory();
    let (data, place) = (directory.path().join("data"), directory.path().join("backups"));
    let server = options(&data, 1).start();
    let _database = server.client().create_database("db").expect_status(201);
    let backup = create(&server, &place);
    for id in ["../../etc", "a/b", "..", "", ".hidden", "a.manifest"] {
        let target = directory.path().join("restored");
        let output = command(&["backup", "restore", "--from", text_of(&place), "--id", id, "--data-dir"])
            .arg(&target)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{id}");
        assert!(!target.exists());
    }
    let text = complaint(&["backup", "check", "--from", text_of(&place), "--id", "nobody"]);
    assert!(text.contains("there is no backup 'nobody'") && text.contains("shardlake backup list"), "{text}");

    // A manifest with a good checksum and a path out of the directory, and a manifest under the name of another.
    let manifest = place.join(format!("backups/{}.manifest", id_of(&backup)));
    let text = fs::read_to_string(&manifest).unwrap();
    let json = text.split_once('\n').unwrap().1.replace("shard/FORMAT", "shard/../../escaped");
    let evil = place.join("backups/evil.manifest");
    let sum = sha256(json.as_bytes());
    fs::write(&evil, format!("shardlake backup 1 sha256 {sum}\n{json}")).unwrap();
    let target = directory.path().join("restored");
    let restore =
        ["backup", "restore", "--from", text_of(&place), "--id", "evil", "--data-dir", text_of(&target)];
    assert!(complaint(&restore).contains("names a file that no data directory has"));
    fs::copy(&manifest, &evil).unwrap();
    assert!(complaint(&restore).contains("is that of another backup"));
    assert!(!target.exists() && !directory.path().join("escaped").exists());
    fs::remove_file(&evil).unwrap();

    // Directories that are something else are left as they are.
    let other = directory.path().join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("photo"), "x").unwrap();
    let text = complaint(&["backup", "create", "--to", text_of(&other), "--endpoint", &endpoint(&server)]);
    assert!(text.contains("holds something else than backups"), "{text}");
    for what in ["list", "check"] {
        assert!(complaint(&["backup", what, "--from", text_of(&other)]).contains("holds no backups"));
    }
    assert!(
        complaint(&["backup", "delete", "--from", text_of(&other), "--keep", "1"])
            .contains("holds no backups")
    );
    let text = complaint(&["backup", "restore", "--from", text_of(&place), "--data-dir", text_of(&other)]);
    assert!(text.contains("is not empty"), "{text}");
    assert_eq!(files_below(&other), [other.join("photo")]);
    for arguments in [&["backup"] as &[&str], &["backup", "create"], &["backup", "delete", "--from", "x"]] {
        assert_eq!(command(arguments).output().unwrap().status.code(), Some(2), "{arguments:?}");
    }
}

#[test]
fn the_interface_gives_states_to_full_keys_alone_and_never_hears_a_path() {
    let directory = directory();
    let keys = directory.path().join("keys.json");
    let read_only = "cmVhZC1vbmx5LWtleS1vZi1hLXRlc3Q=";
    let full = shardlake_testkit::EMULATOR_KEY;
    fs::write(&keys, json!({ "primary": full, "primaryReadonly": read_only }).to_string()).unwrap();
    let data = directory.path().join("data");
    let mut arguments = command(&["serve", "--listen=127.0.0.1:0", "--log-level=error", "--data-dir"]);
    let server = crate::support::Started::new(arguments.arg(&data).arg("--key-file").arg(&keys));
    let (owner, reader) = (Client::new(server.address(), full), Client::new(server.address(), read_only));
    let path = "/_shardlake/v1/backups";
    let send = |client: &Client, method: &str, path: &str| client.request(method, path, &[], b"");
    assert_eq!(send(&reader, "POST", path).status, 403);
    let begun = send(&owner, "POST", path).expect_status(201).json();
    let id = begun["id"].as_str().unwrap();
    assert_eq!(id.len(), 32);
    let piece = format!("{path}/{id}/shards/0/files/0/0");
    assert_eq!(send(&reader, "GET", &piece).status, 403);
    assert_eq!(send(&reader, "DELETE", &format!("{path}/{id}")).status, 403);
    let read = send(&owner, "GET", &piece).expect_status(200);
    assert_eq!(read.body, b"FJL\x03");
    assert_eq!(read.header("content-type"), Some("application/octet-stream"));
    for (rest, status) in [
        ("/shards/0/files/9999/0", 404),
        ("/shards/64/files/0/0", 404),
        ("/shards/0/files/0/-1", 400),
        ("/shards/0/files/..%2F..%2Fkeys.json/0", 400),
        ("/files/0/0", 404),
    ] {
        assert_eq!(send(&owner, "GET", &format!("{path}/{id}{rest}")).status, status, "{rest}");
    }
    for hostile in ["..%2F..", "%2e%2e", "0", "backup-0"] {
        assert_eq!(send(&owner, "DELETE", &format!("{path}/{hostile}")).status, 404, "{hostile}");
    }
    assert_eq!(send(&owner, "GET", path).status, 405);
    let _ended = send(&owner, "DELETE", &format!("{path}/{id}")).expect_status(204);
    assert_eq!(send(&owner, "GET", &piece).status, 404);
    assert!(kept_states(&data).is_empty());
}

#[test]
fn an_account_in_memory_is_refused_by_name() {
    let directory = directory();
    let place = directory.path().join("backups");
    let server = in_memory().start();
    let text = complaint(&["backup", "create", "--to", text_of(&place), "--endpoint", &endpoint(&server)]);
    assert!(text.contains("no files on a local disk"), "{text}");
    assert!(list(&place).is_empty());
    let nobody =
        complaint(&["backup", "create", "--to", text_of(&place), "--endpoint", "http://127.0.0.1:1"]);
    assert!(nobody.contains("no connection"), "{nobody}");
}

#[test]
fn a_backup_over_tls_is_like_any_other() {
    let directory = directory();
    let (data, place) = (directory.path().join("data"), directory.path().join("backups"));
    let server = options(&data, 1).start();
    make_everything(&server.client());
    let ca = directory.path().join("ca.pem");
    fs::write(&ca, crate::support::ca_of(&server)).unwrap();
    let endpoint = format!("https://localhost:{}", server.address().port());
    printed(
        &["backup", "create", "--to", text_of(&place), "--endpoint", &endpoint, "--ca-file", text_of(&ca)],
        0,
    );
    printed(&["backup", "check", "--from", text_of(&place)], 0);
    let again = create_at(&crate::backup_support::endpoint(&server), &place);
    assert!(again["newBytes"].as_u64().unwrap() * 10 < again["sizeBytes"].as_u64().unwrap(), "{again}");
}
