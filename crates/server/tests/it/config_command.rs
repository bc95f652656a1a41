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
    assert_eq!(of("idle-seconds"), (json!(300), "default".to_owned()));
    let shards = "default: as many as the data directory has; 1 in a new one".to_owned();
    assert_eq!(of("shards"), (Value::Null, shards), "words are no value");
    assert_eq!(of("disk-cache-bytes"), (json!("10GiB"), "default".to_owned()));
    assert_eq!(of("data-dir"), (Value::Null, "default".to_owned()), "nothing is stored");
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

#[test]
fn emulator_arguments_are_taken_and_the_listeners_of_the_mode_are_printed() {
    let arguments =
        ["config", "print", "--json", "--emulator", "--port", "9000", "--enable-explorer", "false"];
    let output = command(&arguments).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    let listen = json!({ "value": ["0.0.0.0:9000", "0.0.0.0:8080"], "source": "emulator mode" });
    assert_eq!(printed["listen"], listen);
    assert_eq!(printed["explorer"], json!({ "value": "off", "source": "emulator mode" }));
    let wrong = refused(&mut command(&["config", "check", "--emulator", "--port", "x"]));
    assert!(wrong.contains("--port 'x' is no port"), "{wrong}");
}

#[test]
fn errors_of_settings_name_the_key_and_the_remedy() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("shardlake.toml");
    let of_file = |text: &str| {
        std::fs::write(&file, text).unwrap();
        refused(&mut command(&["config", "check", "--config", file.to_str().unwrap()]))
    };
    for (text, words) in [
        ("clock-skew = \"x\"\n", "line 1: `clock-skew`: invalid type: string \"x\""),
        ("# c\nlisten = 5\n", "line 2: `listen`: write a text"),
        ("durability = \"x\"\n", "line 1: `durability`: unknown variant `x`"),
        ("port = 9000\n", "`listen`, such as 127.0.0.1:9000"),
        ("durabilty = \"sync\"\n", "line 1: unknown setting `durabilty`: did you mean `durability`?"),
    ] {
        let message = of_file(text);
        assert!(message.contains(words), "{words}: {message}");
    }
    let port = refused(command(&["config", "check"]).env("SHARDLAKE_PORT", "9000"));
    assert!(port.contains("SHARDLAKE_PORT") && port.contains("SHARDLAKE_LISTEN"), "{port}");
    let of_kubernetes =
        command(&["config", "check"]).env("SHARDLAKE_PORT", "tcp://10.0.0.1:8081").output().unwrap();
    assert!(of_kubernetes.status.success(), "{of_kubernetes:?}");
    let file = refused(&mut command(&["verify", file.to_str().unwrap()]));
    assert!(
        file.contains("is a file, not a directory: name the data directory") && !file.contains("--data-dir"),
        "{file}"
    );
}

#[test]
fn wrong_command_lines_get_tips_that_help() {
    let complaint = |arguments: &[&str]| {
        let output = command(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let port = complaint(&["serve", "--port", "9000"]);
    assert!(port.contains("--listen 127.0.0.1:9000") && !port.contains("--explorer"), "{port}");
    let near = complaint(&["serve", "--durabilty", "sync"]);
    assert!(near.contains("'--durability'"), "{near}");
    let beginning = complaint(&["serve", "--write-buffer", "1MiB"]);
    assert!(beginning.contains("'--write-buffer-size'"), "{beginning}");
    let far = complaint(&["serve", "--replicas", "3"]);
    assert!(far.contains("'--replicas'") && !far.contains("similar"), "{far}");
    let demo = complaint(&["demo"]);
    for words in [
        "shardlake demo webstore",
        "shardlake demo hot-tenant",
        "shardlake demo split",
        "shardlake demo --help",
    ] {
        assert!(demo.contains(words), "{words}: {demo}");
    }
}
