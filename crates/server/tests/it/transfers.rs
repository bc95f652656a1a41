//! `shardlake export` and `shardlake import`: items out of and into files.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::{Output, Stdio};

use rustix::process::Signal;
use serde_json::{Value, json};
use shardlake_testkit::bucket::{Fault, Weather};
use shardlake_testkit::{FaultProxy, ServerProcess};

use crate::command_at_terminal::{Terminal, half_a_server};
use crate::support::{command, in_memory};

fn server_with_container() -> ServerProcess {
    let server = in_memory().start();
    let client = server.client();
    let _database = client.create_database("d").expect_status(201);
    let _container = client.create_container("d", "c", "/pk").expect_status(201);
    server
}

fn run(server: &ServerProcess, arguments: &[&str]) -> Output {
    let endpoint = format!("http://{}", server.address());
    command(arguments).args(["--endpoint", &endpoint]).output().unwrap()
}

#[track_caller]
fn done(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[track_caller]
fn complaint(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn export(server: &ServerProcess, arguments: &[&str]) -> Output {
    run(server, &[&["export", "-d", "d", "-c", "c"], arguments].concat())
}

fn import(server: &ServerProcess, arguments: &[&str]) -> Output {
    run(server, &[&["import", "-d", "d", "-c", "c"], arguments].concat())
}

/// The items of `d/c` as an export writes them.
#[track_caller]
fn lines(server: &ServerProcess) -> BTreeSet<String> {
    let output = export(server, &[]);
    let _count = done(&output);
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn an_export_is_whole_and_replaces_nothing_unasked() {
    let server = server_with_container();
    let client = server.client();
    for number in 0..3 {
        let item = json!({ "id": number.to_string(), "pk": "p", "n": number, "tags": ["ä", { "x": null }] });
        let _created = client.create_item("d", "c", &json!(["p"]), &item).expect_status(201);
    }
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let exported = done(&export(&server, &[&file("a.jsonl")]));
    assert!(exported.contains("exported 3 items ") && exported.contains(" of d/c to "), "{exported}");
    let text = fs::read_to_string(file("a.jsonl")).unwrap();
    assert_eq!(text.lines().next(), Some(r#"{"id":"0","pk":"p","n":0,"tags":["ä",{"x":null}]}"#));
    assert_eq!(text.lines().count(), 3);
    let refused = complaint(&export(&server, &[&file("a.jsonl")]));
    assert!(refused.contains("exists") && refused.contains("--force"), "{refused}");
    let _done = done(&export(&server, &["--force", "--system", "--quiet", &file("a.jsonl")]));
    assert!(fs::read_to_string(file("a.jsonl")).unwrap().contains("\"_etag\""));

    let _done = done(&export(&server, &[&file("a.json")]));
    let items: Value = serde_json::from_str(&fs::read_to_string(file("a.json")).unwrap()).unwrap();
    assert_eq!(items.as_array().map(Vec::len), Some(3));
    let _done = done(&export(&server, &[&file("a.csv")]));
    let csv = fs::read_to_string(file("a.csv")).unwrap();
    assert_eq!(csv.lines().take(2).collect::<Vec<_>>(), ["id,pk,n,tags", r#"0,p,0,"[""ä"",{""x"":null}]""#]);
    let chosen = export(&server, &["--format=csv", "--columns=n,none"]);
    assert_eq!(String::from_utf8_lossy(&chosen.stdout), "n,none\n0,\n1,\n2,\n");
    let query = ["--query", "SELECT VALUE c.n FROM c WHERE c.n > 0 ORDER BY c.n DESC", "--format=json"];
    assert_eq!(String::from_utf8_lossy(&export(&server, &query).stdout), "[\n2,\n1\n]\n");
    let one = ["--partition-key", "\"q\"", "--format=json"];
    assert_eq!(String::from_utf8_lossy(&export(&server, &one).stdout), "[]\n");
    let wrong = ["--query", "SELECT x", &file("b.json")];
    assert!(complaint(&export(&server, &wrong)).contains("SC2001"));
    let mut names: Vec<_> =
        fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["a.csv", "a.json", "a.jsonl"], "nothing is left of the failure");
}

#[test]
fn an_export_is_whole_while_partitions_are_split() {
    let server = server_with_container();
    let client = server.client();
    let filling = "x".repeat(2_000);
    for number in 0..1_500 {
        let key = format!("p{}", number % 97);
        let item = json!({ "id": number.to_string(), "pk": key, "filling": filling });
        let _created = client.create_item("d", "c", &json!([key]), &item).expect_status(201);
    }
    let endpoint = format!("http://{}", server.address());
    let mut exporting = command(&["export", "-d", "d", "-c", "c", "--quiet", "--endpoint", &endpoint]);
    let mut child = exporting.stdout(Stdio::piped()).spawn().unwrap();
    // The pipe is full long before the end: the export waits for its reader, within the feed.
    let mut reader = BufReader::new(child.stdout.take().unwrap());
    let mut text = String::new();
    reader.read_line(&mut text).unwrap();
    let split = run(&server, &["split", "d/c", "0", "--at", "middle"]);
    assert!(split.status.success(), "{split:?}");
    reader.read_to_string(&mut text).unwrap();
    assert!(child.wait().unwrap().success());
    let ids = text.lines().map(|line| {
        let item: Value = serde_json::from_str(line).unwrap();
        item["id"].as_str().unwrap().parse::<u32>().unwrap()
    });
    let mut ids: Vec<u32> = ids.collect();
    ids.sort_unstable();
    assert_eq!(ids, (0..1_500).collect::<Vec<_>>(), "each item once");
}

#[test]
fn an_export_is_imported_as_the_same_items() {
    let server = server_with_container();
    let items = [
        r#"{"id":"big","pk":"p","n":9007199254740993,"most":-9223372036854775808,"third":0.1}"#,
        r#"{"id":"small","pk":"p","n":-1.5e-300,"zero":0,"minus":-7}"#,
        r#"{"id":"ä/😀","pk":"日本","text":"a\u0000\"\\\n","empty":""}"#,
        r#"{"id":"nested","pk":"q","a":[[],{},[{"b":[null,true,false,{"c":{"d":1.25}}]}]]}"#,
        r#"{"id":"null key","pk":null}"#,
        r#"{"id":"number key","pk":12.5}"#,
        r#"{"id":"boolean key","pk":true}"#,
        r#"{"id":"no key"}"#,
    ];
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    fs::write(file("in.jsonl"), items.join("\n")).unwrap();
    let report = done(&import(&server, &[&file("in.jsonl")]));
    assert!(report.contains("8 items, ") && report.contains("imported 8 items into d/c, "), "{report}");
    let first = lines(&server);
    assert_eq!(first.len(), items.len());
    for text in [
        "9007199254740993,\"most\":-9223372036854775808,",
        "\"ä/😀\"",
        "[[],{},[{\"b\":[null,true,false,{\"c\":{\"d\":1.25}}]}]]",
    ] {
        assert!(first.iter().any(|line| line.contains(text)), "{text} in {first:?}");
    }
    for format in ["jsonl", "json"] {
        let exported = file(&format!("out.{format}"));
        let _done = done(&export(&server, &[&exported]));
        let copy = server_with_container();
        let _done = done(&import(&copy, &[&exported]));
        assert_eq!(lines(&copy), first, "{format}");
        let repeated = complaint(&import(&copy, &[&exported]));
        assert!(repeated.contains("an item with this id exists"), "{repeated}");
        let _done = done(&import(&copy, &[&exported, "--mode", "upsert"]));
        assert_eq!(lines(&copy), first, "{format}");
    }
    // The server's properties are replaced by its own.
    let (with_system, copy) = (file("system.jsonl"), server_with_container());
    let _done = done(&export(&server, &["--system", &with_system]));
    let _done = done(&import(&copy, &[&with_system]));
    assert_eq!(lines(&copy), first);
    // An empty container, in each format.
    let empty = server_with_container();
    for format in ["jsonl", "json", "csv"] {
        let exported = file(&format!("empty.{format}"));
        let _done = done(&export(&empty, &[&exported]));
        assert!(done(&import(&empty, &[&exported])).contains("imported 0 items"), "{format}");
    }
}

#[test]
fn numbers_that_cannot_be_held_are_refused_and_never_rounded() {
    let server = server_with_container();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("in.jsonl");
    let items = [
        r#"{"id":"far","pk":"p","n":1e400}"#,
        r#"{"id":"long","pk":"p","n":12345678901234567890}"#,
        r#"{"id":"fine","pk":"p","n":9007199254740993}"#,
    ];
    fs::write(&file, items.join("\n")).unwrap();
    let refused = complaint(&import(&server, &[file.to_str().unwrap(), "--on-error=skip"]));
    assert!(refused.contains("2 items were refused, the first at line 1: "), "{refused}");
    let rejects = fs::read_to_string(directory.path().join("in.jsonl.rejects.jsonl")).unwrap();
    assert!(rejects.contains("send it as a string"), "{rejects}");
    for item in &items[..2] {
        assert!(rejects.contains(&format!("\"item\":{item}")), "{rejects}");
    }
    assert_eq!(lines(&server), [items[2].to_owned()].into());
}

#[test]
fn types_of_csv_are_shown_before_anything_is_written() {
    let server = server_with_container();
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    fs::write(
        file("in.csv"),
        "sku,pk,zip,price,sold,note\n7,a,01234,1.25,true,\n8,b,99999,2,false,\"x,\ny\"\n",
    )
    .unwrap();
    let planned = done(&import(&server, &["--dry-run", "--id-column", "sku", &file("in.csv")]));
    let types = "columns: sku string (id; --type sku=number decides otherwise), pk string (partition key), zip string, price number, sold boolean, note string";
    assert!(planned.contains("2 items, ") && planned.contains(types), "{planned}");
    assert!(lines(&server).is_empty(), "nothing is written");
    let report = done(&import(&server, &["--id-column=sku", "--type=price=string", &file("in.csv")]));
    assert!(report.contains("price string"), "{report}");
    let expected = [
        r#"{"id":"7","sku":"7","pk":"a","zip":"01234","price":"1.25","sold":true}"#,
        r#"{"id":"8","sku":"8","pk":"b","zip":"99999","price":"2","sold":false,"note":"x,\ny"}"#,
    ];
    assert_eq!(lines(&server), expected.map(str::to_owned).into());
    for (arguments, words) in [
        (vec![], "there is no column 'id': name one with --id-column, out of sku, pk"),
        (vec!["--id-column=none"], "no column 'none'"),
        (vec!["--id-column=sku", "--type=none=string"], "no column 'none'"),
    ] {
        let refused = complaint(&import(&server, &[&arguments[..], &[&file("in.csv")]].concat()));
        assert!(refused.contains(words), "{refused}");
    }
    fs::write(file("semicolons.csv"), "id;key\n1;2\n").unwrap();
    let keyless = complaint(&import(&server, &["--delimiter=;", &file("semicolons.csv")]));
    assert!(keyless.contains("partition key is /pk, and there is no column 'pk' among id, key"), "{keyless}");
}

#[test]
fn csv_whose_text_would_be_lost_is_refused_before_anything_is_written() {
    let server = server_with_container();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("in.csv");
    let rows: String = (0..1_200).map(|row| format!("{row},p,{row}.5\n")).collect();
    for (text, words) in [
        (
            "id,pk,t\n1,p,\"open\n2,p,x\n".to_owned(),
            "line 2: a quote that begins a cell there is never closed",
        ),
        ("id,pk,t\n1,p,x\n2,p,\"b\"c\n".to_owned(), "line 3: text follows the closing quote"),
        (
            format!("id,pk,n\n{rows}x,p,1.10\ny,p\n"),
            "line 1202: column n: the first rows are numbers, and '1.10' would lose its text",
        ),
        ("id,pk,\u{1b}[31m\n1,p\n".to_owned(), "line 2: the row has 2 cells"),
    ] {
        fs::write(&file, text).unwrap();
        for arguments in [&["--dry-run"] as &[&str], &[]] {
            let refused = complaint(&import(&server, &[arguments, &[file.to_str().unwrap()]].concat()));
            assert!(refused.contains(words) && !refused.contains('\u{1b}'), "{refused}");
        }
    }
    assert!(lines(&server).is_empty());
    fs::write(&file, "id,pk,\u{1b}[31m\n1,p,x\n").unwrap();
    let planned = done(&import(&server, &["--dry-run", file.to_str().unwrap()]));
    assert!(planned.contains("\\u{1b}[31m string"), "no command reaches the terminal: {planned}");
}

#[test]
fn the_last_of_several_versions_of_an_item_wins() {
    const ITEMS: usize = 50;
    const VERSIONS: usize = 20;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("in.jsonl");
    let server = server_with_container();
    // Version by version, then item by item.
    let places: [fn(usize) -> (usize, usize); 2] =
        [|line| (line % ITEMS, line / ITEMS), |line| (line / VERSIONS, line % VERSIONS)];
    for (run, place) in places.into_iter().cycle().take(6).enumerate() {
        let line = |line| {
            let (id, version) = place(line);
            format!("{{\"id\":\"{id}\",\"pk\":\"p{}\",\"run\":{run},\"version\":{version}}}\n", id % 7)
        };
        fs::write(&file, (0..ITEMS * VERSIONS).map(line).collect::<String>()).unwrap();
        let arguments = ["--mode=upsert", "--concurrency=16", file.to_str().unwrap()];
        assert!(done(&import(&server, &arguments)).contains("imported 1,000 items"));
        let found = lines(&server);
        assert_eq!(found.len(), ITEMS);
        for item in &found {
            assert!(item.ends_with(&format!("\"run\":{run},\"version\":19}}")), "{item}");
        }
    }
    // An insert keeps the first one.
    let server = server_with_container();
    let refused = complaint(&import(&server, &["--on-error=skip", file.to_str().unwrap()]));
    assert!(refused.contains("950 items were refused, the first at line 2: "), "{refused}");
    assert!(lines(&server).iter().all(|item| item.ends_with("\"version\":0}")));
}

#[test]
fn refused_items_stop_an_import_or_are_skipped_into_a_file() {
    let server = server_with_container();
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let text = "{\"id\":\"1\",\"pk\":\"a\"}\n{\"id\":\n\n{\"id\":7,\"pk\":\"a\"}\n{\"id\":\"1\",\"pk\":\"a\"}\n{\"id\":\"2\",\"pk\":7}\n{\"id\":\"3\",\"pk\":\"a\"}\n";
    fs::write(file("in.jsonl"), text).unwrap();
    let stopped = complaint(&import(&server, &[&file("in.jsonl"), "--rejects", &file("first")]));
    assert!(
        stopped.contains("stopped: line 2: no valid JSON") && stopped.contains("--on-error skip"),
        "{stopped}"
    );
    let skipped = complaint(&import(&server, &[&file("in.jsonl"), "--on-error=skip", "--mode=upsert"]));
    assert!(
        skipped.contains("imported 4 items") && skipped.contains("2 items were refused, the first at line 2"),
        "{skipped}"
    );
    let rejects = fs::read_to_string(file("in.jsonl.rejects.jsonl")).unwrap();
    let numbers: BTreeSet<u64> = rejects
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["line"].as_u64().unwrap())
        .collect();
    assert_eq!(numbers, [2, 4].into(), "{rejects}");
    assert_eq!(lines(&server).len(), 3);
    let again = complaint(&import(&server, &[&file("in.jsonl"), "--rejects", &file("first")]));
    assert!(again.contains("first' exists: remove it, or name another"), "{again}");
    let second = complaint(&import(&server, &[&file("in.jsonl"), "--on-error=skip", "--mode=upsert"]));
    assert!(second.contains("in.jsonl.rejects-2.jsonl'"), "{second}");
}

#[test]
fn a_missing_container_is_created_on_request_only() {
    let server = server_with_container();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("in.json");
    fs::write(&file, "[{\"id\":\"1\",\"a\":{\"b\":\"x\"}},{\"id\":\"2\",\"a\":{\"b\":\"y\"}}]").unwrap();
    let into = |arguments: &[&str]| {
        run(&server, &[&["import", "-d", "new", "-c", "things", file.to_str().unwrap()], arguments].concat())
    };
    let refused = complaint(&into(&[]));
    assert!(refused.contains("there is no container 'new/things': the account has d/c"), "{refused}");
    assert!(complaint(&into(&["--create"])).contains("--create needs the partition key"));
    assert!(complaint(&into(&["--create", "--partition-key=a"])).contains("a path begins with a slash"));
    assert!(
        complaint(&into(&["--create", "--partition-key=/z"]))
            .contains("no item has the container's partition key /z")
    );
    let report = done(&into(&["--create", "--partition-key", "/a/b"]));
    assert!(
        report.contains("partition key /a/b") && report.contains("imported 2 items into new/things"),
        "{report}"
    );
    let _read = server.client().read_item("new", "things", &json!(["x"]), "1").expect_status(200);
    let report = done(&run(
        &server,
        &[
            &["import", "-d=new", "-c=fast", file.to_str().unwrap()] as &[&str],
            &["--create", "--partition-key=/a/b", "--throughput=900"],
        ]
        .concat(),
    ));
    assert!(report.contains("new/fast is new, with a throughput of 900 RU/s that it keeps"), "{report}");
    let offers = server.client().get("/offers", &[]).expect_status(200).json();
    let mut units =
        offers["Offers"].as_array().unwrap().iter().map(|offer| &offer["content"]["offerThroughput"]);
    assert!(units.any(|units| *units == 900), "{offers}");
    let other = complaint(&into(&["--create", "--partition-key", "/b"]));
    assert!(other.contains("the partition key of 'new/things' is /a/b, not /b"), "{other}");
    let nowhere = run(&server, &["import", file.to_str().unwrap()]);
    assert!(complaint(&nowhere).contains("the account has d/c, new/fast, new/things"));
    let unknown = run(&server, &["import", "-d=d", "-c=c", "in.xyz"]);
    assert!(complaint(&unknown).contains("give --format json, jsonl or csv"));
}

fn throughput(server: &ServerProcess) -> u64 {
    let offers = server.client().get("/offers", &[]).expect_status(200).json();
    offers["Offers"][0]["content"]["offerThroughput"].as_u64().unwrap()
}

/// A server that enforces 400 RU/s on `d/c`.
fn server_with_throughput() -> ServerProcess {
    let server = in_memory().start();
    let client = server.client();
    let _database = client.create_database("d").expect_status(201);
    let key = json!({ "paths": ["/pk"], "kind": "Hash", "version": 2 });
    let container = json!({ "id": "c", "partitionKey": key });
    let low = [("x-ms-offer-throughput", "400")];
    let _created = client.create_container_of("d", &container, &low).expect_status(201);
    server
}

/// Lines of small items, in ten logical partitions.
fn items(number: usize) -> String {
    (0..number).map(|id| format!("{{\"id\":\"{id}\",\"pk\":\"p{}\"}}\n", id % 10)).collect()
}

#[test]
fn throttled_imports_wait_and_the_throughput_is_put_back() {
    let server = server_with_throughput();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("in.jsonl");
    fs::write(&file, items(300)).unwrap();
    let path = file.to_str().unwrap();
    let report = done(&import(&server, &[path]));
    assert!(report.contains("throttled and repeated"), "{report}");
    assert!(report.contains("measured ") && report.contains(" at 400 RU/s"), "{report}");
    assert_eq!(lines(&server).len(), 300);
    let raised = done(&import(&server, &[path, "--mode=upsert", "--throughput", "4000"]));
    assert!(raised.contains("throughput 4,000 RU/s during the import, 400 before"), "{raised}");
    assert!(raised.contains(" at 4,000 RU/s") && raised.contains("throughput 400 RU/s again"), "{raised}");
    assert_eq!(throughput(&server), 400);
    // Also after a failure.
    let failed = complaint(&import(&server, &[path, "--throughput", "4000"]));
    assert!(failed.contains("throughput 400 RU/s again") && failed.contains("exists"), "{failed}");
    assert!(failed.contains("not merged back"), "a remark precedes the raise: {failed}");
    assert_eq!(throughput(&server), 400);
    // The lowest throughput is 1 % of the highest.
    let high = done(&import(&server, &[path, "--mode=upsert", "--throughput", "100000"]));
    let words =
        "throughput 1,000 RU/s, the lowest that the server allows after the raise; before, it was 400";
    assert!(high.contains(words), "{high}");
    assert_eq!(throughput(&server), 1_000);
}

#[test]
fn standard_input_is_imported_without_a_count() {
    let server = server_with_container();
    let endpoint = format!("http://{}", server.address());
    let mut importing =
        command(&["import", "-d", "d", "-c", "c", "-", "--format=json", "--endpoint", &endpoint]);
    importing.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = importing.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    for number in 0..2_500 {
        write!(input, "{{\"id\":\"{number}\",\"pk\":\"p{}\"}}", number % 7).unwrap();
    }
    drop(input);
    let report = done(&child.wait_with_output().unwrap());
    assert!(
        report.contains("an unknown number of items") && report.contains("imported 2,500 items"),
        "{report}"
    );
    assert_eq!(lines(&server).len(), 2_500);
}

/// The signals that end a command in order. A runner that ignores SIGHUP, such as `nohup`, passes that on to its commands.
fn signals() -> Vec<Signal> {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap().trim();
    let ignores_hangup = u64::from_str_radix(mask, 16).unwrap() & 1 == 1;
    let hangup = (!ignores_hangup).then_some(Signal::HUP);
    [Signal::INT, Signal::TERM].into_iter().chain(hangup).collect()
}

#[test]
fn a_signal_ends_an_import_with_its_report_and_puts_the_throughput_back() {
    for signal in signals() {
        end_import(signal);
    }
}

#[track_caller]
fn end_import(signal: Signal) {
    let server = server_with_throughput();
    let endpoint = format!("http://{}", server.address());
    let mut importing = command(&[
        "import",
        "-d",
        "d",
        "-c",
        "c",
        "-",
        "--format=jsonl",
        "--throughput=10000",
        "--endpoint",
        &endpoint,
    ]);
    importing.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = importing.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    // More than the sample, so that the import begins; the input then stays open.
    for number in 0..1_200 {
        writeln!(input, "{{\"id\":\"{number}\",\"pk\":\"p\"}}").unwrap();
    }
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut report = String::new();
    while !report.contains("measured ") {
        assert_ne!(stderr.read_line(&mut report).unwrap(), 0, "{report}");
    }
    assert_eq!(throughput(&server), 10_000);
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), signal).unwrap();
    stderr.read_to_string(&mut report).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1), "{report}");
    drop(input);
    for words in [
        "throughput 400 RU/s again",
        "imported ",
        "the import stopped: cancelled; continue with --mode upsert",
    ] {
        assert!(report.contains(words), "{words} in {report}");
    }
    assert_eq!(throughput(&server), 400);
    let imported = report.split("imported ").nth(1).unwrap().split(' ').next().unwrap().replace(',', "");
    assert_eq!(lines(&server).len().to_string(), imported, "{report}");
}

#[test]
fn hierarchical_keys_large_items_and_many_batches_are_imported() {
    let server = server_with_container();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("in.jsonl");
    let mut text = String::new();
    for number in 0..1_500 {
        // Every hundredth item is larger than a request of many.
        let filling = if number % 100 == 0 { 600_000 } else { 10 };
        let filling = "x".repeat(filling);
        text.push_str(&format!(
            "{{\"id\":\"{number}\",\"tenant\":\"t{}\",\"user\":{{\"id\":{number}}},\"filling\":\"{filling}\"}}\n",
            number % 3
        ));
    }
    // More than an item may have.
    text.push_str(&format!(
        "{{\"id\":\"large\",\"tenant\":\"t\",\"user\":{{\"id\":0}},\"filling\":\"{}\"}}\n",
        "x".repeat(3 << 20)
    ));
    fs::write(&file, text).unwrap();
    let path = file.to_str().unwrap();
    let arguments = [
        "import",
        "-d=d",
        "-c=tree",
        "--create",
        "--partition-key=/tenant,/user/id",
        "--on-error=skip",
        path,
    ];
    let report = complaint(&run(&server, &arguments));
    assert!(report.contains("imported 1,500 items into d/tree"), "{report}");
    assert!(report.contains("1 item was refused, the first at line 1501: "), "{report}");
    let read =
        server.client().read_item("d", "tree", &json!(["t2", 1_499]), "1499").expect_status(200).json();
    assert_eq!(read["user"], json!({ "id": 1_499 }));
    let output = run(&server, &["sql", "-dd", "-ctree", "--format=jsonl", "SELECT VALUE COUNT(1) FROM c"]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "1500\n");
    let one = [
        "sql",
        "-dd",
        "-ctree",
        "--format=jsonl",
        "--partition-key=[\"t2\", 1499]",
        "SELECT VALUE c.id FROM c",
    ];
    assert_eq!(String::from_utf8_lossy(&run(&server, &one).stdout), "\"1499\"\n");
}

#[test]
fn a_server_that_is_not_there_or_refuses_the_key_is_named() {
    let server = server_with_container();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("in.jsonl");
    fs::write(&file, "{\"id\":\"1\",\"pk\":\"p\"}\n").unwrap();
    let path = file.to_str().unwrap();
    for arguments in [&["export", "-d=d", "-c=c"] as &[&str], &["import", "-d=d", "-c=c", path]] {
        let absent = command(arguments).arg("--endpoint=http://127.0.0.1:1").output().unwrap();
        assert!(complaint(&absent).contains("no connection"), "{absent:?}");
        let refused = run(&server, &[arguments, &["--key", "AAAA"]].concat());
        assert!(complaint(&refused).contains("does not accept the key"), "{refused:?}");
    }
    let missing = import(&server, &["/nowhere/in.jsonl"]);
    assert!(complaint(&missing).contains("'/nowhere/in.jsonl': it cannot be read: "), "{missing:?}");
    fs::write(&file, "{\"id\":\"1\",\"pk\":\"p\"}\n[").unwrap();
    let broken = import(&server, &["--format=json", path]);
    assert!(complaint(&broken).contains("line 2: the file ends within an array"), "{broken:?}");
    assert!(lines(&server).is_empty(), "a file that is broken is refused before anything is written");
}

#[test]
fn at_a_terminal_a_long_import_asks_for_more_throughput() {
    let server = server_with_throughput();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("in.jsonl");
    fs::write(&file, items(6_000)).unwrap();
    let endpoint = format!("http://{}", server.address());
    let arguments = ["import", "-d=d", "-c=c", file.to_str().unwrap(), "--endpoint", &endpoint];
    let mut declined = Terminal::start(&mut command(&[&arguments[..], &["--mode=upsert"]].concat()));
    let _plan = declined.expect("[Enter: leave it] ");
    declined.write("No\n");
    declined.expect(" of 6,000 ");
    drop(declined);
    let arguments = [&arguments[..], &["--mode=upsert"]].concat();
    let mut importing = Terminal::start(&mut command(&arguments));
    let plan = importing.expect("to how many RU/s? [Enter: leave it] ");
    assert!(plan.contains("6,000 items, ") && plan.contains("; about 2 min "), "{plan}");
    assert_eq!(throughput(&server), 400, "nothing is raised unasked");
    importing.write("30000\n");
    importing.expect("throughput 30,000 RU/s during the import, 400 before");
    let rest = importing.end();
    assert!(rest.contains(" of 6,000 "), "a bar is shown: {rest:?}");
    assert!(rest.contains("throughput 400 RU/s again") && rest.contains("imported 6,000 items"), "{rest:?}");
    assert_eq!(throughput(&server), 400);
}

#[test]
fn throughput_of_a_database_and_autoscale_are_known() {
    let server = in_memory().start();
    let client = server.client();
    let shared = [("x-ms-offer-throughput", "500"), ("content-type", "application/json")];
    let _database = client.post_json("/dbs", &shared, &json!({ "id": "shared" })).expect_status(201);
    let _container = client.create_container("shared", "c", "/pk").expect_status(201);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("in.jsonl");
    fs::write(&file, items(3)).unwrap();
    let path = file.to_str().unwrap();
    let of_database = run(&server, &["import", "-d=shared", "-c=c", "--throughput=900", path]);
    assert!(complaint(&of_database).contains("the throughput of 'shared/c' belongs to its database"));
    let not_enforced = server_with_container();
    let unlimited = done(&import(&not_enforced, &["--throughput=900", path]));
    assert!(unlimited.contains("is not enforced, and stays as it is"), "{unlimited}");
    assert_eq!(throughput(&not_enforced), 400);
    let too_low = run(&server, &["import", "-d=shared", "-c=c", "--throughput=x", path]);
    assert_eq!(too_low.status.code(), Some(2), "{too_low:?}");
    let _database = client.create_database("d").expect_status(201);
    let settings = [("x-ms-cosmos-offer-autopilot-settings", "{\"maxThroughput\":1000}")];
    let key = json!({ "paths": ["/pk"], "kind": "Hash", "version": 2 });
    let container = json!({ "id": "c", "partitionKey": key });
    let _created = client.create_container_of("d", &container, &settings).expect_status(201);
    let scaled = done(&import(&server, &["--throughput=4000", path]));
    assert!(scaled.contains("throughput 4,000 RU/s during the import, 1,000 before"), "{scaled}");
    assert!(scaled.contains("throughput 1,000 RU/s again"), "{scaled}");
    let offers = client.get("/offers", &[]).expect_status(200).json();
    let offers = offers["Offers"].as_array().unwrap();
    let most =
        offers.iter().find_map(|offer| offer["content"]["offerAutopilotSettings"]["maxThroughput"].as_u64());
    assert_eq!(most, Some(1_000));
    let refused = complaint(&import(&server, &["--throughput=1001", "--mode=upsert", path]));
    assert!(refused.contains("the import stopped: ") && !refused.contains("again"), "{refused}");
    let same = done(&import(&server, &["--throughput=1000", "--mode=upsert", path]));
    assert!(!same.contains("during the import"), "nothing is to be changed: {same}");
}

#[test]
fn connections_that_break_are_made_again_where_that_is_safe() {
    let server = server_with_container();
    let proxy = FaultProxy::before(server.address());
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("in.jsonl");
    fs::write(&file, items(4_000)).unwrap();
    let path = file.to_str().unwrap();
    let endpoint = format!("http://{}", proxy.address());
    let over_proxy = |arguments: &[&str]| {
        command(&[arguments, &["-d=d", "-c=c", "--endpoint", &endpoint]].concat()).output().unwrap()
    };
    // The first requests read the definition and measure the charge.
    let faults = |faults: &[Fault]| {
        let one_in = proxy.counts().0 % 11 + 11;
        proxy.set(Weather { one_in, faults: faults.to_vec(), ..Weather::default() });
    };
    faults(&[Fault::AnswerLost, Fault::Reset, Fault::Status(503)]);
    let report = done(&over_proxy(&["import", "--mode=upsert", path]));
    assert!(report.contains("imported 4,000 items"), "{report}");
    let befallen = proxy.counts().1;
    assert!(befallen >= 3, "each fault has happened: {befallen}");
    assert_eq!(lines(&server).len(), 4_000);
    faults(&[Fault::AnswerLost]);
    let lost = complaint(&over_proxy(&["import", path, "--on-error=skip"]));
    assert!(lost.contains("the import stopped: ") && lost.contains("no answer"), "{lost}");
}

#[test]
fn items_arrive_while_their_partition_is_split() {
    let server = server_with_container();
    let endpoint = format!("http://{}", server.address());
    let arguments = ["import", "-d=d", "-c=c", "-", "--format=jsonl", "--quiet", "--endpoint", &endpoint];
    let mut child = command(&arguments).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let feeding = std::thread::spawn(move || {
        for number in 0..8_000 {
            writeln!(input, "{{\"id\":\"{number}\",\"pk\":\"p{}\"}}", number % 101).unwrap();
        }
    });
    // The import is somewhere between its beginning and its end.
    for partition in ["0", "1"] {
        let split = run(&server, &["split", "d/c", partition, "--at", "middle"]);
        assert!(split.status.success(), "{split:?}");
    }
    feeding.join().unwrap();
    assert_eq!(done(&child.wait_with_output().unwrap()), "");
    assert_eq!(lines(&server).len(), 8_000);
}

#[test]
fn an_export_that_is_ended_leaves_no_file() {
    for signal in signals() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("out.jsonl");
        let arguments = ["export", "-d=d", "-c=c", file.to_str().unwrap(), "--endpoint", &endpoint];
        let child = command(&arguments).stderr(Stdio::piped()).spawn().unwrap();
        let path = "/_shardlake/v1/dbs/d/colls/c/";
        let report = format!("GET {path}partitions ");
        let answers = [("GET /dbs/d/colls/c ", "{}"), (report.as_str(), "{\"items\":7}")];
        let _waiting = half_a_server(&listener, &answers, &format!("POST {path}query "));
        let parts = fs::read_dir(directory.path()).unwrap().count();
        assert_eq!((parts, file.exists()), (1, false), "it is written under another name");
        rustix::process::kill_process(rustix::process::Pid::from_child(&child), signal).unwrap();
        let words = complaint(&child.wait_with_output().unwrap());
        assert!(words.contains("the export was cancelled"), "{words}");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}
