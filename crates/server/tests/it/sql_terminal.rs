//! `shardlake sql` at a terminal: lines, completion, history, limits, and Ctrl-C.

use std::fs;
use std::io::Read;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::process::{Signal, kill_process};
use serde_json::json;

use crate::command_at_terminal::{Terminal, half_a_server};
use crate::support::{command, in_memory};

fn start(endpoint: &str, home: &Path, arguments: &[&str]) -> Terminal {
    let mut shell = command(&["sql", "--endpoint", endpoint]);
    Terminal::start(shell.args(arguments).env("XDG_STATE_HOME", home))
}

#[test]
fn a_shell_completes_keeps_its_history_and_fetches_on() {
    let server = in_memory().start();
    let client = server.client();
    let _database = client.create_database("shop").expect_status(201);
    let _container = client.create_container("shop", "orders", "/customer").expect_status(201);
    for number in 0..5 {
        let item = json!({ "id": number.to_string(), "customer": "ada", "quantity": number });
        let _created = client.create_item("shop", "orders", &json!(["ada"]), &item).expect_status(201);
    }
    let home = tempfile::tempdir().unwrap();
    let endpoint = format!("http://{}", server.address());
    let mut shell = start(&endpoint, home.path(), &[]);
    shell.expect("`help` lists the commands");
    // The only container is chosen.
    shell.enter("shop/orders> ", "SELECT VALUE COUNT(1)");
    shell.write("FROM c;\r");
    let counted = shell.expect("1 partition (0)");
    assert!(counted.contains("value") && counted.contains("\n5\r"), "{counted:?}");
    shell.enter("shop/orders> ", "limit 2");
    shell.enter("shop/orders> ", "SELECT c.id, c.quantity FROM c ORDER BY c.quantity;");
    let limited = shell.expect("`more` fetches on");
    assert!(limited.contains("\n1   1\r") && !limited.contains("\n2   2\r"), "{limited:?}");
    shell.enter("shop/orders> ", "more");
    let further = shell.expect("`more` fetches on");
    assert!(further.contains("\n2   2\r") && further.contains("\n3   3\r"), "{further:?}");
    shell.enter("shop/orders> ", "more");
    shell.expect("-- 1 row");
    shell.enter("shop/orders> ", "more");
    shell.expect("error: the last query has no further rows");
    // Tab completes commands, names of containers, and properties of results.
    shell.enter("shop/orders> ", "descr\t shop/o\t");
    shell.expect("partition key  /customer");
    shell.enter("shop/orders> ", "SELECT VALUE c.quan\t FROM c WHERE c.id = '4';");
    shell.expect("c.quantity");
    shell.expect("\n4\r");
    // A refusal does not end the shell, and neither does Ctrl-C at the prompt.
    shell.enter("shop/orders> ", "SELECT quantity FROM c;");
    shell.expect("hint: write c.quantity");
    shell.prompt("shop/orders> ");
    shell.write("half a line\u{3}");
    shell.enter("shop/orders> ", "use shop");
    shell.enter("shop> ", "show containers");
    shell.expect("\norders\r");
    shell.enter("shop> ", "exit");
    shell.end();

    let history = home.path().join("shardlake/sql_history");
    let text = fs::read_to_string(&history).unwrap();
    assert_eq!(text.lines().next(), Some(r#""SELECT VALUE COUNT(1)\nFROM c;""#));
    assert_eq!(text.lines().last(), Some(r#""exit""#));
    assert_eq!(fs::metadata(&history).unwrap().permissions().mode() & 0o777, 0o600);

    // The next shell has it: the first of the inputs with these letters, found backwards.
    let mut shell = start(&endpoint, home.path(), &["-d", "shop", "-c", "orders"]);
    shell.prompt("shop/orders> ");
    shell.write("\u{12}COUNT");
    shell.expect("SELECT VALUE COUNT(1)");
    shell.write("\r");
    shell.expect("\n5\r");
    shell.prompt("shop/orders> ");
    shell.write("\u{4}");
    shell.end();
}

#[test]
fn ctrl_c_cancels_a_query_and_not_the_shell() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let home = tempfile::tempdir().unwrap();
    let mut shell = start(&endpoint, home.path(), &["-d", "d", "-c", "c"]);
    let serving = std::thread::spawn(move || {
        let answers = [("GET /dbs ", "{\"Databases\":[]}")];
        half_a_server(&listener, &answers, "POST /_shardlake/v1/dbs/d/colls/c/query ")
    });
    shell.enter("d/c> ", "SELECT * FROM c;");
    let mut stream = serving.join().unwrap();
    kill_process(shell.process(), Signal::INT).unwrap();
    shell.expect("-- cancelled");
    // The server learns of it by the end of the connection.
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    assert!(String::from_utf8(rest).unwrap().contains("SELECT * FROM c"));
    shell.enter("d/c> ", "exit");
    shell.end();
}
