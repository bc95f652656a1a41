//! `shardlake config`: settings checked and printed, with the place of each.

use serde_json::{Value, json};

use crate::support::{command, refused};

#[test]
fn each_setting_is_printed_with_the_place_that_it_comes_from() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("shardlake.toml");
    std::fs::write(
        &file,
        "clock-skew = 5\ndurability = \"async\"\notlp-endpoint = \"http://me:secret@host:4318/\"\n",
    )
    .unwrap();
    let file = file.to_str().unwrap();
    let print = |more: &[&str]| {
        let mut command = command(&["config", "print", "--config", file, "--durability=memory"]);
        let output = command.env("SHARDLAKE_CACHE_SIZE", "1MiB").args(more).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let printed: Value = serde_json::from_str(&print(&["--json"])).unwrap();
    let of =
        |name: &str| (printed[name]["value"].clone(), printed[name]["source"].as_str().unwrap().to_owned());
    assert_eq!(of("durability"), (json!("memory"), "flag".to_owned()));
    assert_eq!(of("cache-size"), (json!(1 << 20), "variable SHARDLAKE_CACHE_SIZE".to_owned()));
    assert_eq!(of("clock-skew"), (json!(5), format!("file {file}")));
    assert_eq!(of("idle-seconds"), (json!("300"), "default".to_owned()));
    assert_eq!(of("otlp-endpoint").0, "http://****@host:4318/");
    let table = print(&[]);
    let row = table.lines().find(|line| line.starts_with("durability ")).expect("a row");
    assert_eq!(row.split_whitespace().collect::<Vec<_>>(), ["durability", "memory", "flag"]);
    assert!(!table.contains("secret"), "{table}");
}

#[test]
fn wrong_settings_and_files_are_reported_without_a_start() {
    let place = tempfile::tempdir().unwrap();
    let keys = place.path().join("keys.json");
    std::fs::write(&keys, r#"{"primary":"$$"}"#).unwrap();
    let data = place.path().join("data");
    let check = |more: &[&str]| {
        let mut command = command(&["config", "check", "--data-dir", data.to_str().unwrap()]);
        command.args(more);
        command
    };
    let good = check(&[]).output().unwrap();
    assert_eq!((good.status.code(), good.stdout.as_slice()), (Some(0), &b"the settings are good\n"[..]));
    let keys = keys.to_str().unwrap();
    for (arguments, words) in [
        (&["--shards=65"][..], "--shards"),
        (&["--key-file", keys], "keys.json"),
        (&["--tls-cert=/nowhere/c.pem", "--tls-key=/nowhere/k.pem"], "/nowhere/c.pem"),
        (&["--seed=/nowhere/seed.json"], "/nowhere/seed.json"),
        (&["--listen=8081"], "8081"),
    ] {
        let message = refused(&mut check(arguments));
        assert!(message.contains(words), "{words}: {message}");
    }
    let misspelled = refused(check(&[]).env("SHARDLAKE_DURABILTY", "sync"));
    assert!(misspelled.contains("SHARDLAKE_DURABILITY"), "{misspelled}");
    assert!(!data.exists(), "nothing was made");
}
