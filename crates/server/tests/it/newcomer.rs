//! A new user's first minutes: the texts of commands, of the page for browsers, and of mistakes.

use std::path::Path;
use std::process::Output;

use serde_json::json;
use shardlake_testkit::ServerProcess;

use crate::support::{PATIENCE, Started, answer_at, command, in_memory, on_disk, refused, run};

#[track_caller]
fn text(output: &Output) -> &str {
    assert!(output.status.success(), "{output:?}");
    std::str::from_utf8(&output.stdout).unwrap()
}

#[test]
fn help_and_version_are_commands_too() {
    let outputs = [["--help"], ["help"]].map(|arguments| run(&arguments));
    assert_eq!(text(&outputs[0]), text(&outputs[1]));
    let outputs = [["--version"], ["version"]].map(|arguments| run(&arguments));
    assert_eq!(text(&outputs[0]), text(&outputs[1]));
    let version = text(&outputs[0]);
    let first = format!("shardlake {}", env!("CARGO_PKG_VERSION"));
    assert_eq!(version.lines().next(), Some(first.as_str()));
    for fact in ["\ncommit: ", "\nprofile: ", "\nfeatures: ", "\ntarget: "] {
        assert_eq!(version.matches(fact).count(), 1, "{fact:?} in {version}");
    }
    assert_eq!(text(&run(&["-V"])).trim_end(), first, "the short form is one line");
    for command in ["serve", "demo", "partitions", "sql", "import", "export", "verify"] {
        let outputs = [["help", command], [command, "--help"]].map(|arguments| run(&arguments));
        assert_eq!(text(&outputs[0]), text(&outputs[1]), "{command}");
    }
    assert_eq!(run(&["help", "srve"]).status.code(), Some(2));
}

#[test]
fn shells_complete_every_command_and_manual_pages_explain_them() {
    let commands = [
        "serve",
        "demo",
        "backup",
        "migrate",
        "verify",
        "partitions",
        "sql",
        "import",
        "export",
        "top",
        "support-bundle",
        "completions",
    ];
    for shell in ["bash", "zsh", "fish"] {
        let output = run(&["completions", shell]);
        let script = text(&output);
        for command in commands {
            assert!(script.contains(command), "{shell} does not complete {command}");
        }
        assert!(script.contains("data-dir"), "{shell} does not complete flags");
    }
    assert_eq!(run(&["completions", "cmd.exe"]).status.code(), Some(2));
    let directory = tempfile::TempDir::new().unwrap();
    let pages = run(&["man", "--to", directory.path().to_str().unwrap()]);
    assert_eq!(text(&pages), "");
    let page = |name: &str| std::fs::read_to_string(directory.path().join(name)).unwrap();
    assert!(page("shardlake.1").contains("shardlake\\-serve(1)"));
    assert!(page("shardlake-serve.1").contains("\\-\\-data\\-dir"));
    assert!(!directory.path().join("shardlake-man.1").exists(), "hidden commands have no page");
}

#[test]
fn a_browser_is_told_what_this_is_and_how_to_connect() {
    let server = in_memory().argument("--explorer=off").start();
    let ask = |lines: &str| {
        let head = format!("GET / HTTP/1.1\r\nhost: localhost:8081\r\n{lines}connection: close\r\n\r\n");
        answer_at(server.address(), &head)
    };
    let accept = "accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n";
    let page = ask(accept);
    assert!(page.starts_with("HTTP/1.1 200") && page.contains("content-type: text/html"), "{page}");
    for words in
        ["Shardlake", "http://localhost:8081/", "azure-cosmos", "@azure/cosmos", "/readyz", "/metrics"]
    {
        assert!(page.contains(words), "{words} in {page}");
    }
    // Clients are answered as ever.
    for lines in
        ["", "accept: application/json\r\n", "accept: */*\r\n", &format!("{accept}authorization: type\r\n")]
    {
        let answer = ask(lines);
        assert!(
            answer.starts_with("HTTP/1.1 401") && answer.contains("application/json"),
            "{lines}: {answer}"
        );
    }
    let account = server.client().get("/", &[("accept", "text/html")]).expect_status(200).json();
    assert_eq!(account["id"], "localhost");
}

#[test]
fn a_data_directory_that_is_a_file_is_told_as_such() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("a-file");
    std::fs::write(&file, "text").unwrap();
    let path = file.to_str().unwrap();
    let below = file.join("data");
    for (arguments, words) in [
        (vec!["serve", "--listen=127.0.0.1:0", "--data-dir", path], "is a file, not a directory"),
        (vec!["verify", path], "is a file, not a directory"),
        (
            vec!["serve", "--listen=127.0.0.1:0", "--data-dir", below.to_str().unwrap()],
            "a-file' is a file, not a directory",
        ),
        (vec!["verify", below.to_str().unwrap()], "a-file' is a file, not a directory"),
        (vec!["verify", "/nowhere/at-all"], "does not exist"),
    ] {
        let message = refused(&mut command(&arguments));
        assert!(message.contains(words) && !message.contains("os error"), "{arguments:?}: {message}");
    }
}

fn endpoint(server: &ServerProcess) -> String {
    format!("http://{}", server.address())
}

#[test]
fn operators_read_plain_words_with_what_to_do() {
    let server = in_memory().start();
    let client = server.client();
    let _created = client.create_database("shop").expect_status(201);
    let _created = client.create_container("shop", "orders", "/customer").expect_status(201);
    let endpoint = endpoint(&server);
    for (arguments, words) in [
        (
            &["partitions", "shops/orders"] as &[&str],
            "there is no database 'shops': `shardlake partitions` shows",
        ),
        (&["partitions", "shop/order"], "there is no container 'order': `shardlake partitions` shows"),
        (&["split", "shop/none", "0"], "there is no container 'none'"),
        (&["redistribute", "shop/none", "--equal"], "there is no container 'none'"),
        (&["abort", "none/none"], "there is no database 'none'"),
        (&["split", "shop/orders", "9"], "there is no partition 9: `shardlake partitions shop/orders` shows"),
        (&["move", "shop/orders", "9", "0"], "there is no partition 9"),
        (&["merge", "shop/orders", "0", "9"], "there is no partition 9"),
        (
            &["projections", "show", "none"],
            "there is no projection 'none': `shardlake projections list` shows",
        ),
        (&["partitions", "shop/orders", "--key", "AAAA"], "does not accept the key"),
    ] {
        let output = command(arguments).args(["--endpoint", &endpoint]).output().unwrap();
        let complaint = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), complaint.lines().count()), (Some(1), 1), "{complaint}");
        assert!(complaint.contains(words), "{arguments:?}: {complaint}");
        for protocol in ["Owner resource", "Entity with", "requested resource", "404", "410", "Gone", "401"] {
            assert!(!complaint.contains(protocol), "{arguments:?}: {complaint}");
        }
    }
    let shown = command(&["partitions", "shop/orders", "--endpoint", &endpoint]).output().unwrap();
    let shown = text(&shown);
    assert!(shown.contains("0 items, 0 B; 1 partition, generation"), "{shown}");
    let item = json!({ "id": "1", "customer": "ada" });
    let _created = client.create_item("shop", "orders", &json!(["ada"]), &item).expect_status(201);
    let shown = command(&["partitions", "shop/orders", "--endpoint", &endpoint]).output().unwrap();
    assert!(text(&shown).contains("1 item, "), "{shown:?}");
}

/// The directories that a command leaves in the one it was started in and in the user's home.
#[track_caller]
fn entries(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn a_demo_stores_under_the_users_data_home_and_says_where() {
    let (here, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let demo = || {
        let mut demo = command(&["demo", "webstore", "--customers=1", "--listen=127.0.0.1:0"]);
        demo.current_dir(here.path()).env("HOME", home.path()).env_remove("XDG_DATA_HOME");
        demo
    };
    let started = Started::new(&mut demo());
    let place = home.path().join(".local/share/shardlake/demo-webstore");
    assert_eq!(started.record["data_dir"].as_str(), place.to_str());
    drop(started);
    let started = Started::new(demo().env("XDG_DATA_HOME", home.path().join("data")));
    assert_eq!(
        started.record["data_dir"].as_str(),
        home.path().join("data/shardlake/demo-webstore").to_str()
    );
    drop(started);
    let asked = here.path().join("asked");
    let started = Started::new(demo().arg("--data-dir").arg(&asked));
    assert_eq!(started.record["data_dir"].as_str(), asked.to_str());
    drop(started);
    assert_eq!(entries(here.path()), ["asked"], "nothing else was stored here");
    let homeless = refused(demo().env_remove("HOME"));
    assert!(homeless.contains("--data-dir"), "{homeless}");
}

#[test]
fn a_split_by_size_can_be_watched_with_one_command() {
    let here = tempfile::tempdir().unwrap();
    let output = command(&["demo", "split"]).current_dir(here.path()).output().unwrap();
    let shown = text(&output);
    for words in ["1 partition", "2 partitions", "is about to be split", "split of 0 into 1, 2"] {
        assert!(shown.contains(words), "{words} in\n{shown}");
    }
    assert!(entries(here.path()).is_empty(), "it stores nothing");
}

#[test]
fn foreign_files_in_a_new_data_directory_are_named_at_the_start() {
    let directory = tempfile::tempdir().unwrap();
    for name in ["notes.txt", "photo.jpg"] {
        std::fs::write(directory.path().join(name), "x").unwrap();
    }
    let mut server = on_disk().data_dir(directory.path()).start();
    assert!(server.log().contains("files=notes.txt, photo.jpg"), "{}", server.log());
    assert!(server.terminate(PATIENCE).success());
    let server = on_disk().data_dir(directory.path()).start();
    assert!(!server.log().contains("notes.txt"), "it is a data directory by then: {}", server.log());
}

#[test]
fn a_directory_of_backups_is_no_data_directory() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("FORMAT"), "shardlake backups 1\n").unwrap();
    let path = directory.path().to_str().unwrap();
    let message = refused(&mut command(&["serve", "--listen=127.0.0.1:0", "--data-dir", path]));
    assert!(message.contains("holds backups") && message.contains("backup restore --from"), "{message}");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1, "nothing was made");
}

#[test]
fn a_misspelled_log_level_is_refused() {
    for level in ["warning", "loud", "info,verbose"] {
        let message = refused(&mut command(&["serve", "--listen=127.0.0.1:0", "--log-level", level]));
        assert!(message.contains("is no level") && message.contains("warn"), "{message}");
    }
}

#[test]
fn a_mark_of_a_newer_version_is_not_called_damaged() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    assert!(on_disk().data_dir(&data).start().terminate(PATIENCE).success());
    let file = data.join("account.json");
    let written = std::fs::read_to_string(&file).unwrap();
    let path = data.to_str().unwrap();
    let serve = ["serve", "--listen=127.0.0.1:0", "--data-dir", path];
    std::fs::write(&file, written.replacen('{', "{\"replicas\":3,", 1)).unwrap();
    let message = refused(&mut command(&serve));
    assert!(message.contains("of another version") && !message.contains("damaged"), "{message}");
    std::fs::write(&file, &written[..written.len() / 2]).unwrap();
    let message = refused(&mut command(&serve));
    assert!(message.contains("is damaged") && message.contains("remove it"), "{message}");
    std::fs::write(&file, &written).unwrap();
    drop(on_disk().data_dir(&data).start());
}

#[test]
fn frequent_mistakes_in_queries_get_advice() {
    let server = in_memory().start();
    let client = server.client();
    let _database = client.create_database("db").expect_status(201);
    let _container = client.create_container("db", "c", "/pk").expect_status(201);
    let query = json!({ "query": "SELECT * FROM c WHERE type = 'x'", "parameters": [] });
    let headers = [
        ("x-ms-documentdb-isquery", "True"),
        ("content-type", "application/query+json"),
        ("x-ms-documentdb-query-enablecrosspartition", "True"),
    ];
    let answer = client.post_json("/dbs/db/colls/c/docs", &headers, &query).expect_status(400);
    let message = answer.json()["message"].as_str().unwrap().to_owned();
    assert!(
        message.contains("SC2001") && message.contains("\"hint\":\"write c.type for a property"),
        "{message}"
    );
}
