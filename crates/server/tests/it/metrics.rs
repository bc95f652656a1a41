//! Metrics, JSON log lines and the audit log of a server that did one of everything, as a monitoring system reads them.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

use serde_json::{Value, json};
use shardlake_testkit::{Client, ServerProcess};

use crate::backup_support::create;
use crate::direct_client::{DirectClient, QUERY, READ, on_item};
use crate::support::{PATIENCE, command, connect, in_memory, on_disk};

const KEY: (&str, &str) = ("x-ms-documentdb-partitionkey", "[\"a\"]");
const QUERIES: (&str, &str) = ("x-ms-documentdb-isquery", "True");
const QUERY_TYPE: (&str, &str) = ("content-type", "application/query+json");

/// Families by name with their types, and samples by name and labels.
struct Page {
    types: BTreeMap<String, String>,
    samples: BTreeMap<String, f64>,
    text: String,
}

impl Page {
    /// The page with all requests before. A page is kept for a second: a later one has one request for offers more.
    fn of(client: &Client) -> Page {
        const OFFERS: &str =
            r#"shardlake_requests_total{transport="http",operation="ListOffers",status="200"}"#;
        let before = Page::read(client).samples.get(OFFERS).copied().unwrap_or(0.0);
        let _noted = client.get("/offers", &[]).expect_status(200);
        let mut page = None;
        shardlake_testkit::eventually("the page of metrics is a new one", || {
            let read = Page::read(client);
            let is_new = read.samples.get(OFFERS).copied().unwrap_or(0.0) > before;
            page = is_new.then_some(read);
            is_new
        });
        page.unwrap()
    }

    fn read(client: &Client) -> Page {
        let text = client.get("/metrics", &[]).expect_status(200).text();
        let (mut types, mut samples) = (BTreeMap::new(), BTreeMap::new());
        for line in text.lines() {
            if let Some(typed) = line.strip_prefix("# TYPE ") {
                let (name, kind) = typed.split_once(' ').unwrap();
                assert!(types.insert(name.to_owned(), kind.to_owned()).is_none(), "{name} is there twice");
            } else if !line.starts_with('#') {
                let (series, value) = line.rsplit_once(' ').unwrap();
                let value = value.parse().unwrap_or_else(|_| panic!("{line}"));
                assert!(samples.insert(series.to_owned(), value).is_none(), "{series} is there twice");
            }
        }
        assert!(text.ends_with("# EOF\n"), "{text}");
        Page { types, samples, text }
    }

    /// The sum of all samples of a name.
    fn sum(&self, name: &str) -> f64 {
        let of = |series: &&String| series.split('{').next() == Some(name);
        self.samples.iter().filter(|(series, _)| of(series)).map(|(_, value)| value).sum()
    }

    #[track_caller]
    fn assert_has(&self, series: &str, value: f64) {
        assert_eq!(self.samples.get(series), Some(&value), "{series} in\n{}", self.text);
    }

    /// The names of samples without their labels.
    fn names(&self) -> BTreeSet<&str> {
        self.samples.keys().map(|series| series.split('{').next().unwrap()).collect()
    }
}

fn prepared(client: &Client) {
    let _database = client.create_database("d").expect_status(201);
    let key = json!({ "paths": ["/pk"], "kind": "Hash", "version": 2 });
    let definition = json!({ "id": "c", "partitionKey": key });
    let throughput = [("x-ms-offer-throughput", "4000")];
    let _container = client.create_container_of("d", &definition, &throughput).expect_status(201);
}

fn use_the_nosql_api(client: &Client) {
    let item = json!({ "id": "1", "pk": "a" });
    let _created = client.create_item("d", "c", &json!(["a"]), &item).expect_status(201);
    let _conflict = client.create_item("d", "c", &json!(["a"]), &item).expect_status(409);
    let _upserted = client.upsert_item("d", "c", &json!(["a"]), &item).expect_status(200);
    let _read = client.read_item("d", "c", &json!(["a"]), "1").expect_status(200);
    let query = json!({ "query": "SELECT * FROM c" }).to_string();
    for _ in 0..2 {
        let headers = [KEY, QUERIES, QUERY_TYPE];
        let _queried =
            client.request("POST", "/dbs/d/colls/c/docs", &headers, query.as_bytes()).expect_status(200);
    }
    let create = |id: &str| {
        json!([{ "operationType": "Create", "resourceBody": { "id": id, "pk": "a" } }]).to_string()
    };
    for (id, atomic) in [("2", "True"), ("3", "False")] {
        let headers = [KEY, ("x-ms-cosmos-is-batch-request", "True"), ("x-ms-cosmos-batch-atomic", atomic)];
        let body = create(id);
        let _answered =
            client.request("POST", "/dbs/d/colls/c/docs", &headers, body.as_bytes()).expect_status(200);
    }
    let _feed = client.get("/dbs/d/colls/c/docs", &[KEY]).expect_status(200);
    let _changes = client.get("/dbs/d/colls/c/docs", &[KEY, ("a-im", "Incremental feed")]).expect_status(200);
    let procedure = json!({ "id": "p", "body": "function () { getContext().getResponse().setBody(1); }" });
    let _procedure = client.post_json("/dbs/d/colls/c/sprocs", &[], &procedure).expect_status(201);
    let _executed = client.request("POST", "/dbs/d/colls/c/sprocs/p", &[KEY], b"[]").expect_status(200);
    let _user = client.post_json("/dbs/d/users", &[], &json!({ "id": "u" })).expect_status(201);
    let permission = json!({ "id": "r", "permissionMode": "Read", "resource": "dbs/d/colls/c" });
    let _permission = client.post_json("/dbs/d/users/u/permissions", &[], &permission).expect_status(201);
    let _unsigned = client.get("/dbs/d/colls/c/docs/1", &[("authorization", "nothing")]).expect_status(401);
    let _nowhere = client.get("/nowhere", &[]).expect_status(404);
}

#[test]
fn requests_are_counted_by_their_operation() {
    let server = in_memory().start();
    let client = server.client();
    prepared(&client);
    use_the_nosql_api(&client);
    let page = Page::of(&client);
    for (operation, status, count) in [
        ("CreateDatabase", 201, 1.0),
        ("CreateContainer", 201, 1.0),
        ("CreateItem", 201, 1.0),
        ("CreateItem", 409, 1.0),
        ("UpsertItem", 200, 1.0),
        ("ReadItem", 200, 1.0),
        ("ReadItem", 401, 1.0),
        ("QueryItems", 200, 2.0),
        ("Batch", 200, 1.0),
        ("Bulk", 200, 1.0),
        ("ReadFeed", 200, 1.0),
        ("ReadChangeFeed", 200, 1.0),
        ("CreateStoredProcedure", 201, 1.0),
        ("ExecuteStoredProcedure", 200, 1.0),
        ("CreateUser", 201, 1.0),
        ("CreatePermission", 201, 1.0),
        ("Other", 404, 1.0),
    ] {
        let labels = format!(r#"transport="http",operation="{operation}",status="{status}""#);
        page.assert_has(&format!("shardlake_requests_total{{{labels}}}"), count);
    }
    let of = r#"transport="http",operation="QueryItems""#;
    page.assert_has(&format!("shardlake_request_duration_seconds_count{{{of}}}"), 2.0);
    page.assert_has(&format!(r#"shardlake_request_duration_seconds_bucket{{le="+Inf",{of}}}"#), 2.0);
    assert!(page.samples[r#"shardlake_request_charge_total{operation="QueryItems"}"#] > 4.0, "{}", page.text);
    assert_eq!(page.types["shardlake_request_duration_seconds"], "histogram");
}

#[test]
fn requests_of_direct_mode_are_counted_apart() {
    let server = in_memory().start();
    let client = server.client();
    prepared(&client);
    use_direct_mode(&server);
    let page = Page::of(&client);
    for (operation, status) in [("QueryItems", 200), ("ReadItem", 404)] {
        let labels = format!(r#"transport="direct",operation="{operation}",status="{status}""#);
        page.assert_has(&format!("shardlake_requests_total{{{labels}}}"), 1.0);
    }
    page.assert_has("shardlake_direct_connections", 0.0);
}

fn use_direct_mode(server: &ServerProcess) {
    let container = server.client().read_container("d", "c").expect_status(200).json();
    let replica = crate::direct::replica_of(server, container["_rid"].as_str().unwrap());
    let mut client = DirectClient::open(server);
    let query = json!({ "query": "SELECT * FROM c" }).to_string();
    let at = |ask| crate::direct::at(ask, &replica);
    let queried = client.answer(&at(on_item(QUERY, None, &json!(["k"]), query.as_bytes())));
    assert_eq!(queried.status, 200, "{queried:?}");
    let missing = client.answer(&at(on_item(READ, Some("none"), &json!(["k"]), &[])));
    assert_eq!(missing.status, 404, "{missing:?}");
    drop(client);
    shardlake_testkit::eventually("the connection has ended", || {
        crate::support::metric(&server.client(), "shardlake_direct_connections") == 0
    });
}

/// A connection of a MongoDB driver, as far as it is needed here.
struct Mongo(TcpStream);

impl Mongo {
    fn open(server: &ServerProcess) -> Mongo {
        let address = server.ready().fields["mongo"][0].as_str().unwrap().to_owned();
        let address = address.trim_start_matches("mongodb://").trim_end_matches('/');
        Mongo(connect(address.parse().unwrap()))
    }

    fn run(&mut self, command: bson::Document) -> bson::Document {
        let body = command.to_vec().unwrap();
        let length = (16 + 4 + 1 + body.len()) as i32;
        let mut message = [length, 1, 0, 2013, 0].map(i32::to_le_bytes).concat();
        message.push(0);
        message.extend(body);
        self.0.write_all(&message).unwrap();
        let mut head = [0; 21];
        self.0.read_exact(&mut head).unwrap();
        let length = i32::from_le_bytes(head[..4].try_into().unwrap()) as usize;
        let mut answer = vec![0; length - head.len()];
        self.0.read_exact(&mut answer).unwrap();
        bson::Document::from_reader(&answer[..]).unwrap()
    }
}

fn use_the_mongodb_api(server: &ServerProcess) {
    use bson::doc;
    let mut mongo = Mongo::open(server);
    let insert = doc! { "insert": "people", "documents": [{ "_id": 1 }], "$db": "m" };
    assert_eq!(mongo.run(insert.clone()).get_i32("n").ok(), Some(1));
    assert!(mongo.run(insert).contains_key("writeErrors"));
    assert!(mongo.run(doc! { "find": "people", "filter": {}, "$db": "m" }).contains_key("cursor"));
    assert!(mongo.run(doc! { "find": "people", "filter": { "$no": 1 }, "$db": "m" }).contains_key("code"));
    let index = doc! { "key": { "a": 1 }, "name": "a" };
    let created = mongo.run(doc! { "createIndexes": "people", "indexes": [index], "$db": "m" });
    assert_eq!(created.get_f64("ok").ok(), Some(1.0), "{created}");
    for name in ["invented", "alsoInvented"] {
        assert!(mongo.run(doc! { name: 1, "$db": "m" }).contains_key("code"));
    }
}

#[test]
fn commands_are_counted_by_name_and_error() {
    let server = in_memory().argument("--mongo-listen=127.0.0.1:0").start();
    use_the_mongodb_api(&server);
    let page = Page::of(&server.client());
    for (command, code, count) in [
        ("insert", "OK", 1.0),
        ("insert", "DuplicateKey", 1.0),
        ("find", "OK", 1.0),
        ("find", "BadValue", 1.0),
        ("createIndexes", "OK", 1.0),
        ("other", "CommandNotFound", 2.0),
    ] {
        let series = format!(r#"shardlake_mongo_commands_total{{command="{command}",code="{code}"}}"#);
        page.assert_has(&series, count);
    }
    page.assert_has(r#"shardlake_mongo_command_duration_seconds_count{command="find"}"#, 2.0);
    assert!(page.samples[r#"shardlake_mongo_command_charge_total{command="insert"}"#] > 1.0, "{}", page.text);
    assert!(!page.text.contains("nvented"), "{}", page.text);
}

/// A server on a disk that did one of everything.
fn exercised(place: &Path) -> ServerProcess {
    let server = on_disk()
        .argument("--mongo-listen=127.0.0.1:0")
        .argument("--log-format=json")
        .argument("--restore-window=1d")
        .argument("--log-level=info")
        .start();
    let client = server.client();
    prepared(&client);
    use_the_nosql_api(&client);
    use_direct_mode(&server);
    use_the_mongodb_api(&server);
    let _made = create(&server, place);
    server
}

#[test]
fn every_metric_of_alerts_and_dashboards_is_on_the_page() {
    let place = tempfile::tempdir().unwrap();
    let server = exercised(place.path());
    let page = Page::of(&server.client());
    let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy");
    let alerts = std::fs::read_to_string(deploy.join("prometheus/alerts.yml")).unwrap();
    let dashboard = std::fs::read_to_string(deploy.join("grafana/shardlake.json")).unwrap();
    // Annotations and variables name metrics, too.
    let mut expressions = vec![alerts.clone(), dashboard.clone()];
    let dashboard: Value = serde_json::from_str(&dashboard).unwrap();
    expressions.extend(rules(&alerts));
    assert!(expressions.len() >= 10, "{expressions:?}");
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
    let of_panels: Vec<String> = targets.map(|target| target["expr"].as_str().unwrap().to_owned()).collect();
    assert!(of_panels.len() >= 15, "{of_panels:?}");
    expressions.extend(of_panels);
    let names = page.names();
    for expression in &expressions {
        let found = metric_names(expression);
        assert!(!found.is_empty() || expression.starts_with("up{"), "{expression}");
        for name in found {
            assert!(names.contains(name.as_str()), "{name} is not in\n{}", page.text);
        }
    }
    let expected = [
        ("shardlake_last_backup_result{result=\"done\"}", 1.0),
        ("shardlake_last_backup_result{result=\"failed\"}", 0.0),
        ("shardlake_shard_poisoned{shard=\"0\"}", 0.0),
        ("shardlake_restore_window_seconds", 86_400.0),
        ("shardlake_backups_active", 0.0),
        ("shardlake_index_builds", 0.0),
    ];
    for (series, value) in expected {
        page.assert_has(series, value);
    }
    for positive in [
        "process_resident_memory_bytes",
        "process_start_time_seconds",
        "process_open_fds",
        "process_threads",
        "shardlake_data_dir_free_bytes",
        "shardlake_sync_duration_seconds_count",
        "shardlake_journal_size_bytes",
        "shardlake_cache_capacity_bytes",
        "shardlake_last_backup_timestamp_seconds",
        "shardlake_last_backup_size_bytes",
        "shardlake_certificate_expiry_timestamp_seconds",
        "shardlake_restore_window_begin_timestamp_seconds",
    ] {
        assert!(page.sum(positive) > 0.0, "{positive} in\n{}", page.text);
    }
    let lookups = |outcome: &str| {
        page.samples[&format!(r#"shardlake_cache_lookups_total{{cache="row",outcome="{outcome}"}}"#)]
    };
    assert!(lookups("hit") + lookups("miss") > 0.0, "{}", page.text);
}

#[test]
fn the_last_backup_is_known_after_a_restart() {
    let place = tempfile::tempdir().unwrap();
    let mut server = on_disk().start();
    let made = create(&server, place.path());
    let status = |server: &ServerProcess| -> Value {
        let endpoint = format!("http://{}", server.address());
        let output = command(&["status", "--json", "--endpoint", &endpoint]).output().unwrap();
        let status: Value = serde_json::from_slice(&output.stdout).unwrap();
        status["server"]["lastBackup"].clone()
    };
    let before = status(&server);
    assert_eq!(before["name"], made["id"], "{made}");
    let time = Page::of(&server.client()).sum("shardlake_last_backup_timestamp_seconds");
    let milliseconds = before["endedAt"].as_f64().expect("a time");
    assert!((milliseconds / 1e3 - time).abs() < 1e-3, "one record: {before} and {time}");
    assert!(time > 1.6e9, "{time}");
    shardlake_testkit::eventually("the record is stored", || {
        server.data_dir().join("last-backup.json").exists()
    });
    assert!(server.terminate(PATIENCE).success());
    server.restart();
    let page = Page::of(&server.client());
    page.assert_has("shardlake_last_backup_timestamp_seconds", time);
    page.assert_has("shardlake_last_backup_result{result=\"done\"}", 1.0);
    assert_eq!(status(&server), before);
}

/// The log lines, each of which is a JSON object.
fn lines(server: &ServerProcess) -> Vec<Value> {
    let log = server.log();
    log.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

#[test]
fn log_lines_have_typed_fields_and_name_what_they_are_about() {
    let place = tempfile::tempdir().unwrap();
    let server = exercised(place.path());
    let client = server.client();
    let split = "/_shardlake/v1/dbs/d/colls/c/partitions/0/split";
    let _begun = client.post_json(split, &[], &json!({ "at": "middle" })).expect_status(202);
    let line = |message: &str| lines(&server).into_iter().find(|line| line["message"] == message);
    shardlake_testkit::eventually("the split is logged", || line("relocated").is_some());
    let ready = line("ready").unwrap();
    assert!(ready["endpoints"].as_array().is_some_and(|endpoints| endpoints[0].is_string()), "{ready}");
    let relocated = line("relocated").unwrap();
    assert_eq!((&relocated["container"], &relocated["sources"]), (&json!("d/c"), &json!([0])), "{relocated}");
    assert!(relocated["bytes"].as_u64() > Some(0) && relocated["milliseconds"].is_u64(), "{relocated}");
    let begins = line("a state is kept to be read").unwrap();
    assert!(begins["containers"].as_array().is_some_and(|names| names.contains(&json!("d/c"))), "{begins}");
    let ends = line("a backup ends").unwrap();
    assert_eq!((&ends["id"], &ends["result"]), (&begins["id"], &json!("done")), "{ends}");
    assert!(ends["bytes"].as_u64() > Some(0) && ends["milliseconds"].is_u64(), "{ends}");
}

#[test]
fn changed_definitions_and_permissions_are_on_record() {
    let server = on_disk()
        .argument("--mongo-listen=127.0.0.1:0")
        .argument("--log-format=json")
        .argument("--log-level=error")
        .start();
    let client = server.client();
    prepared(&client);
    use_the_nosql_api(&client);
    use_the_mongodb_api(&server);
    let mut mongo = Mongo::open(&server);
    for stage in [
        bson::doc! { "$out": "copied" },
        bson::doc! { "$merge": { "into": { "db": "n", "coll": "merged" } } },
        bson::doc! { "$out": "a.$b" },
    ] {
        let _answer =
            mongo.run(bson::doc! { "aggregate": "people", "pipeline": [stage], "cursor": {}, "$db": "m" });
    }
    let activity = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0";
    let headers = [("x-ms-activity-id", activity)];
    let _again = client.request("POST", "/dbs", &headers, br#"{"id":"d"}"#).expect_status(409);
    let _dropped = client.delete("/dbs/d/users/u", &[]).expect_status(204);
    let audit: Vec<Value> = lines(&server).into_iter().filter(|line| line["target"] == "audit").collect();
    let found = |operation: &str| {
        let mut found = audit.iter().filter(|line| line["operation"] == operation);
        found.next_back().unwrap_or_else(|| panic!("{operation} in {audit:?}"))
    };
    for (operation, resource) in [
        ("CreateContainer", "dbs/d/colls/c"),
        ("CreateStoredProcedure", "dbs/d/colls/c/sprocs/p"),
        ("CreateUser", "dbs/d/users/u"),
        ("CreatePermission", "dbs/d/users/u/permissions/r"),
        ("DeleteUser", "dbs/d/users/u"),
    ] {
        let line = found(operation);
        assert_eq!(line["resource"], resource, "{line}");
        assert_eq!((&line["outcome"], &line["caller"]), (&json!("done"), &json!("primary key")), "{line}");
        assert!(line["status"].is_u64() && line["activity_id"].is_string(), "{line}");
    }
    let refused = found("CreateDatabase");
    let fields = (&refused["outcome"], &refused["status"], &refused["activity_id"]);
    assert_eq!(fields, (&json!("refused"), &json!(409), &json!(activity)), "{refused}");
    let index = found("createIndexes");
    assert_eq!((&index["resource"], &index["api"]), (&json!("m.people"), &json!("mongodb")), "{index}");
    let lines_of = |operation: &str| -> Vec<(&str, &str)> {
        let lines = audit.iter().filter(|line| line["operation"] == operation);
        lines.map(|line| (line["resource"].as_str().unwrap(), line["outcome"].as_str().unwrap())).collect()
    };
    // Collections that a write creates, and pipelines that write.
    assert_eq!(lines_of("create"), [("m.people", "done"), ("n.merged", "done")]);
    assert_eq!(lines_of("$out"), [("m.copied", "done"), ("m.a.$b", "refused")]);
    assert_eq!(lines_of("$merge"), [("n.merged", "done")]);
    for operation in ["CreateItem", "QueryItems", "insert", "find", "aggregate"] {
        assert!(!audit.iter().any(|line| line["operation"] == operation), "{operation} in {audit:?}");
    }
}

/// The expressions of a file of rules: the text behind `expr:`.
fn rules(text: &str) -> Vec<String> {
    let lines = text.lines().filter_map(|line| line.trim().strip_prefix("expr: "));
    lines.map(|expression| expression.trim_matches('\'').to_owned()).collect()
}

/// Names of metrics in a PromQL expression: ours and those of the process.
fn metric_names(expression: &str) -> BTreeSet<String> {
    let words = expression.split(|character: char| !character.is_ascii_alphanumeric() && character != '_');
    let names = words.filter(|word| word.starts_with("shardlake_") || word.starts_with("process_"));
    names.map(str::to_owned).collect()
}
