//! `shardlake sql`: answers over several partitions, formats, refusals with their place, scripts, and a shell at a terminal.

use std::io::Write;
use std::process::{Output, Stdio};

use serde_json::{Value, json};
use shardlake_testkit::{Client, ServerProcess};

use crate::support::{Started, command, in_memory};

const CUSTOMERS: usize = 40;

/// `shop/orders` with 120 orders of 40 customers, on several partitions.
fn server_with_orders() -> ServerProcess {
    let server = in_memory().start();
    let client = server.client();
    let _database = client.create_database("shop").expect_status(201);
    let key = json!({ "paths": ["/customer"], "kind": "Hash", "version": 2 });
    let throughput = [("x-ms-offer-throughput", "30000")];
    let container = json!({ "id": "orders", "partitionKey": key });
    let _container = client.create_container_of("shop", &container, &throughput).expect_status(201);
    for number in 0..3 * CUSTOMERS {
        let customer = format!("c{:02}", number % CUSTOMERS);
        let item = json!({ "id": number.to_string(), "customer": customer, "total": number, "even": number % 2 == 0 });
        let _created = client.create_item("shop", "orders", &json!([customer]), &item).expect_status(201);
    }
    server
}

fn sql(server: &ServerProcess, arguments: &[&str]) -> Output {
    let endpoint = format!("http://{}", server.address());
    command(&["sql", "--endpoint", &endpoint]).args(arguments).output().unwrap()
}

fn with_input(server: &ServerProcess, input: &str) -> Output {
    let endpoint = format!("http://{}", server.address());
    let mut command = command(&["sql", "--endpoint", &endpoint]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

#[track_caller]
fn printed(output: &Output) -> &str {
    assert!(output.status.success(), "{output:?}");
    std::str::from_utf8(&output.stdout).unwrap()
}

fn complaint(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert_eq!(output.stdout, b"", "{output:?}");
    String::from_utf8(output.stderr.clone()).unwrap()
}

const ORDERS: [&str; 4] = ["--database", "shop", "--container", "orders"];

fn rows(server: &ServerProcess, query: &str) -> Value {
    let output = sql(server, &[&ORDERS[..], &["--format", "json", query]].concat());
    serde_json::from_str(printed(&output)).unwrap()
}

#[test]
fn answers_over_several_partitions_are_merged() {
    let server = server_with_orders();
    let asked = sql(&server, &[&ORDERS[..], &["SELECT VALUE COUNT(1) FROM c"]].concat());
    let figures = String::from_utf8(asked.stderr.clone()).unwrap();
    assert!(!figures.contains("1 partition ("), "the orders lie on several partitions: {figures}");
    for words in ["-- 1 row, ", " RU, ", " partitions (0, 1, "] {
        assert!(figures.contains(words), "{words} in {figures}");
    }
    assert_eq!(printed(&asked), "value\n120\n");
    let newest = rows(&server, "SELECT TOP 4 VALUE c.total FROM c ORDER BY c.total DESC");
    assert_eq!(newest, json!([119, 118, 117, 116]));
    let skipped = rows(&server, "SELECT VALUE c.total FROM c ORDER BY c.total OFFSET 60 LIMIT 3");
    assert_eq!(skipped, json!([60, 61, 62]));
    let sums = rows(
        &server,
        "SELECT COUNT(1) AS n, SUM(c.total) AS s, MIN(c.total) AS low, MAX(c.total) AS high, AVG(c.total) AS mean FROM c",
    );
    assert_eq!(sums, json!([{ "n": 120, "s": 7140, "low": 0, "high": 119, "mean": 59.5 }]));
    let distinct = rows(&server, "SELECT DISTINCT VALUE c.even FROM c");
    assert_eq!(distinct.as_array().unwrap().len(), 2, "{distinct}");
    let mut groups = rows(&server, "SELECT c.even, COUNT(1) AS n FROM c GROUP BY c.even");
    groups.as_array_mut().unwrap().sort_by_key(|group| group["even"].as_bool());
    assert_eq!(groups, json!([{ "even": false, "n": 60 }, { "even": true, "n": 60 }]));
    let customers = rows(&server, "SELECT DISTINCT VALUE c.customer FROM c ORDER BY c.customer");
    let expected: Vec<String> = (0..CUSTOMERS).map(|number| format!("c{number:02}")).collect();
    assert_eq!(customers, json!(expected));
    let mut ids = rows(&server, "SELECT VALUE c.total FROM c");
    ids.as_array_mut().unwrap().sort_by_key(Value::as_u64);
    assert_eq!(ids, json!((0..120).collect::<Vec<_>>()));
}

#[test]
fn one_logical_partition_is_asked_on_request() {
    let server = server_with_orders();
    for key in ["[\"c07\"]", "\"c07\""] {
        let query = "SELECT VALUE c.total FROM c ORDER BY c.total";
        let output =
            sql(&server, &[&ORDERS[..], &["--format=jsonl", "--partition-key", key, query]].concat());
        assert_eq!(printed(&output), "7\n47\n87\n");
        assert!(String::from_utf8_lossy(&output.stderr).contains(", 1 partition ("), "{output:?}");
    }
    let refused = sql(&server, &[&ORDERS[..], &["--partition-key", "c07", "SELECT 1"]].concat());
    assert!(complaint(&refused).contains("write '[\"ada\"]'"));
}

#[test]
fn parameters_are_values_of_json() {
    let server = server_with_orders();
    let query =
        "SELECT VALUE c.total FROM c WHERE c.customer = @customer AND c.total < @most ORDER BY c.total";
    let parameters = ["--format=jsonl", "--param", "@customer=\"c07\"", "--param", "most=60", query];
    assert_eq!(printed(&sql(&server, &[&ORDERS[..], &parameters].concat())), "7\n47\n");
    let wrong = sql(&server, &[&ORDERS[..], &["--param=@customer=ada", query]].concat());
    assert_eq!(wrong.status.code(), Some(2), "{wrong:?}");
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("for a string"), "{wrong:?}");
}

#[test]
fn rows_are_tables_json_lines_and_csv() {
    let server = server_with_orders();
    let of = |format: &str, query: &str| {
        let output = sql(&server, &[&ORDERS[..], &["--format", format, query]].concat());
        printed(&output).to_owned()
    };
    let query = "SELECT TOP 2 c.id, c.total, {\"a\": [c.even, null]} AS nested FROM c ORDER BY c.total";
    assert_eq!(
        of("table", query),
        "id  total  nested\n0   0      {\"a\":[true,null]}\n1   1      {\"a\":[false,null]}\n"
    );
    assert_eq!(
        of("jsonl", query),
        "{\"id\":\"0\",\"total\":0,\"nested\":{\"a\":[true,null]}}\n{\"id\":\"1\",\"total\":1,\"nested\":{\"a\":[false,null]}}\n"
    );
    assert_eq!(
        of("csv", query),
        "id,total,nested\n0,0,\"{\"\"a\"\":[true,null]}\"\n1,1,\"{\"\"a\"\":[false,null]}\"\n"
    );
    assert_eq!(of("json", "SELECT * FROM c WHERE false"), "[]\n");
    let items = of("table", "SELECT * FROM c WHERE c.id = '3'");
    assert_eq!(items, "id  customer  total  even\n3   c03       3      false\n", "no system properties");
    let stored = rows(&server, "SELECT * FROM c WHERE c.id = '3'");
    assert!(stored[0]["_etag"].is_string(), "programs get them: {stored}");
    let limited =
        sql(&server, &[&ORDERS[..], &["--limit", "5", "--format", "jsonl", "SELECT * FROM c"]].concat());
    assert_eq!(printed(&limited).lines().count(), 5);
    assert!(String::from_utf8_lossy(&limited.stderr).contains("--limit 0 fetches all"));
}

#[test]
fn refusals_have_their_place_and_a_hint() {
    let server = server_with_orders();
    let refused = sql(&server, &[&ORDERS[..], &["SELECT *\nFROM c WHERE total > 1"]].concat());
    assert_eq!(
        complaint(&refused),
        "error: SC2001: Identifier 'total' could not be resolved.\n  FROM c WHERE total > 1\n               ^^^^^\nhint: write c.total for a property of the item\n"
    );
    let elsewhere = sql(&server, &["-d", "shop", "-c", "order", "SELECT 1"]);
    assert!(complaint(&elsewhere).contains("'order'"), "{elsewhere:?}");
    let nowhere = complaint(&sql(&server, &["SELECT 1"]));
    assert!(nowhere.contains("--database and --container") && nowhere.contains("shop/orders"), "{nowhere}");
    assert!(complaint(&sql(&server, &[" "])).contains("there is no query"));
    let unknown_key = sql(&server, &["--key", "AAAA", "-d", "shop", "-c", "orders", "SELECT 1"]);
    assert!(complaint(&unknown_key).contains("does not accept the key"));
    let absent =
        command(&["sql", "--endpoint=http://127.0.0.1:1", "-dshop", "-corders", "SELECT 1"]).output();
    assert!(complaint(&absent.unwrap()).contains("no connection"));
}

#[test]
fn scripts_run_to_their_first_failure() {
    let server = server_with_orders();
    let script = "-- comment\nuse shop/orders\nshow containers\nformat jsonl\nSELECT VALUE COUNT(1) FROM c; -- done\nSELECT VALUE 'a;b'\nFROM c WHERE c.id = '1'";
    assert_eq!(printed(&with_input(&server, script)), "orders\n120\n\"a;b\"\n");
    let described = with_input(&server, "describe shop/orders\n");
    for words in ["partition key  /customer", "30,000 RU/s", "items          120", "included     /*"] {
        assert!(printed(&described).contains(words), "{words} in {described:?}");
    }
    let failing = with_input(&server, "use shop/orders\nformat csv\nSELECT 1;\nSELECT nothing;\nSELECT 2;\n");
    assert_eq!(failing.status.code(), Some(1));
    assert!(!String::from_utf8_lossy(&failing.stdout).contains('2'), "{failing:?}");
    let wrong = with_input(&server, "use shop/none\n");
    assert!(complaint(&wrong).contains("the account has shop/orders"));
    assert!(complaint(&with_input(&server, "show tables\n")).contains("show containers"));
    assert!(complaint(&with_input(&server, "\\wrong\n")).contains("`help` lists them"));
    assert!(complaint(&with_input(&server, "")).contains("there is no query"));
}

#[test]
fn queries_and_exports_also_run_over_tls() {
    let directory = tempfile::tempdir().unwrap();
    let server = server_with_orders();
    let certificate = directory.path().join("ca.pem");
    std::fs::write(&certificate, crate::support::ca_of(&server)).unwrap();
    let endpoint = format!("https://localhost:{}", server.address().port());
    let over_tls = |arguments: &[&str]| {
        let mut command = command(arguments);
        command.args(["--endpoint", &endpoint, "--ca-file"]).arg(&certificate);
        command.output().unwrap()
    };
    let counted = over_tls(&["sql", "-dshop", "-corders", "--format=jsonl", "SELECT VALUE COUNT(1) FROM c"]);
    assert_eq!(printed(&counted), "120\n");
    let exported = over_tls(&["export", "-dshop", "-corders", "--quiet"]);
    assert_eq!(printed(&exported).lines().count(), 120);
    assert_eq!(exported.stderr, b"");
}

#[test]
fn a_read_only_key_reads_and_writes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let keys = directory.path().join("keys.json");
    let (full, read_only) = ("ZnVsbC1rZXktb2YtYS10ZXN0", "cmVhZC1vbmx5LWtleS1vZi1hLXRlc3Q=");
    std::fs::write(&keys, json!({ "primary": full, "primaryReadonly": read_only }).to_string()).unwrap();
    let started =
        ["serve", "--listen=127.0.0.1:0", "--durability=memory", "--key-file", keys.to_str().unwrap()];
    let server = Started::new(command(&started).current_dir(directory.path()));
    let endpoint = format!("http://{}", server.address());
    let owner = Client::new(server.address(), full);
    let _database = owner.create_database("d").expect_status(201);
    let _container = owner.create_container("d", "c", "/pk").expect_status(201);
    let _item =
        owner.create_item("d", "c", &json!(["p"]), &json!({ "id": "1", "pk": "p" })).expect_status(201);
    let reading = |arguments: &[&str]| {
        command(arguments).args(["--endpoint", &endpoint, "--key", read_only]).output().unwrap()
    };
    let query = reading(&["sql", "-dd", "-cc", "--format=jsonl", "SELECT VALUE c.id FROM c"]);
    assert_eq!(printed(&query), "\"1\"\n");
    assert_eq!(printed(&reading(&["export", "-dd", "-cc"])), "{\"id\":\"1\",\"pk\":\"p\"}\n");
    let file = directory.path().join("in.jsonl");
    std::fs::write(&file, "{\"id\":\"2\",\"pk\":\"p\"}\n").unwrap();
    let refused = reading(&["import", "-dd", "-cc", file.to_str().unwrap()]);
    let words = complaint(&refused);
    assert!(words.contains("the import stopped: ") && words.contains("read-only"), "{words}");
}

#[test]
fn names_with_spaces_and_other_letters_are_reached() {
    let server = in_memory().start();
    let client = server.client();
    let _database = client.create_database("my shop").expect_status(201);
    let key = json!({ "paths": ["/pk"], "kind": "Hash", "version": 2 });
    for id in ["größe 1+1", "other"] {
        let container = json!({ "id": id, "partitionKey": key });
        let created = client.post_json("/dbs/my%20shop/colls", &[], &container);
        let _created = created.expect_status(201);
    }
    let script = "use \"my shop/größe 1+1\"\nformat jsonl\nSELECT VALUE COUNT(1) FROM c;\ndescribe \"my shop\"/other\n";
    let output = with_input(&server, script);
    let shown = printed(&output);
    assert!(shown.starts_with("0\ncontainer      my shop/other\n"), "{shown}");
    let listed = with_input(&server, "use \"my shop\"\nshow containers\n");
    assert_eq!(printed(&listed), "größe 1+1\nother\n");
    let directly =
        sql(&server, &["-d", "my shop", "-c", "größe 1+1", "--format=jsonl", "SELECT VALUE COUNT(1) FROM c"]);
    assert_eq!(printed(&directly), "0\n");
}
