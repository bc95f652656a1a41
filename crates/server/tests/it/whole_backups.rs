//! Logs with a lost object, and backups that are no whole account: `verify`, `backup create`, `backup check` and `backup restore`
//! refuse each by the name of the missing file.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::backup_support::{
    complaint, create, directory, files_below, fill, id_of, make_container, options, printed, sha256, text_of,
};
#[cfg(feature = "object-storage")]
use crate::{backup_support::verify, stores::Account};

fn manifest_of(place: &Path, id: &str) -> PathBuf {
    place.join(format!("backups/{id}.manifest"))
}

/// Changes the manifest of a backup, and gives it the right checksum. Returns the former content.
fn forge(place: &Path, id: &str, change: impl FnOnce(&mut Value)) -> String {
    let path = manifest_of(place, id);
    let good = fs::read_to_string(&path).unwrap();
    let mut manifest: Value = serde_json::from_str(good.split_once('\n').unwrap().1).unwrap();
    change(&mut manifest);
    let json = format!("{manifest:#}\n");
    fs::write(&path, format!("shardlake backup 1 sha256 {}\n{json}", sha256(json.as_bytes()))).unwrap();
    good
}

fn without(manifest: &mut Value, is_gone: impl Fn(&str) -> bool) {
    manifest["files"].as_array_mut().unwrap().retain(|file| !is_gone(file["path"].as_str().unwrap()));
}

/// A list of files that is no account is refused before anything is made; a record that names more than there is, before it is served.
#[test]
fn forged_backups_are_refused_by_name_by_check_and_by_restore() {
    let directory = directory();
    let (data, place) = (directory.path().join("data"), directory.path().join("backups"));
    let mut server = options(&data, 2).start();
    let _database = server.client().create_database("db").expect_status(201);
    make_container(&server.client(), "c");
    fill(&server.client(), "c", 0..20, 100);
    let backup = create(&server, &place);
    server.kill();
    let id = id_of(&backup);
    type Change = fn(&mut Value);
    let forgeries: [(&str, Change, &str); 10] = [
        ("no files", |manifest| manifest["files"] = json!([]), "'account.json'"),
        ("no shards", |manifest| manifest["shards"] = json!(0), "has 0 shards"),
        ("many shards", |manifest| manifest["shards"] = json!(65_535), "has 65535 shards"),
        ("fewer shards", |manifest| manifest["shards"] = json!(1), "1 shards"),
        ("more shards", |manifest| manifest["shards"] = json!(3), "'shard-2/FORMAT'"),
        (
            "no journal",
            |manifest| without(manifest, |path| path.ends_with(".jnl")),
            "no journal in 'shard/db'",
        ),
        ("no format", |manifest| without(manifest, |path| path == "shard-1/FORMAT"), "'shard-1/FORMAT'"),
        (
            "no catalog",
            |manifest| without(manifest, |path| path == "shard/db/keyspaces/0/current"),
            "keyspaces/0/current",
        ),
        ("no shard", |manifest| without(manifest, |path| path.starts_with("shard/")), "'shard/FORMAT'"),
        (
            "another journal",
            |manifest| rename(manifest, "shard-1/db/0.jnl", "shard-1/db/7.jnl"),
            "db/0.jnl' is missing",
        ),
    ];
    for (what, change, word) in forgeries {
        let good = forge(&place, id, change);
        let found = printed(&["backup", "check", "--from", text_of(&place)], 1);
        assert!(found.contains(word), "{what}: {found}");
        let target = directory.path().join(what);
        let said = complaint(&[
            "backup",
            "restore",
            "--from",
            text_of(&place),
            "--id",
            id,
            "--data-dir",
            text_of(&target),
        ]);
        assert!(said.contains(word), "{what}: {said}");
        let is_served = target.exists() && !target.join("RESTORING").exists();
        assert!(!is_served, "{what}: {:?}", files_below(&target));
        fs::write(manifest_of(&place, id), good).unwrap();
    }
    printed(&["backup", "check", "--from", text_of(&place)], 0);
}

fn rename(manifest: &mut Value, from: &str, to: &str) {
    let files = manifest["files"].as_array_mut().unwrap();
    let file = files.iter_mut().find(|file| file["path"] == from).expect("the backup has it");
    file["path"] = json!(to);
}

/// 40 acknowledged writes in the log alone, one object each.
#[cfg(feature = "object-storage")]
#[test]
fn lost_object_of_the_log_of_a_killed_server_is_named_by_all_who_read_the_account() {
    let account = Account::new();
    let mut server = account.node("one", &["--shards=1"]).start();
    let _database = server.client().create_database("db").expect_status(201);
    make_container(&server.client(), "c");
    fill(&server.client(), "c", 0..40, 100);
    server.kill();
    let url = account.url();
    let place = account.path("backups");
    verify(&[&url]);
    let made = printed(&["backup", "create", "--json", "--store", &url, "--to", text_of(&place)], 0);
    let made: Value = serde_json::from_str(&made).unwrap();
    let id = id_of(&made);
    let mut log = files_below(&account.path("account/s/00000-1/wal"));
    log.sort();
    let (count, names) =
        (log.len(), |lost: usize| log[lost].file_name().unwrap().to_str().unwrap().to_owned());
    assert!(count > 40, "{log:?}");
    for lost in [count / 2, count - 2, count - 4, count - 13, count - 31] {
        let (name, away) = (names(lost), account.path("away"));
        fs::rename(&log[lost], &away).unwrap();
        let said = complaint(&["verify", &url]);
        assert!(said.contains(&name) && said.contains("is missing from the log"), "{lost}: {said}");
        let said = complaint(&["backup", "create", "--store", &url, "--to", text_of(&account.path("none"))]);
        assert!(said.contains(&name), "{lost}: {said}");
        fs::rename(&away, &log[lost]).unwrap();
        // A backup that an earlier version made of such a log.
        let good = forge(&place, id, |manifest| without(manifest, |path| path.ends_with(&name)));
        let found = printed(&["backup", "check", "--from", text_of(&place)], 1);
        assert!(found.contains(&name), "{lost}: {found}");
        let target = format!("{url}-restored-{lost}");
        let said =
            complaint(&["backup", "restore", "--from", text_of(&place), "--id", id, "--store", &target]);
        assert!(said.contains(&name), "{lost}: {said}");
        fs::write(manifest_of(&place, id), good).unwrap();
    }
    // A start names the object as well, and stores no fence in its place; with the object it is the account again.
    let (lost, away) = (count - 20, account.path("away"));
    fs::rename(&log[lost], &away).unwrap();
    assert!(account.refused("two").contains(&names(lost)));
    fs::rename(&away, &log[lost]).unwrap();
    verify(&[&url]);
    printed(&["backup", "check", "--from", text_of(&place)], 0);
}
